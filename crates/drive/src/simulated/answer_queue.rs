//! Answers in the order of their time, for hosts that also send requests at other moments than when one is
//! answered.
//!
//! A drive reports an answer as soon as it is certain, which may be shortly before its time. So the
//! earliest of the reported answers is the next one only if the drive has no event before it.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use ssdlab_units::Instant;

use super::responder::{Answer, Responder, Tag};

/// Answers that were reported, ordered by their time and then by the order in which they were reported.
#[derive(Clone, Debug, Default)]
pub(crate) struct AnswerQueue {
    reported: BinaryHeap<Reverse<(Instant, u64, Tag, Instant)>>,
    count: u64,
    inbox: Vec<Answer>,
}

impl AnswerQueue {
    /// Returns the next answer that comes until `until`, that instant included, and lets time pass until
    /// then; until `until` if there is none.
    pub(crate) fn next(
        &mut self,
        drive: &mut (impl Responder + ?Sized),
        until: Instant,
    ) -> Option<Answer> {
        loop {
            let first = self.reported.peek().map_or(until, |it| it.0.0.min(until));
            if drive.advance(first, &mut self.inbox) {
                for Answer { tag, sent, at } in self.inbox.drain(..) {
                    self.reported.push(Reverse((at, self.count, tag, sent)));
                    self.count += 1;
                }
                continue;
            }
            self.reported.peek().filter(|it| it.0.0 <= until)?;
            let Reverse((at, _, tag, sent)) = self.reported.pop().expect("there is one");
            return Some(Answer { tag, sent, at });
        }
    }
}
