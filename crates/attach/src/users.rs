//! Who uses a block device: what is mounted of it, swapped to, or built on it or on its partitions.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Where a block device is mounted, as the system sees it, in the order of the mounts.
pub(crate) fn mount_points(device: &str) -> Vec<String> {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let of_it = mounts.lines().filter_map(|line| {
        let mut words = line.split(' ');
        (words.next() == Some(device)).then(|| unescaped(words.next().unwrap_or("")))
    });
    of_it.collect()
}

/// A mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mount {
    /// What is mounted.
    pub(crate) source: String,
    /// The kind of the file system.
    pub(crate) kind: String,
    /// Its options, with commas between.
    pub(crate) options: String,
}

/// Returns what is mounted at `directory`, which is named in full and without links: what was mounted last
/// where there is more than one.
pub(crate) fn mount_at(directory: &Path) -> Option<Mount> {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let at_it = |line: &&str| {
        let point = line.split(' ').nth(1);
        point.is_some_and(|point| Path::new(&unescaped(point)) == directory)
    };
    let mut words = mounts.lines().rev().find(at_it)?.split(' ').map(str::to_owned);
    let (source, _, kind) = (words.next()?, words.next()?, words.next()?);
    Some(Mount { source, kind, options: words.next()? })
}

/// Takes a device for this process alone, as long as what is returned is kept; nothing where somebody
/// has it. The kernel's word: it knows of mounts in other name spaces, too, of swap, of arrays and
/// volumes, and of all that is made of partitions.
///
/// # Errors
/// When the device cannot be asked.
pub(crate) fn claim(device: &str) -> io::Result<Option<File>> {
    match OpenOptions::new().read(true).custom_flags(libc::O_EXCL).open(device) {
        Err(error) if error.kind() == io::ErrorKind::ResourceBusy => Ok(None),
        opened => opened.map(Some),
    }
}

/// Those who have a device, in words; "the kernel" where it does not say who.
pub(crate) fn names(device: &str) -> String {
    let name = device.trim_start_matches("/dev/");
    let directory = Path::new("/sys/class/block").join(name);
    let mut parts: Vec<String> = vec![name.to_owned()];
    parts.extend(names_in(&directory).into_iter().filter(|part| part.starts_with(name)));
    let swaps = fs::read_to_string("/proc/swaps").unwrap_or_default();
    let mut users = Vec::new();
    for part in parts {
        let file = format!("/dev/{part}");
        users
            .extend(mount_points(&file).into_iter().map(|at| format!("{part} is mounted at {at}")));
        let holders = names_in(&Path::new("/sys/class/block").join(&part).join("holders"));
        users.extend(holders.into_iter().map(|holder| format!("{holder} is made of {part}")));
        if swaps.lines().any(|line| line.split(' ').next() == Some(&file)) {
            users.push(format!("{part} is swap space"));
        }
    }
    if users.is_empty() { "the kernel has it taken".to_owned() } else { users.join(", ") }
}

fn names_in(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut names: Vec<String> =
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// Mount tables write blanks and the like in octal.
fn unescaped(point: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = point.as_bytes();
    while let [first, tail @ ..] = rest {
        let code = (*first == b'\\')
            .then(|| tail.get(..3).and_then(|it| std::str::from_utf8(it).ok()))
            .flatten()
            .and_then(|it| u8::from_str_radix(it, 8).ok());
        match code {
            Some(code) => {
                bytes.push(code);
                rest = &tail[3..];
            }
            None => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mount_tables_are_read_as_they_are_written() {
        assert_eq!(unescaped("/a\\040b\\134c"), "/a b\\c");
        assert_eq!(unescaped("/a\\9"), "/a\\9");
    }
}
