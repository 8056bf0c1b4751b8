//! Measures a workload in rounds of equal length until steady state.

use ssdlab_drive::{Amount, Drive, Latencies, Pattern, Phase, PhaseResult};
use ssdlab_model::counters::Counters;
use ssdlab_units::{ByteLength, Nanoseconds};

use super::lows::Lows;
use super::phase_runner::PhaseRunner;
use crate::error::LabError;
use crate::steady::{self, NotSteady, Steady, UnmetCondition};

/// Minimum number of requests in a round, as a multiple of the queue depth. A round begins and ends with an
/// idle drive: its first requests do not queue, and at the end fewer and fewer are in flight. That costs half
/// a queue depth of requests, less than 1 % of a round of this length.
const REQUESTS_PER_DEPTH: f64 = 64.0;

/// Number of rounds that have to fit into the maximum time, however slow the drive: twice the minimum of
/// [`steady::judge`], so that the beginning of the workload can be left out.
const MIN_ROUNDS_IN_LIMIT: u64 = 60;

/// Factor by which all rounds together may exceed the time that was asked for. A round ends with the last answer to what is in flight, so
/// each takes a little longer than its length; on a drive that is slow for its depth, several times as long.
const MAX_OVERRUN: f64 = 1.1;

/// Results of one round.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Round {
    pub(super) seconds: f64,
    pub(super) requests: u64,
    pub(super) read: ByteLength,
    pub(super) written: ByteLength,
    /// Bytes that the drive counted as written: whole mapping units if requests are smaller and the unit is
    /// known.
    units_written: ByteLength,
    /// Sum and sum of squares of the latencies in microseconds.
    latency: (f64, f64),
    /// Counters inside a simulated drive; `None` for a real one.
    pub(super) inside: Option<Counters>,
}

impl Round {
    fn of(result: &PhaseResult) -> Round {
        let both = [&result.read_latencies, &result.write_latencies].map(latency_sums);
        Round {
            seconds: result.elapsed.seconds(),
            requests: result.requests,
            read: result.bytes_read,
            written: result.bytes_written,
            units_written: result.bytes_written,
            latency: (both[0].0 + both[1].0, both[0].1 + both[1].1),
            inside: None,
        }
    }

    fn bytes_per_second(&self) -> f64 {
        (self.read + self.written).bytes() as f64 / self.seconds.max(f64::MIN_POSITIVE)
    }

    pub(super) fn mb_per_second(&self) -> f64 {
        self.bytes_per_second() / 1e6
    }
}

/// Returns the sum and the sum of squares of the latencies, in microseconds.
fn latency_sums(latencies: &Latencies) -> (f64, f64) {
    let count = latencies.count() as f64;
    let Some(mean) = latencies.mean() else { return (0.0, 0.0) };
    let (mean, deviation) = (mean.micros(), latencies.histogram().stdev() / 1e3);
    (mean * count, (deviation * deviation + mean * mean) * count)
}

/// Conditions that end the measurement.
#[derive(Clone, Copy, Debug)]
pub(super) struct StopCondition {
    /// Length of a round, unless the drive is so slow that rounds need to be longer.
    pub(super) round: Nanoseconds,
    /// Minimum time, even if the workload is steady before.
    pub(super) at_least: Nanoseconds,
    /// Maximum time, even if the workload is not steady.
    pub(super) at_most: Nanoseconds,
    /// Expected time, for the progress.
    pub(super) expected: Nanoseconds,
    /// Bytes that must be written before the drive may count as steady; zero for a workload that only reads.
    pub(super) written: ByteLength,
}

/// Rounds of one workload so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Rounds {
    pub(super) rounds: Vec<Round>,
    /// Block at which a sequential workload continues.
    next_block: u64,
    /// Flash that was never programmed, as of the latest round; zero for a real drive.
    unused: ByteLength,
}

/// Figures of several rounds together.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Figures {
    pub(super) mb_per_second: f64,
    pub(super) iops: f64,
    pub(super) latency_mean_us: f64,
    /// Standard deviation of the latencies of single requests.
    pub(super) latency_deviation_us: f64,
    pub(super) write_amplification: Option<f64>,
}

