//! The pseudo-SLC cache: blocks written with one bit per cell, which is faster, and folded into blocks with all bits
//! when the drive is idle or the cache is full.
//!
//! A block in SLC mode is an ordinary block or superblock of which one page of each word line is used: a share of
//! each program unit with one-shot flash, otherwise a share of the program units. So it holds a half, a third or a
//! quarter of its usual capacity. A fixed cache has blocks of its own, which are not over-provisioning. A dynamic
//! cache takes free blocks while there are enough, so that it shrinks as the drive fills, down to the blocks of its
//! own. Folding is garbage collection with an SLC block as the victim: its valid data is read and written to the
//! stream of copies.
//!
//! Sources: the drives' data sheets (TurboWrite, nCache, Intelligent TurboWrite) describe the principle; sizes and
//! rates are each profile's. Reads of folding take as long as reads of other blocks here, though SLC pages are sensed
//! faster.

use serde::Deserialize;

use crate::geometry::Geometry;
use crate::units::{BlockIndex, Nanoseconds};

/// Origin of the blocks of an SLC cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SlcSpace {
    /// Blocks that belong to the cache.
    #[default]
    Fixed,
    /// Free blocks, as long as there are enough, besides the blocks that belong to the cache.
    Dynamic,
}

/// Destination of host writes while the cache is full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WhenFull {
    /// Blocks with all bits; the cache is folded when the drive is idle.
    #[default]
    Direct,
    /// The cache: the drive makes room by folding the block that has been there longest or holds least.
    Fold,
}

/// A pseudo-SLC cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlcParameters {
    /// Largest number of superblocks in SLC mode.
    pub blocks: u32,
    /// Bits per cell in the other blocks: 2, 3 or 4.
    pub bits: u32,
    /// Origin of the blocks.
    pub space: SlcSpace,
    /// Number of blocks, among `blocks`, that a dynamic cache has for itself.
    pub fixed: u32,
    /// Destination of writes when the cache is full.
    pub when_full: WhenFull,
    /// Time to program the pages of all planes, one page each.
    pub program: Nanoseconds,
    /// Time to sense a page.
    pub page_read: Nanoseconds,
}

impl SlcParameters {
    /// Returns the number of units that a program unit holds in SLC mode, and the number of program units of a block
    /// that are used.
    pub(crate) fn shape(&self, geometry: &Geometry) -> (u32, u32) {
        let units = geometry.units_per_program();
        let programs = geometry.units_per_block() / units;
        if geometry.parameters().pages_per_shot == self.bits {
            (units / self.bits, programs)
        } else {
            (units, programs / self.bits)
        }
    }

    /// Returns the number of blocks that are kept for the cache, so that they are not over-provisioning.
    pub fn min_free_blocks(&self) -> u32 {
        match self.space {
            SlcSpace::Fixed => self.blocks,
            SlcSpace::Dynamic => self.fixed,
        }
    }
}

/// The state of the cache.
#[derive(Clone, Debug)]
pub(crate) struct SlcCache {
    parameters: SlcParameters,
    /// Per block, true if the block is in SLC mode.
    of_block: Vec<bool>,
    in_use: u32,
    units_per_program: u32,
    programs_per_block: u32,
}

impl SlcCache {
    pub(crate) fn new(geometry: &Geometry, parameters: SlcParameters) -> SlcCache {
        let (units_per_program, programs_per_block) = parameters.shape(geometry);
        SlcCache {
            parameters,
            of_block: vec![false; geometry.blocks() as usize],
            in_use: 0,
            units_per_program,
            programs_per_block,
        }
    }

    /// Returns true if `block` is in SLC mode.
    #[inline(always)]
    pub(crate) fn holds(&self, block: BlockIndex) -> bool {
        self.of_block[block.0 as usize]
    }

    /// Returns the number of free blocks that only the cache may take.
    pub(crate) fn reserved(&self) -> u32 {
        self.parameters.min_free_blocks().saturating_sub(self.in_use)
    }

