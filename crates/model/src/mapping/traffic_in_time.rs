//! A map on flash in the order of time: the same traffic as in `traffic`, for drives that are asked
//! step by step ([`crate::pending`]).
//!
//! Asked at once, a request is told when its map page will be there, and a program unit of map pages
//! is booked for when the last of them will have been read; what its die does until then is not
//! known. Here a page that is read asks for its channel when it is sensed, requests wait for it, and
//! a program unit asks for its die when all that it holds is there.

use super::Mapping;
use super::cached::MapCache;
use super::loads::{AwaitsRoom, Known, Load, Reading, There, UnsentMapProgram};
use crate::media::Media;
use crate::resources::{Class, Resource};
use crate::ssd::Ssd;
use crate::units::{DieIndex, Instant, LogicalUnit, PhysicalUnit};

impl<M: Mapping, D: Media> Ssd<M, D> {
    fn map_cache(&mut self) -> &mut MapCache {
        self.map.cache().expect("the map lies on flash")
    }

    /// Sees to it that the map entries of `units` units from `first` come to RAM for a request acted
    /// on at `now`; returns the number of what it has to wait for. `change` says that the request
    /// changes them.
    pub(crate) fn begin_lookup(
        &mut self,
        now: Instant,
        first: LogicalUnit,
        units: u32,
        change: bool,
    ) -> Option<u32> {
        let cache = self.map.cache()?;
        cache.acted_at = now;
        let pages = (cache.page_of(first), cache.page_of(LogicalUnit(first.0 + units - 1)));
        let lookup = cache.under_way.lookups.begin();
        for page in pages.0..=pages.1 {
            if let There::WithLoad(load) = self.use_map_page(now, page, change) {
                self.map_cache().under_way.lookups.get(lookup).push(load);
            }
        }
        Some(lookup)
    }

    /// When what a request waits for is there.
    pub(crate) fn look_at_lookup(&mut self, lookup: u32, now: Instant) -> Known {
        self.admit_map_pages(now);
        let loads = std::mem::take(self.map_cache().under_way.lookups.get(lookup));
        let (mut at, mut is_known) = (now, true);
        for &load in &loads {
            match self.load_at(load, now) {
                Known::At(there) => at = at.max(there),
                Known::NotBefore(earliest) => (at, is_known) = (at.max(earliest), false),
            }
        }
        *self.map_cache().under_way.lookups.get(lookup) = loads;
        if is_known { Known::At(at) } else { Known::NotBefore(at) }
    }

    /// A request has what it waited for; its number is free again.
    pub(crate) fn end_lookup(&mut self, lookup: u32) {
        self.map_cache().under_way.lookups.end(lookup);
    }

    fn load_at(&mut self, number: u32, now: Instant) -> Known {
        let cache = self.map.cache().expect("the map lies on flash");
        let Some(load) = cache.under_way.loads.get(number) else { return Known::At(now) };
        if load.awaits_room {
            // A program unit of the map's that is yet to be sent off may make room sooner.
            let mut waiting = cache.under_way.waiting.iter();
            let queued = waiting.find(|it| it.load == Some(number)).map(|it| it.queued);
            let queued = queued.expect("it waits for room");
            let room = cache.area.buffer.let_in(queued, 1, now, &self.resources.dies);
            let room = room.expect_err("who has room was let in");
            return Known::NotBefore(room.min(now + self.timing.program).max(load.at));
        }
        match load.reading {
            Reading::Sensing => Known::NotBefore(load.at),
            Reading::Moving | Reading::Done => Known::At(load.at),
        }
    }

    fn use_map_page(&mut self, now: Instant, page: u32, change: bool) -> There {
        if let Some(there) = self.map_cache().touch(page, change) {
            self.counters.map_hits += 1;
            return there;
        }
        self.counters.map_misses += 1;
        let place = self.map_cache().place(page);
        let load = self.begin_load(place, now);
        if let Some(evicted) = self.map_cache().make_room()
            && evicted.dirty
        {
            self.write_map_page_in_time(evicted.page, now, evicted.there, Some(load));
            self.collect_map(now);
            self.erase_map_blocks(now, false);
        }
        self.map_cache().insert(page, change, There::WithLoad(load));
        There::WithLoad(load)
    }

    /// Begins to read the map page at `place`, unless that is in RAM still, or nowhere; returns the
    /// load's number.
    pub(super) fn begin_load(&mut self, place: Option<PhysicalUnit>, now: Instant) -> u32 {
        let present = self.resources.now();
        let cache = self.map_cache();
        cache.under_way.loads.forget_done(present);
        let place = place.filter(|&place| !cache.area.is_buffered(place, now));
        let mut load =
            Load { reading: Reading::Done, awaits_room: false, at: now, programs: Vec::new() };
        let Some(place) = place else { return cache.under_way.loads.begin(load) };
        let die = cache.area.geometry.die_of(place);
        self.counters.map_page_reads += 1;
        let sensed = self.aside(|ssd| ssd.sense(die, now, ssd.timing.page_read));
        (load.reading, load.at) = (Reading::Sensing, sensed + self.unit_over_channel);
        let number = self.map_cache().under_way.loads.begin(load);
        self.in_time.map_sensed(sensed, die, number);
        number
    }

