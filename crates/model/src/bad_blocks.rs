//! Bad blocks, their replacement, and the end of a drive's life.
//!
//! The number of erases that a block lasts is drawn from a Weibull distribution with a characteristic life and a
//! shape, the usual description of wear-out (JEDEC JESD91 and JEP122 use it for oxide breakdown): the more a block
//! was erased, the likelier the next cycle is its last. A failure to program and a failure to erase are one event
//! here, found when the block is erased, so that a bad block never holds data. If a collection unit has several
//! blocks, the first of them to fail is found; a block here is one block of a die, all planes included.
//!
//! A block that fails is replaced by one from its die's reserve (superblock remapping). If the reserve of that die is
//! used up, its collection unit is retired, and the good blocks of the unit join the reserves of their dies. So each
//! failure costs one spare block, until the share of the over-provisioning that the drive may retire is used up; then
//! the drive becomes read-only. From then on it refuses every write, and all data that it accepted can be read.
//!
//! Blocks that are bad when the flash is made (data sheets allow 2 to 4 %) take from the reserve.
//!
//! The table of bad blocks survives a power cut: a failure is recorded on the die where it happened, in a page of the
//! metadata blocks, right after the erase that failed and so before anything is programmed to the replacement of the
//! block. Failures are recorded in order, because a block of a retired unit can replace the next that fails. After a
//! power cut the table is rebuilt from these records. A failure that was not recorded is found again: its block
//! cannot be read, so that it is erased, and that erase fails. (Drives keep such tables, and factory marks, in blocks
//! of their own; data sheets of flash ask for that. One page program for each change is assumed. Lives are drawn from
//! the number of the failure, so that they are the same after recovery.)

use std::collections::VecDeque;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use crate::media::BadBlockRecord;
use crate::snapshot::{Decoder, Encoder, SnapshotError, damaged};
use crate::ssd::Configuration;
use crate::units::{BlockIndex, DieIndex};

/// Separates this random generator from others with the same seed.
const RNG_STREAM: u64 = 0x6261_645f_626c_6f63;

/// Bad blocks and the reserve of a drive.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BadBlockParameters {
    /// Erases after which 63 % of the blocks have failed (Weibull's scale).
    pub life: u32,
    /// Weibull's shape: 1 means a constant failure rate; with a larger value the failures are closer together.
    pub shape: f64,
    /// Number of blocks of each die kept to replace bad ones, without those that were bad from the factory.
    pub reserve: u32,
    /// Share of the spare collection units that may be retired before the drive becomes read-only.
    pub retire_most: f64,
    /// Percentage of the spare blocks below which the drive warns.
    pub threshold: u8,
}

/// The drive is read-only: it has no block left to replace bad ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the drive has reached its end of life and is read-only: {failed_blocks} blocks went bad, and \
     none is left to replace the next"
)]
pub struct EndOfLife {
    /// Blocks that went bad in use.
    pub failed_blocks: u64,
}

/// Spare blocks that are left to replace bad blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpareBlocks {
    /// Number of blocks, over all dies, that can still be replaced.
    pub left: u64,
    /// Number of blocks, over all dies, that could be replaced when the drive was new.
    pub at_start: u64,
    /// Percentage below which the drive warns.
    pub threshold: u8,
    /// True if the drive has become read-only.
    pub read_only: bool,
}

impl SpareBlocks {
    /// Returns the spare blocks that are left in percent, rounded down.
    pub fn percent(&self) -> u8 {
        (self.left * 100).checked_div(self.at_start).unwrap_or(0).min(100) as u8
    }
}

/// Effect of a failed block on its collection unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The block was replaced; the unit has this erase count from now on.
    Replaced { erases: u32 },
    /// The unit is retired.
    Retired,
}

/// State of bad blocks and reserves.
#[derive(Clone, Debug)]
pub(crate) struct BadBlocks {
    parameters: BadBlockParameters,
    seed: u64,
    stripe: u32,
    /// Per collection unit, the erase count at which the next of its blocks fails.
    fails_at: Vec<u32>,
    /// Per die, the erase counts of the blocks in its reserve.
    reserve: Vec<Vec<u32>>,
    failures: u64,
    retired: u32,
    retired_most: u32,
    at_start: u64,
    /// Failures that are not recorded yet because their erase is not carried out, in order.
    unrecorded: VecDeque<(DieIndex, BadBlockRecord)>,
}

