//! From a profile to how its drive maps, and what does not go together there.

use super::{Profile, ProfileError};
use crate::mapping::extent::{EXTENT_SIZE, ExtentParameters};
use crate::mapping::{MappingScheme, cached};
use crate::units::{ByteLength, Nanoseconds};

impl Profile {
    /// How the drive maps, and the map pages that RAM holds.
    pub(super) fn mapping(&self) -> Result<(MappingScheme, u32), ProfileError> {
        let mapping = &self.document.mapping;
        let unit = self.document.controller.unit_size.value.get_ref().0;
        let scheme = *mapping.scheme.value.get_ref();
        let cache = mapping.cache.value.get_ref().0;
        let map_cache_pages = cache.whole(unit).min(u32::MAX.into()) as u32;
        let least = cached::LEAST_PAGES;
        match scheme {
            MappingScheme::Cached if map_cache_pages < least => Err(self.inconsistent(format!(
                "mapping.cache ({cache}) holds {map_cache_pages} map pages of {unit}; \
                     mapping.scheme cached needs {least} at least"
            ))),
            MappingScheme::Cached if *self.document.flush.journal.value.get_ref() => Err(self
                .inconsistent(
                    "flush.journal is for a map that is in RAM; with mapping.scheme cached the \
                     metadata blocks hold the map itself"
                        .to_owned(),
                )),
            MappingScheme::Cached => Ok((scheme, map_cache_pages)),
            _ if cache > ByteLength::ZERO => Err(self.inconsistent(format!(
                "mapping.cache ({cache}) is for mapping.scheme cached; this drive has its whole \
                 map in RAM"
            ))),
            _ => Ok((scheme, 0)),
        }
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
