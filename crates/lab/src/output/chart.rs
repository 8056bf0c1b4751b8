//! Selects the chart for a table, independently of the output format.
//!
//! A table gets a chart if its first columns identify the rows and it has measurements: a bar for each row,
//! or curves if the rows are rising steps. Bytes (such as the bytes written before) are positions, not
//! measurements, and so are over-provisioning and the capacity it leaves. Numbers that are equal in all rows
//! get no chart.

mod family;
mod grid;

pub(crate) use family::Family;
pub(crate) use grid::Grid;

use super::format::{ColumnFormat, heading, label, unit_words};
use crate::report::{Cell, Table};

/// Maximum number of rows, or of bars, in a chart.
const ROWS_MAX: usize = 40;
/// Maximum number of columns in a chart. More are hard to distinguish, and to leave some out would mislead.
const MEASURES_MAX: usize = 8;

/// Minimum difference of numbers, as a share of the greatest, that is visible in a chart.
const MIN_DIFFERENCE: f64 = 0.02;

/// Number of steps from which the curve over the steps is preferred to the curve over time.
const MANY_STEPS: usize = 6;

/// Chart of a table.
#[derive(Clone, Debug)]
pub(crate) struct TableChart {
    /// Title, such as "Best by step".
    pub(crate) title: String,
    /// Heading of the table; `rows` describes its rows.
    table: String,
    rows: String,
    /// Unit of all numbers.
    pub(crate) unit: String,
    /// Names of the rows.
    pub(crate) categories: Vec<String>,
    /// True if the rows are rising steps of a number, so that a curve through them makes sense.
    pub(crate) is_ordered: bool,
    /// Measurements of the rows.
    pub(crate) measures: Vec<Measure>,
    /// Slowdown of each row against the first one; empty if the table has no such column.
    pub(crate) slowdown: Vec<Option<f64>>,
}

/// One column of numbers.
#[derive(Clone, Debug)]
pub(crate) struct Measure {
    /// Name.
    pub(crate) name: String,
    /// Number of each row.
    pub(crate) values: Vec<Option<f64>>,
    format: ColumnFormat,
}

impl Measure {
    /// Formats a number as the table does.
    pub(crate) fn text(&self, value: f64) -> String {
        self.format.number(value)
    }
}

impl TableChart {
    /// Returns the charts of a table; none if it has nothing to show. A chart has the first measurement that
    /// differs between rows, and all others in the same unit. If rows are of several operations, each
    /// operation has its own chart.
    pub(crate) fn all(table: &Table) -> Vec<TableChart> {
        let tables = by_operation(table);
        let table = &tables[0];
        let formats = ColumnFormat::of(table);
        // If rows have units of their own, the numbers of a column do not compare.
        let is_mixed =
            |index: usize| table.column("unit").is_some() && table.columns[index].unit.is_empty();
        let is_measure = |index: &usize| {
            formats[*index].is_numeric() && !is_position(table, *index) && !is_mixed(*index)
        };
        let numbers: Vec<usize> =
            (table.key_columns()..table.columns.len()).filter(is_measure).collect();
        let has_slowdown = table.column("slowdown").is_some();
        let differs_or_slows = |index: usize| {
            has_slowdown || tables.iter().any(|table| differs(&values(table, index)))
        };
        let Some(&main) = numbers.iter().find(|&&index| differs_or_slows(index)) else {
            return Vec::new();
        };
        let unit = &table.columns[main].unit;
        let is_beside = |index: &usize| {
            *index == main || !unit.is_empty() && table.columns[*index].unit == *unit
        };
        let shown: Vec<usize> = numbers.into_iter().filter(is_beside).collect();
        let picture =
            |table| TableChart::of_columns(table, &ColumnFormat::of(table), shown.clone());
        tables.iter().filter_map(picture).collect()
    }

