//! Garbage collection: which block, when, and who pays.
//!
//! The victim is what the drive's policy says (see `policy`). Collection starts when
//! fewer than `low_water` blocks are free and keeps pace with the host: while the host fills as
//! many units as the victim will yield, all that is valid on the victim is moved. So free blocks
//! stay as many as they are, whatever the victim holds. The flash work this makes is debt on the
//! dies (see `resources::background`). A victim is erased only after every copy of what it held
//! is programmed.

mod room;

use crate::copies::CopiesUnderWay;
use crate::flash::BlockState;
use crate::geometry::Geometry;
use crate::mapping::{Mapping, MappingScheme};
use crate::mechanisms::Mechanisms;
use crate::media::Media;
use crate::policy::{Pacing, VictimPolicy};
use crate::snapshot::{Decoder, Encoder, SnapshotError, damaged};
use crate::ssd::Ssd;
use crate::stream::WriteStream;
use crate::units::{BlockIndex, Instant};

/// Collection's pace where it keeps up, in quarters of the copies that a unit of the host's costs;
/// each block below the low water adds one, up to four times the pace. Assumed: makers say only
/// that collection gets faster as free blocks run out. With fewer the drive falls to its reserve,
/// where the host waits for whole blocks; that it keeps up in the end does not depend on them.
const PACE: u32 = 4;
const CATCH_UP_MOST: u32 = 12;

/// Binary places of the fraction in which copying owed is counted.
const CREDIT_SHIFT: u32 = 16;

/// How a drive collects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CollectionParameters {
    /// Collection starts when fewer blocks than this are free, per group of dies.
    pub low_water: u32,
    /// In idle time it goes on until so many blocks are free, per group of dies.
    pub idle_high_water: u32,
    /// Operations that may wait on a die before the host pays for them; below 32.
    pub debt_max: u32,
}

impl CollectionParameters {
    /// Blocks that are always open, free or being collected, so that they are not spare area:
    /// an open block per group for the host and for collection, and the blocks kept free.
    pub fn blocks_kept(&self, geometry: &Geometry, mechanisms: &Mechanisms) -> u32 {
        let free = match mechanisms.pacing {
            Pacing::Paced => self.low_water,
            Pacing::Bursty { high_water } => high_water.max(self.low_water),
        };
        // What is condensed has an open block of its own, and one that a power cut leaves half
        // written is closed as it is.
        let runs = 2 * u32::from(mechanisms.mapping == MappingScheme::Extent);
        // A power cut can leave a block of the cache half written and one half folded: both stay
        // until what they hold is folded, which takes a block more.
        let cache = mechanisms.slc.map_or(0, |slc| slc.blocks_kept() + 1);
        let open = mechanisms.streams.count + mechanisms.streams_of_copies();
        geometry.groups() * (free + open + runs) + cache
    }
}

#[derive(Clone, Copy, Debug)]
struct Victim {
    block: BlockIndex,
    /// Units to copy for each unit that the host writes, times 2^[`CREDIT_SHIFT`].
    copies_per_unit: i64,
    /// Its next program unit to go through.
    program: u32,
}

/// The state of collection.
#[derive(Clone, Debug)]
pub(crate) struct Collector {
    parameters: CollectionParameters,
    pub(crate) stream: WriteStream,
    victim: Option<Victim>,
    pub(crate) copies: CopiesUnderWay,
    /// When the debt on all dies is to be looked at next; never while no copies are under way.
    pub(crate) advance_from: Instant,
    /// Copies owed, times 2^[`CREDIT_SHIFT`]; negative when ahead.
    credit: i64,
    /// What the latest victim's [`Victim::copies_per_unit`] was.
    latest_rate: i64,
    low_water: u32,
    /// Where a burst ends; nothing where collection keeps pace.
    burst_until: Option<u32>,
    high_water: u32,
    /// Blocks kept back for collection itself.
    reserve: u32,
    policy: VictimPolicy,
    /// Whether the host waits for a block to be freed.
    pub(crate) is_urgent: bool,
}

impl Collector {
    /// The stream that it writes copies to. A scheme that does not collect uses it as its own.
    pub(crate) fn stream(&mut self) -> &mut WriteStream {
        &mut self.stream
    }

