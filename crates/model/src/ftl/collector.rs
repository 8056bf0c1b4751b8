//! State of garbage collection: the victim, the copies owed (pacing), and the reclaimed blocks that wait to be
//! erased.

use std::collections::VecDeque;

use ssdlab_nand::{CopyNumber, EraseId};

use super::copies::Copies;
use crate::collection::CollectionParameters;
use crate::geometry::Geometry;
use crate::policy::{CopiesTo, CopyRatio, Pacing, VictimPolicy};
use crate::snapshot::{Decoder, Encoder, SnapshotError, damaged};
use crate::ssd::Configuration;
use crate::units::{BlockIndex, Nanoseconds};
use crate::write_frontier::WriteFrontier;

/// Number of fraction bits in counts of copies owed.
pub(super) const CREDIT_SHIFT: u32 = CopyRatio::SHIFT;

/// Pacing of garbage collection. Blocks are counted over all groups of dies.
#[derive(Clone, Copy, Debug)]
pub(super) enum Pace {
    /// In proportion to the copies that the victim costs.
    Victim,
    /// Without a pause until `until` blocks are free.
    Burst { until: u32 },
    /// `copies` units, times 2^[`CREDIT_SHIFT`], for each unit of the host, until `until` blocks are free.
    Ratio { copies: i64, until: u32 },
}

