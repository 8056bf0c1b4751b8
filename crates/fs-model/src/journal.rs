//! The journal (jbd2, ordered mode): metadata that changes together becomes durable together.
//!
//! A commit waits for the data of its files, writes a descriptor and the changed blocks contiguously into
//! the journal, flushes the drive, writes the commit block, and makes that durable. Only then are freed
//! blocks free again, and trimmed if the mount asks for that; all callers that wait for the commit wait for
//! the trims, too. The blocks themselves are written to their place later (checkpoint).

use std::collections::BTreeSet;

use ssdlab_error::DriveError;
use ssdlab_units::Instant;

use super::layout::Extent;
use super::queue::{merge_into_runs, split_into_requests};
use super::{FileSystem, discard};

/// Number of blocks that one descriptor names: tags of 16 bytes in 4 KiB (checksums of version 3).
const TAGS_PER_DESCRIPTOR: u64 = 254;

/// Changes that become durable together.
#[derive(Default)]
struct Transaction {
    /// Metadata blocks that change.
    blocks: BTreeSet<u64>,
    /// Blocks that become free when the transaction has committed.
    freed: Vec<Extent>,
    /// Moment of the first change; `None` if there is none.
    started: Option<Instant>,
}

/// Next step of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// The data is in flight: write the descriptor and the blocks next.
    Blocks,
    /// Write the commit block next.
    CommitBlock,
    /// The transaction is durable.
    Done,
}

/// A transaction that is being committed.
struct Commit {
    number: u64,
    transaction: Transaction,
    stage: Stage,
    /// Moment at which its next stage can begin.
    ready: Instant,
}

/// The journal.
pub(super) struct Journal {
    area: Extent,
    /// Position of the next block to be written, counted from the start of the area.
    head: u64,
    /// Number of blocks that cannot be overwritten before a checkpoint.
    used: u64,
    running: Transaction,
    /// Number of the running transaction.
    number: u64,
    commit: Option<Commit>,
    committed: u64,
    /// Committed blocks that are not written to their place yet, and the moment since when.
    pub(super) uncheckpointed: BTreeSet<u64>,
    pub(super) uncheckpointed_since: Instant,
}

impl Journal {
    pub(super) fn new(area: Extent) -> Journal {
        Journal {
            area,
            head: 1,
            used: 0,
            running: Transaction::default(),
            number: 1,
            commit: None,
            committed: 0,
            uncheckpointed: BTreeSet::new(),
            uncheckpointed_since: Instant::START,
        }
    }

    /// Returns the number of the running transaction.
    pub(super) fn running(&self) -> u64 {
        self.number
    }

    /// Returns the moment at which the running transaction began, or `None` if it is empty.
    pub(super) fn started(&self) -> Option<Instant> {
        self.running.started
    }

    /// Returns the moment at which the commit in progress continues, or `None` if there is none.
    pub(super) fn commit_ready(&self) -> Option<Instant> {
        self.commit.as_ref().map(|commit| commit.ready)
    }

    /// Has blocks become free when the running transaction has committed.
    pub(super) fn free_after_commit(&mut self, extent: Extent) {
        self.running.freed.push(extent);
    }

    /// Returns the next `count` blocks of the journal, in runs.
    fn reserve_blocks(&mut self, count: u64) -> Vec<Extent> {
        let (mut runs, mut left) = (Vec::new(), count);
        while left > 0 {
            let run = left.min(self.area.count - self.head);
            runs.push(Extent { first: self.area.first + self.head, count: run });
            // The first block is the journal's own superblock.
            self.head = if self.head + run == self.area.count { 1 } else { self.head + run };
            left -= run;
        }
        self.used += count;
        runs
    }
}

