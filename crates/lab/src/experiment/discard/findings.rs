//! Findings about unpacking and deleting with and without `discard`.

use ssdlab_units::Nanoseconds;
use statrs::distribution::{ContinuousCDF, StudentsT};

use super::{Case, Measured, Pass, Protocol, is_published};
use crate::experiment::Record;
use crate::output::format::{count, fixed, significant};
use crate::report::{Cell, Column, Level, Table};

/// Width of an interval, as a share of the mean, below which no difference means that there is none.
const NARROW_INTERVAL: f64 = 0.01;

/// Slowdown of deleting from which a finding is a warning.
const COSTLY_SLOWDOWN: f64 = 1.1;

/// Mean, variance and number of some times; the variance is NaN for a single time.
#[derive(Clone, Copy, Debug)]
struct Mean {
    mean: f64,
    variance: f64,
    samples: f64,
}

impl Mean {
    fn of(values: &[f64]) -> Option<Mean> {
        let samples = values.len() as f64;
        if values.is_empty() {
            return None;
        }
        let mean = values.iter().sum::<f64>() / samples;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        let variance = if samples > 1.0 { squares / (samples - 1.0) } else { f64::NAN };
        Some(Mean { mean, variance, samples })
    }

    /// Returns the difference to another mean, and half the width of its 95 % interval (Welch).
    fn welch_difference(self, other: Mean) -> Option<(f64, f64)> {
        let (a, b) = (self.variance / self.samples, other.variance / other.samples);
        let sum = a + b;
        if !sum.is_finite() {
            return None;
        }
        let difference = self.mean - other.mean;
        if sum == 0.0 {
            return Some((difference, 0.0));
        }
        let freedom =
            sum.powi(2) / (a.powi(2) / (self.samples - 1.0) + b.powi(2) / (other.samples - 1.0));
        let student = StudentsT::new(0.0, 1.0, freedom.max(1.0)).ok()?;
        Some((difference, student.inverse_cdf(0.975) * sum.sqrt()))
    }
}

fn mean_extract_time(measured: &Measured) -> Option<Mean> {
    let seconds: Vec<f64> = measured.passes.iter().map(|pass| pass.extract.seconds()).collect();
    Mean::of(&seconds)
}

fn mean_delete_time(measured: &Measured) -> Option<Mean> {
    let seconds = |pass: &Pass| pass.delete.map(Nanoseconds::seconds);
    let seconds: Vec<f64> = measured.passes.iter().filter_map(seconds).collect();
    Mean::of(&seconds)
}

/// Adds the table of means and the findings.
pub(super) fn conclude(
    protocol: &Protocol,
    cases: &[(Case, Measured)],
    simulated: bool,
    record: &mut Record,
) {
    tabulate(cases, record);
    let of = |discard| {
        let found = cases.iter().find(|(case, _)| case.discard == discard);
        found.map(|(_, measured)| measured)
    };
    let (Some(with), Some(without)) = (of(true), of(false)) else { return };
    if let (Some(with), Some(without)) = (mean_delete_time(with), mean_delete_time(without)) {
        deletion_finding(with, without, record);
    }
    if let (Some(with), Some(without)) = (mean_extract_time(with), mean_extract_time(without)) {
        extraction_finding(with, without, record);
    }
    trims_finding(with, record);
    tree_finding(protocol, simulated, record);
}

fn tabulate(cases: &[(Case, Measured)], record: &mut Record) {
    let columns = vec![
        Column::new("discard", ""),
        Column::new("extract_mean_seconds", "s"),
        Column::new("delete_mean_seconds", "s"),
    ];
    let row = |(case, measured): &(Case, Measured)| {
        let mean = |mean: Option<Mean>| Cell::from(mean.map(|mean| mean.mean));
        vec![
            Cell::from(case.discard),
            mean(mean_extract_time(measured)),
            mean(mean_delete_time(measured)),
        ]
    };
    let measured = cases.iter().filter(|(_, measured)| !measured.passes.is_empty());
    let rows = measured.map(row).collect();
    record.tables.push(Table { name: "means".to_owned(), columns, rows });
}

/// Returns the interval of a difference in words.
fn interval(difference: Option<(f64, f64)>) -> String {
    match difference {
        Some((difference, half)) => {
            // The interval is known to two digits only, and times to a millisecond.
            let half = half.max(0.001);
            let decimals = (1.0 - half.log10().floor()).clamp(0.0, 3.0) as usize;
            let half = fixed(half, decimals);
            let difference = match fixed(difference, decimals) {
                none if none.bytes().all(|byte| matches!(byte, b'0' | b'.')) => none,
                more if difference > 0.0 => format!("+{more}"),
                less => less,
            };
            format!("{difference} s, 95 % interval within {half} s of that")
        }
        None => "one pass each, so the share of chance is unknown".to_owned(),
    }
}

/// Returns true if a difference exceeds its interval, or if the interval is unknown.
fn is_significant(difference: Option<(f64, f64)>) -> bool {
    difference.is_none_or(|(difference, half)| difference.abs() > half)
}

/// Returns the words for a difference within its interval: no difference, or too few passes to show one.
fn no_difference_text(difference: Option<(f64, f64)>, mean: f64) -> &'static str {
    match difference {
        Some((_, half)) if half < NARROW_INTERVAL * mean => "no difference",
        _ => "no difference that so few passes can show; for more, --set passes=N",
    }
}

