//! The experiment `barrier`: cost of durable writes (flush, FUA), and a check that the drive honours flushes.
//!
//! Random writes at queue depth 1 in five patterns: without flushes; a flush after each write; each write
//! with FUA (force unit access); a flush after every 8 and after every 64 writes. pg_test_fsync does that to
//! a file system; here the sizes are 4 KiB to 1 MiB. The question comes from a blog post on write barriers
//! under Linux, which found SQLite seven times faster without them on a GoodRAM C50 120 GB, and not quite
//! four times on a drive with a SandForce SF-2281. SQLite itself is measured, too, in two journal modes and
//! with three levels of durability (`inserts.rs`).

mod findings;
mod inserts;

use std::path::Path;

use ssdlab_blockdev::place::Place;
use ssdlab_drive::addresses::Addresses;
use ssdlab_drive::{
    Amount, Control, Description, Drive, Durability, ErrorKind, Latencies, Mix, Phase, Region,
};
use ssdlab_units::{ByteLength, Nanoseconds};

use super::phase_runner::{PhaseRunner, PurgeOutcome};
use super::steady::{FILL_REQUEST, fill};
use super::temporary_directory::TemporaryDirectory;
use super::trials::{self, Start, Trial};
use super::{Experiment, Kind, ParameterSpec, Plan, Record, Settings, Watcher};
use crate::error::LabError;
use crate::report::{Cell, Column, Table};
use findings::KnownFlush;
use inserts::Inserts;

/// The experiment `barrier`.
pub struct Barrier;

const PARAMETERS: [ParameterSpec; 6] = [
    ParameterSpec {
        name: "sizes",
        kind: Kind::Lengths,
        full: "4K,16K,64K,256K,1M",
        quick: "4K,64K,1M",
        help: "sizes of the writes",
    },
    ParameterSpec {
        name: "operations",
        kind: Kind::Count,
        full: "10000",
        quick: "1000",
        help: "writes of each size in each pattern",
    },
    ParameterSpec {
        name: "time",
        kind: Kind::Duration,
        full: "30s",
        quick: "5s",
        help: "time limit of each pattern and each SQLite mode, which then ends with fewer writes",
    },
    ParameterSpec {
        name: "area",
        kind: Kind::Area,
        full: "1G",
        quick: "256M",
        help: "area written, from the start of the drive; it is filled before the test",
    },
    ParameterSpec {
        name: "inserts",
        kind: Kind::Count,
        full: "500",
        quick: "100",
        help: "SQLite INSERTs in each mode, each in a transaction of its own",
    },
    ParameterSpec {
        name: "host",
        kind: Kind::Duration,
        full: "1900us",
        quick: "1900us",
        help: "simulated drives: host time per insert (a machine of 2013; fitted)",
    },
];

/// Time of a flush, for the estimate: that of a consumer drive, which programs a page or two.
const FLUSH: Nanoseconds = Nanoseconds::from_millis(2);

/// Writes of at least this length are estimated as large random writes.
const LARGE: ByteLength = ByteLength::new(64 << 10);

/// Way to make writes durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pattern {
    /// No flush and no FUA.
    Write,
    /// Force unit access.
    Fua,
    /// A flush after this number of writes.
    Flush(u32),
}

impl Pattern {
    const ALL: [Pattern; 5] =
        [Pattern::Write, Pattern::Flush(1), Pattern::Fua, Pattern::Flush(8), Pattern::Flush(64)];

    /// Returns how many times `writes` writes wait for the flash.
    fn flushes(self, writes: u64) -> u64 {
        match self {
            Pattern::Write => 0,
            Pattern::Fua => writes,
            Pattern::Flush(group) => writes / u64::from(group),
        }
    }

    /// Returns the name of the pattern in tables.
    fn name(self) -> String {
        match self {
            Pattern::Write => "write".to_owned(),
            Pattern::Fua => "fua".to_owned(),
            Pattern::Flush(1) => "write_flush".to_owned(),
            Pattern::Flush(group) => format!("{group}_writes_flush"),
        }
    }
}

/// One pattern with one request size.
#[derive(Clone, Copy, Debug)]
struct Case {
    pattern: Pattern,
    size: ByteLength,
    seed: u64,
}

