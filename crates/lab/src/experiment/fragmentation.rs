//! The experiment `fragmentation`: sequential reads of a logically contiguous file whose units random
//! overwrites have scattered in the flash.
//!
//! A file is filled sequentially and read. Then parts of it are overwritten in blocks of 4 KiB in random
//! order, in steps of 50, 200, 800 and 4000 MiB of a file of 4096 MiB. After each step it is read three
//! times, with idle time before each read; at last it is read once more after an hour of idle time. The best
//! read of a step counts. The protocol is that of an article on Habr ("does an SSD need defragmentation?")
//! that used dd and fio on ten drives.

mod findings;

use ssdlab_drive::{Amount, Description, Drive, Latencies, Mix, Pattern, Phase, Region};
use ssdlab_units::{ByteLength, MIB, Nanoseconds};

use super::phase_runner::PhaseRunner;
use super::{Experiment, Kind, ParameterSpec, Plan, Record, Settings, Watcher, text_format};
use crate::error::LabError;
use crate::report::{Cell, Column, Table};

/// The experiment `fragmentation`.
pub struct Fragmentation;

const PARAMETERS: [ParameterSpec; 4] = [
    ParameterSpec {
        name: "file_size",
        kind: Kind::Length,
        full: "4G",
        quick: "256M",
        help: "size of the file; the amounts written at random shrink with it",
    },
    ParameterSpec {
        name: "reads",
        kind: Kind::Count,
        full: "3",
        quick: "3",
        help: "reads after each step; the best counts",
    },
    ParameterSpec {
        name: "rest",
        kind: Kind::Duration,
        full: "10s",
        quick: "1s",
        help: "rest before the first read of a step, N times that before read N; 0 turns all rests \
               off",
    },
    ParameterSpec {
        name: "long_rest",
        kind: Kind::Duration,
        full: "1h",
        quick: "10s",
        help: "rest before the last read; when only rest is set, it changes in proportion",
    },
];

/// Size of the file in the published protocol, and MiB of random writes of each step.
const PUBLISHED_FILE: ByteLength = ByteLength::new(4096 << 20);
const PUBLISHED_STEPS_MIB: [u64; 4] = [50, 200, 800, 4000];

/// Published long idle time divided by the short one: an hour to ten seconds.
const REST_RATIO: u64 = 360;

/// Maximum idle time of a run. A longer one is taken for a typing error, and simulated time is counted in
/// nanoseconds.
const MAX_IDLE_TIME: Nanoseconds = Nanoseconds::from_secs(30 * 24 * 3600);

/// Lengths of the random writes and of the reads.
const WRITE_BLOCK: ByteLength = ByteLength::new(4 << 10);
const READ_REQUEST: ByteLength = ByteLength::new(1 << 20);

/// Approximate number of points in the throughput curve of one read.
const CURVE_POINTS: u64 = 64;

/// The steps of a run, derived from its settings.
#[derive(Clone, Debug)]
struct Protocol {
    file: ByteLength,
    /// Bytes of random writes in each step.
    steps: Vec<ByteLength>,
    reads: u32,
    rest: Nanoseconds,
    long_rest: Nanoseconds,
}

impl Protocol {
    fn new(settings: &Settings) -> Protocol {
        let file = settings.length("file_size");
        let rest = settings.duration("rest");
        let long_rest = settings.duration("long_rest");
        let steps = PUBLISHED_STEPS_MIB
            .iter()
            .map(|&mib| {
                let share = (MIB * mib).bytes() as f64 / PUBLISHED_FILE.bytes() as f64;
                let blocks = (file.whole(WRITE_BLOCK) as f64 * share).round().max(1.0) as u64;
                WRITE_BLOCK * blocks
            })
            .collect();
        Protocol { file, steps, reads: settings.count("reads"), rest, long_rest }
    }

    /// Returns the idle time before read number `index` of a step. It is the same before each read of the
    /// fill, and grows with `index` in later steps, as published.
    fn idle_time_before(&self, step: usize, index: u32) -> Nanoseconds {
        if step == 0 { self.rest } else { self.rest * u64::from(index + 1) }
    }

    fn total_idle_time(&self) -> Nanoseconds {
        let per_step = |step| (0..self.reads).map(|index| self.idle_time_before(step, index)).sum();
        let steps: Nanoseconds = (0..=self.steps.len()).map(per_step).sum();
        steps + self.long_rest
    }

    fn plan(&self) -> Plan {
        let passes = u64::from(self.reads) * (self.steps.len() as u64 + 1) + 1;
        Plan {
            sequential_writes: self.file,
            random_writes: self.steps.iter().copied().sum(),
            sequential_reads: self.file * passes,
            rests: self.total_idle_time(),
            space: self.file,
            block_sizes: vec![WRITE_BLOCK, READ_REQUEST],
            ..Plan::default()
        }
    }

