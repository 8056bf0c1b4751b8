//! Tests of bad blocks and of the end of a drive's life.
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::*;
use crate::ftl::Ssd;
use crate::profile::{DEFAULT, Profile};
use crate::units::Nanoseconds;
use crate::units::{Instant, LogicalUnit};

/// Returns a drive of 8 MiB on 16 MiB of flash in superblocks of 4 dies, whose blocks fail soon.
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
        ("flash.pages_per_shot", "1"),
        ("flash.pages_per_block", "16"),
        ("controller.write_buffer", "512K"),
        ("read_ahead.window", "0"),
        ("wear.pe_cycles", "20"),
        ("wear.life", "30"),
        ("wear.life_shape", "6"),
        ("wear.reserve", "3"),
        ("wear.retire_most", "0.5"),
    ];
    for (key, value) in small.iter().chain(changes) {
        profile.set(key, value).unwrap_or_else(|error| panic!("{error}"));
    }
    profile.configuration().unwrap_or_else(|error| panic!("{error}"))
}

/// State of the drive at one moment of its life.
struct Moment {
    written: u64,
    spare: SpareBlocks,
    usable: u32,
}

/// Writes at random until a write is refused, and checks the drive meanwhile.
fn live(ssd: &mut Ssd) -> (Vec<Moment>, Instant) {
    let mut generator = Pcg64Mcg::seed_from_u64(3);
    let units = ssd.geometry().logical_units();
    let (mut at, mut moments) = (Instant::START, Vec::new());
    for written in 0..2_000_000u64 {
        at = ssd.write(at, LogicalUnit(generator.random_range(0..units)), 1);
        if written % 97 == 0 {
            ssd.check_invariants();
            let spare = ssd.spare_blocks().expect("blocks go bad");
            let retired = ssd.counters().retired_blocks as u32;
            moments.push(Moment { written, spare, usable: ssd.geometry().blocks() - retired });
        }
        if ssd.counters().refused_writes > 0 {
            ssd.check_invariants();
            return (moments, at);
        }
    }
    panic!("the drive has not reached its end of life");
}

#[test]
fn spare_falls_until_the_drive_is_read_only_and_then_all_that_was_accepted_is_there() {
    for unit in ["superblock", "block"] {
        let changes = [("collection.unit", unit), ("wear.reserve", "2")];
        let mut ssd = Ssd::new(&configuration(&changes)).unwrap();
        let (moments, at) = live(&mut ssd);
        let percents: Vec<u8> = moments.iter().map(|it| it.spare.percent()).collect();
        assert_eq!(percents[0], 100);
        assert!(percents.is_sorted_by(|one, other| one >= other), "{unit}: {percents:?}");
        let first = moments.iter().find(|it| it.spare.percent() < 100).unwrap();
        assert!(first.written > 5_000, "blocks fail when they are worn");
        let usable: Vec<u32> = moments.iter().map(|it| it.usable).collect();
        assert!(usable.first() > usable.last(), "{unit}: physical spare shrinks");
        assert!(ssd.is_read_only());
        let counters = ssd.counters();
        let (programs, refused) = (counters.programs, counters.refused_writes);
        let at = ssd.flush(at);
        let at = ssd.write(at, LogicalUnit(0), 8) + Nanoseconds::from_secs(1);
        assert_eq!(ssd.counters().refused_writes, refused + 1);
        ssd.rest(at, Nanoseconds::from_secs(100));
        assert!(ssd.counters().programs < programs + 40, "only what the buffer held");
        let mapped = |ssd: &Ssd| {
            (0..ssd.geometry().logical_units())
                .filter(|&unit| ssd.place_of(LogicalUnit(unit)).is_some())
                .count()
        };
        let before = mapped(&ssd);
        assert!(before > 2_000, "it was written all over");
        let late = at + Nanoseconds::from_secs(200);
        assert!(ssd.read(late, LogicalUnit(7), 1) > late, "it can be read");
        ssd.check_invariants();
    }
}

#[test]
fn write_amplification_follows_the_spare_that_is_lost() {
    let changes = [("wear.retire_most", "0.8"), ("wear.life", "200"), ("wear.life_shape", "3")];
    let mut ssd = Ssd::new(&configuration(&changes)).unwrap();
    let mut generator = Pcg64Mcg::seed_from_u64(4);
    let units = ssd.geometry().logical_units();
    let (mut at, mut rounds) = (Instant::START, Vec::new());
    while !ssd.is_read_only() {
        let before = ssd.counters();
        for _ in 0..2 * units {
            at = ssd.write(at, LogicalUnit(generator.random_range(0..units)), 1);
        }
        rounds.push(ssd.counters().since(&before).write_amplification().unwrap());
    }
    // The first round fills the drive, and the last is not complete.
    let (first, last) = (rounds[1], rounds[rounds.len() - 2]);
    assert!(rounds.len() > 10 && last > 1.5 * first, "{rounds:?}");
}