/// Results of a case.
#[derive(Clone, Debug, Default)]
struct Measured {
    writes: u64,
    /// Total time of all writes and flushes.
    elapsed: Nanoseconds,
    /// Latency from the first write of a group until the group is durable; for writes that are not made
    /// durable, until they are completed.
    commits: Latencies,
    flushes: Latencies,
    /// Flushes counted inside a simulated drive; `None` for a real one.
    flushes_seen: Option<u64>,
    /// True if the drive does not support the pattern.
    unsupported: bool,
}

impl Measured {
    fn per_second(&self) -> f64 {
        self.writes as f64 / self.elapsed.seconds()
    }
}

struct Protocol {
    sizes: Vec<ByteLength>,
    operations: u64,
    time: Nanoseconds,
    area: ByteLength,
    inserts: Inserts,
}

impl Protocol {
    fn new(settings: &Settings, drive: &Description) -> Result<Protocol, LabError> {
        let (sizes, area) = (settings.lengths("sizes"), settings.area("area", drive)?);
        if sizes.last().is_some_and(|size| *size > area) {
            return Err(LabError::Range {
                name: "sizes",
                value: settings.text("sizes").to_owned(),
                why: format!("each write has to fit into the area, which is {area}"),
            });
        }
        Ok(Protocol {
            sizes,
            operations: u64::from(settings.count("operations")),
            time: settings.duration("time"),
            area,
            inserts: Inserts::new(settings),
        })
    }

    fn plan(&self) -> Plan {
        let each = |size: &ByteLength| *size * (self.operations * Pattern::ALL.len() as u64);
        let (large, small): (Vec<_>, Vec<_>) = self.sizes.iter().partition(|size| **size >= LARGE);
        let flushes: u64 = Pattern::ALL.iter().map(|one| one.flushes(self.operations)).sum();
        let flushes = flushes * self.sizes.len() as u64 + self.inserts.flushes();
        let cases = (Pattern::ALL.len() * self.sizes.len() + Inserts::cases()) as u64;
        Plan {
            sequential_writes: self.area,
            random_writes: small.into_iter().map(each).sum::<ByteLength>() + self.inserts.writes(),
            large_random_writes: large.into_iter().map(each).sum(),
            fixed_time: FLUSH * flushes,
            limit: Some(self.time * cases),
            space: self.area,
            block_sizes: self.sizes.iter().copied().chain([FILL_REQUEST]).collect(),
            ..Plan::default()
        }
    }

    fn trials(&self, seed: u64) -> Vec<Trial<Case>> {
        let mut trials = Vec::new();
        for pattern in Pattern::ALL {
            for &size in &self.sizes {
                trials.push(Trial {
                    name: format!("durable writes, {}, {size}", pattern.name()),
                    weight: 1.0,
                    workload: Case { pattern, size, seed: seed.wrapping_mul(1_000) + size.bytes() },
                });
            }
        }
        trials
    }

    /// Returns the phase that gives the addresses of a case's writes.
    fn phase(&self, case: &Case) -> Phase {
        Phase {
            name: case.pattern.name(),
            pattern: ssdlab_drive::Pattern::Random,
            block_size: case.size,
            depth: 1,
            mix: Mix::WRITE,
            region: Region::first(self.area),
            amount: Amount::Bytes(case.size * self.operations),
            rate: None,
            seed: case.seed,
            flush_at_end: false,
            interval: Nanoseconds::ZERO,
        }
    }

    /// Measures SQLite inserts, if the drive is simulated or has a file system.
    fn insert(
        &self,
        runner: &mut PhaseRunner,
        record: &mut Record,
        inserted: &mut Vec<(inserts::Case, inserts::Measured)>,
    ) -> Result<(), LabError> {
        let (trials, done) = if runner.drive.simulated().is_some() {
            let trials = Inserts::trials(&[true, false]);
            let work = |case: &inserts::Case, runner: &mut PhaseRunner, slot: &mut _| {
                self.inserts.measure_simulated(case, runner, slot)
            };
            let done = trials::run(runner, Start::AsItIs, &trials, &work);
            (trials, done)
        } else if let Some(directory) = runner.drive.directory().map(Path::to_owned) {
            let place = Place::of(&directory).ok();
            let barrier = !place.as_ref().is_some_and(without_barriers);
            let trials = Inserts::trials(&[barrier]);
            let own = TemporaryDirectory::create(&directory)?;
            let work = |case: &inserts::Case, runner: &mut PhaseRunner, slot: &mut _| {
                self.inserts.measure_real(case, &own, place.as_ref(), runner, slot)
            };
            let done = trials::run(runner, Start::AsItIs, &trials, &work);
            own.remove()?;
            findings::barriers_of_one_mount(barrier, place.as_ref(), record);
            (trials, done)
        } else {
            findings::sqlite_left_out(record);
            return Ok(());
        };
        inserted.extend(trials.into_iter().map(|trial| trial.workload).zip(done.results));
        done.outcome
    }

