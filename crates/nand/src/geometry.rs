//! Geometry of the flash: channels, dies, planes, pages and blocks, and the place of a physical unit in
//! them.
//!
//! A *flash page* holds one or more mapping units. A *program unit* is what one program operation
//! writes: every plane of a die, and every page of a one-shot (three for TLC programmed in one
//! go). A *collection unit* is what is opened, filled, collected and erased as a whole: one block
//! (of all planes) of a single die, or a superblock striped over several dies. Physical units are
//! numbered in write order, so that a collection unit is a contiguous range and a stream that
//! fills it visits die after die.

mod error;

pub use error::GeometryError;
use error::{divides, power_of_two, within};
use ssdlab_units::divisor::{Divisor, Rounds};
use ssdlab_units::{BlockIndex, ByteLength, DieIndex, LogicalUnit, PhysicalUnit, Sector};

/// Minimum number of blocks (or superblocks) for garbage collection.
pub const MIN_BLOCKS: u32 = 4;

/// Shape of a drive. All counts are per the next larger thing, as their names say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GeometryParameters {
    /// Channels between controller and flash; 1 to 64.
    pub channels: u32,
    /// Dies over all channels, a multiple of `channels`; die `d` sits on channel `d % channels`.
    pub dies: u32,
    /// Planes that a die programs, erases and (multi-plane) reads together: 1, 2, 4 or 8.
    pub planes_per_die: u32,
    /// True if pages of all planes at the same place are sensed together when a request needs
    /// them; otherwise each page is sensed on its own.
    pub multi_plane_read: bool,
    /// Flash pages a plane programs in one operation: 1, or 2 to 4 for one-shot MLC, TLC, QLC.
    pub pages_per_shot: u32,
    /// Flash pages in an erase block of one plane; a multiple of `pages_per_shot`.
    pub pages_per_block: u32,
    /// Bytes in a flash page, without OOB bytes; a power of two times `unit_size`.
    pub page_size: ByteLength,
    /// Bytes per mapping unit; a power of two.
    pub unit_size: ByteLength,
    /// Dies a collection unit is striped over: 1 for single blocks, `dies` for superblocks, or a
    /// divisor of `dies` in between.
    pub dies_per_collection_unit: u32,
    /// Collection units on the drive for user data and its over-provisioning; a multiple of `dies /
    /// dies_per_collection_unit`.
    pub collection_units: u32,
    /// Collection units set aside for the map, its journal and other metadata. They count as
    /// over-provisioning but never hold user data.
    pub metadata_collection_units: u32,
    /// Collection units whose blocks are kept to replace bad blocks. They have no other use.
    pub reserve_collection_units: u32,
    /// Units the host can address.
    pub logical_units: u32,
}

/// A checked shape, with the divisions that addresses need prepared.
#[derive(Clone, Debug)]
pub struct Geometry {
    parameters: GeometryParameters,
    sectors_per_unit_shift: u32,
    sectors_within_unit: u64,
    units_per_page_shift: u32,
    units_per_sense_shift: u32,
    units_per_program: u32,
    units_per_block: u32,
    groups: u32,
    blocks_per_group: u32,
    by_block: Divisor,
    by_program: Divisor,
    /// Finds the die of a unit: program units go round the dies of a collection unit.
    stripe_rotation: Rounds,
    by_stripe: Divisor,
    by_blocks_per_group: Divisor,
    by_channels: Divisor,
}

