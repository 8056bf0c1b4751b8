//! The request queue to the drive: requests for blocks, as many in flight as Serial ATA allows.

use std::collections::BTreeMap;

use ssdlab_drive::phase::Region;
use ssdlab_drive::simulated::{Request, SimulatedDrive, Ticket};
use ssdlab_drive::{Drive, Unobserved};
use ssdlab_error::DriveError;
use ssdlab_units::{ByteLength, Instant, Nanoseconds};

use super::Sent;
use super::layout::{BLOCK, Extent, REQUEST};

/// Maximum number of requests in flight (native command queuing).
const DEPTH: usize = 32;

/// After this time without a request in flight the drive was idle, and has done its idle-time work.
const IDLE: Nanoseconds = Nanoseconds::from_millis(100);

/// An instant after all events.
pub(super) const NEVER: Instant = Instant::from_nanos(u64::MAX - 1);

/// Requests that a caller waits for together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Batch(u64);

/// Progress of a batch: its number of requests in flight, and the moment of the latest answer.
#[derive(Clone, Copy, Debug)]
struct Progress {
    under_way: usize,
    latest: Instant,
}

/// The drive, and the requests in flight.
pub(super) struct Queue<'d> {
    drive: &'d mut SimulatedDrive,
    under_way: BTreeMap<Ticket, Batch>,
    batches: BTreeMap<Batch, Progress>,
    next_batch: u64,
    /// Moment of the latest answer.
    last_end: Instant,
    pub(super) sent: Sent,
}

impl<'d> Queue<'d> {
    pub(super) fn new(
        drive: &'d mut SimulatedDrive,
        length: ByteLength,
    ) -> Result<Self, DriveError> {
        drive.prepare(length)?;
        Ok(Queue {
            last_end: drive.now(),
            drive,
            under_way: BTreeMap::new(),
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
        self.batches.insert(batch, Progress { under_way: 0, latest: at });
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
        let batch = self.under_way.remove(&ticket).expect("it is under way");
        if let Some(progress) = self.batches.get_mut(&batch) {
            progress.under_way -= 1;
            progress.latest = progress.latest.max(at);
        }
        self.last_end = self.last_end.max(at);
        Some(at)
    }

    /// Returns the moment at which a request that is ready at `at` can be sent.
    pub(super) fn slot(&mut self, at: Instant) -> Instant {
        while self.next_answer(at).is_some() {}
        match self.under_way.len() >= DEPTH {
            true => self.next_answer(NEVER).expect("every request is answered").max(at),
            false => at,
        }
    }

    /// Lets the drive's time pass until all of `batch` is answered, but not beyond `until`. Returns the
    /// moment of the last answer, or `None` if not all is answered. After it was returned the batch does
    /// not exist any more.
    pub(super) fn finished_by(&mut self, batch: Batch, until: Instant) -> Option<Instant> {
        while self.batches[&batch].under_way > 0 {
            self.next_answer(until)?;
        }
        self.batches.remove(&batch).map(|it| it.latest)
    }

    /// Lets the drive's time pass until all of `batch` is answered; returns the moment of the last answer.
    pub(super) fn finish(&mut self, batch: Batch) -> Instant {
        self.finished_by(batch, NEVER).expect("every request is answered")
    }

    /// Lets the drive's time pass until all requests are answered; returns the moment of the last answer.
    pub(super) fn finish_all(&mut self) -> Instant {
        while self.next_answer(NEVER).is_some() {}
        self.last_end
    }

    fn send(&mut self, at: Instant, request: Request, batch: Batch) -> Result<(), DriveError> {
        while self.next_answer(at).is_some() {}
        if self.under_way.is_empty() && at >= self.last_end + IDLE {
            self.drive.pass_until(self.last_end);
            self.drive.rest(at.since(self.last_end), &mut Unobserved)?;
            self.last_end = at;
        }
        // A burst in the background may have been sent ahead of its time.
        let ticket = self.drive.submit(at, request)?;
        self.under_way.insert(ticket, batch);
        if let Some(progress) = self.batches.get_mut(&batch) {
            progress.under_way += 1;
        }
        Ok(())
    }

    /// Sends one request; returns the moment of its answer.
    fn ask(&mut self, at: Instant, request: Request) -> Result<Instant, DriveError> {
        let batch = self.batch(at);
        self.send(at, request, batch)?;
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
        let region = Queue::region(extent);
        self.sent.writes += 1;
        self.sent.written += region.length;
        let request = if through { Request::WriteThrough(region) } else { Request::Write(region) };
        self.send(at, request, batch)
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
        let end = self.ask(at, Request::Read(region))?;
        let after = units(self.drive);
        let (nowhere, read) = (after.0 - before.0, after.1 - before.1);
        let blocks = region.length.whole(BLOCK);
        // With units larger than a block, a read of a part of an unmapped unit counts as an unmapped unit, but
        // not always as a unit read.
        Ok((end, (blocks * nowhere).div_ceil(read.max(nowhere).max(1))))
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
        self.send(at, Request::Flush, batch)
    }

    /// Trims contiguous blocks; returns the moment of the answer.
    pub(super) fn trim(&mut self, at: Instant, extent: Extent) -> Result<Instant, DriveError> {
        let region = Queue::region(extent);
        self.sent.trims += 1;
        self.sent.trimmed += region.length;
        self.ask(at, Request::Trim(region))
    }
}

/// Cuts a run of blocks into requests.
pub(super) fn requests(extent: Extent) -> impl Iterator<Item = Extent> {
    let most = REQUEST.whole(BLOCK);
    (0..extent.count).step_by(most as usize).map(move |from| Extent {
        first: extent.first + from,
        count: most.min(extent.count - from),
    })
}

/// Merges blocks, in ascending order, into runs.
pub(super) fn runs(blocks: impl IntoIterator<Item = u64>) -> Vec<Extent> {
    let mut runs: Vec<Extent> = Vec::new();
    for block in blocks {
        match runs.last_mut() {
            Some(run) if run.end() == block => run.count += 1,
            _ => runs.push(Extent { first: block, count: 1 }),
        }
    }
    runs
}
