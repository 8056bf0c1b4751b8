//! Write frontiers: the open blocks that are filled, one program unit after the other.
//!
//! A frontier fills one program unit after the other. With superblocks it has one open block,
//! striped over all dies; with single blocks it has one open block per group of dies and visits
//! the groups in turn, so either way consecutive program units go to different dies.

use std::ops::Range;

use crate::free_block_pool::FreeBlockPool;
use crate::geometry::Geometry;
use crate::policy::Allocation;
use crate::snapshot::{Decoder, Encoder, SnapshotError, damaged};
use crate::units::{BlockIndex, PhysicalUnit};

/// A program unit that a write frontier has filled.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FilledProgram {
    pub(crate) block: BlockIndex,
    pub(crate) first: PhysicalUnit,
    /// Position in the block's write order, in program units.
    pub(crate) index: u32,
    /// Number of units in the program unit: all, or fewer in SLC mode.
    pub(crate) units: u32,
    /// True if this program unit is the last of its block.
    pub(crate) closes: bool,
}

#[derive(Clone, Copy, Debug)]
struct OpenBlock {
    block: BlockIndex,
    /// Number of program units of the block that were filled.
    programs: u32,
    /// Number of program units that the block can take: all, or fewer in SLC mode.
    programs_most: u32,
    /// True if the block is in SLC mode, so that it holds less than others.
    is_limited: bool,
}

/// Moves the fill position of an open block past program units that are already used, and forgets these.
#[cold]
fn skip_used(used_ahead: &mut Vec<u32>, open: &mut OpenBlock, programs_per_block: u32) {
    let first = open.block.0 * programs_per_block;
    while let Ok(place) = used_ahead.binary_search(&(first + open.programs)) {
        used_ahead.remove(place);
        open.programs += 1;
    }
}

/// A program unit that waits for more data while its frontier fills that of another group of dies.
#[derive(Clone, Copy, Debug, Default)]
struct Waiting {
    cursor: u32,
    program_start: u32,
    program_end: u32,
}

impl Waiting {
    fn free_units(&self) -> u32 {
        self.program_end - self.cursor
    }

    fn filled_units(&self) -> u32 {
        self.cursor - self.program_start
    }
}

/// A write frontier: the open blocks of one write stream.
#[derive(Clone, Debug)]
pub(crate) struct WriteFrontier {
    open: Vec<Option<OpenBlock>>,
    /// Group of dies of the program unit being filled, or of the one that was filled last.
    group: u32,
    /// With static allocation, the program unit being filled of each group of dies but `group`. Empty with dynamic
    /// allocation, where the groups take turns.
    waiting: Vec<Waiting>,
    cursor: u32,
    /// First unit of the program unit being filled.
    program_start: u32,
    program_end: u32,
    programs_per_block: u32,
    units_per_program: u32,
    /// Program units of the open blocks that are used although others before them are not, as a power cut leaves
    /// them; ordered by their numbers on the drive.
    used_ahead: Vec<u32>,
}

impl WriteFrontier {
    pub(crate) fn new(geometry: &Geometry) -> Self {
        WriteFrontier {
            open: vec![None; geometry.groups() as usize],
            group: geometry.groups() - 1,
            waiting: Vec::new(),
            cursor: 0,
            program_start: 0,
            program_end: 0,
            programs_per_block: geometry.units_per_block() / geometry.units_per_program(),
            units_per_program: geometry.units_per_program(),
            used_ahead: Vec::new(),
        }
    }

    /// Returns this frontier, which is new, with `allocation`. If that is static, the caller selects the group of dies.
    pub(crate) fn with_allocation(mut self, allocation: Allocation) -> Self {
        if allocation == Allocation::Static {
            self.waiting = vec![Waiting::default(); self.open.len()];
        }
        self
    }

    /// Returns a new frontier with the same allocation.
    pub(crate) fn empty_like(&self, geometry: &Geometry) -> Self {
        let waiting = vec![Waiting::default(); self.waiting.len()];
        WriteFrontier { waiting, ..WriteFrontier::new(geometry) }
    }

