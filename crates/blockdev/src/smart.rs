//! SMART: temperature, wear and errors as the drive reports them, read by smartctl or nvme-cli.
//!
//! Both print JSON whose names and types have changed over the years, so every field is optional.

mod ata;
mod lenient;
mod nvme;
mod scsi;
mod signs;
mod smartctl;
mod units;

use std::path::Path;

use serde_json::Value;
use ssdlab_units::ByteLength;

use self::smartctl::Report;
use super::tool;

pub use self::nvme::{Controller, from_nvme, reads_zeros};
pub use self::signs::{Counter, CriticalWarning, ErrorCause, Sign};

/// State of a drive, as far as the drive reports it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Smart {
    /// Temperature in degrees Celsius.
    pub temperature: Option<i64>,
    /// Highest temperature in operation, in degrees Celsius.
    pub temperature_limit: Option<i64>,
    /// Share of the rated life that is used, in percent; may exceed 100.
    pub percentage_used: Option<u64>,
    /// Flash blocks left to replace failed ones.
    pub spare: Option<Spare>,
    /// Bytes that hosts have written.
    pub written: Option<ByteLength>,
    /// Bytes written to the flash, by hosts and by the drive itself.
    pub flash_written: Option<ByteLength>,
    /// A count of host writes whose unit is not known.
    pub unitless_writes: Option<UnitlessWrites>,
    /// Power-on hours.
    pub hours_on: Option<u64>,
    /// Number of sectors or flash blocks taken out of use, or of media errors.
    pub media_errors: Option<u64>,
    /// Health verdict of the drive.
    pub passed: Option<bool>,
    /// Newest self-test that was completed.
    pub self_test: Option<SelfTest>,
    /// Error counters that the drive has, each once, also those that are zero.
    pub counts: Vec<(Counter, u64)>,
    /// All signs of trouble in the report.
    pub signs: Vec<Sign>,
    /// Model.
    pub model: Option<String>,
    /// True for a rotating disk, false for flash.
    pub spins: Option<bool>,
    /// Speed of the SATA link.
    pub link: Option<Link>,
    /// TRIM support that the drive reports (ATA).
    pub trim: Option<TrimSupport>,
}

/// Spare flash blocks, in percent of the original number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spare {
    /// Percentage left.
    pub available: u64,
    /// Percentage that the maker regards as sufficient.
    pub threshold: Option<u64>,
}

impl Spare {
    fn new(available: Option<u64>, threshold: Option<u64>) -> Option<Spare> {
        Some(Spare { available: available?, threshold })
    }

    /// Returns true if fewer are left than the maker regards as sufficient.
    pub fn is_short(&self) -> bool {
        self.threshold.is_some_and(|threshold| self.available < threshold)
    }
}

/// A SMART attribute that counts writes in a unit that smartctl does not know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnitlessWrites {
    /// Number of the attribute.
    pub id: u64,
    /// Name of the attribute.
    pub name: String,
    /// Raw value of the attribute.
    pub count: u64,
}

/// A completed self-test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SelfTest {
    /// True if the test found no failure.
    pub passed: bool,
    /// True if the test read the whole drive.
    pub is_extended: bool,
    /// Outcome in the words of the report.
    pub said: String,
    /// Power-on hours since the test.
    pub hours_ago: Option<u64>,
}

/// The speed of a SATA link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// Current speed in bits per second.
    pub bits_per_second: u64,
    /// Highest speed of the drive in bits per second.
    pub most_bits_per_second: u64,
}

/// TRIM support of an ATA drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrimSupport {
    /// True if the drive supports TRIM.
    pub supported: bool,
    /// True if trimmed sectors return the same data at each read.
    pub deterministic: bool,
    /// True if trimmed sectors read as zeros.
    pub zeroed: bool,
}

/// Reads the SMART data of a drive, by smartctl, or by nvme-cli if that fails on an NVMe drive.
///
/// # Errors
/// Returns the reason, in words, why nothing is known.
pub fn of(device: &Path) -> Result<Smart, String> {
    match by_smartctl(device) {
        Ok(smart) => Ok(smart),
        Err(why) if is_nvme(device) => by_nvme(device).map_err(|also| format!("{why}; {also}")),
        Err(why) => Err(why),
    }
}

fn is_nvme(device: &Path) -> bool {
    device.file_name().is_some_and(|name| name.to_string_lossy().starts_with("nvme"))
}

