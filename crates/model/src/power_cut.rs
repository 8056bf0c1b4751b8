//! Power-cut testing: cuts power between any two events of a drive, and checks the data that is left against the
//! rules of a volatile write cache.
//!
//! The rules are those of every block device with a volatile cache (SATA FLUSH CACHE, NVMe Flush and FUA), unit by
//! unit:
//!
//! - Everything answered before a flush was sent is durable once that flush is answered. So is a write with FUA, once
//!   it is answered. On a drive whose buffer has power-loss protection, and on one with the write cache off,
//!   everything that was answered is durable.
//! - Anything sent later may be there or not, each unit on its own and in any order.
//! - So a unit holds the data of its latest durable write or trim, or of a later one: never older data, data that was
//!   never written, or another unit's data.
//! - The drive continues, by the same rules, with the data that it then holds.
//!
//! The drive stops between any two events, so that every possible power cut can be tried.

pub mod drive;
pub mod explore;
pub mod faults;
pub mod history;
mod miniature;
pub mod recording;
pub mod rules;
pub mod tested;
pub mod text;
