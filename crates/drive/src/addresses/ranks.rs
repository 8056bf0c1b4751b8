//! Random ranks with a smoothly falling or rising distribution: Zipf's and Pareto's.
//!
//! Ranks are grouped into ranges: the first 64 ranks have a range each, then there are 64 ranges in each
//! doubling, so that within a range the distribution is close to a straight line. A range is drawn by the
//! alias method (Walker 1977, Vose 1991), a rank within it by the line. All draws use integers. The
//! functions that compute the table are those of the `libm` crate, not of the machine's C library, whose
//! last bits differ: so a seed gives the same requests everywhere.
//!
//! The distributions of the `rand_distr` crate compute two to three powers with the C library for each
//! draw.

use rand::Rng;

use super::skewed::scale_below;

/// Number of ranges in each doubling of the rank; as many first ranks have a range each.
const RANGES_PER_DOUBLING: u64 = 64;

/// Draws ranks, which count from 0.
#[derive(Clone, Debug)]
pub(super) struct RankSampler {
    ranges: Vec<RankRange>,
    /// True if the probability rises with the rank.
    is_rising: bool,
}

/// A range of consecutive ranks.
#[derive(Clone, Copy, Debug)]
struct RankRange {
    /// A draw below this selects this range; any other draw selects `alias`.
    below: u64,
    first: u64,
    count: u64,
    alias: u32,
    /// Frequency, of 2^32, with which the rank is the smaller one of two draws: this gives the line its
    /// slope.
    tilt: u32,
}

impl RankSampler {
    /// Returns the ranks below `blocks`, rank k in proportion to `1 / (k + 1)^theta`.
    pub(super) fn zipf(blocks: u64, theta: f64) -> RankSampler {
        let weight = |from: u64, to: u64| match to - from {
            1 => libm::pow(from as f64, -theta),
            _ => {
                // Sum by the midpoint rule and its first correction (Euler and Maclaurin).
                let (low, high) = (from as f64 - 0.5, to as f64 - 0.5);
                let slope = |at: f64| -theta * libm::pow(at, -theta - 1.0);
                integral_of_power(low, high, -theta) - (slope(high) - slope(low)) / 24.0
            }
        };
        RankSampler::new(blocks, false, weight, |rank| libm::pow(rank as f64, -theta))
    }

    /// Returns the ranks below `blocks` by fio's `pareto`: a share of `share` of the ranks gets the rest of
    /// the requests (a share of `1 - share`), and so on within that share. For a uniform u the rank is
    /// `blocks * u^(ln share / ln (1 - share))`.
    pub(super) fn pareto(blocks: u64, share: f64) -> RankSampler {
        let power = libm::log1p(-share) / libm::log(share);
        // The first ranks that make up the share x of all ranks get the share x^power of the requests.
        let up_to = |rank: u64| libm::pow(rank as f64 / blocks as f64, power);
        let weight = |from: u64, to: u64| up_to(to - 1) - up_to(from - 1);
        RankSampler::new(blocks, power > 1.0, weight, |rank| {
            libm::pow(rank as f64 - 0.5, power - 1.0)
        })
    }

    /// Returns the law that is given by the `weight` of the ranks from one to before another, and by its
    /// `density` at a rank. Both take ranks that count from 1.
    fn new(
        blocks: u64,
        is_rising: bool,
        weight: impl Fn(u64, u64) -> f64,
        density: impl Fn(u64) -> f64,
    ) -> RankSampler {
        let (mut ranges, mut weights) = (Vec::new(), Vec::new());
        let mut from = 1;
        while from <= blocks {
            let width =
                (from / RANGES_PER_DOUBLING).checked_ilog2().map_or(1, |doublings| 1 << doublings);
            let to = (from + width).min(blocks + 1);
            let count = to - from;
            let (first, last) = (density(from), density(to - 1));
            let steepness = if is_rising { last / first } else { first / last };
            weights.push(weight(from, to));
            ranges.push(RankRange {
                below: u64::MAX,
                first: from - 1,
                count,
                alias: ranges.len() as u32,
                tilt: tilt(steepness, count),
            });
            from = to;
        }
        add_aliases(&mut ranges, &weights);
        RankSampler { ranges, is_rising }
    }

    /// Returns the next rank.
    #[inline]
    pub(super) fn draw(&self, generator: &mut impl Rng) -> u64 {
        let drawn = u128::from(generator.next_u64()) * self.ranges.len() as u128;
        let mut range = &self.ranges[(drawn >> 64) as usize];
        if drawn as u64 >= range.below {
            range = &self.ranges[range.alias as usize];
        }
        if range.count == 1 {
            return range.first;
        }
        let mut place = scale_below(range.count, generator.next_u64());
        if (generator.next_u64() as u32) < range.tilt {
            place = place.min(scale_below(range.count, generator.next_u64()));
        }
        range.first + if self.is_rising { range.count - 1 - place } else { place }
    }
}

/// Returns the integral of `t^power` from `low` to `high`, also if the power is close to -1.
fn integral_of_power(low: f64, high: f64, power: f64) -> f64 {
    let (exponent, ratio) = (power + 1.0, libm::log(high / low));
    if exponent.abs() < 1e-12 {
        return ratio;
    }
    libm::pow(low, exponent) * libm::expm1(exponent * ratio) / exponent
}

