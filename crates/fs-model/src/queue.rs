//! The way down to the drive: requests of blocks, as many under way as Serial ATA allows.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use ssdlab_drive::phase::Region;
use ssdlab_drive::simulated::{Request, SimulatedDrive};
use ssdlab_drive::{Drive, Unobserved};
use ssdlab_error::DriveError;
use ssdlab_units::{ByteLength, Instant, Nanoseconds};

use super::Sent;
use super::layout::{BLOCK, Extent, REQUEST};

/// Requests under way at most (native command queuing).
const DEPTH: usize = 32;

/// When nothing was under way for so long, the drive has rested, and done what it does then.
const IDLE: Nanoseconds = Nanoseconds::from_millis(100);

/// The drive, and what is under way.
pub(super) struct Queue<'d> {
    drive: &'d mut SimulatedDrive,
    under_way: BinaryHeap<Reverse<Instant>>,
    /// When the last of all requests sent is answered.
    last_end: Instant,
    pub(super) sent: Sent,
}

impl<'d> Queue<'d> {
    pub(super) fn new(
        drive: &'d mut SimulatedDrive,
        length: ByteLength,
    ) -> Result<Self, DriveError> {
        drive.prepare(length)?;
        let last_end = drive.now();
        Ok(Queue { drive, under_way: BinaryHeap::new(), last_end, sent: Sent::default() })
    }

    pub(super) fn drive(&self) -> &SimulatedDrive {
        self.drive
    }

    pub(super) fn drive_time(&self) -> Instant {
        self.drive.now()
    }

    /// When a request that is ready at `at` can be sent.
    pub(super) fn slot(&mut self, at: Instant) -> Instant {
        while self.under_way.peek().is_some_and(|Reverse(end)| *end <= at) {
            self.under_way.pop();
        }
        match self.under_way.peek() {
            Some(Reverse(end)) if self.under_way.len() >= DEPTH => *end,
            _ => at,
        }
    }

    /// When everything that was sent is answered.
    pub(super) fn last_end(&self) -> Instant {
        self.last_end
    }

    fn send(&mut self, at: Instant, request: Request) -> Result<Instant, DriveError> {
        if at >= self.last_end + IDLE {
            self.drive.pass_until(self.last_end);
            self.drive.rest(at.since(self.last_end), &mut Unobserved)?;
        }
        // A burst in the background may have been sent ahead of its time.
        let at = at.max(self.drive.now());
        let end = self.drive.send(at, request)?;
        self.under_way.push(Reverse(end));
        self.last_end = self.last_end.max(end);
        Ok(end)
    }

    pub(super) fn region(extent: Extent) -> Region {
        Region { offset: BLOCK * extent.first, length: BLOCK * extent.count }
    }

    /// Writes blocks in a row; returns when the drive has answered.
    pub(super) fn write(
        &mut self,
        at: Instant,
        extent: Extent,
        through: bool,
    ) -> Result<Instant, DriveError> {
        let region = Queue::region(extent);
        self.sent.writes += 1;
        self.sent.written += region.length;
        let request = if through { Request::WriteThrough(region) } else { Request::Write(region) };
        self.send(at, request)
    }

    /// Reads blocks in a row from the drive; returns when it has answered, and how many blocks it
    /// knew to lie nowhere.
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
        let end = self.send(at, Request::Read(region))?;
        let after = units(self.drive);
        let (nowhere, read) = (after.0 - before.0, after.1 - before.1);
        let blocks = region.length.whole(BLOCK);
        // Of a unit that is larger than a block it may be known for a part that was read.
        Ok((end, (blocks * nowhere).div_ceil(read.max(nowhere).max(1))))
    }

    pub(super) fn flush(&mut self, at: Instant) -> Result<Instant, DriveError> {
        self.sent.flushes += 1;
        self.send(at, Request::Flush)
    }

    pub(super) fn trim(&mut self, at: Instant, extent: Extent) -> Result<Instant, DriveError> {
        let region = Queue::region(extent);
        self.sent.trims += 1;
        self.sent.trimmed += region.length;
        self.send(at, Request::Trim(region))
    }
}

/// Cuts runs of blocks into requests.
pub(super) fn requests(extent: Extent) -> impl Iterator<Item = Extent> {
    let most = REQUEST.whole(BLOCK);
    (0..extent.count).step_by(most as usize).map(move |from| Extent {
        first: extent.first + from,
        count: most.min(extent.count - from),
    })
}

/// Blocks in rising order, put together into runs.
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
