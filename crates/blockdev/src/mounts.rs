//! Mounts and active swap, from two tables of the kernel.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use super::device::{DeviceNumber, System};
use super::portable::{self, path_from};

/// One line of `/proc/self/mountinfo`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// Identifier of the mount, as `statx` returns it.
    pub id: u64,
    /// Device number that `stat` returns for files of the mount.
    pub device: DeviceNumber,
    /// The directory of the file system that is mounted: `/`, but for bind mounts and subvolumes.
    pub root: PathBuf,
    /// Mount point.
    pub point: PathBuf,
    /// Type of the file system: `ext4`, ...
    pub file_system: String,
    /// Source of the mount: a device file, mostly.
    pub source: PathBuf,
    /// Options of the mount and of the file system.
    pub options: Vec<String>,
}

impl Mount {
    /// Parses a line; `None` if it is malformed.
    pub fn parse(line: &[u8]) -> Option<Mount> {
        let fields: Vec<&[u8]> = line.split(|&byte| byte == b' ').collect();
        // Optional fields lie between the sixth field and a lone dash.
        let dash = fields.iter().skip(6).position(|field| field == b"-")? + 6;
        let text = |index: usize| std::str::from_utf8(fields.get(index)?).ok();
        let options = [text(5)?, text(dash + 3).unwrap_or("")];
        Some(Mount {
            id: text(0)?.parse().ok()?,
            device: DeviceNumber::parse(text(2)?)?,
            root: unescaped(fields[3]),
            point: unescaped(fields[4]),
            file_system: text(dash + 1)?.to_owned(),
            source: unescaped(fields.get(dash + 2)?),
            options: (options.iter().flat_map(|list| list.split(','))).map(str::to_owned).collect(),
        })
    }
}

/// Decodes a path in which the kernel wrote blanks and the like as a backslash and three octal digits.
fn unescaped(field: &[u8]) -> PathBuf {
    let mut path = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&byte, behind)) = rest.split_first() {
        let code = (byte == b'\\')
            .then(|| std::str::from_utf8(behind.get(..3)?).ok())
            .flatten()
            .and_then(|digits| u8::from_str_radix(digits, 8).ok());
        path.push(code.unwrap_or(byte));
        rest = if code.is_some() { &behind[3..] } else { behind };
    }
    path_from(&path)
}

/// Returns the mounts of a table such as `/proc/self/mountinfo`, in the order they were made.
pub fn read(table: &[u8]) -> Vec<Mount> {
    table.split(|&byte| byte == b'\n').filter_map(Mount::parse).collect()
}

/// Returns the mounts that this process sees.
///
/// # Errors
/// Returns an error if the table cannot be read.
pub fn all() -> io::Result<Vec<Mount>> {
    Ok(read(&fs::read("/proc/self/mountinfo")?))
}

/// Returns the mount that a path without symbolic links lies on: the one with the longest mount point
/// above the path. Of several with the same mount point, the last one made hides the others.
pub fn above<'a>(path: &Path, mounts: &'a [Mount]) -> Option<&'a Mount> {
    let above = mounts.iter().filter(|mount| path.starts_with(&mount.point));
    above.max_by_key(|mount| mount.point.components().count())
}

/// Returns the files and devices of a table such as `/proc/swaps`.
pub fn read_swaps(table: &[u8]) -> Vec<PathBuf> {
    let lines = table.split(|&byte| byte == b'\n').skip(1);
    let names = lines.filter_map(|line| line.split(|&byte| byte == b' ').next());
    names.filter(|name| !name.is_empty()).map(unescaped).collect()
}

/// Returns the files and devices that are swapped to; none if the kernel has no swap support.
///
/// # Errors
/// Returns an error if the table cannot be read.
pub fn swaps() -> io::Result<Vec<PathBuf>> {
    match fs::read("/proc/swaps") {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        read => Ok(read_swaps(&read?)),
    }
}

/// Returns the type of the file system that an open file or directory lies on.
pub fn file_system_of(file: &File, system: &System) -> Option<String> {
    let mounted = mount_of(file, system).map(|mount| mount.file_system);
    mounted.or_else(|| file_system_by_number(file).map(str::to_owned))
}

