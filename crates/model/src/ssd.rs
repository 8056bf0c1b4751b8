//! The drive: requests in, the instants they are answered out.
//!
//! Requests are handed over in the order of their time. Each is carried through at once: every
//! resource it needs is reserved, every unit it writes is placed, and collection keeps pace.
//! The rules of each kind of request are in their own files (`write`, `read`, `trim`, `idle`),
//! collection in `collection`.

use crate::attribution::Delays;
use crate::bad_blocks::BadBlocks;
use crate::buffer::WriteBuffer;
use crate::checkpoint;
use crate::collection::{CollectionParameters, Collector};
use crate::condense::Condenser;
use crate::counters::{Counters, Wear};
use crate::fetch::Fetches;
use crate::flash::Flash;
use crate::flush::Durability;
use crate::geometry::{Geometry, GeometryError};
use crate::idle::Rest;
use crate::in_time::InTime;
use crate::large_read::LargeReads;
use crate::log_block;
use crate::mapping::cached::CachedMap;
use crate::mapping::extent::{ExtentMap, ExtentParameters};
use crate::mapping::{Mapping, MappingScheme, PageMap};
use crate::mechanisms::Mechanisms;
use crate::media::{Media, Null, SequenceNumber};
use crate::merge::Merges;
use crate::read::ReadScratch;
use crate::read_ahead::{ReadAhead, ReadAheadParameters};
use crate::resources::{Class, Resource, Resources};
use crate::retention::Retention;
use crate::slc::SlcCache;
use crate::stream::{FreePool, WriteStream};
use crate::streams::Streams;
use crate::timing::Timing;
use crate::trim::TrimParameters;
use crate::trim_log::TrimLog;
use crate::trim_marks::TrimMarks;
use crate::units::{BlockIndex, Instant, LogicalUnit, Nanoseconds};
use crate::wear_levelling::{Levelling, LevellingParameters};

/// How the write buffer behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BufferParameters {
    /// Units it holds; at least two program units.
    pub units: u32,
    /// Whether capacitors protect it, so that a flush has nothing to wait for.
    pub protected: bool,
    /// How long the drive must be idle before it programs what the buffer holds.
    pub idle_before_flush: Nanoseconds,
}

/// Everything that makes a simulated drive. A profile is where it comes from.
#[derive(Clone, Debug)]
pub struct Configuration {
    /// Its flash.
    pub geometry: Geometry,
    /// How long things take.
    pub timing: Timing,
    /// Its write buffer.
    pub buffer: BufferParameters,
    /// How it reads ahead.
    pub read_ahead: ReadAheadParameters,
    /// How it collects.
    pub collection: CollectionParameters,
    /// Whether trim does anything.
    pub trim: bool,
    /// What else it has.
    pub mechanisms: Mechanisms,
}

impl Configuration {
    /// Checks that there is spare area to collect with, beyond the blocks that are always kept
    /// open or free.
    pub fn check_spare(&self) -> Result<(), GeometryError> {
        if self.mechanisms.mapping == MappingScheme::LogBlock {
            // It does not collect; `check_mapping` says what it needs.
            return Ok(());
        }
        let geometry = &self.geometry;
        let kept = self.collection.blocks_kept(geometry, &self.mechanisms);
        let usable = u64::from(geometry.blocks().saturating_sub(kept + 1))
            * u64::from(geometry.units_per_block());
        if u64::from(geometry.logical_units()) <= usable {
            return Ok(());
        }
        Err(GeometryError::NoSpare { logical: geometry.logical_units().into(), usable })
    }

    /// Checks that there is room for what the mapping scheme keeps on flash.
    pub fn check_mapping(&self) -> Result<(), GeometryError> {
        self.check_checkpoint()?;
        match self.mechanisms.mapping {
            MappingScheme::Page => Ok(()),
            MappingScheme::Cached => CachedMap::check_room(&self.geometry),
            MappingScheme::Extent => self.check_extents(),
            MappingScheme::LogBlock => {
                log_block::check_room(&self.geometry, self.mechanisms.log_blocks)
            }
        }
    }
}

impl Configuration {
    fn check_checkpoint(&self) -> Result<(), GeometryError> {
        if self.mechanisms.checkpoint.is_none() {
            return Ok(());
        }
        let pages = checkpoint::map_pages(&self.geometry, &self.mechanisms);
        let per_unit = checkpoint::pages_per_metadata_unit(&self.geometry);
        // One more is being erased, and two are the journal's.
        let needed = (2 * pages).div_ceil(per_unit) + 1 + 2;
        let given = self.geometry.parameters().metadata_collection_units;
        if u64::from(given) >= needed {
            return Ok(());
        }
        Err(GeometryError::NoRoomForCheckpoint { given, needed, pages })
    }

