//! Several write streams: data of different temperature in blocks of its own.
//!
//! Blocks that hold hot units only are soon empty, and blocks that hold cold ones only are left
//! alone; mixed, each victim carries cold units along. So each stream of the host fills blocks of
//! its own, and what collection moves out of a stream's block goes to blocks that only copies of
//! that stream fill. Which stream a write belongs to is said by the host (NVMe 1.3, directives,
//! streams: an identifier with each write) or found out by the drive.
//!
//! A drive has one open program unit per stream of the host, so that its buffer has to outlive a
//! power cut: streams need capacitors. Copies have one open program unit in all. When collection
//! goes on to a block of another stream, what is open is completed with padding; or with what that
//! block holds, when the host waits for a block to be freed and padding would take what it yields.

mod aside;

use crate::flash::{BlockState, Flash};
use crate::geometry::Geometry;
use crate::mechanisms::Mechanisms;
use crate::snapshot::{Decoder, Encoder, SnapshotError, damaged};
use crate::stream::WriteStream;
use crate::units::{BlockIndex, PhysicalUnit};
use aside::Aside;

/// Most streams that a drive can have.
pub const STREAMS_MAX: u32 = 16;

/// One of a drive's write streams, counted from zero: where a write goes without a hint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamId(pub u8);

impl StreamId {
    /// Where a drive that finds out itself puts what it takes to be hot.
    pub const HOT: StreamId = StreamId(1);
}

/// How a drive separates data by temperature.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StreamParameters {
    /// Write streams: 1, so that nothing is separated, to [`STREAMS_MAX`].
    pub count: u32,
    /// What the drive takes to be hot, if it finds out itself: a unit that is overwritten when
    /// the host has filled less than this since, as a share of the drive's blocks. A unit that
    /// collection has moved is cold. Needs two streams.
    pub hot_within: Option<f64>,
    /// The share of the blocks in use that the hot one of two streams keeps; without it all
    /// spare area is common, and the policy finds the best victim of all.
    pub hot_blocks: Option<f64>,
}

impl Default for StreamParameters {
    fn default() -> Self {
        StreamParameters { count: 1, hot_within: None, hot_blocks: None }
    }
}

/// The state of several streams; a drive of one stream has none.
#[derive(Clone, Debug)]
pub(crate) struct Streams {
    parameters: StreamParameters,
    /// True if what is moved to level wear has a stream of copies of its own, the last.
    levels_apart: bool,
    host: Aside,
    copies: Aside,
    /// What the host says of the write to come.
    hint: Option<StreamId>,
    /// Per block, the stream it belongs to.
    of_block: Vec<u8>,
    /// Per block, how many blocks the host had filled when it began with it; zero for copies.
    begun: Vec<u32>,
    host_blocks: u32,
    /// A block is young while the host has begun fewer since.
    young: u32,
    /// Blocks of the hot stream, and how many it keeps.
    hot_blocks: u32,
    hot_blocks_max: u32,
}