    /// Returns true if the caller selects the group of dies.
    #[inline(always)]
    pub(crate) fn is_static(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Returns the group of dies of the program unit being filled, or of the one that was filled last.
    #[inline(always)]
    pub(crate) fn group(&self) -> u32 {
        self.group
    }

    /// With static allocation: makes the program unit of `group` the one being filled.
    #[inline(always)]
    pub(crate) fn select_group(&mut self, group: u32) {
        let WriteFrontier { cursor, program_start, program_end, .. } = *self;
        self.waiting[self.group as usize] = Waiting { cursor, program_start, program_end };
        let next = std::mem::take(&mut self.waiting[group as usize]);
        (self.cursor, self.program_start, self.program_end) =
            (next.cursor, next.program_start, next.program_end);
        self.group = group;
    }

    /// Returns a group of dies other than the selected one whose program unit has free units.
    pub(crate) fn begun_group(&self) -> Option<u32> {
        self.group_of_waiting(|it| it.free_units() > 0)
    }

    /// Returns a group of dies other than the selected one whose program unit is not finished and holds units. It may
    /// be full, and held back for the rest of its last unit.
    pub(crate) fn partial_group(&self) -> Option<u32> {
        self.group_of_waiting(|it| it.filled_units() > 0)
    }

    fn group_of_waiting(&self, fits: impl Fn(&Waiting) -> bool) -> Option<u32> {
        self.waiting.iter().position(fits).map(|group| group as u32)
    }

    /// Returns true if `group` has an open block, which has room.
    pub(crate) fn has_open_block(&self, group: u32) -> bool {
        self.open[group as usize].is_some()
    }

    /// Iterates over the open blocks, each with its number of filled program units.
    pub(crate) fn open_blocks(&self) -> impl Iterator<Item = (BlockIndex, u32)> + '_ {
        self.open.iter().flatten().map(|open| (open.block, open.programs))
    }

    /// Makes `block`, with `programs` program units filled, the open block of `group`, in place of any other.
    pub(crate) fn set_open_block(&mut self, group: u32, block: BlockIndex, programs: u32) {
        assert!(programs < self.programs_per_block, "an open block has room");
        self.open[group as usize] = Some(self.open_block(block, programs));
    }

    pub(crate) fn save(&self, to: &mut Encoder<'_>) -> Result<(), SnapshotError> {
        let WriteFrontier { open, group, used_ahead, .. } = self;
        assert!(!self.is_begun() && used_ahead.is_empty(), "the drive was shut down");
        to.word(*group)?;
        for open in open {
            let (block, programs) = open.map_or((u32::MAX, 0), |it| (it.block.0, it.programs));
            to.word(block)?;
            to.word(programs)?;
        }
        Ok(())
    }

    /// Restores a saved frontier into a new one. The caller checks that the blocks are open for this stream.
    pub(crate) fn restore(
        &mut self,
        from: &mut Decoder<'_>,
        geometry: &Geometry,
    ) -> Result<(), SnapshotError> {
        self.group = from.at_most(geometry.groups() - 1, "a stream's group of dies")?;
        for (group, slot) in self.open.iter_mut().enumerate() {
            let (block, programs) = (BlockIndex(from.word()?), from.word()?);
            if block.0 == u32::MAX {
                continue;
            }
            let is_right = block.0 < geometry.blocks()
                && geometry.group_of(block) as usize == group
                && programs < self.programs_per_block;
            if !is_right {
                return damaged("a stream writes where it cannot");
            }
            let programs_most = self.programs_per_block;
            *slot = Some(OpenBlock { block, programs, programs_most, is_limited: false });
        }
        Ok(())
    }

    /// Limits restored blocks for which `is_limited` is true to `programs` program units. The caller checks that
    /// these blocks have room.
    pub(crate) fn limit_blocks(&mut self, is_limited: impl Fn(BlockIndex) -> bool, programs: u32) {
        for open in self.open.iter_mut().flatten() {
            if is_limited(open.block) {
                (open.programs_most, open.is_limited) = (programs, true);
            }
        }
    }

    /// Returns the number of units until the program unit being filled is full; zero if none has been begun.
    #[inline(always)]
    pub(crate) fn free_units(&self) -> u32 {
        self.program_end - self.cursor
    }

    /// Returns true if units were appended to a program unit that is not finished.
    pub(crate) fn is_partial(&self) -> bool {
        self.cursor > self.program_start
    }

    /// Returns true if a program unit of any group of dies is begun and not finished.
    pub(crate) fn is_begun(&self) -> bool {
        self.free_units() > 0 || self.begun_group().is_some()
    }

