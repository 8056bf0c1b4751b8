//! What the host asks for.

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use crate::reference::Operation;

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Workload {
    RandomRead,
    RandomWrite,
    Mixed,
    SequentialRead,
    /// Single units in order, now and then from another place on.
    SmallStream,
    /// The same, and single units written at random.
    StreamAndWrites,
    LargeRead,
    SequentialWrite,
    FlushedWrite,
    /// Reads, writes, and now and then a flush or a write with FUA.
    Durable,
    /// Nothing but writes with FUA.
    FuaWrite,
}

use Workload::*;

impl Workload {
    /// `count` operations on the first `units` units.
    pub fn operations(self, count: usize, units: u32, seed: u64) -> Vec<Operation> {
        let mut generator = Pcg64Mcg::seed_from_u64(seed);
        let mut next = 0;
        (0..count)
            .map(|index| {
                let random = generator.random_range(0..units);
                let large = generator.random_range(0..units - 16);
                let reads = generator.random_range(0..10) < 7;
                let kind = if self == Durable { generator.random_range(0..20) } else { 0 };
                if matches!(self, SequentialRead | SequentialWrite) {
                    next = (next + 16) % units;
                }
                if self == SmallStream || self == StreamAndWrites && reads {
                    let hops = generator.random_range(0..64) == 0;
                    next = if hops { random } else { (next + 1) % units };
                }
                match self {
                    RandomRead => Operation::Read { first: random, units: 1 },
                    FlushedWrite if index % 16 == 15 => Operation::Flush,
                    RandomWrite | FlushedWrite => Operation::Write { first: random, units: 1 },
                    FuaWrite => Operation::WriteFua { first: random, units: 1 },
                    Durable => match kind {
                        0 => Operation::Flush,
                        1 => Operation::WriteFua { first: random, units: 1 },
                        2..=9 => Operation::Write { first: random, units: 1 },
                        _ => Operation::Read { first: random, units: 1 },
                    },
                    Mixed if reads => Operation::Read { first: random, units: 1 },
                    SmallStream => Operation::Read { first: next, units: 1 },
                    StreamAndWrites if reads => Operation::Read { first: next, units: 1 },
                    Mixed | StreamAndWrites => Operation::Write { first: random, units: 1 },
                    SequentialRead => Operation::Read { first: next, units: 16 },
                    LargeRead => Operation::Read { first: large, units: 16 },
                    SequentialWrite => Operation::Write { first: next, units: 16 },
                }
            })
            .collect()
    }
}
