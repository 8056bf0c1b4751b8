//! Requests with payload, to a drive that keeps it.
//!
//! One lock covers the model and what is staged; data in the image is read without it. Where requests take as long
//! as the host needs ([`Time::Fast`]), one is sent after the other, and the drive's time passes until it is answered.
//! Where they take as long as on the drive ([`Time::Real`]), a request is sent when it came ([`Engine::submit_read`]
//! and so on), the drive's time passes with the host's ([`Engine::advance`]), and who waits is told (`passing`).

mod clock;
mod durable;
mod extents;
mod helper;
mod in_flight;
mod lifetime;
mod passing;
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
pub use in_flight::{Completion, Ticket};
pub use lifetime::{Opened, Options, Outcome};
pub use passing::Submitted;
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
use in_flight::InFlight;
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
    /// Wakes those who wait for an answer.
    answered: Condvar,
    syncer: Syncer,
    clock: Clock,
    configuration: Configuration,
    damage: Damage,
    unit: u64,
    capacity: u64,
    /// True if capacitors protect the write buffer.
    protected: bool,
    /// True if a flush waits for anything, and if every write waits as if with FUA.
    flush_waits: bool,
    writes_through: bool,
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
    /// How many wait for the helper.
    waiting: u32,
    in_flight: InFlight,
    /// Answers that were not looked at.
    answers: Vec<ssdlab_model::ftl::Answer>,
    /// Those to be told how their requests were answered, once the lock is let go.
    to_tell: Vec<(Completion, Result<Answer, Errno>)>,
    /// True if somebody who waits is to look whether his request is answered.
    is_looked_for: bool,
    /// True if a thread sees to it that the drive's time passes ([`Engine::keep_time`]).
    is_kept_in_time: bool,
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

    /// Returns how long requests take for whoever asks.
    pub fn time(&self) -> Time {
        self.clock.time()
    }

    /// When to answer, by the host's clock; nothing where that is at once.
    pub fn deadline(&self, answer: Answer) -> Option<std::time::Instant> {
        self.clock.deadline(answer.at)
    }

    /// Returns true if a write, with FUA or without, is durable when it is answered: it then waits for the disk, too.
    pub fn makes_durable(&self, fua: bool) -> bool {
        fua && (self.protected || self.flush_waits) || self.writes_through
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
