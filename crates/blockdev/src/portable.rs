//! What Unix tells of files, and what stands for it on other systems: there no file is a block device.

use std::fs::Metadata;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::device::DeviceNumber;

/// Returns the path that the kernel's bytes name.
#[cfg(unix)]
pub(crate) fn path_from(bytes: &[u8]) -> PathBuf {
    use std::os::unix::ffi::OsStrExt;
    std::ffi::OsStr::from_bytes(bytes).into()
}

/// Returns the path that the kernel's bytes name.
#[cfg(not(unix))]
pub(crate) fn path_from(bytes: &[u8]) -> PathBuf {
    String::from_utf8_lossy(bytes).into_owned().into()
}

/// Returns the number of the block device that these facts are of; nothing for anything else.
#[cfg(unix)]
pub(crate) fn block_device(facts: &Metadata) -> Option<DeviceNumber> {
    use std::os::unix::fs::{FileTypeExt, MetadataExt};
    facts.file_type().is_block_device().then(|| DeviceNumber::from_raw(facts.rdev()))
}

/// Returns the number of the block device that these facts are of; nothing for anything else.
#[cfg(not(unix))]
pub(crate) fn block_device(_: &Metadata) -> Option<DeviceNumber> {
    None
}

/// Returns the device number of the file system that these facts are from.
#[cfg(unix)]
pub(crate) fn file_system(facts: &Metadata) -> Option<DeviceNumber> {
    Some(DeviceNumber::from_raw(std::os::unix::fs::MetadataExt::dev(facts)))
}

/// Returns the device number of the file system that these facts are from.
#[cfg(not(unix))]
pub(crate) fn file_system(_: &Metadata) -> Option<DeviceNumber> {
    None
}

/// Returns true if both paths lead to one file.
#[cfg(unix)]
pub(crate) fn is_one_file(one: &Path, other: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let identity = |path: &Path| std::fs::metadata(path).map(|found| (found.dev(), found.ino()));
    matches!((identity(one), identity(other)), (Ok(one), Ok(other)) if one == other)
}

/// Returns true if both paths lead to one file.
#[cfg(not(unix))]
pub(crate) fn is_one_file(one: &Path, other: &Path) -> bool {
    let full = |path: &Path| std::fs::canonicalize(path);
    matches!((full(one), full(other)), (Ok(one), Ok(other)) if one == other)
}

/// Returns true if the kernel says that the device at `path` is taken.
#[cfg(unix)]
pub(crate) fn is_claimed(path: &Path) -> bool {
    use std::os::unix::fs::OpenOptionsExt;
    // On a block device this flag alone asks for exclusive use, and creates nothing.
    let flags = rustix::fs::OFlags::EXCL.bits() as i32;
    let opened = std::fs::OpenOptions::new().read(true).custom_flags(flags).open(path);
    opened.is_err_and(|error| error.kind() == std::io::ErrorKind::ResourceBusy)
}

/// Returns true if the kernel says that the device at `path` is taken.
#[cfg(not(unix))]
pub(crate) fn is_claimed(_: &Path) -> bool {
    false
}

/// Keeps Ctrl-C from a program, where it would reach what this one starts.
pub(crate) fn out_of_reach_of_interrupts(command: &mut Command) -> &mut Command {
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(command, 0);
    command
}

/// Returns true if what these facts are of can be run.
pub(crate) fn can_be_run(facts: &Metadata) -> bool {
    #[cfg(unix)]
    let may = std::os::unix::fs::PermissionsExt::mode(&facts.permissions()) & 0o111 != 0;
    #[cfg(not(unix))]
    let may = true;
    facts.is_file() && may
}
