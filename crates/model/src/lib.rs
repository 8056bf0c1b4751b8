//! The simulated SSD.
//!
//! Pure computation: this crate reads no clock, starts no thread, opens no file and keeps no
//! global. Time comes in with every request and randomness comes in as a seed, so the same
//! requests give the same drive, to the bit, and two drives live side by side in one process.
//!
//! One mechanism is one file; `docs/MODEL.md` gives the rule of each with its source.

pub mod age;
pub mod attribution;
pub mod bad_blocks;
mod buffer;
pub mod checkpoint;
pub mod collection;
mod condense;
mod copies;
pub mod counters;
mod debt;
mod expectation;
mod fetch;
mod flash;
pub mod flush;
pub mod health;
mod idle;
mod in_time;
pub mod journal;
mod large_read;
pub mod log_block;
pub mod make_new;
pub mod mapping;
pub mod mechanisms;
pub mod media;
mod memory;
mod merge;
mod payload;
pub mod pending;
pub mod policy;
pub mod power_cut;
mod prefetch;
pub mod profile;
mod read;
pub mod read_ahead;
pub mod recovery;
mod relocation;
mod request;
mod resources;
pub mod retention;
pub mod slc;
pub mod snapshot;
pub mod sparse;
pub mod ssd;
mod stream;
pub mod streams;
mod touched;
pub mod trim;
mod trim_log;
mod trim_marks;
mod unused;
mod victim;
pub mod wear_levelling;
mod write;

pub use expectation::Expectation;
pub use resources::{Span, suspend};
pub use ssd::{Configuration, Ssd};

use ssdlab_nand::{geometry, timing};
use ssdlab_units::{self as units, text};
