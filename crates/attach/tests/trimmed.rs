//! What a drive in an image reads as where nothing is mapped.

mod support;

use std::time::Instant;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use ssdlab_attach::engine::{Engine, Extent, Options, Time};
use ssdlab_attach::image::Image;
use support::small_image;

const UNIT: u64 = 4096;

fn open(path: &std::path::Path) -> Engine {
    let image = Image::open(path).unwrap_or_else(|error| panic!("{error}"));
    let options = Options { time: Time::Fast, ..Options::default() };
    Engine::open(image, options).unwrap_or_else(|error| panic!("{error:?}")).0
}

/// The bytes that `length` bytes from `offset` hold, each once.
fn read_back(engine: &Engine, offset: u64, length: u64) -> Vec<u8> {
    let mut data = vec![0x55; length as usize];
    let _ = engine.read(Instant::now(), offset, &mut data).expect("a read");
    data.sort_unstable();
    data.dedup();
    data
}

fn trimmed(changes: &[(&str, &str)], expected: u8) {
    let directory = support::directory();
    let path = small_image(directory.path(), changes);
    let engine = open(&path);
    let _ = engine.write(Instant::now(), 0, &[0xab; 64 * UNIT as usize], false).expect("a write");
    let _ = engine.trim(Instant::now(), 8 * UNIT, 40 * UNIT, false).expect("a trim");
    assert_eq!(read_back(&engine, 0, 8 * UNIT), [0xab]);
    assert_eq!(read_back(&engine, 8 * UNIT, 40 * UNIT), [expected], "{changes:?}");
    let told = engine.extents(8 * UNIT, 40 * UNIT).expect("extents");
    let hole = Extent { length: 40 * UNIT, is_hole: true, is_zero: expected == 0 };
    assert_eq!(told, [hole], "{changes:?}");
    // A part of a unit is written; the rest of it is as it was.
    let _ = engine.write(Instant::now(), 9 * UNIT, &[0xcd; 512], false).expect("a write");
    assert_eq!(read_back(&engine, 9 * UNIT + 512, UNIT - 512), [expected]);
    // Zeros are zeros, whatever a trim leaves; also in parts of units.
    for (may_trim, offset) in [(true, 16 * UNIT + 512), (false, 24 * UNIT)] {
        let _ = engine.zero(Instant::now(), offset, 4 * UNIT, may_trim).expect("zeros");
        assert_eq!(read_back(&engine, offset, 4 * UNIT), [0], "{may_trim}");
    }
    let _ = engine.trim(Instant::now(), 32 * UNIT, 4 * UNIT, true).expect("an exact trim");
    assert_eq!(read_back(&engine, 32 * UNIT, 4 * UNIT), [0]);
    let _ = engine.flush(Instant::now()).expect("a flush");
    engine.close().expect("closed in order");
    drop(engine);
    let engine = open(&path);
    assert_eq!(read_back(&engine, 10 * UNIT, 6 * UNIT), [expected], "attached again");
}

#[test]
fn what_is_trimmed_reads_as_the_profile_says() {
    trimmed(&[], 0);
    trimmed(&[("trim.reads_after", "ones")], 0xff);
}

#[test]
fn a_table_of_extents_that_is_condensed_changes_nothing() {
    for (reads_after, expected) in [("zeros", 0), ("ones", 0xff)] {
        let extents = [
            ("trim.reads_after", reads_after),
            ("mapping.scheme", "extent"),
            ("mapping.table", "4K"),
            ("capacity.physical", "32M"),
        ];
        trimmed(&extents, expected);
        let directory = support::directory();
        let engine = open(&small_image(directory.path(), &extents));
        let mut generator = Pcg64Mcg::seed_from_u64(1);
        // Holes between what is written at random, until the table is full again and again.
        let units = engine.capacity() / UNIT;
        for _ in 0..4_000 {
            let unit = generator.random_range(0..units / 2) * 2;
            let _ = engine
                .write(Instant::now(), unit * UNIT, &[0xab; UNIT as usize], false)
                .expect("a write");
        }
        for unit in (1..units).step_by(2) {
            assert_eq!(read_back(&engine, unit * UNIT, UNIT), [expected], "unit {unit}");
        }
    }
}

/// A drive that gives back what was trimmed until it is idle, loses power or erases it.
fn undefined(settle: &str) -> (tempfile::TempDir, std::path::PathBuf) {
    let directory = support::directory();
    let changes = [("trim.reads_after", "undefined"), ("trim.settle", settle)];
    let path = small_image(directory.path(), &changes);
    (directory, path)
}

fn write(engine: &Engine, offset: u64, byte: u8, units: u64) {
    let data = vec![byte; (units * UNIT) as usize];
    let _ = engine.write(Instant::now(), offset, &data, false).expect("a write");
}

