//! A job file as jobs: what each one asks for, and which run together.

use std::collections::BTreeSet;

use ssdlab_drive::{Rate, Skew};
use ssdlab_units::{ByteLength, KIB, Nanoseconds};

use super::options;
use super::sections::{Given, Section, sections};
use crate::error::{InputError, Remark, shown};

/// A job file.
#[derive(Clone, Debug, PartialEq)]
pub struct JobFile {
    /// What runs together, in the order of running.
    pub groups: Vec<Group>,
    /// What is done in another way than fio would, or not at all.
    pub remarks: Vec<Remark>,
}

/// Jobs that run at the same time.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// How long the drive is left alone before.
    pub rest: Nanoseconds,
    /// The jobs.
    pub jobs: Vec<Job>,
}

/// What a job's requests do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Only reads.
    Read,
    /// Only writes.
    Write,
    /// Only trims.
    Trim,
    /// Reads and writes, so many reads per hundred.
    Mixed(u8),
}

/// A length or place on the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// So many bytes.
    Bytes(ByteLength),
    /// So many hundredths of the target.
    Percent(u8),
}

/// One job.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// Its name.
    pub name: String,
    /// The line its section begins at.
    pub line: u64,
    /// What its requests do.
    pub direction: Direction,
    /// True if blocks come in random order.
    pub random: bool,
    /// True if a block may come again before all others came (`norandommap`).
    pub repeats: bool,
    /// Which blocks come more often than others, where not all come alike (`random_distribution`).
    pub distribution: Option<Skew>,
    /// Bytes per request.
    pub block_size: ByteLength,
    /// Requests in flight.
    pub depth: u32,
    /// How many of it run (`numjobs`).
    pub copies: u32,
    /// Where its region begins.
    pub offset: Extent,
    /// How long its region is; `None` for the whole target.
    pub size: Option<Extent>,
    /// Bytes to move, where that is not the size.
    pub io_size: Option<ByteLength>,
    /// How many times it is run.
    pub loops: u32,
    /// The longest it runs.
    pub runtime: Option<Nanoseconds>,
    /// True if it runs so long though all was moved.
    pub time_based: bool,
    /// Time before measuring.
    pub ramp: Nanoseconds,
    /// How fast at most.
    pub rate: Option<Rate>,
    /// A flush after so many writes.
    pub flush_every: Option<u64>,
    /// True to flush at the end.
    pub flush_at_end: bool,
    /// A pause after so many requests.
    pub think: Option<(u64, Nanoseconds)>,
    /// Seed of its addresses, where one is given.
    pub seed: Option<u64>,
    /// True if it waits for the jobs before it.
    pub(super) waits: bool,
    /// How long the drive is left alone before.
    pub(super) rest: Nanoseconds,
    /// What was written about the engine and its page cache.
    pub(super) engine: Option<String>,
    pub(super) direct: bool,
    pub(super) mixed_share: u8,
    pub(super) open_arrivals: Option<u64>,
    pub(super) depth_line: u64,
    /// Which option said how often to flush.
    pub(super) flush_option: Option<String>,
    /// The file or device it names.
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
            offset: Extent::Bytes(ByteLength::ZERO),
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
            waits: false,
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

    /// Returns what the job asks for as name and value, in normal form: two job files that say the same in other words
    /// have the same. Without what fio's JSON leaves out (`time_based`).
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
        add("size", self.size.map(extent_words));
        add("offset", Some(self.offset).filter(|it| !it.is_none()).map(extent_words));
        add("io_size", self.io_size.map(|it| it.to_string()));
        add("loops", beyond_one(self.loops));
        add("runtime", self.runtime.map(|it| it.to_string()));
        add("norandommap", (self.random && self.repeats).then(|| "1".to_owned()));
        add(
            "random_distribution",
            self.distribution.filter(|_| self.random).map(|it| it.to_string()),
        );
        add("rate", self.rate.map(rate_words));
        add("fsync", self.flush_every.map(|it| it.to_string()));
        add("end_fsync", self.flush_at_end.then(|| "1".to_owned()));
        add("thinktime", self.think.map(|(every, time)| format!("{time} every {every}")));
        settings
    }

    /// Returns true if its region is a share of the target.
    pub fn is_relative(&self) -> bool {
        matches!(self.size, None | Some(Extent::Percent(_)))
            || matches!(self.offset, Extent::Percent(1..))
    }

    /// Returns true if the job writes or trims.
    pub fn changes_data(&self) -> bool {
        self.direction != Direction::Read
    }
}

