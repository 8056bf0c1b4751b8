//! `run`: runs an experiment on a drive, from the arguments to the report.

use std::path::{Path, PathBuf};
use std::time::Duration;

use ssdlab_blockio::{RealDrive, RealOptions};
use ssdlab_drive::recording::Recorder;
use ssdlab_drive::simulated::PurgeMethod;
use ssdlab_drive::{Drive, ErrorKind, When};
use ssdlab_lab::experiment::{self, Experiment, Kind, Settings};
use ssdlab_lab::memory::MemoryEstimate;
use ssdlab_lab::output::{html, json, text};
use ssdlab_lab::quick::quick;
use ssdlab_lab::store::RunId;
use ssdlab_lab::{LabError, Outcome, Target};
use ssdlab_serve::live::{Publisher, Subject};

use crate::cli::RunArguments;
use crate::device::{self, Consent, Gate};
use crate::failure::{Exit, Failure};
use crate::interrupt::Interrupt;
use crate::output_file::OutputFile;
use crate::progress::Progress;
use crate::table_files::TableFiles;
use crate::terminal::Terminal;
use crate::{estimate, memory, run_store};

/// Checked arguments of a run; no drive has been accessed yet.
struct RunRequest {
    experiment: &'static dyn Experiment,
    settings: Settings,
    target: Target,
    seed: u64,
    as_json: bool,
    /// Path of the store; `None` if the run is not to be kept.
    store: Option<PathBuf>,
    options: RealOptions,
    /// Purge method of a simulated drive.
    purge_method: PurgeMethod,
    /// File that the experiment reads, if any.
    file: Option<String>,
    consent: Consent,
}

impl RunRequest {
    fn new(arguments: &RunArguments) -> Result<RunRequest, Failure> {
        let experiment = experiment::named(&arguments.experiment)
            .map_err(|error| unknown_experiment(error, &arguments.experiment))?;
        let (file, target) = operands(experiment, arguments)?;
        let set: Vec<_> =
            file.clone().into_iter().chain(arguments.protocol.set.iter().cloned()).collect();
        let target = Target::seeded(target, arguments.protocol.seed.number)?;
        let (settings, target) = match arguments.protocol.quick {
            true => quick(experiment, target, arguments.protocol.seed.number, &set)?,
            false => (Settings::new(experiment, false, &set)?, target),
        };
        let store = match arguments.no_store {
            true => None,
            false => Some(run_store::path(arguments.store.store.as_deref())?),
        };
        let options = RealOptions {
            require_direct: !arguments.allow_buffered,
            purge: device::purge_method(arguments.purge, &target)?,
            hold_cpu_idle: !arguments.let_processors_sleep,
            create_file: arguments.create_file,
            engine: device::engine(arguments.engine, &target)?,
            ..RealOptions::default()
        };
        let consent =
            Consent { destroy_data: arguments.destroy_data, confirm: arguments.confirm.clone() };
        let (seed, as_json) = (arguments.protocol.seed.number, arguments.report.json);
        let file = file.map(|(_, path)| path);
        let purge_method = device::simulated_purge_method(arguments.purge);
        Ok(RunRequest {
            experiment,
            settings,
            target,
            seed,
            as_json,
            store,
            options,
            purge_method,
            file,
            consent,
        })
    }
}

/// Name and value of a parameter.
type Setting = (String, String);

/// Returns the file that the experiment reads, as a parameter, and the target.
fn operands<'a>(
    experiment: &dyn Experiment,
    arguments: &'a RunArguments,
) -> Result<(Option<Setting>, &'a str), Failure> {
    let takes_file = experiment.parameters().iter().find(|spec| spec.kind == Kind::File);
    let is_set = |name: &str| arguments.protocol.set.iter().any(|(given, _)| given == name);
    let operands = &arguments.operands;
    match (takes_file.filter(|spec| !is_set(spec.name)), operands.as_slice()) {
        (Some(_), []) => Err(Failure::usage(format!(
            "{0} runs a file: ssdlab run {0} FILE [TARGET]",
            experiment.name()
        ))),
        (Some(_), [only]) if only.starts_with("sim:") && !Path::new(only).exists() => {
            Err(Failure::usage(format!(
                "{0} runs a file, which comes before the target: ssdlab run {0} FILE {only}",
                experiment.name()
            )))
        }
        (Some(spec), [file, target @ ..]) => {
            let target = target.first().map_or("sim:", String::as_str);
            Ok((Some((spec.name.to_owned(), file.clone())), target))
        }
        (None, []) => Ok((None, "sim:")),
        (None, [target]) => Ok((None, target)),
        (None, [_, second, ..]) => Err(Failure::usage(format!(
            "'{second}' is one argument too many: {} takes a target and no file",
            experiment.name()
        ))),
    }
}

