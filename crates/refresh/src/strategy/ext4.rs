//! ext4: another file is given room in as few pieces as possible, and the kernel exchanges the
//! blocks of both, taking the data along under its own locks (EXT4_IOC_MOVE_EXT). Writers go on
//! meanwhile, through the page cache, past it and through memory maps.
//!
//! The other file has no name, so that nothing is left of it however this ends.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{Advice, FallocateFlags, fadvise, fallocate};
use rustix::io::Errno;

use super::{Left, Outcome, Strategy};
use crate::extents::{self, Extent, Sync, pieces_in};
use crate::pace::Pace;
use crate::window::Span;
use crate::yardstick::nameless;
use crate::{DriveError, io, system, unsupported};

/// Blocks exchanged at a time. The kernel takes a page along only when nothing else of its folio is
/// dirty, and otherwise forces a commit of the journal for each block: three writes and two flushes
/// for 4 KiB instead of one write. So a few are exchanged and written back at a time.
const BLOCKS: u64 = 64;

/// What the page cache has of a window goes before, for the same reason, and as far around it as the
/// largest folio reaches: one that is only partly within a range is kept.
const FOLIO_MAX: u64 = 4 << 20;

/// Room asked for at once: the longest extent of ext4 with blocks of 4 KiB.
const ROOM_MAX: u64 = 128 << 20;

/// Tries at a chunk that is in use.
const TRIES: u32 = 8;

/// A file that lends its room.
#[derive(Debug)]
struct Donor {
    file: File,
    /// Which bytes of the other file it is for.
    span: Span,
    extents: Vec<Extent>,
}

/// Exchanges blocks of a file with those of another one.
#[derive(Debug)]
pub struct MoveExtents {
    file: File,
    directory: PathBuf,
    /// Bytes of a block of the file system.
    block: u64,
    /// Bytes of the file system that stay free.
    reserve: u64,
    stretch: Option<Span>,
    donor: Option<Donor>,
}

impl MoveExtents {
    /// For `file`, opened for reading and writing, in `directory`.
    pub fn new(file: File, directory: &Path, block: u64, reserve: u64) -> MoveExtents {
        let directory = directory.to_owned();
        MoveExtents { file, directory, block, reserve, stretch: None, donor: None }
    }

    /// Makes room for a window, and for as much as possible of what comes after it.
    fn make_room(&mut self, window: Span) -> Result<Option<Left>, DriveError> {
        if self.donor.as_ref().is_some_and(|it| it.span.overlap(window) == Some(window)) {
            return Ok(None);
        }
        // What it held goes first: its room may be needed.
        self.donor = None;
        let end = self.stretch.filter(|it| it.overlap(window) == Some(window));
        let end = end.map_or(window.end(), Span::end);
        let mut length = (end - window.offset).min(ROOM_MAX).max(window.length);
        loop {
            match self.try_room(Span::new(window.offset, length))? {
                Some(donor) => {
                    self.donor = Some(donor);
                    return Ok(None);
                }
                None if length == window.length => return Ok(Some(Left::NoRoom)),
                None => length = (length / 2).max(window.length),
            }
        }
    }

    fn try_room(&self, span: Span) -> Result<Option<Donor>, DriveError> {
        let found = rustix::fs::fstatvfs(&self.file)
            .map_err(|error| io("cannot see the free space", error))?;
        let free = found.f_bavail * found.f_frsize;
        let length = span.length.next_multiple_of(self.block);
        if free < length + self.reserve {
            return Ok(None);
        }
        let file = nameless(&self.directory, false)?;
        match fallocate(&file, FallocateFlags::empty(), 0, length) {
            Ok(()) => {}
            Err(Errno::NOSPC | Errno::DQUOT) => return Ok(None),
            Err(error) => return Err(io("cannot make room for the data", error)),
        }
        let extents = extents::of(&file, Span::new(0, length), Sync::First)
            .map_err(|error| io("cannot see where the new room lies", error))?;
        Ok(Some(Donor { file, span, extents }))
    }

    /// Whether the room for a window lies in more pieces than the window: it would not get faster.
    fn would_scatter(&self, window: Span) -> Result<bool, DriveError> {
        let donor = self.donor.as_ref().expect("room was made");
        let now = extents::of(&self.file, window, Sync::Not)
            .map_err(|error| io("cannot see where the data lies", error))?;
        let there = Span::new(window.offset - donor.span.offset, window.length);
        // Two are as good as one: a border costs one request in a window.
        Ok(pieces_in(&donor.extents, there) > pieces_in(&now, window).max(2))
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
        let donor = self.donor.as_ref().expect("room was made");
        let length = std::num::NonZeroU64::new(chunk.length);
        let outcome = self.exchange_blocks(donor, chunk)?;
        rustix::fs::fdatasync(&self.file).map_err(|error| io("cannot write back", error))?;
        let _ = fadvise(&self.file, chunk.offset, length, Advice::DontNeed);
        let there = chunk.offset - donor.span.offset;
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
        self.stretch = Some(stretch);
    }

    fn rewrite(&mut self, window: Span, pace: &mut Pace) -> Result<Outcome, DriveError> {
        if let Some(left) = self.make_room(window)? {
            return Ok(Outcome { written: 0, left: Some(left) });
        }
        if self.would_scatter(window)? {
            self.donor = None;
            return Ok(Outcome { written: 0, left: Some(Left::WouldScatter) });
        }
        self.let_go(window)?;
        let mut sum = Outcome::default();
        for chunk in window.pieces(BLOCKS * self.block) {
            let outcome = self.exchange(chunk)?;
            sum.written += outcome.written;
            sum.left = sum.left.or(outcome.left);
            pace.spend(outcome.written);
        }
        if self.donor.as_ref().is_some_and(|it| it.span.end() == window.end()) {
            self.donor = None;
        }
        Ok(sum)
    }
}
