//! Jobs that trim free space now and then, and the mounts that they trim: timers of systemd and cron.
//!
//! systemd's service runs `fstrim --listed-in /etc/fstab:/proc/self/mountinfo` (earlier `--fstab`): that
//! takes the first of these files that lists anything (fstrim(8)), so that what is mounted and not in
//! fstab is passed by, and so is what has the option `X-fstrim.notrim` there. What is listed counts for
//! all places where the same file system is mounted.

mod cron;
mod shell;
mod systemd;

use ssdlab_blockdev::Mount;

pub(crate) use self::systemd::Timer;
use crate::facts::{Absent, Facts};
use crate::layers::Mounted;
use crate::mounts::{self, fstab_lines};

/// All that trims free space now and then.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Regular {
    /// The timer of util-linux.
    timer: Timer,
    /// Timers and files of cron that call fstrim.
    jobs: Vec<Job>,
}

/// A timer or a file of cron.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Job {
    name: String,
    calls: Vec<Extent>,
    /// When it ran last, in seconds since 1970, where that is noted.
    last_run: Option<u64>,
}

/// The mounts that a call of fstrim trims.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Extent {
    /// All that is mounted.
    All,
    /// What `/etc/fstab` lists, or all that is mounted where that lists nothing.
    Listed,
    /// Of that, file systems of these types, or of none of them where they begin with `no`.
    OfTypes(Vec<String>, Box<Extent>),
    /// These mount points.
    Points(Vec<String>),
    /// What only a shell could tell.
    Unknown,
    /// None, and why, as the end of a sentence.
    Never(String),
}

/// What of it trims one mount.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Covering {
    /// What does.
    pub(crate) by: Vec<String>,
    /// When the only one that does ran last, where that is noted.
    pub(crate) last_run: Option<u64>,
    /// What may.
    pub(crate) unknown: Vec<String>,
    /// What does not, and why, in words.
    pub(crate) passed_by: Vec<String>,
}

impl Covering {
    /// Returns true if anything does.
    pub(crate) fn is_any(&self) -> bool {
        !self.by.is_empty()
    }

    /// Returns true if a timer of systemd alone does.
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

    /// The timer of util-linux.
    pub(crate) fn timer(&self) -> Timer {
        self.timer
    }

    /// Returns true if anything may trim anything.
    pub(crate) fn is_any(&self) -> bool {
        let calls = self.jobs.iter().flat_map(|job| &job.calls);
        calls.into_iter().any(|call| !matches!(call, Extent::Never(_)))
    }

    /// Returns what of it trims this mount.
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

/// What a call does for one mount.
enum Outcome {
    Trims,
    Unknown,
    /// Why not, as the end of a sentence.
    PassesBy(String),
}

impl Outcome {
    /// Of several calls the one that does most counts.
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

/// Returns true if a type is among those of `fstrim --types`, which `no` before the first turns
/// round.
fn is_among(kind: &str, types: &[String]) -> bool {
    let first = types.first().and_then(|first| first.strip_prefix("no"));
    match first {
        Some(first) => {
            kind != first && !types[1..].iter().any(|it| it.trim_start_matches("no") == kind)
        }
        None => types.iter().any(|it| it == kind),
    }
}

/// All places where the file system of a mount is mounted.
fn points_of(mount: &Mounted, all: &[Mount]) -> Vec<String> {
    let text = |it: &Mount| plain(&it.point.to_string_lossy());
    let ours = all.iter().find(|it| text(it) == plain(&mount.point));
    let same = all.iter().filter(|it| ours.is_some_and(|ours| ours.device == it.device));
    std::iter::once(plain(&mount.point)).chain(same.map(text)).collect()
}

/// A path without a slash at its end.
fn plain(path: &str) -> String {
    match path.trim_end_matches('/') {
        "" => "/".to_owned(),
        path => path.to_owned(),
    }
}
