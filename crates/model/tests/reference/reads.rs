//! Host reads: pages are sensed, cross their channel, and are delivered piece by piece.

use std::collections::HashMap;

use super::die::Job;
use super::shape::Place;
use super::{Owner, Reference, Transfer};

/// Data of one request that arrives together.
#[derive(Clone, Debug)]
struct Piece {
    units: u32,
    ready: bool,
    sent: bool,
}

/// The pieces of a request, in the order of its units.
#[derive(Clone, Debug, Default)]
pub struct Pieces {
    pieces: Vec<Piece>,
    left: usize,
}

/// Pages that one multi-plane read senses together.
#[derive(Clone, Debug)]
pub struct Sense {
    /// The multi-plane group that they are, where a stream wants them.
    pub(super) of_stream: Option<(usize, usize)>,
    /// How long the die senses.
    pub(super) took: u64,
    pages: Vec<(usize, Owner)>,
}

/// A segment read ahead.
#[derive(Clone, Debug, Default)]
pub struct Segment {
    pages_left: usize,
    /// Pieces of requests that wait for it.
    waiting: Vec<(usize, usize)>,
}

/// A page that is needed.
struct Page {
    place: Place,
    units: usize,
    owner: Owner,
}

impl Reference {
    pub(super) fn read(&mut self, request: usize, first: u32, units: u32) {
        let end = first + units;
        let stream = self.read_ahead.follow(&self.shape, first, end);
        let mut pages: Vec<Page> = Vec::new();
        let mut index: HashMap<(usize, usize), usize> = HashMap::new();
        let mut unit = first;
        while unit < end {
            let fetched =
                stream.and_then(|stream| self.read_ahead.segment_of(&self.shape, stream, unit));
            if let Some(segment) = fetched {
                let size = self.shape.read_ahead_segment;
                let segment_end = (unit - unit % size + size).min(end);
                self.await_segment(request, segment, segment_end - unit);
                unit = segment_end;
            } else {
                self.await_unit(request, unit, &mut pages, &mut index);
                unit += 1;
            }
        }
        self.requests[request].pieces.left = self.requests[request].pieces.pieces.len();
        self.sense(pages, stream.is_some());
        self.deliver(request);
        if let Some(stream) = stream {
            self.fetch_ahead(stream);
        }
    }

    fn add_piece(&mut self, request: usize, units: u32, ready: bool) -> usize {
        let pieces = &mut self.requests[request].pieces.pieces;
        pieces.push(Piece { units, ready, sent: false });
        pieces.len() - 1
    }

    fn await_segment(&mut self, request: usize, segment: usize, units: u32) {
        let ready = self.segments[segment].pages_left == 0;
        let piece = self.add_piece(request, units, ready);
        if !ready {
            self.segments[segment].waiting.push((request, piece));
        }
    }

    /// A unit of a request: from the buffer, from a page that is needed anyway, or from another.
    fn await_unit(
        &mut self,
        request: usize,
        unit: u32,
        pages: &mut Vec<Page>,
        index: &mut HashMap<(usize, usize), usize>,
    ) {
        let Some(place) = self.in_flash(unit) else {
            match self.requests[request].pieces.pieces.last_mut() {
                Some(last) if last.ready => last.units += 1,
                _ => {
                    self.add_piece(request, 1, true);
                }
            }
            return;
        };
        if let Some(&page) = index.get(&self.shape.page_of(place)) {
            pages[page].units += 1;
            if let Owner::Request { piece, .. } = pages[page].owner {
                self.requests[request].pieces.pieces[piece].units += 1;
            }
            return;
        }
        index.insert(self.shape.page_of(place), pages.len());
        let piece = self.add_piece(request, 1, false);
        pages.push(Page { place, units: 1, owner: Owner::Request { request, piece } });
    }

    /// Returns where a unit has to be read from the flash; `None` when it is buffered or nowhere.
    fn in_flash(&self, unit: u32) -> Option<Place> {
        let place = self.placement.place_of(unit)?;
        let row = place.offset / self.shape.units_per_program;
        (!self.buffered.contains(&(place.block, row))).then_some(place)
    }