fn trim(engine: &Engine, offset: u64, units: u64) {
    let _ = engine.trim(Instant::now(), offset, units * UNIT, false).expect("a trim");
}

fn flush(engine: &Engine) {
    let _ = engine.flush(Instant::now()).expect("a flush");
}

#[test]
fn without_deterministic_reads_the_old_data_is_read_until_power_goes() {
    let (_directory, path) = undefined("0s");
    let engine = open(&path);
    write(&engine, 0, 0xab, 64);
    flush(&engine);
    trim(&engine, 8 * UNIT, 40);
    flush(&engine);
    assert_eq!(read_back(&engine, 8 * UNIT, 40 * UNIT), [0xab]);
    let told = engine.extents(8 * UNIT, 40 * UNIT).expect("extents");
    assert_eq!(told, [Extent { length: 40 * UNIT, is_hole: true, is_zero: false }]);
    // What is written anew is read, and trimmed again it is what comes back.
    write(&engine, 8 * UNIT, 0xcd, 4);
    flush(&engine);
    trim(&engine, 8 * UNIT, 4);
    flush(&engine);
    assert_eq!(read_back(&engine, 8 * UNIT, 4 * UNIT), [0xcd]);
    // The rest of a unit that is written in part is zeros.
    let _ = engine.write(Instant::now(), 20 * UNIT, &[0xef; 512], false).expect("a write");
    assert_eq!(read_back(&engine, 20 * UNIT + 512, UNIT - 512), [0]);
    let _ = engine.zero(Instant::now(), 24 * UNIT + 512, 4 * UNIT, true).expect("zeros");
    assert_eq!(read_back(&engine, 24 * UNIT + 512, 4 * UNIT), [0]);
    let _ = engine.trim(Instant::now(), 32 * UNIT, 4 * UNIT, true).expect("an exact trim");
    assert_eq!(read_back(&engine, 32 * UNIT, 4 * UNIT), [0]);
    assert_eq!(read_back(&engine, 36 * UNIT, 4 * UNIT), [0xab]);
    engine.close().expect("closed in order");
    drop(engine);
    let engine = open(&path);
    assert_eq!(read_back(&engine, 36 * UNIT, 4 * UNIT), [0], "attached again");
    assert_eq!(read_back(&engine, 48 * UNIT, 16 * UNIT), [0xab]);
}

#[test]
fn a_power_cut_undoes_a_trim_that_was_not_flushed_and_completes_one_that_was() {
    let (_directory, path) = undefined("0s");
    let engine = open(&path);
    write(&engine, 0, 0xab, 64);
    flush(&engine);
    trim(&engine, 0, 16);
    flush(&engine);
    trim(&engine, 32 * UNIT, 16);
    for offset in [0, 32 * UNIT] {
        assert_eq!(read_back(&engine, offset, 16 * UNIT), [0xab]);
    }
    engine.power_cut();
    drop(engine);
    let engine = open(&path);
    assert_eq!(read_back(&engine, 0, 16 * UNIT), [0]);
    assert_eq!(read_back(&engine, 16 * UNIT, 48 * UNIT), [0xab]);
}

#[test]
fn the_old_data_is_never_that_of_another_unit_whatever_is_collected() {
    let (_directory, path) = undefined("0s");
    let engine = open(&path);
    let units = engine.capacity() / UNIT;
    let mut generator = Pcg64Mcg::seed_from_u64(3);
    // What each unit held last, and whether it was trimmed since.
    let mut last: Vec<(u64, bool)> = vec![(0, true); units as usize];
    let (mut old, mut zeros) = (0, 0);
    for step in 1..20_000u64 {
        let unit = generator.random_range(0..units);
        let (number, trimmed) = &mut last[unit as usize];
        match generator.random_range(0..4) {
            0 => {
                trim(&engine, unit * UNIT, 1);
                *trimmed = true;
            }
            1 => {
                let mut data = vec![0; UNIT as usize];
                let _ = engine.read(Instant::now(), unit * UNIT, &mut data).expect("a read");
                let read = u64::from_le_bytes(data[..8].try_into().expect("eight bytes"));
                match (*trimmed, read) {
                    (true, 0) => zeros += 1,
                    (true, read) if read == *number => old += 1,
                    (false, read) if read == *number => {}
                    _ => panic!("unit {unit}: {read} instead of {number}, trimmed {trimmed}"),
                }
            }
            _ => {
                let data = [&step.to_le_bytes()[..], &[0x33; UNIT as usize - 8]].concat();
                let _ = engine.write(Instant::now(), unit * UNIT, &data, false).expect("a write");
                (*number, *trimmed) = (step, false);
            }
        }
    }
    assert!(old > 100 && zeros > 100, "{old} times the old data, {zeros} times zeros");
}
