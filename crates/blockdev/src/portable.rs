//! Unix facts about files, and their substitutes on other systems, on which no file is a block device.

use std::fs::Metadata;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::device::DeviceNumber;

/// Decodes a path from the kernel's bytes.
#[cfg(unix)]
pub(crate) fn path_from(bytes: &[u8]) -> PathBuf {
    use std::os::unix::ffi::OsStrExt;
    std::ffi::OsStr::from_bytes(bytes).into()
}

/// Decodes a path from the kernel's bytes.
#[cfg(not(unix))]
pub(crate) fn path_from(bytes: &[u8]) -> PathBuf {
    String::from_utf8_lossy(bytes).into_owned().into()
}

/// Returns the number of the block device that this metadata belongs to; `None` for other files.
#[cfg(unix)]
pub(crate) fn block_device(facts: &Metadata) -> Option<DeviceNumber> {
    use std::os::unix::fs::{FileTypeExt, MetadataExt};
    facts.file_type().is_block_device().then(|| DeviceNumber::from_raw(facts.rdev()))
}

/// Returns `None`: no file is a block device here.
#[cfg(not(unix))]
pub(crate) fn block_device(_: &Metadata) -> Option<DeviceNumber> {
    None
}

/// Returns the device number of the file system that this metadata is from.
#[cfg(unix)]
pub(crate) fn file_system(facts: &Metadata) -> Option<DeviceNumber> {
    Some(DeviceNumber::from_raw(std::os::unix::fs::MetadataExt::dev(facts)))
}

/// Returns `None`: there are no device numbers here.
#[cfg(not(unix))]
pub(crate) fn file_system(_: &Metadata) -> Option<DeviceNumber> {
    None
}

/// Returns true if both paths lead to the same file.
#[cfg(unix)]
pub(crate) fn is_same_file(one: &Path, other: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let identity = |path: &Path| std::fs::metadata(path).map(|found| (found.dev(), found.ino()));
    matches!((identity(one), identity(other)), (Ok(one), Ok(other)) if one == other)
}

/// Returns true if both paths lead to the same file.
#[cfg(not(unix))]
pub(crate) fn is_same_file(one: &Path, other: &Path) -> bool {
    let full = |path: &Path| std::fs::canonicalize(path);
    matches!((full(one), full(other)), (Ok(one), Ok(other)) if one == other)
}

/// Returns true if the kernel reports that the device at `path` is claimed.
#[cfg(unix)]
pub(crate) fn is_claimed(path: &Path) -> bool {
    use std::os::unix::fs::OpenOptionsExt;
    // On a block device this flag alone requests exclusive use, and creates nothing.
    let flags = rustix::fs::OFlags::EXCL.bits() as i32;
    let opened = std::fs::OpenOptions::new().read(true).custom_flags(flags).open(path);
    opened.is_err_and(|error| error.kind() == std::io::ErrorKind::ResourceBusy)
}

/// Returns false: no file is a block device here.
#[cfg(not(unix))]
pub(crate) fn is_claimed(_: &Path) -> bool {
    false
}

/// Puts a program that will be started into a process group of its own, so that Ctrl-C does not reach it.
pub(crate) fn in_own_process_group(command: &mut Command) -> &mut Command {
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(command, 0);
    command
}

/// Returns true if this metadata belongs to a file that can be executed.
pub(crate) fn is_executable(facts: &Metadata) -> bool {
    #[cfg(unix)]
    let may = std::os::unix::fs::PermissionsExt::mode(&facts.permissions()) & 0o111 != 0;
    #[cfg(not(unix))]
    let may = true;
    facts.is_file() && may
}
