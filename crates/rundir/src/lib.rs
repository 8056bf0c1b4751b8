//! The run directory, in which programs of one user find one another: attached drives have their records and
//! sockets there, and runs in progress write their progress there.
//!
//! [`directory`] returns it, after checking that nobody else can have put anything into it. [`write_atomic`]
//! writes a file that no reader sees half written.
//!
//! ```
//! # let temporary = tempfile::tempdir()?;
//! # // SAFETY: no other thread runs here.
//! # unsafe { std::env::set_var(ssdlab_rundir::VARIABLE, temporary.path().join("run")) };
//! let path = ssdlab_rundir::directory()?.join("example");
//! ssdlab_rundir::write_atomic(&path, "all of it")?;
//! assert_eq!(std::fs::read_to_string(path)?, "all of it");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::ffi::OsString;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Environment variable that names another directory: for tests, and for several users of one system.
pub const VARIABLE: &str = "SSDLAB_RUN";

/// Reason why the directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RunDirectoryError {
    /// The directory cannot be created or examined.
    #[error("cannot make {}", .path.display())]
    Io {
        /// The directory.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// Somebody else may have put files there that would be acted on.
    #[error("{} {why}; nothing is done with it", .path.display())]
    Untrusted {
        /// The directory.
        path: PathBuf,
        /// The reason, and the way out.
        why: String,
    },
}

fn non_empty_variable(variable: &str) -> Option<OsString> {
    std::env::var_os(variable).filter(|value| !value.is_empty())
}

/// Returns the directory, symbolic links resolved; creates it if it is missing.
///
/// # Errors
/// Returns an error if the directory cannot be created, belongs to another user, or is accessible to others.
#[cfg(unix)]
pub fn directory() -> Result<PathBuf, RunDirectoryError> {
    use std::os::unix::fs::{DirBuilderExt, MetadataExt};

    let user = rustix::process::geteuid();
    let path = if let Some(path) = non_empty_variable(VARIABLE) {
        PathBuf::from(path)
    } else if user.is_root() {
        PathBuf::from("/run/ssdlab")
    } else if let Some(runtime) = non_empty_variable("XDG_RUNTIME_DIR") {
        Path::new(&runtime).join("ssdlab")
    } else {
        std::env::temp_dir().join(format!("ssdlab-{}", user.as_raw()))
    };
    let cannot = |source| RunDirectoryError::Io { path: path.clone(), source };
    fs::DirBuilder::new().recursive(true).mode(0o700).create(&path).map_err(cannot)?;
    let found = fs::symlink_metadata(&path).map_err(cannot)?;
    let untrusted = |why: String| Err(RunDirectoryError::Untrusted { path: path.clone(), why });
    if !found.is_dir() {
        return untrusted(format!("is no directory; set {VARIABLE} to one"));
    }
    if found.uid() != user.as_raw() {
        let (owner, user) = (found.uid(), user.as_raw());
        return untrusted(format!(
            "belongs to user {owner}, and this is user {user}; set {VARIABLE} to a directory of yours"
        ));
    }
    if found.mode() & 0o077 != 0 {
        let mode = found.mode() & 0o777;
        return untrusted(format!(
            "is open to others (mode {mode:o}), who may have put records there; if they are yours, \
             'chmod 700 {}', or set {VARIABLE} to another directory",
            path.display()
        ));
    }
    fs::canonicalize(&path).map_err(cannot)
}

/// Returns the directory; creates it if it is missing, below the user's own data, to which the system gives
/// others no access.
///
/// # Errors
/// Returns an error if the directory cannot be created.
#[cfg(not(unix))]
pub fn directory() -> Result<PathBuf, RunDirectoryError> {
    let own = || non_empty_variable("LOCALAPPDATA").map_or_else(std::env::temp_dir, PathBuf::from);
    let path = non_empty_variable(VARIABLE)
        .map_or_else(|| own().join("ssdlab").join("run"), PathBuf::from);
    let cannot = |source| RunDirectoryError::Io { path: path.clone(), source };
    fs::create_dir_all(&path).map_err(cannot)?;
    fs::canonicalize(&path).map_err(cannot)
}

/// Writes `text` to a temporary file and renames that to `path`, so that a reader, such as Prometheus' textfile
/// collector, never sees a part of it. Symbolic links are followed. What is no plain file, such as a device or
/// a pipe, is written in place.
///
/// # Errors
/// Returns an error if the file cannot be written.
pub fn write_atomic(path: &Path, text: &str) -> io::Result<()> {
    write_atomic_with(path, false, |file| file.write_all(text.as_bytes()))
}

/// Lets `write` write a file that is put in place as by [`write_atomic`]. With `is_private` no other user may
/// read the file.
///
/// # Errors
/// Returns an error if the file cannot be written.
pub fn write_atomic_with(
    path: &Path,
    is_private: bool,
    write: impl FnOnce(&mut fs::File) -> io::Result<()>,
) -> io::Result<()> {
    let place = match fs::metadata(path) {
        Ok(found) if found.is_file() => fs::canonicalize(path)?,
        Ok(_) => return write(&mut fs::OpenOptions::new().write(true).open(path)?),
        Err(_) => path.to_owned(),
    };
    let name = place.file_name().unwrap_or_default().to_string_lossy();
    let draft = place.with_file_name(format!(".{name}.{}.draft", std::process::id()));
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    if is_private {
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    }
    #[cfg(not(unix))]
    let _ = is_private;
    let mut file = options.open(&draft)?;
    write(&mut file).and_then(|()| fs::rename(&draft, &place)).inspect_err(|_| {
        let _ = fs::remove_file(&draft);
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_cannot_be_written_leaves_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        write_atomic(&path, "one").unwrap();
        write_atomic(&path, "two").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "two");
        // A directory is in the place of the file.
        fs::create_dir(directory.path().join("taken")).unwrap();
        write_atomic(&directory.path().join("taken"), "three").unwrap_err();
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 2);
    }

    #[cfg(unix)]
    #[test]
    fn links_are_followed_and_what_is_no_plain_file_stays_what_it_is() {
        use std::os::unix::fs::FileTypeExt;

        let directory = tempfile::tempdir().unwrap();
        let [file, link] = ["file", "link"].map(|name| directory.path().join(name));
        fs::write(&file, "before").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        write_atomic(&link, "after").unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read_to_string(&file).unwrap(), "after");
        // A link to a device, as /dev/stdout may be.
        let null = directory.path().join("null");
        std::os::unix::fs::symlink("/dev/null", &null).unwrap();
        write_atomic(&null, "gone").unwrap();
        assert!(fs::symlink_metadata(&null).unwrap().is_symlink());
        assert!(fs::metadata("/dev/null").unwrap().file_type().is_char_device());
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 3);
    }
}
