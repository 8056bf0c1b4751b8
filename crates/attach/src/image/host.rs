//! The file of an image, on the host's disk.
//!
//! All that is written to an image goes through here, so that a test can take it down and see what a
//! crash of the host may leave of it.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{FallocateFlags, fallocate};

/// What is done to an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Deed {
    /// Bytes were written.
    Write {
        /// Where, in bytes.
        at: u64,
        /// What.
        data: Vec<u8>,
    },
    /// A stretch was made zeros that take no room.
    Punch {
        /// Where, in bytes.
        at: u64,
        /// How many bytes.
        length: u64,
    },
    /// All that was done before is about to be made durable.
    SyncBegun {
        /// Tells it from others, which may be under way at the same time.
        number: u64,
    },
    /// What was done before that one began is durable.
    SyncDone {
        /// Of the beginning.
        number: u64,
    },
}

/// Who is told what is done to an image, right after it was.
pub trait Witness: Send + Sync {
    /// Takes it down.
    fn note(&self, deed: Deed);
}

/// The file of an image.
pub struct HostFile {
    file: File,
    witness: Option<Arc<dyn Witness>>,
}

/// Tells syncs apart.
static SYNCS: AtomicU64 = AtomicU64::new(0);

impl HostFile {
    /// That of an open file.
    pub fn new(file: File) -> HostFile {
        HostFile { file, witness: None }
    }

    /// Has `witness` told what is done from now on, here and to copies of this.
    pub fn watch(&mut self, witness: Arc<dyn Witness>) {
        self.witness = Some(witness);
    }

    /// The file itself, which is not to be written to.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// The same file once more.
    ///
    /// # Errors
    /// When the system has no more descriptors.
    pub fn try_clone(&self) -> io::Result<HostFile> {
        Ok(HostFile { file: self.file.try_clone()?, witness: self.witness.clone() })
    }

    #[inline]
    fn note(&self, deed: impl FnOnce() -> Deed) {
        if let Some(witness) = &self.witness {
            witness.note(deed());
        }
    }

    /// Reads some bytes from `at`.
    ///
    /// # Errors
    /// When the system fails it.
    pub fn read_at(&self, data: &mut [u8], at: u64) -> io::Result<usize> {
        self.file.read_at(data, at)
    }

    /// Reads all of `data` from `at`.
    ///
    /// # Errors
    /// When the system fails it, or the file is shorter.
    #[inline]
    pub fn read_exact_at(&self, data: &mut [u8], at: u64) -> io::Result<()> {
        self.file.read_exact_at(data, at)
    }

    /// Writes some of `data` to `at`.
    ///
    /// # Errors
    /// When the system fails it.
    pub fn write_at(&self, data: &[u8], at: u64) -> io::Result<usize> {
        let count = self.file.write_at(data, at)?;
        self.note(|| Deed::Write { at, data: data[..count].to_vec() });
        Ok(count)
    }

    /// Writes all of `data` to `at`.
    ///
    /// # Errors
    /// When the system fails it; some of it may be written then.
    #[inline]
    pub fn write_all_at(&self, data: &[u8], at: u64) -> io::Result<()> {
        self.file.write_all_at(data, at)?;
        self.note(|| Deed::Write { at, data: data.to_vec() });
        Ok(())
    }

    /// Makes a stretch zeros that take no room. Where the file system has no holes, zeros are written.
    ///
    /// # Errors
    /// When the system fails it.
    pub fn punch(&self, from: u64, length: u64) -> io::Result<()> {
        if length == 0 {
            return Ok(());
        }
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        match fallocate(&self.file, flags, from, length) {
            Err(rustix::io::Errno::OPNOTSUPP) => return self.write_zeros(from, length),
            outcome => outcome?,
        }
        self.note(|| Deed::Punch { at: from, length });
        Ok(())
    }

    fn write_zeros(&self, from: u64, length: u64) -> io::Result<()> {
        let zeros = vec![0; length.min(1 << 20) as usize];
        let mut at = from;
        while at < from + length {
            let count = (from + length - at).min(zeros.len() as u64) as usize;
            self.write_all_at(&zeros[..count], at)?;
            at += count as u64;
        }
        Ok(())
    }

    /// Makes all that was written before durable.
    ///
    /// # Errors
    /// When the system fails it; nobody knows what is durable then.
    pub fn sync_data(&self) -> io::Result<()> {
        let number = SYNCS.fetch_add(1, Ordering::Relaxed);
        self.note(|| Deed::SyncBegun { number });
        self.file.sync_data()?;
        self.note(|| Deed::SyncDone { number });
        Ok(())
    }
}

impl std::fmt::Debug for HostFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.file.fmt(f)
    }
}
