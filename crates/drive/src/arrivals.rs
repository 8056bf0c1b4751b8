//! Arrival times of an open loop: a Poisson process.
//!
//! Gaps between arrivals are exponential, drawn by von Neumann's method (Various Techniques Used in
//! Connection with Random Digits, 1951). The method compares uniform numbers and takes no logarithm, whose
//! last digit differs between machines.

use ssdlab_units::Nanoseconds;

use crate::addresses::SplitMix64;

/// Moments of arrival, ascending, counted from the start of a phase.
#[derive(Clone, Debug)]
pub struct Arrivals {
    generator: SplitMix64,
    mean_gap: f64,
    /// The moment of the next arrival, in nanoseconds.
    next: f64,
}

impl Arrivals {
    /// Returns arrivals at an average rate of `per_second`.
    pub fn new(per_second: f64, seed: u64) -> Self {
        // Uses other random words than the addresses that are drawn with the same seed.
        let generator = SplitMix64::new(seed ^ 0x6172_7269_7661_6c73);
        let mut this = Arrivals { generator, mean_gap: 1e9 / per_second, next: 0.0 };
        this.advance();
        this
    }

    /// Returns the next arrival, which stays the next one until [`Arrivals::advance`].
    #[inline]
    pub fn next(&self) -> Nanoseconds {
        Nanoseconds::new(self.next as u64)
    }

    /// Advances to the arrival after it.
    #[inline]
    pub fn advance(&mut self) {
        self.next += self.exponential() * self.mean_gap;
    }

    /// Returns a uniform number from 0 to less than 1, with 53 random bits.
    fn uniform(&mut self) -> f64 {
        (self.generator.next_word() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Returns an exponential number with a mean of 1. A uniform number is the fractional part if the
    /// falling run that begins with it has odd length; every run of even length adds one to the integer
    /// part.
    fn exponential(&mut self) -> f64 {
        let mut whole = 0.0;
        loop {
            let first = self.uniform();
            let (mut last, mut length) = (first, 1u32);
            loop {
                let next = self.uniform();
                if next >= last {
                    break;
                }
                last = next;
                length += 1;
            }
            if length % 2 == 1 {
                return whole + first;
            }
            whole += 1.0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_are_exponential() {
        let mut arrivals = Arrivals::new(1e9, 7);
        let gaps: Vec<f64> = (0..200_000).map(|_| arrivals.exponential()).collect();
        let count = gaps.len() as f64;
        let mean = gaps.iter().sum::<f64>() / count;
        let square = gaps.iter().map(|gap| gap * gap).sum::<f64>() / count;
        assert!((mean - 1.0).abs() < 0.01, "mean {mean}");
        assert!((square - 2.0).abs() < 0.05, "second moment {square}");
        for above in [0.5_f64, 1.0, 3.0] {
            let share = gaps.iter().filter(|gap| **gap > above).count() as f64 / count;
            assert!((share - (-above).exp()).abs() < 0.005, "above {above}: {share}");
        }
    }

    #[test]
    fn as_many_arrive_as_were_asked_for() {
        let mut arrivals = Arrivals::new(20_000.0, 1);
        let mut count = 0;
        while arrivals.next() < Nanoseconds::from_secs(5) {
            arrivals.advance();
            count += 1;
        }
        // A hundred thousand arrivals, within three standard deviations.
        assert!((99_000..101_000).contains(&count), "{count}");
    }
}
