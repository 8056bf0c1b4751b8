//! The block table and the reverse map (P2L): the logical unit that each physical unit holds, and the valid units,
//! state and erase count of each block.

use std::ops::Range;
use std::sync::atomic::AtomicU32;

use crate::counters::Wear;
use crate::geometry::Geometry;
use crate::lazy_table::LazyTable;
use crate::media::OobArea;
use crate::policy::VictimPolicy;
use crate::prefetch::prefetch;
use crate::snapshot::{Decoder, Encoder, SnapshotError, damaged};
use crate::units::{BlockIndex, LogicalUnit, PhysicalUnit};
use crate::victim::VictimQueue;

/// Most blocks whose state takes at most 128 KiB: 8 bytes per block in the block table, and 8 in the victim lists.
const CPU_CACHED_BLOCKS_MAX: usize = 8192;

/// Flag in a saved block's state: its victims are chosen apart from others.
const SEPARATE: u32 = 1 << 16;

/// Use of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BlockState {
    /// Erased, or its erase is under way.
    Free,
    /// Open block of a host write stream. Data that the host wrote may still be in the write buffer only.
    OpenForHost,
    /// Open block that garbage collection copies to.
    OpenForCollection,
    /// Full, but its last program units may still be in the write buffer.
    Closing,
    /// Full and programmed.
    Closed,
    /// Being collected, or waiting for its erase after that.
    Victim,
    /// Gone bad, and not used again.
    Retired,
}

#[derive(Clone, Copy, Debug)]
struct Block {
    /// Number of valid units. It starts at the capacity of the block when the block is opened, and is only counted
    /// down: writing does not change it. It is the true number only once the block is closed.
    valid: u32,
    state: BlockState,
    /// True if this block is chosen as a victim apart from ordinary blocks.
    is_separate: bool,
}

/// Latest use of a block, for observers outside the translation layer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Opened {
    /// Number of the block in the order in which blocks were opened, from 1; 0 if the block was not opened since the
    /// drive was made or restored.
    pub(crate) number: u32,
    /// True if garbage collection opened the block.
    pub(crate) by_collection: bool,
}

/// Block table, reverse map and victim queues of a drive.
#[derive(Clone, Debug)]
pub(crate) struct BlockTable {
    /// Per physical unit, the logical unit plus one; zero if there is none. The spare area of the flash page holds
    /// the same.
    reverse: LazyTable,
    blocks: Vec<Block>,
    erases: Vec<u32>,
    opened: Vec<Opened>,
    /// Number of blocks that were opened.
    opened_blocks: u32,
    units_per_block: u32,
    victims: VictimQueue,
    /// Queue of the blocks whose victims are chosen apart; `None` if the drive has no such blocks.
    separate_victims: Option<Box<VictimQueue>>,
    /// Number of victims taken in a row that were fully valid, so that collecting them gains nothing.
    fruitless: u32,
    /// True if the policy takes a fully valid victim only if there is no other.
    seeks_gain: bool,
}

impl BlockTable {
    pub(crate) fn new(geometry: &Geometry, policy: VictimPolicy, seed: u64) -> Self {
        let blocks = geometry.blocks() as usize;
        let units = geometry.units_per_block();
        BlockTable {
            reverse: LazyTable::zeroed(geometry.physical_units() as usize),
            blocks: vec![Block { valid: 0, state: BlockState::Free, is_separate: false }; blocks],
            erases: vec![0; blocks],
            opened: vec![Opened::default(); blocks],
            opened_blocks: 0,
            units_per_block: units,
            victims: VictimQueue::new(policy, seed, geometry.blocks(), units),
            separate_victims: None,
            fruitless: 0,
            seeks_gain: policy.seeks_gain(),
        }
    }

    /// Makes a `share` of the victims, from 0 to 1, the blocks that were closed longest ago, whatever they hold.
    pub(crate) fn with_rotation(mut self, share: f64) -> Self {
        self.seeks_gain &= share == 0.0;
        self.victims = self.victims.with_rotation(share, self.blocks.len() as u32);
        self
    }

    /// Gives the blocks marked by [`BlockTable::mark_separate`] a victim queue of their own.
    pub(crate) fn with_separate_victims(mut self) -> Self {
        self.separate_victims = Some(Box::new(self.victims.clone()));
        self
    }

    /// Marks `block` as one whose victims are chosen apart.
    pub(crate) fn mark_separate(&mut self, block: BlockIndex) {
        self.blocks[block.0 as usize].is_separate = true;
    }

