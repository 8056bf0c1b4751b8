//! Targets that are refused or cannot be used, and what is said about them.

use std::fs;
use std::os::unix::fs::FileTypeExt;

use crate::support::{Done, Mounted, Place, names_in, skipped};

fn run(place: &Place, target: &str, more: &[&str]) -> Done {
    let arguments = ["run", "fragmentation", target, "--set", "file_size=16M", "--set", "rest=0s"];
    place.run(&[&arguments[..], more].concat())
}

#[test]
fn a_directory_that_cannot_be_written_fails() {
    let place = Place::new();
    // Not even root writes here.
    run(&place, "/proc", &[]).fails(4, &["the kernel's own state", "no drive behind it"]);
    run(&place, "/sys", &[]).fails(4, &["the kernel's own state"]);
    run(&place, "/dev/sdz9", &[]).fails(3, &["among the device files"]);
    assert!(!place.path("runs.sqlite").exists());
}

#[test]
fn what_exists_is_not_touched() {
    let place = Place::new();
    let file = place.file("precious.dat", "precious");
    run(&place, &file, &["--create-file"]).fails(3, &["precious.dat exists", "name a new file"]);
    assert_eq!(fs::read_to_string(&file).unwrap(), "precious");
}

#[test]
fn places_that_are_none_are_explained() {
    let place = Place::new();
    run(&place, "/dev/null", &[]).fails(2, &["a character device"]);
    run(&place, "missing/new.dat", &[]).fails(2, &["there is no directory"]);
    run(&place, "new.dat", &[]).fails(2, &["./new.dat with --create-file"]);
    run(&place, "SIM:toshiba-xg5", &[]).fails(2, &["write sim:toshiba-xg5"]);
    assert_eq!(names_in(place.path(".")), [""; 0]);
    run(&place, "", &[]).fails(2, &["name a simulated drive"]);
    run(&place, "raid1(sim:;sim:b)", &[]).fails(2, &["at character 12", "no profile 'b'"]);
    run(&place, "raid6(sim:;sim:)", &[]).fails(2, &["there is no stack 'raid6'", "raid5"]);
}

#[test]
fn a_path_that_is_not_there_is_a_new_file_only_where_that_is_said() {
    let place = Place::new();
    let there = place.directory("scratch");
    run(&place, "scratch/new.dat", &[]).fails(2, &["there is no scratch/new.dat", "--create-file"]);
    run(&place, "./scartch", &[]).fails(2, &["did you mean ./scratch?", "--create-file"]);
    assert_eq!(names_in(place.path(".")), ["scratch"]);
    let more = ["--create-file", "--allow-buffered", "--no-store"];
    let done = run(&place, "scratch/new.dat", &more).with_code(0);
    assert!(done.stderr.starts_with("The drive: "), "{}", done.stderr);
    assert_eq!(names_in(&there), [""; 0]);
}

#[test]
fn a_mounted_block_device_is_refused() {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let is_device =
        |path: &str| fs::metadata(path).is_ok_and(|found| found.file_type().is_block_device());
    let device = mounts
        .lines()
        .filter_map(|line| line.split(" - ").nth(1)?.split(' ').nth(1))
        .find(|source| is_device(source));
    let Some(device) = device else {
        return skipped("a mounted block device", "no mount shows its device here");
    };
    let place = Place::new();
    run(&place, device, &[]).fails(3, &["in use", "mounted at"]);
}

#[test]
fn a_file_system_without_direct_io_needs_a_word() {
    let test = "a file system without direct I/O";
    let place = Place::new();
    let Some(mounted) = Mounted::new(test, "ramfs", "mode=700", place.directory("ram")) else {
        return;
    };
    let refused = run(&place, &mounted.0, &[]);
    if refused.code == 0 {
        return skipped(test, "ramfs does direct I/O here");
    }
    refused.fails(4, &["direct I/O", "--allow-buffered"]);
    // A ramfs shows no free space, so that nothing fits on it, whatever is allowed.
    run(&place, &mounted.0, &["--allow-buffered"]).fails(4, &["does not fit"]);
    assert!(names_in(&mounted.0).is_empty());
}

#[test]
fn a_file_system_without_room_cannot() {
    let test = "a file system without room";
    let place = Place::new();
    let Some(mounted) = Mounted::new(test, "tmpfs", "size=64m", place.directory("small")) else {
        return;
    };
    let more = ["--allow-buffered"];
    run(&place, &mounted.0, &more)
        .fails(4, &["does not fit", "must stay free", "smaller file size"]);
    assert!(names_in(&mounted.0).is_empty());
}

#[test]
fn what_is_not_there_is_wrong_use_and_named() {
    let place = Place::new();
    place.run(&["refresh", "none.ibd", "--dry-run"]).fails(2, &["there is no none.ibd"]);
    place.run(&["attach", "none.ssd"]).fails(2, &["there is no image none.ssd", "ssdlab create"]);
    place.run(&["check", "none.ssd"]).fails(2, &["there is no image none.ssd"]);
}
