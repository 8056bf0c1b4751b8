//! RAID 5 as Linux md does it: chunks in turn, one of each stripe the parity of the others.
//!
//! The layout is left-symmetric: parity moves from the last member to the first, a member with
//! each stripe, and a stripe's data begins behind its parity.
//!
//! A write that covers a whole stripe writes data and parity and reads nothing. For any other,
//! row by row of the stripe, md counts what would have to be read: the old data and the old
//! parity (read-modify-write), or the data that is not written (reconstruct-write). It takes the
//! smaller, and where they are equal the latter (`handle_stripe_dirtying` in `drivers/md/raid5.c`).
//! What md keeps in its stripe cache, and its write-intent bitmap, are not modelled.

use ssdlab_model::attribution::Attribution;
use ssdlab_model::counters::{Counters, Wear};
use ssdlab_units::{ByteLength, Instant, Nanoseconds, Sector, SectorCount};

use super::members::{Kind, Members};
use super::runs::Runs;
use crate::simulated::Responder;

/// An array with rotating parity.
#[derive(Clone)]
pub(super) struct Parity {
    members: Members,
    layout: Layout,
    runs: Runs,
}

/// What lies where.
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
    /// The data chunks that are written, by their place in the stripe.
    data: (usize, usize),
}

/// The rows that writing the sectors `from..to` of a stripe's data touches.
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
        // With a chunk at either end left out there may be nothing between them.
        let is_any = row < until && without_first + without_last <= last - first;
        is_any.then_some(Rows { first: row, count: until - row, data })
    })
}

impl Layout {
    fn data_chunks(self) -> usize {
        self.members - 1
    }

    /// Sectors of data in a stripe.
    fn stripe(self) -> u64 {
        self.chunk * self.data_chunks() as u64
    }

    /// The member that holds the parity of `stripe`.
    fn parity_of(self, stripe: u64) -> usize {
        let members = self.members;
        members - 1 - (stripe % members as u64) as usize
    }

    /// The member that holds data chunk `chunk` of `stripe`.
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
    pub(super) fn new(members: Members) -> Self {
        let layout = Layout { members: members.drives.len(), chunk: members.chunk.0 };
        Parity { runs: Runs::new(layout.members), layout, members }
    }

    /// Rebuilds the last member from the others, as mdadm does with a new array.
    pub(super) fn synchronise(&mut self, at: Instant) -> Instant {
        let last = self.members.drives.len() - 1;
        self.members.synchronise(at, |member| member != last)
    }

    fn send(&mut self, kind: Kind, member: usize, at: Instant, first: u64, count: u64) -> Instant {
        let drive = &mut *self.members.drives[member];
        kind.send(drive, at, Sector(first), SectorCount(count))
    }

    fn write_as(&mut self, kind: Kind, at: Instant, first: Sector, count: SectorCount) -> Instant {
        let stripe_length = self.layout.stripe();
        let (mut next, end) = (first.0, first.0 + count.0);
        let (mut read, mut written) = (at, at);
        while next < end {
            let (stripe, within) = (next / stripe_length, next % stripe_length);
            if within == 0 && end - next >= stripe_length {
                let stripes = (end - next) / stripe_length;
                written = written.max(self.whole_stripes(kind, at, stripe, stripes));
                next += stripes * stripe_length;
            } else {
                let until = stripe_length.min(within + end - next);
                for rows in touched_rows(self.layout.chunk, within, until) {
                    let (old, new) = self.write_rows(kind, at, stripe, rows);
                    (read, written) = (read.max(old), written.max(new));
                }
                next += until - within;
            }
        }
        read + written.since(at)
    }

    /// A request of `kind` for all of `stripes` stripes from `stripe`, parity included.
    fn whole_stripes(&mut self, kind: Kind, at: Instant, stripe: u64, stripes: u64) -> Instant {
        let chunk = self.layout.chunk;
        (0..self.layout.members)
            .map(|member| self.send(kind, member, at, stripe * chunk, stripes * chunk))
            .fold(at, Instant::max)
    }

    /// Writes some rows of a stripe; returns when what had to be read is there, and when the
    /// writes would be answered without that.
    fn write_rows(
        &mut self,
        kind: Kind,
        at: Instant,
        stripe: u64,
        rows: Rows,
    ) -> (Instant, Instant) {
        let first = stripe * self.layout.chunk + rows.first;
        let parity = self.layout.parity_of(stripe);
        let is_written = |chunk: usize| (rows.data.0..rows.data.1).contains(&chunk);
        let chunks_written = rows.data.1 - rows.data.0;
        let read_modify_write = chunks_written + 1 < self.layout.data_chunks() - chunks_written;
        let mut read = at;
        for chunk in 0..self.layout.data_chunks() {
            if is_written(chunk) == read_modify_write {
                let member = self.layout.member_of(stripe, chunk);
                read = read.max(self.send(Kind::Read, member, at, first, rows.count));
            }
        }
        if read_modify_write {
            read = read.max(self.send(Kind::Read, parity, at, first, rows.count));
        }
        let mut written = self.send(kind, parity, at, first, rows.count);
        for chunk in rows.data.0..rows.data.1 {
            let member = self.layout.member_of(stripe, chunk);
            written = written.max(self.send(kind, member, at, first, rows.count));
        }
        (read, written)
    }
}

impl Responder for Parity {
    fn capacity(&self) -> ByteLength {
        self.members.each.length() * self.layout.data_chunks() as u64
    }

    fn block_size(&self) -> ByteLength {
        self.members.block_size
    }

    fn read(&mut self, at: Instant, first: Sector, count: SectorCount) -> Instant {
        let (layout, drives) = (self.layout, &mut self.members.drives);
        let mut answered = at;
        let mut send = |member: usize, first, count| {
            answered = answered.max(drives[member].read(at, first, count));
        };
        let (mut next, end) = (first.0, first.0 + count.0);
        while next < end {
            let count = (layout.chunk - next % layout.chunk).min(end - next);
            let (member, place) = layout.locate(next);
            self.runs.add(member, place, count, &mut send);
            next += count;
        }
        self.runs.finish(&mut send);
        answered
    }

    fn write(&mut self, at: Instant, first: Sector, count: SectorCount) -> Instant {
        self.write_as(Kind::Write, at, first, count)
    }

    fn write_through(&mut self, at: Instant, first: Sector, count: SectorCount) -> Instant {
        self.write_as(Kind::WriteThrough, at, first, count)
    }

    /// Only whole stripes are trimmed: of any other the parity would be wrong.
    fn trim(&mut self, at: Instant, first: Sector, count: SectorCount) -> Instant {
        let stripe = first.0.div_ceil(self.layout.stripe());
        let end = (first.0 + count.0) / self.layout.stripe();
        if !self.passes_trim() || stripe >= end {
            return at;
        }
        self.whole_stripes(Kind::Trim, at, stripe, end - stripe)
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
        let (member, place) = self.layout.locate(sector.0);
        self.members.drives[member].prefetch(Sector(place));
    }

    fn prefetch_for_write(&self, sector: Sector) {
        let (member, place) = self.layout.locate(sector.0);
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
