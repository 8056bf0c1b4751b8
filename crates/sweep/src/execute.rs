//! Execution of the runs of a sweep, in parallel.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_pcg::Pcg64;
use rayon::prelude::*;
use ssdlab_blockio::RealOptions;
use ssdlab_drive::{Control, Drive, ErrorKind};
use ssdlab_lab::experiment::Watcher;
use ssdlab_lab::report::Report;
use ssdlab_lab::{LabError, Outcome};

use crate::design::{Design, InvalidPoint, RunSetup, error_chain};
use crate::error::SweepError;
use crate::key::Key;
use crate::measure::Measured;
use crate::results::Results;
use crate::sweep::{RunState, Sweep};

/// Interface that opens the drives of runs.
pub trait DriveOpener: Sync {
    /// Opens the drive of `case`.
    ///
    /// # Errors
    /// Returns an error if the drive cannot be opened, or must not be.
    fn open(&self, case: &RunSetup) -> Result<Box<dyn Drive>, LabError>;
}

/// Opens simulated drives, and files on real ones.
#[derive(Clone, Copy, Debug, Default)]
pub struct Simulated;

impl DriveOpener for Simulated {
    fn open(&self, case: &RunSetup) -> Result<Box<dyn Drive>, LabError> {
        case.target.open(&RealOptions::default())
    }
}

/// Options of the execution of runs.
pub struct Options<'a> {
    /// Number of runs at a time; 1 on real drives.
    pub jobs: usize,
    /// Store of results, in which earlier results are found; `None` keeps none.
    pub results: Option<&'a Results>,
    /// Opener of the drives.
    pub opener: &'a dyn DriveOpener,
    /// Idle time of a real drive before each run but the first.
    pub rest: Duration,
}

/// Progress of a sweep.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Progress {
    /// Number of runs to make, without those whose results were found.
    pub runs: usize,
    /// Number of these runs that have ended.
    pub ended: usize,
    /// Number of these runs that failed.
    pub failed: usize,
    /// Number of runs whose results were found.
    pub found: usize,
    /// Share of the work that is done, from 0 to 1.
    pub share: f64,
}

/// Longest time between two calls of the observer.
const OBSERVER_INTERVAL: Duration = Duration::from_millis(100);

/// Run to be made.
#[derive(Clone, Debug)]
struct Job {
    /// Index among all runs.
    index: usize,
    point: usize,
    seed: u64,
    key: Key,
}

/// Units in which the progress of a run is counted.
const PROGRESS_UNITS: f64 = 1000.0;

/// State that the threads share.
struct Shared<'a> {
    design: &'a Design,
    options: &'a Options<'a>,
    is_ended: AtomicBool,
    /// Progress of the current run of each thread, in units of 1 / [`PROGRESS_UNITS`].
    thread_progress: Vec<AtomicU32>,
}

/// Makes all runs of `design` but those of `impossible` points, and returns their results. Results that are already
/// stored are reused. `observer` is called with the progress ten times a second or more often; it ends the sweep by
/// returning [`Control::Cancel`], and the results so far are kept.
///
/// # Errors
/// Returns an error if a file that a run depends on cannot be read, or if threads cannot be started. An error of a run
/// is part of the result.
pub fn run(
    design: &Design,
    impossible: &[InvalidPoint],
    options: &Options,
    observer: &mut dyn FnMut(&Progress) -> Control,
) -> Result<Sweep, SweepError> {
    let keys = keys(design, impossible)?;
    let mut states: Vec<RunState> = Vec::with_capacity(keys.len());
    let mut jobs: Vec<Job> = Vec::new();
    let seeds = design.seeds();
    for (index, key) in keys.iter().enumerate() {
        let (point, seed) = (index / seeds.len(), seeds[index % seeds.len()]);
        let Some(key) = key else {
            let why = impossible.iter().find(|it| it.point == point).map(|it| it.why.clone());
            states.push(RunState::Failed(why.unwrap_or_default()));
            continue;
        };
        let found = options.results.and_then(|results| results.load(key));
        if found.is_none() {
            jobs.push(Job { index, point, seed, key: key.clone() });
        }
        states.push(found.map_or(RunState::Missing, RunState::Done));
    }
    let found = states.iter().filter(|state| matches!(state, RunState::Done(_))).count();
    if design.is_real() {
        // In random order, changes over time, such as a drive that warms up, affect all points alike.
        jobs.shuffle(&mut Pcg64::seed_from_u64(design.question().seed));
    }
    let is_ended = execute_jobs(design, jobs, found, options, &mut states, observer)?;
    Ok(Sweep::new(design, keys, states, is_ended))
}

