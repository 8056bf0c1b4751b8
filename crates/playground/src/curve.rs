//! The curve below the picture: a point for each stretch of writes.

use std::collections::VecDeque;

use ssdlab_model::counters::Counters;
use ssdlab_units::Instant;

/// Number of points for as many writes as the drive has units.
const PER_DRIVE: u32 = 256;
/// Maximum number of points that are kept.
const MOST: usize = 768;
/// Number of latest points over which write amplification is shown.
const SHOWN: usize = 64;
/// Number of values of a point.
pub(crate) const NUMBERS: usize = 4;

/// A point: a stretch of writes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Point {
    /// Number of units written by its end.
    units: u64,
    /// Number of units that the host wrote in the stretch, and of units programmed in it.
    host: u64,
    programmed: u64,
    /// Number of free blocks at its end.
    free: u32,
    /// Duration of the stretch in nanoseconds.
    nanos: u64,
}

/// Points, oldest first.
#[derive(Clone, Debug)]
pub(crate) struct Curve {
    stretch: u64,
    points: VecDeque<Point>,
    counters: Counters,
    end: Instant,
    next: u64,
}

impl Curve {
    /// Returns an empty curve of a drive of `units` units that has done nothing.
    pub(crate) fn new(units: u32) -> Curve {
        let stretch = u64::from(units / PER_DRIVE).max(1);
        let counters = Counters::default();
        Curve { stretch, points: VecDeque::new(), counters, end: Instant::START, next: stretch }
    }

    /// Returns the number of written units at which the next stretch ends.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// Begins the next stretch at the current counters; work since the last stretch ended belongs to none.
    pub(crate) fn skip(&mut self, units: u64, counters: &Counters, end: Instant) {
        (self.next, self.counters, self.end) = (units + self.stretch, *counters, end);
    }

    /// Ends a stretch and adds its point.
    pub(crate) fn add(&mut self, units: u64, counters: &Counters, end: Instant, free: u32) {
        let since = counters.since(&self.counters);
        if self.points.len() == MOST {
            self.points.pop_front();
        }
        self.points.push_back(Point {
            units,
            host: since.host_write_units,
            programmed: since.flash_write_units(),
            free,
            nanos: end.since(self.end).nanos(),
        });
        self.skip(units, counters, end);
    }

    /// Drops all points, because the host writes differently from now on.
    pub(crate) fn clear(&mut self) {
        self.points.clear();
    }

    /// Returns the latest write amplification; NaN if nothing was written.
    pub(crate) fn write_amplification(&self) -> f64 {
        let latest = self.points.iter().rev().take(SHOWN);
        let (programmed, host) =
            latest.fold((0, 0), |sum, it| (sum.0 + it.programmed, sum.1 + it.host));
        programmed as f64 / host as f64
    }

    /// Returns the latest number of units written per second; NaN if nothing was written.
    pub(crate) fn units_per_second(&self) -> f64 {
        let latest = self.points.iter().rev().take(SHOWN / 8);
        let (host, nanos) = latest.fold((0, 0), |sum, it| (sum.0 + it.host, sum.1 + it.nanos));
        host as f64 * 1e9 / nanos as f64
    }

    /// Returns the values of each point: units written, write amplification, free blocks, units per second.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = [f64; NUMBERS]> + '_ {
        self.points.iter().map(|it| {
            let host = it.host as f64;
            let amplification = it.programmed as f64 / host;
            [it.units as f64, amplification, it.free.into(), host * 1e9 / it.nanos as f64]
        })
    }
}
