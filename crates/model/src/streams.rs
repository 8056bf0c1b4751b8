//! Several write streams: data of different temperature goes to separate blocks.
//!
//! Blocks that hold only hot units soon have no valid data, and blocks that hold only cold units stay as they are; in
//! mixed blocks each victim costs copies of cold units. So each host stream fills blocks of its own, and garbage
//! collection copies the data of a stream's block to blocks that only copies of that stream fill. The host names the
//! stream of a write (NVMe 1.3, directives, streams: an identifier with each write), or the drive finds it out.
//!
//! A drive has one open program unit per host stream, so that its write buffer has to survive a power cut: streams
//! need power-loss protection. Copies have one open program unit in all. When garbage collection turns to a block of
//! another stream, it completes the open program unit with padding. If the host waits for a block to be freed and
//! padding would use up the space that the collection gains, it completes the program unit with data of that block
//! instead.

mod inactive;

use crate::block_table::{BlockState, BlockTable};
use crate::geometry::Geometry;
use crate::mechanisms::Mechanisms;
use crate::snapshot::{Decoder, Encoder, SnapshotError, damaged};
use crate::units::{BlockIndex, PhysicalUnit};
use crate::write_frontier::WriteFrontier;
use inactive::InactiveFrontiers;

/// Largest number of write streams of a drive.
pub const STREAMS_MAX: u32 = 16;

/// Number of a write stream, from zero. Stream 0 takes writes without a hint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamId(pub u8);

impl StreamId {
    /// Stream of hot data on a drive that finds out the temperature itself.
    pub const HOT: StreamId = StreamId(1);
}

/// Separation of data by temperature.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StreamParameters {
    /// Number of write streams, from 1 (nothing is separated) to [`STREAMS_MAX`].
    pub count: u32,
    /// Limit of hot data on a drive that finds out the temperature itself: a unit is hot if the host overwrites it
    /// before it has begun this many further blocks, given as a share of the drive's blocks. A unit that garbage
    /// collection has moved is cold. Needs two streams. `None` if the drive does not find out the temperature.
    pub hot_within: Option<f64>,
    /// Share of the blocks in use that the hot one of two streams keeps. If it is `None`, the streams share the
    /// over-provisioning, and the policy takes the best victim of all.
    pub hot_blocks: Option<f64>,
}

impl Default for StreamParameters {
    fn default() -> Self {
        StreamParameters { count: 1, hot_within: None, hot_blocks: None }
    }
}

/// State of a drive with several write streams; a drive with one stream has none.
#[derive(Clone, Debug)]
pub(crate) struct Streams {
    parameters: StreamParameters,
    /// True if wear levelling has a stream of copies of its own, which is the last.
    levelling_is_separate: bool,
    host: InactiveFrontiers,
    copies: InactiveFrontiers,
    /// Stream that the host has named for its next write.
    hint: Option<StreamId>,
    /// Stream of each block.
    of_block: Vec<u8>,
    /// Per block, the number of blocks that the host streams had begun, this one included, when it was begun; zero
    /// for copies.
    begun: Vec<u32>,
    host_blocks: u32,
    /// A block is young while the host has begun fewer blocks than this since.
    young: u32,
    /// Number of blocks in use of the hot stream, and the number that it keeps.
    hot_blocks: u32,
    hot_blocks_max: u32,
}

impl Streams {
    /// Returns the streams of a drive of which `in_use` blocks hold data; `None` if copies go to a single stream.
    pub(crate) fn new(
        geometry: &Geometry,
        mechanisms: &Mechanisms,
        in_use: u32,
    ) -> Option<Box<Streams>> {
        let parameters = &mechanisms.streams;
        let of_copies = mechanisms.streams_of_copies();
        if of_copies == 1 {
            return None;
        }
        let blocks = geometry.blocks();
        let of = |share: Option<f64>, whole: u32| {
            share.map_or(0, |share| (share * f64::from(whole)).round() as u32)
        };
        let empty = WriteFrontier::new(geometry).with_allocation(mechanisms.allocation);
        Some(Box::new(Streams {
            parameters: *parameters,
            levelling_is_separate: of_copies > parameters.count,
            host: InactiveFrontiers::new(&empty, parameters.count),
            copies: InactiveFrontiers::new(&empty, of_copies),
            hint: None,
            of_block: vec![0; blocks as usize],
            begun: vec![0; blocks as usize],
            host_blocks: 0,
            young: of(parameters.hot_within, blocks),
            hot_blocks: 0,
            hot_blocks_max: of(parameters.hot_blocks, in_use),
        }))
    }

