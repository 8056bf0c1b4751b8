//! Used drives: made, saved and used as targets.

use std::fs;

use crate::support::{Place, names_in};

/// A small drive that is collected in small blocks.
const SMALL: &str = "sim:toshiba-xg5,capacity.physical=2GiB,flash.pages_per_block=24,spare=20%";

fn run(target: &str) -> [&str; 8] {
    ["run", "fragmentation", target, "--set", "file_size=64M", "--set", "rest=0s", "--json"]
}

#[test]
fn a_used_drive_is_saved_and_is_a_target_alone_or_in_a_stack() {
    let place = Place::new();
    let aged = place.run(&["precondition", SMALL, "-o", "aged.ssd"]).with_code(0);
    assert!(aged.stderr.contains("use it as sim:./aged.ssd"), "{}", aged.stderr);
    assert_eq!(aged.stdout, "");
    let report = place.run(&run("sim:./aged.ssd")).with_code(0).json();
    let caveat = report["target"]["caveats"][0].as_str().unwrap();
    assert!(caveat.contains("steady state of random writes"), "{caveat}");
    let amplification = report["counters"]["write_amplification"].as_f64().unwrap();
    assert!(amplification > 1.2, "a used drive collects: {amplification}");
    let again = place.run(&run("sim:./aged.ssd")).with_code(0).json();
    assert_eq!(report["tables"], again["tables"], "the file is as it was");
    let stack = "raid1(sim:./aged.ssd;sim:./aged.ssd),sync=none";
    let stack = place.run(&run(stack)).with_code(0).json();
    let writes = |report: &serde_json::Value| report["counters"]["host_writes"].as_u64().unwrap();
    assert_eq!(writes(&stack), 2 * writes(&report), "sums over members");
}

#[test]
fn drives_of_every_mapping_scheme_and_cache_are_aged_saved_and_opened() {
    let place = Place::new();
    let slc = [
        "slc.size=64MiB",
        "slc.space=fixed",
        "slc.bits=3",
        "slc.program=200us",
        "slc.page_read=25us",
    ];
    let drives: [(&[&str], &[&str]); 5] = [
        (&["mapping.scheme=cached", "mapping.cache=64KiB", "collection.metadata_units=12"], &[]),
        (&["mapping.scheme=extent", "mapping.table=64KiB"], &[]),
        (&["mapping.scheme=log-block", "mapping.log_blocks=8"], &[]),
        (&slc, &[]),
        (&slc, &["--cache", "full"]),
    ];
    for (changes, options) in drives {
        let mut age = vec!["precondition", SMALL, "-o", "aged.ssd", "--force"];
        age.extend(options);
        for change in changes {
            age.extend(["--set", change]);
        }
        let aged = place.run(&age).with_code(0);
        assert!(aged.stderr.contains("steady state of random writes"), "{}", aged.stderr);
        let report = place.run(&run("sim:./aged.ssd")).with_code(0).json();
        let amplification = report["counters"]["write_amplification"].as_f64().unwrap();
        assert!(amplification > 1.05, "{changes:?}: it is used: {amplification}");
    }
    let full = ["precondition", SMALL, "--cache", "full", "-o", "no.ssd"];
    place.run(&full).fails(2, &["no pseudo-SLC cache with blocks of its own"]);
}

#[test]
fn what_was_saved_stays_unless_told_otherwise() {
    let place = Place::new();
    let new = ["precondition", SMALL, "--state", "new", "-o", "drive.ssd"];
    place.run(&new).with_code(0);
    let before = fs::read(place.path("drive.ssd")).unwrap();
    place
        .run(&["precondition", SMALL, "-o", "drive.ssd"])
        .fails(3, &["drive.ssd exists", "--force"]);
    assert_eq!(fs::read(place.path("drive.ssd")).unwrap(), before);
    place.run(&["precondition", SMALL, "-o", "drive.ssd", "--force"]).with_code(0);
    assert_ne!(fs::read(place.path("drive.ssd")).unwrap(), before);
    assert_eq!(names_in(place.path(".")), ["drive.ssd"]);
}

#[test]
fn what_was_named_by_mistake_is_not_replaced() {
    let place = Place::new();
    place.run(&["precondition", SMALL, "--state", "new", "-o", "drive.ssd"]).with_code(0);
    let before = fs::read(place.path("drive.ssd")).unwrap();
    let notes = place.file("notes", "precious");
    place.run(&["precondition", SMALL, "-o", &notes, "--force"]).fails(3, &["no saved drive"]);
    let run = ["run", "fragmentation", "sim:./drive.ssd", "--quick"];
    for option in ["--html", "--hdr"] {
        for file in ["drive.ssd", &notes] {
            place.run(&[&run[..], &[option, file]].concat()).fails(3, &[option, "not replaced"]);
        }
    }
    assert_eq!(fs::read_to_string(&notes).unwrap(), "precious");
    assert_eq!(fs::read(place.path("drive.ssd")).unwrap(), before);
    // An earlier page or log is.
    for _ in 0..2 {
        let both = ["--html", "page.html", "--hdr", "log.hlog"];
        place.run(&[&run[..], &both].concat()).with_code(0);
    }
}

#[test]
fn the_seed_reaches_the_victims_that_the_drive_draws() {
    let place = Place::new();
    // Sequential writes are the same for every seed; what collection moves is not.
    let writes = |seed: &str, name: &str| {
        let age =
            ["precondition", SMALL, "--set", "collection.policy=random", "--state", "sequential"];
        let rest = ["--written", "2.5x", "--seed", seed, "-o", name, "--force"];
        place.run(&[&age[..], &rest].concat()).with_code(0);
        let target = format!("sim:./{name}");
        let job = place.file("write.fio", "[write]\nrw=randwrite\nbs=4k\nio_size=256M\n");
        let report = place.run(&["run", "job", &job, &target, "--json"]).with_code(0).json();
        report["tables"].clone()
    };
    let one = writes("1", "one.ssd");
    assert_eq!(one, writes("1", "again.ssd"));
    assert_ne!(one, writes("2", "two.ssd"));
}

#[test]
fn what_cannot_be_aged_or_restored_is_explained() {
    let place = Place::new();
    place.run(&["precondition", "/tmp", "-o", "a.ssd"]).fails(2, &["not a new simulated drive"]);
    place
        .run(&["precondition", SMALL, "--written", "much", "-o", "a.ssd"])
        .fails(2, &["--written", "2x"]);
    let changed = ["precondition", SMALL, "--set", "collection.policy=cost-benefit", "-o", "a.ssd"];
    place.run(&changed).fails(4, &["no steady state for cost-benefit", "--state random"]);
    assert_eq!(names_in(place.path(".")), [""; 0]);
    place.run(&["precondition", SMALL, "-o", "missing/a.ssd", "--state", "new"]).with_code(0);
    assert!(place.path("missing/a.ssd").exists(), "the directory is made");

    place.run(&["precondition", SMALL, "-o", "a.ssd"]).with_code(0);
    place.run(&run("sim:./a.ssd,spare=7%")).fails(2, &["a saved drive keeps its parameters"]);
    let bytes = fs::read(place.path("a.ssd")).unwrap();
    place.file("a.ssd", &bytes[..bytes.len() / 2]);
    place.run(&run("sim:./a.ssd")).fails(2, &["damaged or cut short"]);
    place.run(&run("sim:./none.ssd")).fails(2, &["cannot read ./none.ssd"]);
    place.file("b.ssd", "summary = \"a profile, misnamed\"");
    place.run(&run("sim:./b.ssd")).fails(2, &["not a saved drive"]);
}
