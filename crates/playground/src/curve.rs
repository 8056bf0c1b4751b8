//! The curve below the picture: a point for each interval of writes.

use std::collections::VecDeque;

use ssdlab_model::counters::Counters;
use ssdlab_units::Instant;

/// Number of points for as many writes as the drive has units.
const POINTS_PER_DRIVE: u32 = 256;
/// Maximum number of points that are kept.
const POINTS_MAX: usize = 768;
/// Number of latest points over which write amplification is shown.
const SMOOTHED_POINTS: usize = 64;
/// Number of values of a point.
pub(crate) const VALUES_PER_POINT: usize = 4;

/// A point: an interval of writes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Point {
    /// Number of units written by its end.
    units: u64,
    /// Number of units that the host wrote in the interval, and of units programmed in it.
    host: u64,
    programmed: u64,
    /// Number of free blocks at its end.
    free: u32,
    /// Duration of the interval in nanoseconds.
    nanos: u64,
}

/// Points, oldest first.
#[derive(Clone, Debug)]
pub(crate) struct Curve {
    interval: u64,
    points: VecDeque<Point>,
    counters: Counters,
    end: Instant,
    next: u64,
}

impl Curve {
    /// Returns an empty curve of a drive of `units` units that has done nothing.
    pub(crate) fn new(units: u32) -> Curve {
        let interval = u64::from(units / POINTS_PER_DRIVE).max(1);
        let counters = Counters::default();
        Curve { interval, points: VecDeque::new(), counters, end: Instant::START, next: interval }
    }

    /// Returns the number of written units at which the next interval ends.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// Begins the next interval at the current counters; work since the last interval ended belongs to none.
    pub(crate) fn restart_interval(&mut self, units: u64, counters: &Counters, end: Instant) {
        (self.next, self.counters, self.end) = (units + self.interval, *counters, end);
    }

    /// Ends an interval and adds its point.
    pub(crate) fn end_interval(
        &mut self,
        units: u64,
        counters: &Counters,
        end: Instant,
        free: u32,
    ) {
        let since = counters.since(&self.counters);
        if self.points.len() == POINTS_MAX {
            self.points.pop_front();
        }
        self.points.push_back(Point {
            units,
            host: since.host_write_units,
            programmed: since.flash_write_units(),
            free,
            nanos: end.since(self.end).nanos(),
        });
        self.restart_interval(units, counters, end);
    }

    /// Drops all points, because the host writes differently from now on.
    pub(crate) fn clear(&mut self) {
        self.points.clear();
    }

    /// Returns the latest write amplification; NaN if nothing was written.
    pub(crate) fn write_amplification(&self) -> f64 {
        let latest = self.points.iter().rev().take(SMOOTHED_POINTS);
        let (programmed, host) =
            latest.fold((0, 0), |sum, it| (sum.0 + it.programmed, sum.1 + it.host));
        programmed as f64 / host as f64
    }

    /// Returns the latest number of units written per second; NaN if nothing was written.
    pub(crate) fn units_per_second(&self) -> f64 {
        let latest = self.points.iter().rev().take(SMOOTHED_POINTS / 8);
        let (host, nanos) = latest.fold((0, 0), |sum, it| (sum.0 + it.host, sum.1 + it.nanos));
        host as f64 * 1e9 / nanos as f64
    }

    /// Returns the values of each point: units written, write amplification, free blocks, units per second.
    pub(crate) fn values(&self) -> impl Iterator<Item = [f64; VALUES_PER_POINT]> + '_ {
        self.points.iter().map(|it| {
            let host = it.host as f64;
            let amplification = it.programmed as f64 / host;
            [it.units as f64, amplification, it.free.into(), host * 1e9 / it.nanos as f64]
        })
    }
}