    /// Returns true if `stream` keeps blocks of its own, so that their victims are chosen apart.
    fn is_separate(&self, stream: usize) -> bool {
        self.keeps_hot_blocks() && stream == usize::from(StreamId::HOT.0)
    }

    /// Returns true if the hot stream keeps blocks of its own.
    pub(crate) fn keeps_hot_blocks(&self) -> bool {
        self.parameters.hot_blocks.is_some()
    }

    /// Returns true if the next victim is to be a block of the hot stream.
    pub(crate) fn collects_hot(&self) -> bool {
        self.hot_blocks > self.hot_blocks_max
    }

    /// Notes that the next write of the host belongs to `stream`.
    ///
    /// # Panics
    /// Panics if the drive has no such stream.
    pub(crate) fn hint(&mut self, stream: StreamId) {
        let count = self.parameters.count;
        assert!(u32::from(stream.0) < count, "the drive has {count} write streams");
        self.hint = Some(stream);
    }

    /// Returns the stream that the host has named for the write being carried out, and forgets it.
    pub(crate) fn take_hint(&mut self) -> Option<StreamId> {
        self.hint.take()
    }

    /// Forgets the stream that the host has named for a write to come, as at power-off.
    pub(crate) fn forget_hint(&mut self) {
        self.hint = None;
    }

    /// Notes that `block`, which was just opened, belongs to `stream`. Returns true if its victims are chosen apart.
    pub(crate) fn assign_block(&mut self, block: BlockIndex, stream: StreamId) -> bool {
        self.of_block[block.0 as usize] = stream.0;
        let is_separate = self.is_separate(stream.0.into());
        self.hot_blocks += u32::from(is_separate);
        is_separate
    }

    /// Returns the inactive host stream `stream`, or, if `by_host` is false, the inactive stream of its copies.
    pub(crate) fn inactive(&mut self, stream: StreamId, by_host: bool) -> &mut WriteFrontier {
        let inactive = if by_host { &mut self.host } else { &mut self.copies };
        assert!(inactive.active != usize::from(stream.0), "it is inactive");
        &mut inactive.frontiers[usize::from(stream.0)]
    }

    /// Iterates over the inactive streams. The slot of an active stream holds one that was never written.
    pub(crate) fn inactive_mut(&mut self) -> impl Iterator<Item = &mut WriteFrontier> {
        self.host.frontiers.iter_mut().chain(&mut self.copies.frontiers)
    }

