//! Mapping by block, with log blocks (FAST).
//!
//! Each logical block (as many units as a collection unit) has at most one data block, in which
//! every unit lies at its own offset. Writes never go there. A write that begins a logical block
//! at its first unit opens the sequential log block, and what continues it follows; all other
//! writes are appended to random log blocks, of which there are `mapping.log_blocks`, mapped by
//! unit. The merges that this asks for (`merges`) take the place of collection; the host waits for
//! them, and that is how such drives stall.
//!
//! Lee, Park, Chung, Lee, Park, Song: A log buffer-based flash translation layer using
//! fully-associative sector translation, ACM Transactions on Embedded Computing Systems 6(3), 2007.
//! Where each unit lies is kept in a page map here: it says the same as the block map and the
//! tables of the log blocks, and leaves the rules to say what goes where.

mod merges;
mod recovered;
mod room;
mod saved;

use std::collections::VecDeque;

use crate::buffer::InFlight;
use crate::counters::{Counters, Wear};
use crate::flash::BlockState;
use crate::geometry::{Geometry, GeometryError};
use crate::mapping::{Mapping, PageMap};
use crate::media::{Media, Null};
use crate::resources::Class;
use crate::resources::Resource;
use crate::ssd::{Configuration, Ssd};
use crate::stream::WriteStream;
use crate::units::{BlockIndex, DieIndex, Instant, LogicalUnit, Nanoseconds, Sector, SectorCount};
use room::RoomForRecovery;
pub(crate) use room::check_room;

/// The sequential log block.
#[derive(Clone, Copy, Debug)]
struct Sequence {
    logical_block: u32,
    block: BlockIndex,
    /// The offset that continues it.
    next: u32,
}

/// The random log block that is being filled.
#[derive(Clone, Copy, Debug)]
struct OpenLog {
    block: BlockIndex,
    programs: u32,
}

/// A simulated drive that maps by block, generic over what knows where units lie and over what
/// its flash keeps.
#[derive(Clone, Debug)]
pub struct LogBlockSsd<M: Mapping = PageMap, D: Media = Null> {
    ssd: Ssd<M, D>,
    /// The data block of each logical block.
    data: Vec<Option<BlockIndex>>,
    /// Random log blocks, the oldest first.
    logs: VecDeque<BlockIndex>,
    open_log: Option<OpenLog>,
    sequence: Option<Sequence>,
    /// What merges write.
    merged: WriteStream,
    log_blocks: u32,
    /// The group of dies that the latest block was taken from.
    group: u32,
    /// Until when merges take the drive: no write or flush is begun before.
    merging_until: Instant,
    /// Whether recovery is merging, so that it can do so again.
    is_recovering: bool,
    room: RoomForRecovery,
}

impl LogBlockSsd {
    /// A new drive, with flash that keeps no payload.
    ///
    /// # Errors
    /// When there are too few blocks for data and log.
    pub fn new(configuration: &Configuration) -> Result<Self, GeometryError> {
        let map = PageMap::new(configuration.geometry.logical_units());
        LogBlockSsd::with(configuration, map, Null)
    }
}

impl<M: Mapping, D: Media> LogBlockSsd<M, D> {
    /// A new drive with the given map and media.
    ///
    /// # Errors
    /// When there are too few blocks for data and log.
    pub fn with(configuration: &Configuration, map: M, media: D) -> Result<Self, GeometryError> {
        let geometry = &configuration.geometry;
        let log_blocks = configuration.mechanisms.log_blocks;
        check_room(geometry, log_blocks)?;
        let logical_blocks = geometry.logical_units().div_ceil(geometry.units_per_block());
        Ok(LogBlockSsd {
            ssd: Ssd::with(configuration, map, media)?,
            data: vec![None; logical_blocks as usize],
            logs: VecDeque::new(),
            open_log: None,
            sequence: None,
            merged: WriteStream::new(geometry),
            log_blocks,
            group: geometry.groups() - 1,
            merging_until: Instant::START,
            is_recovering: false,
            room: RoomForRecovery::default(),
        })
    }

    /// The drive's shape.
    pub fn geometry(&self) -> &Geometry {
        self.ssd.geometry()
    }

    /// What it has done since it was made.
    pub fn counters(&self) -> Counters {
        self.ssd.counters()
    }

    /// How worn its flash is.
    pub fn wear(&self) -> Wear {
        self.ssd.wear()
    }

    /// Where the time of its requests went.
    pub fn attribution(&self) -> crate::attribution::Attribution {
        self.ssd.attribution()
    }

