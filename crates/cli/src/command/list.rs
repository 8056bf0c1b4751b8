//! `list`: lists experiments, profiles, stacks and kept runs.

use serde::Serialize;
use ssdlab_lab::experiment::{self, Experiment};
use ssdlab_lab::store::{Store, StoreError};
use ssdlab_lab::target::{self, Target};
use ssdlab_model::profile::{self, Basis, Profile};

use super::json;
use crate::cli::List;
use crate::failure::Failure;
use crate::run_store;
use crate::table::{ColumnHead, lay_out};
use crate::terminal::Terminal;

/// Changes in a target that are not parameters of a profile, with their meaning.
const TARGET_CHANGES: [(&str, &str); 4] = [
    ("trim=off", "a drive that ignores TRIM"),
    (
        "spare=28%",
        "over-provisioning as a share of the physical capacity; the usable capacity follows",
    ),
    ("spare_of_logical=7%", "the same, as a share of the logical capacity"),
    ("scale=1/64", "a smaller drive with the same rates, latencies and shares"),
];

/// Lists the things that were asked for.
pub fn list(what: &List, terminal: &Terminal) -> Result<(), Failure> {
    match what {
        List::Experiments { name, keys, json } => {
            experiments(name.as_deref(), *keys, *json, terminal)
        }
        List::Profiles { name: Some(name), toml: true, .. } => as_file(name, terminal),
        List::Profiles { name, keys, json, .. } => match (name, keys) {
            (Some(name), keys) => parameters(name, *keys, *json, terminal),
            (None, true) => parameters(profile::DEFAULT, true, *json, terminal),
            (None, false) => profiles(*json, terminal),
        },
        List::Stacks { json } => stacks(*json, terminal),
        List::Runs { json, store } => {
            runs(&run_store::path(store.store.as_deref())?, *json, terminal)
        }
    }
}

#[derive(Serialize)]
struct ExperimentEntry {
    name: &'static str,
    question: &'static str,
    source: &'static str,
    parameters: Vec<ExperimentParameter>,
}

#[derive(Serialize)]
struct ExperimentParameter {
    name: &'static str,
    full: &'static str,
    quick: &'static str,
    help: &'static str,
}

fn entry(experiment: &dyn Experiment) -> ExperimentEntry {
    let parameters = experiment.parameters().iter().map(|spec| ExperimentParameter {
        name: spec.name,
        full: spec.full,
        quick: spec.quick,
        help: spec.help,
    });
    ExperimentEntry {
        name: experiment.name(),
        question: experiment.question(),
        source: experiment.source(),
        parameters: parameters.collect(),
    }
}

fn experiments(
    name: Option<&str>,
    keys: bool,
    as_json: bool,
    terminal: &Terminal,
) -> Result<(), Failure> {
    let entries: Vec<ExperimentEntry> = match name {
        Some(name) => vec![entry(experiment::named(name)?)],
        None => experiment::all().iter().map(|experiment| entry(*experiment)).collect(),
    };
    if as_json {
        return terminal.print(&json(&entries));
    }
    if name.is_none() && !keys {
        let heads = [ColumnHead::Name("experiment"), ColumnHead::Text("question it answers")];
        let rows: Vec<Vec<String>> =
            entries.iter().map(|entry| vec![entry.name.into(), entry.question.into()]).collect();
        terminal.print(&lay_out(&heads, &rows, terminal))?;
        terminal.note("\n'ssdlab list experiments NAME' shows the parameters of one.");
        return Ok(());
    }
    let heads = [
        ColumnHead::Name("parameter"),
        ColumnHead::Name("full"),
        ColumnHead::Name("quick"),
        ColumnHead::Text("what it is"),
    ];
    let mut text = String::new();
    for entry in &entries {
        let rows: Vec<Vec<String>> = entry
            .parameters
            .iter()
            .map(|p| vec![p.name.into(), p.full.into(), p.quick.into(), p.help.into()])
            .collect();
        let (name, question, source) = (entry.name, entry.question, entry.source);
        text.push_str(&format!("{name}: {question}\nSource: {source}\n\n"));
        text.push_str(&lay_out(&heads, &rows, terminal));
    }
    terminal.print(&text)?;
    terminal.note("\nChange one with --set NAME=VALUE.");
    Ok(())
}

