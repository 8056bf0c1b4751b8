//! Ratios of times with their intervals: by the fast ends of two samples, and of two sums.

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

/// Returns how many of the fastest of two samples of `count` times each have to be of one of them alone for it
/// to be the faster one: where both are alike, the `k` fastest of all are of one given sample with the chance
/// of (n)(n-1).../(2n)(2n-1)... (the precedence test; Balakrishnan and Ng, Precedence-Type Tests, 1).
/// `None` where there are too few for any.
fn precedence(count: usize) -> Option<usize> {
    let mut chance = 1.0;
    for taken in 0..count {
        chance *= (count - taken) as f64 / (2 * count - taken) as f64;
        if chance <= TAIL {
            return Some(taken + 1);
        }
    }
    None
}

/// Turns that are few enough to begin with.
const TURNS_MIN: usize = 6;

/// Returns how many times longer `own` takes than `other`, with its interval; `None` below six turns. A turn has
/// the time of each request of both, taken one right after the other.
///
/// Both samples are compared at their fast ends, by rank. Whatever else a machine does only makes times longer,
/// by the same amount for what is fast and for what is slow, so that of times that are hit the ratio shows
/// little; however much that is, it misses some of each.
pub fn ratio_by_turns<'a>(
    turns: impl Iterator<Item = (&'a [f64], &'a [f64])> + Clone,
) -> Option<Estimate> {
    let own = by_rank(turns.clone().map(|(own, _)| own));
    let other = by_rank(turns.map(|(_, other)| other));
    let count = precedence(own.len()).filter(|_| own.len() >= TURNS_MIN)?;
    let mean = |times: &[f64]| times[..count].iter().sum::<f64>() / count as f64;
    Some(Estimate {
        low: own[0] / other[count - 1],
        middle: mean(&own) / mean(&other),
        high: own[count - 1] / other[0],
    })
}

/// Returns the sums over all requests of the fastest time of each, of the second fastest and so on: times of a
/// window that nothing else has hit, although each reading of all of it may have been. Readings with another
/// number of requests each are taken as a whole.
pub fn by_rank<'a>(readings: impl Iterator<Item = &'a [f64]>) -> Vec<f64> {
    let readings: Vec<&[f64]> = readings.collect();
    let requests = readings.first().map_or(0, |it| it.len());
    let sorted = |times: &mut dyn Iterator<Item = f64>| {
        let mut times: Vec<f64> = times.collect();
        times.sort_by(f64::total_cmp);
        times
    };
    if readings.iter().any(|it| it.len() != requests) {
        return sorted(&mut readings.iter().map(|it| it.iter().sum()));
    }
    let requests: Vec<Vec<f64>> =
        (0..requests).map(|request| sorted(&mut readings.iter().map(|it| it[request]))).collect();
    (0..readings.len()).map(|rank| requests.iter().map(|times| times[rank]).sum()).collect()
}

/// Two times of a request that differ by less than this factor agree: nothing else has hit them.
const AGREEMENT: f64 = 1.1;

/// Returns how long a window takes to be read where nothing else hits it: the second fastest time of each
/// request, summed over all of them, so that none of them was luck; of a single reading, that one.
pub fn undisturbed<'a>(readings: impl Iterator<Item = &'a [f64]>) -> f64 {
    let sums = by_rank(readings);
    sums[1.min(sums.len() - 1)]
}

/// Returns `true` where the two fastest times of each request agree, all in all: more readings would tell
/// nothing else.
pub fn agree<'a>(readings: impl Iterator<Item = &'a [f64]>) -> bool {
    let sums = by_rank(readings);
    sums.len() > 1 && sums[1] <= sums[0] * AGREEMENT
}

/// Resamples for the interval of a ratio.
const RESAMPLES: usize = 1000;

/// Returns how many times the first of each pair is the second, all in all, with the interval over the pairs (the
/// percentile bootstrap; Efron and Tibshirani, An Introduction to the Bootstrap, 13). The generator is seeded: the same
/// pairs give the same interval.
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
    fn as_many_have_to_precede_as_the_chance_of_it_by_luck_asks_for() {
        // Of 4 and 4, one of the 70 ways to share out the ranks has the first four: 0.014. Of 6 and 6,
        // 6*5*4*3 / 12*11*10*9 is 0.030, and one more makes it 0.0076.
        for (count, expected) in
            [(3, None), (4, Some(4)), (6, Some(5)), (12, Some(5)), (25, Some(6))]
        {
            assert_eq!(precedence(count), expected, "of {count}");
        }
    }

    /// Times of which 19 of 25 are hit, by up to fifty times the time itself.
    fn hit(time: f64, first: usize) -> Vec<[f64; 1]> {
        let more = |at: usize| {
            if (at + first).is_multiple_of(4) { 0.0 } else { (at * 7 % 25) as f64 * 2.0 }
        };
        (0..25).map(|at| [time + more(at)]).collect()
    }

    fn ratio(own: &[[f64; 1]], other: &[[f64; 1]]) -> Option<Estimate> {
        ratio_by_turns(own.iter().zip(other).map(|(own, other)| (&own[..], &other[..])))
    }

    #[test]
    fn what_hits_most_of_the_readings_does_not_hide_a_ratio() {
        let found = ratio(&hit(1.8, 1), &hit(1.0, 2)).unwrap();
        assert!((found.low..=found.high).contains(&1.8), "{found:?}");
        assert!(found.low >= 1.5 && (found.middle - 1.8).abs() < 0.5, "{found:?}");
        assert_eq!(ratio(&[[1.0]; 5], &[[1.0]; 5]), None);
    }

    #[test]
    fn a_window_is_known_undisturbed_although_no_reading_of_it_was() {
        let readings = [vec![1.0, 9.0], vec![8.0, 2.0], vec![1.5, 7.0], vec![6.0, 2.5]];
        let found = by_rank(readings.iter().map(Vec::as_slice));
        assert_eq!(found, [3.0, 4.0, 13.0, 17.0]);
        let all = || readings.iter().map(Vec::as_slice);
        assert!((undisturbed(all()) - 4.0).abs() < 1e-12);
        assert!((undisturbed(all().take(1)) - 10.0).abs() < 1e-12);
        assert!(!agree(all()) && !agree(all().take(1)));
        let more = [vec![1.02, 2.1]];
        assert!(agree(all().chain(more.iter().map(Vec::as_slice))));
        let uneven = [vec![1.0, 9.0], vec![3.0]];
        assert_eq!(by_rank(uneven.iter().map(Vec::as_slice)), [3.0, 10.0]);
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
