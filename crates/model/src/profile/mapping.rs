//! From a profile to how its drive maps, and what does not go together there.

use super::{Profile, ProfileError};
use crate::mapping::{MappingScheme, cached};
use crate::units::ByteLength;

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
}
