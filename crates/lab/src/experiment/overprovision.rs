//! The experiment `overprovision`: effect of over-provisioning, TRIM and RAID 1 on steady-state speed.
//!
//! A drive has five states: full, without TRIM; the same after its free space was trimmed; two in RAID 1,
//! full; two in RAID 1 with 27.24 % of their flash spare, because the end was left without a partition after
//! a secure erase, and without erased blocks; and these after random writes. In each state, sequential and
//! random reads and writes run on an area of 40 GB, in steady state only, random writes for at least 30
//! minutes. The protocol is that of an article on Habr (242199) on two Samsung 840 Pro of 512 GB, without the
//! last state.
//!
//! The state before a measurement matters as much as the spare: after a sequential fill the data of the area
//! has blocks of its own, and soon the whole spare to itself; after random writes over the whole drive each
//! block holds a little of it. So the state before is part of the result, and is named there.

mod findings;
mod state;

use ssdlab_drive::simulated::{PurgeMethod, TrimEnd};
use ssdlab_drive::{Amount, Description, Drive, DriveKind, Mix, Pattern, Phase, Region};
use ssdlab_units::{ByteLength, MIB, Nanoseconds};

use super::lows::{self, Lows};
use super::phase_runner::PhaseRunner;
use super::rounds::{Figures, Rounds, StopCondition};
use super::trials::{self, Start, Trial};
use super::{DrivesInMemory, Experiment, Kind, ParameterSpec, Plan, Record, Settings, Watcher};
use crate::error::LabError;
use crate::report::{Cell, Column, Table};
use crate::steady::{NotSteady, UnmetCondition};
use state::{Sizes, State};

/// The experiment `overprovision`.
pub struct OverProvision;

const PARAMETERS: [ParameterSpec; 8] = [
    ParameterSpec {
        name: "area",
        kind: Kind::Length,
        full: "40GB",
        quick: "40GB",
        help: "area under test, of a drive of 512 GB; smaller in proportion on a smaller one",
    },
    ParameterSpec {
        name: "used",
        kind: Kind::Factor,
        full: "1",
        quick: "1",
        help: "number of random overwrites after the sequential fill, except for raid1_spare",
    },
    ParameterSpec {
        name: "free",
        kind: Kind::Percent,
        full: "25",
        quick: "25",
        help: "share of the drive that is free, and trimmed in the trimmed state",
    },
    ParameterSpec {
        name: "spare",
        kind: Kind::Factor,
        full: "27.24",
        quick: "27.24",
        help: "over-provisioning in the spare states, in percent of the flash",
    },
    ParameterSpec {
        name: "depth",
        kind: Kind::Count,
        full: "32",
        quick: "32",
        help: "requests in flight",
    },
    ParameterSpec {
        name: "time",
        kind: Kind::Duration,
        full: "30m",
        quick: "20s",
        help: "minimum duration of the random writes",
    },
    ParameterSpec {
        name: "limit",
        kind: Kind::Duration,
        full: "2h",
        quick: "60s",
        help: "time limit for reaching steady state",
    },
    ParameterSpec {
        name: "states",
        kind: Kind::Word,
        full: "all",
        quick: "all",
        help: "states to measure, such as full,trimmed; all for each that the drive can reach",
    },
];

/// Minimum time: in less, rounds have too few requests to judge.
const MIN_TIME: Nanoseconds = Nanoseconds::from_millis(10);

/// Number of rounds in the shortest time of a run.
const ROUNDS_PER_TIME: u64 = 180;

/// Number of windows of the lowest mean in the shortest time of a run.
const WINDOWS_PER_TIME: u64 = 30;

/// Divisor of the time for reads, which reach steady state soon.
const READS_SHARE: u64 = 10;

/// Minimum length of a round of reads. It begins with an idle drive, so its first requests do not queue, and
/// it has to be long compared with them.
const MIN_READ_ROUND: Nanoseconds = Nanoseconds::from_millis(100);

/// Length of sequential requests.
const SEQUENTIAL_REQUEST: ByteLength = ByteLength::new(128 << 10);
/// Length of random requests.
const RANDOM_REQUEST: ByteLength = ByteLength::new(4 << 10);

/// Operation that is measured in each state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operation {
    SeqRead,
    RandRead,
    SeqWrite,
    RandWrite,
}

impl Operation {
    const ALL: [Operation; 4] =
        [Operation::SeqRead, Operation::RandRead, Operation::SeqWrite, Operation::RandWrite];

