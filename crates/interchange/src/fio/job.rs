//! fio job file: its jobs, with the options of each, and the groups that run together.

use std::collections::BTreeSet;

use ssdlab_drive::{Rate, Skew};
use ssdlab_units::{ByteLength, KIB, Nanoseconds};

use super::options;
use super::sections::{FioOption, Section, sections};
use crate::error::{InputError, Remark, shown};

/// fio job file.
#[derive(Clone, Debug, PartialEq)]
pub struct JobFile {
    /// Groups of jobs that run together, in the order of running.
    pub groups: Vec<JobGroup>,
    /// Remarks on what is done differently than by fio, or not at all.
    pub remarks: Vec<Remark>,
}

/// Jobs that run at the same time.
#[derive(Clone, Debug, PartialEq)]
pub struct JobGroup {
    /// Idle time of the drive before the group.
    pub rest: Nanoseconds,
    /// Jobs of the group.
    pub jobs: Vec<Job>,
}

/// Kinds of request that a job sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Only reads.
    Read,
    /// Only writes.
    Write,
    /// Only trims.
    Trim,
    /// Reads and writes; the number is the percentage of reads.
    Mixed(u8),
}

/// Length or offset on the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SizeOrPercent {
    /// Number of bytes.
    Bytes(ByteLength),
    /// Percentage of the target's capacity.
    Percent(u8),
}

/// fio job with its options.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// Name of the job.
    pub name: String,
    /// Line at which the job's section begins.
    pub line: u64,
    /// Kinds of request that the job sends.
    pub direction: Direction,
    /// True if the blocks are addressed in random order.
    pub random: bool,
    /// True if a block may be repeated before all others were addressed (`norandommap`).
    pub repeats: bool,
    /// Skewed distribution of the blocks (`random_distribution`); `None` if all are equally frequent.
    pub distribution: Option<Skew>,
    /// Bytes per request.
    pub block_size: ByteLength,
    /// Number of requests in flight (`iodepth`).
    pub depth: u32,
    /// Number of copies of the job that run at the same time (`numjobs`).
    pub copies: u32,
    /// Offset of the job's region.
    pub offset: SizeOrPercent,
    /// Length of the job's region; `None` for the whole target.
    pub size: Option<SizeOrPercent>,
    /// Bytes to transfer (`io_size`); `None` if they are the size of the region.
    pub io_size: Option<ByteLength>,
    /// Number of times that the job is repeated (`loops`).
    pub loops: u32,
    /// Longest running time; `None` if not limited.
    pub runtime: Option<Nanoseconds>,
    /// True if the job runs for its whole `runtime`, even if all bytes were transferred (`time_based`).
    pub time_based: bool,
    /// Time before measuring begins (`ramp_time`).
    pub ramp: Nanoseconds,
    /// Highest rate of requests, if limited.
    pub rate: Option<Rate>,
    /// Number of writes after which a flush follows (`fsync`, `fdatasync`).
    pub flush_every: Option<u64>,
    /// True if the job ends with a flush (`end_fsync`).
    pub flush_at_end: bool,
    /// Number of requests after which a pause follows, and the pause (`thinktime`).
    pub think: Option<(u64, Nanoseconds)>,
    /// Seed of the job's addresses (`randseed`), if it is set.
    pub seed: Option<u64>,
    /// True if the job waits for the jobs before it (`stonewall`).
    pub(super) waits_for_previous: bool,
    /// Idle time of the drive before the job.
    pub(super) rest: Nanoseconds,
    /// Name of the I/O engine (`ioengine`), if it is set.
    pub(super) engine: Option<String>,
    pub(super) direct: bool,
    pub(super) mixed_share: u8,
    pub(super) open_arrivals: Option<u64>,
    pub(super) depth_line: u64,
    /// Name of the option that set the number of writes between flushes.
    pub(super) flush_option: Option<String>,
    /// File or device that the job names (`filename`).
    pub(super) file: Option<String>,
}

