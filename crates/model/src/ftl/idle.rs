//! Trim, and what a drive does when it is left alone.

use ssdlab_nand::Tag;

use super::host::{Host, RequestTag};
use super::placement::WaitingWrite;
use super::wrappers::Nobody;
use super::writes::Unsent;
use super::{Context, Ftl, Ssd, kind};
use crate::mapping::Mapping;
use crate::media::Media;
use crate::units::{Instant, LogicalUnit, Nanoseconds};

/// Rest of the drive.
#[derive(Clone, Debug)]
pub(super) struct Rest {
    idle_before_flush: Nanoseconds,
    /// The latest rest: since when, until when, and the requests that had come by then.
    latest: Option<(Instant, Instant, u64)>,
}

impl Rest {
    pub(super) fn new(idle_before_flush: Nanoseconds) -> Rest {
        Rest { idle_before_flush, latest: None }
    }

    /// Since when a drive has been idle that is left alone from `from` until `until`, and when it
    /// has been idle for as long as it takes to program what its buffer holds; nothing where that is later, or was before. A rest that follows
    /// another, with no request in between, goes on with it.
    fn idle_between(
        &mut self,
        from: Instant,
        until: Instant,
        requests: u64,
    ) -> (Instant, Option<Instant>) {
        let goes_on = self.latest.filter(|it| it.1 == from && it.2 == requests);
        let since = goes_on.map_or(from, |it| it.0);
        self.latest = Some((since, until, requests));
        let idle = since + self.idle_before_flush;
        (since, (idle <= until).then_some(idle.max(from)))
    }

    /// Forgets the latest rest, as at power-on.
    pub(super) fn begin_anew(&mut self) {
        self.latest = None;
    }
}

/// A rest under way.
#[derive(Clone, Copy, Debug)]
pub struct Resting {
    until: Instant,
    duration: Nanoseconds,
    has_looked_at_ages: bool,
}

impl Resting {
    /// Returns when it is over.
    pub fn until(&self) -> Instant {
        self.until
    }
}

impl<M: Mapping, D: Media> Ssd<M, D> {
    /// Leaves the drive alone from `from` for `duration`: it does what it still has to do, programs what waits
    /// in the buffer, and collects ahead. Nothing that is valid is put in a better order: no drive that was
    /// tested did that.
    ///
    /// # Panics
    /// When a request is under way.
    pub fn rest(&mut self, from: Instant, duration: Nanoseconds) {
        let mut resting = self.begin_rest(from, duration);
        while self.step_at_rest(&mut resting) {}
    }

    /// Begins to leave the drive alone from `from` for `duration`, event by event: see [`Ssd::rest`].
    pub fn begin_rest(&mut self, from: Instant, duration: Nanoseconds) -> Resting {
        let until = from + duration;
        let (since, idle) = self.ftl.rest.idle_between(from, until, self.ftl.counters.requests);
        if let Some(marks) = &mut self.ftl.trim_marks {
            marks.settle(since, until);
        }
        if let Some(idle) = idle {
            self.nand.set_alarm(idle.max(self.nand.now()), Tag(kind::IDLE));
        }
        Resting { until, duration, has_looked_at_ages: false }
    }

    /// Lets the next thing happen of what a drive does that is left alone. Returns whether there was any.
    ///
    /// # Panics
    /// When a request is under way.
    pub fn step_at_rest(&mut self, resting: &mut Resting) -> bool {
        loop {
            if self.step(resting.until, &mut Nobody) {
                return true;
            }
            if !resting.has_looked_at_ages {
                resting.has_looked_at_ages = true;
                self.ftl.look_at_ages_at_rest(resting.until, resting.duration);
            }
            let context = &mut Context { nand: &mut self.nand, host: &mut Nobody };
            if self.ftl.blocks.is_read_only()
                || !context.nand.is_idle()
                || !self.ftl.collect_ahead(context)
            {
                return false;
            }
        }
    }
}

impl<M: Mapping, D: Media> Ftl<M, D> {
    /// Programs what the buffer holds.
    pub(super) fn idle_for_long<H: Host>(&mut self, context: &mut Context<'_, H>) {
        match self.log_blocks.is_some() {
            // The sequence may go on.
            true => self.pad_log(context),
            false => self.pad_host_program(context),
        }
        self.make_trims_durable(context.nand);
    }

    /// Collects a block, if fewer are free than are wanted when the drive is idle; whether it did.
    fn collect_ahead<H: Host>(&mut self, context: &mut Context<'_, H>) -> bool {
        if self.log_blocks.is_some() {
            // It merges nothing that it need not.
            return false;
        }
        let is_folding = self.collector.victim.is_none() && self.begin_fold(context.nand);
        let is_enough = self.blocks_coming() >= self.collector.high_water;
        // To level wear is put off until something is written: no rest would be long enough.
        let has_victim = is_folding
            || !is_enough
                && (self.collector.victim.is_some() || self.begin_victim_with_gain(context.nand));
        if has_victim {
            self.complete_victim(context);
        }
        has_victim
    }

    pub(super) fn trim<H: Host>(
        &mut self,
        context: &mut Context<'_, H>,
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
        self.reads.forget(first, units, &mut self.counters);
        self.media.trimmed(first, units);
        let (mut forgotten, mut from_copies, mut from_written) = (false, false, false);
        for unit in first.0..first.0 + units {
            if let Some(old) = self.map.clear(LogicalUnit(unit)) {
                forgotten = true;
                if let Some(marks) = &mut self.trim_marks {
                    marks.mark(LogicalUnit(unit), old);
                }
                if self.blocks.flash_mut().lose_unit(self.geometry.block_of(old)) {
                    let unsent = self.forget_unsent(old);
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
        // A block may wait to be erased for what the host had written anew, which is now not written at all.
        if from_written && self.collector.awaits_host(self.placement.latest()) {
            let pages = self.trims_before_erase(context.nand);
            self.collector.await_trims_with_host(self.placement.latest(), pages);
        }
        // So may a write that is answered when it is durable, of which the buffer has taken a part: what it has let in is
        // not programmed now, and what lay there before comes back after a power cut.
        let is_begun = |write: &mut WaitingWrite| write.program.is_some();
        if from_written && self.placement.first_waiting().is_some_and(is_begun) {
            let pages = self.trims_before_erase(context.nand);
            let write = self.placement.first_waiting().expect("it was there a moment ago");
            write.trim_pages = write.trim_pages.max(pages);
        }
        let now = context.nand.now();
        if self.map.cache().is_some() {
            self.begin_progress(tag, now);
            return self.look_up_trimmed(context.nand, tag, first, units);
        }
        self.answer_other(context, tag, now);
    }
}
