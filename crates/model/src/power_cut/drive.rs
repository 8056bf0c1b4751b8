//! A drive of any mapping scheme that power can be cut from, event by event.

use super::faults::Fault;
use super::recording::{Misuse, Recording, Taken, Version};
use crate::counters::Counters;
use crate::ftl::{Answer, Command, Host, Opening, Port, RequestTag, Resting, Ssd, TornOperations};
use crate::geometry::{Geometry, GeometryError};
use crate::mapping::cached::CachedMap;
use crate::mapping::extent::ExtentMap;
use crate::mapping::{MappingScheme, PageMap};
use crate::recovery::{Recovery, RecoveryError};
use crate::ssd::Configuration;
use crate::units::{Instant, LogicalUnit, Nanoseconds};

/// As late as anything is: nothing is due behind it.
const LATEST: Instant = Instant::from_nanos(u64::MAX - 1);

/// A drive with flash that remembers, whichever way it maps.
#[derive(Clone, Debug)]
pub enum CutDrive {
    /// The whole map in RAM, or a map by block with log blocks.
    Page(Box<Ssd<PageMap, Recording>>),
    /// The map on flash.
    Cached(Box<Ssd<CachedMap, Recording>>),
    /// Extents.
    Extent(Box<Ssd<ExtentMap, Recording>>),
}

/// A drive that recovers from a power cut and takes no command yet.
#[derive(Clone, Debug)]
pub enum CutOpening {
    /// The whole map in RAM, or a map by block with log blocks.
    Page(Box<Opening<PageMap, Recording>>),
    /// The map on flash.
    Cached(Box<Opening<CachedMap, Recording>>),
    /// Extents.
    Extent(Box<Opening<ExtentMap, Recording>>),
}

/// All that a power cut would leave, as far as it has to be told from what another one leaves: two that are
/// alike leave a drive that opens alike.
#[derive(Clone, Debug, PartialEq)]
pub struct Left {
    flash: (u64, u64),
    torn: TornOperations,
}

/// Does the same with the drive, whichever it is.
macro_rules! each {
    ($kind:ident, $drive:expr, $ssd:ident => $does:expr) => {
        match $drive {
            $kind::Page($ssd) => $does,
            $kind::Cached($ssd) => $does,
            $kind::Extent($ssd) => $does,
        }
    };
}

/// A host that does nothing but listen.
#[derive(Default)]
struct Listener(Vec<Answer>);

impl Host for Listener {
    const IS_ALONE: bool = false;

    fn answered(&mut self, _: &mut Port<'_>, answer: Answer) -> Option<LogicalUnit> {
        self.0.push(answer);
        None
    }
}

impl CutDrive {
    /// Returns a new drive, with `fault` planted in it.
    ///
    /// # Errors
    /// When the configuration is not sound.
    ///
    /// # Panics
    /// When the write buffer holds less than two program units; profiles check that.
    pub fn new(configuration: &Configuration, fault: Option<Fault>) -> Result<Self, GeometryError> {
        configuration.check_mapping()?;
        let geometry = &configuration.geometry;
        let mut media = Recording::new(geometry);
        if let Some(fault) = fault {
            media.lie(fault);
        }
        Ok(match configuration.mechanisms.mapping {
            MappingScheme::Page | MappingScheme::LogBlock => {
                let map = PageMap::new(geometry.logical_units());
                CutDrive::Page(Box::new(Ssd::with(configuration, map, media)?))
            }
            MappingScheme::Cached => {
                let map = CachedMap::new(configuration)?;
                CutDrive::Cached(Box::new(Ssd::with(configuration, map, media)?))
            }
            MappingScheme::Extent => {
                let map = ExtentMap::new(geometry, configuration.mechanisms.extents);
                CutDrive::Extent(Box::new(Ssd::with(configuration, map, media)?))
            }
        })
    }

    /// Returns the drive's shape.
    pub fn geometry(&self) -> &Geometry {
        each!(CutDrive, self, ssd => ssd.geometry())
    }

    /// Returns the instant of the latest thing that has happened.
    pub fn now(&self) -> Instant {
        each!(CutDrive, self, ssd => ssd.now())
    }

    /// Returns when the next thing happens, if anything will.
    pub fn next_due(&self) -> Option<Instant> {
        each!(CutDrive, self, ssd => ssd.next_due())
    }

    /// Sends a command at `at`.
    ///
    /// # Panics
    /// When its range does not lie within the drive.
    pub fn submit(&mut self, at: Instant, tag: RequestTag, command: Command) {
        each!(CutDrive, self, ssd => ssd.port().submit(at, tag, command));
    }

    /// Lets the next thing happen, if there is any. Returns what was answered with that.
    pub fn step(&mut self) -> Vec<Answer> {
        let mut host = Listener::default();
        each!(CutDrive, self, ssd => ssd.step(LATEST, &mut host));
        host.0
    }

    /// Begins to leave the drive alone.
    pub fn begin_rest(&mut self, from: Instant, duration: Nanoseconds) -> Resting {
        each!(CutDrive, self, ssd => ssd.begin_rest(from, duration))
    }

