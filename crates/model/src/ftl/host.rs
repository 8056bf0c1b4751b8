//! Host interface: commands, answers, and the port through which commands are sent.

use ssdlab_nand::{Nand, Tag};

use super::requests::Requests;
use crate::geometry::Geometry;
use crate::units::{Instant, LogicalUnit, Sector, SectorCount};

/// Number by which the host knows a request; free for another request when that one is answered. Tags are small
/// numbers, since the drive keeps a table of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RequestTag(pub u32);

/// A command of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Reads `units` units from `first`.
    Read {
        /// The first unit.
        first: LogicalUnit,
        /// Number of units.
        units: u32,
    },
    /// Writes `units` units from `first`.
    Write {
        /// The first unit.
        first: LogicalUnit,
        /// Number of units.
        units: u32,
        /// True if the data is durable when the write is answered (FUA).
        force: bool,
    },
    /// Reads sectors that are not whole units.
    ReadSectors {
        /// The first sector.
        first: Sector,
        /// Number of sectors.
        count: SectorCount,
    },
    /// Writes sectors that are not whole units.
    WriteSectors {
        /// The first sector.
        first: Sector,
        /// Number of sectors.
        count: SectorCount,
        /// True if the data is durable when the write is answered (FUA).
        force: bool,
    },
    /// Trims `units` units from `first`: the drive forgets their data.
    Trim {
        /// The first unit.
        first: LogicalUnit,
        /// Number of units.
        units: u32,
    },
    /// Makes all that was answered durable.
    Flush,
}

impl Command {
    /// Returns true if the command is a write.
    pub fn is_write(&self) -> bool {
        matches!(self, Command::Write { .. } | Command::WriteSectors { .. })
    }
}

/// The answer to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Tag of the request.
    pub tag: RequestTag,
    /// Moment at which the request was sent.
    pub sent: Instant,
    /// Moment of the answer: now, or as soon as the data has crossed the link.
    pub at: Instant,
}

/// A host, which sends commands and gets answers.
pub trait Host {
    /// Returns true if commands are sent by [`Host::answered`] alone while time passes, so none before the answer that
    /// it follows. False for a host that several drives share, and for one that sends a command when something
    /// else happens: then events happen in the order of their time to the nanosecond, at some cost.
    #[inline(always)]
    fn is_alone(&self) -> bool {
        true
    }

    /// Called when a request is answered. Other commands may be sent through `port`, not before `answer.at`.
    /// May return a unit that will be requested some requests from now: prefetching its map entry about 32
    /// requests ahead hides the latency of memory, and changes nothing else.
    fn answered(&mut self, port: &mut Port<'_>, answer: Answer) -> Option<LogicalUnit>;
}

/// Port of a drive through which commands are sent.
pub struct Port<'a> {
    nand: &'a mut Nand,
    requests: &'a mut Requests,
}

impl<'a> Port<'a> {
    pub(super) fn new(nand: &'a mut Nand, requests: &'a mut Requests) -> Port<'a> {
        Port { nand, requests }
    }

    /// Returns the drive's geometry.
    pub(super) fn geometry(&self) -> &Geometry {
        self.nand.geometry()
    }

    /// Returns the maximum number of sectors of one trim command.
    pub(super) fn trim_most(&self) -> SectorCount {
        self.requests.trim_parameters().command_most()
    }

    /// Sends a command at `at`.
    ///
    /// # Panics
    /// Panics if the range does not lie within the drive, or is empty and not that of a trim in units.
    #[inline(always)]
    pub fn submit(&mut self, at: Instant, tag: RequestTag, command: Command) {
        let longer = self.requests.begin(at, tag, command);
        self.nand.submit(at, Tag(tag.0), longer);
    }
}
