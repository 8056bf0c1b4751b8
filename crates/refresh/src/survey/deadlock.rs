//! What must not lie on a file system that is going to be frozen.

use std::fs;
use std::path::{Path, PathBuf};

use ssdlab_drive::real::{DeviceNumber, mounts};

use crate::{DriveError, refused};

/// What must not lie on a file system that is going to be frozen: who writes there would wait for
/// the thaw, and we for them.
#[derive(Clone, Debug)]
pub struct Needed {
    /// What it is, in words.
    pub what: String,
    /// Where it lies.
    pub path: PathBuf,
}

/// Refuses to freeze the file system of `directory` where something needed lies on it: what is
/// given, files that pose as block devices, and what we say goes to.
///
/// # Errors
/// [`crate::ErrorKind::Refused`], with what it is.
pub fn refuse_deadlock(directory: &Path, needed: &[Needed]) -> Result<(), DriveError> {
    let mounts = mounts::all().unwrap_or_default();
    let mount_below = |path: &Path| -> Option<DeviceNumber> {
        mounts::above(path, &mounts).map(|mount| mount.device)
    };
    // A file that is not there yet will lie where its directory does.
    let resolved = |path: &Path| path.ancestors().find_map(|it| fs::canonicalize(it).ok());
    let mount_id = |path: &Path| resolved(path).and_then(|path| mount_below(&path));
    let frozen = mount_id(directory);
    let mut all: Vec<Needed> = needed.to_vec();
    // These are not looked at, only their names: one may lie on a file system of a program's that
    // does not answer any more.
    for image in images_of_loop_devices() {
        if frozen.is_some() && mount_below(&image.path) == frozen {
            return Err(deadlock(directory, &image));
        }
    }
    let streams = [(1, "what is printed"), (2, "what is said")];
    all.extend(streams.map(|(stream, what)| Needed {
        what: what.to_owned(),
        path: PathBuf::from(format!("/proc/self/fd/{stream}")),
    }));
    for it in &all {
        let is_file = fs::metadata(&it.path)
            .map_or(true, |found| found.file_type().is_file() || found.file_type().is_dir());
        if is_file && frozen.is_some() && mount_id(&it.path) == frozen {
            return Err(deadlock(directory, it));
        }
    }
    Ok(())
}

fn deadlock(directory: &Path, it: &Needed) -> DriveError {
    refused(format!(
        "the file system of {} would have to be frozen, and {} lies on it ({}): whoever writes \
         there would wait for ever; put it elsewhere; nothing was changed",
        directory.display(),
        it.what,
        it.path.display()
    ))
}

/// Files that pose as block devices.
fn images_of_loop_devices() -> Vec<Needed> {
    let devices = fs::read_dir("/sys/block").into_iter().flatten().flatten();
    devices
        .filter_map(|entry| {
            let file = fs::read_to_string(entry.path().join("loop/backing_file")).ok()?;
            let name = entry.file_name();
            Some(Needed {
                what: format!("the file behind /dev/{}", name.to_string_lossy()),
                path: PathBuf::from(file.trim_end()),
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;

    #[test]
    fn what_we_need_must_not_be_frozen() {
        let directory = tempfile::tempdir().unwrap();
        let other = tempfile::tempdir_in("/dev/shm");
        let needed = |path: PathBuf| [Needed { what: "the journal".to_owned(), path }];
        let inside = needed(directory.path().join("not/there/yet"));
        let error = refuse_deadlock(directory.path(), &inside).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Refused);
        assert!(error.to_string().contains("the journal lies on it"), "{error}");
        let Ok(other) = other else { return };
        let outside = needed(directory.path().to_owned());
        // Where the output of tests goes, or a loop device's file, is not ours to say.
        if let Err(error) = refuse_deadlock(other.path(), &outside) {
            assert!(!error.to_string().contains("the journal"), "{error}");
        }
    }
}
