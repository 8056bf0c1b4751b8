//! Garbage collection: choice of the victim, pacing, and erasing of reclaimed blocks.
//!
//! The drive's policy chooses the victim (see `policy`). Collection starts when fewer than `low_water` blocks
//! are free and keeps pace with the host: while the host fills as many units as the victim will yield, all
//! valid units of the victim are moved. A victim is erased only after every copy of its units is programmed,
//! and after the new data of its overwritten units is.

use std::ops::Range;

use ssdlab_nand::{CopyNumber, EraseId, Nand, ProgramUnit, Tag};

use super::collector::{CREDIT_SHIFT, Pace, Reclaimed, Victim};
use super::wrappers::NoHost;
use super::{Context, Ftl, kind};
use crate::bad_blocks::Failure;
use crate::block_table::BlockState;
use crate::mapping::Mapping;
use crate::media::Media;
use crate::units::{BlockIndex, DieIndex, Nanoseconds};

/// Pace of collection, in quarters of the copies that a unit of the host costs; at this pace collection keeps
/// up. Each block below the low water adds one quarter, `CATCH_UP_MOST` at most, which is four times the
/// pace. Both are assumed: makers say only that collection gets faster as free blocks run out. With smaller
/// values the drive falls to its reserve, where the host waits for whole blocks; that collection keeps up in
/// the end does not depend on them.
const PACE: u32 = 4;
const CATCH_UP_MOST: u32 = 12;

impl<M: Mapping, D: Media> Ftl<M, D> {
    /// Returns the number of blocks that are free or will be as soon as their copies are durable, without those
    /// reserved for the SLC cache.
    #[inline(always)]
    pub(super) fn free_or_reclaimed_blocks(&self) -> u32 {
        let reserved = self.slc.as_ref().map_or(0, |slc| slc.reserved());
        let blocks = match self.placement.is_static() {
            true => self.scarcest_group().1 * self.geometry.groups(),
            false => self.blocks.free() + self.collector.reclaimed(),
        };
        blocks.saturating_sub(reserved)
    }

    /// Collects as much as is due for `units` units that the host has just written.
    #[inline(always)]
    pub(super) fn collect_for(&mut self, context: &mut Context<'_>, units: u32) {
        let pace = self.collector.pace;
        let begins_below = match pace {
            Pace::Ratio { until, .. } => until,
            Pace::Victim | Pace::Burst { .. } => self.collector.low_water,
        };
        if self.collector.victim.is_some() || self.free_or_reclaimed_blocks() < begins_below {
            if self.log_blocks.is_some() {
                // Merges of log blocks free blocks instead.
                return;
            }
            let copied = self.counters.flash_page_reads_collection;
            match pace {
                Pace::Victim => self.keep_pace(context, units, 0, begins_below),
                Pace::Ratio { copies, .. } => self.keep_pace(context, units, copies, begins_below),
                Pace::Burst { until } => self.collect_burst(context, until),
            }
            self.hold_controller_for_copies(context.nand, copied);
        }
    }

    /// Keeps the controller busy with the pages that were copied since the counter of them stood at `before`. A drive
    /// at rest has the time to copy, so copies occupy the controller only while the host writes.
    #[inline(always)]
    fn hold_controller_for_copies(&mut self, nand: &mut Nand, before: u64) {
        let pages = self.counters.flash_page_reads_collection - before;
        let longer = self.collector.controller_time(pages);
        if longer > Nanoseconds::ZERO {
            nand.hold_controller(longer);
        }
    }

