//! Power cuts: what of the flash work under way is torn, and what never began.

use ssdlab_nand::{FlashOperation, Progress, Tag, UnderWay};

use super::{Ftl, Ssd, kind, number_of};
use crate::mapping::Mapping;
use crate::media::{Media, TrimRecord};
use crate::units::{BlockIndex, DieIndex, PhysicalUnit};

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
pub type Torn = Vec<(FlashOperation, DieIndex)>;

impl<M: Mapping, D: Media> Ssd<M, D> {
    /// Returns which flash operations a power cut would tear now.
    pub fn torn_by_power_cut(&self) -> Torn {
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
        let torn = self.torn_by_power_cut();
        let mut ftl = self.ftl;
        for (operation, die) in torn {
            let first = match operation {
                FlashOperation::Program(tag) => ftl.first_of(tag),
                FlashOperation::CopyProgram(copies) => Some(ftl.collector.copies.first_of(copies)),
                FlashOperation::Erase(erase) => {
                    if let Some(block) = ftl.blocks.being_erased(erase) {
                        ftl.media.tear_erase(block, die);
                    }
                    None
                }
            };
            if let Some(first) = first {
                ftl.media.tear_program(first);
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
    /// Where the program unit starts that is programmed as `tag`; nothing of metadata.
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
