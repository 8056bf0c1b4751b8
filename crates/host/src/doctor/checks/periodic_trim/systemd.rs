//! Systemd timers whose service calls fstrim. Unit files and drop-ins are combined as in systemd.unit(5).

use std::collections::BTreeMap;

use super::{TrimJob, TrimScope, cron, shell};
use crate::facts::{Absent, Facts};

/// Directories of unit files; the first has precedence.
const UNIT_DIRECTORIES: [&str; 5] = [
    "/etc/systemd/system",
    "/run/systemd/system",
    "/usr/local/lib/systemd/system",
    "/usr/lib/systemd/system",
    "/lib/systemd/system",
];

/// Timer of util-linux.
pub(super) const TIMER: &str = "fstrim.timer";

/// State of util-linux' fstrim.timer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Timer {
    /// There is no systemd, or no such timer.
    #[default]
    Absent,
    /// The timer is installed, but nothing starts it.
    Off,
    /// The timer or its service is masked: nothing can start it.
    Masked,
    /// The timer is started with the system.
    On,
}

/// Unit with its files, as far as they are known.
enum Unit {
    Absent,
    /// The unit's files could not be read, or were not captured.
    NotKnown,
    Masked,
    /// Settings of the unit in order, drop-ins included.
    Known(Vec<(String, String)>),
}

/// Returns the state of util-linux' timer, and all jobs of timers that are started.
pub(super) fn jobs(facts: &dyn Facts) -> (Timer, Vec<TrimJob>) {
    // Unit files may exist on a machine that was not booted by systemd (sd_booted(3)).
    if facts.list("/run/systemd/system") == Err(Absent::Missing) {
        return (Timer::Absent, Vec::new());
    }
    let wanted = wanted_timers(facts);
    let is_masked =
        |name: &str| matches!(unit(facts, name), Unit::Masked) || is_masked_by_link(facts, name);
    let is_on = wanted.iter().any(|name| name == TIMER);
    let state = match () {
        () if is_masked(TIMER) || is_masked("fstrim.service") => Timer::Masked,
        () if is_on => Timer::On,
        () if matches!(unit(facts, TIMER), Unit::Absent) => Timer::Absent,
        () => Timer::Off,
    };
    let jobs = wanted.iter().filter_map(|name| job(facts, name)).collect();
    (state, jobs)
}

fn is_masked_by_link(facts: &dyn Facts, name: &str) -> bool {
    let paths = UNIT_DIRECTORIES.iter().map(|place| format!("{place}/{name}"));
    let found = paths.map(|path| facts.resolve(&path)).find(|found| found != &Err(Absent::Missing));
    found.is_some_and(|found| found.as_deref() == Ok("/dev/null"))
}

/// Returns the timers that a target wants, by links of the administrator or of the vendor.
fn wanted_timers(facts: &dyn Facts) -> Vec<String> {
    let mut found: BTreeMap<(String, String), bool> = BTreeMap::new();
    for place in UNIT_DIRECTORIES {
        let mut directories = facts.list(place).unwrap_or_default();
        directories.retain(|name| name.ends_with(".wants") || name.ends_with(".requires"));
        // Captures of earlier versions of this program contain this directory only.
        if !directories.iter().any(|name| name == "timers.target.wants") {
            directories.push("timers.target.wants".to_owned());
        }
        for directory in directories {
            let path = format!("{place}/{directory}");
            let names = facts.list(&path).unwrap_or_default();
            for name in names.into_iter().filter(|name| name.ends_with(".timer")) {
                // A link to /dev/null cancels the link of the same name in a later directory.
                let is_null =
                    facts.resolve(&format!("{path}/{name}")).as_deref() == Ok("/dev/null");
                found.entry((directory.clone(), name)).or_insert(!is_null);
            }
        }
    }
    let wanted = found.into_iter().filter(|(_, is_wanted)| *is_wanted);
    let mut names: Vec<String> = wanted.map(|((_, name), _)| name).collect();
    names.sort();
    names.dedup();
    names
}

/// Returns the job of a timer; `None` if its service neither calls fstrim nor is util-linux' own.
fn job(facts: &dyn Facts, timer: &str) -> Option<TrimJob> {
    let is_ours = timer == TIMER;
    let never = |why: &str| is_ours.then(|| vec![TrimScope::Never(why.to_owned())]);
    let mut service = format!("{}.service", timer.strip_suffix(".timer")?);
    let calls = match unit(facts, timer) {
        Unit::Masked => never("is masked")?,
        Unit::Absent => never("is enabled, but there is no such unit")?,
        Unit::NotKnown => calls_of_service(facts, &service)?,
        Unit::Known(settings) => {
            let last = settings.iter().rev().find(|(key, _)| key == "Unit");
            service = last.map_or(service, |(_, name)| name.clone());
            match has_trigger(&settings) {
                true => calls_of_service(facts, &service)?,
                false => never("has no schedule")?,
            }
        }
    };
    let stamp = format!("/var/lib/systemd/timers/stamp-{timer}");
    Some(TrimJob { name: timer.to_owned(), calls, last_run: facts.modified(&stamp).ok() })
}

