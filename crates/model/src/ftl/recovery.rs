//! Recovery after a power cut: a drive is opened from the contents of its flash. The rules are those of
//! [`crate::recovery`]; this file carries out what follows from what was found.
//!
//! The controller reads spare areas (out-of-band bytes) and the saved parts of the map, and takes no command
//! meanwhile. Then the FTL decides everything at once, and the flash operations follow. If collection has to
//! reclaim blocks, the host waits until all copies are on the flash: its writes could fill the last erased
//! block, and leave none to copy to if power is cut again. Data that capacitors have saved is written again
//! after that.

use std::cmp::Reverse;
use std::collections::HashSet;

use ssdlab_nand::{ProgramUnit as NandProgram, Tag};

use super::wrappers::{LATEST, NoHost};
use super::{Context, Ftl, Ssd, kind};
use crate::block_table::BlockState;
use crate::mapping::{Mapping, MappingScheme};
use crate::media::{Media, OobArea};
use crate::recovery::log_block::unfinished_merges;
use crate::recovery::scan::{FoundBlock, Scan};
use crate::recovery::{FlashContents, ProgramUnit, Recovery, RecoveryError};
use crate::ssd::Configuration;
use crate::units::{BlockIndex, Instant, LogicalUnit, Nanoseconds, PhysicalUnit};

/// Streams that continue partly written blocks. In each group of dies the emptiest such block goes to the
/// first, the next one to the second. Where copies go to the host's block there is only the second.
const FILLED_FURTHER: [BlockState; 2] = [BlockState::OpenForCollection, BlockState::OpenForHost];

/// A drive that is recovering from a power cut and takes no command yet.
#[derive(Clone, Debug)]
pub struct Opening<M: Mapping, D: Media> {
    ssd: Ssd<M, D>,
    recovery: Recovery,
    /// Units of the write buffer that capacitors have saved.
    saved: Vec<LogicalUnit>,
    remaining: RemainingWork,
}

/// Work that is left before commands are accepted.
#[derive(Clone, Copy, Debug)]
enum RemainingWork {
    /// Blocks are being reclaimed or gaps filled, and the host waits for that.
    FreeSpace,
    /// Units that capacitors have saved are to be written again, from this index on.
    Saved(usize),
    Nothing,
}

impl<M: Mapping, D: FlashContents> Ssd<M, D> {
    /// Opens a drive from the contents of its flash, from `at` on, with an empty `map`. The drive takes
    /// commands from `ready_at` on, which is its time then. Nothing is done to the flash before it is certain
    /// that the drive can be opened.
    ///
    /// # Errors
    /// Returns an error if the flash holds something that this drive cannot have written, or has no room left.
    ///
    /// # Panics
    /// Panics if the write buffer holds less than two program units; profiles check that.
    pub fn open(
        configuration: &Configuration,
        map: M,
        media: D,
        at: Instant,
    ) -> Result<(Self, Recovery), RecoveryError> {
        Ok(Opening::begin(configuration, map, media, at)?.finish())
    }
}

