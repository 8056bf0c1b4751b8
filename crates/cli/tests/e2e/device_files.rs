//! Raw block devices as targets of what others have written: jobs of fio, traces; and scripts that
//! are taken elsewhere and meet a device there.
//!
//! Needs root and loop devices; without, each test says that it was skipped.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::device::{
    Above, Loop, MountedAt, attach, did, job_that_writes, terminal, trace_of_trims,
};
use crate::support::{Place, skipped};

const MIB: usize = 1 << 20;

#[test]
fn a_job_is_run_on_a_device_behind_the_gate() {
    let test = "a job on a device";
    let place = Place::new();
    let Some(device) = Loop::new(test, &place, "disk", 16) else { return };
    let before = device.digest();
    let job = job_that_writes(&place);
    let arguments = ["run", "job", &job, &device.device, "--json"];
    place.run(&arguments).fails(3, &["destroys all that it holds", "--destroy-data"]);
    assert_eq!(device.digest(), before);
    let consent = ["--destroy-data", "--confirm", &device.device];
    let report = place.run(&[&arguments[..], &consent].concat()).with_code(0).json();
    assert_eq!(report["target"]["kind"], "device");
    assert_ne!(device.digest(), before);

    // What only reads needs no consent, and not even a device that nobody uses.
    let reads = "[a]\ndirect=1\nrw=randread\nioengine=libaio\niodepth=4\nsize=25%\n";
    let reads = place.file("reads.fio", reads);
    let before = device.digest();
    let _held = attach(Path::new(&device.device), &["--read-only"]).map(Above);
    let arguments = ["run", "job", &reads, &device.device, "--json"];
    let report = place.run(&arguments).with_code(0).json();
    let row = &report["tables"][0]["rows"][0];
    assert_eq!(row[1], "read");
    // A quarter of the device, and not a quarter of that quarter.
    assert_eq!(row[8], 4 * MIB / 4096, "{row}");
    assert_eq!(device.digest(), before);
}

#[test]
fn a_trace_is_replayed_on_a_device_and_its_trims_are_no_reads() {
    let test = "a trace on a device";
    let place = Place::new();
    let Some(device) = Loop::new(test, &place, "disk", 16) else { return };
    let before = device.digest();
    let trace = trace_of_trims(&place);
    let arguments = ["run", "replay", &trace, &device.device, "--json", "--quiet"];
    place.run(&arguments).fails(3, &["destroys all that it holds"]);
    assert_eq!(device.digest(), before);
    let consent = ["--destroy-data", "--confirm", &device.device];
    let report = place.run(&[&arguments[..], &consent].concat()).with_code(0).json();
    assert_eq!(report["tables"][0]["rows"][0][1], "trim");
    assert!(did("sync", &[]));
    let backing = fs::read(&device.backing).unwrap();
    // The look at the drive's answers, at the end, writes to its beginning.
    assert!(backing[12 * MIB..13 * MIB].iter().all(|&byte| byte == 0), "it was not trimmed");
    assert!(backing[13 * MIB..].iter().all(|&byte| byte != 0), "more than that was trimmed");
}

#[test]
fn a_loop_device_over_what_is_in_use_is_refused() {
    let test = "a loop device over what is in use";
    let place = Place::new();
    let Some(device) = Loop::new(test, &place, "disk", 16) else { return };
    let job = job_that_writes(&place);
    let refused = |target: &str, words: &[&str]| {
        let before = device.digest();
        let consent = ["--destroy-data", "--confirm", target];
        place.run(&[&["run", "job", &job, target], &consent[..]].concat()).fails(3, words);
        assert_eq!(device.digest(), before, "a refusal has changed something");
    };
    let Some(second) = attach(&device.backing, &[]).map(Above) else {
        return skipped(test, "a file takes no second loop device here");
    };
    refused(&second.0, &["is in use: its file", "is the backing file of loop", ", too"]);
    refused(&device.device, &["is in use: its file"]);
    drop(second);
    assert!(did("mkfs.ext4", &["-q", "-F", &device.device]));
    let point = place.directory("mounted");
    let Some(above) = attach(Path::new(&device.device), &[]).map(Above) else {
        return skipped(test, "no loop device can lie on another here");
    };
    assert!(did("mount", &["-o", "ro,noload", &device.device, &point]));
    let mounted = MountedAt(&point);
    refused(&above.0, &["is in use: its backing device", "is mounted at"]);
    drop(mounted);
    // Where nothing uses what it lies on, it is as good as another.
    let consent = ["--destroy-data", "--confirm", &above.0, "--quiet"];
    place.run(&[&["run", "job", &job, &above.0], &consent[..]].concat()).with_code(0);
}

/// Runs a script; on a terminal the device's name is typed there.
fn run_script(place: &Place, target: &str, on_terminal: bool) -> Output {
    let _ = fs::remove_dir_all(place.path("ssdlab-steady"));
    let mut command = Command::new("sh");
    command.args(["script.sh", target, "--destroy-data"]).current_dir(place.path(""));
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    if on_terminal {
        let (mut master, slave) = terminal();
        let child = command.stdin(slave).spawn().unwrap();
        writeln!(master, "{target}").unwrap();
        return child.wait_with_output().unwrap();
    }
    let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
    // One that refuses does not read it.
    let _ = writeln!(child.stdin.take().unwrap(), "{target}");
    child.wait_with_output().unwrap()
}

fn script_refuses(place: &Place, device: &Loop, words: &str) {
    let before = device.digest();
    let done = run_script(place, &device.device, false);
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.code() == Some(3) && said.contains(words), "{said}");
    assert_eq!(device.digest(), before, "a refusal has changed something");
}

#[test]
fn a_script_refuses_a_device_in_use_and_takes_one_that_was_used() {
    let test = "a script for a device";
    let place = Place::new();
    let Some(one) = Loop::new(test, &place, "one", 128) else { return };
    let Some(two) = Loop::new(test, &place, "two", 128) else { return };
    if Command::new("fio").arg("--version").output().is_err() {
        return skipped(test, "fio is not installed");
    }
    let short = ["area=16M", "time=1s", "fill=1"].map(|set| ["--set", set]).concat();
    let export = ["export", "steady", &one.device, "--capacity", "128M", "-o", "script.sh"];
    place.run(&[&export[..], &short].concat()).with_code(0);

    if let Some(above) = attach(Path::new(&one.device), &["--read-only"]) {
        let _above = Above(above);
        script_refuses(&place, &one, "a loop device uses");
    }
    let point = place.directory("mounted");
    if did("mkfs.btrfs", &["-q", "-f", &one.device, &two.device])
        && did("btrfs", &["device", "scan", &one.device, &two.device])
        && did("mount", &["-t", "btrfs", "-o", "ro", &one.device, &point])
    {
        let _mounted = MountedAt(&point);
        script_refuses(&place, &one, "is mounted");
        script_refuses(&place, &two, "part of a mounted btrfs");
    } else {
        skipped(test, "btrfs is not there");
    }
    // A file system that nobody uses does not stop what was confirmed, on a terminal neither.
    for on_terminal in [false, true] {
        assert!(did("mkfs.ext4", &["-q", "-F", &one.device]));
        let done = run_script(&place, &one.device, on_terminal);
        let said = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "{said}");
    }
}
