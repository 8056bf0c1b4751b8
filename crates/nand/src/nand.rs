//! The flash as one machine: what can be asked of it, and the loop that lets time pass.

mod events;
pub(crate) mod power_cut;
#[cfg(test)]
mod tests;

use std::ops::Range;

use ssdlab_units::{DieIndex, Instant, Nanoseconds, PhysicalUnit};

use crate::channel::Transit;
use crate::completions::{Completions, Tag};
use crate::controller::Controller;
use crate::copies::{Copies, CopyNumber};
use crate::die::{DieParameters, Dies, Line};
use crate::erase::{EraseId, Erases};
use crate::geometry::Geometry;
use crate::link::Link;
use crate::pool::{Kind, NONE, Op, mark};
use crate::request::{Needed, PieceIndex, ReadId, Requests};
use crate::schedule::{Schedule, Scheduled};
use crate::timing::{CODEWORD, Timing};

/// A page, or a part of it, that is to be sensed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Page {
    /// A unit that lies on it.
    pub unit: PhysicalUnit,
    /// Mapping units of it that are moved, or of which a part is.
    pub units: u32,
    /// How long the die senses, read retries included.
    pub sense: Nanoseconds,
}

/// A program unit that is to be programmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProgramUnit {
    /// A unit in it.
    pub unit: PhysicalUnit,
    /// Mapping units that cross the channel.
    pub units: u32,
    /// How long the die programs.
    pub program: Nanoseconds,
    /// The erase of its block, if that is not over.
    pub after: Option<EraseId>,
}

/// Dies, channels, the host link and the controller, with everything that is in flight.
#[derive(Clone, Debug)]
pub struct Nand {
    geometry: Geometry,
    timing: Timing,
    transit: Transit,
    dies: Dies,
    controller: Controller,
    link: Link,
    schedule: Schedule,
    requests: Requests,
    copies: Copies,
    erases: Erases,
    unit_over_link: Nanoseconds,
    /// Codewords of a mapping unit.
    codewords_per_unit: u32,
    /// How far ahead of transfers a command can be acted on while nothing but reads is under way: by the link's
    /// time of a unit, after which a read is answered, and the time of the command that follows the answer.
    look_ahead: Nanoseconds,
    /// Flash operations under way that are no reads of the host.
    others_under_way: u64,
    /// The instant of the latest event.
    now: Instant,
    events: u64,
}

impl Nand {
    /// Returns idle flash at the start of time.
    pub fn new(geometry: &Geometry, timing: &Timing, parameters: DieParameters) -> Nand {
        let channel_of = |die| geometry.channel_of(DieIndex(die));
        let unit_over_link = timing.link.duration(geometry.unit_size());
        let codeword = geometry.unit_size().min(CODEWORD);
        Nand {
            transit: Transit::new(
                geometry.dies() as usize,
                geometry.channels() as usize,
                in_32_bits(timing.channel.duration(codeword)),
            ),
            dies: Dies::new(geometry.dies(), channel_of, parameters),
            controller: Controller::new(timing.command_occupancy, timing.command_latency),
            link: Link::new(timing.link_full_duplex),
            schedule: Schedule::default(),
            requests: Requests::new(timing.delivery),
            copies: Copies::default(),
            erases: Erases::default(),
            unit_over_link,
            codewords_per_unit: geometry.unit_size().whole(codeword) as u32,
            // Where both directions share the link, a write would take it before reads that ended earlier.
            look_ahead: match timing.link_full_duplex {
                true => timing.command_occupancy + timing.command_latency + unit_over_link,
                false => Nanoseconds::ZERO,
            },
            others_under_way: 0,
            now: Instant::START,
            events: 0,
            geometry: geometry.clone(),
            timing: timing.clone(),
        }
    }

    /// Returns how the flash is built.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// Returns the instant of the latest event.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// Returns how many events have happened: what this engine's speed is about.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// Returns how long `units` mapping units take the host link.
    pub fn link_time(&self, units: u32) -> Nanoseconds {
        self.unit_over_link * u64::from(units)
    }

    // ----- the host's side

    /// The host sends a command at `at`, not before [`Nand::now`], which keeps the controller busy for
    /// `longer` than others. [`Completions::fetched`] tells when the controller acts on it.
    #[inline(always)]
    pub fn submit(&mut self, at: Instant, tag: Tag, longer: Nanoseconds) {
        self.controller.submit(at, tag.0, in_32_bits(longer));
    }

    /// Tells the dies whether writes of the host's wait for room in the buffer, for those that suspend only
    /// while none does ([`SuspendWhen::BufferHasRoom`](crate::suspend::SuspendWhen)).
    #[inline(always)]
    pub fn note_full(&mut self, is_full: bool) {
        self.dies.note_full(is_full);
    }

