//! Refreshing files and devices on an attached drive. What is asserted are the drive's counters and
//! the content, never a speed.
//!
//! `SSDLAB_REFRESH_ROUNDS`, `SSDLAB_REFRESH_KILLS` and `SSDLAB_REFRESH_CUTS` ask for more.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rand::seq::SliceRandom;
use rand::{Rng, RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use rustix::fs::OFlags;
use serde_json::Value;

use crate::support::{Attached, Place, count, has_devices, has_tools, tool};

const XG5: &str = "sim:toshiba-xg5,scale=1/64";
const BLOCK: usize = 4096;
const MIB: u64 = 1 << 20;

/// A file on a drive that is attached and mounted.
pub(crate) struct Scene<'a> {
    place: &'a Place,
    attached: Option<Attached<'a>>,
    file_system: &'a str,
    point: PathBuf,
    file: PathBuf,
    length: u64,
    /// How long requests take: `fast` or `real`.
    time: &'a str,
    generator: Pcg64Mcg,
}

/// Bytes that direct I/O accepts.
#[repr(C, align(4096))]
struct Aligned([u8; BLOCK]);

/// As many as a request of a reader takes.
#[repr(C, align(4096))]
struct AlignedRequest([u8; MIB as usize]);

impl<'a> Scene<'a> {
    fn new(place: &'a Place, file_system: &'a str, length: u64) -> Scene<'a> {
        Scene::timed(place, file_system, length, "fast")
    }

    pub(crate) fn timed(
        place: &'a Place,
        file_system: &'a str,
        length: u64,
        time: &'a str,
    ) -> Scene<'a> {
        let point = place.path("mounted");
        std::fs::create_dir(&point).unwrap();
        let file = point.join("table");
        let generator = Pcg64Mcg::seed_from_u64(7);
        let mut scene =
            Scene { place, attached: None, file_system, point, file, length, time, generator };
        scene.attach();
        scene
    }

    fn attach(&mut self) {
        let point = self.point.to_str().unwrap();
        let options = ["--time", self.time, "--mount", point, "--fs", self.file_system];
        self.attached = Some(self.place.attach(&options));
    }

    fn direct(&self) -> File {
        OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .custom_flags(OFlags::DIRECT.bits() as i32)
            .open(&self.file)
            .unwrap()
    }

    /// Writes the file from its beginning to its end, with data that no drive can make smaller.
    pub(crate) fn fill(&mut self) {
        let file = File::create(&self.file).unwrap();
        rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, self.length).unwrap();
        let mut data = vec![0; MIB as usize];
        for at in (0..self.length).step_by(MIB as usize) {
            self.generator.fill_bytes(&mut data);
            file.write_all_at(&data, at).unwrap();
        }
        file.sync_all().unwrap();
        tool("sync", &["-f", self.point.to_str().unwrap()]);
    }

    /// The same past the page cache, which hands data on in an order of its own: some of it then lies
    /// less well in the flash.
    pub(crate) fn fill_in_order(&mut self) {
        let file = self.direct();
        rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, self.length).unwrap();
        let mut data = Box::new(AlignedRequest([0; MIB as usize]));
        for at in (0..self.length).step_by(MIB as usize) {
            self.generator.fill_bytes(&mut data.0);
            file.write_all_at(&data.0, at).unwrap();
        }
        file.sync_all().unwrap();
        tool("sync", &["-f", self.point.to_str().unwrap()]);
    }

    /// Writes all its blocks again, at random.
    fn scatter(&mut self) {
        self.scatter_from(0);
    }

    /// Writes all its blocks from this byte on again, at random.
    pub(crate) fn scatter_from(&mut self, offset: u64) {
        let file = self.direct();
        let mut blocks: Vec<u64> = (offset / BLOCK as u64..self.length / BLOCK as u64).collect();
        blocks.shuffle(&mut self.generator);
        let mut data = Box::new(Aligned([0; BLOCK]));
        for block in blocks {
            self.generator.fill_bytes(&mut data.0);
            file.write_all_at(&data.0, block * BLOCK as u64).unwrap();
        }
        file.sync_all().unwrap();
    }

    /// Pages that the flash reads when the file is read from its beginning to its end.
    pub(crate) fn pages_read(&self) -> u64 {
        let pages = || {
            let status = self.place.status();
            status["counters"]["flash_page_reads_host"].as_u64().unwrap()
        };
        let before = pages();
        let input = format!("if={}", self.file.display());
        tool("dd", &[&input, "of=/dev/null", "bs=1M", "iflag=direct", "status=none"]);
        pages() - before
    }

    pub(crate) fn written(&self) -> u64 {
        let status = self.place.status();
        let units = status["counters"]["host_write_units"].as_u64().unwrap();
        units * status["unit_bytes"].as_u64().unwrap()
    }

    pub(crate) fn content(&self) -> Vec<u8> {
        std::fs::read(&self.file).unwrap()
    }

    pub(crate) fn refresh(&self, options: &[&str]) -> Value {
        refresh(self.place, &self.file, options)
    }

    pub(crate) fn detach(&mut self) {
        self.attached.take().expect("it is attached").detach();
    }
}

