//! What the drive has done to its flash, or will have, and the image has not heard of: by the end of it.

use std::cmp::Ordering;

use ssdlab_model::Span;
use ssdlab_model::media::{SequenceNumber, TrimRecord};
use ssdlab_units::{Instant, PhysicalUnit};

use super::Store;

/// Something done to the flash.
#[derive(Debug)]
pub(super) enum Action {
    Program {
        first: PhysicalUnit,
        number: SequenceNumber,
        spare: Box<[u32]>,
        is_slc: bool,
        life: u64,
    },
    Erase {
        part: u32,
    },
    Trims(Box<[TrimRecord]>),
}

/// What is due and when, ordered so that the first of a heap is what ends first.
#[derive(Debug)]
pub(super) struct Due {
    pub(super) span: Span,
    pub(super) order: u64,
    pub(super) action: Action,
}

impl Due {
    fn key(&self) -> (Instant, u64) {
        (self.span.end, self.order)
    }
}

impl PartialEq for Due {
    fn eq(&self, other: &Due) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Due {}

impl PartialOrd for Due {
    fn partial_cmp(&self, other: &Due) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Due {
    fn cmp(&self, other: &Due) -> Ordering {
        other.key().cmp(&self.key())
    }
}

impl Store {
    pub(super) fn book(&mut self, action: Action, span: Span) {
        self.booked += 1;
        self.booked_programs += u64::from(matches!(action, Action::Program { .. }));
        self.due.push(Due { span, order: self.booked, action });
        if span.end < self.next_due {
            self.next_due = span.end;
        }
    }

    /// Returns true if anything is to be carried out, and which program unit of which life if it is
    /// one.
    pub(super) fn first_due(&self, until: Instant) -> Option<Option<(u32, u64)>> {
        let due = self.due.peek().filter(|due| due.span.end <= until)?;
        Some(match due.action {
            Action::Program { first, life, .. } => Some((self.layout.program_of(first), life)),
            _ => None,
        })
    }

    pub(super) fn note_next(&mut self) {
        let never = Instant::from_nanos(u64::MAX);
        self.next_due = self.due.peek().map_or(never, |due| due.span.end);
    }

    /// When the first is over of what is booked and not done yet.
    pub fn next_due(&self) -> Option<Instant> {
        self.due.peek().map(|due| due.span.end)
    }

    /// Returns true if anything waits to be done that is over by `until`.
    pub fn has_due(&self, until: Instant) -> bool {
        self.next_due <= until
    }

    /// How much is booked and not done yet: as many program units, at most, are held in RAM.
    pub fn backlog(&self) -> usize {
        self.due.len()
    }
}
