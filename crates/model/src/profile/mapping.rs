//! From a profile to how its drive maps, and what does not go together there.

use super::{Profile, ProfileError};
use crate::mapping::extent::{EXTENT_SIZE, ExtentParameters};
use crate::mapping::{MappingScheme, cached};
use crate::mechanisms::Mechanisms;
use crate::units::{ByteLength, Nanoseconds};

impl Profile {
    /// How the drive maps, the map pages that RAM holds, and the random log blocks.
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
                "flush.journal is for a map that is in RAM; with mapping.scheme cached the metadata \
                 blocks hold the map itself, and log-block has none that is worth a journal"
                    .to_owned(),
            ));
        }
        if (scheme == MappingScheme::LogBlock) != (log_blocks > 0) {
            return Err(self.inconsistent(format!(
                "mapping.log_blocks is {log_blocks}: mapping.scheme log-block needs at least one, \
                 and no other has any"
            )));
        }
        Ok((scheme, map_cache_pages, log_blocks))
    }

    /// Refuses mechanisms that the mapping scheme has no place for.
    pub(super) fn check_mechanisms(&self, mechanisms: &Mechanisms) -> Result<(), ProfileError> {
        if mechanisms.mapping != MappingScheme::LogBlock {
            return Ok(());
        }
        let Mechanisms { mapping, log_blocks, seed, .. } = *mechanisms;
        let (suspend, trim) = (mechanisms.suspend, mechanisms.trim);
        let alone =
            Mechanisms { mapping, log_blocks, seed, suspend, trim, ..Mechanisms::default() };
        if *mechanisms == alone {
            return Ok(());
        }
        Err(self.inconsistent(
            "mapping.scheme log-block merges and does not collect: it goes with no other victim \
             policy, pacing or streams, and its flush is the plain one with the write cache on"
                .to_owned(),
        ))
    }

    /// The table of extents.
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
