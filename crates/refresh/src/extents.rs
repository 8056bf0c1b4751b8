//! Extents of a file, as the file system reports them (FIEMAP).

use std::fs::File;
use std::io;

use crate::system::{BATCH, Fiemap, FiemapExtent, FiemapHead, fiemap};
use crate::window::Span;

/// Flags of `struct fiemap_extent` (linux/fiemap.h).
mod flag {
    pub(super) const LAST: u32 = 0x1;
    pub(super) const UNKNOWN: u32 = 0x2;
    pub(super) const DELALLOC: u32 = 0x4;
    pub(super) const ENCODED: u32 = 0x8;
    pub(super) const ENCRYPTED: u32 = 0x80;
    pub(super) const NOT_ALIGNED: u32 = 0x100;
    pub(super) const INLINE: u32 = 0x200;
    pub(super) const TAIL: u32 = 0x400;
    pub(super) const UNWRITTEN: u32 = 0x800;
    pub(super) const SHARED: u32 = 0x2000;
}

/// Content of an extent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// Data as it is in the file.
    Data,
    /// Allocated blocks that nothing was written to.
    Unwritten,
    /// Data within the metadata of the file system, or packed together with that of other files.
    Inline,
    /// Compressed or encrypted data.
    Encoded,
    /// Data whose place the file system does not report.
    Unknown,
}

/// A run of a file's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Range of bytes of the file.
    pub span: Span,
    /// Byte at which the extent begins: on ext4 and xfs on the block device, on btrfs in the address
    /// space of btrfs.
    pub physical: u64,
    /// Content of these bytes.
    pub content: Content,
    /// True if other files or snapshots share the blocks.
    pub is_shared: bool,
}

impl Extent {
    fn of(found: &FiemapExtent) -> Extent {
        let has = |flags: u32| found.flags & flags != 0;
        let content = if has(flag::INLINE | flag::TAIL | flag::NOT_ALIGNED) {
            Content::Inline
        } else if has(flag::ENCODED | flag::ENCRYPTED) {
            Content::Encoded
        } else if has(flag::UNKNOWN | flag::DELALLOC) {
            Content::Unknown
        } else if has(flag::UNWRITTEN) {
            Content::Unwritten
        } else {
            Content::Data
        };
        Extent {
            span: Span::new(found.logical, found.length),
            physical: found.physical,
            content,
            is_shared: has(flag::SHARED),
        }
    }
}

/// Choice whether a file is written back before its extents are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteBack {
    /// Write back first, so that every block has its place.
    First,
    /// Do not write back: the file system may be frozen.
    Skip,
}

/// Returns the extents of a part of a file, in order.
///
/// # Errors
/// Returns the error of the file system, also if it does not support FIEMAP.
pub fn of(file: &File, part: Span, write_back: WriteBack) -> io::Result<Vec<Extent>> {
    let mut extents = Vec::new();
    let mut start = part.offset;
    while start < part.end() {
        let head = FiemapHead {
            start,
            length: part.end() - start,
            flags: u32::from(write_back == WriteBack::First),
            count: BATCH as u32,
            ..FiemapHead::default()
        };
        let mut map = Fiemap { head, extents: [FiemapExtent::default(); BATCH] };
        fiemap(file, &mut map)?;
        let found = &map.extents[..(map.head.mapped as usize).min(BATCH)];
        for next in found.iter().map(Extent::of) {
            push(&mut extents, next);
        }
        match found.last() {
            Some(last) if last.flags & flag::LAST == 0 => start = last.logical + last.length,
            _ => break,
        }
    }
    Ok(extents)
}

/// Appends an extent. btrfs may report parts twice while somebody writes; the first report counts.
fn push(extents: &mut Vec<Extent>, mut next: Extent) {
    let known = extents.last().map_or(0, |last| last.span.end());
    if next.span.end() <= known {
        return;
    }
    if next.span.offset < known {
        let twice = known - next.span.offset;
        next.span = Span::new(known, next.span.length - twice);
        next.physical += twice;
    }
    extents.push(next);
}

/// Returns runs of data that are contiguous in the file, wherever they lie on the device. Runs are cut
/// off at the file's `length`.
pub fn data_runs(extents: &[Extent], length: u64) -> Vec<Span> {
    let mut runs: Vec<Span> = Vec::new();
    for extent in extents.iter().filter(|it| it.content == Content::Data) {
        let Some(span) = extent.span.overlap(Span::new(0, length)) else { continue };
        match runs.last_mut() {
            Some(last) if last.end() == span.offset => last.length += span.length,
            _ => runs.push(span),
        }
    }
    runs
}

/// Returns the number of pieces in which a part of a file lies: extents that do not continue the one
/// before on the device.
pub fn count_fragments(extents: &[Extent], part: Span) -> u32 {
    let mut fragments = 0;
    let mut next = None;
    for extent in extents {
        let Some(within) = extent.span.overlap(part) else { continue };
        let physical = extent.physical + (within.offset - extent.span.offset);
        if next != Some(physical) {
            fragments += 1;
        }
        next = Some(physical + within.length);
    }
    fragments
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extent(offset: u64, length: u64, physical: u64, content: Content) -> Extent {
        Extent { span: Span::new(offset, length), physical, content, is_shared: false }
    }

    #[test]
    fn runs_of_data_leave_holes_and_unwritten_room_out() {
        let extents = [
            extent(0, 100, 1000, Content::Data),
            extent(100, 100, 5000, Content::Data),
            extent(200, 50, 5100, Content::Unwritten),
            extent(300, 100, 5150, Content::Data),
        ];
        assert_eq!(data_runs(&extents, 350), [Span::new(0, 200), Span::new(300, 50)]);
    }

    #[test]
    fn what_is_told_twice_counts_once() {
        let mut extents = Vec::new();
        for (offset, length) in [(0, 100), (50, 100), (60, 20), (150, 10)] {
            push(&mut extents, extent(offset, length, 1000 + offset, Content::Data));
        }
        let spans: Vec<Span> = extents.iter().map(|it| it.span).collect();
        assert_eq!(spans, [Span::new(0, 100), Span::new(100, 50), Span::new(150, 10)]);
        assert_eq!(extents[1].physical, 1100);
    }

    #[test]
    fn pieces_are_counted_by_where_they_lie() {
        let extents = [
            extent(0, 100, 1000, Content::Data),
            extent(100, 100, 1100, Content::Data),
            extent(200, 100, 9000, Content::Data),
        ];
        assert_eq!(count_fragments(&extents, Span::new(0, 200)), 1);
        assert_eq!(count_fragments(&extents, Span::new(50, 200)), 2);
        assert_eq!(count_fragments(&extents, Span::new(210, 20)), 1);
    }
}
