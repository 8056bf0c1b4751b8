//! Lengths, times and addresses of an SSD, each its own type, so that a logical unit cannot be
//! passed where a physical one is meant and no duration loses its unit.
//!
//! | what | types |
//! | --- | --- |
//! | lengths, in bytes | [`ByteLength`], [`KIB`], [`MIB`], [`GIB`]; ranges of them, [`Region`] |
//! | time, in nanoseconds | [`Instant`] of a drive's own clock, [`Nanoseconds`] between two |
//! | the host's addresses | [`Sector`], [`SectorCount`] |
//! | the map's addresses | [`LogicalUnit`], [`PhysicalUnit`] |
//! | the flash's parts | [`BlockIndex`], [`DieIndex`] |
//! | quantities as people write them | [`text`] |
//! | tables as bytes | [`codec`] |
//! | division by numbers that do not change | [`divisor`] |
//!
//! ```
//! use ssdlab_units::{Instant, KIB, Nanoseconds, text};
//!
//! let page = text::parse_length("16 KiB").expect("a size");
//! assert_eq!(page, KIB * 16);
//! let read = text::parse_duration("60us").expect("a duration");
//! let end = Instant::START + read * 2;
//! assert_eq!(end.since(Instant::START), Nanoseconds::from_micros(120));
//! ```
//!
//! Nothing here depends on a drive: this crate has no state, no clock and no file.

mod address;
pub mod codec;
pub mod divisor;
mod length;
mod region;
pub mod text;
mod time;

pub use address::{BlockIndex, DieIndex, LogicalUnit, PhysicalUnit, Sector, SectorCount};
pub use length::{ByteLength, GIB, KIB, MIB};
pub use region::Region;
pub use time::{Instant, Nanoseconds};
