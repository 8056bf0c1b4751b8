//! Attaches a simulated SSD as a block device whose data is kept in an image file.
//!
//! | role | type |
//! | --- | --- |
//! | a file whose layout is the flash: what is programmed lies at its physical place, with its spare area; what is erased is a hole | [`image::Image`] |
//! | requests with payload, from as many threads as like | [`engine::Engine`] |
//! | ways to reach it | [`nbd`]; [`fuse`] and a loop device on it; ublk, where that is built in |
//! | a drive that is attached, and the order at its end | [`attachment`] |
//! | figures of the inside, orders to a running drive | [`status`], [`control`] |
//! | an image that was not closed in order, examined and repaired | [`check`] |
//!
//! ```
//! use std::time::Instant;
//!
//! use ssdlab_attach::engine::{Engine, Options, Time};
//! use ssdlab_attach::image::Image;
//! use ssdlab_model::profile::Profile;
//!
//! let directory = tempfile::tempdir()?;
//! let mut profile = Profile::named("generic-tlc")?;
//! profile.set("scale", "1/64")?;
//! let image = Image::create(&directory.path().join("disk.ssd"), &profile, false)?;
//! let options = Options { time: Time::Fast, ..Options::default() };
//! let (engine, _) = Engine::open(image, options)?;
//!
//! let _ = engine.write(Instant::now(), 4096, b"kept", false).expect("a write");
//! let _ = engine.flush(Instant::now()).expect("a flush");
//! let mut found = [0; 4];
//! let _ = engine.read(Instant::now(), 4096, &mut found).expect("a read");
//! assert_eq!(&found, b"kept");
//! engine.close()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod attachment;
pub mod check;
pub mod completion_lateness;
pub mod control;
pub mod device;
pub mod drive;
pub mod engine;
pub mod error;
pub mod fuse;
pub mod image;
pub mod mapped_image;
pub mod nbd;
pub mod pipe;
mod recover;
pub mod reply_queue;
mod scheduling;
mod socket;
mod stale_mounts;
pub mod status;
pub mod store;
mod sync;
#[cfg(feature = "ublk")]
pub mod timer;
#[cfg(feature = "ublk")]
pub mod ublk;
mod users;

pub use error::AttachError;