/// Collects the results of `design` that `results` holds, without making any runs: for callers who make the runs
/// elsewhere. Runs without a result are missing; those in `failed` have failed for the given reason.
///
/// # Errors
/// Returns an error if a file that a run depends on cannot be read.
pub fn collect(
    design: &Design,
    impossible: &[InvalidPoint],
    results: &Results,
    failed: &HashMap<Key, String>,
) -> Result<Sweep, SweepError> {
    let keys = keys(design, impossible)?;
    let seeds = design.seeds().len();
    let mut is_complete = true;
    let states = keys.iter().enumerate().map(|(index, key)| {
        let Some(key) = key else {
            let why = impossible.iter().find(|it| it.point == index / seeds);
            return RunState::Failed(why.map(|it| it.why.clone()).unwrap_or_default());
        };
        if let Some(measured) = results.load(key) {
            return RunState::Done(measured);
        }
        match failed.get(key) {
            Some(why) => RunState::Failed(why.clone()),
            None => {
                is_complete = false;
                RunState::Missing
            }
        }
    });
    let states = states.collect();
    Ok(Sweep::new(design, keys, states, !is_complete))
}

/// Makes the single run of `point` with `seed`, and returns its report.
///
/// # Errors
/// Returns an error if the drive cannot be opened, if the run fails, or if `watcher` ends it.
pub fn run_one(
    design: &Design,
    point: usize,
    seed: u64,
    opener: &dyn DriveOpener,
    watcher: &mut dyn Watcher,
) -> Result<Report, LabError> {
    let experiment = design.experiment();
    let mut case = design.case(point, seed)?;
    case.settings.set_threads(1);
    let mut drive = opener.open(&case)?;
    let plan = experiment.plan(&case.settings, &drive.description())?;
    plan.check_blocks(&drive.description())?;
    drive.prepare(plan.space)?;
    let Outcome { report, error } =
        ssdlab_lab::run(experiment, &case.settings, seed, &mut *drive, watcher);
    error.map_or(Ok(report), Err)
}

/// Returns the key of every run, ordered by point and seed; `None` for runs of points that cannot be run.
///
/// # Errors
/// Returns an error if a file that a run depends on cannot be read.
pub fn keys(design: &Design, impossible: &[InvalidPoint]) -> Result<Vec<Option<Key>>, SweepError> {
    let seeds = design.seeds();
    let of_point = |point: usize| -> Result<Vec<Option<Key>>, LabError> {
        if impossible.iter().any(|it| it.point == point) {
            return Ok(vec![None; seeds.len()]);
        }
        // Drive and settings of a point depend on the seed only in what they draw at random.
        let case = design.case(point, seeds[0])?;
        seeds.iter().map(|&seed| Key::of(design.experiment(), &case, seed).map(Some)).collect()
    };
    let points = (0..design.points().len()).into_par_iter();
    let keys: Result<Vec<_>, LabError> = points.map(of_point).collect();
    Ok(keys?.concat())
}

