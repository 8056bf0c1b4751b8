//! The experiment `latency`: response times in an open loop at shares of the peak throughput.
//!
//! The peak is measured first, in a closed loop: the number of requests per second at a given queue depth.
//! Then an open loop runs at 50, 70 and 90 % of the peak: requests arrive at random times, even if earlier
//! ones are not completed, and the latency of a request counts from its arrival. In a closed loop a drive
//! that stalls for a second delays only the requests in flight; in an open loop all requests that arrive in
//! that second wait, as those of users do (G. Tene calls the difference coordinated omission).

use ssdlab_drive::{Amount, Description, Drive, Latencies, Mix, Pattern, Phase, PhaseResult, Rate};
use ssdlab_units::{ByteLength, Nanoseconds};

use super::phase_runner::{PhaseRunner, PurgeOutcome};
use super::steady::fill;
use super::trials::{self, Start, Trial};
use super::{
    DrivesInMemory, Experiment, Kind, ParameterSpec, Plan, Record, Settings, Watcher, workload,
};
use crate::error::LabError;
use crate::output::format::{significant, span};
use crate::report::{Cell, Column, Level, Table};

/// The experiment `latency`.
pub struct ResponseTime;

const PARAMETERS: [ParameterSpec; 8] = [
    workload::PATTERN,
    workload::BLOCK,
    ParameterSpec {
        name: "read_percent",
        kind: Kind::Percent,
        full: "70",
        quick: "70",
        help: "reads per hundred requests",
    },
    ParameterSpec {
        name: "depth",
        kind: Kind::Count,
        full: "32",
        quick: "32",
        help: "requests in flight for the peak; their maximum at each load",
    },
    ParameterSpec {
        name: "time",
        kind: Kind::Duration,
        full: "2m",
        quick: "2s",
        help: "duration of the peak and of each load",
    },
    workload::AREA,
    ParameterSpec {
        name: "fill",
        kind: Kind::Factor,
        full: "1",
        quick: "1",
        help: "number of sequential fills before the measurement; 0 takes the drive as it is",
    },
    ParameterSpec {
        name: "used",
        kind: Kind::Factor,
        full: "1",
        quick: "1",
        help: "number of random overwrites after the fill, if the workload writes",
    },
];

/// Loads, in percent of the peak.
const LOADS: [u64; 3] = [50, 70, 90];
const PEAK: u64 = 100;

/// Maximum of the time until all requests are completed, as a multiple of the time in which they arrive.
/// Beyond it the drive has not kept up.
const MAX_OVERRUN: f64 = 1.02;

/// Assumed bytes per second of the fill and of random writes, for the progress.
const ASSUMED_FILL_SPEED: f64 = 500e6;
const ASSUMED_RANDOM_SPEED: f64 = 100e6;

struct Protocol {
    phase: Phase,
    fill: ByteLength,
    used: ByteLength,
    time: Nanoseconds,
}

impl Protocol {
    fn new(settings: &Settings, seed: u64, drive: &Description) -> Result<Protocol, LabError> {
        let time = settings.duration("time");
        let phase =
            workload::phase(settings, seed, drive, workload::mix(settings), ("peak", time))?;
        let (area, block) = (phase.region.length, phase.block_size);
        let times = |name| ByteLength::new((area.bytes() as f64 * settings.factor(name)) as u64);
        let reads_only = phase.mix == Mix::READ;
        let used = if reads_only { ByteLength::ZERO } else { times("used") };
        Ok(Protocol {
            phase,
            fill: super::steady::FILL_REQUEST * times("fill").whole(super::steady::FILL_REQUEST),
            used: block * used.whole(block),
            time,
        })
    }

    fn plan(&self) -> Plan {
        let all = self.time * (LOADS.len() as u64 + 1);
        let reads_only = self.phase.mix.read_percent == 100;
        Plan {
            sequential_writes: self.fill,
            random_writes: self.used,
            writing: if reads_only { Nanoseconds::ZERO } else { all },
            reading: if reads_only { all } else { Nanoseconds::ZERO },
            timed_requests: (vec![self.phase.block_size], self.phase.depth),
            space: self.phase.region.length,
            block_sizes: vec![self.phase.block_size, super::steady::FILL_REQUEST],
            drives: DrivesInMemory { throughout: 1, per_copy: 1, copies: LOADS.len() as u32 },
            ..Plan::default()
        }
    }

