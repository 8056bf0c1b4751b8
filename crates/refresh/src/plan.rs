//! Plan and summary of a refresh: the figures that are shown to the user.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Serialize;

use crate::interval::{Estimate, median};
use crate::judge::{Cause, Evidence, Verdict};
use crate::strategy::SkipReason;
use crate::survey::RewriteMethod;
use crate::window::Span;

/// Name and version of the JSON format.
pub const SCHEMA: &str = "ssdlab.refresh/1";

/// Bytes of windows by verdict.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct BytesByVerdict {
    /// As fast as they can be, or not slow enough to be worth the wear.
    pub fine: u64,
    /// Slow, by cause.
    pub slow: BTreeMap<Cause, u64>,
    /// Slow at the first reading only.
    pub first_only: u64,
    /// Undecided, because the machine was too busy.
    pub not_told: u64,
    /// Slow compared with one baseline and not with another: a cache below, or a busy moment.
    pub contradicted: u64,
    /// Not judged, because all windows are rewritten, or were judged before an interruption.
    pub not_judged: u64,
}

/// Plan of a refresh.
#[derive(Clone, Debug, Serialize)]
pub struct Plan {
    /// Name and version of the format.
    pub schema: &'static str,
    /// The file or device.
    pub path: PathBuf,
    /// File system and devices below the data, in words.
    pub lies_on: String,
    /// Method of the rewrite.
    pub way: RewriteMethod,
    /// Method of the rewrite in words.
    pub way_words: &'static str,
    /// Length of the file or device in bytes.
    pub length: u64,
    /// Bytes of data in the file or device.
    pub data: u64,
    /// Number of windows that the data was read in.
    pub windows: usize,
    /// Verdicts on the windows.
    pub found: BytesByVerdict,
    /// Windows to rewrite.
    pub rewrite: Vec<Span>,
    /// Bytes in these windows, all of which would be written.
    pub bytes_to_write: u64,
    /// Bytes written to temporary files as baselines for the speed of fresh data.
    pub yardstick_bytes: u64,
    /// Bytes per second at which the data is read now, from end to end, without other load.
    pub speed_now: f64,
    /// Bytes per second of fresh data; `None` if not measured.
    pub speed_fresh: Option<f64>,
    /// Bytes per second that are expected after the rewrite; `None` if the speed of fresh data is not
    /// known.
    pub speed_expected: Option<f64>,
    /// Number of times that the windows to rewrite are slower than fresh data: the median over them, and
    /// the medians of the ends of their intervals.
    pub slowdown: Option<Estimate>,
    /// Share of the drive's rated life that the writes take, in percent; `None` if the drive reports too
    /// little.
    pub share_of_life: Option<f64>,
    /// True if this plan resumes an earlier refresh.
    pub resumed: bool,
    /// Other remarks for the user, in sentences.
    pub notes: Vec<String>,
}

/// Result of a refresh.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// The plan that was carried out.
    pub plan: Plan,
    /// Bytes that were rewritten.
    pub bytes_written: u64,
    /// Bytes that were left as they are, by reason.
    pub left: BTreeMap<SkipReason, u64>,
    /// Bytes per second before the rewrite.
    pub speed_before: f64,
    /// Bytes per second after the rewrite; `None` if the data was not read again.
    pub speed_after: Option<f64>,
    /// Number of times that reading is faster than before, with the interval over the windows.
    pub gain: Option<Estimate>,
    /// Number of freezes of the file system; `None` if the method does not freeze.
    pub freezes: Option<u64>,
    /// Longest allowed freeze in milliseconds.
    pub allowed_freeze_ms: Option<f64>,
    /// Longest freeze in milliseconds.
    pub longest_freeze_ms: Option<f64>,
    /// Number of freezes that were longer than allowed.
    pub freezes_too_long: Option<u64>,
    /// Longest time in milliseconds for which the file system held up writers of the file; `None` unless
    /// the file system moves data itself and that time is measured.
    pub longest_hold_ms: Option<f64>,
    /// Reason why the refresh ended early; `None` if it did not.
    pub stopped: Option<String>,
    /// Number of windows that were not reached; --resume continues with them.
    pub windows_left: usize,
    /// True if the user ended the refresh.
    pub is_interrupted: bool,
}

/// Sums up the bytes of windows by verdict.
pub fn sum_by_verdict(judged: &[(&Evidence, Verdict)]) -> BytesByVerdict {
    let mut found = BytesByVerdict::default();
    for (evidence, verdict) in judged {
        let bytes = evidence.span.length;
        match verdict {
            Verdict::Fine => found.fine += bytes,
            Verdict::Slow(cause) => *found.slow.entry(*cause).or_default() += bytes,
            Verdict::FirstOnly => found.first_only += bytes,
            Verdict::NotTold => found.not_told += bytes,
            Verdict::Contradicted => found.contradicted += bytes,
        }
    }
    found
}

