//! Next event of the dies and channels: winner trees with one key for each die and each channel.
//!
//! A key belongs to a resource, not to an operation. It is the instant of the resource's next event, and
//! can be set again: to an earlier or later instant, or to never. So an operation that is suspended or
//! overtaken leaves no event behind that would have to be cancelled. Setting a key walks one path of minima
//! to the root, without a branch that is hard to predict.

use ssdlab_units::Instant;

/// Maximum number of dies of a drive.
pub(crate) const MAX_DIES: usize = 4096;
/// Maximum number of channels of a drive.
pub(crate) const MAX_CHANNELS: usize = 64;

/// Bits of a key that name the resource: its number, and above that a bit that is set for a channel.
const INDEX_BITS: u32 = 13;
const CHANNEL: u64 = 1 << (INDEX_BITS - 1);
/// Key of a resource that has no event.
const NEVER: u64 = u64::MAX;
/// Largest number of nanoseconds since the epoch that a key can hold: 26 days.
const SPAN: u64 = 1 << (64 - INDEX_BITS);
/// The epoch is moved forward once the present is this far from it, so that no key comes near [`SPAN`].
const MAX_EPOCH_AGE: u64 = SPAN / 2;

const _: () = assert!(MAX_DIES as u64 <= CHANNEL && MAX_CHANNELS as u64 <= CHANNEL);

/// A complete binary tree of minima, root first. It has one of four sizes, so that the walk through each is
/// unrolled.
#[derive(Clone, Debug)]
struct WinnerTree {
    nodes: Box<[u64]>,
    /// Key of the root: the minimum.
    minimum: u64,
}

/// Numbers of nodes of the trees: twice the number of leaves.
const SIZES: [usize; 4] = [1 << 4, 1 << 6, 1 << 9, 1 << 13];

impl WinnerTree {
    fn new(leaves: usize) -> Self {
        let size = SIZES.into_iter().find(|&size| 2 * leaves <= size);
        let size = size.expect("a tree has at most 4,096 leaves");
        WinnerTree { nodes: vec![NEVER; size].into_boxed_slice(), minimum: NEVER }
    }

    #[inline(always)]
    fn set(&mut self, leaf: usize, key: u64) {
        self.minimum = match self.nodes.len() {
            16 => walk::<16>(&mut self.nodes, leaf, key),
            64 => walk::<64>(&mut self.nodes, leaf, key),
            _ => self.set_in_large(leaf, key),
        };
    }

    #[inline(never)]
    fn set_in_large(&mut self, leaf: usize, key: u64) -> u64 {
        match self.nodes.len() {
            512 => walk::<512>(&mut self.nodes, leaf, key),
            _ => walk::<8192>(&mut self.nodes, leaf, key),
        }
    }

    /// Moves the epoch of all keys forward by `shift` nanoseconds.
    fn rebase(&mut self, shift: u64) {
        for node in self.nodes.iter_mut().filter(|node| **node != NEVER) {
            *node -= shift << INDEX_BITS;
        }
        self.minimum = self.nodes[1];
    }
}

/// Sets a leaf and the path of minima above it. Returns the minimum.
#[inline(always)]
fn walk<const NODES: usize>(nodes: &mut [u64], leaf: usize, key: u64) -> u64 {
    let nodes: &mut [u64; NODES] = nodes.try_into().expect("a tree of that size");
    let mut at = (NODES / 2 + leaf) & (NODES - 1);
    let mut least = key;
    nodes[at] = least;
    for _ in 0..NODES.trailing_zeros() - 1 {
        least = least.min(nodes[(at ^ 1) & (NODES - 1)]);
        at >>= 1;
        nodes[at & (NODES - 1)] = least;
    }
    least
}

/// The resource that the next event belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EventSource {
    /// A die, by its number.
    Die(usize),
    /// A channel, by its number.
    Channel(usize),
    /// No resource: there is no event.
    None,
}

/// The keys of all dies and channels.
#[derive(Clone, Debug)]
pub(crate) struct EventQueue {
    dies: WinnerTree,
    channels: WinnerTree,
    /// Instant that keys count from, in nanoseconds.
    epoch: u64,
}

/// Next event of all dies and channels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NextEvent {
    /// Instant of the event. If there is no event, an instant after all that a key can hold.
    pub(crate) at: Instant,
    key: u64,
}

impl NextEvent {
    /// Returns the resource that the event belongs to.
    #[inline(always)]
    pub(crate) fn source(self) -> EventSource {
        let index = (self.key & (CHANNEL - 1)) as usize;
        match self.key {
            NEVER => EventSource::None,
            key if key & CHANNEL != 0 => EventSource::Channel(index),
            _ => EventSource::Die(index),
        }
    }
}

impl EventQueue {
    /// Returns a queue without events whose epoch is `now`.
    pub(crate) fn new(dies: usize, channels: usize, now: Instant) -> EventQueue {
        let (dies, channels) = (WinnerTree::new(dies), WinnerTree::new(channels));
        EventQueue { dies, channels, epoch: now.nanos() }
    }

