//! Divides a throughput curve into stretches of constant speed.

use ssdlab_drive::ThroughputPoint;
use ssdlab_units::{ByteLength, Nanoseconds};

use super::MIN_CLIFF;

/// Minimum number of points in a stretch: fewer are a dip.
const MIN_POINTS: usize = 5;

/// A change is judged by the mean of the next 20 points, or of one in 50 of all points if that is more. So a
/// speed that dips, or fluctuates with erases and folding, counts as one speed.
const WINDOW: usize = 20;
const WINDOWS: usize = 50;

/// Part of the written data with one speed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Stretch {
    /// Bytes written.
    pub(super) length: ByteLength,
    /// Mean throughput.
    pub(super) mb_per_second: f64,
}

/// Divides the points where the next point and the mean of the following points both differ from the mean of
/// the stretch by more than a cliff.
pub(super) fn stretches(points: &[ThroughputPoint]) -> Vec<Stretch> {
    let speeds: Vec<f64> = points.iter().map(ThroughputPoint::mb_per_second).collect();
    let window = (speeds.len() / WINDOWS).max(WINDOW);
    let mut starts = vec![0];
    let mut place = MIN_POINTS;
    // At the end, at least half a window has to remain: fewer points may be a fluctuation of the last
    // stretch.
    while place + window / 2 <= speeds.len() {
        let start = *starts.last().expect("one begins at the first point");
        // The speed may have changed within the first point of a stretch.
        let so_far = mean(&speeds[start + usize::from(start > 0)..place]);
        let next = &speeds[place..(place + window).min(speeds.len())];
        if differ(so_far, speeds[place]) && differ(so_far, mean(next)) {
            starts.push(place);
            place += MIN_POINTS;
        } else {
            place += 1;
        }
    }
    let ends = starts.iter().skip(1).copied().chain([points.len()]);
    let mut found: Vec<Stretch> = Vec::new();
    for part in starts.iter().zip(ends).filter_map(|(&start, end)| stretch(&points[start..end])) {
        match found.last_mut() {
            Some(last) if !differ(last.mb_per_second, part.mb_per_second) => {
                *last = last.merge(part)
            }
            _ => found.push(part),
        }
    }
    found
}

impl Stretch {
    /// Returns both stretches as one, with their mean speed.
    fn merge(self, other: Stretch) -> Stretch {
        let time = |it: Stretch| it.length.bytes() as f64 / it.mb_per_second;
        let length = self.length + other.length;
        let mb_per_second = length.bytes() as f64 / (time(self) + time(other));
        Stretch { length, mb_per_second }
    }
}

fn stretch(points: &[ThroughputPoint]) -> Option<Stretch> {
    let length: ByteLength = points.iter().map(|point| point.bytes).sum();
    let time: Nanoseconds = points.iter().map(|point| point.length).sum();
    let is_any = time > Nanoseconds::ZERO && length > ByteLength::ZERO;
    is_any.then(|| Stretch { length, mb_per_second: length.bytes() as f64 / 1e6 / time.seconds() })
}

fn differ(one: f64, other: f64) -> bool {
    (one - other).abs() > MIN_CLIFF * one.max(other)
}

fn mean(speeds: &[f64]) -> f64 {
    speeds.iter().sum::<f64>() / speeds.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(speeds: &[f64]) -> Vec<ThroughputPoint> {
        let length = Nanoseconds::from_secs(1);
        let point = |(index, speed): (usize, &f64)| ThroughputPoint {
            until: length * (index as u64 + 1),
            bytes: ByteLength::new((speed * 1e6) as u64),
            length,
        };
        speeds.iter().enumerate().map(point).collect()
    }

    fn seen(speeds: &[f64]) -> Vec<(u64, f64)> {
        let stretches = stretches(&points(speeds));
        stretches.iter().map(|it| (it.length.bytes() / 1_000_000, it.mb_per_second)).collect()
    }

    #[test]
    fn each_speed_that_lasts_is_a_stretch() {
        let speeds = [vec![1000.0; 20], vec![600.0; 30], vec![100.0; 40]].concat();
        assert_eq!(seen(&speeds), [(20_000, 1000.0), (18_000, 600.0), (4_000, 100.0)]);
    }

    #[test]
    fn a_point_within_which_the_speed_changed_makes_no_stretch_of_its_own() {
        let speeds = [vec![2300.0; 9], vec![1500.0], vec![600.0; 100]].concat();
        assert_eq!(seen(&speeds).len(), 2);
    }

    #[test]
    fn a_dip_and_noise_are_none() {
        let mut speeds = vec![500.0; 60];
        speeds[20..23].fill(50.0);
        assert_eq!(seen(&speeds).len(), 1);
        let noisy: Vec<f64> = (0..60).map(|it| 500.0 + f64::from(it % 7) * 12.0).collect();
        assert_eq!(seen(&noisy).len(), 1);
        assert_eq!(seen(&[]).len(), 0);
    }

    #[test]
    fn a_few_slow_points_at_the_end_are_no_stretch() {
        let speeds = [vec![2000.0; 20], vec![100.0; 60], vec![40.0; 6]].concat();
        assert_eq!(seen(&speeds).len(), 2);
    }

    #[test]
    fn a_speed_that_swings_from_point_to_point_is_one_stretch() {
        let mut speeds = vec![2000.0; 20];
        speeds.extend([100.0, 900.0].repeat(30));
        assert_eq!(seen(&speeds).len(), 2);
    }
}
