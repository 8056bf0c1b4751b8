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
use crate::mapping::Mapping;
use crate::mechanisms::Mechanisms;
use crate::media::Media;
use crate::snapshot::{Decoder, Encoder, SnapshotError, damaged};
use crate::ssd::Ssd;
use crate::stream::WriteStream;
use crate::units::{BlockIndex, LogicalUnit, PhysicalUnit};
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
    /// Whether what is moved to level wear has a stream of copies of its own, the last.
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

    /// Whether `stream` keeps blocks of its own, so that victims are chosen apart.
    fn is_apart(&self, stream: usize) -> bool {
        self.parameters.hot_blocks.is_some() && stream == usize::from(StreamId::HOT.0)
    }

    /// Whether the next victim is to be one of the hot stream's.
    pub(crate) fn collects_hot(&self) -> bool {
        self.hot_blocks > self.hot_blocks_max
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
        for block in (0..geometry.blocks()).map(BlockIndex) {
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

    /// Whether a stream of the host's put aside holds `unit` in the program unit that it is filling.
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

    /// Whether what the host rewrites was in a block that it began not long ago.
    fn is_young(&self, block: BlockIndex) -> bool {
        let begun = self.begun[block.0 as usize];
        begun != 0 && self.host_blocks - begun < self.young
    }
}

impl<M: Mapping, D: Media> Ssd<M, D> {
    /// Says which stream the next write belongs to, as NVMe's streams directive does.
    ///
    /// # Panics
    /// When the drive has no such stream.
    pub fn hint_stream(&mut self, stream: StreamId) {
        let count = self.streams.as_ref().map_or(1, |it| it.parameters.count);
        assert!(u32::from(stream.0) < count, "the drive has {count} write streams");
        if let Some(streams) = &mut self.streams {
            streams.hint = Some(stream);
        }
    }

    /// What the host has said of the write that it sends now.
    pub(crate) fn take_hint(&mut self) -> Option<StreamId> {
        self.streams.as_mut().and_then(|streams| streams.hint.take())
    }

    /// Makes the stream that a write of `first` belongs to the one being written.
    pub(crate) fn choose_stream(&mut self, first: LogicalUnit) {
        let stream = self.take_hint().unwrap_or_else(|| self.stream_of(first));
        self.write_to(stream);
    }

    /// The stream that a write of `first` belongs to, of which the host has said nothing.
    pub(crate) fn stream_of(&self, first: LogicalUnit) -> StreamId {
        let guesses = |streams: &&Streams| streams.parameters.hot_within.is_some();
        let Some(streams) = self.streams.as_deref().filter(guesses) else {
            return StreamId::default();
        };
        let old = self.map.get(first).map(|old| self.geometry.block_of(old));
        let is_hot = old.is_some_and(|block| streams.is_young(block));
        if is_hot { StreamId::HOT } else { StreamId::default() }
    }

    /// Makes `stream` the one being written.
    pub(crate) fn write_to(&mut self, stream: StreamId) {
        let to = usize::from(stream.0);
        if let Some(streams) = &mut self.streams
            && to != streams.host.active
        {
            streams.host.switch(&mut self.host, to);
        }
    }

    /// Makes the stream the one being written that has filled the program unit from `start` on and
    /// not sent it off; whether there is one.
    pub(crate) fn choose_stream_filled_from(&mut self, start: PhysicalUnit) -> bool {
        if self.host.is_filled_from(start) {
            return true;
        }
        let Some(streams) = &mut self.streams else { return false };
        // In the place of the one being written is one that was never written.
        let mut all = streams.host.streams.iter();
        let Some(to) = all.position(|stream| stream.is_filled_from(start)) else { return false };
        streams.host.switch(&mut self.host, to);
        true
    }

    /// Notes that the host's stream, or that of copies, has begun `block`.
    pub(crate) fn note_block_begun(&mut self, block: BlockIndex, by_host: bool) {
        self.note_data_begun(block);
        let Some(streams) = &mut self.streams else {
            return;
        };
        let stream = if by_host { streams.host.active } else { streams.copies.active };
        streams.host_blocks += u32::from(by_host);
        streams.begun[block.0 as usize] = if by_host { streams.host_blocks } else { 0 };
        streams.of_block[block.0 as usize] = stream as u8;
        if streams.is_apart(stream) {
            streams.hot_blocks += 1;
            self.flash.set_apart(block);
        }
    }

    /// The stream of copies that what `victim` holds belongs to.
    fn copies_stream_of(&self, victim: BlockIndex) -> Option<usize> {
        let streams = self.streams.as_deref()?;
        if streams.levels_apart && self.is_to_be_levelled(victim) {
            return Some(streams.copies.streams.len() - 1);
        }
        Some(usize::from(streams.of_block[victim.0 as usize]))
    }

    /// Units that stay empty when collection goes on to `victim`, where it is of another stream than
    /// the copies in the program unit that is being filled.
    fn padding_before(&self, victim: BlockIndex) -> u32 {
        let active = self.streams.as_ref().map(|streams| streams.copies.active);
        let pads = self.is_copying() && self.copies_stream_of(victim) != active;
        if pads { self.collector.stream.room() } else { 0 }
    }

    /// Whether collecting `victim`, which holds `valid` valid units, frees more than it fills.
    pub(crate) fn is_worthwhile(&self, victim: BlockIndex, valid: u32) -> bool {
        // When it is urgent, it does not pad what it does not gain: see below.
        let padding = if self.collector.is_urgent { 0 } else { self.padding_before(victim) };
        valid + padding < self.geometry.units_per_block()
    }

    /// How many valid units a victim may hold that is worthwhile, whichever stream it is of.
    pub(crate) fn worthwhile_most(&self) -> u32 {
        let pads = self.streams.is_some() && self.is_copying() && !self.collector.is_urgent;
        let padding = if pads { self.collector.stream.room() } else { 0 };
        self.geometry.units_per_block() - padding - 1
    }

    /// Has copies of what `victim` holds, `valid` units, go to its stream's blocks. Not where the host
    /// waits for a block and the victim would yield no more than what stays empty for that:
    /// collection could go on for ever.
    pub(crate) fn choose_copies_stream(&mut self, victim: BlockIndex, valid: u32) {
        let to = self.copies_stream_of(victim);
        let stays = self.collector.is_urgent
            && self.is_copying()
            && valid + self.padding_before(victim) >= self.geometry.units_per_block()
            && !self.is_to_be_levelled(victim);
        let (Some(streams), Some(to)) = (&mut self.streams, to) else {
            return;
        };
        if streams.is_apart(streams.of_block[victim.0 as usize].into()) {
            streams.hot_blocks -= 1;
        }
        if to == streams.copies.active || stays {
            return;
        }
        if self.is_copying() {
            self.pad_collection_program();
        }
        let streams = self.streams.as_mut().expect("the drive has streams");
        streams.copies.switch(self.collector.stream_mut(), to);
    }

    /// Whether a stream put aside holds `unit` in the program unit that it is filling.
    pub(crate) fn is_held_aside(&self, unit: PhysicalUnit) -> bool {
        self.streams.as_ref().is_some_and(|it| it.host.others().any(|stream| stream.holds(unit)))
    }

    /// Makes a stream that has a program unit open, if any has, the one being written.
    pub(crate) fn choose_partial_stream(&mut self) {
        if self.host.is_partial() {
            return;
        }
        if let Some(streams) = &mut self.streams
            && let Some(to) = streams.host.streams.iter().position(WriteStream::is_partial)
        {
            streams.host.switch(&mut self.host, to);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pending::Step;
    use crate::ssd::tests::small_configuration;
    use crate::units::{Instant, Sector, SectorCount};

    /// A drive of 64 MiB that finds out itself what is hot.
    fn drive() -> Ssd {
        let configuration = small_configuration(&[
            ("controller.power_loss_protection", "on"),
            ("streams.count", "2"),
            ("streams.hot_within", "0.1"),
        ]);
        Ssd::new(&configuration).expect("a sound drive")
    }

    fn stream_after_writing(ssd: &mut Ssd, unit: u32) -> usize {
        ssd.write(Instant::START, LogicalUnit(unit), 1);
        ssd.streams.as_ref().expect("it has streams").host.active
    }

    #[test]
    fn what_is_soon_written_again_is_hot_and_what_is_old_is_not() {
        let mut ssd = drive();
        assert_eq!(stream_after_writing(&mut ssd, 7), 0, "written for the first time");
        assert_eq!(stream_after_writing(&mut ssd, 7), 1);
        assert_eq!(stream_after_writing(&mut ssd, 7), 1, "hot blocks are young, too");
        let units = ssd.geometry().logical_units();
        ssd.write(Instant::START, LogicalUnit(8), units / 2);
        assert_eq!(stream_after_writing(&mut ssd, 7), 0, "half a drive was written since");
    }

    #[test]
    fn a_hint_goes_before_what_the_drive_thinks_and_is_for_one_write() {
        let mut ssd = drive();
        ssd.hint_stream(StreamId::HOT);
        assert_eq!(stream_after_writing(&mut ssd, 7), 1);
        assert_eq!(stream_after_writing(&mut ssd, 9), 0);
    }

    /// Goes on with all of `steps` in the order of time until they are answered.
    fn answer(ssd: &mut Ssd, mut steps: Vec<Step>) {
        let until = |step: &Step| match step {
            Step::Waits(waiting) => Some(waiting.until()),
            Step::Answered(_) => None,
        };
        while let Some(next) = steps.iter().filter_map(until).min() {
            let step = steps.iter_mut().find(|it| until(it) == Some(next)).expect("it is there");
            let Step::Waits(waiting) = *step else { unreachable!("it waits") };
            *step = ssd.go_on(waiting);
        }
    }

    #[test]
    fn each_of_two_streams_sends_off_the_program_unit_that_it_has_filled() {
        let mut ssd = drive();
        let units = ssd.geometry().units_per_program();
        let sectors = SectorCount::of(ssd.geometry().unit_size() * u64::from(units));
        let at = Instant::START;
        // Both are full before the data of either is there.
        let cold = ssd.begin_write(at, Sector(0), sectors, false);
        ssd.hint_stream(StreamId::HOT);
        let hot = ssd.begin_write(at, Sector(sectors.0), sectors, false);
        answer(&mut ssd, vec![cold, hot]);
        assert_eq!(ssd.counters().programs, 2, "nothing full waits in the buffer");
        let streams = ssd.streams.as_ref().expect("it has streams");
        assert!(!ssd.host.is_partial() && streams.host.others().all(|it| !it.is_partial()));
        let block = |unit| ssd.geometry().block_of(ssd.map.get(LogicalUnit(unit)).unwrap());
        assert_ne!(block(0), block(units), "the hint is for the write it came with");
        ssd.check_invariants();
    }

    #[test]
    fn a_write_that_waits_for_room_goes_on_in_the_stream_it_began_in() {
        let mut ssd = drive();
        let units = ssd.geometry().units_per_program();
        let all = SectorCount::of(ssd.geometry().unit_size() * u64::from(units)).0;
        // Far more than the buffer holds, hot and cold by turns.
        let programs = 3 * ssd.buffer_parameters.units.div_ceil(units);
        let begin = |number: u32| {
            let (hot, first) = (number % 2 == 1, u64::from(number) * all);
            if hot {
                ssd.hint_stream(StreamId::HOT);
            }
            ssd.begin_write(Instant::START, Sector(first), SectorCount(all), false)
        };
        let steps = (0..programs).map(begin).collect();
        answer(&mut ssd, steps);
        assert_eq!(ssd.counters().programs, u64::from(programs));
        let stream_of = |unit: u32| {
            let block = ssd.geometry().block_of(ssd.map.get(LogicalUnit(unit)).unwrap());
            u32::from(ssd.streams.as_ref().unwrap().of_block[block.0 as usize])
        };
        for number in 0..programs {
            assert_eq!(stream_of(number * units), number % 2, "program unit {number}");
        }
        ssd.check_invariants();
    }

    #[test]
    #[should_panic(expected = "the drive has 2 write streams")]
    fn a_stream_that_is_not_there_is_refused() {
        drive().hint_stream(StreamId(2));
    }
}
