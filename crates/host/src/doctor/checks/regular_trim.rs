//! Regular jobs that trim free space (systemd timers and cron), and the mounts that they trim.
//!
//! systemd's service runs `fstrim --listed-in /etc/fstab:/proc/self/mountinfo` (earlier `--fstab`). fstrim takes the
//! first of these files that lists anything (fstrim(8)), so it skips file systems that are mounted and not in fstab,
//! and those with the option `X-fstrim.notrim` there. An entry counts for all mount points of the same file system.

mod cron;
mod shell;
mod systemd;

use ssdlab_blockdev::Mount;

pub(crate) use self::systemd::Timer;
use crate::facts::{Absent, Facts};
use crate::layers::Mounted;
use crate::mounts::{self, fstab_lines};

/// All regular jobs that trim free space.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Regular {
    /// State of util-linux' fstrim.timer.
    timer: Timer,
    /// Timers and cron files that call fstrim.
    jobs: Vec<Job>,
}

/// A timer or a cron file that calls fstrim.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Job {
    name: String,
    calls: Vec<Extent>,
    /// Time of the last run, in seconds since 1970; `None` if it is not recorded.
    last_run: Option<u64>,
}

/// Mounts that a call of fstrim trims.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Extent {
    /// All mounted file systems.
    All,
    /// File systems that `/etc/fstab` lists, or all that are mounted if it lists none.
    Listed,
    /// File systems of the inner extent that have one of these types, or that have none of them if the list begins with
    /// `no`.
    OfTypes(Vec<String>, Box<Extent>),
    /// File systems at these mount points.
    Points(Vec<String>),
    /// Not known, because only a shell could evaluate the call.
    Unknown,
    /// No file system, and the reason, as the end of a sentence.
    Never(String),
}

/// Regular jobs that trim one mount, and those that do not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Covering {
    /// Names of the jobs that trim the mount.
    pub(crate) by: Vec<String>,
    /// Time of the last run in seconds since 1970, if only one job trims the mount and its last run is recorded.
    pub(crate) last_run: Option<u64>,
    /// Names of the jobs that may trim the mount.
    pub(crate) unknown: Vec<String>,
    /// Jobs that do not trim the mount, each with the reason in words.
    pub(crate) passed_by: Vec<String>,
}

impl Covering {
    /// Returns true if any job trims the mount.
    pub(crate) fn is_any(&self) -> bool {
        !self.by.is_empty()
    }

    /// Returns true if a systemd timer is the only job that trims the mount.
    pub(crate) fn is_timer_alone(&self) -> bool {
        matches!(&self.by[..], [one] if one.ends_with(".timer"))
    }
}

impl Regular {
    pub(crate) fn of(facts: &dyn Facts) -> Regular {
        let (timer, mut jobs) = systemd::jobs(facts);
        jobs.extend(cron::jobs(facts));
        Regular { timer, jobs }
    }

    /// Returns the state of util-linux' fstrim.timer.
    pub(crate) fn timer(&self) -> Timer {
        self.timer
    }

    /// Returns true if any job may trim any mount.
    pub(crate) fn is_any(&self) -> bool {
        let calls = self.jobs.iter().flat_map(|job| &job.calls);
        calls.into_iter().any(|call| !matches!(call, Extent::Never(_)))
    }

    /// Returns the jobs that trim this mount, that may trim it and that do not.
    pub(crate) fn covering(&self, facts: &dyn Facts, mount: &Mounted) -> Covering {
        let mut covering = Covering::default();
        let all = mounts::mounted(facts);
        let mut last_run = None;
        for job in &self.jobs {
            let outcomes: Vec<Outcome> =
                job.calls.iter().map(|call| reaches(facts, call, mount, &all)).collect();
            match outcomes.iter().min_by_key(|outcome| outcome.place()) {
                Some(Outcome::Trims) => {
                    covering.by.push(job.name.clone());
                    last_run = job.last_run;
                }
                Some(Outcome::Unknown) => covering.unknown.push(job.name.clone()),
                Some(Outcome::PassesBy(why)) => {
                    covering.passed_by.push(format!("{} {why}", job.name));
                }
                None => {}
            }
        }
        covering.last_run = last_run.filter(|_| covering.by.len() == 1);
        covering
    }
}

