//! The simulated SSD.
//!
//! Pure computation: this crate reads no clock, starts no thread, opens no file and keeps no
//! global. Time comes in with every request and randomness comes in as a seed, so the same
//! requests give the same drive, to the bit, and two drives live side by side in one process.
//!
//! One mechanism is one file; `docs/MODEL.md` gives the rule of each with its source.

pub mod counters;
pub mod theory;
pub mod units;
