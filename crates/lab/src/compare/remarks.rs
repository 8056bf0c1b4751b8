//! Objections against a comparison: runs that differ in protocol, parameters or machine.

use ssdlab_blockio::{CPU_IDLE_HELD, PROCESSORS};

use super::{Finding, Labelled, Level, TargetKind};

/// Returns one remark for each aspect in which the runs differ.
pub(super) fn remarks(runs: &[Labelled]) -> Vec<Finding> {
    let mut remarks = Vec::new();
    let named = |wanted: &dyn Fn(&Labelled) -> bool| -> Vec<&str> {
        let found = runs.iter().filter(|run| wanted(run));
        found.map(|run| run.label.as_str()).collect()
    };
    let interrupted = named(&|run| run.report.interrupted);
    if !interrupted.is_empty() {
        remarks.push(remark(
            Level::Warning,
            "interrupted",
            format!("Some runs did not complete the protocol: {}.", interrupted.join(", ")),
        ));
    }
    let shortened = named(&|run| run.report.shortened);
    if !shortened.is_empty() && shortened.len() < runs.len() {
        remarks.push(remark(
            Level::Warning,
            "shortened-against-full",
            format!(
                "Not comparable: some runs are shortened ({}), the others are full.",
                shortened.join(", ")
            ),
        ));
    }
    remarks.extend(parameters(runs));
    let simulated = named(&|run| run.report.target.kind == TargetKind::Simulated);
    if !simulated.is_empty() && simulated.len() < runs.len() {
        remarks.push(remark(
            Level::Notice,
            "simulated-against-real",
            format!(
                "Simulated drives ({}) are compared with real ones; a simulation is as good as \
                 its profile.",
                simulated.join(", ")
            ),
        ));
    }
    let unrestricted = named(&|run| is_real(run) && !had_cpu_idle_restricted(run));
    if !unrestricted.is_empty() && runs.iter().any(had_cpu_idle_restricted) {
        remarks.push(remark(
            Level::Warning,
            "processors-differ",
            format!(
                "As far as is known, the processors could sleep in {}, and were kept awake in the \
                 others: where they could sleep, latencies at a low queue depth include the time \
                 to wake up.",
                unrestricted.join(", ")
            ),
        ));
    }
    remarks
}

fn is_real(run: &Labelled) -> bool {
    run.report.target.kind != TargetKind::Simulated
}

/// Returns true if the report says that CPU idle was restricted (PM QoS) during the measurement.
fn had_cpu_idle_restricted(run: &Labelled) -> bool {
    let mut facts = run.report.target.facts.iter();
    facts.any(|fact| fact.name == PROCESSORS && fact.value.starts_with(CPU_IDLE_HELD))
}

/// Returns a finding that lists the parameters that differ between runs.
fn parameters(runs: &[Labelled]) -> Option<Finding> {
    let mut names: Vec<&str> = Vec::new();
    let are_jobs = runs.iter().all(|run| run.report.experiment == "job");
    for parameter in runs.iter().flat_map(|run| &run.report.parameters) {
        // For jobs, the file, the time limit and the fill do not matter: jobs are compared by the requests
        // they send, and imported results do not have these parameters.
        let is_about_running = ["file", "limit", "fill"].contains(&parameter.name.as_str());
        let is_left_out = are_jobs && is_about_running;
        if !is_left_out && !names.contains(&parameter.name.as_str()) {
            names.push(&parameter.name);
        }
    }
    let differing: Vec<String> =
        names.iter().filter_map(|name| differing_values(runs, name)).collect();
    (!differing.is_empty()).then(|| {
        remark(
            Level::Warning,
            "parameters-differ",
            format!("Not comparable as they stand: the runs differ in {}.", differing.join("; ")),
        )
    })
}

/// Describes the values of one parameter, each with its runs; `None` if all runs have the same value.
fn differing_values(runs: &[Labelled], name: &str) -> Option<String> {
    let mut values: Vec<(&str, Vec<&str>)> = Vec::new();
    for run in runs {
        let parameters = &run.report.parameters;
        let value = parameters
            .iter()
            .find(|parameter| parameter.name == name)
            .map_or("(not given)", |parameter| &parameter.value);
        match values.iter_mut().find(|(known, _)| *known == value) {
            Some((_, labels)) => labels.push(&run.label),
            None => values.push((value, vec![&run.label])),
        }
    }
    let words: Vec<String> =
        values.iter().map(|(value, labels)| format!("{value} for {}", labels.join(", "))).collect();
    (values.len() > 1).then(|| format!("{name} ({})", words.join(", ")))
}

fn remark(level: Level, code: &str, text: String) -> Finding {
    Finding { level, code: code.to_owned(), text }
}
