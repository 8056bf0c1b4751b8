//! Which picture a table deserves, whatever draws it.
//!
//! A table whose rows are told apart by their first columns and that measures something is
//! worth a picture: bars, one a row, or curves where the rows are steps of a size. Bytes are
//! taken as a place on the way (how much was written before), not as a measurement, and so are
//! over-provisioning and the capacity it leaves. Numbers that are the same in all rows need no picture.

mod family;
mod grid;

pub(crate) use family::Family;
pub(crate) use grid::Grid;

use super::format::{ColumnFormat, heading, label, unit_words};
use crate::report::{Cell, Table};

/// More rows (or bars, where a row has several) than this are a listing, not a comparison.
const ROWS_MAX: usize = 40;
/// More columns of one unit than this are not told apart in one picture, and to leave some out
/// would mislead.
const MEASURES_MAX: usize = 8;

/// Numbers whose distance is less than this share of the greatest look the same in a picture.
const SAME: f64 = 0.02;

/// So many steps are a course of their own.
const MANY_STEPS: usize = 6;

/// What a table's picture shows.
#[derive(Clone, Debug)]
pub(crate) struct TableChart {
    /// What it shows, such as "Best by step".
    pub(crate) title: String,
    /// What the table is called, and what its rows are, in words.
    table: String,
    rows: String,
    /// Unit of every number in it.
    pub(crate) unit: String,
    /// The name of each row.
    pub(crate) categories: Vec<String>,
    /// True if the rows are rising steps of a number, so that a curve through them means
    /// something.
    pub(crate) is_ordered: bool,
    /// What was measured in each row.
    pub(crate) measures: Vec<Measure>,
    /// How many times the first row's number each row's is, where the table says that.
    pub(crate) slowdown: Vec<Option<f64>>,
}

/// One column of numbers.
#[derive(Clone, Debug)]
pub(crate) struct Measure {
    /// Its name.
    pub(crate) name: String,
    /// Its numbers, one a row.
    pub(crate) values: Vec<Option<f64>>,
    format: ColumnFormat,
}

impl Measure {
    /// A number as the table shows it.
    pub(crate) fn text(&self, value: f64) -> String {
        self.format.number(value)
    }
}

impl TableChart {
    /// The pictures of a table that has any: of its first measurement that is not the same in all
    /// rows, and of the others in the same unit. Where rows are of several operations, each has a picture
    /// of its own.
    pub(crate) fn all(table: &Table) -> Vec<TableChart> {
        let tables = by_operation(table);
        let table = &tables[0];
        let formats = ColumnFormat::of(table);
        // Where rows say their units, their numbers are of different things.
        let is_mixed =
            |index: usize| table.column("unit").is_some() && table.columns[index].unit.is_empty();
        let is_measure = |index: &usize| {
            formats[*index].is_numeric() && !is_place(table, *index) && !is_mixed(*index)
        };
        let numbers: Vec<usize> =
            (table.key_columns()..table.columns.len()).filter(is_measure).collect();
        let is_aged = table.column("slowdown").is_some();
        let is_telling =
            |index: usize| is_aged || tables.iter().any(|table| differs(&values(table, index)));
        let Some(&telling) = numbers.iter().find(|&&index| is_telling(index)) else {
            return Vec::new();
        };
        let unit = &table.columns[telling].unit;
        let is_beside = |index: &usize| {
            *index == telling || !unit.is_empty() && table.columns[*index].unit == *unit
        };
        let shown: Vec<usize> = numbers.into_iter().filter(is_beside).collect();
        let picture =
            |table| TableChart::of_columns(table, &ColumnFormat::of(table), shown.clone());
        tables.iter().filter_map(picture).collect()
    }

    /// The one of [`all`](TableChart::all) to show where there is room for one: in which the numbers
    /// are furthest apart.
    pub(crate) fn of(table: &Table) -> Option<TableChart> {
        let all = TableChart::all(table).into_iter();
        all.reduce(|best, other| if other.spread() > best.spread() { other } else { best })
    }

    /// The pictures of a joined table, whose columns called after the runs are the measurements.
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

    /// Returns how many times the least of its telling numbers the greatest is.
    fn spread(&self) -> f64 {
        let values = || self.telling().values.iter().flatten();
        let least = values().fold(f64::INFINITY, |least, value| least.min(*value));
        let most = values().fold(0.0f64, |most, value| most.max(*value));
        if least > 0.0 { most / least } else { f64::from(u8::from(most > 0.0)) }
    }

