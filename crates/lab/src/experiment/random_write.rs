//! The experiment `random-write`: throughput of random writes to a new drive over hours.
//!
//! Random writes of 4, 16, 64 and 256 KiB, each size to a purged drive, at queue depth 4, for 240 minutes
//! with one point a minute, and the first minute second by second. The protocol is that of a test of a
//! Kingston SSDNow V 64 GB in KompyuterPress 01/2011 (S. Pakhomov); the queue depth is that of its other
//! tests.

mod findings;
mod throughput_history;

use ssdlab_drive::{Amount, Description, Drive, Mix, Pattern, Phase, Region};
use ssdlab_units::{ByteLength, Nanoseconds};

use super::phase_runner::PhaseRunner;
use super::trials::{self, Start, Trial};
use super::{
    DrivesInMemory, Experiment, Kind, ParameterSpec, Plan, Record, Settings, Watcher, text_format,
};
use crate::error::LabError;
use crate::report::{Cell, Column, Table};
use throughput_history::ThroughputHistory;

/// The experiment `random-write`.
pub struct RandomWrite;

const PARAMETERS: [ParameterSpec; 4] = [
    ParameterSpec {
        name: "sizes",
        kind: Kind::Lengths,
        full: "4K,16K,64K,256K",
        quick: "4K,16K,64K,256K",
        help: "request sizes, each on a purged drive",
    },
    ParameterSpec {
        name: "time",
        kind: Kind::Duration,
        full: "240m",
        quick: "3m",
        help: "duration of the writes of each size",
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
        help: "area written, from the start of the drive",
    },
];

/// Interval of the points in the first minute; later ones have an interval of a minute.
const SECOND: Nanoseconds = Nanoseconds::from_secs(1);
const MINUTE: Nanoseconds = Nanoseconds::from_secs(60);

/// Length of the phases after the first minute. An interrupted run keeps the phases that were complete.
const INTERVAL_AFTER_MINUTE: Nanoseconds = Nanoseconds::from_secs(600);

/// The steps of a run, derived from its settings and the drive.
#[derive(Clone, Debug)]
struct Protocol {
    sizes: Vec<ByteLength>,
    time: Nanoseconds,
    depth: u32,
    area: ByteLength,
    intervals: Intervals,
}

/// Intervals of the points and lengths of phases, scaled with the drive.
#[derive(Clone, Copy, Debug)]
struct Intervals {
    second: Nanoseconds,
    minute: Nanoseconds,
    piece: Nanoseconds,
}

impl Protocol {
    fn new(settings: &Settings, drive: &Description) -> Result<Protocol, LabError> {
        Ok(Protocol {
            sizes: settings.lengths("sizes"),
            time: settings.duration("time"),
            depth: settings.count("depth"),
            area: settings.area("area", drive)?,
            intervals: Intervals {
                second: settings.scale_time(SECOND),
                minute: settings.scale_time(MINUTE),
                piece: settings.scale_time(INTERVAL_AFTER_MINUTE),
            },
        })
    }

    fn plan(&self) -> Plan {
        Plan {
            writing: self.time * self.sizes.len() as u64,
            timed_requests: (self.sizes.clone(), self.depth),
            space: self.area,
            block_sizes: self.sizes.clone(),
            drives: DrivesInMemory { throughout: 0, per_copy: 1, copies: self.sizes.len() as u32 },
            ..Plan::default()
        }
    }

    fn phase(&self, size: ByteLength, piece: u64, time: Nanoseconds, seed: u64) -> Phase {
        Phase {
            name: format!("random writes, {size}"),
            pattern: Pattern::Random,
            block_size: size,
            depth: self.depth,
            mix: Mix::WRITE,
            region: Region::first(self.area),
            amount: Amount::Time(time),
            rate: None,
            seed: seed.wrapping_mul(1_000_000).wrapping_add(size.bytes()).wrapping_add(piece << 32),
            flush_at_end: false,
            interval: if piece == 0 { self.intervals.second } else { self.intervals.minute },
        }
    }

