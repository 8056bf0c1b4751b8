//! The model as a drive, in virtual time.
//!
//! Phases are run as a closed loop: `depth` requests are in flight, and each answered one is
//! followed by the next at the same instant. Time passes from event to event, so virtual hours take
//! seconds; addresses are drawn some requests ahead so that the model's maps can be fetched before they
//! are needed.

pub(crate) mod answers;
mod as_drive;
mod closed_loop;
mod in_flight;
mod lanes;
mod lasting;
pub(crate) mod model;
mod open_loop;
mod processors;
pub(crate) mod responder;
pub mod saved;
#[cfg(test)]
pub(crate) mod scripted;
mod single;
mod trim_path;

pub use trim_path::{TrimEnd, TrimPath};

use ssdlab_model::Configuration;
use ssdlab_model::age::{AgeError, Past};
use ssdlab_model::bad_blocks::EndOfLife;
use ssdlab_model::make_new::FormatError;
use ssdlab_nand::geometry::GeometryError;
use ssdlab_units::{ByteLength, Instant, Nanoseconds, Sector, SectorCount};

use crate::error::{DriveError, ErrorKind};
use crate::phase::Region;
use crate::recording::Recorder;
use crate::stack::{Built, Composition, Condition, Level, StackError};
use crate::{Drive, Template};
pub use in_flight::Ticket;

use in_flight::InFlight;
use model::{Model, aged_model};
use responder::Kind;

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
    /// True if the report is to know it as a new one.
    began_new: bool,
    composition: Composition,
    model: Box<dyn Model>,
    in_flight: InFlight,
    now: Instant,
    /// When it was made or opened.
    since: Instant,
    /// How long at least one request has been with it since.
    busy: Nanoseconds,
    make_new: MakeNew,
    /// How long making it new took the last time, where that took its own time.
    made_new_in: Option<Nanoseconds>,
    /// Records its inside, and that of the drives that replace it.
    recorder: Option<Recorder>,
}

