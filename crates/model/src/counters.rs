//! What a drive has done since it was made: the figures that explain its speed.

use serde::{Deserialize, Serialize};

/// Counters of a simulated drive. Units are mapping units (4 KiB unless the profile says
/// otherwise); flash pages and erases are counted as the flash sees them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters {
    /// Requests of any kind that the host has sent.
    pub requests: u64,
    /// Units the host has read.
    pub host_read_units: u64,
    /// Units the host has written.
    pub host_write_units: u64,
    /// Units the host has trimmed, mapped or not.
    pub host_trim_units: u64,
    /// Flush commands.
    pub flushes: u64,
    /// Units programmed because the host wrote them.
    pub program_units_host: u64,
    /// Units programmed because collection moved them.
    pub program_units_collection: u64,
    /// Units programmed empty, to complete a program unit for a flush.
    pub program_units_padding: u64,
    /// Program operations on a die (one per program unit).
    pub programs: u64,
    /// Flash pages read for the host, read-ahead included.
    pub flash_page_reads_host: u64,
    /// Flash pages read by collection.
    pub flash_page_reads_collection: u64,
    /// Units read that were answered from the write buffer.
    pub buffer_hit_units: u64,
    /// Units read that read-ahead had already fetched.
    pub read_ahead_hit_units: u64,
    /// Units read that were not mapped, so that no flash was read.
    pub unmapped_read_units: u64,
    /// Collection units (superblocks or blocks) erased.
    pub erases: u64,
    /// Collection units chosen as victims.
    pub collections: u64,
}

impl Counters {
    /// Units programmed for any reason.
    pub fn flash_write_units(&self) -> u64 {
        self.program_units_host + self.program_units_collection + self.program_units_padding
    }

    /// Flash programs per host write; `None` before the first host write.
    pub fn write_amplification(&self) -> Option<f64> {
        (self.host_write_units > 0)
            .then(|| self.flash_write_units() as f64 / self.host_write_units as f64)
    }

    /// What was counted since `earlier`, a previous state of the same drive.
    ///
    /// # Panics
    /// When `earlier` counts more than `self` does: it is not an earlier state.
    pub fn since(&self, earlier: &Counters) -> Counters {
        let minus = |now: u64, then: u64| {
            now.checked_sub(then).expect("counters are compared with an earlier state")
        };
        Counters {
            requests: minus(self.requests, earlier.requests),
            host_read_units: minus(self.host_read_units, earlier.host_read_units),
            host_write_units: minus(self.host_write_units, earlier.host_write_units),
            host_trim_units: minus(self.host_trim_units, earlier.host_trim_units),
            flushes: minus(self.flushes, earlier.flushes),
            program_units_host: minus(self.program_units_host, earlier.program_units_host),
            program_units_collection: minus(
                self.program_units_collection,
                earlier.program_units_collection,
            ),
            program_units_padding: minus(self.program_units_padding, earlier.program_units_padding),
            programs: minus(self.programs, earlier.programs),
            flash_page_reads_host: minus(self.flash_page_reads_host, earlier.flash_page_reads_host),
            flash_page_reads_collection: minus(
                self.flash_page_reads_collection,
                earlier.flash_page_reads_collection,
            ),
            buffer_hit_units: minus(self.buffer_hit_units, earlier.buffer_hit_units),
            read_ahead_hit_units: minus(self.read_ahead_hit_units, earlier.read_ahead_hit_units),
            unmapped_read_units: minus(self.unmapped_read_units, earlier.unmapped_read_units),
            erases: minus(self.erases, earlier.erases),
            collections: minus(self.collections, earlier.collections),
        }
    }
}

/// How worn the flash is: erases per collection unit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Wear {
    /// Erases of the least worn collection unit.
    pub erases_min: u32,
    /// Mean number of erases over all collection units.
    pub erases_mean: f64,
    /// Erases of the most worn collection unit.
    pub erases_max: u32,
}