    /// Returns true if there is room for `units` more units, at most a program unit, without a block from the pool.
    pub(crate) fn can_take(&self, units: u32) -> bool {
        self.free_units() >= units
            || self.open.iter().zip(0..).any(|(slot, group)| {
                let is_waiting =
                    self.waiting.get(group as usize).is_some_and(|it| it.free_units() > 0);
                let being_filled = is_waiting || group == self.group && self.free_units() > 0;
                slot.is_some_and(|open| {
                    open.programs + self.used_ahead_in(&open) + u32::from(being_filled)
                        < self.programs_per_block
                })
            })
    }

    /// Begins program unit `index` of `block`, which the caller has opened.
    pub(crate) fn begin_program_in(&mut self, geometry: &Geometry, block: BlockIndex, index: u32) {
        assert!(self.free_units() == 0, "one program unit is filled at a time");
        self.group = geometry.group_of(block);
        self.open[self.group as usize] = Some(self.open_block(block, index));
        self.cursor = geometry.first_unit(block).0 + index * self.units_per_program;
        self.program_start = self.cursor;
        self.program_end = self.cursor + self.units_per_program;
    }

    /// Returns the place of the next unit.
    ///
    /// # Panics
    /// Panics if no program unit has been begun; see [`WriteFrontier::begin_program`].
    #[inline(always)]
    pub(crate) fn append(&mut self) -> PhysicalUnit {
        debug_assert!(self.free_units() > 0, "a program unit is begun before it is filled");
        let unit = PhysicalUnit(self.cursor);
        self.cursor += 1;
        unit
    }

    /// Appends `units` units, for which the program unit has room, and returns the place of the first.
    #[inline(always)]
    pub(crate) fn append_run(&mut self, units: u32) -> PhysicalUnit {
        assert!(units <= self.free_units(), "a program unit is begun before it is filled");
        let first = PhysicalUnit(self.cursor);
        self.cursor += units;
        first
    }

    /// Returns the places of the next units that are appended, as far as they are consecutive and need no block from
    /// the pool: to the end of a superblock; to the end of the program unit with single blocks, or if program units
    /// further on are already used.
    #[inline(always)]
    pub(crate) fn places_ahead(&self, geometry: &Geometry) -> Range<u32> {
        let is_begun = self.free_units() > 0;
        let group = if is_begun { self.group } else { self.next_group() };
        let Some(open) = &self.open[group as usize] else {
            return 0..0;
        };
        let first = geometry.first_unit(open.block).0;
        let next = first + open.programs * self.units_per_program;
        let start = if is_begun { self.cursor } else { next };
        if self.open.len() == 1 && self.used_ahead.is_empty() {
            start..first + open.programs_most * self.units_per_program
        } else {
            start..next + self.units_per_program
        }
    }

    /// Returns true if `unit` was appended to the program unit being filled, or just filled and not yet finished.
    #[inline(always)]
    pub(crate) fn holds(&self, unit: PhysicalUnit) -> bool {
        let is_in = |cursor, start| unit.0 < cursor && unit.0 >= start;
        is_in(self.cursor, self.program_start)
            || self.waiting.iter().any(|it| is_in(it.cursor, it.program_start))
    }

    /// Returns true if `unit` was appended last.
    pub(crate) fn is_latest(&self, unit: PhysicalUnit) -> bool {
        unit.0 + 1 == self.cursor
    }

    /// Returns true if there is room for `units` more units in the selected group, without a block from the pool.
    pub(crate) fn can_take_in_group(&self, units: u32) -> bool {
        let begun = u32::from(self.free_units() > 0);
        let has_more = self.open[self.group as usize].is_some_and(|open| {
            open.programs + self.used_ahead_in(&open) + begun < self.programs_per_block
        });
        self.free_units() >= units || has_more
    }

    /// Returns the first unit of the program unit being filled.
    pub(crate) fn program_start(&self) -> PhysicalUnit {
        PhysicalUnit(self.program_start)
    }

    /// Limits the program unit that was just begun to `units` units.
    pub(crate) fn shorten_program(&mut self, units: u32) {
        assert!(self.cursor == self.program_start, "it was just begun");
        self.program_end = self.program_start + units;
    }

    /// Limits the block that was just begun to `programs` program units.
    pub(crate) fn limit_block(&mut self, programs: u32) {
        let open = self.open[self.group as usize].as_mut().expect("a block was begun");
        (open.programs_most, open.is_limited) = (programs, true);
    }