#[derive(Serialize)]
struct ProfileEntry {
    name: String,
    summary: String,
    default: bool,
    published: usize,
    fitted: usize,
    assumed: usize,
}

fn profiles(as_json: bool, terminal: &Terminal) -> Result<(), Failure> {
    let mut entries = Vec::new();
    for (name, _) in profile::embedded() {
        let profile = Profile::named(name).map_err(ssdlab_lab::LabError::from)?;
        let parameters = profile.parameters();
        let count = |basis| parameters.iter().filter(|one| one.basis == basis).count();
        entries.push(ProfileEntry {
            name: (*name).to_owned(),
            summary: profile.summary().to_owned(),
            default: *name == profile::DEFAULT,
            published: count(Basis::Published),
            fitted: count(Basis::Fitted),
            assumed: count(Basis::Assumed),
        });
    }
    if as_json {
        return terminal.print(&json(&entries));
    }
    let heads = [
        ColumnHead::Name("profile"),
        ColumnHead::Text("drive"),
        ColumnHead::Numbers("published"),
        ColumnHead::Numbers("fitted"),
        ColumnHead::Numbers("assumed"),
    ];
    let rows: Vec<Vec<String>> = entries
        .iter()
        .map(|entry| {
            let counts = [entry.published, entry.fitted, entry.assumed].map(|n| n.to_string());
            [vec![entry.name.clone(), entry.summary.clone()], counts.to_vec()].concat()
        })
        .collect();
    terminal.print(&lay_out(&heads, &rows, terminal))?;
    terminal.note(
        "\nThe numbers count parameters by where they come from: published by somebody, fitted\n\
         to published measurements, or assumed. 'ssdlab list profiles NAME' shows them all.",
    );
    Ok(())
}

#[derive(Serialize)]
struct ParameterEntry {
    key: &'static str,
    value: String,
    basis: &'static str,
    source: String,
    meaning: &'static str,
}

impl From<profile::Parameter> for ParameterEntry {
    fn from(parameter: profile::Parameter) -> ParameterEntry {
        ParameterEntry {
            key: parameter.key,
            value: parameter.value,
            basis: parameter.basis.name(),
            source: parameter.source,
            meaning: profile::parameter_meaning(parameter.key).unwrap_or_default(),
        }
    }
}

/// Prints the parameters of a profile with their sources; with `all` also those that the profile does not set, and the
/// meaning of each.
fn parameters(name: &str, all: bool, as_json: bool, terminal: &Terminal) -> Result<(), Failure> {
    // Parse it like a target, so that files and changes can be shown as well.
    let Target::Simulated { profile, .. } = Target::parse(&format!("sim:{name}"))? else {
        unreachable!("what begins with sim: is simulated")
    };
    let mut entries: Vec<ParameterEntry> =
        profile.parameters().into_iter().map(ParameterEntry::from).collect();
    if all {
        entries.extend(profile.parameters_not_set().into_iter().map(ParameterEntry::from));
        let place = |key| profile::parameter_keys().iter().position(|it| *it == key);
        entries.sort_by_key(|entry| place(entry.key));
    }
    if as_json {
        return terminal.print(&json(&entries));
    }
    let (last, words): (_, fn(ParameterEntry) -> String) = match all {
        true => ("what it is", |entry| entry.meaning.into()),
        false => ("source", |entry| entry.source),
    };
    let heads = [
        ColumnHead::Name("parameter"),
        ColumnHead::Name("value"),
        ColumnHead::Name("basis"),
        ColumnHead::Text(last),
    ];
    let rows: Vec<Vec<String>> = entries
        .into_iter()
        .map(|entry| vec![entry.key.into(), entry.value.clone(), entry.basis.into(), words(entry)])
        .collect();
    let table = lay_out(&heads, &rows, terminal);
    terminal.print(&format!("{}: {}\n\n{table}", profile.name(), profile.summary()))?;
    terminal.note(&format!("\nChange one in the target: sim:{name},flash.page_read=60us. Also:"));
    for (change, meaning) in TARGET_CHANGES {
        terminal.note(&format!("  {change:<20} {meaning}"));
    }
    if !all {
        terminal
            .note("--keys explains each parameter, and shows those that the profile does not set.");
    }
    Ok(())
}

