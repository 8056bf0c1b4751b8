//! What a drive collects next, and when: policies, asked once per victim or per program unit.

use serde::Deserialize;
use ssdlab_theory::Choices;

/// Which closed block is collected next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum VictimPolicy {
    /// The block with the fewest valid units; of equals the one whose count changed last.
    #[default]
    Greedy,
    /// The block that was closed longest ago.
    Fifo,
    /// Any block, each as likely as the other.
    Random,
    /// The best of so many blocks that are drawn at random, with replacement as in Van Houdt's
    /// model (SIGMETRICS 2013).
    DChoices(Choices),
    /// The block with the largest benefit for its cost, `age (1 - u) / 2u`, with `u` the share
    /// of its units that is valid: reading and writing back what is valid costs `2u` of a block
    /// and yields `1 - u` of it, and what has not changed for long (`precondition`) will stay so.
    ///
    /// M. Rosenblum, J. Ousterhout, "The design and implementation of a log-structured file
    /// system", ACM Transactions on Computer Systems 10, 1992, for `age (1 - u) / (1 + u)`; in
    /// this form, with the cost of copying within flash, A. Kawaguchi, S. Nishioka, H. Motoda,
    /// "A flash-memory based file system", USENIX 1995. Age is counted in units invalidated on
    /// closed blocks since the block's own count changed last: a drive has no other clock that
    /// runs only while it is written to.
    CostBenefit,
}

impl VictimPolicy {
    /// Returns true if it takes a block from which nothing is to be gained only where there is no other.
    pub fn seeks_gain(self) -> bool {
        matches!(self, VictimPolicy::Greedy | VictimPolicy::CostBenefit)
    }
}

/// Which open block collection copies to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CopiesTo {
    /// One of its own, so that what is copied lies apart from what the host has just written.
    #[default]
    OwnBlock,
    /// The host's: one write frontier takes both, in the order in which they come.
    HostBlock,
}

/// How collection keeps up with the host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pacing {
    /// Each program unit that the host fills pays its share of the victim.
    #[default]
    Paced,
    /// When free blocks fall below the low water, collection goes on at once, without a pause
    /// for the host, until so many are free per group of dies. Throughput swings.
    Bursty {
        /// Free blocks per group of dies at which a burst ends; above the low water.
        high_water: u32,
    },
    /// Below the high water collection copies the same number of units for each unit of the host's, whether a
    /// victim costs that much or not. Where it costs less, more blocks become free, victims hold more, and so
    /// until they cost just that: then the host's rate is the flash's divided by one more than the ratio, and steady.
    /// Below the low water it keeps pace, as above, where that is more.
    Ratio {
        /// Units copied for each of the host's.
        copies: CopyRatio,
        /// Free blocks per group of dies at which it pauses; above the low water.
        high_water: u32,
    },
}

/// Units that collection copies for each unit that the host writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyRatio(u32);

impl CopyRatio {
    /// The most that can be asked for.
    pub const MOST: f64 = 100.0;

    /// Returns a ratio, if it is above 0 and at most [`CopyRatio::MOST`].
    pub fn new(copies: f64) -> Option<CopyRatio> {
        let is_sound = copies > 0.0 && copies <= CopyRatio::MOST;
        is_sound.then(|| CopyRatio((copies * f64::from(1u32 << Self::SHIFT)).round() as u32))
    }

    /// Binary places of its fraction.
    pub(crate) const SHIFT: u32 = 16;

    /// Returns the ratio.
    pub fn copies(self) -> f64 {
        f64::from(self.0) / f64::from(1u32 << Self::SHIFT)
    }

    /// Returns the ratio times 2^[`CopyRatio::SHIFT`].
    pub(crate) fn scaled(self) -> i64 {
        self.0.into()
    }
}