    /// Iterates over the open blocks of inactive streams, each with its filled program units and its state.
    pub(crate) fn inactive_open_blocks(
        &self,
    ) -> impl Iterator<Item = ((BlockIndex, u32), BlockState)> + '_ {
        let of = |inactive: &'_ InactiveFrontiers, state| {
            let blocks: Vec<_> = inactive.others().flat_map(WriteFrontier::open_blocks).collect();
            blocks.into_iter().map(move |it| (it, state))
        };
        let copies = of(&self.copies, BlockState::OpenForCollection);
        of(&self.host, BlockState::OpenForHost).chain(copies)
    }

    /// Limits open blocks of inactive host streams for which `is_limited` is true to `programs` program units.
    pub(crate) fn limit_blocks(&mut self, is_limited: impl Fn(BlockIndex) -> bool, programs: u32) {
        for frontier in &mut self.host.frontiers {
            frontier.limit_blocks(&is_limited, programs);
        }
    }

    pub(crate) fn save(&self, to: &mut Encoder<'_>) -> Result<(), SnapshotError> {
        let Streams {
            // From the configuration.
            parameters: _,
            levelling_is_separate: _,
            young: _,
            hot_blocks_max: _,
            // Empty on a drive that was shut down.
            hint: _,
            // Follows from the blocks whose victims are chosen apart.
            hot_blocks: _,
            host,
            copies,
            of_block,
            begun,
            host_blocks,
        } = self;
        host.save(to)?;
        copies.save(to)?;
        for &stream in of_block {
            to.word(stream.into())?;
        }
        to.table(begun)?;
        Ok(to.word(*host_blocks)?)
    }

    /// Restores saved streams into new ones. The caller checks that the blocks are open for these streams.
    pub(crate) fn restore(
        &mut self,
        from: &mut Decoder<'_>,
        geometry: &Geometry,
        block_table: &BlockTable,
    ) -> Result<(), SnapshotError> {
        self.host.restore(from, geometry)?;
        self.copies.restore(from, geometry)?;
        for stream in &mut self.of_block {
            let last = self.copies.frontiers.len() as u32 - 1;
            *stream = from.at_most(last, "a block's stream")? as u8;
        }
        self.begun = from.table(self.begun.len())?;
        self.host_blocks = from.word()?;
        if self.begun.iter().any(|&begun| begun > self.host_blocks) {
            return damaged("a block was begun after the latest");
        }
        // If the hot stream keeps no blocks, the blocks whose victims are chosen apart belong to an SLC cache.
        let apart = if self.keeps_hot_blocks() { geometry.blocks() } else { 0 };
        for block in (0..apart).map(BlockIndex) {
            let is_hot = block_table.is_separate(block);
            self.hot_blocks += u32::from(is_hot);
            if is_hot && !self.is_separate(usize::from(self.of_block[block.0 as usize])) {
                return damaged("a block of another stream is among the hot stream's");
            }
        }
        Ok(())
    }

    /// Returns the stream of a write that replaces data in block `old`, for writes without a hint of the host.
    pub(crate) fn guess(&self, old: Option<BlockIndex>) -> StreamId {
        let is_hot =
            self.parameters.hot_within.is_some() && old.is_some_and(|block| self.is_young(block));
        if is_hot { StreamId::HOT } else { StreamId::default() }
    }

    /// Returns the host stream being written.
    pub(crate) fn active(&self) -> StreamId {
        StreamId(self.host.active as u8)
    }

    /// Exchanges `current`, the host stream being written, for stream `to`.
    pub(crate) fn switch_host(&mut self, current: &mut WriteFrontier, to: StreamId) {
        self.host.switch(current, to.0.into());
    }

    /// Returns an inactive host stream that has units in an unfinished program unit.
    pub(crate) fn partial_inactive(&self) -> Option<StreamId> {
        let is_partial = |it: &WriteFrontier| it.is_partial() || it.partial_group().is_some();
        let place = self.host.frontiers.iter().position(is_partial);
        place.map(|place| StreamId(place as u8))
    }

    /// Returns an inactive host stream that has begun a program unit and not filled it.
    pub(crate) fn begun_inactive(&self) -> Option<StreamId> {
        let place = self.host.frontiers.iter().position(WriteFrontier::is_begun);
        place.map(|place| StreamId(place as u8))
    }

    /// Resets all streams of a drive all of whose blocks are about to be erased.
    pub(crate) fn reset(&mut self, geometry: &Geometry) {
        for inactive in [&mut self.host, &mut self.copies] {
            let empty = inactive.frontiers[0].empty_like(geometry);
            *inactive = InactiveFrontiers::new(&empty, inactive.frontiers.len() as u32);
        }
        self.hot_blocks = 0;
    }

    /// Returns true if an inactive host stream holds `unit` in the program unit that it is filling.
    pub(crate) fn is_in_inactive(&self, unit: PhysicalUnit) -> bool {
        self.host.others().any(|frontier| frontier.holds(unit))
    }

    /// Notes that the active host stream, or that of copies, has begun `block`. Returns true if its victims are
    /// chosen apart.
    pub(crate) fn note_begun(&mut self, block: BlockIndex, by_host: bool) -> bool {
        let stream = if by_host { self.host.active } else { self.copies.active };
        self.host_blocks += u32::from(by_host);
        self.begun[block.0 as usize] = if by_host { self.host_blocks } else { 0 };
        self.of_block[block.0 as usize] = stream as u8;
        let is_separate = self.is_separate(stream);
        self.hot_blocks += u32::from(is_separate);
        is_separate
    }

    /// Returns the stream of copies for the data of `victim`; `levels` is true if wear levelling moves that data.
    pub(crate) fn copies_of(&self, victim: BlockIndex, levels: bool) -> usize {
        if self.levelling_is_separate && levels {
            return self.copies.frontiers.len() - 1;
        }
        self.of_block[victim.0 as usize].into()
    }

    /// Returns the stream of copies being written.
    pub(crate) fn active_of_copies(&self) -> usize {
        self.copies.active
    }

    /// Exchanges `current`, the stream of copies being written, for stream `to`.
    pub(crate) fn switch_copies(&mut self, current: &mut WriteFrontier, to: usize) {
        self.copies.switch(current, to);
    }

    /// Notes that `victim` is being collected.
    pub(crate) fn note_victim(&mut self, victim: BlockIndex) {
        if self.is_separate(self.of_block[victim.0 as usize].into()) {
            self.hot_blocks -= 1;
        }
    }

    /// Returns true if the host began `block` not long ago, so that data rewritten there is hot.
    fn is_young(&self, block: BlockIndex) -> bool {
        let begun = self.begun[block.0 as usize];
        begun != 0 && self.host_blocks - begun < self.young
    }
}
