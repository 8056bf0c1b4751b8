//! Queue of flash operations that have happened and are not carried out on the image yet, in their order.
//!
//! In that order nothing is erased before its replacement is programmed, and the image is changed in the same
//! order: so the image holds what was on the flash at some moment.

use std::collections::VecDeque;

use ssdlab_model::media::TrimRecord;

use super::Store;

/// A flash operation that has happened.
#[derive(Debug)]
pub(super) enum FlashOp {
    /// A program unit was programmed, with the data staged in this generation.
    Programmed { program: u32, generation: u64 },
    /// A part of a block was erased. `announced` is the number of the erase among all announced erases.
    Erased { part: u32, announced: u64 },
    /// Records of trims were programmed.
    Trims(Box<[TrimRecord]>),
}

/// Operations that are not carried out on the image.
#[derive(Debug, Default)]
pub(super) struct OpQueue {
    queue: VecDeque<FlashOp>,
    /// Number of operations added so far, and number taken out to be carried out.
    added: u64,
    taken: u64,
}

impl OpQueue {
    pub(super) fn add(&mut self, op: FlashOp) {
        self.added += 1;
        self.queue.push_back(op);
    }

    /// Puts back the operation that was taken last, because it could not be carried out.
    pub(super) fn put_back(&mut self, op: FlashOp) {
        self.taken -= 1;
        self.queue.push_front(op);
    }

    pub(super) fn take(&mut self) -> Option<FlashOp> {
        let first = self.queue.pop_front();
        self.taken += u64::from(first.is_some());
        first
    }

    pub(super) fn first(&self) -> Option<&FlashOp> {
        self.queue.front()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &FlashOp> {
        self.queue.iter()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    pub(super) fn clear(&mut self) {
        self.taken = self.added;
        self.queue.clear();
    }
}

impl Store {
    /// Returns the number of operations that wait to be carried out: at most as many program units are held in
    /// RAM for them.
    pub fn backlog(&self) -> usize {
        self.op_queue.queue.len()
    }

    /// Returns the number of flash operations so far.
    pub fn op_count(&self) -> u64 {
        self.op_queue.added
    }

    /// Returns true if the first `op_count` flash operations are carried out on the image.
    pub fn is_carried_out(&self, op_count: u64) -> bool {
        let step_in_flight =
            u64::from(self.step_in_flight.as_ref().is_some_and(|it| it.is_flash_op()));
        self.op_queue.taken - step_in_flight >= op_count
    }
}
