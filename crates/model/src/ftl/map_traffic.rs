//! Traffic of a map on flash (DFTL, cached map): map pages read, written and collected.
//!
//! A read begins, and a write or a trim is answered, only when the map pages of its units are in RAM. Writes
//! need them too: the old entry says which unit becomes invalid. A page that is evicted and dirty goes to the
//! map's write stream, and the request waits until the stream takes it. Map pages are read like the host's
//! pages, since some request waits for them or soon will, and programmed like the host's data.
//!
//! Collection changes entries of map pages that are not in RAM. The changes of one victim are kept as a batch
//! until they are written, each map page once (batching as in the DFTL paper, see `mapping::cached`), spread
//! over the collection of the next victim.

use std::collections::VecDeque;

use ssdlab_nand::{EraseId, Nand, Page, ProgramLog, ProgramUnit, Tag};

use super::host::{Command, RequestTag};
use super::{Context, Ftl, kind, number_of};
use crate::block_table::BlockState;
use crate::geometry::Geometry;
use crate::mapping::Mapping;
use crate::mapping::cached::MapCache;
use crate::mapping::cached::MapPageArrival;
use crate::media::Media;
use crate::units::{BlockIndex, DieIndex, Instant, LogicalUnit, Nanoseconds, PhysicalUnit};

/// A map page on its way to RAM.
#[derive(Clone, Debug, Default)]
struct Load {
    is_reading: bool,
    /// True if the dirty page that was evicted for this one still waits for space in the map's write buffer.
    awaits_space: bool,
    requests: Vec<RequestTag>,
    /// Numbers of map program units that wait for the data of the page.
    programs: Vec<u64>,
}

impl Load {
    fn is_done(&self) -> bool {
        !self.is_reading && !self.awaits_space
    }
}

/// A program unit of map pages that is being filled or in flight.
#[derive(Clone, Copy, Debug)]
struct MapProgram {
    first: PhysicalUnit,
    block: BlockIndex,
    /// Number of map pages in the program unit.
    pages: u32,
    /// Number of things that are missing before the program unit is sent: buffer space and data for each page,
    /// and that the program unit is full.
    missing: u32,
    closes: bool,
    /// Erase of the block that was pending when the program unit was begun.
    after: Option<EraseId>,
}

/// Progress of a request that uses map pages.
#[derive(Clone, Copy, Debug)]
struct Progress {
    /// Number of loads that the request waits for, and one more while it can get others.
    loads: u32,
    started: Instant,
    /// Moment at which the data of a write is in the buffer, once that is known.
    received: Option<Instant>,
}

/// Map pages in flight, and the requests that wait for them.
#[derive(Clone, Debug)]
pub(super) struct MapTraffic {
    loads: VecDeque<Load>,
    /// Number of the first load; only its last 28 bits count.
    first_load: u32,
    log: ProgramLog,
    in_flight: VecDeque<MapProgram>,
    /// Bitmap over the program units of the map area: a bit is set while the program unit is not programmed.
    buffered: Vec<u64>,
    used: u32,
    capacity: u32,
    /// Map pages that wait for space in the map's write buffer: the program unit that a page goes into, and the
    /// load that it was evicted for.
    waiting: VecDeque<(u64, Option<u32>)>,
    /// Erases that were announced, each with a number: all map program units before it have to complete first.
    to_erase: VecDeque<(EraseId, u64)>,
    /// Pending erases, with their blocks.
    erases: VecDeque<(EraseId, BlockIndex)>,
    progress: Vec<Progress>,
    /// Requests whose map pages are in RAM and that have to be resumed, in this order.
    resumable: VecDeque<RequestTag>,
    /// Time to read an entry of a map page that is in RAM.
    cache_read: Nanoseconds,
}

