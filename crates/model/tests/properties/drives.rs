//! Small drives of any shape, with any mechanism.

use proptest::prelude::*;
use ssdlab_model::Configuration;
use ssdlab_model::bad_blocks::BadBlockParameters;
use ssdlab_model::collection::CollectionParameters;
use ssdlab_model::flush::{FlushHandling, FlushParameters, WriteCache};
use ssdlab_model::health::WearParameters;
use ssdlab_model::journal::JournalParameters;
use ssdlab_model::mapping::MappingScheme;
use ssdlab_model::mechanisms::Mechanisms;
use ssdlab_model::policy::{Allocation, CopiesTo, CopyRatio, Pacing, VictimPolicy};
use ssdlab_model::read_ahead::ReadAheadParameters;
use ssdlab_model::ssd::BufferParameters;
use ssdlab_model::streams::StreamParameters;
use ssdlab_model::suspend::{SuspendParameters, SuspendWhen, Suspendable};
use ssdlab_model::wear_levelling::LevellingParameters;
use ssdlab_nand::geometry::{Geometry, GeometryParameters};
use ssdlab_nand::timing::{Delivery, Timing, TransferRate};
use ssdlab_theory::Choices;
use ssdlab_units::{ByteLength, KIB, Nanoseconds};

/// A small drive of any shape.
pub fn configuration() -> impl Strategy<Value = Configuration> {
    (
        (1..=2u32, 1..=3u32, 0..=2u32, prop_oneof![Just(1u32), Just(3)]),
        (2..=4u32, prop_oneof![Just(4u32), Just(16)], any::<bool>(), 0..=6u32),
        (1..=3u32, 0..=2u32, 1..=20u32, any::<bool>(), any::<bool>(), any::<bool>()),
        (0.5..=1.0f64, 0..=2u32, mechanisms()),
    )
        .prop_map(
            |(
                flash,
                (rows, page, superblock, spare),
                policy,
                (used, coalesced, mut mechanisms),
            )| {
                let (channels, ways, planes, shot) = flash;
                let dies = channels * ways;
                let (low_water, high_extra, debt_max, protected, trim, full_duplex) = policy;
                if mechanisms.streams.count > low_water {
                    mechanisms.streams = StreamParameters::default();
                }
                let streams = mechanisms.streams.count;
                let protected = protected || streams > 1;
                let coalesced = if protected { coalesced } else { 0 };
                let stripe = if superblock { dies } else { 1 };
                let collection = CollectionParameters {
                    low_water: low_water + 1,
                    idle_high_water: low_water + 1 + high_extra,
                    debt_max,
                };
                let free = match mechanisms.pacing {
                    Pacing::Bursty { high_water } | Pacing::Ratio { high_water, .. } => high_water,
                    Pacing::Paced => low_water + 1,
                };
                // Of blocks of few rows one more is kept for copies, and free blocks besides.
                let of_few_rows = if rows < 5 { 3 } else { 0 };
                let per_group = free + 2 * streams + 2 + of_few_rows + spare;
                let groups = dies / stripe;
                let mut parameters = GeometryParameters {
                    channels,
                    dies,
                    planes_per_die: 1 << planes,
                    multi_plane_read: true,
                    pages_per_shot: shot,
                    pages_per_block: rows * shot,
                    page_size: KIB * u64::from(page),
                    unit_size: KIB * 4,
                    dies_per_collection_unit: stripe,
                    collection_units: per_group * groups,
                    metadata_collection_units: 2,
                    reserve_collection_units: 0,
                    logical_units: 1,
                };
                let geometry = Geometry::new(parameters.clone()).expect("a sound geometry");
                let usable =
                    (geometry.blocks() - collection.min_free_blocks(&geometry, &mechanisms) - 1)
                        * geometry.units_per_block();
                parameters.logical_units = ((f64::from(usable) * used) as u32).max(1);
                let geometry = Geometry::new(parameters).expect("a sound geometry");
                let mut open = streams;
                match mechanisms.allocation {
                    Allocation::Static
                        if protected && mechanisms.copies == CopiesTo::OwnBlock && groups > 1 =>
                    {
                        open *= groups;
                    }
                    _ => mechanisms.allocation = Allocation::Dynamic,
                }
                Configuration {
                    buffer: BufferParameters {
                        units: geometry.units_per_program() * (1 + open + coalesced),
                        protected,
                        coalesced: geometry.units_per_program() * coalesced,
                        idle_before_flush: Nanoseconds::from_millis(100),
                    },
                    geometry,
                    timing: timing(full_duplex),
                    read_ahead: ReadAheadParameters { window: 32, segment: 8, trigger: 1 },
                    collection,
                    trim,
                    mechanisms,
                }
            },
        )
}

