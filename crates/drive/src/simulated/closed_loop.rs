//! The closed loop that keeps a simulated drive busy: the hot path of every experiment.

use ssdlab_units::{Instant, Nanoseconds, Sector, SectorCount};

use super::responder::{
    Answer, Client, Kind, LATEST, Port, Request, Responder, StepResponder, Tag,
};
use crate::addresses::Addresses;
use crate::measure::{LatencyCounts, PhaseResult, ThroughputMeter};
use crate::phase::{Amount, Phase, Rate};
use crate::recording::SNAPSHOT_INTERVAL;
use crate::{Control, Observer, Progress};

/// Number of requests that are drawn ahead of the one being sent: early enough to hide a miss of all caches
/// (about 100 ns) behind the requests in between.
const DRAWN_AHEAD: usize = 32;

/// Number of requests between two calls of the observer: well under a tenth of a second of real time.
pub(super) const OBSERVE_EVERY: u64 = 1 << 16;

/// Outcome of a loop.
pub(crate) struct Outcome {
    /// Moment at which the last request was answered.
    pub(crate) end: Instant,
    /// True if the observer ended it.
    pub(crate) cancelled: bool,
}

/// A request that was drawn: its first sector, and true if it reads.
#[derive(Clone, Copy)]
pub(super) struct Drawn {
    pub(super) first: Sector,
    pub(super) is_read: bool,
}

impl Drawn {
    #[inline(always)]
    pub(super) fn request(self, count: SectorCount) -> Request {
        let kind = if self.is_read { Kind::Read } else { Kind::Write };
        Request { kind, first: self.first, count }
    }
}

/// Requests drawn ahead, in two halves: while one is sent, the other has been drawn.
pub(super) struct LookAhead {
    addresses: Addresses,
    drawn: [Drawn; 2 * DRAWN_AHEAD],
    next: usize,
    first: Sector,
    sectors_per_block: u64,
}

impl LookAhead {
    pub(super) fn new(phase: &Phase) -> Self {
        let first = Sector::at(phase.region.offset);
        let mut this = LookAhead {
            addresses: Addresses::new(phase),
            drawn: [Drawn { first, is_read: true }; 2 * DRAWN_AHEAD],
            next: 0,
            first,
            sectors_per_block: SectorCount::of(phase.block_size).0,
        };
        this.draw_from(0);
        this
    }

    /// Returns the next request, and the first sector of the one that follows [`DRAWN_AHEAD`] requests later.
    #[inline(always)]
    pub(super) fn next(&mut self) -> (Drawn, Sector) {
        let next = self.next % (2 * DRAWN_AHEAD);
        if next.is_multiple_of(DRAWN_AHEAD) {
            self.draw_from((next + DRAWN_AHEAD) % (2 * DRAWN_AHEAD));
        }
        self.next = next + 1;
        (self.drawn[next], self.drawn[(next + DRAWN_AHEAD) % (2 * DRAWN_AHEAD)].first)
    }

    /// Draws the half of the requests that begins at `from`.
    #[inline(never)]
    fn draw_from(&mut self, from: usize) {
        let (first, sectors_per_block) = (self.first.0, self.sectors_per_block);
        let places = &mut self.drawn[from..from + DRAWN_AHEAD];
        self.addresses.draw_into(places, |place, request| {
            let first = Sector(first + request.block * sectors_per_block);
            *place = Drawn { first, is_read: request.read };
        });
    }
}

/// Limits the rate of requests to that of the phase.
pub(super) struct RateLimit {
    /// Minimum time between two requests; zero for no limit.
    interval: Nanoseconds,
    /// Moment at which the next request may be sent, since the phase began.
    next: Nanoseconds,
}

impl RateLimit {
    pub(super) fn new(phase: &Phase) -> Self {
        let per_second = match phase.rate {
            // An open loop has its own file, `open_loop.rs`.
            None | Some(Rate::Open(_)) => None,
            Some(Rate::RequestsPerSecond(rate)) => Some(rate),
            Some(Rate::BytesPerSecond(rate)) => Some(rate / phase.block_size.bytes() as f64),
        };
        let interval = per_second.map(|rate| Nanoseconds::from_secs_f64(1.0 / rate));
        RateLimit { interval: interval.unwrap_or(Nanoseconds::ZERO), next: Nanoseconds::ZERO }
    }

    /// Returns true if there is no limit.
    fn is_none(&self) -> bool {
        self.interval == Nanoseconds::ZERO
    }

    #[inline(always)]
    pub(super) fn send_at(&mut self, earliest: Nanoseconds) -> Nanoseconds {
        if self.is_none() { earliest } else { self.delay(earliest) }
    }

    #[inline(never)]
    fn delay(&mut self, earliest: Nanoseconds) -> Nanoseconds {
        let at = self.next.max(earliest);
        self.next = at + self.interval;
        at
    }
}

