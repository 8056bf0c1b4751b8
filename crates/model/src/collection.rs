//! What garbage collection is configured with, and how many blocks it keeps. How it goes: `ftl/gc.rs`.

use crate::geometry::Geometry;
use crate::mapping::MappingScheme;
use crate::mechanisms::Mechanisms;
use crate::policy::Pacing;

/// How a drive collects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CollectionParameters {
    /// Collection starts when fewer blocks than this are free, per group of dies.
    pub low_water: u32,
    /// In idle time it goes on until so many blocks are free, per group of dies.
    pub idle_high_water: u32,
    /// Operations that may wait on a die before the host pays for them; below 32.
    pub debt_max: u32,
}

impl CollectionParameters {
    /// Blocks that are always open, free or being collected, so that they are not spare area:
    /// an open block per group for the host and for collection, and the blocks kept free.
    pub fn blocks_kept(&self, geometry: &Geometry, mechanisms: &Mechanisms) -> u32 {
        let free = match mechanisms.pacing {
            Pacing::Paced | Pacing::Ratio { .. } => self.low_water,
            Pacing::Bursty { high_water } => high_water.max(self.low_water),
        };
        // What is condensed has an open block of its own, and one that a power cut leaves half
        // written is closed as it is.
        let runs = 2 * u32::from(mechanisms.mapping == MappingScheme::Extent);
        // A power cut can leave a block of the cache half written and one half folded: both stay
        // until what they hold is folded, which takes a block more.
        let cache = mechanisms.slc.map_or(0, |slc| slc.blocks_kept() + 1);
        let open = mechanisms.streams.count + mechanisms.streams_of_copies();
        geometry.groups() * (free + open + runs) + cache
    }
}
