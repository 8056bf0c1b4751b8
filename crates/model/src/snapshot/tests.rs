//! Tests that a restored drive answers like the drive that was saved.

use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use ssdlab_units::codec::{self, BorrowedMemory, CodecError, TableSource, TableStore};

use super::*;
use crate::counters::{Counters, Wear};
use crate::ftl::Ssd;
use crate::lazy_table::OwnedMemory;
use crate::mapping::cached::CachedMap;
use crate::mapping::extent::ExtentMap;
use crate::mapping::{Mapping, MappingScheme, PageMap};
use crate::profile::{DEFAULT, Profile};
use crate::ssd::Configuration;
use crate::units::{Instant, LogicalUnit, Nanoseconds};

/// A drive of any mapping scheme.
trait Drive: Sized {
    fn new(configuration: &Configuration) -> Self;
    fn restored(
        configuration: &Configuration,
        from: &mut Decoder<'_>,
    ) -> Result<Self, SnapshotError>;
    fn units(&self) -> u32;
    fn write(&mut self, at: Instant, first: LogicalUnit, units: u32) -> Instant;
    fn read(&mut self, at: Instant, first: LogicalUnit, units: u32) -> Instant;
    fn trim(&mut self, at: Instant, first: LogicalUnit, units: u32) -> Instant;
    fn flush(&mut self, at: Instant) -> Instant;
    fn rest(&mut self, from: Instant, duration: Nanoseconds);
    fn shut_down(&mut self, at: Instant) -> Instant;
    fn save(&self, to: &mut Encoder<'_>) -> Result<(), SnapshotError>;
    fn counted(&self) -> (Counters, Wear);
    fn mapped(&self) -> Vec<bool>;
    fn check_invariants(&self);
}

/// Constructor of the map of a drive.
trait MapOf: Mapping {
    fn of(configuration: &Configuration) -> Self;
}

impl MapOf for PageMap {
    fn of(configuration: &Configuration) -> Self {
        PageMap::new(configuration.geometry.logical_units())
    }
}

impl MapOf for CachedMap {
    fn of(configuration: &Configuration) -> Self {
        CachedMap::new(configuration).unwrap()
    }
}

impl MapOf for ExtentMap {
    fn of(configuration: &Configuration) -> Self {
        ExtentMap::new(&configuration.geometry, configuration.mechanisms.extents)
    }
}

/// The calls that both kinds of drive have.
macro_rules! calls {
    () => {
        fn units(&self) -> u32 {
            self.geometry().logical_units()
        }

        fn write(&mut self, at: Instant, first: LogicalUnit, units: u32) -> Instant {
            self.write(at, first, units)
        }

        fn read(&mut self, at: Instant, first: LogicalUnit, units: u32) -> Instant {
            self.read(at, first, units)
        }

        fn trim(&mut self, at: Instant, first: LogicalUnit, units: u32) -> Instant {
            self.trim(at, first, units)
        }

        fn flush(&mut self, at: Instant) -> Instant {
            self.flush(at)
        }

        fn rest(&mut self, from: Instant, duration: Nanoseconds) {
            self.rest(from, duration);
        }

        fn shut_down(&mut self, at: Instant) -> Instant {
            self.shut_down(at)
        }

        fn save(&self, to: &mut Encoder<'_>) -> Result<(), SnapshotError> {
            self.save(to)
        }

        fn counted(&self) -> (Counters, Wear) {
            (self.counters(), self.wear())
        }

        fn check_invariants(&self) {
            self.check_invariants();
        }
    };
}

impl<M: MapOf> Drive for Ssd<M> {
    fn new(configuration: &Configuration) -> Self {
        Ssd::with(configuration, M::of(configuration), crate::media::Null).unwrap()
    }

    fn restored(
        configuration: &Configuration,
        from: &mut Decoder<'_>,
    ) -> Result<Self, SnapshotError> {
        Ssd::restored(configuration, M::of(configuration), from)
    }

