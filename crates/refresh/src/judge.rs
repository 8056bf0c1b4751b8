//! Judges whether a window is slower to read than the same data freshly written, and why. Pure
//! computation: the reads are in [`crate::probe`].
//!
//! A window is read by turns with parts of two or more baselines, which lie in different places, so that
//! other load hits all of them. Load only makes readings longer, and misses some of each, so the fast
//! ends are compared. A window is slow if its ratio to each baseline is above the threshold with its
//! whole interval; as long as the threshold lies within an interval, there are more turns. If that does
//! not end, the window is not rewritten: either the intervals are narrow and the window lies near the
//! threshold, or the machine is too busy for a verdict. There is no verdict either if baselines
//! contradict each other: one may be served from a cache below.

use std::slice::from_ref;

use serde::{Deserialize, Serialize};

use crate::interval::{Estimate, ratio_by_turns, readings_agree, sums_by_rank, time_without_load};
use crate::window::Span;

/// Slowdown against fresh data from which a rewrite is worth its wear.
pub const REWRITE_THRESHOLD: f64 = 1.5;

/// Slowdown against fresh data from which a window is read again.
pub const RECHECK_THRESHOLD: f64 = 1.25;

/// Slowdown against fresh data below which a window without a clear result counts as fast enough. Above
/// it, the verdict is that the machine was too busy.
pub const TOO_BUSY_THRESHOLD: f64 = 2.0;

/// Number of turns after which the comparison ends. An interval exists from 6 turns on.
pub const TURNS_MAX: usize = 50;

/// Number of baselines that have to agree before a window is called slow: a single one may be served from
/// a cache below, or have met a busy moment.
pub const BASELINES_MIN: usize = 2;

/// Slowdown of small reads against fresh data from which the cells are taken to be slow.
const COLD_CELLS_THRESHOLD: f64 = 1.25;

/// Length in bytes of pieces below which the file system splits requests of the reader.
const FRAGMENT_MIN: u64 = 512 << 10;

/// Cause of a slow window, as far as tests show.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// The window lies in many pieces for the file system.
    LogicalExtents,
    /// The window is in one piece, and small reads are as fast as those of fresh data: large reads wait
    /// for several pages of the same die.
    Scatter,
    /// Small reads are slow as well: the cells have to be read more than once.
    ColdCells,
    /// The window is slow, and the cause was not found.
    NotTold,
}

impl Cause {
    /// Returns the cause in words.
    pub fn description(self) -> &'static str {
        match self {
            Cause::LogicalExtents => "fragmented in the file system",
            Cause::Scatter => "contiguous in the file system, scattered inside the flash",
            Cause::ColdCells => "cells that take read retries (old data)",
            Cause::NotTold => "of an unknown cause",
        }
    }
}

/// Verdict on a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// As fast as it can be, or not slow enough to be worth the wear.
    Fine,
    /// Worth rewriting.
    Slow(Cause),
    /// Slow when it was read for the first time, and not again: data that was cold, a drive that slept,
    /// or other load. A rewrite would bring nothing.
    FirstOnly,
    /// The machine is too busy to tell.
    NotTold,
    /// Slow compared with one baseline and not compared with another.
    Contradicted,
}

/// A reading of a window and one of each baseline right after it. Each value is the time of a request
/// divided by the bytes of the whole reading, so that the sum is in seconds per byte.
#[derive(Clone, Debug)]
pub struct Turn {
    /// Requests of the window.
    pub own: Vec<f64>,
    /// Requests of each baseline, in the same order in all turns.
    pub fresh: Vec<Vec<f64>>,
}

/// Readings of a window; all times in seconds per byte.
#[derive(Clone, Debug)]
pub struct Evidence {
    /// The window.
    pub span: Span,
    /// Number of pieces in which the window lies.
    pub fragments: u32,
    /// Readings of the window from end to end, by request; the sum of each is in seconds per byte.
    passes: Vec<Vec<f64>>,
    /// Later readings, each with one of every baseline.
    pub turns: Vec<Turn>,
    /// Latencies of small reads in seconds, each with one of a baseline.
    pub small: Vec<(f64, f64)>,
    /// Seconds per byte right after an earlier rewrite. Another rewrite is not expected to make the
    /// window faster.
    pub after_rewrite: Option<f64>,
}

