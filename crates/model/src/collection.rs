//! Garbage collection: which block, when, and who pays.
//!
//! The victim is the closed block with the fewest valid units (greedy). Collection starts when
//! fewer than `low_water` blocks are free and keeps pace with the host: while the host fills as
//! many units as the victim will yield, all that is valid on the victim is moved. The flash work
//! this makes is debt on the dies (see [`crate::resources::background`]). A victim is erased
//! only after every copy of what it held is programmed.

use std::collections::VecDeque;

use crate::flash::BlockState;
use crate::geometry::Geometry;
use crate::mapping::Mapping;
use crate::media::Media;
use crate::resources::background::Operation;
use crate::resources::{Class, Resource};
use crate::ssd::Ssd;
use crate::stream::WriteStream;
use crate::units::{BlockIndex, DieIndex, Instant, PhysicalUnit};

/// How far ahead of its use collection asks for a map entry, in units.
const PREFETCH_UNITS: u32 = 24;

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
    pub fn blocks_kept(&self, geometry: &Geometry) -> u32 {
        geometry.groups() * (self.low_water + 2)
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

/// A block whose units were moved, until the copies are durable.
#[derive(Clone, Copy, Debug)]
struct Emptied {
    block: BlockIndex,
    /// The collection program that holds the last copy.
    sequence: u32,
    /// When the last copy is programmed, once that is known.
    durable_at: Option<Instant>,
}

/// The state of collection.
#[derive(Clone, Debug)]
pub(crate) struct Collector {
    parameters: CollectionParameters,
    stream: WriteStream,
    victim: Option<Victim>,
    emptied: VecDeque<Emptied>,
    /// Copies owed, times 2^[`CREDIT_SHIFT`]; negative when ahead.
    credit: i64,
    /// Collection programs decided so far; wraps.
    sequence: u32,
    /// Collection programs until emptied blocks are looked at again.
    until_check: u32,
    /// The latest end of a collection program that was carried out.
    durable_from: Instant,
    /// The same for those programs that the erases begun so far depend on.
    erase_from: Instant,
    low_water: u32,
    high_water: u32,
    /// Blocks kept back for collection itself.
    reserve: u32,
}

impl Collector {
    pub(crate) fn new(geometry: &Geometry, parameters: CollectionParameters) -> Self {
        Collector {
            parameters,
            stream: WriteStream::new(geometry),
            victim: None,
            emptied: VecDeque::new(),
            credit: 0,
            sequence: 0,
            until_check: geometry.dies(),
            durable_from: Instant::START,
            erase_from: Instant::START,
            low_water: parameters.low_water * geometry.groups(),
            high_water: parameters.idle_high_water.max(parameters.low_water) * geometry.groups(),
            reserve: geometry.groups(),
        }
    }
}

impl<M: Mapping, D: Media> Ssd<M, D> {
    /// Blocks that are free or will be as soon as their copies are durable.
    fn blocks_coming(&self) -> u32 {
        self.free.len() + self.collector.emptied.len() as u32
    }

    /// Collection's share for `units` units that the host has just written.
    #[inline(always)]
    pub(crate) fn collect_for(&mut self, units: u32, now: Instant) {
        if self.collector.victim.is_some() || self.blocks_coming() < self.collector.low_water {
            self.keep_pace(units, now);
        }
    }

    fn keep_pace(&mut self, units: u32, now: Instant) {
        let mut units = i64::from(units);
        while let Some(victim) = self.current_victim() {
            // A drive that has fallen behind its low water collects a little faster.
            let behind = self.collector.low_water.saturating_sub(1 + self.blocks_coming());
            let pace = i64::from(4 + behind.min(12));
            self.collector.credit += units * victim.copies_per_unit * pace / 4;
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

    /// The victim being collected, or the next one.
    fn current_victim(&mut self) -> Option<Victim> {
        if self.collector.victim.is_none() {
            let block = self.flash.victims.take_fewest()?;
            self.flash.set_state(block, BlockState::Victim);
            self.counters.collections += 1;
            let valid = i64::from(self.flash.valid(block));
            let gain = i64::from(self.geometry.units_per_block()) - valid;
            assert!(gain > 0, "some closed block has room to gain");
            let copies_per_unit = (valid << CREDIT_SHIFT) / gain;
            self.collector.victim = Some(Victim { block, copies_per_unit, program: 0 });
        }
        self.collector.victim
    }

    /// Hands the victim on to be erased when nothing on it is valid any more.
    fn finish_victim_if_empty(&mut self) -> bool {
        let Some(victim) = self.collector.victim else {
            return true;
        };
        if self.flash.valid(victim.block) > 0 {
            return false;
        }
        // Copies may sit in the program unit being filled, which has the next number.
        let pending = self.collector.stream.is_partial();
        let sequence = self.collector.sequence.wrapping_add(u32::from(pending));
        let emptied = Emptied { block: victim.block, sequence, durable_at: None };
        self.collector.emptied.push_back(emptied);
        self.collector.victim = None;
        true
    }

    /// Moves what is valid in the victim's next program unit; returns how many units that was.
    fn collect_program_unit(&mut self, now: Instant) -> u32 {
        let victim = self.collector.victim.as_mut().expect("a victim was chosen");
        let (block, program) = (victim.block, victim.program);
        victim.program += 1;
        let units = self.geometry.units_per_program();
        let first = self.geometry.first_unit(block).0 + program * units;
        let per_sense_shift = self.geometry.units_per_sense_shift();
        let (mut moved, mut sense, mut sense_units, mut page) = (0, u32::MAX, 0u16, u32::MAX);
        let die = self.geometry.die_of_program(block, program);
        for physical in first..first + units {
            if let Some(ahead) = self.flash.logical_ahead(PhysicalUnit(physical + PREFETCH_UNITS)) {
                self.map.prefetch(ahead);
            }
            let Some(logical) = self.flash.logical_at(PhysicalUnit(physical)) else {
                continue;
            };
            if self.map.get(logical) != Some(PhysicalUnit(physical)) {
                continue;
            }
            if physical >> per_sense_shift != sense {
                if sense_units > 0 {
                    self.owe(die, Operation::Read { units: sense_units }, now);
                }
                sense = physical >> per_sense_shift;
                sense_units = 0;
            }
            let its_page = self.geometry.page_of(PhysicalUnit(physical));
            self.counters.flash_page_reads_collection += u64::from(its_page != page);
            page = its_page;
            sense_units += 1;
            moved += 1;
            self.copy_unit(logical, now);
        }
        if sense_units > 0 {
            self.owe(die, Operation::Read { units: sense_units }, now);
        }
        self.flash.move_units(block, moved);
        moved
    }

    /// Writes one unit to collection's stream.
    #[inline(always)]
    fn copy_unit(&mut self, logical: crate::units::LogicalUnit, now: Instant) {
        if self.collector.stream.room() == 0 {
            self.begin_collection_program(now);
        }
        let physical = self.collector.stream.append();
        self.flash.note_written(physical, logical);
        self.map.set(logical, physical);
        if self.collector.stream.room() == 0 {
            self.program_collected(now, 0);
        }
    }

    fn begin_collection_program(&mut self, now: Instant) {
        if self.free.is_empty() {
            // The blocks that were emptied last wait only for their copies to be durable.
            self.make_copies_durable(now);
            self.erase_emptied(self.resources.idle_from());
        }
        let stream = &mut self.collector.stream;
        if let Some(block) = stream.begin_program(&self.geometry, &mut self.free) {
            let units = self.geometry.units_per_block();
            self.flash.open(block, BlockState::OpenForCollection, units);
        }
    }

    /// Puts collection's full program unit on its die's list.
    fn program_collected(&mut self, now: Instant, padding: u32) {
        let filled = self.collector.stream.finish_program(&self.geometry);
        let units = self.geometry.units_per_program();
        let die = self.geometry.die_of_program(filled.block, filled.index);
        self.counters.program_units_collection += u64::from(units - padding);
        self.counters.program_units_padding += u64::from(padding);
        self.collector.sequence = self.collector.sequence.wrapping_add(1);
        let sequence = self.collector.sequence;
        let program = self.geometry.program_of(filled.first);
        self.owe(die, Operation::Program { program, sequence }, now);
        if filled.closes {
            self.flash.close(filled.block, BlockState::Closed);
        }
        self.collector.until_check -= 1;
        if self.collector.until_check == 0 {
            self.collector.until_check = self.geometry.dies();
            self.erase_emptied(now);
        }
    }

    /// Erases every emptied block whose copies are durable by `now`. Until then an erase is not
    /// on its dies' lists, where it would keep other work waiting.
    fn erase_emptied(&mut self, now: Instant) {
        if self.collector.emptied.is_empty() {
            return;
        }
        // A die that nothing is asked of has done its debt nevertheless.
        for die in 0..self.geometry.dies() {
            self.settle(DieIndex(die), now);
        }
        while let Some(&Emptied { block, sequence, durable_at }) = self.collector.emptied.front() {
            if durable_at.is_none() && !self.is_durable(sequence) {
                return;
            }
            let durable_at = durable_at.unwrap_or(self.collector.durable_from);
            if durable_at > now {
                self.collector.emptied[0].durable_at = Some(durable_at);
                return;
            }
            self.collector.erase_from = self.collector.erase_from.max(durable_at);
            self.collector.emptied.pop_front();
            self.erase(block, now);
        }
    }

    /// Whether collection's program number `sequence`, and all before it, were carried out.
    fn is_durable(&self, sequence: u32) -> bool {
        let decided = self.collector.sequence.wrapping_sub(sequence) as i32 >= 0;
        decided
            && self.resources.background.iter().all(|queue| {
                queue
                    .oldest_program()
                    .is_none_or(|oldest| (oldest.wrapping_sub(sequence) as i32) > 0)
            })
    }

    /// Puts the erase of `block` on its dies' lists and the block into the free pool.
    fn erase(&mut self, block: BlockIndex, now: Instant) {
        let first = self.geometry.first_unit(block);
        self.flash.erase(block, first, self.geometry.units_per_block());
        self.counters.erases += 1;
        let group = self.geometry.group_of(block);
        self.free.put(group, block);
        for lane in 0..self.geometry.stripe() {
            let die = DieIndex(group * self.geometry.stripe() + lane);
            self.owe(die, Operation::Erase { block }, now);
        }
    }

    /// Makes sure that the host can take a block while collection keeps its reserve, collecting
    /// at once where pacing was not enough.
    pub(crate) fn ensure_free_block(&mut self) {
        if self.free.len() > self.collector.reserve {
            return;
        }
        let now = self.resources.idle_from();
        self.erase_emptied(now);
        while self.free.len() <= self.collector.reserve {
            if self.collector.emptied.is_empty() {
                if self.current_victim().is_none() {
                    return;
                }
                while !self.finish_victim_if_empty() {
                    self.collect_program_unit(now);
                }
            }
            self.make_copies_durable(now);
            self.erase_emptied(self.resources.idle_from());
        }
    }

    /// Carries out the collection programs that the oldest emptied block waits for, completing
    /// the one being filled if it is among them.
    fn make_copies_durable(&mut self, now: Instant) {
        let Some(&Emptied { sequence, .. }) = self.collector.emptied.front() else {
            return;
        };
        let decided = self.collector.sequence.wrapping_sub(sequence) as i32 >= 0;
        if !decided {
            let padding = self.collector.stream.room();
            for _ in 0..padding {
                let physical = self.collector.stream.append();
                self.flash.note_padding(physical, self.geometry.block_of(physical));
            }
            self.program_collected(now, padding);
        }
        for die in 0..self.geometry.dies() {
            while self.resources.background[die as usize]
                .oldest_program()
                .is_some_and(|oldest| oldest.wrapping_sub(sequence) as i32 <= 0)
            {
                self.carry_out_oldest(DieIndex(die), now);
            }
        }
    }

    /// Adds an operation, decided at `now`, to a die's debt; carries out the oldest where there
    /// is too much.
    #[inline(always)]
    fn owe(&mut self, die: DieIndex, operation: Operation, now: Instant) {
        self.settle(die, now);
        let queue = &mut self.resources.background[die.0 as usize];
        queue.push(operation, now);
        if queue.is_over_limit() {
            self.carry_out_oldest(die, now);
        }
    }

    /// Carries out the debt of `die` that begins in the time it was idle before `now`.
    #[inline(always)]
    pub(crate) fn settle(&mut self, die: DieIndex, now: Instant) {
        let queue = &self.resources.background[die.0 as usize];
        if !queue.is_empty() && self.resources.dies[die.0 as usize].booked_until() < now {
            self.settle_debt(die, now);
        }
    }

    #[inline(never)]
    fn settle_debt(&mut self, die: DieIndex, now: Instant) {
        loop {
            let queue = &self.resources.background[die.0 as usize];
            let Some(operation) = queue.front() else {
                return;
            };
            let free = self.resources.dies[die.0 as usize].booked_until();
            let mut start = free.max(queue.not_before());
            if matches!(operation, Operation::Erase { .. }) {
                start = start.max(self.collector.erase_from);
            }
            if start >= now {
                return;
            }
            self.carry_out_oldest(die, start);
        }
    }

    /// Before the first program into `block` on `die`: its erase there must be over.
    #[inline(always)]
    pub(crate) fn finish_erase(&mut self, die: DieIndex, block: BlockIndex) {
        if self.resources.background[die.0 as usize].has_erase() {
            while self.resources.background[die.0 as usize].waits_to_erase(block) {
                self.carry_out_oldest(die, Instant::START);
            }
        }
    }

    /// Books the oldest operation of a die's debt.
    fn carry_out_oldest(&mut self, die: DieIndex, earliest: Instant) {
        let queue = &mut self.resources.background[die.0 as usize];
        let operation = queue.front().expect("there is debt to pay");
        queue.pop();
        let channel = Resource::Channel(self.geometry.channel_of(die));
        let on_die = Resource::Die(die);
        match operation {
            Operation::Read { units } => {
                let sense = self.timing.page_read;
                let span = self.resources.reserve(on_die, Class::Background, earliest, sense);
                let transfer = self.unit_over_channel * u64::from(units);
                self.resources.reserve(channel, Class::Background, span.end, transfer);
            }
            Operation::Program { program, .. } => {
                let units = self.geometry.units_per_program();
                let transfer = self.unit_over_channel * u64::from(units);
                let free = self.resources.dies[die.0 as usize].booked_until();
                let arrived = self
                    .resources
                    .reserve(channel, Class::Background, free.max(earliest), transfer)
                    .end;
                let program_time = self.timing.program;
                let span = self.resources.reserve(on_die, Class::Background, arrived, program_time);
                self.collector.durable_from = self.collector.durable_from.max(span.end);
                self.note_programmed(PhysicalUnit(program * units), span);
            }
            Operation::Erase { block } => {
                let start = earliest.max(self.collector.erase_from);
                let erase = self.timing.erase;
                let span = self.resources.reserve(on_die, Class::Background, start, erase);
                self.media.erase(block, die, span);
            }
        }
    }

    /// Uses idle time from `from` to `until`: pays debt, then collects up to the high water.
    pub(crate) fn collect_while_idle(&mut self, until: Instant) {
        loop {
            for die in 0..self.geometry.dies() {
                self.settle(DieIndex(die), until);
            }
            self.erase_emptied(until);
            let busy_until = self.resources.idle_from();
            if busy_until >= until || self.blocks_coming() >= self.collector.high_water {
                return;
            }
            let Some(fewest) = self.flash.victims.fewest() else {
                return;
            };
            if self.collector.victim.is_none() && fewest == self.geometry.units_per_block() {
                return;
            }
            self.current_victim();
            while !self.finish_victim_if_empty() {
                self.collect_program_unit(busy_until);
            }
        }
    }

    /// How collection is set up.
    pub fn collection_parameters(&self) -> CollectionParameters {
        self.collector.parameters
    }
}
