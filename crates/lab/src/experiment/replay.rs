//! The experiment `replay`: replays a recorded trace on any drive, with the recorded timing or as fast as
//! possible.
//!
//! The trace is read twice: first to check every line and to find the highest address, then to send the
//! requests. It is streamed both times, so memory does not limit its length.

mod findings;
mod requests;

use std::path::{Path, PathBuf};

use ssdlab_drive::{Description, Drive, DriveKind, Lane, Phase, Region};
use ssdlab_interchange::trace::{self, Choice, Format, Survey};
use ssdlab_units::{ByteLength, MIB, Nanoseconds};

use super::job::layout;
use super::job_table::{self, JobResults};
use super::phase_runner::PhaseRunner;
use super::{Experiment, Kind, ParameterSpec, Plan, Record, Settings, Watcher};
use crate::error::LabError;
use crate::output::format;
use crate::report::Parameter;
use requests::{AddressMap, TraceSource};

/// The experiment `replay`.
pub struct Replay;

const FORMATS: [&str; 9] = [
    "auto",
    "iolog2",
    "iolog3",
    "iolog3-ms",
    "blkparse",
    "msr-cambridge",
    "alibaba",
    "tencent",
    "mqsim",
];

const PARAMETERS: [ParameterSpec; 10] = [
    ParameterSpec {
        name: "file",
        kind: Kind::File,
        full: "",
        quick: "",
        help: "trace; also accepted as an argument before the target",
    },
    ParameterSpec {
        name: "format",
        kind: Kind::Choice(&FORMATS),
        full: "auto",
        quick: "auto",
        help: "format of the trace: auto (by its first line), iolog2, iolog3, iolog3-ms, blkparse, \
               msr-cambridge, alibaba, tencent or mqsim",
    },
    ParameterSpec {
        name: "volume",
        kind: Kind::Word,
        full: "",
        quick: "",
        help: "volume to replay from a trace of several",
    },
    ParameterSpec {
        name: "timing",
        kind: Kind::Choice(&["recorded", "fast"]),
        full: "recorded",
        quick: "recorded",
        help: "recorded sends each request at its time, fast as soon as the depth allows",
    },
    ParameterSpec {
        name: "speed",
        kind: Kind::Factor,
        full: "1",
        quick: "1",
        help: "factor by which the recorded times are sped up",
    },
    ParameterSpec {
        name: "depth",
        kind: Kind::Count,
        full: "64",
        quick: "64",
        help: "requests in flight; their maximum with recorded times",
    },
    ParameterSpec {
        name: "area",
        kind: Kind::Area,
        full: "all",
        quick: "all",
        help: "area under test, from the start of the drive; for a file, as much as the trace \
               needs",
    },
    ParameterSpec {
        name: "addresses",
        kind: Kind::Choice(&["auto", "scale", "wrap"]),
        full: "auto",
        quick: "auto",
        help: "auto keeps addresses if all fit, else scales them in whole MiB; scale always \
               scales; wrap wraps around at the end of the area",
    },
    ParameterSpec {
        name: "fill",
        kind: Kind::Choice(&["auto", "no"]),
        full: "auto",
        quick: "auto",
        help: "auto fills the area of an empty drive first if the trace reads",
    },
    ParameterSpec {
        name: "limit",
        kind: Kind::Duration,
        full: "0s",
        quick: "1m",
        help: "time from the start of the trace that is replayed; 0 for all of it",
    },
];

/// Number of points in the curve.
const POINTS: u64 = 240;

/// Assumed throughput of the drive, for the progress.
const BYTES_PER_SECOND: f64 = 500e6;

