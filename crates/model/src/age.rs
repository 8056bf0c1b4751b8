//! A used drive built at once, from theory: full, in the state in which random writes of single
//! units leave it after a long time, without writing any of them.
//!
//! The closed forms of [`crate::theory`] say how many blocks hold how many valid units. Which of a
//! block's units are valid, and which logical units they are, is a matter of chance: under uniform
//! writes no unit is different from another. Blocks always kept free stay free, the open ones are
//! half written, and one is half collected (theory counts none of them). With FIFO a block's age says what it holds, of hot and of
//! cold units; greedy and drawn victims do not ask for age.
//!
//! Not set: what the drive has written so far. Counters and wear begin at zero.

use std::collections::VecDeque;
use std::ops::Range;

use rand::{Rng, RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use crate::flash::BlockState;
use crate::geometry::GeometryError;
use crate::mapping::{Mapping, MappingScheme, PageMap};
use crate::media::Null;
use crate::policy::{Pacing, VictimPolicy};
use crate::ssd::{Configuration, Ssd};
use crate::theory::hot_cold::HotCold;
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

/// The random writes that a drive was under for a long time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Workload {
    /// Every unit as likely as any other.
    Uniform,
    /// Units at the beginning of the drive are written more often.
    HotCold {
        /// The share of the writes that goes to them.
        writes: f64,
        /// The share of all units that they are.
        pages: f64,
    },
}

/// How the blocks of a drive are used.
struct Layout {
    /// Blocks of each group of dies that are closed; they come first.
    closed_per_group: u32,
    groups: u32,
    /// Whether a block more is closed, half of it moved already: in steady state a drive that
    /// keeps pace is always at work on a victim.
    victim: bool,
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
            victim: configuration.mechanisms.pacing == Pacing::Paced,
            open_programs: geometry.units_per_block() / geometry.units_per_program() / 2,
        }
    }

    fn closed(&self) -> u32 {
        self.closed_per_group * self.groups
    }

    /// Units left of a victim of which half was moved: victims hold `1 - 1/A` of their units.
    fn left_of_victim(&self, b: u32, amplification: f64) -> u32 {
        let valid = f64::from(b) * (1.0 - 1.0 / amplification);
        if self.victim { (valid / 2.0) as u32 } else { 0 }
    }
}

impl Ssd<PageMap, Null> {
    /// A full drive in the steady state of random writes. Takes some nanoseconds a unit.
    ///
    /// # Errors
    /// When there is no closed form for the drive's policy or mapping scheme under such writes, or
    /// no such drive.
    pub fn aged(
        configuration: &Configuration,
        workload: Workload,
        seed: u64,
    ) -> Result<Self, AgeError> {
        if configuration.mechanisms.mapping != MappingScheme::Page {
            return Err(AgeError::NoTheory { what: "its mapping scheme" });
        }
        if configuration.mechanisms.slc.is_some() {
            return Err(AgeError::NoTheory { what: "a pseudo-SLC cache" });
        }
        if configuration.mechanisms.streams.count > 1 {
            return Err(AgeError::NoTheory { what: "several write streams" });
        }
        let mut ssd = Ssd::new(configuration)?;
        let mut generator = Pcg64Mcg::seed_from_u64(seed ^ STREAM);
        let layout = Layout::of(configuration);
        let geometry = &configuration.geometry;
        let plan = Plan::of(configuration, workload, &layout, &mut generator)?;
        let hot_units = plan.hot_units;
        let mut order = Order {
            hot: Shuffled::new(0..hot_units, &mut generator),
            cold: Shuffled::new(hot_units..geometry.logical_units(), &mut generator),
        };
        for group in 0..layout.groups {
            for index in 0..layout.closed_per_group {
                let held = plan.held[(index * layout.groups + group) as usize];
                ssd.fill_block(group, held, &mut order, &mut generator);
            }
        }
        // Into the queue in the order they were closed, the victim before all others.
        if layout.victim {
            let victim = BlockIndex(layout.closed_per_group);
            ssd.fill_block(0, plan.victim, &mut order, &mut generator);
            ssd.flash.close(victim, BlockState::Closed);
        }
        for index in 0..layout.closed_per_group {
            for group in 0..layout.groups {
                let block = BlockIndex(group * geometry.blocks_per_group() + index);
                ssd.flash.close(block, BlockState::Closed);
            }
        }
        if layout.open_programs > 0 {
            for group in 0..layout.groups {
                let host = BlockState::OpenForHost;
                ssd.open_half(group, host, &layout, plan.open_host, &mut order);
                let collection = BlockState::OpenForCollection;
                ssd.open_half(group, collection, &layout, plan.open_collection, &mut order);
            }
        }
        assert!(order.is_over(), "every logical unit lies somewhere");
        Ok(ssd)
    }

