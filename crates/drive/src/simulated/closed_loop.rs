//! The loop that keeps a simulated drive busy: the hot path of every experiment.

use ssdlab_model::units::{Instant, Nanoseconds, Sector, SectorCount};

use super::in_flight::InFlight;
use super::responder::Responder;
use crate::addresses::{Addresses, BlockRequest};
use crate::measure::{LatencyCounts, PhaseResult, ThroughputMeter};
use crate::phase::{Amount, Phase, Rate};
use crate::{Control, Observer, Progress};

/// Requests drawn ahead of the one being simulated. The first look at a request fetches its map
/// entry, a second one, half of the way later, what the entry points to: each has to be early
/// enough to hide a miss of all caches (about 100 ns) behind the requests in between.
const AHEAD: usize = 32;

/// Requests between two looks at the observer: well under a tenth of a second of real time.
pub(super) const OBSERVE_EVERY: u64 = 1 << 16;

/// How a loop ended.
pub(crate) struct Outcome {
    /// The last instant at which a request was answered.
    pub(crate) end: Instant,
    /// Whether the observer ended it.
    pub(crate) cancelled: bool,
}

/// Requests drawn ahead, in two halves: while one is sent, the other has been drawn.
pub(super) struct LookAhead {
    addresses: Addresses,
    drawn: [BlockRequest; 2 * AHEAD],
    next: usize,
    first: Sector,
    sectors_per_block: u64,
}

impl LookAhead {
    pub(super) fn new(phase: &Phase) -> Self {
        let none = BlockRequest { block: 0, read: true };
        let mut this = LookAhead {
            addresses: Addresses::new(phase),
            drawn: [none; 2 * AHEAD],
            next: 0,
            first: Sector::at(phase.region.offset),
            sectors_per_block: SectorCount::of(phase.block_size).0,
        };
        this.addresses.draw(&mut this.drawn[..AHEAD]);
        this
    }

    #[inline(always)]
    fn sector(&self, request: BlockRequest) -> Sector {
        Sector(self.first.0 + request.block * self.sectors_per_block)
    }

    /// The next request and where it begins; asks for the memory of those ahead.
    #[inline(always)]
    pub(super) fn next(&mut self, drive: &impl Responder) -> (Sector, bool) {
        let next = self.next % (2 * AHEAD);
        self.next = next + 1;
        if next.is_multiple_of(AHEAD) {
            self.draw_behind(next);
        }
        drive.prefetch(self.sector(self.drawn[(next + AHEAD) % (2 * AHEAD)]));
        let halfway = self.drawn[(next + AHEAD / 2) % (2 * AHEAD)];
        if !halfway.read {
            drive.prefetch_for_write(self.sector(halfway));
        }
        let request = self.drawn[next];
        (self.sector(request), request.read)
    }

    /// Draws the half behind the one that begins at `next`.
    #[inline(never)]
    fn draw_behind(&mut self, next: usize) {
        let behind = (next + AHEAD) % (2 * AHEAD);
        self.addresses.draw(&mut self.drawn[behind..behind + AHEAD]);
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
            // An open loop has its own file.
            None | Some(Rate::Open(_)) => None,
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
    let (mut read_latencies, mut write_latencies) = (LatencyCounts::new(), LatencyCounts::new());
    let refused = drive.counters().refused_writes;
    while requests < requests_max && !cancelled {
        let batch_end = requests_max.min(requests + OBSERVE_EVERY);
        let mut at = in_flight.earliest();
        while requests < batch_end {
            at = pace.send_at(in_flight.earliest());
            if at >= deadline {
                break;
            }
            let place = in_flight.take_earliest();
            let (first, is_read) = ahead.next(drive);
            let end = if is_read {
                let end = drive.read(at, first, count);
                read_latencies.record(end.since(at));
                reads += 1;
                end
            } else {
                let end = drive.write(at, first, count);
                write_latencies.record(end.since(at));
                end
            };
            in_flight.enter(place, end);
            meter.record(end.since(start), phase.block_size);
            requests += 1;
        }
        let progress = Progress {
            bytes_done: phase.block_size * requests,
            bytes_total: phase.bytes_total(),
            elapsed: at.since(start),
            time_total: time_max,
        };
        cancelled = observer.progress(&progress) == Control::Cancel;
        if at >= deadline || drive.counters().refused_writes > refused {
            break;
        }
    }
    read_latencies.add_to(&mut result.read_latencies);
    write_latencies.add_to(&mut result.write_latencies);
    result.requests = requests;
    result.bytes_read = phase.block_size * reads;
    result.bytes_written = phase.block_size * (requests - reads);
    Outcome { end: in_flight.latest(), cancelled }
}
