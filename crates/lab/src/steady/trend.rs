//! The straight line through a window, and how well it is known.
//!
//! Rounds that follow each other are alike, which makes many of them worth fewer independent ones.
//! That is taken into account as for a process of first order with the residuals' correlation r
//! from one round to the next: n rounds are worth n (1 - r) / (1 + r) (von Storch and Zwiers,
//! Statistical Analysis in Climate Research, 1999, section 6.6).
//!
//! What is left of few values by a line seems less alike than they are: r comes out lower by
//! (2 + 4 r) / n (Shaman and Stine, Journal of the American Statistical Association 83, 1988). For the
//! interval of a mean, which is told, that is put right first: without it 95 % intervals of 15 rounds
//! held the mean 78 times in a hundred where r was 0.6, and of 60 rounds 91 times; with it 89 and 94
//! times. The bound on a drift is as strict as it is by trial (`steady.rs`), and asks for no more.

use statrs::distribution::{ContinuousCDF, StudentsT};

/// What is known of a window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Trend {
    /// Mean of the rounds.
    pub(super) mean: f64,
    /// Half of the 95 % interval of the mean.
    pub(super) mean_bound: f64,
    /// Rise of the line over the window, as a share of the mean.
    pub(super) drift: f64,
    /// Half of its 97 % interval.
    pub(super) drift_bound: f64,
    /// What the line rises by from one round to the next.
    slope: f64,
}

/// Correlations above this are taken as this: with more, no number of rounds would be enough.
const CORRELATION_MAX: f64 = 0.99;

/// How sure the bound on a drift is.
const DRIFT_CONFIDENCE: f64 = 0.97;

/// A swing's rounds are as much alike one period later.
const SWING_CORRELATION: f64 = 0.4;

impl Trend {
    /// The least-squares line through at least four values.
    pub(super) fn of(values: &[f64]) -> Trend {
        let count = values.len() as f64;
        let middle = (count - 1.0) / 2.0;
        let mean = values.iter().sum::<f64>() / count;
        let times = || (0..values.len()).map(|index| index as f64 - middle);
        let squares: f64 = times().map(|time| time * time).sum();
        let products: f64 = times().zip(values).map(|(time, value)| time * (value - mean)).sum();
        let slope = products / squares;
        let residuals: Vec<f64> =
            times().zip(values).map(|(time, value)| value - mean - slope * time).collect();
        let sum: f64 = residuals.iter().map(|one| one * one).sum();
        let alike = correlation(&residuals, 1);
        let known = |alike: f64| {
            let worth = independent(count, alike);
            let freedom = (worth - 2.0).max(1.0);
            (worth, freedom, (sum / freedom * worth / count).sqrt())
        };
        let (worth, freedom, deviation) = known(alike);
        // Variance of a slope over evenly spaced rounds: 12 s^2 / n^3, here times n^2.
        let drift_error = deviation * (12.0 / worth).sqrt();
        let scale = mean.abs().max(f64::MIN_POSITIVE);
        let mean_bound = {
            let (worth, freedom, deviation) = known(unbiased(count, alike));
            student(freedom, 0.95) * deviation / worth.sqrt()
        };
        Trend {
            mean,
            mean_bound,
            drift: slope * count / scale,
            drift_bound: student(freedom, DRIFT_CONFIDENCE) * drift_error / scale,
            slope,
        }
    }
}

/// Up to here a correlation that seems too low is put right. What is left of a smooth curve is alike
/// for another reason, and would come to more than one.
const UNBIASED_MAX: f64 = 0.9;

/// The correlation of rounds that shows as this in what a line leaves of so many.
fn unbiased(count: f64, correlation: f64) -> f64 {
    let right = (correlation + 2.0 / count) / (1.0 - 4.0 / count).max(0.2);
    right.min(correlation.max(UNBIASED_MAX))
}

/// Returns how many independent rounds so many are worth.
pub(super) fn independent(count: f64, correlation: f64) -> f64 {
    let correlation = correlation.clamp(0.0, CORRELATION_MAX);
    (count * (1.0 - correlation) / (1.0 + correlation)).max(1.0)
}

/// Returns what Student's distribution stays within, on both sides, with this probability.
fn student(freedom: f64, probability: f64) -> f64 {
    let quantile = 0.5 + probability / 2.0;
    StudentsT::new(0.0, 1.0, freedom).map_or(f64::INFINITY, |student| student.inverse_cdf(quantile))
}

/// Returns how much values are like those `lag` places later, between -1 and 1; their mean is zero.
pub(super) fn correlation(values: &[f64], lag: usize) -> f64 {
    let all: f64 = values.iter().map(|value| value * value).sum();
    let both: f64 = values.iter().zip(&values[lag.min(values.len())..]).map(|(a, b)| a * b).sum();
    if all > 0.0 { both / all } else { 0.0 }
}

/// The period of a swing, in rounds, where there is one of no more than `most`: the distance at which what the line
/// leaves of the values, having become unlike, is most alike again.
pub(super) fn period(values: &[f64], trend: &Trend, most: usize) -> Option<usize> {
    let middle = (values.len() as f64 - 1.0) / 2.0;
    let rest =
        |(index, value): (usize, &f64)| value - trend.mean - trend.slope * (index as f64 - middle);
    let residuals: Vec<f64> = values.iter().enumerate().map(rest).collect();
    let unlike =
        (1..most.min(residuals.len() / 2)).find(|&lag| correlation(&residuals, lag) < 0.0)?;
    // Fewer pairs at a larger distance would make every correlation small.
    let alike = |lag: usize| {
        correlation(&residuals, lag) * residuals.len() as f64 / (residuals.len() - lag) as f64
    };
    let best = (unlike..=most).max_by(|&a, &b| alike(a).total_cmp(&alike(b)))?;
    (alike(best) >= SWING_CORRELATION).then_some(best)
}