    /// Takes a free block of `group` and puts the next units of `order` on places of it
    /// that are drawn, each choice of places as likely as any other (selection sampling: Knuth,
    /// The Art of Computer Programming 2, 3.4.2, algorithm S).
    fn fill_block(&mut self, group: u32, held: Held, order: &mut Order, generator: &mut Pcg64Mcg) {
        let block = self.free.take(group).expect("there are more blocks than are closed");
        let units = self.geometry.units_per_block();
        self.flash.open(block, BlockState::OpenForCollection, held.all());
        let first = self.geometry.first_unit(block).0;
        let mut left = held;
        for place in 0..units {
            let draw = (u64::from(generator.next_u32()) * u64::from(units - place)) >> 32;
            if draw >= u64::from(left.all()) {
                continue;
            }
            // The same draw says which of them: below it is hot.
            let unit = if draw < u64::from(left.hot) {
                left.hot -= 1;
                order.hot.next()
            } else {
                left.cold -= 1;
                order.cold.next()
            };
            self.put_unit(PhysicalUnit(first + place), unit);
        }
    }

    /// Opens a block for a stream that has written half of it: hot units first, which is no matter,
    /// because nothing asks for the order within a block.
    fn open_half(
        &mut self,
        group: u32,
        state: BlockState,
        layout: &Layout,
        held: Held,
        order: &mut Order,
    ) {
        let block = self.free.take(group).expect("there are more blocks than are closed");
        self.flash.open(block, state, self.geometry.units_per_block());
        let first = self.geometry.first_unit(block).0;
        for place in 0..held.all() {
            let unit = if place < held.hot { order.hot.next() } else { order.cold.next() };
            self.put_unit(PhysicalUnit(first + place), unit);
        }
        if state == BlockState::OpenForHost {
            self.host.resume(group, block, layout.open_programs);
        } else {
            self.collector.resume(group, block, layout.open_programs);
        }
    }

    #[inline(always)]
    fn put_unit(&mut self, physical: PhysicalUnit, (logical, soon): (LogicalUnit, LogicalUnit)) {
        self.map.prefetch(soon);
        self.flash.note_written(physical, logical);
        self.map.set(logical, physical);
    }
}

/// Valid units of a block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Held {
    hot: u32,
    cold: u32,
}

impl Held {
    fn all(self) -> u32 {
        self.hot + self.cold
    }
}

/// What every block holds. Under uniform writes all units are cold.
struct Plan {
    hot_units: u32,
    /// The closed blocks, oldest first.
    held: Vec<Held>,
    /// What is left of the block under collection, where there is one.
    victim: Held,
    open_host: Held,
    open_collection: Held,
}

