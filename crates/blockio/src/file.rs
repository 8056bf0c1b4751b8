//! The file that a run creates, uses and removes. No other file is ever opened for writing.

use std::collections::hash_map::RandomState;
use std::fs::{self, File};
use std::hash::{BuildHasher, Hasher};
use std::io;
use std::path::{Path, PathBuf};

use ssdlab_drive::phase::Region;
use ssdlab_error::{DriveError, ErrorKind};
use ssdlab_units::ByteLength;

use super::buffers::Buffers;
use super::handle::{Access, Handle, alignments_to_try, clear_direct, io_error, set_direct};
use super::os;
use super::target::Target;

/// A file that this process created. Dropping this value removes the file.
pub(super) struct OwnFile {
    pub(super) handle: Handle,
    /// Path at which to remove the file; `None` for a file that the system removes: one that has no name
    /// (any more), or one that is deleted when it is closed.
    path: Option<PathBuf>,
}

impl OwnFile {
    /// Creates an empty file as `target` says. If the file needs a name, it is unlinked right after, so
    /// that it disappears even when the process is killed.
    pub(super) fn create(target: &Target) -> Result<OwnFile, DriveError> {
        if let Some(name) = &target.file_name {
            let path = target.directory.join(name);
            let created = create_named(&path).map_err(|error| creation_error(&path, error));
            return created.map(OwnFile::unlinked);
        }
        match create_unnamed(&target.directory) {
            Some(Ok(file)) => {
                Ok(OwnFile { handle: Handle::of_file(file, &target.directory), path: None })
            }
            Some(Err(error)) => Err(creation_error(&target.directory, error)),
            None => create_in(&target.directory).map(OwnFile::unlinked),
        }
    }

    /// Unlinks the file. If that fails, the file keeps its name and is removed at the end.
    fn unlinked(mut self) -> OwnFile {
        let path = self.path.clone();
        if self.remove().is_err() {
            self.path = path;
        }
        self
    }

    /// Returns the path of the file until it is removed; `None` if the file has no name, so that the
    /// system removes it however this process ends.
    pub(super) fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// Enables direct I/O on the file, and tests if it works. Falls back to the page cache.
    pub(super) fn choose_access(&self) -> Result<Access, DriveError> {
        let failed = |error| {
            let what = format!("cannot write to a new file in {}", self.handle.shown.display());
            io_error(what, error)
        };
        for alignment in alignments_to_try(&self.handle.file) {
            if set_direct(&self.handle.file).is_err() {
                break;
            }
            match self.try_access(alignment) {
                Ok(()) => return Ok(Access::Direct { alignment }),
                Err(error) if error.kind() == io::ErrorKind::InvalidInput => {}
                Err(error) => return Err(failed(error)),
            }
        }
        clear_direct(&self.handle.file).map_err(failed)?;
        Ok(Access::Buffered)
    }

    /// Writes and reads one block of length and alignment `alignment`.
    fn try_access(&self, alignment: ByteLength) -> io::Result<()> {
        let mut buffers = Buffers::new(1, alignment).map_err(io::Error::other)?;
        let buffer = buffers.get(0);
        let outcome = os::write_all_at(&self.handle.file, buffer, alignment.bytes())
            .and_then(|()| os::read_exact_at(&self.handle.file, buffer, alignment.bytes()));
        self.handle.file.set_len(0)?;
        outcome
    }

    /// Sets the length of the file to `length`. Unwritten parts occupy no space.
    pub(super) fn set_length(&self, length: ByteLength) -> Result<(), DriveError> {
        self.handle.file.set_len(length.bytes()).map_err(|error| {
            let what = format!("cannot make {} {length} long", self.handle.shown.display());
            io_error(what, error)
        })
    }

    /// Returns the bytes that the file occupies.
    pub(super) fn occupied(&self) -> Result<ByteLength, DriveError> {
        os::occupied(&self.handle.file).map_err(|error| {
            let what = format!("cannot look at {}", self.handle.shown.display());
            io_error(what, error)
        })
    }

    /// Removes the file, if it is still the one that was created.
    pub(super) fn remove(&mut self) -> Result<(), DriveError> {
        let Some(path) = self.path.take() else {
            return Ok(());
        };
        let failed = |error| io_error(format!("cannot remove {}", path.display()), error);
        match fs::symlink_metadata(&path) {
            Ok(there) if os::is_same_file(&self.handle.file, &there).map_err(failed)? => {
                fs::remove_file(&path).map_err(failed)
            }
            // Somebody else removed the file, or put another file in its place, which must not be removed.
            Ok(_) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(failed(error)),
        }
    }
}

impl Drop for OwnFile {
    fn drop(&mut self) {
        // Callers that need the error call `remove` before.
        let _ = self.remove();
    }
}

