//! The host: a closed loop of writes with knobs and periodic flushes.

use rand::{RngExt, SeedableRng};
use rand_pcg::Lcg64Xsh32;
use ssdlab_units::{Instant, LogicalUnit};

use crate::drive::{Answer, Command, Host, Port, RequestTag};
use crate::latency::Latencies;

/// Maximum queue depth.
pub(crate) const QUEUE_DEPTH_MAX: u32 = 32;
/// Number of requests that are drawn ahead, so that the memory for their map entries can be prefetched.
const PREFETCH_AHEAD: usize = 64;
/// Constant that separates the host's random numbers from the drive's.
const SEED_SALT: u64 = 0x706c_6179;

/// Workload of the host.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Knobs {
    /// Number of units in a request.
    pub request_units: u32,
    /// Share of the writes that goes to the hot data, whose share of the data is the complement: 0.9 means 90 %
    /// of the writes to 10 % of the data; 0.5 is uniform.
    pub skew: f64,
    /// Share of the drive that holds data and is written to; the rest is free space.
    pub used: f64,
    /// Number of writes between two flushes; 0 for no flushes.
    pub flush_every: u32,
    /// Queue depth: requests in flight.
    pub depth: u32,
    /// True for sequential writes, false for random ones.
    pub is_sequential: bool,
}

impl Default for Knobs {
    fn default() -> Knobs {
        Knobs {
            request_units: 1,
            skew: 0.5,
            used: 1.0,
            flush_every: 0,
            depth: QUEUE_DEPTH_MAX,
            is_sequential: false,
        }
    }
}

impl Knobs {
    /// Returns the knobs within their ranges, for a drive of `units` units.
    pub(crate) fn clamped(self, units: u32) -> Knobs {
        Knobs {
            request_units: self.request_units.clamp(1, 256.min(units)),
            skew: self.skew.clamp(0.5, 0.99),
            used: self.used.clamp(0.05, 1.0),
            depth: self.depth.clamp(1, QUEUE_DEPTH_MAX),
            ..self
        }
    }

    /// Returns the number of units that hold data, of `units`.
    pub(crate) fn used_units(&self, units: u32) -> u32 {
        ((f64::from(units) * self.used) as u32).clamp(self.request_units, units)
    }
}

/// Draws the first unit of each request.
#[derive(Clone, Debug)]
struct AddressGenerator {
    generator: Lcg64Xsh32,
    request_units: u32,
    /// Number of places for requests in the hot data, and in all data.
    hot: u32,
    all: u32,
    /// Number of writes to the hot data, of 2^32.
    threshold: u64,
    /// Place of the next request of sequential writes; `None` for random ones.
    in_order: Option<u32>,
    ring: [LogicalUnit; PREFETCH_AHEAD],
    next: usize,
}

impl AddressGenerator {
    fn new(generator: Lcg64Xsh32, knobs: &Knobs, units: u32) -> AddressGenerator {
        let all = knobs.used_units(units) / knobs.request_units;
        let hot = ((f64::from(all) * (1.0 - knobs.skew)) as u32).clamp(1, all);
        let is_skewed = knobs.skew > 0.5 && hot < all;
        let mut addresses = AddressGenerator {
            generator,
            request_units: knobs.request_units,
            hot: if is_skewed { hot } else { 0 },
            all,
            threshold: if is_skewed { (knobs.skew * 4_294_967_296.0) as u64 } else { 0 },
            in_order: knobs.is_sequential.then_some(0),
            ring: [LogicalUnit(0); PREFETCH_AHEAD],
            next: 0,
        };
        (0..PREFETCH_AHEAD).for_each(|_| {
            addresses.next_address();
        });
        addresses
    }

    /// Returns the first unit of the next request, and that of a request some requests later, for prefetching.
    #[inline(always)]
    fn next_address(&mut self) -> (LogicalUnit, LogicalUnit) {
        let slot = self.next_slot();
        let drawn = LogicalUnit(slot * self.request_units);
        let first = std::mem::replace(&mut self.ring[self.next % PREFETCH_AHEAD], drawn);
        self.next += 1;
        (first, self.ring[(self.next + PREFETCH_AHEAD / 2) % PREFETCH_AHEAD])
    }

