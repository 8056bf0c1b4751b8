//! A file system that is frozen for a moment, and thawed whatever happens.
//!
//! Before the first freeze a child process is made that holds something of the file system open and
//! waits at a pipe. When the pipe closes, because this process is done or was killed, it thaws, and
//! tries until that is done. It also kills this process when a freeze has lasted [`PATIENCE`]: one that
//! was stopped (SIGSTOP) in the middle must not go on later and write what is outdated by then, so it
//! must be gone before others may write. However long that takes is waited for: a process that is
//! within a write, or within the request to freeze, is not gone before that is over, and only then the
//! kernel closes its end of the pipe. The child takes back as well what was asked of the kernel's grace
//! periods (`grace.rs`).
//!
//! Who kills both at once, such as with all of a control group, leaves a file system frozen when that
//! happens within a freeze; `fsfreeze --unfreeze` thaws it. And the kernel does not tell who has frozen a
//! file system: whoever is killed in the moment between being refused, since somebody else has frozen
//! it, and passing that on has it thawed by the child.

use std::fs::File;
use std::os::fd::{AsRawFd, RawFd};
use std::time::{Duration, Instant};

use crate::grace::{self, GracePeriods, Hurried};
use crate::urgency::Urgency;
use crate::{DriveError, ErrorKind, io, refused, system};

/// How long a freeze may last before something must be wrong.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// How long the child waits before it tries again to thaw.
const AGAIN: Duration = Duration::from_millis(200);

/// Kinds of writers that are locked out one after the other: those that write, those that touch
/// mapped memory, and the file system's own.
const WRITERS: u32 = 3;

/// What the child is told.
const FROZEN: u8 = b'f';
const THAWED: u8 = b't';

/// A file system that can be frozen.
#[derive(Debug)]
pub struct Freezer {
    directory: File,
    grace_periods: GracePeriods,
    /// Where the child listens.
    pipe: RawFd,
    child: libc::pid_t,
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
    /// For the file system that `directory` is on.
    ///
    /// # Errors
    /// When there is no child to thaw it.
    pub fn new(directory: File) -> Result<Freezer, DriveError> {
        let cannot = || io("cannot make the process that thaws", std::io::Error::last_os_error());
        let mut ends: [RawFd; 2] = [0; 2];
        // SAFETY: room for two numbers.
        if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) } < 0 {
            return Err(cannot());
        }
        let [listen, tell] = ends;
        let grace_periods = GracePeriods::of_kernel();
        // SAFETY: getpid does nothing else.
        let parent = unsafe { libc::getpid() };
        // SAFETY: the child calls nothing but what may be called after a fork of a program with
        // threads (signal-safety(7)), and never returns.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let setting = grace_periods.descriptor();
            watch(parent, listen, directory.as_raw_fd(), setting, PATIENCE);
        }
        // SAFETY: ours, and closed once.
        unsafe { libc::close(listen) };
        if child < 0 {
            let error = cannot();
            // SAFETY: as above.
            unsafe { libc::close(tell) };
            return Err(error);
        }
        // What is swapped out would have to be read while everybody waits.
        system::stay_in_memory();
        let (longest, last) = (Duration::ZERO, Times::default());
        Ok(Freezer { directory, grace_periods, pipe: tell, child, longest, count: 0, last })
    }

    fn tell(&self, word: u8) -> Result<(), DriveError> {
        let word = [word];
        // SAFETY: one byte; the pipe is open as long as this value lives.
        let written = unsafe { libc::write(self.pipe, word.as_ptr().cast(), 1) };
        if written == 1 {
            return Ok(());
        }
        Err(io("the process that thaws is gone", std::io::Error::last_os_error()))
    }

    /// Freezes it. What is dirty should be [written back](Freezer::outlook) before, so that the
    /// freeze itself is short.
    ///
    /// # Errors
    /// When it is frozen by somebody else, or cannot be.
    pub fn freeze(&mut self) -> Result<Frozen<'_>, DriveError> {
        self.tell(FROZEN)?;
        let urgency = Urgency::begin();
        let hurried = self.grace_periods.hurry();
        let since = Instant::now();
        stop_signals(libc::SIG_IGN);
        if let Err(error) = system::freeze(self.directory.as_raw_fd()) {
            stop_signals(libc::SIG_DFL);
            // It is not frozen by us, and must not be thawed by us.
            self.tell(THAWED)?;
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

    /// How long it would take now until the file system is frozen, as far as can be known without
    /// anybody having to wait: what is dirty is written back, and once more, when next to nothing is;
    /// and the kernel locks out three kinds of writers one after the other, each of which takes it a
    /// grace period (`freeze_super`, fs/super.c; `percpu_down_write`). Right after a thaw it has not
    /// yet unlocked in earnest, and that costs nothing; so `is_first` should not be said in the midst
    /// of freezes, since waiting for grace periods would end that.
    ///
    /// # Errors
    /// When the file system fails.
    pub fn outlook(&self, is_first: bool) -> Result<Duration, DriveError> {
        let _hurried = self.grace_periods.hurry();
        let sync = || rustix::fs::syncfs(&self.directory).map_err(|error| io("cannot sync", error));
        sync()?;
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
        let outcome = system::thaw(self.freezer.directory.as_raw_fd());
        let (thawing, whole) = (asked.elapsed(), self.since.elapsed());
        if outcome.is_ok() {
            let _ = self.freezer.tell(THAWED);
        }
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
        // SAFETY: ours, closed once; the child is ours and ends when the pipe closes.
        unsafe {
            libc::close(self.pipe);
            libc::waitpid(self.child, std::ptr::null_mut(), 0);
        }
    }
}