fn deletion_finding(with: Mean, without: Mean, record: &mut Record) {
    let difference = with.welch_difference(without);
    let factor = with.mean / without.mean;
    let times = significant(factor);
    let words = interval(difference);
    let none = no_difference_text(difference, without.mean);
    let (with, without) = (significant(with.mean), significant(without.mean));
    if !is_significant(difference) {
        let text = format!(
            "Deleting takes {with} s with discard and {without} s without: {none} ({words})."
        );
        return record.add_finding(Level::Info, "discard-deleting", text);
    }
    let text = if factor > 1.0 {
        format!(
            "Deleting takes {times} times as long with discard: {with} s against {without} s \
             ({words}). A process that waits for the commit waits for its trims. Periodic fstrim \
             (fstrim.timer) does the same work while no process waits."
        )
    } else {
        format!("Deleting is not slower with discard: {with} s against {without} s ({words}).")
    };
    let level = match (factor >= COSTLY_SLOWDOWN, difference) {
        (true, Some(_)) => Level::Warning,
        // A difference of single passes may be chance.
        (true, None) => Level::Notice,
        (false, _) => Level::Info,
    };
    record.add_finding(level, "discard-deleting", text);
}

fn extraction_finding(with: Mean, without: Mean, record: &mut Record) {
    let difference = with.welch_difference(without);
    let what = if is_significant(difference) {
        format!(", {:+.1} %", (with.mean / without.mean - 1.0) * 100.0)
    } else {
        format!(": {}", no_difference_text(difference, without.mean))
    };
    let text = format!(
        "Unpacking takes {} s with discard and {} s without{what} ({}).",
        significant(with.mean),
        significant(without.mean),
        interval(difference)
    );
    record.add_finding(Level::Info, "discard-unpacking", text);
}

fn trims_finding(with: &Measured, record: &mut Record) {
    let Some((trims, bytes)) = with.trimmed else { return };
    // If a run ended early, files that were not deleted were not trimmed either.
    if with.passes.is_empty() || with.passes.iter().any(|pass| pass.delete.is_none()) {
        return;
    }
    if trims == 0 {
        let text = "No trim was sent: trims do not reach a drive, and mounting with discard \
                    changes nothing. `run trim-check` names the layer that stops them.";
        return record.add_finding(Level::Warning, "no-trims", text.to_owned());
    }
    let passes = with.passes.len().max(1) as u64;
    record.add_finding(
        Level::Info,
        "trims",
        format!(
            "Each pass with discard sent {} trims of {} in all: adjacent files are freed as one \
             extent.",
            count(trims / passes),
            ssdlab_units::ByteLength::new(bytes.bytes() / passes)
        ),
    );
}

fn tree_finding(protocol: &Protocol, simulated: bool, record: &mut Record) {
    let tree = &protocol.tree;
    let (entries, size) = (count(tree.count()), tree.length());
    let text = match &protocol.tarball {
        Some(archive) => format!(
            "The tree is that of {}: {entries} files and directories, {size}.",
            archive.display()
        ),
        None => format!(
            "The tree was generated: {entries} files and directories{}, {size}, with the size \
             distribution of source files.{}",
            if is_published(protocol) { " as published" } else { "" },
            if simulated {
                ""
            } else {
                " Nothing is decompressed, so that unpacking is faster than that of an archive."
            }
        ),
    };
    record.add_finding(Level::Info, "tree", text);
}

#[cfg(test)]
mod tests {
    use ssdlab_units::ByteLength;

    use super::*;

    fn unpacking(with: &[f64], without: &[f64]) -> String {
        let mut record = Record::default();
        extraction_finding(Mean::of(with).unwrap(), Mean::of(without).unwrap(), &mut record);
        record.findings.remove(0).text
    }

    #[test]
    fn a_run_that_ended_before_it_deleted_anything_says_nothing_of_trims() {
        let codes = |passes: Vec<Pass>| {
            let measured = Measured { passes, trimmed: Some((0, ByteLength::ZERO)) };
            let mut record = Record::default();
            trims_finding(&measured, &mut record);
            record.findings.into_iter().map(|it| it.code).collect::<Vec<_>>()
        };
        let unpacked = Pass { extract: Nanoseconds::from_secs(1), delete: None };
        assert!(codes(Vec::new()).is_empty());
        assert!(codes(vec![unpacked]).is_empty());
        assert_eq!(codes(vec![Pass { delete: Some(unpacked.extract), ..unpacked }]), ["no-trims"]);
    }

    #[test]
    fn a_difference_has_the_digits_of_its_interval() {
        let text = unpacking(&[8.2, 11.5], &[68.0, 31.9]);
        assert!(text.contains("(-40 s, 95 % interval within 2"), "{text}");
        let text = unpacking(&[10.4, 10.400_01], &[10.400_02, 10.4]);
        assert!(text.contains("no difference (0.000 s, 95 % interval within 0.001 s"), "{text}");
    }

    #[test]
    fn a_difference_that_may_be_chance_is_called_none() {
        let text = unpacking(&[11.2, 7.1, 6.7, 6.4, 5.7], &[6.6, 5.5, 6.7, 6.4, 5.6]);
        assert!(text.contains("no difference that so few passes can show"), "{text}");
        let text = unpacking(&[7.1, 7.2, 7.1], &[6.6, 6.5, 6.6]);
        assert!(text.contains(", +8.6 % (+0.57 s, 95 % interval within 0.1"), "{text}");
    }
}
