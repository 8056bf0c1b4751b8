//! A file system that is frozen for a moment, and thawed whatever happens.
//!
//! A child process does both, asked through a pipe. So what it has frozen, and nothing that others have,
//! is known to the one that thaws, whenever the process that asked is killed. When the pipe closes, because
//! that one is done or was killed, the child thaws, and tries until that is done. It also kills it when a
//! freeze has lasted [`PATIENCE`]: one that was stopped (SIGSTOP) in the middle must not go on later and
//! write what is outdated by then, so it must be gone before others may write. However long that takes is
//! waited for: a process that is within a write is not gone before that is over, and only then the kernel
//! closes its end of the pipe. The child takes back as well what was asked of the kernel's grace periods
//! (`grace.rs`).
//!
//! Who kills both at once, such as with all of a control group, leaves a file system frozen when that
//! happens within a freeze; `fsfreeze --unfreeze` thaws it.

mod child;

use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

use self::child::{Ends, FREEZE, THAW, pipe, watch};
use crate::grace::{GracePeriods, Hurried};
use crate::lateness::{Lateness, Step};
use crate::urgency::Urgency;
use crate::{DriveError, ErrorKind, io, refused, system};

/// How long a freeze may last before something must be wrong.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// Kinds of writers that are locked out one after the other: those that write, those that touch
/// mapped memory, and the file system's own.
const WRITERS: u32 = 3;

/// A file system that can be frozen.
#[derive(Debug)]
pub struct Freezer {
    directory: File,
    grace_periods: GracePeriods,
    /// Where the child listens.
    ask: OwnedFd,
    /// Where it answers.
    answers: OwnedFd,
    child: libc::pid_t,
    /// Has told what takes too long.
    lateness: Lateness,
    /// The longest freeze, from the request to freeze until it is thawed.
    pub longest: Duration,
    /// Freezes so far.
    pub count: u64,
    /// The last of them.
    pub last: Times,
}

/// How long a freeze has lasted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// Until the file system was frozen: others wait from the request on.
    pub freezing: Duration,
    /// Until it was thawed, from the request to thaw.
    pub thawing: Duration,
    /// In all.
    pub whole: Duration,
}

/// A file system that is frozen; thawed when this goes.
#[derive(Debug)]
pub struct Frozen<'a> {
    freezer: &'a mut Freezer,
    since: Instant,
    freezing: Duration,
    // Both end when it is thawed.
    _urgency: Urgency,
    _hurried: Hurried,
}

impl Freezer {
    /// For the file system that `directory` is on; what takes too long is told there.
    ///
    /// # Errors
    /// When there is no child to thaw it.
    pub fn new(directory: File, lateness: Lateness) -> Result<Freezer, DriveError> {
        let cannot = |error| io("cannot make the process that thaws", error);
        let (listen, ask) = pipe().map_err(cannot)?;
        let (answers, answer) = pipe().map_err(cannot)?;
        let grace_periods = GracePeriods::of_kernel();
        // SAFETY: getpid does nothing else.
        let parent = unsafe { libc::getpid() };
        let ends = Ends {
            listen: listen.as_raw_fd(),
            answer: answer.as_raw_fd(),
            directory: directory.as_raw_fd(),
            setting: grace_periods.descriptor(),
        };
        // SAFETY: the child calls nothing but what may be called after a fork of a program with
        // threads (signal-safety(7)), and never returns.
        let child = unsafe { libc::fork() };
        if child == 0 {
            watch(parent, ends, PATIENCE);
        }
        if child < 0 {
            return Err(cannot(std::io::Error::last_os_error()));
        }
        // What is swapped out would have to be read while everybody waits.
        system::stay_in_memory();
        let (longest, last) = (Duration::ZERO, Times::default());
        let count = 0;
        Ok(Freezer {
            directory,
            grace_periods,
            ask,
            answers,
            child,
            lateness,
            longest,
            count,
            last,
        })
    }

    /// Has the child do something; the inner error is what came of that.
    fn has(&self, word: u8) -> Result<std::io::Result<()>, DriveError> {
        let gone = |error: std::io::Error| io("the process that thaws is gone", error);
        match rustix::io::retry_on_intr(|| rustix::io::write(&self.ask, &[word])) {
            Ok(1) => {}
            Ok(_) => return Err(gone(std::io::ErrorKind::WriteZero.into())),
            Err(error) => return Err(gone(error.into())),
        }
        let mut answer = [0; 4];
        match rustix::io::retry_on_intr(|| rustix::io::read(&self.answers, &mut answer)) {
            Ok(4) => {}
            Ok(_) => return Err(gone(std::io::ErrorKind::UnexpectedEof.into())),
            Err(error) => return Err(gone(error.into())),
        }
        Ok(match i32::from_ne_bytes(answer) {
            0 => Ok(()),
            number => Err(std::io::Error::from_raw_os_error(number)),
        })
    }

    /// Has it thawed; by this process where the child is gone.
    fn thaw(&self) -> std::io::Result<()> {
        self.has(THAW).unwrap_or_else(|_| system::thaw(self.directory.as_raw_fd()))
    }

