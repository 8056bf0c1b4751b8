//! The child process that freezes and thaws a file system at the request of its parent, and thaws it when
//! the parent is gone.

use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::time::Duration;

use crate::{rcu, system};

/// Time between two attempts to thaw.
const THAW_RETRY_INTERVAL: Duration = Duration::from_millis(200);

/// Commands to the child. It answers with an error number, 0 for success, in four bytes.
pub(super) const FREEZE: u8 = b'f';
pub(super) const THAW: u8 = b't';

/// Makes a pipe. Returns the read end and the write end.
pub(super) fn pipe() -> std::io::Result<(OwnedFd, OwnedFd)> {
    let mut descriptors: [RawFd; 2] = [0; 2];
    // SAFETY: room for two numbers.
    if unsafe { libc::pipe2(descriptors.as_mut_ptr(), libc::O_CLOEXEC) } < 0 {
        return Err(std::io::Error::last_os_error());
    }
    // SAFETY: two descriptors that nobody else has.
    Ok(descriptors.map(|end| unsafe { OwnedFd::from_raw_fd(end) }).into())
}

/// Descriptors that stay open in the child.
#[derive(Clone, Copy)]
pub(super) struct ChildDescriptors {
    pub(super) commands_end: RawFd,
    pub(super) answer: RawFd,
    /// The file system, by an open directory.
    pub(super) directory: RawFd,
    /// The setting of RCU grace periods.
    pub(super) setting: Option<RawFd>,
}

