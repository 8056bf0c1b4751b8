//! Flush and FUA: what it costs to make writes durable.
//!
//! A drive whose buffer is volatile pads the program unit that is being filled, programs it, and
//! waits; then it programs the changes of its map to a journal page ([`crate::journal`]), where it
//! keeps one, and tells the host. Capacitors make all of that unnecessary, and a drive that
//! ignores flushes leaves it out although they do not protect it; what the command itself costs the
//! controller stays. With the write cache off every write is answered like one with FUA (force unit
//! access: durable when answered), whatever the drive does about flushes.
//!
//! What is not known of real drives: whether firmware combines the padding of writes that arrive
//! together. Here each FUA write pads on its own.

use serde::Deserialize;

use crate::journal::JournalParameters;
use crate::units::Nanoseconds;

/// What a drive does when it is told to flush, or to write with FUA.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FlushHandling {
    /// What it is asked for.
    #[default]
    Honest,
    /// Nothing: it answers at once, durable or not.
    Ignored,
}

/// When a plain write is answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WriteCache {
    /// When its data is in the buffer.
    #[default]
    WriteBack,
    /// When its data is durable.
    WriteThrough,
}

/// How a drive makes writes durable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlushParameters {
    /// Whether it does what a flush asks for.
    pub handling: FlushHandling,
    /// When a plain write is answered.
    pub write_cache: WriteCache,
    /// How long a flush keeps the controller from anything else.
    pub overhead: Nanoseconds,
    /// The journal that a flush completes; none where the spare area of the data is enough.
    pub journal: Option<JournalParameters>,
}