    /// Writes until the number of operations or the time is reached.
    fn measure(
        &self,
        case: &Case,
        runner: &mut PhaseRunner,
        measured: &mut Measured,
    ) -> Result<(), LabError> {
        runner.begin_step("durable writes", 1.0);
        let mut addresses = Addresses::new(&self.phase(case));
        let before = runner.drive.inside();
        let mut commit = Nanoseconds::ZERO;
        for index in 0..self.operations {
            let place = case.size * addresses.next_request().block;
            let block = Region { offset: place, length: case.size };
            let durability = match case.pattern {
                Pattern::Fua => Durability::Through,
                Pattern::Write | Pattern::Flush(_) => Durability::Cached,
            };
            match runner.drive.write_block(block, durability, case.seed.wrapping_add(index)) {
                Ok(took) => commit += took,
                Err(error) if error.kind() == ErrorKind::Unsupported => {
                    measured.unsupported = true;
                    return Ok(());
                }
                Err(error) => return Err(error.into()),
            }
            measured.writes += 1;
            runner.tally.requests += 1;
            runner.tally.bytes += case.size;
            let is_group = match case.pattern {
                Pattern::Flush(group) => (index + 1) % u64::from(group) == 0,
                Pattern::Write | Pattern::Fua => true,
            };
            if !is_group {
                continue;
            }
            if let Pattern::Flush(_) = case.pattern {
                let took = runner.drive.flush()?;
                measured.flushes.record(took);
                commit += took;
            }
            measured.commits.record(commit);
            measured.elapsed += commit;
            commit = Nanoseconds::ZERO;
            if index % 64 == 0 || measured.elapsed > self.time {
                let done = (index + 1) as f64 / self.operations as f64;
                if runner.watcher.progress(done) == Control::Cancel {
                    return Err(ssdlab_drive::DriveError::cancelled().into());
                }
            }
            if measured.elapsed > self.time {
                break;
            }
        }
        // Writes of an incomplete group were not made durable and do not count.
        if let Pattern::Flush(group) = case.pattern {
            measured.writes = measured.commits.count() * u64::from(group);
        }
        measured.flushes_seen = super::phase_runner::since(runner.drive.inside(), before)
            .map(|inside| inside.counters.flushes);
        Ok(())
    }
}

