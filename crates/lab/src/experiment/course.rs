//! A run under way: what every experiment does with a drive, counted and watched.

use ssdlab_drive::simulated::{MakeNew, SimulatedDrive, TrimEnd};
use ssdlab_drive::{
    Drive, DriveError, DriveKind, ErrorKind, Inside, Lane, LaneResult, Phase, PhaseResult, Region,
};
use ssdlab_units::{ByteLength, Nanoseconds};

use super::oracle::{Judgement, Oracle, Verdict};
use super::{Record, Sample, Watched, Watcher, words};
use crate::error::LabError;
use crate::report::Level;

/// A drive, whoever watches it, and what it was put through so far.
pub(crate) struct Course<'a> {
    /// The drive.
    pub(super) drive: &'a mut dyn Drive,
    pub(super) watcher: &'a mut dyn Watcher,
    /// The sum of the weights of all steps; a step's share of the run is its weight by this.
    weights: f64,
    pub(super) tally: Tally,
    oracle: Oracle,
    /// How many workloads may run side by side on copies of the drive.
    pub(super) threads: usize,
}

/// What a run has asked of its drives.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tally {
    /// Requests sent.
    pub requests: u64,
    /// Bytes read or written.
    pub bytes: ByteLength,
    /// The inside of drives that are gone when the run ends: copies, and states before a drive
    /// was made new.
    pub gone: Vec<Inside>,
    /// Virtual time of copies, which their original does not know of.
    pub time_of_copies: Nanoseconds,
    /// What the flash had been through when workloads were measured.
    pub(crate) flash: FlashSeen,
    /// How drives stood against theory, where it has something to say.
    pub(crate) judged: Vec<Judgement>,
    /// True if another drive from the factory took the place of one that was saved.
    pub(crate) forgot_what_was_saved: bool,
}

impl Tally {
    /// Notes how a drive stands against theory now; what was said of it before no longer counts.
    fn judge(&mut self, judgement: Judgement) {
        match self.judged.last_mut() {
            Some(last) if judgement.continues => *last = judgement,
            _ => self.judged.push(judgement),
        }
    }

    /// Has the latest judgement of a drive against theory follow what the experiment found of it.
    pub(super) fn decide(&mut self, verdict: Verdict) {
        if let Some(last) = self.judged.last_mut() {
            last.decide(verdict);
        }
    }

    /// Adds what another part of the run has done.
    pub(super) fn add(&mut self, other: Tally) {
        self.requests += other.requests;
        self.bytes += other.bytes;
        self.gone.extend(other.gone);
        self.time_of_copies += other.time_of_copies;
        self.flash.fresh |= other.flash.fresh;
        self.flash.in_use |= other.flash.in_use;
        self.flash.erased |= other.flash.erased;
        self.judged.extend(other.judged);
        self.forgot_what_was_saved |= other.forgot_what_was_saved;
    }
}

/// What the flash of a simulated drive had been through when workloads were measured on it. Until a
/// block of it is erased for the first time, every write finds space that nobody has to collect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FlashSeen {
    /// Some workload was measured, at first at least, before that.
    fresh: bool,
    /// Some workload was measured, at the end at least, after it.
    in_use: bool,
    /// A block was erased, whether or not anything was measured after that.
    erased: bool,
}

impl FlashSeen {
    /// Returns what has to be known of figures of a drive that began new: nothing where all of them are of
    /// a drive in use.
    pub(crate) fn caveat(self) -> Option<&'static str> {
        match self {
            FlashSeen { fresh: false, in_use: true, .. } => None,
            FlashSeen { erased: true, .. } => Some(NEW_AT_FIRST),
            FlashSeen { erased: false, .. } => Some(NEW_AND_EMPTY),
        }
    }

    /// Returns true if anything was measured.
    pub(crate) fn is_any(self) -> bool {
        self.fresh || self.in_use
    }

    /// Notes the drive's inside at the beginning or at the end of what is measured.
    fn note(&mut self, inside: Option<Inside>) {
        let Some(inside) = inside else { return };
        match inside.counters.erases {
            0 => self.fresh = true,
            _ => self.in_use = true,
        }
        self.note_erases(Some(inside));
    }

    /// Notes the drive's inside after what only prepares it.
    fn note_erases(&mut self, inside: Option<Inside>) {
        self.erased |= inside.is_some_and(|inside| inside.counters.erases > 0);
    }
}

