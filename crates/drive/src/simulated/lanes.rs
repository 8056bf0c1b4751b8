//! Several lanes on a simulated drive: the lane that can send first sends next, so that the drive receives
//! all requests in the order of time.

use ssdlab_units::{Instant, Nanoseconds, Sector, SectorCount};

use super::answer_queue::AnswerQueue;
use super::responder::{Answer, Kind, LATEST, Request, Responder, Tag};
use crate::error::{DriveError, ErrorKind};
use crate::lanes::{Lane, LaneRequest, LaneResult, Operation, check_request};
use crate::measure::{PhaseResult, ThroughputMeter};
use crate::phase::Phase;
use crate::{Control, Observer, Progress};

/// Number of answers between two calls of the observer.
const OBSERVE_EVERY: u64 = 1 << 14;

/// A request that was sent.
#[derive(Clone, Copy)]
struct Sent {
    /// The request; `None` for the flush at the lane's end, which is not one of the lane's requests.
    request: Option<LaneRequest>,
    /// Moment at which the request was meant to be sent, and moment at which it was sent.
    intended: Instant,
    at: Instant,
}

/// A running lane.
struct RunningLane<'a> {
    lane: Lane<'a>,
    /// The first tag of the lane, and the request in flight with each of its tags.
    first_tag: u32,
    in_flight: Vec<Option<Sent>>,
    free: Vec<Tag>,
    /// The next request, and the earliest moment at which it is sent.
    next: Option<(Instant, LaneRequest)>,
    /// True if a flush is in flight: later requests wait for it.
    is_flush_in_flight: bool,
    /// True if a flush is to be sent when all other requests are answered.
    needs_final_flush: bool,
    result: LaneResult,
    meter: ThroughputMeter,
    /// Moments at which measuring began and ended.
    measured: (Instant, Instant),
    last_answer: Instant,
}

