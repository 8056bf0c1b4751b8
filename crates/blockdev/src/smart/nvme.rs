//! NVMe: the health log and identify data, as smartctl and nvme-cli print them.
//!
//! nvme-cli has changed names between 1.x and 2.x, and prints numbers of 128 bits as text.

use serde::Deserialize;
use serde_json::Value;
use ssdlab_units::ByteLength;

use super::lenient::{Lenient, LenientObject, Number};
use super::signs::{Counter, CriticalWarning, ErrorCause, Sign};
use super::smartctl::Report;
use super::{SelfTest, Smart, Spare, hours_since};

/// SMART / health information (log page 02h), under the names of smartctl and of `nvme smart-log`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct HealthLog {
    critical_warning: Bits,
    temperature: Lenient<i64>,
    #[serde(alias = "avail_spare")]
    available_spare: Number,
    #[serde(alias = "spare_thresh")]
    available_spare_threshold: Number,
    #[serde(alias = "percent_used")]
    percentage_used: Number,
    data_units_written: Number,
    power_on_hours: Number,
    media_errors: Number,
}

/// A set of bits, which nvme-cli prints as an object if asked for details.
#[derive(Debug, Default)]
struct Bits(Option<u64>);

impl<'de> Deserialize<'de> for Bits {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Bits, D::Error> {
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Detailed {
            value: Number,
        }
        let value = Value::deserialize(from)?;
        let plain: Number = serde_json::from_value(value.clone()).unwrap_or_default();
        let detailed: LenientObject<Detailed> = serde_json::from_value(value).unwrap_or_default();
        Ok(Bits(plain.0.or(detailed.value.0)))
    }
}

/// Bytes of a data unit: NVMe counts 1000 blocks of 512 bytes.
const DATA_UNIT: u64 = 512_000;

impl HealthLog {
    pub(super) fn smart(&self) -> Smart {
        let warnings = self.critical_warning.0.map(CriticalWarning::of_bits);
        let mut signs: Vec<Sign> = Vec::new();
        signs.extend(warnings.iter().flatten().map(|warning| Sign::Critical(*warning)));
        // The log itself is in kelvin; smartctl and some versions of nvme-cli print degrees Celsius.
        let celsius = |degrees: i64| if degrees > 200 { degrees - 273 } else { degrees };
        let units = self.data_units_written.0.and_then(|units| units.checked_mul(DATA_UNIT));
        // Emulated drives report 0 for both.
        let spare = Spare::new(self.available_spare.0, self.available_spare_threshold.0);
        let mut smart = Smart {
            temperature: self.temperature.get().map(celsius),
            percentage_used: self.percentage_used.0,
            spare: spare.filter(|it| it.available > 0 || it.threshold.is_some_and(|it| it > 0)),
            written: units.map(ByteLength::new),
            hours_on: self.power_on_hours.0,
            media_errors: self.media_errors.0,
            passed: warnings.map(|set| set.is_empty()),
            signs,
            ..Smart::default()
        };
        smart.add_count(Counter::Media, self.media_errors.0);
        smart
    }
}

/// Adds the signs and the newest self-test from the logs that smartctl reads besides the health log.
pub(super) fn add_logs(report: &Report, smart: &mut Smart) {
    // Other status code types are errors of commands that a host should not have sent.
    const MEDIA_ERRORS: u64 = 2;
    let errors = report.nvme_error_information_log.table.iter();
    let status = |error: &super::smartctl::NvmeError| error.status_field.status_code_type.0;
    let count = errors.filter(|error| status(error) == Some(MEDIA_ERRORS)).count() as u64;
    if count > 0 {
        let cause = ErrorCause::Media;
        smart.signs.push(Sign::LoggedErrors { count, hours_ago: None, cause });
    }
    let tests = report.nvme_self_test_log.table.iter().filter_map(|test| {
        // 1 to 4, 8 and 9 were aborted; 5 to 7 failed.
        let passed = match test.self_test_result.value.0? {
            0 => true,
            5..=7 => false,
            _ => return None,
        };
        Some(SelfTest {
            passed,
            is_extended: test.self_test_code.value.0 == Some(2),
            said: test.self_test_result.string.get().unwrap_or_default(),
            hours_ago: hours_since(test.power_on_hours.0, smart.hours_on),
        })
    });
    let tests: Vec<SelfTest> = tests.collect();
    smart.add_self_tests(tests);
}

/// The controller, as `nvme id-ctrl -o json` prints it.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct IdentifyController {
    mn: Lenient<String>,
    vwc: Number,
    tnvmcap: Number,
    unvmcap: Number,
}

/// The namespace, as `nvme id-ns -o json` prints it.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct IdentifyNamespace {
    dlfeat: Number,
}

/// Fields of Identify Controller that doctor uses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Controller {
    /// Model (MN).
    pub model: Option<String>,
    /// True if the drive has a volatile write cache (VWC, bit 0).
    pub has_write_cache: Option<bool>,
    /// Total capacity for namespaces in bytes (TNVMCAP); `None` if the drive does not report it.
    pub capacity: Option<ByteLength>,
    /// Part of the capacity that is in no namespace (UNVMCAP).
    pub unallocated: Option<ByteLength>,
}

impl Controller {
    /// Reads the output of `nvme id-ctrl -o json`; fields that are missing or of another shape are
    /// `None`.
    pub fn read(json: &str) -> Controller {
        let fields: LenientObject<IdentifyController> =
            serde_json::from_str(json).unwrap_or_default();
        let length = |number: Number| number.0.filter(|&bytes| bytes > 0).map(ByteLength::new);
        Controller {
            model: fields.mn.get().map(|name| name.trim().to_owned()),
            has_write_cache: fields.vwc.0.map(|bits| bits & 1 == 1),
            capacity: length(fields.tnvmcap),
            unallocated: length(fields.unvmcap),
        }
    }
}

/// Returns true if deallocated blocks read as zeros, from the output of `nvme id-ns -o json`: bits 2 to 0
/// of DLFEAT (NVMe base specification, identify namespace), of which 1 means zeros.
pub fn reads_zeros(json: &str) -> Option<bool> {
    let fields: LenientObject<IdentifyNamespace> = serde_json::from_str(json).ok()?;
    fields.dlfeat.0.map(|bits| bits & 7 == 1)
}

/// Reads the output of `nvme smart-log -o json`. Fields that are missing there stay `None`.
pub fn from_nvme(data: &Value) -> Smart {
    // Serde would read a list as the values of a log in their order.
    if !data.is_object() {
        return Smart::default();
    }
    let log: LenientObject<HealthLog> = serde_json::from_value(data.clone()).unwrap_or_default();
    log.smart()
}
