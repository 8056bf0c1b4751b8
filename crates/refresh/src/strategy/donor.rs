//! Donor: a file without a name (`O_TMPFILE`) whose blocks are exchanged with those of the file to
//! rewrite. Nothing is left of the donor however the process ends. It lies in as few pieces as the free
//! space allows, and gets the old blocks.

use std::fs::File;
use std::path::{Path, PathBuf};

use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;

use super::SkipReason;
use crate::baseline::create_unnamed;
use crate::extents::{self, Extent, WriteBack, count_fragments};
use crate::window::Span;
use crate::{DriveError, io};

/// Largest length in bytes of a donor: the longest extent of ext4 with blocks of 4 KiB.
const DONOR_LENGTH_MAX: u64 = 128 << 20;

/// A file whose blocks are exchanged.
#[derive(Debug)]
pub(super) struct Donor {
    pub(super) file: File,
    /// Range of the other file that the donor has blocks for.
    pub(super) span: Span,
    extents: Vec<Extent>,
}

impl Donor {
    /// Returns the offset in the donor for a part of the other file.
    pub(super) fn place_of(&self, part: Span) -> u64 {
        part.offset - self.span.offset
    }
}

/// Makes donors in a directory.
#[derive(Debug)]
pub(super) struct DonorAllocator {
    directory: PathBuf,
    /// Bytes of a block of the file system.
    block: u64,
    /// Bytes of the file system that must stay free.
    reserve: u64,
    /// True if donors are written with direct I/O.
    is_direct: bool,
    run: Option<Span>,
    donor: Option<Donor>,
}

impl DonorAllocator {
    /// Makes donors in `directory`, on a file system with blocks of `block` bytes, of which `reserve`
    /// bytes stay free.
    pub(super) fn new(
        directory: &Path,
        block: u64,
        reserve: u64,
        is_direct: bool,
    ) -> DonorAllocator {
        let directory = directory.to_owned();
        DonorAllocator { directory, block, reserve, is_direct, run: None, donor: None }
    }

    /// Announces that the windows of `run` come next, without a gap.
    pub(super) fn announce(&mut self, run: Span) {
        self.run = Some(run);
    }

    /// Returns the donor for the window that was passed to `allocate_for` last.
    pub(super) fn donor(&self) -> &Donor {
        self.donor.as_ref().expect("room was made")
    }

    /// Makes a donor for a window of `file`, and if possible for the windows after it. Returns the reason
    /// if the window has to be left.
    pub(super) fn allocate_for(
        &mut self,
        file: &File,
        window: Span,
    ) -> Result<Option<SkipReason>, DriveError> {
        let covers = |it: &Donor| it.span.overlap(window) == Some(window);
        if !self.donor.as_ref().is_some_and(covers) {
            // The last donor goes first: its blocks may be needed.
            self.donor = None;
            let end = self.run.filter(|it| it.overlap(window) == Some(window));
            let end = end.map_or(window.end(), Span::end);
            let mut length = (end - window.offset).min(DONOR_LENGTH_MAX).max(window.length);
            self.donor = loop {
                match self.try_allocate(Span::new(window.offset, length))? {
                    Some(donor) => break Some(donor),
                    None if length == window.length => return Ok(Some(SkipReason::NoRoom)),
                    None => length = (length / 2).max(window.length),
                }
            };
        }
        if self.would_fragment(file, window)? {
            self.donor = None;
            return Ok(Some(SkipReason::WouldScatter));
        }
        Ok(None)
    }

    fn try_allocate(&self, span: Span) -> Result<Option<Donor>, DriveError> {
        let found = rustix::fs::statvfs(&self.directory)
            .map_err(|error| io("cannot see the free space", error))?;
        let free = found.f_bavail * found.f_frsize;
        let length = span.length.next_multiple_of(self.block);
        if free < length + self.reserve {
            return Ok(None);
        }
        let file = create_unnamed(&self.directory, self.is_direct)?;
        match fallocate(&file, FallocateFlags::empty(), 0, length) {
            Ok(()) => {}
            Err(Errno::NOSPC | Errno::DQUOT) => return Ok(None),
            Err(error) => return Err(io("cannot allocate space for a copy of the data", error)),
        }
        let extents = extents::of(&file, Span::new(0, length), WriteBack::First)
            .map_err(|error| io("cannot read the extents of the new space", error))?;
        Ok(Some(Donor { file, span, extents }))
    }

    /// Returns true if the donor has the window in more pieces than the file: the window would not become
    /// faster.
    fn would_fragment(&self, file: &File, window: Span) -> Result<bool, DriveError> {
        let donor = self.donor();
        let now = extents::of(file, window, WriteBack::Skip)
            .map_err(|error| io("cannot read the extents of the data", error))?;
        let there = Span::new(donor.place_of(window), window.length);
        // Two pieces are as good as one: a border costs one request in a window.
        Ok(count_fragments(&donor.extents, there) > count_fragments(&now, window).max(2))
    }

    /// Ends a window. A donor that has no blocks left to exchange is closed, which frees the blocks that
    /// it got.
    pub(super) fn finish_window(&mut self, window: Span) {
        if self.donor.as_ref().is_some_and(|it| it.span.end() == window.end()) {
            self.donor = None;
        }
    }
}
