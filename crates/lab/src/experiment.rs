//! The experiment interface: parameters, plan, progress, and the record of a run.

pub mod barrier;
pub mod blocksize;
pub mod discard;
pub mod fragmentation;
pub mod job;
pub(crate) mod job_table;
pub mod latency;
pub mod load_latency;
mod lows;
pub mod overprovision;
pub(crate) mod parallel;
mod phase_runner;
pub mod random_write;
pub mod replay;
mod rounds;
mod settings;
pub mod steady;
mod temporary_directory;
mod text_format;
pub(crate) mod theory_comparison;
mod trials;
pub mod trim_check;
mod workload;
pub mod write_cliff;

use ssdlab_drive::{Control, Description, Drive, Observer, Phase, Progress};
use ssdlab_units::text::hint;
use ssdlab_units::{ByteLength, Nanoseconds};

use crate::error::LabError;
use crate::report::{Finding, LatencyHistogram, Level, Parameter, Percentile, Series, Table};
pub use phase_runner::Tally;
pub use settings::{Kind, ParameterSpec, Settings};

/// A measurement protocol.
pub trait Experiment: Sync {
    /// Returns the name on the command line.
    fn name(&self) -> &'static str;

    /// Returns the question that the experiment answers, in one line.
    fn question(&self) -> &'static str;

    /// Returns the source of the protocol.
    fn source(&self) -> &'static str;

    /// Returns the parameters, with their values in the full and in the quick protocol.
    fn parameters(&self) -> &'static [ParameterSpec];

    /// Returns true if the target may be a block device. The experiment overwrites all of it.
    fn accepts_block_devices(&self) -> bool {
        false
    }

    /// Returns true if the answers of a real drive are verified after the protocol, which writes to it.
    fn checks_plausibility(&self, _settings: &Settings) -> bool {
        true
    }

    /// Returns true if the written volume and the measured time follow the size of the drive, so that a quick
    /// run uses a smaller drive instead of a shorter protocol.
    fn scales_with_capacity(&self) -> bool {
        false
    }

    /// Checks parameters against each other, and sets those that follow from others. It is called before any
    /// drive is opened.
    fn check(&self, settings: &mut Settings) -> Result<(), LabError>;

    /// Returns the plan: what a run will do to the drive. Returns an error if the protocol cannot run on this
    /// drive.
    fn plan(&self, settings: &Settings, drive: &Description) -> Result<Plan, LabError>;

    /// Returns the parameters that replace something which a simulated drive lacks. They have no effect on a
    /// real drive, so setting one there is an error.
    fn simulated_only_parameters(&self) -> &'static [&'static str] {
        &[]
    }

    /// Runs the protocol. After an error, `record` holds what was measured before it.
    fn run(
        &self,
        settings: &Settings,
        seed: u64,
        drive: &mut dyn Drive,
        record: &mut Record,
        watcher: &mut dyn Watcher,
    ) -> Result<(), LabError>;
}

/// Returns all experiments.
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

/// Returns the names of the experiments that may run on a block device.
pub fn names_for_block_devices() -> Vec<&'static str> {
    all().iter().filter(|one| one.accepts_block_devices()).map(|one| one.name()).collect()
}

/// Returns the experiment called `name`.
pub fn named(name: &str) -> Result<&'static dyn Experiment, LabError> {
    all().iter().copied().find(|experiment| experiment.name() == name).ok_or_else(|| {
        LabError::UnknownExperiment {
            name: name.to_owned(),
            hint: hint(name, all().iter().map(|experiment| experiment.name())),
        }
    })
}

/// The requests and the time of a run, known before it starts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// Bytes written sequentially.
    pub sequential_writes: ByteLength,
    /// Bytes written randomly in small blocks.
    pub random_writes: ByteLength,
    /// Bytes written randomly in requests of 64 KiB, several in flight, to precondition the drive.
    pub large_random_writes: ByteLength,
    /// Bytes trimmed. Trims destroy data as writes do.
    pub trims: ByteLength,
    /// Bytes read sequentially.
    pub sequential_reads: ByteLength,
    /// Time of writing at the highest rate of the drive.
    pub writing: Nanoseconds,
    /// Time of reading at the highest rate of the drive.
    pub reading: Nanoseconds,
    /// Time of idling.
    pub rests: Nanoseconds,
    /// Time that does not depend on throughput: flushes, the host's own work.
    pub fixed_time: Nanoseconds,
    /// Limit of the time for random writes and for `fixed_time` together: they end unfinished when it is
    /// reached.
    pub limit: Option<Nanoseconds>,
    /// Requests of the time for writing: lengths that share the time evenly, and the queue depth. If there
    /// are no lengths, writes reach the sequential throughput.
    pub timed_requests: (Vec<ByteLength>, u32),
    /// Number of workloads, over all drives, that end at steady state; `writing` and `reading` are the limits
    /// of their time.
    pub until_steady: u64,
    /// Bytes that must be free on the drive.
    pub space: ByteLength,
    /// Description of the files that the run creates, if it creates more than one.
    pub files_description: Option<String>,
    /// Lengths of the requests. Each request is aligned to its length.
    pub block_sizes: Vec<ByteLength>,
    /// Number of simulated drives in memory at a time.
    pub drives: DrivesInMemory,
}

