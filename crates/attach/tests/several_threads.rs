//! Requests of several threads at a time: what one writes straight to the image, others read, collection
//! copies, flushes make durable and trims forget, while yet others write.

mod support;

use std::io::IoSlice;
use std::sync::RwLock;
use std::time::{Duration, Instant};

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use ssdlab_attach::engine::{Engine, Options, Time};
use ssdlab_attach::image::Image;
use ssdlab_attach::pipe::Pipe;

const UNIT: usize = 4096;

/// Units that each thread has for itself: all of them nearly fill the drive.
const UNITS: usize = 480;

const THREADS: usize = 4;

fn open(path: &std::path::Path, time: Time) -> Engine {
    let options = Options { time, ..Options::default() };
    Engine::open(Image::open(path).expect("an image"), options).expect("a drive").0
}

/// What one thread works on.
struct ThreadUnits<'a> {
    engine: &'a Engine,
    first: usize,
    /// The number of the latest write to each unit; 0 for zeros.
    written: Vec<u64>,
    writes: u64,
}

fn content(unit: usize, write: u64) -> Vec<u8> {
    let piece = if write == 0 {
        [0; 16]
    } else {
        (write << 32 | unit as u64).to_le_bytes().repeat(2).try_into().expect("16 bytes")
    };
    piece.repeat(UNIT / 16)
}

impl ThreadUnits<'_> {
    fn offset(&self, unit: usize) -> u64 {
        ((self.first + unit) * UNIT) as u64
    }

    fn write(&mut self, from: usize, count: usize, fua: bool) {
        self.writes += 1;
        let units = from..from + count;
        let data: Vec<u8> =
            units.clone().flat_map(|unit| content(self.first + unit, self.writes)).collect();
        let _ = self.engine.write(Instant::now(), self.offset(from), &data, fua).expect("a write");
        self.written[units].fill(self.writes);
    }

    fn trim(&mut self, from: usize, count: usize) {
        let _ = self
            .engine
            .trim(Instant::now(), self.offset(from), (count * UNIT) as u64, true)
            .expect("a trim");
        self.written[from..from + count].fill(0);
    }

    fn check(&self, from: usize, count: usize, pipe: &mut Pipe) {
        let mut data = vec![0; count * UNIT];
        if self.writes.is_multiple_of(2) {
            let mut sent = None;
            let mut send = |pieces: &[IoSlice<'_>]| {
                sent = Some(pieces.iter().flat_map(|it| it.to_vec()).collect())
            };
            let offset = self.offset(from);
            let _ = self
                .engine
                .read_or_send(Instant::now(), offset, &mut data, &mut send)
                .expect("a read");
            data = sent.unwrap_or(data);
        } else {
            let _ = self
                .engine
                .read_into_pipe(Instant::now(), self.offset(from), &mut data, pipe)
                .expect("a read");
        }
        if pipe.filled() > 0 {
            assert_eq!(pipe.filled(), data.len());
            let (mut from, to) = std::os::unix::net::UnixStream::pair().expect("a pair");
            std::thread::scope(|scope| {
                scope.spawn(|| pipe.send(std::os::fd::AsFd::as_fd(&to)).expect("it is sent"));
                std::io::Read::read_exact(&mut from, &mut data).expect("all of it");
            });
        }
        for (unit, data) in (from..).zip(data.chunks(UNIT)) {
            let expected = content(self.first + unit, self.written[unit]);
            let found = u64::from_le_bytes(data[..8].try_into().expect("8 bytes"));
            let (write, of) = (found >> 32, found & 0xffff_ffff);
            assert!(
                data == expected,
                "unit {} holds write {write} of unit {of}, not write {}",
                self.first + unit,
                self.written[unit]
            );
        }
    }

    /// Reads what others may be writing now: each unit is as it was or as it will be, never an error.
    fn peek(&self, from: usize, count: usize) {
        let mut data = vec![0; count * UNIT];
        let _ = self
            .engine
            .read(Instant::now(), (from * UNIT) as u64, &mut data)
            .expect("what is being written");
        for (unit, data) in (from..).zip(data.chunks(UNIT)) {
            let found = u64::from_le_bytes(data[..8].try_into().expect("8 bytes"));
            assert!(data == content(unit, found >> 32), "unit {unit} is torn");
        }
    }

    fn step(&mut self, generator: &mut Pcg64Mcg, pipe: &mut Pipe) {
        let count = [1, 3, 24, 100][generator.random_range(0..4)];
        let from = generator.random_range(0..=UNITS - count);
        match generator.random_range(0..16) {
            0..8 => self.write(from, count, generator.random_range(0..16) == 0),
            8..11 => self.check(from, count, pipe),
            11..13 => self.peek(generator.random_range(0..THREADS * UNITS - count), count),
            13..15 => self.trim(from, count),
            _ => drop(self.engine.flush(Instant::now()).expect("a flush")),
        }
    }
}