/// A closed loop: each answered request is followed by another.
struct ClosedLoop<'a> {
    ahead: LookAhead,
    rate_limit: RateLimit,
    phase: &'a Phase,
    count: SectorCount,
    start: Instant,
    /// Time after which nothing is sent, since the start, and maximum number of requests.
    deadline: Nanoseconds,
    requests_max: u64,
    /// Number of requests sent so far, and the moment of the latest, since the start.
    requests: u64,
    sent: Nanoseconds,
    in_flight: u32,
    /// For each request in flight, true if it reads.
    reads: Vec<bool>,
    read_latencies: LatencyCounts,
    write_latencies: LatencyCounts,
    meter: &'a mut ThroughputMeter,
    latest: Instant,
}

impl ClosedLoop<'_> {
    /// Sends the next request, not before `earliest`, unless the phase is over. Returns the first sector of
    /// a later one.
    #[inline(always)]
    fn send(&mut self, port: &mut impl Port, tag: Tag, earliest: Instant) -> Option<Sector> {
        let earliest = earliest.since(self.start);
        if self.requests >= self.requests_max || earliest >= self.deadline {
            self.sent = self.sent.max(earliest);
            return None;
        }
        let sent = self.rate_limit.send_at(earliest);
        self.sent = sent;
        if sent >= self.deadline {
            return None;
        }
        let (drawn, upcoming) = self.ahead.next();
        self.requests += 1;
        self.in_flight += 1;
        self.reads[tag.0 as usize] = drawn.is_read;
        port.submit(self.start + sent, tag, drawn.request(self.count));
        Some(upcoming)
    }

    fn stop(&mut self) {
        self.requests_max = 0;
    }
}

impl Client for ClosedLoop<'_> {
    const SENDS_WHEN_ANSWERED: bool = true;

    #[inline(always)]
    fn answered(&mut self, port: &mut impl Port, answer: Answer) -> Option<Sector> {
        let Answer { tag, sent, at } = answer;
        let latency = at.since(sent);
        match self.reads[tag.0 as usize] {
            true => self.read_latencies.record(latency),
            false => self.write_latencies.record(latency),
        }
        self.meter.record(at.since(self.start), self.phase.block_size);
        self.latest = self.latest.max(at);
        self.in_flight -= 1;
        self.send(port, tag, at)
    }
}

/// Sends requests to a drive outside of its events.
struct DirectPort<'a, R>(&'a mut R);

impl<R: Responder> Port for DirectPort<'_, R> {
    fn submit(&mut self, at: Instant, tag: Tag, request: Request) {
        self.0.submit(at, tag, request);
    }
}

/// Returns the number of requests between two checks whether a picture of the internal state is due.
pub(super) fn requests_per_snapshot_check(drive: &impl Responder, phase: &Phase) -> u64 {
    match drive.is_recorded() {
        true => SNAPSHOT_INTERVAL.whole(phase.block_size).clamp(1, OBSERVE_EVERY),
        false => OBSERVE_EVERY,
    }
}

/// Runs `phase` from `start`, adding the measurements to `result` and `meter`.
pub(super) fn run<R: StepResponder>(
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
    let mut client = ClosedLoop {
        ahead: LookAhead::new(phase),
        rate_limit: RateLimit::new(phase),
        phase,
        count: SectorCount::of(phase.block_size),
        start,
        deadline: time_max.unwrap_or(Nanoseconds::new(u64::MAX)),
        requests_max,
        requests: 0,
        sent: Nanoseconds::ZERO,
        in_flight: 0,
        reads: vec![false; phase.depth as usize],
        read_latencies: LatencyCounts::new(),
        write_latencies: LatencyCounts::new(),
        meter,
        latest: start,
    };
    let refused = drive.counters().refused_writes;
    for tag in 0..phase.depth {
        if let Some(upcoming) = client.send(&mut DirectPort(drive), Tag(tag), start) {
            drive.prefetch(upcoming);
        }
    }
    let mut cancelled = false;
    let check_every = requests_per_snapshot_check(drive, phase);
    while client.in_flight > 0 {
        let observe_at = client.requests + OBSERVE_EVERY;
        while client.in_flight > 0 && client.requests < observe_at {
            let check_at = observe_at.min(client.requests + check_every);
            while client.in_flight > 0 && client.requests < check_at {
                let was_processed = drive.step(LATEST, &mut client);
                assert!(was_processed, "every request is answered");
            }
            drive.record_if_due();
        }
        let progress = Progress {
            bytes_done: phase.block_size * client.requests,
            bytes_total: phase.bytes_total(),
            elapsed: client.sent,
            time_total: time_max,
        };
        cancelled = cancelled || observer.progress(&progress) == Control::Cancel;
        if cancelled || drive.counters().refused_writes > refused {
            client.stop();
        }
    }
    let ClosedLoop { requests, read_latencies, write_latencies, latest, .. } = client;
    result.requests = requests;
    result.bytes_read = phase.block_size * read_latencies.count();
    result.bytes_written = phase.block_size * write_latencies.count();
    read_latencies.add_to(&mut result.read_latencies);
    write_latencies.add_to(&mut result.write_latencies);
    Outcome { end: latest, cancelled }
}
