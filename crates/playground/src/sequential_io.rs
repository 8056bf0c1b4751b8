//! Sequential reads and writes of a file.

use ssdlab_units::{Instant, LogicalUnit};

use crate::drive::Ssd;

/// Number of units in a request: 128 KiB with units of 4 KiB.
const REQUEST_UNITS: u32 = 32;

/// Result of reading a file.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReadReport {
    /// Bytes in the file.
    pub bytes: f64,
    /// Bytes per second.
    pub bytes_per_second: f64,
    /// Flash pages read per request of 128 KiB.
    pub pages_per_request: f64,
}

/// Returns the requests of a file of `units` units at the beginning of a drive: first unit and number of units.
fn requests(units: u32) -> impl Iterator<Item = (LogicalUnit, u32)> {
    (0..units.div_ceil(REQUEST_UNITS)).map(move |index| {
        let first = index * REQUEST_UNITS;
        (LogicalUnit(first), REQUEST_UNITS.min(units - first))
    })
}

/// Reads the first `units` units in order from `at`. Returns the instant of the last answer, and the result.
pub(crate) fn read(ssd: &mut Ssd, at: Instant, units: u32) -> (Instant, ReadReport) {
    let before = ssd.counters();
    let end = requests(units).fold(at, |at, (first, count)| ssd.read(at, first, count));
    let pages = ssd.counters().since(&before).flash_page_reads_host;
    let bytes = (ssd.geometry().unit_size() * u64::from(units)).bytes() as f64;
    let reading = ReadReport {
        bytes,
        bytes_per_second: bytes * 1e9 / end.since(at).nanos() as f64,
        pages_per_request: pages as f64 / f64::from(units.div_ceil(REQUEST_UNITS)),
    };
    (end, reading)
}

/// Writes the first `units` units in order from `at`, and flushes. Returns the instant at which they are
/// durable.
pub(crate) fn write(ssd: &mut Ssd, at: Instant, units: u32) -> Instant {
    let end = requests(units).fold(at, |at, (first, count)| ssd.write(at, first, count));
    ssd.flush(end)
}
