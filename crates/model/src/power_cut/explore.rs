//! Explores all power cuts of a history: one between any two events of the drive.
//!
//! A drive changes only at an event: a program or an erase begins or ends, data arrives, a request is answered. So
//! there is one cut to try between any two of these. If a cut leaves the same state on the flash as the one before,
//! the drive opens in the same way, and only the answers that the host got may differ.
//!
//! Recovery programs and erases, too, and power can be cut again during recovery. The host has requested nothing
//! since the first cut, so each unit has to hold the data that it held after that cut: the host may have read it as
//! soon as the drive was ready.

use std::fmt;

use super::drive::CutState;
use super::history::{Step, When};
use super::recording::{Misuse, Version};
use super::rules::Violation;
use super::tested::Tested;
use crate::counters::Counters;
use crate::recovery::{Recovery, RecoveryError};
use crate::units::Nanoseconds;

/// Largest number of cuts within one recovery. If more are possible, an evenly spread choice of them is tried, a
/// different one for each cut of the history.
const IN_RECOVERY_MOST: u64 = 16;

/// Error found after a cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// A unit holds data that the rules do not allow.
    Rule(Violation),
    /// The drive cannot be opened.
    Recovery(RecoveryError),
    /// The drive has programmed flash that cannot be programmed.
    Flash(Misuse),
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Finding::Rule(violation) => violation.fmt(f),
            Finding::Recovery(error) => write!(f, "the drive cannot be opened: {error}"),
            Finding::Flash(misuse) => misuse.fmt(f),
        }
    }
}

/// A cut after which an error was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Moment of the cut, counted from the start of the history.
    pub at: Nanoseconds,
    /// Number of steps sent by then.
    pub steps: u32,
    /// Moment of a second cut, during an error-free recovery from the first, counted from the return of power; `None`
    /// if power was cut once.
    pub again_after: Option<Nanoseconds>,
    /// True if there was no error after all these cuts, and one after the drive had been written to, flushed and cut
    /// once more.
    pub went_on: bool,
    /// Error that was found.
    pub finding: Finding,
}

/// Result of [`Tested::explore`] without an error.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Explored {
    /// Number of cuts of the history; after each the drive was used and cut once more.
    pub cuts: u64,
    /// Number of cuts during recovery from these cuts; after each the drive was used and cut once more, too.
    pub cuts_in_recovery: u64,
    /// Largest number of programs of a recovery, before the first request of the host.
    pub own_programs_most: u64,
    /// Largest number of erases of collection units of a recovery, before the first request of the host.
    pub own_erases_most: u64,
    /// Shortest time of a recovery.
    pub recovery_least: Nanoseconds,
    /// Longest time of a recovery.
    pub recovery_most: Nanoseconds,
    /// Total time of all recoveries.
    pub recovery_all: Nanoseconds,
    /// Largest number of program units whose spare area a recovery has read.
    pub program_units_read_most: u64,
    /// Largest number of pages of a saved map and its journal that a recovery has read.
    pub map_pages_read_most: u64,
}

impl Explored {
    fn note(&mut self, recovery: &Recovery, counters: &Counters) {
        let least = if self.cuts == 0 { recovery.took } else { self.recovery_least };
        *self = Explored {
            cuts: self.cuts + 1,
            cuts_in_recovery: self.cuts_in_recovery,
            own_programs_most: self.own_programs_most.max(counters.programs),
            own_erases_most: self.own_erases_most.max(counters.erases),
            recovery_least: least.min(recovery.took),
            recovery_most: self.recovery_most.max(recovery.took),
            recovery_all: self.recovery_all + recovery.took,
            program_units_read_most: self.program_units_read_most.max(recovery.program_units_read),
            map_pages_read_most: self.map_pages_read_most.max(recovery.map_pages_read),
        };
    }

    /// Returns these results combined with those of another history.
    pub fn and(self, other: Explored) -> Explored {
        if self.cuts == 0 || other.cuts == 0 {
            return if self.cuts == 0 { other } else { self };
        }
        Explored {
            cuts: self.cuts + other.cuts,
            cuts_in_recovery: self.cuts_in_recovery + other.cuts_in_recovery,
            own_programs_most: self.own_programs_most.max(other.own_programs_most),
            own_erases_most: self.own_erases_most.max(other.own_erases_most),
            recovery_least: self.recovery_least.min(other.recovery_least),
            recovery_most: self.recovery_most.max(other.recovery_most),
            recovery_all: self.recovery_all + other.recovery_all,
            program_units_read_most: self
                .program_units_read_most
                .max(other.program_units_read_most),
            map_pages_read_most: self.map_pages_read_most.max(other.map_pages_read_most),
        }
    }
}

