//! Phase runner, the same for all engines: it decides which request is due when, when the phase is over,
//! and collects the results.

use std::time::{Duration, Instant as SystemInstant};

use ssdlab_units::{ByteLength, Instant, Nanoseconds};

use ssdlab_drive::addresses::{Addresses, BlockRequest};
use ssdlab_drive::arrivals::Arrivals;
use ssdlab_drive::measure::{LatencyCounts, PhaseResult, ThroughputMeter};
use ssdlab_drive::phase::{Amount, Phase, Rate};
use ssdlab_drive::{Control, Observer, Progress};
use ssdlab_error::DriveError;

/// Monotonic time since a start.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock(SystemInstant);

/// Usual inaccuracy of a sleep: this last part of a wait is spent spinning.
const SLEEP_SLACK: Nanoseconds = Nanoseconds::from_micros(100);

impl Clock {
    /// Starts a clock now.
    pub(super) fn start() -> Self {
        Clock(SystemInstant::now())
    }

    #[inline]
    pub(super) fn now(&self) -> Nanoseconds {
        self.0.elapsed().into()
    }

    /// Waits until `until`, or for [`ProgressReporter::INTERVAL`] if that is sooner.
    pub(super) fn wait_until(&self, until: Nanoseconds) {
        let now = self.now();
        let until = until.min(now + ProgressReporter::INTERVAL);
        let asleep = until.saturating_sub(now).saturating_sub(SLEEP_SLACK);
        if asleep > Nanoseconds::ZERO {
            std::thread::sleep(Duration::from(asleep));
        }
        while self.now() < until {
            std::hint::spin_loop();
        }
    }

    /// Returns how long a wait for `until` may sleep before it has to spin.
    #[cfg(target_os = "linux")]
    pub(super) fn sleep_time(now: Nanoseconds, until: Nanoseconds) -> Nanoseconds {
        let span = until.saturating_sub(now).saturating_sub(SLEEP_SLACK);
        span.min(ProgressReporter::INTERVAL)
    }
}

/// Calls the observer every `ProgressReporter::INTERVAL`, or later if a request takes longer.
pub(super) struct ProgressReporter<'a> {
    observer: &'a mut dyn Observer,
    next: Nanoseconds,
}

impl<'a> ProgressReporter<'a> {
    /// Time between two calls of the observer.
    pub(super) const INTERVAL: Nanoseconds = Nanoseconds::from_millis(100);

    pub(super) fn new(observer: &'a mut dyn Observer) -> Self {
        ProgressReporter { observer, next: Nanoseconds::ZERO }
    }

    /// Reports progress to the observer, if it is time to. Returns an error if the observer cancels.
    #[inline]
    pub(super) fn report(
        &mut self,
        now: Nanoseconds,
        progress: impl FnOnce() -> Progress,
    ) -> Result<(), DriveError> {
        if now < self.next {
            return Ok(());
        }
        self.next = now + ProgressReporter::INTERVAL;
        match self.observer.progress(&progress()) {
            Control::Continue => Ok(()),
            Control::Cancel => Err(DriveError::cancelled()),
        }
    }
}

/// Number of times the phase's duration after which an open loop ends that the drive is too slow for,
/// though not all requests that have arrived were sent.
const OVERRUN_FACTOR: u64 = 2;

/// One request in flight.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    /// Byte at which the request begins.
    pub(super) offset: ByteLength,
    /// True for a read.
    pub(super) is_read: bool,
    /// Number of the write, counted over all writes of the drive; meaningless for a read.
    pub(super) sequence: u64,
    /// Intended start, if a rate is set.
    pub(super) intended: Option<Nanoseconds>,
}

/// Next step of an engine.
pub(super) enum Step {
    /// Send this request.
    Send(Request),
    /// Wait: nothing is due before this moment.
    Wait(Nanoseconds),
    /// Nothing more will be sent.
    Done,
}

/// Number of requests that are drawn together: drawn one by one, each would wait for its own computation.
const BATCH: usize = 32;

/// State of a phase under way.
pub(super) struct PhaseRunner {
    addresses: Addresses,
    /// Requests drawn ahead; `batch_used` of them were sent.
    batch: [BlockRequest; BATCH],
    batch_used: usize,
    start_of_region: ByteLength,
    block_size: ByteLength,
    requests_left: u64,
    deadline: Nanoseconds,
    spacing: Option<f64>,
    arrivals: Option<Arrivals>,
    sent: u64,
    sequence: u64,
    result: PhaseResult,
    reads: LatencyCounts,
    writes: LatencyCounts,
    meter: ThroughputMeter,
    bytes_total: Option<ByteLength>,
    time_total: Option<Nanoseconds>,
}

