//! Trials: workloads that each begin with the same state of the drive.
//!
//! Each trial runs on its own copy of a simulated drive, so that trials do not influence each other. The
//! copies run in parallel, one per processor. The results do not depend on the number of processors. A real
//! drive cannot be copied and runs one trial after the other.

use ssdlab_drive::{Control, Drive, Region, Template};

use super::parallel::{self, WorkResult};
use super::phase_runner::{PhaseRunner, PurgeOutcome, Tally};
use super::{Sample, Watcher};
use crate::error::LabError;

/// State of the drive at the beginning of a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Start {
    /// The drive in its current state; a real drive as the last trial has left it.
    AsItIs,
    /// A purged drive. On a real one that cannot be purged, this area is trimmed.
    New(Region),
}

/// One workload.
#[derive(Clone, Debug)]
pub(super) struct Trial<T> {
    /// Name in progress lines.
    pub(super) name: String,
    /// Weight, on the scale of the runner's other steps.
    pub(super) weight: f64,
    /// Parameters of the workload.
    pub(super) workload: T,
}

/// Results of all trials.
pub(super) struct Trials<R> {
    /// Results in the order of the trials; incomplete for a trial that did not end.
    pub(super) results: Vec<R>,
    /// Purge before the trials.
    pub(super) purge: PurgeOutcome,
    /// True if each trial had its own copy of the drive.
    pub(super) on_copies: bool,
    /// Error that ended the trials early.
    pub(super) outcome: Result<(), LabError>,
}

/// Runs `work` for each of `trials`. The weights of the steps of one trial add up to one.
pub(super) fn run<T: Sync, R: Default + Send>(
    runner: &mut PhaseRunner,
    start: Start,
    trials: &[Trial<T>],
    work: &(dyn Fn(&T, &mut PhaseRunner, &mut R) -> Result<(), LabError> + Sync),
) -> Trials<R> {
    if runner.drive.template().is_none() {
        return run_in_sequence(runner, start, trials, work);
    }
    let names: Vec<&str> = trials.iter().map(|trial| &*trial.name).collect();
    let weight = trials.iter().map(|trial| trial.weight).sum();
    runner.begin_step(common_prefix(&names), weight);
    let purge = match start {
        Start::New(_) => runner.purge_choice(),
        Start::AsItIs => PurgeOutcome::New,
    };
    let template = runner.drive.template().expect("it was there a moment ago");
    let (done, outcome) =
        run_on_copies(template, start, trials, work, runner.threads, runner.watcher);
    let mut results = Vec::with_capacity(trials.len());
    for (result, tally) in done {
        results.push(result);
        runner.tally.add(tally);
    }
    Trials { results, purge, on_copies: true, outcome }
}

/// Returns the common prefix of the names of trials, up to a comma.
fn common_prefix<'a>(names: &[&'a str]) -> &'a str {
    let first = names.first().copied().unwrap_or("");
    let start = first.split_once(',').map_or(first, |(start, _)| start);
    if names.iter().all(|name| name.starts_with(start)) { start } else { first }
}

fn run_in_sequence<T, R: Default>(
    runner: &mut PhaseRunner,
    start: Start,
    trials: &[Trial<T>],
    work: &(dyn Fn(&T, &mut PhaseRunner, &mut R) -> Result<(), LabError> + Sync),
) -> Trials<R> {
    let mut results: Vec<R> = trials.iter().map(|_| R::default()).collect();
    let mut purge = PurgeOutcome::New;
    let mut outcome = Ok(());
    for (trial, result) in trials.iter().zip(&mut results) {
        outcome = (|| {
            if let Start::New(area) = start {
                purge = runner.purge(area)?;
            }
            let share = trial.weight / runner.weights();
            let mut trial_watcher = TrialWatcher { of: runner.watcher, name: &trial.name, share };
            let mut trial_runner = PhaseRunner::new(runner.drive, &mut trial_watcher, 1.0);
            let outcome = work(&trial.workload, &mut trial_runner, result);
            let tally = trial_runner.tally;
            runner.tally.add(tally);
            outcome
        })();
        if outcome.is_err() {
            break;
        }
    }
    Trials { results, purge, on_copies: false, outcome }
}

/// Passes the progress of one trial to the watcher of the whole run.
struct TrialWatcher<'a> {
    /// Watcher of the whole run.
    of: &'a mut dyn Watcher,
    /// Name of the trial.
    name: &'a str,
    /// Share of the trial in the run.
    share: f64,
}

impl Watcher for TrialWatcher<'_> {
    fn step(&mut self, _: &str, weight: f64) {
        self.of.step(self.name, weight * self.share);
    }

    fn progress(&mut self, done: f64) -> Control {
        self.of.progress(done)
    }

    fn sample(&mut self, sample: Sample) {
        self.of.sample(sample);
    }
}