/// Ctrl-Z in the middle of a freeze would stop this process and leave everybody waiting.
fn stop_signals(how: libc::sighandler_t) {
    for signal in [libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU] {
        // SAFETY: no handler is installed, only what is done without one.
        unsafe { libc::signal(signal, how) };
    }
}

/// The child: waits until its parent is done, or gone; ends it when it has frozen for longer than
/// `patience`.
fn watch(
    parent: libc::pid_t,
    listen: RawFd,
    directory: RawFd,
    setting: Option<RawFd>,
    patience: Duration,
) -> ! {
    // SAFETY: only functions of signal-safety(7), on numbers that were made before the fork.
    unsafe {
        libc::setsid();
        // Whoever is killed in the middle of a freeze leaves it to this process, however busy others
        // are.
        system::schedule(system::Scheduling::FIRST);
        system::stay_in_memory();
        for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT, libc::SIGTSTP] {
            libc::signal(signal, libc::SIG_IGN);
        }
        // Whatever else the parent has open must not stay open here: locks, pipes, and the writing
        // end of this very pipe.
        let mut kept = [listen, directory, setting.unwrap_or(directory)];
        kept.sort_unstable();
        let mut first = 0;
        for one in kept {
            close_range(first, one - 1);
            first = one + 1;
        }
        close_range(first, RawFd::MAX);
        let mut is_frozen = false;
        let mut is_ended = false;
        loop {
            let mut ask = libc::pollfd { fd: listen, events: libc::POLLIN, revents: 0 };
            let is_patient = !is_frozen || is_ended;
            let wait = if is_patient { -1 } else { patience.as_millis() as libc::c_int };
            let found = libc::poll(&mut ask, 1, wait);
            if found == 0 {
                libc::kill(parent, libc::SIGKILL);
                is_ended = true;
                continue;
            }
            let mut word = 0_u8;
            let read = libc::read(listen, (&raw mut word).cast(), 1);
            if read == 1 {
                is_frozen = word == FROZEN;
            } else if read == 0 {
                break;
            }
        }
        if is_frozen {
            thaw_at_last(
                || system::thaw(directory),
                || {
                    libc::poll(std::ptr::null_mut(), 0, AGAIN.as_millis() as libc::c_int);
                },
            );
        }
        if let Some(setting) = setting {
            grace::take_back(setting);
        }
        libc::_exit(0)
    }
}

