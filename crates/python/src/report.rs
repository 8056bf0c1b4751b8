//! Reports: their JSON, and their tables, curves and histograms as columns for Python.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyList;
use ssdlab_lab::output::{html, json, text};
use ssdlab_lab::report::{Cell, Report as LabReport, Table};

use crate::failure::Failure;
use crate::numbers::Numbers;

/// A report of a run.
#[pyclass(frozen, module = "ssdlab._ssdlab")]
pub struct Report(Arc<LabReport>);

impl Report {
    /// Creates a handle of `report`.
    pub fn new(report: LabReport) -> Report {
        Report(Arc::new(report))
    }

    /// Returns the report.
    pub fn report(&self) -> &LabReport {
        &self.0
    }
}

/// Column of a table: name, unit, type of its values, values, and a mask of missing values if there are any.
type Column = (String, String, &'static str, Py<PyAny>, Option<Numbers>);

/// Curve: name, units of x and y, values of x and y.
type Series = (String, String, String, Numbers, Numbers);

/// Latency histogram: name, number of requests, mean in microseconds, percentiles, bucket edges in microseconds,
/// counts.
type Histogram = (String, u64, f64, Vec<(f64, f64)>, Numbers, Numbers);

#[pymethods]
impl Report {
    /// Reads a report back; `origin` names its file in errors.
    #[staticmethod]
    fn from_json(py: Python<'_>, text: &str, origin: &str) -> PyResult<Report> {
        let report = py.detach(|| json::from_json(text, origin)).map_err(Failure::from)?;
        Ok(Report::new(report))
    }

    /// The JSON that `ssdlab run --json` prints.
    fn to_json(&self, py: Python<'_>) -> String {
        py.detach(|| json::to_json(&self.0))
    }

    /// The JSON of everything but tables, curves and histograms.
    fn head(&self) -> String {
        let report = &*self.0;
        let head = LabReport {
            tables: Vec::new(),
            series: Vec::new(),
            histograms: Vec::new(),
            schema: report.schema.clone(),
            experiment: report.experiment.clone(),
            target: report.target.clone(),
            parameters: report.parameters.clone(),
            host: report.host.clone(),
            started: report.started.clone(),
            findings: report.findings.clone(),
            counters: report.counters.clone(),
            health: report.health.clone(),
            attribution: report.attribution.clone(),
            recordings: report.recordings.clone(),
            cost: report.cost.clone(),
            ..*report
        };
        json::to_json(&head)
    }

    /// The report for a terminal of so many columns.
    fn text(&self, width: usize) -> String {
        text::render(&self.0, width, false)
    }

    /// The report as a page.
    fn html(&self) -> String {
        html::render(&self.0)
    }

    /// The names of the tables.
    fn table_names(&self) -> Vec<String> {
        self.0.tables.iter().map(|table| table.name.clone()).collect()
    }

    /// The columns of a table, and how many of them say what a row is about.
    fn table(&self, py: Python<'_>, index: usize) -> PyResult<(Vec<Column>, usize)> {
        let table = &self.0.tables[index];
        Ok((columns(py, table)?, table.key_columns()))
    }

    /// The curves.
    fn series(&self) -> Vec<Series> {
        let all = self.0.series.iter().enumerate();
        all.map(|(index, it)| {
            let x = Numbers::within(&self.0, |report| &report.series[index].x);
            let y = Numbers::within(&self.0, |report| &report.series[index].y);
            (it.name.clone(), it.unit_x.clone(), it.unit_y.clone(), x, y)
        })
        .collect()
    }

    /// The latency histograms.
    fn histograms(&self) -> Vec<Histogram> {
        let all = self.0.histograms.iter().enumerate();
        all.map(|(index, it)| {
            let edges = Numbers::within(&self.0, |report| &report.histograms[index].bucket_us);
            let counts = Numbers::within(&self.0, |report| &report.histograms[index].bucket_count);
            let percentiles = it.percentiles.iter().map(|one| (one.percent, one.us)).collect();
            (it.name.clone(), it.count, it.mean_us, percentiles, edges, counts)
        })
        .collect()
    }
}

/// Returns the type of a column: the type of all its cells that are not empty, or text if they differ.
fn kind(table: &Table, column: usize) -> &'static str {
    let mut kind = None;
    for row in &table.rows {
        let one = match &row[column] {
            Cell::Null => continue,
            Cell::Boolean(_) => "bool",
            Cell::Integer(_) => "int",
            Cell::Number(_) => "float",
            Cell::Text(_) => "text",
        };
        kind = match (kind, one) {
            (None, one) => Some(one),
            (Some(known), one) if known == one => Some(one),
            (Some("int" | "float"), "int" | "float") => Some("float"),
            _ => return "text",
        };
    }
    // An empty column was meant for measured numbers.
    kind.unwrap_or("float")
}

