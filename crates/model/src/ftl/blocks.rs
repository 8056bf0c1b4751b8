//! Blocks of the FTL: the block table, the free block pool, pending erases, and bad blocks.

use std::collections::VecDeque;

use ssdlab_nand::{EraseId, Nand};

use crate::bad_blocks::{BadBlocks, Failure, SpareBlocks};
use crate::block_table::{BlockState, BlockTable};
use crate::free_block_pool::FreeBlockPool;
use crate::geometry::Geometry;
use crate::mapping::Mapping;
use crate::media::BadBlockRecord;
use crate::snapshot::{Decoder, Encoder, SnapshotError};
use crate::ssd::Configuration;
use crate::units::{BlockIndex, DieIndex, LogicalUnit, Nanoseconds, PhysicalUnit};
use crate::wear_levelling::{Levelling, LevellingParameters};
use crate::write_frontier::WriteFrontier;

#[derive(Clone, Debug)]
pub(super) struct Blocks {
    table: BlockTable,
    free: FreeBlockPool,
    levelling: Option<Levelling>,
    bad_blocks: Option<Box<BadBlocks>>,
    /// Pending erases, oldest first, with their blocks.
    erases: VecDeque<(EraseId, BlockIndex)>,
    /// Per block, the latest of the erases of the block in `erases`, if there is one.
    latest_erases: Vec<Option<EraseId>>,
    /// Failures of blocks, in their order, until they are recorded and the replacement can be programmed.
    failures: VecDeque<FailedErase>,
    /// True if the record of the first unrecorded failure is being programmed.
    is_recording: bool,
}

/// An erase that fails. The block's replacement can be programmed once the failure is recorded in the metadata.
#[derive(Clone, Copy, Debug)]
struct FailedErase {
    erase: EraseId,
    die: DieIndex,
    record: BadBlockRecord,
    /// Erase that stands for the record: programs to the replacement wait for it. `None` if the block is not
    /// replaced.
    ready: Option<EraseId>,
    is_over: bool,
    is_recorded: bool,
}

impl Blocks {
    pub(super) fn new(configuration: &Configuration) -> Blocks {
        let Configuration { geometry, mechanisms, .. } = configuration;
        let free = FreeBlockPool::new(geometry);
        let table = BlockTable::new(geometry, mechanisms.victims, mechanisms.seed)
            .with_rotation(mechanisms.rotation);
        let are_separate = mechanisms.slc.is_some() || mechanisms.streams.hot_blocks.is_some();
        Blocks {
            table: if are_separate { table.with_separate_victims() } else { table },
            levelling: Levelling::new(mechanisms.wear.levelling),
            bad_blocks: BadBlocks::new(configuration),
            free: match mechanisms.wear.levelling {
                LevellingParameters::Off => free,
                LevellingParameters::Dynamic | LevellingParameters::Static { .. } => {
                    free.least_worn_first()
                }
            },
            erases: VecDeque::new(),
            latest_erases: vec![None; geometry.blocks() as usize],
            failures: VecDeque::new(),
            is_recording: false,
        }
    }

    #[inline(always)]
    pub(super) fn table(&self) -> &BlockTable {
        &self.table
    }

    #[inline(always)]
    pub(super) fn table_mut(&mut self) -> &mut BlockTable {
        &mut self.table
    }

    /// Returns the number of free blocks, those being erased included.
    #[inline(always)]
    pub(super) fn free(&self) -> u32 {
        self.free.len()
    }

    /// Returns the number of free blocks of a group of dies, those being erased included.
    #[inline(always)]
    pub(super) fn free_of(&self, group: u32) -> u32 {
        self.free.len_of(group)
    }

    /// Begins the next program unit of a stream, either in one of its open blocks or in a block from the pool.
    /// A block from the pool is opened as `state` with `units_per_block` units, and returned.
    #[inline(always)]
    pub(super) fn begin_program(
        &mut self,
        frontier: &mut WriteFrontier,
        geometry: &Geometry,
        state: BlockState,
        units_per_block: u32,
    ) -> Option<BlockIndex> {
        let opened = frontier.begin_program(geometry, &mut self.free);
        if let Some(block) = opened {
            self.table.open(block, state, units_per_block);
        }
        opened
    }

