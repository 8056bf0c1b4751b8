//! The experiment `job`: runs a fio job file on any drive.
//!
//! Order and concurrency of jobs are those of fio; differences from fio are named in the report. A job that a
//! single phase can express is run as one, which costs the host least; other jobs are run request by request.
//! are run request by request.

use std::path::Path;

use ssdlab_drive::lanes::MAX_LANES;
use ssdlab_drive::{
    Amount, Description, Drive, DriveKind, LaneResult, Latencies, Mix, Pattern, Phase, Rate, Region,
};
use ssdlab_interchange::fio::work::{Space, Work};
use ssdlab_interchange::fio::{Direction, Job, JobFile};
use ssdlab_interchange::{InputError, Remark};
use ssdlab_units::{ByteLength, MIB, Nanoseconds};

use super::job_table::{self, JobResults};
use super::phase_runner::PhaseRunner;
use super::{Experiment, Kind, ParameterSpec, Plan, Record, Settings, Watcher, text_format};
use crate::error::LabError;
use crate::output::format;
use crate::report::{Level, Parameter};

/// The experiment `job`.
pub struct FioJob;

const PARAMETERS: [ParameterSpec; 3] = [
    ParameterSpec {
        name: "file",
        kind: Kind::File,
        full: "",
        quick: "",
        help: "job file; also accepted as an argument before the target",
    },
    ParameterSpec {
        name: "limit",
        kind: Kind::Duration,
        full: "0s",
        quick: "10s",
        help: "maximum runtime of each job; 0 for the runtime in the file",
    },
    ParameterSpec {
        name: "fill",
        kind: Kind::Choice(&["auto", "no"]),
        full: "auto",
        quick: "auto",
        help: "auto fills the areas that jobs read on an empty drive, as fio lays out files",
    },
];

/// Number of points in a curve.
const POINTS: u64 = 240;

/// Assumed throughput of sequential work, for the progress.
const BYTES_PER_SECOND: f64 = 500e6;

/// A job file, applied to a drive.
struct Protocol {
    groups: Vec<(Nanoseconds, Vec<Work>)>,
    remarks: Vec<Remark>,
    fills: bool,
    is_file: bool,
    /// Capacity of the drive, if jobs have sizes or offsets in percent: they refer to the whole drive.
    whole: Option<ByteLength>,
}

fn read(settings: &Settings) -> Result<JobFile, LabError> {
    let path = settings.file("file")?;
    let text = std::fs::read_to_string(path)
        .map_err(|source| LabError::Read { path: path.to_owned(), source })?;
    let wrong = |source| LabError::Input { path: path.to_owned(), source };
    let file = JobFile::parse(&text).map_err(wrong)?;
    check_times(&file).and_then(|()| check_copies(&file)).map_err(wrong)?;
    Ok(file)
}

/// Returns an error if more copies of jobs run concurrently than a drive supports.
fn check_copies(file: &JobFile) -> Result<(), InputError> {
    for group in &file.groups {
        let copies: usize = group.jobs.iter().map(|job| job.copies as usize).sum();
        if copies > MAX_LANES {
            let names: Vec<String> = group.jobs.iter().map(|job| job.name.clone()).collect();
            return Err(InputError::whole(format!(
                "{copies} copies of {} would run at once (numjobs); the maximum is {MAX_LANES}",
                text_format::join_names(&names)
            )));
        }
    }
    Ok(())
}

/// Returns an error if a time is longer than the maximum: it is taken for a typing error.
fn check_times(file: &JobFile) -> Result<(), InputError> {
    let most = Phase::LONGEST;
    for group in &file.groups {
        for job in &group.jobs {
            let times = [group.rest, job.ramp, job.runtime.unwrap_or_default()];
            let longest = times.into_iter().max().unwrap_or_default();
            if longest > most || job.ramp.seconds() + times[2].seconds() > most.seconds() {
                return Err(InputError::whole(format!(
                    "job '{}' would run or wait for {} (startdelay, ramp_time and runtime); the \
                     maximum is {}",
                    job.name,
                    format::span(longest.seconds()),
                    format::span(most.seconds())
                )));
            }
        }
    }
    Ok(())
}