impl Plan {
    fn of(
        configuration: &Configuration,
        workload: Workload,
        layout: &Layout,
        generator: &mut Pcg64Mcg,
    ) -> Result<Plan, AgeError> {
        let geometry = &configuration.geometry;
        let (b, blocks) = (geometry.units_per_block(), layout.closed());
        let open = layout.open_programs * geometry.units_per_program();
        let stored = geometry.logical_units().saturating_sub(2 * layout.groups * open);
        let spare = SpareFactor::from_counts(u64::from(blocks) * u64::from(b), stored.into())?;
        match workload {
            Workload::Uniform => {
                let policy = configuration.mechanisms.victims;
                let (valid, amplification) = valid_units(policy, spare, blocks, b, generator)?;
                let mut held: Vec<Held> =
                    valid.into_iter().map(|cold| Held { hot: 0, cold }).collect();
                let victim = Held { hot: 0, cold: layout.left_of_victim(b, amplification) };
                let closed = stored - victim.cold;
                correct_sum(&mut held, closed, b, |it| &mut it.cold, generator);
                let open = Held { hot: 0, cold: open };
                Ok(Plan { hot_units: 0, held, victim, open_host: open, open_collection: open })
            }
            Workload::HotCold { writes, pages } => {
                if configuration.mechanisms.victims != VictimPolicy::Fifo {
                    return Err(AgeError::NoTheory { what: "hot and cold units with this policy" });
                }
                let ages = HotColdByAge::new(HotCold::new(writes, pages)?, writes, pages, spare);
                let mut held = ages.held(blocks, b, generator);
                let hot_units = (f64::from(geometry.logical_units()) * pages).round() as u32;
                let open_host = ages.open(open, writes);
                let open_collection = ages.open(open, ages.hot_collected);
                let left = layout.left_of_victim(b, ages.amplification);
                let victim = ages.open(left, ages.hot_collected);
                let hot_open = layout.groups * (open_host.hot + open_collection.hot) + victim.hot;
                let hot_closed = hot_units.checked_sub(hot_open);
                let hot_closed =
                    hot_closed.ok_or(AgeError::NoTheory { what: "so few hot units" })?;
                let cold_closed = stored.checked_sub(victim.all() + hot_closed);
                let cold_closed =
                    cold_closed.ok_or(AgeError::NoTheory { what: "so few cold units" })?;
                correct_sum(&mut held, hot_closed, b, |it| &mut it.hot, generator);
                correct_sum(&mut held, cold_closed, b, |it| &mut it.cold, generator);
                Ok(Plan { hot_units, held, victim, open_host, open_collection })
            }
        }
    }
}

/// How many units each of `blocks` closed blocks holds under uniform writes, oldest first; and
/// write amplification.
fn valid_units(
    policy: VictimPolicy,
    spare: SpareFactor,
    blocks: u32,
    b: u32,
    generator: &mut Pcg64Mcg,
) -> Result<(Vec<u32>, f64), AgeError> {
    let units = UnitsPerBlock::new(b)?;
    let state = match policy {
        VictimPolicy::Greedy => greedy::steady_state(spare, units),
        // Drawing one is random; the shares are those of d-choices.
        VictimPolicy::Random => {
            let one = Choices::new(1).expect("one is a number of choices");
            d_choices::steady_state(spare, units, one)
        }
        VictimPolicy::DChoices(choices) => d_choices::steady_state(spare, units, choices),
        VictimPolicy::Fifo => {
            let amplification = fifo::write_amplification(spare);
            return Ok((by_age(amplification, blocks, b, generator), amplification));
        }
        VictimPolicy::CostBenefit => {
            return Err(AgeError::NoTheory { what: "cost-benefit collection" });
        }
    };
    let mut valid = by_shares(&state, blocks);
    shuffle(&mut valid, generator);
    Ok((valid, state.write_amplification()))
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
    let lives = 1.0 - 1.0 / amplification;
    ways(blocks).map(|way| binomial(b, lives.powf(way), generator)).collect()
}

/// How far each of `blocks` blocks is on its way from being closed to being collected, oldest
/// first.
fn ways(blocks: u32) -> impl Iterator<Item = f64> {
    (0..blocks).rev().map(move |block| (f64::from(block) + 0.5) / f64::from(blocks))
}

