//! The model against the reference: the same drive, the same requests, how far apart the
//! latencies are.
//!
//! `cargo test --release -p ssdlab-model --test against_reference -- --nocapture` prints the table.
//! `REFERENCE_CASE='steady Mixed depth 8'` leaves out the cases whose names do not contain that;
//! `REFERENCE_SEED=7` draws other requests, which tells chance from deviation.

mod known_deviations;
mod reference;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use reference::{Measured, Operation, Reference};
use ssdlab_model::collection::CollectionParameters;
use ssdlab_model::flush::{FlushParameters, WriteCache};
use ssdlab_model::geometry::{Geometry, GeometryError, GeometryParameters};
use ssdlab_model::journal::JournalParameters;
use ssdlab_model::mapping::{Mapping, MappingScheme};
use ssdlab_model::pending::{Step, Waiting};
use ssdlab_model::read_ahead::ReadAheadParameters;
use ssdlab_model::ssd::BufferParameters;
use ssdlab_model::suspend::{SuspendParameters, Suspendable};
use ssdlab_model::timing::{Delivery, Timing, TransferRate};
use ssdlab_model::units::{Instant, KIB, Nanoseconds, Sector, SectorCount};
use ssdlab_model::{Configuration, Ssd};

/// Requests that are measured per case: enough for a p99 that does not depend on single ones.
const REQUESTS: usize = 20_000;

/// The same where reads and writes are mixed at depth 32: few writes find no room in the buffer, and
/// they come in bunches, so that a mean over 20,000 requests is off by 4 % by chance, and one over
/// 160,000 by 3.
const REQUESTS_MIXED: usize = 160_000;

/// So often, each time with other requests; also while collection of single blocks goes on, where
/// the mean of writes over three runs is off by 10 % by chance, in either simulator.
const RUNS_MIXED: u64 = 16;

/// The same while collection goes on. What is slow then comes from a block's erase, once in some
/// thousand requests: of those 20,000 see a few tens, and even 120,000 so few that a p99 is off by
/// 10 % by chance.
const REQUESTS_STEADY: usize = 360_000;

/// So often, each time with other requests from the same state on: what happens after one bunch of
/// erases stays alike for long, and a single run is off by as much as 25 % by chance.
const RUNS: u64 = 3;

/// The same for a p99 that lies on a cliff: with a cached map one write in a hundred meets one of a
/// hundred bunches of waits for a dirty map page, 98.5 % take 1.5 ms at most and 0.8 % more than 3 ms. Over
/// three runs it is off by 14 % by chance (standard deviation of 400 seeds, -44 to +63 %), and not biased: the
/// mean of the logarithms of model over reference is +0.6 %, within 1.4 at 95 %.
///
/// What else is pooled over `RUNS_MIXED` with a cached map and flushes on single blocks was looked at
/// with 12 seeds a figure at depths of 2, 8 and 32: no p99 is off by more than its interval (-0.9 within 1.0 % is
/// the largest, of durable writes at depth 8), and no mean by more than 0.25 %. Random writes and mixed
/// requests of single blocks while collection goes on are biased, by what two seeds of 16 runs
/// agree in: at depth 32 means by up to -3.4 and p99 by up to -7 %, within their limits of 5 and 10.
const RUNS_ON_A_CLIFF: u64 = 400;

/// The same with a map on flash, whose own traffic leaves less to single erases.
const REQUESTS_CACHED: usize = 60_000;

/// Units written at random before each of those runs, so that map pages change their places.
const RESCATTERED: u32 = 2_000;

/// Units of a piece where a stream is scattered over the flash: more than a few, and no multiple of what
/// a program unit holds.
const PIECE: u32 = 13;

/// Quiet time between preparing a drive and measuring: all that preparing left is done by then.
const PAUSE: u64 = 10_000_000_000;

#[derive(Clone, Copy)]
enum Host {
    /// Half duplex, in order, 550 MB/s, 10 us a command.
    Sata,
    /// Full duplex, any order, 3300 MB/s, 1 us a command.
    Nvme,
}

