//! Host reads: from the buffer, from what was read ahead, or from the flash.
//!
//! A request becomes flash page reads: units that lie on one page cost one read of it, pages of
//! one multi-plane group in one request are sensed together, and each page's units then cross
//! their channel and the host link. The request is answered when its last unit has arrived, so
//! it waits for the most loaded die, not for the average one.
//!
//! A unit that collection is moving is read from its new place, although the old copy would do
//! as long as the new one is not programmed: either way it is one page read on some die.

use crate::attribution::Blocked;
use crate::fetch::FetchedAt;
use crate::flash::BlockState;
use crate::mapping::Mapping;
use crate::media::Media;
use crate::read_ahead::{Arrival, is_whole};
use crate::resources::{Class, Resource};
use crate::ssd::Ssd;
use crate::timing::Delivery;
use crate::units::{DieIndex, Instant, LogicalUnit, Nanoseconds, PhysicalUnit};

/// Pages of a request that are compared with the next unit's. A page's units are neighbours of
/// each other unless some were overwritten since, and then the strays lie between them. It bounds
/// the work for a large read: a page with more strays than that in between is sensed again.
const LOOK_BACK: usize = 8;

/// A request for whole units.
pub(crate) const NOTHING_LEFT_OUT: [Nanoseconds; 2] = [Nanoseconds::ZERO; 2];

/// Data of a request that arrives together.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    pub(crate) ready: Instant,
    pub(crate) units: u32,
    /// What the host did not ask for of its first or last unit, as time on the link.
    left_out: Nanoseconds,
}

/// One flash page that a request needs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PageRead {
    pub(crate) page: u32,
    sense: u32,
    pub(crate) die: DieIndex,
    pub(crate) units: u32,
    /// Where in the request it belongs: an index of [`ReadScratch::pieces`].
    pub(crate) piece: u32,
    pub(crate) sensed: Instant,
    /// What its sense waited for.
    pub(crate) blocked: Blocked,
}

/// Who wants pages read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    /// A request that waits for them.
    Request,
    /// A request of a sequential stream that waits for what was not read ahead; what was is there
    /// at `fetched`.
    Stream { fetched: Instant },
    /// Nobody yet.
    ReadAhead,
}

/// Lists that a read needs, kept so that no request allocates.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReadScratch {
    pieces: Vec<Piece>,
    pages: Vec<PageRead>,
    /// The pages by when they are sensed.
    order: Vec<(Instant, u32)>,
}

impl ReadScratch {
    /// The pages that were gathered.
    pub(crate) fn pages(&self) -> &[PageRead] {
        &self.pages
    }

    /// The pieces that were gathered.
    pub(crate) fn pieces(&self) -> &[Piece] {
        &self.pieces
    }
}

impl<M: Mapping, D: Media> Ssd<M, D> {
    /// Reads `units` units from `first` at `at`; returns when the last of them has arrived.
    ///
    /// # Panics
    /// When the range is empty or does not lie within the drive.
    #[inline]
    pub fn read(&mut self, at: Instant, first: LogicalUnit, units: u32) -> Instant {
        self.check_range(first, units);
        self.read_within(at, first, units)
    }

    /// Reads `units` units from `first`, which lie within the drive.
    #[inline(always)]
    pub(crate) fn read_within(&mut self, at: Instant, first: LogicalUnit, units: u32) -> Instant {
        self.counters.host_read_units += u64::from(units);
        let start = self.take_up(at);
        self.advance_debt_at_times(start);
        let end = self.read_acted_on(start, first, units);
        self.note_read(at, end)
    }

    /// Reads `units` units from `first`, acted on at `start`; returns when the last has arrived.
    #[inline(always)]
    pub(crate) fn read_acted_on(
        &mut self,
        start: Instant,
        first: LogicalUnit,
        units: u32,
    ) -> Instant {
        let start = self.look_up_for_read(start, first, units);
        let start = self.find_extents_for_read(start, first, units);
        match self.follow(first.0, first.0 + units) {
            None if units == 1 => self.read_one(start, first, self.unit_to_host),
            stream => self.read_many(stream, start, first, units, NOTHING_LEFT_OUT),
        }
    }

