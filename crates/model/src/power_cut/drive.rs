//! A drive of any mapping scheme that power can be cut from.

use super::history::{LeftOut, Operation};
use crate::geometry::GeometryError;
use crate::log_block::LogBlockSsd;
use crate::mapping::cached::CachedMap;
use crate::mapping::extent::ExtentMap;
use crate::mapping::{Mapping, MappingScheme, PageMap};
use crate::media::recording::{Recording, Version};
use crate::pending::{Step, Waiting};
use crate::recovery::{Fault, Recovery, RecoveryError};
use crate::ssd::{Configuration, Ssd};
use crate::units::{Instant, LogicalUnit, Sector, SectorCount};

/// A drive with flash that remembers, whichever way it maps.
#[derive(Clone, Debug)]
pub enum CutDrive {
    /// The whole map in RAM.
    Page(Box<Ssd<PageMap, Recording>>),
    /// The map on flash.
    Cached(Box<Ssd<CachedMap, Recording>>),
    /// Extents.
    Extent(Box<Ssd<ExtentMap, Recording>>),
    /// By block, with log blocks.
    LogBlock(Box<LogBlockSsd<PageMap, Recording>>),
}

/// Does the same with the drive, whichever it is.
macro_rules! each {
    ($drive:expr, $ssd:ident => $does:expr) => {
        match $drive {
            CutDrive::Page($ssd) => $does,
            CutDrive::Cached($ssd) => $does,
            CutDrive::Extent($ssd) => $does,
            CutDrive::LogBlock($ssd) => $does,
        }
    };
}

impl CutDrive {
    /// A new drive, with `fault` planted in it.
    ///
    /// # Errors
    /// When the configuration is not sound.
    ///
    /// # Panics
    /// When the write buffer holds less than two program units; profiles check that.
    pub fn new(configuration: &Configuration, fault: Option<Fault>) -> Result<Self, GeometryError> {
        configuration.check_mapping()?;
        let geometry = &configuration.geometry;
        let media = Recording::new(geometry);
        let page_map = || PageMap::new(geometry.logical_units());
        let mut drive = match configuration.mechanisms.mapping {
            MappingScheme::Page => {
                CutDrive::Page(Box::new(Ssd::with(configuration, page_map(), media)?))
            }
            MappingScheme::Cached => {
                let map = CachedMap::new(configuration)?;
                CutDrive::Cached(Box::new(Ssd::with(configuration, map, media)?))
            }
            MappingScheme::Extent => {
                let map = ExtentMap::new(geometry, configuration.mechanisms.extents);
                CutDrive::Extent(Box::new(Ssd::with(configuration, map, media)?))
            }
            MappingScheme::LogBlock => {
                CutDrive::LogBlock(Box::new(LogBlockSsd::with(configuration, page_map(), media)?))
            }
        };
        if let Some(fault) = fault {
            each!(&mut drive, ssd => ssd.plant(fault));
        }
        Ok(drive)
    }

    /// Opens a drive from what is on `media`, from `at` on; `fault` is planted in recovery and in
    /// the drive.
    ///
    /// # Errors
    /// When the flash holds what this drive cannot have written, or has no room left.
    ///
    /// # Panics
    /// When the write buffer holds less than two program units; profiles check that.
    pub fn open(
        configuration: &Configuration,
        media: Recording,
        at: Instant,
        fault: Option<Fault>,
    ) -> Result<(Self, Recovery), RecoveryError> {
        let geometry = &configuration.geometry;
        match configuration.mechanisms.mapping {
            MappingScheme::Page => {
                let map = PageMap::new(geometry.logical_units());
                let (ssd, recovery) = Ssd::open_with_fault(configuration, map, media, at, fault)?;
                Ok((CutDrive::Page(Box::new(ssd)), recovery))
            }
            MappingScheme::Cached => {
                let map = CachedMap::new(configuration)?;
                let (ssd, recovery) = Ssd::open_with_fault(configuration, map, media, at, fault)?;
                Ok((CutDrive::Cached(Box::new(ssd)), recovery))
            }
            MappingScheme::Extent => {
                let map = ExtentMap::new(geometry, configuration.mechanisms.extents);
                let (ssd, recovery) = Ssd::open_with_fault(configuration, map, media, at, fault)?;
                Ok((CutDrive::Extent(Box::new(ssd)), recovery))
            }
            MappingScheme::LogBlock => {
                let map = PageMap::new(geometry.logical_units());
                let (ssd, recovery) =
                    LogBlockSsd::open_with_fault(configuration, map, media, at, fault)?;
                Ok((CutDrive::LogBlock(Box::new(ssd)), recovery))
            }
        }
    }

    /// Carries out a request that is sent at `at`; returns when it is answered.
    ///
    /// # Panics
    /// When its range does not lie within the drive.
    pub fn carry_out(&mut self, at: Instant, operation: Operation) -> Instant {
        match operation {
            Operation::Write { first, units } => each!(self, ssd => ssd.write(at, first, units)),
            Operation::WriteFua { first, units } => {
                each!(self, ssd => ssd.write_fua(at, first, units))
            }
            Operation::WritePart { first, units, without, fua } => {
                each!(self, ssd => ssd.write_part(at, (first, units), without, fua))
            }
            Operation::Trim { first, units } => each!(self, ssd => ssd.trim(at, first, units)),
            Operation::Read { first, units } => each!(self, ssd => ssd.read(at, first, units)),
            Operation::Flush => each!(self, ssd => ssd.flush(at)),
            Operation::Rest(duration) => {
                each!(self, ssd => ssd.rest(at, duration));
                at + duration
            }
        }
    }

