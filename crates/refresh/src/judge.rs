//! Whether a window is slower to read than the same data freshly written, and why. Pure
//! computation: who reads is [`crate::probe`].
//!
//! A window is read by turns with parts of two or more baselines, which lie in different places, so
//! that whatever else the machine does hits all. That only makes readings longer, and misses some of each, so
//! they are compared at their fast ends. A window is slow when the ratio to each baseline is above
//! the threshold with its whole interval; as long as the threshold lies in an interval, there are more
//! turns. If that does not end, nothing is rewritten: either the intervals are narrow, and the window lies
//! near the threshold, or the machine is too busy, and nothing is told. Nor is it where baselines
//! contradict each other: one may be served from a cache below.

use std::slice::from_ref;

use serde::{Deserialize, Serialize};

use crate::interval::{Estimate, agree, by_rank, ratio_by_turns, undisturbed};
use crate::window::Span;

/// How many times slower than fresh data a window has to be for a rewrite to be worth its wear.
pub const WORTH: f64 = 1.5;

/// How many times slower than fresh data a reading has to be for a second look.
pub const SUSPICIOUS: f64 = 1.25;

/// What surely is not so many times slower than fresh data may be left without a word about the
/// machine, where it is not surely worth a rewrite either.
pub const CLEAR: f64 = 2.0;

/// Turns after which it is enough. With 6 turns there is an interval at all.
pub const TURNS_MAX: usize = 50;

/// Baselines that have to agree before a window is called slow: one alone may be served from a cache
/// below, or have met a busy moment.
pub const BASELINES_MIN: usize = 2;

/// From so many times the latency of small reads in fresh data it is the cells that are slow.
const COLD: f64 = 1.25;

/// A window with pieces shorter than this is split into more requests by the file system than the
/// reader has sent.
const PIECE_MIN: u64 = 512 << 10;

/// Why a window is slow, as far as tests tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// The file system has it in many pieces.
    LogicalExtents,
    /// It is in one piece, and small reads are as fast as ever: large ones wait for several pages of
    /// the same die.
    Scatter,
    /// Small reads are slow as well: the cells have to be read more than once.
    ColdCells,
    /// Slow, and not told why.
    NotTold,
}

impl Cause {
    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            Cause::LogicalExtents => "in many pieces for the file system",
            Cause::Scatter => "in one piece for the file system, scattered inside the flash",
            Cause::ColdCells => "cells that are read more than once (old data)",
            Cause::NotTold => "of an unknown cause",
        }
    }
}

/// What was found of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// As fast as it can be, or not slow enough to be worth the wear.
    Fine,
    /// Worth rewriting.
    Slow(Cause),
    /// Slow when it was read for the first time, and not again: data that was cold, a drive that
    /// slept, or somebody else's load. A rewrite would not show.
    FirstOnly,
    /// The machine is too busy to tell.
    NotTold,
    /// It is slow beside one baseline and not beside another.
    Contradicted,
}

/// A reading of a window and one of each baseline right beside it, by requests: shares in the seconds a byte.
#[derive(Clone, Debug)]
pub struct Turn {
    /// Of the window.
    pub own: Vec<f64>,
    /// Of each baseline, in the same order in all turns.
    pub fresh: Vec<Vec<f64>>,
}

/// Readings of a window; all times in seconds a byte.
#[derive(Clone, Debug)]
pub struct Evidence {
    /// The window.
    pub span: Span,
    /// In how many pieces it lies.
    pub pieces: u32,
    /// Its readings from end to end, by requests: shares in the seconds a byte.
    passes: Vec<Vec<f64>>,
    /// Later readings, each with one of every baseline right beside it.
    pub turns: Vec<Turn>,
    /// Latencies of small reads, in seconds, each with one of a baseline beside it.
    pub small: Vec<(f64, f64)>,
    /// How fast it was right after an earlier rewrite. It will not be faster after another.
    pub after_rewrite: Option<f64>,
}

impl Evidence {
    /// Of a window that was read once, by requests.
    pub fn new(span: Span, pieces: u32, first: Vec<f64>) -> Evidence {
        let (turns, small) = (Vec::new(), Vec::new());
        Evidence { span, pieces, passes: vec![first], turns, small, after_rewrite: None }
    }

    /// It was read from end to end once more.
    pub fn read_again(&mut self, took: Vec<f64>) {
        self.passes.push(took);
    }

    /// Returns how long its first reading took, in seconds a byte.
    pub fn first(&self) -> f64 {
        self.passes[0].iter().sum()
    }

    /// Returns how long the fastest reading of each of its requests took, in seconds a byte: what others do
    /// only makes them slower.
    pub fn fastest(&self) -> f64 {
        by_rank(self.passes.iter().map(Vec::as_slice))[0]
    }

    /// Returns what can be expected of it after a rewrite, where fresh data reads in `fresh`.
    pub fn expected(&self, fresh: f64) -> f64 {
        self.after_rewrite.map_or(fresh, |after| after.max(fresh))
    }