    pub(crate) fn program(&self) -> Nanoseconds {
        self.parameters.program
    }

    pub(crate) fn page_read(&self) -> Nanoseconds {
        self.parameters.page_read
    }

    /// Returns the number of units of a program unit in SLC mode.
    pub(crate) fn units_per_program(&self) -> u32 {
        self.units_per_program
    }

    /// Returns the number of program units of a block in SLC mode.
    pub(crate) fn programs_per_block(&self) -> u32 {
        self.programs_per_block
    }

    /// Returns the number of units that a block in SLC mode takes after `programs` program units. An open block
    /// always has room.
    pub(crate) fn units_left(&self, programs: u32) -> u32 {
        self.programs_per_block.saturating_sub(programs) * self.units_per_program
    }

    /// Notes that `block` was found on the flash in SLC mode.
    pub(crate) fn add_block(&mut self, block: BlockIndex) {
        self.of_block[block.0 as usize] = true;
        self.in_use += 1;
    }

    /// Returns the parameters of the cache.
    pub(crate) fn parameters(&self) -> &SlcParameters {
        &self.parameters
    }

    /// Returns true if the cache has taken blocks beyond its own.
    pub(crate) fn is_borrowing(&self) -> bool {
        self.in_use > self.parameters.min_free_blocks()
    }

    /// Returns the number of blocks in SLC mode.
    pub(crate) fn in_use(&self) -> u32 {
        self.in_use
    }

    /// Returns the number of units that a block in SLC mode holds.
    pub(crate) fn units_per_block(&self) -> u32 {
        self.units_per_program * self.programs_per_block
    }

