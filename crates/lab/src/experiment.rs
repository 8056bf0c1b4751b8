//! What experiments have in common: parameters, steps with progress, and what they leave behind.

pub mod fragmentation;
mod settings;

use ssdlab_drive::{Control, Description, Drive, DriveKind, Observer, Progress};
use ssdlab_model::units::{ByteLength, Nanoseconds};

use crate::error::LabError;
use crate::report::{Finding, LatencyHistogram, Level, Percentile, Series, Table};
pub use settings::{Kind, ParameterSpec, Settings};

/// A protocol.
pub trait Experiment: Sync {
    /// Its name on the command line.
    fn name(&self) -> &'static str;

    /// The question it answers, in one line.
    fn question(&self) -> &'static str;

    /// Where the protocol comes from.
    fn source(&self) -> &'static str;

    /// Its parameters with the values of the full and of the quick protocol.
    fn parameters(&self) -> &'static [ParameterSpec];

    /// Checks parameters against each other, and sets those that follow from others; called
    /// before any drive is opened.
    fn check(&self, settings: &mut Settings) -> Result<(), LabError>;

    /// What a run will write and how long it rests; known before it starts.
    fn plan(&self, settings: &Settings) -> Plan;

    /// Runs the protocol. What was measured before an error stays in `record`.
    fn run(
        &self,
        settings: &Settings,
        seed: u64,
        drive: &mut dyn Drive,
        record: &mut Record,
        watcher: &mut dyn Watcher,
    ) -> Result<(), LabError>;
}

/// All experiments.
pub fn all() -> &'static [&'static dyn Experiment] {
    &[&fragmentation::Fragmentation]
}

/// The experiment called `name`.
pub fn named(name: &str) -> Result<&'static dyn Experiment, LabError> {
    all().iter().copied().find(|experiment| experiment.name() == name).ok_or_else(|| {
        LabError::UnknownExperiment {
            name: name.to_owned(),
            known: all().iter().map(|experiment| experiment.name()).collect::<Vec<_>>().join(", "),
        }
    })
}

/// What a run will do to the drive.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// Bytes written one after the other.
    pub sequential_writes: ByteLength,
    /// Bytes written in small blocks at random.
    pub random_writes: ByteLength,
    /// Bytes read one after the other.
    pub sequential_reads: ByteLength,
    /// Time in which the drive is left alone.
    pub rests: Nanoseconds,
    /// Bytes that must be free on the drive.
    pub space: ByteLength,
    /// The lengths of the requests it sends, each at a multiple of itself.
    pub block_sizes: Vec<ByteLength>,
}

impl Plan {
    /// All bytes the run writes.
    pub fn writes(&self) -> ByteLength {
        self.sequential_writes + self.random_writes
    }

    /// Checks that the drive takes requests of the plan's sizes; to be asked before anything is
    /// written.
    pub fn check_blocks(&self, drive: &Description) -> Result<(), LabError> {
        let unit = drive.block_size;
        let Some(block) = self.block_sizes.iter().find(|block| !block.is_multiple_of(unit)) else {
            return Ok(());
        };
        let takes = match drive.kind {
            DriveKind::Simulated => format!("the drive maps {unit} units"),
            _ => format!("the drive takes multiples of {unit}"),
        };
        Err(LabError::Unsupported(format!(
            "{}: this experiment writes {block} blocks; {takes}",
            drive.name
        )))
    }

    /// How long a run takes on a drive with the given sequential throughput, assuming
    /// [`RANDOM_WRITE_SHARE`] of it for small random writes.
    pub fn estimate(&self, bytes_per_second: f64) -> Nanoseconds {
        let sequential = (self.sequential_writes + self.sequential_reads).bytes() as f64;
        let random = self.random_writes.bytes() as f64 / RANDOM_WRITE_SHARE;
        Nanoseconds::from_secs_f64((sequential + random) / bytes_per_second) + self.rests
    }
}

/// What 4 KiB random writes one at a time reach of the sequential throughput, as an order of
/// magnitude: 40 of 400 MB/s on SATA drives, 150 of 2000 MB/s on NVMe drives.
pub const RANDOM_WRITE_SHARE: f64 = 0.08;

/// Is told how far a run has come, and may end it.
pub trait Watcher {
    /// A step begins. `weight` is its share of the whole run, which sums to about one.
    fn step(&mut self, name: &str, weight: f64);

    /// How much of the step is done, between 0 and 1.
    fn progress(&mut self, done: f64) -> Control;
}

/// A watcher that looks away.
pub struct Unwatched;

impl Watcher for Unwatched {
    fn step(&mut self, _: &str, _: f64) {}
    fn progress(&mut self, _: f64) -> Control {
        Control::Continue
    }
}

/// Lets a watcher observe a drive.
pub(crate) struct Watched<'a>(pub(crate) &'a mut dyn Watcher);

impl Observer for Watched<'_> {
    fn progress(&mut self, progress: &Progress) -> Control {
        let share = |done: u64, total: u64| done as f64 / total.max(1) as f64;
        let done = match (progress.bytes_total, progress.time_total) {
            (Some(total), _) => share(progress.bytes_done.bytes(), total.bytes()),
            (None, Some(total)) => share(progress.elapsed.nanos(), total.nanos()),
            (None, None) => 0.0,
        };
        self.0.progress(done.min(1.0))
    }
}

/// What a run leaves behind, filled as it goes.
#[derive(Clone, Debug, Default)]
pub struct Record {
    /// Tables, most important first.
    pub tables: Vec<Table>,
    /// Curves.
    pub series: Vec<Series>,
    /// Latency histograms.
    pub histograms: Vec<LatencyHistogram>,
    /// Findings, most important first.
    pub findings: Vec<Finding>,
    /// Requests sent.
    pub requests: u64,
    /// Bytes read or written.
    pub bytes: ByteLength,
}

impl Record {
    /// Adds a finding.
    pub fn find(&mut self, level: Level, code: &str, text: String) {
        self.findings.push(Finding { level, code: code.to_owned(), text });
    }

    /// Adds the latencies of one kind of request; nothing where there was none.
    pub fn add_latencies(&mut self, name: &str, latencies: &ssdlab_drive::Latencies) {
        let Some(mean) = latencies.mean() else { return };
        let us = |nanos: u64| nanos as f64 / 1e3;
        let percentiles = [50.0, 90.0, 99.0, 99.9, 99.99]
            .into_iter()
            .filter_map(|percent| {
                let value = latencies.percentile(percent)?;
                Some(Percentile { percent, us: value.micros() })
            })
            .collect();
        // Steps that grow by a thirtieth: fine enough for a picture on a logarithmic axis.
        let (mut bucket_us, mut bucket_count): (Vec<f64>, Vec<u64>) = (Vec::new(), Vec::new());
        for step in latencies.histogram().iter_log(100, 1.03) {
            if step.count_since_last_iteration() > 0 {
                bucket_us.push(us(step.value_iterated_to()));
                bucket_count.push(step.count_since_last_iteration());
            }
        }
        self.histograms.push(LatencyHistogram {
            name: name.to_owned(),
            count: latencies.count(),
            mean_us: mean.micros(),
            percentiles,
            bucket_us,
            bucket_count,
        });
    }
}
