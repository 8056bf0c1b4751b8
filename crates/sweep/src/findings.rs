//! Findings of a sweep: sentences about missing runs and the effect of each key.

use ssdlab_lab::output::significant;
use ssdlab_lab::report::{Finding, Level};

use crate::effect::Effect;
use crate::statistics::Estimate;
use crate::sweep::{State, Sweep};
use crate::vary::Dimension;

/// Number of figures that findings are about; the tables have all.
const FIGURES_IN_FINDINGS: usize = 2;

/// Number of errors that are listed individually.
const MAX_LISTED_ERRORS: usize = 3;

/// Returns the findings: the effect of each key on the first figures, then what is missing.
pub(crate) fn findings(sweep: &Sweep) -> Vec<Finding> {
    let mut found: Vec<Finding> = effect_findings(sweep);
    let mut find = |level, code: &str, text: String| {
        found.push(Finding { level, code: code.to_owned(), text });
    };
    let (done, all) = sweep.counts();
    let failed: Vec<_> = sweep.failed().collect();
    if !failed.is_empty() {
        let mut reasons: Vec<String> = Vec::new();
        for (point, run) in &failed {
            let words: Vec<String> = sweep
                .dimensions
                .iter()
                .zip(&point.values)
                .map(|(it, value)| format!("{}={value}", it.key))
                .collect();
            let reason = format!("{}: {}", words.join(" "), run.error.as_deref().unwrap_or("?"));
            if !reasons.contains(&reason) {
                reasons.push(reason);
            }
        }
        let more = reasons.len().saturating_sub(MAX_LISTED_ERRORS);
        reasons.truncate(MAX_LISTED_ERRORS);
        let more = if more > 0 { format!("; and {more} more points") } else { String::new() };
        let text = format!("{} of {all} runs failed. {}{more}.", failed.len(), reasons.join("; "));
        find(Level::Problem, "runs-failed", text);
    }
    let incomplete = runs_without_figure(sweep);
    if incomplete > 0 {
        let text = format!(
            "{incomplete} of {done} runs lack a figure, for example because they did not become \
             steady: the other findings leave these points out, or rest on fewer runs. The tables \
             have the number of runs."
        );
        find(Level::Warning, "runs-without-figures", text);
    }
    let missing = sweep.runs().filter(|(_, run)| run.state == State::Missing).count();
    if missing > 0 {
        let text = format!("The sweep ended after {done} of {all} runs: {missing} are missing.");
        find(Level::Problem, "not-finished", text);
    }
    if sweep.seeds.len() == 1 && all > 0 {
        let text = "Each point was run once, so the variation between runs is not known; --seeds \
                    5 gives confidence intervals.";
        find(Level::Notice, "one-seed", text.to_owned());
    }
    if sweep.shortened {
        let text = "The runs are those of the quick protocol; compare them with one another, not with \
                    published figures.";
        find(Level::Info, "shortened", text.to_owned());
    }
    found
}

/// Returns the number of completed runs that lack a figure which findings are about.
fn runs_without_figure(sweep: &Sweep) -> usize {
    let figures: Vec<usize> = sweep.charted.iter().take(FIGURES_IN_FINDINGS).copied().collect();
    let lacks = |values: &[Option<f64>]| figures.iter().any(|&it| values[it].is_none());
    sweep.runs().filter(|(_, run)| run.state == State::Done && lacks(&run.values)).count()
}

fn effect_findings(sweep: &Sweep) -> Vec<Finding> {
    let mut found = Vec::new();
    for &measure in sweep.charted.iter().take(FIGURES_IN_FINDINGS) {
        for (place, dimension) in sweep.dimensions.iter().enumerate() {
            if let Some(effect) = Effect::of(sweep, place, measure) {
                let label = &sweep.measures[measure].label;
                found.extend(finding_of_key(dimension, label, &effect).map(capitalized));
            }
        }
    }
    found
}

