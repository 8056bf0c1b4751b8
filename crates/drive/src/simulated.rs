//! The model as a drive, in virtual time.
//!
//! Phases are run as a closed loop: `depth` requests are in flight, and each answered one is
//! followed by the next at the same instant. Everything is computed in one pass over the
//! requests, so virtual hours take seconds; addresses are drawn some requests ahead so that the
//! model's maps can be fetched before they are needed.

mod closed_loop;
mod in_flight;
mod lanes;
mod log_block;
mod mixed_loop;
pub(crate) mod model;
mod open_loop;
mod responder;
pub mod saved;
mod steps;
mod trim_path;

pub use responder::Responder;
pub use trim_path::{TrimEnd, TrimPath};

use ssdlab_model::Configuration;
use ssdlab_model::age::{AgeError, Past};
use ssdlab_model::bad_blocks::EndOfLife;
use ssdlab_model::geometry::GeometryError;
use ssdlab_model::health::Service;
use ssdlab_model::make_new::FormatError;
use ssdlab_model::units::{ByteLength, Instant, Nanoseconds, Sector, SectorCount};

use crate::error::{DriveError, ErrorKind};
use crate::measure::{PhaseResult, ThroughputMeter};
use crate::phase::{Phase, Region};
use crate::stack::{Array, Built, Composition, Condition, Level, StackError, Synchronisation};
use crate::{
    Control, Description, Drive, DriveKind, Durability, Inside, Lane, LaneResult, Observer,
    Progress, Template,
};
use model::{Model, aged_model};

/// Longest stretch of a rest that is simulated between two looks at the observer.
const REST_STEP: Nanoseconds = Nanoseconds::from_secs(60);

/// One request of a host that keeps its own time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// Read.
    Read(Region),
    /// Write, answered when the drive has the data.
    Write(Region),
    /// Write, answered when it is durable (force unit access).
    WriteThrough(Region),
    /// Make durable all that was answered.
    Flush,
    /// Forget what a region holds. Where trim does not get through it is answered and dropped.
    Trim(Region),
}

/// How a simulated drive is made new.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MakeNew {
    /// By another one from the factory, without wear, in no time.
    #[default]
    Factory,
    /// By a trim of all of it.
    Discard,
    /// By a format that begins its map anew and erases nothing.
    Format,
    /// By a format or an ATA command that erases every block.
    SecureErase,
    /// Not at all: it is taken as it is.
    Nothing,
}

impl MakeNew {
    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            MakeNew::Factory => "replaced by a new one",
            MakeNew::Discard => "discarded as a whole",
            MakeNew::Format => "formatted without erase",
            MakeNew::SecureErase => "erased (secure erase)",
            MakeNew::Nothing => "taken as it is",
        }
    }
}

/// A simulated drive.
#[derive(Clone)]
pub struct SimulatedDrive {
    name: String,
    facts: Vec<(String, String)>,
    caveats: Vec<String>,
    composition: Composition,
    model: Box<dyn Model>,
    now: Instant,
    /// When it was made or opened.
    since: Instant,
    /// How long at least one request has been with it since.
    busy: Nanoseconds,
    make_new: MakeNew,
    /// How long making it new took the last time, where that took its own time.
    made_new_in: Option<Nanoseconds>,
}

impl SimulatedDrive {
    /// A new SSD of the given configuration, called `name` in reports.
    ///
    /// # Errors
    /// When the configuration leaves no spare area to collect with.
    pub fn new(
        name: impl Into<String>,
        configuration: Configuration,
    ) -> Result<Self, GeometryError> {
        match SimulatedDrive::of(name, Composition::Ssd(Box::new(configuration))) {
            Ok(drive) => Ok(drive),
            Err(StackError::Geometry(error)) => Err(error),
            Err(error) => unreachable!("a single drive: {error}"),
        }
    }