#[derive(Clone, Debug)]
struct Protocol {
    path: PathBuf,
    choice: Choice,
    survey: Survey,
    map: AddressMap,
    /// Area of the drive that requests are mapped to.
    area: ByteLength,
    /// Bytes that the drive is prepared for. For a device that is the whole area, because `prepare` reduces the
    /// capacity in its description, from which the run derives the protocol again.
    space: ByteLength,
    unit: ByteLength,
    /// Time of the drive divided by time of the trace; `None` for as fast as possible.
    time_factor: Option<f64>,
    depth: u32,
    fills: bool,
    is_file: bool,
}

fn trace_format(settings: &Settings) -> Option<Format> {
    Format::named(settings.text("format"))
}

fn trace_choice(settings: &Settings) -> Choice {
    let volume = Some(settings.text("volume")).filter(|name| !name.is_empty());
    let limit = Some(settings.duration("limit")).filter(|limit| *limit > Nanoseconds::ZERO);
    Choice { volume: volume.map(str::to_owned), limit }
}

fn survey(settings: &Settings) -> Result<Survey, LabError> {
    let path = settings.file("file")?;
    let wrong = |source| LabError::Input { path: path.to_owned(), source };
    let reader = trace::open(path, trace_format(settings)).map_err(wrong)?;
    Survey::of(reader, &trace_choice(settings)).map_err(wrong)
}

impl Protocol {
    fn new(settings: &Settings, drive: &Description) -> Result<Protocol, LabError> {
        let survey = survey(settings)?;
        let is_file = matches!(drive.kind, DriveKind::File | DriveKind::Directory);
        let unit = drive.block_size;
        let needed = MIB * survey.end.covering(MIB);
        let area = match (settings.text("area"), is_file) {
            ("all", true) => needed,
            _ => settings.area("area", drive)?,
        };
        let (from, to) = (needed.whole(MIB), area.whole(MIB));
        let map = match settings.text("addresses") {
            "auto" if from <= to => AddressMap::Unchanged,
            "wrap" => AddressMap::Wrapped,
            _ => AddressMap::Scaled { from, to },
        };
        let used = if map == AddressMap::Unchanged { needed.min(area) } else { area };
        let speed = settings.factor("speed");
        if speed == 0.0 {
            return Err(LabError::Range {
                name: "speed",
                value: "0".to_owned(),
                why: "it must be more than 0".to_owned(),
            });
        }
        let replay_time = survey.duration.seconds() / speed;
        if settings.text("timing") == "recorded" && replay_time > Phase::LONGEST.seconds() {
            return Err(LabError::Range {
                name: "speed",
                value: settings.text("speed").to_owned(),
                why: format!(
                    "the trace would take {}, and the maximum is {}; set a higher speed or a limit",
                    format::span(replay_time),
                    format::span(Phase::LONGEST.seconds())
                ),
            });
        }
        let is_timed = settings.text("timing") == "recorded" && survey.duration > Nanoseconds::ZERO;
        Ok(Protocol {
            path: settings.file("file")?.to_owned(),
            choice: trace_choice(settings),
            survey,
            map,
            area: used,
            space: if drive.kind == DriveKind::Device { area } else { used },
            unit,
            time_factor: is_timed.then_some(1.0 / speed),
            depth: settings.count("depth"),
            // Data on a device is not overwritten before it is read.
            fills: settings.text("fill") == "auto" && drive.kind != DriveKind::Device,
            is_file,
        })
    }

    /// Returns the duration of the replay if the drive keeps up; `None` for as fast as possible.
    fn time(&self) -> Option<Nanoseconds> {
        let nanos = self.survey.duration.nanos() as f64;
        self.time_factor.map(|time_factor| Nanoseconds::new((nanos * time_factor) as u64))
    }

    fn fill(&self) -> Option<Region> {
        (self.fills && self.survey.requests[0] > 0).then(|| Region::first(self.area))
    }

    fn plan(&self) -> Plan {
        let [read, written, trims] = self.survey.bytes.map(ByteLength::new);
        let fill = self.fill().map_or(ByteLength::ZERO, |region| region.length);
        Plan {
            sequential_writes: fill,
            random_writes: written,
            trims,
            sequential_reads: read,
            rests: self.time().unwrap_or_default(),
            space: self.space,
            block_sizes: vec![self.unit],
            ..Plan::default()
        }
    }