    fn mapped(&self) -> Vec<bool> {
        (0..self.units()).map(|unit| self.place_of(LogicalUnit(unit)).is_some()).collect()
    }

    calls!();
}

/// Returns the configuration of a drive of 8 MiB in blocks of 96 or of 24 units, with changes of its profile.
fn configuration(changes: &[(&str, &str)]) -> Configuration {
    let mut profile = Profile::named(DEFAULT).expect("the default profile");
    let small = [
        ("capacity.logical", "8M"),
        ("capacity.physical", "16M"),
        ("controller.unit_size", "4K"),
        ("flash.page_size", "4K"),
        ("flash.channels", "2"),
        ("flash.dies", "4"),
        ("flash.planes_per_die", "1"),
        ("flash.pages_per_shot", "3"),
        ("flash.pages_per_block", "24"),
        ("controller.write_buffer", "512K"),
    ];
    for (key, value) in small.iter().chain(changes) {
        profile.set(key, value).unwrap_or_else(|error| panic!("{error}"));
    }
    profile.configuration().unwrap_or_else(|error| panic!("{error}"))
}

const CACHED: &[(&str, &str)] = &[
    ("mapping.scheme", "cached"),
    ("mapping.cache", "16K"),
    ("collection.metadata_units", "16"),
    // Twelve map pages, four of them in RAM.
    ("capacity.logical", "48M"),
    ("capacity.physical", "72M"),
];
const EXTENT: &[(&str, &str)] = &[("mapping.scheme", "extent"), ("mapping.table", "3K")];
const LOG_BLOCK: &[(&str, &str)] = &[("mapping.scheme", "log-block"), ("mapping.log_blocks", "4")];
const SLC: &[(&str, &str)] = &[
    ("slc.size", "1M"),
    ("slc.bits", "3"),
    ("slc.program", "200us"),
    ("slc.page_read", "25us"),
    ("capacity.physical", "24M"),
];
const STREAMS: &[(&str, &str)] = &[
    ("controller.power_loss_protection", "on"),
    ("streams.count", "2"),
    ("streams.hot_within", "0.2"),
    ("capacity.physical", "20M"),
];

/// Sends requests of all kinds from `at` on, half of them to a tenth of the drive. Returns the moments of their
/// answers.
fn work(ssd: &mut impl Drive, at: Instant, requests: u32, seed: u64) -> Vec<Instant> {
    let mut generator = Pcg64Mcg::seed_from_u64(seed);
    let units = ssd.units();
    let mut at = at;
    let mut in_a_row = 0;
    let request = |_| {
        let count = generator.random_range(1..=4);
        let range = if generator.random() { units / 10 } else { units };
        let mut first = LogicalUnit(generator.random_range(0..=range - count));
        if in_a_row > 0 {
            // Some requests continue the one before.
            first = LogicalUnit(in_a_row % (units - count));
            in_a_row = if generator.random_range(0..60u32) == 0 { 0 } else { first.0 + count };
        } else if generator.random_range(0..200u32) == 0 {
            in_a_row = 96 * generator.random_range(1..units / 96);
        }
        at += Nanoseconds::new(generator.random_range(0..200_000));
        match generator.random_range(0..100u32) {
            0..60 => ssd.write(at, first, count),
            60..90 => ssd.read(at, first, count),
            90..95 => ssd.trim(at, first, count),
            95..98 => ssd.flush(at),
            _ => {
                let rest = Nanoseconds::from_millis(200);
                ssd.rest(at, rest);
                at += rest;
                at
            }
        }
    };
    (0..requests).map(request).collect()
}

/// Form in which a drive is saved.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Form {
    /// All tables one after the other.
    Whole,
    /// Tables as long as the drive kept apart, behind the rest.
    Apart,
    /// Tables apart, known to be sound when the drive is restored.
    Sound,
}

/// Tables that are kept apart, one after the other.
struct Tables<'a> {
    bytes: &'a mut Vec<u8>,
    form: Form,
}

