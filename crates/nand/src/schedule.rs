//! What happens at an instant that is known: alarms of the caller's, and data that is sent on from RAM.

use std::collections::VecDeque;

use ssdlab_units::Instant;

/// Something that happens at an instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scheduled {
    /// The caller's alarm with this tag.
    Alarm(u32),
    /// Data in RAM is sent to the host for the caller's request with this tag, nanoseconds of the link.
    Send(u32, u32),
    /// What is ready of a read of several pieces is sent to the host.
    Deliver(u32),
}

/// All of it, sorted by time. Most of it comes in that order.
#[derive(Clone, Debug)]
pub(crate) struct Schedule {
    entries: VecDeque<(Instant, Scheduled)>,
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
    pub(crate) fn add(&mut self, at: Instant, what: Scheduled) {
        if self.entries.back().is_none_or(|last| last.0 <= at) {
            self.entries.push_back((at, what));
        } else {
            let place = self.entries.iter().rposition(|it| it.0 <= at);
            self.entries.insert(place.map_or(0, |place| place + 1), (at, what));
        }
        self.due = self.entries[0].0;
    }

    /// When the next of it is due; the end of time where there is none.
    #[inline(always)]
    pub(crate) fn due(&self) -> Instant {
        self.due
    }

    /// Takes out the next.
    #[inline(always)]
    pub(crate) fn take(&mut self) -> Scheduled {
        let (_, what) = self.entries.pop_front().expect("something is due");
        self.due = self.entries.front().map_or(NEVER, |next| next.0);
        what
    }
}
