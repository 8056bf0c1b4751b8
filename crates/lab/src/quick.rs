//! `--quick`: a protocol that takes seconds.
//!
//! If the volumes of an experiment follow the size of the drive, the whole protocol runs on a simulated drive
//! that is scaled down, with times shorter by the same factor: the drive is filled as many times, and reaches
//! the same steady state. A real drive cannot be scaled; on it, or if volumes do not depend on the drive, the
//! protocol is shortened.

use crate::error::LabError;
use crate::experiment::{Experiment, Settings};
use crate::target::{ScaledTarget, Target};

/// Returns the settings and the drive of a quick run; `set` are the user's parameters.
///
/// # Errors
/// Returns an error if a parameter or the profile of the drive is invalid.
pub fn quick(
    experiment: &dyn Experiment,
    target: Target,
    seed: u64,
    set: &[(String, String)],
) -> Result<(Settings, Target), LabError> {
    if !experiment.scales_with_capacity() {
        return Ok((Settings::new(experiment, true, set)?, target));
    }
    if let Some(ScaledTarget { target, divisor }) = target.scaled_down(seed)? {
        return Ok((Settings::for_scaled_drive(experiment, divisor, set)?, target));
    }
    let settings = match target.is_small_enough() {
        true => Settings::for_small_drive(experiment, set)?,
        false => Settings::new(experiment, true, set)?,
    };
    Ok((settings, target))
}