    fn victims_of(&mut self, are_separate: bool) -> &mut VictimQueue {
        if are_separate {
            self.separate_victims.as_mut().expect("some victims are separate")
        } else {
            &mut self.victims
        }
    }

    pub(crate) fn victims(&self) -> &VictimQueue {
        &self.victims
    }

    /// Returns the number of blocks that can be collected.
    pub(crate) fn closed(&self) -> u32 {
        self.victims.len() + self.separate_victims.as_ref().map_or(0, |it| it.len())
    }

    #[inline(always)]
    pub(crate) fn state(&self, block: BlockIndex) -> BlockState {
        self.blocks[block.0 as usize].state
    }

    #[inline(always)]
    pub(crate) fn valid(&self, block: BlockIndex) -> u32 {
        self.blocks[block.0 as usize].valid
    }

    pub(crate) fn open(&mut self, block: BlockIndex, state: BlockState, units: u32) {
        let entry = &mut self.blocks[block.0 as usize];
        assert!(entry.state == BlockState::Free, "only a free block is opened");
        *entry = Block { valid: units, state, is_separate: false };
        self.opened_blocks = self.opened_blocks.saturating_add(1);
        let by_collection = state == BlockState::OpenForCollection;
        self.opened[block.0 as usize] = Opened { number: self.opened_blocks, by_collection };
    }

    /// Returns the latest use of a block.
    pub(crate) fn opened(&self, block: BlockIndex) -> Opened {
        self.opened[block.0 as usize]
    }

    /// Returns the number of blocks that were opened.
    pub(crate) fn opened_blocks(&self) -> u32 {
        self.opened_blocks
    }

    /// Sets state and valid units of a block whose history is unknown.
    pub(crate) fn set_block(&mut self, block: BlockIndex, state: BlockState, valid: u32) {
        self.blocks[block.0 as usize] = Block { valid, state, is_separate: false };
    }

    /// Sets the number of times that a block was erased.
    pub(crate) fn set_erases(&mut self, block: BlockIndex, erases: u32) {
        self.erases[block.0 as usize] = erases;
    }

    /// Returns the number of times that a block was erased.
    pub(crate) fn erases(&self, block: BlockIndex) -> u32 {
        self.erases[block.0 as usize]
    }

    /// Takes a block that was just erased out of use.
    pub(crate) fn retire(&mut self, block: BlockIndex) {
        let entry = &mut self.blocks[block.0 as usize];
        assert!(entry.state == BlockState::Free, "a block goes bad when it is erased");
        entry.state = BlockState::Retired;
    }

    /// Returns the closed block that was erased least often, its erases, and the most erases of any block that is not
    /// retired; `None` if no block is closed. Walks all blocks.
    pub(crate) fn least_worn_closed(&self) -> Option<(BlockIndex, u32, u32)> {
        let (mut least, mut most) = (None, 0);
        for (index, (block, &erases)) in self.blocks.iter().zip(&self.erases).enumerate() {
            if block.state != BlockState::Retired {
                most = most.max(erases);
            }
            if block.state == BlockState::Closed && least.is_none_or(|(_, fewest)| erases < fewest)
            {
                least = Some((BlockIndex(index as u32), erases));
            }
        }
        least.map(|(block, erases)| (block, erases, most))
    }

    /// Makes a full block a candidate for garbage collection, in state `state`.
    pub(crate) fn close(&mut self, block: BlockIndex, state: BlockState) {
        let entry = &mut self.blocks[block.0 as usize];
        entry.state = state;
        let Block { valid, is_separate, .. } = *entry;
        self.victims_of(is_separate).insert(block, valid);
    }

    /// Returns the victim that the drive's policy chooses, and its number of valid units. If `within` is a range of
    /// blocks, it chooses among these.
    pub(crate) fn take_victim(&mut self, within: Option<&Range<u32>>) -> Option<(BlockIndex, u32)> {
        self.take_from(false, within)
    }

    /// Returns the next victim and its number of valid units, for a drive that chooses victims of some blocks apart:
    /// one of those blocks if `from_separate`, else an ordinary block. Takes from the other kind if the chosen kind
    /// has no victim, or none that gains a unit. A policy that does not seek gain knows that only after it has taken
    /// all blocks of the kind in turn.
    pub(crate) fn take_victim_of(&mut self, from_separate: bool) -> Option<(BlockIndex, u32)> {
        let first = self.take_from(from_separate, None);
        if first.is_some_and(|(_, valid)| valid < self.units_per_block) {
            self.fruitless = 0;
            return first;
        }
        self.fruitless += 1;
        if first.is_some()
            && !self.seeks_gain
            && self.fruitless <= self.victims_of(from_separate).len()
        {
            return first;
        }
        self.fruitless = 0;
        let second = self.take_from(!from_separate, None);
        if second.is_none() {
            return first;
        }
        if let Some((block, _)) = first {
            self.put_back_victim(block);
        }
        second
    }

