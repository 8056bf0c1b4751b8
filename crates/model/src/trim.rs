//! Trim: its cost, the limits of a command, and the data that is read after it.
//!
//! A command holds up to `ranges_most` ranges of up to `range_most` sectors each. While it is carried out it occupies
//! the controller: a time for the command, one for each range, and one for each MiB. (SATA's first TRIM cannot be
//! queued, and firmware walks its map.) The effect of trim on mapping and garbage collection is in `ftl/idle_gc.rs`,
//! and reads that may return the old data are in `deferred_trims.rs`.

use serde::Deserialize;

use crate::units::{MIB, Nanoseconds, SectorCount};

/// Data that sectors read as after a trim, until they are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReadsAfterTrim {
    /// Zeros (ATA: RZAT).
    #[default]
    Zeros,
    /// Ones, as erased flash reads; always the same, so still deterministic (ATA: DRAT).
    Ones,
    /// The old data while its block is not erased, then zeros (ATA: neither bit; NVMe: not reported): a trim only
    /// marks units.
    Undefined,
}

impl ReadsAfterTrim {
    /// Returns the byte that trimmed sectors read as in the end, and that sectors read as that were never written.
    pub fn byte(self) -> u8 {
        match self {
            ReadsAfterTrim::Zeros | ReadsAfterTrim::Undefined => 0,
            ReadsAfterTrim::Ones => 0xff,
        }
    }
}

/// Parameters of trim.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TrimParameters {
    /// Time for which a command occupies the controller.
    pub command: Nanoseconds,
    /// Additional time for each range.
    pub range: Nanoseconds,
    /// Additional time for each MiB.
    pub per_mib: Nanoseconds,
    /// Largest number of ranges in a command; 0 means any number.
    pub ranges_most: u32,
    /// Largest number of sectors in a range; 0 means any number.
    pub range_most: SectorCount,
    /// Data that is read after a trim.
    pub reads_after: ReadsAfterTrim,
    /// Idle time after which the drive carries out deferred trims, if `reads_after` is undefined; zero if it never
    /// does.
    pub settle: Nanoseconds,
}

impl TrimParameters {
    /// Returns the largest number of consecutive sectors that one command trims.
    pub fn command_most(&self) -> SectorCount {
        match (self.ranges_most, self.range_most.0) {
            (0, _) | (_, 0) => SectorCount(u64::MAX),
            (ranges, sectors) => SectorCount(sectors.saturating_mul(ranges.into())),
        }
    }

    /// Returns the number of ranges that `sectors` consecutive sectors take.
    fn ranges(&self, sectors: SectorCount) -> u64 {
        if self.range_most.0 == 0 { 1 } else { sectors.0.div_ceil(self.range_most.0) }
    }

    /// Returns the time for which a command for `sectors` consecutive sectors occupies the controller.
    pub(crate) fn duration(&self, sectors: SectorCount) -> Nanoseconds {
        let size = self.per_mib.nanos() as f64 * sectors.length().bytes() as f64;
        self.command
            + self.range * self.ranges(sectors)
            + Nanoseconds::new((size / MIB.bytes() as f64) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ftl::Ssd;
    use crate::profile::Profile;
    use crate::ssd::tests::small_configuration;
    use crate::units::{Instant, LogicalUnit, Sector};

    fn drive(changes: &[(&str, &str)]) -> Ssd {
        let changes = [&[("capacity.physical", "128M")], changes].concat();
        Ssd::new(&small_configuration(&changes)).expect("a sound drive")
    }

    /// Returns the microseconds that trimming the first `mebibytes` takes, beyond those of any command.
    fn cost(changes: &[(&str, &str)], mebibytes: u64) -> (u64, u64) {
        let mut ssd = drive(changes);
        let at = ssd.write(Instant::START, LogicalUnit(0), 512);
        let plain = drive(&[]).flush(Instant::START).nanos();
        let before = ssd.counters().requests;
        let at = at + Nanoseconds::from_secs(1);
        let end = ssd.trim_by_commands(at, Sector(0), SectorCount::of(MIB * mebibytes));
        ssd.check_invariants();
        let commands = ssd.counters().requests - before;
        ((end.since(at).nanos() - plain * commands) / 1000, commands)
    }

    #[test]
    fn a_trim_costs_by_the_command_the_range_and_the_size() {
        assert_eq!(cost(&[], 32), (0, 1));
        assert_eq!(cost(&[("trim.command", "100us")], 32), (100, 1));
        let sized = [("trim.per_mib", "3us"), ("trim.range", "5us")];
        assert_eq!(cost(&sized, 32), (101, 1));
        let ranges = [("trim.range", "5us"), ("trim.range_most", "8M")];
        assert_eq!(cost(&ranges, 33), (25, 1), "five ranges in one command");
    }

    #[test]
    fn a_host_keeps_to_the_limits_of_a_command() {
        let limits = [
            ("trim.command", "100us"),
            ("trim.range", "5us"),
            ("trim.range_most", "8M"),
            ("trim.ranges_most", "2"),
        ];
        assert_eq!(cost(&limits, 33), (3 * 100 + 5 * 5, 3));
    }

    #[test]
    fn commands_are_cut_between_units_so_that_nothing_of_a_range_stays_mapped() {
        let written = MIB * 32;
        // As with ATA: 65,535 sectors a range, which is no whole number of units.
        for limits in [
            &[("trim.ranges_most", "1"), ("trim.range_most", "33553920")][..],
            &[("trim.ranges_most", "3"), ("trim.range_most", "1536")],
        ] {
            for first in [Sector(0), Sector(3)] {
                let mut ssd = drive(limits);
                let unit = ssd.geometry().unit_size();
                let units = written.whole(unit) as u32;
                let at = ssd.write(Instant::START, LogicalUnit(0), units);
                let count = SectorCount::of(written).0 - first.0;
                ssd.trim_by_commands(at, first, SectorCount(count));
                let is_mapped = |unit| ssd.place_of(LogicalUnit(unit)).is_some();
                let mapped: Vec<u32> = (0..units).filter(|&unit| is_mapped(unit)).collect();
                let kept: &[u32] = if first == Sector(0) { &[] } else { &[0] };
                assert_eq!(mapped, kept, "{limits:?}, from {first:?}");
            }
        }
    }

    #[test]
    fn a_command_that_holds_no_unit_is_refused() {
        let mut profile = Profile::named(crate::profile::DEFAULT).expect("the default profile");
        profile.set("trim.ranges_most", "3").expect("a number");
        profile.set("trim.range_most", "1K").expect("a length");
        let error = profile.check().unwrap_err().to_string();
        assert!(error.contains("trim.ranges_most") && error.contains("unit_size"), "{error}");
    }

    #[test]
    fn commands_wait_for_a_trim() {
        let mut ssd = drive(&[("trim.command", "500us")]);
        let at = Instant::START;
        ssd.trim(at, LogicalUnit(0), 8);
        assert!(ssd.read(at, LogicalUnit(0), 1) > at + Nanoseconds::from_micros(500));
    }
}
