//! Figures of both, and how far the model may be off.

use crate::known_deviations;
use crate::reference::Measured;

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
    pub case: String,
    pub figure: &'static str,
    pub model: f64,
    pub reference: f64,
    pub limit: f64,
}

impl Row {
    fn deviation(&self) -> f64 {
        self.model / self.reference - 1.0
    }

    fn is_within_limit(&self) -> bool {
        self.deviation().abs() <= self.limit
    }

    /// Returns true if it is beyond its limit, but no further than is known.
    fn is_known(&self) -> bool {
        !self.is_within_limit()
            && known_deviations::bound(&self.case, self.figure)
                .is_some_and(|bound| self.deviation().abs() <= bound)
    }

    fn print(&self) {
        let verdict = match (self.is_within_limit(), self.is_known()) {
            (true, _) => "",
            (false, true) => "  known to be beyond the limit",
            (false, false) => "  BEYOND THE LIMIT",
        };
        println!(
            "{:52} {:12} {:12.1} {:12.1} {:+8.2} %{verdict}",
            self.case,
            self.figure,
            self.model / 1000.0,
            self.reference / 1000.0,
            self.deviation() * 100.0,
        );
    }
}

pub fn compare(case: String, results: &(Measured, Measured), limits: (f64, f64)) -> Vec<Row> {
    let (model, reference) = results;
    let mut rows = Vec::new();
    for (values, other, mean_name, p99_name) in [
        (&model.reads, &reference.reads, "read mean", "read p99"),
        (&model.writes, &reference.writes, "write mean", "write p99"),
        (&model.durable, &reference.durable, "durable mean", "durable p99"),
    ] {
        assert_eq!(values.len(), other.len());
        if values.is_empty() {
            continue;
        }
        for (figure, statistic, limit) in [
            (mean_name, mean as fn(&[u64]) -> f64, limits.0),
            (p99_name, p99 as fn(&[u64]) -> f64, limits.1),
        ] {
            let (model, reference) = (statistic(values), statistic(other));
            rows.push(Row { case: case.clone(), figure, model, reference, limit });
        }
    }
    rows
}

pub fn check(rows: &[Row]) {
    println!("{:52} {:12} {:>12} {:>12}", "case", "figure", "model us", "reference us");
    rows.iter().for_each(Row::print);
    let known = rows.iter().filter(|row| row.is_known()).count();
    let beyond = rows.iter().filter(|row| !row.is_within_limit()).count() - known;
    println!("{} figures, {known} known to be beyond their limit, {beyond} others", rows.len());
    assert_eq!(beyond, 0, "so many figures are beyond their limit, see the table");
}
