//! Phase runner: executes the steps of an experiment on a drive, reports progress and counts requests.

use ssdlab_drive::simulated::{PurgeMethod, SimulatedDrive, TrimEnd};
use ssdlab_drive::{
    Drive, DriveError, DriveKind, ErrorKind, Inside, Lane, LaneResult, Phase, PhaseResult, Region,
};
use ssdlab_units::{ByteLength, Nanoseconds};

use super::theory_comparison::{SteadyVerdict, TheoryComparison, WriteHistory};
use super::{PhaseObserver, Record, Sample, Watcher, text_format};
use crate::error::LabError;
use crate::report::Level;

/// The runner of an experiment's phases: the drive, the watcher and the counts so far.
pub(crate) struct PhaseRunner<'a> {
    /// The drive.
    pub(super) drive: &'a mut dyn Drive,
    pub(super) watcher: &'a mut dyn Watcher,
    /// Sum of the weights of all steps. A step's share of the run is its weight divided by this sum.
    weights: f64,
    pub(super) tally: Tally,
    history: WriteHistory,
    /// Maximum number of workloads that run in parallel on copies of the drive.
    pub(super) threads: usize,
}

/// Requests and state changes of the drives of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tally {
    /// Requests sent.
    pub requests: u64,
    /// Bytes read or written.
    pub bytes: ByteLength,
    /// Counters of drives that no longer exist at the end of the run: copies, and drives before a purge that
    /// replaced them.
    pub finished_drives: Vec<Inside>,
    /// Virtual time of copies, which is not part of the time of the original drive.
    pub time_on_copies: Nanoseconds,
    /// Erase state of the flash during the measured workloads.
    pub(crate) flash: EraseHistory,
    /// Comparisons of write amplification with theory.
    pub(crate) theory_comparisons: Vec<TheoryComparison>,
    /// True if a purge replaced a saved drive by a new one.
    pub(crate) replaced_saved_drive: bool,
}

impl Tally {
    /// Adds a comparison with theory, or replaces the last one by a continuation of it.
    fn add_comparison(&mut self, comparison: TheoryComparison) {
        match self.theory_comparisons.last_mut() {
            Some(last) if comparison.continues => *last = comparison,
            _ => self.theory_comparisons.push(comparison),
        }
    }

    /// Applies the experiment's own verdict to the latest comparison with theory.
    pub(super) fn apply_verdict(&mut self, verdict: SteadyVerdict) {
        if let Some(last) = self.theory_comparisons.last_mut() {
            last.apply_verdict(verdict);
        }
    }

    /// Adds the counts of another part of the run.
    pub(super) fn add(&mut self, other: Tally) {
        self.requests += other.requests;
        self.bytes += other.bytes;
        self.finished_drives.extend(other.finished_drives);
        self.time_on_copies += other.time_on_copies;
        self.flash.fresh |= other.flash.fresh;
        self.flash.in_use |= other.flash.in_use;
        self.flash.erased |= other.flash.erased;
        self.theory_comparisons.extend(other.theory_comparisons);
        self.replaced_saved_drive |= other.replaced_saved_drive;
    }
}

/// Erase state of a simulated drive's flash during the measured workloads. Until the first erase, writes find
/// free blocks without GC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct EraseHistory {
    /// True if a workload was measured that began before the first erase.
    fresh: bool,
    /// True if a workload was measured that ended after the first erase.
    in_use: bool,
    /// True if a block was erased, even if nothing was measured after that.
    erased: bool,
}

impl EraseHistory {
    /// Returns the caveat about figures of a drive that began new; `None` if all were measured after the
    /// first erase.
    pub(crate) fn caveat(self) -> Option<&'static str> {
        match self {
            EraseHistory { fresh: false, in_use: true, .. } => None,
            EraseHistory { erased: true, .. } => Some(PARTLY_NEW_CAVEAT),
            EraseHistory { erased: false, .. } => Some(NEW_DRIVE_CAVEAT),
        }
    }

    /// Returns true if a workload was measured.
    pub(crate) fn is_any(self) -> bool {
        self.fresh || self.in_use
    }

    /// Records the erase state at the beginning or at the end of a measured workload.
    fn note(&mut self, inside: Option<&Inside>) {
        let Some(inside) = inside else { return };
        match inside.counters.erases {
            0 => self.fresh = true,
            _ => self.in_use = true,
        }
        self.note_erases(Some(inside));
    }

    /// Records erases after a workload that is not measured.
    fn note_erases(&mut self, inside: Option<&Inside>) {
        self.erased |= inside.is_some_and(|inside| inside.counters.erases > 0);
    }
}

