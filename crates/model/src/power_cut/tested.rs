//! The test host: a drive under test, with requests in flight and the state known to the host.
//!
//! Requests of all kinds are in flight together, and the drive runs event by event. The [`Ledger`] holds the host's
//! knowledge: the requests that it sent, and the moments of their answers. The order of requests in flight together
//! is that in which the drive takes them.

use rand::{Rng, RngExt};

use super::drive::{CutDrive, CutOpening, CutState};
use super::explore::Finding;
use super::faults::Fault;
use super::history::{LeftOut, Operation, Sent, Step, When};
use super::recording::{Accepted, Version};
use super::rules::{Contract, Ledger};
use crate::ftl::{Answer, Command, IdlePeriod, RequestTag};
use crate::geometry::{Geometry, GeometryError};
use crate::recovery::Recovery;
use crate::ssd::Configuration;
use crate::units::{Instant, LogicalUnit, Nanoseconds, Sector, SectorCount};

/// Time without power.
const POWER_OFF_TIME: Nanoseconds = Nanoseconds::from_secs(1);

/// Stands for the unknown moment of an answer to a request in flight.
const NOT_ANSWERED: Instant = Instant::from_nanos(u64::MAX);

/// A request in flight.
#[derive(Clone, Debug)]
struct Request {
    /// Step of the request, counted from 1.
    step: u32,
    at: Instant,
    tag: RequestTag,
    operation: Operation,
    /// Units of a write that the drive has not taken yet.
    left: Vec<LogicalUnit>,
    /// True if this is a trim that the drive has not taken yet.
    trims: bool,
}

impl Request {
    fn sent(&self, answered: Instant) -> Sent {
        Sent { step: self.step, at: self.at, answered }
    }
}

impl Operation {
    /// Returns the units that the operation writes or trims.
    fn changes(self) -> Option<(LogicalUnit, u32)> {
        match self {
            Operation::Write { first, units }
            | Operation::WritePart { first, units, .. }
            | Operation::WriteFua { first, units }
            | Operation::Trim { first, units } => Some((first, units)),
            Operation::Read { .. } | Operation::Flush | Operation::Rest(_) => None,
        }
    }

    fn is_with_fua(self) -> bool {
        matches!(self, Operation::WriteFua { .. } | Operation::WritePart { fua: true, .. })
    }

    /// Returns the command for a drive of this geometry; `None` for an idle period.
    fn command(self, geometry: &Geometry) -> Option<Command> {
        Some(match self {
            Operation::Write { first, units } => Command::Write { first, units, force: false },
            Operation::WriteFua { first, units } => Command::Write { first, units, force: true },
            Operation::WritePart { first, units, without, fua } => {
                let (first, count) = sectors_without(geometry, (first, units), without);
                Command::WriteSectors { first, count, force: fua }
            }
            Operation::Trim { first, units } => Command::Trim { first, units },
            Operation::Read { first, units } => Command::Read { first, units },
            Operation::Flush => Command::Flush,
            Operation::Rest(_) => return None,
        })
    }
}

/// Returns the sectors of a range of units without some at its ends; all sectors if none would be left.
fn sectors_without(
    geometry: &Geometry,
    (first, units): (LogicalUnit, u32),
    without: LeftOut,
) -> (Sector, SectorCount) {
    let length = geometry.unit_size();
    let first = Sector::at(length * u64::from(first.0));
    let count = SectorCount::of(length * u64::from(units));
    let head = u64::from(without != LeftOut::Last);
    let tail = u64::from(without != LeftOut::First);
    if count.0 <= head + tail || geometry.sectors_within_unit() == 0 {
        return (first, count);
    }
    (Sector(first.0 + head), SectorCount(count.0 - head - tail))
}

/// A drive under test, with the knowledge of its host.
#[derive(Clone, Debug)]
pub struct Tested {
    configuration: Configuration,
    fault: Option<Fault>,
    ssd: CutDrive,
    ledger: Ledger,
    /// Requests in flight, in the order sent.
    in_flight: Vec<Request>,
    /// Idle period in progress.
    idle: Option<IdlePeriod>,
    /// Moment at which the latest request was sent.
    sent: Instant,
    /// Latest answer that is known so far, or the end of a later idle period.
    answered: Instant,
    /// Moment at which power returned after the latest cut.
    powered: Instant,
    opening: Option<CutOpening>,
    steps: u32,
}