    /// Returns the chart of [`all`](TableChart::all) with the largest ratio of its numbers, for places with
    /// room for one.
    pub(crate) fn of(table: &Table) -> Option<TableChart> {
        let all = TableChart::all(table).into_iter();
        all.reduce(
            |best, other| if other.value_ratio() > best.value_ratio() { other } else { best },
        )
    }

    /// Returns the charts of a joined table, whose columns named after runs are the measurements.
    pub(crate) fn of_runs(table: &Table, runs: &[&str]) -> Vec<TableChart> {
        let picture = |table: &Table| {
            let formats = ColumnFormat::of(table);
            let measures = (table.key_columns()..table.columns.len())
                .filter(|&index| formats[index].is_numeric())
                .filter(|&index| runs.contains(&&*table.columns[index].name));
            TableChart::of_columns(table, &formats, measures.collect())
        };
        by_operation(table).iter().filter_map(picture).collect()
    }

    /// Returns the ratio of the greatest to the least of the main measurement's numbers.
    fn value_ratio(&self) -> f64 {
        let values = || self.main_measure().values.iter().flatten();
        let least = values().fold(f64::INFINITY, |least, value| least.min(*value));
        let most = values().fold(0.0f64, |most, value| most.max(*value));
        if least > 0.0 { most / least } else { f64::from(u8::from(most > 0.0)) }
    }

    /// Returns the main measurement: the first, or if that is equal in all rows, the first that differs. The
    /// ends of an interval are never the main measurement.
    fn main_measure(&self) -> &Measure {
        let first = &self.measures[0];
        if !self.slowdown.is_empty() || differs(&first.values) {
            return first;
        }
        let is_bound = |measure: &&Measure| matches!(&*measure.name, "from" | "to");
        let mut others = self.measures.iter().filter(|it| !is_bound(it));
        others.find(|measure| differs(&measure.values)).unwrap_or(first)
    }

    /// Returns true if the rows are steps, and so many that their curve says more than one over time.
    pub(crate) fn has_many_steps(&self) -> bool {
        self.is_ordered && self.categories.len() >= MANY_STEPS
    }

    fn of_columns(
        table: &Table,
        formats: &[ColumnFormat],
        columns: Vec<usize>,
    ) -> Option<TableChart> {
        let keys = table.key_columns();
        let unit = &table.columns[*columns.first()?].unit;
        let is_ordered = keys == 1 && is_rising(&values(table, 0));
        let bars = table.rows.len() * columns.len();
        let is_crowded = columns.len() > MEASURES_MAX || (bars > ROWS_MAX && !is_ordered);
        if table.rows.len() < 2 || table.rows.len() > ROWS_MAX || is_crowded {
            return None;
        }
        let measures: Vec<Measure> = columns
            .into_iter()
            .map(|index| Measure {
                name: formats[index].label.clone(),
                values: values(table, index),
                format: formats[index].clone(),
            })
            .collect();
        let key = &table.columns[keys - 1];
        let what = match &measures[..] {
            [only] => format!("{}: {}", table_heading(&table.name), only.name),
            _ => table_heading(&table.name),
        };
        // A measurement that is named after its unit needs no unit.
        let unit_words = match &measures[..] {
            [only] if only.name == *unit => String::new(),
            _ => in_unit(unit),
        };
        let rows = format!("by {}{unit_words}", label(&key.name, &key.unit));
        Some(TableChart {
            title: format!("{what} {rows}"),
            table: table_heading(&table.name),
            rows,
            unit: unit.clone(),
            categories: categories(table, formats, keys),
            is_ordered,
            measures,
            slowdown: table.column("slowdown").map_or_else(Vec::new, |index| values(table, index)),
        })
    }
}

/// Returns the heading of a table. The part of a name after a comma is a value and is left as it is.
fn table_heading(name: &str) -> String {
    match name.split_once(", ") {
        Some((table, part)) => format!("{}, {part}", heading(table, "")),
        None => heading(name, ""),
    }
}