    fn fetch_ahead(&mut self, stream: usize) {
        for first in self.read_ahead.next_to_fetch(&self.shape, &self.placement, stream) {
            let segment = self.segments.len();
            let owner = Owner::Segment { segment };
            let mut pages: Vec<Page> = Vec::new();
            for unit in first..first + self.shape.read_ahead_segment {
                let Some(place) = self.in_flash(unit) else {
                    continue;
                };
                let page = self.shape.page_of(place);
                match pages.iter_mut().find(|it| self.shape.page_of(it.place) == page) {
                    Some(known) => known.units += 1,
                    None => pages.push(Page { place, units: 1, owner }),
                }
            }
            self.segments.push(Segment { pages_left: pages.len(), waiting: Vec::new() });
            self.read_ahead.fetched(stream, first, segment);
            self.sense(pages, true);
        }
    }

    /// Has pages sensed; those of one multi-plane group together, and of a stream none that is in the
    /// registers of its die.
    fn sense(&mut self, pages: Vec<Page>, of_stream: bool) {
        let looks = of_stream && self.shape.page_register;
        let mut groups: Vec<((usize, usize), usize)> = Vec::new();
        let mut dies = Vec::new();
        for page in pages {
            let group = self.shape.sense_of(page.place);
            if let Some(&(_, sense)) = groups.iter().find(|known| known.0 == group) {
                self.senses[sense].pages.push((page.units, page.owner));
                continue;
            }
            let die = self.shape.die_of(page.place);
            if looks && self.is_in_register(die, group, &page) {
                continue;
            }
            let sense = self.senses.len();
            let pages = vec![(page.units, page.owner)];
            let took = self.shape.sense_time(page.place);
            self.senses.push(Sense { of_stream: of_stream.then_some(group), took, pages });
            groups.push((group, sense));
            dies.push(die);
            self.dies[die].reads.push_back(Job::Sense { sense });
        }
        for die in dies {
            self.wake(die);
        }
    }

    /// Takes a page from the registers of its die, or has it taken when what is asked for already is
    /// sensed; whether it is, or will be, there.
    fn is_in_register(&mut self, die: usize, group: (usize, usize), page: &Page) -> bool {
        if let Some(job) = self.dies[die].latest_read() {
            let Job::Sense { sense } = job else {
                return false;
            };
            let is_same = self.senses[sense].of_stream == Some(group);
            if is_same {
                self.senses[sense].pages.push((page.units, page.owner));
            }
            return is_same;
        }
        // The data of what is booked goes through the same registers.
        let is_free = self.dies[die].booked.is_empty();
        let is_held = is_free && self.dies[die].register == Some(group);
        if is_held {
            self.over_channel(die, page.units, Transfer::Page { owner: page.owner });
        }
        is_held
    }

    pub(super) fn sensed(&mut self, die: usize, sense: usize) {
        for (units, owner) in std::mem::take(&mut self.senses[sense].pages) {
            self.over_channel(die, units, Transfer::Page { owner });
        }
    }

    pub(super) fn page_arrived(&mut self, owner: Owner) {
        match owner {
            Owner::Request { request, piece } => {
                self.requests[request].pieces.pieces[piece].ready = true;
                self.deliver(request);
            }
            Owner::Segment { segment } => {
                self.segments[segment].pages_left -= 1;
                if self.segments[segment].pages_left == 0 {
                    for (request, piece) in std::mem::take(&mut self.segments[segment].waiting) {
                        self.requests[request].pieces.pieces[piece].ready = true;
                        self.deliver(request);
                    }
                }
            }
        }
    }

    /// Sends what is ready to the host; in order, only what has nothing missing before it.
    fn deliver(&mut self, request: usize) {
        let in_order = self.shape.in_order;
        for piece in 0..self.requests[request].pieces.pieces.len() {
            let pieces = &mut self.requests[request].pieces;
            let Piece { units, ready, sent } = pieces.pieces[piece];
            if sent {
                continue;
            }
            if in_order && !ready {
                return;
            }
            if ready {
                pieces.pieces[piece].sent = true;
                self.over_link(true, units, Transfer::Piece { request });
            }
        }
    }

    pub(super) fn piece_delivered(&mut self, request: usize) {
        let pieces = &mut self.requests[request].pieces;
        pieces.left -= 1;
        if pieces.left == 0 {
            self.answer(request);
        }
    }
}