impl BadBlocks {
    /// Returns the state of a new drive; `None` if no block of it goes bad.
    pub(crate) fn new(configuration: &Configuration) -> Option<Box<BadBlocks>> {
        let parameters = configuration.mechanisms.wear.bad_blocks?;
        let geometry = &configuration.geometry;
        let (dies, stripe) = (geometry.dies() as usize, geometry.stripe());
        let retired_most =
            (parameters.retire_most * f64::from(configuration.spare_blocks())) as u32;
        let seed = configuration.mechanisms.seed ^ RNG_STREAM;
        let mut this = BadBlocks {
            parameters,
            seed,
            stripe,
            fails_at: Vec::new(),
            reserve: vec![vec![0; parameters.reserve as usize]; dies],
            failures: 0,
            retired: 0,
            retired_most,
            at_start: 0,
            unrecorded: VecDeque::new(),
        };
        let mut generator = Pcg64Mcg::seed_from_u64(seed);
        this.fails_at = (0..geometry.blocks())
            .map(|_| this.next_failure(&mut generator, 0.0, stripe))
            .collect();
        this.at_start = this.left();
        Some(Box::new(this))
    }

    /// Returns the number of blocks that can still be replaced.
    fn left(&self) -> u64 {
        let reserve: usize = self.reserve.iter().map(Vec::len).sum();
        let to_retire = u64::from(self.retired_most.saturating_sub(self.retired));
        reserve as u64 + to_retire * u64::from(self.stripe)
    }

    /// Returns the number of retired collection units.
    pub(crate) fn retired(&self) -> u32 {
        self.retired
    }

    /// Returns true if more units are retired than the drive allows, which makes it read-only.
    pub(crate) fn is_read_only(&self) -> bool {
        self.retired > self.retired_most
    }

    /// Returns the erase count at which the first of `blocks` blocks with `erases` erases fails: the inverse of the
    /// distribution of the smallest of their remaining lives, given that they have come so far.
    fn next_failure(&self, generator: &mut Pcg64Mcg, erases: f64, blocks: u32) -> u32 {
        let BadBlockParameters { life, shape, .. } = self.parameters;
        let life = f64::from(life);
        let exponential = -f64::ln_1p(-generator.random::<f64>());
        let hazard = (erases / life).powf(shape) + exponential / f64::from(blocks);
        let at = (life * hazard.powf(1.0 / shape)).ceil();
        // A block that has survived this erase fails at the next one at the earliest.
        at.clamp(erases + 1.0, f64::from(u32::MAX)) as u32
    }

    /// Notes that collection unit `unit`, whose first die is `first_die`, was erased for the `erases`-th time.
    /// Returns the effect of a failure at this erase, or `None` if no block fails; a unit that would have to be
    /// retired does not fail now if `is_short` says that its blocks are needed.
    pub(crate) fn note_erase(
        &mut self,
        unit: BlockIndex,
        first_die: u32,
        erases: u32,
        is_short: bool,
    ) -> Option<Failure> {
        if erases < self.fails_at[unit.0 as usize] || self.is_read_only() {
            return None;
        }
        let lane = self.lane();
        let die = DieIndex(first_die + lane);
        if self.reserve[die.0 as usize].is_empty() && is_short {
            // The failure is found at the next erase instead.
            return None;
        }
        let replaced_by = self.reserve[die.0 as usize].pop();
        self.failures += 1;
        let number = self.failures;
        let record = BadBlockRecord { unit, lane, number, erases, replaced_by };
        self.unrecorded.push_back((die, record));
        Some(match replaced_by {
            Some(worn) => Failure::Replaced { erases: self.replace(unit, erases, worn) },
            None => {
                self.retired += 1;
                self.keep_good_blocks(first_die, lane, erases);
                Failure::Retired
            }
        })
    }

    /// Removes and returns the unrecorded failure of `unit`, whose erase is over, with its die; `None` if the erase
    /// does not fail.
    pub(crate) fn take_unrecorded(
        &mut self,
        unit: BlockIndex,
    ) -> Option<(DieIndex, BadBlockRecord)> {
        let place = self.unrecorded.iter().position(|(_, record)| record.unit == unit)?;
        self.unrecorded.remove(place)
    }

