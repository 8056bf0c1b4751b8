//! Steady state detection for a series of rounds of equal length.
//!
//! The rule is applied to a window, the later half of all rounds so far, which grows with the run. All of
//! these must hold: the drift with its 97 % bound stays below 4 % of the mean; the drift is smaller than in
//! the window before, or not certain; the level does not change for good within the window; the window holds
//! two periods of a swing, if there is one; and enough was written before. Otherwise the series is not
//! steady, and a forecast says how many more rounds it takes.
//!
//! The limits are strict because the rule is applied again after every round: a bound that holds 95 times in
//! a hundred for one window fails much more often for one of some hundred windows. With 5 % and 95 % a mean
//! was 4.6 % off once in 400 series, with 4 % and 97 % it is 2.6 % off at worst (`tests.rs`). If a swing
//! hides the drift, means over its periods are judged.
//!
//! The rule of the SNIA Performance Test Specification (five rounds) is reported for comparison ([`snia`]):
//! on a slow decay it stops too early, because five rounds show little of the decay.

mod change;
pub mod snia;
mod trend;

#[cfg(test)]
mod tests;

use std::ops::Range;

use trend::Trend;

/// The drift over the window, with its 97 % bound, must stay below this share of the mean.
pub const DRIFT_MAX: f64 = 0.04;

/// Changes of level by less than this share of the mean are ignored.
const LEVEL_MAX: f64 = 0.05;

/// Minimum number of rounds in the window.
const ROUNDS_MIN: usize = 15;

/// Minimum number of periods of a swing in the window.
const PERIODS_MIN: usize = 2;

/// Result for a series that is steady.
#[derive(Clone, Debug, PartialEq)]
pub struct Steady {
    /// Window of rounds that was judged.
    pub window: Range<usize>,
    /// Mean of the window.
    pub mean: f64,
    /// Half the width of the mean's 95 % interval.
    pub half_width: f64,
    /// Drift over the window as a share of the mean; positive if the series rises.
    pub drift: f64,
}

/// Result for a series that is not steady.
#[derive(Clone, Debug, PartialEq)]
pub struct NotSteady {
    /// Condition that is not met.
    pub why: UnmetCondition,
    /// Estimated number of further rounds; `None` if no end can be forecast.
    pub more_rounds: Option<usize>,
}

/// Condition of steady state that is not met.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum UnmetCondition {
    /// There are too few rounds to say anything.
    TooFew,
    /// The drive was written too little.
    Written,
    /// The series drifts by this share of the mean over the window.
    Drift(f64),
    /// The rounds scatter too much: the drift may be up to this share of the mean.
    Scatter(f64),
    /// The level changed within the window, after this round.
    Change(usize),
    /// The series swings with this period in rounds, too long for the window.
    Swing(usize),
}

/// Judges the rounds measured so far, all of the same length.
///
/// `rounds_to_write` is the number of further rounds until enough was written; zero if enough was written.
pub fn judge(rounds: &[f64], rounds_to_write: usize) -> Result<Steady, NotSteady> {
    let window = rounds.len() / 2..rounds.len();
    if window.len() < ROUNDS_MIN {
        let more = (2 * ROUNDS_MIN - rounds.len()).max(rounds_to_write);
        return Err(NotSteady { why: UnmetCondition::TooFew, more_rounds: Some(more) });
    }
    let values = &rounds[window.clone()];
    let trend = trend_of(values);
    if trend.mean <= 0.0 {
        return Err(NotSteady { why: UnmetCondition::TooFew, more_rounds: None });
    }
    let before = &rounds[rounds.len() / 4..window.start];
    let why =
        unmet_condition(values, window.start, &trend).or_else(|| persistent_drift(before, &trend));
    if let Some(why) = why {
        let more = forecast(rounds, &trend, why);
        return Err(NotSteady { why, more_rounds: more.map(|more| more.max(rounds_to_write)) });
    }
    if rounds_to_write > 0 {
        return Err(NotSteady { why: UnmetCondition::Written, more_rounds: Some(rounds_to_write) });
    }
    Ok(Steady { window, mean: trend.mean, half_width: trend.mean_bound, drift: trend.drift })
}

