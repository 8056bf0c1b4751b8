//! Lanes: workloads beyond a [`Phase`](crate::Phase), with requests of any length, flushes and trims, and
//! times of their own, and several such workloads at the same time.
//!
//! A lane is a source of requests with a queue depth. The jobs of a fio job file that run together are
//! lanes, and so is a trace. A phase is faster to run: a workload that can be written as a phase should be
//! one.

use ssdlab_units::{ByteLength, Nanoseconds};

use crate::error::{DriveError, ErrorKind};
use crate::measure::{Latencies, PhaseResult};
use crate::phase::{MAX_DEPTH, Region};

/// Operation of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// Reads its region.
    Read,
    /// Writes its region.
    Write,
    /// Trims its region: it holds no data any more.
    Trim,
    /// Makes all answered writes durable. Later requests of the lane wait for it.
    Flush,
}

/// One request of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneRequest {
    /// Moment at which the request is meant to be sent, since the lane began: latency counts from there.
    /// `None` for as soon as the lane's queue depth allows.
    pub due: Option<Nanoseconds>,
    /// Time for which the lane waits before the request, after the last answer (fio's `thinktime`). Used at
    /// depth 1 only.
    pub pause: Nanoseconds,
    /// Operation that the request asks for.
    pub operation: Operation,
    /// Region of the request; not used by a flush.
    pub region: Region,
}

/// A source of requests, one after the other.
pub trait Source: Send {
    /// Returns the next request, or `None` after the last one. A source may fail, such as one that reads a
    /// file.
    fn next_request(&mut self) -> Result<Option<LaneRequest>, DriveError>;
}

/// One of the workloads that run at the same time.
pub struct Lane<'a> {
    /// Name of the lane in errors.
    pub name: String,
    /// Source of its requests.
    pub source: Box<dyn Source + 'a>,
    /// Maximum number of requests in flight.
    pub depth: u32,
    /// Time after which nothing is sent; `None` if only the source ends the lane.
    pub time: Option<Nanoseconds>,
    /// Requests sent before this time has passed are not measured (fio's `ramp_time`).
    pub ramp: Nanoseconds,
    /// Length of one interval of the throughput series; zero for no series.
    pub interval: Nanoseconds,
    /// Seed of the data written.
    pub seed: u64,
    /// True to flush at the end, inside the measured time.
    pub flush_at_end: bool,
    /// Bytes the lane will transfer, for the progress; `None` if that is not known.
    pub expected: Option<ByteLength>,
}

/// Result of one lane.
#[derive(Clone, Debug)]
pub struct LaneResult {
    /// Result of the reads and writes. Its time ends with the lane's last answer.
    pub phase: PhaseResult,
    /// Latencies of the trims.
    pub trims: Latencies,
    /// Bytes trimmed.
    pub bytes_trimmed: ByteLength,
    /// Latencies of the flushes.
    pub flushes: Latencies,
}

impl LaneResult {
    /// Returns a result without measurements, with `phase` as its phase.
    pub fn begun(phase: PhaseResult) -> Self {
        LaneResult {
            phase,
            trims: Latencies::default(),
            bytes_trimmed: ByteLength::ZERO,
            flushes: Latencies::default(),
        }
    }

    /// Counts one answered request.
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

/// Maximum number of lanes that run at the same time.
pub const MAX_LANES: usize = 256;

/// Checks the lanes as far as possible before they run.
pub fn check(lanes: &[Lane<'_>]) -> Result<(), DriveError> {
    let wrong = |what: String| Err(DriveError::new(ErrorKind::Usage, what));
    if lanes.is_empty() || lanes.len() > MAX_LANES {
        return wrong(format!("{} workloads at the same time, not 1 to {MAX_LANES}", lanes.len()));
    }
    match lanes.iter().find(|lane| lane.depth == 0 || lane.depth > MAX_DEPTH) {
        Some(lane) => {
            wrong(format!("'{}': depth {} is not from 1 to {MAX_DEPTH}", lane.name, lane.depth))
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
            "'{lane}': {} bytes at offset {} are not multiples of {unit} within {capacity}",
            region.length.bytes(),
            region.offset.bytes()
        ),
    ))
}

/// A source that takes its requests from a list.
pub struct Listed(pub std::vec::IntoIter<LaneRequest>);

impl Source for Listed {
    fn next_request(&mut self) -> Result<Option<LaneRequest>, DriveError> {
        Ok(self.0.next())
    }
}
