//! Where things lie, worked out with plain divisions from the same parameters that the model has.

use ssdlab_model::Configuration;
use ssdlab_model::flush::{FlushHandling, WriteCache};
use ssdlab_model::mapping::MappingScheme;
use ssdlab_model::suspend::SuspendParameters;
use ssdlab_nand::timing::Delivery;

/// A physical unit: its collection unit, and its place in that one's write order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    pub block: usize,
    pub offset: usize,
}

/// All the numbers a simulated drive is made of. Times are nanoseconds.
#[derive(Clone, Debug)]
pub struct Shape {
    pub channels: usize,
    pub dies: usize,
    pub blocks: usize,
    pub logical_units: u32,
    /// Dies that a collection unit is striped over, and how many such sets of dies there are.
    pub stripe: usize,
    pub groups: usize,
    pub units_per_page: usize,
    pub units_per_sense: usize,
    pub units_per_program: usize,
    pub units_per_block: usize,
    /// Sensing, by page of the word line.
    pub senses: Vec<u64>,
    /// Sensing a page of the map.
    pub mean_sense: u64,
    /// Time that a read for copies takes beyond sensing.
    pub copy_overhead: u64,
    pub program: u64,
    pub erase: u64,
    pub unit_over_channel: u64,
    pub unit_over_link: u64,
    pub full_duplex: bool,
    pub in_order: bool,
    pub command_occupancy: u64,
    pub command_latency: u64,
    /// What each unit of a command costs beside its transfers.
    pub unit_over_controller: u64,
    pub unit_latency: u64,
    pub buffer_units: u32,
    pub buffer_protected: bool,
    /// True if flush and FUA have anything to wait for.
    pub flush_waits: bool,
    pub write_through: bool,
    pub flush_overhead: u64,
    pub journal_program: Option<u64>,
    pub changes_per_page: usize,
    pub suspend: SuspendParameters,
    pub page_register: bool,
    pub read_ahead_window: u32,
    pub read_ahead_segment: u32,
    pub read_ahead_trigger: u32,
    pub low_water: usize,
    pub debt_max: usize,
    /// The map, where it lies on flash.
    pub map: Option<MapShape>,
}

/// How a map lies on flash.
#[derive(Clone, Copy, Debug)]
pub struct MapShape {
    /// Entries of a map page.
    pub entries: usize,
    /// Map pages that RAM holds.
    pub cached: usize,
    /// Time to read an entry of one of them, in nanoseconds.
    pub cache_read: u64,
    pub blocks: usize,
}

impl Shape {
    pub fn of(configuration: &Configuration) -> Shape {
        let geometry = configuration.geometry.parameters();
        let timing = &configuration.timing;
        let stripe = geometry.dies_per_collection_unit as usize;
        let groups = geometry.dies as usize / stripe;
        let units_per_page = (geometry.page_size.bytes() / geometry.unit_size.bytes()) as usize;
        let units_per_sense = units_per_page * geometry.planes_per_die as usize;
        let flush = &configuration.mechanisms.flush;
        let data_time = &configuration.mechanisms.data_time;
        let flush_waits =
            !configuration.buffer.protected && flush.handling == FlushHandling::Honest;
        let write_through =
            !configuration.buffer.protected && flush.write_cache == WriteCache::WriteThrough;
        Shape {
            channels: geometry.channels as usize,
            dies: geometry.dies as usize,
            blocks: geometry.collection_units as usize,
            logical_units: geometry.logical_units,
            stripe,
            groups,
            units_per_page,
            units_per_sense,
            units_per_program: units_per_sense * geometry.pages_per_shot as usize,
            units_per_block: units_per_sense * geometry.pages_per_block as usize * stripe,
            senses: senses(configuration),
            mean_sense: timing.page_read.nanos(),
            copy_overhead: configuration.mechanisms.copy_overhead.nanos(),
            program: timing.program.nanos(),
            erase: timing.erase.nanos(),
            unit_over_channel: timing.channel.duration(geometry.unit_size).nanos(),
            unit_over_link: timing.link.duration(geometry.unit_size).nanos(),
            full_duplex: timing.link_full_duplex,
            in_order: timing.delivery == Delivery::InOrder,
            command_occupancy: timing.command_occupancy.nanos(),
            command_latency: timing.command_latency.nanos(),
            unit_over_controller: data_time.occupancy(geometry.unit_size).nanos(),
            unit_latency: data_time.latency(geometry.unit_size).nanos(),
            buffer_units: configuration.buffer.units,
            buffer_protected: configuration.buffer.protected,
            flush_waits,
            write_through,
            flush_overhead: flush.overhead.nanos(),
            journal_program: flush
                .journal
                .filter(|_| flush_waits || write_through)
                .map(|journal| journal.program.nanos()),
            changes_per_page: geometry.page_size.bytes() as usize / 8,
            suspend: configuration.mechanisms.suspend,
            page_register: configuration.mechanisms.page_register,
            read_ahead_window: configuration.read_ahead.window,
            read_ahead_segment: configuration.read_ahead.segment,
            read_ahead_trigger: configuration.read_ahead.trigger,
            low_water: configuration.collection.low_water as usize * groups,
            debt_max: configuration.collection.debt_max as usize,
            map: (configuration.mechanisms.mapping == MappingScheme::Cached).then(|| MapShape {
                entries: geometry.unit_size.bytes() as usize / 4,
                cached: configuration.mechanisms.map_cache_pages as usize,
                cache_read: configuration.mechanisms.map_cache_read.nanos(),
                blocks: geometry.metadata_collection_units as usize / groups * groups,
            }),
        }
    }

    pub fn group_of(&self, block: usize) -> usize {
        block / (self.blocks / self.groups)
    }

    /// Consecutive program units of a block go to its dies in turn.
    pub fn die_of(&self, place: Place) -> usize {
        let program = place.offset / self.units_per_program;
        self.group_of(place.block) * self.stripe + program % self.stripe
    }

    /// The flash page of a unit, as a number within its block.
    pub fn page_of(&self, place: Place) -> (usize, usize) {
        (place.block, place.offset / self.units_per_page)
    }

    /// Returns how long sensing the page of a unit takes.
    pub fn sense_time(&self, place: Place) -> u64 {
        self.senses[place.offset % self.units_per_program / self.units_per_sense]
    }

    /// The pages that are sensed together with a unit's.
    pub fn sense_of(&self, place: Place) -> (usize, usize) {
        (place.block, place.offset / self.units_per_sense)
    }
}

/// Returns the times that sensing the pages of a word line takes.
fn senses(configuration: &Configuration) -> Vec<u64> {
    let pages = configuration.geometry.parameters().pages_per_shot;
    let mean = configuration.timing.page_read.nanos() as f64;
    let spread = configuration.mechanisms.page_read_spread;
    let of = |page: u32| match pages {
        1 => mean,
        _ => mean * (1.0 - spread) + 2.0 * mean * spread * f64::from(page) / f64::from(pages - 1),
    };
    (0..pages).map(|page| of(page).round() as u64).collect()
}