impl PhaseRunner {
    /// Starts `phase`, which must be valid. Its writes are numbered from `sequence` on.
    pub(super) fn new(phase: &Phase, sequence: u64) -> Self {
        let (requests_left, time_total) = match phase.amount {
            Amount::Bytes(bytes) => (bytes.whole(phase.block_size), None),
            Amount::Time(time) => (u64::MAX, Some(time)),
        };
        let spacing = phase.rate.and_then(|rate| match rate {
            Rate::RequestsPerSecond(rate) => Some(1e9 / rate),
            Rate::BytesPerSecond(rate) => Some(1e9 * phase.block_size.bytes() as f64 / rate),
            Rate::Open(_) => None,
        });
        let arrivals = match phase.rate {
            Some(Rate::Open(rate)) => Some(Arrivals::new(rate, phase.seed)),
            _ => None,
        };
        PhaseRunner {
            addresses: Addresses::new(phase),
            batch: [BlockRequest { block: 0, read: false }; BATCH],
            batch_used: BATCH,
            start_of_region: phase.region.offset,
            block_size: phase.block_size,
            requests_left,
            deadline: time_total.unwrap_or(Nanoseconds::new(u64::MAX)),
            spacing,
            arrivals,
            sent: 0,
            sequence,
            result: PhaseResult::begun(Instant::START),
            reads: LatencyCounts::new(),
            writes: LatencyCounts::new(),
            meter: ThroughputMeter::new(phase.interval),
            bytes_total: phase.bytes_total(),
            time_total,
        }
    }

    /// Ends the phase after `time`, even if its amount is not reached by then.
    pub(super) fn limit_time(&mut self, time: Nanoseconds) {
        self.deadline = self.deadline.min(time);
    }

    /// Stops sending.
    pub(super) fn stop(&mut self) {
        self.requests_left = 0;
    }

    /// Returns the next step at `now`, which counts from the start of the phase.
    #[inline]
    pub(super) fn next(&mut self, now: Nanoseconds) -> Step {
        // Requests that arrived before the end are sent, however late.
        if self.requests_left == 0 || (now >= self.deadline && self.arrivals.is_none()) {
            return Step::Done;
        }
        let mut intended = None;
        if let Some(arrivals) = &mut self.arrivals {
            let due = arrivals.next();
            if due >= self.deadline
                || now.nanos() >= self.deadline.nanos().saturating_mul(OVERRUN_FACTOR)
            {
                return Step::Done;
            }
            if due > now {
                return Step::Wait(due);
            }
            arrivals.advance();
            intended = Some(due);
        }
        if let Some(spacing) = self.spacing {
            // Each start follows from the count of requests, so that a late request delays no later one.
            let due = Nanoseconds::new((self.sent as f64 * spacing) as u64);
            if due >= self.deadline {
                return Step::Done;
            }
            if due > now {
                return Step::Wait(due);
            }
            intended = Some(due);
        }
        if self.batch_used == BATCH {
            self.addresses.draw(&mut self.batch);
            self.batch_used = 0;
        }
        let next = self.batch[self.batch_used];
        self.batch_used += 1;
        self.requests_left -= 1;
        self.sent += 1;
        let sequence = self.sequence;
        self.sequence += u64::from(!next.read);
        Step::Send(Request {
            offset: self.start_of_region + self.block_size * next.block,
            is_read: next.read,
            sequence,
            intended,
        })
    }

    /// Records a request that was sent at `sent` and answered at `now`.
    ///
    /// If a rate is set, latency counts from the intended start: a request that is sent late because the
    /// drive is behind waits for the drive.
    #[inline]
    pub(super) fn record_completion(
        &mut self,
        request: &Request,
        sent: Nanoseconds,
        now: Nanoseconds,
    ) {
        let latency = now.saturating_sub(request.intended.unwrap_or(sent));
        if request.is_read {
            self.reads.record(latency);
            self.result.bytes_read += self.block_size;
        } else {
            self.writes.record(latency);
            self.result.bytes_written += self.block_size;
        }
        self.result.requests += 1;
        self.meter.record(now, self.block_size);
    }

    pub(super) fn progress(&self, elapsed: Nanoseconds) -> Progress {
        Progress {
            bytes_done: self.result.bytes(),
            bytes_total: self.bytes_total,
            elapsed,
            time_total: self.time_total,
        }
    }

    /// Returns the number of the next write.
    pub(super) fn sequence(&self) -> u64 {
        self.sequence
    }

    /// Returns the result of a phase that began at `started` and took `elapsed`.
    pub(super) fn finish(mut self, started: Instant, elapsed: Nanoseconds) -> PhaseResult {
        self.reads.add_to(&mut self.result.read_latencies);
        self.writes.add_to(&mut self.result.write_latencies);
        self.result.started = started;
        self.result.elapsed = elapsed;
        self.result.throughput = self.meter.finish(elapsed);
        self.result
    }
}

