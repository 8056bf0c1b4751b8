//! Rewrite on ext4: a donor file is allocated in as few pieces as possible, and the kernel exchanges the
//! blocks of both files, moving the data along under its own locks (EXT4_IOC_MOVE_EXT). Others may write
//! meanwhile, through the page cache, with direct I/O and through memory maps.
//!
//! The donor has no name, so that nothing is left of it however the process ends.

use std::collections::VecDeque;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::{Advice, fadvise};
use rustix::io::Errno;

use super::donor::{Donor, DonorAllocator};
use super::{Outcome, SkipReason, Strategy};
use crate::buffer::Buffer;
use crate::extents::{self, WriteBack};
use crate::overrun::OverrunGuard;
use crate::priority::RaisedPriority;
use crate::rate_limit::RateLimiter;
use crate::window::Span;
use crate::{DriveError, io, system, unsupported};

/// Number of blocks exchanged before they are written back. The kernel moves a cached page along only if
/// nothing else of its folio is dirty; otherwise it forces a commit of the journal for each block: three
/// writes and two flushes for 4 KiB instead of one write. So only a few are exchanged at a time.
const BLOCKS: u64 = 64;

/// Least number of blocks of an exchange.
const BLOCKS_MIN: u64 = 1;

/// Blocks of the first exchange, when the time per block is not known.
const BLOCKS_FIRST: u64 = 2;

/// Share of the allowed time that an exchange should take, by the longest time that a block took
/// recently. The kernel holds the lock of the file during an exchange, also while it has the journal
/// committed, so writers of the file wait for as long.
const TARGET_SHARE: f64 = 0.5;

/// Number of recent exchanges of which the longest time of a block counts.
const HISTORY: usize = 64;

/// Number of exchanges in a row, of the least length and longer than allowed, after which the rewrite
/// ends.
const TOO_LONG_MAX: u32 = 3;

/// Bytes of the largest folio. Cached pages of a window are dropped before exchanges, because dirty
/// folios cause journal commits, and also those up to a folio around the window: a folio that lies only
/// partly within a range is kept.
const FOLIO_MAX: u64 = 4 << 20;

/// Attempts at a chunk that is in use.
const TRIES: u32 = 8;

/// Exchanges blocks of a file with those of a donor.
#[derive(Debug)]
pub struct MoveExtents {
    file: File,
    donors: DonorAllocator,
    /// Bytes of a block of the file system.
    block: u64,
    holds: LockHolds,
    /// Target of reads that only bring a chunk into the page cache; its content is not used.
    copy: Buffer,
}

/// Times for which exchanges held up writers of the file, and the size of the next exchange derived from
/// them.
#[derive(Debug)]
struct LockHolds {
    allowed: Duration,
    /// Largest number of blocks of the next exchange.
    blocks: u64,
    /// Seconds per block in recent exchanges.
    recent: VecDeque<f64>,
    longest: Duration,
    /// Number of exchanges in a row that were too long although of the least length.
    in_a_row: u32,
}

impl LockHolds {
    fn new(allowed: Duration) -> LockHolds {
        LockHolds {
            allowed,
            blocks: BLOCKS_FIRST,
            recent: VecDeque::with_capacity(HISTORY),
            longest: Duration::ZERO,
            in_a_row: 0,
        }
    }

    /// Records an exchange of `blocks`, which took `took`. The next one takes as many as fit into the aim
    /// at the longest remembered time per block, and at most twice the current limit, or the current
    /// limit if this exchange was smaller.
    fn record(&mut self, took: Duration, blocks: u64) {
        self.longest = self.longest.max(took);
        let is_too_long = took > self.allowed;
        let is_least = blocks <= BLOCKS_MIN;
        self.in_a_row = if is_too_long && is_least { self.in_a_row + 1 } else { 0 };
        if self.recent.len() == HISTORY {
            self.recent.pop_front();
        }
        self.recent.push_back(took.as_secs_f64() / blocks.max(1) as f64);
        let worst = self.recent.iter().copied().fold(0.0, f64::max);
        let fitting = (self.allowed.as_secs_f64() * TARGET_SHARE / worst) as u64;
        let most = if blocks < self.blocks { self.blocks } else { self.blocks * 2 };
        self.blocks = fitting.min(most).clamp(BLOCKS_MIN, BLOCKS);
    }

    /// Returns true if even the smallest exchanges hold up writers for too long.
    fn are_too_long(&self) -> bool {
        self.in_a_row >= TOO_LONG_MAX
    }
}