    /// Returns the program unit that was just filled, and its block.
    #[inline(always)]
    pub(crate) fn finish_program(&mut self, geometry: &Geometry) -> FilledProgram {
        assert!(self.free_units() == 0, "a program unit is filled before it is programmed");
        let slot = &mut self.open[self.group as usize];
        let open = slot.as_mut().expect("the filled program unit belongs to an open block");
        let index = open.programs;
        let block = open.block;
        open.programs += 1;
        if !self.used_ahead.is_empty() {
            skip_used(&mut self.used_ahead, open, self.programs_per_block);
        }
        let closes = open.programs == open.programs_most;
        if closes {
            *slot = None;
        }
        let first = geometry.first_unit(block).0 + index * self.units_per_program;
        assert!(first == self.program_start, "streams write in order");
        let units = self.cursor - first;
        (self.program_start, self.cursor, self.program_end) = (0, 0, 0);
        FilledProgram { block, first: PhysicalUnit(first), index, units, closes }
    }

    /// Makes `block` the open block of `group`, which has none, to be filled from its program unit `programs` on.
    pub(crate) fn add_open_block(&mut self, group: u32, block: BlockIndex, programs: u32) {
        assert!(programs < self.programs_per_block, "the block has room");
        let open = self.open_block(block, programs);
        let slot = &mut self.open[group as usize];
        assert!(slot.is_none(), "a stream fills one block of a group at a time");
        *slot = Some(open);
    }

    /// Makes `block` the open block of `group`, to fill its program units that are not `used`. At least one is not.
    pub(crate) fn fill_gaps(&mut self, group: u32, block: BlockIndex, used: &[u32]) {
        let first = (0..).zip(used).take_while(|&(index, &used)| used == index).count();
        self.add_open_block(group, block, first as u32);
        let number = |&index: &u32| block.0 * self.programs_per_block + index;
        self.used_ahead.extend(used[first..].iter().map(number));
        self.used_ahead.sort_unstable();
    }

    /// Returns true if program units of the open blocks are used beyond the fill position.
    pub(crate) fn has_gaps(&self) -> bool {
        !self.used_ahead.is_empty()
    }

    /// Gives up the unused program units of the open blocks that lie before a used one. Adds the first unit of each
    /// of these program units to `given_up`, and the blocks that are full as a result to `full`. Call it between two
    /// program units.
    pub(crate) fn give_up_gaps(
        &mut self,
        given_up: &mut Vec<PhysicalUnit>,
        full: &mut Vec<BlockIndex>,
    ) {
        if self.used_ahead.is_empty() {
            return;
        }
        assert!(!self.is_begun(), "no program unit is being filled");
        for slot in &mut self.open {
            let Some(open) = slot else { continue };
            let first = open.block.0 * self.programs_per_block;
            let numbers = first + open.programs..first + self.programs_per_block;
            let used: Vec<u32> =
                self.used_ahead.extract_if(.., |it| numbers.contains(it)).collect();
            let Some(&last) = used.last() else { continue };
            let gaps = (numbers.start..last).filter(|it| used.binary_search(it).is_err());
            given_up.extend(gaps.map(|it| PhysicalUnit(it * self.units_per_program)));
            open.programs = last + 1 - first;
            if open.programs == self.programs_per_block {
                full.push(open.block);
                *slot = None;
            }
        }
    }

    /// Hands the open blocks to the frontier `to`, and returns them. Call it between two program units.
    pub(crate) fn give_up_blocks_to(&mut self, to: &mut WriteFrontier) -> Vec<BlockIndex> {
        let blocks = self.give_up_blocks();
        for &(group, block, programs) in &blocks {
            to.add_open_block(group, block, programs);
        }
        to.used_ahead.append(&mut self.used_ahead);
        to.used_ahead.sort_unstable();
        blocks.into_iter().map(|it| it.1).collect()
    }

    /// Gives up the open blocks. Returns the group of dies, the block and its filled program units for each. Call it
    /// between two program units.
    pub(crate) fn give_up_blocks(&mut self) -> Vec<(u32, BlockIndex, u32)> {
        assert!(!self.is_begun(), "no program unit is being filled");
        let open = self.open.iter_mut().zip(0..);
        open.filter_map(|(slot, group)| slot.take().map(|it| (group, it.block, it.programs)))
            .collect()
    }

    /// Returns the number of program units of the open block that are used beyond the fill position.
    fn used_ahead_in(&self, open: &OpenBlock) -> u32 {
        let first = open.block.0 * self.programs_per_block;
        let numbers = first..first + self.programs_per_block;
        self.used_ahead.iter().filter(|it| numbers.contains(it)).count() as u32
    }