impl TableStore for Tables<'_> {
    fn keep(&mut self, table: &[u32]) -> io::Result<u64> {
        let at = self.bytes.len();
        self.bytes.extend(table.iter().flat_map(|word| word.to_le_bytes()));
        Ok(at as u64)
    }
}

impl TableSource for Tables<'_> {
    fn lend(&mut self, at: u64, length: usize) -> Result<Box<dyn BorrowedMemory>, CodecError> {
        let bytes = usize::try_from(at).ok().and_then(|at| self.bytes.get(at..)?.get(..4 * length));
        let (words, _) = match bytes {
            Some(bytes) => bytes.as_chunks::<4>(),
            None => return codec::damaged("there is no such table"),
        };
        Ok(Box::new(OwnedMemory(words.iter().map(|word| u32::from_le_bytes(*word)).collect())))
    }

    fn is_verified(&self) -> bool {
        self.form == Form::Sound
    }
}

/// Returns the saved state of a drive. If tables are apart, the length of the rest comes first.
fn saved(ssd: &impl Drive, form: Form) -> Vec<u8> {
    let (mut bytes, mut tables) = (Vec::new(), Vec::new());
    if form == Form::Whole {
        ssd.save(&mut Encoder::new(&mut bytes)).unwrap();
        return bytes;
    }
    let mut store = Tables { bytes: &mut tables, form };
    ssd.save(&mut Encoder::with_tables_apart(&mut bytes, &mut store)).unwrap();
    [&(bytes.len() as u64).to_le_bytes()[..], &bytes, &tables].concat()
}

fn restored<T: Drive>(
    configuration: &Configuration,
    mut bytes: &[u8],
    form: Form,
) -> Result<T, SnapshotError> {
    if form == Form::Whole {
        let drive = T::restored(configuration, &mut Decoder::new(&mut bytes))?;
        return if bytes.is_empty() { Ok(drive) } else { damaged("there is more than a state") };
    }
    let length = Decoder::new(&mut bytes).long()?;
    let split = usize::try_from(length).ok().and_then(|length| bytes.split_at_checked(length));
    let Some((mut state, tables)) = split else { return damaged("it ends early") };
    let source = &mut Tables { bytes: &mut tables.to_vec(), form };
    let drive = T::restored(configuration, &mut Decoder::with_tables_apart(&mut state, source))?;
    if state.is_empty() { Ok(drive) } else { damaged("there is more than a state") }
}

/// Checks for many seeds that a restored drive continues like the drive that was saved.
fn goes_on_alike<T: Drive>(changes: &[(&str, &str)], seeds: std::ops::Range<u64>) {
    let configuration = configuration(changes);
    for seed in seeds {
        let mut ssd = T::new(&configuration);
        let mut at = Instant::START;
        // Saved twice: a restored drive can be saved again.
        for round in 0..2 {
            let requests = if seed.is_multiple_of(2) { 12_000 } else { 1_000 + 517 * seed as u32 };
            let ends = work(&mut ssd, at, requests, 2 * seed + round);
            let mapped = ssd.mapped();
            let last = ends.into_iter().max().unwrap();
            let quiet = ssd.shut_down(last);
            assert!(quiet >= last && ssd.mapped() == mapped, "it keeps what it holds");
            assert_eq!(ssd.shut_down(quiet), quiet, "there is nothing left to do");
            ssd.check_invariants();
            let form = [Form::Whole, Form::Apart, Form::Sound][(seed + round) as usize % 3];
            let bytes = saved(&ssd, form);
            let mut other: T = restored(&configuration, &bytes, form).unwrap();
            other.check_invariants();
            assert_eq!(other.counted(), ssd.counted());
            assert!(saved(&other, form) == bytes, "{changes:?}: saved again it is another state");
            at = quiet + Nanoseconds::from_secs(3);
            let ends = work(&mut ssd, at, 12_000, 1_000 + seed);
            let others = work(&mut other, at, 12_000, 1_000 + seed);
            let differs = ends.iter().zip(&others).position(|(one, other)| one != other);
            assert_eq!(differs, None, "{changes:?}, seed {seed}: the first request that differs");
            assert_eq!(other.counted(), ssd.counted());
            other.check_invariants();
            (ssd, at) = (other, ends.into_iter().max().unwrap());
        }
    }
}

