//! A drive in an image holds what was written to it, whatever ends the program.

#[path = "support/shadow.rs"]
mod shadow;
mod support;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use shadow::Shadow;
use ssdlab_attach::engine::{Engine, Opened, Options, Outcome};
use ssdlab_attach::image::Image;
use support::{small_image, small_profile};

fn open(path: &std::path::Path, options: Options) -> (Engine, Opened) {
    let image = Image::open(path).unwrap_or_else(|error| panic!("{error}"));
    Engine::open(image, options).unwrap_or_else(|error| panic!("{error:?}"))
}

fn options() -> Options {
    Options { time: ssdlab_attach::engine::Time::Fast, ..Options::default() }
}

/// Opens, works, ends as `end` says, for some lives; after each the drive holds what it must.
fn run_lives(changes: &[(&str, &str)], lives: u32, seed: u64, end: impl Fn(&Engine, u32)) {
    run_lives_with(options(), changes, lives, seed, end);
}

/// Lives through the history with the drive attached in some other way.
fn run_lives_with(
    options: Options,
    changes: &[(&str, &str)],
    lives: u32,
    seed: u64,
    end: impl Fn(&Engine, u32),
) {
    let directory = support::directory();
    let path = small_image(directory.path(), changes);
    let mut generator = Pcg64Mcg::seed_from_u64(seed);
    let mut shadow: Option<Shadow> = None;
    for life in 0..lives {
        let (engine, _) = open(&path, options);
        let shadow = shadow.get_or_insert_with(|| Shadow::new(&engine));
        shadow.check(&engine);
        for _ in 0..generator.random_range(1..600) {
            shadow.step(&engine, &mut generator);
        }
        end(&engine, life);
    }
    let (engine, _) = open(&path, options);
    shadow.expect("some life was lived").check(&engine);
}

/// Capacitors, and data that waits in the buffer, where it is replaced.
const COALESCING: [(&str, &str); 2] =
    [("controller.power_loss_protection", "on"), ("controller.coalescing", "192K")];

#[test]
fn what_was_flushed_outlives_the_program() {
    run_lives(&[], 40, 1, |_, _| {});
}

#[test]
fn so_it_does_with_capacitors_and_single_blocks() {
    run_lives(&[("controller.power_loss_protection", "on")], 30, 2, |_, _| {});
    run_lives(&COALESCING, 30, 8, |_, _| {});
    run_lives(&[("collection.unit", "block")], 30, 3, |_, _| {});
    run_lives(&[("flush.journal", "on")], 20, 4, |_, _| {});
    run_lives(&[("controller.write_cache", "write-through")], 10, 5, |_, _| {});
}

#[test]
fn so_it_does_while_much_is_under_way_on_the_drive() {
    // The host's clock goes on slowly while the test asks as fast as it can.
    let seed = std::env::var("SSDLAB_SEED").map_or(21, |it| it.parse().expect("a number"));
    run_lives_with(Options::default(), &[], 40, seed, |_, _| {});
}

#[test]
fn so_it_does_with_capacitors_while_more_is_under_way_than_they_keep() {
    let protected = [("controller.power_loss_protection", "on")];
    run_lives_with(Options::default(), &protected, 20, 22, |_, _| {});
    run_lives_with(Options::default(), &protected, 20, 23, |engine, _| engine.power_cut());
    let blocks = [("controller.power_loss_protection", "on"), ("collection.unit", "block")];
    run_lives_with(Options::default(), &blocks, 10, 24, |_, _| {});
    run_lives_with(Options::default(), &COALESCING, 20, 25, |_, _| {});
}

/// Requests that are larger than the buffer, and each of which makes the drive collect.
fn write_large(time: ssdlab_attach::engine::Time) {
    let directory = support::directory();
    let path = small_image(directory.path(), &[("controller.power_loss_protection", "on")]);
    for life in 0..4u8 {
        let (engine, _) = open(&path, Options { time, ..Options::default() });
        let mut data = vec![0; engine.capacity() as usize];
        let _ = engine.read(std::time::Instant::now(), 0, &mut data).expect("a read");
        let before = if life == 0 { 0 } else { life * 16 + 9 };
        assert!(data.iter().all(|&byte| byte == before), "life {life}");
        for number in 0..10 {
            data.fill((life + 1) * 16 + number);
            let now = std::time::Instant::now();
            let _ = engine.write(now, 0, &data, false).expect("all of the drive");
        }
        let _ = engine.flush(std::time::Instant::now()).expect("a flush");
    }
}

#[test]
fn a_request_may_be_larger_than_what_capacitors_keep() {
    write_large(ssdlab_attach::engine::Time::Fast);
    write_large(ssdlab_attach::engine::Time::Real);
}

#[test]
fn so_it_does_with_a_map_on_flash() {
    let cached = [
        ("mapping.scheme", "cached"),
        ("mapping.cache", "64K"),
        ("collection.metadata_units", "6"),
        ("capacity.physical", "20M"),
    ];
    run_lives(&cached, 15, 11, |_, _| {});
}

#[test]
fn so_it_does_with_a_map_of_extents() {
    let extents =
        [("mapping.scheme", "extent"), ("mapping.table", "64K"), ("capacity.physical", "32M")];
    run_lives(&extents, 15, 12, |_, _| {});
}

#[test]
fn so_it_does_with_an_slc_cache() {
    let slc = [
        ("slc.size", "1M"),
        ("slc.space", "fixed"),
        ("slc.when_full", "fold"),
        ("slc.bits", "3"),
        ("slc.program", "285us"),
        ("slc.page_read", "30us"),
        ("capacity.physical", "40M"),
    ];
    run_lives(&slc, 15, 13, |_, _| {});
}

#[test]
fn so_it_does_with_several_streams() {
    let streams = [
        ("streams.count", "2"),
        ("streams.hot_within", "0.2"),
        ("controller.power_loss_protection", "on"),
        ("capacity.physical", "32M"),
    ];
    run_lives(&streams, 15, 14, |_, _| {});
}

#[test]
fn a_power_cut_leaves_what_was_flushed() {
    run_lives(&[], 30, 6, |engine, _| engine.power_cut());
    run_lives(&[("controller.power_loss_protection", "on")], 20, 7, |engine, _| engine.power_cut());
    run_lives(&COALESCING, 20, 9, |engine, _| engine.power_cut());
}

#[test]
fn closed_in_order_everything_is_there_and_opens_without_recovery() {
    let directory = support::directory();
    let path = small_image(directory.path(), &[]);
    let mut generator = Pcg64Mcg::seed_from_u64(9);
    let (engine, opened) = open(&path, options());
    assert_eq!(opened, Opened::New);
    let mut shadow = Shadow::new(&engine);
    assert_eq!(engine.close().expect("room"), Outcome::Clean);
    drop(engine);
    for _ in 0..8 {
        let (engine, opened) = open(&path, options());
        assert_eq!(opened, Opened::Clean);
        shadow.mark_durable();
        shadow.check(&engine);
        for _ in 0..700 {
            shadow.step(&engine, &mut generator);
        }
        assert_eq!(engine.close().expect("room"), Outcome::Clean);
    }
}

#[test]
fn the_small_profile_is_sound() {
    small_profile(&[]).check().expect("a sound profile");
}