#[cfg(test)]
mod tests {
    use ssdlab_drive::phase::{Mix, Pattern, Region};
    use ssdlab_units::KIB;

    use super::*;

    fn phase(amount: Amount, rate: Option<Rate>) -> Phase {
        Phase {
            name: "test".into(),
            pattern: Pattern::Sequential,
            block_size: KIB * 4,
            depth: 1,
            mix: Mix::WRITE,
            region: Region { offset: KIB * 64, length: KIB * 16 },
            amount,
            rate,
            seed: 1,
            flush_at_end: false,
            interval: Nanoseconds::ZERO,
        }
    }

    #[test]
    fn blocks_lie_in_the_region_and_writes_are_numbered_on() {
        let mut runner = PhaseRunner::new(&phase(Amount::Bytes(KIB * 24), None), 100);
        let mut sent = Vec::new();
        while let Step::Send(request) = runner.next(Nanoseconds::ZERO) {
            sent.push((request.offset.bytes() / 1024, request.sequence));
        }
        let expected = [(64, 100), (68, 101), (72, 102), (76, 103), (64, 104), (68, 105)];
        assert_eq!(sent, expected);
        assert_eq!(runner.sequence(), 106);
    }

    #[test]
    fn what_arrives_by_itself_is_sent_though_it_is_late() {
        let rate = Some(Rate::Open(1000.0));
        let mut runner =
            PhaseRunner::new(&phase(Amount::Time(Nanoseconds::from_millis(100)), rate), 0);
        let (mut now, mut sent) = (Nanoseconds::ZERO, 0);
        loop {
            match runner.next(now) {
                Step::Done => break,
                Step::Wait(until) => now = until,
                Step::Send(request) => {
                    assert!(request.intended.unwrap() <= now);
                    sent += 1;
                    // A drive that takes 1.5 ms for requests that come every millisecond.
                    now += Nanoseconds::from_micros(1500);
                }
            }
        }
        assert!((70..135).contains(&sent), "{sent} requests");
        assert!(now > Nanoseconds::from_millis(100), "{now}");
    }

    #[test]
    fn a_rate_sets_the_intended_starts_and_latency_counts_from_them() {
        let rate = Some(Rate::RequestsPerSecond(1000.0));
        let mut runner = PhaseRunner::new(&phase(Amount::Bytes(KIB * 12), rate), 0);
        let Step::Send(_) = runner.next(Nanoseconds::ZERO) else {
            panic!("the first request is due at once");
        };
        let Step::Wait(until) = runner.next(Nanoseconds::from_micros(10)) else {
            panic!("the second one is not due yet");
        };
        assert_eq!(until, Nanoseconds::from_millis(1));
        // The drive delayed the loop: both requests are due, and keep their intended start.
        let late = Nanoseconds::from_millis(5);
        for due in [1, 2] {
            let Step::Send(request) = runner.next(late) else {
                panic!("two requests are overdue");
            };
            assert_eq!(request.intended, Some(Nanoseconds::from_millis(due)));
            runner.record_completion(&request, late, late + Nanoseconds::from_micros(7));
        }
        let result = runner.finish(Instant::START, late);
        let mean = result.write_latencies.mean();
        assert_eq!(mean, Some(Nanoseconds::from_micros(3507)));
    }

    #[test]
    fn a_drive_that_answers_at_once_is_sent_what_the_rate_allows_in_the_time() {
        let rate = Some(Rate::RequestsPerSecond(200.0));
        let mut runner =
            PhaseRunner::new(&phase(Amount::Time(Nanoseconds::from_millis(400)), rate), 0);
        let (mut now, mut sent) = (Nanoseconds::ZERO, 0);
        loop {
            match runner.next(now) {
                Step::Done => break,
                Step::Wait(until) => now = until,
                Step::Send(_) => sent += 1,
            }
        }
        // One request every 5 ms, the first directly.
        assert_eq!((sent, now), (80, Nanoseconds::from_millis(395)));
    }

    #[test]
    fn nothing_is_sent_after_the_time_is_up() {
        let time = Amount::Time(Nanoseconds::from_millis(3));
        let mut runner = PhaseRunner::new(&phase(time, None), 0);
        assert!(matches!(runner.next(Nanoseconds::new(2_999_999)), Step::Send(_)));
        assert!(matches!(runner.next(Nanoseconds::from_millis(3)), Step::Done));
        // A start that lies behind the end is not waited for.
        let slow = Some(Rate::RequestsPerSecond(100.0));
        let mut runner = PhaseRunner::new(&phase(time, slow), 0);
        assert!(matches!(runner.next(Nanoseconds::ZERO), Step::Send(_)));
        assert!(matches!(runner.next(Nanoseconds::ZERO), Step::Done));
    }
}
