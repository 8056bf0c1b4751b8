//! Requests that are sent before others are answered: at the drive's time, which passes as far as somebody waits.

mod support;

use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use ssdlab_attach::engine::{Engine, Options, Submitted, Time};
use ssdlab_attach::image::Image;

const UNIT: u64 = 4096;
const SECTOR: u64 = 512;

/// A drive whose clock is not this machine's, and the beginning of it.
fn open(path: &std::path::Path) -> (Engine, Instant) {
    let began = Instant::now() + Duration::from_secs(1 << 30);
    let options = Options { time: Time::Real, began: Some(began), ..Options::default() };
    (Engine::open(Image::open(path).expect("an image"), options).expect("a drive").0, began)
}

fn write(engine: &Engine, came: Instant, offset: u64, length: u64, byte: u8) -> Submitted {
    let data = vec![byte; length as usize].into();
    engine.submit_write(came, offset, data, false).expect("a write")
}

fn read(engine: &Engine, came: Instant, offset: u64, length: u64) -> Vec<u8> {
    let mut data = vec![0xee; length as usize];
    let _ = engine.read(came, offset, &mut data).expect("a read");
    data
}

#[test]
fn writes_of_parts_of_one_unit_that_are_under_way_at_once_are_all_in_it() {
    let directory = support::directory();
    let path = support::small_image(directory.path(), &[]);
    let (engine, came) = open(&path);
    let first = write(&engine, came, 0, 2 * UNIT, 1);
    let _ = engine.wait_for(first).expect("it is answered");
    let sent: Vec<_> = (0..8)
        .map(|sector| write(&engine, came, (sector * 2 + 1) * SECTOR, SECTOR, 10 + sector as u8))
        .collect();
    let across = write(&engine, came, UNIT - SECTOR / 2, SECTOR, 99);
    for submitted in sent {
        let _ = engine.wait_for(submitted).expect("it is answered");
    }
    let _ = engine.wait_for(across).expect("it is answered");
    let mut expected = vec![1; 2 * UNIT as usize];
    for sector in 0..8usize {
        let from = (sector * 2 + 1) * SECTOR as usize;
        expected[from..from + SECTOR as usize].fill(10 + sector as u8);
    }
    let from = (UNIT - SECTOR / 2) as usize;
    expected[from..from + SECTOR as usize].fill(99);
    assert!(read(&engine, came, 0, 2 * UNIT) == expected);
    let _ = engine.flush(came).expect("a flush");
    drop(engine);
    let (engine, came) = open(&path);
    assert!(read(&engine, came, 0, 2 * UNIT) == expected, "opened again");
}

#[test]
fn writes_are_in_the_order_in_which_they_were_sent_however_long_they_wait_for_room() {
    let directory = support::directory();
    let path = support::small_image(directory.path(), &[]);
    let (engine, came) = open(&path);
    let sent: Vec<_> = (1..=20)
        .map(|byte| write(&engine, came, u64::from(byte) * UNIT, 400 * UNIT, byte))
        .collect();
    for submitted in sent {
        let _ = engine.wait_for(submitted).expect("it is answered");
    }
    let data = read(&engine, came, 0, 421 * UNIT);
    for (unit, data) in data.chunks(UNIT as usize).enumerate() {
        let expected = if unit <= 20 {
            unit
        } else if unit < 420 {
            20
        } else {
            0
        };
        assert!(data.iter().all(|&byte| usize::from(byte) == expected), "unit {unit}");
    }
}

#[test]
fn a_read_gets_what_was_answered_before_it_was_sent() {
    let directory = support::directory();
    let path = support::small_image(directory.path(), &[]);
    let (engine, came) = open(&path);
    for byte in 1..200 {
        let offset = u64::from(byte % 7) * 8 * UNIT;
        let submitted = write(&engine, came, offset, 8 * UNIT, byte);
        let _ = engine.wait_for(submitted).expect("it is answered");
        let later = write(&engine, came, offset + UNIT, UNIT, 255);
        let data = read(&engine, came, offset, 8 * UNIT);
        for (unit, data) in data.chunks(UNIT as usize).enumerate() {
            let is = |expected| data.iter().all(|it| *it == expected);
            assert!(is(byte) || unit == 1 && is(255), "unit {unit} after write {byte}");
        }
        let _ = engine.wait_for(later).expect("it is answered");
        assert_eq!(read(&engine, came, offset + UNIT, 1), [255]);
    }
}

#[test]
fn who_is_to_be_told_is_told_when_it_is_answered_and_of_a_power_cut() {
    let directory = support::directory();
    let path = support::small_image(directory.path(), &[]);
    let (engine, came) = open(&path);
    let (sender, told) = channel();
    for unit in 0..3 {
        let sender = sender.clone();
        let submitted = write(&engine, came, unit * UNIT, UNIT, 1);
        let tell = move |outcome: Result<Instant, _>| {
            sender.send((unit, outcome.is_ok())).expect("somebody listens");
        };
        engine.when_answered(submitted, Box::new(tell));
    }
    assert!(told.try_recv().is_err(), "no time has passed");
    let _ = engine.write(came, 8 * UNIT, &[1], false).expect("a write");
    assert_eq!(told.try_iter().collect::<Vec<_>>(), [(0, true), (1, true), (2, true)]);
    let submitted = write(&engine, came, 0, UNIT, 2);
    let tell = move |outcome: Result<Instant, _>| {
        sender.send((9, outcome.is_ok())).expect("somebody listens");
    };
    engine.when_answered(submitted, Box::new(tell));
    engine.power_cut();
    assert_eq!(told.try_iter().collect::<Vec<_>>(), [(9, false)]);
}

#[test]
fn a_drive_that_is_closed_answers_what_it_has() {
    let directory = support::directory();
    let path = support::small_image(directory.path(), &[]);
    let (engine, came) = open(&path);
    let sent: Vec<_> =
        (0..30).map(|unit| write(&engine, came, unit * 50 * UNIT, 40 * UNIT, 5)).collect();
    engine.close().expect("room");
    for submitted in sent {
        let _ = engine.wait_for(submitted).expect("it was answered");
    }
    drop(engine);
    let (engine, came) = open(&path);
    assert!(read(&engine, came, 29 * 50 * UNIT, 40 * UNIT).iter().all(|&byte| byte == 5));
}
