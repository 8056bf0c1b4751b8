//! A drive that was aged at once and one that was written until it was steady are the same drive:
//! in write amplification and in how many valid units its blocks hold, and they stay so.

use std::fmt::Debug;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use ssdlab_model::counters::Counters;
use ssdlab_model::mapping::cached::CachedMap;
use ssdlab_model::mapping::extent::ExtentMap;
use ssdlab_model::mapping::{MappingScheme, PageMap};
use ssdlab_model::precondition::{
    CacheFill, Past, Piece, PreconditionError, SingleThreaded, Workers, Workload,
};
use ssdlab_model::profile::{DEFAULT, Profile};
use ssdlab_model::snapshot::Encoder;
use ssdlab_model::streams::{StreamId, StreamParameters};
use ssdlab_model::{Configuration, Ssd};
use ssdlab_nand::geometry::Geometry;
use ssdlab_units::{Instant, LogicalUnit, Nanoseconds};

/// A drive of 2,048 blocks of 64 units, 12 % of them spare, with changes of its profile.
fn configuration(changes: &[(&str, &str)]) -> Configuration {
    let mut profile = Profile::named(DEFAULT).expect("the default profile");
    let small = [
        ("capacity.physical", "512M"),
        ("collection.metadata_units", "0"),
        ("flash.page_size", "4K"),
        ("flash.channels", "2"),
        ("flash.dies", "4"),
        ("flash.planes_per_die", "1"),
        ("flash.pages_per_shot", "1"),
        ("flash.pages_per_block", "16"),
        ("controller.write_buffer", "256K"),
        ("read_ahead.window", "0"),
    ];
    for (key, value) in small.iter().chain(changes).chain(&[("spare", "12%")]) {
        profile.set(key, value).unwrap_or_else(|error| panic!("{error}"));
    }
    profile.check().unwrap_or_else(|error| panic!("{error}"));
    profile.configuration().unwrap()
}

/// The same with two write streams, of which the host says which is hot: profiles have no host that
/// does.
fn with_streams(hot_blocks: Option<f64>) -> Configuration {
    let mut configuration = configuration(&[("controller.power_loss_protection", "on")]);
    configuration.mechanisms.streams = StreamParameters { count: 2, hot_within: None, hot_blocks };
    configuration
}

/// A drive of any mapping scheme.
trait Drive: Sized {
    fn new(configuration: &Configuration) -> Self;
    fn preconditioned(configuration: &Configuration, past: Past)
    -> Result<Self, PreconditionError>;
    fn geometry(&self) -> &Geometry;
    fn counters(&self) -> Counters;
    fn blocks_by_valid_units(&self) -> Vec<u32>;
    fn write(&mut self, at: Instant, first: LogicalUnit, units: u32) -> Instant;
    fn rest(&mut self, from: Instant, duration: Nanoseconds);
    fn hint(&mut self, _: StreamId) {}
    fn check_invariants(&self);
}

macro_rules! drive {
    ($drive:ty, $new:path, $aged:path, |$this:ident| $ssd:expr, $($hint:item)?) => {
        impl Drive for $drive {
            fn new(configuration: &Configuration) -> Self {
                $new(configuration).unwrap()
            }

            fn preconditioned(configuration: &Configuration, past: Past) -> Result<Self, PreconditionError> {
                $aged(configuration, past)
            }

            fn geometry(&self) -> &Geometry {
                self.geometry()
            }

            fn counters(&self) -> Counters {
                self.counters()
            }

            fn blocks_by_valid_units(&self) -> Vec<u32> {
                let $this = self;
                $ssd.blocks_by_valid_units()
            }

            fn write(&mut self, at: Instant, first: LogicalUnit, units: u32) -> Instant {
                self.write(at, first, units)
            }

            fn rest(&mut self, from: Instant, duration: Nanoseconds) {
                self.rest(from, duration);
            }

            $($hint)?

            fn check_invariants(&self) {
                self.check_invariants();
            }
        }
    };
}

drive!(
    Ssd,
    Ssd::new,
    Ssd::preconditioned,
    |ssd| ssd,
    fn hint(&mut self, stream: StreamId) {
        self.hint_stream(stream);
    }
);
drive!(Ssd<CachedMap>, Ssd::with_cached_map, Ssd::aged_with_cached_map, |ssd| ssd,);
drive!(Ssd<ExtentMap>, Ssd::with_extent_map, Ssd::preconditioned_with_extent_map, |ssd| ssd,);

