//! The experiment `steady`: throughput and latency of one workload in steady state.
//!
//! The drive is purged, filled sequentially, and runs one workload in rounds until our rule of steady state
//! holds (`crate::steady`); the result of the SNIA Performance Test Specification's rule is reported beside
//! it. With `time` the workload is measured once for that long. Purge, preconditioning by sequential writes
//! of twice the capacity in requests of 128 KiB, and rounds of one minute are those of the specification (PTS
//! 2.0.2).

mod single;

use ssdlab_drive::{Amount, Description, Drive, Mix, Pattern, Phase, Region};
use ssdlab_units::{ByteLength, Nanoseconds};

use super::phase_runner::{PhaseRunner, PurgeOutcome};
use super::rounds::{self, Rounds, StopCondition};
use super::theory_comparison::{ProgramRatios, SteadyVerdict};
use super::{
    Experiment, Kind, ParameterSpec, Plan, Record, Settings, Watcher, text_format, workload,
};
use crate::error::LabError;
use crate::output::format::{significant, span};
use crate::report::{Cell, Column, Level, Table};
use crate::steady::{NotSteady, Steady, snia};

/// The experiment `steady`.
pub struct SteadyState;

const PARAMETERS: [ParameterSpec; 9] = [
    workload::PATTERN,
    workload::BLOCK,
    ParameterSpec {
        name: "depth",
        kind: Kind::Count,
        full: "32",
        quick: "32",
        help: "requests in flight",
    },
    ParameterSpec {
        name: "read_percent",
        kind: Kind::Percent,
        full: "0",
        quick: "0",
        help: "reads per hundred requests",
    },
    workload::AREA,
    ParameterSpec {
        name: "fill",
        kind: Kind::Factor,
        full: "2",
        quick: "1",
        help: "number of sequential fills before the measurement; 0 takes the drive as it is",
    },
    ParameterSpec {
        name: "time",
        kind: Kind::Duration,
        full: "0s",
        quick: "0s",
        help: "duration of a single measurement, steady or not; 0s measures rounds until steady",
    },
    ParameterSpec {
        name: "round",
        kind: Kind::Duration,
        full: "1m",
        quick: "2s",
        help: "length of a round",
    },
    ParameterSpec {
        name: "limit",
        kind: Kind::Duration,
        full: "24h",
        quick: "3m",
        help: "time limit for reaching steady state",
    },
];

/// Length of the requests of the sequential fill.
pub(super) const FILL_REQUEST: ByteLength = ByteLength::new(128 << 10);

/// Assumed throughput of sequential writes, and of random writes in steady state, for the progress.
const FILL_BYTES_PER_SECOND: f64 = 500e6;
const STEADY_BYTES_PER_SECOND: f64 = 100e6;

struct Protocol {
    phase: Phase,
    fill: ByteLength,
    stop_condition: StopCondition,
    /// Time of a single measurement; zero to measure in rounds.
    time: Nanoseconds,
}

impl Protocol {
    fn new(settings: &Settings, seed: u64, drive: &Description) -> Result<Protocol, LabError> {
        let phase = workload::phase(
            settings,
            seed,
            drive,
            workload::mix(settings),
            ("rounds", settings.duration("round")),
        )?;
        let area = phase.region.length;
        let reads_only = phase.mix == Mix::READ;
        let fill = (area.bytes() as f64 * settings.factor("fill")) as u64;
        Ok(Protocol {
            phase,
            fill: FILL_REQUEST * (fill / FILL_REQUEST.bytes()),
            time: settings.duration("time"),
            stop_condition: StopCondition {
                round: settings.duration("round"),
                at_least: Nanoseconds::ZERO,
                at_most: settings.duration("limit"),
                expected: settings.duration("limit"),
                // Set to `rounds::min_bytes_to_write` when the drive is open.
                written: if reads_only { ByteLength::ZERO } else { area },
            },
        })
    }

    fn writes(&self) -> bool {
        self.phase.mix.read_percent < 100
    }

