//! The simulated drive behind an image, whatever it maps by.

use std::io::{self, Write};

use ssdlab_model::Configuration;
use ssdlab_model::attribution::Attribution;
use ssdlab_model::counters::{Counters, Wear};
use ssdlab_model::ftl::{Answer, Command, Host, Port, RequestTag, Ssd, Torn};
use ssdlab_model::mapping::cached::{CachedMap, InRam};
use ssdlab_model::mapping::extent::ExtentMap;
use ssdlab_model::mapping::{Mapping, MappingScheme, PageMap};
use ssdlab_model::media::{SequenceNumber, TrimRecord};
use ssdlab_model::recovery::{Recovery, RecoveryError};
use ssdlab_model::snapshot::{Decoder, Encoder, SnapshotError};
use ssdlab_nand::geometry::GeometryError;
use ssdlab_units::{Instant, LogicalUnit, Nanoseconds, PhysicalUnit, Sector, SectorCount};

use crate::store::Store;

/// What is asked of a simulated drive with an image. Called once a request or less, so that which mapping
/// it has need not be known when compiling.
pub trait Model: Send {
    /// Sends a command at `at`, or now if that is past; see [`Port::submit`].
    fn submit(&mut self, at: Instant, tag: RequestTag, command: Command);
    /// Lets time pass until `until`, at most: until something is answered, which is added to `answers`, or the
    /// store wants the buffer saved; returns whether one of these was so. With `is_alone` only one request is under
    /// way, and no other comes.
    fn go_on(&mut self, until: Instant, is_alone: bool, answers: &mut Vec<Answer>) -> bool;
    /// When the next thing happens; see [`Ssd::next_due`].
    fn next_due(&self) -> Option<Instant>;
    /// The instant of the latest thing that has happened.
    fn now(&self) -> Instant;
    /// The command that reads these sectors.
    fn read_command(&self, first: Sector, count: SectorCount) -> Command;
    /// The command that writes these sectors, with FUA or without.
    fn write_command(&self, first: Sector, count: SectorCount, fua: bool) -> Command;
    /// The first command that trims these sectors, and what it leaves to the next; see [`Ssd::trim_command`].
    fn trim_command(
        &self,
        first: Sector,
        count: SectorCount,
    ) -> (Command, Option<(Sector, SectorCount)>);
    /// Returns what a power cut would destroy now.
    fn torn(&self) -> Vec<Torn>;
    /// Leaves the drive alone; see [`Ssd::rest`].
    fn rest(&mut self, from: Instant, duration: Nanoseconds);
    /// Ends all work; see [`Ssd::shut_down`].
    fn shut_down(&mut self, at: Instant) -> Instant;
    /// Writes the drive's tables after that.
    ///
    /// # Errors
    /// Returns an error if writing fails, or the drive has a mechanism that cannot be saved.
    fn save(&self, to: &mut dyn Write) -> Result<(), SnapshotError>;
    /// Returns where a unit lies; see [`Ssd::place_of`].
    fn place_of(&self, unit: LogicalUnit) -> Option<PhysicalUnit>;
    /// The first mapped unit from `from` on, and where it lies; see [`Ssd::next_mapped`].
    fn next_mapped(&self, from: LogicalUnit) -> Option<(LogicalUnit, PhysicalUnit)>;
    /// Returns where a read of it finds its data; see [`Ssd::read_place_of`].
    fn read_place_of(&self, unit: LogicalUnit) -> Option<PhysicalUnit>;
    /// Its flash.
    fn store(&mut self) -> &mut Store;
    /// Returns what it has done.
    fn counters(&self) -> Counters;
    /// Returns how worn it is.
    fn wear(&self) -> Wear;
    /// Returns where the time of its requests went.
    fn attribution(&self) -> Attribution;
    /// Closed blocks by their valid units.
    fn blocks_by_valid_units(&self) -> Vec<u32>;
    /// Blocks that are erased.
    fn free_blocks(&self) -> u32;
    /// Replaces `cells` by a picture of the blocks; returns how many a cell stands for. See [`Ssd::fill_cells`].
    fn fill_cells(&self, cells: &mut Vec<u8>, most: usize) -> usize;
    /// Records of trims that are only in RAM.
    fn unrecorded_trims(&self) -> Vec<TrimRecord>;
    /// The latest sequence number.
    fn latest_number(&self) -> SequenceNumber;
    /// Returns what is in RAM of a map that lies on flash.
    fn map_in_ram(&mut self) -> Option<InRam>;
}

/// A host that listens, and sends nothing while time passes.
struct Listener<'a, const IS_ALONE: bool>(&'a mut Vec<Answer>);

impl<const IS_ALONE: bool> Host for Listener<'_, IS_ALONE> {
    const IS_ALONE: bool = IS_ALONE;

    #[inline]
    fn answered(&mut self, _: &mut Port<'_>, answer: Answer) -> Option<LogicalUnit> {
        self.0.push(answer);
        None
    }
}

fn go_on<M: Mapping, const IS_ALONE: bool>(
    ssd: &mut Ssd<M, Store>,
    until: Instant,
    answers: &mut Vec<Answer>,
) -> bool {
    let mut host = Listener::<IS_ALONE>(answers);
    while ssd.step(until, &mut host) {
        if !host.0.is_empty() || ssd.media().wants_buffer_saved() {
            return true;
        }
    }
    false
}

