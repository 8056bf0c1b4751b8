//! Cron jobs that call fstrim: crontabs, and directories of scripts.

use super::{TrimJob, TrimScope, shell};
use crate::facts::{Absent, Facts};

/// Programs that run crontabs.
const CRON_DAEMONS: [&str; 5] = [
    "/usr/sbin/cron",
    "/usr/sbin/crond",
    "/usr/bin/crond",
    "/usr/sbin/fcron",
    "/usr/lib/systemd/system-generators/systemd-crontab-generator",
];

/// Crontabs without a column for the user: root's own.
const ROOT_CRONTABS: [&str; 3] =
    ["/var/spool/cron/crontabs/root", "/var/spool/cron/root", "/var/spool/cron/tabs/root"];

/// Directories of scripts: those of crontab(5) packages, and of Alpine.
const SCRIPT_DIRECTORIES: [&str; 9] = [
    "/etc/cron.hourly",
    "/etc/cron.daily",
    "/etc/cron.weekly",
    "/etc/cron.monthly",
    "/etc/periodic/15min",
    "/etc/periodic/hourly",
    "/etc/periodic/daily",
    "/etc/periodic/weekly",
    "/etc/periodic/monthly",
];

/// Rule for the names of files that run-parts or cron runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FileNameRule {
    /// Only letters, digits, underscores and dashes: run-parts(8) of Debian and of BusyBox.
    Strict,
    /// All names but those of backups and package managers: run-parts of Fedora, run-crons of SUSE.
    Loose,
    /// The rule of this distribution is not known.
    Unknown,
}

impl FileNameRule {
    fn of(facts: &dyn Facts) -> FileNameRule {
        let text = facts.text("/etc/os-release").unwrap_or_default();
        let lines = text.lines().filter(|it| it.starts_with("ID=") || it.starts_with("ID_LIKE="));
        let words: Vec<&str> = lines.flat_map(|it| it.split(['=', '"', '\'', ' '])).collect();
        let is = |names: &[&str]| words.iter().any(|word| names.contains(word));
        match () {
            () if is(&["debian", "ubuntu", "alpine"]) => FileNameRule::Strict,
            () if is(&["fedora", "rhel", "centos", "suse", "opensuse", "arch"]) => {
                FileNameRule::Loose
            }
            () => FileNameRule::Unknown,
        }
    }

    /// Returns `Some(true)` if a file of this name is run, `None` if that is not known.
    fn accepts(self, name: &str) -> Option<bool> {
        const IGNORED_ENDINGS: [&str; 8] =
            ["~", ",", ".rpmsave", ".rpmorig", ".rpmnew", ".swp", ".cfsaved", ".dpkg-old"];
        let strict = name.chars().all(|it| it.is_ascii_alphanumeric() || it == '_' || it == '-');
        let loose = !name.starts_with(['.', '#'])
            && !IGNORED_ENDINGS.iter().any(|ending| name.ends_with(ending));
        match self {
            FileNameRule::Strict => Some(strict),
            FileNameRule::Loose => Some(loose),
            FileNameRule::Unknown if strict == loose => Some(strict),
            FileNameRule::Unknown => None,
        }
    }
}

/// Returns the jobs of cron that call fstrim.
pub(super) fn jobs(facts: &dyn Facts) -> Vec<TrimJob> {
    let names = FileNameRule::of(facts);
    let mut jobs = Vec::new();
    let mut add = |path: String, calls: Vec<TrimScope>| {
        if !calls.is_empty() {
            jobs.push(TrimJob { name: path, calls, last_run: None });
        }
    };
    add("/etc/crontab".to_owned(), crontab(facts, "/etc/crontab", true));
    add("/etc/anacrontab".to_owned(), anacrontab(facts));
    for path in ROOT_CRONTABS {
        add(path.to_owned(), crontab(facts, path, false));
    }
    for name in facts.list("/etc/cron.d").unwrap_or_default() {
        let path = format!("/etc/cron.d/{name}");
        let calls = crontab(facts, &path, true);
        add(path, calls_if_accepted(names.accepts(&name), "a name that cron skips", calls));
    }
    for directory in SCRIPT_DIRECTORIES {
        for name in facts.list(directory).unwrap_or_default() {
            let path = format!("{directory}/{name}");
            let mut calls = calls_in_script(facts, &path);
            if !calls.is_empty() && facts.is_executable(&path) == Ok(false) {
                calls =
                    vec![TrimScope::Never("is not executable ('chmod +x' makes it so)".to_owned())];
            }
            add(
                path,
                calls_if_accepted(names.accepts(&name), "a name that run-parts skips", calls),
            );
        }
    }
    let is_there = |path: &str| !matches!(facts.resolve(path), Err(Absent::Missing));
    if !CRON_DAEMONS.iter().any(|path| is_there(path)) {
        for job in &mut jobs {
            job.calls = vec![TrimScope::Never("never runs: cron is not installed".to_owned())];
        }
    }
    jobs
}

/// Returns the calls of a file, if files of its name are run; otherwise a single `Never` or `Unknown`.
fn calls_if_accepted(
    is_accepted: Option<bool>,
    why: &str,
    calls: Vec<TrimScope>,
) -> Vec<TrimScope> {
    match is_accepted {
        Some(true) => calls,
        _ if calls.is_empty() => calls,
        Some(false) => vec![TrimScope::Never(format!("has {why}"))],
        None => vec![TrimScope::Unknown],
    }
}

/// Returns the lines of a file that name fstrim, in any case (as a variable, for example).
pub(super) fn lines(facts: &dyn Facts, path: &str) -> Vec<String> {
    let names_it = |line: &str| line.to_lowercase().contains("fstrim");
    facts.lines_where(path, &names_it).unwrap_or_default()
}

pub(super) fn calls_in_script(facts: &dyn Facts, path: &str) -> Vec<TrimScope> {
    lines(facts, path).iter().flat_map(|line| shell::calls(line)).collect()
}

fn crontab(facts: &dyn Facts, path: &str, has_user: bool) -> Vec<TrimScope> {
    lines(facts, path).iter().flat_map(|line| shell::calls_in_crontab(line, has_user)).collect()
}

/// Returns the calls in /etc/anacrontab, where period, delay and name come before the command (anacrontab(5)).
fn anacrontab(facts: &dyn Facts) -> Vec<TrimScope> {
    let command = |line: &String| {
        let mut rest = line.trim_start();
        for _ in 0..3 {
            let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
            rest = rest[end..].trim_start();
        }
        rest.to_owned()
    };
    let lines = lines(facts, "/etc/anacrontab");
    let lines = lines.iter().filter(|line| !line.trim_start().starts_with('#'));
    lines.flat_map(|line| shell::calls(&command(line))).collect()
}