    fn phase(&self, name: &str, pattern: Pattern, mix: Mix, amount: ByteLength) -> Phase {
        Phase {
            name: name.to_owned(),
            pattern,
            block_size: if pattern == Pattern::Sequential { READ_REQUEST } else { WRITE_BLOCK },
            depth: 1,
            mix,
            region: Region::first(self.file),
            amount: Amount::Bytes(amount),
            rate: None,
            seed: 0,
            flush_at_end: mix == Mix::WRITE,
            interval: Nanoseconds::ZERO,
        }
    }
}

/// Results of the reads after one step.
#[derive(Clone, Debug)]
struct Reads {
    name: String,
    /// Bytes written randomly so far.
    written: ByteLength,
    /// True if this is the read after the long rest.
    is_rested: bool,
    /// Seconds of each read.
    seconds: Vec<f64>,
    /// Flash pages read per request; `None` for a real drive.
    pages_per_request: Option<f64>,
    latencies: Latencies,
    /// Flash pages of each die that one request in the middle of the file reads; `None` if the inside is not
    /// recorded.
    pages_by_die: Option<Vec<u32>>,
    /// Throughput during the best read: seconds since its start, MB/s.
    curve: Vec<(f64, f64)>,
}

impl Reads {
    fn best(&self) -> f64 {
        self.seconds.iter().copied().fold(f64::INFINITY, f64::min)
    }

    fn mean(&self) -> f64 {
        self.seconds.iter().sum::<f64>() / self.seconds.len() as f64
    }
}

impl Experiment for Fragmentation {
    fn name(&self) -> &'static str {
        "fragmentation"
    }

    fn question(&self) -> &'static str {
        "How much slower is a sequential read after random overwrites have scattered the file \
         inside the flash?"
    }

    fn source(&self) -> &'static str {
        "Habr, an article on whether an SSD needs defragmentation (dd and fio on ten drives)"
    }

    fn parameters(&self) -> &'static [ParameterSpec] {
        &PARAMETERS
    }

    fn check(&self, settings: &mut Settings) -> Result<(), LabError> {
        check_idle_time(settings)?;
        if settings.is_given("rest") && !settings.is_given("long_rest") {
            // An hour to ten seconds, as published; without a short idle time there is no long one.
            let in_proportion = settings.duration("rest") * REST_RATIO;
            let long_rest = settings.duration("long_rest").min(in_proportion);
            settings.derive_duration("long_rest", long_rest);
        }
        let file = settings.length("file_size");
        if file < MIB * 16 || !file.is_multiple_of(READ_REQUEST) {
            return Err(LabError::Range {
                name: "file_size",
                value: file.to_string(),
                why: "it must be a whole number of MiB, and at least 16".to_owned(),
            });
        }
        Ok(())
    }

    fn plan(&self, settings: &Settings, _: &Description) -> Result<Plan, LabError> {
        Ok(Protocol::new(settings).plan())
    }

    fn run(
        &self,
        settings: &Settings,
        seed: u64,
        drive: &mut dyn Drive,
        record: &mut Record,
        watcher: &mut dyn Watcher,
    ) -> Result<(), LabError> {
        let protocol = Protocol::new(settings);
        protocol.plan().check_blocks(&drive.description())?;
        let mut run = Run::new(&protocol, seed, drive, watcher);
        let outcome = run.execute();
        let Run { runner, reads, writes_curve, .. } = run;
        runner.finish(record);
        let simulated = drive.inside().is_some();
        let inside = match (simulated, drive.description().measures_flash) {
            (true, _) => findings::FlashVisibility::Visible,
            (false, true) => findings::FlashVisibility::Presumed,
            (false, false) => findings::FlashVisibility::Elsewhere,
        };
        tabulate(&protocol, &reads, simulated, record);
        add_pages_per_die(&reads, record);
        draw(&reads, writes_curve, record);
        findings::conclude(&protocol, &reads, settings, inside, record);
        outcome
    }
}

/// Returns an error if the idle times add up to more than [`MAX_IDLE_TIME`]. It names the parameter that
/// contributes most.
fn check_idle_time(settings: &Settings) -> Result<(), LabError> {
    let (rest, long_rest) = (settings.duration("rest"), settings.duration("long_rest"));
    let reads = f64::from(settings.count("reads"));
    let later_steps = PUBLISHED_STEPS_MIB.len() as f64;
    let short_rests = rest.seconds() * (reads + later_steps * reads * (reads + 1.0) / 2.0);
    if short_rests + long_rest.seconds() <= MAX_IDLE_TIME.seconds() {
        return Ok(());
    }
    let name = if long_rest.seconds() > short_rests { "long_rest" } else { "rest" };
    Err(LabError::Range {
        name,
        value: settings.text(name).to_owned(),
        why: format!("with reads={reads} the rests of a run sum up to more than 30 days"),
    })
}

