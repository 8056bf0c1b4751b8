//! The loop that keeps a simulated drive busy: the hot path of every experiment.

use ssdlab_model::units::{Instant, Nanoseconds, Sector, SectorCount};

use super::responder::Responder;
use crate::addresses::Addresses;
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
pub(crate) struct Outcome {
    /// The last instant at which a request was answered.
    pub(crate) end: Instant,
    /// Whether the observer ended it.
    pub(crate) cancelled: bool,
}

/// A request: its first sector, and whether it reads.
#[derive(Clone, Copy)]
struct Drawn {
    first: Sector,
    read: bool,
}

/// Requests drawn ahead.
struct LookAhead {
    addresses: Addresses,
    ring: [Drawn; AHEAD],
    next: usize,
    first: Sector,
    sectors_per_block: u64,
}

impl LookAhead {
    fn new(phase: &Phase) -> Self {
        let none = Drawn { first: Sector(0), read: true };
        let mut this = LookAhead {
            addresses: Addresses::new(phase),
            ring: [none; AHEAD],
            next: 0,
            first: Sector::at(phase.region.offset),
            sectors_per_block: SectorCount::of(phase.block_size).0,
        };
        for place in 0..AHEAD {
            this.ring[place] = this.draw();
        }
        this
    }

    #[inline(always)]
    fn draw(&mut self) -> Drawn {
        let request = self.addresses.next_request();
        let first = Sector(self.first.0 + request.block * self.sectors_per_block);
        Drawn { first, read: request.read }
    }

    /// The next request; draws another and asks for the memory of those ahead.
    #[inline(always)]
    fn next(&mut self, drive: &impl Responder) -> Drawn {
        let next = self.next % AHEAD;
        self.next = next + 1;
        let request = self.ring[next];
        let drawn = self.draw();
        self.ring[next] = drawn;
        drive.prefetch(drawn.first);
        let halfway = self.ring[(next + AHEAD / 2) % AHEAD];
        if !halfway.read {
            drive.prefetch_for_write(halfway.first);
        }
        request
    }
}

/// When the requests in flight are answered; the earliest of them makes room for the next.
///
/// A tournament of groups of four. An entry is an instant with its place in the low bits, so the
/// winner says where it came from, and replacing it plays again only the matches on its way up,
/// without a branch to guess wrong.
struct InFlight {
    /// The entries by place, then the winners of each four of them, and so on up to one.
    matches: Vec<u64>,
    /// Where each round begins in `matches`, the entries' first.
    rounds: Vec<usize>,
    /// Entries count from here, so that the simulated time before a phase has no limit.
    start: Instant,
}

/// Bits of an entry that hold the place: depths up to 4096. The rest holds nanoseconds up to 52
/// days of a phase.
const PLACE_BITS: u32 = 12;
const PLACE_MASK: u64 = (1 << PLACE_BITS) - 1;

/// Entries that play each other in one match.
const GROUP: usize = 4;

impl InFlight {
    /// `depth` places, all free at `start`.
    fn new(depth: usize, start: Instant) -> Self {
        assert!(depth as u64 <= PLACE_MASK + 1, "phases are checked for their depth");
        let (mut rounds, mut length, mut total) = (vec![0], depth, 0);
        while length > 1 {
            total += length.next_multiple_of(GROUP);
            length = length.div_ceil(GROUP);
            rounds.push(total);
        }
        let mut this = InFlight { matches: vec![u64::MAX; total + 1], rounds, start };
        for place in 0..depth {
            this.set(place as u64, this.entry(place as u64, start));
        }
        this
    }

    #[inline(always)]
    fn entry(&self, place: u64, end: Instant) -> u64 {
        let since = end.since(self.start).nanos();
        assert!(since < u64::MAX >> PLACE_BITS, "a phase lasts less than 52 days");
        since << PLACE_BITS | place
    }

    fn instant(&self, entry: u64) -> Instant {
        self.start + Nanoseconds::new(entry >> PLACE_BITS)
    }

    #[inline(always)]
    fn winner(&self) -> u64 {
        self.matches[self.matches.len() - 1]
    }

    /// The earliest instant at which a place is free.
    #[inline(always)]
    fn earliest(&self) -> Instant {
        self.instant(self.winner())
    }

    /// The place that is free first is taken until `end`.
    #[inline(always)]
    fn replace_earliest(&mut self, end: Instant) {
        let place = self.winner() & PLACE_MASK;
        self.set(place, self.entry(place, end));
    }

    #[inline(always)]
    fn set(&mut self, place: u64, entry: u64) {
        let mut index = place as usize;
        self.matches[index] = entry;
        for round in 1..self.rounds.len() {
            index /= GROUP;
            let first = self.rounds[round - 1] + index * GROUP;
            let four: [u64; GROUP] =
                self.matches[first..first + GROUP].try_into().expect("four are four");
            let winner = four[0].min(four[1]).min(four[2].min(four[3]));
            self.matches[self.rounds[round] + index] = winner;
        }
    }

    /// The instant at which all places are free.
    fn latest(&self) -> Instant {
        let behind = self.rounds.get(1).copied().unwrap_or(1);
        let entries = self.matches[..behind].iter().copied();
        let latest = entries.filter(|&entry| entry != u64::MAX).max();
        latest.map_or(self.start, |entry| self.instant(entry))
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
        let Some(interval) = self.interval else { return earliest };
        let at = self.next.max(earliest);
        self.next = at + interval;
        at
    }
}

/// Runs `phase` from `start`, adding what is measured to `result` and `meter`.
pub(super) fn run<R: Responder>(
    drive: &mut R,
    phase: &Phase,
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
    let mut ahead = LookAhead::new(phase);
    let mut in_flight = InFlight::new(phase.depth as usize, start);
    let mut pace = Pace::new(phase, start);
    let count = SectorCount::of(phase.block_size);
    let (mut requests, mut reads, mut cancelled) = (0u64, 0u64, false);
    while requests < requests_max && !cancelled {
        let batch_end = requests_max.min(requests + OBSERVE_EVERY);
        let mut at = in_flight.earliest();
        while requests < batch_end {
            at = pace.send_at(in_flight.earliest());
            if at >= deadline {
                break;
            }
            let request = ahead.next(drive);
            let end = if request.read {
                let end = drive.read(at, request.first, count);
                result.read_latencies.record(end.since(at));
                reads += 1;
                end
            } else {
                let end = drive.write(at, request.first, count);
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
    fn the_earliest_end_always_comes_next() {
        use rand::{RngExt, SeedableRng};
        let mut generator = rand_pcg::Pcg64Mcg::seed_from_u64(5);
        let start = Instant::from_nanos(1 << 62);
        for depth in [1usize, 2, 3, 4, 5, 8, 31, 32, 64, 200, 4096] {
            let mut in_flight = InFlight::new(depth, start);
            let mut plain = vec![start.nanos(); depth];
            for _ in 0..2_000 {
                let earliest = *plain.iter().min().unwrap();
                assert_eq!(in_flight.earliest().nanos(), earliest, "depth {depth}");
                let place = plain.iter().position(|&end| end == earliest).unwrap();
                plain[place] = earliest + generator.random_range(0..100u64);
                in_flight.replace_earliest(Instant::from_nanos(plain[place]));
            }
            assert_eq!(in_flight.latest().nanos(), *plain.iter().max().unwrap());
        }
    }

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
