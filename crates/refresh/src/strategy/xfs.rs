//! Rewrite on xfs: a part of the file is copied to a donor, and the file system exchanges the blocks of
//! both if nobody has changed the file since a stamp was taken (XFS_IOC_START_COMMIT,
//! XFS_IOC_COMMIT_RANGE; ioctl_xfs_commit_range(2)). If somebody has, the exchange is tried again with
//! less. Writers are held up only for the exchange.
//!
//! The kernel recognises a change by the time of the last one, which it sets before it carries out a
//! write. So a write with a time before the stamp may still be under way:
//!
//! - A direct write, or one through the page cache, is waited for: a trial of the exchange (a dry run)
//!   locks the file until all requests under way are done.
//! - A store through a memory map whose first touch of the page is under way cannot be waited for. Only a
//!   process that has the file mapped can have one, so nothing is exchanged while any process has:
//!   mappings are looked for after the stamp was taken, which leaves no time in which such a store could
//!   begin unnoticed.

use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::time::Duration;

use rustix::fs::{Advice, fadvise};
use rustix::io::Errno;
use ssdlab_blockdev::writers::Writer;

use super::donor::DonorAllocator;
use super::{Outcome, SkipReason, Strategy};
use crate::baseline::create_unnamed;
use crate::buffer::Buffer;
use crate::extents::{self, WriteBack};
use crate::maps::FileMappings;
use crate::overrun::OverrunGuard;
use crate::rate_limit::RateLimiter;
use crate::system::{self, Freshness};
use crate::window::Span;
use crate::{DriveError, io, unsupported};

/// Largest exchange in bytes: a request of the reader.
const CHUNK_MAX: u64 = 1 << 20;

/// Least length of a direct read.
const DIRECT_READ_MIN: usize = 4096;

/// Smallest exchange in bytes. The less there is to copy, the less often somebody writes meanwhile.
const CHUNK_MIN: u64 = 64 << 10;

/// Attempts at a chunk of the least length that others write to.
const TRIES: u32 = 32;

/// Longest pause between two attempts.
const PAUSE_MAX: Duration = Duration::from_millis(16);

/// Number of chunks in a row without a disturbance after which chunks become larger again.
const UNDISTURBED_MIN: u32 = 4;

/// Number of writes in a row that must get different times, so that each change is noticed.
const STAMPS: usize = 16;

/// Exchanges parts of a file that nobody has changed meanwhile.
#[derive(Debug)]
pub struct CommitRange {
    file: File,
    maps: FileMappings,
    /// The program that had the file mapped for writing at the last check.
    mapped_by: Option<String>,
    donors: DonorAllocator,
    /// Bytes of a block of the file system.
    block: u64,
    /// Bytes of the next chunk.
    chunk: u64,
    /// Number of chunks in a row without a disturbance.
    undisturbed: u32,
    /// Content of the donor before the exchange.
    copy: Buffer,
    /// Content of the file when it was last read.
    now: Buffer,
}

/// Result of an attempt.
enum Attempt {
    /// The chunk is exchanged.
    Done,
    /// Somebody has written to the file meanwhile.
    Busy,
    /// The chunk cannot be exchanged now.
    Skipped(SkipReason),
}

impl CommitRange {
    /// Rewrites `file`, which was opened for reading and writing, with donors in `directory`, on a file
    /// system with blocks of `block` bytes, of which `reserve` bytes stay free.
    ///
    /// # Errors
    /// Returns an error if the kernel cannot distinguish changes that follow each other closely.
    pub fn new(
        file: File,
        directory: &Path,
        block: u64,
        reserve: u64,
    ) -> Result<CommitRange, DriveError> {
        if !has_fine_timestamps(&create_unnamed(directory, false)?)? {
            return Err(unsupported(
                "this kernel's change times (ctime) are too coarse to detect every write to a file \
                 on xfs (those of Linux 6.13 are not); --frozen rewrites it in place",
            ));
        }
        // Read-ahead would only take time here.
        let _ = fadvise(&file, 0, None, Advice::Random);
        let donors = DonorAllocator::new(directory, block, reserve, true);
        let buffer = || Buffer::new(CHUNK_MAX as usize);
        let (copy, now) = (buffer(), buffer());
        let maps = FileMappings::of(&file).map_err(cannot_see_maps)?;
        Ok(CommitRange {
            file,
            maps,
            mapped_by: None,
            donors,
            block,
            chunk: CHUNK_MAX,
            undisturbed: 0,
            copy,
            now,
        })
    }

