//! Workloads that are no [`Phase`](crate::Phase): requests of any length, flushes and trims among
//! them, with times of their own, and several such workloads at once.
//!
//! A lane is a source of requests and how many of them may be with the drive at a time. The jobs of
//! a fio job file that run together are lanes, and so is a trace. A phase is faster to run; what a
//! phase can say should be one.

use ssdlab_units::{ByteLength, Nanoseconds};

use crate::error::{DriveError, ErrorKind};
use crate::measure::{Latencies, PhaseResult};
use crate::phase::{DEPTH_MOST, Region};

/// What a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// Reads its region.
    Read,
    /// Writes its region.
    Write,
    /// Tells the drive that its region holds nothing any more.
    Trim,
    /// Makes all writes that were answered durable. What follows in the lane waits for it.
    Flush,
}

/// One request of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneRequest {
    /// When it is meant to be sent, since the lane began: latency counts from there. `None` as
    /// soon as the lane has room for it.
    pub due: Option<Nanoseconds>,
    /// How long the lane waits before it, after the last answer (fio's `thinktime`). Has a
    /// meaning at depth 1 only.
    pub pause: Nanoseconds,
    /// What it asks for.
    pub operation: Operation,
    /// Where; of no meaning for a flush.
    pub region: Region,
}

/// Requests, one after the other.
pub trait Source: Send {
    /// The next request; `None` after the last one. A source may fail, as one that reads a file.
    fn next_request(&mut self) -> Result<Option<LaneRequest>, DriveError>;
}

/// One of the workloads that run at the same time.
pub struct Lane<'a> {
    /// What it is called in errors.
    pub name: String,
    /// Its requests.
    pub source: Box<dyn Source + 'a>,
    /// Requests in flight at a time.
    pub depth: u32,
    /// Nothing is sent after so much time; `None` when the source alone ends it.
    pub time: Option<Nanoseconds>,
    /// Requests that are sent before so much time has passed are not measured.
    pub ramp: Nanoseconds,
    /// Length of one interval of the throughput series; zero for no series.
    pub interval: Nanoseconds,
    /// Seed of the data written.
    pub seed: u64,
    /// True to flush at the end, inside the measured time.
    pub flush_at_end: bool,
    /// Bytes it will move, where that is known, for the progress.
    pub expected: Option<ByteLength>,
}

/// What one lane measured.
#[derive(Clone, Debug)]
pub struct LaneResult {
    /// Reads and writes. Its time ends with the lane's last answer.
    pub phase: PhaseResult,
    /// Latencies of the trims.
    pub trims: Latencies,
    /// Bytes trimmed.
    pub bytes_trimmed: ByteLength,
    /// Latencies of the flushes.
    pub flushes: Latencies,
}

impl LaneResult {
    /// One without measurements, begun when its phase did.
    pub fn begun(phase: PhaseResult) -> Self {
        LaneResult {
            phase,
            trims: Latencies::default(),
            bytes_trimmed: ByteLength::ZERO,
            flushes: Latencies::default(),
        }
    }

    /// Counts one answer.
    pub fn count(&mut self, request: &LaneRequest, latency: Nanoseconds) {
        let length = request.region.length;
        self.phase.requests += 1;
        match request.operation {
            Operation::Read => {
                self.phase.read_latencies.record(latency);
                self.phase.bytes_read += length;
            }
            Operation::Write => {
                self.phase.write_latencies.record(latency);
                self.phase.bytes_written += length;
            }
            Operation::Trim => {
                self.trims.record(latency);
                self.bytes_trimmed += length;
            }
            Operation::Flush => self.flushes.record(latency),
        }
    }
}

/// The most lanes that run at once.
pub const MOST_LANES: usize = 256;

/// Checks what can be checked before lanes run.
pub fn check(lanes: &[Lane<'_>]) -> Result<(), DriveError> {
    let wrong = |what: String| Err(DriveError::new(ErrorKind::Usage, what));
    if lanes.is_empty() || lanes.len() > MOST_LANES {
        return wrong(format!("{} workloads at once: 1 to {MOST_LANES} can be", lanes.len()));
    }
    match lanes.iter().find(|lane| lane.depth == 0 || lane.depth > DEPTH_MOST) {
        Some(lane) => {
            wrong(format!("'{}': depth {} is not from 1 to {DEPTH_MOST}", lane.name, lane.depth))
        }
        None => Ok(()),
    }
}

/// Checks one request against the drive it goes to.
pub fn check_request(
    lane: &str,
    request: &LaneRequest,
    capacity: ByteLength,
    unit: ByteLength,
) -> Result<(), DriveError> {
    let region = request.region;
    let is_aligned = region.offset.is_multiple_of(unit) && region.length.is_multiple_of(unit);
    let fits = region.offset.bytes().checked_add(region.length.bytes());
    let fits = fits.is_some_and(|end| end <= capacity.bytes()) && region.length > ByteLength::ZERO;
    if request.operation == Operation::Flush || (is_aligned && fits) {
        return Ok(());
    }
    Err(DriveError::new(
        ErrorKind::Usage,
        format!(
            "'{lane}': {} bytes from {} are not multiples of {unit} within {capacity}",
            region.length.bytes(),
            region.offset.bytes()
        ),
    ))
}

/// A source from a list, for what is short.
pub struct Listed(pub std::vec::IntoIter<LaneRequest>);

impl Source for Listed {
    fn next_request(&mut self) -> Result<Option<LaneRequest>, DriveError> {
        Ok(self.0.next())
    }
}