/// Returns a title without its unit, for charts whose axis names the unit.
pub(crate) fn without_unit<'a>(title: &'a str, unit: &str) -> &'a str {
    title.strip_suffix(&in_unit(unit)).unwrap_or(title)
}

/// Returns the unit as the end of a title, such as ", in seconds"; empty without a unit.
fn in_unit(unit: &str) -> String {
    match unit {
        "" => String::new(),
        unit => format!(", in {}", unit_words(unit)),
    }
}

/// Column whose values make rows incomparable: four thousand large requests a second are not less than a
/// hundred thousand small ones.
const OPERATION_COLUMN: &str = "operation";

/// Returns the table split by operation, if it has several operations and another key column; otherwise the
/// whole table. Bars of different operations in one chart would only show that the operations differ.
fn by_operation(table: &Table) -> Vec<Table> {
    let whole = || vec![table.clone()];
    let keys = table.key_columns();
    let Some(column) = table.column(OPERATION_COLUMN).filter(|&column| column < keys && keys > 1)
    else {
        return whole();
    };
    let mut operations: Vec<&Cell> = Vec::new();
    for row in &table.rows {
        if !operations.contains(&&row[column]) {
            operations.push(&row[column]);
        }
    }
    if operations.len() < 2 {
        return whole();
    }
    let of = |operation: &Cell| {
        let Cell::Text(name) = operation else { return None };
        let mut part = table.clone();
        part.name = format!("{}, {name}", table.name);
        part.rows.retain(|row| row[column] == *operation);
        part.rows.iter_mut().for_each(|row| drop(row.remove(column)));
        part.columns.remove(column);
        (part.rows.len() > 1).then_some(part)
    };
    let parts: Option<Vec<Table>> = operations.into_iter().map(of).collect();
    parts.unwrap_or_else(whole)
}

fn is_position(table: &Table, index: usize) -> bool {
    let column = &table.columns[index];
    column.unit == "B" || ["spare", "capacity"].iter().any(|word| column.name.starts_with(word))
}

/// Returns true if the numbers differ by more than chance usually causes.
fn differs(values: &[Option<f64>]) -> bool {
    let (least, most) = values
        .iter()
        .flatten()
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), &number| {
            (least.min(number), most.max(number))
        });
    most - least > MIN_DIFFERENCE * most.abs()
}

fn values(table: &Table, index: usize) -> Vec<Option<f64>> {
    table.rows.iter().map(|row| row.get(index)?.number()).collect()
}

fn is_rising(values: &[Option<f64>]) -> bool {
    values.len() > 3 && values.windows(2).all(|pair| matches!(pair, [Some(a), Some(b)] if a < b))
}

fn categories(table: &Table, formats: &[ColumnFormat], keys: usize) -> Vec<String> {
    table
        .rows
        .iter()
        .map(|row| {
            let names: Vec<String> = row[..keys]
                .iter()
                .zip(formats)
                .map(|(cell, format)| {
                    let unit = if cell.number().is_some() { &*format.unit } else { "" };
                    format!("{} {unit}", format.name(cell)).trim_end().to_owned()
                })
                .collect();
            names.join(", ")
        })
        .collect()
}

/// A chart of horizontal bars.
#[derive(Clone, Debug)]
pub(crate) struct Bars {
    /// Title.
    pub(crate) title: String,
    /// Unit of the numbers.
    pub(crate) unit: String,
    /// Names of the plain and of the added part of a bar; `None` if bars have one part.
    pub(crate) parts: Option<(&'static str, &'static str)>,
    /// The bars, from top to bottom.
    pub(crate) rows: Vec<Bar>,
}

/// One bar.
#[derive(Clone, Debug)]
pub(crate) struct Bar {
    /// Name of the row.
    pub(crate) label: String,
    /// Length; `None` if nothing was measured.
    pub(crate) value: Option<f64>,
    /// Part of the length that preconditioning added.
    pub(crate) added: f64,
    /// Number as text, without its unit.
    pub(crate) text: String,
    /// Remark about the number.
    pub(crate) note: String,
}

