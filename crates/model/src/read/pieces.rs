//! What a read needs of the flash, page by page, and how it reaches the host, piece by piece.

use crate::attribution::Blocked;
use crate::mapping::Mapping;
use crate::media::Media;
use crate::resources::{Class, Resource};
use crate::ssd::Ssd;
use crate::timing::Delivery;
use crate::units::{DieIndex, Instant, LogicalUnit, Nanoseconds, PhysicalUnit};

/// Pages of a request that are compared with the next unit's. A page's units are neighbours of
/// each other unless some were overwritten since, and then the strays lie between them. It bounds
/// the work for a large read: a page with more strays than that in between is sensed again.
pub(super) const LOOK_BACK: usize = 8;

/// Data of a request that arrives together.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    pub(crate) ready: Instant,
    pub(crate) units: u32,
    /// What the host did not ask for of its first or last unit, as time on the link.
    pub(super) left_out: Nanoseconds,
}

/// One flash page that a request needs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PageRead {
    pub(crate) page: u32,
    pub(super) sense: u32,
    pub(crate) die: DieIndex,
    pub(crate) units: u32,
    /// Where in the request it belongs: an index of [`ReadScratch::pieces`].
    pub(crate) piece: u32,
    pub(crate) sensed: Instant,
    /// What its sense waited for.
    pub(crate) blocked: Blocked,
}

/// Who wants pages read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    /// A request that waits for them.
    Request,
    /// A request of a sequential stream that waits for what was not read ahead; what was is there
    /// at `fetched`.
    Stream { fetched: Instant },
    /// Nobody yet.
    ReadAhead,
}

/// Lists that a read needs, kept so that no request allocates.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReadScratch {
    pub(super) pieces: Vec<Piece>,
    pub(super) pages: Vec<PageRead>,
    /// The pages by when they are sensed.
    order: Vec<(Instant, u32)>,
}

impl ReadScratch {
    /// The pages that were gathered.
    pub(crate) fn pages(&self) -> &[PageRead] {
        &self.pages
    }

    /// The pieces that were gathered.
    pub(crate) fn pieces(&self) -> &[Piece] {
        &self.pieces
    }
}

impl<M: Mapping, D: Media> Ssd<M, D> {
    pub(crate) fn begin_pieces(&mut self) {
        self.scratch.pieces.clear();
        self.scratch.pages.clear();
    }

    /// Collects the pages that `units` units from `first` lie on. What needs no flash is ready
    /// at `start`.
    pub(crate) fn gather(&mut self, start: Instant, first: LogicalUnit, units: u32) {
        for unit in first.0..first.0 + units {
            match self.read_place_of(LogicalUnit(unit)) {
                None => {
                    self.counters.unmapped_read_units += 1;
                    self.add_ready(start, 1);
                }
                Some(physical) if self.is_buffered(physical, start) => {
                    self.counters.buffer_hit_units += 1;
                    self.add_ready(start, 1);
                }
                Some(physical) => self.add_page(physical),
            }
        }
    }

    /// `units` units that are ready at `ready` without the flash.
    fn add_ready(&mut self, ready: Instant, units: u32) {
        let last_is_page = self
            .scratch
            .pages
            .last()
            .is_some_and(|page| page.piece as usize + 1 == self.scratch.pieces.len());
        match self.scratch.pieces.last_mut() {
            Some(last) if !last_is_page && last.ready == ready => last.units += units,
            _ => self.scratch.pieces.push(Piece { ready, units, left_out: Nanoseconds::ZERO }),
        }
    }

    #[inline(always)]
    fn add_page(&mut self, physical: PhysicalUnit) {
        let page = self.geometry.page_of(physical);
        let scratch = &mut self.scratch;
        let recent = scratch.pages.len().saturating_sub(LOOK_BACK);
        for read in scratch.pages[recent..].iter_mut().rev() {
            if read.page == page {
                read.units += 1;
                scratch.pieces[read.piece as usize].units += 1;
                return;
            }
        }
        let piece = scratch.pieces.len() as u32;
        let left_out = Nanoseconds::ZERO;
        scratch.pieces.push(Piece { ready: Instant::START, units: 1, left_out });
        scratch.pages.push(PageRead {
            page,
            sense: self.geometry.sense_of(physical),
            die: self.geometry.die_of(physical),
            units: 1,
            piece,
            sensed: Instant::START,
            blocked: Blocked::default(),
        });
    }

