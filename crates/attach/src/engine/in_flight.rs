//! Requests in flight.

use std::time::Instant as HostInstant;

use ssdlab_model::ftl::RequestTag;
use ssdlab_units::{Instant, Nanoseconds, Sector, SectorCount};

use super::{Answer, Errno, Kind};
use crate::store::receive::Payload;

/// Callback for an answered request. It gets the instant of the answer on the host's clock, which may lie
/// ahead. It is called without any lock.
pub type Completion = Box<dyn FnOnce(Result<HostInstant, Errno>) + Send>;

/// A claim on the outcome of a request in flight.
#[derive(Debug)]
#[must_use]
pub struct Ticket(RequestTag);

/// The answer to a request, and the number of flash operations that had happened by then.
#[derive(Clone, Copy, Debug)]
pub(super) struct Answered {
    pub(super) answer: Answer,
    pub(super) op_count: u64,
    pub(super) latency: Nanoseconds,
}

/// A request in flight.
pub(super) struct Request {
    pub(super) kind: Kind,
    pub(super) bytes: u64,
    pub(super) arrived: Instant,
    /// Sectors of a trim that are left to the commands that follow; `None` if there are none.
    pub(super) left: Option<(Sector, SectorCount)>,
    /// True if a read-modify-write of the request could not read the old data.
    pub(super) has_failed: bool,
    /// Data of a write.
    pub(super) payload: Option<Written>,
}

/// Data of a write in flight.
pub(super) struct Written {
    /// Beginning of the data on the drive, in bytes.
    pub(super) offset: u64,
    pub(super) data: Box<[u8]>,
    /// Checksums of the whole units in the data.
    pub(super) sums: Box<[u32]>,
}

impl Request {
    /// Returns a request for `bytes` bytes without a payload.
    pub(super) fn new(kind: Kind, bytes: u64, arrived: Instant) -> Request {
        Request { kind, bytes, arrived, left: None, has_failed: false, payload: None }
    }
}

enum Waiter {
    /// Somebody will ask for the outcome with the ticket.
    TicketHolder,
    /// Nobody wants the outcome.
    Nobody,
    Completion(Completion),
}

enum Slot {
    Free,
    InFlight(Request, Waiter),
    Answered(Result<Answered, Errno>),
}

/// All requests in flight, and outcomes that were not fetched yet, by tag.
#[derive(Default)]
pub(super) struct InFlight {
    slots: Vec<Slot>,
    free: Vec<u32>,
    in_flight_count: u32,
}

/// Receiver of an answer.
pub(super) enum Notification {
    /// The thread that waits with a ticket; it has to be woken.
    WakeWaiter,
    Nobody,
    Completion(Completion),
}

impl InFlight {
    /// Returns the number of requests in flight.
    pub(super) fn count(&self) -> u32 {
        self.in_flight_count
    }

    /// Adds a request and returns its tag.
    pub(super) fn add(&mut self, request: Request) -> RequestTag {
        self.in_flight_count += 1;
        let slot = Slot::InFlight(request, Waiter::TicketHolder);
        match self.free.pop() {
            Some(tag) => {
                self.slots[tag as usize] = slot;
                RequestTag(tag)
            }
            None => {
                self.slots.push(slot);
                RequestTag(self.slots.len() as u32 - 1)
            }
        }
    }

    /// Returns the ticket for the outcome of request `tag`.
    pub(super) fn ticket(&self, tag: RequestTag) -> Ticket {
        Ticket(tag)
    }

    pub(super) fn get(&mut self, tag: RequestTag) -> &mut Request {
        match &mut self.slots[tag.0 as usize] {
            Slot::InFlight(request, _) => request,
            Slot::Free | Slot::Answered(_) => unreachable!("it is under way"),
        }
    }

    /// Returns the data that request `tag` writes.
    pub(super) fn payload(&self, tag: RequestTag) -> Payload<'_> {
        match &self.slots[tag.0 as usize] {
            Slot::InFlight(Request { payload: Some(written), .. }, _) => {
                let Written { offset, data, sums } = written;
                Payload { offset: *offset, data, sums }
            }
            _ => unreachable!("it writes and is under way"),
        }
    }

    /// Returns true if a write in flight overlaps these bytes of the drive.
    pub(super) fn writes_to(&self, range: std::ops::Range<u64>) -> bool {
        self.slots.iter().any(|slot| match slot {
            Slot::InFlight(Request { payload: Some(Written { offset, data, .. }), .. }, _) => {
                *offset < range.end && offset + data.len() as u64 > range.start
            }
            _ => false,
        })
    }

    /// Ends request `tag` with `outcome`. Returns who is to be told.
    pub(super) fn complete(
        &mut self,
        tag: RequestTag,
        outcome: Result<Answered, Errno>,
    ) -> Notification {
        self.in_flight_count -= 1;
        let slot = &mut self.slots[tag.0 as usize];
        let Slot::InFlight(_, waiter) = std::mem::replace(slot, Slot::Answered(outcome)) else {
            unreachable!("it is under way")
        };
        let notification = match waiter {
            Waiter::TicketHolder => return Notification::WakeWaiter,
            Waiter::Nobody => Notification::Nobody,
            Waiter::Completion(completion) => Notification::Completion(completion),
        };
        self.release(tag);
        notification
    }

    fn release(&mut self, tag: RequestTag) {
        self.slots[tag.0 as usize] = Slot::Free;
        self.free.push(tag.0);
    }

    /// Returns the outcome of the ticket's request, and frees its tag; `None` if it is not answered yet.
    pub(super) fn take_outcome(&mut self, ticket: &Ticket) -> Option<Result<Answered, Errno>> {
        let Slot::Answered(outcome) = self.slots[ticket.0.0 as usize] else { return None };
        self.release(ticket.0);
        Some(outcome)
    }

    /// Registers `completion` for the request of the ticket. If the request is answered already, returns
    /// `completion` and the outcome.
    pub(super) fn register_completion(
        &mut self,
        ticket: &Ticket,
        completion: Completion,
    ) -> Option<(Completion, Result<Answered, Errno>)> {
        if let Slot::InFlight(_, waiter) = &mut self.slots[ticket.0.0 as usize] {
            *waiter = Waiter::Completion(completion);
            return None;
        }
        self.take_outcome(ticket).map(|outcome| (completion, outcome))
    }

    /// Drops the outcome of the ticket's request, now or when it is answered.
    pub(super) fn discard_outcome(&mut self, ticket: &Ticket) {
        match &mut self.slots[ticket.0.0 as usize] {
            Slot::InFlight(_, waiter) => *waiter = Waiter::Nobody,
            Slot::Answered(_) => self.release(ticket.0),
            Slot::Free => {}
        }
    }

    /// Returns the tags of all requests in flight.
    pub(super) fn tags(&self) -> Vec<RequestTag> {
        let is_in_flight = |slot: &Slot| matches!(slot, Slot::InFlight(..));
        let slots = (0..).zip(&self.slots);
        slots.filter(|it| is_in_flight(it.1)).map(|it| RequestTag(it.0)).collect()
    }
}
