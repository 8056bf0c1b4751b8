//! Parameters of the formulas, each checked once when it is made, so that no formula meets a value for which it has
//! no answer.

use std::num::NonZeroU32;
use std::ops::RangeInclusive;

/// A parameter for which a formula has no answer.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ParameterError {
    /// Over-provisioning as a share of logical capacity. With zero or less a drive cannot collect.
    #[error("over-provisioning is {0} of logical capacity; it must be between 1e-12 and 1e6")]
    Spare(f64),
    /// Units per block.
    #[error("{0} units per block; there must be 1 to 2^24")]
    UnitsPerBlock(u32),
    /// Blocks compared per victim.
    #[error("{0} blocks to choose a victim from; there must be at least 1")]
    Choices(u32),
    /// Share of writes that goes to hot pages, or share of pages that is hot.
    #[error("a share of {0} of the writes or pages is hot; it must be between 1e-9 and 1 - 1e-9")]
    HotShare(f64),
    /// Hot stream's share of the over-provisioning.
    #[error(
        "the hot stream has a share of {0} of the over-provisioning; it must be between 0 and 1"
    )]
    HotSpareShare(f64),
    /// Share of requests that trims.
    #[error("a share of {0} of the requests trims; it must be at least 0 and below 0.5")]
    TrimShare(f64),
}

/// Ratio of flash to data: `alpha`, usable physical pages per logical page.
///
/// Blocks that are always kept free or open are not usable. The value is stored as the spare share of logical
/// capacity (`alpha - 1`), which keeps every digit of a small spare; it is valid from 1e-12 to 1e6.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct SpareFactor {
    of_logical: f64,
}

impl SpareFactor {
    const VALID: RangeInclusive<f64> = 1e-12..=1e6;

    /// Returns the factor for a spare share of logical capacity: 0.07 is 7 % of logical, `alpha` = 1.07.
    pub fn from_spare_of_logical(share: f64) -> Result<Self, ParameterError> {
        if Self::VALID.contains(&share) {
            Ok(SpareFactor { of_logical: share })
        } else {
            Err(ParameterError::Spare(share))
        }
    }

    /// Returns the factor for a spare share of physical capacity, below 1: 0.07 is 7 % of physical, `alpha` = 1 /
    /// 0.93.
    pub fn from_spare_of_physical(share: f64) -> Result<Self, ParameterError> {
        Self::from_spare_of_logical(share / (1.0 - share))
    }

    /// Returns the factor for numbers of pages, or of units, or of bytes: `physical` usable ones for `logical` ones
    /// of data.
    pub fn from_counts(physical: u64, logical: u64) -> Result<Self, ParameterError> {
        // Integers keep every digit of the difference, which may be small.
        let spare = i128::from(physical) - i128::from(logical);
        Self::from_spare_of_logical(spare as f64 / logical as f64)
    }

    /// Returns the factor for a spare share that the caller knows to be above zero.
    pub(super) fn from_positive_spare(share: f64) -> Self {
        debug_assert!(share > 0.0 && share.is_finite());
        SpareFactor { of_logical: share }
    }

    /// Returns `alpha`: usable physical pages per logical page, above 1.
    pub fn alpha(self) -> f64 {
        1.0 + self.of_logical
    }

    /// Returns `rho = 1 / alpha`: the share of usable physical pages that hold valid data.
    pub fn occupancy(self) -> f64 {
        1.0 / self.alpha()
    }

    /// Returns `alpha - 1`: spare as a share of logical capacity.
    pub fn spare_of_logical(self) -> f64 {
        self.of_logical
    }

    /// Returns `1 - rho`: spare as a share of physical capacity.
    pub fn spare_of_physical(self) -> f64 {
        self.of_logical / self.alpha()
    }
}

/// Number of mapping units per collection unit, `b` (superblock or block, whichever the drive collects).
///
/// From 1 to 2^24; formulas that compute a value per number of valid units take memory and time in proportion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UnitsPerBlock(NonZeroU32);

impl UnitsPerBlock {
    const MAX: u32 = 1 << 24;

    /// Returns the parameter for `units` units per block.
    pub fn new(units: u32) -> Result<Self, ParameterError> {
        NonZeroU32::new(units)
            .filter(|units| units.get() <= Self::MAX)
            .map(UnitsPerBlock)
            .ok_or(ParameterError::UnitsPerBlock(units))
    }

    /// Returns the number of units.
    pub fn get(self) -> u32 {
        self.0.get()
    }
}

/// Number of random blocks that the collector compares to choose one victim, `d`: 1 or more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Choices(NonZeroU32);

impl Choices {
    /// Returns the parameter for `blocks` blocks compared per victim.
    pub fn new(blocks: u32) -> Result<Self, ParameterError> {
        NonZeroU32::new(blocks).map(Choices).ok_or(ParameterError::Choices(blocks))
    }

    /// Returns the number of blocks.
    pub fn get(self) -> u32 {
        self.0.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spare_is_the_same_however_it_is_said() {
        let counted = SpareFactor::from_counts(125, 100).unwrap();
        assert_eq!(counted, SpareFactor::from_spare_of_logical(0.25).unwrap());
        assert_eq!(counted, SpareFactor::from_spare_of_physical(0.2).unwrap());
        assert_eq!(counted.alpha(), 1.25);
        assert_eq!(counted.occupancy(), 0.8);
        assert_eq!(counted.spare_of_physical(), 0.2);
    }

    #[test]
    fn a_drive_without_spare_is_refused() {
        assert!(SpareFactor::from_counts(100, 100).is_err());
        assert!(SpareFactor::from_counts(99, 100).is_err());
        assert!(SpareFactor::from_counts(0, 0).is_err());
        assert!(SpareFactor::from_counts(1, 0).is_err());
        assert!(SpareFactor::from_spare_of_logical(-0.1).is_err());
        assert!(SpareFactor::from_spare_of_logical(f64::NAN).is_err());
        assert!(SpareFactor::from_spare_of_logical(f64::INFINITY).is_err());
        assert!(SpareFactor::from_spare_of_physical(1.0).is_err());
        assert!(SpareFactor::from_spare_of_physical(1.5).is_err());
    }

    #[test]
    fn counts_of_nothing_are_refused() {
        assert_eq!(UnitsPerBlock::new(0), Err(ParameterError::UnitsPerBlock(0)));
        assert!(UnitsPerBlock::new(u32::MAX).is_err());
        assert_eq!(Choices::new(0), Err(ParameterError::Choices(0)));
    }
}