fn by_smartctl(device: &Path) -> Result<Smart, String> {
    let options = ["--json=c", "-i", "-H", "-A", "-l", "devstat"].map(AsRef::as_ref);
    let arguments = [&options[..], &[device.as_os_str()]].concat();
    let output = tool::run("smartctl", &arguments, Some(tool::LOOK))?;
    // The exit code is a set of flags, most of which concern the drive and not the program.
    let data = output.json().unwrap_or_default();
    let smart = from_smartctl(&data);
    if !smart.is_silent() {
        return Ok(smart);
    }
    let said = data["smartctl"]["messages"][0]["string"].as_str().map(str::to_owned);
    Err(format!("smartctl: {}", said.unwrap_or_else(|| output.last_line())))
}

fn by_nvme(device: &Path) -> Result<Smart, String> {
    let arguments = ["smart-log".as_ref(), device.as_os_str(), "-o".as_ref(), "json".as_ref()];
    let output = tool::run("nvme", &arguments, Some(tool::LOOK))?;
    let smart = output.json().map(|data| from_nvme(&data)).unwrap_or_default();
    match smart.is_silent() {
        true => Err(format!("nvme: {}", output.last_line())),
        false => Ok(smart),
    }
}

/// Reads the output of `smartctl --json`. Fields that are missing there stay `None`.
pub fn from_smartctl(data: &Value) -> Smart {
    // Serde would read a list as the values of a report in their order.
    if !data.is_object() {
        return Smart::default();
    }
    let report = Report::read(data);
    let mut smart = report.nvme_smart_health_information_log.smart();
    smart.hours_on = smart.hours_on.or(report.power_on_time.hours.0);
    nvme::add_logs(&report, &mut smart);
    let mut smart = smart.or(scsi::smart(&report)).or(ata::smart(&report));
    let passed = report.smart_status.passed.get();
    let warns = smart.signs.iter().any(|sign| matches!(sign, Sign::Critical(_)));
    if passed == Some(false) && !warns {
        let said = report.smart_status.scsi.ie_string.get();
        smart.signs.insert(0, Sign::HealthFailed { said });
    }
    let link = &report.interface_speed;
    let trim = &report.trim;
    let name = report.model_name.get().or_else(|| report.scsi_model_name.get());
    Smart {
        passed: passed.or(smart.passed),
        temperature: report.temperature.current.get().or(smart.temperature),
        temperature_limit: report
            .temperature
            .op_limit_max
            .get()
            .or(report.temperature.drive_trip.get()),
        model: name.map(|name| name.trim().to_owned()),
        spins: report.rotation_rate.0.map(|rate| rate > 0),
        link: link
            .current
            .bits()
            .zip(link.max.bits())
            .map(|(now, most)| Link { bits_per_second: now, most_bits_per_second: most }),
        trim: trim.supported.get().map(|supported| TrimSupport {
            supported,
            deterministic: trim.deterministic.get() == Some(true),
            zeroed: trim.zeroed.get() == Some(true),
        }),
        ..smart
    }
}

/// Returns the power-on hours since `at`, which ATA and SCSI record in 16 bits.
fn hours_since(at: Option<u64>, now: Option<u64>) -> Option<u64> {
    let (at, now) = at.zip(now)?;
    Some(match now.checked_sub(at) {
        Some(ago) if at > 0xffff => ago,
        Some(ago) => ago & 0xffff,
        None => 0,
    })
}

impl Smart {
    /// Returns true if the report says nothing of the drive's state: neither health nor wear, errors,
    /// temperature or use.
    pub fn is_silent(&self) -> bool {
        self.temperature.is_none()
            && self.percentage_used.is_none()
            && self.spare.is_none()
            && self.written.is_none()
            && self.unitless_writes.is_none()
            && self.hours_on.is_none()
            && self.media_errors.is_none()
            && self.passed.is_none()
            && self.signs.is_empty()
    }

    /// Fills unknown fields from another report of the same drive.
    #[must_use]
    pub fn or(self, other: Smart) -> Smart {
        let mut signs = self.signs;
        signs.extend(
            other.signs.into_iter().filter(|sign| !signs.contains(sign)).collect::<Vec<_>>(),
        );
        let mut counts = self.counts;
        for (counter, count) in other.counts {
            if counts.iter().all(|(known, _)| *known != counter) {
                counts.push((counter, count));
            }
        }
        Smart {
            temperature: self.temperature.or(other.temperature),
            temperature_limit: self.temperature_limit.or(other.temperature_limit),
            percentage_used: self.percentage_used.or(other.percentage_used),
            spare: self.spare.or(other.spare),
            written: self.written.or(other.written),
            flash_written: self.flash_written.or(other.flash_written),
            unitless_writes: self.unitless_writes.or(other.unitless_writes),
            hours_on: self.hours_on.or(other.hours_on),
            media_errors: self.media_errors.or(other.media_errors),
            passed: self.passed.or(other.passed),
            self_test: self.self_test.or(other.self_test),
            counts,
            signs,
            model: self.model.or(other.model),
            spins: self.spins.or(other.spins),
            link: self.link.or(other.link),
            trim: self.trim.or(other.trim),
        }
    }

