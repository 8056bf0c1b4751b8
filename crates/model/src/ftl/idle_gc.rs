//! Idle time: programming the contents of the buffer, folding, and background garbage collection.

use ssdlab_nand::Tag;

use super::wrappers::NoHost;
use super::{Context, Ftl, Ssd, kind};
use crate::mapping::Mapping;
use crate::media::Media;
use crate::units::{Instant, Nanoseconds};

/// Idle time of the drive.
#[derive(Clone, Debug)]
pub(super) struct IdleTime {
    idle_before_flush: Nanoseconds,
    /// Latest idle period: its start, its end, and the number of requests executed by then.
    latest: Option<(Instant, Instant, u64)>,
}

impl IdleTime {
    pub(super) fn new(idle_before_flush: Nanoseconds) -> IdleTime {
        IdleTime { idle_before_flush, latest: None }
    }

    /// Returns the start of the idle period that a rest from `from` until `until` belongs to, and the moment of
    /// the rest at which the drive has been idle long enough to program the contents of its buffer. That moment
    /// is `from` if it was earlier, and `None` if it is later than `until`. A rest that follows another one,
    /// with no request in between, continues its idle period.
    fn idle_between(
        &mut self,
        from: Instant,
        until: Instant,
        requests: u64,
    ) -> (Instant, Option<Instant>) {
        let continued = self.latest.filter(|it| it.1 == from && it.2 == requests);
        let since = continued.map_or(from, |it| it.0);
        self.latest = Some((since, until, requests));
        let idle = since + self.idle_before_flush;
        (since, (idle <= until).then_some(idle.max(from)))
    }

    /// Forgets the latest idle period, as at power-on.
    pub(super) fn reset(&mut self) {
        self.latest = None;
    }
}

/// An idle period in progress.
#[derive(Clone, Copy, Debug)]
pub struct IdlePeriod {
    until: Instant,
    duration: Nanoseconds,
    has_updated_ages: bool,
}

impl IdlePeriod {
    /// Returns the moment at which the period ends.
    pub fn until(&self) -> Instant {
        self.until
    }
}

impl<M: Mapping, D: Media> Ssd<M, D> {
    /// Leaves the drive idle from `from` for `duration`. The drive completes its pending work, programs the
    /// contents of its buffer, and collects blocks ahead of need. It does not put valid data in a better order:
    /// no drive that was tested did that.
    ///
    /// # Panics
    /// Panics if a request is in flight.
    pub fn rest(&mut self, from: Instant, duration: Nanoseconds) {
        let mut period = self.begin_idle(from, duration);
        while self.step_idle(&mut period) {}
    }

    /// Begins to leave the drive idle from `from` for `duration`, event by event: see [`Ssd::rest`].
    pub fn begin_idle(&mut self, from: Instant, duration: Nanoseconds) -> IdlePeriod {
        let until = from + duration;
        let (since, idle) =
            self.ftl.idle_time.idle_between(from, until, self.ftl.counters.requests);
        if let Some(deferred) = &mut self.ftl.deferred_trims {
            deferred.execute_if_due(since, until);
        }
        if let Some(idle) = idle {
            self.nand.set_alarm(idle.max(self.nand.now()), Tag(kind::IDLE));
        }
        IdlePeriod { until, duration, has_updated_ages: false }
    }

    /// Executes the next event of an idle drive. Returns true if there was one.
    ///
    /// # Panics
    /// Panics if a request is in flight.
    pub fn step_idle(&mut self, period: &mut IdlePeriod) -> bool {
        loop {
            if self.single_step(period.until, &mut NoHost) {
                return true;
            }
            if !period.has_updated_ages {
                period.has_updated_ages = true;
                self.ftl.update_ages_when_idle(period.until, period.duration);
            }
            let context = &mut Context { nand: &mut self.nand, host: &mut NoHost };
            if self.ftl.blocks.is_read_only()
                || !context.nand.is_idle()
                || !self.ftl.collect_when_idle(context)
            {
                return false;
            }
        }
    }
}

impl<M: Mapping, D: Media> Ftl<M, D> {
    /// Programs the contents of the buffer, and the trim records.
    pub(super) fn flush_when_idle(&mut self, context: &mut Context<'_>) {
        match self.log_blocks.is_some() {
            // Only the random log is padded: the host may continue the sequential log block.
            true => self.pad_log(context),
            false => self.pad_host_program(context),
        }
        self.make_trims_durable(context.nand);
    }

    /// Folds a block of the SLC cache, or collects a block if fewer are free than an idle drive keeps. Returns
    /// true if it did.
    fn collect_when_idle(&mut self, context: &mut Context<'_>) -> bool {
        if self.log_blocks.is_some() {
            // A drive with log blocks does not merge ahead of need.
            return false;
        }
        let is_folding = self.collector.victim.is_none() && self.begin_fold(context.nand);
        let is_enough = self.free_or_reclaimed_blocks() >= self.collector.high_water;
        // Wear levelling is put off until the host writes: no rest would be long enough.
        let has_victim = is_folding
            || !is_enough
                && (self.collector.victim.is_some() || self.begin_victim_with_gain(context.nand));
        if has_victim {
            self.complete_victim(context);
        }
        has_victim
    }
}
