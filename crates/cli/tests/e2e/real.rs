//! Runs on real files: what they say, what they leave, and how they end early.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Child;

use rustix::process::{Pid, Signal, kill_process};

use crate::support::{Done, Mounted, Place, names_in, skipped, wait_until};

/// Any file system will do for these.
const RUN: [&str; 7] =
    ["run", "fragmentation", "there", "--allow-buffered", "--set", "file_size=16M", "--set"];

fn signal(child: &Child, signal: Signal) {
    let pid = Pid::from_raw(child.id() as i32).unwrap();
    kill_process(pid, signal).unwrap();
}

/// Returns what a process has moved so far: `rchar` is what it read, `wchar` what it wrote, `read_bytes` what it read
/// from a device, through io_uring as well.
fn moved(child: &Child, which: &str) -> u64 {
    let io = fs::read_to_string(format!("/proc/{}/io", child.id())).unwrap_or_default();
    let bytes = io.lines().find_map(|line| line.strip_prefix(which)?.strip_prefix(": "));
    bytes.and_then(|bytes| bytes.parse().ok()).unwrap_or(0)
}

/// Returns true if the file is filled, so that the first rest begins: the short try before the run writes it once, the
/// fill once more.
fn is_filled(child: &Child) -> bool {
    moved(child, "wchar") >= 32 << 20
}

#[test]
fn a_directory_gives_a_report_and_is_left_as_it_was() {
    let place = Place::new();
    let there = place.directory("there");
    let done = place.run(&[&RUN[..], &["rest=0s", "--json"]].concat()).with_code(0);
    let report = done.json();
    assert_eq!(report["target"]["kind"], "directory");
    assert_eq!(report["tables"][0]["rows"].as_array().unwrap().len(), 6);
    assert!(report["counters"].is_null() && report["cost"]["simulated_seconds"].is_null());
    assert!(names_in(&there).is_empty());
    for words in
        ["writes at most 99.73 MiB in all", "a file of 16 MiB", "removed at the end", "Ctrl-C"]
    {
        assert!(done.stderr.contains(words), "no {words:?} in:\n{}", done.stderr);
    }
}

#[test]
fn a_named_file_is_removed_and_quiet_is_quiet() {
    let place = Place::new();
    let there = place.directory("there");
    let arguments = [
        &["run", "fragmentation", "there/new.dat", "--create-file", "--quiet"],
        &RUN[3..],
        &["rest=0s"],
    ]
    .concat();
    let done = place.run(&arguments).with_code(0);
    assert_eq!(done.stderr, "");
    assert!(done.stdout.contains("fragmentation on there/new.dat"));
    assert!(names_in(&there).is_empty());
}

#[test]
fn an_interrupted_run_keeps_its_report_and_removes_its_file() {
    let new = ["there/new.dat", "--create-file"];
    for (target, kind) in [(&new[..], Signal::INT), (&["there"], Signal::TERM)] {
        let place = Place::new();
        let there = place.directory("there");
        let arguments = [&["run", "fragmentation"], target, &["--json", "--html", "page.html"]];
        let child = place.start(&[&arguments.concat()[..], &RUN[3..], &["rest=1h"]].concat());
        wait_until(|| is_filled(&child));
        signal(&child, kind);
        let done = Done::of(child.wait_with_output().unwrap()).with_code(130);
        let report = done.json();
        assert_eq!(report["interrupted"], true);
        let findings = report["findings"].as_array().unwrap();
        assert!(findings.iter().any(|finding| finding["code"] == "not-finished"));
        assert!(done.stderr.contains("error: interrupted; the report holds"), "{}", done.stderr);
        assert!(names_in(&there).is_empty());
        assert!(fs::read_to_string(place.path("page.html")).unwrap().contains("fragmentation"));
        let runs = place.run(&["list", "runs", "--json"]).with_code(0).json();
        assert_eq!(runs[0]["interrupted"], true);
    }
}

#[test]
fn what_was_read_before_the_interrupt_is_in_the_report() {
    let place = Place::new();
    place.directory("there");
    // Silent, so that nothing is tried: the first rest is short, the second twice as long.
    let child = place.start(&[&RUN[..], &["rest=2s", "--quiet", "--json"]].concat());
    // It is written to again once it was read.
    wait_until(|| moved(&child, "wchar") > 17 << 20);
    signal(&child, Signal::INT);
    let report = Done::of(child.wait_with_output().unwrap()).with_code(130).json();
    let rows = report["tables"][0]["rows"].as_array().unwrap();
    assert_eq!(rows[0][0], "fill");
}

#[test]
fn two_signals_at_once_are_one_and_leave_a_report() {
    for target in [&["there"][..], &["there/new.dat", "--create-file"]] {
        let place = Place::new();
        let there = place.directory("there");
        let arguments = [&["run", "fragmentation"], target, &RUN[3..], &["rest=1h", "--json"]];
        let child = place.start(&arguments.concat());
        wait_until(|| is_filled(&child));
        // Stopped, so that both are there before the first can be answered, as timeout(1) sends them.
        signal(&child, Signal::STOP);
        signal(&child, Signal::TERM);
        signal(&child, Signal::INT);
        signal(&child, Signal::CONT);
        let done = Done::of(child.wait_with_output().unwrap()).with_code(130);
        assert_eq!(done.json()["interrupted"], true);
        assert_eq!(names_in(&there), [""; 0]);
    }
}

