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
            clock: Clock::new(dies, channels),
            channels: vec![channel; channels].into_boxed_slice(),
        }
    }

    /// Has operation `index` cross `channel` from its arrival on, which may lie after `now`.
    #[inline(always)]
    pub(crate) fn ask(&mut self, channel: usize, index: u32, now: Instant) {
        let line = &mut self.channels[channel];
        // What has begun goes on.
        let has_begun = line.start <= now && !line.is_between;
        let is_first = self.pool.insert_by_arrival(&mut line.queue, index, has_begun);
        if is_first && !line.is_between {
            self.choose(channel);
        }
    }

    /// Works out when the first transfer in line begins and ends.
    #[inline(always)]
    fn choose(&mut self, channel: usize) {
        let line = &mut self.channels[channel];
        let Some(first) = line.queue.first() else {
            line.start = NEVER;
            return self.clock.clear_channel(channel);
        };
        let op = self.pool.get(first);
        line.start = op.arrival.later(line.free_at);
        let end = line.start + Nanoseconds::new(op.transfer.into());
        self.clock.set_channel(channel, end);
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
        self.channels[channel].is_between = false;
        self.choose(channel);
    }

    /// Adds an operation to those in flight.
    #[inline(always)]
    pub(crate) fn add(&mut self, op: Op) -> u32 {
        self.pool.add(op)
    }
}
