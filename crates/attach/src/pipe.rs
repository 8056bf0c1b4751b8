//! Zero-copy transfer from the image to a socket, with `splice` and a pipe.
//!
//! A pipe holds pages of the image by reference: the system neither copies them nor frees them, even if their
//! place is punched out meanwhile. They keep their contents, because a place is written once between two
//! erases, and is punched out, not overwritten, if it was sent ([`crate::store::Store::note_spliced`]). Data in the
//! pipe is compared with its checksums before it is sent.

use std::fs::File;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::pipe::{PipeFlags, SpliceFlags, fcntl_setpipe_size, pipe_with, splice};

/// Requested capacity of the pipe, in bytes.
const SIZE: usize = 1 << 20;

/// A pipe, empty between requests.
#[derive(Debug)]
pub struct Pipe {
    from: OwnedFd,
    to: OwnedFd,
    /// Capacity in bytes, for whole pages.
    capacity: usize,
    filled: usize,
}

impl Pipe {
    /// Returns an empty pipe.
    ///
    /// # Errors
    /// Returns an error if the system has no pipe left.
    pub fn new() -> io::Result<Pipe> {
        let (from, to) = pipe_with(PipeFlags::CLOEXEC)?;
        // If the system does not allow this size, the pipe is smaller, and fewer reads go this way.
        let capacity = fcntl_setpipe_size(&to, SIZE).unwrap_or(1 << 16);
        Ok(Pipe { from, to, capacity, filled: 0 })
    }

    /// Returns the number of bytes that fit into the empty pipe.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Returns the number of bytes in the pipe.
    pub fn filled(&self) -> usize {
        self.filled
    }

    /// Adds `length` bytes of `file` from `at` to the pipe.
    ///
    /// # Errors
    /// Returns an error if the bytes cannot be read, or do not fit.
    pub fn fill(&mut self, file: &File, mut at: u64, length: usize) -> io::Result<()> {
        let mut left = length;
        while left > 0 {
            // Nobody empties the pipe meanwhile, so waiting for space would never end.
            let flags = SpliceFlags::NONBLOCK | SpliceFlags::MOVE;
            match splice(file, Some(&mut at), &self.to, None, left, flags) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => {
                    left -= count;
                    self.filled += count;
                }
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Sends all bytes in the pipe to `socket`.
    ///
    /// # Errors
    /// Returns an error if the socket does not take them.
    pub fn send(&mut self, socket: BorrowedFd<'_>) -> io::Result<()> {
        while self.filled > 0 {
            match splice(&self.from, None, socket, None, self.filled, SpliceFlags::MOVE) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => self.filled -= count,
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Drops all bytes in the pipe, by replacing it.
    ///
    /// # Errors
    /// Returns an error if the system has no new pipe.
    pub fn empty(&mut self) -> io::Result<()> {
        if self.filled > 0 {
            *self = Pipe::new()?;
        }
        Ok(())
    }
}