    /// Copies as much as is due for `units` units of the host, at least `least_copies` copies for each (times
    /// 2^[`CREDIT_SHIFT`]), until `until` blocks are free or will be.
    fn keep_pace(&mut self, context: &mut Context<'_>, units: u32, least_copies: i64, until: u32) {
        let mut units = i64::from(units);
        loop {
            let low_water = self.collector.low_water;
            let is_ahead = least_copies > 0 && self.free_or_reclaimed_blocks() >= low_water;
            if is_ahead && !self.has_worthwhile_victim(context.nand) {
                return;
            }
            let Some(victim) = self.current_victim(context.nand) else { return };
            let copies = if is_ahead {
                least_copies
            } else {
                // A drive that has fallen behind its low water collects a little faster.
                let missing = low_water.saturating_sub(self.free_or_reclaimed_blocks());
                let behind = match self.placement.is_static() {
                    true => (missing / self.geometry.groups()).saturating_sub(1),
                    false => missing.saturating_sub(1),
                };
                let pace = i64::from(PACE + behind.min(CATCH_UP_MOST));
                (victim.copies_per_unit * pace / i64::from(PACE)).max(least_copies)
            };
            self.collector.credit += units * copies;
            units = 0;
            let mut finished = self.finish_victim_if_empty(context.nand);
            while !finished && self.collector.credit > 0 {
                let moved = self.collect_program_unit(context);
                self.collector.credit -= i64::from(moved) << CREDIT_SHIFT;
                finished = self.finish_victim_if_empty(context.nand);
            }
            if !finished {
                return;
            }
            if self.free_or_reclaimed_blocks() >= until {
                self.collector.credit = self.collector.credit.min(0);
                return;
            }
        }
    }

    /// Collects without a pause until `until` blocks are free or will be, or as many victims were collected as
    /// the drive has blocks. In the latter case nothing more is to be gained now, and the rest is left to the
    /// next burst.
    fn collect_burst(&mut self, context: &mut Context<'_>, until: u32) {
        for _ in 0..self.geometry.blocks() {
            if self.free_or_reclaimed_blocks() >= until
                || self.current_victim(context.nand).is_none()
            {
                return;
            }
            self.complete_victim(context);
        }
    }

    /// Moves all valid units that are left on the victim, if there is one.
    pub(super) fn complete_victim(&mut self, context: &mut Context<'_>) {
        while !self.finish_victim_if_empty(context.nand) {
            self.collect_program_unit(context);
        }
    }

    /// Returns the victim being collected, or else begins the next one; `None` if no block can be collected.
    fn current_victim(&mut self, nand: &mut Nand) -> Option<Victim> {
        if self.collector.victim.is_none() {
            let (block, valid) = self.take_victim()?;
            self.begin_victim(nand, block, valid);
        }
        self.collector.victim
    }

    fn take_victim(&mut self) -> Option<(BlockIndex, u32)> {
        self.take_block_to_level().or_else(|| self.take_victim_to_collect())
    }

    /// Takes the block that is to be moved to level wear, if one is due. Such a block may be full of valid
    /// units, so it is moved only if there are places for a whole block even after a power cut.
    fn take_block_to_level(&mut self) -> Option<(BlockIndex, u32)> {
        let is_due = self.blocks.is_levelling_due()
            && self.free_units_after_cut() >= self.geometry.units_per_block();
        if is_due { self.blocks.take_block_to_level() } else { None }
    }

    fn take_victim_to_collect(&mut self) -> Option<(BlockIndex, u32)> {
        match &self.streams {
            Some(streams) if streams.keeps_hot_blocks() => {
                let from_hot = streams.collects_hot();
                self.blocks.table_mut().take_victim_of(from_hot)
            }
            _ if self.collects_cache_first() => self.blocks.table_mut().take_victim_of(true),
            _ if self.placement.is_static() => self.take_victim_of_group(),
            _ => self.take_victim_that_fits(None),
        }
    }

