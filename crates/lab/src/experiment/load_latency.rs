//! The experiment `load-latency`: latencies of a small measured stream beside a load of writes.
//!
//! One stream of writes loads the drive, in an open loop at a rate. A second stream of few requests, half of
//! them reads, is measured. Requests of both arrive at random times. The protocol is that of SSD-iq (Haas et
//! al., PVLDB 18), whose load also has one read in a hundred requests.

use ssdlab_drive::addresses::{Addresses, SplitMix64};
use ssdlab_drive::arrivals::Arrivals;
use ssdlab_drive::{
    Amount, Description, Drive, DriveError, Lane, LaneRequest, LaneResult, Mix, Operation, Phase,
    Region, Source,
};
use ssdlab_units::{ByteLength, Nanoseconds};

use super::phase_runner::{PhaseRunner, PurgeOutcome};
use super::steady::{FILL_REQUEST, fill};
use super::trials::{self, Start, Trial};
use super::{
    DrivesInMemory, Experiment, Kind, ParameterSpec, Plan, Record, Settings, Watcher, text_format,
    workload,
};
use crate::error::LabError;
use crate::output::format::{significant, span};
use crate::report::{Cell, Column, Level, Table};

/// The experiment `load-latency`.
pub struct LoadLatency;

const PARAMETERS: [ParameterSpec; 9] = [
    workload::PATTERN,
    workload::BLOCK,
    ParameterSpec {
        name: "rates",
        kind: Kind::Word,
        full: "auto",
        quick: "auto",
        help: "total writes per second, such as 10000,50000; auto for 10 to 110 % of the peak",
    },
    ParameterSpec {
        name: "depth",
        kind: Kind::Count,
        full: "256",
        quick: "256",
        help: "requests in flight for the peak; their maximum for the load",
    },
    ParameterSpec {
        name: "probes",
        kind: Kind::Count,
        full: "10000",
        quick: "10000",
        help: "measured requests per second, half of them reads",
    },
    ParameterSpec {
        name: "time",
        kind: Kind::Duration,
        full: "1m",
        quick: "2s",
        help: "duration of the peak and of each rate, the latter after a warm-up of a quarter of \
               it",
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
        full: "3",
        quick: "1",
        help: "number of overwrites with the load's requests after the fill",
    },
];

/// Rates of the value `auto`, in percent of the peak.
const SHARES: [u32; 7] = [10, 30, 50, 70, 80, 90, 110];

/// Maximum number of requests of the measured stream in flight.
const PROBES_IN_FLIGHT: u32 = 256;

/// Minimum share of the rate that has to be written; with less, the load has overrun the drive.
const MIN_RATE_SHARE: f64 = 0.98;

/// Assumed bytes per second of the fill and of random writes, for the progress.
const ASSUMED_FILL_SPEED: f64 = 500e6;
const ASSUMED_RANDOM_SPEED: f64 = 100e6;

struct Protocol {
    /// Phase that measures the peak: the load in a closed loop.
    peak: Phase,
    /// Total writes per second of each load; `None` for shares of the peak.
    rates: Option<Vec<f64>>,
    /// Requests per second of the measured stream.
    probes: f64,
    fill: ByteLength,
    used: ByteLength,
    time: Nanoseconds,
}

/// Parses a list such as `10000,50000`; `None` for `auto`.
fn parse_rates(settings: &Settings) -> Result<Option<Vec<f64>>, LabError> {
    let text = settings.text("rates");
    if text == "auto" {
        return Ok(None);
    }
    let rates: Option<Vec<f64>> = (text.split(','))
        .map(|one| one.trim().parse().ok().filter(|rate| (1.0..1e9).contains(rate)))
        .collect();
    let rising = rates.filter(|rates| rates.is_sorted_by(|a, b| a < b) && rates.len() <= 64);
    rising.map(Some).ok_or_else(|| LabError::Range {
        name: "rates",
        value: text.to_owned(),
        why: "it must be auto, or up to 64 rates in writes per second in rising order, such as \
              10000,50000"
            .to_owned(),
    })
}

impl Protocol {
    fn new(settings: &Settings, seed: u64, drive: &Description) -> Result<Protocol, LabError> {
        let time = settings.duration("time");
        let named = ("peak of the load", time);
        let peak = workload::phase(settings, seed, drive, Mix::WRITE, named)?;
        let (area, block) = (peak.region.length, peak.block_size);
        let times = |name| ByteLength::new((area.bytes() as f64 * settings.factor(name)) as u64);
        Ok(Protocol {
            rates: parse_rates(settings)?,
            probes: f64::from(settings.count("probes")),
            fill: FILL_REQUEST * times("fill").whole(FILL_REQUEST),
            used: block * times("used").whole(block),
            peak,
            time,
        })
    }

