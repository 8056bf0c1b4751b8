//! Power cuts at every instant and at random, on drives of every kind that can be cut.
//!
//! The long run is 100,000 random histories:
//!
//!     cargo test -p ssdlab-model --release --test power_cuts -- --ignored --nocapture

use std::ops::Range;

use rand::{Rng, RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use ssdlab_model::Configuration;
use ssdlab_model::bad_blocks::BadBlockParameters;
use ssdlab_model::checkpoint::CheckpointParameters;
use ssdlab_model::collection::CollectionParameters;
use ssdlab_model::flush::{FlushHandling, FlushParameters, WriteCache};
use ssdlab_model::geometry::{Geometry, GeometryParameters};
use ssdlab_model::health::WearParameters;
use ssdlab_model::journal::JournalParameters;
use ssdlab_model::mapping::MappingScheme;
use ssdlab_model::mapping::extent::ExtentParameters;
use ssdlab_model::mechanisms::Mechanisms;
use ssdlab_model::policy::{Pacing, VictimPolicy};
use ssdlab_model::power_cut::explore::{Finding, shortest_failure};
use ssdlab_model::power_cut::history::{Operation, Step};
use ssdlab_model::power_cut::tested::Tested;
use ssdlab_model::read_ahead::ReadAheadParameters;
use ssdlab_model::recovery::{Fault, RecoveryError};
use ssdlab_model::slc::{SlcParameters, SlcSpace, WhenFull};
use ssdlab_model::ssd::BufferParameters;
use ssdlab_model::streams::StreamParameters;
use ssdlab_model::suspend::{SuspendParameters, Suspendable};
use ssdlab_model::timing::{Delivery, Timing, TransferRate};
use ssdlab_model::units::{ByteLength, LogicalUnit, Nanoseconds};
use ssdlab_model::wear_levelling::LevellingParameters;

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
    let apart = matches!(kind, Kind::PageMap | Kind::MapOnFlash) && pick(generator, &[0, 1]) == 1;
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

/// One of several.
fn pick(generator: &mut impl Rng, from: &[u32]) -> u32 {
    from[generator.random_range(0..from.len())]
}

/// Which kind of drive: how it maps, or what it caches writes in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    PageMap,
    MapOnFlash,
    Extents,
    LogBlocks,
    SlcCache,
}

const KINDS: [Kind; 5] =
    [Kind::PageMap, Kind::MapOnFlash, Kind::Extents, Kind::LogBlocks, Kind::SlcCache];

/// What a drive may have, with `low_water` blocks free per group of dies.
fn mechanisms(generator: &mut impl Rng, kind: Kind, low_water: u32) -> Mechanisms {
    let mut mechanisms = Mechanisms::default();
    if pick(generator, &[0, 0, 1]) == 1 {
        mechanisms.suspend = SuspendParameters {
            operations: Suspendable::Both,
            suspend: Nanoseconds::from_micros(20),
            resume: Nanoseconds::from_micros(10),
            most: 4,
        };
    }
    mechanisms.mapping = match kind {
        Kind::PageMap | Kind::SlcCache => MappingScheme::Page,
        Kind::MapOnFlash => MappingScheme::Cached,
        Kind::Extents => MappingScheme::Extent,
        Kind::LogBlocks => MappingScheme::LogBlock,
    };
    if kind == Kind::LogBlocks {
        // It has no collection, no journal and no write-through.
        mechanisms.log_blocks = pick(generator, &[1, 2, 4]);
        return mechanisms;
    }
    mechanisms.wear = wear(generator, kind);
    mechanisms.seed = generator.random();
    mechanisms.flush = flush(generator);
    mechanisms.victims = victims(generator);
    if pick(generator, &[0, 0, 0, 1]) == 1 {
        mechanisms.pacing = Pacing::Bursty { high_water: low_water + 2 };
    }
    if kind == Kind::MapOnFlash {
        mechanisms.map_cache_pages = 4;
        mechanisms.flush.journal = None;
    }
    // Blocks that one stream keeps for itself are left out: on drives of so few of them the other
    // stream can be left with none that yields enough, and FIFO then collects without end.
    if matches!(kind, Kind::PageMap | Kind::MapOnFlash) && pick(generator, &[0, 0, 0, 1]) == 1 {
        let hot_within = Some(0.3);
        mechanisms.streams = StreamParameters { count: 2, hot_within, hot_blocks: None };
    }
    mechanisms
}

