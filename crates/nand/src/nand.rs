//! The flash as one machine: the operations that can be asked of it, and the event loop that advances time.

mod events;
pub(crate) mod power_cut;
#[cfg(test)]
mod tests;

use std::ops::Range;

use ssdlab_units::{DieIndex, Instant, Nanoseconds, PhysicalUnit};

use crate::channel::Transit;
use crate::completions::{Completions, Tag};
use crate::controller::Controller;
use crate::copies::{CopyNumber, GcCopies};
use crate::die::{DieParameters, Dies, Priority};
use crate::erase::{EraseId, Erases};
use crate::geometry::Geometry;
use crate::link::Link;
use crate::multi_page_read::{MultiPageReads, NeededPage, PieceIndex, ReadId};
use crate::pool::{Kind, NONE, Op, flag};
use crate::schedule::{Schedule, ScheduledEvent};
use crate::timing::{CODEWORD, Timing};

/// A page, or a part of it, that is to be sensed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Page {
    /// A unit on the page.
    pub unit: PhysicalUnit,
    /// Number of mapping units of the page that are transferred, in full or in part.
    pub units: u32,
    /// Time for which the die senses, read retries included.
    pub sense: Nanoseconds,
}

/// A program unit that is to be programmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProgramUnit {
    /// A unit in the program unit.
    pub unit: PhysicalUnit,
    /// Number of mapping units that cross the channel.
    pub units: u32,
    /// Time for which the die programs.
    pub program: Nanoseconds,
    /// The erase of the block, if it is not complete.
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
    reads: MultiPageReads,
    copies: GcCopies,
    erases: Erases,
    unit_over_link: Nanoseconds,
    /// Number of codewords in a mapping unit.
    codewords_per_unit: u32,
    /// Span by which the controller may act on a command ahead of transfers that end before it, while only
    /// reads are in flight: the link time of a unit, after which a read is answered, plus the time of the
    /// command that follows the answer.
    look_ahead: Nanoseconds,
    /// Number of flash operations in flight other than host reads.
    non_read_ops_in_flight: u64,
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
            reads: MultiPageReads::new(timing.delivery),
            copies: GcCopies::default(),
            erases: Erases::default(),
            unit_over_link,
            codewords_per_unit: geometry.unit_size().whole(codeword) as u32,
            // Where both directions share the link, a write would take the link before reads that ended
            // earlier.
            look_ahead: match timing.link_full_duplex {
                true => timing.command_occupancy + timing.command_latency + unit_over_link,
                false => Nanoseconds::ZERO,
            },
            non_read_ops_in_flight: 0,
            now: Instant::START,
            events: 0,
            geometry: geometry.clone(),
            timing: timing.clone(),
        }
    }

    /// Returns the geometry of the flash.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// Returns the instant of the latest event.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// Returns the number of events so far, by which the speed of the engine is measured.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// Returns the time that `units` mapping units occupy the host link.
    pub fn link_time(&self, units: u32) -> Nanoseconds {
        self.unit_over_link * u64::from(units)
    }

    // ----- the host's side

    /// Sends a command to the controller at `at`, which must not be before [`Nand::now`]. The command keeps
    /// the controller busy for `extra_busy` longer than others. [`Completions::fetched`] is called when the controller
    /// acts on it.
    #[inline(always)]
    pub fn submit(&mut self, at: Instant, tag: Tag, extra_busy: Nanoseconds) {
        self.controller.submit(at, tag.0, in_32_bits(extra_busy));
    }

    /// Tells the dies whether host writes wait for space in the write buffer, for drives that suspend only
    /// while none does ([`SuspendWhen::BufferHasRoom`](crate::suspend::SuspendWhen)).
    #[inline(always)]
    pub fn set_buffer_full(&mut self, is_buffer_full: bool) {
        self.dies.set_buffer_full(is_buffer_full);
    }

    /// Keeps the controller busy for `extra_busy` with the command that it acts on now, or with work of its own.
    pub fn hold_controller(&mut self, extra_busy: Nanoseconds) {
        self.controller.extend_busy(self.now, extra_busy);
    }

    /// Transfers a write's data over the link, from now on, and returns the moment at which the data is in
    /// RAM. Transfers follow each other in the order in which they are asked for.
    #[inline(always)]
    pub fn receive(&mut self, duration: Nanoseconds) -> Instant {
        self.link.receive(self.now, duration)
    }

    /// Sends data that is in RAM to the host. [`Completions::read`] is called with the moment at which the
    /// host has it.
    pub fn send(&mut self, tag: Tag, duration: Nanoseconds) {
        self.schedule.add(self.now, ScheduledEvent::Send(tag.0, in_32_bits(duration)));
    }

    /// Sets an alarm: [`Completions::alarm`] is called at `at`, which must not be before [`Nand::now`].
    #[inline(always)]
    pub fn set_alarm(&mut self, at: Instant, tag: Tag) {
        assert!(at >= self.now, "an alarm goes off in the future");
        self.schedule.add(at, ScheduledEvent::Alarm(tag.0));
    }

    // ----- reads

    /// Reads one unit for the host, whose page is sensed for `sense`. [`Completions::read`] is called with
    /// the moment at which the host has the data.
    #[inline(always)]
    pub fn read_unit(&mut self, tag: Tag, unit: PhysicalUnit, sense: Nanoseconds) {
        let die = self.geometry.die_of(unit);
        let duration = in_32_bits(sense);
        let codewords = self.codewords_per_unit as u16;
        let op = new_op(Kind::Read, die, tag.0, duration, duration, codewords);
        self.dies.read(&mut self.transit, op, NONE, self.now);
    }

    /// Begins a read of several pieces, which are added to the read before [`Nand::issue_read`] issues it,
    /// all at one instant. With `is_stream`, its pages are taken from the page registers of their dies if
    /// these hold them.
    pub fn begin_read(&mut self, tag: Tag, is_stream: bool) -> ReadId {
        self.reads.begin(tag, is_stream)
    }

    /// Adds data that is in RAM to a read. The data occupies the host link for `link`: [`Nand::link_time`]
    /// of its units, or less if the host asks for a part of a unit.
    pub fn add_buffered(&mut self, read: ReadId, link: Nanoseconds) -> PieceIndex {
        self.add_piece(read, link, 0, true)
    }

    /// Adds data to a read that will be in RAM once [`Nand::piece_arrived`] is called. The data occupies
    /// the host link for `link`.
    pub fn add_awaited(&mut self, read: ReadId, link: Nanoseconds) -> PieceIndex {
        self.add_piece(read, link, 0, false)
    }

    /// Adds a page to a read. Its data occupies the host link for `link`. Whole units cross the channel.
    /// Pages that a multi-plane read senses together are sensed once.
    pub fn add_page(&mut self, read: ReadId, page: Page, link: Nanoseconds) -> PieceIndex {
        self.add_part_of_page(read, page, 0, link)
    }

    /// Adds a page to a read, without `left_out` codewords of its units, which the host did not ask for.
    pub fn add_part_of_page(
        &mut self,
        read: ReadId,
        page: Page,
        left_out: u32,
        link: Nanoseconds,
    ) -> PieceIndex {
        let duration = in_32_bits(page.sense);
        let piece = self.add_piece(read, link, duration, false);
        let needed = NeededPage {
            die: self.geometry.die_of(page.unit).0 as u16,
            sense: self.geometry.sense_of(page.unit),
            duration,
            codewords: self.codewords_of(page.units) - in_16_bits(left_out),
            piece: piece.0,
            is_issued: false,
        };
        self.reads.add_needed(read, needed);
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
            // The answer may come sooner than a unit's link time after its transfer. Limits the look-ahead
            // accordingly.
            let command = self.timing.command_occupancy + self.timing.command_latency;
            self.look_ahead = self.look_ahead.min(command);
        }
        self.reads.add_piece(read, in_32_bits(link), sense, in_ram)
    }

    /// Issues a read: has its pages sensed, and sends those of its pieces that are in RAM.
    /// [`Completions::read`] is called with the moment at which the host has all data. Returns the number
    /// of pages that the page registers of their dies hold.
    pub fn issue_read(&mut self, read: ReadId) -> u32 {
        let (mut needed, is_stream) = self.reads.take_needed(read);
        let mut from_register = 0;
        for leader in 0..needed.len() {
            let sense = needed[leader].sense;
            if needed[leader].is_issued {
                continue;
            }
            let is_sensed = self.issue_piece(read, needed[leader], is_stream);
            from_register += u32::from(!is_sensed);
            for other in &mut needed[leader + 1..] {
                if other.sense == sense && !other.is_issued {
                    other.is_issued = true;
                    from_register += u32::from(!is_sensed);
                    self.share_sense(piece_op(read, *other));
                }
            }
        }
        self.reads.return_needed(read, needed);
        if self.reads.has_in_ram(read) {
            self.schedule.add(self.now, ScheduledEvent::Deliver(read.0));
        }
        from_register
    }

    fn issue_piece(&mut self, read: ReadId, needed: NeededPage, is_stream: bool) -> bool {
        self.read_or_share_sense(piece_op(read, needed), needed.sense, is_stream)
    }

    /// Takes a page from the page register of its die if the read is a stream and the register holds the
    /// page; else has it sensed. Returns true if the page is sensed.
    fn read_or_share_sense(&mut self, op: Op, sense: u32, is_stream: bool) -> bool {
        if is_stream && self.dies.register_holds(op.die.into(), sense, self.now) {
            self.share_sense(op);
            return false;
        }
        let sense = if is_stream { sense } else { NONE };
        self.dies.read(&mut self.transit, op, sense, self.now);
        true
    }

    /// Marks a piece of a read that was added with `add_awaited` as being in RAM.
    pub fn piece_arrived(&mut self, read: ReadId, piece: PieceIndex) {
        self.reads.note_in_ram(read, piece, Default::default());
        self.schedule.add(self.now, ScheduledEvent::Deliver(read.0));
    }

    /// Reads from one page into the controller's RAM, for something other than a host read.
    /// [`Completions::loaded`] is called when the data is there. Returns true if the page is sensed: with
    /// `is_stream`, it is taken from the page register of its die if that holds it.
    pub fn load_page(&mut self, tag: Tag, page: Page, is_stream: bool) -> bool {
        let op = self.load(tag, page);
        self.read_or_share_sense(op, self.geometry.sense_of(page.unit), is_stream)
    }

    /// Reads another of the pages that are sensed together with the page that its die was last asked for,
    /// without sensing again.
    pub fn load_page_with_last(&mut self, tag: Tag, page: Page) {
        let op = self.load(tag, page);
        self.share_sense(op);
    }

    /// Takes a page that its die is sensing, or has sensed. A read waits for no more of that sense than is
    /// left.
    fn share_sense(&mut self, op: Op) {
        let left = self.dies.share_sense(&mut self.transit, op, self.now);
        if op.kind == Kind::Piece {
            self.reads.limit_sense(ReadId(op.owner), PieceIndex(op.extra), left);
        }
    }

    /// Returns the number of codewords in `units` mapping units.
    #[inline(always)]
    fn codewords_of(&self, units: u32) -> u16 {
        in_16_bits(units * self.codewords_per_unit)
    }

    fn load(&mut self, tag: Tag, page: Page) -> Op {
        let die = self.geometry.die_of(page.unit);
        let (duration, codewords) = (in_32_bits(page.sense), self.codewords_of(page.units));
        self.non_read_ops_in_flight += 1;
        new_op(Kind::Load, die, tag.0, NONE, duration, codewords)
    }

    // ----- programs, copies and erases

    /// Sends a program unit to its die and has it programmed, in the order of these calls.
    /// [`Completions::programmed`] is called when the program is complete.
    #[inline(always)]
    pub fn program(&mut self, tag: Tag, program: ProgramUnit) {
        let die = self.geometry.die_of(program.unit);
        let duration = in_32_bits(program.program);
        let codewords = self.codewords_of(program.units);
        let op = new_op(Kind::Program, die, tag.0, NONE, duration, 0);
        self.non_read_ops_in_flight += 1;
        let index = self.transit.add(Op { flags: flag::AWAITS_DATA, ..op });
        if let Some(erase) = program.after {
            self.hold_for_erase(index, erase);
        }
        self.dies.enqueue(&mut self.transit, index, Priority::Foreground, self.now);
        let data = new_op(Kind::Data, die, index, NONE, 0, codewords);
        let channel = self.dies.channel_of(die.0 as usize);
        self.transit.add_and_enqueue(channel, Op { arrival: self.now, ..data }, self.now);
    }

    /// Has an operation wait for an erase, if that is not complete on the operation's die.
    fn hold_for_erase(&mut self, index: u32, erase: EraseId) {
        let op = self.transit.pool.get_mut(index);
        if self.erases.is_pending(erase, op.die.into()) {
            op.extra = erase.0;
            self.dies.hold_for_erase(&mut self.transit, index);
        }
    }

    /// Begins a program unit of copies. Reads are added to it with [`Nand::copy`] until
    /// [`Nand::complete_copies`]. It is sent to its die when all of them have delivered their data, after
    /// the program units that were begun before it.
    pub fn begin_copies(&mut self, program: ProgramUnit) -> CopyNumber {
        let die = self.geometry.die_of(program.unit).0 as u16;
        let after = program.after.map_or(NONE, |erase| erase.0);
        let duration = in_32_bits(program.program);
        let codewords = self.codewords_of(program.units);
        self.non_read_ops_in_flight += 1;
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
        self.copies.add_sense(to, and_to);
        self.non_read_ops_in_flight += 1;
        self.dies.enqueue(&mut self.transit, index, Priority::Background, self.now);
    }

    /// Declares that no more copies are added to a program unit.
    #[inline(always)]
    pub fn complete_copies(&mut self, copies: CopyNumber) {
        if self.copies.complete(copies) {
            self.send_complete_copies();
        }
    }

    /// Gives all copies up to `through` the priority of host programs, because a caller waits for them.
    pub fn prioritise_copies(&mut self, through: CopyNumber) {
        self.copies.prioritise(through);
        let is_wanted = |op: &Op| {
            matches!(op.kind, Kind::CopyRead | Kind::CopyProgram)
                && CopyNumber(op.owner).is_not_after(through)
        };
        for die in 0..self.dies.count() {
            self.dies.promote_through(&mut self.transit, die, is_wanted);
            self.dies.begin_if_idle(&mut self.transit, die, self.now);
        }
    }

    /// Announces the erase of a block on `dies`. Programs to the block can name the erase from now on, and
    /// wait until it was issued and is complete.
    pub fn announce_erase(&mut self, dies: Range<DieIndex>) -> EraseId {
        self.erases.announce(dies.start.0..dies.end.0)
    }

    /// Issues an erase that was announced, in the background. [`Completions::erased`] is called when it is
    /// complete on all dies.
    pub fn erase(&mut self, erase: EraseId, duration: Nanoseconds) {
        let dies = self.erases.issue(erase);
        self.non_read_ops_in_flight += 1;
        for die in dies {
            let die = DieIndex(die);
            let op = new_op(Kind::Erase, die, erase.0, NONE, in_32_bits(duration), 0);
            let index = self.transit.add(op);
            self.dies.enqueue_erase(&mut self.transit, index, self.now);
        }
    }

    // ----- time

    /// Processes all events that are due until `until`, that instant included.
    pub fn run_until<S: Completions>(&mut self, until: Instant, sink: &mut S) {
        while self.step(until, sink) {}
    }

    /// Processes the next event, if it is due until `until`. Returns true if one was.
    #[inline(always)]
    pub fn step<S: Completions>(&mut self, until: Instant, sink: &mut S) -> bool {
        events::step(self, until, sink)
    }

    /// Returns the instant of the next event, or `None` if there will be none. Of several drives that share
    /// a host, the one with the earliest next event is advanced first.
    pub fn next_due(&self) -> Option<Instant> {
        events::next_due(self)
    }

    /// Returns true if no event will happen unless the caller asks for something. Program units of copies
    /// may still wait to be completed.
    pub fn is_idle(&self) -> bool {
        self.transit.event_queue.is_idle()
            && self.schedule.due() == events::NEVER
            && self.controller.is_idle()
    }
}

/// Returns the nanoseconds of one flash operation as 32 bits.
///
/// # Panics
/// Panics if the operation takes 4.3 s or more.
#[inline(always)]
fn in_32_bits(span: Nanoseconds) -> u32 {
    u32::try_from(span.nanos()).expect("flash operations take less than 4.3 s")
}

/// Returns the codewords of a page or a program unit as 16 bits.
///
/// # Panics
/// Panics if there are 65,536 or more.
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
        flags: 0,
    }
}

fn piece_op(read: ReadId, needed: NeededPage) -> Op {
    let die = DieIndex(needed.die.into());
    new_op(Kind::Piece, die, read.0, needed.piece, needed.duration, needed.codewords)
}
