//! Timing and placement that differ from block to block or over time: SLC mode and its cache, pages of a word
//! line, retention age, write streams, thermal throttling.

use ssdlab_nand::Nand;

use super::host::RequestTag;
use super::{Context, Ftl};
use crate::mapping::Mapping;
use crate::media::Media;
use crate::slc::{SlcParameters, WhenFull};
use crate::streams::StreamId;
use crate::units::{BlockIndex, Instant, LogicalUnit, Nanoseconds, PhysicalUnit};

/// A rest works out the ages of data anew if they are out of date by this much, or by its own length if that is
/// less.
const RETENTION_STEP: Nanoseconds = Nanoseconds::from_secs(3600);

impl<M: Mapping, D: Media> Ftl<M, D> {
    /// Returns true if `block` is in SLC mode.
    #[inline(always)]
    pub(super) fn is_slc(&self, block: BlockIndex) -> bool {
        self.slc.as_ref().is_some_and(|slc| slc.holds(block))
    }

    /// Notes the heat of the data that a command moves, and keeps the controller busy longer while the drive is
    /// too hot.
    #[inline(never)]
    pub(super) fn throttle_if_hot(&mut self, nand: &mut Nand, tag: RequestTag) {
        if let Some(thermal) = &mut self.thermal {
            let longer = thermal.note(nand.now(), self.requests.moved(tag));
            if longer > Nanoseconds::ZERO {
                nand.hold_controller(longer);
            }
        }
    }

    /// Returns the time that sensing the page of `unit` takes.
    #[inline(always)]
    pub(super) fn page_read_of(&self, unit: PhysicalUnit) -> Nanoseconds {
        match self.page_reads.differ() || self.slc.is_some() || self.retention.is_some() {
            true => self.page_read_by_place(unit),
            false => self.timing.page_read,
        }
    }

    #[inline(never)]
    fn page_read_by_place(&self, unit: PhysicalUnit) -> Nanoseconds {
        let of_page = self.page_reads.of(unit, &self.geometry).unwrap_or(self.timing.page_read);
        self.page_read_in(self.geometry.block_of(unit), of_page)
    }

    /// Returns the time that sensing a page of `block` takes. `otherwise` is that time if the data is fresh and
    /// the block is not in SLC mode.
    fn page_read_in(&self, block: BlockIndex, otherwise: Nanoseconds) -> Nanoseconds {
        let fresh = match &self.slc {
            Some(slc) if slc.holds(block) => slc.page_read(),
            _ => otherwise,
        };
        let longer = self.retention.as_ref().map_or(Nanoseconds::ZERO, |it| it.retry_time(block));
        fresh + longer
    }

    /// Returns the time that `senses` senses for copies take, one of which is of the page of `unit`. If all
    /// pages of a word line are read in one go, each sense takes their mean.
    #[inline(always)]
    pub(super) fn page_reads_of(&self, unit: PhysicalUnit, senses: u32) -> Nanoseconds {
        match self.collector.reads_word_lines {
            false => self.page_read_of(unit) * u64::from(senses),
            true => {
                let block = self.geometry.block_of(unit);
                self.page_read_in(block, self.timing.page_read) * u64::from(senses)
            }
        }
    }

    /// Returns the time that programming a program unit of `block` takes.
    #[inline(always)]
    pub(super) fn program_of(&self, block: BlockIndex) -> Nanoseconds {
        match &self.slc {
            Some(slc) if slc.holds(block) => slc.program(),
            _ => self.timing.program,
        }
    }

    /// Notes that the host's stream, or that of copies, has begun `block`.
    #[inline(always)]
    pub(super) fn note_block_begun(&mut self, nand: &Nand, block: BlockIndex, by_host: bool) {
        if let Some(retention) = &mut self.retention {
            let block_table = self.blocks.table();
            let now = Nanoseconds::new(nand.now().nanos());
            let clock = retention.note_begun(block, now, |block| block_table.erases(block));
            self.media.block_begun(block, clock);
        }
        if let Some(streams) = &mut self.streams
            && streams.note_begun(block, by_host)
        {
            self.blocks.table_mut().mark_separate(block);
        }
    }

    /// Works out the age of data after a rest of `duration` until `until`, if the ages known are too old.
    pub(super) fn update_ages_when_idle(&mut self, until: Instant, duration: Nanoseconds) {
        if let Some(retention) = &mut self.retention {
            let block_table = self.blocks.table();
            let now = Nanoseconds::new(until.nanos());
            retention.update_if_due(now, RETENTION_STEP.min(duration), |block| {
                block_table.erases(block)
            });
        }
    }