/// Returns the frequency, of 2^32, with which the smaller of two draws has to be taken, for the first of
/// `count` places to come `steepness` times as often as the last.
fn tilt(steepness: f64, count: u64) -> u32 {
    if count < 2 || !steepness.is_finite() {
        return 0;
    }
    let count = count as f64;
    let share = (steepness - 1.0) / ((steepness + 1.0) * (count - 1.0) / count);
    (share.clamp(0.0, 1.0) * f64::from(u32::MAX)) as u32
}

/// Sets the part of a draw that each range takes itself, and the range that takes the rest (its alias).
fn add_aliases(ranges: &mut [RankRange], weights: &[f64]) {
    let sum: f64 = weights.iter().sum();
    let mut shares: Vec<f64> =
        weights.iter().map(|weight| weight / sum * ranges.len() as f64).collect();
    let (mut small, mut large): (Vec<usize>, Vec<usize>) =
        (0..ranges.len()).partition(|&range| shares[range] < 1.0);
    while let (Some(&lacks), Some(&gives)) = (small.last(), large.last()) {
        small.pop();
        ranges[lacks].below = (shares[lacks] * 2.0_f64.powi(64)) as u64;
        ranges[lacks].alias = gives as u32;
        shares[gives] -= 1.0 - shares[lacks];
        if shares[gives] < 1.0 {
            large.pop();
            small.push(gives);
        }
    }
}

#[cfg(test)]
mod tests {
    use rand_pcg::Mcg128Xsl64;

    use super::*;

    /// Returns the probability of each rank according to the table.
    fn probabilities(ranks: &RankSampler) -> Vec<f64> {
        let mut of_range = vec![0.0; ranks.ranges.len()];
        for (index, range) in ranks.ranges.iter().enumerate() {
            let own = range.below as f64 / 2.0_f64.powi(64);
            of_range[index] += own;
            of_range[range.alias as usize] += 1.0 - own;
        }
        let mut all = Vec::new();
        for (range, weight) in ranks.ranges.iter().zip(of_range) {
            let (count, tilt) = (range.count as f64, f64::from(range.tilt) / f64::from(u32::MAX));
            let line = |place: u64| {
                let place = if ranks.is_rising { range.count - 1 - place } else { place };
                (1.0 - tilt) / count + tilt * (2.0 * (count - place as f64) - 1.0) / (count * count)
            };
            let places = (0..range.count).map(line);
            all.extend(places.map(|share| share * weight / ranks.ranges.len() as f64));
        }
        all
    }

    fn assert_close(ranks: &RankSampler, exact: &[f64], tolerance: f64, law: &str) {
        let sum: f64 = exact.iter().sum();
        let table = probabilities(ranks);
        assert_eq!(table.len(), exact.len());
        for (rank, (have, want)) in table.iter().zip(exact).enumerate() {
            let want = want / sum;
            let error = (have - want).abs();
            assert!(error <= tolerance * want + 1e-16, "{law}, rank {rank}: {have} for {want}");
        }
    }

    #[test]
    fn every_rank_has_the_probability_of_zipfs_law() {
        for blocks in [1, 2, 3, 64, 65, 127, 129, 1_000, 100_003] {
            for theta in [0.0, 0.5, 0.8, 1.0, 1.2, 3.0] {
                let exact: Vec<f64> = (1..=blocks).map(|rank| (rank as f64).powf(-theta)).collect();
                let law = format!("zipf:{theta} of {blocks}");
                // A line instead of a power, over a sixty-fourth: the error is the square of that, times an
                // eighth.
                assert_close(
                    &RankSampler::zipf(blocks, theta),
                    &exact,
                    1e-4 * (1.0 + theta * theta),
                    &law,
                );
            }
        }
    }

    #[test]
    fn every_rank_has_the_probability_of_paretos_law() {
        for blocks in [1, 2, 100, 10_007] {
            for share in [0.01, 0.2, 0.5, 0.8] {
                let power = (1.0_f64 - share).ln() / share.ln();
                let up_to = |rank: u64| (rank as f64 / blocks as f64).powf(power);
                let exact: Vec<f64> =
                    (1..=blocks).map(|rank| up_to(rank) - up_to(rank - 1)).collect();
                let law = format!("pareto:{share} of {blocks}");
                assert_close(&RankSampler::pareto(blocks, share), &exact, 1e-3, &law);
            }
        }
    }

    #[test]
    fn what_is_drawn_follows_the_table() {
        for ranks in [
            RankSampler::zipf(3_000, 0.9),
            RankSampler::pareto(3_000, 0.3),
            RankSampler::pareto(3_000, 0.7),
        ] {
            let mut generator = Mcg128Xsl64::new(7);
            let mut counts = vec![0_u32; 3_000];
            let draws = 3_000_000;
            for _ in 0..draws {
                counts[ranks.draw(&mut generator) as usize] += 1;
            }
            let mut chi_square = 0.0;
            for (count, share) in counts.iter().zip(probabilities(&ranks)) {
                let expected = share * f64::from(draws);
                chi_square += (f64::from(*count) - expected).powi(2) / expected;
            }
            let deviations = (chi_square - 2_999.0) / (2.0 * 2_999.0_f64).sqrt();
            assert!(deviations.abs() < 5.0, "{deviations}");
        }
    }

    #[test]
    fn a_large_region_has_few_ranges_and_all_its_ranks() {
        let ranks = RankSampler::zipf(1 << 40, 1.0);
        assert!(ranks.ranges.len() < 3_000, "{}", ranks.ranges.len());
        let last = ranks.ranges.last().unwrap();
        assert_eq!(last.first + last.count, 1 << 40);
        assert_eq!(size_of::<RankRange>(), 32);
    }
}