    /// Returns the next victim among the blocks that are chosen apart.
    pub(crate) fn take_separate_victim(&mut self) -> Option<(BlockIndex, u32)> {
        self.take_from(true, None)
    }

    /// Returns a victim with fewer than `limit` valid units and that number, before it would be its turn. Looks at
    /// one block after the other if the policy does not know.
    pub(crate) fn take_victim_below(&mut self, limit: u32) -> Option<(BlockIndex, u32)> {
        let BlockTable { victims, blocks, .. } = self;
        let valid = |block: BlockIndex| blocks[block.0 as usize].valid;
        let block = victims.take_below(limit, valid)?;
        Some((block, valid(block)))
    }

    /// Returns the victim that rotation will choose next; `None` without rotation.
    pub(crate) fn next_victim_in_rotation(&self) -> Option<BlockIndex> {
        self.victims.next_in_rotation()
    }

    fn take_from(
        &mut self,
        are_separate: bool,
        within: Option<&Range<u32>>,
    ) -> Option<(BlockIndex, u32)> {
        let BlockTable { victims, separate_victims, blocks, .. } = self;
        let victims = if are_separate { separate_victims.as_mut()? } else { victims };
        let valid = |block: BlockIndex| blocks[block.0 as usize].valid;
        let block = match within {
            None => victims.take(valid)?,
            Some(range) => victims.take_within(range, valid)?,
        };
        Some((block, valid(block)))
    }

    /// Removes `block` from its victim queue, whatever the policy says.
    pub(crate) fn remove_victim(&mut self, block: BlockIndex) {
        let Block { is_separate, .. } = self.blocks[block.0 as usize];
        self.victims_of(is_separate).remove(block);
    }

    /// Puts back a victim that was taken, as if it had not been taken.
    pub(crate) fn put_back_victim(&mut self, block: BlockIndex) {
        let Block { valid, is_separate, .. } = self.blocks[block.0 as usize];
        self.victims_of(is_separate).put_back(block, valid);
    }

    pub(crate) fn set_state(&mut self, block: BlockIndex, state: BlockState) {
        self.blocks[block.0 as usize].state = state;
    }

    /// Notes in the reverse map that `logical` was written to `physical`.
    #[inline(always)]
    pub(crate) fn note_written(&mut self, physical: PhysicalUnit, logical: LogicalUnit) {
        self.reverse[physical.0 as usize] = logical.0 + 1;
    }

    /// Returns the reverse map, for several threads to fill at a time: per physical unit, the logical unit plus one.
    pub(crate) fn shared_reverse_map(&mut self) -> &[AtomicU32] {
        self.reverse.shared()
    }

    /// Notes that `physical` in `block` is padding.
    pub(crate) fn note_padding(&mut self, physical: PhysicalUnit, block: BlockIndex) {
        self.reverse[physical.0 as usize] = 0;
        self.invalidate_unit(block);
    }

    /// Returns the logical unit that was written to `physical`; its current copy may be elsewhere by now.
    #[inline(always)]
    pub(crate) fn logical_at(&self, physical: PhysicalUnit) -> Option<LogicalUnit> {
        self.reverse[physical.0 as usize].checked_sub(1).map(LogicalUnit)
    }

    /// Returns the reverse map of `units` physical units from `first`, as far as the drive has them: logical units
    /// plus one, and zero for none.
    #[inline(always)]
    pub(crate) fn reverse_entries(&self, first: PhysicalUnit, units: u32) -> &[u32] {
        let first = (first.0 as usize).min(self.reverse.len());
        let end = (first + units as usize).min(self.reverse.len());
        &self.reverse[first..end]
    }

    /// Prefetches the reverse map entry of `unit` into the CPU cache.
    #[inline(always)]
    pub(crate) fn prefetch_reverse_entry(&self, unit: PhysicalUnit) {
        prefetch(&self.reverse, unit.0 as usize);
    }

    /// Returns the reverse map: per physical unit the logical unit written there last, encoded as in
    /// [`BlockTable::reverse_entries`].
    pub(crate) fn reverse_map(&self) -> &[u32] {
        &self.reverse
    }

