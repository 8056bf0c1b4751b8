//! Moving what is valid on a victim: from one of its program units to collection's stream.
//!
//! Which units are still valid is what chance has left, and cannot be foreseen. So the units that
//! one read senses are gone through without a branch for each, and the program units that they
//! fill are seen to afterwards.

use std::hint::select_unpredictable;
use std::ops::Range;

use crate::flash::BlockState;
use crate::mapping::Mapping;
use crate::media::Media;
use crate::resources::background::Operation;
use crate::ssd::Ssd;
use crate::units::{BlockIndex, Instant, PhysicalUnit};

/// How far ahead of its use collection asks for a map entry, in units.
const PREFETCH_UNITS: u32 = 24;

/// Units that are gone through together: all that is asked for each is known when compiling.
const TOGETHER: usize = 8;

/// The same where fewer are left. They lie on one page.
const FEW: usize = TOGETHER / 2;

/// The flash pages that something is moved from, gone through in their order.
struct Pages {
    latest: u32,
    count: u32,
}

impl Pages {
    /// None so far; no page has the largest number.
    const NONE: Pages = Pages { latest: u32::MAX, count: 0 };

    /// Notes whether something of `page` is moved.
    #[inline(always)]
    fn note(&mut self, page: u32, is_moved: bool) {
        self.count += u32::from(is_moved & (page != self.latest));
        self.latest = if is_moved { page } else { self.latest };
    }
}

/// Units that were moved by one read.
struct Moved {
    units: u32,
    /// The first of collection's programs that they went into, by its place in their order.
    sequence: u32,
}

impl<M: Mapping, D: Media> Ssd<M, D> {
    /// Moves what is valid in program unit `program` of `block`, a victim; returns how many units
    /// that was. Its reads are owed from `now` on.
    pub(crate) fn move_program_unit(
        &mut self,
        block: BlockIndex,
        program: u32,
        now: Instant,
    ) -> u32 {
        let units = self.geometry.units_per_program();
        let first = self.geometry.first_unit(block).0 + program * units;
        let die = self.geometry.die_of_program(block, program);
        let per_sense = self.geometry.units_per_sense_shift();
        let (end, mut next, mut moved) = (first + units, first, 0);
        while next < end {
            let sensed_until = ((next >> per_sense) + 1) << per_sense;
            let until = self.make_room_for_copies(next..sensed_until);
            let Moved { units, sequence } = self.move_sensed_together(next, until - next);
            if units > 0 {
                let programs = self.collector.copies.latest().wrapping_sub(sequence) as u16 + 1;
                self.counters.flash_reads_collection += 1;
                let read = Operation::Read { units: units as u16, programs, sequence };
                self.owe(die, read, now, now);
            }
            moved += units;
            next = until;
        }
        moved
    }

    /// Moves what is valid of `units` units from `first`, which one read senses.
    #[inline(always)]
    fn move_sensed_together(&mut self, first: u32, units: u32) -> Moved {
        let ahead = self.flash.held(PhysicalUnit(first + PREFETCH_UNITS), units);
        if let Ok(ahead) = <&[u32; TOGETHER]>::try_from(ahead) {
            ahead.iter().for_each(|&held| self.map.prefetch_held(held));
        } else {
            ahead.iter().for_each(|&held| self.map.prefetch_held(held));
        }
        self.flash.prefetch_held(PhysicalUnit(first + 3 * PREFETCH_UNITS));
        let joins_open = self.collector.stream.room() > 0;
        let sequence = self.collector.copies.latest().wrapping_add(u32::from(!joins_open));
        let end = first + units;
        let mut places = self.collector.stream.places_ahead(&self.geometry);
        self.flash.prefetch_held(PhysicalUnit(places.start + 2 * PREFETCH_UNITS));
        let (mut next, mut moved, mut pages) = (first, 0, Pages::NONE);
        loop {
            let count;
            (next, count) = self.relocate(next..end, places, &mut pages);
            self.take_places(count);
            moved += count;
            if next == end {
                break;
            }
            places = self.places_for(&mut next, end);
        }
        self.counters.flash_page_reads_collection += u64::from(pages.count);
        if joins_open && moved > 0 {
            self.collector.copies.await_another_read(sequence);
        }
        Moved { units: moved, sequence }
    }

