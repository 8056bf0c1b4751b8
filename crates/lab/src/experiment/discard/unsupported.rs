//! Substitutes for systems other than Linux, where mount options are not changed.

use std::path::Path;

use ssdlab_blockdev::place::Place;

use super::super::phase_runner::PhaseRunner;
use super::{Case, Measured, Protocol};
use crate::error::LabError;

impl Protocol {
    pub(super) fn measure_real(
        &self,
        _: &Case,
        _: &Path,
        _: &Place,
        _: &mut PhaseRunner,
        _: &mut Measured,
    ) -> Result<(), LabError> {
        unreachable!("a real place is refused before")
    }
}

/// Returns false: no mount option can be changed here.
pub fn run_guard_if_requested() -> bool {
    false
}

/// Returns an empty list: no mount option was changed.
pub fn restore_leftover_mounts() -> Vec<String> {
    Vec::new()
}
