//! Wear levelling: order of free blocks (dynamic), and moving data that is never rewritten (static).
//!
//! Dynamic levelling takes the free block that was erased least often; that levels wear among blocks that are
//! rewritten at all. A block of data that nobody rewrites is never erased, so its wear stays low while others wear
//! out in its place. Static levelling therefore moves the data of the least worn full block now and then, through
//! ordinary garbage collection and at its cost, so that the little worn block can be written to.
//!
//! The rule is the plain one of firmware: after so many erases (Ban, US patent 6,732,221, 2004),
//! and only while the most worn block is ahead of that one by more than a threshold (Chang and Kuo,
//! "Endurance enhancement of flash-memory storage systems", DAC 2007).
//!
//! Data moved by static levelling is cold, and other copies of garbage collection are warmer. If both share a block,
//! the cold units are copied again each time such a block is collected; so the dual-pool algorithm (Chang, "On
//! efficient wear leveling for large-scale flash-memory storage systems", SAC 2007) keeps the blocks of cold data in
//! a pool of their own. With `wear.static_stream` the moved data goes to a write stream of its own
//! ([`crate::streams`]), and copies of its blocks stay in that stream. The choice of blocks for that stream does not
//! change.

use crate::block_table::BlockTable;
use crate::snapshot::{Decoder, Encoder, SnapshotError};
use crate::units::BlockIndex;

/// Wear levelling of a drive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LevellingParameters {
    /// Free blocks are used in the order in which they were erased.
    #[default]
    Off,
    /// The least worn free block is used next.
    Dynamic,
    /// The least worn free block is used next, and data that is not rewritten is moved.
    Static {
        /// Number of erases of collection units after which the drive looks for a block to move; at least 1.
        every: u32,
        /// Difference in erases between the most worn block and the least worn closed block above which the data of
        /// the latter is moved.
        spread: u32,
        /// True if moved data goes to blocks of its own.
        apart: bool,
    },
}

impl LevellingParameters {
    /// Returns the number of write streams of wear levelling: 1 or 0.
    pub fn streams(self) -> u32 {
        u32::from(matches!(self, LevellingParameters::Static { apart: true, .. }))
    }
}

/// State of static wear levelling.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Levelling {
    every: u32,
    spread: u32,
    erases: u32,
    /// Block that is to be the next victim and is not yet.
    chosen: Option<BlockIndex>,
}

impl Levelling {
    /// Returns the state of a new drive; `None` if the drive has no static wear levelling.
    pub(crate) fn new(parameters: LevellingParameters) -> Option<Levelling> {
        match parameters {
            LevellingParameters::Off | LevellingParameters::Dynamic => None,
            LevellingParameters::Static { every, spread, apart: _ } => {
                Some(Levelling { every, spread, erases: 0, chosen: None })
            }
        }
    }

    pub(crate) fn note_erase(&mut self) {
        self.erases = self.erases.saturating_add(1);
    }

    /// Removes a block from the victim candidates if it is time to move one and wear differs enough. Returns the
    /// block and its valid units; the caller must make it the victim.
    pub(crate) fn take_due(&mut self, block_table: &mut BlockTable) -> Option<(BlockIndex, u32)> {
        if self.erases < self.every {
            return None;
        }
        self.erases = 0;
        let (block, fewest, most) = block_table.least_worn_closed()?;
        if most - fewest <= self.spread {
            return None;
        }
        self.chosen = Some(block);
        block_table.remove_victim(block);
        Some((block, block_table.valid(block)))
    }

    /// Returns true if enough erases have passed to look for a block to move.
    pub(crate) fn is_due(&self) -> bool {
        self.erases >= self.every
    }

    /// Returns true if `block`, which is about to become the victim, is moved for wear levelling.
    pub(crate) fn has_chosen(&self, block: BlockIndex) -> bool {
        self.chosen == Some(block)
    }

    /// Forgets the chosen block, which has become the victim.
    pub(crate) fn forget_chosen(&mut self) {
        self.chosen = None;
    }

    pub(crate) fn save(&self, to: &mut Encoder<'_>) -> Result<(), SnapshotError> {
        let Levelling { every: _, spread: _, erases, chosen } = self;
        assert!(chosen.is_none(), "a block that was chosen becomes the victim at once");
        Ok(to.word(*erases)?)
    }

    pub(crate) fn restore(&mut self, from: &mut Decoder<'_>) -> Result<(), SnapshotError> {
        self.erases = from.word()?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};
    use rand_pcg::Pcg64Mcg;

    use crate::counters::{Counters, Wear};
    use crate::ftl::Ssd;
    use crate::ssd::tests::small_configuration;
    use crate::units::{Instant, LogicalUnit, Nanoseconds};

    /// Fills a drive, then overwrites a tenth of it at random.
    fn wear(changes: &[(&str, &str)]) -> (Wear, Counters) {
        wear_in_order_of(1, changes)
    }

    fn wear_in_order_of(seed: u64, changes: &[(&str, &str)]) -> (Wear, Counters) {
        let mut ssd = Ssd::new(&small_configuration(changes)).expect("a sound drive");
        let units = ssd.geometry().logical_units();
        let mut generator = Pcg64Mcg::seed_from_u64(seed);
        let mut at = ssd.write(Instant::START, LogicalUnit(0), units);
        for written in 0..30 * units {
            at = ssd.write(at, LogicalUnit(generator.random_range(0..units / 10)), 1);
            if written % 19_999 == 0 {
                ssd.check_invariants();
            }
        }
        (ssd.wear(), ssd.counters())
    }

