//! The experiment `blocksize`: throughput over the request size, on a new and on a preconditioned drive.
//!
//! Aligned requests of 512 bytes to 1 MiB at queue depth 4, five minutes for each size: sequential and random
//! reads of a used drive, sequential writes to a new one and to a used one, on the whole drive without
//! partitions or file system. A used drive is one to which 1.5 times its capacity was written randomly in
//! requests of 64 KiB. The protocol is that of a test of a Kingston SSDNow V 64 GB in KompyuterPress 01/2011
//! (S. Pakhomov).
//!
//! The random writes visit every block once before any block twice. Otherwise a fifth of a new drive would
//! stay unwritten after 1.5 capacities, and reads of unwritten blocks are answered without a flash read.

mod findings;

use ssdlab_drive::{Amount, Description, Drive, Mix, Pattern, Phase, Region};
use ssdlab_units::{ByteLength, Nanoseconds};

use super::phase_runner::{PhaseRunner, PurgeOutcome};
use super::trials::{self, Start, Trial};
use super::{DrivesInMemory, Experiment, Kind, ParameterSpec, Plan, Record, Settings, Watcher};
use crate::error::LabError;
use crate::report::{Cell, Column, Table};

/// The experiment `blocksize`.
pub struct BlockSize;

const PARAMETERS: [ParameterSpec; 5] = [
    ParameterSpec {
        name: "sizes",
        kind: Kind::Lengths,
        full: "512,1K,2K,4K,8K,16K,32K,64K,128K,256K,512K,1M",
        quick: "512,1K,2K,4K,8K,16K,32K,64K,128K,256K,512K,1M",
        help: "request sizes; those the drive does not take are left out",
    },
    ParameterSpec {
        name: "time",
        kind: Kind::Duration,
        full: "5m",
        quick: "1s",
        help: "duration of each operation with each size",
    },
    ParameterSpec {
        name: "depth",
        kind: Kind::Count,
        full: "4",
        quick: "4",
        help: "requests in flight",
    },
    ParameterSpec {
        name: "area",
        kind: Kind::Area,
        full: "all",
        quick: "2G",
        help: "area under test, from the start of the drive",
    },
    ParameterSpec {
        name: "used",
        kind: Kind::Factor,
        full: "1.5",
        quick: "1.5",
        help: "preconditioning of the used drive: random writes, in multiples of the area",
    },
];

/// Length of the random writes that precondition the drive.
const PRECONDITIONING_REQUEST: ByteLength = ByteLength::new(64 << 10);

/// Assumed throughput of random writes of 64 KiB, for the progress.
const ASSUMED_RANDOM_SPEED: f64 = 100e6;

/// Measured operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operation {
    SeqRead,
    RandRead,
    SeqWriteNew,
    SeqWriteUsed,
}

impl Operation {
    /// All operations, in the order of the report.
    const ALL: [Operation; 4] =
        [Operation::SeqRead, Operation::RandRead, Operation::SeqWriteNew, Operation::SeqWriteUsed];

    /// Returns the name in tables.
    fn name(self) -> &'static str {
        match self {
            Operation::SeqRead => "seq_read",
            Operation::RandRead => "rand_read",
            Operation::SeqWriteNew => "seq_write_new",
            Operation::SeqWriteUsed => "seq_write_used",
        }
    }

    /// Returns the name in sentences.
    fn words(self) -> &'static str {
        match self {
            Operation::SeqRead => "sequential read",
            Operation::RandRead => "random read",
            Operation::SeqWriteNew => "sequential write to a new drive",
            Operation::SeqWriteUsed => "sequential write to a used drive",
        }
    }

    fn pattern(self) -> Pattern {
        if self == Operation::RandRead { Pattern::Random } else { Pattern::Sequential }
    }

    fn mix(self) -> Mix {
        match self {
            Operation::SeqRead | Operation::RandRead => Mix::READ,
            Operation::SeqWriteNew | Operation::SeqWriteUsed => Mix::WRITE,
        }
    }
}

/// The steps of a run, derived from its settings and the drive.
#[derive(Clone, Debug)]
struct Protocol {
    sizes: Vec<ByteLength>,
    /// Sizes that the drive does not support.
    skipped: Vec<ByteLength>,
    time: Nanoseconds,
    depth: u32,
    area: ByteLength,
    /// Bytes written randomly to precondition the drive.
    used: ByteLength,
}

