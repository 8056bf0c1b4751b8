//! Reads: single units, several pages, streams that read ahead, and map pages that are read first.

use ssdlab_units::Instant;

use super::device::{Device, Handles};
use super::{Drive, NONE};

/// What a slot reads ahead: the page, and how far it is.
#[derive(Clone, Debug)]
pub struct ReadAhead<H: Handles> {
    page: u32,
    is_here: bool,
    waiting: Option<(H::Read, H::Piece)>,
}

impl<H: Handles> Default for ReadAhead<H> {
    fn default() -> Self {
        ReadAhead { page: NONE, is_here: false, waiting: None }
    }
}

/// A part of a request: units that are in RAM, being read ahead, or on a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gathered {
    from: From,
    units: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum From {
    Ram,
    Ahead,
    Page(u32),
}

/// A load with this bit is read ahead; without it, it is the map page of a slot.
const AHEAD: u32 = 1 << 31;

impl<H: Handles> Drive<H> {
    #[inline(always)]
    pub(super) fn read<D: Device<H>>(
        &mut self,
        flash: &mut D,
        slot: u32,
        unit: u32,
        units: u32,
        _: Instant,
    ) {
        if self.host.misses_map(slot) {
            // The map page lies where the unit before it does.
            let place = self.map[unit.saturating_sub(1) as usize];
            if place != NONE && self.blocks.is_programmed(place) {
                return flash.load_page(slot, place, 1, false);
            }
        }
        self.read_mapped(flash, slot, unit, units);
    }

    #[inline(always)]
    fn read_mapped<D: Device<H>>(&mut self, flash: &mut D, slot: u32, unit: u32, units: u32) {
        let is_stream = self.host.load().is_sequential;
        if units > 1 || is_stream {
            return self.read_several(flash, slot, unit, units, is_stream);
        }
        match self.place_in_flash(unit) {
            None => flash.send(slot, 1),
            Some(place) => flash.read_unit(slot, place),
        }
    }

    #[inline(always)]
    fn place_in_flash(&self, unit: u32) -> Option<u32> {
        let place = self.map[unit as usize];
        (place != NONE && self.blocks.is_programmed(place)).then_some(place)
    }

    fn read_several<D: Device<H>>(
        &mut self,
        flash: &mut D,
        slot: u32,
        unit: u32,
        units: u32,
        is_stream: bool,
    ) {
        let mut parts = std::mem::take(&mut self.scratch);
        parts.clear();
        let ahead = &self.streams[slot as usize];
        for unit in unit..unit + units {
            let from = match self.place_in_flash(unit) {
                None => From::Ram,
                Some(place) if self.page_of(place) == ahead.page => From::Ahead,
                Some(place) => From::Page(place),
            };
            let last = parts.len().wrapping_sub(1);
            let joins = |(at, it): (usize, &Gathered)| {
                let is_same = match (it.from, from) {
                    (From::Page(one), From::Page(other)) => {
                        self.page_of(one) == self.page_of(other)
                    }
                    (From::Ahead, From::Ahead) => true,
                    (one, other) => one == other && at == last,
                };
                is_same.then_some(at)
            };
            match parts.iter().enumerate().find_map(joins) {
                Some(place) => parts[place].units += 1,
                None => parts.push(Gathered { from, units: 1 }),
            }
        }
        let read = flash.begin_read(slot, is_stream);
        for (index, part) in parts.iter().enumerate() {
            let mut link = flash.link_time(part.units);
            if self.host.load().is_partial && index == 0 {
                // The request begins within its first unit.
                link -= flash.link_time(1) / 3;
            }
            match part.from {
                From::Ram => flash.add_buffered(read, link),
                From::Page(place) => flash.add_page(read, place, part.units, link),
                From::Ahead if self.streams[slot as usize].is_here => {
                    flash.add_buffered(read, link);
                }
                From::Ahead => {
                    let piece = flash.add_awaited(read, link);
                    self.streams[slot as usize].waiting = Some((read, piece));
                }
            }
        }
        flash.issue_read(read);
        let last = parts.last().map(|part| part.from);
        self.scratch = parts;
        if is_stream {
            self.read_ahead(flash, slot, unit + units, last);
        }
    }

    fn page_of(&self, place: u32) -> u32 {
        place / self.units_per_page
    }

    /// Reads the page of the next unit of a stream, unless the last part of its request lies on it.
    fn read_ahead<D: Device<H>>(
        &mut self,
        flash: &mut D,
        slot: u32,
        unit: u32,
        last: Option<From>,
    ) {
        let Some(&place) = self.map.get(unit as usize) else { return };
        if place == NONE || !self.blocks.is_programmed(place) {
            return;
        }
        let page = self.page_of(place);
        let is_last = matches!(last, Some(From::Page(place)) if self.page_of(place) == page);
        let ahead = &mut self.streams[slot as usize];
        let is_busy = ahead.page != NONE && !ahead.is_here;
        if is_last || is_busy || ahead.page == page {
            return;
        }
        *ahead = ReadAhead { page, is_here: false, waiting: None };
        flash.load_page(AHEAD | slot, place, self.units_per_page, true);
    }

    pub fn loaded<D: Device<H>>(&mut self, flash: &mut D, tag: u32, at: Instant) {
        self.note(at, "loaded", tag);
        let slot = tag & !AHEAD;
        if tag & AHEAD == 0 {
            let request = self.host.request(slot);
            return self.read_mapped(flash, slot, request.unit, request.units);
        }
        let ahead = &mut self.streams[slot as usize];
        ahead.is_here = true;
        if let Some((read, piece)) = ahead.waiting.take() {
            flash.piece_arrived(read, piece);
        }
    }
}