fn slc_cache(generator: &mut impl Rng, shot: u32) -> SlcParameters {
    let fixed = pick(generator, &[0, 1]) == 1;
    let folds = pick(generator, &[0, 1]) == 1;
    SlcParameters {
        blocks: pick(generator, &[2, 3]),
        bits: if shot == 1 { 2 } else { shot },
        space: if fixed { SlcSpace::Fixed } else { SlcSpace::Dynamic },
        when_full: if folds { WhenFull::Fold } else { WhenFull::Direct },
        program: Nanoseconds::from_micros(200),
        page_read: Nanoseconds::from_micros(30),
    }
}

/// A small drive.
fn configuration_of(generator: &mut impl Rng, kind: Kind) -> Configuration {
    let low_water = pick(generator, &[2, 3, 4]);
    let mut mechanisms = mechanisms(generator, kind, low_water);
    // Each stream's copies may need a block; profiles check that.
    let low_water = low_water.max(mechanisms.streams_of_copies() + 1);
    let channels = pick(generator, &[1, 2]);
    let dies = channels * pick(generator, &[1, 2]);
    let superblocks = matches!(kind, Kind::Extents | Kind::SlcCache);
    let stripe = if superblocks { dies } else { pick(generator, &[1, dies]) };
    let (groups, shot) = (dies / stripe, pick(generator, &[1, 1, 3]));
    if kind == Kind::SlcCache {
        mechanisms.slc = Some(slc_cache(generator, shot));
    }
    let mut pick = |from: &[u32]| pick(generator, from);
    // With small units even a small drive has some map pages: 128 entries each.
    let unit = u64::from(if kind == Kind::MapOnFlash { pick(&[512, 1024]) } else { 4096 });
    let collection = CollectionParameters {
        low_water,
        idle_high_water: low_water + pick(&[0, 1, 2]),
        debt_max: pick(&[1, 8, 20]),
    };
    let streams = mechanisms.streams.count;
    let more = mechanisms.wear.levelling.streams()
        + mechanisms.log_blocks
        + mechanisms.slc.map_or(0, |slc| slc.blocks + 1);
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
        logical_units: 1,
    };
    let used = f64::from(pick(&[60, 80, 95, 100])) / 100.0;
    let geometry = Geometry::new(parameters.clone()).expect("a sound geometry");
    let kept = match kind {
        Kind::LogBlocks => mechanisms.log_blocks + 2,
        _ => collection.blocks_kept(&geometry, &mechanisms),
    };
    let usable = (geometry.blocks() - kept - 1) * geometry.units_per_block();
    parameters.logical_units = ((f64::from(usable) * used) as u32).max(1);
    let geometry = Geometry::new(parameters).expect("a sound geometry");
    let regions = geometry.logical_units().div_ceil(geometry.units_per_block());
    let may_save = !matches!(kind, Kind::MapOnFlash | Kind::LogBlocks);
    if may_save && pick(&[0, 1]) == 1 {
        mechanisms.checkpoint = Some(CheckpointParameters { every_units: pick(&[20, 200]).into() });
    }
    mechanisms.extents = ExtentParameters {
        extents_max: 4 * regions + pick(&[0, 8, 40]),
        search: Nanoseconds::from_micros(5),
        per_extent: Nanoseconds::from_micros(1),
    };
    Configuration {
        buffer: BufferParameters {
            units: geometry.units_per_program() * (streams + pick(&[1, 2, 6])),
            protected: streams > 1 || pick(&[0, 0, 1]) == 1,
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

/// What a run has met.
#[derive(Debug, Default)]
struct Met {
    histories: u64,
    /// By kind.
    of_kind: [u64; KINDS.len()],
    with_streams: u64,
    unreadable: u64,
    saved: u64,
    padded: u64,
    to_erase: u64,
    with_saved_map: u64,
    /// What the drives had done by the cut.
    condensed: u64,
    filled_empty: u64,
    merges: u64,
    folded: u64,
    /// Cuts while a drive recovered from another, and what recoveries did by themselves.
    in_recovery: u64,
    with_bad_blocks: u64,
    failed_blocks: u64,
    retired_blocks: u64,
    read_only: u64,
    levelled_apart: u64,
    /// Asked step by step; parts of units that were merged with what the rest of them held.
    by_steps: u64,
    merged: u64,
    /// Drives that a cut has left without room to copy to, which is as bad as a broken rule: no run
    /// passes with one, but a long run goes on to see what else there is.
    given_up: u64,
    own_programs: u64,
    own_erases: u64,
}

/// Random histories, one after the other on the same drive, each with a cut at its end. A new
/// drive every few of them.
fn random_histories(seed: u64, histories: u64) -> Met {
    let mut generator = Pcg64Mcg::seed_from_u64(seed);
    let mut met = Met::default();
    while met.histories < histories {
        let kind = generator.random_range(0..KINDS.len());
        let configuration = configuration_of(&mut generator, KINDS[kind]);
        let before = met.histories;
        cut_at_random(&configuration, &mut generator, &mut met);
        met.of_kind[kind] += met.histories - before;
    }
    met
}

/// Says which drive it was when the model panics.
struct Says<'a>(&'a Configuration);

impl Drop for Says<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{:?}", self.0);
        }
    }
}