/// Caveat if all figures were measured before the first erase.
const NEW_DRIVE_CAVEAT: &str = "the drive began new and empty: over-provisioning and garbage \
                             collection have no effect until more than its capacity is written";

/// Caveat if some figures were measured before the first erase.
const PARTLY_NEW_CAVEAT: &str = "the drive began new and empty: measurements before its flash was \
                            written once are without garbage collection";

/// Outcome of the purge before a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PurgeOutcome {
    /// The drive was purged, or is a new one.
    New,
    /// The drive cannot be purged; the area was trimmed.
    Trimmed,
    /// The drive can neither be purged nor trimmed, and keeps its data.
    Unsupported,
    /// The drive is a block device that cannot, or must not, be purged.
    Kept,
    /// The drive is a simulated one that keeps its data, as the user asked (`--purge none`).
    KeptByUser,
}

impl<'a> PhaseRunner<'a> {
    /// Returns a runner for steps whose weights add up to `weights`.
    pub(super) fn new(
        drive: &'a mut dyn Drive,
        watcher: &'a mut dyn Watcher,
        weights: f64,
    ) -> PhaseRunner<'a> {
        let (tally, history) = (Tally::default(), WriteHistory::default());
        PhaseRunner { drive, watcher, weights, tally, history, threads: 1 }
    }

    /// Sets the number of workloads that may run in parallel on copies of the drive.
    pub(super) fn with_threads(mut self, threads: usize) -> PhaseRunner<'a> {
        self.threads = threads;
        self
    }

    /// Adds the counts to `record`.
    pub(super) fn finish(self, record: &mut Record) {
        record.tally.add(self.tally);
    }

    /// Returns the sum of the weights of all steps.
    pub(super) fn weights(&self) -> f64 {
        self.weights.max(f64::MIN_POSITIVE)
    }

    /// Begins a step.
    pub(super) fn begin_step(&mut self, name: &str, weight: f64) {
        self.watcher.step(name, weight / self.weights());
    }

    /// Measures one workload as a step of its own.
    pub(super) fn run(&mut self, phase: &Phase, weight: f64) -> Result<PhaseResult, LabError> {
        self.run_phase(phase, weight, true)
    }

    /// Runs a workload that only preconditions the drive and does not count as measured.
    pub(super) fn precondition(
        &mut self,
        phase: &Phase,
        weight: f64,
    ) -> Result<PhaseResult, LabError> {
        self.run_phase(phase, weight, false)
    }

    fn run_phase(
        &mut self,
        phase: &Phase,
        weight: f64,
        is_measured: bool,
    ) -> Result<PhaseResult, LabError> {
        self.begin_step(&phase.name, weight);
        let before = self.drive.inside();
        let result = self.drive.run_phase(phase, &mut PhaseObserver::new(self.watcher));
        let after = self.drive.inside();
        if is_measured {
            self.tally.flash.note(before.as_ref());
            self.tally.flash.note(after.as_ref());
        }
        self.tally.flash.note_erases(after.as_ref());
        let result = result?;
        if let (Some(before), Some(after)) = (before, after) {
            let counted = after.counters.since(&before.counters);
            self.watcher.sample(Sample::Programmed {
                host_units: counted.host_write_units,
                flash_units: counted.flash_write_units(),
            });
            if let Some(comparison) = self.history.add_phase(phase, &before, &after) {
                self.tally.add_comparison(comparison);
            }
        }
        self.tally.requests += result.requests;
        self.tally.bytes += result.bytes();
        Ok(result)
    }

    /// Runs several workloads concurrently, request by request, as one step.
    pub(super) fn run_lanes(
        &mut self,
        name: &str,
        lanes: Vec<Lane<'_>>,
        weight: f64,
    ) -> Result<Vec<LaneResult>, LabError> {
        self.tally.flash.note(self.drive.inside().as_ref());
        self.begin_step(name, weight);
        // Theory does not cover these workloads, nor phases after them.
        self.history = WriteHistory::default();
        let results = self.drive.run_lanes(lanes, &mut PhaseObserver::new(self.watcher));
        self.tally.flash.note(self.drive.inside().as_ref());
        let results = results?;
        for result in &results {
            self.tally.requests += result.phase.requests;
            self.tally.bytes += result.phase.bytes();
        }
        Ok(results)
    }

    /// Lets the drive idle. If `duration` is zero, there is no step.
    pub(super) fn rest(&mut self, duration: Nanoseconds, weight: f64) -> Result<(), LabError> {
        if duration > Nanoseconds::ZERO {
            self.begin_step(&format!("rest of {}", text_format::duration(duration)), weight);
            self.drive.rest(duration, &mut PhaseObserver::new(self.watcher))?;
        }
        Ok(())
    }

    /// Returns `PurgeOutcome::KeptByUser` for a simulated drive that the user wants kept, otherwise
    /// `PurgeOutcome::New`. Also notes if the purge replaces a saved drive.
    pub(super) fn purge_choice(&mut self) -> PurgeOutcome {
        let Some(drive) = self.drive.simulated() else { return PurgeOutcome::New };
        let is_kept = drive.purge_method() == PurgeMethod::Nothing;
        self.tally.replaced_saved_drive |= drive.purge_discards_saved_state();
        if is_kept { PurgeOutcome::KeptByUser } else { PurgeOutcome::New }
    }

    /// Purges the drive. If that is not supported, trims `area`, which the run has written to.
    pub(super) fn purge(&mut self, area: Region) -> Result<PurgeOutcome, LabError> {
        self.history = WriteHistory::default();
        if self.purge_choice() == PurgeOutcome::KeptByUser {
            return Ok(PurgeOutcome::KeptByUser);
        }
        let before = self.drive.inside();
        let unless_unsupported = |outcome: Result<(), DriveError>| match outcome {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == ErrorKind::Unsupported => Ok(false),
            Err(error) => Err(error),
        };
        if unless_unsupported(self.drive.purge())? {
            // A drive that was erased keeps its counters; one that was replaced begins at zero.
            let is_counter_reset =
                |now: &Inside, before: &Inside| now.counters.requests < before.counters.requests;
            let is_new_drive = match (self.drive.inside(), &before) {
                (Some(now), Some(before)) => is_counter_reset(&now, before),
                _ => true,
            };
            self.tally.finished_drives.extend(before.filter(|_| is_new_drive));
            return Ok(PurgeOutcome::New);
        }
        // A block device that cannot be purged must not be trimmed either.
        if self.drive.description().kind == DriveKind::Device {
            return Ok(PurgeOutcome::Kept);
        }
        let ignores_trim = |drive: &mut SimulatedDrive| drive.trim_path().end == TrimEnd::Ignored;
        if self.drive.simulated().is_some_and(ignores_trim) {
            return Ok(PurgeOutcome::Unsupported);
        }
        if unless_unsupported(self.drive.trim(area).map(|_| ()))? {
            return Ok(PurgeOutcome::Trimmed);
        }
        Ok(PurgeOutcome::Unsupported)
    }
}