    /// Moves what is valid of the units in `from` to the places `to`, as far as those go; returns
    /// the first unit that was not looked at, and how many were moved. Counts the pages of those.
    #[inline(always)]
    fn relocate(&mut self, from: Range<u32>, to: Range<u32>, pages: &mut Pages) -> (u32, u32) {
        let (map, media, held) = (&mut self.map, &mut self.media, self.flash.held_mut());
        let (mut next, mut place) = (from.start, to.start);
        let fits = |next, place, units| from.end - next >= units && to.end - place >= units;
        if self.geometry.units_per_page() >= FEW as u32 && next.is_multiple_of(FEW as u32) {
            while fits(next, place, TOGETHER as u32) {
                let (few, count) =
                    relocate_together::<TOGETHER, _, _>(map, media, held, next, place);
                pages.note(self.geometry.page_of(PhysicalUnit(next)), few > 0);
                let rest = PhysicalUnit(next + FEW as u32);
                pages.note(self.geometry.page_of(rest), count > few);
                place += count;
                next += TOGETHER as u32;
            }
            if fits(next, place, FEW as u32) {
                let (_, count) = relocate_together::<FEW, _, _>(map, media, held, next, place);
                pages.note(self.geometry.page_of(PhysicalUnit(next)), count > 0);
                place += count;
                next += FEW as u32;
            }
        }
        while next < from.end && place < to.end {
            let unit = held[next as usize];
            let is_moved = map.relocate_held(unit, PhysicalUnit(next), PhysicalUnit(place));
            if is_moved {
                held[place as usize] = unit;
                media.copy(PhysicalUnit(next), PhysicalUnit(place));
                place += 1;
            }
            pages.note(self.geometry.page_of(PhysicalUnit(next)), is_moved);
            next += 1;
        }
        (next, place - to.start)
    }

    /// The next places of collection's stream, where those in its open blocks are used up. If the
    /// pool has to give it a block, that is done once there is something to move: `next` goes on
    /// to that, or to `end`.
    #[inline(never)]
    fn places_for(&mut self, next: &mut u32, end: u32) -> Range<u32> {
        let places = self.collector.stream.places_ahead(&self.geometry);
        if !places.is_empty() {
            return places;
        }
        let is_valid = |&physical: &u32| self.is_valid(PhysicalUnit(physical));
        *next = (*next..end).find(is_valid).unwrap_or(end);
        if *next < end {
            self.begin_collection_program();
        }
        self.collector.stream.places_ahead(&self.geometry)
    }

    /// Notes that the next `units` places of collection's stream are taken, and sees to the
    /// program units that are full with that.
    #[inline(always)]
    fn take_places(&mut self, units: u32) {
        let mut left = units;
        while left > 0 {
            if self.collector.stream.room() == 0 {
                self.begin_collection_program();
            }
            let count = left.min(self.collector.stream.room());
            self.collector.stream.append_run(count);
            left -= count;
            if self.collector.stream.room() == 0 {
                self.finish_collection_program(0);
            }
        }
    }

    /// Sees to it that what is valid of the units in `sensed` can be copied, at least of the first of
    /// them; returns before which. Not while they are: programs that wait for their read cannot be
    /// carried out.
    #[inline(always)]
    fn make_room_for_copies(&mut self, sensed: Range<u32>) -> u32 {
        let is_short = self.free.is_empty()
            && !self.collector.stream.can_take(sensed.end - sensed.start)
            && self.collector.copies.emptied() > 0;
        if is_short { self.make_room_with_emptied(sensed) } else { sensed.end }
    }

