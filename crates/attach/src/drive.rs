//! The simulated drive behind an image, with a page map, a cached map or an extent map.

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

/// Operations of a simulated drive whose flash is a `Store`. A trait object, so that the kind of map need not
/// be known at compile time.
pub trait Model: Send {
    /// Sends a command at `at`, or now if `at` is past; see [`Port::submit`].
    fn submit(&mut self, at: Instant, tag: RequestTag, command: Command);
    /// Lets the drive's time pass until a request is answered or the store wants the buffer saved, but not
    /// beyond `until`. Adds answers to `answers`. Returns true if a request was answered or a save is wanted by
    /// then. With `is_alone` one request is in flight, and no other arrives meanwhile.
    fn advance_to_answer(
        &mut self,
        until: Instant,
        is_alone: bool,
        answers: &mut Vec<Answer>,
    ) -> bool;
    /// Returns the instant of the drive's next event; see [`Ssd::next_due`].
    fn next_due(&self) -> Option<Instant>;
    /// Returns the instant of the drive's latest event.
    fn now(&self) -> Instant;
    /// Returns the command that reads these sectors.
    fn read_command(&self, first: Sector, count: SectorCount) -> Command;
    /// Returns the command that writes these sectors, with FUA or without.
    fn write_command(&self, first: Sector, count: SectorCount, fua: bool) -> Command;
    /// Returns the first command that trims these sectors, and the sectors that it leaves to the next command;
    /// see [`Ssd::trim_command`].
    fn trim_command(
        &self,
        first: Sector,
        count: SectorCount,
    ) -> (Command, Option<(Sector, SectorCount)>);
    /// Returns the programs and erases in flight that a power cut would destroy now.
    fn torn(&self) -> Vec<Torn>;
    /// Tells the drive that no request comes for `duration` from `from` on: background work runs; see
    /// [`Ssd::rest`].
    fn idle(&mut self, from: Instant, duration: Nanoseconds);
    /// Finishes all work before power-off; see [`Ssd::shut_down`].
    fn shut_down(&mut self, at: Instant) -> Instant;
    /// Writes the drive's tables to `to`, after `Ssd::shut_down`.
    ///
    /// # Errors
    /// Returns an error if writing fails, or the drive has a mechanism that cannot be saved.
    fn save(&self, to: &mut dyn Write) -> Result<(), SnapshotError>;
    /// Returns the physical place of a unit; see [`Ssd::place_of`].
    fn place_of(&self, unit: LogicalUnit) -> Option<PhysicalUnit>;
    /// Returns the first mapped unit from `from` on and its physical place; see [`Ssd::next_mapped`].
    fn next_mapped(&self, from: LogicalUnit) -> Option<(LogicalUnit, PhysicalUnit)>;
    /// Returns the physical place from which a read of the unit takes its data; see [`Ssd::read_place_of`].
    fn read_place_of(&self, unit: LogicalUnit) -> Option<PhysicalUnit>;
    /// Returns the store that holds the drive's flash.
    fn store(&mut self) -> &mut Store;
    /// Returns the drive's counters of host and flash operations.
    fn counters(&self) -> Counters;
    /// Returns the erase counts of the drive.
    fn wear(&self) -> Wear;
    /// Returns the time of the requests by its causes.
    fn attribution(&self) -> Attribution;
    /// Returns the number of closed blocks with 0, 1, 2 .. valid units.
    fn blocks_by_valid_units(&self) -> Vec<u32>;
    /// Returns the number of free blocks, those included whose erase is still to come.
    fn free_blocks(&self) -> u32;
    /// Replaces `cells` by a picture of the blocks, of at most `most` cells. Returns the number of blocks in a
    /// cell. See [`Ssd::fill_cells`].
    fn fill_cells(&self, cells: &mut Vec<u8>, most: usize) -> usize;
    /// Returns the records of trims that are in no programmed page yet.
    fn unrecorded_trims(&self) -> Vec<TrimRecord>;
    /// Returns the latest sequence number that was taken.
    fn latest_number(&self) -> SequenceNumber;
    /// Returns the part of a map on flash that is cached in RAM; `None` if the map is not on flash.
    fn map_in_ram(&mut self) -> Option<InRam>;
}

/// A host that collects answers, and sends nothing while time passes.
struct AnswerCollector<'a> {
    answers: &'a mut Vec<Answer>,
    is_alone: bool,
}

impl Host for AnswerCollector<'_> {
    fn is_alone(&self) -> bool {
        self.is_alone
    }

    #[inline]
    fn answered(&mut self, _: &mut Port<'_>, answer: Answer) -> Option<LogicalUnit> {
        self.answers.push(answer);
        None
    }
}

impl<M: Mapping + Send> Model for Ssd<M, Store> {
    fn submit(&mut self, at: Instant, tag: RequestTag, command: Command) {
        let at = at.max(Ssd::now(self));
        self.port().submit(at, tag, command);
    }

    fn advance_to_answer(
        &mut self,
        until: Instant,
        is_alone: bool,
        answers: &mut Vec<Answer>,
    ) -> bool {
        let mut host = AnswerCollector { answers, is_alone };
        while self.single_step(until, &mut host) {
            if !host.answers.is_empty() || self.media().wants_buffer_saved() {
                return true;
            }
        }
        false
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

    fn idle(&mut self, from: Instant, duration: Nanoseconds) {
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

/// Evaluates an expression with a new map of the kind that the configuration asks for.
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

/// Returns a new drive, whose flash is erased.
///
/// # Errors
/// Returns an error if no such drive is possible.
pub fn new(configuration: &Configuration, store: Store) -> Result<Box<dyn Model>, GeometryError> {
    with_map!(configuration, |map| Ok(Box::new(Ssd::with(configuration, map, store)?)))
}

/// Opens a drive at `at` from the contents of its flash, which `Store::survey` has read before.
///
/// # Errors
/// Returns an error if the flash holds what this drive cannot have written, or has no free space left to
/// recover.
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
/// Returns an error if the tables are not those of such a drive.
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
