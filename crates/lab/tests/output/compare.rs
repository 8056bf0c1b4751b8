//! Runs side by side.

use ssdlab_lab::compare::{CompareError, Comparison};
use ssdlab_lab::output::json::comparison_to_json;
use ssdlab_lab::output::text::render_compare;
use ssdlab_lab::report::{Cell, Fact, Report, TargetKind};

use crate::fixture::{PM983, XG5, fragmentation, unknown_experiment};

fn compare(reports: Vec<(&str, Report)>) -> Result<Comparison, CompareError> {
    let reports = reports.into_iter().map(|(label, report)| (label.to_owned(), report));
    Comparison::new(reports.collect())
}

fn two_drives() -> Comparison {
    compare(vec![
        ("Toshiba XG5", fragmentation("sim:xg5", &XG5)),
        ("Samsung PM983", fragmentation("sim:pm983", &PM983)),
    ])
    .expect("two runs of one experiment")
}

#[test]
fn drives_stand_side_by_side_as_published() {
    let comparison = two_drives();
    let drives = &comparison.tables[0];
    let names: Vec<&str> = drives.columns.iter().map(|column| &*column.name).collect();
    assert_eq!(
        names,
        [
            "drive",
            "fill",
            "50 MiB",
            "250 MiB",
            "1050 MiB",
            "5050 MiB",
            "after the long rest",
            "slowdown"
        ]
    );
    assert_eq!(drives.rows[0][5], Cell::Number(6.8));
    assert_eq!(drives.rows[0][7], Cell::Number(6.8 / 1.9));
    insta::assert_snapshot!(render_compare(&comparison, 100, false));
}

#[test]
fn other_experiments_are_joined_on_what_their_rows_are_about() {
    let mut shorter = unknown_experiment(0.8);
    shorter.tables[0].rows.remove(0);
    let comparison = compare(vec![("new", unknown_experiment(1.0)), ("used", shorter)]).unwrap();
    let names: Vec<&str> = comparison.tables.iter().map(|table| &*table.name).collect();
    assert_eq!(
        names,
        ["throughput: sequential", "throughput: random", "throughput: aligned", "differences"]
    );
    let table = &comparison.tables[0];
    let columns: Vec<&str> = table.columns.iter().map(|column| &*column.name).collect();
    assert_eq!(columns, ["request_bytes", "new", "used"]);
    assert_eq!(table.rows.len(), 12);
    assert_eq!(table.rows[0][2], Cell::Null, "the second run has no such row");
    insta::assert_snapshot!(render_compare(&comparison, 80, false));
}

#[test]
fn what_all_runs_agree_on_stands_once_in_each_table() {
    let runs = vec![("a", unknown_experiment(1.0)), ("b", unknown_experiment(0.5))];
    let comparison = compare(runs).unwrap();
    let columns: Vec<&str> =
        comparison.tables[0].columns.iter().map(|column| &*column.name).collect();
    assert_eq!(columns, ["request_bytes", "aligned", "a", "b"]);
    assert_eq!(comparison.tables[1].name, "throughput: random");
}

#[test]
fn runs_that_are_equal_are_said_to_be() {
    let run = || fragmentation("sim:xg5", &XG5);
    let comparison = compare(vec![("one", run()), ("two", run())]).unwrap();
    let finding = comparison.findings.last().unwrap();
    assert_eq!(finding.code, "no-differences");
    assert!(finding.text.ends_with("figures that can be compared are equal."), "{finding:?}");
}

#[test]
fn what_stands_against_a_comparison_is_said_first() {
    let mut shortened = fragmentation("/srv", &PM983);
    shortened.target.kind = TargetKind::Directory;
    shortened.shortened = true;
    shortened.interrupted = true;
    shortened.parameters[0].value = "1GiB".to_owned();
    let full = || fragmentation("sim:xg5", &XG5);
    let comparison = compare(vec![("xg5", full()), ("srv", shortened), ("xg5", full())]).unwrap();
    let codes: Vec<&str> = comparison.findings.iter().map(|finding| &*finding.code).collect();
    assert_eq!(
        codes,
        [
            "interrupted",
            "shortened-against-full",
            "parameters-differ",
            "simulated-against-real",
            "slowdown-range",
            "differences-without-interval"
        ]
    );
    assert!(comparison.findings[2].text.contains("file (4GiB for xg5, xg5 (2), 1GiB for srv)"));
}

