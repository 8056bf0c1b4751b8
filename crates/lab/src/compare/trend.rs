//! Trends: figures of one drive over the dates of its runs.

use crate::report::{Cell, Report, Series, Table};

/// Maximum number of figures in a trend: the first ones of the report.
const MAX_FIGURES: usize = 12;

/// Units of the time between runs, each in seconds.
const UNITS: [(&str, f64); 4] = [("days", 86_400.0), ("hours", 3_600.0), ("min", 60.0), ("s", 1.0)];
/// Minimum number of units that the time must have for a unit to be used.
const MIN_UNITS: f64 = 2.0;

/// Figures of runs of one protocol on one drive, over the time since the first run.
#[derive(Clone, Debug, PartialEq)]
pub struct Trend {
    /// Start of the first run, RFC 3339, UTC.
    pub since: String,
    /// Number of runs in the trend.
    pub runs: usize,
    /// Number of runs left out: interrupted ones, and those whose parameters differ from the newest run's.
    pub left_out: usize,
    /// A curve for each figure of the first table, in columns with a figure that changed. `x` is the time
    /// since the first run, in a unit that suits the last run.
    pub series: Vec<Series>,
}

impl Trend {
    /// Returns the trend of `reports`, which must be of one experiment and one drive; `None` if fewer than
    /// two have the parameters of the newest.
    pub fn of(reports: &[Report]) -> Option<Trend> {
        let start = |report: &Report| report.started.parse::<jiff::Timestamp>().ok();
        let mut dated: Vec<(jiff::Timestamp, &Report)> = reports
            .iter()
            .filter(|report| !report.interrupted)
            .filter_map(|report| Some((start(report)?, report)))
            .collect();
        dated.sort_by_key(|(start, _)| *start);
        let newest = dated.last()?.1;
        dated.retain(|(_, report)| is_alike(report, newest));
        let (first, since) = dated.first().map(|(start, report)| (*start, &report.started))?;
        if dated.len() < 2 {
            return None;
        }
        let table = newest.tables.first()?;
        let seconds = |at: jiff::Timestamp| at.duration_since(first).as_secs_f64();
        let (unit_x, unit_s) = unit(seconds(dated.last()?.0));
        let in_run =
            |report: &Report, key: &[Cell], column| value(report.table(&table.name)?, key, column);
        let has_changed = |column: usize| {
            let of = |key: &&[Cell]| {
                let mut values = dated.iter().filter_map(|(_, report)| in_run(report, key, column));
                let first = values.next();
                values.any(|value| Some(value) != first)
            };
            figures(table).filter(|(_, other)| *other == column).any(|(key, _)| of(&key))
        };
        let changed: Vec<bool> = (0..table.columns.len()).map(has_changed).collect();
        let figures = figures(table).filter(|(_, column)| changed[*column]).take(MAX_FIGURES);
        let series = figures.map(|(key, column)| {
            let value = |report: &Report| in_run(report, key, column);
            let points =
                dated.iter().filter_map(|(at, report)| Some((seconds(*at), value(report)?)));
            let (x, y) = points.map(|(x, y)| (x / unit_s, y)).unzip();
            let words: Vec<String> = key.iter().map(words).collect();
            let name = [&[table.columns[column].name.clone()], words.as_slice()].concat().join("_");
            let unit_y = table.columns[column].unit.clone();
            Series { name, unit_x: unit_x.to_owned(), unit_y, x, y }
        });
        Some(Trend {
            since: since.clone(),
            runs: dated.len(),
            left_out: reports.len() - dated.len(),
            series: series.filter(|series| series.x.len() > 1).collect(),
        })
    }
}

/// Returns the largest unit that suits times of up to `seconds`, and the unit in seconds.
fn unit(seconds: f64) -> (&'static str, f64) {
    let [.., least] = UNITS;
    let fits = |(_, unit_s): &(&str, f64)| seconds >= MIN_UNITS * unit_s;
    UNITS.into_iter().find(fits).unwrap_or(least)
}

fn is_alike(one: &Report, other: &Report) -> bool {
    let parameters = |report: &Report| -> Vec<(String, String)> {
        let kept = report.parameters.iter().filter(|it| it.name != "file");
        kept.map(|it| (it.name.clone(), it.value.clone())).collect()
    };
    one.shortened == other.shortened && parameters(one) == parameters(other)
}

/// Returns the keys of the rows, each with every measured column.
fn figures(table: &Table) -> impl Iterator<Item = (&[Cell], usize)> {
    let keys = table.key_columns();
    let rows = table.rows.iter().map(move |row| &row[..keys.min(row.len())]);
    let columns = keys..table.columns.len();
    columns.flat_map(move |column| rows.clone().map(move |key| (key, column)))
}

fn value(table: &Table, key: &[Cell], column: usize) -> Option<f64> {
    let row = table.rows.iter().find(|row| row.starts_with(key))?;
    row.get(column)?.number()
}

fn words(cell: &Cell) -> String {
    match cell {
        Cell::Text(text) => text.replace(' ', "_"),
        Cell::Integer(value) => value.to_string(),
        Cell::Number(value) => value.to_string(),
        Cell::Boolean(value) => value.to_string(),
        Cell::Null => String::new(),
    }
}