    /// Notes that `block` is being erased. Returns true if the block was in SLC mode.
    pub(crate) fn note_erased(&mut self, block: BlockIndex) -> bool {
        let was = std::mem::replace(&mut self.of_block[block.0 as usize], false);
        self.in_use -= u32::from(was);
        was
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ftl::Ssd;
    use crate::profile::Profile;
    use crate::units::{Instant, LogicalUnit};

    /// Returns a drive of 96 MiB with superblocks of 4.5 MiB (1.5 MiB in SLC mode), six of which are its cache.
    fn drive(changes: &[(&str, &str)]) -> Ssd {
        let mut profile = Profile::named(crate::profile::DEFAULT).expect("the default profile");
        let small = [
            ("capacity.logical", "96M"),
            ("capacity.physical", "192M"),
            ("flash.channels", "2"),
            ("flash.dies", "4"),
            ("flash.pages_per_block", "36"),
            ("controller.write_buffer", "1M"),
            ("slc.size", "9M"),
            ("slc.bits", "3"),
            ("slc.program", "200us"),
            ("slc.page_read", "25us"),
        ];
        for (key, value) in small.iter().chain(changes) {
            profile.set(key, value).expect("a sound value");
        }
        Ssd::new(&profile.configuration().unwrap()).expect("a sound drive")
    }

    const MIB_UNITS: u32 = 256;

    /// Writes `mebibytes` in order. Returns the rate in MiB/s.
    fn fill(ssd: &mut Ssd, at: &mut Instant, first: u32, mebibytes: u32) -> f64 {
        let start = *at;
        for unit in (first..first + mebibytes * MIB_UNITS).step_by(64) {
            *at = ssd.write(*at, LogicalUnit(unit), 64);
            if unit % 1024 == 0 {
                ssd.check_invariants();
            }
        }
        f64::from(mebibytes) / at.since(start).seconds()
    }

    fn rest(ssd: &mut Ssd, at: &mut Instant) {
        let rest = Nanoseconds::from_secs(10);
        ssd.rest(*at, rest);
        *at += rest;
        ssd.check_invariants();
    }

    #[test]
    fn writing_is_fast_until_the_cache_is_full_and_again_after_a_rest() {
        for when_full in ["direct", "fold"] {
            let mut ssd = drive(&[("slc.when_full", when_full)]);
            let mut at = Instant::START;
            let cached = fill(&mut ssd, &mut at, 0, 9);
            let beyond = fill(&mut ssd, &mut at, 9 * MIB_UNITS, 36);
            assert!(cached > 1.5 * beyond, "{when_full}: {cached} and {beyond} MiB/s");
            rest(&mut ssd, &mut at);
            assert!(ssd.slc_blocks() <= 1, "what is full was folded");
            assert!(ssd.counters().program_units_folded > 0);
            let again = fill(&mut ssd, &mut at, 0, 7);
            assert!(again > 1.5 * beyond, "{when_full}: {again} after a rest");
        }
    }

    #[test]
    fn what_is_folded_is_written_twice() {
        let mut ssd = drive(&[]);
        let mut at = Instant::START;
        fill(&mut ssd, &mut at, 0, 9);
        let counters = ssd.counters();
        assert_eq!(counters.program_units_slc, 9 * u64::from(MIB_UNITS));
        assert_eq!(counters.write_amplification(), Some(1.0));
        rest(&mut ssd, &mut at);
        let counters = ssd.counters();
        assert_eq!(counters.program_units_folded, 9 * u64::from(MIB_UNITS));
        assert!((2.0..2.02).contains(&counters.write_amplification().unwrap()));
        assert_eq!(counters.slc_erases, 6);
    }

    #[test]
    fn a_dynamic_cache_shrinks_as_the_drive_fills() {
        let dynamic = [("slc.space", "dynamic"), ("slc.size", "60M"), ("capacity.logical", "140M")];
        let mut ssd = drive(&dynamic);
        let mut at = Instant::START;
        fill(&mut ssd, &mut at, 0, 30);
        assert!(ssd.slc_blocks() >= 19, "{}", ssd.slc_blocks());
        rest(&mut ssd, &mut at);
        for round in 0..4 {
            fill(&mut ssd, &mut at, 0, 140);
            rest(&mut ssd, &mut at);
            let before = ssd.slc_blocks();
            fill(&mut ssd, &mut at, 0, 30);
            let taken = ssd.slc_blocks() - before.min(ssd.slc_blocks());
            assert!(taken < 10, "round {round}: {taken} blocks of a drive that is full");
        }
    }

    #[test]
    fn data_in_the_cache_is_read_faster() {
        let mut ssd = drive(&[("controller.write_buffer", "512K")]);
        let mut at = Instant::START;
        fill(&mut ssd, &mut at, 0, 9);
        let at = at + Nanoseconds::from_secs(1);
        let cached = ssd.read(at, LogicalUnit(0), 1).since(at);
        let mut at = at;
        rest(&mut ssd, &mut at);
        let folded = ssd.read(at, LogicalUnit(0), 1).since(at);
        assert_eq!(folded - cached, Nanoseconds::from_micros(70 - 25));
    }

    #[test]
    fn caches_that_cannot_be_are_refused() {
        let refused = |key, value: &str| {
            let mut profile = Profile::named(crate::profile::DEFAULT).unwrap();
            for (key, value) in [
                ("slc.size", "8G"),
                ("slc.bits", "3"),
                ("slc.program", "200us"),
                ("slc.page_read", "25us"),
            ] {
                profile.set(key, value).unwrap();
            }
            profile.check().unwrap();
            profile.set(key, value).unwrap();
            profile.check().unwrap_err().to_string()
        };
        assert!(refused("slc.bits", "2").contains("flash.pages_per_shot"));
        assert!(refused("slc.program", "0").contains("must be set"));
        assert!(refused("slc.size", "1M").contains("less than two superblocks"));
        assert!(refused("mapping.scheme", "extent").contains("page or cached"));
        assert!(refused("slc.size", "50G").contains("spare"));
    }
}
