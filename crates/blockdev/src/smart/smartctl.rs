//! JSON of `smartctl --json -x` (smartmontools 7.0 to 7.5); only the fields that are used.

use serde::Deserialize;
use serde_json::Value;

use super::lenient::{Decimal, Lenient, LenientList, LenientObject, Number, object};

/// A report of one drive: ATA, SCSI or NVMe.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Report {
    pub(super) model_name: Lenient<String>,
    pub(super) scsi_model_name: Lenient<String>,
    pub(super) in_smartctl_database: Lenient<bool>,
    pub(super) rotation_rate: Number,
    pub(super) logical_block_size: Number,
    pub(super) smart_status: LenientObject<Status>,
    pub(super) temperature: LenientObject<Temperature>,
    pub(super) power_on_time: LenientObject<PowerOnTime>,
    pub(super) endurance_used: LenientObject<Percent>,
    pub(super) host_writes: LenientObject<Traffic>,
    pub(super) interface_speed: LenientObject<InterfaceSpeed>,
    pub(super) trim: LenientObject<Trim>,

    pub(super) ata_smart_attributes: LenientObject<Table<Attribute>>,
    pub(super) ata_device_statistics: LenientObject<Statistics>,
    pub(super) ata_smart_error_log: LenientObject<Logs<ErrorLog>>,
    pub(super) ata_smart_self_test_log: LenientObject<Logs<Table<AtaSelfTest>>>,
    pub(super) ata_pending_defects_log: LenientObject<Count>,

    pub(super) scsi_grown_defect_list: Number,
    pub(super) scsi_percentage_used_endurance_indicator: Number,
    pub(super) scsi_error_counter_log: LenientObject<ErrorCounters>,
    pub(super) scsi_pending_defects: LenientObject<Count>,
    /// Self-tests, the newest first.
    #[serde(skip)]
    pub(super) scsi_self_tests: Vec<ScsiSelfTest>,

    pub(super) nvme_smart_health_information_log: LenientObject<super::nvme::HealthLog>,
    pub(super) nvme_error_information_log: LenientObject<Table<NvmeError>>,
    pub(super) nvme_self_test_log: LenientObject<Table<NvmeSelfTest>>,
}

/// Largest number of self-tests that a SCSI drive keeps (SPC-5, log page 10h).
const SCSI_SELF_TESTS: usize = 20;

impl Report {
    /// Reads a report. Fields that are missing or of another shape stay empty.
    pub(super) fn read(data: &Value) -> Report {
        let mut report: Report = object(data.clone()).unwrap_or_default();
        // Each test is a separate field, with its number in the name.
        report.scsi_self_tests = (0..SCSI_SELF_TESTS)
            .map_while(|number| data.get(format!("scsi_self_test_{number}")))
            .filter_map(|test| object(test.clone()))
            .collect();
        report
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Status {
    pub(super) passed: Lenient<bool>,
    pub(super) scsi: LenientObject<ScsiStatus>,
}

/// Additional sense that a SCSI drive reports about its health (SPC-5, informational exceptions).
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ScsiStatus {
    pub(super) ie_string: Lenient<String>,
}

/// Temperatures in degrees Celsius.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Temperature {
    pub(super) current: Lenient<i64>,
    pub(super) op_limit_max: Lenient<i64>,
    pub(super) drive_trip: Lenient<i64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct PowerOnTime {
    pub(super) hours: Number,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Percent {
    pub(super) current_percent: Number,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Traffic {
    pub(super) units: Number,
    pub(super) bytes_per_unit: Number,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct InterfaceSpeed {
    pub(super) max: LenientObject<Speed>,
    pub(super) current: LenientObject<Speed>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Speed {
    pub(super) units_per_second: Number,
    pub(super) bits_per_unit: Number,
}

impl Speed {
    /// Returns the speed in bits per second.
    pub(super) fn bits(&self) -> Option<u64> {
        self.units_per_second.0?.checked_mul(self.bits_per_unit.0?)
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Trim {
    pub(super) supported: Lenient<bool>,
    pub(super) deterministic: Lenient<bool>,
    pub(super) zeroed: Lenient<bool>,
}

/// An object with a list in its field `table`.
#[derive(Debug, Deserialize)]
#[serde(default, bound = "T: serde::de::DeserializeOwned")]
pub(super) struct Table<T> {
    pub(super) table: LenientList<T>,
}

impl<T> Default for Table<T> {
    fn default() -> Table<T> {
        Table { table: LenientList::default() }
    }
}

/// A SMART attribute of ATA.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Attribute {
    pub(super) id: Number,
    pub(super) name: Lenient<String>,
    pub(super) value: Number,
    pub(super) thresh: Number,
    pub(super) when_failed: Lenient<String>,
    pub(super) flags: LenientObject<Flags>,
    pub(super) raw: LenientObject<Raw>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Flags {
    pub(super) prefailure: Lenient<bool>,
    pub(super) valid: Lenient<bool>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Raw {
    pub(super) value: Number,
    pub(super) string: Lenient<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Statistics {
    pub(super) pages: LenientList<Table<Statistic>>,
}

/// A row of the ATA device statistics log.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Statistic {
    pub(super) name: Lenient<String>,
    pub(super) value: Number,
    pub(super) flags: LenientObject<Flags>,
}

/// A log that ATA has in two forms; the extended form has more entries.
#[derive(Debug, Default, Deserialize)]
#[serde(default, bound = "T: serde::de::DeserializeOwned + Default")]
pub(super) struct Logs<T: Default> {
    pub(super) summary: LenientObject<T>,
    pub(super) standard: LenientObject<T>,
    pub(super) extended: LenientObject<T>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Count {
    pub(super) count: Number,
}

/// The ATA error log; the newest entry comes first.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ErrorLog {
    pub(super) count: Number,
    pub(super) table: LenientList<AtaError>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct AtaError {
    pub(super) lifetime_hours: Number,
    pub(super) completion_registers: LenientObject<Registers>,
    pub(super) error_description: Lenient<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Registers {
    pub(super) error: Number,
}

/// An ATA self-test. The newest comes first in the log.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct AtaSelfTest {
    #[serde(rename = "type")]
    pub(super) kind: LenientObject<Coded>,
    pub(super) status: LenientObject<Coded>,
    pub(super) lifetime_hours: Number,
}

/// A number with its meaning in words.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Coded {
    pub(super) value: Number,
    pub(super) string: Lenient<String>,
}

/// Error counters of a SCSI drive (SPC-5, log pages 02h, 03h and 05h).
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ErrorCounters {
    pub(super) read: LenientObject<ErrorCounter>,
    pub(super) write: LenientObject<ErrorCounter>,
    pub(super) verify: LenientObject<ErrorCounter>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ErrorCounter {
    /// Units of 10^9 bytes.
    pub(super) gigabytes_processed: Decimal,
    pub(super) total_uncorrected_errors: Number,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ScsiSelfTest {
    pub(super) code: LenientObject<Coded>,
    pub(super) result: LenientObject<Coded>,
    pub(super) power_on_time: LenientObject<PowerOnTime>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct NvmeError {
    pub(super) status_field: LenientObject<NvmeStatus>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct NvmeStatus {
    pub(super) status_code_type: Number,
    pub(super) string: Lenient<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct NvmeSelfTest {
    pub(super) self_test_code: LenientObject<Coded>,
    pub(super) self_test_result: LenientObject<Coded>,
    pub(super) power_on_hours: Number,
}
