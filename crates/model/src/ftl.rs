//! The simulated drive: a flash translation layer (FTL) on top of the event-driven flash engine.
//!
//! [`Ssd`] consists of the flash engine ([`Nand`]), which keeps simulated time, and the FTL, which is called
//! when a flash operation ends and then enqueues the next ones. The parts of the FTL are blocks, placement (the
//! write frontier and the write buffer), the collector (garbage collection), metadata, reads, and the host's
//! port, each with fields of its own. The FTL decides at once, when a command is executed, where data lies; the
//! flash operations follow in simulated time.

mod barriers;
mod blocks;
mod collector;
mod copies;
mod extent_compaction;
mod gc;
mod host;
mod idle_gc;
pub mod inside;
mod log_blocks;
mod map_traffic;
mod metadata;
mod mixed;
mod modes;
mod parts;
mod payload;
mod placement;
mod power_cut;
mod precondition;
mod purge;
mod reads;
mod reclaim;
mod recovery;
mod relocation;
mod requests;
mod reserve;
mod saved;
mod shut_down;
mod state;
mod static_allocation;
mod trims;
mod wrappers;
mod writes;

use ssdlab_nand::{Completions, CopyNumber, DieParameters, EraseId, Nand, ReadTime, Tag};

use crate::attribution::Delays;
use crate::counters::{Counters, Wear};
use crate::deferred_trims::DeferredTrims;
use crate::geometry::{Geometry, GeometryError};
use crate::mapping::cached::CachedMap;
use crate::mapping::extent::ExtentMap;
use crate::mapping::{Mapping, MappingScheme, PageMap};
use crate::media::{Media, Null};
use crate::page_reads::PageReads;
use crate::retention::Retention;
use crate::slc::SlcCache;
use crate::ssd::Configuration;
use crate::streams::Streams;
use crate::thermal::Thermal;
use crate::timing::Timing;
use crate::units::{DieIndex, Instant, LogicalUnit};

use blocks::Blocks;
use collector::Collector;
use extent_compaction::ExtentCompactor;
pub use host::{Answer, Command, Host, Port, RequestTag};
pub use idle_gc::IdlePeriod;
use log_blocks::LogBlocks;
pub(crate) use log_blocks::check_space_for_log;
use map_traffic::MapTraffic;
use metadata::Metadata;
use placement::Placement;
pub use power_cut::{Cuttable, Torn, TornOperations};
use reads::Reads;
pub use recovery::Opening;
use requests::Requests;
use reserve::Reserve;

/// A simulated drive, generic over its mapping scheme and over the medium that keeps its data.
#[derive(Clone, Debug)]
pub struct Ssd<M: Mapping = PageMap, D: Media = Null> {
    nand: Nand,
    ftl: Ftl<M, D>,
}

/// The flash translation layer: all of the drive except the flash engine.
#[derive(Clone, Debug)]
struct Ftl<M, D> {
    geometry: Geometry,
    timing: Timing,
    page_reads: PageReads,
    map: M,
    media: D,
    blocks: Blocks,
    placement: Placement,
    collector: Collector,
    reserve: Reserve,
    metadata: Metadata,
    traffic: MapTraffic,
    reads: Reads,
    compactor: ExtentCompactor,
    streams: Option<Box<Streams>>,
    log_blocks: Option<Box<LogBlocks>>,
    slc: Option<Box<SlcCache>>,
    retention: Option<Box<Retention>>,
    requests: Requests,
    thermal: Option<Thermal>,
    idle_time: idle_gc::IdleTime,
    /// True if the drive executes trims; false if it ignores them.
    trims: bool,
    deferred_trims: Option<Box<DeferredTrims>>,
    counters: Counters,
    delays: Delays,
}

/// Arguments of every step of the FTL: the flash engine, and the host that waits for answers.
struct Context<'a> {
    nand: &'a mut Nand,
    /// Called once for each answer, so that the FTL need not be compiled for each host.
    host: &'a mut (dyn Host + 'a),
}

