//! Parallel execution of work in pieces, on all processors.

use std::sync::Mutex;

use ssdlab_model::precondition::{Piece, Workers};

/// The processors of this machine.
pub(crate) struct Processors;

impl Workers for Processors {
    fn at_a_time(&self) -> usize {
        std::thread::available_parallelism().map_or(1, usize::from)
    }

    fn carry_out(&self, pieces: Vec<Piece<'_>>) {
        let threads = self.at_a_time().min(pieces.len());
        let left = Mutex::new(pieces.into_iter());
        let next = || left.lock().expect("no thread panics with it").next();
        let work = || {
            while let Some(piece) = next() {
                piece();
            }
        };
        std::thread::scope(|scope| {
            for _ in 1..threads {
                scope.spawn(work);
            }
            work();
        });
    }
}
