//! A drive of any mapping scheme that runs event by event, with power that can be cut at any event.

use super::faults::Fault;
use super::recording::{Accepted, Misuse, Recording, Version};
use crate::counters::Counters;
use crate::ftl::{
    Answer, Command, Host, IdlePeriod, Opening, Port, RequestTag, Ssd, TornOperations,
};
use crate::geometry::{Geometry, GeometryError};
use crate::mapping::cached::CachedMap;
use crate::mapping::extent::ExtentMap;
use crate::mapping::{MappingScheme, PageMap};
use crate::recovery::{Recovery, RecoveryError};
use crate::ssd::Configuration;
use crate::units::{Instant, LogicalUnit, Nanoseconds};

/// Latest instant: no event is due after it.
const LATEST: Instant = Instant::from_nanos(u64::MAX - 1);

/// A drive on flash that records its content, with any mapping scheme.
#[derive(Clone, Debug)]
pub enum CutDrive {
    /// The whole map in RAM, or a map by block with log blocks.
    Page(Box<Ssd<PageMap, Recording>>),
    /// The map on flash.
    Cached(Box<Ssd<CachedMap, Recording>>),
    /// A map of extents.
    Extent(Box<Ssd<ExtentMap, Recording>>),
}

/// A drive that recovers from a power cut and does not take commands yet.
#[derive(Clone, Debug)]
pub enum CutOpening {
    /// The whole map in RAM, or a map by block with log blocks.
    Page(Box<Opening<PageMap, Recording>>),
    /// The map on flash.
    Cached(Box<Opening<CachedMap, Recording>>),
    /// A map of extents.
    Extent(Box<Opening<ExtentMap, Recording>>),
}

/// Fingerprint of the state that a power cut would leave: if two are equal, the drive opens in the same way after
/// both cuts.
#[derive(Clone, Debug, PartialEq)]
pub struct CutState {
    flash: (u64, u64),
    torn: TornOperations,
}

/// Does the same with the drive of each mapping scheme.
macro_rules! each {
    ($kind:ident, $drive:expr, $ssd:ident => $does:expr) => {
        match $drive {
            $kind::Page($ssd) => $does,
            $kind::Cached($ssd) => $does,
            $kind::Extent($ssd) => $does,
        }
    };
}

/// A host that only collects answers.
#[derive(Default)]
struct Listener(Vec<Answer>);

impl Host for Listener {
    fn is_alone(&self) -> bool {
        false
    }

    fn answered(&mut self, _: &mut Port<'_>, answer: Answer) -> Option<LogicalUnit> {
        self.0.push(answer);
        None
    }
}

