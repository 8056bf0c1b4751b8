//! Suspend: a read interrupts the program or erase in progress on its die.
//!
//! The die stops it, which takes a while, serves the reads that wait, and resumes it, which takes a while
//! more. It makes no progress in between. What would be over within the time to suspend is left alone,
//! and an operation is interrupted only so often.

use serde::Deserialize;
use ssdlab_units::Nanoseconds;

/// What a read may interrupt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Suspendable {
    /// Nothing.
    #[default]
    Off,
    /// Programs.
    Program,
    /// Erases.
    Erase,
    /// Programs and erases.
    Both,
}

/// When reads may interrupt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SuspendWhen {
    /// At any time.
    #[default]
    Always,
    /// While the write buffer has room. When it is full, programs and erases go on, since the host's writes
    /// wait for them.
    BufferHasRoom,
}

/// How a die suspends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SuspendParameters {
    /// What a read may interrupt.
    pub operations: Suspendable,
    /// From the command to suspend until the die can sense; the operation makes no progress.
    pub suspend: Nanoseconds,
    /// What resuming adds to the rest of the operation.
    pub resume: Nanoseconds,
    /// How often one operation can be interrupted.
    pub most: u32,
    /// When reads may interrupt.
    pub when: SuspendWhen,
}