impl Tested {
    /// Returns a new drive; `fault` is planted in it and in every recovery.
    ///
    /// # Errors
    /// Returns an error if the configuration makes no drive.
    ///
    /// # Panics
    /// Panics if the write buffer holds less than two program units; profiles check that.
    pub fn new(configuration: &Configuration, fault: Option<Fault>) -> Result<Self, GeometryError> {
        let units = configuration.geometry.logical_units();
        Ok(Tested {
            ledger: Ledger::new(Contract::of(configuration), units),
            configuration: configuration.clone(),
            fault,
            ssd: CutDrive::new(configuration, fault)?,
            in_flight: Vec::new(),
            idle: None,
            sent: Instant::START,
            answered: Instant::START,
            powered: Instant::START,
            opening: None,
            steps: 0,
        })
    }

    /// Returns the number of units that the host can address.
    pub fn units(&self) -> u32 {
        self.configuration.geometry.logical_units()
    }

    /// Returns the drive.
    pub fn drive(&self) -> &CutDrive {
        &self.ssd
    }

    /// Returns the number of requests in flight.
    pub fn in_flight(&self) -> u32 {
        self.in_flight.len() as u32
    }

    /// Returns the moment at which the latest request was sent.
    pub(super) fn sent(&self) -> Instant {
        self.sent
    }

    /// Returns the moment at which power returned after the latest cut.
    pub(super) fn powered(&self) -> Instant {
        self.powered
    }

    /// Fills the drive and writes as many units again at random, so that garbage collection runs; then flushes,
    /// waits, and takes the result as the initial state.
    ///
    /// # Panics
    /// Panics if the drive does not hold the data that was written.
    pub fn age(&mut self, generator: &mut impl Rng) {
        let units = self.units();
        let write = |first, units| Operation::Write { first: LogicalUnit(first), units };
        for first in (0..units).step_by(8) {
            self.step(Step::answered(write(first, 8.min(units - first))));
        }
        for _ in 0..units {
            self.step(Step::answered(write(generator.random_range(0..units), 1)));
        }
        self.step(Step::answered(Operation::Flush));
        self.step(Step::answered(Operation::Rest(Nanoseconds::from_secs(10))));
        while self.step_before(None) {}
        for unit in (0..units).map(LogicalUnit) {
            assert_eq!(
                self.ssd.version_of(unit),
                self.ledger.current(unit),
                "the data of {unit:?}"
            );
        }
        let Tested { ledger, ssd, .. } = self;
        ledger.settle(|unit| ssd.version_of(unit));
        self.begin_now();
        self.steps = 0;
    }

    /// Starts a new period: all earlier requests are over.
    fn begin_now(&mut self) {
        let now = self.answered.max(self.ssd.now());
        (self.sent, self.answered) = (now, now);
    }

    /// Carries out all events before the request, and sends it.
    pub fn step(&mut self, step: Step) {
        while self.step_before(Some(&step)) {}
        self.send(step);
    }

    /// Carries out the next event before `next` is sent, or before anything else is sent if it is `None`. Returns
    /// true if there was one.
    pub(super) fn step_before(&mut self, next: Option<&Step>) -> bool {
        if let Some(idle) = &mut self.idle {
            if self.ssd.step_idle(idle) {
                self.note(Vec::new());
                return true;
            }
            self.idle = None;
        }
        let until = match next {
            None => NOT_ANSWERED,
            Some(Step { operation, when: When::Later(after) })
                if !matches!(operation, Operation::Rest(_)) =>
            {
                self.sent + *after
            }
            // An idle period starts when no request is in flight.
            Some(_) if self.in_flight.is_empty() => return false,
            Some(_) => NOT_ANSWERED,
        };
        if self.ssd.next_due().is_none_or(|due| due > until) {
            return false;
        }
        let answers = self.ssd.step();
        self.note(answers);
        true
    }

