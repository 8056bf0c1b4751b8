//! Pieces of work that do not depend on one another, at the same time: one a processor.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use ssdlab_drive::{Control, DriveError};

use super::Watcher;
use crate::error::LabError;

/// A result, as far as work came, and the error that ended the work.
pub(crate) type Piece<R> = (R, Result<(), LabError>);

/// The time between two looks at the progress.
const TELL_EVERY: Duration = Duration::from_millis(50);

/// The progress of all pieces, and whether they should go on.
struct Board {
    /// The share of each that is done, as the bits of a number from 0 to 1.
    done: Vec<AtomicU64>,
    cancelled: AtomicBool,
    /// The number of pieces that threads have taken.
    next: AtomicUsize,
    /// Threads that still work.
    working: AtomicUsize,
}

impl Board {
    /// Returns what is done of all of them, whose weights are `weights`.
    fn done(&self, weights: &[f64]) -> f64 {
        let part = |(weight, done): (&f64, &AtomicU64)| weight * f64::from_bits(done.load(Relaxed));
        let whole: f64 = weights.iter().sum();
        weights.iter().zip(&self.done).map(part).sum::<f64>() / whole.max(f64::MIN_POSITIVE)
    }
}

/// Watches one piece from its own thread.
struct OnBoard<'a> {
    board: &'a Board,
    index: usize,
    before: f64,
    weight: f64,
}

impl Watcher for OnBoard<'_> {
    fn step(&mut self, _: &str, weight: f64) {
        self.before += self.weight;
        self.weight = weight;
    }

    fn progress(&mut self, done: f64) -> Control {
        let done = (self.before + self.weight * done).min(1.0);
        self.board.done[self.index].store(done.to_bits(), Relaxed);
        if self.board.cancelled.load(Relaxed) { Control::Cancel } else { Control::Continue }
    }
}

/// Ends a thread's turn also where the thread panics, so that nobody waits for it.
struct Working<'a>(&'a AtomicUsize);

impl Drop for Working<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

/// Returns the order in which threads take pieces of these weights: the heaviest first where there are several, so that
/// none is left with a heavy one at the end.
fn order(weights: &[f64], threads: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..weights.len()).collect();
    if threads > 1 {
        order.sort_by(|&one, &other| weights[other].total_cmp(&weights[one]));
    }
    order
}

/// Does `work` with each of `pieces`, from `threads` threads; the weights of the steps of one piece sum up to one. Returns the results
/// in the order of the pieces, incomplete or default where `work` failed or `watcher` ended it, and the error of that.
pub(crate) fn run<T: Sync, R: Default + Send>(
    pieces: &[T],
    weight: impl Fn(&T) -> f64,
    threads: usize,
    watcher: &mut dyn Watcher,
    work: &(dyn Fn(&T, &mut dyn Watcher) -> Piece<R> + Sync),
) -> Piece<Vec<R>> {
    let threads = threads.min(pieces.len());
    let weights: Vec<f64> = pieces.iter().map(weight).collect();
    let order = order(&weights, threads);
    let board = Board {
        done: pieces.iter().map(|_| AtomicU64::new(0.0_f64.to_bits())).collect(),
        cancelled: AtomicBool::new(false),
        next: AtomicUsize::new(0),
        working: AtomicUsize::new(threads),
    };
    let empty = pieces.iter().map(|_| (R::default(), Ok(()))).collect();
    let slots: Mutex<Vec<Piece<R>>> = Mutex::new(empty);
    let take = || {
        let _working = Working(&board.working);
        while !board.cancelled.load(Relaxed) {
            let Some(&index) = order.get(board.next.fetch_add(1, Relaxed)) else { return };
            let piece = &pieces[index];
            let mut watch = OnBoard { board: &board, index, before: 0.0, weight: 0.0 };
            let slot = work(piece, &mut watch);
            if slot.1.is_err() {
                board.cancelled.store(true, Relaxed);
            }
            board.done[index].store(1.0_f64.to_bits(), Relaxed);
            slots.lock().expect("no thread panics while it holds this")[index] = slot;
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(take);
        }
        while board.working.load(Relaxed) > 0 {
            std::thread::sleep(TELL_EVERY);
            if watcher.progress(board.done(&weights)) == Control::Cancel {
                board.cancelled.store(true, Relaxed);
            }
        }
    });
    let slots = slots.into_inner().expect("no thread panics while it holds this");
    gather(slots, board.cancelled.load(Relaxed))
}

/// The first real error counts; the others were only told to stop.
fn gather<R>(slots: Vec<Piece<R>>, was_cancelled: bool) -> Piece<Vec<R>> {
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
    use crate::experiment::Unwatched;

    #[test]
    fn several_threads_take_the_heaviest_first_and_one_takes_them_as_they_come() {
        let weights = [1.0, 3.0, 2.0, 3.0];
        assert_eq!(order(&weights, 1), [0, 1, 2, 3]);
        assert_eq!(order(&weights, 2), [1, 3, 2, 0]);
    }

    #[test]
    fn results_stand_in_the_order_of_the_pieces() {
        let pieces: Vec<u32> = (0..20).collect();
        let weight = |piece: &u32| f64::from(piece * 7 % 20);
        let work = |piece: &u32, _: &mut dyn Watcher| (*piece + 1, Ok(()));
        let (results, outcome) = run(&pieces, weight, 3, &mut Unwatched, &work);
        assert!(outcome.is_ok());
        assert_eq!(results, (1..=20).collect::<Vec<u32>>());
    }
}
