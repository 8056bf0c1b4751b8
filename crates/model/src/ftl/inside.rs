//! View of a drive's inside, to draw or to record: the state of every block.
//!
//! A look changes nothing and costs some nanoseconds per block. A view of a block is a few words that can be
//! kept: the size of a recording depends on the number of blocks, however much was written to the drive.

use super::Ssd;
use crate::block_table::BlockState;
use crate::mapping::Mapping;
use crate::media::Media;
use crate::units::{BlockIndex, DieIndex, LogicalUnit};

/// The use of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum BlockUse {
    /// The block holds nothing: it is erased, or will be when its dies find time.
    Free = 0,
    /// The host's writes go to the block.
    OpenForHost = 1,
    /// Garbage collection copies to the block.
    OpenForCollection = 2,
    /// The block is full.
    Full = 3,
    /// The valid units of the block are being copied away, or the block waits to be erased after that.
    Victim = 4,
    /// The block went bad and is not used again.
    Retired = 5,
}

/// A block (collection unit) at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockView {
    /// Number of valid units; of an open block, units not yet written included.
    pub valid: u32,
    /// Number of erases of the block.
    pub erases: u32,
    /// Number of blocks that were opened after this one; `None` if it was not opened since the drive was made
    /// or restored, as all blocks of a preconditioned drive.
    pub age: Option<u32>,
    /// Use of the block.
    pub usage: BlockUse,
    /// True if garbage collection filled the block, not the host.
    pub by_collection: bool,
    /// True if the block is in SLC mode.
    pub is_slc: bool,
}

/// Bytes of a cell of [`Ssd::fill_cells`].
pub const CELL_BYTES: usize = 4;

/// Age byte of a cell whose age is not known.
const NO_AGE: u8 = 255;

impl BlockView {
    /// Returns the cell of the block: its use (three bits), 8 if collection filled it and 16 in SLC mode; its
    /// valid share in 255ths of `full` units; its age in 128ths of the number of blocks, or 255; its erases
    /// beyond the `least`.
    fn cell(self, full: u32, blocks: u32, least: u32) -> [u8; CELL_BYTES] {
        let in_128ths = |age: u32| (u64::from(age) * 128 / u64::from(blocks)).min(254) as u8;
        [
            self.usage as u8 | u8::from(self.by_collection) << 3 | u8::from(self.is_slc) << 4,
            (u64::from(self.valid) * 255 / u64::from(full)) as u8,
            self.age.map_or(NO_AGE, in_128ths),
            (self.erases - least).min(255) as u8,
        ]
    }
}

/// Returns one cell for neighbouring blocks: the use of that block which comes first in `ORDER`, the mean valid
/// share, the age of the youngest block, and the erases of the most worn one.
fn merge_cells(cells: &[[u8; CELL_BYTES]]) -> [u8; CELL_BYTES] {
    // Open blocks and victims are shown, however few they are, and full blocks rather than free ones.
    const ORDER: [BlockUse; 6] = [
        BlockUse::Victim,
        BlockUse::OpenForHost,
        BlockUse::OpenForCollection,
        BlockUse::Full,
        BlockUse::Free,
        BlockUse::Retired,
    ];
    let rank = |flags: u8| ORDER.iter().position(|&usage| usage as u8 == flags & 7);
    let flags = cells.iter().map(|it| it[0]).min_by_key(|&it| rank(it)).unwrap_or_default();
    let valid = cells.iter().map(|it| usize::from(it[1])).sum::<usize>() / cells.len().max(1);
    let age = cells.iter().map(|it| it[2]).min().unwrap_or(NO_AGE);
    let erases = cells.iter().map(|it| it[3]).max().unwrap_or_default();
    [flags, valid as u8, age, erases]
}