    /// Opens a free block for a run of extents (extent compaction).
    pub(super) fn open_for_run(&mut self, units_per_block: u32) -> BlockIndex {
        let block = self.free.take(0).expect("a block was made free");
        self.table.open(block, BlockState::OpenForCollection, units_per_block);
        block
    }

    /// Opens a free block of a group of dies for a drive with log blocks; `None` if the group has no free
    /// block.
    pub(super) fn open_in_group(&mut self, group: u32, units_per_block: u32) -> Option<BlockIndex> {
        let block = self.free.take(group)?;
        self.table.open(block, BlockState::OpenForHost, units_per_block);
        Some(block)
    }

    /// Returns the erase that programs to `block` on `die` have to wait for, if there is one.
    #[inline(always)]
    pub(super) fn erase_before(&self, block: BlockIndex, die: DieIndex) -> Option<EraseId> {
        let erase = self.latest_erases[block.0 as usize];
        if !self.failures.is_empty()
            && let Some(failed) = self.failure_in(block, die)
            && (erase.is_none() || erase == Some(failed.erase))
        {
            return failed.ready;
        }
        erase
    }

    fn failure_in(&self, block: BlockIndex, die: DieIndex) -> Option<&FailedErase> {
        self.failures.iter().rev().find(|it| (it.record.unit, it.die) == (block, die))
    }

    /// Returns the block's erase that has to complete first if `erase` stands for the record of a failure;
    /// otherwise `erase` itself.
    pub(super) fn erase_behind(&self, erase: EraseId) -> EraseId {
        self.failures.iter().find(|it| it.ready == Some(erase)).map_or(erase, |it| it.erase)
    }

    /// Returns the block that a pending `erase` is of; `None` if `erase` is not of a data block.
    pub(super) fn being_erased(&self, erase: EraseId) -> Option<BlockIndex> {
        self.place_of(erase).map(|place| self.erases[place].1)
    }

    fn place_of(&self, erase: EraseId) -> Option<usize> {
        let first = self.erases.front()?.0;
        let after_first = |it: EraseId| it.announced_after(first);
        self.erases.binary_search_by_key(&after_first(erase), |it| after_first(it.0)).ok()
    }

    /// Notes that an erase has completed on one die. Returns true if it failed there.
    pub(super) fn complete_on_die(&mut self, erase: EraseId, die: DieIndex) -> bool {
        let failed = self.failures.iter_mut().find(|it| (it.erase, it.die) == (erase, die));
        failed.map(|it| it.is_over = true).is_some()
    }

    /// Begins to record the next failure, if its erase has completed and no other failure is being recorded.
    /// Returns the die of the failed block.
    pub(super) fn begin_record(&mut self) -> Option<DieIndex> {
        let next = self.failures.iter().find(|it| !it.is_recorded)?;
        if self.is_recording || !next.is_over {
            return None;
        }
        let die = next.die;
        self.is_recording = true;
        Some(die)
    }

    /// Notes that the record of a failure is programmed, lets programs to the replacement start, and returns
    /// the record.
    pub(super) fn end_record(&mut self, nand: &mut Nand) -> BadBlockRecord {
        self.is_recording = false;
        let place = self.failures.iter().position(|it| !it.is_recorded);
        let place = place.expect("it was being written down");
        let failed = &mut self.failures[place];
        failed.is_recorded = true;
        let record = failed.record;
        match failed.ready {
            // Programs can only wait for erases: this one takes no time and stands for the record.
            Some(ready) => nand.erase(ready, Nanoseconds::ZERO),
            None => self.failures.retain(|it| it.record.number != record.number),
        }
        record
    }

