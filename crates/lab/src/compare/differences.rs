//! What separates the runs: for every figure the difference from the first of them, with its
//! interval where repeats show how much runs vary by themselves.

use statrs::distribution::{ContinuousCDF, StudentsT};

use super::{Cell, Column, Finding, Labelled, Level, Table, TargetKind};
use crate::output::format::{label, significant};
use crate::report::Parameter;

/// The comparison's table.
const NAME: &str = "differences";

/// Share of intervals that hold the true difference.
const CONFIDENCE: f64 = 0.95;

/// Runs that repeat one another: the same drive, put through the same.
struct Repeats<'a> {
    label: &'a str,
    runs: Vec<&'a Labelled>,
}

/// One figure of two sets of runs.
struct Difference {
    measurement: String,
    of: String,
    unit: String,
    against: String,
    first: f64,
    second: f64,
    /// In percent of the first: the difference, and the ends of its interval.
    percent: f64,
    interval: Option<(f64, f64)>,
}

/// The differences as a table, and what is to be said of them.
pub(super) fn differences(runs: &[Labelled]) -> Option<(Table, Finding)> {
    let groups = groups(runs);
    let (first, others) = groups.split_first()?;
    let mut all = Vec::new();
    for other in others {
        all.extend(between(first, other));
    }
    all.retain(|one| one.first != one.second);
    let finding = finding(&groups, &all)?;
    Some((table(&all, others.len() > 1), finding))
}

/// Runs by drive and parameters; where that tells none apart, each by itself.
fn groups(runs: &[Labelled]) -> Vec<Repeats<'_>> {
    let same = |one: &Labelled, other: &Labelled| {
        let of = |run: &Labelled| -> Vec<(String, String)> {
            let parameters = run.report.parameters.iter();
            let kept = parameters.filter(|it: &&Parameter| it.name != "file");
            kept.map(|it| (it.name.clone(), it.value.clone())).collect()
        };
        one.report.target.name == other.report.target.name && of(one) == of(other)
    };
    let mut groups: Vec<Repeats> = Vec::new();
    for run in runs {
        match groups.iter_mut().find(|group| same(group.runs[0], run)) {
            // A simulated drive repeats itself exactly unless its seed is another one.
            Some(group) if is_again(group, run) => {}
            Some(group) => group.runs.push(run),
            None => groups.push(Repeats { label: &run.label, runs: vec![run] }),
        }
    }
    if groups.len() > 1 {
        return groups;
    }
    runs.iter().map(|run| Repeats { label: &run.label, runs: vec![run] }).collect()
}

fn is_again(group: &Repeats, run: &Labelled) -> bool {
    run.report.target.kind == TargetKind::Simulated
        && group.runs.iter().any(|known| known.report.seed == run.report.seed)
}

fn between(first: &Repeats, other: &Repeats) -> Vec<Difference> {
    let mut found = Vec::new();
    for table in &first.runs[0].report.tables {
        let keys = table.key_columns();
        for column in table.columns.iter().skip(keys) {
            for row in &table.rows {
                let key = &row[..keys.min(row.len())];
                let of = |group: &Repeats| -> Vec<f64> {
                    let values = group.runs.iter();
                    values.filter_map(|run| value(run, &table.name, key, column)).collect()
                };
                let (one, two) = (of(first), of(other));
                if one.is_empty() || two.is_empty() || mean(&one) == 0.0 {
                    continue;
                }
                let (a, b) = (mean(&one), mean(&two));
                let percent = |difference: f64| difference / a.abs() * 100.0;
                let interval = welch(&one, &two);
                found.push(Difference {
                    measurement: format!("{}: {}", table.name, label(&column.name, &column.unit)),
                    of: key.iter().map(words).collect::<Vec<_>>().join(", "),
                    unit: column.unit.clone(),
                    against: other.label.to_owned(),
                    first: a,
                    second: b,
                    percent: percent(b - a),
                    interval: interval.map(|(low, high)| (percent(low), percent(high))),
                });
            }
        }
    }
    found
}

fn value(run: &Labelled, table: &str, key: &[Cell], column: &Column) -> Option<f64> {
    let table = run.report.table(table)?;
    let index = table.columns.iter().position(|own| own == column)?;
    let row = table.rows.iter().find(|row| row.get(..key.len()) == Some(key))?;
    row.get(index)?.number()
}

