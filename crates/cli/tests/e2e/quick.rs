//! `--quick` on simulated drives, memory that a run needs, and how long it takes.

use std::process::Command;

use crate::report::{codes, column, numbers, table};
use crate::support::{Done, Place};

const SMALL: &str = "sim:generic-tlc,capacity.physical=2GiB,flash.dies=2,flash.channels=2,flash.pages_per_block=96,spare=20%";

#[test]
fn a_quick_run_takes_a_smaller_drive_through_the_whole_protocol() {
    let place = Place::new();
    let run = ["run", "steady", "sim:intel-s3510", "--quick", "--json"];
    let report = place.run(&run).with_code(0).json();
    assert_eq!(report["target"]["name"], "sim:intel-s3510,scale=1/32");
    assert_eq!(codes(&report)[0], "steady", "{}", report["findings"]);
    assert!(codes(&report).contains(&"scaled") && !codes(&report).contains(&"shortened"));
    // The whole drive takes 43,587 writes a second at a write amplification of 3.55, after 28 s of
    // processor time.
    let steady = table(&report, "steady");
    let (iops, amplification) =
        (column(steady, "iops")[0].as_f64(), column(steady, "write_amplification")[0].as_f64());
    assert!((iops.unwrap() / 43_587.0 - 1.0).abs() < 0.05, "{steady}");
    assert!((amplification.unwrap() / 3.553 - 1.0).abs() < 0.02, "{steady}");
    let parameters = report["parameters"].as_array().unwrap();
    let of = |name: &str| parameters.iter().find(|it| it["name"] == name).unwrap()["value"].clone();
    assert_eq!((of("area"), of("fill"), of("limit")), ("all".into(), "2".into(), "45m".into()));
}

#[test]
fn a_quick_run_takes_every_drive_of_a_stack_as_a_smaller_one() {
    let place = Place::new();
    let target = "raid1(sim:toshiba-xg5;sim:toshiba-xg5),sync=none";
    let run = ["run", "latency", target, "--quick", "--json", "--set", "used=0"];
    let report = place.run(&run).with_code(0).json();
    let name = "raid1(sim:toshiba-xg5,scale=1/32;sim:toshiba-xg5,scale=1/32),sync=none";
    assert_eq!(report["target"]["name"], name);
}

#[test]
fn a_part_of_a_new_drive_is_not_steady_before_all_of_the_flash_was_written() {
    let place = Place::new();
    let run = |limit: &str| {
        let set = ["area=64M", "round=300ms", limit].map(|set| ["--set", set]).concat();
        let run = ["run", "steady", SMALL, "--quick", "--json"];
        place.run(&[&run[..], &set].concat()).with_code(0).json()
    };
    // Level from the first round on, and nothing was collected yet.
    let early = run("limit=10s");
    assert_eq!(codes(&early)[0], "not-reached", "{}", early["findings"]);
    let text = early["findings"][0]["text"].as_str().unwrap();
    assert!(text.contains("unwritten flash takes writes"), "{text}");
    let late = run("limit=10m");
    assert_eq!(codes(&late)[0], "steady", "{}", late["findings"]);
    let written = numbers(table(&late, "steady"), "written_gb")[0];
    assert!(written > 1.8, "{written} GB on 2 GiB of flash");
}

#[test]
fn a_run_that_needs_more_memory_than_there_is_says_so_and_what_would_fit() {
    let place = Place::new();
    let limited = |arguments: &[&str]| {
        let program = place.command(arguments);
        let mut shell = Command::new("sh");
        shell.args(["-c", "ulimit -v 2000000 && exec \"$0\" \"$@\""]);
        shell.arg(program.get_program()).args(program.get_args());
        for (name, value) in program.get_envs() {
            match value {
                Some(value) => shell.env(name, value),
                None => shell.env_remove(name),
            };
        }
        shell.current_dir(place.path("."));
        Done::of(shell.output().unwrap())
    };
    let pair = "raid1(sim:samsung-pm1725b;sim:samsung-pm1725b)";
    limited(&["run", "latency", pair]).fails(
        4,
        &["GiB of memory", "are available", "raid1(sim:samsung-pm1725b,scale=1/", "fits"],
    );
    limited(&["precondition", "sim:samsung-pm1725b", "-o", "used.ssd"])
        .fails(4, &["GiB of memory", "fits: sim:samsung-pm1725b,scale=1/"]);
    assert!(!place.path("used.ssd").exists());
    limited(&["run", "fragmentation", "sim:toshiba-xg5", "--quick"]).with_code(0);
}

#[test]
fn a_long_run_says_how_long_it_takes_before_it_begins() {
    let place = Place::new();
    let mut child = place.start(&["run", "random-write", "sim:toshiba-xg5", "--no-store"]);
    let said = {
        use std::io::{BufRead, BufReader};
        let mut line = String::new();
        BufReader::new(child.stderr.take().unwrap()).read_line(&mut line).unwrap();
        line
    };
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(said.contains("of processor time") && said.contains("--quick"), "{said}");
}
