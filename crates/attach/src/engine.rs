//! Requests with payload, to a drive that keeps it.
//!
//! One lock covers the model and what is staged; data in the image is read without it. A request
//! is carried through at once and answered with the instant at which the drive would answer it, if it
//! came when the caller says; whoever asked waits until then ([`Time::Real`]) or does not
//! ([`Time::Fast`]).

mod clock;
mod durable;
mod extents;
mod helper;
mod lifetime;
mod read;
mod requests;
mod statistics;
mod sync;
mod tables;
mod trace;
mod trim;
mod write;

pub use clock::Time;
pub use extents::Extent;
pub use lifetime::{Opened, Options, Outcome};
pub use statistics::{Kind, LatencyFigures, Statistics};
pub(crate) use tables::restore;

use std::sync::Arc;

use ssdlab_model::Configuration;
use ssdlab_units::{Instant, LogicalUnit};

use crate::drive::Model;
use crate::image::damage::Damage;
use crate::image::host::HostFile;
use crate::memory::Mapped;
use crate::store::receive::Arrivals;
use crate::sync::{Condvar, Mutex, MutexGuard, RwLock};
use clock::Clock;
use statistics::Recorder;
use sync::Syncer;
use trace::Trace;

/// What a request failed with, as the system calls it.
pub type Errno = rustix::io::Errno;

/// A drive that takes requests from any number of threads.
pub struct Engine {
    inner: Mutex<Inner>,
    file: HostFile,
    gate: Arc<RwLock<()>>,
    /// The image's data, where it lies in memory.
    mapped: Option<Mapped>,
    /// True if pages of the image stay as they are while somebody refers to them.
    keeps_pages: bool,
    arrivals: Arc<Arrivals>,
    /// Wakes the helper, and those who wait for a step of its.
    helper_wanted: Condvar,
    step_done: Condvar,
    syncer: Syncer,
    clock: Clock,
    configuration: Configuration,
    damage: Damage,
    unit: u64,
    capacity: u64,
    /// True if capacitors protect the write buffer.
    protected: bool,
    read_only: bool,
    trims: bool,
    /// What each byte reads as where nothing is mapped.
    blank: u8,
    /// True if that is so at once, and always.
    reads_are_defined: bool,
}

/// What the lock covers.
struct Inner {
    model: Box<dyn Model>,
    /// When all requests so far are answered.
    busy_until: Instant,
    /// When the latest of them arrived.
    latest: Instant,
    is_cut: bool,
    is_closed: bool,
    /// Requests that may still write before power is cut.
    writes_left: Option<u64>,
    recorder: Recorder,
    trace: Option<Trace>,
    /// Units that the host can address.
    units: u32,
    /// Steps that may wait for the helper, at most.
    backlog_max: usize,
    /// Until when the helper is to carry out what is booked although it is not over, and how many wait
    /// for it.
    wanted: Instant,
    waiting: u32,
}

/// When the drive answers a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct Answer {
    /// On the drive's clock.
    pub at: Instant,
}

impl Engine {
    /// Bytes that the host can address.
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Bytes of a mapping unit, which is what the drive writes best.
    pub fn unit(&self) -> u64 {
        self.unit
    }

    /// The drive that is simulated.
    pub fn configuration(&self) -> &Configuration {
        &self.configuration
    }

    /// Returns true if it refuses to be changed.
    pub fn is_read_only(&self) -> bool {
        self.read_only
    }

    /// Returns true if it carries out trims.
    pub fn trims(&self) -> bool {
        self.trims
    }

    /// Returns true if it carries out trims, and what was trimmed reads as zeros.
    pub fn trims_to_zeros(&self) -> bool {
        self.trims && self.holes_are_zeros()
    }

    /// Returns true if what is not mapped reads as zeros.
    fn holes_are_zeros(&self) -> bool {
        self.reads_are_defined && self.blank == 0
    }

    /// How long requests take for whoever asks.
    pub fn time(&self) -> Time {
        self.clock.time()
    }

    /// When to answer, by the host's clock; nothing where that is at once.
    pub fn deadline(&self, answer: Answer) -> Option<std::time::Instant> {
        self.clock.deadline(answer.at)
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // A panic while the lock was held has left tables that nobody should build upon.
        self.inner.lock().expect("no request has panicked")
    }

    fn unit_of(&self, offset: u64) -> LogicalUnit {
        LogicalUnit((offset / self.unit) as u32)
    }
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").field("capacity", &self.capacity).finish_non_exhaustive()
    }
}

/// The error of a system call, as it is passed on.
fn errno(error: &std::io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}