    /// Returns the reverse map for changes.
    #[inline(always)]
    pub(crate) fn reverse_map_mut(&mut self) -> &mut [u32] {
        &mut self.reverse
    }

    /// Replaces the reverse map by a saved one. Its entries of units that are not valid may name any logical unit or
    /// none.
    pub(crate) fn set_reverse_map(&mut self, saved: LazyTable) {
        self.reverse = saved;
    }

    /// Returns true if the reverse map is borrowed memory.
    pub(crate) fn is_borrowed(&self) -> bool {
        self.reverse.is_borrowed()
    }

    /// Copies the reverse map to memory that the drive owns.
    pub(crate) fn copy_to_owned(&mut self) {
        self.reverse.copy_to_owned();
    }

    /// Returns true if `saved` has the same entry as this map for each unit that has one here, and elsewhere no
    /// logical unit of `logical_units` or more.
    pub(crate) fn agrees_with(&self, saved: &[u32], logical_units: u32) -> bool {
        self.reverse
            .iter()
            .zip(saved)
            .all(|(&valid, &saved)| saved <= logical_units && (valid == 0 || valid == saved))
    }

    /// Clears the reverse map entry of `physical`: either the unit is not programmed yet and becomes padding, or its
    /// data is not valid any more.
    pub(crate) fn clear_reverse_entry(&mut self, physical: PhysicalUnit) {
        self.reverse[physical.0 as usize] = 0;
    }

    /// Invalidates one unit of `block`. Returns true if the block is open or not yet programmed to its end, so that
    /// the unit may not have been sent to the flash yet.
    #[inline(always)]
    pub(crate) fn invalidate_unit(&mut self, block: BlockIndex) -> bool {
        let entry = &mut self.blocks[block.0 as usize];
        let valid = entry.valid;
        entry.valid = valid.checked_sub(1).expect("a block has no fewer than zero valid units");
        let state = entry.state;
        if matches!(state, BlockState::Closed | BlockState::Closing) {
            if entry.is_separate {
                self.victims_of(true).invalidate_unit(block, valid);
            } else {
                self.victims.invalidate_unit(block, valid);
            }
            return state == BlockState::Closing;
        }
        entry.state != BlockState::Victim
    }

    /// Takes `units` units that were copied away off the valid units of `victim`.
    #[inline(always)]
    pub(crate) fn move_units(&mut self, victim: BlockIndex, units: u32) {
        let entry = &mut self.blocks[victim.0 as usize];
        debug_assert!(entry.state == BlockState::Victim);
        entry.valid = entry.valid.checked_sub(units).expect("only valid units are moved");
    }

    /// Clears the reverse map of `block` and makes the block free; its erase may still be under way.
    pub(crate) fn erase(&mut self, block: BlockIndex, first: PhysicalUnit, units: u32) {
        let entry = &mut self.blocks[block.0 as usize];
        assert!(
            entry.state == BlockState::Victim && entry.valid == 0,
            "a block is erased only when nothing on it is valid"
        );
        entry.state = BlockState::Free;
        self.erases[block.0 as usize] += 1;
        self.reverse[first.0 as usize..(first.0 + units) as usize].fill(0);
    }

