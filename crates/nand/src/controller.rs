//! The controller: fetches commands one after the other, in the order of their arrival.
//!
//! Arrivals are announced ahead, in any order, which makes no difference: when a request is known to be answered, so is when the
//! host sends the next. Who leaves next, and when, is worked out when it is first in line.

use ssdlab_units::{Instant, Nanoseconds};

/// A command that the host has sent, or will send.
#[derive(Clone, Copy, Debug)]
struct Command {
    arrival: Instant,
    tag: u32,
    /// Nanoseconds that it keeps the controller busy, besides those of any command.
    longer: u32,
}

/// The controller's queue of commands.
#[derive(Clone, Debug)]
pub(crate) struct Controller {
    /// A ring, sorted by arrival and tag; its length is a power of two.
    commands: Box<[Command]>,
    first: usize,
    count: usize,
    free_at: Instant,
    occupancy: Nanoseconds,
    latency: Nanoseconds,
    /// When the first command is acted on, and its tag.
    due: Instant,
    tag: u32,
}

/// When nothing is fetched.
const NEVER: Instant = Instant::from_nanos(u64::MAX);
/// No command.
const NONE: Command = Command { arrival: NEVER, tag: 0, longer: 0 };

impl Controller {
    /// Commands keep it busy for `occupancy`, and are acted on `latency` after that.
    pub(crate) fn new(occupancy: Nanoseconds, latency: Nanoseconds) -> Controller {
        Controller {
            commands: vec![NONE; 64].into_boxed_slice(),
            first: 0,
            count: 0,
            free_at: Instant::START,
            occupancy,
            latency,
            due: NEVER,
            tag: 0,
        }
    }

    #[inline(always)]
    pub(crate) fn submit(&mut self, arrival: Instant, tag: u32, longer: u32) {
        if self.count == self.commands.len() {
            self.grow();
        }
        let commands = &mut self.commands[..];
        let mask = commands.len() - 1;
        // Of equals the lower tag goes first, so that the order of announcements makes no difference.
        let is_before =
            |it: &Command| it.arrival < arrival || it.arrival == arrival && it.tag <= tag;
        let mut place = self.first + self.count;
        while place > self.first && !is_before(&commands[(place - 1) & mask]) {
            commands[place & mask] = commands[(place - 1) & mask];
            place -= 1;
        }
        commands[place & mask] = Command { arrival, tag, longer };
        self.count += 1;
        if place == self.first {
            self.work_out_due();
        }
    }

    #[cold]
    fn grow(&mut self) {
        self.commands.rotate_left(self.first & (self.commands.len() - 1));
        self.first = 0;
        let mut commands = std::mem::take(&mut self.commands).into_vec();
        commands.resize(2 * commands.len(), NONE);
        self.commands = commands.into_boxed_slice();
    }

    #[inline(always)]
    fn work_out_due(&mut self) {
        if self.count == 0 {
            self.due = NEVER;
            return;
        }
        let first = &self.commands[self.first & (self.commands.len() - 1)];
        let busy = self.occupancy + Nanoseconds::new(first.longer.into());
        self.due = first.arrival.later(self.free_at) + busy + self.latency;
        self.tag = first.tag;
    }

    /// When the next command is acted on; the end of time where there is none.
    #[inline(always)]
    pub(crate) fn due(&self) -> Instant {
        self.due
    }

    /// Takes out the next command and returns its tag.
    ///
    /// # Panics
    /// When there is none.
    #[inline(always)]
    pub(crate) fn fetch(&mut self) -> u32 {
        assert!(self.count > 0, "a command is due");
        let tag = self.tag;
        self.free_at = Instant::START + (self.due.since(Instant::START) - self.latency);
        self.first = self.first.wrapping_add(1);
        self.count -= 1;
        self.work_out_due();
        tag
    }

    /// Keeps the controller busy for `longer` with the command that it fetched last.
    pub(crate) fn hold(&mut self, longer: Nanoseconds) {
        self.free_at += longer;
        self.work_out_due();
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.count == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Against commands that are sorted and then served one after the other.
        #[test]
        fn commands_are_fetched_in_the_order_of_their_arrival(
            commands in proptest::collection::vec((0u64..400, 0u32..9), 1..200),
            held in 0u32..200,
        ) {
            let (occupancy, latency) = (Nanoseconds::new(5), Nanoseconds::new(70));
            let mut controller = Controller::new(occupancy, latency);
            for (tag, &(at, longer)) in commands.iter().enumerate() {
                controller.submit(Instant::from_nanos(at), tag as u32, longer);
            }
            controller.hold(Nanoseconds::new(held.into()));
            let mut sorted: Vec<(u64, u32, u32)> = (0..).zip(&commands).map(|(tag, it)| (it.0, tag, it.1)).collect();
            sorted.sort();
            let mut free = u64::from(held);
            for (at, tag, longer) in sorted {
                free = free.max(at) + 5 + u64::from(longer);
                prop_assert_eq!(controller.due(), Instant::from_nanos(free + 70));
                prop_assert_eq!(controller.fetch(), tag);
            }
            prop_assert!(controller.is_idle() && controller.due() == NEVER);
        }
    }
}
