//! The host: a closed loop of requests, drawn by slot so that the order of answers changes none.

use ssdlab_units::Instant;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    Read,
    Write,
    WriteFua,
    Flush,
}

/// What the host asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Workload {
    pub read_percent: u32,
    pub flush_percent: u32,
    pub fua_percent: u32,
    /// Requests are of 1 to so many units.
    pub units_most: u32,
    /// Each slot reads and writes in order, a region of its own.
    pub is_sequential: bool,
    /// Reads of several units begin within their first unit.
    pub is_partial: bool,
    /// One read in so many needs a map page first; none of 0.
    pub map_misses: u32,
}

impl Workload {
    pub const WRITES: Workload = Workload {
        read_percent: 0,
        flush_percent: 0,
        fua_percent: 0,
        units_most: 1,
        is_sequential: false,
        is_partial: false,
        map_misses: 0,
    };
}

#[derive(Clone, Copy, Debug)]
pub struct Request {
    pub operation: Operation,
    pub unit: u32,
    pub units: u32,
}

/// What a slot of the host's sends.
#[derive(Clone, Debug)]
#[repr(align(64))]
struct Slot {
    current: Request,
    next: Request,
    sent: Instant,
    drawn: u64,
    cursor: u32,
    first: u32,
    /// Requests that it has still to send.
    left: u64,
}

/// How requests are drawn from random numbers.
#[derive(Clone, Copy)]
struct Draws {
    seed: u64,
    /// 16 random bits from which on a request is no read, no flush, no write with FUA.
    ends: [u64; 3],
    units_most: u32,
    logical_units: u32,
    /// Units of the region that each slot has to itself.
    share: u32,
    is_sequential: bool,
}

#[derive(Clone)]
pub struct Host {
    slots: Vec<Slot>,
    load: Workload,
    draws: Draws,
    /// Of each slot, when its requests were answered and what they were; kept if asked for.
    pub answers: Option<Vec<Vec<(Operation, u64, u64)>>>,
    pub answered: [u64; 4],
    pub latency: [u64; 4],
    /// When the last of them was answered.
    pub latest: Instant,
}

/// A hash: the generator of `SplitMix64` (Steele, Lea, Flood, 2014).
#[inline(always)]
fn hash(value: u64) -> u64 {
    let mut z = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

impl Draws {
    fn set_load(&mut self, load: Workload) {
        let mut percent = 0;
        let shares = [load.read_percent, load.flush_percent, load.fua_percent];
        self.ends = shares.map(|share| {
            percent += u64::from(share);
            (percent << 16).div_ceil(100)
        });
        self.units_most = load.units_most.min(self.share);
        self.is_sequential = load.is_sequential;
    }

    /// The next request of a slot.
    #[inline(always)]
    fn draw(&self, slot: u32, state: &mut Slot) -> Request {
        use Operation::{Flush, Read, Write, WriteFua};
        state.drawn += 1;
        let random = hash(self.seed ^ u64::from(slot) << 40 ^ state.drawn);
        let place = self.ends.map(|end| usize::from(random & 0xffff >= end));
        static OPERATIONS: [Operation; 4] = [Read, Flush, WriteFua, Write];
        let operation = OPERATIONS[place.iter().sum::<usize>() & 3];
        let units = match self.units_most {
            1 => 1,
            most => 1 + (random >> 16 & 0xff) as u32 * most / 256,
        };
        let unit = if self.is_sequential {
            state.draw_in_order(units, self.share)
        } else {
            (((random >> 32) * u64::from(self.logical_units + 1 - units)) >> 32) as u32
        };
        Request { operation, unit, units }
    }
}

impl Slot {
    #[inline(never)]
    fn draw_in_order(&mut self, units: u32, share: u32) -> u32 {
        if self.cursor + units > self.first + share {
            self.cursor = self.first;
        }
        let unit = self.cursor;
        self.cursor += units;
        unit
    }
}

impl Host {
    pub fn new(logical_units: u32, depth: u32, seed: u64) -> Host {
        let none = Request { operation: Operation::Read, unit: 0, units: 1 };
        let share = logical_units / depth;
        let slot = |index| Slot {
            current: none,
            next: none,
            sent: Instant::START,
            drawn: 0,
            cursor: index * share,
            first: index * share,
            left: 0,
        };
        let (units_most, is_sequential) = (1, false);
        let draws = Draws { seed, ends: [0; 3], units_most, logical_units, share, is_sequential };
        Host {
            slots: (0..depth).map(slot).collect(),
            load: Workload::WRITES,
            draws,
            answers: None,
            answered: [0; 4],
            latency: [0; 4],
            latest: Instant::START,
        }
    }

    pub fn depth(&self) -> u32 {
        self.slots.len() as u32
    }

    #[inline(always)]
    pub fn load(&self) -> &Workload {
        &self.load
    }

    /// Begins to send requests: at least so many, and as many from each slot, so that it makes no difference
    /// which is answered first.
    pub fn begin(&mut self, load: Workload, requests: u64) {
        self.load = load;
        self.draws.set_load(load);
        let share = requests.div_ceil(self.depth().into());
        (self.answered, self.latency) = ([0; 4], [0; 4]);
        for (index, slot) in (0..).zip(&mut self.slots) {
            slot.left = share;
            slot.next = self.draws.draw(index, slot);
        }
    }

    /// Sends a slot's next request at `at`, if one is left; returns the unit of the one after it.
    #[inline(always)]
    pub fn send(&mut self, slot: u32, at: Instant) -> Option<u32> {
        let state = &mut self.slots[slot as usize];
        state.left = state.left.checked_sub(1)?;
        state.sent = at;
        state.current = state.next;
        state.next = self.draws.draw(slot, state);
        Some(state.next.unit)
    }

    #[inline(always)]
    pub fn request(&self, slot: u32) -> Request {
        self.slots[slot as usize].current
    }

    #[inline(always)]
    pub fn answered(&mut self, slot: u32, at: Instant) {
        let state = &self.slots[slot as usize];
        let operation = state.current.operation;
        let took = at.since(state.sent).nanos();
        self.latest = self.latest.later(at);
        self.answered[operation as usize] += 1;
        self.latency[operation as usize] += took;
        if let Some(answers) = &mut self.answers {
            answers[slot as usize].push((operation, took, at.nanos()));
        }
    }

    /// Returns true if the read of a slot needs a map page first.
    #[inline(always)]
    pub fn misses_map(&self, slot: u32) -> bool {
        let every = u64::from(self.load.map_misses);
        every > 0 && hash(self.slots[slot as usize].drawn ^ u64::from(slot)).is_multiple_of(every)
    }
}