impl Job {
    fn new(section: &Section) -> Job {
        Job {
            name: section.name.clone(),
            line: section.line,
            direction: Direction::Read,
            random: false,
            repeats: false,
            distribution: None,
            block_size: KIB * 4,
            depth: 1,
            copies: 1,
            offset: SizeOrPercent::Bytes(ByteLength::ZERO),
            size: None,
            io_size: None,
            loops: 1,
            runtime: None,
            time_based: false,
            ramp: Nanoseconds::ZERO,
            rate: None,
            flush_every: None,
            flush_at_end: false,
            think: None,
            seed: None,
            waits_for_previous: false,
            rest: Nanoseconds::ZERO,
            engine: None,
            direct: false,
            mixed_share: 50,
            open_arrivals: None,
            depth_line: section.line,
            flush_option: None,
            file: None,
        }
    }

    /// Returns the options of the job as names and values in normal form: equivalent job files give the same result.
    /// Options that fio's JSON leaves out (`time_based`) are not included.
    pub fn settings(&self) -> Vec<(&'static str, String)> {
        let prefix = if self.random { "rand" } else { "" };
        let direction = match self.direction {
            Direction::Read => format!("{prefix}read"),
            Direction::Write => format!("{prefix}write"),
            Direction::Trim => format!("{prefix}trim"),
            Direction::Mixed(percent) => format!("{prefix}rw, {percent} % reads"),
        };
        let mut settings = vec![
            ("rw", direction),
            ("bs", self.block_size.to_string()),
            ("iodepth", self.depth.to_string()),
        ];
        let mut add = |name, value: Option<String>| settings.extend(value.map(|it| (name, it)));
        let beyond_one = |number: u32| (number > 1).then(|| number.to_string());
        add("numjobs", beyond_one(self.copies));
        add("size", self.size.map(size_text));
        add("offset", Some(self.offset).filter(|it| !it.is_none()).map(size_text));
        add("io_size", self.io_size.map(|it| it.to_string()));
        add("loops", beyond_one(self.loops));
        add("runtime", self.runtime.map(|it| it.to_string()));
        add("norandommap", (self.random && self.repeats).then(|| "1".to_owned()));
        add(
            "random_distribution",
            self.distribution.filter(|_| self.random).map(|it| it.to_string()),
        );
        add("rate", self.rate.map(rate_text));
        add("fsync", self.flush_every.map(|it| it.to_string()));
        add("end_fsync", self.flush_at_end.then(|| "1".to_owned()));
        add("thinktime", self.think.map(|(every, time)| format!("{time} every {every}")));
        settings
    }

    /// Returns true if size or offset of the job's region depend on the target's capacity.
    pub fn is_relative(&self) -> bool {
        matches!(self.size, None | Some(SizeOrPercent::Percent(_)))
            || matches!(self.offset, SizeOrPercent::Percent(1..))
    }

    /// Returns true if the job writes or trims.
    pub fn changes_data(&self) -> bool {
        self.direction != Direction::Read
    }
}

impl SizeOrPercent {
    /// Returns the number of bytes on a target of `capacity`.
    pub fn of(self, capacity: ByteLength) -> ByteLength {
        match self {
            SizeOrPercent::Bytes(bytes) => bytes,
            SizeOrPercent::Percent(percent) => {
                let part = u128::from(capacity.bytes()) * u128::from(percent) / 100;
                ByteLength::new(part as u64)
            }
        }
    }

    fn is_none(self) -> bool {
        matches!(self, SizeOrPercent::Bytes(ByteLength::ZERO) | SizeOrPercent::Percent(0))
    }
}

fn size_text(size: SizeOrPercent) -> String {
    match size {
        SizeOrPercent::Bytes(bytes) => bytes.to_string(),
        SizeOrPercent::Percent(percent) => format!("{percent}%"),
    }
}

fn rate_text(rate: Rate) -> String {
    match rate {
        Rate::RequestsPerSecond(rate) => format!("{rate} requests/s"),
        Rate::BytesPerSecond(rate) => format!("{rate} bytes/s"),
        Rate::Open(rate) => format!("{rate} requests/s, Poisson"),
    }
}

