//! Where everything lies in an image.
//!
//! | region | begins at | holds |
//! | --- | --- | --- |
//! | header | 0 | version, profile, shape; written once, and a copy at 512 KiB |
//! | state | 1 MiB | four slots: two generations with two copies each |
//! | buffer dumps | 2 MiB | two slots, by turns: what capacitors keep |
//! | block table | next | erases of each die's part of each block, in two copies |
//! | trim log | next | two logs with two copies each, one of them in use |
//! | checkpoint | next | the drive's tables, if it was closed in order |
//! | spare areas | next | a record for each program unit, in two copies |
//! | data | next | the flash: blocks in order, in each the dies in order, in those the pages |
//!
//! Every region begins on a whole MiB and is as long as it can ever need; the file is sparse, so
//! what is not used costs nothing.

use ssdlab_model::Configuration;
use ssdlab_nand::geometry::Geometry;
use ssdlab_units::{BlockIndex, DieIndex, PhysicalUnit};

use super::{dump, table};
use crate::error::AttachError;

/// Regions begin on multiples of this.
pub const ALIGNMENT: u64 = 1 << 20;

/// Bytes at most in the header, and where its copy begins.
pub const HEADER_MAX: u64 = ALIGNMENT / 2;

/// Bytes of a slot of the state.
pub const STATE_SIZE: u64 = 4096;

/// The larger an image, the more its file system must be able to hold: this much in all.
const LENGTH_MAX: u64 = 1 << 46;

/// Where everything lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Bytes of a mapping unit.
    pub unit: u64,
    /// Mapping units in a program unit.
    pub units_per_program: u32,
    /// Program units in a block.
    pub programs_per_block: u32,
    /// Dies that a block is striped over.
    pub stripe: u32,
    /// Blocks (collection units).
    pub blocks: u32,
    /// Bytes of the record of a program unit.
    pub record: u64,
    /// Where the slots of the state begin.
    pub state: u64,
    /// Where the first slot of the buffer dumps begins.
    pub dump: u64,
    /// Bytes of each of their slots.
    pub dump_size: u64,
    /// Bytes of the head of a dump, at most.
    pub dump_head: u64,
    /// Units in a dump, at most.
    pub dump_units: u64,
    /// Where the block table begins.
    pub table: u64,
    /// Bytes of a copy of the block table.
    pub table_size: u64,
    /// Where the first copy of the first trim log begins.
    pub trims: u64,
    /// Bytes of each copy of a trim log.
    pub trims_size: u64,
    /// Where the checkpoint begins.
    pub checkpoint: u64,
    /// Bytes that a checkpoint may take.
    pub checkpoint_size: u64,
    /// Where the spare areas begin.
    pub spare: u64,
    /// Bytes of a copy of the spare areas.
    pub spare_size: u64,
    /// Where the data begins.
    pub data: u64,
    /// Where the file ends.
    pub end: u64,
}

fn aligned(length: u64) -> u64 {
    length.next_multiple_of(ALIGNMENT)
}

impl Layout {
    /// The layout of the image of a drive.
    ///
    /// # Errors
    /// Returns an error if it would be larger than file systems hold.
    pub fn of(configuration: &Configuration) -> Result<Layout, AttachError> {
        let geometry: &Geometry = &configuration.geometry;
        let unit = geometry.unit_size().bytes();
        let per_program = geometry.units_per_program();
        let programs_per_block = geometry.units_per_block() / per_program;
        let (blocks, stripe) = (geometry.blocks(), geometry.stripe());
        let programs = u64::from(blocks) * u64::from(programs_per_block);
        let logical = u64::from(geometry.logical_units());
        let record = super::spare::record_size(per_program);
        // What the buffer holds, and what is programmed beyond that in the same moment.
        let streams = u64::from(configuration.mechanisms.streams.count);
        let dump_units = u64::from(configuration.buffer.units) + streams * u64::from(per_program);
        let dump_head = dump::head_size(dump_units).next_multiple_of(dump::DATA_ALIGNMENT);
        let dump_size = aligned(2 * dump_head + dump_units * unit);
        let state = ALIGNMENT;
        let dump = state + ALIGNMENT;
        let table = dump + 2 * dump_size;
        let table_size = aligned(table::ENTRY * u64::from(blocks) * u64::from(stripe));
        let trims = table + 2 * table_size;
        // At worst every other unit is trimmed; 16 bytes a record, and as much for new ones.
        let trims_size = aligned(16 * logical + (4 << 20));
        let checkpoint = trims + 4 * trims_size;
        let checkpoint_size = aligned(5 * logical + 64 * u64::from(blocks) + (4 << 20));
        let spare = checkpoint + checkpoint_size;
        let spare_size = aligned(record * programs);
        let data = spare + 2 * spare_size;
        let end = data + u64::from(per_program) * unit * programs;
        if end > LENGTH_MAX {
            let words = format!("an image of this drive would have {end} bytes, more than 64 TiB");
            return Err(AttachError::System(words));
        }
        Ok(Layout {
            unit,
            units_per_program: per_program,
            programs_per_block,
            stripe,
            blocks,
            record,
            state,
            dump,
            dump_size,
            dump_head,
            dump_units,
            table,
            table_size,
            trims,
            trims_size,
            checkpoint,
            checkpoint_size,
            spare,
            spare_size,
            data,
            end,
        })
    }