/// Kinds of the tags that the FTL gives to flash operations and alarms: the upper four bits of a tag. Commands
/// and reads of the host carry the tag that the host chose.
mod kind {
    pub(super) const NUMBER: u32 = (1 << 28) - 1;
    pub(super) const HOST: u32 = 0;
    pub(super) const JOURNAL: u32 = 1 << 28;
    pub(super) const TRIMS: u32 = 2 << 28;
    pub(super) const MAP_CHECKPOINT: u32 = 3 << 28;
    pub(super) const MAP: u32 = 4 << 28;
    /// Program or load for a run of extents (extent compaction).
    pub(super) const RUN: u32 = 5 << 28;
    pub(super) const BAD_BLOCK: u32 = 6 << 28;
    pub(super) const NEW_MAP: u32 = 7 << 28;
    /// Program of a program unit that recovery writes as padding.
    pub(super) const PADDING: u32 = 8 << 28;
    /// Load of a map page. `HOST_PROGRAM_READ` is the load of data that a program unit of the host waits for.
    /// All loads of other kinds than these two and `RUN` are read-ahead.
    pub(super) const MAP_LOAD: u32 = 1 << 28;
    pub(super) const HOST_PROGRAM_READ: u32 = 2 << 28;
    /// Alarm: the drive has been idle long enough to program the contents of its write buffer.
    pub(super) const IDLE: u32 = 1 << 28;
    /// Alarm: the map lookup of a request is done (its extents, or its entry in a cached map page).
    pub(super) const MAP_LOOKUP_DONE: u32 = 2 << 28;
    /// Alarm: recovery has read the flash.
    pub(super) const RECOVERY_DONE: u32 = 3 << 28;
}

/// Returns the number that `tag` stands for, which is at least `low`: a tag holds the last 28 bits of the
/// number.
fn number_of(tag: Tag, low: u64) -> u64 {
    low + u64::from(tag.0.wrapping_sub(low as u32) & kind::NUMBER)
}

impl Ssd<PageMap, Null> {
    /// Returns a new drive with a page map in RAM and flash that stores no data.
    ///
    /// # Errors
    /// Returns an error if the geometry leaves too little over-provisioning for garbage collection.
    pub fn new(configuration: &Configuration) -> Result<Self, GeometryError> {
        let map = PageMap::new(configuration.geometry.logical_units());
        Ssd::with(configuration, map, Null)
    }
}

impl Ssd<CachedMap, Null> {
    /// Returns a new drive whose map lies on flash (cached in RAM in part), with flash that stores no data.
    ///
    /// # Errors
    /// Returns an error if the geometry leaves too little over-provisioning, or the metadata blocks cannot hold
    /// the map.
    pub fn with_cached_map(configuration: &Configuration) -> Result<Self, GeometryError> {
        Ssd::with(configuration, CachedMap::new(configuration)?, Null)
    }
}

impl Ssd<ExtentMap, Null> {
    /// Returns a new drive with an extent map, and flash that stores no data.
    ///
    /// # Errors
    /// Returns an error if the extent table is too small, or the collection unit is a single block.
    pub fn with_extent_map(configuration: &Configuration) -> Result<Self, GeometryError> {
        configuration.check_mapping()?;
        let map = ExtentMap::new(&configuration.geometry, configuration.mechanisms.extents);
        Ssd::with(configuration, map, Null)
    }
}

