//! Requests in flight of a host that keeps its own time.

use ssdlab_units::Instant;

use super::answer_queue::AnswerQueue;
use super::responder::{Request, Responder, Tag};

/// A request that was submitted. The ticket may be used again for another request when that one is
/// answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(u32);

/// The requests in flight of a host that keeps its own time.
#[derive(Clone, Debug, Default)]
pub(super) struct InFlight {
    answers: AnswerQueue,
    free: Vec<u32>,
    tickets: u32,
}

impl InFlight {
    /// Sends a request at `at`, or now if `at` is past.
    pub(super) fn send(
        &mut self,
        drive: &mut dyn Responder,
        at: Instant,
        request: Request,
    ) -> Ticket {
        let ticket = self.free.pop().unwrap_or_else(|| {
            self.tickets += 1;
            self.tickets - 1
        });
        drive.submit(at.max(drive.latest_event()), Tag(ticket), request);
        Ticket(ticket)
    }

    /// Lets time pass until the next request is answered, but not beyond `until`. Returns the request and
    /// the moment of its answer. Without a request in flight no time passes.
    pub(super) fn next(
        &mut self,
        drive: &mut dyn Responder,
        until: Instant,
    ) -> Option<(Ticket, Instant)> {
        if self.free.len() == self.tickets as usize {
            return None;
        }
        let answer = self.answers.next(drive, until)?;
        self.free.push(answer.tag.0);
        Some((Ticket(answer.tag.0), answer.at))
    }
}
