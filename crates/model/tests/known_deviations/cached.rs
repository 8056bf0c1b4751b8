//! The same for a drive whose map lies on flash.

use super::Known;

/// Chance, of rare things: flushes that meet an erase are one in a hundred, so that their 99th
/// percentile lies on a cliff. With other requests the sign is another.
#[rustfmt::skip]
const RARE: &[Known] = &[
    ("sata 4x1 block cached FlushedWrite depth 2", "durable p99", 0.32),
    ("nvme 8x1 block cached FlushedWrite depth 32", "durable mean", 0.03),
    ("nvme 4x2 tlc cached RandomWrite depth 32", "write p99", 0.08),
];

/// This drive's map has some 45 pages, of which up to four lie in the program unit that is being
/// filled, and are read from RAM. How many those are when the drive comes to rest before it is read
/// is chance: here 15 % of the requests find theirs in RAM, in the reference 20 %.
#[rustfmt::skip]
const REST: &[Known] = &[
    ("sata 4x1 block cached steady RandomRead depth 32", "read p99", 0.15),
];

/// All of them.
pub const ALL: [&[Known]; 2] = [RARE, REST];
