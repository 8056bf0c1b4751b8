//! The engine for many requests at a time that lets threads wait for them, each one sending one
//! at a time: as many threads as requests may be in flight where there is no io_uring, and one a
//! processor where the drive carries requests out within the call that sends them.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ssdlab_error::DriveError;
use ssdlab_units::Nanoseconds;

use super::course::{Clock, Course, Request, Step, Watch};
use super::handle::Handle;
use super::payload::Payload;
use super::synchronous::{STAMPED_AT_ONCE, Transfer};

/// The most threads, whatever depth is asked for.
pub(super) const MOST_THREADS: u32 = 64;

/// What the threads share.
struct Shared<'a> {
    course: Mutex<&'a mut Course>,
    first_error: Mutex<Option<DriveError>>,
    clock: &'a Clock,
    together: usize,
}

/// The most requests that a thread takes from the course at once.
#[cfg(target_os = "linux")]
const TOGETHER_MOST: u32 = 8;

/// How many threads send, and how many requests each of them takes from the course at once, to
/// carry them out one after the other. Where a request takes microseconds, taking them one by one
/// is a part of its cost, and more so the more threads want to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Senders {
    pub(super) threads: u32,
    pub(super) together: u32,
}

impl Senders {
    /// One thread for each request in flight, as far as there may be so many.
    pub(super) fn one_a_request(depth: u32) -> Senders {
        Senders { threads: depth.min(MOST_THREADS), together: 1 }
    }

    /// One thread for each processor: that is what carries the requests out. None, where one
    /// thread is as many as there can be.
    #[cfg(target_os = "linux")]
    pub(super) fn one_a_processor(depth: u32) -> Option<Senders> {
        let processors = std::thread::available_parallelism().map_or(1, |count| count.get());
        let threads = depth.min(processors as u32).min(MOST_THREADS);
        let together = (depth / threads.max(1)).clamp(1, TOGETHER_MOST);
        (threads > 1).then_some(Senders { threads, together })
    }
}

/// Runs a course to its end with a thread for each of `payloads`, which takes `together` requests
/// at a time; `clock` started with the phase.
pub(super) fn run(
    course: &mut Course,
    watch: &mut Watch<'_>,
    clock: &Clock,
    file: &Handle,
    payloads: Vec<Payload>,
    together: u32,
) -> Result<(), DriveError> {
    let shared = Shared {
        course: Mutex::new(course),
        first_error: Mutex::new(None),
        clock,
        together: together as usize,
    };
    let mut own = Vec::with_capacity(payloads.len());
    for _ in &payloads {
        own.push(file.for_another_thread()?);
    }
    let mut outcome = Ok(());
    std::thread::scope(|scope| {
        // Nothing is sent through it: when the last thread is gone, so is the last sender.
        let (alive, over) = channel::<()>();
        for (payload, own) in payloads.into_iter().zip(&own) {
            let (alive, shared) = (alive.clone(), &shared);
            scope.spawn(move || shared.work(payload, own.as_ref().unwrap_or(file), alive));
        }
        drop(alive);
        while let Err(RecvTimeoutError::Timeout) = over.recv_timeout(Duration::from(Watch::PAUSE)) {
            let now = clock.now();
            let progress = locked(&shared.course).progress(now);
            if outcome.is_ok() {
                outcome = watch.tell(now, || progress);
            }
            if outcome.is_err() {
                locked(&shared.course).stop();
            }
        }
    });
    match locked(&shared.first_error).take() {
        Some(error) => Err(error),
        None => outcome,
    }
}

impl Shared<'_> {
    fn work(&self, mut payload: Payload, file: &Handle, _alive: Sender<()>) {
        let is_short = payload.length() <= STAMPED_AT_ONCE;
        let mut due = Vec::with_capacity(self.together);
        let mut answered = Vec::with_capacity(self.together);
        loop {
            match self.take(&mut due, &mut answered) {
                Some(Step::Wait(until)) if due.is_empty() => self.clock.wait(until),
                Some(Step::Done) if due.is_empty() => return,
                _ => {}
            }
            let mut now = self.clock.now();
            for request in due.drain(..) {
                let (buffer, carried) = payload.of(&request, 0);
                let sent = if request.read || is_short { now } else { self.clock.now() };
                if let Err(error) = (&mut &*file).transfer(&request, buffer) {
                    locked(&self.course).stop();
                    locked(&self.first_error).get_or_insert(error);
                    return;
                }
                now = self.clock.now();
                payload.give_back(carried);
                answered.push((request, sent, now));
            }
        }
    }

    /// Hands in what was answered, and takes the requests that are due, as many as a thread may
    /// have. Returns why there are no more, where there are not.
    fn take(
        &self,
        due: &mut Vec<Request>,
        answered: &mut Vec<(Request, Nanoseconds, Nanoseconds)>,
    ) -> Option<Step> {
        let mut course = locked(&self.course);
        for (request, sent, at) in answered.drain(..) {
            course.answered(&request, sent, at);
        }
        let now = self.clock.now();
        while due.len() < self.together {
            match course.next(now) {
                Step::Send(request) => due.push(request),
                other => return Some(other),
            }
        }
        None
    }
}

/// The lock, whether or not a thread panicked with it: the panic itself is passed on by the scope.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
