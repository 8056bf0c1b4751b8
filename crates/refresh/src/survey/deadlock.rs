//! Refuses to freeze a file system on which something lies that the refresh itself waits for.

use std::fs;
use std::path::{Path, PathBuf};

use ssdlab_blockdev::{DeviceNumber, mounts};

use crate::{DriveError, ErrorKind, refused};

/// A file that must not lie on a file system that will be frozen: whoever writes to it would wait for the
/// thaw, and the refresh for the writer.
#[derive(Clone, Debug)]
pub struct RequiredFile {
    /// Name of the file's purpose, in words.
    pub what: String,
    /// Path of the file.
    pub path: PathBuf,
    /// Advice, in words.
    pub advice: &'static str,
}

impl RequiredFile {
    /// The directory of journals, which must not be frozen.
    pub fn journal(path: PathBuf) -> RequiredFile {
        let what = "the journal".to_owned();
        RequiredFile {
            what,
            path,
            advice: "name another place for it, such as --journal /run/ssdlab",
        }
    }
}

/// Returns an error if a needed file lies on the file system of `path`, which would be frozen and has the
/// device number `frozen` in the list of mounts. Needed are the files in `required`, writable files behind
/// loop devices, and the files that standard output and standard error go to.
///
/// # Errors
/// [`crate::ErrorKind::Refused`], with the file, or if the list of mounts cannot be read.
pub fn refuse_deadlock(
    path: &Path,
    frozen: DeviceNumber,
    required: &[RequiredFile],
) -> Result<(), DriveError> {
    let shown = path;
    let mounts = mounts::all().map_err(|error| {
        let what = "cannot read the list of mounts, and so not tell what a freeze would block; \
                    nothing was changed";
        DriveError::with_source(ErrorKind::Refused, what, error)
    })?;
    let frozen = Some(frozen);
    let mount_below = |path: &Path| -> Option<DeviceNumber> {
        mounts::above(path, &mounts).map(|mount| mount.device)
    };
    // A file that does not exist yet will lie on the file system of its directory.
    let resolved = |path: &Path| path.ancestors().find_map(|it| fs::canonicalize(it).ok());
    let mount_id = |path: &Path| resolved(path).and_then(|path| mount_below(&path));
    let mut all: Vec<RequiredFile> = required.to_vec();
    let streams = [(1, "standard output"), (2, "standard error")];
    all.extend(streams.map(|(stream, what)| RequiredFile {
        what: what.to_owned(),
        path: PathBuf::from(format!("/proc/self/fd/{stream}")),
        advice: "redirect it to another file system, such as /run",
    }));
    for it in &all {
        let is_file = fs::metadata(&it.path)
            .map_or(true, |found| found.file_type().is_file() || found.file_type().is_dir());
        if is_file && mount_id(&it.path) == frozen {
            return Err(deadlock_error(shown, it));
        }
    }
    // Only the names of these files are examined, not the files: one may lie on a file system of a
    // program that does not answer any more (FUSE).
    for image in loop_backing_files(Path::new("/sys/block")) {
        if mount_below(&image.path) == frozen {
            return Err(deadlock_error(shown, &image));
        }
    }
    Ok(())
}

fn deadlock_error(frozen: &Path, it: &RequiredFile) -> DriveError {
    refused(format!(
        "the file system of {} would have to be frozen, and {} lies on it ({}): a write there \
         would wait for ever; {}; nothing was changed",
        frozen.display(),
        it.what,
        it.path.display(),
        it.advice
    ))
}

/// Returns the files behind loop devices that are written to. Those that are only read (images of snaps)
/// hold up nobody.
fn loop_backing_files(blocks: &Path) -> Vec<RequiredFile> {
    let devices = fs::read_dir(blocks).into_iter().flatten().flatten();
    devices
        .filter_map(|entry| {
            let file = fs::read_to_string(entry.path().join("loop/backing_file")).ok()?;
            let is_read_only = fs::read_to_string(entry.path().join("ro"));
            if is_read_only.is_ok_and(|it| it.trim() == "1") {
                return None;
            }
            let name = entry.file_name();
            Some(RequiredFile {
                what: format!("the file behind /dev/{}", name.to_string_lossy()),
                path: PathBuf::from(file.trim_end()),
                advice: "detach it first (losetup --detach)",
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use ssdlab_blockdev::place;

    use super::*;

    /// Returns the device number of the file system of a directory.
    fn number_of(directory: &Path) -> DeviceNumber {
        let file = fs::File::open(directory).unwrap();
        place::mount_of_file(&file).unwrap().device
    }

    #[test]
    fn what_we_need_must_not_be_frozen() {
        let directory = tempfile::tempdir().unwrap();
        let required = |path: PathBuf| [RequiredFile::journal(path)];
        let inside = required(directory.path().join("not/there/yet"));
        let frozen = number_of(directory.path());
        let error = refuse_deadlock(directory.path(), frozen, &inside).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Refused);
        assert!(error.to_string().contains("the journal lies on it"), "{error}");
        assert!(error.to_string().contains("--journal /run/"), "{error}");
        let Ok(other) = tempfile::tempdir_in("/dev/shm") else { return };
        let outside = required(directory.path().to_owned());
        // Where the output of tests goes, or the file of a loop device lies, is beyond this test.
        let frozen = number_of(other.path());
        if let Err(error) = refuse_deadlock(other.path(), frozen, &outside) {
            assert!(!error.to_string().contains("the journal"), "{error}");
        }
    }

    #[test]
    fn a_file_behind_a_loop_device_that_is_only_read_holds_nobody_up() {
        let blocks = tempfile::tempdir().unwrap();
        for (name, is_read_only) in [("loop1", "1\n"), ("loop2", "0\n"), ("loop3", "")] {
            let directory = blocks.path().join(name);
            fs::create_dir_all(directory.join("loop")).unwrap();
            fs::write(directory.join("loop/backing_file"), format!("/{name}.img\n")).unwrap();
            fs::write(directory.join("ro"), is_read_only).unwrap();
        }
        let mut found: Vec<PathBuf> =
            loop_backing_files(blocks.path()).into_iter().map(|it| it.path).collect();
        found.sort();
        assert_eq!(found, [Path::new("/loop2.img"), Path::new("/loop3.img")]);
    }
}