/// Simulated drives that are in memory at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DrivesInMemory {
    /// Drives that are in memory for the whole run.
    pub throughout: u32,
    /// Drives of each workload that runs on a copy of its own, side by side with others.
    pub per_copy: u32,
    /// Number of such workloads.
    pub copies: u32,
}

impl Default for DrivesInMemory {
    fn default() -> Self {
        DrivesInMemory { throughout: 1, per_copy: 0, copies: 0 }
    }
}

impl Plan {
    /// Returns the number of bytes that the run writes to a drive with a sequential throughput of
    /// `bytes_per_second`; an estimate if the plan has time for writing.
    pub fn writes(&self, bytes_per_second: f64) -> ByteLength {
        let timed = self.writing.seconds() * bytes_per_second * self.timed_share();
        self.counted_writes() + ByteLength::new(timed as u64)
    }

    /// Returns the share of the sequential throughput that the requests of the time for writing reach. Each
    /// request costs `REQUEST_COST_BYTES` besides its own bytes, and requests in flight share that cost.
    fn timed_share(&self) -> f64 {
        let (lengths, depth) = &self.timed_requests;
        if lengths.is_empty() {
            return 1.0;
        }
        let share = |length: &ByteLength| {
            let in_flight = length.bytes() as f64 * f64::from((*depth).max(1));
            in_flight / (in_flight + REQUEST_COST_BYTES.bytes() as f64)
        };
        lengths.iter().map(share).sum::<f64>() / lengths.len() as f64
    }

    /// Returns the number of bytes written that does not depend on the speed of the drive.
    pub(crate) fn counted_writes(&self) -> ByteLength {
        self.sequential_writes + self.random_writes + self.large_random_writes
    }

    /// Returns true if the run writes or trims.
    pub fn is_writing(&self) -> bool {
        self.counted_writes() + self.trims > ByteLength::ZERO || self.writing > Nanoseconds::ZERO
    }

    /// Checks that the plan's block sizes are multiples of the drive's block size. Call it before anything is
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

    /// Returns the estimated time of a run on a drive with the given sequential throughput, assuming
    /// [`RANDOM_WRITE_SHARE`] of it for small random writes and [`LARGE_RANDOM_WRITE_SHARE`] for large ones.
    pub fn estimate(&self, bytes_per_second: f64) -> Nanoseconds {
        let sequential = (self.sequential_writes + self.sequential_reads).bytes() as f64;
        let random = self.random_writes.bytes() as f64 / RANDOM_WRITE_SHARE
            + self.large_random_writes.bytes() as f64 / LARGE_RANDOM_WRITE_SHARE;
        let at_random = Nanoseconds::from_secs_f64(random / bytes_per_second) + self.fixed_time;
        let at_random = self.limit.map_or(at_random, |limit| at_random.min(limit));
        let sequential = Nanoseconds::from_secs_f64(sequential / bytes_per_second);
        sequential + at_random + self.writing + self.reading + self.rests
    }
}

/// Share of the sequential throughput that 4 KiB random writes at queue depth 1 reach, as an order of
/// magnitude: 40 of 400 MB/s on SATA drives, 150 of 2000 MB/s on NVMe drives.
pub const RANDOM_WRITE_SHARE: f64 = 0.08;

/// Fixed cost of a request, as the number of bytes that take the same time. With it, 4 KiB writes at queue
/// depth 1 reach [`RANDOM_WRITE_SHARE`].
const REQUEST_COST_BYTES: ByteLength = ByteLength::new(47_104);

/// Share of the sequential throughput that random writes of 64 KiB reach with several in flight, as an order
/// of magnitude: all of it on a new drive, a quarter of it in steady state with little over-provisioning (a
/// write amplification of 4).
pub const LARGE_RANDOM_WRITE_SHARE: f64 = 0.5;

/// Receives the progress of a run, and can end the run.
pub trait Watcher {
    /// A step begins. `weight` is its share of the whole run; the weights add up to about one.
    fn step(&mut self, name: &str, weight: f64);

    /// Takes the share of the step that is done, between 0 and 1, and returns whether to go on.
    fn progress(&mut self, done: f64) -> Control;

    /// Takes the work of the drive since the last sample. Workloads that run side by side send no samples.
    fn sample(&mut self, _sample: Sample) {}
}

/// Work of the drive since the last sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sample {
    /// Bytes were transferred to or from the drive.
    Transferred {
        /// Bytes read or written.
        bytes: ByteLength,
        /// Time of the drive that the transfer took.
        time: Nanoseconds,
    },
    /// A simulated drive has programmed its flash for host writes and for background work.
    Programmed {
        /// Units that the host wrote.
        host_units: u64,
        /// Units that were programmed to flash.
        flash_units: u64,
    },
}

