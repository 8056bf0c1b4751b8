//! Removes what a killed program has left: the mount of its file, and the loop device on that file.
//!
//! Neither a name nor a record is enough to take something for a leftover. A mount has to be of the kind that
//! this program makes, made by this user, and dead: the program that answered for it has ended. A loop device
//! has to be on the file in the killed program's own directory.

use std::io;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::mount::{UnmountFlags, unmount};
use ssdlab_blockdev::Mount;

use crate::device::{backing_file, run};
use crate::error::AttachError;
use crate::users;

/// Source of the FUSE mount of a drive in the mount table; `FILE_SYSTEM_TYPES` are its file system types. Root's mounts
/// have no subtype.
const SOURCE: &str = "ssdlab";
const FILE_SYSTEM_TYPES: [&str; 2] = ["fuse", "fuse.ssdlab"];

/// Unmounts the file of a drive at `directory` if its program has ended. Returns true if it did; every other
/// mount stays.
///
/// # Errors
/// Returns an error if the system refuses to unmount it.
pub(crate) fn unmount_stale(directory: &Path) -> io::Result<bool> {
    let user = rustix::process::geteuid();
    let found = users::mount_at(directory).is_some_and(|mount| is_ours(&mount, user.as_raw()));
    if !found || !is_stale(directory) {
        return Ok(false);
    }
    if user.is_root() {
        unmount(directory, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW)?;
        return Ok(true);
    }
    // Users other than root need a setuid tool to unmount their FUSE mounts.
    let mut outcome = Err(io::ErrorKind::NotFound.into());
    for tool in ["fusermount3", "fusermount"] {
        let mut command = Command::new(tool);
        command.args(["-u", "-z", "--"]).arg(directory).stdin(Stdio::null());
        outcome = command.output();
        if outcome.is_ok() {
            break;
        }
    }
    let output = outcome?;
    if output.status.success() {
        return Ok(true);
    }
    Err(io::Error::other(String::from_utf8_lossy(&output.stderr).trim().to_owned()))
}

/// Returns true if `mount` is of the kind that this program makes, and was made by `user`.
fn is_ours(mount: &Mount, user: u32) -> bool {
    let by_user = format!("user_id={user}");
    let is_drive = mount.source == Path::new(SOURCE)
        && FILE_SYSTEM_TYPES.contains(&mount.file_system.as_str());
    is_drive && mount.options.contains(&by_user)
}

/// Returns true if no process answers any more for the FUSE mount of `path`. Uses `statfs`, which the kernel
/// does not cache, unlike `stat`.
pub(crate) fn is_stale(path: &Path) -> bool {
    rustix::fs::statfs(path).is_err_and(|error| error == rustix::io::Errno::NOTCONN)
}

/// Unmounts and detaches the loop device `device`, if it is on the file of a drive in `directory`.
///
/// # Errors
/// Returns an error if the device is still in use.
pub(crate) fn detach_loop(device: &str, directory: &Path) -> Result<(), AttachError> {
    let is_on_it =
        backing_file(device).is_some_and(|file| Path::new(file.trim()).starts_with(directory));
    if !is_on_it {
        return Ok(());
    }
    for point in users::mount_points(device).into_iter().rev() {
        run("umount", &[&point])?;
    }
    run("losetup", &["--detach", device])?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_mount_of_our_kind_by_this_user_is_ours() {
        let mount = |source: &str, kind: &str, options: &str| {
            let line = format!("30 1 0:40 / /at rw,nosuid - {kind} {source} {options}");
            Mount::parse(line.as_bytes()).expect("a mount")
        };
        assert!(is_ours(&mount("ssdlab", "fuse", "rw,user_id=0,group_id=0"), 0));
        let of_user = mount("ssdlab", "fuse.ssdlab", "rw,nosuid,user_id=1000,group_id=1000");
        assert!(is_ours(&of_user, 1000));
        assert!(!is_ours(&of_user, 100));
        assert!(!is_ours(&of_user, 0));
        assert!(!is_ours(&mount("host:", "fuse.sshfs", "rw,user_id=1000"), 1000));
        assert!(!is_ours(&mount("/dev/sda1", "fuse", "rw,user_id=0"), 0));
        assert!(!is_ours(&mount("ssdlab", "ext4", "rw"), 0));
    }

    #[test]
    fn what_is_no_mount_stays() {
        let directory = tempfile::tempdir().expect("a directory");
        assert!(!unmount_stale(directory.path()).expect("nothing is done"));
        assert!(!unmount_stale(Path::new("/proc")).expect("nothing is done"));
        assert!(std::fs::metadata("/proc/self").is_ok());
    }
}
