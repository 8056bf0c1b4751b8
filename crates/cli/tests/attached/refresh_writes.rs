//! Refreshes while others write: through the page cache, past it, and through a memory map. No write is
//! lost.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use rustix::fs::OFlags;
use serde_json::Value;

use crate::refresh::{Aligned, BLOCK, MIB};
use crate::refresh_case::{Case, forget_memory};
use crate::support::count;

/// Returns what a writer of a block has written last.
fn block_of(index: usize, number: u64) -> Vec<u8> {
    let piece = [(index as u64).to_le_bytes(), number.to_le_bytes()].concat();
    piece.repeat(BLOCK / piece.len())
}

/// How a writer writes: a third of the blocks each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Writer {
    Buffered,
    Direct,
    Mapped,
}

/// A file in memory, to be stored to.
struct Map {
    start: *mut u8,
    length: usize,
}

impl Map {
    fn of(file: &File, length: usize) -> Map {
        use rustix::mm::{MapFlags, ProtFlags, mmap};
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new map of a file that keeps its length; it goes with this value.
        let start =
            unsafe { mmap(std::ptr::null_mut(), length, access, MapFlags::SHARED, file, 0) };
        Map { start: start.unwrap().cast(), length }
    }

    /// Stores a block. No two threads may store to the same one.
    fn store(&self, index: usize, block: &Aligned) {
        assert!((index + 1) * BLOCK <= self.length);
        // SAFETY: within the map.
        unsafe {
            let to = self.start.add(index * BLOCK);
            std::ptr::copy_nonoverlapping(block.0.as_ptr(), to, BLOCK);
        }
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: the map from above, which nothing uses any more.
        unsafe { rustix::mm::munmap(self.start.cast(), self.length).unwrap() };
    }
}

/// Stretches of the file that a writer writes to in turn, and how often each: some 200 ms. A busy machine, on which an
/// exchange takes longer, slows the writers, too.
const STRETCHES: usize = 6;
const WRITES_OF_STRETCH: u64 = 120;

/// Writes blocks at random until it is told to end; returns the last number of each block.
fn write_until(
    path: &Path,
    writer: Writer,
    blocks: usize,
    seed: u64,
    end: &AtomicBool,
) -> Vec<(usize, u64)> {
    let flags = if matches!(writer, Writer::Direct) { OFlags::DIRECT.bits() as i32 } else { 0 };
    let file = OpenOptions::new().read(true).write(true).custom_flags(flags).open(path).unwrap();
    let mut generator = Pcg64Mcg::seed_from_u64(seed);
    let mut last = vec![0_u64; blocks];
    let mut number = seed << 32;
    let map = (writer == Writer::Mapped).then(|| Map::of(&file, blocks * BLOCK));
    let mut aligned = Box::new(Aligned([0; BLOCK]));
    while !end.load(Ordering::Relaxed) {
        // In one stretch of the file at a time, each writer in another: what is rewritten elsewhere meanwhile is left
        // alone for long enough even on a busy machine, and what is rewritten there meets writes.
        let stretch = (number / WRITES_OF_STRETCH) as usize + writer as usize;
        let within = generator.random_range(0..blocks / 3 / STRETCHES);
        let index = (stretch % STRETCHES * (blocks / 3 / STRETCHES) + within) * 3 + writer as usize;
        number += 1;
        aligned.0.copy_from_slice(&block_of(index, number));
        match writer {
            Writer::Buffered | Writer::Direct => {
                file.write_all_at(&aligned.0, (index * BLOCK) as u64).unwrap();
            }
            Writer::Mapped => map.as_ref().expect("it is mapped").store(index, &aligned),
        }
        last[index] = number;
        std::thread::sleep(Duration::from_micros(generator.random_range(0..3_000)));
    }
    last.into_iter().enumerate().filter(|it| it.1 > 0).collect()
}

const ALL: [Writer; 3] = [Writer::Buffered, Writer::Direct, Writer::Mapped];

/// How a refresh ends that would take too long beside others.
const OVERRUN: &str = "other load slows the rewrite";

