//! A power cut: what is under way on the flash at an instant, and its end.

use ssdlab_units::{DieIndex, Instant, Nanoseconds};

use super::Nand;
use crate::clock::Clock;
use crate::completions::Tag;
use crate::copies::CopyNumber;
use crate::die::Stage;
use crate::erase::EraseId;
use crate::pool::{Kind, Op};

/// A flash operation that changes what a die holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlashOperation {
    /// The program unit that was handed to [`Nand::program`] with this tag.
    Program(Tag),
    /// A program unit of copies.
    CopyProgram(CopyNumber),
    /// A die's part of an erase.
    Erase(EraseId),
}

/// How far a flash operation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The die has not begun it.
    Waiting,
    /// The die is at it, until `end` if nothing suspends it.
    InProgress {
        /// When it would be over.
        end: Instant,
    },
    /// The die has begun it and stopped it for a read.
    Suspended {
        /// What would be left of it.
        left: Nanoseconds,
    },
}

/// A flash operation that is not over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnderWay {
    /// Which it is.
    pub operation: FlashOperation,
    /// The die that does it.
    pub die: DieIndex,
    /// How far it is.
    pub progress: Progress,
}

impl Nand {
    /// Returns the programs and erases that were asked for and are not over, die by die, each die's in
    /// the order in which it would turn to them; what is not in line at its die yet comes last. Reads change
    /// nothing and are left out.
    pub fn under_way(&self) -> Vec<UnderWay> {
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
                Some(UnderWay { operation, die: DieIndex(die as u32), progress })
            }));
        }
        // The data of a host's program is an operation of its own; that of copies is their program.
        let crossing = self.transit.in_line().map(|index| self.transit.pool.get(index));
        let crossing = crossing.filter_map(|op| Some((change_by(op)?, op.die)));
        let filling =
            self.copies.filling().map(|(number, die)| (FlashOperation::CopyProgram(number), die));
        list.extend(crossing.chain(filling).map(|(operation, die)| UnderWay {
            operation,
            die: DieIndex(die.into()),
            progress: Progress::Waiting,
        }));
        list
    }

    /// Cuts the power: forgets everything that is under way, commands and alarms included. Nothing is told,
    /// the flash is idle from now on, and numbers of reads, copies and erases given before are void.
    pub fn cut_power(&mut self) {
        let (now, events) = (self.now, self.events);
        *self = Nand::new(&self.geometry, &self.timing, self.dies.parameters());
        (self.now, self.events) = (now, events);
        self.transit.clock =
            Clock::new(self.geometry.dies() as usize, self.geometry.channels() as usize, now);
    }
}

/// The change of the flash that an operation is, if it is one.
fn change_by(op: &Op) -> Option<FlashOperation> {
    match op.kind {
        Kind::Program => Some(FlashOperation::Program(Tag(op.owner))),
        Kind::CopyProgram => Some(FlashOperation::CopyProgram(CopyNumber(op.owner))),
        Kind::Erase => Some(FlashOperation::Erase(EraseId(op.owner))),
        Kind::Read | Kind::Piece | Kind::Load | Kind::CopyRead | Kind::Data => None,
    }
}