fn capitalized(mut finding: Finding) -> Finding {
    finding.text = capitalize(&finding.text);
    finding
}

/// Returns the text with a capital first letter.
pub(crate) fn capitalize(words: &str) -> String {
    let mut letters = words.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

fn finding_of_key(dimension: &Dimension, label: &str, effect: &Effect) -> Option<Finding> {
    let key = &dimension.key;
    let value = |place: usize| &dimension.values[effect.levels[place]];
    let last = effect.levels.len() - 1;
    let finding = |code: &str, text: String| {
        Some(Finding { level: Level::Info, code: code.to_owned(), text })
    };
    if dimension.numbers().is_none() {
        let by_mean = |one: &usize, other: &usize| {
            effect.mean(*one).mean.total_cmp(&effect.mean(*other).mean)
        };
        let least = (0..=last).min_by(by_mean)?;
        let most = (0..=last).max_by(by_mean)?;
        // The largest of so many changes is seldom small, even if all levels are equal.
        let pairs = effect.levels.len() * last / 2;
        let change = effect.chosen_change(least, most, pairs)?;
        if change.interval.is_some() && !change.is_certain() {
            return finding(
                "no-effect",
                format!("{label} does not depend measurably on {key}: {}.", percent_text(&change)),
            );
        }
        return finding(
            "effect",
            format!(
                "{label} is highest with {key}={}: {} against {key}={}, where it is lowest.",
                value(most),
                percent_text(&change),
                value(least)
            ),
        );
    }
    let whole = effect.change(0, last)?;
    let is_seen =
        (1..=last).any(|to| effect.chosen_change(0, to, last).is_some_and(|it| it.is_certain()));
    match effect.knee() {
        // Without a certain change there is no level at which it ends.
        None | Some(1..) if whole.interval.is_some() && !is_seen => finding(
            "no-effect",
            format!(
                "{label} does not depend measurably on {key}: {} from {} to {}.",
                percent_text(&whole),
                value(0),
                value(last)
            ),
        ),
        Some(0) => finding(
            "no-effect",
            format!(
                "{label} hardly depends on {key}: {} from {} to {}.",
                percent_text(&whole),
                value(0),
                value(last)
            ),
        ),
        Some(knee) => {
            let (up_to, beyond) = (effect.change(0, knee)?, effect.change(knee, last)?);
            finding(
                "saturates",
                format!(
                    "Beyond {key}={} {label} changes little: {} up to {}. Before, from {} on, it \
                     changed by {}.",
                    value(knee),
                    percent_text(&beyond),
                    value(last),
                    value(0),
                    percent_text(&up_to)
                ),
            )
        }
        None => {
            let means: Vec<f64> = (0..=last).map(|place| effect.mean(place).mean).collect();
            let turns = !means.is_sorted() && !means.iter().rev().is_sorted();
            let between = if turns { ", and not in one direction" } else { "" };
            finding(
                "effect",
                format!(
                    "From {key}={} to {}, {label} changes by {}{between}.",
                    value(0),
                    value(last),
                    percent_text(&whole)
                ),
            )
        }
    }
}

/// Returns a change with its interval, such as `+1.3 % (95 %: 0.2 to 2.4)`.
fn percent_text(change: &Estimate) -> String {
    // Less than a hundredth of a percent is shown as 0.00.
    let share = |value: f64| match value.abs() < 0.005 {
        true => "0.00".to_owned(),
        false => significant(value),
    };
    let signed = |value: f64| {
        let sign = if value >= 0.005 { "+" } else { "" };
        format!("{sign}{}", share(value))
    };
    match change.interval {
        Some((low, high)) => {
            format!("{} % (95 %: {} to {})", signed(change.mean), share(low), share(high))
        }
        None => format!("{} %", signed(change.mean)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vary::Role;
    use rand::{RngExt, SeedableRng};
    use rand_pcg::Pcg64;
    use statrs::distribution::{ContinuousCDF, Normal};

    /// Returns code and text of the finding for a figure with these values at each level and seed.
    fn said(values: &str, by_seed: &[&[f64]]) -> (String, String) {
        let values = values.split(',').map(str::to_owned).collect();
        let key = Dimension { key: "spare".to_owned(), role: Role::Drive, values };
        let found = finding_of_key(&key, "IOPS", &Effect::with(by_seed)).unwrap();
        (found.code, found.text)
    }

    #[test]
    fn a_rise_that_ends_is_said_with_where_it_ends_and_its_interval() {
        let (code, text) = said(
            "7%,15%,28%",
            &[&[100.0, 101.0, 99.0], &[200.0, 201.0, 199.0], &[201.0, 201.5, 200.5]],
        );
        assert_eq!(code, "saturates");
        assert!(text.starts_with("Beyond spare=15% IOPS changes little: +0.5"), "{text}");
        assert!(text.contains("up to 28%") && text.contains("from 7% on"), "{text}");
    }

    #[test]
    fn what_may_be_chance_is_no_effect() {
        let (code, text) = said("7%,28%", &[&[100.0, 1000.0], &[4000.0, 110.0]]);
        assert_eq!(code, "no-effect", "{text}");
        assert!(text.contains("does not depend measurably on spare"), "{text}");
        let (code, text) = said("greedy,fifo", &[&[100.0, 120.0], &[121.0, 99.0]]);
        assert_eq!(code, "no-effect", "{text}");
        // Two levels with much scatter before one with little are not a rise that ends.
        let (code, text) = said("1,2,3", &[&[100.0, 108.0], &[104.0, 104.1], &[104.0, 104.1]]);
        assert!(code == "no-effect" && !text.contains("Beyond"), "{text}");
        let (code, text) = said("7%,28%", &[&[100.0, 101.0], &[100.1, 101.0]]);
        assert!(code == "no-effect" && text.contains("hardly depends on spare"), "{text}");
    }

    #[test]
    fn levels_that_are_equal_are_seldom_said_to_differ() {
        let mut random = Pcg64::seed_from_u64(1);
        let normal = Normal::new(100.0, 7.0).unwrap();
        let mut draw = || normal.inverse_cdf(random.random_range(f64::EPSILON..1.0));
        let mut effects_in = |values: &str| {
            let levels = values.split(',').count();
            let repetitions = 0..400;
            let effects = repetitions.filter(|_| {
                let runs: Vec<Vec<f64>> =
                    (0..levels).map(|_| (0..5).map(|_| draw()).collect()).collect();
                let runs: Vec<&[f64]> = runs.iter().map(Vec::as_slice).collect();
                said(values, &runs).0 == "effect"
            });
            effects.count()
        };
        // Without the correction 63 of 400.
        let policies = effects_in("greedy,fifo,cost-benefit,random,d-choices");
        assert!(policies <= 20, "{policies} of 400");
    }

    #[test]
    fn an_effect_is_said_with_its_size_and_a_turn_in_it() {
        let (code, text) = said("7%,28%", &[&[100.0, 101.0], &[200.0, 202.0]]);
        assert_eq!(code, "effect");
        assert!(text.contains("From spare=7% to 28%, IOPS changes by +100 %"), "{text}");
        let (_, text) = said("1,2,3", &[&[100.0, 101.0], &[300.0, 301.0], &[200.0, 201.0]]);
        assert!(text.contains("not in one direction"), "{text}");
        let (code, text) = said("greedy,fifo", &[&[150.0, 151.0], &[100.0, 101.0]]);
        assert_eq!(code, "effect");
        assert!(text.contains("highest with spare=greedy: +49.8 %"), "{text}");
        let (_, text) = said("7%,28%", &[&[1e9, 1e9 + 1.0], &[1e9, 1e9]]);
        assert!(text.contains("0.00 % (95 %: 0.00 to 0.00)"), "{text}");
        assert_eq!(capitalize("mean (reads)"), "Mean (reads)");
    }
}
