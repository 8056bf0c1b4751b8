//! The controller: fetches commands one after the other, in the order of their arrival.
//!
//! Commands may be submitted before they arrive, and in any order: when it is known when a request will be
//! answered, it is known when the host sends the next. The moment at which the controller acts on a command
//! is computed once the command is first in the queue.

use ssdlab_units::{Instant, Nanoseconds};

use crate::sorted_ring::SortedRing;

/// A command that the host has sent, or will send.
#[derive(Clone, Copy, Debug, Default)]
struct Command {
    arrival: Instant,
    tag: u32,
    /// Nanoseconds that the command keeps the controller busy, in addition to the occupancy of each
    /// command.
    extra_busy: u32,
}

/// The controller's queue of commands.
#[derive(Clone, Debug)]
pub(crate) struct Controller {
    /// Commands, sorted by arrival and tag.
    commands: SortedRing<Command>,
    free_at: Instant,
    occupancy: Nanoseconds,
    latency: Nanoseconds,
    /// Moment at which the controller acts on the first command. `tag` is the tag of that command.
    due: Instant,
    tag: u32,
}

/// Value of `due` if no command is queued.
const NEVER: Instant = Instant::from_nanos(u64::MAX);

impl Controller {
    /// Returns an idle controller. Each command keeps it busy for `occupancy`, and is acted on `latency`
    /// after that.
    pub(crate) fn new(occupancy: Nanoseconds, latency: Nanoseconds) -> Controller {
        Controller {
            commands: SortedRing::default(),
            free_at: Instant::START,
            occupancy,
            latency,
            due: NEVER,
            tag: 0,
        }
    }

    #[inline(always)]
    pub(crate) fn submit(&mut self, arrival: Instant, tag: u32, extra_busy: u32) {
        // Of equal arrivals the lower tag goes first, so that the order of submission makes no difference.
        let is_before =
            |it: &Command| it.arrival < arrival || it.arrival == arrival && it.tag <= tag;
        if self.commands.insert(Command { arrival, tag, extra_busy }, 0, is_before) {
            self.update_due();
        }
    }

    #[inline(always)]
    fn update_due(&mut self) {
        let Some(first) = self.commands.first() else {
            self.due = NEVER;
            return;
        };
        let busy = self.occupancy + Nanoseconds::new(first.extra_busy.into());
        self.due = first.arrival.later(self.free_at) + busy + self.latency;
        self.tag = first.tag;
    }

    /// Returns the moment at which the controller acts on the next command, or `NEVER` if there is none.
    #[inline(always)]
    pub(crate) fn due(&self) -> Instant {
        self.due
    }

    /// Removes the next command and returns its tag.
    ///
    /// # Panics
    /// Panics if there is no command.
    #[inline(always)]
    pub(crate) fn fetch(&mut self) -> u32 {
        let tag = self.tag;
        self.free_at = Instant::START + (self.due.since(Instant::START) - self.latency);
        self.commands.remove_first();
        self.update_due();
        tag
    }

    /// Keeps the controller busy for `extra_busy`, from the moment at which it was done with the command that it acts
    /// on at `now`, or would have been done with one.
    pub(crate) fn extend_busy(&mut self, now: Instant, extra_busy: Nanoseconds) {
        let acted_on = Instant::START + now.since(Instant::START).saturating_sub(self.latency);
        self.free_at = self.free_at.later(acted_on) + extra_busy;
        self.update_due();
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.commands.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Compares the controller with commands that are sorted and then served one after the other.
        #[test]
        fn commands_are_fetched_in_the_order_of_their_arrival(
            commands in proptest::collection::vec((0u64..400, 0u32..9), 1..200),
            held in 0u32..200,
        ) {
            let (occupancy, latency) = (Nanoseconds::new(5), Nanoseconds::new(70));
            let mut controller = Controller::new(occupancy, latency);
            for (tag, &(at, extra_busy)) in commands.iter().enumerate() {
                controller.submit(Instant::from_nanos(at), tag as u32, extra_busy);
            }
            controller.extend_busy(Instant::START, Nanoseconds::new(held.into()));
            let mut sorted: Vec<(u64, u32, u32)> = (0..).zip(&commands).map(|(tag, it)| (it.0, tag, it.1)).collect();
            sorted.sort();
            let mut free = u64::from(held);
            for (at, tag, extra_busy) in sorted {
                free = free.max(at) + 5 + u64::from(extra_busy);
                prop_assert_eq!(controller.due(), Instant::from_nanos(free + 70));
                prop_assert_eq!(controller.fetch(), tag);
            }
            prop_assert!(controller.is_idle() && controller.due() == NEVER);
        }
    }
}
