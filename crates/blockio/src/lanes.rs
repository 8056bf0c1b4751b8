//! Several lanes (jobs) on a real drive: one thread per request in flight, each sending one request at a
//! time. Threads cost more processor time than io_uring does, but requests may have any length, may be
//! due at set times, and may be flushes or trims.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ssdlab_drive::lanes::{Lane, LaneRequest, LaneResult, Operation, check_request};
use ssdlab_drive::measure::{PhaseResult, ThroughputMeter};
use ssdlab_drive::{Observer, Progress};
use ssdlab_error::{DriveError, ErrorKind};
use ssdlab_units::{ByteLength, Instant, Nanoseconds};

use super::buffers::Buffers;
use super::medium::Medium;
use super::phase_runner::{Clock, ProgressReporter, Request};
use super::synchronous::Transfer;
use super::threads::THREADS_MAX;
use crate::data::BlockData;

/// Largest number of threads over all lanes.
const IN_FLIGHT_MAX: u32 = 512;

/// State that the threads of a lane share.
struct LaneRunner<'a, 'b> {
    state: Mutex<State<'b>>,
    data: BlockData,
    context: Context<'a>,
}

/// State that all lanes share.
#[derive(Clone, Copy)]
struct Context<'a> {
    medium: &'a Medium,
    clock: &'a Clock,
    length: ByteLength,
    alignment: ByteLength,
    first_error: &'a Mutex<Option<DriveError>>,
    /// Number of the next write, counted over all lanes.
    sequence: &'a Mutex<u64>,
}

/// State of a lane under way.
struct State<'a> {
    lane: Lane<'a>,
    /// True if the source has no more requests, or the lane's time is up.
    exhausted: bool,
    /// True if requests that were taken from the source and not sent yet are dropped.
    stopped: bool,
    last_completion: Nanoseconds,
    result: LaneResult,
    meter: ThroughputMeter,
    end: Nanoseconds,
}

/// Target of the lanes, and the number of the next write.
pub(super) struct LaneTarget<'a> {
    pub(super) medium: &'a Medium,
    pub(super) length: ByteLength,
    pub(super) alignment: ByteLength,
    pub(super) sequence: &'a mut u64,
    /// Current time of the drive.
    pub(super) now: Instant,
}

