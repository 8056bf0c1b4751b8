//! A thread that runs actions at their deadlines, for answers at the drive's time. It sleeps until shortly
//! before a deadline, and then polls the clock.

use std::collections::BinaryHeap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::completion_lateness::LatenessHistogram;
use crate::scheduling::use_short_slices;

/// Action at a deadline.
type Action = Box<dyn FnOnce() + Send>;

/// Time before a deadline at which the thread wakes. The system's timers are late by about this much; polling
/// the clock occupies a processor.
const SPIN: Duration = Duration::from_micros(60);

struct Job {
    deadline: Instant,
    order: u64,
    action: Action,
}

impl PartialEq for Job {
    fn eq(&self, other: &Job) -> bool {
        self.order == other.order
    }
}

impl Eq for Job {}

impl PartialOrd for Job {
    fn partial_cmp(&self, other: &Job) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Job {
    fn cmp(&self, other: &Job) -> std::cmp::Ordering {
        // The earliest deadline is the largest: `BinaryHeap` pops the maximum.
        (other.deadline, other.order).cmp(&(self.deadline, self.order))
    }
}

#[derive(Default)]
struct Queue {
    jobs: BinaryHeap<Job>,
    order: u64,
    is_closed: bool,
}

struct Shared {
    queue: Mutex<Queue>,
    changed: Condvar,
    lateness: Arc<LatenessHistogram>,
}

/// Runs actions at their deadlines.
pub struct Timer {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Timer {
    /// Starts the thread.
    ///
    /// # Errors
    /// Returns an error if the system cannot start a thread.
    pub fn start(lateness: Arc<LatenessHistogram>) -> std::io::Result<Timer> {
        let shared =
            Arc::new(Shared { queue: Mutex::default(), changed: Condvar::new(), lateness });
        let its_own = shared.clone();
        let thread = std::thread::Builder::new()
            .name("answers".to_owned())
            .spawn(move || serve(&its_own))?;
        Ok(Timer { shared, thread: Some(thread) })
    }

    /// Runs `action` at `deadline`, or now if that is `None`.
    pub fn at(&self, deadline: Option<Instant>, action: impl FnOnce() + Send + 'static) {
        let Some(deadline) = deadline else { return action() };
        let mut queue = lock(&self.shared.queue);
        if queue.is_closed {
            drop(queue);
            return action();
        }
        queue.order += 1;
        let order = queue.order;
        let is_first = queue.jobs.peek().is_none_or(|first| deadline < first.deadline);
        queue.jobs.push(Job { deadline, order, action: Box::new(action) });
        drop(queue);
        if is_first {
            self.shared.changed.notify_one();
        }
    }

    /// Runs all remaining actions now, whatever their deadline, and ends the thread.
    pub fn close(&mut self) {
        lock(&self.shared.queue).is_closed = true;
        self.shared.changed.notify_one();
        if let Some(thread) = self.thread.take() {
            // A panic of an action was reported by the thread itself.
            let _ = thread.join();
        }
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        self.close();
    }
}

impl std::fmt::Debug for Timer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Timer").finish_non_exhaustive()
    }
}

fn serve(shared: &Shared) {
    use_short_slices();
    let mut queue = lock(&shared.queue);
    loop {
        let now = Instant::now();
        let is_closed = queue.is_closed;
        match queue.jobs.peek().map(|job| job.deadline) {
            None if is_closed => return,
            None => queue = shared.changed.wait(queue).unwrap_or_else(PoisonError::into_inner),
            Some(deadline) if deadline <= now || is_closed => {
                let job = queue.jobs.pop().expect("there is one");
                drop(queue);
                let sent = Instant::now();
                (job.action)();
                shared.lateness.record(sent, [deadline]);
                queue = lock(&shared.queue);
            }
            Some(deadline) if deadline - now > SPIN => {
                let sleep = deadline - now - SPIN;
                let waited = shared.changed.wait_timeout(queue, sleep);
                queue = waited.unwrap_or_else(PoisonError::into_inner).0;
            }
            Some(_) => {
                drop(queue);
                std::hint::spin_loop();
                queue = lock(&shared.queue);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn things_are_done_in_the_order_of_their_times_and_not_before() {
        let lateness = Arc::<LatenessHistogram>::default();
        let mut timer = Timer::start(lateness.clone()).expect("a thread");
        let (done, order) = mpsc::channel();
        let now = Instant::now();
        for ms in [30u64, 10, 20] {
            let done = done.clone();
            let deadline = now + Duration::from_millis(ms);
            timer.at(Some(deadline), move || {
                assert!(Instant::now() >= deadline);
                done.send(ms).expect("somebody listens");
            });
        }
        timer.at(None, move || done.send(0).expect("somebody listens"));
        assert_eq!(order.iter().collect::<Vec<_>>(), [0, 10, 20, 30]);
        assert_eq!(lateness.summary().answers, 3);
        timer.close();
    }

    #[test]
    fn closing_answers_what_waits() {
        let mut timer = Timer::start(Arc::default()).expect("a thread");
        let (done, answers) = mpsc::channel();
        timer.at(Some(Instant::now() + Duration::from_secs(3600)), move || {
            done.send(()).expect("somebody listens");
        });
        timer.close();
        answers.recv().expect("an answer");
    }
}
