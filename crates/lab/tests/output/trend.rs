//! Figures of one drive over the time of its runs.

use ssdlab_lab::compare::Trend;
use ssdlab_lab::report::{Cell, Column, Parameter, Report, Table};

use crate::fixture;

fn report(started: &str, mb: f64, time: &str) -> Report {
    let mut report = fixture::fragmentation("sim:xg5", &fixture::XG5);
    report.started = started.to_owned();
    report.parameters =
        vec![Parameter { name: "time".to_owned(), value: time.to_owned(), changed: false }];
    let columns = ["state", "written", "throughput"].map(|name| Column::new(name, ""));
    let columns = columns.to_vec();
    // As much is written in each run: that is no figure to follow.
    let rows = vec![vec![Cell::from("steady state"), Cell::from(7_u64), Cell::from(mb)]];
    report.tables = vec![Table { name: "speeds".to_owned(), columns, rows }];
    report
}

#[test]
fn a_trend_is_in_days_whatever_order_runs_are_given_in() {
    let runs =
        [report("2026-03-03T12:00:00Z", 90.0, "1h"), report("2026-03-01T00:00:00Z", 100.5, "1h")];
    let trend = Trend::of(&runs).unwrap();
    assert_eq!((trend.runs, trend.left_out), (2, 0));
    assert_eq!(trend.since, "2026-03-01T00:00:00Z");
    assert_eq!(trend.series.len(), 1);
    assert_eq!(trend.series[0].name, "throughput_steady_state");
    assert_eq!(trend.series[0].x, [0.0, 2.5]);
    assert_eq!(trend.series[0].y, [100.5, 90.0]);
}

#[test]
fn the_time_between_runs_is_in_a_unit_that_suits_it() {
    let unit = |last: &str| {
        let runs = [report("2026-03-01T00:00:00Z", 100.5, "1h"), report(last, 90.0, "1h")];
        let trend = Trend::of(&runs).unwrap();
        (trend.series[0].unit_x.clone(), trend.series[0].x[1])
    };
    assert_eq!(unit("2026-03-01T00:00:02.5Z"), ("s".to_owned(), 2.5));
    assert_eq!(unit("2026-03-01T00:03:00Z"), ("min".to_owned(), 3.0));
    assert_eq!(unit("2026-03-02T06:00:00Z"), ("hours".to_owned(), 30.0));
    assert_eq!(unit("2026-03-03T00:00:00Z"), ("days".to_owned(), 2.0));
}

#[test]
fn runs_of_another_protocol_and_unfinished_ones_are_left_out() {
    let mut unfinished = report("2026-03-05T00:00:00Z", 1.5, "1h");
    unfinished.interrupted = true;
    let runs = [
        report("2026-03-01T00:00:00Z", 100.5, "1h"),
        report("2026-03-02T00:00:00Z", 5.5, "2h"),
        report("2026-03-03T00:00:00Z", 90.5, "1h"),
        unfinished,
    ];
    let trend = Trend::of(&runs).unwrap();
    assert_eq!((trend.runs, trend.left_out), (2, 2));
    assert_eq!(trend.series[0].y, [100.5, 90.5]);
    assert_eq!(Trend::of(&runs[..2]), None);
    let same =
        [report("2026-03-01T00:00:00Z", 9.5, "1h"), report("2026-03-02T00:00:00Z", 9.5, "1h")];
    assert!(Trend::of(&same).unwrap().series.is_empty());
}
