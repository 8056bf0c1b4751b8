//! `layers` and `doctor`: this machine, captured machines, and what they refuse.

use serde_json::Value;

use crate::support::{Place, is_root, names_in};

/// Codes by which `doctor` tells the worst verdict.
const VERDICTS: [i32; 4] = [0, 10, 11, 12];

fn is_verdict(code: i32) -> bool {
    VERDICTS.contains(&code)
}

/// The file system that the tests lie on may be any, so only what holds for all is asked.
#[test]
fn this_machine_is_examined_captured_and_examined_again_with_the_same_outcome() {
    let place = Place::new();
    let here = place.directory("");
    let live = place.run(&["doctor", &here, "--json"]);
    assert!(is_verdict(live.code), "{live:?}");
    let diagnosis = live.json();
    assert_eq!(diagnosis["schema"], "ssdlab.doctor/1");
    let trim = trim_of(&diagnosis);
    assert!(trim.get("works").is_some() && trim.get("stops_at").is_some(), "{trim}");

    let file = place.path("machine.tar.gz");
    let file = file.to_str().unwrap();
    place.run(&["doctor", &here, "--capture", file, "--quiet"]).with_code(0);
    assert!(!names_in(place.path("")).iter().any(|name| name.ends_with(".draft")));
    let again = place.run(&["doctor", &here, "--from", file, "--json"]);
    assert_eq!(*trim_of(&again.json()), *trim);
    let words = place.run(&["doctor", &here, "--from", file]);
    assert!(words.stdout.contains("trim") && is_verdict(words.code), "{words:?}");
    let tree = place.run(&["layers", &here, "--from", file, "--json"]).with_code(0).json();
    assert_eq!(tree["schema"], "ssdlab.layers/1");
    assert_eq!(tree["stacks"][0]["top"], diagnosis["targets"][0]["layers"]);
}

fn trim_of(diagnosis: &Value) -> &Value {
    let checks = diagnosis["targets"][0]["checks"].as_array().unwrap();
    checks.iter().find(|check| check["check"] == "trim").unwrap()
}

#[test]
fn outcomes_are_written_for_prometheus_as_a_whole() {
    let place = Place::new();
    let file = place.path("doctor.prom");
    let here = place.directory("");
    let done = place.run(&["doctor", &here, "--prometheus", file.to_str().unwrap(), "--quiet"]);
    assert!(is_verdict(done.code), "{done:?}");
    let text = std::fs::read_to_string(file).unwrap();
    assert!(text.contains("# TYPE ssdlab_doctor_check gauge"), "{text}");
    assert!(text.contains("check=\"trim\"") && text.ends_with("# EOF\n"), "{text}");
}

#[test]
fn what_is_not_there_or_no_capture_is_said_and_nothing_is_changed() {
    let place = Place::new();
    place.run(&["doctor", "/no/such/place"]).fails(2, &["there is no '/no/such/place'"]);
    place.run(&["layers", "/no/such/place"]).fails(2, &["there is no '/no/such/place'"]);
    place.run(&["doctor", ""]).fails(2, &["there is no ''"]);
    let file = place.file("broken.tar.gz", "no archive");
    place.run(&["doctor", "--from", &file]).fails(2, &["not a captured machine"]);
    place.run(&["layers", "--from", "no-such.tar.gz"]).fails(2, &["there is no such file"]);
    let nowhere = place.path("no/such/capture.tar.gz");
    let here = place.directory("");
    let arguments = ["doctor", &here, "--capture", nowhere.to_str().unwrap()];
    place.run(&arguments).fails(1, &["cannot write"]);
    place.run(&["doctor", "--proof"]).fails(2, &["TARGET"]);
    place.run(&["doctor", "--fix", "wear"]).fails(2, &["automatic-trim", "no fix"]);
    place.run(&["doctor", "--undo", "--fix", "atime"]).fails(2, &["cannot be used with"]);
    if is_root() {
        // There is a terminal for nobody to agree on, or nothing to mend: nothing changes.
        let done = place.run(&["doctor", "--fix", "swappiness"]);
        assert!(done.code == 2 && done.stderr.contains("swappiness"), "{done:?}");
    }
}