impl Protocol {
    fn new(settings: &Settings, drive: &Description) -> Result<Protocol, LabError> {
        let area = settings.area("area", drive)?;
        let (sizes, skipped): (Vec<_>, Vec<_>) = settings
            .lengths("sizes")
            .into_iter()
            .partition(|size| size.is_multiple_of(drive.block_size) && *size <= area);
        if sizes.is_empty() {
            return Err(LabError::Unsupported(format!(
                "{}: none of the request sizes fits; the drive takes multiples of {}",
                drive.name, drive.block_size
            )));
        }
        let used = area.bytes() as f64 * settings.factor("used");
        Ok(Protocol {
            sizes,
            skipped,
            time: settings.duration("time"),
            depth: settings.count("depth"),
            area,
            used: PRECONDITIONING_REQUEST * (used as u64 / PRECONDITIONING_REQUEST.bytes()),
        })
    }

    fn region(&self) -> Region {
        Region::first(self.area)
    }

    fn plan(&self) -> Plan {
        let each = self.time * self.sizes.len() as u64;
        Plan {
            large_random_writes: self.used,
            writing: each * 2,
            timed_requests: (self.sizes.clone(), self.depth),
            reading: each * 2,
            space: self.area,
            block_sizes: self.sizes.iter().copied().chain([PRECONDITIONING_REQUEST]).collect(),
            drives: DrivesInMemory { throughout: 1, per_copy: 1, copies: self.sizes.len() as u32 },
            ..Plan::default()
        }
    }

    fn weights(&self) -> f64 {
        let trials = Operation::ALL.len() * self.sizes.len();
        self.time.seconds() * trials as f64 + self.preconditioning_weight()
    }

    fn preconditioning_weight(&self) -> f64 {
        self.used.bytes() as f64 / ASSUMED_RANDOM_SPEED
    }

    fn preconditioning_phase(&self, seed: u64) -> Phase {
        Phase {
            name: "random writes, to make it a used drive".to_owned(),
            pattern: Pattern::RandomOnce,
            block_size: PRECONDITIONING_REQUEST,
            depth: self.depth,
            mix: Mix::WRITE,
            region: self.region(),
            amount: Amount::Bytes(self.used),
            rate: None,
            seed: seed.wrapping_mul(1_000),
            flush_at_end: true,
            interval: Nanoseconds::ZERO,
        }
    }

    fn phase(&self, operation: Operation, size: ByteLength, seed: u64) -> Phase {
        Phase {
            name: format!("{}, {size}", operation.words()),
            pattern: operation.pattern(),
            block_size: size,
            depth: self.depth,
            mix: operation.mix(),
            region: self.region(),
            amount: Amount::Time(self.time),
            rate: None,
            seed: seed.wrapping_mul(1_000).wrapping_add(size.bytes()),
            flush_at_end: false,
            interval: Nanoseconds::ZERO,
        }
    }

    fn trials(&self, operation: Operation, seed: u64) -> Vec<Trial<Phase>> {
        self.sizes
            .iter()
            .map(|&size| self.phase(operation, size, seed))
            .map(|phase| Trial {
                name: phase.name.clone(),
                weight: self.time.seconds(),
                workload: phase,
            })
            .collect()
    }
}

/// Result of one operation with one size.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Measured {
    operation: Operation,
    size: ByteLength,
    mb_per_second: f64,
    iops: f64,
    /// Units relocated by GC during the measurement; `None` if the drive does not show its counters.
    moved: Option<u64>,
}

