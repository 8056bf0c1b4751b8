//! Division by a constant divisor, as one multiplication; as a shift if the divisor is a power of two, as most are: a
//! shift has the quotient three to five cycles earlier. The choice between the two never changes for a divisor, so
//! that the branch is predicted.

use std::ops::{Div, Rem};

/// A divisor of 32-bit numbers.
///
/// With m = floor((2^64 - 1) / d), x / d is the high half of (x + 1) m. (Write 2^64 - 1 = m d + r and x + 1 = q d + s
/// with 1 <= s <= d: then (x + 1) m / 2^64 = q + s/d - (x + 1)(1 + r)/(d 2^64). The term subtracted is positive and
/// at most 2^-32, less than 1/d, so the sum lies within q..q + 1.)
#[derive(Clone, Copy, Debug)]
pub struct Divisor {
    divisor: u32,
    multiplier: u64,
    shift: u8,
    is_by_shift: bool,
}

impl Divisor {
    /// Returns a divisor.
    ///
    /// # Panics
    /// Panics if `divisor` is zero.
    pub fn new(divisor: u32) -> Divisor {
        Divisor {
            divisor,
            multiplier: u64::MAX / u64::from(divisor),
            shift: divisor.ilog2() as u8,
            is_by_shift: divisor.is_power_of_two(),
        }
    }
}

impl Div<Divisor> for u32 {
    type Output = u32;

    #[inline(always)]
    fn div(self, by: Divisor) -> u32 {
        if by.is_by_shift {
            return self >> by.shift;
        }
        let product = u128::from(u64::from(self) + 1) * u128::from(by.multiplier);
        (product >> 64) as u32
    }
}

impl Rem<Divisor> for u32 {
    type Output = u32;

    #[inline(always)]
    fn rem(self, by: Divisor) -> u32 {
        if by.is_by_shift {
            return self & (by.divisor - 1);
        }
        self - self / by * by.divisor
    }
}

/// Numbers in rounds: the first `length` numbers are in run 0, the next in run 1, and so on up to `count` such runs,
/// and then again from run 0.
///
/// With d = length count and M = ceil(2^64 / d), the low half of x M is 2^64 (x mod d) / d and an error
/// of less than x, so less than 2^32 (Lemire, Kaser, Kurz, "Faster remainder by direct computation",
/// 2019). Its product with `count`, divided by 2^64, is then (x mod d) / length and an error of less
/// than count / 2^32, which is too small to reach the next whole number as long as d < 2^32.
#[derive(Clone, Copy, Debug)]
pub struct Rounds {
    multiplier: u64,
    count: u64,
    /// Shift and mask that replace multiplier and count if `length` and `count` are powers of two.
    shift: u32,
    mask: u32,
    is_by_shift: bool,
}

impl Rounds {
    /// Returns rounds of `count` runs with `length` numbers each.
    ///
    /// # Panics
    /// Panics if `length` or `count` is zero, or if a round has 2^32 numbers or more.
    pub fn new(length: u32, count: u32) -> Rounds {
        let round = length.checked_mul(count).expect("a round has fewer than 2^32 numbers");
        // A round of one number would need 2^64 itself; zero gives the same remainder, which is zero.
        let multiplier = (u64::MAX / u64::from(round)).wrapping_add(1);
        Rounds {
            multiplier,
            count: u64::from(count),
            shift: length.ilog2(),
            mask: count - 1,
            is_by_shift: length.is_power_of_two() && count.is_power_of_two(),
        }
    }

    /// Returns the run that `x` lies in: (x / length) mod count.
    #[inline(always)]
    pub fn run_of(self, x: u32) -> u32 {
        if self.is_by_shift {
            return x >> self.shift & self.mask;
        }
        let within = u64::from(x).wrapping_mul(self.multiplier);
        ((u128::from(within) * u128::from(self.count)) >> 64) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn runs_go_round(length in 1u32..70_000, count in 1u32..60_000, x in any::<u32>()) {
            let rounds = Rounds::new(length, count);
            // An error would first show at the beginning or the end of a run.
            for x in [x, x / length * length, (x / length * length).wrapping_sub(1), u32::MAX] {
                prop_assert_eq!(rounds.run_of(x), x / length % count);
            }
        }
    }

    proptest! {
        #[test]
        fn runs_of_powers_of_two_go_round(length in 0u32..16, count in 0u32..16, x in any::<u32>()) {
            let (length, count) = (1 << length, 1 << count);
            let rounds = Rounds::new(length, count);
            prop_assert_eq!(rounds.run_of(x), x / length % count);
        }
    }

    #[test]
    fn rounds_of_few_numbers_go_round_as_well() {
        for (length, count) in [
            (1, 1),
            (1, 2),
            (2, 1),
            (3, 1),
            (1, 3),
            (1 << 16, 65_535),
            (u32::MAX, 1),
            (1, u32::MAX),
        ] {
            let rounds = Rounds::new(length, count);
            for x in (0..9).chain(u32::MAX - 9..=u32::MAX) {
                assert_eq!(rounds.run_of(x), x / length % count, "{x}, {length}, {count}");
            }
        }
    }

    #[test]
    fn the_ends_of_the_range_divide_as_they_should() {
        for divisor in [1, 2, 3, 4096, 1 << 31, (1 << 31) + 1, u32::MAX - 1, u32::MAX] {
            for value in [0, 1, divisor - 1, divisor, divisor.saturating_add(1), u32::MAX] {
                assert_eq!(value / Divisor::new(divisor), value / divisor, "{value} / {divisor}");
            }
        }
    }

    proptest! {
        #[test]
        fn it_divides_like_the_processor(
            value: u32, divisor in 1_u32.., quotient: u32, small in 1_u32..5000
        ) {
            for divisor in [divisor, small, 1 << divisor.ilog2(), 1 << small.ilog2()] {
                // The value itself, a multiple of the divisor, and the number just below it.
                let multiple = quotient / divisor * divisor;
                for value in [value, multiple, multiple.saturating_sub(1)] {
                    prop_assert_eq!(value / Divisor::new(divisor), value / divisor);
                    prop_assert_eq!(value % Divisor::new(divisor), value % divisor);
                }
            }
        }
    }
}
