//! Builds the mapping parameters from a profile, and refuses combinations that do not work.

use super::{Profile, ProfileError};
use crate::checkpoint::CheckpointParameters;
use crate::mapping::extent::{EXTENT_SIZE, ExtentParameters};
use crate::mapping::{MappingScheme, cached};
use crate::mechanisms::Mechanisms;
use crate::units::{ByteLength, Nanoseconds};
use crate::wear_levelling::LevellingParameters;

impl Profile {
    /// Returns the mapping scheme, the number of map pages in RAM, and the number of random log blocks.
    pub(super) fn mapping(&self) -> Result<(MappingScheme, u32, u32), ProfileError> {
        let mapping = &self.document.mapping;
        let unit = self.document.controller.unit_size.value.get_ref().0;
        let scheme = *mapping.scheme.value.get_ref();
        let cache = mapping.cache.value.get_ref().0;
        let log_blocks = *mapping.log_blocks.value.get_ref();
        let map_cache_pages = cache.whole(unit).min(u32::MAX.into()) as u32;
        let least = cached::LEAST_PAGES;
        if scheme == MappingScheme::Cached && map_cache_pages < least {
            return Err(self.inconsistent(format!(
                "mapping.cache ({cache}) holds {map_cache_pages} map pages of {unit}; \
                 mapping.scheme cached needs {least} at least"
            )));
        }
        if scheme != MappingScheme::Cached && cache > ByteLength::ZERO {
            return Err(self.inconsistent(format!(
                "mapping.cache ({cache}) is for mapping.scheme cached; this drive has its whole \
                 map in RAM"
            )));
        }
        let keeps_no_journal = matches!(scheme, MappingScheme::Cached | MappingScheme::LogBlock);
        if keeps_no_journal && *self.document.flush.journal.value.get_ref() {
            return Err(self.inconsistent(
                "flush.journal is for a map in RAM: mapping.scheme cached keeps the map itself in \
                 the metadata blocks, and the map of log-block is too small to need a journal; \
                 leave flush.journal out"
                    .to_owned(),
            ));
        }
        if (scheme == MappingScheme::LogBlock) != (log_blocks > 0) {
            return Err(self.inconsistent(format!(
                "mapping.log_blocks is {log_blocks}: mapping.scheme log-block needs 1 or more, \
                 every other scheme 0"
            )));
        }
        Ok((scheme, map_cache_pages, log_blocks))
    }

    /// Refuses mechanisms that the mapping scheme does not support.
    pub(super) fn check_mechanisms(&self, mechanisms: &Mechanisms) -> Result<(), ProfileError> {
        if mechanisms.mapping != MappingScheme::LogBlock {
            return Ok(());
        }
        let plain = Mechanisms::default();
        // Every field by name, so that a new mechanism has to be placed here.
        let Mechanisms {
            mapping: _,
            log_blocks: _,
            seed: _,
            suspend: _,
            page_read_spread: _,
            page_register: _,
            thermal: _,
            data_time: _,
            copy_overhead,
            copy_occupancy,
            copies_word_lines,
            trim: _,
            wear,
            retention: _,
            map_cache_pages: _, // refused by `mapping`
            map_cache_read: _,  // the same
            extents: _,         // refused by `extents`
            checkpoint: _,      // refused by `checkpoint`
            flush: _,           // a journal is refused by `mapping`
            victims,
            rotation,
            allocation,
            copies,
            pacing,
            streams,
            slc,
        } = mechanisms;
        let refused = [
            ("collection.policy", *victims != plain.victims),
            ("collection.rotation", *rotation != plain.rotation),
            ("collection.allocation", *allocation != plain.allocation),
            ("collection.copies", *copies != plain.copies),
            ("collection.pacing", *pacing != plain.pacing),
            ("collection.word_line_reads", *copies_word_lines),
            ("collection.read_overhead", *copy_overhead != plain.copy_overhead),
            ("collection.copy_occupancy", *copy_occupancy != plain.copy_occupancy),
            ("streams.count", *streams != plain.streams),
            ("slc.size", *slc != plain.slc),
            (
                "wear.levelling = static",
                matches!(wear.levelling, LevellingParameters::Static { .. }),
            ),
            ("wear.life", wear.bad_blocks.is_some()),
        ];
        let Some((key, _)) = refused.iter().find(|(_, is_refused)| *is_refused) else {
            return Ok(());
        };
        Err(self.inconsistent(format!(
            "{key} does not go with mapping.scheme log-block, which merges whole blocks and does not \
             collect; leave {key} out, or choose another mapping.scheme"
        )))
    }

