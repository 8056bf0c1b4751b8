//! The state of a drive as bytes, and back.
//!
//! What is saved is a drive that was shut down ([`Ssd::shut_down`]): everything is on the flash,
//! nothing is under way, and nothing but the translation layer's tables is left to keep. A drive
//! made of the bytes and the drive that was saved answer the same requests alike, to the
//! nanosecond.
//!
//! Every structure writes and reads itself, beside its own code. All of them name their fields
//! one by one, so that a new field does not compile until somebody has decided whether it is
//! state. What is read is not trusted: a wrong byte is an error, never a panic and never a drive
//! whose tables contradict each other. Not saved are the spare areas of units that are not valid:
//! nothing in the model reads them.

use std::io::{self, Read, Write};

use crate::attribution::Delays;
use crate::buffer::WriteBuffer;
use crate::condense::Condenser;
use crate::flash::BlockState;
use crate::geometry::GeometryError;
use crate::mapping::Mapping;
use crate::media::{Media, Null};
use crate::merge::Merges;
use crate::read::ReadScratch;
use crate::read_ahead::ReadAhead;
use crate::ssd::{Configuration, Ssd};
use crate::trim_log::TrimLog;
use crate::units::{BlockIndex, Instant, LogicalUnit};

/// Why a drive could not be saved or restored.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SnapshotError {
    /// Bytes that are no state of such a drive.
    #[error("the saved state is damaged: {what}")]
    Damaged {
        /// What is wrong with it.
        what: String,
    },
    /// A mechanism that does not know how to save itself.
    #[error("a drive with {what} cannot be saved yet")]
    Unsupported {
        /// The mechanism.
        what: &'static str,
    },
    /// A configuration of which there is no drive.
    #[error(transparent)]
    Geometry(#[from] GeometryError),
    /// Reading or writing failed; the end of the bytes where more were expected, too.
    #[error("cannot read or write the saved state")]
    Io(#[from] io::Error),
}

/// What every reader says of a wrong byte.
pub(crate) fn damaged<T>(what: impl Into<String>) -> Result<T, SnapshotError> {
    Err(SnapshotError::Damaged { what: what.into() })
}

/// Entries of a table that are left out together when all of them are zero.
const CHUNK: usize = 1 << 14;

/// Writes state.
pub struct Encoder<'a> {
    out: &'a mut dyn Write,
}

impl<'a> Encoder<'a> {
    /// Writes to `out`, in many small pieces.
    pub fn new(out: &'a mut dyn Write) -> Self {
        Encoder { out }
    }

    /// Writes a number of 64 bits.
    pub(crate) fn long(&mut self, value: u64) -> Result<(), SnapshotError> {
        Ok(self.out.write_all(&value.to_le_bytes())?)
    }

    /// Writes a number of 32 bits.
    pub(crate) fn word(&mut self, value: u32) -> Result<(), SnapshotError> {
        Ok(self.out.write_all(&value.to_le_bytes())?)
    }

    /// Writes a list with its length.
    pub(crate) fn list(
        &mut self,
        values: impl ExactSizeIterator<Item = u32>,
    ) -> Result<(), SnapshotError> {
        self.word(values.len() as u32)?;
        for value in values {
            self.word(value)?;
        }
        Ok(())
    }

    /// Writes a table, without its stretches of zeros.
    pub(crate) fn table(&mut self, values: &[u32]) -> Result<(), SnapshotError> {
        let mut bytes = Vec::with_capacity(4 * CHUNK);
        for chunk in values.chunks(CHUNK) {
            let is_used = chunk.iter().any(|&value| value != 0);
            self.out.write_all(&[u8::from(is_used)])?;
            if is_used {
                bytes.clear();
                bytes.extend(chunk.iter().flat_map(|value| value.to_le_bytes()));
                self.out.write_all(&bytes)?;
            }
        }
        Ok(())
    }
}

/// Reads state.
pub struct Decoder<'a> {
    from: &'a mut dyn Read,
}

impl<'a> Decoder<'a> {
    /// Reads from `from`, in many small pieces.
    pub fn new(from: &'a mut dyn Read) -> Self {
        Decoder { from }
    }

