//! File systems on an attached drive.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::support::{Place, has_devices, has_tools, tool};

/// The tree that is copied: this program's own sources.
const TREE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src");

fn files(directory: &Path, into: &mut Vec<std::path::PathBuf>) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { files(&path, into) } else { into.push(path) }
    }
}

fn verify(copy: &Path) {
    let mut all = Vec::new();
    files(Path::new(TREE), &mut all);
    assert!(all.len() > 10);
    for path in all {
        let copied = copy.join(path.strip_prefix(TREE).unwrap());
        assert!(std::fs::read(&path).unwrap() == std::fs::read(&copied).unwrap(), "{path:?}");
    }
}

fn trimmed_bytes(place: &Place) -> u64 {
    let status = place.status();
    let units = status["counters"]["host_trim_units"].as_u64().unwrap();
    units * status["unit_bytes"].as_u64().unwrap()
}

fn holds_a_tree(file_system: &str) {
    let mkfs = format!("mkfs.{file_system}");
    if !has_devices(file_system) || !has_tools(file_system, &[&mkfs, "fstrim"]) {
        return;
    }
    let place = Place::new("sim:,scale=1/512");
    let point = place.path("mounted");
    std::fs::create_dir(&point).unwrap();
    let options = ["--time", "fast", "--mount", point.to_str().unwrap(), "--fs", file_system];
    let attached = place.attach(&options);
    assert!(attached.at.starts_with("/dev/loop"), "{}", attached.at);
    tool("cp", &["-r", TREE, point.join("tree").to_str().unwrap()]);
    std::fs::write(point.join("large"), vec![7; 64 << 20]).unwrap();
    tool("sync", &["-f", point.to_str().unwrap()]);
    std::fs::remove_file(point.join("large")).unwrap();
    tool("sync", &["-f", point.to_str().unwrap()]);
    std::thread::sleep(std::time::Duration::from_millis(200));
    let before = trimmed_bytes(&place);
    tool("fstrim", &[point.to_str().unwrap()]);
    let trimmed = trimmed_bytes(&place) - before;
    assert!(trimmed > 48 << 20, "{file_system} trimmed {trimmed} bytes");
    let device = std::fs::metadata(&point).unwrap().dev();
    attached.detach();
    assert_ne!(std::fs::metadata(&point).unwrap().dev(), device, "it is unmounted");
    assert!(place.done(&["check", "disk.ssd"]).contains("closed in order"));
    let attached = place.attach(&options);
    verify(&point.join("tree"));
    attached.detach();
}

#[test]
fn ext4_holds_a_tree() {
    holds_a_tree("ext4");
}

#[test]
fn xfs_holds_a_tree() {
    holds_a_tree("xfs");
}

#[test]
fn btrfs_holds_a_tree() {
    holds_a_tree("btrfs");
}

#[test]
fn a_killed_program_leaves_a_device_that_fails_and_is_cleaned_up() {
    if !has_devices("a killed program") {
        return;
    }
    let place = Place::new("sim:,scale=1/2048");
    let attached = place.attach(&["--time", "fast"]);
    let device = attached.at.clone();
    let data = vec![9; 4096];
    std::fs::write(place.path("block"), &data).unwrap();
    let block = place.path("block");
    let (of, input) = (format!("of={device}"), format!("if={}", block.display()));
    tool("dd", &[&input, &of, "bs=4k", "count=1", "oflag=direct", "conv=fsync,notrunc"]);
    attached.kill();
    let input = format!("if={device}");
    let read = std::process::Command::new("dd")
        .args([&input, "of=/dev/null", "bs=4k", "count=1", "iflag=direct"])
        .output()
        .unwrap();
    assert!(!read.status.success(), "requests fail");
    place.done(&["detach", "disk.ssd"]);
    let attached = place.attach(&["--time", "fast"]);
    let input = format!("if={}", attached.at);
    let out = place.path("out");
    let of = format!("of={}", out.display());
    tool("dd", &[&input, &of, "bs=4k", "count=1", "iflag=direct"]);
    assert!(std::fs::read(&out).unwrap() == data);
    attached.detach();
}