/// Of figures that were all measured before the drive was in use.
const NEW_AND_EMPTY: &str = "the drive began new and empty: over-provisioning and collection play no part \
                             until more was written than it holds";

/// Of figures some of which were.
const NEW_AT_FIRST: &str = "the drive began new and empty: what was measured before its flash was \
                            written once had no collection to wait for";

/// How a drive came to be without data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Emptied {
    /// It was made new.
    New,
    /// It cannot be made new; the area was trimmed.
    Trimmed,
    /// It can neither be made new nor trimmed, and is as it was.
    AsItWas,
    /// It is a block device that cannot, or must not, be made new.
    Kept,
    /// It is a simulated drive that is to be taken as it is.
    KeptAsAsked,
}

impl<'a> Course<'a> {
    /// A course whose steps have weights that sum up to `weights`.
    pub(super) fn new(
        drive: &'a mut dyn Drive,
        watcher: &'a mut dyn Watcher,
        weights: f64,
    ) -> Course<'a> {
        let (tally, oracle) = (Tally::default(), Oracle::default());
        Course { drive, watcher, weights, tally, oracle, threads: 1 }
    }

    /// Lets `threads` workloads run side by side on copies of the drive.
    pub(super) fn with_threads(mut self, threads: usize) -> Course<'a> {
        self.threads = threads;
        self
    }

    /// Hands over what was counted.
    pub(super) fn end(self, record: &mut Record) {
        record.tally.add(self.tally);
    }

    /// The sum of the weights of all steps.
    pub(super) fn weights(&self) -> f64 {
        self.weights.max(f64::MIN_POSITIVE)
    }

    /// Begins a step.
    pub(super) fn begin(&mut self, name: &str, weight: f64) {
        self.watcher.step(name, weight / self.weights());
    }

    /// Measures one workload as a step of its own.
    pub(super) fn run(&mut self, phase: &Phase, weight: f64) -> Result<PhaseResult, LabError> {
        self.tally.flash.note(self.drive.inside());
        let result = self.carry_out(phase, weight);
        self.tally.flash.note(self.drive.inside());
        result
    }

    /// Runs a workload that only brings the drive into the state in which it will be measured.
    pub(super) fn make_ready(&mut self, phase: &Phase, weight: f64) -> Result<(), LabError> {
        self.carry_out(phase, weight).map(|_| ())
    }

    fn carry_out(&mut self, phase: &Phase, weight: f64) -> Result<PhaseResult, LabError> {
        self.begin(&phase.name, weight);
        let before = self.drive.inside();
        let result = self.drive.run_phase(phase, &mut Watched::by(self.watcher));
        self.tally.flash.note_erases(self.drive.inside());
        let result = result?;
        if let (Some(before), Some(after)) = (before, self.drive.inside()) {
            let counted = after.counters.since(&before.counters);
            self.watcher.sample(Sample::Programmed {
                host_units: counted.host_write_units,
                flash_units: counted.flash_write_units(),
            });
            if let Some(judgement) = self.oracle.note(phase, &before, &after) {
                self.tally.judge(judgement);
            }
        }
        self.tally.requests += result.requests;
        self.tally.bytes += result.bytes();
        Ok(result)
    }

    /// Runs workloads request by request, all at once, as one step.
    pub(super) fn run_lanes(
        &mut self,
        name: &str,
        lanes: Vec<Lane<'_>>,
        weight: f64,
    ) -> Result<Vec<LaneResult>, LabError> {
        self.tally.flash.note(self.drive.inside());
        self.begin(name, weight);
        // Theory has nothing to say of these, nor of what comes after them.
        self.oracle = Oracle::default();
        let results = self.drive.run_lanes(lanes, &mut Watched::by(self.watcher));
        self.tally.flash.note(self.drive.inside());
        let results = results?;
        for result in &results {
            self.tally.requests += result.phase.requests;
            self.tally.bytes += result.phase.bytes();
        }
        Ok(results)
    }

    /// Leaves the drive alone; no time at all means no step either.
    pub(super) fn rest(&mut self, duration: Nanoseconds, weight: f64) -> Result<(), LabError> {
        if duration > Nanoseconds::ZERO {
            self.begin(&format!("rest of {}", words::duration(duration)), weight);
            self.drive.rest(duration, &mut Watched::by(self.watcher))?;
        }
        Ok(())
    }

    /// Returns how a drive that is to be new comes to be so, if it is a simulated one: as the user has chosen.
    pub(super) fn choice_of_new(&mut self) -> Emptied {
        let Some(drive) = self.drive.simulated() else { return Emptied::New };
        let is_kept = drive.way_to_make_new() == MakeNew::Nothing;
        self.tally.forgot_what_was_saved |= drive.forgets_what_was_saved();
        if is_kept { Emptied::KeptAsAsked } else { Emptied::New }
    }

    /// Makes the drive new, or as new as it can be made: `area` is what the run has written to.
    pub(super) fn empty(&mut self, area: Region) -> Result<Emptied, LabError> {
        self.oracle = Oracle::default();
        if self.choice_of_new() == Emptied::KeptAsAsked {
            return Ok(Emptied::KeptAsAsked);
        }
        let before = self.drive.inside();
        let unless_unsupported = |outcome: Result<(), DriveError>| match outcome {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == ErrorKind::Unsupported => Ok(false),
            Err(error) => Err(error),
        };
        if unless_unsupported(self.drive.make_new())? {
            // A drive that was erased goes on with its counters; another one begins with its own.
            let begun =
                |now: &Inside, before: &Inside| now.counters.requests < before.counters.requests;
            let is_another = match (self.drive.inside(), &before) {
                (Some(now), Some(before)) => begun(&now, before),
                _ => true,
            };
            self.tally.gone.extend(before.filter(|_| is_another));
            return Ok(Emptied::New);
        }
        // What keeps a block device from being made new keeps it from being trimmed as well.
        if self.drive.description().kind == DriveKind::Device {
            return Ok(Emptied::Kept);
        }
        let ignores_trim = |drive: &mut SimulatedDrive| drive.trim_path().end == TrimEnd::Ignored;
        if self.drive.simulated().is_some_and(ignores_trim) {
            return Ok(Emptied::AsItWas);
        }
        if unless_unsupported(self.drive.trim(area).map(|_| ()))? {
            return Ok(Emptied::Trimmed);
        }
        Ok(Emptied::AsItWas)
    }
}