    fn bytes<const LENGTH: usize>(&mut self) -> Result<[u8; LENGTH], SnapshotError> {
        let mut bytes = [0; LENGTH];
        self.from.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    /// Reads a number of 64 bits.
    pub(crate) fn long(&mut self) -> Result<u64, SnapshotError> {
        Ok(u64::from_le_bytes(self.bytes()?))
    }

    /// Reads a number of 32 bits.
    pub(crate) fn word(&mut self) -> Result<u32, SnapshotError> {
        Ok(u32::from_le_bytes(self.bytes()?))
    }

    /// Reads a number of 32 bits that must be at most `most`.
    pub(crate) fn at_most(&mut self, most: u32, what: &str) -> Result<u32, SnapshotError> {
        let value = self.word()?;
        if value > most { damaged(format!("{what} is {value}, above {most}")) } else { Ok(value) }
    }

    /// Reads a list of at most `length` entries, each below `limit`.
    pub(crate) fn list(
        &mut self,
        length: u32,
        limit: u32,
        what: &str,
    ) -> Result<Vec<u32>, SnapshotError> {
        let length = self.at_most(length, what)?;
        (0..length).map(|_| self.at_most(limit.saturating_sub(1), what)).collect()
    }

    /// Reads a table of `length` entries.
    pub(crate) fn table(&mut self, length: usize) -> Result<Vec<u32>, SnapshotError> {
        let mut values = vec![0u32; length];
        self.table_into(&mut values)?;
        Ok(values)
    }

    /// The same into memory that holds zeros: of those that nobody touches it takes none.
    pub(crate) fn table_into(&mut self, values: &mut [u32]) -> Result<(), SnapshotError> {
        let mut bytes = vec![0; 4 * CHUNK];
        for chunk in values.chunks_mut(CHUNK) {
            match self.bytes()? {
                [0] => {}
                [1] => {
                    let bytes = &mut bytes[..4 * chunk.len()];
                    self.from.read_exact(bytes)?;
                    let (words, _) = bytes.as_chunks::<4>();
                    for (value, word) in chunk.iter_mut().zip(words) {
                        *value = u32::from_le_bytes(*word);
                    }
                }
                [other] => return damaged(format!("a piece of a table is marked {other}")),
            }
        }
        Ok(())
    }
}

impl<M: Mapping> Ssd<M, Null> {
    /// A drive of `configuration` in a state that was saved, with flash that keeps no payload;
    /// `map` is a new one.
    ///
    /// # Errors
    /// When the bytes are no state of such a drive, or reading them fails.
    pub fn restored(
        configuration: &Configuration,
        map: M,
        from: &mut Decoder<'_>,
    ) -> Result<Self, SnapshotError> {
        Ssd::restored_with(configuration, map, Null, from)
    }
}

impl<M: Mapping, D: Media> Ssd<M, D> {
    /// Ends all work, as a host does that turns the drive off properly: what the buffer holds is
    /// programmed, the block under collection is emptied, what collection owes is done. Returns
    /// when that is so; the drive can be used on from there. What it kept in RAM for its own
    /// convenience (read-ahead, what is booked on which die) begins anew, as after power-on.
    pub fn shut_down(&mut self, at: Instant) -> Instant {
        self.pad_host_program(at);
        self.finish_collection(at);
        self.pay_all_debt();
        let journalled = self.complete_journal(at).max(self.make_trims_durable(at));
        self.book_all_journal_pages();
        let done = journalled.max(self.resources.idle_from()).max(at);
        self.release_buffer(done);
        self.forget_what_is_volatile();
        done
    }

    fn forget_what_is_volatile(&mut self) {
        let blocked = self.resources.blocked;
        self.resources = self.resources.renewed(&self.geometry, &self.timing);
        self.resources.blocked = blocked;
        self.buffer = WriteBuffer::new(self.buffer_parameters.units);
        self.read_ahead = ReadAhead::new(self.read_ahead.parameters());
        self.scratch = ReadScratch::default();
        self.merges = Merges::default();
        self.condenser = Condenser::default();
        self.trim_log = TrimLog::new();
        self.collector.forget_copies();
        self.flash.victims_mut().begin_draws_anew();
    }

