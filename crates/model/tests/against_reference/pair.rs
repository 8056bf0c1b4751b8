//! The model and the reference side by side, in the same state and asked for the same.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use ssdlab_model::Configuration;
use ssdlab_model::ftl::{Answer, Command, Host, Port, RequestTag, Ssd};
use ssdlab_model::mapping::Mapping;
use ssdlab_nand::geometry::GeometryError;
use ssdlab_units::{Instant, LogicalUnit, Nanoseconds};

use crate::reference::{Measured, Operation, Reference, pause_of_host};

/// Units of a piece where a stream is scattered over the flash: more than a few, and no multiple of what
/// a program unit holds.
const PIECE: u32 = 13;

/// Quiet time between preparing a drive and measuring: all that preparing left is done by then.
const PAUSE: u64 = 10_000_000_000;

/// One in so many parts of a drive is written between two states that runs begin from.
const BETWEEN: u32 = 4;

/// Latencies of one run, of the model and of the reference.
pub type Results = (Measured, Measured);

/// Units that the host has written, and those programmed.
#[derive(Clone, Copy, Debug)]
pub struct Written {
    pub host: u64,
    pub flash: u64,
}

/// An instant after all that happens.
const END: Instant = Instant::from_nanos(u64::MAX - 1);

/// The model with a host that keeps some operations in flight.
#[derive(Clone)]
pub struct Model<M: Mapping> {
    ssd: Ssd<M>,
    now: u64,
}

/// The host: a closed loop of operations. It is told of answers before they come, and not in their order; it
/// sends what follows when they have come.
#[derive(Default)]
struct Loop {
    /// Places that are answered, or whose host sends next, by when and in the order in which that was told.
    answered: BinaryHeap<Reverse<(Instant, usize, RequestTag)>>,
    told: usize,
    /// What each place has sent, by number, and when.
    open: Vec<Option<(usize, Instant)>>,
}

impl Loop {
    fn note_answered(&mut self, at: Instant, tag: RequestTag) {
        self.told += 1;
        self.answered.push(Reverse((at, self.told, tag)));
    }
}

impl Host for Loop {
    fn is_alone(&self) -> bool {
        false
    }

    fn answered(&mut self, _: &mut Port<'_>, answer: Answer) -> Option<LogicalUnit> {
        self.note_answered(answer.at, answer.tag);
        None
    }
}

fn command_of(operation: Operation) -> Command {
    match operation {
        Operation::Read { first, units } => Command::Read { first: LogicalUnit(first), units },
        Operation::Write { first, units } => {
            Command::Write { first: LogicalUnit(first), units, force: false }
        }
        Operation::WriteFua { first, units } => {
            Command::Write { first: LogicalUnit(first), units, force: true }
        }
        Operation::Flush => Command::Flush,
    }
}

impl<M: Mapping> Model<M> {
    fn run(&mut self, depth: usize, operations: &[Operation]) -> Measured {
        let mut host = Loop { open: vec![None; depth], ..Loop::default() };
        let mut measured = Measured::default();
        let mut last = Instant::from_nanos(self.now);
        (0..depth as u32).for_each(|place| host.note_answered(last, RequestTag(place)));
        let mut numbers = 0..operations.len();
        loop {
            // All that is answered until the first answer of those known is known then.
            let first = host.answered.peek().map(|it| it.0.0);
            if self.ssd.single_step(first.unwrap_or(END), &mut host) {
                continue;
            }
            let Some(Reverse((at, _, tag))) = host.answered.pop() else { break };
            last = last.max(at);
            let open = &mut host.open[tag.0 as usize];
            if let Some((number, sent)) = open.take() {
                measured.note(&operations[number], at.since(sent).nanos());
                host.note_answered(at + Nanoseconds::new(pause_of_host(number)), tag);
            } else if let Some(number) = numbers.next() {
                *open = Some((number, at));
                self.ssd.port().submit(at, tag, command_of(operations[number]));
            }
        }
        assert!(host.open.iter().all(Option::is_none), "every operation is answered");
        measured.elapsed = last.nanos() - self.now;
        self.now = last.max(self.ssd.now()).nanos();
        measured
    }