/// State of a run.
struct Run<'a> {
    protocol: &'a Protocol,
    seed: u64,
    runner: PhaseRunner<'a>,
    reads: Vec<Reads>,
    writes_curve: Vec<(f64, f64)>,
}

/// Weight of a second of idle time, in bytes: for the progress, the time of a real drive counts as bytes at
/// some hundred MB/s. Idle time of a simulated drive costs nothing.
const REST_WEIGHT_PER_SECOND: f64 = 500e6;

impl<'a> Run<'a> {
    fn new(
        protocol: &'a Protocol,
        seed: u64,
        drive: &'a mut dyn Drive,
        watcher: &'a mut dyn Watcher,
    ) -> Self {
        let plan = protocol.plan();
        let mut weights = (plan.sequential_reads + plan.sequential_writes).bytes() as f64
            + plan.random_writes.bytes() as f64 / super::RANDOM_WRITE_SHARE;
        if drive.inside().is_none() {
            weights += plan.rests.seconds() * REST_WEIGHT_PER_SECOND;
        }
        Run {
            protocol,
            seed,
            runner: PhaseRunner::new(drive, watcher, weights),
            reads: Vec::new(),
            writes_curve: Vec::new(),
        }
    }

    fn execute(&mut self) -> Result<(), LabError> {
        self.runner.drive.prepare(self.protocol.file)?;
        let fill = self.protocol.phase("fill", Pattern::Sequential, Mix::WRITE, self.protocol.file);
        self.write(fill)?;
        self.read_step("fill".to_owned(), ByteLength::ZERO)?;
        let mut written = ByteLength::ZERO;
        for (index, &amount) in self.protocol.steps.iter().enumerate() {
            let name = format!("random writes, {}", text_format::mib(amount));
            let mut phase = self.protocol.phase(
                &name,
                Pattern::RandomOnce,
                Mix::WRITE,
                amount.min(self.protocol.file),
            );
            phase.seed = self.seed.wrapping_mul(1_000).wrapping_add(index as u64 + 1);
            self.write(phase)?;
            written += amount;
            self.read_step(format!("after {}", text_format::mib(written)), written)?;
        }
        self.rest(self.protocol.long_rest)?;
        let name = match self.protocol.long_rest {
            Nanoseconds::ZERO => "once more".to_owned(),
            rest => format!("after {} of rest", text_format::duration(rest)),
        };
        self.begin_reads(name, written, true);
        self.read_once()
    }

    fn write(&mut self, mut phase: Phase) -> Result<(), LabError> {
        let share =
            if phase.pattern == Pattern::Sequential { 1.0 } else { super::RANDOM_WRITE_SHARE };
        let bytes = phase.bytes_total().expect("amounts are in bytes");
        phase.seed = phase.seed.wrapping_add(self.seed << 20);
        phase.interval = Nanoseconds::from_millis(100);
        let result = self.runner.run(&phase, bytes.bytes() as f64 / share)?;
        if phase.pattern != Pattern::Sequential {
            self.writes_curve = thinned_curve(&result);
        }
        Ok(())
    }

    fn rest(&mut self, duration: Nanoseconds) -> Result<(), LabError> {
        let weight = match self.runner.drive.inside() {
            Some(_) => 0.0,
            None => duration.seconds() * REST_WEIGHT_PER_SECOND,
        };
        self.runner.rest(duration, weight)
    }

    fn read_step(&mut self, name: String, written: ByteLength) -> Result<(), LabError> {
        let step = self.reads.len();
        self.begin_reads(name, written, false);
        for index in 0..self.protocol.reads {
            self.rest(self.protocol.idle_time_before(step, index))?;
            self.read_once()?;
        }
        Ok(())
    }

    fn begin_reads(&mut self, name: String, written: ByteLength, is_rested: bool) {
        let middle = READ_REQUEST * (self.protocol.file.whole(READ_REQUEST) / 2);
        let request = Region { offset: middle, length: READ_REQUEST };
        self.reads.push(Reads {
            name,
            written,
            is_rested,
            seconds: Vec::new(),
            pages_per_request: None,
            latencies: Latencies::default(),
            pages_by_die: self.runner.drive.pages_by_die(request),
            curve: Vec::new(),
        });
    }

