//! The loop that keeps a simulated drive busy: the hot path of every experiment.

use ssdlab_units::{Instant, Nanoseconds, Sector, SectorCount};

use super::in_flight::InFlight;
use super::responder::Responder;
use crate::addresses::Addresses;
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
    /// True if the observer ended it.
    pub(crate) cancelled: bool,
}

/// Requests whose memory is asked for together: one look at where the loop is, for all of them.
const TOGETHER: usize = 8;

/// A request that was drawn: where it begins, and whether it reads.
#[derive(Clone, Copy)]
pub(super) struct Drawn {
    pub(super) first: Sector,
    pub(super) is_read: bool,
}

/// Requests drawn ahead, in two halves: while one is sent, the other has been drawn.
pub(super) struct LookAhead {
    addresses: Addresses,
    drawn: [Drawn; 2 * AHEAD],
    next: usize,
    first: Sector,
    sectors_per_block: u64,
}

impl LookAhead {
    pub(super) fn new(phase: &Phase) -> Self {
        let first = Sector::at(phase.region.offset);
        let mut this = LookAhead {
            addresses: Addresses::new(phase),
            drawn: [Drawn { first, is_read: true }; 2 * AHEAD],
            next: 0,
            first,
            sectors_per_block: SectorCount::of(phase.block_size).0,
        };
        this.draw_from(0);
        this
    }

    /// The next request; asks for the memory of those ahead.
    #[inline(always)]
    pub(super) fn next(&mut self, drive: &impl Responder) -> Drawn {
        self.next_few(1, drive)[0]
    }

    /// The next requests, at least one and at most `most`; asks for the memory of those ahead.
    #[inline(always)]
    fn next_few(&mut self, most: usize, drive: &impl Responder) -> &[Drawn] {
        let next = self.next % (2 * AHEAD);
        if next.is_multiple_of(TOGETHER) {
            self.ask_for_memory(next, drive);
        }
        let few = next..next + most.min(TOGETHER - next % TOGETHER);
        self.next = few.end;
        &self.drawn[few]
    }

    #[inline(never)]
    fn ask_for_memory(&mut self, next: usize, drive: &impl Responder) {
        if next.is_multiple_of(AHEAD) {
            self.draw_from((next + AHEAD) % (2 * AHEAD));
        }
        let ahead = (next + AHEAD) % (2 * AHEAD);
        for drawn in &self.drawn[ahead..ahead + TOGETHER] {
            drive.prefetch(drawn.first);
        }
        let halfway = (next + AHEAD / 2) % (2 * AHEAD);
        for drawn in &self.drawn[halfway..halfway + TOGETHER] {
            if !drawn.is_read {
                drive.prefetch_for_write(drawn.first);
            }
        }
    }

    /// Draws the half that begins at `from`.
    #[inline(never)]
    fn draw_from(&mut self, from: usize) {
        let (first, sectors_per_block) = (self.first.0, self.sectors_per_block);
        let places = &mut self.drawn[from..from + AHEAD];
        self.addresses.draw_into(places, |place, request| {
            let first = Sector(first + request.block * sectors_per_block);
            *place = Drawn { first, is_read: request.read };
        });
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

    /// Returns true if there is no limit.
    fn is_none(&self) -> bool {
        self.interval == Nanoseconds::ZERO
    }

    #[inline(always)]
    pub(super) fn send_at(&mut self, earliest: Nanoseconds) -> Nanoseconds {
        if self.is_none() { earliest } else { self.hold_back(earliest) }
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
    // What is sent before this has neither a rate nor the end to heed.
    let at_once_before = if pace.is_none() { deadline } else { Nanoseconds::ZERO };
    let count = SectorCount::of(phase.block_size);
    let (mut requests, mut cancelled) = (0u64, false);
    let (mut read_latencies, mut write_latencies) = (LatencyCounts::new(), LatencyCounts::new());
    let refused = drive.counters().refused_writes;
    while requests < requests_max && !cancelled {
        let batch_end = requests_max.min(requests + OBSERVE_EVERY);
        // All times are counted from the start of the phase but those that the drive is told.
        let mut sent = in_flight.earliest();
        'batch: while requests < batch_end {
            let most = (batch_end - requests).min(TOGETHER as u64);
            let mut drawn = ahead.next_few(most as usize, drive).iter();
            requests += drawn.len() as u64;
            while let Some(&Drawn { first, is_read }) = drawn.next() {
                sent = in_flight.earliest();
                if sent >= at_once_before {
                    sent = pace.send_at(sent);
                    if sent >= deadline {
                        requests -= 1 + drawn.len() as u64;
                        break 'batch;
                    }
                }
                let place = in_flight.take_earliest();
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
            }
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
