//! A drive under test, and the host that asks it.
//!
//! Requests of all kinds are in flight together, and the drive goes on event by event. What the host knows is
//! in the [`Ledger`]: what it has sent, and when it was answered. Of requests that are in flight together the
//! drive says which came first, by the order in which it takes them up.

use rand::{Rng, RngExt};

use super::drive::{CutDrive, CutOpening, Left};
use super::explore::Finding;
use super::faults::Fault;
use super::history::{LeftOut, Operation, Sent, Step, When};
use super::recording::{Taken, Version};
use super::rules::{Contract, Ledger};
use crate::ftl::{Answer, Command, RequestTag, Resting};
use crate::geometry::{Geometry, GeometryError};
use crate::recovery::Recovery;
use crate::ssd::Configuration;
use crate::units::{Instant, LogicalUnit, Nanoseconds, Sector, SectorCount};

/// How long power is gone.
const DARK: Nanoseconds = Nanoseconds::from_secs(1);

/// When a request is answered of which that is not known yet.
const NOT_KNOWN: Instant = Instant::from_nanos(u64::MAX);

/// A request in flight.
#[derive(Clone, Debug)]
struct Request {
    /// Which step it is, counted from 1.
    step: u32,
    at: Instant,
    tag: RequestTag,
    operation: Operation,
    /// Units that it writes and that the drive has not taken.
    left: Vec<LogicalUnit>,
    /// True if it is a trim that the drive has not taken.
    trims: bool,
}

impl Request {
    fn sent(&self, answered: Instant) -> Sent {
        Sent { step: self.step, at: self.at, answered }
    }
}

impl Operation {
    /// The units that it writes or trims.
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