#[test]
fn a_later_signal_ends_a_run_that_cannot_give_its_report() {
    let place = Place::new();
    let there = place.directory("there");
    // Nobody reads its stdout, which is full already.
    let (reader, mut writer) = std::io::pipe().unwrap();
    let capacity = rustix::pipe::fcntl_getpipe_size(&writer).unwrap();
    writer.write_all(&vec![b'x'; capacity]).unwrap();
    let arguments =
        [&["run", "fragmentation", "there"], &RUN[3..], &["rest=1h", "--json"]].concat();
    let mut child = place.command(&arguments).stdout(writer).spawn().unwrap();
    wait_until(|| is_filled(&child));
    let mut last = std::time::Instant::now();
    signal(&child, Signal::INT);
    wait_until(|| {
        if last.elapsed() >= std::time::Duration::from_millis(200) {
            last = std::time::Instant::now();
            signal(&child, Signal::INT);
        }
        child.try_wait().unwrap().is_some()
    });
    assert_eq!(child.wait().unwrap().code(), Some(130));
    drop(reader);
    assert_eq!(names_in(&there), [""; 0]);
}

#[test]
fn a_run_that_is_killed_leaves_no_file() {
    let place = Place::new();
    let there = place.directory("there");
    let arguments = ["run", "fragmentation", "there/new.dat", "--create-file"];
    let mut child = place.start(&[&arguments[..], &RUN[3..], &["rest=1h"]].concat());
    wait_until(|| is_filled(&child));
    assert_eq!(names_in(&there), [""; 0]);
    signal(&child, Signal::KILL);
    child.wait().unwrap();
    assert_eq!(names_in(&there), [""; 0]);
}

/// Returns true if a process has a request open that the processors stay awake.
fn keeps_processors_awake(child: &Child) -> bool {
    let files = fs::read_dir(format!("/proc/{}/fd", child.id())).into_iter().flatten().flatten();
    let mut targets = files.filter_map(|file| fs::read_link(file.path()).ok());
    targets.any(|target| target == Path::new("/dev/cpu_dma_latency"))
}

#[test]
fn processors_are_kept_awake_while_measuring_unless_they_are_to_sleep() {
    let test = "processors kept awake";
    let driver = fs::read_to_string("/sys/devices/system/cpu/cpuidle/current_driver");
    if !driver.as_ref().is_ok_and(|driver| driver.trim() != "none") {
        return skipped(test, "the kernel takes no requests here");
    }
    if fs::OpenOptions::new().write(true).open("/dev/cpu_dma_latency").is_err() {
        return skipped(test, "needs root");
    }
    for (more, kept) in [(&[][..], true), (&["--let-processors-sleep"], false)] {
        let place = Place::new();
        place.directory("there");
        let child = place.start(&[&RUN[..], &["rest=1h", "--json"], more].concat());
        wait_until(|| is_filled(&child));
        assert_eq!(keeps_processors_awake(&child), kept, "{more:?}");
        signal(&child, Signal::INT);
        let report = Done::of(child.wait_with_output().unwrap()).with_code(130).json();
        let facts = report["target"]["facts"].as_array().unwrap();
        let fact = facts.iter().find(|fact| fact["name"] == "processors");
        let words = fact.map(|fact| fact["value"].as_str().unwrap());
        assert_eq!(words.is_some_and(|words| words.starts_with("kept awake")), kept, "{words:?}");
    }
}

#[test]
fn a_disk_that_fills_up_meanwhile_leaves_a_report_and_nothing_else() {
    let test = "a disk that fills up meanwhile";
    let place = Place::new();
    let Some(mounted) = Mounted::new(test, "tmpfs", "size=1800m", place.directory("there")) else {
        return;
    };
    let child = place.start(&[
        "run",
        "fragmentation",
        &mounted.0,
        "--allow-buffered",
        "--set",
        "file_size=640M",
        "--set",
        "rest=0s",
        "--json",
    ]);
    // The short try writes at most 128 MiB, and what comes after it is the fill. Then the file
    // system shrinks to hardly more than what is on it.
    let mib = 1u64 << 20;
    let mut shrunk = false;
    wait_until(|| {
        let used = used_bytes(&mounted.0);
        let has_ended = !fs::exists(format!("/proc/{}/io", child.id())).unwrap();
        shrunk = used > 140 * mib
            && mounted.remount(&format!("size={}m", (used_bytes(&mounted.0) / mib) + 40));
        shrunk || has_ended || used >= 640 * mib
    });
    let done = Done::of(child.wait_with_output().unwrap());
    if !shrunk || done.code == 0 {
        return skipped(test, "the run was faster than the file system could shrink");
    }
    let done = done.with_code(4);
    assert_eq!(done.json()["interrupted"], true);
    assert_eq!(done.stderr.matches("error: ").count(), 1, "{}", done.stderr);
    assert!(names_in(&mounted.0).is_empty());
    assert_eq!(place.run(&["list", "runs", "--json"]).json()[0]["interrupted"], true);
}

fn used_bytes(mount: &str) -> u64 {
    let numbers = rustix::fs::statvfs(mount).unwrap();
    (numbers.f_blocks - numbers.f_bfree) * numbers.f_frsize
}
