//! A link that moves data one way at a time (SATA): reads and writes take turns on it, in the
//! order in which their data is ready.
//!
//! The data of a read is booked long before it is ready, and a write asks later for a time that
//! is sooner. It goes first, and what is booked behind it is moved back. The promises given to
//! what is moved back stay as they are, because their callers have gone; what they are short of
//! is added to the next transfers of their kind, at most the length of a transfer each. So the
//! link's backlog is right at every moment, and so are latencies on the whole.

use std::collections::VecDeque;

use super::{Class, Span};
use crate::units::{Instant, Nanoseconds};

/// A transfer that is not over.
#[derive(Clone, Copy, Debug)]
struct Transfer {
    ready: Instant,
    span: Span,
    is_read: bool,
}

/// A half-duplex link.
#[derive(Clone, Debug, Default)]
pub(crate) struct SharedLink {
    /// In the order in which they are served, which is that of `ready`.
    transfers: VecDeque<Transfer>,
    /// How much too early transfers were promised: of writes, of reads.
    short: [Nanoseconds; 2],
}

impl SharedLink {
    /// The end of all that is booked.
    pub(crate) fn free_from(&self) -> Instant {
        self.transfers.back().map_or(Instant::START, |last| last.span.end)
    }

    /// Takes the link for `duration` for data that is ready at `ready`. No later call will ask
    /// for a time before `now`.
    #[inline(never)]
    pub(crate) fn reserve(
        &mut self,
        now: Instant,
        ready: Instant,
        duration: Nanoseconds,
        class: Class,
    ) -> Span {
        while self.transfers.front().is_some_and(|first| first.span.end <= now) {
            self.transfers.pop_front();
        }
        let mut place = self.transfers.len();
        while place > 0 && self.transfers[place - 1].ready > ready {
            place -= 1;
        }
        let before = if place == 0 { ready } else { self.transfers[place - 1].span.end };
        let start = before.max(ready);
        let span = Span { start, end: start + duration };
        let is_read = class == Class::Read;
        self.transfers.insert(place, Transfer { ready, span, is_read });
        self.move_back(place + 1, span.end);
        let short = &mut self.short[usize::from(is_read)];
        let added = (*short).min(duration);
        *short -= added;
        Span { start, end: span.end + added }
    }

    /// The transfers from `place` on begin no earlier than `free`.
    #[inline(always)]
    fn move_back(&mut self, place: usize, free: Instant) {
        let mut free = free;
        for transfer in self.transfers.range_mut(place..) {
            if transfer.span.start >= free {
                return;
            }
            let delay = free.since(transfer.span.start);
            transfer.span = Span { start: free, end: transfer.span.end + delay };
            free = transfer.span.end;
            self.short[usize::from(transfer.is_read)] += delay;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ns: u64) -> Instant {
        Instant::from_nanos(ns)
    }

    fn reserve(link: &mut SharedLink, ready: u64, class: Class) -> (u64, u64) {
        let span = link.reserve(at(0), at(ready), Nanoseconds::new(10), class);
        (span.start.nanos(), span.end.nanos())
    }

    #[test]
    fn a_write_that_is_ready_first_goes_first_and_the_next_read_pays() {
        let mut link = SharedLink::default();
        assert_eq!(reserve(&mut link, 100, Class::Read), (100, 110));
        assert_eq!(reserve(&mut link, 95, Class::Write), (95, 105));
        assert_eq!(link.free_from(), at(115), "the read is moved back by 5");
        assert_eq!(reserve(&mut link, 104, Class::Write), (115, 125), "it was ready later");
        assert_eq!(reserve(&mut link, 200, Class::Read), (200, 215), "with what is owed");
        assert_eq!(reserve(&mut link, 300, Class::Read), (300, 310));
    }
}