/// Returns the trend of a window. If scatter makes the bound on the drift too wide and the window has a short
/// swing, it returns the trend of the means over whole periods, in which the swing cancels out.
fn trend_of(values: &[f64]) -> Trend {
    let trend = Trend::of(values);
    let drift = trend.drift.abs();
    if drift > DRIFT_MAX || drift + trend.drift_bound <= DRIFT_MAX {
        return trend;
    }
    match trend::period(values, &trend, values.len() / ROUNDS_MIN) {
        Some(period) => {
            // The oldest rounds are left out if they do not fill a period.
            let whole = values.rchunks_exact(period).rev();
            let means: Vec<f64> =
                whole.map(|part| part.iter().sum::<f64>() / period as f64).collect();
            Trend::of(&means)
        }
        None => trend,
    }
}

fn unmet_condition(values: &[f64], first: usize, trend: &Trend) -> Option<UnmetCondition> {
    if trend.drift.abs() > DRIFT_MAX {
        return Some(UnmetCondition::Drift(trend.drift));
    }
    if trend.drift.abs() + trend.drift_bound > DRIFT_MAX {
        return Some(UnmetCondition::Scatter(trend.drift.abs() + trend.drift_bound));
    }
    // These compare all pairs of rounds, so they come last.
    if let Some(place) = change::level(values, LEVEL_MAX * trend.mean) {
        return Some(UnmetCondition::Change(first + place));
    }
    let period = trend::period(values, &Trend::of(values), values.len() * 2 / 3);
    period.filter(|period| period * PERIODS_MIN > values.len()).map(UnmetCondition::Swing)
}

/// Returns the unmet condition if the drift is certain, has the same sign as in the window before (half as long),
/// and is no smaller than there: such a series goes on changing.
fn persistent_drift(before: &[f64], trend: &Trend) -> Option<UnmetCondition> {
    let before = Trend::of(before);
    let is_certain = |trend: &Trend| trend.drift.abs() > trend.drift_bound;
    let is_the_same =
        before.drift.signum() == trend.drift.signum() && trend.drift.abs() >= before.drift.abs();
    (is_certain(trend) && is_certain(&before) && is_the_same)
        .then_some(UnmetCondition::Drift(trend.drift))
}

/// Returns the estimated number of further rounds. A drift is taken for the end of an exponential decay. A
/// scatter averages out with the square root of the number of rounds.
fn forecast(rounds: &[f64], trend: &Trend, why: UnmetCondition) -> Option<usize> {
    let count = rounds.len();
    match why {
        UnmetCondition::Drift(drift) => decay(rounds, drift).map(|more| more.clamp(1, 20 * count)),
        UnmetCondition::Scatter(_) => {
            let margin = DRIFT_MAX - trend.drift.abs().min(DRIFT_MAX / 2.0);
            let factor = (trend.drift_bound / margin).powi(2);
            Some(((factor - 1.0).max(0.1) * count as f64).ceil() as usize)
        }
        // The change has to leave the window, which is the later half.
        UnmetCondition::Change(place) => Some((2 * place).saturating_sub(count).max(ROUNDS_MIN)),
        UnmetCondition::Swing(period) => {
            Some((2 * PERIODS_MIN * period).saturating_sub(count).max(1))
        }
        UnmetCondition::TooFew | UnmetCondition::Written => None,
    }
}

/// Returns the number of further rounds until the drift over the window is half of the limit, if the last
/// three quarters of the rounds approach a level exponentially.
fn decay(rounds: &[f64], drift: f64) -> Option<usize> {
    let quarter = rounds.len() / 4;
    let mean = |index: usize| {
        let part = &rounds[index * quarter..(index + 1) * quarter];
        part.iter().sum::<f64>() / part.len() as f64
    };
    let ratio = (mean(3) - mean(2)) / (mean(2) - mean(1));
    let is_decay = ratio > 0.0 && ratio < 0.98;
    is_decay.then(|| {
        let time_constant = quarter as f64 / -ratio.ln();
        (2.0 * time_constant * (drift.abs() / (DRIFT_MAX / 2.0)).ln()).ceil() as usize
    })
}
