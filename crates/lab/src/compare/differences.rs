//! Differences between runs: for each figure the difference from the first run, with a confidence interval if
//! repeats show the scatter of runs.
//!
//! A report has many figures, and one of twenty 95 % intervals misses the true value. So the test for a
//! difference corrects for the number of figures (S. Holm, Scandinavian Journal of Statistics 6, 1979): of a
//! hundred comparisons of a drive with itself at most five find a difference.

use statrs::distribution::{ContinuousCDF, StudentsT};

use super::{Cell, Column, Finding, Labelled, Level, Table, TargetKind};
use crate::output::format::{label, significant};
use crate::report::Parameter;

/// Name of the table.
const NAME: &str = "differences";

/// Confidence level of the intervals.
const CONFIDENCE: f64 = 0.95;

/// Repeated runs: same drive, same parameters.
struct RepeatedRuns<'a> {
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
    /// Difference in percent of the first value.
    percent: f64,
    interval: Option<(f64, f64)>,
    /// Probability of a difference at least as large by chance (p-value); `None` without repeats.
    chance: Option<f64>,
}

/// Confidence interval and p-value of the difference of two means.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Estimate {
    interval: Option<(f64, f64)>,
    chance: f64,
}

/// Returns the table of the differences, and the finding about them.
pub(super) fn differences(runs: &[Labelled]) -> Option<(Table, Finding)> {
    let groups = groups(runs);
    let (first, others) = groups.split_first()?;
    let mut all = Vec::new();
    for other in others {
        all.extend(differences_between(first, other));
    }
    let compared = all.len();
    all.retain(|one| one.first != one.second);
    if compared > 0 && all.is_empty() {
        let finding = Finding {
            level: Level::Info,
            code: "no-differences".to_owned(),
            text: format!("All {compared} figures that can be compared are equal."),
        };
        return Some((table(&all, others.len() > 1), finding));
    }
    let finding = finding(&groups, &all)?;
    Some((table(&all, others.len() > 1), finding))
}

/// Groups runs by drive and parameters. If all are in one group, each run gets a group of its own.
fn groups(runs: &[Labelled]) -> Vec<RepeatedRuns<'_>> {
    let same = |one: &Labelled, other: &Labelled| {
        let of = |run: &Labelled| -> Vec<(String, String)> {
            let parameters = run.report.parameters.iter();
            let kept = parameters.filter(|it: &&Parameter| it.name != "file");
            kept.map(|it| (it.name.clone(), it.value.clone())).collect()
        };
        one.report.target.name == other.report.target.name && of(one) == of(other)
    };
    let mut groups: Vec<RepeatedRuns> = Vec::new();
    for run in runs {
        match groups.iter_mut().find(|group| same(group.runs[0], run)) {
            // A simulated drive gives the same result again unless the seed differs.
            Some(group) if repeats_a_seed(group, run) => {}
            Some(group) => group.runs.push(run),
            None => groups.push(RepeatedRuns { label: &run.label, runs: vec![run] }),
        }
    }
    if groups.len() > 1 {
        return groups;
    }
    runs.iter().map(|run| RepeatedRuns { label: &run.label, runs: vec![run] }).collect()
}

fn repeats_a_seed(group: &RepeatedRuns, run: &Labelled) -> bool {
    run.report.target.kind == TargetKind::Simulated
        && group.runs.iter().any(|known| known.report.seed == run.report.seed)
}

