//! Requests of a host that keeps its own time.

use ssdlab_units::Instant;

use super::answers::Answers;
use super::responder::{Request, Responder, Tag};

/// A request that was submitted; it is free for another when that one is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(u32);

/// The requests in flight of such a host.
#[derive(Clone, Debug, Default)]
pub(super) struct InFlight {
    answers: Answers,
    free: Vec<u32>,
    tickets: u32,
}

impl InFlight {
    /// Sends a request at `at`, or now if that is past.
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

    /// Lets time pass until the next of them is answered, and no further than `until`. Returns which it is and
    /// when it is answered. Without a request in flight no time passes.
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
