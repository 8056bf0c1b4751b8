//! Candidates for completion: names that the program knows, files of the right kinds, and kept runs.

use std::ffi::OsStr;
use std::path::Path;

use clap_complete::engine::{CompletionCandidate, PathCompleter, ValueCompleter};
use ssdlab_lab::experiment::{self, Experiment, Kind};
use ssdlab_lab::store::Store;
use ssdlab_lab::target;
use ssdlab_model::profile::{self, Profile, SHORT_KEYS, parameter_keys};

use crate::{cli, run_store};

fn candidate(value: impl Into<std::ffi::OsString>, help: &str) -> CompletionCandidate {
    let help = (!help.is_empty()).then(|| help.to_owned().into());
    CompletionCandidate::new(value).help(help)
}

/// Returns the candidates that begin with `current`.
fn with_prefix(
    all: impl IntoIterator<Item = CompletionCandidate>,
    current: &str,
) -> Vec<CompletionCandidate> {
    let begins = |one: &CompletionCandidate| {
        one.get_value().as_encoded_bytes().starts_with(current.as_bytes())
    };
    all.into_iter().filter(begins).collect()
}

/// Returns the words typed so far, which shells pass after `--`.
fn typed_words() -> Vec<String> {
    let given = std::env::args_os().skip_while(|word| word != "--").skip(1);
    given.filter_map(|word| word.into_string().ok()).collect()
}

/// Returns the experiment among the words typed, if any.
fn typed_experiment() -> Option<&'static dyn Experiment> {
    typed_words().iter().find_map(|word| experiment::named(word).ok())
}

/// Returns the experiments, each with its question.
pub fn experiments() -> Vec<CompletionCandidate> {
    experiment::all().iter().map(|one| candidate(one.name(), one.question())).collect()
}

/// Returns the checks that `doctor --fix` can fix.
pub fn fixes() -> Vec<CompletionCandidate> {
    #[cfg(target_os = "linux")]
    let names = &ssdlab_host::fix::FIXABLE;
    #[cfg(not(target_os = "linux"))]
    let names: &[&str] = &[];
    names.iter().map(|name| candidate(*name, "")).collect()
}

/// Returns `NAME=` for each parameter of the experiment typed, or the values of the parameter that is being typed.
pub fn settings(current: &OsStr) -> Vec<CompletionCandidate> {
    let (Some(current), Some(experiment)) = (current.to_str(), typed_experiment()) else {
        return Vec::new();
    };
    let Some((name, _)) = current.split_once('=') else {
        let parameters = experiment.parameters().iter();
        return with_prefix(
            parameters.map(|spec| candidate(format!("{}=", spec.name), spec.help)),
            current,
        );
    };
    let spec = experiment.parameters().iter().find(|spec| spec.name == name);
    match spec.map(|spec| spec.kind) {
        Some(Kind::Choice(words)) => {
            let values = words.iter().map(|word| candidate(format!("{name}={word}"), ""));
            with_prefix(values, current)
        }
        Some(Kind::Pattern) => {
            let words =
                ["random", "sequential", "zipf:", "pareto:", "normal:", "zoned:", "scattered:"];
            with_prefix(words.map(|word| candidate(format!("{name}={word}"), "")), current)
        }
        _ => Vec::new(),
    }
}

/// Returns `KEY=` for each parameter of simulated drives.
pub fn keys(current: &OsStr) -> Vec<CompletionCandidate> {
    let Some(current) = current.to_str() else { return Vec::new() };
    let keys = SHORT_KEYS.iter().chain(parameter_keys());
    with_prefix(keys.map(|key| candidate(format!("{key}="), "")), current)
}

/// Returns `KEY=` for each key that a sweep can vary: parameters of the experiment typed, and of drives.
pub fn varied(current: &OsStr) -> Vec<CompletionCandidate> {
    settings(current).into_iter().chain(keys(current)).collect()
}

/// Returns the files with one of `endings`, and directories.
fn files(current: &str, endings: &'static [&'static str]) -> Vec<CompletionCandidate> {
    let is_wanted = move |path: &Path| {
        let ending = path.extension().and_then(OsStr::to_str);
        path.is_dir() || ending.is_some_and(|ending| endings.contains(&ending))
    };
    PathCompleter::any().filter(is_wanted).complete(OsStr::new(current))
}

fn profiles() -> impl Iterator<Item = (&'static str, String)> {
    profile::embedded().iter().map(|(name, _)| {
        let profile = Profile::named(name);
        (*name, profile.map_or_else(|_| String::new(), |it| it.summary().to_owned()))
    })
}

/// Completer of profiles: names of built-in ones, and files.
pub struct Profiles;

impl ValueCompleter for Profiles {
    fn complete(&self, current: &OsStr) -> Vec<CompletionCandidate> {
        let Some(current) = current.to_str() else { return Vec::new() };
        let mut found = with_prefix(profiles().map(|(name, help)| candidate(name, &help)), current);
        found.extend(files(current, &["toml"]));
        found
    }
}