impl Rounds {
    /// Runs `phase` round by round until steady state. `weight` is that of all expected rounds.
    pub(super) fn run(
        &mut self,
        runner: &mut PhaseRunner,
        phase: &Phase,
        stop_condition: &StopCondition,
        weight: f64,
    ) -> Result<(), LabError> {
        let count = |time: Nanoseconds, round: Nanoseconds| time.seconds() / round.seconds();
        let most = count(stop_condition.at_most, stop_condition.round).ceil().max(1.0);
        if let Some(results) = runner.drive.run_rounds(phase, stop_condition.round, most as u64)? {
            self.add_measured(runner, &results, stop_condition);
            return Ok(());
        }
        let expected =
            count(stop_condition.expected.min(stop_condition.at_most), stop_condition.round)
                .ceil()
                .max(1.0);
        let mut left = weight;
        let mut share = weight / (expected + 1.0);
        let mut length = stop_condition.round;
        let first = self.measure_round(runner, phase, (0, length), share)?;
        left -= share;
        let longer = required_round_length(&first, phase.depth, stop_condition);
        if longer > length {
            length = longer;
            share = left
                / (count(stop_condition.expected.min(stop_condition.at_most), length).ceil() + 1.0);
        } else {
            self.rounds.push(first);
        }
        let most = count(stop_condition.at_most, length).ceil().max(1.0) as usize;
        let least = count(stop_condition.at_least, length).ceil() as usize;
        for index in 1.. {
            let done = self.rounds.len();
            let judged = self.judge(stop_condition);
            let is_late = self.seconds() > stop_condition.at_most.seconds() * MAX_OVERRUN;
            if (done >= least && judged.is_ok()) || is_late || done >= most {
                break;
            }
            if done > 0 {
                let more = judged.map_or_else(|it| it.more_rounds.unwrap_or(most), |_| 0);
                let more = more.max(least.saturating_sub(done)).min(most - done);
                // As if one more were to come: so there is always some weight left.
                share = left / (more + 1) as f64;
            }
            let round = self.measure_round(runner, phase, (index, length), share)?;
            left -= share;
            self.rounds.push(round);
        }
        Ok(())
    }

    /// Measures one round, given its index and its length.
    fn measure_round(
        &mut self,
        runner: &mut PhaseRunner,
        phase: &Phase,
        (index, length): (u64, Nanoseconds),
        weight: f64,
    ) -> Result<Round, LabError> {
        let mut phase = phase.clone();
        phase.seed = phase.seed.wrapping_add(index << 32);
        phase.amount = Amount::Time(length);
        if phase.pattern.is_sequential() {
            phase.pattern = Pattern::SequentialFrom(self.next_block);
        }
        let before = runner.drive.inside();
        let result = runner.run(&phase, weight)?;
        self.next_block = (self.next_block + result.requests) % phase.blocks();
        let mut round = Round::of(&result);
        let after = runner.drive.inside();
        self.unused = after.map_or(ByteLength::ZERO, |inside| inside.unused);
        round.inside =
            before.zip(after).map(|(before, after)| after.counters.since(&before.counters));
        if let (Some(counted), Some(unit)) = (&round.inside, after.map(|it| it.unit))
            && unit > phase.block_size
        {
            round.units_written = unit * counted.host_write_units;
        }
        Ok(round)
    }

    /// Adds rounds that were measured in one go, up to steady state. The length of these rounds may differ
    /// from the set one, so the minimum is a time, not a number of rounds.
    fn add_measured(
        &mut self,
        runner: &mut PhaseRunner,
        results: &[PhaseResult],
        stop_condition: &StopCondition,
    ) {
        for result in results {
            if self.seconds() >= stop_condition.at_least.seconds()
                && self.judge(stop_condition).is_ok()
            {
                break;
            }
            runner.tally.requests += result.requests;
            runner.tally.bytes += result.bytes();
            self.rounds.push(Round::of(result));
        }
    }

    pub(super) fn speeds(&self) -> Vec<f64> {
        self.rounds.iter().map(Round::mb_per_second).collect()
    }

    pub(super) fn written(&self) -> ByteLength {
        self.rounds.iter().map(|round| round.written).sum()
    }

    pub(super) fn seconds(&self) -> f64 {
        self.rounds.iter().map(|round| round.seconds).sum()
    }

    /// Judges the rounds so far. As long as a drive has flash that was never programmed, its writes need no
    /// GC, and it seems to be steady.
    pub(super) fn judge(&self, stop_condition: &StopCondition) -> Result<Steady, NotSteady> {
        let writes = stop_condition.written > ByteLength::ZERO;
        let unused = if writes { self.unused.bytes() } else { 0 };
        let units_written: ByteLength = self.rounds.iter().map(|round| round.units_written).sum();
        let missing =
            stop_condition.written.bytes().saturating_sub(units_written.bytes()).max(unused);
        let per_round = units_written.bytes() as f64 / self.rounds.len().max(1) as f64;
        let more = match per_round {
            0.0 => 0,
            per_round => (missing as f64 / per_round).ceil() as usize,
        };
        steady::judge(&self.speeds(), more)
    }

    /// Returns the figures of the rounds from `first` on; `None` if there are no such rounds.
    pub(super) fn figures_from(&self, first: usize) -> Option<Figures> {
        let rounds = self.rounds.get(first..).filter(|rounds| !rounds.is_empty())?;
        let sum = |of: fn(&Round) -> f64| rounds.iter().map(of).sum::<f64>();
        let seconds = sum(|round| round.seconds);
        let requests = sum(|round| round.requests as f64);
        let mean = sum(|round| round.latency.0) / requests;
        let square = sum(|round| round.latency.1) / requests;
        let counted = self.counted_from(first);
        Some(Figures {
            mb_per_second: sum(|round| (round.read + round.written).bytes() as f64) / 1e6 / seconds,
            iops: requests / seconds,
            latency_mean_us: mean,
            latency_deviation_us: (square - mean * mean).max(0.0).sqrt(),
            write_amplification: counted.write_amplification(),
        })
    }

