//! ext4: another file is given room in as few pieces as possible, and the kernel exchanges the
//! blocks of both, taking the data along under its own locks (EXT4_IOC_MOVE_EXT). Writers go on
//! meanwhile, through the page cache, past it and through memory maps.
//!
//! The other file has no name, so that nothing is left of it however this ends.

use std::fs::File;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::{Advice, fadvise};
use rustix::io::Errno;

use super::donor::{Donor, Lender};
use super::{Left, Outcome, Strategy};
use crate::extents::{self, Sync};
use crate::headway::Headway;
use crate::pace::Pace;
use crate::window::Span;
use crate::{DriveError, io, system, unsupported};

/// Blocks exchanged at a time. The kernel takes a page along only when nothing else of its folio is
/// dirty, and otherwise forces a commit of the journal for each block: three writes and two flushes
/// for 4 KiB instead of one write. So a few are exchanged and written back at a time.
const BLOCKS: u64 = 64;

/// The least that is exchanged at a time.
const BLOCKS_MIN: u64 = 1;

/// Who writes to the file waits for as long as an exchange takes: the kernel holds the file's lock
/// meanwhile, also while it has the journal committed. After one that took more than this share of what is
/// allowed, half as much is exchanged.
const LONG: f64 = 0.5;

/// After one that took less than this share it is twice as much.
const SHORT: f64 = 0.125;

/// Exchanges in a row of the least length that took longer than allowed, after which it is given up.
const TOO_LONG_MAX: u32 = 3;

/// What the page cache has of a window goes before, for the same reason, and as far around it as the
/// largest folio reaches: one that is only partly within a range is kept.
const FOLIO_MAX: u64 = 4 << 20;

/// Tries at a chunk that is in use.
const TRIES: u32 = 8;

/// Exchanges blocks of a file with those of another one.
#[derive(Debug)]
pub struct MoveExtents {
    file: File,
    lender: Lender,
    /// Bytes of a block of the file system.
    block: u64,
    holds: Holds,
}

/// How long exchanges held up who writes to the file, and how many blocks the next one takes for that.
#[derive(Debug)]
struct Holds {
    allowed: Duration,
    blocks: u64,
    longest: Duration,
    /// So many in a row of the least length that were too long.
    too_long: u32,
}

impl Holds {
    fn new(allowed: Duration) -> Holds {
        Holds { allowed, blocks: BLOCKS, longest: Duration::ZERO, too_long: 0 }
    }

    /// An exchange of `blocks` took so long.
    fn took(&mut self, took: Duration, blocks: u64) {
        self.longest = self.longest.max(took);
        let is_least = blocks <= BLOCKS_MIN;
        self.too_long = if took > self.allowed && is_least { self.too_long + 1 } else { 0 };
        if took > self.allowed.mul_f64(LONG) {
            self.blocks = (self.blocks / 2).max(BLOCKS_MIN);
        } else if took < self.allowed.mul_f64(SHORT) && blocks == self.blocks {
            self.blocks = (self.blocks * 2).min(BLOCKS);
        }
    }

    /// Whether writers cannot be spared.
    fn are_too_long(&self) -> bool {
        self.too_long >= TOO_LONG_MAX
    }
}

impl MoveExtents {
    /// For `file`, opened for reading and writing, in `directory`, on a file system with such blocks,
    /// of which `reserve` bytes stay free; who writes to it is held up for at most `max_hold` at a time.
    pub fn new(
        file: File,
        directory: &Path,
        block: u64,
        reserve: u64,
        max_hold: Duration,
    ) -> MoveExtents {
        let lender = Lender::new(directory, block, reserve, false);
        MoveExtents { file, lender, block, holds: Holds::new(max_hold) }
    }

    /// Lets go of what the page cache has of a window; what is dirty is written back first.
    fn let_go(&self, window: Span) -> Result<(), DriveError> {
        let first = window.offset / FOLIO_MAX * FOLIO_MAX;
        let end = window.end().next_multiple_of(FOLIO_MAX);
        let length = std::num::NonZeroU64::new(end - first);
        for _ in 0..TRIES {
            if system::cached_pages(&self.file, first, end - first) == Some(0) {
                break;
            }
            rustix::fs::fdatasync(&self.file).map_err(|error| io("cannot write back", error))?;
            // What somebody is just about to use stays for a moment, what is mapped for long; the
            // kernel then takes the long way.
            let _ = fadvise(&self.file, first, length, Advice::DontNeed);
        }
        Ok(())
    }

