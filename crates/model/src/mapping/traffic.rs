//! What a map on flash costs: map pages read, written and collected.
//!
//! A request acts only when the map pages of its units are in RAM, a write too: the old entry says
//! what becomes invalid. A page that has to make room and was changed goes to the map's write
//! stream, and the request waits until that takes it. Map pages are read like the host's pages,
//! since somebody waits for them or soon will, and programmed like the host's data.
//!
//! Collection changes entries of map pages that are not in RAM. Those of one victim are kept
//! until they are written, each map page once (the paper's batching), spread over the collection
//! of the next victim.

mod shut_down;

use super::Mapping;
use super::cached::{DELAYS, LaterRead, MapCache};
use super::loads::{Reading, There};
use crate::buffer::InFlight;
use crate::flash::BlockState;
use crate::media::Media;
use crate::resources::background::Operation;
use crate::resources::{Class, Resource};
use crate::ssd::Ssd;
use crate::stream::FilledProgram;
use crate::units::{BlockIndex, DieIndex, Instant, LogicalUnit, Nanoseconds, PhysicalUnit};

/// Later reads are alike that are as far ahead, in times of a page read: the further, the less of
/// what they will find is booked already.
fn delays_like(ahead: Nanoseconds, page_read: Nanoseconds) -> usize {
    ((ahead.nanos() / page_read.nanos()) as usize).min(DELAYS - 1)
}

impl<M: Mapping, D: Media> Ssd<M, D> {
    /// Notes that a request is acted on at `at`, for what is done before it is looked up.
    #[inline(always)]
    pub(crate) fn note_acted(&mut self, at: Instant) {
        if let Some(cache) = self.map.cache() {
            cache.acted_at = at;
        }
    }

    /// Sees to it that the map entries of `units` units from `first` are in RAM for a request
    /// acted on at `at`; returns when they are. `change` says that the request changes them.
    #[inline(always)]
    pub(crate) fn look_up(
        &mut self,
        at: Instant,
        first: LogicalUnit,
        units: u32,
        change: bool,
    ) -> Instant {
        match self.map.cache() {
            None => at,
            Some(_) => {
                self.leave_in_time();
                let cache = self.cache();
                cache.acted_at = at;
                let pages = (cache.page_of(first), cache.page_of(LogicalUnit(first.0 + units - 1)));
                let mut ready = at;
                for page in pages.0..=pages.1 {
                    ready = ready.max(self.look_up_page(at, page, change));
                }
                ready
            }
        }
    }

    /// The same for what a request that is acted on now, or was, has the drive read ahead.
    #[inline(always)]
    pub(crate) fn look_up_ahead(&mut self, at: Instant, first: LogicalUnit, units: u32) -> Instant {
        match self.map.cache() {
            None => at,
            Some(cache) => {
                let acted_at = cache.acted_at;
                self.look_up(acted_at, first, units, false).max(at)
            }
        }
    }

    fn cache(&mut self) -> &mut MapCache {
        self.map.cache().expect("the map lies on flash")
    }

    fn look_up_page(&mut self, at: Instant, page: u32, change: bool) -> Instant {
        if let Some(there) = self.cache().touch(page, change) {
            self.counters.map_hits += 1;
            return self.there_at(there).max(at);
        }
        self.counters.map_misses += 1;
        let mut ready = self.read_map_page(page, at);
        if let Some(evicted) = self.cache().make_room()
            && evicted.dirty
        {
            let data_at = self.there_at(evicted.there);
            ready = ready.max(self.write_map_page(evicted.page, at, data_at));
            self.collect_map(at);
        }
        self.cache().insert(page, change, There::At(ready));
        ready
    }

    /// When a map page is in RAM, where nothing is under way step by step.
    fn there_at(&mut self, there: There) -> Instant {
        match there {
            There::At(at) => at,
            There::WithLoad(load) => match self.cache().under_way.loads.get(load) {
                None => Instant::START,
                Some(load) => {
                    assert!(load.reading == Reading::Done && !load.awaits_room, "all is booked");
                    load.at
                }
            },
        }
    }