    /// Has the gathered pages sensed, all asked for at `start`; those of one multi-plane group
    /// together. Those `of_stream` are taken from their die's page registers if they are there.
    #[inline(always)]
    pub(crate) fn sense_gathered(&mut self, start: Instant, of_stream: bool) {
        if of_stream && self.resources.has_registers() {
            return self.sense_for_stream(start);
        }
        let mut pages = std::mem::take(&mut self.scratch.pages);
        self.counters.flash_page_reads_host += pages.len() as u64;
        for index in 0..pages.len() {
            let recent = index.saturating_sub(LOOK_BACK);
            let together =
                pages[recent..index].iter().rev().find(|other| other.sense == pages[index].sense);
            let (sensed, blocked) = match together {
                Some(other) => (other.sensed, other.blocked),
                None => self.sense_page(start, &pages[index]),
            };
            (pages[index].sensed, pages[index].blocked) = (sensed, blocked);
        }
        self.scratch.pages = pages;
    }

    /// Has a page sensed, asked for at `start`; when it is, and what that waited for.
    #[inline(always)]
    pub(super) fn sense_page(&mut self, start: Instant, page: &PageRead) -> (Instant, Blocked) {
        let before = self.blocked();
        let first = PhysicalUnit(page.page * self.geometry.units_per_page());
        let sensed = self.sense(page.die, start, self.page_read_of(first));
        (sensed, self.blocked().since(before))
    }

    /// Reads the gathered pages, all asked for at `start`; returns when the last is in RAM. What
    /// that one took and waited for is the request's, if one asked.
    pub(super) fn sense_and_transfer(&mut self, start: Instant, asked: Asked) -> Instant {
        let blocked_before = self.blocked();
        self.sense_gathered(start, asked != Asked::Request);
        let pages = std::mem::take(&mut self.scratch.pages);
        // Channels serve what is sensed first; that is also the order to reserve them in.
        let mut order = std::mem::take(&mut self.scratch.order);
        order.clear();
        order.extend(pages.iter().map(|page| page.sensed).zip(0..));
        order.sort_by_key(|&(sensed, _)| sensed);
        let (mut last, mut decides) = (start, None);
        for &(_, index) in &order {
            let page = &pages[index as usize];
            let channel = Resource::Channel(self.geometry.channel_of(page.die));
            let transfer = self.unit_over_channel * u64::from(page.units);
            let ready = self.resources.reserve(channel, Class::Read, page.sensed, transfer).end;
            self.scratch.pieces[page.piece as usize].ready = ready;
            if ready > last {
                (last, decides) = (ready, Some((page, transfer)));
            }
        }
        let blocked = self.blocked().since(blocked_before);
        self.delays.not_critical += match (asked, decides) {
            (Asked::Request, Some((page, transfer))) => {
                let first = PhysicalUnit(page.page * self.geometry.units_per_page());
                self.delays.reads.parts.flash_read += self.page_read_of(first);
                self.delays.reads.parts.link += transfer;
                blocked.since(page.blocked)
            }
            (Asked::Stream { fetched }, Some((page, transfer))) if last >= fetched => {
                self.delays.reads.parts.read_ahead_miss += page.sensed.since(start);
                self.delays.reads.parts.link += transfer;
                blocked
            }
            (Asked::Stream { fetched }, _) => {
                self.delays.reads.parts.flash_read += fetched.since(start);
                last = fetched;
                blocked
            }
            (Asked::ReadAhead, _) | (_, None) => blocked,
        };
        self.scratch.pages = pages;
        self.scratch.order = order;
        last
    }

    /// Takes off the gathered pieces what the host did not ask for of its first and last unit.
    pub(super) fn leave_out(&mut self, [head, tail]: [Nanoseconds; 2]) {
        let pieces = &mut self.scratch.pieces;
        pieces.first_mut().expect("a request has units").left_out += head;
        pieces.last_mut().expect("a request has units").left_out += tail;
    }

    /// Sends the gathered pieces to the host; returns when the last has arrived.
    pub(super) fn deliver(&mut self, start: Instant) -> Instant {
        let mut pieces = std::mem::take(&mut self.scratch.pieces);
        let delivery = self.timing.delivery;
        let mut not_before = start;
        match delivery {
            Delivery::InOrder => {}
            Delivery::AnyOrder => pieces.sort_by_key(|piece| piece.ready),
            Delivery::WhenComplete => {
                not_before = pieces.iter().map(|piece| piece.ready).fold(start, Instant::max);
            }
        }
        let mut end = start;
        for piece in &pieces {
            let after = if delivery == Delivery::AnyOrder { start } else { end };
            let ready = piece.ready.max(after).max(not_before);
            let transfer = self.unit_to_host * u64::from(piece.units) - piece.left_out;
            let span = self.resources.reserve(Resource::LinkToHost, Class::Read, ready, transfer);
            end = end.max(span.end);
        }
        self.scratch.pieces = pieces;
        end
    }
}