    /// Draws the next failure of `unit`, after one of its blocks was replaced by a block with `worn` erases. Returns
    /// the erase count of the unit from now on.
    fn replace(&mut self, unit: BlockIndex, erases: u32, worn: u32) -> u32 {
        let mut generator = self.generator();
        let of_new = self.next_failure(&mut generator, f64::from(worn), 1);
        if self.stripe == 1 {
            self.fails_at[unit.0 as usize] = of_new;
            return worn;
        }
        let of_others = self.next_failure(&mut generator, f64::from(erases), self.stripe - 1);
        let of_new = erases.saturating_add(of_new - worn);
        self.fails_at[unit.0 as usize] = of_others.min(of_new);
        erases
    }

    /// Returns a generator seeded from the number of the failure, so that there is no state to save.
    fn generator(&self) -> Pcg64Mcg {
        Pcg64Mcg::seed_from_u64(self.seed.wrapping_add(self.failures))
    }

    /// Returns the position in its collection unit of the block that fails now.
    fn lane(&self) -> u32 {
        let mut generator = self.generator();
        generator.random_range(0..self.stripe)
    }

    /// Adds the good blocks of a unit to the reserves of their dies.
    fn keep_good_blocks(&mut self, first_die: u32, bad_lane: u32, erases: u32) {
        for lane in (0..self.stripe).filter(|&lane| lane != bad_lane) {
            self.reserve[(first_die + lane) as usize].push(erases);
        }
    }

    /// Applies `record`, which recovery found after a power cut. Records are applied in order. Returns `None` if the
    /// record cannot be right.
    pub(crate) fn apply_record(&mut self, record: &BadBlockRecord, first_die: u32) -> Option<()> {
        let &BadBlockRecord { unit, lane, number, erases, replaced_by } = record;
        if lane >= self.stripe || number <= self.failures || erases == 0 {
            return None;
        }
        self.failures = number;
        match replaced_by {
            Some(worn) => {
                let of_die = &mut self.reserve[(first_die + lane) as usize];
                of_die.remove(of_die.iter().rposition(|&it| it == worn)?);
                self.replace(unit, erases, worn);
            }
            None => {
                self.retired += 1;
                self.keep_good_blocks(first_die, lane, erases);
            }
        }
        Some(())
    }

    pub(crate) fn save(&self, to: &mut Encoder<'_>) -> Result<(), SnapshotError> {
        let BadBlocks { fails_at, reserve, failures, retired, unrecorded, .. } = self;
        assert!(unrecorded.is_empty(), "the drive was shut down");
        to.table(fails_at)?;
        for of_die in reserve {
            to.list(of_die.iter().copied())?;
        }
        to.long(*failures)?;
        Ok(to.word(*retired)?)
    }

    pub(crate) fn restore(&mut self, from: &mut Decoder<'_>) -> Result<(), SnapshotError> {
        self.fails_at = from.table(self.fails_at.len())?;
        if self.fails_at.contains(&0) {
            return damaged("a block has failed before its first erase");
        }
        let most = self.parameters.reserve + self.fails_at.len() as u32;
        for of_die in &mut self.reserve {
            *of_die = from.list(most, u32::MAX, "a die's reserve of blocks")?;
        }
        self.failures = from.long()?;
        self.retired = from.at_most(self.fails_at.len() as u32, "the number of retired blocks")?;
        Ok(())
    }

    /// Returns the spare blocks that are left to replace bad blocks.
    pub(crate) fn spare(&self) -> SpareBlocks {
        let read_only = self.is_read_only();
        let left = if read_only { 0 } else { self.left() };
        let threshold = self.parameters.threshold;
        SpareBlocks { left, at_start: self.at_start, threshold, read_only }
    }
}

impl Configuration {
    /// Returns the number of collection units beyond those that hold the logical capacity and those that are always
    /// open or free.
    pub fn spare_blocks(&self) -> u32 {
        let geometry = &self.geometry;
        let needed = geometry.logical_units().div_ceil(geometry.units_per_block());
        let kept = self.collection.min_free_blocks(geometry, &self.mechanisms);
        geometry.blocks().saturating_sub(needed + kept)
    }
}

#[cfg(test)]
mod tests;