    fn read_once(&mut self) -> Result<(), LabError> {
        let file = self.protocol.file;
        let mut phase = self.protocol.phase("read", Pattern::Sequential, Mix::READ, file);
        phase.interval = Nanoseconds::from_millis(20);
        let before = self.runner.drive.inside();
        let result = self.runner.run(&phase, file.bytes() as f64)?;
        let reads = self.reads.last_mut().expect("reads were begun");
        if let (Some(before), Some(after)) = (before, self.runner.drive.inside()) {
            let pages = after.counters.since(&before.counters).flash_page_reads_host;
            reads.pages_per_request = Some(pages as f64 / result.requests as f64);
        }
        reads.latencies.merge(&result.read_latencies);
        let seconds = result.elapsed.seconds();
        if seconds < reads.best() {
            reads.curve = thinned_curve(&result);
        }
        reads.seconds.push(seconds);
        Ok(())
    }
}

/// Returns the throughput curve of a phase, thinned to about [`CURVE_POINTS`] points: seconds, MB/s.
fn thinned_curve(result: &ssdlab_drive::PhaseResult) -> Vec<(f64, f64)> {
    let per_point = (result.throughput.len() as u64).div_ceil(CURVE_POINTS).max(1) as usize;
    result
        .throughput
        .chunks(per_point)
        .filter(|points| points.len() == per_point)
        .map(|points| {
            let bytes: ByteLength = points.iter().map(|point| point.bytes).sum();
            let length: Nanoseconds = points.iter().map(|point| point.length).sum();
            let until = points.last().expect("chunks are not empty").until;
            (until.seconds(), bytes.bytes() as f64 / 1e6 / length.seconds())
        })
        .collect()
}

fn tabulate(protocol: &Protocol, reads: &[Reads], simulated: bool, record: &mut Record) {
    let megabytes = protocol.file.bytes() as f64 / 1e6;
    let fill = reads.first().filter(|fill| !fill.seconds.is_empty()).map(Reads::best);
    let mut columns = vec![
        Column::new("step", ""),
        Column::new("written_bytes", "B"),
        Column::new("best_seconds", "s"),
        Column::new("mean_mb_per_s", "MB/s"),
        Column::new("slowdown", "x"),
    ];
    if simulated {
        columns.push(Column::new("flash_page_reads_per_request", ""));
    }
    let measured = reads.iter().filter(|step| !step.seconds.is_empty());
    let rows = measured
        .map(|step| {
            let mut row = vec![
                Cell::from(step.name.as_str()),
                Cell::from(step.written.bytes()),
                Cell::from(step.best()),
                Cell::from(megabytes / step.mean()),
                Cell::from(fill.map(|fill| step.best() / fill)),
            ];
            if simulated {
                row.push(Cell::from(step.pages_per_request));
            }
            row
        })
        .collect();
    record.tables.push(Table { name: "reads".to_owned(), columns, rows });
}

/// Adds a table and curves of the flash pages per die that one request reads after each step. The die with
/// the most pages determines the latency of the request.
fn add_pages_per_die(reads: &[Reads], record: &mut Record) {
    let by_step: Vec<(&Reads, &Vec<u32>)> =
        reads.iter().filter_map(|step| Some((step, step.pages_by_die.as_ref()?))).collect();
    if by_step.is_empty() {
        return;
    }
    let row = |&(step, pages): &(&Reads, &Vec<u32>)| {
        let busiest = pages.iter().copied().max().unwrap_or(0);
        vec![
            Cell::from(step.name.as_str()),
            Cell::from(u64::from(pages.iter().sum::<u32>())),
            Cell::from(pages.iter().filter(|&&pages| pages > 0).count() as u64),
            Cell::from(u64::from(busiest)),
        ]
    };
    let columns = ["step", "flash_pages", "dies", "pages_of_busiest_die"];
    record.tables.push(Table {
        name: "one_request".to_owned(),
        columns: columns.map(|name| Column::new(name, "")).into(),
        rows: by_step.iter().map(row).collect(),
    });
    for (step, pages) in by_step {
        let points: Vec<(f64, f64)> =
            (1..).zip(pages).map(|(die, &pages)| (f64::from(die), f64::from(pages))).collect();
        record.add_series(
            format!("pages_by_die_{}", text_format::series_code(&step.name)),
            ("die", "pages"),
            &points,
        );
    }
}

/// Units of the curves.
const UNITS: (&str, &str) = ("s", "MB/s");

fn draw(reads: &[Reads], writes_curve: Vec<(f64, f64)>, record: &mut Record) {
    for step in reads {
        record.add_series(
            format!("read_{}", text_format::series_code(&step.name)),
            UNITS,
            &step.curve,
        );
    }
    record.add_series("write_last_step".to_owned(), UNITS, &writes_curve);
    for step in reads {
        record.add_latencies(
            &format!("read_{}", text_format::series_code(&step.name)),
            &step.latencies,
        );
    }
}
