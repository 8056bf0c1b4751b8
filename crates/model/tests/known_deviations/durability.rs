//! Where the model is known to be further from the reference than its limit, on drives with a
//! journal, without a write cache, with capacitors, and with dies that suspend.

use super::Known;

/// A journal page becomes ready in the future, and what is booked on its die until then is not known
/// when it is promised. The wait of an earlier page is what it is given: near the mean, but neither
/// the right one for each nor right at once when the load changes; and a closed loop goes on from
/// what was promised.
#[rustfmt::skip]
pub const JOURNAL: &[Known] = &[
    ("sata 8x2 super Journal FlushedWrite depth 8", "write p99", 0.12),
    ("sata 8x2 super Journal FlushedWrite depth 8", "durable p99", 0.09),
    ("sata 8x2 super Journal Durable depth 8", "durable mean", 0.05),
    ("sata 8x2 super Journal FuaWrite depth 8", "durable mean", 0.24),
    ("sata 8x2 super Journal FuaWrite depth 8", "durable p99", 0.74),
    ("nvme 16x2 super Journal FlushedWrite depth 8", "write mean", 0.08),
    ("nvme 16x2 super Journal FlushedWrite depth 8", "durable mean", 0.05),
    ("nvme 16x2 super Journal FlushedWrite depth 8", "durable p99", 0.19),
    ("nvme 16x2 super Journal Durable depth 8", "durable mean", 0.05),
    ("nvme 16x2 super Journal Durable depth 32", "durable mean", 0.05),
    ("nvme 16x2 super Journal FuaWrite depth 32", "durable p99", 0.08),
    ("nvme 4x2 tlc Journal FlushedWrite depth 8", "write mean", 0.21),
    ("nvme 4x2 tlc Journal FlushedWrite depth 8", "durable p99", 0.25),
    ("nvme 4x2 tlc Journal Durable depth 8", "read mean", 0.07),
    ("nvme 4x2 tlc Journal Durable depth 8", "durable mean", 0.05),
    ("nvme 4x2 tlc Journal Durable depth 32", "read mean", 0.09),
    ("nvme 4x2 tlc Journal Durable depth 32", "read p99", 0.15),
    ("nvme 4x2 tlc Journal Durable depth 32", "durable p99", 0.15),
    ("nvme 4x2 tlc Journal FuaWrite depth 8", "durable p99", 0.18),
    ("sata 8x2 super steady Journal Durable depth 1", "read p99", 0.20),
    ("sata 8x2 super steady Journal Durable depth 32", "write p99", 0.15),
    ("sata 8x2 super steady Journal Durable depth 32", "durable p99", 0.17),
    ("nvme 16x2 super steady Journal Durable depth 1", "read p99", 0.24),
    ("nvme 16x2 super steady Journal Durable depth 8", "durable p99", 0.38),
    ("nvme 4x2 tlc steady Journal Durable depth 8", "durable mean", 0.09),
    ("nvme 4x2 tlc steady Journal Durable depth 32", "durable p99", 0.34),
];

/// Every write is a program of its own: the dies are busy with programs, which reads push back after
/// they were promised.
#[rustfmt::skip]
pub const WRITE_THROUGH: &[Known] = &[
    ("sata 8x2 super WriteThrough Mixed depth 8", "read mean", 0.07),
    ("sata 8x2 super WriteThrough Mixed depth 8", "write mean", 0.05),
    ("sata 8x2 super WriteThrough Mixed depth 8", "write p99", 0.14),
    ("nvme 16x2 super WriteThrough Mixed depth 8", "read mean", 0.05),
    ("nvme 16x2 super WriteThrough Mixed depth 32", "read mean", 0.07),
    ("nvme 16x2 super WriteThrough Mixed depth 32", "write mean", 0.10),
    ("nvme 4x2 tlc WriteThrough Mixed depth 8", "read mean", 0.18),
    ("nvme 4x2 tlc WriteThrough Mixed depth 8", "read p99", 0.25),
    ("nvme 4x2 tlc WriteThrough Mixed depth 8", "write mean", 0.14),
    ("nvme 4x2 tlc WriteThrough Mixed depth 8", "write p99", 0.15),
    ("nvme 4x2 tlc WriteThrough Mixed depth 32", "read mean", 0.12),
    ("nvme 4x2 tlc WriteThrough Mixed depth 32", "read p99", 0.23),
];

/// As for the plain drives above: the half-duplex link, and tails while collection goes on.
#[rustfmt::skip]
pub const PROTECTED: &[Known] = &[
    ("sata 8x2 super Protected Durable depth 8", "write p99", 0.09),
    ("sata 8x2 super Protected Durable depth 32", "write p99", 0.08),
    ("sata 8x2 super Protected Durable depth 32", "durable p99", 0.13),
    ("nvme 16x2 super Protected Durable depth 32", "read mean", 0.05),
    ("nvme 4x2 tlc Protected Durable depth 32", "write mean", 0.04),
    ("nvme 16x2 super steady Protected Durable depth 32", "write p99", 0.15),
    ("nvme 4x2 tlc steady Protected Durable depth 32", "read mean", 0.09),
    ("nvme 4x2 tlc steady Protected Durable depth 32", "write p99", 0.19),
    ("nvme 4x2 tlc steady Protected Durable depth 32", "durable p99", 0.17),
];

