//! Minimum number of blocks of a drive with log blocks.

use crate::geometry::{Geometry, GeometryError};

/// Checks that there are enough blocks: one for each logical block, the log blocks, the sequential
/// one, one that a merge writes to, and one for recovery: a power cut can come when all the others
/// are in use, and leaves a sequence and a merge that have to be written anew elsewhere.
pub(crate) fn check_space_for_log(
    geometry: &Geometry,
    log_blocks: u32,
) -> Result<(), GeometryError> {
    let logical = geometry.logical_units().div_ceil(geometry.units_per_block());
    let needed = logical + log_blocks + 3;
    if geometry.blocks() >= needed {
        return Ok(());
    }
    Err(GeometryError::NoRoomForLog { given: geometry.blocks(), needed, logical, log_blocks })
}
