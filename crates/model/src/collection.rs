//! What garbage collection is configured with, and how many blocks it keeps. How it goes: `ftl/gc.rs`.

use crate::geometry::Geometry;
use crate::mapping::MappingScheme;
use crate::mechanisms::Mechanisms;
use crate::policy::Pacing;

/// Blocks with fewer rows than this lose so much room to a power cut that two cuts leave too little. Flash has 64 rows
/// and more; only a drive that was made very small has so few.
const FEW_ROWS: u32 = 5;

/// Program units that a block has on each of its dies.
fn rows(geometry: &Geometry) -> u32 {
    geometry.units_per_block() / (geometry.units_per_program() * geometry.stripe())
}

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
        // A power cut can leave a block of the cache half written, of each stream and group of dies, and one
        // half folded: they stay until what they hold is folded, which takes a block more for each.
        let of_host = mechanisms.streams.count * geometry.groups();
        let cache = mechanisms.slc.map_or(0, |slc| slc.blocks_kept() + of_host);
        let copies = Self::blocks_for_copies(geometry, mechanisms);
        let open = mechanisms.streams.count + copies;
        geometry.groups() * (free.max(copies + 1) + open + runs) + cache
    }

    /// Blocks of a group of dies that nothing but copies is programmed to: one for each stream of copies, and of
    /// blocks of few rows one more.
    ///
    /// A power cut tears a row (a program unit on each die) of what is being programmed, and another while recovery
    /// copies does so again.
    pub(crate) fn blocks_for_copies(geometry: &Geometry, mechanisms: &Mechanisms) -> u32 {
        mechanisms.streams_of_copies() + Self::blocks_for_few_rows(geometry)
    }

    /// Blocks of a group of dies that are kept because blocks have few rows.
    pub(crate) fn blocks_for_few_rows(geometry: &Geometry) -> u32 {
        u32::from(rows(geometry) < FEW_ROWS)
    }

    /// Returns true if copies to the last two rows of their block wait for programs of the host's, so that a power cut
    /// leaves recovery room. Where a block has no other rows, they would always wait.
    pub(crate) fn lets_copies_wait(geometry: &Geometry) -> bool {
        rows(geometry) > 2
    }
}
