//! The host link: one transfer at a time each way, or one at all, in the order in which they are asked for.

use ssdlab_units::{Instant, Nanoseconds};

/// The link. Who asks in the order of time can be told at once when a transfer ends: nothing
/// overtakes it, so it needs no event.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Link {
    free_at: [Instant; 2],
    /// The lane of data to the drive: its own (PCIe), or that of data to the host (SATA).
    to_drive: usize,
}

impl Link {
    pub(crate) fn new(full_duplex: bool) -> Link {
        Link { free_at: [Instant::START; 2], to_drive: usize::from(full_duplex) }
    }

    /// Moves data to the host for `duration`, not before `now`, and returns when it is there.
    #[inline(always)]
    pub(crate) fn send(&mut self, now: Instant, duration: Nanoseconds) -> Instant {
        self.free_at[0] = self.free_at[0].later(now) + duration;
        self.free_at[0]
    }

    /// Moves data to the drive for `duration`, not before `now`, and returns when it is there.
    #[inline(always)]
    pub(crate) fn receive(&mut self, now: Instant, duration: Nanoseconds) -> Instant {
        let lane = &mut self.free_at[self.to_drive];
        *lane = lane.later(now) + duration;
        *lane
    }
}