/// Returns true if a timer has any time left: an empty assignment resets all times (systemd.timer(5)).
fn has_trigger(settings: &[(String, String)]) -> bool {
    let times = settings.iter().filter(|(key, _)| key.starts_with("On"));
    times.fold(false, |_, (_, value)| !value.is_empty())
}

/// Returns the calls of a service; `None` if it does not call fstrim and is not `fstrim.service`.
fn calls_of_service(facts: &dyn Facts, service: &str) -> Option<Vec<TrimScope>> {
    let is_ours = service == "fstrim.service";
    let settings = match unit(facts, service) {
        Unit::Masked if is_ours => {
            return Some(vec![TrimScope::Never("starts a service that is masked".to_owned())]);
        }
        Unit::Absent if is_ours => {
            return Some(vec![TrimScope::Never("starts a service that does not exist".to_owned())]);
        }
        // Assume the service as util-linux ships it.
        Unit::NotKnown if is_ours => return Some(vec![TrimScope::Listed]),
        Unit::Masked | Unit::Absent | Unit::NotKnown => return None,
        Unit::Known(settings) => settings,
    };
    let mut commands: Vec<&str> = Vec::new();
    for (_, value) in settings.iter().filter(|(key, _)| key == "ExecStart") {
        match value.is_empty() {
            true => commands.clear(),
            false => commands.push(value),
        }
    }
    let calls: Vec<TrimScope> =
        commands.iter().flat_map(|command| calls_of_command(facts, command)).collect();
    match calls.is_empty() {
        true if is_ours => {
            Some(vec![TrimScope::Never("starts a service that trims nothing".to_owned())])
        }
        true => None,
        false => Some(calls),
    }
}

/// Returns the calls of a command of a service, which may be a script.
fn calls_of_command(facts: &dyn Facts, command: &str) -> Vec<TrimScope> {
    // Special prefixes of executables, systemd.service(5).
    let command = command.trim_start_matches(['-', '@', ':', '+', '!', '|']);
    let calls = shell::calls(command);
    let program = command.split_whitespace().next().unwrap_or_default();
    let is_fstrim = program.ends_with("/fstrim");
    match calls.is_empty() && program.starts_with('/') && !is_fstrim {
        true => cron::calls_in_script(facts, program),
        false => calls,
    }
}

/// Returns the settings of a unit: those of its first file, then those of its drop-ins.
fn unit(facts: &dyn Facts, name: &str) -> Unit {
    let mut is_known_missing = true;
    let mut lines = None;
    for place in UNIT_DIRECTORIES {
        let path = format!("{place}/{name}");
        if facts.resolve(&path).as_deref() == Ok("/dev/null") {
            return Unit::Masked;
        }
        match facts.lines_where(&path, &is_setting) {
            Ok(found) => {
                lines = Some(found);
                break;
            }
            Err(Absent::Missing) => {}
            Err(_) => is_known_missing = false,
        }
    }
    let Some(mut lines) = lines else {
        return if is_known_missing { Unit::Absent } else { Unit::NotKnown };
    };
    // An empty file masks a unit, too.
    if lines.is_empty() {
        return Unit::Masked;
    }
    lines.extend(drop_ins(facts, name));
    let setting = |line: &String| {
        let (key, value) = line.split_once('=')?;
        Some((key.trim().to_owned(), value.trim().to_owned()))
    };
    Unit::Known(lines.iter().filter_map(setting).collect())
}

/// Returns true for the lines of a unit that are needed: sections, `Unit`, `On...`, and commands that name trim.
/// Commands of other services are left out for privacy.
fn is_setting(line: &str) -> bool {
    let line = line.trim();
    let is_command = |value: &str| value.is_empty() || value.to_lowercase().contains("trim");
    match line.split_once('=') {
        Some((key, value)) if key.trim() == "ExecStart" => is_command(value.trim()),
        Some((key, _)) => key.trim() == "Unit" || key.starts_with("On"),
        None => line.starts_with('['),
    }
}

/// Returns the lines of all drop-ins of a unit, in the order of their names; of drop-ins with the same name only the
/// first is read.
fn drop_ins(facts: &dyn Facts, name: &str) -> Vec<String> {
    let kind = name.rsplit('.').next().unwrap_or_default();
    let mut files: BTreeMap<String, String> = BTreeMap::new();
    // Drop-ins of the unit have precedence over those of all units of its type.
    for directory in [format!("{name}.d"), format!("{kind}.d")] {
        for place in UNIT_DIRECTORIES {
            let path = format!("{place}/{directory}");
            for file in facts.list(&path).unwrap_or_default() {
                if file.ends_with(".conf") {
                    files.entry(file.clone()).or_insert(format!("{path}/{file}"));
                }
            }
        }
    }
    let lines =
        files.values().flat_map(|path| facts.lines_where(path, &is_setting).unwrap_or_default());
    lines.collect()
}