#[test]
fn real_drives_of_which_one_was_measured_on_processors_that_sleep_are_told_apart() {
    let real = |words: Option<&str>| {
        let mut run = fragmentation("/srv", &PM983);
        run.target.kind = TargetKind::Directory;
        let fact = |words: &str| Fact { name: "processors".to_owned(), value: words.to_owned() };
        run.target.facts.extend(words.map(fact));
        run
    };
    let awake = || real(Some("kept awake while measuring (no sleep at all)"));
    let finding = |runs: Vec<(&str, Report)>| {
        let found = compare(runs).unwrap().findings.into_iter();
        found.filter(|finding| finding.code == "processors-differ").map(|it| it.text).next()
    };
    let asleep = real(Some("as the system has it: permission denied"));
    let told = finding(vec![("a", awake()), ("b", asleep), ("c", real(None))]).unwrap();
    assert!(told.contains("in b, c, and were kept awake in the others"), "{told}");
    assert_eq!(finding(vec![("a", awake()), ("b", awake())]), None);
    assert_eq!(finding(vec![("b", real(None)), ("c", real(None))]), None);
    // A simulated drive waits for no processor.
    assert_eq!(finding(vec![("a", awake()), ("xg5", fragmentation("sim:xg5", &XG5))]), None);
}

#[test]
fn a_run_that_was_ended_early_has_no_slowdown_after_all_writes() {
    let mut ended = fragmentation("sim:pm983", &PM983);
    ended.interrupted = true;
    ended.tables[0].rows.truncate(2);
    let xg5 = fragmentation("sim:xg5", &XG5);
    let comparison = compare(vec![("xg5", xg5), ("ended", ended)]).unwrap();
    let drives = &comparison.tables[0];
    let slowdown = drives.column("slowdown").unwrap();
    assert_ne!(drives.rows[0][slowdown], Cell::Null);
    assert_eq!(drives.rows[1][slowdown], Cell::Null);
    let ranges = comparison.findings.iter().filter(|finding| finding.code == "slowdown-range");
    assert_eq!(ranges.count(), 0, "there is one slowdown, and no other to set it against");
}

#[test]
fn equal_runs_have_no_most_and_no_least() {
    let range = |comparison: Comparison| {
        let mut findings = comparison.findings.into_iter();
        findings.find(|finding| finding.code == "slowdown-range").unwrap().text
    };
    let run = || fragmentation("sim:xg5", &XG5);
    let equal = range(compare(vec![("a", run()), ("b", run())]).unwrap());
    assert_eq!(
        equal,
        "After all writes, reading takes 3.58 times as long as when new on all drives."
    );
    assert!(range(two_drives()).contains("(the most) and"));
}

#[test]
fn labels_given_twice_get_a_number() {
    let run = || fragmentation("sim:xg5", &XG5);
    let comparison = compare(vec![("a", run()), ("a (2)", run()), ("a", run())]).unwrap();
    let labels: Vec<&str> = comparison.runs.iter().map(|run| &*run.label).collect();
    assert_eq!(labels, ["a", "a (2)", "a (3)"]);
}

#[test]
fn another_experiment_is_an_error() {
    let error =
        compare(vec![("a", fragmentation("sim:xg5", &XG5)), ("b", unknown_experiment(1.0))])
            .unwrap_err();
    assert_eq!(
        error.to_string(),
        "b is a run of blocksize, a one of fragmentation: only runs of one experiment can be \
         compared"
    );
    let alone = compare(vec![("a", unknown_experiment(1.0))]).unwrap_err();
    assert_eq!(alone, CompareError::TooFew { given: 1 });
}