    /// Returns the number of units for which the open blocks have room, without those in SLC mode.
    pub(crate) fn free_units_in_blocks(&self) -> u32 {
        let programs = |open: &OpenBlock| match open.is_limited {
            true => 0,
            false => self.programs_per_block - open.programs - self.used_ahead_in(open),
        };
        let is_whole = |group: u32| self.open[group as usize].is_some_and(|open| !open.is_limited);
        let is_begun = self.cursor > 0 && is_whole(self.group);
        let mut begun = if is_begun { self.units_per_program - self.free_units() } else { 0 };
        for (waiting, group) in self.waiting.iter().zip(0..) {
            if waiting.cursor > 0 && is_whole(group) {
                begun += self.units_per_program - waiting.free_units();
            }
        }
        let programs: u32 = self.open.iter().flatten().map(programs).sum();
        programs * self.units_per_program - begun
    }

    /// Returns an open block of which `programs` program units are filled and all are used.
    fn open_block(&self, block: BlockIndex, programs: u32) -> OpenBlock {
        let programs_most = self.programs_per_block;
        OpenBlock { block, programs, programs_most, is_limited: false }
    }

    /// Returns the group of dies of the next program unit: the next in turn, or the selected one.
    #[inline(always)]
    fn next_group(&self) -> u32 {
        if self.is_static() {
            return self.group;
        }
        let next = self.group + 1;
        if next == self.open.len() as u32 { 0 } else { next }
    }

    /// Returns true if the next program unit needs a block from the pool.
    #[inline(always)]
    pub(crate) fn needs_block(&self) -> bool {
        self.open[self.next_group() as usize].is_none()
    }

    /// Begins the next program unit, on the next group of dies that has room; with static allocation, on the selected
    /// group if it has room. Returns the block that was taken from the pool, or `None` if an open block had room.
    ///
    /// # Panics
    /// Panics if no open block has room and the pool is empty: garbage collection must not let this happen.
    #[inline(always)]
    pub(crate) fn begin_program(
        &mut self,
        geometry: &Geometry,
        free: &mut FreeBlockPool,
    ) -> Option<BlockIndex> {
        assert!(self.free_units() == 0, "one program unit is filled at a time");
        let next = self.next_group();
        if let Some(open) = self.open[next as usize] {
            self.group = next;
            self.begin_program_of(geometry, open);
            return None;
        }
        self.begin_program_in_new_block(geometry, free)
    }

    #[inline(always)]
    fn begin_program_of(&mut self, geometry: &Geometry, open: OpenBlock) {
        let first = geometry.first_unit(open.block).0;
        self.cursor = first + open.programs * self.units_per_program;
        self.program_start = self.cursor;
        self.program_end = self.cursor + self.units_per_program;
    }