    /// Returns `true` where more readings from end to end would not say more of how long it takes.
    pub fn is_settled(&self) -> bool {
        agree(self.passes.iter().map(Vec::as_slice))
    }

    /// Returns true if it deserves a second look.
    pub fn is_suspicious(&self, fresh: f64) -> bool {
        self.fastest() > SUSPICIOUS * self.expected(fresh)
    }

    /// Returns how many times slower than each baseline it is, by turns; nothing while there are too few.
    fn slowdowns(&self, fresh: f64) -> Option<Vec<Estimate>> {
        // An earlier rewrite that did not bring all that fresh data has raises what it is held
        // against.
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

    /// Returns how many times slower than fresh data it is, by turns: beside the slowest baseline.
    pub fn slowdown(&self, fresh: f64) -> Option<Estimate> {
        let all = self.slowdowns(fresh)?;
        all.into_iter().min_by(|one, other| one.middle.total_cmp(&other.middle))
    }

    /// The verdict; nothing while more turns are needed.
    pub fn verdict(&self, fresh: f64) -> Option<Verdict> {
        let was_slow = self.first() >= WORTH * self.expected(fresh);
        if !self.is_suspicious(fresh) {
            return Some(if was_slow { Verdict::FirstOnly } else { Verdict::Fine });
        }
        let slowdowns = self.slowdowns(fresh)?;
        let slow = slowdowns.iter().filter(|it| it.low >= WORTH).count();
        let not_slow = slowdowns.iter().filter(|it| it.high < WORTH).count();
        let all_below = |limit: f64| slowdowns.iter().all(|it| it.high < limit);
        if slow == slowdowns.len() && slow >= BASELINES_MIN {
            Some(Verdict::Slow(self.cause()))
        } else if not_slow == slowdowns.len() {
            let is_fast = all_below(SUSPICIOUS);
            Some(if was_slow && is_fast { Verdict::FirstOnly } else { Verdict::Fine })
        } else if slow > 0 && slow + not_slow == slowdowns.len() {
            let middles = || slowdowns.iter().map(|it| it.middle);
            let (least, most) = (middles().fold(f64::MAX, f64::min), middles().fold(0.0, f64::max));
            // Baselines that are alike lie on both sides of the threshold, and so it lies near.
            let is_near = most < least * SUSPICIOUS && slowdowns.len() >= BASELINES_MIN;
            Some(if is_near { Verdict::Fine } else { Verdict::Contradicted })
        } else if self.turns.len() >= TURNS_MAX {
            Some(if all_below(CLEAR) { Verdict::Fine } else { Verdict::NotTold })
        } else {
            None
        }
    }

    fn cause(&self) -> Cause {
        if u64::from(self.pieces) > 1 && self.span.length / u64::from(self.pieces) < PIECE_MIN {
            return Cause::LogicalExtents;
        }
        let turns = self.small.iter().map(|(own, fresh)| (from_ref(own), from_ref(fresh)));
        match ratio_by_turns(turns) {
            Some(small) if small.low >= COLD => Cause::ColdCells,
            Some(small) if small.high < WORTH => Cause::Scatter,
            _ => Cause::NotTold,
        }
    }

    /// Returns how long it takes to be read now where nothing else hits it, in seconds a byte: from end to
    /// end, or at turns, which are more readings, if without what a drive reads ahead.
    pub fn now(&self) -> f64 {
        let passes = undisturbed(self.passes.iter().map(Vec::as_slice));
        match self.turns.is_empty() {
            true => passes,
            false => undisturbed(self.turns.iter().map(|turn| turn.own.as_slice())).min(passes),
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
        // Served from a cache below, as what was written just now may be.
        assert_eq!(beside(&[1.0, 2.9]), Some(Verdict::Contradicted));
        assert_eq!(beside(&[1.0, 1.1, 2.9]), Some(Verdict::Contradicted));
        // These do not: 3.0 lies near one and a half times both.
        assert_eq!(beside(&[1.9, 2.1]), Some(Verdict::Fine));
        // One is none.
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
        slow.pieces = 100;
        assert_eq!(slow.verdict(FRESH), Some(Verdict::Slow(Cause::LogicalExtents)));
    }

    #[test]
    fn slow_only_at_first_is_not_worth_a_rewrite() {
        assert_eq!(evidence(3.0, &[1.0; 7]).verdict(FRESH), Some(Verdict::FirstOnly));
        assert_eq!(evidence(1.4, &[1.0; 7]).verdict(FRESH), Some(Verdict::Fine));
        assert_eq!(evidence(3.0, &[1.4; 7]).verdict(FRESH), Some(Verdict::Fine));
    }

    /// Readings of which all but every fourth are hit by something else.
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
        // Each by another amount, and of both by amounts of their own.
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
        assert!((it.now() - 2.0).abs() < 1e-12);
    }

    #[test]
    fn load_that_hits_both_of_a_turn_decides_nothing() {
        let mut loaded = evidence(8.0, &[]);
        // By factors from one to eight, the least now and then.
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