    /// Lets the next thing happen of what a drive does that is left alone. Returns whether there was any.
    ///
    /// # Panics
    /// When a request is under way.
    pub fn step_at_rest(&mut self, resting: &mut Resting) -> bool {
        each!(CutDrive, self, ssd => ssd.step_at_rest(resting))
    }

    /// Returns what the drive has taken since this was asked for the last time, in that order.
    pub fn take_taken(&mut self) -> Vec<Taken> {
        each!(CutDrive, self, ssd => ssd.media_mut().take_taken())
    }

    /// Returns the first program that flash cannot carry out, if there was one.
    pub fn misuse(&self) -> Option<Misuse> {
        each!(CutDrive, self, ssd => ssd.media().misuse())
    }

    /// Returns what tells a power cut now from others. `capacitors_save` what is in the write buffer, or not.
    pub fn left_by_cut(&self, capacitors_save: bool) -> Left {
        each!(CutDrive, self, ssd => Left {
            flash: ssd.media().state(capacitors_save),
            torn: ssd.torn_by_power_cut(),
        })
    }

    /// Cuts power now: what is left is the flash. See [`Ssd::power_cut`].
    #[must_use]
    pub fn power_cut(self) -> Recording {
        each!(CutDrive, self, ssd => ssd.power_cut())
    }

    /// Returns which write of the host's `unit` holds the data of; nothing when it holds none, or zeros that
    /// fill a run of extents.
    pub fn version_of(&self, unit: LogicalUnit) -> Option<Version> {
        each!(CutDrive, self, ssd => {
            let version = ssd.place_of(unit).map(|place| ssd.media().version_at(place));
            version.filter(|&version| version > 0)
        })
    }

    /// Returns what it has done since it was made, or opened.
    pub fn counters(&self) -> Counters {
        each!(CutDrive, self, ssd => ssd.counters())
    }

    /// Checks what must hold between requests. Walks the whole drive.
    ///
    /// # Panics
    /// When anything is wrong, saying what.
    pub fn check_invariants(&self) {
        each!(CutDrive, self, ssd => ssd.check_invariants());
    }
}

impl CutOpening {
    /// Begins to open a drive from what is on `media`, from `at` on; `fault` is planted in recovery and in
    /// the drive.
    ///
    /// # Errors
    /// When the flash holds what this drive cannot have written, or has no room left.
    ///
    /// # Panics
    /// When the write buffer holds less than two program units; profiles check that.
    pub fn begin(
        configuration: &Configuration,
        mut media: Recording,
        at: Instant,
        fault: Option<Fault>,
    ) -> Result<Self, RecoveryError> {
        if let Some(fault) = fault {
            media.lie(fault);
        }
        let geometry = &configuration.geometry;
        Ok(match configuration.mechanisms.mapping {
            MappingScheme::Page | MappingScheme::LogBlock => {
                let map = PageMap::new(geometry.logical_units());
                CutOpening::Page(Box::new(Opening::begin(configuration, map, media, at)?))
            }
            MappingScheme::Cached => {
                let map = CachedMap::new(configuration)?;
                CutOpening::Cached(Box::new(Opening::begin(configuration, map, media, at)?))
            }
            MappingScheme::Extent => {
                let map = ExtentMap::new(geometry, configuration.mechanisms.extents);
                CutOpening::Extent(Box::new(Opening::begin(configuration, map, media, at)?))
            }
        })
    }

    /// Lets the next thing happen while the host waits. Returns whether there was any.
    pub fn step(&mut self) -> bool {
        each!(CutOpening, self, opening => opening.step())
    }

    /// Returns the drive as it is now.
    pub fn drive(&self) -> CutDrive {
        match self {
            CutOpening::Page(it) => CutDrive::Page(Box::new(it.drive().clone())),
            CutOpening::Cached(it) => CutDrive::Cached(Box::new(it.drive().clone())),
            CutOpening::Extent(it) => CutDrive::Extent(Box::new(it.drive().clone())),
        }
    }

    /// Returns what tells a power cut now from others. `capacitors_save` what is in the write buffer, or not.
    pub fn left_by_cut(&self, capacitors_save: bool) -> Left {
        each!(CutOpening, self, opening => Left {
            flash: opening.drive().media().state(capacitors_save),
            torn: opening.drive().torn_by_power_cut(),
        })
    }

    /// Lets the host in, when there is room. Returns the drive and what recovery did.
    pub fn finish(self) -> (CutDrive, Recovery) {
        match self {
            CutOpening::Page(opening) => {
                let (ssd, recovery) = opening.finish();
                (CutDrive::Page(Box::new(ssd)), recovery)
            }
            CutOpening::Cached(opening) => {
                let (ssd, recovery) = opening.finish();
                (CutDrive::Cached(Box::new(ssd)), recovery)
            }
            CutOpening::Extent(opening) => {
                let (ssd, recovery) = opening.finish();
                (CutDrive::Extent(Box::new(ssd)), recovery)
            }
        }
    }
}