    /// Copies a chunk, and exchanges it as soon as nobody writes to the file meanwhile.
    fn exchange(&mut self, chunk: Span) -> Result<Option<SkipReason>, DriveError> {
        let tries = if self.chunk > CHUNK_MIN { 2 } else { TRIES };
        if let Err(skipped) = self.copy(chunk)? {
            return Ok(Some(skipped));
        }
        for tried in 0..tries {
            match self.try_exchange(chunk)? {
                Attempt::Done => return Ok(None),
                Attempt::Skipped(skipped) => return Ok(Some(skipped)),
                Attempt::Busy => std::thread::sleep(pause(tried)),
            }
        }
        Ok(Some(SkipReason::Busy))
    }

    /// Copies a chunk to the donor.
    fn copy(&mut self, chunk: Span) -> Result<Result<(), SkipReason>, DriveError> {
        self.write_back(chunk)?;
        if chunk.length == 0 || !read(&self.file, chunk, &mut self.copy)? {
            return Ok(Err(SkipReason::Changed));
        }
        self.write_to_donor(chunk, 0..chunk.length as usize)?;
        Ok(Ok(()))
    }

    /// Makes one attempt. Blocks that have changed since they were copied are copied again first.
    fn try_exchange(&mut self, chunk: Span) -> Result<Attempt, DriveError> {
        let fresh = system::start_commit(&self.file)
            .map_err(|error| io("cannot read the change time of the file", error))?;
        self.mapped_by = match self.maps.find_writer().map_err(cannot_see_maps)? {
            Writer::Nobody => None,
            Writer::Program(words) => Some(words),
            Writer::NotAllVisible => Some("not all programs are visible".to_owned()),
        };
        if self.mapped_by.is_some() {
            return Ok(Attempt::Skipped(SkipReason::Mapped));
        }
        // The trial waits for requests under way.
        if let Some(end) = self.commit(chunk, &fresh, system::Commit::DryRun)? {
            return Ok(end);
        }
        // From here on a store to a page of the chunk faults first, which sets the time of the file.
        self.write_back(chunk)?;
        if !self.is_data(chunk)? || !read(&self.file, chunk, &mut self.now)? {
            return Ok(Attempt::Skipped(SkipReason::Changed));
        }
        self.copy_changed_blocks(chunk)?;
        Ok(self.commit(chunk, &fresh, system::Commit::Exchange)?.unwrap_or(Attempt::Done))
    }

    /// Copies the blocks that have changed since the last copy.
    fn copy_changed_blocks(&mut self, chunk: Span) -> Result<(), DriveError> {
        let length = chunk.length as usize;
        let block = self.block as usize;
        for at in (0..length).step_by(block) {
            let part = at..(at + block).min(length);
            if self.copy[part.clone()] != self.now[part.clone()] {
                self.copy[part.clone()].copy_from_slice(&self.now[part.clone()]);
                self.write_to_donor(chunk, part)?;
            }
        }
        Ok(())
    }

    /// Writes a part of the copy of a chunk to the donor.
    fn write_to_donor(
        &mut self,
        chunk: Span,
        part: std::ops::Range<usize>,
    ) -> Result<(), DriveError> {
        let donor = self.donors.donor();
        let there = donor.place_of(chunk);
        // Direct writes are of whole blocks. The rest behind the end of the file is cut off again.
        let whole = part.end.next_multiple_of(self.block as usize);
        self.copy[part.end..whole].fill(0);
        donor
            .file
            .write_all_at(&self.copy[part.start..whole], there + part.start as u64)
            .and_then(|()| {
                if whole == part.end { Ok(()) } else { donor.file.set_len(there + chunk.length) }
            })
            .map_err(|error| io("cannot copy data to its new place", error))
    }

    /// Requests the exchange of a chunk. Returns `None` on success.
    fn commit(
        &self,
        chunk: Span,
        fresh: &Freshness,
        what: system::Commit,
    ) -> Result<Option<Attempt>, DriveError> {
        // One block is enough for a trial, whose pages are dropped from the cache.
        let length = match what {
            system::Commit::DryRun => chunk.length.min(self.block),
            system::Commit::Exchange => chunk.length,
        };
        let donor = self.donors.donor();
        let there = donor.place_of(chunk);
        let part = Span::new(chunk.offset, length);
        let Err(error) = system::commit_range(&self.file, part, &donor.file, there, fresh, what)
        else {
            return Ok(None);
        };
        match Errno::from_io_error(&error) {
            Some(Errno::BUSY | Errno::AGAIN | Errno::INTR) => Ok(Some(Attempt::Busy)),
            Some(Errno::NOSPC | Errno::DQUOT) => Ok(Some(Attempt::Skipped(SkipReason::NoRoom))),
            // The offset is beyond the end of a file that became shorter.
            Some(Errno::INVAL) if !self.is_data(chunk)? => {
                Ok(Some(Attempt::Skipped(SkipReason::Changed)))
            }
            Some(Errno::OPNOTSUPP | Errno::NOTTY | Errno::INVAL) => Err(unsupported(
                "xfs does not exchange blocks of this file; --frozen rewrites it in place",
            )),
            _ => Err(io("cannot have xfs exchange blocks", error)),
        }
    }

