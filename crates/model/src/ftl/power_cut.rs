//! Power cuts: flash operations in progress are torn, and those that have not begun never happen.

use ssdlab_nand::{FlashOperation, OperationInFlight, Progress, Tag};

use super::{Ftl, Ssd, kind, number_of};
use crate::mapping::Mapping;
use crate::media::{Media, TrimRecord};
use crate::units::{BlockIndex, DieIndex, PhysicalUnit};

/// Part of the flash that a power cut destroys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Torn {
    /// The program unit that starts here was being programmed.
    Program(PhysicalUnit),
    /// The part of a block that lies on a die was being erased.
    Erase(BlockIndex, DieIndex),
}

impl<M: Mapping, D: Media> Ssd<M, D> {
    /// Returns the programs and erases that a power cut would tear now, except those of metadata.
    pub fn torn(&self) -> Vec<Torn> {
        let Ssd { nand, ftl } = self;
        let torn = |OperationInFlight { operation, die, progress }| match operation {
            _ if progress == Progress::Waiting => None,
            FlashOperation::Program(tag) => ftl.first_of(tag).map(Torn::Program),
            FlashOperation::CopyProgram(copies) => {
                Some(Torn::Program(ftl.collector.copies.first_of(copies)))
            }
            FlashOperation::Erase(erase) => {
                ftl.blocks.being_erased(erase).map(|block| Torn::Erase(block, die))
            }
        };
        nand.operations_in_flight().into_iter().filter_map(torn).collect()
    }
}

/// A medium that can be left in the state in which a power cut leaves it.
pub trait Cuttable: Media {
    /// Called when power is cut while the program unit that starts at `first` is being programmed.
    fn tear_program(&mut self, first: PhysicalUnit);

    /// Called when power is cut while the part of `block` that lies on `die` is being erased.
    fn tear_erase(&mut self, block: BlockIndex, die: DieIndex);

    /// Called when power is gone. Of the data that was not programmed only that is left which capacitors save:
    /// the units in the write buffer that are valid by the map, and the given trim records.
    fn cut(&mut self, capacitors: Option<(&impl Mapping, Vec<TrimRecord>)>);
}

/// The flash operations that a power cut would tear.
pub type TornOperations = Vec<(FlashOperation, DieIndex)>;

impl<M: Mapping, D: Media> Ssd<M, D> {
    /// Returns the flash operations that a power cut would tear now.
    pub fn torn_by_power_cut(&self) -> TornOperations {
        let begun = |it: &OperationInFlight| it.progress != Progress::Waiting;
        self.nand
            .operations_in_flight()
            .into_iter()
            .filter(begun)
            .map(|it| (it.operation, it.die))
            .collect()
    }
}

impl<M: Mapping, D: Cuttable> Ssd<M, D> {
    /// Cuts power now, when all events due until now have been executed. Returns the flash, which is all that
    /// is left.
    ///
    /// With PLP, a write whose data has not all arrived counts as written; the host has no answer for it either
    /// way.
    #[must_use]
    pub fn power_cut(self) -> D {
        let torn = self.torn();
        let mut ftl = self.ftl;
        for torn in torn {
            match torn {
                Torn::Program(first) => ftl.media.tear_program(first),
                Torn::Erase(block, die) => ftl.media.tear_erase(block, die),
            }
        }
        let capacitors = match ftl.placement.is_volatile() {
            true => None,
            false => Some((&ftl.map, ftl.metadata.trims_in_ram())),
        };
        ftl.media.cut(capacitors);
        ftl.media
    }
}

impl<M: Mapping, D: Media> Ftl<M, D> {
    /// Returns the first physical unit of the program unit that is programmed as `tag`; `None` for metadata.
    fn first_of(&self, tag: Tag) -> Option<PhysicalUnit> {
        match tag.0 & !kind::NUMBER {
            kind::HOST => {
                let number = number_of(tag, self.placement.numbers_in_flight().start);
                Some(self.placement.first_of(number))
            }
            kind::RUN => Some(self.first_of_run_program(tag)),
            kind::PADDING => Some(self.padding_unit_of(tag)),
            _ => None,
        }
    }
}
