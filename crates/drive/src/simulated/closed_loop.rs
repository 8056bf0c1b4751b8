//! The loop that keeps a simulated drive busy: the hot path of every experiment.

use ssdlab_model::Ssd;
use ssdlab_model::units::{ByteLength, Instant, LogicalUnit, Nanoseconds};

use crate::addresses::{Addresses, BlockRequest};
use crate::measure::{PhaseResult, ThroughputMeter};
use crate::phase::{Amount, Phase, Rate};
use crate::{Control, Observer, Progress};

/// Requests drawn ahead of the one being simulated. The first look at a request fetches its map
/// entry, a second one, half of the way later, what the entry points to: each has to be early
/// enough to hide a miss of all caches (about 100 ns) behind the requests in between.
const AHEAD: usize = 32;

/// Requests between two looks at the observer: well under a tenth of a second of real time.
const OBSERVE_EVERY: u64 = 1 << 16;

/// How a loop ended.
pub(super) struct Outcome {
    /// The last instant at which a request was answered.
    pub(super) end: Instant,
    /// Whether the observer ended it.
    pub(super) cancelled: bool,
}

/// Requests drawn ahead.
struct LookAhead {
    addresses: Addresses,
    ring: [BlockRequest; AHEAD],
    next: usize,
    first_unit: u32,
    units_per_block: u32,
}

impl LookAhead {
    fn new(phase: &Phase, unit: ByteLength) -> Self {
        let mut addresses = Addresses::new(phase);
        let ring = std::array::from_fn(|_| addresses.next_request());
        LookAhead {
            addresses,
            ring,
            next: 0,
            first_unit: phase.region.offset.whole(unit) as u32,
            units_per_block: phase.block_size.whole(unit) as u32,
        }
    }

    #[inline(always)]
    fn unit_of(&self, request: BlockRequest) -> LogicalUnit {
        LogicalUnit(self.first_unit + request.block as u32 * self.units_per_block)
    }

    /// The next request; draws another and asks for the memory of those ahead.
    #[inline(always)]
    fn next(&mut self, ssd: &Ssd) -> BlockRequest {
        let next = self.next % AHEAD;
        self.next = next + 1;
        let request = self.ring[next];
        let drawn = self.addresses.next_request();
        self.ring[next] = drawn;
        ssd.prefetch_map(self.unit_of(drawn));
        let halfway = self.ring[(next + AHEAD / 2) % AHEAD];
        if !halfway.read {
            ssd.prefetch_target(self.unit_of(halfway));
        }
        request
    }
}

/// When the requests in flight are answered; the earliest of them makes room for the next.
///
/// A tournament over a power of two of places. An entry is an instant with its place in the low
/// bits, so the winner says where it came from, and replacing it plays again only the matches on
/// its way up: loads that do not wait for each other, and no branch to guess wrong.
struct InFlight {
    /// `matches[1]` is the winner; leaves start at `places`.
    matches: Vec<u64>,
    places: usize,
}

/// Bits of an entry that hold the place: depths up to 4096. The rest holds nanoseconds up to 52
/// days of simulated time.
const PLACE_BITS: u32 = 12;
const PLACE_MASK: u64 = (1 << PLACE_BITS) - 1;

impl InFlight {
    /// `depth` places, all free at `start`.
    fn new(depth: usize, start: Instant) -> Self {
        let places = depth.next_power_of_two();
        assert!(places as u64 <= PLACE_MASK + 1, "phases are checked for their depth");
        let mut this = InFlight { matches: vec![u64::MAX; 2 * places], places };
        for place in 0..depth {
            this.matches[places + place] = Self::entry(place as u64, start);
        }
        for node in (1..places).rev() {
            this.matches[node] = this.matches[2 * node].min(this.matches[2 * node + 1]);
        }
        this
    }

    #[inline(always)]
    fn entry(place: u64, end: Instant) -> u64 {
        assert!(end.nanos() < u64::MAX >> PLACE_BITS, "simulated time is below 52 days");
        end.nanos() << PLACE_BITS | place
    }

    /// The earliest instant at which a place is free.
    #[inline(always)]
    fn earliest(&self) -> Instant {
        Instant::from_nanos(self.matches[1] >> PLACE_BITS)
    }

