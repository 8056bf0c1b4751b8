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

/// Requests whose memory is asked for together: one look at where the loop is, for all of them.
const TOGETHER: usize = 8;

/// Requests drawn ahead, in two halves: while one is sent, the other has been drawn.
pub(super) struct LookAhead {
    addresses: Addresses,
    drawn: [BlockRequest; AHEAD],
    /// Where each begins, and whether it reads.
    sectors: [Sector; 2 * AHEAD],
    reads: [bool; 2 * AHEAD],
    next: usize,
    first: Sector,
    sectors_per_block: u64,
}

impl LookAhead {
    pub(super) fn new(phase: &Phase) -> Self {
        let none = BlockRequest { block: 0, read: true };
        let first = Sector::at(phase.region.offset);
        let mut this = LookAhead {
            addresses: Addresses::new(phase),
            drawn: [none; AHEAD],
            sectors: [first; 2 * AHEAD],
            reads: [true; 2 * AHEAD],
            next: 0,
            first,
            sectors_per_block: SectorCount::of(phase.block_size).0,
        };
        this.draw_from(0);
        this
    }

    /// The next request and where it begins; asks for the memory of those ahead.
    #[inline(always)]
    pub(super) fn next(&mut self, drive: &impl Responder) -> (Sector, bool) {
        let next = self.next % (2 * AHEAD);
        self.next = next + 1;
        if next.is_multiple_of(TOGETHER) {
            self.ask_for_memory(next, drive);
        }
        (self.sectors[next], self.reads[next])
    }

    #[inline(never)]
    fn ask_for_memory(&mut self, next: usize, drive: &impl Responder) {
        if next.is_multiple_of(AHEAD) {
            self.draw_from((next + AHEAD) % (2 * AHEAD));
        }
        let ahead = (next + AHEAD) % (2 * AHEAD);
        for &sector in &self.sectors[ahead..ahead + TOGETHER] {
            drive.prefetch(sector);
        }
        let halfway = (next + AHEAD / 2) % (2 * AHEAD);
        let halfway = halfway..halfway + TOGETHER;
        for (&sector, &read) in self.sectors[halfway.clone()].iter().zip(&self.reads[halfway]) {
            if !read {
                drive.prefetch_for_write(sector);
            }
        }
    }

    /// Draws the half that begins at `from`.
    #[inline(never)]
    fn draw_from(&mut self, from: usize) {
        self.addresses.draw(&mut self.drawn);
        for (place, request) in self.drawn.iter().enumerate() {
            let sectors = request.block * self.sectors_per_block;
            self.sectors[from + place] = Sector(self.first.0 + sectors);
            self.reads[from + place] = request.read;
        }
    }
}

/// Sends requests no faster than the phase allows.
pub(super) struct Pace {
    /// Zero for no limit.
    interval: Nanoseconds,
    /// When the next request may be sent, since the phase began.
    next: Nanoseconds,
}

impl Pace {
    pub(super) fn new(phase: &Phase) -> Self {
        let per_second = match phase.rate {
            // An open loop has its own file.
            None | Some(Rate::Open(_)) => None,
            Some(Rate::RequestsPerSecond(rate)) => Some(rate),
            Some(Rate::BytesPerSecond(rate)) => Some(rate / phase.block_size.bytes() as f64),
        };
        let interval = per_second.map(|rate| Nanoseconds::from_secs_f64(1.0 / rate));
        Pace { interval: interval.unwrap_or(Nanoseconds::ZERO), next: Nanoseconds::ZERO }
    }

    #[inline(always)]
    pub(super) fn send_at(&mut self, earliest: Nanoseconds) -> Nanoseconds {
        if self.interval == Nanoseconds::ZERO { earliest } else { self.hold_back(earliest) }
    }

    #[inline(never)]
    fn hold_back(&mut self, earliest: Nanoseconds) -> Nanoseconds {
        let at = self.next.max(earliest);
        self.next = at + self.interval;
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
    let deadline = time_max.unwrap_or(Nanoseconds::new(u64::MAX));
    let mut ahead = LookAhead::new(phase);
    let mut in_flight = InFlight::new(phase.depth as usize);
    let mut pace = Pace::new(phase);
    let count = SectorCount::of(phase.block_size);
    let (mut requests, mut cancelled) = (0u64, false);
    let (mut read_latencies, mut write_latencies) = (LatencyCounts::new(), LatencyCounts::new());
    let refused = drive.counters().refused_writes;
    while requests < requests_max && !cancelled {
        let batch_end = requests_max.min(requests + OBSERVE_EVERY);
        // All times are counted from the start of the phase but those that the drive is told.
        let mut sent = in_flight.earliest();
        while requests < batch_end {
            sent = pace.send_at(in_flight.earliest());
            if sent >= deadline {
                break;
            }
            let place = in_flight.take_earliest();
            let (first, is_read) = ahead.next(drive);
            let at = start + sent;
            let latency = if is_read {
                let latency = drive.read(at, first, count).since(at);
                read_latencies.record(latency);
                latency
            } else {
                let latency = drive.write(at, first, count).since(at);
                write_latencies.record(latency);
                latency
            };
            in_flight.enter(place, sent + latency);
            meter.record(sent + latency, phase.block_size);
            requests += 1;
        }
        in_flight.check();
        let progress = Progress {
            bytes_done: phase.block_size * requests,
            bytes_total: phase.bytes_total(),
            elapsed: sent,
            time_total: time_max,
        };
        cancelled = observer.progress(&progress) == Control::Cancel;
        if sent >= deadline || drive.counters().refused_writes > refused {
            break;
        }
    }
    result.requests = requests;
    result.bytes_read = phase.block_size * read_latencies.count();
    result.bytes_written = phase.block_size * write_latencies.count();
    read_latencies.add_to(&mut result.read_latencies);
    write_latencies.add_to(&mut result.write_latencies);
    Outcome { end: start + in_flight.latest(), cancelled }
}
