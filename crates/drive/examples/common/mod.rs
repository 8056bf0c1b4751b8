//! The drive and the phases that `speed` and `instructions` measure.

use ssdlab_drive::{Amount, Mix, Pattern, Phase, Region};
use ssdlab_model::Configuration;
use ssdlab_model::collection::CollectionParameters;
use ssdlab_model::mapping::MappingScheme;
use ssdlab_model::read_ahead::ReadAheadParameters;
use ssdlab_model::ssd::BufferParameters;
use ssdlab_nand::geometry::{Geometry, GeometryParameters};
use ssdlab_nand::timing::{Delivery, Timing, TransferRate};
use ssdlab_units::{ByteLength, KIB, Nanoseconds};

/// 32 dies on 8 channels, two planes, 16 KiB pages, superblocks of 4,096 units; over-provisioning as a
/// share of the logical capacity, blocks that are always free or open not counted.
pub fn configuration(capacity: ByteLength, spare_of_logical: f64) -> Configuration {
    let collection = CollectionParameters { low_water: 6, idle_high_water: 6, debt_max: 8 };
    let units_per_block = 4096;
    let logical_units = capacity.whole(KIB * 4) as u32;
    let usable = (f64::from(logical_units) * (1.0 + spare_of_logical)) as u32;
    let blocks = usable.div_ceil(units_per_block) + collection.low_water + 2;
    let geometry = Geometry::new(GeometryParameters {
        channels: 8,
        dies: 32,
        planes_per_die: 2,
        multi_plane_read: true,
        pages_per_shot: 1,
        pages_per_block: 16,
        page_size: KIB * 16,
        unit_size: KIB * 4,
        dies_per_collection_unit: 32,
        collection_units: blocks,
        metadata_collection_units: 0,
        reserve_collection_units: 0,
        logical_units,
    })
    .expect("a sound geometry");
    assert_eq!(geometry.units_per_block(), units_per_block);
    Configuration {
        geometry,
        timing: Timing {
            page_read: Nanoseconds::from_micros(60),
            program: Nanoseconds::from_micros(600),
            erase: Nanoseconds::from_millis(3),
            channel: TransferRate::from_mb_per_second(800.0),
            link: TransferRate::from_mb_per_second(3300.0),
            link_full_duplex: true,
            delivery: Delivery::AnyOrder,
            command_latency: Nanoseconds::from_micros(10),
            command_occupancy: Nanoseconds::new(1_000),
        },
        buffer: BufferParameters {
            units: 1024,
            protected: false,
            coalesced: 0,
            idle_before_flush: Nanoseconds::from_millis(100),
        },
        read_ahead: ReadAheadParameters { window: 256, segment: 32, trigger: 2 },
        collection,
        trim: true,
        mechanisms: ssdlab_model::mechanisms::Mechanisms::default(),
    }
}

/// Puts the map on flash, with a share of it in RAM.
#[allow(dead_code, reason = "only one of the examples that share this file uses it")]
pub fn with_cached_map(mut configuration: Configuration, share: f64) -> Configuration {
    let mut parameters = configuration.geometry.parameters().clone();
    let map_pages = parameters.logical_units.div_ceil(1024);
    parameters.metadata_collection_units = map_pages.div_ceil(4096) + 4;
    configuration.geometry = Geometry::new(parameters).expect("a sound geometry");
    configuration.mechanisms.mapping = MappingScheme::Cached;
    configuration.mechanisms.map_cache_pages = (f64::from(map_pages) * share) as u32;
    configuration
}

/// Maps by extents, whose table takes a share of the RAM of a map of units, four bytes
/// each, and a superblock more for what is condensed.
#[allow(dead_code, reason = "only one of the examples that share this file uses it")]
pub fn with_extent_map(mut configuration: Configuration, share: f64) -> Configuration {
    let mut parameters = configuration.geometry.parameters().clone();
    parameters.collection_units += 1;
    let extents = f64::from(parameters.logical_units) * 4.0 * share / 8.0;
    configuration.geometry = Geometry::new(parameters).expect("a sound geometry");
    configuration.mechanisms.mapping = MappingScheme::Extent;
    configuration.mechanisms.extents.extents_max = extents as u32;
    configuration
}

/// A phase at depth 32, unpaced.
pub fn phase(
    name: &str,
    pattern: Pattern,
    block: ByteLength,
    mix: Mix,
    bytes: ByteLength,
) -> Phase {
    Phase {
        name: name.to_owned(),
        pattern,
        block_size: block,
        depth: 32,
        mix,
        region: Region::first(ByteLength::ZERO),
        amount: Amount::Bytes(bytes),
        rate: None,
        seed: 1,
        flush_at_end: false,
        interval: Nanoseconds::from_secs(1),
    }
}
