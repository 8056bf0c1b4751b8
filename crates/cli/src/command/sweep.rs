//! `sweep`: makes many runs of one experiment, from the arguments to the page.

use std::path::Path;
use std::time::{Duration, Instant};

use ssdlab_blockio::{RealDrive, RealOptions};
use ssdlab_drive::{Drive, DriveError, ErrorKind};
use ssdlab_lab::experiment::{self, Kind};
use ssdlab_lab::output::text;
use ssdlab_lab::report::{Cost, Report, TargetKind};
use ssdlab_lab::{LabError, Target, machine};
use ssdlab_sweep::tables::{self, ReportContext};
use ssdlab_sweep::{
    Design, DriveOpener, InvalidPoint, Options, Results, RunSetup, Sampling, Simulated, Sweep,
    SweepRequest, page,
};

use crate::cli::SweepArguments;
use crate::device::{self, Consent, Gate};
use crate::failure::{Exit, Failure};
use crate::interrupt::Interrupt;
use crate::output_file::OutputFile;
use crate::progress::{Progress, approximate_duration};
use crate::terminal::Terminal;
use crate::{estimate, memory, run_store};

/// Number of impossible points that are listed; the others are counted.
const MAX_LISTED_POINTS: usize = 5;

/// Makes the runs of a sweep.
pub fn sweep(arguments: &SweepArguments, terminal: &Terminal) -> Result<Exit, Failure> {
    let design = Design::new(question(arguments)?)?;
    let (impossible, cost) = design.check();
    refuse_impossible(&design, &impossible, terminal)?;
    let store = match arguments.no_store {
        true => None,
        false => Some(run_store::path(arguments.store.store.as_deref())?),
    };
    let real = design.is_real().then(|| RealOpener::new(&design, arguments)).transpose()?;
    refuse_unused_consent(&design, arguments)?;
    let html = arguments.report.html.as_deref().map(OutputFile::html).transpose()?;
    let out = arguments.out.as_deref();
    let results = out.map(|path| Results::open(path, arguments.resume)).transpose()?;
    let interrupt = Interrupt::listen().map_err(|source| {
        Failure::system(Exit::Failed, "cannot listen for Ctrl-C".to_owned(), source)
    })?;
    let runs = (design.points().len() - impossible.len()) * design.seeds().len();
    let (jobs, expected) = match &real {
        Some(real) => (1, real.announce(&design, runs, arguments.rest, terminal)?),
        None => {
            let processors = std::thread::available_parallelism().map_or(1, |count| count.get());
            let jobs = arguments.jobs.map_or(processors, usize::from);
            let jobs = cost.memory.map_or(Ok(jobs), |it| memory::parallel_runs(&it, jobs))?;
            let expected = cost.processor.map(|time| time / jobs.min(runs).max(1) as u32);
            let words = expected
                .map_or(String::new(), |it| format!(", in about {}", approximate_duration(it)));
            terminal.note(&format!(
                "{runs} runs of {}, {} at a time{words}.",
                design.experiment().name(),
                jobs.min(runs)
            ));
            (jobs, expected)
        }
    };
    let opener: &dyn DriveOpener = match &real {
        Some(real) => real,
        None => &Simulated,
    };
    let started = machine::now();
    let (clock, processor) = (Instant::now(), machine::cpu_seconds());
    let options = Options { jobs, results: results.as_ref(), opener, rest: arguments.rest };
    let mut progress = Progress::new(terminal, interrupt, expected);
    let mut sweep = ssdlab_sweep::run(&design, &impossible, &options, &mut |now| {
        let failed = match now.failed {
            0 => String::new(),
            count => format!(", {count} failed"),
        };
        progress.update(format!("{} of {} runs{failed}", now.ended, now.runs), now.share)
    })?;
    progress.finish();
    if let Err(why) = sweep.select_figures(&arguments.measure) {
        // The runs are kept even if the choice of a figure is wrong.
        terminal.warn(&[format!("--measure: {why}")], "the default figures are shown");
    }
    let circumstances = ReportContext {
        started,
        host: machine::host(),
        kind: real.as_ref().map(RealOpener::kind),
        cost: Cost {
            wall_seconds: clock.elapsed().as_secs_f64(),
            cpu_seconds: machine::cpu_seconds() - processor,
            peak_rss_bytes: machine::peak_memory().bytes(),
            ..Cost::default()
        },
    };
    let report = tables::report(&sweep, circumstances);
    deliver(&sweep, &report, arguments, store.as_deref(), html, terminal)
}