impl MapTraffic {
    pub(super) fn new(geometry: &Geometry, cache_read: Nanoseconds) -> MapTraffic {
        MapTraffic {
            loads: VecDeque::new(),
            first_load: 0,
            log: ProgramLog::default(),
            in_flight: VecDeque::new(),
            buffered: Vec::new(),
            used: 0,
            // One program unit on its way to each die, and one that is being filled.
            capacity: (geometry.dies() + 1) * geometry.units_per_program(),
            waiting: VecDeque::new(),
            to_erase: VecDeque::new(),
            erases: VecDeque::new(),
            progress: Vec::new(),
            resumable: VecDeque::new(),
            cache_read,
        }
    }

    fn begin_load(&mut self, load: Load) -> u32 {
        self.loads.push_back(load);
        self.first_load.wrapping_add(self.loads.len() as u32 - 1) & kind::NUMBER
    }

    /// Returns load `number`; `None` if it is done and was removed.
    fn load(&mut self, number: u32) -> Option<&mut Load> {
        let place = number.wrapping_sub(self.first_load) & kind::NUMBER;
        self.loads.get_mut(place as usize)
    }

    /// If load `number` is done, releases the requests that wait for it, and removes finished loads from the
    /// front.
    fn finish_load(&mut self, number: u32) {
        let Some(load) = self.load(number).filter(|load| load.is_done()) else { return };
        for tag in std::mem::take(&mut load.requests) {
            self.release(tag);
        }
        while self.loads.front().is_some_and(Load::is_done) {
            self.loads.pop_front();
            self.first_load = self.first_load.wrapping_add(1);
        }
    }

    /// Notes that a request waits for one load less. A request that waits for none is to be resumed.
    fn release(&mut self, tag: RequestTag) {
        let progress = &mut self.progress[tag.0 as usize];
        progress.loads -= 1;
        if progress.loads == 0 {
            self.resumable.push_back(tag);
        }
    }

    fn program(&mut self, number: u64) -> &mut MapProgram {
        let place = number - self.log.low_water();
        &mut self.in_flight[place as usize]
    }

    fn is_buffered(&self, place: PhysicalUnit, area: &Geometry) -> bool {
        let program = area.program_of(place) as usize;
        self.buffered.get(program / 64).is_some_and(|bits| bits >> (program % 64) & 1 != 0)
    }

    fn set_buffered(&mut self, place: PhysicalUnit, area: &Geometry, is_buffered: bool) {
        let program = area.program_of(place) as usize;
        if program / 64 >= self.buffered.len() {
            self.buffered.resize(program / 64 + 1, 0);
        }
        let bit = 1 << (program % 64);
        match is_buffered {
            true => self.buffered[program / 64] |= bit,
            false => self.buffered[program / 64] &= !bit,
        }
    }

    /// Notes that all data of the write `tag` is in the buffer at `received`. Returns true if the write still
    /// waits for map pages.
    pub(super) fn note_received(&mut self, tag: RequestTag, received: Instant) -> bool {
        let progress = &mut self.progress[tag.0 as usize];
        if progress.loads == 0 {
            self.cancel_resume(tag);
            return false;
        }
        progress.received = Some(received);
        true
    }

    /// Removes a request from those to be resumed: it is answered now, and its tag may soon be another's.
    pub(super) fn cancel_resume(&mut self, tag: RequestTag) {
        self.resumable.retain(|&it| it != tag);
    }

    /// Returns true if the request `tag`, which is in progress, waits for map pages.
    pub(super) fn awaits_map(&self, tag: RequestTag) -> bool {
        self.progress[tag.0 as usize].loads > 0
    }

    /// Returns true if some request is to be resumed.
    #[inline(always)]
    pub(super) fn has_resumable(&self) -> bool {
        !self.resumable.is_empty()
    }

    /// Notes that an erase has completed.
    pub(super) fn note_erased(&mut self, erase: EraseId) {
        self.erases.retain(|it| it.0 != erase);
    }
}

impl<M: Mapping, D: Media> Ftl<M, D> {
    fn cache(&mut self) -> &mut MapCache {
        self.map.cache().expect("the map lies on flash")
    }

