//! What has happened on the drive's flash and the image has not heard of, in the order in which it did.
//!
//! That is an order in which nothing is erased before what replaces it is programmed, and the image hears of it in the
//! same order: so what is in the image is what was on the flash at some moment.

use std::collections::VecDeque;

use ssdlab_model::media::TrimRecord;

use super::Store;

/// Something that has happened on the flash.
#[derive(Debug)]
pub(super) enum Happened {
    /// A program unit was programmed, which is staged in this life.
    Programmed { program: u32, life: u64 },
    /// A part of a block was erased. The erase was announced as that number of all.
    Erased { part: u32, announced: u64 },
    /// Records of trims were programmed.
    Trims(Box<[TrimRecord]>),
}

/// What the image has not heard of.
#[derive(Debug, Default)]
pub(super) struct Unheard {
    queue: VecDeque<Happened>,
    /// How many have been added, and taken for good.
    added: u64,
    taken: u64,
}

impl Unheard {
    pub(super) fn add(&mut self, happened: Happened) {
        self.added += 1;
        self.queue.push_back(happened);
    }

    /// Puts back what was taken last and could not be done.
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
    /// Returns how much the image has not heard of: as many program units, at most, are held in RAM.
    pub fn backlog(&self) -> usize {
        self.unheard.queue.len()
    }

    /// Returns how much has happened so far.
    pub fn happened(&self) -> u64 {
        self.unheard.added
    }

    /// Returns true if the image has heard of the first so many things that have happened.
    pub fn has_heard(&self, happened: u64) -> bool {
        let under_way = u64::from(self.under_way.as_ref().is_some_and(|it| it.is_of_drive()));
        self.unheard.taken - under_way >= happened
    }
}
