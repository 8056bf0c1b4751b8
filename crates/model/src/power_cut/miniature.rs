//! Miniature configuration: a drive of a few hundred units with the mechanisms of a large one.
//!
//! Every cut of a history takes a copy of the drive, so the drive has to be small. The miniature keeps everything
//! that affects the order of operations on the flash: mapping, cache, flushes, journal, garbage collection and
//! streams; superblocks or single blocks; pages per shot, units per page, and all times. These are smaller: at most
//! two dies of one plane each, four program units per die in a block, and as few blocks as the mechanisms work with,
//! with the share of over-provisioning on top.

use crate::collection::CollectionParameters;
use crate::geometry::{Geometry, GeometryError};
use crate::mapping::MappingScheme;
use crate::mapping::cached::LEAST_PAGES;
use crate::policy::Pacing;
use crate::ssd::Configuration;

/// Program units per die in a block.
const PROGRAMS_PER_BLOCK: u32 = 4;

/// Blocks for data, per group of dies.
const DATA_BLOCKS: u32 = 8;

/// Blocks for metadata, per group of dies.
const METADATA_BLOCKS: u32 = 8;

/// Extents of a table beyond the fewest that a drive needs.
const MORE_EXTENTS: u32 = 24;

/// Erases that a block lasts if blocks go bad: a few more than it takes to fill the drive and to write as much again.
const LIFE: u32 = 8;

/// Reserve blocks of each die.
const RESERVE: u32 = 2;

impl Configuration {
    /// Returns the smallest configuration with the mechanisms of this one.
    ///
    /// # Errors
    /// Returns an error if no drive that small is possible.
    pub fn miniature(&self) -> Result<Configuration, GeometryError> {
        let mut small = self.clone();
        let Configuration { collection, mechanisms, buffer, read_ahead, .. } = &mut small;
        let streams = mechanisms.streams.count;
        let low_water = collection.low_water.min(4).max(mechanisms.streams_of_copies() + 1);
        *collection = CollectionParameters {
            low_water,
            idle_high_water: collection.idle_high_water.min(low_water + 2),
            debt_max: collection.debt_max,
        };
        if let Pacing::Bursty { high_water } | Pacing::Ratio { high_water, .. } =
            &mut mechanisms.pacing
        {
            *high_water = (*high_water).min(low_water + 2);
        }
        mechanisms.map_cache_pages = mechanisms.map_cache_pages.min(LEAST_PAGES);
        mechanisms.log_blocks = mechanisms.log_blocks.min(4);
        if let Some(slc) = &mut mechanisms.slc {
            slc.blocks = 2;
        }
        if let Some(bad_blocks) = &mut mechanisms.wear.bad_blocks {
            bad_blocks.life = bad_blocks.life.min(LIFE);
            bad_blocks.reserve = bad_blocks.reserve.min(RESERVE);
        }
        read_ahead.window = 0;
        let mut shape = self.geometry.parameters().clone();
        let has_superblocks = shape.dies_per_collection_unit == shape.dies;
        shape.channels = shape.channels.min(2);
        shape.dies = shape.dies.min(2);
        shape.planes_per_die = 1;
        shape.pages_per_block = PROGRAMS_PER_BLOCK * shape.pages_per_shot;
        shape.dies_per_collection_unit = if has_superblocks { shape.dies } else { 1 };
        let groups = shape.dies / shape.dies_per_collection_unit;
        let data = DATA_BLOCKS * groups;
        shape.metadata_collection_units = METADATA_BLOCKS * groups;
        shape.logical_units = 1;
        // Only used to count the units of a block, and the blocks that are kept.
        shape.collection_units = 4 * data;
        let any = Geometry::new(shape.clone())?;
        let kept = match mechanisms.mapping {
            MappingScheme::LogBlock => mechanisms.log_blocks + 3,
            _ => collection.min_free_blocks(&any, mechanisms) + 1,
        };
        let was = &self.geometry;
        let used = f64::from(was.logical_units()) / f64::from(was.physical_units());
        let spare = (f64::from(data) * (1.0 / used - 1.0)).ceil() as u32;
        shape.collection_units = (data + kept + spare).next_multiple_of(groups);
        shape.logical_units = data * any.units_per_block();
        let geometry = Geometry::new(shape)?;
        let regions = geometry.logical_units().div_ceil(geometry.units_per_block());
        mechanisms.extents.extents_max =
            mechanisms.extents.extents_max.min(4 * regions + MORE_EXTENTS);
        let program = geometry.units_per_program();
        buffer.coalesced = buffer.coalesced.min(2 * program);
        buffer.units = buffer.units.min((streams + 3) * program + buffer.coalesced);
        if let Some(checkpoint) = &mut mechanisms.checkpoint {
            // Per drive fill as often as before.
            let share = checkpoint.every_units as f64 / f64::from(was.logical_units());
            let every = share * f64::from(geometry.logical_units());
            checkpoint.every_units = (every.round() as u64).max(1);
        }
        small.geometry = geometry;
        small.check_spare()?;
        small.check_mapping()?;
        Ok(small)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flush::FlushHandling;
    use crate::power_cut::history::Step;
    use crate::power_cut::tested::Tested;
    use crate::profile::{Profile, embedded};
    use rand::SeedableRng;
    use rand_pcg::Pcg64Mcg;

    #[test]
    fn every_profile_has_a_miniature_that_survives_power_cuts_unless_it_ignores_flushes() {
        let mut profiles: Vec<(String, Configuration)> = embedded()
            .iter()
            .map(|(name, _)| (name.to_string(), Profile::named(name).unwrap()))
            .map(|(name, profile)| (name, profile.configuration().unwrap()))
            .collect();
        for (scheme, key, value) in
            [("cached", "mapping.cache", "1M"), ("log-block", "mapping.log_blocks", "8")]
        {
            let mut profile = Profile::named(crate::profile::DEFAULT).unwrap();
            profile.set("mapping.scheme", scheme).unwrap();
            profile.set(key, value).unwrap();
            profile.set("collection.metadata_units", "30").unwrap();
            profiles.push((scheme.to_owned(), profile.configuration().unwrap()));
        }
        for (name, configuration) in profiles {
            let small = configuration.miniature().unwrap_or_else(|error| panic!("{name}: {error}"));
            assert!(small.geometry.logical_units() < 5_000, "{name}");
            let mut tested = Tested::new(&small, None).unwrap();
            let mut generator = Pcg64Mcg::seed_from_u64(1);
            tested.age(&mut generator);
            let history: Vec<Step> =
                (0..4).map(|_| Step::random(&mut generator, tested.units())).collect();
            let ignores_flushes = configuration.mechanisms.flush.handling == FlushHandling::Ignored;
            match tested.explore(&history) {
                Ok(explored) => {
                    assert!(explored.cuts > 3 && !ignores_flushes, "{name}: {explored:?}");
                }
                Err(failure) => assert!(ignores_flushes, "{name}: {failure:?}"),
            }
        }
    }
}
