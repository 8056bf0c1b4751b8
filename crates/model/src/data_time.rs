//! Time that the data of a command takes beside its transfers, in proportion to its length.

use crate::units::{ByteLength, MIB, Nanoseconds};
use ssdlab_nand::timing::TransferRate;

/// Times of a command that grow with its length. The default is none.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DataTime {
    /// Rate at which the controller moves data, one command after the other; `None` if it keeps up with the link.
    pub controller: Option<TransferRate>,
    /// Time for each MiB in host and firmware, for page lists, copies and cache lookups. It adds latency and occupies
    /// nothing.
    pub per_mib: Nanoseconds,
}

impl DataTime {
    /// Returns the time for which `length` occupies the controller.
    pub fn occupancy(&self, length: ByteLength) -> Nanoseconds {
        self.controller.map_or(Nanoseconds::ZERO, |rate| rate.duration(length))
    }

    /// Returns the time between the end of the data transfer and the answer of a command of `length`.
    pub fn latency(&self, length: ByteLength) -> Nanoseconds {
        let nanos = u128::from(self.per_mib.nanos()) * u128::from(length.bytes());
        Nanoseconds::new((nanos / u128::from(MIB.bytes())) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::KIB;

    #[test]
    fn both_grow_with_the_length() {
        let time = DataTime {
            controller: Some(TransferRate::from_mb_per_second(1024.0)),
            per_mib: Nanoseconds::from_micros(100),
        };
        assert_eq!(time.occupancy(KIB * 4), Nanoseconds::new(4_001));
        assert_eq!(time.occupancy(KIB * 64), Nanoseconds::new(64_028));
        assert_eq!(time.latency(MIB), Nanoseconds::from_micros(100));
        assert_eq!(time.latency(KIB * 512), Nanoseconds::from_micros(50));
        let none = DataTime::default();
        assert_eq!((none.occupancy(MIB), none.latency(MIB)), Default::default());
    }
}