#[track_caller]
fn refresh(place: &Place, what: &Path, options: &[&str]) -> Value {
    let first = ["refresh", what.to_str().unwrap(), "--journal", "journal", "--json"];
    serde_json::from_str(&place.done(&[&first, options].concat())).unwrap()
}

/// What in place may cost more on a busy machine, in percent; on an idle one it was 7.
const IN_PLACE: u64 = 50;

/// A file is filled, scattered and refreshed; returns what the refresh says.
///
/// In place, what the file system writes when it is frozen comes in between, and the more often the
/// busier the machine is; `tolerance` is how many pages more than for fresh data that may cost, in
/// percent. Scattered they are four times as many.
fn brings_it_back(scene: &mut Scene<'_>, options: &[&str], tolerance: u64) -> Value {
    scene.fill();
    let fresh = scene.pages_read();
    scene.scatter();
    let scattered = scene.pages_read();
    assert!(scattered > fresh * 3, "{fresh} pages, {scattered} when scattered");
    let content = scene.content();
    let before = scene.written();
    let summary = scene.refresh(&[&["--all", "--yes"], options].concat());
    let written = scene.written() - before;
    assert_eq!(summary["plan"]["bytes_to_write"], scene.length, "{summary}");
    assert_eq!(summary["bytes_written"], scene.length, "{summary}");
    assert!(
        written >= scene.length && written <= scene.length * 105 / 100,
        "{written} bytes for {}: {summary}",
        scene.length
    );
    let refreshed = scene.pages_read();
    assert!(
        refreshed * 100 <= fresh * (100 + tolerance),
        "{fresh} pages, {scattered}, {refreshed} at last"
    );
    assert!(scene.content() == content, "the content is the same");
    eprintln!("flash page reads: {fresh} fresh, {scattered} scattered, {refreshed} refreshed");
    eprintln!("{} bytes planned, {written} arrived at the drive", scene.length);
    summary
}

#[test]
fn a_scattered_file_on_ext4_is_in_order_again_and_not_rewritten_twice() {
    if !has_devices("refresh on ext4") {
        return;
    }
    let place = Place::new(XG5);
    let mut scene = Scene::new(&place, "ext4", 32 * MIB);
    brings_it_back(&mut scene, &[], 5);
    let before = scene.written();
    let again = scene.refresh(&["--yes"]);
    assert_eq!(again["rewrite"], serde_json::json!([]), "{again}");
    let yardstick = again["yardstick_bytes"].as_u64().unwrap();
    let written = scene.written() - before;
    assert!(written <= yardstick + MIB, "{written} bytes, {yardstick} of them the yardstick");
    scene.detach();
}

#[test]
fn a_scattered_file_on_btrfs_is_in_order_again() {
    if !has_devices("refresh on btrfs") || !has_tools("refresh on btrfs", &["mkfs.btrfs"]) {
        return;
    }
    let place = Place::new(XG5);
    let mut scene = Scene::new(&place, "btrfs", 32 * MIB);
    brings_it_back(&mut scene, &[], 5);
    scene.detach();
}

