//! ext4: another file is given room in as few pieces as possible, and the kernel exchanges the
//! blocks of both, taking the data along under its own locks (EXT4_IOC_MOVE_EXT). Writers go on
//! meanwhile, through the page cache, past it and through memory maps.
//!
//! The other file has no name, so that nothing is left of it however this ends.

use std::fs::File;
use std::path::Path;
use std::time::Duration;

use rustix::fs::{Advice, fadvise};
use rustix::io::Errno;

use super::donor::{Donor, Lender};
use super::{Left, Outcome, Strategy};
use crate::extents::{self, Sync};
use crate::pace::Pace;
use crate::window::Span;
use crate::{DriveError, io, system, unsupported};

/// Blocks exchanged at a time. The kernel takes a page along only when nothing else of its folio is
/// dirty, and otherwise forces a commit of the journal for each block: three writes and two flushes
/// for 4 KiB instead of one write. So a few are exchanged and written back at a time.
const BLOCKS: u64 = 64;

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
}

impl MoveExtents {
    /// For `file`, opened for reading and writing, in `directory`, on a file system with such blocks,
    /// of which `reserve` bytes stay free.
    pub fn new(file: File, directory: &Path, block: u64, reserve: u64) -> MoveExtents {
        MoveExtents { file, lender: Lender::new(directory, block, reserve, false), block }
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
    fn exchange(&self, chunk: Span) -> Result<Outcome, DriveError> {
        let donor = self.lender.donor();
        let length = std::num::NonZeroU64::new(chunk.length);
        let outcome = self.exchange_blocks(donor, chunk)?;
        rustix::fs::fdatasync(&self.file).map_err(|error| io("cannot write back", error))?;
        let _ = fadvise(&self.file, chunk.offset, length, Advice::DontNeed);
        let there = donor.place_of(chunk);
        let _ = fadvise(&donor.file, there, length, Advice::DontNeed);
        Ok(outcome)
    }

    fn exchange_blocks(&self, donor: &Donor, chunk: Span) -> Result<Outcome, DriveError> {
        let mut first = chunk.offset / self.block;
        let end = chunk.end().div_ceil(self.block);
        let donor_first = donor.span.offset / self.block;
        let mut tries = 0;
        let written = |first: u64| (first * self.block).min(chunk.end()) - chunk.offset;
        while first < end {
            let (moved, outcome) = system::move_extent(
                &self.file,
                first,
                &donor.file,
                first - donor_first,
                end - first,
            );
            first += moved;
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
                    rustix::fs::fdatasync(&self.file)
                        .map_err(|error| io("cannot write back", error))?;
                }
                Some(Errno::BUSY | Errno::AGAIN | Errno::INTR) => {
                    return Ok(Outcome { written: written(first), left: Some(Left::Busy) });
                }
                Some(Errno::NOSPC | Errno::DQUOT) => {
                    return Ok(Outcome { written: written(first), left: Some(Left::NoRoom) });
                }
                // Beyond the end of a file that became shorter, or a hole since.
                Some(Errno::NODATA | Errno::INVAL) if self.has_changed(chunk)? => {
                    return Ok(Outcome { written: written(first), left: Some(Left::Changed) });
                }
                Some(Errno::OPNOTSUPP | Errno::NOTTY | Errno::INVAL) => {
                    return Err(unsupported(
                        "this file cannot be moved by its file system (ext2 or ext3, data=journal \
                         or DAX); --frozen rewrites it where it lies",
                    ));
                }
                _ => return Err(io("cannot exchange blocks", error)),
            }
        }
        Ok(Outcome { written: chunk.length, left: None })
    }

    fn has_changed(&self, chunk: Span) -> Result<bool, DriveError> {
        let found = extents::of(&self.file, chunk, Sync::Not)
            .map_err(|error| io("cannot see where the data lies", error))?;
        let length = self.file.metadata().map_err(|error| io("cannot see its length", error))?;
        Ok(extents::data_runs(&found, length.len()) != [chunk])
    }
}

impl Strategy for MoveExtents {
    fn name(&self) -> &'static str {
        "moved by ext4 to new blocks (MOVE_EXT)"
    }

    fn announce(&mut self, stretch: Span) {
        self.lender.announce(stretch);
    }

    fn rewrite(&mut self, window: Span, pace: &mut Pace) -> Result<Outcome, DriveError> {
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
        }
        self.lender.window_is_done(window);
        Ok(sum)
    }
}
