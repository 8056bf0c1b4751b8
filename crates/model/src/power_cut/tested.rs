//! A drive under test, and the host that asks it.
//!
//! The host asks as experiments do: for all of a request at once, or step by step
//! ([`crate::pending`]), with requests of all kinds under way together. What it knows is in the
//! [`Ledger`]: what it has sent, and when it was answered. Of requests that are under way together
//! the drive says which came first, by the order in which it takes up their data.

use rand::{Rng, RngExt};

use super::drive::CutDrive;
use super::explore::Finding;
use super::history::{Operation, Sent, Step, When};
use super::rules::{Contract, Ledger};
use crate::counters::Counters;
use crate::geometry::GeometryError;
use crate::media::recording::Recording;
use crate::pending::{Step as Begun, Waiting};
use crate::recovery::{Fault, Recovery};
use crate::ssd::Configuration;
use crate::units::{Instant, LogicalUnit, Nanoseconds};

/// How long power is gone.
const DARK: Nanoseconds = Nanoseconds::from_secs(1);

/// When a request is answered of which that is not known yet.
const NOT_KNOWN: Instant = Instant::from_nanos(u64::MAX);

/// A request that was sent.
#[derive(Clone, Copy, Debug)]
struct Request {
    /// Which step it is, counted from 1.
    step: u32,
    at: Instant,
    operation: Operation,
    /// Units of it that the drive has taken up, if it writes.
    written: u32,
}

impl Request {
    fn sent(&self, answered: Instant) -> Sent {
        Sent { step: self.step, at: self.at, answered }
    }

    /// What it writes, and whether with FUA.
    fn writes(&self) -> Option<(LogicalUnit, u32, bool)> {
        match self.operation {
            Operation::Write { first, units } => Some((first, units, false)),
            Operation::WritePart { first, units, fua, .. } => Some((first, units, fua)),
            Operation::WriteFua { first, units } => Some((first, units, true)),
            Operation::Trim { .. }
            | Operation::Read { .. }
            | Operation::Flush
            | Operation::Rest(_) => None,
        }
    }
}

/// A drive under test, with what the host knows.
#[derive(Clone, Debug)]
pub struct Tested {
    configuration: Configuration,
    fault: Option<Fault>,
    ssd: CutDrive,
    ledger: Ledger,
    /// Whether the drive is asked step by step, and what waits then.
    by_steps: bool,
    open: Vec<(Waiting, Request)>,
    /// When the latest request was sent.
    sent: Instant,
    /// When all requests so far are answered, of which that is known.
    answered: Instant,
    /// When each of them was, since the latest cut.
    answers: Vec<Instant>,
    /// When power came back after the latest cut.
    powered: Instant,
    steps: u32,
}

