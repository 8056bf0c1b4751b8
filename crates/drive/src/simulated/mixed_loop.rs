//! The closed loop of phases whose requests are gone on with step by step: those that mix reads and
//! writes, and streams of reads.

use ssdlab_units::{Instant, SectorCount};

use super::closed_loop::{Drawn, LookAhead, OBSERVE_EVERY, Outcome, Pace};
use super::responder::{Kind, Request, Responder};
use super::steps::Steps;
use crate::measure::{LatencyCounts, PhaseResult, ThroughputMeter};
use crate::phase::{Amount, Phase};
use crate::{Control, Observer, Progress};

/// A request that was sent.
#[derive(Clone, Copy)]
struct Sent {
    at: Instant,
    is_read: bool,
}

/// What a phase has measured so far.
struct Measured<'a> {
    start: Instant,
    phase: &'a Phase,
    meter: &'a mut ThroughputMeter,
    reads: LatencyCounts,
    writes: LatencyCounts,
    /// Reads that were answered, and when the latest answer came.
    answered_reads: u64,
    latest: Instant,
}

impl Measured<'_> {
    #[inline(always)]
    fn note(&mut self, sent: Sent, end: Instant) {
        if sent.is_read {
            self.reads.record(end.since(sent.at));
            self.answered_reads += 1;
        } else {
            self.writes.record(end.since(sent.at));
        }
        self.meter.record(end.since(self.start), self.phase.block_size);
        self.latest = end;
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
    let mut steps = Steps::new(phase.depth as usize, start);
    let mut pace = Pace::new(phase);
    let count = SectorCount::of(phase.block_size);
    let mut measured = Measured {
        start,
        phase,
        meter,
        reads: LatencyCounts::new(),
        writes: LatencyCounts::new(),
        answered_reads: 0,
        latest: start,
    };
    let (mut requests, mut cancelled) = (0u64, false);
    let refused = drive.counters().refused_writes;
    while requests < requests_max && !cancelled {
        let batch_end = requests_max.min(requests + OBSERVE_EVERY);
        let mut at = measured.latest;
        while requests < batch_end {
            while !steps.has_room() {
                if let Some((sent, end)) = steps.step(drive) {
                    measured.note(sent, end);
                }
            }
            at = start + pace.send_at(measured.latest.since(start));
            if at >= deadline {
                break;
            }
            while steps.next().is_some_and(|next| next <= at) {
                if let Some((sent, end)) = steps.step(drive) {
                    measured.note(sent, end);
                }
            }
            let Drawn { first, is_read } = ahead.next(drive);
            let kind = if is_read { Kind::Read } else { Kind::Write };
            steps.send(drive, at, Request { kind, first, count }, Sent { at, is_read });
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
    while steps.next().is_some() {
        if let Some((sent, end)) = steps.step(drive) {
            measured.note(sent, end);
        }
    }
    measured.reads.add_to(&mut result.read_latencies);
    measured.writes.add_to(&mut result.write_latencies);
    result.requests = requests;
    result.bytes_read = phase.block_size * measured.answered_reads;
    result.bytes_written = phase.block_size * (requests - measured.answered_reads);
    Outcome { end: measured.latest, cancelled }
}
