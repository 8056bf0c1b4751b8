//! The report: what a run leaves behind, and the one contract that everything else reads.
//!
//! The JSON form is `ssdlab.report/1`; its schema is generated from these types and committed at
//! `docs/report.schema.json`, and a test fails when the two differ.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The version of the report's JSON form.
pub const SCHEMA: &str = "ssdlab.report/1";

/// Parts of the time of requests below this share are not shown to people.
const LEAST_SHARE: f64 = 0.005;

/// What one run found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Report {
    /// Always `ssdlab.report/1`.
    #[schemars(extend("const" = SCHEMA))]
    pub schema: String,
    /// The experiment's name, such as `fragmentation`.
    pub experiment: String,
    /// What was measured.
    pub target: Target,
    /// The seed of every random choice.
    pub seed: u64,
    /// The parameters the protocol ran with, in the order to show them.
    pub parameters: Vec<Parameter>,
    /// Whether the protocol was shortened, so that figures are not comparable with published
    /// ones.
    pub shortened: bool,
    /// Whether the run was ended before the protocol was through; what was measured is here.
    pub interrupted: bool,
    /// The machine it ran on.
    pub host: Host,
    /// When it started, RFC 3339, UTC.
    pub started: String,
    /// The tables, most important first.
    pub tables: Vec<Table>,
    /// Curves.
    pub series: Vec<Series>,
    /// Latency histograms.
    pub histograms: Vec<LatencyHistogram>,
    /// Sentences the report stands behind, most important first.
    pub findings: Vec<Finding>,
    /// What the inside of a simulated drive counted over the whole run; absent for a real one.
    pub counters: Option<ReportCounters>,
    /// How worn a simulated drive was at the end, by the names of the NVMe SMART / Health log; absent
    /// for a real one and for a stack of drives.
    #[serde(default)]
    pub health: Option<ReportHealth>,
    /// Where the time of a simulated drive's requests went over the whole run; absent for a real
    /// one.
    #[serde(default)]
    pub attribution: Option<ReportAttribution>,
    /// What the run cost.
    pub cost: Cost,
}

/// What was measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Target {
    /// `simulated`, `file`, `directory` or `device`.
    pub kind: TargetKind,
    /// How the user named it.
    pub name: String,
    /// Bytes that can be addressed.
    pub capacity_bytes: u64,
    /// How requests reached it.
    pub engine: String,
    /// What is not as one would expect, a sentence each.
    pub caveats: Vec<String>,
    /// Facts about the drive, in the order to show them.
    pub facts: Vec<Fact>,
}

/// What kind of drive was measured.
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
    /// What it is about.
    pub name: String,
    /// What it is, with its unit.
    pub value: String,
}

/// A parameter of the protocol.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Parameter {
    /// Its name, as given to `--set`.
    pub name: String,
    /// Its value, as it would be given to `--set`.
    pub value: String,
    /// Whether it differs from the full protocol.
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

/// A table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Table {
    /// Its name, such as `reads`.
    pub name: String,
    /// Its columns.
    pub columns: Vec<Column>,
    /// Its rows, each with a cell per column, in the columns' order.
    pub rows: Vec<Vec<Cell>>,
}

/// A column of a table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Column {
    /// Its name, such as `best_seconds`.
    pub name: String,
    /// The unit of its numbers; empty where there is none.
    pub unit: String,
}

/// A cell: numbers are numbers, yes and no are booleans, what was not measured is null.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Cell {
    /// Not measured, or not defensible.
    Null,
    /// Yes or no.
    Boolean(bool),
    /// A whole number.
    Integer(u64),
    /// Any other number.
    Number(f64),
    /// Words.
    Text(String),
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
    /// Where the points lie; as long as `y`.
    pub x: Vec<f64>,
    /// What was measured there.
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
    /// Which, such as 99.9.
    pub percent: f64,
    /// Its value, in microseconds.
    pub us: f64,
}

/// How much a finding matters.
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
    /// How much it matters.
    pub level: Level,
    /// A stable name for scripts, such as `reads-slower`.
    pub code: String,
    /// The sentence.
    pub text: String,
}