impl MoveExtents {
    /// Rewrites `file`, which was opened for reading and writing, with donors in `directory`, on a file
    /// system with blocks of `block` bytes, of which `reserve` bytes stay free. An exchange should hold
    /// up writers of the file for at most `max_hold`.
    pub fn new(
        file: File,
        directory: &Path,
        block: u64,
        reserve: u64,
        max_hold: Duration,
    ) -> MoveExtents {
        let donors = DonorAllocator::new(directory, block, reserve, false);
        // Without read-ahead, reads for an exchange cache only the blocks of that exchange.
        let _ = fadvise(&file, 0, None, Advice::Random);
        let copy = Buffer::new((BLOCKS * block) as usize);
        MoveExtents { file, donors, block, holds: LockHolds::new(max_hold), copy }
    }

    /// Drops the cached pages of a window, after writing dirty ones back.
    fn drop_cached_pages(&self, window: Span) -> Result<(), DriveError> {
        let first = window.offset / FOLIO_MAX * FOLIO_MAX;
        let end = window.end().next_multiple_of(FOLIO_MAX);
        let length = std::num::NonZeroU64::new(end - first);
        for _ in 0..TRIES {
            if system::cached_pages(&self.file, first, end - first) == Some(0) {
                break;
            }
            rustix::fs::fdatasync(&self.file).map_err(|error| io("cannot write back", error))?;
            // Pages in use stay for a moment, mapped pages for long; the kernel then takes the slow path.
            let _ = fadvise(&self.file, first, length, Advice::DontNeed);
        }
        Ok(())
    }

    /// Exchanges one chunk and writes it back.
    fn exchange(&mut self, chunk: Span) -> Result<Outcome, DriveError> {
        let length = std::num::NonZeroU64::new(chunk.length);
        // Data that others have written since would otherwise be written back under the lock of the file.
        system::write_back(&self.file, chunk).map_err(|error| io("cannot write back", error))?;
        let _ = fadvise(&self.file, chunk.offset, length, Advice::DontNeed);
        // Blocks that are not cached would be read under the lock, one at a time.
        let copy = &mut self.copy[..chunk.length as usize];
        let _ = self
            .file
            .read_at(copy, chunk.offset)
            .map_err(|error| io(format!("cannot read byte {}", chunk.offset), error))?;
        let donor = self.donors.donor();
        let outcome = exchange_blocks(&self.file, self.block, donor, chunk, &mut self.holds)?;
        rustix::fs::fdatasync(&self.file).map_err(|error| io("cannot write back", error))?;
        let _ = fadvise(&self.file, chunk.offset, length, Advice::DontNeed);
        let there = donor.place_of(chunk);
        let _ = fadvise(&donor.file, there, length, Advice::DontNeed);
        Ok(outcome)
    }
}

/// Exchanges a chunk, in as few calls as `holds` allows.
fn exchange_blocks(
    file: &File,
    block: u64,
    donor: &Donor,
    chunk: Span,
    holds: &mut LockHolds,
) -> Result<Outcome, DriveError> {
    let mut first = chunk.offset / block;
    let end = chunk.end().div_ceil(block);
    let donor_first = donor.span.offset / block;
    let mut tries = 0;
    let written = |first: u64| (first * block).min(chunk.end()) - chunk.offset;
    while first < end {
        let count = (end - first).min(holds.blocks);
        let there = first - donor_first;
        let priority = RaisedPriority::begin();
        let asked = Instant::now();
        let (moved, outcome) = system::move_extent(file, first, &donor.file, there, count);
        holds.record(asked.elapsed(), count);
        drop(priority);
        first += moved;
        if holds.are_too_long() {
            return Ok(Outcome { written: written(first), skipped: Some(SkipReason::Hold) });
        }
        let Err(error) = outcome else {
            if moved == 0 {
                // The file became shorter, or there is a hole now.
                return Ok(Outcome { written: written(first), skipped: Some(SkipReason::Changed) });
            }
            continue;
        };
        match Errno::from_io_error(&error) {
            Some(Errno::BUSY | Errno::AGAIN | Errno::INTR) if tries < TRIES => {
                std::thread::sleep(Duration::from_millis(1 << tries.min(6)));
                tries += 1;
                // Dirty pages keep the blocks busy; written back they do not.
                rustix::fs::fdatasync(file).map_err(|error| io("cannot write back", error))?;
            }
            Some(Errno::BUSY | Errno::AGAIN | Errno::INTR) => {
                return Ok(Outcome { written: written(first), skipped: Some(SkipReason::Busy) });
            }
            Some(Errno::NOSPC | Errno::DQUOT) => {
                return Ok(Outcome { written: written(first), skipped: Some(SkipReason::NoRoom) });
            }
            // The offset is beyond the end of a file that became shorter, or in a new hole.
            Some(Errno::NODATA | Errno::INVAL) if has_changed(file, chunk)? => {
                return Ok(Outcome { written: written(first), skipped: Some(SkipReason::Changed) });
            }
            Some(Errno::OPNOTSUPP | Errno::NOTTY | Errno::INVAL) => {
                return Err(unsupported(
                    "this file cannot be moved by its file system (it has no extents, as on ext2 \
                     and ext3 or with inline_data, or the file system has bigalloc, data=journal \
                     or DAX); --frozen rewrites it in place",
                ));
            }
            _ => return Err(io("cannot exchange blocks", error)),
        }
    }
    Ok(Outcome { written: chunk.length, skipped: None })
}

