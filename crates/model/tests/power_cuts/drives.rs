//! Small drives, drawn at random: of every kind that can be cut from power.

use rand::{Rng, RngExt};
use ssdlab_model::Configuration;
use ssdlab_model::bad_blocks::BadBlockParameters;
use ssdlab_model::checkpoint::CheckpointParameters;
use ssdlab_model::collection::CollectionParameters;
use ssdlab_model::flush::{FlushHandling, FlushParameters, WriteCache};
use ssdlab_model::health::WearParameters;
use ssdlab_model::journal::JournalParameters;
use ssdlab_model::mapping::MappingScheme;
use ssdlab_model::mapping::extent::ExtentParameters;
use ssdlab_model::mechanisms::Mechanisms;
use ssdlab_model::policy::{Allocation, CopiesTo, Pacing, VictimPolicy};
use ssdlab_model::read_ahead::ReadAheadParameters;
use ssdlab_model::slc::{SlcParameters, SlcSpace, WhenFull};
use ssdlab_model::ssd::BufferParameters;
use ssdlab_model::streams::StreamParameters;
use ssdlab_model::suspend::{SuspendParameters, SuspendWhen, Suspendable};
use ssdlab_model::wear_levelling::LevellingParameters;
use ssdlab_nand::geometry::{Geometry, GeometryParameters};
use ssdlab_nand::timing::{Delivery, Timing, TransferRate};
use ssdlab_units::{ByteLength, Nanoseconds};

/// Which kind of drive: how it maps, or what it caches writes in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    PageMap,
    MapOnFlash,
    Extents,
    LogBlocks,
    SlcCache,
}

pub const KINDS: [Kind; 5] =
    [Kind::PageMap, Kind::MapOnFlash, Kind::Extents, Kind::LogBlocks, Kind::SlcCache];

/// One of several.
pub fn pick(generator: &mut impl Rng, from: &[u32]) -> u32 {
    from[generator.random_range(0..from.len())]
}

