//! In which order logical units are placed: one that looks drawn.

use std::ops::Range;

use rand::Rng;
use rand_pcg::Pcg64Mcg;

use crate::units::LogicalUnit;

/// All logical units once, hot and cold ones apart.
pub(super) struct Order {
    pub(super) hot: Shuffled,
    pub(super) cold: Shuffled,
}

impl Order {
    /// Units below `hot_units` are hot.
    pub(super) fn new(hot_units: u32, units: u32, generator: &mut Pcg64Mcg) -> Order {
        Order {
            hot: Shuffled::new(0..hot_units, generator),
            cold: Shuffled::new(hot_units..units, generator),
        }
    }

    pub(super) fn is_over(&self) -> bool {
        self.hot.is_over() && self.cold.is_over()
    }
}

/// Units drawn before they are placed, so that their map entries are there by then.
const AHEAD: usize = 16;

/// A range of logical units once, in an order that looks drawn: a bijection of the next power of
/// two, computed unit by unit and passed over where it leads behind the end. It takes no memory.
pub(super) struct Shuffled {
    first: u32,
    units: u32,
    mask: u32,
    shift: u32,
    factors: [u32; 3],
    offset: u32,
    next: u32,
    drawn: u32,
    given: u32,
    /// Units drawn and not given yet, in a ring.
    ahead: [u32; AHEAD],
}

impl Shuffled {
    pub(super) fn new(range: Range<u32>, generator: &mut Pcg64Mcg) -> Self {
        let units = range.end - range.start;
        let bits = 32 - units.saturating_sub(1).max(1).leading_zeros();
        let mut this = Shuffled {
            first: range.start,
            units,
            mask: u32::MAX >> (32 - bits),
            shift: bits.div_ceil(2),
            factors: std::array::from_fn(|_| generator.next_u32() | 1),
            offset: generator.next_u32(),
            next: 0,
            drawn: 0,
            given: 0,
            ahead: [u32::MAX; AHEAD],
        };
        for place in 0..AHEAD.min(units as usize) {
            this.ahead[place] = this.draw();
        }
        this
    }

    pub(super) fn is_over(&self) -> bool {
        self.given == self.units
    }

    /// The next unit, and one that will come soon, whose map entry can be asked for; behind the
    /// last one that is no unit.
    #[inline(always)]
    pub(super) fn next(&mut self) -> (LogicalUnit, LogicalUnit) {
        assert!(self.given < self.units, "each unit is given once");
        let place = self.given as usize % AHEAD;
        self.given += 1;
        let soon = if self.drawn < self.units { self.draw() } else { u32::MAX };
        let unit = std::mem::replace(&mut self.ahead[place], soon);
        (LogicalUnit(unit), LogicalUnit(soon))
    }

    #[inline(always)]
    fn draw(&mut self) -> u32 {
        self.drawn += 1;
        loop {
            // Each step can be undone: adding, multiplying by an odd number, and mixing high
            // bits into low ones. Behind the end of the power of two there is nothing.
            let mut value = self.next.wrapping_add(self.offset) & self.mask;
            self.next = self.next.wrapping_add(1);
            for factor in self.factors {
                value = value.wrapping_mul(factor) & self.mask;
                value ^= value >> self.shift;
            }
            if value < self.units {
                return self.first + value;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    #[test]
    fn every_unit_comes_once_and_neighbours_part() {
        let mut generator = Pcg64Mcg::seed_from_u64(1);
        for units in [1, 2, 3, 64, 1000, 65_537] {
            let mut order = Shuffled::new(7..7 + units, &mut generator);
            let given: Vec<u32> = (0..units).map(|_| order.next().0.0).collect();
            assert!(order.is_over());
            let mut sorted = given.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, (7..7 + units).collect::<Vec<_>>());
            if units > 500 {
                let near = given.windows(2).filter(|two| two[0].abs_diff(two[1]) < units / 100);
                // Of drawn ones 2 % are that near.
                assert!(near.count() < units as usize / 20, "{units}");
            }
        }
    }
}
