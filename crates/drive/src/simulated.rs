//! Simulated drives: the SSD model as a `Drive`, in virtual time.
//!
//! Phases are run as a closed loop: `depth` requests are in flight, and each answered one is followed by
//! the next, at the same instant unless a rate limits them. Phases with an open rate are run as an open
//! loop. Time passes from event to event, so virtual hours take seconds. Addresses are drawn some requests
//! ahead, so that the model's maps can be prefetched into the processor's cache.

pub(crate) mod answer_queue;
mod as_drive;
mod closed_loop;
mod durability;
mod in_flight;
mod lanes;
pub(crate) mod model;
mod open_loop;
mod processors;
pub(crate) mod responder;
pub mod saved;
#[cfg(test)]
pub(crate) mod scripted;
mod single_ssd;
mod trim_path;

pub use trim_path::{TrimEnd, TrimPath};

use ssdlab_model::Configuration;
use ssdlab_model::bad_blocks::EndOfLife;
use ssdlab_model::format::FormatError;
use ssdlab_model::precondition::{Past, PreconditionError};
use ssdlab_nand::geometry::GeometryError;
use ssdlab_units::{ByteLength, Instant, Nanoseconds, Sector, SectorCount};

use crate::error::{DriveError, ErrorKind};
use crate::phase::Region;
use crate::recording::Recorder;
use crate::stack::{Built, Composition, InitialState, Level, StackError};
use crate::{Drive, Template};
pub use in_flight::Ticket;

use in_flight::InFlight;
use model::{Model, preconditioned_model};
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
    /// Makes all answered writes durable.
    Flush,
    /// Trims a region. If trim does not reach a drive, the request is answered and dropped.
    Trim(Region),
}

/// Purge method of a simulated drive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PurgeMethod {
    /// Replaced by another drive from the factory, without wear, in no time.
    #[default]
    Factory,
    /// Trim of the whole drive.
    Discard,
    /// Format that begins the map anew and erases nothing.
    Format,
    /// Format or ATA command that erases every block.
    SecureErase,
    /// No purge: the drive is used as it is.
    Nothing,
}

impl PurgeMethod {
    /// Returns the method as words of a sentence.
    pub fn words(self) -> &'static str {
        match self {
            PurgeMethod::Factory => "replaced by a new one",
            PurgeMethod::Discard => "discarded as a whole",
            PurgeMethod::Format => "formatted without erase",
            PurgeMethod::SecureErase => "erased (secure erase)",
            PurgeMethod::Nothing => "taken as it is",
        }
    }
}

/// A simulated drive.
#[derive(Clone)]
pub struct SimulatedDrive {
    name: String,
    facts: Vec<(String, String)>,
    caveats: Vec<String>,
    /// True if the report is to describe the drive as new.
    began_new: bool,
    composition: Composition,
    model: Box<dyn Model>,
    in_flight: InFlight,
    now: Instant,
    /// Moment at which the drive was made or opened.
    powered_on_at: Instant,
    /// Time since then in which at least one request was with the drive.
    busy: Nanoseconds,
    purge_method: PurgeMethod,
    /// Duration of the latest purge; `None` if there was none, or it took no time.
    purge_duration: Option<Nanoseconds>,
    /// Records the internal state of the drive, and of the drives that replace it.
    recorder: Option<Recorder>,
}

impl SimulatedDrive {
    /// Returns a new SSD of the given configuration, called `name` in reports.
    ///
    /// # Errors
    /// Returns an error if the configuration leaves no over-provisioning for garbage collection.
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

    /// Returns a drive, or stack of drives, of this composition, called `name` in reports. Its time begins
    /// after the initial synchronisation of its arrays.
    ///
    /// # Errors
    /// Returns an error if the drive cannot be built.
    pub fn of(name: impl Into<String>, composition: Composition) -> Result<Self, StackError> {
        let Built { model, ready_at } = composition.build(Instant::START, InitialState::AsSaved)?;
        Ok(SimulatedDrive {
            name: name.into(),
            facts: Vec::new(),
            caveats: Vec::new(),
            began_new: false,
            composition,
            model,
            in_flight: InFlight::default(),
            now: ready_at,
            powered_on_at: ready_at,
            busy: Nanoseconds::ZERO,
            purge_method: PurgeMethod::default(),
            purge_duration: None,
            recorder: None,
        })
    }