impl<M: Mapping, D: FlashContents> Opening<M, D> {
    /// Reads the flash, from `at` on, and decides what has to be done.
    ///
    /// # Errors
    /// As [`Ssd::open`].
    ///
    /// # Panics
    /// As [`Ssd::open`].
    pub fn begin(
        configuration: &Configuration,
        map: M,
        media: D,
        at: Instant,
    ) -> Result<Self, RecoveryError> {
        let mut scan = Scan::of(configuration, &media)?;
        if configuration.mechanisms.mapping == MappingScheme::LogBlock {
            let unfinished = unfinished_merges(configuration, &scan, &media);
            if !unfinished.is_empty() {
                scan = Scan::without(configuration, &media, &unfinished)?;
            }
        }
        let mut ssd = Ssd::with(configuration, map, media)?;
        ssd.ftl.check_saved()?;
        ssd.ftl.apply_bad_block_records()?;
        let ready_at = at + ssd.ftl.time_to_read(&scan);
        // Nothing is in flight until then.
        ssd.nand.set_alarm(ready_at, Tag(kind::RECOVERY_DONE));
        ssd.run_until(ready_at, &mut NoHost);
        let mut recovery = ssd.ftl.restore_contents(&scan, ready_at);
        (recovery.ready_at, recovery.took) = (ready_at, ready_at.since(at));
        let context = &mut Context { nand: &mut ssd.nand, host: &mut NoHost };
        ssd.ftl.rewrite_map(context.nand);
        ssd.ftl.note_slc_blocks(&scan.blocks)?;
        ssd.ftl.sort_blocks(context.nand, &scan.blocks, &mut recovery);
        // A read-only drive needs no free space for writes.
        let reclaimed = match ssd.ftl.log_blocks.is_some() {
            true => ssd.ftl.begin_to_reclaim_surplus(context),
            false => ssd.ftl.reclaim_for_host(context),
        };
        let has_reclaimed = match reclaimed {
            Ok(has_reclaimed) => has_reclaimed,
            Err(_) if ssd.ftl.blocks.is_read_only() => false,
            Err((room, valid)) => return Err(RecoveryError::NoRoom { room, valid }),
        };
        let saved = ssd.ftl.media.saved().to_vec();
        recovery.units_saved = saved.len() as u32;
        let remaining = if has_reclaimed || ssd.ftl.has_gaps() {
            RemainingWork::FreeSpace
        } else {
            RemainingWork::Saved(0)
        };
        Ok(Opening { ssd, recovery, saved, remaining })
    }

    /// Returns the drive in its present state; its power can be cut.
    pub fn drive(&self) -> &Ssd<M, D> {
        &self.ssd
    }

    /// Executes the next event while the host waits. Returns true if there was one.
    pub fn step(&mut self) -> bool {
        let is_any = self.next_due().is_some() && self.ssd.single_step(LATEST, &mut NoHost);
        self.advance();
        is_any
    }

    /// Executes all events that are due until `until`.
    pub fn run_until(&mut self, until: Instant) {
        self.ssd.run_until(until, &mut NoHost);
        self.advance();
    }

    /// Returns the instant of the next event while the host waits; `None` if there is none.
    pub fn next_due(&self) -> Option<Instant> {
        match self.remaining {
            RemainingWork::FreeSpace | RemainingWork::Saved(1..) => self.ssd.next_due(),
            RemainingWork::Saved(0) | RemainingWork::Nothing => None,
        }
    }

    /// Completes recovery, so that the host is let in. Returns the drive and a record of what recovery did.
    ///
    /// # Panics
    /// Never: everything that recovery waits for completes.
    pub fn finish(mut self) -> (Ssd<M, D>, Recovery) {
        self.advance();
        while !matches!(self.remaining, RemainingWork::Nothing) {
            let due = self.ssd.next_due().expect("what recovery waits for comes");
            self.run_until(due);
        }
        let Opening { ssd, mut recovery, .. } = self;
        recovery.took += ssd.now().since(recovery.ready_at);
        recovery.ready_at = ssd.now();
        (ssd, recovery)
    }

    /// Does as much of the remaining work as can be done now.
    fn advance(&mut self) {
        let Ssd { nand, ftl } = &mut self.ssd;
        let context = &mut Context { nand, host: &mut NoHost };
        if let RemainingWork::FreeSpace = self.remaining {
            if ftl.log_blocks.is_some() {
                ftl.reclaim_surplus(context);
            }
            if !context.nand.is_idle()
                || ftl.finish_copies_in_gaps(context)
                || ftl.pad_gaps(context.nand, &mut self.recovery)
            {
                return;
            }
            self.remaining = RemainingWork::Saved(0);
        }
        while let RemainingWork::Saved(index) = self.remaining {
            self.remaining = match self.saved.get(index) {
                None => RemainingWork::Nothing,
                Some(&unit) if ftl.restore_unit(context, index, unit) => {
                    RemainingWork::Saved(index + 1)
                }
                Some(_) => return,
            };
        }
    }
}

