//! Where the model is known to be further from the reference than its limit, on drives with a
//! journal, without a write cache, with capacitors, and with dies that suspend.

use super::Known;

/// Few writes find no room in the buffer, and they come in bunches; with a nearly saturated
/// controller (half of the commands' time is its own) small differences in order add up.
#[rustfmt::skip]
const RARE_WAITS: &[Known] = &[
    ("sata 8x2 super Suspend Mixed depth 32", "write mean", 0.05),
    ("nvme 16x2 super Journal Durable depth 32", "write p99", 0.07),
    ("nvme 16x2 super Suspend Mixed depth 32", "write mean", 0.12),
    ("nvme 16x2 super Suspend Mixed depth 32", "write p99", 0.37),
];

/// The same while collection goes on: its share is booked at once when a program unit is sent off,
/// and reads that come later push it back.
#[rustfmt::skip]
const COLLECTION: &[Known] = &[
    ("sata 8x2 super steady Journal Durable depth 1", "read p99", 0.18),
    ("sata 8x2 super steady Suspend Durable depth 32", "read p99", 0.28),
    ("nvme 16x2 super steady Journal Durable depth 1", "read p99", 0.22),
    ("nvme 16x2 super steady Journal Durable depth 8", "durable p99", 0.16),
    ("nvme 16x2 super steady Protected Durable depth 32", "write mean", 0.09),
    ("nvme 16x2 super steady Protected Durable depth 32", "write p99", 0.16),
    ("nvme 16x2 super steady Protected Durable depth 32", "durable mean", 0.07),
    ("nvme 16x2 super steady Protected Durable depth 32", "durable p99", 0.16),
    ("nvme 4x2 tlc steady Journal Durable depth 1", "read mean", 0.07),
    ("nvme 4x2 tlc steady Journal Durable depth 32", "read mean", 0.07),
    ("nvme 4x2 tlc steady Protected Durable depth 32", "read mean", 0.07),
    ("nvme 4x2 tlc steady Protected Durable depth 32", "durable mean", 0.07),
    ("nvme 4x2 tlc steady Suspend Mixed depth 8", "write mean", 0.33),
    ("nvme 4x2 tlc steady Suspend Mixed depth 8", "write p99", 0.85),
    ("nvme 4x2 tlc steady Suspend Mixed depth 32", "write p99", 0.19),
    ("nvme 4x2 tlc steady Suspend Durable depth 32", "write mean", 0.13),
    ("nvme 4x2 tlc steady Suspend Durable depth 32", "durable p99", 0.14),
];

/// All of them.
pub const ALL: [&[Known]; 2] = [RARE_WAITS, COLLECTION];
