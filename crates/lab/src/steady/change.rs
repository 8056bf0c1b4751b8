//! Detection of a lasting change of level within a window.

use super::trend::{correlation, independent};

/// Minimum number of rounds on each side of a change.
const SIDE_MIN: usize = 4;

/// A change counts if it exceeds its standard error by this factor. In a steady series, the largest of the
/// differences at all places exceeds that in about one of a hundred.
const SIGNIFICANT: f64 = 3.6;

/// Returns the place of the sharpest change of at least `least`, as the number of values before it.
pub(super) fn level(values: &[f64], least: f64) -> Option<usize> {
    let places = SIDE_MIN..(values.len() + 1).saturating_sub(SIDE_MIN);
    let splits = places.map(|place| Split::at(values, place));
    let sharpest = splits.min_by(|a, b| a.unexplained.total_cmp(&b.unexplained))?;
    let is_change = sharpest.difference.abs() >= least
        && sharpest.difference.abs() > SIGNIFICANT * sharpest.error(values);
    is_change.then_some(sharpest.place)
}

/// A series split in two parts, each with its own mean.
struct Split {
    place: usize,
    means: [f64; 2],
    difference: f64,
    /// Sum of the squared deviations from the two means.
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

    /// Returns the standard error of the difference, with the correlation of successive rounds taken into
    /// account.
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
