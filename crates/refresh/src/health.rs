//! How the drive is: its temperature, its spare blocks, and how much of its life is used.
//!
//! The temperature comes from the kernel's sensors, which cost nothing; the rest from smartctl, where
//! it is installed, at the beginning and now and then.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

/// What is known of a drive.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Health {
    /// In degrees Celsius.
    pub temperature: Option<f64>,
    /// Spare blocks left, in percent, and from where on the drive warns.
    pub spare: Option<(f64, f64)>,
    /// Share of the rated life that is used, in percent.
    pub used: Option<f64>,
    /// Bytes that hosts have written.
    pub written: Option<f64>,
    /// Whether the drive itself says that it is failing.
    pub is_failing: bool,
}

/// From here on the drive is left to cool, in degrees Celsius, where nothing else is said: most are
/// rated for 70, and slow down at 70 to 80.
pub const HEAT_MAX: f64 = 68.0;

/// How much it has to cool before we go on.
pub const COOLER: f64 = 5.0;

impl Health {
    /// Asks smartctl about a device; nothing is known where it cannot say.
    pub fn ask(device: &Path) -> Health {
        let output = Command::new("smartctl")
            .args(["--json=c", "-H", "-A", "-l", "devstat"])
            .arg(device)
            .stdin(Stdio::null())
            .output();
        let data = output.ok().and_then(|it| serde_json::from_slice(&it.stdout).ok());
        data.map(|data| Health::from_smartctl(&data)).unwrap_or_default()
    }

    /// From what `smartctl --json` printed.
    pub fn from_smartctl(data: &Value) -> Health {
        let nvme = &data["nvme_smart_health_information_log"];
        let spare =
            nvme["available_spare"].as_f64().zip(nvme["available_spare_threshold"].as_f64());
        // NVM Express Base Specification, SMART log: a data unit is a thousand times 512 bytes.
        let written = nvme["data_units_written"].as_f64().map(|units| units * 512_000.0);
        Health {
            temperature: data["temperature"]["current"].as_f64(),
            spare,
            used: nvme["percentage_used"]
                .as_f64()
                .or_else(|| data["endurance_used"]["current_percent"].as_f64()),
            written: written.or_else(|| sectors_written(data)),
            is_failing: data["smart_status"]["passed"].as_bool() == Some(false),
        }
    }

    /// Why nothing may be written; nothing where it may.
    pub fn obstacle(&self) -> Option<String> {
        if self.is_failing {
            return Some("the drive says that it is failing; save its data first".to_owned());
        }
        match self.spare {
            Some((left, least)) if left <= least => Some(format!(
                "the drive has {left} % of its spare blocks left and warns from {least} % on; \
                 save its data instead of writing more"
            )),
            _ => None,
        }
    }

    /// The share of the rated life that so many bytes take, in percent, by what the drive's life
    /// so far has taken.
    pub fn share_of_life(&self, bytes: u64) -> Option<f64> {
        let (used, written) = (self.used?, self.written?);
        // Below one percent used there is nothing to go by.
        (used >= 1.0 && written > 0.0).then(|| bytes as f64 * used / written)
    }
}

/// ATA devices count logical sectors in their statistics (ACS-4, General Statistics, 0x18).
fn sectors_written(data: &Value) -> Option<f64> {
    let pages = data["ata_device_statistics"]["pages"].as_array()?;
    let mut rows = pages.iter().filter_map(|page| page["table"].as_array()).flatten();
    let row = rows.find(|row| row["name"] == "Logical Sectors Written")?;
    Some(row["value"].as_f64()? * 512.0)
}

/// The kernel's temperature sensor of a disk.
#[derive(Clone, Debug)]
pub struct Thermometer {
    file: PathBuf,
}

impl Thermometer {
    /// That of the disk with this name below `sys` (`/sys`); nothing where it has none.
    pub fn of(disk: &str, sys: &Path) -> Option<Thermometer> {
        let device = sys.join("block").join(disk).join("device");
        // NVMe has its sensor at the controller, SATA (drivetemp) one level down.
        for directory in [device.clone(), device.join("hwmon"), device.join("device/hwmon")] {
            for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
                let file = entry.path().join("temp1_input");
                if entry.file_name().to_string_lossy().starts_with("hwmon") && file.exists() {
                    return Some(Thermometer { file });
                }
            }
        }
        None
    }

    /// In degrees Celsius.
    pub fn read(&self) -> Option<f64> {
        let text = fs::read_to_string(&self.file).ok()?;
        text.trim().parse::<f64>().ok().map(|thousandths| thousandths / 1000.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_worn_or_failing_drive_is_not_written_to() {
        let mut data = json!({
            "smart_status": { "passed": true },
            "temperature": { "current": 41 },
            "nvme_smart_health_information_log": {
                "available_spare": 100, "available_spare_threshold": 10,
                "percentage_used": 4, "data_units_written": 40_000_000
            }
        });
        let health = Health::from_smartctl(&data);
        assert_eq!(health.obstacle(), None);
        assert_eq!(health.temperature, Some(41.0));
        let share = health.share_of_life(512_000_000_000).unwrap();
        assert!((share - 0.1).abs() < 1e-9, "{share}");
        data["nvme_smart_health_information_log"]["available_spare"] = json!(10);
        assert!(Health::from_smartctl(&data).obstacle().unwrap().contains("spare"));
        data["smart_status"]["passed"] = json!(false);
        assert!(Health::from_smartctl(&data).obstacle().unwrap().contains("failing"));
        assert_eq!(Health::default().obstacle(), None);
        assert_eq!(Health::default().share_of_life(1), None);
    }

    #[test]
    fn thermometers_are_found_where_the_kernel_has_them() {
        let root = tempfile::tempdir().unwrap();
        assert!(Thermometer::of("sda", root.path()).is_none());
        for (disk, place) in [("nvme0n1", "device/hwmon3"), ("sda", "device/hwmon/hwmon1")] {
            let directory = root.path().join("block").join(disk).join(place);
            fs::create_dir_all(&directory).unwrap();
            fs::write(directory.join("temp1_input"), "52850\n").unwrap();
            let found = Thermometer::of(disk, root.path()).expect("a thermometer");
            assert_eq!(found.read(), Some(52.85), "{disk}");
        }
    }
}