    /// Returns the expected time of the workload, for the progress.
    fn expected(&self) -> Nanoseconds {
        if self.is_single() { self.time } else { self.stop_condition.expected }
    }

    /// Returns the maximum time of the workload.
    fn limit(&self) -> Nanoseconds {
        if self.is_single() { self.time } else { self.stop_condition.at_most }
    }

    /// Returns true if the workload is measured once instead of in rounds.
    fn is_single(&self) -> bool {
        self.time > Nanoseconds::ZERO
    }

    fn plan(&self) -> Plan {
        let limit = self.limit();
        let none = Nanoseconds::ZERO;
        Plan {
            sequential_writes: self.fill,
            writing: if self.writes() { limit } else { none },
            reading: if self.writes() { none } else { limit },
            timed_requests: (vec![self.phase.block_size], self.phase.depth),
            until_steady: u64::from(!self.is_single()),
            space: self.phase.region.length,
            block_sizes: vec![self.phase.block_size, FILL_REQUEST],
            ..Plan::default()
        }
    }
}

/// Returns the phase that fills `region` sequentially with `amount` bytes in all.
pub(super) fn fill(region: Region, amount: ByteLength, seed: u64) -> Phase {
    Phase {
        name: "sequential fill".to_owned(),
        pattern: Pattern::Sequential,
        block_size: FILL_REQUEST,
        depth: 8,
        mix: Mix::WRITE,
        region,
        amount: Amount::Bytes(amount),
        rate: None,
        seed,
        flush_at_end: true,
        interval: Nanoseconds::ZERO,
    }
}

impl Experiment for SteadyState {
    fn name(&self) -> &'static str {
        "steady"
    }

    fn question(&self) -> &'static str {
        "How fast is a workload in steady state, and when does it get there?"
    }

    fn source(&self) -> &'static str {
        "SNIA Solid State Storage Performance Test Specification 2.0.2, with a stricter rule beside"
    }

    fn parameters(&self) -> &'static [ParameterSpec] {
        &PARAMETERS
    }

    fn accepts_block_devices(&self) -> bool {
        true
    }

    fn scales_with_capacity(&self) -> bool {
        true
    }

    /// With `time`, the run consists of the workload alone.
    fn checks_plausibility(&self, settings: &Settings) -> bool {
        settings.duration("time") == Nanoseconds::ZERO
    }

    fn check(&self, settings: &mut Settings) -> Result<(), LabError> {
        super::check_time(settings, "round")?;
        super::check_time(settings, "limit")?;
        if settings.duration("time") > Nanoseconds::ZERO {
            return super::check_time(settings, "time");
        }
        let (round, limit) = (settings.duration("round"), settings.duration("limit"));
        if limit.seconds() / round.seconds() > ROUNDS_MAX {
            return Err(LabError::Range {
                name: "round",
                value: settings.text("round").to_owned(),
                why: format!("the limit would hold more than {ROUNDS_MAX} such rounds"),
            });
        }
        Ok(())
    }

    fn plan(&self, settings: &Settings, drive: &Description) -> Result<Plan, LabError> {
        Ok(Protocol::new(settings, 0, drive)?.plan())
    }

    fn run(
        &self,
        settings: &Settings,
        seed: u64,
        drive: &mut dyn Drive,
        record: &mut Record,
        watcher: &mut dyn Watcher,
    ) -> Result<(), LabError> {
        let description = drive.description();
        let mut protocol = Protocol::new(settings, seed, &description)?;
        if protocol.writes() {
            let area = protocol.phase.region.length;
            let written = rounds::min_bytes_to_write(drive, area, protocol.fill);
            let expected = written.bytes() as f64 / STEADY_BYTES_PER_SECOND;
            protocol.stop_condition.written = written;
            protocol.stop_condition.expected =
                Nanoseconds::from_secs_f64(expected).min(protocol.stop_condition.at_most);
        }
        let fill_weight = protocol.fill.bytes() as f64 / FILL_BYTES_PER_SECOND;
        let weight = protocol.expected().seconds();
        let mut runner = PhaseRunner::new(drive, watcher, fill_weight + weight);
        let mut rounds = Rounds::default();
        let mut once = None;
        let mut purge = PurgeOutcome::New;
        let outcome = (|| {
            let region = protocol.phase.region;
            runner.drive.prepare(region.length)?;
            if protocol.fill > ByteLength::ZERO {
                purge = runner.purge(region)?;
                runner.precondition(&fill(region, protocol.fill, seed), fill_weight)?;
            }
            if protocol.is_single() {
                once = Some(single::run(&mut runner, &protocol.phase, protocol.time, weight)?);
                return Ok(());
            }
            rounds.run(&mut runner, &protocol.phase, &protocol.stop_condition, weight)
        })();
        runner.finish(record);
        conclude(&protocol, &rounds, outcome.is_ok(), record);
        if let Some(result) = &once {
            single::conclude(result, record);
        }
        purge.add_finding(record);
        record.add_shortened_finding(settings);
        outcome
    }
}