    /// Writes the state of a drive that was shut down.
    ///
    /// # Errors
    /// When writing fails, or the drive has a mechanism that cannot be saved.
    ///
    /// # Panics
    /// When it was not shut down.
    pub fn save(&self, to: &mut Encoder<'_>) -> Result<(), SnapshotError> {
        let Ssd {
            // From the configuration.
            geometry: _,
            timing: _,
            buffer_parameters: _,
            trim_enabled: _,
            trim_parameters: _,
            slc,
            unit_to_host: _,
            unit_over_channel: _,
            pages_differ: _,
            // Volatile, or nothing.
            media: _,
            resources: _,
            buffer: _,
            read_ahead: _,
            scratch: _,
            large_reads: _,
            fetches: _,
            in_time: _,
            merges: _,
            condenser: _,
            // Of the requests of one life: begins anew.
            delays: _,
            trim_log: _,
            map,
            flash,
            free,
            host,
            streams,
            collector,
            durability,
            counters: _,
            sequence,
            levelling,
            bad_blocks,
            retention,
            // Follows from the bad blocks.
            writable_units: _,
        } = self;
        if streams.is_some() {
            return Err(SnapshotError::Unsupported { what: "several write streams" });
        }
        if slc.is_some() {
            return Err(SnapshotError::Unsupported { what: "a pseudo-SLC cache" });
        }
        map.save(to)?;
        flash.save(to)?;
        free.save(to)?;
        host.save(to)?;
        collector.save(to)?;
        if let Some(checkpoints) = &durability.checkpoints {
            checkpoints.save(to)?;
        }
        if let Some(journal) = &durability.journal {
            journal.save(to)?;
        }
        for count in self.counters().values() {
            to.long(count)?;
        }
        if let Some(levelling) = levelling {
            levelling.save(to)?;
        }
        if let Some(bad_blocks) = bad_blocks {
            bad_blocks.save(to)?;
        }
        if let Some(retention) = retention {
            retention.save(to)?;
        }
        to.long(sequence.0)
    }

    /// A drive of `configuration` in a state that was saved; `map` is a new one, and `media` holds
    /// what it held then.
    ///
    /// # Errors
    /// When the bytes are no state of such a drive, or reading them fails.
    pub fn restored_with(
        configuration: &Configuration,
        map: M,
        media: D,
        from: &mut Decoder<'_>,
    ) -> Result<Self, SnapshotError> {
        let mut ssd = Ssd::with(configuration, map, media)?;
        ssd.map.restore(from)?;
        ssd.flash.restore(from, configuration.geometry.units_per_block())?;
        ssd.free.restore(from, |block| ssd.flash.erases(block))?;
        ssd.host.restore(from, &configuration.geometry)?;
        ssd.collector.restore(from, &configuration.geometry)?;
        if let Some(checkpoints) = &mut ssd.durability.checkpoints {
            checkpoints.restore(from)?;
        }
        if let Some(journal) = &mut ssd.durability.journal {
            journal.restore(from)?;
        }
        for count in ssd.counters.values_mut() {
            *count = from.long()?;
        }
        ssd.delays = Delays::after(&ssd.counters);
        if let Some(levelling) = &mut ssd.levelling {
            levelling.restore(from)?;
        }
        if let Some(bad_blocks) = &mut ssd.bad_blocks {
            bad_blocks.restore(from)?;
            ssd.writable_units = bad_blocks.writable(ssd.writable_units);
        }
        if let Some(retention) = &mut ssd.retention {
            retention.restore(from, |block| ssd.flash.erases(block))?;
        }
        ssd.sequence.0 = from.long()?;
        ssd.restore_reverse_map()?;
        ssd.check_restored()?;
        Ok(ssd)
    }

    /// Works out from the map what the spare areas of valid units say.
    fn restore_reverse_map(&mut self) -> Result<(), SnapshotError> {
        for unit in 0..self.geometry.logical_units() {
            let Some(physical) = self.map.get(LogicalUnit(unit)) else { continue };
            if physical.0 >= self.geometry.physical_units() {
                return damaged(format!("unit {unit} lies behind the end of the flash"));
            }
            if self.flash.logical_at(physical).is_some() {
                return damaged(format!("unit {unit} lies where another does"));
            }
            self.flash.note_written(physical, LogicalUnit(unit));
        }
        Ok(())
    }

