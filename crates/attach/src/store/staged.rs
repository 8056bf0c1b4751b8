//! Staged data: host writes and gc copies that the image does not hold yet.

use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use ssdlab_model::media::SequenceNumber;
use ssdlab_units::{LogicalUnit, PhysicalUnit};

use crate::image::layout::Layout;

/// Source of a staged unit's data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// No data: padding, or a unit of blank bytes that the model added.
    Nothing,
    /// In RAM: what the host wrote, with its checksum.
    Staged { logical: LogicalUnit, sum: u32 },
    /// In the image already, or on its way there (written ahead).
    WrittenAhead { logical: LogicalUnit, sum: u32 },
    /// Lost: the data could not be read, for instance from a damaged buffer dump. Reading the unit fails.
    Lost { logical: LogicalUnit },
    /// A copy of the unit `from`, as staged in `generation` of the program unit there; `None` for the data in the
    /// image.
    CopyOf { from: PhysicalUnit, generation: Option<u64> },
}

impl Source {
    /// Returns the logical unit if the host wrote it; `None` for copies and padding.
    pub(super) fn host_unit(&self) -> Option<LogicalUnit> {
        match *self {
            Source::Staged { logical, .. }
            | Source::WrittenAhead { logical, .. }
            | Source::Lost { logical } => Some(logical),
            Source::CopyOf { .. } | Source::Nothing => None,
        }
    }
}

/// Returns a checksum for a unit whose data is lost: one that does not match `data`, which stands in for it.
pub(super) fn mismatched_sum(data: &[u8]) -> u32 {
    !crc32fast::hash(data)
}

/// Contents of a program unit that are fixed when its program begins.
#[derive(Debug)]
pub(super) struct Sealed {
    pub(super) number: SequenceNumber,
    /// Logical unit plus one of each unit, 0 for padding.
    pub(super) spare: Box<[u32]>,
    pub(super) is_slc: bool,
}

/// A program unit that is not in the image yet.
#[derive(Debug)]
pub(super) struct Staged {
    /// Number that distinguishes uses of the same place at different times. The model may begin to fill a block
    /// again before its erase has ended.
    pub(super) generation: u64,
    /// Fixed contents; `None` while units are still added.
    pub(super) sealed: Option<Sealed>,
    /// True if its data may be written ahead; `is_written_ahead` is true if some of it was.
    pub(super) may_write_ahead: bool,
    pub(super) is_written_ahead: bool,
    /// True if a unit that was written ahead has changed since, because the host wrote a part of it.
    pub(super) is_changed: bool,
    /// Number of its pieces that are on their way to the image.
    pub(super) pieces_in_flight: Arc<AtomicU32>,
    pub(super) data: Box<[u8]>,
    pub(super) units: Box<[Source]>,
}

impl Staged {
    /// Returns an empty program unit.
    pub(super) fn new(layout: &Layout) -> Staged {
        Staged {
            generation: 0,
            sealed: None,
            may_write_ahead: false,
            is_written_ahead: false,
            is_changed: false,
            pieces_in_flight: Arc::default(),
            data: vec![0; layout.program_size() as usize].into(),
            units: vec![Source::Nothing; layout.units_per_program as usize].into(),
        }
    }
}

/// Returns the staged program unit for changes.
///
/// # Panics
/// Panics if a step that programs it is in flight. Such steps work on sealed program units, and drop them when
/// they are done.
pub(super) fn exclusive_mut(staged: &mut Arc<Staged>) -> &mut Staged {
    Arc::get_mut(staged).expect("nobody programs it")
}

/// A hasher for numbers of program units. The model chooses these, so nobody can choose them to collide.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ProgramHasher(u64);

impl std::hash::BuildHasher for ProgramHasher {
    type Hasher = ProgramHasher;
    fn build_hasher(&self) -> ProgramHasher {
        ProgramHasher(0)
    }
}

impl std::hash::Hasher for ProgramHasher {
    fn write(&mut self, _: &[u8]) {
        unreachable!("only numbers of 32 bits are hashed");
    }
    fn write_u32(&mut self, number: u32) {
        // Fibonacci hashing: 2^64 divided by the golden ratio.
        self.0 = u64::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(32);
    }
    fn finish(&self) -> u64 {
        self.0
    }
}
