//! Memory that a simulated drive takes.
//!
//! Two tables decide: the map, an entry for each logical unit, and the reverse map, an entry for each
//! physical unit. Both take memory for what was touched. All else is by block, and small.

use crate::ssd::Configuration;
use crate::units::ByteLength;

/// An entry of the map or of the reverse map.
const ENTRY: u64 = 4;

/// What is kept of a block: its state, erases, links among victims, stream, age.
const PER_BLOCK: u64 = 48;

/// What is kept for each number of valid units that a block may have: a list of victims.
const PER_COUNT: u64 = 16;

/// Everything whose size does not follow that of the drive: buffers, queues, counters.
const BESIDES: ByteLength = ByteLength::new(1 << 18);

impl Configuration {
    /// Returns the memory that the drive takes once its first `area` was written, `written` in all. What is
    /// more than the drive holds counts as all of it.
    pub fn memory(&self, area: ByteLength, written: ByteLength) -> ByteLength {
        let geometry = &self.geometry;
        let touched = |bytes: ByteLength, all: u32| {
            bytes.covering(geometry.unit_size()).min(u64::from(all)) * ENTRY
        };
        let map = touched(area, geometry.logical_units());
        let reverse = touched(written, geometry.physical_units());
        let blocks = u64::from(geometry.blocks()) * PER_BLOCK;
        let counts = u64::from(geometry.units_per_block()) * PER_COUNT;
        BESIDES + ByteLength::new(map + reverse + blocks + counts)
    }

    /// Returns the memory that the drive takes once all of it was written.
    pub fn memory_when_full(&self) -> ByteLength {
        let all = ByteLength::new(u64::MAX);
        self.memory(all, all)
    }
}
