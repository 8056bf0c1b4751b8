//! The collector: its victim, what it owes the host's pace, and the blocks that wait to be erased.

use std::collections::VecDeque;

use ssdlab_nand::{CopyNumber, EraseId};

use super::copies::Copies;
use crate::collection::CollectionParameters;
use crate::geometry::Geometry;
use crate::policy::{CopiesTo, CopyRatio, Pacing, VictimPolicy};
use crate::snapshot::{Decoder, Encoder, SnapshotError, damaged};
use crate::ssd::Configuration;
use crate::stream::WriteStream;
use crate::units::{BlockIndex, Nanoseconds};

/// Binary places of the fraction in which copying owed is counted.
pub(super) const CREDIT_SHIFT: u32 = CopyRatio::SHIFT;

/// How collection keeps up with the host; blocks are counted in all groups.
#[derive(Clone, Copy, Debug)]
pub(super) enum Pace {
    /// By what the victim costs.
    Victim,
    /// At once until so many blocks are free.
    Burst { until: u32 },
    /// So many units, times 2^[`CREDIT_SHIFT`], for each of the host's, until so many blocks are free.
    Ratio { copies: i64, until: u32 },
}

impl Pace {
    /// Free blocks at which collection pauses, where that is not the low water.
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
    /// Its next program unit to go through.
    pub(super) program: u32,
}

/// A block from which all that was valid has been moved, until its erase is issued.
#[derive(Clone, Copy, Debug)]
pub(super) struct Emptied {
    pub(super) block: BlockIndex,
    /// It waits for the programs of copies before this one, and the last of them.
    pub(super) copies: u64,
    pub(super) last: Option<CopyNumber>,
    /// It waits for the host's program units before this one, where a power cut loses what is in the buffer.
    pub(super) host: u64,
    /// It waits for the host's program units before this one that are its own.
    pub(super) own: u64,
    /// It waits for the pages of records of trims before this one.
    pub(super) trims: u64,
    /// It waits for the runs of extents before this one.
    pub(super) runs: u64,
    /// Its erase, where that was announced because a block was needed: then it is free already.
    pub(super) erase: Option<EraseId>,
}

#[derive(Clone, Debug)]
pub(super) struct Collector {
    pub(super) stream: WriteStream,
    pub(super) copies: Copies,
    pub(super) victim: Option<Victim>,
    emptied: VecDeque<Emptied>,
    /// How many of the first of `emptied` are free already.
    announced: usize,
    /// Copies owed, times 2^[`CREDIT_SHIFT`]; negative when ahead.
    pub(super) credit: i64,
    latest_rate: i64,
    pub(super) low_water: u32,
    pub(super) pace: Pace,
    pub(super) high_water: u32,
    /// What a read for copies keeps its die beyond sensing.
    pub(super) read_overhead: Nanoseconds,
    /// True if a read for copies senses all that is valid on a word line in one go.
    pub(super) reads_word_lines: bool,
    /// Blocks kept back for collection itself.
    pub(super) reserve: u32,
    /// True if all victims are the emptiest that there are.
    pub(super) is_greedy: bool,
    /// True if a victim yields something wherever some block does.
    pub(super) seeks_gain: bool,
    /// True if copies go to the host's open block; then `stream` and `copies` stay empty.
    pub(super) copies_to_host: bool,
    /// True if the host waits for a block to be freed.
    pub(super) is_urgent: bool,
    /// True if copies go on in what the host was to fill when nothing else is left, as they may after a power cut.
    pub(super) takes_from_host: bool,
}

impl Collector {
    pub(super) fn new(configuration: &Configuration) -> Collector {
        let Configuration { geometry, collection, mechanisms, .. } = configuration;
        let CollectionParameters { low_water, idle_high_water, .. } = *collection;
        let groups = geometry.groups();
        Collector {
            stream: WriteStream::new(geometry),
            copies: Copies::default(),
            victim: None,
            emptied: VecDeque::new(),
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
            reads_word_lines: mechanisms.copies_word_lines,
            reserve: groups * CollectionParameters::blocks_for_copies(geometry, mechanisms),
            is_greedy: mechanisms.victims == VictimPolicy::Greedy && mechanisms.seeks_gain(),
            seeks_gain: mechanisms.seeks_gain(),
            copies_to_host: mechanisms.copies == CopiesTo::HostBlock,
            is_urgent: false,
            takes_from_host: false,
        }
    }

    pub(super) fn stream(&self) -> &WriteStream {
        &self.stream
    }

    /// Blocks that were emptied and are not free.
    #[inline(always)]
    pub(super) fn emptied(&self) -> u32 {
        (self.emptied.len() - self.announced) as u32
    }

    /// Returns true if the erase of a block was announced and not issued.
    #[inline(always)]
    pub(super) fn has_announced(&self) -> bool {
        self.announced > 0
    }

    pub(super) fn add_emptied(&mut self, emptied: Emptied) {
        self.emptied.push_back(emptied);
    }

    /// The block that was emptied first of those that are not free.
    pub(super) fn oldest_emptied(&self) -> Option<&Emptied> {
        self.emptied.get(self.announced)
    }

    /// The erase of the oldest emptied block is announced.
    pub(super) fn note_announced(&mut self, erase: EraseId) {
        let oldest = self.emptied.get_mut(self.announced).expect("some block was emptied");
        oldest.erase = Some(erase);
        self.announced += 1;
    }

    /// The block whose erase is to be issued next.
    #[inline(always)]
    pub(super) fn next_to_erase(&self) -> Option<&Emptied> {
        self.emptied.front()
    }

