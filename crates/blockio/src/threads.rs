//! Thread engine: each thread sends one request at a time and waits for it. There is one thread per
//! request in flight if io_uring is not available, and one per processor if the drive executes requests
//! within the call that sends them.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ssdlab_error::DriveError;
use ssdlab_units::Nanoseconds;

use super::handle::Handle;
use super::payload::Payload;
use super::phase_runner::{Clock, PhaseRunner, ProgressReporter, Request, Step};
use super::synchronous::{QUICK_STAMP_MAX, Transfer};

/// Largest number of threads, whatever the depth.
pub(super) const THREADS_MAX: u32 = 64;

/// State that the threads share.
struct Shared<'a> {
    runner: Mutex<&'a mut PhaseRunner>,
    first_error: Mutex<Option<DriveError>>,
    clock: &'a Clock,
    batch: usize,
}

/// Largest number of requests that a thread takes from the phase runner at once.
#[cfg(target_os = "linux")]
const BATCH_MAX: u32 = 8;

/// Number of sending threads, and of requests that each of them takes from the phase runner at once, to
/// execute them one after the other. If a request takes microseconds, taking requests one by one is a
/// noticeable part of the cost, and more so the more threads there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ThreadPlan {
    pub(super) threads: u32,
    pub(super) batch: u32,
}

impl ThreadPlan {
    /// Returns one thread per request in flight, up to the largest number.
    pub(super) fn per_request(depth: u32) -> ThreadPlan {
        ThreadPlan { threads: depth.min(THREADS_MAX), batch: 1 }
    }

    /// Returns one thread per processor, since the processors execute the requests. `None` if that would
    /// be a single thread.
    #[cfg(target_os = "linux")]
    pub(super) fn per_processor(depth: u32) -> Option<ThreadPlan> {
        let processors = std::thread::available_parallelism().map_or(1, |count| count.get());
        let threads = depth.min(processors as u32).min(THREADS_MAX);
        let batch = (depth / threads.max(1)).clamp(1, BATCH_MAX);
        (threads > 1).then_some(ThreadPlan { threads, batch })
    }
}

/// Runs a phase to its end with a thread for each of `payloads`, which takes `batch` requests at a
/// time; `clock` started with the phase.
pub(super) fn run(
    runner: &mut PhaseRunner,
    reporter: &mut ProgressReporter<'_>,
    clock: &Clock,
    file: &Handle,
    payloads: Vec<Payload>,
    batch: u32,
) -> Result<(), DriveError> {
    let shared = Shared {
        runner: Mutex::new(runner),
        first_error: Mutex::new(None),
        clock,
        batch: batch as usize,
    };
    let mut own = Vec::with_capacity(payloads.len());
    for _ in &payloads {
        own.push(file.reopen()?);
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
        while let Err(RecvTimeoutError::Timeout) =
            over.recv_timeout(Duration::from(ProgressReporter::INTERVAL))
        {
            let now = clock.now();
            let progress = locked(&shared.runner).progress(now);
            if outcome.is_ok() {
                outcome = reporter.report(now, || progress);
            }
            if outcome.is_err() {
                locked(&shared.runner).stop();
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
        let is_short = payload.length() <= QUICK_STAMP_MAX;
        let mut due = Vec::with_capacity(self.batch);
        let mut answered = Vec::with_capacity(self.batch);
        loop {
            match self.take_batch(&mut due, &mut answered) {
                Some(Step::Wait(until)) if due.is_empty() => self.clock.wait_until(until),
                Some(Step::Done) if due.is_empty() => return,
                _ => {}
            }
            let mut now = self.clock.now();
            for request in due.drain(..) {
                let (buffer, block) = payload.take_buffer(&request, 0);
                let sent = if request.is_read || is_short { now } else { self.clock.now() };
                if let Err(error) = (&mut &*file).transfer(&request, buffer) {
                    locked(&self.runner).stop();
                    locked(&self.first_error).get_or_insert(error);
                    return;
                }
                now = self.clock.now();
                payload.release(block);
                answered.push((request, sent, now));
            }
        }
    }

    /// Records answered requests, and takes the requests that are due, as many as a thread may have.
    /// Returns the reason if there are fewer.
    fn take_batch(
        &self,
        due: &mut Vec<Request>,
        answered: &mut Vec<(Request, Nanoseconds, Nanoseconds)>,
    ) -> Option<Step> {
        let mut runner = locked(&self.runner);
        for (request, sent, at) in answered.drain(..) {
            runner.record_completion(&request, sent, at);
        }
        let now = self.clock.now();
        while due.len() < self.batch {
            match runner.next(now) {
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