impl FileSystem<'_> {
    /// Adds a block of metadata to the running transaction.
    pub(super) fn add_to_transaction(&mut self, block: u64) {
        self.journal.running.blocks.insert(block);
        self.journal.running.started.get_or_insert(self.now);
    }

    /// Begins to commit the running transaction. No other commit may be in progress.
    pub(super) fn start_commit(&mut self) {
        let journal = &mut self.journal;
        assert!(journal.commit.is_none(), "one commit at a time");
        let transaction = std::mem::take(&mut journal.running);
        // Data in flight has to be answered first.
        let ready = self.now.max(self.queue.finish_all());
        let number = journal.number;
        journal.commit = Some(Commit { number, transaction, stage: Stage::Blocks, ready });
        journal.number += 1;
    }

    /// Executes the next stage of the commit in progress, whose time has come.
    pub(super) fn step_commit(&mut self) -> Result<(), DriveError> {
        let commit = self.journal.commit.as_mut().expect("a commit is in progress");
        let ready = commit.ready;
        let (stage, next) = match commit.stage {
            Stage::Blocks => (Stage::CommitBlock, self.write_blocks(ready)?),
            Stage::CommitBlock => (Stage::Done, self.write_commit_block(ready)?),
            Stage::Done => return self.end_commit(),
        };
        let commit = self.journal.commit.as_mut().expect("it is still in progress");
        (commit.stage, commit.ready) = (stage, next);
        Ok(())
    }

    fn write_blocks(&mut self, at: Instant) -> Result<Instant, DriveError> {
        let commit = self.journal.commit.as_ref().expect("a commit is in progress");
        let blocks = commit.transaction.blocks.len() as u64;
        let count = blocks + blocks.div_ceil(TAGS_PER_DESCRIPTOR);
        let mut at = at;
        if self.journal.used + count + 1 >= self.journal.area.count * 3 / 4 {
            at = self.checkpoint(at)?;
        }
        let batch = self.queue.batch(at);
        for run in self.journal.reserve_blocks(count) {
            for request in split_into_requests(run) {
                at = self.queue.next_free_slot(at);
                self.queue.write(at, request, false, batch)?;
            }
        }
        Ok(self.queue.finish(batch))
    }

    fn write_commit_block(&mut self, at: Instant) -> Result<Instant, DriveError> {
        let mut at = at;
        if self.options.barrier {
            at = self.queue.flush(at)?;
        }
        let through = self.options.barrier && self.options.force_unit_access;
        for run in self.journal.reserve_blocks(1) {
            let batch = self.queue.batch(at);
            self.queue.write(at, run, through, batch)?;
            at = self.queue.finish(batch);
        }
        if self.options.barrier && !through {
            at = self.queue.flush(at)?;
        }
        self.queue.sent.commits += 1;
        let commit = self.journal.commit.as_mut().expect("a commit is in progress");
        let freed = discard::merge_extents(std::mem::take(&mut commit.transaction.freed));
        self.free_and_trim(at, &freed)
    }

    fn end_commit(&mut self) -> Result<(), DriveError> {
        let commit = self.journal.commit.take().expect("a commit is in progress");
        if self.journal.uncheckpointed.is_empty() {
            self.journal.uncheckpointed_since = self.now;
        }
        self.journal.uncheckpointed.extend(commit.transaction.blocks);
        self.journal.committed = commit.number;
        Ok(())
    }

    /// Returns true if a transaction is durable.
    pub(super) fn is_committed(&self, number: u64) -> bool {
        self.journal.committed >= number
    }

    /// Waits until a transaction is durable, and begins to commit it if no commit is in progress.
    pub(super) fn wait_for_commit(&mut self, number: u64) -> Result<(), DriveError> {
        while !self.is_committed(number) {
            match self.journal.commit_ready() {
                Some(ready) => self.run_background_until(ready)?,
                None => self.start_commit(),
            }
        }
        Ok(())
    }

    /// Writes committed blocks to their place, so that the journal can be overwritten. Returns the moment
    /// at which that is done.
    pub(super) fn checkpoint(&mut self, at: Instant) -> Result<Instant, DriveError> {
        let blocks = std::mem::take(&mut self.journal.uncheckpointed);
        let (mut at, batch) = (at, self.queue.batch(at));
        for run in merge_into_runs(blocks) {
            for request in split_into_requests(run) {
                at = self.queue.next_free_slot(at);
                self.queue.write(at, request, false, batch)?;
            }
        }
        let mut end = self.queue.finish(batch);
        if self.options.barrier {
            end = self.queue.flush(end)?;
        }
        self.journal.used = 0;
        Ok(end)
    }
}