    /// Takes the policy's next victim, or, if a power cut could leave too few places for its valid units, the
    /// next one for which the places are enough. With the greedy policy no block has fewer valid units.
    /// If `within` is a range of blocks, the policy chooses among these.
    pub(super) fn take_victim_that_fits(
        &mut self,
        within: Option<&Range<u32>>,
    ) -> Option<(BlockIndex, u32)> {
        let (block, valid) = self.blocks.table_mut().take_victim(within)?;
        if self.collector.is_greedy {
            return Some((block, valid));
        }
        let room = self.free_units_after_cut();
        if valid <= room {
            return Some((block, valid));
        }
        let block_table = self.blocks.table_mut();
        let Some(other) = block_table.take_victim_below(room + 1) else {
            return Some((block, valid));
        };
        block_table.put_back_victim(block);
        Some(other)
    }

    /// Returns the number of units that can be copied even if a power cut tears a program on each die that the
    /// copies go to: the victim is needed again then, and is the only block that can be erased. `u32::MAX`
    /// while there are two blocks to copy to.
    fn free_units_after_cut(&self) -> u32 {
        let erased = self.blocks.free() + self.collector.reclaimed();
        if erased > 1 {
            return u32::MAX;
        }
        let torn = self.geometry.units_per_program() * self.geometry.stripe();
        // Places in the host's open block do not count: the host may fill them meanwhile.
        let open = self.collector.frontier.free_units_in_blocks();
        (open + erased * self.geometry.units_per_block()).saturating_sub(torn)
    }

    /// Returns the number of units that stay empty when collection goes on to `victim`: the rest of the program
    /// unit being filled with copies, if the copies of `victim` belong to another stream or, with static
    /// allocation, to another group of dies.
    fn padding_before(&self, victim: BlockIndex) -> u32 {
        let levels = self.blocks.is_levelling_victim(victim);
        let is_other_stream = self
            .streams
            .as_ref()
            .is_some_and(|streams| streams.copies_of(victim, levels) != streams.active_of_copies());
        let is_other = is_other_stream || self.copies_change_group(victim);
        if self.collector.frontier.is_partial() && is_other {
            self.collector.frontier.free_units()
        } else {
            0
        }
    }

    /// Directs the copies from `victim`, which has `valid` valid units, to the blocks of its stream. If the
    /// host waits for a block and the victim would yield no more than the padding that this costs, the stream
    /// is not changed: collection could go on for ever.
    fn choose_copies_stream(&mut self, nand: &mut Nand, victim: BlockIndex, valid: u32) {
        let padding = self.padding_before(victim);
        let levels = self.blocks.is_levelling_victim(victim);
        let is_copying = self.collector.frontier.is_partial();
        let stays = self.collector.is_urgent
            && is_copying
            && valid + padding >= self.geometry.units_per_block()
            && !levels;
        let mut changes = self.copies_change_group(victim);
        if let Some(streams) = &mut self.streams {
            streams.note_victim(victim);
            changes |= streams.copies_of(victim, levels) != streams.active_of_copies();
        }
        if !changes || stays {
            return;
        }
        if is_copying {
            self.pad_collection_program(nand);
        }
        if let Some(streams) = &mut self.streams {
            let to = streams.copies_of(victim, levels);
            streams.switch_copies(&mut self.collector.frontier, to);
        }
        if self.placement.is_static() {
            self.collector.frontier.select_group(self.geometry.group_of(victim));
        }
    }

    pub(super) fn begin_victim(&mut self, nand: &mut Nand, block: BlockIndex, valid: u32) {
        self.choose_copies_stream(nand, block, valid);
        if self.placement.keeps_any_of(block) {
            self.finalize_all(&mut Context { nand, host: &mut NoHost });
        }
        self.blocks.table_mut().set_state(block, BlockState::Victim);
        self.counters.collections += 1;
        let levels = self.blocks.is_levelling_victim(block);
        if levels {
            self.counters.levelled_blocks += 1;
            self.counters.levelled_units += u64::from(valid);
            self.blocks.note_levelled();
        }
        let gain = self.geometry.units_per_block() - valid;
        assert!(gain > 0 || levels || !self.collector.seeks_gain, "some block has room to gain");
        // A block that is moved to level wear is moved while the host fills one block.
        let gain = if levels { self.geometry.units_per_block() } else { gain };
        self.prefetch_for_victim(block);
        // A block that yields nothing is moved while the host writes one unit.
        let copies_per_unit = (i64::from(valid) << CREDIT_SHIFT) / i64::from(gain.max(1));
        self.collector.carry_credit_to(copies_per_unit);
        self.collector.victim = Some(Victim { block, copies_per_unit, program: 0 });
    }

