//! The file of an image, with a record of what is done to it.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ssdlab_attach::image::storage::Storage;

/// Something done to an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Deed {
    /// Bytes were written.
    Write { at: u64, data: Vec<u8> },
    /// A stretch was made zeros that take no room.
    Punch { at: u64, length: u64 },
    /// All that was done before is about to be made durable.
    SyncBegun { number: u64 },
    /// What was done before that one began is durable.
    SyncDone { number: u64 },
}

/// Takes down what is done to an image, right after it was.
pub trait Witness: Send + Sync {
    /// Takes it down.
    fn note(&self, deed: Deed);
}

/// A file that tells a witness what is done to it.
pub struct Recorded {
    file: File,
    witness: Arc<dyn Witness>,
    syncs: AtomicU64,
}

impl std::fmt::Debug for Recorded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.file.fmt(f)
    }
}

impl Recorded {
    /// The file at `path`.
    pub fn open(path: &Path, witness: Arc<dyn Witness>) -> Recorded {
        let file = File::options().read(true).write(true).open(path).expect("the image");
        Recorded { file, witness, syncs: AtomicU64::new(0) }
    }
}

impl Storage for Recorded {
    fn read(&self, data: &mut [u8], at: u64) -> io::Result<usize> {
        Storage::read(&self.file, data, at)
    }

    fn write(&self, data: &[u8], at: u64) -> io::Result<usize> {
        let count = Storage::write(&self.file, data, at)?;
        self.witness.note(Deed::Write { at, data: data[..count].to_vec() });
        Ok(count)
    }

    fn punch(&self, at: u64, length: u64) -> io::Result<()> {
        self.file.punch(at, length)?;
        self.witness.note(Deed::Punch { at, length });
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let number = self.syncs.fetch_add(1, Ordering::Relaxed);
        self.witness.note(Deed::SyncBegun { number });
        Storage::sync(&self.file)?;
        self.witness.note(Deed::SyncDone { number });
        Ok(())
    }

    fn length(&self) -> io::Result<u64> {
        Storage::length(&self.file)
    }

    fn next_data(&self, at: u64) -> io::Result<Option<Range<u64>>> {
        self.file.next_data(at)
    }
}
