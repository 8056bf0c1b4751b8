//! The host's side: what it asks for, and how it is answered.

use ssdlab_nand::{Nand, Tag};

use super::requests::Requests;
use crate::geometry::Geometry;
use crate::units::{Instant, LogicalUnit, Sector, SectorCount};

/// The number by which the host knows a request; free for another when that one is answered. Small
/// numbers, since the drive keeps a table of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RequestTag(pub u32);

/// What the host asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// `units` units from `first`.
    Read {
        /// The first unit.
        first: LogicalUnit,
        /// How many.
        units: u32,
    },
    /// That `units` units from `first` be kept.
    Write {
        /// The first unit.
        first: LogicalUnit,
        /// How many.
        units: u32,
        /// True if they are durable when answered (FUA).
        force: bool,
    },
    /// Sectors that are no whole units.
    ReadSectors {
        /// The first sector.
        first: Sector,
        /// How many.
        count: SectorCount,
    },
    /// That sectors be kept that are no whole units.
    WriteSectors {
        /// The first sector.
        first: Sector,
        /// How many.
        count: SectorCount,
        /// True if they are durable when answered (FUA).
        force: bool,
    },
    /// That `units` units from `first` be forgotten.
    Trim {
        /// The first unit.
        first: LogicalUnit,
        /// How many.
        units: u32,
    },
    /// That all that was answered be durable.
    Flush,
}

impl Command {
    /// Returns whether it writes.
    pub fn is_write(&self) -> bool {
        matches!(self, Command::Write { .. } | Command::WriteSectors { .. })
    }
}

/// The answer to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The request.
    pub tag: RequestTag,
    /// When it was sent.
    pub sent: Instant,
    /// When it is answered: now, or as soon as its data has crossed the link.
    pub at: Instant,
}

/// Who sends requests and is answered.
pub trait Host {
    /// Declares that while time passes commands are sent by [`Host::answered`] alone, so none before the answer
    /// that it follows. A host that several drives share, and one that sends when something else happens,
    /// is not alone: then things happen in the order of their time to the nanosecond, at some cost.
    const IS_ALONE: bool = true;

    /// A request is answered; others may be sent through `port`, not before `answer.at`. May return a unit that
    /// will be requested some requests from now: asking the memory for its map entry about 32 requests
    /// ahead hides the latency of that, and changes nothing else.
    fn answered(&mut self, port: &mut Port<'_>, answer: Answer) -> Option<LogicalUnit>;
}

/// Where requests are sent.
pub struct Port<'a> {
    nand: &'a mut Nand,
    requests: &'a mut Requests,
}

impl<'a> Port<'a> {
    pub(super) fn new(nand: &'a mut Nand, requests: &'a mut Requests) -> Port<'a> {
        Port { nand, requests }
    }

    /// Returns the drive's shape.
    pub(super) fn geometry(&self) -> &Geometry {
        self.nand.geometry()
    }

    /// Returns the most sectors that one trim command may forget.
    pub(super) fn trim_most(&self) -> SectorCount {
        self.requests.trim_parameters().command_most()
    }

    /// Sends a command at `at`.
    ///
    /// # Panics
    /// When its range is empty or does not lie within the drive.
    #[inline(always)]
    pub fn submit(&mut self, at: Instant, tag: RequestTag, command: Command) {
        let longer = self.requests.begin(at, tag, command);
        self.nand.submit(at, Tag(tag.0), longer);
    }
}