fn joined<'a>(one: &[(&'a str, &'a str)], other: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
    [one, other].concat()
}

#[test]
fn a_restored_drive_answers_as_the_saved_one_does() {
    let drives: [&[(&str, &str)]; 10] = [
        &[],
        &[
            ("collection.low_water", "3"),
            ("wear.levelling", "static"),
            ("wear.static_every", "8"),
            ("wear.static_spread", "4"),
            ("wear.static_stream", "on"),
        ],
        &[("collection.unit", "block")],
        &[("collection.policy", "fifo")],
        &[("collection.policy", "random")],
        &[("collection.policy", "d-choices"), ("collection.choices", "4")],
        &[("collection.policy", "cost-benefit"), ("collection.unit", "block")],
        &[("flush.journal", "on"), ("link.full_duplex", "off")],
        &[("controller.power_loss_protection", "on"), ("capacity.physical", "64M")],
        &[("wear.levelling", "static"), ("wear.static_every", "8"), ("wear.static_spread", "4")],
    ];
    for changes in drives {
        goes_on_alike::<Ssd>(changes, 0..3);
    }
}

#[test]
fn so_does_one_with_a_map_on_flash() {
    for changes in [&[][..], &[("mapping.cache", "64K")], &[("collection.unit", "block")]] {
        goes_on_alike::<Ssd<CachedMap>>(&joined(CACHED, changes), 0..4);
    }
}

#[test]
fn so_does_one_with_a_map_of_extents() {
    for changes in [&[][..], &[("mapping.table", "6K"), ("collection.policy", "fifo")]] {
        goes_on_alike::<Ssd<ExtentMap>>(&joined(EXTENT, changes), 0..4);
    }
}

#[test]
fn so_does_one_with_log_blocks() {
    for changes in [&[][..], &[("mapping.log_blocks", "1")], &[("collection.unit", "block")]] {
        goes_on_alike::<Ssd>(&joined(LOG_BLOCK, changes), 0..4);
    }
}

#[test]
fn so_does_one_with_a_cache_in_slc_mode() {
    let drives: [&[(&str, &str)]; 4] = [
        &[],
        &[("slc.when_full", "fold")],
        &[("slc.space", "dynamic"), ("slc.size", "3M")],
        &[("flash.pages_per_shot", "1"), ("flash.pages_per_block", "72")],
    ];
    for changes in drives {
        goes_on_alike::<Ssd>(&joined(SLC, changes), 0..4);
    }
}

#[test]
fn so_does_one_with_several_write_streams() {
    let drives: [&[(&str, &str)]; 4] = [
        &[],
        &[("collection.unit", "block"), ("capacity.physical", "32M")],
        &[("streams.hot_blocks", "0.3")],
        &[("streams.hot_blocks", "0.3"), ("collection.policy", "cost-benefit")],
    ];
    for changes in drives {
        goes_on_alike::<Ssd>(&joined(STREAMS, changes), 0..4);
    }
}

#[test]
fn a_new_drive_takes_little_room() {
    let configuration = configuration(&[("capacity.physical", "4G"), ("capacity.logical", "2G")]);
    let mut ssd: Ssd = Drive::new(&configuration);
    ssd.shut_down(Instant::START);
    let per_unit =
        saved(&ssd, Form::Whole).len() as f64 / f64::from(ssd.geometry().logical_units());
    assert!(per_unit < 0.2, "{per_unit} bytes for each unit");
}

