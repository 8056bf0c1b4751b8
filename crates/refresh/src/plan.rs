//! What a refresh would do, cost and bring, and what it has done: the figures that are shown.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Serialize;

use crate::interval::{Estimate, median};
use crate::judge::{Cause, Evidence, Verdict};
use crate::strategy::Left;
use crate::survey::Way;
use crate::window::Span;

/// Form of the JSON.
pub const SCHEMA: &str = "ssdlab.refresh/1";

/// Windows by what was found of them, in bytes.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Found {
    /// As fast as they can be.
    pub fine: u64,
    /// Slow, by cause.
    pub slow: BTreeMap<Cause, u64>,
    /// Slow at the first reading alone.
    pub first_only: u64,
    /// The machine was too busy to tell.
    pub not_told: u64,
    /// Slow beside one baseline and not beside another: a cache below, or a busy moment.
    pub contradicted: u64,
    /// Not judged: all are rewritten, or they were judged before an interruption.
    pub not_judged: u64,
}

/// What a refresh would do.
#[derive(Clone, Debug, Serialize)]
pub struct Plan {
    /// Form of this record.
    pub schema: &'static str,
    /// The file or device.
    pub path: PathBuf,
    /// What it lies on, in words.
    pub lies_on: String,
    /// How it would be rewritten.
    pub way: Way,
    /// The way in words.
    pub way_words: &'static str,
    /// Its length in bytes.
    pub length: u64,
    /// Bytes of data in it.
    pub data: u64,
    /// How many windows that was read in.
    pub windows: usize,
    /// What was found of them.
    pub found: Found,
    /// Windows to rewrite.
    pub rewrite: Vec<Span>,
    /// Bytes in them: what would be written.
    pub bytes_to_write: u64,
    /// Bytes that were written to know what fresh data reads like, to a file that is gone after.
    pub yardstick_bytes: u64,
    /// Bytes a second that it is read with now, from end to end, where nothing else hits it.
    pub speed_now: f64,
    /// Bytes a second of fresh data; nothing where it was not measured.
    pub speed_fresh: Option<f64>,
    /// Bytes a second that are expected afterwards.
    pub speed_expected: Option<f64>,
    /// How many times slower than fresh data the windows to rewrite are, with the interval over
    /// them.
    pub slowdown: Option<Estimate>,
    /// Share of the drive's rated life that the writes take, in percent, where the drive says
    /// enough.
    pub share_of_life: Option<f64>,
    /// True if this goes on with what an earlier refresh has left.
    pub resumed: bool,
    /// What else should be known, in sentences.
    pub notes: Vec<String>,
}

/// What a refresh has done.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// What was planned.
    pub plan: Plan,
    /// Bytes that were written anew.
    pub bytes_written: u64,
    /// Windows that were left, or a part of them, by reason.
    pub left: BTreeMap<Left, u64>,
    /// Bytes a second before.
    pub speed_before: f64,
    /// Bytes a second afterwards; nothing where it was not read again.
    pub speed_after: Option<f64>,
    /// How many times faster it is read, with the interval over the windows.
    pub gain: Option<Estimate>,
    /// How often the file system was frozen.
    pub freezes: Option<u64>,
    /// How long a freeze may be, in milliseconds.
    pub allowed_freeze_ms: Option<f64>,
    /// The longest freeze, in milliseconds.
    pub longest_freeze_ms: Option<f64>,
    /// How many freezes were longer than allowed.
    pub freezes_too_long: Option<u64>,
    /// The longest that the file system held up who writes to the file, in milliseconds, where it moves data
    /// itself and that is known.
    pub longest_hold_ms: Option<f64>,
    /// Why it ended early, where it did.
    pub stopped: Option<String>,
    /// Windows that were not come to; --resume goes on with them.
    pub windows_left: usize,
    /// True if it was the user who ended it.
    pub is_interrupted: bool,
}

