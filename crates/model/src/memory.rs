//! Host memory that a simulated drive takes.
//!
//! Two tables dominate: the map, with an entry for each logical unit, and the reverse map, with an entry for each
//! physical unit. Both take memory only for the entries that were touched. All other tables are by block, and small.

use crate::ssd::Configuration;
use crate::units::ByteLength;

/// Bytes of an entry of the map or of the reverse map.
const ENTRY: u64 = 4;

/// Bytes per block: state, erases, links of victims, stream, age.
const PER_BLOCK: u64 = 48;

/// Bytes for each number of valid units that a block may have: a list of victims.
const PER_COUNT: u64 = 16;

/// Memory that does not depend on the size of the drive: buffers, queues, counters.
const OTHER_MEMORY: ByteLength = ByteLength::new(1 << 18);

impl Configuration {
    /// Returns the memory that the drive takes once its first `area` bytes were written, with `written` bytes in all.
    /// Values above the size of the drive count as its size.
    pub fn memory(&self, area: ByteLength, written: ByteLength) -> ByteLength {
        let geometry = &self.geometry;
        let touched = |bytes: ByteLength, all: u32| {
            bytes.covering(geometry.unit_size()).min(u64::from(all)) * ENTRY
        };
        let map = touched(area, geometry.logical_units());
        let reverse = touched(written, geometry.physical_units());
        let blocks = u64::from(geometry.blocks()) * PER_BLOCK;
        let counts = u64::from(geometry.units_per_block()) * PER_COUNT;
        OTHER_MEMORY + ByteLength::new(map + reverse + blocks + counts)
    }

    /// Returns the memory that the drive takes once all of it was written.
    pub fn memory_when_full(&self) -> ByteLength {
        let all = ByteLength::new(u64::MAX);
        self.memory(all, all)
    }
}
