//! Division of write buffer waits by the work that occupied the dies meanwhile.

use super::Delays;
use crate::counters::Counters;
use crate::units::Nanoseconds;

/// Recent work of the dies, in parts of 2^16 of the time that was not reads for the host.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Shares {
    collection: u64,
    merge: u64,
    map: u64,
    /// Counters when the shares were last updated.
    seen: Counters,
}

impl Shares {
    /// Returns zero shares for a drive that has counted `counters` before.
    pub(super) fn after(counters: &Counters) -> Shares {
        Shares { seen: *counters, ..Shares::default() }
    }
}

/// Durations of the flash work that counters count.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FlashTimes {
    /// Sensing a page, programming a program unit, and erasing on one die.
    pub(crate) page_read: Nanoseconds,
    pub(crate) program: Nanoseconds,
    pub(crate) erase: Nanoseconds,
    /// Programming a page of metadata.
    pub(crate) metadata: Nanoseconds,
    /// Programming a program unit in SLC mode, and the number of units in it.
    pub(crate) slc: Option<(Nanoseconds, u32)>,
    /// Units of a program unit, and dies of a collection unit.
    pub(crate) units_per_program: u32,
    pub(crate) stripe: u32,
}

/// Returns the nanoseconds that the dies spent on the work in `counters`, by cause: host programs, garbage
/// collection, merges, and the map with other metadata.
fn time_on_dies(counters: &Counters, times: &FlashTimes) -> [u64; 4] {
    let FlashTimes { page_read, program, erase, metadata, slc, units_per_program, stripe } = times;
    let programs = |units: u64| program.nanos() * units.div_ceil(u64::from(*units_per_program));
    let reads = |pages: u64| page_read.nanos() * pages;
    let erases = erase.nanos() * counters.erases * u64::from(*stripe);
    // Units programmed in SLC mode are among the host's.
    let (in_slc, slc_time) = match slc {
        Some((program, units)) => {
            let in_slc = counters.program_units_slc;
            (in_slc, program.nanos() * in_slc.div_ceil(u64::from(*units)))
        }
        None => (0, 0),
    };
    let host = counters.program_units_host + counters.program_units_padding;
    [
        programs(host.saturating_sub(in_slc)) + slc_time,
        programs(counters.program_units_collection)
            + reads(counters.flash_reads_collection)
            + erases,
        programs(counters.program_units_condensing + counters.program_units_merge)
            + reads(counters.flash_page_reads_merge + counters.flash_reads_condensing),
        programs(counters.program_units_map)
            + reads(counters.map_page_reads)
            + metadata.nanos() * counters.metadata_pages(),
    ]
}

impl Delays {
    /// Divides the time that writes waited for buffer space by the latest shares, then updates the shares.
    #[inline(never)]
    pub(crate) fn divide_buffer_waits(&mut self, counters: &Counters, times: &FlashTimes) {
        self.add_buffer_waits();
        let lately = counters.since(&self.shares.seen);
        let [host, collection, merge, map] = time_on_dies(&lately, times);
        let total = host + collection + merge + map;
        if total > 0 {
            let share = |time: u64| ((u128::from(time) << 16) / u128::from(total)) as u64;
            self.shares = Shares {
                collection: share(collection),
                merge: share(merge),
                map: share(map),
                seen: *counters,
            };
        }
    }

    pub(super) fn add_buffer_waits(&mut self) {
        let waited = std::mem::take(&mut self.buffer_wait);
        let part_of = |share: u64| {
            Nanoseconds::new(((u128::from(waited.nanos()) * u128::from(share)) >> 16) as u64)
        };
        let Shares { collection, merge, map, .. } = self.shares;
        let (collection, merge, map) = (part_of(collection), part_of(merge), part_of(map));
        let parts = &mut self.writes.parts;
        parts.collection += collection;
        parts.merge += merge;
        parts.map_miss += map;
        parts.program += waited - collection - merge - map;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dies_are_busy_for_as_long_as_their_operations_take() {
        let us = Nanoseconds::from_micros;
        let times = FlashTimes {
            page_read: us(50),
            program: us(1000),
            erase: us(3000),
            metadata: us(300),
            slc: Some((us(200), 8)),
            units_per_program: 24,
            stripe: 4,
        };
        let counters = Counters {
            // 80 of 320 units are in SLC mode: ten programs in SLC mode and ten others.
            program_units_host: 310,
            program_units_padding: 10,
            program_units_slc: 80,
            program_units_collection: 240,
            // Two planes are sensed together.
            flash_page_reads_collection: 60,
            flash_reads_collection: 30,
            erases: 1,
            program_units_merge: 24,
            flash_page_reads_merge: 2,
            program_units_map: 24,
            map_page_reads: 4,
            journal_pages: 2,
            checkpoint_pages: 3,
            trim_pages: 1,
            ..Counters::default()
        };
        let expected = [
            10 * 1000 + 10 * 200,
            10 * 1000 + 30 * 50 + 4 * 3000,
            1000 + 2 * 50,
            1000 + 4 * 50 + 6 * 300,
        ];
        assert_eq!(time_on_dies(&counters, &times), expected.map(|it| it * 1000));
    }
}