/// Largest number of jobs in a file.
const MAX_JOBS: usize = 10_000;

impl JobFile {
    /// Reads a job file.
    ///
    /// # Errors
    /// Returns an error with the line of the first option that is not understood or not supported.
    pub fn parse(text: &str) -> Result<JobFile, InputError> {
        let mut global: Vec<FioOption> = Vec::new();
        let mut jobs = Vec::new();
        let mut remarks = Vec::new();
        for section in sections(text)? {
            // fio 3.33 compares only the beginning of the name, too.
            if section.name.starts_with("global") {
                global.extend(section.options);
                continue;
            }
            if jobs.len() == MAX_JOBS {
                return Err(InputError::at(section.line, "too many jobs for one file"));
            }
            let mut job = Job::new(&section);
            for given in global.iter().chain(&section.options) {
                options::apply(&mut job, given, &mut remarks)?;
            }
            options::resolve(&mut job, &mut remarks)?;
            jobs.push(job);
        }
        if jobs.is_empty() {
            return Err(InputError::whole("there is no job in it; a job begins with [name]"));
        }
        remarks.extend(several_files_remark(&jobs));
        remarks.sort();
        remarks.dedup();
        Ok(JobFile { groups: group_jobs(jobs)?, remarks })
    }

    /// Reads the options of a job in fio's JSON, given as names and values.
    ///
    /// # Errors
    /// Returns the errors of [`JobFile::parse`], without lines.
    pub fn job_of_options<'a>(
        name: &str,
        given: impl Iterator<Item = (&'a str, &'a str)>,
    ) -> Result<Job, InputError> {
        let section = Section { line: 0, name: name.to_owned(), options: Vec::new() };
        let mut job = Job::new(&section);
        let mut remarks = Vec::new();
        for (key, value) in given {
            let value = (!value.is_empty()).then(|| value.to_owned());
            let given = FioOption { line: 0, key: key.to_owned(), value };
            options::apply(&mut job, &given, &mut remarks)?;
        }
        options::resolve(&mut job, &mut remarks)?;
        Ok(job)
    }

    /// Returns all jobs, in the order of the file.
    pub fn jobs(&self) -> impl Iterator<Item = &Job> {
        self.groups.iter().flat_map(|group| &group.jobs)
    }
}

/// Returns the remark that fio would work on several files, or `None` if it would work on one.
fn several_files_remark(jobs: &[Job]) -> Option<Remark> {
    let named: BTreeSet<&str> = jobs.iter().filter_map(|job| job.file.as_deref()).collect();
    // fio creates one file for each copy of a job that names none.
    let unnamed: usize =
        jobs.iter().filter(|job| job.file.is_none()).map(|job| job.copies as usize).sum();
    let count = named.len() + unnamed;
    (count > 1).then(|| Remark {
        line: 0,
        words: format!(
            "fio would use {count} files or devices for these jobs (without filename, one for \
             each copy of each job); here all jobs use the same area of one target"
        ),
    })
}

/// Returns groups of jobs that run together: a job that waits for those before it begins a new group.
fn group_jobs(jobs: Vec<Job>) -> Result<Vec<JobGroup>, InputError> {
    let mut groups: Vec<JobGroup> = Vec::new();
    for job in jobs {
        match groups.last_mut() {
            Some(group) if !job.waits_for_previous && job.rest == group.rest => {
                group.jobs.push(job)
            }
            Some(_) if !job.waits_for_previous => {
                let why = format!(
                    "job '{}' would begin later or earlier than the jobs it runs with \
                     (exec_prerun), which is not supported: add stonewall to run it after them",
                    shown(&job.name)
                );
                return Err(InputError::at(job.line, why));
            }
            _ => groups.push(JobGroup { rest: job.rest, jobs: vec![job] }),
        }
    }
    Ok(groups)
}