/// Returns candidates for one simulated drive: `sim:`, a profile or a file, and changes after commas.
fn simulated(current: &str) -> Vec<CompletionCandidate> {
    let Some(rest) = current.strip_prefix("sim:") else {
        let names = profiles().map(|(name, help)| candidate(format!("sim:{name}"), &help));
        return with_prefix(names, current);
    };
    if let Some((before, key)) = rest.rsplit_once(',') {
        let keys = keys(OsStr::new(key));
        return keys.into_iter().map(|key| key.add_prefix(format!("sim:{before},"))).collect();
    }
    let names = profiles().map(|(name, help)| candidate(name, &help));
    let mut found = with_prefix(names, rest);
    found.extend(files(rest, &["toml", "ssd"]));
    found.into_iter().map(|one| one.add_prefix("sim:")).collect()
}

/// Completer of a simulated drive, or of a stack of them.
pub struct Simulated;

impl ValueCompleter for Simulated {
    fn complete(&self, current: &OsStr) -> Vec<CompletionCandidate> {
        let Some(current) = current.to_str() else { return Vec::new() };
        if let Some(member) = current.rfind(['(', ';']) {
            let (before, member) = current.split_at(member + 1);
            let members = simulated(member).into_iter();
            return members.map(|one| one.add_prefix(before)).collect();
        }
        let mut found = simulated(current);
        let stacks = target::stacks().iter();
        let stacks = stacks.map(|kind| candidate(format!("{}(", kind.name), kind.summary));
        found.extend(with_prefix(stacks, current));
        found
    }
}

/// Completer of a run's operands: the target, or the file before it.
pub struct Operands;

impl ValueCompleter for Operands {
    fn complete(&self, current: &OsStr) -> Vec<CompletionCandidate> {
        let takes_file = typed_experiment()
            .is_some_and(|it| it.parameters().iter().any(|spec| spec.kind == Kind::File));
        match operands_before() {
            0 if takes_file => return PathCompleter::any().complete(current),
            0 => {}
            1 if takes_file => {}
            _ => return Vec::new(),
        }
        let mut found = Simulated.complete(current);
        let is_simulated = current.as_encoded_bytes().starts_with(b"sim:");
        if !is_simulated {
            found.extend(PathCompleter::any().complete(current));
        }
        found
    }
}

/// Returns the number of operands between the experiment and the word that is being completed.
fn operands_before() -> usize {
    let words = typed_words();
    let command = cli::command();
    let run = words.get(1).and_then(|name| command.find_subcommand(name));
    let takes_value = |word: &str| {
        let is_it = |one: &&clap::Arg| one.get_long().is_some_and(|it| word == format!("--{it}"));
        let option = run.and_then(|run| run.get_arguments().find(is_it));
        option.is_some_and(|it| it.get_action().takes_values())
    };
    let typed = words.get(2..words.len().saturating_sub(1)).unwrap_or_default();
    let mut operands = 0_usize;
    let mut is_value = false;
    for word in typed {
        operands += usize::from(!is_value && !word.starts_with('-'));
        is_value = takes_value(word);
    }
    // The first operand is the experiment.
    operands.saturating_sub(1)
}

/// Returns the attached drives: their devices, files or addresses, and their images.
#[cfg(target_os = "linux")]
pub fn attached(current: &OsStr) -> Vec<CompletionCandidate> {
    use ssdlab_attach::control::{self, Record};

    let Some(current) = current.to_str() else { return Vec::new() };
    let names = |record: &Record| {
        let image = record.image.display().to_string();
        let device = record.device.clone().filter(|device| *device != record.place);
        let by_place = [Some(record.place.clone()), device].into_iter().flatten();
        let by_place: Vec<_> = by_place.map(|name| candidate(name, &image)).collect();
        by_place.into_iter().chain([candidate(image.clone(), &record.place)])
    };
    let records = control::records().unwrap_or_default();
    with_prefix(records.iter().flat_map(names).collect::<Vec<_>>(), current)
}

/// Completer of the kept runs, newest first.
pub struct Runs;

impl ValueCompleter for Runs {
    fn complete(&self, current: &OsStr) -> Vec<CompletionCandidate> {
        let Some(current) = current.to_str() else { return Vec::new() };
        let words = typed_words();
        let named =
            words.iter().position(|word| word == "--store").and_then(|at| words.get(at + 1));
        let Ok(path) = run_store::path(named.map(Path::new)) else { return Vec::new() };
        let Ok(runs) = Store::open_read_only(path).and_then(|store| store.list()) else {
            return Vec::new();
        };
        let words = |run: &ssdlab_lab::store::RunSummary| {
            format!("{} on {}, {}", run.experiment, run.target, run.started)
        };
        let recent = ["last", "last~1"].iter().zip(&runs);
        let recent = recent.map(|(name, run)| candidate(*name, &words(run)));
        let numbered = runs.iter().map(|run| candidate(run.id.to_string(), &words(run)));
        with_prefix(recent.chain(numbered), current)
    }
}

/// Completer of kept runs, and of reports in files.
pub struct RunsAndFiles;

impl ValueCompleter for RunsAndFiles {
    fn complete(&self, current: &OsStr) -> Vec<CompletionCandidate> {
        let mut found = Runs.complete(current);
        if let Some(current) = current.to_str() {
            found.extend(files(current, &["json"]));
        }
        found
    }
}