/// Maximum number of rounds. More are taken for a typing error.
const ROUNDS_MAX: f64 = 100_000.0;

/// Adds the results of the rounds. `has_ended` is false if the run was interrupted: then a drive that is not
/// steady might have become so.
fn conclude(protocol: &Protocol, rounds: &Rounds, has_ended: bool, record: &mut Record) {
    if rounds.rounds.is_empty() {
        return;
    }
    let verdict = rounds.judge(&protocol.stop_condition);
    record.tally.apply_verdict(match &verdict {
        Ok(steady) => {
            SteadyVerdict::Steady(ProgramRatios::of(&rounds.counted_from(steady.window.start)))
        }
        Err(_) => SteadyVerdict::NotSteady,
    });
    let snia = snia::first_met(&rounds.speeds());
    let steady = verdict.as_ref().ok().and_then(|it| rounds.figures_from(it.window.start));
    let lows = rounds.iops_lows(protocol.stop_condition.round, steady.map(|it| it.iops));
    tabulate(rounds, &verdict, snia, record);
    let sags = lows.and_then(|lows| lows.add_table("Requests", protocol.phase.block_size, record));
    record.add_series("throughput".to_owned(), ("min", "MB/s"), &rounds.curve());
    draw_amplification(rounds, record);
    match &verdict {
        Ok(steady) => steady_finding(rounds, steady, record),
        Err(not_steady) if !has_ended => {
            let text = format!(
                "Steady state was not reached in the {} that were measured: {}.",
                span(rounds.seconds()),
                rounds.unmet_condition_text(not_steady)
            );
            return record.add_finding(Level::Notice, "not-reached", text);
        }
        Err(not_steady) => record.add_finding(
            Level::Warning,
            "not-reached",
            format!(
                "Steady state was not reached in {}: {}. No mean is given, since the speed still \
                 changes.",
                span(rounds.seconds()),
                rounds.not_steady_text(not_steady)
            ),
        ),
    }
    if let Some(words) = sags {
        record.add_finding(Level::Notice, "sags", words);
    }
    snia_finding(rounds, &verdict, snia, record);
}

fn steady_finding(rounds: &Rounds, steady: &Steady, record: &mut Record) {
    let Some(figures) = rounds.figures_from(steady.window.start) else { return };
    record.add_finding(
        Level::Info,
        "steady",
        format!(
            "Steady after {}: {}, {} IOPS. The mean of the later half is known within {} %, and \
             from its beginning to its end the speed drifted by {}.",
            span(rounds.seconds()),
            text_format::throughput(figures.mb_per_second),
            significant(figures.iops),
            // Rounds may be nearly equal; the error is reported as at least 0.01 %.
            crate::output::format::rough((steady.half_width / steady.mean * 100.0).max(0.01)),
            text_format::percent_change(steady.drift, 1)
        ),
    );
}

