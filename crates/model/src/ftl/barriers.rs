//! Flush and FUA: requests that wait for program units, journal pages and trim records.

use std::ops::Range;

use super::host::{Command, RequestTag};
use super::{Context, Ftl};
use crate::mapping::Mapping;
use crate::media::Media;
use crate::units::Instant;

/// A request that waits until it is durable.
#[derive(Clone, Debug)]
pub(super) struct Barrier {
    tag: RequestTag,
    /// Host program units that the request waits for.
    programs: Range<u64>,
    /// Journal pages to be programmed once those program units have completed.
    pages: Range<u64>,
    /// The request waits for the pages of trim records before this number.
    trim_pages: u64,
    /// Moment from which the request waits for durability alone.
    ready: Instant,
}

impl<M: Mapping, D: Media> Ftl<M, D> {
    pub(super) fn flush(&mut self, context: &mut Context<'_>, tag: RequestTag) {
        self.counters.flushes += 1;
        let now = context.nand.now();
        if !self.metadata.flush_waits() {
            return self.answer_other(context, tag, now);
        }
        self.pad_host_program(context);
        self.make_trims_durable(context.nand);
        let trim_pages = self.metadata.trim_pages().end;
        self.wait_until_durable(context, tag, self.placement.numbers_in_flight(), trim_pages, now);
    }

    /// Has a request wait for `programs`, for the journal pages of their changes, and for the pages of trim
    /// records before number `trim_pages`. The request has waited for these alone since `ready`.
    #[inline(never)]
    pub(super) fn wait_until_durable(
        &mut self,
        context: &mut Context<'_>,
        tag: RequestTag,
        programs: Range<u64>,
        trim_pages: u64,
        ready: Instant,
    ) {
        let pages = self.metadata.number_journal_pages();
        self.metadata.barriers.push(Barrier { tag, programs, pages, trim_pages, ready });
        self.answer_durable(context);
    }

    /// Notes that something became durable, and resumes the requests and erases that wait for that.
    #[inline(always)]
    pub(super) fn note_durable(&mut self, context: &mut Context<'_>) {
        if self.metadata.has_waiters() {
            self.answer_durable(context);
        }
        self.issue_safe_erases(context.nand);
        if self.log_blocks.is_some() {
            self.resume_log_writes(context);
        }
    }

    #[inline(never)]
    fn answer_durable(&mut self, context: &mut Context<'_>) {
        self.program_full_journal_pages(context.nand);
        let mut place = 0;
        while let Some(barrier) = self.metadata.barriers.get_mut(place) {
            if !self.placement.are_complete(barrier.programs.clone()) {
                place += 1;
                continue;
            }
            let (pages, trim_pages) = (barrier.pages.clone(), barrier.trim_pages);
            let end = pages.end;
            barrier.pages = end..end;
            for page in pages {
                self.program_journal_page(context.nand, page);
            }
            let is_over = self.metadata.journal_pages().start >= end
                && self.metadata.trim_pages().start >= trim_pages
                && self.compactor.is_idle();
            if !is_over || self.map.cache().is_some() && self.awaits_map(place) {
                place += 1;
                continue;
            }
            let Barrier { tag, ready, .. } = self.metadata.barriers.remove(place);
            self.answer_durable_request(context, tag, ready);
        }
    }

    /// Returns true if the request of a barrier also waits for map pages.
    fn awaits_map(&self, place: usize) -> bool {
        let tag = self.metadata.barriers[place].tag;
        self.requests.get(tag).command != Command::Flush && self.traffic.awaits_map(tag)
    }

    fn answer_durable_request(
        &mut self,
        context: &mut Context<'_>,
        tag: RequestTag,
        ready: Instant,
    ) {
        let now = context.nand.now();
        self.media.promise(now);
        let request = self.requests.get(tag);
        if request.command == Command::Flush {
            return self.answer_other(context, tag, now);
        }
        self.traffic.cancel_resume(tag);
        self.delays.writes.parts.flush += now.since(ready);
        let at = self.note_write(tag, now);
        self.answer(context, tag, request.sent, at);
    }

    /// Answers a request that is neither read nor write.
    pub(super) fn answer_other(&mut self, context: &mut Context<'_>, tag: RequestTag, at: Instant) {
        let request = self.requests.get(tag);
        let latency = at.since(request.sent);
        let others = &mut self.delays.others;
        others.requests += 1;
        others.latency += latency;
        let work = latency - self.timing.command_occupancy - self.timing.command_latency;
        match request.command {
            Command::Trim { .. } => others.parts.trim += work,
            _ => others.parts.flush += work,
        }
        self.answer(context, tag, request.sent, at);
    }
}
