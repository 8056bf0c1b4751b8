//! Drive health in the terms of the NVMe SMART / Health log, and remaining life.

use serde::{Deserialize, Serialize};

use crate::bad_blocks::{BadBlockParameters, SpareBlocks};
use crate::counters::{Counters, Wear};
use crate::ssd::Configuration;
use crate::units::{ByteLength, Nanoseconds};
use crate::wear_levelling::LevellingParameters;

/// Parameters of wear.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct WearParameters {
    /// Rated program and erase cycles of the flash; `None` if no limit is known.
    pub pe_cycles: Option<u32>,
    /// Wear levelling.
    pub levelling: LevellingParameters,
    /// Bad blocks; `None` if no block goes bad.
    pub bad_blocks: Option<BadBlockParameters>,
}

/// Fields of the SMART / Health information log (NVM Express Base Specification, log page 02h) that the model knows,
/// and the remaining life of the drive. Temperatures, power cycles and media errors are not modelled, so they are not
/// here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Health {
    /// Bit 0: the spare is below its threshold. Bit 3: the drive is read-only. Other bits are not modelled.
    pub critical_warning: u8,
    /// Blocks that can still replace bad ones, in percent of the initial number; `None` if no block goes bad.
    pub available_spare: Option<u8>,
    /// Percentage of available spare below which the drive warns.
    pub available_spare_threshold: Option<u8>,
    /// Mean erases of a block as a percentage of the rated cycles; above 100 when they are exceeded, and 255 at most.
    /// `None` if no limit of the flash is known.
    pub percentage_used: Option<u8>,
    /// Data that the host has read, in thousands of 512 bytes, rounded up.
    pub data_units_read: u64,
    /// Data that the host has written, in the same unit.
    pub data_units_written: u64,
    /// Read commands.
    pub host_read_commands: u64,
    /// Write commands, refused ones included.
    pub host_write_commands: u64,
    /// Minutes in which at least one request was in flight.
    pub controller_busy_time: u64,
    /// Hours since the drive was made or opened, idle time included.
    pub power_on_hours: u64,
    /// Number of times that power was lost without warning.
    pub unsafe_shutdowns: u64,
    /// Number of commands answered with an error: writes after the end of life.
    pub num_err_log_entries: u64,
    /// Data that the host can still write until the rated cycles are used up, if write amplification stays what it
    /// was over the drive's life; `None` before the first write, or if no limit is known.
    pub remaining_life: Option<ByteLength>,
}

/// History of a drive, from which its health follows.
#[derive(Clone, Copy, Debug, Default)]
pub struct Service {
    /// Counters of the drive.
    pub counters: Counters,
    /// Wear of the flash.
    pub wear: Wear,
    /// Spare blocks that are left; `None` if no block goes bad.
    pub spare: Option<SpareBlocks>,
    /// Time in which at least one request was in flight.
    pub busy: Nanoseconds,
    /// Time since the drive was made or opened.
    pub powered_on: Nanoseconds,
}

/// Length of the log's data unit.
const DATA_UNIT: ByteLength = ByteLength::new(512 * 1000);

impl Configuration {
    /// Returns the health of a drive of this configuration.
    pub fn health(&self, service: &Service) -> Health {
        let Service { counters, wear, spare, busy, powered_on } = service;
        let unit = self.geometry.unit_size();
        let rated = self.mechanisms.wear.pe_cycles.map(f64::from);
        let is_short = spare.is_some_and(|it| it.percent() < it.threshold);
        let is_read_only = spare.is_some_and(|it| it.read_only);
        let minutes = |time: &Nanoseconds| (time.seconds() / 60.0) as u64;
        Health {
            critical_warning: u8::from(is_short) | u8::from(is_read_only) << 3,
            available_spare: spare.map(|it| it.percent()),
            available_spare_threshold: spare.map(|it| it.threshold),
            percentage_used: rated.map(|rated| (wear.erases_mean / rated * 100.0).min(255.0) as u8),
            data_units_read: (unit * counters.host_read_units).covering(DATA_UNIT),
            data_units_written: counters.host_written(unit).covering(DATA_UNIT),
            host_read_commands: counters.host_read_commands,
            host_write_commands: counters.host_write_commands,
            controller_busy_time: minutes(busy),
            power_on_hours: minutes(powered_on) / 60,
            unsafe_shutdowns: counters.unsafe_shutdowns,
            num_err_log_entries: counters.refused_writes,
            remaining_life: rated.and_then(|rated| self.remaining_life(rated, counters, wear)),
        }
    }

