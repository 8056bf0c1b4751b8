//! Mistakes that are planted to see that what checks a drive would notice them.
//!
//! None of them is in the drive. The flash lies instead: it says what a drive would make of it that makes the
//! mistake, or loses a block when the drive says that it will erase it.

use std::collections::HashMap;

use super::recording::Recording;
use crate::geometry::Geometry;
use crate::media::{BadBlockRecord, SpareArea, SpareMark};
use crate::recovery::ProgramUnit;
use crate::units::{BlockIndex, PhysicalUnit};

/// A mistake in the order of things on the flash or in recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Recovery takes the copy that comes last on the flash, whatever the numbers say.
    IgnoreNumbers,
    /// Recovery takes what it cannot read for erased.
    ForgetUnreadable,
    /// Recovery does not look at the records of trims.
    ForgetTrims,
    /// Recovery does not look at the table of bad blocks, and reads those that were replaced.
    ForgetBadBlocks,
    /// Recovery does not write again what capacitors saved.
    ForgetSaved,
    /// Recovery of log blocks takes what is left of an earlier recovery's merge for whole.
    KeepUnfinished,
    /// A block is erased as soon as it is to be: although what the host wrote anew is in the buffer only,
    /// or what it held is not programmed elsewhere yet.
    EraseEarly,
}

impl Fault {
    /// Every mistake there is.
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

/// What the flash says in place of the truth.
#[derive(Clone, Debug)]
pub(super) struct Lies {
    pub(super) fault: Fault,
    /// By where a program unit starts: its spare area with those units only that lie nowhere behind it.
    last_copies: HashMap<u32, Box<[u32]>>,
}

impl Lies {
    /// Returns the lies that show a drive what it would see if it made the mistake.
    pub(super) fn of(fault: Fault, truth: &Recording, geometry: &Geometry) -> Lies {
        let last_copies = match fault {
            Fault::IgnoreNumbers => last_copies(truth, geometry),
            _ => HashMap::new(),
        };
        Lies { fault, last_copies }
    }

    /// Returns what is said of the program unit that starts at `first` and is `truly` so.
    pub(super) fn instead<'a>(
        &'a self,
        first: PhysicalUnit,
        truly: ProgramUnit<'a>,
        geometry: &Geometry,
        bad_blocks: &[BadBlockRecord],
    ) -> ProgramUnit<'a> {
        match (self.fault, truly) {
            (Fault::IgnoreNumbers, ProgramUnit::Programmed { number, spare }) => {
                let spare = match self.last_copies.get(&first.0) {
                    Some(raw) => SpareArea::with_mark(raw, spare.mark()),
                    None => spare,
                };
                ProgramUnit::Programmed { number, spare }
            }
            (Fault::ForgetUnreadable, ProgramUnit::Unreadable) => ProgramUnit::Erased,
            (Fault::ForgetBadBlocks, _) if is_replaced(first, geometry, bad_blocks) => {
                ProgramUnit::Unreadable
            }
            (Fault::KeepUnfinished, ProgramUnit::Programmed { number, spare })
                if spare.mark() == SpareMark::Redone =>
            {
                ProgramUnit::Programmed { number, spare: SpareArea::new(spare.raw()) }
            }
            _ => truly,
        }
    }
}

/// Returns true if the block that `first` lies on has gone bad, and another has taken its place.
fn is_replaced(first: PhysicalUnit, geometry: &Geometry, bad_blocks: &[BadBlockRecord]) -> bool {
    let unit = geometry.block_of(first);
    let index = geometry.program_of(first) - geometry.program_of(geometry.first_unit(unit));
    let lane = index % geometry.stripe();
    bad_blocks.iter().any(|it| (it.unit, it.lane) == (unit, lane))
}

/// The spare areas from which units are missing that lie on the flash again behind them.
fn last_copies(truth: &Recording, geometry: &Geometry) -> HashMap<u32, Box<[u32]>> {
    let retired: Vec<BlockIndex> = truth.retired().collect();
    let mut seen = vec![false; geometry.logical_units() as usize];
    let mut changed = HashMap::new();
    let per_program = geometry.units_per_program();
    for first in (0..geometry.physical_units()).step_by(per_program as usize).rev() {
        let at = PhysicalUnit(first);
        let ProgramUnit::Programmed { spare, .. } = truth.held_at(at) else { continue };
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