/// At the drive's time a helper does to the image what the drive does, and now and then nobody asks for
/// anything, so that it finds time to punch out what is erased.
fn run_threads(time: Time, changes: &[(&str, &str)], steps: u32, seed: u64) {
    let directory = support::directory();
    let path = support::small_image(directory.path(), changes);
    let mut all = vec![vec![0; UNITS]; THREADS];
    for life in 0..4 {
        let engine = open(&path, time);
        let rest = RwLock::new(());
        std::thread::scope(|scope| {
            scope.spawn(|| engine.run_helper());
            let mut workers = Vec::new();
            for (thread, written) in all.iter_mut().enumerate() {
                let (engine, rest) = (&engine, &rest);
                workers.push(scope.spawn(move || {
                    let mut generator = Pcg64Mcg::seed_from_u64(seed + life * 10 + thread as u64);
                    let first = thread * UNITS;
                    let mut own =
                        ThreadUnits { engine, first, written: written.clone(), writes: life << 20 };
                    let mut pipe = Pipe::new().expect("a pipe");
                    own.check(0, UNITS, &mut pipe);
                    for _ in 0..steps {
                        let _at_work = rest.read().expect("nobody panics who makes others rest");
                        own.step(&mut generator, &mut pipe);
                    }
                    own.check(0, UNITS, &mut pipe);
                    *written = own.written;
                }));
            }
            while time == Time::Real && !workers.iter().all(|it| it.is_finished()) {
                std::thread::sleep(Duration::from_millis(20));
                let _nobody_works = rest.write().expect("nobody panics who makes others rest");
                std::thread::sleep(Duration::from_millis(40));
            }
            let ends: Vec<_> = workers.into_iter().map(|worker| worker.join()).collect();
            let flushed = engine.flush(Instant::now());
            // In fast time it is not closed, and the next one recovers.
            if time == Time::Real && life % 2 == 0 {
                engine.power_cut();
            } else if time == Time::Real {
                engine.close().expect("it is closed");
            }
            ends.into_iter().for_each(|end| end.expect("a worker"));
            let _ = flushed.expect("a flush");
        });
    }
}

#[test]
fn each_thread_reads_what_it_wrote_and_so_does_the_next_life() {
    run_threads(Time::Fast, &[], 250, 1);
}

#[test]
fn so_it_is_at_the_drives_time_with_a_helper() {
    run_threads(Time::Real, &[], 400, 1);
    run_threads(Time::Real, &[("collection.unit", "block")], 100, 100);
}

#[test]
fn so_it_is_with_single_blocks_and_with_capacitors() {
    run_threads(Time::Fast, &[("collection.unit", "block")], 100, 100);
    run_threads(Time::Fast, &[("controller.power_loss_protection", "on")], 40, 200);
    run_threads(Time::Real, &[("controller.power_loss_protection", "on")], 100, 300);
}

/// A sector of 512 bytes that write number `write` wrote.
fn sector(write: u8) -> [u8; 512] {
    [write; 512]
}

#[test]
fn parts_of_units_are_written_behind_large_writes_while_others_read() {
    // A program unit, and so much of the next that it is written straight to its place, too.
    const RUN: usize = 6 + 4;
    let directory = support::directory();
    let engine = open(&support::small_image(directory.path(), &[]), Time::Fast);
    let is_over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut data = vec![0; RUN * UNIT];
                while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                    let _ = engine
                        .read(Instant::now(), 0, &mut data)
                        .expect("what is there before or after");
                    for found in data.chunks(512) {
                        assert_eq!(found, sector(found[0]), "a sector is torn");
                    }
                }
            });
        }
        for write in 0..3000u32 {
            let write = (write % 255) as u8;
            // It goes to its place at once; what is left of its program unit stays open.
            let _ = engine
                .write(Instant::now(), 0, &sector(write).repeat(RUN * 8), false)
                .expect("a write");
            let last = (RUN - 1) * UNIT;
            let _ = engine
                .write(Instant::now(), last as u64, &sector(write + 1), false)
                .expect("a part of it");
            let _ = engine.flush(Instant::now()).expect("a flush");
            let mut data = vec![0; UNIT];
            let _ = engine.read(Instant::now(), last as u64, &mut data).expect("what was written");
            assert_eq!(data[..512], sector(write + 1));
            assert_eq!(data[512..], sector(write).repeat(7));
        }
        is_over.store(true, std::sync::atomic::Ordering::Relaxed);
    });
}