    pub(crate) fn new(
        geometry: &Geometry,
        parameters: CollectionParameters,
        mechanisms: &Mechanisms,
    ) -> Self {
        let burst_until = match mechanisms.pacing {
            Pacing::Paced => None,
            Pacing::Bursty { high_water } => Some(high_water * geometry.groups()),
        };
        Collector {
            parameters,
            stream: WriteStream::new(geometry),
            victim: None,
            copies: CopiesUnderWay::new(),
            advance_from: Instant::from_nanos(u64::MAX),
            credit: 0,
            latest_rate: 0,
            low_water: parameters.low_water * geometry.groups(),
            burst_until,
            high_water: parameters.idle_high_water.max(parameters.low_water) * geometry.groups(),
            reserve: geometry.groups() * mechanisms.streams_of_copies(),
            policy: mechanisms.victims,
            is_urgent: false,
        }
    }
}

impl Collector {
    /// Free blocks that it keeps, in idle time or under load, whichever is more.
    pub(crate) fn kept_free(&self) -> u32 {
        self.low_water.max(self.high_water).max(self.burst_until.unwrap_or(0))
    }

    /// Blocks it writes to, each with the program units of it that are filled.
    pub(crate) fn open_blocks(&self) -> impl Iterator<Item = (BlockIndex, u32)> + '_ {
        self.stream.open_blocks()
    }

    /// Forgets what it owes and where it writes to, once nothing is under way.
    pub(crate) fn begin_anew(&mut self, geometry: &Geometry) {
        assert!(!self.copies.is_any() && self.victim.is_none(), "collection has nothing under way");
        self.stream = WriteStream::new(geometry);
        (self.credit, self.latest_rate) = (0, 0);
    }

    /// Numbers its copies anew, once none is under way.
    pub(crate) fn forget_copies(&mut self) {
        assert!(!self.copies.is_any(), "copies are carried out before they are forgotten");
        self.copies = CopiesUnderWay::new();
    }

    pub(crate) fn save(&self, to: &mut Encoder<'_>) -> Result<(), SnapshotError> {
        let Collector {
            // From the configuration.
            parameters: _,
            low_water: _,
            burst_until: _,
            high_water: _,
            reserve: _,
            policy: _,
            is_urgent: _,
            // Nothing, of a drive that was shut down.
            copies,
            victim,
            advance_from: _,
            stream,
            credit,
            latest_rate,
        } = self;
        assert!(!copies.is_any() && victim.is_none(), "the drive was shut down");
        stream.save(to)?;
        to.long(*credit as u64)?;
        Ok(to.long(*latest_rate as u64)?)
    }

    /// Takes on what was saved of a collector that was new.
    pub(crate) fn restore(
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

    /// The stream that copies are written to.
    pub(crate) fn stream_mut(&mut self) -> &mut WriteStream {
        &mut self.stream
    }
}

impl<M: Mapping, D: Media> Ssd<M, D> {
    /// Finishes the victim, its copies and its erase, so that collection has nothing under way.
    pub(crate) fn finish_collection(&mut self, now: Instant) {
        while !self.finish_victim_if_empty() {
            self.collect_program_unit(now);
        }
        if self.is_copying() {
            self.pad_collection_program();
        }
        while self.collector.copies.emptied() > 0 {
            self.erase_oldest_emptied();
        }
        self.collector.advance_from = Instant::from_nanos(u64::MAX);
    }

    /// Blocks that are free or will be as soon as their copies are durable.
    fn blocks_coming(&self) -> u32 {
        let reserved = self.slc.as_ref().map_or(0, |slc| slc.reserved());
        (self.free.len() + self.collector.copies.emptied()).saturating_sub(reserved)
    }

    /// Collection's share for `units` units that the host has just written.
    #[inline(always)]
    pub(crate) fn collect_for(&mut self, units: u32, now: Instant) {
        if self.collector.victim.is_some() || self.blocks_coming() < self.collector.low_water {
            match self.collector.burst_until {
                None => self.keep_pace(units, now),
                Some(until) => self.collect_burst(until, now),
            }
            self.collector.advance_from = self.collector.advance_from.min(now);
        }
    }

    fn keep_pace(&mut self, units: u32, now: Instant) {
        let mut units = i64::from(units);
        while let Some(victim) = self.current_victim() {
            // A drive that has fallen behind its low water collects a little faster.
            let behind = self.collector.low_water.saturating_sub(1 + self.blocks_coming());
            let pace = i64::from(PACE + behind.min(CATCH_UP_MOST));
            self.collector.credit += units * victim.copies_per_unit * pace / i64::from(PACE);
            units = 0;
            let mut finished = self.finish_victim_if_empty();
            while !finished && self.collector.credit > 0 {
                let moved = self.collect_program_unit(now);
                self.collector.credit -= i64::from(moved) << CREDIT_SHIFT;
                finished = self.finish_victim_if_empty();
            }
            if !finished {
                return;
            }
            if self.blocks_coming() >= self.collector.low_water {
                self.collector.credit = self.collector.credit.min(0);
                return;
            }
        }
    }

