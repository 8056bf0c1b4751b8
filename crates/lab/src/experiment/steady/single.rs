//! A workload measured once for a given time, without a test for steady state.

use ssdlab_drive::{Amount, Phase, PhaseResult};
use ssdlab_units::Nanoseconds;

use crate::error::LabError;
use crate::experiment::Record;
use crate::experiment::job_table::merge_short_last_interval;
use crate::experiment::lows::Lows;
use crate::experiment::phase_runner::PhaseRunner;
use crate::output::format::span;
use crate::report::{Cell, Column, Level, Table};

/// Interval of the points of the curve.
const INTERVAL: Nanoseconds = Nanoseconds::from_secs(1);

/// Window of the lowest mean, in seconds.
const WINDOW: f64 = 60.0;

/// Runs `phase` for `time`.
pub(super) fn run(
    runner: &mut PhaseRunner,
    phase: &Phase,
    time: Nanoseconds,
    weight: f64,
) -> Result<PhaseResult, LabError> {
    let phase = Phase {
        name: "one workload".to_owned(),
        amount: Amount::Time(time),
        interval: INTERVAL,
        ..phase.clone()
    };
    runner.run(&phase, weight)
}

/// Adds the results: a row for reads and one for writes.
pub(super) fn conclude(result: &PhaseResult, record: &mut Record) {
    let seconds = result.elapsed.seconds();
    let mut rows = Vec::new();
    for (name, bytes, latencies) in [
        ("read", result.bytes_read, &result.read_latencies),
        ("write", result.bytes_written, &result.write_latencies),
    ] {
        if latencies.count() == 0 {
            continue;
        }
        let percentile = |percent| Cell::from(latencies.percentile(percent).map(|at| at.micros()));
        rows.push(vec![
            Cell::from(name),
            Cell::from(latencies.count() as f64 / seconds),
            Cell::from(bytes.bytes() as f64 / 1e6 / seconds),
            Cell::from(latencies.mean().map(Nanoseconds::micros)),
            percentile(50.0),
            percentile(99.0),
            percentile(99.9),
        ]);
        record.add_latencies(name, latencies);
    }
    let columns = vec![
        Column::new("operation", ""),
        Column::new("iops", "IOPS"),
        Column::new("mb_per_s", "MB/s"),
        Column::new("mean_us", "us"),
        Column::new("p50_us", "us"),
        Column::new("p99_us", "us"),
        Column::new("p99_9_us", "us"),
    ];
    record.tables.push(Table { name: "measured".to_owned(), columns, rows });
    let mut until = 0.0;
    let points: Vec<(f64, f64)> = merge_short_last_interval(&result.throughput)
        .iter()
        .map(|point| {
            until = point.until.seconds();
            (until, point.mb_per_second())
        })
        .collect();
    record.add_series("throughput".to_owned(), ("s", "MB/s"), &points);
    let spans = merge_short_last_interval(&result.throughput)
        .into_iter()
        .map(|it| (it.length.seconds(), it.mb_per_second()));
    let lows = Lows::of(&spans.collect::<Vec<_>>(), WINDOW, None);
    record.add_finding(
        Level::Info,
        "not-judged",
        format!(
            "Measured once, for {}, without waiting for steady state: later it may be slower. \
             Without time= the drive is measured until it is steady.",
            span(seconds)
        ),
    );
    if let Some(words) = lows.and_then(|lows| lows.sag_sentence("Requests", "MB/s")) {
        record.add_finding(Level::Notice, "sags", words);
    }
}
