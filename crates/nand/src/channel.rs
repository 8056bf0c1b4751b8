//! Channel queues: one transfer at a time, in the order in which the data is ready.
//!
//! A sense that nothing can suspend is announced before it ends: its transfer is queued with an arrival in
//! the future, sorted among the others. A transfer with an earlier arrival goes before it until it has
//! begun. A channel has an event for the end of a transfer, none for its beginning.

use ssdlab_units::{Instant, Nanoseconds};

use crate::event_queue::EventQueue;
use crate::pool::{Kind, Op, Pool};
use crate::sorted_ring::SortedRing;

/// A transfer that waits for its channel.
#[derive(Clone, Copy, Debug, Default)]
struct Transfer {
    arrival: Instant,
    /// Index of the operation in the pool.
    index: u32,
    /// Duration of the transfer in nanoseconds.
    duration: u32,
}

/// A channel.
#[derive(Clone, Debug)]
#[repr(align(64))]
struct Channel {
    free_at: Instant,
    /// Moment at which the first transfer in the queue begins, if none arrives before it until then. [`NEVER`]
    /// if there is none, or the next is not chosen.
    start: Instant,
    /// Transfers sorted by arrival. Those that arrive at the same time are sorted by [`Op::goes_before`],
    /// so that the order of their announcements makes no difference.
    queue: SortedRing<Transfer>,
    /// True if a transfer has just ended, and the next is not chosen.
    has_just_ended: bool,
}

/// The start of a transfer on a channel whose queue is empty.
const NEVER: Instant = Instant::from_nanos(u64::MAX);

/// Operations in flight, the channels that they cross, and the event queue of dies and channels.
#[derive(Clone, Debug)]
pub(crate) struct Transit {
    pub(crate) pool: Pool,
    pub(crate) event_queue: EventQueue,
    channels: Box<[Channel]>,
    /// Nanoseconds that a codeword occupies its channel.
    codeword_over_channel: u32,
    /// Number of the latest sense that was asked for; wraps.
    last_order: u16,
}

impl Transit {
    pub(crate) fn new(dies: usize, channels: usize, codeword_over_channel: u32) -> Transit {
        let channel = Channel {
            free_at: Instant::START,
            start: NEVER,
            queue: SortedRing::default(),
            has_just_ended: false,
        };
        Transit {
            pool: Pool::default(),
            event_queue: EventQueue::new(dies, channels, Instant::START),
            channels: vec![channel; channels].into_boxed_slice(),
            codeword_over_channel,
            last_order: 0,
        }
    }

    /// Returns the number for the next sense that is asked for.
    #[inline(always)]
    pub(crate) fn next_order(&mut self) -> u16 {
        self.last_order = self.last_order.wrapping_add(1);
        self.last_order
    }

    /// Returns the number of nanoseconds that an operation occupies its channel.
    #[inline(always)]
    pub(crate) fn transfer_of(&self, op: &Op) -> u32 {
        self.codeword_over_channel * u32::from(op.codewords)
    }

    /// Adds an operation to those in flight and queues its transfer on `channel`, from its arrival on,
    /// which may lie after `now`.
    #[inline(always)]
    pub(crate) fn add_and_enqueue(&mut self, channel: usize, op: Op, now: Instant) {
        let (arrival, duration) = (op.arrival, self.transfer_of(&op));
        let index = self.pool.add(op);
        self.insert_in_queue(channel, Transfer { arrival, index, duration }, now);
    }

    /// Sets the arrival of an operation at `channel`, which may lie after `now`, and queues its transfer
    /// there.
    #[inline(always)]
    pub(crate) fn enqueue(&mut self, channel: usize, index: u32, arrival: Instant, now: Instant) {
        let op = self.pool.get_mut(index);
        op.arrival = arrival;
        let duration = self.codeword_over_channel * u32::from(op.codewords);
        self.insert_in_queue(channel, Transfer { arrival, index, duration }, now);
    }

    #[inline(always)]
    fn insert_in_queue(&mut self, channel: usize, transfer: Transfer, now: Instant) {
        let Transfer { arrival, index, .. } = transfer;
        let state = &mut self.channels[channel];
        // A transfer that has begun is not displaced.
        let has_begun = state.start <= now;
        let pool = &self.pool;
        let is_before = |it: &Transfer| match it.arrival == arrival {
            true => keeps_place_before(pool.get(it.index), pool.get(index)),
            false => it.arrival < arrival,
        };
        let is_first = state.queue.insert(transfer, has_begun.into(), is_before);
        if is_first && !state.has_just_ended {
            schedule_first(state, &mut self.event_queue, channel);
        }
    }

    /// Ends the transfer of `channel` at `now` if it belongs to a read of one unit, and chooses the next
    /// transfer. The read is then removed from those in flight and returned.
    #[inline(always)]
    pub(crate) fn end_unit_read(&mut self, channel: usize, now: Instant) -> Option<Op> {
        let state = &mut self.channels[channel];
        let index = state.queue.first().expect("a channel ends what it began").index;
        let op = *self.pool.get(index);
        if op.kind != Kind::Read {
            return None;
        }
        state.free_at = now;
        state.queue.remove_first();
        schedule_first(state, &mut self.event_queue, channel);
        self.pool.remove(index);
        Some(op)
    }