    /// Exchanges one chunk and has it written back.
    fn exchange(&mut self, chunk: Span) -> Result<Outcome, DriveError> {
        let length = std::num::NonZeroU64::new(chunk.length);
        // What others have written since would be written back under the file's lock.
        system::write_back(&self.file, chunk).map_err(|error| io("cannot write back", error))?;
        let _ = fadvise(&self.file, chunk.offset, length, Advice::DontNeed);
        let donor = self.lender.donor();
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
    holds: &mut Holds,
) -> Result<Outcome, DriveError> {
    let mut first = chunk.offset / block;
    let end = chunk.end().div_ceil(block);
    let donor_first = donor.span.offset / block;
    let mut tries = 0;
    let written = |first: u64| (first * block).min(chunk.end()) - chunk.offset;
    while first < end {
        let count = (end - first).min(holds.blocks);
        let there = first - donor_first;
        let asked = Instant::now();
        let (moved, outcome) = system::move_extent(file, first, &donor.file, there, count);
        holds.took(asked.elapsed(), count);
        first += moved;
        if holds.are_too_long() {
            return Ok(Outcome { written: written(first), left: Some(Left::Hold) });
        }
        let Err(error) = outcome else {
            if moved == 0 {
                // The file became shorter, or a hole.
                return Ok(Outcome { written: written(first), left: Some(Left::Changed) });
            }
            continue;
        };
        match Errno::from_io_error(&error) {
            Some(Errno::BUSY | Errno::AGAIN | Errno::INTR) if tries < TRIES => {
                std::thread::sleep(Duration::from_millis(1 << tries.min(6)));
                tries += 1;
                // What is dirty keeps it; once written back it does not.
                rustix::fs::fdatasync(file).map_err(|error| io("cannot write back", error))?;
            }
            Some(Errno::BUSY | Errno::AGAIN | Errno::INTR) => {
                return Ok(Outcome { written: written(first), left: Some(Left::Busy) });
            }
            Some(Errno::NOSPC | Errno::DQUOT) => {
                return Ok(Outcome { written: written(first), left: Some(Left::NoRoom) });
            }
            // Beyond the end of a file that became shorter, or a hole since.
            Some(Errno::NODATA | Errno::INVAL) if has_changed(file, chunk)? => {
                return Ok(Outcome { written: written(first), left: Some(Left::Changed) });
            }
            Some(Errno::OPNOTSUPP | Errno::NOTTY | Errno::INVAL) => {
                return Err(unsupported(
                    "this file cannot be moved by its file system (it has no extents, as on ext2 \
                     and ext3 or with inline_data, or the file system has bigalloc, data=journal \
                     or DAX); --frozen rewrites it where it lies",
                ));
            }
            _ => return Err(io("cannot exchange blocks", error)),
        }
    }
    Ok(Outcome { written: chunk.length, left: None })
}

/// Whether a chunk is not data from its beginning to its end any more.
fn has_changed(file: &File, chunk: Span) -> Result<bool, DriveError> {
    let found = extents::of(file, chunk, Sync::Not)
        .map_err(|error| io("cannot see where the data lies", error))?;
    let length = file.metadata().map_err(|error| io("cannot see its length", error))?;
    Ok(extents::data_runs(&found, length.len()) != [chunk])
}

impl Strategy for MoveExtents {
    fn name(&self) -> &'static str {
        "moved by ext4 to new blocks (MOVE_EXT)"
    }

    fn announce(&mut self, stretch: Span) {
        self.lender.announce(stretch);
    }

    fn rewrite(
        &mut self,
        window: Span,
        pace: &mut Pace,
        headway: &mut Headway,
    ) -> Result<Outcome, DriveError> {
        if let Some(left) = self.lender.make_room(&self.file, window)? {
            return Ok(Outcome { written: 0, left: Some(left) });
        }
        self.let_go(window)?;
        let mut sum = Outcome::default();
        for chunk in window.pieces(BLOCKS * self.block) {
            let outcome = self.exchange(chunk)?;
            sum.written += outcome.written;
            sum.left = sum.left.or(outcome.left);
            // Each byte is read as well.
            pace.spend(outcome.written * 2);
            headway.advance(chunk.length);
            if outcome.left == Some(Left::Hold) {
                sum.left = outcome.left;
                break;
            }
            if headway.is_lost() {
                sum.left = Some(Left::Overrun);
                break;
            }
        }
        self.lender.window_is_done(window);
        Ok(sum)
    }

    fn longest_hold(&self) -> Option<Duration> {
        Some(self.holds.longest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn less_is_exchanged_where_that_holds_writers_up() {
        let millis = Duration::from_millis;
        let mut holds = Holds::new(millis(50));
        holds.took(millis(30), 64);
        assert_eq!(holds.blocks, 32, "over half of what is allowed");
        holds.took(millis(10), 32);
        assert_eq!(holds.blocks, 32);
        // The rest of a chunk says nothing of a whole one.
        holds.took(millis(1), 3);
        assert_eq!(holds.blocks, 32);
        holds.took(millis(1), 32);
        assert_eq!(holds.blocks, 64);
        for _ in 0..6 {
            holds.took(millis(2_000), holds.blocks);
        }
        assert!((holds.blocks, holds.are_too_long()) == (BLOCKS_MIN, false));
        for _ in 0..TOO_LONG_MAX {
            assert!(!holds.are_too_long());
            holds.took(millis(51), 1);
        }
        assert!(holds.are_too_long());
        assert_eq!(holds.longest, millis(2_000));
    }
}