/// Interrupted programs end later than they were promised: by how much is foretold from how many reads
/// came lately. Where small programs and reads share few dies, the buffer's slots come free at other
/// instants for it.
#[rustfmt::skip]
pub const SUSPEND: &[Known] = &[
    ("sata 8x2 super Suspend Mixed depth 8", "write mean", 0.05),
    ("sata 8x2 super Suspend Mixed depth 8", "write p99", 0.13),
    ("sata 8x2 super Suspend Mixed depth 32", "write mean", 0.07),
    ("sata 8x2 super Suspend Durable depth 8", "durable mean", 0.07),
    ("sata 8x2 super Suspend Durable depth 8", "durable p99", 0.24),
    ("sata 8x2 super Suspend Durable depth 32", "write mean", 0.18),
    ("sata 8x2 super Suspend Durable depth 32", "write p99", 1.04),
    ("sata 8x2 super Suspend Durable depth 32", "durable mean", 0.04),
    ("nvme 16x2 super Suspend Mixed depth 32", "write mean", 0.08),
    ("nvme 16x2 super Suspend Mixed depth 32", "write p99", 0.16),
    ("nvme 16x2 super Suspend Durable depth 8", "read p99", 0.08),
    ("nvme 16x2 super Suspend Durable depth 8", "durable mean", 0.07),
    ("nvme 16x2 super Suspend Durable depth 8", "durable p99", 0.25),
    ("nvme 16x2 super Suspend Durable depth 32", "read mean", 0.05),
    ("nvme 16x2 super Suspend Durable depth 32", "write p99", 0.28),
    ("nvme 16x2 super Suspend Durable depth 32", "durable p99", 0.11),
    ("nvme 4x2 tlc Suspend Mixed depth 8", "read p99", 0.09),
    ("nvme 4x2 tlc Suspend Mixed depth 32", "read mean", 0.09),
    ("nvme 4x2 tlc Suspend Mixed depth 32", "write mean", 0.13),
    ("nvme 4x2 tlc Suspend Mixed depth 32", "write p99", 0.10),
    ("nvme 4x2 tlc Suspend Durable depth 1", "durable mean", 0.08),
    ("nvme 4x2 tlc Suspend Durable depth 1", "durable p99", 0.15),
    ("nvme 4x2 tlc Suspend Durable depth 8", "read mean", 0.09),
    ("nvme 4x2 tlc Suspend Durable depth 8", "read p99", 0.14),
    ("nvme 4x2 tlc Suspend Durable depth 32", "read mean", 0.07),
    ("nvme 4x2 tlc Suspend Durable depth 32", "read p99", 0.09),
    ("nvme 4x2 tlc Suspend Durable depth 32", "write mean", 1.88),
    ("nvme 4x2 tlc Suspend Durable depth 32", "write p99", 44.35),
    ("sata 8x2 super steady Suspend Mixed depth 32", "read p99", 0.22),
    ("sata 8x2 super steady Suspend Durable depth 32", "read p99", 0.53),
    ("sata 8x2 super steady Suspend Durable depth 32", "write mean", 0.24),
    ("sata 8x2 super steady Suspend Durable depth 32", "write p99", 0.26),
    ("nvme 16x2 super steady Suspend Mixed depth 32", "read p99", 0.16),
    ("nvme 16x2 super steady Suspend Durable depth 8", "read p99", 0.20),
    ("nvme 16x2 super steady Suspend Durable depth 8", "durable p99", 0.14),
    ("nvme 16x2 super steady Suspend Durable depth 32", "write p99", 0.28),
    ("nvme 4x2 tlc steady Suspend Mixed depth 8", "write mean", 0.79),
    ("nvme 4x2 tlc steady Suspend Mixed depth 8", "write p99", 1.48),
    ("nvme 4x2 tlc steady Suspend Mixed depth 32", "read p99", 0.14),
    ("nvme 4x2 tlc steady Suspend Mixed depth 32", "write p99", 0.31),
    ("nvme 4x2 tlc steady Suspend Durable depth 1", "durable mean", 0.08),
    ("nvme 4x2 tlc steady Suspend Durable depth 8", "read p99", 0.20),
    ("nvme 4x2 tlc steady Suspend Durable depth 8", "durable p99", 0.34),
    ("nvme 4x2 tlc steady Suspend Durable depth 32", "write mean", 0.43),
    ("nvme 4x2 tlc steady Suspend Durable depth 32", "write p99", 7.98),
];
