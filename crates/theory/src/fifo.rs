//! First in, first out: the victim is the block written longest ago.
//!
//! With `z` for the number of times an average page is rewritten between a block's writing and
//! its collection, a page is still valid at the end with probability `e^-z`. So
//! `A = 1 / (1 - e^-z)`, and because a block waits while every usable page is written once,
//! `z = alpha / A`. Together: `z / (1 - e^-z) = alpha`.

use lambert_w::lambert_w0;

use super::SpareFactor;
use super::roots::zero_of_increasing;

/// Spare of logical capacity below which the equation is solved instead of the closed form.
///
/// There the argument of W comes so close to the branch point -1/e that a rounding error e grows to e / spare^2; at
/// the threshold 12 digits are left.
const NEAR_BRANCH_POINT: f64 = 1.0 / 64.0;

/// Returns the write amplification if the oldest block is collected: `A = alpha / (alpha + W(-alpha e^-alpha))`, `W`
/// the principal branch of Lambert's function.
///
/// The result also holds for LRU, which is FIFO if all pages are alike, for any number of units per block and every
/// [`SpareFactor`]. Sources: Desnoyers, "Analytic modeling of SSD write performance", SYSTOR 2012 (there LRU); Xiang
/// and Kurkoski, arXiv 1110.4245, 2011: 2.36 at `alpha` = 1.3.
pub fn write_amplification(spare: SpareFactor) -> f64 {
    let alpha = spare.alpha();
    let rewrites = if spare.spare_of_logical() < NEAR_BRANCH_POINT {
        let spare = spare.spare_of_logical();
        zero_of_increasing(|z| spare_for(z) - spare, spare, 2.0 * spare)
    } else {
        alpha + lambert_w0(-alpha * (-alpha).exp())
    };
    alpha / rewrites
}

/// Returns the spare of logical capacity, `z / (1 - e^-z) - 1`, with which a page is rewritten `z` times before its
/// block is collected. It lies between `z / 2` and `z`; `z` is 0 or more.
pub(super) fn spare_for(z: f64) -> f64 {
    if z < 0.1 {
        // The difference below would lose its digits; this series is exact to 1e-16 there.
        // Its coefficients are the Bernoulli numbers over the factorials.
        let z2 = z * z;
        z / 2.0 + z2 * (1.0 / 12.0 - z2 * (1.0 / 720.0 - z2 * (1.0 / 30240.0 - z2 / 1209600.0)))
    } else {
        (z + (-z).exp_m1()) / -(-z).exp_m1()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(spare_of_logical: f64) -> f64 {
        write_amplification(SpareFactor::from_spare_of_logical(spare_of_logical).unwrap())
    }

    #[test]
    fn the_answer_satisfies_its_equation_at_every_spare() {
        for exponent in -120..=30 {
            let spare = 10f64.powf(f64::from(exponent) / 10.0);
            let z = (1.0 + spare) / at(spare);
            assert!((spare_for(z) / spare - 1.0).abs() < 1e-11, "{spare}");
        }
    }

    #[test]
    fn the_closed_form_and_the_equation_meet() {
        let below = at(NEAR_BRANCH_POINT.next_down());
        assert!((below / at(NEAR_BRANCH_POINT) - 1.0).abs() < 1e-11);
    }

    #[test]
    fn with_little_spare_it_is_one_over_twice_the_spare() {
        // A = 1 / (2 s) + 2/3 + O(s), from the series.
        for spare in [1e-4, 1e-6, 1e-12] {
            let expected = 1.0 / (2.0 * spare) + 2.0 / 3.0;
            assert!((at(spare) / expected - 1.0).abs() < spare * spare + 1e-15);
        }
    }

    #[test]
    fn with_boundless_spare_nothing_is_copied() {
        assert_eq!(at(1e6), 1.0);
    }
}