/// Returns the error for an unknown experiment, with a hint if the text looks like a target.
fn unknown_experiment(error: LabError, text: &str) -> Failure {
    if text.starts_with("sim:") || Path::new(text).exists() {
        return Failure::usage(format!(
            "there is no experiment '{text}', which looks like a target; that comes second: \
             ssdlab run fragmentation {text}"
        ));
    }
    error.into()
}

/// Runs an experiment.
pub fn run(arguments: &RunArguments, terminal: &Terminal) -> Result<(), Failure> {
    let mut request = RunRequest::new(arguments)?;
    if arguments.record_inside && matches!(request.target, Target::Path(_)) {
        return Err(Failure::usage(
            "--record-inside records the blocks of a simulated SSD, which a real one does not \
             show; leave it out, or name a simulated drive (sim:PROFILE)"
                .to_owned(),
        ));
    }
    // The gate comes before the signal handler, so that Ctrl-C ends the program during its question.
    let gate = match &request.target {
        Target::Path(path) => {
            let options = &request.options;
            device::gate(request.experiment, &request.settings, path, options, &request.consent)?
        }
        _ => Gate::NotADevice,
    };
    device::refuse_unused_options(&gate, &request.target, arguments.purge, &request.consent)?;
    device::refuse_unused_create_file(&gate, &request.target, arguments.create_file)?;
    let page = arguments.report.html.as_deref().map(OutputFile::html).transpose()?;
    let files = TableFiles::reserve(&arguments.files)?;
    let interrupt = Interrupt::listen().map_err(|source| {
        Failure::system(Exit::Failed, "cannot listen for Ctrl-C".to_owned(), source)
    })?;
    for done in experiment::discard::restore_leftover_mounts() {
        terminal.note(&done);
    }
    let (mut drive, expected) = open(&mut request, gate, terminal)?;
    let recorder = arguments.record_inside.then(Recorder::default);
    if let (Some(simulated), Some(recorder)) = (drive.simulated(), &recorder) {
        simulated.record_inside(recorder.clone());
    }
    let subject = Subject {
        experiment: request.experiment.name().to_owned(),
        target: drive.description().name,
        seed: request.seed,
        shortened: request.settings.shortened(),
    };
    let mut progress =
        Progress::new(terminal, interrupt, expected).with_publisher(subject, recorder);
    let outcome = ssdlab_lab::run(
        request.experiment,
        &request.settings,
        request.seed,
        &mut *drive,
        &mut progress,
    );
    let publisher = progress.finish();
    deliver(&request, outcome, publisher, page, files, terminal)
}

/// Opens the drive and reserves space on it. An error here leaves no report; a run that has begun always leaves one.
/// Returns the drive, and the expected time of the run if there is an estimate.
fn open(
    request: &mut RunRequest,
    gate: Gate,
    terminal: &Terminal,
) -> Result<(Box<dyn Drive>, Option<Duration>), Failure> {
    let Target::Path(path) = &request.target else {
        if let Some(need) = MemoryEstimate::of_opening(&request.target) {
            memory::check(&request.target, &need)?;
        }
        let mut drive = request.target.open(&request.options)?;
        drive.set_purge_method(request.purge_method).map_err(LabError::from)?;
        let plan = request.experiment.plan(&request.settings, &drive.description())?;
        plan.check_blocks(&drive.description())?;
        drive.prepare(plan.space).map_err(LabError::from)?;
        if let Some(need) = MemoryEstimate::of(&request.target, &plan) {
            request.settings.set_threads(memory::check(&request.target, &need)?);
            memory::announce(&need, terminal);
        }
        let shorter = request.experiment.scales_with_capacity() && request.settings.divisor() == 1;
        let threads = request.settings.threads();
        let expected =
            estimate::announce_simulated(&plan, &request.target, threads, shorter, terminal);
        return Ok((drive, expected));
    };
    let options = request.options.clone();
    let mut drive = match gate {
        Gate::NotADevice => RealDrive::open(path, options).map_err(LabError::from)?,
        Gate::ReadOnly(drive) => *drive,
        Gate::Passed(permit) => device::open(*permit, options, terminal)?,
    };
    let plan = request.experiment.plan(&request.settings, &drive.description())?;
    plan.check_blocks(&drive.description())?;
    drive.prepare(plan.space).map_err(LabError::from)?;
    if let Some(store) = &request.store {
        run_store::warn_if_unusable(store, terminal);
    }
    drive.read_health(When::Before);
    let examined = request.experiment.checks_plausibility(&request.settings);
    let expected = estimate::announce(&plan, &mut drive, examined, terminal);
    Ok((Box::new(drive), expected))
}