impl Protocol {
    fn new(settings: &Settings, drive: &Description) -> Result<Protocol, LabError> {
        let path: &Path = settings.file("file")?;
        let file = read(settings)?;
        let is_file = matches!(drive.kind, DriveKind::File | DriveKind::Directory);
        let space = Space { capacity: drive.capacity, unit: drive.block_size, is_fixed: !is_file };
        let limit = settings.duration("limit");
        let work = |job: &Job| {
            let mut job = job.clone();
            if limit > Nanoseconds::ZERO {
                job.runtime = Some(job.runtime.map_or(limit, |time| time.min(limit)));
            }
            Work::new(&job, space)
        };
        let groups: Result<_, _> = (file.groups.iter())
            .map(|group| Ok((group.rest, group.jobs.iter().map(work).collect::<Result<_, _>>()?)))
            .collect();
        let groups = groups.map_err(|source| LabError::Input { path: path.to_owned(), source })?;
        // Data on a device is not overwritten before it is read.
        let fills = settings.text("fill") == "auto" && drive.kind != DriveKind::Device;
        let has_shares = file.jobs().any(Job::is_relative);
        let whole = has_shares.then_some(drive.capacity);
        Ok(Protocol { groups, remarks: file.remarks, fills, is_file, whole })
    }

    fn works(&self) -> impl Iterator<Item = &Work> {
        self.groups.iter().flat_map(|(_, works)| works)
    }

    /// Returns the number of bytes that have to be addressable.
    fn space(&self) -> ByteLength {
        let end = self.works().map(|work| work.region().end()).max().unwrap_or_default();
        self.whole.unwrap_or(end)
    }

    /// Returns the region that reading jobs read and that is filled first; `None` if nothing is filled.
    fn filled(&self) -> Option<Region> {
        let reads =
            |work: &&Work| matches!(work.job().direction, Direction::Read | Direction::Mixed(_));
        let end = self.works().filter(reads).map(|work| work.region().end()).max()?;
        self.fills.then(|| Region::first(end))
    }

    fn plan(&self) -> Plan {
        let mut plan = Plan { space: self.space(), ..Plan::default() };
        plan.sequential_writes = self.filled().map_or(ByteLength::ZERO, |region| region.length);
        for work in self.works() {
            let job = work.job();
            plan.block_sizes.push(job.block_size);
            let reads = job.direction == Direction::Read;
            match (work.bytes(), work.time()) {
                (Some(bytes), None) if reads => plan.sequential_reads += bytes,
                (Some(bytes), None) if job.direction == Direction::Trim => plan.trims += bytes,
                (Some(bytes), None) if job.random => plan.random_writes += bytes,
                (Some(bytes), None) => plan.sequential_writes += bytes,
                (_, time) if reads => plan.reading += time.unwrap_or_default(),
                (_, time) => plan.writing += time.unwrap_or_default(),
            }
        }
        plan.rests = self.groups.iter().map(|(rest, _)| *rest).sum();
        plan
    }

    fn fill_weight(&self) -> f64 {
        self.filled().map_or(0.0, |region| region.length.bytes() as f64 / BYTES_PER_SECOND)
    }
}

/// Returns the estimated seconds of jobs that run concurrently.
fn weight(works: &[Work]) -> f64 {
    let seconds = |work: &Work| match (work.time(), work.bytes()) {
        (Some(time), _) => time.seconds(),
        (None, bytes) => bytes.unwrap_or_default().bytes() as f64 / BYTES_PER_SECOND,
    };
    works.iter().map(seconds).fold(0.0, f64::max)
}