    #[inline(never)]
    fn begin_program_in_new_block(
        &mut self,
        geometry: &Geometry,
        free: &mut FreeBlockPool,
    ) -> Option<BlockIndex> {
        let groups = self.open.len() as u32;
        let first = self.next_group();
        for group in (first..groups).chain(0..first) {
            self.group = group;
            let slot = &mut self.open[self.group as usize];
            let mut opened = None;
            if slot.is_none() {
                opened = free.take(self.group);
                let programs_most = self.programs_per_block;
                let (programs, is_limited) = (0, false);
                *slot =
                    opened.map(|block| OpenBlock { block, programs, programs_most, is_limited });
            }
            if let Some(open) = *slot {
                self.begin_program_of(geometry, open);
                return opened;
            }
        }
        panic!("no free block is left to write to");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::geometry::GeometryParameters;
    use crate::units::KIB;

    /// Returns a geometry of two dies, with blocks of eight program units of one unit each.
    fn geometry() -> Geometry {
        let parameters = GeometryParameters {
            channels: 1,
            dies: 2,
            planes_per_die: 1,
            multi_plane_read: true,
            pages_per_shot: 1,
            pages_per_block: 4,
            page_size: KIB * 4,
            unit_size: KIB * 4,
            dies_per_collection_unit: 2,
            collection_units: 4,
            metadata_collection_units: 0,
            reserve_collection_units: 0,
            logical_units: 8,
        };
        Geometry::new(parameters).expect("a sound geometry")
    }

    /// Fills the next program unit. Returns its index in its block, and true if that block is full.
    fn fill(frontier: &mut WriteFrontier, geometry: &Geometry) -> (u32, bool) {
        let mut pool = FreeBlockPool::new(geometry);
        assert_eq!(frontier.begin_program(geometry, &mut pool), None, "the block has room");
        let room = frontier.free_units();
        if frontier.has_gaps() {
            assert_eq!(frontier.places_ahead(geometry).len() as u32, room);
        }
        frontier.append_run(room);
        let filled = frontier.finish_program(geometry);
        (filled.index, filled.closes)
    }

    #[test]
    fn a_stream_fills_what_is_erased_of_a_block_and_nothing_else() {
        let geometry = geometry();
        let mut frontier = WriteFrontier::new(&geometry);
        frontier.fill_gaps(0, BlockIndex(2), &[0, 2, 4, 5, 7]);
        assert!(frontier.has_gaps() && frontier.can_take(1));
        for (index, left) in [(1, 2), (3, 1)] {
            assert_eq!(fill(&mut frontier, &geometry), (index, false));
            assert_eq!(frontier.free_units_in_blocks(), left);
        }
        assert_eq!(fill(&mut frontier, &geometry), (6, true));
        assert!(
            !frontier.has_gaps() && !frontier.can_take(1) && frontier.free_units_in_blocks() == 0
        );
    }

    #[test]
    fn gaps_that_are_given_up_are_not_filled_and_what_lies_behind_them_is() {
        let geometry = geometry();
        let give_up = |used: &[u32], filled: usize| {
            let (mut gaps, mut full) = (Vec::new(), Vec::new());
            let mut frontier = WriteFrontier::new(&geometry);
            frontier.fill_gaps(0, BlockIndex(1), used);
            (0..filled).for_each(|_| assert!(!fill(&mut frontier, &geometry).1));
            frontier.give_up_gaps(&mut gaps, &mut full);
            assert!(!frontier.has_gaps());
            let gaps: Vec<u32> = gaps.iter().map(|it| it.0 - 8).collect();
            let first = frontier.can_take(1).then(|| fill(&mut frontier, &geometry).0);
            (gaps, full, first)
        };
        assert_eq!(give_up(&[0, 2, 5], 0), (vec![1, 3, 4], vec![], Some(6)));
        assert_eq!(give_up(&[0, 2, 5], 1), (vec![3, 4], vec![], Some(6)));
        assert_eq!(give_up(&[0, 2, 7], 2), (vec![4, 5, 6], vec![BlockIndex(1)], None));
        assert_eq!(give_up(&[0, 1], 0), (vec![], vec![], Some(2)));
    }

    #[test]
    fn who_takes_over_a_block_takes_over_what_is_used_of_it() {
        let geometry = geometry();
        let (mut from, mut to) = (WriteFrontier::new(&geometry), WriteFrontier::new(&geometry));
        from.fill_gaps(0, BlockIndex(3), &[1, 2]);
        assert_eq!(from.give_up_blocks_to(&mut to), [BlockIndex(3)]);
        assert!(!from.has_gaps() && !from.can_take(1));
        assert_eq!([fill(&mut to, &geometry).0, fill(&mut to, &geometry).0], [0, 3]);
    }

    #[test]
    fn with_static_allocation_each_group_keeps_its_program_unit() {
        let mut parameters = geometry().parameters().clone();
        parameters.dies_per_collection_unit = 1;
        parameters.page_size = KIB * 8;
        let geometry = Geometry::new(parameters).expect("a sound geometry");
        let mut pool = FreeBlockPool::new(&geometry);
        pool.put(0, BlockIndex(0), 0);
        pool.put(1, BlockIndex(geometry.blocks_per_group()), 0);
        let mut frontier = WriteFrontier::new(&geometry).with_allocation(Allocation::Static);
        frontier.select_group(0);
        assert!(frontier.begin_program(&geometry, &mut pool).is_some());
        let first = frontier.append();
        frontier.select_group(1);
        assert_eq!((frontier.free_units(), frontier.begun_group()), (0, Some(0)));
        assert!(frontier.begin_program(&geometry, &mut pool).is_some());
        assert_eq!(geometry.group_of(geometry.block_of(frontier.append())), 1);
        assert!(frontier.holds(first) && !frontier.is_latest(first));
        // Full, and held back for the rest of its last unit: it has no room, and is not finished.
        frontier.select_group(0);
        assert_eq!(frontier.append().0, first.0 + 1);
        frontier.select_group(1);
        assert_eq!((frontier.begun_group(), frontier.partial_group()), (None, Some(0)));
        frontier.select_group(0);
        frontier.finish_program(&geometry);
        frontier.select_group(1);
        assert_eq!(frontier.partial_group(), None);
    }
}
