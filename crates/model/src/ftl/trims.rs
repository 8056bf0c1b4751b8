//! Execution of a trim: the map forgets units, and what waited for data that the trim discards waits for its record.

use super::host::RequestTag;
use super::placement::WaitingWrite;
use super::writes::Unsent;
use super::{Context, Ftl};
use crate::mapping::Mapping;
use crate::media::Media;
use crate::units::LogicalUnit;

impl<M: Mapping, D: Media> Ftl<M, D> {
    /// Executes a trim of `units` units from `first` on, and answers it, or begins to update the map pages on flash that
    /// it changes.
    pub(super) fn trim(
        &mut self,
        context: &mut Context<'_>,
        tag: RequestTag,
        first: LogicalUnit,
        units: u32,
    ) {
        let is_ignored = !self.trims;
        self.counters.host_trim_units += u64::from(units);
        if units == 0 || is_ignored {
            let now = context.nand.now();
            return self.answer_other(context, tag, now);
        }
        self.reads.invalidate(first, units, &mut self.counters);
        self.media.trimmed(first, units);
        let (mut forgotten, mut from_copies, mut from_written) = (false, false, false);
        for unit in first.0..first.0 + units {
            if let Some(old) = self.map.clear(LogicalUnit(unit)) {
                forgotten = true;
                if let Some(deferred) = &mut self.deferred_trims {
                    deferred.mark(LogicalUnit(unit), old);
                }
                if self.blocks.table_mut().invalidate_unit(self.geometry.block_of(old)) {
                    let unsent = self.discard_unsent(old);
                    from_copies |= unsent == Some(Unsent::Copy);
                    from_written |= unsent == Some(Unsent::Written);
                }
            }
        }
        if forgotten {
            self.record_trim(context.nand, first, units);
        }
        if from_copies {
            let pages = self.trims_before_erase(context.nand);
            self.collector.await_trims(pages);
        }
        // A reclaimed block may wait for new data of the host that the trim has just discarded. It waits for
        // the trim record instead.
        if from_written && self.collector.awaits_host(self.placement.latest()) {
            let pages = self.trims_before_erase(context.nand);
            self.collector.await_trims_with_host(self.placement.latest(), pages);
        }
        // So does a write that is answered when it is durable and of which a part is in the buffer. If the trim
        // has discarded that data, it is not programmed, and the older data would come back after a power cut.
        let is_begun = |write: &mut WaitingWrite| write.program.is_some();
        if from_written && self.placement.first_waiting().is_some_and(is_begun) {
            let pages = self.trims_before_erase(context.nand);
            let write = self.placement.first_waiting().expect("it was there a moment ago");
            write.trim_pages = write.trim_pages.max(pages);
        }
        let now = context.nand.now();
        if self.map.cache().is_some() {
            self.begin_progress(tag, now);
            return self.update_trimmed_map_pages(context.nand, tag, first, units);
        }
        self.answer_other(context, tag, now);
    }
}
