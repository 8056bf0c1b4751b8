//! Explorers of host crashes and damage, for the images of attached drives.
//!
//! [`memory_storage`] keeps an image in memory and records each write, punch and sync ([`history`]). The record
//! determines all images that a crash of the host may leave ([`crash`]). Each is opened, and every sector has
//! to hold what was flushed, or what was written later ([`oracle`], [`explore`]). [`corruption`] damages images
//! instead: a bit, a sector or a page in every kind of record. [`faults`] plants mistakes in the order of
//! writes, which the explorer of crashes has to find, and [`faulty_readers`] mistakes in opening an image.
//!
//! All of it is repeatable: an image follows from the kind of drive, a seed and its number.

pub mod corruption;
pub mod crash;
pub mod explore;
pub mod faults;
pub mod faulty_readers;
pub mod history;
#[cfg(feature = "stepped")]
pub mod interleave;
pub mod memory_storage;
pub mod oracle;
pub mod pages;
pub mod setup;