    /// What its flash keeps.
    pub fn media(&self) -> &D {
        self.ssd.media()
    }

    /// The drive underneath, whose map and flash this one's rules fill.
    pub fn as_ssd(&self) -> &Ssd<M, D> {
        &self.ssd
    }

    pub(crate) fn as_ssd_mut(&mut self) -> &mut Ssd<M, D> {
        &mut self.ssd
    }

    /// Reads `units` units from `first` at `at`; returns when the last of them has arrived.
    ///
    /// # Panics
    /// When the range is empty or does not lie within the drive.
    pub fn read(&mut self, at: Instant, first: LogicalUnit, units: u32) -> Instant {
        self.ssd.read(at, first, units)
    }

    /// Writes `units` units from `first` at `at`; returns when the host is told it is done.
    ///
    /// # Panics
    /// When the range is empty or does not lie within the drive.
    pub fn write(&mut self, at: Instant, first: LogicalUnit, units: u32) -> Instant {
        self.ssd.check_range(first, units);
        self.ssd.forget_read_ahead(first, units);
        self.ssd.counters.host_write_units += u64::from(units);
        let taken_up = self.ssd.take_up(at);
        let mut ready = self.waited_for_merge(taken_up, taken_up.max(self.merging_until));
        let per_block = self.geometry().units_per_block();
        let (mut next, end) = (first.0, first.0 + units);
        while next < end {
            let (block, offset) = (next / per_block, next % per_block);
            let count = (per_block - offset).min(end - next);
            let continues =
                self.sequence.is_some_and(|it| it.logical_block == block && it.next == offset);
            ready = if offset == 0 || continues {
                self.write_in_sequence(ready, block, offset, count)
            } else {
                self.write_to_log(ready, next, count)
            };
            next += count;
        }
        self.ssd.note_write(at, ready)
    }

    fn write_in_sequence(&mut self, at: Instant, logical: u32, offset: u32, count: u32) -> Instant {
        let mut ready = at;
        if offset == 0 {
            let merged = self.end_sequence(ready);
            ready = self.waited_for_merge(ready, merged);
            let free = self.block_free_at(ready);
            ready = self.waited_for_merge(ready, free);
            let block = self.take_block();
            self.sequence = Some(Sequence { logical_block: logical, block, next: 0 });
        }
        let Sequence { block, .. } = self.sequence.expect("it was begun");
        let first = logical * self.geometry().units_per_block() + offset;
        let mut written = 0;
        while written < count {
            let units = self.geometry().units_per_program();
            if self.ssd.collector.stream().room() == 0 {
                let program = (offset + written) / units;
                let ssd = &mut self.ssd;
                ssd.collector.stream().begin_program_in(&ssd.geometry, block, program);
            }
            let room = self.ssd.collector.stream().room().min(count - written);
            ready = self.ssd.receive(ready, room, self.ssd.unit_to_host * u64::from(room));
            for unit in first + written..first + written + room {
                let physical = self.ssd.collector.stream().append();
                self.ssd.place_at(LogicalUnit(unit), physical);
            }
            written += room;
            if self.ssd.collector.stream().room() == 0 {
                self.send_sequence(ready);
            }
        }
        let sequence = self.sequence.as_mut().expect("it was begun");
        sequence.next = offset + count;
        if sequence.next == self.units_of(logical) {
            let merged = self.end_sequence(ready);
            return self.waited_for_merge(ready, merged);
        }
        ready
    }

    fn write_to_log(&mut self, at: Instant, first: u32, count: u32) -> Instant {
        let mut ready = at;
        let logical = first / self.geometry().units_per_block();
        if self.sequence.is_some_and(|it| it.logical_block == logical) {
            let merged = self.end_sequence(ready);
            ready = self.waited_for_merge(ready, merged);
        }
        let mut written = 0;
        while written < count {
            if self.ssd.host.room() == 0 {
                ready = self.begin_log_program(ready);
            }
            let room = self.ssd.host.room().min(count - written);
            ready = self.ssd.receive(ready, room, self.ssd.unit_to_host * u64::from(room));
            for unit in first + written..first + written + room {
                let physical = self.ssd.host.append();
                self.ssd.place_at(LogicalUnit(unit), physical);
            }
            written += room;
            if self.ssd.host.room() == 0 {
                self.send_log_program(ready, 0);
            }
        }
        ready
    }

