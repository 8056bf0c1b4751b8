//! What is mounted, and what is swapped to: two tables of the kernel's.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::device::DeviceNumber;

/// One line of `/proc/self/mountinfo`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// Its number, as `statx` tells it.
    pub id: u64,
    /// What `stat` of its files says that they lie on.
    pub device: DeviceNumber,
    /// The directory of the file system that is mounted: `/`, but for bind mounts and subvolumes.
    pub root: PathBuf,
    /// Where it is mounted.
    pub point: PathBuf,
    /// The kind of the file system: `ext4`, ...
    pub file_system: String,
    /// What is mounted: a device file, mostly.
    pub source: PathBuf,
    /// Options of the mount and of the file system.
    pub options: Vec<String>,
}

impl Mount {
    /// Reads a line; nothing where it is not one.
    pub fn parse(line: &[u8]) -> Option<Mount> {
        let fields: Vec<&[u8]> = line.split(|&byte| byte == b' ').collect();
        // Optional fields lie between the sixth one and a lone dash.
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

/// A path in which the kernel wrote blanks and the like as a backslash and three octal digits.
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
    OsStr::from_bytes(&path).into()
}

/// The mounts of a table such as `/proc/self/mountinfo`, in the order they were made.
pub fn read(table: &[u8]) -> Vec<Mount> {
    table.split(|&byte| byte == b'\n').filter_map(Mount::parse).collect()
}

/// The mounts that this process sees.
///
/// # Errors
/// When the kernel does not tell.
pub fn all() -> io::Result<Vec<Mount>> {
    Ok(read(&fs::read("/proc/self/mountinfo")?))
}

/// The mount that a path without symbolic links lies on: of the longest mount points above it, the
/// one made last, which hides those before it.
pub fn above<'a>(path: &Path, mounts: &'a [Mount]) -> Option<&'a Mount> {
    let above = mounts.iter().filter(|mount| path.starts_with(&mount.point));
    above.max_by_key(|mount| mount.point.components().count())
}

/// The files and devices of a table such as `/proc/swaps`.
pub fn read_swaps(table: &[u8]) -> Vec<PathBuf> {
    let lines = table.split(|&byte| byte == b'\n').skip(1);
    let names = lines.filter_map(|line| line.split(|&byte| byte == b' ').next());
    names.filter(|name| !name.is_empty()).map(unescaped).collect()
}

/// What is swapped to; nothing where the kernel cannot swap.
///
/// # Errors
/// When the kernel does not tell.
pub fn swaps() -> io::Result<Vec<PathBuf>> {
    match fs::read("/proc/swaps") {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        read => Ok(read_swaps(&read?)),
    }
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
}
