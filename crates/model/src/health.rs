//! How worn a drive is, in the words of the NVMe SMART / Health log, and how long it will last.

use serde::{Deserialize, Serialize};

use crate::counters::{Counters, Wear};
use crate::ssd::Configuration;
use crate::units::ByteLength;

/// What wears a drive out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WearParameters {
    /// Program and erase cycles that its flash is rated for; nothing where no limit is known.
    pub pe_cycles: Option<u32>,
}

/// Fields of the SMART / Health information log (NVM Express Base Specification, log page 02h) that
/// follow from what was written, with what is left of a drive's life.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Health {
    /// What the host has written, in thousands of 512 bytes, rounded up.
    pub data_units_written: u64,
    /// What it has read, in the same.
    pub data_units_read: u64,
    /// Mean erases of a block as a share of the rated cycles; above 100 when they are exceeded,
    /// and 255 at most.
    pub percentage_used: u8,
    /// What the host can still write until then, if write amplification stays what it was over
    /// the drive's life; nothing before the first write.
    pub remaining_life: Option<ByteLength>,
}

/// Bytes in the log's data unit.
const DATA_UNIT: ByteLength = ByteLength::new(512 * 1000);

impl Configuration {
    /// The health of a drive of this configuration; nothing where no limit of its flash is known.
    pub fn health(&self, counters: &Counters, wear: &Wear) -> Option<Health> {
        let rated = f64::from(self.mechanisms.wear.pe_cycles?);
        let unit = self.geometry.unit_size();
        let left = (1.0 - wear.erases_mean / rated).max(0.0) * rated;
        let flash = (unit * u64::from(self.geometry.physical_units())).bytes() as f64;
        let remaining = |amplification: f64| ByteLength::new((left * flash / amplification) as u64);
        Some(Health {
            data_units_written: counters.host_written(unit).covering(DATA_UNIT),
            data_units_read: (unit * counters.host_read_units).covering(DATA_UNIT),
            percentage_used: (wear.erases_mean / rated * 100.0).min(255.0) as u8,
            remaining_life: counters.write_amplification_of_bytes(unit).map(remaining),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ssd::tests::small_configuration;

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
        let health = configuration.health(&counters, &wear).expect("a limit is known");
        assert_eq!(health.percentage_used, 25);
        assert_eq!(health.data_units_written, (unit * 1000).bytes().div_ceil(512_000));
        let flash = unit * u64::from(configuration.geometry.physical_units());
        let expected = ByteLength::new(flash.bytes() * 2250 / 4);
        assert_eq!(health.remaining_life, Some(expected));
    }

    #[test]
    fn a_drive_past_its_limit_has_no_life_left_and_one_without_a_limit_no_health() {
        let configuration = small_configuration(&[("wear.pe_cycles", "100")]);
        let counters =
            Counters { host_write_units: 1, program_units_host: 1, ..Counters::default() };
        let wear = Wear { erases_min: 0, erases_mean: 900.0, erases_max: 900 };
        let health = configuration.health(&counters, &wear).expect("a limit is known");
        assert_eq!((health.percentage_used, health.remaining_life), (255, Some(ByteLength::ZERO)));
        assert_eq!(small_configuration(&[]).health(&counters, &wear), None);
    }
}