    /// Returns the number of rates.
    fn count(&self) -> usize {
        self.rates.as_ref().map_or(SHARES.len(), Vec::len)
    }

    /// Returns the time of one rate: the measured time and, before it, a ramp of a quarter of it.
    fn time_per_rate(&self) -> Nanoseconds {
        self.time + self.ramp()
    }

    fn ramp(&self) -> Nanoseconds {
        Nanoseconds::new(self.time.nanos() / 4)
    }

    fn plan(&self) -> Plan {
        Plan {
            sequential_writes: self.fill,
            random_writes: self.used,
            writing: self.time + self.time_per_rate() * self.count() as u64,
            timed_requests: (vec![self.peak.block_size], self.peak.depth),
            space: self.peak.region.length,
            block_sizes: vec![self.peak.block_size, FILL_REQUEST],
            drives: DrivesInMemory { throughout: 1, per_copy: 1, copies: self.count() as u32 },
            ..Plan::default()
        }
    }

    fn weights(&self) -> [f64; 3] {
        [
            self.fill.bytes() as f64 / ASSUMED_FILL_SPEED,
            self.used.bytes() as f64 / ASSUMED_RANDOM_SPEED,
            self.time.seconds() + self.time_per_rate().seconds() * self.count() as f64,
        ]
    }

    fn preconditioning_phase(&self) -> Phase {
        Phase {
            name: "the load's writes, to make it a used drive".to_owned(),
            amount: Amount::Bytes(self.used),
            seed: self.peak.seed.wrapping_add(1),
            flush_at_end: true,
            ..self.peak.clone()
        }
    }

    /// Returns the writes per second of each rate, for a drive with the peak `peak`.
    fn rates(&self, peak: f64) -> Vec<f64> {
        let shares = || SHARES.iter().map(|share| peak * f64::from(*share) / 100.0).collect();
        self.rates.clone().unwrap_or_else(shares)
    }

    /// Returns the measured stream and the load. Together they make `rate` writes per second.
    fn lanes(&self, rate: f64) -> Vec<Lane<'static>> {
        let lane = |name: &str, rate: f64, mix, depth, seed: u64| Lane {
            name: name.to_owned(),
            source: Box::new(RandomArrivals::new(&Phase { mix, seed, ..self.peak.clone() }, rate)),
            depth,
            time: Some(self.time_per_rate()),
            ramp: self.ramp(),
            interval: Nanoseconds::ZERO,
            seed,
            flush_at_end: false,
            expected: None,
        };
        let mut seeds = SplitMix64::new(self.peak.seed ^ rate.to_bits());
        let half = Mix { read_percent: 50 };
        let probes = lane("probes", self.probes, half, PROBES_IN_FLIGHT, seeds.next_word());
        let load = rate - self.probes / 2.0;
        let mut lanes = vec![probes];
        if load >= 1.0 {
            lanes.push(lane("load", load, Mix::WRITE, self.peak.depth, seeds.next_word()));
        }
        lanes
    }
}

/// Requests of one size with random arrival times.
struct RandomArrivals {
    addresses: Addresses,
    arrivals: Arrivals,
    phase: Phase,
}

impl RandomArrivals {
    fn new(phase: &Phase, rate: f64) -> RandomArrivals {
        let arrivals = Arrivals::new(rate, phase.seed);
        RandomArrivals { addresses: Addresses::new(phase), arrivals, phase: phase.clone() }
    }
}

impl Source for RandomArrivals {
    fn next_request(&mut self) -> Result<Option<LaneRequest>, DriveError> {
        let due = self.arrivals.next();
        self.arrivals.advance();
        let next = self.addresses.next_request();
        Ok(Some(LaneRequest {
            due: Some(due),
            pause: Nanoseconds::ZERO,
            operation: if next.read { Operation::Read } else { Operation::Write },
            region: Region {
                offset: self.phase.region.offset + self.phase.block_size * next.block,
                length: self.phase.block_size,
            },
        }))
    }
}

/// Results of one load.
struct LoadResult {
    /// Writes per second that were requested, both streams together.
    rate: f64,
    /// Writes per second that were completed, both streams together.
    written: f64,
    /// True if the measured stream alone makes more writes than were requested.
    is_exceeded: bool,
    /// Measured time in seconds.
    seconds: f64,
    probes: LaneResult,
}

/// Returns the minimum of writes per second with which a drive has kept up with `rate`. It allows for the
/// random number of arrivals in `seconds`.
fn min_accepted_rate(rate: f64, seconds: f64) -> f64 {
    MIN_RATE_SHARE * rate - 3.0 * (rate / seconds).sqrt()
}

