//! Cuts power at every instant that makes a difference, and at random.
//!
//! What is on the flash changes only when a program or an erase begins or is over, and what must
//! be there only when a request is answered. So the instants in question are those, and one
//! between each two of them, when what goes on is under way.
//!
//! Recovery programs and erases, too, and power can be cut again while it does. Nothing was asked
//! of the drive since the first cut, so each unit has to hold what it held after that: the host
//! may have read it as soon as the drive was ready. Where two cuts of a history leave the same on
//! the flash, recovery does the same, and is cut again after one of them only.

use std::fmt;

use super::history::{Step, When};
use super::rules::Violation;
use super::tested::Tested;
use crate::counters::Counters;
use crate::media::recording::Recording;
use crate::recovery::{Recovery, RecoveryError};
use crate::units::Nanoseconds;

/// Cuts within one recovery. Of one that makes more instants they are a choice, evenly spread, and
/// another for each cut of the history.
const IN_RECOVERY_MOST: u64 = 16;

/// What was wrong after a cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// A unit holds what it may not.
    Rule(Violation),
    /// The drive cannot be opened.
    Recovery(RecoveryError),
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Finding::Rule(violation) => violation.fmt(f),
            Finding::Recovery(error) => write!(f, "the drive cannot be opened: {error}"),
        }
    }
}

/// A cut after which something is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The instant of the cut, counted from the start of the history.
    pub at: Nanoseconds,
    /// Steps that were sent by then.
    pub steps: u32,
    /// When power was cut again, while the drive was recovering from that cut and fine so far,
    /// counted from when power was back; nothing when it was cut once.
    pub again_after: Option<Nanoseconds>,
    /// Whether the drive was fine after all these cuts, and something was wrong after it had been
    /// written to, flushed and cut once more.
    pub went_on: bool,
    /// What was wrong.
    pub finding: Finding,
}

/// What [`Tested::explore`] went through.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Explored {
    /// Cuts of the history; after each the drive was used and cut once more.
    pub cuts: u64,
    /// Further cuts while it recovered from one of those; after each it was used and cut once
    /// more, too.
    pub cuts_in_recovery: u64,
    /// Most programs that a recovery has made by itself before the host asked for anything.
    pub own_programs_most: u64,
    /// Most erases of collection units, the same way.
    pub own_erases_most: u64,
    /// The quickest recovery after one of them.
    pub recovery_least: Nanoseconds,
    /// The slowest.
    pub recovery_most: Nanoseconds,
    /// All of them together.
    pub recovery_all: Nanoseconds,
    /// Most program units whose spare area a recovery has read.
    pub program_units_read_most: u64,
    /// Most pages of a saved map and of its journal.
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

    /// The same with what another history has met.
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
    /// Goes through `history` and cuts power wherever that can make a difference. After each cut
    /// the drive is written to, flushed, and cut again; and it is cut again wherever that can make
    /// a difference to its recovery, and then written to, flushed, and cut once more.
    ///
    /// # Errors
    /// The first cut after which something is wrong.
    ///
    /// # Panics
    /// When the drive is not sound in itself.
    pub fn explore(&self, history: &[Step]) -> Result<Explored, Box<Failure>> {
        self.explore_cuts(history, Further::ALL)
    }

    /// The same without cuts during recovery, which takes a tenth of the time.
    ///
    /// # Errors
    /// The first cut after which something is wrong.
    ///
    /// # Panics
    /// When the drive is not sound in itself.
    pub fn explore_briefly(&self, history: &[Step]) -> Result<Explored, Box<Failure>> {
        self.explore_cuts(history, Further { in_recovery: false, goes_on: true })
    }

    fn explore_cuts(&self, history: &[Step], further: Further) -> Result<Explored, Box<Failure>> {
        let mut tested = self.clone();
        let mut explored = Explored::default();
        let mut before: Option<Recording> = None;
        for sent in 0..=history.len() {
            let (next, until) = tested.before(history.get(sent));
            let from = tested.sent();
            let instants = if until > from { next.instants(from, until) } else { Vec::new() };
            for at in instants {
                let failure = |(again_after, went_on, finding)| {
                    let (at, steps) = (at.since(self.sent()), sent as u32);
                    Box::new(Failure { at, steps, again_after, went_on, finding })
                };
                let mut then = tested.clone();
                let recovery = then.cut(at).map_err(|finding| failure((None, false, finding)))?;
                explored.note(&recovery, &then.counters());
                if further.goes_on {
                    let went_on = then.clone().go_on();
                    went_on.map_err(|finding| failure((None, true, finding)))?;
                }
                if further.in_recovery {
                    let left = tested.left_by_cut(at);
                    if before.as_ref().is_none_or(|before| !before.holds_the_same(&left)) {
                        let (choice, goes_on) = (explored.cuts, further.goes_on);
                        let cuts = then.cut_in_recovery(choice, goes_on).map_err(failure)?;
                        explored.cuts_in_recovery += cuts;
                    }
                    before = Some(left);
                }
            }
            if let Some(&step) = history.get(sent) {
                tested.step(step);
            }
        }
        Ok(explored)
    }

    /// Cuts power where that can make a difference to the recovery from the latest cut, if in many
    /// places in this `choice` of them; uses the drive after each, and cuts it once more, if it
    /// `goes_on`. Returns how many cuts it were.
    fn cut_in_recovery(
        &self,
        choice: u64,
        goes_on: bool,
    ) -> Result<u64, (Option<Nanoseconds>, bool, Finding)> {
        let instants = self.instants_of_recovery();
        let every = (instants.len() as u64).div_ceil(IN_RECOVERY_MOST).max(1);
        let mut before: Option<Recording> = None;
        let mut cuts = 0;
        for &at in instants.iter().skip((choice % every) as usize).step_by(every as usize) {
            cuts += 1;
            let left = self.left_by_cut(at);
            if before.is_some_and(|before| before.holds_the_same(&left)) {
                before = Some(left);
                continue;
            }
            before = Some(left);
            let after = Some(at.since(self.powered()));
            let mut then = self.clone();
            then.cut(at).map_err(|finding| (after, false, finding))?;
            if goes_on {
                then.go_on().map_err(|finding| (after, true, finding))?;
            }
        }
        Ok(cuts)
    }
}

