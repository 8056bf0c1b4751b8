//! Facts about disks that the kernel drives as SCSI: SATA, SAS, USB.

use super::LayerKind;
use crate::facts::Facts;

/// Drivers of RAID controllers, which show volumes instead of drives.
const RAID_DRIVERS: [&str; 9] = [
    "megaraid_sas",
    "megaraid",
    "aacraid",
    "hpsa",
    "cciss",
    "smartpqi",
    "arcmsr",
    "3w-9xxx",
    "3w-sas",
];

/// Returns the type of a disk with a SCSI name, by the bus and controller that it is attached to.
pub(super) fn kind(facts: &dyn Facts, directory: &str) -> LayerKind {
    if let Some(interface) = usb_interface(directory) {
        let driver = facts.resolve(&format!("{interface}/driver")).ok();
        let driver = driver.and_then(|path| Some(path.rsplit('/').next()?.to_owned()));
        return LayerKind::Usb { driver };
    }
    let vendor = facts.text(&format!("{directory}/device/vendor")).unwrap_or_default();
    if directory.split('/').any(is_ata_port) || vendor == "ATA" {
        return LayerKind::Sata;
    }
    let model = facts.text(&format!("{directory}/device/model")).unwrap_or_default();
    let host = directory.split('/').find(|part| is_numbered(part, "host"));
    let driver = host
        .and_then(|host| facts.text(&format!("/sys/class/scsi_host/{host}/proc_name")))
        .unwrap_or_default();
    match driver.as_str() {
        "virtio_scsi" | "hv_storvsc" | "vmw_pvscsi" => LayerKind::Virtual,
        driver if RAID_DRIVERS.contains(&driver) || model == "Logical Volume" => {
            LayerKind::HardwareRaid { driver: driver.to_owned() }
        }
        _ => LayerKind::Scsi,
    }
}

fn is_numbered(part: &str, word: &str) -> bool {
    part.strip_prefix(word).is_some_and(|rest| rest.parse::<u32>().is_ok())
}

pub(super) fn is_ata_port(part: &str) -> bool {
    is_numbered(part, "ata")
}

/// Returns the sysfs directory of the USB interface, such as `.../2-1:1.0`, that a disk is attached to.
fn usb_interface(directory: &str) -> Option<&str> {
    let mut end = 0;
    for part in directory.split('/') {
        let whole = end + part.len();
        let is_interface = part.split_once(':').is_some_and(|(port, interface)| {
            port.contains('-')
                && port.chars().all(|letter| letter.is_ascii_digit() || "-.".contains(letter))
                && interface.split('.').all(|number| number.parse::<u32>().is_ok())
        });
        if is_interface {
            return directory.get(..whole);
        }
        end = whole + 1;
    }
    None
}

/// USB bridge, as udev identifies it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UsbBridge {
    /// Number of the vendor; like the product's, four hexadecimal digits.
    pub(crate) vendor: String,
    pub(crate) product: String,
    /// Serial number, if it consists of letters and digits only.
    pub(crate) serial: Option<String>,
}

/// Returns the USB bridge that a block device is attached to.
pub(crate) fn usb_bridge(facts: &dyn Facts, directory: &str) -> Option<UsbBridge> {
    let (device, _) = usb_interface(directory)?.rsplit_once('/')?;
    let number = |name: &str| {
        let text = facts.text(&format!("{device}/{name}"))?;
        let is_number = text.len() == 4 && text.chars().all(|it| it.is_ascii_hexdigit());
        is_number.then_some(text)
    };
    let is_plain = |text: &String| text.chars().all(|it| it.is_ascii_alphanumeric());
    Some(UsbBridge {
        vendor: number("idVendor")?,
        product: number("idProduct")?,
        serial: facts.text(&format!("{device}/serial")).filter(is_plain),
    })
}

/// Returns true if a SCSI disk reports that it supports UNMAP: LBPU of the logical block provisioning page (SBC-4, VPD
/// page B2h), which is read from sysfs or by `sg_vpd`. Returns `None` if neither has it.
pub(crate) fn can_unmap(facts: &dyn Facts, directory: &str, path: &str) -> Option<bool> {
    const LBPU: u8 = 1 << 7;
    let page = facts.read(&format!("{directory}/device/vpd_pgb2")).ok();
    let kept = page.filter(|page| page.get(1) == Some(&0xb2)).and_then(|page| page.get(5).copied());
    if let Some(bits) = kept {
        return Some(bits & LBPU != 0);
    }
    let output = facts.run("sg_vpd", &["--page=lbpv", path]).ok()?;
    let line = output.stdout.lines().find_map(|line| line.split_once("(LBPU):"));
    match line?.1.trim() {
        "1" => Some(true),
        "0" => Some(false),
        _ => None,
    }
}

/// Returns the kernel's directory of the SCSI disk for a block device.
pub(crate) fn scsi_disk(facts: &dyn Facts, directory: &str) -> Option<String> {
    let place = format!("{directory}/device/scsi_disk");
    let name = facts.list(&place).ok()?.into_iter().next()?;
    Some(format!("{place}/{name}"))
}

/// Returns the file in /sys/class that says how the kernel sends discards to a SCSI disk, and its content: `unmap`,
/// `full` for not at all, ...
pub(crate) fn provisioning_mode_file(
    facts: &dyn Facts,
    directory: &str,
) -> Option<(String, String)> {
    let disk = scsi_disk(facts, directory)?;
    let mode = facts.text(&format!("{disk}/provisioning_mode"))?;
    let name = disk.rsplit('/').next()?;
    Some((format!("/sys/class/scsi_disk/{name}/provisioning_mode"), mode))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interface_of_a_usb_disk_is_found_in_its_path() {
        let directory =
            "/sys/devices/pci0/usb2/2-1.4/2-1.4:1.0/host6/target6:0:0/6:0:0:0/block/sdb";
        let interface = usb_interface(directory).unwrap();
        assert_eq!(interface, "/sys/devices/pci0/usb2/2-1.4/2-1.4:1.0");
        assert_eq!(usb_interface("/sys/devices/pci0/ata1/host0/target0:0:0/0:0:0:0/sda"), None);
    }
}
