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
    /// Whether it takes a block from which nothing is to be gained only where there is no other.
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
}
