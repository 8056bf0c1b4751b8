//! Blocks: what they hold, which are free, and which yields most.

use std::collections::VecDeque;

use ssdlab_nand::geometry::Geometry;
use ssdlab_units::BlockIndex;
use ssdlab_units::divisor::Divisor;

use super::NONE;
use super::device::Handles;

/// In a count of valid units: the block is open, free, being programmed or collected.
const NO_VICTIM: u32 = 1 << 31;
/// Blocks of which the least count is kept.
const GROUP: usize = 32;

#[derive(Clone)]
pub struct Blocks<H: Handles> {
    pub reverse: Vec<u32>,
    valid: Vec<u32>,
    least: Vec<u32>,
    /// Program units of each block that are not programmed, and which.
    unprogrammed: Vec<u32>,
    programmed: Vec<u64>,
    pub free: Vec<VecDeque<u32>>,
    pub free_count: u32,
    /// The erase of each block, from its announcement until it is over.
    erases: Vec<Option<H::Erase>>,
    pub units_per_block: u32,
    programs_per_block: u32,
    by_block: Divisor,
    by_program: Divisor,
    group_of: Vec<u32>,
}

impl<H: Handles> Blocks<H> {
    pub fn new(geometry: &Geometry) -> Blocks<H> {
        let blocks = geometry.blocks();
        let padded = (blocks as usize).next_multiple_of(GROUP);
        let per_block = geometry.units_per_block();
        let mut free = vec![VecDeque::new(); geometry.groups() as usize];
        let group_of: Vec<u32> =
            (0..blocks).map(|block| geometry.group_of(BlockIndex(block))).collect();
        (0..blocks).for_each(|block| free[group_of[block as usize] as usize].push_back(block));
        let programs_per_block = per_block / geometry.units_per_program();
        Blocks {
            reverse: vec![NONE; (per_block * blocks) as usize],
            valid: vec![NO_VICTIM; padded],
            least: vec![NO_VICTIM; padded / GROUP],
            unprogrammed: vec![0; blocks as usize],
            programmed: vec![0; (programs_per_block * blocks).div_ceil(64) as usize],
            free,
            free_count: blocks,
            erases: vec![None; blocks as usize],
            units_per_block: per_block,
            programs_per_block,
            by_block: Divisor::new(per_block),
            by_program: Divisor::new(geometry.units_per_program()),
            group_of,
        }
    }

    /// Opens a free block of a group, if one is left beside `kept`.
    pub fn open(&mut self, group: usize, kept: usize) -> Option<u32> {
        if self.free[group].len() <= kept {
            return None;
        }
        let block = self.free[group].pop_front()?;
        self.free_count -= 1;
        // Counted as if it were full, so that writing to it counts nothing.
        self.valid[block as usize] = self.units_per_block | NO_VICTIM;
        self.unprogrammed[block as usize] = self.programs_per_block;
        for program in block * self.programs_per_block..(block + 1) * self.programs_per_block {
            self.programmed[program as usize / 64] &= !(1 << (program % 64));
        }
        Some(block * self.units_per_block)
    }

    pub fn is_block_start(&self, unit: u32) -> bool {
        unit % self.by_block == 0
    }

    #[inline(always)]
    pub fn invalidate(&mut self, unit: u32) {
        let block = (unit / self.by_block) as usize;
        self.valid[block] -= 1;
        let least = &mut self.least[block / GROUP];
        *least = (*least).min(self.valid[block]);
    }

    /// Units that hold nothing.
    pub fn pad(&mut self, units: std::ops::Range<u32>) {
        for unit in units {
            self.reverse[unit as usize] = NONE;
            self.invalidate(unit);
        }
    }

    #[inline(always)]
    pub fn is_programmed(&self, unit: u32) -> bool {
        let program = unit / self.by_program;
        self.unprogrammed[(unit / self.by_block) as usize] == 0
            || self.programmed[program as usize / 64] >> (program % 64) & 1 != 0
    }

    /// A program unit is programmed.
    pub fn note_programmed(&mut self, first: u32) {
        let block = (first / self.by_block) as usize;
        let program = first / self.by_program;
        self.programmed[program as usize / 64] |= 1 << (program % 64);
        self.unprogrammed[block] -= 1;
        if self.unprogrammed[block] == 0 {
            self.valid[block] &= !NO_VICTIM;
            let least = &mut self.least[block / GROUP];
            *least = (*least).min(self.valid[block]);
        }
    }

    /// Takes out the block with the fewest valid units, of those that yield any.
    pub fn take_victim(&mut self) -> Option<(u32, u32)> {
        let least = *self.least.iter().min()?;
        if least >= self.units_per_block {
            return None;
        }
        let group = self.least.iter().position(|&it| it == least)?;
        let from = group * GROUP;
        let block = from + self.valid[from..].iter().position(|&it| it == least)?;
        self.valid[block] |= NO_VICTIM;
        self.least[group] = *self.valid[from..from + GROUP].iter().min()?;
        Some((block as u32, least))
    }

    pub fn note_erase(&mut self, block: u32, erase: Option<H::Erase>) {
        self.erases[block as usize] = erase;
    }

    pub fn release(&mut self, block: u32) {
        self.free[self.group_of[block as usize] as usize].push_back(block);
        self.free_count += 1;
    }

    /// The erase that a program to `unit` has to wait for.
    #[inline(always)]
    pub fn erase_before(&self, unit: u32) -> Option<H::Erase> {
        self.erases[(unit / self.by_block) as usize]
    }

    pub fn block_erased_by(&self, erase: H::Erase) -> u32 {
        let block = self.erases.iter().position(|&it| it == Some(erase));
        block.expect("it was announced") as u32
    }
}