    fn name(self) -> &'static str {
        match self {
            Operation::SeqRead => "seq_read",
            Operation::RandRead => "rand_read",
            Operation::SeqWrite => "seq_write",
            Operation::RandWrite => "rand_write",
        }
    }

    fn is_random(self) -> bool {
        matches!(self, Operation::RandRead | Operation::RandWrite)
    }

    /// Returns the length of the requests.
    fn request(self) -> ByteLength {
        if self.is_random() { RANDOM_REQUEST } else { SEQUENTIAL_REQUEST }
    }

    /// Returns the name in sentences.
    fn words(self) -> &'static str {
        match self {
            Operation::SeqRead => "sequential reads",
            Operation::RandRead => "random reads",
            Operation::SeqWrite => "sequential writes",
            Operation::RandWrite => "random writes",
        }
    }

    fn is_read(self) -> bool {
        matches!(self, Operation::SeqRead | Operation::RandRead)
    }
}

/// Results of one operation in one state.
#[derive(Clone, Debug)]
struct Measured {
    state: State,
    operation: Operation,
    /// Share of the flash without valid data; `None` if the physical capacity is unknown.
    spare: Option<f64>,
    /// `None` if the series moves: its mean would be meaningless.
    figures: Option<Figures>,
    /// Reason why the figures are not of steady state; `None` if they are.
    unsteady: Option<Unsteady>,
    /// Sags of the requests per second.
    lows: Option<Lows>,
    /// Curve of minutes and IOPS.
    curve: Vec<(f64, f64)>,
}

impl Measured {
    fn is_steady(&self) -> bool {
        self.unsteady.is_none()
    }
}

/// Reason why there is no steady state.
#[derive(Clone, Debug)]
struct Unsteady {
    /// True if the series does not move so far, but too little was written to be sure.
    is_level: bool,
    words: String,
}

impl Unsteady {
    fn of(rounds: &Rounds, not_steady: &NotSteady) -> Unsteady {
        Unsteady {
            is_level: not_steady.why == UnmetCondition::Written,
            words: rounds.not_steady_text(not_steady),
        }
    }
}

/// Returns true if the rounds show that the speed changes; false if there is too little data.
fn is_moving(not_steady: &NotSteady) -> bool {
    matches!(
        not_steady.why,
        UnmetCondition::Drift(_) | UnmetCondition::Change(_) | UnmetCondition::Swing(_)
    )
}

struct Protocol {
    sizes: Sizes,
    depth: u32,
    time: Nanoseconds,
    limit: Nanoseconds,
    seed: u64,
}

impl Protocol {
    fn new(settings: &Settings, seed: u64, drive: &Description) -> Result<Protocol, LabError> {
        let sizes = Sizes::new(settings, drive)?;
        Ok(Protocol {
            sizes,
            depth: settings.count("depth"),
            time: settings.duration("time"),
            limit: settings.duration("limit"),
            seed,
        })
    }

    fn plan(&self, histories: &[Vec<State>]) -> Plan {
        let drives = |state: &State| if state.is_pair() { 2 } else { 1 };
        let prepared = histories.len() as u64;
        let states: u64 = histories.iter().flatten().map(drives).sum();
        Plan {
            sequential_writes: self.sizes.capacity * prepared,
            large_random_writes: self.sizes.used * prepared,
            writing: (self.time + self.limit) * states,
            reading: self.time * states / READS_SHARE,
            // Sequential writes and random writes.
            until_steady: 2 * states,
            space: self.sizes.capacity,
            block_sizes: vec![SEQUENTIAL_REQUEST, RANDOM_REQUEST],
            // The drive, its two copies in RAID 1, and a copy of both for each operation.
            drives: DrivesInMemory { throughout: 0, per_copy: 5, copies: histories.len() as u32 },
            ..Plan::default()
        }
    }

    /// Returns the window of the lowest mean: a minute if random writes take half an hour.
    fn window(&self) -> Nanoseconds {
        Nanoseconds::new(self.time.nanos() / WINDOWS_PER_TIME)
    }

    fn phase(&self, operation: Operation) -> Phase {
        let random = operation.is_random();
        Phase {
            name: operation.name().to_owned(),
            pattern: if random { Pattern::Random } else { Pattern::Sequential },
            block_size: operation.request(),
            depth: self.depth,
            mix: if operation.is_read() { Mix::READ } else { Mix::WRITE },
            region: Region::first(self.sizes.area),
            amount: Amount::Time(self.time),
            rate: None,
            seed: self.seed.wrapping_mul(1_000).wrapping_add(operation as u64),
            flush_at_end: false,
            interval: Nanoseconds::ZERO,
        }
    }

