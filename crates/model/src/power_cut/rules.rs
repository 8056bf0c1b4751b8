//! Rules for the data that a unit may hold after a power cut.

use std::fmt;

use super::history::Sent;
use super::recording::Version;
use crate::ssd::Configuration;
use crate::units::{Instant, LogicalUnit};

/// Durability that a drive promises with its answers, without flush and FUA.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Contract {
    /// True if every answered write is durable.
    pub writes: bool,
    /// True if every answered trim is durable.
    pub trims: bool,
}

impl Contract {
    /// Returns the promises of a configuration. A drive that ignores flushes is held to the same promises as one that
    /// carries them out.
    pub fn of(configuration: &Configuration) -> Contract {
        let protected = configuration.buffer.protected;
        let flush = configuration.mechanisms.flush;
        let through = flush.write_cache == crate::flush::WriteCache::WriteThrough;
        Contract { writes: protected || through, trims: protected }
    }
}

/// State of a unit after one write or trim.
#[derive(Clone, Copy, Debug)]
struct State {
    /// Version that was written; `None` after a trim.
    version: Option<Version>,
    /// Write or trim that made this state; `None` if the unit had it before.
    by: Option<Sent>,
    /// Moment from which the state is durable without a flush.
    durable_at: Option<Instant>,
}

/// A unit that holds data that the rules do not allow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The unit.
    pub unit: LogicalUnit,
    /// Description of the data in the unit.
    pub found: String,
    /// Request whose effect, or that of a later one, had to be there; `None` if the state before the first request
    /// was durable.
    pub durable: Option<Sent>,
    /// Flush that made this request durable; `None` if it was durable when answered.
    pub by_flush: Option<Sent>,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unit {} holds {}", self.unit.0, self.found)?;
        match (self.durable, self.by_flush) {
            (Some(durable), Some(flush)) => write!(
                f,
                "; step {} changed it before the flush of step {} was sent, and that flush was \
                 answered",
                durable.step, flush.step
            ),
            (Some(durable), None) => {
                write!(f, "; step {} changed it, and was answered as durable", durable.step)
            }
            (None, _) => f.write_str("; its data from before step 1 was durable"),
        }
    }
}

/// All requests of a host since its data was last known to be durable.
#[derive(Clone, Debug)]
pub struct Ledger {
    contract: Contract,
    /// States of each unit, in the order sent; the first is durable.
    units: Vec<Vec<State>>,
    flushes: Vec<Sent>,
    versions: Version,
}

impl Ledger {
    /// Returns the ledger of a new drive of `units` units.
    pub fn new(contract: Contract, units: u32) -> Ledger {
        let nothing = State { version: None, by: None, durable_at: None };
        let units = vec![vec![nothing]; units as usize];
        Ledger { contract, units, flushes: Vec::new(), versions: 0 }
    }

    /// Notes a write, or one with FUA. Of two writes in flight together, the one noted last is in force.
    pub fn write(&mut self, sent: Sent, first: LogicalUnit, units: u32, fua: bool) {
        let durable_at = (fua || self.contract.writes).then_some(sent.answered);
        for unit in first.0..first.0 + units {
            self.versions += 1;
            let version = Some(self.versions);
            self.units[unit as usize].push(State { version, by: Some(sent), durable_at });
        }
    }

    /// Sets the moment of the answer to the write or trim of step `step`, of `units` units from `first`, which was
    /// not known when the request was noted.
    pub(crate) fn answer(&mut self, step: u32, answered: Instant, first: LogicalUnit, units: u32) {
        let all = first.0 as usize..(first.0 + units) as usize;
        for state in self.units[all].iter_mut().flatten() {
            if let Some(by) = state.by.as_mut().filter(|by| by.step == step) {
                by.answered = answered;
                state.durable_at = state.durable_at.map(|_| answered);
            }
        }
    }

    /// Notes a trim.
    pub fn trim(&mut self, sent: Sent, first: LogicalUnit, units: u32) {
        let durable_at = self.contract.trims.then_some(sent.answered);
        for unit in first.0..first.0 + units {
            self.units[unit as usize].push(State { version: None, by: Some(sent), durable_at });
        }
    }

    /// Notes a flush.
    pub fn flush(&mut self, sent: Sent) {
        self.flushes.push(sent);
    }

