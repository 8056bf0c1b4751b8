//! Durations of flash, channel, link and controller: the time for which an operation occupies the named
//! resource, in nanoseconds.

use ssdlab_units::{ByteLength, Nanoseconds};

/// A transfer rate, kept as picoseconds per byte so that a page's time is one multiplication.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransferRate {
    picoseconds_per_byte: u64,
}

impl TransferRate {
    /// Returns a rate in MB/s (10^6 bytes a second). Resolution is one picosecond per byte, 0.3 % at 3300
    /// MB/s.
    ///
    /// # Panics
    /// Panics if the rate is not a positive number of at most 10^6 MB/s.
    pub fn from_mb_per_second(rate: f64) -> TransferRate {
        assert!(rate > 0.0 && rate <= 1e6, "a transfer rate of {rate} MB/s");
        TransferRate { picoseconds_per_byte: (1e6 / rate).round() as u64 }
    }

    /// The rate in MB/s (10^6 bytes a second).
    pub fn mb_per_second(self) -> f64 {
        1e6 / self.picoseconds_per_byte as f64
    }

    /// Returns the time that `length` bytes take.
    #[inline(always)]
    pub fn duration(self, length: ByteLength) -> Nanoseconds {
        Nanoseconds::new(length.bytes() * self.picoseconds_per_byte / 1000)
    }
}

/// Codeword of the error correction: the smallest part of a page that crosses the channel. A mapping unit
/// that is smaller is one codeword.
pub const CODEWORD: ByteLength = ByteLength::new(4096);

/// Order in which the data of one read reaches the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// From its first byte to its last, each waiting for those before it (SATA without
    /// non-zero buffer offsets, and simple NVMe controllers).
    InOrder,
    /// In the order in which the data is ready (NVMe writes host memory by address).
    AnyOrder,
    /// All together, when the last of it is in RAM: the controller gathers a command's data before it
    /// starts the transfer.
    WhenComplete,
}

/// The durations of a drive.
#[derive(Clone, Debug, PartialEq)]
pub struct Timing {
    /// Time to sense one flash page (or one page of every plane together), tR.
    pub page_read: Nanoseconds,
    /// Time to program one program unit, tPROG.
    pub program: Nanoseconds,
    /// Time to erase one block of a die (all planes), tBERS.
    pub erase: Nanoseconds,
    /// Rate of one channel between die and controller.
    pub channel: TransferRate,
    /// Rate of the host link, protocol overhead subtracted.
    pub link: TransferRate,
    /// True if the link moves data both ways at the same time (PCIe), false if one way at a time (SATA).
    pub link_full_duplex: bool,
    /// Order in which the data of one read reaches the host.
    pub delivery: Delivery,
    /// Time per command that passes without occupying any resource: host, driver, protocol and firmware
    /// together.
    pub command_latency: Nanoseconds,
    /// Time per command that the controller is busy, so that commands queue for it: the inverse of the
    /// maximum number of commands a second.
    pub command_occupancy: Nanoseconds,
}

#[cfg(test)]
mod tests {
    use super::*;
    use ssdlab_units::{KIB, MIB};

    #[test]
    fn a_transfer_takes_what_the_rate_says() {
        let sata = TransferRate::from_mb_per_second(500.0);
        assert_eq!(sata.duration(MIB).nanos(), 2_097_152);
        let toggle = TransferRate::from_mb_per_second(400.0);
        assert_eq!(toggle.duration(KIB * 16).nanos(), 40_960);
    }

    #[test]
    #[should_panic(expected = "transfer rate of 0")]
    fn a_transfer_rate_of_zero_is_refused() {
        TransferRate::from_mb_per_second(0.0);
    }
}
