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
pub(crate) struct PeriodicTrim {
    /// State of util-linux' fstrim.timer.
    timer: Timer,
    /// Timers and cron files that call fstrim.
    jobs: Vec<TrimJob>,
}

/// A timer or a cron file that calls fstrim.
#[derive(Clone, Debug, PartialEq, Eq)]
struct TrimJob {
    name: String,
    calls: Vec<TrimScope>,
    /// Time of the last run, in seconds since 1970; `None` if it is not recorded.
    last_run: Option<u64>,
}

/// Mounts that a call of fstrim trims.
#[derive(Clone, Debug, PartialEq, Eq)]
enum TrimScope {
    /// All mounted file systems.
    All,
    /// File systems that `/etc/fstab` lists, or all that are mounted if it lists none.
    Listed,
    /// File systems of the inner scope that have one of these types, or that have none of them if the list begins with
    /// `no`.
    OfTypes(Vec<String>, Box<TrimScope>),
    /// File systems at these mount points.
    Points(Vec<String>),
    /// Not known, because only a shell could evaluate the call.
    Unknown,
    /// No file system, and the reason, as the end of a sentence.
    Never(String),
}

/// Regular jobs that trim one mount, and those that do not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct MountCoverage {
    /// Names of the jobs that trim the mount.
    pub(crate) by: Vec<String>,
    /// Time of the last run in seconds since 1970, if only one job trims the mount and its last run is recorded.
    pub(crate) last_run: Option<u64>,
    /// Names of the jobs that may trim the mount.
    pub(crate) unknown: Vec<String>,
    /// Jobs that do not trim the mount, each with the reason in words.
    pub(crate) uncovered_by: Vec<String>,
}

impl MountCoverage {
    /// Returns true if any job trims the mount.
    pub(crate) fn is_any(&self) -> bool {
        !self.by.is_empty()
    }

    /// Returns true if a systemd timer is the only job that trims the mount.
    pub(crate) fn is_timer_alone(&self) -> bool {
        matches!(&self.by[..], [one] if one.ends_with(".timer"))
    }
}

impl PeriodicTrim {
    pub(crate) fn of(facts: &dyn Facts) -> PeriodicTrim {
        let (timer, mut jobs) = systemd::jobs(facts);
        jobs.extend(cron::jobs(facts));
        PeriodicTrim { timer, jobs }
    }

    /// Returns the state of util-linux' fstrim.timer.
    pub(crate) fn timer(&self) -> Timer {
        self.timer
    }

    /// Returns true if any job may trim any mount.
    pub(crate) fn is_any(&self) -> bool {
        let calls = self.jobs.iter().flat_map(|job| &job.calls);
        calls.into_iter().any(|call| !matches!(call, TrimScope::Never(_)))
    }

    /// Returns the jobs that trim this mount, that may trim it and that do not.
    pub(crate) fn coverage(&self, facts: &dyn Facts, mount: &Mounted) -> MountCoverage {
        let mut coverage = MountCoverage::default();
        let all = mounts::mounted(facts);
        let mut last_run = None;
        for job in &self.jobs {
            let effects: Vec<CallEffect> =
                job.calls.iter().map(|call| effect_of(facts, call, mount, &all)).collect();
            match effects.iter().min_by_key(|effect| effect.rank()) {
                Some(CallEffect::Trims) => {
                    coverage.by.push(job.name.clone());
                    last_run = job.last_run;
                }
                Some(CallEffect::Unknown) => coverage.unknown.push(job.name.clone()),
                Some(CallEffect::Skips(why)) => {
                    coverage.uncovered_by.push(format!("{} {why}", job.name));
                }
                None => {}
            }
        }
        coverage.last_run = last_run.filter(|_| coverage.by.len() == 1);
        coverage
    }
}

/// Effect of a call of fstrim on one mount.
enum CallEffect {
    Trims,
    Unknown,
    /// The mount is not trimmed; the reason, as the end of a sentence.
    Skips(String),
}

impl CallEffect {
    /// Returns the rank of the outcome: of several calls the one with the lowest rank counts.
    fn rank(&self) -> u8 {
        match self {
            CallEffect::Trims => 0,
            CallEffect::Unknown => 1,
            CallEffect::Skips(_) => 2,
        }
    }
}

fn effect_of(facts: &dyn Facts, scope: &TrimScope, mount: &Mounted, all: &[Mount]) -> CallEffect {
    let skips = |why: &str| CallEffect::Skips(why.to_owned());
    let same = points_of(mount, all);
    match scope {
        TrimScope::Unknown => CallEffect::Unknown,
        TrimScope::Never(why) => skips(why),
        TrimScope::OfTypes(types, scope) => {
            let ours = all.iter().find(|it| {
                without_trailing_slash(&it.point.to_string_lossy())
                    == without_trailing_slash(&mount.point)
            });
            let kind = ours.map_or("", |it| it.file_system.as_str());
            match matches_types(kind, types) {
                true => effect_of(facts, scope, mount, all),
                false => CallEffect::Skips(format!("trims {} only", types.join(","))),
            }
        }
        TrimScope::Points(points) => match points.iter().any(|point| same.contains(point)) {
            true => CallEffect::Trims,
            false => CallEffect::Skips(format!("trims {}", points.join(", "))),
        },
        TrimScope::All | TrimScope::Listed => {
            let text = match facts.read("/etc/fstab") {
                Ok(text) => String::from_utf8_lossy(&text).into_owned(),
                Err(Absent::Missing) => String::new(),
                Err(_) if *scope == TrimScope::All => String::new(),
                Err(_) => return CallEffect::Unknown,
            };
            let lines = fstab_lines(&text);
            let ours: Vec<_> = lines
                .iter()
                .filter(|it| same.contains(&without_trailing_slash(&it.point)))
                .collect();
            let is_left_out =
                |options: &[String]| options.iter().any(|option| option == "X-fstrim.notrim");
            match () {
                () if !ours.is_empty() && ours.iter().all(|line| is_left_out(&line.options)) => {
                    skips("is on, but skips it because of X-fstrim.notrim in /etc/fstab")
                }
                () if *scope == TrimScope::All || lines.is_empty() || !ours.is_empty() => {
                    CallEffect::Trims
                }
                () => skips("is on, but trims what /etc/fstab lists, which has no line for it"),
            }
        }
    }
}

/// Returns true if a file system type matches the list of `fstrim --types`, which a leading `no` inverts.
fn matches_types(kind: &str, types: &[String]) -> bool {
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
    let text = |it: &Mount| without_trailing_slash(&it.point.to_string_lossy());
    let ours = all.iter().find(|it| text(it) == without_trailing_slash(&mount.point));
    let same = all.iter().filter(|it| ours.is_some_and(|ours| ours.device == it.device));
    std::iter::once(without_trailing_slash(&mount.point)).chain(same.map(text)).collect()
}

/// Returns a path without trailing slashes.
fn without_trailing_slash(path: &str) -> String {
    match path.trim_end_matches('/') {
        "" => "/".to_owned(),
        path => path.to_owned(),
    }
}
