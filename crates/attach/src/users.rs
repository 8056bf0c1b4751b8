//! Users of a block device: mounts, swap, and devices that are built on it or on its partitions.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use ssdlab_blockdev::{Mount, mounts};

/// Returns the mount points of a block device, in the order of the mounts.
pub(crate) fn mount_points(device: &str) -> Vec<String> {
    points_of(device, &mounts::all().unwrap_or_default())
}

fn points_of(device: &str, mounts: &[Mount]) -> Vec<String> {
    let of_it = mounts.iter().filter(|mount| mount.source == Path::new(device));
    of_it.map(|mount| mount.point.to_string_lossy().into_owned()).collect()
}

/// Returns the mount at `directory`, a full path without symbolic links; the latest if there are several.
pub(crate) fn mount_at(directory: &Path) -> Option<Mount> {
    last_at(directory, mounts::all().unwrap_or_default())
}

fn last_at(directory: &Path, mounts: Vec<Mount>) -> Option<Mount> {
    mounts.into_iter().rev().find(|mount| mount.point == directory)
}

/// Opens a device exclusively (`O_EXCL`), for as long as the result is kept; `None` if it is in use. The kernel
/// decides, so mounts in other name spaces, swap, RAID, volumes and uses of partitions count.
///
/// # Errors
/// Returns an error if the device cannot be opened for another reason.
pub(crate) fn claim(device: &str) -> io::Result<Option<File>> {
    match OpenOptions::new().read(true).custom_flags(libc::O_EXCL).open(device) {
        Err(error) if error.kind() == io::ErrorKind::ResourceBusy => Ok(None),
        opened => opened.map(Some),
    }
}

/// Returns the users of a device, as text; "the kernel" if the system does not name them.
pub(crate) fn names(device: &str) -> String {
    let name = device.trim_start_matches("/dev/");
    let directory = Path::new("/sys/class/block").join(name);
    let mut parts: Vec<String> = vec![name.to_owned()];
    parts.extend(names_in(&directory).into_iter().filter(|part| part.starts_with(name)));
    let swaps = mounts::swaps().unwrap_or_default();
    let mut users = Vec::new();
    for part in parts {
        let file = format!("/dev/{part}");
        users
            .extend(mount_points(&file).into_iter().map(|at| format!("{part} is mounted at {at}")));
        let holders = names_in(&Path::new("/sys/class/block").join(&part).join("holders"));
        users.extend(holders.into_iter().map(|holder| format!("{part} is held by {holder}")));
        if swaps.iter().any(|swap| swap == Path::new(&file)) {
            users.push(format!("{part} is swap space"));
        }
    }
    if users.is_empty() { "the kernel has claimed it".to_owned() } else { users.join(", ") }
}

fn names_in(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut names: Vec<String> =
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_mounts_of_a_device_count_and_the_last_one_at_a_directory() {
        let table = b"21 1 7:0 / /a\\040b rw - ext4 /dev/loop0 rw\n\
            22 1 7:1 / /c rw - ext4 /dev/loop1 rw\n\
            23 1 7:0 / /c rw - ext4 /dev/loop0 rw\n";
        let mounts = mounts::read(table);
        assert_eq!(points_of("/dev/loop0", &mounts), ["/a b", "/c"]);
        assert_eq!(points_of("/dev/loop", &mounts), [""; 0]);
        let last = last_at(Path::new("/c"), mounts.clone()).expect("a mount");
        assert_eq!(last.source, Path::new("/dev/loop0"));
        assert_eq!(last_at(Path::new("/"), mounts), None);
    }
}
