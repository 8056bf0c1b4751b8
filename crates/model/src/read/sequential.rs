//! Reads of a sequential stream: what was read ahead is taken, the rest is fetched, from the page
//! registers where it is there, and reading ahead goes on.

use super::pieces::{Asked, LOOK_BACK, PageRead, Piece};
use crate::attribution::Blocked;
use crate::fetch::FetchedAt;
use crate::mapping::Mapping;
use crate::media::Media;
use crate::read_ahead::{Arrival, is_whole};
use crate::ssd::Ssd;
use crate::units::{Instant, LogicalUnit, Nanoseconds};

impl<M: Mapping, D: Media> Ssd<M, D> {
    /// A read that continues a sequential stream: takes what was read ahead, fetches the rest,
    /// and reads ahead again.
    #[inline(never)]
    pub(super) fn read_sequential(
        &mut self,
        stream: usize,
        start: Instant,
        first: LogicalUnit,
        units: u32,
        left_out: [Nanoseconds; 2],
    ) -> Instant {
        self.begin_pieces();
        self.gather_sequential(stream, start, first, units, |_, _| {
            panic!("what was under way step by step has been booked");
        });
        let fetched = self.scratch.pieces.iter().map(|piece| piece.ready).fold(start, Instant::max);
        let ready = self.sense_and_transfer(start, Asked::Stream { fetched });
        self.leave_out(left_out);
        let done = self.deliver(start);
        self.delays.reads.parts.link += done.since(ready);
        self.fetch_ahead(stream, start);
        done
    }

    /// Collects the pieces of a request that continues a sequential stream: what was read ahead, and
    /// the pages of the rest. `on_fetch` is told which piece waits for which fetch under way.
    #[inline(always)]
    pub(crate) fn gather_sequential(
        &mut self,
        stream: usize,
        start: Instant,
        first: LogicalUnit,
        units: u32,
        mut on_fetch: impl FnMut(u32, u32),
    ) {
        let segment_units = self.read_ahead.parameters().segment;
        let (mut unit, end) = (first.0, first.0 + units);
        while unit < end {
            let segment_end = (unit - unit % segment_units + segment_units).min(end);
            let count = segment_end - unit;
            match self.read_ahead.fetched(stream, unit) {
                Some(arrival) => {
                    self.counters.read_ahead_hit_units += u64::from(count);
                    let ready = match arrival {
                        Arrival::At(ready) => ready,
                        Arrival::WithFetch(number) => match self.fetches.arrival(number) {
                            FetchedAt::Known(ready) => ready,
                            FetchedAt::NotBefore(at) => {
                                on_fetch(self.scratch.pieces.len() as u32, number);
                                at
                            }
                        },
                    };
                    let (ready, left_out) = (ready.max(start), Nanoseconds::ZERO);
                    self.scratch.pieces.push(Piece { ready, units: count, left_out });
                }
                None => self.gather(start, LogicalUnit(unit), count),
            }
            unit = segment_end;
        }
    }

    fn fetch_ahead(&mut self, stream: usize, start: Instant) {
        let segment = self.read_ahead.parameters().segment;
        let logical_units = self.geometry.logical_units();
        while let Some(first) = self.read_ahead.next_to_fetch(stream, logical_units) {
            let start = self.look_up_ahead(start, LogicalUnit(first), segment);
            if is_whole(&self.map, &self.flash, &self.geometry, LogicalUnit(first), segment) {
                self.begin_pieces();
                self.gather(start, LogicalUnit(first), segment);
                let ready = self.sense_and_transfer(start, Asked::ReadAhead);
                self.read_ahead.note_fetched(stream, first, Arrival::At(ready));
            }
        }
    }

    /// Has the gathered pages of a stream sensed, but those that a request before has left in their
    /// die's page registers.
    #[inline(never)]
    pub(super) fn sense_for_stream(&mut self, start: Instant) {
        let mut pages = std::mem::take(&mut self.scratch.pages);
        // Which of the latest were in a register, each at its index modulo their number.
        let mut held = [false; LOOK_BACK];
        for index in 0..pages.len() {
            let (recent, page) = (index.saturating_sub(LOOK_BACK), pages[index]);
            let together = (recent..index).rev().find(|&other| pages[other].sense == page.sense);
            let (sensed, blocked, is_held) = match together {
                Some(at) => (pages[at].sensed, pages[at].blocked, held[at % LOOK_BACK]),
                None => self.sense_unless_held(start, &page),
            };
            (pages[index].sensed, pages[index].blocked) = (sensed, blocked);
            held[index % LOOK_BACK] = is_held;
            self.counters.flash_page_reads_host += u64::from(!is_held);
        }
        self.scratch.pages = pages;
    }

    /// Has a page sensed unless its die's registers hold it; whether they do comes last.
    fn sense_unless_held(&mut self, start: Instant, page: &PageRead) -> (Instant, Blocked, bool) {
        // Where the map has to be read first, when that will be is not known.
        let is_later = self.senses_later(start);
        if !is_later {
            self.settle(page.die, start);
            if let Some(there) = self.resources.read_register(page.die, page.sense, start) {
                return (there, Blocked::default(), true);
            }
        }
        let (sensed, blocked) = self.sense_page(start, page);
        if !is_later {
            self.resources.note_register(page.die, page.sense, sensed);
        }
        (sensed, blocked, false)
    }
}
