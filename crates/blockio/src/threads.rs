//! Thread engine: each thread sends one request at a time and waits for it. There is one thread per
//! request in flight if io_uring is not available, and one per processor if the drive executes requests
//! within the call that sends them.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ssdlab_error::DriveError;
use ssdlab_units::Nanoseconds;

use super::course::{Clock, Course, Request, Step, Watch};
use super::handle::Handle;
use super::payload::Payload;
use super::synchronous::{STAMPED_AT_ONCE, Transfer};

/// Largest number of threads, whatever the depth.
pub(super) const MOST_THREADS: u32 = 64;

/// State that the threads share.
struct Shared<'a> {
    course: Mutex<&'a mut Course>,
    first_error: Mutex<Option<DriveError>>,
    clock: &'a Clock,
    together: usize,
}

/// Largest number of requests that a thread takes from the phase runner at once.
#[cfg(target_os = "linux")]
const TOGETHER_MOST: u32 = 8;

/// Number of sending threads, and of requests that each of them takes from the phase runner at once, to
/// execute them one after the other. If a request takes microseconds, taking requests one by one is a
/// noticeable part of the cost, and more so the more threads there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Senders {
    pub(super) threads: u32,
    pub(super) together: u32,
}

impl Senders {
    /// Returns one thread per request in flight, up to the largest number.
    pub(super) fn one_a_request(depth: u32) -> Senders {
        Senders { threads: depth.min(MOST_THREADS), together: 1 }
    }

    /// Returns one thread per processor, since the processors execute the requests. `None` if that would
    /// be a single thread.
    #[cfg(target_os = "linux")]
    pub(super) fn one_a_processor(depth: u32) -> Option<Senders> {
        let processors = std::thread::available_parallelism().map_or(1, |count| count.get());
        let threads = depth.min(processors as u32).min(MOST_THREADS);
        let together = (depth / threads.max(1)).clamp(1, TOGETHER_MOST);
        (threads > 1).then_some(Senders { threads, together })
    }
}

/// Runs a phase to its end with a thread for each of `payloads`, which takes `together` requests at a
/// time; `clock` started with the phase.
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
        // Nothing is sent through this channel: it closes when the last thread ends.
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

    /// Records answered requests, and takes the requests that are due, as many as a thread may have.
    /// Returns the reason if there are fewer.
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

/// Locks the mutex, even if a thread has panicked while holding it: the scope passes that panic on.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
