//! What a drive says of its own state: temperature, wear and errors, by smartctl or nvme-cli.
//!
//! Both print JSON whose names and types have changed over the years, so everything is looked for
//! and nothing is expected.

use std::path::Path;

use serde_json::Value;
use ssdlab_model::units::ByteLength;

use super::tool;

/// What the drive told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Smart {
    /// In degrees Celsius.
    pub temperature: Option<i64>,
    /// Share of its rated life that is used, in percent; may exceed 100.
    pub percentage_used: Option<u64>,
    /// Bytes that hosts have written to it.
    pub written: Option<ByteLength>,
    /// Hours it has been on.
    pub hours_on: Option<u64>,
    /// Sectors or blocks of flash taken out of use, or errors of the media.
    pub media_errors: Option<u64>,
    /// Its own verdict.
    pub passed: Option<bool>,
}

/// Asks the drive.
///
/// # Errors
/// In words why nothing is known.
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
    // The exit code is a set of flags, most of which tell of the drive and not of the program.
    let data = output.json().unwrap_or_default();
    let smart = from_smartctl(&data);
    if smart != Smart::default() {
        return Ok(smart);
    }
    let said = data["smartctl"]["messages"][0]["string"].as_str().map(str::to_owned);
    Err(format!("smartctl: {}", said.unwrap_or_else(|| output.last_words())))
}

fn by_nvme(device: &Path) -> Result<Smart, String> {
    let arguments = ["smart-log".as_ref(), device.as_os_str(), "-o".as_ref(), "json".as_ref()];
    let output = tool::run("nvme", &arguments, Some(tool::LOOK))?;
    let smart = output.json().map(|data| from_nvme(&data)).unwrap_or_default();
    match smart == Smart::default() {
        true => Err(format!("nvme: {}", output.last_words())),
        false => Ok(smart),
    }
}

/// A number, also where it was printed as text or with a point.
fn number(value: &Value) -> Option<u64> {
    match value {
        Value::Number(number) => number.as_u64().or_else(|| {
            number.as_f64().filter(|number| *number >= 0.0).map(|number| number as u64)
        }),
        Value::String(text) => text.replace(',', "").trim().parse().ok(),
        _ => None,
    }
}

/// NVMe counts in units of 1000 blocks of 512 bytes.
fn data_units(value: &Value) -> Option<ByteLength> {
    Some(ByteLength::new(number(value)?.checked_mul(512_000)?))
}

/// From what `smartctl --json` prints; what it does not say is left out.
pub fn from_smartctl(data: &Value) -> Smart {
    let log = &data["nvme_smart_health_information_log"];
    let endurance = &data["endurance_used"]["current_percent"];
    Smart {
        temperature: data["temperature"]["current"]
            .as_i64()
            .or_else(|| log["temperature"].as_i64()),
        percentage_used: number(&log["percentage_used"])
            .or_else(|| number(endurance))
            .or_else(|| statistic(data, "Percentage Used Endurance Indicator"))
            .or_else(|| life_left(data).map(|left| 100 - left)),
        written: data_units(&log["data_units_written"]).or_else(|| written_sectors(data)),
        hours_on: number(&data["power_on_time"]["hours"])
            .or_else(|| number(&log["power_on_hours"])),
        media_errors: number(&log["media_errors"]).or_else(|| replaced_sectors(data)),
        passed: data["smart_status"]["passed"].as_bool(),
    }
}

/// ATA Device Statistics, by name.
fn statistic(data: &Value, name: &str) -> Option<u64> {
    let pages = data["ata_device_statistics"]["pages"].as_array()?;
    let rows = pages.iter().filter_map(|page| page["table"].as_array()).flatten();
    let row = rows.into_iter().find(|row| row["name"].as_str() == Some(name))?;
    number(&row["value"])
}

/// The SMART attribute of ATA with this number. What a number means is each maker's own; so it counts only
/// where the name that smartctl knows for this drive has one of these words in it.
fn attribute<'a>(data: &'a Value, id: u64, words: &[&str]) -> Option<&'a Value> {
    let table = data["ata_smart_attributes"]["table"].as_array()?;
    let row = table.iter().find(|row| row["id"].as_u64() == Some(id))?;
    let name = row["name"].as_str()?.to_lowercase();
    words.iter().any(|word| name.contains(word)).then_some(row)
}

/// What is left of the rated life, in percent, of the attributes that vendors count it in. Their
/// normalised values go from 100 down, also where the name says "used".
fn life_left(data: &Value) -> Option<u64> {
    let row = attribute(data, 231, &["life"])
        .or_else(|| attribute(data, 202, &["life"]))
        .or_else(|| attribute(data, 233, &["wearout", "life"]))
        .or_else(|| attribute(data, 177, &["wear_leveling"]))?;
    number(&row["value"]).filter(|left| *left <= 100)
}

/// Sectors or blocks that were replaced. Some drives put more numbers into the raw value; then smartctl
/// writes the count first, and the others behind it in parentheses.
fn replaced_sectors(data: &Value) -> Option<u64> {
    let row = attribute(data, 5, &["realloc", "retired", "bad_block"])?;
    let text = row["raw"]["string"].as_str();
    let first = text.and_then(|text| text.split_whitespace().next());
    match first {
        Some(first) => first.parse().ok(),
        None => number(&row["raw"]["value"]),
    }
}