#[derive(Clone, Copy)]
struct Drive {
    name: &'static str,
    host: Host,
    channels: u32,
    dies: u32,
    planes: u32,
    pages_per_shot: u32,
    /// Dies a collection unit is striped over.
    stripe: u32,
}

const DRIVES: [Drive; 5] = [
    Drive {
        name: "sata 4x1 block",
        host: Host::Sata,
        channels: 2,
        dies: 4,
        planes: 1,
        pages_per_shot: 1,
        stripe: 1,
    },
    Drive {
        name: "sata 8x2 super",
        host: Host::Sata,
        channels: 4,
        dies: 8,
        planes: 2,
        pages_per_shot: 1,
        stripe: 8,
    },
    Drive {
        name: "nvme 16x2 super",
        host: Host::Nvme,
        channels: 8,
        dies: 16,
        planes: 2,
        pages_per_shot: 1,
        stripe: 16,
    },
    Drive {
        name: "nvme 8x1 block",
        host: Host::Nvme,
        channels: 4,
        dies: 8,
        planes: 1,
        pages_per_shot: 1,
        stripe: 1,
    },
    Drive {
        name: "nvme 4x2 tlc",
        host: Host::Nvme,
        channels: 4,
        dies: 4,
        planes: 2,
        pages_per_shot: 3,
        stripe: 4,
    },
];

const FLASH_PAGES_PER_BLOCK: u32 = 48;

impl Drive {
    fn configuration(&self, collection_units_per_group: u32, logical_share: f64) -> Configuration {
        let units_per_block = 4 * self.planes * FLASH_PAGES_PER_BLOCK * self.stripe;
        let groups = self.dies / self.stripe;
        let collection = CollectionParameters { low_water: 4, idle_high_water: 4, debt_max: 16 };
        let kept = collection.low_water + 2;
        let usable = units_per_block * groups * (collection_units_per_group - kept);
        let geometry = Geometry::new(GeometryParameters {
            channels: self.channels,
            dies: self.dies,
            planes_per_die: self.planes,
            multi_plane_read: true,
            pages_per_shot: self.pages_per_shot,
            pages_per_block: FLASH_PAGES_PER_BLOCK,
            page_size: KIB * 16,
            unit_size: KIB * 4,
            dies_per_collection_unit: self.stripe,
            collection_units: collection_units_per_group * groups,
            metadata_collection_units: 400,
            logical_units: (f64::from(usable) * logical_share) as u32 / 64 * 64,
        })
        .expect("a sound geometry");
        Configuration {
            geometry,
            timing: self.timing(),
            buffer: BufferParameters {
                units: 32 * self.dies * self.planes * self.pages_per_shot / 4,
                protected: false,
                idle_before_flush: Nanoseconds::from_millis(100),
            },
            read_ahead: ReadAheadParameters { window: 128, segment: 32, trigger: 2 },
            collection,
            trim: true,
            mechanisms: ssdlab_model::mechanisms::Mechanisms::default(),
        }
    }