#[test]
fn what_is_frozen_is_in_order_again_where_it_lies() {
    if !has_devices("refresh in place") || !has_tools("refresh in place", &["mkfs.xfs"]) {
        return;
    }
    let place = Place::new(XG5);
    let mut scene = Scene::new(&place, "xfs", 32 * MIB);
    let summary = brings_it_back(&mut scene, &["--max-freeze", "2s"], IN_PLACE);
    assert_eq!(summary["plan"]["way"], "frozen");
    assert!(summary["freezes"].as_u64().unwrap() > 0, "{summary}");
    scene.detach();
}

/// Whether xfs exchanges ranges here, on a file system that was told so; says why not otherwise.
fn has_exchange(test: &str) -> bool {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let mut numbers = release.split(['.', '-']).map(|it| it.parse::<u32>().unwrap_or(0));
    let kernel = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    if kernel < (6, 13) {
        crate::support::skipped(test, "this kernel cannot exchange ranges safely");
    }
    kernel >= (6, 13) && has_devices(test) && has_tools(test, &["mkfs.xfs", "xfs_repair"])
}

/// CRC-32C (Castagnoli), bit by bit.
fn crc32c(data: &[u8]) -> u32 {
    !data.iter().fold(!0_u32, |crc, &byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| {
            (crc >> 1) ^ (0x82F6_3B78 & 0_u32.wrapping_sub(crc & 1))
        })
    })
}

/// Has xfs exchange ranges from the next mount on, or not any more, as `mkfs.xfs -i exchange=1` of later versions
/// does: the bit of `sb_features_incompat` in each superblock, and its checksum (fs/xfs/libxfs/
/// xfs_format.h).
fn set_exchange(device: &Path, is_allowed: bool) {
    const AT_FEATURES: usize = 216;
    const AT_CHECKSUM: usize = 224;
    let device = OpenOptions::new().read(true).write(true).open(device).unwrap();
    let read = |at: u64| {
        let mut sector = vec![0; 512];
        device.read_exact_at(&mut sector, at).unwrap();
        sector
    };
    let first = read(0);
    let number = |at: usize| u32::from_be_bytes(first[at..at + 4].try_into().unwrap());
    assert_eq!(&first[..4], b"XFSB");
    let (block, group, groups) = (number(4), number(84), number(88));
    for at in (0..u64::from(groups)).map(|it| it * u64::from(group) * u64::from(block)) {
        let mut sector = read(at);
        let feature = &mut sector[AT_FEATURES + 3];
        *feature = if is_allowed { *feature | 0x40 } else { *feature & !0x40 };
        sector[AT_CHECKSUM..AT_CHECKSUM + 4].fill(0);
        let sum = crc32c(&sector).to_le_bytes();
        sector[AT_CHECKSUM..AT_CHECKSUM + 4].copy_from_slice(&sum);
        device.write_all_at(&sector, at).unwrap();
    }
    device.sync_all().unwrap();
}

#[test]
fn checksums_are_those_of_castagnoli() {
    // RFC 3720, B.4: 32 bytes of zeros, and of ones.
    assert_eq!(crc32c(&[0; 32]), 0x8A91_36AA);
    assert_eq!(crc32c(&[0xFF; 32]), 0x62A8_AB43);
}

/// An xfs that exchanges ranges.
const EXCHANGING: &str = "xfs, exchanging";

impl<'a> Scene<'a> {
    /// With a file system, or with [`EXCHANGING`].
    fn of_kind(place: &'a Place, file_system: &'a str, length: u64) -> Scene<'a> {
        if file_system == EXCHANGING {
            Scene::exchanging(place, length)
        } else {
            Scene::new(place, file_system, length)
        }
    }

    /// With an xfs that exchanges ranges.
    fn exchanging(place: &'a Place, length: u64) -> Scene<'a> {
        let scene = Scene::new(place, "xfs", length);
        let device = scene.attached.as_ref().unwrap().at.clone();
        let point = scene.point.to_str().unwrap();
        tool("umount", &[point]);
        set_exchange(Path::new(&device), true);
        tool("mount", &[&device, point]);
        scene
    }
}

