//! Access to the storage of an image, which remembers a failed sync.
//!
//! The system reports a failed `fdatasync` once, to the first caller, and then forgets it: the next sync
//! succeeds although earlier writes are lost. So the first failure is remembered here for all clones: from then
//! on nothing counts as durable, and nothing is punched out.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::sync::{Arc, OnceLock, PoisonError};

use rustix::io::Errno;

use super::storage::Storage;
use crate::sync::Mutex;

/// The storage of an image. Clones share the storage.
#[derive(Clone, Debug)]
pub struct HostFile {
    storage: Arc<dyn Storage>,
    durability: Arc<Durability>,
}

/// Sync failure, shared by all clones.
#[derive(Debug, Default)]
struct Durability {
    /// Held during a sync, so that a sync that reports success knows of a failure that another one reported.
    turn: Mutex<()>,
    failed: OnceLock<Errno>,
}

impl HostFile {
    /// Returns access to `storage`, which nobody else may write to.
    pub fn new(storage: Arc<dyn Storage>) -> HostFile {
        HostFile { storage, durability: Arc::default() }
    }

    /// Returns the file that holds the bytes, for reading only; `None` if the storage is no file.
    pub fn file(&self) -> Option<&File> {
        self.storage.file()
    }

    /// Returns the length in bytes.
    ///
    /// # Errors
    /// Returns an error if the storage cannot tell.
    pub fn length(&self) -> io::Result<u64> {
        self.storage.length()
    }

    /// Returns the first stretch of data at or behind `at`; see [`Storage::next_data`].
    ///
    /// # Errors
    /// Returns an error if the storage cannot be searched.
    pub fn next_data(&self, at: u64) -> io::Result<Option<Range<u64>>> {
        self.storage.next_data(at)
    }

    /// Reads up to `data.len()` bytes from `at`; returns their number.
    ///
    /// # Errors
    /// Returns an error if the read fails.
    pub fn read_at(&self, data: &mut [u8], at: u64) -> io::Result<usize> {
        self.storage.read(data, at)
    }

    /// Reads all of `data` from `at`.
    ///
    /// # Errors
    /// Returns an error if the read fails, or the file ends before.
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

    /// Writes from the beginning of `data` to `at`; returns the number of bytes written.
    ///
    /// # Errors
    /// Returns an error if the write fails.
    pub fn write_at(&self, data: &[u8], at: u64) -> io::Result<usize> {
        self.storage.write(data, at)
    }

    /// Writes all of `data` to `at`.
    ///
    /// # Errors
    /// Returns an error if a write fails; a part of `data` may be written then.
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

    /// Returns the error of the first failed sync, by this or another clone; `None` if none has failed. After
    /// one, nobody knows what is durable.
    pub fn failed(&self) -> Option<Errno> {
        self.durability.failed.get().copied()
    }

    fn check(&self) -> io::Result<()> {
        self.failed().map_or(Ok(()), |failed| Err(failed.into()))
    }

    /// Replaces a stretch by a hole, which reads as zeros. Writes zeros if the file system has no holes.
    ///
    /// # Errors
    /// Returns an error if the system call fails. Also after a failed sync, since the data may be the only copy
    /// left.
    pub fn punch(&self, from: u64, length: u64) -> io::Result<()> {
        if length == 0 {
            return Ok(());
        }
        self.check()?;
        self.storage.punch(from, length)
    }

    /// Makes all earlier writes durable.
    ///
    /// # Errors
    /// Returns an error if the sync fails, or an earlier one has failed: since then nobody knows what is
    /// durable.
    pub fn sync_data(&self) -> io::Result<()> {
        let _turn = self.durability.turn.lock().unwrap_or_else(PoisonError::into_inner);
        self.check()?;
        let outcome = self.storage.sync();
        if let Err(error) = &outcome {
            // The lock is held, so nobody else can have set it.
            let _ = self.durability.failed.set(Errno::from_io_error(error).unwrap_or(Errno::IO));
        }
        outcome
    }
}
