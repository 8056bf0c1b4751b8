//! Workers for work that is divided into pieces: the model starts no thread itself, but its caller may.

use std::ops::Range;

/// A piece of work that is independent of all others.
pub type Piece<'a> = Box<dyn FnOnce() + Send + 'a>;

/// Carries out pieces of work. The outcome does not depend on their order.
pub trait Workers {
    /// Returns the number of pieces that can be under way at a time.
    fn at_a_time(&self) -> usize;

    /// Carries out all of `pieces`, and returns when they are done.
    fn carry_out(&self, pieces: Vec<Piece<'_>>);
}

/// Carries out one piece after the other on the caller's thread.
#[derive(Clone, Copy, Debug, Default)]
pub struct SingleThreaded;

impl Workers for SingleThreaded {
    fn at_a_time(&self) -> usize {
        1
    }

    fn carry_out(&self, pieces: Vec<Piece<'_>>) {
        pieces.into_iter().for_each(|piece| piece());
    }
}

/// Number of pieces for each worker, so that none waits long for the last one.
const EACH: usize = 8;

/// Returns the ranges that `length` items are divided into for `workers`: a single one for one worker.
pub(super) fn parts(length: usize, workers: &dyn Workers) -> Vec<Range<usize>> {
    let count = match workers.at_a_time() {
        0 | 1 => 1,
        several => several * EACH,
    };
    let part = length.div_ceil(count).max(1);
    (0..length).step_by(part).map(|first| first..length.min(first + part)).collect()
}
