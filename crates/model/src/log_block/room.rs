//! Blocks that a drive with log blocks needs, and the one that it leaves to recovery.
//!
//! A block that a sequence or a merge has replaced is free at once, to be erased when what replaces it
//! is programmed. Until then it holds what a power cut leaves of it, and so does what replaces it. A
//! host that writes one logical block after the other from the start has as many of both as the write
//! buffer holds, and a cut would find no erased block left to merge into. So the last blocks are not
//! taken before all that was sent is programmed: a drive of few blocks has the host wait, and one with
//! spare blocks never comes to that.

use super::LogBlockSsd;
use crate::geometry::{Geometry, GeometryError};
use crate::mapping::Mapping;
use crate::media::Media;
use crate::units::Instant;

/// Which blocks are free to be taken, but not yet to recovery.
#[derive(Clone, Debug, Default)]
pub(super) struct RoomForRecovery {
    /// When nothing that they hold counts any more, of each.
    in_use_until: Vec<Instant>,
}

impl RoomForRecovery {
    /// Notes that a block is free, of which nothing counts any more from `until` on: what replaces it
    /// is programmed, and so are the records of what was trimmed.
    pub(super) fn note_free(&mut self, until: Instant) {
        self.in_use_until.push(until);
    }

    /// How many of them a power cut at `at` would find in use.
    fn in_use(&mut self, at: Instant) -> u32 {
        self.in_use_until.retain(|&until| until > at);
        self.in_use_until.len() as u32
    }
}

/// Checks that there are enough blocks: one for each logical block, the log blocks, the sequential
/// one, one that a merge writes to, and one for recovery: a power cut can come when all the others
/// are in use, and leaves a sequence and a merge that have to be written anew elsewhere.
pub(crate) fn check_room(geometry: &Geometry, log_blocks: u32) -> Result<(), GeometryError> {
    let logical = geometry.logical_units().div_ceil(geometry.units_per_block());
    let needed = logical + log_blocks + 3;
    if geometry.blocks() >= needed {
        return Ok(());
    }
    Err(GeometryError::NoRoomForLog { given: geometry.blocks(), needed, logical, log_blocks })
}

impl<M: Mapping, D: Media> LogBlockSsd<M, D> {
    /// When a block can be taken, not before `at`, so that recovery has one left whenever power is cut.
    pub(super) fn block_free_at(&mut self, at: Instant) -> Instant {
        let in_use = self.room.in_use(at);
        if in_use == 0 {
            return at;
        }
        // Recovery may have to write a data block of each logical block that has none.
        let taken = self.data.len() + self.logs.len() + usize::from(self.sequence.is_some());
        let spare = self.geometry().blocks().saturating_sub(taken as u32);
        if spare > 1 + in_use {
            return at;
        }
        let until = self.room.in_use_until.iter().copied().max();
        self.drained_at(at).max(until.unwrap_or(at))
    }
}
