//! Throughput over time: second by second in the first minute, then minute by minute.

use ssdlab_drive::{PhaseResult, ThroughputPoint};
use ssdlab_units::{ByteLength, Nanoseconds};

use super::super::job_table::merge_short_last_interval;

/// Minimum number of seconds that the speed at the start is averaged over.
const START_SECONDS: usize = 3;

/// Minimum time that the speed at the start is averaged over. Less would show only the write buffer, which
/// does not shrink with the scale of the drive.
const MIN_START_TIME: Nanoseconds = Nanoseconds::from_millis(150);

/// Share of the start speed below which the speed has fallen, if it stays there.
pub(super) const FALL_SHARE: f64 = 0.8;

/// Minimum number of points for a swing.
const MIN_SWING_POINTS: usize = 10;

/// Throughput of one workload over time.
#[derive(Clone, Debug, Default)]
pub(super) struct ThroughputHistory {
    /// The first minute, second by second.
    seconds: Vec<ThroughputPoint>,
    /// The minutes after it.
    minutes: Vec<ThroughputPoint>,
    /// Units relocated by GC in the first minute; `None` for a real drive.
    pub(super) relocated_in_first_minute: Option<u64>,
    /// Regions compacted in the first minute because the extent map was full.
    pub(super) compacted_in_first_minute: u64,
    /// True if the workload ran for the whole time; otherwise there are no findings about it.
    pub(super) is_complete: bool,
}

/// Fluctuation of a speed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Swing {
    /// Standard deviation of the minutes in the later half.
    pub(super) mb_per_second: f64,
    /// Standard deviation divided by the mean: the coefficient of variation.
    pub(super) share: f64,
}

impl ThroughputHistory {
    /// Adds the results of the next phase of the workload.
    pub(super) fn add(&mut self, result: &PhaseResult) {
        let points = merge_short_last_interval(&result.throughput);
        if self.seconds.is_empty() { self.seconds = points } else { self.minutes.extend(points) }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.seconds.is_empty()
    }

    /// Returns the curve of the first minute: seconds, MB/s.
    pub(super) fn by_second(&self) -> Vec<(f64, f64)> {
        points_from_start(&self.seconds, 1.0)
    }

    /// Returns the whole curve: minutes, MB/s.
    pub(super) fn by_minute(&self) -> Vec<(f64, f64)> {
        let first = merge(&self.seconds);
        let all: Vec<ThroughputPoint> =
            first.into_iter().chain(self.minutes.iter().copied()).collect();
        points_from_start(&all, 60.0)
    }

    /// Returns the speed at the start in MB/s.
    pub(super) fn start(&self) -> Option<f64> {
        let each = self.seconds.first()?.length;
        let least = MIN_START_TIME.nanos().div_ceil(each.nanos().max(1)) as usize;
        let count = START_SECONDS.max(least).min(self.seconds.len());
        merge(&self.seconds[..count]).map(|point| point.mb_per_second())
    }

    /// Returns the speed in the later half of the time in MB/s.
    pub(super) fn later_half(&self) -> Option<f64> {
        let later = match self.minutes.len() {
            0 => &self.seconds[self.seconds.len() / 2..],
            // The first minute counts as one of them.
            minutes => &self.minutes[minutes.div_ceil(2) - 1..],
        };
        merge(later).map(|point| point.mb_per_second())
    }

    /// Returns the seconds after which the speed fell for good: a point is below [`FALL_SHARE`] of the start, and
    /// so is the mean of all points from there on. `None` if the speed did not fall.
    pub(super) fn fell_after(&self) -> Option<f64> {
        let limit = self.start()? * FALL_SHARE;
        let points: Vec<ThroughputPoint> =
            self.seconds.iter().chain(&self.minutes).copied().collect();
        let mut before = Nanoseconds::ZERO;
        for (index, point) in points.iter().enumerate() {
            let after = merge(&points[index..])?;
            if point.mb_per_second() < limit && after.mb_per_second() < limit {
                return Some(before.seconds());
            }
            before += point.length;
        }
        None
    }

    /// Returns the fluctuation of the minutes in the later half; `None` if there are too few.
    pub(super) fn swing(&self) -> Option<Swing> {
        let later = self.minutes.get(self.minutes.len() / 2..)?;
        if later.len() < MIN_SWING_POINTS {
            return None;
        }
        let speeds: Vec<f64> = later.iter().map(ThroughputPoint::mb_per_second).collect();
        let mean = speeds.iter().sum::<f64>() / speeds.len() as f64;
        let squares: f64 = speeds.iter().map(|speed| (speed - mean).powi(2)).sum();
        let deviation = (squares / (speeds.len() - 1) as f64).sqrt();
        (mean > 0.0).then(|| Swing { mb_per_second: deviation, share: deviation / mean })
    }
}