    /// Checks what the structures say of each other.
    fn check_restored(&self) -> Result<(), SnapshotError> {
        let geometry = &self.geometry;
        let mut open = vec![None; geometry.blocks() as usize];
        let host = self.host.open_blocks().map(|it| (it, BlockState::OpenForHost));
        let collection = self.collector.open_blocks().map(|it| (it, BlockState::OpenForCollection));
        for ((block, programs), state) in host.chain(collection) {
            let entry = &mut open[block.0 as usize];
            if self.flash.state(block) != state || entry.is_some() {
                return damaged(format!("no stream can write to block {}", block.0));
            }
            *entry = Some(programs * geometry.units_per_program());
        }
        let mut is_listed = vec![false; open.len()];
        let closed = self.flash.victims().blocks().map(BlockIndex);
        for block in self.free.blocks().chain(closed) {
            if std::mem::replace(&mut is_listed[block.0 as usize], true) {
                return damaged(format!("block {} is listed more than once", block.0));
            }
        }
        let (mut free, mut closed, mut retired) = (0, 0, 0);
        for (index, written) in open.into_iter().enumerate() {
            let block = BlockIndex(index as u32);
            let fine = match (self.flash.state(block), written) {
                (BlockState::Free, None) => {
                    free += 1;
                    is_listed[index]
                        && self.flash.valid(block) == 0
                        && self.units_held(block, 0) == Some(0)
                }
                (BlockState::Closed, None) => {
                    closed += 1;
                    is_listed[index]
                        && self.units_held(block, geometry.units_per_block())
                            == Some(self.flash.valid(block))
                }
                (BlockState::OpenForHost | BlockState::OpenForCollection, Some(written)) => {
                    let to_come = geometry.units_per_block() - written;
                    !is_listed[index]
                        && self.units_held(block, written).map(|held| held + to_come)
                            == Some(self.flash.valid(block))
                }
                (BlockState::Retired, None) => {
                    retired += 1;
                    !is_listed[index]
                        && self.flash.valid(block) == 0
                        && self.units_held(block, 0) == Some(0)
                }
                _ => false,
            };
            if !fine {
                return damaged(format!("block {index} does not hold what is said of it"));
            }
        }
        // With every free and closed block listed, and as many listed, nothing else is.
        if closed != self.flash.closed() || free != self.free.len() {
            return damaged("the lists of free and closed blocks hold others, too");
        }
        if retired != self.bad_blocks.as_ref().map_or(0, |it| it.retired()) {
            return damaged("more or fewer blocks are retired than went bad");
        }
        if free < geometry.groups() {
            return damaged("no block is left to collect into");
        }
        Ok(())
    }