impl Experiment for BlockSize {
    fn name(&self) -> &'static str {
        "blocksize"
    }

    fn question(&self) -> &'static str {
        "How does throughput depend on the size of requests, and does use change it?"
    }

    fn source(&self) -> &'static str {
        "KompyuterPress 01/2011, S. Pakhomov, test of the Kingston SSDNow V 64 GB"
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
        super::check_time(settings, "time")
    }

    fn plan(&self, settings: &Settings, drive: &Description) -> Result<Plan, LabError> {
        Ok(Protocol::new(settings, drive)?.plan())
    }

    fn run(
        &self,
        settings: &Settings,
        seed: u64,
        drive: &mut dyn Drive,
        record: &mut Record,
        watcher: &mut dyn Watcher,
    ) -> Result<(), LabError> {
        let protocol = Protocol::new(settings, &drive.description())?;
        let mut runner =
            PhaseRunner::new(drive, watcher, protocol.weights()).with_threads(settings.threads());
        let mut measured = Vec::new();
        let mut state = State::default();
        let outcome = execute(&protocol, seed, &mut runner, &mut measured, &mut state);
        runner.finish(record);
        tabulate(&measured, record);
        if outcome.is_err() {
            // Operations that were not measured with all sizes get no findings.
            let of = |operation| move |one: &&Measured| one.operation == operation;
            let is_whole =
                |operation| measured.iter().filter(of(operation)).count() == protocol.sizes.len();
            let whole = Operation::ALL.into_iter().filter(|&operation| is_whole(operation));
            let whole: Vec<Operation> = whole.collect();
            measured.retain(|one| whole.contains(&one.operation));
        }
        findings::conclude(&protocol, &measured, &state, settings, record);
        outcome
    }
}

/// State of the drive during the measurements.
#[derive(Clone, Copy, Debug, Default)]
struct State {
    /// Purge before each size; `None` before the first.
    purge: Option<PurgeOutcome>,
    /// True if each size was measured on its own copy of the preconditioned drive.
    on_copies: bool,
}

fn execute(
    protocol: &Protocol,
    seed: u64,
    runner: &mut PhaseRunner,
    measured: &mut Vec<Measured>,
    state: &mut State,
) -> Result<(), LabError> {
    runner.drive.prepare(protocol.area)?;
    let new = Start::New(protocol.region());
    let (purge, _) = measure(protocol, Operation::SeqWriteNew, seed, new, runner, measured)?;
    state.purge = Some(purge);
    if protocol.used > ByteLength::ZERO {
        runner.precondition(
            &protocol.preconditioning_phase(seed),
            protocol.preconditioning_weight(),
        )?;
    }
    // Reads come first, because they do not change the state of a drive that cannot be copied.
    for operation in [Operation::SeqRead, Operation::RandRead, Operation::SeqWriteUsed] {
        let (_, on_copies) = measure(protocol, operation, seed, Start::AsItIs, runner, measured)?;
        state.on_copies = on_copies;
    }
    Ok(())
}

/// Measures an operation with every size. Returns the purge before the measurements, and true if each size
/// had its own copy of the drive.
fn measure(
    protocol: &Protocol,
    operation: Operation,
    seed: u64,
    start: Start,
    runner: &mut PhaseRunner,
    measured: &mut Vec<Measured>,
) -> Result<(PurgeOutcome, bool), LabError> {
    let trials = protocol.trials(operation, seed);
    let work = |phase: &Phase, runner: &mut PhaseRunner, slot: &mut Option<Measured>| {
        let before = runner.drive.inside();
        let result = runner.run(phase, 1.0)?;
        let both = before.zip(runner.drive.inside());
        *slot = Some(Measured {
            operation,
            size: phase.block_size,
            mb_per_second: result.mb_per_second(),
            iops: result.requests as f64 / result.elapsed.seconds(),
            moved: both.map(|(before, after)| {
                after.counters.since(&before.counters).program_units_collection
            }),
        });
        Ok(())
    };
    let done = trials::run(runner, start, &trials, &work);
    measured.extend(done.results.into_iter().flatten());
    done.outcome.map(|()| (done.purge, done.on_copies))
}

fn tabulate(measured: &[Measured], record: &mut Record) {
    let columns = vec![
        Column::new("operation", ""),
        Column::new("request_bytes", "B"),
        Column::new("mb_per_s", "MB/s"),
        Column::new("iops", "IOPS"),
    ];
    let of = |operation: Operation| {
        measured.iter().filter(move |one| one.operation == operation).map(|one| {
            vec![
                Cell::from(one.operation.name()),
                Cell::from(one.size.bytes()),
                Cell::from(one.mb_per_second),
                Cell::from(one.iops),
            ]
        })
    };
    let rows = Operation::ALL.into_iter().flat_map(of).collect();
    record.tables.push(Table { name: "throughput".to_owned(), columns, rows });
}

/// Request size that findings about small requests refer to, if it was measured.
const SMALL: ByteLength = ByteLength::new(4 << 10);