impl<'a> RunningLane<'a> {
    fn new(lane: Lane<'a>, first_tag: u32, start: Instant) -> RunningLane<'a> {
        let from = start + lane.ramp;
        RunningLane {
            first_tag,
            in_flight: vec![None; lane.depth as usize],
            free: (first_tag..first_tag + lane.depth).rev().map(Tag).collect(),
            next: None,
            is_flush_in_flight: false,
            needs_final_flush: lane.flush_at_end,
            result: LaneResult::begun(PhaseResult::begun(from)),
            meter: ThroughputMeter::new(lane.interval),
            measured: (from, from),
            last_answer: start,
            lane,
        }
    }

    /// Takes the next request from the source. It is sent at `at` or when it is due.
    fn fetch_next(
        &mut self,
        drive: &dyn Responder,
        start: Instant,
        at: Instant,
    ) -> Result<(), DriveError> {
        self.next = None;
        if let Some(request) = self.lane.source.next_request()? {
            check_request(&self.lane.name, &request, drive.capacity(), drive.block_size())?;
            self.check_duration(request.due.unwrap_or_default().max(request.pause))?;
            let due = request.due.map_or(start, |due| start + due);
            self.next = Some((at.max(due), request));
            self.drop_if_after_end(start);
        }
        Ok(())
    }

    /// Returns an error for a request that would be sent later than a lane can last.
    fn check_duration(&self, since_start: Nanoseconds) -> Result<(), DriveError> {
        if since_start <= Phase::LONGEST {
            return Ok(());
        }
        let (name, days) = (&self.lane.name, Phase::LONGEST.seconds() / 86_400.0);
        let message = format!(
            "'{name}' lasts longer than {days:.0} days of the drive's time, the limit of a workload"
        );
        Err(DriveError::new(ErrorKind::Usage, message))
    }

    /// Drops the next request if it would be sent after the lane's time is over.
    fn drop_if_after_end(&mut self, start: Instant) {
        let over = |at| self.lane.time.is_some_and(|time| at >= start + time);
        if self.next.is_some_and(|(at, _)| over(at)) {
            self.next = None;
        }
    }

    fn is_blocked(&self) -> bool {
        self.is_flush_in_flight || self.free.is_empty()
    }

    /// Returns the moment at which the next request is sent, or `None` if none can be sent.
    fn next_send_time(&self) -> Option<Instant> {
        let (at, _) = self.next?;
        (!self.is_blocked()).then_some(at)
    }

    /// Sends the next request, and takes another from the source.
    fn send(&mut self, drive: &mut dyn Responder, start: Instant) -> Result<(), DriveError> {
        let (at, request) = self.next.take().expect("what is sent was fetched");
        self.check_duration(at.since(start))?;
        let intended = request.due.map_or(at, |due| start + due);
        let sent = Sent { request: Some(request), intended, at };
        let (first, count) =
            (Sector::at(request.region.offset), SectorCount::of(request.region.length));
        let kind = match request.operation {
            Operation::Read => Kind::Read,
            Operation::Write => Kind::Write,
            Operation::Flush => Kind::Flush,
            Operation::Trim if !drive.passes_trim() => {
                let message = "trim does not get through to a drive".to_owned();
                return Err(DriveError::new(ErrorKind::Unsupported, message));
            }
            Operation::Trim => Kind::Trim,
        };
        self.is_flush_in_flight = kind == Kind::Flush;
        self.submit(drive, at, Request { kind, first, count }, sent);
        self.fetch_next(drive, start, at)
    }

    fn submit(&mut self, drive: &mut dyn Responder, at: Instant, request: Request, sent: Sent) {
        let tag = self.free.pop().expect("there is room");
        self.in_flight[(tag.0 - self.first_tag) as usize] = Some(sent);
        drive.submit(at, tag, request);
    }

    /// Returns true if `tag` belongs to this lane.
    fn owns(&self, tag: Tag) -> bool {
        (self.first_tag..self.first_tag + self.lane.depth).contains(&tag.0)
    }

    /// Notes that a request of the lane is answered.
    fn note_answered(&mut self, answer: Answer, start: Instant) {
        let (tag, end) = (answer.tag, answer.at);
        let sent = self.in_flight[(tag.0 - self.first_tag) as usize].take().expect("it was sent");
        let was_blocked = self.is_flush_in_flight || self.free.is_empty();
        self.free.push(tag);
        self.last_answer = end;
        let Some(request) = sent.request else {
            self.measured.1 = self.measured.1.max(end);
            return;
        };
        let is_flush = request.operation == Operation::Flush;
        self.is_flush_in_flight &= !is_flush;
        if sent.at >= self.measured.0 {
            self.result.count(&request, end.since(sent.intended));
            if !is_flush {
                self.meter.record(end.since(self.measured.0), request.region.length);
            }
            self.measured.1 = self.measured.1.max(end);
        }
        if was_blocked && let Some((at, request)) = &mut self.next {
            *at = (*at).max(end + request.pause);
            self.drop_if_after_end(start);
        }
    }

    /// Sends the flush at the lane's end, if all its requests are answered. Other lanes need not have
    /// ended.
    fn flush_if_done(&mut self, drive: &mut dyn Responder) {
        if !self.needs_final_flush || self.next.is_some() || self.free.len() < self.in_flight.len()
        {
            return;
        }
        self.needs_final_flush = false;
        let at = self.last_answer;
        self.submit(drive, at, Request::FLUSH, Sent { request: None, intended: at, at });
    }
}

/// Runs all lanes from `start`; returns their results and the moment of the last answer, also if there was
/// an error.
pub(super) fn run(
    drive: &mut dyn Responder,
    lanes: Vec<Lane<'_>>,
    start: Instant,
    observer: &mut dyn Observer,
) -> (Result<Vec<LaneResult>, DriveError>, Instant) {
    let mut running: Vec<RunningLane> = Vec::with_capacity(lanes.len());
    for lane in lanes {
        let first_tag = running.last().map_or(0, |it| it.first_tag + it.lane.depth);
        running.push(RunningLane::new(lane, first_tag, start));
    }
    let mut answers = AnswerQueue::default();
    let outcome = run_requests(drive, &mut running, &mut answers, start, observer);
    while running.iter().any(|one| one.free.len() < one.in_flight.len()) {
        let answer = answers.next(drive, LATEST).expect("every request is answered");
        owner_of(answer.tag, &mut running).note_answered(answer, start);
    }
    let end = running.iter().map(|one| one.last_answer).max().unwrap_or(start);
    if outcome.is_err() {
        return (outcome.map(|()| Vec::new()), end);
    }
    let mut results = Vec::with_capacity(running.len());
    for mut one in running {
        let elapsed = one.measured.1.since(one.measured.0);
        one.result.phase.elapsed = elapsed;
        one.result.phase.throughput = one.meter.finish(elapsed);
        results.push(one.result);
    }
    (Ok(results), end)
}

/// Returns the lane that sent the request with `tag`.
fn owner_of<'r, 'a>(tag: Tag, running: &'r mut [RunningLane<'a>]) -> &'r mut RunningLane<'a> {
    running.iter_mut().find(|one| one.owns(tag)).expect("some lane sent it")
}

/// Returns the lane that sends next, and the moment at which it does.
fn next_to_send<'r, 'a>(
    running: &'r mut [RunningLane<'a>],
) -> Option<(Instant, &'r mut RunningLane<'a>)> {
    let next = |one: &'r mut RunningLane<'a>| one.next_send_time().map(|at| (at, one));
    running.iter_mut().filter_map(next).min_by_key(|(at, _)| *at)
}

