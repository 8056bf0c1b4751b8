//! Substitutes for systems other than Linux, which do not report the physical location of a file.

use std::path::Path;

use super::super::phase_runner::PhaseRunner;
use super::{Observations, Protocol};
use crate::error::LabError;

impl Protocol {
    pub(super) fn measure_real(
        &self,
        directory: &Path,
        _: &mut PhaseRunner,
        _: &mut Observations,
    ) -> Result<(), LabError> {
        let message = format!(
            "{}: the place of a file on its device is known on Linux only; a simulated drive can \
             be checked here",
            directory.display()
        );
        Err(LabError::Unsupported(message))
    }
}
