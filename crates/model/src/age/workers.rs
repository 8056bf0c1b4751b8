//! Workers for what can be done in pieces: the model starts no thread itself, its caller may.

use std::ops::Range;

/// A piece of work that needs nothing of any other.
pub type Piece<'a> = Box<dyn FnOnce() + Send + 'a>;

/// Carries out pieces of work. The outcome is the same in whichever order they are done.
pub trait Workers {
    /// Returns how many pieces can be under way at a time.
    fn at_a_time(&self) -> usize;

    /// Carries out all of `pieces`, and returns when they are done.
    fn carry_out(&self, pieces: Vec<Piece<'_>>);
}

/// One piece after the other, by whoever asks.
#[derive(Clone, Copy, Debug, Default)]
pub struct OneByOne;

impl Workers for OneByOne {
    fn at_a_time(&self) -> usize {
        1
    }

    fn carry_out(&self, pieces: Vec<Piece<'_>>) {
        pieces.into_iter().for_each(|piece| piece());
    }
}

/// Pieces for each that works at a time, so that none waits for long for the last one.
const EACH: usize = 8;

/// Returns ranges that `length` things are parted into for `workers`: one where only one works.
pub(super) fn parts(length: usize, workers: &dyn Workers) -> Vec<Range<usize>> {
    let count = match workers.at_a_time() {
        0 | 1 => 1,
        several => several * EACH,
    };
    let part = length.div_ceil(count).max(1);
    (0..length).step_by(part).map(|first| first..length.min(first + part)).collect()
}