impl<M: Mapping, D: Media> Ssd<M, D> {
    /// Returns a new drive with the given map and media.
    ///
    /// # Errors
    /// Returns an error if the geometry leaves too little over-provisioning for garbage collection.
    pub fn with(configuration: &Configuration, map: M, media: D) -> Result<Self, GeometryError> {
        configuration.check_spare()?;
        if configuration.mechanisms.mapping == MappingScheme::LogBlock {
            configuration.check_mapping()?;
        }
        let Configuration { geometry, timing, collection, mechanisms, .. } = configuration;
        let parameters = DieParameters {
            suspend: mechanisms.suspend,
            background_most: collection.debt_max,
            page_register: mechanisms.page_register,
        };
        let ftl = Ftl {
            map,
            media,
            blocks: Blocks::new(configuration),
            placement: Placement::new(configuration),
            collector: Collector::new(configuration),
            reserve: Reserve::default(),
            metadata: Metadata::new(configuration),
            traffic: MapTraffic::new(geometry, mechanisms.map_cache_read),
            reads: Reads::new(configuration),
            compactor: ExtentCompactor::default(),
            streams: Streams::new(
                geometry,
                mechanisms,
                geometry.blocks().saturating_sub(geometry.groups() * collection.low_water),
            ),
            log_blocks: LogBlocks::new(configuration),
            slc: mechanisms.slc.map(|slc| Box::new(SlcCache::new(geometry, slc))),
            retention: Retention::new(configuration),
            requests: Requests::new(configuration),
            thermal: mechanisms.thermal.map(Thermal::new),
            idle_time: idle_gc::IdleTime::new(configuration.buffer.idle_before_flush),
            trims: configuration.trim,
            deferred_trims: DeferredTrims::new(&mechanisms.trim, geometry.logical_units()),
            counters: Counters::default(),
            delays: Delays::default(),
            geometry: geometry.clone(),
            timing: timing.clone(),
            page_reads: PageReads::new(configuration),
        };
        Ok(Ssd { nand: Nand::new(geometry, timing, parameters), ftl })
    }

    /// Returns the drive's geometry.
    pub fn geometry(&self) -> &Geometry {
        &self.ftl.geometry
    }

    /// Returns the instant of the latest event.
    pub fn now(&self) -> Instant {
        self.nand.now()
    }

    /// Returns the counters of all that the drive has done since it was made.
    pub fn counters(&self) -> Counters {
        let mut counters = self.ftl.counters;
        // Commands are counted together with their latencies.
        counters.host_read_commands += self.ftl.delays.reads.requests;
        counters.host_write_commands += self.ftl.delays.writes.requests;
        counters
    }

    /// Returns the wear of the flash.
    pub fn wear(&self) -> Wear {
        self.ftl.blocks.table().wear()
    }

    /// Prefetches into the CPU cache the map entry of a unit that will be requested some requests from now.
    #[inline(always)]
    pub fn prefetch_map(&self, unit: LogicalUnit) {
        self.ftl.map.prefetch(unit);
    }

    /// Returns the port through which a host sends commands, as [`Host::answered`] gets one with each answer.
    pub fn port(&mut self) -> Port<'_> {
        Port::new(&mut self.nand, &mut self.ftl.requests)
    }

    /// Executes the next event if it is due until `until`, that instant included. Returns true if there was
    /// one. Compiled into its caller, for the one loop whose speed matters; others call [`Ssd::single_step`].
    #[inline(always)]
    pub fn step(&mut self, until: Instant, host: &mut impl Host) -> bool {
        let is_host_alone = host.is_alone();
        self.nand.step(until, &mut Sink { ftl: &mut self.ftl, host, is_host_alone })
    }

    /// Executes the next event as [`Ssd::step`] does, in a function of its own.
    #[inline(never)]
    pub fn single_step(&mut self, until: Instant, host: &mut dyn Host) -> bool {
        let is_host_alone = host.is_alone();
        self.nand.step(until, &mut Sink { ftl: &mut self.ftl, host, is_host_alone })
    }

    /// Executes all events that are due until `until`, that instant included.
    pub fn run_until(&mut self, until: Instant, host: &mut dyn Host) {
        while self.single_step(until, host) {}
    }

    /// Returns the instant of the next event; `None` if there is none.
    pub fn next_due(&self) -> Option<Instant> {
        self.nand.next_due()
    }

    /// Returns true if no event is pending.
    pub fn is_idle(&self) -> bool {
        self.nand.is_idle()
    }

    /// Checks the invariants between requests: the physical unit that a logical unit is mapped to names that
    /// logical unit in its reverse map, counts of valid units are right, and no block is lost. Walks the whole
    /// drive.
    ///
    /// # Panics
    /// Panics with a description if an invariant does not hold.
    pub fn check_invariants(&self) {
        self.ftl.blocks.check_invariants(&self.ftl.map, &self.ftl.geometry);
        self.ftl.map.check_invariants();
        if let Some(log) = &self.ftl.log_blocks {
            let block_table = self.ftl.blocks.table();
            let free = self.ftl.blocks.free();
            log.check_invariants(&self.ftl.geometry, |place| block_table.logical_at(place), free);
        }
    }
}