fn cut_at_random(configuration: &Configuration, generator: &mut Pcg64Mcg, met: &mut Met) {
    let _says = Says(configuration);
    let asked = [Asked::AtOnce, Asked::ByStep][generator.random_range(0..2)];
    let mut tested = new_drive(configuration, None, asked);
    tested.age(generator);
    for _ in 0..20 {
        let steps = [4, 12, 30, 60][generator.random_range(0..4)];
        let (before, replay) = (tested.clone(), generator.clone());
        tested.step_at_random(generator, steps);
        let counters = tested.drive().counters();
        met.condensed += counters.condensed_regions;
        met.filled_empty += counters.condensed_empty_units;
        met.merges += counters.full_merges + counters.partial_merges + counters.switch_merges;
        met.folded += counters.slc_erases;
        met.with_bad_blocks += u64::from(configuration.mechanisms.wear.bad_blocks.is_some());
        met.failed_blocks += counters.failed_blocks;
        met.retired_blocks += counters.retired_blocks;
        if configuration.mechanisms.wear.levelling.streams() > 0 {
            met.levelled_apart += counters.levelled_blocks;
        }
        met.merged += counters.buffer_merge_units + counters.flash_page_reads_merge;
        met.read_only += u64::from(counters.refused_writes > 0);
        match tested.cut_at_random(generator) {
            Ok(recovery) => {
                met.histories += 1;
                met.by_steps += u64::from(asked == Asked::ByStep);
                met.with_streams += u64::from(configuration.mechanisms.streams.count > 1);
                met.unreadable += recovery.program_units_unreadable;
                met.saved += u64::from(recovery.units_saved);
                met.padded += u64::from(recovery.program_units_padded);
                met.to_erase += u64::from(recovery.blocks_to_erase);
                met.with_saved_map += u64::from(recovery.map_pages_read > 0);
                let counters = tested.drive().counters();
                met.own_programs += counters.programs;
                met.own_erases += counters.erases;
            }
            Err(Finding::Recovery(error @ RecoveryError::NoRoom { .. })) => {
                met.given_up += 1;
                println!("{error}: {asked:?}, {configuration:?}");
                return;
            }
            Err(finding) => report(configuration, &before, replay, steps, &finding),
        }
        while pick(generator, &[0, 1]) == 1 {
            match tested.cut_recovery_at_random(generator) {
                Ok(_) => met.in_recovery += 1,
                Err(Finding::Recovery(error @ RecoveryError::NoRoom { .. })) => {
                    met.given_up += 1;
                    println!("after a cut in recovery, {error}: {asked:?}, {configuration:?}");
                    return;
                }
                Err(finding) => report(configuration, &before, replay, steps, &finding),
            }
        }
    }
}