    /// The block whose erase was announced as `erase`, if that was not issued.
    pub(super) fn announced_as(&self, erase: EraseId) -> Option<&Emptied> {
        self.emptied.iter().take(self.announced).find(|it| it.erase == Some(erase))
    }

    /// Blocks whose erases were announced and not issued, the oldest first, with those.
    pub(super) fn announced_blocks(
        &self,
    ) -> impl Iterator<Item = (BlockIndex, EraseId)> + Clone + '_ {
        let announced = self.emptied.iter().take(self.announced);
        announced.filter_map(|it| it.erase.map(|erase| (it.block, erase)))
    }

    /// The erase of the next block is issued.
    pub(super) fn forget_next_to_erase(&mut self) {
        self.emptied.pop_front();
        self.announced = self.announced.saturating_sub(1);
    }

    /// Blocks whose copies are in the program unit being filled wait for the host's program units before
    /// number `host`, where they wait for any.
    pub(super) fn await_host(&mut self, host: u64) {
        let next = self.copies.next();
        for emptied in self.emptied.iter_mut().rev().take_while(|it| it.copies == next) {
            emptied.host = emptied.host.max(host);
        }
    }

    /// The same for pages of records of trims before number `pages`.
    pub(super) fn await_trims(&mut self, pages: u64) {
        let next = self.copies.next();
        for emptied in self.emptied.iter_mut().rev().take_while(|it| it.copies == next) {
            emptied.trims = emptied.trims.max(pages);
        }
    }

    /// The same for blocks that wait for the host's program unit `number`.
    pub(super) fn await_trims_with_host(&mut self, number: u64, pages: u64) {
        for emptied in self.emptied.iter_mut().filter(|it| it.host == number + 1) {
            emptied.trims = emptied.trims.max(pages);
        }
    }

    /// Returns true if a block waits for the host's program unit `number`.
    pub(super) fn awaits_host(&self, number: u64) -> bool {
        self.emptied.iter().any(|it| it.host == number + 1)
    }

    /// What is left of a victim's credit stands for units that the host has written: of a victim that costs
    /// more or less for each of them, it is worth more or fewer copies. Greedy victims are so much alike
    /// that it makes no difference.
    pub(super) fn carry_credit_to(&mut self, rate: i64) {
        let is_by_victim = matches!(self.pace, Pace::Victim);
        if !self.is_greedy && is_by_victim && self.latest_rate > 0 {
            let credit = i128::from(self.credit) * i128::from(rate);
            self.credit = (credit / i128::from(self.latest_rate)) as i64;
        }
        self.latest_rate = rate;
    }

    /// Returns true if all that was on the block that was emptied first lies in full program units.
    pub(super) fn is_oldest_emptied_copied(&self) -> bool {
        self.emptied
            .get(self.announced)
            .is_some_and(|it| !(self.stream.is_partial() && it.copies == self.copies.next()))
    }

    /// Units for which there is room without a block from the pool.
    pub(super) fn can_take(&self, units: u32) -> bool {
        self.stream.can_take(units)
    }

    /// Places ahead, see [`WriteStream::places_ahead`].
    #[inline(always)]
    pub(super) fn places_ahead(&self, geometry: &Geometry) -> std::ops::Range<u32> {
        self.stream.places_ahead(geometry)
    }

    /// Free blocks that it keeps, in idle time or under load, whichever is more.
    pub(super) fn kept_free(&self) -> u32 {
        self.low_water.max(self.high_water).max(self.pace.until())
    }

    /// Returns true if a block is being collected, waits to be erased, or copies are under way.
    fn is_at_work(&self) -> bool {
        self.victim.is_some() || !self.emptied.is_empty() || self.copies.is_any()
    }

    /// Numbers its copies anew, once none is under way.
    pub(super) fn forget_copies(&mut self) {
        assert!(!self.is_at_work(), "nothing is under way");
        self.copies = Copies::default();
    }

    /// Forgets what it owes and where it writes to, once nothing is under way.
    pub(super) fn begin_anew(&mut self, geometry: &Geometry) {
        assert!(!self.is_at_work(), "nothing is under way");
        self.stream = WriteStream::new(geometry);
        (self.credit, self.latest_rate) = (0, 0);
    }

    /// Writes the state of a drive that was shut down.
    pub(super) fn save(&self, to: &mut Encoder<'_>) -> Result<(), SnapshotError> {
        assert!(!self.is_at_work(), "the drive was shut down");
        let Collector {
            // From the configuration.
            low_water: _,
            pace: _,
            high_water: _,
            read_overhead: _,
            reads_word_lines: _,
            reserve: _,
            is_greedy: _,
            seeks_gain: _,
            copies_to_host: _,
            // Nothing, of a drive that was shut down.
            copies: _,
            victim: _,
            emptied: _,
            announced: _,
            is_urgent: _,
            takes_from_host: _,
            stream,
            credit,
            latest_rate,
        } = self;
        stream.save(to)?;
        to.long(*credit as u64)?;
        Ok(to.long(*latest_rate as u64)?)
    }

    pub(super) fn restore(
        &mut self,
        from: &mut Decoder<'_>,
        geometry: &Geometry,
    ) -> Result<(), SnapshotError> {
        self.stream.restore(from, geometry)?;
        (self.credit, self.latest_rate) = (from.long()? as i64, from.long()? as i64);
        // More copies than a drive has units are never owed.
        let most = i64::from(u32::MAX) << CREDIT_SHIFT;
        let fine = |value: i64| (-most..=most).contains(&value);
        if fine(self.credit) && fine(self.latest_rate) {
            return Ok(());
        }
        damaged("collection owes more than there is")
    }
}
