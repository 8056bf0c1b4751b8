//! The simulated SSD: a flash translation layer and the drive around it.
//!
//! Pure computation: this crate reads no clock, starts no thread, opens no file and keeps no
//! global. Time comes in with every request and randomness comes in as a seed, so the same
//! requests give the same drive, to the bit, and two drives live side by side in one process.
//!
//! | role | type |
//! | --- | --- |
//! | parameters of a drive as people write them, each with its source | [`profile::Profile`] |
//! | the same, checked and in types | [`Configuration`] |
//! | the drive: requests and their instants in, instants of answers out | [`Ssd`] |
//! | logical to physical, chosen when compiling | [`mapping::Mapping`] |
//! | where payload and spare areas go, if anywhere | [`media::Media`] |
//! | what the drive has done | [`counters::Counters`], [`attribution`] |
//!
//! ```
//! use ssdlab_model::profile::Profile;
//! use ssdlab_model::{Configuration, Ssd};
//! use ssdlab_units::{Instant, LogicalUnit};
//!
//! let mut profile = Profile::named("generic-tlc")?;
//! profile.set("scale", "1/64")?;
//! let configuration: Configuration = profile.configuration()?;
//! let mut drive = Ssd::new(&configuration)?;
//!
//! let written = drive.write(Instant::START, LogicalUnit(0), 8);
//! let durable = drive.flush(written);
//! assert!(durable > written);
//! assert_eq!(drive.counters().host_write_units, 8);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! One mechanism is one file; `docs/MODEL.md` gives the rule of each with its source.

pub mod attribution;
pub mod bad_blocks;
mod block_table;
pub mod checkpoint;
pub mod collection;
pub mod counters;
pub mod data_time;
mod deferred_trims;
mod expectation;
pub mod flush;
pub mod format;
mod free_block_pool;
pub mod ftl;
pub mod health;
pub mod journal;
mod lazy_table;
pub mod mapping;
pub mod mechanisms;
pub mod media;
mod memory;
mod page_reads;
pub mod policy;
pub mod power_cut;
pub mod precondition;
mod prefetch;
pub mod profile;
pub mod read_ahead;
pub mod recovery;
pub mod retention;
pub mod slc;
pub mod snapshot;
pub mod sparse;
pub mod ssd;
pub mod streams;
pub mod thermal;
pub mod trim;
mod victim;
pub mod wear_levelling;
mod write_frontier;

pub use expectation::Expectation;
pub use ftl::Ssd;
pub use ssd::Configuration;
pub use ssdlab_nand::suspend;

use ssdlab_nand::{geometry, timing};
use ssdlab_units::{self as units, text};