#[test]
fn a_scattered_file_on_xfs_is_in_order_again_and_not_rewritten_twice() {
    if !has_exchange("refresh on xfs") {
        return;
    }
    let place = Place::new(XG5);
    let mut scene = Scene::exchanging(&place, 32 * MIB);
    let summary = brings_it_back(&mut scene, &[], 5);
    assert_eq!(summary["plan"]["way"], "commit-range");
    assert_eq!(summary["freezes"], Value::Null);
    let before = scene.written();
    let again = scene.refresh(&["--yes"]);
    assert_eq!(again["rewrite"], serde_json::json!([]), "{again}");
    let yardstick = again["yardstick_bytes"].as_u64().unwrap();
    let written = scene.written() - before;
    assert!(written <= yardstick + MIB, "{written} bytes, {yardstick} of them the yardstick");
    is_sound_xfs(&mut scene);
}

/// Ends a scene, and has the file system checked. Tools that are older than the feature look at
/// nothing that has it; so it is taken away again, which changes nothing else.
fn is_sound_xfs(scene: &mut Scene<'_>) {
    let device = scene.attached.as_ref().unwrap().at.clone();
    tool("umount", &[scene.point.to_str().unwrap()]);
    set_exchange(Path::new(&device), false);
    tool("xfs_repair", &["-n", &device]);
    scene.detach();
}

/// What a writer of a block has written last.
fn block_of(index: usize, number: u64) -> Vec<u8> {
    let piece = [(index as u64).to_le_bytes(), number.to_le_bytes()].concat();
    piece.repeat(BLOCK / piece.len())
}

/// How a writer writes: a third of the blocks each.
#[derive(Clone, Copy)]
enum Writer {
    Buffered,
    Direct,
    Mapped,
}

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
    let length = blocks * BLOCK;
    // SAFETY: a shared map of a file that keeps its length; taken away below.
    let map = unsafe {
        rustix::mm::mmap(
            std::ptr::null_mut(),
            length,
            rustix::mm::ProtFlags::READ | rustix::mm::ProtFlags::WRITE,
            rustix::mm::MapFlags::SHARED,
            &file,
            0,
        )
        .unwrap()
    };
    let mut aligned = Box::new(Aligned([0; BLOCK]));
    while !end.load(Ordering::Relaxed) {
        let index = generator.random_range(0..blocks / 3) * 3 + writer as usize;
        number += 1;
        aligned.0.copy_from_slice(&block_of(index, number));
        match writer {
            Writer::Buffered | Writer::Direct => {
                file.write_all_at(&aligned.0, (index * BLOCK) as u64).unwrap();
            }
            // SAFETY: within the map, and no other thread writes to this block.
            Writer::Mapped => unsafe {
                let to = map.cast::<u8>().add(index * BLOCK);
                std::ptr::copy_nonoverlapping(aligned.0.as_ptr(), to, BLOCK);
            },
        }
        last[index] = number;
        std::thread::sleep(Duration::from_micros(generator.random_range(0..3_000)));
    }
    // SAFETY: the map from above, which nothing uses any more.
    unsafe { rustix::mm::munmap(map, length).unwrap() };
    last.into_iter().enumerate().filter(|it| it.1 > 0).collect()
}