/// Main loop of the child: freezes and thaws until the parent is done or gone. Kills the parent when a
/// freeze has lasted longer than `timeout`.
pub(super) fn run(parent: libc::pid_t, descriptors: ChildDescriptors, timeout: Duration) -> ! {
    let ChildDescriptors { commands_end, answer, directory, setting } = descriptors;
    // SAFETY: only functions of signal-safety(7), on numbers that were made before the fork.
    unsafe {
        // Other descriptors of the parent must not stay open here: locks, pipes, the other ends of these very
        // pipes, and the device, which the next refresh finds in use otherwise if the parent is killed. They go
        // before all that takes time.
        let mut kept = [commands_end, answer, directory, setting.unwrap_or(directory)];
        kept.sort_unstable();
        let mut first = 0;
        for one in kept {
            close_range(first, one - 1);
            first = one + 1;
        }
        close_range(first, RawFd::MAX);
        libc::setsid();
        // Writers wait for the child, and after a kill within a freeze only the child can thaw, however
        // busy the machine is.
        system::set_scheduling(system::Scheduling::REAL_TIME);
        system::set_io_priority(system::IO_PRIORITY_REAL_TIME);
        system::lock_memory();
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
        let mut is_frozen = false;
        let mut is_ended = false;
        loop {
            let mut readable = libc::pollfd { fd: commands_end, events: libc::POLLIN, revents: 0 };
            let is_patient = !is_frozen || is_ended;
            let wait = if is_patient { -1 } else { timeout.as_millis() as libc::c_int };
            let found = libc::poll(&mut readable, 1, wait);
            if found == 0 {
                libc::kill(parent, libc::SIGKILL);
                is_ended = true;
                continue;
            }
            let mut command = 0_u8;
            let read = libc::read(commands_end, (&raw mut command).cast(), 1);
            if read == 1 {
                let is_freeze = command == FREEZE;
                let outcome =
                    if is_freeze { system::freeze(directory) } else { system::thaw(directory) };
                // A file system that could not be thawed is still frozen; one that could not be frozen is not frozen
                // by this process.
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
            thaw_until_done(
                || system::thaw(directory),
                || {
                    libc::poll(
                        std::ptr::null_mut(),
                        0,
                        THAW_RETRY_INTERVAL.as_millis() as libc::c_int,
                    );
                },
            );
        }
        if let Some(setting) = setting {
            rcu::restore(setting);
        }
        libc::_exit(0)
    }
}

/// Repeats the thaw until it succeeds, or nothing is frozen any more. Safe to call after a fork if `thaw`
/// and `pause` are.
fn thaw_until_done(mut thaw: impl FnMut() -> std::io::Result<()>, mut pause: impl FnMut()) {
    // A thaw writes to the drive, and fails while the drive fails.
    while thaw().is_err_and(|error| error.raw_os_error() != Some(libc::EINVAL)) {
        pause();
    }
}

unsafe fn close_range(first: RawFd, last: RawFd) {
    if first <= last {
        // SAFETY: two numbers and flags; closed descriptors are skipped.
        unsafe { libc::syscall(libc::SYS_close_range, first as u32, last as u32, 0) };
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Error;
    use std::os::fd::AsRawFd;
    use std::process::Command;

    use super::super::FREEZE_TIMEOUT;
    use super::super::tests::is_frozen;
    use super::*;
    use crate::loop_mount::LoopMount;

    #[test]
    fn what_does_not_thaw_is_tried_again_until_it_is_not_frozen() {
        let mut outcomes = [libc::EIO, libc::EAGAIN, libc::EINVAL, libc::EIO].into_iter();
        let (mut asked, mut pauses) = (0, 0);
        let thaw = || {
            asked += 1;
            Err(Error::from_raw_os_error(outcomes.next().unwrap()))
        };
        thaw_until_done(thaw, || pauses += 1);
        assert_eq!((asked, pauses), (3, 2));
        thaw_until_done(|| Ok(()), || panic!("it is thawed"));
    }

    /// A child that freezes at the request of this process, with another process as its parent.
    struct TestChild {
        commands: Option<OwnedFd>,
        answers: OwnedFd,
        child: libc::pid_t,
    }

    impl TestChild {
        fn new(directory: &File, parent: libc::pid_t, timeout: Duration) -> TestChild {
            let (commands_end, commands) = pipe().unwrap();
            let (answers, answer) = pipe().unwrap();
            let descriptors = ChildDescriptors {
                commands_end: commands_end.as_raw_fd(),
                answer: answer.as_raw_fd(),
                directory: directory.as_raw_fd(),
                setting: None,
            };
            // SAFETY: as in Freezer::new.
            let child = unsafe { libc::fork() };
            if child == 0 {
                run(parent, descriptors, timeout);
            }
            TestChild { commands: Some(commands), answers, child }
        }

        fn send(&self, command: u8) {
            rustix::io::write(self.commands.as_ref().unwrap(), &[command]).unwrap();
        }

        fn answer(&self) -> i32 {
            let mut answer = [0; 4];
            assert_eq!(rustix::io::read(&self.answers, &mut answer).unwrap(), 4);
            i32::from_ne_bytes(answer)
        }

        /// Closes the pipe, as if the parent were gone, and waits for the end of the child.
        fn end(&mut self) {
            self.commands = None;
            // SAFETY: the child is ours.
            unsafe { libc::waitpid(self.child, std::ptr::null_mut(), 0) };
        }
    }

    #[test]
    fn nothing_is_thawed_before_who_has_it_frozen_is_gone_and_then_it_is() {
        let Some(mounted) = LoopMount::new("ext4", "freezes and their child") else { return };
        let directory = File::open(mounted.point()).unwrap();
        // Stands in for the parent. The end of the pipe is ours and stays open though this process is
        // killed, as with a process within a write that does not end.
        let mut parent = Command::new("sleep").arg("60").spawn().unwrap();
        let timeout = Duration::from_millis(100);
        let mut child = TestChild::new(&directory, parent.id() as libc::pid_t, timeout);
        child.send(FREEZE);
        let outcome = child.answer();
        let killed = parent.wait().unwrap();
        std::thread::sleep(timeout * 10);
        let is_still_frozen = is_frozen(&directory);
        child.end();
        let is_thawed = !is_frozen(&directory);
        // Nothing stays frozen, whatever the outcome.
        let _ = system::thaw(directory.as_raw_fd());
        assert_eq!(outcome, 0);
        assert!(!killed.success(), "it was killed after its time");
        assert!(is_still_frozen, "its write may still be under way");
        assert!(is_thawed, "it is gone");
    }

    #[test]
    fn what_others_have_frozen_stays_so_whenever_who_asked_is_killed() {
        let Some(mounted) = LoopMount::new("ext4", "freezes of others") else { return };
        let directory = File::open(mounted.point()).unwrap();
        system::freeze(directory.as_raw_fd()).unwrap();
        // SAFETY: getpid does nothing else.
        let parent = unsafe { libc::getpid() };
        // The pipe is closed before the answer, and after it.
        let answers = [false, true].map(|waits| {
            let mut child = TestChild::new(&directory, parent, FREEZE_TIMEOUT);
            child.send(FREEZE);
            let answer = waits.then(|| child.answer());
            child.end();
            answer
        });
        let is_still_frozen = is_frozen(&directory);
        let _ = system::thaw(directory.as_raw_fd());
        assert_eq!(answers, [None, Some(libc::EBUSY)]);
        assert!(is_still_frozen, "somebody else thaws it");
    }
}