    /// Sends the program unit of the sequential log to its die.
    fn send_sequence(&mut self, ready: Instant) {
        let ssd = &mut self.ssd;
        let units = ssd.geometry.units_per_program();
        let filled = ssd.collector.stream().finish_program(&ssd.geometry);
        ssd.counters.program_units_host += u64::from(units);
        ssd.send_filled(&filled, ready, units);
    }

    /// Notes that a write waits for a merge from `from` to `until`; returns that.
    fn waited_for_merge(&mut self, from: Instant, until: Instant) -> Instant {
        self.ssd.delays.writes.parts.merge += until.since(from);
        until
    }

    /// Units of a logical block; the last may be short.
    fn units_of(&self, logical: u32) -> u32 {
        let per_block = self.geometry().units_per_block();
        (self.geometry().logical_units() - logical * per_block).min(per_block)
    }

    /// An erased block, of the groups of dies in turn.
    pub(crate) fn take_block(&mut self) -> BlockIndex {
        let groups = self.geometry().groups();
        for _ in 0..groups {
            self.group = (self.group + 1) % groups;
            if let Some(block) = self.ssd.free.take(self.group) {
                let units = self.ssd.geometry.units_per_block();
                self.ssd.flash.open(block, BlockState::OpenForHost, units);
                self.ssd.note_data_begun(block);
                return block;
            }
        }
        panic!("there is a block for each logical block, for the log and for a merge");
    }

    fn begin_log_program(&mut self, at: Instant) -> Instant {
        let mut ready = at;
        if self.open_log.is_none() {
            if self.logs.len() as u32 == self.log_blocks {
                let merged = self.reclaim_oldest_log(ready);
                ready = self.waited_for_merge(ready, merged);
            }
            let free = self.block_free_at(ready);
            ready = self.waited_for_merge(ready, free);
            let block = self.take_block();
            self.logs.push_back(block);
            self.open_log = Some(OpenLog { block, programs: 0 });
        }
        let OpenLog { block, programs } = self.open_log.expect("it was opened");
        self.ssd.host.begin_program_in(&self.ssd.geometry, block, programs);
        ready
    }

    /// Sends the program unit of the random log to its die; its last `padding` units are empty.
    fn send_log_program(&mut self, ready: Instant, padding: u32) {
        let filled = self.ssd.host.finish_program(&self.ssd.geometry);
        let units = self.ssd.geometry.units_per_program() - padding;
        self.ssd.counters.program_units_host += u64::from(units);
        self.ssd.counters.program_units_padding += u64::from(padding);
        self.ssd.send_filled(&filled, ready, units);
        let open = self.open_log.as_mut().expect("its block is open");
        open.programs += 1;
        if filled.closes {
            self.open_log = None;
        }
    }

    fn pad_log(&mut self, at: Instant) {
        if self.ssd.host.is_partial() {
            let ready = at.max(self.ssd.buffer.received_until());
            let padding = self.ssd.host.room();
            for _ in 0..padding {
                let physical = self.ssd.host.append();
                self.ssd.flash.note_padding(physical, self.ssd.geometry.block_of(physical));
            }
            self.send_log_program(ready, padding);
        }
    }

    /// When all that was sent to the flash is there.
    fn drained_at(&self, at: Instant) -> Instant {
        let dies = &self.ssd.resources.dies;
        let end_of = |it: &InFlight| dies[it.die.0 as usize].end_of(it.booking, it.end);
        self.ssd.buffer.drained_at(end_of).max(at)
    }

    /// Writes `units` units from `first` with FUA: returns when they are durable.
    ///
    /// # Panics
    /// When the range is empty or does not lie within the drive.
    pub fn write_fua(&mut self, at: Instant, first: LogicalUnit, units: u32) -> Instant {
        self.ssd.counters.fua_writes += 1;
        let received = self.write(at, first, units);
        if !self.ssd.durability.waits {
            return received;
        }
        let end = self.make_writes_durable(received);
        self.ssd.media.promise(end);
        self.ssd.delays.writes.latency += end.since(received);
        self.ssd.delays.writes.parts.flush += end.since(received);
        end
    }

    /// Makes all writes that were answered durable; returns when the host is told so. A sequence
    /// whose last program unit is not full ends with that.
    pub fn flush(&mut self, at: Instant) -> Instant {
        self.ssd.counters.flushes += 1;
        let mut start = self.ssd.take_up(at).max(self.merging_until);
        if self.ssd.durability.waits {
            let recorded = self.ssd.make_trims_durable(start);
            start = self.make_writes_durable(start).max(recorded);
            self.ssd.media.promise(start);
        }
        self.ssd.note_flush(at, start)
    }