/// Refreshes while three writers write; nothing that they wrote is lost.
fn loses_no_write(file_system: &str, options: &[&str], rounds: u32) {
    let place = Place::new(XG5);
    let length = 12 * MIB;
    let mut scene = Scene::of_kind(&place, file_system, length);
    scene.fill();
    let blocks = (length as usize / BLOCK) / 3 * 3;
    let mut written = 0;
    for round in 0..rounds {
        let end = AtomicBool::new(false);
        let path = scene.file.clone();
        let last: Vec<(usize, u64)> = std::thread::scope(|scope| {
            let writers = [Writer::Buffered, Writer::Direct, Writer::Mapped].map(|writer| {
                let (path, end) = (&path, &end);
                let seed = u64::from(round) * 3 + writer as u64 + 1;
                scope.spawn(move || write_until(path, writer, blocks, seed, end))
            });
            let first = ["refresh", path.to_str().unwrap(), "--journal", "journal", "--json"];
            let all = [&first[..], &["--yes", "--all", "--window", "1M"], options].concat();
            let output = place.run(&all);
            end.store(true, Ordering::Relaxed);
            let last = writers.map(|it| it.join().expect("the writer writes"));
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(output.status.success(), "round {round}: {said}");
            let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
            written += summary["bytes_written"].as_u64().unwrap();
            last.concat()
        });
        assert!(last.len() > 10, "they wrote");
        // Once from memory, once from the drive.
        for is_direct in [false, true] {
            if is_direct {
                tool("sync", &["-f", scene.point.to_str().unwrap()]);
                std::fs::write("/proc/sys/vm/drop_caches", "1").unwrap();
            }
            let content = scene.content();
            for (index, number) in &last {
                let found = &content[index * BLOCK..(index + 1) * BLOCK];
                assert!(
                    found == block_of(*index, *number),
                    "round {round}, block {index}: not write {number} but {:?}",
                    &found[..16]
                );
            }
        }
    }
    assert!(written > 0, "something was rewritten meanwhile");
    eprintln!("{file_system}: {rounds} rounds, {} MiB rewritten", written / MIB);
    scene.detach();
}

#[test]
fn no_write_is_lost_while_ext4_moves_the_file() {
    if has_devices("refresh under writes") {
        loses_no_write("ext4", &[], count("SSDLAB_REFRESH_ROUNDS", 2));
    }
}

#[test]
fn no_write_is_lost_while_btrfs_moves_the_file() {
    if has_devices("refresh under writes") && has_tools("refresh under writes", &["mkfs.btrfs"]) {
        loses_no_write("btrfs", &[], count("SSDLAB_REFRESH_ROUNDS", 2));
    }
}

#[test]
fn no_write_is_lost_while_xfs_exchanges_the_file() {
    if has_exchange("refresh under writes") {
        loses_no_write(EXCHANGING, &[], count("SSDLAB_REFRESH_ROUNDS", 2));
    }
}

#[test]
fn no_write_is_lost_while_a_file_is_rewritten_in_place() {
    if has_devices("refresh under writes") && has_tools("refresh under writes", &["mkfs.xfs"]) {
        let rounds = count("SSDLAB_REFRESH_ROUNDS", 2);
        loses_no_write("xfs", &["--max-freeze", "2s"], rounds);
        loses_no_write("ext4", &["--frozen", "--max-freeze", "2s"], rounds);
    }
}

/// Bytes that are free.
fn free(point: &Path) -> u64 {
    let found = rustix::fs::statvfs(point).unwrap();
    found.f_bfree * found.f_frsize
}

/// Kills refreshes at random moments; the content stays, and nothing else is left.
fn survives_kills(file_system: &str, options: &[&str], kills: u32) {
    let place = Place::new(XG5);
    let mut scene = Scene::of_kind(&place, file_system, 12 * MIB);
    scene.fill();
    let content = scene.content();
    let point = scene.point.to_str().unwrap().to_owned();
    tool("sync", &["-f", &point]);
    let room = free(&scene.point);
    // By somebody's choice, for good.
    let is_hurried = !kernel_takes_its_time();
    let mut generator = Pcg64Mcg::seed_from_u64(11);
    let first = ["refresh", scene.file.to_str().unwrap(), "--journal", "journal", "--quiet"];
    let all = [&first[..], &["--yes", "--all", "--window", "1M"], options].concat();
    let started = Instant::now();
    place.done(&all);
    let whole = started.elapsed();
    for kill in 0..kills {
        let mut child =
            place.command(&all).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(whole.mul_f64(generator.random_range(0.0..1.0)));
        child.kill().unwrap();
        child.wait().unwrap();
        // A file system that stayed frozen would keep this waiting for ever.
        std::fs::write(scene.point.join("alive"), kill.to_string()).unwrap();
        tool("sync", &["-f", &point]);
        assert!(scene.content() == content, "the content after kill {kill}");
        // What a freeze asked of the kernel is taken back, by the child if need be.
        assert!(is_hurried || kernel_takes_its_time(), "the kernel hurries on after kill {kill}");
    }
    let names: Vec<_> = std::fs::read_dir(&scene.point)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name != "lost+found")
        .collect();
    assert_eq!(names.len(), 2, "{names:?}");
    // ext4 and btrfs give back what was freed when they commit.
    let until = Instant::now() + Duration::from_secs(60);
    while free(&scene.point) + 2 * MIB < room && Instant::now() < until {
        tool("sync", &["-f", &point]);
        std::thread::sleep(Duration::from_millis(100));
    }
    assert!(free(&scene.point) + 2 * MIB >= room, "room is missing");
    let earlier = place.run(&[&all[..3], &["journal", "--yes", "--resume", "--quiet"]].concat());
    // Killed before it began, or after its end, there is nothing to resume.
    assert!(matches!(earlier.status.code(), Some(0 | 2)), "{earlier:?}");
    assert!(scene.content() == content, "after the rest");
    let device = scene.attached.as_ref().unwrap().at.clone();
    tool("umount", &[&point]);
    match file_system {
        "ext4" => drop(tool("e2fsck", &["-fn", &device])),
        EXCHANGING => {
            set_exchange(Path::new(&device), false);
            drop(tool("xfs_repair", &["-n", &device]));
        }
        _ => {}
    }
    scene.detach();
}

