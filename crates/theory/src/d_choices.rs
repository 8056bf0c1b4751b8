//! d-choices collection: the victim is the block with the fewest valid units among `d` blocks
//! drawn at random.
//!
//! Van Houdt, "A mean field model for a class of garbage collection algorithms in flash-based
//! solid state drives", SIGMETRICS 2013: the shares `m_i` of blocks holding `i` valid units are
//! the fixed point of
//!
//! ```text
//! dm_i = -p_i + [i = b] + c ((i+1) m_(i+1) - i m_i),
//! p_i = (share holding i or more)^d - (share holding more than i)^d,
//! E = sum of p_i (b - i),    c = E / (rho b),    A = b / E = alpha / c.
//! ```
//!
//! It is not integrated here. Summed from `i` up to `b`, the fixed point says that as many blocks
//! fall below `i` as victims of `i` or more are written full again. With `u_i` for the share of
//! blocks holding fewer than `i` and `x = 1 / c`:
//!
//! ```text
//! u_(i+1) - u_i = m_i = (x / i) (1 - (1 - u_i)^d),    u_(b+1) = 1.
//! ```
//!
//! So for a given `x` each `u_i` follows from the one above it, by an equation with one solution;
//! the shares add up to 1 whatever `x` is, and their mean, which must be `rho b`, rises with `x`.
//! One search finds it, exactly and in time proportional to `b`.

use super::roots::zero_of_increasing;
use super::{Choices, SpareFactor, SteadyState, UnitsPerBlock};

/// Largest number of Newton steps for one level; more do not improve the result. About 5 are taken.
const STEPS_MAX: u32 = 100;

/// Returns the write amplification if the best of `choices` random blocks is collected.
///
/// For every [`SpareFactor`], [`UnitsPerBlock`] and [`Choices`]. With one choice it is [`random`](super::random);
/// with ever more it falls to [`greedy`](super::greedy). Takes time in proportion to units per block: under a
/// millisecond for 256.
pub fn write_amplification(spare: SpareFactor, units: UnitsPerBlock, choices: Choices) -> f64 {
    amplification(spare, flow(spare, units, choices))
}

/// Returns the steady state with d-choices collection; the module has the formula.
pub fn steady_state(spare: SpareFactor, units: UnitsPerBlock, choices: Choices) -> SteadyState {
    let flow = flow(spare, units, choices);
    let mut shares = vec![0.0; units.get() as usize + 1];
    for (valid, below) in levels(flow, units, choices) {
        // Not computed as the difference of two levels, which has no digits left for a small share.
        shares[valid as usize] = flow / f64::from(valid) * chosen_below(below, choices);
        shares[0] = below;
    }
    SteadyState::new(amplification(spare, flow), shares)
}

fn amplification(spare: SpareFactor, flow: f64) -> f64 {
    // Below 1 only by rounding, if the spare is so large that victims are empty.
    (spare.alpha() * flow).max(1.0)
}

/// Returns `x`, which lies between its value for empty victims, `rho`, and that for random victims,
/// `rho / (1 - rho)`.
fn flow(spare: SpareFactor, units: UnitsPerBlock, choices: Choices) -> f64 {
    // The mean number of invalid units per block: the sum of the shares below each level.
    let missing = spare.spare_of_physical() * f64::from(units.get());
    zero_of_increasing(
        |flow| {
            let below: f64 = levels(flow, units, choices).map(|(_, below)| below).sum();
            missing - below
        },
        spare.occupancy(),
        1.0 / spare.spare_of_logical(),
    )
}

/// Returns, for each number of valid units from `b` down to 1, the share of blocks that hold fewer.
fn levels(flow: f64, units: UnitsPerBlock, choices: Choices) -> impl Iterator<Item = (u32, f64)> {
    let mut below = 1.0;
    (1..=units.get()).rev().map(move |valid| {
        below = share_below(below, flow / f64::from(valid), choices);
        (valid, below)
    })
}

/// Returns `1 - (1 - u)^d`: the probability that the victim is one of the share `below` of the blocks.
fn chosen_below(below: f64, choices: Choices) -> f64 {
    // This form keeps its digits for small shares.
    -(f64::from(choices.get()) * (-below).ln_1p()).exp_m1()
}

/// Returns the solution `u` of `u + weight (1 - (1 - u)^d) = below_next`, by Newton's method from the left, which
/// never overshoots on a rising function that bends downwards.
fn share_below(below_next: f64, weight: f64, choices: Choices) -> f64 {
    let exponent = f64::from(choices.get());
    let mut below = (below_next - weight).max(0.0);
    for _ in 0..STEPS_MAX {
        let excess = below + weight * chosen_below(below, choices) - below_next;
        let slope = 1.0 + weight * exponent * (1.0 - below).powf(exponent - 1.0);
        let step = -excess / slope;
        below = (below + step).min(below_next);
        if step <= f64::EPSILON * below {
            break;
        }
    }
    below
}

#[cfg(test)]
mod tests {
    use super::super::{greedy, random};
    use super::*;

    fn solve(of_logical: f64, units: u32, choices: u32) -> SteadyState {
        steady_state(
            SpareFactor::from_spare_of_logical(of_logical).unwrap(),
            UnitsPerBlock::new(units).unwrap(),
            Choices::new(choices).unwrap(),
        )
    }

    #[test]
    fn one_choice_is_random() {
        for of_logical in [1e-6, 0.07, 0.28, 5.0] {
            let spare = SpareFactor::from_spare_of_logical(of_logical).unwrap();
            let state = solve(of_logical, 64, 1);
            let expected = random::write_amplification(spare);
            assert!((state.write_amplification() / expected - 1.0).abs() < 1e-9);
        }
    }

    #[test]
    fn very_many_choices_are_greedy() {
        for of_logical in [0.07, 0.28, 5.0] {
            let spare = SpareFactor::from_spare_of_logical(of_logical).unwrap();
            let expected = greedy::steady_state(spare, UnitsPerBlock::new(64).unwrap());
            let state = solve(of_logical, 64, 1_000_000);
            let ratio = state.write_amplification() / expected.write_amplification();
            assert!((ratio - 1.0).abs() < 1e-4, "{ratio}");
            for (share, limit) in state.shares().iter().zip(expected.shares()) {
                assert!((share - limit).abs() < 1e-4);
            }
        }
    }

    #[test]
    fn the_shares_are_a_fixed_point_of_the_published_equation() {
        for (of_logical, units, choices) in [(0.07, 64, 2), (0.28, 256, 10), (0.01, 32, 1000)] {
            let state = solve(of_logical, units, choices);
            let shares = state.shares();
            let b = units as usize;
            let at_least = |i: usize| shares.iter().skip(i).sum::<f64>();
            let chosen =
                |i: usize| at_least(i).powi(choices as i32) - at_least(i + 1).powi(choices as i32);
            let gained: f64 = (0..=b).map(|i| chosen(i) * (b - i) as f64).sum();
            let loss = gained / (b as f64 / (1.0 + of_logical));
            for i in 0..=b {
                let refilled = if i == b { 1.0 } else { 0.0 };
                let above = shares.get(i + 1).copied().unwrap_or(0.0);
                let moved = loss * ((i + 1) as f64 * above - i as f64 * shares[i]);
                assert!((refilled - chosen(i) + moved).abs() < 1e-9, "{i}");
            }
            let expected = b as f64 / gained;
            assert!((state.write_amplification() / expected - 1.0).abs() < 1e-9);
        }
    }
}
