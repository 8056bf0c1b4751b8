//! Pseudo-random order in which logical units are placed.

use std::ops::Range;

use rand::Rng;
use rand_pcg::Pcg64Mcg;

use super::workers::{Piece, Workers, parts};
use crate::units::LogicalUnit;

/// All logical units, each once, hot and cold ones separately.
#[derive(Clone)]
pub(super) struct Order {
    pub(super) hot: Shuffled,
    pub(super) cold: Shuffled,
}

impl Order {
    /// Returns the order of units; units below `hot_units` are hot.
    pub(super) fn new(hot_units: u32, units: u32, generator: &mut Pcg64Mcg) -> Order {
        Order {
            hot: Shuffled::new(0..hot_units, generator),
            cold: Shuffled::new(hot_units..units, generator),
        }
    }

    pub(super) fn is_exhausted(&self) -> bool {
        self.hot.is_exhausted() && self.cold.is_exhausted()
    }

    /// Returns copies of this order, advanced by each of these numbers of hot and cold units.
    pub(super) fn advanced_by(&self, units: &[(u32, u32)], workers: &dyn Workers) -> Vec<Order> {
        let hot: Vec<u32> = units.iter().map(|it| it.0).collect();
        let cold: Vec<u32> = units.iter().map(|it| it.1).collect();
        let hot = self.hot.advanced_by(&hot, workers);
        let cold = self.cold.advanced_by(&cold, workers);
        hot.into_iter().zip(cold).map(|(hot, cold)| Order { hot, cold }).collect()
    }
}

/// Number of units drawn ahead of their placement, so that their map entries are prefetched in time.
const AHEAD: usize = 16;

/// A range of logical units, each once, in pseudo-random order. The order takes no memory.
#[derive(Clone)]
pub(super) struct Shuffled {
    permutation: Permutation,
    /// Next index into the permutation.
    next: u32,
    drawn: u32,
    given: u32,
    /// Units that are drawn but not yet given, in a ring.
    ahead: [u32; AHEAD],
}

/// A pseudo-random bijection of the numbers below the next power of two, computed for one index at a time. Values
/// beyond the number of units are skipped.
#[derive(Clone, Copy)]
struct Permutation {
    first: u32,
    units: u32,
    mask: u32,
    shift: u32,
    factors: [u32; 3],
    offset: u32,
}

impl Permutation {
    fn new(range: Range<u32>, generator: &mut Pcg64Mcg) -> Self {
        let units = range.end - range.start;
        let bits = 32 - units.saturating_sub(1).max(1).leading_zeros();
        Permutation {
            first: range.start,
            units,
            mask: u32::MAX >> (32 - bits),
            shift: bits.div_ceil(2),
            factors: std::array::from_fn(|_| generator.next_u32() | 1),
            offset: generator.next_u32(),
        }
    }

    /// Returns the value at index `place`. Values of `units` and more are not units.
    #[inline(always)]
    fn at(&self, place: u32) -> u32 {
        // Each step can be reversed: adding, multiplying by an odd number, and mixing high bits into low ones. The
        // mask keeps the value below the power of two.
        let mut value = place.wrapping_add(self.offset) & self.mask;
        for factor in self.factors {
            value = value.wrapping_mul(factor) & self.mask;
            value ^= value >> self.shift;
        }
        value
    }

    /// Returns the number of units at the indices `places`.
    fn units_at(&self, places: Range<u64>) -> u32 {
        places.map(|place| u32::from(self.at(place as u32) < self.units)).sum()
    }

    /// Returns, for each of the rising `counts`, the index behind which this number of units lie before it.
    fn places_behind(&self, counts: &[u32], workers: &dyn Workers) -> Vec<u32> {
        let places = u64::from(self.mask) + 1;
        let stretch = places.div_ceil(STRETCHES as u64).max(1);
        let stretch_of = |index: usize| {
            let first = index as u64 * stretch;
            first..places.min(first + stretch)
        };
        let mut units = vec![0; places.div_ceil(stretch) as usize];
        let mut pieces = Vec::new();
        let mut rest = units.as_mut_slice();
        for part in parts(rest.len(), workers) {
            let (these, others) = rest.split_at_mut(part.len());
            rest = others;
            pieces.push(Box::new(move || {
                for (units, index) in these.iter_mut().zip(part) {
                    *units = self.units_at(stretch_of(index));
                }
            }) as Piece<'_>);
        }
        workers.carry_out(pieces);
        let (mut index, mut before) = (0, 0);
        let mut behind = |count: u32| {
            while index + 1 < units.len() && before + units[index] < count {
                before += units[index];
                index += 1;
            }
            let (mut place, mut came) = (stretch_of(index).start, before);
            while came < count {
                came += self.units_at(place..place + 1);
                place += 1;
            }
            place as u32
        };
        counts.iter().map(|&count| behind(count)).collect()
    }
}

/// Number of stretches of a permutation whose units are counted separately.
const STRETCHES: usize = 4096;

impl Shuffled {
    pub(super) fn new(range: Range<u32>, generator: &mut Pcg64Mcg) -> Self {
        Shuffled::begun(Permutation::new(range, generator), 0, 0)
    }