    #[test]
    fn static_levelling_narrows_the_spread_and_costs_what_it_moves() {
        for unit in ["superblock", "block"] {
            let unit = ("collection.unit", unit);
            let (plain, without) = wear(&[unit]);
            let levelled = [
                unit,
                ("wear.levelling", "static"),
                ("wear.static_every", "8"),
                ("wear.static_spread", "4"),
            ];
            let (even, with) = wear(&levelled);
            let spread = |wear: Wear| wear.erases_max - wear.erases_min;
            assert!(plain.erases_min == 0, "cold data is never moved");
            assert!(2 * spread(even) < spread(plain), "{unit:?}: {even:?}, {plain:?}");
            assert!(with.levelled_blocks > 10 && without.levelled_blocks == 0);
            let more = with.program_units_collection - without.program_units_collection;
            let share = more as f64 / with.levelled_units as f64;
            // Cold data that lies among hot data is copied again.
            assert!(share > 0.8, "{unit:?}: {share} of what was moved");
        }
    }

    #[test]
    fn cold_data_that_is_moved_to_a_stream_of_its_own_is_copied_less_often() {
        const SEEDS: u64 = 4;
        // Moved data fills most of a single block by itself, so that little is gained by separating it.
        for (unit, most) in [("superblock", 0.9), ("block", 1.01)] {
            let levelled = [
                ("collection.unit", unit),
                ("collection.low_water", "3"),
                ("wear.levelling", "static"),
                ("wear.static_every", "8"),
                ("wear.static_spread", "4"),
            ];
            let (mut spread_together, mut spread_apart) = (0, 0);
            for seed in 0..SEEDS {
                let (together, mixed) = wear_in_order_of(seed, &levelled);
                let apart = [&levelled[..], &[("wear.static_stream", "on")]].concat();
                let (apart, parted) = wear_in_order_of(seed, &apart);
                let amplification =
                    |it: Counters| it.write_amplification().expect("it was written");
                let (mixed, of_parted) = (amplification(mixed), amplification(parted));
                assert!(parted.levelled_blocks > 10);
                assert!(of_parted < most * mixed, "{unit}, seed {seed}: {of_parted} and {mixed}");
                spread_together += together.erases_max - together.erases_min;
                spread_apart += apart.erases_max - apart.erases_min;
            }
            // The most worn of some hundred blocks is random: this compares the sum over four drives.
            let spreads = format!("{unit}: {spread_apart} and {spread_together}");
            assert!(2 * spread_apart <= 3 * spread_together, "{spreads}");
        }
    }

    #[test]
    fn nothing_is_moved_while_wear_is_even_enough() {
        let levelled = [
            ("wear.levelling", "static"),
            ("wear.static_every", "1"),
            ("wear.static_spread", "100000"),
        ];
        let (_, counters) = wear(&levelled);
        assert_eq!(counters.levelled_blocks, 0);
    }

    /// Levelling pads the last program unit of the data that it moves. If idle-time collection collected padding, and
    /// levelling ran again for the erases that takes, idle-time work would not end.
    #[test]
    fn a_drive_at_rest_moves_nothing_to_level_wear() {
        let mut ssd = Ssd::new(&small_configuration(&[
            ("wear.levelling", "static"),
            ("wear.static_every", "1"),
            ("wear.static_spread", "0"),
            ("wear.static_stream", "on"),
            ("collection.low_water", "3"),
            ("collection.idle_high_water", "12"),
        ]))
        .expect("a sound drive");
        let units = ssd.geometry().logical_units();
        let mut generator = Pcg64Mcg::seed_from_u64(1);
        let mut at = ssd.write(Instant::START, LogicalUnit(0), units);
        let mut collected = 0;
        for round in 0..40 {
            for _ in 0..units / 10 {
                at = ssd.write(at, LogicalUnit(generator.random_range(0..units / 10)), 1);
            }
            // Work that was begun before is completed in any case.
            ssd.rest(at, Nanoseconds::from_millis(1));
            let before = ssd.counters();
            at += Nanoseconds::from_secs(20 + round);
            ssd.rest(at, Nanoseconds::from_secs(10));
            at += Nanoseconds::from_secs(10);
            let after = ssd.counters();
            assert_eq!(after.levelled_blocks, before.levelled_blocks);
            collected += after.erases - before.erases;
        }
        assert!(ssd.counters().levelled_blocks > 0 && collected > 0);
    }

    #[test]
    fn the_free_block_that_is_least_worn_is_written_next() {
        use crate::free_block_pool::FreeBlockPool;
        use crate::units::BlockIndex;
        let geometry = small_configuration(&[]).geometry;
        let mut plain = FreeBlockPool::new(&geometry);
        let mut levelled = FreeBlockPool::new(&geometry).least_worn_first();
        let taken = |pool: &mut FreeBlockPool| {
            let all: Vec<BlockIndex> = std::iter::from_fn(|| pool.take(0)).collect();
            for (place, erases) in [(3, 7), (1, 5), (2, 7), (0, 6)] {
                pool.put(0, all[place], erases);
            }
            std::iter::from_fn(|| pool.take(0)).map(|block| block.0).collect::<Vec<_>>()
        };
        assert_eq!(taken(&mut plain), [3, 1, 2, 0]);
        assert_eq!(taken(&mut levelled), [1, 0, 3, 2]);
    }

    #[test]
    fn static_levelling_says_how_often() {
        use crate::profile::{DEFAULT, Profile};
        let mut profile = Profile::named(DEFAULT).expect("the default profile");
        profile.set("wear.levelling", "static").expect("a word");
        let error = profile.check().expect_err("not said").to_string();
        assert!(error.contains("needs wear.static_every"), "{error}");
    }
}