    fn weights(&self) -> [f64; 3] {
        [
            self.fill.bytes() as f64 / ASSUMED_FILL_SPEED,
            self.used.bytes() as f64 / ASSUMED_RANDOM_SPEED,
            self.time.seconds() * (LOADS.len() + 1) as f64,
        ]
    }

    fn preconditioning_phase(&self) -> Phase {
        Phase {
            name: "random writes, to make it a used drive".to_owned(),
            // A skewed workload preconditions the drive with the same distribution, so that the same blocks
            // are hot.
            pattern: match self.phase.pattern {
                skewed @ Pattern::Skewed(_) => skewed,
                _ => Pattern::Random,
            },
            mix: Mix::WRITE,
            amount: Amount::Bytes(self.used),
            seed: self.phase.seed.wrapping_add(1),
            flush_at_end: true,
            ..self.phase.clone()
        }
    }

    fn trials(&self, peak: f64) -> Vec<Trial<Phase>> {
        LOADS
            .iter()
            .map(|&percent| Trial {
                name: format!("arrivals, {percent} % of the peak"),
                weight: self.time.seconds(),
                workload: Phase {
                    name: format!("arrivals, {percent} % of the peak"),
                    rate: Some(Rate::Open(peak * percent as f64 / 100.0)),
                    seed: self.phase.seed.wrapping_add(percent),
                    ..self.phase.clone()
                },
            })
            .collect()
    }
}

/// Results at one load.
struct Load {
    /// Load in percent of the peak.
    percent: u64,
    /// Arrivals per second; at the peak, completions per second.
    arrivals: f64,
    result: PhaseResult,
    time: Nanoseconds,
}

impl Load {
    fn latencies(&self) -> Latencies {
        let mut both = self.result.read_latencies.clone();
        both.merge(&self.result.write_latencies);
        both
    }

    /// Returns true if requests were completed in time; `None` at the peak, which is measured in a closed
    /// loop.
    fn kept_up(&self) -> Option<bool> {
        let is_open = self.percent != PEAK;
        is_open.then(|| self.result.elapsed.seconds() <= self.time.seconds() * MAX_OVERRUN)
    }

    fn has_fallen_behind(&self) -> bool {
        self.kept_up() == Some(false)
    }
}

impl Experiment for ResponseTime {
    fn name(&self) -> &'static str {
        "latency"
    }

    fn question(&self) -> &'static str {
        "How long do requests take at 50, 70 and 90 % of what the drive can do?"
    }

    fn source(&self) -> &'static str {
        "an open loop with latencies from the intended start (G. Tene, How not to measure latency)"
    }

    fn parameters(&self) -> &'static [ParameterSpec] {
        &PARAMETERS
    }

    fn accepts_block_devices(&self) -> bool {
        true
    }

    fn scales_with_capacity(&self) -> bool {
        true
    }

    fn check(&self, settings: &mut Settings) -> Result<(), LabError> {
        super::check_time(settings, "time")
    }

    fn plan(&self, settings: &Settings, drive: &Description) -> Result<Plan, LabError> {
        Ok(Protocol::new(settings, 0, drive)?.plan())
    }

    fn run(
        &self,
        settings: &Settings,
        seed: u64,
        drive: &mut dyn Drive,
        record: &mut Record,
        watcher: &mut dyn Watcher,
    ) -> Result<(), LabError> {
        let protocol = Protocol::new(settings, seed, &drive.description())?;
        let mut runner = PhaseRunner::new(drive, watcher, protocol.weights().iter().sum())
            .with_threads(settings.threads());
        let mut loads = Vec::new();
        let mut purge = PurgeOutcome::New;
        let outcome = execute(&protocol, &mut runner, &mut loads, &mut purge);
        runner.finish(record);
        tabulate(&loads, record);
        conclude(&loads, record);
        purge.add_finding(record);
        record.add_shortened_finding(settings);
        outcome
    }
}