    /// Begins the progress of a request that will use map pages.
    pub(super) fn begin_progress(&mut self, tag: RequestTag, started: Instant) {
        let progress = Progress { loads: 1, started, received: None };
        let place = tag.0 as usize;
        if place >= self.traffic.progress.len() {
            self.traffic.progress.resize(place + 1, progress);
        }
        self.traffic.progress[place] = progress;
    }

    /// Brings the map entries of `units` units from `first` to RAM for a request in progress; `change` says
    /// that the request changes them. The request is resumed when they are there.
    pub(super) fn load_map_entries(
        &mut self,
        nand: &mut Nand,
        tag: RequestTag,
        first: LogicalUnit,
        units: u32,
        change: bool,
    ) {
        let cache = self.cache();
        let pages = cache.page_of(first)..=cache.page_of(LogicalUnit(first.0 + units - 1));
        for page in pages {
            self.use_map_page(nand, tag, page, change);
        }
        match self.traffic.cache_read {
            Nanoseconds::ZERO => self.traffic.release(tag),
            entry => nand.set_alarm(nand.now() + entry, Tag(kind::MAP_LOOKUP_DONE | tag.0)),
        }
    }

    /// Notes that a map entry in RAM was read for a request.
    pub(super) fn map_entry_read(&mut self, tag: RequestTag) {
        self.traffic.release(tag);
    }

    /// Updates the map pages of a trimmed range: a page whose units are all trimmed is dropped, the others
    /// change.
    pub(super) fn update_trimmed_map_pages(
        &mut self,
        nand: &mut Nand,
        tag: RequestTag,
        first: LogicalUnit,
        units: u32,
    ) {
        let (shift, end) = (self.cache().entries_shift(), first.0 + units);
        for page in first.0 >> shift..=(end - 1) >> shift {
            let is_whole = first.0 <= page << shift
                && end >= self.geometry.logical_units().min((page + 1) << shift);
            if !is_whole {
                self.use_map_page(nand, tag, page, true);
            } else if let Some(place) = self.cache().remove(page) {
                let area = &mut self.cache().area;
                area.block_table.invalidate_unit(area.geometry.block_of(place));
            }
        }
        self.traffic.release(tag);
    }

    fn use_map_page(&mut self, nand: &mut Nand, tag: RequestTag, page: u32, change: bool) {
        let load = match self.cache().touch(page, change) {
            Some(MapPageArrival::At(_)) => {
                self.counters.map_hits += 1;
                return;
            }
            Some(MapPageArrival::WithLoad(load)) => {
                self.counters.map_hits += 1;
                load
            }
            None => self.load_map_page(nand, page, change),
        };
        if let Some(load) = self.traffic.load(load).filter(|load| !load.is_done()) {
            load.requests.push(tag);
            self.traffic.progress[tag.0 as usize].loads += 1;
        }
    }

    /// Loads a map page into RAM; returns the number of the load.
    fn load_map_page(&mut self, nand: &mut Nand, page: u32, change: bool) -> u32 {
        self.counters.map_misses += 1;
        let place = self.cache().place(page);
        let load = self.begin_load(nand, place);
        if let Some(evicted) = self.cache().evict_if_full()
            && evicted.dirty
        {
            self.write_map_page(nand, evicted.page, evicted.arrival, Some(load));
            self.collect_map(nand);
        }
        self.cache().insert(page, change, MapPageArrival::WithLoad(load));
        load
    }

    /// Begins to read the map page at `place`, and returns the number of the load. Nothing is read if the page
    /// is still in the map's write buffer, or was never written.
    fn begin_load(&mut self, nand: &mut Nand, place: Option<PhysicalUnit>) -> u32 {
        let area = &self.map.cache().expect("the map lies on flash").area.geometry;
        let traffic = &self.traffic;
        let place = place.filter(|&place| !traffic.is_buffered(place, area));
        let Some(die) = place.map(|place| area.die_of(place)) else {
            return self.traffic.begin_load(Load::default());
        };
        self.counters.map_page_reads += 1;
        let number = self.traffic.begin_load(Load { is_reading: true, ..Load::default() });
        let (unit, sense) = (self.unit_on(die), self.timing.page_read);
        nand.load_page(Tag(kind::MAP_LOAD | number), Page { unit, units: 1, sense }, false);
        number
    }

