//! The report of a run. Every output (terminal, JSON, HTML, store) is made from it.
//!
//! The JSON form is `ssdlab.report/1`; its schema is generated from these types and committed at
//! `docs/report.schema.json`, and a test fails when the two differ.

mod inside;
mod recording;
mod table;

pub use inside::{ReportAttribution, ReportCounters, ReportHealth, TimePart};
pub(crate) use recording::RECORDINGS_MAX;
pub use recording::{RecordedPicture, Recording};
pub use table::{Cell, Column, Table};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The version of the report's JSON form.
pub const SCHEMA: &str = "ssdlab.report/1";

/// Results of one run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Report {
    /// Always `ssdlab.report/1`.
    #[schemars(extend("const" = SCHEMA))]
    pub schema: String,
    /// The experiment's name, such as `fragmentation`.
    pub experiment: String,
    /// Drive that was measured.
    pub target: Target,
    /// The seed of every random choice.
    pub seed: u64,
    /// The parameters the protocol ran with, in the order to show them.
    pub parameters: Vec<Parameter>,
    /// True if the protocol was shortened, so that figures are not comparable with published
    /// ones.
    pub shortened: bool,
    /// True if the run was ended before the protocol was through; what was measured is here.
    pub interrupted: bool,
    /// The machine it ran on.
    pub host: Host,
    /// Start of the run, RFC 3339, UTC.
    pub started: String,
    /// The tables, most important first.
    pub tables: Vec<Table>,
    /// Curves.
    pub series: Vec<Series>,
    /// Latency histograms.
    pub histograms: Vec<LatencyHistogram>,
    /// Sentences the report stands behind, most important first.
    pub findings: Vec<Finding>,
    /// Counters of the inside of a simulated drive over the whole run; absent for a real one.
    pub counters: Option<ReportCounters>,
    /// Wear of a simulated drive at the end, by the names of the NVMe SMART / Health log; absent
    /// for a real one and for a stack of drives.
    #[serde(default)]
    pub health: Option<ReportHealth>,
    /// Parts of the time of a simulated drive's requests over the whole run; absent for a real
    /// one.
    #[serde(default)]
    pub attribution: Option<ReportAttribution>,
    /// Pictures of the inside of simulated SSDs over the run, one recording for each, where they were asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub recordings: Vec<Recording>,
    /// Cost of the run.
    pub cost: Cost,
}

/// A drive that was measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Target {
    /// `simulated`, `file`, `directory` or `device`.
    pub kind: TargetKind,
    /// Name by which the user gave it.
    pub name: String,
    /// Bytes that can be addressed.
    pub capacity_bytes: u64,
    /// Way in which requests reached it.
    pub engine: String,
    /// ReportContext that are not as one would expect, a sentence each.
    pub caveats: Vec<String>,
    /// Facts about the drive, in the order to show them.
    pub facts: Vec<Fact>,
}

/// Kind of drive that was measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum TargetKind {
    /// The model, in virtual time.
    Simulated,
    /// A file.
    File,
    /// A file made in a directory.
    Directory,
    /// A block device.
    Device,
}

/// A fact about a drive.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Fact {
    /// Subject of the fact.
    pub name: String,
    /// Value, with its unit.
    pub value: String,
}

/// A parameter of the protocol.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Parameter {
    /// Its name, as given to `--set`.
    pub name: String,
    /// Its value, as it would be given to `--set`.
    pub value: String,
    /// True if it differs from the full protocol.
    pub changed: bool,
}

/// The machine a run was made on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Host {
    /// Operating system and version.
    pub system: String,
    /// Processor architecture.
    pub architecture: String,
    /// Processors available to the run.
    pub processors: u32,
    /// Version of ssdlab.
    pub ssdlab: String,
}

/// A curve.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Series {
    /// Its name, such as `read_throughput`.
    pub name: String,
    /// Unit of `x`.
    pub unit_x: String,
    /// Unit of `y`.
    pub unit_y: String,
    /// Positions of the points; as long as `y`.
    pub x: Vec<f64>,
    /// Values that were measured at these positions.
    pub y: Vec<f64>,
}

/// Latencies of one kind of request in one part of the run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LatencyHistogram {
    /// Its name, such as `read_after_4000_mib`.
    pub name: String,
    /// Requests counted.
    pub count: u64,
    /// Mean, in microseconds.
    pub mean_us: f64,
    /// Percentiles that the number of samples supports.
    pub percentiles: Vec<Percentile>,
    /// Upper edge of each filled bucket, in microseconds, rising.
    pub bucket_us: Vec<f64>,
    /// Requests in each of those buckets.
    pub bucket_count: Vec<u64>,
}

/// One percentile of a latency histogram.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Percentile {
    /// The percentile, such as 99.9.
    pub percent: f64,
    /// Its value, in microseconds.
    pub us: f64,
}

/// Importance of a finding.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Good to know.
    Info,
    /// Worth a look.
    Notice,
    /// Likely to hurt.
    Warning,
    /// Hurts.
    Problem,
}

/// A sentence the report stands behind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    /// Importance of the finding.
    pub level: Level,
    /// A stable name for scripts, such as `reads-slower`.
    pub code: String,
    /// The sentence.
    pub text: String,
}

/// Cost of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Cost {
    /// Time by the wall clock.
    pub wall_seconds: f64,
    /// Processor time of this process.
    pub cpu_seconds: f64,
    /// Virtual time that passed; null for a real drive.
    pub simulated_seconds: Option<f64>,
    /// Requests sent.
    pub requests: u64,
    /// Mapping units (4 KiB blocks on a real drive) read or written by those requests.
    pub units: u64,
    /// Largest resident memory of the process, in bytes.
    pub peak_rss_bytes: u64,
}

impl Report {
    /// Returns the text of the first finding, for places with room for one sentence.
    pub fn headline(&self) -> Option<&str> {
        self.findings.first().map(|finding| finding.text.as_str())
    }

    /// Returns the table called `name`.
    pub fn table(&self, name: &str) -> Option<&Table> {
        self.tables.iter().find(|table| table.name == name)
    }
}

impl TargetKind {
    /// Returns the noun for this kind of target in a sentence.
    pub fn words(self) -> &'static str {
        match self {
            TargetKind::Simulated => "simulated drive",
            TargetKind::File => "file",
            TargetKind::Directory => "file in a directory",
            TargetKind::Device => "block device",
        }
    }
}