impl Experiment for Barrier {
    fn name(&self) -> &'static str {
        "barrier"
    }

    fn question(&self) -> &'static str {
        "What do durable writes cost, and can the drive's flushes be trusted?"
    }

    fn source(&self) -> &'static str {
        "a blog post on write barriers under Linux (GoodRAM C50 120 GB); patterns as in pg_test_fsync"
    }

    fn parameters(&self) -> &'static [ParameterSpec] {
        &PARAMETERS
    }

    fn check(&self, settings: &mut Settings) -> Result<(), LabError> {
        super::check_time(settings, "time")?;
        super::check_host_time(settings, "host")
    }

    fn simulated_only_parameters(&self) -> &'static [&'static str] {
        &["host"]
    }

    fn plan(&self, settings: &Settings, drive: &Description) -> Result<Plan, LabError> {
        settings.check_kind(self, drive.kind)?;
        Ok(Protocol::new(settings, drive)?.plan())
    }

    fn run(
        &self,
        settings: &Settings,
        seed: u64,
        drive: &mut dyn Drive,
        record: &mut Record,
        watcher: &mut dyn Watcher,
    ) -> Result<(), LabError> {
        let description = drive.description();
        let protocol = Protocol::new(settings, &description)?;
        protocol.plan().check_blocks(&description)?;
        let trials = protocol.trials(seed);
        // The SQLite inserts have twelve cases of half the weight.
        let mut runner = PhaseRunner::new(drive, watcher, trials.len() as f64 + 7.0);
        let mut purge = PurgeOutcome::New;
        let known = match runner.drive.simulated() {
            Some(drive) if drive.writes_survive_power_cut() => KnownFlush::NotNeeded,
            Some(drive) if drive.ignores_flushes() => KnownFlush::Ignored,
            _ => KnownFlush::Nothing,
        };
        let (mut measured, mut inserted) = (Vec::new(), Vec::new());
        let outcome = (|| {
            let area = Region::first(protocol.area);
            runner.drive.prepare(protocol.area)?;
            purge = runner.purge(area)?;
            let amount = FILL_REQUEST * protocol.area.whole(FILL_REQUEST);
            runner.precondition(&fill(area, amount, seed), 1.0)?;
            let work = |case: &Case, runner: &mut PhaseRunner, slot: &mut Measured| {
                protocol.measure(case, runner, slot)
            };
            let done = trials::run(&mut runner, Start::AsItIs, &trials, &work);
            measured = done.results;
            done.outcome?;
            protocol.insert(&mut runner, record, &mut inserted)
        })();
        runner.finish(record);
        let cases: Vec<(Case, Measured)> =
            trials.into_iter().map(|trial| trial.workload).zip(measured).collect();
        inserts::tabulate(&inserted, record);
        tabulate(&cases, record);
        // Findings about cases left out come after the results.
        let noted = std::mem::take(&mut record.findings);
        findings::conclude(&cases, &inserted, known, record);
        record.findings.extend(noted);
        purge.add_finding(record);
        record.add_shortened_finding(settings);
        outcome
    }
}

/// Returns true if the file system is mounted without barriers, so that it never flushes the drive.
fn without_barriers(place: &Place) -> bool {
    place.has_option("nobarrier") || place.has_option("barrier=0")
}

const PERCENTILES: [(f64, &str); 4] =
    [(50.0, "p50_us"), (90.0, "p90_us"), (99.0, "p99_us"), (99.9, "p99_9_us")];

/// Returns the latency columns, with names that begin with `of`.
fn latency_columns(of: &str) -> impl Iterator<Item = Column> {
    let names = ["mean_us"].into_iter().chain(PERCENTILES.map(|(_, name)| name));
    names.map(move |name| Column::new(format!("{of}_{name}"), "us"))
}

/// Returns the cells of the latency columns.
fn latency_cells(latencies: &Latencies) -> impl Iterator<Item = Cell> {
    let at = |(percent, _)| latencies.percentile(percent);
    let figures = [latencies.mean()].into_iter().chain(PERCENTILES.map(at));
    figures.map(|latency| Cell::from(latency.map(Nanoseconds::micros)))
}

/// Adds the tables of commits and of flushes. They are separate, since a commit is a write, or a group of
/// writes, with its flush.
fn tabulate(cases: &[(Case, Measured)], record: &mut Record) {
    let keys = || [Column::new("pattern", ""), Column::new("request_bytes", "B")].into_iter();
    let names =
        |case: &Case| [Cell::from(case.pattern.name()), Cell::from(case.size.bytes())].into_iter();
    let written = cases.iter().filter(|(_, measured)| measured.writes > 0);
    let commits = written.map(|(case, measured)| {
        let rate = Cell::from(measured.per_second());
        names(case).chain([rate]).chain(latency_cells(&measured.commits)).collect()
    });
    let rate = Column::new("ops_per_second", "1/s");
    record.tables.push(Table {
        name: "flush".to_owned(),
        columns: keys().chain([rate]).chain(latency_columns("commit")).collect(),
        rows: commits.collect(),
    });
    let flushed = cases.iter().filter(|(_, measured)| measured.flushes.count() > 0);
    let flushes = flushed
        .map(|(case, measured)| names(case).chain(latency_cells(&measured.flushes)).collect());
    record.tables.push(Table {
        name: "flush_alone".to_owned(),
        columns: keys().chain(latency_columns("flush")).collect(),
        rows: flushes.collect(),
    });
    for (case, measured) in cases {
        if case.pattern == Pattern::Flush(1) {
            let size = super::text_format::size_code(case.size);
            record.add_latencies(&format!("flush_after_{size}"), &measured.flushes);
        }
    }
}