/// Whether the kernel takes its time over grace periods, at once or soon: a refresh of another test
/// may be hurrying it at the same moment.
fn kernel_takes_its_time() -> bool {
    let setting = || std::fs::read_to_string("/sys/kernel/rcu_expedited").unwrap_or_default();
    let until = Instant::now() + Duration::from_secs(10);
    while setting().trim() == "1" && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(1));
    }
    setting().trim() != "1"
}

#[test]
fn a_refresh_that_is_killed_leaves_the_content_and_nothing_else() {
    if has_devices("refresh and kills") {
        let kills = count("SSDLAB_REFRESH_KILLS", 4);
        survives_kills("ext4", &[], kills);
        survives_kills("ext4", &["--frozen", "--max-freeze", "2s"], kills);
    }
}

#[test]
fn so_it_is_on_btrfs() {
    if has_devices("refresh and kills") && has_tools("refresh and kills", &["mkfs.btrfs"]) {
        survives_kills("btrfs", &[], count("SSDLAB_REFRESH_KILLS", 2));
    }
}

#[test]
fn so_it_is_where_xfs_exchanges_ranges() {
    if has_exchange("refresh and kills") {
        survives_kills(EXCHANGING, &[], count("SSDLAB_REFRESH_KILLS", 2));
    }
}

/// Cuts the drive's power at random moments of a refresh.
fn survives_power_cuts(options: &[&str], cuts: u32) {
    let place = Place::new(XG5);
    let mut scene = Scene::new(&place, "ext4", 12 * MIB);
    scene.fill();
    let content = scene.content();
    let mut generator = Pcg64Mcg::seed_from_u64(13);
    let path = scene.file.to_str().unwrap().to_owned();
    let first = ["refresh", &path, "--journal", "journal", "--quiet"];
    let all = [&first[..], &["--yes", "--all", "--window", "1M"], options].concat();
    let started = Instant::now();
    place.done(&all);
    let whole = started.elapsed();
    for cut in 0..cuts {
        let mut child =
            place.command(&all).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(whole.mul_f64(generator.random_range(0.0..1.0)));
        place.done(&["power-cut", "disk.ssd"]);
        child.wait().unwrap();
        let device = scene.attached.as_ref().unwrap().at.clone();
        scene.detach();
        let attached = place.attach(&["--time", "fast"]);
        assert!(attached.at.starts_with("/dev/loop"), "{device}");
        // The journal is replayed first, as mounting does.
        let replayed = place_tool("e2fsck", &["-p", &attached.at]);
        assert!(matches!(replayed, Some(0 | 1)), "cut {cut}: e2fsck -p says {replayed:?}");
        tool("e2fsck", &["-fn", &attached.at]);
        attached.detach();
        scene.attach();
        assert!(scene.content() == content, "after cut {cut}");
    }
    scene.detach();
}

fn place_tool(program: &str, arguments: &[&str]) -> Option<i32> {
    std::process::Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .status()
        .unwrap()
        .code()
}

