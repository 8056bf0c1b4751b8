//! JSON: there and back, and what is refused on the way back.

use std::path::Path;

use ssdlab_lab::output::json::{ReportError, check, from_json, schema, to_json};
use ssdlab_lab::report::{Cell, Report, ReportAttribution, TimePart};

use crate::fixture::{XG5, fragmentation, unknown_experiment};

fn report() -> Report {
    fragmentation("sim:xg5", &XG5)
}

#[test]
fn a_report_comes_back_as_it_was() {
    for mut report in [report(), unknown_experiment(0.7)] {
        report.seed = u64::MAX;
        check(&report).expect("the fixture holds together");
        let text = to_json(&report);
        let back = from_json(&text, "report.json").expect("it was a report");
        assert_eq!(back, report);
        assert!(to_json(&back) == text);
    }
}

#[test]
fn whole_and_fractional_numbers_stay_what_they_are() {
    let mut report = report();
    report.tables[0].rows[0][2] = Cell::Number(2.0);
    report.tables[0].rows[0][3] = Cell::from(f64::NAN);
    let back = from_json(&to_json(&report), "x").expect("it was a report");
    assert_eq!(back.tables[0].rows[0][2], Cell::Number(2.0));
    assert_eq!(back.tables[0].rows[0][3], Cell::Null);
    assert_eq!(back.tables[0].rows[0][1], Cell::Integer(0));
}

#[test]
fn a_report_that_could_not_be_read_back_does_not_hold_together() {
    let with = |change: &dyn Fn(&mut Report)| {
        let mut report = report();
        change(&mut report);
        check(&report).map_err(|error| error.place)
    };
    assert_eq!(with(&|_| ()), Ok(()));
    let nan = f64::NAN;
    for (change, place) in [
        (&(|it: &mut Report| it.cost.cpu_seconds = nan) as &dyn Fn(&mut Report), "cost"),
        (&|it| it.cost.simulated_seconds = Some(f64::INFINITY), "cost"),
        (&|it| it.counters.as_mut().unwrap().erases_mean = nan, "counters"),
        (&|it| it.counters.as_mut().unwrap().write_amplification = Some(nan), "counters"),
        (&|it| it.histograms[0].percentiles[0].us = nan, "histogram"),
        (
            &|it| {
                let parts = vec![TimePart { name: "queue".to_owned(), seconds: nan }];
                it.attribution = Some(ReportAttribution { reads: parts, ..Default::default() });
            },
            "attribution",
        ),
    ] {
        let found = with(change).unwrap_err();
        assert!(found.starts_with(place), "{found}");
    }
}

#[test]
fn broken_json_is_refused_with_its_line_and_column() {
    let text = to_json(&report());
    let cut = &text[..text.len() / 2];
    let error = from_json(cut, "runs/a.json").unwrap_err();
    let ReportError::Malformed { line, column, .. } = &error else {
        panic!("{error:?}");
    };
    assert_eq!(*line, cut.matches('\n').count() + 1);
    assert!(*column > 0);
    let message = error.to_string();
    assert!(
        message.starts_with(&format!("runs/a.json, line {line}, column {column}")),
        "{message}"
    );
}

#[test]
fn a_missing_field_is_refused_with_its_name() {
    let text = to_json(&report()).replace("\"seed\"", "\"sed\"");
    let error = from_json(&text, "a.json").unwrap_err();
    let source = std::error::Error::source(&error).expect("it has a cause");
    assert!(source.to_string().contains("missing field `seed`"), "{source}");
}

#[test]
fn another_schema_is_refused_by_its_name() {
    let text = to_json(&report()).replace("ssdlab.report/1", "ssdlab.report/2");
    let error = from_json(&text, "a.json").unwrap_err();
    assert!(matches!(&error, ReportError::OtherSchema { found, .. } if found == "ssdlab.report/2"));
    for other in ["{\"answer\": 42}", "[]", "[{}]", "42", "null"] {
        let none = from_json(other, "a.json").unwrap_err();
        assert!(matches!(none, ReportError::NoSchema { .. }), "{other}: {none}");
    }
}

#[test]
fn parts_that_do_not_fit_are_refused_with_their_place() {
    let problem = |change: fn(&mut Report)| {
        let mut report = report();
        change(&mut report);
        from_json(&to_json(&report), "a.json").unwrap_err().to_string()
    };
    assert_eq!(
        problem(|report| {
            report.tables[0].rows[2].pop();
        }),
        "a.json: table \"reads\", row 3: 5 cells for 6 columns"
    );
    assert_eq!(
        problem(|report| {
            report.series[0].y.pop();
        }),
        "a.json: series \"read_throughput_fill_1\": 20 x values for 19 y values"
    );
    assert_eq!(
        problem(|report| report.histograms[0].bucket_us.reverse()),
        "a.json: histogram \"read_fill\": bucket edges that are not in ascending order"
    );
    assert!(problem(|report| report.histograms[0].count += 1).contains("in all"));
}

#[test]
fn a_later_field_is_no_error() {
    let text = to_json(&report()).replacen('{', "{\"added_later\": [1],", 1);
    assert!(from_json(&text, "a.json").is_ok());
}

#[test]
fn the_committed_schema_is_that_of_the_types() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/report.schema.json");
    if std::env::var_os("UPDATE_SCHEMA").is_some_and(|value| value == "1") {
        std::fs::write(&path, schema()).expect("docs can be written");
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        committed == schema(),
        "docs/report.schema.json is not the schema of the report's types; if the types are \
         right, regenerate it: UPDATE_SCHEMA=1 cargo test -p ssdlab-lab schema"
    );
}
