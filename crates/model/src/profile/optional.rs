//! Mechanisms that not every drive has, from their sections.

use super::{Profile, ProfileError};
use crate::trim::TrimParameters;
use crate::units::{Sector, SectorCount};

impl Profile {
    pub(super) fn trim(&self) -> Result<TrimParameters, ProfileError> {
        let trim = &self.document.trim;
        let range_most = trim.range_most.value.get_ref().0;
        if !range_most.is_multiple_of(Sector::SIZE) {
            return Err(self.inconsistent(format!(
                "trim.range_most ({range_most}) is not a whole number of sectors of 512 bytes"
            )));
        }
        let ranges_most = *trim.ranges_most.value.get_ref();
        let sectors = SectorCount::of(range_most);
        if ranges_most > 0 && sectors.0 == 0 {
            return Err(self.inconsistent(
                "trim.ranges_most limits the ranges of a command, and trim.range_most says that \
                 one range can be of any length; give that a length, too"
                    .to_owned(),
            ));
        }
        Ok(TrimParameters {
            command: trim.command.value.get_ref().0,
            range: trim.range.value.get_ref().0,
            per_mib: trim.per_mib.value.get_ref().0,
            ranges_most,
            range_most: sectors,
            reads_after: *trim.reads_after.value.get_ref(),
        })
    }
}
