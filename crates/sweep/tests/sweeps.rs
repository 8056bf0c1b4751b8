//! Whole sweeps: the same bits in any order of running, errors of points, resuming.

use std::cell::Cell;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use ssdlab_drive::{Control, Drive, DriveError, ErrorKind};
use ssdlab_lab::experiment;
use ssdlab_lab::output::json;
use ssdlab_lab::{LabError, compare};
use ssdlab_sweep::tables::{self, ReportContext};
use ssdlab_sweep::{
    Design, DriveOpener, Options, Results, RunSetup, Sampling, Simulated, State, Sweep,
    SweepRequest, Varied, page, run, schema,
};

/// A sweep that takes some milliseconds a run.
fn question(vary: &[&str]) -> SweepRequest {
    let set = [("file_size", "32M"), ("rest", "0s"), ("reads", "1")];
    SweepRequest {
        experiment: experiment::named("fragmentation").unwrap(),
        targets: vec!["sim:,scale=1/64".to_owned()],
        vary: vary.iter().map(|text| Varied::parse(text).unwrap()).collect(),
        set: set.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec(),
        quick: true,
        seed: 1,
        seeds: 3,
        sampling: Sampling::Grid,
    }
}

const TWO_KEYS: [&str; 2] = ["spare=7%,15%,28%", "flash.page_read=40us,80us"];

fn options<'a>(
    jobs: usize,
    results: Option<&'a Results>,
    opener: &'a dyn DriveOpener,
) -> Options<'a> {
    Options { jobs, results, opener, rest: Duration::ZERO }
}

fn whole(design: &Design, options: &Options) -> Sweep {
    let (impossible, _) = design.check();
    run(design, &impossible, options, &mut |_| Control::Continue).unwrap()
}

fn bytes(sweep: &Sweep) -> Vec<(String, Vec<u8>)> {
    let place = tempfile::tempdir().unwrap();
    tables::write(sweep, place.path()).unwrap();
    let mut files: Vec<_> = std::fs::read_dir(place.path())
        .unwrap()
        .map(|entry| entry.unwrap())
        .map(|entry| {
            (entry.file_name().into_string().unwrap(), std::fs::read(entry.path()).unwrap())
        })
        .collect();
    files.sort();
    assert_eq!(files.len(), 4);
    files
}

#[test]
fn the_same_bits_come_out_with_any_number_of_threads_and_from_results_that_are_there() {
    let design = Design::new(question(&TWO_KEYS)).unwrap();
    let alone = whole(&design, &options(1, None, &Simulated));
    assert_eq!(alone.counts(), (18, 18));
    let expected = bytes(&alone);
    assert!(bytes(&whole(&design, &options(3, None, &Simulated))) == expected);

    // Some of the runs are there, from a sweep in another order with another key in front.
    let place = tempfile::tempdir().unwrap();
    let results = Results::open(place.path(), false).unwrap();
    let other = Design::new(question(&["flash.page_read=80us,160us", "spare=28%,7%"])).unwrap();
    whole(&other, &options(2, Some(&results), &Simulated));
    let again = Counting::default();
    let resumed = whole(&design, &options(2, Some(&results), &again));
    assert!(bytes(&resumed) == expected);
    // 80us with 7% and with 28% were there, three seeds each.
    assert_eq!(again.0.load(Ordering::Relaxed), 12);
    let nothing = Counting::default();
    assert!(bytes(&whole(&design, &options(2, Some(&results), &nothing))) == expected);
    assert_eq!(nothing.0.load(Ordering::Relaxed), 0, "all are there");
}

/// Counts the drives that are opened.
#[derive(Default)]
struct Counting(AtomicUsize);

impl DriveOpener for Counting {
    fn open(&self, case: &RunSetup) -> Result<Box<dyn Drive>, LabError> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Simulated.open(case)
    }
}

#[test]
fn a_sweep_ended_at_any_run_goes_on_to_the_same_bits() {
    let design = Design::new(question(&TWO_KEYS)).unwrap();
    let expected = bytes(&whole(&design, &options(1, None, &Simulated)));
    for end in [0, 1, 5, 17] {
        let place = tempfile::tempdir().unwrap();
        let results = Results::open(place.path(), false).unwrap();
        let ended = Cell::new(0);
        let sweep = run(&design, &[], &options(2, Some(&results), &Simulated), &mut |now| {
            ended.set(now.ended);
            if now.ended >= end { Control::Cancel } else { Control::Continue }
        })
        .unwrap();
        let (done, all) = sweep.counts();
        assert!(sweep.interrupted && done >= end && all == 18, "{done} of {all} at {end}");
        let missing = sweep.runs().filter(|(_, run)| run.state == State::Missing).count();
        assert_eq!(done + missing, all);
        let counting = Counting::default();
        let resumed = whole(&design, &options(2, Some(&results), &counting));
        assert_eq!(counting.0.load(Ordering::Relaxed), missing, "what is there is not made again");
        assert!(bytes(&resumed) == expected);
    }
}

/// Fails some runs.
struct Failing;

impl DriveOpener for Failing {
    fn open(&self, case: &RunSetup) -> Result<Box<dyn Drive>, LabError> {
        let name = case.target.name();
        if name.contains("spare=15%") {
            assert!(!name.contains("80us"), "a mistake of the program");
            return Err(DriveError::new(ErrorKind::Io, "the cable is out").into());
        }
        Simulated.open(case)
    }
}