    /// Announces the erase of a block that has no valid unit. The block is in the pool from then on, unless
    /// this erase fails and the block is retired. No block is retired while fewer than `reserve` blocks are
    /// free, which collection counts on. Returns the erase, and its failure if it fails.
    pub(super) fn free_after_erase(
        &mut self,
        nand: &mut Nand,
        geometry: &Geometry,
        block: BlockIndex,
        reserve: u32,
    ) -> (EraseId, Option<Failure>) {
        let group = geometry.group_of(block);
        let first = group * geometry.stripe();
        let erase = nand.announce_erase(DieIndex(first)..DieIndex(first + geometry.stripe()));
        debug_assert!(
            self.erases.back().is_none_or(|it| erase.announced_after(it.0) < u32::MAX / 4),
            "{erase:?} was announced before the last pending one"
        );
        self.erases.push_back((erase, block));
        self.latest_erases[block.0 as usize] = Some(erase);
        self.table.erase(block, geometry.first_unit(block), geometry.units_per_block());
        if let Some(levelling) = &mut self.levelling {
            levelling.note_erase();
        }
        let (erases, is_short) = (self.table.erases(block), self.free.len() < reserve);
        let failure = match &mut self.bad_blocks {
            Some(bad) => bad.note_erase(block, first, erases, is_short),
            None => None,
        };
        if let Some(bad) = &mut self.bad_blocks
            && let Some((die, record)) = bad.take_unrecorded(block)
        {
            let ready = record.replaced_by.map(|_| nand.announce_erase(die..DieIndex(die.0 + 1)));
            self.failures.push_back(FailedErase {
                erase,
                die,
                record,
                ready,
                is_over: false,
                is_recorded: false,
            });
        }
        match failure {
            Some(Failure::Retired) => self.table.retire(block),
            Some(Failure::Replaced { erases }) => {
                self.table.set_erases(block, erases);
                self.free.put(group, block, erases);
            }
            None => self.free.put(group, block, erases),
        }
        (erase, failure)
    }

    /// Returns true if the drive has come to the end of its life and refuses writes.
    #[inline(always)]
    pub(super) fn is_read_only(&self) -> bool {
        self.bad_blocks.as_ref().is_some_and(|bad| bad.is_read_only())
    }

    /// Returns true if it is time to look for a block whose data is moved to level wear.
    #[inline(always)]
    pub(super) fn is_levelling_due(&self) -> bool {
        self.levelling.as_ref().is_some_and(Levelling::is_due)
    }

    /// Takes the block whose data is to be moved to level wear, with its number of valid units; `None` if there
    /// is no such block.
    pub(super) fn take_block_to_level(&mut self) -> Option<(BlockIndex, u32)> {
        self.levelling.as_mut()?.take_due(&mut self.table)
    }

    /// Returns true if `block` is about to become the victim to level wear.
    #[inline(always)]
    pub(super) fn is_levelling_victim(&self, block: BlockIndex) -> bool {
        self.levelling.as_ref().is_some_and(|it| it.has_chosen(block))
    }

    /// Notes that the block chosen to level wear has become the victim.
    pub(super) fn note_levelled(&mut self) {
        if let Some(levelling) = &mut self.levelling {
            levelling.forget_chosen();
        }
    }

    /// After a power cut: takes over a recorded failure. Called in the order of the records. Returns `None` if
    /// the record is impossible.
    pub(super) fn apply_failure(
        &mut self,
        record: &BadBlockRecord,
        geometry: &Geometry,
    ) -> Option<()> {
        let unit = record.unit;
        let bad = self.bad_blocks.as_mut().filter(|_| unit.0 < geometry.blocks())?;
        bad.apply_record(record, geometry.group_of(unit) * geometry.stripe())?;
        if record.replaced_by.is_none() {
            self.table.set_block(unit, BlockState::Retired, 0);
        }
        Some(())
    }

    /// After a power cut: empties the free block pool.
    pub(super) fn empty_pool(&mut self) {
        self.free = self.free.empty_like();
    }

    /// After a power cut: puts `block` of `group`, which is erased, into the free block pool.
    pub(super) fn add_free(&mut self, group: u32, block: BlockIndex) {
        self.free.put(group, block, self.table.erases(block));
    }

    /// Notes that an erase has completed on all dies.
    pub(super) fn note_erased(&mut self, erase: EraseId) {
        // Erases of metadata blocks, and those that stand for records of failures, are not in `erases`.
        let Some(place) = self.place_of(erase) else {
            self.failures.retain(|it| it.ready != Some(erase));
            return;
        };
        if let Some((_, block)) = self.erases.remove(place) {
            let latest = &mut self.latest_erases[block.0 as usize];
            *latest = latest.filter(|it| *it != erase);
        }
    }

