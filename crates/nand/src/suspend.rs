//! Suspend: a read interrupts the program or erase in progress on its die.
//!
//! A program is a series of steps, each a pulse and a verification; so is an erase. The die ends the step
//! that is in progress, suspends the operation, serves the reads that wait, and resumes. Suspending and
//! resuming each take time, in which the operation makes no progress. An operation that would be complete
//! by the time that it is suspended is not suspended, and each operation is suspended at most `most` times.

use serde::Deserialize;
use ssdlab_units::Nanoseconds;

/// Operations that a read may interrupt.
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

/// Condition under which reads may interrupt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SuspendWhen {
    /// At any time.
    #[default]
    Always,
    /// While the write buffer has space. When it is full, programs and erases are not suspended, because
    /// host writes wait for them.
    BufferHasRoom,
}

/// Parameters of suspension.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SuspendParameters {
    /// Operations that a read may interrupt.
    pub operations: Suspendable,
    /// Length of a step, which is not interrupted. Steps are counted from the end of the operation. With
    /// zero the operation can be suspended anywhere.
    pub step: Nanoseconds,
    /// Time from the end of the step until the die can sense. The operation makes no progress.
    pub suspend: Nanoseconds,
    /// Time that resuming adds to the rest of the operation.
    pub resume: Nanoseconds,
    /// Maximum number of times that one operation can be interrupted.
    pub most: u32,
    /// Condition under which reads may interrupt.
    pub when: SuspendWhen,
}

impl SuspendParameters {
    /// Returns the time left of an operation when the die begins to suspend it, if `left` is left now and
    /// it may be interrupted. `None` if it would be complete by the time that it is suspended.
    #[inline(always)]
    pub fn remaining_when_suspended(&self, left: Nanoseconds) -> Option<Nanoseconds> {
        let rest_of_step = left.nanos().checked_rem(self.step.nanos()).unwrap_or(0);
        let stopped = left - Nanoseconds::new(rest_of_step);
        (stopped > self.suspend).then_some(stopped)
    }
}