/// Fails with the shortest history that shows `finding`.
fn report(
    configuration: &Configuration,
    before: &Tested,
    mut generator: Pcg64Mcg,
    steps: u32,
    finding: &Finding,
) -> ! {
    let units = before.units();
    let steps: Vec<Step> = (0..steps).map(|_| Step::random(&mut generator, units)).collect();
    if before.explore(&steps).is_ok() {
        panic!(
            "{configuration:?}\n{finding}\nwhat two cuts and a few writes do not show: {steps:?}"
        );
    }
    let (shortest, failure) = shortest_failure(before, &steps);
    let steps: String = shortest.iter().map(|step| format!("{step}\n")).collect();
    let asked = if before.is_asked_by_steps() { "step by step" } else { "at once" };
    panic!("{configuration:?}\n{finding}\nasked {asked}:\n{steps}{failure:?}\n{}", failure.finding);
}

#[test]
fn random_cuts_break_no_rule() {
    let met = random_histories(1, 4_000);
    assert_eq!(met.given_up, 0, "{met:?}");
    assert!(met.unreadable > 0 && met.saved > 0 && met.padded > 0 && met.to_erase > 0, "{met:?}");
    assert!(met.with_saved_map > 400, "{met:?}");
    assert!(met.in_recovery > 3_000 && met.own_programs > 0 && met.own_erases > 0, "{met:?}");
    assert!(met.condensed > 0 && met.filled_empty > 0, "{met:?}");
    assert!(met.merges > 0 && met.folded > 0 && met.with_streams > 0, "{met:?}");
    assert!(met.with_bad_blocks > 400 && met.failed_blocks > 100, "{met:?}");
    assert!(met.retired_blocks > 20 && met.read_only > 20, "{met:?}");
    assert!(met.levelled_apart > 40, "{met:?}");
    assert!(met.by_steps > 1_000 && met.merged > 1_000, "{met:?}");
    assert!(met.of_kind.iter().all(|&histories| histories > 400), "{met:?}");
}

/// Among them is a cut after which every block that is copied fills another, padding included, until
/// copies go on where the host was to.
#[test]
fn a_drive_on_which_copies_gain_nothing_comes_up_as_well() {
    let met = random_histories(179, 5_000);
    assert_eq!(met.given_up, 0, "{met:?}");
}

/// The parts of the long run, of 5,000 histories each: all of them, or those that
/// `SSDLAB_POWER_CUT_PARTS=FIRST..END` names.
fn parts() -> Range<u64> {
    let Ok(parts) = std::env::var("SSDLAB_POWER_CUT_PARTS") else { return 0..20 };
    let range = parts
        .split_once("..")
        .and_then(|(first, end)| Some(first.trim().parse().ok()?..end.trim().parse().ok()?));
    range.unwrap_or_else(|| panic!("SSDLAB_POWER_CUT_PARTS is a range as in 20..60, not '{parts}'"))
}

