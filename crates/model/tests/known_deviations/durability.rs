//! Where the model is known to be further from the reference than its limit, on drives with a
//! journal, without a write cache, with capacitors, and with dies that suspend.

use super::Known;

/// Few writes find no room in the buffer, and they come in bunches; with a nearly saturated
/// controller (half of the commands' time is its own) small differences in order add up.
#[rustfmt::skip]
const RARE_WAITS: &[Known] = &[
    ("sata 8x2 super Suspend Mixed depth 32", "write mean", 0.05),
    ("nvme 16x2 super Journal Durable depth 32", "write p99", 0.06),
    ("nvme 16x2 super Suspend Mixed depth 32", "write mean", 0.11),
    ("nvme 16x2 super Suspend Mixed depth 32", "write p99", 0.37),
];

/// The same while collection goes on, and dies that suspend: an operation is interrupted at the
/// instant it was expected to run at, which a read before may have moved.
#[rustfmt::skip]
const COLLECTION: &[Known] = &[
    ("nvme 16x2 super steady Protected Durable depth 32", "write mean", 0.07),
    ("nvme 16x2 super steady Protected Durable depth 32", "durable mean", 0.07),
    ("nvme 4x2 tlc steady Suspend Mixed depth 8", "write mean", 0.39),
    ("sata 8x2 super steady Suspend Durable depth 8", "read p99", 0.14),
    ("sata 8x2 super steady Suspend Durable depth 32", "read mean", 0.06),
    ("sata 8x2 super steady Suspend Durable depth 32", "write p99", 0.12),
    ("nvme 16x2 super steady Suspend Mixed depth 1", "read p99", 0.16),
    ("nvme 16x2 super steady Suspend Mixed depth 32", "write mean", 0.09),
    ("nvme 16x2 super steady Suspend Durable depth 32", "read mean", 0.07),
    ("nvme 4x2 tlc steady Journal Durable depth 32", "durable p99", 0.12),
    ("nvme 4x2 tlc steady Suspend Mixed depth 8", "read p99", 0.38),
    ("nvme 4x2 tlc steady Suspend Durable depth 32", "read mean", 0.07),
];

/// All of them.
pub const ALL: [&[Known]; 2] = [RARE_WAITS, COLLECTION];
