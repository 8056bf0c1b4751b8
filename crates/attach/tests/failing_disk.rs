//! The host's disk fails to make the image durable, and says so once, as Linux does: whoever asks next is
//! told that all is well. Nothing may be believed from then on, whoever it was that was told.

mod support;

use std::fs::File;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use ssdlab_attach::engine::{Engine, Opened, Options, Time};
use ssdlab_attach::image::Image;
use ssdlab_attach::image::storage::Storage;
use support::small_image;

const UNIT: usize = 4096;

/// Units that are written: nearly all of the drive, so that it collects, erases and writes anew.
const UNITS: usize = 1800;

/// A disk that fails one of its syncs, and none before or after.
#[derive(Debug)]
struct FailingStorage {
    file: File,
    /// Syncs to come until that one.
    left: AtomicU64,
    has_failed: AtomicBool,
    punched_since: AtomicU64,
    synced_since: AtomicU64,
}

impl FailingStorage {
    fn new(path: &std::path::Path, failing: u64) -> FailingStorage {
        let file = File::options().read(true).write(true).open(path).expect("the image");
        FailingStorage {
            file,
            left: AtomicU64::new(failing),
            has_failed: AtomicBool::new(false),
            punched_since: AtomicU64::new(0),
            synced_since: AtomicU64::new(0),
        }
    }

    fn count_since(&self, counter: &AtomicU64) {
        let has_failed = self.has_failed.load(Ordering::SeqCst);
        counter.fetch_add(has_failed.into(), Ordering::SeqCst);
    }
}

impl Storage for FailingStorage {
    fn read(&self, data: &mut [u8], at: u64) -> io::Result<usize> {
        Storage::read(&self.file, data, at)
    }

    fn write(&self, data: &[u8], at: u64) -> io::Result<usize> {
        Storage::write(&self.file, data, at)
    }

    fn punch(&self, at: u64, length: u64) -> io::Result<()> {
        self.count_since(&self.punched_since);
        self.file.punch(at, length)
    }

    fn sync(&self) -> io::Result<()> {
        self.count_since(&self.synced_since);
        if self.left.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.has_failed.store(true, Ordering::SeqCst);
            return Err(rustix::io::Errno::IO.into());
        }
        Ok(())
    }

    fn length(&self) -> io::Result<u64> {
        Storage::length(&self.file)
    }

    fn next_data(&self, at: u64) -> io::Result<Option<Range<u64>>> {
        self.file.next_data(at)
    }
}

/// What happened in a life in which sync number `failing` failed.
struct SyncFailureOutcome {
    has_failed: bool,
    /// True if the first that was told of it was somebody who asked for durability.
    was_reported: bool,
}

fn run_with_failing_sync(
    changes: &[(&str, &str)],
    rarely: usize,
    failing: u64,
) -> SyncFailureOutcome {
    let directory = support::directory();
    let path = small_image(directory.path(), changes);
    let disk = Arc::new(FailingStorage::new(&path, failing));
    let image = Image::open_storage(disk.clone(), &path).expect("the image");
    let options = Options { time: Time::Fast, ..Options::default() };
    let Ok((engine, _)) = Engine::open(image, options) else {
        assert!(disk.has_failed.load(Ordering::SeqCst), "only a failure keeps it from opening");
        return SyncFailureOutcome { has_failed: true, was_reported: true };
    };
    let mut was_reported = false;
    for number in 0..6000_usize {
        // By turns one after the other and all over the place.
        let unit = if number < UNITS { number } else { number * 7919 % UNITS };
        let data = [number as u8; UNIT];
        let had_failed = disk.has_failed.load(Ordering::SeqCst);
        let written = engine.write(Instant::now(), (unit * UNIT) as u64, &data, false);
        assert!(!had_failed || written.is_err(), "write {number} after a failed sync, {failing}");
        if number % rarely == 0 {
            let had_failed = disk.has_failed.load(Ordering::SeqCst);
            let flushed = engine.flush(Instant::now());
            let has_failed = disk.has_failed.load(Ordering::SeqCst);
            assert!(!has_failed || flushed.is_err(), "a flush after a failed sync, {failing}");
            was_reported |= has_failed && !had_failed;
        }
    }
    let has_failed = disk.has_failed.load(Ordering::SeqCst);
    if has_failed {
        let mut data = [0; UNIT];
        let _ = engine.read(Instant::now(), 0, &mut data).expect("reads go on");
        assert!(engine.close().is_err(), "closed in order after a failed sync, {failing}");
        assert_eq!(disk.punched_since.load(Ordering::SeqCst), 0, "punched out, {failing}");
        assert_eq!(disk.synced_since.load(Ordering::SeqCst), 0, "believed, {failing}");
        drop(engine);
        let image = Image::open(&path).expect("the image");
        let (_, opened) = Engine::open(image, options).expect("a drive that recovers");
        assert!(matches!(opened, Opened::Recovered(_)), "{opened:?}, {failing}");
    }
    SyncFailureOutcome { has_failed, was_reported }
}

/// Has each sync of a life fail in turn; returns of how many nobody was told who had asked for one.
fn fail_each_sync(changes: &[(&str, &str)], rarely: usize) -> u32 {
    let mut unreported = 0;
    for failing in 1.. {
        let life = run_with_failing_sync(changes, rarely, failing);
        if !life.has_failed {
            assert!(failing > 10, "{failing} syncs are few");
            return unreported;
        }
        unreported += u32::from(!life.was_reported);
    }
    unreachable!("a life ends")
}

#[test]
fn after_a_failed_sync_nothing_is_believed_and_nothing_is_punched_out() {
    fail_each_sync(&[], 97);
}

#[test]
fn nor_is_it_where_nobody_was_told_that_it_failed() {
    // With capacitors the drive erases what the image must keep until the buffer is saved, durably:
    // writes and reads see to that, and none of them fails for it.
    let unreported = fail_each_sync(&[("controller.power_loss_protection", "on")], 1499);
    assert!(unreported > 3, "{unreported} failures that no flush was told of");
}