    /// Reads a map page at `at`; returns when it is there. One never written is all empty.
    fn read_map_page(&mut self, page: u32, at: Instant) -> Instant {
        let cache = self.cache();
        match cache.place(page) {
            Some(place) if !cache.area.is_buffered(place, at) => self.read_map_page_at(place, at),
            _ => at,
        }
    }

    fn read_map_page_at(&mut self, place: PhysicalUnit, at: Instant) -> Instant {
        let die = self.cache().area.geometry.die_of(place);
        self.counters.map_page_reads += 1;
        let sensed = self.aside(|ssd| ssd.sense(die, at, ssd.timing.page_read));
        let channel = Resource::Channel(self.geometry.channel_of(die));
        self.resources.reserve(channel, Class::Read, sensed, self.unit_over_channel).end
    }

    /// Puts a map page, which is there at `data_at`, at the next place of the map's stream;
    /// returns when that has room for it.
    fn write_map_page(&mut self, page: u32, at: Instant, data_at: Instant) -> Instant {
        if self.cache().area.stream.room() == 0 {
            self.begin_map_program(at);
        }
        let cache = self.map.cache().expect("the map lies on flash");
        let admitted = cache.area.admit(at, &mut self.resources.dies);
        self.place_map_page(page);
        let area = &mut self.cache().area;
        area.data_at = area.data_at.max(admitted).max(data_at);
        if area.stream.room() == 0 {
            self.program_map(0);
        }
        admitted
    }

    /// Gives a map page the next place of the map's stream.
    pub(super) fn place_map_page(&mut self, page: u32) {
        let cache = self.cache();
        let place = cache.area.stream.append();
        cache.area.flash.note_written(place, LogicalUnit(page));
        if let Some(old) = cache.set_place(page, place) {
            let block = cache.area.geometry.block_of(old);
            cache.area.flash.lose_unit(block);
        }
    }

    pub(super) fn begin_map_program(&mut self, at: Instant) {
        self.erase_map_blocks(at, false);
        if self.cache().area.stream.needs_block() && self.cache().area.free.is_empty() {
            self.erase_map_blocks(at, true);
        }
        let area = &mut self.cache().area;
        if let Some(block) = area.stream.begin_program(&area.geometry, &mut area.free) {
            let units = area.geometry.units_per_block();
            area.flash.open(block, BlockState::OpenForHost, units);
        }
    }

    /// Sends the map stream's full program unit to its die; its last `padding` units are empty.
    fn program_map(&mut self, padding: u32) {
        let area = &mut self.cache().area;
        let filled = area.stream.finish_program(&area.geometry);
        let mut ready = std::mem::replace(&mut area.data_at, Instant::START);
        let number = area.next_program();
        if let Some(begun) = area.unsent.pop_back_if(|it| it.number == number) {
            assert!(begun.missing == 0, "what was under way step by step has been booked");
            ready = ready.max(begun.ready);
        }
        self.send_map_program(&filled, number, ready, padding);
    }