fn execute(
    protocol: &Protocol,
    runner: &mut PhaseRunner,
    loads: &mut Vec<Load>,
    purge: &mut PurgeOutcome,
) -> Result<(), LabError> {
    let region = protocol.phase.region;
    let [fill_weight, preconditioning_weight, _] = protocol.weights();
    runner.drive.prepare(region.length)?;
    if protocol.fill > ByteLength::ZERO {
        *purge = runner.purge(region)?;
        runner.precondition(&fill(region, protocol.fill, protocol.phase.seed), fill_weight)?;
    }
    if protocol.used > ByteLength::ZERO {
        runner.precondition(&protocol.preconditioning_phase(), preconditioning_weight)?;
    }
    let result = runner.run(&protocol.phase, protocol.time.seconds())?;
    let peak = result.requests as f64 / result.elapsed.seconds();
    let time = protocol.time;
    loads.push(Load { percent: PEAK, arrivals: peak, result, time });
    let trials = protocol.trials(peak);
    let work = |phase: &Phase, runner: &mut PhaseRunner, slot: &mut Option<PhaseResult>| {
        *slot = Some(runner.run(phase, 1.0)?);
        Ok(())
    };
    let done = trials::run(runner, Start::AsItIs, &trials, &work);
    for (percent, result) in LOADS.into_iter().zip(done.results) {
        let arrivals = peak * percent as f64 / 100.0;
        loads.extend(result.map(|result| Load { percent, arrivals, result, time }));
    }
    done.outcome
}

const PERCENTILES: [(f64, &str); 4] =
    [(50.0, "p50_us"), (99.0, "p99_us"), (99.9, "p99_9_us"), (99.99, "p99_99_us")];

fn tabulate(loads: &[Load], record: &mut Record) {
    let mut columns = vec![Column::new("load", ""), Column::new("mean_us", "us")];
    columns.extend(PERCENTILES.iter().map(|(_, name)| Column::new(*name, "us")));
    columns.push(Column::new("requests_per_second", "1/s"));
    columns.push(Column::new("kept_up", ""));
    let mut rows = Vec::new();
    for load in loads {
        let latencies = load.latencies();
        let name = match load.percent {
            PEAK => "peak, closed loop".to_owned(),
            percent => format!("{percent} %, open loop"),
        };
        let mut row = vec![Cell::from(name), Cell::from(latencies.mean().map(Nanoseconds::micros))];
        row.extend(PERCENTILES.iter().map(|(percent, _)| {
            Cell::from(latencies.percentile(*percent).map(Nanoseconds::micros))
        }));
        row.push(Cell::from(load.arrivals));
        row.push(load.kept_up().map_or(Cell::Null, Cell::from));
        rows.push(row);
        let code = match load.percent {
            PEAK => "peak".to_owned(),
            percent => format!("{percent}_percent"),
        };
        record.add_latencies(&format!("read_at_{code}"), &load.result.read_latencies);
        record.add_latencies(&format!("write_at_{code}"), &load.result.write_latencies);
    }
    record.tables.push(Table { name: "response".to_owned(), columns, rows });
}

fn conclude(loads: &[Load], record: &mut Record) {
    let Some((peak, open)) = loads.split_first() else { return };
    let behind: Vec<String> = open
        .iter()
        .filter(|load| load.has_fallen_behind())
        .map(|load| format!("{} %", load.percent))
        .collect();
    if !behind.is_empty() {
        record.add_finding(
            Level::Warning,
            "not-kept-up",
            format!(
                "At {} of the peak the drive did not keep up with arrivals: the peak did not last, \
                 and latencies grew throughout the measurement. Likely cause: a write cache filled \
                 up, or garbage collection began, after the peak had been measured. Measure longer \
                 (--set time), on a drive that `run steady` finds steady.",
                super::text_format::join_names(&behind)
            ),
        );
    }
    let highest = open.iter().rev().find(|load| !load.has_fallen_behind());
    if let (Some(load), Some(low)) = (highest, open.first())
        && let (Some(p99), Some(at_low)) =
            (load.latencies().percentile(99.0), low.latencies().percentile(99.0))
    {
        let beside = match load.percent == low.percent {
            true => String::new(),
            false => format!("; at {} % it is {}", low.percent, span(at_low.seconds())),
        };
        record.add_finding(
            Level::Info,
            "response",
            format!(
                "The peak is {} requests/s. At {} % of it, one request of a hundred takes longer \
                 than {}{beside}.",
                significant(peak.arrivals),
                load.percent,
                span(p99.seconds())
            ),
        );
    }
}
