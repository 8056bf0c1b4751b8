//! Whether a level changed for good within a window.

use super::trend::{correlation, independent};

/// Fewer rounds than this on one side of a change are no level.
const SIDE_MIN: usize = 4;

/// A change is real where it exceeds its standard error by this factor: that is what the largest
/// of the differences at all places of a steady series exceeds in about one of a hundred.
const SIGNIFICANT: f64 = 3.6;

/// The place of a change by at least `least`: the number of values before it.
pub(super) fn level(values: &[f64], least: f64) -> Option<usize> {
    let places = SIDE_MIN..(values.len() + 1).saturating_sub(SIDE_MIN);
    let splits = places.map(|place| Split::at(values, place));
    let sharpest = splits.min_by(|a, b| a.unexplained.total_cmp(&b.unexplained))?;
    let is_change = sharpest.difference.abs() >= least
        && sharpest.difference.abs() > SIGNIFICANT * sharpest.error(values);
    is_change.then_some(sharpest.place)
}

/// The values before a place and from it on, each with a level of its own.
struct Split {
    place: usize,
    means: [f64; 2],
    difference: f64,
    /// Sum of the squares that the two levels leave.
    unexplained: f64,
}

impl Split {
    fn at(values: &[f64], place: usize) -> Split {
        let (before, after) = values.split_at(place);
        let mean = |part: &[f64]| part.iter().sum::<f64>() / part.len() as f64;
        let squares = |part: &[f64], mean: f64| -> f64 {
            part.iter().map(|value| (value - mean).powi(2)).sum()
        };
        let means = [mean(before), mean(after)];
        Split {
            place,
            means,
            difference: means[1] - means[0],
            unexplained: squares(before, means[0]) + squares(after, means[1]),
        }
    }

    /// The standard error of the difference.
    fn error(&self, values: &[f64]) -> f64 {
        let residuals: Vec<f64> = values
            .iter()
            .enumerate()
            .map(|(index, value)| value - self.means[usize::from(index >= self.place)])
            .collect();
        let (count, before) = (values.len() as f64, self.place as f64);
        let share = independent(count, correlation(&residuals, 1)) / count;
        let variance = self.unexplained / (count - 2.0);
        (variance / share * (1.0 / before + 1.0 / (count - before))).sqrt()
    }
}
