//! What experiments have in common: parameters, steps with progress, and what they leave behind.

pub mod barrier;
pub mod blocksize;
mod course;
pub mod discard;
pub(crate) mod figures;
pub mod fragmentation;
pub mod job;
pub mod latency;
pub mod load_latency;
mod lows;
pub(crate) mod oracle;
pub mod overprovision;
pub mod random_write;
mod real_files;
pub mod replay;
mod rounds;
mod settings;
pub(crate) mod side_by_side;
pub mod steady;
mod trials;
pub mod trim_check;
mod words;
mod workload;
pub mod write_cliff;

use ssdlab_drive::{Control, Description, Drive, Observer, Phase, Progress};
use ssdlab_units::text::hint;
use ssdlab_units::{ByteLength, Nanoseconds};

use crate::error::LabError;
use crate::report::{Finding, LatencyHistogram, Level, Parameter, Percentile, Series, Table};
pub use course::Tally;
pub use settings::{Kind, ParameterSpec, Settings};

/// A protocol.
pub trait Experiment: Sync {
    /// Its name on the command line.
    fn name(&self) -> &'static str;

    /// The question it answers, in one line.
    fn question(&self) -> &'static str;

    /// Returns where the protocol comes from.
    fn source(&self) -> &'static str;

    /// Its parameters with the values of the full and of the quick protocol.
    fn parameters(&self) -> &'static [ParameterSpec];

    /// Returns true if a block device may be its target, all of which it then writes over.
    fn takes_devices(&self) -> bool {
        false
    }

    /// Returns true if the answers of a real drive are examined at the end, which writes to it.
    fn examines(&self, _settings: &Settings) -> bool {
        true
    }

    /// Returns true if what it writes, and for how long it measures, follow the size of the drive,
    /// so that a quick run takes a smaller drive and not a shorter protocol.
    fn scales_with_the_drive(&self) -> bool {
        false
    }

    /// Checks parameters against each other, and sets those that follow from others; called
    /// before any drive is opened.
    fn check(&self, settings: &mut Settings) -> Result<(), LabError>;

    /// Returns what a run will do to a drive; known before it starts. Fails where the drive is one that the protocol
    /// cannot be run on.
    fn plan(&self, settings: &Settings, drive: &Description) -> Result<Plan, LabError>;

    /// Parameters that stand for something which only a simulated drive lacks: on a real one they
    /// would have no effect, and setting them is an error.
    fn only_simulated(&self) -> &'static [&'static str] {
        &[]
    }

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
    &[
        &fragmentation::Fragmentation,
        &blocksize::BlockSize,
        &random_write::RandomWrite,
        &write_cliff::WriteCliff,
        &steady::SteadyState,
        &latency::ResponseTime,
        &load_latency::LoadLatency,
        &barrier::Barrier,
        &trim_check::TrimCheck,
        &discard::Discard,
        &overprovision::OverProvision,
        &job::FioJob,
        &replay::Replay,
    ]
}

/// The names of those that a block device may be the target of.
pub fn on_devices() -> Vec<&'static str> {
    all().iter().filter(|one| one.takes_devices()).map(|one| one.name()).collect()
}