    /// Checks the counts of valid units and the free block pool against the map.
    pub(super) fn check_invariants(&self, map: &impl Mapping, geometry: &Geometry) {
        let mut valid = vec![0u32; geometry.blocks() as usize];
        let mut seen = std::collections::HashSet::new();
        for unit in (0..geometry.logical_units()).map(LogicalUnit) {
            let Some(physical) = map.get(unit) else { continue };
            assert!(seen.insert(physical), "two logical units share {physical:?}");
            assert_eq!(
                self.table.logical_at(physical),
                Some(unit),
                "the spare area of {physical:?}"
            );
            valid[geometry.block_of(physical).0 as usize] += 1;
        }
        let (mut free, mut closed) = (0, 0);
        for (index, &valid) in valid.iter().enumerate() {
            let block = BlockIndex(index as u32);
            match self.table.state(block) {
                BlockState::Free => {
                    assert_eq!(valid, 0, "{block:?} is free");
                    free += 1;
                }
                BlockState::Closed | BlockState::Closing => {
                    assert_eq!(self.table.valid(block), valid, "valid units of {block:?}");
                    closed += 1;
                }
                BlockState::Retired => assert_eq!(valid, 0, "{block:?} is bad"),
                BlockState::Victim => {
                    assert_eq!(self.table.valid(block), valid, "units left in {block:?}");
                }
                // The count of an open block starts at full: units not yet written count as valid.
                BlockState::OpenForCollection | BlockState::OpenForHost => {
                    assert!(self.table.valid(block) >= valid, "valid units of open {block:?}");
                }
            }
        }
        assert_eq!(free, self.free.len(), "the free pool holds every free block");
        assert_eq!(closed, self.table.closed(), "every closed block can be collected");
    }

    /// Returns true if the unit at `physical` is valid: the map points to it.
    pub(super) fn is_valid(&self, map: &impl Mapping, physical: PhysicalUnit) -> bool {
        self.table.logical_at(physical).is_some_and(|unit| map.is_mapped_to(unit, physical))
    }

    pub(super) fn pool(&self) -> &FreeBlockPool {
        &self.free
    }

    /// Returns the block table and the free block pool of a new drive, for preconditioning.
    pub(super) fn tables(&mut self) -> (&mut BlockTable, &mut FreeBlockPool) {
        (&mut self.table, &mut self.free)
    }

    /// Returns the blocks left to replace bad ones; `None` if no block of this drive goes bad.
    pub(super) fn spare(&self) -> Option<SpareBlocks> {
        self.bad_blocks.as_ref().map(|bad| bad.spare())
    }

    /// Returns the number of retired blocks.
    pub(super) fn retired(&self) -> u32 {
        self.bad_blocks.as_ref().map_or(0, |bad| bad.retired())
    }

    /// Writes the block table and the free block pool of a drive that was shut down.
    pub(super) fn save(&self, to: &mut Encoder<'_>) -> Result<(), SnapshotError> {
        let Blocks {
            // Saved with the wear.
            levelling: _,
            bad_blocks: _,
            // Empty after a shutdown.
            erases,
            latest_erases: _,
            failures,
            is_recording: _,
            table,
            free,
        } = self;
        assert!(erases.is_empty() && failures.is_empty(), "the drive was shut down");
        table.save(to)?;
        free.save(to)
    }

    pub(super) fn restore(
        &mut self,
        from: &mut Decoder<'_>,
        geometry: &Geometry,
    ) -> Result<(), SnapshotError> {
        self.table.restore(from, geometry.units_per_block())?;
        let table = &self.table;
        self.free.restore(from, |block| table.erases(block))
    }

    /// Writes the state of wear levelling and of bad blocks.
    pub(super) fn save_wear(&self, to: &mut Encoder<'_>) -> Result<(), SnapshotError> {
        if let Some(levelling) = &self.levelling {
            levelling.save(to)?;
        }
        match &self.bad_blocks {
            Some(bad_blocks) => bad_blocks.save(to),
            None => Ok(()),
        }
    }

    pub(super) fn restore_wear(&mut self, from: &mut Decoder<'_>) -> Result<(), SnapshotError> {
        if let Some(levelling) = &mut self.levelling {
            levelling.restore(from)?;
        }
        match &mut self.bad_blocks {
            Some(bad_blocks) => bad_blocks.restore(from),
            None => Ok(()),
        }
    }
}
