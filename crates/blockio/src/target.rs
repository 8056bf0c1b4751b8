//! The path that the user gave: a directory, a file to create, or something that must not be touched.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use ssdlab_blockdev::mounts::file_system_of;
use ssdlab_blockdev::{DeviceNumber, System};
use ssdlab_units::text::nearest;

use ssdlab_drive::DriveKind;
use ssdlab_error::{DriveError, ErrorKind};

use super::os;

/// Place where a file will be created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target {
    /// Path as the user gave it.
    pub(super) named: PathBuf,
    /// Directory of the file, with links resolved.
    pub(super) directory: PathBuf,
    /// Name of the file in the directory; `None` if any name will do.
    pub(super) file_name: Option<OsString>,
}

impl Target {
    /// Classifies `path`. Nothing is opened for writing and nothing is created.
    pub(super) fn classify(path: &Path, system: &System) -> Result<Target, DriveError> {
        let target = match fs::metadata(path) {
            Ok(metadata) if metadata.is_dir() => {
                Target { named: path.to_owned(), directory: canonical(path)?, file_name: None }
            }
            Ok(metadata) => return Err(existing(path, &metadata, system)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => new_file(path)?,
            Err(error) => {
                return Err(DriveError::with_source(
                    ErrorKind::Io,
                    format!("cannot look at {}", path.display()),
                    error,
                ));
            }
        };
        target.refuse_kernel_file_systems(system)?;
        Ok(target)
    }

    /// Returns an error for places whose files belong to the kernel and are not data (`/dev`, `/proc`,
    /// `/sys`).
    fn refuse_kernel_file_systems(&self, system: &System) -> Result<(), DriveError> {
        let file_system = File::open(&self.directory)
            .ok()
            .and_then(|directory| file_system_of(&directory, system))
            .unwrap_or_default();
        let named = self.named.display();
        let is_under = |top: &str| self.directory.starts_with(top);
        let is_shared_memory = is_under("/dev/shm") && file_system == "tmpfs";
        if (is_under("/dev") && !is_shared_memory) || file_system == "devtmpfs" {
            return Err(DriveError::new(
                ErrorKind::Refused,
                format!(
                    "{named} lies among the device files, where a file would be taken for a \
                     device; name a directory of a file system on the drive"
                ),
            ));
        }
        if ["proc", "sysfs"].contains(&file_system.as_str())
            || is_under("/proc")
            || is_under("/sys")
        {
            let kind = match self.file_name {
                None => ErrorKind::Unsupported,
                Some(_) => ErrorKind::Refused,
            };
            return Err(DriveError::new(
                kind,
                format!(
                    "{named} shows the kernel's own state: there is no drive behind it, and no \
                     file can be created there; name a directory of a file system on a drive"
                ),
            ));
        }
        Ok(())
    }

    /// Returns an error for a new file without `create_file`, and for a directory with it.
    pub(super) fn check_wanted(&self, create_file: bool) -> Result<(), DriveError> {
        let usage = |why: String| Err(DriveError::new(ErrorKind::Usage, why));
        let named = self.named.display();
        match (&self.file_name, create_file) {
            (None, true) => usage(format!(
                "{named} is a directory, in which a run creates its file by itself; leave \
                 --create-file out, or name the file to create"
            )),
            (Some(name), false) => {
                let meant = self.nearest(&name.to_string_lossy());
                let meant = meant.map_or(String::new(), |path| {
                    format!("did you mean {}? Otherwise ", path.display())
                });
                usage(format!(
                    "there is no {named}; {meant}name a directory on the drive to measure, or add \
                     --create-file to have a file of this name created there and removed at the end"
                ))
            }
            _ => Ok(()),
        }
    }

    /// Returns the only directory or device with a name similar to that of the missing file, or `None`.
    fn nearest(&self, name: &str) -> Option<PathBuf> {
        let entries = fs::read_dir(&self.directory).ok()?.flatten();
        let is_target = |path: &Path| {
            fs::metadata(path)
                .is_ok_and(|it| it.is_dir() || DeviceNumber::of_block_device(&it).is_some())
        };
        let names: Vec<String> = entries
            .filter(|entry| is_target(&entry.path()))
            .filter_map(|entry| entry.file_name().into_string().ok())
            .collect();
        match &*nearest(name, names.iter().map(String::as_str)) {
            [only] => Some(self.named.with_file_name(only)),
            _ => None,
        }
    }

    pub(super) fn kind(&self) -> DriveKind {
        match self.file_name {
            Some(_) => DriveKind::File,
            None => DriveKind::Directory,
        }
    }
}

/// Returns the error for a path at which something exists that is not a directory.
fn existing(path: &Path, metadata: &fs::Metadata, system: &System) -> DriveError {
    let path_shown = path.display();
    let kind = metadata.file_type();
    if kind.is_file() {
        DriveError::new(
            ErrorKind::Refused,
            format!(
                "{path_shown} exists; ssdlab only writes files that it created; \
                 name a new file or a directory"
            ),
        )
    } else if let Some(number) = DeviceNumber::of_block_device(metadata) {
        block_device(path, number, system)
    } else {
        let what = os::describe_kind(kind);
        DriveError::new(
            ErrorKind::Usage,
            format!("{path_shown} is {what}; name a directory or a new file"),
        )
    }
}

fn block_device(path: &Path, number: DeviceNumber, system: &System) -> DriveError {
    match ssdlab_blockdev::user_of(path, number, system) {
        Ok(Some(user)) => {
            DriveError::new(ErrorKind::Refused, format!("{} is in use: {user}", path.display()))
        }
        Ok(None) => DriveError::new(
            ErrorKind::Unsupported,
            format!(
                "{}: this does not run on a raw block device; name a directory of a file system on \
                 it",
                path.display()
            ),
        ),
        // A device whose use cannot be checked counts as in use.
        Err(error) => DriveError::with_source(
            ErrorKind::Refused,
            format!("cannot find out whether {} is in use", path.display()),
            error,
        ),
    }
}

fn new_file(path: &Path) -> Result<Target, DriveError> {
    let usage = |why: String| Err(DriveError::new(ErrorKind::Usage, why));
    if fs::symlink_metadata(path).is_ok() {
        return usage(format!("{} is a broken symbolic link", path.display()));
    }
    let (Some(file_name), false) = (path.file_name(), ends_as_directory(path)) else {
        return usage(format!("there is no directory {}", path.display()));
    };
    let parent = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    if !parent.is_dir() {
        return usage(format!(
            "{} cannot be created: there is no directory {}",
            path.display(),
            parent.display()
        ));
    }
    Ok(Target {
        named: path.to_owned(),
        directory: canonical(parent)?,
        file_name: Some(file_name.to_owned()),
    })
}

fn ends_as_directory(path: &Path) -> bool {
    let bytes = path.as_os_str().as_encoded_bytes();
    let bytes = bytes.strip_suffix(b".").unwrap_or(bytes);
    bytes.last().is_some_and(|&last| std::path::is_separator(last.into()))
}

/// Returns the directory with links resolved, so that the file is found again even if links change.
fn canonical(directory: &Path) -> Result<PathBuf, DriveError> {
    fs::canonicalize(directory).map_err(|error| {
        DriveError::with_source(
            ErrorKind::Io,
            format!("cannot resolve {}", directory.display()),
            error,
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(path: &Path) -> (ErrorKind, String) {
        let error = Target::classify(path, &System::real()).unwrap_err();
        (error.kind(), error.to_string())
    }

    #[test]
    fn a_directory_takes_a_file_of_any_name_and_a_new_path_keeps_its_name() {
        let directory = tempfile::tempdir().unwrap();
        let target = Target::classify(directory.path(), &System::real()).unwrap();
        assert_eq!(target.kind(), DriveKind::Directory);
        let target = Target::classify(&directory.path().join("new"), &System::real()).unwrap();
        assert_eq!(target.kind(), DriveKind::File);
        assert_eq!(target.file_name.unwrap(), "new");
    }

    #[test]
    fn a_file_is_new_only_where_that_is_asked_for() {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("scratch")).unwrap();
        let checked = |name: &str, create_file| {
            let target = Target::classify(&directory.path().join(name), &System::real()).unwrap();
            target.check_wanted(create_file).map_err(|error| error.to_string())
        };
        assert_eq!(checked("scratch", false), Ok(()));
        assert_eq!(checked("new.dat", true), Ok(()));
        let mistyped = checked("scartch", false).unwrap_err();
        let meant = directory.path().join("scratch");
        assert!(mistyped.contains(&format!("did you mean {}?", meant.display())), "{mistyped}");
        let new = checked("new.dat", false).unwrap_err();
        assert!(!new.contains("did you mean") && new.contains("--create-file"), "{new}");
        assert!(checked("scratch", true).unwrap_err().contains("leave --create-file out"));
    }

    #[test]
    fn what_is_neither_is_explained() {
        let directory = tempfile::tempdir().unwrap();
        let (kind, message) = refusal(Path::new("/dev/null"));
        assert_eq!(kind, ErrorKind::Usage);
        assert!(message.contains("a character device"), "{message}");

        let (kind, message) = refusal(&directory.path().join("missing/new"));
        assert_eq!(kind, ErrorKind::Usage);
        assert!(message.contains("there is no directory"), "{message}");

        let (kind, _) = refusal(&directory.path().join("missing/"));
        assert_eq!(kind, ErrorKind::Usage);

        let link = directory.path().join("link");
        std::os::unix::fs::symlink("nowhere", &link).unwrap();
        let (kind, message) = refusal(&link);
        assert_eq!(kind, ErrorKind::Usage);
        assert!(message.contains("symbolic link"), "{message}");

        let socket = directory.path().join("socket");
        let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        let (kind, message) = refusal(&socket);
        assert_eq!(kind, ErrorKind::Usage);
        assert!(message.contains("a socket"), "{message}");
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn the_kernels_own_directories_take_no_file() {
        for (path, kind) in [
            ("/dev", ErrorKind::Refused),
            ("/dev/sdz9", ErrorKind::Refused),
            ("/proc", ErrorKind::Unsupported),
            ("/proc/self", ErrorKind::Unsupported),
            ("/proc/new", ErrorKind::Refused),
            ("/sys", ErrorKind::Unsupported),
            ("/sys/new", ErrorKind::Refused),
        ] {
            let (found, message) = refusal(Path::new(path));
            assert_eq!(found, kind, "{path}: {message}");
            assert!(message.starts_with(path), "{message}");
        }
        // A link there is followed before anything is decided.
        let directory = tempfile::tempdir().unwrap();
        let link = directory.path().join("link");
        std::os::unix::fs::symlink("/dev", &link).unwrap();
        assert_eq!(refusal(&link.join("new")).0, ErrorKind::Refused);

        let shared = Path::new("/dev/shm");
        let is_memory = File::open(shared)
            .ok()
            .and_then(|directory| file_system_of(&directory, &System::real()))
            .is_some_and(|name| name == "tmpfs");
        let taken = Target::classify(&shared.join("ssdlab-new"), &System::real());
        assert_eq!(taken.is_ok(), is_memory);
    }
}