/// A drive under random writes.
struct Bench<T> {
    workload: Workload,
    /// True if the host says what is hot.
    hints: bool,
    drive: T,
    now: Instant,
    generator: Pcg64Mcg,
}

impl<T: Drive> Bench<T> {
    fn write(&mut self, units: u32) {
        let logical = self.drive.geometry().logical_units();
        for _ in 0..units {
            let (range, is_hot) = match self.workload {
                Workload::Uniform => (0..logical, false),
                Workload::HotCold { writes, pages } => {
                    let hot = (f64::from(logical) * pages).round() as u32;
                    if self.generator.random_bool(writes) {
                        (0..hot, true)
                    } else {
                        (hot..logical, false)
                    }
                }
            };
            if self.hints && is_hot {
                self.drive.hint(StreamId::HOT);
            }
            let unit = LogicalUnit(self.generator.random_range(range));
            self.now = self.drive.write(self.now, unit, 1);
        }
    }

    /// Long enough that all that was put off is done.
    fn rest(&mut self) {
        let rest = Nanoseconds::from_secs(1_000);
        self.drive.rest(self.now, rest);
        self.now += rest;
    }

    /// Write amplification and the mean shares of blocks by valid units over two capacities.
    fn measure(&mut self) -> (f64, Vec<f64>) {
        const SAMPLES: u32 = 40;
        let before = self.drive.counters();
        let units = self.drive.geometry().units_per_block();
        let mut shares = vec![0.0; units as usize + 1];
        for _ in 0..SAMPLES {
            let logical = self.drive.geometry().logical_units();
            self.write(2 * logical / SAMPLES);
            let blocks = self.drive.blocks_by_valid_units();
            let all: u32 = blocks.iter().sum();
            for (share, blocks) in shares.iter_mut().zip(blocks) {
                *share += f64::from(blocks) / f64::from(all) / f64::from(SAMPLES);
            }
        }
        let counted = self.drive.counters().since(&before);
        (counted.data_write_amplification().expect("units were written"), shares)
    }
}

/// The largest difference between two distributions (Kolmogorov's distance).
fn distance(one: &[f64], other: &[f64]) -> f64 {
    let mut sum = 0.0;
    one.iter().zip(other).fold(0.0, |most, (one, other)| {
        sum += one - other;
        f64::max(most, f64::abs(sum))
    })
}

fn shares(ssd: &impl Drive) -> Vec<f64> {
    let blocks = ssd.blocks_by_valid_units();
    let all = f64::from(blocks.iter().sum::<u32>());
    blocks.into_iter().map(|blocks| f64::from(blocks) / all).collect()
}

/// The mean over drives that are aged with seeds of their own: of one of 2,048 blocks chance alone
/// moves some shares by more than 1 %.
fn mean_shares<T: Drive>(configuration: &Configuration, past: Past) -> Vec<f64> {
    const SEEDS: u64 = 16;
    let aged = |seed| T::preconditioned(configuration, Past { seed, ..past }).unwrap();
    let mut sum: Vec<f64> = Vec::new();
    for seed in 0..SEEDS {
        let shares = shares(&aged(seed));
        sum.resize(shares.len(), 0.0);
        for (sum, share) in sum.iter_mut().zip(shares) {
            *sum += share / SEEDS as f64;
        }
    }
    sum
}

/// Prints how far a directly aged drive is from one that was written `capacities` times, and
/// fails where it is more than 1 %.
fn agree(changes: &[(&str, &str)], capacities: u32) {
    agree_under::<Ssd>(Past::uniform(1), &configuration(changes), changes, capacities);
}

