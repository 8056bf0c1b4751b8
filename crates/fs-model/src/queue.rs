//! The request queue to the drive: requests for blocks, as many in flight as Serial ATA allows.

use std::collections::BTreeMap;

use ssdlab_drive::phase::Region;
use ssdlab_drive::simulated::{Request, SimulatedDrive, Ticket};
use ssdlab_drive::{Drive, Unobserved};
use ssdlab_error::DriveError;
use ssdlab_units::{ByteLength, Instant, Nanoseconds};

use super::Sent;
use super::layout::{BLOCK, Extent, MAX_REQUEST_SIZE};

/// Maximum number of requests in flight (native command queuing).
const QUEUE_DEPTH: usize = 32;

/// After this time without a request in flight the drive was idle, and has done its idle-time work.
const IDLE_AFTER: Nanoseconds = Nanoseconds::from_millis(100);

/// An instant after all events.
pub(super) const NEVER: Instant = Instant::from_nanos(u64::MAX - 1);

/// Requests that a caller waits for together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Batch(u64);

/// Progress of a batch: its number of requests in flight, and the moment of the latest answer.
#[derive(Clone, Copy, Debug)]
struct Progress {
    in_flight: usize,
    latest: Instant,
}

/// The drive, and the requests in flight.
pub(super) struct RequestQueue<'d> {
    drive: &'d mut SimulatedDrive,
    in_flight: BTreeMap<Ticket, Batch>,
    batches: BTreeMap<Batch, Progress>,
    next_batch: u64,
    /// Moment of the latest answer.
    last_end: Instant,
    pub(super) sent: Sent,
}

impl<'d> RequestQueue<'d> {
    pub(super) fn new(
        drive: &'d mut SimulatedDrive,
        length: ByteLength,
    ) -> Result<Self, DriveError> {
        drive.prepare(length)?;
        Ok(RequestQueue {
            last_end: drive.now(),
            drive,
            in_flight: BTreeMap::new(),
            batches: BTreeMap::new(),
            next_batch: 0,
            sent: Sent::default(),
        })
    }

    pub(super) fn drive(&self) -> &SimulatedDrive {
        self.drive
    }

    pub(super) fn drive_time(&self) -> Instant {
        self.drive.now()
    }

    /// Returns a batch without requests, which is finished at `at` unless requests are added.
    pub(super) fn batch(&mut self, at: Instant) -> Batch {
        self.next_batch += 1;
        let batch = Batch(self.next_batch);
        self.batches.insert(batch, Progress { in_flight: 0, latest: at });
        batch
    }

    /// Returns the batch of requests that no caller waits for.
    pub(super) fn background(&self) -> Batch {
        Batch(0)
    }

    /// Lets the drive's time pass until the next answer, but not beyond `until`. Returns the moment of the
    /// answer, or `None` if there was none.
    fn next_answer(&mut self, until: Instant) -> Option<Instant> {
        let (ticket, at) = self.drive.next_answer(until)?;
        let batch = self.in_flight.remove(&ticket).expect("it is in flight");
        if let Some(progress) = self.batches.get_mut(&batch) {
            progress.in_flight -= 1;
            progress.latest = progress.latest.max(at);
        }
        self.last_end = self.last_end.max(at);
        Some(at)
    }

    /// Returns the moment at which a request that is ready at `at` can be sent.
    pub(super) fn next_free_slot(&mut self, at: Instant) -> Instant {
        while self.next_answer(at).is_some() {}
        match self.in_flight.len() >= QUEUE_DEPTH {
            true => self.next_answer(NEVER).expect("every request is answered").max(at),
            false => at,
        }
    }

    /// Lets the drive's time pass until all of `batch` is answered, but not beyond `until`. Returns the
    /// moment of the last answer, or `None` if not all is answered. After it was returned the batch does
    /// not exist any more.
    pub(super) fn wait_for_batch_until(&mut self, batch: Batch, until: Instant) -> Option<Instant> {
        while self.batches[&batch].in_flight > 0 {
            self.next_answer(until)?;
        }
        self.batches.remove(&batch).map(|it| it.latest)
    }

    /// Lets the drive's time pass until all of `batch` is answered; returns the moment of the last answer.
    pub(super) fn finish(&mut self, batch: Batch) -> Instant {
        self.wait_for_batch_until(batch, NEVER).expect("every request is answered")
    }