/// A small drive.
pub fn configuration_of(generator: &mut impl Rng, kind: Kind) -> Configuration {
    let low_water = pick(generator, &[2, 3, 4]);
    let mut mechanisms = mechanisms(generator, kind, low_water);
    // Each stream's copies may need a block; profiles check that.
    let low_water = low_water.max(mechanisms.streams_of_copies() + 1);
    let channels = pick(generator, &[1, 2]);
    let dies = channels * pick(generator, &[1, 2]);
    let superblocks = kind == Kind::Extents;
    let stripe = if superblocks { dies } else { pick(generator, &[1, dies]) };
    let (groups, shot) = (dies / stripe, pick(generator, &[1, 1, 3]));
    if kind == Kind::SlcCache {
        mechanisms.slc = Some(slc_cache(generator, shot));
    }
    let mut pick = |from: &[u32]| pick(generator, from);
    // With small units even a small drive has some map pages: 128 entries each.
    let is_cached = mechanisms.mapping == MappingScheme::Cached;
    let unit = u64::from(if is_cached { pick(&[512, 1024]) } else { 4096 });
    let collection = CollectionParameters {
        low_water,
        idle_high_water: low_water + pick(&[0, 1, 2]),
        debt_max: pick(&[1, 8, 20]),
    };
    let streams = mechanisms.streams.count;
    let more = mechanisms.wear.levelling.streams()
        + mechanisms.log_blocks
        + mechanisms.slc.map_or(0, |slc| slc.blocks + streams);
    let mut parameters = GeometryParameters {
        channels,
        dies,
        planes_per_die: pick(&[1, 2]),
        multi_plane_read: true,
        pages_per_shot: shot,
        pages_per_block: pick(&[3, 4, 8]) * shot,
        page_size: ByteLength::new(unit * u64::from(pick(&[1, 4]))),
        unit_size: ByteLength::new(unit),
        dies_per_collection_unit: stripe,
        collection_units: (low_water + 6 + 2 * streams + more + pick(&[1, 2, 6, 14])) * groups,
        metadata_collection_units: 8 * groups,
        reserve_collection_units: 0,
        logical_units: 1,
    };
    let used = f64::from(pick(&[60, 80, 95, 100])) / 100.0;
    let geometry = Geometry::new(parameters.clone()).expect("a sound geometry");
    let kept = match kind {
        Kind::LogBlocks => mechanisms.log_blocks + 2,
        _ => collection.min_free_blocks(&geometry, &mechanisms),
    };
    let usable = (geometry.blocks() - kept - 1) * geometry.units_per_block();
    parameters.logical_units = ((f64::from(usable) * used) as u32).max(1);
    let geometry = Geometry::new(parameters).expect("a sound geometry");
    let regions = geometry.logical_units().div_ceil(geometry.units_per_block());
    let may_save = !matches!(mechanisms.mapping, MappingScheme::Cached | MappingScheme::LogBlock);
    if may_save && pick(&[0, 1]) == 1 {
        mechanisms.checkpoint = Some(CheckpointParameters { every_units: pick(&[20, 200]).into() });
    }
    mechanisms.extents = ExtentParameters {
        extents_max: 4 * regions + pick(&[0, 8, 40]),
        search: Nanoseconds::from_micros(5),
        per_extent: Nanoseconds::from_micros(1),
    };
    let program = geometry.units_per_program();
    let (buffer, protected) = (streams + pick(&[1, 2, 6]), streams > 1 || pick(&[0, 0, 1]) == 1);
    let coalesced = if protected && kind != Kind::LogBlocks { pick(&[0, 1, 3]) } else { 0 };
    let may_be_static = protected
        && groups > 1
        && !matches!(kind, Kind::Extents | Kind::LogBlocks)
        && mechanisms.copies == CopiesTo::OwnBlock;
    let mut open = buffer;
    if may_be_static && pick(&[0, 1]) == 1 {
        mechanisms.allocation = Allocation::Static;
        open += (groups - 1) * streams;
    }
    Configuration {
        buffer: BufferParameters {
            units: program * (open + coalesced),
            protected,
            coalesced: program * coalesced,
            idle_before_flush: Nanoseconds::from_millis(100),
        },
        geometry,
        timing: timing(),
        read_ahead: ReadAheadParameters { window: 0, segment: 8, trigger: 1 },
        collection,
        trim: pick(&[0, 1, 1, 1]) == 1,
        mechanisms,
    }
}

/// Returns what a drive may have, with `low_water` blocks free per group of dies.
fn mechanisms(generator: &mut impl Rng, kind: Kind, low_water: u32) -> Mechanisms {
    let mut mechanisms = Mechanisms::default();
    if pick(generator, &[0, 0, 1]) == 1 {
        mechanisms.suspend = SuspendParameters {
            operations: Suspendable::Both,
            step: Nanoseconds::from_micros(70),
            suspend: Nanoseconds::from_micros(20),
            resume: Nanoseconds::from_micros(10),
            most: 4,
            when: SuspendWhen::Always,
        };
    }
    mechanisms.mapping = match kind {
        Kind::SlcCache if pick(generator, &[0, 0, 1]) == 1 => MappingScheme::Cached,
        Kind::PageMap | Kind::SlcCache => MappingScheme::Page,
        Kind::MapOnFlash => MappingScheme::Cached,
        Kind::Extents => MappingScheme::Extent,
        Kind::LogBlocks => MappingScheme::LogBlock,
    };
    if kind == Kind::LogBlocks {
        // It has no collection and no journal.
        mechanisms.log_blocks = pick(generator, &[1, 2, 4]);
        mechanisms.flush = FlushParameters { journal: None, ..flush(generator) };
        return mechanisms;
    }
    mechanisms.wear = wear(generator, kind);
    mechanisms.seed = generator.random();
    mechanisms.flush = flush(generator);
    mechanisms.victims = victims(generator);
    if pick(generator, &[0, 0, 0, 1]) == 1 {
        mechanisms.pacing = Pacing::Bursty { high_water: low_water + 2 };
    }
    if mechanisms.mapping == MappingScheme::Cached {
        mechanisms.map_cache_pages = 4;
        mechanisms.map_cache_read = Nanoseconds::from_micros(2);
        mechanisms.flush.journal = None;
    }
    // Blocks that one stream keeps for itself are left out: on drives of so few of them the other
    // stream can be left with none that yields enough, and FIFO then collects without end.
    if kind != Kind::Extents && pick(generator, &[0, 0, 0, 1]) == 1 {
        let hot_within = Some(0.3);
        mechanisms.streams = StreamParameters { count: 2, hot_within, hot_blocks: None };
    }
    if matches!(kind, Kind::PageMap | Kind::MapOnFlash)
        && mechanisms.streams_of_copies() == 1
        && pick(generator, &[0, 0, 1]) == 1
    {
        mechanisms.copies = CopiesTo::HostBlock;
    }
    if pick(generator, &[0, 0, 0, 1]) == 1 {
        mechanisms.rotation = generator.random_range(0.05..=1.0);
    }
    mechanisms
}

