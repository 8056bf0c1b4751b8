//! Converts fio's results of a script's jobs to results of the experiment's steps.

use ssdlab_drive::{Latencies, PhaseResult, ThroughputPoint};
use ssdlab_interchange::fio::json::{FioJob, Interval};
use ssdlab_units::{ByteLength, Instant, Nanoseconds};

use crate::error::LabError;

/// Results of one step.
pub(super) struct StepResult {
    pub(super) step: usize,
    pub(super) result: PhaseResult,
    /// Rounds: the intervals between fio's reports.
    pub(super) rounds: Vec<PhaseResult>,
}

/// Returns the step that a job belongs to, and its results.
pub(super) fn step_result(job: &FioJob) -> Result<StepResult, LabError> {
    let wrong = |why: &str| LabError::Unsupported(format!("job {}: {why}", job.name));
    let number = job.name.split('-').next().and_then(|number| number.parse::<usize>().ok());
    let number = number.and_then(|number| number.checked_sub(1));
    let step = number.ok_or_else(|| wrong("its name does not begin with the number of a step"))?;
    let [read, write, ..] = &job.sides;
    let longest = read.seconds.max(write.seconds);
    if longest <= 0.0 {
        return Err(wrong("fio reports a runtime of 0"));
    }
    let mut result = PhaseResult::begun(Instant::START);
    result.elapsed = Nanoseconds::from_secs_f64(longest);
    result.requests = read.requests + write.requests;
    result.bytes_read = ByteLength::new(read.bytes);
    result.bytes_written = ByteLength::new(write.bytes);
    for (side, latencies) in
        [(read, &mut result.read_latencies), (write, &mut result.write_latencies)]
    {
        if side.requests > 0 && side.bins.is_empty() {
            return Err(wrong("it has no histogram; fio writes one with --output-format=json+"));
        }
        fill(&side.bins, latencies);
    }
    let mut before = 0.0;
    for &(seconds, mb_per_second) in &job.curve {
        let length = seconds - before;
        result.throughput.push(ThroughputPoint {
            until: Nanoseconds::from_secs_f64(seconds),
            bytes: ByteLength::new((mb_per_second * 1e6 * length) as u64),
            length: Nanoseconds::from_secs_f64(length),
        });
        before = seconds;
    }
    Ok(StepResult { step, result, rounds: rounds(&job.intervals) })
}

/// Minimum length of the last interval, as a share of the first, to count as a round. A shorter one is only
/// the end of the job.
const MIN_ROUND_SHARE: f64 = 0.5;

/// Returns the intervals between fio's reports as rounds.
fn rounds(intervals: &[Interval]) -> Vec<PhaseResult> {
    let usual = intervals.first().map_or(0.0, |first| first.seconds);
    let is_round = |interval: &&Interval| interval.seconds >= usual * MIN_ROUND_SHARE;
    intervals.iter().filter(is_round).map(round).collect()
}

fn round(interval: &Interval) -> PhaseResult {
    let [read, write, _] = &interval.parts;
    let mut result = PhaseResult::begun(Instant::START);
    result.elapsed = Nanoseconds::from_secs_f64(interval.seconds);
    result.requests = read.requests + write.requests;
    result.bytes_read = ByteLength::new(read.bytes);
    result.bytes_written = ByteLength::new(write.bytes);
    fill(&read.bins, &mut result.read_latencies);
    fill(&write.bins, &mut result.write_latencies);
    result
}

fn fill(bins: &[(u64, u64)], latencies: &mut Latencies) {
    for &(nanos, count) in bins {
        latencies.record_many(Nanoseconds::new(nanos), count);
    }
}
