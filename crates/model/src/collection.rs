//! Parameters of garbage collection, and the number of blocks that it keeps. The mechanism itself is in `ftl/gc.rs`.

use crate::geometry::Geometry;
use crate::mapping::MappingScheme;
use crate::mechanisms::Mechanisms;
use crate::policy::Pacing;

/// Number of rows (program units per die) below which a power cut costs a block so much of its space that two cuts
/// leave too little. Flash has 64 rows and more; only very small simulated drives have fewer than this.
const FEW_ROWS: u32 = 5;

/// Returns the number of program units that a block has on each of its dies.
fn rows(geometry: &Geometry) -> u32 {
    geometry.units_per_block() / (geometry.units_per_program() * geometry.stripe())
}

/// Parameters of garbage collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CollectionParameters {
    /// Number of free blocks per group of dies below which garbage collection starts.
    pub low_water: u32,
    /// Number of free blocks per group of dies at which idle-time garbage collection stops.
    pub idle_high_water: u32,
    /// Number of background operations that may wait on a die before the oldest is treated like one of the host's;
    /// below 32.
    pub debt_max: u32,
}

impl CollectionParameters {
    /// Returns the number of blocks that are always open, free or being collected, so that they are not
    /// over-provisioning: an open block per group for the host and for copies, and the blocks kept free.
    pub fn min_free_blocks(&self, geometry: &Geometry, mechanisms: &Mechanisms) -> u32 {
        let free = match mechanisms.pacing {
            Pacing::Paced | Pacing::Ratio { .. } => self.low_water,
            Pacing::Bursty { high_water } => high_water.max(self.low_water),
        };
        // Extent compaction has an open block of its own, and a block that a power cut leaves half written is closed
        // as it is.
        let runs = 2 * u32::from(mechanisms.mapping == MappingScheme::Extent);
        // A power cut can leave, of each stream and group of dies, one block of the cache half written and one half
        // folded. They stay until their data is folded, which takes one more block for each.
        let of_host = mechanisms.streams.count * geometry.groups();
        let cache = mechanisms.slc.map_or(0, |slc| slc.min_free_blocks() + of_host);
        let copies = Self::blocks_for_copies(geometry, mechanisms);
        let open = mechanisms.streams.count + copies;
        geometry.groups() * (free.max(copies + 1) + open + runs) + cache
    }

    /// Returns the number of blocks of a group of dies that only copies are programmed to: one per stream of copies,
    /// and one more if blocks have few rows.
    ///
    /// A power cut tears a row (a program unit on each die) of the program in progress, and another cut while
    /// recovery copies tears one more.
    pub(crate) fn blocks_for_copies(geometry: &Geometry, mechanisms: &Mechanisms) -> u32 {
        mechanisms.streams_of_copies() + Self::blocks_for_few_rows(geometry)
    }

    /// Returns the number of blocks per group of dies that are kept because blocks have few rows.
    pub(crate) fn blocks_for_few_rows(geometry: &Geometry) -> u32 {
        u32::from(rows(geometry) < FEW_ROWS)
    }

    /// Returns true if copies to the last two rows of their block wait for programs of host data, so that recovery
    /// has room after a power cut. If a block has no other rows, copies would always wait.
    pub(crate) fn lets_copies_wait(geometry: &Geometry) -> bool {
        rows(geometry) > 2
    }
}