    /// Sends map program `number`, all of which was there at `ready`, to its die; its last `padding`
    /// units are empty.
    pub(super) fn send_map_program(
        &mut self,
        filled: &FilledProgram,
        number: u32,
        ready: Instant,
        padding: u32,
    ) {
        let area = &mut self.cache().area;
        let (units, stripe) = (area.geometry.units_per_program(), area.geometry.stripe());
        let die = area.geometry.die_of_program(filled.block, filled.index);
        self.settle(die, ready);
        if filled.index < stripe {
            self.finish_erase(die, self.numbered_behind_data(filled.block));
        }
        let channel = Resource::Channel(self.geometry.channel_of(die));
        let transfer = self.unit_over_channel * u64::from(units);
        let arrived = self.resources.reserve(channel, Class::Write, ready, transfer).end;
        let program = self.timing.program;
        let end = self.resources.reserve(Resource::Die(die), Class::Write, arrived, program).end;
        self.counters.programs += 1;
        self.counters.program_units_map += u64::from(units - padding);
        self.counters.program_units_padding += u64::from(padding);
        let booking = self.resources.dies[die.0 as usize].latest_booking();
        let area = &mut self.cache().area;
        area.buffer.send_as(InFlight {
            first: filled.first,
            units: units - padding,
            end,
            die,
            booking,
            number,
            given_away: false,
            closes: filled.closes.then_some(filled.block),
        });
        if filled.closes {
            area.flash.close(filled.block, BlockState::Closing);
        }
        if self.in_time.is_on() {
            self.erase_map_blocks(self.resources.now(), false);
        }
    }

    /// Metadata blocks are numbered behind those for data where dies are concerned.
    fn numbered_behind_data(&self, block: BlockIndex) -> BlockIndex {
        BlockIndex(self.geometry.blocks() + block.0)
    }

    /// Has the map's collection keep pace with a page that was written to its stream.
    pub(super) fn collect_map(&mut self, at: Instant) {
        let area = &mut self.cache().area;
        if area.victim.is_none() && !area.is_short_of_blocks() {
            return;
        }
        let (Some(moves), begun) = area.moves_for_a_page() else {
            return;
        };
        self.counters.map_collections += u64::from(begun);
        for _ in 0..moves {
            if self.cache().area.finish_victim_if_empty() {
                return;
            }
            self.move_map_page(at);
        }
        self.cache().area.finish_victim_if_empty();
    }

    /// Moves one map page of the map's victim.
    fn move_map_page(&mut self, at: Instant) {
        let cache = self.cache();
        let (page, place) = cache.next_of_map_victim().expect("something on the victim is valid");
        let there = cache.clean(page);
        if self.in_time.is_on() {
            let data = match there {
                Some(there) => there,
                None => There::WithLoad(self.begin_load(Some(place), at)),
            };
            return self.write_map_page_in_time(page, at, data, None);
        }
        let data_at = match there {
            Some(there) => self.there_at(there),
            None => self.read_map_page_at(place, at),
        };
        self.write_map_page(page, at, data_at);
    }

    /// Erases blocks of the map area that were emptied, if what they held is durable by `at`; if
    /// `forced`, one anyway, as soon as it is.
    pub(crate) fn erase_map_blocks(&mut self, at: Instant, forced: bool) {
        let mut forced = forced;
        while let Some(&emptied) = self.cache().area.emptied.front() {
            if self.cache().area.is_unsent_through(emptied.number) {
                if !forced {
                    return;
                }
                self.book_what_is_in_time();
            }
            let cache = self.map.cache().expect("the map lies on flash");
            let dies = &self.resources.dies;
            let end_of = |it: &InFlight| dies[it.die.0 as usize].end_of(it.booking, it.end);
            let Some(durable) = cache.area.buffer.durable_through(emptied.number, end_of) else {
                return;
            };
            if durable > at && !forced {
                if self.in_time.is_on() {
                    self.in_time.map_durable(durable);
                }
                return;
            }
            forced = false;
            let group = cache.area.erase_emptied();
            let block = self.numbered_behind_data(emptied.block);
            for lane in 0..self.geometry.stripe() {
                let die = DieIndex(group * self.geometry.stripe() + lane);
                self.owe(die, Operation::Erase { block }, durable, at);
                self.settle(die, at);
            }
        }
    }

    /// Writes some of the map pages whose entries collection has changed.
    #[inline(always)]
    pub(crate) fn write_moved_map_pages(&mut self, now: Instant) {
        if let Some(cache) = self.map.cache() {
            for _ in 0..cache.owed_per_step() {
                if !self.write_moved_map_page(now) {
                    return;
                }
            }
        }
    }