/// Makes the runs in `jobs`, and returns true if the observer has ended them.
fn execute_jobs(
    design: &Design,
    jobs: Vec<Job>,
    found: usize,
    options: &Options,
    states: &mut [RunState],
    observer: &mut dyn FnMut(&Progress) -> Control,
) -> Result<bool, SweepError> {
    let threads = options.jobs.clamp(1, jobs.len().max(1));
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().map_err(|error| {
        SweepError::Usage(format!("--jobs {threads}: threads cannot be started: {error}"))
    })?;
    let shared = Shared {
        design,
        options,
        is_ended: AtomicBool::new(false),
        thread_progress: (0..threads).map(|_| AtomicU32::new(0)).collect(),
    };
    let mut progress = Progress { runs: jobs.len(), ended: 0, failed: 0, found, share: 0.0 };
    let (sender, receiver) = channel();
    pool.in_place_scope_fifo(|scope| {
        for (turn, job) in jobs.into_iter().enumerate() {
            let (sender, shared) = (sender.clone(), &shared);
            scope.spawn_fifo(move |_| {
                let state = execute_job(shared, &job, turn);
                // The receiver outlives all senders, so sending cannot fail.
                let _ = sender.send((job.index, state));
            });
        }
        drop(sender);
        loop {
            match receiver.recv_timeout(OBSERVER_INTERVAL) {
                Ok((index, state)) => {
                    progress.ended += 1;
                    progress.failed += usize::from(matches!(state, RunState::Failed(_)));
                    states[index] = state;
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            let in_progress: u32 =
                shared.thread_progress.iter().map(|progress| progress.load(Relaxed)).sum();
            let done = progress.ended as f64 + f64::from(in_progress) / PROGRESS_UNITS;
            progress.share = (done / progress.runs.max(1) as f64).min(1.0);
            if observer(&progress) == Control::Cancel {
                shared.is_ended.store(true, Relaxed);
            }
        }
    });
    Ok(shared.is_ended.load(Relaxed))
}

fn execute_job(shared: &Shared, job: &Job, turn: usize) -> RunState {
    let thread = rayon::current_thread_index().unwrap_or(0);
    let progress = &shared.thread_progress[thread];
    progress.store(0, Relaxed);
    if shared.design.is_real() && turn > 0 {
        rest_before_run(shared);
    }
    if shared.is_ended.load(Relaxed) {
        return RunState::Missing;
    }
    // A panic is an error of this program; the results of the other runs are worth keeping.
    let measured = catch_unwind(AssertUnwindSafe(|| measure_job(shared, job, progress)));
    progress.store(0, Relaxed);
    match measured {
        Err(panic) => {
            let words = panic.downcast_ref::<String>().map(String::as_str);
            let words = words.or_else(|| panic.downcast_ref::<&str>().copied());
            RunState::Failed(format!(
                "the program panicked: {}",
                words.unwrap_or("without a message")
            ))
        }
        Ok(Err(error)) if error.kind() == ErrorKind::Cancelled => RunState::Missing,
        Ok(Err(error)) => RunState::Failed(error_chain(&error)),
        Ok(Ok(measured)) => {
            let kept = shared.options.results.map_or(Ok(()), |it| it.store(&job.key, &measured));
            match kept {
                Ok(()) => RunState::Done(measured),
                Err(error) => RunState::Failed(format!("its result cannot be saved: {error}")),
            }
        }
    }
}

fn rest_before_run(shared: &Shared) {
    let until = std::time::Instant::now() + shared.options.rest;
    while !shared.is_ended.load(Relaxed) {
        let left = until.saturating_duration_since(std::time::Instant::now());
        if left.is_zero() {
            return;
        }
        std::thread::sleep(left.min(OBSERVER_INTERVAL));
    }
}

fn measure_job(shared: &Shared, job: &Job, progress: &AtomicU32) -> Result<Measured, LabError> {
    let mut watcher = RunWatcher { progress, is_ended: &shared.is_ended, before: 0.0, weight: 0.0 };
    let report = run_one(shared.design, job.point, job.seed, shared.options.opener, &mut watcher)?;
    Ok(Measured::of(&report))
}

/// Watcher of one run, which reports its progress and ends it on request.
struct RunWatcher<'a> {
    progress: &'a AtomicU32,
    is_ended: &'a AtomicBool,
    before: f64,
    weight: f64,
}

impl Watcher for RunWatcher<'_> {
    fn step(&mut self, _: &str, weight: f64) {
        self.before += self.weight;
        self.weight = weight;
    }

    fn progress(&mut self, done: f64) -> Control {
        let share = (self.before + self.weight * done).clamp(0.0, 1.0);
        self.progress.store((share * PROGRESS_UNITS) as u32, Relaxed);
        if self.is_ended.load(Relaxed) { Control::Cancel } else { Control::Continue }
    }
}