impl Tested {
    /// A new drive; `fault` is planted in it and in every recovery.
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
            by_steps: false,
            open: Vec::new(),
            sent: Instant::START,
            answered: Instant::START,
            answers: Vec::new(),
            powered: Instant::START,
            steps: 0,
        })
    }

    /// The same drive, asked step by step from now on, in the order of time, as phases with mixed
    /// requests and jobs ask.
    #[must_use]
    pub fn by_steps(mut self) -> Tested {
        self.by_steps = true;
        self
    }

    /// Whether it is asked step by step.
    pub fn is_asked_by_steps(&self) -> bool {
        self.by_steps
    }

    /// Units that the host can address.
    pub fn units(&self) -> u32 {
        self.configuration.geometry.logical_units()
    }

    /// The drive.
    pub fn drive(&self) -> &CutDrive {
        &self.ssd
    }

    /// When the latest request was sent.
    pub(super) fn sent(&self) -> Instant {
        self.sent
    }

    /// When power came back after the latest cut.
    pub(super) fn powered(&self) -> Instant {
        self.powered
    }

    /// What the drive has done since it was opened.
    pub(super) fn counters(&self) -> Counters {
        self.ssd.counters()
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
        for unit in (0..units).map(LogicalUnit) {
            assert_eq!(
                self.ssd.version_of(unit),
                self.ledger.current(unit),
                "the data of {unit:?}"
            );
        }
        let at = self.answered.max(self.ssd.idle_from());
        let Tested { ledger, ssd, .. } = self;
        ledger.settle(|unit| ssd.version_of(unit));
        ssd.forget_how(at);
        self.begin_at(at);
        self.steps = 0;
    }

    /// All that was asked is over at `at`, and what is asked next comes after it.
    fn begin_at(&mut self, at: Instant) {
        (self.sent, self.answered) = (at, at);
        self.answers.clear();
    }

    /// Sends a request.
    pub fn step(&mut self, step: Step) {
        let at = self.wait_for(&step);
        self.steps += 1;
        let request = Request { step: self.steps, at, operation: step.operation, written: 0 };
        let before = self.ssd.versions();
        let begun = match self.by_steps {
            true => self.ssd.begin(at, step.operation),
            false => Begun::Answered(self.ssd.carry_out(at, step.operation)),
        };
        self.sent = at;
        if let Operation::Rest(rest) = step.operation {
            // What comes after a rest comes after it.
            self.sent = at + rest;
        }
        self.note(request, before, begun);
    }

    /// Lets happen what comes before `step`; returns when that is sent.
    fn wait_for(&mut self, step: &Step) -> Instant {
        let rests = self.by_steps && matches!(step.operation, Operation::Rest(_));
        match step.when {
            // A drive is left alone when nothing is under way.
            When::Later(after) if !rests => {
                let at = self.sent + after;
                self.let_happen(Some(at));
                at
            }
            _ => {
                self.let_happen(None);
                self.answered
            }
        }
    }

    /// Notes what the drive has done about a request, which had taken up data up to version `before`
    /// until then. What it has not taken up it refuses: at the end of its life, and it says so.
    fn note(&mut self, mut request: Request, before: u64, begun: Begun) {
        let written = (self.ssd.versions() - before) as u32;
        if written > 0 {
            let (first, units, fua) = request.writes().expect("only a write is taken up");
            let first = LogicalUnit(first.0 + request.written);
            self.ledger.write(request.sent(NOT_KNOWN), first, written, fua);
            request.written += written;
            assert!(request.written <= units, "no unit is taken up twice");
            assert_eq!(self.ledger.versions(), self.ssd.versions(), "in the order of writing");
        }
        let answered = match begun {
            Begun::Waits(waiting) => return self.open.push((waiting, request)),
            Begun::Answered(answered) => answered,
        };
        self.answered = self.answered.max(answered);
        self.answers.push(answered);
        let sent = request.sent(answered);
        match request.operation {
            Operation::Flush => self.ledger.flush(sent),
            Operation::Trim { first, units } if self.configuration.trim => {
                self.ledger.trim(sent, first, units);
            }
            _ => {
                if let Some((first, units, _)) = request.writes() {
                    self.ledger.answer_write(request.step, answered, first, units);
                }
            }
        }
    }

    /// Goes on with all that waits for something that comes by `until`, or ever, in the order of
    /// time; of what waits for the same instant first with what began to first.
    fn let_happen(&mut self, until: Option<Instant>) {
        let comes =
            |(waiting, _): &&(Waiting, Request)| until.is_none_or(|it| waiting.until() <= it);
        while let Some(next) = self.open.iter().filter(comes).map(|(it, _)| it.until()).min() {
            let place = self.open.iter().position(|(waiting, _)| waiting.until() == next);
            let (waiting, request) = self.open.remove(place.expect("it is there"));
            let before = self.ssd.versions();
            let begun = self.ssd.go_on(waiting);
            self.note(request, before, begun);
        }
    }

    /// The drive when `next` is sent, and when that is; if nothing is, when all is answered and
    /// over, and long after that.
    pub(super) fn before(&self, next: Option<&Step>) -> (Tested, Instant) {
        let mut then = self.clone();
        let until = match next {
            Some(step) => then.wait_for(step),
            None => {
                then.let_happen(None);
                then.answered.max(then.ssd.idle_from()) + Nanoseconds::from_secs(1)
            }
        };
        (then, until)
    }

    /// The instants from `from` on, before `until`, at which a cut can make a difference; `from` is
    /// that of the latest request, or when power came back after the latest cut.
    pub(super) fn instants(&self, from: Instant, until: Instant) -> Vec<Instant> {
        let mut instants = vec![from];
        instants.extend(self.ssd.instants_of_flash_work(from, until));
        instants.extend(self.answers.iter().filter(|&&at| at > from && at < until));
        instants.push(until);
        instants.sort_unstable();
        instants.dedup();
        let between =
            |pair: &[Instant]| pair[0] + Nanoseconds::new(pair[1].since(pair[0]).nanos() / 2);
        let middles: Vec<Instant> = instants.windows(2).map(between).collect();
        instants.pop();
        instants.extend(middles);
        instants.sort_unstable();
        instants.dedup();
        instants
    }

    /// The instants while the drive recovers from the latest cut at which a cut can make a
    /// difference: from when power is back until all is over that recovery has begun.
    pub(super) fn instants_of_recovery(&self) -> Vec<Instant> {
        let (then, until) = self.before(None);
        then.instants(self.powered, until)
    }

    /// What a cut at `at` leaves.
    pub(super) fn left_by_cut(&self, at: Instant) -> Recording {
        let mut then = self.clone();
        then.let_happen(Some(at));
        then.ssd.power_cut(at)
    }

    /// Cuts power at `at`, opens the drive again and checks what it holds; the host goes on from
    /// there.
    ///
    /// # Errors
    /// What is wrong.
    ///
    /// # Panics
    /// When the drive is not sound in itself.
    pub fn cut(&mut self, at: Instant) -> Result<Recovery, Finding> {
        self.let_happen(Some(at));
        // Nobody is answered any more.
        self.open.clear();
        let media = self.ssd.clone().power_cut(at);
        let (ssd, recovery) = CutDrive::open(&self.configuration, media, at + DARK, self.fault)
            .map_err(Finding::Recovery)?;
        ssd.check_invariants();
        self.ledger.check(at, |unit| ssd.version_of(unit)).map_err(Finding::Rule)?;
        self.ledger.settle(|unit| ssd.version_of(unit));
        self.ssd = ssd;
        self.powered = at + DARK;
        self.begin_at(recovery.ready_at);
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
        self.let_happen(None);
        self.cut(self.answered).map(|_| ())
    }

    /// Sends `steps` random requests.
    pub fn step_at_random(&mut self, generator: &mut impl Rng, steps: u32) {
        for _ in 0..steps {
            self.step(Step::random(generator, self.units()));
        }
    }

    /// Cuts power at a random one of the instants that can make a difference, from the latest
    /// request on and before all is answered and done.
    ///
    /// # Errors
    /// What is wrong after the cut.
    ///
    /// # Panics
    /// When the drive is not sound in itself.
    pub fn cut_at_random(&mut self, generator: &mut impl Rng) -> Result<Recovery, Finding> {
        let (then, until) = self.before(None);
        let instants = then.instants(self.sent, until);
        let at = instants[generator.random_range(0..instants.len())];
        self.cut(at)
    }

    /// The same while the drive recovers from the latest cut, when nothing was asked of it since.
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
        let instants = self.instants_of_recovery();
        let at = instants[generator.random_range(0..instants.len())];
        self.cut(at)
    }
}