    /// Returns the parameters of checkpoints; `None` if the map is not saved.
    pub(super) fn checkpoint(&self) -> Result<Option<CheckpointParameters>, ProfileError> {
        let mapping = &self.document.mapping;
        let every = mapping.checkpoint.value.get_ref().0;
        if every == ByteLength::ZERO {
            return Ok(None);
        }
        let scheme = *mapping.scheme.value.get_ref();
        if matches!(scheme, MappingScheme::Cached | MappingScheme::LogBlock) {
            return Err(self.inconsistent(
                "mapping.checkpoint is for a map in RAM (mapping.scheme page or extent): cached \
                 keeps the map on flash, and the map of log-block is too small to need saving; \
                 leave mapping.checkpoint out"
                    .to_owned(),
            ));
        }
        let unit = self.document.controller.unit_size.value.get_ref().0;
        let every_units = every.whole(unit);
        if every_units == 0 {
            return Err(self.inconsistent(format!(
                "mapping.checkpoint ({every}) is less than a unit of {unit}"
            )));
        }
        Ok(Some(CheckpointParameters { every_units }))
    }

    /// Returns the parameters of the extent table.
    pub(super) fn extents(&self) -> Result<ExtentParameters, ProfileError> {
        let mapping = &self.document.mapping;
        let table = mapping.table.value.get_ref().0;
        let is_extent = *mapping.scheme.value.get_ref() == MappingScheme::Extent;
        let search = mapping.search.value.get_ref().0;
        let per_extent = mapping.per_extent.value.get_ref().0;
        let is_given = table > ByteLength::ZERO || search.max(per_extent) > Nanoseconds::ZERO;
        if is_given && !is_extent {
            return Err(self.inconsistent(
                "mapping.table, mapping.search and mapping.per_extent are for mapping.scheme \
                 extent"
                    .to_owned(),
            ));
        }
        let extents_max = table.whole(EXTENT_SIZE) as u32;
        Ok(ExtentParameters { extents_max, search, per_extent })
    }
}

#[cfg(test)]
mod tests {
    use crate::profile::{DEFAULT, Profile};

    #[test]
    fn what_log_blocks_do_not_go_with_is_refused_by_its_key() {
        let check = |changes: &[(&str, &str)]| {
            let mut profile = Profile::named(DEFAULT).expect("the default profile");
            let log_blocks = [("mapping.scheme", "log-block"), ("mapping.log_blocks", "4")];
            for (key, value) in log_blocks.iter().chain(changes) {
                profile.set(key, value).unwrap_or_else(|error| panic!("{error}"));
            }
            profile.check().map_err(|error| error.to_string())
        };
        check(&[("wear.pe_cycles", "3000")]).unwrap();
        check(&[("controller.write_cache", "write-through")]).unwrap();
        let ages = [("retention.retry", "70us"), ("retention.free_for", "1d")];
        check(&[ages[0], ages[1], ("retention.steps", "3")]).unwrap();
        for changes in [
            &[("collection.policy", "fifo")][..],
            &[("collection.pacing", "bursty"), ("collection.high_water", "9")],
            &[("wear.life", "3000"), ("wear.life_shape", "8"), ("wear.reserve", "40")],
        ] {
            let error = check(changes).unwrap_err();
            let expected = format!("{} does not go with mapping.scheme log-block", changes[0].0);
            assert!(error.contains(&expected), "{error}");
        }
    }
}