    /// Keeps the controller busy for `longer` with the command that it acts on.
    pub fn hold_controller(&mut self, longer: Nanoseconds) {
        self.controller.hold(longer);
    }

    /// Moves a write's data over the link from now on, and returns when it is in RAM. Transfers follow
    /// each other in the order in which they are asked for.
    #[inline(always)]
    pub fn receive(&mut self, duration: Nanoseconds) -> Instant {
        self.link.receive(self.now, duration)
    }

    /// Sends data that is in RAM to the host. [`Completions::read`] tells when it is there.
    pub fn send(&mut self, tag: Tag, duration: Nanoseconds) {
        self.schedule.add(self.now, Scheduled::Send(tag.0, in_32_bits(duration)));
    }

    /// Has [`Completions::alarm`] told at `at`, not before [`Nand::now`].
    #[inline(always)]
    pub fn set_alarm(&mut self, at: Instant, tag: Tag) {
        assert!(at >= self.now, "an alarm goes off in the future");
        self.schedule.add(at, Scheduled::Alarm(tag.0));
    }

    // ----- reads

    /// Reads one unit for the host, whose page is sensed for `sense`. [`Completions::read`] tells when
    /// the data is there.
    #[inline(always)]
    pub fn read_unit(&mut self, tag: Tag, unit: PhysicalUnit, sense: Nanoseconds) {
        let die = self.geometry.die_of(unit);
        let duration = in_32_bits(sense);
        let codewords = self.codewords_per_unit as u16;
        let op = new_op(Kind::Read, die, tag.0, duration, duration, codewords);
        self.dies.read(&mut self.transit, op, NONE, self.now);
    }

    /// Begins a read of several pieces, which are added to it before it is issued with
    /// [`Nand::issue_read`], all at one instant. `is_stream` has its pages looked for in the page registers
    /// of their dies.
    pub fn begin_read(&mut self, tag: Tag, is_stream: bool) -> ReadId {
        self.requests.begin(tag, is_stream)
    }

    /// Adds data that is in RAM to a read, and takes the host link for `link`: [`Nand::link_time`] of its
    /// units, or less where the host asks for a part of one.
    pub fn add_buffered(&mut self, read: ReadId, link: Nanoseconds) -> PieceIndex {
        self.add_piece(read, link, 0, true)
    }

    /// Adds data to a read that will be in RAM once [`Nand::piece_arrived`] says so, and takes the host
    /// link for `link`.
    pub fn add_awaited(&mut self, read: ReadId, link: Nanoseconds) -> PieceIndex {
        self.add_piece(read, link, 0, false)
    }

    /// Adds a page to a read, whose data takes the host link for `link`. Whole units cross the channel. Pages that a
    /// multi-plane read senses together are sensed once.
    pub fn add_page(&mut self, read: ReadId, page: Page, link: Nanoseconds) -> PieceIndex {
        self.add_part_of_page(read, page, 0, link)
    }

    /// Adds a page to a read, without `left_out` codewords of its units, which nobody asked for.
    pub fn add_part_of_page(
        &mut self,
        read: ReadId,
        page: Page,
        left_out: u32,
        link: Nanoseconds,
    ) -> PieceIndex {
        let duration = in_32_bits(page.sense);
        let piece = self.add_piece(read, link, duration, false);
        let needed = Needed {
            die: self.geometry.die_of(page.unit).0 as u16,
            sense: self.geometry.sense_of(page.unit),
            duration,
            codewords: self.codewords_of(page.units) - in_16_bits(left_out),
            piece: piece.0,
            is_asked_for: false,
        };
        self.requests.add_needed(read, needed);
        piece
    }

    fn add_piece(
        &mut self,
        read: ReadId,
        link: Nanoseconds,
        sense: u32,
        in_ram: bool,
    ) -> PieceIndex {
        if link < self.unit_over_link {
            // An answer may come sooner than a unit's time behind a transfer from now on.
            let command = self.timing.command_occupancy + self.timing.command_latency;
            self.look_ahead = self.look_ahead.min(command);
        }
        self.requests.add_piece(read, in_32_bits(link), sense, in_ram)
    }

