//! The trait `Drive` for simulated drives.

use ssdlab_model::Configuration;
use ssdlab_model::health::Service;
use ssdlab_units::{ByteLength, Instant, Nanoseconds, Sector};

use super::responder::{Kind, Request};
use super::{PurgeMethod, SimulatedDrive, TrimEnd, build_new, lanes};
use crate::error::{DriveError, ErrorKind};
use crate::measure::{PhaseResult, ThroughputMeter};
use crate::phase::{Phase, Region};
use crate::stack::Composition;
use crate::{
    Control, Description, Drive, DriveKind, Durability, Inside, Lane, LaneResult, Observer,
    Progress, Template,
};

/// Maximum span of a rest that is simulated between two calls of the observer.
const REST_STEP: Nanoseconds = Nanoseconds::from_secs(60);

impl Drive for SimulatedDrive {
    fn description(&self) -> Description {
        Description {
            kind: DriveKind::Simulated,
            name: self.name.clone(),
            capacity: self.model.capacity(),
            block_size: self.model.block_size(),
            engine: "virtual time".to_owned(),
            measures_flash: true,
            began_new: self.began_new,
            caveats: self.caveats.clone(),
            facts: self.facts.iter().cloned().chain(self.purge_fact()).collect(),
        }
    }

    fn prepare(&mut self, length: ByteLength) -> Result<(), DriveError> {
        let capacity = self.model.capacity();
        if length > capacity {
            return Err(DriveError::new(
                ErrorKind::NoSpace,
                format!(
                    "{} holds {capacity}, and {length} are needed; ask for less, or use a larger \
                     drive",
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
        self.model.begin_step(&phase.name);
        let outcome = self.model.run(phase, started, &mut result, &mut meter, observer);
        // The drive's time has moved on, whatever the outcome.
        self.now = self.now.max(outcome.end);
        self.busy += busy_time(phase, &result, self.now.since(started));
        self.check_alive(refused)?;
        if phase.flush_at_end && !outcome.cancelled {
            self.now = self.model.submit_and_wait(self.now, Request::FLUSH);
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
        let names: Vec<&str> = lanes.iter().map(|it| it.name.as_str()).collect();
        self.model.begin_step(&names.join(", "));
        let (outcome, end) = lanes::run(&mut *self.model, lanes, self.now, observer);
        // The drive's time has moved on, whatever the outcome.
        self.now = self.now.max(end);
        self.busy += self.now.since(started);
        self.check_alive(refused)?;
        outcome
    }

    fn flush(&mut self) -> Result<Nanoseconds, DriveError> {
        let before = self.now;
        self.now = self.model.submit_and_wait(before, Request::FLUSH);
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
        let kind = match durability {
            Durability::Cached => Kind::Write,
            Durability::Through => Kind::WriteThrough,
        };
        self.now = self.model.submit_and_wait(before, Request { kind, first, count });
        self.model.record_if_due();
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
        self.model.begin_step("trim");
        self.now = self.model.submit_and_wait(before, Request { kind: Kind::Trim, first, count });
        self.model.record_if_due();
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

    fn purge(&mut self) -> Result<(), DriveError> {
        let before = self.now;
        self.now = match self.purge_method {
            PurgeMethod::Factory => {
                let built = build_new(&self.composition, self.now)?;
                (self.model, self.now) = (built.model, built.ready_at);
                if let Some(recorder) = &self.recorder {
                    self.model.record_inside(recorder);
                }
                (self.powered_on_at, self.busy) = (self.now, Nanoseconds::ZERO);
                return Ok(());
            }
            PurgeMethod::Nothing => {
                let message = "the drive is taken as it is (--purge none)";
                return Err(DriveError::new(ErrorKind::Unsupported, message));
            }
            PurgeMethod::Discard => {
                self.trim(Region::first(self.model.capacity()))?;
                self.model.submit_and_wait(self.now, Request::FLUSH)
            }
            PurgeMethod::Format => self.format_or_secure_erase(false)?,
            PurgeMethod::SecureErase => self.format_or_secure_erase(true)?,
        };
        self.purge_duration = Some(self.now.since(before));
        Ok(())
    }

    fn set_purge_method(&mut self, how: PurgeMethod) -> Result<(), DriveError> {
        if how == PurgeMethod::Discard && self.trim_path().end == TrimEnd::Ignored {
            let message = format!(
                "{} accepts trims and ignores them, so that a discard does not purge it; choose \
                 another --purge, or a drive with trim=on",
                self.name
            );
            return Err(DriveError::new(ErrorKind::Usage, message));
        }
        self.purge_method = how;
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
            powered_on: self.now.since(self.powered_on_at),
        };
        let health = configuration.map(|it| it.health(&service));
        let expectation = configuration.and_then(Configuration::expectation);
        let attribution = self.model.attribution();
        let unit = self.composition.unit();
        let unused = self.model.unused_flash();
        Some(Inside { unit, counters, wear, unused, attribution, health, expectation })
    }

    fn pages_by_die(&self, region: Region) -> Option<Vec<u32>> {
        self.recorder.as_ref()?;
        self.model.pages_by_die(Sector::at(region.offset), region.length)
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

/// Returns the time, of the time that `phase` took, in which at least one request was with the drive. If
/// requests are sent at a rate there are gaps: then it is the sum of latencies, which is too much where
/// they overlap.
fn busy_time(phase: &Phase, result: &PhaseResult, took: Nanoseconds) -> Nanoseconds {
    if phase.rate.is_none() {
        return took;
    }
    let sum = |latencies: &crate::Latencies| {
        latencies.mean().map_or(Nanoseconds::ZERO, |mean| mean * latencies.count())
    };
    took.min(sum(&result.read_latencies) + sum(&result.write_latencies))
}