fn run_requests(
    drive: &mut dyn Responder,
    running: &mut [RunningLane<'_>],
    answers: &mut AnswerQueue,
    start: Instant,
    observer: &mut dyn Observer,
) -> Result<(), DriveError> {
    for one in running.iter_mut() {
        one.fetch_next(drive, start, start)?;
        one.flush_if_done(drive);
    }
    let expected = running.iter().map(|one| one.lane.expected).sum();
    let time_total = running.iter().filter_map(|one| one.lane.time).max();
    let refused = drive.counters().refused_writes;
    let mut answered = 0u64;
    let is_recorded = drive.is_recorded();
    loop {
        let next_send_time = next_to_send(running).map(|(at, _)| at);
        let is_waiting = running.iter().any(|one| one.free.len() < one.in_flight.len());
        let until = next_send_time.unwrap_or(LATEST);
        let answer = is_waiting.then(|| answers.next(drive, until)).flatten();
        let Some(answer) = answer else {
            let Some((_, one)) = next_to_send(running) else { return Ok(()) };
            one.send(drive, start)?;
            continue;
        };
        let one = owner_of(answer.tag, running);
        one.note_answered(answer, start);
        one.flush_if_done(drive);
        answered += 1;
        if is_recorded {
            drive.record_if_due();
        }
        if answered.is_multiple_of(OBSERVE_EVERY) {
            let bytes_done =
                running.iter().map(|one| one.result.phase.bytes() + one.result.bytes_trimmed).sum();
            let elapsed = answer.at.since(start);
            let progress = Progress { bytes_done, bytes_total: expected, elapsed, time_total };
            if observer.progress(&progress) == Control::Cancel {
                return Err(DriveError::cancelled());
            }
            if drive.counters().refused_writes > refused {
                return Ok(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use ssdlab_model::profile::Profile;
    use ssdlab_units::{ByteLength, KIB, MIB};

    use crate::lanes::Listed;
    use crate::phase::{Amount, Mix, Pattern, Region};
    use crate::simulated::SimulatedDrive;
    use crate::{Drive, Unobserved};

    use super::*;

    fn drive() -> SimulatedDrive {
        let profile = Profile::named("generic-tlc").unwrap();
        SimulatedDrive::new("test", profile.configuration().unwrap()).unwrap()
    }

    fn lane(requests: Vec<LaneRequest>, depth: u32) -> Lane<'static> {
        Lane {
            name: "lane".to_owned(),
            source: Box::new(Listed(requests.into_iter())),
            depth,
            time: None,
            ramp: Nanoseconds::ZERO,
            interval: Nanoseconds::ZERO,
            seed: 1,
            flush_at_end: false,
            expected: None,
        }
    }

    fn request(operation: Operation, kib: u64, length_kib: u64) -> LaneRequest {
        let region = Region { offset: KIB * kib, length: KIB * length_kib };
        LaneRequest { due: None, pause: Nanoseconds::ZERO, operation, region }
    }

    fn writes(count: u64) -> Vec<LaneRequest> {
        (0..count).map(|index| request(Operation::Write, index * 64, 64)).collect()
    }

    fn run(lanes: Vec<Lane<'_>>) -> Vec<LaneResult> {
        drive().run_lanes(lanes, &mut Unobserved).unwrap()
    }

    #[test]
    fn a_lane_takes_as_long_as_the_phase_it_says_the_same_as() {
        let phase = Phase {
            name: "writes".to_owned(),
            pattern: Pattern::Sequential,
            block_size: KIB * 64,
            depth: 4,
            mix: Mix::WRITE,
            region: Region::first(MIB * 64),
            amount: Amount::Bytes(MIB * 64),
            rate: None,
            seed: 1,
            flush_at_end: true,
            interval: Nanoseconds::ZERO,
        };
        let by_phase = drive().run_phase(&phase, &mut Unobserved).unwrap();
        let mut same = lane(writes(1024), 4);
        same.flush_at_end = true;
        let by_lane = &run(vec![same])[0].phase;
        assert_eq!(by_phase.elapsed, by_lane.elapsed);
        assert_eq!(by_phase.write_latencies.mean(), by_lane.write_latencies.mean());
        assert_eq!(by_lane.bytes_written, MIB * 64);
    }

    #[test]
    fn two_lanes_share_the_drive() {
        let alone = run(vec![lane(writes(4000), 32)])[0].phase.elapsed;
        let both = run(vec![lane(writes(4000), 32), lane(writes(4000), 32)]);
        let ratio = both[0].phase.elapsed.seconds() / alone.seconds();
        assert!((1.7..2.3).contains(&ratio), "{ratio}");
    }

    #[test]
    fn a_request_goes_when_it_is_due_and_its_latency_counts_from_there() {
        let mut requests = writes(2);
        requests[0].due = Some(Nanoseconds::from_millis(5));
        requests[1].due = Some(Nanoseconds::from_millis(5));
        let queued = run(vec![lane(requests.clone(), 1)]);
        assert!(queued[0].phase.elapsed > Nanoseconds::from_millis(5));
        let latencies = queued[0].phase.write_latencies.histogram();
        // The second request waits for the first, and the waiting counts.
        assert!(
            latencies.max() > latencies.min() * 3 / 2,
            "{} {}",
            latencies.min(),
            latencies.max()
        );
        assert!(latencies.max() < 5_000_000);
    }

    #[test]
    fn what_follows_a_flush_waits_for_it_and_a_pause_is_one() {
        let mut requests = writes(2);
        requests.insert(1, request(Operation::Flush, 0, 0));
        let result = &run(vec![lane(requests, 8)])[0];
        let flush = result.flushes.mean().unwrap();
        assert!(result.phase.elapsed > flush, "the second write came behind the flush");
        let mut requests = writes(3);
        requests[2].pause = Nanoseconds::from_secs(1);
        let paused = run(vec![lane(requests, 1)]);
        assert!(paused[0].phase.elapsed > Nanoseconds::from_secs(1));
    }

    #[test]
    fn the_ramp_is_not_measured_and_the_time_ends_it() {
        let mut one = lane(writes(100_000), 4);
        one.time = Some(Nanoseconds::from_millis(200));
        one.ramp = Nanoseconds::from_millis(100);
        let result = &run(vec![one])[0];
        assert!(result.phase.requests > 0);
        let elapsed = result.phase.elapsed;
        let allowed = Nanoseconds::from_millis(90)..Nanoseconds::from_millis(150);
        assert!(allowed.contains(&elapsed), "{elapsed}");
    }

    #[test]
    fn a_flush_at_the_end_of_a_short_lane_does_not_wait_for_a_long_one() {
        let short = |flush_at_end| Lane { flush_at_end, ..lane(writes(100), 4) };
        let long = || lane(writes(4000), 4);
        let elapsed = |flush_at_end| {
            let results = run(vec![short(flush_at_end), long()]);
            (results[0].phase.elapsed.seconds(), results[1].phase.elapsed.seconds())
        };
        let ((without, _), (with, whole)) = (elapsed(false), elapsed(true));
        assert!(with > without, "the flush counts: {with} s, {without} s without");
        assert!(with < without * 1.5, "{with} s, {without} s without a flush, {whole} s for both");
        // A lane that sends nothing is flushed too, and counts nothing else.
        let none = &run(vec![Lane { flush_at_end: true, ..lane(Vec::new(), 1) }, long()])[0];
        assert_eq!((none.phase.requests, none.flushes.count()), (0, 0));
        assert!(none.phase.elapsed < Nanoseconds::from_millis(10), "{}", none.phase.elapsed);
    }

    #[test]
    fn a_time_beyond_what_a_phase_can_last_is_an_error() {
        let days = |days: u64| Nanoseconds::from_secs(days * 86_400);
        let error = |lane| drive().run_lanes(vec![lane], &mut Unobserved).unwrap_err();
        let mut requests = writes(2);
        requests[1].due = Some(days(70));
        let late = error(lane(requests.clone(), 1));
        assert_eq!(late.kind(), ErrorKind::Usage);
        assert!(late.to_string().contains("25 days"), "{late}");
        (requests[1].due, requests[1].pause) = (None, Nanoseconds::new(u64::MAX));
        assert!(error(lane(requests, 1)).to_string().contains("25 days"));
        let mut slow = writes(3);
        slow.iter_mut().for_each(|request| request.pause = days(26));
        assert!(error(lane(slow, 1)).to_string().contains("25 days"));
    }

    #[test]
    fn trims_are_counted_and_requests_outside_are_refused() {
        let result = run(vec![lane(vec![request(Operation::Trim, 0, 1024)], 1)]);
        assert_eq!((result[0].trims.count(), result[0].bytes_trimmed), (1, MIB));
        let beyond = LaneRequest {
            region: Region { offset: ByteLength::new(1 << 60), length: KIB * 4 },
            ..request(Operation::Read, 0, 4)
        };
        let error = drive().run_lanes(vec![lane(vec![beyond], 1)], &mut Unobserved).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Usage);
    }
}