impl CutDrive {
    /// Returns a new drive with `fault` planted in it.
    ///
    /// # Errors
    /// Returns an error if the configuration makes no drive.
    ///
    /// # Panics
    /// Panics if the write buffer holds less than two program units; profiles check that.
    pub fn new(configuration: &Configuration, fault: Option<Fault>) -> Result<Self, GeometryError> {
        configuration.check_mapping()?;
        let geometry = &configuration.geometry;
        let mut media = Recording::new(geometry);
        if let Some(fault) = fault {
            media.inject_fault(fault);
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

    /// Returns the geometry of the drive.
    pub fn geometry(&self) -> &Geometry {
        each!(CutDrive, self, ssd => ssd.geometry())
    }

    /// Returns the instant of the latest event.
    pub fn now(&self) -> Instant {
        each!(CutDrive, self, ssd => ssd.now())
    }

    /// Returns the instant of the next event, or `None` if there is none.
    pub fn next_due(&self) -> Option<Instant> {
        each!(CutDrive, self, ssd => ssd.next_due())
    }

    /// Sends a command at `at`.
    ///
    /// # Panics
    /// Panics if the range of the command does not lie within the drive.
    pub fn submit(&mut self, at: Instant, tag: RequestTag, command: Command) {
        each!(CutDrive, self, ssd => ssd.port().submit(at, tag, command));
    }

    /// Carries out the next event, if there is one. Returns the answers that it gave.
    pub fn step(&mut self) -> Vec<Answer> {
        let mut host = Listener::default();
        each!(CutDrive, self, ssd => ssd.single_step(LATEST, &mut host));
        host.0
    }

    /// Begins an idle period of `duration`.
    pub fn begin_idle(&mut self, from: Instant, duration: Nanoseconds) -> IdlePeriod {
        each!(CutDrive, self, ssd => ssd.begin_idle(from, duration))
    }

    /// Carries out the next event of an idle drive. Returns true if there was one.
    ///
    /// # Panics
    /// Panics if a request is in flight.
    pub fn step_idle(&mut self, idle: &mut IdlePeriod) -> bool {
        each!(CutDrive, self, ssd => ssd.step_idle(idle))
    }

    /// Returns the writes and trims that the drive has taken since the last call, in order.
    pub fn take_accepted(&mut self) -> Vec<Accepted> {
        each!(CutDrive, self, ssd => ssd.media_mut().take_accepted())
    }

    /// Returns the first program that the flash could not carry out, or `None`.
    pub fn misuse(&self) -> Option<Misuse> {
        each!(CutDrive, self, ssd => ssd.media().misuse())
    }

    /// Returns the fingerprint of a power cut now. If `capacitors_save` is true, it includes the write buffer.
    pub fn state_after_cut(&self, capacitors_save: bool) -> CutState {
        each!(CutDrive, self, ssd => CutState {
            flash: ssd.media().state(capacitors_save),
            torn: ssd.torn_by_power_cut(),
        })
    }

    /// Cuts power now and returns the flash that is left. See [`Ssd::power_cut`].
    #[must_use]
    pub fn power_cut(self) -> Recording {
        each!(CutDrive, self, ssd => ssd.power_cut())
    }

    /// Returns the host write whose data `unit` holds; `None` if it holds none, or zeros that fill a run of extents.
    pub fn version_of(&self, unit: LogicalUnit) -> Option<Version> {
        each!(CutDrive, self, ssd => {
            let version = ssd.place_of(unit).map(|place| ssd.media().version_at(place));
            version.filter(|&version| version > 0)
        })
    }

    /// Returns the counters since the drive was made or opened.
    pub fn counters(&self) -> Counters {
        each!(CutDrive, self, ssd => ssd.counters())
    }

    /// Checks the invariants that hold between requests. Walks the whole drive.
    ///
    /// # Panics
    /// Panics if an invariant does not hold, with a description.
    pub fn check_invariants(&self) {
        each!(CutDrive, self, ssd => ssd.check_invariants());
    }
}

impl CutOpening {
    /// Begins to open a drive from the flash `media`, from `at` on; `fault` is planted in recovery and in the drive.
    ///
    /// # Errors
    /// Returns an error if the flash holds content that this drive cannot have written, or has no room left.
    ///
    /// # Panics
    /// Panics if the write buffer holds less than two program units; profiles check that.
    pub fn begin(
        configuration: &Configuration,
        mut media: Recording,
        at: Instant,
        fault: Option<Fault>,
    ) -> Result<Self, RecoveryError> {
        if let Some(fault) = fault {
            media.inject_fault(fault);
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

    /// Carries out the next event of the recovery. Returns true if there was one.
    pub fn step(&mut self) -> bool {
        each!(CutOpening, self, opening => opening.step())
    }

    /// Returns a copy of the drive in its present state.
    pub fn drive(&self) -> CutDrive {
        match self {
            CutOpening::Page(it) => CutDrive::Page(Box::new(it.drive().clone())),
            CutOpening::Cached(it) => CutDrive::Cached(Box::new(it.drive().clone())),
            CutOpening::Extent(it) => CutDrive::Extent(Box::new(it.drive().clone())),
        }
    }

    /// Returns the fingerprint of a power cut now. If `capacitors_save` is true, it includes the write buffer.
    pub fn state_after_cut(&self, capacitors_save: bool) -> CutState {
        each!(CutOpening, self, opening => CutState {
            flash: opening.drive().media().state(capacitors_save),
            torn: opening.drive().torn_by_power_cut(),
        })
    }

    /// Completes the recovery. Returns the drive, which takes commands now, and the result of the recovery.
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
