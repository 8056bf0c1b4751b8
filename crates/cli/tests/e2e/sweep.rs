//! `sweep` as a user meets it.

use std::path::Path;

use rustix::process::{Pid, Signal, kill_process};

use crate::device::Loop;
use crate::support::{Done, Place, names_in, wait_until};

/// A sweep of nine runs that takes well under a second, on a quiet machine.
const SHORT: [&str; 13] = [
    "sweep",
    "fragmentation",
    "sim:,scale=1/64",
    "--quick",
    "--set",
    "file_size=32M",
    "--set",
    "rest=0s",
    "--vary",
    "spare=7%,15%,28%",
    "--seeds",
    "3",
    "--quiet",
];

/// A sweep of runs that take long enough to be ended in their midst.
const LONG: [&str; 11] = [
    "sweep",
    "steady",
    "sim:,scale=1/64",
    "--quick",
    "--vary",
    "spare=7%,15%,28%",
    "--seeds",
    "4",
    "--out",
    "out",
    "--quiet",
];

fn with<'a>(words: &[&'a str], more: &[&'a str]) -> Vec<&'a str> {
    [words, more].concat()
}

fn file(place: &Place, name: &str) -> Vec<u8> {
    std::fs::read(place.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

const FILES: [&str; 4] = ["out/sweep.json", "out/runs.csv", "out/means.csv", "out/sweep.html"];

#[test]
fn a_sweep_prints_means_and_is_kept_shown_and_compared() {
    let place = Place::new();
    let done = place.run(&SHORT).with_code(0);
    assert!(done.stdout.contains("sweep fragmentation on sim:,scale=1/64"), "{}", done.stdout);
    assert!(done.stdout.contains("Kept as run 1."), "{}", done.stdout);
    place.run(&with(&SHORT, &["--seed", "7"])).with_code(0);
    assert!(place.run(&["show", "last"]).with_code(0).stdout.contains("28%"));
    place.run(&["compare", "1", "2"]).with_code(0);
    let json = place.run(&with(&SHORT, &["--json", "--no-store"])).with_code(0).json();
    assert_eq!(json["schema"], "ssdlab.sweep/1");
    assert_eq!(json["points"].as_array().unwrap().len(), 3);
    let estimate = &json["points"][0]["estimates"][0];
    assert_eq!(estimate["runs"], 3);
    assert_eq!(
        place.run(&["list", "runs", "--json"]).with_code(0).json().as_array().unwrap().len(),
        2
    );
}

#[test]
fn a_run_of_a_sweep_is_the_run_that_its_point_names() {
    let place = Place::new();
    let json = place.run(&with(&SHORT, &["--json", "--no-store"])).with_code(0).json();
    let point = &json["points"][2];
    let target = point["target"].as_str().unwrap();
    let words = [
        "run",
        "fragmentation",
        target,
        "--quick",
        "--set",
        "file_size=32M",
        "--set",
        "rest=0s",
        "--seed",
        "3",
        "--json",
        "--no-store",
        "--quiet",
    ];
    let report = place.run(&words).with_code(0).json();
    let best = &report["tables"][0]["rows"][0][2];
    let names = json["measures"].as_array().unwrap();
    let at = names.iter().position(|it| it["name"] == "reads[fill].best_seconds").unwrap();
    assert_eq!(point["runs"][2]["seed"], 3);
    assert_eq!(&point["runs"][2]["values"][at], best);
}

#[test]
fn a_directory_gets_the_results_and_is_not_taken_up_by_mistake() {
    let place = Place::new();
    let out = with(&SHORT, &["--out", "out"]);
    place.run(&out).with_code(0);
    assert_eq!(names_in(place.path("out/runs")).len(), 9);
    let rows = String::from_utf8(file(&place, "out/runs.csv")).unwrap();
    assert_eq!(rows.lines().count(), 10);
    assert!(rows.starts_with("spare,drive,seed,state,error,key,"), "{rows}");
    let before: Vec<_> = FILES.map(|name| file(&place, name)).to_vec();
    place.run(&out).fails(2, &["already holds runs of a sweep", "--resume"]);
    place.run(&with(&out, &["--resume", "--jobs", "1"])).with_code(0);
    assert_eq!(FILES.map(|name| file(&place, name)).to_vec(), before);
}

/// The bytes of [`LONG`] as a whole.
fn of_long() -> Vec<Vec<u8>> {
    let place = Place::new();
    place.run(&LONG).with_code(0);
    FILES.map(|name| file(&place, name)).to_vec()
}

fn runs_in(place: &Place) -> usize {
    let runs = place.path("out/runs");
    let is_whole = |name: &String| !name.starts_with('.') && name.ends_with(".json");
    if Path::new(&runs).exists() {
        names_in(runs).iter().filter(|it| is_whole(it)).count()
    } else {
        0
    }
}

#[test]
fn a_sweep_killed_again_and_again_comes_to_the_same_bits() {
    let expected = of_long();
    let place = Place::new();
    let kills = std::env::var("SSDLAB_KILLS").ok().and_then(|it| it.parse().ok()).unwrap_or(3);
    for kill in 0..kills {
        let before = runs_in(&place);
        let mut child = place.start(&with(&LONG, &["--resume"]));
        // At a moment after the first results, and at another one each time.
        wait_until(|| runs_in(&place) > before || child.try_wait().unwrap().is_some());
        std::thread::sleep(std::time::Duration::from_millis(37 * kill % 400));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(runs_in(&place) >= before);
    }
    place.run(&with(&LONG, &["--resume"])).with_code(0);
    assert!(FILES.map(|name| file(&place, name)).to_vec() == expected);
}

#[test]
fn ctrl_c_keeps_what_is_there_and_resume_makes_the_rest() {
    let place = Place::new();
    let child = place.start(&LONG);
    wait_until(|| runs_in(&place) > 1);
    kill_process(Pid::from_raw(child.id() as i32).unwrap(), Signal::INT).unwrap();
    let done = Done::of(child.wait_with_output().unwrap()).with_code(130);
    assert!(
        done.stderr.contains("interrupted") && done.stderr.contains("--resume"),
        "{}",
        done.stderr
    );
    assert!(done.stdout.contains("are missing"), "{}", done.stdout);
    let kept = runs_in(&place);
    assert!((2..12).contains(&kept), "{kept}");
    place.run(&with(&LONG, &["--resume"])).with_code(0);
    assert_eq!(runs_in(&place), 12);
}

#[test]
fn what_is_wrong_is_said_before_anything_runs() {
    let place = Place::new();
    let wrong = |more: &[&str], words: &[&str]| {
        let base = ["sweep", "steady", "sim:,scale=1/64", "--quick", "--quiet", "--out", "out"];
        place.run(&with(&base, more)).fails(2, words);
    };
    wrong(&["--vary", "spaer=7%,28%"], &["no key 'spaer'", "did you mean spare?"]);
    wrong(&["--vary", "spare="], &["empty value"]);
    wrong(&["--vary", "spare=7%,8%", "--vary", "spare=9%,10%"], &["varied twice"]);
    wrong(&["--seeds", "1"], &["nothing is varied"]);
    wrong(&["--vary", "spare=0%,99%"], &["none of the points can be run", "above 0%"]);
    wrong(&["--vary", "spare=7%,8%", "--points", "0"], &["--points 0"]);
    wrong(&["--vary", "spare=7%,8%", "--destroy-data"], &["need a block device among the targets"]);
    let many: Vec<String> = (1..400).map(|it| it.to_string()).collect();
    let depth = format!("depth={}", many.join(","));
    let blocks = format!("flash.page_read={}", many.join(","));
    wrong(&["--vary", &depth, "--vary", &blocks], &["159201 points", "--points 1000"]);
    assert!(!place.path("out").exists(), "nothing was made");
    place.run(&["sweep", "steady", "--resume"]).with_code(2);
}

#[test]
fn some_points_that_cannot_be_are_named_and_the_others_run() {
    let place = Place::new();
    let mut words = SHORT.to_vec();
    words[9] = "spare=0%,7%,28%";
    let done = place.run(&words).with_code(1);
    assert!(done.stderr.contains("1 of 3 points cannot be run"), "{}", done.stderr);
    assert!(done.stderr.contains("spare=0%: "), "{}", done.stderr);
    assert!(done.stderr.contains("3 of 9 runs failed"), "{}", done.stderr);
    assert!(done.stdout.contains("28%"), "{}", done.stdout);
}

#[test]
fn a_directory_of_a_real_drive_is_swept_by_settings_one_run_at_a_time() {
    let place = Place::new();
    let ssd = place.directory("ssd");
    let base = [
        "sweep",
        "fragmentation",
        &ssd,
        "--quick",
        "--allow-buffered",
        "--set",
        "file_size=16M",
        "--set",
        "rest=0s",
        "--rest",
        "0s",
        "--seeds",
        "2",
    ];
    place.run(&with(&base, &["--vary", "spare=7%,28%"])).fails(2, &["spare", "simulated drives"]);
    let done = place.run(&with(&base, &["--vary", "reads=1,2", "--json"])).with_code(0);
    assert!(done.stderr.contains("the sweep makes 4"), "{}", done.stderr);
    let json = done.json();
    assert_eq!(json["points"].as_array().unwrap().len(), 2);
    assert_eq!(names_in(place.path("ssd")).len(), 0, "nothing is left");
}

#[test]
fn a_block_device_passes_the_gate_before_each_run_or_is_left_alone() {
    let place = Place::new();
    let Some(device) = Loop::new("a sweep of a device", &place, "disk", 64) else { return };
    let name = device.device.as_str();
    let base = [
        "sweep",
        "blocksize",
        name,
        "--set",
        "area=16M",
        "--set",
        "time=50ms",
        "--set",
        "sizes=4K",
        "--set",
        "used=0",
        "--vary",
        "depth=1,2",
        "--seeds",
        "1",
        "--rest",
        "0s",
        "--allow-buffered",
    ];
    let before = device.digest();
    place.run(&base).fails(3, &[name, "--destroy-data"]);
    place.run(&with(&base, &["--destroy-data"])).fails(2, &["--confirm"]);
    let wrong = with(&base, &["--destroy-data", "--confirm", "/dev/other"]);
    place.run(&wrong).with_code(3);
    assert_eq!(device.digest(), before, "a refusal has changed something");
    let right = with(&base, &["--destroy-data", "--confirm", name, "--json"]);
    let json = place.run(&right).with_code(0).json();
    assert_eq!(json["points"].as_array().unwrap().len(), 2);
    assert_ne!(device.digest(), before);
}
