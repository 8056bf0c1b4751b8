//! Answers that wait for their deadline, sent by one thread of each connection.
//!
//! That thread also receives requests: on a machine of few processors a thread that only answers would wait for
//! a processor behind the one that receives, and send answers late. So the thread checks the clock between two
//! requests and sends all answers that are due. While an answer is due soon, it polls the clock and the socket
//! instead of sleeping.

use std::collections::BinaryHeap;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::time::Timespec;

use crate::scheduling::Scheduling;

/// Time before a deadline from which on a thread no longer sleeps: the system wakes threads late by about this
/// much. It is shorter for a thread with real-time priority, which is woken sooner and keeps others from its
/// processor while it polls.
const POLL_WINDOW: Duration = Duration::from_micros(60);
const POLL_WINDOW_REALTIME: Duration = Duration::from_micros(30);

/// True if a thread polls the clock. Only one may at a time, because it occupies a processor; the others sleep
/// until their deadline, and are late by the time that the system takes to wake them.
static IS_ONE_POLLING: AtomicBool = AtomicBool::new(false);

struct Entry<T> {
    deadline: Instant,
    order: u64,
    reply: T,
}

impl<T> PartialEq for Entry<T> {
    fn eq(&self, other: &Entry<T>) -> bool {
        self.order == other.order
    }
}

impl<T> Eq for Entry<T> {}

impl<T> PartialOrd for Entry<T> {
    fn partial_cmp(&self, other: &Entry<T>) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Entry<T> {
    fn cmp(&self, other: &Entry<T>) -> std::cmp::Ordering {
        // The earliest deadline is the largest: `BinaryHeap` pops the maximum.
        (other.deadline, other.order).cmp(&(self.deadline, self.order))
    }
}

struct Queue<T> {
    entries: BinaryHeap<Entry<T>>,
    added: u64,
    /// Deadline for which the sending thread sleeps; `None` if it does not sleep.
    sleeps_until: Option<Instant>,
    /// True if the sending thread has to check the drive again before it sleeps.
    is_recheck_wanted: bool,
}

/// Answers of one connection that wait for their deadlines.
pub struct ReplyQueue<T> {
    queue: Mutex<Queue<T>>,
    wake: OwnedFd,
}

/// The right to poll the clock instead of sleeping.
struct BusyPoll;

impl BusyPoll {
    fn try_now() -> Option<BusyPoll> {
        (!IS_ONE_POLLING.swap(true, Ordering::Relaxed)).then_some(BusyPoll)
    }
}

impl Drop for BusyPoll {
    fn drop(&mut self) {
        IS_ONE_POLLING.store(false, Ordering::Relaxed);
    }
}

/// State that the sending thread keeps between two calls of `ReplyQueue::wait`.
#[derive(Default)]
pub struct Poller {
    busy_poll: Option<BusyPoll>,
    is_realtime: bool,
}

impl Poller {
    /// Notes whether the thread has real-time priority (`scheduling`): that sets how long before a deadline it
    /// polls.
    pub(crate) fn begin(&mut self, scheduling: &Scheduling) {
        self.is_realtime = scheduling.is_realtime();
    }

    /// Gives up the right to poll, so that another thread can take it.
    pub(crate) fn end(&mut self) {
        self.busy_poll = None;
    }
}

/// Stands for "never": longer than any drive takes to answer.
const NEVER: Duration = Duration::from_secs(3600);

impl<T> ReplyQueue<T> {
    /// Returns an empty queue.
    ///
    /// # Errors
    /// Returns an error if the process has no file descriptor left.
    pub fn new() -> io::Result<ReplyQueue<T>> {
        let flags = EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC;
        let queue = Queue {
            entries: BinaryHeap::new(),
            added: 0,
            sleeps_until: None,
            is_recheck_wanted: false,
        };
        Ok(ReplyQueue { queue: Mutex::new(queue), wake: eventfd(0, flags)? })
    }

    fn lock(&self) -> MutexGuard<'_, Queue<T>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues `reply` to be sent at `deadline`. Any thread may call this.
    pub fn add(&self, deadline: Instant, reply: T) {
        let mut queue = self.lock();
        queue.added += 1;
        let order = queue.added;
        queue.entries.push(Entry { deadline, order, reply });
        let is_too_late = queue.sleeps_until.is_some_and(|until| deadline < until);
        drop(queue);
        if is_too_late {
            // The write fails only if the eventfd is full, and then the thread is woken anyway.
            let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
        }
    }

    /// Makes the sending thread check the drive, because another thread has sent a request to the drive.
    pub fn recheck_drive(&self) {
        let mut queue = self.lock();
        queue.is_recheck_wanted = true;
        let sleeps = queue.sleeps_until.is_some();
        drop(queue);
        if sleeps {
            // The write fails only if the eventfd is full, and then the thread is woken anyway.
            let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
        }
    }

    /// Moves answers that are due to `due`, with their deadlines, the earliest first.
    pub fn take_due(&self, due: &mut Vec<(Instant, T)>) {
        let mut queue = self.lock();
        let Some(first) = queue.entries.peek() else { return };
        let now = Instant::now();
        if first.deadline > now {
            return;
        }
        while queue.entries.peek().is_some_and(|it| it.deadline <= now) {
            if let Some(Entry { deadline, reply, .. }) = queue.entries.pop() {
                due.push((deadline, reply));
            }
        }
    }