/// Returns the block device that a mount lies on. The source of a mount is text from the time of
/// mounting, and by now that name may belong to another device; so it is used only if the mount has no
/// device number of a block device (btrfs).
pub fn device_of(mount: &Mount, system: &System) -> DeviceNumber {
    if mount.device.major > 0 {
        return mount.device;
    }
    (system.number_of)(&mount.source).unwrap_or(mount.device)
}

/// Returns the device number of the file system that a file lies on, if the operating system has such
/// numbers.
pub fn number_of_file_system(file: &File) -> Option<DeviceNumber> {
    portable::file_system(&file.metadata().ok()?)
}

/// Returns the mount that the file was opened through.
#[cfg(target_os = "linux")]
pub fn mount_of(file: &File, system: &System) -> Option<Mount> {
    use rustix::fs::{AtFlags, StatxFlags, statx};

    let mounts = system.mounts().ok()?;
    let facts = statx(file, c"", AtFlags::EMPTY_PATH, StatxFlags::MNT_ID).ok();
    let by_id = facts
        .filter(|facts| facts.stx_mask & StatxFlags::MNT_ID.bits() != 0)
        .and_then(|facts| mounts.iter().find(|mount| mount.id == facts.stx_mnt_id));
    // Before Linux 5.8 the kernel does not return the identifier; then any mount of the same device will
    // do.
    let by_device = || {
        let number = number_of_file_system(file)?;
        mounts.iter().find(|mount| mount.device == number)
    };
    by_id.or_else(by_device).cloned()
}

/// Returns the mount that the file was opened through; only Linux reports it.
#[cfg(not(target_os = "linux"))]
pub fn mount_of(_: &File, _: &System) -> Option<Mount> {
    None
}

/// Returns the type of a file system by its magic number, for a process that cannot see its mounts. Only
/// types that have a caveat, or on which no file is created, are known.
#[cfg(target_os = "linux")]
pub fn file_system_by_number(file: &File) -> Option<&'static str> {
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

/// Returns the type of a file system by its magic number; only Linux reports it.
#[cfg(not(target_os = "linux"))]
pub fn file_system_by_number(_: &File) -> Option<&'static str> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const PART: DeviceNumber = DeviceNumber { major: 8, minor: 2 };

    #[test]
    fn mounts_are_read_with_their_options() {
        let line = b"36 35 8:2 /sub /a\\134b rw,noatime shared:1 - ext4 /dev/sda2 rw,discard";
        let mount = Mount::parse(line).unwrap();
        assert_eq!(mount.point, Path::new("/a\\b"));
        assert_eq!((mount.id, mount.device), (36, PART));
        assert!(mount.options.iter().any(|option| option == "discard"));
        assert_eq!(Mount::parse(b""), None);
        assert_eq!(Mount::parse(b"36 35 8:2 / /x rw ext4 /dev/sda2 rw"), None);
    }

    #[test]
    fn a_path_lies_on_the_deepest_mount_and_the_last_of_those_at_one_place() {
        let table = [("/", "ext4"), ("/home", "xfs"), ("/home", "btrfs")]
            .map(|(point, kind)| format!("22 1 8:1 / {point} rw - {kind} /dev/sda1 rw\n"))
            .concat();
        let mounts = read(table.as_bytes());
        let kind = |path| above(Path::new(path), &mounts).map(|it| it.file_system.as_str());
        assert_eq!(kind("/home/user"), Some("btrfs"));
        assert_eq!(kind("/homes"), Some("ext4"));
        assert_eq!(kind("relative"), None);
    }

    #[test]
    fn swaps_are_read_with_blanks_in_their_names() {
        let table = b"Filename Type Size Used Priority\n/a\\040b file 1 0 -2\n";
        assert_eq!(read_swaps(table), [Path::new("/a b")]);
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
        // btrfs has device numbers of its own.
        assert_eq!(lies_on("0:40"), "253:7");
    }
}