    /// Begins a request that is sent at `at` and gone on with step by step ([`crate::pending`]).
    /// What phases ask for at once is: trims, rests, and all of a drive with log blocks.
    ///
    /// # Panics
    /// When its range does not lie within the drive.
    pub fn begin(&mut self, at: Instant, operation: Operation) -> Step {
        match self {
            CutDrive::Page(ssd) => ssd.begin(at, operation),
            CutDrive::Cached(ssd) => ssd.begin(at, operation),
            CutDrive::Extent(ssd) => ssd.begin(at, operation),
            CutDrive::LogBlock(_) => None,
        }
        .unwrap_or_else(|| Step::Answered(self.carry_out(at, operation)))
    }

    /// Goes on with a request whose instant has come.
    ///
    /// # Panics
    /// When this drive cannot have begun it.
    pub fn go_on(&mut self, waiting: Waiting) -> Step {
        match self {
            CutDrive::Page(ssd) => ssd.go_on(waiting),
            CutDrive::Cached(ssd) => ssd.go_on(waiting),
            CutDrive::Extent(ssd) => ssd.go_on(waiting),
            CutDrive::LogBlock(_) => panic!("it answers at once"),
        }
    }

    /// Units the host has written so far: the version of the latest.
    pub fn versions(&self) -> Version {
        each!(self, ssd => ssd.media().versions())
    }

    /// Cuts power at `at`: what is left is the flash. See [`Ssd::power_cut`].
    #[must_use]
    pub fn power_cut(self, at: Instant) -> Recording {
        each!(self, ssd => ssd.power_cut(at))
    }

    /// The instants after `from` and before `until` at which a program or an erase begins or is
    /// over.
    #[must_use]
    pub fn instants_of_flash_work(&self, from: Instant, until: Instant) -> Vec<Instant> {
        each!(self, ssd => ssd.instants_of_flash_work(from, until))
    }

    /// Forgets how what is on the flash came there, as far as it was done by `at`.
    pub(crate) fn forget_how(&mut self, at: Instant) {
        each!(self, ssd => ssd.forget_how(at));
    }

    /// The instant by which all that was asked of the drive is done.
    pub fn idle_from(&self) -> Instant {
        each!(self, ssd => ssd.idle_from())
    }

    /// Which write of the host's `unit` holds the data of.
    pub fn version_of(&self, unit: LogicalUnit) -> Option<Version> {
        each!(self, ssd => ssd.version_of(unit))
    }

    /// What it has done since it was made, or opened.
    pub fn counters(&self) -> crate::counters::Counters {
        each!(self, ssd => ssd.counters())
    }

    /// Checks what must hold between requests. Walks the whole drive.
    ///
    /// # Panics
    /// When anything is wrong, saying what.
    pub fn check_invariants(&self) {
        each!(self, ssd => ssd.check_invariants());
    }
}

impl<M: Mapping> Ssd<M, Recording> {
    fn sectors_of(&self, first: LogicalUnit, units: u32) -> (Sector, SectorCount) {
        let length = self.geometry().unit_size();
        let (first, count) = (length * u64::from(first.0), length * u64::from(units));
        (Sector::at(first), SectorCount::of(count))
    }

    /// The sectors of `units` units from `first` but for some at their ends; all, where that would
    /// be none.
    fn sectors_without(
        &self,
        first: LogicalUnit,
        units: u32,
        without: LeftOut,
    ) -> (Sector, SectorCount) {
        let (first, count) = self.sectors_of(first, units);
        let head = u64::from(without != LeftOut::Last);
        let tail = u64::from(without != LeftOut::First);
        if count.0 <= head + tail || self.geometry().sectors_within_unit() == 0 {
            return (first, count);
        }
        (Sector(first.0 + head), SectorCount(count.0 - head - tail))
    }

    /// Begins a request; nothing where phases ask for it at once.
    fn begin(&mut self, at: Instant, operation: Operation) -> Option<Step> {
        Some(match operation {
            Operation::Write { first, units } => {
                let (first, count) = self.sectors_of(first, units);
                self.begin_write(at, first, count, false)
            }
            Operation::WriteFua { first, units } => {
                let (first, count) = self.sectors_of(first, units);
                self.begin_write(at, first, count, true)
            }
            Operation::WritePart { first, units, without, fua } => {
                let (first, count) = self.sectors_without(first, units, without);
                self.begin_write(at, first, count, fua)
            }
            Operation::Read { first, units } => {
                let (first, count) = self.sectors_of(first, units);
                self.begin_read(at, first, count)
            }
            Operation::Flush => self.begin_flush(at),
            Operation::Trim { .. } | Operation::Rest(_) => return None,
        })
    }

    /// Writes whole units with FUA; returns when their data is durable.
    fn write_fua(&mut self, at: Instant, first: LogicalUnit, units: u32) -> Instant {
        let (first, count) = self.sectors_of(first, units);
        self.write_fua_sectors(at, first, count)
    }

    /// Writes units but for some of their sectors; returns when that is answered.
    fn write_part(
        &mut self,
        at: Instant,
        (first, units): (LogicalUnit, u32),
        without: LeftOut,
        fua: bool,
    ) -> Instant {
        let (first, count) = self.sectors_without(first, units, without);
        match fua {
            true => self.write_fua_sectors(at, first, count),
            false => self.write_sectors(at, first, count),
        }
    }
}

impl<M: Mapping> LogBlockSsd<M, Recording> {
    /// All of the units, because it takes nothing else.
    fn write_part(
        &mut self,
        at: Instant,
        (first, units): (LogicalUnit, u32),
        _: LeftOut,
        fua: bool,
    ) -> Instant {
        match fua {
            true => self.write_fua(at, first, units),
            false => self.write(at, first, units),
        }
    }
}
