//! Health of the drive: temperature, spare blocks, and the share of its rated life that is used.
//!
//! The temperature comes from the sensors of the kernel, which cost nothing to read. The rest comes from
//! smartctl, if installed, which is asked at the beginning and every few minutes.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use ssdlab_blockdev::place::{Layer, LayerKind};
use ssdlab_blockdev::tool;

/// Health of a drive; `None` for values that are not known.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Health {
    /// Temperature in degrees Celsius.
    pub temperature: Option<f64>,
    /// Spare blocks left, and the threshold at which the drive warns, both in percent.
    pub spare: Option<(f64, f64)>,
    /// Share of the rated life that is used, in percent.
    pub used: Option<f64>,
    /// Bytes that hosts have written.
    pub written: Option<f64>,
    /// True if the drive reports that it is failing.
    pub is_failing: bool,
}

/// Default temperature in degrees Celsius from which the drive is left to cool: most drives are rated for
/// 70, and slow down at 70 to 80.
pub const TEMPERATURE_MAX: f64 = 68.0;

/// Degrees Celsius below the limit to which the drive has to cool before the rewrite continues.
pub const COOL_DOWN_BY: f64 = 5.0;

impl Health {
    /// Asks smartctl about a disk.
    ///
    /// # Errors
    /// Returns the reason, in words, why smartctl reports nothing.
    pub fn read(device: &Path) -> Result<Health, String> {
        let options = ["--json=c", "-H", "-A", "-l", "devstat"].map(OsStr::new);
        let arguments = [&options[..], &[device.as_os_str()]].concat();
        let output = tool::run("smartctl", &arguments, Some(tool::LOOK))?;
        let found = output.json().map(|data| Health::from_smartctl(&data));
        let found = found.filter(|it| *it != Health::default());
        found.ok_or_else(|| "smartctl reports no health data".to_owned())
    }

    /// Reads the output of `smartctl --json`.
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

    /// Returns the reason why nothing should be written to the drive, or `None`.
    pub fn obstacle(&self) -> Option<String> {
        if self.is_failing {
            return Some(
                "SMART reports that the drive is failing; back up its data first".to_owned(),
            );
        }
        match self.spare {
            Some((left, least)) if left <= least => Some(format!(
                "the drive has {left} % of its spare blocks left, and its warning threshold is \
                 {least} %; back up its data instead of writing more"
            )),
            _ => None,
        }
    }

    /// Returns the share of the rated life that writing this many bytes takes, in percent, extrapolated
    /// from the share and the bytes so far. `None` if too little is known.
    pub fn share_of_life(&self, bytes: u64) -> Option<f64> {
        let (used, written) = (self.used?, self.written?);
        // Below one percent the value is too coarse.
        (used >= 1.0 && written > 0.0).then(|| bytes as f64 * used / written)
    }
}

/// Returns the bytes written of an ATA device, which counts logical sectors in its statistics (ACS-4,
/// General Statistics, 0x18).
fn sectors_written(data: &Value) -> Option<f64> {
    let pages = data["ata_device_statistics"]["pages"].as_array()?;
    let mut rows = pages.iter().filter_map(|page| page["table"].as_array()).flatten();
    let row = rows.find(|row| row["name"] == "Logical Sectors Written")?;
    Some(row["value"].as_f64()? * 512.0)
}

/// Temperature sensor of a disk in the kernel (hwmon).
#[derive(Clone, Debug)]
pub struct TemperatureSensor {
    file: PathBuf,
}

impl TemperatureSensor {
    /// Finds the sensor of the disk with this name below `sys` (`/sys`); `None` if it has none.
    pub fn of(disk: &str, sys: &Path) -> Option<TemperatureSensor> {
        let device = sys.join("block").join(disk).join("device");
        // NVMe has its sensor at the controller, SATA (drivetemp) one level down.
        for directory in [device.clone(), device.join("hwmon"), device.join("device/hwmon")] {
            for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
                let file = entry.path().join("temp1_input");
                if entry.file_name().to_string_lossy().starts_with("hwmon") && file.exists() {
                    return Some(TemperatureSensor { file });
                }
            }
        }
        None
    }

    /// Returns the temperature in degrees Celsius.
    pub fn read(&self) -> Option<f64> {
        let text = fs::read_to_string(&self.file).ok()?;
        text.trim().parse::<f64>().ok().map(|thousandths| thousandths / 1000.0)
    }
}

/// The disks below a file or device, however many layers are in between.
#[derive(Clone, Debug, Default)]
pub struct Disks(Vec<Disk>);

#[derive(Clone, Debug)]
struct Disk {
    name: String,
    device: PathBuf,
    sensor: Option<TemperatureSensor>,
}

