//! Steady state by the SNIA Solid State Storage Performance Test Specification (version 2.0.2, section
//! 2.1.24): over five rounds, the largest and the smallest differ by at most 20 % of their mean, and the
//! least-squares line through them rises or falls by at most 10 % of the mean.

/// Number of rounds in the window.
pub const WINDOW: usize = 5;
const RANGE_MAX: f64 = 0.20;
const RISE_MAX: f64 = 0.10;

/// Returns the number of rounds after which the rule is met first, and the mean of the last five.
pub fn first_met(rounds: &[f64]) -> Option<(usize, f64)> {
    (WINDOW..=rounds.len()).find_map(|count| {
        let window = &rounds[count - WINDOW..count];
        is_met(window).then(|| (count, mean(window)))
    })
}

fn mean(window: &[f64]) -> f64 {
    window.iter().sum::<f64>() / window.len() as f64
}

fn is_met(window: &[f64]) -> bool {
    let mean = mean(window);
    let most = window.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let least = window.iter().copied().fold(f64::INFINITY, f64::min);
    let middle = (WINDOW - 1) as f64 / 2.0;
    let times = || (0..WINDOW).map(|index| index as f64 - middle);
    let squares: f64 = times().map(|time| time * time).sum();
    let slope = times().zip(window).map(|(time, value)| time * value).sum::<f64>() / squares;
    let rise = slope * (WINDOW - 1) as f64;
    mean > 0.0 && most - least <= RANGE_MAX * mean && rise.abs() <= RISE_MAX * mean
}