    pub fn written(&self) -> (u64, u64) {
        let counters = self.ssd.counters();
        // The reference counts pages of a map on flash, and none of a journal.
        let flash = counters.flash_write_units() - counters.program_units_metadata;
        (counters.host_write_units, flash)
    }
}

/// Both simulators of one drive in the same state.
#[derive(Clone)]
pub struct Pair<M: Mapping> {
    pub model: Model<M>,
    pub reference: Reference,
    pub logical_units: u32,
}

/// Returns what one run from each of `states` measures at this depth, with operations of its own, and what was written
/// in each.
pub fn run_from<M: Mapping + Clone>(
    states: &[Pair<M>],
    depth: usize,
    operations: impl Fn(u64) -> Vec<Operation>,
) -> (Vec<Results>, Vec<(Written, Written)>) {
    let one = |(run, state): (u64, &Pair<M>)| {
        let mut pair = state.clone();
        let before = [pair.model.written(), pair.reference.written()];
        let results = pair.run(depth, &operations(run));
        let after = [pair.model.written(), pair.reference.written()];
        let of = |at: usize| Written {
            host: after[at].0 - before[at].0,
            flash: after[at].1 - before[at].1,
        };
        (results, (of(0), of(1)))
    };
    (0..).zip(states).map(one).unzip()
}

impl<M: Mapping + Clone> Pair<M> {
    /// The two simulators of a new drive; `ssd` is the model of it.
    pub fn new(configuration: &Configuration, ssd: Result<Ssd<M>, GeometryError>) -> Pair<M> {
        Pair {
            model: Model { ssd: ssd.expect("a sound drive"), now: 0 },
            reference: Reference::new(configuration),
            logical_units: configuration.geometry.logical_units(),
        }
    }

    pub fn run(&mut self, depth: usize, operations: &[Operation]) -> (Measured, Measured) {
        let results = (self.model.run(depth, operations), self.reference.run(depth, operations));
        let quiet = self.model.now.max(self.reference.now()) + PAUSE;
        self.model.now = quiet;
        self.reference.wait_until(quiet);
        results
    }

    /// Returns what `runs` runs at this depth measure, each from here on with operations of its own.
    pub fn run_often(
        &self,
        runs: u64,
        depth: usize,
        operations: impl Fn(u64) -> Vec<Operation>,
    ) -> Vec<(Measured, Measured)> {
        (0..runs).map(|run| self.clone().run(depth, &operations(run))).collect()
    }

    /// Returns `count` states that random writes lead to from here, one after the other.
    pub fn states(&self, count: u64) -> Vec<Pair<M>> {
        let mut state = self.clone();
        let next = |number| {
            state.scatter(self.logical_units / BETWEEN, 1000 + number);
            state.clone()
        };
        (0..count).map(next).collect()
    }

    /// Writes `units` units in order.
    pub fn fill(&mut self, units: u32) {
        let fill: Vec<Operation> =
            (0..units / 16).map(|at| Operation::Write { first: at * 16, units: 16 }).collect();
        self.run(8, &fill);
    }

    /// Writes all once, in pieces that no program unit ends with and in no order: of a stream, nothing
    /// is read ahead then.
    pub fn fill_in_no_order(&mut self, units: u32) {
        let pieces = (0..units).step_by(PIECE as usize);
        let write = |first| Operation::Write { first, units: PIECE.min(units - first) };
        let mut fill: Vec<Operation> = pieces.map(write).collect();
        fill.shuffle(&mut Pcg64Mcg::seed_from_u64(98));
        self.run(8, &fill);
    }

    /// Writes single units at random, `times` as many as the drive has.
    pub fn write_over(&mut self, times: u32) {
        self.scatter(self.logical_units * times, 99);
    }

    /// Writes `count` single units at random.
    fn scatter(&mut self, count: u32, seed: u64) {
        let mut generator = Pcg64Mcg::seed_from_u64(seed);
        let units = self.logical_units;
        let scatter: Vec<Operation> = (0..count)
            .map(|_| Operation::Write { first: generator.random_range(0..units), units: 1 })
            .collect();
        self.run(32, &scatter);
    }
}