    /// Records an error counter; above zero it is a sign of trouble.
    fn add_count(&mut self, counter: Counter, count: Option<u64>) {
        let Some(count) = count else { return };
        self.counts.push((counter, count));
        if count > 0 {
            self.signs.push(Sign::Counted { counter, count });
        }
    }

    /// Records the outcome of self-tests, newest first. A failure counts until an extended test, which
    /// reads the whole drive, has passed.
    fn add_self_tests(&mut self, tests: Vec<SelfTest>) {
        let since = tests.iter().take_while(|test| !(test.passed && test.is_extended));
        let failed = since.enumerate().find(|(_, test)| !test.passed);
        if let Some((place, test)) = failed {
            self.signs.push(Sign::SelfTestFailed {
                said: test.said.clone(),
                hours_ago: test.hours_ago,
                is_newest: place == 0,
            });
        }
        self.self_test = tests.into_iter().next();
    }

    /// Describes the state in words, for the report.
    pub fn words(&self) -> String {
        let mut parts = Vec::new();
        parts.extend(self.temperature.map(|degrees| format!("{degrees} C")));
        parts.extend(self.percentage_used.map(|used| format!("{used} % of its rated life used")));
        parts.extend(self.written.map(|bytes| format!("{bytes} written")));
        parts.extend(self.hours_on.map(|hours| format!("powered on for {hours} h")));
        parts.extend(self.media_errors.map(|errors| format!("{errors} media errors")));
        parts.extend(
            self.passed
                .map(|passed| if passed { "health passed" } else { "health FAILED" }.to_owned()),
        );
        parts.join(", ")
    }

