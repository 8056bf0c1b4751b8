//! Where the model is known to be further from the reference than its limit, by mechanism.
//!
//! Each figure has the deviation it may have, a little more than it was when it was noted: a test
//! fails if one gets worse, and if one gets better its line should go.

mod cached;
mod durability;

/// Case, figure, and the share by which the model may be off.
type Known = (&'static str, &'static str, f64);

/// Sequential reads at a channel's full rate fall into a rhythm, one of several; which one depends on
/// how they began, and the two simulators begin with a difference of some microseconds. Their means
/// are equal.
#[rustfmt::skip]
const RHYTHMS: &[Known] = &[
    ("nvme 4x2 tlc SequentialRead depth 2", "read p99", 0.30),
];

/// How far the model may be off in a figure, if it is known to be beyond its limit.
pub fn bound(case: &str, figure: &str) -> Option<f64> {
    [RHYTHMS]
        .into_iter()
        .chain(durability::ALL)
        .chain(cached::ALL)
        .flatten()
        .find(|known| known.0 == case && known.1 == figure)
        .map(|known| known.2)
}