/// Thaws until that has worked, or nothing is frozen any more. Safe to call after a fork, as long as what
/// it is given is.
fn thaw_at_last(mut thaw: impl FnMut() -> std::io::Result<()>, mut pause: impl FnMut()) {
    // Thawing writes, and fails while the drive does.
    while thaw().is_err_and(|error| error.raw_os_error() != Some(libc::EINVAL)) {
        pause();
    }
}

unsafe fn close_range(first: RawFd, last: RawFd) {
    if first <= last {
        // SAFETY: two numbers and flags; what is not open is passed over.
        unsafe { libc::syscall(libc::SYS_close_range, first as u32, last as u32, 0) };
    }
}

#[cfg(test)]
mod tests {
    use std::io::Error;
    use std::process::{Child, Command};

    use super::*;
    use crate::mounted::Mounted;

    #[test]
    fn what_does_not_thaw_is_tried_again_until_it_is_not_frozen() {
        let mut outcomes = [libc::EIO, libc::EAGAIN, libc::EINVAL, libc::EIO].into_iter();
        let (mut asked, mut pauses) = (0, 0);
        let thaw = || {
            asked += 1;
            Err(Error::from_raw_os_error(outcomes.next().unwrap()))
        };
        thaw_at_last(thaw, || pauses += 1);
        assert_eq!((asked, pauses), (3, 2));
        thaw_at_last(|| Ok(()), || panic!("it is thawed"));
    }

    /// Whether it is frozen; thaws it where it was not.
    fn is_frozen(directory: &File) -> bool {
        match system::freeze(directory.as_raw_fd()) {
            Ok(()) => {
                system::thaw(directory.as_raw_fd()).unwrap();
                false
            }
            Err(error) => error.raw_os_error() == Some(libc::EBUSY),
        }
    }

    fn sleeper() -> Child {
        Command::new("sleep").arg("60").spawn().unwrap()
    }

    #[test]
    fn nothing_is_thawed_before_who_has_frozen_is_gone_and_then_it_is() {
        let Some(mounted) = Mounted::new("ext4", "freezes and their child") else { return };
        let directory = File::open(mounted.point()).unwrap();
        let mut ends: [RawFd; 2] = [0; 2];
        // SAFETY: room for two numbers.
        assert_eq!(unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) }, 0);
        let [listen, tell] = ends;
        // Stands in for the one that freezes; its end of the pipe is ours, and stays open though it is
        // killed: as when it is within a write that does not end.
        let mut parent = sleeper();
        let patience = Duration::from_millis(100);
        // SAFETY: as in Freezer::new.
        let child = unsafe { libc::fork() };
        if child == 0 {
            watch(parent.id() as libc::pid_t, listen, directory.as_raw_fd(), None, patience);
        }
        system::freeze(directory.as_raw_fd()).unwrap();
        // SAFETY: one byte, to a pipe of ours.
        unsafe { libc::write(tell, [FROZEN].as_ptr().cast(), 1) };
        let killed = parent.wait().unwrap();
        std::thread::sleep(patience * 10);
        let is_still_frozen = is_frozen(&directory);
        // SAFETY: ours, closed once; the child is ours.
        unsafe {
            libc::close(tell);
            libc::close(listen);
            libc::waitpid(child, std::ptr::null_mut(), 0);
        }
        let is_thawed = !is_frozen(&directory);
        // Whatever it came to, nothing stays frozen.
        let _ = system::thaw(directory.as_raw_fd());
        assert!(!killed.success(), "it was killed after its time");
        assert!(is_still_frozen, "its write may still be under way");
        assert!(is_thawed, "it is gone");
    }
}
