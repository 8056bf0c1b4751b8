//! Effect of one key: means over all other keys, and the changes between its values.

use crate::statistics::Estimate;
use crate::sweep::{State, Sweep};

/// Effect of one key on one figure.
pub(crate) struct Effect {
    /// Levels that were measured, in the order of display.
    pub(crate) levels: Vec<usize>,
    /// Means over all points of a level: one list for each level, with one mean for each seed that all levels have.
    by_seed: Vec<Vec<f64>>,
}

impl Effect {
    /// Creates an effect with these means of each level and seed.
    #[cfg(test)]
    pub(crate) fn with(by_seed: &[&[f64]]) -> Effect {
        let by_seed: Vec<Vec<f64>> = by_seed.iter().map(|of_level| of_level.to_vec()).collect();
        Effect { levels: (0..by_seed.len()).collect(), by_seed }
    }

    /// Returns the effect of the key `dimension` on `measure`; `None` if fewer than two of its values were measured.
    pub(crate) fn of(sweep: &Sweep, dimension: usize, measure: usize) -> Option<Effect> {
        let key = &sweep.dimensions[dimension];
        let mean = |level: usize, seed: usize| -> Option<f64> {
            let value = &key.values[level];
            let of_level = sweep.points.iter().filter(|point| point.values[dimension] == *value);
            let measured: Vec<f64> = of_level
                .map(|point| &point.runs[seed])
                .filter(|run| run.state == State::Done)
                .filter_map(|run| run.values[measure])
                .collect();
            Estimate::of(&measured).map(|it| it.mean)
        };
        let seeds = 0..sweep.seeds.len();
        let all: Vec<(usize, Vec<Option<f64>>)> = key
            .order()
            .into_iter()
            .map(|level| (level, seeds.clone().map(|seed| mean(level, seed)).collect::<Vec<_>>()))
            .filter(|(_, means)| means.iter().any(Option::is_some))
            .collect();
        let has_all = |seed: &usize| all.iter().all(|(_, means)| means[*seed].is_some());
        let shared: Vec<usize> = seeds.filter(has_all).collect();
        if all.len() < 2 || shared.is_empty() {
            return None;
        }
        let (levels, by_seed) = all
            .into_iter()
            .map(|(level, means)| {
                (level, shared.iter().filter_map(|&seed| means[seed]).collect::<Vec<_>>())
            })
            .unzip();
        Some(Effect { levels, by_seed })
    }

    /// Returns the mean at the level with index `place`.
    pub(crate) fn mean(&self, place: usize) -> Estimate {
        Estimate::of(&self.by_seed[place]).expect("there is a seed")
    }

    /// Returns the change of the mean from `from` to `to` in percent of that at `from`, computed from the differences
    /// of runs with the same seed; `None` if the mean at `from` is zero.
    ///
    /// The mean at `from` is uncertain as well. So the residual of each run is taken from the line through zero and
    /// both means, as for a ratio of means (Cochran, Sampling Techniques, chapter 6).
    pub(crate) fn change(&self, from: usize, to: usize) -> Option<Estimate> {
        self.chosen_change(from, to, 1)
    }

    /// Returns that change with the wider interval of one that was chosen from `choices` changes.
    pub(crate) fn chosen_change(&self, from: usize, to: usize, choices: usize) -> Option<Estimate> {
        let base = self.mean(from).mean;
        if base == 0.0 {
            return None;
        }
        let rise = self.mean(to).mean / base - 1.0;
        let pairs = self.by_seed[from].iter().zip(&self.by_seed[to]);
        let differences: Vec<f64> = pairs.map(|(a, b)| b - a - rise * (a - base)).collect();
        let change = Estimate::chosen_of(&differences, choices).expect("there is a seed");
        Some(change.percent_of(base))
    }

    /// Returns the level from which on no further level changes the mean by 2 % or more, judged by the far ends of the
    /// intervals; `None` if that is the last level, or if there are no intervals.
    pub(crate) fn knee(&self) -> Option<usize> {
        const FLAT_PERCENT: f64 = 2.0;
        let last = self.levels.len() - 1;
        let is_flat = |from: usize| {
            (from + 1..=last).all(|to| {
                let change = self.change(from, to).and_then(|it| it.interval);
                change.is_some_and(|(low, high)| low > -FLAT_PERCENT && high < FLAT_PERCENT)
            })
        };
        (0..last).find(|&from| is_flat(from))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_no_surer_than_what_it_is_measured_by() {
        let change = |by_seed: &[&[f64]]| Effect::with(by_seed).change(0, 1).unwrap();
        let steady = change(&[&[100.0, 100.0, 100.0], &[400.0, 401.0, 399.0]]);
        let scattered = change(&[&[96.0, 104.0, 100.0], &[400.0, 401.0, 399.0]]);
        let width = |it: &Estimate| it.interval.map(|(low, high)| high - low).unwrap();
        assert!((steady.mean - 300.0).abs() < 1e-9 && (scattered.mean - 300.0).abs() < 1e-9);
        assert!(width(&scattered) > 10.0 * width(&steady), "{steady:?}, {scattered:?}");
        // If both means move together, the interval of the ratio is narrow.
        let together = change(&[&[90.0, 110.0, 100.0], &[360.0, 440.0, 400.0]]);
        assert!(width(&together) < 1e-9, "{together:?}");
    }
}
