//! A recorded trace on any drive, at the times it was recorded at or as fast as the drive can.
//!
//! The trace is read twice: once to check every line and to see how far its addresses reach, once
//! to send it. Both times it is a stream, so that its length does not matter.

use std::path::{Path, PathBuf};

use ssdlab_drive::{
    Description, Drive, DriveError, DriveKind, ErrorKind, Lane, LaneRequest, Operation, Phase,
    Region, Source,
};
use ssdlab_interchange::trace::{self, Choice, Event, Format, Reader, Survey};
use ssdlab_model::units::{ByteLength, MIB, Nanoseconds};

use super::course::Course;
use super::figures::{self, JobFigures};
use super::job::layout;
use super::{Experiment, Kind, ParameterSpec, Plan, Record, Settings, Watcher, words};
use crate::error::LabError;
use crate::output::format;
use crate::report::{Level, Parameter};

/// The experiment.
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
        help: "the trace; it may stand before the target instead",
    },
    ParameterSpec {
        name: "format",
        kind: Kind::Choice(&FORMATS),
        full: "auto",
        quick: "auto",
        help: "form of the trace: auto (by its first line), iolog2, iolog3, iolog3-ms, \
               blkparse, msr-cambridge, alibaba, tencent or mqsim",
    },
    ParameterSpec {
        name: "volume",
        kind: Kind::Word,
        full: "",
        quick: "",
        help: "the volume of a trace that holds several",
    },
    ParameterSpec {
        name: "timing",
        kind: Kind::Choice(&["recorded", "fast"]),
        full: "recorded",
        quick: "recorded",
        help: "recorded sends each request at its time, fast as soon as there is room",
    },
    ParameterSpec {
        name: "speed",
        kind: Kind::Factor,
        full: "1",
        quick: "1",
        help: "how many times faster than recorded the times pass",
    },
    ParameterSpec {
        name: "depth",
        kind: Kind::Count,
        full: "64",
        quick: "64",
        help: "requests in flight, at most with recorded times",
    },
    ParameterSpec {
        name: "area",
        kind: Kind::Area,
        full: "all",
        quick: "all",
        help: "how much of the drive is used, from its start; of a file as much as the trace needs",
    },
    ParameterSpec {
        name: "addresses",
        kind: Kind::Choice(&["auto", "scale", "wrap"]),
        full: "auto",
        quick: "auto",
        help: "auto keeps addresses where they fit and else scales them, in whole MiB; scale \
               always does; wrap begins again at the start",
    },
    ParameterSpec {
        name: "fill",
        kind: Kind::Choice(&["auto", "no"]),
        full: "auto",
        quick: "auto",
        help: "auto writes the area first, on a drive that holds nothing yet, if the trace reads",
    },
    ParameterSpec {
        name: "limit",
        kind: Kind::Duration,
        full: "0s",
        quick: "1m",
        help: "only the first so much time of the trace; 0 for all of it",
    },
];

/// Points of the curve.
const POINTS: u64 = 240;

/// Where so much longer than the trace's own time is needed, the drive did not keep up.
const BEHIND: f64 = 1.02;

/// What the drive is taken to reach, for the progress.
const BYTES_PER_SECOND: f64 = 500e6;

/// How recorded addresses become those of the drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Map {
    /// As they are.
    Kept,
    /// Each whole MiB goes to another place: so many of the trace on so many of the drive.
    Scaled { from: u64, to: u64 },
    /// What lies behind the end begins again at the start.
    Wrapped,
}

#[derive(Clone, Debug)]
struct Protocol {
    path: PathBuf,
    choice: Choice,
    survey: Survey,
    map: Map,
    /// What is used of the drive.
    area: ByteLength,
    unit: ByteLength,
    /// Nanoseconds of the drive for one of the trace; `None` for as fast as it can.
    pace: Option<f64>,
    depth: u32,
    fills: bool,
    is_file: bool,
}

fn format_of(settings: &Settings) -> Option<Format> {
    Format::named(settings.text("format"))
}

