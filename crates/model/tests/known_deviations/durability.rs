//! Where the model is known to be further from the reference than its limit, on drives with a
//! journal, without a write cache, with capacitors, and with dies that suspend: only with these.

use super::Known;

/// Reads interrupt programs, and few writes find no room in the buffer: small differences in which
/// program is interrupted add up.
#[rustfmt::skip]
const RARE_WAITS: &[Known] = &[
    ("sata 8x2 super Suspend Mixed depth 32", "read p99", 0.06),
    ("sata 8x2 super Suspend Mixed depth 32", "write mean", 0.05),
];

/// The same while collection goes on, and dies that suspend: an operation is interrupted at the
/// instant it was expected to run at, which a read before may have moved.
#[rustfmt::skip]
const COLLECTION: &[Known] = &[
    ("nvme 4x2 tlc steady Suspend Mixed depth 8", "write mean", 0.15),
    ("sata 8x2 super steady Suspend Durable depth 32", "write mean", 0.07),
    ("sata 8x2 super steady Suspend Durable depth 32", "write p99", 0.14),
    ("nvme 16x2 super steady Suspend Mixed depth 1", "read p99", 0.13),
    ("nvme 4x2 tlc steady Suspend Mixed depth 8", "read p99", 0.36),
];

/// All of them.
pub const ALL: [&[Known]; 2] = [RARE_WAITS, COLLECTION];
