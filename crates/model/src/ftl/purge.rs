//! Purge: format and secure erase, and the flash operations that they take.
//!
//! A format (NVMe Format NVM without erase, SES = 0) writes a new, empty map: four bytes for each logical unit
//! are programmed, program unit by program unit on all dies at once (of a map on flash, four for each map page:
//! its directory). The blocks that held data are collected later, when they have no valid unit anyway. A secure
//! erase (SES = 1, ATA Security Erase) also erases every block that was written to before it is answered:
//! `blocks of a die x erase time`, seconds for most drives. The wear of these erases stays.
//!
//! Both shut the drive down first, which completes all work in flight. No command is taken meanwhile.

use ssdlab_nand::{EraseId, Nand, ProgramUnit, Tag};

use super::wrappers::{LATEST, NoHost};
use super::{Ftl, Ssd, kind};
use crate::block_table::BlockState;
use crate::format::FormatError;
use crate::mapping::Mapping;
use crate::media::{Media, Null};
use crate::units::{BlockIndex, ByteLength, DieIndex, Instant, LogicalUnit};

/// Bytes of the map for each logical unit, or of its directory for each map page.
const MAP_ENTRY: ByteLength = ByteLength::new(4);

impl<M: Mapping> Ssd<M, Null> {
    /// Formats the drive: writes a new, empty map. Returns when the host is answered.
    ///
    /// # Errors
    /// Returns an error if the drive is read-only.
    ///
    /// # Panics
    /// Panics if a request is in flight.
    pub fn format(&mut self, at: Instant) -> Result<Instant, FormatError> {
        self.begin_map_anew(at)?;
        self.run_until(LATEST, &mut NoHost);
        Ok(self.now())
    }

    /// Formats the drive, and erases every block that was written to. Returns when the host is answered.
    ///
    /// # Errors
    /// As [`Ssd::format`].
    ///
    /// # Panics
    /// Panics if a request is in flight.
    pub fn secure_erase(&mut self, at: Instant) -> Result<Instant, FormatError> {
        self.begin_map_anew(at)?;
        self.ftl.erase_all(&mut self.nand);
        self.run_until(LATEST, &mut NoHost);
        Ok(self.now())
    }

    fn begin_map_anew(&mut self, at: Instant) -> Result<(), FormatError> {
        if self.ftl.blocks.is_read_only() {
            return Err(FormatError::ReadOnly);
        }
        self.shut_down(at);
        self.ftl.counters.formats += 1;
        self.ftl.forget_data();
        self.ftl.program_new_map(&mut self.nand);
        Ok(())
    }
}

impl<M: Mapping, D: Media> Ftl<M, D> {
    /// Unmaps every logical unit.
    fn forget_data(&mut self) {
        let block_table = self.blocks.table_mut();
        for unit in (0..self.geometry.logical_units()).map(LogicalUnit) {
            if let Some(old) = self.map.clear(unit) {
                block_table.invalidate_unit(self.geometry.block_of(old));
            }
        }
        if let Some(cache) = self.map.cache() {
            cache.clear();
        }
    }

    /// Programs the whole map, in which no unit is mapped, on all dies at once.
    fn program_new_map(&mut self, nand: &mut Nand) {
        let entries = match self.map.cache() {
            Some(cache) => cache.pages(),
            None => self.geometry.logical_units(),
        };
        let units = self.geometry.units_per_program();
        let size = self.geometry.unit_size() * u64::from(units);
        for program in 0..(MAP_ENTRY * u64::from(entries)).covering(size) {
            let die = DieIndex((program % u64::from(self.geometry.dies())) as u32);
            let (unit, program) = (self.unit_on(die), self.timing.program);
            nand.program(Tag(kind::NEW_MAP), ProgramUnit { unit, units, program, after: None });
        }
    }