    fn stop_condition(&self, operation: Operation, spare: Option<ByteLength>) -> StopCondition {
        let round = Nanoseconds::new((self.time.nanos() / ROUNDS_PER_TIME).max(1));
        match operation {
            Operation::SeqRead | Operation::RandRead => StopCondition {
                round: Nanoseconds::new(round.nanos() / READS_SHARE).max(MIN_READ_ROUND).min(round),
                at_least: Nanoseconds::ZERO,
                at_most: self.time,
                expected: self.time,
                written: ByteLength::ZERO,
            },
            Operation::SeqWrite | Operation::RandWrite => StopCondition {
                round,
                at_least: match operation {
                    Operation::RandWrite => self.time,
                    _ => Nanoseconds::ZERO,
                },
                at_most: self.limit.max(self.time),
                expected: self.limit.max(self.time),
                written: self.sizes.area + spare.unwrap_or(self.sizes.area),
            },
        }
    }

    /// Preconditions a drive for the first of `states`, and measures it in each of them.
    fn measure(
        &self,
        states: &[State],
        runner: &mut PhaseRunner,
        measured: &mut Vec<Measured>,
    ) -> Result<(), LabError> {
        let physical = runner.drive.physical_capacity();
        let share = (1.0 - PRECONDITIONING_SHARE) / states.len() as f64;
        let mut before = None;
        for &state in states {
            let weight = PRECONDITIONING_SHARE;
            state.precondition(before, &self.sizes, physical, self.seed, runner, weight)?;
            before = Some(state);
            if state.is_pair() {
                self.measure_pair(state, physical, runner, share, measured)?;
                continue;
            }
            state.trim(&self.sizes, physical, runner)?;
            self.measure_all(state, physical, runner, share, measured)?;
        }
        Ok(())
    }

    /// Measures two copies of the drive in RAID 1.
    fn measure_pair(
        &self,
        state: State,
        physical: Option<ByteLength>,
        runner: &mut PhaseRunner,
        share: f64,
        measured: &mut Vec<Measured>,
    ) -> Result<(), LabError> {
        let template = runner.drive.template().expect("pairs are made of copies");
        let mut pair = template.mirrored();
        let weights = runner.weights();
        let mut copy_runner = PhaseRunner::new(&mut *pair, runner.watcher, weights);
        let outcome = self.measure_all(state, physical, &mut copy_runner, share, measured);
        let tally = copy_runner.tally;
        runner.tally.add(tally);
        outcome
    }

    fn measure_all(
        &self,
        state: State,
        physical: Option<ByteLength>,
        runner: &mut PhaseRunner,
        weight: f64,
        measured: &mut Vec<Measured>,
    ) -> Result<(), LabError> {
        let share = weight / Operation::ALL.len() as f64;
        let bytes_with_data = self.sizes.bytes_with_data(state, physical);
        for operation in Operation::ALL {
            let spare = physical.map(|physical| {
                ByteLength::new(physical.bytes().saturating_sub(bytes_with_data.bytes()))
            });
            let stop_condition = self.stop_condition(operation, spare);
            let rounds = self.rounds(operation, &stop_condition, runner, share)?;
            let verdict = rounds.judge(&stop_condition);
            // Without steady state, the later half is shown, with a remark.
            let first =
                verdict.as_ref().map_or(rounds.rounds.len() / 2, |steady| steady.window.start);
            let Some(figures) = rounds.figures_from(first) else { continue };
            let is_moving = verdict.as_ref().is_err_and(is_moving);
            let level = verdict.is_ok().then_some(figures.iops);
            measured.push(Measured {
                state,
                operation,
                spare: spare
                    .zip(physical)
                    .map(|(spare, physical)| spare.bytes() as f64 / physical.bytes() as f64),
                figures: (!is_moving).then_some(figures),
                unsteady: verdict.err().map(|not_steady| Unsteady::of(&rounds, &not_steady)),
                lows: rounds.iops_lows(self.window(), level),
                curve: rounds.iops_curve(),
            });
        }
        Ok(())
    }

