//! Sags of throughput over time, and the lowest mean over a window.
//!
//! The mean over half an hour hides a minute in which a drive did a quarter of that. A sag is a stretch in
//! which the speed is below three quarters of the level. The level is the mean in steady state, or else the
//! median of the later half. The series is divided into slices, so that the scatter of short rounds does not
//! count.

use ssdlab_units::ByteLength;

use super::Record;
use crate::output::format::{significant, span};
use crate::report::{Cell, Column, Table};

/// Window of the lowest mean in a short series, as a share of the series.
const WINDOW_SHARE: f64 = 0.1;

/// Number of slices in a window.
const SLICES: f64 = 6.0;

/// Limit of a sag, as a share of the level.
const SAG: f64 = 0.75;

/// Mean speed of a stretch of time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Stretch {
    /// Start of the stretch, in seconds since the first write.
    pub(super) begin: f64,
    pub(super) seconds: f64,
    /// Mean speed, in the unit of the series.
    pub(super) speed: f64,
}

/// Lowest mean and sags of a series.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Lows {
    /// Window of the lowest mean, in seconds.
    pub(super) window: f64,
    /// Lowest mean over a window.
    pub(super) lowest: f64,
    /// Level from which the speed sags.
    pub(super) level: f64,
    /// Mean speed outside of the sags.
    pub(super) outside: f64,
    pub(super) sags: Vec<Stretch>,
}

impl Lows {
    /// Returns the sags and the lowest mean over `window` seconds, or over a tenth of the series if that is
    /// shorter. Each span of the series has its seconds and its speed. `level` is the mean in steady state,
    /// if it is known. `None` for an empty series.
    pub(super) fn of(series: &[(f64, f64)], window: f64, level: Option<f64>) -> Option<Lows> {
        let total: f64 = series.iter().map(|it| it.0).sum();
        if total <= 0.0 {
            return None;
        }
        let window = window.min(total * WINDOW_SHARE);
        let slices = slices(series, window / SLICES);
        let level = level.unwrap_or_else(|| median(&slices[slices.len() / 2..]));
        Some(Lows {
            window,
            lowest: lowest_mean(series, window),
            level,
            outside: mean_above(&slices, SAG * level),
            sags: sags(&slices, SAG * level),
        })
    }

    /// Returns the total duration of the sags, in seconds.
    pub(super) fn sag_seconds(&self) -> f64 {
        self.sags.iter().map(|sag| sag.seconds).sum()
    }

    /// Returns the mean speed of the deepest sag.
    pub(super) fn sag_speed(&self) -> Option<f64> {
        self.sags.iter().map(|sag| sag.speed).min_by(f64::total_cmp)
    }

    /// Returns the cells of the columns of [`columns`], for requests of length `request`.
    pub(super) fn cells(&self, request: ByteLength) -> [Cell; COLUMNS] {
        let megabytes = request.bytes() as f64 / 1e6;
        [
            Cell::from(self.window),
            Cell::from(self.lowest),
            Cell::from(self.lowest * megabytes),
            Cell::from(self.sags.len() as f64),
            Cell::from(self.sag_speed()),
            Cell::from(self.sag_speed().map(|it| it * megabytes)),
            Cell::from(self.sag_seconds()),
        ]
    }

    /// Adds the table `lows` to a record, for requests of length `request`. Returns the sentence of a finding
    /// about `what`, or `None` if there are no sags.
    pub(super) fn add_table(
        &self,
        what: &str,
        request: ByteLength,
        record: &mut Record,
    ) -> Option<String> {
        let rows = vec![self.cells(request).into()];
        record.tables.push(Table { name: "lows".to_owned(), columns: columns().into(), rows });
        self.sag_sentence(what, "IOPS")
    }

    /// Returns a sentence about the sags of `what` (in the plural, such as "Random writes"); `None` if there
    /// are none.
    pub(super) fn sag_sentence(&self, what: &str, unit: &str) -> Option<String> {
        let deepest = significant(self.sag_speed()?);
        let (last, outside) = (self.sags.last()?, significant(self.outside));
        let around = |sag: &Stretch| {
            let middle = sag.begin + sag.seconds / 2.0;
            match middle {
                ..90.0 => format!("second {middle:.0}"),
                _ => format!("minute {:.0}", middle / 60.0),
            }
        };
        Some(match &self.sags[..] {
            [one] => format!(
                "{what} sag to {deepest} {unit} for {} around {}; the rest of the time they run at {outside} on \
                 average.",
                span(one.seconds),
                around(one)
            ),
            many => format!(
                "{what} sag {} times, to {deepest} {unit} in the deepest sag and for {} in all, the \
                 last time around {}; the rest of the time they run at {outside} on average.",
                many.len(),
                span(self.sag_seconds()),
                around(last)
            ),
        })
    }
}

const COLUMNS: usize = 7;

/// Returns the columns of tables of lows: the window and its lowest mean, the number of sags, the mean of the
/// deepest, and the seconds of all.
pub(super) fn columns() -> [Column; COLUMNS] {
    [
        Column::new("window_s", "s"),
        Column::new("min_iops", "IOPS"),
        Column::new("min_mb_per_s", "MB/s"),
        Column::new("sags", ""),
        Column::new("sag_iops", "IOPS"),
        Column::new("sag_mb_per_s", "MB/s"),
        Column::new("sag_s", "s"),
    ]
}