fn words(cell: &Cell) -> String {
    match cell {
        Cell::Text(text) => text.clone(),
        Cell::Integer(number) => number.to_string(),
        Cell::Number(number) => significant(*number),
        Cell::Boolean(value) => if *value { "yes" } else { "no" }.to_owned(),
        Cell::Null => "-".to_owned(),
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// The interval of the difference of two means whose variances need not be equal (B. L. Welch,
/// Biometrika 34, 1947); `None` where either has no repeats.
fn welch(one: &[f64], two: &[f64]) -> Option<(f64, f64)> {
    if one.len() < 2 || two.len() < 2 {
        return None;
    }
    // The variance of the mean.
    let variance = |values: &[f64]| {
        let (count, mean) = (values.len() as f64, mean(values));
        values.iter().map(|it| (it - mean).powi(2)).sum::<f64>() / (count - 1.0) / count
    };
    let (a, b) = (variance(one), variance(two));
    let difference = mean(two) - mean(one);
    if a + b == 0.0 {
        return Some((difference, difference));
    }
    let part = |variance: f64, count: usize| variance * variance / (count as f64 - 1.0);
    let freedom = (a + b) * (a + b) / (part(a, one.len()) + part(b, two.len()));
    let student = StudentsT::new(0.0, 1.0, freedom).ok()?;
    let half = student.inverse_cdf(0.5 + CONFIDENCE / 2.0) * (a + b).sqrt();
    Some((difference - half, difference + half))
}

fn table(all: &[Difference], several: bool) -> Table {
    let mut columns = vec![Column::new("measurement", ""), Column::new("of", "")];
    columns.extend(several.then(|| Column::new("against the first", "")));
    columns.extend([
        Column::new("unit", ""),
        Column::new("first", ""),
        Column::new("other", ""),
        Column::new("difference_percent", "%"),
        Column::new("from_percent", "%"),
        Column::new("to_percent", "%"),
    ]);
    let row = |one: &Difference| {
        let mut row = vec![Cell::from(one.measurement.as_str()), Cell::from(one.of.as_str())];
        row.extend(several.then(|| Cell::from(one.against.as_str())));
        row.extend([
            Cell::from(one.unit.as_str()),
            Cell::from(one.first),
            Cell::from(one.second),
            Cell::from(one.percent),
            Cell::from(one.interval.map(|(low, _)| low)),
            Cell::from(one.interval.map(|(_, high)| high)),
        ]);
        row
    };
    Table { name: NAME.to_owned(), columns, rows: all.iter().map(row).collect() }
}

fn finding(groups: &[Repeats], all: &[Difference]) -> Option<Finding> {
    let has_intervals = all.iter().any(|one| one.interval.is_some());
    let find =
        |level, code: &str, text: String| Some(Finding { level, code: code.to_owned(), text });
    if !has_intervals {
        let one_each = groups.iter().all(|group| group.runs.len() == 1);
        let who = if one_each { "There is one run of each" } else { "Not all runs are repeated" };
        return find(
            Level::Info,
            "differences-without-interval",
            format!(
                "{who}, so differences have no interval: how much a run varies by itself is not \
                 known. Repeat them (a simulated drive with another --seed) and compare all \
                 together."
            ),
        );
    }
    let is_certain = |one: &&Difference| one.interval.is_some_and(|(low, high)| low * high > 0.0);
    let certain = all.iter().filter(is_certain).count();
    let largest = all
        .iter()
        .filter(is_certain)
        .max_by(|one, other| one.percent.abs().total_cmp(&other.percent.abs()));
    let counts: Vec<String> = groups.iter().map(|group| group.runs.len().to_string()).collect();
    let repeats = counts.join(" and ");
    let text = match largest.and_then(|one| Some((one, one.interval?))) {
        None => format!("With {repeats} runs, no difference is larger than what chance explains."),
        Some((one, (low, high))) => format!(
            "With {repeats} runs, {certain} of {} differences are larger than what chance explains \
             (95 % intervals, Welch); the largest is {} of {}: {} % on {}, between {} and {} %. \
             One in twenty would seem so by chance.",
            all.len(),
            one.measurement,
            one.of,
            significant(one.percent),
            one.against,
            significant(low),
            significant(high)
        ),
    };
    find(Level::Info, "differences", text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_is_that_of_a_textbook() {
        // Equal counts and spreads: df = 4, t(0.975, 4) = 2.7764, standard error sqrt(2/3).
        let (low, high) = welch(&[1.0, 2.0, 3.0], &[11.0, 12.0, 13.0]).unwrap();
        let half = 2.776_445 * (2.0_f64 / 3.0).sqrt();
        assert!((low - (10.0 - half)).abs() < 1e-4, "{low}");
        assert!((high - (10.0 + half)).abs() < 1e-4, "{high}");
    }

    #[test]
    fn one_run_has_no_interval() {
        assert_eq!(welch(&[1.0], &[2.0, 3.0]), None);
        assert_eq!(welch(&[1.0, 1.0], &[2.0, 2.0]), Some((1.0, 1.0)));
    }
}
