//! What the host has written, or collection copies, and the image does not hold yet.

use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use ssdlab_model::media::SequenceNumber;
use ssdlab_units::{LogicalUnit, PhysicalUnit};

use crate::image::layout::Layout;

/// Where the data of a staged unit is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// There is none: padding.
    Nothing,
    /// In RAM: what the host wrote, with its checksum.
    Here { logical: LogicalUnit, sum: u32 },
    /// In its place in the image already, or on its way there.
    Ahead { logical: LogicalUnit, sum: u32 },
    /// Nowhere: a dump of the buffer held it, and was damaged there. Reading it fails.
    Lost { logical: LogicalUnit },
    /// Where it is copied from, and the life of the program unit there if that was staged then.
    CopyOf { from: PhysicalUnit, life: Option<u64> },
}

impl Source {
    /// The unit that the host wrote, if it is one.
    pub(super) fn host_unit(&self) -> Option<LogicalUnit> {
        match *self {
            Source::Here { logical, .. }
            | Source::Ahead { logical, .. }
            | Source::Lost { logical } => Some(logical),
            Source::CopyOf { .. } | Source::Nothing => None,
        }
    }
}

/// The checksum that is kept of a unit whose data is lost: not that of `data`, which stands in for it.
pub(super) fn lost_sum(data: &[u8]) -> u32 {
    !crc32fast::hash(data)
}

/// What is settled of a program unit when its program is begun.
#[derive(Debug)]
pub(super) struct Settled {
    pub(super) number: SequenceNumber,
    /// Logical unit plus one of each unit, 0 for padding.
    pub(super) spare: Box<[u32]>,
    pub(super) is_slc: bool,
}

/// A program unit that is not in the image yet.
#[derive(Debug)]
pub(super) struct Staged {
    /// Tells apart what was staged for the same place at different times. The model may begin to
    /// fill a block again while the end of its erase is still to come.
    pub(super) life: u64,
    /// What it holds and its number, once that is settled and nothing is added to it any more.
    pub(super) settled: Option<Settled>,
    /// True if its data may be written ahead, and whether some of it was.
    pub(super) may_go_ahead: bool,
    pub(super) is_ahead: bool,
    /// True if a unit that was written ahead has changed since: the host wrote a part of it.
    pub(super) is_changed: bool,
    /// Pieces of it that are on their way to the image.
    pub(super) on_their_way: Arc<AtomicU32>,
    pub(super) data: Box<[u8]>,
    pub(super) units: Box<[Source]>,
}

impl Staged {
    /// An empty one.
    pub(super) fn new(layout: &Layout) -> Staged {
        Staged {
            life: 0,
            settled: None,
            may_go_ahead: false,
            is_ahead: false,
            is_changed: false,
            on_their_way: Arc::default(),
            data: vec![0; layout.program_size() as usize].into(),
            units: vec![Source::Nothing; layout.units_per_program as usize].into(),
        }
    }
}

/// Returns what is staged, to be changed. Nobody else has it: what is being done to the image needs only what is
/// programmed, and gives it back first.
pub(super) fn alone(staged: &mut Arc<Staged>) -> &mut Staged {
    Arc::get_mut(staged).expect("nobody programs it")
}

/// Spreads the numbers of program units over a hash table. They are the model's own, so nobody
/// chooses them to collide.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Spread(u64);

impl std::hash::BuildHasher for Spread {
    type Hasher = Spread;
    fn build_hasher(&self) -> Spread {
        Spread(0)
    }
}

impl std::hash::Hasher for Spread {
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