/// Delivers the report to the store, to stdout and to the page. An error with one of them does not affect the others.
/// A request that turned out to be wrong before anything was sent to the drive leaves no report.
fn deliver(
    request: &RunRequest,
    outcome: Outcome,
    publisher: Option<Publisher>,
    page: Option<OutputFile>,
    files: TableFiles<'_>,
    terminal: &Terminal,
) -> Result<(), Failure> {
    let Outcome { report, error } = outcome;
    let error = match error {
        Some(error) if error.kind() == ErrorKind::Usage && report.cost.requests == 0 => {
            if let Some(publisher) = publisher {
                publisher.end(None);
            }
            return Err(error.into());
        }
        error => error,
    };
    let kept = request.store.as_deref().and_then(|path| {
        let id = run_store::save(path, &report, terminal)?;
        Some((id, run_store::earlier_run(path, id, &report)))
    });
    if let Some(publisher) = publisher {
        publisher.end(kept.map(|(id, _)| id));
    }
    let printed = if request.as_json {
        terminal.print(&json::to_json(&report))
    } else {
        let mut output = text::render_with(&report, &terminal.text_options());
        output.push_str(&next_steps(request, kept, page.is_some()));
        terminal.print(&output)
    };
    let written = page.map_or(Ok(()), |page| page.write(&html::render(&report)));
    let files = files.write(&report, terminal);
    let ended = error.map_or(Ok(()), |error| {
        Err(match error.kind() {
            ErrorKind::Cancelled => interrupted(),
            _ => error.into(),
        })
    });
    // The last failure decides the exit code.
    let mut failures: Vec<Failure> =
        [printed, written, files, ended].into_iter().filter_map(Result::err).collect();
    let last = failures.pop();
    for failure in &failures {
        terminal.error(failure);
    }
    last.map_or(Ok(()), Err)
}

fn interrupted() -> Failure {
    let message = "interrupted; the report holds what was measured until then";
    Failure::new(Exit::Interrupted, anyhow::Error::msg(message))
}

/// Returns commands that the user may want to run next.
fn next_steps(
    request: &RunRequest,
    kept: Option<(RunId, Option<RunId>)>,
    has_page: bool,
) -> String {
    let Some((id, earlier)) = kept else { return String::new() };
    let mut steps = Vec::new();
    if !has_page {
        steps.push("ssdlab show last --html report.html".to_owned());
    }
    match earlier {
        Some(earlier) => steps.push(format!("ssdlab compare {earlier} {id}")),
        None => {
            let name = request.experiment.name();
            let quick = if request.settings.shortened() { " --quick" } else { "" };
            let other = match is_on(request, "toshiba-xg5") {
                true => "sim:samsung-pm983",
                false => "sim:toshiba-xg5",
            };
            let file = request.file.as_deref().map_or(String::new(), |file| format!(" {file}"));
            steps.push(format!("ssdlab run {name}{file} {other}{quick}"));
            steps.push("ssdlab compare last~1 last".to_owned());
        }
    }
    format!("\nKept as run {id}. Next, perhaps:\n  {}\n", steps.join("\n  "))
}

fn is_on(request: &RunRequest, profile: &str) -> bool {
    matches!(&request.target, Target::Simulated { profile: used, .. } if used.name() == profile)
}
