//! What the parts of blocks are in the image, beside what they are on the flash.
//!
//! What an erased part held goes in two steps, since the second takes long: without its records nothing
//! is there, and the part can be programmed; its data then takes up room until it is punched out or
//! written over.

use std::collections::BTreeSet;

/// What a part of a block is in the image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// What it is on the flash.
    Usual,
    /// Erased, and all that it held is still there. It goes when what was written up to that stamp is
    /// durable.
    Erased { stamp: u64 },
    /// Without records, and so erased, but its data takes up room.
    Bare,
}

/// What all parts are.
#[derive(Debug)]
pub(super) struct Parts {
    parts: Vec<Part>,
    erased: BTreeSet<(u64, u32)>,
    bare: BTreeSet<u32>,
}

impl Parts {
    /// So many, all of them as on the flash.
    pub(super) fn new(count: usize) -> Parts {
        Parts { parts: vec![Part::Usual; count], erased: BTreeSet::new(), bare: BTreeSet::new() }
    }

    /// Returns what `part` is.
    pub(super) fn get(&self, part: u32) -> Part {
        self.parts[part as usize]
    }

    /// Notes that `part` has become `now`.
    pub(super) fn set(&mut self, part: u32, now: Part) {
        match std::mem::replace(&mut self.parts[part as usize], now) {
            Part::Usual => {}
            Part::Erased { stamp } => drop(self.erased.remove(&(stamp, part))),
            Part::Bare => drop(self.bare.remove(&part)),
        }
        match now {
            Part::Usual => {}
            Part::Erased { stamp } => drop(self.erased.insert((stamp, part))),
            Part::Bare => drop(self.bare.insert(part)),
        }
    }

    /// The part that was erased first, with the stamp of that.
    pub(super) fn first_erased(&self) -> Option<(u64, u32)> {
        self.erased.first().copied()
    }

    /// A part of which only data is left.
    pub(super) fn first_bare(&self) -> Option<u32> {
        self.bare.first().copied()
    }
}