    /// Returns an SSD that is full and in the steady state of random writes, without having been written;
    /// see [`ssdlab_model::precondition`].
    ///
    /// # Errors
    /// Returns an error if there is no closed form for the drive, or if no such drive can exist.
    pub fn preconditioned(
        name: impl Into<String>,
        configuration: Configuration,
        past: Past,
    ) -> Result<Self, PreconditionError> {
        let model = preconditioned_model(&configuration, past)?;
        Ok(SimulatedDrive {
            name: name.into(),
            facts: Vec::new(),
            caveats: Vec::new(),
            began_new: false,
            composition: Composition::Ssd(Box::new(configuration)),
            model,
            in_flight: InFlight::default(),
            now: Instant::START,
            powered_on_at: Instant::START,
            busy: Nanoseconds::ZERO,
            purge_method: PurgeMethod::default(),
            purge_duration: None,
            recorder: None,
        })
    }

    /// Has `recorder` take pictures of the drive's internal state from now on, of copies of the drive, and
    /// of the drive that replaces it when it is purged.
    pub fn record_inside(&mut self, recorder: Recorder) {
        self.model.record_inside(&recorder);
        self.recorder = Some(recorder);
    }

    /// Returns the recorder of the drive's internal state, or `None` if it is not recorded.
    pub fn recorder(&self) -> Option<&Recorder> {
        self.recorder.as_ref()
    }

    /// Sets the facts and caveats of the drive for the report.
    pub fn describe(mut self, facts: Vec<(String, String)>, caveats: Vec<String>) -> Self {
        self.facts = facts;
        self.caveats = caveats;
        self
    }

    /// Notes for the report that nothing was ever written to the drive.
    pub fn mark_as_new(mut self) -> Self {
        self.began_new = true;
        self
    }

    /// Sends one request at `at`, or now if `at` is past, whether or not earlier ones were answered.
    /// [`SimulatedDrive::next_answer`] returns its answer.
    ///
    /// # Errors
    /// Returns an error if the region does not lie on the drive's blocks.
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

    /// Sends one request at `at`, or now if `at` is past. No other request may be in flight. Returns the
    /// moment at which it is answered.
    ///
    /// # Errors
    /// Returns an error if the region does not lie on the drive's blocks.
    pub fn send(&mut self, at: Instant, request: Request) -> Result<Instant, DriveError> {
        self.submit(at.max(self.now), request)?;
        let (_, at) = self.next_answer(responder::LATEST).expect("every request is answered");
        Ok(at)
    }

    /// Lets the drive's time pass until the next request that was [submitted](SimulatedDrive::submit) is
    /// answered, but not beyond `until`. Returns the request and the moment of its answer.
    pub fn next_answer(&mut self, until: Instant) -> Option<(Ticket, Instant)> {
        let (ticket, at) = self.in_flight.next(&mut *self.model, until)?;
        self.now = self.now.max(at);
        Some((ticket, at))
    }

    /// Returns the layers that a trim passes on its way, and the effect on the drive at the end.
    pub fn trim_path(&self) -> TrimPath {
        TrimPath::through(&self.composition)
    }

    /// Returns true if all answered writes survive a power cut, flushed or not: on every drive the write
    /// cache has power-loss protection, or is off.
    pub fn writes_survive_power_cut(&self) -> bool {
        durability::writes_survive_power_cut(&self.composition)
    }

    /// Returns true if some drive answers flushes without doing them, and loses the data that they should
    /// have made durable.
    pub fn ignores_flushes(&self) -> bool {
        durability::ignores_flushes(&self.composition)
    }

    /// Returns true if trim reaches a drive (which may ignore it).
    pub fn passes_trim(&self) -> bool {
        self.model.passes_trim()
    }

    /// Lets the drive's time pass until `until`, and until all submitted requests are answered.
    pub fn advance_to(&mut self, until: Instant) {
        while self.next_answer(responder::LATEST).is_some() {}
        self.now = self.now.max(until);
    }