    /// Lets the drive's time pass until all requests are answered; returns the moment of the last answer.
    pub(super) fn finish_all(&mut self) -> Instant {
        while self.next_answer(NEVER).is_some() {}
        self.last_end
    }

    fn submit(&mut self, at: Instant, request: Request, batch: Batch) -> Result<(), DriveError> {
        while self.next_answer(at).is_some() {}
        if self.in_flight.is_empty() && at >= self.last_end + IDLE_AFTER {
            self.drive.advance_to(self.last_end);
            self.drive.rest(at.since(self.last_end), &mut Unobserved)?;
            self.last_end = at;
        }
        // A burst in the background may have been sent ahead of its time.
        let ticket = self.drive.submit(at, request)?;
        self.in_flight.insert(ticket, batch);
        if let Some(progress) = self.batches.get_mut(&batch) {
            progress.in_flight += 1;
        }
        Ok(())
    }

    /// Sends one request; returns the moment of its answer.
    fn submit_and_wait(&mut self, at: Instant, request: Request) -> Result<Instant, DriveError> {
        let batch = self.batch(at);
        self.submit(at, request, batch)?;
        Ok(self.finish(batch))
    }

    pub(super) fn region(extent: Extent) -> Region {
        Region { offset: BLOCK * extent.first, length: BLOCK * extent.count }
    }

    /// Writes contiguous blocks, as a part of `batch`.
    pub(super) fn write(
        &mut self,
        at: Instant,
        extent: Extent,
        through: bool,
        batch: Batch,
    ) -> Result<(), DriveError> {
        let region = RequestQueue::region(extent);
        self.sent.writes += 1;
        self.sent.written += region.length;
        let request = if through { Request::WriteThrough(region) } else { Request::Write(region) };
        self.submit(at, request, batch)
    }

    /// Reads contiguous blocks from the drive. Returns the moment of the answer, and the number of blocks
    /// that the drive has not mapped.
    pub(super) fn read(
        &mut self,
        at: Instant,
        region: Region,
    ) -> Result<(Instant, u64), DriveError> {
        let units = |drive: &SimulatedDrive| {
            let counters = drive.inside().map(|inside| inside.counters);
            counters.map_or((0, 0), |it| (it.unmapped_read_units, it.host_read_units))
        };
        let before = units(self.drive);
        let end = self.submit_and_wait(at, Request::Read(region))?;
        let after = units(self.drive);
        let (unmapped, read) = (after.0 - before.0, after.1 - before.1);
        let blocks = region.length.whole(BLOCK);
        // With units larger than a block, a read of a part of an unmapped unit counts as an unmapped unit, but
        // not always as a unit read.
        Ok((end, (blocks * unmapped).div_ceil(read.max(unmapped).max(1))))
    }

    /// Flushes; returns the moment of the answer.
    pub(super) fn flush(&mut self, at: Instant) -> Result<Instant, DriveError> {
        let batch = self.batch(at);
        self.flush_in(at, batch)?;
        Ok(self.finish(batch))
    }

    /// Flushes, as a part of `batch`.
    pub(super) fn flush_in(&mut self, at: Instant, batch: Batch) -> Result<(), DriveError> {
        self.sent.flushes += 1;
        self.submit(at, Request::Flush, batch)
    }

    /// Trims contiguous blocks; returns the moment of the answer.
    pub(super) fn trim(&mut self, at: Instant, extent: Extent) -> Result<Instant, DriveError> {
        let region = RequestQueue::region(extent);
        self.sent.trims += 1;
        self.sent.trimmed += region.length;
        self.submit_and_wait(at, Request::Trim(region))
    }
}

/// Cuts a run of blocks into requests.
pub(super) fn split_into_requests(extent: Extent) -> impl Iterator<Item = Extent> {
    let most = MAX_REQUEST_SIZE.whole(BLOCK);
    (0..extent.count).step_by(most as usize).map(move |from| Extent {
        first: extent.first + from,
        count: most.min(extent.count - from),
    })
}

/// Merges blocks, in ascending order, into runs.
pub(super) fn merge_into_runs(blocks: impl IntoIterator<Item = u64>) -> Vec<Extent> {
    let mut runs: Vec<Extent> = Vec::new();
    for block in blocks {
        match runs.last_mut() {
            Some(run) if run.end() == block => run.count += 1,
            _ => runs.push(Extent { first: block, count: 1 }),
        }
    }
    runs
}