    /// Returns the version that `unit` holds as long as power is not cut.
    pub fn current(&self, unit: LogicalUnit) -> Option<Version> {
        self.units[unit.0 as usize].last().expect("a unit has a state").version
    }

    /// Returns the flush that has made `state` durable by `cut`, if there is one.
    fn flush_after(&self, state: &State, cut: Instant) -> Option<Sent> {
        let by = state.by?;
        self.flushes
            .iter()
            .find(|flush| flush.step > by.step && by.answered <= flush.at && flush.answered <= cut)
            .copied()
    }

    /// Checks the data that was found after power was cut at `cut`.
    ///
    /// # Errors
    /// Returns the first unit that holds data that the rules do not allow.
    pub fn check(
        &self,
        cut: Instant,
        found: impl Fn(LogicalUnit) -> Option<Version>,
    ) -> Result<(), Violation> {
        for (index, states) in self.units.iter().enumerate() {
            let unit = LogicalUnit(index as u32);
            let found = found(unit);
            let durable = |state: &State| {
                state.durable_at.is_some_and(|at| at <= cut)
                    || self.flush_after(state, cut).is_some()
            };
            let floor = states.iter().rposition(durable).unwrap_or(0);
            if !states[floor..].iter().any(|state| state.version == found) {
                return Err(Violation {
                    unit,
                    found: self.describe(states, found),
                    durable: states[floor].by,
                    by_flush: self.flush_after(&states[floor], cut),
                });
            }
        }
        Ok(())
    }

    fn describe(&self, states: &[State], found: Option<Version>) -> String {
        let Some(version) = found else {
            return "nothing".to_owned();
        };
        match states.iter().find(|state| state.version == Some(version)) {
            Some(State { by: Some(by), .. }) => format!("what step {} wrote", by.step),
            Some(State { by: None, .. }) => "what it held before step 1".to_owned(),
            None if version <= self.versions => {
                "data that was overwritten long ago, or another unit's".to_owned()
            }
            None => "data that was never written".to_owned(),
        }
    }

    /// Takes the data that was found as durable from now on, and forgets all requests.
    pub fn settle(&mut self, found: impl Fn(LogicalUnit) -> Option<Version>) {
        self.flushes.clear();
        for (index, states) in self.units.iter_mut().enumerate() {
            let version = found(LogicalUnit(index as u32));
            states.clear();
            states.push(State { version, by: None, durable_at: None });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(step: u32, at: u64, answered: u64) -> Sent {
        Sent { step, at: Instant::from_nanos(at), answered: Instant::from_nanos(answered) }
    }

    fn holds(ledger: &Ledger, cut: u64, version: Option<Version>) -> bool {
        ledger.check(Instant::from_nanos(cut), |_| version).is_ok()
    }

    #[test]
    fn a_flush_covers_what_was_answered_before_it_was_sent() {
        let mut ledger = Ledger::new(Contract { writes: false, trims: false }, 1);
        ledger.write(sent(1, 0, 10), LogicalUnit(0), 1, false);
        ledger.write(sent(2, 10, 30), LogicalUnit(0), 1, false);
        ledger.flush(sent(3, 20, 50));
        ledger.trim(sent(4, 60, 70), LogicalUnit(0), 1);
        for version in [None, Some(1), Some(2)] {
            assert!(holds(&ledger, 49, version), "{version:?}: the flush is not answered");
        }
        assert!(!holds(&ledger, 50, Some(3)), "this was never written");
        assert!(holds(&ledger, 50, Some(1)) && holds(&ledger, 50, Some(2)));
        assert!(holds(&ledger, 50, None), "the trim was not flushed, and may be done or not");
        ledger.flush(sent(5, 70, 90));
        assert!(!holds(&ledger, 90, Some(2)), "the trim is durable");
    }

    #[test]
    fn fua_and_capacitors_need_no_flush() {
        let mut ledger = Ledger::new(Contract { writes: false, trims: false }, 1);
        ledger.write(sent(1, 0, 10), LogicalUnit(0), 1, true);
        assert!(holds(&ledger, 9, None) && !holds(&ledger, 10, None));
        let mut ledger = Ledger::new(Contract { writes: true, trims: true }, 1);
        ledger.write(sent(1, 0, 10), LogicalUnit(0), 1, false);
        assert!(!holds(&ledger, 10, None));
        ledger.trim(sent(2, 10, 20), LogicalUnit(0), 1);
        assert!(!holds(&ledger, 20, Some(1)));
    }
}