impl LoadResult {
    fn of(rate: f64, mut results: Vec<LaneResult>, protocol: &Protocol) -> LoadResult {
        let writes: u64 = results.iter().map(|lane| lane.phase.write_latencies.count()).sum();
        let seconds = protocol.time.seconds();
        let written = writes as f64 / seconds;
        let is_exceeded = rate < protocol.probes / 2.0;
        LoadResult { rate, written, is_exceeded, seconds, probes: results.swap_remove(0) }
    }

    fn is_overloaded(&self) -> bool {
        self.written < min_accepted_rate(self.rate, self.seconds)
    }

    /// Returns the load for sentences: the requested rate, or the measured one if the measured stream alone
    /// wrote more.
    fn writes(&self) -> String {
        significant(if self.is_exceeded { self.written } else { self.rate })
    }
}

impl Experiment for LoadLatency {
    fn name(&self) -> &'static str {
        "load-latency"
    }

    fn question(&self) -> &'static str {
        "How long do reads and writes take under a load of writes?"
    }

    fn source(&self) -> &'static str {
        "the latency protocol of SSD-iq (Haas et al., PVLDB 18)"
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
        parse_rates(settings)?;
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
        let mut purge = PurgeOutcome::New;
        let mut measured = Measured::default();
        let outcome = execute(&protocol, &mut runner, &mut measured, &mut purge);
        runner.finish(record);
        tabulate(&measured, record);
        conclude(&measured, record);
        purge.add_finding(record);
        record.add_shortened_finding(settings);
        outcome
    }
}

#[derive(Default)]
struct Measured {
    /// Peak of the load, in writes per second.
    peak: Option<f64>,
    loads: Vec<LoadResult>,
}

fn execute(
    protocol: &Protocol,
    runner: &mut PhaseRunner,
    measured: &mut Measured,
    purge: &mut PurgeOutcome,
) -> Result<(), LabError> {
    let region = protocol.peak.region;
    let [fill_weight, preconditioning_weight, _] = protocol.weights();
    runner.drive.prepare(region.length)?;
    if protocol.fill > ByteLength::ZERO {
        *purge = runner.purge(region)?;
        runner.precondition(&fill(region, protocol.fill, protocol.peak.seed), fill_weight)?;
    }
    if protocol.used > ByteLength::ZERO {
        runner.precondition(&protocol.preconditioning_phase(), preconditioning_weight)?;
    }
    let result = runner.run(&protocol.peak, protocol.time.seconds())?;
    let peak = result.requests as f64 / result.elapsed.seconds();
    measured.peak = Some(peak);
    let trial = |rate: f64| Trial {
        name: format!("load, {} writes a second", significant(rate)),
        weight: protocol.time_per_rate().seconds(),
        workload: rate,
    };
    let rates = protocol.rates(peak);
    let trials: Vec<Trial<f64>> = rates.into_iter().map(trial).collect();
    let work = |rate: &f64, runner: &mut PhaseRunner, slot: &mut Option<LoadResult>| {
        let results = runner.run_lanes("load", protocol.lanes(*rate), 1.0)?;
        *slot = Some(LoadResult::of(*rate, results, protocol));
        Ok(())
    };
    let done = trials::run(runner, Start::AsItIs, &trials, &work);
    measured.loads.extend(done.results.into_iter().flatten());
    done.outcome
}

const PERCENTILES: [(f64, &str); 3] = [(50.0, "p50"), (99.0, "p99"), (99.9, "p99_9")];

fn tabulate(measured: &Measured, record: &mut Record) {
    let mut columns = vec![
        Column::new("writes_per_second_asked", "1/s"),
        Column::new("writes_per_second", "1/s"),
    ];
    for kind in ["read", "write"] {
        columns.extend(PERCENTILES.map(|(_, name)| Column::new(format!("{kind}_{name}_us"), "us")));
    }
    let mut rows = Vec::new();
    for load in &measured.loads {
        let (reads, writes) =
            (&load.probes.phase.read_latencies, &load.probes.phase.write_latencies);
        let mut row = vec![Cell::from(load.rate), Cell::from(load.written)];
        for latencies in [reads, writes] {
            row.extend(PERCENTILES.map(|(percent, _)| {
                Cell::from(latencies.percentile(percent).map(Nanoseconds::micros))
            }));
        }
        rows.push(row);
        let at = load.rate.round();
        record.add_latencies(&format!("read_beside_{at}_writes"), reads);
        record.add_latencies(&format!("write_beside_{at}_writes"), writes);
    }
    record.tables.push(Table { name: "beside_a_load".to_owned(), columns, rows });
}

