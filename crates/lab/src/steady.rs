//! Whether a series of measurements has become steady, and what may be said of it then.
//!
//! The rule: over the later half of all rounds so far (a window that grows with the run), the 97 %
//! bound on the drift stays below 4 % of the mean (and it is no smaller one that goes on and on),
//! no level changes within it for good, it holds two periods of a swing where there is one, and
//! enough was written before. Otherwise steady state is not reached, and an estimate says how much
//! more it takes.
//!
//! The two figures are as strict as they are because the question is asked again after every
//! round: a bound that holds 95 times in a hundred for one window fails much more often for one
//! of some hundred. With 5 % and 95 % a mean was 4.6 % off once in 400 series, with these it is
//! 2.6 % at worst (`tests.rs`). Where a swing hides the drift, means over its periods are judged.
//!
//! The rule of the SNIA Performance Test Specification (five rounds) is kept beside it for
//! comparison ([`snia`]): on a slow decay it stops early, because five rounds see little of it.

mod change;
pub mod snia;
mod trend;

#[cfg(test)]
mod tests;

use std::ops::Range;

use trend::Trend;

/// The drift over the window, with its 97 % bound, must stay below this share of the mean.
pub const DRIFT_MAX: f64 = 0.04;

/// A change of level by less than this share of the mean is none.
const LEVEL_MAX: f64 = 0.05;

/// Fewer rounds than this in the window say nothing about a drift.
const ROUNDS_MIN: usize = 15;

/// Periods of a swing that the window must hold.
const PERIODS_MIN: usize = 2;

/// A series that has become steady.
#[derive(Clone, Debug, PartialEq)]
pub struct Steady {
    /// The rounds that count.
    pub window: Range<usize>,
    /// Their mean.
    pub mean: f64,
    /// Half the width of the mean's 95 % interval.
    pub half_width: f64,
    /// The drift over the window as a share of the mean, rising positive.
    pub drift: f64,
}

/// A series that has not.
#[derive(Clone, Debug, PartialEq)]
pub struct Moving {
    /// What stands against it.
    pub why: Why,
    /// How many more rounds it takes, about; `None` where nothing suggests an end.
    pub more_rounds: Option<usize>,
}

/// What stands against steady state.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Why {
    /// There are too few rounds to say anything.
    TooFew,
    /// Too little was written for the drive to have reached it.
    Written,
    /// It drifts by this share of the mean over the window.
    Drift(f64),
    /// It scatters too much to tell: it may drift by this share of the mean.
    Scatter(f64),
    /// The level changed within the window, after this round.
    Change(usize),
    /// It swings with this period in rounds, too long for the window.
    Swing(usize),
}

/// Judges the rounds measured so far, all of the same length.
///
/// `rounds_to_write` is how many more rounds it takes until enough was written; zero where that
/// is so.
pub fn judge(rounds: &[f64], rounds_to_write: usize) -> Result<Steady, Moving> {
    let window = rounds.len() / 2..rounds.len();
    if window.len() < ROUNDS_MIN {
        let more = (2 * ROUNDS_MIN - rounds.len()).max(rounds_to_write);
        return Err(Moving { why: Why::TooFew, more_rounds: Some(more) });
    }
    let values = &rounds[window.clone()];
    let trend = trend_of(values);
    if trend.mean <= 0.0 {
        return Err(Moving { why: Why::TooFew, more_rounds: None });
    }
    let before = &rounds[rounds.len() / 4..window.start];
    let why = objection(values, window.start, &trend).or_else(|| goes_on(before, &trend));
    if let Some(why) = why {
        let more = forecast(rounds, &trend, why);
        return Err(Moving { why, more_rounds: more.map(|more| more.max(rounds_to_write)) });
    }
    if rounds_to_write > 0 {
        return Err(Moving { why: Why::Written, more_rounds: Some(rounds_to_write) });
    }
    Ok(Steady { window, mean: trend.mean, half_width: trend.mean_bound, drift: trend.drift })
}

/// The trend of a window. Where a short swing scatters the rounds so much that the drift is not
/// known well enough, that of the means over whole periods, which a swing does not scatter.
fn trend_of(values: &[f64]) -> Trend {
    let trend = Trend::of(values);
    let drift = trend.drift.abs();
    if drift > DRIFT_MAX || drift + trend.drift_bound <= DRIFT_MAX {
        return trend;
    }
    match trend::period(values, &trend, values.len() / ROUNDS_MIN) {
        Some(period) => {
            // The oldest rounds are left out where they make no period.
            let whole = values.rchunks_exact(period).rev();
            let means: Vec<f64> =
                whole.map(|part| part.iter().sum::<f64>() / period as f64).collect();
            Trend::of(&means)
        }
        None => trend,
    }
}

fn objection(values: &[f64], first: usize, trend: &Trend) -> Option<Why> {
    if trend.drift.abs() > DRIFT_MAX {
        return Some(Why::Drift(trend.drift));
    }
    if trend.drift.abs() + trend.drift_bound > DRIFT_MAX {
        return Some(Why::Scatter(trend.drift.abs() + trend.drift_bound));
    }
    // These look at all pairs of rounds, and are asked last.
    if let Some(place) = change::level(values, LEVEL_MAX * trend.mean) {
        return Some(Why::Change(first + place));
    }
    let period = trend::period(values, &Trend::of(values), values.len() * 2 / 3);
    period.filter(|period| period * PERIODS_MIN > values.len()).map(Why::Swing)
}

/// A drift that is small so far, but certain, and no smaller than in the window before, half as
/// long: nothing settles.
fn goes_on(before: &[f64], trend: &Trend) -> Option<Why> {
    let before = Trend::of(before);
    let is_certain = |trend: &Trend| trend.drift.abs() > trend.drift_bound;
    let is_the_same =
        before.drift.signum() == trend.drift.signum() && trend.drift.abs() >= before.drift.abs();
    (is_certain(trend) && is_certain(&before) && is_the_same).then_some(Why::Drift(trend.drift))
}

/// Returns how many more rounds it takes. A drift is taken for the rest of an exponential decay, a
/// scatter averages out with the square root of the rounds.
fn forecast(rounds: &[f64], trend: &Trend, why: Why) -> Option<usize> {
    let count = rounds.len();
    match why {
        Why::Drift(drift) => decay(rounds, drift).map(|more| more.clamp(1, 20 * count)),
        Why::Scatter(_) => {
            let room = DRIFT_MAX - trend.drift.abs().min(DRIFT_MAX / 2.0);
            let factor = (trend.drift_bound / room).powi(2);
            Some(((factor - 1.0).max(0.1) * count as f64).ceil() as usize)
        }
        // The later half has to leave it behind.
        Why::Change(place) => Some((2 * place).saturating_sub(count).max(ROUNDS_MIN)),
        Why::Swing(period) => Some((2 * PERIODS_MIN * period).saturating_sub(count).max(1)),
        Why::TooFew | Why::Written => None,
    }
}

/// More rounds until the drift over the later half is half of what is allowed, if three quarters
/// of the rounds approach a level exponentially.
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
