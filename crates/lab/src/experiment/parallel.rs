//! Runs independent pieces of work in parallel threads.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use ssdlab_drive::{Control, DriveError};

use super::Watcher;
use crate::error::LabError;

/// Result of a piece, possibly incomplete, and the error that ended it.
pub(crate) type WorkResult<R> = (R, Result<(), LabError>);

/// Interval between two progress reports.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(50);

/// Progress of all pieces, shared by the threads.
struct SharedProgress {
    /// Progress of each piece, as the bits of a number from 0 to 1.
    done: Vec<AtomicU64>,
    cancelled: AtomicBool,
    /// Number of pieces that threads have started.
    next: AtomicUsize,
    /// Number of threads that are running.
    running_threads: AtomicUsize,
}

impl SharedProgress {
    /// Returns the progress of all pieces, weighted by `weights`.
    fn done(&self, weights: &[f64]) -> f64 {
        let part = |(weight, done): (&f64, &AtomicU64)| weight * f64::from_bits(done.load(Relaxed));
        let whole: f64 = weights.iter().sum();
        weights.iter().zip(&self.done).map(part).sum::<f64>() / whole.max(f64::MIN_POSITIVE)
    }
}

/// Watcher of one piece, used in the thread of that piece.
struct ProgressReporter<'a> {
    progress: &'a SharedProgress,
    index: usize,
    before: f64,
    weight: f64,
}

impl Watcher for ProgressReporter<'_> {
    fn step(&mut self, _: &str, weight: f64) {
        self.before += self.weight;
        self.weight = weight;
    }

    fn progress(&mut self, done: f64) -> Control {
        let done = (self.before + self.weight * done).min(1.0);
        self.progress.done[self.index].store(done.to_bits(), Relaxed);
        if self.progress.cancelled.load(Relaxed) { Control::Cancel } else { Control::Continue }
    }
}

/// Counts a thread as ended when it returns or panics, so that the main thread does not wait for it.
struct RunningThread<'a>(&'a AtomicUsize);

impl Drop for RunningThread<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

/// Returns the order in which threads start the pieces: the heaviest first if there are several threads, so
/// that no thread has to run a heavy piece alone at the end.
fn start_order(weights: &[f64], threads: usize) -> Vec<usize> {
    let mut start_order: Vec<usize> = (0..weights.len()).collect();
    if threads > 1 {
        start_order.sort_by(|&one, &other| weights[other].total_cmp(&weights[one]));
    }
    start_order
}

/// Runs `work` for each of `pieces` in `threads` threads. The weights of the steps of one piece add up to
/// one. Returns the results in the order of the pieces, incomplete or default after an error or if `watcher`
/// ended the work, and the error.
pub(crate) fn run<T: Sync, R: Default + Send>(
    pieces: &[T],
    weight: impl Fn(&T) -> f64,
    threads: usize,
    watcher: &mut dyn Watcher,
    work: &(dyn Fn(&T, &mut dyn Watcher) -> WorkResult<R> + Sync),
) -> WorkResult<Vec<R>> {
    let threads = threads.min(pieces.len());
    let weights: Vec<f64> = pieces.iter().map(weight).collect();
    let start_order = start_order(&weights, threads);
    let progress = SharedProgress {
        done: pieces.iter().map(|_| AtomicU64::new(0.0_f64.to_bits())).collect(),
        cancelled: AtomicBool::new(false),
        next: AtomicUsize::new(0),
        running_threads: AtomicUsize::new(threads),
    };
    let empty = pieces.iter().map(|_| (R::default(), Ok(()))).collect();
    let slots: Mutex<Vec<WorkResult<R>>> = Mutex::new(empty);
    let run_pieces = || {
        let _working = RunningThread(&progress.running_threads);
        while !progress.cancelled.load(Relaxed) {
            let Some(&index) = start_order.get(progress.next.fetch_add(1, Relaxed)) else { return };
            let piece = &pieces[index];
            let mut watch =
                ProgressReporter { progress: &progress, index, before: 0.0, weight: 0.0 };
            let slot = work(piece, &mut watch);
            if slot.1.is_err() {
                progress.cancelled.store(true, Relaxed);
            }
            progress.done[index].store(1.0_f64.to_bits(), Relaxed);
            slots.lock().expect("no thread panics while it holds this")[index] = slot;
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(run_pieces);
        }
        while progress.running_threads.load(Relaxed) > 0 {
            std::thread::sleep(PROGRESS_INTERVAL);
            if watcher.progress(progress.done(&weights)) == Control::Cancel {
                progress.cancelled.store(true, Relaxed);
            }
        }
    });
    let slots = slots.into_inner().expect("no thread panics while it holds this");
    collect_results(slots, progress.cancelled.load(Relaxed))
}

/// Collects the results. The first error that is not a cancellation counts; other pieces were cancelled
/// because of it.
fn collect_results<R>(slots: Vec<WorkResult<R>>, was_cancelled: bool) -> WorkResult<Vec<R>> {
    let mut done = Vec::with_capacity(slots.len());
    let mut outcome = if was_cancelled { Err(DriveError::cancelled().into()) } else { Ok(()) };
    let mut is_real = false;
    for (result, ended) in slots {
        done.push(result);
        if let Err(error) = ended
            && !is_real
        {
            is_real = error.kind() != ssdlab_drive::ErrorKind::Cancelled;
            outcome = Err(error);
        }
    }
    (done, outcome)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::NullWatcher;

    #[test]
    fn several_threads_take_the_heaviest_first_and_one_takes_them_as_they_come() {
        let weights = [1.0, 3.0, 2.0, 3.0];
        assert_eq!(start_order(&weights, 1), [0, 1, 2, 3]);
        assert_eq!(start_order(&weights, 2), [1, 3, 2, 0]);
    }

    #[test]
    fn results_stand_in_the_order_of_the_pieces() {
        let pieces: Vec<u32> = (0..20).collect();
        let weight = |piece: &u32| f64::from(piece * 7 % 20);
        let work = |piece: &u32, _: &mut dyn Watcher| (*piece + 1, Ok(()));
        let (results, outcome) = run(&pieces, weight, 3, &mut NullWatcher, &work);
        assert!(outcome.is_ok());
        assert_eq!(results, (1..=20).collect::<Vec<u32>>());
    }
}
