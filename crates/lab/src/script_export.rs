//! Export of an experiment as a script for fio, and conversion of the script's results to the experiment's
//! report.
//!
//! Experiments use the trait [`Drive`]. One implementation records the requests, which become the script.
//! With results, it answers from them, so that the experiment makes its usual report.

mod recording_drive;
mod step_results;

use ssdlab_drive::{Drive, DriveError, ErrorKind};
use ssdlab_interchange::fio::json::{FioJob, FioRun};
use ssdlab_interchange::script::{Script, Step, Tag};
use ssdlab_units::ByteLength;

use crate::error::LabError;
use crate::experiment::{self, Experiment, Kind, NullWatcher, ParameterSpec, Record, Settings};
use crate::report::{Fact, Report};
use recording_drive::RecordingDrive;
use step_results::step_result;

/// A drive on another machine.
#[derive(Clone, Debug, PartialEq)]
pub struct ScriptTarget {
    /// Name on that machine.
    pub name: String,
    /// True for a block device, false for a file to be created.
    pub is_device: bool,
    /// Capacity of the device, or maximum length of the file, in bytes.
    pub capacity: ByteLength,
}

/// Checks that the experiment has a protocol that can be exported with any settings.
///
/// # Errors
/// Returns an error if the experiment runs a file.
pub fn check(experiment: &dyn Experiment) -> Result<(), LabError> {
    let takes_a_file = |spec: &ParameterSpec| spec.kind == Kind::File;
    if experiment.parameters().iter().any(takes_a_file) {
        return Err(LabError::Unsupported(format!(
            "{} runs a file, which needs no export: copy the file to the other machine",
            experiment.name()
        )));
    }
    Ok(())
}

/// Returns the protocol of `experiment` as a script.
///
/// # Errors
/// Returns an error if a script cannot do what the experiment does, or if the experiment does not fit the
/// target.
pub fn script(
    experiment: &dyn Experiment,
    settings: &Settings,
    seed: u64,
    script_target: &ScriptTarget,
    tag: Tag,
) -> Result<Script, LabError> {
    let mut recording = RecordingDrive::new(script_target.clone());
    let cannot = |error: DriveError| match error.kind() {
        ErrorKind::Unsupported => LabError::Unsupported(format!("{}: {error}", experiment.name())),
        _ => LabError::Drive(error),
    };
    let plan = match experiment.plan(settings, &recording.description()) {
        Err(LabError::Unsupported(_)) => {
            return Err(LabError::Unsupported(format!(
                "{} examines a file system, which fio alone cannot do: run ssdlab on the machine \
                 that has it",
                experiment.name()
            )));
        }
        plan => plan?,
    };
    recording.prepare(plan.space).map_err(cannot)?;
    let mut record = Record::default();
    let outcome = experiment.run(settings, seed, &mut recording, &mut record, &mut NullWatcher);
    outcome.map_err(|error| match error {
        LabError::Drive(error) => cannot(error),
        other => other,
    })?;
    if let Some(what) = recording.unsupported_request {
        return recording.unsupported(what).map_err(cannot);
    }
    let mut remarks = Vec::new();
    if recording.has_rounds {
        remarks.push(
            "Where the protocol measures until steady state, this measures for the protocol's \
             longest time; steady state is then found from the results."
                .to_owned(),
        );
    }
    let is_open = |step: &Step| matches!(step, Step::Work { of_peak: Some(_), .. });
    if recording.steps.iter().any(is_open) {
        remarks.push(
            "In an open loop, fio counts latency from when a request is sent, not from its arrival."
                .to_owned(),
        );
    }
    if settings.shortened() {
        remarks.push("The protocol was changed or shortened.".to_owned());
    }
    Ok(Script {
        experiment: experiment.name().to_owned(),
        question: experiment.question().to_owned(),
        tag,
        target: script_target.name.clone(),
        is_device: script_target.is_device,
        space: recording.space,
        steps: recording.steps,
        has_rounds: recording.has_rounds,
        remarks,
    })
}

/// Returns the tag that all jobs of these runs have; `None` if they are not the results of one exported
/// script.
pub fn tag_of(runs: &[FioRun]) -> Option<Tag> {
    let mut jobs = runs.iter().flat_map(|run| &run.jobs);
    let tag = Tag::parse(jobs.next()?.description.as_deref()?)?;
    let is_same = |job: &FioJob| {
        job.description.as_deref().and_then(Tag::parse).is_some_and(|other| other == tag)
    };
    jobs.all(is_same).then_some(tag)
}

/// Returns the report of the experiment that a script was exported from, made from the results of its jobs.
/// `plain` is the report of the jobs; its target, host, start and cost are used.
///
/// # Errors
/// Returns an error if results are missing or have no histograms (`json+`).
pub fn report_from_results(tag: &Tag, runs: &[FioRun], plain: Report) -> Result<Report, LabError> {
    let experiment = experiment::named(&tag.experiment)?;
    let settings = Settings::new(experiment, tag.quick, &tag.set)?;
    let results =
        runs.iter().flat_map(|run| &run.jobs).map(step_result).collect::<Result<_, _>>()?;
    let is_device = plain.target.kind == crate::report::TargetKind::Device;
    let capacity = tag.capacity;
    let mut recording =
        RecordingDrive::new(ScriptTarget { name: plain.target.name.clone(), is_device, capacity });
    recording.results = Some(results);
    let outcome = crate::run(experiment, &settings, tag.seed, &mut recording, &mut NullWatcher);
    if let Some(LabError::Drive(error)) = outcome.error {
        return Err(LabError::Unsupported(format!("{}: {error}", experiment.name())));
    }
    let mut report = outcome.report;
    report.target = plain.target;
    report
        .target
        .facts
        .push(Fact { name: "protocol".to_owned(), value: "run by an exported script".to_owned() });
    (report.host, report.started, report.cost) = (plain.host, plain.started, plain.cost);
    report.interrupted |= plain.interrupted;
    Ok(report)
}

