//! What a file lies on: the file system, the device below, and whatever of it keeps figures from
//! being those of an SSD.

use std::fs::File;
use std::os::unix::fs::MetadataExt;

use super::device::{DeviceNumber, System};
use super::gate::OpenDevice;
use super::identity::{Identity, text_in};
use super::mounts::Mount;

/// What is known about the place of a file. Nothing here is needed to measure, so what cannot be
/// found out is left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Surroundings {
    pub(super) facts: Vec<(String, String)>,
    pub(super) caveats: Vec<String>,
    /// Whether nothing known keeps figures from being those of flash.
    pub(super) measures_flash: bool,
    /// Whether space that the file system frees is trimmed on the drive; `None` if unknown.
    pub(super) discards: Option<bool>,
    /// The drive below, where there is one.
    pub(super) drive: Option<Identity>,
    /// The file system and where it is mounted: `ext4 on /`.
    pub(super) mounted: Option<String>,
}

impl Surroundings {
    /// Looks around an open file.
    pub(super) fn of(file: &File, system: &System) -> Self {
        let mut found = Surroundings::none();
        let mount = mount_of(file, system);
        let name = match &mount {
            Some(mount) => {
                let point = mount.point.display();
                found.fact("file system", format!("{} at {point}", mount.file_system));
                found.fact("mount options", mount.options.join(","));
                found.mounted = Some(format!("{} on {point}", mount.file_system));
                found.discards = Some(mount.options.iter().any(|option| option == "discard"));
                Some(mount.file_system.clone())
            }
            None => file_system_by_number(file).map(str::to_owned),
        };
        if let Some(name) = name {
            found.except_for(file_system_caveat(&name));
        }
        let number = mount
            .map(|mount| device_of(&mount, system))
            .or_else(|| Some(DeviceNumber::from_raw(file.metadata().ok()?.dev())));
        if let Some(number) = number {
            found.look_at_device(number, Identity::of(number, system));
        }
        found
    }

    /// Looks at a block device that is reached as it is.
    pub(super) fn of_device(device: &OpenDevice) -> Self {
        let mut found = Surroundings::none();
        found.look_at_device(device.number, device.identity.clone());
        found
    }

    fn none() -> Self {
        Surroundings {
            facts: Vec::new(),
            caveats: Vec::new(),
            measures_flash: true,
            discards: None,
            drive: None,
            mounted: None,
        }
    }

    /// Notes what keeps figures from being those of flash, if anything does.
    fn except_for(&mut self, caveat: Option<String>) {
        self.measures_flash &= caveat.is_none();
        self.caveats.extend(caveat);
    }

    fn fact(&mut self, name: &str, value: String) {
        self.facts.push((name.to_owned(), value));
    }

    fn look_at_device(&mut self, number: DeviceNumber, drive: Identity) {
        if drive.name.is_empty() {
            return;
        }
        self.fact("block device", format!("{} ({number})", drive.name));
        let words = |text: &Option<String>| text.clone();
        let setting = |name: &str| text_in(&drive.directory.join("queue").join(name));
        let scheduler = setting("scheduler").map(|list| chosen(&list).to_owned());
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
            ("discards", Some(drive.discard_words())),
        ] {
            if let Some(value) = value {
                self.fact(name, value);
            }
        }
        self.except_for(device_caveat(&drive.disk, is_rotational));
        self.drive = Some(drive);
    }
}

/// The name of the file system that an open file or directory lies on.
pub(super) fn file_system_of(file: &File, system: &System) -> Option<String> {
    let mounted = mount_of(file, system).map(|mount| mount.file_system);
    mounted.or_else(|| file_system_by_number(file).map(str::to_owned))
}

/// What keeps a file system's figures from being the drive's, if anything does.
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
            "never overwrites in place: it scatters what is overwritten itself, above the drive"
        }
        name if name == "fuse" || name.starts_with("fuse.") => {
            "is served by a process: its figures are not a drive's"
        }
        _ => return None,
    };
    Some(format!("the file system {name} {why}"))
}