    fn write_moved_map_page(&mut self, now: Instant) -> bool {
        let Some(page) = self.cache().take_owed() else {
            return false;
        };
        if self.in_time.is_on() {
            let place = self.cache().place(page);
            let load = self.begin_load(place, now);
            self.write_map_page_in_time(page, now, There::WithLoad(load), None);
            self.collect_map(now);
            self.erase_map_blocks(now, false);
            return true;
        }
        let read = self.read_map_page(page, now);
        // Slots are taken in the order of the requests that made this necessary.
        let at = self.cache().acted_at;
        self.write_map_page(page, at, read);
        self.collect_map(at);
        true
    }

    /// All that was valid on a victim is moved.
    #[inline(always)]
    pub(crate) fn end_map_batch(&mut self) {
        let steps = self.geometry.units_per_block() / self.geometry.units_per_program();
        if let Some(cache) = self.map.cache() {
            cache.end_victim(steps);
        }
    }

    /// Sees to the map of `units` units from `first` that a trim acted on at `at` forgets: map
    /// pages of which nothing is left are forgotten, the others change.
    pub(crate) fn look_up_trimmed(
        &mut self,
        at: Instant,
        first: LogicalUnit,
        units: u32,
    ) -> Instant {
        if self.map.cache().is_none() {
            return at;
        }
        self.leave_in_time();
        let cache = self.cache();
        cache.acted_at = at;
        let (shift, end) = (cache.entries_shift(), first.0 + units);
        let mut ready = at;
        for page in first.0 >> shift..=(end - 1) >> shift {
            let whole = first.0 <= page << shift
                && end >= self.geometry.logical_units().min((page + 1) << shift);
            if !whole {
                ready = ready.max(self.look_up_page(at, page, true));
            } else if let Some(place) = self.cache().forget(page) {
                let area = &mut self.cache().area;
                area.flash.lose_unit(area.geometry.block_of(place));
            }
        }
        ready
    }

    /// Sees to a read of a page whose map page is still being read: the die learns of it only at
    /// `from`, so that what is asked of it until then goes first. Returns when it is to be expected
    /// to be over: by what is booked now, and later by as much as an earlier one like it was that is
    /// booked since. Each such delay is told to one read, so latencies are right on the whole.
    #[inline(never)]
    pub(crate) fn sense_later(&mut self, die: DieIndex, from: Instant) -> Instant {
        let duration = self.timing.page_read;
        let cache = self.map.cache().expect("the map lies on flash");
        let later = &mut cache.later_reads[die.0 as usize];
        let place = later.iter().take_while(|it| it.from <= from).count();
        let before = if place == 0 { from } else { later[place - 1].foreseen };
        let start = self.resources.dies[die.0 as usize].read_start(from).max(before);
        let foreseen = start + duration;
        let like_it = delays_like(from.since(cache.acted_at), duration);
        later.insert(place, LaterRead { from, foreseen, like_it });
        let delay = cache.delays[like_it].pop_front().unwrap_or(0);
        Instant::from_nanos(foreseen.nanos().strict_add_signed(delay)).max(from + duration)
    }

    /// Books the reads that `die` has learnt of by `now`.
    #[inline(never)]
    pub(crate) fn book_later_reads(&mut self, die: DieIndex, now: Instant) {
        loop {
            let later = &mut self.cache().later_reads[die.0 as usize];
            let Some(&LaterRead { from, foreseen, like_it }) = later.front() else {
                return;
            };
            if from > now {
                return;
            }
            later.pop_front();
            self.settle_owed(die, from);
            let duration = self.timing.page_read;
            let read = Resource::Die(die);
            // What it waits for was promised as queueing.
            let book = |ssd: &mut Self| ssd.resources.reserve(read, Class::Read, from, duration);
            let end = self.aside(book).end;
            let delay = end.nanos() as i64 - foreseen.nanos() as i64;
            self.cache().delays[like_it].push_back(delay);
        }
    }
}
