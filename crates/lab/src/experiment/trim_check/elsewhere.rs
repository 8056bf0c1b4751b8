//! Substitutes for systems other than Linux, which do not report the physical location of a file.

use std::path::Path;

use super::super::course::Course;
use super::{Protocol, Seen};
use crate::error::LabError;

impl Protocol {
    pub(super) fn carry_out(
        &self,
        directory: &Path,
        _: &mut Course,
        _: &mut Seen,
    ) -> Result<(), LabError> {
        let message = format!(
            "{}: only Linux tells where on its device a file lies; a simulated drive can be checked here",
            directory.display()
        );
        Err(LabError::Unsupported(message))
    }
}