    /// Has the pages of a read sensed, and sends what is in RAM. [`Completions::read`] tells when all
    /// of it is with the host. Returns how many of the pages the registers of their dies hold.
    pub fn issue_read(&mut self, read: ReadId) -> u32 {
        let (mut needed, is_stream) = self.requests.take_needed(read);
        let mut held = 0;
        for leader in 0..needed.len() {
            let sense = needed[leader].sense;
            if needed[leader].is_asked_for {
                continue;
            }
            let is_sensed = self.ask_for_piece(read, needed[leader], is_stream);
            held += u32::from(!is_sensed);
            for other in &mut needed[leader + 1..] {
                if other.sense == sense && !other.is_asked_for {
                    other.is_asked_for = true;
                    held += u32::from(!is_sensed);
                    self.ride(piece_op(read, *other));
                }
            }
        }
        self.requests.return_needed(read, needed);
        if self.requests.has_in_ram(read) {
            self.schedule.add(self.now, Scheduled::Deliver(read.0));
        }
        held
    }

    fn ask_for_piece(&mut self, read: ReadId, needed: Needed, is_stream: bool) -> bool {
        self.read_or_ride(piece_op(read, needed), needed.sense, is_stream)
    }

    /// Takes a page from the registers of its die if a stream finds it there, else has it sensed. Returns
    /// whether it is.
    fn read_or_ride(&mut self, op: Op, sense: u32, is_stream: bool) -> bool {
        if is_stream && self.dies.holds(op.die.into(), sense, self.now) {
            self.ride(op);
            return false;
        }
        let sense = if is_stream { sense } else { NONE };
        self.dies.read(&mut self.transit, op, sense, self.now);
        true
    }

    /// Units of a read are in RAM that were awaited.
    pub fn piece_arrived(&mut self, read: ReadId, piece: PieceIndex) {
        self.requests.arrived(read, piece, Default::default());
        self.schedule.add(self.now, Scheduled::Deliver(read.0));
    }

    /// Reads from one page into the controller's RAM, before what is no read:
    /// [`Completions::loaded`] tells when it is there. Returns whether the page is sensed: `is_stream` has it
    /// looked for in the page registers of its die.
    pub fn load_page(&mut self, tag: Tag, page: Page, is_stream: bool) -> bool {
        let op = self.load(tag, page);
        self.read_or_ride(op, self.geometry.sense_of(page.unit), is_stream)
    }

    /// Reads from another of the pages that are sensed together with the one that its die was asked for
    /// last, without sensing it again.
    pub fn load_page_with_last(&mut self, tag: Tag, page: Page) {
        let op = self.load(tag, page);
        self.ride(op);
    }

    /// Takes a page that its die is sensing, or has sensed: a read waits for no more of that than is left.
    fn ride(&mut self, op: Op) {
        let left = self.dies.ride(&mut self.transit, op, self.now);
        if op.kind == Kind::Piece {
            self.requests.limit_sense(ReadId(op.owner), PieceIndex(op.extra), left);
        }
    }

    /// Returns of how many codewords `units` mapping units are.
    #[inline(always)]
    fn codewords_of(&self, units: u32) -> u16 {
        in_16_bits(units * self.codewords_per_unit)
    }

    fn load(&mut self, tag: Tag, page: Page) -> Op {
        let die = self.geometry.die_of(page.unit);
        let (duration, codewords) = (in_32_bits(page.sense), self.codewords_of(page.units));
        self.others_under_way += 1;
        new_op(Kind::Load, die, tag.0, NONE, duration, codewords)
    }

    // ----- programs, copies and erases

    /// Sends a program unit to its die and has it programmed, in the order of these calls.
    /// [`Completions::programmed`] tells when that is over.
    #[inline(always)]
    pub fn program(&mut self, tag: Tag, program: ProgramUnit) {
        let die = self.geometry.die_of(program.unit);
        let duration = in_32_bits(program.program);
        let codewords = self.codewords_of(program.units);
        let op = new_op(Kind::Program, die, tag.0, NONE, duration, 0);
        self.others_under_way += 1;
        let index = self.transit.add(Op { marks: mark::NEEDS_DATA, ..op });
        if let Some(erase) = program.after {
            self.hold_for_erase(index, erase);
        }
        self.dies.enqueue(&mut self.transit, index, Line::Foreground, self.now);
        let data = new_op(Kind::Data, die, index, NONE, 0, codewords);
        let channel = self.dies.channel_of(die.0 as usize);
        self.transit.announce(channel, Op { arrival: self.now, ..data }, self.now);
    }

    /// Has an operation wait for an erase that is not over on its die.
    fn hold_for_erase(&mut self, index: u32, erase: EraseId) {
        let op = self.transit.pool.get_mut(index);
        if self.erases.is_pending(erase, op.die.into()) {
            op.extra = erase.0;
            self.dies.hold_for_erase(&mut self.transit, index);
        }
    }

