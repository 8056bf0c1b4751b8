//! Mechanisms that not every drive has. Each is off unless a profile sets it.

use crate::checkpoint::CheckpointParameters;
use crate::data_time::DataTime;
use crate::flush::FlushParameters;
use crate::health::WearParameters;
use crate::mapping::MappingScheme;
use crate::mapping::extent::ExtentParameters;
use crate::policy::{Allocation, CopiesTo, Pacing, VictimPolicy};
use crate::retention::RetentionParameters;
use crate::slc::SlcParameters;
use crate::streams::StreamParameters;
use crate::thermal::ThermalParameters;
use crate::trim::TrimParameters;
use crate::units::Nanoseconds;
use ssdlab_nand::suspend::SuspendParameters;

/// The optional mechanisms of a drive. The default has none of them.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Mechanisms {
    /// Mapping scheme.
    pub mapping: MappingScheme,
    /// Checkpoints of the map; `None` if the drive saves none.
    pub checkpoint: Option<CheckpointParameters>,
    /// Flush: how writes become durable.
    pub flush: FlushParameters,
    /// Number of map pages that RAM holds, for [`MappingScheme::Cached`].
    pub map_cache_pages: u32,
    /// Time to read an entry of a cached map page: over PCI Express if a host memory buffer (HMB) holds the pages.
    pub map_cache_read: Nanoseconds,
    /// Extent table of [`MappingScheme::Extent`].
    pub extents: ExtentParameters,
    /// Number of random log blocks, for [`MappingScheme::LogBlock`].
    pub log_blocks: u32,
    /// Policy that chooses the victims of garbage collection.
    pub victims: VictimPolicy,
    /// Share of victims, from 0 to 1, that are taken in rotation instead of by the policy: the block that was closed
    /// longest ago, whatever it holds. Rotation levels wear, since every block is erased in its turn.
    pub rotation: f64,
    /// Choice of the group of dies that a unit is written to.
    pub allocation: Allocation,
    /// Destination of the copies of garbage collection.
    pub copies: CopiesTo,
    /// Pace of garbage collection beside host writes.
    pub pacing: Pacing,
    /// Write streams that separate data by temperature.
    pub streams: StreamParameters,
    /// Wear: bad blocks and wear levelling.
    pub wear: WearParameters,
    /// Retention: ageing of data; `None` if data does not age.
    pub retention: Option<RetentionParameters>,
    /// Seed of the drive's random choices: the same seed gives the same drive.
    pub seed: u64,
    /// Cost of trim, and data that is read after it.
    pub trim: TrimParameters,
    /// Pseudo-SLC cache; `None` if the drive has none.
    pub slc: Option<SlcParameters>,
    /// Operations that a read may suspend.
    pub suspend: SuspendParameters,
    /// Difference in sense time between the mean of a word line's pages and its fastest and slowest page, as a share
    /// of the mean. The pages between them lie in even steps.
    pub page_read_spread: f64,
    /// True if a sequential stream is read from the page registers of the dies as long as they hold its pages.
    pub page_register: bool,
    /// Time that a read for copies occupies its die beyond sensing.
    pub copy_overhead: Nanoseconds,
    /// Controller time of each page that is copied while the host writes.
    pub copy_occupancy: Nanoseconds,
    /// True if a read for copies senses all valid pages of a word line in one go, before the die reads for the host.
    pub copies_word_lines: bool,
    /// Thermal throttling; `None` if the drive never throttles.
    pub thermal: Option<ThermalParameters>,
    /// Time that the data of a command costs beside its transfers.
    pub data_time: DataTime,
}

impl Mechanisms {
    /// Returns the number of write streams that garbage collection copies to: one per host stream, and one for wear
    /// levelling if that has its own.
    pub fn streams_of_copies(&self) -> u32 {
        self.streams.count + self.wear.levelling.streams()
    }

    /// Returns true if a fully valid block is collected only if there is no other.
    pub fn seeks_gain(&self) -> bool {
        self.victims.seeks_gain() && self.rotation == 0.0
    }
}
