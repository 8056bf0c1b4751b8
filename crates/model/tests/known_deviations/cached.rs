//! The same for a drive whose map lies on flash.

use super::Known;

/// Pages of one request are read when its map page is there. What each is told of the waits that
/// it does not know yet comes from other requests, so the waits of one request's pages are less alike
/// than they are: the slowest of them is too slow in the mean, and the tail too short.
#[rustfmt::skip]
const LARGE_READS: &[Known] = &[
    ("sata 4x1 block cached LargeRead depth 8", "read p99", 0.09),
    ("sata 8x2 super cached LargeRead depth 8", "read p99", 0.10),
    ("nvme 16x2 super cached LargeRead depth 8", "read mean", 0.07),
    ("nvme 16x2 super cached LargeRead depth 32", "read mean", 0.04),
    ("nvme 16x2 super cached LargeRead depth 32", "read p99", 0.20),
    ("nvme 8x1 block cached LargeRead depth 2", "read mean", 0.05),
    ("nvme 8x1 block cached LargeRead depth 8", "read mean", 0.07),
    ("nvme 8x1 block cached LargeRead depth 32", "read mean", 0.04),
    ("nvme 8x1 block cached LargeRead depth 32", "read p99", 0.14),
    ("nvme 4x2 tlc cached LargeRead depth 8", "read mean", 0.07),
    ("nvme 4x2 tlc cached LargeRead depth 32", "read p99", 0.11),
];

/// Writes that wait for map pages behind programs, and for room in the map's write buffer, whose
/// programs reads push back: right on the whole but not for each.
#[rustfmt::skip]
const WRITES: &[Known] = &[
    ("sata 4x1 block cached RandomWrite depth 8", "write p99", 0.09),
    ("sata 4x1 block cached RandomWrite depth 32", "write p99", 0.06),
    ("sata 8x2 super cached RandomWrite depth 32", "write p99", 0.08),
    ("nvme 16x2 super cached RandomWrite depth 32", "write p99", 0.30),
    ("nvme 8x1 block cached RandomWrite depth 8", "write p99", 0.07),
    ("nvme 4x2 tlc cached RandomWrite depth 2", "write mean", 0.03),
    ("nvme 4x2 tlc cached RandomWrite depth 8", "write mean", 0.03),
    ("nvme 4x2 tlc cached RandomWrite depth 8", "write p99", 0.07),
];

/// Flushes. A program of map pages is booked for when the last of them will have been read, and what
/// is programmed next on that die waits for it. With 8 map pages in RAM and 32 requests in flight,
/// pages make room while they are being read, and that is far.
#[rustfmt::skip]
const FLUSHES: &[Known] = &[
    ("sata 4x1 block cached FlushedWrite depth 2", "durable p99", 0.22),
    ("sata 4x1 block cached FlushedWrite depth 8", "durable mean", 0.05),
    ("sata 4x1 block cached FlushedWrite depth 32", "write mean", 0.04),
    ("sata 4x1 block cached FlushedWrite depth 32", "write p99", 0.14),
    ("sata 4x1 block cached FlushedWrite depth 32", "durable mean", 0.17),
    ("sata 4x1 block cached FlushedWrite depth 32", "durable p99", 0.14),
    ("sata 8x2 super cached FlushedWrite depth 8", "durable p99", 0.06),
    ("sata 8x2 super cached FlushedWrite depth 32", "write mean", 0.03),
    ("sata 8x2 super cached FlushedWrite depth 32", "durable mean", 0.13),
    ("sata 8x2 super cached FlushedWrite depth 32", "durable p99", 0.10),
    ("nvme 16x2 super cached FlushedWrite depth 32", "write mean", 0.07),
    ("nvme 16x2 super cached FlushedWrite depth 32", "durable mean", 0.14),
    ("nvme 16x2 super cached FlushedWrite depth 32", "durable p99", 0.09),
    ("nvme 8x1 block cached FlushedWrite depth 8", "durable p99", 0.38),
    ("nvme 8x1 block cached FlushedWrite depth 32", "write mean", 0.07),
    ("nvme 8x1 block cached FlushedWrite depth 32", "write p99", 0.30),
    ("nvme 8x1 block cached FlushedWrite depth 32", "durable mean", 0.21),
    ("nvme 8x1 block cached FlushedWrite depth 32", "durable p99", 0.25),
    ("nvme 4x2 tlc cached FlushedWrite depth 2", "write mean", 0.04),
    ("nvme 4x2 tlc cached FlushedWrite depth 8", "write mean", 0.05),
    ("nvme 4x2 tlc cached FlushedWrite depth 8", "durable mean", 0.05),
    ("nvme 4x2 tlc cached FlushedWrite depth 8", "durable p99", 0.07),
    ("nvme 4x2 tlc cached FlushedWrite depth 32", "write mean", 0.05),
    ("nvme 4x2 tlc cached FlushedWrite depth 32", "write p99", 0.06),
    ("nvme 4x2 tlc cached FlushedWrite depth 32", "durable mean", 0.10),
    ("nvme 4x2 tlc cached FlushedWrite depth 32", "durable p99", 0.11),
];