    /// Erases every block that was written to. None of them has a valid unit.
    fn erase_all(&mut self, nand: &mut Nand) {
        self.placement.reset(&self.geometry);
        self.collector.reset(&self.geometry);
        if let Some(streams) = &mut self.streams {
            streams.reset(&self.geometry);
        }
        if let Some(log) = &mut self.log_blocks {
            log.reset();
        }
        for block in (0..self.geometry.blocks()).map(BlockIndex) {
            let block_table = self.blocks.table_mut();
            match block_table.state(block) {
                BlockState::Free | BlockState::Retired => continue,
                BlockState::Closed | BlockState::Closing => block_table.remove_victim(block),
                BlockState::OpenForHost | BlockState::OpenForCollection | BlockState::Victim => {}
            }
            block_table.set_block(block, BlockState::Victim, 0);
            let erase = self.free_after_erase(nand, block);
            nand.erase(erase, self.timing.erase);
        }
        let erased = self.map.cache().map_or(Vec::new(), |cache| cache.area.reset());
        for group in erased {
            let erase = self.announce_erase_of(nand, group);
            nand.erase(erase, self.timing.erase);
        }
    }

    /// Announces an erase on all dies of a group.
    fn announce_erase_of(&self, nand: &mut Nand, group: u32) -> EraseId {
        let first = group * self.geometry.stripe();
        nand.announce_erase(DieIndex(first)..DieIndex(first + self.geometry.stripe()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bad_blocks::BadBlockParameters;
    use crate::mapping::PageMap;
    use crate::mapping::cached::CachedMap;
    use crate::ssd::tests::small_configuration;
    use crate::units::Nanoseconds;

    /// Fills a drive, writes it at random and shuts it down; returns when that was done.
    fn wear<M: Mapping>(ssd: &mut Ssd<M>) -> Instant {
        let units = ssd.geometry().logical_units();
        let mut at = ssd.write(Instant::START, LogicalUnit(0), units);
        for unit in 0..2 * units {
            at = ssd.write(at, LogicalUnit(unit.wrapping_mul(7919) % units), 1);
        }
        ssd.shut_down(at)
    }

    fn used(changes: &[(&str, &str)]) -> (Ssd, Instant) {
        let mut ssd = Ssd::new(&small_configuration(changes)).expect("a sound drive");
        let at = wear(&mut ssd);
        (ssd, at)
    }

    fn is_empty<M: Mapping>(ssd: &Ssd<M>) -> bool {
        ssd.next_mapped(LogicalUnit(0)).is_none()
    }

    /// Returns how long the dies take to program a map of `entries`, all at once.
    fn time_of_new_map(ssd: &Ssd<impl Mapping>, entries: u32) -> Nanoseconds {
        let geometry = ssd.geometry();
        let units = u64::from(geometry.units_per_program());
        let programs = (MAP_ENTRY * u64::from(entries)).covering(geometry.unit_size() * units);
        ssd.ftl.timing.program * programs.div_ceil(geometry.dies().into())
    }

    #[test]
    fn a_secure_erase_takes_the_erases_of_a_die_and_leaves_the_wear() {
        for unit in ["superblock", "block"] {
            let (mut ssd, at) = used(&[("collection.unit", unit)]);
            let (wear, in_use) = (ssd.wear(), ssd.geometry().blocks() - ssd.free_blocks());
            let end = ssd.secure_erase(at).expect("it can be erased");
            ssd.check_invariants();
            assert!(is_empty(&ssd) && ssd.free_blocks() == ssd.geometry().blocks());
            // Blocks of a group are on the same dies, and those of one may be in use more than of another.
            let a_die = in_use.div_ceil(ssd.geometry().groups());
            let least = ssd.ftl.timing.erase * u64::from(a_die);
            let map = time_of_new_map(&ssd, ssd.geometry().logical_units());
            let most = least + ssd.ftl.timing.erase * 3 + map * 2;
            let took = end.since(at);
            assert!(took >= least + map && took <= most, "{unit}: {took}, {least} to {most}");
            let more = ssd.wear().erases_mean - wear.erases_mean;
            let expected = f64::from(in_use) / f64::from(ssd.geometry().blocks());
            assert!((more - expected).abs() < 1e-9, "{more}, {expected}: one for each in use");
            let units = ssd.geometry().logical_units();
            let (before, written) = (ssd.counters(), ssd.write(end, LogicalUnit(0), units));
            ssd.flush(written);
            ssd.check_invariants();
            assert_eq!(ssd.counters().since(&before).program_units_collection, 0, "as new");
        }
    }

    #[test]
    fn a_format_forgets_the_data_at_once_and_leaves_the_erases_for_later() {
        let (mut ssd, at) = used(&[]);
        let before = ssd.counters();
        let end = ssd.format(at).expect("it can be formatted");
        ssd.check_invariants();
        assert!(is_empty(&ssd) && ssd.counters().since(&before).erases == 0);
        // The data of the first programs has to cross the channels.
        let map = time_of_new_map(&ssd, ssd.geometry().logical_units());
        let took = end.since(at);
        assert!(took > map && took < map + map / 2, "{took}, {map}");
        let units = ssd.geometry().logical_units();
        let written = ssd.write(end, LogicalUnit(0), units);
        ssd.flush(written);
        ssd.check_invariants();
        let since = ssd.counters().since(&before);
        assert!(since.erases > 0 && since.program_units_collection == 0, "empty blocks");
    }

    #[test]
    fn streams_a_map_on_flash_and_a_cache_begin_anew() {
        let streams = [
            ("controller.power_loss_protection", "on"),
            ("streams.count", "2"),
            ("streams.hot_within", "0.1"),
            ("streams.hot_blocks", "0.3"),
        ];
        let slc = [
            ("slc.size", "9M"),
            ("slc.bits", "3"),
            ("slc.program", "200us"),
            ("slc.page_read", "25us"),
            ("capacity.physical", "192M"),
        ];
        for changes in [&streams[..], &slc] {
            let (mut ssd, at) = used(changes);
            let new = Ssd::<PageMap>::new(&small_configuration(changes)).expect("a sound drive");
            ssd.secure_erase(at).expect("it can be erased");
            ssd.check_invariants();
            assert!(is_empty(&ssd) && ssd.slc_blocks() == 0);
            assert_eq!(ssd.unused_flash(), new.unused_flash());
        }
        let cached = [
            ("mapping.scheme", "cached"),
            ("mapping.cache", "16K"),
            ("collection.metadata_units", "16"),
        ];
        let mut ssd: Ssd<CachedMap> =
            Ssd::with_cached_map(&small_configuration(&cached)).expect("a sound drive");
        let at = wear(&mut ssd);
        let mut formatted = ssd.clone();
        let end = formatted.format(at).expect("it can be formatted");
        // Its directory is one program unit.
        assert!(end.since(at) < ssd.ftl.timing.program * 2, "{}", end.since(at));
        let erased = ssd.secure_erase(at).expect("it can be erased");
        assert!(erased.since(at) > ssd.ftl.timing.erase * 2, "{}", erased.since(at));
        for mut ssd in [formatted, ssd] {
            ssd.check_invariants();
            assert!(is_empty(&ssd));
            let reads = ssd.counters().map_page_reads;
            let now = ssd.now();
            ssd.read(now, LogicalUnit(7), 1);
            assert_eq!(ssd.counters().map_page_reads, reads, "no map page lies anywhere");
            wear(&mut ssd);
            ssd.check_invariants();
        }
    }

    #[test]
    fn a_drive_at_the_end_of_its_life_is_not_purged() {
        let mut configuration = small_configuration(&[]);
        configuration.mechanisms.wear.bad_blocks = Some(BadBlockParameters {
            life: 1,
            shape: 1.0,
            reserve: 0,
            retire_most: 0.0,
            threshold: 10,
        });
        let mut ssd = Ssd::new(&configuration).expect("a sound drive");
        let at = wear(&mut ssd);
        assert!(ssd.is_read_only());
        assert_eq!(ssd.format(at), Err(FormatError::ReadOnly));
        assert_eq!(ssd.secure_erase(at), Err(FormatError::ReadOnly));
        assert!(!is_empty(&ssd), "nothing is lost");
    }
}