/// Sums up verdicts.
pub fn found(judged: &[(&Evidence, Verdict)]) -> Found {
    let mut found = Found::default();
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

/// Bytes a second of windows that take so many seconds a byte each.
pub fn speed(windows: impl Iterator<Item = (Span, f64)>) -> f64 {
    let (bytes, seconds) = windows.fold((0, 0.0), |(bytes, seconds), (span, per_byte)| {
        (bytes + span.length, seconds + per_byte * span.length as f64)
    });
    if seconds > 0.0 { bytes as f64 / seconds } else { 0.0 }
}

/// The time that fresh data takes to be read, in seconds a byte.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FreshPace {
    /// The first window of a stretch: the drive does not read ahead of its first requests yet.
    pub first: f64,
    /// A window that follows one that was just read.
    pub following: f64,
}

impl FreshPace {
    /// Every window alike.
    pub fn even(pace: f64) -> FreshPace {
        FreshPace { first: pace, following: pace }
    }

    /// Returns the mean of some, which are not none.
    pub fn mean(paces: &[FreshPace]) -> FreshPace {
        let mean =
            |part: fn(&FreshPace) -> f64| paces.iter().map(part).sum::<f64>() / paces.len() as f64;
        FreshPace { first: mean(|it| it.first), following: mean(|it| it.following) }
    }
}

/// Bytes a second that are expected once `rewrite` is as fast as fresh data.
pub fn expected_speed(evidence: &[Evidence], rewrite: &[Span], fresh: FreshPace) -> f64 {
    let mut read_until = None;
    speed(evidence.iter().map(|it| {
        let follows = read_until.replace(it.span.end()) == Some(it.span.offset);
        let fresh = if follows { fresh.following } else { fresh.first };
        let is_rewritten = rewrite.binary_search(&it.span).is_ok();
        (it.span, if is_rewritten { it.expected(fresh).min(it.now()) } else { it.now() })
    }))
}

/// Returns how many times slower than fresh data the windows in `rewrite` are.
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

/// Runs of windows that follow each other without a gap.
pub fn stretches(windows: &[Span]) -> Vec<(Span, &[Span])> {
    let mut stretches = Vec::new();
    for part in windows.chunk_by(|one, next| one.end() == next.offset) {
        let (first, last) = (part[0], part[part.len() - 1]);
        stretches.push((Span::new(first.offset, last.end() - first.offset), part));
    }
    stretches
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
        let now = speed(evidence.iter().map(|it| (it.span, it.now())));
        assert!((now - 0.4).abs() < 1e-12);
        let rewrite = [Span::new(100, 100), Span::new(200, 100)];
        let even = FreshPace::even(1.0);
        assert!((expected_speed(&evidence, &rewrite, even) - 1.0).abs() < 1e-12);
        assert!((expected_speed(&evidence, &rewrite[..1], even) - 4.0 / 7.0).abs() < 1e-12);
    }

    #[test]
    fn what_begins_a_stretch_is_expected_to_take_longer_than_what_follows() {
        let evidence: Vec<Evidence> = [0, 100, 200, 400]
            .map(|at| Evidence::new(Span::new(at, 100), 1, vec![8.0]))
            .into_iter()
            .collect();
        let rewrite: Vec<Span> = evidence.iter().map(|it| it.span).collect();
        let fresh = FreshPace { first: 3.0, following: 1.0 };
        // Two of each.
        assert!((expected_speed(&evidence, &rewrite, fresh) - 0.5).abs() < 1e-12);
        assert!((expected_speed(&evidence, &rewrite[1..3], fresh) - 4.0 / 18.0).abs() < 1e-12);
    }

    #[test]
    fn windows_that_follow_each_other_are_one_stretch() {
        let windows = [Span::new(0, 10), Span::new(10, 10), Span::new(30, 10)];
        let found = stretches(&windows);
        assert_eq!(found.len(), 2);
        assert_eq!(found[0], (Span::new(0, 20), &windows[..2]));
        assert_eq!(found[1].0, Span::new(30, 10));
    }
}
