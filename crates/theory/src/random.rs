//! Random collection: the victim is any block.

use super::SpareFactor;

/// Returns the write amplification if the victim is chosen at random: `A = 1 / (1 - rho)`.
///
/// The victim is as full as the average block, so a share `rho` of it is copied. The result does not depend on units
/// per block; it holds for every [`SpareFactor`]. Source: Van Houdt, "A mean field model for a class of garbage
/// collection algorithms in flash-based solid state drives", SIGMETRICS 2013.
pub fn write_amplification(spare: SpareFactor) -> f64 {
    1.0 / spare.spare_of_physical()
}
