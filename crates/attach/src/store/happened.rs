//! Queue of flash operations that have happened and are not carried out on the image yet, in their order.
//!
//! In that order nothing is erased before its replacement is programmed, and the image is changed in the same
//! order: so the image holds what was on the flash at some moment.

use std::collections::VecDeque;

use ssdlab_model::media::TrimRecord;

use super::Store;

/// A flash operation that has happened.
#[derive(Debug)]
pub(super) enum Happened {
    /// A program unit was programmed, with the data staged in this life.
    Programmed { program: u32, life: u64 },
    /// A part of a block was erased. `announced` is the number of the erase among all announced erases.
    Erased { part: u32, announced: u64 },
    /// Records of trims were programmed.
    Trims(Box<[TrimRecord]>),
}

/// Operations that are not carried out on the image.
#[derive(Debug, Default)]
pub(super) struct Unheard {
    queue: VecDeque<Happened>,
    /// Number of operations added so far, and number taken out to be carried out.
    added: u64,
    taken: u64,
}

impl Unheard {
    pub(super) fn add(&mut self, happened: Happened) {
        self.added += 1;
        self.queue.push_back(happened);
    }

    /// Puts back the operation that was taken last, because it could not be carried out.
    pub(super) fn put_back(&mut self, happened: Happened) {
        self.taken -= 1;
        self.queue.push_front(happened);
    }

    pub(super) fn take(&mut self) -> Option<Happened> {
        let first = self.queue.pop_front();
        self.taken += u64::from(first.is_some());
        first
    }

    pub(super) fn first(&self) -> Option<&Happened> {
        self.queue.front()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Happened> {
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
        self.unheard.queue.len()
    }

    /// Returns the number of flash operations so far.
    pub fn happened(&self) -> u64 {
        self.unheard.added
    }

    /// Returns true if the first `happened` flash operations are carried out on the image.
    pub fn has_heard(&self, happened: u64) -> bool {
        let under_way = u64::from(self.under_way.as_ref().is_some_and(|it| it.is_of_drive()));
        self.unheard.taken - under_way >= happened
    }
}
