//! RAID 0: chunks in turn over the members (md's layout for members of one size).

use ssdlab_units::ByteLength;

use super::layered::{Layer, Parts};
use super::members::Used;
use super::runs::Runs;
use crate::simulated::model::Model;
use crate::simulated::responder::{Kind, Request};

/// An array without redundancy.
#[derive(Clone)]
pub(super) struct Striped {
    used: Used,
    runs: Runs,
}

impl Striped {
    pub(super) fn new(used: Used) -> Self {
        Striped { runs: Runs::new(used.members), used }
    }

    /// Returns the member that holds `sector`, and the sector there.
    fn place_of(&self, sector: u64) -> (usize, u64) {
        let (chunk, members) = (self.used.chunk.0, self.used.members as u64);
        let (index, within) = (sector / chunk, sector % chunk);
        ((index % members) as usize, index / members * chunk + within)
    }
}

impl Layer for Striped {
    fn capacity(&self, _: &[Box<dyn Model>]) -> ByteLength {
        self.used.each.length() * self.used.members as u64
    }

    fn trims(&self) -> bool {
        self.used.trim
    }

    fn divide(&mut self, request: &Request, parts: &mut Parts) {
        let Request { kind, first, count } = *request;
        if kind == Kind::Flush {
            return parts.send_to_all(self.used.members, request);
        }
        let chunk = self.used.chunk.0;
        let (mut next, end) = (first.0, first.0 + count.0);
        while next < end {
            let count = (chunk - next % chunk).min(end - next);
            let (member, place) = self.place_of(next);
            self.runs.add(member, place, count, |_, _, _| {
                unreachable!("chunks that follow each other on a member lie together")
            });
            next += count;
        }
        self.runs.finish(|member, first, count| parts.send(kind, member, first, count));
    }

    fn locate(&self, sector: u64) -> Option<(usize, u64)> {
        Some(self.place_of(sector))
    }
}