    #[inline(always)]
    fn key(&self, index: u64, at: Instant) -> u64 {
        (at.nanos() - self.epoch) << INDEX_BITS | index
    }

    /// Sets the event of `die` to `at`.
    #[inline(always)]
    pub(crate) fn set_die(&mut self, die: usize, at: Instant) {
        self.dies.set(die, self.key(die as u64, at));
    }

    /// Sets the event of `die` to `at` if `has_event` is true, else removes it.
    #[inline(always)]
    pub(crate) fn set_die_if(&mut self, has_event: bool, die: usize, at: Instant) {
        let key = self.key(die as u64, at);
        self.dies.set(die, if has_event { key } else { NEVER });
    }

    /// Removes the event of `die`.
    #[inline(always)]
    pub(crate) fn clear_die(&mut self, die: usize) {
        self.dies.set(die, NEVER);
    }

    /// Sets the event of `channel` to `at`.
    #[inline(always)]
    pub(crate) fn set_channel(&mut self, channel: usize, at: Instant) {
        self.channels.set(channel, self.key(CHANNEL | channel as u64, at));
    }

    /// Removes the event of `channel`.
    #[inline(always)]
    pub(crate) fn clear_channel(&mut self, channel: usize) {
        self.channels.set(channel, NEVER);
    }

    /// Returns the next event. At one instant dies go before channels, and lower numbers first.
    #[inline(always)]
    pub(crate) fn next(&self) -> NextEvent {
        let key = self.dies.minimum.min(self.channels.minimum);
        NextEvent { at: Instant::from_nanos(self.epoch + (key >> INDEX_BITS)), key }
    }

    /// Returns true if no die or channel has an event.
    pub(crate) fn is_idle(&self) -> bool {
        self.next().source() == EventSource::None
    }

    /// Moves the epoch forward if `now` is far from it. No event before `now` is set any more.
    #[inline(always)]
    pub(crate) fn keep_epoch_near(&mut self, now: Instant) {
        if now.nanos() - self.epoch > MAX_EPOCH_AGE {
            self.move_epoch(now);
        }
    }

    #[cold]
    fn move_epoch(&mut self, now: Instant) {
        let earliest = if self.is_idle() { now } else { self.next().at.min(now) };
        let shift = earliest.nanos() - self.epoch;
        self.dies.rebase(shift);
        self.channels.rebase(shift);
        self.epoch = earliest.nanos();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A change of one key: true for a die, false for a channel, the number of the resource, and the instant of its
    /// event, if any.
    type Change = (bool, usize, Option<u64>);

    fn slow_next(dies: &[Option<u64>], channels: &[Option<u64>]) -> Option<(u64, EventSource)> {
        let dies = dies.iter().enumerate().filter_map(|(i, at)| at.map(|at| (at, 0, i)));
        let channels = channels.iter().enumerate().filter_map(|(i, at)| at.map(|at| (at, 1, i)));
        dies.chain(channels).min().map(|(at, kind, index)| {
            (at, if kind == 0 { EventSource::Die(index) } else { EventSource::Channel(index) })
        })
    }

    proptest! {
        #[test]
        fn the_least_key_is_next(
            dies in 1usize..70,
            channels in 1usize..64,
            changes in proptest::collection::vec(
                (any::<bool>(), 0usize..70, proptest::option::weighted(0.8, 0u64..50)), 1..200),
        ) {
            let mut queue = EventQueue::new(dies, channels, Instant::START);
            let mut slow = (vec![None; dies], vec![None; channels]);
            for (is_die, index, at) in changes as Vec<Change> {
                let set = at.map(Instant::from_nanos);
                if is_die {
                    slow.0[index % dies] = at;
                    match set {
                        Some(at) => queue.set_die(index % dies, at),
                        None => queue.clear_die(index % dies),
                    }
                } else {
                    slow.1[index % channels] = at;
                    match set {
                        Some(at) => queue.set_channel(index % channels, at),
                        None => queue.clear_channel(index % channels),
                    }
                }
                let next = queue.next();
                let next = (!queue.is_idle()).then_some((next.at.nanos(), next.source()));
                prop_assert_eq!(next, slow_next(&slow.0, &slow.1));
            }
        }
    }

    #[test]
    fn a_century_passes_without_a_key_that_overflows() {
        let mut queue = EventQueue::new(5, 3, Instant::START);
        let mut now = Instant::START;
        for step in 0..4_000 {
            queue.keep_epoch_near(now);
            let (soon, later) = (now + ssdlab_units::Nanoseconds::new(7), now + WEEK);
            queue.set_die(step % 5, later);
            queue.set_channel(step % 3, soon);
            let next = |queue: &EventQueue| (queue.next().at, queue.next().source());
            assert_eq!(next(&queue), (soon, EventSource::Channel(step % 3)));
            queue.clear_channel(step % 3);
            assert_eq!(next(&queue), (later, EventSource::Die(step % 5)));
            queue.clear_die(step % 5);
            assert!(queue.is_idle());
            now = later + WEEK;
        }
    }

    const WEEK: ssdlab_units::Nanoseconds = ssdlab_units::Nanoseconds::from_secs(7 * 24 * 3600);
}
