//! Joins tables, curves and latencies by name.

use super::{Cell, Column, ComparedSeries, Curve, Labelled, Table};
use crate::output::format::label;
use crate::report::Series;

/// Joins every table that at least two runs have. Tables of a single run are left out.
pub(super) fn tables(runs: &[Labelled]) -> Vec<Table> {
    names(runs, |run| run.report.tables.iter().map(|table| &*table.name))
        .into_iter()
        .filter_map(|name| {
            let parts: Vec<(&str, &Table)> = runs
                .iter()
                .filter_map(|run| Some((run.label.as_str(), run.report.table(name)?)))
                .filter(|(_, table)| !table.rows.is_empty())
                .collect();
            (parts.len() > 1).then(|| join(name, &parts))
        })
        .flatten()
        .collect()
}

/// Returns the names without duplicates, in the order of their first occurrence.
fn names<'a, Names: Iterator<Item = &'a str>>(
    runs: &'a [Labelled],
    of: impl Fn(&'a Labelled) -> Names,
) -> Vec<&'a str> {
    let mut names: Vec<&str> = Vec::new();
    for name in runs.iter().flat_map(of) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// Key of a row in joined tables: the cells of the key columns, and the number of earlier rows with the same
/// cells.
type Key<'a> = (&'a [Cell], usize);

fn rows_by_key(table: &Table, keys: usize) -> Vec<(Key<'_>, &Vec<Cell>)> {
    let key = |index: usize| &table.rows[index][..keys];
    (0..table.rows.len())
        .map(|index| {
            let before = (0..index).filter(|&other| key(other) == key(index)).count();
            ((key(index), before), &table.rows[index])
        })
        .collect()
}

/// Returns one table for each measurement, with a row for each key of any run and a column for each run.
/// Columns that are equal in all runs stand beside the key columns in every table.
fn join(name: &str, parts: &[(&str, &Table)]) -> Vec<Table> {
    // Columns are matched by name, key columns by position: a table of the same name with another layout (of
    // another version) contributes the columns that can be matched.
    let first = parts[0].1;
    let keys = parts.iter().map(|(_, table)| table.key_columns()).max();
    let keys = keys.unwrap_or(1).min(first.columns.len());
    let parts: Vec<&(&str, &Table)> = parts
        .iter()
        .filter(|(_, table)| table.columns.get(..keys) == first.columns.get(..keys))
        .collect();
    let rows: Vec<Vec<(Key, &Vec<Cell>)>> =
        parts.iter().map(|(_, table)| rows_by_key(table, keys)).collect();
    let mut order: Vec<Key> = Vec::new();
    for (key, _) in rows.iter().flatten() {
        if !order.contains(key) {
            order.push(*key);
        }
    }
    let mut shared = Table {
        name: name.to_owned(),
        columns: first.columns[..keys].to_vec(),
        rows: order.iter().map(|(cells, _)| cells.to_vec()).collect(),
    };
    let mut differing = Vec::new();
    for column in value_columns(&parts, keys) {
        let tables = parts.iter().zip(&rows);
        let mut cells: Vec<Vec<Cell>> =
            tables.map(|((_, table), rows)| cells_of(table, rows, column, &order)).collect();
        if cells.windows(2).all(|pair| pair[0] == pair[1]) {
            append(&mut shared, column.clone(), cells.remove(0));
        } else {
            differing.push((column, cells));
        }
    }
    if differing.is_empty() {
        return vec![shared];
    }
    let measured = differing.into_iter().map(|(column, cells)| {
        let mut table = shared.clone();
        table.name = format!("{name}: {}", label(&column.name, &column.unit));
        for ((label, _), cells) in parts.iter().zip(cells) {
            append(&mut table, Column::new(*label, &*column.unit), cells);
        }
        table
    });
    measured.collect()
}

fn append(table: &mut Table, column: Column, cells: Vec<Cell>) {
    table.columns.push(column);
    for (row, cell) in table.rows.iter_mut().zip(cells) {
        row.push(cell);
    }
}

fn value_columns<'a>(parts: &[&(&'a str, &'a Table)], keys: usize) -> Vec<&'a Column> {
    let mut columns: Vec<&Column> = Vec::new();
    for column in parts.iter().flat_map(|(_, table)| &table.columns[keys..]) {
        if !columns.contains(&column) {
            columns.push(column);
        }
    }
    columns
}

/// Returns the cells of one column of one table, in the joined order.
fn cells_of(
    table: &Table,
    rows: &[(Key, &Vec<Cell>)],
    column: &Column,
    order: &[Key],
) -> Vec<Cell> {
    let index = table.columns.iter().position(|own| own == column);
    order
        .iter()
        .map(|wanted| {
            let row = rows.iter().find(|(key, _)| key == wanted);
            match (row, index) {
                (Some((_, row)), Some(index)) => row[index].clone(),
                _ => Cell::Null,
            }
        })
        .collect()
}

/// Returns a table of the percentiles of every histogram that at least two runs have.
pub(super) fn latencies(runs: &[Labelled]) -> Option<Table> {
    let mut table = Table {
        name: "latencies".to_owned(),
        columns: vec![Column::new("of", ""), Column::new("percentile", "")],
        rows: Vec::new(),
    };
    let columns = runs.iter().map(|run| Column::new(run.label.as_str(), "us"));
    table.columns.extend(columns);
    let all = names(runs, |run| run.report.histograms.iter().map(|histogram| &*histogram.name));
    for name in all {
        let found: Vec<_> = runs
            .iter()
            .map(|run| run.report.histograms.iter().find(|own| own.name == name))
            .collect();
        if found.iter().flatten().count() < 2 {
            continue;
        }
        let mut percents: Vec<f64> = found
            .iter()
            .flatten()
            .flat_map(|histogram| &histogram.percentiles)
            .map(|percentile| percentile.percent)
            .collect();
        percents.sort_by(f64::total_cmp);
        percents.dedup();
        for percent in percents {
            let mut row = vec![Cell::from(label(name, "")), Cell::from(format!("p{percent}"))];
            row.extend(
                found
                    .iter()
                    .map(|histogram| {
                        let percentiles = &histogram.as_ref()?.percentiles;
                        let wanted = percentiles.iter().find(|own| own.percent == percent)?;
                        Some(wanted.us)
                    })
                    .map(Cell::from),
            );
            table.rows.push(row);
        }
    }
    (!table.rows.is_empty()).then_some(table)
}

/// Returns every curve that at least two runs have in the same units.
pub(super) fn series(runs: &[Labelled]) -> Vec<ComparedSeries> {
    names(runs, |run| run.report.series.iter().map(|series| &*series.name))
        .into_iter()
        .filter_map(|name| {
            let own = |run: &'_ Labelled| -> Option<Series> {
                let found = run.report.series.iter().find(|series| series.name == name);
                found.cloned()
            };
            let first = runs.iter().find_map(own)?;
            let curves: Vec<Curve> = runs
                .iter()
                .filter_map(|run| Some((run, own(run)?)))
                .filter(|(_, series)| {
                    series.unit_x == first.unit_x && series.unit_y == first.unit_y
                })
                .map(|(run, series)| Curve { label: run.label.clone(), x: series.x, y: series.y })
                .collect();
            (curves.len() > 1).then_some(ComparedSeries {
                name: name.to_owned(),
                unit_x: first.unit_x,
                unit_y: first.unit_y,
                curves,
            })
        })
        .collect()
}