#[test]
fn a_step_that_only_one_run_has_takes_its_place() {
    let mut half = fragmentation("sim:half", &PM983[..3]);
    half.tables[0].rows[1][0] = "25 MiB".into();
    half.tables[0].rows[1][1] = (25u64 << 20).into();
    let comparison =
        compare(vec![("full", fragmentation("sim:xg5", &XG5)), ("half", half)]).unwrap();
    let names = comparison.tables[0].columns.iter().map(|column| &*column.name);
    let names: Vec<&str> = names.take(5).collect();
    assert_eq!(names, ["drive", "fill", "25 MiB", "50 MiB", "250 MiB"]);
    assert_eq!(comparison.tables[0].rows[0][2], Cell::Null);
}

#[test]
fn a_comparison_is_json_too() {
    let json: serde_json::Value = serde_json::from_str(&comparison_to_json(&two_drives())).unwrap();
    assert_eq!(json["schema"], "ssdlab.comparison/1");
    assert_eq!(json["tables"][0]["rows"][0][1], 1.9);
    assert_eq!(json["runs"][1]["target"], "sim:pm983");
}

#[test]
fn repeats_give_differences_an_interval_and_single_runs_none() {
    let run = |target: &str, seed: u64, scale: f64| {
        let mut report = unknown_experiment(scale);
        (report.target.name, report.seed) = (target.to_owned(), seed);
        (target.to_owned(), report)
    };
    let of = |runs: Vec<(String, Report)>| Comparison::new(runs).unwrap();
    let single = of(vec![run("a", 1, 1.0), run("b", 1, 1.1)]);
    let code = |comparison: &Comparison| comparison.findings.last().unwrap().code.clone();
    assert_eq!(code(&single), "differences-without-interval");
    let table = single.tables.last().unwrap();
    assert_eq!(table.name, "differences");
    let last = table.columns.len() - 1;
    assert!(table.rows.iter().all(|row| row[last] == Cell::Null));
    let repeated =
        of(vec![run("a", 1, 1.0), run("a", 2, 1.01), run("b", 1, 1.2), run("b", 2, 1.21)]);
    assert_eq!(code(&repeated), "differences");
    let table = repeated.tables.last().unwrap();
    let number = |column: usize| table.rows[0][column].number().unwrap();
    let (difference, low, high) = (number(last - 2), number(last - 1), number(last));
    assert!(low < difference && difference < high && low > 0.0, "{low} {difference} {high}");
    // The same seed again is the same run again.
    let again = of(vec![run("a", 1, 1.0), run("a", 1, 1.0), run("b", 1, 1.2), run("b", 1, 1.2)]);
    assert_eq!(code(&again), "differences-without-interval");
}

#[test]
fn runs_of_one_drive_are_told_apart_by_what_differs() {
    let run = |seed, file: &str| {
        let mut report = fragmentation("sim:xg5", &XG5);
        report.seed = seed;
        report.parameters[0].value = file.to_owned();
        ("sim:xg5".to_owned(), report)
    };
    let labels = |runs: Vec<(String, Report)>| -> Vec<String> {
        Comparison::new(runs).unwrap().runs.into_iter().map(|run| run.label).collect()
    };
    let seeds = labels(vec![run(1, "4GiB"), run(2, "4GiB")]);
    assert_eq!(seeds, ["sim:xg5, seed 1", "sim:xg5, seed 2"]);
    let files = labels(vec![run(1, "4GiB"), run(1, "1GiB")]);
    assert_eq!(files, ["sim:xg5, file=4GiB", "sim:xg5, file=1GiB"]);
    let same = labels(vec![run(1, "4GiB"), run(1, "4GiB")]);
    assert_eq!(same, ["sim:xg5", "sim:xg5 (2)"]);
    let other = ("sim:pm983".to_owned(), fragmentation("sim:pm983", &PM983));
    let two = labels(vec![run(1, "4GiB"), other]);
    assert_eq!(two, ["sim:xg5", "sim:pm983"]);
    let mixed = labels(vec![run(1, "4GiB"), run(2, "4GiB"), run(2, "4GiB")]);
    assert_eq!(mixed, ["sim:xg5, seed 1", "sim:xg5, seed 2", "sim:xg5, seed 2 (2)"]);
}