    /// Bytes of a program unit.
    pub fn program_size(&self) -> u64 {
        u64::from(self.units_per_program) * self.unit
    }

    /// Program units that a die has in a block.
    pub fn rows(&self) -> u32 {
        self.programs_per_block / self.stripe
    }

    /// Program units in all.
    pub fn programs(&self) -> u32 {
        self.blocks * self.programs_per_block
    }

    /// The number in physical order of program unit `program`, which counts in the order of
    /// writing: a die's pages of a block lie together.
    pub fn slot_of(&self, program: u32) -> u32 {
        let (block, index) = (program / self.programs_per_block, program % self.programs_per_block);
        let (row, lane) = (index / self.stripe, index % self.stripe);
        block * self.programs_per_block + lane * self.rows() + row
    }

    /// The program unit, in the order of writing, that is number `slot` in physical order.
    pub fn program_at(&self, slot: u32) -> u32 {
        let (block, index) = (slot / self.programs_per_block, slot % self.programs_per_block);
        let (lane, row) = (index / self.rows(), index % self.rows());
        block * self.programs_per_block + row * self.stripe + lane
    }

    /// The program unit that holds `unit`.
    pub fn program_of(&self, unit: PhysicalUnit) -> u32 {
        unit.0 / self.units_per_program
    }

    /// Returns where the data of program unit `program` begins.
    pub fn data_at(&self, program: u32) -> u64 {
        self.data + u64::from(self.slot_of(program)) * self.program_size()
    }

    /// Returns where the data of `unit` begins.
    pub fn unit_at(&self, unit: PhysicalUnit) -> u64 {
        let within = u64::from(unit.0 % self.units_per_program) * self.unit;
        self.data_at(self.program_of(unit)) + within
    }

    /// Returns where the copies of the record of program unit `program` begin.
    pub fn records_at(&self, program: u32) -> [u64; 2] {
        let first = self.spare + u64::from(self.slot_of(program)) * self.record;
        [first, first + self.spare_size]
    }

    /// Returns which of the dies that `block` is striped over `die` is.
    pub fn lane_of(&self, die: DieIndex) -> u32 {
        die.0 % self.stripe
    }

    /// A number for the part of `block` that lies on `die`.
    pub fn part_of(&self, block: BlockIndex, die: DieIndex) -> u32 {
        block.0 * self.stripe + self.lane_of(die)
    }

    /// The part of its block that program unit `program` lies in.
    pub fn part_of_program(&self, program: u32) -> u32 {
        let (block, index) = (program / self.programs_per_block, program % self.programs_per_block);
        block * self.stripe + index % self.stripe
    }

    /// Returns where the copies of the records of a part of a block lie: the beginning and the length of each.
    pub fn records_of_part(&self, part: u32) -> [(u64, u64); 2] {
        let (first, rows) = (u64::from(part) * u64::from(self.rows()), u64::from(self.rows()));
        let (at, length) = (self.spare + first * self.record, rows * self.record);
        [(at, length), (at + self.spare_size, length)]
    }

    /// Returns where the data of a part of a block lies: the beginning and the length.
    pub fn data_of_part(&self, part: u32) -> (u64, u64) {
        let (first, rows) = (u64::from(part) * u64::from(self.rows()), u64::from(self.rows()));
        (self.data + first * self.program_size(), rows * self.program_size())
    }

    /// Returns where the copies of the entry of a part of a block lie in the block table.
    pub fn erases_at(&self, part: u32) -> [u64; 2] {
        let first = self.table + table::ENTRY * u64::from(part);
        [first, first + self.table_size]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ssdlab_model::profile::{DEFAULT, Profile};

    fn layout() -> Layout {
        let profile = Profile::named(DEFAULT).expect("the default profile");
        Layout::of(&profile.configuration().expect("a sound profile")).expect("a sound layout")
    }

    #[test]
    fn regions_follow_each_other_and_slots_are_all_different() {
        let layout = layout();
        let begins = [
            layout.state,
            layout.dump,
            layout.table,
            layout.trims,
            layout.checkpoint,
            layout.spare,
        ];
        assert!(begins.is_sorted() && layout.spare < layout.data && layout.data < layout.end);
        let mut slots: Vec<u32> =
            (0..layout.programs_per_block).map(|it| layout.slot_of(it)).collect();
        for (program, &slot) in slots.iter().enumerate() {
            assert_eq!(layout.program_at(slot), program as u32);
        }
        slots.sort_unstable();
        slots.dedup();
        assert_eq!(slots.len() as u32, layout.programs_per_block);
    }

    #[test]
    fn a_part_of_a_block_is_one_stretch_of_the_file() {
        let layout = layout();
        let block = BlockIndex(3);
        for lane in 0..layout.stripe {
            let part = layout.part_of(block, DieIndex(lane));
            let (from, length) = layout.data_of_part(part);
            let program = block.0 * layout.programs_per_block + lane + 5 * layout.stripe;
            assert_eq!(layout.part_of_program(program), part);
            let at = layout.data_at(program);
            assert!(at >= from && at + layout.program_size() <= from + length);
            for ((from, length), at) in
                layout.records_of_part(part).into_iter().zip(layout.records_at(program))
            {
                assert!(at >= from && at + layout.record <= from + length);
            }
        }
    }
}