impl<M: Mapping, D: Media> Ssd<M, D> {
    /// Replaces `cells` by a picture of the inside, four bytes per cell: the use of a block ([`BlockUse`],
    /// three bits), 8 if collection filled it and 16 in SLC mode; its valid share in 255ths; its age in 128ths
    /// of the number of blocks, 255 if the age is not known; its erases beyond those of the least worn block.
    /// Neighbouring blocks share a cell if there would be more than `most` cells. Returns the number of blocks
    /// that a cell stands for.
    pub fn fill_cells(&self, cells: &mut Vec<u8>, most: usize) -> usize {
        let geometry = self.geometry();
        let (full, blocks) = (geometry.units_per_block(), geometry.blocks());
        let least = self.wear().erases_min;
        let each = self.inside().map(|it| it.cell(full, blocks, least));
        let together = (blocks as usize).div_ceil(most.max(1));
        cells.clear();
        if together == 1 {
            cells.extend(each.flatten());
        } else {
            let each: Vec<[u8; CELL_BYTES]> = each.collect();
            cells.extend(each.chunks(together).flat_map(merge_cells));
        }
        together
    }

    /// Returns, for each die, the number of flash pages that hold the `units` units from `first`. Unmapped
    /// units do not count; units in the write buffer count at the place where they will be programmed.
    pub fn pages_by_die(&self, first: LogicalUnit, units: u32) -> Vec<u32> {
        let geometry = self.geometry();
        let places = (first.0..first.0 + units).filter_map(|unit| self.place_of(LogicalUnit(unit)));
        let mut pages: Vec<(u32, DieIndex)> =
            places.map(|place| (geometry.page_of(place), geometry.die_of(place))).collect();
        pages.sort_unstable_by_key(|page| page.0);
        pages.dedup();
        let mut by_die = vec![0; geometry.dies() as usize];
        for (_, die) in pages {
            by_die[die.0 as usize] += 1;
        }
        by_die
    }