impl<M: Mapping, D: FlashContents> Ftl<M, D> {
    /// Checks the units that capacitors have saved from the write buffer: the drive has each, and none was
    /// saved twice.
    fn check_saved(&self) -> Result<(), RecoveryError> {
        let units = self.geometry.logical_units();
        let mut seen = HashSet::new();
        for &logical in self.media.saved() {
            if logical.0 >= units {
                return Err(RecoveryError::Unit { place: "the saved buffer", logical, units });
            }
            if !seen.insert(logical.0) {
                return Err(RecoveryError::SavedTwice { logical });
            }
        }
        Ok(())
    }

    /// Rebuilds the table of bad blocks from its records.
    fn apply_bad_block_records(&mut self) -> Result<(), RecoveryError> {
        let mut records = self.media.bad_blocks().to_vec();
        records.sort_by_key(|record| record.number);
        for record in &records {
            let unit = record.unit;
            self.blocks
                .apply_failure(record, &self.geometry)
                .ok_or(RecoveryError::BadBlock { unit })?;
        }
        Ok(())
    }

    /// Returns the time that reading the flash takes: every die reads its pages of the saved map, which cross
    /// the channels whole, and its spare areas, one by one.
    fn time_to_read(&self, scan: &Scan) -> Nanoseconds {
        let (dies, pages) = (u64::from(self.geometry.dies()), scan.known.pages);
        let page = self.geometry.unit_size() * u64::from(self.geometry.units_per_page());
        let transfer = self.timing.channel.duration(page);
        let mut channels = vec![Nanoseconds::ZERO; self.geometry.channels() as usize];
        let mut longest = Nanoseconds::ZERO;
        for (die, &reads) in scan.reads.iter().enumerate() {
            let map_pages = pages / dies + u64::from((die as u64) < pages % dies);
            let channel = self.geometry.channel_of(crate::units::DieIndex(die as u32));
            channels[channel] += transfer * map_pages;
            longest = longest.max(self.timing.page_read * (reads + map_pages));
        }
        channels.into_iter().fold(longest, Nanoseconds::max)
    }

    /// Fills the map and the block table with what was found. Returns the record of the recovery.
    fn restore_contents(&mut self, scan: &Scan, now: Instant) -> Recovery {
        self.placement.continue_from(scan.latest);
        self.counters.unsafe_shutdowns += 1;
        self.metadata.continue_from(scan.known.checkpoint_pages);
        let mut units_found = 0;
        for (unit, physical) in scan.current() {
            self.map.set(unit, physical);
            units_found += 1;
        }
        self.note_spare_areas(&scan.blocks);
        if let Some(retention) = &mut self.retention {
            let (media, block_table) = (&self.media, self.blocks.table());
            let now = Nanoseconds::new(now.nanos());
            retention.restore_ages(|it| media.begun(it), now, |it| block_table.erases(it));
        }
        Recovery {
            ready_at: now,
            took: Nanoseconds::ZERO,
            program_units_read: scan.reads.iter().sum(),
            map_pages_read: scan.known.pages,
            program_units_unreadable: scan.unreadable,
            units_found,
            units_saved: 0,
            program_units_padded: 0,
            blocks_to_erase: 0,
        }
    }

    /// Fills the reverse map from the spare areas of all program units, and takes over the erase counts of
    /// blocks.
    fn note_spare_areas(&mut self, blocks: &[FoundBlock]) {
        let block_table = self.blocks.table_mut();
        for (found, block) in blocks.iter().zip(0..) {
            let block = BlockIndex(block);
            block_table.set_erases(block, self.media.erases(block));
            let first = self.geometry.first_unit(block).0;
            for program in 0..found.programs {
                let at = PhysicalUnit(first + program * self.geometry.units_per_program());
                if let ProgramUnit::Programmed { spare, .. } = self.media.program_unit(at) {
                    for (logical, physical) in spare.logical_units().zip(at.0..) {
                        if let Some(logical) = logical {
                            block_table.note_written(PhysicalUnit(physical), logical);
                        }
                    }
                }
            }
        }
    }