    fn check_extents(&self) -> Result<(), GeometryError> {
        let geometry = &self.geometry;
        if geometry.groups() > 1 {
            return Err(GeometryError::ExtentsNeedSuperblocks);
        }
        let least = ExtentParameters::least_extents(geometry);
        let extents = self.mechanisms.extents.extents_max;
        if extents >= least {
            return Ok(());
        }
        Err(GeometryError::NoRoomForExtents { extents, least })
    }
}

/// A simulated drive, generic over how it maps and what its flash keeps.
#[derive(Clone, Debug)]
pub struct Ssd<M: Mapping = PageMap, D: Media = Null> {
    pub(crate) geometry: Geometry,
    pub(crate) timing: Timing,
    pub(crate) map: M,
    pub(crate) media: D,
    pub(crate) flash: Flash,
    pub(crate) free: FreePool,
    pub(crate) host: WriteStream,
    pub(crate) streams: Option<Box<Streams>>,
    pub(crate) collector: Collector,
    pub(crate) in_time: InTime,
    pub(crate) resources: Resources,
    pub(crate) buffer: WriteBuffer,
    pub(crate) buffer_parameters: BufferParameters,
    pub(crate) durability: Durability,
    pub(crate) trim_log: TrimLog,
    /// The latest rest.
    pub(crate) rest: Option<Rest>,
    pub(crate) read_ahead: ReadAhead,
    pub(crate) scratch: ReadScratch,
    pub(crate) large_reads: LargeReads,
    pub(crate) fetches: Fetches,
    pub(crate) merges: Merges,
    pub(crate) condenser: Condenser,
    pub(crate) counters: Counters,
    pub(crate) delays: Delays,
    pub(crate) trim_enabled: bool,
    pub(crate) trim_parameters: TrimParameters,
    pub(crate) trim_marks: Option<Box<TrimMarks>>,
    pub(crate) slc: Option<Box<SlcCache>>,
    pub(crate) retention: Option<Box<Retention>>,
    /// Whether it takes longer to sense some pages than others.
    pub(crate) pages_differ: bool,
    /// Static wear levelling.
    pub(crate) levelling: Option<Levelling>,
    pub(crate) bad_blocks: Option<Box<BadBlocks>>,
    /// Logical units that can be written: all, or none once the drive is read-only.
    pub(crate) writable_units: u32,
    /// The number of the latest program unit that was finished.
    pub(crate) sequence: SequenceNumber,
    pub(crate) unit_to_host: Nanoseconds,
    pub(crate) unit_over_channel: Nanoseconds,
}

impl Ssd<CachedMap, Null> {
    /// A new drive whose map lies on flash, with flash that keeps no payload.
    pub fn with_cached_map(configuration: &Configuration) -> Result<Self, GeometryError> {
        Ssd::with(configuration, CachedMap::new(configuration)?, Null)
    }
}

impl Ssd<ExtentMap, Null> {
    /// A new drive with a map of extents, and flash that keeps no payload.
    ///
    /// # Errors
    /// When the table has too little room, or the drive collects single blocks.
    pub fn with_extent_map(configuration: &Configuration) -> Result<Self, GeometryError> {
        configuration.check_mapping()?;
        let map = ExtentMap::new(&configuration.geometry, configuration.mechanisms.extents);
        Ssd::with(configuration, map, Null)
    }
}

impl Ssd<PageMap, Null> {
    /// A new drive, with a page map in RAM and flash that keeps no payload.
    pub fn new(configuration: &Configuration) -> Result<Self, GeometryError> {
        let map = PageMap::new(configuration.geometry.logical_units());
        Ssd::with(configuration, map, Null)
    }
}

fn flash(geometry: &Geometry, mechanisms: &Mechanisms) -> Flash {
    let flash = Flash::new(geometry, mechanisms.victims, mechanisms.seed);
    if mechanisms.slc.is_some() {
        return flash.with_victims_apart();
    }
    match mechanisms.streams.hot_blocks {
        Some(_) => flash.with_victims_apart(),
        None => flash,
    }
}