/// What keeps a block device's figures from being an SSD's, if anything does.
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
        Some(format!("the kernel calls {name} a rotating disk"))
    } else {
        None
    }
}

/// The block device that a mount lies on. What it says of its source is text from the time when it was
/// mounted, and that name may be another device's by now; so it counts only where the mount has no
/// device's number (btrfs).
pub(super) fn device_of(mount: &Mount, system: &System) -> DeviceNumber {
    if mount.device.major > 0 {
        return mount.device;
    }
    (system.number_of)(&mount.source).unwrap_or(mount.device)
}

/// The mount that the file was opened through.
#[cfg(target_os = "linux")]
pub(super) fn mount_of(file: &File, system: &System) -> Option<Mount> {
    use rustix::fs::{AtFlags, StatxFlags, statx};

    let mounts = system.mounts().ok()?;
    let facts = statx(file, c"", AtFlags::EMPTY_PATH, StatxFlags::MNT_ID).ok();
    let by_id = facts
        .filter(|facts| facts.stx_mask & StatxFlags::MNT_ID.bits() != 0)
        .and_then(|facts| mounts.iter().find(|mount| mount.id == facts.stx_mnt_id));
    // Before 5.8 the kernel does not say; then any mount of the same device will do.
    let by_device = || {
        let number = DeviceNumber::from_raw(file.metadata().ok()?.dev());
        mounts.iter().find(|mount| mount.device == number)
    };
    by_id.or_else(by_device).cloned()
}

#[cfg(not(target_os = "linux"))]
pub(super) fn mount_of(_: &File, _: &System) -> Option<Mount> {
    None
}

/// The file system's name from its magic number, for a process that cannot see its mounts; only
/// those that have a caveat, or on which no file is created.
#[cfg(target_os = "linux")]
fn file_system_by_number(file: &File) -> Option<&'static str> {
    match rustix::fs::fstatfs(file).ok()?.f_type as u32 {
        0x9fa0 => Some("proc"),
        0x6265_6572 => Some("sysfs"),
        0x0102_1994 => Some("tmpfs"),
        0x8584_58f6 => Some("ramfs"),
        0x794c_7630 => Some("overlay"),
        0x6969 => Some("nfs"),
        0xff53_4d42 | 0xfe53_4d42 => Some("cifs"),
        0x6573_5546 => Some("fuse"),
        0x0102_1997 => Some("9p"),
        0x00c3_6400 => Some("ceph"),
        0x9123_683e => Some("btrfs"),
        0x2fc1_2fc1 => Some("zfs"),
        0xca45_1a4e => Some("bcachefs"),
        0xf2f5_2010 => Some("f2fs"),
        _ => None,
    }
}

#[cfg(not(target_os = "linux"))]
fn file_system_by_number(_: &File) -> Option<&'static str> {
    None
}

/// The one in brackets of a list such as `none [mq-deadline] kyber`.
fn chosen(list: &str) -> &str {
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
    fn a_mount_lies_on_the_device_of_its_number_whatever_has_its_old_name_by_now() {
        let other = |_: &std::path::Path| Some(DeviceNumber { major: 253, minor: 7 });
        let system = System { number_of: other, ..System::real() };
        let lies_on = |number: &str| {
            let line = format!("36 35 {number} / /srv rw - ext4 /dev/vg/data rw");
            device_of(&Mount::parse(line.as_bytes()).unwrap(), &system).to_string()
        };
        assert_eq!(lies_on("253:3"), "253:3");
        // btrfs has numbers of its own.
        assert_eq!(lies_on("0:40"), "253:7");
    }

    #[test]
    fn the_scheduler_in_use_is_the_one_in_brackets() {
        assert_eq!(chosen("none [mq-deadline] kyber"), "mq-deadline");
        assert_eq!(chosen("none"), "none");
    }
}
