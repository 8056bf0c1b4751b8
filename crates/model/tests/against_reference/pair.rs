//! The model and the reference side by side, in the same state and asked for the same.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use ssdlab_model::mapping::Mapping;
use ssdlab_model::pending::{Step, Waiting};
use ssdlab_model::{Configuration, Ssd};
use ssdlab_nand::geometry::GeometryError;
use ssdlab_units::{Instant, Sector, SectorCount};

use crate::reference::{Measured, Operation, Reference, pause_of_host};

/// Units of a piece where a stream is scattered over the flash: more than a few, and no multiple of what
/// a program unit holds.
const PIECE: u32 = 13;

/// Quiet time between preparing a drive and measuring: all that preparing left is done by then.
const PAUSE: u64 = 10_000_000_000;

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

/// An operation that waits: for what, when it was sent, its number, and what it is.
type Open = (Waiting, u64, usize, Operation);

/// The model with a host that keeps some operations in flight.
#[derive(Clone)]
pub struct Model<M: Mapping> {
    ssd: Ssd<M>,
    now: u64,
}

impl<M: Mapping> Model<M> {
    fn run(&mut self, depth: usize, operations: &[Operation]) -> Measured {
        let mut measured = Measured::default();
        let mut free = Queue::default();
        (0..depth).for_each(|place| free.push(self.now, place));
        let mut open: Vec<Option<Open>> = vec![None; depth];
        let mut last = self.now;
        for (number, operation) in operations.iter().enumerate() {
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
                    end.nanos() + pause_of_host(number)
                }
                Step::Waits(waiting) => {
                    open[place] = Some((waiting, sent, number, *operation));
                    waiting.until().nanos()
                }
            };
            free.push(end, place);
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
        open: &mut [Option<Open>],
        measured: &mut Measured,
    ) -> (u64, usize) {
        loop {
            let (at, place) = free.pop();
            let Some((waiting, sent, number, operation)) = open[place].take() else {
                return (at, place);
            };
            let again = match self.ssd.go_on(waiting) {
                Step::Answered(end) => {
                    measured.note(&operation, end.nanos() - sent);
                    end.nanos() + pause_of_host(number)
                }
                Step::Waits(waiting) => {
                    open[place] = Some((waiting, sent, number, operation));
                    waiting.until().nanos()
                }
            };
            free.push(again, place);
        }
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

    /// What `runs` runs at this depth measure together, each from here on with operations of its own.
    pub fn run_often(
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
    pub fn scatter(&mut self, times: u32) {
        self.scatter_by(self.logical_units * times, 99);
    }

    /// Writes `count` single units at random.
    pub fn scatter_by(&mut self, count: u32, seed: u64) {
        let mut generator = Pcg64Mcg::seed_from_u64(seed);
        let units = self.logical_units;
        let scatter: Vec<Operation> = (0..count)
            .map(|_| Operation::Write { first: generator.random_range(0..units), units: 1 })
            .collect();
        self.run(32, &scatter);
    }
}
