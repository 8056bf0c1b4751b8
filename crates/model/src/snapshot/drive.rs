//! A drive's state: each of its tables writes and reads itself, in one order.

use super::check::Blocks;
use super::{Decoder, Encoder, SnapshotError, damaged};
use crate::attribution::Delays;
use crate::flash::BlockState;
use crate::mapping::{Mapping, MappingScheme};
use crate::media::{Media, Null};
use crate::ssd::{Configuration, Ssd};
use crate::units::{BlockIndex, LogicalUnit};

impl<M: Mapping> Ssd<M, Null> {
    /// A drive of `configuration` in a state that was saved, with flash that keeps no payload;
    /// `map` is a new one.
    ///
    /// # Errors
    /// When the bytes are no state of such a drive, or reading them fails.
    pub fn restored(
        configuration: &Configuration,
        map: M,
        from: &mut Decoder<'_>,
    ) -> Result<Self, SnapshotError> {
        Ssd::restored_with(configuration, map, Null, from)
    }
}

impl<M: Mapping, D: Media> Ssd<M, D> {
    /// Writes the state of a drive that was shut down.
    ///
    /// # Errors
    /// When writing fails, or the drive has a mechanism that cannot be saved.
    ///
    /// # Panics
    /// When it was not shut down.
    pub fn save(&self, to: &mut Encoder<'_>) -> Result<(), SnapshotError> {
        let Ssd {
            // From the configuration.
            geometry: _,
            timing: _,
            buffer_parameters: _,
            trim_enabled: _,
            trim_parameters: _,
            trim_marks: _,
            unit_to_host: _,
            unit_over_channel: _,
            pages_differ: _,
            // Volatile, or nothing.
            media: _,
            resources: _,
            buffer: _,
            rest: _,
            read_ahead: _,
            scratch: _,
            large_reads: _,
            fetches: _,
            in_time: _,
            merges: _,
            condenser: _,
            // Which blocks are in SLC mode is known of the blocks.
            slc: _,
            // Of the requests of one life: begins anew.
            delays: _,
            trim_log: _,
            map,
            flash,
            free,
            host,
            streams,
            collector,
            durability,
            counters: _,
            sequence,
            levelling,
            bad_blocks,
            retention,
            // Follows from the bad blocks.
            writable_units: _,
        } = self;
        map.save(to)?;
        flash.save(to)?;
        free.save(to)?;
        host.save(to)?;
        collector.save(to)?;
        if let Some(streams) = streams {
            streams.save(to)?;
        }
        if let Some(checkpoints) = &durability.checkpoints {
            checkpoints.save(to)?;
        }
        if let Some(journal) = &durability.journal {
            journal.save(to)?;
        }
        for count in self.counters().values() {
            to.long(count)?;
        }
        if let Some(levelling) = levelling {
            levelling.save(to)?;
        }
        if let Some(bad_blocks) = bad_blocks {
            bad_blocks.save(to)?;
        }
        if let Some(retention) = retention {
            retention.save(to)?;
        }
        Ok(to.long(sequence.0)?)
    }

    /// A drive of `configuration` in a state that was saved; `map` is a new one, and `media` holds
    /// what it held then.
    ///
    /// # Errors
    /// When the bytes are no state of such a drive, or reading them fails.
    pub fn restored_with(
        configuration: &Configuration,
        map: M,
        media: D,
        from: &mut Decoder<'_>,
    ) -> Result<Self, SnapshotError> {
        let mut ssd = Ssd::with(configuration, map, media)?;
        ssd.map.restore(from)?;
        ssd.flash.restore(from, configuration.geometry.units_per_block())?;
        ssd.free.restore(from, |block| ssd.flash.erases(block))?;
        ssd.host.restore(from, &configuration.geometry)?;
        ssd.collector.restore(from, &configuration.geometry)?;
        if let Some(streams) = &mut ssd.streams {
            streams.restore(from, &configuration.geometry, &ssd.flash)?;
        }
        ssd.restore_cache();
        if let Some(checkpoints) = &mut ssd.durability.checkpoints {
            checkpoints.restore(from)?;
        }
        if let Some(journal) = &mut ssd.durability.journal {
            journal.restore(from)?;
        }
        for count in ssd.counters.values_mut() {
            *count = from.long()?;
        }
        ssd.delays = Delays::after(&ssd.counters);
        if let Some(levelling) = &mut ssd.levelling {
            levelling.restore(from)?;
        }
        if let Some(bad_blocks) = &mut ssd.bad_blocks {
            bad_blocks.restore(from)?;
            ssd.writable_units = bad_blocks.writable(ssd.writable_units);
        }
        if let Some(retention) = &mut ssd.retention {
            retention.restore(from, |block| ssd.flash.erases(block))?;
        }
        ssd.sequence.0 = from.long()?;
        ssd.restore_reverse_map()?;
        ssd.check_restored()?;
        let collects = configuration.mechanisms.mapping != MappingScheme::LogBlock;
        if collects && ssd.free.len() < configuration.geometry.groups() {
            return damaged("no block is left to collect into");
        }
        Ok(ssd)
    }

    /// Which blocks are in SLC mode: those whose victims are chosen apart.
    fn restore_cache(&mut self) {
        let Some(slc) = &mut self.slc else { return };
        let Ssd { flash, host, geometry, .. } = self;
        for block in (0..geometry.blocks()).map(BlockIndex) {
            if flash.is_apart(block) {
                slc.take_over(block);
            }
        }
        host.limit_blocks(|block| slc.holds(block), slc.programs_per_block());
    }

    /// Works out from the map what the spare areas of valid units say.
    fn restore_reverse_map(&mut self) -> Result<(), SnapshotError> {
        let mut next = self.map.next_mapped(LogicalUnit(0));
        while let Some((LogicalUnit(unit), physical)) = next {
            if physical.0 >= self.geometry.physical_units() {
                return damaged(format!("unit {unit} lies behind the end of the flash"));
            }
            if self.flash.logical_at(physical).is_some() {
                return damaged(format!("unit {unit} lies where another does"));
            }
            self.flash.note_written(physical, LogicalUnit(unit));
            next = self.map.next_mapped(LogicalUnit(unit + 1));
        }
        Ok(())
    }

    /// Checks what the structures say of each other.
    fn check_restored(&self) -> Result<(), SnapshotError> {
        let mut blocks = Blocks::new(&self.geometry, &self.flash);
        let aside = self.streams.iter().flat_map(|streams| streams.open_blocks_aside());
        let host = self.host.open_blocks().map(|it| (it, BlockState::OpenForHost));
        let collection = self.collector.open_blocks().map(|it| (it, BlockState::OpenForCollection));
        for ((block, programs), state) in host.chain(collection).chain(aside) {
            blocks.note_open(block, programs, state)?;
        }
        blocks.note_free(&self.free)?;
        let left_of = |block, programs| match &self.slc {
            Some(slc) if slc.holds(block) => slc.units_left(programs),
            _ => self.geometry.units_per_block() - programs * self.geometry.units_per_program(),
        };
        let retired = blocks.check(left_of)?;
        if retired != self.bad_blocks.as_ref().map_or(0, |it| it.retired()) {
            return damaged("more or fewer blocks are retired than went bad");
        }
        Ok(())
    }
}