    /// Programs all that the buffer holds, from `at` on; returns when it is.
    fn make_writes_durable(&mut self, at: Instant) -> Instant {
        let mut start = at;
        if self.ssd.collector.stream().is_partial() {
            start = self.end_sequence(start);
        }
        self.pad_log(start);
        self.drained_at(start)
    }

    /// Forgets what `units` units from `first` hold; returns when the host is told so.
    ///
    /// # Panics
    /// When the range is empty or does not lie within the drive.
    pub fn trim(&mut self, at: Instant, first: LogicalUnit, units: u32) -> Instant {
        self.ssd.trim(at, first, units)
    }

    /// Trims as a host does that keeps to the drive's limits; see [`Ssd::trim_by_commands`].
    ///
    /// # Panics
    /// When the range is empty or does not lie within the drive.
    pub fn trim_by_commands(&mut self, at: Instant, first: Sector, count: SectorCount) -> Instant {
        self.ssd.trim_by_commands(at, first, count)
    }

    /// Leaves the drive alone from `from` for `duration`: it programs what the random log holds.
    /// It merges nothing that it need not.
    pub fn rest(&mut self, from: Instant, duration: Nanoseconds) {
        if let Some(idle) = self.ssd.idle_between(from, from + duration) {
            self.pad_log(idle);
            self.ssd.make_trims_durable(idle);
        }
        self.ssd.release_buffer(from + duration);
        self.ssd.look_at_ages_at_rest(from, duration);
    }

    /// Stores the drive for `duration` without power; see [`Ssd::store`].
    pub fn store(&mut self, now: Nanoseconds, duration: Nanoseconds) -> bool {
        self.ssd.store(now, duration)
    }

    /// Until when merges take the drive.
    pub(crate) fn merging_until(&self) -> Instant {
        self.merging_until
    }

    /// The data block of a logical block.
    pub(crate) fn data_block(&self, logical: u32) -> Option<BlockIndex> {
        self.data[logical as usize]
    }

    /// `block` is the data block of a logical block, as was found or planned.
    pub(crate) fn set_data_block(&mut self, logical: u32, block: BlockIndex) {
        self.data[logical as usize] = Some(block);
    }

    /// The instant by which all that was asked of the drive is done.
    pub fn idle_from(&self) -> Instant {
        self.ssd.idle_from()
    }

    /// Checks what must hold between requests. Walks the whole drive.
    ///
    /// # Panics
    /// When anything is wrong, saying what.
    pub fn check_invariants(&self) {
        self.ssd.check_invariants();
        let geometry = self.geometry();
        assert!(self.logs.len() as u32 <= self.log_blocks, "no more log blocks than there are");
        for (logical, block) in self.data.iter().enumerate() {
            let Some(block) = *block else { continue };
            let first = geometry.first_unit(block).0;
            for offset in 0..geometry.units_per_block() {
                let unit = logical as u32 * geometry.units_per_block() + offset;
                let held = self.ssd.flash.logical_at(crate::units::PhysicalUnit(first + offset));
                assert!(
                    held.is_none_or(|held| held.0 == unit),
                    "a data block holds each unit at its own offset"
                );
            }
        }
        let used = self.data.iter().flatten().count()
            + self.logs.len()
            + usize::from(self.sequence.is_some());
        let free = self.ssd.free.len() as usize;
        assert_eq!(used + free, geometry.blocks() as usize, "no block is lost");
    }

    /// Erases a block on which nothing is valid, once what replaces it is durable at `copied`.
    pub(crate) fn erase(&mut self, block: BlockIndex, copied: Instant) {
        let ssd = &mut self.ssd;
        let from = copied.max(ssd.trims_before_erase()).max(ssd.resources.now());
        ssd.flash.victims_mut().remove(block);
        ssd.flash.set_state(block, BlockState::Victim);
        let units = ssd.geometry.units_per_block();
        ssd.flash.erase(block, ssd.geometry.first_unit(block), units);
        ssd.counters.erases += 1;
        let (group, stripe) = (ssd.geometry.group_of(block), ssd.geometry.stripe());
        ssd.free.put(group, block, ssd.flash.erases(block));
        self.room.note_free(from);
        for lane in 0..stripe {
            let die = DieIndex(group * stripe + lane);
            let span =
                ssd.resources.reserve(Resource::Die(die), Class::Write, from, ssd.timing.erase);
            ssd.resources.dies[die.0 as usize].note_erase();
            let work = ssd.latest_work(die, span);
            ssd.media.erase(block, work);
        }
    }
}
