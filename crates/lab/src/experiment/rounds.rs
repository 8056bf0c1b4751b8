//! A workload measured in rounds of equal length until it is steady.

use ssdlab_drive::{Amount, Latencies, Pattern, Phase, PhaseResult, Region};
use ssdlab_model::counters::Counters;
use ssdlab_model::units::{ByteLength, Nanoseconds};

use super::course::Course;
use crate::error::LabError;
use crate::steady::{self, Moving, Steady, Why};

/// A round made of phases is full from this share of its length on.
const ROUND_FULL: f64 = 0.95;

/// Blocks of the very first phase, whose speed is not known.
const FIRST_BLOCKS: u64 = 256;

/// What one round measured.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Round {
    pub(super) seconds: f64,
    pub(super) requests: u64,
    pub(super) read: ByteLength,
    pub(super) written: ByteLength,
    /// Sum and sum of squares of the latencies in microseconds.
    latency: (f64, f64),
    /// What the drive's inside counted, where it can be seen.
    pub(super) inside: Option<Counters>,
}

impl Round {
    fn of(result: &PhaseResult) -> Round {
        let both = [&result.read_latencies, &result.write_latencies].map(moments);
        Round {
            seconds: result.elapsed.seconds(),
            requests: result.requests,
            read: result.bytes_read,
            written: result.bytes_written,
            latency: (both[0].0 + both[1].0, both[0].1 + both[1].1),
            inside: None,
        }
    }

    fn add(&mut self, other: &Round) {
        self.seconds += other.seconds;
        self.requests += other.requests;
        self.read += other.read;
        self.written += other.written;
        self.latency.0 += other.latency.0;
        self.latency.1 += other.latency.1;
    }

    fn bytes_per_second(&self) -> f64 {
        (self.read + self.written).bytes() as f64 / self.seconds.max(f64::MIN_POSITIVE)
    }

    pub(super) fn mb_per_second(&self) -> f64 {
        self.bytes_per_second() / 1e6
    }
}

/// Sum and sum of squares, in microseconds.
fn moments(latencies: &Latencies) -> (f64, f64) {
    let count = latencies.count() as f64;
    let Some(mean) = latencies.mean() else { return (0.0, 0.0) };
    let (mean, deviation) = (mean.micros(), latencies.histogram().stdev() / 1e3);
    (mean * count, (deviation * deviation + mean * mean) * count)
}

/// When to stop.
#[derive(Clone, Copy, Debug)]
pub(super) struct Until {
    /// Length of a round.
    pub(super) round: Nanoseconds,
    /// Not before so much time, even if it is steady.
    pub(super) at_least: Nanoseconds,
    /// Not after so much time, even if it is not.
    pub(super) at_most: Nanoseconds,
    /// Bytes to be written before a drive may be steady; zero for a workload that only reads.
    pub(super) written: ByteLength,
}

/// The rounds of one workload so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Rounds {
    pub(super) rounds: Vec<Round>,
    /// Where in its area a sequential workload goes on.
    place: ByteLength,
    /// What a sequential workload reached in the round before, in bytes a second.
    speed: f64,
}

/// What several rounds come to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Figures {
    pub(super) mb_per_second: f64,
    pub(super) iops: f64,
    pub(super) latency_mean_us: f64,
    /// Standard deviation of the latencies of single requests.
    pub(super) latency_deviation_us: f64,
    pub(super) write_amplification: Option<f64>,
}

impl Rounds {
    /// Runs `phase` round by round; `weight` is that of all rounds there may be.
    pub(super) fn run(
        &mut self,
        course: &mut Course,
        phase: &Phase,
        until: &Until,
        weight: f64,
    ) -> Result<(), LabError> {
        let most = (until.at_most.seconds() / until.round.seconds()).ceil().max(1.0);
        let least = (until.at_least.seconds() / until.round.seconds()).ceil() as usize;
        if let Some(results) = course.drive.run_rounds(phase, until.round, most as u64)? {
            self.take(course, &results, until);
            return Ok(());
        }
        for index in 0..most as usize {
            if self.rounds.len() >= least && self.judge(until).is_ok() {
                break;
            }
            let mut phase = phase.clone();
            phase.seed = phase.seed.wrapping_add((index as u64) << 32);
            let before = course.drive.inside();
            let mut round = match phase.pattern {
                Pattern::Sequential => self.on_from_here(course, &phase, until, weight / most)?,
                Pattern::Random | Pattern::RandomOnce => {
                    phase.amount = Amount::Time(until.round);
                    Round::of(&course.run(&phase, weight / most)?)
                }
            };
            round.inside = before
                .zip(course.drive.inside())
                .map(|(before, after)| after.counters.since(&before.counters));
            self.rounds.push(round);
        }
        Ok(())
    }

    /// Takes rounds that were measured in one go, as many as it would have run one by one. Their
    /// length is about that of a round, so it is time that counts, not their number.
    fn take(&mut self, course: &mut Course, results: &[PhaseResult], until: &Until) {
        for result in results {
            if self.seconds() >= until.at_least.seconds() && self.judge(until).is_ok() {
                break;
            }
            course.tally.requests += result.requests;
            course.tally.bytes += result.bytes();
            self.rounds.push(Round::of(result));
        }
    }