fn free_pool(geometry: &Geometry, mechanisms: &Mechanisms) -> FreePool {
    match mechanisms.wear.levelling {
        LevellingParameters::Off => FreePool::new(geometry),
        LevellingParameters::Dynamic | LevellingParameters::Static { .. } => {
            FreePool::new(geometry).least_worn_first()
        }
    }
}

impl<M: Mapping, D: Media> Ssd<M, D> {
    /// A new drive with the given map and media.
    ///
    /// # Errors
    /// When the geometry leaves no spare area to collect with.
    ///
    /// # Panics
    /// When the write buffer holds less than two program units; profiles check that.
    pub fn with(configuration: &Configuration, map: M, media: D) -> Result<Self, GeometryError> {
        let Configuration { geometry, timing, buffer, read_ahead, collection, trim, mechanisms } =
            configuration;
        configuration.check_spare()?;
        let streams = &mechanisms.streams;
        assert!(
            buffer.units >= (1 + streams.count) * geometry.units_per_program(),
            "the write buffer holds a program unit per stream, and one that is programmed"
        );
        assert!(streams.count == 1 || buffer.protected, "several streams need capacitors");
        Ok(Ssd {
            map,
            media,
            flash: flash(geometry, mechanisms),
            free: free_pool(geometry, mechanisms),
            host: WriteStream::new(geometry),
            streams: Streams::new(
                geometry,
                mechanisms,
                geometry.blocks().saturating_sub(geometry.groups() * collection.low_water),
            ),
            collector: Collector::new(geometry, *collection, mechanisms),
            in_time: InTime::default(),
            resources: Resources::new(geometry, timing, collection.debt_max)
                .with_suspend(mechanisms.suspend)
                .with_registers(mechanisms.page_register),
            buffer: WriteBuffer::new(buffer.units),
            buffer_parameters: *buffer,
            durability: Durability::new(configuration),
            trim_log: TrimLog::new(),
            rest: None,
            read_ahead: ReadAhead::new(*read_ahead, mechanisms.page_register),
            scratch: ReadScratch::default(),
            large_reads: LargeReads::default(),
            fetches: Fetches::default(),
            merges: Merges::default(),
            condenser: Condenser::default(),
            counters: Counters::default(),
            delays: Delays::default(),
            trim_enabled: *trim,
            trim_parameters: mechanisms.trim,
            trim_marks: TrimMarks::new(&mechanisms.trim, geometry.logical_units()),
            slc: mechanisms.slc.map(|slc| Box::new(SlcCache::new(geometry, slc))),
            retention: Retention::new(configuration),
            pages_differ: mechanisms.slc.is_some() || mechanisms.retention.is_some(),
            levelling: Levelling::new(mechanisms.wear.levelling),
            bad_blocks: BadBlocks::new(configuration),
            writable_units: geometry.logical_units(),
            sequence: SequenceNumber::default(),
            unit_to_host: timing.link.duration(geometry.unit_size()),
            unit_over_channel: timing.channel.duration(geometry.unit_size()),
            geometry: geometry.clone(),
            timing: timing.clone(),
        })
    }

    /// The drive's shape.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// What it has done since it was made.
    pub fn counters(&self) -> Counters {
        let mut counters = self.counters;
        // Commands are counted where their latency is.
        counters.host_read_commands += self.delays.reads.requests;
        counters.host_write_commands += self.delays.writes.requests;
        counters
    }

    /// How worn its flash is.
    pub fn wear(&self) -> Wear {
        self.flash.wear()
    }

    /// How many closed blocks (collection units) hold 0, 1, 2 .. valid units.
    pub fn blocks_by_valid_units(&self) -> Vec<u32> {
        let mut blocks = vec![0; self.geometry.units_per_block() as usize + 1];
        for block in self.flash.victims().blocks() {
            blocks[self.flash.valid(BlockIndex(block)) as usize] += 1;
        }
        blocks
    }

    /// What its flash keeps.
    pub fn media(&self) -> &D {
        &self.media
    }

    /// Asks for the map entry of a unit that will be requested some requests from now.
    ///
    /// Calling this about 32 requests ahead, and [`Ssd::prefetch_target`] about 16 ahead, hides
    /// the latency of memory; leaving it out changes nothing but the speed.
    #[inline(always)]
    pub fn prefetch_map(&self, unit: LogicalUnit) {
        self.map.prefetch(unit);
    }