/// Any way to choose victims and to keep pace, and any flush.
fn mechanisms() -> impl Strategy<Value = Mechanisms> {
    let victims = prop_oneof![
        4 => Just(VictimPolicy::Greedy),
        1 => Just(VictimPolicy::Fifo),
        1 => Just(VictimPolicy::Random),
        1 => (1..5u32)
            .prop_map(|choices| VictimPolicy::DChoices(Choices::new(choices).expect("some"))),
        1 => Just(VictimPolicy::CostBenefit),
    ];
    let pacing = prop_oneof![
        3 => Just(Pacing::Paced),
        1 => (5..8u32).prop_map(|high_water| Pacing::Bursty { high_water }),
        1 => (0.2..6.0f64, 5..8u32).prop_map(|(copies, high_water)| {
            let copies = CopyRatio::new(copies).expect("a sound ratio");
            Pacing::Ratio { copies, high_water }
        }),
    ];
    let rotation = prop_oneof![3 => Just(0.0), 1 => 0.05..=1.0f64];
    let copies = prop_oneof![2 => Just(CopiesTo::OwnBlock), 1 => Just(CopiesTo::HostBlock)];
    let allocation = prop_oneof![Just(Allocation::Dynamic), Just(Allocation::Static)];
    let copies = (copies, allocation);
    let reads = (any::<bool>(), 0..3u64);
    let all = (victims, (rotation, copies, reads), pacing, streams(), flush(), suspend());
    all.prop_map(|(victims, (rotation, copies, reads), pacing, streams, flush, suspend)| {
        let mut mechanisms = Mechanisms::default();
        let (copies, allocation) = copies;
        // Where the rest of the drive allows it.
        mechanisms.allocation = allocation;
        // Profiles refuse what does not go together.
        if streams.count == 1 {
            mechanisms.copies = copies;
        }
        if streams.hot_blocks.is_none() {
            mechanisms.rotation = rotation;
        }
        mechanisms.streams = streams;
        mechanisms.victims = victims;
        mechanisms.pacing = pacing;
        mechanisms.flush = flush;
        mechanisms.suspend = suspend;
        mechanisms.copies_word_lines = reads.0;
        mechanisms.copy_overhead = Nanoseconds::from_micros(70 * reads.1);
        mechanisms.copy_occupancy = Nanoseconds::from_micros(30 * reads.1);
        mechanisms
    })
}

/// Write streams, said by the host or found out by the drive.
fn streams() -> impl Strategy<Value = StreamParameters> {
    let two = |hot_within, hot_blocks| StreamParameters { count: 2, hot_within, hot_blocks };
    prop_oneof![
        4 => Just(StreamParameters::default()),
        1 => (2..=3u32).prop_map(|count| StreamParameters { count, ..Default::default() }),
        1 => (0.1..0.5f64).prop_map(move |share| two(Some(share), None)),
        1 => (0.1..0.7f64).prop_map(move |share| two(None, Some(share))),
    ]
}

/// Returns how a drive makes writes durable.
fn flush() -> impl Strategy<Value = FlushParameters> {
    (any::<bool>(), 0..5u32, any::<bool>()).prop_map(|(through, overhead, journal)| {
        let journal =
            journal.then_some(JournalParameters { program: Nanoseconds::from_micros(300) });
        FlushParameters {
            handling: FlushHandling::Honest,
            write_cache: if through { WriteCache::WriteThrough } else { WriteCache::WriteBack },
            overhead: Nanoseconds::from_micros(u64::from(overhead) * 100),
            journal,
        }
    })
}

/// Returns what a read may interrupt.
fn suspend() -> impl Strategy<Value = SuspendParameters> {
    let operations = prop_oneof![
        3 => Just(Suspendable::Off),
        1 => Just(Suspendable::Program),
        1 => Just(Suspendable::Erase),
        1 => Just(Suspendable::Both),
    ];
    let when = prop_oneof![Just(SuspendWhen::Always), Just(SuspendWhen::BufferHasRoom)];
    let step = prop_oneof![Just(Nanoseconds::ZERO), Just(Nanoseconds::from_micros(70))];
    (operations, step, when).prop_map(|(operations, step, when)| SuspendParameters {
        operations,
        step,
        suspend: Nanoseconds::from_micros(30),
        resume: Nanoseconds::from_micros(20),
        most: 3,
        when,
    })
}