/// Merges several points into one.
fn merge(points: &[ThroughputPoint]) -> Option<ThroughputPoint> {
    let last = points.last()?;
    Some(ThroughputPoint {
        until: last.until,
        bytes: points.iter().map(|point| point.bytes).sum::<ByteLength>(),
        length: points.iter().map(|point| point.length).sum::<Nanoseconds>(),
    })
}

/// Returns points at the end of their intervals, with times counted from the start of the first.
fn points_from_start(points: &[ThroughputPoint], seconds_per_step: f64) -> Vec<(f64, f64)> {
    let mut until = Nanoseconds::ZERO;
    points
        .iter()
        .map(|point| {
            until += point.length;
            (until.seconds() / seconds_per_step, point.mb_per_second())
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(seconds: u64, speeds: &[f64]) -> Vec<ThroughputPoint> {
        let length = Nanoseconds::from_secs(seconds);
        let point = |(index, speed): (usize, &f64)| ThroughputPoint {
            until: length * (index as u64 + 1),
            bytes: ByteLength::new((speed * 1e6) as u64 * seconds),
            length,
        };
        speeds.iter().enumerate().map(point).collect()
    }

    fn history_of(seconds: &[f64], minutes: &[f64]) -> ThroughputHistory {
        ThroughputHistory {
            seconds: points(1, seconds),
            minutes: points(60, minutes),
            relocated_in_first_minute: None,
            compacted_in_first_minute: 0,
            is_complete: true,
        }
    }

    #[test]
    fn a_fall_is_found_where_it_begins_and_a_dip_is_none() {
        let falling = history_of(&[100.0, 100.0, 100.0, 90.0, 40.0, 30.0], &[30.0, 30.0]);
        assert_eq!(falling.fell_after(), Some(4.0));
        let dip = history_of(&[100.0, 100.0, 100.0, 40.0, 100.0, 100.0], &[99.0, 98.0]);
        assert_eq!(dip.fell_after(), None);
    }

    #[test]
    fn a_full_write_buffer_is_no_fall_on_a_drive_made_small() {
        // The buffer takes 30 % more than the flash for 50 ms.
        let point = |(index, speed): (u64, f64)| ThroughputPoint {
            until: Nanoseconds::from_millis(10 * (index + 1)),
            bytes: ByteLength::new((speed * 1e4) as u64),
            length: Nanoseconds::from_millis(10),
        };
        let speeds = (0..60).map(|index| (index, if index < 5 { 130.0 } else { 100.0 }));
        let seconds = speeds.map(point).collect();
        let small = ThroughputHistory { seconds, ..ThroughputHistory::default() };
        assert!((small.start().unwrap() - 110.0).abs() < 0.1, "{:?}", small.start());
        assert_eq!(small.fell_after(), None);
    }

    #[test]
    fn the_swing_is_that_of_the_later_half() {
        let mut minutes = vec![500.0; 20];
        minutes.extend([90.0, 110.0].repeat(10));
        let swing = history_of(&[1.0; 60], &minutes).swing().unwrap();
        assert!((swing.mb_per_second - 10.26).abs() < 0.01, "{swing:?}");
        assert!((swing.share - 0.1026).abs() < 1e-4);
        assert_eq!(history_of(&[1.0; 60], &[1.0; 5]).swing(), None);
    }

    #[test]
    fn the_first_minute_is_the_first_point_of_the_minutes() {
        let speed = history_of(&[10.0; 60], &[20.0, 30.0]);
        assert_eq!(speed.by_minute(), [(1.0, 10.0), (2.0, 20.0), (3.0, 30.0)]);
        assert_eq!(speed.by_second().len(), 60);
    }

    #[test]
    fn what_was_answered_late_belongs_to_the_last_interval() {
        let mut late = points(60, &[10.0, 10.0]);
        late.push(ThroughputPoint {
            until: Nanoseconds::from_millis(120_500),
            bytes: ByteLength::new(5_000_000),
            length: Nanoseconds::from_millis(500),
        });
        let whole = merge_short_last_interval(&late);
        assert_eq!(whole.len(), 2);
        assert!((whole[1].mb_per_second() - 10.0).abs() < 1e-9);
    }
}