    /// Asks for what the map entry of a unit that will be written soon points to.
    #[inline(always)]
    pub fn prefetch_target(&self, unit: LogicalUnit) {
        if !self.flash.is_at_hand()
            && let Some(old) = self.map.get(unit)
        {
            self.flash.prefetch_block(self.geometry.block_of(old));
        }
    }

    /// The controller takes up a command that arrives at `at`; the instant it acts on it.
    #[inline(always)]
    pub(crate) fn take_up(&mut self, at: Instant) -> Instant {
        self.take_up_for(at, Nanoseconds::ZERO)
    }

    /// The same for a command that keeps the controller busy for `longer` than others do.
    #[inline(always)]
    pub(crate) fn take_up_for(&mut self, at: Instant, longer: Nanoseconds) -> Instant {
        self.counters.requests += 1;
        let occupancy = self.timing.command_occupancy + longer;
        let span = self.resources.reserve(Resource::Controller, Class::Write, at, occupancy);
        span.end + self.timing.command_latency
    }

    pub(crate) fn check_range(&self, first: LogicalUnit, units: u32) {
        assert!(
            units > 0
                && u64::from(first.0) + u64::from(units)
                    <= u64::from(self.geometry.logical_units()),
            "a request lies within the drive"
        );
    }

    /// Checks what must hold between requests: every logical unit is mapped to a physical one
    /// that names it, valid counts are right, and no block is lost. Walks the whole drive.
    ///
    /// # Panics
    /// When anything is wrong, saying what.
    pub fn check_invariants(&self) {
        let mut valid = vec![0u32; self.geometry.blocks() as usize];
        let mut mapped = std::collections::HashSet::new();
        for unit in 0..self.geometry.logical_units() {
            let Some(physical) = self.map.get(LogicalUnit(unit)) else {
                continue;
            };
            assert!(mapped.insert(physical), "two logical units share {physical:?}");
            let named = self.flash.logical_at(physical);
            assert_eq!(named, Some(LogicalUnit(unit)), "the spare area of {physical:?}");
            valid[self.geometry.block_of(physical).0 as usize] += 1;
        }
        self.map.check_invariants();
        self.check_blocks(&valid);
    }

    fn check_blocks(&self, valid: &[u32]) {
        use crate::flash::BlockState::{Closed, Closing, Free, OpenForCollection, Retired, Victim};
        let (mut free, mut closed, mut retired) = (0, 0, 0);
        for (index, &valid) in valid.iter().enumerate() {
            let block = crate::units::BlockIndex(index as u32);
            match self.flash.state(block) {
                Free => {
                    assert_eq!(valid, 0, "{block:?} is free");
                    free += 1;
                }
                Closed | Closing => {
                    assert_eq!(self.flash.valid(block), valid, "valid units of {block:?}");
                    closed += 1;
                }
                Retired => {
                    let units = self.geometry.units_per_block();
                    let held = self.flash.held(self.geometry.first_unit(block), units);
                    assert!(held.iter().all(|&held| held == 0), "{block:?} is bad");
                    retired += 1;
                }
                Victim => assert_eq!(self.flash.valid(block), valid, "units left in {block:?}"),
                OpenForCollection | crate::flash::BlockState::OpenForHost => {
                    // Counted down from full: what is not yet written counts as valid.
                    assert!(self.flash.valid(block) >= valid, "valid units of open {block:?}");
                }
            }
        }
        assert_eq!(free, self.free.len(), "the free pool holds every free block");
        assert_eq!(retired, self.bad_blocks.as_ref().map_or(0, |it| it.retired()), "bad blocks");
        assert_eq!(closed, self.flash.closed(), "every closed block can be collected");
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::profile::Profile;

    /// A drive of 64 MiB with the parts of the default profile.
    pub(crate) fn small_drive() -> Ssd {
        Ssd::new(&small_configuration(&[])).expect("a sound drive")
    }

    /// Its configuration, with some values changed.
    pub(crate) fn small_configuration(changed: &[(&str, &str)]) -> Configuration {
        let mut profile = Profile::named(crate::profile::DEFAULT).expect("the default profile");
        let small = [
            ("capacity.logical", "64M"),
            ("capacity.physical", "96M"),
            ("flash.channels", "2"),
            ("flash.dies", "4"),
            ("flash.pages_per_block", "6"),
            ("read_ahead.window", "0"),
        ];
        for (key, value) in small.iter().chain(changed) {
            profile.set(key, value).expect("a sound value");
        }
        profile.configuration().expect("a sound profile")
    }
}
