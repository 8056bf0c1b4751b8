//! JSON of `smartctl --json -x` (smartmontools 7.0 to 7.5); only the fields that are used.

use serde::Deserialize;
use serde_json::Value;

use super::loose::{Decimal, Number, Part, Rows, Told, object};

/// A report of one drive: ATA, SCSI or NVMe.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Report {
    pub(super) model_name: Told<String>,
    pub(super) scsi_model_name: Told<String>,
    pub(super) in_smartctl_database: Told<bool>,
    pub(super) rotation_rate: Number,
    pub(super) logical_block_size: Number,
    pub(super) smart_status: Part<Status>,
    pub(super) temperature: Part<Temperature>,
    pub(super) power_on_time: Part<PowerOnTime>,
    pub(super) endurance_used: Part<Percent>,
    pub(super) host_writes: Part<Traffic>,
    pub(super) interface_speed: Part<InterfaceSpeed>,
    pub(super) trim: Part<Trim>,

    pub(super) ata_smart_attributes: Part<Table<Attribute>>,
    pub(super) ata_device_statistics: Part<Statistics>,
    pub(super) ata_smart_error_log: Part<Logs<ErrorLog>>,
    pub(super) ata_smart_self_test_log: Part<Logs<Table<AtaSelfTest>>>,
    pub(super) ata_pending_defects_log: Part<Count>,

    pub(super) scsi_grown_defect_list: Number,
    pub(super) scsi_percentage_used_endurance_indicator: Number,
    pub(super) scsi_error_counter_log: Part<ErrorCounters>,
    pub(super) scsi_pending_defects: Part<Count>,
    /// Self-tests, the newest first.
    #[serde(skip)]
    pub(super) scsi_self_tests: Vec<ScsiSelfTest>,

    pub(super) nvme_smart_health_information_log: Part<super::nvme::HealthLog>,
    pub(super) nvme_error_information_log: Part<Table<NvmeError>>,
    pub(super) nvme_self_test_log: Part<Table<NvmeSelfTest>>,
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
    pub(super) passed: Told<bool>,
    pub(super) scsi: Part<ScsiStatus>,
}

/// Additional sense that a SCSI drive reports about its health (SPC-5, informational exceptions).
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ScsiStatus {
    pub(super) ie_string: Told<String>,
}

/// Temperatures in degrees Celsius.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Temperature {
    pub(super) current: Told<i64>,
    pub(super) op_limit_max: Told<i64>,
    pub(super) drive_trip: Told<i64>,
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
    pub(super) max: Part<Speed>,
    pub(super) current: Part<Speed>,
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
    pub(super) supported: Told<bool>,
    pub(super) deterministic: Told<bool>,
    pub(super) zeroed: Told<bool>,
}

/// An object with a list in its field `table`.
#[derive(Debug, Deserialize)]
#[serde(default, bound = "T: serde::de::DeserializeOwned")]
pub(super) struct Table<T> {
    pub(super) table: Rows<T>,
}

impl<T> Default for Table<T> {
    fn default() -> Table<T> {
        Table { table: Rows::default() }
    }
}

/// A SMART attribute of ATA.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Attribute {
    pub(super) id: Number,
    pub(super) name: Told<String>,
    pub(super) value: Number,
    pub(super) thresh: Number,
    pub(super) when_failed: Told<String>,
    pub(super) flags: Part<Flags>,
    pub(super) raw: Part<Raw>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Flags {
    pub(super) prefailure: Told<bool>,
    pub(super) valid: Told<bool>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Raw {
    pub(super) value: Number,
    pub(super) string: Told<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Statistics {
    pub(super) pages: Rows<Table<Statistic>>,
}

/// A row of the ATA device statistics log.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Statistic {
    pub(super) name: Told<String>,
    pub(super) value: Number,
    pub(super) flags: Part<Flags>,
}

/// A log that ATA has in two forms; the extended form has more entries.
#[derive(Debug, Default, Deserialize)]
#[serde(default, bound = "T: serde::de::DeserializeOwned + Default")]
pub(super) struct Logs<T: Default> {
    pub(super) summary: Part<T>,
    pub(super) standard: Part<T>,
    pub(super) extended: Part<T>,
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
    pub(super) table: Rows<AtaError>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct AtaError {
    pub(super) lifetime_hours: Number,
    pub(super) completion_registers: Part<Registers>,
    pub(super) error_description: Told<String>,
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
    pub(super) kind: Part<Coded>,
    pub(super) status: Part<Coded>,
    pub(super) lifetime_hours: Number,
}

/// A number with its meaning in words.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Coded {
    pub(super) value: Number,
    pub(super) string: Told<String>,
}

/// Error counters of a SCSI drive (SPC-5, log pages 02h, 03h and 05h).
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ErrorCounters {
    pub(super) read: Part<ErrorCounter>,
    pub(super) write: Part<ErrorCounter>,
    pub(super) verify: Part<ErrorCounter>,
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
    pub(super) code: Part<Coded>,
    pub(super) result: Part<Coded>,
    pub(super) power_on_time: Part<PowerOnTime>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct NvmeError {
    pub(super) status_field: Part<NvmeStatus>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct NvmeStatus {
    pub(super) status_code_type: Number,
    pub(super) string: Told<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct NvmeSelfTest {
    pub(super) self_test_code: Part<Coded>,
    pub(super) self_test_result: Part<Coded>,
    pub(super) power_on_hours: Number,
}
