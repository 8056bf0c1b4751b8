//! Fault injection: planted mistakes that a check of the drive has to notice.
//!
//! The code of the drive contains none of these mistakes. Instead, the flash lies: it returns what a drive with the
//! mistake would see, or loses the data of a block when the drive announces its erase.

use std::collections::HashMap;

use super::recording::Recording;
use crate::geometry::Geometry;
use crate::media::{BadBlockRecord, OobArea, SpareMark};
use crate::recovery::ProgramUnit;
use crate::units::{BlockIndex, PhysicalUnit};

/// A mistake in the order of operations on the flash, or in recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Recovery takes the last copy on the flash, whatever the sequence numbers.
    IgnoreNumbers,
    /// Recovery treats unreadable program units as erased.
    ForgetUnreadable,
    /// Recovery ignores the trim records.
    ForgetTrims,
    /// Recovery ignores the table of bad blocks, and reads blocks that were replaced.
    ForgetBadBlocks,
    /// Recovery does not write the units again that power-loss protection saved.
    ForgetSaved,
    /// Recovery of log blocks treats an unfinished merge of an earlier recovery as complete.
    KeepUnfinished,
    /// A block is erased as soon as its erase is announced, although newer host data is in the buffer only, or copies
    /// of its data are not programmed yet.
    EraseEarly,
}

impl Fault {
    /// All mistakes.
    pub const ALL: [Fault; 7] = [
        Fault::IgnoreNumbers,
        Fault::ForgetUnreadable,
        Fault::ForgetTrims,
        Fault::ForgetBadBlocks,
        Fault::ForgetSaved,
        Fault::KeepUnfinished,
        Fault::EraseEarly,
    ];
}

/// False answers of the flash.
#[derive(Clone, Debug)]
pub(super) struct InjectedFault {
    pub(super) fault: Fault,
    /// By first physical unit of a program unit: its spare area without the units of which a later copy is on the
    /// flash.
    last_copies: HashMap<u32, Box<[u32]>>,
}

impl InjectedFault {
    /// Returns the fault that shows a drive what it would see with the mistake `fault`.
    pub(super) fn of(fault: Fault, truth: &Recording, geometry: &Geometry) -> InjectedFault {
        let last_copies = match fault {
            Fault::IgnoreNumbers => last_copies(truth, geometry),
            _ => HashMap::new(),
        };
        InjectedFault { fault, last_copies }
    }

    /// Returns the answer for the program unit that starts at `first`, whose true content is `truly`.
    pub(super) fn faulty_content<'a>(
        &'a self,
        first: PhysicalUnit,
        truly: ProgramUnit<'a>,
        geometry: &Geometry,
        bad_blocks: &[BadBlockRecord],
    ) -> ProgramUnit<'a> {
        match (self.fault, truly) {
            (Fault::IgnoreNumbers, ProgramUnit::Programmed { number, spare }) => {
                let spare = match self.last_copies.get(&first.0) {
                    Some(raw) => OobArea::with_mark(raw, spare.mark()),
                    None => spare,
                };
                ProgramUnit::Programmed { number, spare }
            }
            (Fault::ForgetUnreadable, ProgramUnit::Unreadable) => ProgramUnit::Erased,
            (Fault::ForgetBadBlocks, _) if is_replaced(first, geometry, bad_blocks) => {
                ProgramUnit::Unreadable
            }
            (Fault::KeepUnfinished, ProgramUnit::Programmed { number, spare })
                if spare.mark() == SpareMark::RecoveryMerge =>
            {
                ProgramUnit::Programmed { number, spare: OobArea::new(spare.raw()) }
            }
            _ => truly,
        }
    }
}

/// Returns true if the block of `first` has gone bad and was replaced.
fn is_replaced(first: PhysicalUnit, geometry: &Geometry, bad_blocks: &[BadBlockRecord]) -> bool {
    let unit = geometry.block_of(first);
    let index = geometry.program_of(first) - geometry.program_of(geometry.first_unit(unit));
    let lane = index % geometry.stripe();
    bad_blocks.iter().any(|it| (it.unit, it.lane) == (unit, lane))
}

/// Returns the spare areas that lack the units of which a later copy is on the flash.
fn last_copies(truth: &Recording, geometry: &Geometry) -> HashMap<u32, Box<[u32]>> {
    let retired: Vec<BlockIndex> = truth.retired().collect();
    let mut seen = vec![false; geometry.logical_units() as usize];
    let mut changed = HashMap::new();
    let per_program = geometry.units_per_program();
    for first in (0..geometry.physical_units()).step_by(per_program as usize).rev() {
        let at = PhysicalUnit(first);
        let ProgramUnit::Programmed { spare, .. } = truth.content_at(at) else { continue };
        if retired.contains(&geometry.block_of(at)) {
            continue;
        }
        let mut raw: Box<[u32]> = spare.raw().into();
        for place in raw.iter_mut().rev() {
            let Some(unit) = place.checked_sub(1) else { continue };
            if std::mem::replace(&mut seen[unit as usize], true) {
                *place = 0;
            }
        }
        changed.insert(first, raw);
    }
    changed
}