    /// Notes that a map page was read.
    pub(super) fn map_page_loaded(&mut self, nand: &mut Nand, tag: Tag) {
        let number = tag.0 & kind::NUMBER;
        let load = self.traffic.load(number).expect("it is being read");
        load.is_reading = false;
        for program in std::mem::take(&mut load.programs) {
            self.complete_map_program_part(nand, program);
        }
        self.traffic.finish_load(number);
    }

    /// Puts a map page, which is in RAM when `data` says, at the next place of the map's write stream. Load
    /// `evicted_for` waits until the map's write buffer has space for the page.
    fn write_map_page(
        &mut self,
        nand: &mut Nand,
        page: u32,
        data: MapPageArrival,
        evicted_for: Option<u32>,
    ) {
        if self.cache().area.frontier.free_units() == 0 {
            self.begin_map_program();
        }
        let cache = self.map.cache().expect("the map lies on flash");
        let place = cache.area.frontier.append();
        cache.area.block_table.note_written(place, LogicalUnit(page));
        if let Some(old) = cache.set_place(page, place) {
            cache.area.block_table.invalidate_unit(cache.area.geometry.block_of(old));
        }
        let number = self.traffic.log.next() - 1;
        let mut missing = 1;
        if let MapPageArrival::WithLoad(load) = data
            && let Some(load) = self.traffic.load(load).filter(|load| load.is_reading)
        {
            load.programs.push(number);
            missing += 1;
        }
        if let Some(load) = evicted_for.and_then(|load| self.traffic.load(load)) {
            load.awaits_space = true;
        }
        let program = self.traffic.program(number);
        program.missing += missing;
        program.pages += 1;
        self.traffic.waiting.push_back((number, evicted_for));
        if self.cache().area.frontier.free_units() == 0 {
            self.seal_map_program(nand, number);
        }
        self.admit_map_pages(nand);
    }

    fn begin_map_program(&mut self) {
        let area = &mut self.map.cache().expect("the map lies on flash").area;
        if let Some(block) = area.frontier.begin_program(&area.geometry, &mut area.free) {
            area.block_table.open(block, BlockState::OpenForHost, area.geometry.units_per_block());
        }
        let first = area.frontier.program_start();
        let block = area.geometry.block_of(first);
        self.traffic.log.begin();
        self.traffic.set_buffered(first, &area.geometry, true);
        let after = self.traffic.erases.iter().find(|it| it.1 == block).map(|it| it.0);
        let program = MapProgram { first, block, pages: 0, missing: 1, closes: false, after };
        self.traffic.in_flight.push_back(program);
    }

    /// Seals the map's program unit, which is full: it is sent when all its pages are there.
    fn seal_map_program(&mut self, nand: &mut Nand, number: u64) {
        let area = &mut self.cache().area;
        let filled = area.frontier.finish_program(&area.geometry);
        if filled.closes {
            area.block_table.close(filled.block, BlockState::Closing);
        }
        self.traffic.program(number).closes = filled.closes;
        self.complete_map_program_part(nand, number);
    }

    /// Notes that one of the things missing in map program `number` is there. If it was the last, sends the
    /// program unit.
    fn complete_map_program_part(&mut self, nand: &mut Nand, number: u64) {
        let program = self.traffic.program(number);
        program.missing -= 1;
        if program.missing > 0 {
            return;
        }
        let MapProgram { first, pages, after, .. } = *program;
        let units = self.geometry.units_per_program();
        self.counters.programs += 1;
        self.counters.program_units_map += u64::from(pages);
        self.counters.program_units_padding += u64::from(units - pages);
        let die = self.cache().area.geometry.die_of(first);
        let tag = Tag(kind::MAP | number as u32 & kind::NUMBER);
        let (unit, program) = (self.unit_on(die), self.timing.program);
        nand.program(tag, ProgramUnit { unit, units, program, after });
    }

