//! Data on its way from the image to a socket, without a copy.
//!
//! A pipe holds pages of the image by reference: the system neither copies them nor lets go of them,
//! even if the place is punched out meanwhile. They stay as they were, because a place is written once
//! between two erases, and punched out then if it was sent ([`crate::store::Store::lend`]). What was put in is
//! compared with its checksums before it goes on.

use std::fs::File;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::pipe::{PipeFlags, SpliceFlags, fcntl_setpipe_size, pipe_with, splice};

/// Bytes that a pipe is asked to hold.
const SIZE: usize = 1 << 20;

/// A pipe, empty between requests.
#[derive(Debug)]
pub struct Pipe {
    from: OwnedFd,
    to: OwnedFd,
    /// Bytes that it takes, if each page begins and ends with its own.
    capacity: usize,
    filled: usize,
}

impl Pipe {
    /// An empty one.
    ///
    /// # Errors
    /// Returns an error if the system has none.
    pub fn new() -> io::Result<Pipe> {
        let (from, to) = pipe_with(PipeFlags::CLOEXEC)?;
        // Where the system does not allow so much, it is smaller, and less goes this way.
        let capacity = fcntl_setpipe_size(&to, SIZE).unwrap_or(1 << 16);
        Ok(Pipe { from, to, capacity, filled: 0 })
    }

    /// Bytes that it takes when it is empty.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Bytes that are in it.
    pub fn filled(&self) -> usize {
        self.filled
    }

    /// Puts `length` bytes of `file` from `at` on behind what is in it.
    ///
    /// # Errors
    /// Returns an error if they cannot be read, or have no room.
    pub fn fill(&mut self, file: &File, mut at: u64, length: usize) -> io::Result<()> {
        let mut left = length;
        while left > 0 {
            // Nobody empties it meanwhile: what has no room must not be waited for.
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

    /// Sends all that is in it.
    ///
    /// # Errors
    /// Returns an error if the socket does not take it.
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

    /// Throws away what is in it.
    ///
    /// # Errors
    /// Returns an error if the system has no new one.
    pub fn empty(&mut self) -> io::Result<()> {
        if self.filled > 0 {
            *self = Pipe::new()?;
        }
        Ok(())
    }
}
