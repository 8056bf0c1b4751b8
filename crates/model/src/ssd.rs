//! The configuration of a simulated drive: flash geometry, timing, write buffer and mechanisms. Checks that these fit
//! together: over-provisioning for garbage collection, and metadata blocks for the map on flash.

use crate::checkpoint;
use crate::collection::CollectionParameters;
use crate::geometry::{Geometry, GeometryError};
use crate::mapping::MappingScheme;
use crate::mapping::cached::CachedMap;
use crate::mapping::extent::ExtentParameters;
use crate::mechanisms::Mechanisms;
use crate::read_ahead::ReadAheadParameters;
use crate::timing::Timing;
use crate::units::Nanoseconds;

/// The write buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BufferParameters {
    /// Capacity in units; at least two program units.
    pub units: u32,
    /// True if the drive has power-loss protection (capacitors), so that a flush does not wait for programs.
    pub protected: bool,
    /// Number of units in full program units that a buffer with power-loss protection keeps back, so that a rewrite
    /// by the host replaces them in the buffer. Zero if each program unit is programmed when it is full.
    pub coalesced: u32,
    /// Time that the drive must be idle before it programs the data in the buffer.
    pub idle_before_flush: Nanoseconds,
}

/// All parameters of a simulated drive, made from a profile.
#[derive(Clone, Debug)]
pub struct Configuration {
    /// Flash geometry.
    pub geometry: Geometry,
    /// Timing of flash, controller and link.
    pub timing: Timing,
    /// Write buffer.
    pub buffer: BufferParameters,
    /// Read-ahead.
    pub read_ahead: ReadAheadParameters,
    /// Garbage collection.
    pub collection: CollectionParameters,
    /// True if trim has an effect.
    pub trim: bool,
    /// Optional mechanisms.
    pub mechanisms: Mechanisms,
}

impl Configuration {
    /// Checks that there is over-provisioning for garbage collection, beyond the blocks that are always kept open or
    /// free.
    pub fn check_spare(&self) -> Result<(), GeometryError> {
        if self.mechanisms.mapping == MappingScheme::LogBlock {
            // A log-block drive merges instead of collecting; `check_mapping` checks its needs.
            return Ok(());
        }
        let geometry = &self.geometry;
        let kept = self.collection.min_free_blocks(geometry, &self.mechanisms);
        let usable = u64::from(geometry.blocks().saturating_sub(kept + 1))
            * u64::from(geometry.units_per_block());
        if u64::from(geometry.logical_units()) <= usable {
            return Ok(());
        }
        Err(GeometryError::NoSpare { logical: geometry.logical_units().into(), usable })
    }

    /// Checks that there is room on flash for the tables of the mapping scheme.
    pub fn check_mapping(&self) -> Result<(), GeometryError> {
        self.check_checkpoint()?;
        match self.mechanisms.mapping {
            MappingScheme::Page => Ok(()),
            MappingScheme::Cached => CachedMap::check_space(&self.geometry),
            MappingScheme::Extent => self.check_extents(),
            MappingScheme::LogBlock => {
                crate::ftl::check_space_for_log(&self.geometry, self.mechanisms.log_blocks)
            }
        }
    }
}

impl Configuration {
    fn check_checkpoint(&self) -> Result<(), GeometryError> {
        if self.mechanisms.checkpoint.is_none() {
            return Ok(());
        }
        let pages = checkpoint::map_pages(&self.geometry, &self.mechanisms);
        let per_unit = checkpoint::pages_per_metadata_unit(&self.geometry);
        // Plus one collection unit that is being erased, and two for the journal.
        let needed = (2 * pages).div_ceil(per_unit) + 1 + 2;
        let given = self.geometry.parameters().metadata_collection_units;
        if u64::from(given) >= needed {
            return Ok(());
        }
        Err(GeometryError::NoRoomForCheckpoint { given, needed, pages })
    }

    fn check_extents(&self) -> Result<(), GeometryError> {
        let geometry = &self.geometry;
        if geometry.groups() > 1 {
            return Err(GeometryError::ExtentsNeedSuperblocks);
        }
        let least = ExtentParameters::least_extents(geometry);
        let extents = self.mechanisms.extents.extents_max;
        if extents >= least {
            return Ok(());
        }
        Err(GeometryError::NoRoomForExtents { extents, least })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use rand::{RngExt, SeedableRng};
    use rand_pcg::Pcg64Mcg;

    use super::*;
    use crate::ftl::Ssd;
    use crate::profile::Profile;
    use crate::units::{Instant, LogicalUnit};

    /// Returns the configuration of a drive of 64 MiB with the parts of the default profile, with some values
    /// changed.
    pub(crate) fn small_configuration(changed: &[(&str, &str)]) -> Configuration {
        let mut profile = Profile::named(crate::profile::DEFAULT).expect("the default profile");
        let small = [
            ("capacity.logical", "64M"),
            ("capacity.physical", "96M"),
            ("flash.channels", "2"),
            ("flash.dies", "4"),
            ("flash.pages_per_block", "6"),
            ("read_ahead.window", "0"),
        ];
        for (key, value) in small.iter().chain(changed) {
            profile.set(key, value).expect("a sound value");
        }
        profile.configuration().expect("a sound profile")
    }

    /// Fills a drive, then writes units of the first `area` at random, twelve times as many as the drive has.
    pub(crate) fn worn(mut ssd: Ssd, area: u32) -> Ssd {
        let units = ssd.geometry().logical_units();
        let mut generator = Pcg64Mcg::seed_from_u64(1);
        let mut at = ssd.write(Instant::START, LogicalUnit(0), units);
        for written in 0..12 * units {
            at = ssd.write(at, LogicalUnit(generator.random_range(0..area)), 1);
            if written % 19_999 == 0 {
                ssd.check_invariants();
            }
        }
        ssd
    }
}