    /// Admits waiting map pages to the map's write buffer, as far as it has space.
    fn admit_map_pages(&mut self, nand: &mut Nand) {
        while self.traffic.used < self.traffic.capacity {
            let Some((program, load)) = self.traffic.waiting.pop_front() else { return };
            self.traffic.used += 1;
            if let Some(number) = load {
                if let Some(load) = self.traffic.load(number) {
                    load.awaits_space = false;
                }
                self.traffic.finish_load(number);
            }
            self.complete_map_program_part(nand, program);
        }
    }

    /// Notes that a program unit of map pages is programmed.
    pub(super) fn map_programmed(&mut self, nand: &mut Nand, tag: Tag) {
        let low = self.traffic.log.low_water();
        let number = number_of(tag, low);
        let MapProgram { first, block, pages, closes, .. } = *self.traffic.program(number);
        let area = &mut self.map.cache().expect("the map lies on flash").area;
        self.traffic.set_buffered(first, &area.geometry, false);
        if closes && area.block_table.state(block) == BlockState::Closing {
            area.block_table.set_state(block, BlockState::Closed);
        }
        self.traffic.used -= pages;
        self.traffic.log.end(number);
        for _ in low..self.traffic.log.low_water() {
            self.traffic.in_flight.pop_front();
        }
        self.admit_map_pages(nand);
        self.erase_map_blocks(nand);
    }

    /// Collects the map area in pace with a page that was written to its stream.
    fn collect_map(&mut self, nand: &mut Nand) {
        let area = &mut self.cache().area;
        if area.victim.is_none() && !area.is_short_of_blocks() {
            return;
        }
        let (Some(moves), is_begun) = area.moves_for_a_page() else {
            return;
        };
        self.counters.map_collections += u64::from(is_begun);
        for _ in 0..moves {
            if self.finish_map_victim(nand) {
                return;
            }
            self.move_map_page(nand);
        }
        self.finish_map_victim(nand);
    }

    /// Moves one valid map page of the map area's victim.
    fn move_map_page(&mut self, nand: &mut Nand) {
        let cache = self.cache();
        let (page, place) = cache.next_of_map_victim().expect("something on the victim is valid");
        let data = match cache.clean(page) {
            Some(arrival) => arrival,
            None => MapPageArrival::WithLoad(self.begin_load(nand, Some(place))),
        };
        self.write_map_page(nand, page, data, None);
    }

    /// Frees the map area's victim and announces its erase, if no page on it is valid any more. Returns true if
    /// there is no victim then. The block is free at once: programs to it wait for the erase.
    fn finish_map_victim(&mut self, nand: &mut Nand) -> bool {
        let area = &mut self.cache().area;
        if !area.finish_victim_if_empty() {
            return false;
        }
        let Some(reclaimed) = area.reclaimed.front().copied() else { return true };
        let group = area.erase_reclaimed();
        let first = group * self.geometry.stripe();
        let dies = DieIndex(first)..DieIndex(first + self.geometry.stripe());
        let erase = nand.announce_erase(dies);
        self.traffic.to_erase.push_back((erase, self.traffic.log.next()));
        self.traffic.erases.push_back((erase, reclaimed));
        self.erase_map_blocks(nand);
        true
    }

    fn erase_map_blocks(&mut self, nand: &mut Nand) {
        let low = self.traffic.log.low_water();
        while let Some((erase, _)) = self.traffic.to_erase.pop_front_if(|it| it.1 <= low) {
            nand.erase(erase, self.timing.erase);
        }
    }

    /// Writes some of the map pages whose entries collection has changed: as many as are due for each program
    /// unit that is collected.
    #[inline(always)]
    pub(super) fn write_moved_map_pages(&mut self, nand: &mut Nand) {
        if let Some(cache) = self.map.cache() {
            for _ in 0..cache.batched_per_step() {
                if !self.write_moved_map_page(nand) {
                    return;
                }
            }
        }
    }