impl SimulatedDrive {
    /// A new SSD of the given configuration, called `name` in reports.
    ///
    /// # Errors
    /// When the configuration leaves no over-provisioning to collect with.
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
            began_new: false,
            composition,
            model,
            in_flight: InFlight::default(),
            now: from,
            since: from,
            busy: Nanoseconds::ZERO,
            make_new: MakeNew::default(),
            made_new_in: None,
            recorder: None,
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
            began_new: false,
            composition: Composition::Ssd(Box::new(configuration)),
            model,
            in_flight: InFlight::default(),
            now: Instant::START,
            since: Instant::START,
            busy: Nanoseconds::ZERO,
            make_new: MakeNew::default(),
            made_new_in: None,
            recorder: None,
        })
    }

    /// Has `recorder` take pictures of its inside from now on, and of copies of it and of what it is made new
    /// by.
    pub fn record_inside(&mut self, recorder: Recorder) {
        self.model.record_inside(&recorder);
        self.recorder = Some(recorder);
    }

    /// Returns who takes pictures of its inside.
    pub fn recorder(&self) -> Option<&Recorder> {
        self.recorder.as_ref()
    }

    /// Adds what the report should say of the drive.
    pub fn describe(mut self, facts: Vec<(String, String)>, caveats: Vec<String>) -> Self {
        self.facts = facts;
        self.caveats = caveats;
        self
    }

    /// Has the report know that nothing was ever written to it.
    pub fn known_as_new(mut self) -> Self {
        self.began_new = true;
        self
    }

    /// Sends one request at `at`, or now if that is past, whether or not earlier ones were answered.
    /// [`SimulatedDrive::next_answer`] tells when this one is.
    ///
    /// # Errors
    /// When the region does not lie on the drive's blocks.
    pub fn submit(&mut self, at: Instant, request: Request) -> Result<Ticket, DriveError> {
        let (kind, region) = match request {
            Request::Read(region) => (Kind::Read, region),
            Request::Write(region) => (Kind::Write, region),
            Request::WriteThrough(region) => (Kind::WriteThrough, region),
            Request::Trim(region) => (Kind::Trim, region),
            Request::Flush => {
                return Ok(self.in_flight.send(&mut *self.model, at, responder::Request::FLUSH));
            }
        };
        let (first, count) = self.sectors_of(region)?;
        let request = responder::Request { kind, first, count };
        Ok(self.in_flight.send(&mut *self.model, at, request))
    }

    /// Sends one request at `at`, or now if that is past, when no other is under way; returns when it is
    /// answered.
    ///
    /// # Errors
    /// When the region does not lie on the drive's blocks.
    pub fn send(&mut self, at: Instant, request: Request) -> Result<Instant, DriveError> {
        self.submit(at.max(self.now), request)?;
        let (_, at) = self.next_answer(responder::LATEST).expect("every request is answered");
        Ok(at)
    }

    /// Lets the drive's time pass until the next request that was [submitted](SimulatedDrive::submit) is
    /// answered, and no further than `until`. Returns which one it is, and when it is answered.
    pub fn next_answer(&mut self, until: Instant) -> Option<(Ticket, Instant)> {
        let (ticket, at) = self.in_flight.next(&mut *self.model, until)?;
        self.now = self.now.max(at);
        Some((ticket, at))
    }

    /// The layers that a trim passes on its way, and what the drive at its end makes of it.
    pub fn trim_path(&self) -> TrimPath {
        TrimPath::through(&self.composition)
    }

    /// Returns true if all that it has answered outlives a power cut, flushed or not: capacitors
    /// protect the write cache, or it is off, on every drive there is.
    pub fn writes_last(&self) -> bool {
        lasting::writes_last(&self.composition)
    }

    /// Returns true if some drive answers flushes without doing them, and loses what they were to make durable.
    pub fn ignores_flushes(&self) -> bool {
        lasting::ignores_flushes(&self.composition)
    }

    /// Returns true if trim gets as far as a drive (which may ignore it).
    pub fn passes_trim(&self) -> bool {
        self.model.passes_trim()
    }

    /// Lets the drive's time pass until `until`, and until all that was submitted is answered.
    pub fn pass_until(&mut self, until: Instant) {
        while self.next_answer(responder::LATEST).is_some() {}
        self.now = self.now.max(until);
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
        if self.make_new != MakeNew::Nothing {
            copy.make_new()?;
        }
        Ok(Box::new(copy))
    }

    fn mirrored(&self) -> Box<dyn Drive + Send> {
        let array = Level::Raid1.array(vec![self.composition.clone(), self.composition.clone()]);
        Box::new(SimulatedDrive {
            name: format!("raid1({0};{0}),sync=none", self.name),
            facts: self.facts.clone(),
            caveats: self.caveats.clone(),
            began_new: self.began_new,
            model: array.mirror_of(&*self.model),
            composition: Composition::Array(array),
            in_flight: InFlight::default(),
            now: self.now,
            since: self.now,
            busy: Nanoseconds::ZERO,
            make_new: self.make_new,
            made_new_in: None,
            recorder: self.recorder.clone(),
        })
    }
}

impl SimulatedDrive {
    /// One like this, made new, of another composition and name.
    fn new_of(&self, name: String, composition: Composition) -> Result<Self, DriveError> {
        let Built { mut model, from } = built(&composition, self.now)?;
        if let Some(recorder) = &self.recorder {
            model.record_inside(recorder);
        }
        let (facts, caveats) = (self.facts.clone(), self.caveats.clone());
        let busy = Nanoseconds::ZERO;
        Ok(SimulatedDrive {
            name,
            facts,
            caveats,
            began_new: self.began_new,
            composition,
            model,
            in_flight: InFlight::default(),
            now: from,
            since: from,
            busy,
            make_new: self.make_new,
            made_new_in: None,
            recorder: self.recorder.clone(),
        })
    }
}

impl SimulatedDrive {
    /// Returns how it is made new where a protocol asks for that.
    pub fn way_to_make_new(&self) -> MakeNew {
        self.make_new
    }

    /// Returns true if making it new takes another drive from the factory for one that was saved,
    /// so that what was saved plays no part any more.
    pub fn forgets_what_was_saved(&self) -> bool {
        self.make_new == MakeNew::Factory && self.composition.has_saved()
    }

    /// Returns how it was made new, and how long that took.
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
                "the drive cannot be made new as --purge says",
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

/// Builds what a drive is made of, new.
fn built(composition: &Composition, at: Instant) -> Result<Built, DriveError> {
    composition
        .build(at, Condition::New)
        .map_err(|error| DriveError::with_source(ErrorKind::Usage, "make new", error))
}
