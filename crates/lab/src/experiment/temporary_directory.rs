//! Temporary directories for the files of an experiment.
//!
//! A process that is killed cannot remove its directory. Therefore a shell waits for the end of this process,
//! and removes the directory if it still exists.

use std::fs;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use ssdlab_drive::{DriveError, ErrorKind};

use crate::error::LabError;

/// Prefix of the names of such directories.
const PREFIX: &str = "ssdlab-files-";

/// A temporary directory of this run. It is removed with its contents when this value is dropped.
pub(super) struct TemporaryDirectory {
    path: PathBuf,
    /// Process that waits for the end of its input, which closes when this process ends in any way.
    guard: Option<Child>,
}

/// Script of the guard. Ctrl-C reaches the guard, too, and must not end it. A process that still writes to
/// the directory gets a second to end.
const GUARD_SCRIPT: &str = "trap '' INT TERM HUP; cat > /dev/null; \
                     rm -rf -- \"$1\" || { sleep 1; rm -rf -- \"$1\"; }";

fn guard(path: &Path) -> Option<Child> {
    let mut shell = Command::new("sh");
    shell.args(["-c", GUARD_SCRIPT, "sh"]).arg(path);
    shell.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    // Without a guard, only a run that is killed leaves its directory behind.
    shell.current_dir("/").spawn().ok()
}

impl TemporaryDirectory {
    /// Creates a directory with a unique name in `parent`.
    pub(super) fn create(parent: &Path) -> Result<TemporaryDirectory, LabError> {
        loop {
            let random = RandomState::new().build_hasher().finish();
            let path = parent.join(format!("{PREFIX}{random:016x}"));
            match create_private(&path) {
                Ok(()) => {
                    let guard = guard(&path);
                    return Ok(TemporaryDirectory { path, guard });
                }
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(error) => {
                    let what = format!("cannot make a directory in {}", parent.display());
                    return Err(io_error(what, error));
                }
            }
        }
    }

    /// Returns the path of the directory.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Ends the guard.
    fn end_guard(&mut self) {
        if let Some(mut guard) = self.guard.take() {
            drop(guard.stdin.take());
            let _ = guard.wait();
        }
    }

    /// Removes a directory that a killed run has left, if its name has the prefix. Returns true if it was
    /// removed.
    #[cfg(target_os = "linux")]
    pub(super) fn remove_leftover(path: &Path) -> bool {
        let is_ours = path
            .file_name()
            .and_then(|name| name.to_str())
            .and_then(|name| name.strip_prefix(PREFIX))
            .is_some_and(|rest| rest.len() == 16 && rest.bytes().all(|it| it.is_ascii_hexdigit()));
        let is_directory = fs::symlink_metadata(path).is_ok_and(|found| found.is_dir());
        is_ours && is_directory && fs::remove_dir_all(path).is_ok()
    }

    /// Makes all writes to the directory's file system durable (`syncfs`).
    pub(super) fn sync(&self) -> Result<(), LabError> {
        sync_file_system(&self.path)
    }

    /// Removes the directory and returns errors, which `drop` ignores.
    pub(super) fn remove(mut self) -> Result<(), LabError> {
        let path = self.path.clone();
        let outcome = fs::remove_dir_all(&path);
        self.end_guard();
        outcome.map_err(|error| io_error(format!("cannot remove {}", path.display()), error))
    }
}

impl Drop for TemporaryDirectory {
    fn drop(&mut self) {
        // Callers that need the error call `remove` before.
        let _ = fs::remove_dir_all(&self.path);
        self.end_guard();
    }
}

/// Creates a directory with access for its owner only.
fn create_private(path: &Path) -> std::io::Result<()> {
    #[cfg(unix)]
    return std::os::unix::fs::DirBuilderExt::mode(&mut fs::DirBuilder::new(), 0o700).create(path);
    #[cfg(not(unix))]
    fs::create_dir(path)
}

/// Makes all writes to a file system durable (`syncfs`). On systems other than Linux only an administrator
/// may do that, so this does nothing there.
pub(super) fn sync_file_system(path: &Path) -> Result<(), LabError> {
    #[cfg(target_os = "linux")]
    {
        let what = || format!("cannot sync the file system at {}", path.display());
        let directory = fs::File::open(path).map_err(|error| io_error(what(), error))?;
        rustix::fs::syncfs(&directory).map_err(|error| io_error(what(), error.into()))?;
    }
    #[cfg(not(target_os = "linux"))]
    let _ = path;
    Ok(())
}

/// Returns an error of the operating system.
pub(super) fn io_error(what: String, error: std::io::Error) -> LabError {
    let kind = match error.kind() {
        std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => ErrorKind::NoSpace,
        _ => ErrorKind::Io,
    };
    DriveError::with_source(kind, what, error).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_goes_with_its_value_and_all_that_is_in_it() {
        let parent = tempfile::tempdir().unwrap();
        let own = TemporaryDirectory::create(parent.path()).unwrap();
        fs::create_dir(own.path().join("sub")).unwrap();
        fs::write(own.path().join("sub/file"), "text").unwrap();
        own.sync().unwrap();
        drop(own);
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 0);
        TemporaryDirectory::create(parent.path()).unwrap().remove().unwrap();
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 0);
    }
}