fn conclude(measured: &Measured, record: &mut Record) {
    let Some(peak) = measured.peak else { return };
    let reads = |load: &LoadResult, percent| load.probes.phase.read_latencies.percentile(percent);
    let borne: Vec<&LoadResult> =
        measured.loads.iter().filter(|load| !load.is_overloaded()).collect();
    if let (Some(low), Some(high)) = (borne.first(), borne.last())
        && let (Some(p99_low), Some(p99_high)) = (reads(low, 99.0), reads(high, 99.0))
        && let Some(median) = reads(high, 50.0)
    {
        let mut text = format!(
            "The drive takes {} writes/s. Under a load of {} writes/s, half of the reads take up \
             to {}, and 1 % take longer than {}",
            significant(peak),
            high.writes(),
            span(median.seconds()),
            span(p99_high.seconds()),
        );
        if borne.len() > 1 {
            let (load, p99) = (low.writes(), span(p99_low.seconds()));
            text += &format!("; under {load} writes/s, 1 % take longer than {p99}");
        }
        record.add_finding(Level::Info, "beside-a-load", text + ".");
    }
    let exceeded: Vec<String> = (measured.loads.iter())
        .filter(|load| load.is_exceeded)
        .map(|load| significant(load.rate))
        .collect();
    if !exceeded.is_empty() {
        record.add_finding(
            Level::Notice,
            "probes-write-more",
            format!(
                "The load exceeded {} writes/s: half of the probes are writes, too. Set fewer \
                 probes for lower rates.",
                text_format::join_names(&exceeded)
            ),
        );
    }
    let overrun = || measured.loads.iter().filter(|load| load.is_overloaded());
    let asked: Vec<String> = overrun().map(|load| significant(load.rate)).collect();
    if !asked.is_empty()
        && let Some(read) = overrun().filter_map(|load| reads(load, 50.0)).max()
    {
        record.add_finding(
            Level::Notice,
            "load-not-written",
            format!(
                "The drive did not keep up with {} writes/s: the load waited with its requests in \
                 flight. Half of the reads then take up to {}.",
                text_format::join_names(&asked),
                span(read.seconds())
            ),
        );
    }
}

#[cfg(test)]
mod tests {
    use ssdlab_drive::Pattern;

    use super::*;

    #[test]
    fn fewer_arrivals_than_asked_for_by_chance_are_no_overrun() {
        // Of 4,000 expected in 4 s, 3,920 are 98 %, and three deviations are 190.
        assert_eq!(min_accepted_rate(1_000.0, 4.0).round(), 933.0);
        // Of a hundred times as many, chance takes a tenth of that share.
        assert_eq!(min_accepted_rate(100_000.0, 4.0).round(), 97_526.0);
    }

    fn protocol() -> Protocol {
        let block = ByteLength::new(4096);
        let peak = Phase {
            name: "peak".to_owned(),
            pattern: Pattern::Random,
            block_size: block,
            depth: 256,
            mix: Mix::WRITE,
            region: Region::first(block * 1_000),
            amount: Amount::Time(Nanoseconds::from_secs(4)),
            rate: None,
            seed: 7,
            flush_at_end: false,
            interval: Nanoseconds::ZERO,
        };
        Protocol {
            peak,
            rates: None,
            probes: 10_000.0,
            fill: ByteLength::ZERO,
            used: ByteLength::ZERO,
            time: Nanoseconds::from_secs(4),
        }
    }

    /// Returns the reads and writes that a lane sends within its time.
    fn sent(lane: &mut Lane<'_>) -> (f64, f64) {
        let (mut reads, mut writes) = (0.0, 0.0);
        while let Some(request) = lane.source.next_request().unwrap() {
            if request.due >= lane.time {
                break;
            }
            match request.operation {
                Operation::Read => reads += 1.0,
                _ => writes += 1.0,
            }
        }
        (reads, writes)
    }

    #[test]
    fn a_rate_counts_the_writes_of_both_streams() {
        let protocol = protocol();
        let seconds = 5.0;
        let mut lanes = protocol.lanes(40_000.0);
        let (reads, writes) = sent(&mut lanes[0]);
        assert!((reads / seconds - 5_000.0).abs() < 150.0, "{reads}");
        assert!((writes / seconds - 5_000.0).abs() < 150.0, "{writes}");
        let (none, load) = sent(&mut lanes[1]);
        assert_eq!(none, 0.0);
        assert!((load / seconds - 35_000.0).abs() < 400.0, "{load}");
        // At this rate, the measured stream makes all writes.
        assert_eq!(protocol.lanes(5_000.0).len(), 1);
    }
}