    /// The place that is free first is taken until `end`.
    #[inline(always)]
    fn replace_earliest(&mut self, end: Instant) {
        let place = self.matches[1] & PLACE_MASK;
        let mut node = self.places + place as usize;
        let mut winner = Self::entry(place, end);
        let matches = &mut self.matches[..2 * self.places];
        matches[node] = winner;
        while node > 1 {
            winner = winner.min(matches[node ^ 1]);
            node /= 2;
            matches[node] = winner;
        }
    }

    /// The instant at which all places are free.
    fn latest(&self) -> Instant {
        let busy = self.matches[self.places..].iter().copied().filter(|&end| end != u64::MAX);
        Instant::from_nanos(busy.max().unwrap_or(0) >> PLACE_BITS)
    }
}

/// Sends requests no faster than the phase allows.
struct Pace {
    interval: Option<Nanoseconds>,
    next: Instant,
}

impl Pace {
    fn new(phase: &Phase, start: Instant) -> Self {
        let per_second = match phase.rate {
            None => None,
            Some(Rate::RequestsPerSecond(rate)) => Some(rate),
            Some(Rate::BytesPerSecond(rate)) => Some(rate / phase.block_size.bytes() as f64),
        };
        Pace {
            interval: per_second.map(|rate| Nanoseconds::from_secs_f64(1.0 / rate)),
            next: start,
        }
    }

    #[inline(always)]
    fn send_at(&mut self, earliest: Instant) -> Instant {
        let Some(interval) = self.interval else {
            return earliest;
        };
        let at = self.next.max(earliest);
        self.next = at + interval;
        at
    }
}

/// Runs `phase` from `start`, adding what is measured to `result` and `meter`.
pub(super) fn run(
    ssd: &mut Ssd,
    phase: &Phase,
    unit: ByteLength,
    start: Instant,
    result: &mut PhaseResult,
    meter: &mut ThroughputMeter,
    observer: &mut dyn Observer,
) -> Outcome {
    let (requests_max, time_max) = match phase.amount {
        Amount::Bytes(bytes) => (bytes.whole(phase.block_size), None),
        Amount::Time(time) => (u64::MAX, Some(time)),
    };
    let deadline = time_max.map_or(Instant::from_nanos(u64::MAX), |time| start + time);
    let mut ahead = LookAhead::new(phase, unit);
    let mut in_flight = InFlight::new(phase.depth as usize, start);
    let mut pace = Pace::new(phase, start);
    let units = phase.block_size.whole(unit) as u32;
    let (mut requests, mut reads, mut cancelled) = (0u64, 0u64, false);
    while requests < requests_max && !cancelled {
        let batch_end = requests_max.min(requests + OBSERVE_EVERY);
        let mut at = in_flight.earliest();
        while requests < batch_end {
            at = pace.send_at(in_flight.earliest());
            if at >= deadline {
                break;
            }
            let request = ahead.next(ssd);
            let first = ahead.unit_of(request);
            let end = if request.read {
                let end = ssd.read(at, first, units);
                result.read_latencies.record(end.since(at));
                reads += 1;
                end
            } else {
                let end = ssd.write(at, first, units);
                result.write_latencies.record(end.since(at));
                end
            };
            meter.record(end.since(start), phase.block_size);
            in_flight.replace_earliest(end);
            requests += 1;
        }
        let progress = Progress {
            bytes_done: phase.block_size * requests,
            bytes_total: phase.bytes_total(),
            elapsed: at.since(start),
            time_total: time_max,
        };
        cancelled = observer.progress(&progress) == Control::Cancel;
        if at >= deadline {
            break;
        }
    }
    result.requests = requests;
    result.bytes_read = phase.block_size * reads;
    result.bytes_written = phase.block_size * (requests - reads);
    Outcome { end: in_flight.latest(), cancelled }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_free_up_in_the_order_of_their_ends() {
        let mut in_flight = InFlight::new(3, Instant::START);
        for end in [50, 20, 70] {
            assert_eq!(in_flight.earliest(), Instant::START);
            in_flight.replace_earliest(Instant::from_nanos(end));
        }
        for (earliest, end) in [(20, 60), (50, 55), (55, 90), (60, 100)] {
            assert_eq!(in_flight.earliest(), Instant::from_nanos(earliest));
            in_flight.replace_earliest(Instant::from_nanos(end));
        }
        assert_eq!(in_flight.latest(), Instant::from_nanos(100));
    }
}