/// Returns the question that the arguments describe.
fn question(arguments: &SweepArguments) -> Result<SweepRequest, Failure> {
    let experiment = experiment::named(&arguments.experiment)?;
    let protocol = &arguments.protocol;
    let is_given = |name: &str| {
        protocol.set.iter().any(|(given, _)| given == name)
            || arguments.vary.iter().any(|varied| varied.key == name)
    };
    let mut set = protocol.set.clone();
    let mut targets = arguments.operands.clone();
    let takes_file = experiment.parameters().iter().find(|spec| spec.kind == Kind::File);
    if let Some(spec) = takes_file.filter(|spec| !is_given(spec.name)) {
        if targets.is_empty() {
            return Err(Failure::usage(format!(
                "{0} runs a file: ssdlab sweep {0} FILE [TARGET...]",
                experiment.name()
            )));
        }
        set.push((spec.name.to_owned(), targets.remove(0)));
    }
    if targets.is_empty() && !arguments.vary.iter().any(|varied| varied.key == "target") {
        targets.push("sim:".to_owned());
    }
    let sampling = match (arguments.points, arguments.random) {
        (None, _) => Sampling::Grid,
        (Some(points), true) => Sampling::Random(points),
        (Some(points), false) => Sampling::Latin(points),
    };
    Ok(SweepRequest {
        experiment,
        targets,
        vary: arguments.vary.clone(),
        set,
        quick: protocol.quick,
        seed: protocol.seed.number,
        seeds: arguments.seeds,
        sampling,
    })
}

/// Warns of the points that cannot be run; returns an error if that is all of them.
fn refuse_impossible(
    design: &Design,
    impossible: &[InvalidPoint],
    terminal: &Terminal,
) -> Result<(), Failure> {
    let all = design.points().len();
    if impossible.len() == all {
        let first = &impossible[0];
        let words = format!("{}: {}", design.words(first.point), first.why);
        let none = if all == 1 { "this cannot be run" } else { "none of the points can be run" };
        return Err(Failure::usage(format!("{none}; {words}")));
    }
    if impossible.is_empty() {
        return Ok(());
    }
    let named = impossible.iter().take(MAX_LISTED_POINTS);
    let mut sentences = vec![format!("{} of {all} points cannot be run", impossible.len())];
    sentences.extend(named.map(|it| format!("{}: {}", design.words(it.point), it.why)));
    if impossible.len() > MAX_LISTED_POINTS {
        sentences.push(format!("and {} more", impossible.len() - MAX_LISTED_POINTS));
    }
    terminal.warn(&sentences, "the other points are run; the exit code will be 1");
    Ok(())
}

/// Refuses options for block devices if no target is one.
fn refuse_unused_consent(design: &Design, arguments: &SweepArguments) -> Result<(), Failure> {
    let paths = design.question().targets.iter();
    let has_device = paths.map(Path::new).any(ssdlab_blockio::is_block_device);
    if has_device || !(arguments.destroy_data || arguments.confirm.is_some()) {
        return Ok(());
    }
    Err(Failure::usage(
        "--destroy-data and --confirm need a block device among the targets; leave them out"
            .to_owned(),
    ))
}

/// Opener of real drives; a block device passes the gate before each run.
struct RealOpener {
    options: RealOptions,
    consent: Consent,
    experiment: &'static dyn experiment::Experiment,
    kind: TargetKind,
}

impl RealOpener {
    fn new(design: &Design, arguments: &SweepArguments) -> Result<RealOpener, Failure> {
        let first = Path::new(&design.question().targets[0]);
        let kind = match (ssdlab_blockio::is_block_device(first), first.is_dir()) {
            (true, _) => TargetKind::Device,
            (false, true) => TargetKind::Directory,
            (false, false) => TargetKind::File,
        };
        if kind == TargetKind::Device && arguments.destroy_data && arguments.confirm.is_none() {
            return Err(Failure::usage(
                "a sweep checks the device before each run, and cannot ask each time; give the \
                 device's serial or path with --confirm"
                    .to_owned(),
            ));
        }
        let consent =
            Consent { destroy_data: arguments.destroy_data, confirm: arguments.confirm.clone() };
        let options =
            RealOptions { require_direct: !arguments.allow_buffered, ..RealOptions::default() };
        Ok(RealOpener { options, consent, experiment: design.experiment(), kind })
    }

    fn kind(&self) -> TargetKind {
        self.kind
    }

    fn open_real(&self, case: &RunSetup) -> Result<RealDrive, Failure> {
        let Target::Path(path) = &case.target else {
            unreachable!("real and simulated drives are not mixed")
        };
        let options = &self.options;
        let gate = device::gate(self.experiment, &case.settings, path, options, &self.consent)?;
        Ok(match gate {
            Gate::NotADevice => RealDrive::open(path, options.clone()).map_err(LabError::from)?,
            Gate::ReadOnly(drive) => *drive,
            Gate::Passed(permit) => {
                RealDrive::open_device(*permit, options.clone()).map_err(LabError::from)?
            }
        })
    }

