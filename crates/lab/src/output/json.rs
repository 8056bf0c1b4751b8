//! The report as JSON: the format for programs, for the store and for `compare`.
//!
//! Reports that are read may come from elsewhere: another schema, a damaged file or an inconsistent table is
//! an error that names the place.

use serde::Deserialize;

use crate::compare::Comparison;
use crate::report::{LatencyHistogram, Report, SCHEMA, Series, Table};

/// Reason why a text is not a report.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReportError {
    /// The text is not JSON, or not the JSON of a report.
    #[error("{origin}, line {line}, column {column}: this is not a report")]
    Malformed {
        /// Name of the file, or of another origin.
        origin: String,
        /// Line of the first error, from 1.
        line: usize,
        /// Column of the first error, from 1; 0 if the text ends at the start of the line.
        column: usize,
        /// The error.
        source: serde_json::Error,
    },
    /// The text is JSON without a schema.
    #[error("{origin}: this is JSON, but no report of ssdlab: it has no \"schema\"")]
    NoSchema {
        /// Name of the file, or of another origin.
        origin: String,
    },
    /// The schema is that of a later version or of another program.
    #[error("{origin}: its schema is {found:?}, and this version of ssdlab reads {SCHEMA:?}")]
    OtherSchema {
        /// Name of the file, or of another origin.
        origin: String,
        /// Schema of the text.
        found: String,
    },
    /// The report is inconsistent.
    #[error("{origin}: {problem}")]
    Shape {
        /// Name of the file, or of another origin.
        origin: String,
        /// The inconsistency.
        problem: ShapeError,
    },
}

/// An inconsistency of a report.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {problem}")]
pub struct ShapeError {
    /// Table, series or histogram, and the place in it.
    pub place: String,
    /// Description.
    pub problem: String,
}

/// Returns the report as indented JSON, with a newline at its end.
pub fn to_json(report: &Report) -> String {
    pretty(report)
}

/// Returns a comparison as indented JSON, with a newline at its end.
pub fn comparison_to_json(comparison: &Comparison) -> String {
    pretty(comparison)
}

/// Returns the JSON schema of a report, with a newline at its end.
pub fn schema() -> String {
    pretty(&schemars::schema_for!(Report))
}

fn pretty(value: &impl serde::Serialize) -> String {
    let mut text =
        serde_json::to_string_pretty(value).expect("its keys are strings and it has no maps");
    text.push('\n');
    text
}

/// Parses a report. `origin` names the file or another origin in errors.
pub fn from_json(text: &str, origin: &str) -> Result<Report, ReportError> {
    #[derive(Deserialize)]
    struct Head {
        schema: Option<String>,
    }
    let malformed = |source: serde_json::Error| ReportError::Malformed {
        origin: origin.to_owned(),
        line: source.line(),
        column: source.column(),
        source,
    };
    // The schema is checked first: a report of a later version would otherwise fail with a misleading error.
    let head: Head = match serde_json::from_str(text) {
        // The text is a list or a number.
        Err(error) if error.is_data() && !text.trim_start().starts_with('{') => {
            Head { schema: None }
        }
        head => head.map_err(malformed)?,
    };
    match head.schema {
        None => {
            return Err(ReportError::NoSchema { origin: origin.to_owned() });
        }
        Some(found) if found != SCHEMA => {
            return Err(ReportError::OtherSchema { origin: origin.to_owned(), found });
        }
        Some(_) => {}
    }
    let report: Report = serde_json::from_str(text).map_err(malformed)?;
    check(&report).map_err(|problem| ReportError::Shape { origin: origin.to_owned(), problem })?;
    Ok(report)
}

/// Checks that the parts of a report are consistent: a cell for every column, as many `x` as `y`, a count for
/// every bucket, and only finite numbers, which JSON can represent.
pub fn check(report: &Report) -> Result<(), ShapeError> {
    report.tables.iter().try_for_each(check_table)?;
    report.series.iter().try_for_each(check_series)?;
    report.histograms.iter().try_for_each(check_histogram)?;
    check_figures(report)
}

/// Checks the figures outside of tables and curves. JSON cannot represent numbers that are not finite: they
/// would become null, which cannot be read back.
fn check_figures(report: &Report) -> Result<(), ShapeError> {
    let finite = |place: &str, numbers: &[f64]| {
        if all_finite(numbers) {
            return Ok(());
        }
        misfit(place.to_owned(), "a number that is not finite")
    };
    let cost = &report.cost;
    let simulated = cost.simulated_seconds.unwrap_or(0.0);
    finite("cost", &[cost.wall_seconds, cost.cpu_seconds, simulated])?;
    if let Some(counters) = &report.counters {
        let amplifications = [counters.write_amplification, counters.data_write_amplification];
        let [all, of_data] = amplifications.map(|it| it.unwrap_or(0.0));
        finite("counters", &[all, of_data, counters.erases_mean])?;
    }
    if let Some(attribution) = &report.attribution {
        let kinds = [&attribution.reads, &attribution.writes, &attribution.others];
        let seconds: Vec<f64> = kinds.into_iter().flatten().map(|part| part.seconds).collect();
        finite("attribution", &seconds)?;
    }
    Ok(())
}

fn misfit(place: String, problem: impl Into<String>) -> Result<(), ShapeError> {
    Err(ShapeError { place, problem: problem.into() })
}

fn check_table(table: &Table) -> Result<(), ShapeError> {
    let columns = table.columns.len();
    if columns == 0 {
        return misfit(format!("table {:?}", table.name), "it has no columns");
    }
    for (index, row) in table.rows.iter().enumerate() {
        let place = || format!("table {:?}, row {}", table.name, index + 1);
        if row.len() != columns {
            let problem = format!("{} cells for {columns} columns", row.len());
            return misfit(place(), problem);
        }
        if row.iter().any(|cell| cell.number().is_some_and(|number| !number.is_finite())) {
            return misfit(place(), "a number that is not finite");
        }
    }
    Ok(())
}

fn check_series(series: &Series) -> Result<(), ShapeError> {
    let place = || format!("series {:?}", series.name);
    if series.x.len() != series.y.len() {
        let problem = format!("{} x values for {} y values", series.x.len(), series.y.len());
        return misfit(place(), problem);
    }
    if !all_finite(&series.x) || !all_finite(&series.y) {
        return misfit(place(), "a number that is not finite");
    }
    Ok(())
}

fn check_histogram(histogram: &LatencyHistogram) -> Result<(), ShapeError> {
    let place = || format!("histogram {:?}", histogram.name);
    let (edges, counts) = (&histogram.bucket_us, &histogram.bucket_count);
    if edges.len() != counts.len() {
        let problem = format!("{} edges for {} counts", edges.len(), counts.len());
        return misfit(place(), problem);
    }
    let percentiles = histogram.percentiles.iter().flat_map(|it| [it.percent, it.us]);
    let are_finite = all_finite(&percentiles.collect::<Vec<_>>());
    if !all_finite(edges) || !histogram.mean_us.is_finite() || !are_finite {
        return misfit(place(), "a number that is not finite");
    }
    if edges.windows(2).any(|pair| pair[0] >= pair[1]) {
        return misfit(place(), "bucket edges that are not in ascending order");
    }
    let counted = counts.iter().fold(0u64, |sum, count| sum.saturating_add(*count));
    if counted != histogram.count {
        let problem = format!("{counted} requests in its buckets, {} in all", histogram.count);
        return misfit(place(), problem);
    }
    Ok(())
}

fn all_finite(numbers: &[f64]) -> bool {
    numbers.iter().all(|number| number.is_finite())
}