    /// Collects without a pause until `until` blocks are free or will be, or as many were collected
    /// as there are: then what was to be gained is, and the rest is left to the next burst.
    fn collect_burst(&mut self, until: u32, now: Instant) {
        for _ in 0..self.geometry.blocks() {
            if self.blocks_coming() >= until || self.current_victim().is_none() {
                return;
            }
            while !self.finish_victim_if_empty() {
                self.collect_program_unit(now);
            }
        }
    }

    /// The victim being collected, or the next one.
    fn current_victim(&mut self) -> Option<Victim> {
        if self.collector.victim.is_none() {
            let (block, valid) = self.take_victim()?;
            self.begin_victim(block, valid);
        }
        self.collector.victim
    }

    fn take_victim(&mut self) -> Option<(BlockIndex, u32)> {
        if let Some(to_level) = self.take_block_to_level() {
            return Some(to_level);
        }
        match &self.streams {
            Some(streams) if self.flash.has_victims_apart() => {
                self.flash.take_victim_of(streams.collects_hot())
            }
            _ if self.collects_cache_first() => self.flash.take_victim_of(true),
            _ => self.take_victim_with_room(),
        }
    }

    pub(crate) fn begin_victim(&mut self, block: BlockIndex, valid: u32) {
        self.choose_copies_stream(block, valid);
        self.flash.set_state(block, BlockState::Victim);
        self.counters.collections += 1;
        let levels = self.note_levelled(block, valid);
        let gain = self.geometry.units_per_block() - valid;
        let seeks_gain = self.collector.policy.seeks_gain();
        assert!(gain > 0 || levels || !seeks_gain, "some block has room to gain");
        // What is moved to level wear is moved while the host fills a block.
        let gain = if levels { self.geometry.units_per_block() } else { gain };
        // A block that yields nothing is carried along with one unit of the host's.
        let copies_per_unit = (i64::from(valid) << CREDIT_SHIFT) / i64::from(gain.max(1));
        self.carry_credit_to(copies_per_unit);
        self.collector.victim = Some(Victim { block, copies_per_unit, program: 0 });
    }

    /// What is left of a victim's credit stands for units that the host has written: of a victim
    /// that costs more or less for each of them, it is worth more or fewer copies. Greedy victims
    /// are so much alike that it makes no difference.
    fn carry_credit_to(&mut self, rate: i64) {
        let collector = &mut self.collector;
        if collector.policy != VictimPolicy::Greedy && collector.latest_rate > 0 {
            let credit = i128::from(collector.credit) * i128::from(rate);
            collector.credit = (credit / i128::from(collector.latest_rate)) as i64;
        }
        collector.latest_rate = rate;
    }

    /// Whether there is a victim, or one is found that yields more than going on to it leaves empty;
    /// for when there is something else to do.
    fn has_worthwhile_victim(&mut self) -> bool {
        if self.collector.victim.is_some() {
            return true;
        }
        match self.take_victim() {
            Some((block, valid))
                if self.is_worthwhile(block, valid) || self.is_to_be_levelled(block) =>
            {
                self.begin_victim(block, valid);
                true
            }
            Some((block, _)) => {
                self.flash.put_back_victim(block);
                self.seek_victim()
            }
            None => false,
        }
    }

    /// Passes over victims that yield too little, where the policy itself would take them; whether
    /// there was one behind them. What need not be collected need not be what comes first.
    fn seek_victim(&mut self) -> bool {
        if self.collector.policy.seeks_gain() {
            return false;
        }
        let found = self.flash.take_victim_below(self.worthwhile_most() + 1);
        if let Some((block, valid)) = found {
            self.begin_victim(block, valid);
        }
        found.is_some()
    }

