//! Zero and minimum of a function of one variable. Both searches keep a bracket, so neither can diverge.

use std::f64::consts::GOLDEN_RATIO;

/// Largest number of steps of a search, whatever the function. Bisection alone needs 53, and one more for each factor
/// of 2 between the bracket and the zero; interpolation needs about 10.
const STEPS_MAX: u32 = 200;

/// Returns the zero of the increasing function `f` between `low` and `high`, to the last digits of a double, or an
/// end of the range if `f` does not change sign within it.
///
/// Chandrupatla's method (Advances in Engineering Software 28, 1997, 145-149): inverse quadratic
/// interpolation where three points bend little enough, bisection otherwise.
pub(super) fn zero_of_increasing(f: impl Fn(f64) -> f64, low: f64, high: f64) -> f64 {
    let (mut a, mut b) = (low, high);
    let (mut f_a, mut f_b) = (f(a), f(b));
    if f_a >= 0.0 {
        return low;
    }
    if f_b <= 0.0 {
        return high;
    }
    // The zero is between the newest point, a, and b.
    let mut step = 0.5;
    for _ in 0..STEPS_MAX {
        let next = a + step * (b - a);
        let f_next = f(next);
        let (c, f_c) = if (f_next > 0.0) == (f_a > 0.0) {
            (a, f_a)
        } else {
            let dropped = (b, f_b);
            (b, f_b) = (a, f_a);
            dropped
        };
        (a, f_a) = (next, f_next);

        let (best, f_best) = if f_a.abs() < f_b.abs() { (a, f_a) } else { (b, f_b) };
        let smallest_step = 2.0 * f64::EPSILON * best.abs() / (b - a).abs();
        if f_best == 0.0 || smallest_step > 0.5 {
            return best;
        }
        let place = (a - b) / (c - b);
        let height = (f_a - f_b) / (f_c - f_b);
        step = if height * height < place && (1.0 - height) * (1.0 - height) < 1.0 - place {
            f_a / (f_b - f_a) * f_c / (f_b - f_c)
                + (c - a) / (b - a) * f_a / (f_c - f_a) * f_b / (f_c - f_b)
        } else {
            0.5
        }
        .clamp(smallest_step, 1.0 - smallest_step);
    }
    a
}

/// Returns the place between 0 and 1, excluding both, at which `f` has its minimum; `f` falls and then rises.
///
/// Golden section, to half the digits of a double: values closer to the minimum cannot be told apart.
pub(super) fn minimum_in_unit_interval(f: impl Fn(f64) -> f64) -> f64 {
    const WIDTH_MIN: f64 = 1e-8;
    let inner = 1.0 - 1.0 / GOLDEN_RATIO;
    let (mut low, mut high) = (0.0, 1.0);
    let (mut left, mut right) = (inner, 1.0 - inner);
    let (mut f_left, mut f_right) = (f(left), f(right));
    while high - low > WIDTH_MIN {
        if f_left < f_right {
            high = right;
            (right, f_right) = (left, f_left);
            left = low + inner * (high - low);
            f_left = f(left);
        } else {
            low = left;
            (left, f_left) = (right, f_right);
            right = high - inner * (high - low);
            f_right = f(right);
        }
    }
    0.5 * (low + high)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_zero_is_found_to_the_last_digits() {
        let close = |found: f64, true_zero: f64| {
            assert!((found / true_zero - 1.0).abs() < 1e-15, "{found}");
        };
        close(zero_of_increasing(|x| x * x - 2.0, 0.0, 2.0), 2f64.sqrt());
        close(zero_of_increasing(|x| x.powi(9) - 1e-90, 0.0, 1.0), 1e-10);
        close(zero_of_increasing(|x| (x - 0.25).cbrt(), 0.0, 1.0), 0.25);
        close(zero_of_increasing(|x| x.ln() - 20.0, 1.0, 1e12), 20f64.exp());
    }

    #[test]
    fn without_a_change_of_sign_the_nearer_end_is_the_answer() {
        assert_eq!(zero_of_increasing(|x| x, 1.0, 2.0), 1.0);
        assert_eq!(zero_of_increasing(|x| x, -2.0, -1.0), -1.0);
    }

    #[test]
    fn a_minimum_is_found_inside_and_at_the_ends() {
        let at = |f: &dyn Fn(f64) -> f64| minimum_in_unit_interval(f);
        assert!((at(&|x| (x - 0.3) * (x - 0.3)) - 0.3).abs() < 1e-7);
        assert!(at(&|x| x) < 1e-7);
        assert!(at(&|x| -x) > 1.0 - 1e-7);
    }
}