impl Geometry {
    /// Checks the shape and prepares its arithmetic.
    ///
    /// # Errors
    /// Returns an error if a count is out of its range, if counts do not divide as the parameters require,
    /// or if the drive has more physical units than 32 bits count.
    pub fn new(parameters: GeometryParameters) -> Result<Geometry, GeometryError> {
        let p = &parameters;
        within("flash.channels", p.channels.into(), 1, 64)?;
        within("flash.dies", p.dies.into(), 1, 4096)?;
        within("flash.planes_per_die", p.planes_per_die.into(), 1, 8)?;
        within("flash.pages_per_shot", p.pages_per_shot.into(), 1, 4)?;
        within("flash.pages_per_block", p.pages_per_block.into(), 1, 1 << 16)?;
        within("controller.unit_size", p.unit_size.bytes(), 512, 1 << 20)?;
        within("flash.page_size", p.page_size.bytes(), 512, 1 << 20)?;
        within("dies of a block", p.dies_per_collection_unit.into(), 1, p.dies.into())?;
        within("blocks of flash", p.collection_units.into(), MIN_BLOCKS.into(), u32::MAX.into())?;
        within("units of data", p.logical_units.into(), 1, u32::MAX.into())?;
        power_of_two("flash.planes_per_die", p.planes_per_die.into())?;
        power_of_two("controller.unit_size", p.unit_size.bytes())?;
        power_of_two("flash.page_size", p.page_size.bytes())?;
        within("flash.page_size", p.page_size.bytes(), p.unit_size.bytes(), 1 << 20)?;
        divides("flash.dies", p.dies, "flash.channels", p.channels)?;
        divides("flash.dies", p.dies, "dies of a block", p.dies_per_collection_unit)?;
        divides(
            "flash.pages_per_block",
            p.pages_per_block,
            "flash.pages_per_shot",
            p.pages_per_shot,
        )?;
        let groups = p.dies / p.dies_per_collection_unit;
        divides("blocks of flash", p.collection_units, "groups of dies", groups)?;

        let units_per_page = p.page_size.whole(p.unit_size) as u32;
        let units_per_program = units_per_page * p.planes_per_die * p.pages_per_shot;
        let units_per_block = u64::from(units_per_program)
            * u64::from(p.pages_per_block / p.pages_per_shot)
            * u64::from(p.dies_per_collection_unit);
        let units = units_per_block * u64::from(p.collection_units);
        // One value is reserved: maps store a unit plus one, so that zero means none.
        if units >= u64::from(u32::MAX) {
            return Err(GeometryError::TooLarge { units });
        }
        let units_per_block = units_per_block as u32;
        let pages_per_sense = if p.multi_plane_read { p.planes_per_die } else { 1 };
        let blocks_per_group = p.collection_units / groups;
        Ok(Geometry {
            sectors_per_unit_shift: p.unit_size.whole(Sector::SIZE).trailing_zeros(),
            sectors_within_unit: p.unit_size.whole(Sector::SIZE) - 1,
            units_per_page_shift: units_per_page.trailing_zeros(),
            units_per_sense_shift: (units_per_page * pages_per_sense).trailing_zeros(),
            units_per_program,
            units_per_block,
            groups,
            blocks_per_group,
            by_block: Divisor::new(units_per_block),
            by_program: Divisor::new(units_per_program),
            stripe_rotation: Rounds::new(units_per_program, p.dies_per_collection_unit),
            by_stripe: Divisor::new(p.dies_per_collection_unit),
            by_blocks_per_group: Divisor::new(blocks_per_group),
            by_channels: Divisor::new(p.channels),
            parameters,
        })
    }

    /// Returns the parameters of this geometry.
    pub fn parameters(&self) -> &GeometryParameters {
        &self.parameters
    }

    /// Units the host can address.
    pub fn logical_units(&self) -> u32 {
        self.parameters.logical_units
    }

    /// Bytes the host can address.
    pub fn capacity(&self) -> ByteLength {
        self.parameters.unit_size * u64::from(self.parameters.logical_units)
    }

    /// Bytes per mapping unit.
    pub fn unit_size(&self) -> ByteLength {
        self.parameters.unit_size
    }

    /// Binary logarithm of the sectors of 512 bytes in a mapping unit.
    #[inline(always)]
    pub fn sectors_per_unit_shift(&self) -> u32 {
        self.sectors_per_unit_shift
    }

    /// Returns the mask of the bits of a sector's number that are its place within its mapping unit.
    #[inline(always)]
    pub fn sectors_within_unit(&self) -> u64 {
        self.sectors_within_unit
    }

    /// Collection units for user data and over-provisioning, without those for metadata.
    pub fn blocks(&self) -> u32 {
        self.parameters.collection_units
    }

    /// Physical units, without those for metadata.
    pub fn physical_units(&self) -> u32 {
        self.units_per_block * self.parameters.collection_units
    }