impl Evidence {
    /// Evidence of a window after its first reading, by request.
    pub fn new(span: Span, fragments: u32, first: Vec<f64>) -> Evidence {
        let (turns, small) = (Vec::new(), Vec::new());
        Evidence { span, fragments, passes: vec![first], turns, small, after_rewrite: None }
    }

    /// Adds a reading of the window from end to end.
    pub fn read_again(&mut self, took: Vec<f64>) {
        self.passes.push(took);
    }

    /// Returns the time of the first reading, in seconds per byte.
    pub fn first_reading(&self) -> f64 {
        self.passes[0].iter().sum()
    }

    /// Returns the sum of the fastest times of each request, in seconds per byte: other load only makes
    /// requests slower.
    pub fn fastest(&self) -> f64 {
        sums_by_rank(self.passes.iter().map(Vec::as_slice))[0]
    }

    /// Returns the time that is expected after a rewrite, in seconds per byte, if fresh data takes
    /// `fresh`.
    pub fn expected(&self, fresh: f64) -> f64 {
        self.after_rewrite.map_or(fresh, |after| after.max(fresh))
    }

    /// Returns true if more readings from end to end would not change the time.
    pub fn is_settled(&self) -> bool {
        readings_agree(self.passes.iter().map(Vec::as_slice))
    }

    /// Returns true if the window should be read again, beside baselines.
    pub fn is_suspicious(&self, fresh: f64) -> bool {
        self.fastest() > RECHECK_THRESHOLD * self.expected(fresh)
    }

    /// Returns how many times slower than each baseline the window is, by turns; `None` while there are
    /// too few.
    fn slowdowns(&self, fresh: f64) -> Option<Vec<Estimate>> {
        // If an earlier rewrite did not reach the speed of fresh data, the window is compared with that
        // lower speed.
        let handicap = self.expected(fresh) / fresh;
        let baselines = self.turns.first()?.fresh.len();
        let beside = |baseline: usize| {
            let turns = self.turns.iter().map(|it| (&it.own[..], &it.fresh[baseline][..]));
            let it = ratio_by_turns(turns)?;
            Some(Estimate {
                low: it.low / handicap,
                middle: it.middle / handicap,
                high: it.high / handicap,
            })
        };
        (0..baselines).map(beside).collect()
    }

    /// Returns how many times slower than fresh data the window is, by turns: compared with the slowest
    /// baseline.
    pub fn slowdown(&self, fresh: f64) -> Option<Estimate> {
        let all = self.slowdowns(fresh)?;
        all.into_iter().min_by(|one, other| one.middle.total_cmp(&other.middle))
    }

    /// Returns the verdict; `None` while more turns are needed.
    pub fn verdict(&self, fresh: f64) -> Option<Verdict> {
        let was_slow = self.first_reading() >= REWRITE_THRESHOLD * self.expected(fresh);
        if !self.is_suspicious(fresh) {
            return Some(if was_slow { Verdict::FirstOnly } else { Verdict::Fine });
        }
        let slowdowns = self.slowdowns(fresh)?;
        let slow = slowdowns.iter().filter(|it| it.low >= REWRITE_THRESHOLD).count();
        let not_slow = slowdowns.iter().filter(|it| it.high < REWRITE_THRESHOLD).count();
        let all_below = |limit: f64| slowdowns.iter().all(|it| it.high < limit);
        if slow == slowdowns.len() && slow >= BASELINES_MIN {
            Some(Verdict::Slow(self.cause()))
        } else if not_slow == slowdowns.len() {
            let is_fast = all_below(RECHECK_THRESHOLD);
            Some(if was_slow && is_fast { Verdict::FirstOnly } else { Verdict::Fine })
        } else if slow > 0 && slow + not_slow == slowdowns.len() {
            let middles = || slowdowns.iter().map(|it| it.middle);
            let (least, most) = (middles().fold(f64::MAX, f64::min), middles().fold(0.0, f64::max));
            // Baselines of similar speed give ratios on both sides of the threshold, so the window lies near it.
            let is_near = most < least * RECHECK_THRESHOLD && slowdowns.len() >= BASELINES_MIN;
            Some(if is_near { Verdict::Fine } else { Verdict::Contradicted })
        } else if self.turns.len() >= TURNS_MAX {
            Some(if all_below(TOO_BUSY_THRESHOLD) { Verdict::Fine } else { Verdict::NotTold })
        } else {
            None
        }
    }

