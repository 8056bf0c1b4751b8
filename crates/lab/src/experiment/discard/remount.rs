//! Changes the mount option `discard`, and restores it even after a crash.
//!
//! Only this option is changed (`fspick`, `fsconfig`); all others stay as they are. The previous value is
//! noted in a file below `/run`, which is empty after boot, when mounts have their own options again. A run
//! that is killed leaves its note; the guard process restores the option, or the next run if the guard was
//! killed, too.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use ssdlab_blockdev::place::Place;
use ssdlab_drive::{DriveError, ErrorKind};

use super::super::temporary_directory::{TemporaryDirectory, io_error};
use super::mount_guard::MountGuard;
use crate::error::LabError;

/// Directory of the notes about changed mounts.
const NOTES: &str = "/run/ssdlab";

/// A mount with a changed option. Dropping this value restores the option.
pub(super) struct RemountGuard {
    point: PathBuf,
    before: bool,
    note: PathBuf,
    is_restored: bool,
    /// Guard process, which ends after the option was restored.
    _guard: MountGuard,
}

impl RemountGuard {
    /// Sets or clears the option of the mount that contains `place`. If the run is killed, the guard also
    /// removes the directory `run_directory`.
    pub(super) fn with_discard(
        place: &Place,
        discard: bool,
        run_directory: &Path,
    ) -> Result<RemountGuard, LabError> {
        let place = place.now()?;
        let point = place.mount_point().to_owned();
        let before = place.has_option("discard");
        let note = note_path(&place);
        write_note(
            &note,
            &Note { point: point.clone(), before, run_directory: run_directory.to_owned() },
        )?;
        let guard = MountGuard::of(&note);
        let mounted = RemountGuard { point, before, note, is_restored: false, _guard: guard };
        set_discard(&mounted.point, discard)?;
        Ok(mounted)
    }

    /// Restores the option and returns errors, which `drop` ignores.
    pub(super) fn try_restore(mut self) -> Result<(), LabError> {
        self.restore()
    }

    fn restore(&mut self) -> Result<(), LabError> {
        if self.is_restored {
            return Ok(());
        }
        set_discard(&self.point, self.before)?;
        self.is_restored = true;
        let removed = fs::remove_file(&self.note);
        removed.map_err(|error| io_error(format!("cannot remove {}", self.note.display()), error))
    }
}

impl Drop for RemountGuard {
    fn drop(&mut self) {
        // Callers that need the error call `try_restore` before. After an error the note remains.
        let _ = self.restore();
    }
}

/// Content of a note: mount point, previous option, and directory of the run.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Note {
    point: PathBuf,
    before: bool,
    run_directory: PathBuf,
}

impl Note {
    /// Returns the note as lines: process, option, and two paths; `None` if a path contains a line break.
    fn text(&self) -> Option<String> {
        let path = |path: &Path| {
            let text = path.to_str()?;
            (!text.contains('\n')).then(|| text.to_owned())
        };
        let option = if self.before { "discard" } else { "nodiscard" };
        let (point, run_directory) = (path(&self.point)?, path(&self.run_directory)?);
        Some(format!("{}\n{option}\n{point}\n{run_directory}\n", this_process()))
    }

    /// Parses a note. Returns it with the process that wrote it.
    fn parse(text: &str) -> Option<(String, Note)> {
        let mut lines = text.lines();
        let process = lines.next()?.to_owned();
        let before = match lines.next()? {
            "discard" => true,
            "nodiscard" => false,
            _ => return None,
        };
        let (point, run_directory) = (lines.next()?.into(), lines.next()?.into());
        Some((process, Note { point, before, run_directory }))
    }
}

/// Returns the identity of this process: its number and its start time, because numbers are reused.
fn this_process() -> String {
    let number = std::process::id();
    format!("{number} {}", start_time(number).unwrap_or_default())
}

/// Returns the start time of a process in ticks since boot (the 22nd number of `/proc/*/stat`); `None` if it
/// has ended, also if it is a zombie.
fn start_time(process: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name of the process may contain any character, and ends with the last parenthesis.
    let mut fields = text.rsplit_once(')')?.1.split_whitespace();
    let state = fields.next()?;
    if matches!(state, "Z" | "X") {
        return None;
    }
    fields.nth(18)?.parse().ok()
}

/// Returns true if the process that wrote a note is running.
fn is_running(process: &str) -> bool {
    let Some((number, since)) = process.split_once(' ') else { return false };
    let start_time = number.parse().ok().and_then(start_time);
    start_time.is_some() && start_time == since.parse().ok()
}

/// Returns true if the run that wrote a note is running.
pub(super) fn is_run_alive(note: &Path) -> bool {
    let text = fs::read_to_string(note).unwrap_or_default();
    text.lines().next().is_some_and(is_running)
}

fn note_path(place: &Place) -> PathBuf {
    Path::new(NOTES).join(format!("mount-{}", place.number().replace(':', "-")))
}

