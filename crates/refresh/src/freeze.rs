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

use std::fs::File;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::time::{Duration, Instant};

use crate::grace::{self, GracePeriods, Hurried};
use crate::lateness::{Lateness, Step};
use crate::urgency::Urgency;
use crate::{DriveError, ErrorKind, io, refused, system};

/// How long a freeze may last before something must be wrong.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// How long the child waits before it tries again to thaw.
const AGAIN: Duration = Duration::from_millis(200);

/// Kinds of writers that are locked out one after the other: those that write, those that touch
/// mapped memory, and the file system's own.
const WRITERS: u32 = 3;

/// What the child is asked for. It answers with the number of an error, 0 for none, as four bytes.
const FREEZE: u8 = b'f';
const THAW: u8 = b't';

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
        let sync = || {
            self.lateness.wait_for(Some(Step::WriteBack));
            let outcome = rustix::fs::syncfs(&self.directory);
            self.lateness.wait_for(None);
            outcome.map_err(|error| io("cannot sync", error))
        };
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

/// Two ends of a pipe: to read from, and to write to.
fn pipe() -> std::io::Result<(OwnedFd, OwnedFd)> {
    let mut ends: [RawFd; 2] = [0; 2];
    // SAFETY: room for two numbers.
    if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) } < 0 {
        return Err(std::io::Error::last_os_error());
    }
    // SAFETY: two descriptors that nobody else has.
    Ok(ends.map(|end| unsafe { OwnedFd::from_raw_fd(end) }).into())
}

/// Ctrl-Z in the middle of a freeze would stop this process and leave everybody waiting.
fn stop_signals(how: libc::sighandler_t) {
    for signal in [libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU] {
        // SAFETY: no handler is installed, only what is done without one.
        unsafe { libc::signal(signal, how) };
    }
}

/// What the child has open.
#[derive(Clone, Copy)]
struct Ends {
    listen: RawFd,
    answer: RawFd,
    /// Something of the file system.
    directory: RawFd,
    /// That of the kernel's grace periods.
    setting: Option<RawFd>,
}

/// The child: freezes and thaws until its parent is done, or gone; ends it when it has had it frozen for
/// longer than `patience`.
fn watch(parent: libc::pid_t, ends: Ends, patience: Duration) -> ! {
    let Ends { listen, answer, directory, setting } = ends;
    // SAFETY: only functions of signal-safety(7), on numbers that were made before the fork.
    unsafe {
        libc::setsid();
        // Others wait for it, and whoever is killed in the middle of a freeze leaves it to this process,
        // however busy others are.
        system::schedule(system::Scheduling::FIRST);
        system::set_priority_of_requests(system::REQUESTS_FIRST);
        system::stay_in_memory();
        let signals = [
            libc::SIGINT,
            libc::SIGTERM,
            libc::SIGHUP,
            libc::SIGQUIT,
            libc::SIGTSTP,
            libc::SIGPIPE,
        ];
        for signal in signals {
            libc::signal(signal, libc::SIG_IGN);
        }
        // Whatever else the parent has open must not stay open here: locks, pipes, and the other ends
        // of these very pipes.
        let mut kept = [listen, answer, directory, setting.unwrap_or(directory)];
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
                let is_freeze = word == FREEZE;
                let outcome =
                    if is_freeze { system::freeze(directory) } else { system::thaw(directory) };
                // What could not be thawed is frozen still; what could not be frozen is not ours.
                if outcome.is_ok() {
                    is_frozen = is_freeze;
                }
                let number = outcome.err().and_then(|it| it.raw_os_error()).unwrap_or(0);
                libc::write(answer, (&raw const number).cast(), size_of::<i32>());
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
    use std::process::Command;

    use super::*;
    use crate::lateness::{Place, Tell};
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

    /// A child that freezes at the request of this process, on behalf of another one.
    struct Asked {
        ask: Option<OwnedFd>,
        answers: OwnedFd,
        child: libc::pid_t,
    }

    impl Asked {
        fn new(directory: &File, parent: libc::pid_t, patience: Duration) -> Asked {
            let (listen, ask) = pipe().unwrap();
            let (answers, answer) = pipe().unwrap();
            let ends = Ends {
                listen: listen.as_raw_fd(),
                answer: answer.as_raw_fd(),
                directory: directory.as_raw_fd(),
                setting: None,
            };
            // SAFETY: as in Freezer::new.
            let child = unsafe { libc::fork() };
            if child == 0 {
                watch(parent, ends, patience);
            }
            Asked { ask: Some(ask), answers, child }
        }

        fn ask(&self, word: u8) {
            rustix::io::write(self.ask.as_ref().unwrap(), &[word]).unwrap();
        }

        fn answer(&self) -> i32 {
            let mut answer = [0; 4];
            assert_eq!(rustix::io::read(&self.answers, &mut answer).unwrap(), 4);
            i32::from_ne_bytes(answer)
        }

        /// As if who asked were gone; until the child is.
        fn end(&mut self) {
            self.ask = None;
            // SAFETY: the child is ours.
            unsafe { libc::waitpid(self.child, std::ptr::null_mut(), 0) };
        }
    }

    #[test]
    fn nothing_is_thawed_before_who_has_it_frozen_is_gone_and_then_it_is() {
        let Some(mounted) = Mounted::new("ext4", "freezes and their child") else { return };
        let directory = File::open(mounted.point()).unwrap();
        // Stands in for the one that asks; its end of the pipe is ours, and stays open though it is
        // killed: as when it is within a write that does not end.
        let mut parent = Command::new("sleep").arg("60").spawn().unwrap();
        let patience = Duration::from_millis(100);
        let mut asked = Asked::new(&directory, parent.id() as libc::pid_t, patience);
        asked.ask(FREEZE);
        let outcome = asked.answer();
        let killed = parent.wait().unwrap();
        std::thread::sleep(patience * 10);
        let is_still_frozen = is_frozen(&directory);
        asked.end();
        let is_thawed = !is_frozen(&directory);
        // Whatever it came to, nothing stays frozen.
        let _ = system::thaw(directory.as_raw_fd());
        assert_eq!(outcome, 0);
        assert!(!killed.success(), "it was killed after its time");
        assert!(is_still_frozen, "its write may still be under way");
        assert!(is_thawed, "it is gone");
    }

    #[test]
    fn what_others_have_frozen_stays_so_whenever_who_asked_is_killed() {
        let Some(mounted) = Mounted::new("ext4", "freezes of others") else { return };
        let directory = File::open(mounted.point()).unwrap();
        system::freeze(directory.as_raw_fd()).unwrap();
        // SAFETY: getpid does nothing else.
        let parent = unsafe { libc::getpid() };
        // Gone before the answer, and after it.
        let answers = [false, true].map(|waits| {
            let mut asked = Asked::new(&directory, parent, PATIENCE);
            asked.ask(FREEZE);
            let answer = waits.then(|| asked.answer());
            asked.end();
            answer
        });
        let is_still_frozen = is_frozen(&directory);
        let _ = system::thaw(directory.as_raw_fd());
        assert_eq!(answers, [None, Some(libc::EBUSY)]);
        assert!(is_still_frozen, "somebody else thaws it");
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
