//! Power cuts: what they leave, what they may leave, and a search for cuts that leave anything
//! else.
//!
//! The rules are those of every block device with a volatile cache (SATA FLUSH CACHE, NVMe Flush
//! and FUA), unit by unit:
//!
//! - What was answered before a flush was sent that was itself answered is there. So is what was
//!   written with FUA, once answered; on a drive whose buffer is protected by capacitors, and on
//!   one with the write cache off, everything that was answered is.
//! - Anything sent later may be there or not, each unit on its own and in any order.
//! - So a unit holds what its latest durable write or trim left, or what a later one did: never
//!   something older, something that was never written, or another unit's data.
//! - The drive works on, by the same rules, with what it then holds.
//!
//! The drive stops between any two things that happen to it, so that every power cut there is can be tried.

pub mod drive;
pub mod explore;
pub mod faults;
pub mod history;
mod miniature;
pub mod recording;
pub mod rules;
pub mod tested;
pub mod text;