    /// Returns true if a victim is being collected, or one is begun that yields free space or levels wear. For
    /// callers that have something else to do otherwise.
    pub(super) fn has_worthwhile_victim(&mut self, nand: &mut Nand) -> bool {
        if self.collector.victim.is_some() {
            return true;
        }
        if let Some((block, valid)) = self.take_block_to_level() {
            self.begin_victim(nand, block, valid);
            return true;
        }
        self.begin_victim_with_gain(nand)
    }

    /// Begins to collect a block that yields more units than padding takes. Returns true if there is one. No
    /// wear is levelled here: the blocks that levelling fills end in padding, and to collect padding wears
    /// blocks anew.
    pub(super) fn begin_victim_with_gain(&mut self, nand: &mut Nand) -> bool {
        let Some((block, valid)) = self.take_victim_to_collect() else { return false };
        // In urgent collection no padding is spent that the victim does not yield (see `choose_copies_stream`).
        let padding = if self.collector.is_urgent { 0 } else { self.padding_before(block) };
        if valid + padding < self.geometry.units_per_block() {
            self.begin_victim(nand, block, valid);
            return true;
        }
        self.blocks.table_mut().put_back_victim(block);
        if self.collector.seeks_gain {
            return false;
        }
        // Nothing has to be collected now, so the victim need not be the policy's first.
        let pads = (self.streams.is_some() || self.placement.is_static())
            && self.collector.frontier.is_partial()
            && !self.collector.is_urgent;
        let padding = if pads { self.collector.frontier.free_units() } else { 0 };
        let below = self.geometry.units_per_block() - padding;
        let found = self.blocks.table_mut().take_victim_below(below);
        if let Some((block, valid)) = found {
            self.begin_victim(nand, block, valid);
        }
        found.is_some()
    }

    /// Queues the victim to be erased if no unit on it is valid any more. Returns true if no victim is left.
    pub(super) fn finish_victim_if_empty(&mut self, nand: &mut Nand) -> bool {
        let Some(victim) = self.collector.victim else {
            return true;
        };
        if self.blocks.table().valid(victim.block) > 0 {
            return false;
        }
        self.collector.victim = None;
        // Data that the host has overwritten may be in the buffer only. Once the block is erased, a power cut
        // would leave neither the new data nor the old. With copies in the host's block, the copies are in its
        // program units.
        let waits = self.placement.is_volatile() || self.collector.copies_to_host;
        let host = if waits { self.placement.numbers_in_flight().end } else { 0 };
        let own = self.placement.end_of_block(victim.block);
        let trims = self.trims_before_erase(nand);
        let copies = self.collector.copies.next();
        let last = self.collector.copies.latest();
        let block = victim.block;
        let runs = self.compactor.next();
        let reclaimed = Reclaimed { block, copies, last, host, own, trims, runs, erase: None };
        self.collector.add_reclaimed(reclaimed);
        self.end_map_batch();
        self.issue_safe_erases(nand);
        true
    }

    /// Moves the valid units of the victim's next program unit; returns their number.
    pub(super) fn collect_program_unit(&mut self, context: &mut Context<'_>) -> u32 {
        let victim = self.collector.victim.as_mut().expect("a victim was chosen");
        let (block, program) = (victim.block, victim.program);
        victim.program += 1;
        let moved = self.move_program_unit(context, block, program);
        self.write_moved_map_pages(context.nand);
        self.blocks.table_mut().move_units(block, moved);
        if self.is_slc(block) {
            self.counters.program_units_folded += u64::from(moved);
        }
        moved
    }

