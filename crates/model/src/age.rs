//! A used drive built at once, from theory: full, in the state in which random writes of single
//! units leave it after a long time, without writing any of them.
//!
//! The closed forms of [`ssdlab_theory`] say how many blocks hold how many valid units. Which of a
//! block's units are valid, and which logical units they are, is a matter of chance: under uniform
//! writes no unit is different from another. Blocks always kept free stay free, the open ones are
//! half written, and one is half collected (theory counts none of them). With FIFO a block's age
//! says what it holds, of hot and of cold units; greedy and drawn victims do not ask for age.
//! `plan` says what each block holds, `order` which units that are, `page` and `fill` put them there,
//! by as many [`Workers`] as the caller has.
//!
//! A map on flash is aged on top of that: its map area is full of map pages in the same way
//! (`cached`). Maps of extents and log blocks have no closed form for what every block holds; what
//! the host's latest writes have left is followed in the abstract, as long as anything of them is
//! left, and put in its place at once (`extents`, `log_blocks`).
//!
//! Not set: what the drive has written so far. Counters and wear begin at zero. Map pages in RAM:
//! none, as after power-on.

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
pub use workers::{OneByOne, Piece, Workers};

/// Keeps the generator's words apart from those of anything else that is given the same seed.
const STREAM: u64 = 0x6167_6564;

/// Why a used drive cannot be built at once.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum AgeError {
    /// There is no closed form for what the drive does.
    #[error("theory has no steady state for {what}; write the drive until it is steady")]
    NoTheory {
        /// What it does.
        what: &'static str,
    },
    /// A full cache was asked for.
    #[error(
        "the drive has no pseudo-SLC cache with blocks of its own (slc.size, slc.space=fixed) to be full"
    )]
    NoCache,
    /// A spare area for which the formulas have no answer.
    #[error(transparent)]
    Spare(#[from] ParameterError),
    /// A configuration of which there is no drive.
    #[error(transparent)]
    Geometry(#[from] GeometryError),
}

/// The random writes that a drive was under for a long time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Workload {
    /// Every unit as likely as any other.
    Uniform,
    /// Units at the beginning of the drive are written more often. A drive of two write streams is
    /// taken to be told which is which (NVMe directives), unless it finds out itself.
    HotCold {
        /// The share of the writes that goes to them.
        writes: f64,
        /// The share of all units that they are.
        pages: f64,
    },
}

/// The state of a pseudo-SLC cache with blocks of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CacheFill {
    /// Nothing, as after a rest.
    #[default]
    Empty,
    /// What is left there after writing without a rest. A cache that is written through holds the
    /// latest data; one that is left aside when it is full, until the drive rests, holds nothing
    /// valid after long, but all its blocks are in use.
    Full,
}

/// What a drive went through.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Past {
    /// The writes that it was under.
    pub workload: Workload,
    /// What is left of the latest of them in its cache, if it has one.
    pub cache: CacheFill,
    /// Seed of all that is drawn.
    pub seed: u64,
}

impl Past {
    /// Random writes to all units alike, with an empty cache.
    pub fn uniform(seed: u64) -> Past {
        Past { workload: Workload::Uniform, cache: CacheFill::Empty, seed }
    }
}