#[test]
fn an_error_or_a_panic_of_one_point_is_named_and_the_rest_goes_on() {
    let design = Design::new(question(&TWO_KEYS)).unwrap();
    let place = tempfile::tempdir().unwrap();
    let results = Results::open(place.path(), false).unwrap();
    let sweep = whole(&design, &options(2, Some(&results), &Failing));
    assert_eq!(sweep.counts(), (12, 18));
    let failed: Vec<(&str, &str)> = sweep
        .failed()
        .map(|(point, run)| (point.target.as_str(), run.error.as_deref().unwrap()))
        .collect();
    assert_eq!(failed.len(), 6);
    assert!(failed[0].0.contains("spare=15%") && failed[0].1 == "the cable is out", "{failed:?}");
    assert!(failed[5].1.contains("panicked: a mistake of the program"), "{failed:?}");
    let said = sweep.findings.iter().find(|it| it.code == "runs-failed").unwrap();
    assert!(
        said.text.starts_with("6 of 18 runs failed. spare=15% flash.page_read=40us: the cable")
    );
    // What failed is tried again.
    let resumed = whole(&design, &options(2, Some(&results), &Simulated));
    assert_eq!(resumed.counts(), (18, 18));
}

#[test]
fn points_that_cannot_be_are_part_of_the_result() {
    let design = Design::new(question(&["spare=0%,7%,28%"])).unwrap();
    let (impossible, _) = design.check();
    assert_eq!(impossible.len(), 1);
    let sweep = whole(&design, &options(2, None, &Simulated));
    assert_eq!(sweep.counts(), (6, 9));
    assert!(sweep.points[0].runs[0].error.as_deref().unwrap().contains("above 0%"));
    assert_eq!(sweep.points[0].runs[0].key, None);
    assert!(page::render(&sweep).contains("Runs that failed"));
}

#[test]
fn a_key_with_an_effect_is_found_and_one_without_is_said_to_have_none() {
    let design =
        Design::new(question(&["flash.page_read=40us,80us,160us", "trim=on,off"])).unwrap();
    let mut sweep = whole(&design, &options(2, None, &Simulated));
    sweep.select_figures(&["best_seconds".to_owned()]).unwrap();
    let text = |code: &str| {
        let found = sweep.findings.iter().find(|it| it.code == code);
        found.unwrap_or_else(|| panic!("{:?}", sweep.findings)).text.clone()
    };
    assert!(text("effect").contains("flash.page_read=40us to 160us"), "{}", text("effect"));
    let error = sweep.select_figures(&["speed".to_owned()]).unwrap_err();
    assert!(error.contains("no run measured 'speed'"), "{error}");
}

#[test]
fn runs_that_are_not_steady_have_no_figure_and_that_is_said() {
    let question = SweepRequest {
        experiment: experiment::named("steady").unwrap(),
        targets: vec!["sim:,scale=1/512".to_owned()],
        vary: vec![Varied::parse("limit=2s,2m").unwrap()],
        set: vec![("round".to_owned(), "1s".to_owned())],
        ..question(&[])
    };
    let sweep = whole(&Design::new(question).unwrap(), &options(2, None, &Simulated));
    let found = sweep.findings.iter().find(|it| it.code == "runs-without-figures");
    let text = &found.unwrap_or_else(|| panic!("{:?}", sweep.findings)).text;
    assert!(text.starts_with("3 of 6 runs lack a figure"), "{text}");
}

#[test]
fn a_sweep_is_a_report_that_can_be_kept_and_compared() {
    let of = |vary: &[&str]| {
        let design = Design::new(question(vary)).unwrap();
        let sweep = whole(&design, &options(2, None, &Simulated));
        tables::report(&sweep, ReportContext::default())
    };
    let (one, other) = (of(&["spare=7%,28%"]), of(&["spare=7%,15%"]));
    json::check(&one).unwrap();
    assert_eq!(json::from_json(&json::to_json(&one), "one").unwrap(), one);
    assert_eq!(one.tables[0].rows.len(), 2);
    let both = vec![("one".to_owned(), one), ("other".to_owned(), other)];
    let comparison = compare::Comparison::new(both).unwrap();
    assert_eq!(comparison.experiment, "sweep fragmentation");
    assert!(!comparison.tables.is_empty());
}

#[test]
fn the_page_fits_the_number_of_keys() {
    let of = |vary: &[&str], sampling| {
        let design = Design::new(SweepRequest { sampling, seeds: 2, ..question(vary) }).unwrap();
        page::render(&whole(&design, &options(2, None, &Simulated)))
    };
    let (spare, read) = ("spare=7%,15%,28%", "flash.page_read=40us,80us");
    let (trim, program) = ("trim=on,off", "flash.program=600us,900us");
    let has = |page: &str| {
        let of = |word: &str| page.contains(word);
        (
            of("class=\"band"),
            of("<table class=\"heat\""),
            of("<div class=\"multiples\""),
            of("mean over all other keys"),
        )
    };
    assert_eq!(has(&of(&[spare], Sampling::Grid)), (true, false, false, false));
    assert_eq!(has(&of(&[spare, read], Sampling::Grid)), (true, true, false, false));
    assert_eq!(has(&of(&[spare, read, trim], Sampling::Grid)), (true, false, true, false));
    let four = [spare, read, trim, program];
    assert_eq!(has(&of(&four, Sampling::Latin(5))), (true, false, true, true));
}

#[test]
fn the_committed_schema_is_that_of_the_types() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/sweep.schema.json");
    if std::env::var_os("UPDATE_SCHEMA").is_some_and(|value| value == "1") {
        std::fs::write(&path, schema()).expect("docs can be written");
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        committed == schema(),
        "docs/sweep.schema.json is not the schema of the types; if the types are right, regenerate \
         it: UPDATE_SCHEMA=1 cargo test -p ssdlab-sweep schema"
    );
}
