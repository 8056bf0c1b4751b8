//! A drive for tests and benches: a page map, greedy collection and a closed loop of requests over flash.
//!
//! The flash is the engine or the slow simulator. What is moved is decided at once, and the
//! flash work follows.

mod blocks;
pub mod device;
mod gc;
mod host;
mod numbered;
mod reads;
mod writes;

use std::collections::VecDeque;

use ssdlab_nand::geometry::Geometry;
use ssdlab_nand::timing::Timing;
use ssdlab_nand::{Completions, CopyNumber, EraseId, Nand, ProgramLog, ReadTime, Tag};
use ssdlab_units::Instant;

use blocks::Blocks;
use device::{Device, Durations, EngineHandles, Handles, TimedNand};
use gc::Collector;
use host::Host;
pub use host::Workload;
use numbered::Numbered;
use writes::{Frontier, HostProgram, WaitingWrite};

/// Nothing there.
pub const NONE: u32 = u32::MAX;

/// What a drive is made of.
#[derive(Clone, Debug)]
pub struct Parameters {
    pub geometry: Geometry,
    pub timing: Timing,
    /// Units of the write buffer.
    pub buffer: u32,
    /// Free blocks below which collection begins.
    pub low_water: u32,
    /// True if a block is written to again as soon as its erase is announced.
    pub is_eager: bool,
    pub depth: u32,
    pub seed: u64,
}

/// The drive: everything but the flash.
#[derive(Clone)]
pub struct Drive<H: Handles> {
    units_per_program: u32,
    units_per_page: u32,
    pub blocks: Blocks<H>,
    map: Vec<u32>,
    frontier: Frontier,
    collector: Collector<H>,
    /// The host, with what it has measured.
    pub host: Host,
    /// The host's programs, and what waits for them: the range, and the slot that is answered.
    programs: ProgramLog,
    /// Those from the first that is not over on, and the first that is not on the way to its die.
    host_programs: Numbered<HostProgram>,
    /// The one that is being filled.
    filling: HostProgram,
    sent: u64,
    /// When all data that was let in is in the buffer.
    received_until: Instant,
    barriers: Vec<(u64, u64, u32)>,
    /// Writes that wait for room.
    waiting: VecDeque<WaitingWrite>,
    buffer_used: u32,
    buffer: u32,
    is_eager: bool,
    streams: Vec<reads::ReadAhead<H>>,
    scratch: Vec<reads::Gathered>,
    /// What the flash has done and when, if that is kept.
    pub trace: Option<Vec<(u64, &'static str, u32)>>,
}

impl<H: Handles> Drive<H> {
    pub fn new(parameters: &Parameters) -> Drive<H> {
        let geometry = &parameters.geometry;
        Drive {
            units_per_program: geometry.units_per_program(),
            units_per_page: geometry.units_per_page(),
            blocks: Blocks::new(geometry),
            map: vec![NONE; geometry.logical_units() as usize],
            frontier: Frontier::new(geometry.groups()),
            collector: Collector::new(geometry, parameters.low_water),
            host: Host::new(geometry.logical_units(), parameters.depth, parameters.seed),
            programs: ProgramLog::default(),
            host_programs: Numbered::new(HostProgram { first: NONE, data: 0 }),
            filling: HostProgram { first: NONE, data: 0 },
            sent: 0,
            received_until: Instant::START,
            barriers: Vec::new(),
            waiting: VecDeque::new(),
            buffer_used: 0,
            buffer: parameters.buffer,
            is_eager: parameters.is_eager,
            streams: (0..parameters.depth).map(|_| reads::ReadAhead::default()).collect(),
            scratch: Vec::new(),
            trace: None,
        }
    }

    #[inline(always)]
    fn note(&mut self, at: Instant, what: &'static str, number: u32) {
        if let Some(trace) = &mut self.trace {
            trace.push((at.nanos(), what, number));
        }
    }

    /// Program units of the host's and of copies, so far.
    pub fn program_units(&self) -> (u64, u64) {
        (self.frontier.programmed, self.collector.programmed)
    }

    pub fn begin_phase<D: Device<H>>(
        &mut self,
        flash: &mut D,
        at: Instant,
        load: Workload,
        requests: u64,
    ) {
        self.host.begin(load, requests);
        for slot in 0..self.host.depth() {
            self.send_next(flash, slot, at);
        }
    }

    /// The request of a slot is answered at `at`, and the host sends another.
    #[inline(always)]
    pub fn answer<D: Device<H>>(&mut self, flash: &mut D, slot: u32, at: Instant) {
        self.host.answered(slot, at);
        self.send_next(flash, slot, at);
    }