/// Returns true if a chunk is no longer data from beginning to end.
fn has_changed(file: &File, chunk: Span) -> Result<bool, DriveError> {
    let found = extents::of(file, chunk, WriteBack::Skip)
        .map_err(|error| io("cannot read the extents of the data", error))?;
    let length = file.metadata().map_err(|error| io("cannot see its length", error))?;
    Ok(extents::data_runs(&found, length.len()) != [chunk])
}

impl Strategy for MoveExtents {
    fn announce(&mut self, run: Span) {
        self.donors.announce(run);
    }

    fn rewrite(
        &mut self,
        window: Span,
        limiter: &mut RateLimiter,
        overrun_guard: &mut OverrunGuard,
    ) -> Result<Outcome, DriveError> {
        if let Some(skipped) = self.donors.allocate_for(&self.file, window)? {
            return Ok(Outcome { written: 0, skipped: Some(skipped) });
        }
        self.drop_cached_pages(window)?;
        let mut sum = Outcome::default();
        for chunk in window.chunks(BLOCKS * self.block) {
            let outcome = self.exchange(chunk)?;
            sum.written += outcome.written;
            sum.skipped = sum.skipped.or(outcome.skipped);
            // Each byte is read as well.
            limiter.throttle(outcome.written * 2);
            overrun_guard.advance(chunk.length);
            if outcome.skipped == Some(SkipReason::Hold) {
                sum.skipped = outcome.skipped;
                break;
            }
            if overrun_guard.is_overrun() {
                sum.skipped = Some(SkipReason::Overrun);
                break;
            }
        }
        self.donors.finish_window(window);
        Ok(sum)
    }

    fn longest_hold(&self) -> Option<Duration> {
        Some(self.holds.longest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn millis(count: u64) -> Duration {
        Duration::from_millis(count)
    }

    #[test]
    fn exchanges_begin_small_and_grow_as_far_as_the_worst_block_lets_them() {
        let mut holds = LockHolds::new(millis(50));
        let mut seen = Vec::new();
        for _ in 0..6 {
            seen.push(holds.blocks);
            holds.record(millis(1), holds.blocks);
        }
        // A block took half a millisecond at first, so 50 blocks fit into half of the allowed time.
        assert_eq!(seen, [2, 4, 8, 16, 32, 50]);
        assert_eq!(holds.blocks, 50);
        // The short rest of a chunk says little about a whole one, and does not raise the limit.
        holds.record(Duration::from_micros(10), 3);
        assert_eq!(holds.blocks, 50);
    }

    #[test]
    fn what_a_block_may_take_is_remembered_for_a_while() {
        let mut holds = LockHolds::new(millis(50));
        // The journal is committed for a block.
        holds.record(millis(10), 2);
        assert_eq!(holds.blocks, 4, "twice as many, and 5 would fit");
        for _ in 0..HISTORY - 1 {
            holds.record(Duration::from_micros(50), holds.blocks);
            assert!(holds.blocks <= 5, "{holds:?}");
        }
        holds.record(Duration::from_micros(50), holds.blocks);
        assert_eq!(holds.blocks, 10, "it is forgotten");
        assert_eq!(holds.longest, millis(10));
    }

    #[test]
    fn an_exchange_that_was_too_long_is_cut_to_what_fits() {
        let mut holds = LockHolds::new(millis(50));
        holds.blocks = 64;
        holds.record(millis(320), 64);
        assert_eq!(holds.blocks, 5);
        holds.record(millis(200), 5);
        assert_eq!((holds.blocks, holds.are_too_long()), (BLOCKS_MIN, false));
        for _ in 0..TOO_LONG_MAX {
            assert!(!holds.are_too_long());
            holds.record(millis(51), 1);
        }
        assert!(holds.are_too_long());
        assert_eq!(holds.longest, millis(320));
    }
}