/// Divides the series into slices of at least `seconds`.
fn slices(series: &[(f64, f64)], seconds: f64) -> Vec<Stretch> {
    let mut slices = Vec::new();
    let (mut end, mut length, mut amount) = (0.0, 0.0, 0.0);
    for &(span, speed) in series {
        (end, length, amount) = (end + span, length + span, amount + span * speed);
        // A round may be shorter than its set time by its last request.
        if length >= seconds * 0.99 {
            slices.push(Stretch { begin: end - length, seconds: length, speed: amount / length });
            (length, amount) = (0.0, 0.0);
        }
    }
    slices
}

fn median(slices: &[Stretch]) -> f64 {
    let mut speeds: Vec<f64> = slices.iter().map(|it| it.speed).collect();
    speeds.sort_by(f64::total_cmp);
    speeds.get(speeds.len() / 2).copied().unwrap_or(0.0)
}

/// Returns the lowest mean over successive spans of at least `seconds` together.
fn lowest_mean(series: &[(f64, f64)], seconds: f64) -> f64 {
    let (mut lowest, mut first) = (f64::INFINITY, 0);
    let (mut length, mut amount) = (0.0, 0.0);
    for (last, &(span, speed)) in series.iter().enumerate() {
        (length, amount) = (length + span, amount + span * speed);
        while first < last && length - series[first].0 >= seconds * 0.99 {
            length -= series[first].0;
            amount -= series[first].0 * series[first].1;
            first += 1;
        }
        if length >= seconds * 0.99 {
            lowest = lowest.min(amount / length);
        }
    }
    lowest
}

/// Returns the mean speed of the slices at or above `limit`.
fn mean_above(slices: &[Stretch], limit: f64) -> f64 {
    let above = || slices.iter().filter(|it| it.speed >= limit);
    let seconds: f64 = above().map(|it| it.seconds).sum();
    let amount: f64 = above().map(|it| it.seconds * it.speed).sum();
    if seconds > 0.0 { amount / seconds } else { 0.0 }
}

/// Returns the stretches of slices below `limit`.
fn sags(slices: &[Stretch], limit: f64) -> Vec<Stretch> {
    slices
        .chunk_by(|one, next| (one.speed < limit) == (next.speed < limit))
        .filter(|stretch| stretch[0].speed < limit)
        .map(|stretch| {
            let seconds: f64 = stretch.iter().map(|it| it.seconds).sum();
            let amount: f64 = stretch.iter().map(|it| it.seconds * it.speed).sum();
            Stretch { begin: stretch[0].begin, seconds, speed: amount / seconds }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns spans of one second: for each part, a number of spans with the same speed.
    fn series(parts: &[(usize, f64)]) -> Vec<(f64, f64)> {
        parts.iter().flat_map(|&(count, speed)| vec![(1.0, speed); count]).collect()
    }

    #[test]
    fn a_sag_is_found_where_it_is() {
        let lows =
            Lows::of(&series(&[(280, 100.0), (40, 20.0), (1000, 100.0)]), 60.0, None).unwrap();
        assert_eq!(lows.level, 100.0);
        assert_eq!(lows.sags, [Stretch { begin: 280.0, seconds: 40.0, speed: 20.0 }]);
        // 40 s of a minute at 20, the rest at 100.
        assert!((lows.lowest - 140.0 / 3.0).abs() < 1e-9, "{}", lows.lowest);
        let words = lows.sag_sentence("Random writes", "IOPS").unwrap();
        assert_eq!(
            words,
            "Random writes sag to 20.0 IOPS for 40.0 s around minute 5; the rest of the time they run at \
             100 on average."
        );
    }

    #[test]
    fn a_fast_beginning_is_in_the_mean_outside_of_the_sags() {
        let parts = [(100, 500.0), (200, 100.0), (40, 20.0), (200, 100.0)];
        let lows = Lows::of(&series(&parts), 60.0, None).unwrap();
        assert_eq!((lows.level, lows.sags.len()), (100.0, 1), "{lows:?}");
        assert!((lows.outside - 180.0).abs() < 1.0, "{lows:?}");
    }

    #[test]
    fn several_sags_are_counted_and_the_deepest_named() {
        let parts = [(60, 100.0), (20, 50.0), (60, 100.0), (30, 30.0), (800, 100.0)];
        let lows = Lows::of(&series(&parts), 60.0, Some(100.0)).unwrap();
        assert_eq!((lows.sags.len(), lows.sag_seconds()), (2, 50.0));
        let words = lows.sag_sentence("Writes", "MB/s").unwrap();
        assert!(words.starts_with("Writes sag 2 times, to 30.0 MB/s in the deepest"), "{words}");
        assert!(words.contains("for 50.0 s in all, the last time around minute 3"), "{words}");
    }

    #[test]
    fn scatter_and_a_fast_beginning_are_no_sags() {
        let alternating = [(1, 160.0), (1, 40.0)].repeat(200);
        let lows = Lows::of(&series(&alternating), 60.0, None).unwrap();
        // 400 s in slices of 7 s: some slices have one slow second more than others.
        assert_eq!(lows.sags, [], "{lows:?}");
        let settling = Lows::of(&series(&[(300, 500.0), (900, 100.0)]), 60.0, None).unwrap();
        assert_eq!((settling.sags.len(), settling.lowest), (0, 100.0));
        assert_eq!(settling.sag_sentence("Writes", "IOPS"), None);
    }

    #[test]
    fn a_short_series_is_looked_at_by_its_tenths() {
        let lows = Lows::of(&series(&[(15, 100.0), (5, 10.0), (30, 100.0)]), 60.0, None).unwrap();
        assert_eq!((lows.window, lows.lowest), (5.0, 10.0));
        assert_eq!(Lows::of(&[], 60.0, None), None);
    }
}