fn agree_under<T: Drive>(
    past: Past,
    configuration: &Configuration,
    changes: impl Debug,
    capacities: u32,
) {
    let Past { workload, cache, .. } = past;
    let hints = configuration.mechanisms.streams.count > 1;
    let generator = Pcg64Mcg::seed_from_u64(7);
    let drive = T::preconditioned(configuration, past).unwrap();
    drive.check_invariants();
    let new = mean_shares::<T>(configuration, past);
    let now = Instant::START;
    let mut aged = Bench { workload, hints, drive, now, generator: generator.clone() };
    let mut drive = T::new(configuration);
    let mut now = Instant::START;
    let logical = configuration.geometry.logical_units();
    for unit in (0..logical).step_by(8) {
        let units = 8.min(logical - unit);
        now = drive.write(now, LogicalUnit(unit), units);
    }
    let mut written = Bench { workload, hints, drive, now, generator };
    written.write(capacities * logical);
    // An empty cache fills, so that what is there at first does not stay.
    let rests = configuration.mechanisms.slc.is_some() && cache == CacheFill::Empty;
    if rests {
        written.rest();
    }
    let (expected, expected_shares) = written.measure();
    let (found, found_shares) = aged.measure();
    aged.drive.check_invariants();
    let amplification = found / expected - 1.0;
    let at_first = distance(&new, &expected_shares);
    let later = distance(&found_shares, &expected_shares);
    println!(
        "{past:?}, {changes:?}: write amplification {found:.4} and {expected:.4} ({:+.2} %); blocks by \
         valid units differ by {:.2} % at first, {:.2} % over two capacities",
        amplification * 100.0,
        at_first * 100.0,
        later * 100.0
    );
    assert!(amplification.abs() < 0.01, "{changes:?}");
    assert!((at_first < 0.01 || rests) && later < 0.01, "{changes:?}");
}

#[test]
fn greedy_is_aged_at_once_as_by_writing() {
    agree(&[], 6);
    agree(&[("collection.unit", "block"), ("flash.pages_per_block", "64")], 6);
}

#[test]
fn fifo_is_aged_at_once_as_by_writing() {
    agree(&[("collection.policy", "fifo")], 6);
}

#[test]
fn hot_and_cold_units_are_aged_at_once_as_by_writing() {
    // A cold unit is written once in four capacities, and until then its block remembers the fill.
    let fifo = configuration(&[("collection.policy", "fifo")]);
    agree_under::<Ssd>(HOT, &fifo, "fifo", 24);
}

#[test]
fn drawn_victims_are_aged_at_once_as_by_writing() {
    // Victims that are drawn leave more to chance: a larger drive has less of it.
    agree(&[("collection.policy", "random"), ("capacity.physical", "1G")], 8);
    agree(&[("collection.policy", "d-choices"), ("collection.choices", "2")], 8);
    agree(&[("collection.policy", "d-choices"), ("collection.choices", "10")], 8);
}

/// Four writes of five go to a fifth of the drive.
const HOT: Past = Past {
    workload: Workload::HotCold { writes: 0.8, pages: 0.2 },
    cache: CacheFill::Empty,
    seed: 1,
};

#[test]
fn write_streams_are_aged_at_once_as_by_writing() {
    for hot_blocks in [None, Some(0.25)] {
        agree_under::<Ssd>(HOT, &with_streams(hot_blocks), ("hot blocks", hot_blocks), 12);
    }
    // Nobody says what is hot: one of them is used.
    agree_under::<Ssd>(Past::uniform(1), &with_streams(None), "uniform with streams", 6);
}

#[test]
fn a_drive_with_a_cache_is_aged_at_once_as_by_writing() {
    let cache = [
        ("slc.size", "8M"),
        ("slc.bits", "2"),
        ("slc.program", "200us"),
        ("slc.page_read", "25us"),
    ];
    let full = Past { cache: CacheFill::Full, ..Past::uniform(1) };
    for when_full in ["direct", "fold"] {
        for past in [Past::uniform(1), full] {
            let changes = [&cache[..], &[("slc.when_full", when_full)]].concat();
            agree_under::<Ssd>(past, &configuration(&changes), when_full, 6);
        }
    }
    let dynamic = [&cache[..], &[("slc.space", "dynamic")]].concat();
    agree_under::<Ssd>(Past::uniform(1), &configuration(&dynamic), "dynamic", 6);
    let single =
        [("collection.unit", "block"), ("flash.pages_per_block", "64"), ("slc.when_full", "fold")];
    let single = [&cache[..], &single].concat();
    agree_under::<Ssd>(full, &configuration(&single), "single blocks", 6);
    let map = [
        ("mapping.scheme", "cached"),
        ("mapping.cache", "32K"),
        ("collection.metadata_units", "12"),
    ];
    let on_flash = [&cache[..], &map].concat();
    agree_under::<Ssd<CachedMap>>(full, &configuration(&on_flash), "map on flash", 6);
}