impl Experiment for FioJob {
    fn name(&self) -> &'static str {
        "job"
    }

    fn question(&self) -> &'static str {
        "How fast does the drive run the workload of a fio job file?"
    }

    fn source(&self) -> &'static str {
        "fio's job files (HOWTO, version 3.33); see docs/experiments/job.md"
    }

    fn parameters(&self) -> &'static [ParameterSpec] {
        &PARAMETERS
    }

    fn accepts_block_devices(&self) -> bool {
        true
    }

    fn check(&self, settings: &mut Settings) -> Result<(), LabError> {
        read(settings).map(|_| ())
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
        let description = drive.description();
        let weights: f64 = protocol.groups.iter().map(|(_, works)| weight(works)).sum();
        let mut runner = PhaseRunner::new(drive, watcher, weights + protocol.fill_weight());
        let mut results = Vec::new();
        let outcome = execute(&protocol, seed, &mut runner, &mut results);
        runner.finish(record);
        let mut rows = Vec::new();
        results.iter().for_each(|one: &JobResults| one.add_to(&mut rows, record));
        // A simulated host submits requests without delay.
        if description.kind != DriveKind::Simulated {
            for (work, one) in protocol.works().zip(&results) {
                check_depth_reached(work.job(), one, &description.engine, record);
            }
        }
        for (work, one) in protocol.works().zip(&results) {
            check_rate_reached(work.job(), one, record);
        }
        record.tables.push(job_table::table("jobs", &rows));
        job_table::conclude(&rows, record);
        protocol.works().for_each(|work| add_job_parameters(work.job(), record));
        add_remarks(&protocol.remarks, record);
        record.add_shortened_finding(settings);
        outcome
    }
}

/// Adds the job's own settings to the report's parameters, so that reports of different jobs differ.
pub(crate) fn add_job_parameters(job: &Job, record: &mut Record) {
    let settings = job.settings().into_iter();
    record.parameters.extend(settings.map(|(name, value)| Parameter {
        name: format!("{}.{name}", job.name),
        value,
        changed: false,
    }));
}

/// Minimum share of the requested rate that a job has to reach.
const RATE_REACHED: f64 = 0.95;

/// Adds a warning if a job did not reach its rate: its latencies are those of an overloaded drive.
fn check_rate_reached(job: &Job, results: &JobResults, record: &mut Record) {
    let Some(rate) = job.rate else { return };
    let of_one = match rate {
        Rate::RequestsPerSecond(rate) | Rate::Open(rate) => rate,
        Rate::BytesPerSecond(rate) => rate / job.block_size.bytes() as f64,
    };
    let asked = of_one * f64::from(job.copies);
    let Some(made) = results.per_second().filter(|made| *made < RATE_REACHED * asked) else {
        return;
    };
    let text = format!(
        "{} asks for {} requests a second and made {}: the drive did not keep up, or other settings of the job \
         (thinktime, fsync, iodepth) held it back.",
        job.name,
        format::significant(asked),
        format::significant(made)
    );
    record.add_finding(Level::Warning, "rate-not-reached", text);
}

/// Minimum share of the queue depth that a job has to keep in flight.
const DEEP_ENOUGH: f64 = 0.9;

/// Adds a notice if a job did not reach its queue depth, so that its results are not comparable with fio's.
fn check_depth_reached(job: &Job, results: &JobResults, engine: &str, record: &mut Record) {
    let asked = f64::from(job.depth * job.copies);
    let waits_itself = job.rate.is_some() || job.think.is_some() || job.flush_every.is_some();
    let Some(in_flight) = results.in_flight() else { return };
    if job.depth == 1 || waits_itself || in_flight >= DEEP_ENOUGH * asked {
        return;
    }
    let text = format!(
        "{} had {in_flight:.1} requests in flight on average, not the {asked} that it asks for: \
         they completed faster than they could be submitted ({engine}). A drive that executes \
         requests within the submitting call never has more in flight than there are submitting \
         threads; --engine libaio or io_uring submits as fio's engine of that name does.",
        job.name
    );
    record.add_finding(Level::Notice, "job-depth", text);
}