/// Receiver of the flash engine's events: the FTL and the host.
struct Sink<'a, M, D> {
    ftl: &'a mut Ftl<M, D>,
    host: &'a mut (dyn Host + 'a),
    is_host_alone: bool,
}

impl<M: Mapping, D: Media> Completions for Sink<'_, M, D> {
    #[inline(always)]
    fn reads_commute(&self) -> bool {
        self.is_host_alone
    }

    #[inline(always)]
    fn fetched(&mut self, nand: &mut Nand, tag: Tag, _: Instant) {
        if self.ftl.thermal.is_some() {
            self.ftl.throttle_if_hot(nand, RequestTag(tag.0));
        }
        self.ftl.execute_command(&mut Context { nand, host: self.host }, RequestTag(tag.0));
        self.resume_requests(nand);
    }

    #[inline(always)]
    fn read(&mut self, nand: &mut Nand, tag: Tag, at: Instant, time: ReadTime) {
        self.ftl.complete_read(&mut Context { nand, host: self.host }, RequestTag(tag.0), at, time);
    }

    fn loaded(&mut self, nand: &mut Nand, tag: Tag, _: Instant) {
        match tag.0 & !kind::NUMBER {
            kind::MAP_LOAD => self.ftl.map_page_loaded(nand, tag),
            kind::RUN => self.ftl.run_page_loaded(nand, tag),
            kind::HOST_PROGRAM_READ => {
                self.ftl.host_program_read(&mut Context { nand, host: self.host }, tag)
            }
            _ => self.ftl.read_ahead_page_loaded(nand, tag),
        }
        self.resume_requests(nand);
    }

    #[inline(always)]
    fn programmed(&mut self, nand: &mut Nand, tag: Tag, _: Instant) {
        let context = &mut Context { nand, host: self.host };
        match tag.0 & !kind::NUMBER {
            kind::HOST => self.ftl.host_programmed(context, tag),
            kind::MAP => self.ftl.map_programmed(context.nand, tag),
            kind::RUN => self.ftl.run_programmed(context, tag),
            kind::PADDING => self.ftl.media.programmed(self.ftl.padding_unit_of(tag)),
            _ => self.ftl.metadata_programmed(context, tag),
        }
        self.resume_requests(nand);
    }

    #[inline(always)]
    fn copies_programmed(&mut self, nand: &mut Nand, copies: CopyNumber, _: Instant) {
        self.ftl.copies_programmed(&mut Context { nand, host: self.host }, copies);
    }

    fn erased_on(&mut self, nand: &mut Nand, erase: EraseId, die: DieIndex, _: Instant) {
        self.ftl.erased_on_die(nand, erase, die);
    }

    fn erased(&mut self, _: &mut Nand, erase: EraseId, _: Instant) {
        self.ftl.blocks.note_erased(erase);
        self.ftl.traffic.note_erased(erase);
    }

    #[inline(always)]
    fn alarm(&mut self, nand: &mut Nand, tag: Tag, _: Instant) {
        let context = &mut Context { nand, host: self.host };
        match tag.0 & !kind::NUMBER {
            kind::HOST => self.ftl.data_received(context, tag),
            kind::MAP_LOOKUP_DONE => {
                let request = RequestTag(tag.0 & kind::NUMBER);
                match self.ftl.map.cache().is_some() {
                    true => self.ftl.map_entry_read(request),
                    false => self.ftl.extents_found(context, request),
                }
            }
            kind::RECOVERY_DONE => {}
            _ => self.ftl.flush_when_idle(context),
        }
        self.resume_requests(nand);
    }
}

impl<M: Mapping, D: Media> Sink<'_, M, D> {
    /// Resumes requests whose map pages have been loaded into RAM.
    #[inline(always)]
    fn resume_requests(&mut self, nand: &mut Nand) {
        if self.ftl.map.cache().is_some() && self.ftl.traffic.has_resumable() {
            self.ftl.resume_requests_with_map_pages(&mut Context { nand, host: self.host });
        }
    }
}
