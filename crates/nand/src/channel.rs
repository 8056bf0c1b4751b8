//! Channels: one transfer at a time, in the order in which the data is ready.
//!
//! A sense that nothing stops is announced before it ends: its transfer waits in line with an arrival in the
//! future, sorted among the others, and whoever arrives sooner goes before it until it has begun. The
//! event of a transfer is its end; its beginning needs none.

use ssdlab_units::{Instant, Nanoseconds};

use crate::clock::Clock;
use crate::pool::{Op, Pool, Queue};

/// A channel.
#[derive(Clone, Copy, Debug)]
#[repr(align(32))]
struct Channel {
    free_at: Instant,
    /// When the first transfer in line begins, if nothing arrives before it until then.
    start: Instant,
    queue: Queue,
    /// Whether a transfer has just ended, and the next is not chosen.
    is_between: bool,
}

/// The start of a transfer on a channel that has none in line.
const NEVER: Instant = Instant::from_nanos(u64::MAX);

/// Operations in flight, the channels that they cross, and the clock of dies and channels.
#[derive(Clone, Debug)]
pub(crate) struct Transit {
    pub(crate) pool: Pool,
    pub(crate) clock: Clock,
    channels: Box<[Channel]>,
}

impl Transit {
    pub(crate) fn new(dies: usize, channels: usize) -> Transit {
        let channel = Channel {
            free_at: Instant::START,
            start: NEVER,
            queue: Queue::EMPTY,
            is_between: false,
        };
        Transit {
            pool: Pool::default(),
            clock: Clock::new(dies, channels, Instant::START),
            channels: vec![channel; channels].into_boxed_slice(),
        }
    }

    /// Has operation `index` cross `channel` from its arrival on, which may lie after `now`.
    #[inline(always)]
    pub(crate) fn ask(&mut self, channel: usize, index: u32, now: Instant) {
        let arrival = self.pool.get(index).arrival;
        self.get_in_line(channel, index, arrival, now);
    }

    /// Takes an operation into flight and has it cross `channel` from its arrival on, which may lie after `now`.
    #[inline(always)]
    pub(crate) fn announce(&mut self, channel: usize, op: Op, now: Instant) {
        let arrival = op.arrival;
        let index = self.pool.add(op);
        self.get_in_line(channel, index, arrival, now);
    }

    /// Has operation `index` cross `channel` from `arrival` on, which it has been given and may lie after `now`.
    #[inline(always)]
    pub(crate) fn get_in_line(
        &mut self,
        channel: usize,
        index: u32,
        arrival: Instant,
        now: Instant,
    ) {
        let line = &mut self.channels[channel];
        // What has begun goes on.
        let has_begun = line.start <= now && !line.is_between;
        let queue = &mut line.queue;
        let is_first = self.pool.insert_by_arrival(queue, index, arrival, has_begun);
        if is_first && !line.is_between {
            choose(line, &self.pool, &mut self.clock, channel);
        }
    }

    /// The operation whose transfer ends next on `channel`.
    #[inline(always)]
    pub(crate) fn ending(&self, channel: usize) -> &Op {
        self.pool.get(self.channels[channel].queue.first().expect("a channel ends what it began"))
    }

    /// Ends the transfer of `channel` at `now`, forgets its operation and chooses the next.
    #[inline(always)]
    pub(crate) fn end_and_go_on(&mut self, channel: usize, now: Instant) {
        let line = &mut self.channels[channel];
        line.free_at = now;
        if let Some(ended) = self.pool.pop_front(&mut line.queue) {
            self.pool.remove(ended);
        }
        choose(line, &self.pool, &mut self.clock, channel);
    }

    /// Ends the transfer of `channel` at `now` and returns its operation, which is in no line then.
    /// The next is chosen by [`Transit::go_on`], when all that follows from the end has been done.
    #[inline(always)]
    pub(crate) fn end(&mut self, channel: usize, now: Instant) -> u32 {
        let line = &mut self.channels[channel];
        line.free_at = now;
        line.is_between = true;
        self.pool.pop_front(&mut line.queue).expect("a channel ends what it began")
    }

    /// Chooses the next transfer of `channel`.
    #[inline(always)]
    pub(crate) fn go_on(&mut self, channel: usize) {
        let line = &mut self.channels[channel];
        line.is_between = false;
        choose(line, &self.pool, &mut self.clock, channel);
    }

    /// The operations in line for all channels, channel by channel.
    pub(crate) fn in_line(&self) -> impl Iterator<Item = u32> {
        self.channels.iter().flat_map(|channel| self.pool.iter(&channel.queue))
    }

    /// Adds an operation to those in flight.
    #[inline(always)]
    pub(crate) fn add(&mut self, op: Op) -> u32 {
        self.pool.add(op)
    }
}

/// Works out when the first transfer in line for a channel begins and ends.
#[inline(always)]
fn choose(line: &mut Channel, pool: &Pool, clock: &mut Clock, channel: usize) {
    let Some(first) = line.queue.first() else {
        line.start = NEVER;
        return clock.clear_channel(channel);
    };
    let op = pool.get(first);
    line.start = op.arrival.later(line.free_at);
    let end = line.start + Nanoseconds::new(op.transfer.into());
    clock.set_channel(channel, end);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::{Kind, NONE};

    fn op(die: u16, arrival: u64) -> Op {
        Op {
            arrival: Instant::from_nanos(arrival),
            next: NONE,
            owner: die.into(),
            extra: NONE,
            duration: 0,
            transfer: 10,
            die,
            kind: Kind::Read,
            marks: 0,
        }
    }

    /// Asks for the channel from an arrival on, at a time, and lets it end all transfers; returns their dies in
    /// order, with the ends.
    fn served(asks: &[(u16, u64, u64)]) -> Vec<(u16, u64)> {
        let mut transit = Transit::new(8, 1);
        let mut ended = Vec::new();
        let mut end_until = |transit: &mut Transit, until: u64| {
            while !transit.clock.is_idle() && transit.clock.next().at.nanos() < until {
                let at = transit.clock.next().at;
                let index = transit.end(0, at);
                ended.push((transit.pool.get(index).die, at.nanos()));
                transit.pool.remove(index);
                transit.go_on(0);
            }
        };
        for &(die, arrival, now) in asks {
            end_until(&mut transit, now);
            let index = transit.add(op(die, arrival));
            transit.ask(0, index, Instant::from_nanos(now));
        }
        end_until(&mut transit, u64::MAX);
        ended
    }

    #[test]
    fn what_is_ready_sooner_goes_first_until_a_transfer_has_begun() {
        // Die 5 is announced for 100, die 6 for 50; die 7 comes at 55, while 6 is being sent.
        let ended = served(&[(5, 100, 0), (6, 50, 0), (7, 55, 55)]);
        assert_eq!(ended, [(6, 60), (7, 70), (5, 110)]);
    }

    #[test]
    fn a_transfer_that_has_begun_is_not_displaced_by_one_that_is_ready_at_that_instant() {
        // Announced together, the lower die goes first; once the other has begun, it goes on.
        assert_eq!(served(&[(5, 100, 0), (2, 100, 0)]), [(2, 110), (5, 120)]);
        assert_eq!(served(&[(5, 100, 0), (2, 100, 100)]), [(5, 110), (2, 120)]);
    }
}