    /// Looks up where `units` units from `first` lie; returns when that is known.
    #[inline(always)]
    pub(crate) fn look_up_for_read(
        &mut self,
        start: Instant,
        first: LogicalUnit,
        units: u32,
    ) -> Instant {
        let known = self.look_up(start, first, units, false);
        if known > start {
            self.delays.reads.parts.map_miss += known.since(start);
        }
        known
    }

    /// Forgets what was read ahead of `units` units from `first`, which the host changes.
    #[inline(always)]
    pub(crate) fn forget_read_ahead(&mut self, first: LogicalUnit, units: u32) {
        let lost = self.read_ahead.forget(first.0, units);
        if lost > 0 {
            self.counters.read_ahead_lost_units += u64::from(lost);
        }
    }

    /// Whether a read of `first..end` continues a stream that is read ahead of, and which.
    #[inline(always)]
    pub(crate) fn follow(&mut self, first: u32, end: u32) -> Option<usize> {
        if self.read_ahead.is_on() { self.read_ahead.follow(first, end) } else { None }
    }

    /// Reads `units` units from `first`, all of them but what is `left_out` of the first and the
    /// last on the link.
    #[inline(never)]
    pub(crate) fn read_many(
        &mut self,
        stream: Option<usize>,
        start: Instant,
        first: LogicalUnit,
        units: u32,
        left_out: [Nanoseconds; 2],
    ) -> Instant {
        let Some(stream) = stream else {
            self.begin_pieces();
            self.gather(start, first, units);
            let ready = self.sense_and_transfer(start, Asked::Request);
            self.leave_out(left_out);
            let end = self.deliver(start);
            self.delays.reads.parts.link += end.since(ready);
            return end;
        };
        self.read_sequential(stream, start, first, units, left_out)
    }

    /// A read of a single unit, the most common request of all, of which the link moves as much
    /// as takes `transfer`.
    #[inline(always)]
    pub(crate) fn read_one(
        &mut self,
        start: Instant,
        unit: LogicalUnit,
        transfer: Nanoseconds,
    ) -> Instant {
        let mut over_channel = Nanoseconds::ZERO;
        let ready = match self.read_place_of(unit) {
            None => {
                self.counters.unmapped_read_units += 1;
                start
            }
            Some(physical) if self.is_buffered(physical, start) => {
                self.counters.buffer_hit_units += 1;
                start
            }
            Some(physical) => {
                self.counters.flash_page_reads_host += 1;
                let sense = self.page_read_of(physical);
                self.delays.reads.parts.flash_read += sense;
                over_channel = self.unit_over_channel;
                self.read_sensing_for(sense, physical, start)
            }
        };
        self.delays.reads.parts.link += over_channel + transfer;
        self.resources.reserve(Resource::LinkToHost, Class::Read, ready, transfer).end
    }

    /// Senses the page of one unit and moves the unit to the controller; the instant it is there.
    #[inline(always)]
    pub(crate) fn read_unit_of_flash(&mut self, unit: PhysicalUnit, start: Instant) -> Instant {
        self.read_sensing_for(self.page_read_of(unit), unit, start)
    }

    /// The same where it is known how long the sense takes.
    #[inline(always)]
    fn read_sensing_for(
        &mut self,
        sense: Nanoseconds,
        unit: PhysicalUnit,
        start: Instant,
    ) -> Instant {
        let die = self.geometry.die_of(unit);
        let waits = self.senses_later(start) || self.durability.journal.is_some();
        if !waits
            && let Some(there) = self.resources.read_page(die, start, sense, self.unit_over_channel)
        {
            return there;
        }
        self.read_behind_others(die, start, sense)
    }

    /// The same where the die has something else to see to before.
    #[inline(never)]
    fn read_behind_others(&mut self, die: DieIndex, start: Instant, sense: Nanoseconds) -> Instant {
        let sensed = self.sense(die, start, sense);
        let channel = Resource::Channel(self.geometry.channel_of(die));
        self.resources.reserve(channel, Class::Read, sensed, self.unit_over_channel).end
    }

    /// Senses a page on `die`, which takes `duration`.
    #[inline(always)]
    pub(crate) fn sense(
        &mut self,
        die: DieIndex,
        start: Instant,
        duration: Nanoseconds,
    ) -> Instant {
        if self.senses_later(start) {
            return self.sense_later(die, start);
        }
        self.settle(die, start);
        self.resources.reserve(Resource::Die(die), Class::Read, start, duration).end
    }