#[test]
fn power_that_is_cut_meanwhile_costs_nothing() {
    if has_devices("refresh and power cuts") && has_tools("refresh and power cuts", &["e2fsck"]) {
        let cuts = count("SSDLAB_REFRESH_CUTS", 2);
        survives_power_cuts(&[], cuts);
        survives_power_cuts(&["--frozen", "--max-freeze", "2s"], cuts);
    }
}

#[test]
fn a_device_is_rewritten_mounted_and_unmounted_and_free_space_is_left_out() {
    if !has_devices("refresh of devices") {
        return;
    }
    // Small: unmounted, all of it is read.
    let place = Place::new("sim:toshiba-xg5,scale=1/512");
    let mut scene = Scene::new(&place, "ext4", 32 * MIB);
    scene.fill();
    let fresh = scene.pages_read();
    scene.scatter();
    let scattered = scene.pages_read();
    let content = scene.content();
    let device = PathBuf::from(&scene.attached.as_ref().unwrap().at);
    let before = scene.written();
    let all = ["--all", "--yes", "--max-freeze", "2s"];
    let summary = refresh(&place, &device, &all);
    assert_eq!(summary["plan"]["way"], "frozen");
    // Free space is left out, and zeros are: the rest are tables of the file system.
    let written = scene.written() - before;
    assert!(written >= scene.length && written < scene.length + 200 * MIB, "{written}");
    let refreshed = scene.pages_read();
    assert!(refreshed * 100 <= fresh * (100 + IN_PLACE), "{fresh}, {scattered}, {refreshed}");
    assert!(scene.content() == content);
    tool("umount", &[scene.point.to_str().unwrap()]);
    let summary = refresh(&place, &device, &["--all", "--yes", "--window", "16M"]);
    assert_eq!(summary["plan"]["way"], "alone");
    tool("e2fsck", &["-fn", device.to_str().unwrap()]);
    tool("mount", &[device.to_str().unwrap(), scene.point.to_str().unwrap()]);
    assert!(scene.content() == content);
    scene.detach();
}

/// It is refused with these words and exit code, and the file is as it was.
#[track_caller]
fn refuses(place: &Place, path: &Path, options: &[&str], code: i32, words: &str) {
    let before = std::fs::metadata(path).unwrap();
    let first = ["refresh", path.to_str().unwrap(), "--yes", "--all"];
    let elsewhere = ["--journal", "journal"];
    let journal = if options.contains(&"--journal") { &[][..] } else { &elsewhere };
    let output = place.run(&[&first, options, journal].concat());
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{said}");
    assert!(said.contains(words), "no '{words}' in: {said}");
    let after = std::fs::metadata(path).unwrap();
    assert_eq!((before.len(), before.blocks()), (after.len(), after.blocks()));
    assert_eq!(before.modified().unwrap(), after.modified().unwrap());
}