/// Bytes written of the device statistics or, where there are none, of attribute 241 where its
/// name says that it counts sectors.
fn written_sectors(data: &Value) -> Option<ByteLength> {
    let by_attribute = || number(&attribute(data, 241, &["lbas"])?["raw"]["value"]);
    let sectors = statistic(data, "Logical Sectors Written").or_else(by_attribute)?;
    let size = number(&data["logical_block_size"]).unwrap_or(512);
    Some(ByteLength::new(sectors.checked_mul(size)?))
}

/// From what `nvme smart-log -o json` prints.
pub fn from_nvme(data: &Value) -> Smart {
    // Kelvin in the log itself; some versions print degrees Celsius.
    let celsius = |kelvin: u64| kelvin as i64 - if kelvin > 200 { 273 } else { 0 };
    let used = number(&data["percent_used"]).or_else(|| number(&data["percentage_used"]));
    let warning =
        number(&data["critical_warning"]).or_else(|| number(&data["critical_warning"]["value"]));
    Smart {
        temperature: number(&data["temperature"]).map(celsius),
        percentage_used: used,
        written: data_units(&data["data_units_written"]),
        hours_on: number(&data["power_on_hours"]),
        media_errors: number(&data["media_errors"]),
        passed: warning.map(|bits| bits == 0),
    }
}

impl Smart {
    /// In words, for the report.
    pub(super) fn words(&self) -> String {
        let mut parts = Vec::new();
        parts.extend(self.temperature.map(|degrees| format!("{degrees} C")));
        parts.extend(self.percentage_used.map(|used| format!("{used} % of its rated life used")));
        parts.extend(self.written.map(|bytes| format!("{bytes} written")));
        parts.extend(self.hours_on.map(|hours| format!("on for {hours} h")));
        parts.extend(self.media_errors.map(|errors| format!("{errors} media errors")));
        parts.extend(
            self.passed
                .map(|passed| if passed { "health passed" } else { "health FAILED" }.to_owned()),
        );
        parts.join(", ")
    }

    /// What a run that writes `bytes` takes of the rated life, in words: by the bytes that have
    /// used up what is used up so far.
    pub(super) fn share_words(&self, bytes: ByteLength) -> String {
        match (self.percentage_used, self.written) {
            (Some(used @ 1..), Some(written)) if written > ByteLength::ZERO => {
                let share = bytes.bytes() as f64 / written.bytes() as f64 * used as f64;
                let share = match share {
                    share if share < 0.001 => "less than 0.001".to_owned(),
                    share if share < 1.0 => format!("about {share:.3}"),
                    share => format!("about {share:.1}"),
                };
                format!(
                    "{share} % of its rated endurance, as SMART has it ({used} % used up by \
                     {written} so far)"
                )
            }
            // Percentages are counted up when they are full.
            (Some(0), Some(written)) if written > ByteLength::ZERO => format!(
                "less than {:.2} % of its rated endurance, as SMART has it (not yet 1 % used up by \
                 {written} so far)",
                (bytes.bytes() as f64 / written.bytes() as f64).max(0.01)
            ),
            (Some(0), _) => {
                "what share of its endurance that is cannot be told: SMART counts 0 % used so far"
                    .to_owned()
            }
            _ => "what share of its endurance that is cannot be told: SMART does not count it"
                .to_owned(),
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
        let words = "41 C, 4 % of its rated life used, 954 GiB written, on for 1200 h, \
                     0 media errors, health passed";
        assert_eq!(smart.words().replace("953.67 GiB", "954 GiB"), words);
        // 4 % for 1.024 TB: 10.24 GB are a hundredth of that.
        let share = smart.share_words(ByteLength::new(10_240_000_000));
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
        // What is counted in units of the vendor's own is not taken for bytes.
        let in_gib = json!({"ata_smart_attributes": {"table": [
            {"id": 241, "name": "Host_Writes_GiB", "value": 99, "raw": {"value": 4000}},
        ]}});
        assert_eq!(from_smartctl(&in_gib).written, None);
    }

    #[test]
    fn attributes_count_only_under_a_name_that_fits() {
        let with = |rows: Value| from_smartctl(&json!({"ata_smart_attributes": {"table": rows}}));
        // Samsung's 202 is no life, SanDisk's 233 no wear, and some have a thermometer as 231.
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
        // Two numbers in one: none is replaced, whatever stands in the upper bits.
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
        let share = |smart: Smart| smart.share_words(ByteLength::new(1));
        assert!(share(Smart::default()).contains("does not count it"));
        let fresh = Smart { percentage_used: Some(0), ..Smart::default() };
        assert!(share(fresh).contains("0 % used so far"));
        // A hundredth of what has not used up one percent.
        let little = Smart {
            percentage_used: Some(0),
            written: Some(ByteLength::new(1 << 40)),
            ..Smart::default()
        };
        let words = little.share_words(ByteLength::new((1 << 40) / 10));
        assert!(words.starts_with("less than 0.10 % of its rated endurance"), "{words}");
    }
}