    /// The same where only the blocks that were emptied last are left to copy to, which wait for what
    /// replaces them to be durable. What is filled for that is filled with copies: empty units
    /// would be as many as what the next victim yields, and collection would never end.
    #[inline(never)]
    fn make_room_with_emptied(&mut self, sensed: Range<u32>) -> u32 {
        if self.collector.stream.room() == 0 {
            self.erase_oldest_emptied();
            return sensed.end;
        }
        let is_valid = |physical: &u32| self.is_valid(PhysicalUnit(*physical));
        let beyond = self.collector.stream.room() as usize;
        sensed.clone().filter(is_valid).nth(beyond).unwrap_or(sensed.end)
    }

    /// Whether what was written to `physical` is there still.
    fn is_valid(&self, physical: PhysicalUnit) -> bool {
        self.flash.logical_at(physical).is_some_and(|unit| self.map.lies_at(unit, physical))
    }

    #[inline(always)]
    fn begin_collection_program(&mut self) {
        let stream = &mut self.collector.stream;
        if let Some(block) = stream.begin_program(&self.geometry, &mut self.free) {
            self.open_for_collection(block);
        }
        self.collector.copies.begin();
    }

    #[inline(never)]
    fn open_for_collection(&mut self, block: BlockIndex) {
        let units = self.geometry.units_per_block();
        self.flash.open(block, BlockState::OpenForCollection, units);
        self.note_block_begun(block, false);
    }

    /// Collection's program unit is full: it goes to its die when its data was read.
    #[inline(always)]
    fn finish_collection_program(&mut self, padding: u32) {
        let filled = self.collector.stream.finish_program(&self.geometry);
        let units = self.geometry.units_per_program();
        let die = self.geometry.die_of_program(filled.block, filled.index);
        self.counters.program_units_collection += u64::from(units - padding);
        self.counters.program_units_padding += u64::from(padding);
        let number = self.next_number();
        self.collector.copies.fill(filled.first, die, number, units - padding);
        if filled.closes {
            self.flash.close(filled.block, BlockState::Closed);
        }
    }

    /// Fills what is left of collection's program unit with nothing.
    pub(crate) fn pad_collection_program(&mut self) {
        let padding = self.collector.stream.room();
        for _ in 0..padding {
            let physical = self.collector.stream.append();
            self.flash.note_padding(physical, self.geometry.block_of(physical));
        }
        self.finish_collection_program(padding);
    }

    /// Whether `unit` was copied into a program unit that is not finished.
    pub(crate) fn is_being_copied(&self, unit: PhysicalUnit) -> bool {
        self.collector.stream.holds(unit)
    }

    /// Whether copies wait in a program unit that is not full.
    pub(crate) fn is_copying(&self) -> bool {
        self.collector.stream.is_partial()
    }
}

/// Moves what is valid of `UNITS` units from `from` to the places from `to` on, of which there are as
/// many; returns how many of the first [`FEW`] and how many of all that was.
#[inline(always)]
fn relocate_together<const UNITS: usize, M: Mapping, D: Media>(
    map: &mut M,
    media: &mut D,
    held: &mut [u32],
    from: u32,
    to: u32,
) -> (u32, u32) {
    let units: [u32; UNITS] = *held[from as usize..].first_chunk().expect("they lie there");
    let places: &mut [u32; UNITS] =
        held[to as usize..].first_chunk_mut().expect("they have places");
    let (mut few, mut count) = (0, 0);
    for (index, unit) in units.into_iter().enumerate() {
        if index == FEW {
            few = count;
        }
        let (from, place) = (PhysicalUnit(from + index as u32), PhysicalUnit(to + count));
        // A place is noted first and kept if the unit turns out to be valid.
        places[count as usize % UNITS] = unit;
        let is_moved = map.relocate_held(unit, from, place);
        if is_moved {
            media.copy(from, place);
        }
        count += u32::from(is_moved);
    }
    // How many they are is chance, and no branch: where all were kept, the last stays as it is.
    let last = (count as usize).min(UNITS - 1);
    places[last] = select_unpredictable(count < UNITS as u32, 0, places[last]);
    (few, count)
}