    /// The measurement to show where there is room for one: the first, unless that is the same in
    /// all rows and another is not. A bound of an interval is not shown by itself.
    fn telling(&self) -> &Measure {
        let first = &self.measures[0];
        if !self.slowdown.is_empty() || differs(&first.values) {
            return first;
        }
        let is_bound = |measure: &&Measure| matches!(&*measure.name, "from" | "to");
        let mut others = self.measures.iter().filter(|it| !is_bound(it));
        others.find(|measure| differs(&measure.values)).unwrap_or(first)
    }

    /// Returns true if its rows are steps, and so many that their course says more than one over
    /// time.
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
        // What is called like its unit needs no other.
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

/// Returns the heading of a table, or of a part of it that is named after a value: that is left as it is.
fn table_heading(name: &str) -> String {
    match name.split_once(", ") {
        Some((table, part)) => format!("{}, {part}", heading(table, "")),
        None => heading(name, ""),
    }
}

/// A title without its unit, where an axis says which it is drawn in.
pub(crate) fn without_unit<'a>(title: &'a str, unit: &str) -> &'a str {
    title.strip_suffix(&in_unit(unit)).unwrap_or(title)
}

/// ", in seconds" to end a title with; nothing without a unit.
fn in_unit(unit: &str) -> String {
    match unit {
        "" => String::new(),
        unit => format!(", in {}", unit_words(unit)),
    }
}

/// What tells rows apart whose numbers do not compare: four thousand large requests a second are no
/// less than a hundred thousand small ones.
const KIND: &str = "operation";

/// The table, or one for each operation where it has several and something else besides that tells its
/// rows apart: bars of different operations in one picture would only show that they differ.
fn by_operation(table: &Table) -> Vec<Table> {
    let whole = || vec![table.clone()];
    let keys = table.key_columns();
    let Some(column) = table.column(KIND).filter(|&column| column < keys && keys > 1) else {
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

fn is_place(table: &Table, index: usize) -> bool {
    let column = &table.columns[index];
    column.unit == "B" || ["spare", "capacity"].iter().any(|word| column.name.starts_with(word))
}

/// Returns true if numbers are further apart than what is left to chance usually is.
fn differs(values: &[Option<f64>]) -> bool {
    let (least, most) = values
        .iter()
        .flatten()
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), &number| {
            (least.min(number), most.max(number))
        });
    most - least > SAME * most.abs()
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

/// Bars, one a row.
#[derive(Clone, Debug)]
pub(crate) struct Bars {
    /// What they show.
    pub(crate) title: String,
    /// Unit of the numbers.
    pub(crate) unit: String,
    /// What the plain part of a bar is and what the added part is, where there are both.
    pub(crate) parts: Option<(&'static str, &'static str)>,
    /// The bars, from top to bottom.
    pub(crate) rows: Vec<Bar>,
}

/// One bar.
#[derive(Clone, Debug)]
pub(crate) struct Bar {
    /// What it is about.
    pub(crate) label: String,
    /// Its length; `None` where nothing was measured.
    pub(crate) value: Option<f64>,
    /// How much of its length use has added.
    pub(crate) added: f64,
    /// Its number as text, without the unit.
    pub(crate) text: String,
    /// What else to say of it.
    pub(crate) note: String,
}

/// What the parts of a bar are called.
const PARTS: (&str, &str) = ("as when new", "added by use");

impl Bars {
    /// Bars for the most telling measurement of a table. Where the table knows a slowdown, the
    /// part of a bar beyond the first row's is what use has added.
    pub(crate) fn of(chart: &TableChart) -> Bars {
        let measure = chart.telling();
        let new = measure.values.first().copied().flatten();
        let is_ageing = !chart.slowdown.is_empty() && new.is_some();
        let rows = chart.categories.iter().zip(&measure.values).enumerate();
        Bars {
            title: match &chart.measures[..] {
                [_] => chart.title.clone(),
                _ => format!("{}: {} {}", chart.table, measure.name, chart.rows),
            },
            unit: chart.unit.clone(),
            parts: is_ageing.then_some(PARTS),
            rows: rows
                .map(|(index, (category, value))| Bar {
                    label: category.clone(),
                    value: *value,
                    added: match (is_ageing, value, new) {
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

    /// Bars that show what use has done to each of several drives, from (label, new, aged).
    pub(crate) fn ageing<'a>(
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

    /// The longest bar, as long as its value is far from zero; never zero, so that it can be divided by.
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