    /// Returns the sectors that `region` covers.
    fn sectors_of(&self, region: Region) -> Result<(Sector, SectorCount), DriveError> {
        let (unit, capacity) = (self.model.block_size(), self.model.capacity());
        let aligned = region.offset.is_multiple_of(unit) && region.length.is_multiple_of(unit);
        if !aligned || region.end() > capacity || region.length == ByteLength::ZERO {
            return Err(DriveError::new(
                ErrorKind::Usage,
                format!(
                    "{} bytes at offset {} are not multiples of {unit} within {capacity}",
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

    fn copy_purged(&self) -> Result<Box<dyn Drive + Send>, DriveError> {
        if self.purge_method == PurgeMethod::Factory {
            return Ok(Box::new(self.rebuild_as(self.name.clone(), self.composition.clone())?));
        }
        let mut copy = self.clone();
        if self.purge_method != PurgeMethod::Nothing {
            copy.purge()?;
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
            powered_on_at: self.now,
            busy: Nanoseconds::ZERO,
            purge_method: self.purge_method,
            purge_duration: None,
            recorder: self.recorder.clone(),
        })
    }
}

impl SimulatedDrive {
    /// Returns a new drive like this one, of another composition and name.
    fn rebuild_as(&self, name: String, composition: Composition) -> Result<Self, DriveError> {
        let Built { mut model, ready_at } = build_new(&composition, self.now)?;
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
            now: ready_at,
            powered_on_at: ready_at,
            busy,
            purge_method: self.purge_method,
            purge_duration: None,
            recorder: self.recorder.clone(),
        })
    }
}

impl SimulatedDrive {
    /// Returns the purge method that is used when a protocol asks for a purge.
    pub fn purge_method(&self) -> PurgeMethod {
        self.purge_method
    }

    /// Returns true if a purge replaces the drive by one from the factory although it was loaded from a
    /// saved state, so that the saved state has no effect any more.
    pub fn purge_discards_saved_state(&self) -> bool {
        self.purge_method == PurgeMethod::Factory && self.composition.has_saved()
    }

    /// Returns the purge method and the duration of the purge as a fact for the report.
    fn purge_fact(&self) -> Option<(String, String)> {
        let words = match (self.purge_method, self.purge_duration) {
            (PurgeMethod::Factory, _) => return None,
            (how, None) => format!("{} where the protocol asks for a new drive", how.words()),
            (how, Some(took)) => format!("{}, which took {took}", how.words()),
        };
        Some(("purged".to_owned(), words))
    }

    /// Stores the drive for `duration` without power, after the data in its RAM was written to flash: the
    /// data ages.
    ///
    /// # Errors
    /// Returns an error if the data of this drive does not age according to its profile.
    pub fn store(&mut self, duration: Nanoseconds) -> Result<(), DriveError> {
        self.now = self.model.shut_down(self.now);
        if self.model.store(self.now, duration) {
            return Ok(());
        }
        let message = format!(
            "data of {} does not age: its profile does not set retention.retry (the time of a read \
             retry)",
            self.name
        );
        Err(DriveError::new(ErrorKind::Usage, message))
    }

    /// Formats the drive, or erases all of it; returns the moment at which that is done.
    fn format_or_secure_erase(&mut self, all: bool) -> Result<Instant, DriveError> {
        let outcome = match all {
            true => self.model.secure_erase(self.now),
            false => self.model.format(self.now),
        };
        outcome.map_err(|error| match error {
            FormatError::ReadOnly => {
                DriveError::with_source(ErrorKind::EndOfLife, "the drive cannot be purged", error)
            }
            // A method that the user named is carried out or fails; there is no fallback.
            error => DriveError::with_source(
                ErrorKind::Usage,
                "the drive cannot be purged as --purge asks",
                error,
            ),
        })
    }

    /// Returns an error if the drive is worn out: if it has refused more writes than `refused`.
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

/// Builds a drive of this composition, as new.
fn build_new(composition: &Composition, at: Instant) -> Result<Built, DriveError> {
    composition.build(at, InitialState::New).map_err(|error| {
        DriveError::with_source(ErrorKind::Usage, "cannot make a new drive", error)
    })
}
