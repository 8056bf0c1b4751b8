//! The file of an image, on the host's disk.
//!
//! All that is written to an image goes through here, so that a test can take it down and see what a
//! crash of the host may leave of it.
//!
//! The system tells a failure to make a file durable once, to whoever asks first, and then forgets it: asked
//! again it says that all is well, although what was written before is lost. So the first failure is
//! remembered here for all copies: nothing is durable any more from then on, and nothing is punched out.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;

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

    /// What a disk answers that is asked to make durable what was written, before it is asked: for tests
    /// of disks that fail.
    ///
    /// # Errors
    /// What it fails with.
    fn before_sync(&self) -> io::Result<()> {
        Ok(())
    }
}

/// The file of an image.
pub struct HostFile {
    file: File,
    witness: Option<Arc<dyn Witness>>,
    durability: Arc<Durability>,
}

/// What all copies of a file know of its being made durable.
#[derive(Default)]
struct Durability {
    /// Held while it is made so: who is told that it was must know of a failure that another was told of.
    turn: Mutex<()>,
    failed: OnceLock<Errno>,
}

/// Tells syncs apart.
static SYNCS: AtomicU64 = AtomicU64::new(0);

impl HostFile {
    /// That of an open file.
    pub fn new(file: File) -> HostFile {
        HostFile { file, witness: None, durability: Arc::default() }
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
        let (witness, durability) = (self.witness.clone(), self.durability.clone());
        Ok(HostFile { file: self.file.try_clone()?, witness, durability })
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
    /// When the system fails it; after a failure to make the file durable, since what is to go may then be
    /// the only copy that is left.
    pub fn punch(&self, from: u64, length: u64) -> io::Result<()> {
        if length == 0 {
            return Ok(());
        }
        self.check()?;
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
    /// When the system fails it, or has failed it before: nobody knows what is durable since then.
    pub fn sync_data(&self) -> io::Result<()> {
        let _turn = self.durability.turn.lock().unwrap_or_else(PoisonError::into_inner);
        self.check()?;
        let number = SYNCS.fetch_add(1, Ordering::Relaxed);
        self.note(|| Deed::SyncBegun { number });
        let may_go_on = self.witness.as_ref().map_or(Ok(()), |witness| witness.before_sync());
        if let Err(error) = may_go_on.and_then(|()| self.file.sync_data()) {
            // Nobody else has set it: it is our turn.
            let _ = self.durability.failed.set(Errno::from_io_error(&error).unwrap_or(Errno::IO));
            return Err(error);
        }
        self.note(|| Deed::SyncDone { number });
        Ok(())
    }
}

impl std::fmt::Debug for HostFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.file.fmt(f)
    }
}
