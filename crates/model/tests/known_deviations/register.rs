//! The same for a drive whose streams are read from page registers. Reads that hardly use the dies leave
//! few writes that wait, and what the data of a program waits for its channel, which it gets by slots, is
//! a part of that: got to the nanosecond, +1.9 and +3.4 % are left of +3.7 and +6.0.

use super::Known;

pub const ALL: &[Known] = &[
    ("nvme 8x1 block register StreamAndWrites depth 32", "write mean", 0.05),
    ("nvme 8x1 block register StreamAndWrites depth 32", "write p99", 0.075),
];
