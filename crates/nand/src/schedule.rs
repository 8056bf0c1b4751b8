//! Scheduled events: alarms of the caller, and data that is sent to the host from RAM.

use std::collections::VecDeque;

use ssdlab_units::Instant;

/// A scheduled event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ScheduledEvent {
    /// The caller's alarm with this tag.
    Alarm(u32),
    /// Data in RAM is sent to the host for the caller's request with this tag; it occupies the link for
    /// this many nanoseconds.
    Send(u32, u32),
    /// The pieces of a read that are ready are sent to the host.
    Deliver(u32),
}

/// All scheduled events, sorted by time. Most are added in that order.
#[derive(Clone, Debug)]
pub(crate) struct Schedule {
    entries: VecDeque<(Instant, ScheduledEvent)>,
    due: Instant,
}

const NEVER: Instant = Instant::from_nanos(u64::MAX);

impl Default for Schedule {
    fn default() -> Self {
        Schedule { entries: VecDeque::new(), due: NEVER }
    }
}

impl Schedule {
    #[inline(always)]
    pub(crate) fn add(&mut self, at: Instant, what: ScheduledEvent) {
        if self.entries.back().is_none_or(|last| last.0 <= at) {
            self.entries.push_back((at, what));
        } else {
            let place = self.entries.iter().rposition(|it| it.0 <= at);
            self.entries.insert(place.map_or(0, |place| place + 1), (at, what));
        }
        self.due = self.entries[0].0;
    }

    /// Returns the instant of the next event, or `NEVER` if there is none.
    #[inline(always)]
    pub(crate) fn due(&self) -> Instant {
        self.due
    }

    /// Removes and returns the next event.
    #[inline(always)]
    pub(crate) fn pop(&mut self) -> ScheduledEvent {
        let (_, what) = self.entries.pop_front().expect("something is due");
        self.due = self.entries.front().map_or(NEVER, |next| next.0);
        what
    }
}
