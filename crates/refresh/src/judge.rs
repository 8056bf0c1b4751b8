//! Whether a window is slower to read than the same data freshly written, and why. Pure
//! computation: who reads is [`crate::probe`].
//!
//! A window is read by turns with a part of the yardstick, so that whatever else the machine does
//! hits both. It is slow when the median of the ratios is above the threshold with its whole
//! interval; as long as the threshold lies in the interval, there are more turns. If that does not
//! end, nothing is rewritten: either the interval is narrow, and the window lies near the threshold,
//! or the machine is too busy, and nothing is told.

use serde::{Deserialize, Serialize};

use crate::interval::{Estimate, median, median_interval};
use crate::window::Span;

/// How many times slower than fresh data a window has to be for a rewrite to be worth its wear.
pub const WORTH: f64 = 1.5;

/// How many times slower than fresh data a reading has to be for a second look.
pub const SUSPICIOUS: f64 = 1.25;

/// What surely is not so many times slower than fresh data may be left without a word about the
/// machine, where it is not surely worth a rewrite either.
pub const CLEAR: f64 = 2.0;

/// Turns after which it is enough. With 6 turns there is an interval at all.
pub const TURNS_MAX: usize = 25;

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
}

/// Readings of a window; all times in seconds a byte.
#[derive(Clone, Debug)]
pub struct Evidence {
    /// The window.
    pub span: Span,
    /// In how many pieces it lies.
    pub pieces: u32,
    /// Its first reading.
    pub first: f64,
    /// The fastest of its readings from end to end: what others do only makes them slower.
    pub fastest: f64,
    /// Later readings, each with one of the yardstick right beside it.
    pub turns: Vec<(f64, f64)>,
    /// Latencies of small reads, in seconds, each with one of the yardstick beside it.
    pub small: Vec<(f64, f64)>,
    /// How fast it was right after an earlier rewrite. It will not be faster after another.
    pub after_rewrite: Option<f64>,
}

impl Evidence {
    /// Of a window that was read once.
    pub fn new(span: Span, pieces: u32, first: f64) -> Evidence {
        let (turns, small) = (Vec::new(), Vec::new());
        Evidence { span, pieces, first, fastest: first, turns, small, after_rewrite: None }
    }

    /// It was read from end to end once more.
    pub fn read_again(&mut self, took: f64) {
        self.fastest = self.fastest.min(took);
    }

    /// What can be expected of it after a rewrite, where fresh data reads in `fresh`.
    pub fn expected(&self, fresh: f64) -> f64 {
        self.after_rewrite.map_or(fresh, |after| after.max(fresh))
    }

    /// Whether it deserves a second look.
    pub fn is_suspicious(&self, fresh: f64) -> bool {
        self.fastest > SUSPICIOUS * self.expected(fresh)
    }

    /// How many times slower than fresh data it is, by turns.
    pub fn slowdown(&self, fresh: f64) -> Option<Estimate> {
        // An earlier rewrite that did not bring all that fresh data has raises what it is held
        // against.
        let handicap = self.expected(fresh) / fresh;
        let ratios: Vec<f64> =
            self.turns.iter().map(|(own, fresh)| own / (fresh * handicap)).collect();
        median_interval(&ratios)
    }

    /// The verdict; nothing while more turns are needed.
    pub fn verdict(&self, fresh: f64) -> Option<Verdict> {
        let was_slow = self.first >= WORTH * self.expected(fresh);
        if !self.is_suspicious(fresh) {
            return Some(if was_slow { Verdict::FirstOnly } else { Verdict::Fine });
        }
        let slowdown = self.slowdown(fresh)?;
        if slowdown.low >= WORTH {
            Some(Verdict::Slow(self.cause()))
        } else if slowdown.high < WORTH {
            let is_fast = slowdown.high < SUSPICIOUS;
            Some(if was_slow && is_fast { Verdict::FirstOnly } else { Verdict::Fine })
        } else if self.turns.len() >= TURNS_MAX {
            Some(if slowdown.high < CLEAR { Verdict::Fine } else { Verdict::NotTold })
        } else {
            None
        }
    }

    fn cause(&self) -> Cause {
        if u64::from(self.pieces) > 1 && self.span.length / u64::from(self.pieces) < PIECE_MIN {
            return Cause::LogicalExtents;
        }
        let ratios: Vec<f64> = self.small.iter().map(|(own, fresh)| own / fresh).collect();
        match median_interval(&ratios) {
            Some(small) if small.low >= COLD => Cause::ColdCells,
            Some(small) if small.high < WORTH => Cause::Scatter,
            _ => Cause::NotTold,
        }
    }