#[test]
fn a_map_on_flash_is_aged_at_once_as_by_writing() {
    let cached = [("mapping.scheme", "cached"), ("collection.metadata_units", "12")];
    for cache in ["32K", "128K"] {
        let changes = [&cached[..], &[("mapping.cache", cache)]].concat();
        agree_under::<Ssd<CachedMap>>(Past::uniform(1), &configuration(&changes), changes, 6);
    }
}

#[test]
fn a_map_of_extents_is_aged_at_once_as_by_writing() {
    let changes = [("mapping.scheme", "extent"), ("mapping.table", "64K")];
    agree_under::<Ssd<ExtentMap>>(Past::uniform(1), &configuration(&changes), changes, 4);
}

#[test]
fn log_blocks_are_aged_at_once_as_by_writing() {
    for log_blocks in ["4", "32"] {
        let changes = [
            ("mapping.scheme", "log-block"),
            ("mapping.log_blocks", log_blocks),
            ("capacity.physical", "128M"),
        ];
        agree_under::<Ssd>(Past::uniform(1), &configuration(&changes), changes, 1);
    }
}

#[test]
fn what_has_no_theory_is_refused() {
    let refused = |changes: &[(&str, &str)], past| {
        let error =
            Ssd::<PageMap>::preconditioned(&configuration(changes), past).map(drop).unwrap_err();
        assert!(matches!(error, PreconditionError::NoTheory { .. }), "{error}");
    };
    refused(&[("collection.policy", "cost-benefit")], Past::uniform(1));
    refused(&[], HOT);
    let streams = [
        ("controller.power_loss_protection", "on"),
        ("streams.count", "2"),
        ("streams.hot_within", "0.2"),
    ];
    refused(&streams, HOT);
}

/// So many workers, of which the one with the last piece is the first to be done.
struct LastFirst(usize);

impl Workers for LastFirst {
    fn at_a_time(&self) -> usize {
        self.0
    }

    fn carry_out(&self, pieces: Vec<Piece<'_>>) {
        pieces.into_iter().rev().for_each(|piece| piece());
    }
}

/// Returns what is saved of the drive that `workers` make.
fn saved(configuration: &Configuration, past: Past, workers: &dyn Workers) -> Vec<u8> {
    let mut saved = Vec::new();
    match configuration.mechanisms.mapping {
        MappingScheme::Cached => {
            let drive = Ssd::aged_with_cached_map_by(configuration, past, workers).unwrap();
            drive.save(&mut Encoder::new(&mut saved)).unwrap();
        }
        _ => {
            let drive = Ssd::preconditioned_by(configuration, past, workers).unwrap();
            drive.check_invariants();
            drive.save(&mut Encoder::new(&mut saved)).unwrap();
        }
    }
    saved
}

#[test]
fn a_drive_is_aged_alike_by_one_worker_and_by_many() {
    let uniform = Past::uniform(3);
    let full = Past { cache: CacheFill::Full, ..uniform };
    let cache: &[(&str, &str)] = &[
        ("slc.size", "4M"),
        ("slc.bits", "3"),
        ("slc.program", "200us"),
        ("slc.page_read", "25us"),
    ];
    let on_flash: &[(&str, &str)] = &[
        ("mapping.scheme", "cached"),
        ("mapping.cache", "64K"),
        ("collection.metadata_units", "64"),
    ];
    let cases = [
        (configuration(&[]), uniform),
        // Nothing lies behind the end of the order of units, which is a power of two here.
        (configuration(&[("capacity.logical", "256M")]), uniform),
        (configuration(&[("collection.policy", "fifo")]), HOT),
        (with_streams(Some(0.25)), HOT),
        (configuration(cache), full),
        (configuration(on_flash), uniform),
    ];
    for (at, (configuration, past)) in cases.iter().enumerate() {
        let alone = saved(configuration, *past, &SingleThreaded);
        for workers in [2, 3, 50] {
            let by_many = saved(configuration, *past, &LastFirst(workers));
            assert!(alone == by_many, "case {at}, {workers} workers");
        }
    }
}