    /// The valid units of a block of which `written` units are written; nothing where more hold
    /// data.
    fn units_held(&self, block: BlockIndex, written: u32) -> Option<u32> {
        let (written, rest) = self.flash.units_held(block, &self.geometry, written);
        (rest == 0).then_some(written)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rand::{RngExt, SeedableRng};
    use rand_pcg::Pcg64Mcg;

    use super::*;
    use crate::mapping::PageMap;
    use crate::profile::{DEFAULT, Profile};
    use crate::units::Nanoseconds;

    /// A drive of 8 MiB in blocks of 96 or of 24 units, with changes of its profile.
    fn configuration(changes: &[(&str, &str)]) -> Configuration {
        let mut profile = Profile::named(DEFAULT).expect("the default profile");
        let small = [
            ("capacity.logical", "8M"),
            ("capacity.physical", "16M"),
            ("controller.unit_size", "4K"),
            ("flash.page_size", "4K"),
            ("flash.channels", "2"),
            ("flash.dies", "4"),
            ("flash.planes_per_die", "1"),
            ("flash.pages_per_shot", "3"),
            ("flash.pages_per_block", "24"),
            ("controller.write_buffer", "512K"),
        ];
        for (key, value) in small.iter().chain(changes) {
            profile.set(key, value).unwrap_or_else(|error| panic!("{error}"));
        }
        profile.configuration().unwrap_or_else(|error| panic!("{error}"))
    }

    /// Requests of all kinds from `at` on; returns when they were answered.
    fn work(ssd: &mut Ssd, at: Instant, requests: u32, seed: u64) -> Vec<Instant> {
        let mut generator = Pcg64Mcg::seed_from_u64(seed);
        let units = ssd.geometry().logical_units();
        let mut at = at;
        let request = |_| {
            let count = generator.random_range(1..=4);
            let first = LogicalUnit(generator.random_range(0..=units - count));
            at += Nanoseconds::new(generator.random_range(0..200_000));
            match generator.random_range(0..100u32) {
                0..60 => ssd.write(at, first, count),
                60..90 => ssd.read(at, first, count),
                90..95 => ssd.trim(at, first, count),
                95..98 => ssd.flush(at),
                _ => {
                    let rest = Nanoseconds::from_millis(200);
                    ssd.rest(at, rest);
                    at += rest;
                    at
                }
            }
        };
        (0..requests).map(request).collect()
    }

    fn saved(ssd: &Ssd) -> Vec<u8> {
        let mut bytes = Vec::new();
        ssd.save(&mut Encoder::new(&mut bytes)).unwrap();
        bytes
    }

    fn restored(configuration: &Configuration, mut bytes: &[u8]) -> Result<Ssd, SnapshotError> {
        let map = PageMap::new(configuration.geometry.logical_units());
        Ssd::restored(configuration, map, &mut Decoder::new(&mut bytes))
    }

    #[test]
    fn a_restored_drive_answers_as_the_saved_one_does() {
        let drives: [&[(&str, &str)]; 8] = [
            &[],
            &[("collection.unit", "block")],
            &[("collection.policy", "fifo")],
            &[("collection.policy", "random")],
            &[("collection.policy", "d-choices"), ("collection.choices", "4")],
            &[("collection.policy", "cost-benefit"), ("collection.unit", "block")],
            &[("flush.journal", "on"), ("link.full_duplex", "off")],
            &[("controller.power_loss_protection", "on"), ("capacity.physical", "64M")],
        ];
        for changes in drives {
            let configuration = configuration(changes);
            let mut ssd = Ssd::new(&configuration).unwrap();
            let ends = work(&mut ssd, Instant::START, 20_000, 1);
            let quiet = ssd.shut_down(ends.into_iter().max().unwrap());
            ssd.check_invariants();
            let mut other = restored(&configuration, &saved(&ssd)).unwrap();
            other.check_invariants();
            assert_eq!(other.counters(), ssd.counters());
            assert!(saved(&other) == saved(&ssd), "{changes:?}: saved again it is another state");
            let from = quiet + Nanoseconds::from_secs(3);
            let ends = work(&mut ssd, from, 20_000, 2);
            assert!(work(&mut other, from, 20_000, 2) == ends, "{changes:?}");
            assert_eq!((other.counters(), other.wear()), (ssd.counters(), ssd.wear()));
            other.check_invariants();
        }
    }

    #[test]
    fn shutting_down_keeps_the_data_and_ends_all_work() {
        let configuration = configuration(&[]);
        let mut ssd = Ssd::new(&configuration).unwrap();
        let ends = work(&mut ssd, Instant::START, 20_000, 3);
        let mapped = |ssd: &Ssd| -> Vec<bool> {
            (0..ssd.geometry().logical_units())
                .map(|unit| ssd.map.get(LogicalUnit(unit)).is_some())
                .collect()
        };
        let before = mapped(&ssd);
        let last = ends.into_iter().max().unwrap();
        let quiet = ssd.shut_down(last);
        assert!(quiet >= last);
        assert_eq!(mapped(&ssd), before);
        assert_eq!(ssd.shut_down(quiet), quiet, "there is nothing left to do");
    }

    #[test]
    fn a_new_drive_takes_little_room() {
        let configuration =
            configuration(&[("capacity.physical", "4G"), ("capacity.logical", "2G")]);
        let mut ssd = Ssd::new(&configuration).unwrap();
        ssd.shut_down(Instant::START);
        let per_unit = saved(&ssd).len() as f64 / f64::from(ssd.geometry().logical_units());
        assert!(per_unit < 0.2, "{per_unit} bytes for each unit");
    }

    #[test]
    fn a_state_that_ends_early_is_refused() {
        let configuration = configuration(&[]);
        let mut ssd = Ssd::new(&configuration).unwrap();
        work(&mut ssd, Instant::START, 2_000, 4);
        ssd.shut_down(Instant::from_nanos(1 << 40));
        let bytes = saved(&ssd);
        for length in (0..bytes.len()).step_by(7) {
            assert!(restored(&configuration, &bytes[..length]).is_err(), "{length} bytes");
        }
    }

    proptest! {
        #[test]
        fn wrong_bytes_are_refused_or_make_a_sound_drive(
            policy in 0usize..4, bytes in prop::collection::vec((any::<u32>(), any::<u8>()), 1..4),
        ) {
            let policy = ["greedy", "fifo", "random", "cost-benefit"][policy];
            let configuration = configuration(&[("collection.policy", policy)]);
            let mut ssd = Ssd::new(&configuration).unwrap();
            work(&mut ssd, Instant::START, 4_000, 5);
            let quiet = ssd.shut_down(Instant::from_nanos(1 << 40));
            let mut saved = saved(&ssd);
            let length = saved.len();
            for (place, value) in bytes {
                // Half of them near the end, where the lists are.
                let place = if place % 2 == 0 { place as usize } else { length - 1 - place as usize % 2_048 };
                saved[place % length] = value;
            }
            if let Ok(mut drive) = restored(&configuration, &saved) {
                drive.check_invariants();
                work(&mut drive, quiet, 500, 6);
                drive.check_invariants();
            }
        }
    }
}