    /// Begins a program unit of copies, which are added to it with [`Nand::copy`] until
    /// [`Nand::complete_copies`]. It is sent to its die when all of them have been read, after those
    /// that were begun before it.
    pub fn begin_copies(&mut self, program: ProgramUnit) -> CopyNumber {
        let die = self.geometry.die_of(program.unit).0 as u16;
        let after = program.after.map_or(NONE, |erase| erase.0);
        let duration = in_32_bits(program.program);
        let codewords = self.codewords_of(program.units);
        self.others_under_way += 1;
        self.copies.begin(die, after, duration, codewords)
    }

    /// Reads units in the background that go into a program unit of copies, or into two.
    #[inline(always)]
    pub fn copy(&mut self, page: Page, to: CopyNumber, and_to: Option<CopyNumber>) {
        let die = self.geometry.die_of(page.unit);
        let second = and_to.map_or(NONE, |number| number.0);
        let (duration, codewords) = (in_32_bits(page.sense), self.codewords_of(page.units));
        let op = new_op(Kind::CopyRead, die, to.0, second, duration, codewords);
        let index = self.transit.add(op);
        self.copies.await_sense(to, and_to);
        self.others_under_way += 1;
        self.dies.enqueue(&mut self.transit, index, Line::Background, self.now);
    }

    /// No more copies are added to a program unit.
    #[inline(always)]
    pub fn complete_copies(&mut self, copies: CopyNumber) {
        if self.copies.complete(copies) {
            self.send_complete_copies();
        }
    }

    /// Has all copies up to `through` done like the host's programs: somebody waits for them.
    pub fn hurry_copies(&mut self, through: CopyNumber) {
        self.copies.hurry(through);
        let is_wanted = |op: &Op| {
            matches!(op.kind, Kind::CopyRead | Kind::CopyProgram)
                && CopyNumber(op.owner).is_not_after(through)
        };
        for die in 0..self.dies.count() {
            self.dies.promote_through(&mut self.transit, die, is_wanted);
            self.dies.look(&mut self.transit, die, self.now);
        }
    }

    /// Announces the erase of a block on `dies`. What is programmed to the block can name it from now
    /// on, and waits until it was issued and is over.
    pub fn announce_erase(&mut self, dies: Range<DieIndex>) -> EraseId {
        self.erases.announce(dies.start.0..dies.end.0)
    }

    /// Issues an erase that was announced, in the background. [`Completions::erased`] tells when it is
    /// over on all dies.
    pub fn erase(&mut self, erase: EraseId, duration: Nanoseconds) {
        let dies = self.erases.issue(erase);
        self.others_under_way += 1;
        for die in dies {
            let die = DieIndex(die);
            let op = new_op(Kind::Erase, die, erase.0, NONE, in_32_bits(duration), 0);
            let index = self.transit.add(op);
            self.dies.enqueue_erase(&mut self.transit, index, self.now);
        }
    }

    // ----- time

    /// Lets everything happen that is due until `until`, that instant included.
    pub fn run_until<S: Completions>(&mut self, until: Instant, sink: &mut S) {
        while self.step(until, sink) {}
    }

    /// Lets the next thing happen, if it is due until `until`. Returns whether one was.
    #[inline(always)]
    pub fn step<S: Completions>(&mut self, until: Instant, sink: &mut S) -> bool {
        events::step(self, until, sink)
    }

    /// Returns the instant at which the next thing happens, if anything will: of several drives that share a
    /// host, the one whose next event is first is let go on.
    pub fn next_due(&self) -> Option<Instant> {
        events::next_due(self)
    }

    /// Returns whether nothing will happen unless something is asked for. Program units of copies may be
    /// waiting to be completed.
    pub fn is_idle(&self) -> bool {
        self.transit.clock.is_idle()
            && self.schedule.due() == events::NEVER
            && self.controller.is_idle()
    }
}

/// The nanoseconds of a span that one flash operation takes.
///
/// # Panics
/// When it takes 4.3 s or more.
#[inline(always)]
fn in_32_bits(span: Nanoseconds) -> u32 {
    u32::try_from(span.nanos()).expect("flash operations take less than 4.3 s")
}

/// The codewords of a page or a program unit.
///
/// # Panics
/// When they are 65,536 or more.
#[inline(always)]
fn in_16_bits(codewords: u32) -> u16 {
    u16::try_from(codewords).expect("a program unit has less than 65,536 codewords")
}

#[inline(always)]
fn new_op(kind: Kind, die: DieIndex, owner: u32, extra: u32, duration: u32, codewords: u16) -> Op {
    Op {
        arrival: Instant::START,
        next: NONE,
        owner,
        extra,
        duration,
        codewords,
        order: 0,
        die: die.0 as u16,
        kind,
        marks: 0,
    }
}

fn piece_op(read: ReadId, needed: Needed) -> Op {
    let die = DieIndex(needed.die.into());
    new_op(Kind::Piece, die, read.0, needed.piece, needed.duration, needed.codewords)
}
