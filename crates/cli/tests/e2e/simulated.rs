//! Runs on simulated drives.

use std::io::Read;

use serde_json::Value;

use crate::report;
use crate::support::Place;

const QUICK: [&str; 4] = ["run", "fragmentation", "--quick", "--json"];

fn column(report: &Value, name: &str) -> Vec<Value> {
    report::column(&report["tables"][0], name)
}

#[test]
fn the_default_run_follows_the_published_protocol() {
    let place = Place::new();
    let done = place.run(&["run", "fragmentation", "--json"]).with_code(0);
    let report = done.json();
    assert_eq!(report["schema"], "ssdlab.report/1");
    assert_eq!(report["experiment"], "fragmentation");
    assert_eq!(report["target"]["kind"], "simulated");
    assert_eq!(report["target"]["name"], "sim:generic-tlc");
    assert_eq!(report["seed"], 1);
    let caveat = report["target"]["caveats"][0].as_str().unwrap();
    assert!(caveat.contains("over-provisioning and garbage collection have no effect"), "{caveat}");
    assert_eq!(report["shortened"], false);
    assert_eq!(report["interrupted"], false);
    assert_eq!(report["tables"][0]["name"], "reads");

    let mib = 1u64 << 20;
    let written: Vec<u64> =
        column(&report, "written_bytes").iter().map(|cell| cell.as_u64().unwrap()).collect();
    assert_eq!(written, [0, 50, 250, 1050, 5050, 5050].map(|amount| amount * mib));
    let numbers = |name| -> Vec<f64> {
        column(&report, name).iter().map(|cell| cell.as_f64().unwrap()).collect()
    };
    let (seconds, slowdown) = (numbers("best_seconds"), numbers("slowdown"));
    assert_eq!(slowdown[0], 1.0);
    assert!(slowdown[4] > 1.5, "{slowdown:?}");
    assert!((seconds[4] / seconds[0] - slowdown[4]).abs() < 1e-9);
    assert!(numbers("mean_mb_per_s").iter().all(|&speed| speed > 1.0));

    assert!(report["counters"]["write_amplification"].as_f64().unwrap() >= 1.0);
    assert!(report["cost"]["simulated_seconds"].as_f64().unwrap() > 3600.0);
    assert_eq!(report["findings"][0]["code"], "reads-slower");
}

#[test]
fn the_text_says_what_was_found_and_what_to_do_next() {
    let place = Place::new();
    let done = place.run(&["run", "fragmentation", "--quick"]).with_code(0);
    for words in ["fragmentation on sim:generic-tlc", "Shortened", "seed=1", "Kept as run 1"] {
        assert!(done.stdout.contains(words), "no {words:?} in:\n{}", done.stdout);
    }
    assert!(done.stdout.contains("ssdlab show last --html report.html"));
    assert_eq!(done.stderr, "");
    assert!(!done.stdout.contains('\x1b'));
    let again = place.run(&["run", "fragmentation", "--quick"]).with_code(0);
    assert!(again.stdout.contains("ssdlab compare 1 2"), "{}", again.stdout);
}

#[test]
fn the_same_seed_gives_the_same_figures_and_another_one_others() {
    let place = Place::new();
    let run = |seed: &str| place.run(&[&QUICK[..], &["--seed", seed]].concat()).with_code(0).json();
    let (first, second, other) = (run("7"), run("7"), run("8"));
    for part in ["tables", "series", "histograms", "findings", "counters"] {
        assert_eq!(first[part], second[part], "{part}");
    }
    assert_eq!(first["seed"], 7);
    assert_ne!(first["tables"], other["tables"]);
}

#[test]
fn without_a_locale_of_unicode_only_ascii_is_drawn() {
    let place = Place::new();
    let mut command = place.command(&["run", "fragmentation", "--quick"]);
    let output = command.env("LC_ALL", "C").output().unwrap();
    assert!(output.stdout.is_ascii());
}

#[test]
fn text_keeps_to_the_width_and_colour_to_what_was_asked_for() {
    let place = Place::new();
    let mut command = place.command(&["run", "fragmentation", "--quick", "--color", "always"]);
    let output = command.env("COLUMNS", "60").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("\x1b["));
    let plain = place.command(&["show", "last"]).env("COLUMNS", "60").output().unwrap();
    let plain = String::from_utf8(plain.stdout).unwrap();
    let longest = plain.lines().map(|line| line.chars().count()).max().unwrap();
    assert!(longest <= 60, "{longest} columns in:\n{plain}");
}