/// Effect of a call of fstrim on one mount.
enum Outcome {
    Trims,
    Unknown,
    /// The mount is not trimmed; the reason, as the end of a sentence.
    PassesBy(String),
}

impl Outcome {
    /// Returns the rank of the outcome: of several calls the one with the lowest rank counts.
    fn place(&self) -> u8 {
        match self {
            Outcome::Trims => 0,
            Outcome::Unknown => 1,
            Outcome::PassesBy(_) => 2,
        }
    }
}

fn reaches(facts: &dyn Facts, extent: &Extent, mount: &Mounted, all: &[Mount]) -> Outcome {
    let passes_by = |why: &str| Outcome::PassesBy(why.to_owned());
    let same = points_of(mount, all);
    match extent {
        Extent::Unknown => Outcome::Unknown,
        Extent::Never(why) => passes_by(why),
        Extent::OfTypes(types, extent) => {
            let ours =
                all.iter().find(|it| plain(&it.point.to_string_lossy()) == plain(&mount.point));
            let kind = ours.map_or("", |it| it.file_system.as_str());
            match is_among(kind, types) {
                true => reaches(facts, extent, mount, all),
                false => Outcome::PassesBy(format!("trims {} only", types.join(","))),
            }
        }
        Extent::Points(points) => match points.iter().any(|point| same.contains(point)) {
            true => Outcome::Trims,
            false => Outcome::PassesBy(format!("trims {}", points.join(", "))),
        },
        Extent::All | Extent::Listed => {
            let text = match facts.read("/etc/fstab") {
                Ok(text) => String::from_utf8_lossy(&text).into_owned(),
                Err(Absent::Missing) => String::new(),
                Err(_) if *extent == Extent::All => String::new(),
                Err(_) => return Outcome::Unknown,
            };
            let lines = fstab_lines(&text);
            let ours: Vec<_> = lines.iter().filter(|it| same.contains(&plain(&it.point))).collect();
            let is_left_out =
                |options: &[String]| options.iter().any(|option| option == "X-fstrim.notrim");
            match () {
                () if !ours.is_empty() && ours.iter().all(|line| is_left_out(&line.options)) => {
                    passes_by("is on, and leaves it out for X-fstrim.notrim in /etc/fstab")
                }
                () if *extent == Extent::All || lines.is_empty() || !ours.is_empty() => {
                    Outcome::Trims
                }
                () => passes_by("is on, and goes by /etc/fstab, where no line mounts it"),
            }
        }
    }
}

/// Returns true if a file system type matches the list of `fstrim --types`, which a leading `no` inverts.
fn is_among(kind: &str, types: &[String]) -> bool {
    let first = types.first().and_then(|first| first.strip_prefix("no"));
    match first {
        Some(first) => {
            kind != first && !types[1..].iter().any(|it| it.trim_start_matches("no") == kind)
        }
        None => types.iter().any(|it| it == kind),
    }
}

/// Returns all mount points of the file system of a mount.
fn points_of(mount: &Mounted, all: &[Mount]) -> Vec<String> {
    let text = |it: &Mount| plain(&it.point.to_string_lossy());
    let ours = all.iter().find(|it| text(it) == plain(&mount.point));
    let same = all.iter().filter(|it| ours.is_some_and(|ours| ours.device == it.device));
    std::iter::once(plain(&mount.point)).chain(same.map(text)).collect()
}

/// Returns a path without trailing slashes.
fn plain(path: &str) -> String {
    match path.trim_end_matches('/') {
        "" => "/".to_owned(),
        path => path.to_owned(),
    }
}