impl Streams {
    /// Streams for a drive of which `in_use` blocks hold data; nothing for a drive of one.
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
        Some(Box::new(Streams {
            parameters: *parameters,
            levels_apart: of_copies > parameters.count,
            host: Aside::new(geometry, parameters.count),
            copies: Aside::new(geometry, of_copies),
            hint: None,
            of_block: vec![0; blocks as usize],
            begun: vec![0; blocks as usize],
            host_blocks: 0,
            young: of(parameters.hot_within, blocks),
            hot_blocks: 0,
            hot_blocks_max: of(parameters.hot_blocks, in_use),
        }))
    }

    /// Returns true if `stream` keeps blocks of its own, so that victims are chosen apart.
    fn is_apart(&self, stream: usize) -> bool {
        self.keeps_hot_blocks() && stream == usize::from(StreamId::HOT.0)
    }

    /// Returns true if the hot stream keeps blocks of its own.
    pub(crate) fn keeps_hot_blocks(&self) -> bool {
        self.parameters.hot_blocks.is_some()
    }

    /// Returns true if the next victim is to be one of the hot stream's.
    pub(crate) fn collects_hot(&self) -> bool {
        self.hot_blocks > self.hot_blocks_max
    }

    /// The host says that its next write belongs to `stream`.
    ///
    /// # Panics
    /// When the drive has no such stream.
    pub(crate) fn hint(&mut self, stream: StreamId) {
        let count = self.parameters.count;
        assert!(u32::from(stream.0) < count, "the drive has {count} write streams");
        self.hint = Some(stream);
    }

    /// Returns what the host has said of the write that is acted on.
    pub(crate) fn take_hint(&mut self) -> Option<StreamId> {
        self.hint.take()
    }

    /// The drive is turned off: what the host said of a write to come is forgotten.
    pub(crate) fn forget_hint(&mut self) {
        self.hint = None;
    }

    /// `block`, which was just opened, belongs to `stream`; whether its victims are chosen apart.
    pub(crate) fn take_over(&mut self, block: BlockIndex, stream: StreamId) -> bool {
        self.of_block[block.0 as usize] = stream.0;
        let is_apart = self.is_apart(stream.0.into());
        self.hot_blocks += u32::from(is_apart);
        is_apart
    }

    /// The host's stream numbered `stream`, or that of its copies, which is put aside.
    pub(crate) fn aside(&mut self, stream: StreamId, by_host: bool) -> &mut WriteStream {
        let aside = if by_host { &mut self.host } else { &mut self.copies };
        assert!(aside.active != usize::from(stream.0), "it is put aside");
        &mut aside.streams[usize::from(stream.0)]
    }

    /// The streams that are put aside; of those that are not, one that was never written.
    pub(crate) fn put_aside_mut(&mut self) -> impl Iterator<Item = &mut WriteStream> {
        self.host.streams.iter_mut().chain(&mut self.copies.streams)
    }

    /// Blocks that streams put aside write to, with the program units that are filled.
    pub(crate) fn open_blocks_aside(
        &self,
    ) -> impl Iterator<Item = ((BlockIndex, u32), BlockState)> + '_ {
        let of = |aside: &'_ Aside, state| {
            let blocks: Vec<_> = aside.others().flat_map(WriteStream::open_blocks).collect();
            blocks.into_iter().map(move |it| (it, state))
        };
        let copies = of(&self.copies, BlockState::OpenForCollection);
        of(&self.host, BlockState::OpenForHost).chain(copies)
    }

    /// Has blocks of the host's streams put aside that `is_limited` take `programs` program units only.
    pub(crate) fn limit_blocks(&mut self, is_limited: impl Fn(BlockIndex) -> bool, programs: u32) {
        for stream in &mut self.host.streams {
            stream.limit_blocks(&is_limited, programs);
        }
    }

    pub(crate) fn save(&self, to: &mut Encoder<'_>) -> Result<(), SnapshotError> {
        let Streams {
            // From the configuration.
            parameters: _,
            levels_apart: _,
            young: _,
            hot_blocks_max: _,
            // Nothing, of a drive that was shut down.
            hint: _,
            // Those whose victims are chosen apart.
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

    /// Takes on what was saved of streams that were new. Whether blocks are open for them is
    /// checked by the caller.
    pub(crate) fn restore(
        &mut self,
        from: &mut Decoder<'_>,
        geometry: &Geometry,
        flash: &Flash,
    ) -> Result<(), SnapshotError> {
        self.host.restore(from, geometry)?;
        self.copies.restore(from, geometry)?;
        for stream in &mut self.of_block {
            let last = self.copies.streams.len() as u32 - 1;
            *stream = from.at_most(last, "a block's stream")? as u8;
        }
        self.begun = from.table(self.begun.len())?;
        self.host_blocks = from.word()?;
        if self.begun.iter().any(|&begun| begun > self.host_blocks) {
            return damaged("a block was begun after the latest");
        }
        // Without blocks that the hot stream keeps, those apart are a cache's.
        let apart = if self.keeps_hot_blocks() { geometry.blocks() } else { 0 };
        for block in (0..apart).map(BlockIndex) {
            let is_hot = flash.is_apart(block);
            self.hot_blocks += u32::from(is_hot);
            if is_hot && !self.is_apart(usize::from(self.of_block[block.0 as usize])) {
                return damaged("a block of another stream is among the hot stream's");
            }
        }
        Ok(())
    }

    /// The stream that a write belongs to that goes where `old` is rewritten, if the host has said nothing of it.
    pub(crate) fn guess(&self, old: Option<BlockIndex>) -> StreamId {
        let is_hot =
            self.parameters.hot_within.is_some() && old.is_some_and(|block| self.is_young(block));
        if is_hot { StreamId::HOT } else { StreamId::default() }
    }

    /// The host's stream being written.
    pub(crate) fn active(&self) -> StreamId {
        StreamId(self.host.active as u8)
    }

    /// Makes `current`, the host's stream being written, the one numbered `to`.
    pub(crate) fn switch_host(&mut self, current: &mut WriteStream, to: StreamId) {
        self.host.switch(current, to.0.into());
    }

    /// A stream of the host's put aside that holds something in the program unit that it is filling.
    pub(crate) fn partial_aside(&self) -> Option<StreamId> {
        let place = self.host.streams.iter().position(WriteStream::is_partial);
        place.map(|place| StreamId(place as u8))
    }

    /// A stream of the host's put aside that has begun a program unit and not filled it.
    pub(crate) fn begun_aside(&self) -> Option<StreamId> {
        let place = self.host.streams.iter().position(|stream| stream.room() > 0);
        place.map(|place| StreamId(place as u8))
    }

    /// Forgets where they write to, of a drive all of whose blocks are about to be erased.
    pub(crate) fn begin_anew(&mut self, geometry: &Geometry) {
        for aside in [&mut self.host, &mut self.copies] {
            *aside = Aside::new(geometry, aside.streams.len() as u32);
        }
        self.hot_blocks = 0;
    }

    /// Returns true if a stream of the host's put aside holds `unit` in the program unit that it is filling.
    pub(crate) fn hold_aside(&self, unit: PhysicalUnit) -> bool {
        self.host.others().any(|stream| stream.holds(unit))
    }

    /// Notes that the host's stream, or that of copies, has begun `block`; whether its victims are chosen
    /// apart.
    pub(crate) fn note_begun(&mut self, block: BlockIndex, by_host: bool) -> bool {
        let stream = if by_host { self.host.active } else { self.copies.active };
        self.host_blocks += u32::from(by_host);
        self.begun[block.0 as usize] = if by_host { self.host_blocks } else { 0 };
        self.of_block[block.0 as usize] = stream as u8;
        let is_apart = self.is_apart(stream);
        self.hot_blocks += u32::from(is_apart);
        is_apart
    }

    /// The stream of copies that what `victim` holds belongs to; `levels` says that it is moved to level wear.
    pub(crate) fn copies_of(&self, victim: BlockIndex, levels: bool) -> usize {
        if self.levels_apart && levels {
            return self.copies.streams.len() - 1;
        }
        self.of_block[victim.0 as usize].into()
    }

    /// The stream of copies being written.
    pub(crate) fn active_of_copies(&self) -> usize {
        self.copies.active
    }

    /// Makes `current`, the stream of copies being written, the one numbered `to`.
    pub(crate) fn switch_copies(&mut self, current: &mut WriteStream, to: usize) {
        self.copies.switch(current, to);
    }

    /// `victim` is being collected.
    pub(crate) fn note_victim(&mut self, victim: BlockIndex) {
        if self.is_apart(self.of_block[victim.0 as usize].into()) {
            self.hot_blocks -= 1;
        }
    }

    /// Returns true if what the host rewrites was in a block that it began not long ago.
    fn is_young(&self, block: BlockIndex) -> bool {
        let begun = self.begun[block.0 as usize];
        begun != 0 && self.host_blocks - begun < self.young
    }
}