    /// A new drive, or stack of drives, called `name` in reports. Its time begins when the copies
    /// it may hold agree.
    ///
    /// # Errors
    /// When it cannot be built.
    pub fn of(name: impl Into<String>, composition: Composition) -> Result<Self, StackError> {
        let Built { model, from } = composition.build(Instant::START, Condition::AsFound)?;
        Ok(SimulatedDrive {
            name: name.into(),
            facts: Vec::new(),
            caveats: Vec::new(),
            composition,
            model,
            now: from,
            since: from,
            busy: Nanoseconds::ZERO,
            make_new: MakeNew::default(),
            made_new_in: None,
        })
    }

    /// An SSD that is full and in the steady state of random writes, without having been
    /// written; see [`ssdlab_model::age`].
    ///
    /// # Errors
    /// When there is no closed form for what the drive does, or no such drive.
    pub fn aged(
        name: impl Into<String>,
        configuration: Configuration,
        past: Past,
    ) -> Result<Self, AgeError> {
        let model = aged_model(&configuration, past)?;
        Ok(SimulatedDrive {
            name: name.into(),
            facts: Vec::new(),
            caveats: Vec::new(),
            composition: Composition::Ssd(Box::new(configuration)),
            model,
            now: Instant::START,
            since: Instant::START,
            busy: Nanoseconds::ZERO,
            make_new: MakeNew::default(),
            made_new_in: None,
        })
    }

    /// Adds what the report should say of the drive.
    pub fn describe(mut self, facts: Vec<(String, String)>, caveats: Vec<String>) -> Self {
        self.facts = facts;
        self.caveats = caveats;
        self
    }

    /// Sends one request at `at`, whether or not earlier ones were answered; returns when this
    /// one is.
    ///
    /// # Errors
    /// When the drive cannot do it, or the region does not lie on its blocks.
    ///
    /// # Panics
    /// When `at` lies before an earlier request.
    pub fn send(&mut self, at: Instant, request: Request) -> Result<Instant, DriveError> {
        assert!(at >= self.now, "requests are sent in the order of their time");
        self.now = at;
        Ok(match request {
            Request::Read(region) => {
                let (first, count) = self.sectors_of(region)?;
                self.model.read(at, first, count)
            }
            Request::Write(region) => {
                let (first, count) = self.sectors_of(region)?;
                self.model.write(at, first, count)
            }
            Request::WriteThrough(region) => {
                let (first, count) = self.sectors_of(region)?;
                self.model.write_through(at, first, count)
            }
            Request::Trim(region) => {
                let (first, count) = self.sectors_of(region)?;
                self.model.trim(at, first, count)
            }
            Request::Flush => self.model.flush(at),
        })
    }

    /// The layers that a trim passes on its way, and what the drive at its end makes of it.
    pub fn trim_path(&self) -> TrimPath {
        TrimPath::through(&self.composition)
    }

    /// Whether trim gets as far as a drive (which may ignore it).
    pub fn passes_trim(&self) -> bool {
        self.model.passes_trim()
    }

    /// Lets the drive's time pass until `until`; nothing happens where that is past.
    pub fn pass_until(&mut self, until: Instant) {
        self.now = self.now.max(until);
    }

    /// What answers the requests, to look at between phases.
    pub fn responder(&self) -> &dyn Responder {
        &*self.model
    }

    /// The sectors that `region` covers.
    fn sectors_of(&self, region: Region) -> Result<(Sector, SectorCount), DriveError> {
        let (unit, capacity) = (self.model.block_size(), self.model.capacity());
        let aligned = region.offset.is_multiple_of(unit) && region.length.is_multiple_of(unit);
        if !aligned || region.end() > capacity || region.length == ByteLength::ZERO {
            return Err(DriveError::new(
                ErrorKind::Usage,
                format!(
                    "{} bytes from {} are not multiples of {unit} within {capacity}",
                    region.length.bytes(),
                    region.offset.bytes()
                ),
            ));
        }
        Ok((Sector::at(region.offset), SectorCount::of(region.length)))
    }
}

impl Template for SimulatedDrive {
    fn copy(&self) -> Box<dyn Drive + Send> {
        Box::new(self.clone())
    }

