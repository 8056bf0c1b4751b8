//! What makes a simulated drive: its flash, its times, its buffer, and the mechanisms that it has. And whether the parts
//! fit together: spare area to collect with, room for what the map keeps on flash.

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

/// How the write buffer behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BufferParameters {
    /// Units it holds; at least two program units.
    pub units: u32,
    /// True if capacitors protect it, so that a flush has nothing to wait for.
    pub protected: bool,
    /// Units in full program units that stay in it when capacitors protect it, so that what the host writes again is
    /// replaced there; zero where each is programmed when it is full.
    pub coalesced: u32,
    /// How long the drive must be idle before it programs what the buffer holds.
    pub idle_before_flush: Nanoseconds,
}

/// Everything that makes a simulated drive. A profile is where it comes from.
#[derive(Clone, Debug)]
pub struct Configuration {
    /// Its flash.
    pub geometry: Geometry,
    /// How long things take.
    pub timing: Timing,
    /// Its write buffer.
    pub buffer: BufferParameters,
    /// How it reads ahead.
    pub read_ahead: ReadAheadParameters,
    /// How it collects.
    pub collection: CollectionParameters,
    /// True if trim does anything.
    pub trim: bool,
    /// What else it has.
    pub mechanisms: Mechanisms,
}

impl Configuration {
    /// Checks that there is spare area to collect with, beyond the blocks that are always kept
    /// open or free.
    pub fn check_spare(&self) -> Result<(), GeometryError> {
        if self.mechanisms.mapping == MappingScheme::LogBlock {
            // It does not collect; `check_mapping` says what it needs.
            return Ok(());
        }
        let geometry = &self.geometry;
        let kept = self.collection.blocks_kept(geometry, &self.mechanisms);
        let usable = u64::from(geometry.blocks().saturating_sub(kept + 1))
            * u64::from(geometry.units_per_block());
        if u64::from(geometry.logical_units()) <= usable {
            return Ok(());
        }
        Err(GeometryError::NoSpare { logical: geometry.logical_units().into(), usable })
    }

    /// Checks that there is room for what the mapping scheme keeps on flash.
    pub fn check_mapping(&self) -> Result<(), GeometryError> {
        self.check_checkpoint()?;
        match self.mechanisms.mapping {
            MappingScheme::Page => Ok(()),
            MappingScheme::Cached => CachedMap::check_room(&self.geometry),
            MappingScheme::Extent => self.check_extents(),
            MappingScheme::LogBlock => {
                crate::ftl::check_room_for_log(&self.geometry, self.mechanisms.log_blocks)
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
        // One more is being erased, and two are the journal's.
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
    use super::*;
    use crate::profile::Profile;

    /// The configuration of a drive of 64 MiB with the parts of the default profile, with some values changed.
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
}