impl Extent {
    /// Returns how much that is of a target of `capacity`.
    pub fn of(self, capacity: ByteLength) -> ByteLength {
        match self {
            Extent::Bytes(bytes) => bytes,
            Extent::Percent(percent) => {
                let part = u128::from(capacity.bytes()) * u128::from(percent) / 100;
                ByteLength::new(part as u64)
            }
        }
    }

    fn is_none(self) -> bool {
        matches!(self, Extent::Bytes(ByteLength::ZERO) | Extent::Percent(0))
    }
}

fn extent_words(extent: Extent) -> String {
    match extent {
        Extent::Bytes(bytes) => bytes.to_string(),
        Extent::Percent(percent) => format!("{percent}%"),
    }
}

fn rate_words(rate: Rate) -> String {
    match rate {
        Rate::RequestsPerSecond(rate) => format!("{rate} requests/s"),
        Rate::BytesPerSecond(rate) => format!("{rate} bytes/s"),
        Rate::Open(rate) => format!("{rate} requests/s, Poisson"),
    }
}

/// The most jobs of a file.
const MOST_JOBS: usize = 10_000;

impl JobFile {
    /// Reads a job file.
    ///
    /// # Errors
    /// Names the line of the first thing that is not understood, or cannot be done.
    pub fn parse(text: &str) -> Result<JobFile, InputError> {
        let mut global: Vec<Given> = Vec::new();
        let mut jobs = Vec::new();
        let mut remarks = Vec::new();
        for section in sections(text)? {
            // So fio 3.33 does: what follows the word does not matter.
            if section.name.starts_with("global") {
                global.extend(section.given);
                continue;
            }
            if jobs.len() == MOST_JOBS {
                return Err(InputError::at(section.line, "too many jobs for one file"));
            }
            let mut job = Job::new(&section);
            for given in global.iter().chain(&section.given) {
                options::apply(&mut job, given, &mut remarks)?;
            }
            options::conclude(&mut job, &mut remarks)?;
            jobs.push(job);
        }
        if jobs.is_empty() {
            return Err(InputError::whole("there is no job in it; a job begins with [name]"));
        }
        remarks.extend(one_for_several_files(&jobs));
        remarks.sort();
        remarks.dedup();
        Ok(JobFile { groups: grouped(jobs)?, remarks })
    }

    /// Reads what fio's JSON says of a job: options as name and value.
    ///
    /// # Errors
    /// As [`JobFile::parse`], without lines.
    pub fn job_of_options<'a>(
        name: &str,
        given: impl Iterator<Item = (&'a str, &'a str)>,
    ) -> Result<Job, InputError> {
        let section = Section { line: 0, name: name.to_owned(), given: Vec::new() };
        let mut job = Job::new(&section);
        let mut remarks = Vec::new();
        for (key, value) in given {
            let value = (!value.is_empty()).then(|| value.to_owned());
            let given = Given { line: 0, key: key.to_owned(), value };
            options::apply(&mut job, &given, &mut remarks)?;
        }
        options::conclude(&mut job, &mut remarks)?;
        Ok(job)
    }

    /// All jobs, in the order of the file.
    pub fn jobs(&self) -> impl Iterator<Item = &Job> {
        self.groups.iter().flat_map(|group| &group.jobs)
    }
}

/// Returns what has to be said where fio would work on several files.
fn one_for_several_files(jobs: &[Job]) -> Option<Remark> {
    let named: BTreeSet<&str> = jobs.iter().filter_map(|job| job.file.as_deref()).collect();
    // fio makes one for each copy of a job that names none.
    let unnamed: usize =
        jobs.iter().filter(|job| job.file.is_none()).map(|job| job.copies as usize).sum();
    let count = named.len() + unnamed;
    (count > 1).then(|| Remark {
        line: 0,
        words: format!(
            "with fio the jobs would work on {count} files or devices (without filename, each copy \
             of each job has one of its own); here all of them work on the same area of one target"
        ),
    })
}

/// Jobs run together until one waits for those before it.
fn grouped(jobs: Vec<Job>) -> Result<Vec<Group>, InputError> {
    let mut groups: Vec<Group> = Vec::new();
    for job in jobs {
        match groups.last_mut() {
            Some(group) if !job.waits && job.rest == group.rest => group.jobs.push(job),
            Some(_) if !job.waits => {
                let why = format!(
                    "job '{}' would begin at another time than the jobs that it runs beside \
                     (exec_prerun); that is not there: add stonewall, to run it after them",
                    shown(&job.name)
                );
                return Err(InputError::at(job.line, why));
            }
            _ => groups.push(Group { rest: job.rest, jobs: vec![job] }),
        }
    }
    Ok(groups)
}
