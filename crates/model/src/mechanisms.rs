//! What a drive may have beyond what every drive has: each is off unless a profile asks for it.

use crate::checkpoint::CheckpointParameters;
use crate::data_time::DataTime;
use crate::flush::FlushParameters;
use crate::health::WearParameters;
use crate::mapping::MappingScheme;
use crate::mapping::extent::ExtentParameters;
use crate::policy::{CopiesTo, Pacing, VictimPolicy};
use crate::retention::RetentionParameters;
use crate::slc::SlcParameters;
use crate::streams::StreamParameters;
use crate::thermal::ThermalParameters;
use crate::trim::TrimParameters;
use crate::units::Nanoseconds;
use ssdlab_nand::suspend::SuspendParameters;

/// The mechanisms of a drive that not every drive has. The default is a drive with none of them.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Mechanisms {
    /// How it maps.
    pub mapping: MappingScheme,
    /// How it saves its map now and then; nothing where it does not.
    pub checkpoint: Option<CheckpointParameters>,
    /// How it makes writes durable.
    pub flush: FlushParameters,
    /// Map pages that RAM holds, for [`MappingScheme::Cached`].
    pub map_cache_pages: u32,
    /// Time to read an entry of those map pages: over PCI Express, where they lie in a host memory buffer (HMB).
    pub map_cache_read: Nanoseconds,
    /// The table of [`MappingScheme::Extent`].
    pub extents: ExtentParameters,
    /// Random log blocks, for [`MappingScheme::LogBlock`].
    pub log_blocks: u32,
    /// What it collects next.
    pub victims: VictimPolicy,
    /// The share of its victims, from 0 to 1, that are not chosen but have their turn: the block that was
    /// closed longest ago, whatever it holds. Levels wear, since every block is erased in its turn.
    pub rotation: f64,
    /// Where its collection copies to.
    pub copies: CopiesTo,
    /// How its collection keeps up with the host.
    pub pacing: Pacing,
    /// How it separates data by temperature.
    pub streams: StreamParameters,
    /// What wears it out.
    pub wear: WearParameters,
    /// How its data ages; nothing where it does not.
    pub retention: Option<RetentionParameters>,
    /// What its own random choices are made of: the same seed gives the same drive.
    pub seed: u64,
    /// What trim costs, and what is read afterwards.
    pub trim: TrimParameters,
    /// Its pseudo-SLC cache.
    pub slc: Option<SlcParameters>,
    /// What a read may interrupt.
    pub suspend: SuspendParameters,
    /// By how much the pages of a word line that are sensed fastest and slowest differ from the mean, as a share of it;
    /// those between them lie in even steps.
    pub page_read_spread: f64,
    /// True if a stream is read from the dies' page registers as long as they hold its pages.
    pub page_register: bool,
    /// What a read for copies keeps its die beyond sensing.
    pub copy_overhead: Nanoseconds,
    /// True if a read for copies senses all that is valid on a word line in one go, before the die reads for the host.
    pub copies_word_lines: bool,
    /// Throttling by heat; nothing where it never does.
    pub thermal: Option<ThermalParameters>,
    /// What a command's data costs beside its transfers.
    pub data_time: DataTime,
}

impl Mechanisms {
    /// Write streams that collection copies to: one for each of the host's, and that of what is moved
    /// to level wear, where it has one.
    pub fn streams_of_copies(&self) -> u32 {
        self.streams.count + self.wear.levelling.streams()
    }

    /// Returns true if no block is ever collected from which nothing is to be gained while there is another.
    pub fn seeks_gain(&self) -> bool {
        self.victims.seeks_gain() && self.rotation == 0.0
    }
}