#[test]
fn a_reader_that_leaves_early_is_no_failure() {
    let place = Place::new();
    let mut child = place.start(&QUICK);
    drop(child.stdout.take());
    let status = child.wait().unwrap();
    let mut stderr = String::new();
    child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
    assert_eq!((status.code(), stderr.as_str()), (Some(0), ""));
}

#[test]
fn a_stdout_that_cannot_be_written_is_one() {
    let place = Place::new();
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let mut command = place.command(&QUICK);
    let output = command.stdout(full).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("cannot write to stdout"));
}

#[test]
fn wrong_use_is_named_before_anything_runs() {
    let place = Place::new();
    let run = |arguments: &[&str]| place.run(&[&["run"], arguments].concat());
    run(&["defragmentation"]).fails(2, &["'defragmentation'", "did you mean fragmentation?"]);
    run(&["sim:toshiba-xg5"]).fails(2, &["comes second: ssdlab run fragmentation"]);
    run(&["fragmentation", "--set", "speed=1"]).fails(2, &["'speed'", "there are: file_size"]);
    run(&["fragmentation", "--set", "file_size"]).fails(2, &["NAME=VALUE"]);
    run(&["fragmentation", "--set", "file_size=big"]).fails(2, &["file_size", "'big'", "a size"]);
    run(&["fragmentation", "--set", "file_size=1M"]).fails(2, &["at least 16"]);
    run(&["fragmentation", "--set", "long_rest=31d"]).fails(2, &["long_rest is 31d", "30 days"]);
    run(&["fragmentation", "--set", "long_rest=30d"]).fails(2, &["long_rest is 30d", "30 days"]);
    run(&["fragmentation", "--set", "rest=2d"]).fails(2, &["rest is 2d", "30 days"]);
    run(&["fragmentation", "--set", "rest=500y"]).fails(2, &["rest is 500y", "30 days"]);
    let many = ["fragmentation", "--set", "reads=4000000000"];
    run(&many).fails(2, &["rest is 10s", "reads=4000000000"]);
    run(&["fragmentation", "--seed", "-1"]).fails(2, &["--seed"]);
    run(&["fragmentation", "--speed"]).fails(2, &["--speed"]);
    run(&["fragmentation", "a", "b"]).fails(2, &["'b'"]);
    run(&[]).fails(2, &["<EXPERIMENT>"]);
    assert!(!place.path("runs.sqlite").exists());
}

#[test]
fn weeks_of_rest_are_simulated_too() {
    let place = Place::new();
    let rests = ["--set", "rest=10s", "--set", "long_rest=29d"];
    let report = place.run(&[&QUICK[..], &rests].concat()).with_code(0).json();
    assert!(report["cost"]["simulated_seconds"].as_f64().unwrap() > 29.0 * 86_400.0);
    assert_eq!(report["interrupted"], false);
}

#[test]
fn a_drive_that_is_too_small_for_the_file_cannot() {
    let place = Place::new();
    let run = ["run", "fragmentation", "--set", "file_size=2T"];
    place.run(&run).fails(4, &["sim:generic-tlc holds", "ask for less"]);
    assert!(!place.path("runs.sqlite").exists());
}

