//! Who puts a mount's option back when the run is killed: this program once more, as a process of its own
//! that waits for the end of the run.

use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::remount;

/// The variable of the environment that makes a process such a guard: the note it is to act on.
const ASKED: &str = "SSDLAB_GUARD_OF_MOUNT";

/// True if the program that runs here becomes a guard where it is asked to.
static CAN_GUARD: AtomicBool = AtomicBool::new(false);

/// How often, and how long after each other, the guard looks whether its run is gone: its pipe is closed a
/// moment before.
const LOOKS: (u32, Duration) = (600, Duration::from_millis(100));

/// To be called by a program that runs experiments, before anything else. Where the process was started to
/// guard a mount, it does that and returns true; the program has to end then.
pub fn guard_if_asked() -> bool {
    let Some(note) = std::env::var_os(ASKED) else {
        CAN_GUARD.store(true, Ordering::Relaxed);
        return false;
    };
    // The end comes however the run ends.
    let _ = std::io::stdin().lock().read_to_end(&mut Vec::new());
    let note = PathBuf::from(note);
    for _ in 0..LOOKS.0 {
        if !remount::is_of_a_running_one(&note) {
            // What cannot be done stays noted, and the next run tries it.
            let _ = remount::undo(&note);
            break;
        }
        std::thread::sleep(LOOKS.1);
    }
    true
}

/// A process that acts on a note when this one is gone.
pub(super) struct Guard(Option<Child>);

impl Guard {
    /// One for `note`. Where there can be none, the next run does its work.
    pub(super) fn of(note: &Path) -> Guard {
        if !CAN_GUARD.load(Ordering::Relaxed) {
            return Guard(None);
        }
        let spawned = std::env::current_exe().and_then(|program| {
            let mut command = Command::new(program);
            command.env(ASKED, note).current_dir("/");
            command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
            // Ctrl-C is for the run, and not for who comes after it.
            command.process_group(0).spawn()
        });
        Guard(spawned.ok())
    }
}

impl Drop for Guard {
    /// The note is gone, and the guard finds nothing to do.
    fn drop(&mut self) {
        if let Some(mut child) = self.0.take() {
            drop(child.stdin.take());
            let _ = child.wait();
        }
    }
}