/// The experiment called `name`.
pub fn named(name: &str) -> Result<&'static dyn Experiment, LabError> {
    all().iter().copied().find(|experiment| experiment.name() == name).ok_or_else(|| {
        LabError::UnknownExperiment {
            name: name.to_owned(),
            hint: hint(name, all().iter().map(|experiment| experiment.name())),
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
    /// Bytes written at random in requests of 64 KiB, several at a time, to make a drive a used one.
    pub large_random_writes: ByteLength,
    /// Bytes trimmed, which loses what they held as a write does.
    pub trims: ByteLength,
    /// Bytes read one after the other.
    pub sequential_reads: ByteLength,
    /// Time for which the drive is written to as fast as it takes it.
    pub writing: Nanoseconds,
    /// Time for which it is read as fast as it answers.
    pub reading: Nanoseconds,
    /// Time in which the drive is left alone.
    pub rests: Nanoseconds,
    /// Time for what does not hang on throughput: flushes, the host's own work.
    pub besides: Nanoseconds,
    /// After so long small random writes, and what goes on besides, end unfinished.
    pub limit: Option<Nanoseconds>,
    /// What the time for writing is filled with: lengths of requests that share it evenly, and how
    /// many are in flight. Where there is none it is as fast as sequential writes.
    pub timed_requests: (Vec<ByteLength>, u32),
    /// Number of workloads, over all drives, that end when they are steady; the time for writing and reading is their
    /// limit.
    pub until_steady: u64,
    /// Bytes that must be free on the drive.
    pub space: ByteLength,
    /// What it makes at the place that the user named, where that is not one file.
    pub made: Option<String>,
    /// The lengths of the requests it sends, each at a multiple of itself.
    pub block_sizes: Vec<ByteLength>,
    /// How many simulated drives it holds at a time.
    pub drives: DrivesAtOnce,
}

/// Simulated drives that are in memory at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DrivesAtOnce {
    /// Those that are there throughout, in use.
    pub throughout: u32,
    /// Those of each workload that runs beside others on a copy of its own.
    pub per_copy: u32,
    /// How many such workloads there are.
    pub copies: u32,
}

impl Default for DrivesAtOnce {
    fn default() -> Self {
        DrivesAtOnce { throughout: 1, per_copy: 0, copies: 0 }
    }
}

impl Plan {
    /// All bytes the run writes to a drive that takes `bytes_per_second` of sequential writes;
    /// about, where it writes for a time.
    pub fn writes(&self, bytes_per_second: f64) -> ByteLength {
        let timed = self.writing.seconds() * bytes_per_second * self.timed_share();
        self.counted_writes() + ByteLength::new(timed as u64)
    }

    /// Returns what the requests of the time for writing reach of the sequential throughput: a request takes a time of
    /// its own besides that for its bytes, and those in flight share it.
    fn timed_share(&self) -> f64 {
        let (lengths, depth) = &self.timed_requests;
        if lengths.is_empty() {
            return 1.0;
        }
        let share = |length: &ByteLength| {
            let in_flight = length.bytes() as f64 * f64::from((*depth).max(1));
            in_flight / (in_flight + REQUEST_COSTS.bytes() as f64)
        };
        lengths.iter().map(share).sum::<f64>() / lengths.len() as f64
    }

    /// Bytes that it writes however fast the drive is.
    pub(crate) fn counted_writes(&self) -> ByteLength {
        self.sequential_writes + self.random_writes + self.large_random_writes
    }

    /// Returns true if the run writes at all; a trim counts as well.
    pub fn is_writing(&self) -> bool {
        self.counted_writes() + self.trims > ByteLength::ZERO || self.writing > Nanoseconds::ZERO
    }

    /// Checks that the drive takes requests of the plan's sizes; to be asked before anything is
    /// written.
    pub fn check_blocks(&self, drive: &Description) -> Result<(), LabError> {
        let unit = drive.block_size;
        let Some(block) = self.block_sizes.iter().find(|block| !block.is_multiple_of(unit)) else {
            return Ok(());
        };
        Err(LabError::Unsupported(format!(
            "{}: this experiment writes blocks of {} bytes; the drive takes multiples of {unit}",
            drive.name,
            block.bytes()
        )))
    }

    /// Returns how long a run takes on a drive with the given sequential throughput, assuming
    /// [`RANDOM_WRITE_SHARE`] of it for small random writes and [`LARGE_RANDOM_WRITE_SHARE`] for
    /// large ones.
    pub fn estimate(&self, bytes_per_second: f64) -> Nanoseconds {
        let sequential = (self.sequential_writes + self.sequential_reads).bytes() as f64;
        let random = self.random_writes.bytes() as f64 / RANDOM_WRITE_SHARE
            + self.large_random_writes.bytes() as f64 / LARGE_RANDOM_WRITE_SHARE;
        let at_random = Nanoseconds::from_secs_f64(random / bytes_per_second) + self.besides;
        let at_random = self.limit.map_or(at_random, |limit| at_random.min(limit));
        let sequential = Nanoseconds::from_secs_f64(sequential / bytes_per_second);
        sequential + at_random + self.writing + self.reading + self.rests
    }
}

/// What 4 KiB random writes one at a time reach of the sequential throughput, as an order of
/// magnitude: 40 of 400 MB/s on SATA drives, 150 of 2000 MB/s on NVMe drives.
pub const RANDOM_WRITE_SHARE: f64 = 0.08;

/// A request costs as much time besides its bytes as so many more would take: writes of 4 KiB one at a
/// time then come to [`RANDOM_WRITE_SHARE`].
const REQUEST_COSTS: ByteLength = ByteLength::new(47_104);

/// What random writes of 64 KiB, several at a time, reach of it, as an order of magnitude: all of it
/// on a new drive, a quarter of it once each write has to be paid for by collection with little spare
/// area (a write amplification of 4).
pub const LARGE_RANDOM_WRITE_SHARE: f64 = 0.5;

/// Is told how far a run has come, and may end it.
pub trait Watcher {
    /// A step begins. `weight` is its share of the whole run, which sums to about one.
    fn step(&mut self, name: &str, weight: f64);

    /// Returns how much of the step is done, between 0 and 1.
    fn progress(&mut self, done: f64) -> Control;

    /// Takes what the drive has done since the sample before. Workloads that run side by side give none.
    fn sample(&mut self, _sample: Sample) {}
}

/// A piece of a workload under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sample {
    /// Bytes went to or from the drive within this much of its time.
    Transferred {
        /// Bytes read or written.
        bytes: ByteLength,
        /// Time of the drive.
        time: Nanoseconds,
    },
    /// A simulated drive has programmed its flash, for the host and for itself.
    Programmed {
        /// Units that the host wrote.
        host_units: u64,
        /// Units that the flash was programmed with.
        flash_units: u64,
    },
}