    /// Whether what is to be sensed at `start` waits for its turn, because the map has to be read
    /// first.
    #[inline(always)]
    fn senses_later(&mut self, start: Instant) -> bool {
        let in_time = self.in_time.is_on();
        self.map.cache().is_some_and(|cache| !in_time && start > cache.acted_at)
    }

    /// Whether the data of `unit` is in the write buffer at `at`.
    #[inline(always)]
    pub(crate) fn is_buffered(&self, unit: PhysicalUnit, at: Instant) -> bool {
        self.host.holds(unit)
            || (self.streams.is_some() && self.is_held_aside(unit))
            || (self.buffer.is_any_in_flight(at) && self.is_in_flight(unit, at))
    }

    fn is_in_flight(&self, unit: PhysicalUnit, at: Instant) -> bool {
        // Few blocks are in question, and the programs in flight are many.
        let state = self.flash.state(self.geometry.block_of(unit));
        matches!(state, BlockState::OpenForHost | BlockState::Closing)
            && self.buffer.is_in_flight(unit, at)
    }

    pub(crate) fn begin_pieces(&mut self) {
        self.scratch.pieces.clear();
        self.scratch.pages.clear();
    }

    /// Collects the pages that `units` units from `first` lie on. What needs no flash is ready
    /// at `start`.
    pub(crate) fn gather(&mut self, start: Instant, first: LogicalUnit, units: u32) {
        for unit in first.0..first.0 + units {
            match self.read_place_of(LogicalUnit(unit)) {
                None => {
                    self.counters.unmapped_read_units += 1;
                    self.add_ready(start, 1);
                }
                Some(physical) if self.is_buffered(physical, start) => {
                    self.counters.buffer_hit_units += 1;
                    self.add_ready(start, 1);
                }
                Some(physical) => self.add_page(physical),
            }
        }
    }

    /// `units` units that are ready at `ready` without the flash.
    fn add_ready(&mut self, ready: Instant, units: u32) {
        let last_is_page = self
            .scratch
            .pages
            .last()
            .is_some_and(|page| page.piece as usize + 1 == self.scratch.pieces.len());
        match self.scratch.pieces.last_mut() {
            Some(last) if !last_is_page && last.ready == ready => last.units += units,
            _ => self.scratch.pieces.push(Piece { ready, units, left_out: Nanoseconds::ZERO }),
        }
    }

    #[inline(always)]
    fn add_page(&mut self, physical: PhysicalUnit) {
        let page = self.geometry.page_of(physical);
        let scratch = &mut self.scratch;
        let recent = scratch.pages.len().saturating_sub(LOOK_BACK);
        for read in scratch.pages[recent..].iter_mut().rev() {
            if read.page == page {
                read.units += 1;
                scratch.pieces[read.piece as usize].units += 1;
                return;
            }
        }
        let piece = scratch.pieces.len() as u32;
        let left_out = Nanoseconds::ZERO;
        scratch.pieces.push(Piece { ready: Instant::START, units: 1, left_out });
        scratch.pages.push(PageRead {
            page,
            sense: self.geometry.sense_of(physical),
            die: self.geometry.die_of(physical),
            units: 1,
            piece,
            sensed: Instant::START,
            blocked: Blocked::default(),
        });
    }

    /// Has the gathered pages sensed, all asked for at `start`; those of one multi-plane group
    /// together. Those `of_stream` are taken from their die's page registers if they are there.
    #[inline(always)]
    pub(crate) fn sense_gathered(&mut self, start: Instant, of_stream: bool) {
        if of_stream && self.resources.has_registers() {
            return self.sense_for_stream(start);
        }
        let mut pages = std::mem::take(&mut self.scratch.pages);
        self.counters.flash_page_reads_host += pages.len() as u64;
        for index in 0..pages.len() {
            let recent = index.saturating_sub(LOOK_BACK);
            let together =
                pages[recent..index].iter().rev().find(|other| other.sense == pages[index].sense);
            let (sensed, blocked) = match together {
                Some(other) => (other.sensed, other.blocked),
                None => self.sense_page(start, &pages[index]),
            };
            (pages[index].sensed, pages[index].blocked) = (sensed, blocked);
        }
        self.scratch.pages = pages;
    }

