//! Flush and FUA: the cost of making writes durable.
//!
//! A drive with a volatile buffer pads the program unit that is being filled, programs it, and waits; then it
//! programs the changes of its map to a journal page ([`crate::journal`]), if it keeps a journal, and answers the
//! host. Power-loss protection makes all of that unnecessary, and a drive that ignores flushes skips it although it
//! is not protected; the command itself still costs controller time. With the write cache off, every write is
//! answered like one with FUA (force unit access: durable when answered), even if the drive ignores flushes.
//!
//! It is not known whether firmware combines the padding of writes that arrive together. Here each FUA write pads on
//! its own.

use serde::Deserialize;

use crate::journal::JournalParameters;
use crate::units::Nanoseconds;

/// Handling of a flush, or of a write with FUA.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FlushHandling {
    /// Data is made durable before the answer.
    #[default]
    Honest,
    /// The drive answers immediately, whether data is durable or not.
    Ignored,
}

/// Moment at which a plain write is answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WriteCache {
    /// As soon as its data is in the buffer.
    #[default]
    WriteBack,
    /// As soon as its data is durable.
    WriteThrough,
}

/// Parameters of flushes and of the write cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlushParameters {
    /// Handling of flushes.
    pub handling: FlushHandling,
    /// Moment at which a plain write is answered.
    pub write_cache: WriteCache,
    /// Time for which a flush occupies the controller.
    pub overhead: Nanoseconds,
    /// Map journal that a flush completes; `None` if the spare area of the data is enough.
    pub journal: Option<JournalParameters>,
}