    fn remaining_life(&self, rated: f64, counters: &Counters, wear: &Wear) -> Option<ByteLength> {
        let unit = self.geometry.unit_size();
        let left = (1.0 - wear.erases_mean / rated).max(0.0) * rated;
        let flash = (unit * u64::from(self.geometry.physical_units())).bytes() as f64;
        let written = counters.host_written(unit).bytes() as f64;
        let used = (unit * self.units_worn(counters)).bytes() as f64;
        (written > 0.0).then(|| ByteLength::new((left * flash * written / used) as u64))
    }

    /// Returns the units of flash that wore by one cycle. An erase wears a block whether it holds one bit per cell or
    /// several, so that a unit in SLC mode counts as several.
    fn units_worn(&self, counters: &Counters) -> u64 {
        let more = self.mechanisms.slc.map_or(0, |slc| u64::from(slc.bits - 1));
        counters.flash_write_units() + more * counters.program_units_slc
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ssd::tests::small_configuration;
    use crate::units::{Instant, LogicalUnit};

    #[test]
    fn life_is_what_the_rated_cycles_leave_at_the_measured_write_amplification() {
        let configuration = small_configuration(&[("wear.pe_cycles", "3000")]);
        let unit = configuration.geometry.unit_size();
        let counters = Counters {
            host_write_units: 1000,
            program_units_host: 1000,
            program_units_collection: 3000,
            ..Counters::default()
        };
        let wear = Wear { erases_min: 0, erases_mean: 750.0, erases_max: 800 };
        let health = configuration.health(&Service { counters, wear, ..Service::default() });
        assert_eq!(health.percentage_used, Some(25));
        assert_eq!(health.data_units_written, (unit * 1000).bytes().div_ceil(512_000));
        let flash = unit * u64::from(configuration.geometry.physical_units());
        let expected = ByteLength::new(flash.bytes() * 2250 / 4);
        assert_eq!(health.remaining_life, Some(expected));
    }

    #[test]
    fn a_drive_past_its_limit_has_no_life_left_and_one_without_a_limit_says_nothing_of_it() {
        let configuration = small_configuration(&[("wear.pe_cycles", "100")]);
        let counters =
            Counters { host_write_units: 1, program_units_host: 1, ..Counters::default() };
        let wear = Wear { erases_min: 0, erases_mean: 900.0, erases_max: 900 };
        let service = Service { counters, wear, ..Service::default() };
        let health = configuration.health(&service);
        assert_eq!(
            (health.percentage_used, health.remaining_life),
            (Some(255), Some(ByteLength::ZERO))
        );
        let health = small_configuration(&[]).health(&service);
        assert_eq!((health.percentage_used, health.remaining_life), (None, None));
    }

    #[test]
    fn a_unit_in_slc_mode_wears_as_much_flash_as_it_takes() {
        let slc = [
            ("wear.pe_cycles", "3000"),
            ("slc.size", "9M"),
            ("slc.bits", "3"),
            ("slc.program", "200us"),
            ("slc.page_read", "25us"),
            ("flash.pages_per_block", "36"),
            ("capacity.physical", "192M"),
        ];
        let mut ssd = crate::ftl::Ssd::new(&small_configuration(&slc)).expect("a sound drive");
        let configuration = small_configuration(&slc);
        let (mut at, unit) = (Instant::START, configuration.geometry.unit_size());
        for round in 0..200 {
            // Six megabytes into the cache, which is folded in idle time.
            for first in (0..1536).step_by(64) {
                at = ssd.write(at, LogicalUnit(first + round % 4 * 1536), 64);
            }
            ssd.rest(at, Nanoseconds::from_secs(10));
            at += Nanoseconds::from_secs(10);
        }
        let (counters, wear) = (ssd.counters(), ssd.wear());
        assert_eq!(counters.program_units_slc, counters.host_write_units, "all of it");
        let service = Service { counters, wear, ..Service::default() };
        let left = configuration.health(&service).remaining_life.expect("a rated drive");
        // The remaining erases allow the same data per erase as those so far.
        let written = counters.host_written(unit).bytes() as f64;
        let expected = written * (3000.0 - wear.erases_mean) / wear.erases_mean;
        let ratio = left.bytes() as f64 / expected;
        assert!((0.95..1.05).contains(&ratio), "{ratio}: {counters:?} {wear:?}");
    }

    #[test]
    fn spare_blocks_that_run_short_are_a_critical_warning() {
        let configuration = small_configuration(&[]);
        let warning = |left, read_only| {
            let spare = Some(SpareBlocks { left, at_start: 50, threshold: 10, read_only });
            let health = configuration.health(&Service { spare, ..Service::default() });
            (health.available_spare, health.critical_warning)
        };
        assert_eq!(warning(5, false), (Some(10), 0));
        assert_eq!(warning(4, false), (Some(8), 1));
        assert_eq!(warning(0, true), (Some(0), 1 | 1 << 3));
        assert_eq!(configuration.health(&Service::default()).available_spare, None);
    }
}
