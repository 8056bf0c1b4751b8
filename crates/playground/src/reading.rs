//! A file that is read, or written anew, from its first unit to its last.

use ssdlab_units::{Instant, LogicalUnit};

use crate::drive::Ssd;

/// Units of a request: 128 KiB of units of 4 KiB.
const REQUEST_UNITS: u32 = 32;

/// What reading a file came to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reading {
    /// Bytes of the file.
    pub bytes: f64,
    /// Bytes a second.
    pub bytes_per_second: f64,
    /// Flash pages read for each request of 128 KiB.
    pub pages_per_request: f64,
}

/// Requests of a file of `units` units at the beginning of a drive.
fn requests(units: u32) -> impl Iterator<Item = (LogicalUnit, u32)> {
    (0..units.div_ceil(REQUEST_UNITS)).map(move |index| {
        let first = index * REQUEST_UNITS;
        (LogicalUnit(first), REQUEST_UNITS.min(units - first))
    })
}

/// Reads the first `units` units in order from `at`. Returns when that is done, and what it came to.
pub(crate) fn read(ssd: &mut Ssd, at: Instant, units: u32) -> (Instant, Reading) {
    let before = ssd.counters();
    let end = requests(units).fold(at, |at, (first, count)| ssd.read(at, first, count));
    let pages = ssd.counters().since(&before).flash_page_reads_host;
    let bytes = (ssd.geometry().unit_size() * u64::from(units)).bytes() as f64;
    let reading = Reading {
        bytes,
        bytes_per_second: bytes * 1e9 / end.since(at).nanos() as f64,
        pages_per_request: pages as f64 / f64::from(units.div_ceil(REQUEST_UNITS)),
    };
    (end, reading)
}

/// Writes the first `units` units in order from `at`. Returns when that is durable.
pub(crate) fn write(ssd: &mut Ssd, at: Instant, units: u32) -> Instant {
    let end = requests(units).fold(at, |at, (first, count)| ssd.write(at, first, count));
    ssd.flush(end)
}
