//! Several lanes on a simulated drive: whichever can send first sends next, so that the drive sees
//! all requests in the order of their time.

use ssdlab_model::units::{Instant, Nanoseconds, Sector, SectorCount};

use super::in_flight::InFlight;
use super::responder::Responder;
use crate::error::{DriveError, ErrorKind};
use crate::lanes::{Lane, LaneRequest, LaneResult, Operation, check_request};
use crate::measure::{PhaseResult, ThroughputMeter};
use crate::{Control, Observer, Progress};

/// Requests between two looks at the observer.
const OBSERVE_EVERY: u64 = 1 << 14;

/// A lane under way.
struct Running<'a> {
    lane: Lane<'a>,
    in_flight: InFlight,
    /// The request that goes next, and when.
    next: Option<(Instant, LaneRequest)>,
    /// Nothing is sent before: the end of a flush.
    held_until: Instant,
    last_answer: Instant,
    result: LaneResult,
    meter: ThroughputMeter,
    /// When measuring began and ended.
    measured: (Instant, Instant),
}

impl<'a> Running<'a> {
    fn new(lane: Lane<'a>, start: Instant) -> Running<'a> {
        let from = start + lane.ramp;
        Running {
            in_flight: InFlight::new(lane.depth as usize),
            next: None,
            held_until: start,
            last_answer: start,
            result: LaneResult::begun(PhaseResult::begun(from)),
            meter: ThroughputMeter::new(lane.interval),
            measured: (from, from),
            lane,
        }
    }

    /// Fetches the next request and says when it goes.
    fn fetch(&mut self, drive: &dyn Responder, start: Instant) -> Result<(), DriveError> {
        self.next = None;
        let Some(request) = self.lane.source.next_request()? else { return Ok(()) };
        check_request(&self.lane.name, &request, drive.capacity(), drive.block_size())?;
        let mut at = self.held_until.max(start + self.in_flight.earliest());
        if let Some(due) = request.due {
            at = at.max(start + due);
        }
        if request.pause > Nanoseconds::ZERO {
            at = at.max(self.last_answer + request.pause);
        }
        if self.lane.time.is_none_or(|time| at < start + time) {
            self.next = Some((at, request));
        }
        Ok(())
    }

    /// Sends the request that was fetched.
    fn send(&mut self, drive: &mut dyn Responder, start: Instant) -> Result<(), DriveError> {
        let (at, request) = self.next.take().expect("what is sent was fetched");
        let place = self.in_flight.take_earliest();
        let (first, count) =
            (Sector::at(request.region.offset), SectorCount::of(request.region.length));
        let end = match request.operation {
            Operation::Read => drive.read(at, first, count),
            Operation::Write => drive.write(at, first, count),
            Operation::Trim if !drive.passes_trim() => {
                let message = "trim does not get through to a drive".to_owned();
                return Err(DriveError::new(ErrorKind::Unsupported, message));
            }
            Operation::Trim => drive.trim(at, first, count),
            Operation::Flush => {
                let end = drive.flush(at);
                self.held_until = end;
                end
            }
        };
        self.in_flight.enter(place, end.since(start));
        self.in_flight.check();
        self.last_answer = end;
        let intended = request.due.map_or(at, |due| start + due);
        if at >= self.measured.0 {
            self.result.count(&request, end.since(intended));
            if request.operation != Operation::Flush {
                self.meter.record(end.since(self.measured.0), request.region.length);
            }
            self.measured.1 = self.measured.1.max(end);
        }
        Ok(())
    }
}

/// Runs all lanes from `start`; returns what they measured and when the last answer came. An error
/// keeps that instant too.
pub(super) fn run(
    drive: &mut dyn Responder,
    lanes: Vec<Lane<'_>>,
    start: Instant,
    observer: &mut dyn Observer,
) -> (Result<Vec<LaneResult>, DriveError>, Instant) {
    let mut running: Vec<Running> =
        lanes.into_iter().map(|lane| Running::new(lane, start)).collect();
    let outcome = carry_out(drive, &mut running, start, observer);
    let mut end = running.iter().map(|one| start + one.in_flight.latest()).max().unwrap_or(start);
    if outcome.is_err() {
        return (outcome.map(|()| Vec::new()), end);
    }
    let mut results = Vec::with_capacity(running.len());
    for mut one in running {
        if one.lane.flush_at_end {
            end = drive.flush(end);
            one.measured.1 = one.measured.1.max(end);
        }
        let elapsed = one.measured.1.since(one.measured.0);
        one.result.phase.elapsed = elapsed;
        one.result.phase.throughput = one.meter.finish(elapsed);
        results.push(one.result);
    }
    (Ok(results), end)
}

fn carry_out(
    drive: &mut dyn Responder,
    running: &mut [Running<'_>],
    start: Instant,
    observer: &mut dyn Observer,
) -> Result<(), DriveError> {
    for one in running.iter_mut() {
        one.fetch(drive, start)?;
    }
    let expected = running.iter().map(|one| one.lane.expected).sum();
    let time_total = running.iter().filter_map(|one| one.lane.time).max();
    let refused = drive.counters().refused_writes;
    for requests in 1u64.. {
        let first = running.iter_mut().filter(|one| one.next.is_some());
        let Some(one) = first.min_by_key(|one| one.next.map(|(at, _)| at)) else { break };
        let at = one.next.map_or(start, |(at, _)| at);
        one.send(drive, start)?;
        one.fetch(drive, start)?;
        if requests.is_multiple_of(OBSERVE_EVERY) {
            let bytes_done =
                running.iter().map(|one| one.result.phase.bytes() + one.result.bytes_trimmed).sum();
            let elapsed = at.since(start);
            let progress = Progress { bytes_done, bytes_total: expected, elapsed, time_total };
            if observer.progress(&progress) == Control::Cancel {
                return Err(DriveError::cancelled());
            }
            if drive.counters().refused_writes > refused {
                return Ok(());
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use ssdlab_model::profile::Profile;
    use ssdlab_model::units::{ByteLength, KIB, MIB};

    use crate::lanes::Listed;
    use crate::phase::{Amount, Mix, Pattern, Phase, Region};
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
        // The second waits for the first, and that counts.
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
