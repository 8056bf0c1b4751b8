//! Preconditioning: a used drive built directly, from theory. The drive is full, in the steady state that random
//! writes of single units reach after a long time, without carrying out any of these writes.
//!
//! The closed forms of [`ssdlab_theory`] give the number of blocks that hold each number of valid units. The valid
//! units of a block, and their logical addresses, are drawn at random: under uniform writes all units are alike.
//! Blocks that are always kept free stay free, the open blocks are half written, and one block is half collected
//! (theory counts none of these). With FIFO the age of a block determines its hot and cold units; greedy and drawn
//! victims do not depend on age. `plan` gives the content of each block in numbers, `order` the logical units in it,
//! and `page` and `fill` place them, with as many [`Workers`] as the caller has.
//!
//! A map on flash is preconditioned on top of that: its map area is filled with map pages in the same way (`cached`).
//! For extent maps and log blocks there is no closed form of the content of every block; for these, the latest host
//! writes are simulated in the abstract, as far back as anything of them is left, and the result is placed directly
//! (`extents`, `log_blocks`).
//!
//! Not set: the data that the drive has written so far. Counters and wear begin at zero. RAM holds no map pages, as
//! after power-on.

mod cached;
mod extents;
mod fill;
mod hot_cold;
mod log_blocks;
mod order;
mod page;
mod plan;
mod tables;
mod workers;

use crate::geometry::GeometryError;
pub(crate) use log_blocks::FilledBlocks;
pub(crate) use page::check_scheme;
use ssdlab_theory::ParameterError;
pub(crate) use tables::Tables;
pub use workers::{Piece, SingleThreaded, Workers};

/// Separates this random generator from others with the same seed.
const RNG_STREAM: u64 = 0x6167_6564;

/// Reason why a used drive cannot be built directly.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum PreconditionError {
    /// No closed form covers a mechanism or setting of the drive.
    #[error("theory has no steady state for {what}; write the drive until it is steady")]
    NoTheory {
        /// Mechanism or setting without a closed form.
        what: &'static str,
    },
    /// A full cache was requested, and the drive has no cache with blocks of its own.
    #[error(
        "the drive has no pseudo-SLC cache with blocks of its own to fill; set slc.size and \
         slc.space=fixed"
    )]
    NoCache,
    /// An amount of over-provisioning for which the formulas have no answer.
    #[error(transparent)]
    Spare(#[from] ParameterError),
    /// A configuration that makes no drive.
    #[error(transparent)]
    Geometry(#[from] GeometryError),
}

/// Random writes in the past of a drive.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Workload {
    /// All units are written with equal probability.
    Uniform,
    /// Units at the beginning of the drive are written more often. On a drive with two write streams the host names
    /// the stream of each write (NVMe directives), unless the drive finds it out itself.
    HotCold {
        /// Share of the writes that goes to hot units.
        writes: f64,
        /// Share of all units that are hot.
        pages: f64,
    },
}

/// State of a pseudo-SLC cache with blocks of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CacheFill {
    /// The cache is empty, as after idle time.
    #[default]
    Empty,
    /// The cache is in the state after writes without idle time. A cache that takes all writes holds the latest data.
    /// A cache that is bypassed while it is full, until the drive is idle, holds no valid data in the long run, but
    /// all its blocks are in use.
    Full,
}

/// Past of a drive.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Past {
    /// Random writes before the present state.
    pub workload: Workload,
    /// State of the pseudo-SLC cache, if the drive has one.
    pub cache: CacheFill,
    /// Seed of all random choices.
    pub seed: u64,
}

impl Past {
    /// Returns a past of uniform random writes, with an empty cache.
    pub fn uniform(seed: u64) -> Past {
        Past { workload: Workload::Uniform, cache: CacheFill::Empty, seed }
    }
}
