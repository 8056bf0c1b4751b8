//! The flash itself, as seen by the translation layer: what is programmed and erased, and when.
//!
//! The model calls a [`Media`] for every program and erase with the span of time it takes, so
//! that a medium can keep payload and spare area, be cut from power between start and end, or
//! check the order of things. [`Null`] keeps nothing and costs nothing; experiments use it.

use crate::resources::Span;
use crate::units::{BlockIndex, DieIndex, LogicalUnit, PhysicalUnit};

/// The spare area of one program unit: which logical unit each of its units holds.
#[derive(Clone, Copy, Debug)]
pub struct SpareArea<'a> {
    raw: &'a [u32],
}

impl<'a> SpareArea<'a> {
    /// Zero means none; anything else is the logical unit plus one.
    pub(crate) fn from_raw(raw: &'a [u32]) -> Self {
        SpareArea { raw }
    }

    /// The logical units, in physical order; `None` for padding.
    pub fn logical_units(&self) -> impl Iterator<Item = Option<LogicalUnit>> + 'a {
        self.raw.iter().map(|&raw| raw.checked_sub(1).map(LogicalUnit))
    }

    /// Number of units in the program unit.
    pub fn len(&self) -> usize {
        self.raw.len()
    }

    /// Whether there is no unit at all; a program unit always has some.
    pub fn is_empty(&self) -> bool {
        self.raw.is_empty()
    }
}

/// What programs and erases are done to.
pub trait Media {
    /// The program unit starting at `first` is programmed during `span`. `sequence` counts the
    /// program operations of the drive, in the order they were decided.
    fn program(&mut self, first: PhysicalUnit, spare: SpareArea<'_>, sequence: u64, span: Span);

    /// The part of `block` that lies on `die` is erased during `span`.
    fn erase(&mut self, block: BlockIndex, die: DieIndex, span: Span);
}

/// Flash that keeps nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Null;

impl Media for Null {
    #[inline(always)]
    fn program(&mut self, _: PhysicalUnit, _: SpareArea<'_>, _: u64, _: Span) {}
    #[inline(always)]
    fn erase(&mut self, _: BlockIndex, _: DieIndex, _: Span) {}
}
