//! Refreshing files and devices on an attached drive. What is asserted are the drive's counters and
//! the content, never a speed.
//!
//! `SSDLAB_REFRESH_ROUNDS`, `SSDLAB_REFRESH_KILLS` and `SSDLAB_REFRESH_CUTS` ask for more.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use rustix::fs::OFlags;
use serde_json::Value;

use crate::refresh_case::PATIENT;
use crate::support::{Attached, Place, has_devices, has_tools, once_closed, tool};

/// It does not read ahead: segments of one request that come late or out of order on a busy machine would
/// have it read pages that nobody takes, so that one and the same file read twice gives 1985 and 2177 pages.
/// Without, what is read is where the data lies.
pub(crate) const XG5: &str = "sim:toshiba-xg5,scale=1/64,read_ahead.window=0";
pub(crate) const BLOCK: usize = 4096;
pub(crate) const MIB: u64 = 1 << 20;

/// A file on a drive that is attached and mounted.
pub(crate) struct Scene<'a> {
    pub(crate) place: &'a Place,
    attached: Option<Attached<'a>>,
    file_system: &'a str,
    pub(crate) point: PathBuf,
    pub(crate) file: PathBuf,
    length: u64,
    /// How long requests take: `fast` or `real`.
    time: &'a str,
    generator: Pcg64Mcg,
}

/// Bytes that direct I/O accepts.
#[repr(C, align(4096))]
pub(crate) struct Aligned(pub(crate) [u8; BLOCK]);

/// As many as a request of a reader takes.
#[repr(C, align(4096))]
struct AlignedRequest([u8; MIB as usize]);

impl<'a> Scene<'a> {
    pub(crate) fn new(place: &'a Place, file_system: &'a str, length: u64) -> Scene<'a> {
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

    /// Attaches the drive, and mounts what is on it.
    pub(crate) fn attach(&mut self) {
        let point = self.point.to_str().unwrap();
        let options = ["--time", self.time, "--mount", point, "--fs", self.file_system];
        self.attached = Some(self.place.attach(&options));
    }

    /// Its block device.
    pub(crate) fn device(&self) -> PathBuf {
        PathBuf::from(&self.attached.as_ref().expect("it is attached").at)
    }

    /// Mounts it again.
    pub(crate) fn mount(&self) {
        tool("mount", &[text(&self.device()), text(&self.point)]);
    }

    pub(crate) fn unmount(&self) {
        once_closed("umount", &[text(&self.point)]).unwrap();
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
        self.sync();
    }

    /// Fills the file past the page cache, which hands data on in an order of its own: some of it then lies
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
        self.sync();
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

    /// Has all that the file system owes come to the drive.
    fn sync(&self) {
        tool("sync", &["-f", text(&self.point)]);
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

/// A path of ours, which is UTF-8.
pub(crate) fn text(path: &Path) -> &str {
    path.to_str().expect("a path of ours")
}

/// Runs a tool whose outcome matters, but is no failure.
pub(crate) fn code_of(program: &str, arguments: &[&str]) -> Option<i32> {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().unwrap().code()
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
pub(crate) fn brings_it_back(scene: &mut Scene<'_>, options: &[&str], tolerance: u64) -> Value {
    scene.fill();
    let fresh = scene.pages_read();
    scene.scatter();
    let scattered = scene.pages_read();
    assert!(scattered > fresh * 3, "{fresh} pages, {scattered} when scattered");
    let content = scene.content();
    // What the file system still owes for the scattering is not the refresh's, and what it owes after
    // the refresh is.
    scene.sync();
    let before = scene.written();
    let summary = scene.refresh(&[&["--all", "--yes"], options].concat());
    scene.sync();
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
    brings_it_back(&mut scene, &PATIENT, 5);
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
    // Threads of the kernel write what btrfs defragments, in an order that the load decides: up to a tenth
    // more pages than of data that one thread has written, and scattered it is four times as many.
    brings_it_back(&mut scene, &[], 15);
    scene.detach();
}

#[test]
fn what_is_frozen_is_in_order_again_where_it_lies() {
    if !has_devices("refresh in place") || !has_tools("refresh in place", &["mkfs.xfs"]) {
        return;
    }
    let place = Place::new(XG5);
    let mut scene = Scene::new(&place, "xfs", 32 * MIB);
    let summary = brings_it_back(&mut scene, &PATIENT, IN_PLACE);
    assert_eq!(summary["plan"]["way"], "frozen");
    assert!(summary["freezes"].as_u64().unwrap() > 0, "{summary}");
    scene.detach();
}

#[test]
fn a_device_is_rewritten_mounted_and_unmounted_and_free_space_is_left_out() {
    if !has_devices("refresh of devices") {
        return;
    }
    // Small: unmounted, all of it is read.
    let place = Place::new("sim:toshiba-xg5,scale=1/512,read_ahead.window=0");
    let mut scene = Scene::new(&place, "ext4", 32 * MIB);
    scene.fill();
    let fresh = scene.pages_read();
    scene.scatter();
    let scattered = scene.pages_read();
    let content = scene.content();
    let device = scene.device();
    let before = scene.written();
    let all = [&["--all", "--yes"], &PATIENT[..]].concat();
    let summary = refresh(&place, &device, &all);
    assert_eq!(summary["plan"]["way"], "frozen");
    // Free space is left out, and zeros are: the rest are tables of the file system.
    let written = scene.written() - before;
    assert!(written >= scene.length && written < scene.length + 200 * MIB, "{written}");
    let refreshed = scene.pages_read();
    assert!(refreshed * 100 <= fresh * (100 + IN_PLACE), "{fresh}, {scattered}, {refreshed}");
    assert!(scene.content() == content);
    scene.unmount();
    let summary = refresh(&place, &device, &["--all", "--yes", "--window", "16M"]);
    assert_eq!(summary["plan"]["way"], "alone");
    tool("e2fsck", &["-fn", device.to_str().unwrap()]);
    scene.mount();
    assert!(scene.content() == content);
    scene.detach();
}

/// It is refused with these words and exit code, and the file is as it was.
#[track_caller]
pub(crate) fn refuses(place: &Place, path: &Path, options: &[&str], code: i32, words: &str) {
    let before = std::fs::metadata(path).unwrap();
    let first = ["refresh", text(path), "--yes", "--all"];
    let elsewhere = ["--journal", "journal"];
    let journal = if options.contains(&"--journal") { &[][..] } else { &elsewhere };
    let output = place.run(&[&first, options, journal].concat());
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{said}");
    assert!(said.contains(words), "no '{words}' in: {said}");
    assert!(said.contains("nothing was changed"), "{said}");
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
    assert!(said.contains("free space for a new copy") && said.contains("written: 0"), "{said}");
    assert!(scene.content() == content);
    // Read-only, at last: nothing can be undone after it.
    drop((room, file));
    once_closed("mount", &["-o", "remount,ro", &point]).unwrap();
    refuses(&place, &scene.file, &[], 4, "read-only");
    let device = scene.device();
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
    if code_of("swapon", &[&path]) != Some(0) {
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