impl Tested {
    /// Carries out `history` and cuts power between any two events. After each cut the drive is written to, flushed,
    /// and cut again; and it is cut again between any two events of its recovery, and then written to, flushed, and
    /// cut once more.
    ///
    /// # Errors
    /// Returns the first cut after which an error is found.
    ///
    /// # Panics
    /// Panics if the invariants of the drive do not hold.
    pub fn explore(&self, history: &[Step]) -> Result<Explored, Box<Failure>> {
        self.explore_cuts(history, ExploreDepth::ALL)
    }

    /// Explores like [`Tested::explore`] without cuts during recovery, which takes a tenth of the time.
    ///
    /// # Errors
    /// Returns the first cut after which an error is found.
    ///
    /// # Panics
    /// Panics if the invariants of the drive do not hold.
    pub fn explore_briefly(&self, history: &[Step]) -> Result<Explored, Box<Failure>> {
        self.explore_cuts(history, ExploreDepth { in_recovery: false, goes_on: true })
    }

    fn explore_cuts(
        &self,
        history: &[Step],
        further: ExploreDepth,
    ) -> Result<Explored, Box<Failure>> {
        let mut tested = self.clone();
        let mut exploring = Exploration { further, explored: Explored::default(), latest: None };
        for sent in 0..=history.len() {
            loop {
                exploring.cut(&tested).map_err(
                    |CutFailure { again_after, went_on, finding }| {
                        let (at, steps) = (tested.cut_at().since(self.sent()), sent as u32);
                        Box::new(Failure { at, steps, again_after, went_on, finding })
                    },
                )?;
                if !tested.step_before(history.get(sent)) {
                    break;
                }
            }
            if let Some(&step) = history.get(sent) {
                tested.send(step);
            }
        }
        Ok(exploring.explored)
    }

    /// Cuts power while the drive recovers from the latest cut. If there are many places for a cut, `choice` selects
    /// some of them. If `goes_on` is true, the drive is used after each cut and cut once more. Returns the number of
    /// cuts.
    fn cut_in_recovery(&self, choice: u64, goes_on: bool) -> Result<u64, CutFailure> {
        let mut recovering = self.recovering();
        let mut places = vec![(0, recovering.state_after_cut())];
        let mut events = 0;
        while recovering.step() {
            events += 1;
            let left = recovering.state_after_cut();
            if places.last().is_some_and(|(_, before)| *before != left) {
                places.push((events, left));
            }
        }
        let every = (places.len() as u64).div_ceil(IN_RECOVERY_MOST).max(1);
        let (mut recovering, mut happened, mut cuts) = (self.recovering(), 0, 0);
        for (events, _) in places.iter().skip((choice % every) as usize).step_by(every as usize) {
            while happened < *events {
                recovering.step();
                happened += 1;
            }
            cuts += 1;
            let mut then = recovering.clone().into_tested();
            let again_after = Some(then.cut_at().since(self.powered()));
            let wrong = |went_on, finding| CutFailure { again_after, went_on, finding };
            then.cut().map_err(|finding| wrong(false, finding))?;
            if goes_on {
                then.write_and_cut().map_err(|finding| wrong(true, finding))?;
            }
        }
        Ok(cuts)
    }
}

/// An error found after a cut.
struct CutFailure {
    again_after: Option<Nanoseconds>,
    went_on: bool,
    finding: Finding,
}

/// State of the drive after a cut, for other cuts that leave the same flash.
struct OpenedDrive {
    left: CutState,
    found: Vec<Option<Version>>,
    recovery: Recovery,
    counters: Counters,
}

/// A history in progress.
struct Exploration {
    further: ExploreDepth,
    explored: Explored,
    latest: Option<OpenedDrive>,
}

