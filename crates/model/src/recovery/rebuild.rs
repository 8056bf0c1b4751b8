//! From what the flash holds to a drive that works on.

use std::collections::HashSet;

use super::scan::{FoundBlock, Scan};
use super::{FlashContents, ProgramUnit, Recovery, RecoveryError};
use crate::flash::BlockState;
use crate::mapping::Mapping;
use crate::resources::{Class, Resource};
use crate::ssd::Ssd;
use crate::units::{BlockIndex, DieIndex, Instant, LogicalUnit, Nanoseconds, PhysicalUnit};

/// Who fills a block further.
const FILLED_FURTHER: [BlockState; 2] = [BlockState::OpenForCollection, BlockState::OpenForHost];

impl<M: Mapping, D: FlashContents> Ssd<M, D> {
    pub(super) fn rebuild(&mut self, scan: Scan, at: Instant) -> Result<Recovery, RecoveryError> {
        let mut recovery = self.take_over_contents(&scan, at);
        self.write_map_anew(recovery.ready_at);
        self.note_slc_blocks(&scan.blocks)?;
        self.sort_blocks(&scan.blocks, &mut recovery);
        // A drive that takes no more writes needs no room for them.
        match self.make_room_for_host(recovery.ready_at) {
            Ok(ready_at) => self.make_host_wait(&mut recovery, ready_at),
            Err((room, valid)) if !self.is_read_only() => {
                return Err(RecoveryError::NoRoom { room, valid });
            }
            Err(_) => {}
        }
        let saved = self.saved_units()?;
        for (index, &logical) in saved.iter().enumerate() {
            self.restore_unit(recovery.ready_at, index, logical);
        }
        recovery.units_saved = saved.len() as u32;
        Ok(recovery)
    }

    /// Fills the map and what is known of each physical unit with what was found.
    pub(super) fn take_over_contents(&mut self, scan: &Scan, at: Instant) -> Recovery {
        self.sequence = scan.latest;
        self.counters.unsafe_shutdowns += 1;
        let ready_at = self.read_spare_areas(scan, at);
        if let Some(checkpoints) = &mut self.durability.checkpoints {
            checkpoints.go_on_from(scan.known.pieces);
        }
        let mut units_found = 0;
        for (unit, physical) in scan.current() {
            self.map.set(unit, physical);
            units_found += 1;
        }
        self.note_spare_areas(&scan.blocks);
        Recovery {
            ready_at,
            took: ready_at.since(at),
            program_units_read: scan.reads.iter().sum(),
            map_pages_read: scan.known.pages,
            program_units_unreadable: scan.unreadable,
            units_found,
            units_saved: 0,
            program_units_padded: 0,
            blocks_to_erase: 0,
        }
    }

    /// Notes which blocks are in SLC mode.
    fn note_slc_blocks(&mut self, blocks: &[FoundBlock]) -> Result<(), RecoveryError> {
        for (index, found) in blocks.iter().enumerate() {
            if found.is_slc {
                let block = BlockIndex(index as u32);
                let slc = self.slc.as_mut().ok_or(RecoveryError::CellMode { block })?;
                slc.take_over(block);
            }
        }
        Ok(())
    }

    /// Every die reads its pages of the saved map, which cross the channels whole, and its spare
    /// areas, all one by one; returns when the slowest is done. Until then the controller takes up
    /// no command.
    fn read_spare_areas(&mut self, scan: &Scan, at: Instant) -> Instant {
        let mut ready_at = at;
        let (dies, pages) = (u64::from(self.geometry.dies()), scan.known.pages);
        let transfer = self.unit_over_channel * u64::from(self.geometry.units_per_page());
        for (die, &reads) in scan.reads.iter().enumerate() {
            let map_pages = pages / dies + u64::from((die as u64) < pages % dies);
            let channel = Resource::Channel(self.geometry.channel_of(DieIndex(die as u32)));
            let duration = transfer * map_pages;
            let moved = self.resources.reserve(channel, Class::Background, at, duration).end;
            let on_die = Resource::Die(DieIndex(die as u32));
            let duration = self.timing.page_read * (reads + map_pages);
            let span = self.resources.reserve(on_die, Class::Background, at, duration);
            ready_at = ready_at.max(span.end).max(moved);
        }
        self.occupy_controller(at, ready_at);
        ready_at
    }

    /// Has the controller fetch no command from `from` to `until`.
    fn occupy_controller(&mut self, from: Instant, until: Instant) {
        for (at, busy) in [(from, until.since(from)), (until, Nanoseconds::ZERO)] {
            self.resources.reserve(Resource::Controller, Class::Background, at, busy);
        }
    }

    /// Has the drive take no request before `ready_at`.
    fn make_host_wait(&mut self, recovery: &mut Recovery, ready_at: Instant) {
        let longer = ready_at.since(recovery.ready_at);
        if longer > Nanoseconds::ZERO {
            self.occupy_controller(recovery.ready_at, ready_at);
            recovery.ready_at = ready_at;
            recovery.took += longer;
        }
    }