/// Returns the columns of a table.
pub fn columns(py: Python<'_>, table: &Table) -> PyResult<Vec<Column>> {
    let mut columns = Vec::with_capacity(table.columns.len());
    for (index, column) in table.columns.iter().enumerate() {
        let kind = kind(table, index);
        let cells = || table.rows.iter().map(|row| &row[index]);
        let missing: Vec<bool> = cells().map(|cell| *cell == Cell::Null).collect();
        let values = match kind {
            "bool" => {
                let all: Vec<bool> = cells().map(|cell| *cell == Cell::Boolean(true)).collect();
                Numbers::of(all).into_pyobject(py)?.into_any()
            }
            "int" => {
                let number = |cell: &Cell| if let Cell::Integer(it) = cell { *it } else { 0 };
                let all: Vec<u64> = cells().map(number).collect();
                Numbers::of(all).into_pyobject(py)?.into_any()
            }
            "float" => {
                let number = |cell: &Cell| cell.number().unwrap_or(f64::NAN);
                let all: Vec<f64> = cells().map(number).collect();
                Numbers::of(all).into_pyobject(py)?.into_any()
            }
            _ => PyList::new(py, cells().map(words))?.into_any(),
        };
        let has_gaps = missing.contains(&true);
        let gaps = has_gaps.then(|| Numbers::of(missing));
        columns.push((column.name.clone(), column.unit.clone(), kind, values.unbind(), gaps));
    }
    Ok(columns)
}

fn words(cell: &Cell) -> Option<String> {
    Some(match cell {
        Cell::Null => return None,
        Cell::Boolean(value) => value.to_string(),
        Cell::Integer(value) => value.to_string(),
        Cell::Number(value) => value.to_string(),
        Cell::Text(text) => text.clone(),
    })
}

/// Several runs of one experiment side by side.
#[pyclass(frozen, module = "ssdlab._ssdlab")]
pub struct Comparison(ssdlab_lab::compare::Comparison);

#[pymethods]
impl Comparison {
    /// The JSON that `ssdlab compare --json` prints.
    fn to_json(&self) -> String {
        json::comparison_to_json(&self.0)
    }

    /// The comparison for a terminal of so many columns.
    fn text(&self, width: usize) -> String {
        text::render_compare(&self.0, width, false)
    }

    /// The comparison as a page.
    fn html(&self) -> String {
        html::render_compare(&self.0)
    }

    /// The names of the tables.
    fn table_names(&self) -> Vec<String> {
        self.0.tables.iter().map(|table| table.name.clone()).collect()
    }

    /// The columns of a table, and how many of them say what a row is about.
    fn table(&self, py: Python<'_>, index: usize) -> PyResult<(Vec<Column>, usize)> {
        let table = &self.0.tables[index];
        Ok((columns(py, table)?, table.key_columns()))
    }
}

/// Puts reports side by side, each with what to call it.
#[pyfunction]
pub fn compare(
    labels: Vec<String>,
    reports: Vec<PyRef<'_, Report>>,
) -> Result<Comparison, Failure> {
    let named = labels.into_iter().zip(reports.iter().map(|it| it.report().clone()));
    Ok(Comparison(ssdlab_lab::compare::Comparison::new(named.collect())?))
}
