//! Identity of a block device as the kernel knows it: model, serial, sizes, limits and settings.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use ssdlab_units::ByteLength;

use super::device::{DeviceNumber, System};

/// A block device as sysfs and the udev database describe it. Fields that they lack are `None` or empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// Kernel name of the device, such as `sda2`.
    pub name: String,
    /// Kernel name of the whole drive.
    pub disk: String,
    /// Model, as the drive reports it.
    pub model: Option<String>,
    /// Serial number, as the drive reports it.
    pub serial: Option<String>,
    /// Firmware revision.
    pub firmware: Option<String>,
    /// Capacity of the device itself, in bytes.
    pub capacity: ByteLength,
    /// True if the device is a partition of the drive.
    pub is_partition: bool,
    /// True if the kernel refuses writes to the device.
    pub is_read_only: bool,
    /// True if the device is written zone by zone.
    pub is_zoned: bool,
    /// True if the drive is behind a USB bridge.
    pub is_usb: bool,
    /// Sequence number of the drive (`diskseq`), which distinguishes drives that got the same device
    /// number since the system started.
    pub disk_sequence: Option<String>,
    /// Link between the machine and the drive; `None` if not known.
    pub link: Option<Link>,
    /// Directory of the whole drive in sysfs.
    pub directory: PathBuf,
}

/// Link between the machine and the drive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// Name of the link.
    pub name: String,
    /// Largest throughput of the link in bytes per second.
    pub bytes_per_second: u64,
}

impl Identity {
    /// Looks up the device with this number.
    pub fn of(number: DeviceNumber, system: &System) -> Identity {
        let Ok(own) = fs::canonicalize(system.directory_of(number)) else {
            return Identity::default();
        };
        let is_partition = own.join("partition").exists();
        let directory = match (is_partition, own.parent()) {
            (true, Some(parent)) => parent.to_owned(),
            _ => own.clone(),
        };
        let text = |path: &str| text_in(&directory.join(path));
        let is_set = |text: Option<String>| text.is_some_and(|text| text == "1");
        let sectors = text_in(&own.join("size")).and_then(|text| text.parse::<u64>().ok());
        Identity {
            name: name_of(&own),
            disk: name_of(&directory),
            model: text("device/model")
                .or_else(|| text("device/name"))
                .or_else(|| Some(format!("a loop device on {}", text("loop/backing_file")?))),
            serial: text("device/serial")
                .or_else(|| text("serial"))
                .or_else(|| serial_page(&directory))
                .or_else(|| serial_of_udev(number)),
            firmware: text("device/firmware_rev").or_else(|| text("device/rev")),
            // `size` is always in units of 512 bytes, whatever the drive's block size is.
            capacity: ByteLength::new(sectors.unwrap_or(0) * 512),
            is_partition,
            is_read_only: is_set(text_in(&own.join("ro"))),
            is_zoned: text("queue/zoned").is_some_and(|zones| zones != "none"),
            is_usb: directory.iter().any(|part| part.to_string_lossy().starts_with("usb")),
            disk_sequence: text("diskseq"),
            link: link_of(&directory),
            directory,
        }
    }

    /// Returns a number among the settings of the drive's queue in sysfs.
    pub fn queue(&self, name: &str) -> Option<u64> {
        text_in(&self.directory.join("queue").join(name))?.parse().ok()
    }

    /// Names the whole drive: its kernel name, its model and its capacity.
    pub fn short_description(&self) -> String {
        let model = self.model.as_ref().map_or(String::new(), |model| format!(" ({model})"));
        let capacity = self.whole_capacity().map(|capacity| format!(", {capacity}"));
        format!("{}{model}{}", self.disk, capacity.unwrap_or_default())
    }

    /// Returns the capacity of the whole drive in bytes, also if this device is a partition of it.
    pub fn whole_capacity(&self) -> Option<ByteLength> {
        let sectors = text_in(&self.directory.join("size"))?.parse::<u64>().ok()?;
        Some(ByteLength::new(sectors * 512))
    }

    /// Describes the discards that the drive takes, and how large they may be.
    pub fn describe_discards(&self) -> String {
        match self.queue("discard_max_bytes") {
            None => "not known".to_owned(),
            Some(0) => "none".to_owned(),
            Some(most) => {
                let granularity = self.queue("discard_granularity").unwrap_or(0);
                format!(
                    "at most {} at once, in multiples of {}",
                    ByteLength::new(most),
                    ByteLength::new(granularity)
                )
            }
        }
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let model = self.model.as_deref().unwrap_or("a drive that does not name its model");
        let serial = match &self.serial {
            Some(serial) => format!("serial {serial}"),
            None => "no serial".to_owned(),
        };
        write!(f, "{model}, {serial}, {}", self.capacity)?;
        if self.is_partition {
            write!(f, ", a partition of {}", self.disk)?;
        }
        Ok(())
    }
}

fn name_of(directory: &Path) -> String {
    directory.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned())
}