    /// Ends the transfer of `channel` at `now`, removes it from the queue and returns its operation.
    /// [`Transit::schedule_next`] chooses the next transfer, after everything that follows from this end has been
    /// done.
    #[inline(always)]
    pub(crate) fn end_transfer(&mut self, channel: usize, now: Instant) -> u32 {
        let state = &mut self.channels[channel];
        state.free_at = now;
        (state.start, state.has_just_ended) = (NEVER, true);
        let index = state.queue.first().expect("a channel ends what it began").index;
        state.queue.remove_first();
        index
    }

    /// Chooses the next transfer of `channel`.
    #[inline(always)]
    pub(crate) fn schedule_next(&mut self, channel: usize) {
        let state = &mut self.channels[channel];
        state.has_just_ended = false;
        schedule_first(state, &mut self.event_queue, channel);
    }

    /// Returns the operations queued for all channels, channel by channel.
    pub(crate) fn queued_operations(&self) -> impl Iterator<Item = u32> {
        self.channels.iter().flat_map(|channel| channel.queue.iter().map(|it| it.index))
    }

    /// Adds an operation to those in flight.
    #[inline(always)]
    pub(crate) fn add(&mut self, op: Op) -> u32 {
        self.pool.add(op)
    }
}

/// Returns true if `waiting` keeps its place before `new`, which is ready at the same instant. Rare.
#[cold]
#[inline(never)]
fn keeps_place_before(waiting: &Op, new: &Op) -> bool {
    waiting.goes_before(new)
}

/// Computes when the first transfer in the queue of a channel begins and ends.
#[inline(always)]
fn schedule_first(state: &mut Channel, event_queue: &mut EventQueue, channel: usize) {
    let Some(first) = state.queue.first() else {
        state.start = NEVER;
        return event_queue.clear_channel(channel);
    };
    state.start = first.arrival.later(state.free_at);
    let end = state.start + Nanoseconds::new(first.duration.into());
    event_queue.set_channel(channel, end);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::NONE;

    fn op(die: u16, arrival: u64, order: u16) -> Op {
        Op {
            arrival: Instant::from_nanos(arrival),
            next: NONE,
            owner: die.into(),
            extra: NONE,
            duration: 0,
            codewords: 1,
            order,
            die,
            kind: Kind::Read,
            flags: 0,
        }
    }

    /// Announces transfers given as die, arrival and time of the announcement, and lets the channel end
    /// them all. Returns their dies in order, with the moments at which they ended.
    fn served(asks: &[(u16, u64, u64)]) -> Vec<(u16, u64)> {
        let mut transit = Transit::new(8, 1, 10);
        let mut ended = Vec::new();
        let mut end_until = |transit: &mut Transit, until: u64| {
            while !transit.event_queue.is_idle() && transit.event_queue.next().at.nanos() < until {
                let at = transit.event_queue.next().at;
                let index = transit.end_transfer(0, at);
                ended.push((transit.pool.get(index).die, at.nanos()));
                transit.pool.remove(index);
                transit.schedule_next(0);
            }
        };
        for &(die, arrival, now) in asks {
            end_until(&mut transit, now);
            let order = transit.next_order();
            transit.add_and_enqueue(0, op(die, arrival, order), Instant::from_nanos(now));
        }
        end_until(&mut transit, u64::MAX);
        ended
    }

    #[test]
    fn what_is_ready_sooner_goes_first_until_a_transfer_has_begun() {
        // Die 5 is announced for 100, die 6 for 50; die 7 arrives at 55, while the data of die 6 is being
        // transferred.
        let ended = served(&[(5, 100, 0), (6, 50, 0), (7, 55, 55)]);
        assert_eq!(ended, [(6, 60), (7, 70), (5, 110)]);
    }

    #[test]
    fn a_transfer_that_has_begun_is_not_displaced_by_one_that_is_ready_at_that_instant() {
        let mut transit = Transit::new(8, 1, 10);
        let at = Instant::from_nanos;
        transit.add_and_enqueue(0, op(5, 100, 7), at(0));
        transit.add_and_enqueue(0, op(2, 100, 6), at(100));
        let first = transit.end_transfer(0, at(110));
        assert_eq!(transit.pool.get(first).die, 5);
    }

    #[test]
    fn of_what_is_ready_at_one_instant_the_first_asked_for_goes_first() {
        assert_eq!(served(&[(5, 100, 0), (2, 100, 0)]), [(5, 110), (2, 120)]);
        // Numbered before the first, but announced later, because its die was programming. Numbers wrap.
        for (earlier, later) in [(6, 7), (u16::MAX, 0), (u16::MAX - 1, 3)] {
            let mut transit = Transit::new(8, 1, 10);
            let at = Instant::from_nanos;
            transit.add_and_enqueue(0, op(5, 100, later), at(0));
            transit.add_and_enqueue(0, op(2, 100, earlier), at(50));
            let first = transit.end_transfer(0, at(110));
            assert_eq!(transit.pool.get(first).die, 2, "{earlier} before {later}");
        }
    }

    #[test]
    fn what_is_sensed_goes_before_what_is_there_at_that_instant() {
        let mut transit = Transit::new(8, 1, 10);
        let at = Instant::from_nanos;
        transit.add_and_enqueue(0, Op { kind: Kind::Data, ..op(1, 100, 0) }, at(0));
        transit.add_and_enqueue(0, op(2, 100, 9), at(50));
        let first = transit.end_transfer(0, at(110));
        assert_eq!(transit.pool.get(first).die, 2);
    }
}
