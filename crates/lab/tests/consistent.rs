//! No report contradicts itself: all experiments on several drives, quick, to their end and interrupted.

use std::path::Path;

use ssdlab_blockio::RealOptions;
use ssdlab_drive::Control;
use ssdlab_lab::experiment::{self, Experiment, Kind, Watcher};
use ssdlab_lab::quick::quick;
use ssdlab_lab::report::{Cell, Report};
use ssdlab_lab::{Target, run};

const DRIVES: [&str; 5] = [
    "sim:generic-tlc,scale=1/256",
    "sim:generic-tlc,scale=1/256,spare=3%",
    "sim:goodram-c50-120,scale=1/32",
    "sim:samsung-pm983,scale=1/256,spare=28%",
    "usb(sim:generic-tlc,scale=1/256),flush=swallow",
];

/// Cancels when it is told of progress for this time.
struct Impatient {
    calls_left: u32,
}

impl Watcher for Impatient {
    fn step(&mut self, _: &str, _: f64) {}

    fn progress(&mut self, _: f64) -> Control {
        match self.calls_left.checked_sub(1) {
            Some(left) => {
                self.calls_left = left;
                Control::Continue
            }
            None => Control::Cancel,
        }
    }
}

/// Returns what is set so that it takes no longer than it must.
fn settings_of(experiment: &dyn Experiment, files: &Path) -> Vec<(String, String)> {
    let mut set: Vec<(&str, String)> = match experiment.name() {
        "discard" => vec![("entries", "300".to_owned()), ("size", "3MB".to_owned())],
        "barrier" => vec![
            ("inserts", "20".to_owned()),
            ("operations", "256".to_owned()),
            ("area", "64M".to_owned()),
        ],
        "random-write" => vec![("time", "65s".to_owned()), ("sizes", "4K,64K".to_owned())],
        "blocksize" => vec![("time", "200ms".to_owned()), ("sizes", "4K,64K,1M".to_owned())],
        "overprovision" => vec![
            ("time", "2s".to_owned()),
            ("limit", "6s".to_owned()),
            ("states", "full,trimmed,raid1_full,raid1_spare".to_owned()),
        ],
        _ => Vec::new(),
    };
    if let Some(spec) = experiment.parameters().iter().find(|spec| spec.kind == Kind::File) {
        set.push((spec.name, files.join(experiment.name()).display().to_string()));
    }
    set.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

fn report(experiment: &dyn Experiment, drive: &str, files: &Path, calls: u32) -> Report {
    let target = Target::seeded(drive, 1).unwrap();
    let set = settings_of(experiment, files);
    let (settings, target) = quick(experiment, target, 1, &set).unwrap();
    let mut drive = target.open(&RealOptions::default()).unwrap();
    run(experiment, &settings, 1, &mut *drive, &mut Impatient { calls_left: calls }).report
}

/// Pairs of findings of which the one denies the other.
const CONTRADICTIONS: [[&str; 2]; 9] = [
    ["steady", "not-reached"],
    ["steady", "theory-not-steady"],
    ["not-reached", "theory-agrees"],
    ["not-reached", "theory-differs"],
    ["writes-steady", "writes-slower"],
    ["believable", "not-believable"],
    ["kept-up", "not-kept-up"],
    ["spare-matters", "spare-no-matter"],
    ["scaled", "shortened"],
];

/// Codes that say how the run was made, and nothing of the drive.
const OF_THE_RUN: [&str; 10] = [
    "not-finished",
    "scaled",
    "shortened",
    "not-made-new",
    "job-options",
    "trace",
    "no-fua",
    "tree",
    "addresses-scaled",
    "addresses-wrapped",
];

fn column(report: &Report, table: &str, name: &str) -> Vec<Cell> {
    let Some(table) = report.table(table) else { return Vec::new() };
    let Some(index) = table.column(name) else { return Vec::new() };
    table.rows.iter().map(|row| row[index].clone()).collect()
}

/// Everything in which a report contradicts itself.
fn contradictions(report: &Report) -> Vec<String> {
    let codes: Vec<&str> = report.findings.iter().map(|it| it.code.as_str()).collect();
    let count = |code: &str| codes.iter().filter(|it| **it == code).count();
    let mut found = Vec::new();
    for pair in CONTRADICTIONS {
        // A report of several states may hold both of one pair, each of a state of its own.
        let of_states = report.experiment == "overprovision" && pair.contains(&"not-reached");
        if pair.iter().all(|code| codes.contains(code)) && !of_states {
            found.push(format!("{} and {}", pair[0], pair[1]));
        }
    }
    let caveats = report.target.caveats.join("; ");
    let erases = report.counters.as_ref().map_or(0, |it| it.erases);
    if caveats.contains("garbage collection have no effect") && erases > 0 {
        found.push(format!("garbage collection had no effect, with {erases} erases"));
    }
    if caveats.contains("before its flash was written once") && erases == 0 {
        found.push("its flash was never written once".to_owned());
    }
    let unsteady = column(report, "states", "steady");
    let unsteady = unsteady.iter().filter(|it| **it == Cell::from(false)).count();
    if report.experiment == "overprovision" && unsteady != count("not-reached") {
        found.push(format!("{unsteady} rows are not steady, {} findings", count("not-reached")));
    }
    if report.experiment == "steady" {
        let reached = column(report, "steady", "reached").first() == Some(&Cell::from(true));
        if reached != codes.contains(&"steady") {
            found.push("the table and the first finding".to_owned());
        }
        let shown = column(report, "steady", "write_amplification");
        let shown = shown.first().and_then(Cell::number);
        let theory = report.findings.iter().find(|it| it.code.starts_with("theory-"));
        if let (Some(shown), Some(theory)) = (shown, theory) {
            let said = theory.text.split_whitespace().find_map(|word| word.parse::<f64>().ok());
            let said = said.expect("it begins with the figure");
            if (said / shown - 1.0).abs() > 0.02 {
                found.push(format!("write amplification {shown} in the table: {}", theory.text));
            }
        }
    }
    let is_empty = report.tables.iter().all(|table| table.rows.is_empty());
    if is_empty && report.interrupted {
        let said = codes.iter().filter(|code| !OF_THE_RUN.contains(code));
        found.extend(said.map(|code| format!("nothing was measured, and {code} is said")));
    }
    if report.interrupted {
        for claim in ["every request size", "a longer --set limit", "in every state"] {
            // A row of 'overprovision' was measured to its limit; how many there are by then, the machine decides.
            let is_of_a_row =
                claim == "a longer --set limit" && report.experiment == "overprovision";
            if !is_of_a_row && report.findings.iter().any(|it| it.text.contains(claim)) {
                found.push(format!("interrupted, and '{claim}'"));
            }
        }
    }
    found
}

fn files() -> tempfile::TempDir {
    let files = tempfile::tempdir().unwrap();
    let job = "[mix]\ndirect=1\nioengine=libaio\nrw=randrw\nbs=4k\nsize=64m\niodepth=4\n";
    std::fs::write(files.path().join("job"), job).unwrap();
    // A trace of MSR's: ticks of 100 ns, host, disk, kind, offset, size, response.
    let line = |index: u64| {
        let kind = if index.is_multiple_of(3) { "Read" } else { "Write" };
        let offset = index * 7919 % 8192 * 4096;
        format!("{},host,0,{kind},{offset},4096,100\n", 128166372003061629 + index * 10_000)
    };
    std::fs::write(files.path().join("replay"), (0..500).map(line).collect::<String>()).unwrap();
    files
}

fn check(calls: &[u32]) {
    let files = files();
    for experiment in experiment::all() {
        for drive in DRIVES {
            for &calls in calls {
                let report = report(*experiment, drive, files.path(), calls);
                let found = contradictions(&report);
                let name = experiment.name();
                assert!(found.is_empty(), "{name} on {drive}, {calls}: {found:#?}\n{report:#?}");
            }
        }
    }
}

#[test]
fn no_report_contradicts_itself() {
    check(&[u32::MAX]);
}

#[test]
fn an_interrupted_report_speaks_of_nothing_that_was_not_measured() {
    check(&[0, 1, 3, 9]);
}

#[test]
fn a_slow_drive_is_given_up_at_the_limit_too() {
    // At depth 32 it takes many seconds to answer what is in flight at the end of a round.
    let experiment = experiment::named("steady").unwrap();
    let target = Target::seeded("sim:kingston-dti-4", 1).unwrap();
    let set = [("limit".to_owned(), "1m".to_owned())];
    let (settings, target) = quick(experiment, target, 1, &set).unwrap();
    let mut drive = target.open(&RealOptions::default()).unwrap();
    let report =
        run(experiment, &settings, 1, &mut *drive, &mut Impatient { calls_left: u32::MAX }).report;
    let minutes = &report.series[0].x;
    let last_round = minutes[minutes.len() - 1] - minutes[minutes.len() - 2];
    assert!(last_round > 0.1, "a round takes {last_round} minutes: the drive is not slow");
    assert!(minutes[minutes.len() - 2] <= 1.1, "{minutes:?}");
}
