//! State of the flash and of garbage collection, for observers of a drive.

use super::{Ftl, Ssd};
use crate::bad_blocks::SpareBlocks;
use crate::mapping::Mapping;
use crate::media::Media;
use crate::units::{BlockIndex, ByteLength, LogicalUnit, Nanoseconds, Sector};

impl<M: Mapping, D: Media> Ssd<M, D> {
    /// Returns the number of closed blocks (collection units) that hold 0, 1, 2 .. valid units. Blocks whose
    /// victims are chosen apart from others (those of the SLC cache or of a hot stream) are left out.
    pub fn blocks_by_valid_units(&self) -> Vec<u32> {
        let block_table = self.ftl.blocks.table();
        let mut blocks = vec![0; self.ftl.geometry.units_per_block() as usize + 1];
        for block in block_table.victims().blocks() {
            blocks[block_table.valid(BlockIndex(block)) as usize] += 1;
        }
        blocks
    }

    /// Returns the number of free blocks: those that are erased, or will be when their dies find time.
    pub fn free_blocks(&self) -> u32 {
        self.ftl.blocks.free()
    }

    /// Returns the size of the erased flash beyond the blocks that collection keeps free.
    ///
    /// A drive collects once its free blocks run short, and from then on keeps about as many as it has. Flash
    /// that is free beyond that was never written, or not since all flash was erased. Until the host has filled
    /// it, write amplification is 1 however little over-provisioning there is: the drive is far from a steady
    /// state, and looks steady.
    pub fn unused_flash(&self) -> ByteLength {
        let Ftl { blocks, collector, geometry, slc, log_blocks, .. } = &self.ftl;
        let cache = slc.as_ref().map_or(0, |slc| slc.reserved());
        let unused = match log_blocks {
            // Merges of log blocks free a block for each one they take, so that as many stay free as the data
            // leaves.
            Some(_) => blocks.pool().never_used(),
            None => blocks.free().saturating_sub(collector.free_blocks_target() + cache),
        };
        geometry.unit_size() * (u64::from(unused) * u64::from(geometry.units_per_block()))
    }

    /// Returns the number of superblocks in SLC mode.
    pub fn slc_blocks(&self) -> u32 {
        self.ftl.slc.as_ref().map_or(0, |slc| slc.in_use())
    }

    /// Returns the blocks left to replace bad ones; `None` if no block of this drive goes bad.
    pub fn spare_blocks(&self) -> Option<SpareBlocks> {
        self.ftl.blocks.spare()
    }

    /// Returns true if the drive has come to the end of its life and refuses writes.
    pub fn is_read_only(&self) -> bool {
        self.ftl.blocks.is_read_only()
    }

    /// Stores the drive for `duration` without power, at `now` by its own clock: its data ages, and reads after
    /// a trim find no old data any more. Returns true if data of this drive ages at all.
    ///
    /// # Panics
    /// Panics if the drive has existed for five hundred years.
    pub fn store(&mut self, now: Nanoseconds, duration: Nanoseconds) -> bool {
        let Ftl { deferred_trims, retention, blocks, .. } = &mut self.ftl;
        if let Some(deferred) = deferred_trims {
            deferred.clear();
        }
        let Some(retention) = retention else { return false };
        retention.store(now, duration, |block| blocks.table().erases(block));
        true
    }

    /// Prefetches into the CPU cache the map entry of a sector that will be requested some requests from now;
    /// see [`Ssd::prefetch_map`].
    #[inline(always)]
    pub fn prefetch_map_of_sector(&self, sector: Sector) {
        let shift = self.ftl.geometry.sectors_per_unit_shift();
        self.prefetch_map(LogicalUnit((sector.0 >> shift) as u32));
    }

    /// Prefetches what the FTL knows of the block that now holds a sector which will be written soon.
    #[inline(always)]
    pub fn prefetch_target_of_sector(&self, sector: Sector) {
        let shift = self.ftl.geometry.sectors_per_unit_shift();
        self.prefetch_target(LogicalUnit((sector.0 >> shift) as u32));
    }

    /// Prefetches what the FTL knows of the block that now holds a unit which will be written soon. Calling
    /// this about 16 requests ahead, and [`Ssd::prefetch_map`] about 32 ahead, hides the latency of memory;
    /// leaving it out changes nothing but the speed.
    #[inline(always)]
    pub fn prefetch_target(&self, unit: LogicalUnit) {
        let Ftl { map, blocks, geometry, .. } = &self.ftl;
        let block_table = blocks.table();
        if !block_table.fits_cpu_cache()
            && let Some(old) = map.get(unit)
        {
            block_table.prefetch_block(geometry.block_of(old));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ssd::tests::small_configuration;
    use crate::units::Instant;

    #[test]
    fn flash_is_used_up_by_writes_to_one_place_and_is_there_again_after_a_secure_erase() {
        for changes in [&[][..], &[("collection.policy", "fifo")], &[("collection.unit", "block")]]
        {
            let mut ssd = Ssd::new(&small_configuration(changes)).expect("a sound drive");
            let block = ssd.geometry().unit_size() * u64::from(ssd.geometry().units_per_block());
            let all = block * u64::from(ssd.geometry().blocks());
            let new = ssd.unused_flash();
            assert!(new < all && new > all - block * 64, "{changes:?}: {new} of {all}");
            let mut at = Instant::START;
            // A fiftieth of the drive, written over and over: nothing is copied, and nothing is steady
            // until the last erased block was taken.
            let part = ssd.geometry().logical_units() / 50;
            let (mut written, units) = (0, ssd.geometry().physical_units());
            while written < units {
                at = ssd.write(at, LogicalUnit(0), part);
                written += part;
                let erases = ssd.counters().erases;
                let unused = ssd.unused_flash();
                assert!(
                    erases == 0 || unused == ByteLength::ZERO,
                    "{changes:?}: {unused}, {erases}"
                );
            }
            assert_eq!(ssd.unused_flash(), ByteLength::ZERO, "{changes:?}");
            ssd.secure_erase(at).expect("it can be erased");
            assert_eq!(ssd.unused_flash(), new, "{changes:?}: erased, it is as new");
        }
    }

    #[test]
    fn data_is_as_old_as_the_drive_was_stored() {
        let old = [
            ("retention.retry", "70us"),
            ("retention.free_for", "10d"),
            ("retention.steps", "3"),
            ("retention.worn_steps", "20"),
            ("wear.pe_cycles", "2000"),
        ];
        let day = Nanoseconds::from_secs(24 * 3600);
        let mut ssd = Ssd::new(&small_configuration(&old)).expect("a sound drive");
        let units = ssd.geometry().logical_units();
        let mut at = ssd.write(Instant::START, LogicalUnit(0), units);
        let mut read_after = |days: u64| {
            at = ssd.shut_down(at);
            assert!(ssd.store(Nanoseconds::new(at.nanos()), day * days), "its data ages");
            let sent = at;
            at = ssd.read(at, LogicalUnit(7), 1);
            at.since(sent).nanos() / 1000
        };
        let fresh = read_after(0);
        assert_eq!(read_after(9), fresh);
        assert_eq!(read_after(356), fresh + 3 * 70, "three steps after a year");
        let mut young = Ssd::new(&small_configuration(&[])).expect("a sound drive");
        assert!(!young.store(Nanoseconds::ZERO, day), "nothing ages here");
    }
}
