//! The simulated drive behind an image, whatever it maps by.

use std::io::{self, Write};

use ssdlab_model::attribution::Attribution;
use ssdlab_model::counters::{Counters, Wear};
use ssdlab_model::mapping::cached::{CachedMap, InRam};
use ssdlab_model::mapping::extent::ExtentMap;
use ssdlab_model::mapping::{Mapping, MappingScheme, PageMap};
use ssdlab_model::media::{SequenceNumber, TrimRecord};
use ssdlab_model::recovery::{Recovery, RecoveryError};
use ssdlab_model::snapshot::{Decoder, Encoder, SnapshotError};
use ssdlab_model::{Configuration, Ssd};
use ssdlab_nand::geometry::GeometryError;
use ssdlab_units::{Instant, LogicalUnit, Nanoseconds, PhysicalUnit, Sector, SectorCount};

use crate::store::Store;

/// What is asked of a simulated drive with an image. Called once a request, so that which mapping
/// it has need not be known when compiling.
pub trait Model: Send {
    /// Reads; see [`Ssd::read_sectors`].
    fn read(&mut self, at: Instant, first: Sector, count: SectorCount) -> Instant;
    /// Writes; see [`Ssd::write_sectors`] and [`Ssd::write_fua_sectors`].
    fn write(&mut self, at: Instant, first: Sector, count: SectorCount, fua: bool) -> Instant;
    /// Trims; see [`Ssd::trim_by_commands`].
    fn trim(&mut self, at: Instant, first: Sector, count: SectorCount) -> Instant;
    /// Flushes; see [`Ssd::flush`].
    fn flush(&mut self, at: Instant) -> Instant;
    /// Leaves the drive alone; see [`Ssd::rest`].
    fn rest(&mut self, from: Instant, duration: Nanoseconds);
    /// Has collection do what it finds time for; see [`Ssd::catch_up`].
    fn catch_up(&mut self, at: Instant);
    /// Ends all work; see [`Ssd::shut_down`].
    fn shut_down(&mut self, at: Instant) -> Instant;
    /// Writes the drive's tables after that.
    ///
    /// # Errors
    /// When writing fails, or the drive has a mechanism that cannot be saved.
    fn save(&self, to: &mut dyn Write) -> Result<(), SnapshotError>;
    /// Where a unit lies; see [`Ssd::place_of`].
    fn place_of(&self, unit: LogicalUnit) -> Option<PhysicalUnit>;
    /// The first mapped unit from `from` on, and where it lies; see [`Ssd::next_mapped`].
    fn next_mapped(&self, from: LogicalUnit) -> Option<(LogicalUnit, PhysicalUnit)>;
    /// Where a read of it finds its data; see [`Ssd::read_place_of`].
    fn read_place_of(&self, unit: LogicalUnit) -> Option<PhysicalUnit>;
    /// Its flash.
    fn store(&mut self) -> &mut Store;
    /// What it has done.
    fn counters(&self) -> Counters;
    /// How worn it is.
    fn wear(&self) -> Wear;
    /// Where the time of its requests went.
    fn attribution(&self) -> Attribution;
    /// Closed blocks by their valid units.
    fn blocks_by_valid_units(&self) -> Vec<u32>;
    /// Blocks that are erased.
    fn free_blocks(&self) -> u32;
    /// Records of trims that are only in RAM.
    fn unrecorded_trims(&self) -> Vec<TrimRecord>;
    /// The latest sequence number.
    fn latest_number(&self) -> SequenceNumber;
    /// What is in RAM of a map that lies on flash.
    fn map_in_ram(&mut self) -> Option<InRam>;
}

impl<M: Mapping + Send> Model for Ssd<M, Store> {
    fn read(&mut self, at: Instant, first: Sector, count: SectorCount) -> Instant {
        self.read_sectors(at, first, count)
    }

    fn write(&mut self, at: Instant, first: Sector, count: SectorCount, fua: bool) -> Instant {
        if fua {
            self.write_fua_sectors(at, first, count)
        } else {
            self.write_sectors(at, first, count)
        }
    }

    fn trim(&mut self, at: Instant, first: Sector, count: SectorCount) -> Instant {
        self.trim_by_commands(at, first, count)
    }

