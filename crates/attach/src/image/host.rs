//! Access to the storage of an image, which remembers that it has failed.
//!
//! The system tells a failure to make a file durable once, to whoever asks first, and then forgets it: asked
//! again it says that all is well, although what was written before is lost. So the first failure is
//! remembered here for all copies: nothing is durable any more from then on, and nothing is punched out.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::sync::{Arc, OnceLock, PoisonError};

use rustix::io::Errno;

use super::storage::Storage;
use crate::sync::Mutex;

/// The storage of an image. Copies of it are the same storage.
#[derive(Clone, Debug)]
pub struct HostFile {
    storage: Arc<dyn Storage>,
    durability: Arc<Durability>,
}

/// What all copies of a file know of its being made durable.
#[derive(Debug, Default)]
struct Durability {
    /// Held while it is made so: who is told that it was must know of a failure that another was told of.
    turn: Mutex<()>,
    failed: OnceLock<Errno>,
}

impl HostFile {
    /// Access to `storage`, which nobody else writes to.
    pub fn new(storage: Arc<dyn Storage>) -> HostFile {
        HostFile { storage, durability: Arc::default() }
    }

    /// The file that it is, where it is one: not to be written to.
    pub fn file(&self) -> Option<&File> {
        self.storage.file()
    }

    /// Returns the length in bytes.
    ///
    /// # Errors
    /// Returns an error if the system fails it.
    pub fn length(&self) -> io::Result<u64> {
        self.storage.length()
    }

    /// Returns the first stretch of data at or behind `at`; see [`Storage::next_data`].
    ///
    /// # Errors
    /// Returns an error if the system fails it.
    pub fn next_data(&self, at: u64) -> io::Result<Option<Range<u64>>> {
        self.storage.next_data(at)
    }

    /// Reads some bytes from `at`.
    ///
    /// # Errors
    /// Returns an error if the system fails it.
    pub fn read_at(&self, data: &mut [u8], at: u64) -> io::Result<usize> {
        self.storage.read(data, at)
    }

    /// Reads all of `data` from `at`.
    ///
    /// # Errors
    /// Returns an error if the system fails it, or the file is shorter.
    #[inline]
    pub fn read_exact_at(&self, mut data: &mut [u8], mut at: u64) -> io::Result<()> {
        while !data.is_empty() {
            match self.storage.read(data, at) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => (data, at) = (&mut data[count..], at + count as u64),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Writes some of `data` to `at`.
    ///
    /// # Errors
    /// Returns an error if the system fails it.
    pub fn write_at(&self, data: &[u8], at: u64) -> io::Result<usize> {
        self.storage.write(data, at)
    }

    /// Writes all of `data` to `at`.
    ///
    /// # Errors
    /// Returns an error if the system fails it; some of it may be written then.
    #[inline]
    pub fn write_all_at(&self, mut data: &[u8], mut at: u64) -> io::Result<()> {
        while !data.is_empty() {
            match self.storage.write(data, at) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => (data, at) = (&data[count..], at + count as u64),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// The first failure to make durable what was written, here or by a copy of this: nobody knows since
    /// then what is durable.
    pub fn failed(&self) -> Option<Errno> {
        self.durability.failed.get().copied()
    }

    fn check(&self) -> io::Result<()> {
        self.failed().map_or(Ok(()), |failed| Err(failed.into()))
    }

    /// Makes a stretch zeros that take no room. Where the file system has no holes, zeros are written.
    ///
    /// # Errors
    /// Returns an error if the system fails it; after a failure to make the file durable, since what is to go
    /// may then be the only copy that is left.
    pub fn punch(&self, from: u64, length: u64) -> io::Result<()> {
        if length == 0 {
            return Ok(());
        }
        self.check()?;
        self.storage.punch(from, length)
    }

    /// Makes all that was written before durable.
    ///
    /// # Errors
    /// Returns an error if the system fails it, or has failed it before: nobody knows what is durable since
    /// then.
    pub fn sync_data(&self) -> io::Result<()> {
        let _turn = self.durability.turn.lock().unwrap_or_else(PoisonError::into_inner);
        self.check()?;
        let outcome = self.storage.sync();
        if let Err(error) = &outcome {
            // Nobody else has set it: it is our turn.
            let _ = self.durability.failed.set(Errno::from_io_error(error).unwrap_or(Errno::IO));
        }
        outcome
    }
}