/// Names of the parts of a bar.
const PARTS: (&str, &str) = ("as when new", "added by use");

impl Bars {
    /// Returns bars for the main measurement of a table. If the table has a slowdown, the part of each bar
    /// beyond the first row's value is the added part.
    pub(crate) fn of(chart: &TableChart) -> Bars {
        let measure = chart.main_measure();
        let new = measure.values.first().copied().flatten();
        let has_slowdown = !chart.slowdown.is_empty() && new.is_some();
        let rows = chart.categories.iter().zip(&measure.values).enumerate();
        Bars {
            title: match &chart.measures[..] {
                [_] => chart.title.clone(),
                _ => format!("{}: {} {}", chart.table, measure.name, chart.rows),
            },
            unit: chart.unit.clone(),
            parts: has_slowdown.then_some(PARTS),
            rows: rows
                .map(|(index, (category, value))| Bar {
                    label: category.clone(),
                    value: *value,
                    added: match (has_slowdown, value, new) {
                        (true, Some(value), Some(new)) => (value - new).max(0.0),
                        _ => 0.0,
                    },
                    text: value.map_or_else(
                        || super::format::NOTHING.to_owned(),
                        |value| measure.text(value),
                    ),
                    note: times(chart.slowdown.get(index).copied().flatten()),
                })
                .collect(),
        }
    }

    /// Returns bars that show the slowdown of several drives by preconditioning, given (label, new, used).
    pub(crate) fn slowdown<'a>(
        title: &str,
        unit: &str,
        drives: impl Iterator<Item = (&'a str, f64, f64)>,
    ) -> Bars {
        let rows = drives.map(|(label, new, aged)| Bar {
            label: label.to_owned(),
            value: Some(aged),
            added: (aged - new).max(0.0),
            text: super::format::significant(aged),
            note: times((new > 0.0).then(|| aged / new)),
        });
        Bars {
            title: format!("{title}{}", in_unit(unit)),
            unit: unit.to_owned(),
            parts: Some(PARTS),
            rows: rows.collect(),
        }
    }

    /// Returns the largest absolute value of a bar; 1 if all are zero, because callers divide by it.
    pub(crate) fn longest(&self) -> f64 {
        let longest =
            self.rows.iter().filter_map(|bar| bar.value.map(f64::abs)).fold(0.0, f64::max);
        if longest > 0.0 { longest } else { 1.0 }
    }
}