    /// Returns true if a chunk is data from beginning to end.
    fn is_data(&self, chunk: Span) -> Result<bool, DriveError> {
        let found = extents::of(&self.file, chunk, WriteBack::Skip)
            .map_err(|error| io("cannot read the extents of the data", error))?;
        let length = self.file.metadata().map_err(|error| io("cannot see its length", error))?;
        // Extents are whole blocks, and may reach beyond both ends.
        let runs = extents::data_runs(&found, length.len());
        Ok(runs.iter().any(|run| run.overlap(chunk) == Some(chunk)))
    }

    fn write_back(&self, chunk: Span) -> Result<(), DriveError> {
        system::write_back(&self.file, chunk).map_err(|error| io("cannot write back", error))
    }

    /// Sets the length of the next chunk by the result of the last one.
    fn adapt_chunk(&mut self, skipped: Option<SkipReason>) {
        match skipped {
            None if self.undisturbed >= UNDISTURBED_MIN => {
                self.chunk = (self.chunk * 2).min(CHUNK_MAX);
                self.undisturbed = 0;
            }
            None => self.undisturbed += 1,
            Some(SkipReason::Busy) => {
                self.chunk = (self.chunk / 2).max(CHUNK_MIN);
                self.undisturbed = 0;
            }
            Some(_) => {}
        }
    }
}

/// Reads all of a part. Returns false if the file ends before.
fn read(file: &File, part: Span, to: &mut Buffer) -> Result<bool, DriveError> {
    // Direct reads are of whole blocks; at the end of the file less is read.
    let length = part.length as usize;
    let whole = length.next_multiple_of(DIRECT_READ_MIN).min(to.len());
    let mut done = 0;
    while done < length {
        match file.read_at(&mut to[done..whole], part.offset + done as u64) {
            Ok(0) => return Ok(false),
            Ok(read) => done += read,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(io(format!("cannot read byte {}", part.offset), error)),
        }
    }
    Ok(true)
}

fn cannot_see_maps(error: std::io::Error) -> DriveError {
    io("cannot find the programs that have the file mapped", error)
}

/// Returns the pause before the next attempt.
fn pause(tried: u32) -> Duration {
    Duration::from_micros(100 << tried.min(10)).min(PAUSE_MAX)
}

/// Returns true if writes that follow each other directly get different times: xfs recognises changes by
/// them. `file` must be a temporary file.
fn has_fine_timestamps(file: &File) -> Result<bool, DriveError> {
    let cannot = |error: std::io::Error| io("cannot see when a file was changed", error);
    let mut stamps = std::collections::HashSet::new();
    for _ in 0..STAMPS {
        file.write_all_at(b"!", 0).map_err(cannot)?;
        let found = file.metadata().map_err(cannot)?;
        stamps.insert((found.ctime(), found.ctime_nsec()));
    }
    Ok(stamps.len() == STAMPS)
}

impl Strategy for CommitRange {
    fn announce(&mut self, run: Span) {
        self.donors.announce(run);
    }

    fn mapped_by(&self) -> Option<&str> {
        self.mapped_by.as_deref()
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
        let mut sum = Outcome::default();
        let mut at = window.offset;
        while at < window.end() {
            let chunk = Span::new(at, self.chunk.min(window.end() - at));
            let could_be_less = self.chunk > CHUNK_MIN;
            let skipped = self.exchange(chunk)?;
            self.adapt_chunk(skipped);
            if overrun_guard.is_overrun() {
                sum.skipped = Some(SkipReason::Overrun);
                break;
            }
            if skipped == Some(SkipReason::Busy) && could_be_less {
                continue;
            }
            overrun_guard.advance(chunk.length);
            at = chunk.end();
            sum.skipped = sum.skipped.or(skipped);
            if skipped.and_then(SkipReason::abort_reason).is_some() {
                // The rest of the window would be skipped for another reason, or hide this one.
                sum.skipped = skipped;
                break;
            }
            if skipped.is_none() {
                sum.written += chunk.length;
                // Each byte is read to be copied, written, and read once more to be compared.
                limiter.throttle(chunk.length * 3);
            }
        }
        rustix::fs::fsync(&self.file).map_err(|error| io("cannot write back", error))?;
        self.donors.finish_window(window);
        Ok(sum)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_and_end_somewhere() {
        assert!(pause(0) < pause(3));
        assert_eq!(pause(40), PAUSE_MAX);
    }
}