    fn bytes(&self) -> ByteLength {
        self.survey.bytes.into_iter().map(ByteLength::new).sum()
    }

    fn weights(&self) -> [f64; 2] {
        let fill = self.fill().map_or(ByteLength::ZERO, |region| region.length);
        let moved = self.bytes().bytes() as f64 / BYTES_PER_SECOND;
        let time = self.time().map_or(0.0, Nanoseconds::seconds);
        [fill.bytes() as f64 / BYTES_PER_SECOND, moved.max(time)]
    }

    fn lane(&self, format: Format, seed: u64) -> Result<Lane<'static>, LabError> {
        let wrong = |source| LabError::Input { path: self.path.clone(), source };
        let reader = trace::open(&self.path, Some(format)).map_err(wrong)?;
        let time = self.time().unwrap_or(Nanoseconds::from_secs(POINTS));
        let second = Nanoseconds::from_secs(1).nanos();
        let interval = (time.nanos() / POINTS).div_ceil(second).max(1) * second;
        Ok(Lane {
            name: "trace".to_owned(),
            source: Box::new(TraceSource { reader, protocol: self.clone() }),
            depth: self.depth,
            time: None,
            ramp: Nanoseconds::ZERO,
            interval: Nanoseconds::new(interval),
            seed,
            flush_at_end: false,
            expected: Some(self.bytes()),
        })
    }
}

impl Experiment for Replay {
    fn name(&self) -> &'static str {
        "replay"
    }

    fn question(&self) -> &'static str {
        "How does the drive answer a recorded trace, at its own times or as fast as it can?"
    }

    fn source(&self) -> &'static str {
        "traces of fio, blktrace, SNIA (MSR-Cambridge), Alibaba, Tencent, MQSim; see docs/experiments/replay.md"
    }

    fn parameters(&self) -> &'static [ParameterSpec] {
        &PARAMETERS
    }

    fn accepts_block_devices(&self) -> bool {
        true
    }

    fn check(&self, settings: &mut Settings) -> Result<(), LabError> {
        let path: &Path = settings.file("file")?;
        let opened = trace::open(path, trace_format(settings));
        opened.map(|_| ()).map_err(|source| LabError::Input { path: path.to_owned(), source })
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
        let mut runner = PhaseRunner::new(drive, watcher, protocol.weights().iter().sum());
        let outcome = execute(&protocol, seed, &mut runner);
        runner.finish(record);
        let mut rows = Vec::new();
        if let Ok(done) = &outcome {
            done.add_to(&mut rows, record);
        }
        record.tables.push(job_table::table("replay", &rows));
        findings::conclude(&protocol, &rows, record);
        findings::describe_trace(&protocol, record);
        let (name, value) = ("trace requests".to_owned(), protocol.survey.count().to_string());
        record.parameters.push(Parameter { name, value, changed: false });
        record.add_shortened_finding(settings);
        outcome.map(|_| ())
    }
}

fn execute(
    protocol: &Protocol,
    seed: u64,
    runner: &mut PhaseRunner,
) -> Result<JobResults, LabError> {
    runner.drive.prepare(protocol.space)?;
    let [fill_weight, weight] = protocol.weights();
    let is_empty = protocol.is_file
        || runner.drive.inside().is_some_and(|inside| inside.counters.host_write_units == 0);
    if let Some(region) = protocol.fill().filter(|_| is_empty) {
        runner.precondition(&layout(region, protocol.unit, seed), fill_weight)?;
    }
    let lane = protocol.lane(protocol.survey.format, seed)?;
    let results = runner.run_lanes("replay", vec![lane], weight)?;
    Ok(JobResults::new("trace".to_owned(), results))
}
