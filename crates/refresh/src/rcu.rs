//! Expedites RCU grace periods of the kernel while a file system is being frozen.
//!
//! While it locks writers out, the kernel waits three times for a grace period, in which every processor
//! is seen in another context (`percpu_down_write`). On a busy machine each wait takes 10 to 40 ms,
//! unless the kernel is told to interrupt the processors instead (`/sys/kernel/rcu_expedited`,
//! Documentation/RCU/Design/Expedited-Grace-Periods). The setting is made while a file system is being
//! frozen, and taken back right after. If somebody has made the setting already, or if it may not be
//! changed, it stays as it is.
//!
//! Of several refreshes at once the last one takes the setting back: the kernel does not count who needs
//! it, so each refresh holds a shared lock (flock(2)) on the setting meanwhile, and only the one that
//! gets the exclusive lock takes the setting back.

use std::fs::{File, OpenOptions};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

/// Path of the setting.
const SETTING: &str = "/sys/kernel/rcu_expedited";

/// Value of the setting when nobody has changed it.
const NORMAL: &[u8] = b"0";
const EXPEDITED: &[u8] = b"1";

/// The setting of the kernel; `None` if this process may not change it.
#[derive(Debug)]
pub(crate) struct RcuExpedite {
    setting: Option<Arc<File>>,
}

/// Grace periods are expedited until this value is dropped.
#[derive(Debug)]
pub(crate) struct Expedited {
    setting: Option<Arc<File>>,
}

impl RcuExpedite {
    /// Opens the setting of this machine.
    pub(crate) fn of_kernel() -> RcuExpedite {
        RcuExpedite::at(Path::new(SETTING))
    }

    fn at(path: &Path) -> RcuExpedite {
        let open = || {
            let setting = OpenOptions::new().write(true).open(path).ok()?;
            is_ours(&setting, path)?.then(|| Arc::new(setting))
        };
        RcuExpedite { setting: open() }
    }

    /// Expedites grace periods from now on.
    pub(crate) fn expedite(&self) -> Expedited {
        if let Some(setting) = &self.setting {
            // Waits only while another refresh takes the setting back, or checks the lock.
            let lock = || flock(setting, FlockOperation::LockShared);
            if rustix::io::retry_on_intr(lock).is_ok() {
                // If the kernel refuses, grace periods are not expedited.
                let _ = setting.write_all_at(EXPEDITED, 0);
            }
        }
        Expedited { setting: self.setting.clone() }
    }

    /// Returns the descriptor of the setting, for a child that [restores it](restore) should this
    /// process be killed.
    pub(crate) fn descriptor(&self) -> Option<RawFd> {
        self.setting.as_ref().map(|setting| setting.as_raw_fd())
    }
}

/// Number of times that the lock and the value are checked, and the time between two checks.
const LOCK_CHECKS: u32 = 50;
const LOCK_CHECK_INTERVAL: Duration = Duration::from_millis(1);

/// Returns true if the setting has its usual value, or another refresh has changed it; `None` if it
/// cannot be read. A lock that is held does not prove that a refresh has changed the value: this check
/// holds the lock for a moment as well, even if somebody else has made the setting.
fn is_ours(setting: &File, path: &Path) -> Option<bool> {
    for _ in 0..LOCK_CHECKS {
        let lock = flock(setting, FlockOperation::NonBlockingLockExclusive);
        let is_normal = std::fs::read(path).ok().map(|value| value.trim_ascii() == NORMAL);
        if lock.is_ok() {
            let _ = flock(setting, FlockOperation::Unlock);
        }
        if is_normal? {
            return Some(true);
        }
        if lock != Err(Errno::WOULDBLOCK) {
            return Some(false);
        }
        std::thread::sleep(LOCK_CHECK_INTERVAL);
    }
    // No check holds the lock for so long: a refresh that freezes holds it.
    Some(true)
}

impl Drop for Expedited {
    fn drop(&mut self) {
        if let Some(setting) = &self.setting {
            restore(setting.as_raw_fd());
        }
    }
}

/// Restores the usual value, unless another refresh holds the lock. Safe to call after a fork.
pub(crate) fn restore(setting: RawFd) {
    // SAFETY: numbers, and one byte of a constant. If the exclusive lock is not granted, the shared lock
    // is gone.
    unsafe {
        if libc::flock(setting, libc::LOCK_EX | libc::LOCK_NB) == 0 {
            libc::pwrite(setting, NORMAL.as_ptr().cast(), NORMAL.len(), 0);
            libc::flock(setting, libc::LOCK_UN);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_are_expedited_for_a_while_and_what_others_chose_stays() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("rcu_expedited");
        let holds = || std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, "0\n").unwrap();
        let setting = RcuExpedite::at(&path);
        let expedited = setting.expedite();
        assert_eq!(holds(), "1\n");
        drop(expedited);
        assert_eq!(holds(), "0\n");

        // Of two at once the last one restores the setting, and the second one sees that a refresh has
        // changed it.
        let first = setting.expedite();
        let others = RcuExpedite::at(&path);
        let second = others.expedite();
        drop(first);
        assert_eq!(holds(), "1\n");
        drop(second);
        assert_eq!(holds(), "0\n");

        std::fs::write(&path, "1\n").unwrap();
        let chosen = RcuExpedite::at(&path);
        assert_eq!(chosen.descriptor(), None);
        drop(chosen.expedite());
        assert_eq!(holds(), "1\n");

        let missing = RcuExpedite::at(&directory.path().join("missing"));
        drop(missing.expedite());
        assert!(!directory.path().join("missing").exists());
    }
    #[test]
    fn what_somebody_chose_stays_so_while_another_one_only_looks() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("rcu_expedited");
        std::fs::write(&path, "1\n").unwrap();
        let checker = File::open(&path).unwrap();
        flock(&checker, FlockOperation::LockExclusive).unwrap();
        std::thread::scope(|scope| {
            let it = scope.spawn(|| RcuExpedite::at(&path));
            std::thread::sleep(Duration::from_millis(10));
            flock(&checker, FlockOperation::Unlock).unwrap();
            assert_eq!(it.join().unwrap().descriptor(), None);
        });
    }

    /// Many refreshes at once, each of which begins and ends at any moment.
    #[test]
    fn whoever_is_in_haste_has_it_and_the_last_one_takes_it_back() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("rcu_expedited");
        // As in the kernel, a write replaces the whole value.
        std::fs::write(&path, "0").unwrap();
        let holds = || std::fs::read_to_string(&path).unwrap();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..200 {
                        let setting = RcuExpedite::at(&path);
                        assert!(setting.descriptor().is_some(), "nobody else has chosen anything");
                        for _ in 0..5 {
                            let expedited = setting.expedite();
                            assert_eq!(holds(), "1");
                            drop(expedited);
                        }
                    }
                });
            }
        });
        assert_eq!(holds(), "0");
    }
}