    #[inline(always)]
    fn send_next<D: Device<H>>(&mut self, flash: &mut D, slot: u32, at: Instant) {
        if let Some(next) = self.host.send(slot, at) {
            prefetch(&self.map, next as usize);
            flash.submit(at, slot);
        }
    }

    #[inline(always)]
    pub fn fetched<D: Device<H>>(&mut self, flash: &mut D, slot: u32, at: Instant) {
        use host::Operation::*;
        let request = self.host.request(slot);
        match request.operation {
            Read => self.read(flash, slot, request.unit, request.units, at),
            Write | WriteFua => self.write(flash, slot, request.unit, request.units, at),
            Flush => self.flush(flash, slot, at),
        }
    }
}

/// The drive over the engine.
#[derive(Clone)]
pub struct Engine {
    pub nand: Nand,
    pub sink: Sink,
}

/// The drive as the engine tells it what has happened.
#[derive(Clone)]
pub struct Sink {
    pub drive: Drive<EngineHandles>,
    durations: Durations,
}

impl Engine {
    pub fn new(parameters: &Parameters, dies: ssdlab_nand::DieParameters) -> Engine {
        let nand = Nand::new(&parameters.geometry, &parameters.timing, dies);
        let durations = Durations::of(&parameters.timing);
        Engine { nand, sink: Sink { drive: Drive::new(parameters), durations } }
    }

    /// Runs requests until all are answered and the flash is idle.
    pub fn run(&mut self, load: Workload, requests: u64) {
        self.begin(load, requests);
        self.run_until(Instant::from_nanos(u64::MAX - 1));
    }

    /// Has the host begin to send requests.
    pub fn begin(&mut self, load: Workload, requests: u64) {
        let at = self.nand.now().max(self.sink.drive.host.latest);
        let (drive, mut flash) = self.sink.drive_and_flash(&mut self.nand);
        drive.begin_phase(&mut flash, at, load, requests);
    }

    /// Lets everything happen that is due until then.
    #[inline(always)]
    pub fn run_until(&mut self, until: Instant) {
        while self.nand.step(until, &mut self.sink) {}
    }
}

impl Sink {
    #[inline(always)]
    fn drive_and_flash<'a>(
        &'a mut self,
        nand: &'a mut Nand,
    ) -> (&'a mut Drive<EngineHandles>, TimedNand<'a>) {
        (&mut self.drive, TimedNand { nand, durations: &self.durations })
    }
}

impl Completions for Sink {
    #[inline(always)]
    fn reads_commute(&self) -> bool {
        true
    }

    #[inline(always)]
    fn fetched(&mut self, nand: &mut Nand, tag: Tag, at: Instant) {
        let (drive, mut flash) = self.drive_and_flash(nand);
        drive.fetched(&mut flash, tag.0, at);
    }
    #[inline(always)]
    fn read(&mut self, nand: &mut Nand, tag: Tag, at: Instant, _: ReadTime) {
        let (drive, mut flash) = self.drive_and_flash(nand);
        drive.answer(&mut flash, tag.0, at);
    }
    fn loaded(&mut self, nand: &mut Nand, tag: Tag, at: Instant) {
        let (drive, mut flash) = self.drive_and_flash(nand);
        drive.loaded(&mut flash, tag.0, at);
    }
    #[inline(always)]
    fn programmed(&mut self, nand: &mut Nand, tag: Tag, at: Instant) {
        let (drive, mut flash) = self.drive_and_flash(nand);
        drive.programmed(&mut flash, tag.0, at);
    }
    #[inline(always)]
    fn copies_programmed(&mut self, nand: &mut Nand, copies: CopyNumber, at: Instant) {
        let (drive, mut flash) = self.drive_and_flash(nand);
        drive.copies_programmed(&mut flash, EngineHandles::index(copies), at);
    }
    fn erased(&mut self, nand: &mut Nand, erase: EraseId, at: Instant) {
        let (drive, mut flash) = self.drive_and_flash(nand);
        drive.erased(&mut flash, erase, at);
    }
    #[inline(always)]
    fn alarm(&mut self, nand: &mut Nand, _: Tag, at: Instant) {
        let (drive, mut flash) = self.drive_and_flash(nand);
        drive.data_received(&mut flash, at);
    }
}

/// Asks for a line of a table before it is needed.
#[inline(always)]
fn prefetch(table: &[u32], index: usize) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint about an address that is not accessed.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch(table.as_ptr().wrapping_add(index).cast(), _MM_HINT_T0);
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (table, index);
}