    /// A round of a sequential workload, which goes on where the one before ended: in as many
    /// phases as it takes, because a phase begins at the start of its region.
    fn on_from_here(
        &mut self,
        course: &mut Course,
        phase: &Phase,
        until: &Until,
        weight: f64,
    ) -> Result<Round, LabError> {
        let (block, whole) = (phase.block_size, phase.block_size * phase.blocks());
        let round_seconds = until.round.seconds();
        let mut round = Round::default();
        while round.seconds < ROUND_FULL * round_seconds {
            // As much as the speed so far lets expect, but not over the end of the area.
            let speed = if round.seconds > 0.0 { round.bytes_per_second() } else { self.speed };
            let expected = speed * (round_seconds - round.seconds);
            let blocks = match expected {
                0.0 => FIRST_BLOCKS,
                _ => (expected / block.bytes() as f64) as u64,
            };
            let rest = (whole - self.place).whole(block);
            // A phase shorter than its depth would measure its end rather than itself.
            let blocks = blocks.max(u64::from(phase.depth) * 4).min(rest);
            let mut part = phase.clone();
            part.region =
                Region { offset: phase.region.offset + self.place, length: block * blocks };
            part.amount = Amount::Bytes(block * blocks);
            let result = course.run(&part, weight * (1.0 - round.seconds / round_seconds) / 2.0)?;
            round.add(&Round::of(&result));
            self.place += part.region.length;
            if self.place == whole {
                self.place = ByteLength::ZERO;
            }
        }
        self.speed = round.bytes_per_second();
        Ok(round)
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

    /// Whether it is steady.
    pub(super) fn judge(&self, until: &Until) -> Result<Steady, Moving> {
        let missing = until.written.bytes().saturating_sub(self.written().bytes());
        let per_round = self.written().bytes() as f64 / self.rounds.len().max(1) as f64;
        let more = match per_round {
            0.0 => 0,
            per_round => (missing as f64 / per_round).ceil() as usize,
        };
        steady::judge(&self.speeds(), more)
    }

    /// The figures of the rounds from `first` on.
    pub(super) fn figures_from(&self, first: usize) -> Option<Figures> {
        let rounds = self.rounds.get(first..).filter(|rounds| !rounds.is_empty())?;
        let sum = |of: fn(&Round) -> f64| rounds.iter().map(of).sum::<f64>();
        let seconds = sum(|round| round.seconds);
        let requests = sum(|round| round.requests as f64);
        let mean = sum(|round| round.latency.0) / requests;
        let square = sum(|round| round.latency.1) / requests;
        let (mut host, mut flash) = (0, 0);
        for inside in rounds.iter().filter_map(|round| round.inside) {
            host += inside.host_write_units;
            flash += inside.flash_write_units();
        }
        Some(Figures {
            mb_per_second: sum(|round| (round.read + round.written).bytes() as f64) / 1e6 / seconds,
            iops: requests / seconds,
            latency_mean_us: mean,
            latency_deviation_us: (square - mean * mean).max(0.0).sqrt(),
            write_amplification: (host > 0).then(|| flash as f64 / host as f64),
        })
    }

    /// Speed over time: minutes, MB/s.
    pub(super) fn curve(&self) -> Vec<(f64, f64)> {
        let mut minutes = 0.0;
        let point = |round: &Round| {
            minutes += round.seconds / 60.0;
            (minutes, round.mb_per_second())
        };
        self.rounds.iter().map(point).collect()
    }

    /// Requests over time: minutes, IOPS.
    pub(super) fn curve_of_requests(&self) -> Vec<(f64, f64)> {
        let mut minutes = 0.0;
        let point = |round: &Round| {
            minutes += round.seconds / 60.0;
            (minutes, round.requests as f64 / round.seconds)
        };
        self.rounds.iter().map(point).collect()
    }

    /// What stands against steady state and how much more it takes, as words to end a sentence.
    pub(super) fn moving_words(&self, moving: &Moving) -> String {
        let count = self.rounds.len().max(1) as f64;
        let why = match moving.why {
            Why::TooFew => "there are too few rounds".to_owned(),
            Why::Written => "too little was written".to_owned(),
            Why::Drift(drift) => {
                format!("over the later half it drifted by {}", super::words::change(drift, 0))
            }
            Why::Scatter(bound) => format!(
                "it scatters so much that its drift is known only to {:.0} %",
                bound * 100.0
            ),
            Why::Change(place) => {
                let seconds: f64 = self.rounds[..place].iter().map(|round| round.seconds).sum();
                let after = crate::output::format::span(seconds);
                format!("the level changed for good after {after}")
            }
            Why::Swing(period) => {
                let seconds = self.seconds() / count * period as f64;
                let span = crate::output::format::span(seconds);
                format!("it swings with a period of {span}, too long for the time measured")
            }
        };
        let more = match moving.more_rounds {
            None => "nothing suggests when it would be".to_owned(),
            Some(more) => {
                let time = crate::output::format::span(self.seconds() / count * more as f64);
                let bytes = self.written().bytes() as f64 / count * more as f64;
                let writes = match bytes {
                    0.0 => String::new(),
                    bytes => {
                        let gigabytes = crate::output::format::significant(bytes / 1e9);
                        format!(" and {gigabytes} GB of writes")
                    }
                };
                format!("about {time} more{writes} are needed")
            }
        };
        format!("{why}; {more}")
    }
}

/// What has to be written before a drive may be steady: its flash once over, of which the rest
/// beyond the area is spare. Where the flash is not known, 7 % of spare area are assumed.
pub(super) fn flash_of(
    area: ByteLength,
    capacity: ByteLength,
    physical: Option<ByteLength>,
) -> ByteLength {
    let assumed = ByteLength::new((capacity.bytes() as f64 * 1.07) as u64);
    let physical = physical.unwrap_or(assumed);
    area + ByteLength::new(physical.bytes().saturating_sub(capacity.bytes()))
}