#[test]
fn a_page_is_written_where_it_can_be_and_refused_before_the_run_where_it_cannot() {
    let place = Place::new();
    let with_page = |page: &str| place.run(&[&QUICK[..], &["--html", page]].concat());
    place.file("file", "");
    with_page("file/report.html").fails(2, &["file/report.html", "not a directory"]);
    let directory = place.directory("pages");
    with_page(&directory).fails(2, &["that is a directory"]);
    assert!(!place.path("runs.sqlite").exists());

    // A directory that is missing is made, for every file that is written; it goes where none is.
    for option in ["--html", "--hdr", "--csv"] {
        let path = format!("deep{option}/in/file");
        let run = [&QUICK[..], &[option, &path, "--no-store"]].concat();
        place.run(&[&run[..], &["--set", "file_size=2T"]].concat()).with_code(4);
        assert!(!place.path(&format!("deep{option}")).exists(), "{option}");
        place.run(&run).with_code(0);
        assert!(place.path(&path).exists(), "{option}");
    }
    let age = ["precondition", "sim:,scale=1/1024", "-o", "deep/in/aged.ssd", "--quiet"];
    place.run(&age).with_code(0);
    let create = ["create", "sim:,scale=1/1024", "deep/below/disk.ssd", "--quiet"];
    place.run(&create).with_code(0);
    assert!(place.path("deep/in/aged.ssd").exists() && place.path("deep/below/disk.ssd").exists());

    let page =
        place.file("report.html", "<!DOCTYPE html>an older page, much shorter than a report");
    with_page(&page).with_code(0).json();
    let html = std::fs::read_to_string(&page).unwrap();
    assert!(html.starts_with("<!DOCTYPE html>") && html.contains("fragmentation"));

    // So it is with the files for other programs.
    let with_files = |option: &str, path: &str| place.run(&[&QUICK[..], &[option, path]].concat());
    let before = std::fs::metadata(place.path("runs.sqlite")).unwrap().len();
    with_files("--csv", &page).fails(2, &["--csv", "report.html"]);
    with_files("--hdr", &directory).fails(2, &["--hdr", "that is a directory"]);
    assert_eq!(std::fs::metadata(place.path("runs.sqlite")).unwrap().len(), before);
    let too_large = ["run", "fragmentation", "--set", "file_size=2T"];
    let files = ["--csv", "figures", "--hdr", "run.hlog"];
    place.run(&[&too_large[..], &files].concat()).with_code(4);
    assert!(!place.path("figures").exists() && !place.path("run.hlog").exists());

    // A run that could not begin leaves no empty page behind, and an older one as it was.
    let too_large = ["run", "fragmentation", "--set", "file_size=2T", "--html"];
    place.run(&[&too_large[..], &["new.html"]].concat()).with_code(4);
    assert!(!place.path("new.html").exists());
    place.run(&[&too_large[..], &[&page]].concat()).with_code(4);
    assert_eq!(std::fs::read_to_string(&page).unwrap(), html);
}

#[test]
fn the_inside_is_recorded_where_that_was_asked_for_and_changes_no_figure() {
    let place = Place::new();
    let run = ["run", "steady", "sim:generic-tlc,scale=1/64", "--quick", "--no-store"];
    let plain = place.run(&[&run[..], &["--json"]].concat()).with_code(0).json();
    assert!(plain.get("recordings").is_none(), "nobody asked for it");
    let options = ["--record-inside", "--json", "--html", "inside.html"];
    let recorded = place.run(&[&run[..], &options].concat()).with_code(0).json();
    assert_eq!(recorded["tables"], plain["tables"]);
    assert_eq!(recorded["counters"], plain["counters"]);
    let recordings = recorded["recordings"].as_array().unwrap();
    assert_eq!(recordings.len(), 1);
    let pictures = recordings[0]["pictures"].as_array().unwrap();
    assert!((30..=120).contains(&pictures.len()), "{}", pictures.len());
    let page = std::fs::read_to_string(place.path("inside.html")).unwrap();
    assert!(page.contains("data-recording=\"0\"") && page.contains("Inside the drive"));
    let text = place.run(&[&run[..], &["--record-inside"]].concat()).with_code(0).stdout;
    assert!(text.contains("Blocks over the run") && text.contains("|███"), "{text}");
    // Of a file, how its pages lie over the dies as well.
    let file = ["run", "fragmentation", "sim:toshiba-xg5", "--quick", "--record-inside"];
    let scattered = place.run(&[&file[..], &options[1..], &["--no-store"]].concat()).json();
    let table = |name: &str| {
        let all = scattered["tables"].as_array().unwrap();
        all.iter().find(|it| it["name"] == name).unwrap()["rows"].as_array().unwrap().clone()
    };
    let (reads, dies) = (table("reads"), table("one_request"));
    for (reads, dies) in reads.iter().zip(&dies) {
        let (on_average, of_one) = (reads[5].as_f64().unwrap(), dies[1].as_f64().unwrap());
        assert!((on_average / of_one - 1.0).abs() < 0.1, "{reads} {dies}");
    }
    let busiest = |row: &serde_json::Value| row[3].as_u64().unwrap();
    assert!(busiest(&dies[4]) > 3 * busiest(&dies[0]), "{dies:?}");
    let page = std::fs::read_to_string(place.path("inside.html")).unwrap();
    assert!(page.contains("Pages by die") && page.contains("table class=\"heat\""));
    // Nothing was measured yet, and nothing is written.
    let refused = place.run(&["run", "fragmentation", ".", "--record-inside", "--quick"]);
    let refused = refused.with_code(2);
    assert!(refused.stderr.contains("a real one does not show"), "{}", refused.stderr);
}
