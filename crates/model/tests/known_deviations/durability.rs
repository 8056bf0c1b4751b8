//! Where the model is known to be further from the reference than its limit, on drives with a
//! journal, without a write cache, with capacitors, and with dies that suspend.

use super::Known;

/// Few writes find no room in the buffer, and they come in bunches; with a nearly saturated
/// controller (half of the commands' time is its own) small differences in order add up.
#[rustfmt::skip]
const RARE_WAITS: &[Known] = &[
    ("sata 8x2 super Suspend Mixed depth 32", "write mean", 0.05),
    ("nvme 16x2 super Journal Durable depth 32", "write mean", 0.03),
    ("nvme 16x2 super Journal Durable depth 32", "write p99", 0.08),
    ("nvme 16x2 super Suspend Mixed depth 32", "write mean", 0.11),
    ("nvme 16x2 super Suspend Mixed depth 32", "write p99", 0.40),
];

/// The same while collection goes on, and dies that suspend: an operation is interrupted at the
/// instant it was expected to run at, which a read before may have moved.
#[rustfmt::skip]
const COLLECTION: &[Known] = &[
    ("nvme 4x2 tlc steady Suspend Mixed depth 8", "write mean", 0.30),
    ("sata 8x2 super steady Suspend Durable depth 32", "write mean", 0.10),
    ("sata 8x2 super steady Suspend Durable depth 32", "write p99", 0.20),
    ("nvme 16x2 super steady Suspend Mixed depth 1", "read p99", 0.16),
    ("nvme 4x2 tlc steady Suspend Mixed depth 8", "read p99", 0.40),
];

/// All of them.
pub const ALL: [&[Known]; 2] = [RARE_WAITS, COLLECTION];
