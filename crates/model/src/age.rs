//! A used drive built at once, from theory: full, in the state in which uniform random writes of
//! single units leave it after a long time, without writing any of them.
//!
//! The closed forms of [`crate::theory`] say how many blocks hold how many valid units. Which of a
//! block's units are valid, and which logical units they are, is a matter of chance: under uniform
//! writes no unit is different from another. Blocks always kept free stay free, the open ones are
//! half written (theory counts neither). With FIFO a block's age says what it holds; greedy and
//! drawn victims do not ask for age.
//!
//! Not set: what the drive has written so far. Counters and wear begin at zero.

use rand::{Rng, RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use crate::flash::BlockState;
use crate::geometry::GeometryError;
use crate::mapping::{Mapping, MappingScheme, PageMap};
use crate::media::Null;
use crate::policy::VictimPolicy;
use crate::ssd::{Configuration, Ssd};
use crate::theory::{
    Choices, ParameterError, SpareFactor, SteadyState, UnitsPerBlock, d_choices, fifo, greedy,
};
use crate::units::{BlockIndex, LogicalUnit, PhysicalUnit};

/// Keeps the generator's words apart from those of anything else that is given the same seed.
const STREAM: u64 = 0x6167_6564;

/// Why a used drive cannot be built at once.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum AgeError {
    /// There is no closed form for what the drive does.
    #[error("theory has no steady state for {what}; write the drive until it is steady")]
    NoTheory {
        /// What it does.
        what: &'static str,
    },
    /// A spare area for which the formulas have no answer.
    #[error(transparent)]
    Spare(#[from] ParameterError),
    /// A configuration of which there is no drive.
    #[error(transparent)]
    Geometry(#[from] GeometryError),
}

/// How the blocks of a drive are used.
struct Layout {
    /// Blocks of each group of dies that are closed; they come first.
    closed_per_group: u32,
    groups: u32,
    /// Program units that are written of each open block.
    open_programs: u32,
}

impl Layout {
    fn of(configuration: &Configuration) -> Layout {
        let geometry = &configuration.geometry;
        let kept = configuration.collection.blocks_kept(geometry, &configuration.mechanisms);
        Layout {
            closed_per_group: geometry.blocks_per_group() - kept / geometry.groups(),
            groups: geometry.groups(),
            open_programs: geometry.units_per_block() / geometry.units_per_program() / 2,
        }
    }

    fn closed(&self) -> u32 {
        self.closed_per_group * self.groups
    }
}

impl Ssd<PageMap, Null> {
    /// A full drive in the steady state of uniform random writes. Takes a few nanoseconds a unit.
    ///
    /// # Errors
    /// When there is no closed form for the drive's policy or mapping scheme, or no such drive.
    pub fn aged(configuration: &Configuration, seed: u64) -> Result<Self, AgeError> {
        if configuration.mechanisms.mapping != MappingScheme::Page {
            return Err(AgeError::NoTheory { what: "its mapping scheme" });
        }
        if configuration.mechanisms.streams.count > 1 {
            return Err(AgeError::NoTheory { what: "several write streams" });
        }
        let mut ssd = Ssd::new(configuration)?;
        let mut generator = Pcg64Mcg::seed_from_u64(seed ^ STREAM);
        let layout = Layout::of(configuration);
        let geometry = &configuration.geometry;
        let open = 2 * layout.groups * layout.open_programs * geometry.units_per_program();
        let in_closed = geometry.logical_units().saturating_sub(open);
        let valid = valid_units(configuration, layout.closed(), in_closed, &mut generator)?;
        let mut order = Shuffled::new(geometry.logical_units(), &mut generator);
        for group in 0..layout.groups {
            for index in 0..layout.closed_per_group {
                let valid = valid[(index * layout.groups + group) as usize];
                ssd.fill_block(group, valid, &mut order, &mut generator);
            }
        }
        // Into the queue in the order they were closed.
        for index in 0..layout.closed_per_group {
            for group in 0..layout.groups {
                let block = BlockIndex(group * geometry.blocks_per_group() + index);
                ssd.flash.close(block, BlockState::Closed);
            }
        }
        if layout.open_programs > 0 {
            for group in 0..layout.groups {
                ssd.open_half(group, BlockState::OpenForHost, layout.open_programs, &mut order);
                let collection = BlockState::OpenForCollection;
                ssd.open_half(group, collection, layout.open_programs, &mut order);
            }
        }
        assert!(order.is_over(), "every logical unit lies somewhere");
        Ok(ssd)
    }

    /// Takes a free block of `group` and puts the next `valid` units of `order` on places of it
    /// that are drawn, each choice of places as likely as any other (selection sampling: Knuth,
    /// The Art of Computer Programming 2, 3.4.2, algorithm S).
    fn fill_block(
        &mut self,
        group: u32,
        valid: u32,
        order: &mut Shuffled,
        generator: &mut Pcg64Mcg,
    ) {
        let block = self.free.take(group).expect("there are more blocks than are closed");
        let units = self.geometry.units_per_block();
        self.flash.open(block, BlockState::OpenForCollection, valid);
        let first = self.geometry.first_unit(block).0;
        let mut left = valid;
        for place in 0..units {
            let draw = (u64::from(generator.next_u32()) * u64::from(units - place)) >> 32;
            if draw < u64::from(left) {
                left -= 1;
                self.put_unit(PhysicalUnit(first + place), order);
            }
        }
    }

    /// Opens a block for a stream that has written `programs` program units of it.
    fn open_half(&mut self, group: u32, state: BlockState, programs: u32, order: &mut Shuffled) {
        let block = self.free.take(group).expect("there are more blocks than are closed");
        self.flash.open(block, state, self.geometry.units_per_block());
        let first = self.geometry.first_unit(block).0;
        for place in 0..programs * self.geometry.units_per_program() {
            self.put_unit(PhysicalUnit(first + place), order);
        }
        if state == BlockState::OpenForHost {
            self.host.resume(group, block, programs);
        } else {
            self.collector.resume(group, block, programs);
        }
    }

    #[inline(always)]
    fn put_unit(&mut self, physical: PhysicalUnit, order: &mut Shuffled) {
        let logical = order.next();
        self.flash.note_written(physical, logical);
        self.map.set(logical, physical);
    }
}

/// How many units each of `blocks` closed blocks holds, oldest first, `total` in all.
fn valid_units(
    configuration: &Configuration,
    blocks: u32,
    total: u32,
    generator: &mut Pcg64Mcg,
) -> Result<Vec<u32>, AgeError> {
    let b = configuration.geometry.units_per_block();
    let units = UnitsPerBlock::new(b)?;
    let spare = SpareFactor::from_counts(u64::from(blocks) * u64::from(b), total.into())?;
    let one = || Choices::new(1).expect("one is a number of choices");
    let by_shares = |state: SteadyState, generator: &mut Pcg64Mcg| {
        let mut valid = by_shares(&state, blocks);
        shuffle(&mut valid, generator);
        valid
    };
    let mut valid = match configuration.mechanisms.victims {
        VictimPolicy::Greedy => by_shares(greedy::steady_state(spare, units), generator),
        // Drawing one is random; the shares are those of d-choices.
        VictimPolicy::Random => by_shares(d_choices::steady_state(spare, units, one()), generator),
        VictimPolicy::DChoices(choices) => {
            by_shares(d_choices::steady_state(spare, units, choices), generator)
        }
        VictimPolicy::Fifo => by_age(fifo::write_amplification(spare), blocks, b, generator),
        VictimPolicy::CostBenefit => {
            return Err(AgeError::NoTheory { what: "cost-benefit collection" });
        }
    };
    correct_sum(&mut valid, total, b, generator);
    Ok(valid)
}

/// As many blocks of each count as the shares say, rising.
fn by_shares(state: &SteadyState, blocks: u32) -> Vec<u32> {
    let mut valid = Vec::with_capacity(blocks as usize);
    let mut share = 0.0;
    for (count, of_blocks) in (0u32..).zip(state.shares()) {
        share += of_blocks;
        let until = (share * f64::from(blocks)).round() as usize;
        valid.resize(until.clamp(valid.len(), blocks as usize), count);
    }
    valid.resize(blocks as usize, state.shares().len() as u32 - 1);
    valid
}

/// With FIFO a unit lives on from the closing of its block to that block's turn with probability
/// `1 - 1/A`, and dies at a constant rate in between: the block at share `t` of the way holds
/// `(1 - 1/A)^t` of its units, but for chance.
fn by_age(amplification: f64, blocks: u32, b: u32, generator: &mut Pcg64Mcg) -> Vec<u32> {
    let (blocks, b) = (f64::from(blocks), f64::from(b));
    let mut way = blocks;
    let mut valid = Vec::with_capacity(blocks as usize);
    while way > 0.0 {
        let lives = (1.0 - 1.0 / amplification).powf((way - 0.5) / blocks);
        // A binomial number, nearly: twelve draws add up to one with nearly a normal's shape.
        let normal = (0..12).map(|_| generator.random::<f64>()).sum::<f64>() - 6.0;
        let count = b * lives + normal * (b * lives * (1.0 - lives)).sqrt();
        valid.push(count.round().clamp(0.0, b) as u32);
        way -= 1.0;
    }
    valid
}

/// Takes or adds a unit here and there until there are `total`, without making the emptiest block
/// emptier.
fn correct_sum(valid: &mut [u32], total: u32, b: u32, generator: &mut Pcg64Mcg) {
    let least = valid.iter().copied().min().unwrap_or(0);
    let mut sum: u64 = valid.iter().map(|&valid| u64::from(valid)).sum();
    let total = u64::from(total);
    assert!(total <= valid.len() as u64 * u64::from(b), "the data fits");
    let floor = if total < valid.len() as u64 * u64::from(least) { 0 } else { least };
    while sum != total {
        let block = &mut valid[generator.random_range(0..valid.len())];
        if sum < total && *block < b {
            *block += 1;
            sum += 1;
        } else if sum > total && *block > floor {
            *block -= 1;
            sum -= 1;
        }
    }
}

fn shuffle(values: &mut [u32], generator: &mut Pcg64Mcg) {
    for last in (1..values.len()).rev() {
        values.swap(last, generator.random_range(0..=last));
    }
}

/// All logical units once, in an order that looks drawn: a bijection of the next power of two,
/// computed unit by unit and passed over where it leads behind the end. It takes no memory.
struct Shuffled {
    units: u32,
    mask: u32,
    shift: u32,
    factors: [u32; 3],
    offset: u32,
    next: u32,
    given: u32,
}

impl Shuffled {
    fn new(units: u32, generator: &mut Pcg64Mcg) -> Self {
        let bits = 32 - (units - 1).max(1).leading_zeros();
        Shuffled {
            units,
            mask: u32::MAX >> (32 - bits),
            shift: bits.div_ceil(2),
            factors: std::array::from_fn(|_| generator.next_u32() | 1),
            offset: generator.next_u32(),
            next: 0,
            given: 0,
        }
    }

    fn is_over(&self) -> bool {
        self.given == self.units
    }

    #[inline(always)]
    fn next(&mut self) -> LogicalUnit {
        assert!(self.given < self.units, "each unit is given once");
        self.given += 1;
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
                return LogicalUnit(value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_unit_comes_once_and_neighbours_part() {
        let mut generator = Pcg64Mcg::seed_from_u64(1);
        for units in [1, 2, 3, 64, 1000, 65_537] {
            let mut order = Shuffled::new(units, &mut generator);
            let given: Vec<u32> = (0..units).map(|_| order.next().0).collect();
            assert!(order.is_over());
            let mut sorted = given.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, (0..units).collect::<Vec<_>>());
            if units > 500 {
                let near = given.windows(2).filter(|two| two[0].abs_diff(two[1]) < units / 100);
                // Of drawn ones 2 % are that near.
                assert!(near.count() < units as usize / 20, "{units}");
            }
        }
    }

    #[test]
    fn counts_add_up_to_what_is_stored() {
        let mut generator = Pcg64Mcg::seed_from_u64(2);
        for total in [0, 1, 500, 640] {
            let mut valid = vec![5; 10];
            correct_sum(&mut valid, total, 64, &mut generator);
            assert_eq!(valid.iter().sum::<u32>(), total);
            assert!(valid.iter().all(|&it| it <= 64));
        }
    }
}
