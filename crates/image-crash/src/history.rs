//! Histories: steps of a host on a drive, with a record of all that happens to the image.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use ssdlab_attach::engine::{Engine, Time};
use ssdlab_attach::image::layout::Layout;

use crate::crash::Crash;
use crate::faults::Fault;
use crate::memory_storage::{Event, MemoryStorage};
use crate::oracle::{Change, Mark, Oracle, fill, read_contents};
use crate::pages::{Pages, SECTOR};
use crate::setup::{Setup, open, sectors};

/// A step of the host. Sectors have 512 bytes and count from the beginning of the drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Writes the given number of sectors from the first on, with FUA or without.
    Write(u32, u32, bool),
    /// Trims the given number of sectors from the first on.
    Trim(u32, u32),
    /// Flushes the drive.
    Flush,
    /// Leaves the drive idle for this many milliseconds.
    Rest(u64),
    /// Closes the drive in order, and opens it again.
    Close,
    /// Ends the program without closing the drive, and opens it again.
    Kill,
    /// Cuts the drive's power, and opens it again.
    PowerCut,
    /// Crashes the host, which leaves an image chosen by this seed, and opens the drive again.
    Crash(u64),
    /// Closes the drive in order, for good.
    End,
}

/// Record of what happened to the image of a drive.
#[derive(Debug)]
pub struct History {
    /// The kind of drive.
    pub setup: Setup,
    /// Layout of its image.
    pub layout: Layout,
    /// The mistake that is planted; `None` for none.
    pub fault: Option<Fault>,
    /// The image at the beginning of the log.
    pub begin: Pages,
    /// Allowed contents of each sector at the beginning of the log.
    pub initial_oracle: Oracle,
    /// Events, in their order.
    pub log: Vec<Event>,
    /// The image at the end of the log.
    pub end: Pages,
}

/// Returns an instant that this machine's clock does not reach, so that drives' clocks run only with the
/// arrival times of requests.
pub fn far_ahead() -> Instant {
    Instant::now() + Duration::from_secs(1 << 30)
}

/// Time of a host between two requests.
const THINK_TIME: Duration = Duration::from_micros(20);

struct Host {
    setup: Setup,
    layout: Layout,
    begin: Pages,
    storage: Arc<MemoryStorage>,
    engine: Engine,
    now: Instant,
    oracle: Oracle,
    held: Vec<Change>,
    changes: u64,
}

impl Host {
    fn mark(&mut self, mark: Mark) {
        self.oracle.note(&mark);
        self.storage.mark(mark);
    }

    fn mark_all_promised(&mut self) {
        let changes = self.held.as_slice().into();
        self.mark(Mark::Promised { first: 0, changes });
    }

    fn next_change(&mut self) -> u64 {
        self.changes += 1;
        self.changes
    }

    fn mark_begun(&mut self, first: u32, count: u32, change: Change) {
        self.mark(Mark::Begun { sectors: first..first + count, change });
        self.held[first as usize..(first + count) as usize].fill(change);
    }

    fn execute(&mut self, step: Step) -> Result<()> {
        self.now += THINK_TIME;
        match step {
            Step::Write(first, count, fua) => {
                let change = Change::write(self.next_change());
                self.mark_begun(first, count, change);
                let mut data = vec![0; count as usize * SECTOR];
                fill(&mut data, first, change);
                let _ = self.engine.write(self.now, offset(first), &data, fua)?;
                if fua {
                    let changes = vec![change; count as usize].into();
                    self.mark(Mark::Promised { first, changes });
                }
            }
            Step::Trim(first, count) => {
                let change = Change::trim(self.next_change());
                self.mark_begun(first, count, change);
                let length = u64::from(count) * SECTOR as u64;
                let _ = self.engine.trim(self.now, offset(first), length, true)?;
            }
            Step::Flush => {
                let _ = self.engine.flush(self.now)?;
                self.mark_all_promised();
            }
            Step::Rest(time) => self.now += Duration::from_millis(time),
            Step::Close => {
                self.engine.close()?;
                self.mark_all_promised();
                self.reopen()?;
            }
            Step::End => {
                self.engine.close()?;
                self.mark_all_promised();
            }
            Step::Kill => self.reopen()?,
            Step::Crash(seed) => {
                let crash = Crash::after(&self.begin, &self.storage.log());
                self.storage.crash(crash.random_image(&self.layout, seed));
                self.reopen()?;
            }
            Step::PowerCut => {
                self.engine.power_cut();
                self.reopen()?;
            }
        }
        Ok(())
    }