/// A drive that is full and takes the oldest block, of few blocks of four program units: what a cut
/// tears is a large part of what is left to copy to.
fn short_of_room() -> Configuration {
    let mut configuration = configuration_of(&mut Pcg64Mcg::seed_from_u64(4), Kind::PageMap);
    let mut mechanisms = Mechanisms::default();
    mechanisms.victims = VictimPolicy::Fifo;
    let collection = CollectionParameters { low_water: 2, idle_high_water: 2, debt_max: 20 };
    let mut parameters = GeometryParameters {
        channels: 1,
        dies: 1,
        planes_per_die: 2,
        multi_plane_read: true,
        pages_per_shot: 1,
        pages_per_block: 4,
        page_size: ByteLength::new(4096),
        unit_size: ByteLength::new(4096),
        dies_per_collection_unit: 1,
        collection_units: 24,
        metadata_collection_units: 8,
        logical_units: 1,
    };
    let geometry = Geometry::new(parameters.clone()).expect("a sound geometry");
    let kept = collection.blocks_kept(&geometry, &mechanisms);
    parameters.logical_units = (geometry.blocks() - kept - 1) * geometry.units_per_block();
    configuration.geometry = Geometry::new(parameters).expect("a sound geometry");
    configuration.buffer.units = 2 * configuration.geometry.units_per_program();
    configuration.buffer.protected = false;
    Configuration { collection, mechanisms, ..configuration }
}

#[test]
fn the_last_places_are_not_filled_with_what_a_cut_would_leave_no_room_for() {
    let configuration = short_of_room();
    for seed in 0..20 {
        let mut generator = Pcg64Mcg::seed_from_u64(seed);
        let mut tested = Tested::new(&configuration, None).expect("a sound drive");
        let units = tested.units();
        // Most of it stays as it is written first, so that blocks are full when their turn comes.
        let fill = Operation::Write { first: LogicalUnit(0), units };
        tested.step(Step::answered(fill));
        let mut write = |most: u32| {
            let first = LogicalUnit(generator.random_range(0..units / 4));
            let units = generator.random_range(1..=most);
            Step::answered(Operation::Write { first, units })
        };
        for _ in 0..40 {
            tested.step(write(1));
        }
        let history: Vec<Step> = (0..40).map(|_| write(3)).collect();
        if let Err(failure) = tested.explore_briefly(&history) {
            panic!("seed {seed}: {failure:?}");
        }
    }
}

#[test]
#[ignore = "100,000 histories; the command is at the top of this file"]
fn a_hundred_thousand_random_cuts_break_no_rule() {
    let mut given_up = 0;
    for part in parts() {
        let met = random_histories(100 + part, 5_000);
        given_up += met.given_up;
        println!("part {part}: {met:?}");
    }
    assert_eq!(given_up, 0, "drives that had no block left to copy to after a cut");
}

/// How a drive is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    AtOnce,
    ByStep,
}

/// A new drive that is asked like that.
fn new_drive(configuration: &Configuration, fault: Option<Fault>, asked: Asked) -> Tested {
    let tested = Tested::new(configuration, fault).expect("a sound drive");
    if asked == Asked::ByStep { tested.by_steps() } else { tested }
}

/// Each kind of drive in each way in which it can be asked.
fn kinds_asked() -> impl Iterator<Item = (Kind, Asked)> {
    let ways = |kind| [(kind, Asked::AtOnce), (kind, Asked::ByStep)];
    // Drives with log blocks answer at once in any case.
    KINDS.into_iter().flat_map(ways).filter(|&it| it != (Kind::LogBlocks, Asked::ByStep))
}

/// Whether any of some short histories on some drives fails.
fn is_caught(
    (kind, asked): (Kind, Asked),
    change: impl Fn(&mut Configuration),
    fault: Option<Fault>,
) -> Option<(usize, String)> {
    let mut generator = Pcg64Mcg::seed_from_u64(3);
    for _ in 0..200 {
        let mut configuration = configuration_of(&mut generator, kind);
        change(&mut configuration);
        let mut tested = new_drive(&configuration, fault, asked);
        tested.age(&mut generator);
        let history: Vec<Step> =
            (0..60).map(|_| Step::random(&mut generator, tested.units())).collect();
        if tested.explore_briefly(&history).is_err() {
            let (history, failure) = shortest_failure(&tested, &history);
            return Some((history.len(), failure.finding.to_string()));
        }
    }
    None
}

