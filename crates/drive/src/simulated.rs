//! The model as a drive, in virtual time.
//!
//! Phases are run as a closed loop: `depth` requests are in flight, and each answered one is
//! followed by the next at the same instant. Everything is computed in one pass over the
//! requests, so virtual hours take seconds; addresses are drawn some requests ahead so that the
//! model's maps can be fetched before they are needed.

mod closed_loop;

use ssdlab_model::geometry::GeometryError;
use ssdlab_model::units::{ByteLength, Instant, LogicalUnit, Nanoseconds};
use ssdlab_model::{Configuration, Ssd};

use crate::error::{DriveError, ErrorKind};
use crate::measure::{PhaseResult, ThroughputMeter};
use crate::phase::{Phase, Region};
use crate::{Control, Description, Drive, DriveKind, Inside, Observer, Progress};

/// Longest stretch of a rest that is simulated between two looks at the observer.
const REST_STEP: Nanoseconds = Nanoseconds::from_secs(60);

/// A simulated drive.
#[derive(Clone, Debug)]
pub struct SimulatedDrive {
    name: String,
    facts: Vec<(String, String)>,
    caveats: Vec<String>,
    configuration: Configuration,
    ssd: Ssd,
    now: Instant,
}

impl SimulatedDrive {
    /// A new drive of the given configuration, called `name` in reports.
    pub fn new(
        name: impl Into<String>,
        configuration: Configuration,
    ) -> Result<Self, GeometryError> {
        let ssd = Ssd::new(&configuration)?;
        Ok(SimulatedDrive {
            name: name.into(),
            facts: Vec::new(),
            caveats: Vec::new(),
            configuration,
            ssd,
            now: Instant::START,
        })
    }

    /// Adds what the report should say of the drive.
    pub fn describe(mut self, facts: Vec<(String, String)>, caveats: Vec<String>) -> Self {
        self.facts = facts;
        self.caveats = caveats;
        self
    }

    /// The model behind the drive.
    pub fn model(&self) -> &Ssd {
        &self.ssd
    }

    /// The model behind the drive, to look at or disturb between phases.
    pub fn model_mut(&mut self) -> &mut Ssd {
        &mut self.ssd
    }

    fn unit_size(&self) -> ByteLength {
        self.configuration.geometry.unit_size()
    }

    /// The units that `region` covers, as first unit and count.
    fn units_of(&self, region: Region) -> Result<(LogicalUnit, u32), DriveError> {
        let unit = self.unit_size();
        let capacity = self.configuration.geometry.capacity();
        let aligned = region.offset.is_multiple_of(unit) && region.length.is_multiple_of(unit);
        if !aligned || region.end() > capacity || region.length == ByteLength::ZERO {
            return Err(DriveError::new(
                ErrorKind::Usage,
                format!(
                    "{} bytes from {} are not whole units of {unit} within {capacity}",
                    region.length.bytes(),
                    region.offset.bytes()
                ),
            ));
        }
        let first = region.offset.whole(unit) as u32;
        Ok((LogicalUnit(first), region.length.whole(unit) as u32))
    }
}

impl Drive for SimulatedDrive {
    fn description(&self) -> Description {
        Description {
            kind: DriveKind::Simulated,
            name: self.name.clone(),
            capacity: self.configuration.geometry.capacity(),
            block_size: self.unit_size(),
            engine: "virtual time".to_owned(),
            measures_flash: true,
            caveats: self.caveats.clone(),
            facts: self.facts.clone(),
        }
    }

    fn prepare(&mut self, length: ByteLength) -> Result<(), DriveError> {
        let capacity = self.configuration.geometry.capacity();
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
        phase.validate(self.configuration.geometry.capacity(), self.unit_size())?;
        let started = self.now;
        let mut result = PhaseResult::begun(started);
        let mut meter = ThroughputMeter::new(phase.interval);
        let outcome = closed_loop::run(
            &mut self.ssd,
            phase,
            self.configuration.geometry.unit_size(),
            started,
            &mut result,
            &mut meter,
            observer,
        );
        // Whatever the outcome, the drive's time has moved on.
        self.now = self.now.max(outcome.end);
        if phase.flush_at_end && !outcome.cancelled {
            self.now = self.ssd.flush(self.now);
        }
        result.elapsed = self.now.since(started);
        result.throughput = meter.finish(result.elapsed);
        if outcome.cancelled { Err(DriveError::cancelled()) } else { Ok(result) }
    }

    fn flush(&mut self) -> Result<Nanoseconds, DriveError> {
        let before = self.now;
        self.now = self.ssd.flush(before);
        Ok(self.now.since(before))
    }

    fn trim(&mut self, region: Region) -> Result<Nanoseconds, DriveError> {
        let (first, units) = self.units_of(region)?;
        let before = self.now;
        self.now = self.ssd.trim(before, first, units);
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
            self.ssd.rest(self.now, step);
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
        self.ssd = Ssd::new(&self.configuration)
            .map_err(|error| DriveError::with_source(ErrorKind::Usage, "make new", error))?;
        Ok(())
    }

    fn now(&self) -> Instant {
        self.now
    }

    fn inside(&self) -> Option<Inside> {
        Some(Inside { counters: self.ssd.counters(), wear: self.ssd.wear() })
    }

    fn clean_up(&mut self) -> Result<(), DriveError> {
        Ok(())
    }
}