    /// Returns the view of each block, in the order of their numbers: group of dies by group of dies
    /// ([`crate::geometry::Geometry::group_of`]).
    pub fn inside(&self) -> impl ExactSizeIterator<Item = BlockView> + '_ {
        let block_table = self.ftl.blocks.table();
        let latest = block_table.opened_blocks();
        (0..self.ftl.geometry.blocks()).map(BlockIndex).map(move |block| {
            let opened = block_table.opened(block);
            let usage = match block_table.state(block) {
                BlockState::Free => BlockUse::Free,
                BlockState::OpenForHost => BlockUse::OpenForHost,
                BlockState::OpenForCollection => BlockUse::OpenForCollection,
                BlockState::Closing | BlockState::Closed => BlockUse::Full,
                BlockState::Victim => BlockUse::Victim,
                BlockState::Retired => BlockUse::Retired,
            };
            let is_used = !matches!(usage, BlockUse::Free | BlockUse::Retired);
            BlockView {
                valid: if is_used { block_table.valid(block) } else { 0 },
                erases: block_table.erases(block),
                age: (is_used && opened.number > 0).then(|| latest - opened.number),
                usage,
                by_collection: is_used && opened.by_collection,
                is_slc: is_used && self.ftl.is_slc(block),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ssd::tests::small_configuration;
    use crate::units::Instant;

    fn drive(changes: &[(&str, &str)]) -> Ssd {
        Ssd::new(&small_configuration(changes)).expect("a sound drive")
    }

    #[test]
    fn a_file_in_order_lies_on_all_dies_alike_and_a_scattered_one_on_a_page_a_unit() {
        let mut ssd = drive(&[]);
        let (dies, per_page) = (ssd.geometry().dies(), ssd.geometry().units_per_page());
        let units = dies * ssd.geometry().units_per_program();
        let file = LogicalUnit(0);
        assert!(ssd.pages_by_die(file, units).iter().all(|&pages| pages == 0), "nothing is there");
        let mut at = ssd.write(Instant::START, file, units);
        at = ssd.flush(at);
        let in_order = ssd.pages_by_die(file, units);
        assert_eq!(in_order, vec![units / per_page / dies; dies as usize]);
        // Each unit is followed by one of elsewhere, so that no two of the file share a page of two.
        for unit in 0..units {
            at = ssd.write(at, LogicalUnit(unit), 1);
            for elsewhere in 0..per_page - 1 {
                at = ssd.write(at, LogicalUnit(units + elsewhere), 1);
            }
        }
        let scattered: u32 = ssd.pages_by_die(file, units).iter().sum();
        assert!(per_page == 1 || scattered == units, "{scattered} pages of {units} units");
    }

    #[test]
    fn a_look_finds_every_valid_unit_once_and_changes_nothing() {
        let mut ssd = drive(&[]);
        let units = ssd.geometry().logical_units();
        let mut at = ssd.write(Instant::START, LogicalUnit(0), units);
        // What is never written anew is moved by collection, and stays there.
        for unit in (0..2 * units).map(|it| it.wrapping_mul(7919) % units).filter(|it| it % 5 > 0) {
            at = ssd.write(at, LogicalUnit(unit), 1);
        }
        let at = ssd.shut_down(at);
        let mut other = ssd.clone();
        let views: Vec<BlockView> = ssd.inside().collect();
        assert_eq!(views.len(), ssd.geometry().blocks() as usize);
        let of = |usage| views.iter().filter(|it| it.usage == usage).count();
        assert_eq!(of(BlockUse::Free), ssd.free_blocks() as usize);
        let is_open = |it: &&BlockView| {
            matches!(it.usage, BlockUse::OpenForHost | BlockUse::OpenForCollection)
        };
        let full: u32 = views.iter().filter(|it| !is_open(it)).map(|it| it.valid).sum();
        let open: u32 = views.iter().filter(is_open).map(|it| it.valid).sum();
        assert!(full <= units && full + open >= units, "{full}, {open} of {units}");
        let erases: u64 = views.iter().map(|it| u64::from(it.erases)).sum();
        assert_eq!(erases, ssd.counters().erases);
        assert!(views.iter().any(|it| it.by_collection && it.usage == BlockUse::Full));
        let end = |ssd: &mut Ssd| (ssd.write(at, LogicalUnit(3), 64), ssd.counters());
        assert_eq!(end(&mut ssd), end(&mut other));
    }

    #[test]
    fn the_block_written_to_is_the_youngest() {
        let mut ssd = drive(&[]);
        let block = ssd.geometry().units_per_block();
        ssd.write(Instant::START, LogicalUnit(0), 3 * block + 1);
        let ages: Vec<u32> = ssd.inside().filter_map(|it| it.age).collect();
        assert_eq!(ages.len(), 4, "three are full, one is open");
        let youngest = ssd.inside().find(|it| it.age == Some(0)).expect("a block");
        assert_eq!((youngest.usage, youngest.by_collection), (BlockUse::OpenForHost, false));
    }

    #[test]
    fn neighbours_share_a_cell_that_shows_what_happens_in_one_of_them() {
        let mut ssd = drive(&[]);
        let block = ssd.geometry().units_per_block();
        ssd.write(Instant::START, LogicalUnit(0), 3 * block + 1);
        let (mut each, mut pairs) = (Vec::new(), Vec::new());
        assert_eq!(ssd.fill_cells(&mut each, usize::MAX), 1);
        let blocks = ssd.geometry().blocks() as usize;
        assert_eq!(each.len(), blocks * CELL_BYTES);
        assert_eq!(ssd.fill_cells(&mut pairs, blocks.div_ceil(2)), 2);
        assert_eq!(pairs.len(), blocks.div_ceil(2) * CELL_BYTES);
        let with = |cells: &[u8], usage: BlockUse| {
            cells.chunks(CELL_BYTES).filter(|it| it[0] & 7 == usage as u8).count()
        };
        assert_eq!((with(&each, BlockUse::OpenForHost), with(&each, BlockUse::Full)), (1, 3));
        assert_eq!(with(&pairs, BlockUse::OpenForHost), 1, "it is seen though one of two");
        let valid = |cells: &[u8]| cells.chunks(CELL_BYTES).map(|it| u32::from(it[1])).sum::<u32>();
        assert!(valid(&each).abs_diff(2 * valid(&pairs)) <= blocks as u32);
    }

    #[test]
    fn blocks_in_slc_mode_are_told_apart() {
        let slc = [
            ("slc.size", "9M"),
            ("slc.bits", "3"),
            ("slc.program", "200us"),
            ("slc.page_read", "25us"),
            ("capacity.physical", "192M"),
        ];
        let mut ssd = drive(&slc);
        ssd.write(Instant::START, LogicalUnit(0), 64);
        assert!(ssd.slc_blocks() > 0);
        assert_eq!(ssd.inside().filter(|it| it.is_slc).count(), ssd.slc_blocks() as usize);
    }
}