    /// How long it takes to be read now, in seconds a byte: where it was read again, the median.
    pub fn now(&self) -> f64 {
        if self.turns.is_empty() {
            return self.fastest;
        }
        let own: Vec<f64> = self.turns.iter().map(|turn| turn.0).collect();
        median(&own)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRESH: f64 = 1.0;

    fn evidence(first: f64, turns: &[f64]) -> Evidence {
        let mut evidence = Evidence::new(Span::new(0, 4 << 20), 1, first);
        evidence.turns = turns.iter().map(|&own| (own, FRESH)).collect();
        evidence
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
        held_up.read_again(2.0);
        assert_eq!(held_up.verdict(FRESH), None);
        held_up.read_again(1.1);
        assert_eq!(held_up.verdict(FRESH), Some(Verdict::FirstOnly));
    }

    #[test]
    fn causes_are_told_by_pieces_and_by_small_reads() {
        let mut slow = evidence(3.0, &[3.0; 6]);
        assert_eq!(slow.verdict(FRESH), Some(Verdict::Slow(Cause::NotTold)));
        slow.small = vec![(1.05, 1.0); 6];
        assert_eq!(slow.verdict(FRESH), Some(Verdict::Slow(Cause::Scatter)));
        slow.small = vec![(1.8, 1.0); 6];
        assert_eq!(slow.verdict(FRESH), Some(Verdict::Slow(Cause::ColdCells)));
        slow.pieces = 100;
        assert_eq!(slow.verdict(FRESH), Some(Verdict::Slow(Cause::LogicalExtents)));
    }

    #[test]
    fn slow_only_at_first_is_not_worth_a_rewrite() {
        assert_eq!(evidence(3.0, &[1.0; 6]).verdict(FRESH), Some(Verdict::FirstOnly));
        assert_eq!(evidence(1.4, &[1.0; 6]).verdict(FRESH), Some(Verdict::Fine));
        assert_eq!(evidence(3.0, &[1.4; 6]).verdict(FRESH), Some(Verdict::Fine));
    }

    #[test]
    fn a_busy_machine_is_told_nothing_and_nothing_is_rewritten() {
        let busy = [0.9, 3.0, 1.1, 4.0, 1.2, 2.0, 1.0, 5.0, 1.3, 1.9, 1.1, 3.0, 1.4, 2.2];
        assert_eq!(evidence(3.0, &busy).verdict(FRESH), None);
        let busier: Vec<f64> = busy.into_iter().cycle().take(TURNS_MAX).collect();
        assert_eq!(evidence(3.0, &busier).verdict(FRESH), Some(Verdict::NotTold));
    }

    #[test]
    fn what_lies_near_the_threshold_is_left_and_no_machine_is_blamed() {
        let near =
            |values: [f64; 2]| -> Vec<f64> { values.into_iter().cycle().take(TURNS_MAX).collect() };
        assert_eq!(evidence(3.0, &near([1.4, 1.6])[..6]).verdict(FRESH), None);
        assert_eq!(evidence(3.0, &near([1.4, 1.6])).verdict(FRESH), Some(Verdict::Fine));
        assert_eq!(evidence(3.0, &near([1.0, 1.9])).verdict(FRESH), Some(Verdict::Fine));
        assert_eq!(evidence(3.0, &near([1.0, 2.1])).verdict(FRESH), Some(Verdict::NotTold));
    }

    #[test]
    fn load_that_hits_both_of_a_turn_decides_nothing() {
        let mut loaded = evidence(8.0, &[]);
        loaded.turns = vec![(7.0, 6.5), (9.0, 9.5), (1.0, 1.0), (4.0, 3.9), (2.0, 2.1), (5.0, 5.0)];
        assert_eq!(loaded.verdict(FRESH), Some(Verdict::FirstOnly));
    }

    #[test]
    fn what_a_rewrite_did_not_mend_is_not_rewritten_again() {
        let mut mended = evidence(2.0, &[2.0; 6]);
        assert!(matches!(mended.verdict(FRESH), Some(Verdict::Slow(_))));
        mended.after_rewrite = Some(1.9);
        assert_eq!(mended.verdict(FRESH), Some(Verdict::Fine));
    }
}
