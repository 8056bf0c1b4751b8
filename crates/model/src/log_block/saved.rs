//! A drive with log blocks turned off, its state as bytes, and back.

use super::room::RoomForRecovery;
use super::{LogBlockSsd, OpenLog};
use crate::flash::BlockState;
use crate::mapping::{Mapping, PageMap};
use crate::media::{Media, Null};
use crate::snapshot::{Decoder, Encoder, SnapshotError, damaged};
use crate::ssd::{Configuration, Ssd};
use crate::stream::WriteStream;
use crate::units::{BlockIndex, Instant, PhysicalUnit};

/// Stands for a logical block without a data block.
const NO_BLOCK: u32 = u32::MAX;

impl<M: Mapping, D: Media> LogBlockSsd<M, D> {
    /// Ends all work, as a host does that turns the drive off properly: a sequence that is begun
    /// is merged, and what the random log holds is programmed. Returns when that is so; the drive
    /// can be used on from there.
    pub fn shut_down(&mut self, at: Instant) -> Instant {
        let start = self.end_sequence(at.max(self.merging_until));
        self.pad_log(start);
        self.ssd.pay_all_debt();
        let recorded = self.ssd.make_trims_durable(start);
        let done = self.drained_at(start).max(recorded).max(self.ssd.resources.idle_from());
        self.ssd.release_buffer(done);
        self.forget_what_was_replaced();
        self.room = RoomForRecovery::default();
        // Blocks that a merge left in part empty have no last program to wait for.
        for block in (0..self.ssd.geometry.blocks()).map(BlockIndex) {
            if self.ssd.flash.state(block) == BlockState::Closing {
                self.ssd.flash.set_state(block, BlockState::Closed);
            }
        }
        self.ssd.forget_what_is_volatile();
        // What merges wrote is closed, whatever the streams remember of it.
        *self.ssd.collector.stream() = WriteStream::new(&self.ssd.geometry);
        self.merged = WriteStream::new(&self.ssd.geometry);
        done
    }

    /// Forgets which units log blocks hold that are valid elsewhere. While they are remembered, a log
    /// block is not reclaimed before what replaces them is on flash; now all is.
    fn forget_what_was_replaced(&mut self) {
        let per_block = self.ssd.geometry.units_per_block();
        for &block in &self.logs {
            let first = self.ssd.geometry.first_unit(block).0;
            for place in (first..first + per_block).map(PhysicalUnit) {
                let held = self.ssd.flash.logical_at(place);
                if held.is_some_and(|unit| !self.ssd.map.lies_at(unit, place)) {
                    self.ssd.flash.forget_unsent(place);
                }
            }
        }
    }

    /// Writes the state of a drive that was shut down.
    ///
    /// # Errors
    /// When writing fails.
    ///
    /// # Panics
    /// When it was not shut down.
    pub fn save(&self, to: &mut Encoder<'_>) -> Result<(), SnapshotError> {
        let LogBlockSsd {
            // From the configuration.
            log_blocks: _,
            // The only block that the host's stream has open.
            open_log: _,
            // Nothing, of a drive that was shut down.
            sequence,
            merged: _,
            merging_until: _,
            ssd,
            data,
            logs,
            group,
            // No and nothing, of a drive that was shut down.
            is_recovering: _,
            room: _,
        } = self;
        assert!(sequence.is_none(), "the drive was shut down");
        ssd.save(to)?;
        for block in data {
            to.word(block.map_or(NO_BLOCK, |block| block.0))?;
        }
        to.list(logs.iter().map(|block| block.0))?;
        Ok(to.word(*group)?)
    }

    fn restore(&mut self, from: &mut Decoder<'_>) -> Result<(), SnapshotError> {
        let geometry = self.ssd.geometry.clone();
        let mut is_used = vec![false; geometry.blocks() as usize];
        let mut open = self.ssd.host.open_blocks();
        self.open_log = open.next().map(|(block, programs)| OpenLog { block, programs });
        if open.next().is_some() || self.ssd.collector.open_blocks().next().is_some() {
            return damaged("more than one log block is being filled");
        }
        drop(open);
        let mut use_block = |block: BlockIndex| {
            let used = is_used.get_mut(block.0 as usize).map(|it| std::mem::replace(it, true));
            if used == Some(false) { Ok(()) } else { damaged("a block is used for two things") }
        };
        for (logical, slot) in (0..).zip(&mut self.data) {
            let block = BlockIndex(from.word()?);
            if block.0 == NO_BLOCK {
                continue;
            }
            use_block(block)?;
            let first = geometry.first_unit(block);
            let first_logical = logical * geometry.units_per_block();
            let held = self.ssd.flash.held(first, geometry.units_per_block());
            let is_own =
                |(&held, offset): (&u32, u32)| held == 0 || held == first_logical + offset + 1;
            let is_fine = self.ssd.flash.state(block) == BlockState::Closed;
            if !is_fine || !held.iter().zip(0..).all(is_own) {
                return damaged(format!("block {} is no data block", block.0));
            }
            *slot = Some(block);
        }
        let logs = from.list(self.log_blocks, geometry.blocks(), "the list of log blocks")?;
        for block in logs.into_iter().map(BlockIndex) {
            use_block(block)?;
            let is_open = self.open_log.is_some_and(|open| open.block == block);
            if !is_open && self.ssd.flash.state(block) != BlockState::Closed {
                return damaged(format!("block {} is no log block", block.0));
            }
            self.logs.push_back(block);
        }
        if self.open_log.is_some_and(|open| self.logs.back() != Some(&open.block)) {
            return damaged("the log block that is being filled is not the latest");
        }
        let used = is_used.iter().filter(|&&used| used).count();
        if used + self.ssd.free.len() as usize != geometry.blocks() as usize {
            return damaged("a block has no use");
        }
        self.group = from.at_most(geometry.groups() - 1, "a group of dies")?;
        Ok(())
    }
}

impl LogBlockSsd {
    /// A drive of `configuration` in a state that was saved, with flash that keeps no payload.
    ///
    /// # Errors
    /// When the bytes are no state of such a drive, or reading them fails.
    pub fn restored(
        configuration: &Configuration,
        from: &mut Decoder<'_>,
    ) -> Result<Self, SnapshotError> {
        let mut drive = LogBlockSsd::new(configuration)?;
        let map = PageMap::new(configuration.geometry.logical_units());
        drive.ssd = Ssd::restored_with(configuration, map, Null, from)?;
        drive.restore(from)?;
        Ok(drive)
    }
}