/// Returns true if a lane asks for a depth above the number of threads that it can have.
pub(super) fn is_capped(lanes: &[Lane<'_>]) -> bool {
    lanes.iter().any(|lane| lane.depth > THREADS_MAX)
}

/// Runs all lanes to their end.
pub(super) fn run(
    target: LaneTarget<'_>,
    lanes: Vec<Lane<'_>>,
    observer: &mut dyn Observer,
) -> Result<Vec<LaneResult>, DriveError> {
    let threads: u32 = lanes.iter().map(|lane| lane.depth.min(THREADS_MAX)).sum();
    if threads > IN_FLIGHT_MAX {
        let message = format!(
            "{threads} requests in flight over all jobs are too many; {IN_FLIGHT_MAX} are possible \
             here"
        );
        return Err(DriveError::new(ErrorKind::Usage, message));
    }
    let expected: Option<ByteLength> = lanes.iter().map(|lane| lane.expected).sum();
    let time_total = lanes.iter().filter_map(|lane| lane.time).max();
    let (clock, first_error) = (Clock::start(), Mutex::new(None));
    let sequence = Mutex::new(*target.sequence);
    let context = Context {
        medium: target.medium,
        clock: &clock,
        length: target.length,
        alignment: target.alignment,
        first_error: &first_error,
        sequence: &sequence,
    };
    let shared: Vec<LaneRunner> =
        lanes.into_iter().map(|lane| LaneRunner::new(lane, context, &target)).collect();
    let mut reporter = ProgressReporter::new(observer);
    let mut outcome = Ok(());
    std::thread::scope(|scope| {
        let (alive, over) = channel::<()>();
        for lane in &shared {
            let depth = locked(&lane.state).lane.depth.min(THREADS_MAX);
            for _ in 0..depth {
                let alive = alive.clone();
                scope.spawn(move || lane.work(alive));
            }
        }
        drop(alive);
        while let Err(RecvTimeoutError::Timeout) =
            over.recv_timeout(Duration::from(ProgressReporter::INTERVAL))
        {
            let elapsed = clock.now();
            let bytes_done = shared.iter().map(LaneRunner::bytes).sum();
            let progress = Progress { bytes_done, bytes_total: expected, elapsed, time_total };
            if outcome.is_ok() {
                outcome = reporter.report(elapsed, || progress);
            }
            if outcome.is_err() {
                shared.iter().for_each(LaneRunner::stop);
            }
        }
    });
    *target.sequence = *locked(&sequence);
    if let Some(error) = locked(&first_error).take() {
        return Err(error);
    }
    outcome?;
    shared.into_iter().map(LaneRunner::finish).collect()
}

impl<'a, 'b> LaneRunner<'a, 'b> {
    fn new(lane: Lane<'b>, context: Context<'a>, target: &LaneTarget<'_>) -> LaneRunner<'a, 'b> {
        let begun = LaneResult::begun(PhaseResult::begun(target.now + lane.ramp));
        let data = BlockData::new(lane.seed);
        let meter = ThroughputMeter::new(lane.interval);
        let end = lane.ramp;
        let state = State {
            lane,
            exhausted: false,
            stopped: false,
            last_completion: Nanoseconds::ZERO,
            result: begun,
            meter,
            end,
        };
        LaneRunner { state: Mutex::new(state), data, context }
    }

    fn bytes(&self) -> ByteLength {
        let state = locked(&self.state);
        state.result.phase.bytes() + state.result.bytes_trimmed
    }

    fn stop(&self) {
        let mut state = locked(&self.state);
        (state.exhausted, state.stopped) = (true, true);
    }

    fn fail(&self, error: DriveError) {
        self.stop();
        locked(self.context.first_error).get_or_insert(error);
    }

    /// Sends one request after the other. An error ends all threads of this lane, and those of other
    /// lanes after their current request.
    fn work(&self, _alive: Sender<()>) {
        let mut buffers: Option<(ByteLength, Buffers)> = None;
        while locked(self.context.first_error).is_none() {
            match self.next(&mut buffers) {
                Ok(true) => {}
                Ok(false) => return,
                Err(error) => return self.fail(error),
            }
        }
        self.stop();
    }

    /// Takes the next request and executes it. Returns false if there is none.
    fn next(&self, buffers: &mut Option<(ByteLength, Buffers)>) -> Result<bool, DriveError> {
        let mut state = locked(&self.state);
        if state.exhausted {
            return Ok(false);
        }
        let Some(request) = state.lane.source.next_request()? else {
            state.exhausted = true;
            return Ok(false);
        };
        check_request(&state.lane.name, &request, self.context.length, self.context.alignment)?;
        let pause = Some(state.last_completion + request.pause);
        let until = request.due.max(pause.filter(|_| request.pause > Nanoseconds::ZERO));
        if state
            .lane
            .time
            .is_some_and(|time| self.context.clock.now().max(until.unwrap_or_default()) >= time)
        {
            state.exhausted = true;
            return Ok(false);
        }
        // Requests after a flush wait for it, so the lane stays locked during the flush.
        let held = (request.operation == Operation::Flush).then_some(state);
        if let Some(until) = until {
            while self.context.clock.now() < until {
                self.context.clock.wait_until(until);
                if held.is_none() && locked(&self.state).stopped {
                    return Ok(false);
                }
            }
        }
        let sent = self.execute(&request, buffers)?;
        let now = self.context.clock.now();
        match held {
            Some(mut state) => state.record_completion(&request, sent, now),
            None => locked(&self.state).record_completion(&request, sent, now),
        }
        Ok(true)
    }

    /// Executes a request. Returns the moment at which it was sent.
    fn execute(
        &self,
        request: &LaneRequest,
        buffers: &mut Option<(ByteLength, Buffers)>,
    ) -> Result<Nanoseconds, DriveError> {
        let (region, read) = (request.region, request.operation == Operation::Read);
        let context = &self.context;
        match request.operation {
            Operation::Flush => {
                let sent = context.clock.now();
                context.medium.handle()?.sync_data()?;
                return Ok(sent);
            }
            Operation::Trim => {
                let sent = context.clock.now();
                context.medium.trim(region)?;
                return Ok(sent);
            }
            Operation::Read | Operation::Write => {}
        }
        if buffers.as_ref().is_none_or(|(length, _)| *length < region.length) {
            *buffers = Some((region.length, Buffers::new(1, region.length)?));
        }
        let (_, buffer) = buffers.as_mut().expect("it was made just now");
        let buffer = &mut buffer.get(0)[..region.length.bytes() as usize];
        let sequence = if read {
            0
        } else {
            let mut sequence = locked(context.sequence);
            *sequence += 1;
            *sequence - 1
        };
        if !read {
            self.data.fill(buffer, region.offset, sequence);
        }
        let sent = context.clock.now();
        let request =
            Request { offset: region.offset, is_read: read, sequence, intended: request.due };
        if !read {
            context.medium.check_writable()?;
        }
        context.medium.handle()?.transfer(&request, buffer)?;
        Ok(sent)
    }

    fn finish(self) -> Result<LaneResult, DriveError> {
        let mut state = self.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        if state.lane.flush_at_end {
            let before = self.context.clock.now();
            self.context.medium.handle()?.sync_data()?;
            // Lanes are finished one after the other: only the flush itself counts.
            state.end += self.context.clock.now().saturating_sub(before);
        }
        let elapsed = state.end.saturating_sub(state.lane.ramp);
        state.result.phase.elapsed = elapsed;
        state.result.phase.throughput = state.meter.finish(elapsed);
        Ok(state.result)
    }
}

impl State<'_> {
    fn record_completion(&mut self, request: &LaneRequest, sent: Nanoseconds, now: Nanoseconds) {
        self.last_completion = now;
        if sent < self.lane.ramp {
            return;
        }
        self.end = self.end.max(now);
        self.result.count(request, now.saturating_sub(request.due.unwrap_or(sent)));
        if request.operation != Operation::Flush {
            self.meter.record(now.saturating_sub(self.lane.ramp), request.region.length);
        }
    }
}