/// A watcher that looks away.
pub struct Unwatched;

impl Watcher for Unwatched {
    fn step(&mut self, _: &str, _: f64) {}
    fn progress(&mut self, _: f64) -> Control {
        Control::Continue
    }
}

/// Lets a watcher observe a drive for one phase.
pub(crate) struct Watched<'a> {
    watcher: &'a mut dyn Watcher,
    /// Bytes and time of the phase that the watcher knows of.
    known: (ByteLength, Nanoseconds),
}

impl<'a> Watched<'a> {
    pub(crate) fn by(watcher: &'a mut dyn Watcher) -> Watched<'a> {
        Watched { watcher, known: (ByteLength::ZERO, Nanoseconds::ZERO) }
    }

    /// Passes on what was transferred since the sample before. A rest transfers nothing.
    fn pass_on(&mut self, progress: &Progress) {
        let (bytes, time) = self.known;
        if progress.bytes_done > bytes && progress.elapsed > time {
            self.known = (progress.bytes_done, progress.elapsed);
            let bytes = ByteLength::new(progress.bytes_done.bytes() - bytes.bytes());
            let time = Nanoseconds::new(progress.elapsed.nanos() - time.nanos());
            self.watcher.sample(Sample::Transferred { bytes, time });
        }
    }
}

impl Observer for Watched<'_> {
    fn progress(&mut self, progress: &Progress) -> Control {
        self.pass_on(progress);
        let share = |done: u64, total: u64| done as f64 / total.max(1) as f64;
        let done = match (progress.bytes_total, progress.time_total) {
            (Some(total), _) => share(progress.bytes_done.bytes(), total.bytes()),
            (None, Some(total)) => share(progress.elapsed.nanos(), total.nanos()),
            (None, None) => 0.0,
        };
        self.watcher.progress(done.min(1.0))
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
    /// What else the report should say the run was made with, beside the protocol's parameters.
    pub parameters: Vec<Parameter>,
    /// What it took of the drives.
    pub tally: Tally,
}

impl Record {
    /// Adds a finding.
    pub fn find(&mut self, level: Level, code: &str, text: String) {
        self.findings.push(Finding { level, code: code.to_owned(), text });
    }

    /// Adds a curve; a single point is none.
    pub(crate) fn add_series(&mut self, name: String, units: (&str, &str), points: &[(f64, f64)]) {
        if points.len() > 1 {
            let (x, y) = points.iter().copied().unzip();
            let (unit_x, unit_y) = (units.0.to_owned(), units.1.to_owned());
            self.series.push(Series { name, unit_x, unit_y, x, y });
        }
    }

    /// Says that figures of a shortened protocol are no published ones.
    pub(crate) fn say_if_shortened(&mut self, settings: &Settings) {
        let divisor = settings.divisor();
        if divisor > 1 {
            self.find(
                Level::Info,
                "scaled",
                format!(
                    "This is the whole protocol on a drive of 1/{divisor} the size. Throughput and write \
                     amplification are those of the whole drive within a few per cent. Volumes, and \
                     times until something happens, are {divisor} times these. How latencies scatter, \
                     and how they grow near the drive's limit, depends on the size of its erase blocks: \
                     without --quick the drive is simulated whole."
                ),
            );
        } else if settings.shortened() {
            self.find(
                Level::Info,
                "shortened",
                "The protocol was changed or shortened; compare these figures only with runs of the same \
                 parameters."
                    .to_owned(),
            );
        }
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

/// The longest time that one workload may be measured: what is longer is a slip.
const MOST_TIME: Nanoseconds = Phase::LONGEST;

/// The longest time that a host may take by itself for one step of its own, such as an insert.
const MOST_HOST_TIME: Nanoseconds = Nanoseconds::from_secs(10);

/// Checks the duration called `name` of a workload.
fn check_time(settings: &Settings, name: &'static str) -> Result<(), LabError> {
    let time = settings.duration(name);
    if time > Nanoseconds::ZERO && time <= MOST_TIME {
        return Ok(());
    }
    Err(LabError::Range {
        name,
        value: settings.text(name).to_owned(),
        why: "it must be more than none and at most 25 days".to_owned(),
    })
}

/// Checks the time called `name` that a simulated drive's host takes by itself.
fn check_host_time(settings: &Settings, name: &'static str) -> Result<(), LabError> {
    if settings.duration(name) <= MOST_HOST_TIME {
        return Ok(());
    }
    Err(LabError::Range {
        name,
        value: settings.text(name).to_owned(),
        why: "it must be at most 10 s".to_owned(),
    })
}