/// What the inside of a simulated drive counted over the whole run. Units are mapping units.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ReportCounters {
    /// Units the host wrote, whole or in part.
    pub host_writes: u64,
    /// Of these, units it wrote only in part: the drive reads the rest and programs a whole one.
    #[serde(default)]
    pub part_writes: u64,
    /// Units the host read.
    pub host_reads: u64,
    /// Units programmed, for the host, for collection, as padding or with metadata.
    pub flash_writes: u64,
    /// `flash_writes` / `host_writes`; null before the first write.
    pub write_amplification: Option<f64>,
    /// Of `flash_writes`, those with metadata: the map on flash or its journal, the map saved now and
    /// then, records of trims. What NVMe's own counters do not show.
    #[serde(default)]
    pub metadata_writes: u64,
    /// The rest of `flash_writes` / `host_writes`, which is what theory speaks of; null before the
    /// first write.
    #[serde(default)]
    pub data_write_amplification: Option<f64>,
    /// Bytes the host wrote.
    #[serde(default)]
    pub host_written_bytes: u64,
    /// Bytes the flash was programmed with; by `host_written_bytes` this is the write amplification
    /// that data sheets rate life with, and more than `write_amplification` where the host writes
    /// parts of units.
    #[serde(default)]
    pub flash_written_bytes: u64,
    /// Units that collection moved.
    pub collection_writes: u64,
    /// Units copied to keep the map small or blocks in order: extents condensed into one, merges.
    #[serde(default)]
    pub merge_writes: u64,
    /// Units programmed empty to complete a program unit.
    pub padding_writes: u64,
    /// Flash pages read for the host.
    pub flash_page_reads: u64,
    /// Flash pages read by collection.
    pub collection_page_reads: u64,
    /// Flash pages read to complete units that the host wrote in part.
    #[serde(default)]
    pub merge_page_reads: u64,
    /// Pages of a map on flash that were read.
    #[serde(default)]
    pub map_page_reads: u64,
    /// Collection units erased.
    pub erases: u64,
    /// Erases of the least worn collection unit.
    pub erases_min: u32,
    /// Mean number of erases of a collection unit.
    pub erases_mean: f64,
    /// Erases of the most worn collection unit.
    pub erases_max: u32,
    /// Units the host trimmed.
    pub trims: u64,
    /// Flush commands.
    pub flushes: u64,
}

/// How worn a drive is, by the names of the NVMe SMART / Health information log (log page 02h). Fields
/// of which the model knows nothing (temperatures, power cycles, media errors) are absent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ReportHealth {
    /// Bit 0: the spare is below its threshold. Bit 3: the drive has become read-only.
    pub critical_warning: u8,
    /// Percentage of the spare blocks that are left; absent where no block goes bad.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub available_spare: Option<u8>,
    /// Below which of that the drive warns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub available_spare_threshold: Option<u8>,
    /// Mean erases of a block in percent of the rated cycles, 255 at most; absent where the profile
    /// names none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub percentage_used: Option<u8>,
    /// Read by the host, in thousands of 512 bytes, rounded up.
    pub data_units_read: u64,
    /// Written by the host, in the same.
    pub data_units_written: u64,
    /// Read commands.
    pub host_read_commands: u64,
    /// Write commands.
    pub host_write_commands: u64,
    /// Minutes in which at least one request was with the drive.
    pub controller_busy_time: u64,
    /// Hours of the drive's time since it was made, made new or opened.
    pub power_on_hours: u64,
    /// Times that power was lost without warning.
    pub unsafe_shutdowns: u64,
    /// Writes that were refused because the drive had become read-only.
    pub num_err_log_entries: u64,
    /// Not of the log: bytes that the host can still write until the rated cycles are used up, at
    /// the write amplification so far; absent where that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remaining_life_bytes: Option<u64>,
}

/// Where the time of requests went: what they spent it on, summed over all requests of a kind. Of a
/// stack of drives, summed over its members.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ReportAttribution {
    /// Reads.
    pub reads: Vec<TimePart>,
    /// Writes.
    pub writes: Vec<TimePart>,
    /// Flushes and trims.
    pub others: Vec<TimePart>,
}

/// Time spent on one thing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TimePart {
    /// What it was spent on, such as `flash read` or `queue`.
    pub name: String,
    /// Seconds of the drive's time, summed over requests.
    pub seconds: f64,
}

impl ReportAttribution {
    /// For each kind of request that there was, its name and the parts that matter, the largest
    /// first, as shares of the sum.
    pub fn shares(&self) -> Vec<(&'static str, Vec<(&str, f64)>)> {
        let kinds =
            [("reads", &self.reads), ("writes", &self.writes), ("flushes and trims", &self.others)];
        let mut shares = Vec::new();
        for (kind, parts) in kinds {
            let total: f64 = parts.iter().map(|part| part.seconds).sum();
            let share = |part: &TimePart| part.seconds / total;
            let mut named: Vec<(&str, f64)> =
                parts.iter().map(|part| (part.name.as_str(), share(part))).collect();
            named.retain(|(_, share)| *share >= LEAST_SHARE);
            named.sort_by(|one, other| other.1.total_cmp(&one.1));
            if !named.is_empty() {
                shares.push((kind, named));
            }
        }
        shares
    }
}

/// What a run cost.
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