    /// Returns the counters of the rounds from `first` on; all are zero if the drive's inside is not visible.
    pub(super) fn counted_from(&self, first: usize) -> Counters {
        let rounds = self.rounds.get(first..).unwrap_or_default();
        let each = rounds.iter().filter_map(|round| round.inside);
        each.fold(Counters::default(), |sum, one| sum.plus(&one))
    }

    /// Returns the throughput curve: minutes, MB/s.
    pub(super) fn curve(&self) -> Vec<(f64, f64)> {
        let mut minutes = 0.0;
        let point = |round: &Round| {
            minutes += round.seconds / 60.0;
            (minutes, round.mb_per_second())
        };
        self.rounds.iter().map(point).collect()
    }

    /// Returns the curve of requests: minutes, IOPS.
    pub(super) fn iops_curve(&self) -> Vec<(f64, f64)> {
        let mut minutes = 0.0;
        let point = |round: &Round| {
            minutes += round.seconds / 60.0;
            (minutes, round.requests as f64 / round.seconds)
        };
        self.rounds.iter().map(point).collect()
    }

    /// Returns the sags of the requests per second, with the lowest mean over `window`; `steady` is the mean
    /// in steady state, if it was reached.
    pub(super) fn iops_lows(&self, window: Nanoseconds, steady: Option<f64>) -> Option<Lows> {
        let series = self.rounds.iter().map(|it| (it.seconds, it.requests as f64 / it.seconds));
        Lows::of(&series.collect::<Vec<_>>(), window.seconds(), steady)
    }

    /// Returns the unmet condition of steady state as the end of a sentence.
    pub(super) fn unmet_condition_text(&self, not_steady: &NotSteady) -> String {
        let count = self.rounds.len().max(1) as f64;
        match not_steady.why {
            UnmetCondition::TooFew => "there are too few rounds".to_owned(),
            UnmetCondition::Written => {
                "less was written than the drive's flash holds, and unwritten flash takes writes \
                 without garbage collection"
                    .to_owned()
            }
            UnmetCondition::Drift(drift) => {
                format!(
                    "over the later half it drifted by {}",
                    super::text_format::percent_change(drift, 0)
                )
            }
            UnmetCondition::Scatter(most) => {
                format!("it scatters so much that it may drift by {:.1} %", most * 100.0)
            }
            UnmetCondition::Change(place) => {
                let seconds: f64 = self.rounds[..place].iter().map(|round| round.seconds).sum();
                let after = crate::output::format::span(seconds);
                format!("the level changed for good after {after}")
            }
            UnmetCondition::Swing(period) => {
                let seconds = self.seconds() / count * period as f64;
                let span = crate::output::format::span(seconds);
                format!("it swings with a period of {span}, too long for the time measured")
            }
        }
    }

    /// Returns the unmet condition of steady state and the estimated further effort, as the end of a sentence.
    pub(super) fn not_steady_text(&self, not_steady: &NotSteady) -> String {
        let count = self.rounds.len().max(1) as f64;
        let why = self.unmet_condition_text(not_steady);
        let more = match not_steady.more_rounds {
            None => "the time that it still needs cannot be estimated".to_owned(),
            Some(more) => {
                let time = crate::output::format::rough_span(self.seconds() / count * more as f64);
                let bytes = self.written().bytes() as f64 / count * more as f64;
                let writes = match bytes {
                    0.0 => String::new(),
                    bytes => {
                        let gigabytes = crate::output::format::rough(bytes / 1e9);
                        format!(" and {gigabytes} GB of writes")
                    }
                };
                format!("about {time} more{writes} are needed (a longer --set limit)")
            }
        };
        format!("{why}; {more}")
    }
}

/// Returns the length that rounds need, given the first one.
fn required_round_length(first: &Round, depth: u32, stop_condition: &StopCondition) -> Nanoseconds {
    let factor = REQUESTS_PER_DEPTH * f64::from(depth) / first.requests.max(1) as f64;
    let enough = Nanoseconds::from_secs_f64(first.seconds * factor);
    let most = Nanoseconds::new(stop_condition.at_most.nanos() / MIN_ROUNDS_IN_LIMIT);
    enough.min(most).max(stop_condition.round)
}

/// Returns the bytes that rounds have to write before a drive may count as steady: the area under test and
/// the over-provisioning of the drive once. A real drive does not report how much of its flash was never
/// programmed, so it must have been written as much as its physical capacity, including the `before` bytes
/// that were written to it first. If the physical capacity is unknown, 7 % beyond the logical capacity are
/// assumed.
pub(super) fn min_bytes_to_write(
    drive: &dyn Drive,
    area: ByteLength,
    before: ByteLength,
) -> ByteLength {
    let capacity = drive.whole_capacity().unwrap_or_else(|| drive.description().capacity);
    let assumed = ByteLength::new((capacity.bytes() as f64 * 1.07) as u64);
    let physical = drive.physical_capacity().unwrap_or(assumed).bytes();
    let once = area + ByteLength::new(physical.saturating_sub(capacity.bytes()));
    if drive.inside().is_some() {
        return once;
    }
    once.max(ByteLength::new(physical.saturating_sub(before.bytes())))
}