    fn cause(&self) -> Cause {
        if u64::from(self.fragments) > 1
            && self.span.length / u64::from(self.fragments) < FRAGMENT_MIN
        {
            return Cause::LogicalExtents;
        }
        let turns = self.small.iter().map(|(own, fresh)| (from_ref(own), from_ref(fresh)));
        match ratio_by_turns(turns) {
            Some(small) if small.low >= COLD_CELLS_THRESHOLD => Cause::ColdCells,
            Some(small) if small.high < REWRITE_THRESHOLD => Cause::Scatter,
            _ => Cause::NotTold,
        }
    }

    /// Returns the time to read the window now without other load, in seconds per byte: the smaller one
    /// of that from end to end and that at turns. Turns are more readings, but the drive does not read
    /// ahead in them.
    pub fn time_without_load(&self) -> f64 {
        let passes = time_without_load(self.passes.iter().map(Vec::as_slice));
        match self.turns.is_empty() {
            true => passes,
            false => {
                time_without_load(self.turns.iter().map(|turn| turn.own.as_slice())).min(passes)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRESH: f64 = 1.0;

    fn evidence(first: f64, turns: &[f64]) -> Evidence {
        let mut evidence = Evidence::new(Span::new(0, 4 << 20), 1, vec![first]);
        evidence.turns = turns.iter().map(|&own| turn(own, FRESH)).collect();
        evidence
    }

    fn turn(own: f64, fresh: f64) -> Turn {
        Turn { own: vec![own], fresh: vec![vec![fresh]; BASELINES_MIN] }
    }

    #[test]
    fn baselines_that_contradict_each_other_condemn_nothing() {
        let beside = |fresh: &[f64]| {
            let mut it = evidence(3.0, &[]);
            let fresh = fresh.iter().map(|&it| vec![it]).collect();
            it.turns = vec![Turn { own: vec![3.0], fresh }; 7];
            it.verdict(FRESH)
        };
        assert_eq!(beside(&[1.0, 1.1]), Some(Verdict::Slow(Cause::NotTold)));
        // One is served from a cache below, as freshly written data may be.
        assert_eq!(beside(&[1.0, 2.9]), Some(Verdict::Contradicted));
        assert_eq!(beside(&[1.0, 1.1, 2.9]), Some(Verdict::Contradicted));
        // These do not contradict each other: 3.0 lies near one and a half times both.
        assert_eq!(beside(&[1.9, 2.1]), Some(Verdict::Fine));
        // A single baseline does not count.
        let mut alone = evidence(3.0, &[]);
        alone.turns = vec![Turn { own: vec![3.0], fresh: vec![vec![1.0]] }; TURNS_MAX];
        assert_eq!(alone.verdict(FRESH), Some(Verdict::Contradicted));
    }

    #[test]
    fn what_is_fast_at_first_is_not_looked_at_again() {
        assert_eq!(evidence(1.2, &[]).verdict(FRESH), Some(Verdict::Fine));
        assert_eq!(evidence(3.0, &[]).verdict(FRESH), None);
        assert_eq!(evidence(3.0, &[3.0; 5]).verdict(FRESH), None, "five turns are no interval");
    }

    #[test]
    fn what_is_fast_when_it_is_read_again_is_slow_no_more() {
        let mut held_up = evidence(3.0, &[]);
        held_up.read_again(vec![2.0]);
        assert_eq!(held_up.verdict(FRESH), None);
        held_up.read_again(vec![1.1]);
        assert_eq!(held_up.verdict(FRESH), Some(Verdict::FirstOnly));
    }

    #[test]
    fn causes_are_told_by_pieces_and_by_small_reads() {
        let mut slow = evidence(3.0, &[3.0; 7]);
        assert_eq!(slow.verdict(FRESH), Some(Verdict::Slow(Cause::NotTold)));
        slow.small = vec![(1.05, 1.0); 7];
        assert_eq!(slow.verdict(FRESH), Some(Verdict::Slow(Cause::Scatter)));
        slow.small = vec![(1.8, 1.0); 7];
        assert_eq!(slow.verdict(FRESH), Some(Verdict::Slow(Cause::ColdCells)));
        slow.fragments = 100;
        assert_eq!(slow.verdict(FRESH), Some(Verdict::Slow(Cause::LogicalExtents)));
    }

    #[test]
    fn slow_only_at_first_is_not_worth_a_rewrite() {
        assert_eq!(evidence(3.0, &[1.0; 7]).verdict(FRESH), Some(Verdict::FirstOnly));
        assert_eq!(evidence(1.4, &[1.0; 7]).verdict(FRESH), Some(Verdict::Fine));
        assert_eq!(evidence(3.0, &[1.4; 7]).verdict(FRESH), Some(Verdict::Fine));
    }

    /// Readings of which all but every fourth are disturbed by other load.
    fn hit(time: f64, first: usize) -> impl Iterator<Item = f64> {
        (0..TURNS_MAX).map(move |at| {
            if (at + first).is_multiple_of(4) { time } else { time + 1.0 + (at * 7 % 13) as f64 }
        })
    }

    #[test]
    fn on_a_busy_machine_what_is_slow_is_told_from_what_is_not() {
        let beside = |time: f64, turns: usize| {
            let mut it = evidence(9.0, &[]);
            let pairs = hit(time, 1).zip(hit(FRESH, 2));
            it.turns = pairs.take(turns).map(|(own, fresh)| turn(own, fresh)).collect();
            it.verdict(FRESH)
        };
        assert_eq!(beside(1.8, 7), None, "it takes more than seven turns");
        assert_eq!(beside(1.8, TURNS_MAX), Some(Verdict::Slow(Cause::NotTold)));
        assert_eq!(beside(1.0, TURNS_MAX), Some(Verdict::FirstOnly));
        assert_eq!(beside(1.3, TURNS_MAX), Some(Verdict::Fine));
    }

    #[test]
    fn where_all_readings_are_hit_nothing_is_told_and_nothing_is_rewritten() {
        // Each reading is disturbed by another amount, and the two samples by amounts of their own.
        let busy = |step: usize, first: usize| {
            (0..TURNS_MAX).map(move |at| 1.0 + ((at * step + first) % TURNS_MAX) as f64 * 0.4)
        };
        let mut it = evidence(9.0, &[]);
        it.turns = busy(11, 3).zip(busy(7, 5)).map(|(own, fresh)| turn(own * 2.0, fresh)).collect();
        let early = it.turns.split_off(7);
        assert_eq!(it.verdict(FRESH), None);
        it.turns.extend(early);
        assert_eq!(it.verdict(FRESH), Some(Verdict::NotTold));
    }

    #[test]
    fn what_lies_near_the_threshold_is_left_and_no_machine_is_blamed() {
        let of = |fast: f64, step: f64| -> Vec<f64> {
            (0..TURNS_MAX).map(|at| fast + step * (at % 5) as f64).collect()
        };
        assert_eq!(evidence(3.0, &of(1.45, 0.04)[..7]).verdict(FRESH), None);
        assert_eq!(evidence(3.0, &of(1.49, 0.02)).verdict(FRESH), Some(Verdict::Fine));
    }

    #[test]
    fn requests_of_a_window_are_hit_one_by_one() {
        // No reading is undisturbed as a whole.
        let mut it = evidence(9.0, &[]);
        it.turns = (0..12)
            .map(|at| {
                let hit = |time: f64| if at % 2 == 0 { vec![time, 9.0] } else { vec![9.0, time] };
                Turn { own: hit(1.0), fresh: vec![hit(0.5); BASELINES_MIN] }
            })
            .collect();
        assert_eq!(it.verdict(1.0), Some(Verdict::Slow(Cause::NotTold)));
        assert!((it.time_without_load() - 2.0).abs() < 1e-12);
    }

    #[test]
    fn load_that_hits_both_of_a_turn_decides_nothing() {
        let mut loaded = evidence(8.0, &[]);
        // By factors from one to eight, with the smallest now and then.
        let loads = [7.0, 1.0, 3.0, 1.1, 8.0, 2.0, 1.05, 5.0];
        let turns = (0..TURNS_MAX).map(|at| turn(loads[at % 8] * 1.02, loads[at % 8]));
        loaded.turns = turns.collect();
        assert_eq!(loaded.verdict(FRESH), Some(Verdict::FirstOnly));
    }

    #[test]
    fn what_a_rewrite_did_not_mend_is_not_rewritten_again() {
        let mut mended = evidence(2.0, &[2.0; 7]);
        assert!(matches!(mended.verdict(FRESH), Some(Verdict::Slow(_))));
        mended.after_rewrite = Some(1.9);
        assert_eq!(mended.verdict(FRESH), Some(Verdict::Fine));
    }
}