/// Returns the bytes per second of windows, each given with its seconds per byte.
pub fn speed(windows: impl Iterator<Item = (Span, f64)>) -> f64 {
    let (bytes, seconds) = windows.fold((0, 0.0), |(bytes, seconds), (span, per_byte)| {
        (bytes + span.length, seconds + per_byte * span.length as f64)
    });
    if seconds > 0.0 { bytes as f64 / seconds } else { 0.0 }
}

/// Time to read fresh data, in seconds per byte.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FreshReadTime {
    /// Time of the first window of a run: the drive does not read ahead of its first requests yet.
    pub first: f64,
    /// Time of a window that follows one that was just read.
    pub following: f64,
}

impl FreshReadTime {
    /// Returns the same time for every window.
    pub fn even(seconds_per_byte: f64) -> FreshReadTime {
        FreshReadTime { first: seconds_per_byte, following: seconds_per_byte }
    }

    /// Returns the mean of these times, which must not be empty.
    pub fn mean(times: &[FreshReadTime]) -> FreshReadTime {
        let mean = |part: fn(&FreshReadTime) -> f64| {
            times.iter().map(part).sum::<f64>() / times.len() as f64
        };
        FreshReadTime { first: mean(|it| it.first), following: mean(|it| it.following) }
    }
}

/// Returns the bytes per second that are expected once the windows in `rewrite` are as fast as fresh
/// data.
pub fn expected_speed(evidence: &[Evidence], rewrite: &[Span], fresh: FreshReadTime) -> f64 {
    let mut read_until = None;
    speed(evidence.iter().map(|it| {
        let follows = read_until.replace(it.span.end()) == Some(it.span.offset);
        let fresh = if follows { fresh.following } else { fresh.first };
        let is_rewritten = rewrite.binary_search(&it.span).is_ok();
        (
            it.span,
            if is_rewritten {
                it.expected(fresh).min(it.time_without_load())
            } else {
                it.time_without_load()
            },
        )
    }))
}

/// Returns how many times slower than fresh data the windows in `rewrite` are: the medians over them.
/// `None` if no window has enough turns.
pub fn slowdown(evidence: &[Evidence], rewrite: &[Span], fresh: f64) -> Option<Estimate> {
    let found: Vec<Estimate> = evidence
        .iter()
        .filter(|it| rewrite.binary_search(&it.span).is_ok())
        .filter_map(|it| it.slowdown(fresh))
        .collect();
    if found.is_empty() {
        return None;
    }
    let of = |part: fn(&Estimate) -> f64| median(&found.iter().map(part).collect::<Vec<f64>>());
    Some(Estimate { low: of(|it| it.low), middle: of(|it| it.middle), high: of(|it| it.high) })
}

/// Returns runs of windows that follow each other without a gap.
pub fn contiguous_runs(windows: &[Span]) -> Vec<(Span, &[Span])> {
    let mut contiguous_runs = Vec::new();
    for part in windows.chunk_by(|one, next| one.end() == next.offset) {
        let (first, last) = (part[0], part[part.len() - 1]);
        contiguous_runs.push((Span::new(first.offset, last.end() - first.offset), part));
    }
    contiguous_runs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_expected_counts_the_slow_windows_as_fresh() {
        let evidence: Vec<Evidence> = [1.0, 4.0, 4.0, 1.0]
            .iter()
            .enumerate()
            .map(|(at, &first)| Evidence::new(Span::new(at as u64 * 100, 100), 1, vec![first]))
            .collect();
        let now = speed(evidence.iter().map(|it| (it.span, it.time_without_load())));
        assert!((now - 0.4).abs() < 1e-12);
        let rewrite = [Span::new(100, 100), Span::new(200, 100)];
        let even = FreshReadTime::even(1.0);
        assert!((expected_speed(&evidence, &rewrite, even) - 1.0).abs() < 1e-12);
        assert!((expected_speed(&evidence, &rewrite[..1], even) - 4.0 / 7.0).abs() < 1e-12);
    }

    #[test]
    fn what_begins_a_run_is_expected_to_take_longer_than_what_follows() {
        let evidence: Vec<Evidence> = [0, 100, 200, 400]
            .map(|at| Evidence::new(Span::new(at, 100), 1, vec![8.0]))
            .into_iter()
            .collect();
        let rewrite: Vec<Span> = evidence.iter().map(|it| it.span).collect();
        let fresh = FreshReadTime { first: 3.0, following: 1.0 };
        // Two windows of each.
        assert!((expected_speed(&evidence, &rewrite, fresh) - 0.5).abs() < 1e-12);
        assert!((expected_speed(&evidence, &rewrite[1..3], fresh) - 4.0 / 18.0).abs() < 1e-12);
    }

    #[test]
    fn windows_that_follow_each_other_are_one_run() {
        let windows = [Span::new(0, 10), Span::new(10, 10), Span::new(30, 10)];
        let found = contiguous_runs(&windows);
        assert_eq!(found.len(), 2);
        assert_eq!(found[0], (Span::new(0, 20), &windows[..2]));
        assert_eq!(found[1].0, Span::new(30, 10));
    }
}
