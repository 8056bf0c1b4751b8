//! The part of its members that an array uses.

use ssdlab_units::{ByteLength, SectorCount};

use super::members::Members;
use super::{Shape, StackError, usable_part_of_members};

/// Members of an array, of which an equal part is used.
#[derive(Clone, Copy, Debug)]
pub(super) struct ArrayGeometry {
    pub(super) members: usize,
    /// Number of sectors of each member that are used.
    pub(super) sectors_per_member: SectorCount,
    /// Number of sectors of a chunk; zero if data is not striped.
    pub(super) chunk: SectorCount,
    /// True if trims are passed on.
    pub(super) trim: bool,
}

impl ArrayGeometry {
    /// Returns the used part of `members`: whole chunks of `chunk`, or all of the smallest drive.
    ///
    /// # Errors
    /// Returns an error if the members do not fit together, or hold no chunk.
    pub(super) fn of(
        members: &Members,
        chunk: Option<ByteLength>,
        trim: bool,
    ) -> Result<Self, StackError> {
        let shapes: Vec<Shape> = members
            .each()
            .map(|it| Shape { capacity: it.capacity(), unit: it.block_size() })
            .collect();
        let each = usable_part_of_members(&shapes, chunk)?;
        Ok(ArrayGeometry {
            members: members.count(),
            sectors_per_member: SectorCount::of(each.capacity),
            chunk: SectorCount::of(chunk.unwrap_or(ByteLength::ZERO)),
            trim,
        })
    }
}