impl ReportCounters {
    /// What two drives have counted, or one before and after it was made new. Of their wear, the
    /// extremes, and the mean of the one with more of it: collection units that lived twice are
    /// no more units.
    pub(crate) fn and(self, other: ReportCounters) -> ReportCounters {
        let host_writes = self.host_writes + other.host_writes;
        let flash_writes = self.flash_writes + other.flash_writes;
        let metadata_writes = self.metadata_writes + other.metadata_writes;
        let ratio = |units: u64| (host_writes > 0).then(|| units as f64 / host_writes as f64);
        ReportCounters {
            host_writes,
            part_writes: self.part_writes + other.part_writes,
            host_written_bytes: self.host_written_bytes + other.host_written_bytes,
            flash_written_bytes: self.flash_written_bytes + other.flash_written_bytes,
            host_reads: self.host_reads + other.host_reads,
            flash_writes,
            write_amplification: ratio(flash_writes),
            metadata_writes,
            data_write_amplification: ratio(flash_writes - metadata_writes),
            collection_writes: self.collection_writes + other.collection_writes,
            merge_writes: self.merge_writes + other.merge_writes,
            padding_writes: self.padding_writes + other.padding_writes,
            flash_page_reads: self.flash_page_reads + other.flash_page_reads,
            merge_page_reads: self.merge_page_reads + other.merge_page_reads,
            map_page_reads: self.map_page_reads + other.map_page_reads,
            collection_page_reads: self.collection_page_reads + other.collection_page_reads,
            erases: self.erases + other.erases,
            erases_min: self.erases_min.min(other.erases_min),
            erases_mean: self.erases_mean.max(other.erases_mean),
            erases_max: self.erases_max.max(other.erases_max),
            trims: self.trims + other.trims,
            flushes: self.flushes + other.flushes,
        }
    }
}

impl Report {
    /// The sentence to show where there is room for one: the first finding.
    pub fn headline(&self) -> Option<&str> {
        self.findings.first().map(|finding| finding.text.as_str())
    }

    /// The table called `name`.
    pub fn table(&self, name: &str) -> Option<&Table> {
        self.tables.iter().find(|table| table.name == name)
    }
}

impl TargetKind {
    /// What to call it in a sentence.
    pub fn words(self) -> &'static str {
        match self {
            TargetKind::Simulated => "simulated drive",
            TargetKind::File => "file",
            TargetKind::Directory => "file in a directory",
            TargetKind::Device => "block device",
        }
    }
}

impl Table {
    /// Where the column called `name` is.
    pub fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column.name == name)
    }

    /// How many leading columns say what a row is about: the fewest whose cells tell all rows
    /// apart. Measurements are no names, so that a column with fractions ends the search; where
    /// rows still look alike, their order tells them apart.
    pub fn key_columns(&self) -> usize {
        let is_name = |column: usize| {
            !self.rows.iter().any(|row| matches!(row.get(column), Some(Cell::Number(_))))
        };
        let most = (0..self.columns.len()).take_while(|&column| is_name(column)).count();
        let distinct = |count: usize| {
            self.rows.iter().enumerate().all(|(index, row)| {
                self.rows[..index].iter().all(|other| other.get(..count) != row.get(..count))
            })
        };
        let first = 1.min(self.columns.len());
        (first..=most).find(|&count| distinct(count)).unwrap_or(first)
    }
}

impl Cell {
    /// The number in it.
    pub fn number(&self) -> Option<f64> {
        match self {
            Cell::Integer(value) => Some(*value as f64),
            Cell::Number(value) => Some(*value),
            Cell::Null | Cell::Boolean(_) | Cell::Text(_) => None,
        }
    }
}

impl From<bool> for Cell {
    fn from(value: bool) -> Self {
        Cell::Boolean(value)
    }
}

impl From<u64> for Cell {
    fn from(value: u64) -> Self {
        Cell::Integer(value)
    }
}

impl From<f64> for Cell {
    /// What is not a finite number was not measured: JSON has no word for it either.
    fn from(value: f64) -> Self {
        if value.is_finite() { Cell::Number(value) } else { Cell::Null }
    }
}

impl From<&str> for Cell {
    fn from(value: &str) -> Self {
        Cell::Text(value.to_owned())
    }
}

impl From<String> for Cell {
    fn from(value: String) -> Self {
        Cell::Text(value)
    }
}

impl<T: Into<Cell>> From<Option<T>> for Cell {
    fn from(value: Option<T>) -> Self {
        value.map_or(Cell::Null, Into::into)
    }
}

impl Column {
    /// A column of numbers in `unit`, or of words where that is empty.
    pub fn new(name: impl Into<String>, unit: impl Into<String>) -> Self {
        Column { name: name.into(), unit: unit.into() }
    }
}