    /// Makes sure that the host can take a block while collection keeps its reserve. Collects at once if pacing
    /// was not enough.
    pub(super) fn ensure_free_block(&mut self, context: &mut Context<'_>) {
        let reserved = self.slc.as_ref().map_or(0, |slc| slc.reserved());
        if self.placement.is_static() {
            self.reclaim_block_of_group(context);
        }
        self.ensure_free_blocks(context, self.collector.reserve + reserved);
    }

    /// Makes sure that the SLC cache can take a block; it may take those reserved for the cache.
    pub(super) fn ensure_free_block_of_cache(&mut self, context: &mut Context<'_>) {
        self.ensure_free_blocks(context, self.collector.reserve);
    }

    pub(super) fn ensure_free_blocks(&mut self, context: &mut Context<'_>, kept: u32) {
        if self.blocks.free() <= kept {
            let copied = self.counters.flash_page_reads_collection;
            self.collector.is_urgent = true;
            self.reclaim_free_blocks(context, kept);
            self.collector.is_urgent = false;
            self.hold_controller_for_copies(context.nand, copied);
        }
    }

    #[inline(never)]
    fn reclaim_free_blocks(&mut self, context: &mut Context<'_>, kept: u32) {
        while self.blocks.free() <= kept {
            // A reclaimed block may wait for a program unit of copies that is not full. Collecting on fills
            // that program unit; padding it would cost over-provisioning, which is short. If collecting on
            // would only move blocks full of valid units, padding is the last resort.
            let has_reclaimed = self.collector.reclaimed() > 0;
            let nand = &mut *context.nand;
            if self.is_oldest_reclaimed_copied()
                || has_reclaimed && !self.has_worthwhile_victim(nand)
            {
                self.free_oldest_reclaimed(context);
            } else if self.current_victim(nand).is_some() {
                if !self.finish_victim_if_empty(context.nand) {
                    self.collect_program_unit(context);
                }
            } else {
                return;
            }
        }
    }

    /// Frees the oldest reclaimed block: seals the program units that its erase waits for, and announces the
    /// erase.
    ///
    /// # Panics
    /// Panics if there is no reclaimed block: collection has failed its duty.
    pub(super) fn free_oldest_reclaimed(&mut self, context: &mut Context<'_>) {
        let &Reclaimed { block, copies, host, own, .. } =
            self.collector.oldest_reclaimed().expect("a block can be erased");
        if copies == self.collector.copies.next() && self.collector.frontier.is_partial() {
            self.pad_collection_program(context.nand);
        }
        if host == self.placement.numbers_in_flight().end {
            self.pad_host_program(context);
        }
        self.finalize_before(context, host.max(own));
        let erase = self.free_after_erase(context.nand, block);
        self.collector.note_announced(erase);
    }

    /// Frees `block`: announces its erase to the medium and to the flash engine. Returns the erase.
    pub(super) fn free_after_erase(&mut self, nand: &mut Nand, block: BlockIndex) -> EraseId {
        self.media.begin_erase(block);
        self.free_announced(nand, block)
    }

    /// Frees `block`, whose erase was announced to the medium before: announces the erase to the flash engine.
    /// Returns the erase.
    pub(super) fn free_announced(&mut self, nand: &mut Nand, block: BlockIndex) -> EraseId {
        self.counters.erases += 1;
        if let Some(slc) = &mut self.slc {
            self.counters.slc_erases += u64::from(slc.note_erased(block));
        }
        let reserve = self.collector.reserve;
        let (erase, failure) = self.blocks.free_after_erase(nand, &self.geometry, block, reserve);
        self.counters.failed_blocks += u64::from(failure.is_some());
        self.counters.retired_blocks += u64::from(failure == Some(Failure::Retired));
        erase
    }