    pub(crate) fn spare_area(&self, first: PhysicalUnit, units: u32) -> OobArea<'_> {
        OobArea::new(&self.reverse[first.0 as usize..(first.0 + units) as usize])
    }

    /// Starts the random generators of the victim policy anew, as the drive that is restored will.
    pub(crate) fn reseed(&mut self) {
        self.victims.reseed();
        if let Some(separate) = &mut self.separate_victims {
            separate.reseed();
        }
    }

    /// Returns true if `block` is in use and its victims are chosen apart.
    pub(crate) fn is_separate(&self, block: BlockIndex) -> bool {
        let Block { state, is_separate, .. } = self.blocks[block.0 as usize];
        is_separate && state != BlockState::Free && state != BlockState::Retired
    }

    /// Iterates over the closed blocks; those whose victims are chosen apart come last.
    pub(crate) fn closed_blocks(&self) -> impl Iterator<Item = BlockIndex> + '_ {
        let separate = self.separate_victims.iter().flat_map(|it| it.blocks());
        self.victims.blocks().chain(separate).map(BlockIndex)
    }

    pub(crate) fn save(&self, to: &mut Encoder<'_>) -> Result<(), SnapshotError> {
        let BlockTable {
            // The caller saves the reverse map, or its valid part follows from the map.
            reverse: _,
            blocks,
            erases,
            victims,
            separate_victims,
            fruitless,
            // Both begin anew with each power-on.
            opened: _,
            opened_blocks: _,
            // From the configuration.
            units_per_block: _,
            seeks_gain: _,
        } = self;
        for (block, index) in blocks.iter().zip(0..) {
            let state = match block.state {
                BlockState::Free => 0,
                BlockState::Closed => 1,
                BlockState::OpenForHost => 2,
                BlockState::OpenForCollection => 3,
                BlockState::Retired => 4,
                BlockState::Closing | BlockState::Victim => panic!("the drive was shut down"),
            };
            let separate = if self.is_separate(BlockIndex(index)) { SEPARATE } else { 0 };
            to.word(state | separate)?;
            to.word(block.valid)?;
        }
        to.table(erases)?;
        victims.save(to)?;
        match separate_victims {
            None => Ok(()),
            Some(separate) => {
                separate.save(to)?;
                Ok(to.word(*fruitless)?)
            }
        }
    }

    /// Restores what `save` wrote: all but the reverse map. The caller checks each block's number of valid
    /// units.
    pub(crate) fn restore(
        &mut self,
        from: &mut Decoder<'_>,
        units_per_block: u32,
    ) -> Result<(), SnapshotError> {
        let has_separate = self.separate_victims.is_some();
        let mut closed = [0; 2];
        for block in &mut self.blocks {
            let word = from.word()?;
            block.state = match word & !SEPARATE {
                0 => BlockState::Free,
                1 => BlockState::Closed,
                2 => BlockState::OpenForHost,
                3 => BlockState::OpenForCollection,
                4 => BlockState::Retired,
                other => return damaged(format!("a block is in state {other}")),
            };
            block.is_separate = word & SEPARATE != 0;
            let is_in_use = !matches!(block.state, BlockState::Free | BlockState::Retired);
            if block.is_separate && !(has_separate && is_in_use) {
                return damaged("a block is of a kind that the drive does not have");
            }
            closed[usize::from(block.is_separate)] += u32::from(block.state == BlockState::Closed);
            block.valid = from.at_most(units_per_block, "a block's count of valid units")?;
        }
        self.erases = from.table(self.erases.len())?;
        let BlockTable { victims, separate_victims, blocks, fruitless, .. } = self;
        let count = blocks.len() as u32;
        let valid = |block: u32| blocks[block as usize].valid;
        victims.restore(from, closed[0], count, valid)?;
        if victims.blocks().any(|block| blocks[block as usize].is_separate) {
            return damaged("a block is listed among those of another kind");
        }
        if let Some(separate) = separate_victims {
            separate.restore(from, closed[1], count, valid)?;
            if !separate.blocks().all(|block| blocks[block as usize].is_separate) {
                return damaged("a block is listed among those of another kind");
            }
            *fruitless = from.at_most(count, "the count of victims without gain")?;
        }
        Ok(())
    }

    /// Returns the number of units of `block` that hold data that the map knows: among the first `written` units, and
    /// among the rest.
    pub(crate) fn reverse_entries_in(
        &self,
        block: BlockIndex,
        geometry: &Geometry,
        written: u32,
    ) -> (u32, u32) {
        let first = geometry.first_unit(block).0 as usize;
        let units = &self.reverse[first..first + geometry.units_per_block() as usize];
        let (written, rest) = units.split_at(written as usize);
        let held = |units: &[u32]| units.iter().filter(|&&unit| unit != 0).count() as u32;
        (held(written), held(rest))
    }

    pub(crate) fn wear(&self) -> Wear {
        // In one pass: experiments ask between rounds, and a large drive has many blocks.
        let (mut total, mut least, mut most) = (0, u32::MAX, 0);
        for &erases in &self.erases {
            total += u64::from(erases);
            least = least.min(erases);
            most = most.max(erases);
        }
        let erases_mean = total as f64 / self.erases.len() as f64;
        Wear { erases_min: least.min(most), erases_mean, erases_max: most }
    }

    /// Returns true if the block table is so small that a near CPU cache holds it, so that a prefetch would only
    /// cost.
    #[inline(always)]
    pub(crate) fn fits_cpu_cache(&self) -> bool {
        self.blocks.len() <= CPU_CACHED_BLOCKS_MAX
    }

    /// Prefetches the block table entry and the victim list links that `invalidate_unit` will touch for `block`.
    #[inline(always)]
    pub(crate) fn prefetch_block(&self, block: BlockIndex) {
        prefetch(&self.blocks, block.0 as usize);
        self.victims.prefetch(block);
    }
}
