//! Rotation: a share of the victims is not chosen, but has its turn, as the block closed longest ago.

use super::lists::Lists;
use crate::snapshot::{Decoder, Encoder, SnapshotError, damaged};

/// One victim, as [`Rotation::owed`] counts.
const WHOLE: u32 = 1 << 16;

/// All closed blocks in the order in which they were closed, and whose turn it is.
#[derive(Clone, Debug)]
pub(super) struct Rotation {
    /// One list: the block that was closed last comes first.
    closed: Lists,
    /// Per block, its number among all that were closed.
    numbers: Vec<u64>,
    next: u64,
    /// The share of victims that it takes, of [`WHOLE`].
    share: u32,
    /// What has come together of a victim, and what had before the last one.
    owed: u32,
    owed_before: u32,
}

impl Rotation {
    /// Of `blocks` blocks, none of which is closed; `share` is from 0 to 1.
    pub(super) fn new(share: f64, blocks: u32) -> Rotation {
        Rotation {
            closed: Lists::new(blocks, 1),
            numbers: vec![0; blocks as usize],
            next: 0,
            share: (share * f64::from(WHOLE)).round() as u32,
            owed: 0,
            owed_before: 0,
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

    /// The block that the next victim has to be, if it is not to be chosen; some block is closed.
    pub(super) fn take_turn(&mut self) -> Option<u32> {
        self.owed_before = self.owed;
        self.owed += self.share;
        if self.owed < WHOLE {
            return None;
        }
        self.owed -= WHOLE;
        Some(self.closed.last(0))
    }

    /// Puts back the block that was taken last, to where it was, and its turn with it.
    pub(super) fn put_back(&mut self, block: u32) {
        self.owed = self.owed_before;
        let number = self.numbers[block as usize];
        let is_later = |it: &u32| self.numbers[*it as usize] > number;
        let later = self.closed.blocks_from_last(0).find(is_later);
        match later {
            Some(later) => self.closed.link_behind(block, later),
            None => self.closed.link(block, 0),
        }
    }

    pub(super) fn save(&self, to: &mut Encoder<'_>) -> Result<(), SnapshotError> {
        let Rotation { closed, numbers: _, next: _, share: _, owed, owed_before: _ } = self;
        to.word(*owed)?;
        let blocks: Vec<u32> = closed.blocks_from_last(0).collect();
        Ok(to.list(blocks.into_iter())?)
    }

    /// Takes on what was saved, after as many blocks were inserted in any order; `is_closed` says which.
    pub(super) fn restore(
        &mut self,
        from: &mut Decoder<'_>,
        closed: u32,
        is_closed: &[bool],
    ) -> Result<(), SnapshotError> {
        self.owed = from.at_most(WHOLE - 1, "the turn of rotation")?;
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