impl<M: Mapping + Send> Model for Ssd<M, Store> {
    fn submit(&mut self, at: Instant, tag: RequestTag, command: Command) {
        let at = at.max(Ssd::now(self));
        self.port().submit(at, tag, command);
    }

    fn go_on(&mut self, until: Instant, is_alone: bool, answers: &mut Vec<Answer>) -> bool {
        match is_alone {
            true => go_on::<M, true>(self, until, answers),
            false => go_on::<M, false>(self, until, answers),
        }
    }

    fn next_due(&self) -> Option<Instant> {
        Ssd::next_due(self)
    }

    fn now(&self) -> Instant {
        Ssd::now(self)
    }

    fn read_command(&self, first: Sector, count: SectorCount) -> Command {
        Ssd::read_command(self, first, count)
    }

    fn write_command(&self, first: Sector, count: SectorCount, fua: bool) -> Command {
        Ssd::write_command(self, first, count, fua)
    }

    fn trim_command(
        &self,
        first: Sector,
        count: SectorCount,
    ) -> (Command, Option<(Sector, SectorCount)>) {
        Ssd::trim_command(self, first, count)
    }

    fn torn(&self) -> Vec<Torn> {
        Ssd::torn(self)
    }

    fn rest(&mut self, from: Instant, duration: Nanoseconds) {
        Ssd::rest(self, from, duration);
    }

    fn shut_down(&mut self, at: Instant) -> Instant {
        Ssd::shut_down(self, at)
    }

    fn save(&self, to: &mut dyn Write) -> Result<(), SnapshotError> {
        Ssd::save(self, &mut Encoder::new(to))
    }

    fn place_of(&self, unit: LogicalUnit) -> Option<PhysicalUnit> {
        Ssd::place_of(self, unit)
    }

    fn next_mapped(&self, from: LogicalUnit) -> Option<(LogicalUnit, PhysicalUnit)> {
        Ssd::next_mapped(self, from)
    }

    fn read_place_of(&self, unit: LogicalUnit) -> Option<PhysicalUnit> {
        Ssd::read_place_of(self, unit)
    }

    fn store(&mut self) -> &mut Store {
        self.media_mut()
    }

    fn counters(&self) -> Counters {
        Ssd::counters(self)
    }

    fn wear(&self) -> Wear {
        Ssd::wear(self)
    }

    fn attribution(&self) -> Attribution {
        Ssd::attribution(self)
    }

    fn blocks_by_valid_units(&self) -> Vec<u32> {
        Ssd::blocks_by_valid_units(self)
    }

    fn free_blocks(&self) -> u32 {
        Ssd::free_blocks(self)
    }

    fn fill_cells(&self, cells: &mut Vec<u8>, most: usize) -> usize {
        Ssd::fill_cells(self, cells, most)
    }

    fn unrecorded_trims(&self) -> Vec<TrimRecord> {
        Ssd::unrecorded_trims(self)
    }

    fn latest_number(&self) -> SequenceNumber {
        Ssd::latest_number(self)
    }

    fn map_in_ram(&mut self) -> Option<InRam> {
        Ssd::map_in_ram(self)
    }
}

fn page_map(configuration: &Configuration) -> PageMap {
    PageMap::new(configuration.geometry.logical_units())
}

fn extent_map(configuration: &Configuration) -> ExtentMap {
    ExtentMap::new(&configuration.geometry, configuration.mechanisms.extents)
}

/// A drive whose map `with` is given, and which opens it in its own way.
macro_rules! with_map {
    ($configuration:expr, |$map:ident| $with:expr) => {
        match $configuration.mechanisms.mapping {
            MappingScheme::Cached => {
                let $map = CachedMap::new($configuration)?;
                $with
            }
            MappingScheme::Extent => {
                let $map = extent_map($configuration);
                $with
            }
            // Drives with log blocks are refused when their image is made.
            MappingScheme::Page | MappingScheme::LogBlock => {
                let $map = page_map($configuration);
                $with
            }
        }
    };
}

/// A new drive, whose flash is erased.
///
/// # Errors
/// Returns an error if there is no such drive.
pub fn new(configuration: &Configuration, store: Store) -> Result<Box<dyn Model>, GeometryError> {
    with_map!(configuration, |map| Ok(Box::new(Ssd::with(configuration, map, store)?)))
}

/// Opens a drive from what its flash holds, which was surveyed before, at `at`.
///
/// # Errors
/// Returns an error if the flash holds what this drive cannot have written, or has no room left.
pub fn recover(
    configuration: &Configuration,
    store: Store,
    at: Instant,
) -> Result<(Box<dyn Model>, Recovery), RecoveryError> {
    with_map!(configuration, |map| {
        let (ssd, recovery) = Ssd::open(configuration, map, store, at)?;
        Ok((Box::new(ssd), recovery))
    })
}

/// Opens a drive with the tables that were saved when it was closed in order.
///
/// # Errors
/// Returns an error if they are no tables of such a drive.
pub fn restore(
    configuration: &Configuration,
    store: Store,
    tables: &mut dyn io::Read,
) -> Result<Box<dyn Model>, SnapshotError> {
    let mut from = Decoder::new(tables);
    with_map!(configuration, |map| {
        Ok(Box::new(Ssd::restored_with(configuration, map, store, &mut from)?))
    })
}