/// Returns what a drive has done since it was in the state `before`; its wear is that of all its life.
pub(super) fn since(now: Option<Inside>, before: Option<Inside>) -> Option<Inside> {
    let now = now?;
    let Some(before) = before else { return Some(now) };
    let counters = now.counters.since(&before.counters);
    let attribution = now.attribution.since(&before.attribution);
    Some(Inside { counters, attribution, ..now })
}

impl Emptied {
    /// Says in the report that the drive was not as new as the protocol has it.
    pub(super) fn tell(self, record: &mut Record) {
        let what = match self {
            Emptied::New => return,
            Emptied::Trimmed => "the area under test was trimmed instead",
            Emptied::AsItWas => "and its area cannot be trimmed: it was measured as it was",
            Emptied::Kept | Emptied::KeptAsAsked => {
                let why = match self {
                    Emptied::Kept => "; a caveat says why",
                    _ => ", as --purge none asks for",
                };
                let text = format!(
                    "The drive was not made new{why}. It was measured with what it held: figures \
                     called those of a new drive are those of a used one."
                );
                return record.find(Level::Warning, "not-made-new", text);
            }
        };
        record.find(
            Level::Notice,
            "not-made-new",
            format!(
                "The drive cannot be made new through what it was reached by; {what}. Figures of \
                 a new drive are those of a drive whose other contents stayed."
            ),
        );
    }
}