    /// Makes the stream of a write of `first` the active one: the stream that the host's hint names, or else
    /// the one that the drive guesses.
    #[inline(always)]
    pub(super) fn choose_stream(&mut self, first: LogicalUnit, hint: Option<StreamId>) {
        if let Some(streams) = &mut self.streams {
            let old = self.map.get(first).map(|old| self.geometry.block_of(old));
            let stream = hint.unwrap_or_else(|| streams.guess(old));
            self.placement.write_to(streams, stream);
        }
    }

    /// Makes a stream that has data in its program unit being filled the active one. Returns false if there is
    /// none.
    pub(super) fn choose_partial_stream(&mut self) -> bool {
        if self.placement.is_partial() || self.select_partial_group() {
            return true;
        }
        if let Some(streams) = &mut self.streams
            && let Some(partial) = streams.partial_inactive()
        {
            self.placement.write_to(streams, partial);
            return self.placement.is_partial() || self.select_partial_group();
        }
        false
    }

    /// Makes a stream that has begun a program unit, which may be empty, the active one. Returns false if there
    /// is none.
    pub(super) fn choose_begun_stream(&mut self) -> bool {
        if self.placement.free_units() > 0 || self.select_begun_group() {
            return true;
        }
        if let Some(streams) = &mut self.streams
            && let Some(begun) = streams.begun_inactive()
        {
            self.placement.write_to(streams, begun);
            return self.placement.free_units() > 0 || self.select_begun_group();
        }
        false
    }

    /// Selects a group of dies whose program unit has free units, of those that the active stream does not fill now.
    /// Returns false if there is none.
    fn select_begun_group(&mut self) -> bool {
        let group = self.placement.frontier().begun_group();
        group.inspect(|&group| self.select_host_group(group)).is_some()
    }

    /// Selects a group of dies whose program unit holds units, of those that the active stream does not fill now.
    /// Returns false if there is none.
    fn select_partial_group(&mut self) -> bool {
        let group = self.placement.frontier().partial_group();
        group.inspect(|&group| self.select_host_group(group)).is_some()
    }

    // ----- the pseudo-SLC cache

    /// Returns true if the next block of the host's stream is to be in SLC mode. Folds a block of the cache
    /// first if that is necessary.
    pub(super) fn makes_space_in_cache(&mut self, context: &mut Context<'_>) -> bool {
        let Some(slc) = &self.slc else {
            return false;
        };
        let SlcParameters { when_full, .. } = *slc.parameters();
        if self.has_space_in_cache() {
            return true;
        }
        if when_full == WhenFull::Direct {
            return false;
        }
        self.fold_one(context);
        self.has_space_in_cache()
    }

    fn has_space_in_cache(&self) -> bool {
        let Some(slc) = &self.slc else { return false };
        let SlcParameters { blocks, .. } = *slc.parameters();
        let low_water = self.collector.low_water + self.collector.reserve + 1;
        slc.in_use() < blocks
            && (slc.reserved() > 0 || self.blocks.free() > low_water)
            && self.blocks.free() > 0
    }

    /// Folds one block of the cache now, and has it erased.
    fn fold_one(&mut self, context: &mut Context<'_>) {
        let is_folding = self.collector.victim.is_some_and(|victim| self.is_slc(victim.block));
        let before = self.counters.slc_erases;
        if !is_folding {
            self.complete_victim(context);
            if !self.begin_fold(context.nand) {
                return;
            }
        }
        self.complete_victim(context);
        while self.counters.slc_erases == before && self.collector.reclaimed() > 0 {
            self.free_oldest_reclaimed(context);
        }
    }

    /// Makes a full block of the cache the victim. Returns false if there is none.
    pub(super) fn begin_fold(&mut self, nand: &mut Nand) -> bool {
        if self.slc.is_none() {
            return false;
        }
        let victim = self.blocks.table_mut().take_separate_victim();
        if let Some((block, valid)) = victim {
            self.begin_victim(nand, block, valid);
        }
        victim.is_some()
    }

    /// Returns true if collection for free blocks begins with blocks of the cache: a dynamic cache gives back
    /// the blocks that the drive needs.
    pub(super) fn collects_cache_first(&self) -> bool {
        self.slc.as_ref().is_some_and(|slc| slc.is_borrowing())
    }
}
