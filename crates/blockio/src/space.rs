//! Whether a file fits: free space, and what has to stay free beside it.

use ssdlab_error::DriveError;
use ssdlab_units::{ByteLength, GIB};

use super::file::OwnFile;
use super::handle::io_error;
use super::os;

/// Space for a file.
pub(super) struct Room {
    /// What is free, and what the file itself occupies already.
    pub(super) free: ByteLength,
    /// What has to stay free: a full file system harms its other users.
    pub(super) reserve: ByteLength,
}

impl Room {
    /// The room there is for `file`. Without a `reserve` it is 1 GiB or 5 % of the file system,
    /// whichever is more.
    pub(super) fn of(file: &OwnFile, reserve: Option<ByteLength>) -> Result<Room, DriveError> {
        let space = os::space(&file.handle.file, &file.handle.shown).map_err(|error| {
            let what = format!("cannot see the free space at {}", file.handle.shown.display());
            io_error(what, error)
        })?;
        let free = space.free + file.occupied()?;
        let twentieth = ByteLength::new(space.total.bytes() / 20);
        Ok(Room { free, reserve: reserve.unwrap_or(twentieth.max(GIB)) })
    }

    /// Returns what a file may take.
    pub(super) fn usable(&self) -> ByteLength {
        ByteLength::new(self.free.bytes().saturating_sub(self.reserve.bytes()))
    }
}
