//! Guard process that restores a mount option if the run is killed: a second process of this program that
//! waits for the end of the run.

use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::remount;

/// Environment variable that makes a process the guard. Its value is the path of the note.
const NOTE_VARIABLE: &str = "SSDLAB_GUARD_OF_MOUNT";

/// True if the main program calls `run_guard_if_requested`, so that it can be started as a guard.
static CAN_START_GUARD: AtomicBool = AtomicBool::new(false);

/// Number and interval of the guard's checks that the run has ended: the pipe closes a moment before the
/// process ends.
const EXIT_CHECKS: (u32, Duration) = (600, Duration::from_millis(100));

/// Runs the guard if this process was started as one, and returns true; the program has to end then. A
/// program that runs experiments must call this function first.
pub fn run_guard_if_requested() -> bool {
    let Some(note) = std::env::var_os(NOTE_VARIABLE) else {
        CAN_START_GUARD.store(true, Ordering::Relaxed);
        return false;
    };
    // The input ends when the run ends in any way.
    let _ = std::io::stdin().lock().read_to_end(&mut Vec::new());
    let note = PathBuf::from(note);
    for _ in 0..EXIT_CHECKS.0 {
        if !remount::is_run_alive(&note) {
            // If restoring fails, the note remains, and the next run tries again.
            let _ = remount::restore_from_note(&note);
            break;
        }
        std::thread::sleep(EXIT_CHECKS.1);
    }
    true
}

/// Guard process that acts on a note after the end of this process.
pub(super) struct MountGuard(Option<Child>);

impl MountGuard {
    /// Starts the guard for `note`. If that fails, the next run restores the mount.
    pub(super) fn of(note: &Path) -> MountGuard {
        if !CAN_START_GUARD.load(Ordering::Relaxed) {
            return MountGuard(None);
        }
        let spawned = std::env::current_exe().and_then(|program| {
            let mut command = Command::new(program);
            command.env(NOTE_VARIABLE, note).current_dir("/");
            command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
            // Ctrl-C must reach the run only, not the guard.
            command.process_group(0).spawn()
        });
        MountGuard(spawned.ok())
    }
}

impl Drop for MountGuard {
    /// Ends the guard. The note is removed by now, so the guard does nothing.
    fn drop(&mut self) {
        if let Some(mut child) = self.0.take() {
            drop(child.stdin.take());
            let _ = child.wait();
        }
    }
}
