//! TRIM: trimmed pages add to the over-provisioning.
//!
//! Frankie, Hughes and Kreutz-Delgado, "Analysis of Trim Commands on Overprovisioning and Write
//! Amplification in Solid State Drives", arXiv 1208.1794, 2012.

use super::{ParameterError, SpareFactor};

/// Returns the share of logical pages that is mapped in steady state, `s = (1 - 2q) / (1 - q)`, if a share `q` of
/// requests trims a random mapped page and the others write a random page.
///
/// `trim_share` is `q`: at least 0 and below 0.5, at which no page would stay mapped. The share is steady when as
/// many pages are mapped by writes, `(1 - q)(1 - s)`, as trimmed, `q`.
pub fn mapped_share(trim_share: f64) -> Result<f64, ParameterError> {
    if (0.0..0.5).contains(&trim_share) {
        Ok((1.0 - 2.0 * trim_share) / (1.0 - trim_share))
    } else {
        Err(ParameterError::TrimShare(trim_share))
    }
}

/// Returns the spare factor with such trims, `alpha / s`, which replaces `alpha` in every policy's formula.
///
/// `trim_share` is as for [`mapped_share`]. Each write still invalidates one valid page on average, by itself or by
/// the trims that go with it, so the formulas hold unchanged. Write amplification is per host write; trims are not
/// counted.
pub fn effective_spare(spare: SpareFactor, trim_share: f64) -> Result<SpareFactor, ParameterError> {
    let mapped = mapped_share(trim_share)?;
    // alpha / s - 1, computed so that a small spare keeps its digits; 1 - s = q / (1 - q).
    let unmapped = trim_share / (1.0 - trim_share);
    SpareFactor::from_spare_of_logical((spare.spare_of_logical() + unmapped) / mapped)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_trims_nothing_changes() {
        let spare = SpareFactor::from_spare_of_logical(0.07).unwrap();
        assert_eq!(mapped_share(0.0), Ok(1.0));
        assert_eq!(effective_spare(spare, 0.0), Ok(spare));
    }

    #[test]
    fn the_effective_factor_is_alpha_over_the_mapped_share() {
        let spare = SpareFactor::from_spare_of_logical(0.07).unwrap();
        let effective = effective_spare(spare, 0.1).unwrap();
        assert!((effective.alpha() - 1.07 / (0.8 / 0.9)).abs() < 1e-12);
    }

    #[test]
    fn trims_that_leave_nothing_mapped_are_refused() {
        assert_eq!(mapped_share(0.5), Err(ParameterError::TrimShare(0.5)));
        assert!(mapped_share(-0.1).is_err());
        assert!(mapped_share(f64::NAN).is_err());
    }
}