fn times(ratio: Option<f64>) -> String {
    ratio.map_or_else(String::new, |ratio| format!("{} x", super::format::fixed(ratio, 2)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{Cell, Column};

    #[test]
    fn bars_show_what_differs() {
        let column = |name: &str, unit: &str| Column { name: name.into(), unit: unit.into() };
        let row = |pass, extract, delete| {
            vec![Cell::Integer(pass), Cell::Number(extract), Cell::Number(delete)]
        };
        let columns =
            vec![column("pass", ""), column("extract_seconds", "s"), column("delete_seconds", "s")];
        let rows = vec![row(1, 15.6, 1.96), row(2, 15.6, 1.46)];
        let mut table = Table { name: "passes".into(), columns, rows };
        let bars = |table: &Table| Bars::of(&TableChart::of(table).expect("it has a picture"));
        assert_eq!(bars(&table).title, "Passes: delete by pass, in seconds");
        table.rows[1][1] = Cell::Number(12.0);
        assert_eq!(bars(&table).title, "Passes: extract by pass, in seconds");
    }

    #[test]
    fn the_bound_of_an_interval_is_no_picture_of_its_own() {
        let names =
            [("spare", ""), ("mean", "IOPS"), ("from", "IOPS"), ("to", "IOPS"), ("worst", "IOPS")];
        let columns = names.map(|(name, unit)| Column { name: name.into(), unit: unit.into() });
        let row = |spare: &str, bounds: [f64; 2], worst: f64| {
            let numbers = [100.0, bounds[0], bounds[1], worst].map(Cell::Number);
            [vec![Cell::from(spare)], numbers.into()].concat()
        };
        let rows = vec![row("7%", [90.0, 110.0], 50.0), row("28%", [99.0, 101.0], 80.0)];
        let table = Table { name: "points".into(), columns: columns.into(), rows };
        let bars = Bars::of(&TableChart::of(&table).expect("it has a picture"));
        assert!(bars.title.contains("worst"), "{}", bars.title);
    }

    #[test]
    fn rows_of_different_units_are_not_compared() {
        let column = |name: &str, unit: &str| Column { name: name.into(), unit: unit.into() };
        let row = |figure: &str, unit: &str, published, error| {
            let numbers = [published, error].map(Cell::Number);
            [vec![Cell::from(figure), Cell::from(unit)], numbers.into()].concat()
        };
        let table = Table {
            name: "figures".into(),
            columns: vec![
                column("figure", ""),
                column("unit", ""),
                column("published", ""),
                column("error_percent", "%"),
            ],
            rows: vec![row("reads", "us", 64.0, 2.0), row("writes", "IOPS", 71_424.0, 0.5)],
        };
        let picture = TableChart::of(&table).expect("it has a picture");
        assert_eq!(Bars::of(&picture).title, "Figures: error by figure, in %");
    }

    #[test]
    fn requests_of_different_operations_are_not_in_one_picture() {
        let column = |name: &str, unit: &str| Column { name: name.into(), unit: unit.into() };
        let row = |state: &str, operation: &str, iops| {
            vec![Cell::from(state), Cell::from(operation), Cell::Number(iops)]
        };
        let mut table = Table {
            name: "states".into(),
            columns: vec![column("state", ""), column("operation", ""), column("iops", "IOPS")],
            rows: vec![
                row("full", "seq_read", 4196.0),
                row("full", "rand_write", 16_847.0),
                row("trimmed", "seq_read", 4196.0),
                row("trimmed", "rand_write", 60_397.0),
            ],
        };
        let all = TableChart::all(&table);
        let titles: Vec<&str> = all.iter().map(|chart| &*chart.title).collect();
        assert_eq!(
            titles,
            ["States, seq_read: IOPS by state", "States, rand_write: IOPS by state"]
        );
        assert_eq!(all[1].categories, ["full", "trimmed"]);
        assert_eq!(all[1].measures[0].values, [Some(16_847.0), Some(60_397.0)]);
        let one = TableChart::of(&table).expect("it has a picture");
        assert_eq!(one.title, titles[1], "the one that says more");

        let runs = TableChart::of_runs(&table, &["iops"]);
        assert_eq!(runs.len(), 2);
        table.rows.truncate(2);
        assert_eq!(TableChart::all(&table).len(), 1, "the rows are told apart by something else");
    }

    #[test]
    fn numbers_that_are_all_the_same_have_no_picture() {
        let column = |name: &str| Column { name: name.into(), unit: String::new() };
        let row = |when: &str, blocks, old| {
            vec![Cell::from(when), Cell::Integer(blocks), Cell::Integer(old)]
        };
        let mut table = Table {
            name: "sectors".into(),
            columns: vec![column("when"), column("blocks"), column("old_data")],
            rows: vec![row("written", 2048, 2048), row("trimmed", 2048, 0)],
        };
        let chart = TableChart::of(&table).expect("what is left of the old data differs");
        assert_eq!(chart.title, "Sectors: old data by when");
        table.rows.truncate(1);
        table.rows.push(row("trimmed", 2048, 2048));
        assert!(TableChart::of(&table).is_none());
    }
}