/// Locks the mutex, even if a thread has panicked while holding it: the scope passes that panic on.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use ssdlab_drive::lanes::Listed;
    use ssdlab_drive::phase::Region;
    use ssdlab_drive::{Drive, Unobserved};
    use ssdlab_units::{KIB, MIB};

    use crate::{RealDrive, RealOptions};

    use super::*;

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

    fn request(operation: Operation, due_ms: Option<u64>, index: u64) -> LaneRequest {
        let region = Region { offset: KIB * 16 * index, length: KIB * 4 * (1 + index % 4) };
        let due = due_ms.map(Nanoseconds::from_millis);
        LaneRequest { due, pause: Nanoseconds::ZERO, operation, region }
    }

    fn run(lanes: Vec<Lane<'_>>) -> Result<Vec<LaneResult>, DriveError> {
        let directory = tempfile::tempdir().unwrap();
        let options = RealOptions {
            require_direct: false,
            reserve: Some(ByteLength::ZERO),
            ..RealOptions::default()
        };
        let mut drive = RealDrive::open(directory.path(), options).unwrap();
        drive.prepare(MIB * 4).unwrap();
        drive.run_lanes(lanes, &mut Unobserved)
    }

    #[test]
    fn requests_of_all_kinds_and_lengths_are_carried_out_and_counted() {
        let mut requests: Vec<LaneRequest> =
            (0..64).map(|index| request(Operation::Write, None, index)).collect();
        requests.insert(32, request(Operation::Flush, None, 0));
        requests.extend((0..64).map(|index| request(Operation::Read, None, index)));
        let results = run(vec![lane(requests.clone(), 4), lane(requests, 1)]).unwrap();
        for result in results {
            assert_eq!(result.phase.requests, 129);
            assert_eq!(result.flushes.count(), 1);
            assert_eq!(result.phase.bytes_written, KIB * 4 * (1 + 2 + 3 + 4) * 16);
            assert_eq!(result.phase.bytes_read, result.phase.bytes_written);
        }
    }

    #[test]
    fn requests_wait_until_they_are_due() {
        let requests =
            vec![request(Operation::Write, Some(0), 0), request(Operation::Write, Some(50), 1)];
        let results = run(vec![lane(requests, 2)]).unwrap();
        assert!(results[0].phase.elapsed >= Nanoseconds::from_millis(50));
    }

    #[test]
    fn what_lies_outside_is_refused() {
        let error = run(vec![lane(vec![request(Operation::Write, None, 1 << 20)], 1)]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Usage);
    }
}
