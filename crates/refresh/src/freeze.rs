//! Freezes a file system for moments (`FIFREEZE`), and thaws it whatever happens.
//!
//! A child process freezes and thaws; its parent, the refresh, asks for both through a pipe. So the child
//! knows that the refresh has frozen the file system, and not somebody else, even if the parent is killed
//! at any moment. When the pipe closes, because the parent is done or was killed, the child thaws the
//! file system, and tries until that succeeds. When a freeze has lasted [`FREEZE_TIMEOUT`], the child also
//! kills its parent: a parent that was stopped (SIGSTOP) within a freeze must not resume later and write
//! data that is outdated by then, so it must be gone before others may write. The child waits for that
//! however long it takes: a process that is within a write ends only after the write, and only then the
//! kernel closes its end of the pipe. The child also takes back the expediting of RCU grace periods
//! (`rcu.rs`).
//!
//! If both processes are killed at once within a freeze, such as with all of a control group, the file
//! system stays frozen; `fsfreeze --unfreeze` thaws it.

mod child;

use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

use self::child::{ChildDescriptors, FREEZE, THAW, pipe, run};
use crate::priority::RaisedPriority;
use crate::rcu::{Expedited, RcuExpedite};
use crate::stall::{Step, Watchdog};
use crate::{DriveError, ErrorKind, io, refused, system};

/// Time after which something must be wrong with a freeze.
pub const FREEZE_TIMEOUT: Duration = Duration::from_secs(10);

/// Number of kinds of writers that the kernel locks out one after the other: writes, page faults of
/// mapped memory, and the file system's own writes.
const FREEZE_LEVELS: u32 = 3;

/// A file system that can be frozen.
#[derive(Debug)]
pub struct Freezer {
    directory: File,
    rcu: RcuExpedite,
    /// Write end of the pipe by which the child receives commands.
    commands: OwnedFd,
    /// Read end of the pipe by which the child answers.
    answers: OwnedFd,
    child: libc::pid_t,
    /// Watchdog that reports steps that take too long.
    watchdog: Watchdog,
    /// Longest freeze so far, from the request to freeze until the thaw.
    pub longest: Duration,
    /// Number of freezes so far.
    pub count: u64,
    /// Times of the last freeze.
    pub last: FreezeTimes,
}

/// Times of one freeze.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FreezeTimes {
    /// Time from the request to freeze until the file system was frozen. Writers may be held up from the
    /// request on.
    pub freezing: Duration,
    /// Time from the request to thaw until the file system was thawed.
    pub thawing: Duration,
    /// Time from the request to freeze until the file system was thawed.
    pub total: Duration,
}

/// A file system that is frozen. Dropping this value thaws it.
#[derive(Debug)]
pub struct Frozen<'a> {
    freezer: &'a mut Freezer,
    since: Instant,
    freezing: Duration,
    // Both end when the file system is thawed.
    _priority: RaisedPriority,
    _expedited: Expedited,
}

impl Freezer {
    /// Starts the child process for the file system of `directory`; `watchdog` reports steps that take
    /// too long.
    ///
    /// # Errors
    /// Returns an error if there can be no child process.
    pub fn new(directory: File, watchdog: Watchdog) -> Result<Freezer, DriveError> {
        let cannot = |error| io("cannot start the process that thaws the file system", error);
        let (commands_end, commands) = pipe().map_err(cannot)?;
        let (answers, answer) = pipe().map_err(cannot)?;
        let rcu = RcuExpedite::of_kernel();
        // SAFETY: getpid does nothing else.
        let parent = unsafe { libc::getpid() };
        let descriptors = ChildDescriptors {
            commands_end: commands_end.as_raw_fd(),
            answer: answer.as_raw_fd(),
            directory: directory.as_raw_fd(),
            setting: rcu.descriptor(),
        };
        // SAFETY: the child calls nothing but what may be called after a fork of a program with
        // threads (signal-safety(7)), and never returns.
        let child = unsafe { libc::fork() };
        if child == 0 {
            run(parent, descriptors, FREEZE_TIMEOUT);
        }
        if child < 0 {
            return Err(cannot(std::io::Error::last_os_error()));
        }
        // Memory that was swapped out would have to be read while writers wait.
        system::lock_memory();
        let (longest, last) = (Duration::ZERO, FreezeTimes::default());
        let count = 0;
        Ok(Freezer { directory, rcu, commands, answers, child, watchdog, longest, count, last })
    }

