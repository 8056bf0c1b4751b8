//! The comparison table of `fragmentation`, as its source published it: a row for each drive, a column for
//! each step.

use super::{Bars, Cell, Column, Finding, Labelled, Level, Table, format};

/// Name of the report's table with the best read after each step.
const READS: &str = "reads";
/// Name of the comparison's table.
const DRIVES: &str = "drives";

/// One step of one run.
struct Step<'a> {
    name: &'a str,
    written: f64,
    seconds: Option<f64>,
}

/// Returns the table with a row for each drive and a column for each step; `None` if a report has no such
/// steps. All other columns are in the joined table `reads`.
pub(super) fn drives(runs: &[Labelled]) -> Option<Table> {
    let steps: Vec<Vec<Step>> = runs.iter().map(steps_of).collect::<Option<_>>()?;
    let columns = step_names(&steps);
    let mut table = Table {
        name: DRIVES.to_owned(),
        columns: vec![Column::new("drive", "")],
        rows: Vec::new(),
    };
    let names = columns.iter().map(|name| Column::new(*name, "s"));
    table.columns.extend(names);
    table.columns.push(Column::new("slowdown", "x"));
    for (run, steps) in runs.iter().zip(&steps) {
        let mut row = vec![Cell::from(run.label.as_str())];
        row.extend(columns.iter().map(|name| {
            let step = steps.iter().find(|step| step.name == *name);
            Cell::from(step.and_then(|step| step.seconds))
        }));
        // A run that was interrupted has not written everything.
        let slowdown = slowdown(steps).filter(|_| !run.report.interrupted);
        row.push(Cell::from(slowdown));
        table.rows.push(row);
    }
    Some(table)
}

/// Returns true if a joined table repeats figures of the drives' table.
pub(super) fn repeats_drives(joined: &Table) -> bool {
    ["best", "slowdown"].iter().any(|column| joined.name == format!("{READS}: {column}"))
}

fn steps_of(run: &Labelled) -> Option<Vec<Step<'_>>> {
    let table = run.report.table(READS)?;
    let step = table.column("step")?;
    let written = table.column("written_bytes")?;
    let seconds = table.column("best_seconds")?;
    table
        .rows
        .iter()
        .map(|row| match &row[step] {
            Cell::Text(name) => {
                Some(Step { name, written: row[written].number()?, seconds: row[seconds].number() })
            }
            _ => None,
        })
        .collect()
}

/// Returns the steps of all runs, sorted by the bytes written before them. Steps with the same number of
/// bytes (the read after the long rest) are sorted by their place in the run.
fn step_names<'a>(steps: &[Vec<Step<'a>>]) -> Vec<&'a str> {
    let mut all: Vec<(f64, usize, &str)> = Vec::new();
    for (place, step) in steps.iter().flat_map(|steps| steps.iter().enumerate()) {
        if !all.iter().any(|(_, _, name)| *name == step.name) {
            all.push((step.written, place, step.name));
        }
    }
    all.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    all.into_iter().map(|(_, _, name)| name).collect()
}

/// Returns the time of the read after all writes, before the long rest, divided by that of the first read.
fn slowdown(steps: &[Step]) -> Option<f64> {
    let new = steps.first()?;
    let last = last_step(steps)?;
    let ratio = last.seconds? / new.seconds?;
    (steps.len() > 1 && ratio.is_finite()).then_some(ratio)
}

fn last_step<'a, 'b>(steps: &'b [Step<'a>]) -> Option<&'b Step<'a>> {
    let most = steps.iter().map(|step| step.written).fold(0.0, f64::max);
    steps.iter().find(|step| step.written == most)
}

/// Returns label, seconds when new and seconds after all writes, for each row that has all three.
fn slowdowns(drives: &Table) -> Vec<(&str, f64, f64)> {
    let Some(slowdown) = drives.column("slowdown") else {
        return Vec::new();
    };
    drives
        .rows
        .iter()
        .filter_map(|row| {
            let Cell::Text(label) = &row[0] else {
                return None;
            };
            let new = row[1].number()?;
            Some((label.as_str(), new, new * row[slowdown].number()?))
        })
        .collect()
}

/// Returns the slowdown of each drive as bars.
pub(super) fn bars(drives: &Table) -> Option<Bars> {
    let is_ours = drives.name == DRIVES;
    let rows = if is_ours { slowdowns(drives) } else { Vec::new() };
    (!rows.is_empty()).then(|| Bars::slowdown("Best read after all writes", "s", rows.into_iter()))
}

/// Returns the finding about the drives with the largest and the smallest slowdown.
pub(super) fn finding(drives: &Table) -> Option<Finding> {
    let mut rows = slowdowns(drives);
    rows.sort_by(|a, b| (a.2 / a.1).total_cmp(&(b.2 / b.1)));
    let (least, most) = (rows.first()?, rows.last()?);
    if rows.len() < 2 {
        return None;
    }
    let times = |row: &(&str, f64, f64)| format::fixed(row.2 / row.1, 2);
    let text = if times(least) == times(most) {
        format!(
            "After all writes, reading takes {} times as long as when new on all drives.",
            times(most)
        )
    } else {
        format!(
            "After all writes, reading takes {} times as long as when new on {} (the most) and {} \
             times on {} (the least).",
            times(most),
            most.0,
            times(least),
            least.0
        )
    };
    Some(Finding { level: Level::Info, code: "slowdown-range".to_owned(), text })
}
