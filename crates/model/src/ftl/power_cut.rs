//! Power cuts: what of the flash work under way is torn, and what never began.

use ssdlab_nand::{FlashOperation, Progress, Tag, UnderWay};

use super::{Ftl, Ssd, kind, number_of};
use crate::mapping::Mapping;
use crate::media::{Media, TrimRecord};
use crate::units::{BlockIndex, DieIndex, PhysicalUnit};

/// What a power cut destroys of work on the flash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Torn {
    /// The program unit that starts here was being programmed.
    Program(PhysicalUnit),
    /// The part of a block that lies on a die was being erased.
    Erase(BlockIndex, DieIndex),
}

impl<M: Mapping, D: Media> Ssd<M, D> {
    /// Returns what a power cut would destroy now of programs and erases, those of metadata aside.
    pub fn torn(&self) -> Vec<Torn> {
        let Ssd { nand, ftl } = self;
        let torn = |UnderWay { operation, die, progress }| match operation {
            _ if progress == Progress::Waiting => None,
            FlashOperation::Program(tag) => ftl.first_of(tag).map(Torn::Program),
            FlashOperation::CopyProgram(copies) => {
                Some(Torn::Program(ftl.collector.copies.first_of(copies)))
            }
            FlashOperation::Erase(erase) => {
                ftl.blocks.being_erased(erase).map(|block| Torn::Erase(block, die))
            }
        };
        nand.under_way().into_iter().filter_map(torn).collect()
    }
}

/// A medium that knows what a power cut leaves of it.
pub trait Cuttable: Media {
    /// Power is cut while the program unit that starts at `first` is being programmed.
    fn tear_program(&mut self, first: PhysicalUnit);

    /// Power is cut while the part of `block` that lies on `die` is being erased.
    fn tear_erase(&mut self, block: BlockIndex, die: DieIndex);

    /// Power is gone: of what was not programmed only that is left which capacitors save. That is what
    /// is current by the map and in the write buffer, and the records of trims that are given.
    fn cut(&mut self, capacitors: Option<(&impl Mapping, Vec<TrimRecord>)>);
}

/// The flash operations that a power cut would tear.
pub type TornOperations = Vec<(FlashOperation, DieIndex)>;

impl<M: Mapping, D: Media> Ssd<M, D> {
    /// Returns which flash operations a power cut would tear now.
    pub fn torn_by_power_cut(&self) -> TornOperations {
        let begun = |it: &UnderWay| it.progress != Progress::Waiting;
        self.nand.under_way().into_iter().filter(begun).map(|it| (it.operation, it.die)).collect()
    }
}

impl<M: Mapping, D: Cuttable> Ssd<M, D> {
    /// Cuts power now, when all has happened that was due until then. Returns what is left: the flash.
    ///
    /// A write of which not all data has come counts as written where capacitors protect the buffer; the host
    /// was not told either way.
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
    /// Returns where the program unit starts that is programmed as `tag`; nothing of metadata.
    fn first_of(&self, tag: Tag) -> Option<PhysicalUnit> {
        match tag.0 & !kind::NUMBER {
            kind::HOST => {
                let number = number_of(tag, self.placement.numbers().start);
                Some(self.placement.first_of(number))
            }
            kind::RUN => Some(self.first_of_run_program(tag)),
            kind::EMPTY => Some(self.unit_of_empty(tag)),
            _ => None,
        }
    }
}
