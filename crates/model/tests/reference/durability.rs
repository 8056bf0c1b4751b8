//! Flush, FUA and the map journal: who waits for which program units and journal pages.

use std::collections::{BTreeSet, VecDeque};

use super::die::Job;
use super::placement::Chunk;
use super::{Reference, Transfer};

/// A flush, or a write that is durable when answered.
#[derive(Clone, Debug)]
pub struct Waiting {
    request: usize,
    /// The host's program units that it waits for: from one number to another.
    first: u64,
    last: u64,
    /// Journal pages to program once those are over.
    pages: Vec<u64>,
    /// The journal pages before this one have to be programmed.
    pages_before: u64,
}

#[derive(Clone, Debug, Default)]
pub struct Journal {
    /// Changes of the map that no page holds.
    pending: usize,
    /// Pages that were numbered.
    pages: u64,
    /// Pages that were given their place.
    placed: u64,
    /// Those of which that are not programmed.
    in_flight: BTreeSet<u64>,
    /// Pages that have reached their die.
    on_die: BTreeSet<u64>,
    /// Full pages, with the host's program unit that their last change is in.
    full: VecDeque<(u64, u64)>,
}

impl Reference {
    /// What a flush waits for: everything that was written.
    pub(super) fn flush(&mut self, request: usize) {
        if !self.shape.flush_waits {
            return self.answer(request);
        }
        self.pad();
        let last = self.host_writes.keys().next_back().copied().unwrap_or(0);
        self.wait_until_durable(request, 0, last);
    }

    /// What a write that is durable when answered waits for: its own program units.
    pub(super) fn wait_for_own(&mut self, request: usize, first: u64, last: u64) {
        self.pad();
        self.wait_until_durable(request, first, last);
    }

    fn pad(&mut self) {
        if let Some(padded) = self.placement.pad() {
            self.padded(padded);
        }
    }

    /// The host's program unit is full, with padding.
    pub(super) fn padded(&mut self, padded: Chunk) {
        let Chunk { program, fills, .. } = padded;
        let data = fills.as_ref().map_or(0, |filled| filled.data_units);
        self.host_writes.get_mut(&program).expect("it is being filled").filled = fills;
        self.map_changed(data as usize, Some(program));
        self.send_if_complete(program);
    }

    fn wait_until_durable(&mut self, request: usize, first: u64, last: u64) {
        let mut pages = Vec::new();
        while self.journal.pending > 0 {
            self.journal.pending = self.journal.pending.saturating_sub(self.shape.changes_per_page);
            pages.push(self.next_page());
        }
        let pages_before = self.journal.pages;
        self.waiting.push(Waiting { request, first, last, pages, pages_before });
        self.answer_durable();
    }

    fn next_page(&mut self) -> u64 {
        let page = self.journal.pages;
        self.journal.pages += 1;
        self.journal.in_flight.insert(page);
        page
    }

    /// `changes` entries of the map have changed with a program unit, of the host or of copies.
    pub(super) fn map_changed(&mut self, changes: usize, program: Option<u64>) {
        if self.shape.journal_program.is_none() {
            return;
        }
        self.journal.pending += changes;
        if self.journal.pending >= self.shape.changes_per_page {
            self.journal.pending -= self.shape.changes_per_page;
            let page = self.next_page();
            match program {
                Some(program) => self.journal.full.push_back((page, program)),
                None => self.program_page(page),
            }
        }
    }

    fn program_page(&mut self, page: u64) {
        let die = (self.journal.placed % self.shape.dies as u64) as usize;
        self.journal.placed += 1;
        let job = Job::Journal { page };
        self.dies[die].booked.push_back(job);
        self.over_channel(die, self.shape.units_per_page, Transfer::ToDie { die, job });
    }

    pub(super) fn page_on_die(&mut self, page: u64) {
        self.journal.on_die.insert(page);
    }

    pub(super) fn is_page_on_die(&self, page: u64) -> bool {
        self.journal.on_die.contains(&page)
    }

    pub(super) fn page_programmed(&mut self, page: u64) {
        self.journal.in_flight.remove(&page);
        self.answer_durable();
    }

    /// Programs the journal pages whose data is programmed, and answers who has nothing left to
    /// wait for.
    pub(super) fn answer_durable(&mut self) {
        let is_over = |programs: &std::collections::BTreeMap<u64, _>, first: u64, last: u64| {
            programs.range(first..=last.max(first)).next().is_none()
        };
        while let Some(&(page, program)) = self.journal.full.front() {
            if self.host_writes.range(..=program).next().is_some() {
                break;
            }
            self.journal.full.pop_front();
            self.program_page(page);
        }
        let mut waiting = std::mem::take(&mut self.waiting);
        let mut answered = Vec::new();
        waiting.retain_mut(|it| {
            if !is_over(&self.host_writes, it.first, it.last) {
                return true;
            }
            for page in std::mem::take(&mut it.pages) {
                self.program_page(page);
            }
            let oldest = self.journal.in_flight.first().copied().unwrap_or(u64::MAX);
            let over = oldest >= it.pages_before;
            if over {
                answered.push(it.request);
            }
            !over
        });
        waiting.append(&mut self.waiting);
        self.waiting = waiting;
        for request in answered {
            self.answer(request);
        }
    }
}
