//! The store: where runs are kept, and that trouble with it does not cost a report.

use std::fs;

use crate::support::{Done, Place};

const QUICK: [&str; 4] = ["run", "fragmentation", "--quick", "--json"];

fn with_store(place: &Place, store: &str) -> Done {
    place.run(&[&QUICK[..], &["--store", store]].concat())
}

/// The run was fine and its report is there; only keeping it was not possible.
#[track_caller]
fn is_only_warned(done: Done, words: &str) {
    let done = done.with_code(0);
    assert_eq!(done.json()["experiment"], "fragmentation");
    for words in ["warning: the run was not kept", "way out: --store PATH", words] {
        assert!(done.stderr.contains(words), "no {words:?} in:\n{}", done.stderr);
    }
}

#[test]
fn a_run_is_kept_shown_and_listed() {
    let place = Place::new();
    let printed = place.run(&QUICK).with_code(0);
    assert_eq!(printed.stderr, "");
    place.run(&["run", "fragmentation", "sim:toshiba-xg5", "--quick"]).with_code(0);

    let shown = place.run(&["show", "1", "--json"]).with_code(0);
    assert_eq!(shown.stdout, printed.stdout);
    assert_eq!(place.run(&["show", "last~1", "--json"]).with_code(0).stdout, printed.stdout);
    assert!(place.run(&["show", "last"]).with_code(0).stdout.contains("sim:toshiba-xg5"));

    let page = place.run(&["show", "last", "--html", "page.html"]).with_code(0);
    assert_eq!((page.stdout.as_str(), page.stderr.as_str()), ("", "Wrote page.html\n"));
    assert!(fs::read_to_string(place.path("page.html")).unwrap().contains("toshiba-xg5"));

    let runs = place.run(&["list", "runs", "--json"]).with_code(0).json();
    assert_eq!((&runs[0]["id"], &runs[1]["id"]), (&2.into(), &1.into()));
    assert!(place.run(&["list", "runs"]).with_code(0).stdout.contains("(shortened)"));
}

#[test]
fn a_store_is_named_by_the_option_the_variable_or_the_data_directory() {
    let place = Place::new();
    with_store(&place, "deep/other.sqlite").with_code(0);
    assert!(place.path("deep/other.sqlite").exists() && !place.path("runs.sqlite").exists());
    place.run(&QUICK).with_code(0);
    assert!(place.path("runs.sqlite").exists());
    let mut command = place.command(&QUICK);
    command.env("SSDLAB_STORE", "").env("XDG_DATA_HOME", place.path("data"));
    Done::of(command.output().unwrap()).with_code(0);
    assert!(place.path("data/ssdlab/runs.sqlite").exists());
}

#[test]
fn a_run_that_is_not_to_be_kept_is_not() {
    let place = Place::new();
    let done = place.run(&["run", "fragmentation", "--quick", "--no-store"]).with_code(0);
    assert!(!done.stdout.contains("Kept as"));
    assert!(!place.path("runs.sqlite").exists());
    place.run(&[&QUICK[..], &["--no-store", "--store", "x"]].concat()).fails(2, &["--no-store"]);
}

#[test]
fn a_store_that_is_damaged_is_left_as_it_is() {
    let place = Place::new();
    let store = place.file("damaged.sqlite", "no database at all, but a diary ".repeat(100));
    let before = fs::read(&store).unwrap();
    is_only_warned(with_store(&place, &store), "move it away");
    assert_eq!(fs::read(&store).unwrap(), before);
    place.run(&["list", "runs", "--store", &store]).fails(1, &["damaged"]);
    place.run(&["show", "last", "--store", &store]).fails(1, &["damaged"]);
}

#[test]
fn a_store_that_cannot_be_written_costs_no_report() {
    let place = Place::new();
    let directory = place.directory("a-directory");
    is_only_warned(with_store(&place, &directory), "is a directory, and a store is a file");
    place
        .run(&["list", "runs", "--store", &directory])
        .fails(1, &["is a directory", "runs.sqlite"]);
    is_only_warned(with_store(&place, "/proc/self/runs.sqlite"), "cannot open or create");
}

#[test]
fn a_store_of_a_later_version_is_left_as_it_is() {
    let place = Place::new();
    place.run(&QUICK).with_code(0);
    // The layout's number stands in the header of a SQLite file, at offset 60.
    let mut bytes = fs::read(place.path("runs.sqlite")).unwrap();
    bytes[60..64].copy_from_slice(&99u32.to_be_bytes());
    let store = place.file("later.sqlite", &bytes);
    is_only_warned(with_store(&place, &store), "layout 99");
    assert_eq!(fs::read(&store).unwrap(), bytes);
    place.run(&["show", "last", "--store", &store]).fails(1, &["layout 99"]);
}

#[test]
fn runs_that_are_not_there_are_wrong_use() {
    let place = Place::new();
    place.run(&["show", "last"]).fails(2, &["no runs are kept"]);
    assert_eq!(place.run(&["list", "runs", "--json"]).with_code(0).stdout, "[]\n");
    let empty = place.run(&["list", "runs"]).with_code(0);
    assert!(empty.stdout.is_empty() && empty.stderr.contains("ssdlab run fragmentation"));
    assert!(!place.path("runs.sqlite").exists());
    place.run(&QUICK).with_code(0);
    place.run(&["show", "7"]).fails(2, &["there is no run 7"]);
    place.run(&["show", "last~1"]).fails(2, &["there is no run last~1"]);
    place.run(&["show", "newest"]).fails(2, &["\"newest\"", "last~1"]);
}
