//! Figures of both simulators, and how far the model may be off.

use crate::pair::Written;
use crate::reference::Measured;
use crate::{CHANCE, LIMIT_OF_MEANS, LIMIT_OF_P99};

/// From so many runs on their scatter says how much of a deviation may be chance.
const RUNS_LEAST: usize = 8;

fn mean(values: &[u64]) -> f64 {
    values.iter().sum::<u64>() as f64 / values.len() as f64
}

fn p99(values: &[u64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    sorted[(sorted.len() - 1) * 99 / 100] as f64
}

/// A figure of one case, and how far the model may be off.
pub struct Row {
    case: String,
    figure: &'static str,
    model: f64,
    reference: f64,
    /// The standard error of the logarithm of their ratio, as far as runs tell it; else zero.
    chance: f64,
    limit: f64,
}

impl Row {
    /// A figure that was `pooled` over all runs, and of each run both simulators' values.
    pub fn new(
        case: &str,
        figure: &'static str,
        pooled: (f64, f64),
        runs: &[(f64, f64)],
        limit: f64,
    ) -> Row {
        let (model, reference) = pooled;
        Row { case: case.to_owned(), figure, model, reference, chance: chance_of(runs), limit }
    }

    fn deviation(&self) -> f64 {
        self.model / self.reference - 1.0
    }

    fn is_within_limit(&self) -> bool {
        (self.model / self.reference).ln().abs() <= self.limit + CHANCE * self.chance
    }

    /// Returns true if a deviation of twice the limit would be seen.
    fn is_sharp(&self) -> bool {
        CHANCE * self.chance <= self.limit
    }

    fn print(&self) {
        println!(
            "{:52} {:12} {:12.1} {:12.1} {:+8.2} % {:6.2}{}",
            self.case,
            self.figure,
            self.model / 1000.0,
            self.reference / 1000.0,
            self.deviation() * 100.0,
            self.chance * 100.0,
            if self.is_within_limit() { "" } else { "  BEYOND THE LIMIT" },
        );
    }
}

fn chance_of(runs: &[(f64, f64)]) -> f64 {
    if runs.len() < RUNS_LEAST {
        return 0.0;
    }
    let logarithms: Vec<f64> =
        runs.iter().map(|(model, reference)| (model / reference).ln()).collect();
    let count = logarithms.len() as f64;
    let mean = logarithms.iter().sum::<f64>() / count;
    let squares: f64 = logarithms.iter().map(|it| (it - mean).powi(2)).sum();
    (squares / (count - 1.0) / count).sqrt()
}

/// Returns the write amplification of both, over all runs.
pub fn amplification(case: &str, runs: &[(Written, Written)]) -> Row {
    let of = |written: &Written| written.flash as f64 / written.host as f64;
    let sum = |part: fn(&(Written, Written)) -> Written| {
        let all = runs.iter().map(part);
        let (host, flash) =
            all.fold((0, 0), |(host, flash), it| (host + it.host, flash + it.flash));
        of(&Written { host, flash })
    };
    let pooled = (sum(|it| it.0) * 1000.0, sum(|it| it.1) * 1000.0);
    let of_runs: Vec<(f64, f64)> = runs.iter().map(|it| (of(&it.0), of(&it.1))).collect();
    Row::new(case, "A x 1000", pooled, &of_runs, LIMIT_OF_MEANS)
}

/// Returns means and 99th percentiles of what `runs` have measured.
pub fn compare(case: &str, runs: &[(Measured, Measured)]) -> Vec<Row> {
    type Part = fn(&Measured) -> &[u64];
    let mut rows = Vec::new();
    for (part, mean_name, p99_name) in [
        ((|it| &it.reads) as Part, "read mean", "read p99"),
        (|it| &it.writes, "write mean", "write p99"),
        (|it| &it.durable, "durable mean", "durable p99"),
    ] {
        let runs = runs.iter().map(|(model, reference)| (part(model), part(reference)));
        let runs: Vec<(&[u64], &[u64])> = runs.filter(|it| !it.0.is_empty()).collect();
        assert!(runs.iter().all(|(model, reference)| model.len() == reference.len()));
        if runs.is_empty() {
            continue;
        }
        let model: Vec<u64> = runs.iter().flat_map(|it| it.0).copied().collect();
        let reference: Vec<u64> = runs.iter().flat_map(|it| it.1).copied().collect();
        for (figure, statistic, limit) in [
            (mean_name, mean as fn(&[u64]) -> f64, LIMIT_OF_MEANS),
            (p99_name, p99 as fn(&[u64]) -> f64, LIMIT_OF_P99),
        ] {
            let pooled = (statistic(&model), statistic(&reference));
            let of_runs: Vec<(f64, f64)> =
                runs.iter().map(|it| (statistic(it.0), statistic(it.1))).collect();
            rows.push(Row::new(case, figure, pooled, &of_runs, limit));
        }
    }
    rows
}

/// Prints the table, and fails if any figure is beyond its limit.
pub fn check(rows: &[Row]) {
    let (model, reference) = ("model us", "reference us");
    println!(
        "{:52} {:12} {model:>12} {reference:>12} {:>10} {:>6}",
        "case", "figure", "off", "chance"
    );
    rows.iter().for_each(Row::print);
    let sharp = rows.iter().filter(|row| row.is_sharp()).count();
    let beyond = rows.iter().filter(|row| !row.is_within_limit()).count();
    println!(
        "{} figures, {sharp} of which would show a deviation of twice the limit; {beyond} are beyond it",
        rows.len()
    );
    assert_eq!(beyond, 0, "so many figures are beyond their limit, see the table");
}