/// Damages a saved state by `spoil`, and checks that it is refused or makes a sound drive; if `must_fail`, it has to
/// be refused.
fn check<T: Drive>(changes: &[(&str, &str)], spoil: &dyn Fn(&mut Vec<u8>), must_fail: bool) {
    for form in [Form::Whole, Form::Apart] {
        check_form::<T>(changes, spoil, must_fail, form);
    }
}

fn check_form<T: Drive>(
    changes: &[(&str, &str)],
    spoil: &dyn Fn(&mut Vec<u8>),
    must_fail: bool,
    form: Form,
) {
    let configuration = configuration(changes);
    let mut ssd = T::new(&configuration);
    work(&mut ssd, Instant::START, 4_000, 5);
    let quiet = ssd.shut_down(Instant::from_nanos(1 << 40));
    let mut bytes = saved(&ssd, form);
    spoil(&mut bytes);
    match restored::<T>(&configuration, &bytes, form) {
        Err(_) => {}
        Ok(_) if must_fail => panic!("{changes:?}: it is no state"),
        Ok(mut drive) => {
            drive.check_invariants();
            work(&mut drive, quiet, 500, 6);
            drive.check_invariants();
        }
    }
}

fn check_kind(kind: usize, spoil: &dyn Fn(&mut Vec<u8>), must_fail: bool) {
    let fifo = [("collection.policy", "fifo")];
    let hot = [("streams.hot_blocks", "0.3")];
    let cost_benefit = [("collection.policy", "cost-benefit")];
    let random = [("collection.policy", "random")];
    match kind {
        0 => check::<Ssd>(&[], spoil, must_fail),
        1 => check::<Ssd>(&fifo, spoil, must_fail),
        2 => check::<Ssd>(&random, spoil, must_fail),
        3 => check::<Ssd>(&cost_benefit, spoil, must_fail),
        4 => check::<Ssd<CachedMap>>(CACHED, spoil, must_fail),
        5 => check::<Ssd<ExtentMap>>(EXTENT, spoil, must_fail),
        6 => check::<Ssd>(LOG_BLOCK, spoil, must_fail),
        7 => check::<Ssd>(SLC, spoil, must_fail),
        8 => check::<Ssd>(STREAMS, spoil, must_fail),
        _ => check::<Ssd>(&joined(STREAMS, &hot), spoil, must_fail),
    }
}

const KINDS: usize = 10;

#[test]
fn a_state_that_ends_early_is_refused() {
    for kind in 0..KINDS {
        for share in 0..24 {
            check_kind(kind, &|bytes| bytes.truncate(bytes.len() * share / 24), true);
        }
        check_kind(kind, &|bytes| bytes.truncate(bytes.len() - 1), true);
    }
}

#[test]
fn the_scheme_of_every_kind_is_tested() {
    assert_eq!(configuration(CACHED).mechanisms.mapping, MappingScheme::Cached);
    assert_eq!(configuration(EXTENT).mechanisms.mapping, MappingScheme::Extent);
    assert_eq!(configuration(LOG_BLOCK).mechanisms.mapping, MappingScheme::LogBlock);
}

/// Returns a configuration that tests the same cases each time.
fn cases(count: u32) -> ProptestConfig {
    let rng_seed = match ProptestConfig::default().rng_seed {
        RngSeed::Random => RngSeed::Fixed(1),
        given => given,
    };
    ProptestConfig { cases: count, failure_persistence: None, rng_seed, ..Default::default() }
}

proptest! {
    #![proptest_config(cases(700))]

    #[test]
    fn wrong_bytes_are_refused_or_make_a_sound_drive(
        kind in 0..KINDS, bytes in prop::collection::vec((any::<u32>(), any::<u8>()), 1..4),
    ) {
        check_kind(kind, &|saved| {
            let length = saved.len();
            for &(place, value) in &bytes {
                // Half of them near the end, where the lists are, or the reverse map.
                let place = if place % 2 == 0 {
                    place as usize
                } else {
                    length - 1 - place as usize % 2_048.min(length)
                };
                saved[place % length] = value;
            }
        }, false);
    }
}
