//! Greedy collection: the victim is the block with the fewest valid units.
//!
//! In steady state no block holds fewer than a number `j` of valid units: a block that loses one more is collected at
//! once. Above `j`, blocks lose valid units one at a time and are never chosen, so equally many pass through each
//! level: the share of blocks that hold `i` is `x / i`. The other blocks, a share `m`, hold `j`. The shares add up to
//! 1, and their mean is the occupancy, which gives `x` and `m`:
//!
//! ```text
//! H = sum of 1/i for i = j+1..b,    x = (rho b - j) / ((b - j) - j H),    m = 1 - x H,
//! A = alpha x,    with the one integer j for which m >= 0 and j m / x <= 1.
//! ```
//!
//! This is the limit of Van Houdt's d-choices (SIGMETRICS 2013) for `d` without bound and equals
//! Bux and Iliadis, "Performance of greedy garbage collection in flash-based solid-state drives",
//! Performance Evaluation 67, 2010, and Desnoyers, SYSTOR 2012.

use super::{SpareFactor, SteadyState, UnitsPerBlock};

/// Returns the write amplification if the block with the fewest valid units is collected.
///
/// For every [`SpareFactor`] and [`UnitsPerBlock`]; takes time at most in proportion to the latter. The result lies
/// between 1 and `b`: each victim gives at least one unit. It grows with `b` towards [`fifo`](super::fifo), its limit
/// for `b` without bound.
pub fn write_amplification(spare: SpareFactor, units: UnitsPerBlock) -> f64 {
    Levels::solve(spare, units).write_amplification(spare)
}

/// Returns the steady state with greedy collection; the module has the formula.
pub fn steady_state(spare: SpareFactor, units: UnitsPerBlock) -> SteadyState {
    let levels = Levels::solve(spare, units);
    let shares = (0..=units.get())
        .map(|valid| {
            if valid < levels.least {
                0.0
            } else if valid == levels.least {
                levels.share_least
            } else {
                levels.flow / f64::from(valid)
            }
        })
        .collect();
    SteadyState::new(levels.write_amplification(spare), shares)
}

/// Solution of the equations: the fewest valid units of a block, and the shares of blocks.
struct Levels {
    /// `j`: fewest valid units of a block.
    least: u32,
    /// `m`: share of blocks that hold `j` valid units.
    share_least: f64,
    /// `x`: `i` times the share of blocks that hold `i`, the same for all `i` above `j`.
    flow: f64,
}

impl Levels {
    /// Solves the equations: goes down from the fullest level to the first at which the shares add up to 1.
    fn solve(spare: SpareFactor, units: UnitsPerBlock) -> Levels {
        let b = units.get();
        let mean = spare.occupancy() * f64::from(b);
        // H, and the sum of (i - j) / i, which is (b - j) - j H without the difference.
        let mut least = b - 1;
        let mut harmonic = 1.0 / f64::from(b);
        let mut weight = harmonic;
        while least > 0 {
            // If all blocks were above `least - 1`, their mean would be (b - least + 1) / H there. If the drive's own
            // mean is lower, some blocks must hold less.
            let harmonic_below = harmonic + 1.0 / f64::from(least);
            if f64::from(b - least + 1) < mean * harmonic_below {
                break;
            }
            least -= 1;
            harmonic = harmonic_below;
            weight += harmonic;
        }
        let flow = (mean - f64::from(least)) / weight;
        Levels { least, share_least: (1.0 - flow * harmonic).max(0.0), flow }
    }

    fn write_amplification(&self, spare: SpareFactor) -> f64 {
        // Below 1 only by rounding, if the spare is so large that victims are empty.
        (spare.alpha() * self.flow).max(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spare(of_logical: f64) -> SpareFactor {
        SpareFactor::from_spare_of_logical(of_logical).unwrap()
    }

    fn units(count: u32) -> UnitsPerBlock {
        UnitsPerBlock::new(count).unwrap()
    }

    #[test]
    fn the_integer_is_the_one_that_satisfies_both_conditions() {
        for b in [1, 2, 3, 64, 1000] {
            for of_logical in [1e-9, 0.001, 0.07, 0.28, 1.0, 3.0, 20.0, 1e6] {
                let levels = Levels::solve(spare(of_logical), units(b));
                let harmonic: f64 = (levels.least + 1..=b).map(|i| 1.0 / f64::from(i)).sum();
                assert!(1.0 - levels.flow * harmonic > -1e-12);
                let collected_at_least = f64::from(levels.least) * levels.share_least;
                assert!(collected_at_least <= levels.flow * (1.0 + 1e-9));
            }
        }
    }

    #[test]
    fn a_block_of_one_unit_is_never_copied() {
        assert_eq!(write_amplification(spare(0.07), units(1)), 1.0);
    }

    #[test]
    fn with_much_spare_victims_are_empty() {
        let state = steady_state(spare(9.0), units(64));
        assert!((state.write_amplification() - 1.0).abs() < 1e-12);
        assert!(state.shares()[0] > 0.5);
    }

    #[test]
    fn with_hardly_any_spare_each_victim_gives_one_unit() {
        let amplification = write_amplification(spare(1e-12), units(128));
        assert!((amplification / 128.0 - 1.0).abs() < 1e-6);
    }

    #[test]
    fn blocks_of_very_many_units_are_collected_as_by_fifo() {
        let fifo = super::super::fifo::write_amplification(spare(0.07));
        let greedy = write_amplification(spare(0.07), units(1 << 22));
        assert!(greedy < fifo && greedy > fifo * (1.0 - 1e-4));
    }
}
