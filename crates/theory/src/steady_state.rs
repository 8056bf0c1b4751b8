//! The steady state of a drive.

/// A drive in steady state, by a formula: its write amplification, and the shares of blocks by valid units.
///
/// The shares also allow to build a used drive directly, without writing it full first.
#[derive(Clone, Debug, PartialEq)]
pub struct SteadyState {
    write_amplification: f64,
    shares: Vec<f64>,
}

impl SteadyState {
    /// Returns a steady state; `shares[i]` is the share of blocks that hold `i` valid units, for `i` = 0 to `b`.
    pub(super) fn new(write_amplification: f64, shares: Vec<f64>) -> Self {
        debug_assert!(write_amplification >= 1.0);
        debug_assert!(shares.iter().all(|&share| (0.0..=1.0).contains(&share)));
        debug_assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-6);
        SteadyState { write_amplification, shares }
    }

    /// Returns the flash programs per host write, at least 1.
    pub fn write_amplification(&self) -> f64 {
        self.write_amplification
    }

    /// Returns the share of blocks that hold 0, 1, .. `b` valid units: `b + 1` shares with the sum 1.
    pub fn shares(&self) -> &[f64] {
        &self.shares
    }

    /// Returns the number of valid units in the average block: occupancy times units per block.
    pub fn mean_valid_units(&self) -> f64 {
        (0..).zip(&self.shares).map(|(valid, share)| f64::from(valid) * share).sum()
    }
}