    /// Notes that an erase has completed on one die. If the block failed, the failure is recorded.
    pub(super) fn erased_on_die(&mut self, nand: &mut Nand, erase: EraseId, die: DieIndex) {
        let Some(block) = self.blocks.being_erased(erase) else { return };
        if self.blocks.complete_on_die(erase, die) {
            self.media.erase_failed(block, die);
            self.record_next_failure(nand);
        } else {
            self.media.erased(block, die);
        }
    }

    /// Programs the record of the next failure, if its erase has completed.
    fn record_next_failure(&mut self, nand: &mut Nand) {
        if let Some(die) = self.blocks.begin_record() {
            let (unit, units) = (self.unit_on(die), self.geometry.units_per_page());
            let program = self.metadata.program();
            let record = ProgramUnit { unit, units, program, after: None };
            nand.program(Tag(kind::BAD_BLOCK), record);
        }
    }

    /// Notes that the record of a failure is programmed: the block's replacement can be programmed.
    pub(super) fn failure_recorded(&mut self, nand: &mut Nand) {
        let record = self.blocks.end_record(nand);
        self.media.bad_block_recorded(record);
        self.record_next_failure(nand);
    }

    /// Issues the erases of reclaimed blocks, oldest first, as far as the data that replaces theirs is durable.
    #[inline(always)]
    pub(super) fn issue_safe_erases(&mut self, nand: &mut Nand) {
        while let Some(&Reclaimed { block, copies, host, own, trims, runs, erase, .. }) =
            self.collector.next_to_erase()
        {
            let is_safe = self.collector.copies.are_complete_before(copies)
                && self.placement.numbers_in_flight().start >= host
                && self.placement.are_complete_in(block, own)
                && self.are_trims_durable(trims)
                && self.compactor.are_complete_before(runs);
            if !is_safe {
                return;
            }
            let erase = erase.unwrap_or_else(|| self.free_after_erase(nand, block));
            self.collector.pop_next_to_erase();
            nand.erase(erase, self.timing.erase);
            self.reserve.note_issued(nand);
        }
    }

    /// Raises the priority of the copies that `erase` waits for, if it was not issued: the host is about to
    /// program to the block.
    pub(super) fn expedite_erase(&mut self, nand: &mut Nand, erase: EraseId) {
        let erase = self.blocks.erase_behind(erase);
        if let Some(Reclaimed { last: Some(last), .. }) = self.collector.announced_as(erase) {
            nand.prioritise_copies(*last);
        }
    }

    #[inline(always)]
    pub(super) fn copies_programmed(&mut self, context: &mut Context<'_>, number: CopyNumber) {
        let (copy, is_later) = self.collector.copies.end(number);
        self.media.programmed(copy.first);
        self.map_changed(context.nand, copy.units, copy.number, None);
        if is_later {
            self.issue_safe_erases(context.nand);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::ftl::Ssd;
    use crate::ssd::tests::{self, small_configuration};
    use crate::units::{Instant, Nanoseconds};

    #[test]
    fn the_host_waits_for_a_controller_that_copies() {
        let [without, with] = [0, 400].map(|micros| {
            let changed = [("collection.copy_occupancy", &*format!("{micros}us"))];
            let ssd = Ssd::new(&small_configuration(&changed)).expect("a sound drive");
            let units = ssd.geometry().logical_units();
            tests::worn(ssd, units)
        });
        let copied = |ssd: &Ssd| ssd.counters().flash_page_reads_collection;
        // When copies are made depends a little on how fast the host writes.
        assert!(copied(&without).abs_diff(copied(&with)) < copied(&with) / 100);
        let took = |ssd: &Ssd| ssd.now().since(Instant::START);
        let copying = Nanoseconds::from_micros(400) * copied(&with);
        assert!(took(&with) > copying && took(&with) <= took(&without) + copying);
        assert!(copying > took(&without), "{copying} of {}", took(&with));
    }
}