    /// Sends a request. All earlier events have happened.
    pub(super) fn send(&mut self, step: Step) {
        self.steps += 1;
        let operation = step.operation;
        let is_rest = matches!(operation, Operation::Rest(_));
        let at = match step.when {
            When::Later(after) if !is_rest => self.sent + after,
            _ => self.answered.max(self.ssd.now()).max(self.sent),
        };
        self.sent = at;
        if let Operation::Rest(duration) = operation {
            self.idle = Some(self.ssd.begin_idle(at, duration));
            // The next request comes after the idle period.
            (self.sent, self.answered) = (at + duration, at + duration);
        }
        let Some(command) = operation.command(&self.configuration.geometry) else { return };
        let is_free = |tag: &RequestTag| self.in_flight.iter().all(|it| it.tag != *tag);
        let tag = (0..).map(RequestTag).find(is_free).expect("some number is free");
        let (first, units) = operation.changes().unwrap_or((LogicalUnit(0), 0));
        let left = match command.is_write() {
            true => (first.0..first.0 + units).map(LogicalUnit).collect(),
            false => Vec::new(),
        };
        let trims = matches!(operation, Operation::Trim { .. });
        self.in_flight.push(Request { step: self.steps, at, tag, operation, left, trims });
        self.ssd.submit(at, tag, command);
    }

    /// Notes the effects of an event. The drive refuses the parts of a request that it does not take: at the end of
    /// its life, with an error.
    fn note(&mut self, answers: Vec<Answer>) {
        for accepted in self.ssd.take_accepted() {
            self.note_accepted(accepted);
        }
        for Answer { tag, at, .. } in answers {
            let place = self.in_flight.iter().position(|it| it.tag == tag);
            let request = self.in_flight.remove(place.expect("what is answered was sent"));
            self.answered = self.answered.max(at);
            if request.operation == Operation::Flush {
                self.ledger.flush(request.sent(at));
            }
            if let Some((first, units)) = request.operation.changes() {
                self.ledger.answer(request.step, at, first, units);
            }
        }
    }

    /// Notes data or a trim that the drive has taken. If several requests in flight are for the same units, it
    /// belongs to the one sent first.
    fn note_accepted(&mut self, accepted: Accepted) {
        match accepted {
            Accepted::Written(unit) => {
                let found = self.in_flight.iter_mut().find_map(|request| {
                    let place = request.left.iter().position(|&left| left == unit)?;
                    request.left.swap_remove(place);
                    Some((request.sent(NOT_ANSWERED), request.operation.is_with_fua()))
                });
                let (sent, fua) = found.expect("what is taken was sent");
                self.ledger.write(sent, unit, 1, fua);
            }
            Accepted::Trimmed(first, units) => {
                let trim = Operation::Trim { first, units };
                let mut open = self.in_flight.iter_mut();
                let request = open.find(|it| it.trims && it.operation == trim);
                let request = request.expect("what is taken was sent");
                request.trims = false;
                self.ledger.trim(request.sent(NOT_ANSWERED), first, units);
            }
        }
    }

    /// Returns the latest instant before the next event.
    fn just_before_next(&self) -> Instant {
        let now = self.ssd.now();
        match self.ssd.next_due() {
            Some(due) => now.max(Instant::from_nanos(due.nanos() - 1)),
            None => now.max(self.answered),
        }
    }

    /// Returns the fingerprint of a power cut now.
    pub(super) fn state_after_cut(&self) -> CutState {
        self.ssd.state_after_cut(self.configuration.buffer.protected)
    }

    /// Returns the version that each unit of the host holds.
    pub(super) fn versions(&self) -> Vec<Option<Version>> {
        (0..self.units()).map(|unit| self.ssd.version_of(LogicalUnit(unit))).collect()
    }

    /// Returns the moment of a power cut, if power is cut now.
    pub(super) fn cut_at(&self) -> Instant {
        self.just_before_next()
    }

    /// Checks `found`, the versions by unit after another cut that left the same flash, as the result of a cut now.
    pub(super) fn check(&self, found: &[Option<Version>]) -> Result<(), Finding> {
        let at = self.cut_at();
        self.ledger.check(at, |unit| found[unit.0 as usize]).map_err(Finding::Rule)
    }

