//! The open loop: requests arrive at their own times, whether or not earlier ones were answered.
//!
//! In a closed loop a slow answer delays the next request, so that a drive that stops for a second is seen
//! as one slow request. In the open loop all requests that arrived meanwhile have waited, and their latency
//! counts from their arrival. At most `depth` requests are with the drive at a time, as in a host's queue;
//! the others wait before it.

use ssdlab_units::{Instant, SectorCount};

use super::answer_queue::AnswerQueue;
use super::closed_loop::{LookAhead, OBSERVE_EVERY, Outcome, requests_per_snapshot_check};
use super::responder::{LATEST, StepResponder, Tag};
use crate::arrivals::Arrivals;
use crate::measure::{PhaseResult, ThroughputMeter};
use crate::phase::{Amount, Phase};
use crate::{Control, Observer, Progress};

/// Runs `phase` from `start` with `per_second` arrivals on average, adding the measurements to `result` and
/// `meter`. All requests that arrive within the phase's time are answered.
pub(super) fn run<R: StepResponder>(
    drive: &mut R,
    phase: &Phase,
    per_second: f64,
    start: Instant,
    result: &mut PhaseResult,
    meter: &mut ThroughputMeter,
    observer: &mut dyn Observer,
) -> Outcome {
    let (requests_max, time_max) = match phase.amount {
        Amount::Bytes(bytes) => (bytes.whole(phase.block_size), None),
        Amount::Time(time) => (u64::MAX, Some(time)),
    };
    let deadline = time_max.unwrap_or(Phase::LONGEST);
    let mut arrivals = Arrivals::new(per_second, phase.seed);
    let mut ahead = LookAhead::new(phase);
    let mut answers = AnswerQueue::default();
    let count = SectorCount::of(phase.block_size);
    // For each request in flight, its arrival, and true if it reads; and the free tags.
    let mut open = vec![(start, true); phase.depth as usize];
    let mut free: Vec<Tag> = (0..phase.depth).rev().map(Tag).collect();
    let (mut requests, mut reads, mut cancelled) = (0u64, 0u64, false);
    let (mut latest, mut sent) = (start, start);
    let mut note = |(arrival, is_read): (Instant, bool), end: Instant| {
        let latencies = match is_read {
            true => &mut result.read_latencies,
            false => &mut result.write_latencies,
        };
        latencies.record(end.since(arrival));
        meter.record(end.since(start), phase.block_size);
        latest = end;
    };
    let refused = drive.counters().refused_writes;
    let check_every = requests_per_snapshot_check(drive, phase);
    while requests < requests_max && arrivals.next() < deadline && !cancelled {
        let batch_end = requests_max.min(requests + OBSERVE_EVERY);
        while requests < batch_end && arrivals.next() < deadline {
            let arrival = start + arrivals.next();
            arrivals.advance();
            // A request that waits for a full queue is sent when a place in the queue becomes free. Two places
            // may become free at one instant: no request is sent earlier than the one before it.
            let mut at = arrival.max(sent);
            while let Some(answer) = answers.next(drive, at) {
                note(open[answer.tag.0 as usize], answer.at);
                free.push(answer.tag);
            }
            if free.is_empty() {
                let answer = answers.next(drive, LATEST).expect("every request is answered");
                note(open[answer.tag.0 as usize], answer.at);
                free.push(answer.tag);
                at = at.max(answer.at);
            }
            let (drawn, upcoming) = ahead.next();
            drive.prefetch(upcoming);
            let tag = free.pop().expect("there is room");
            open[tag.0 as usize] = (arrival, drawn.is_read);
            reads += u64::from(drawn.is_read);
            drive.submit(at, tag, drawn.request(count));
            sent = at;
            requests += 1;
            if requests.is_multiple_of(check_every) {
                drive.record_if_due();
            }
        }
        let progress = Progress {
            bytes_done: phase.block_size * requests,
            bytes_total: phase.bytes_total(),
            elapsed: arrivals.next(),
            time_total: time_max,
        };
        cancelled = observer.progress(&progress) == Control::Cancel;
        if drive.counters().refused_writes > refused {
            break;
        }
    }
    while free.len() < phase.depth as usize {
        let answer = answers.next(drive, LATEST).expect("every request is answered");
        note(open[answer.tag.0 as usize], answer.at);
        free.push(answer.tag);
    }
    result.requests = requests;
    result.bytes_read = phase.block_size * reads;
    result.bytes_written = phase.block_size * (requests - reads);
    Outcome { end: latest, cancelled }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Unobserved;
    use crate::phase::{Mix, Pattern, Rate, Region};
    use crate::simulated::scripted::Scripted;
    use ssdlab_units::{KIB, MIB, Nanoseconds};

    /// Runs random reads for 100 seconds.
    fn run_on(drive: &mut impl StepResponder, rate: f64, depth: u32) -> PhaseResult {
        let phase = Phase {
            name: "arrivals".to_owned(),
            pattern: Pattern::Random,
            block_size: KIB * 4,
            depth,
            mix: Mix::READ,
            region: Region::first(MIB),
            amount: Amount::Time(Nanoseconds::from_secs(100)),
            rate: Some(Rate::Open(rate)),
            seed: 3,
            flush_at_end: false,
            interval: Nanoseconds::ZERO,
        };
        let mut result = PhaseResult::begun(Instant::START);
        let mut meter = ThroughputMeter::new(Nanoseconds::ZERO);
        let start = Instant::START;
        run(drive, &phase, rate, start, &mut result, &mut meter, &mut Unobserved);
        result
    }

    /// Returns the mean latency of a drive that serves one request at a time, each in the same time: an
    /// M/D/1 queue.
    fn mean_us(load: f64, depth: u32) -> f64 {
        let (mut free, service) = (Instant::START, Nanoseconds::from_micros(100));
        let mut drive = Scripted::new(|at: Instant, _| {
            free = free.max(at) + service;
            free
        });
        let result = run_on(&mut drive, load * 1e6 / 100.0, depth);
        result.read_latencies.mean().unwrap().micros()
    }

    #[test]
    fn a_drive_is_asked_in_the_order_of_time_also_when_answers_come_together() {
        // The drive answers in beats, so that several answers come at one instant.
        const BEAT: u64 = 1_000_000;
        for depth in [1, 2, 4, 32] {
            let mut asked = Instant::START;
            let mut drive = Scripted::new(|at: Instant, _| {
                assert!(at >= asked, "asked at {at:?}, after {asked:?}");
                asked = at;
                Instant::from_nanos((at.nanos() / BEAT + 1) * BEAT)
            });
            run_on(&mut drive, 3_900.0, depth);
            assert!(asked > Instant::from_nanos(99 * 1_000_000_000));
        }
    }

    /// Pollaczek-Khinchine for a fixed service time s and load r: s + s r / (2 (1 - r)).
    #[test]
    fn the_mean_is_that_of_queueing_theory() {
        for load in [0.3, 0.5, 0.7, 0.9] {
            let expected = 100.0 + 100.0 * load / (2.0 * (1.0 - load));
            for depth in [1, 64] {
                let mean = mean_us(load, depth);
                let deviation = (mean / expected - 1.0).abs();
                assert!(deviation < 0.03, "load {load}, depth {depth}: {mean}, not {expected}");
            }
        }
    }
}
