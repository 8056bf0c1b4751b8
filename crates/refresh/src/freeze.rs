//! Freezes a file system for moments (`FIFREEZE`), and thaws it whatever happens.
//!
//! A child process freezes and thaws; its parent, the refresh, asks for both through a pipe. So the child
//! knows that the refresh has frozen the file system, and not somebody else, even if the parent is killed
//! at any moment. When the pipe closes, because the parent is done or was killed, the child thaws the
//! file system, and tries until that succeeds. When a freeze has lasted [`PATIENCE`], the child also
//! kills its parent: a parent that was stopped (SIGSTOP) within a freeze must not resume later and write
//! data that is outdated by then, so it must be gone before others may write. The child waits for that
//! however long it takes: a process that is within a write ends only after the write, and only then the
//! kernel closes its end of the pipe. The child also takes back the expediting of RCU grace periods
//! (`grace.rs`).
//!
//! If both processes are killed at once within a freeze, such as with all of a control group, the file
//! system stays frozen; `fsfreeze --unfreeze` thaws it.

mod child;

use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

use self::child::{Ends, FREEZE, THAW, pipe, watch};
use crate::grace::{GracePeriods, Hurried};
use crate::lateness::{Lateness, Step};
use crate::urgency::Urgency;
use crate::{DriveError, ErrorKind, io, refused, system};

/// Time after which something must be wrong with a freeze.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// Number of kinds of writers that the kernel locks out one after the other: writes, page faults of
/// mapped memory, and the file system's own writes.
const WRITERS: u32 = 3;

/// A file system that can be frozen.
#[derive(Debug)]
pub struct Freezer {
    directory: File,
    grace_periods: GracePeriods,
    /// Write end of the pipe by which the child receives commands.
    ask: OwnedFd,
    /// Read end of the pipe by which the child answers.
    answers: OwnedFd,
    child: libc::pid_t,
    /// Watchdog that reports steps that take too long.
    lateness: Lateness,
    /// Longest freeze so far, from the request to freeze until the thaw.
    pub longest: Duration,
    /// Number of freezes so far.
    pub count: u64,
    /// Times of the last freeze.
    pub last: Times,
}

/// Times of one freeze.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// Time from the request to freeze until the file system was frozen. Writers may be held up from the
    /// request on.
    pub freezing: Duration,
    /// Time from the request to thaw until the file system was thawed.
    pub thawing: Duration,
    /// Time from the request to freeze until the file system was thawed.
    pub whole: Duration,
}

/// A file system that is frozen. Dropping this value thaws it.
#[derive(Debug)]
pub struct Frozen<'a> {
    freezer: &'a mut Freezer,
    since: Instant,
    freezing: Duration,
    // Both end when the file system is thawed.
    _urgency: Urgency,
    _hurried: Hurried,
}

impl Freezer {
    /// Starts the child process for the file system of `directory`; `lateness` reports steps that take
    /// too long.
    ///
    /// # Errors
    /// Returns an error if there can be no child process.
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
        // Memory that was swapped out would have to be read while writers wait.
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

    /// Sends a command to the child. The inner result is the outcome of the command.
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

    /// Has the child thaw the file system; this process thaws it if the child is gone.
    fn thaw(&self) -> std::io::Result<()> {
        self.has(THAW).unwrap_or_else(|_| system::thaw(self.directory.as_raw_fd()))
    }

    /// Freezes the file system. Dirty data should be [written back](Freezer::outlook) before, so that the
    /// freeze itself is short.
    ///
    /// # Errors
    /// Returns an error if the file system is frozen by somebody else, or cannot be frozen.
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

    /// Returns an estimate of how long it would take now until the file system is frozen, without anybody
    /// having to wait.
    ///
    /// Dirty data is written back twice; the second time, when next to nothing is dirty, is measured. If
    /// `is_first`, three grace periods are measured as well: the kernel locks out three kinds of writers
    /// one after the other, each of which takes a grace period (`freeze_super`, fs/super.c;
    /// `percpu_down_write`). Right after a thaw the kernel has not finished unlocking, so that locking
    /// again needs no grace period. Waiting for grace periods would end that state, so `is_first` should
    /// not be true between freezes that follow each other closely.
    ///
    /// # Errors
    /// Returns an error if the data cannot be written back.
    pub fn outlook(&self, is_first: bool) -> Result<Duration, DriveError> {
        let sync = || {
            self.lateness.wait_for(Some(Step::WriteBack));
            let outcome = rustix::fs::syncfs(&self.directory);
            self.lateness.wait_for(None);
            outcome.map_err(|error| io("cannot sync", error))
        };
        sync()?;
        // Not before the first sync: much may have been dirty, and expediting costs the whole machine.
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
    /// Returns the moment of the request to freeze. Writers may be held up from then on.
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
        // The child tries again when this process is gone; a frozen file system that nobody thaws is the
        // worst that can happen here.
        assert!(outcome.is_ok(), "the file system does not thaw: {outcome:?}");
    }
}

impl Drop for Freezer {
    fn drop(&mut self) {
        // The child listens until the write end of the pipe is closed.
        if let Ok(nobody) = File::open("/dev/null") {
            self.ask = nobody.into();
        }
        // SAFETY: the child is ours, and ends when the pipe closes.
        unsafe { libc::waitpid(self.child, std::ptr::null_mut(), 0) };
    }
}

/// Sets the handling of the signals that stop a process: Ctrl-Z within a freeze would stop this process
/// and leave all writers waiting.
fn stop_signals(how: libc::sighandler_t) {
    for signal in [libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU] {
        // SAFETY: no handler is installed, only SIG_IGN or SIG_DFL.
        unsafe { libc::signal(signal, how) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lateness::{Place, Tell};
    use crate::mounted::Mounted;

    /// Returns true if the file system is frozen; thaws it again if this test froze it.
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