    /// Has a page sensed, asked for at `start`; when it is, and what that waited for.
    #[inline(always)]
    fn sense_page(&mut self, start: Instant, page: &PageRead) -> (Instant, Blocked) {
        let before = self.blocked();
        let first = PhysicalUnit(page.page * self.geometry.units_per_page());
        let sensed = self.sense(page.die, start, self.page_read_of(first));
        (sensed, self.blocked().since(before))
    }

    /// Has the gathered pages of a stream sensed, but those that a request before has left in their
    /// die's page registers.
    #[inline(never)]
    fn sense_for_stream(&mut self, start: Instant) {
        let mut pages = std::mem::take(&mut self.scratch.pages);
        // Which of the latest were in a register, each at its index modulo their number.
        let mut held = [false; LOOK_BACK];
        for index in 0..pages.len() {
            let (recent, page) = (index.saturating_sub(LOOK_BACK), pages[index]);
            let together = (recent..index).rev().find(|&other| pages[other].sense == page.sense);
            let (sensed, blocked, is_held) = match together {
                Some(at) => (pages[at].sensed, pages[at].blocked, held[at % LOOK_BACK]),
                None => self.sense_unless_held(start, &page),
            };
            (pages[index].sensed, pages[index].blocked) = (sensed, blocked);
            held[index % LOOK_BACK] = is_held;
            self.counters.flash_page_reads_host += u64::from(!is_held);
        }
        self.scratch.pages = pages;
    }

    /// Has a page sensed unless its die's registers hold it; whether they do comes last.
    fn sense_unless_held(&mut self, start: Instant, page: &PageRead) -> (Instant, Blocked, bool) {
        // Where the map has to be read first, when that will be is not known.
        let is_later = self.senses_later(start);
        if !is_later {
            self.settle(page.die, start);
            if let Some(there) = self.resources.read_register(page.die, page.sense, start) {
                return (there, Blocked::default(), true);
            }
        }
        let (sensed, blocked) = self.sense_page(start, page);
        if !is_later {
            self.resources.note_register(page.die, page.sense, sensed);
        }
        (sensed, blocked, false)
    }

    /// Reads the gathered pages, all asked for at `start`; returns when the last is in RAM. What
    /// that one took and waited for is the request's, if one asked.
    fn sense_and_transfer(&mut self, start: Instant, asked: Asked) -> Instant {
        let blocked_before = self.blocked();
        self.sense_gathered(start, asked != Asked::Request);
        let pages = std::mem::take(&mut self.scratch.pages);
        // Channels serve what is sensed first; that is also the order to reserve them in.
        let mut order = std::mem::take(&mut self.scratch.order);
        order.clear();
        order.extend(pages.iter().map(|page| page.sensed).zip(0..));
        order.sort_by_key(|&(sensed, _)| sensed);
        let (mut last, mut decides) = (start, None);
        for &(_, index) in &order {
            let page = &pages[index as usize];
            let channel = Resource::Channel(self.geometry.channel_of(page.die));
            let transfer = self.unit_over_channel * u64::from(page.units);
            let ready = self.resources.reserve(channel, Class::Read, page.sensed, transfer).end;
            self.scratch.pieces[page.piece as usize].ready = ready;
            if ready > last {
                (last, decides) = (ready, Some((page, transfer)));
            }
        }
        let blocked = self.blocked().since(blocked_before);
        self.delays.not_critical += match (asked, decides) {
            (Asked::Request, Some((page, transfer))) => {
                let first = PhysicalUnit(page.page * self.geometry.units_per_page());
                self.delays.reads.parts.flash_read += self.page_read_of(first);
                self.delays.reads.parts.link += transfer;
                blocked.since(page.blocked)
            }
            (Asked::Stream { fetched }, Some((page, transfer))) if last >= fetched => {
                self.delays.reads.parts.read_ahead_miss += page.sensed.since(start);
                self.delays.reads.parts.link += transfer;
                blocked
            }
            (Asked::Stream { fetched }, _) => {
                self.delays.reads.parts.flash_read += fetched.since(start);
                last = fetched;
                blocked
            }
            (Asked::ReadAhead, _) | (_, None) => blocked,
        };
        self.scratch.pages = pages;
        self.scratch.order = order;
        last
    }

