//! Division by a number that does not change, as one multiplication and no branch.

use std::ops::{Div, Rem};

/// A divisor of 32-bit numbers.
///
/// With m = floor((2^64 - 1) / d), x / d is the high half of (x + 1) m. (Write 2^64 - 1 = m d + r
/// and x + 1 = q d + s with 1 <= s <= d: then (x + 1) m / 2^64 = q + s/d - (x + 1)(1 + r)/(d 2^64).
/// What is taken away is positive and at most 2^-32, less than 1/d, so the sum lies within q..q + 1.)
#[derive(Clone, Copy, Debug)]
pub(crate) struct Divisor {
    divisor: u32,
    multiplier: u64,
}

impl Divisor {
    /// # Panics
    /// When `divisor` is zero.
    pub(crate) fn new(divisor: u32) -> Divisor {
        Divisor { divisor, multiplier: u64::MAX / u64::from(divisor) }
    }
}

impl Div<Divisor> for u32 {
    type Output = u32;

    #[inline(always)]
    fn div(self, by: Divisor) -> u32 {
        let product = u128::from(u64::from(self) + 1) * u128::from(by.multiplier);
        (product >> 64) as u32
    }
}

impl Rem<Divisor> for u32 {
    type Output = u32;

    #[inline(always)]
    fn rem(self, by: Divisor) -> u32 {
        self - self / by * by.divisor
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

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
            for divisor in [divisor, small] {
                // The value itself, and one just below and at a multiple of the divisor.
                let multiple = quotient / divisor * divisor;
                for value in [value, multiple, multiple.saturating_sub(1)] {
                    prop_assert_eq!(value / Divisor::new(divisor), value / divisor);
                    prop_assert_eq!(value % Divisor::new(divisor), value % divisor);
                }
            }
        }
    }
}
