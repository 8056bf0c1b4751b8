//! Power cut: the flash operations in flight at an instant, and their end.

use ssdlab_units::{DieIndex, Instant, Nanoseconds};

use super::Nand;
use crate::completions::Tag;
use crate::copies::CopyNumber;
use crate::die::Stage;
use crate::erase::EraseId;
use crate::event_queue::EventQueue;
use crate::pool::{Kind, Op};

/// A flash operation that changes the content of a die.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlashOperation {
    /// The program unit that was handed to [`Nand::program`] with this tag.
    Program(Tag),
    /// A program unit of copies.
    CopyProgram(CopyNumber),
    /// A die's part of an erase.
    Erase(EraseId),
}

/// Progress of a flash operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The die has not begun it.
    Waiting,
    /// The die has begun it; it ends at `end` if no read suspends it.
    InProgress {
        /// Moment at which the operation would be complete.
        end: Instant,
    },
    /// The die has begun the operation and suspended it for a read.
    Suspended {
        /// Time that is left of the operation.
        left: Nanoseconds,
    },
}

/// A flash operation that is not complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OperationInFlight {
    /// The operation.
    pub operation: FlashOperation,
    /// The die that does the operation.
    pub die: DieIndex,
    /// Progress of the operation.
    pub progress: Progress,
}

impl Nand {
    /// Returns the programs and erases that were asked for and are not complete, die by die, each die's in
    /// the order in which it would do them. Operations that are not queued at their die yet come last.
    /// Reads change nothing and are left out.
    pub fn operations_in_flight(&self) -> Vec<OperationInFlight> {
        let mut list = Vec::new();
        for die in 0..self.dies.count() {
            let operations = self.dies.operations(&self.transit.pool, die);
            list.extend(operations.filter_map(|(index, stage)| {
                let operation = change_by(self.transit.pool.get(index))?;
                let progress = match stage {
                    Stage::Waiting => Progress::Waiting,
                    Stage::InProgress(end) => Progress::InProgress { end },
                    Stage::Suspended(left) => Progress::Suspended { left },
                };
                Some(OperationInFlight { operation, die: DieIndex(die as u32), progress })
            }));
        }
        // The data of a host's program is an operation of its own; the data of copies is part of their program.
        let crossing = self.transit.queued_operations().map(|index| self.transit.pool.get(index));
        let crossing = crossing.filter_map(|op| Some((change_by(op)?, op.die)));
        let pending =
            self.copies.pending().map(|(number, die)| (FlashOperation::CopyProgram(number), die));
        list.extend(crossing.chain(pending).map(|(operation, die)| OperationInFlight {
            operation,
            die: DieIndex(die.into()),
            progress: Progress::Waiting,
        }));
        list
    }

    /// Cuts the power: forgets all operations in flight, commands and alarms included. No callback is
    /// called for them, the flash is idle from now on, and numbers of reads, copies and erases given before
    /// are void.
    pub fn cut_power(&mut self) {
        let (now, events) = (self.now, self.events);
        *self = Nand::new(&self.geometry, &self.timing, self.dies.parameters());
        (self.now, self.events) = (now, events);
        self.transit.event_queue =
            EventQueue::new(self.geometry.dies() as usize, self.geometry.channels() as usize, now);
    }
}

/// Returns the change of the flash that an operation makes, or `None` if it makes none.
fn change_by(op: &Op) -> Option<FlashOperation> {
    match op.kind {
        Kind::Program => Some(FlashOperation::Program(Tag(op.owner))),
        Kind::CopyProgram => Some(FlashOperation::CopyProgram(CopyNumber(op.owner))),
        Kind::Erase => Some(FlashOperation::Erase(EraseId(op.owner))),
        Kind::Read | Kind::Piece | Kind::Load | Kind::CopyRead | Kind::Data => None,
    }
}