/// Adds the result of the SNIA rule.
fn snia_finding(
    rounds: &Rounds,
    verdict: &Result<Steady, NotSteady>,
    snia: Option<(usize, f64)>,
    record: &mut Record,
) {
    let Some((count, mean)) = snia else {
        let text = "The five-round rule of the SNIA PTS is not met either.".to_owned();
        return match verdict {
            Ok(_) => record.add_finding(
                Level::Info,
                "snia-not-met",
                "The five-round rule of the SNIA PTS is never met: single rounds differ by more \
                 than it allows."
                    .to_owned(),
            ),
            Err(_) => record.add_finding(Level::Info, "snia-not-met", text),
        };
    };
    let seconds: f64 = rounds.rounds[..count].iter().map(|round| round.seconds).sum();
    let compared = match verdict {
        Ok(steady) => match text_format::percent_change(mean / steady.mean - 1.0, 0) {
            none if none == "0 %" => ", the speed once steady".to_owned(),
            change => format!(", {change} from the speed once steady"),
        },
        Err(_) => String::new(),
    };
    record.add_finding(
        Level::Info,
        "snia",
        format!(
            "The five-round rule of the SNIA PTS is met after {} already, at {}{compared}.",
            span(seconds),
            text_format::throughput(mean)
        ),
    );
}

fn tabulate(
    rounds: &Rounds,
    verdict: &Result<Steady, NotSteady>,
    snia: Option<(usize, f64)>,
    record: &mut Record,
) {
    let columns = vec![
        Column::new("rule", ""),
        Column::new("reached", ""),
        Column::new("after_minutes", "min"),
        Column::new("written_gb", "GB"),
        Column::new("mb_per_s", "MB/s"),
        Column::new("plus_minus_mb_per_s", "MB/s"),
        Column::new("iops", "IOPS"),
        Column::new("latency_mean_us", "us"),
        Column::new("write_amplification", ""),
    ];
    let effort_until = |count: usize| {
        let part = &rounds.rounds[..count];
        let seconds: f64 = part.iter().map(|round| round.seconds).sum();
        let written: ByteLength = part.iter().map(|round| round.written).sum();
        [Cell::from(seconds / 60.0), Cell::from(written.bytes() as f64 / 1e9)]
    };
    let row = |rule: &str, is_reached: bool, count: usize, rest: [Cell; 5]| {
        let mut row = vec![Cell::from(rule), Cell::from(is_reached)];
        row.extend(effort_until(count));
        row.extend(rest);
        row
    };
    let none = || [(); 5].map(|()| Cell::Null);
    let all = rounds.rounds.len();
    let ours = match verdict {
        Ok(steady) => rounds.figures_from(steady.window.start).map(|figures| {
            [
                Cell::from(figures.mb_per_second),
                Cell::from(steady.half_width),
                Cell::from(figures.iops),
                Cell::from(figures.latency_mean_us),
                Cell::from(figures.write_amplification),
            ]
        }),
        Err(_) => None,
    };
    let theirs = snia.map(|(_, mean)| {
        let mut cells = none();
        cells[0] = Cell::from(mean);
        cells
    });
    let rows = vec![
        row("drift bound", verdict.is_ok(), all, ours.unwrap_or_else(none)),
        row(
            "SNIA PTS, five rounds",
            snia.is_some(),
            snia.map_or(all, |(count, _)| count),
            theirs.unwrap_or_else(none),
        ),
    ];
    record.tables.push(Table { name: "steady".to_owned(), columns, rows });
}

fn draw_amplification(rounds: &Rounds, record: &mut Record) {
    let mut minutes = 0.0;
    let points: Vec<(f64, f64)> = rounds
        .rounds
        .iter()
        .filter_map(|round| {
            minutes += round.seconds / 60.0;
            Some((minutes, round.inside?.write_amplification()?))
        })
        .collect();
    record.add_series("write_amplification".to_owned(), ("min", "x"), &points);
}