/// Returns the counters since the state `before`; wear is that of the drive's whole life.
pub(super) fn since(now: Option<Inside>, before: Option<Inside>) -> Option<Inside> {
    let now = now?;
    let Some(before) = before else { return Some(now) };
    let counters = now.counters.since(&before.counters);
    let attribution = now.attribution.since(&before.attribution);
    Some(Inside { counters, attribution, ..now })
}

impl PurgeOutcome {
    /// Adds a finding if the drive was not purged as the protocol asks for.
    pub(super) fn add_finding(self, record: &mut Record) {
        let what = match self {
            PurgeOutcome::New => return,
            PurgeOutcome::Trimmed => "the area under test was trimmed instead",
            PurgeOutcome::Unsupported => {
                "its area cannot be trimmed either and was measured as it was"
            }
            PurgeOutcome::Kept | PurgeOutcome::KeptByUser => {
                let why = match self {
                    PurgeOutcome::Kept => "; a caveat says why",
                    _ => ", as --purge none asks for",
                };
                let text = format!(
                    "The drive was not purged{why}. It was measured with the data it held: figures \
                     labelled as those of a new drive are those of a used one."
                );
                return record.add_finding(Level::Warning, "not-made-new", text);
            }
        };
        record.add_finding(
            Level::Notice,
            "not-made-new",
            format!(
                "The drive cannot be purged through this target; {what}. Figures of a new drive \
                 are those of a drive whose other contents stayed."
            ),
        );
    }
}