    /// Returns the order advanced by `given` units, which lie before index `place`.
    fn begun(permutation: Permutation, place: u32, given: u32) -> Self {
        let mut this =
            Shuffled { permutation, next: place, drawn: given, given, ahead: [u32::MAX; AHEAD] };
        for ahead in given..permutation.units.min(given.saturating_add(AHEAD as u32)) {
            this.ahead[ahead as usize % AHEAD] = this.draw();
        }
        this
    }

    /// Returns copies of this order, advanced by each of the rising numbers `units`.
    pub(super) fn advanced_by(&self, units: &[u32], workers: &dyn Workers) -> Vec<Shuffled> {
        if units.iter().all(|&it| it == 0) {
            return vec![self.clone(); units.len()];
        }
        let given: Vec<u32> = units.iter().map(|it| self.given + it).collect();
        let places = self.permutation.places_behind(&given, workers);
        let begun = |(place, given)| Shuffled::begun(self.permutation, place, given);
        places.into_iter().zip(given).map(begun).collect()
    }

    pub(super) fn is_exhausted(&self) -> bool {
        self.given == self.permutation.units
    }

    /// Returns the next unit, and a later one whose map entry can be prefetched; beyond the last unit the latter is
    /// no unit.
    #[inline(always)]
    pub(super) fn next(&mut self) -> (LogicalUnit, LogicalUnit) {
        assert!(self.given < self.permutation.units, "each unit is given once");
        let place = self.given as usize % AHEAD;
        self.given += 1;
        let soon = if self.drawn < self.permutation.units { self.draw() } else { u32::MAX };
        let unit = std::mem::replace(&mut self.ahead[place], soon);
        (LogicalUnit(unit), LogicalUnit(soon))
    }

    #[inline(always)]
    fn draw(&mut self) -> u32 {
        self.drawn += 1;
        loop {
            let value = self.permutation.at(self.next);
            self.next = self.next.wrapping_add(1);
            if value < self.permutation.units {
                return self.permutation.first + value;
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
            assert!(order.is_exhausted());
            let mut sorted = given.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, (7..7 + units).collect::<Vec<_>>());
            if units > 500 {
                let near = given.windows(2).filter(|two| two[0].abs_diff(two[1]) < units / 100);
                // Of truly random ones 2 % are that near.
                assert!(near.count() < units as usize / 20, "{units}");
            }
        }
    }

    /// Workers that carry out the last piece first.
    struct Backwards;

    impl Workers for Backwards {
        fn at_a_time(&self) -> usize {
            3
        }

        fn carry_out(&self, mut pieces: Vec<Piece<'_>>) {
            while let Some(piece) = pieces.pop() {
                piece();
            }
        }
    }

    #[test]
    fn an_order_that_is_begun_in_the_midst_goes_on_as_if_from_the_beginning() {
        let mut generator = Pcg64Mcg::seed_from_u64(2);
        for units in [1, 2, 15, 16, 17, 63, 64, 1000, 65_536, 70_001] {
            let mut order = Shuffled::new(3..3 + units, &mut generator);
            for _ in 0..units / 7 {
                order.next();
            }
            let rest = units - units / 7;
            let after: Vec<u32> = [0, 0, 1, rest / 2, rest - 1, rest].map(|it| it.min(rest)).into();
            let mut sorted = after;
            sorted.sort_unstable();
            let begun = order.advanced_by(&sorted, &Backwards);
            let all: Vec<u32> = (0..rest).map(|_| order.next().0.0).collect();
            for (mut begun, &after) in begun.into_iter().zip(&sorted) {
                let left: Vec<u32> = (after..rest).map(|_| begun.next().0.0).collect();
                assert!(begun.is_exhausted());
                assert_eq!(left, all[after as usize..], "{after} of {rest} units after {units}");
            }
        }
    }
}