fn differences_between(first: &RepeatedRuns, other: &RepeatedRuns) -> Vec<Difference> {
    let mut found = Vec::new();
    for table in &first.runs[0].report.tables {
        let keys = table.key_columns();
        for column in table.columns.iter().skip(keys) {
            for row in &table.rows {
                let key = &row[..keys.min(row.len())];
                let of = |group: &RepeatedRuns| -> Vec<f64> {
                    let values = group.runs.iter();
                    values.filter_map(|run| value(run, &table.name, key, column)).collect()
                };
                let (one, two) = (of(first), of(other));
                if one.is_empty() || two.is_empty() || mean(&one) == 0.0 {
                    continue;
                }
                let (a, b) = (mean(&one), mean(&two));
                let percent = |difference: f64| difference / a.abs() * 100.0;
                let estimate = welch(&one, &two);
                let interval = estimate.and_then(|it| it.interval);
                found.push(Difference {
                    measurement: format!("{}: {}", table.name, label(&column.name, &column.unit)),
                    of: key.iter().map(cell_text).collect::<Vec<_>>().join(", "),
                    unit: column.unit.clone(),
                    against: other.label.to_owned(),
                    first: a,
                    second: b,
                    percent: percent(b - a),
                    interval: interval.map(|(low, high)| (percent(low), percent(high))),
                    chance: estimate.map(|it| it.chance),
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

fn cell_text(cell: &Cell) -> String {
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

/// Returns the confidence interval of the difference of two means whose variances need not be equal (B. L.
/// Welch, Biometrika 34, 1947); `None` if either has no repeats.
fn welch(one: &[f64], two: &[f64]) -> Option<Estimate> {
    if one.len() < 2 || two.len() < 2 {
        return None;
    }
    // Variance of the mean.
    let variance = |values: &[f64]| {
        let (count, mean) = (values.len() as f64, mean(values));
        values.iter().map(|it| (it - mean).powi(2)).sum::<f64>() / (count - 1.0) / count
    };
    let (a, b) = (variance(one), variance(two));
    let difference = mean(two) - mean(one);
    if a + b == 0.0 {
        return Some(estimate_without_scatter(difference, one.len() + two.len()));
    }
    let part = |variance: f64, count: usize| variance * variance / (count as f64 - 1.0);
    let freedom = (a + b) * (a + b) / (part(a, one.len()) + part(b, two.len()));
    let student = StudentsT::new(0.0, 1.0, freedom).ok()?;
    let error = (a + b).sqrt();
    let half = student.inverse_cdf(0.5 + CONFIDENCE / 2.0) * error;
    let chance = 2.0 * student.sf(difference.abs() / error);
    Some(Estimate { interval: Some((difference - half, difference + half)), chance })
}

/// Returns the estimate for values without any scatter. Values of a histogram come in steps: if the true
/// value lies on the edge of two buckets, each run falls into either one at random, and with few runs it is
/// not rare that all runs of one drive fall into one bucket and all of the other into the other.
fn estimate_without_scatter(difference: f64, runs: usize) -> Estimate {
    let chance = 0.5_f64.powi(runs as i32 - 1);
    let is_known = chance <= 1.0 - CONFIDENCE;
    Estimate { interval: is_known.then_some((difference, difference)), chance }
}

/// Returns the significant differences, the least likely first (Holm's step-down procedure).
fn significant_differences(all: &[Difference]) -> Vec<&Difference> {
    let mut tested: Vec<(&Difference, f64)> =
        all.iter().filter_map(|one| Some((one, one.chance?))).collect();
    tested.sort_by(|one, other| one.1.total_cmp(&other.1));
    let count = tested.len();
    let passes_holm =
        |place: usize, chance: f64| chance <= (1.0 - CONFIDENCE) / (count - place) as f64;
    let kept = tested.iter().enumerate().take_while(|(place, one)| passes_holm(*place, one.1));
    kept.map(|(_, (one, _))| *one).collect()
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

fn finding(groups: &[RepeatedRuns], all: &[Difference]) -> Option<Finding> {
    let has_repeats = all.iter().any(|one| one.chance.is_some());
    let find =
        |level, code: &str, text: String| Some(Finding { level, code: code.to_owned(), text });
    if !has_repeats {
        let one_each = groups.iter().all(|group| group.runs.len() == 1);
        let who = if one_each { "There is one run of each" } else { "Not all runs are repeated" };
        return find(
            Level::Info,
            "differences-without-interval",
            format!(
                "{who}, so differences have no confidence interval: the variation between runs is \
                 not known. Repeat the runs (with another --seed on a simulated drive) and \
                 compare all together."
            ),
        );
    }
    let counts: Vec<String> = groups.iter().map(|group| group.runs.len().to_string()).collect();
    let (repeats, figures) = (counts.join(" and "), all.len());
    let found = significant_differences(all);
    let size = |one: &Difference| one.percent.abs();
    let largest = found.iter().max_by(|one, other| size(one).total_cmp(&size(other)));
    let text = match largest {
        None => format!(
            "With {repeats} runs, none of {figures} differences is larger than what chance \
             explains. (If a drive is compared with itself, one interval in twenty excludes zero.)"
        ),
        Some(one) => format!(
            "With {repeats} runs, {} of {figures} differences are larger than what chance explains \
             (5 % for all of them together, Holm); the largest is {} of {}: {}{} % on {}{}.",
            found.len(),
            one.measurement,
            one.of,
            if one.percent > 0.0 { "+" } else { "" },
            significant(one.percent),
            one.against,
            one.interval.map_or(String::new(), |(low, high)| format!(
                ", between {} and {} % (95 %, Welch)",
                significant(low),
                significant(high)
            ))
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
        let Estimate { interval, .. } = welch(&[1.0, 2.0, 3.0], &[11.0, 12.0, 13.0]).unwrap();
        let (low, high) = interval.unwrap();
        let half = 2.776_445 * (2.0_f64 / 3.0).sqrt();
        assert!((low - (10.0 - half)).abs() < 1e-4, "{low}");
        assert!((high - (10.0 + half)).abs() < 1e-4, "{high}");
        // At a difference of exactly half the interval, the p-value is 5 %.
        let edge = welch(&[1.0, 2.0, 3.0], &[1.0 + half, 2.0 + half, 3.0 + half]).unwrap();
        assert!((edge.chance - 0.05).abs() < 1e-5, "{}", edge.chance);
    }

    #[test]
    fn one_run_has_no_interval_and_few_equal_ones_have_none() {
        assert_eq!(welch(&[1.0], &[2.0, 3.0]), None);
        assert_eq!(welch(&[1.0; 2], &[2.0; 2]).unwrap().interval, None);
        assert_eq!(welch(&[1.0; 3], &[2.0; 3]).unwrap().interval, Some((1.0, 1.0)));
    }

    fn difference(chance: f64) -> Difference {
        let text = String::new;
        let (measurement, of, unit, against) = (text(), text(), text(), text());
        let (first, second, percent) = (1.0, 2.0, 100.0);
        let interval = None;
        Difference {
            measurement,
            of,
            unit,
            against,
            first,
            second,
            percent,
            interval,
            chance: Some(chance),
        }
    }

    #[test]
    fn what_chance_finds_in_one_of_many_figures_is_no_difference() {
        let alone = [0.04].map(difference);
        assert_eq!(significant_differences(&alone).len(), 1);
        let among = [0.04, 0.3, 0.8].map(difference);
        assert_eq!(significant_differences(&among).len(), 0);
        // Each significant difference leaves fewer to be tested.
        let several = [0.001, 0.02, 0.3].map(difference);
        assert_eq!(significant_differences(&several).len(), 2);
    }

    #[test]
    fn of_a_hundred_comparisons_of_a_drive_with_itself_five_find_a_difference() {
        use rand::{RngExt, SeedableRng};
        use rand_pcg::Pcg64Mcg;
        let mut random = Pcg64Mcg::seed_from_u64(1);
        // Sums of twelve uniform numbers are nearly normal.
        let mut run = || (0..12).map(|_| random.random::<f64>()).sum::<f64>();
        let mut found = [0; 2];
        const COMPARISONS: usize = 4_000;
        for _ in 0..COMPARISONS {
            let figure = |_| {
                let (one, two) = ([(); 3].map(|()| run()), [(); 3].map(|()| run()));
                let estimate = welch(&one, &two).unwrap();
                (difference(estimate.chance), estimate.interval.unwrap())
            };
            let figures: Vec<_> = (0..20).map(figure).collect();
            found[0] += figures.iter().filter(|(_, (low, high))| low * high > 0.0).count();
            let figures: Vec<Difference> = figures.into_iter().map(|(one, _)| one).collect();
            found[1] += usize::from(!significant_differences(&figures).is_empty());
        }
        let share = found.map(|count| count as f64 / COMPARISONS as f64);
        assert!((0.03..0.06).contains(&(share[0] / 20.0)), "of single intervals: {share:?}");
        assert!((0.02..0.06).contains(&share[1]), "of comparisons: {share:?}");
    }
}