    /// Writes randomly for the whole time, phase by phase.
    fn write(
        &self,
        size: ByteLength,
        seed: u64,
        runner: &mut PhaseRunner,
        speed: &mut ThroughputHistory,
    ) -> Result<(), LabError> {
        let mut done = Nanoseconds::ZERO;
        for piece in 0.. {
            let length = if piece == 0 { self.intervals.minute } else { self.intervals.piece };
            let time = length.min(self.time.saturating_sub(done));
            if time == Nanoseconds::ZERO {
                break;
            }
            let phase = self.phase(size, piece, time, seed);
            let before = runner.drive.inside();
            let weight = time.seconds() / self.time.seconds();
            let result = runner.run(&phase, weight)?;
            speed.add(&result);
            if let (Some(before), Some(after)) = (before, runner.drive.inside())
                && piece == 0
            {
                let counted = after.counters.since(&before.counters);
                speed.relocated_in_first_minute = Some(counted.program_units_collection);
                speed.compacted_in_first_minute = counted.condensed_regions;
            }
            done += time;
        }
        speed.is_complete = true;
        Ok(())
    }
}

/// Results of one request size.
#[derive(Clone, Debug)]
struct SizeResults {
    size: ByteLength,
    speed: ThroughputHistory,
}

impl Experiment for RandomWrite {
    fn name(&self) -> &'static str {
        "random-write"
    }

    fn question(&self) -> &'static str {
        "How does the speed of random writes to a new drive develop over hours?"
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
        protocol.plan().check_blocks(&drive.description())?;
        drive.prepare(protocol.area)?;
        let trials: Vec<Trial<ByteLength>> = protocol
            .sizes
            .iter()
            .map(|&size| Trial {
                name: format!("random writes, {size}"),
                weight: protocol.time.seconds(),
                workload: size,
            })
            .collect();
        let weights = protocol.time.seconds() * trials.len() as f64;
        let mut runner = PhaseRunner::new(drive, watcher, weights).with_threads(settings.threads());
        let start = Start::New(Region::first(protocol.area));
        let work = |size: &ByteLength, runner: &mut PhaseRunner, speed: &mut ThroughputHistory| {
            protocol.write(*size, seed, runner, speed)
        };
        let done = trials::run(&mut runner, start, &trials, &work);
        runner.finish(record);
        let written: Vec<SizeResults> = protocol
            .sizes
            .iter()
            .zip(done.results)
            .map(|(&size, speed)| SizeResults { size, speed })
            .filter(|written| !written.speed.is_empty())
            .collect();
        draw(&written, record);
        let written: Vec<SizeResults> =
            written.into_iter().filter(|written| written.speed.is_complete).collect();
        tabulate(&written, record);
        findings::conclude(&written, protocol.intervals, settings, record);
        done.purge.add_finding(record);
        done.outcome
    }
}

fn tabulate(written: &[SizeResults], record: &mut Record) {
    let columns = vec![
        Column::new("request_bytes", "B"),
        Column::new("first_seconds_mb_per_s", "MB/s"),
        Column::new("later_half_mb_per_s", "MB/s"),
        Column::new("fell_after_seconds", "s"),
        Column::new("swing_mb_per_s", "MB/s"),
        Column::new("swing_percent", "%"),
    ];
    let rows = written
        .iter()
        .map(|SizeResults { size, speed }| {
            let swing = speed.swing();
            vec![
                Cell::from(size.bytes()),
                Cell::from(speed.start()),
                Cell::from(speed.later_half()),
                Cell::from(speed.fell_after()),
                Cell::from(swing.map(|swing| swing.mb_per_second)),
                Cell::from(swing.map(|swing| swing.share * 100.0)),
            ]
        })
        .collect();
    record.tables.push(Table { name: "speed".to_owned(), columns, rows });
}

fn draw(written: &[SizeResults], record: &mut Record) {
    for SizeResults { size, speed } in written {
        let name = format!("throughput_{}", text_format::size_code(*size));
        record.add_series(name, ("min", "MB/s"), &speed.by_minute());
    }
    for SizeResults { size, speed } in written {
        let name = format!("throughput_{}_first_minute", text_format::size_code(*size));
        record.add_series(name, ("s", "MB/s"), &speed.by_second());
    }
}
