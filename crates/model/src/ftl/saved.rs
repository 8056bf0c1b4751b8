//! Saving and restoring the state of a drive: each of its tables writes and reads itself, in one order.

use super::Ssd;
use crate::attribution::Delays;
use crate::block_table::BlockState;
use crate::lazy_table::LazyTable;
use crate::mapping::{Mapping, MappingScheme};
use crate::media::{Media, Null};
use crate::snapshot::check::Blocks;
use crate::snapshot::{Decoder, Encoder, SnapshotError, damaged};
use crate::ssd::Configuration;
use crate::units::{BlockIndex, LogicalUnit};

use super::Ftl;

impl<M: Mapping> Ssd<M, Null> {
    /// Returns a drive of `configuration` in a state that was saved, with flash that stores no data; `map` is a
    /// new one.
    ///
    /// # Errors
    /// Returns an error if the bytes are no state of such a drive, or cannot be read.
    pub fn restored(
        configuration: &Configuration,
        map: M,
        from: &mut Decoder<'_>,
    ) -> Result<Self, SnapshotError> {
        Ssd::restored_with(configuration, map, Null, from)
    }
}

impl<M: Mapping, D: Media> Ssd<M, D> {
    /// Returns true if the map and the reverse map of the drive are in lent memory, as after a restore. Lent
    /// memory need not be read before it is looked at, so that such a drive is there at once; but each request
    /// costs more than with memory of the drive's own ([`Ssd::copy_tables_to_owned`]).
    pub fn has_lent_tables(&self) -> bool {
        self.ftl.blocks.table().is_borrowed()
    }

    /// Copies the map and the reverse map from lent memory to memory of the drive's own; reads all of them.
    pub fn copy_tables_to_owned(&mut self) {
        self.ftl.map.copy_to_owned();
        self.ftl.blocks.table_mut().copy_to_owned();
    }

    /// Writes the state of a drive that was shut down.
    ///
    /// # Errors
    /// Returns an error if writing fails.
    ///
    /// # Panics
    /// Panics if the drive was not shut down.
    pub fn save(&self, to: &mut Encoder<'_>) -> Result<(), SnapshotError> {
        assert!(self.nand.is_idle(), "the drive was shut down");
        let Ftl {
            // From the configuration.
            geometry: _,
            timing: _,
            page_reads: _,
            // A drive is cool when it is turned on.
            thermal: _,
            requests: _,
            trims: _,
            // Volatile, or empty after a shutdown.
            media: _,
            traffic: _,
            reads: _,
            compactor: _,
            reserve: _,
            idle_time: _,
            deferred_trims: _,
            // Of the requests since power-on: begins anew.
            delays: _,
            // The block table says which blocks are in SLC mode.
            slc: _,
            map,
            blocks,
            placement,
            log_blocks,
            collector,
            streams,
            metadata,
            counters: _,
            retention,
        } = &self.ftl;
        let counters = self.counters();
        map.save(to)?;
        blocks.save(to)?;
        placement.save(to)?;
        collector.save(to)?;
        if let Some(streams) = streams {
            streams.save(to)?;
        }
        metadata.save(to, counters.journal_pages)?;
        for count in counters.values() {
            to.long(count)?;
        }
        blocks.save_wear(to)?;
        if let Some(retention) = retention {
            retention.save(to)?;
        }
        to.long(placement.latest_number().0)?;
        if let Some(log) = log_blocks {
            log.save(to)?;
        }
        // A state without this table is restored with a reverse map worked out from the map.
        to.table_apart(blocks.table().reverse_map())?;
        Ok(())
    }

    /// Returns a drive of `configuration` in a state that was saved; `map` is a new one, and `media` holds the
    /// data that it held then.
    ///
    /// # Errors
    /// Returns an error if the bytes are no state of such a drive, or cannot be read.
    pub fn restored_with(
        configuration: &Configuration,
        map: M,
        media: D,
        from: &mut Decoder<'_>,
    ) -> Result<Self, SnapshotError> {
        let mut ssd = Ssd::with(configuration, map, media)?;
        ssd.ftl.restore(from)?;
        let collects = configuration.mechanisms.mapping != MappingScheme::LogBlock;
        let writes = collects && !ssd.ftl.blocks.is_read_only();
        if writes && !ssd.ftl.can_collect() {
            return damaged("no block is left to collect into");
        }
        Ok(ssd)
    }
}

