//! The simulated SSD as a block device that keeps its data.
//!
//! An image is a file whose layout is the flash ([`image`]): what is programmed lies at its
//! physical place, with its spare area, and what is erased is a hole. [`store`] is the flash of the
//! model, backed by that file; [`engine`] takes requests with payload, by as many threads as like.

pub mod answers;
pub mod attachment;
pub mod check;
pub mod control;
pub mod device;
pub mod drive;
pub mod engine;
pub mod error;
pub mod fuse;
pub mod image;
pub mod lateness;
mod leftovers;
pub mod memory;
pub mod nbd;
pub mod pipe;
mod prompt;
mod socket;
pub mod status;
pub mod store;
mod sync;
#[cfg(feature = "ublk")]
pub mod timer;
#[cfg(feature = "ublk")]
pub mod ublk;
mod users;

pub use error::AttachError;
