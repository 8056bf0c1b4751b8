//! A storage in memory that records all writes, punches and syncs.

use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ssdlab_attach::image::layout::Layout;
use ssdlab_attach::image::storage::Storage;

use crate::crash::Region;
use crate::oracle::Mark;
use crate::pages::Pages;

/// An event in the record of an image.
#[derive(Clone, Debug)]
pub enum Event {
    /// Bytes were written.
    Write {
        /// Offset, in bytes.
        at: u64,
        /// Bytes that were written.
        data: Arc<[u8]>,
    },
    /// A stretch was punched out: it reads as zeros.
    Punch {
        /// Offset, in bytes.
        at: u64,
        /// Number of bytes.
        length: u64,
    },
    /// A sync began.
    SyncBegun {
        /// Number of the sync.
        number: u32,
    },
    /// A sync returned: everything before its beginning is durable.
    SyncDone {
        /// Number of the sync.
        number: u32,
    },
    /// An action of the host, or a promise of the drive.
    Host(Mark),
    /// The host crashed and left these bytes on the disk, all of them durable.
    Crashed(Pages),
}

impl Event {
    /// Describes the event in a line.
    pub fn describe(&self, layout: &Layout) -> String {
        match self {
            Event::Write { at, data } => {
                format!("write {:?} at {at}, {} bytes", Region::of(layout, *at), data.len())
            }
            Event::Punch { at, length } => {
                format!("punch {:?} at {at}, {length} bytes", Region::of(layout, *at))
            }
            Event::SyncBegun { number } => format!("sync {number} begins"),
            Event::SyncDone { number } => format!("sync {number} ends"),
            Event::Host(Mark::Begun { sectors, change }) => {
                format!("the host changes sectors {sectors:?}: {change:?}")
            }
            Event::Host(Mark::Promised { first, changes }) => {
                format!("{} sectors from {first} on are promised", changes.len())
            }
            Event::Host(Mark::Found(_)) => "the drive is open".to_owned(),
            Event::Crashed(_) => "the host crashes".to_owned(),
        }
    }
}

/// A storage in memory.
#[derive(Debug)]
pub struct MemoryStorage {
    contents: Mutex<Contents>,
    #[cfg(feature = "stepped")]
    is_stepped: bool,
}

#[derive(Debug)]
struct Contents {
    pages: Pages,
    log: Option<Vec<Event>>,
    syncs: u32,
}

impl MemoryStorage {
    /// Returns a storage with those contents, without a record.
    pub fn new(pages: Pages) -> MemoryStorage {
        MemoryStorage::with(Contents { pages, log: None, syncs: 0 })
    }

    /// Returns a storage that records all events.
    pub fn recording(pages: Pages) -> MemoryStorage {
        MemoryStorage::with(Contents { pages, log: Some(Vec::new()), syncs: 0 })
    }

    fn with(contents: Contents) -> MemoryStorage {
        MemoryStorage {
            contents: Mutex::new(contents),
            #[cfg(feature = "stepped")]
            is_stepped: false,
        }
    }

    /// Returns a storage that lets other threads run between the beginning and the end of a sync.
    #[cfg(feature = "stepped")]
    pub fn stepped(pages: Pages) -> MemoryStorage {
        MemoryStorage { is_stepped: true, ..MemoryStorage::recording(pages) }
    }

    /// Lets other threads run, if the storage is stepped.
    fn step(&self) {
        #[cfg(feature = "stepped")]
        if self.is_stepped {
            // shuttle may switch threads at each use of an atomic.
            shuttle::sync::atomic::AtomicBool::new(false).load(std::sync::atomic::Ordering::SeqCst);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Contents> {
        // Each change of the contents is complete, so a panic leaves them sound.
        self.contents.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the current contents.
    pub fn pages(&self) -> Pages {
        self.lock().pages.clone()
    }

    /// Records an action of the host, or a promise to it.
    pub fn mark(&self, mark: Mark) {
        self.lock().note(|| Event::Host(mark));
    }

    /// Returns a copy of the record so far.
    pub fn log(&self) -> Vec<Event> {
        self.lock().log.clone().unwrap_or_default()
    }

    /// Replaces the contents by those that a crash of the host has left, and records that.
    pub fn crash(&self, left: Pages) {
        let mut contents = self.lock();
        contents.pages = left.clone();
        contents.note(|| Event::Crashed(left));
    }

    /// Returns the record and begins a new one.
    pub fn take_log(&self) -> Vec<Event> {
        self.lock().log.as_mut().map(std::mem::take).unwrap_or_default()
    }
}

impl Contents {
    fn note(&mut self, event: impl FnOnce() -> Event) {
        if let Some(log) = &mut self.log {
            log.push(event());
        }
    }
}

impl Storage for MemoryStorage {
    fn read(&self, data: &mut [u8], at: u64) -> io::Result<usize> {
        Ok(self.lock().pages.read(data, at))
    }

    fn write(&self, data: &[u8], at: u64) -> io::Result<usize> {
        let mut contents = self.lock();
        let count = contents.pages.write(data, at);
        contents.note(|| Event::Write { at, data: data[..count].into() });
        Ok(count)
    }

    fn punch(&self, at: u64, length: u64) -> io::Result<()> {
        let mut contents = self.lock();
        contents.pages.punch(at, length);
        contents.note(|| Event::Punch { at, length });
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let mut contents = self.lock();
        contents.syncs += 1;
        let number = contents.syncs;
        contents.note(|| Event::SyncBegun { number });
        drop(contents);
        self.step();
        self.lock().note(|| Event::SyncDone { number });
        Ok(())
    }

    fn length(&self) -> io::Result<u64> {
        Ok(self.lock().pages.length())
    }

    fn next_data(&self, at: u64) -> io::Result<Option<Range<u64>>> {
        Ok(self.lock().pages.next_data(at))
    }
}