#[test]
fn what_must_not_be_rewritten_is_refused_with_a_clear_word() {
    if !has_devices("refresh refuses") || !has_tools("refresh refuses", &["chattr", "mkswap"]) {
        return;
    }
    let place = Place::new(XG5);
    let mut scene = Scene::new(&place, "ext4", 8 * MIB);
    scene.fill();
    let point = scene.point.to_str().unwrap().to_owned();
    let sparse = scene.point.join("sparse");
    let file = File::create(&sparse).unwrap();
    file.write_all_at(&[1; 8192], 4 * MIB).unwrap();
    file.set_len(8 * MIB).unwrap();
    file.sync_all().unwrap();
    refuses(&place, &sparse, &[], 3, "sparse");
    let blocks = std::fs::metadata(&sparse).unwrap().blocks();
    refresh(&place, &sparse, &["--yes", "--all", "--sparse"]);
    assert_eq!(std::fs::metadata(&sparse).unwrap().blocks(), blocks, "holes stay holes");
    let path = scene.file.to_str().unwrap().to_owned();
    tool("chattr", &["+i", &path]);
    refuses(&place, &scene.file, &[], 3, "immutable");
    tool("chattr", &["-i", &path]);
    // The same file system would be frozen that the journal lies on.
    refuses(&place, &scene.file, &["--frozen", "--journal", &point], 3, "would wait for ever");
    // So would one that the file behind a loop device lies on.
    let image = scene.point.join("image");
    File::create(&image).unwrap().set_len(16 * MIB).unwrap();
    let inner = tool("losetup", &["--find", "--show", image.to_str().unwrap()]);
    refuses(&place, &scene.file, &["--frozen"], 3, "the file behind /dev/loop");
    tool("losetup", &["--detach", inner.trim()]);
    // No room for the donor.
    let room = File::create(scene.point.join("room")).unwrap();
    let keep = 8 * MIB;
    let found = rustix::fs::statvfs(&scene.point).unwrap();
    let length = found.f_bavail * found.f_frsize - keep;
    rustix::fs::fallocate(&room, rustix::fs::FallocateFlags::empty(), 0, length).unwrap();
    let content = scene.content();
    let first = ["refresh", &path, "--journal", "journal", "--yes", "--all"];
    let output = place.run(&first);
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("no room") && said.contains("written: 0"), "{said}");
    assert!(scene.content() == content);
    // Read-only, at last: nothing can be undone after it.
    drop((room, file));
    tool("mount", &["-o", "remount,ro", &point]);
    refuses(&place, &scene.file, &[], 4, "read-only");
    let device = PathBuf::from(&scene.attached.as_ref().unwrap().at);
    refuses(&place, &device, &[], 4, "read-only");
    scene.detach();
}

#[test]
fn swap_is_refused() {
    if !has_devices("refresh refuses swap") || !has_tools("refresh refuses swap", &["mkswap"]) {
        return;
    }
    let place = Place::new(XG5);
    let mut scene = Scene::new(&place, "ext4", 8 * MIB);
    scene.fill();
    let path = scene.file.to_str().unwrap().to_owned();
    std::fs::set_permissions(&scene.file, std::os::unix::fs::PermissionsExt::from_mode(0o600))
        .unwrap();
    tool("mkswap", &[&path]);
    if place_tool("swapon", &[&path]) != Some(0) {
        crate::support::skipped("refresh refuses swap", "this system takes no swap files");
    } else {
        refuses(&place, &scene.file, &[], 3, "swap");
        tool("swapoff", &[&path]);
    }
    scene.detach();
}

#[test]
fn what_snapshots_share_is_refused_unless_asked_for() {
    if !has_devices("refresh and reflinks") || !has_tools("refresh and reflinks", &["mkfs.btrfs"]) {
        return;
    }
    let place = Place::new(XG5);
    let mut scene = Scene::new(&place, "btrfs", 8 * MIB);
    scene.fill();
    let copy = scene.point.join("copy");
    tool("cp", &["--reflink=always", scene.file.to_str().unwrap(), copy.to_str().unwrap()]);
    tool("sync", &["-f", scene.point.to_str().unwrap()]);
    refuses(&place, &scene.file, &[], 3, "--shared");
    let content = scene.content();
    let summary = refresh(&place, &scene.file, &["--yes", "--all", "--shared"]);
    assert_eq!(summary["bytes_written"], scene.length);
    assert!(scene.content() == content && std::fs::read(&copy).unwrap() == content);
    scene.detach();
}

#[test]
fn wrong_use_is_told() {
    let place = Place::new("sim:,scale=1/2048");
    std::fs::write(place.path("file"), "data").unwrap();
    for (arguments, code, words) in [
        (&["refresh", "."][..], 2, "a directory"),
        (&["refresh", "file"], 4, "nothing was changed"),
        (&["refresh", "file", "--window", "3K"], 2, "--window"),
        (&["refresh", "file", "--rate", "0"], 2, "--rate"),
        (&["refresh", "not there"], 2, "not there"),
    ] {
        let output = place.run(&[arguments, &["--journal", "journal"]].concat());
        let said = String::from_utf8_lossy(&output.stderr);
        if place.path("file").starts_with("/dev/shm") || code != 4 {
            assert_eq!(output.status.code(), Some(code), "{arguments:?}: {said}");
            assert!(said.contains(words), "{arguments:?}: {said}");
        }
    }
}