    /// Takes off the gathered pieces what the host did not ask for of its first and last unit.
    fn leave_out(&mut self, [head, tail]: [Nanoseconds; 2]) {
        let pieces = &mut self.scratch.pieces;
        pieces.first_mut().expect("a request has units").left_out += head;
        pieces.last_mut().expect("a request has units").left_out += tail;
    }

    /// Sends the gathered pieces to the host; returns when the last has arrived.
    fn deliver(&mut self, start: Instant) -> Instant {
        let mut pieces = std::mem::take(&mut self.scratch.pieces);
        let delivery = self.timing.delivery;
        let mut not_before = start;
        match delivery {
            Delivery::InOrder => {}
            Delivery::AnyOrder => pieces.sort_by_key(|piece| piece.ready),
            Delivery::WhenComplete => {
                not_before = pieces.iter().map(|piece| piece.ready).fold(start, Instant::max);
            }
        }
        let mut end = start;
        for piece in &pieces {
            let after = if delivery == Delivery::AnyOrder { start } else { end };
            let ready = piece.ready.max(after).max(not_before);
            let transfer = self.unit_to_host * u64::from(piece.units) - piece.left_out;
            let span = self.resources.reserve(Resource::LinkToHost, Class::Read, ready, transfer);
            end = end.max(span.end);
        }
        self.scratch.pieces = pieces;
        end
    }

    /// A read that continues a sequential stream: takes what was read ahead, fetches the rest,
    /// and reads ahead again.
    #[inline(never)]
    fn read_sequential(
        &mut self,
        stream: usize,
        start: Instant,
        first: LogicalUnit,
        units: u32,
        left_out: [Nanoseconds; 2],
    ) -> Instant {
        self.begin_pieces();
        self.gather_sequential(stream, start, first, units, |_, _| {
            panic!("what was under way step by step has been booked");
        });
        let fetched = self.scratch.pieces.iter().map(|piece| piece.ready).fold(start, Instant::max);
        let ready = self.sense_and_transfer(start, Asked::Stream { fetched });
        self.leave_out(left_out);
        let done = self.deliver(start);
        self.delays.reads.parts.link += done.since(ready);
        self.fetch_ahead(stream, start);
        done
    }

    /// Collects the pieces of a request that continues a sequential stream: what was read ahead, and
    /// the pages of the rest. `on_fetch` is told which piece waits for which fetch under way.
    #[inline(always)]
    pub(crate) fn gather_sequential(
        &mut self,
        stream: usize,
        start: Instant,
        first: LogicalUnit,
        units: u32,
        mut on_fetch: impl FnMut(u32, u32),
    ) {
        let segment_units = self.read_ahead.parameters().segment;
        let (mut unit, end) = (first.0, first.0 + units);
        while unit < end {
            let segment_end = (unit - unit % segment_units + segment_units).min(end);
            let count = segment_end - unit;
            match self.read_ahead.fetched(stream, unit) {
                Some(arrival) => {
                    self.counters.read_ahead_hit_units += u64::from(count);
                    let ready = match arrival {
                        Arrival::At(ready) => ready,
                        Arrival::WithFetch(number) => match self.fetches.arrival(number) {
                            FetchedAt::Known(ready) => ready,
                            FetchedAt::NotBefore(at) => {
                                on_fetch(self.scratch.pieces.len() as u32, number);
                                at
                            }
                        },
                    };
                    let (ready, left_out) = (ready.max(start), Nanoseconds::ZERO);
                    self.scratch.pieces.push(Piece { ready, units: count, left_out });
                }
                None => self.gather(start, LogicalUnit(unit), count),
            }
            unit = segment_end;
        }
    }

    fn fetch_ahead(&mut self, stream: usize, start: Instant) {
        let segment = self.read_ahead.parameters().segment;
        let logical_units = self.geometry.logical_units();
        while let Some(first) = self.read_ahead.next_to_fetch(stream, logical_units) {
            let start = self.look_up_ahead(start, LogicalUnit(first), segment);
            if is_whole(&self.map, &self.flash, &self.geometry, LogicalUnit(first), segment) {
                self.begin_pieces();
                self.gather(start, LogicalUnit(first), segment);
                let ready = self.sense_and_transfer(start, Asked::ReadAhead);
                self.read_ahead.note_fetched(stream, first, Arrival::At(ready));
            }
        }
    }
}