#[test]
fn every_cut_of_short_histories_breaks_no_rule() {
    let mut generator = Pcg64Mcg::seed_from_u64(2);
    for (kind, asked) in kinds_asked() {
        let (mut drives, mut cuts, mut in_recovery) = (0, 0, 0);
        while drives < 4 || (drives < 12 && cuts <= 300) {
            drives += 1;
            let configuration = configuration_of(&mut generator, kind);
            let mut tested = new_drive(&configuration, None, asked);
            tested.age(&mut generator);
            let history: Vec<Step> =
                (0..20).map(|_| Step::random(&mut generator, tested.units())).collect();
            match tested.explore(&history) {
                Ok(explored) => {
                    cuts += explored.cuts;
                    in_recovery += explored.cuts_in_recovery;
                }
                Err(failure) => panic!("{configuration:?}\n{history:?}\n{failure:?}"),
            }
        }
        println!("{kind:?}, {asked:?}: {cuts} cuts, {in_recovery} more in recovery");
        assert!(cuts > 300 && in_recovery > 300, "{kind:?}: {cuts}, {in_recovery} in recovery");
    }
}

fn volatile(configuration: &mut Configuration) {
    configuration.buffer.protected = false;
    configuration.mechanisms.streams = StreamParameters::default();
    configuration.mechanisms.flush.write_cache = WriteCache::WriteBack;
}

#[test]
fn a_drive_that_ignores_flushes_is_caught() {
    let lie = |configuration: &mut Configuration| {
        volatile(configuration);
        configuration.mechanisms.flush.handling = FlushHandling::Ignored;
    };
    for asked in kinds_asked() {
        let (steps, finding) = is_caught(asked, lie, None).expect("a lie is found");
        // A write and a flush, and perhaps one request more that no other can stand for.
        assert!(steps <= 3, "few requests show it: {asked:?}, {steps} steps, {finding}");
    }
}

#[test]
fn mistakes_in_recovery_are_caught() {
    let nothing = |_: &mut Configuration| {};
    for asked in kinds_asked() {
        for fault in [
            Fault::IgnoreNumbers,
            Fault::ForgetUnreadable,
            Fault::ForgetTrims,
            Fault::ForgetSaved,
            Fault::EraseEarly,
        ] {
            let caught = match fault {
                Fault::EraseEarly => is_caught(asked, volatile, Some(fault)),
                _ => is_caught(asked, nothing, Some(fault)),
            };
            println!("{asked:?}, {fault:?}: {caught:?}");
            assert!(caught.is_some(), "{asked:?}: {fault:?} is found");
        }
    }
}

#[test]
fn a_table_of_bad_blocks_that_is_forgotten_is_missed() {
    let wears_out = |configuration: &mut Configuration| {
        configuration.mechanisms.wear.bad_blocks = Some(BadBlockParameters {
            life: 6,
            shape: 4.0,
            reserve: 9,
            retire_most: 0.5,
            threshold: 10,
        });
    };
    for asked in kinds_asked().filter(|&(kind, _)| kind != Kind::LogBlocks) {
        let caught = is_caught(asked, wears_out, Some(Fault::ForgetBadBlocks));
        println!("{asked:?}: {caught:?}");
        assert!(caught.is_some(), "{asked:?}");
    }
}

#[test]
fn a_mistake_that_only_a_cut_during_recovery_shows_is_caught() {
    let mut generator = Pcg64Mcg::seed_from_u64(3);
    for _ in 0..200 {
        let configuration = configuration_of(&mut generator, Kind::LogBlocks);
        let fault = Some(Fault::KeepUnfinished);
        let mut tested = Tested::new(&configuration, fault).expect("a sound drive");
        tested.age(&mut generator);
        let history: Vec<Step> =
            (0..6).map(|_| Step::random(&mut generator, tested.units())).collect();
        assert!(tested.explore_briefly(&history).is_ok(), "it takes a cut during recovery");
        if let Err(failure) = tested.explore(&history) {
            assert!(failure.again_after.is_some() && !failure.went_on, "{failure:?}");
            let finding = failure.finding.to_string();
            return assert!(finding.contains("no block can be freed"), "{finding}");
        }
    }
    panic!("each cut costs the drive a block, and that is found");
}