fn choice_of(settings: &Settings) -> Choice {
    let volume = Some(settings.text("volume")).filter(|name| !name.is_empty());
    let limit = Some(settings.duration("limit")).filter(|limit| *limit > Nanoseconds::ZERO);
    Choice { volume: volume.map(str::to_owned), limit }
}

fn survey(settings: &Settings) -> Result<Survey, LabError> {
    let path = settings.file("file")?;
    let wrong = |source| LabError::Input { path: path.to_owned(), source };
    let reader = trace::open(path, format_of(settings)).map_err(wrong)?;
    Survey::of(reader, &choice_of(settings)).map_err(wrong)
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
            "auto" if from <= to => Map::Kept,
            "wrap" => Map::Wrapped,
            _ => Map::Scaled { from, to },
        };
        let speed = settings.factor("speed");
        if speed == 0.0 {
            return Err(LabError::Range {
                name: "speed",
                value: "0".to_owned(),
                why: "it must be more than nothing".to_owned(),
            });
        }
        let lasts = survey.duration.seconds() / speed;
        if settings.text("timing") == "recorded" && lasts > Phase::LONGEST.seconds() {
            return Err(LabError::Range {
                name: "speed",
                value: settings.text("speed").to_owned(),
                why: format!(
                    "the trace would take {}, and {} are the most; let it be faster, or set a limit",
                    format::span(lasts),
                    format::span(Phase::LONGEST.seconds())
                ),
            });
        }
        let is_timed = settings.text("timing") == "recorded" && survey.duration > Nanoseconds::ZERO;
        Ok(Protocol {
            path: settings.file("file")?.to_owned(),
            choice: choice_of(settings),
            survey,
            map,
            area: if map == Map::Kept { needed.min(area) } else { area },
            unit,
            pace: is_timed.then_some(1.0 / speed),
            depth: settings.count("depth"),
            // What a device holds is read as it is.
            fills: settings.text("fill") == "auto" && drive.kind != DriveKind::Device,
            is_file,
        })
    }

    /// How long the trace takes where the drive keeps up.
    fn time(&self) -> Option<Nanoseconds> {
        let nanos = self.survey.duration.nanos() as f64;
        self.pace.map(|pace| Nanoseconds::new((nanos * pace) as u64))
    }

    fn fill(&self) -> Option<Region> {
        (self.fills && self.survey.requests[0] > 0).then(|| Region::first(self.area))
    }

    fn plan(&self) -> Plan {
        let [read, written, _] = self.survey.bytes.map(ByteLength::new);
        let fill = self.fill().map_or(ByteLength::ZERO, |region| region.length);
        Plan {
            sequential_writes: fill,
            random_writes: written,
            sequential_reads: read,
            rests: self.time().unwrap_or_default(),
            space: self.area,
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
            source: Box::new(TraceSource { reader, of: self.clone() }),
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

/// The requests of a trace as the drive gets them.
struct TraceSource<R> {
    reader: Reader<R>,
    of: Protocol,
}

impl<R: std::io::BufRead + Send> Source for TraceSource<R> {
    fn next_request(&mut self) -> Result<Option<LaneRequest>, DriveError> {
        loop {
            let event = self.reader.next_event().map_err(|error| {
                let what = format!("{} has changed since it was checked", self.of.path.display());
                DriveError::with_source(ErrorKind::Usage, what, error)
            })?;
            let Some(event) = event else { return Ok(None) };
            if self.of.choice.limit.is_some_and(|limit| event.at >= limit) {
                return Ok(None);
            }
            if self.of.survey.counts(&event) {
                return Ok(Some(self.of.request(&event)));
            }
        }
    }
}

impl Protocol {
    fn request(&self, event: &Event) -> LaneRequest {
        let due = self.pace.map(|pace| Nanoseconds::new((event.at.nanos() as f64 * pace) as u64));
        let region = match event.operation {
            Operation::Flush => Region::first(ByteLength::ZERO),
            _ => self.region(event.region),
        };
        LaneRequest { due, pause: Nanoseconds::ZERO, operation: event.operation, region }
    }

    /// Where a recorded request lies on the drive, in whole blocks of it.
    fn region(&self, recorded: Region) -> Region {
        let (mib, unit) = (MIB.bytes(), self.unit.bytes());
        let offset = recorded.offset.bytes();
        let start = match self.map {
            Map::Kept => offset,
            Map::Scaled { from, to } => {
                let scaled = u128::from(offset / mib) * u128::from(to) / u128::from(from);
                scaled as u64 * mib + offset % mib
            }
            Map::Wrapped => offset % self.area.bytes(),
        };
        let first = start / unit * unit;
        let end = (start + recorded.length.bytes()).div_ceil(unit) * unit;
        let length = (end - first).min(self.area.bytes());
        // What would reach over the end is moved in front of it.
        let first = first.min(self.area.bytes() - length);
        Region { offset: ByteLength::new(first), length: ByteLength::new(length) }
    }

    /// What was done to the trace.
    fn tell(&self, record: &mut Record) {
        let survey = &self.survey;
        let [reads, writes, trims, flushes] = survey.requests;
        let several = |number: u64, what: &str, end: &str| match number {
            1 => format!("1 {what}"),
            number => format!("{} {what}{end}", format::count(number)),
        };
        let duration = match survey.duration {
            Nanoseconds::ZERO => String::new(),
            duration => format!(" over {}", format::span(duration.seconds())),
        };
        let mut text = format!(
            "The trace ({}) holds {}{duration}: {} of {}, {} of {}",
            survey.format.name(),
            several(survey.count(), "request", "s"),
            several(reads, "read", "s"),
            ByteLength::new(survey.bytes[0]),
            several(writes, "write", "s"),
            ByteLength::new(survey.bytes[1]),
        );
        for (number, what, end) in [(trims, "trim", "s"), (flushes, "flush", "es")] {
            if number > 0 {
                text.push_str(&format!(", {}", several(number, what, end)));
            }
        }
        record.find(Level::Info, "trace", format!("{text}."));
        match self.map {
            Map::Kept => {}
            Map::Scaled { from, to } => record.find(
                Level::Notice,
                "addresses-scaled",
                format!(
                    "Addresses reach to {} and were scaled to the {} that are used, by whole MiB: \
                     {from} of the trace share {to} of the drive, and within one all stays as it \
                     was.",
                    survey.end, self.area
                ),
            ),
            Map::Wrapped if survey.end > self.area => record.find(
                Level::Notice,
                "addresses-wrapped",
                format!(
                    "Addresses reach to {}; what lies behind the {} that are used begins again at \
                     the start.",
                    survey.end, self.area
                ),
            ),
            Map::Wrapped => {}
        }
        if !survey.alignment.is_multiple_of(self.unit) {
            record.find(
                Level::Notice,
                "requests-widened",
                format!(
                    "Requests of the trace lie on multiples of {}; they were widened to whole \
                     blocks of {} of the target.",
                    survey.alignment, self.unit
                ),
            );
        }
        if survey.went_back > 0 {
            let count = format::count(survey.went_back);
            let text = format!(
                "Times go back in {count} lines; those requests count as sent with the one before."
            );
            record.find(Level::Info, "times-went-back", text);
        }
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

    fn check(&self, settings: &mut Settings) -> Result<(), LabError> {
        let path: &Path = settings.file("file")?;
        let opened = trace::open(path, format_of(settings));
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
        let mut course = Course::new(drive, watcher, protocol.weights().iter().sum());
        let outcome = carry_out(&protocol, seed, &mut course);
        course.end(record);
        let mut rows = Vec::new();
        if let Ok(done) = &outcome {
            done.tell(&mut rows, record);
        }
        record.tables.push(figures::table("replay", &rows));
        conclude(&protocol, &rows, record);
        protocol.tell(record);
        let (name, value) = ("trace requests".to_owned(), protocol.survey.count().to_string());
        record.parameters.push(Parameter { name, value, changed: false });
        record.say_if_shortened(settings);
        outcome.map(|_| ())
    }
}

fn carry_out(protocol: &Protocol, seed: u64, course: &mut Course) -> Result<JobFigures, LabError> {
    course.drive.prepare(protocol.area)?;
    let [fill_weight, weight] = protocol.weights();
    let is_empty = protocol.is_file
        || course.drive.inside().is_some_and(|inside| inside.counters.host_write_units == 0);
    if let Some(region) = protocol.fill().filter(|_| is_empty) {
        course.run(&layout(region, protocol.unit, seed), fill_weight)?;
    }
    let lane = protocol.lane(protocol.survey.format, seed)?;
    let results = course.run_lanes("replay", vec![lane], weight)?;
    Ok(JobFigures::new("trace".to_owned(), results))
}

fn conclude(protocol: &Protocol, rows: &[figures::JobRow], record: &mut Record) {
    figures::conclude(rows, record);
    let took = rows.first().map_or(0.0, |row| row.seconds);
    let Some(time) = protocol.time() else {
        if protocol.survey.duration == Nanoseconds::ZERO {
            let why = match protocol.survey.format {
                Format::Iolog2 => "The trace says no times",
                _ => "By its times all requests of the trace come at once",
            };
            let text = format!("{why}; it was replayed as fast as the drive can.");
            record.find(Level::Notice, "no-times", text);
        }
        return;
    };
    if rows.is_empty() {
        return;
    }
    if took > time.seconds() * BEHIND + 1.0 {
        record.find(
            Level::Warning,
            "not-kept-up",
            format!(
                "The drive did not keep up: what arrived within {} took it {}. Latencies grew with \
                 the backlog and say how long it was.",
                words::duration(Nanoseconds::from_secs(time.seconds().ceil() as u64)),
                words::duration(Nanoseconds::from_secs(took.ceil() as u64))
            ),
        );
    } else {
        let text = "The drive kept up with the times of the trace; latencies count from them.";
        record.find(Level::Info, "kept-up", text.to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn protocol(map: Map, area_mib: u64) -> Protocol {
        let text = "0 0 0 8 0\n1000 0 8 8 1\n";
        let survey =
            Survey::of(Reader::new(text.as_bytes(), None).unwrap(), &Choice::default()).unwrap();
        Protocol {
            path: PathBuf::new(),
            choice: Choice::default(),
            survey,
            map,
            area: MIB * area_mib,
            unit: ByteLength::new(4096),
            pace: None,
            depth: 1,
            fills: false,
            is_file: false,
        }
    }

    fn region(offset: u64, length: u64) -> Region {
        Region { offset: ByteLength::new(offset), length: ByteLength::new(length) }
    }

    #[test]
    fn scaled_requests_stay_inside_and_neighbours_stay_neighbours() {
        let scaled = protocol(Map::Scaled { from: 1000, to: 10 }, 10);
        let place = |offset, length| scaled.region(region(offset, length));
        assert_eq!(place(500 << 20, 8192), region(5 << 20, 8192));
        let (one, next) = (place((500 << 20) + 4096, 4096), place((500 << 20) + 8192, 4096));
        assert_eq!(one.end(), next.offset);
        for offset in [0, 999 << 20, (1000 << 20) - 4096] {
            assert!(place(offset, 1 << 20).end() <= MIB * 10);
        }
    }

    #[test]
    fn odd_requests_are_widened_and_wrapped_ones_begin_again() {
        let kept = protocol(Map::Kept, 10);
        assert_eq!(kept.region(region(512, 512)), region(0, 4096));
        assert_eq!(kept.region(region(4000, 200)), region(0, 8192));
        let wrapped = protocol(Map::Wrapped, 10);
        assert_eq!(wrapped.region(region(12 << 20, 4096)), region(2 << 20, 4096));
        assert_eq!(wrapped.region(region((10 << 20) - 4096, 8192)).end(), MIB * 10);
    }
}
