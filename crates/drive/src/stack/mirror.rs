//! RAID 1: everything on every member. A write is answered when the last member has answered, a
//! read goes to one of them.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use ssdlab_model::attribution::Attribution;
use ssdlab_model::counters::{Counters, Wear};
use ssdlab_units::{ByteLength, Instant, Nanoseconds, Sector, SectorCount};

use super::ReadPolicy;
use super::members::{Kind, Members};
use crate::simulated::Responder;

/// What is known of a member's reads.
#[derive(Clone, Debug, Default)]
struct Reads {
    /// The ends of those under way.
    under_way: BinaryHeap<Reverse<Instant>>,
    /// The sector behind the latest.
    next: u64,
}

/// An array whose members all hold the same.
#[derive(Clone)]
pub(super) struct Mirrored {
    members: Members,
    policy: ReadPolicy,
    reads: Vec<Reads>,
    turn: usize,
}

impl Mirrored {
    pub(super) fn new(members: Members, policy: ReadPolicy) -> Self {
        let reads = vec![Reads::default(); members.drives.len()];
        Mirrored { members, policy, reads, turn: 0 }
    }

    /// Copies the first member to all others (md's initial synchronisation).
    pub(super) fn synchronise(&mut self, at: Instant) -> Instant {
        self.members.synchronise(at, |member| member == 0)
    }

    /// The member that reads what begins at `first`.
    fn choose(&mut self, at: Instant, first: u64) -> usize {
        let drives = self.reads.len();
        match self.policy {
            ReadPolicy::First => 0,
            ReadPolicy::RoundRobin => {
                let turn = self.turn;
                self.turn = (turn + 1) % drives;
                turn
            }
            ReadPolicy::FreeFirst => {
                for reads in &mut self.reads {
                    while reads.under_way.peek().is_some_and(|end| end.0 <= at) {
                        reads.under_way.pop();
                    }
                }
                let cost = |reads: &Reads| (reads.under_way.len(), reads.next != first);
                let cheapest = (0..drives).min_by_key(|&member| cost(&self.reads[member]));
                cheapest.expect("some member")
            }
        }
    }

    /// Sends a request to every member; returns when the last has answered.
    fn send_to_all(
        &mut self,
        kind: Kind,
        at: Instant,
        first: Sector,
        count: SectorCount,
    ) -> Instant {
        let drives = self.members.drives.iter_mut();
        drives.map(|drive| kind.send(&mut **drive, at, first, count)).fold(at, Instant::max)
    }
}

impl Responder for Mirrored {
    fn capacity(&self) -> ByteLength {
        self.members.each.length()
    }

    fn block_size(&self) -> ByteLength {
        self.members.block_size
    }

    fn read(&mut self, at: Instant, first: Sector, count: SectorCount) -> Instant {
        let member = self.choose(at, first.0);
        let end = self.members.drives[member].read(at, first, count);
        if self.policy == ReadPolicy::FreeFirst {
            self.reads[member].under_way.push(Reverse(end));
            self.reads[member].next = first.0 + count.0;
        }
        end
    }

    fn write(&mut self, at: Instant, first: Sector, count: SectorCount) -> Instant {
        self.send_to_all(Kind::Write, at, first, count)
    }

    fn write_through(&mut self, at: Instant, first: Sector, count: SectorCount) -> Instant {
        self.send_to_all(Kind::WriteThrough, at, first, count)
    }

    fn trim(&mut self, at: Instant, first: Sector, count: SectorCount) -> Instant {
        if self.passes_trim() { self.send_to_all(Kind::Trim, at, first, count) } else { at }
    }

    fn passes_trim(&self) -> bool {
        self.members.passes_trim()
    }

    fn flush(&mut self, at: Instant) -> Instant {
        self.members.flush(at)
    }

    fn rest(&mut self, from: Instant, duration: Nanoseconds) {
        self.members.rest(from, duration);
    }

    /// Which member will read is not known yet.
    fn prefetch(&self, sector: Sector) {
        for drive in &self.members.drives {
            drive.prefetch(sector);
        }
    }

    fn prefetch_for_write(&self, sector: Sector) {
        for drive in &self.members.drives {
            drive.prefetch_for_write(sector);
        }
    }

    fn counters(&self) -> Counters {
        self.members.counters()
    }

    fn wear(&self) -> Wear {
        self.members.wear()
    }

    fn unused_flash(&self) -> ByteLength {
        self.members.unused_flash()
    }

    fn attribution(&self) -> Attribution {
        self.members.attribution()
    }
}
