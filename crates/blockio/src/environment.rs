//! Environment of a file: its file system and the device below, and reasons why the figures are not
//! those of an SSD.

use std::fs::File;

use ssdlab_blockdev::mounts::{device_of, file_system_by_number, mount_of, number_of_file_system};
use ssdlab_blockdev::{DeviceNumber, Identity, System, text_in};

use super::gate::OpenDevice;

/// Known facts about the place of a file. They are not needed to measure, so unknown ones are left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Environment {
    pub(super) facts: Vec<(String, String)>,
    pub(super) caveats: Vec<String>,
    /// True if no reason is known why the figures are not those of flash.
    pub(super) measures_flash: bool,
    /// True if space that the file system frees is trimmed on the drive; `None` if unknown.
    pub(super) discards: Option<bool>,
    /// The drive below, or `None`.
    pub(super) drive: Option<Identity>,
    /// The file system and its mount point: `ext4 on /`.
    pub(super) mounted: Option<String>,
}

impl Environment {
    /// Examines the environment of an open file.
    pub(super) fn of(file: &File, system: &System) -> Self {
        let mut found = Environment::none();
        let mount = mount_of(file, system);
        let name = match &mount {
            Some(mount) => {
                let point = mount.point.display();
                found.add_fact("file system", format!("{} at {point}", mount.file_system));
                found.add_fact("mount options", mount.options.join(","));
                found.mounted = Some(format!("{} on {point}", mount.file_system));
                found.discards = Some(mount.options.iter().any(|option| option == "discard"));
                Some(mount.file_system.clone())
            }
            None => file_system_by_number(file).map(str::to_owned),
        };
        if let Some(name) = name {
            found.add_flash_caveat(file_system_caveat(&name));
        }
        let number =
            mount.map(|mount| device_of(&mount, system)).or_else(|| number_of_file_system(file));
        if let Some(number) = number {
            found.add_device(number, Identity::of(number, system));
        }
        found
    }

    /// Examines a block device that is used directly.
    pub(super) fn of_device(device: &OpenDevice) -> Self {
        let mut found = Environment::none();
        found.add_device(device.number, device.identity.clone());
        found
    }

    fn none() -> Self {
        Environment {
            facts: Vec::new(),
            caveats: Vec::new(),
            measures_flash: true,
            discards: None,
            drive: None,
            mounted: None,
        }
    }

    /// Adds a reason why the figures are not those of flash, if there is one.
    fn add_flash_caveat(&mut self, caveat: Option<String>) {
        self.measures_flash &= caveat.is_none();
        self.caveats.extend(caveat);
    }

    fn add_fact(&mut self, name: &str, value: String) {
        self.facts.push((name.to_owned(), value));
    }

    fn add_device(&mut self, number: DeviceNumber, drive: Identity) {
        if drive.name.is_empty() {
            return;
        }
        self.add_fact("block device", format!("{} ({number})", drive.name));
        let words = |text: &Option<String>| text.clone();
        let setting = |name: &str| text_in(&drive.directory.join("queue").join(name));
        let scheduler = setting("scheduler").map(|list| bracketed(&list).to_owned());
        let link = drive.link.as_ref().map(|link| {
            let speed = link.bytes_per_second as f64 / 1e6;
            format!("{}, {speed:.0} MB/s at most", link.name)
        });
        let is_rotational = setting("rotational").is_some_and(|is| is == "1");
        let rotational = if is_rotational { "yes" } else { "no" };
        for (name, value) in [
            ("model", words(&drive.model)),
            ("serial", words(&drive.serial)),
            ("firmware", words(&drive.firmware)),
            ("link", link),
            ("scheduler", scheduler),
            ("write cache", setting("write_cache")),
            ("FUA", setting("fua").map(|fua| if fua == "1" { "yes" } else { "no" }.to_owned())),
            ("rotational", setting("rotational").map(|_| rotational.to_owned())),
            ("discards", Some(drive.describe_discards())),
        ] {
            if let Some(value) = value {
                self.add_fact(name, value);
            }
        }
        self.add_flash_caveat(device_caveat(&drive.disk, is_rotational));
        self.drive = Some(drive);
    }
}

/// Returns the reason why the figures of a file system are not those of the drive, or `None`.
fn file_system_caveat(name: &str) -> Option<String> {
    let why = match name {
        "tmpfs" | "ramfs" | "devtmpfs" => "keeps its files in memory: no drive is measured",
        "overlay" | "aufs" => {
            "is stacked on others: which drive is measured depends on the layer below"
        }
        "nfs" | "nfs4" | "cifs" | "smb3" | "smb" | "9p" | "virtiofs" | "ceph" | "lustre"
        | "afs" | "glusterfs" => {
            "is reached over a network or from a host: its figures are not a drive's"
        }
        "btrfs" | "zfs" | "bcachefs" | "f2fs" | "nilfs2" => {
            "never overwrites in place: it scatters overwritten data itself, above the drive"
        }
        name if name == "fuse" || name.starts_with("fuse.") => {
            "is served by a process: its figures are not a drive's"
        }
        _ => return None,
    };
    Some(format!("the file system {name} {why}"))
}

/// Returns the reason why the figures of a block device are not those of an SSD, or `None`.
fn device_caveat(name: &str, rotational: bool) -> Option<String> {
    if name.starts_with("vd") || name.starts_with("xvd") {
        Some(format!(
            "{name} is a virtual disk: the host's caches and limits are part of what is measured"
        ))
    } else if name.starts_with("zram") || name.starts_with("ram") {
        Some(format!("{name} lies in memory: no drive is measured"))
    } else if name.starts_with("loop") {
        Some(format!("{name} is a file on another file system, whose cache may answer"))
    } else if rotational {
        Some(format!("the kernel reports {name} as a rotating disk"))
    } else {
        None
    }
}

/// Returns the entry in brackets of a list such as `none [mq-deadline] kyber`.
fn bracketed(list: &str) -> &str {
    list.split_once('[')
        .and_then(|(_, behind)| behind.split_once(']'))
        .map_or(list, |(chosen, _)| chosen)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_an_ssd_is_said() {
        assert_eq!(file_system_caveat("ext4"), None);
        assert_eq!(device_caveat("nvme0n1", false), None);
        assert!(file_system_caveat("tmpfs").unwrap().contains("memory"));
        assert!(file_system_caveat("fuse.sshfs").is_some());
        assert!(device_caveat("vda", true).unwrap().contains("virtual disk"));
        assert!(device_caveat("sda", true).unwrap().contains("rotating"));
    }

    #[test]
    fn the_scheduler_in_use_is_the_one_in_brackets() {
        assert_eq!(bracketed("none [mq-deadline] kyber"), "mq-deadline");
        assert_eq!(bracketed("none"), "none");
    }
}