    fn timing(&self) -> Timing {
        let sata = matches!(self.host, Host::Sata);
        Timing {
            page_read: Nanoseconds::from_micros(60),
            program: Nanoseconds::from_micros(600),
            erase: Nanoseconds::from_millis(3),
            channel: TransferRate::from_mb_per_second(400.0),
            link: TransferRate::from_mb_per_second(if sata { 550.0 } else { 3300.0 }),
            link_full_duplex: !sata,
            delivery: if sata { Delivery::InOrder } else { Delivery::AnyOrder },
            command_latency: Nanoseconds::from_micros(if sata { 40 } else { 10 }),
            command_occupancy: Nanoseconds::from_micros(if sata { 10 } else { 1 }),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Workload {
    RandomRead,
    RandomWrite,
    Mixed,
    SequentialRead,
    /// Single units in order, now and then from another place on.
    SmallStream,
    /// The same, and single units written at random.
    StreamAndWrites,
    LargeRead,
    SequentialWrite,
    FlushedWrite,
    /// Reads, writes, and now and then a flush or a write with FUA.
    Durable,
    /// Nothing but writes with FUA.
    FuaWrite,
}

use Workload::*;

impl Workload {
    /// `count` operations on the first `units` units.
    fn operations(self, count: usize, units: u32, seed: u64) -> Vec<Operation> {
        let mut generator = Pcg64Mcg::seed_from_u64(seed);
        let mut next = 0;
        (0..count)
            .map(|index| {
                let random = generator.random_range(0..units);
                let large = generator.random_range(0..units - 16);
                let reads = generator.random_range(0..10) < 7;
                let kind = if self == Durable { generator.random_range(0..20) } else { 0 };
                if matches!(self, SequentialRead | SequentialWrite) {
                    next = (next + 16) % units;
                }
                if self == SmallStream || self == StreamAndWrites && reads {
                    let hops = generator.random_range(0..64) == 0;
                    next = if hops { random } else { (next + 1) % units };
                }
                match self {
                    RandomRead => Operation::Read { first: random, units: 1 },
                    FlushedWrite if index % 16 == 15 => Operation::Flush,
                    RandomWrite | FlushedWrite => Operation::Write { first: random, units: 1 },
                    FuaWrite => Operation::WriteFua { first: random, units: 1 },
                    Durable => match kind {
                        0 => Operation::Flush,
                        1 => Operation::WriteFua { first: random, units: 1 },
                        2..=9 => Operation::Write { first: random, units: 1 },
                        _ => Operation::Read { first: random, units: 1 },
                    },
                    Mixed if reads => Operation::Read { first: random, units: 1 },
                    SmallStream => Operation::Read { first: next, units: 1 },
                    StreamAndWrites if reads => Operation::Read { first: next, units: 1 },
                    Mixed | StreamAndWrites => Operation::Write { first: random, units: 1 },
                    SequentialRead => Operation::Read { first: next, units: 16 },
                    LargeRead => Operation::Read { first: large, units: 16 },
                    SequentialWrite => Operation::Write { first: next, units: 16 },
                }
            })
            .collect()
    }
}

/// Places by when they are to be looked at; those of one instant in the order in which they were put in,
/// as the reference has its events.
#[derive(Default)]
struct Queue {
    places: BinaryHeap<Reverse<(u64, u64, usize)>>,
    count: u64,
}

impl Queue {
    fn push(&mut self, at: u64, place: usize) {
        self.count += 1;
        self.places.push(Reverse((at, self.count, place)));
    }

    fn pop(&mut self) -> (u64, usize) {
        let Reverse((at, _, place)) = self.places.pop().expect("some place is free");
        (at, place)
    }
}

/// The model with a host that keeps some operations in flight.
#[derive(Clone)]
struct Model<M: Mapping> {
    ssd: Ssd<M>,
    now: u64,
}

impl<M: Mapping> Model<M> {
    fn run(&mut self, depth: usize, operations: &[Operation]) -> Measured {
        let mut measured = Measured::default();
        let mut free = Queue::default();
        (0..depth).for_each(|place| free.push(self.now, place));
        let mut open: Vec<Option<(Waiting, u64, Operation)>> = vec![None; depth];
        let mut last = self.now;
        for operation in operations {
            let (sent, place) = self.next_free(&mut free, &mut open, &mut measured);
            let at = Instant::from_nanos(sent);
            let step = match *operation {
                Operation::Read { first, units } => {
                    let (first, count) = self.sectors(first, units);
                    self.ssd.begin_read(at, first, count)
                }
                Operation::Write { first, units } => {
                    let (first, count) = self.sectors(first, units);
                    self.ssd.begin_write(at, first, count, false)
                }
                Operation::WriteFua { first, units } => {
                    let (first, count) = self.sectors(first, units);
                    self.ssd.begin_write(at, first, count, true)
                }
                Operation::Flush => self.ssd.begin_flush(at),
            };
            let end = match step {
                Step::Answered(end) => {
                    measured.note(operation, end.since(at).nanos());
                    end
                }
                Step::Waits(waiting) => {
                    open[place] = Some((waiting, sent, *operation));
                    waiting.until()
                }
            };
            free.push(end.nanos(), place);
        }
        for _ in 0..depth {
            last = last.max(self.next_free(&mut free, &mut open, &mut measured).0);
        }
        measured.elapsed = last - self.now;
        self.now = last;
        measured
    }

    fn sectors(&self, first: u32, units: u32) -> (Sector, SectorCount) {
        let unit = self.ssd.geometry().unit_size();
        (Sector::at(unit * u64::from(first)), SectorCount::of(unit * u64::from(units)))
    }

    /// The next place that is free, and when; answers that come later than promised are put back.
    fn next_free(
        &mut self,
        free: &mut Queue,
        open: &mut [Option<(Waiting, u64, Operation)>],
        measured: &mut Measured,
    ) -> (u64, usize) {
        loop {
            let (at, place) = free.pop();
            let Some((waiting, sent, operation)) = open[place].take() else { return (at, place) };
            let again = match self.ssd.go_on(waiting) {
                Step::Answered(end) => {
                    measured.note(&operation, end.nanos() - sent);
                    end
                }
                Step::Waits(waiting) => {
                    open[place] = Some((waiting, sent, operation));
                    waiting.until()
                }
            };
            free.push(again.nanos(), place);
        }
    }

    fn written(&self) -> (u64, u64) {
        let counters = self.ssd.counters();
        // The reference counts pages of a map on flash, and none of a journal.
        let flash = counters.flash_write_units() - counters.program_units_metadata;
        (counters.host_write_units, flash)
    }
}

/// Both simulators of one drive in the same state.
#[derive(Clone)]
struct Pair<M: Mapping> {
    model: Model<M>,
    reference: Reference,
    logical_units: u32,
}

impl<M: Mapping + Clone> Pair<M> {
    /// The two simulators of a new drive; `ssd` is the model of it.
    fn new(configuration: &Configuration, ssd: Result<Ssd<M>, GeometryError>) -> Pair<M> {
        Pair {
            model: Model { ssd: ssd.expect("a sound drive"), now: 0 },
            reference: Reference::new(configuration),
            logical_units: configuration.geometry.logical_units(),
        }
    }

    fn run(&mut self, depth: usize, operations: &[Operation]) -> (Measured, Measured) {
        let results = (self.model.run(depth, operations), self.reference.run(depth, operations));
        let quiet = self.model.now.max(self.reference.now()) + PAUSE;
        self.model.now = quiet;
        self.reference.wait_until(quiet);
        results
    }

    /// What `runs` runs at this depth measure together, each from here on with operations of its own.
    fn run_often(
        &self,
        runs: u64,
        depth: usize,
        operations: impl Fn(u64) -> Vec<Operation>,
    ) -> (Measured, Measured) {
        let mut results = (Measured::default(), Measured::default());
        for run in 0..runs {
            let (model, reference) = self.clone().run(depth, &operations(run));
            results.0.append(model);
            results.1.append(reference);
        }
        results
    }

    /// Writes `units` units in order.
    fn fill(&mut self, units: u32) {
        let fill: Vec<Operation> =
            (0..units / 16).map(|at| Operation::Write { first: at * 16, units: 16 }).collect();
        self.run(8, &fill);
    }

    /// Writes all once, in pieces that no program unit ends with and in no order: of a stream, nothing
    /// is read ahead then.
    fn fill_in_no_order(&mut self, units: u32) {
        let pieces = (0..units).step_by(PIECE as usize);
        let write = |first| Operation::Write { first, units: PIECE.min(units - first) };
        let mut fill: Vec<Operation> = pieces.map(write).collect();
        fill.shuffle(&mut Pcg64Mcg::seed_from_u64(98));
        self.run(8, &fill);
    }

    /// Writes single units at random, `times` as many as the drive has.
    fn scatter(&mut self, times: u32) {
        self.scatter_by(self.logical_units * times, 99);
    }

    /// Writes `count` single units at random.
    fn scatter_by(&mut self, count: u32, seed: u64) {
        let mut generator = Pcg64Mcg::seed_from_u64(seed);
        let units = self.logical_units;
        let scatter: Vec<Operation> = (0..count)
            .map(|_| Operation::Write { first: generator.random_range(0..units), units: 1 })
            .collect();
        self.run(32, &scatter);
    }
}

fn mean(values: &[u64]) -> f64 {
    values.iter().sum::<u64>() as f64 / values.len() as f64
}

fn p99(values: &[u64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    sorted[(sorted.len() - 1) * 99 / 100] as f64
}

/// A figure of one case, and how far the model may be off.
struct Row {
    case: String,
    figure: &'static str,
    model: f64,
    reference: f64,
    limit: f64,
}

impl Row {
    fn deviation(&self) -> f64 {
        self.model / self.reference - 1.0
    }

    fn is_within_limit(&self) -> bool {
        self.deviation().abs() <= self.limit
    }

    /// Whether it is beyond its limit, but no further than is known.
    fn is_known(&self) -> bool {
        !self.is_within_limit()
            && known_deviations::bound(&self.case, self.figure)
                .is_some_and(|bound| self.deviation().abs() <= bound)
    }

    fn print(&self) {
        let verdict = match (self.is_within_limit(), self.is_known()) {
            (true, _) => "",
            (false, true) => "  known to be beyond the limit",
            (false, false) => "  BEYOND THE LIMIT",
        };
        println!(
            "{:52} {:12} {:12.1} {:12.1} {:+8.2} %{verdict}",
            self.case,
            self.figure,
            self.model / 1000.0,
            self.reference / 1000.0,
            self.deviation() * 100.0,
        );
    }
}

fn compare(case: String, results: &(Measured, Measured), limits: (f64, f64)) -> Vec<Row> {
    let (model, reference) = results;
    let mut rows = Vec::new();
    for (values, other, mean_name, p99_name) in [
        (&model.reads, &reference.reads, "read mean", "read p99"),
        (&model.writes, &reference.writes, "write mean", "write p99"),
        (&model.durable, &reference.durable, "durable mean", "durable p99"),
    ] {
        assert_eq!(values.len(), other.len());
        if values.is_empty() {
            continue;
        }
        for (figure, statistic, limit) in [
            (mean_name, mean as fn(&[u64]) -> f64, limits.0),
            (p99_name, p99 as fn(&[u64]) -> f64, limits.1),
        ] {
            let (model, reference) = (statistic(values), statistic(other));
            rows.push(Row { case: case.clone(), figure, model, reference, limit });
        }
    }
    rows
}

fn check(rows: &[Row]) {
    println!("{:52} {:12} {:>12} {:>12}", "case", "figure", "model us", "reference us");
    rows.iter().for_each(Row::print);
    let known = rows.iter().filter(|row| row.is_known()).count();
    let beyond = rows.iter().filter(|row| !row.is_within_limit()).count() - known;
    println!("{} figures, {known} known to be beyond their limit, {beyond} others", rows.len());
    assert_eq!(beyond, 0, "so many figures are beyond their limit, see the table");
}

#[test]
fn without_collection_latencies_agree() {
    let mut rows = Vec::new();
    for drive in DRIVES {
        // Half of the drive is filled, so that 20,000 large writes fit without collection.
        let units_per_row = 4 * drive.planes * FLASH_PAGES_PER_BLOCK * drive.dies;
        let blocks = (REQUESTS as u32 * 16 / units_per_row + 8) * 2;
        let configuration = drive.configuration(blocks, 0.6);
        let mut filled = Pair::new(&configuration, Ssd::new(&configuration));
        let units = filled.logical_units / 2 / 64 * 64;
        filled.fill(units);
        for workload in [
            RandomRead,
            RandomWrite,
            Mixed,
            SequentialRead,
            LargeRead,
            SequentialWrite,
            FlushedWrite,
        ] {
            for depth in [1, 2, 8, 32] {
                let case = format!("{} {workload:?} depth {depth}", drive.name);
                if !is_asked_for(&case) {
                    continue;
                }
                let (requests, runs) = match (workload, depth) {
                    (Mixed, 32) => (REQUESTS_MIXED, RUNS_MIXED),
                    _ => (REQUESTS, 1),
                };
                let results = filled.run_often(runs, depth, |run| {
                    workload.operations(requests, units, seed(depth) + 100 * run)
                });
                rows.extend(compare(case, &results, (0.02, 0.05)));
            }
        }
    }
    check(&rows);
}

/// Small sequential reads of what was not written in order: a page serves several of them.
#[test]
fn from_page_registers_latencies_agree() {
    let mut rows = Vec::new();
    for drive in DRIVES {
        let units_per_row = 4 * drive.planes * FLASH_PAGES_PER_BLOCK * drive.dies;
        let blocks = (REQUESTS as u32 * 16 / units_per_row + 8) * 2;
        let mut configuration = drive.configuration(blocks, 0.6);
        configuration.mechanisms.page_register = true;
        let mut filled = Pair::new(&configuration, Ssd::new(&configuration));
        let units = filled.logical_units / 2 / 64 * 64;
        filled.fill_in_no_order(units);
        for workload in [SmallStream, StreamAndWrites, RandomRead, SequentialRead] {
            for depth in [1, 2, 8, 32] {
                let case = format!("{} register {workload:?} depth {depth}", drive.name);
                if !is_asked_for(&case) {
                    continue;
                }
                let (requests, runs) = match (workload, depth) {
                    (StreamAndWrites, 32) => (REQUESTS_MIXED, RUNS_MIXED),
                    _ => (REQUESTS, 1),
                };
                let results = filled.run_often(runs, depth, |run| {
                    workload.operations(requests, units, seed(depth) + 100 * run)
                });
                rows.extend(compare(case, &results, (0.02, 0.05)));
            }
        }
    }
    check(&rows);
}

/// What is off while collection goes on, on a drive in that state.
fn steady_rows<M: Mapping + Clone>(
    steady: &Pair<M>,
    drive: &str,
    (single_blocks, cached): (bool, bool),
    requests: usize,
) -> Vec<Row> {
    let mut rows = Vec::new();
    for workload in [RandomRead, RandomWrite, Mixed] {
        for depth in [1, 2, 8, 32] {
            let case = format!("{drive} {workload:?} depth {depth}");
            if !is_asked_for(&case) {
                continue;
            }
            let mut results = (Measured::default(), Measured::default());
            let mut written = [(0, 0); 2];
            let rare = single_blocks && workload == Mixed && (cached || depth >= 8);
            let (runs, requests) = if rare {
                (RUNS_MIXED, requests)
            } else if cached && (single_blocks || workload == RandomRead) {
                (RUNS_MIXED, requests / 3)
            } else {
                (RUNS, requests)
            };
            for run in 0..runs {
                let mut pair = steady.clone();
                if cached {
                    // Each from a state of its own: which map pages are in RAM at rest is chance.
                    pair.scatter_by(RESCATTERED, seed(depth) + 100 * run);
                }
                let before = [pair.model.written(), pair.reference.written()];
                let seed = seed(depth) + 100 * run;
                let operations = workload.operations(requests, pair.logical_units, seed);
                let (model, reference) = pair.run(depth, &operations);
                results.0.append(model);
                results.1.append(reference);
                let after = [pair.model.written(), pair.reference.written()];
                for (written, (before, after)) in written.iter_mut().zip(before.iter().zip(after)) {
                    written.0 += after.0 - before.0;
                    written.1 += after.1 - before.1;
                }
            }
            if workload != RandomRead {
                // The same placement, so the same write amplification.
                let of = |(host, flash): (u64, u64)| flash as f64 / host as f64;
                rows.push(Row {
                    case: case.clone(),
                    figure: "A x 1000",
                    model: of(written[0]) * 1000.0,
                    reference: of(written[1]) * 1000.0,
                    // With single blocks it depends on time which block is free, and so
                    // do the victims: that is chance, not deviation.
                    limit: if single_blocks { 0.05 } else { 0.01 },
                });
            }
            rows.extend(compare(case, &results, (0.05, 0.10)));
        }
    }
    rows
}

#[test]
fn with_collection_latencies_agree() {
    let mut rows = Vec::new();
    for drive in DRIVES {
        let configuration = drive.configuration(60, 0.8);
        let mut steady = Pair::new(&configuration, Ssd::new(&configuration));
        steady.fill(steady.logical_units);
        steady.scatter(1);
        let case = format!("{} steady", drive.name);
        rows.extend(steady_rows(&steady, &case, (drive.stripe == 1, false), REQUESTS_STEADY));
    }
    check(&rows);
}

/// Whether a case is to be measured.
fn is_asked_for(case: &str) -> bool {
    std::env::var("REFERENCE_CASE").map_or(true, |asked| case.contains(&asked))
}

/// What the seeds of the requests differ by.
fn seed(depth: usize) -> u64 {
    let asked = std::env::var("REFERENCE_SEED").ok();
    let asked = asked.map_or(0, |seed| seed.parse::<u64>().expect("a number"));
    depth as u64 + asked * 1000
}

/// The same drive with its map on flash, a tenth of it in RAM, and no read-ahead.
fn with_cached_map(configuration: &Configuration) -> Configuration {
    let mut configuration = configuration.clone();
    let mut parameters = configuration.geometry.parameters().clone();
    let groups = configuration.geometry.groups();
    let pages = parameters.logical_units.div_ceil(1024);
    let full = pages.div_ceil(configuration.geometry.units_per_block());
    parameters.metadata_collection_units = (3 * groups + full + 1).next_multiple_of(groups).max(4);
    configuration.geometry = Geometry::new(parameters).expect("a sound geometry");
    configuration.read_ahead.window = 0;
    configuration.mechanisms.mapping = MappingScheme::Cached;
    configuration.mechanisms.map_cache_pages = (pages / 10).max(4);
    configuration
}

#[test]
fn with_a_cached_map_latencies_agree() {
    let mut rows = Vec::new();
    for drive in DRIVES {
        let units_per_row = 4 * drive.planes * FLASH_PAGES_PER_BLOCK * drive.dies;
        let blocks = (REQUESTS as u32 * 16 / units_per_row + 8) * 2;
        let configuration = with_cached_map(&drive.configuration(blocks, 0.6));
        let mut filled = Pair::new(&configuration, Ssd::with_cached_map(&configuration));
        let units = filled.logical_units / 2 / 64 * 64;
        filled.fill(units);
        for workload in [RandomRead, RandomWrite, Mixed, LargeRead, SequentialWrite, FlushedWrite] {
            for depth in [1, 2, 8, 32] {
                let case = format!("{} cached {workload:?} depth {depth}", drive.name);
                if !is_asked_for(&case) {
                    continue;
                }
                // One flush in a hundred meets an erase of single blocks.
                let rare = drive.stripe == 1 && workload == FlushedWrite;
                let is_cliff = case == ON_A_CLIFF;
                let runs = match (is_cliff, rare) {
                    (true, _) => RUNS_ON_A_CLIFF,
                    (_, true) => RUNS_MIXED,
                    _ => RUNS,
                };
                let results = filled.run_often(runs, depth, |run| {
                    workload.operations(REQUESTS, units, seed(depth) + 100 * run)
                });
                rows.extend(compare(case, &results, (0.02, 0.05)));
            }
        }
    }
    check(&rows);
}

/// The one case of a cached map whose p99 lies on a cliff.
const ON_A_CLIFF: &str = "nvme 4x2 tlc cached RandomWrite depth 32";

/// What a drive has beyond the plain one.
#[derive(Clone, Copy, Debug)]
enum Feature {
    /// A flush takes the controller's time and completes a journal.
    Journal,
    /// Every write is durable when answered.
    WriteThrough,
    /// Capacitors protect the buffer.
    Protected,
    /// Reads interrupt programs and erases.
    Suspend,
}

impl Feature {
    fn of(self, configuration: &Configuration) -> Configuration {
        let mut configuration = configuration.clone();
        match self {
            Feature::Journal => {
                configuration.mechanisms.flush = FlushParameters {
                    overhead: Nanoseconds::from_micros(50),
                    journal: Some(JournalParameters { program: Nanoseconds::from_micros(300) }),
                    ..FlushParameters::default()
                };
            }
            Feature::WriteThrough => {
                configuration.mechanisms.flush.write_cache = WriteCache::WriteThrough;
            }
            Feature::Protected => configuration.buffer.protected = true,
            Feature::Suspend => {
                configuration.mechanisms.suspend = SuspendParameters {
                    operations: Suspendable::Both,
                    suspend: Nanoseconds::from_micros(30),
                    resume: Nanoseconds::from_micros(20),
                    most: 4,
                };
            }
        }
        configuration
    }
}

/// Which workload each feature shows in, and with how many requests.
const FEATURES: [(Feature, usize, &[Workload]); 4] = [
    (Feature::Journal, REQUESTS, &[FlushedWrite, Durable, FuaWrite]),
    (Feature::WriteThrough, REQUESTS, &[RandomWrite, Mixed]),
    // Writes that find no room are few, and come in bunches.
    (Feature::Protected, 8 * REQUESTS, &[Durable]),
    (Feature::Suspend, 8 * REQUESTS, &[Mixed, Durable]),
];

/// The drives that differ most: SATA, many dies, one-shot programs.
const FEATURE_DRIVES: [Drive; 3] = [DRIVES[1], DRIVES[2], DRIVES[4]];

#[test]
fn with_cache_flush_and_suspend_latencies_agree() {
    let mut rows = Vec::new();
    for drive in FEATURE_DRIVES {
        let units_per_program = 4 * drive.planes * drive.pages_per_shot;
        let units_per_row = 4 * drive.planes * FLASH_PAGES_PER_BLOCK * drive.dies;
        // Each write may be padded to a program unit, and still nothing is collected.
        for (feature, requests, workloads) in FEATURES {
            let blocks = requests as u32 * units_per_program / units_per_row + 40;
            let plain = drive.configuration(blocks, 0.05);
            let configuration = feature.of(&plain);
            let mut filled = Pair::new(&configuration, Ssd::new(&configuration));
            let units = filled.logical_units / 64 * 64;
            filled.fill(units);
            for &workload in workloads {
                for depth in [1, 8, 32] {
                    let case = format!("{} {feature:?} {workload:?} depth {depth}", drive.name);
                    if !is_asked_for(&case) {
                        continue;
                    }
                    let results = filled.run_often(RUNS, depth, |run| {
                        workload.operations(requests, units, seed(depth) + 100 * run)
                    });
                    rows.extend(compare(case, &results, (0.02, 0.05)));
                }
            }
        }
    }
    check(&rows);
}

#[test]
fn with_cache_flush_suspend_and_collection_latencies_agree() {
    let mut rows = Vec::new();
    for drive in FEATURE_DRIVES {
        let plain = drive.configuration(60, 0.8);
        for (feature, workload) in [
            (Feature::Journal, Durable),
            (Feature::Protected, Durable),
            (Feature::Suspend, Mixed),
            (Feature::Suspend, Durable),
        ] {
            let configuration = feature.of(&plain);
            let mut steady = Pair::new(&configuration, Ssd::new(&configuration));
            steady.fill(steady.logical_units);
            steady.scatter(1);
            for depth in [1, 8, 32] {
                let case = format!("{} steady {feature:?} {workload:?} depth {depth}", drive.name);
                if !is_asked_for(&case) {
                    continue;
                }
                let results = steady.run_often(RUNS, depth, |run| {
                    let seed = seed(depth) + 100 * run;
                    workload.operations(REQUESTS_STEADY / 2, steady.logical_units, seed)
                });
                rows.extend(compare(case, &results, (0.05, 0.10)));
            }
        }
    }
    check(&rows);
}

#[test]
fn with_a_cached_map_and_collection_latencies_agree() {
    let mut rows = Vec::new();
    for drive in DRIVES {
        let configuration = with_cached_map(&drive.configuration(60, 0.8));
        let mut steady = Pair::new(&configuration, Ssd::with_cached_map(&configuration));
        steady.fill(steady.logical_units);
        steady.scatter(1);
        let case = format!("{} cached steady", drive.name);
        rows.extend(steady_rows(&steady, &case, (drive.stripe == 1, true), REQUESTS_CACHED));
    }
    check(&rows);
}
