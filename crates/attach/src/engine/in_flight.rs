//! Requests that the drive has and has not answered.

use std::time::Instant as HostInstant;

use ssdlab_model::ftl::RequestTag;
use ssdlab_units::{Instant, Nanoseconds, Sector, SectorCount};

use super::{Answer, Errno, Kind};
use crate::store::receive::Payload;

/// What is done when a request is answered, with the instant of that by the host's clock, which may lie ahead. Called
/// without any lock.
pub type Completion = Box<dyn FnOnce(Result<HostInstant, Errno>) + Send>;

/// A request that was not answered when it was sent.
#[derive(Debug)]
#[must_use]
pub struct Ticket(RequestTag);

/// How a request was answered, and how much had happened on the flash by then.
#[derive(Clone, Copy, Debug)]
pub(super) struct Answered {
    pub(super) answer: Answer,
    pub(super) happened: u64,
    pub(super) latency: Nanoseconds,
}

/// A request.
pub(super) struct Request {
    pub(super) kind: Kind,
    pub(super) bytes: u64,
    pub(super) arrived: Instant,
    /// What of a trim is left to the commands that follow.
    pub(super) left: Option<(Sector, SectorCount)>,
    /// True if what it covers in part could not be read.
    pub(super) has_failed: bool,
    /// What it writes.
    pub(super) payload: Option<Written>,
}

/// What a request writes that is under way.
pub(super) struct Written {
    /// Where from, in bytes.
    pub(super) offset: u64,
    pub(super) data: Box<[u8]>,
    /// The checksums of the whole units in it.
    pub(super) sums: Box<[u32]>,
}

impl Request {
    /// A request for so many bytes that writes nothing.
    pub(super) fn new(kind: Kind, bytes: u64, arrived: Instant) -> Request {
        Request { kind, bytes, arrived, left: None, has_failed: false, payload: None }
    }
}

enum Waiter {
    /// Somebody will ask.
    Unknown,
    /// Nobody does.
    Nobody,
    Completion(Completion),
}

enum Place {
    Free,
    UnderWay(Request, Waiter),
    Answered(Result<Answered, Errno>),
}

/// All of them, by tag.
#[derive(Default)]
pub(super) struct InFlight {
    places: Vec<Place>,
    free: Vec<u32>,
    under_way: u32,
}

/// What is to be done about an answer.
pub(super) enum ToTell {
    /// Who waits for it looks.
    WhoeverWaits,
    Nobody,
    Completion(Completion),
}

impl InFlight {
    /// Returns how many are under way.
    pub(super) fn count(&self) -> u32 {
        self.under_way
    }

    /// Takes in a request.
    pub(super) fn add(&mut self, request: Request) -> RequestTag {
        self.under_way += 1;
        let place = Place::UnderWay(request, Waiter::Unknown);
        match self.free.pop() {
            Some(tag) => {
                self.places[tag as usize] = place;
                RequestTag(tag)
            }
            None => {
                self.places.push(place);
                RequestTag(self.places.len() as u32 - 1)
            }
        }
    }

    /// Returns what gives the right to ask how request `tag` was answered.
    pub(super) fn ticket(&self, tag: RequestTag) -> Ticket {
        Ticket(tag)
    }

    pub(super) fn get(&mut self, tag: RequestTag) -> &mut Request {
        match &mut self.places[tag.0 as usize] {
            Place::UnderWay(request, _) => request,
            Place::Free | Place::Answered(_) => unreachable!("it is under way"),
        }
    }

    /// Returns what request `tag` writes.
    pub(super) fn payload(&self, tag: RequestTag) -> Payload<'_> {
        match &self.places[tag.0 as usize] {
            Place::UnderWay(Request { payload: Some(written), .. }, _) => {
                let Written { offset, data, sums } = written;
                Payload { offset: *offset, data, sums }
            }
            _ => unreachable!("it writes and is under way"),
        }
    }

    /// Returns true if any that is under way writes to these bytes of the drive.
    pub(super) fn writes_to(&self, range: std::ops::Range<u64>) -> bool {
        self.places.iter().any(|place| match place {
            Place::UnderWay(Request { payload: Some(Written { offset, data, .. }), .. }, _) => {
                *offset < range.end && offset + data.len() as u64 > range.start
            }
            _ => false,
        })
    }

    /// Request `tag` is answered. Returns who is to be told.
    pub(super) fn end(&mut self, tag: RequestTag, outcome: Result<Answered, Errno>) -> ToTell {
        self.under_way -= 1;
        let place = &mut self.places[tag.0 as usize];
        let Place::UnderWay(_, waiter) = std::mem::replace(place, Place::Answered(outcome)) else {
            unreachable!("it is under way")
        };
        let to_tell = match waiter {
            Waiter::Unknown => return ToTell::WhoeverWaits,
            Waiter::Nobody => ToTell::Nobody,
            Waiter::Completion(completion) => ToTell::Completion(completion),
        };
        self.release(tag);
        to_tell
    }

    fn release(&mut self, tag: RequestTag) {
        self.places[tag.0 as usize] = Place::Free;
        self.free.push(tag.0);
    }

    /// Returns how the request of a ticket was answered, if it was.
    pub(super) fn take_outcome(&mut self, ticket: &Ticket) -> Option<Result<Answered, Errno>> {
        let Place::Answered(outcome) = self.places[ticket.0.0 as usize] else { return None };
        self.release(ticket.0);
        Some(outcome)
    }

    /// Has `completion` called when the request of the ticket is answered; returns it with the outcome if it is.
    pub(super) fn tell(
        &mut self,
        ticket: &Ticket,
        completion: Completion,
    ) -> Option<(Completion, Result<Answered, Errno>)> {
        if let Place::UnderWay(_, waiter) = &mut self.places[ticket.0.0 as usize] {
            *waiter = Waiter::Completion(completion);
            return None;
        }
        self.take_outcome(ticket).map(|outcome| (completion, outcome))
    }

    /// Nobody will ask how the request of the ticket is answered.
    pub(super) fn forget(&mut self, ticket: &Ticket) {
        match &mut self.places[ticket.0.0 as usize] {
            Place::UnderWay(_, waiter) => *waiter = Waiter::Nobody,
            Place::Answered(_) => self.release(ticket.0),
            Place::Free => {}
        }
    }

    /// The tags of all that are under way.
    pub(super) fn tags(&self) -> Vec<RequestTag> {
        let is_under_way = |place: &Place| matches!(place, Place::UnderWay(..));
        let places = (0..).zip(&self.places);
        places.filter(|it| is_under_way(it.1)).map(|it| RequestTag(it.0)).collect()
    }
}