    fn copy_new(&self) -> Result<Box<dyn Drive + Send>, DriveError> {
        if self.make_new == MakeNew::Factory {
            return Ok(Box::new(self.new_of(self.name.clone(), self.composition.clone())?));
        }
        let mut copy = self.clone();
        copy.make_new()?;
        Ok(Box::new(copy))
    }

    fn mirrored(&self, full: bool) -> Result<Box<dyn Drive + Send>, DriveError> {
        if self.make_new != MakeNew::Factory {
            let how = self.make_new.words();
            let message = format!("a mirror is made of new drives, not of ones that are {how}");
            return Err(DriveError::new(ErrorKind::Unsupported, message));
        }
        let members = vec![self.composition.clone(), self.composition.clone()];
        let synchronisation = if full { Synchronisation::Full } else { Synchronisation::None };
        let array = Array { synchronisation, ..Level::Raid1.array(members) };
        let sync = if full { "full" } else { "none" };
        let name = format!("raid1({};{}),sync={sync}", self.name, self.name);
        Ok(Box::new(self.new_of(name, Composition::Array(array))?))
    }
}

impl SimulatedDrive {
    /// One like this, made new, of another composition and name.
    fn new_of(&self, name: String, composition: Composition) -> Result<Self, DriveError> {
        let Built { model, from } = built(&composition, self.now)?;
        let (facts, caveats) = (self.facts.clone(), self.caveats.clone());
        let busy = Nanoseconds::ZERO;
        Ok(SimulatedDrive {
            name,
            facts,
            caveats,
            composition,
            model,
            now: from,
            since: from,
            busy,
            make_new: self.make_new,
            made_new_in: None,
        })
    }
}

impl SimulatedDrive {
    /// How it was made new, and how long that took.
    fn made_new_fact(&self) -> Option<(String, String)> {
        let words = match (self.make_new, self.made_new_in) {
            (MakeNew::Factory, _) => return None,
            (how, None) => format!("{} where the protocol has a new drive", how.words()),
            (how, Some(took)) => format!("{}, which took {took}", how.words()),
        };
        Some(("made new".to_owned(), words))
    }

    /// Stores the drive for `duration` without power, after what it holds in RAM is on flash: its
    /// data ages.
    ///
    /// # Errors
    /// When data of this drive does not age, as far as its profile says.
    pub fn store(&mut self, duration: Nanoseconds) -> Result<(), DriveError> {
        self.now = self.model.shut_down(self.now);
        if self.model.store(self.now, duration) {
            return Ok(());
        }
        let message = format!(
            "data of {} does not age: its profile has no retention.retry (the time that one more \
             try to read a page takes)",
            self.name
        );
        Err(DriveError::new(ErrorKind::Usage, message))
    }

    /// Formats the drive, or erases all of it; when that is done.
    fn erased(&mut self, all: bool) -> Result<Instant, DriveError> {
        let outcome = match all {
            true => self.model.secure_erase(self.now),
            false => self.model.format(self.now),
        };
        outcome.map_err(|error| match error {
            FormatError::ReadOnly => {
                DriveError::with_source(ErrorKind::EndOfLife, "the drive cannot be made new", error)
            }
            // What was asked for by name is done or is an error; nothing else is done instead.
            error => DriveError::with_source(
                ErrorKind::Usage,
                "the drive cannot be made new as --make-new says",
                error,
            ),
        })
    }

    /// Says that the drive is worn out, if it has refused a write beyond the first `refused`.
    fn check_alive(&self, refused: u64) -> Result<(), DriveError> {
        let counters = self.model.counters();
        if counters.refused_writes == refused {
            return Ok(());
        }
        let error = EndOfLife { failed_blocks: counters.failed_blocks };
        let written = counters.host_written(self.composition.unit());
        let message = format!("the drive takes no more writes; it took {written}");
        Err(DriveError::with_source(ErrorKind::EndOfLife, message, error))
    }
}