    /// Returns what a drive of that shape is asked for; nothing for a rest.
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

/// The sectors of a range of units but for some at their ends; all, where that would be none.
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

/// A drive under test, with what the host knows.
#[derive(Clone, Debug)]
pub struct Tested {
    configuration: Configuration,
    fault: Option<Fault>,
    ssd: CutDrive,
    ledger: Ledger,
    /// In the order sent.
    in_flight: Vec<Request>,
    /// The rest under way.
    resting: Option<Resting>,
    /// When the latest request was sent.
    sent: Instant,
    /// When all requests so far are answered, of which that is known.
    answered: Instant,
    /// When power came back after the latest cut, and the recovery from it as it began.
    powered: Instant,
    opening: Option<CutOpening>,
    steps: u32,
}

impl Tested {
    /// Returns a new drive; `fault` is planted in it and in every recovery.
    ///
    /// # Errors
    /// When the configuration is not sound.
    ///
    /// # Panics
    /// When the write buffer holds less than two program units; profiles check that.
    pub fn new(configuration: &Configuration, fault: Option<Fault>) -> Result<Self, GeometryError> {
        let units = configuration.geometry.logical_units();
        Ok(Tested {
            ledger: Ledger::new(Contract::of(configuration), units),
            configuration: configuration.clone(),
            fault,
            ssd: CutDrive::new(configuration, fault)?,
            in_flight: Vec::new(),
            resting: None,
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

    /// Returns the number of requests that are not answered.
    pub fn in_flight(&self) -> u32 {
        self.in_flight.len() as u32
    }

    /// When the latest request was sent.
    pub(super) fn sent(&self) -> Instant {
        self.sent
    }

    /// When power came back after the latest cut.
    pub(super) fn powered(&self) -> Instant {
        self.powered
    }

    /// Fills the drive and writes as many units again, anywhere, so that collection goes on; then
    /// flushes, waits, and takes all that for what was there before.
    ///
    /// # Panics
    /// When the drive does not hold what was written.
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

    /// All that was asked is over, and what is asked next comes after it.
    fn begin_now(&mut self) {
        let now = self.answered.max(self.ssd.now());
        (self.sent, self.answered) = (now, now);
    }

    /// Sends a request, when what comes before it has happened.
    pub fn step(&mut self, step: Step) {
        while self.step_before(Some(&step)) {}
        self.send(step);
    }

    /// Lets the next thing happen that comes before `next` is sent; before anything else does, if it is
    /// nothing. Returns whether there was any.
    pub(super) fn step_before(&mut self, next: Option<&Step>) -> bool {
        if let Some(resting) = &mut self.resting {
            if self.ssd.step_at_rest(resting) {
                self.note(Vec::new());
                return true;
            }
            self.resting = None;
        }
        let until = match next {
            None => NOT_KNOWN,
            Some(Step { operation, when: When::Later(after) })
                if !matches!(operation, Operation::Rest(_)) =>
            {
                self.sent + *after
            }
            // A drive is left alone when nothing is in flight.
            Some(_) if self.in_flight.is_empty() => return false,
            Some(_) => NOT_KNOWN,
        };
        if self.ssd.next_due().is_none_or(|due| due > until) {
            return false;
        }
        let answers = self.ssd.step();
        self.note(answers);
        true
    }

    /// Sends a request. All that comes before it has happened.
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
            self.resting = Some(self.ssd.begin_rest(at, duration));
            // What comes after a rest comes after it.
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

    /// Notes what has just happened. What the drive does not take of a request it refuses: at the end of
    /// its life, and it says so.
    fn note(&mut self, answers: Vec<Answer>) {
        for taken in self.ssd.take_taken() {
            self.note_taken(taken);
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

    /// Notes what the drive has taken: of requests in flight for the same units that of the one sent first.
    fn note_taken(&mut self, taken: Taken) {
        match taken {
            Taken::Written(unit) => {
                let found = self.in_flight.iter_mut().find_map(|request| {
                    let place = request.left.iter().position(|&left| left == unit)?;
                    request.left.swap_remove(place);
                    Some((request.sent(NOT_KNOWN), request.operation.is_with_fua()))
                });
                let (sent, fua) = found.expect("what is taken was sent");
                self.ledger.write(sent, unit, 1, fua);
            }
            Taken::Trimmed(first, units) => {
                let trim = Operation::Trim { first, units };
                let mut open = self.in_flight.iter_mut();
                let request = open.find(|it| it.trims && it.operation == trim);
                let request = request.expect("what is taken was sent");
                request.trims = false;
                self.ledger.trim(request.sent(NOT_KNOWN), first, units);
            }
        }
    }

    /// The latest instant before the next thing happens.
    fn just_before_next(&self) -> Instant {
        let now = self.ssd.now();
        match self.ssd.next_due() {
            Some(due) => now.max(Instant::from_nanos(due.nanos() - 1)),
            None => now.max(self.answered),
        }
    }

    /// Returns what tells a power cut now from others.
    pub(super) fn left_by_cut(&self) -> Left {
        self.ssd.left_by_cut(self.configuration.buffer.protected)
    }

    /// Returns what each unit of the host's holds.
    pub(super) fn versions(&self) -> Vec<Option<Version>> {
        (0..self.units()).map(|unit| self.ssd.version_of(LogicalUnit(unit))).collect()
    }

    /// When power is cut, if it is cut now.
    pub(super) fn cut_at(&self) -> Instant {
        self.just_before_next()
    }

    /// Checks what was found after a cut now that leaves the same as another: `found`, by unit.
    pub(super) fn check(&self, found: &[Option<Version>]) -> Result<(), Finding> {
        let at = self.cut_at();
        self.ledger.check(at, |unit| found[unit.0 as usize]).map_err(Finding::Rule)
    }

    /// Cuts power now, opens the drive again and checks what it holds; the host goes on from there.
    ///
    /// # Errors
    /// What is wrong.
    ///
    /// # Panics
    /// When the drive is not sound in itself.
    pub fn cut(&mut self) -> Result<Recovery, Finding> {
        let at = self.cut_at();
        // Nobody is answered any more.
        self.in_flight.clear();
        self.resting = None;
        let media = self.ssd.clone().power_cut();
        if let Some(misuse) = media.misuse() {
            return Err(Finding::Flash(misuse));
        }
        let opening = CutOpening::begin(&self.configuration, media, at + DARK, self.fault)
            .map_err(Finding::Recovery)?;
        let (ssd, recovery) = opening.clone().finish();
        ssd.check_invariants();
        self.ledger.check(at, |unit| ssd.version_of(unit)).map_err(Finding::Rule)?;
        self.ledger.settle(|unit| ssd.version_of(unit));
        self.ssd = ssd;
        self.opening = Some(opening);
        self.powered = at + DARK;
        self.answered = recovery.ready_at;
        self.begin_now();
        Ok(recovery)
    }

    /// Writes a little, flushes, and cuts power when the flush is answered.
    pub(super) fn go_on(&mut self) -> Result<(), Finding> {
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

    /// The recovery from the latest cut, event by event; nothing was asked since.
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

    /// Cuts power between any two things that happen, from the latest request on until all is answered and
    /// done.
    ///
    /// # Errors
    /// What is wrong after the cut.
    ///
    /// # Panics
    /// When the drive is not sound in itself.
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

    /// Cuts power between any two things that happen while the drive recovers from the latest cut, when nothing
    /// was asked of it since.
    ///
    /// # Errors
    /// What is wrong after the cut.
    ///
    /// # Panics
    /// When the drive is not sound in itself.
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

/// A recovery from a cut, and what the drive goes on with by itself after it.
#[derive(Clone, Debug)]
pub(super) struct Recovering {
    tested: Tested,
    opening: Option<CutOpening>,
}

impl Recovering {
    /// Lets the next thing happen; whether there was any.
    pub(super) fn step(&mut self) -> bool {
        if let Some(opening) = &mut self.opening {
            if opening.step() {
                return true;
            }
            // From here on the drive is the one that was let in.
            self.opening = None;
        }
        self.tested.step_before(None)
    }

    /// Returns what tells a power cut now from others.
    pub(super) fn left_by_cut(&self) -> Left {
        match &self.opening {
            Some(opening) => opening.left_by_cut(self.tested.configuration.buffer.protected),
            None => self.tested.left_by_cut(),
        }
    }

    /// The drive as it is now, with what the host knew after the cut.
    pub(super) fn into_tested(self) -> Tested {
        let Recovering { mut tested, opening } = self;
        if let Some(opening) = opening {
            tested.ssd = opening.drive();
        }
        tested
    }
}
