//! The engine for many requests at a time where there is no io_uring: as many threads as requests
//! may be in flight, each one sending one at a time.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::course::{Clock, Course, Step, Watch};
use super::handle::Handle;
use super::payload::Payload;
use super::synchronous::Transfer;
use crate::error::DriveError;

/// The most threads, whatever depth is asked for.
pub(super) const MOST_THREADS: u32 = 64;

/// What the threads share.
struct Shared<'a> {
    course: Mutex<&'a mut Course>,
    first_error: Mutex<Option<DriveError>>,
    clock: &'a Clock,
    file: &'a Handle,
}

/// Runs a course to its end with `depth` threads; `clock` started with the phase.
pub(super) fn run(
    course: &mut Course,
    watch: &mut Watch<'_>,
    clock: &Clock,
    file: &Handle,
    payloads: Vec<Payload>,
) -> Result<(), DriveError> {
    let shared = Shared { course: Mutex::new(course), first_error: Mutex::new(None), clock, file };
    let mut outcome = Ok(());
    std::thread::scope(|scope| {
        // Nothing is sent through it: when the last thread is gone, so is the last sender.
        let (alive, over) = channel::<()>();
        for payload in payloads {
            let (alive, shared) = (alive.clone(), &shared);
            scope.spawn(move || shared.work(payload, alive));
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
    fn work(&self, mut payload: Payload, _alive: Sender<()>) {
        loop {
            let now = self.clock.now();
            let step = locked(&self.course).next(now);
            match step {
                Step::Send(request) => {
                    let (buffer, carried) = payload.of(&request, 0);
                    let sent = self.clock.now();
                    if let Err(error) = (&mut &*self.file).transfer(&request, buffer) {
                        locked(&self.course).stop();
                        locked(&self.first_error).get_or_insert(error);
                        return;
                    }
                    let answered = self.clock.now();
                    payload.give_back(carried);
                    locked(&self.course).answered(&request, sent, answered);
                }
                Step::Wait(until) => self.clock.wait(until),
                Step::Done => return,
            }
        }
    }
}

/// The lock, whether or not a thread panicked with it: the panic itself is passed on by the scope.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