    /// Opens every target once, prints what a run will write and how long it will take, and returns the time of all
    /// runs.
    fn announce(
        &self,
        design: &Design,
        runs: usize,
        rest: Duration,
        terminal: &Terminal,
    ) -> Result<Option<Duration>, Failure> {
        let mut longest = None;
        let mut tried: Vec<String> = Vec::new();
        for point in 0..design.points().len() {
            let case = design.case(point, design.question().seed)?;
            let name = case.target.name();
            if tried.contains(&name) {
                continue;
            }
            tried.push(name);
            let mut drive = self.open_real(&case)?;
            let plan = self.experiment.plan(&case.settings, &drive.description())?;
            plan.check_blocks(&drive.description())?;
            drive.prepare(plan.space).map_err(LabError::from)?;
            let examined = self.experiment.checks_plausibility(&case.settings);
            longest = longest.max(estimate::announce(&plan, &mut drive, examined, terminal));
            drive.clean_up().map_err(LabError::from)?;
        }
        let Some(one) = longest else { return Ok(None) };
        let all = one * runs as u32 + rest * runs.saturating_sub(1) as u32;
        terminal.note(&format!(
            "That is one run: the sweep makes {runs}, in random order with {} of rest between them, in \
             about {}.",
            humantime::format_duration(rest),
            approximate_duration(all)
        ));
        Ok(Some(all))
    }
}

impl DriveOpener for RealOpener {
    fn open(&self, case: &RunSetup) -> Result<Box<dyn Drive>, LabError> {
        let drive = self.open_real(case).map_err(|failure| {
            let kind = match failure.exit() {
                Exit::Refused => ErrorKind::Refused,
                Exit::Usage => ErrorKind::Usage,
                Exit::Unsupported => ErrorKind::Unsupported,
                _ => ErrorKind::Io,
            };
            DriveError::new(kind, failure.chain().join(": "))
        })?;
        Ok(Box::new(drive))
    }
}

/// Largest number of points in a table on a terminal.
const MAX_TABLE_POINTS: usize = 100;

/// Returns the report without tables of many points; files, JSON and the store have them.
fn without_long_tables(report: &Report) -> Report {
    let mut shown = report.clone();
    shown.tables.retain(|table| table.rows.len() <= MAX_TABLE_POINTS);
    shown
}

/// Delivers the result to the store, to stdout, to the page and to the files. An error with one of them does not affect
/// the others.
fn deliver(
    sweep: &Sweep,
    report: &Report,
    arguments: &SweepArguments,
    store: Option<&Path>,
    html: Option<OutputFile>,
    terminal: &Terminal,
) -> Result<Exit, Failure> {
    let kept = store.and_then(|path| run_store::save(path, report, terminal));
    let printed = match arguments.report.json {
        true => terminal.print(&sweep.to_json()),
        false => {
            let mut words =
                text::render_with(&without_long_tables(report), &terminal.text_options());
            if let Some(id) = kept {
                words.push_str(&format!("\nKept as run {id}.\n"));
            }
            terminal.print(&words)
        }
    };
    let page = html.map_or(Ok(()), |it| it.write(&page::render(sweep)));
    let files = arguments.out.as_deref().map_or(Ok(()), |directory| {
        tables::write(sweep, directory).map_err(|source| {
            let what = format!("cannot write the results to {}", directory.display());
            Failure::system(Exit::Failed, what, source)
        })?;
        terminal.note(&format!("Wrote {}", directory.join("sweep.html").display()));
        Ok(())
    });
    let failed = sweep.failed().count();
    let (_, all) = sweep.counts();
    let way_out = match arguments.out.as_deref() {
        Some(_) => "; the same command with --resume continues it",
        None => "; with --out DIR, --resume could continue it",
    };
    let ended = match (sweep.interrupted, failed) {
        (true, _) => Err(Failure::new(
            Exit::Interrupted,
            anyhow::anyhow!("interrupted; the result holds what was measured until then{way_out}"),
        )),
        (false, 0) => Ok(()),
        (false, _) => Err(Failure::new(
            Exit::Failed,
            anyhow::anyhow!(
                "{failed} of {all} runs failed; the result names them, and holds the others"
            ),
        )),
    };
    let mut failures: Vec<Failure> =
        [printed, page, files, ended].into_iter().filter_map(Result::err).collect();
    let last = failures.pop();
    failures.iter().for_each(|failure| terminal.error(failure));
    last.map_or(Ok(Exit::Done), Err)
}