    /// Waits until an answer or the drive (at `drive_due`) is due, `socket` is ready for `wanted`, or `at_most`
    /// has passed. If something is due soon, returns at once while this thread holds the right to poll, so that
    /// the caller polls. If `wanted` is empty, a hang-up of the other end does not end the wait.
    ///
    /// # Errors
    /// Returns an error if `poll` fails.
    pub fn wait(
        &self,
        socket: BorrowedFd<'_>,
        wanted: PollFlags,
        at_most: Option<Duration>,
        drive_due: Option<Instant>,
        poller: &mut Poller,
    ) -> io::Result<()> {
        let mut queue = self.lock();
        if std::mem::take(&mut queue.is_recheck_wanted) {
            return Ok(());
        }
        let now = Instant::now();
        let first = queue.entries.peek().map_or(now + NEVER, |it| it.deadline);
        let first = drive_due.map_or(first, |due| first.min(due));
        if first <= now {
            return Ok(());
        }
        let poll_window = if poller.is_realtime { POLL_WINDOW_REALTIME } else { POLL_WINDOW };
        if first - now <= poll_window {
            poller.busy_poll = poller.busy_poll.take().or_else(BusyPoll::try_now);
            if poller.busy_poll.is_some() {
                return Ok(());
            }
        } else {
            poller.end();
        }
        let early =
            if IS_ONE_POLLING.load(Ordering::Relaxed) { Duration::ZERO } else { poll_window };
        let until = (first - early).max(now);
        queue.sleeps_until = Some(first);
        drop(queue);
        let left = (until - now).min(at_most.unwrap_or(NEVER));
        let timeout =
            Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
        let mut polled =
            [PollFd::new(&self.wake, PollFlags::IN), PollFd::from_borrowed_fd(socket, wanted)];
        let count = if wanted.is_empty() { 1 } else { 2 };
        let outcome = poll(&mut polled[..count], Some(&timeout));
        if !polled[0].revents().is_empty() {
            // Another thread has woken this one; the eventfd is reset, so that it can be woken again.
            let _ = rustix::io::read(&self.wake, &mut [0; 8]);
        }
        self.lock().sleeps_until = None;
        match outcome {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    fn later(ms: u64) -> Instant {
        Instant::now() + Duration::from_millis(ms)
    }

    #[test]
    fn answers_come_in_the_order_of_their_times_and_not_before() {
        let replies = ReplyQueue::new().expect("a descriptor");
        let (socket, _other) = UnixStream::pair().expect("a socket");
        for ms in [30u64, 10, 20] {
            replies.add(later(ms), ms);
        }
        let (mut due, mut poller) = (Vec::new(), Poller::default());
        while due.len() < 3 {
            replies
                .wait(socket.as_fd(), PollFlags::IN, None, None, &mut poller)
                .expect("time passes");
            replies.take_due(&mut due);
            assert!(due.iter().all(|(deadline, _)| *deadline <= Instant::now()));
        }
        assert_eq!(due.iter().map(|(_, ms)| *ms).collect::<Vec<_>>(), [10, 20, 30]);
    }

    #[test]
    fn one_that_is_due_earlier_wakes_who_waits_for_another() {
        let replies = ReplyQueue::new().expect("a descriptor");
        let (socket, _other) = UnixStream::pair().expect("a socket");
        replies.add(later(3_600_000), "much later");
        let (mut due, mut poller) = (Vec::new(), Poller::default());
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(20));
                replies.add(later(1), "soon");
            });
            while due.is_empty() {
                replies
                    .wait(socket.as_fd(), PollFlags::IN, None, None, &mut poller)
                    .expect("a wait");
                replies.take_due(&mut due);
            }
        });
        assert_eq!(due[0].1, "soon");
    }

    #[test]
    fn who_is_to_look_at_the_drive_does_not_sleep() {
        let replies = ReplyQueue::<()>::new().expect("a descriptor");
        let (socket, _other) = UnixStream::pair().expect("a socket");
        let mut poller = Poller::default();
        replies.recheck_drive();
        replies.wait(socket.as_fd(), PollFlags::IN, None, None, &mut poller).expect("no wait");
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(20));
                replies.recheck_drive();
            });
            replies.wait(socket.as_fd(), PollFlags::IN, None, None, &mut poller).expect("a wait");
        });
    }

    #[test]
    fn who_is_gone_ends_no_wait_of_somebody_who_wants_nothing_of_them() {
        let replies = ReplyQueue::new().expect("a descriptor");
        let (socket, other) = UnixStream::pair().expect("a socket");
        drop(other);
        replies.add(later(100), ());
        let began = Instant::now();
        let mut poller = Poller::default();
        replies
            .wait(socket.as_fd(), PollFlags::empty(), None, None, &mut poller)
            .expect("time passes");
        assert!(began.elapsed() > Duration::from_millis(50), "{:?}", began.elapsed());
    }

    #[test]
    fn a_request_ends_the_wait() {
        let replies = ReplyQueue::<()>::new().expect("a descriptor");
        let (socket, mut other) = UnixStream::pair().expect("a socket");
        std::io::Write::write_all(&mut other, b"request").expect("room");
        let mut poller = Poller::default();
        replies.wait(socket.as_fd(), PollFlags::IN, None, None, &mut poller).expect("a request");
    }
}
