//! Means of runs and their confidence intervals.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use statrs::distribution::{ContinuousCDF, StudentsT};

/// Confidence level: the share of intervals that contain the true mean.
pub const CONFIDENCE: f64 = 0.95;

/// A mean of runs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Estimate {
    /// The mean.
    pub mean: f64,
    /// The 95 % confidence interval of the mean; `None` of a single run.
    pub interval: Option<(f64, f64)>,
    /// Runs that it is the mean of.
    pub runs: u32,
}

impl Estimate {
    /// Returns the mean of `values` with its interval by Student's t, which assumes a normal distribution; `None` if
    /// there are no values.
    pub fn of(values: &[f64]) -> Option<Estimate> {
        Estimate::chosen_of(values, 1)
    }

    /// Returns the mean of `values`, which was chosen from `choices` means, with an interval that is wide enough that
    /// all of those means lie in theirs with the confidence of one (Bonferroni); `None` if there are no values.
    pub(crate) fn chosen_of(values: &[f64], choices: usize) -> Option<Estimate> {
        if values.is_empty() {
            return None;
        }
        let count = values.len() as f64;
        // If all values are equal, the mean is exactly that value; their sum could miss it by a rounding error.
        let is_constant = values.iter().all(|value| *value == values[0]);
        let mean = if is_constant { values[0] } else { values.iter().sum::<f64>() / count };
        let interval = (values.len() > 1).then(|| {
            let squares = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
            let error = (squares / (count - 1.0) / count).sqrt();
            let student =
                StudentsT::new(0.0, 1.0, count - 1.0).expect("there is a degree of freedom");
            let beyond = (1.0 - CONFIDENCE) / choices.max(1) as f64;
            let half =
                if error > 0.0 { student.inverse_cdf(1.0 - beyond / 2.0) * error } else { 0.0 };
            (mean - half, mean + half)
        });
        Some(Estimate { mean, interval, runs: values.len() as u32 })
    }

    /// Returns the estimate in percent of `base`.
    pub fn percent_of(&self, base: f64) -> Estimate {
        let percent = |value: f64| value / base.abs() * 100.0;
        Estimate {
            mean: percent(self.mean),
            interval: self.interval.map(|(low, high)| (percent(low), percent(high))),
            runs: self.runs,
        }
    }

    /// Returns true if there is an interval and it does not contain zero.
    pub fn is_certain(&self) -> bool {
        self.interval.is_some_and(|(low, high)| low > 0.0 || high < 0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{RngExt, SeedableRng};
    use rand_pcg::Pcg64;
    use statrs::distribution::Normal;

    #[test]
    fn the_interval_is_that_of_students_t() {
        let estimate = Estimate::of(&[1.0, 2.0, 3.0, 4.0, 5.0]).unwrap();
        let (low, high) = estimate.interval.unwrap();
        // t(0.975, 4) = 2.776445, standard error sqrt(2.5 / 5).
        let half = 2.776_445_105 * 0.5_f64.sqrt();
        assert!((low - (3.0 - half)).abs() < 1e-6 && (high - (3.0 + half)).abs() < 1e-6);
        assert_eq!(Estimate::of(&[7.0]).unwrap().interval, None);
        assert_eq!(Estimate::of(&[]), None);
        assert_eq!(Estimate::of(&[0.1; 3]).unwrap().interval, Some((0.1, 0.1)));
    }

    #[test]
    fn intervals_cover_the_truth_95_times_in_a_hundred() {
        let mut random = Pcg64::seed_from_u64(1);
        let normal = Normal::new(100.0, 7.0).unwrap();
        for runs in [2, 3, 5, 20] {
            let covered = (0..1000).filter(|_| {
                let draw = |_| normal.inverse_cdf(random.random_range(f64::EPSILON..1.0));
                let values: Vec<f64> = (0..runs).map(draw).collect();
                let (low, high) = Estimate::of(&values).unwrap().interval.unwrap();
                (low..=high).contains(&100.0)
            });
            let covered = covered.count();
            assert!((930..=970).contains(&covered), "{covered} of 1000 with {runs} runs");
        }
    }
}