/// What is tried after each cut of a history.
#[derive(Clone, Copy, Debug)]
struct Further {
    /// Cuts while the drive recovers.
    in_recovery: bool,
    /// Using the drive, and cutting it once more.
    goes_on: bool,
}

impl Further {
    const ALL: Further = Further { in_recovery: true, goes_on: true };

    /// The least first: what one cut shows is easier to understand than what takes two.
    const LEAST_FIRST: [Further; 4] = [
        Further { in_recovery: false, goes_on: false },
        Further { in_recovery: false, goes_on: true },
        Further { in_recovery: true, goes_on: false },
        Further::ALL,
    ];
}

/// The shortest history that can be found by leaving out steps of `history`, which fails, and by having
/// those that are left wait for the answers before them, and where it fails.
///
/// # Panics
/// When `history` does not fail.
pub fn shortest_failure(tested: &Tested, history: &[Step]) -> (Vec<Step>, Failure) {
    let fails = |further: &Further| tested.explore_cuts(history, *further).is_err();
    let further = Further::LEAST_FIRST.into_iter().find(fails).expect("the history fails");
    let explore = |history: &[Step]| tested.explore_cuts(history, further);
    let failure = explore(history).expect_err("the history fails");
    let mut failing = Failing { history: history.to_vec(), failure };
    failing.history.truncate(failing.failure.steps as usize);
    failing.leave_out(explore);
    // What was sent in the midst of others may need one more to be so.
    if failing.wait_for_answers(explore) {
        failing.leave_out(explore);
    }
    (failing.history, *failing.failure)
}

/// A history and where it fails.
struct Failing {
    history: Vec<Step>,
    failure: Box<Failure>,
}

impl Failing {
    /// Takes the place of this history if that fails as well; whether it does.
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

    /// Leaves out all steps that it fails without, many at a time first.
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

    /// Has all steps wait for the answers before them that need not be sent earlier for it to fail;
    /// whether there are any.
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
