//! The flash of an SSD in time: dies, channels, the host link and the controller, as one event-driven
//! engine.
//!
//! Three roles:
//!
//! - [`Nand`] is the machine. It holds the operations in flight and the queues of each resource, and
//!   processes events in order. It does not know the meaning of data.
//! - [`Completions`] is the flash translation layer, as the flash sees it: it is called when operations are
//!   complete, and asks for the operations that follow. The calls are statically dispatched, so that a read
//!   costs tens of nanoseconds.
//! - The *host* submits commands to [`Nand::submit`]. It may be the same type as the translation layer.
//!
//! The crate is pure computation: it reads no clock and starts no thread, and the same calls give the same
//! times.
//!
//! # Example
//!
//! Two reads of units on one die: the second is sensed after the first.
//!
//! ```
//! use ssdlab_nand::geometry::{Geometry, GeometryParameters};
//! use ssdlab_nand::suspend::SuspendParameters;
//! use ssdlab_nand::timing::{Delivery, Timing, TransferRate};
//! use ssdlab_nand::{Completions, DieParameters, Nand, ReadTime, Tag};
//! use ssdlab_units::{Instant, KIB, Nanoseconds, PhysicalUnit};
//!
//! struct Reader(Vec<Instant>);
//!
//! impl Completions for Reader {
//!     fn fetched(&mut self, nand: &mut Nand, tag: Tag, _at: Instant) {
//!         nand.read_unit(tag, PhysicalUnit(tag.0), Nanoseconds::from_micros(60));
//!     }
//!     fn read(&mut self, _: &mut Nand, _: Tag, at: Instant, _: ReadTime) {
//!         self.0.push(at);
//!     }
//!     fn programmed(&mut self, _: &mut Nand, _: Tag, _: Instant) {}
//! }
//!
//! let geometry = Geometry::new(GeometryParameters {
//!     channels: 2,
//!     dies: 6,
//!     planes_per_die: 2,
//!     multi_plane_read: true,
//!     pages_per_shot: 3,
//!     pages_per_block: 96,
//!     page_size: KIB * 16,
//!     unit_size: KIB * 4,
//!     dies_per_collection_unit: 6,
//!     collection_units: 20,
//!     metadata_collection_units: 0,
//!     reserve_collection_units: 0,
//!     logical_units: 80_000,
//! })?;
//! let timing = Timing {
//!     page_read: Nanoseconds::from_micros(60),
//!     program: Nanoseconds::from_micros(1_200),
//!     erase: Nanoseconds::from_millis(4),
//!     channel: TransferRate::from_mb_per_second(800.0),
//!     link: TransferRate::from_mb_per_second(3_300.0),
//!     link_full_duplex: true,
//!     delivery: Delivery::AnyOrder,
//!     command_latency: Nanoseconds::from_micros(10),
//!     command_occupancy: Nanoseconds::from_micros(1),
//! };
//! let parameters = DieParameters {
//!     suspend: SuspendParameters::default(),
//!     background_most: 8,
//!     page_register: false,
//! };
//! let mut nand = Nand::new(&geometry, &timing, parameters);
//! let mut reader = Reader(Vec::new());
//! nand.submit(Instant::START, Tag(0), Nanoseconds::ZERO);
//! nand.submit(Instant::START, Tag(1), Nanoseconds::ZERO);
//! nand.run_until(Instant::from_nanos(1_000_000), &mut reader);
//! // 1 us and 10 us of command, 60 us of sensing, 5.12 us of channel, 1.241 us of link.
//! assert_eq!(reader.0[0], Instant::from_nanos(77_361));
//! assert_eq!(reader.0[1].since(reader.0[0]), Nanoseconds::from_micros(60));
//! # Ok::<(), ssdlab_nand::geometry::GeometryError>(())
//! ```
//!
//! # Order
//!
//! | resource | order |
//! | --- | --- |
//! | controller | arrival of commands |
//! | die | reads, then what was suspended, then programs, then the background; see [`DieParameters`] |
//! | channel | the instant at which the data is ready, then the order in which it was asked for |
//! | link | the instant at which it is asked for, each way or both together |

mod channel;
mod completions;
mod controller;
mod copies;
mod die;
mod erase;
mod event_queue;
pub mod geometry;
mod link;
mod multi_page_read;
mod nand;
mod pool;
mod program_log;
mod schedule;
mod sorted_ring;
pub mod suspend;
pub mod timing;

pub use completions::{Completions, ReadTime, Tag};
pub use copies::CopyNumber;
pub use die::DieParameters;
pub use erase::EraseId;
pub use multi_page_read::{PieceIndex, ReadId};
pub use nand::power_cut::{FlashOperation, OperationInFlight, Progress};
pub use nand::{Nand, Page, ProgramUnit};
pub use program_log::ProgramLog;