    /// Runs the rounds of one operation, on a copy of the drive if it can be copied, so that each operation
    /// begins in the same state.
    fn rounds(
        &self,
        operation: Operation,
        stop_condition: &StopCondition,
        runner: &mut PhaseRunner,
        weight: f64,
    ) -> Result<Rounds, LabError> {
        let mut rounds = Rounds::default();
        let phase = self.phase(operation);
        let copy = runner.drive.template().map(|template| template.copy());
        let Some(mut copy) = copy else {
            rounds.run(runner, &phase, stop_condition, weight)?;
            return Ok(rounds);
        };
        let (before, began) = (copy.inside(), copy.now());
        let weights = runner.weights();
        let mut copy_runner = PhaseRunner::new(&mut *copy, runner.watcher, weights);
        let outcome = rounds.run(&mut copy_runner, &phase, stop_condition, weight);
        let mut tally = copy_runner.tally;
        tally.finished_drives.extend(super::phase_runner::since(copy.inside(), before));
        tally.time_on_copies += copy.now().since(began);
        runner.tally.add(tally);
        outcome.map(|()| rounds)
    }
}

/// Share of the progress for preconditioning a drive.
const PRECONDITIONING_SHARE: f64 = 0.4;

/// Groups `states` by the preconditioning they share. If each operation runs on a copy of the drive,
/// measuring a state does not change the drive, and the next state can begin from it: first full, then two
/// copies in RAID 1, at last trimmed; of those with an unwritten end first the one that is not overwritten.
fn histories(states: &[State], has_copies: bool) -> Vec<Vec<State>> {
    let mut ordered = states.to_vec();
    if has_copies {
        ordered.sort_by_key(|state| {
            let is_last = matches!(state, State::Trimmed | State::Raid1SpareUsed);
            (state.has_unwritten_end(), is_last)
        });
    }
    let can_continue = |before: &State, state: &State| has_copies && state.can_follow(*before);
    ordered.chunk_by(can_continue).map(<[State]>::to_vec).collect()
}

impl Experiment for OverProvision {
    fn name(&self) -> &'static str {
        "overprovision"
    }

    fn question(&self) -> &'static str {
        "What does over-provisioning do for steady-state speed, and what do TRIM and RAID 1 do to it?"
    }

    fn source(&self) -> &'static str {
        "Habr 242199, on writes to a RAID of two Samsung 840 Pro 512 GB"
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

    fn check(&self, settings: &mut Settings) -> Result<(), LabError> {
        super::check_time(settings, "time")?;
        super::check_time(settings, "limit")?;
        asked(settings)?;
        let wrong = |name, why: &str| {
            let value = settings.text(name).to_owned();
            Err(LabError::Range { name, value, why: why.to_owned() })
        };
        if settings.duration("time") < MIN_TIME {
            return wrong("time", "it must be at least 10 ms: its rounds are a 180th of it");
        }
        if !(1..=99).contains(&settings.percent("free")) {
            return wrong("free", "it must be from 1 to 99");
        }
        if settings.factor("spare") <= 0.0 {
            return wrong("spare", "it must be more than 0");
        }
        Ok(())
    }

    fn plan(&self, settings: &Settings, drive: &Description) -> Result<Plan, LabError> {
        // The states with two drives require a simulated drive.
        let has_copies = drive.kind == DriveKind::Simulated;
        let states: Vec<State> =
            asked(settings)?.into_iter().filter(|state| has_copies || !state.is_pair()).collect();
        if states.is_empty() {
            return Err(unreachable(settings));
        }
        let histories = histories(&states, has_copies);
        Ok(Protocol::new(settings, 0, drive)?.plan(&histories))
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
        let protocol = Protocol::new(settings, seed, &description)?;
        let can_pair = can_pair(drive);
        let can_trim = drive.simulated().is_none_or(|drive| {
            let path = drive.trim_path();
            path.end != TrimEnd::Ignored && path.layers.iter().all(|(_, passed)| *passed)
        });
        let can_reach = |state: &State| {
            (can_pair || !state.is_pair()) && (can_trim || *state != State::Trimmed)
        };
        let (states, left_out): (Vec<State>, Vec<State>) =
            asked(settings)?.into_iter().partition(can_reach);
        if states.is_empty() {
            return Err(unreachable(settings));
        }
        drive.prepare(protocol.sizes.capacity)?;
        let trials: Vec<Trial<Vec<State>>> = histories(&states, drive.template().is_some())
            .into_iter()
            .map(|states| Trial {
                name: format!("states, {}", states[0].name()),
                weight: states.len() as f64,
                workload: states,
            })
            .collect();
        let mut runner =
            PhaseRunner::new(drive, watcher, states.len() as f64).with_threads(settings.threads());
        let start = Start::New(Region::first(protocol.sizes.capacity));
        let work = |states: &Vec<State>, runner: &mut PhaseRunner, measured: &mut Vec<Measured>| {
            protocol.measure(states, runner, measured)
        };
        let done = trials::run(&mut runner, start, &trials, &work);
        runner.finish(record);
        let mut measured: Vec<Measured> = done.results.into_iter().flatten().collect();
        measured.sort_by_key(|one| State::ALL.iter().position(|state| *state == one.state));
        tabulate(&measured, record);
        for one in measured.iter().filter(|one| one.operation == Operation::RandWrite) {
            let name = format!("random_write_{}", one.state.name());
            record.add_series(name, ("min", "IOPS"), &one.curve);
        }
        findings::conclude(&protocol.sizes, &left_out, &measured, done.on_copies, record);
        done.purge.add_finding(record);
        record.add_shortened_finding(settings);
        done.outcome
    }
}