/// Part of the reason where some program has a file of an overlay mapped: that may be any file, and tests of overlays may
/// run beside this one.
const OVERLAY: &str = "a file of an overlay";

/// Refreshes while these write; nothing that they wrote is lost.
fn loses_no_write(case: Case, writers: &[Writer], rounds: u32) {
    let place = case.place();
    let mut scene = case.scene(&place);
    let mut arguments = case.arguments(&scene);
    arguments.push("--json".to_owned());
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let blocks = (12 * MIB as usize / BLOCK) / 3 * 3;
    let (mut written, mut planned) = (0, 0);
    for round in 0..rounds {
        let end = AtomicBool::new(false);
        let path = scene.file.clone();
        let last: Vec<(usize, u64)> = std::thread::scope(|scope| {
            let threads: Vec<_> = writers
                .iter()
                .map(|&writer| {
                    let (path, end) = (&path, &end);
                    let seed = u64::from(round) * 3 + writer as u64 + 1;
                    scope.spawn(move || write_until(path, writer, blocks, seed, end))
                })
                .collect();
            let output = place.run(&arguments);
            end.store(true, Ordering::Relaxed);
            let last = threads.into_iter().map(|it| it.join().expect("the writer writes"));
            let last = last.collect::<Vec<_>>().concat();
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            let summary: Value = serde_json::from_slice(&output.stdout)
                .unwrap_or_else(|error| panic!("round {round}: {error}: {said}"));
            // On a machine that is busy it may end early beside so many writers, and says so.
            let may_end = |reason: &str| reason.starts_with(OVERRUN) || reason.contains(OVERLAY);
            let has_ended = summary["stopped"].as_str().is_some_and(may_end);
            assert!(output.status.success() || has_ended, "round {round}: {summary}{said}");
            written += summary["bytes_written"].as_u64().unwrap();
            planned += summary["plan"]["bytes_to_write"].as_u64().unwrap();
            last
        });
        assert!(last.len() > 10, "they wrote");
        // Once from memory, once from the drive.
        for is_direct in [false, true] {
            if is_direct {
                forget_memory(&scene);
            }
            let content = scene.content();
            for (index, number) in &last {
                let found = &content[index * BLOCK..(index + 1) * BLOCK];
                assert!(
                    found == block_of(*index, *number),
                    "{case:?}: round {round}, block {index}: not write {number} but {:?}",
                    &found[..16]
                );
            }
        }
    }
    assert!(written > 0, "something was rewritten meanwhile");
    eprintln!("{case:?}: {rounds} rounds, {} of {} MiB rewritten", written / MIB, planned / MIB);
    scene.detach();
}

/// How often, where it is not said.
const FEW: u32 = 2;

fn no_write_is_lost(case: Case, writers: &[Writer]) {
    if case.is_possible("refresh under writes") {
        loses_no_write(case, writers, count("SSDLAB_REFRESH_ROUNDS", FEW));
    }
}

#[test]
fn no_write_is_lost_while_ext4_moves_the_file() {
    no_write_is_lost(Case::EXT4, &ALL);
}

#[test]
fn no_write_is_lost_while_btrfs_moves_the_file() {
    no_write_is_lost(Case::BTRFS, &ALL);
}

#[test]
fn no_write_is_lost_while_xfs_exchanges_the_file() {
    no_write_is_lost(Case::XFS_EXCHANGED, &[Writer::Buffered, Writer::Direct]);
}

#[test]
fn no_write_is_lost_where_xfs_could_exchange_a_file_that_is_mapped() {
    no_write_is_lost(Case::XFS_EXCHANGED, &ALL);
}

#[test]
fn no_write_is_lost_while_a_file_is_rewritten_in_place() {
    no_write_is_lost(Case::XFS_FROZEN, &ALL);
    no_write_is_lost(Case::EXT4_FROZEN, &ALL);
}

#[test]
fn no_write_is_lost_while_a_mounted_device_is_rewritten() {
    no_write_is_lost(Case::DEVICE, &ALL);
}
