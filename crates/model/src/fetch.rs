//! Segments that are read ahead in the order of time.
//!
//! Asked at once, a segment books the channels for all its pages when it is asked for. Step by step
//! ([`crate::pending`]) its pages ask for their channels when they are sensed ([`crate::in_time`]),
//! whether the request that caused it was answered or not, and requests that need it wait for it.

use std::collections::VecDeque;

use crate::mapping::Mapping;
use crate::media::Media;
use crate::read_ahead::{Arrival, is_whole};
use crate::resources::{Class, Resource};
use crate::ssd::Ssd;
use crate::units::{DieIndex, Instant, LogicalUnit};

/// A segment of which not all pages have arrived.
#[derive(Clone, Copy, Debug)]
struct Fetch {
    /// Pages that have not asked for their channel.
    unasked: u32,
    /// When the others have arrived; before that, the earliest that all can have.
    arrived: Instant,
}

/// When a segment's data is in the read-ahead buffer, as far as is known.
#[derive(Clone, Copy, Debug)]
pub(crate) enum FetchedAt {
    Known(Instant),
    /// By then all its pages will have asked for their channels.
    NotBefore(Instant),
}

/// Fetches under way, by number, oldest first.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fetches {
    under_way: VecDeque<Fetch>,
    /// The number of the first; wraps.
    first: u32,
}

impl Fetches {
    /// Begins to fetch `pages` pages, which cannot all be there before `earliest`; returns the
    /// fetch's number.
    fn begin(&mut self, pages: u32, earliest: Instant) -> u32 {
        let number = self.first.wrapping_add(self.under_way.len() as u32);
        self.under_way.push_back(Fetch { unasked: pages, arrived: earliest });
        number
    }

    /// When fetch `number` is done. One that is not known any more was done long ago.
    pub(crate) fn arrival(&self, number: u32) -> FetchedAt {
        match self.under_way.get(number.wrapping_sub(self.first) as usize) {
            None => FetchedAt::Known(Instant::START),
            Some(fetch) if fetch.unasked == 0 => FetchedAt::Known(fetch.arrived),
            Some(fetch) => FetchedAt::NotBefore(fetch.arrived),
        }
    }

    /// Another page of fetch `number` arrives at `end`. Forgets what is done before `now`: who waited
    /// for it has looked at it by then.
    fn note_page(&mut self, number: u32, now: Instant, end: Instant) {
        let index = number.wrapping_sub(self.first) as usize;
        let fetch = self.under_way.get_mut(index).expect("it is under way");
        fetch.unasked -= 1;
        fetch.arrived = fetch.arrived.max(end);
        while self.under_way.front().is_some_and(|it| it.unasked == 0 && it.arrived < now) {
            self.under_way.pop_front();
            self.first = self.first.wrapping_add(1);
        }
    }
}

impl<M: Mapping, D: Media> Ssd<M, D> {
    /// Has the segments sensed that `stream` has room for in its window; their pages go on by
    /// themselves.
    pub(crate) fn fetch_ahead_in_time(&mut self, stream: usize, start: Instant) {
        let segment = self.read_ahead.parameters().segment;
        let logical_units = self.geometry.logical_units();
        while let Some(first) = self.read_ahead.next_to_fetch(stream, logical_units) {
            if is_whole(&self.map, &self.flash, &self.geometry, LogicalUnit(first), segment) {
                let arrival = self.fetch(start, LogicalUnit(first), segment);
                self.read_ahead.note_fetched(stream, first, arrival);
            }
        }
    }

    /// Has the pages sensed that the `units` units from `first` lie on.
    fn fetch(&mut self, start: Instant, first: LogicalUnit, units: u32) -> Arrival {
        self.begin_pieces();
        self.gather(start, first, units);
        let before = self.blocked();
        self.sense_gathered(start, true);
        // Nobody waits for it yet.
        self.delays.not_critical += self.blocked().since(before);
        let pages = self.scratch.pages();
        let moved = |units: u32| self.unit_over_channel * u64::from(units);
        let Some(earliest) = pages.iter().map(|page| page.sensed + moved(page.units)).max() else {
            return Arrival::At(start);
        };
        let number = self.fetches.begin(pages.len() as u32, earliest);
        for page in pages {
            self.in_time.sensed_ahead(page.sensed, page.die, page.units, number);
        }
        Arrival::WithFetch(number)
    }

    /// Moves `units` units of a page that was sensed at `at` for fetch `number` over the channel.
    pub(crate) fn move_ahead(&mut self, die: DieIndex, units: u32, number: u32, at: Instant) {
        let channel = Resource::Channel(self.geometry.channel_of(die));
        let transfer = self.unit_over_channel * u64::from(units);
        let end = self.resources.reserve_in_turn(channel, Class::Read, at, transfer).end;
        self.fetches.note_page(number, self.resources.now(), end);
    }
}