/// Reads whose map page is being read meet programs that are booked after them. At depth 2 a 99th
/// percentile is one of a few values.
#[rustfmt::skip]
const MIXED: &[Known] = &[
    ("sata 4x1 block cached RandomRead depth 2", "read p99", 0.06),
    ("sata 4x1 block cached Mixed depth 8", "read p99", 0.19),
    ("sata 4x1 block cached Mixed depth 8", "write mean", 0.04),
    ("sata 4x1 block cached Mixed depth 32", "read mean", 0.07),
    ("sata 4x1 block cached Mixed depth 32", "read p99", 0.20),
    ("sata 4x1 block cached Mixed depth 32", "write mean", 0.31),
    ("sata 4x1 block cached Mixed depth 32", "write p99", 0.30),
    ("sata 8x2 super cached Mixed depth 32", "read p99", 0.09),
    ("nvme 16x2 super cached Mixed depth 8", "write mean", 0.03),
    ("nvme 16x2 super cached Mixed depth 32", "write mean", 0.03),
    ("nvme 8x1 block cached Mixed depth 32", "write mean", 0.05),
    ("nvme 8x1 block cached Mixed depth 32", "write p99", 0.14),
    ("nvme 4x2 tlc cached RandomRead depth 2", "read p99", 0.15),
    ("nvme 4x2 tlc cached Mixed depth 2", "write p99", 0.07),
    ("nvme 4x2 tlc cached Mixed depth 8", "read p99", 0.08),
    ("nvme 4x2 tlc cached Mixed depth 32", "write mean", 0.04),
];

/// The same while collection goes on.
#[rustfmt::skip]
const COLLECTION: &[Known] = &[
    ("sata 4x1 block cached steady RandomWrite depth 32", "write p99", 0.20),
    ("sata 4x1 block cached steady Mixed depth 32", "read mean", 0.10),
    ("sata 4x1 block cached steady Mixed depth 32", "read p99", 0.28),
    ("sata 4x1 block cached steady Mixed depth 32", "write mean", 0.17),
    ("sata 4x1 block cached steady Mixed depth 32", "write p99", 0.32),
    ("nvme 16x2 super cached steady Mixed depth 32", "read p99", 0.17),
    ("nvme 8x1 block cached steady Mixed depth 32", "write mean", 0.11),
    ("nvme 4x2 tlc cached steady RandomRead depth 2", "read p99", 0.13),
    ("nvme 4x2 tlc cached steady Mixed depth 8", "read p99", 0.17),
    ("nvme 4x2 tlc cached steady Mixed depth 32", "write mean", 0.08),
    ("sata 4x1 block cached steady Mixed depth 1", "read p99", 0.13),
    ("nvme 8x1 block cached steady RandomRead depth 32", "read p99", 0.12),
    ("nvme 8x1 block cached steady Mixed depth 32", "read p99", 0.12),
    ("nvme 8x1 block cached steady Mixed depth 32", "write p99", 0.20),
    ("nvme 8x1 block cached steady RandomWrite depth 32", "write p99", 0.15),
    ("nvme 8x1 block cached steady Mixed depth 2", "read p99", 0.19),
    ("nvme 8x1 block cached steady Mixed depth 8", "write p99", 0.21),
];

/// All of them.
pub const ALL: [&[Known]; 5] = [LARGE_READS, WRITES, FLUSHES, MIXED, COLLECTION];
