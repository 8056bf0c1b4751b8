//! Drives that wear out.

use crate::support::Place;

#[test]
fn a_drive_at_the_end_of_its_life_refuses_writes_and_the_report_says_so() {
    let place = Place::new();
    let target = "sim:toshiba-xg5,scale=1/1024,spare=20%,wear.pe_cycles=10,wear.life=8,\
                  wear.life_shape=6,wear.reserve=2,wear.retire_most=0.2";
    let done = place.run(&["run", "steady", target, "--json"]).with_code(4);
    assert!(done.stderr.contains("end of life and is read-only"), "{}", done.stderr);
    let report: serde_json::Value = serde_json::from_str(&done.stdout).expect("a report");
    let health = &report["health"];
    assert_eq!(health["critical_warning"], 0b1001);
    assert_eq!(health["available_spare"], 0);
    assert_eq!(health["available_spare_threshold"], 10);
    assert!(health["num_err_log_entries"].as_u64() > Some(0));
    assert!(health["host_write_commands"].as_u64() > Some(1000));
    assert!(health.get("media_errors").is_none(), "what is not known is not there");
    let codes: Vec<_> =
        report["findings"].as_array().unwrap().iter().map(|it| &it["code"]).collect();
    assert!(codes.iter().any(|code| *code == "end-of-life"), "{codes:?}");
    let shown = place.run(&["show", "last"]).with_code(0);
    assert!(shown.stdout.contains("0 % of the spare blocks are left"), "{}", shown.stdout);
}

#[test]
fn a_drive_without_what_wears_it_out_has_a_health_log_all_the_same() {
    let place = Place::new();
    let target = "sim:toshiba-xg5,scale=1/64";
    let run = ["run", "fragmentation", target, "--quick", "--set", "file_size=64M", "--json"];
    let report = place.run(&run).with_code(0).json();
    let health = &report["health"];
    assert_eq!(health["critical_warning"], 0);
    assert!(health["data_units_written"].as_u64() > Some(100));
    for unknown in ["percentage_used", "available_spare", "temperature", "media_errors"] {
        assert!(health.get(unknown).is_none(), "{unknown}");
    }
}

#[test]
fn keys_of_wear_that_do_nothing_are_refused() {
    let place = Place::new();
    let run = |keys: &str| place.run(&["run", "steady", &format!("sim:,{keys}")]);
    run("wear.reserve=4").fails(2, &["wear.reserve does nothing without wear.life"]);
    run("wear.levelling=static").fails(2, &["needs wear.static_every"]);
    run("wear.levelling=most").fails(2, &["off, dynamic or static"]);
}

/// Mean throughput of reading a drive at random, in MB/s.
fn read_rate(place: &Place, target: &str) -> f64 {
    let job = "[read]\nrw=randread\nbs=4k\nsize=100%\n";
    let file = place.file("read.fio", job);
    let report = place.run(&["run", "job", &file, target, "--json"]).with_code(0).json();
    let bytes = report["health"]["data_units_read"].as_f64().unwrap() * 512_000.0;
    bytes / report["cost"]["simulated_seconds"].as_f64().unwrap() / 1e6
}

#[test]
fn data_that_was_stored_for_long_is_read_slowly() {
    let place = Place::new();
    let aged = |name: &str, stored: &str| {
        let set = "sim:samsung-840-pro-512,scale=1/1024,retention.retry=60us,retention.free_for=10d,\
                   retention.steps=40";
        let age =
            ["precondition", set, "--state", "sequential", "--stored-for", stored, "-o", name];
        let aged = place.run(&age).with_code(0);
        (aged.stderr, read_rate(&place, &format!("sim:./{name}")))
    };
    let (_, fresh) = aged("fresh.ssd", "0");
    let (history, old) = aged("old.ssd", "1y");
    assert!(history.contains("then stored for 365 days"), "{history}");
    assert!(old < fresh / 5.0, "{old} and {fresh} MB/s");
    let plain =
        ["precondition", "sim:toshiba-xg5,scale=1/512", "--stored-for", "1y", "-o", "a.ssd"];
    place.run(&plain).fails(2, &["does not age", "retention.retry"]);
    let wrong = ["precondition", "--stored-for", "long", "-o", "a.ssd"];
    place.run(&wrong).fails(2, &["--stored-for", "such as 90d"]);
}

#[test]
fn a_simulated_drive_is_made_new_as_it_is_told() {
    let place = Place::new();
    let set = "sim:toshiba-xg5,scale=1/256,collection.unit=superblock";
    place.run(&["precondition", set, "-o", "used.ssd"]).with_code(0);
    let run = |target: &str, how: &[&str]| {
        let set = ["--set", "area=256M", "--set", "limit=4s"];
        let arguments = [&["run", "steady", target, "--quick", "--json"], &set[..], how].concat();
        place.run(&arguments)
    };
    let used = |how: &[&str]| {
        let report = run("sim:./used.ssd", how).with_code(0).json();
        let facts = report["target"]["facts"].as_array().unwrap();
        let fact = facts.iter().find(|fact| fact["name"] == "purged");
        let fact = fact.map_or("", |fact| fact["value"].as_str().unwrap()).to_owned();
        (fact, report)
    };
    assert_eq!(used(&[]).0, "", "another one in no time");
    let (fact, _) = used(&["--purge", "nvme-format"]);
    assert!(fact.starts_with("erased (secure erase), which took"), "{fact}");
    let (fact, _) = used(&["--purge", "format"]);
    assert!(fact.starts_with("formatted without erase, which took"), "{fact}");
    let (fact, _) = used(&["--purge", "discard"]);
    assert!(fact.starts_with("discarded as a whole, which took"), "{fact}");
    let has = |report: &serde_json::Value, code: &str| {
        report["findings"].as_array().unwrap().iter().any(|finding| finding["code"] == code)
    };
    let none = used(&["--purge", "none"]).1;
    assert!(has(&none, "not-made-new"), "{}", none["findings"]);
    assert_eq!(none["counters"]["trims"], 0, "it is taken as it is, and not trimmed either");
    // Another one from the factory has nothing of what was saved, and that is said.
    assert!(has(&used(&[]).1, "saved-state-unused"));
    assert!(!has(&none, "saved-state-unused"));
    assert!(!has(&used(&["--set", "fill=0"]).1, "saved-state-unused"));
    // Experiments that measure copies take them as they are, too.
    let few = ["--set", "area=256M", "--set", "time=100ms", "--set", "sizes=4K,64K"];
    let sizes = |how: &[&str]| {
        let run = ["run", "blocksize", "sim:./used.ssd", "--quick", "--json"];
        place.run(&[&run[..], &few, how].concat()).with_code(0).json()
    };
    let (kept, new) = (sizes(&["--purge", "none"]), sizes(&[]));
    assert!(has(&kept, "not-made-new") && has(&new, "saved-state-unused"));
    let amplification =
        |report: &serde_json::Value| report["counters"]["write_amplification"].as_f64().unwrap();
    assert!(amplification(&kept) > 1.2 * amplification(&new), "a used drive is written to");
    let cached =
        format!("{set},mapping.scheme=cached,mapping.cache=64M,collection.metadata_units=16");
    let facts = run(&cached, &["--purge", "format"]).with_code(0).json()["target"]["facts"].clone();
    assert!(facts.to_string().contains("formatted without erase, which took"), "{facts}");
    let file = place.path("file.dat").to_str().unwrap().to_owned();
    let real = run(&file, &["--purge", "format"]);
    real.fails(2, &["--purge format is for simulated drives"]);
}
