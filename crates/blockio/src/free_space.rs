//! Free space for the file of a run, and the reserve that must stay free.

use ssdlab_error::DriveError;
use ssdlab_units::{ByteLength, GIB};

use super::file::OwnFile;
use super::handle::io_error;
use super::os;

/// Space for a file.
pub(super) struct FreeSpace {
    /// Bytes that are free, and those that the file itself occupies already.
    pub(super) free: ByteLength,
    /// Bytes that must stay free: a full file system harms its other users.
    pub(super) reserve: ByteLength,
}

impl FreeSpace {
    /// Returns the space for `file`. The default of `reserve` is 1 GiB or 5 % of the file system,
    /// whichever is more.
    pub(super) fn of(file: &OwnFile, reserve: Option<ByteLength>) -> Result<FreeSpace, DriveError> {
        let space = os::space(&file.handle.file, &file.handle.shown).map_err(|error| {
            let what = format!("cannot see the free space at {}", file.handle.shown.display());
            io_error(what, error)
        })?;
        let free = space.free + file.occupied()?;
        let twentieth = ByteLength::new(space.total.bytes() / 20);
        Ok(FreeSpace { free, reserve: reserve.unwrap_or(twentieth.max(GIB)) })
    }

    /// Returns the largest length that a file may have.
    pub(super) fn usable(&self) -> ByteLength {
        ByteLength::new(self.free.bytes().saturating_sub(self.reserve.bytes()))
    }
}
