//! The RAM cache of map pages: the two lists of a segmented LRU.

use super::{MapCache, MapPage, NONE};
use crate::mapping::cached::MapPageArrival;

/// Segment of the RAM cache that a map page is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Segment {
    Absent,
    Probation,
    Protected,
}

/// A doubly linked list of map pages, the most recently used first.
#[derive(Clone, Copy, Debug)]
pub(super) struct List {
    pub(super) head: u32,
    pub(super) tail: u32,
    pub(super) len: u32,
}

impl List {
    pub(super) const EMPTY: List = List { head: NONE, tail: NONE, len: 0 };
}

/// A map page that was evicted to make room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Evicted {
    pub(crate) page: u32,
    pub(crate) dirty: bool,
    /// Moment at which the page was in RAM.
    pub(crate) arrival: MapPageArrival,
}

impl MapCache {
    /// Marks `page` as used, and as dirty if `change`. Returns the moment at which the page is in RAM, or `None` if
    /// it is not cached.
    #[inline(always)]
    pub(crate) fn touch(&mut self, page: u32, change: bool) -> Option<MapPageArrival> {
        let entry = &mut self.pages[page as usize];
        if entry.segment == Segment::Absent {
            return None;
        }
        entry.dirty |= change;
        let arrival = entry.arrival;
        self.promote(page);
        Some(arrival)
    }

    fn promote(&mut self, page: u32) {
        self.unlink(page);
        self.link(page, Segment::Protected);
        if self.protected.len > self.capacity / 2 {
            let oldest = self.protected.tail;
            self.unlink(oldest);
            self.link(oldest, Segment::Probation);
        }
    }

    /// Evicts the page that was on probation for longest, if the cache is full.
    pub(crate) fn evict_if_full(&mut self) -> Option<Evicted> {
        if self.probation.len + self.protected.len < self.capacity {
            return None;
        }
        // Never empty: at most half of the pages are protected.
        let page = self.probation.tail;
        Some(self.take_out(page))
    }

    pub(super) fn take_out(&mut self, page: u32) -> Evicted {
        self.unlink(page);
        let entry = &mut self.pages[page as usize];
        entry.segment = Segment::Absent;
        Evicted { page, dirty: std::mem::take(&mut entry.dirty), arrival: entry.arrival }
    }

    /// Adds `page`, which will be in RAM at `arrival`, to the probation list. Entries that garbage collection has
    /// changed meanwhile make the page dirty.
    pub(crate) fn insert(&mut self, page: u32, change: bool, arrival: MapPageArrival) {
        let entry = &mut self.pages[page as usize];
        entry.dirty = change | std::mem::take(&mut entry.moved);
        entry.arrival = arrival;
        self.link(page, Segment::Probation);
    }

    fn list(&mut self, segment: Segment) -> &mut List {
        match segment {
            Segment::Probation => &mut self.probation,
            Segment::Protected => &mut self.protected,
            Segment::Absent => panic!("a map page that is not in RAM is in no list"),
        }
    }

    fn unlink(&mut self, page: u32) {
        let MapPage { next, previous, segment, .. } = self.pages[page as usize];
        match previous {
            NONE => self.list(segment).head = next,
            _ => self.pages[previous as usize].next = next,
        }
        match next {
            NONE => self.list(segment).tail = previous,
            _ => self.pages[next as usize].previous = previous,
        }
        self.list(segment).len -= 1;
    }

    fn link(&mut self, page: u32, segment: Segment) {
        let list = self.list(segment);
        let head = std::mem::replace(&mut list.head, page);
        list.len += 1;
        if head == NONE {
            list.tail = page;
        } else {
            self.pages[head as usize].previous = page;
        }
        let entry = &mut self.pages[page as usize];
        entry.segment = segment;
        (entry.next, entry.previous) = (head, NONE);
    }
}
