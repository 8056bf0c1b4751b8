//! Tables of a sweep: the report for terminal, store and `compare`, and CSV files.

use std::io;
use std::path::Path;

use ssdlab_lab::report::{Cell, Column, Cost, Host, Report, Table, TargetKind};

use crate::results::write_atomically;
use crate::sweep::{State, Sweep};

/// Returns the name of the experiment in a sweep's report.
pub fn experiment_name(sweep: &Sweep) -> String {
    format!("sweep {}", sweep.experiment)
}

/// Returns the table of the figure `measure`: the mean of each point with its interval.
pub fn measure_table(sweep: &Sweep, measure: usize) -> Table {
    let one = &sweep.measures[measure];
    let keys = sweep.dimensions.iter().map(|dimension| Column::new(dimension.key.as_str(), ""));
    let mut columns: Vec<Column> = keys.collect();
    if columns.is_empty() {
        columns.push(Column::new("target", ""));
    }
    for name in ["mean", "from", "to"] {
        columns.push(Column::new(name, one.unit.as_str()));
    }
    columns.push(Column::new("runs", ""));
    let rows = sweep.points.iter().map(|point| {
        let mut row: Vec<Cell> = point.values.iter().map(|value| Cell::from(&**value)).collect();
        if row.is_empty() {
            row.push(Cell::from(point.target.as_str()));
        }
        let estimate = point.estimates[measure];
        let interval = estimate.and_then(|it| it.interval);
        row.push(Cell::from(estimate.map(|it| it.mean)));
        row.push(Cell::from(interval.map(|(low, _)| low)));
        row.push(Cell::from(interval.map(|(_, high)| high)));
        row.push(Cell::from(u64::from(estimate.map_or(0, |it| it.runs))));
        row
    });
    Table { name: one.label.clone(), rows: rows.collect(), columns }
}

/// Parts of a report that are not in the sweep, because they differ each time.
#[derive(Clone, Debug, Default)]
pub struct ReportContext {
    /// Start of the sweep, RFC 3339, UTC.
    pub started: String,
    /// Machine that made the sweep.
    pub host: Host,
    /// Time and memory that the sweep took.
    pub cost: Cost,
    /// Kind of the drives; `None` means simulated.
    pub kind: Option<TargetKind>,
}

/// Returns the sweep as a report, with a table of means and intervals for each figure shown.
pub fn report(sweep: &Sweep, circumstances: ReportContext) -> Report {
    let mut parameters = sweep.parameters.clone();
    for dimension in &sweep.dimensions {
        parameters.push(ssdlab_lab::report::Parameter {
            name: dimension.key.clone(),
            value: dimension.values.join("; "),
            changed: true,
        });
    }
    parameters.push(ssdlab_lab::report::Parameter {
        name: "seeds".to_owned(),
        value: sweep.seeds.len().to_string(),
        changed: true,
    });
    let kind = circumstances.kind.unwrap_or(TargetKind::Simulated);
    Report {
        schema: ssdlab_lab::report::SCHEMA.to_owned(),
        experiment: experiment_name(sweep),
        target: ssdlab_lab::report::Target {
            kind,
            name: sweep.targets.join("; "),
            capacity_bytes: 0,
            engine: match kind {
                TargetKind::Simulated => "virtual time".to_owned(),
                _ => "one run after the other, in random order".to_owned(),
            },
            caveats: Vec::new(),
            facts: Vec::new(),
        },
        seed: sweep.seeds.first().copied().unwrap_or_default(),
        parameters,
        shortened: sweep.shortened,
        interrupted: sweep.interrupted,
        host: circumstances.host,
        started: circumstances.started,
        tables: sweep.charted.iter().map(|&measure| measure_table(sweep, measure)).collect(),
        series: Vec::new(),
        histograms: Vec::new(),
        findings: sweep.findings.clone(),
        counters: None,
        health: None,
        attribution: None,
        recordings: Vec::new(),
        cost: circumstances.cost,
    }
}

/// Writes `sweep.json`, `runs.csv` (one row for each run), `means.csv` (one row for each point and figure) and
/// `sweep.html` to `directory`. Each file appears when it is complete.
///
/// # Errors
/// Returns an error if the file system fails.
pub fn write(sweep: &Sweep, directory: &Path) -> io::Result<()> {
    let html = crate::page::render(sweep);
    let files: [(&str, Vec<u8>); 4] = [
        ("sweep.json", sweep.to_json().into_bytes()),
        ("runs.csv", runs_csv(sweep)?),
        ("means.csv", means_csv(sweep)?),
        ("sweep.html", html.into_bytes()),
    ];
    files.iter().try_for_each(|(name, text)| write_atomically(directory, name, text))
}

fn finish_csv(writer: csv::Writer<Vec<u8>>) -> io::Result<Vec<u8>> {
    writer.into_inner().map_err(|error| io::Error::other(error.to_string()))
}

/// Returns a number with all its digits; empty if there is none.
fn exact_number(value: Option<f64>) -> String {
    value.map_or_else(String::new, |value| value.to_string())
}

fn key_columns(sweep: &Sweep) -> impl Iterator<Item = String> {
    // A key may have the same name as one of our columns: readers distinguish them by their position.
    sweep.dimensions.iter().map(|dimension| dimension.key.clone())
}

fn runs_csv(sweep: &Sweep) -> io::Result<Vec<u8>> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    let own = ["drive", "seed", "state", "error", "key"].map(str::to_owned);
    let measured = sweep.measures.iter().map(|it| match it.unit.as_str() {
        "" => it.name.clone(),
        unit => format!("{} ({unit})", it.name),
    });
    writer.write_record(key_columns(sweep).chain(own).chain(measured))?;
    for (point, run) in sweep.runs() {
        let state = match run.state {
            State::Done => "done",
            State::Failed => "failed",
            State::Missing => "missing",
        };
        let key = run.key.as_ref().map_or("", |key| key.as_str());
        let error = run.error.as_deref().unwrap_or("");
        let own =
            [point.target.as_str(), &run.seed.to_string(), state, error, key].map(str::to_owned);
        let empty = || vec![None; sweep.measures.len()];
        let values = if run.values.is_empty() { empty() } else { run.values.clone() };
        let row =
            point.values.iter().cloned().chain(own).chain(values.into_iter().map(exact_number));
        writer.write_record(row)?;
    }
    finish_csv(writer)
}

fn means_csv(sweep: &Sweep) -> io::Result<Vec<u8>> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    let own = ["drive", "measure", "unit", "mean", "from", "to", "runs"].map(str::to_owned);
    writer.write_record(key_columns(sweep).chain(own))?;
    for point in &sweep.points {
        for (measure, estimate) in sweep.measures.iter().zip(&point.estimates) {
            let Some(estimate) = estimate else { continue };
            let interval = estimate.interval;
            let own = [
                point.target.clone(),
                measure.name.clone(),
                measure.unit.clone(),
                estimate.mean.to_string(),
                exact_number(interval.map(|(low, _)| low)),
                exact_number(interval.map(|(_, high)| high)),
                estimate.runs.to_string(),
            ];
            writer.write_record(point.values.iter().cloned().chain(own))?;
        }
    }
    finish_csv(writer)
}