/// How many of `units` units live, each with probability `lives`: nearly a binomial number, of
/// twelve draws, which add up to one with nearly a normal's shape.
fn binomial(units: u32, lives: f64, generator: &mut Pcg64Mcg) -> u32 {
    let normal = (0..12).map(|_| generator.random::<f64>()).sum::<f64>() - 6.0;
    let units = f64::from(units);
    let count = units * lives + normal * (units * lives * (1.0 - lives)).sqrt();
    count.round().clamp(0.0, units) as u32
}

/// Hot and cold units under FIFO with one stream. A unit of a class that gets share `r` of the
/// writes and is fraction `f` of all units lives on to share `t` of its block's way with
/// probability `e^(-t r alpha / (f A))` (Desnoyers, SYSTOR 2012; see `theory::hot_cold`).
///
/// That says how many units of an age live, not which block holds which: what survives a block is
/// colder than the block was, and collection writes it to one block or two, so that blocks differ
/// the more the more often their units were moved. So the queue of blocks is followed in
/// expectation, block by block, for as long as cold units need to be written anew.
struct HotColdByAge {
    amplification: f64,
    hot_written: f64,
    hot_collected: f64,
    /// How fast hot and cold units die on a block's way.
    dies: [f64; 2],
}

/// Lives of a cold unit until the queue of blocks has forgotten what it was begun with.
const LIVES: f64 = 8.0;

/// Blocks closed at most until then.
const CLOSED_MAX: f64 = 1e8;

/// A block in expectation.
#[derive(Clone, Copy, Debug)]
struct Expected {
    /// Shares of its units that were hot and cold when it was closed.
    units: [f64; 2],
    /// When that was, in blocks closed.
    closed: f64,
}

impl HotColdByAge {
    fn new(theory: HotCold, writes: f64, pages: f64, spare: SpareFactor) -> Self {
        let amplification = theory.fifo_one_stream(spare);
        let dies = |r: f64, f: f64| r * spare.alpha() / (f * amplification);
        let dies = [dies(writes, pages), dies(1.0 - writes, 1.0 - pages)];
        // Of all that is programmed; the formula is that these shares add up to one.
        let hot = writes / amplification / -(-dies[0]).exp_m1();
        let collected = 1.0 - 1.0 / amplification;
        let hot_collected = if collected > 0.0 {
            ((hot - writes / amplification) / collected).clamp(0.0, 1.0)
        } else {
            writes
        };
        HotColdByAge { amplification, hot_written: writes, hot_collected, dies }
    }

    /// What lives of a block when `closed` blocks have been closed, of a queue of `blocks`.
    fn living(&self, block: Expected, closed: f64, blocks: f64) -> [f64; 2] {
        let way = (closed - block.closed) / blocks;
        std::array::from_fn(|class| block.units[class] * (-self.dies[class] * way).exp())
    }

    /// The queue of blocks, oldest first, in expectation.
    fn queue(&self, blocks: u32) -> (VecDeque<Expected>, f64) {
        let length = f64::from(blocks);
        let by = |hot: f64, closed: f64| Expected { units: [hot, 1.0 - hot], closed };
        // Begun with hosts' blocks among collection's as there will be on the whole.
        let mut by_host = 0.0;
        let mut queue: VecDeque<Expected> = (0..blocks)
            .map(|block| {
                by_host += 1.0 / self.amplification;
                let hot = if by_host >= 1.0 { self.hot_written } else { self.hot_collected };
                by_host -= f64::from(u8::from(by_host >= 1.0));
                by(hot, f64::from(block))
            })
            .collect();
        let mut closed = length;
        let (mut copies, mut host) = ([0.0; 2], 0.0);
        let slowest = self.dies[0].min(self.dies[1]);
        let until = (length * (1.0 + LIVES / slowest)).min(CLOSED_MAX);
        while closed < until {
            // What survives of a victim fills collection's block, and the host writes as much to
            // its own as the victim yields.
            let victim = queue.pop_front().expect("the queue is never empty");
            let living = self.living(victim, closed, length);
            let all = living[0] + living[1];
            let fits = ((1.0 - copies[0] - copies[1]) / all).min(1.0);
            for class in 0..2 {
                copies[class] += living[class] * fits;
            }
            if fits < 1.0 {
                queue.push_back(Expected { units: copies, closed });
                copies = living.map(|living| living * (1.0 - fits));
                closed += 1.0;
            }
            host += 1.0 - all;
            if host >= 1.0 {
                queue.push_back(by(self.hot_written, closed));
                host -= 1.0;
                closed += 1.0;
            }
        }
        // It is a block longer or shorter now and then.
        while queue.len() > blocks as usize {
            queue.pop_front();
        }
        while queue.len() < blocks as usize {
            queue.push_back(by(self.hot_written, closed));
        }
        (queue, closed)
    }