/// A watcher that ignores progress and never ends the run.
pub struct NullWatcher;

impl Watcher for NullWatcher {
    fn step(&mut self, _: &str, _: f64) {}
    fn progress(&mut self, _: f64) -> Control {
        Control::Continue
    }
}

/// Passes the progress of one phase of a drive to a watcher.
pub(crate) struct PhaseObserver<'a> {
    watcher: &'a mut dyn Watcher,
    /// Bytes and time of the phase that were passed on in samples.
    known: (ByteLength, Nanoseconds),
}

impl<'a> PhaseObserver<'a> {
    pub(crate) fn new(watcher: &'a mut dyn Watcher) -> PhaseObserver<'a> {
        PhaseObserver { watcher, known: (ByteLength::ZERO, Nanoseconds::ZERO) }
    }

    /// Sends a sample of the transfer since the last one. Idle time sends none.
    fn send_sample(&mut self, progress: &Progress) {
        let (bytes, time) = self.known;
        if progress.bytes_done > bytes && progress.elapsed > time {
            self.known = (progress.bytes_done, progress.elapsed);
            let bytes = ByteLength::new(progress.bytes_done.bytes() - bytes.bytes());
            let time = Nanoseconds::new(progress.elapsed.nanos() - time.nanos());
            self.watcher.sample(Sample::Transferred { bytes, time });
        }
    }
}

impl Observer for PhaseObserver<'_> {
    fn progress(&mut self, progress: &Progress) -> Control {
        self.send_sample(progress);
        let share = |done: u64, total: u64| done as f64 / total.max(1) as f64;
        let done = match (progress.bytes_total, progress.time_total) {
            (Some(total), _) => share(progress.bytes_done.bytes(), total.bytes()),
            (None, Some(total)) => share(progress.elapsed.nanos(), total.nanos()),
            (None, None) => 0.0,
        };
        self.watcher.progress(done.min(1.0))
    }
}

/// Results of a run, filled while it goes on.
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
    /// Parameters that the report lists besides those of the protocol.
    pub parameters: Vec<Parameter>,
    /// Requests to the drives, and the counters of drives that no longer exist.
    pub tally: Tally,
}

impl Record {
    /// Adds a finding.
    pub fn add_finding(&mut self, level: Level, code: &str, text: String) {
        self.findings.push(Finding { level, code: code.to_owned(), text });
    }

    /// Adds a curve, unless it has fewer than two points.
    pub(crate) fn add_series(&mut self, name: String, units: (&str, &str), points: &[(f64, f64)]) {
        if points.len() > 1 {
            let (x, y) = points.iter().copied().unzip();
            let (unit_x, unit_y) = (units.0.to_owned(), units.1.to_owned());
            self.series.push(Series { name, unit_x, unit_y, x, y });
        }
    }

    /// Adds a finding that says how the figures of a scaled or shortened protocol compare with the full one.
    pub(crate) fn add_shortened_finding(&mut self, settings: &Settings) {
        let divisor = settings.divisor();
        if divisor > 1 {
            self.add_finding(
                Level::Info,
                "scaled",
                format!(
                    "The whole protocol ran on a drive of 1/{divisor} the size. Throughput and \
                     write amplification are those of the full-size drive within a few per cent. \
                     Volumes, and times until an event, are {divisor} times these. The spread of \
                     latencies, and their growth near the drive's limit, depend on the size of its \
                     erase blocks: without --quick the drive is simulated in full size."
                ),
            );
        } else if settings.shortened() {
            self.add_finding(
                Level::Info,
                "shortened",
                "The protocol was changed or shortened; compare these figures only with runs of the same \
                 parameters."
                    .to_owned(),
            );
        }
    }

    /// Adds a histogram of the latencies of one kind of request; adds nothing if there are none.
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
        // Bucket widths grow by 3 %: fine enough for a chart with a logarithmic axis.
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

/// Longest time that one workload may be measured. A longer one is taken for a typing error.
const MAX_WORKLOAD_TIME: Nanoseconds = Phase::LONGEST;

/// Longest time that the host may spend on one step of its own, such as an insert.
const MAX_HOST_TIME: Nanoseconds = Nanoseconds::from_secs(10);

/// Checks the duration called `name` of a workload.
fn check_time(settings: &Settings, name: &'static str) -> Result<(), LabError> {
    let time = settings.duration(name);
    if time > Nanoseconds::ZERO && time <= MAX_WORKLOAD_TIME {
        return Ok(());
    }
    Err(LabError::Range {
        name,
        value: settings.text(name).to_owned(),
        why: "it must be more than 0 and at most 25 days".to_owned(),
    })
}

/// Checks the parameter called `name`, a time that the host of a simulated drive spends by itself.
fn check_host_time(settings: &Settings, name: &'static str) -> Result<(), LabError> {
    if settings.duration(name) <= MAX_HOST_TIME {
        return Ok(());
    }
    Err(LabError::Range {
        name,
        value: settings.text(name).to_owned(),
        why: "it must be at most 10 s".to_owned(),
    })
}
