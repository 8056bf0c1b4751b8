//! A storage in memory that takes down what is done to it.

use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ssdlab_attach::image::layout::Layout;
use ssdlab_attach::image::storage::Storage;

use crate::crash::Region;
use crate::oracle::Mark;
use crate::pages::Pages;

/// Something that happened, in the order in which it did.
#[derive(Clone, Debug)]
pub enum Event {
    /// Bytes were written.
    Write {
        /// Where, in bytes.
        at: u64,
        /// What.
        data: Arc<[u8]>,
    },
    /// A stretch was made zeros.
    Punch {
        /// Where, in bytes.
        at: u64,
        /// Number of bytes.
        length: u64,
    },
    /// All that was done before is about to be made durable.
    SyncBegun {
        /// Tells it from others.
        number: u32,
    },
    /// What was done before that one began is durable.
    SyncDone {
        /// Of the beginning.
        number: u32,
    },
    /// What the host did to the drive, or was promised by it.
    Host(Mark),
    /// The host crashed: these are the bytes of the disk, all of them durable.
    Crashed(Pages),
}

impl Event {
    /// Describes it in a line.
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
pub struct Memory {
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

impl Memory {
    /// A storage with those contents.
    pub fn new(pages: Pages) -> Memory {
        Memory::with(Contents { pages, log: None, syncs: 0 })
    }

    /// Makes an image that notes what is done to it.
    pub fn recording(pages: Pages) -> Memory {
        Memory::with(Contents { pages, log: Some(Vec::new()), syncs: 0 })
    }

    fn with(contents: Contents) -> Memory {
        Memory {
            contents: Mutex::new(contents),
            #[cfg(feature = "stepped")]
            is_stepped: false,
        }
    }

    /// Makes an image that lets other threads run between the beginning and the end of a sync.
    #[cfg(feature = "stepped")]
    pub fn stepped(pages: Pages) -> Memory {
        Memory { is_stepped: true, ..Memory::recording(pages) }
    }

    /// Lets others go on, where that is asked for.
    fn step(&self) {
        #[cfg(feature = "stepped")]
        if self.is_stepped {
            // Threads may be switched at each use of an atomic, and need not be.
            shuttle::sync::atomic::AtomicBool::new(false).load(std::sync::atomic::Ordering::SeqCst);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Contents> {
        // Each change of it is a single one.
        self.contents.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns what it holds now.
    pub fn pages(&self) -> Pages {
        self.lock().pages.clone()
    }

    /// Takes down something of the host's.
    pub fn mark(&self, mark: Mark) {
        self.lock().note(|| Event::Host(mark));
    }

    /// Returns a copy of what was taken down so far.
    pub fn log(&self) -> Vec<Event> {
        self.lock().log.clone().unwrap_or_default()
    }

    /// Replaces the bytes by those that a crash of the host has left, and takes that down.
    pub fn crash(&self, left: Pages) {
        let mut contents = self.lock();
        contents.pages = left.clone();
        contents.note(|| Event::Crashed(left));
    }

    /// Returns what was taken down, and begins anew.
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

impl Storage for Memory {
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
