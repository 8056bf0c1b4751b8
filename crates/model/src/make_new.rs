//! Making a drive as new without replacing it: format and secure erase, and how long they take.
//!
//! A format (NVMe Format NVM without erase, SES = 0) begins the map anew: four bytes for each logical
//! unit are programmed, program unit by program unit on all dies at once, and the blocks that held
//! data are collected later, when they are empty anyway. A secure erase (SES = 1, ATA Security
//! Erase) also erases every block that was written to, all dies at a time, before it is answered:
//! `blocks of a die x erase time`, seconds for most drives. The wear of that stays.
//!
//! Both wait for what is under way, as after a flush. No command is taken meanwhile.

use crate::flash::BlockState;
use crate::mapping::Mapping;
use crate::media::Null;
use crate::ssd::Ssd;
use crate::units::{BlockIndex, Instant, LogicalUnit, Nanoseconds};

/// Bytes of the map for each logical unit.
const MAP_ENTRY: u64 = 4;

/// Why a drive cannot be formatted or erased.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FormatError {
    /// A mechanism whose state the model does not begin anew.
    #[error("a drive with {what} cannot be formatted or erased, only trimmed")]
    Unsupported {
        /// The mechanism.
        what: &'static str,
    },
    /// It refuses whatever would change it.
    #[error("the drive has reached its end of life and is read-only")]
    ReadOnly,
}

impl<M: Mapping> Ssd<M, Null> {
    /// Begins the map anew; returns when the host is told so.
    ///
    /// # Errors
    /// When the drive is read-only, or has its map on flash or several write streams.
    pub fn format(&mut self, at: Instant) -> Result<Instant, FormatError> {
        if self.is_read_only() {
            return Err(FormatError::ReadOnly);
        }
        if self.map.cache().is_some() {
            return Err(FormatError::Unsupported { what: "a map on flash" });
        }
        if self.streams.is_some() {
            return Err(FormatError::Unsupported { what: "several write streams" });
        }
        let quiet = self.shut_down(at);
        for unit in (0..self.geometry.logical_units()).map(LogicalUnit) {
            if let Some(old) = self.map.clear(unit) {
                self.flash.lose_unit(self.geometry.block_of(old));
            }
        }
        self.counters.formats += 1;
        Ok(quiet + self.time_of_new_map())
    }

    /// Begins the map anew and erases every block that was written to; returns when the host is
    /// told so.
    ///
    /// # Errors
    /// As [`Ssd::format`].
    pub fn secure_erase(&mut self, at: Instant) -> Result<Instant, FormatError> {
        let formatted = self.format(at)?;
        self.host = crate::stream::WriteStream::new(&self.geometry);
        self.collector.begin_anew(&self.geometry);
        let mut erased = vec![0u64; self.geometry.groups() as usize];
        for block in (0..self.geometry.blocks()).map(BlockIndex) {
            match self.flash.state(block) {
                BlockState::Free | BlockState::Retired => continue,
                BlockState::Closed | BlockState::Closing => self.flash.remove_victim(block),
                BlockState::OpenForHost | BlockState::OpenForCollection | BlockState::Victim => {}
            }
            erased[self.geometry.group_of(block) as usize] += 1;
            self.flash.take_over(block, BlockState::Victim, 0);
            self.forget_erased(block);
        }
        // Each die of a group erases its part of each of the group's blocks.
        let longest = erased.into_iter().max().unwrap_or(0);
        Ok(formatted + self.timing.erase * longest)
    }

    /// Programming the whole map, on all dies at once.
    fn time_of_new_map(&self) -> Nanoseconds {
        let bytes = u64::from(self.geometry.logical_units()) * MAP_ENTRY;
        let program_unit = self.geometry.unit_size() * u64::from(self.geometry.units_per_program());
        let programs = bytes.div_ceil(program_unit.bytes());
        self.timing.program * programs.div_ceil(self.geometry.dies().into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ssd::tests::small_configuration;

    /// A drive that was filled, written at random and shut down, and when that was done.
    fn used(changes: &[(&str, &str)]) -> (Ssd, Instant) {
        let mut ssd = Ssd::new(&small_configuration(changes)).expect("a sound drive");
        let units = ssd.geometry().logical_units();
        let mut at = ssd.write(Instant::START, LogicalUnit(0), units);
        for unit in 0..2 * units {
            at = ssd.write(at, LogicalUnit(unit.wrapping_mul(7919) % units), 1);
        }
        let at = ssd.shut_down(at);
        (ssd, at)
    }

    fn mapped(ssd: &Ssd) -> usize {
        let units = (0..ssd.geometry().logical_units()).map(LogicalUnit);
        units.filter(|&unit| ssd.map.get(unit).is_some()).count()
    }

    #[test]
    fn a_secure_erase_takes_the_erases_of_a_die_and_leaves_the_wear() {
        for unit in ["superblock", "block"] {
            let (mut ssd, at) = used(&[("collection.unit", unit)]);
            let (wear, in_use) = (ssd.wear(), ssd.geometry().blocks() - ssd.free.len());
            let end = ssd.secure_erase(at).expect("it can be erased");
            ssd.check_invariants();
            assert_eq!((mapped(&ssd), ssd.free.len()), (0, ssd.geometry().blocks()));
            let a_die = in_use.div_ceil(ssd.geometry().groups());
            let least = ssd.timing.erase * u64::from(a_die) + ssd.time_of_new_map();
            let most = least + ssd.timing.erase * 3;
            let took = end.since(at);
            assert!(took >= least && took <= most, "{unit}: {took}, {least} to {most}");
            let more = ssd.wear().erases_mean - wear.erases_mean;
            let expected = f64::from(in_use) / f64::from(ssd.geometry().blocks());
            assert!((more - expected).abs() < 0.1, "{more}, {expected}: one for each in use");
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
        assert_eq!((mapped(&ssd), ssd.counters().since(&before).erases), (0, 0));
        assert_eq!(end.since(at), ssd.time_of_new_map());
        let units = ssd.geometry().logical_units();
        let written = ssd.write(end, LogicalUnit(0), units);
        ssd.flush(written);
        ssd.check_invariants();
        let since = ssd.counters().since(&before);
        assert!(since.erases > 0 && since.program_units_collection == 0, "empty blocks");
    }

    #[test]
    fn what_has_no_rule_is_refused() {
        let streams = [
            ("controller.power_loss_protection", "on"),
            ("streams.count", "2"),
            ("streams.hot_within", "0.1"),
        ];
        let mut ssd = Ssd::new(&small_configuration(&streams)).expect("a sound drive");
        let error = ssd.format(Instant::START).expect_err("streams").to_string();
        assert!(error.contains("several write streams"), "{error}");
    }
}