/// How long at least one request of `phase` was with the drive, of the time it `took`. Where
/// requests are sent at a rate there are gaps; then it is the sum of latencies, which is more than
/// the truth where they overlap.
fn busy_time(phase: &Phase, result: &PhaseResult, took: Nanoseconds) -> Nanoseconds {
    if phase.rate.is_none() {
        return took;
    }
    let sum = |latencies: &crate::Latencies| {
        latencies.mean().map_or(Nanoseconds::ZERO, |mean| mean * latencies.count())
    };
    took.min(sum(&result.read_latencies) + sum(&result.write_latencies))
}

/// Builds what a drive is made of, new.
fn built(composition: &Composition, at: Instant) -> Result<Built, DriveError> {
    composition
        .build(at, Condition::New)
        .map_err(|error| DriveError::with_source(ErrorKind::Usage, "make new", error))
}

impl Drive for SimulatedDrive {
    fn description(&self) -> Description {
        Description {
            kind: DriveKind::Simulated,
            name: self.name.clone(),
            capacity: self.model.capacity(),
            block_size: self.model.block_size(),
            engine: "virtual time".to_owned(),
            measures_flash: true,
            caveats: self.caveats.clone(),
            facts: self.facts.iter().cloned().chain(self.made_new_fact()).collect(),
        }
    }

    fn prepare(&mut self, length: ByteLength) -> Result<(), DriveError> {
        let capacity = self.model.capacity();
        if length > capacity {
            return Err(DriveError::new(
                ErrorKind::NoSpace,
                format!(
                    "{} holds {capacity}, and {length} are needed; use a smaller file_size or a \
                     larger drive",
                    self.name
                ),
            ));
        }
        Ok(())
    }

    fn run_phase(
        &mut self,
        phase: &Phase,
        observer: &mut dyn Observer,
    ) -> Result<PhaseResult, DriveError> {
        phase.validate(self.model.capacity(), self.model.block_size())?;
        let (started, refused) = (self.now, self.model.counters().refused_writes);
        let mut result = PhaseResult::begun(started);
        let mut meter = ThroughputMeter::new(phase.interval);
        let outcome = self.model.run(phase, started, &mut result, &mut meter, observer);
        // Whatever the outcome, the drive's time has moved on.
        self.now = self.now.max(outcome.end);
        self.busy += busy_time(phase, &result, self.now.since(started));
        self.check_alive(refused)?;
        if phase.flush_at_end && !outcome.cancelled {
            self.now = self.model.flush(self.now);
        }
        result.elapsed = self.now.since(started);
        result.throughput = meter.finish(result.elapsed);
        if outcome.cancelled { Err(DriveError::cancelled()) } else { Ok(result) }
    }

    fn run_lanes(
        &mut self,
        lanes: Vec<Lane<'_>>,
        observer: &mut dyn Observer,
    ) -> Result<Vec<LaneResult>, DriveError> {
        crate::lanes::check(&lanes)?;
        let (started, refused) = (self.now, self.model.counters().refused_writes);
        let (outcome, end) = lanes::run(&mut *self.model, lanes, self.now, observer);
        // Whatever the outcome, the drive's time has moved on.
        self.now = self.now.max(end);
        self.busy += self.now.since(started);
        self.check_alive(refused)?;
        outcome
    }

    fn flush(&mut self) -> Result<Nanoseconds, DriveError> {
        let before = self.now;
        self.now = self.model.flush(before);
        self.busy += self.now.since(before);
        Ok(self.now.since(before))
    }

    fn write_block(
        &mut self,
        block: Region,
        durability: Durability,
        _: u64,
    ) -> Result<Nanoseconds, DriveError> {
        let (first, count) = self.sectors_of(block)?;
        let (before, refused) = (self.now, self.model.counters().refused_writes);
        self.now = match durability {
            Durability::Cached => self.model.write(before, first, count),
            Durability::Through => self.model.write_through(before, first, count),
        };
        self.busy += self.now.since(before);
        self.check_alive(refused)?;
        Ok(self.now.since(before))
    }