    fn reopen(&mut self) -> Result<()> {
        self.now += Duration::from_millis(1);
        self.engine = open(self.storage.clone(), self.setup.time, self.now)?.0;
        let mut data = vec![0; self.engine.capacity() as usize];
        let _ = self.engine.read(self.now, 0, &mut data)?;
        let identified = self.oracle.identify(&read_contents(&data, 0));
        self.held = identified.map_err(|wrong| anyhow::anyhow!("opened again: {wrong}"))?;
        let found = self.held.as_slice().into();
        self.mark(Mark::Found(found));
        Ok(())
    }
}

fn offset(sector: u32) -> u64 {
    u64::from(sector) * SECTOR as u64
}

impl History {
    /// Lets a new drive of the kind `setup` go through `steps`.
    ///
    /// # Errors
    /// Returns an error if a request fails, or if a drive that was opened again holds what is not allowed.
    pub fn record(setup: Setup, steps: &[Step]) -> Result<History> {
        let (begin, layout) = setup.image()?;
        let storage = Arc::new(MemoryStorage::recording(begin.clone()));
        let now = far_ahead();
        let engine = open(storage.clone(), setup.time, now)?.0;
        let sectors = sectors(&engine);
        let held = vec![Change::default(); sectors as usize];
        let oracle = Oracle::new(sectors);
        let mut host =
            Host { setup, layout, begin, storage, engine, now, oracle, held, changes: 0 };
        for (index, &step) in steps.iter().enumerate() {
            host.execute(step).with_context(|| format!("step {index}, {step:?}"))?;
        }
        let Host { layout, begin, storage, engine, .. } = host;
        drop(engine);
        let (log, end) = (storage.take_log(), storage.pages());
        let initial_oracle = Oracle::new(sectors);
        Ok(History { setup, layout, fault: None, begin, initial_oracle, log, end })
    }

    /// Plants the mistake `fault` in the history, up to its first crash. What comes later would depend on what
    /// the crash leaves of the drive with the mistake.
    pub fn with_fault(mut self, fault: Fault) -> History {
        let until = self.log.iter().position(|event| matches!(event, Event::Crashed(_)));
        self.log.truncate(until.unwrap_or(self.log.len()));
        self.log = fault.inject(self.log, &self.layout);
        self.fault = Some(fault);
        self
    }

    /// Returns history `number` of the kind `setup`.
    ///
    /// # Errors
    /// As [`History::record`].
    pub fn numbered(setup: Setup, number: u64) -> Result<History> {
        History::record(setup, &setup.steps(number)?)
    }

    /// Returns the allowed contents of each sector at the end.
    pub fn final_oracle(&self) -> Oracle {
        let mut oracle = self.initial_oracle.clone();
        for event in &self.log {
            if let Event::Host(mark) = event {
                oracle.note(mark);
            }
        }
        oracle
    }
}

/// Number of sectors in a mapping unit.
pub const UNIT: u32 = 8;

/// Number of different steps in short histories.
const SHORT_STEPS: u64 = 11;

/// Returns a step of short histories. The last but one writes all of the drive, so that it has to run gc.
fn short_step(number: u64, sectors: u32) -> Step {
    let steps: [Step; SHORT_STEPS as usize] = [
        Step::Flush,
        Step::Write(0, UNIT, false),
        Step::Write(UNIT, 4 * UNIT, false),
        Step::Write(3, 2, false),
        Step::Write(UNIT / 2, 2 * UNIT, true),
        Step::Trim(0, 2 * UNIT),
        Step::Kill,
        Step::Close,
        Step::PowerCut,
        Step::Write(0, sectors, false),
        Step::Crash(number),
    ];
    steps[(number % SHORT_STEPS) as usize]
}

