//! Ratios of times with confidence intervals: of the fast ends of two samples, and of two sums.

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use serde::{Deserialize, Serialize};

/// A value with its 95 % confidence interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// Lower end of the interval.
    pub low: f64,
    /// Estimated value.
    pub middle: f64,
    /// Upper end of the interval.
    pub high: f64,
}

/// Probability that the true value lies outside of the interval, on either side.
const TAIL: f64 = 0.025;

/// Returns the median of `values`, which must not be empty.
pub fn median(values: &[f64]) -> f64 {
    assert!(!values.is_empty(), "the median of nothing");
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let half = sorted.len() / 2;
    if sorted.len() % 2 == 1 { sorted[half] } else { (sorted[half - 1] + sorted[half]) / 2.0 }
}

/// Returns how many of the fastest times of two samples of `count` times each must all belong to one
/// given sample for that one to be the faster: if both have the same distribution, the `k` fastest of all
/// belong to one given sample with the probability (n)(n-1).../(2n)(2n-1)... (the precedence test;
/// Balakrishnan and Ng, Precedence-Type Tests, 1). `None` if there are too few times.
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

/// Least number of turns that gives an interval.
const TURNS_MIN: usize = 6;

/// Returns how many times longer `own` takes than `other`, with its interval; `None` below six turns. A
/// turn has the time of each request of both, measured one right after the other.
///
/// Both samples are compared at their fast ends, by rank. Other load only makes times longer, by the same
/// amount for fast and for slow data, so that the ratio of disturbed times shows little; but some
/// requests of each sample are undisturbed, however high the load.
pub fn ratio_by_turns<'a>(
    turns: impl Iterator<Item = (&'a [f64], &'a [f64])> + Clone,
) -> Option<Estimate> {
    let own = sums_by_rank(turns.clone().map(|(own, _)| own));
    let other = sums_by_rank(turns.map(|(_, other)| other));
    let count = precedence(own.len()).filter(|_| own.len() >= TURNS_MIN)?;
    let mean = |times: &[f64]| times[..count].iter().sum::<f64>() / count as f64;
    Some(Estimate {
        low: own[0] / other[count - 1],
        middle: mean(&own) / mean(&other),
        high: own[count - 1] / other[0],
    })
}

/// Returns the sum over all requests of the fastest time of each, then that of the second fastest times,
/// and so on. The first sums are times of a window without other load, although each reading as a whole
/// may have been disturbed. If the readings have different numbers of requests, the sum of each reading
/// counts.
pub fn sums_by_rank<'a>(readings: impl Iterator<Item = &'a [f64]>) -> Vec<f64> {
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

/// Factor below which two times of a request agree: neither was disturbed by other load.
const AGREEMENT: f64 = 1.1;

/// Returns the time to read a window without other load: the second fastest time of each request, summed
/// over all requests, so that no time is an outlier. Of a single reading, its sum.
pub fn time_without_load<'a>(readings: impl Iterator<Item = &'a [f64]>) -> f64 {
    let sums = sums_by_rank(readings);
    sums[1.min(sums.len() - 1)]
}

/// Returns true if the two fastest times of the requests agree in sum. More readings would not change the
/// result.
pub fn readings_agree<'a>(readings: impl Iterator<Item = &'a [f64]>) -> bool {
    let sums = sums_by_rank(readings);
    sums.len() > 1 && sums[1] <= sums[0] * AGREEMENT
}

/// Number of bootstrap resamples.
const RESAMPLES: usize = 1000;

/// Returns the ratio of the sum of the first values of the pairs to the sum of the second ones, with its
/// interval over the pairs (the percentile bootstrap; Efron and Tibshirani, An Introduction to the
/// Bootstrap, 13). `None` if there are no pairs. The generator is seeded: the same pairs give the same
/// interval.
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

    /// Times of which 19 of 25 are disturbed, by up to fifty times the time itself.
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
        let found = sums_by_rank(readings.iter().map(Vec::as_slice));
        assert_eq!(found, [3.0, 4.0, 13.0, 17.0]);
        let all = || readings.iter().map(Vec::as_slice);
        assert!((time_without_load(all()) - 4.0).abs() < 1e-12);
        assert!((time_without_load(all().take(1)) - 10.0).abs() < 1e-12);
        assert!(!readings_agree(all()) && !readings_agree(all().take(1)));
        let more = [vec![1.02, 2.1]];
        assert!(readings_agree(all().chain(more.iter().map(Vec::as_slice))));
        let uneven = [vec![1.0, 9.0], vec![3.0]];
        assert_eq!(sums_by_rank(uneven.iter().map(Vec::as_slice)), [3.0, 10.0]);
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