    /// Cuts power now, opens the drive again and checks its data; the host continues with that drive.
    ///
    /// # Errors
    /// Returns the error that was found.
    ///
    /// # Panics
    /// Panics if the invariants of the drive do not hold.
    pub fn cut(&mut self) -> Result<Recovery, Finding> {
        let at = self.cut_at();
        // Requests in flight are never answered.
        self.in_flight.clear();
        self.idle = None;
        let media = self.ssd.clone().power_cut();
        if let Some(misuse) = media.misuse() {
            return Err(Finding::Flash(misuse));
        }
        let opening =
            CutOpening::begin(&self.configuration, media, at + POWER_OFF_TIME, self.fault)
                .map_err(Finding::Recovery)?;
        let (ssd, recovery) = opening.clone().finish();
        ssd.check_invariants();
        self.ledger.check(at, |unit| ssd.version_of(unit)).map_err(Finding::Rule)?;
        self.ledger.settle(|unit| ssd.version_of(unit));
        self.ssd = ssd;
        self.opening = Some(opening);
        self.powered = at + POWER_OFF_TIME;
        self.answered = recovery.ready_at;
        self.begin_now();
        Ok(recovery)
    }

    /// Writes a few units, flushes, and cuts power when the flush is answered.
    pub(super) fn write_and_cut(&mut self) -> Result<(), Finding> {
        let units = self.units();
        for first in [0, units / 2, units - 1] {
            let operation = Operation::Write { first: LogicalUnit(first), units: 1 };
            self.step(Step::at_once(operation));
        }
        self.step(Step::answered(Operation::Flush));
        while !self.in_flight.is_empty() {
            assert!(self.step_before(None), "every request is answered");
        }
        self.cut().map(|_| ())
    }

    /// Returns the recovery from the latest cut, event by event. Nothing was requested since.
    pub(super) fn recovering(&self) -> Recovering {
        let opening = self.opening.clone().expect("power was cut");
        Recovering { tested: self.clone(), opening: Some(opening) }
    }

    /// Sends `steps` random requests.
    pub fn step_at_random(&mut self, generator: &mut impl Rng, steps: u32) {
        for _ in 0..steps {
            self.step(Step::random(generator, self.units()));
        }
    }

    /// Cuts power at a random event, from the latest request on until all requests are answered and all work is done.
    ///
    /// # Errors
    /// Returns the error that was found after the cut.
    ///
    /// # Panics
    /// Panics if the invariants of the drive do not hold.
    pub fn cut_at_random(&mut self, generator: &mut impl Rng) -> Result<Recovery, Finding> {
        let (mut then, mut events) = (self.clone(), 0);
        while then.step_before(None) {
            events += 1;
        }
        for _ in 0..generator.random_range(0..=events) {
            self.step_before(None);
        }
        self.cut()
    }

    /// Cuts power at a random event while the drive recovers from the latest cut. Nothing was requested since that
    /// cut.
    ///
    /// # Errors
    /// Returns the error that was found after the cut.
    ///
    /// # Panics
    /// Panics if the invariants of the drive do not hold.
    pub fn cut_recovery_at_random(
        &mut self,
        generator: &mut impl Rng,
    ) -> Result<Recovery, Finding> {
        let (mut then, mut events) = (self.recovering(), 0);
        while then.step() {
            events += 1;
        }
        let mut then = self.recovering();
        for _ in 0..generator.random_range(0..=events) {
            then.step();
        }
        *self = then.into_tested();
        self.cut()
    }
}

/// A recovery from a cut, and the background work of the drive after it.
#[derive(Clone, Debug)]
pub(super) struct Recovering {
    tested: Tested,
    opening: Option<CutOpening>,
}

impl Recovering {
    /// Carries out the next event. Returns true if there was one.
    pub(super) fn step(&mut self) -> bool {
        if let Some(opening) = &mut self.opening {
            if opening.step() {
                return true;
            }
            // From here on the drive is the one that completed its recovery.
            self.opening = None;
        }
        self.tested.step_before(None)
    }

    /// Returns the fingerprint of a power cut now.
    pub(super) fn state_after_cut(&self) -> CutState {
        match &self.opening {
            Some(opening) => opening.state_after_cut(self.tested.configuration.buffer.protected),
            None => self.tested.state_after_cut(),
        }
    }

    /// Returns the drive in its present state, with the knowledge of the host after the cut.
    pub(super) fn into_tested(self) -> Tested {
        let Recovering { mut tested, opening } = self;
        if let Some(opening) = opening {
            tested.ssd = opening.drive();
        }
        tested
    }
}