impl<M: Mapping, D: Media> Ftl<M, D> {
    fn restore(&mut self, from: &mut Decoder<'_>) -> Result<(), SnapshotError> {
        self.map.restore(from)?;
        self.blocks.restore(from, &self.geometry)?;
        self.placement.restore(from, &self.geometry)?;
        self.collector.restore(from, &self.geometry)?;
        if let Some(streams) = &mut self.streams {
            streams.restore(from, &self.geometry, self.blocks.table())?;
        }
        self.restore_cache();
        self.metadata.restore(from)?;
        for count in self.counters.values_mut() {
            *count = from.long()?;
        }
        self.delays = Delays::after(&self.counters);
        self.blocks.restore_wear(from)?;
        if let Some(retention) = &mut self.retention {
            let block_table = self.blocks.table();
            retention.restore(from, |block| block_table.erases(block))?;
        }
        self.placement.continue_from(crate::media::SequenceNumber(from.long()?));
        if !from.is_verified() {
            self.restore_reverse_map()?;
            self.check_restored()?;
        }
        self.restore_log(from)?;
        let (physical, logical) = (self.geometry.physical_units(), self.geometry.logical_units());
        if let Some(saved) = from.table_apart(physical as usize)? {
            let (saved, block_table) = (LazyTable::borrowed(saved), self.blocks.table_mut());
            if !from.is_verified() && !block_table.agrees_with(&saved, logical) {
                return damaged("the reverse map says otherwise than the map");
            }
            block_table.set_reverse_map(saved);
        }
        if from.is_verified() { Ok(()) } else { self.check_data_blocks() }
    }

    /// Finds the blocks in SLC mode: those whose victims are chosen apart.
    fn restore_cache(&mut self) {
        let Some(slc) = &mut self.slc else { return };
        for block in (0..self.geometry.blocks()).map(BlockIndex) {
            if self.blocks.table().is_separate(block) {
                slc.add_block(block);
            }
        }
        let programs = slc.programs_per_block();
        let is_limited = |block| slc.holds(block);
        self.placement.frontier_mut().limit_blocks(is_limited, programs);
        if let Some(streams) = &mut self.streams {
            streams.limit_blocks(is_limited, programs);
        }
    }

    /// Works out the reverse map of valid units from the map.
    fn restore_reverse_map(&mut self) -> Result<(), SnapshotError> {
        let block_table = self.blocks.table_mut();
        let mut next = self.map.next_mapped(LogicalUnit(0));
        while let Some((LogicalUnit(unit), physical)) = next {
            if physical.0 >= self.geometry.physical_units() {
                return damaged(format!("unit {unit} lies behind the end of the flash"));
            }
            if block_table.logical_at(physical).is_some() {
                return damaged(format!("unit {unit} lies where another does"));
            }
            block_table.note_written(physical, LogicalUnit(unit));
            next = self.map.next_mapped(LogicalUnit(unit + 1));
        }
        Ok(())
    }

    /// Checks that the tables agree with each other.
    fn check_restored(&self) -> Result<(), SnapshotError> {
        let mut blocks = Blocks::new(&self.geometry, self.blocks.table());
        let inactive = self.streams.iter().flat_map(|streams| streams.inactive_open_blocks());
        let host = self.placement.frontier().open_blocks().map(|it| (it, BlockState::OpenForHost));
        let copies = self.collector.frontier().open_blocks();
        let copies = copies.map(|it| (it, BlockState::OpenForCollection));
        for ((block, programs), state) in host.chain(copies).chain(inactive) {
            blocks.note_open(block, programs, state)?;
        }
        blocks.note_free(self.blocks.pool())?;
        let left_of = |block, programs| match &self.slc {
            Some(slc) if slc.holds(block) => slc.units_left(programs),
            _ => self.geometry.units_per_block() - programs * self.geometry.units_per_program(),
        };
        let retired = blocks.check(left_of)?;
        if retired != self.blocks.retired() {
            return damaged("more or fewer blocks are retired than went bad");
        }
        Ok(())
    }
}
