//! Substitutes for systems other than Linux, where mount options are not changed.

use std::path::Path;

use ssdlab_blockdev::place::Place;

use super::super::course::Course;
use super::{Case, Measured, Protocol};
use crate::error::LabError;

impl Protocol {
    pub(super) fn carry_out(
        &self,
        _: &Case,
        _: &Path,
        _: &Place,
        _: &mut Course,
        _: &mut Measured,
    ) -> Result<(), LabError> {
        unreachable!("a real place is refused before")
    }
}

/// Returns false: no mount option can be changed here.
pub fn guard_if_asked() -> bool {
    false
}

/// Returns an empty list: no mount option was changed.
pub fn undo_what_was_left() -> Vec<String> {
    Vec::new()
}