    /// Bytes of flash, metadata blocks and those that replace bad blocks included.
    pub fn physical_capacity(&self) -> ByteLength {
        let GeometryParameters {
            collection_units,
            metadata_collection_units,
            reserve_collection_units,
            ..
        } = self.parameters;
        let blocks = [collection_units, metadata_collection_units, reserve_collection_units];
        let units = u64::from(self.units_per_block) * blocks.map(u64::from).iter().sum::<u64>();
        self.parameters.unit_size * units
    }

    /// Over-provisioning as a share of the physical capacity. Metadata blocks and those that replace bad
    /// blocks count as over-provisioning.
    pub fn spare_of_physical(&self) -> f64 {
        let physical = self.physical_capacity().bytes() as f64;
        (physical - self.capacity().bytes() as f64) / physical
    }

    /// Mapping units in a flash page.
    pub fn units_per_page(&self) -> u32 {
        1 << self.units_per_page_shift
    }

    /// Mapping units in a program unit.
    pub fn units_per_program(&self) -> u32 {
        self.units_per_program
    }

    /// Mapping units in a collection unit.
    pub fn units_per_block(&self) -> u32 {
        self.units_per_block
    }

    /// Independent sets of dies that collection units are striped over.
    pub fn groups(&self) -> u32 {
        self.groups
    }

    /// Collection units in one group.
    pub fn blocks_per_group(&self) -> u32 {
        self.blocks_per_group
    }

    /// Dies a collection unit is striped over.
    pub fn stripe(&self) -> u32 {
        self.parameters.dies_per_collection_unit
    }

    /// Number of dies.
    pub fn dies(&self) -> u32 {
        self.parameters.dies
    }

    /// Number of channels.
    pub fn channels(&self) -> u32 {
        self.parameters.channels
    }

    /// The collection unit that holds `unit`.
    #[inline(always)]
    pub fn block_of(&self, unit: PhysicalUnit) -> BlockIndex {
        BlockIndex(unit.0 / self.by_block)
    }

    /// The first unit of `block`.
    #[inline(always)]
    pub fn first_unit(&self, block: BlockIndex) -> PhysicalUnit {
        PhysicalUnit(block.0 * self.units_per_block)
    }

    /// The group whose dies `block` is striped over.
    #[inline(always)]
    pub fn group_of(&self, block: BlockIndex) -> u32 {
        if self.groups == 1 { 0 } else { block.0 / self.by_blocks_per_group }
    }

    /// The die that holds `unit`.
    #[inline(always)]
    pub fn die_of(&self, unit: PhysicalUnit) -> DieIndex {
        // Program units are numbered through the whole drive; a collection unit begins on die
        // 0 of its stripe, because it holds a whole number of rows.
        let die_in_stripe = self.stripe_rotation.run_of(unit.0);
        if self.groups == 1 {
            DieIndex(die_in_stripe)
        } else {
            DieIndex(self.group_of(self.block_of(unit)) * self.stripe() + die_in_stripe)
        }
    }

    /// The die of program unit `index` (in write order) of `block`.
    #[inline(always)]
    pub fn die_of_program(&self, block: BlockIndex, index: u32) -> DieIndex {
        DieIndex(self.group_of(block) * self.stripe() + index % self.by_stripe)
    }

    /// The channel that `die` sits on.
    #[inline(always)]
    pub fn channel_of(&self, die: DieIndex) -> usize {
        (die.0 % self.by_channels) as usize
    }

    /// A number for the flash page that holds `unit`; equal exactly for units of one page.
    #[inline(always)]
    pub fn page_of(&self, unit: PhysicalUnit) -> u32 {
        unit.0 >> self.units_per_page_shift
    }

    /// A number for the pages that a multi-plane read senses together with `unit`'s page.
    #[inline(always)]
    pub fn sense_of(&self, unit: PhysicalUnit) -> u32 {
        unit.0 >> self.units_per_sense_shift
    }

    /// Binary logarithm of the units that one multi-plane read senses.
    #[inline(always)]
    pub fn units_per_sense_shift(&self) -> u32 {
        self.units_per_sense_shift
    }