    fn flush(&mut self, at: Instant) -> Instant {
        Ssd::flush(self, at)
    }

    fn rest(&mut self, from: Instant, duration: Nanoseconds) {
        Ssd::rest(self, from, duration);
    }

    fn catch_up(&mut self, at: Instant) {
        Ssd::catch_up(self, at);
    }

    fn shut_down(&mut self, at: Instant) -> Instant {
        Ssd::shut_down(self, at)
    }

    fn save(&self, to: &mut dyn Write) -> Result<(), SnapshotError> {
        Ssd::save(self, &mut Encoder::new(to))
    }

    fn place_of(&self, unit: LogicalUnit) -> Option<PhysicalUnit> {
        Ssd::place_of(self, unit)
    }

    fn next_mapped(&self, from: LogicalUnit) -> Option<(LogicalUnit, PhysicalUnit)> {
        Ssd::next_mapped(self, from)
    }

    fn read_place_of(&self, unit: LogicalUnit) -> Option<PhysicalUnit> {
        Ssd::read_place_of(self, unit)
    }

    fn store(&mut self) -> &mut Store {
        self.media_mut()
    }

    fn counters(&self) -> Counters {
        Ssd::counters(self)
    }

    fn wear(&self) -> Wear {
        Ssd::wear(self)
    }

    fn attribution(&self) -> Attribution {
        Ssd::attribution(self)
    }

    fn blocks_by_valid_units(&self) -> Vec<u32> {
        Ssd::blocks_by_valid_units(self)
    }

    fn free_blocks(&self) -> u32 {
        Ssd::free_blocks(self)
    }

    fn unrecorded_trims(&self) -> Vec<TrimRecord> {
        Ssd::unrecorded_trims(self).to_vec()
    }

    fn latest_number(&self) -> SequenceNumber {
        Ssd::latest_number(self)
    }

    fn map_in_ram(&mut self) -> Option<InRam> {
        Ssd::map_in_ram(self)
    }
}

fn page_map(configuration: &Configuration) -> PageMap {
    PageMap::new(configuration.geometry.logical_units())
}

fn extent_map(configuration: &Configuration) -> ExtentMap {
    ExtentMap::new(&configuration.geometry, configuration.mechanisms.extents)
}

/// A drive whose map `with` is given, and which opens it in its own way.
macro_rules! with_map {
    ($configuration:expr, |$map:ident| $with:expr) => {
        match $configuration.mechanisms.mapping {
            MappingScheme::Cached => {
                let $map = CachedMap::new($configuration)?;
                $with
            }
            MappingScheme::Extent => {
                let $map = extent_map($configuration);
                $with
            }
            // Drives with log blocks are refused when their image is made.
            MappingScheme::Page | MappingScheme::LogBlock => {
                let $map = page_map($configuration);
                $with
            }
        }
    };
}

/// A new drive, whose flash is erased.
///
/// # Errors
/// When there is no such drive.
pub fn new(configuration: &Configuration, store: Store) -> Result<Box<dyn Model>, GeometryError> {
    with_map!(configuration, |map| Ok(Box::new(Ssd::with(configuration, map, store)?)))
}

/// Opens a drive from what its flash holds, which was surveyed before, at `at`.
///
/// # Errors
/// When the flash holds what this drive cannot have written, or has no room left.
pub fn recover(
    configuration: &Configuration,
    store: Store,
    at: Instant,
) -> Result<(Box<dyn Model>, Recovery), RecoveryError> {
    with_map!(configuration, |map| {
        let (ssd, recovery) = Ssd::open(configuration, map, store, at)?;
        Ok((Box::new(ssd), recovery))
    })
}

/// Opens a drive with the tables that were saved when it was closed in order.
///
/// # Errors
/// When they are no tables of such a drive.
pub fn restore(
    configuration: &Configuration,
    store: Store,
    tables: &mut dyn io::Read,
) -> Result<Box<dyn Model>, SnapshotError> {
    let mut from = Decoder::new(tables);
    with_map!(configuration, |map| {
        Ok(Box::new(Ssd::restored_with(configuration, map, store, &mut from)?))
    })
}