#[test]
fn a_reserve_is_used_before_anything_is_retired_and_the_factory_takes_from_it() {
    let spare = |changes: &[(&str, &str)]| {
        Ssd::new(&configuration(changes)).unwrap().spare_blocks().unwrap().at_start
    };
    let all = spare(&[]);
    // 64 blocks of each die, of which one in 64 is bad.
    assert_eq!(spare(&[("wear.factory_bad", "0.0156")]), all - 4);
    let blocks = |reserve| configuration(&[("wear.reserve", reserve)]).geometry.blocks();
    assert_eq!(blocks("9"), blocks("3") - 6, "the reserve is no spare area");
    let mut ssd = Ssd::new(&configuration(&[])).unwrap();
    let (moments, _) = live(&mut ssd);
    let replaced = moments.iter().take_while(|it| it.usable == moments[0].usable).last().unwrap();
    assert!(replaced.spare.left < all, "some were replaced while all units were in use");
}

/// The share of blocks that are alive after a number of erases is Weibull's; for units of several blocks it is the
/// product over these blocks.
#[test]
fn lives_are_distributed_as_weibull_says() {
    for (unit, stripe) in [("block", 1.0), ("superblock", 4.0)] {
        let configuration = configuration(&[
            ("collection.unit", unit),
            ("capacity.physical", "512M"),
            ("wear.life", "100000"),
            ("wear.life_shape", "3"),
        ]);
        let bad = BadBlocks::new(&configuration).unwrap();
        for erases in [20_000.0, 50_000.0, 90_000.0] {
            let alive = bad.fails_at.iter().filter(|&&at| f64::from(at) > erases).count();
            let alive = alive as f64 / bad.fails_at.len() as f64;
            let expected = (-stripe * (erases / 100_000f64).powi(3)).exp();
            assert!((alive - expected).abs() < 0.05, "{unit}, {erases}: {alive} {expected}");
        }
        let mut generator = Pcg64Mcg::seed_from_u64(1);
        let old: f64 = (0..2_000)
            .map(|_| f64::from(bad.next_failure(&mut generator, 150_000.0, 1)) - 150_000.0)
            .sum::<f64>()
            / 2_000.0;
        // The hazard of a block of that age is 3 (1.5)^2 per characteristic life, and rising.
        assert!((9_000.0..15_000.0).contains(&old), "{old}");
    }
}

#[test]
fn a_worn_drive_that_was_saved_goes_on_to_the_same_end() {
    use crate::mapping::PageMap;
    use crate::media::Null;
    let configuration = configuration(&[
        ("wear.levelling", "static"),
        ("wear.static_every", "8"),
        ("wear.static_spread", "2"),
    ]);
    let mut ssd = Ssd::new(&configuration).unwrap();
    let mut generator = Pcg64Mcg::seed_from_u64(5);
    let units = ssd.geometry().logical_units();
    let mut at = Instant::START;
    while ssd.counters().retired_blocks < 3 {
        at = ssd.write(at, LogicalUnit(generator.random_range(0..units)), 1);
    }
    let at = ssd.shut_down(at);
    let mut bytes = Vec::new();
    ssd.save(&mut Encoder::new(&mut bytes)).unwrap();
    let map = PageMap::new(units);
    let mut from = &bytes[..];
    let mut again: Ssd<PageMap, Null> =
        Ssd::restored(&configuration, map, &mut Decoder::new(&mut from)).unwrap();
    assert_eq!(again.spare_blocks(), ssd.spare_blocks());
    let end = |ssd: &mut Ssd| {
        let mut generator = Pcg64Mcg::seed_from_u64(6);
        let mut at = at;
        while ssd.counters().refused_writes == 0 {
            at = ssd.write(at, LogicalUnit(generator.random_range(0..units)), 1);
        }
        (at, ssd.counters())
    };
    assert_eq!(end(&mut again), end(&mut ssd));
}

#[test]
fn keys_that_leave_nothing_to_replace_bad_blocks_are_refused() {
    let refused = |changes: &[(&str, &str)]| {
        let mut profile = Profile::named(DEFAULT).unwrap();
        for (key, value) in [("wear.life", "3000"), ("wear.life_shape", "8")].iter().chain(changes)
        {
            profile.set(key, value).unwrap();
        }
        profile.check().unwrap_err().to_string()
    };
    assert!(refused(&[]).contains("set wear.reserve or wear.retire_most"));
    assert!(refused(&[("wear.life_shape", "0")]).contains("needs wear.life_shape"));
    let factory = refused(&[("wear.reserve", "3"), ("wear.factory_bad", "0.05")]);
    assert!(factory.contains("and wear.reserve is 3"), "{factory}");
}
