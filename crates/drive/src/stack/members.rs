//! The members of an array, and what is done to all of them alike.

use std::collections::VecDeque;

use ssdlab_model::attribution::Attribution;
use ssdlab_model::counters::{Counters, Wear};
use ssdlab_units::{ByteLength, Instant, Nanoseconds, Sector, SectorCount};

use super::{Shape, StackError, used_of_each};
use crate::simulated::model::Model;

/// Requests of a synchronisation: of this length, so many under way at a time. md reads ahead of
/// its writes by a window of a few megabytes.
const PIECE: ByteLength = ByteLength::new(512 << 10);
const UNDER_WAY: usize = 16;

/// Members of the same size as far as they are used.
#[derive(Clone)]
pub(super) struct Members {
    pub(super) drives: Vec<Box<dyn Model>>,
    /// Sectors of each that are used.
    pub(super) each: SectorCount,
    /// Sectors of a chunk; nothing where data is not striped.
    pub(super) chunk: SectorCount,
    pub(super) block_size: ByteLength,
    pub(super) trim: bool,
}

impl Members {
    /// Members that are used whole.
    pub(super) fn whole(drives: Vec<Box<dyn Model>>, trim: bool) -> Result<Self, StackError> {
        Members::used(drives, None, trim)
    }

    /// Members that hold whole chunks of `chunk`.
    pub(super) fn striped(
        drives: Vec<Box<dyn Model>>,
        chunk: ByteLength,
        trim: bool,
    ) -> Result<Self, StackError> {
        Members::used(drives, Some(chunk), trim)
    }

    fn used(
        drives: Vec<Box<dyn Model>>,
        chunk: Option<ByteLength>,
        trim: bool,
    ) -> Result<Self, StackError> {
        let shapes: Vec<Shape> = drives
            .iter()
            .map(|it| Shape { capacity: it.capacity(), unit: it.block_size() })
            .collect();
        let each = used_of_each(&shapes, chunk)?;
        Ok(Members {
            drives,
            each: SectorCount::of(each.capacity),
            chunk: SectorCount::of(chunk.unwrap_or(ByteLength::ZERO)),
            block_size: each.unit,
            trim,
        })
    }

    /// Makes all writes durable on every member; returns when the last is done.
    pub(super) fn flush(&mut self, at: Instant) -> Instant {
        self.drives.iter_mut().map(|drive| drive.flush(at)).fold(at, Instant::max)
    }

    pub(super) fn rest(&mut self, from: Instant, duration: Nanoseconds) {
        for drive in &mut self.drives {
            drive.rest(from, duration);
        }
    }

    pub(super) fn passes_trim(&self) -> bool {
        self.trim && self.drives.iter().all(|drive| drive.passes_trim())
    }

    pub(super) fn counters(&self) -> Counters {
        let all = self.drives.iter().map(|drive| drive.counters());
        all.fold(Counters::default(), |sum, one| sum.plus(&one))
    }

    pub(super) fn attribution(&self) -> Attribution {
        let mut sum = Attribution::default();
        for drive in &self.drives {
            sum += drive.attribution();
        }
        sum
    }

    /// The sum over all members.
    pub(super) fn unused_flash(&self) -> ByteLength {
        self.drives.iter().map(|drive| drive.unused_flash()).sum()
    }

    /// The extremes over all members, and the mean weighted by capacity.
    pub(super) fn wear(&self) -> Wear {
        let each: Vec<(Wear, f64)> =
            self.drives.iter().map(|it| (it.wear(), it.capacity().bytes() as f64)).collect();
        let bytes: f64 = each.iter().map(|(_, bytes)| bytes).sum();
        let mean = each.iter().map(|(wear, bytes)| wear.erases_mean * bytes).sum::<f64>() / bytes;
        Wear {
            erases_min: each.iter().map(|(wear, _)| wear.erases_min).min().unwrap_or(0),
            erases_mean: mean,
            erases_max: each.iter().map(|(wear, _)| wear.erases_max).max().unwrap_or(0),
        }
    }

    /// Reads all of the members that `is_read` names and writes all of the others, from `at` on;
    /// returns when that is done.
    pub(super) fn synchronise(&mut self, at: Instant, is_read: impl Fn(usize) -> bool) -> Instant {
        let piece = SectorCount::of(PIECE.max(self.block_size)).0;
        let mut under_way = VecDeque::with_capacity(UNDER_WAY);
        let (mut now, mut end, mut first) = (at, at, 0);
        while first < self.each.0 {
            if under_way.len() == UNDER_WAY {
                now = now.max(under_way.pop_front().expect("some are under way"));
            }
            let (sector, count) = (Sector(first), SectorCount(piece.min(self.each.0 - first)));
            let (mut read, mut written) = (now, now);
            for (index, drive) in self.drives.iter_mut().enumerate() {
                if is_read(index) {
                    read = read.max(drive.read(now, sector, count));
                } else {
                    written = written.max(drive.write(now, sector, count));
                }
            }
            let done = read + written.since(now);
            under_way.push_back(done);
            end = end.max(done);
            first += count.0;
        }
        self.flush(end)
    }
}

/// Which kind of request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Read,
    Write,
    WriteThrough,
    Trim,
}

impl Kind {
    /// Sends a request of this kind.
    pub(super) fn send(
        self,
        drive: &mut dyn Model,
        at: Instant,
        first: Sector,
        count: SectorCount,
    ) -> Instant {
        match self {
            Kind::Read => drive.read(at, first, count),
            Kind::Write => drive.write(at, first, count),
            Kind::WriteThrough => drive.write_through(at, first, count),
            Kind::Trim => drive.trim(at, first, count),
        }
    }
}