    #[inline(always)]
    fn next_slot(&mut self) -> u32 {
        if let Some(next) = &mut self.in_order {
            let slot = *next;
            *next = if slot + 1 < self.all { slot + 1 } else { 0 };
            return slot;
        }
        if self.threshold == 0 {
            return self.generator.random_range(0..self.all);
        }
        match u64::from(self.generator.random::<u32>()) < self.threshold {
            true => self.generator.random_range(0..self.hot),
            false => self.generator.random_range(self.hot..self.all),
        }
    }
}

/// Sends requests according to its knobs, and records what it has seen.
#[derive(Clone, Debug)]
pub(crate) struct Writer {
    knobs: Knobs,
    addresses: AddressGenerator,
    /// Number of writes since the latest flush.
    unflushed: u32,
    in_flight: u32,
    is_draining: bool,
    units_written: u64,
    end: Instant,
    writes: Latencies,
    flushes: Latencies,
    is_flush: [bool; QUEUE_DEPTH_MAX as usize],
}

impl Writer {
    /// Returns the host of a drive of `units` units.
    pub(crate) fn new(units: u32, seed: u64) -> Writer {
        let knobs = Knobs::default().clamped(units);
        let generator = Lcg64Xsh32::seed_from_u64(seed ^ SEED_SALT);
        Writer {
            knobs,
            addresses: AddressGenerator::new(generator, &knobs, units),
            unflushed: 0,
            in_flight: 0,
            is_draining: false,
            units_written: 0,
            end: Instant::START,
            writes: Latencies::default(),
            flushes: Latencies::default(),
            is_flush: [false; QUEUE_DEPTH_MAX as usize],
        }
    }

    pub(crate) fn knobs(&self) -> Knobs {
        self.knobs
    }

    /// Changes the workload from now on.
    ///
    /// # Panics
    /// Panics if requests are in flight.
    pub(crate) fn set_knobs(&mut self, knobs: Knobs, units: u32) {
        assert_eq!(self.in_flight, 0, "knobs change between requests");
        self.knobs = knobs.clamped(units);
        self.addresses =
            AddressGenerator::new(self.addresses.generator.clone(), &self.knobs, units);
        self.unflushed = 0;
        self.writes = Latencies::default();
        self.flushes = Latencies::default();
    }

    /// Sends the first requests, not before `at`, if none is in flight.
    pub(crate) fn start(&mut self, mut port: Port<'_>, at: Instant) {
        self.is_draining = false;
        if self.in_flight == 0 {
            let at = at.max(self.end);
            (0..self.knobs.depth).for_each(|tag| {
                self.send(&mut port, at, RequestTag(tag));
            });
        }
    }

    /// Stops sending: the requests in flight are the last.
    pub(crate) fn stop(&mut self) {
        self.is_draining = true;
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.in_flight == 0
    }

    /// Returns the number of units of all answered writes.
    #[inline(always)]
    pub(crate) fn units_written(&self) -> u64 {
        self.units_written
    }

    /// Returns the instant of the latest answer.
    pub(crate) fn end(&self) -> Instant {
        self.end
    }

    /// Moves the next request to `at`, up to which another user has the drive busy.
    pub(crate) fn resume_at(&mut self, at: Instant) {
        self.end = self.end.max(at);
    }

    pub(crate) fn latencies(&self) -> (&Latencies, &Latencies) {
        (&self.writes, &self.flushes)
    }

    #[inline(always)]
    fn send(&mut self, port: &mut Port<'_>, at: Instant, tag: RequestTag) -> Option<LogicalUnit> {
        self.in_flight += 1;
        let is_flush = self.knobs.flush_every > 0 && self.unflushed >= self.knobs.flush_every;
        self.is_flush[tag.0 as usize] = is_flush;
        if is_flush {
            self.unflushed = 0;
            port.submit(at, tag, Command::Flush);
            return None;
        }
        self.unflushed += 1;
        let (first, soon) = self.addresses.next_address();
        let units = self.knobs.request_units;
        port.submit(at, tag, Command::Write { first, units, force: false });
        Some(soon)
    }
}

impl Host for Writer {
    #[inline(always)]
    fn answered(&mut self, port: &mut Port<'_>, answer: Answer) -> Option<LogicalUnit> {
        self.in_flight -= 1;
        self.end = self.end.max(answer.at);
        let latency = answer.at.since(answer.sent);
        match self.is_flush[answer.tag.0 as usize] {
            true => self.flushes.record(latency),
            false => {
                self.writes.record(latency);
                self.units_written += u64::from(self.knobs.request_units);
            }
        }
        if self.is_draining {
            return None;
        }
        self.send(port, answer.at, answer.tag)
    }
}
