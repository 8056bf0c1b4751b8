//! Reads, writes, trims and flushes with payload, on a drive that keeps the data.
//!
//! One lock covers the model and staged data; data in the image is read without that lock. With [`Time::Fast`],
//! requests are executed one after the other: the drive's time passes until each is answered. With
//! [`Time::Real`], a request is sent to the drive when it arrives ([`Engine::submit_read`] and so on), the
//! drive's time passes with the host's ([`Engine::advance`]), and waiting threads and completions are notified
//! (`execution`).

mod clock;
mod durable;
mod execution;
mod extents;
mod group_commit;
mod helper;
mod in_flight;
mod iolog;
mod lifetime;
mod read;
mod requests;
mod statistics;
mod tables;
mod trim;
mod write;

pub use clock::Time;
pub use execution::Submitted;
pub use extents::Extent;
pub use in_flight::{Completion, Ticket};
pub use lifetime::{Opened, Options, Outcome};
pub use statistics::{Kind, LatencyFigures, Statistics};
pub(crate) use tables::restore;

use std::sync::Arc;

use ssdlab_model::Configuration;
use ssdlab_units::{Instant, LogicalUnit};

use crate::drive::Model;
use crate::image::damage::Damage;
use crate::image::host::HostFile;
use crate::mapped_image::Mapped;
use crate::store::receive::AheadWrites;
use crate::sync::{Condvar, Mutex, MutexGuard, RwLock};
use clock::Clock;
use group_commit::GroupCommit;
use in_flight::InFlight;
use iolog::Iolog;
use statistics::LatencyRecorder;

/// Error of a request, as an errno of the system.
pub type Errno = rustix::io::Errno;

/// A drive that takes requests from any number of threads.
pub struct Engine {
    inner: Mutex<Inner>,
    file: HostFile,
    gate: Arc<RwLock<()>>,
    /// The image's data, if the image is mapped into memory.
    mapped: Option<Mapped>,
    /// True if pages of the image that were spliced into a pipe keep their contents when their place is punched
    /// out.
    keeps_pages: bool,
    ahead_writes: Arc<AheadWrites>,
    /// Wakes the helper thread; `step_done` wakes those who wait for one of its steps.
    helper_wanted: Condvar,
    step_done: Condvar,
    /// Wakes threads that wait for an answer.
    answered: Condvar,
    group_commit: GroupCommit,
    clock: Clock,
    configuration: Configuration,
    damage: Damage,
    unit: u64,
    capacity: u64,
    /// True if the drive has power-loss protection (PLP) for its write buffer.
    has_plp: bool,
    /// True if a flush has to make flash operations durable in the image (no PLP, honest flush);
    /// `writes_through` is true if every write has to, as with FUA.
    flush_waits: bool,
    writes_through: bool,
    read_only: bool,
    trims: bool,
    /// Value of each byte that is read from an unmapped unit.
    blank: u8,
    /// True if unmapped units always read as `blank`, from the trim on.
    has_defined_unmapped_reads: bool,
}

/// State under the lock.
struct Inner {
    model: Box<dyn Model>,
    /// Instant at which all requests so far are answered.
    busy_until: Instant,
    /// Arrival of the latest request.
    latest: Instant,
    is_cut: bool,
    is_closed: bool,
    /// Number of writes and trims that are still taken before power is cut; `None` if it is not to be cut.
    writes_left: Option<u64>,
    recorder: LatencyRecorder,
    iolog: Option<Iolog>,
    /// Number of units that the host can address.
    units: u32,
    /// Maximum number of flash operations that may wait for the helper thread.
    backlog_max: usize,
    /// Number of threads that wait for the helper thread.
    helper_waiters: u32,
    in_flight: InFlight,
    /// Buffer for answers of the drive, kept to avoid allocation.
    answers: Vec<ssdlab_model::ftl::Answer>,
    /// Completions to be called with their outcomes after the lock is released.
    completions: Vec<(Completion, Result<Answer, Errno>)>,
    /// True if threads that wait have to check whether their requests are answered.
    has_answers_to_check: bool,
    /// True if a thread runs [`Engine::run_clock`], which lets the drive's time pass.
    has_clock_thread: bool,
}

/// The drive's answer to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct Answer {
    /// Instant of the answer, on the drive's clock.
    pub at: Instant,
}

impl Engine {
    /// Returns the number of bytes that the host can address.
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Returns the size of a mapping unit in bytes: the write size that needs no read-modify-write.
    pub fn unit(&self) -> u64 {
        self.unit
    }

    /// Returns the configuration of the simulated drive.
    pub fn configuration(&self) -> &Configuration {
        &self.configuration
    }

    /// Returns true if the drive is attached read-only.
    pub fn is_read_only(&self) -> bool {
        self.read_only
    }

    /// Returns true if the drive carries out trims.
    pub fn trims(&self) -> bool {
        self.trims
    }

    /// Returns true if the drive carries out trims, and trimmed data reads as zeros.
    pub fn trims_read_zeros(&self) -> bool {
        self.trims && self.unmapped_reads_zeros()
    }

    /// Returns true if unmapped units always read as zeros.
    fn unmapped_reads_zeros(&self) -> bool {
        self.has_defined_unmapped_reads && self.blank == 0
    }

    /// Returns the kind of time in which requests are answered.
    pub fn time(&self) -> Time {
        self.clock.time()
    }

    /// Returns the instant on the host's clock at which to send the answer; `None` if at once (fast time).
    pub fn deadline(&self, answer: Answer) -> Option<std::time::Instant> {
        self.clock.deadline(answer.at)
    }

    /// Returns true if a write, with FUA or without, is durable when it is answered: its answer then waits for
    /// the host's disk, too.
    pub fn makes_durable(&self, fua: bool) -> bool {
        fua && (self.has_plp || self.flush_waits) || self.writes_through
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // A panic under the lock may have left inconsistent tables: nobody may go on with them.
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

/// Returns the errno of a system call's error; `EIO` if it has none.
fn errno(error: &std::io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}