impl Disks {
    /// Returns the disks among these layers.
    pub fn of<'a>(layers: impl IntoIterator<Item = &'a Layer>) -> Disks {
        let is_disk = |it: &&Layer| matches!(it.kind, LayerKind::Disk | LayerKind::Usb);
        let disks = layers.into_iter().filter(is_disk);
        Disks::named(disks.map(|it| (it.kernel_name(), it.device())), Path::new("/sys"))
    }

    fn named<'a>(disks: impl Iterator<Item = (&'a str, &'a Path)>, sys: &Path) -> Disks {
        let mut all: Vec<Disk> = Vec::new();
        for (name, device) in disks {
            if all.iter().any(|known| known.device == device) {
                continue;
            }
            let sensor = TemperatureSensor::of(name, sys);
            all.push(Disk { name: name.to_owned(), device: device.to_owned(), sensor });
        }
        Disks(all)
    }

    /// Returns the temperature of the warmest disk in degrees Celsius; `None` if no disk has a sensor.
    pub fn warmest(&self) -> Option<f64> {
        let each = self.0.iter().filter_map(|it| it.sensor.as_ref()?.read());
        each.filter(|degrees| degrees.is_finite()).max_by(f64::total_cmp)
    }

    /// Asks smartctl about each disk.
    pub fn read_health(&self) -> HealthReport {
        self.read_health_by(Health::read)
    }

    fn read_health_by(&self, read: impl Fn(&Path) -> Result<Health, String>) -> HealthReport {
        HealthReport(self.0.iter().map(|it| (it.clone(), read(&it.device))).collect())
    }
}

/// Health of all disks, or the reason why it is not known.
#[derive(Clone, Debug)]
pub struct HealthReport(Vec<(Disk, Result<Health, String>)>);

impl HealthReport {
    fn known(&self) -> impl Iterator<Item = (&Disk, &Health)> {
        self.0.iter().filter_map(|(disk, found)| Some((disk, found.as_ref().ok()?)))
    }

    /// Returns the reason why nothing should be written, with the name of the disk, or `None`.
    pub fn obstacle(&self) -> Option<String> {
        self.known().find_map(|(disk, it)| Some(format!("{}: {}", disk.name, it.obstacle()?)))
    }

    /// Returns the share of the rated life that writing this many bytes takes, in percent: the largest of
    /// all disks, each taken as if it got all of the bytes.
    pub fn share_of_life(&self, bytes: u64) -> Option<f64> {
        self.known().filter_map(|(_, it)| it.share_of_life(bytes)).max_by(f64::total_cmp)
    }

    /// Returns sentences on what is not monitored, and why.
    pub fn notes(&self) -> Vec<String> {
        if self.0.is_empty() {
            let why = "The drive below is not known: its spare blocks and temperature are not \
                       monitored.";
            return vec![why.to_owned()];
        }
        let mut notes = Vec::new();
        for (disk, found) in &self.0 {
            let name = &disk.name;
            if let Err(why) = found {
                notes.push(format!("The spare blocks of {name} are not monitored: {why}."));
            }
            if disk.sensor.is_none() {
                notes.push(format!(
                    "The temperature of {name} is not monitored: the kernel has no sensor for it."
                ));
            }
        }
        notes
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
    fn each_disk_is_watched_and_what_is_not_is_said() {
        let root = tempfile::tempdir().unwrap();
        for (disk, degrees) in [("sda", "41000"), ("sdb", "52000")] {
            let directory = root.path().join(format!("block/{disk}/device/hwmon/hwmon1"));
            fs::create_dir_all(&directory).unwrap();
            fs::write(directory.join("temp1_input"), degrees).unwrap();
        }
        let names = ["sda", "sdb", "sdc", "sda"];
        let disks = Disks::named(names.map(|it| (it, Path::new(it))).into_iter(), root.path());
        assert_eq!(disks.warmest(), Some(52.0));
        let worn = Health { spare: Some((5.0, 10.0)), ..Health::default() };
        let found = disks.read_health_by(|device| match device.to_str() {
            Some("sda") => Ok(Health { used: Some(1.0), written: Some(1e12), ..worn_not() }),
            Some("sdb") => Ok(Health { used: Some(2.0), written: Some(1e12), ..worn }),
            _ => Err("smartctl reports no health data".to_owned()),
        });
        let why = found.obstacle().expect("one is worn");
        assert!(why.starts_with("sdb: ") && why.contains("spare"), "{why}");
        assert_eq!(found.share_of_life(1_000_000_000), Some(0.002));
        let notes = found.notes();
        assert_eq!(notes.len(), 2, "{notes:?}");
        assert!(notes.iter().all(|it| it.contains("sdc")), "{notes:?}");
        assert_eq!(Disks::default().read_health().notes().len(), 1);
    }

    fn worn_not() -> Health {
        Health { spare: Some((100.0, 10.0)), ..Health::default() }
    }

    #[test]
    fn thermometers_are_found_where_the_kernel_has_them() {
        let root = tempfile::tempdir().unwrap();
        assert!(TemperatureSensor::of("sda", root.path()).is_none());
        for (disk, place) in [("nvme0n1", "device/hwmon3"), ("sda", "device/hwmon/hwmon1")] {
            let directory = root.path().join("block").join(disk).join(place);
            fs::create_dir_all(&directory).unwrap();
            fs::write(directory.join("temp1_input"), "52850\n").unwrap();
            let found = TemperatureSensor::of(disk, root.path()).expect("a thermometer");
            assert_eq!(found.read(), Some(52.85), "{disk}");
        }
    }
}
