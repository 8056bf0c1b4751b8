//! RAID 0: chunks in turn over the members (md's layout for members of one size).

use ssdlab_units::ByteLength;

use super::array_geometry::ArrayGeometry;
use super::layered::{Layer, Parts};
use super::runs::Runs;
use crate::simulated::responder::{Kind, Request};

/// An array without redundancy.
#[derive(Clone)]
pub(super) struct Striped {
    geometry: ArrayGeometry,
    runs: Runs,
}

impl Striped {
    pub(super) fn new(geometry: ArrayGeometry) -> Self {
        Striped { runs: Runs::new(geometry.members), geometry }
    }

    /// Returns the member that holds `sector`, and the sector there.
    fn place_of(&self, sector: u64) -> (usize, u64) {
        let (chunk, members) = (self.geometry.chunk.0, self.geometry.members as u64);
        let (index, within) = (sector / chunk, sector % chunk);
        ((index % members) as usize, index / members * chunk + within)
    }
}

impl Layer for Striped {
    fn capacity(&self, _: ByteLength) -> ByteLength {
        self.geometry.sectors_per_member.length() * self.geometry.members as u64
    }

    fn passes_trim(&self) -> bool {
        self.geometry.trim
    }

    fn split(&mut self, request: &Request, parts: &mut Parts) {
        let Request { kind, first, count } = *request;
        if kind == Kind::Flush {
            return parts.send_to_all(request);
        }
        let chunk = self.geometry.chunk.0;
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