    /// Writes a map that lies on flash anew through the cache, page by page, where a page has entries.
    fn write_map_anew(&mut self, at: Instant) {
        let Some(shift) = self.map.cache().map(|cache| cache.entries_shift()) else {
            return;
        };
        let mut from = 0;
        while let Some((unit, _)) = self.map.next_mapped(LogicalUnit(from)) {
            self.look_up(at, unit, 1, true);
            from = ((unit.0 >> shift) + 1) << shift;
        }
    }

    /// Takes over the spare areas of all that was programmed.
    fn note_spare_areas(&mut self, blocks: &[FoundBlock]) {
        for (index, found) in blocks.iter().enumerate() {
            let block = BlockIndex(index as u32);
            self.flash.set_erases(block, self.media.erases(block));
            let first = self.geometry.first_unit(block).0;
            for program in 0..found.programs {
                let at = PhysicalUnit(first + program * self.geometry.units_per_program());
                if let ProgramUnit::Programmed { spare, .. } = self.media.program_unit(at) {
                    for (logical, physical) in spare.logical_units().zip(at.0..) {
                        if let Some(logical) = logical {
                            self.flash.note_written(PhysicalUnit(physical), logical);
                        }
                    }
                }
            }
        }
    }

    /// Makes each block free, open or closed, or has it erased.
    fn sort_blocks(&mut self, blocks: &[FoundBlock], recovery: &mut Recovery) {
        let programs = self.geometry.units_per_block() / self.geometry.units_per_program();
        let mut order: Vec<u32> = (0..blocks.len() as u32).collect();
        order.sort_by_key(|&block| blocks[block as usize].latest);
        self.free = self.free.emptied();
        let mut room: Vec<Vec<BlockIndex>> = vec![Vec::new(); self.geometry.groups() as usize];
        for block in order.into_iter().map(BlockIndex) {
            let found = blocks[block.0 as usize];
            let group = self.geometry.group_of(block);
            if self.flash.state(block) == BlockState::Retired {
                continue;
            }
            if found.programs == 0 {
                self.free.put(group, block, self.flash.erases(block));
            } else if found.valid == 0 {
                recovery.blocks_to_erase += 1;
                self.flash.take_over(block, BlockState::Victim, 0);
                self.erase_block(block, recovery.ready_at, recovery.ready_at);
            } else if found.programs < programs && !self.is_slc(block) {
                room[group as usize].push(block);
            } else {
                self.take_over_closed(block, found);
            }
        }
        for mut with_room in room {
            with_room.sort_by_key(|block| blocks[block.0 as usize].programs);
            for (place, &block) in with_room.iter().enumerate() {
                let found = blocks[block.0 as usize];
                match FILLED_FURTHER.get(place) {
                    Some(&by) => self.fill_further(block, found, by, recovery),
                    None => self.take_over_closed(block, found),
                }
            }
        }
    }

    fn take_over_closed(&mut self, block: BlockIndex, found: FoundBlock) {
        self.flash.take_over(block, BlockState::Closed, found.valid);
        if self.is_slc(block) {
            self.flash.set_apart(block);
        }
        self.flash.close(block, BlockState::Closed);
    }

    /// Has a stream go on where `block` is not filled, once what was skipped is programmed empty.
    fn fill_further(
        &mut self,
        block: BlockIndex,
        found: FoundBlock,
        by: BlockState,
        recovery: &mut Recovery,
    ) {
        let per_program = self.geometry.units_per_program();
        let empty = self.geometry.units_per_block() - found.programs * per_program;
        self.flash.take_over(block, by, found.valid + empty);
        let group = self.geometry.group_of(block);
        let stream = match by {
            BlockState::OpenForHost => &mut self.host,
            _ => self.collection_stream(),
        };
        stream.go_on(group, block, found.programs);
        for program in 0..found.programs {
            let first = self.geometry.first_unit(block).0 + program * per_program;
            let first = PhysicalUnit(first);
            if matches!(self.media.program_unit(first), ProgramUnit::Erased) {
                self.program_empty(first, recovery.ready_at);
                recovery.program_units_padded += 1;
            }
        }
    }

    fn program_empty(&mut self, first: PhysicalUnit, at: Instant) {
        let units = self.geometry.units_per_program();
        let die = self.geometry.die_of(first);
        let channel = Resource::Channel(self.geometry.channel_of(die));
        let transfer = self.unit_over_channel * u64::from(units);
        let arrived = self.resources.reserve(channel, Class::Background, at, transfer).end;
        let program = self.timing.program;
        let span = self.resources.reserve(Resource::Die(die), Class::Background, arrived, program);
        let number = self.next_number();
        self.counters.program_units_padding += u64::from(units);
        self.note_programmed(first, number, die, span);
    }

    /// What capacitors saved of the write buffer, checked.
    pub(super) fn saved_units(&self) -> Result<Vec<LogicalUnit>, RecoveryError> {
        let units = self.geometry.logical_units();
        let saved = self.media.saved().to_vec();
        let mut seen = HashSet::with_capacity(saved.len());
        for &logical in &saved {
            if logical.0 >= units {
                return Err(RecoveryError::Unit { place: "the saved buffer", logical, units });
            }
            if !seen.insert(logical.0) {
                return Err(RecoveryError::SavedTwice { logical });
            }
        }
        Ok(saved)
    }
}