    /// Sends a command to the child. The inner result is the outcome of the command.
    fn command(&self, command: u8) -> Result<std::io::Result<()>, DriveError> {
        let gone =
            |error: std::io::Error| io("the process that thaws the file system has ended", error);
        match rustix::io::retry_on_intr(|| rustix::io::write(&self.commands, &[command])) {
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
        self.command(THAW).unwrap_or_else(|_| system::thaw(self.directory.as_raw_fd()))
    }

    /// Freezes the file system. Dirty data should be [written back](Freezer::estimate_freeze_time) before, so that the
    /// freeze itself is short.
    ///
    /// # Errors
    /// Returns an error if the file system is frozen by somebody else, or cannot be frozen.
    pub fn freeze(&mut self) -> Result<Frozen<'_>, DriveError> {
        let priority = RaisedPriority::begin();
        let expedited = self.rcu.expedite();
        let since = Instant::now();
        set_stop_signals(libc::SIG_IGN);
        self.watchdog.set_step(Some(Step::Freeze));
        let outcome = self.command(FREEZE);
        let is_frozen = matches!(outcome, Ok(Ok(())));
        self.watchdog.set_step(is_frozen.then_some(Step::Rewrite));
        if !is_frozen {
            set_stop_signals(libc::SIG_DFL);
        }
        if let Err(error) = outcome? {
            return Err(match error.raw_os_error() {
                Some(libc::EBUSY) => refused(
                    "another program has frozen the file system; try again when it is thawed",
                ),
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
            _priority: priority,
            _expedited: expedited,
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
    pub fn estimate_freeze_time(&self, is_first: bool) -> Result<Duration, DriveError> {
        let sync = || {
            self.watchdog.set_step(Some(Step::WriteBack));
            let outcome = rustix::fs::syncfs(&self.directory);
            self.watchdog.set_step(None);
            outcome.map_err(|error| io("cannot sync", error))
        };
        sync()?;
        // Not before the first sync: much may have been dirty, and expediting costs the whole machine.
        let _expedited = self.rcu.expedite();
        let since = Instant::now();
        sync()?;
        if is_first {
            (0..FREEZE_LEVELS).for_each(|_| system::wait_for_rcu_grace_period());
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
        self.freezer.watchdog.set_step(Some(Step::Thaw));
        let outcome = self.freezer.thaw();
        self.freezer.watchdog.set_step(None);
        let (thawing, total) = (asked.elapsed(), self.since.elapsed());
        set_stop_signals(libc::SIG_DFL);
        self.freezer.last = FreezeTimes { freezing: self.freezing, thawing, total };
        self.freezer.longest = self.freezer.longest.max(total);
        // The child tries again when this process is gone; a frozen file system that nobody thaws is the
        // worst that can happen here.
        assert!(outcome.is_ok(), "the file system does not thaw: {outcome:?}");
    }
}

impl Drop for Freezer {
    fn drop(&mut self) {
        // The child listens until the write end of the pipe is closed.
        if let Ok(nobody) = File::open("/dev/null") {
            self.commands = nobody.into();
        }
        // SAFETY: the child is ours, and ends when the pipe closes.
        unsafe { libc::waitpid(self.child, std::ptr::null_mut(), 0) };
    }
}

/// Sets the handling of the signals that stop a process: Ctrl-Z within a freeze would stop this process
/// and leave all writers waiting.
fn set_stop_signals(how: libc::sighandler_t) {
    for signal in [libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU] {
        // SAFETY: no handler is installed, only SIG_IGN or SIG_DFL.
        unsafe { libc::signal(signal, how) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loop_mount::LoopMount;
    use crate::stall::{Callback, StallContext};

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
        let Some(mounted) = LoopMount::new("ext4", "freezes") else { return };
        let directory = File::open(mounted.point()).unwrap();
        let context = StallContext { name: "ext4".to_owned(), advice: "wait".to_owned() };
        let watchdog = Watchdog::new(context, Callback::new(|_| {}));
        let mut freezer = Freezer::new(directory.try_clone().unwrap(), watchdog).unwrap();
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
