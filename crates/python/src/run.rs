//! Run of an experiment from Python, in the way of `ssdlab run`.

use pyo3::prelude::*;
use ssdlab_blockio::{RealOptions, is_block_device};
use ssdlab_drive::{Drive, When};
use ssdlab_lab::experiment::{self, Experiment, Settings};
use ssdlab_lab::memory::{self, MemoryEstimate};
use ssdlab_lab::quick::quick;
use ssdlab_lab::{Outcome, Target};

use crate::failure::{Failure, exception};
use crate::report::Report;
use crate::watch::Watch;

/// Names and values of parameters, as `--set` takes them.
pub type Set = Vec<(String, String)>;

/// Runs an experiment.
#[pyfunction]
#[allow(clippy::too_many_arguments)]
pub fn run(
    py: Python<'_>,
    experiment: &str,
    target: &str,
    set: Set,
    is_quick: bool,
    seed: u64,
    allow_buffered: bool,
    create_file: bool,
    callback: Option<Py<PyAny>>,
) -> PyResult<Report> {
    let mut watch = Watch::new(callback);
    let outcome = py.detach(|| -> Result<Outcome, Failure> {
        let experiment = experiment::named(experiment)?;
        let target = Target::seeded(target, seed)?;
        refuse_devices(&target)?;
        let (mut settings, target) = match is_quick {
            true => quick(experiment, target, seed, &set)?,
            false => (Settings::new(experiment, false, &set)?, target),
        };
        let options =
            RealOptions { require_direct: !allow_buffered, create_file, ..RealOptions::default() };
        if let Some(need) = MemoryEstimate::of_opening(&target) {
            check_memory(&target, &need)?;
        }
        let mut drive = target.open(&options)?;
        let plan = experiment.plan(&settings, &drive.description())?;
        plan.check_blocks(&drive.description())?;
        drive.prepare(plan.space)?;
        if let Some(need) = MemoryEstimate::of(&target, &plan) {
            settings.set_threads(check_memory(&target, &need)?);
        }
        if !target.is_simulated() {
            drive.read_health(When::Before);
        }
        Ok(ssdlab_lab::run(experiment, &settings, seed, &mut *drive, &mut watch))
    })?;
    deliver(py, outcome, watch)
}

/// Runs an experiment on an existing drive.
pub fn run_on(
    experiment: &'static dyn Experiment,
    set: &Set,
    is_quick: bool,
    seed: u64,
    drive: &mut dyn Drive,
    watch: &mut Watch,
) -> Result<Outcome, Failure> {
    let settings = Settings::new(experiment, is_quick, set)?;
    let plan = experiment.plan(&settings, &drive.description())?;
    plan.check_blocks(&drive.description())?;
    drive.prepare(plan.space)?;
    Ok(ssdlab_lab::run(experiment, &settings, seed, drive, watch))
}

/// Returns the report, or raises the exception that ended the run, with the report of what was measured until then.
pub fn deliver(py: Python<'_>, outcome: Outcome, watch: Watch) -> PyResult<Report> {
    let Outcome { report, error } = outcome;
    let report = Report::new(report);
    let Some(error) = error else { return Ok(report) };
    let failure = Failure::from(error);
    let result = Bound::new(py, report)?.into_any();
    match watch.stopped(py).filter(|_| failure.is_cancelled()) {
        // An exception in the callback is passed on unchanged.
        Some((error, false)) => Err(error),
        Some((error, true)) => {
            let words = "interrupted; .result holds the results until then";
            let raised = exception(py, "Interrupted", words, Some(result));
            raised.set_cause(py, Some(error));
            Err(raised)
        }
        None => Err(failure.with_result(py, Some(result))),
    }
}

/// Refuses block devices: overwriting one needs confirmation at a terminal.
pub fn refuse_devices(target: &Target) -> Result<(), Failure> {
    match target {
        Target::Path(path) if is_block_device(path) => Err(Failure::refused(format!(
            "{} is a block device, which only the command line measures, as it asks before it \
             writes: ssdlab run EXPERIMENT {0} --destroy-data; ssdlab.load() reads its report",
            path.display()
        ))),
        _ => Ok(()),
    }
}

/// Refuses a run that needs more memory than is available; returns the number of workloads that may run in parallel.
pub fn check_memory(target: &Target, need: &MemoryEstimate) -> Result<usize, Failure> {
    let processors = std::thread::available_parallelism().map_or(1, |count| count.get());
    let Some(available) = memory::available() else { return Ok(processors) };
    if need.least() <= available {
        return Ok(need.threads(available, processors));
    }
    let way_out = match target.largest_scale_that_fits(need, available) {
        Some(smaller) => format!("; a smaller drive of the same kind fits: {smaller}"),
        None => String::new(),
    };
    Err(Failure::unsupported(format!(
        "this needs about {:.1} GiB of memory, and {:.1} GiB are available{way_out}",
        need.least().gibibytes(),
        available.gibibytes()
    )))
}