    /// Returns the number of flash pages that one read senses.
    pub fn pages_per_sense(&self) -> u32 {
        let p = &self.parameters;
        if p.multi_plane_read { p.planes_per_die } else { 1 }
    }

    /// The program unit that holds `unit`, numbered through the whole drive.
    #[inline(always)]
    pub fn program_of(&self, unit: PhysicalUnit) -> u32 {
        unit.0 / self.by_program
    }

    /// Returns the index of the page on its word line that holds `unit`: less than
    /// [`pages_per_shot`](GeometryParameters::pages_per_shot).
    #[inline(always)]
    pub fn page_on_word_line(&self, unit: PhysicalUnit) -> u32 {
        unit.0 % self.by_program * self.parameters.pages_per_shot / self.by_program
    }

    /// Returns true if `unit` is the first of a program unit.
    #[inline(always)]
    pub fn starts_program(&self, unit: PhysicalUnit) -> bool {
        unit.0 % self.by_program == 0
    }

    /// Returns true if the host can address `unit`.
    pub fn contains(&self, unit: LogicalUnit) -> bool {
        unit.0 < self.parameters.logical_units
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ssdlab_units::KIB;

    fn small() -> GeometryParameters {
        GeometryParameters {
            channels: 2,
            dies: 4,
            planes_per_die: 2,
            multi_plane_read: true,
            pages_per_shot: 1,
            pages_per_block: 8,
            page_size: KIB * 16,
            unit_size: KIB * 4,
            dies_per_collection_unit: 4,
            collection_units: 16,
            metadata_collection_units: 0,
            reserve_collection_units: 0,
            logical_units: 2_500,
        }
    }

    #[test]
    fn a_superblock_visits_its_dies_in_turn() {
        let geometry = Geometry::new(small()).unwrap();
        assert_eq!(geometry.units_per_program(), 8);
        assert_eq!(geometry.units_per_block(), 256);
        let dies: Vec<u32> = (0..5).map(|p| geometry.die_of(PhysicalUnit(256 + p * 8)).0).collect();
        assert_eq!(dies, [0, 1, 2, 3, 0]);
        assert_eq!(geometry.page_of(PhysicalUnit(3)), geometry.page_of(PhysicalUnit(0)));
        assert_ne!(geometry.page_of(PhysicalUnit(4)), geometry.page_of(PhysicalUnit(0)));
        assert_eq!(geometry.sense_of(PhysicalUnit(4)), geometry.sense_of(PhysicalUnit(0)));
    }

    #[test]
    fn a_single_block_stays_on_its_die() {
        let parameters =
            GeometryParameters { dies_per_collection_unit: 1, collection_units: 64, ..small() };
        let geometry = Geometry::new(parameters).unwrap();
        assert_eq!(geometry.groups(), 4);
        for block in 0..64 {
            let block = BlockIndex(block);
            let first = geometry.first_unit(block);
            let last = PhysicalUnit(first.0 + geometry.units_per_block() - 1);
            assert_eq!(geometry.die_of(first), geometry.die_of(last));
            assert_eq!(geometry.die_of(first), geometry.die_of_program(block, 0));
            assert_eq!(geometry.die_of(first).0, block.0 / 16);
        }
    }

    #[test]
    fn shapes_that_cannot_be_are_refused_by_name() {
        let refused = |change: fn(&mut GeometryParameters)| {
            let mut parameters = small();
            change(&mut parameters);
            Geometry::new(parameters).unwrap_err().to_string()
        };
        assert!(
            refused(|p| p.dies = 5)
                .contains("flash.dies (5) is not a multiple of flash.channels (2)")
        );
        assert!(refused(|p| p.channels = 0).contains("flash.channels is 0; it must be 1 to 64"));
        assert!(refused(|p| p.page_size = ByteLength::new(12_288)).contains("power of two"));
        assert!(refused(|p| p.planes_per_die = 3).contains("power of two"));
        assert!(refused(|p| p.collection_units = 3).contains("is 3; it must be 4 or more"));
        assert!(refused(|p| p.collection_units = u32::MAX / 4 * 4).contains("2^32 at most"));
    }
}