impl Pace {
    /// Returns the number of free blocks at which collection pauses; 0 if that is the low water.
    fn until(self) -> u32 {
        match self {
            Pace::Victim => 0,
            Pace::Burst { until } | Pace::Ratio { until, .. } => until,
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Victim {
    pub(super) block: BlockIndex,
    /// Units to copy for each unit that the host writes, times 2^[`CREDIT_SHIFT`].
    pub(super) copies_per_unit: i64,
    /// Index of the next program unit to collect in the block.
    pub(super) program: u32,
}

/// A reclaimed block: all its valid units have been moved, and its erase has not been issued.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reclaimed {
    pub(super) block: BlockIndex,
    /// The erase waits for the program units of copies before number `copies`; `last` is the last of them.
    pub(super) copies: u64,
    pub(super) last: Option<CopyNumber>,
    /// The erase waits for the host's program units before this number. 0 if a power cut does not lose the
    /// buffer and copies have a block of their own.
    pub(super) host: u64,
    /// The erase waits for the host's program units before this number that lie in the block itself.
    pub(super) own: u64,
    /// The erase waits for the pages of trim records before this number.
    pub(super) trims: u64,
    /// The erase waits for the runs of extents before this number.
    pub(super) runs: u64,
    /// The erase, if it was announced because a block was needed. The block is in the free block pool then.
    pub(super) erase: Option<EraseId>,
}

#[derive(Clone, Debug)]
pub(super) struct Collector {
    pub(super) frontier: WriteFrontier,
    pub(super) copies: Copies,
    pub(super) victim: Option<Victim>,
    reclaimed: VecDeque<Reclaimed>,
    /// Number of blocks at the front of `reclaimed` that are in the free block pool already.
    announced: usize,
    /// Copies owed, times 2^[`CREDIT_SHIFT`]; negative if collection is ahead.
    pub(super) credit: i64,
    latest_rate: i64,
    pub(super) low_water: u32,
    pub(super) pace: Pace,
    pub(super) high_water: u32,
    /// Time for which a read for copies occupies its die beyond sensing.
    pub(super) read_overhead: Nanoseconds,
    /// Controller time of each page that is copied while the host writes.
    copy_occupancy: Nanoseconds,
    /// True if one read for copies senses all valid data of a word line.
    pub(super) reads_word_lines: bool,
    /// Number of free blocks kept for collection itself.
    pub(super) reserve: u32,
    /// True if every victim is a block with the fewest valid units.
    pub(super) is_greedy: bool,
    /// True if a victim yields free space whenever some block does.
    pub(super) seeks_gain: bool,
    /// True if copies go to the host's open block; `frontier` and `copies` then stay empty.
    pub(super) copies_to_host: bool,
    /// True while the host waits for a block to be freed.
    pub(super) is_urgent: bool,
    /// With static allocation: the group of dies that the host needs a block of.
    pub(super) wanted_group: Option<u32>,
    /// With static allocation: number of victims taken in a row from the group that needs blocks most and fully
    /// valid.
    pub(super) fruitless: u32,
    /// True while copies may fill the host's open blocks if no other place is left, as after a power cut.
    pub(super) takes_from_host: bool,
}

impl Collector {
    pub(super) fn new(configuration: &Configuration) -> Collector {
        let Configuration { geometry, collection, mechanisms, .. } = configuration;
        let CollectionParameters { low_water, idle_high_water, .. } = *collection;
        let groups = geometry.groups();
        Collector {
            frontier: WriteFrontier::new(geometry).with_allocation(mechanisms.allocation),
            copies: Copies::default(),
            victim: None,
            reclaimed: VecDeque::new(),
            announced: 0,
            credit: 0,
            latest_rate: 0,
            low_water: low_water * groups,
            pace: match mechanisms.pacing {
                Pacing::Paced => Pace::Victim,
                Pacing::Bursty { high_water } => Pace::Burst { until: high_water * groups },
                Pacing::Ratio { copies, high_water } => {
                    Pace::Ratio { copies: copies.scaled(), until: high_water * groups }
                }
            },
            high_water: idle_high_water.max(low_water) * groups,
            read_overhead: mechanisms.copy_overhead,
            copy_occupancy: mechanisms.copy_occupancy,
            reads_word_lines: mechanisms.copies_word_lines,
            reserve: groups * CollectionParameters::blocks_for_copies(geometry, mechanisms),
            is_greedy: mechanisms.victims == VictimPolicy::Greedy && mechanisms.seeks_gain(),
            seeks_gain: mechanisms.seeks_gain(),
            copies_to_host: mechanisms.copies == CopiesTo::HostBlock,
            is_urgent: false,
            wanted_group: None,
            fruitless: 0,
            takes_from_host: false,
        }
    }

    pub(super) fn frontier(&self) -> &WriteFrontier {
        &self.frontier
    }

    /// Returns the number of reclaimed blocks that are not in the free block pool yet.
    #[inline(always)]
    pub(super) fn reclaimed(&self) -> u32 {
        (self.reclaimed.len() - self.announced) as u32
    }

    /// Returns true if the erase of a reclaimed block was announced and has not been issued.
    #[inline(always)]
    pub(super) fn has_announced(&self) -> bool {
        self.announced > 0
    }

    /// Returns the number of reclaimed blocks of a group of dies that are not in the free block pool yet.
    pub(super) fn reclaimed_of(&self, group: u32, geometry: &Geometry) -> u32 {
        let reclaimed = self.reclaimed.iter().skip(self.announced);
        reclaimed.filter(|it| geometry.group_of(it.block) == group).count() as u32
    }

    pub(super) fn add_reclaimed(&mut self, reclaimed: Reclaimed) {
        self.reclaimed.push_back(reclaimed);
    }

    /// Returns the oldest reclaimed block that is not in the free block pool yet.
    pub(super) fn oldest_reclaimed(&self) -> Option<&Reclaimed> {
        self.reclaimed.get(self.announced)
    }

    /// Notes that the erase of the oldest reclaimed block outside the free block pool is announced as `erase`.
    pub(super) fn note_announced(&mut self, erase: EraseId) {
        let oldest = self.reclaimed.get_mut(self.announced).expect("some block was reclaimed");
        oldest.erase = Some(erase);
        self.announced += 1;
    }

    /// Returns the reclaimed block whose erase is to be issued next.
    #[inline(always)]
    pub(super) fn next_to_erase(&self) -> Option<&Reclaimed> {
        self.reclaimed.front()
    }

    /// Returns the reclaimed block whose erase was announced as `erase` and has not been issued.
    pub(super) fn announced_as(&self, erase: EraseId) -> Option<&Reclaimed> {
        self.reclaimed.iter().take(self.announced).find(|it| it.erase == Some(erase))
    }

    /// Returns the blocks whose erases were announced and have not been issued, oldest first, with the erases.
    pub(super) fn announced_blocks(
        &self,
    ) -> impl Iterator<Item = (BlockIndex, EraseId)> + Clone + '_ {
        let announced = self.reclaimed.iter().take(self.announced);
        announced.filter_map(|it| it.erase.map(|erase| (it.block, erase)))
    }

    /// Removes the reclaimed block whose erase is issued, the oldest.
    pub(super) fn pop_next_to_erase(&mut self) {
        self.reclaimed.pop_front();
        self.announced = self.announced.saturating_sub(1);
    }

    /// Has the reclaimed blocks whose copies are in the program unit being filled wait for the host's program
    /// units before number `host`.
    pub(super) fn await_host(&mut self, host: u64) {
        let next = self.copies.next();
        for reclaimed in self.reclaimed.iter_mut().rev().take_while(|it| it.copies == next) {
            reclaimed.host = reclaimed.host.max(host);
        }
    }

    /// Has the reclaimed blocks whose copies are in the program unit being filled wait for the pages of trim
    /// records before number `pages`.
    pub(super) fn await_trims(&mut self, pages: u64) {
        let next = self.copies.next();
        for reclaimed in self.reclaimed.iter_mut().rev().take_while(|it| it.copies == next) {
            reclaimed.trims = reclaimed.trims.max(pages);
        }
    }

    /// Has the reclaimed blocks that wait for host program units up to `number` wait for the pages of trim
    /// records before number `pages`.
    pub(super) fn await_trims_with_host(&mut self, number: u64, pages: u64) {
        for reclaimed in self.reclaimed.iter_mut().filter(|it| it.host == number + 1) {
            reclaimed.trims = reclaimed.trims.max(pages);
        }
    }

    /// Returns true if a reclaimed block waits for host program units up to `number`.
    pub(super) fn awaits_host(&self, number: u64) -> bool {
        self.reclaimed.iter().any(|it| it.host == number + 1)
    }

    /// Converts the credit that is left from the last victim to the `rate` (copies per host unit) of the next
    /// one. The credit stands for units that the host has written; for a victim that costs more copies per unit
    /// it is worth more copies. Greedy victims are so alike that it makes no difference.
    pub(super) fn carry_credit_to(&mut self, rate: i64) {
        let is_by_victim = matches!(self.pace, Pace::Victim);
        if !self.is_greedy && is_by_victim && self.latest_rate > 0 {
            let credit = i128::from(self.credit) * i128::from(rate);
            self.credit = (credit / i128::from(self.latest_rate)) as i64;
        }
        self.latest_rate = rate;
    }

    /// Returns true if all copies from the oldest reclaimed block that is not yet free lie in full program
    /// units.
    pub(super) fn is_oldest_reclaimed_copied(&self) -> bool {
        self.reclaimed
            .get(self.announced)
            .is_some_and(|it| !(self.frontier.is_partial() && it.copies == self.copies.next()))
    }

    /// Returns true if `units` more copies have room without a block from the pool.
    pub(super) fn can_take(&self, units: u32) -> bool {
        self.frontier.can_take(units)
    }

    /// Returns the next places of the stream of copies, see [`WriteFrontier::places_ahead`].
    #[inline(always)]
    pub(super) fn places_ahead(&self, geometry: &Geometry) -> std::ops::Range<u32> {
        self.frontier.places_ahead(geometry)
    }

    /// Returns the number of free blocks that collection keeps, in idle time or under load, whichever is more.
    pub(super) fn free_blocks_target(&self) -> u32 {
        self.low_water.max(self.high_water).max(self.pace.until())
    }

    /// Returns true if there is a victim, a reclaimed block waits to be erased, or copies are in flight.
    fn has_work(&self) -> bool {
        self.victim.is_some() || !self.reclaimed.is_empty() || self.copies.is_any()
    }

    /// Restarts the numbering of copies. Nothing may be in flight.
    pub(super) fn reset_copies(&mut self) {
        assert!(!self.has_work(), "nothing is under way");
        self.copies = Copies::default();
    }

    /// Returns the controller time of `pages` pages that were copied while the host writes.
    #[inline(always)]
    pub(super) fn controller_time(&self, pages: u64) -> Nanoseconds {
        self.copy_occupancy * pages
    }

    /// Forgets the copies owed and the open blocks. Nothing may be in flight.
    pub(super) fn reset(&mut self, geometry: &Geometry) {
        assert!(!self.has_work(), "nothing is under way");
        self.frontier = self.frontier.empty_like(geometry);
        (self.credit, self.latest_rate) = (0, 0);
    }

    /// Writes the state of a drive that was shut down.
    pub(super) fn save(&self, to: &mut Encoder<'_>) -> Result<(), SnapshotError> {
        assert!(!self.has_work(), "the drive was shut down");
        let Collector {
            // From the configuration.
            low_water: _,
            pace: _,
            high_water: _,
            read_overhead: _,
            copy_occupancy: _,
            reads_word_lines: _,
            reserve: _,
            is_greedy: _,
            seeks_gain: _,
            copies_to_host: _,
            // Unused after a shutdown.
            copies: _,
            victim: _,
            reclaimed: _,
            announced: _,
            is_urgent: _,
            wanted_group: _,
            takes_from_host: _,
            frontier,
            credit,
            latest_rate,
            fruitless,
        } = self;
        frontier.save(to)?;
        to.long(*credit as u64)?;
        to.long(*latest_rate as u64)?;
        if frontier.is_static() {
            to.word(*fruitless)?;
        }
        Ok(())
    }

    pub(super) fn restore(
        &mut self,
        from: &mut Decoder<'_>,
        geometry: &Geometry,
    ) -> Result<(), SnapshotError> {
        self.frontier.restore(from, geometry)?;
        (self.credit, self.latest_rate) = (from.long()? as i64, from.long()? as i64);
        // More copies than a drive has units are never owed.
        let most = i64::from(u32::MAX) << CREDIT_SHIFT;
        let fine = |value: i64| (-most..=most).contains(&value);
        if self.frontier.is_static() {
            let most = geometry.blocks_per_group() + 1;
            self.fruitless = from.at_most(most, "the count of victims without gain")?;
        }
        if fine(self.credit) && fine(self.latest_rate) {
            return Ok(());
        }
        damaged("collection owes more than there is")
    }
}