/// Returns the states to measure. Without random overwrites no state is one of an overwritten pair.
fn asked(settings: &Settings) -> Result<Vec<State>, LabError> {
    let text = settings.text("states");
    let mut states = State::parse_list(text)?;
    if settings.factor("used") == 0.0 {
        states.retain(|state| *state != State::Raid1SpareUsed);
    }
    if states.is_empty() {
        return Err(LabError::Range {
            name: "states",
            value: text.to_owned(),
            why: "with used=0 no drive is overwritten; name raid1_spare".to_owned(),
        });
    }
    Ok(states)
}

/// Returns the error of states that this drive cannot be brought into.
fn unreachable(settings: &Settings) -> LabError {
    LabError::Range {
        name: "states",
        value: settings.text("states").to_owned(),
        why: "this drive cannot be brought into any of them: pairs in RAID 1 are made of copies of a \
              simulated drive, and trimmed takes a drive that trims reach"
            .to_owned(),
    }
}

/// Returns true if copies of the purged drive can be put into RAID 1.
fn can_pair(drive: &mut dyn Drive) -> bool {
    let from_factory =
        drive.simulated().is_none_or(|drive| drive.purge_method() == PurgeMethod::Factory);
    from_factory && drive.template().is_some() && drive.physical_capacity().is_some()
}

fn tabulate(measured: &[Measured], record: &mut Record) {
    let columns = vec![
        Column::new("state", ""),
        Column::new("operation", ""),
        Column::new("spare_percent", "%"),
        Column::new("iops", "IOPS"),
        Column::new("mb_per_s", "MB/s"),
        Column::new("latency_mean_us", "us"),
        Column::new("latency_stddev_us", "us"),
        Column::new("write_amplification", ""),
        Column::new("steady", ""),
    ];
    let rows = measured
        .iter()
        .map(|one| {
            let of = |figure: fn(&Figures) -> f64| Cell::from(one.figures.as_ref().map(figure));
            let amplification = one.figures.as_ref().and_then(|it| it.write_amplification);
            vec![
                Cell::from(one.state.name()),
                Cell::from(one.operation.name()),
                Cell::from(one.spare.map(|spare| spare * 100.0)),
                of(|figures| figures.iops),
                of(|figures| figures.mb_per_second),
                of(|figures| figures.latency_mean_us),
                of(|figures| figures.latency_deviation_us),
                Cell::from(amplification),
                Cell::from(one.is_steady()),
            ]
        })
        .collect();
    record.tables.push(Table { name: "states".to_owned(), columns, rows });
    let mut columns = vec![Column::new("state", ""), Column::new("operation", "")];
    columns.extend(lows::columns());
    let row = |one: &Measured| {
        let mut row = vec![Cell::from(one.state.name()), Cell::from(one.operation.name())];
        row.extend(one.lows.as_ref()?.cells(one.operation.request()));
        Some(row)
    };
    let rows = measured.iter().filter_map(row).collect();
    record.tables.push(Table { name: "lows".to_owned(), columns, rows });
}

/// Returns the length rounded down to whole MiB.
fn whole_mib(bytes: f64) -> ByteLength {
    MIB * (bytes / MIB.bytes() as f64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_that_are_written_alike_are_written_once_where_a_drive_can_be_copied() {
        use State::{Full, Raid1Full, Raid1Spare, Raid1SpareUsed, Trimmed};
        let of_copies = histories(&State::ALL, true);
        let with_spare = vec![Raid1Spare, Raid1SpareUsed];
        assert_eq!(of_copies, [vec![Full, Raid1Full, Trimmed], with_spare]);
        assert_eq!(histories(&State::ALL[..2], false), [[Full], [Trimmed]]);
    }
}