fn add_remarks(remarks: &[Remark], record: &mut Record) {
    if remarks.is_empty() {
        return;
    }
    let words = |remark: &Remark| match remark.line {
        0 => remark.words.clone(),
        line => format!("line {line}, {}", remark.words),
    };
    let all: Vec<String> = remarks.iter().map(words).collect();
    let text = format!("Differences from fio: {}.", all.join("; "));
    record.add_finding(Level::Notice, "job-options", text);
}

fn execute(
    protocol: &Protocol,
    seed: u64,
    runner: &mut PhaseRunner,
    results: &mut Vec<JobResults>,
) -> Result<(), LabError> {
    runner.drive.prepare(protocol.space())?;
    let is_empty = protocol.is_file
        || runner.drive.inside().is_some_and(|inside| inside.counters.host_write_units == 0);
    if let Some(region) = protocol.filled().filter(|_| is_empty) {
        runner.precondition(
            &layout(region, runner.drive.description().block_size, seed),
            protocol.fill_weight(),
        )?;
    }
    let mut number = 0u64;
    for (rest, works) in &protocol.groups {
        runner.rest(*rest, 0.0)?;
        let seeds = seed.wrapping_mul(1_000).wrapping_add(number);
        number += works.len() as u64;
        run_group(works, seeds, runner, results)?;
    }
    Ok(())
}

/// Returns the phase that fills `region`, in the largest requests that divide it.
pub(super) fn layout(region: Region, unit: ByteLength, seed: u64) -> Phase {
    let mut block = MIB;
    while !region.length.is_multiple_of(block) && block > unit {
        block = ByteLength::new(block.bytes() / 2);
    }
    let amount = Amount::Bytes(block * region.length.whole(block));
    Phase {
        name: "layout of what will be read".to_owned(),
        pattern: Pattern::Sequential,
        block_size: block,
        depth: 8,
        mix: Mix::WRITE,
        region,
        amount,
        rate: None,
        seed,
        flush_at_end: true,
        interval: Nanoseconds::ZERO,
    }
}

fn run_group(
    works: &[Work],
    seed: u64,
    runner: &mut PhaseRunner,
    results: &mut Vec<JobResults>,
) -> Result<(), LabError> {
    let interval = interval(works);
    let weight = weight(works);
    if let [work] = works
        && let Some(phase) = work.phase(seed, interval)
    {
        let phase = runner.run(&phase, weight)?;
        let none = || (Latencies::default(), ByteLength::ZERO);
        let ((trims, bytes_trimmed), (flushes, _)) = (none(), none());
        let result = LaneResult { phase, trims, bytes_trimmed, flushes };
        results.push(JobResults::new(work.job().name.clone(), vec![result]));
        return Ok(());
    }
    let numbered = works.iter().zip(seed..);
    let lanes = numbered.flat_map(|(work, seed)| work.lanes(seed, interval)).collect();
    let names: Vec<String> = works.iter().map(|work| work.job().name.clone()).collect();
    let mut lane_results =
        runner.run_lanes(&text_format::join_names(&names), lanes, weight)?.into_iter();
    for work in works {
        let own = lane_results.by_ref().take(work.job().copies as usize).collect();
        results.push(JobResults::new(work.job().name.clone(), own));
    }
    Ok(())
}

/// Returns an interval that gives curves of about `POINTS` points, in whole seconds if it is at least one.
fn interval(works: &[Work]) -> Nanoseconds {
    let Some(time) = works.iter().filter_map(Work::time).max() else {
        return Nanoseconds::from_secs(1);
    };
    let second = Nanoseconds::from_secs(1).nanos();
    let part = time.nanos() / POINTS;
    Nanoseconds::new(if part >= second { part.div_ceil(second) * second } else { second })
}
