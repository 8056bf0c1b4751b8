//! State of the parts of blocks in the image, where it differs from the flash. A part of a block is its share
//! on one die.
//!
//! An erased part is cleared in two steps, because the second takes long. Without its records the part is
//! erased and can be programmed; its data takes up space until it is punched out or overwritten.

use std::collections::BTreeSet;

/// State of a part of a block in the image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PartState {
    /// As on the flash.
    AsOnFlash,
    /// Erased on the flash, with its records and data still in the image. They may be removed when all writes
    /// up to `stamp` are durable.
    Erased { stamp: u64 },
    /// Erased, without records, with data that still takes up space.
    DataOnly,
}

/// State of all parts.
#[derive(Debug)]
pub(super) struct PartStates {
    parts: Vec<PartState>,
    erased: BTreeSet<(u64, u32)>,
    data_only: BTreeSet<u32>,
}

impl PartStates {
    /// Returns the state of `count` parts, all of them as on the flash.
    pub(super) fn new(count: usize) -> PartStates {
        PartStates {
            parts: vec![PartState::AsOnFlash; count],
            erased: BTreeSet::new(),
            data_only: BTreeSet::new(),
        }
    }

    /// Returns the state of `part`.
    pub(super) fn get(&self, part: u32) -> PartState {
        self.parts[part as usize]
    }

    /// Sets the state of `part` to `now`.
    pub(super) fn set(&mut self, part: u32, now: PartState) {
        match std::mem::replace(&mut self.parts[part as usize], now) {
            PartState::AsOnFlash => {}
            PartState::Erased { stamp } => drop(self.erased.remove(&(stamp, part))),
            PartState::DataOnly => drop(self.data_only.remove(&part)),
        }
        match now {
            PartState::AsOnFlash => {}
            PartState::Erased { stamp } => drop(self.erased.insert((stamp, part))),
            PartState::DataOnly => drop(self.data_only.insert(part)),
        }
    }

    /// Returns the part that was erased first, with its stamp; `None` if there is none.
    pub(super) fn first_erased(&self) -> Option<(u64, u32)> {
        self.erased.first().copied()
    }

    /// Returns a part of which only data is left; `None` if there is none.
    pub(super) fn first_data_only(&self) -> Option<u32> {
        self.data_only.first().copied()
    }
}