/// Returns the trimmed text of a small file; `None` if there is none.
pub fn text_in(path: &Path) -> Option<String> {
    let bytes = fs::read(path).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    let text = text.trim_matches(|letter: char| letter.is_whitespace() || letter == '\0');
    (!text.is_empty()).then(|| text.to_owned())
}

/// Returns the serial number of SCSI and SATA drives: the vital product data page 80h, behind four bytes.
fn serial_page(directory: &Path) -> Option<String> {
    let page = fs::read(directory.join("device/vpd_pg80")).ok()?;
    let text = String::from_utf8_lossy(page.get(4..)?).trim().trim_matches('\0').to_owned();
    (!text.is_empty()).then_some(text)
}

fn serial_of_udev(number: DeviceNumber) -> Option<String> {
    let text = fs::read_to_string(format!("/run/udev/data/b{number}")).ok()?;
    let serial = text.lines().find_map(|line| line.strip_prefix("E:ID_SERIAL_SHORT="))?;
    Some(serial.trim().to_owned())
}

/// Returns the link of an NVMe or SATA drive.
fn link_of(directory: &Path) -> Option<Link> {
    pci_link(directory).or_else(|| sata_link(directory))
}

/// Returns a PCI Express link. Its throughput is the rate of all lanes, less the line code (8b/10b up to
/// 5 GT/s, 128b/130b above; PCI Express Base Specification).
fn pci_link(directory: &Path) -> Option<Link> {
    let controller = directory.join("device/device");
    let speed = text_in(&controller.join("current_link_speed"))?;
    let width: u64 = text_in(&controller.join("current_link_width"))?.parse().ok()?;
    let rate: f64 = speed.split(' ').next()?.parse().ok()?;
    let code = if rate > 5.0 { 128.0 / 130.0 } else { 0.8 };
    let bytes = rate * 1e9 * code / 8.0 * width as f64;
    let name = format!("PCI Express, {width} lanes of {rate} GT/s");
    Some(Link { name, bytes_per_second: bytes as u64 })
}

/// Returns a Serial ATA link. Its throughput is the rate less the line code 8b/10b.
fn sata_link(directory: &Path) -> Option<Link> {
    let port = directory.ancestors().find(|one| {
        let name = name_of(one);
        name.strip_prefix("ata").is_some_and(|rest| rest.parse::<u32>().is_ok())
    })?;
    let links = fs::read_dir(port).ok()?.flatten().map(|entry| entry.path());
    let speed = links
        .filter(|path| name_of(path).starts_with("link"))
        .find_map(|path| text_in(&path.join("ata_link").join(name_of(&path)).join("sata_spd")))?;
    let rate: f64 = speed.split(' ').next()?.parse().ok()?;
    let bytes = rate * 1e9 * 0.8 / 8.0;
    Some(Link { name: format!("SATA, {speed}"), bytes_per_second: bytes as u64 })
}

#[cfg(test)]
mod tests {
    use super::*;

    const NUMBER: DeviceNumber = DeviceNumber { major: 259, minor: 0 };

    fn system(files: &[(&str, &str)]) -> (tempfile::TempDir, System) {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join("dev/block/259:0").join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let system = System { sys: root.path().to_owned(), ..System::real() };
        (root, system)
    }

    #[test]
    fn a_drive_is_described_as_the_kernel_has_it() {
        let (_root, system) = system(&[
            ("size", "2048\n"),
            ("ro", "0\n"),
            ("device/model", "Fast One   \n"),
            ("device/serial", "  S1234  \n"),
            ("device/firmware_rev", "1.0"),
            ("device/device/current_link_speed", "8.0 GT/s PCIe"),
            ("device/device/current_link_width", "4"),
            ("queue/discard_max_bytes", "0"),
            ("queue/zoned", "none"),
        ]);
        let found = Identity::of(NUMBER, &system);
        assert_eq!(found.to_string(), "Fast One, serial S1234, 1 MiB");
        assert_eq!(found.firmware.as_deref(), Some("1.0"));
        assert_eq!(found.describe_discards(), "none");
        assert!(!found.is_read_only && !found.is_zoned && !found.is_partition);
        let link = found.link.unwrap();
        // 8 GT/s by 4 lanes by 128/130, in bytes.
        assert_eq!(link.bytes_per_second, 3_938_461_538);
    }

    #[test]
    fn the_serial_of_a_sata_drive_lies_behind_a_header() {
        let (root, system) = system(&[("device/model", "Slow One")]);
        let page = root.path().join("dev/block/259:0/device/vpd_pg80");
        fs::write(page, b"\0\x80\0\x08 WD-1234").unwrap();
        assert_eq!(Identity::of(NUMBER, &system).serial.as_deref(), Some("WD-1234"));
    }

    #[test]
    fn what_is_zoned_or_read_only_is_known() {
        let (_root, system) = system(&[("queue/zoned", "host-managed"), ("ro", "1")]);
        let found = Identity::of(NUMBER, &system);
        assert!(found.is_zoned && found.is_read_only);
    }
}