impl Setup {
    /// Returns the steps of history `number` of those with early and frequent gc. The host writes all of the
    /// drive, and then as many single units as the drive has, so scattered that blocks keep valid units. It
    /// flushes never, or after every one, two or three.
    ///
    /// # Errors
    /// Returns an error if no such drive is possible.
    pub fn gc_steps(&self, number: u32) -> Result<Vec<Step>> {
        let capacity = self.profile()?.configuration()?.geometry.capacity().bytes();
        let units = (capacity / SECTOR as u64) as u32 / UNIT;
        let flushed_after = number % 4;
        let mut generator = Pcg64Mcg::seed_from_u64(number.into());
        let mut steps = vec![Step::Write(0, units * UNIT, false), Step::Flush];
        for index in 0..units {
            steps.push(Step::Write(generator.random_range(0..units) * UNIT, UNIT, false));
            if flushed_after > 0 && index % flushed_after == 0 {
                steps.push(Step::Flush);
            }
        }
        Ok(steps)
    }

    /// Returns the steps of history `number`. Every fourth history is a short one: these try all orders of a
    /// few steps. The others are random.
    ///
    /// # Errors
    /// Returns an error if no such drive is possible.
    pub fn steps(&self, number: u64) -> Result<Vec<Step>> {
        let capacity = self.profile()?.configuration()?.geometry.capacity().bytes();
        Ok(steps((capacity / SECTOR as u64) as u32, number, self.time))
    }
}

fn steps(sectors: u32, number: u64, time: Time) -> Vec<Step> {
    let (mut rest, short) = (number / 4, number.is_multiple_of(4));
    if !short {
        return random_steps(sectors, [15, 30, 60][(rest % 3) as usize], number, time);
    }
    let mut steps = vec![Step::Write(0, 3 * UNIT, false), Step::Flush];
    while rest > 0 {
        steps.push(short_step(rest, sectors));
        rest /= SHORT_STEPS;
    }
    steps.push(Step::Flush);
    steps
}

/// Returns random steps of a host on a drive of `sectors` sectors: `count` to twice as many.
fn random_steps(sectors: u32, count: usize, seed: u64, time: Time) -> Vec<Step> {
    let mut generator = Pcg64Mcg::seed_from_u64(seed);
    let mut steps = Vec::new();
    // Some hosts use a small part of the drive again and again, some all of it, so that it runs gc.
    let used = [4 * UNIT, 16 * UNIT, sectors, sectors][generator.random_range(0..4)];
    let is_orderly = generator.random_range(0..3) == 0;
    if generator.random_range(0..3) == 0 {
        // The drive is then so full and scattered that gc has to copy data.
        steps.push(Step::Write(0, sectors, false));
        for _ in 0..generator.random_range(50..200) {
            steps.push(Step::Write(generator.random_range(0..sectors / UNIT) * UNIT, UNIT, false));
        }
    }
    for _ in 0..generator.random_range(count..=2 * count) {
        let most = [1, UNIT, UNIT, 4 * UNIT, 16 * UNIT][generator.random_range(0..5)].min(used);
        let mut length = most;
        if generator.random_range(0..6) == 0 {
            length = generator.random_range(1..=most);
        }
        let mut first = generator.random_range(0..=used - length);
        if is_orderly || generator.random_range(0..4) > 0 {
            (first, length) = (first - first % UNIT, length.next_multiple_of(UNIT));
        }
        steps.push(match generator.random_range(0..42) {
            0..20 => Step::Write(first, length, false),
            20..22 => Step::Write(first, length, true),
            22..27 => Step::Trim(first, length),
            27..36 => Step::Flush,
            36 if time == Time::Real => Step::Rest(generator.random_range(1..30)),
            36 | 37 => Step::Kill,
            38 => Step::PowerCut,
            39 | 40 => Step::Crash(generator.random()),
            _ => Step::Close,
        });
    }
    steps
}