    /// Records the blocks that are in SLC mode.
    fn note_slc_blocks(&mut self, blocks: &[FoundBlock]) -> Result<(), RecoveryError> {
        for (found, block) in blocks.iter().zip(0..) {
            let block = BlockIndex(block);
            if found.is_slc {
                let slc = self.slc.as_mut().ok_or(RecoveryError::CellMode { block })?;
                slc.add_block(block);
            }
        }
        Ok(())
    }

    /// Makes each block free, open or closed, or has it erased.
    fn sort_blocks(
        &mut self,
        nand: &mut ssdlab_nand::Nand,
        blocks: &[FoundBlock],
        recovery: &mut Recovery,
    ) {
        let programs = self.geometry.units_per_block() / self.geometry.units_per_program();
        let mut order: Vec<u32> = (0..blocks.len() as u32).collect();
        order.sort_by_key(|&block| blocks[block as usize].latest);
        self.blocks.empty_pool();
        let mut rest = Vec::new();
        for block in order.into_iter().map(BlockIndex) {
            let found = blocks[block.0 as usize];
            let group = self.geometry.group_of(block);
            let block_table = self.blocks.table_mut();
            if block_table.state(block) == BlockState::Retired {
                continue;
            }
            if found.programs == 0 {
                self.blocks.add_free(group, block);
            } else if found.valid == 0 {
                recovery.blocks_to_erase += 1;
                block_table.set_block(block, BlockState::Victim, 0);
                let erase = self.free_after_erase(nand, block);
                nand.erase(erase, self.timing.erase);
            } else if self.log_blocks.is_none() {
                rest.push((group, block));
            }
        }
        if self.log_blocks.is_some() {
            // The use of a block is found out when all blocks are known.
            self.sort_log_blocks(blocks);
            return;
        }
        // If blocks have to be reclaimed, no erased place is given up.
        let fills_gaps = self.needs_reclaim();
        let mut unfilled: Vec<Vec<(u32, BlockIndex)>> =
            vec![Vec::new(); self.geometry.groups() as usize];
        for (group, block) in rest {
            let found = blocks[block.0 as usize];
            let erased = match fills_gaps {
                true => programs - self.used_programs(block, found).len() as u32,
                false => programs - found.programs,
            };
            if erased > 0 && !self.is_slc(block) {
                unfilled[group as usize].push((erased, block));
            } else {
                self.restore_closed_block(block, found);
            }
        }
        for mut open in unfilled {
            open.sort_by_key(|&(erased, _)| Reverse(erased));
            let by = match self.collector.copies_to_host {
                true => &FILLED_FURTHER[1..],
                false => &FILLED_FURTHER[..],
            };
            for (place, &(_, block)) in open.iter().enumerate() {
                let found = blocks[block.0 as usize];
                match by.get(place) {
                    Some(&by) => self.fill_further(block, found, by),
                    None => self.restore_closed_block(block, found),
                }
            }
        }
        if !fills_gaps {
            self.pad_gaps(nand, recovery);
        }
    }

    /// Returns the indices of the program units of a block that are not erased, in ascending order.
    fn used_programs(&self, block: BlockIndex, found: FoundBlock) -> Vec<u32> {
        let first = self.geometry.first_unit(block).0;
        let unit = |program| PhysicalUnit(first + program * self.geometry.units_per_program());
        let is_used = |&it: &u32| !matches!(self.media.program_unit(unit(it)), ProgramUnit::Erased);
        (0..found.programs).filter(is_used).collect()
    }

    /// Has stream `by` fill the erased program units of `block`.
    fn fill_further(&mut self, block: BlockIndex, found: FoundBlock, by: BlockState) {
        let used = self.used_programs(block, found);
        let units = used.len() as u32 * self.geometry.units_per_program();
        let empty = self.geometry.units_per_block() - units;
        self.blocks.table_mut().set_block(block, by, found.valid + empty);
        let group = self.geometry.group_of(block);
        let frontier = match by {
            BlockState::OpenForHost => self.placement.frontier_mut(),
            _ => &mut self.collector.frontier,
        };
        frontier.fill_gaps(group, block, &used);
    }

