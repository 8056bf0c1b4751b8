//! What is rewritten in place must be what is frozen, and nobody may write past that: a refresh finds
//! the right file system and the right device whatever names say, and refuses where it cannot tell.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{FileExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::refresh::refuses;
use crate::refresh_case::PATIENT;
use crate::support::{Attached, Place, has_devices, has_tools, once_closed, skipped, tool};

/// Small: some of these tests read all of it.
const SMALL: &str = "sim:toshiba-xg5,scale=1/2048";
const MIB: u64 = 1 << 20;
const LENGTH: u64 = 4 * MIB;

/// A drive that is attached and has a file system of ours, mounted by us.
struct Disk<'a> {
    place: &'a Place,
    attached: Option<Attached<'a>>,
    device: PathBuf,
    point: PathBuf,
    file: PathBuf,
    /// What must be unmounted at the end, the last first.
    mounts: Vec<PathBuf>,
}

impl<'a> Disk<'a> {
    /// With a file system that was mounted by this name, or by that of the device.
    fn named(place: &'a Place, name: Option<&Path>) -> Disk<'a> {
        let attached = place.attach(&["--time", "fast"]);
        let device = PathBuf::from(&attached.at);
        let point = place.path("point");
        fs::create_dir(&point).unwrap();
        // In place goes by blocks of 4 KiB.
        tool("mkfs.ext4", &["-q", "-b", "4096", text(&device)]);
        let source = name.unwrap_or(&device);
        if let Some(name) = name {
            symlink(&device, name).unwrap();
        }
        tool("mount", &["--no-canonicalize", "-t", "ext4", text(source), text(&point)]);
        let file = point.join("table");
        let mounts = vec![point.clone()];
        let disk = Disk { place, attached: Some(attached), device, point, file, mounts };
        disk.fill();
        disk
    }

    fn new(place: &'a Place) -> Disk<'a> {
        Disk::named(place, None)
    }

    fn fill(&self) {
        let file = File::create(&self.file).unwrap();
        let data: Vec<u8> = (0..LENGTH).map(|at| (at % 251) as u8 + 1).collect();
        file.write_all_at(&data, 0).unwrap();
        file.sync_all().unwrap();
        tool("sync", &["-f", text(&self.point)]);
    }

    fn content(&self) -> Vec<u8> {
        fs::read(&self.file).unwrap()
    }

    fn written(&self) -> u64 {
        let status = self.place.status();
        let units = status["counters"]["host_write_units"].as_u64().unwrap();
        units * status["unit_bytes"].as_u64().unwrap()
    }

    fn end(mut self) {
        self.unmount();
        self.attached.take().expect("it is attached").detach();
    }

    fn unmount(&mut self) {
        while let Some(point) = self.mounts.pop() {
            once_closed("umount", &[text(&point)]).unwrap();
        }
    }
}

impl Drop for Disk<'_> {
    /// A test that failed leaves no mount.
    fn drop(&mut self) {
        while let Some(point) = self.mounts.pop() {
            let _ = once_closed("umount", &[text(&point)]);
        }
    }
}

/// A loop device, as long as this lives.
struct Loop(PathBuf);

impl Loop {
    fn on(path: &Path) -> Loop {
        Loop(PathBuf::from(tool("losetup", &["--find", "--show", text(path)]).trim()))
    }
}

impl Drop for Loop {
    /// It goes when nobody has it open any more, as udev and tools of other tests may for a moment.
    fn drop(&mut self) {
        quietly("losetup", &["--detach", text(&self.0)]);
        let name = self.0.file_name().expect("a device has a name").to_str().unwrap();
        let backing = format!("/sys/block/{name}/loop/backing_file");
        let until = Instant::now() + Duration::from_secs(120);
        while fs::exists(&backing).is_ok_and(|it| it) && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Runs a tool, whatever comes of it; says whether it succeeded.
fn quietly(program: &str, arguments: &[&str]) -> bool {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|it| it.success())
}

const IN_PLACE: [&str; 6] = ["--all", "--yes", "--frozen", PATIENT[0], PATIENT[1], "--json"];

#[track_caller]
fn refresh(place: &Place, what: &Path) -> Value {
    let first = ["refresh", text(what), "--journal", "journal"];
    serde_json::from_str(&place.done(&[&first, &IN_PLACE[..]].concat())).unwrap()
}

#[test]
fn a_device_with_a_swap_file_on_it_is_refused() {
    let test = "refresh of a device with a swap file";
    if !has_devices(test) || !has_tools(test, &["mkfs.ext4", "mkswap", "swapon"]) {
        return;
    }
    let place = Place::new(SMALL);
    let disk = Disk::new(&place);
    let swap = disk.point.join("swap");
    fs::copy(&disk.file, &swap).unwrap();
    fs::set_permissions(&swap, fs::Permissions::from_mode(0o600)).unwrap();
    tool("sync", &["-f", text(&disk.point)]);
    tool("mkswap", &[text(&swap)]);
    if quietly("swapon", &[text(&swap)]) {
        let first = ["refresh", text(&disk.device), "--journal", "journal"];
        let output = place.run(&[&first, &IN_PLACE[..]].concat());
        tool("swapoff", &[text(&swap)]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{said}");
        assert!(said.contains("in use as swap") && said.contains("swapoff"), "{said}");
    } else {
        skipped(test, "this system takes no swap files");
    }
    let summary = refresh(&place, &disk.device);
    assert_eq!(summary["plan"]["way"], "frozen", "{summary}");
    disk.end();
}

#[test]
fn a_device_that_a_program_has_open_for_writing_is_refused() {
    let test = "refresh of a device that is open";
    if !has_devices(test) {
        return;
    }
    let place = Place::new(SMALL);
    let attached = place.attach(&["--time", "fast"]);
    let device = PathBuf::from(&attached.at);
    let open = OpenOptions::new().read(true).write(true).open(&device).unwrap();
    open.write_all_at(&[7; 8192], MIB).unwrap();
    refuses(&place, &device, &[], 3, "open for writing");
    drop(open);
    // A loop device claims nothing either, and belongs to no program.
    let upper = Loop::on(&device);
    refuses(&place, &device, &[], 3, "is a loop device on it");
    drop(upper);
    // Who only reads does no harm.
    let open = File::open(&device).unwrap();
    let summary = refresh(&place, &device);
    assert_eq!(summary["plan"]["way"], "alone", "{summary}");
    assert_eq!(summary["bytes_written"], 8192, "{summary}");
    drop(open);
    attached.detach();
}

#[test]
fn of_a_file_that_is_mounted_by_itself_its_own_file_system_is_frozen() {
    let test = "refresh of a file that is mounted by itself";
    if !has_devices(test) || !has_tools(test, &["mkfs.ext4"]) {
        return;
    }
    let place = Place::new(SMALL);
    let mut disk = Disk::new(&place);
    let content = disk.content();
    // Its directory lies in memory, where nothing can be frozen.
    let elsewhere = place.path("elsewhere");
    File::create(&elsewhere).unwrap();
    tool("mount", &["--bind", text(&disk.file), text(&elsewhere)]);
    disk.mounts.push(elsewhere.clone());
    let summary = refresh(&place, &elsewhere);
    assert_eq!(summary["bytes_written"], LENGTH, "{summary}");
    assert!(summary["freezes"].as_u64().unwrap() > 0, "{summary}");
    assert!(disk.content() == content);
    // Nor is it the directory's file system that must not hold what is needed.
    let point = text(&disk.point).to_owned();
    let on_it = ["--frozen", "--journal", &point];
    refuses(&place, &elsewhere, &on_it, 3, "would wait for ever");
    refuses(&place, &elsewhere, &[], 4, "mounted by itself");
    disk.end();
}

#[test]
fn a_device_whose_mount_point_leads_somewhere_else_is_refused() {
    let test = "refresh of a device below another mount";
    if !has_devices(test) || !has_tools(test, &["mkfs.ext4"]) {
        return;
    }
    let place = Place::new(SMALL);
    let mut disk = Disk::new(&place);
    tool("mount", &["-t", "tmpfs", "none", text(&disk.point)]);
    disk.mounts.push(disk.point.clone());
    refuses(&place, &disk.device, &[], 3, "mounted over it");
    disk.end();
}

/// Writes that the kernel has sent to a block device.
fn writes(device: &Path) -> u64 {
    let name = device.file_name().unwrap().to_str().unwrap();
    let text = fs::read_to_string(format!("/sys/block/{name}/stat")).unwrap();
    text.split_whitespace().nth(4).unwrap().parse().unwrap()
}

#[test]
fn a_device_that_has_taken_over_the_name_of_a_mounted_one_is_not_written() {
    let test = "refresh after names have changed";
    if !has_devices(test) || !has_tools(test, &["mkfs.ext4"]) {
        return;
    }
    let place = Place::new(SMALL);
    let name = place.path("name");
    let disk = Disk::named(&place, Some(&name));
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    if !mounts.contains(text(&name)) {
        skipped(test, "the kernel does not keep the name of what was mounted");
        disk.end();
        return;
    }
    let image = place.path("other");
    fs::write(&image, vec![9; 16 << 20]).unwrap();
    let other = Loop::on(&image);
    fs::remove_file(&name).unwrap();
    symlink(&other.0, &name).unwrap();
    let (before, others) = (disk.written(), writes(&other.0));
    let summary = refresh(&place, &disk.file);
    let (written, others) = (disk.written() - before, writes(&other.0) - others);
    // Nothing of the other one is mounted, whatever it is called.
    let of_device = refresh(&place, &other.0);
    drop(other);
    assert_eq!(summary["bytes_written"], LENGTH, "{summary}");
    assert!(written >= LENGTH && others == 0, "{written} bytes, {others} writes to the other one");
    assert_eq!(of_device["plan"]["way"], "alone", "{of_device}");
    disk.end();
}
