//! `power-cut explore`: nothing found, something found, and found again from its file.

use std::fs;

use crate::support::Place;

fn explore<'a>(more: &[&'a str]) -> Vec<&'a str> {
    [&["power-cut", "explore"][..], more].concat()
}

#[test]
fn a_sound_drive_of_each_kind_breaks_no_rule() {
    let place = Place::new();
    let few = ["--histories", "2", "--requests", "8"];
    for target in [
        "sim:",
        "sim:kingston-v-64",
        "sim:,wear.life=3000,wear.life_shape=6,wear.reserve=40,wear.levelling=static,wear.static_every=4",
        "sim:,mapping.scheme=log-block,mapping.log_blocks=4",
        "sim:,mapping.scheme=cached,mapping.cache=1M,collection.metadata_units=12",
    ] {
        let told = place.run(&explore(&[&[target][..], &few].concat())).with_code(0);
        assert!(told.stdout.contains("No rule was broken"), "{target}: {}", told.stdout);
        assert!(
            told.stdout.lines().skip(1).all(|line| line.chars().count() <= 80),
            "{}",
            told.stdout
        );
    }
    let json = place.run(&explore(&[&few[..], &["--json"]].concat())).with_code(0).json();
    assert_eq!(json["schema"], "ssdlab.power-cut/1");
    assert_eq!(json["histories"], 2);
    assert!(json["cuts"].as_u64().unwrap() > 10, "{json}");
    assert!(json["cuts_in_recovery"].as_u64().unwrap() > 10, "{json}");
    assert!(json["recovery"]["mean_ns"].as_u64().unwrap() > 0, "{json}");
    assert!(json["recovery"]["own_erases_most"].as_u64().unwrap() > 0, "{json}");
    assert!(json["broken"].is_null());
}

#[test]
fn a_lie_about_flush_is_shown_by_a_short_history_that_can_be_put_in_again() {
    let place = Place::new();
    let lie = ["--lie-about-flush", "--output", "short.txt"];
    let told = place.run(&explore(&lie)).with_code(1);
    assert!(told.stdout.contains("A rule is broken"), "{}", told.stdout);
    assert!(told.stdout.contains("--history short.txt"), "{}", told.stdout);
    let history = fs::read_to_string(place.path("short.txt")).unwrap();
    let requests: Vec<&str> = history.lines().filter(|line| !line.starts_with('#')).collect();
    assert!((1..=2).contains(&requests.len()), "{history}");
    let again = ["--lie-about-flush", "--history", "short.txt", "--json"];
    let json = place.run(&explore(&again)).with_code(1).json();
    assert_eq!(json["broken"]["history"], serde_json::json!(requests));
    let honest = ["--history", "short.txt"];
    place.run(&explore(&honest)).with_code(0);
}

#[test]
fn a_unit_overwritten_while_a_flush_goes_on_is_missed_only_with_a_lie() {
    let place = Place::new();
    let history = "write units 0 to 9\nflush, 30us later\nwrite unit 3 but for the last sector, at once\n\
                   flush, 2ms later\n";
    let history = place.file("waits.txt", history);
    let given = ["--history", &history];
    place.run(&explore(&given)).with_code(0);
    place.run(&explore(&[&given[..], &["--lie-about-flush"]].concat())).with_code(1);
}

#[test]
fn the_seed_reaches_the_victims_that_the_drive_draws() {
    let place = Place::new();
    let fill: String = (0..36).map(|_| "write units 0 to 90\n").collect();
    let history = place.file("history.txt", &fill);
    let explored = |seed: &str| {
        let target = "sim:,collection.policy=random";
        let given = ["--history", &history, "--new", "--seed", seed, "--json"];
        let mut json = place.run(&explore(&[&[target][..], &given].concat())).with_code(0).json();
        json["seed"].take();
        json
    };
    assert_eq!(explored("1"), explored("1"));
    assert_ne!(explored("1"), explored("2"));
}

#[test]
fn a_planted_mistake_is_found() {
    let place = Place::new();
    for mistake in ["ignore-numbers", "forget-unreadable"] {
        place.run(&explore(&["--fault", mistake, "--requests", "40"])).with_code(1);
    }
    let told = place.run(&explore(&["--fault", "forget-trims", "--requests", "40"])).with_code(1);
    assert!(told.stdout.contains("trim unit"), "{}", told.stdout);
}

#[test]
fn what_cannot_be_cut_is_explained() {
    let place = Place::new();
    place.run(&explore(&["/tmp"])).fails(2, &["not a new simulated drive"]);
    place.run(&explore(&["sim:intel-s3510", "--lie-about-flush"])).fails(2, &["loses nothing"]);
    place.run(&explore(&["--history", "none.txt"])).fails(2, &["cannot read none.txt"]);
    place.file("bad.txt", b"flush\nwrite a lot\n");
    place.run(&explore(&["--history", "bad.txt"])).fails(2, &["line 2", "write units 3 to 5"]);
}
