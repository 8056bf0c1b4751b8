//! RAID 0: chunks in turn over the members (md's layout for members of one size).

use ssdlab_model::attribution::Attribution;
use ssdlab_model::counters::{Counters, Wear};
use ssdlab_units::{ByteLength, Instant, Nanoseconds, Sector, SectorCount};

use super::members::{Kind, Members};
use super::runs::Runs;
use crate::simulated::Responder;

/// An array without redundancy.
#[derive(Clone)]
pub(super) struct Striped {
    members: Members,
    runs: Runs,
}

impl Striped {
    pub(super) fn new(members: Members) -> Self {
        let runs = Runs::new(members.drives.len());
        Striped { members, runs }
    }

    /// The member that holds `sector`, and where.
    fn locate(&self, sector: u64) -> (usize, u64) {
        let (chunk, drives) = (self.members.chunk.0, self.members.drives.len() as u64);
        let (index, within) = (sector / chunk, sector % chunk);
        ((index % drives) as usize, index / drives * chunk + within)
    }

    /// Sends a request on in pieces; returns when the last of them is answered.
    fn pass_on(&mut self, kind: Kind, at: Instant, first: Sector, count: SectorCount) -> Instant {
        let chunk = self.members.chunk.0;
        let (mut next, end) = (first.0, first.0 + count.0);
        let mut answered = at;
        while next < end {
            let count = (chunk - next % chunk).min(end - next);
            let (member, place) = self.locate(next);
            self.runs.add(member, place, count, |_, _, _| {
                unreachable!("chunks that follow each other on a member lie together")
            });
            next += count;
        }
        self.runs.finish(|member, first, count| {
            let drive = &mut *self.members.drives[member];
            answered = answered.max(kind.send(drive, at, first, count));
        });
        answered
    }
}

impl Responder for Striped {
    fn capacity(&self) -> ByteLength {
        self.members.each.length() * self.members.drives.len() as u64
    }

    fn block_size(&self) -> ByteLength {
        self.members.block_size
    }

    fn read(&mut self, at: Instant, first: Sector, count: SectorCount) -> Instant {
        self.pass_on(Kind::Read, at, first, count)
    }

    fn write(&mut self, at: Instant, first: Sector, count: SectorCount) -> Instant {
        self.pass_on(Kind::Write, at, first, count)
    }

    fn write_through(&mut self, at: Instant, first: Sector, count: SectorCount) -> Instant {
        self.pass_on(Kind::WriteThrough, at, first, count)
    }

    fn trim(&mut self, at: Instant, first: Sector, count: SectorCount) -> Instant {
        if self.passes_trim() { self.pass_on(Kind::Trim, at, first, count) } else { at }
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

    fn prefetch(&self, sector: Sector) {
        let (member, place) = self.locate(sector.0);
        self.members.drives[member].prefetch(Sector(place));
    }

    fn prefetch_for_write(&self, sector: Sector) {
        let (member, place) = self.locate(sector.0);
        self.members.drives[member].prefetch_for_write(Sector(place));
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
