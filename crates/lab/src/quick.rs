//! `--quick`: a protocol within seconds.
//!
//! An experiment whose volumes follow the size of the drive goes through all of its protocol, on a
//! simulated drive that was made small, with times as many times shorter: the drive is filled as often, and
//! is in its steady state as truly. A real drive cannot be made small; there, and where volumes do
//! not depend on the drive, the protocol is shortened.

use crate::error::LabError;
use crate::experiment::{Experiment, Settings};
use crate::target::{Scaled, Target};

/// Returns the settings and the drive of a quick run, whose parameters `set` changes.
///
/// # Errors
/// When a parameter is wrong, or the drive cannot be.
pub fn quick(
    experiment: &dyn Experiment,
    target: Target,
    seed: u64,
    set: &[(String, String)],
) -> Result<(Settings, Target), LabError> {
    if !experiment.scales_with_the_drive() {
        return Ok((Settings::new(experiment, true, set)?, target));
    }
    if let Some(Scaled { target, divisor }) = target.scaled(seed)? {
        return Ok((Settings::at_scale(experiment, divisor, set)?, target));
    }
    let settings = match target.is_small() {
        true => Settings::of_a_small_drive(experiment, set)?,
        false => Settings::new(experiment, true, set)?,
    };
    Ok((settings, target))
}
