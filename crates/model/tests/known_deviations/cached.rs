//! The same for a drive whose map lies on flash: no other has any.

use super::Known;

/// Chance, of rare things. One write in a hundred meets one of a hundred bunches of waits for a
/// dirty map page, so that the 99th percentile lies on a cliff: 98.5 % take 1.5 ms at most, 0.8 % take
/// more than 3 ms, in either simulator. With other requests the sign is another, and over sixteen
/// runs it is no nearer.
#[rustfmt::skip]
pub const ALL: &[Known] = &[
    ("nvme 4x2 tlc cached RandomWrite depth 32", "write p99", 0.08),
];
