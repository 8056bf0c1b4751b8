//! Policies of garbage collection: choice of the victim, destination of copies, and pace.

use serde::Deserialize;
use ssdlab_theory::Choices;

/// Choice of the closed block that is collected next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum VictimPolicy {
    /// The block with the fewest valid units; of equals the one whose count changed last.
    #[default]
    Greedy,
    /// The block that was closed longest ago.
    Fifo,
    /// Any block, with equal probability.
    Random,
    /// The best of this many blocks drawn at random, with replacement as in Van Houdt's model (SIGMETRICS 2013).
    DChoices(Choices),
    /// The block with the largest benefit for its cost, `age (1 - u) / 2u`, with `u` the share of its units that is
    /// valid: reading and writing back the valid units costs `2u` of a block and gains `1 - u` of it, and data that
    /// has not changed for long (`age`) will stay as it is.
    ///
    /// M. Rosenblum, J. Ousterhout, "The design and implementation of a log-structured file system", ACM Transactions
    /// on Computer Systems 10, 1992, for `age (1 - u) / (1 + u)`; in this form, with the cost of copying within
    /// flash, A. Kawaguchi, S. Nishioka, H. Motoda, "A flash-memory based file system", USENIX 1995. Age is counted
    /// in units invalidated on closed blocks since the block's own count changed last: a drive has no other clock
    /// that runs only while it is written to.
    CostBenefit,
}

impl VictimPolicy {
    /// Returns true if the policy takes a fully valid block only if there is no other.
    pub fn seeks_gain(self) -> bool {
        matches!(self, VictimPolicy::Greedy | VictimPolicy::CostBenefit)
    }
}

/// Open block that garbage collection copies to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CopiesTo {
    /// A separate block, so that copies lie apart from data that the host has just written.
    #[default]
    OwnBlock,
    /// The host's block: one write frontier takes host data and copies, in the order in which they come.
    HostBlock,
}

/// Choice of the group of dies that a unit is written to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Allocation {
    /// The next group in turn: consecutive program units go to different dies, whatever they hold.
    #[default]
    Dynamic,
    /// The group that follows from the logical address: flash page after flash page, one on each group in turn. Data
    /// written in order therefore stays spread over the dies, however it is rewritten; but requests to few addresses
    /// wait for few dies.
    Static,
}

/// Pace of garbage collection relative to host writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pacing {
    /// Each program unit that the host fills collects its share of the victim.
    #[default]
    Paced,
    /// Below the low water, garbage collection runs without a pause for the host until `high_water` blocks are free
    /// per group of dies. Throughput swings.
    Bursty {
        /// Free blocks per group of dies at which a burst ends; above the low water.
        high_water: u32,
    },
    /// Below the high water, garbage collection copies a fixed number of units per host unit, whether a victim costs
    /// that many copies or not. If victims cost less, more blocks become free and victims hold more valid units,
    /// until they cost just that many: then the host's rate is the flash's divided by one more than the ratio, and
    /// steady. Below the low water the pace is that of `Paced` if that is higher.
    Ratio {
        /// Units copied per unit that the host writes.
        copies: CopyRatio,
        /// Free blocks per group of dies at which garbage collection pauses; above the low water.
        high_water: u32,
    },
}

/// Units that collection copies for each unit that the host writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyRatio(u32);

impl CopyRatio {
    /// Largest ratio.
    pub const MOST: f64 = 100.0;

    /// Returns a ratio, or `None` if `copies` is not above 0 and at most [`CopyRatio::MOST`].
    pub fn new(copies: f64) -> Option<CopyRatio> {
        let is_sound = copies > 0.0 && copies <= CopyRatio::MOST;
        is_sound.then(|| CopyRatio((copies * f64::from(1u32 << Self::SHIFT)).round() as u32))
    }

    /// Binary places of the stored ratio's fraction.
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