    /// Freezes it. What is dirty should be [written back](Freezer::outlook) before, so that the
    /// freeze itself is short.
    ///
    /// # Errors
    /// When it is frozen by somebody else, or cannot be.
    pub fn freeze(&mut self) -> Result<Frozen<'_>, DriveError> {
        let urgency = Urgency::begin();
        let hurried = self.grace_periods.hurry();
        let since = Instant::now();
        stop_signals(libc::SIG_IGN);
        self.lateness.wait_for(Some(Step::Freeze));
        let outcome = self.has(FREEZE);
        let is_frozen = matches!(outcome, Ok(Ok(())));
        self.lateness.wait_for(is_frozen.then_some(Step::Rewrite));
        if !is_frozen {
            stop_signals(libc::SIG_DFL);
        }
        if let Err(error) = outcome? {
            return Err(match error.raw_os_error() {
                Some(libc::EBUSY) => refused("the file system is frozen by somebody else"),
                Some(libc::EOPNOTSUPP) => DriveError::new(
                    ErrorKind::Unsupported,
                    "this file system cannot be frozen; unmount it and refresh its device",
                ),
                Some(libc::EPERM) => {
                    DriveError::new(ErrorKind::Unsupported, "freezing a file system needs root")
                }
                _ => io("cannot freeze the file system", error),
            });
        }
        self.count += 1;
        Ok(Frozen {
            freezer: self,
            since,
            freezing: since.elapsed(),
            _urgency: urgency,
            _hurried: hurried,
        })
    }

    /// Returns how long it would take now until the file system is frozen, as far as can be known without anybody
    /// having to wait: what is dirty is written back, and once more, when next to nothing is; and the kernel locks out
    /// three kinds of writers one after the other, each of which takes it a grace period (`freeze_super`, fs/super.c;
    /// `percpu_down_write`). Right after a thaw it has not yet unlocked in earnest, and that costs nothing; so
    /// `is_first` should not be said in the midst of freezes, since waiting for grace periods would end that.
    ///
    /// # Errors
    /// When the file system fails.
    pub fn outlook(&self, is_first: bool) -> Result<Duration, DriveError> {
        let sync = || {
            self.lateness.wait_for(Some(Step::WriteBack));
            let outcome = rustix::fs::syncfs(&self.directory);
            self.lateness.wait_for(None);
            outcome.map_err(|error| io("cannot sync", error))
        };
        sync()?;
        // Not before: much may have been dirty, and the whole machine pays for the haste.
        let _hurried = self.grace_periods.hurry();
        let since = Instant::now();
        sync()?;
        if is_first {
            (0..WRITERS).for_each(|_| system::grace_period());
        }
        Ok(since.elapsed())
    }
}

impl Frozen<'_> {
    /// When it was asked to freeze: others wait from then on.
    pub fn since(&self) -> Instant {
        self.since
    }
}

impl Drop for Frozen<'_> {
    fn drop(&mut self) {
        let asked = Instant::now();
        self.freezer.lateness.wait_for(Some(Step::Thaw));
        let outcome = self.freezer.thaw();
        self.freezer.lateness.wait_for(None);
        let (thawing, whole) = (asked.elapsed(), self.since.elapsed());
        stop_signals(libc::SIG_DFL);
        self.freezer.last = Times { freezing: self.freezing, thawing, whole };
        self.freezer.longest = self.freezer.longest.max(whole);
        // The child tries again when this process is gone; a frozen file system with nobody to
        // thaw it is the worst that can happen here.
        assert!(outcome.is_ok(), "the file system does not thaw: {outcome:?}");
    }
}

impl Drop for Freezer {
    fn drop(&mut self) {
        // The child listens until nobody can ask any more.
        if let Ok(nobody) = File::open("/dev/null") {
            self.ask = nobody.into();
        }
        // SAFETY: the child is ours, and ends when the pipe closes.
        unsafe { libc::waitpid(self.child, std::ptr::null_mut(), 0) };
    }
}

/// Ctrl-Z in the middle of a freeze would stop this process and leave everybody waiting.
fn stop_signals(how: libc::sighandler_t) {
    for signal in [libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU] {
        // SAFETY: no handler is installed, only what is done without one.
        unsafe { libc::signal(signal, how) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lateness::{Place, Tell};
    use crate::mounted::Mounted;

    /// Returns true if it is frozen; thaws it where it was not.
    pub(super) fn is_frozen(directory: &File) -> bool {
        match system::freeze(directory.as_raw_fd()) {
            Ok(()) => {
                system::thaw(directory.as_raw_fd()).unwrap();
                false
            }
            Err(error) => error.raw_os_error() == Some(libc::EBUSY),
        }
    }

    #[test]
    fn it_is_frozen_and_thawed_and_one_that_others_have_frozen_is_refused() {
        let Some(mounted) = Mounted::new("ext4", "freezes") else { return };
        let directory = File::open(mounted.point()).unwrap();
        let place = Place { name: "ext4".to_owned(), way_out: "wait".to_owned() };
        let lateness = Lateness::new(place, Tell::new(|_| {}));
        let mut freezer = Freezer::new(directory.try_clone().unwrap(), lateness).unwrap();
        let frozen = freezer.freeze().unwrap();
        let while_frozen = is_frozen(&directory);
        drop(frozen);
        assert!(while_frozen && !is_frozen(&directory));
        assert_eq!(freezer.count, 1);
        system::freeze(directory.as_raw_fd()).unwrap();
        let refusal = freezer.freeze().map(|_| ()).map_err(|error| error.kind());
        drop(freezer);
        let is_still_frozen = is_frozen(&directory);
        let _ = system::thaw(directory.as_raw_fd());
        assert_eq!(refusal, Err(ErrorKind::Refused));
        assert!(is_still_frozen);
    }
}
