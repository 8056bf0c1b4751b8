//! One workload, in the vocabulary of fio: pattern, block size, depth, mix, region, amount, rate.

use serde::{Deserialize, Serialize};
pub use ssdlab_units::Region;
use ssdlab_units::{ByteLength, Nanoseconds};

use crate::error::{DriveError, ErrorKind};
use crate::skew::Skew;

/// Maximum number of requests in flight.
pub const MAX_DEPTH: u32 = 4096;

/// Order in which blocks are addressed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pattern {
    /// One after the other, starting over at the end of the region.
    Sequential,
    /// In ascending order from this block of the region, counted in blocks of the phase: for a workload
    /// that continues where an earlier phase ended.
    SequentialFrom(u64),
    /// Uniformly at random, each block independently of the others.
    Random,
    /// In random order, no block twice before each was visited once (fio's random map).
    RandomOnce,
    /// At random, some blocks more often than others.
    Skewed(Skew),
}

impl Pattern {
    /// Returns true if each block follows the one before it.
    pub fn is_sequential(self) -> bool {
        matches!(self, Pattern::Sequential | Pattern::SequentialFrom(_))
    }
}

/// Share of the requests that are reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mix {
    /// Reads per hundred requests: 0 only writes, 100 only reads.
    pub read_percent: u8,
}

impl Mix {
    /// Only reads.
    pub const READ: Mix = Mix { read_percent: 100 };
    /// Only writes.
    pub const WRITE: Mix = Mix { read_percent: 0 };

    /// Returns true if there are reads and writes.
    pub fn is_mixed(self) -> bool {
        self != Mix::READ && self != Mix::WRITE
    }
}

/// Condition that ends a phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Amount {
    /// Number of bytes, a whole number of blocks.
    Bytes(ByteLength),
    /// Span of the drive's time.
    Time(Nanoseconds),
}

/// Arrival of requests: limited to a rate, or independent of the answers (open loop).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rate {
    /// At most this many requests a second.
    RequestsPerSecond(f64),
    /// At most this many bytes a second.
    BytesPerSecond(f64),
    /// An open loop: this many requests a second arrive on average, at random moments (a Poisson process),
    /// whether or not earlier ones were answered. Latencies count from the arrival, and at most the phase's
    /// depth of requests is with the drive at a time.
    Open(f64),
}

/// One workload.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Phase {
    /// Name of the phase in progress lines and errors, such as "fill".
    pub name: String,
    /// The order of the blocks.
    pub pattern: Pattern,
    /// Bytes per request.
    pub block_size: ByteLength,
    /// Requests in flight at a time.
    pub depth: u32,
    /// The share of reads.
    pub mix: Mix,
    /// Region of the drive that the requests go to.
    pub region: Region,
    /// Condition that ends the phase.
    pub amount: Amount,
    /// Maximum rate of the requests; `None` for as fast as the drive answers.
    pub rate: Option<Rate>,
    /// Seed of the addresses and of the data written.
    pub seed: u64,
    /// True to flush at the end, inside the measured time of the phase (fio's `end_fsync`).
    pub flush_at_end: bool,
    /// Length of one interval of the throughput series; zero for no series.
    pub interval: Nanoseconds,
}

impl Phase {
    /// Maximum duration of a phase. A simulated drive counts the time within a phase in 51 bits of
    /// nanoseconds, 26 days, and a longer phase on a real one is a mistake.
    pub const LONGEST: Nanoseconds = Nanoseconds::from_secs(25 * 86_400);

    /// Number of blocks in the region.
    pub fn blocks(&self) -> u64 {
        self.region.length.whole(self.block_size)
    }

    /// Returns the bytes that the phase transfers, or `None` if that is not known beforehand.
    pub fn bytes_total(&self) -> Option<ByteLength> {
        match self.amount {
            Amount::Bytes(bytes) => Some(bytes),
            Amount::Time(_) => None,
        }
    }

    /// Returns the minimum duration of the phase in seconds: its time, or the time that its requests take
    /// at its rate.
    fn min_duration(&self) -> f64 {
        let gap = match self.rate {
            None => 0.0,
            Some(Rate::RequestsPerSecond(rate) | Rate::Open(rate)) => 1.0 / rate,
            Some(Rate::BytesPerSecond(rate)) => self.block_size.bytes() as f64 / rate,
        };
        match self.amount {
            Amount::Bytes(bytes) => gap * bytes.whole(self.block_size) as f64,
            Amount::Time(time) => time.seconds().max(gap),
        }
    }

    /// Checks that the phase can run on a drive of `capacity` whose requests are multiples of `alignment`.
    /// Everything that runs phases calls this first.
    pub fn validate(&self, capacity: ByteLength, alignment: ByteLength) -> Result<(), DriveError> {
        let wrong = |what: String| {
            Err(DriveError::new(ErrorKind::Usage, format!("phase '{}': {what}", self.name)))
        };
        if self.block_size == ByteLength::ZERO || !self.block_size.is_multiple_of(alignment) {
            return wrong(format!(
                "block size {} is not a multiple of {alignment}",
                self.block_size
            ));
        }
        if !self.region.offset.is_multiple_of(alignment) {
            return wrong(format!(
                "region starts at {}, not a multiple of {alignment}",
                self.region.offset
            ));
        }
        if self.blocks() == 0 {
            return wrong(format!("the region is smaller than one block of {}", self.block_size));
        }
        if let Pattern::SequentialFrom(first) = self.pattern
            && first >= self.blocks()
        {
            return wrong(format!("block {first} is not one of the region's {}", self.blocks()));
        }
        if let Pattern::Skewed(skew) = self.pattern
            && self.blocks() < skew.min_blocks()
        {
            return wrong(format!(
                "the {} blocks of the region are too few for {skew}",
                self.blocks()
            ));
        }
        if self.region.end() > capacity {
            return wrong(format!(
                "region ends at {}, behind the drive's end at {capacity}",
                self.region.end()
            ));
        }
        if self.depth == 0 || self.depth > MAX_DEPTH {
            return wrong(format!("depth {} is not from 1 to {MAX_DEPTH}", self.depth));
        }
        if self.mix.read_percent > 100 {
            return wrong(format!("{} percent reads", self.mix.read_percent));
        }
        if let Amount::Bytes(bytes) = self.amount
            && !bytes.is_multiple_of(self.block_size)
        {
            return wrong(format!("amount {bytes} is not a whole number of blocks"));
        }
        if self.min_duration() > Phase::LONGEST.seconds() {
            return wrong(format!(
                "it would last {:.0} days, longer than the limit of {:.0} days",
                self.min_duration() / 86_400.0,
                Phase::LONGEST.seconds() / 86_400.0
            ));
        }
        match self.rate {
            Some(Rate::RequestsPerSecond(rate) | Rate::BytesPerSecond(rate) | Rate::Open(rate))
                if !(rate.is_finite() && rate > 0.0) =>
            {
                wrong(format!("rate {rate} is not a positive number"))
            }
            _ => Ok(()),
        }
    }
}