fn flush(generator: &mut impl Rng) -> FlushParameters {
    let through = generator.random_range(0..4) == 0;
    let journal = JournalParameters { program: Nanoseconds::from_micros(300) };
    FlushParameters {
        handling: FlushHandling::Honest,
        write_cache: if through { WriteCache::WriteThrough } else { WriteCache::WriteBack },
        overhead: Nanoseconds::ZERO,
        journal: (generator.random_range(0..4) == 0).then_some(journal),
    }
}

fn victims(generator: &mut impl Rng) -> VictimPolicy {
    match generator.random_range(0..6) {
        0 => VictimPolicy::CostBenefit,
        1 => VictimPolicy::Fifo,
        2 => VictimPolicy::Random,
        _ => VictimPolicy::Greedy,
    }
}

/// Drives whose blocks go bad while they are tested, some with nothing to replace them soon.
fn wear(generator: &mut impl Rng, kind: Kind) -> WearParameters {
    let apart = kind != Kind::Extents && pick(generator, &[0, 1]) == 1;
    let bad_blocks = BadBlockParameters {
        life: pick(generator, &[6, 12, 30]),
        shape: f64::from(pick(generator, &[2, 6])),
        reserve: pick(generator, &[1, 3, 9]),
        retire_most: 0.5,
        threshold: 10,
    };
    let levelling = match pick(generator, &[0, 0, 1, 2]) {
        0 => LevellingParameters::Off,
        1 => LevellingParameters::Dynamic,
        _ => LevellingParameters::Static { every: 4, spread: 2, apart },
    };
    let goes_bad = pick(generator, &[0, 0, 1]) == 1;
    WearParameters { pe_cycles: None, levelling, bad_blocks: goes_bad.then_some(bad_blocks) }
}

fn slc_cache(generator: &mut impl Rng, shot: u32) -> SlcParameters {
    let fixed = pick(generator, &[0, 1]) == 1;
    let folds = pick(generator, &[0, 1]) == 1;
    SlcParameters {
        blocks: pick(generator, &[2, 3]),
        bits: if shot == 1 { 2 } else { shot },
        space: if fixed { SlcSpace::Fixed } else { SlcSpace::Dynamic },
        fixed: if fixed { 0 } else { 1 },
        when_full: if folds { WhenFull::Fold } else { WhenFull::Direct },
        program: Nanoseconds::from_micros(200),
        page_read: Nanoseconds::from_micros(30),
    }
}

fn timing() -> Timing {
    Timing {
        page_read: Nanoseconds::from_micros(60),
        program: Nanoseconds::from_micros(600),
        erase: Nanoseconds::from_millis(3),
        channel: TransferRate::from_mb_per_second(400.0),
        link: TransferRate::from_mb_per_second(550.0),
        link_full_duplex: false,
        delivery: Delivery::InOrder,
        command_latency: Nanoseconds::from_micros(10),
        command_occupancy: Nanoseconds::from_micros(1),
    }
}
