//! File systems on an attached drive.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::support::{Place, has_devices, has_tools, tool, wait_until};

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

fn free_bytes(directory: &Path) -> u64 {
    let found = rustix::fs::statvfs(directory).unwrap();
    found.f_bfree * found.f_frsize
}

fn holds_a_tree(file_system: &str, place: impl FnOnce(&str) -> Place) {
    let mkfs = format!("mkfs.{file_system}");
    if !has_devices(file_system) || !has_tools(file_system, &[&mkfs, "fstrim", "fsfreeze"]) {
        return;
    }
    let place = place("sim:,scale=1/512");
    let point = place.path("mounted");
    std::fs::create_dir(&point).unwrap();
    let options = ["--time", "fast", "--mount", point.to_str().unwrap(), "--fs", file_system];
    let attached = place.attach(&options);
    assert!(attached.at.starts_with("/dev/loop"), "{}", attached.at);
    tool("cp", &["-r", TREE, point.join("tree").to_str().unwrap()]);
    std::fs::write(point.join("large"), vec![7; 64 << 20]).unwrap();
    tool("sync", &["-f", point.to_str().unwrap()]);
    let free = free_bytes(&point);
    std::fs::remove_file(point.join("large")).unwrap();
    // The blocks come back behind the deletion's back: xfs does so in a thread, ext4 and btrfs with a
    // transaction, and whoever drops the system's caches holds the file for a moment.
    wait_until(|| {
        tool("sync", &["-f", point.to_str().unwrap()]);
        free_bytes(&point) > free + (60 << 20)
    });
    // A frozen file system has none of them in its log any more.
    tool("fsfreeze", &["--freeze", point.to_str().unwrap()]);
    tool("fsfreeze", &["--unfreeze", point.to_str().unwrap()]);
    let before = trimmed_bytes(&place);
    tool("fstrim", &[point.to_str().unwrap()]);
    // On xfs fstrim returns while its discards are in flight.
    wait_until(|| trimmed_bytes(&place) - before > 48 << 20);
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
    holds_a_tree("ext4", Place::new);
}

#[test]
fn xfs_holds_a_tree() {
    holds_a_tree("xfs", Place::new);
}

#[test]
fn btrfs_holds_a_tree() {
    // It asks all that is mounted whether it is on the same device.
    holds_a_tree("btrfs", Place::alone);
}

#[test]
fn a_killed_program_leaves_a_device_that_fails_and_is_cleaned_up() {
    if !has_devices("a killed program") {
        return;
    }
    let place = Place::alone("sim:,scale=1/2048");
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

#[test]
fn who_cannot_make_a_file_system_beside_a_dead_device_is_told_the_way_out() {
    let test = "a dead device";
    if !has_devices(test) || !has_tools(test, &["mkfs.btrfs", "mkfs.ext4"]) {
        return;
    }
    let place = Place::alone("sim:,scale=1/512");
    let (dead, other) = (place.path("dead"), place.path("other"));
    std::fs::create_dir(&dead).unwrap();
    std::fs::create_dir(&other).unwrap();
    let attached =
        place.attach(&["--time", "fast", "--mount", dead.to_str().unwrap(), "--fs", "ext4"]);
    let device = attached.at.clone();
    attached.kill();
    // What the kernel still holds of the dead device would be read as if the device lived.
    tool("blockdev", &["--flushbufs", &device]);
    place.done(&["create", "sim:,scale=1/512", "other.ssd"]);
    let options = ["--time", "fast", "--mount", other.to_str().unwrap(), "--fs", "btrfs"];
    let output = place.run(&[&["attach", "other.ssd"], &options[..]].concat());
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success(), "{said}");
    assert!(said.contains("`ssdlab detach /dev/loop"), "{said}");
    let device = said.split("`ssdlab detach ").nth(1).and_then(|it| it.split('`').next()).unwrap();
    place.done(&["detach", device]);
    assert!(
        !std::fs::read_to_string("/proc/self/mounts").unwrap().contains(dead.to_str().unwrap())
    );
}