    /// Hands the victim on to be erased when nothing on it is valid any more.
    fn finish_victim_if_empty(&mut self) -> bool {
        let Some(victim) = self.collector.victim else {
            return true;
        };
        if self.flash.valid(victim.block) > 0 {
            return false;
        }
        // What the host wrote anew may be in the buffer only, and then a power cut leaves neither
        // that nor what was written before, once the block is erased.
        let host = self.buffer.next_number().wrapping_sub(u32::from(!self.host.is_partial()));
        let waits = !self.buffer_parameters.protected;
        let host = waits.then_some(host);
        let trims = self.trims_before_erase();
        self.collector.copies.add_emptied(victim.block, host, trims);
        self.collector.victim = None;
        self.end_map_batch();
        true
    }

    /// Moves what is valid in the victim's next program unit; returns how many units that was.
    fn collect_program_unit(&mut self, now: Instant) -> u32 {
        let victim = self.collector.victim.as_mut().expect("a victim was chosen");
        let (block, program) = (victim.block, victim.program);
        victim.program += 1;
        let moved = self.move_program_unit(block, program, now);
        self.owe_copies_read(now);
        self.write_moved_map_pages(now);
        self.flash.move_units(block, moved);
        if self.is_slc(block) {
            self.counters.program_units_folded += u64::from(moved);
        }
        moved
    }

    /// Makes sure that the host can take a block while collection keeps its reserve, collecting
    /// at once where pacing was not enough.
    pub(crate) fn ensure_free_block(&mut self) {
        let reserved = self.slc.as_ref().map_or(0, |slc| slc.reserved());
        self.ensure_free_beyond(self.collector.reserve + reserved);
    }

    /// The same for a block of the cache's own.
    pub(crate) fn ensure_free_block_of_cache(&mut self) {
        self.ensure_free_beyond(self.collector.reserve);
    }

    /// Makes sure that more than `kept` blocks are free.
    fn ensure_free_beyond(&mut self, kept: u32) {
        if self.free.len() > kept {
            return;
        }
        self.collector.is_urgent = true;
        self.free_blocks_beyond(kept);
        self.collector.is_urgent = false;
    }

    fn free_blocks_beyond(&mut self, kept: u32) {
        let now = self.resources.now();
        self.advance_debt(now);
        while self.free.len() <= kept {
            // Collecting on is what fills the program unit that an emptied block waits for:
            // padding it instead would cost the spare area that is short. Where that would only
            // move what is valid throughout, padding is what is left.
            let emptied = self.collector.copies.emptied() > 0;
            if self.is_oldest_emptied_copied() || emptied && !self.has_worthwhile_victim() {
                self.erase_oldest_emptied();
            } else if self.current_victim().is_some() {
                if !self.finish_victim_if_empty() {
                    self.collect_program_unit(now);
                }
            } else {
                return;
            }
        }
    }

    /// Whether all that was on the block that was emptied first lies in full program units.
    fn is_oldest_emptied_copied(&self) -> bool {
        let Collector { copies, stream, .. } = &self.collector;
        copies
            .oldest_emptied()
            .is_some_and(|it| !(stream.is_partial() && it.sequence == copies.latest()))
    }

    /// Free blocks that collection keeps for its own copies.
    pub(crate) fn collection_reserve(&self) -> u32 {
        self.collector.reserve
    }

    /// Where collection writes to.
    pub(crate) fn collection_stream(&mut self) -> &mut WriteStream {
        &mut self.collector.stream
    }

    /// Uses idle time from `from` to `until`: pays debt, then collects up to the high water.
    pub(crate) fn collect_while_idle(&mut self, until: Instant) {
        loop {
            self.advance_debt(until);
            let busy_until = self.resources.idle_from();
            if busy_until < until && self.collector.victim.is_none() && self.begin_fold() {
                self.complete_victim(busy_until);
                continue;
            }
            if busy_until >= until || self.blocks_coming() >= self.collector.high_water {
                return;
            }
            if !self.has_worthwhile_victim() {
                return;
            }
            while !self.finish_victim_if_empty() {
                self.collect_program_unit(busy_until);
            }
        }
    }

    /// Moves all that is left of the victim, if there is one.
    pub(crate) fn complete_victim(&mut self, now: Instant) {
        while !self.finish_victim_if_empty() {
            self.collect_program_unit(now);
        }
    }

    /// The block being collected.
    pub(crate) fn victim_block(&self) -> Option<BlockIndex> {
        self.collector.victim.map(|victim| victim.block)
    }

    /// Free blocks above which a dynamic cache may take one.
    pub(crate) fn cache_low_water(&self) -> u32 {
        self.collector.low_water + self.collector.reserve + 1
    }

    /// How collection is set up.
    pub fn collection_parameters(&self) -> CollectionParameters {
        self.collector.parameters
    }
}
