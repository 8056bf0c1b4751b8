//! Suspend: a read interrupts the program or erase in progress on its die.
//!
//! A program is a row of steps, each a pulse and the check of what it did; so is an erase. The die ends the step that is
//! under way, stops, which takes a while, serves the reads that wait, and resumes, which takes a while more. It makes
//! no progress in between. What would be over by the time that it has stopped is left alone, and an operation is
//! interrupted only so often.

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
    /// The length of a step, which is not interrupted: steps are counted from the end of the operation. Zero: the
    /// operation stops anywhere.
    pub step: Nanoseconds,
    /// From the end of the step until the die can sense; the operation makes no progress.
    pub suspend: Nanoseconds,
    /// What resuming adds to the rest of the operation.
    pub resume: Nanoseconds,
    /// How often one operation can be interrupted.
    pub most: u32,
    /// When reads may interrupt.
    pub when: SuspendWhen,
}

impl SuspendParameters {
    /// Returns how much of an operation is left when the die begins to stop it, where `left` is left now and it may be
    /// interrupted; `None` where it would be over by the time that it has stopped.
    #[inline(always)]
    pub fn left_when_stopped(&self, left: Nanoseconds) -> Option<Nanoseconds> {
        let rest_of_step = left.nanos().checked_rem(self.step.nanos()).unwrap_or(0);
        let stopped = left - Nanoseconds::new(rest_of_step);
        (stopped > self.suspend).then_some(stopped)
    }
}
