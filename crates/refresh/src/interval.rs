//! Medians and their intervals, and the interval of a ratio of two sums.

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use serde::{Deserialize, Serialize};

/// A figure with the interval that holds it with 95 % confidence.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// Lower end.
    pub low: f64,
    /// The figure.
    pub middle: f64,
    /// Upper end.
    pub high: f64,
}

/// Chance that the interval misses on either side.
const TAIL: f64 = 0.025;

/// The median; `values` are not empty.
pub fn median(values: &[f64]) -> f64 {
    assert!(!values.is_empty(), "the median of nothing");
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let half = sorted.len() / 2;
    if sorted.len() % 2 == 1 { sorted[half] } else { (sorted[half - 1] + sorted[half]) / 2.0 }
}

/// How many values at each end of `count` sorted ones lie outside the interval of the median: the
/// number of values below the median is binomial with one half (David and Nagaraja, Order
/// Statistics, 7.1). Nothing where there are too few for any interval.
fn outside(count: usize) -> Option<usize> {
    let mut term = 0.5_f64.powi(count as i32);
    let mut below = term;
    let mut outside = None;
    for k in 0..count / 2 {
        if below > TAIL {
            break;
        }
        outside = Some(k);
        term *= (count - k) as f64 / (k + 1) as f64;
        below += term;
    }
    outside
}

/// The median with its interval, whatever the values' distribution; nothing below six of them.
pub fn median_interval(values: &[f64]) -> Option<Estimate> {
    let outside = outside(values.len())?;
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let low = sorted[outside];
    let high = sorted[sorted.len() - 1 - outside];
    Some(Estimate { low, middle: median(values), high })
}

/// Resamples for the interval of a ratio.
const RESAMPLES: usize = 1000;

/// How many times the first of each pair is the second, all in all, with the interval over the
/// pairs (the percentile bootstrap; Efron and Tibshirani, An Introduction to the Bootstrap, 13).
/// The generator is seeded: the same pairs give the same interval.
pub fn ratio_of_sums(pairs: &[(f64, f64)]) -> Option<Estimate> {
    let ratio = |pairs: &mut dyn Iterator<Item = (f64, f64)>| {
        let (above, below) = pairs.fold((0.0, 0.0), |sums, it| (sums.0 + it.0, sums.1 + it.1));
        above / below
    };
    if pairs.is_empty() {
        return None;
    }
    let mut generator = Pcg64Mcg::seed_from_u64(1);
    let mut ratios: Vec<f64> = (0..RESAMPLES)
        .map(|_| {
            let mut drawn = (0..pairs.len()).map(|_| pairs[generator.random_range(0..pairs.len())]);
            ratio(&mut drawn)
        })
        .collect();
    ratios.sort_by(f64::total_cmp);
    let at = |share: f64| ratios[(share * (RESAMPLES - 1) as f64).round() as usize];
    let middle = ratio(&mut pairs.iter().copied());
    Some(Estimate { low: at(TAIL), middle, high: at(1.0 - TAIL) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_of_medians_are_those_of_the_tables() {
        // Order Statistics, table: n = 6: 1st to 6th, 9: 2nd to 8th, 12: 3rd to 10th, 15: 4th to 12th.
        for (count, expected) in
            [(5, None), (6, Some(0)), (9, Some(1)), (12, Some(2)), (15, Some(3))]
        {
            assert_eq!(outside(count), expected, "of {count}");
        }
        let values: Vec<f64> = (1..=9).map(f64::from).collect();
        let found = median_interval(&values).unwrap();
        assert_eq!((found.low, found.middle, found.high), (2.0, 5.0, 8.0));
    }

    #[test]
    fn a_ratio_without_scatter_has_no_width() {
        let found = ratio_of_sums(&[(6.0, 2.0), (3.0, 1.0), (9.0, 3.0)]).unwrap();
        assert!((found.low - 3.0).abs() < 1e-12 && (found.high - 3.0).abs() < 1e-12);
        let found = ratio_of_sums(&[(6.0, 1.0), (1.0, 1.0), (2.0, 1.0)]).unwrap();
        assert!(found.low < 3.0 && found.high > 3.0);
        assert_eq!(ratio_of_sums(&[]), None);
    }
}