/// Runs each trial on a copy of the drive. Returns the results and counts of each, and the error that ended
/// the trials.
fn run_on_copies<T: Sync, R: Default + Send>(
    template: &dyn Template,
    start: Start,
    trials: &[Trial<T>],
    work: &(dyn Fn(&T, &mut PhaseRunner, &mut R) -> Result<(), LabError> + Sync),
    threads: usize,
    watcher: &mut dyn Watcher,
) -> WorkResult<Vec<(R, Tally)>> {
    let each = |trial: &Trial<T>, watcher: &mut dyn Watcher| {
        run_on_copy(template, start, &trial.workload, work, watcher)
    };
    parallel::run(trials, |trial| trial.weight, threads, watcher, &each)
}

/// Runs one trial on a copy of the drive. Returns its result and counts, and its outcome.
fn run_on_copy<T, R: Default>(
    template: &dyn Template,
    start: Start,
    workload: &T,
    work: &(dyn Fn(&T, &mut PhaseRunner, &mut R) -> Result<(), LabError> + Sync),
    watch: &mut dyn Watcher,
) -> WorkResult<(R, Tally)> {
    let mut result = R::default();
    let mut tally = Tally::default();
    let outcome = (|| {
        let mut copy: Box<dyn Drive + Send> = match start {
            Start::AsItIs => template.copy(),
            Start::New(_) => template.copy_purged()?,
        };
        let (before, began) = (copy.inside(), copy.now());
        let mut runner = PhaseRunner::new(&mut *copy, watch, 1.0);
        let outcome = work(workload, &mut runner, &mut result);
        tally = runner.tally;
        tally.time_on_copies += copy.now().since(began);
        tally.finished_drives.extend(super::phase_runner::since(copy.inside(), before));
        outcome
    })();
    ((result, tally), outcome)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::NullWatcher;
    use crate::target::Target;
    use ssdlab_blockio::RealOptions;
    use ssdlab_drive::{Amount, Mix, Pattern, Phase};
    use ssdlab_units::{KIB, MIB, Nanoseconds};

    fn drive() -> Box<dyn Drive> {
        let target = Target::parse("sim:generic-tlc,capacity.physical=2GiB,flash.dies=2,flash.channels=2,flash.pages_per_block=96,spare=20%").unwrap();
        target.open(&RealOptions::default()).unwrap()
    }

    fn phase(kib: u64) -> Phase {
        Phase {
            name: format!("writes, {kib}"),
            pattern: Pattern::Random,
            block_size: KIB * kib,
            depth: 4,
            mix: Mix::WRITE,
            region: Region::first(MIB * 64),
            amount: Amount::Bytes(MIB * 32),
            rate: None,
            seed: kib,
            flush_at_end: true,
            interval: Nanoseconds::ZERO,
        }
    }

    fn trials() -> Vec<Trial<Phase>> {
        [4, 16, 64, 128]
            .map(|kib| Trial { name: format!("writes, {kib}"), weight: 1.0, workload: phase(kib) })
            .to_vec()
    }

    fn write(phase: &Phase, runner: &mut PhaseRunner, elapsed: &mut u64) -> Result<(), LabError> {
        *elapsed = runner.run(phase, 1.0)?.elapsed.nanos();
        Ok(())
    }

    #[test]
    fn results_do_not_depend_on_the_number_of_threads() {
        let drive = drive();
        let run = |threads, start| {
            let template = drive.template().unwrap();
            let (done, outcome) =
                run_on_copies(template, start, &trials(), &write, threads, &mut NullWatcher);
            outcome.unwrap();
            done
        };
        let alone = run(1, Start::AsItIs);
        assert_eq!(alone, run(3, Start::AsItIs));
        assert_eq!(alone, run(2, Start::New(Region::first(MIB))));
        assert!(alone.iter().all(|(elapsed, tally)| *elapsed > 0 && tally.bytes == MIB * 32));
    }

    #[test]
    fn whoever_watches_may_end_them_and_keeps_what_was_done() {
        struct Impatient;
        impl Watcher for Impatient {
            fn step(&mut self, _: &str, _: f64) {}
            fn progress(&mut self, _: f64) -> Control {
                Control::Cancel
            }
        }
        let drive = drive();
        let mut endless = phase(4);
        endless.amount = Amount::Time(Nanoseconds::from_secs(1 << 20));
        let long = Trial { name: "endless".to_owned(), weight: 1.0, workload: endless };
        let trials = [trials().remove(3), long];
        let template = drive.template().unwrap();
        let (done, outcome) =
            run_on_copies(template, Start::AsItIs, &trials, &write, 2, &mut Impatient);
        assert_eq!(outcome.unwrap_err().kind(), ssdlab_drive::ErrorKind::Cancelled);
        assert!(done[0].0 > 0 && done[1].0 == 0);
    }

    #[test]
    fn an_error_in_one_of_them_is_the_error_of_all() {
        let mut wrong = trials();
        wrong[2].workload.depth = 0;
        let mut drive = drive();
        let mut unwatched = NullWatcher;
        let mut runner = PhaseRunner::new(&mut *drive, &mut unwatched, 4.0);
        let done = run(&mut runner, Start::AsItIs, &wrong, &write);
        assert!(done.outcome.unwrap_err().to_string().contains("depth 0"));
    }
}