#[cfg(test)]
mod tests {
    use ssdlab_drive::Amount;
    use ssdlab_interchange::script::Form;

    use super::*;

    fn script_target(is_device: bool) -> ScriptTarget {
        let name = if is_device { "/dev/sdx" } else { "/mnt/new.dat" };
        let capacity = ByteLength::new(64 << 30);
        ScriptTarget { name: name.to_owned(), is_device, capacity }
    }

    fn exported(name: &str, is_device: bool) -> Result<Script, LabError> {
        exported_with(name, is_device, true)
    }

    fn exported_with(name: &str, is_device: bool, quick: bool) -> Result<Script, LabError> {
        let experiment = experiment::named(name).unwrap();
        let settings = Settings::new(experiment, quick, &[])?;
        let script_target = script_target(is_device);
        let (experiment_name, capacity) = (name.to_owned(), script_target.capacity);
        let tag = Tag { experiment: experiment_name, seed: 1, quick, capacity, set: Vec::new() };
        script(experiment, &settings, 1, &script_target, tag)
    }

    #[test]
    fn protocols_become_steps() {
        let script = exported("fragmentation", false).unwrap();
        let works = script.steps.iter().filter(|step| matches!(step, Step::Work { .. })).count();
        // The fill, and three reads before and after each of four steps of writes.
        assert!(works >= 1 + 4 + 3, "{works}");
        assert!(script.space > ByteLength::ZERO);
        for name in ["blocksize", "random-write", "steady", "latency"] {
            let script = exported(name, true).unwrap();
            assert!(!script.steps.is_empty(), "{name}");
        }
    }

    #[test]
    fn arrivals_are_shares_of_the_peak() {
        let script = exported("latency", true).unwrap();
        let shares: Vec<f64> = script
            .steps
            .iter()
            .filter_map(|step| match step {
                Step::Work { of_peak, .. } => of_peak.map(|(_, share)| share),
                _ => None,
            })
            .collect();
        assert_eq!(shares.len(), 3);
        for (share, expected) in shares.iter().zip([0.5, 0.7, 0.9]) {
            assert!((share - expected).abs() < 0.01, "{shares:?}");
        }
    }

    #[test]
    fn rounds_become_one_long_step() {
        let script = exported("steady", true).unwrap();
        assert!(script.steps.len() < 10, "{}", script.steps.len());
    }

    #[test]
    fn whole_passes_over_an_area_become_one_long_step_too() {
        for quick in [true, false] {
            let script = exported_with("overprovision", true, quick).unwrap();
            assert!(script.has_rounds);
            // Two states: purged, filled, written randomly, trimmed in one of them, and four operations.
            assert_eq!(script.steps.len(), 2 * 7 + 1);
            let sequential = script.steps.iter().find_map(|step| match step {
                Step::Work { phase, .. } if phase.name == "seq_write" => Some(phase),
                _ => None,
            });
            let limit = if quick { 60 } else { 2 * 3600 };
            // Whole rounds: at most a part of one more than the limit.
            let Amount::Time(time) = sequential.unwrap().amount else { panic!("not by time") };
            assert!((0.0..1.0).contains(&(time.seconds() - limit as f64)), "{time:?}");
        }
    }

    #[test]
    fn scripts_for_windows_are_grammatical_for_every_experiment_that_has_one() {
        let mut parser = tree_sitter::Parser::new();
        parser.set_language(&tree_sitter_powershell::LANGUAGE.into()).unwrap();
        let mut rendered = Vec::new();
        for experiment in experiment::all() {
            let name = experiment.name();
            for (is_device, quick) in [(true, true), (true, false), (false, true), (false, false)] {
                let Ok(script) = exported_with(name, is_device, quick) else { continue };
                let text = script.render(Form::PowerShell).unwrap();
                let tree = parser.parse(&text, None).unwrap();
                let root = tree.root_node();
                assert!(!root.has_error(), "{name}: {}\n{text}", root.to_sexp());
                assert!(text.contains("NOT TRIED ON WINDOWS"), "{name}");
                rendered.push((name, is_device));
            }
        }
        for name in ["blocksize", "random-write", "steady", "latency", "overprovision"] {
            assert_eq!(rendered.iter().filter(|one| **one == (name, true)).count(), 2, "{name}");
        }
        for name in ["fragmentation", "latency"] {
            assert!(rendered.contains(&(name, false)), "{name} on a file");
        }
    }

    #[test]
    fn what_fio_cannot_do_is_said() {
        let error = exported("barrier", true).unwrap_err();
        assert!(error.to_string().contains("fio alone cannot"), "{error}");
    }
}