#[derive(Serialize)]
struct StackEntry {
    name: &'static str,
    summary: &'static str,
    members: &'static str,
    options: Vec<StackOptionEntry>,
}

#[derive(Serialize)]
struct StackOptionEntry {
    name: &'static str,
    default: &'static str,
    help: &'static str,
}

fn stacks(as_json: bool, terminal: &Terminal) -> Result<(), Failure> {
    let entry = |kind: &target::StackKind| StackEntry {
        name: kind.name,
        summary: kind.summary,
        members: kind.members,
        options: kind
            .options
            .iter()
            .map(|it| StackOptionEntry { name: it.name, default: it.default, help: it.help })
            .collect(),
    };
    let entries: Vec<StackEntry> = target::stacks().iter().map(entry).collect();
    if as_json {
        return terminal.print(&json(&entries));
    }
    let heads =
        [ColumnHead::Name("option"), ColumnHead::Name("default"), ColumnHead::Text("what it does")];
    let mut text = String::new();
    for entry in &entries {
        let rows: Vec<Vec<String>> = entry
            .options
            .iter()
            .map(|it| vec![it.name.into(), it.default.into(), it.help.into()])
            .collect();
        let (name, summary, members) = (entry.name, entry.summary, entry.members);
        text.push_str(&format!("{name}: {summary}; members: {members}\n\n"));
        text.push_str(&lay_out(&heads, &rows, terminal));
        text.push('\n');
    }
    terminal.print(text.trim_end_matches('\n'))?;
    terminal.print("\n")?;
    terminal.note(
        "\nWrite the members in parentheses, separated by ';', and options after them:\n\
         'raid1(sim:toshiba-xg5,spare=28%;sim:toshiba-xg5),sync=none'. Members may be stacks.",
    );
    Ok(())
}

/// Prints the text of an embedded profile.
fn as_file(name: &str, terminal: &Terminal) -> Result<(), Failure> {
    Profile::named(name).map_err(ssdlab_lab::LabError::from)?;
    let known = profile::embedded().iter().find(|(known, _)| *known == name);
    let (_, text) = known.expect("a profile with a name is embedded");
    terminal.print(text)
}

fn runs(path: &std::path::Path, as_json: bool, terminal: &Terminal) -> Result<(), Failure> {
    let runs = match Store::open_read_only(path) {
        // A missing store is an empty list, not an error.
        Err(StoreError::Missing { .. }) => Vec::new(),
        store => store?.list()?,
    };
    if as_json {
        return terminal.print(&json(&runs));
    }
    if runs.is_empty() {
        terminal.note(&format!(
            "No runs are kept in {} yet. 'ssdlab run fragmentation' makes the first.",
            path.display()
        ));
        return Ok(());
    }
    let heads = [
        ColumnHead::Numbers("run"),
        ColumnHead::Name("started (UTC)"),
        ColumnHead::Text("experiment"),
        ColumnHead::Text("target"),
        ColumnHead::Text("finding"),
    ];
    let rows: Vec<Vec<String>> = runs
        .into_iter()
        .map(|run| {
            let mut marks = String::new();
            if run.shortened {
                marks.push_str(" (shortened)");
            }
            if run.interrupted {
                marks.push_str(" (interrupted)");
            }
            let headline = before_figures(&run.headline.unwrap_or_default()).to_owned();
            let started = run.started.replace('T', " ").replace('Z', "");
            let experiment = format!("{}{marks}", run.experiment);
            vec![run.id.to_string(), started, experiment, run.target, headline]
        })
        .collect();
    terminal.print(&lay_out(&heads, &rows, terminal))
}

/// Returns the beginning of a finding, before its figures.
fn before_figures(finding: &str) -> &str {
    let end = [": ", ". "].iter().filter_map(|mark| finding.find(mark)).min();
    finding[..end.unwrap_or(finding.len())].trim_end_matches('.')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_begins_before_its_figures() {
        assert_eq!(before_figures("Slower after 4.93 GiB: 9 MB/s. More."), "Slower after 4.93 GiB");
        assert_eq!(before_figures("As fast as before."), "As fast as before");
        assert_eq!(before_figures(""), "");
    }
}
