//! The host link: one transfer at a time in each direction (full duplex), or one in all, in the order in
//! which they are asked for.

use ssdlab_units::{Instant, Nanoseconds};

/// The link. Transfers are asked for in the order of time and nothing overtakes them, so that the end of a
/// transfer is known when it is asked for, and the link needs no event.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Link {
    free_at: [Instant; 2],
    /// Index in `free_at` of transfers to the drive: one of their own (PCIe), or that of transfers to the
    /// host (SATA).
    to_drive: usize,
}

impl Link {
    pub(crate) fn new(full_duplex: bool) -> Link {
        Link { free_at: [Instant::START; 2], to_drive: usize::from(full_duplex) }
    }

    /// Moves data to the host for `duration`, not before `now`, and returns the moment at which it is
    /// there.
    #[inline(always)]
    pub(crate) fn send(&mut self, now: Instant, duration: Nanoseconds) -> Instant {
        self.free_at[0] = self.free_at[0].later(now) + duration;
        self.free_at[0]
    }

    /// Moves data to the drive for `duration`, not before `now`, and returns the moment at which it is
    /// there.
    #[inline(always)]
    pub(crate) fn receive(&mut self, now: Instant, duration: Nanoseconds) -> Instant {
        let direction = &mut self.free_at[self.to_drive];
        *direction = direction.later(now) + duration;
        *direction
    }
}
