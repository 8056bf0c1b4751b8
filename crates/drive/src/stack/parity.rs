//! RAID 5 as Linux md does it: chunks in turn, one chunk of each stripe holding the parity of the others.
//!
//! The layout is left-symmetric: parity moves from the last member to the first, by one member with each
//! stripe, and a stripe's data begins behind its parity.
//!
//! A write that covers a whole stripe writes data and parity and reads nothing. For any other write md
//! counts, row by row of the stripe, the chunks that it would have to read: the old data and the old parity
//! (read-modify-write), or the data that is not written (reconstruct-write). It takes the smaller, and
//! where they are equal the latter (`handle_stripe_dirtying` in `drivers/md/raid5.c`). md's stripe cache
//! and write-intent bitmap are not modelled.

use ssdlab_units::ByteLength;

use super::array_geometry::ArrayGeometry;
use super::layered::{Layer, Parts};
use super::runs::Runs;
use crate::simulated::responder::{Kind, Request};

/// An array with rotating parity.
#[derive(Clone)]
pub(super) struct Parity {
    geometry: ArrayGeometry,
    layout: Layout,
    runs: Runs,
}

/// Layout of data and parity on the members.
#[derive(Clone, Copy, Debug)]
struct Layout {
    members: usize,
    /// Sectors of a chunk.
    chunk: u64,
}

/// Rows of one stripe in which the same data chunks are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Rows {
    /// The first row, in sectors from the beginning of a chunk.
    first: u64,
    count: u64,
    /// Data chunks that are written: the first and the end of the range of their places in the stripe.
    data: (usize, usize),
}

/// Returns the rows that a write to the sectors `from..to` of a stripe's data touches.
fn touched_rows(chunk: u64, from: u64, to: u64) -> impl Iterator<Item = Rows> {
    let (first, last) = ((from / chunk) as usize, ((to - 1) / chunk) as usize);
    let (begin, end) = (from % chunk, (to - 1) % chunk + 1);
    let mut cuts = [0, begin, end, chunk];
    cuts.sort_unstable();
    (0..3).filter_map(move |cut| {
        let (row, until) = (cuts[cut], cuts[cut + 1]);
        let without_first = usize::from(row < begin);
        let without_last = usize::from(until > end);
        let data = (first + without_first, last + 1 - without_last);
        // With a chunk at either end left out there may be no chunk between them.
        let is_any = row < until && without_first + without_last <= last - first;
        is_any.then_some(Rows { first: row, count: until - row, data })
    })
}

impl Layout {
    fn data_chunks(self) -> usize {
        self.members - 1
    }

    /// Returns the number of data sectors in a stripe.
    fn stripe(self) -> u64 {
        self.chunk * self.data_chunks() as u64
    }

    /// Returns the member that holds the parity of `stripe`.
    fn parity_of(self, stripe: u64) -> usize {
        let members = self.members;
        members - 1 - (stripe % members as u64) as usize
    }

    /// Returns the member that holds data chunk `chunk` of `stripe`.
    fn member_of(self, stripe: u64, chunk: usize) -> usize {
        (self.parity_of(stripe) + 1 + chunk) % self.members
    }

    fn locate(self, sector: u64) -> (usize, u64) {
        let (stripe, within) = (sector / self.stripe(), sector % self.stripe());
        let chunk = self.chunk;
        let member = self.member_of(stripe, (within / chunk) as usize);
        (member, stripe * chunk + within % chunk)
    }
}

impl Parity {
    pub(super) fn new(geometry: ArrayGeometry) -> Self {
        let layout = Layout { members: geometry.members, chunk: geometry.chunk.0 };
        Parity { geometry, layout, runs: Runs::new(geometry.members) }
    }

    fn read(&mut self, first: u64, count: u64, parts: &mut Parts) {
        let layout = self.layout;
        let mut send = |member, first, count| parts.send(Kind::Read, member, first, count);
        let (mut next, end) = (first, first + count);
        while next < end {
            let count = (layout.chunk - next % layout.chunk).min(end - next);
            let (member, place) = layout.locate(next);
            self.runs.add(member, place, count, &mut send);
            next += count;
        }
        self.runs.finish(&mut send);
    }

    fn write(&self, kind: Kind, first: u64, count: u64, parts: &mut Parts) {
        let stripe_length = self.layout.stripe();
        let (mut next, end) = (first, first + count);
        while next < end {
            let (stripe, within) = (next / stripe_length, next % stripe_length);
            if within == 0 && end - next >= stripe_length {
                let stripes = (end - next) / stripe_length;
                self.send_whole_stripes(kind, stripe, stripes, parts);
                next += stripes * stripe_length;
            } else {
                let until = stripe_length.min(within + end - next);
                for rows in touched_rows(self.layout.chunk, within, until) {
                    self.write_rows(kind, stripe, rows, parts);
                }
                next += until - within;
            }
        }
    }

    /// Sends requests for all of `stripes` stripes from `stripe` on, parity included.
    fn send_whole_stripes(&self, kind: Kind, stripe: u64, stripes: u64, parts: &mut Parts) {
        let chunk = self.layout.chunk;
        for member in 0..self.layout.members {
            parts.send(kind, member, stripe * chunk, stripes * chunk);
        }
    }

    /// Writes some rows of a stripe, after the reads that the new parity needs.
    fn write_rows(&self, kind: Kind, stripe: u64, rows: Rows, parts: &mut Parts) {
        let first = stripe * self.layout.chunk + rows.first;
        let parity = self.layout.parity_of(stripe);
        let is_written = |chunk: usize| (rows.data.0..rows.data.1).contains(&chunk);
        let chunks_written = rows.data.1 - rows.data.0;
        let read_modify_write = chunks_written + 1 < self.layout.data_chunks() - chunks_written;
        for chunk in 0..self.layout.data_chunks() {
            if is_written(chunk) == read_modify_write {
                let member = self.layout.member_of(stripe, chunk);
                parts.send(Kind::Read, member, first, rows.count);
            }
        }
        if read_modify_write {
            parts.send(Kind::Read, parity, first, rows.count);
        }
        parts.send_then(kind, parity, first, rows.count);
        for chunk in rows.data.0..rows.data.1 {
            let member = self.layout.member_of(stripe, chunk);
            parts.send_then(kind, member, first, rows.count);
        }
    }
}

impl Layer for Parity {
    fn capacity(&self, _: ByteLength) -> ByteLength {
        self.geometry.sectors_per_member.length() * self.layout.data_chunks() as u64
    }

    fn passes_trim(&self) -> bool {
        self.geometry.trim
    }

    fn split(&mut self, request: &Request, parts: &mut Parts) {
        let Request { kind, first, count } = *request;
        match kind {
            Kind::Read => self.read(first.0, count.0, parts),
            Kind::Write | Kind::WriteThrough => self.write(kind, first.0, count.0, parts),
            Kind::Flush => parts.send_to_all(request),
            // Only whole stripes are trimmed: the parity of any other would be wrong.
            Kind::Trim => {
                let stripe = first.0.div_ceil(self.layout.stripe());
                let end = (first.0 + count.0) / self.layout.stripe();
                if stripe < end {
                    self.send_whole_stripes(kind, stripe, end - stripe, parts);
                }
            }
        }
    }

    fn locate(&self, sector: u64) -> Option<(usize, u64)> {
        Some(self.layout.locate(sector))
    }
}