    /// Describes the share of the rated life that a run writing `bytes` uses: extrapolated from the bytes
    /// and the share used so far.
    pub fn describe_endurance_share(&self, bytes: ByteLength) -> String {
        match (self.percentage_used, self.written) {
            (Some(used @ 1..), Some(written)) if written > ByteLength::ZERO => {
                let share = bytes.bytes() as f64 / written.bytes() as f64 * used as f64;
                let share = match share {
                    share if share < 0.001 => "less than 0.001".to_owned(),
                    share if share < 1.0 => format!("about {share:.3}"),
                    share => format!("about {share:.1}"),
                };
                format!(
                    "{share} % of its rated endurance, according to SMART ({used} % used up by \
                     {written} so far)"
                )
            }
            // Percentages are counted up only when they are complete.
            (Some(0), Some(written)) if written > ByteLength::ZERO => format!(
                "less than {:.2} % of its rated endurance, according to SMART (not yet 1 % used up \
                 by {written} so far)",
                (bytes.bytes() as f64 / written.bytes() as f64).max(0.01)
            ),
            (Some(0), _) => {
                "an unknown share of its rated endurance: SMART counts 0 % used so far".to_owned()
            }
            _ => "an unknown share of its rated endurance: SMART does not count it".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn nvme_by_smartctl() {
        let smart = from_smartctl(&json!({
            "smart_status": {"passed": true},
            "temperature": {"current": 41},
            "power_on_time": {"hours": 1200},
            "nvme_smart_health_information_log": {
                "percentage_used": 4, "data_units_written": 2_000_000, "media_errors": 0,
                "temperature": 41,
            },
        }));
        let words = "41 C, 4 % of its rated life used, 954 GiB written, powered on for 1200 h, \
                     0 media errors, health passed";
        assert_eq!(smart.words().replace("953.67 GiB", "954 GiB"), words);
        // 4 % for 1.024 TB: 10.24 GB are a hundredth of that.
        let share = smart.describe_endurance_share(ByteLength::new(10_240_000_000));
        assert!(share.starts_with("about 0.040 % of its rated endurance"), "{share}");
    }

    #[test]
    fn sata_by_smartctl_with_statistics_or_attributes() {
        let by_statistics = from_smartctl(&json!({
            "endurance_used": {"current_percent": 7},
            "logical_block_size": 512,
            "ata_device_statistics": {"pages": [
                {"table": [{"name": "Logical Sectors Written", "value": 2000}]},
            ]},
        }));
        assert_eq!(by_statistics.percentage_used, Some(7));
        assert_eq!(by_statistics.written, Some(ByteLength::new(1_024_000)));
        let by_attributes = from_smartctl(&json!({
            "ata_smart_attributes": {"table": [
                {"id": 5, "name": "Reallocated_Sector_Ct", "value": 100, "raw": {"value": 3}},
                {"id": 177, "name": "Wear_Leveling_Count", "value": 96, "raw": {"value": 55}},
                {"id": 241, "name": "Total_LBAs_Written", "value": 99, "raw": {"value": 4000}},
            ]},
        }));
        assert_eq!(by_attributes.percentage_used, Some(4));
        assert_eq!(by_attributes.written, Some(ByteLength::new(2_048_000)));
        assert_eq!(by_attributes.media_errors, Some(3));
        // Vendor-specific units are in the name of the attribute, or else unknown.
        let of = |name: &str| {
            from_smartctl(&json!({"ata_smart_attributes": {"table": [
                {"id": 241, "name": name, "value": 99, "raw": {"value": 4000}},
            ]}}))
        };
        assert_eq!(of("Host_Writes_GiB").written, Some(ByteLength::new(4000 << 30)));
        assert_eq!(of("Host_Writes").written, None);
        let unitless = of("Host_Writes").unitless_writes.map(|it| (it.id, it.name, it.count));
        assert_eq!(unitless, Some((241, "Host_Writes".to_owned(), 4000)));
    }

    #[test]
    fn attributes_count_only_under_a_name_that_fits() {
        let with = |rows: Value| from_smartctl(&json!({"ata_smart_attributes": {"table": rows}}));
        // Samsung's 202 is not the life left, SanDisk's 233 not wear, and some drives have a temperature
        // as 231.
        let others = with(json!([
            {"id": 202, "name": "Exception_Mode_Status", "value": 100},
            {"id": 233, "name": "NAND_GB_Written_TLC", "value": 100},
            {"id": 231, "name": "Temperature_Celsius", "value": 70},
            {"id": 5, "name": "Unknown_Attribute", "value": 100, "raw": {"value": 9}},
        ]));
        assert_eq!((others.percentage_used, others.media_errors), (None, None));
        let samsung = with(json!([
            {"id": 202, "name": "Exception_Mode_Status", "value": 100},
            {"id": 177, "name": "Wear_Leveling_Count", "value": 91},
        ]));
        assert_eq!(samsung.percentage_used, Some(9));
        for (id, name) in [
            (231, "SSD_Life_Left"),
            (202, "Percent_Lifetime_Remain"),
            (202, "Perc_Rated_Life_Used"),
            (233, "Media_Wearout_Indicator"),
        ] {
            let smart = with(json!([{"id": id, "name": name, "value": 60}]));
            assert_eq!(smart.percentage_used, Some(40), "{name}");
        }
        // Two numbers in one: no sectors are replaced, whatever the upper bits are.
        let packed = with(json!([{"id": 5, "name": "Reallocated_Sector_Ct", "value": 100,
            "raw": {"value": 65_536, "string": "0 (1 0)"}}]));
        assert_eq!(packed.media_errors, Some(0));
    }

    #[test]
    fn nvme_cli_in_its_older_and_newer_forms() {
        for data in [
            json!({"temperature": 314, "percent_used": 4, "data_units_written": 1000.0,
                   "critical_warning": 0}),
            json!({"temperature": 41, "percentage_used": "4", "data_units_written": "1,000",
                   "critical_warning": {"value": 0}}),
        ] {
            let smart = from_nvme(&data);
            assert_eq!(smart.temperature, Some(41), "{data}");
            assert_eq!(smart.percentage_used, Some(4));
            assert_eq!(smart.written, Some(ByteLength::new(512_000_000)));
            assert_eq!(smart.passed, Some(true));
        }
    }

    #[test]
    fn data_of_another_shape_is_no_failure() {
        for data in [json!(null), json!([1, 2]), json!({"temperature": "warm"}), json!("x")] {
            assert_eq!(from_smartctl(&data), Smart::default());
            assert_eq!(from_nvme(&data), Smart::default());
        }
    }

    #[test]
    fn endurance_that_is_not_told_is_said() {
        let share = |smart: Smart| smart.describe_endurance_share(ByteLength::new(1));
        assert!(share(Smart::default()).contains("does not count it"));
        let fresh = Smart { percentage_used: Some(0), ..Smart::default() };
        assert!(share(fresh).contains("0 % used so far"));
        // A hundredth of the bytes that have not used up one percent.
        let little = Smart {
            percentage_used: Some(0),
            written: Some(ByteLength::new(1 << 40)),
            ..Smart::default()
        };
        let words = little.describe_endurance_share(ByteLength::new((1 << 40) / 10));
        assert!(words.starts_with("less than 0.10 % of its rated endurance"), "{words}");
    }
}