/// Writes a note; an error if another run's note exists.
fn write_note(path: &Path, note: &Note) -> Result<(), LabError> {
    let cannot = |error: io::Error| {
        if error.kind() == io::ErrorKind::PermissionDenied {
            return not_permitted(&note.point);
        }
        if error.kind() == io::ErrorKind::AlreadyExists {
            let message = format!(
                "{} says that another run has changed the options of {}; wait for its end",
                path.display(),
                note.point.display()
            );
            return DriveError::new(ErrorKind::Refused, message).into();
        }
        io_error(format!("cannot write {}", path.display()), error)
    };
    let text = note.text().ok_or_else(|| cannot(io::Error::other("a path with a line break")))?;
    let directory = Path::new(NOTES);
    match fs::DirBuilder::new().mode(0o700).create(directory) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(cannot(error)),
        _ => {}
    }
    restore_from_note(path)?;
    // The file gets its final name only when it is complete.
    let whole = path.with_extension("new");
    let _ = fs::remove_file(&whole);
    let mut options = fs::OpenOptions::new();
    let mut file = options.write(true).create_new(true).mode(0o600).open(&whole).map_err(cannot)?;
    io::Write::write_all(&mut file, text.as_bytes()).map_err(cannot)?;
    let linked = fs::hard_link(&whole, path);
    let _ = fs::remove_file(&whole);
    linked.map_err(cannot)
}

fn not_permitted(point: &Path) -> LabError {
    let why = match rustix::process::geteuid().is_root() {
        false => "changing the options of a mount takes root; run it with sudo",
        true => {
            "not even root can change mount options on this system, as in a container; run it \
             outside of the container"
        }
    };
    let message = format!("{}: {why}", point.display());
    DriveError::new(ErrorKind::Unsupported, message).into()
}

/// Restores the mount of one note, unless its run is still running. Returns a description of the changes.
pub(super) fn restore_from_note(path: &Path) -> Result<Option<String>, LabError> {
    let Ok(text) = fs::read_to_string(path) else { return Ok(None) };
    let Some((process, note)) = Note::parse(&text) else {
        fs::remove_file(path).map_err(|error| io_error(path.display().to_string(), error))?;
        return Ok(None);
    };
    if is_running(&process) {
        return Ok(None);
    }
    let mut done = Vec::new();
    if let Ok(place) = Place::of(&note.point)
        && note_path(&place) == path
        && place.mount_point() == note.point
    {
        if place.has_option("discard") != note.before {
            set_discard(&note.point, note.before)?;
            let now = if note.before { "with" } else { "without" };
            done.push(format!("{} is mounted {now} discard again", note.point.display()));
        }
        if TemporaryDirectory::remove_leftover(&note.run_directory) {
            done.push(format!("{} is removed", note.run_directory.display()));
        }
    }
    fs::remove_file(path).map_err(|error| io_error(path.display().to_string(), error))?;
    Ok((!done.is_empty()).then(|| done.join("; ")))
}

/// Restores the mounts that killed runs have left changed. Returns a sentence for each change or error. After
/// an error the note remains.
pub fn restore_leftover_mounts() -> Vec<String> {
    let Ok(notes) = fs::read_dir(NOTES) else { return Vec::new() };
    let paths = notes.flatten().map(|entry| entry.path());
    let notes = paths.filter(|path| path.extension().is_none());
    let words = |path: PathBuf| match restore_from_note(&path) {
        Ok(done) => done.map(|done| format!("A run was killed before its end; {done}.")),
        Err(error) => Some(format!("A run was killed before its end, and {error}.")),
    };
    notes.filter_map(words).collect()
}

/// Sets or clears the option of a mount.
fn set_discard(point: &Path, discard: bool) -> Result<(), LabError> {
    use rustix::fs::CWD;
    use rustix::io::Errno;
    use rustix::mount::{FsPickFlags, fsconfig_reconfigure, fsconfig_set_flag, fspick};

    let option = if discard { "discard" } else { "nodiscard" };
    let changed = fspick(CWD, point, FsPickFlags::FSPICK_CLOEXEC).and_then(|mount| {
        fsconfig_set_flag(&mount, option)?;
        fsconfig_reconfigure(&mount)
    });
    changed.map_err(|error| match error {
        Errno::PERM | Errno::ACCESS => not_permitted(point),
        Errno::INVAL | Errno::OPNOTSUPP | Errno::NOSYS => LabError::Unsupported(format!(
            "{}: this file system cannot be remounted with {option} by this kernel",
            point.display()
        )),
        error => {
            io_error(format!("cannot remount {} with {option}", point.display()), error.into())
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_says_what_to_put_back_and_whose_it_is() {
        let note =
            Note { point: "/mnt/a b".into(), before: true, run_directory: "/mnt/a b/x".into() };
        let (process, read) = Note::parse(&note.text().unwrap()).unwrap();
        assert_eq!(read, note);
        assert!(is_running(&process));
        let number = std::process::id();
        assert!(!is_running(&format!("{number} 1")), "a number that is used again");
        let mut ended = std::process::Command::new("true").spawn().unwrap();
        let process = format!("{} {}", ended.id(), start_time(ended.id()).unwrap_or_default());
        while start_time(ended.id()).is_some() {
            std::thread::yield_now();
        }
        assert!(!is_running(&process), "one that has ended and was not waited for");
        ended.wait().unwrap();
        assert!(!is_running("4194305 1"));
        assert_eq!(Note::parse("1 2\nperhaps\n/a\n/b\n"), None);
        let odd = Note { point: "/mnt/a\nb".into(), ..note };
        assert_eq!(odd.text(), None);
    }
}
