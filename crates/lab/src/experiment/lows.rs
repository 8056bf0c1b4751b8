//! How low a speed falls over time: its lowest mean over a minute or so, and its sags.
//!
//! A mean over half an hour says nothing of the minute in which a drive did a quarter of that. A sag
//! is a stretch in which the speed is below three quarters of its level, which is the mean once
//! steady, or else the median of the later half. Stretches are looked at in slices, so that the
//! scatter of short rounds is none.

use ssdlab_units::ByteLength;

use super::Record;
use crate::output::format::{significant, span};
use crate::report::{Cell, Column, Table};

/// The part of a short series that the lowest mean is over.
const WINDOW_SHARE: f64 = 0.1;

/// Slices in a window.
const SLICES: f64 = 6.0;

/// A speed below this share of the level is a sag.
const SAG: f64 = 0.75;

/// A speed for some time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Stretch {
    /// When it begins, in seconds from the first write on.
    pub(super) begin: f64,
    pub(super) seconds: f64,
    /// Its mean speed, in the unit of the series.
    pub(super) speed: f64,
}

/// How low a series falls.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Lows {
    /// What the lowest mean is over, in seconds.
    pub(super) window: f64,
    /// The lowest mean over so long.
    pub(super) lowest: f64,
    /// The speed that it sags from: its level.
    pub(super) level: f64,
    /// The mean speed outside of the sags.
    pub(super) outside: f64,
    pub(super) sags: Vec<Stretch>,
}

impl Lows {
    /// Looks through a series of spans, each with its seconds and the speed in it, for its lowest mean over
    /// `window` seconds, or over a tenth of all where that is less. `level` is its mean once steady, if it
    /// is known. Nothing of an empty series.
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

    /// Seconds that it sags, all together.
    pub(super) fn sag_seconds(&self) -> f64 {
        self.sags.iter().map(|sag| sag.seconds).sum()
    }

    /// The speed in the deepest sag.
    pub(super) fn sag_speed(&self) -> Option<f64> {
        self.sags.iter().map(|sag| sag.speed).min_by(f64::total_cmp)
    }

    /// Its cells below [`columns`], of a series of requests of `request` each.
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

    /// Adds a table of its own to a record, of a series of requests of `request` each; returns what a finding says of
    /// `what`, where it sags.
    pub(super) fn tell(
        &self,
        what: &str,
        request: ByteLength,
        record: &mut Record,
    ) -> Option<String> {
        let rows = vec![self.cells(request).into()];
        record.tables.push(Table { name: "lows".to_owned(), columns: columns().into(), rows });
        self.words(what, "IOPS")
    }

    /// Returns what it does, in a sentence about `what` (several, such as "Random writes"); nothing where it never
    /// sags.
    pub(super) fn words(&self, what: &str, unit: &str) -> Option<String> {
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

/// The columns of tables of lows: what the lowest mean is over and that mean, how many sags there are, the
/// mean of the deepest, and the seconds of all.
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

/// The series in slices of `seconds` at least, each with when it ends, its seconds and its speed.
fn slices(series: &[(f64, f64)], seconds: f64) -> Vec<Stretch> {
    let mut slices = Vec::new();
    let (mut end, mut length, mut amount) = (0.0, 0.0, 0.0);
    for &(span, speed) in series {
        (end, length, amount) = (end + span, length + span, amount + span * speed);
        // Rounds are as long as they are asked to be but for their last request.
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

/// The lowest mean over spans that follow each other and are `seconds` long at least.
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

/// The mean speed of the slices that are not below `limit`.
fn mean_above(slices: &[Stretch], limit: f64) -> f64 {
    let above = || slices.iter().filter(|it| it.speed >= limit);
    let seconds: f64 = above().map(|it| it.seconds).sum();
    let amount: f64 = above().map(|it| it.seconds * it.speed).sum();
    if seconds > 0.0 { amount / seconds } else { 0.0 }
}

/// Stretches of slices below `limit`.
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

    /// Spans of a second: so many at each speed.
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
        let words = lows.words("Random writes", "IOPS").unwrap();
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
        let words = lows.words("Writes", "MB/s").unwrap();
        assert!(words.starts_with("Writes sag 2 times, to 30.0 MB/s in the deepest"), "{words}");
        assert!(words.contains("for 50.0 s in all, the last time around minute 3"), "{words}");
    }

    #[test]
    fn scatter_and_a_fast_beginning_are_no_sags() {
        let alternating = [(1, 160.0), (1, 40.0)].repeat(200);
        let lows = Lows::of(&series(&alternating), 60.0, None).unwrap();
        // 400 s in slices of 7: some have a slow second more.
        assert_eq!(lows.sags, [], "{lows:?}");
        let settling = Lows::of(&series(&[(300, 500.0), (900, 100.0)]), 60.0, None).unwrap();
        assert_eq!((settling.sags.len(), settling.lowest), (0, 100.0));
        assert_eq!(settling.words("Writes", "IOPS"), None);
    }

    #[test]
    fn a_short_series_is_looked_at_by_its_tenths() {
        let lows = Lows::of(&series(&[(15, 100.0), (5, 10.0), (30, 100.0)]), 60.0, None).unwrap();
        assert_eq!((lows.window, lows.lowest), (5.0, 10.0));
        assert_eq!(Lows::of(&[], 60.0, None), None);
    }
}
