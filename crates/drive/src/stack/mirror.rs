//! RAID 1: all data on every member. A write is answered when the last member has answered, a read goes to
//! one of them.

use ssdlab_units::ByteLength;

use super::ReadPolicy;
use super::array_geometry::ArrayGeometry;
use super::layered::{Layer, Part, Parts};
use super::members::Receiver;
use crate::simulated::responder::{Kind, Request};

/// Reads of a member.
#[derive(Clone, Debug, Default)]
struct Reads {
    in_flight: u32,
    /// Sector behind the latest read.
    next: u64,
}

/// An array whose members all hold the same data.
#[derive(Clone)]
pub(super) struct Mirrored {
    geometry: ArrayGeometry,
    policy: ReadPolicy,
    reads: Vec<Reads>,
    next_member: usize,
}

impl Mirrored {
    pub(super) fn new(geometry: ArrayGeometry, policy: ReadPolicy) -> Self {
        let reads = vec![Reads::default(); geometry.members];
        Mirrored { geometry, policy, reads, next_member: 0 }
    }

    /// Returns the member for a read that begins at `first`.
    fn choose(&mut self, first: u64) -> usize {
        let members = self.reads.len();
        match self.policy {
            ReadPolicy::First => 0,
            ReadPolicy::RoundRobin => {
                let member = self.next_member;
                self.next_member = (member + 1) % members;
                member
            }
            ReadPolicy::FreeFirst => {
                let cost = |reads: &Reads| (reads.in_flight, reads.next != first);
                let cheapest = (0..members).min_by_key(|&member| cost(&self.reads[member]));
                cheapest.expect("some member")
            }
        }
    }
}

impl Layer for Mirrored {
    fn capacity(&self, _: ByteLength) -> ByteLength {
        self.geometry.sectors_per_member.length()
    }

    fn passes_trim(&self) -> bool {
        self.geometry.trim
    }

    fn split(&mut self, request: &Request, parts: &mut Parts) {
        let Request { kind, first, count } = *request;
        if kind != Kind::Read {
            return parts.send_to_all(request);
        }
        let member = self.choose(first.0);
        self.reads[member].in_flight += 1;
        self.reads[member].next = first.0 + count.0;
        parts.send(kind, member, first.0, count.0);
    }

    fn note_part(&mut self, part: &Part) {
        if part.request.kind == Kind::Read
            && let Receiver::One(member) = part.receiver
        {
            let reads = &mut self.reads[member];
            // Reads of a synchronisation are not counted.
            reads.in_flight = reads.in_flight.saturating_sub(1);
        }
    }

    fn locate(&self, _: u64) -> Option<(usize, u64)> {
        None
    }
}