    /// A map page is sensed at `at`, and asks for its channel.
    pub(crate) fn move_map_page_read(&mut self, die: DieIndex, number: u32, at: Instant) {
        let channel = Resource::Channel(self.geometry.channel_of(die));
        let transfer = self.unit_over_channel;
        let end = self.resources.reserve_in_turn(channel, Class::Read, at, transfer).end;
        let load = self.map_cache().under_way.loads.get_mut(number).expect("it is being read");
        (load.reading, load.at) = (Reading::Moving, end);
        self.in_time.map_read(end, number);
    }

    /// A map page is in RAM at `at`, and so in the program units that hold it, too.
    pub(crate) fn note_map_page_read(&mut self, number: u32, at: Instant) {
        let load = self.map_cache().under_way.loads.get_mut(number).expect("it is being read");
        load.reading = Reading::Done;
        for program in std::mem::take(&mut load.programs) {
            self.note_in_map_program(program, at);
        }
        self.admit_map_pages(at);
    }

    /// Puts a map page, which is there when `data` says, at the next place of the map's stream. Load
    /// `makes_room_for` waits until that takes it.
    pub(super) fn write_map_page_in_time(
        &mut self,
        page: u32,
        now: Instant,
        data: There,
        makes_room_for: Option<u32>,
    ) {
        if self.map_cache().area.stream.room() == 0 {
            self.begin_map_program(now);
        }
        self.place_map_page(page);
        let cache = self.map_cache();
        let queued = cache.area.buffer.queue(1);
        let program = cache.area.unsent_being_filled();
        program.missing += 1;
        let number = program.number;
        if let There::WithLoad(load) = data
            && let Some(load) = cache.under_way.loads.get_mut(load)
            && load.reading != Reading::Done
        {
            load.programs.push(number);
            program.missing += 1;
        }
        if let Some(load) = makes_room_for {
            let load = cache.under_way.loads.get_mut(load).expect("it has just begun");
            load.awaits_room = true;
        }
        let waits = AwaitsRoom { queued, program: number, load: makes_room_for };
        cache.under_way.waiting.push_back(waits);
        if cache.area.stream.room() == 0 {
            let filled = cache.area.stream.finish_program(&cache.area.geometry);
            let ready = cache.area.data_at;
            cache.area.data_at = Instant::START;
            let program = cache.area.unsent_being_filled();
            (program.filled, program.ready) = (Some(filled), program.ready.max(ready));
        }
        self.admit_map_pages(now);
    }

    /// It is being looked whether there is room.
    pub(crate) fn note_map_room(&mut self) {
        self.map_cache().under_way.room_at = None;
    }

    /// Lets map pages into the map's write buffer, as far as there is room at `now`.
    pub(crate) fn admit_map_pages(&mut self, now: Instant) {
        loop {
            let cache = self.map.cache().expect("the map lies on flash");
            let Some(&AwaitsRoom { queued, program, load }) = cache.under_way.waiting.front()
            else {
                return;
            };
            cache.area.release(now, &mut self.resources.dies);
            if let Err(until) = cache.area.buffer.let_in(queued, 1, now, &self.resources.dies) {
                // Where all that was sent off is not enough, sending off more comes back here.
                let is_known = until < Instant::from_nanos(u64::MAX);
                if is_known && cache.under_way.room_at != Some(until) {
                    cache.under_way.room_at = Some(until);
                    self.in_time.map_room(until);
                }
                return;
            }
            cache.under_way.waiting.pop_front();
            let load = load.and_then(|load| cache.under_way.loads.get_mut(load));
            if let Some(load) = load {
                (load.awaits_room, load.at) = (false, load.at.max(now));
            }
            self.note_in_map_program(program, now);
        }
    }

    /// Something is there at `at` that was missing in map program `number`: when it was the last, and
    /// the program unit is full, that is sent off.
    fn note_in_map_program(&mut self, number: u32, at: Instant) {
        let unsent = &mut self.map_cache().area.unsent;
        let place = unsent.iter().position(|it| it.number == number);
        let place = place.expect("it was not sent off");
        let program = &mut unsent[place];
        program.missing -= 1;
        program.ready = program.ready.max(at);
        let UnsentMapProgram { ready, missing, filled, .. } = *program;
        if let (0, Some(filled)) = (missing, filled) {
            unsent.remove(place);
            self.send_map_program(&filled, number, ready, 0);
        }
    }
}