    fn held(&self, blocks: u32, b: u32, generator: &mut Pcg64Mcg) -> Vec<Held> {
        let (queue, closed) = self.queue(blocks);
        let block = |block: &Expected| {
            let [hot, cold] = self.living(*block, closed, f64::from(blocks));
            let all = binomial(b, (hot + cold).min(1.0), generator);
            let hot = binomial(all, hot / (hot + cold), generator);
            Held { hot, cold: all - hot }
        };
        queue.iter().map(block).collect()
    }

    /// The first `units` units of a block of which `hot` are hot.
    fn open(&self, units: u32, hot: f64) -> Held {
        let hot = (f64::from(units) * hot).round() as u32;
        Held { hot, cold: units - hot }
    }
}

/// Takes or adds a unit of the `class` here and there until there are `total` of it, without
/// making the emptiest block emptier.
fn correct_sum(
    held: &mut [Held],
    total: u32,
    b: u32,
    class: impl Fn(&mut Held) -> &mut u32,
    generator: &mut Pcg64Mcg,
) {
    let least = held.iter().map(|held| held.all()).min().unwrap_or(0);
    let mut sum: u64 = held.iter_mut().map(|held| u64::from(*class(held))).sum();
    let total = u64::from(total);
    let floor = if total < held.len() as u64 * u64::from(least) { 0 } else { least };
    while sum != total {
        let block = generator.random_range(0..held.len());
        let all = held[block].all();
        let of_class = class(&mut held[block]);
        if sum < total && all < b {
            *of_class += 1;
            sum += 1;
        } else if sum > total && all > floor && *of_class > 0 {
            *of_class -= 1;
            sum -= 1;
        }
    }
}

fn shuffle(values: &mut [u32], generator: &mut Pcg64Mcg) {
    for last in (1..values.len()).rev() {
        values.swap(last, generator.random_range(0..=last));
    }
}

/// All logical units once, hot and cold ones apart.
struct Order {
    hot: Shuffled,
    cold: Shuffled,
}

impl Order {
    fn is_over(&self) -> bool {
        self.hot.is_over() && self.cold.is_over()
    }
}

/// Units drawn before they are placed, so that their map entries are there by then.
const AHEAD: usize = 16;

/// A range of logical units once, in an order that looks drawn: a bijection of the next power of
/// two, computed unit by unit and passed over where it leads behind the end. It takes no memory.
struct Shuffled {
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
    fn new(range: Range<u32>, generator: &mut Pcg64Mcg) -> Self {
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

    fn is_over(&self) -> bool {
        self.given == self.units
    }

    /// The next unit, and one that will come soon, whose map entry can be asked for; behind the
    /// last one that is no unit.
    #[inline(always)]
    fn next(&mut self) -> (LogicalUnit, LogicalUnit) {
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

    #[test]
    fn counts_add_up_to_what_is_stored() {
        let mut generator = Pcg64Mcg::seed_from_u64(2);
        for total in [0, 1, 500, 640] {
            let mut held = vec![Held { hot: 9, cold: 5 }; 10];
            correct_sum(&mut held, total, 64 + 9, |it| &mut it.cold, &mut generator);
            assert_eq!(held.iter().map(|it| it.cold).sum::<u32>(), total);
            assert!(held.iter().all(|it| it.hot == 9 && it.cold <= 64));
        }
    }
}
