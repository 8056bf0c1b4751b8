//! Rotation: a share of the victims is not chosen by the policy but taken in turn, as the block closed longest ago.

use super::lists::Lists;
use crate::snapshot::{Decoder, Encoder, SnapshotError, damaged};

/// One victim in the unit of [`Rotation::accumulated`].
const WHOLE: u32 = 1 << 16;

/// All closed blocks in the order in which they were closed, and the accumulated share of the next victim in
/// rotation.
#[derive(Clone, Debug)]
pub(super) struct Rotation {
    /// One list; the block that was closed last comes first.
    closed: Lists,
    /// Per block, its number in the order of closing.
    numbers: Vec<u64>,
    next: u64,
    /// Share of the victims taken in rotation, in parts of [`WHOLE`].
    share: u32,
    /// Accumulated share of a victim, and its value before the last victim.
    accumulated: u32,
    accumulated_before: u32,
}

impl Rotation {
    /// Returns the rotation of a drive with `blocks` blocks, none of them closed; `share` is from 0 to 1.
    pub(super) fn new(share: f64, blocks: u32) -> Rotation {
        Rotation {
            closed: Lists::new(blocks, 1),
            numbers: vec![0; blocks as usize],
            next: 0,
            share: (share * f64::from(WHOLE)).round() as u32,
            accumulated: 0,
            accumulated_before: 0,
        }
    }

    pub(super) fn insert(&mut self, block: u32) {
        self.numbers[block as usize] = self.next;
        self.next += 1;
        self.closed.link(block, 0);
    }

    pub(super) fn remove(&mut self, block: u32) {
        self.closed.unlink(block);
    }

    /// Adds the share of one victim. Returns the block closed longest ago if rotation takes this victim, else `None`.
    /// Some block must be closed.
    pub(super) fn take_turn(&mut self) -> Option<u32> {
        self.accumulated_before = self.accumulated;
        self.accumulated += self.share;
        if self.accumulated < WHOLE {
            return None;
        }
        self.accumulated -= WHOLE;
        Some(self.closed.last(0))
    }

    /// Returns the block closed longest ago; `None` if none is closed.
    pub(super) fn next(&self) -> Option<u32> {
        self.closed.blocks_from_last(0).next()
    }

    /// Puts back the block that was taken last at its old position, and undoes its turn.
    pub(super) fn put_back(&mut self, block: u32) {
        self.accumulated = self.accumulated_before;
        let number = self.numbers[block as usize];
        let is_later = |it: &u32| self.numbers[*it as usize] > number;
        let later = self.closed.blocks_from_last(0).find(is_later);
        match later {
            Some(later) => self.closed.link_behind(block, later),
            None => self.closed.link(block, 0),
        }
    }

    pub(super) fn save(&self, to: &mut Encoder<'_>) -> Result<(), SnapshotError> {
        let Rotation { closed, numbers: _, next: _, share: _, accumulated, accumulated_before: _ } =
            self;
        to.word(*accumulated)?;
        let blocks: Vec<u32> = closed.blocks_from_last(0).collect();
        Ok(to.list(blocks.into_iter())?)
    }

    /// Restores a saved rotation. Before, the same blocks were inserted in any order: `closed` blocks, those with
    /// `is_closed` set.
    pub(super) fn restore(
        &mut self,
        from: &mut Decoder<'_>,
        closed: u32,
        is_closed: &[bool],
    ) -> Result<(), SnapshotError> {
        self.accumulated = from.at_most(WHOLE - 1, "the turn of rotation")?;
        let blocks = is_closed.len() as u32;
        let listed = from.list(closed, blocks, "the order in which blocks were closed")?;
        let mut is_left = is_closed.to_vec();
        let is_known = |&it: &u32| std::mem::replace(&mut is_left[it as usize], false);
        if listed.len() as u32 != closed || !listed.iter().all(is_known) {
            return damaged("the order in which blocks were closed is of other blocks");
        }
        for &block in &listed {
            self.remove(block);
            self.insert(block);
        }
        Ok(())
    }
}
