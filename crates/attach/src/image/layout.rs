//! The layout of an image: offsets and lengths of its regions.
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

/// Alignment of regions, in bytes.
pub const ALIGNMENT: u64 = 1 << 20;

/// Maximum length of a header in bytes, and offset of its second copy.
pub const HEADER_MAX: u64 = ALIGNMENT / 2;

/// Bytes of a slot of the state.
pub const STATE_SIZE: u64 = 4096;

/// Maximum length of an image in bytes: file systems have to be able to hold it.
const LENGTH_MAX: u64 = 1 << 46;

/// Offsets and lengths of the regions, in bytes, and the drive's shape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Bytes in a mapping unit.
    pub unit: u64,
    /// Mapping units in a program unit.
    pub units_per_program: u32,
    /// Program units in a block.
    pub programs_per_block: u32,
    /// Dies that a block is striped over.
    pub stripe: u32,
    /// Number of blocks (collection units).
    pub blocks: u32,
    /// Bytes in the record of a program unit.
    pub record: u64,
    /// Offset of the slots of the state.
    pub state: u64,
    /// Offset of the first slot of the buffer dumps.
    pub dump: u64,
    /// Bytes in each slot of the buffer dumps.
    pub dump_size: u64,
    /// Maximum bytes in the head of a dump.
    pub dump_head: u64,
    /// Maximum number of units in a dump.
    pub dump_units: u64,
    /// Offset of the block table.
    pub table: u64,
    /// Bytes in a copy of the block table.
    pub table_size: u64,
    /// Offset of the first copy of the first trim log.
    pub trims: u64,
    /// Bytes in each copy of a trim log.
    pub trims_size: u64,
    /// Offset of the checkpoint.
    pub checkpoint: u64,
    /// Maximum bytes in a checkpoint.
    pub checkpoint_size: u64,
    /// Offset of the spare areas.
    pub spare: u64,
    /// Bytes in a copy of the spare areas.
    pub spare_size: u64,
    /// Offset of the data.
    pub data: u64,
    /// Length of the file.
    pub end: u64,
}

fn aligned(length: u64) -> u64 {
    length.next_multiple_of(ALIGNMENT)
}

impl Layout {
    /// Returns the layout of the image of a drive.
    ///
    /// # Errors
    /// Returns an error if the image would be longer than file systems hold.
    pub fn of(configuration: &Configuration) -> Result<Layout, AttachError> {
        let geometry: &Geometry = &configuration.geometry;
        let unit = geometry.unit_size().bytes();
        let per_program = geometry.units_per_program();
        let programs_per_block = geometry.units_per_block() / per_program;
        let (blocks, stripe) = (geometry.blocks(), geometry.stripe());
        let programs = u64::from(blocks) * u64::from(programs_per_block);
        let logical = u64::from(geometry.logical_units());
        let record = super::spare::record_size(per_program);
        // Units in the buffer, and those that are programmed in the same moment.
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
            let message =
                format!("an image of this drive would have {end} bytes, more than 64 TiB");
            return Err(AttachError::System(message));
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

    /// Returns the number of bytes in a program unit.
    pub fn program_size(&self) -> u64 {
        u64::from(self.units_per_program) * self.unit
    }

    /// Returns the number of program units that a die has in a block.
    pub fn rows(&self) -> u32 {
        self.programs_per_block / self.stripe
    }

    /// Returns the number of program units of the drive.
    pub fn programs(&self) -> u32 {
        self.blocks * self.programs_per_block
    }

    /// Returns the physical number of program unit `program`. Program units are numbered in the order of
    /// writing; physically a die's pages of a block lie together.
    pub fn slot_of(&self, program: u32) -> u32 {
        let (block, index) = (program / self.programs_per_block, program % self.programs_per_block);
        let (row, stripe_index) = (index / self.stripe, index % self.stripe);
        block * self.programs_per_block + stripe_index * self.rows() + row
    }

    /// Returns the program unit, in the order of writing, with physical number `slot`.
    pub fn program_at(&self, slot: u32) -> u32 {
        let (block, index) = (slot / self.programs_per_block, slot % self.programs_per_block);
        let (stripe_index, row) = (index / self.rows(), index % self.rows());
        block * self.programs_per_block + row * self.stripe + stripe_index
    }

    /// Returns the program unit that holds `unit`.
    pub fn program_of(&self, unit: PhysicalUnit) -> u32 {
        unit.0 / self.units_per_program
    }

    /// Returns the offset of the data of program unit `program`.
    pub fn data_at(&self, program: u32) -> u64 {
        self.data + u64::from(self.slot_of(program)) * self.program_size()
    }

    /// Returns the offset of the data of `unit`.
    pub fn unit_at(&self, unit: PhysicalUnit) -> u64 {
        let within = u64::from(unit.0 % self.units_per_program) * self.unit;
        self.data_at(self.program_of(unit)) + within
    }

    /// Returns the offsets of both copies of the record of program unit `program`.
    pub fn records_at(&self, program: u32) -> [u64; 2] {
        let first = self.spare + u64::from(self.slot_of(program)) * self.record;
        [first, first + self.spare_size]
    }

    /// Returns the position of `die` among the dies of its blocks, from 0.
    pub fn stripe_index(&self, die: DieIndex) -> u32 {
        die.0 % self.stripe
    }

    /// Returns the number of the part of `block` on `die`.
    pub fn part_of(&self, block: BlockIndex, die: DieIndex) -> u32 {
        block.0 * self.stripe + self.stripe_index(die)
    }

    /// Returns the part of a block that holds program unit `program`.
    pub fn part_of_program(&self, program: u32) -> u32 {
        let (block, index) = (program / self.programs_per_block, program % self.programs_per_block);
        block * self.stripe + index % self.stripe
    }

    /// Returns the stretches of both copies of the records of a part of a block: offset and length.
    pub fn records_of_part(&self, part: u32) -> [(u64, u64); 2] {
        let (first, rows) = (u64::from(part) * u64::from(self.rows()), u64::from(self.rows()));
        let (at, length) = (self.spare + first * self.record, rows * self.record);
        [(at, length), (at + self.spare_size, length)]
    }

    /// Returns the stretch of the data of a part of a block: offset and length.
    pub fn data_of_part(&self, part: u32) -> (u64, u64) {
        let (first, rows) = (u64::from(part) * u64::from(self.rows()), u64::from(self.rows()));
        (self.data + first * self.program_size(), rows * self.program_size())
    }

    /// Returns the offsets of both copies of the block table entry of a part of a block.
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
        for stripe_index in 0..layout.stripe {
            let part = layout.part_of(block, DieIndex(stripe_index));
            let (from, length) = layout.data_of_part(part);
            let program = block.0 * layout.programs_per_block + stripe_index + 5 * layout.stripe;
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
