//! Contents of the flash, read from the image when it is opened after a crash.

use ssdlab_model::media::{OobArea, SequenceNumber, TrimRecord};
use ssdlab_model::recovery::{FlashContents, ProgramUnit};
use ssdlab_units::{BlockIndex, LogicalUnit, PhysicalUnit};

use super::Store;
use crate::image::layout::Layout;
use crate::image::spare::Record;

/// Number of a program unit that cannot be read.
const UNREADABLE: u64 = u64::MAX;

/// Flag in a number for SLC mode; larger than any sequence number.
const SLC: u64 = 1 << 63;

/// Contents that were found in an image.
#[derive(Debug)]
pub(super) struct FoundContents {
    /// Sequence number of each program unit: 0 if it is erased, with [`SLC`] added if it was programmed with
    /// one bit a cell.
    numbers: Vec<u64>,
    /// Logical unit plus one of each physical unit, 0 for padding.
    spare: Vec<u32>,
    pub(super) trims: Vec<TrimRecord>,
    /// Units of the latest buffer dump of which the flash has no newer copy.
    pub(super) saved: Vec<LogicalUnit>,
    /// Largest sequence number in that dump.
    pub(super) saved_through: SequenceNumber,
    /// Data of each unit in `saved`, with its checksum; `None` if it is damaged.
    pub(super) saved_data: Vec<Option<(Box<[u8]>, u32)>>,
}

impl FoundContents {
    /// Returns the contents of an erased flash of this `layout`.
    pub(super) fn new(layout: &Layout) -> FoundContents {
        let programs = layout.programs() as usize;
        FoundContents {
            numbers: vec![0; programs],
            spare: vec![0; programs * layout.units_per_program as usize],
            trims: Vec::new(),
            saved: Vec::new(),
            saved_through: SequenceNumber::default(),
            saved_data: Vec::new(),
        }
    }

    /// Notes the number and the logical units in the record of `program`.
    pub(super) fn note_record(&mut self, layout: &Layout, program: u32, record: &Record) {
        // Numbers that no drive reaches are left to the model, which refuses them.
        let number = record.number.min(SLC - 1);
        self.numbers[program as usize] = number | if record.is_slc { SLC } else { 0 };
        let first = (program * layout.units_per_program) as usize;
        self.spare[first..first + record.logical.len()].copy_from_slice(&record.logical);
    }

    /// Notes that `program` cannot be read.
    pub(super) fn note_unreadable(&mut self, program: u32) {
        self.numbers[program as usize] = UNREADABLE;
    }

    /// Notes that `program` counts as erased, whatever its record says.
    pub(super) fn note_erased(&mut self, layout: &Layout, program: u32) {
        self.numbers[program as usize] = 0;
        let first = (program * layout.units_per_program) as usize;
        self.spare[first..first + layout.units_per_program as usize].fill(0);
    }

    /// Returns the program units that can be read, with their sequence numbers.
    pub(super) fn readable(&self) -> impl Iterator<Item = (u32, SequenceNumber)> + '_ {
        let readable = (0..).zip(&self.numbers).filter(|(_, it)| ![0, UNREADABLE].contains(it));
        readable.map(|(program, &number)| (program, SequenceNumber(number & !SLC)))
    }

    /// Returns the logical units of `program`, plus one; zero for padding.
    pub(super) fn spare_of(&self, layout: &Layout, program: u32) -> &[u32] {
        let first = (program * layout.units_per_program) as usize;
        &self.spare[first..first + layout.units_per_program as usize]
    }
}

impl Store {
    /// Drops the contents that [`Store::survey`] has found, once the drive is open.
    pub fn forget_survey(&mut self) {
        self.found = None;
    }

    /// Returns the logical unit that the spare area of `unit` names, `Some(None)` for padding. `None` if there
    /// was no survey, or the unit is staged.
    pub fn logical_in_spare(&self, unit: PhysicalUnit) -> Option<Option<LogicalUnit>> {
        let found = self.found.as_ref()?;
        if self.is_staged(unit) {
            return None;
        }
        Some(found.spare[unit.0 as usize].checked_sub(1).map(LogicalUnit))
    }

    /// Returns true if the data of `unit` is staged, not at its place in the image.
    fn is_staged(&self, unit: PhysicalUnit) -> bool {
        self.staged.contains_key(&self.layout.program_of(unit))
    }

    /// Returns the physical unit in the image that holds the data of `unit`, which has to be mapped: `unit`
    /// itself or the one that it is to be copied from. `None` if the data is staged.
    pub fn place_in_image(&self, unit: PhysicalUnit) -> Option<PhysicalUnit> {
        match self.origin(unit) {
            (unit, None) => Some(unit),
            (_, Some(_)) => None,
        }
    }

    /// Returns the program unit that holds `unit`.
    pub fn program_of(&self, unit: PhysicalUnit) -> u32 {
        self.layout.program_of(unit)
    }

    fn found(&self) -> &FoundContents {
        self.found.as_ref().expect("a drive is opened from an image that was read")
    }
}

impl FlashContents for Store {
    fn program_unit(&self, first: PhysicalUnit) -> ProgramUnit<'_> {
        let found = self.found();
        match found.numbers[self.layout.program_of(first) as usize] {
            0 => ProgramUnit::Erased,
            UNREADABLE => ProgramUnit::Unreadable,
            number => {
                let (first, count) = (first.0 as usize, self.layout.units_per_program as usize);
                let raw = &found.spare[first..first + count];
                let is_slc = number & SLC != 0;
                let spare = if is_slc { OobArea::in_slc_mode(raw) } else { OobArea::new(raw) };
                ProgramUnit::Programmed { number: SequenceNumber(number & !SLC), spare }
            }
        }
    }

    fn programs_in(&self, block: BlockIndex) -> u32 {
        let programs = self.layout.programs_per_block as usize;
        let first = block.0 as usize * programs;
        let numbers = &self.found().numbers[first..first + programs];
        numbers.iter().rposition(|&number| number != 0).map_or(0, |it| it as u32 + 1)
    }

    fn trims(&self) -> &[TrimRecord] {
        &self.found().trims
    }

    fn saved(&self) -> &[LogicalUnit] {
        &self.found().saved
    }

    fn saved_through(&self) -> SequenceNumber {
        self.found().saved_through
    }

    fn restore(&mut self, index: usize, unit: PhysicalUnit) {
        self.restore_saved(index, unit);
    }

    fn erases(&self, block: BlockIndex) -> u32 {
        let first = (block.0 * self.layout.stripe) as usize;
        let parts = &self.erases[first..first + self.layout.stripe as usize];
        parts.iter().copied().max().unwrap_or(0)
    }
}