    pub(super) fn write_moved_map_page(&mut self, nand: &mut Nand) -> bool {
        let Some(page) = self.cache().take_batched() else {
            return false;
        };
        let place = self.cache().place(page);
        let load = self.begin_load(nand, place);
        self.write_map_page(nand, page, MapPageArrival::WithLoad(load), None);
        self.collect_map(nand);
        true
    }

    /// After a power cut: writes a map on flash anew through the cache, map page by map page. Pages without
    /// entries are left out.
    pub(super) fn rewrite_map(&mut self, nand: &mut Nand) {
        let Some(shift) = self.map.cache().map(|cache| cache.entries_shift()) else { return };
        let mut from = 0;
        while let Some((unit, _)) = self.map.next_mapped(LogicalUnit(from)) {
            let page = self.cache().page_of(unit);
            if self.cache().touch(page, true).is_none() {
                self.load_map_page(nand, page, true);
            }
            from = ((unit.0 >> shift) + 1) << shift;
        }
    }

    /// Writes the map pages in RAM that differ from what the flash holds.
    pub(super) fn write_changed_map_pages(&mut self, nand: &mut Nand) {
        for page in self.cache().dirty_pages() {
            // Collection of the map area may have written the page meanwhile.
            if self.cache().is_dirty(page) {
                let data = self.cache().clean(page).expect("what is dirty is in RAM");
                self.write_map_page(nand, page, data, None);
                self.collect_map(nand);
            }
        }
    }

    /// Moves all valid pages that are left on the map area's victim, if there is one.
    pub(super) fn complete_map_victim(&mut self, nand: &mut Nand) {
        while !self.finish_map_victim(nand) {
            self.move_map_page(nand);
        }
    }

    /// Pads and seals the map's program unit, if it holds a page.
    pub(super) fn pad_map_program(&mut self, nand: &mut Nand) {
        let area = &mut self.cache().area;
        if !area.frontier.is_partial() {
            return;
        }
        for _ in 0..area.frontier.free_units() {
            let place = area.frontier.append();
            area.block_table.note_padding(place, area.geometry.block_of(place));
        }
        let number = self.traffic.log.next() - 1;
        self.seal_map_program(nand, number);
    }

    /// Ends the batch of map pages that the collection of a victim has changed: it is written during the
    /// collection of the next victim.
    #[inline(always)]
    pub(super) fn end_map_batch(&mut self) {
        let steps = self.geometry.units_per_block() / self.geometry.units_per_program();
        if let Some(cache) = self.map.cache() {
            cache.end_victim(steps);
        }
    }

    /// Resumes the requests whose map pages are in RAM.
    #[inline(never)]
    pub(super) fn resume_requests_with_map_pages(&mut self, context: &mut Context<'_>) {
        while let Some(tag) = self.traffic.resumable.pop_front() {
            let Progress { started, received, .. } = self.traffic.progress[tag.0 as usize];
            let now = context.nand.now();
            match self.requests.get(tag).command {
                Command::Read { first, units } => {
                    self.delays.reads.parts.map_miss += now.since(started);
                    self.read_mapped(context.nand, tag, first, units);
                }
                Command::ReadSectors { first, count } => {
                    self.delays.reads.parts.map_miss += now.since(started);
                    let parts = self.requests.parts(first, count);
                    let units = parts.end - parts.first;
                    self.read_mapped(context.nand, tag, LogicalUnit(parts.first), units);
                }
                Command::Write { .. } | Command::WriteSectors { .. } => {
                    if let Some(received) = received {
                        if now > received {
                            self.delays.writes.parts.map_miss += now.since(received);
                        }
                        self.answer_write(context, tag, received.later(now));
                    } else {
                        self.note_durable(context);
                    }
                }
                Command::Trim { .. } => self.answer_other(context, tag, now),
                Command::Flush => unreachable!("a flush needs no map page"),
            }
        }
    }
}