impl Exploration {
    /// Cuts the power of a copy of `tested` now.
    fn cut(&mut self, tested: &Tested) -> Result<(), CutFailure> {
        let wrong = |went_on, finding| CutFailure { again_after: None, went_on, finding };
        let left = tested.state_after_cut();
        if let Some(latest) = self.latest.as_ref().filter(|latest| latest.left == left) {
            tested.check(&latest.found).map_err(|finding| wrong(false, finding))?;
            self.explored.note(&latest.recovery, &latest.counters);
            return Ok(());
        }
        let mut then = tested.clone();
        let recovery = then.cut().map_err(|finding| wrong(false, finding))?;
        let (found, counters) = (then.versions(), then.drive().counters());
        self.explored.note(&recovery, &counters);
        self.latest = Some(OpenedDrive { left, found, recovery, counters });
        if self.further.goes_on {
            then.clone().write_and_cut().map_err(|finding| wrong(true, finding))?;
        }
        if self.further.in_recovery {
            let (choice, goes_on) = (self.explored.cuts, self.further.goes_on);
            self.explored.cuts_in_recovery += then.cut_in_recovery(choice, goes_on)?;
        }
        Ok(())
    }
}

/// Tests after each cut of a history.
#[derive(Clone, Copy, Debug)]
struct ExploreDepth {
    /// Cuts during recovery.
    in_recovery: bool,
    /// Use of the drive, and another cut after it.
    goes_on: bool,
}

impl ExploreDepth {
    const ALL: ExploreDepth = ExploreDepth { in_recovery: true, goes_on: true };

    /// All combinations, the smallest first: an error after one cut is easier to understand than one after two.
    const LEAST_FIRST: [ExploreDepth; 4] = [
        ExploreDepth { in_recovery: false, goes_on: false },
        ExploreDepth { in_recovery: false, goes_on: true },
        ExploreDepth { in_recovery: true, goes_on: false },
        ExploreDepth::ALL,
    ];
}

/// Returns the shortest failing history that is found, and its failure, by leaving out steps of `history` and by
/// letting the remaining steps wait for the answers before them.
///
/// # Panics
/// Panics if `history` does not fail.
pub fn shortest_failure(tested: &Tested, history: &[Step]) -> (Vec<Step>, Failure) {
    let fails = |further: &ExploreDepth| tested.explore_cuts(history, *further).is_err();
    let further = ExploreDepth::LEAST_FIRST.into_iter().find(fails).expect("the history fails");
    let explore = |history: &[Step]| tested.explore_cuts(history, further);
    let failure = explore(history).expect_err("the history fails");
    let mut failing = Failing { history: history.to_vec(), failure };
    failing.history.truncate(failing.failure.steps as usize);
    failing.leave_out(explore);
    // A step that was sent amid others may have needed one of these only for that.
    if failing.wait_for_answers(explore) {
        failing.leave_out(explore);
    }
    (failing.history, *failing.failure)
}

/// A failing history, and its failure.
struct Failing {
    history: Vec<Step>,
    failure: Box<Failure>,
}

impl Failing {
    /// Replaces this history by `history` if that fails, too. Returns true if it does.
    fn try_instead(
        &mut self,
        mut history: Vec<Step>,
        explore: impl Fn(&[Step]) -> Result<Explored, Box<Failure>>,
    ) -> bool {
        let Err(failure) = explore(&history) else { return false };
        history.truncate(failure.steps as usize);
        *self = Failing { history, failure };
        true
    }

    /// Removes all steps without which the history still fails, many at a time first.
    fn leave_out(&mut self, explore: impl Fn(&[Step]) -> Result<Explored, Box<Failure>> + Copy) {
        let mut left_out = self.history.len().div_ceil(2);
        while left_out > 0 {
            let mut at = 0;
            while at < self.history.len() {
                let mut shorter = self.history.clone();
                shorter.drain(at..(at + left_out).min(shorter.len()));
                if !self.try_instead(shorter, explore) {
                    at += left_out;
                }
            }
            left_out /= 2;
        }
    }

    /// Makes all steps wait for the answers before them, except those that must be sent earlier for the failure.
    /// Returns true if any step changed.
    fn wait_for_answers(
        &mut self,
        explore: impl Fn(&[Step]) -> Result<Explored, Box<Failure>> + Copy,
    ) -> bool {
        let mut any = false;
        let mut at = 0;
        while at < self.history.len() {
            if self.history[at].when != When::Answered {
                let mut later = self.history.clone();
                later[at].when = When::Answered;
                any |= self.try_instead(later, explore);
            }
            at += 1;
        }
        any
    }
}