    /// Returns true if an erased program unit lies before a programmed one, in a block that a stream continues.
    fn has_gaps(&self) -> bool {
        self.placement.frontier().has_gaps() || self.collector.frontier.has_gaps()
    }

    /// Pads the program units of copies and of the host that lie in gaps (before others that are programmed),
    /// so that they are sent. Returns true if the flash is busy: program units behind these on the same die
    /// have to wait.
    fn finish_copies_in_gaps(&mut self, context: &mut Context<'_>) -> bool {
        if self.collector.frontier.is_partial() && self.collector.frontier.has_gaps() {
            self.pad_collection_program(context.nand);
        }
        if self.placement.frontier().has_gaps() {
            self.pad_host_program(context);
        }
        !context.nand.is_idle()
    }

    /// Programs padding to the gaps that a power cut has left: erased program units before programmed ones, in
    /// the blocks that streams continue. Returns true if there were any.
    fn pad_gaps(&mut self, nand: &mut ssdlab_nand::Nand, recovery: &mut Recovery) -> bool {
        let inactive = self.streams.iter_mut().flat_map(|it| it.inactive_mut());
        let frontiers = [self.placement.frontier_mut(), &mut self.collector.frontier].into_iter();
        let (mut gaps, mut full) = (Vec::new(), Vec::new());
        for frontier in frontiers.chain(inactive) {
            frontier.give_up_gaps(&mut gaps, &mut full);
        }
        for &gap in &gaps {
            self.program_padding(nand, gap);
        }
        recovery.program_units_padded += gaps.len() as u32;
        for block in full {
            self.blocks.table_mut().close(block, BlockState::Closed);
        }
        !gaps.is_empty()
    }

    fn program_padding(&mut self, nand: &mut ssdlab_nand::Nand, first: PhysicalUnit) {
        let units = self.geometry.units_per_program();
        let number = self.placement.next_number();
        self.counters.program_units_padding += u64::from(units);
        self.counters.programs += 1;
        let block = self.geometry.block_of(first);
        for unit in first.0..first.0 + units {
            self.blocks.table_mut().note_padding(PhysicalUnit(unit), block);
        }
        let spare: OobArea<'_> = self.blocks.table().spare_area(first, units);
        self.media.begin_program(first, spare, number);
        let tag = Tag(kind::PADDING | self.geometry.program_of(first) & kind::NUMBER);
        let program = self.timing.program;
        nand.program(tag, NandProgram { unit: first, units, program, after: None });
    }

    /// Writes again the unit with number `index` of those that were saved from the write buffer. Returns false
    /// if it has to wait for a merge.
    fn restore_unit(&mut self, context: &mut Context<'_>, index: usize, unit: LogicalUnit) -> bool {
        if self.log_blocks.is_some() {
            if !self.begin_log_program(context) {
                return false;
            }
        } else if self.placement.free_units() == 0 {
            self.begin_host_program(context);
        }
        self.placement.admit(1, context.nand.now());
        let physical = self.placement.append();
        self.blocks.table_mut().note_written(physical, unit);
        self.media.restore(index, physical);
        if let Some(old) = self.map.set(unit, physical)
            && self.blocks.table_mut().invalidate_unit(self.geometry.block_of(old))
        {
            self.discard_unsent(old);
        }
        if self.placement.free_units() == 0 {
            self.seal_host_program(context);
        }
        true
    }
}

impl<M: Mapping, D: Media> Ftl<M, D> {
    pub(super) fn restore_closed_block(&mut self, block: BlockIndex, found: FoundBlock) {
        let is_slc = self.is_slc(block);
        let block_table = self.blocks.table_mut();
        block_table.set_block(block, BlockState::Closed, found.valid);
        if is_slc {
            block_table.mark_separate(block);
        }
        block_table.close(block, BlockState::Closed);
    }

    /// Returns the first unit of the padding program unit that recovery programs as `tag`.
    pub(super) fn padding_unit_of(&self, tag: Tag) -> PhysicalUnit {
        PhysicalUnit((tag.0 & kind::NUMBER) * self.geometry.units_per_program())
    }
}