    fn trim(&mut self, region: Region) -> Result<Nanoseconds, DriveError> {
        let (first, count) = self.sectors_of(region)?;
        if !self.model.passes_trim() {
            let name = &self.name;
            let message = format!("{name}: trim does not get through to a drive");
            return Err(DriveError::new(ErrorKind::Unsupported, message));
        }
        let before = self.now;
        self.now = self.model.trim(before, first, count);
        self.busy += self.now.since(before);
        Ok(self.now.since(before))
    }

    fn rest(
        &mut self,
        duration: Nanoseconds,
        observer: &mut dyn Observer,
    ) -> Result<(), DriveError> {
        let until = self.now + duration;
        let start = self.now;
        while self.now < until {
            let step = REST_STEP.min(until.since(self.now));
            self.model.rest(self.now, step);
            self.now += step;
            let progress = Progress {
                bytes_done: ByteLength::ZERO,
                bytes_total: None,
                elapsed: self.now.since(start),
                time_total: Some(duration),
            };
            if observer.progress(&progress) == Control::Cancel {
                return Err(DriveError::cancelled());
            }
        }
        Ok(())
    }

    fn make_new(&mut self) -> Result<(), DriveError> {
        let before = self.now;
        self.now = match self.make_new {
            MakeNew::Factory => {
                let built = built(&self.composition, self.now)?;
                (self.model, self.now) = (built.model, built.from);
                (self.since, self.busy) = (self.now, Nanoseconds::ZERO);
                return Ok(());
            }
            MakeNew::Nothing => {
                let message = "the drive is taken as it is (--make-new none)";
                return Err(DriveError::new(ErrorKind::Unsupported, message));
            }
            MakeNew::Discard => {
                self.trim(Region::first(self.model.capacity()))?;
                self.model.flush(self.now)
            }
            MakeNew::Format => self.erased(false)?,
            MakeNew::SecureErase => self.erased(true)?,
        };
        self.made_new_in = Some(self.now.since(before));
        Ok(())
    }

    fn choose_make_new(&mut self, how: MakeNew) -> Result<(), DriveError> {
        if how == MakeNew::Discard && self.trim_path().end == TrimEnd::Ignored {
            let message = format!(
                "{} takes trims and does nothing, so that discarding it does not make it new; choose \
                 another way (--make-new), or a drive whose trim is on",
                self.name
            );
            return Err(DriveError::new(ErrorKind::Usage, message));
        }
        self.make_new = how;
        Ok(())
    }

    fn now(&self) -> Instant {
        self.now
    }

    fn inside(&self) -> Option<Inside> {
        let (counters, wear) = (self.model.counters(), self.model.wear());
        let configuration = match &self.composition {
            Composition::Ssd(configuration) => Some(&**configuration),
            Composition::Saved(saved) => Some(saved.configuration()),
            Composition::Usb(..) | Composition::Crypt(..) | Composition::Array(_) => None,
        };
        let service = Service {
            counters,
            wear,
            spare: self.model.spare_blocks(),
            busy: self.busy,
            powered_on: self.now.since(self.since),
        };
        let health = configuration.map(|it| it.health(&service));
        let expectation = configuration.and_then(Configuration::expectation);
        let attribution = self.model.attribution();
        let unit = self.composition.unit();
        Some(Inside { unit, counters, wear, attribution, health, expectation })
    }

    fn template(&self) -> Option<&dyn Template> {
        Some(self)
    }

    fn simulated(&mut self) -> Option<&mut SimulatedDrive> {
        Some(self)
    }

    fn physical_capacity(&self) -> Option<ByteLength> {
        match &self.composition {
            Composition::Ssd(configuration) => Some(configuration.geometry.physical_capacity()),
            Composition::Saved(saved) => Some(saved.configuration().geometry.physical_capacity()),
            Composition::Usb(..) | Composition::Crypt(..) | Composition::Array(_) => None,
        }
    }

    fn clean_up(&mut self) -> Result<(), DriveError> {
        Ok(())
    }
}
