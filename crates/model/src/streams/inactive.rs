//! Inactive write streams: stored while another stream of the same kind is being written.

use crate::geometry::Geometry;
use crate::snapshot::{Decoder, Encoder, SnapshotError};
use crate::write_frontier::WriteFrontier;

/// Streams of one kind: one is being written, the others are inactive.
#[derive(Clone, Debug)]
pub(super) struct InactiveFrontiers {
    pub(super) frontiers: Vec<WriteFrontier>,
    pub(super) active: usize,
}

impl InactiveFrontiers {
    /// Returns `count` streams that begin like `empty`, which is new.
    pub(super) fn new(empty: &WriteFrontier, count: u32) -> Self {
        InactiveFrontiers { frontiers: vec![empty.clone(); count as usize], active: 0 }
    }

    /// Exchanges `current`, the stream being written, for stream `to`.
    pub(super) fn switch(&mut self, current: &mut WriteFrontier, to: usize) {
        std::mem::swap(current, &mut self.frontiers[self.active]);
        std::mem::swap(current, &mut self.frontiers[to]);
        self.active = to;
    }

    /// Saves the inactive streams. Their owner saves the active one.
    pub(super) fn save(&self, to: &mut Encoder<'_>) -> Result<(), SnapshotError> {
        to.word(self.active as u32)?;
        self.others().try_for_each(|frontier| frontier.save(to))
    }

    pub(super) fn restore(
        &mut self,
        from: &mut Decoder<'_>,
        geometry: &Geometry,
    ) -> Result<(), SnapshotError> {
        let last = self.frontiers.len() - 1;
        self.active = from.at_most(last as u32, "the stream being written")? as usize;
        let active = self.active;
        let others = self.frontiers.iter_mut().enumerate().filter(|&(id, _)| id != active);
        others
            .map(|(_, frontier)| frontier)
            .try_for_each(|frontier| frontier.restore(from, geometry))
    }

    /// Iterates over the inactive streams, without the slot of the active one.
    pub(super) fn others(&self) -> impl Iterator<Item = &WriteFrontier> {
        self.frontiers.iter().zip(0..).filter(|&(_, id)| id != self.active).map(|(it, _)| it)
    }
}