fn timing(full_duplex: bool) -> Timing {
    Timing {
        page_read: Nanoseconds::from_micros(60),
        program: Nanoseconds::from_micros(600),
        erase: Nanoseconds::from_millis(3),
        channel: TransferRate::from_mb_per_second(400.0),
        link: TransferRate::from_mb_per_second(550.0),
        link_full_duplex: full_duplex,
        delivery: if full_duplex { Delivery::AnyOrder } else { Delivery::InOrder },
        command_latency: Nanoseconds::from_micros(10),
        command_occupancy: Nanoseconds::from_micros(1),
    }
}

/// Returns how wear is spread, and blocks that go bad after a few erases.
pub fn wear() -> impl Strategy<Value = WearParameters> {
    let levelling = prop_oneof![
        Just(LevellingParameters::Off),
        Just(LevellingParameters::Dynamic),
        (1..6u32, 0..3u32).prop_map(|(every, spread)| LevellingParameters::Static {
            every,
            spread,
            apart: false
        }),
    ];
    let bad_blocks =
        (2..12u32, 1..5u32, 0..4u32, 0..10u32).prop_map(|(life, shape, reserve, retired)| {
            BadBlockParameters {
                life,
                shape: f64::from(shape),
                reserve,
                retire_most: f64::from(retired) / 10.0,
                threshold: 10,
            }
        });
    let all = (levelling, prop::option::weighted(0.8, bad_blocks));
    all.prop_map(|(levelling, bad_blocks)| WearParameters {
        pe_cycles: None,
        levelling,
        bad_blocks,
    })
}

/// The same drive with a map on flash, of which RAM holds `pages` map pages. Its units are of 512
/// bytes, so that a map page has 128 entries and even a small drive has some.
pub fn with_cached_map(configuration: &Configuration, pages: u32) -> Configuration {
    let mut parameters = configuration.geometry.parameters().clone();
    let scale = parameters.unit_size.bytes() / 512;
    parameters.unit_size = ByteLength::new(parameters.unit_size.bytes() / scale);
    parameters.page_size = ByteLength::new(parameters.page_size.bytes() / scale);
    let groups = configuration.geometry.groups();
    let map_pages = parameters.logical_units.div_ceil(128);
    let full = map_pages.div_ceil(configuration.geometry.units_per_block());
    parameters.metadata_collection_units = (3 * groups + full + 1).next_multiple_of(groups).max(4);
    let mut configuration = configuration.clone();
    configuration.geometry = Geometry::new(parameters).expect("a sound geometry");
    configuration.mechanisms.mapping = MappingScheme::Cached;
    configuration.mechanisms.map_cache_pages = pages;
    configuration.mechanisms.flush.journal = None;
    configuration.check_mapping().expect("room for the map");
    configuration
}

/// The same drive with superblocks and a map of extents, `room` more of them than it needs at
/// least, and two superblocks more for runs.
pub fn with_extents(configuration: &Configuration, room: u32) -> Configuration {
    let mut configuration = configuration.clone();
    let geometry = &configuration.geometry;
    let mut parameters = geometry.parameters().clone();
    let used = f64::from(parameters.logical_units) / f64::from(geometry.physical_units());
    parameters.dies_per_collection_unit = parameters.dies;
    parameters.collection_units = geometry.blocks_per_group() + 2;
    configuration.mechanisms.mapping = MappingScheme::Extent;
    // Profiles refuse both together.
    configuration.mechanisms.streams = StreamParameters::default();
    configuration.mechanisms.copies = CopiesTo::OwnBlock;
    configuration.mechanisms.allocation = Allocation::Dynamic;
    let geometry = Geometry::new(parameters.clone()).expect("a sound geometry");
    let kept = configuration.collection.min_free_blocks(&geometry, &configuration.mechanisms);
    let usable = (geometry.blocks() - kept - 1) * geometry.units_per_block();
    let logical = (f64::from(geometry.physical_units()) * used) as u32;
    parameters.logical_units = logical.clamp(1, usable);
    configuration.geometry = Geometry::new(parameters).expect("a sound geometry");
    let regions = configuration.geometry.logical_units().div_ceil(geometry.units_per_block());
    configuration.mechanisms.extents.extents_max = 4 * regions + room;
    configuration.check_mapping().expect("room for the extents");
    configuration
}