impl OwnFile {
    /// Gives the space of a region back to the file system, durably.
    #[cfg(target_os = "linux")]
    pub(super) fn punch_hole(&self, region: Region) -> Result<(), DriveError> {
        use rustix::fs::{FallocateFlags, fallocate};
        use rustix::io::Errno;

        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        let (offset, length) = (region.offset.bytes(), region.length.bytes());
        fallocate(&self.handle.file, flags, offset, length).map_err(|error| match error {
            Errno::OPNOTSUPP | Errno::NOSYS => self.cannot_trim(),
            error => {
                let what = format!("trim of {} in {}", region.length, self.handle.shown.display());
                io_error(what, error.into())
            }
        })?;
        // The space is freed permanently, and the drive is told, only when the file system has committed
        // the change.
        let synced = self.handle.file.sync_all();
        synced.map_err(|error| io_error(format!("flush of {}", self.handle.shown.display()), error))
    }

    /// Gives the space of a region back to the file system; only Linux supports that.
    #[cfg(not(target_os = "linux"))]
    pub(super) fn punch_hole(&self, _: Region) -> Result<(), DriveError> {
        Err(self.cannot_trim())
    }

    fn cannot_trim(&self) -> DriveError {
        DriveError::new(
            ErrorKind::Unsupported,
            format!(
                "the file system at {} cannot punch holes in a file, which a trim needs",
                self.handle.shown.display()
            ),
        )
    }
}

fn creation_error(path: &Path, error: io::Error) -> DriveError {
    if error.kind() == io::ErrorKind::AlreadyExists {
        // The file came into being since the target was examined.
        return DriveError::new(
            ErrorKind::Refused,
            format!(
                "{} exists; ssdlab only writes files that it created; \
                 name a new file or a directory",
                path.display()
            ),
        );
    }
    io_error(format!("cannot create a file at {}", path.display()), error)
}

fn create_named(path: &Path) -> io::Result<OwnFile> {
    let file = os::create_new(path)?;
    let path_to_remove = (!os::DELETES_ON_CLOSE).then(|| path.to_owned());
    Ok(OwnFile { handle: Handle::of_file(file, path), path: path_to_remove })
}

/// Creates a file with an unused name, for file systems in which every file needs a name.
fn create_in(directory: &Path) -> Result<OwnFile, DriveError> {
    loop {
        // The standard library keys its hashes with random bytes of the system.
        let random = RandomState::new().build_hasher().finish();
        let path = directory.join(format!("ssdlab-{random:016x}.data"));
        match create_named(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            created => return created.map_err(|error| creation_error(&path, error)),
        }
    }
}

/// Creates a file without a name; `None` if the file system has no such files.
#[cfg(target_os = "linux")]
fn create_unnamed(directory: &Path) -> Option<io::Result<File>> {
    use rustix::fs::{Mode, OFlags};
    use rustix::io::Errno;

    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    match rustix::fs::open(directory, flags, Mode::RUSR | Mode::WUSR) {
        Ok(descriptor) => Some(Ok(descriptor.into())),
        // Errors of kernels and file systems that do not know the flag.
        Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL | Errno::NOENT) => None,
        Err(error) => Some(Err(error.into())),
    }
}

#[cfg(not(target_os = "linux"))]
fn create_unnamed(_: &Path) -> Option<io::Result<File>> {
    None
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use ssdlab_blockdev::System;

    use super::*;

    fn create(path: &Path) -> Result<OwnFile, DriveError> {
        OwnFile::create(&Target::classify(path, &System::real())?)
    }

    #[test]
    fn a_file_in_a_directory_goes_with_its_value() {
        let directory = tempfile::tempdir().unwrap();
        let file = create_in(directory.path()).unwrap();
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
        drop(file);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_file_that_took_our_name_is_not_removed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("named");
        let mut file = create_named(&path).unwrap();
        fs::remove_file(&path).unwrap();
        fs::write(&path, "someone else's").unwrap();
        file.remove().unwrap();
        drop(file);
        assert_eq!(fs::read_to_string(&path).unwrap(), "someone else's");
    }

    #[test]
    fn a_file_of_a_given_name_has_none_once_it_is_there() {
        let directory = tempfile::tempdir().unwrap();
        let file = create(&directory.path().join("named")).unwrap();
        assert_eq!(file.path(), None);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
        assert_eq!(file.handle.file.metadata().unwrap().nlink(), 0);
        let file = create_in(directory.path()).unwrap().unlinked();
        assert_eq!(file.path(), None);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_file_that_appears_after_the_check_is_not_opened() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("named");
        let target = Target::classify(&path, &System::real()).unwrap();
        fs::write(&path, "someone else's").unwrap();
        let error = OwnFile::create(&target).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Refused);
        assert_eq!(fs::read_to_string(&path).unwrap(), "someone else's");
    }

    #[test]
    fn trying_direct_access_leaves_the_file_empty() {
        let directory = tempfile::tempdir().unwrap();
        let file = create(directory.path()).unwrap();
        file.choose_access().unwrap();
        assert_eq!(file.handle.file.metadata().unwrap().len(), 0);
    }
}
