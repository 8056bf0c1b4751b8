//! Requests that cover a mapping unit only in part: read-modify-write.
//!
//! Flash is written in units, because the map has no smaller entries and the error correction is taken to cover
//! exactly one. So a write of part of a unit is a read-modify-write: the drive reads the unit, merges it with
//! what the host sent, and programs it as a whole in a new place. The host does not wait for that: it is
//! answered when its data is in the buffer. The program unit that the merged unit goes into is sent only when
//! the read is done.
//!
//! Data in the buffer is merged in RAM: a unit of the program unit being filled is changed in place, so that
//! small writes in a row become one unit; a unit that is being programmed is copied from RAM. The rest of an
//! unmapped unit is zeros.
//!
//! A program unit whose last unit the host has begun but not written to its end is held back, so that the next
//! small write completes the unit in RAM. The program unit is sent when that write has come, when the next unit
//! needs a place, and when the buffer is flushed.

use ssdlab_nand::{Nand, Page, Tag};

use super::host::{Command, Port, RequestTag};
use super::{Context, Ftl, Ssd, kind, number_of};
use crate::geometry::Geometry;
use crate::mapping::Mapping;
use crate::media::Media;
use crate::units::{Instant, LogicalUnit, PhysicalUnit, Sector, SectorCount};

/// A range of sectors, expressed in units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Parts {
    /// First unit that the range touches, and (`end`) the first unit behind the range.
    pub(super) first: u32,
    pub(super) end: u32,
    /// Number of sectors of the first unit before the range, and (`tail`) of the last unit behind it.
    pub(super) head: SectorCount,
    pub(super) tail: SectorCount,
}

impl Parts {
    /// Returns the parts of `count` sectors from `first`.
    ///
    /// # Panics
    /// Panics if the range is empty or does not lie within the drive.
    pub(super) fn of(first: Sector, count: SectorCount, shift: u32, logical_units: u32) -> Parts {
        let behind = (first + count).0;
        let (unit, end) = (first.0 >> shift, behind.div_ceil(1 << shift));
        let is_within = count.0 > 0 && end <= u64::from(logical_units);
        assert!(is_within, "a request lies within the drive");
        Parts {
            first: unit as u32,
            end: end as u32,
            head: SectorCount(first.0 - (unit << shift)),
            tail: SectorCount((end << shift) - behind),
        }
    }

    /// Returns the number of sectors of `unit` that are in the range, and true if they are its last ones.
    pub(super) fn of_unit(&self, unit: u32, shift: u32) -> (SectorCount, bool) {
        let head = if unit == self.first { self.head.0 } else { 0 };
        let tail = if unit + 1 == self.end { self.tail.0 } else { 0 };
        (SectorCount((1 << shift) - head - tail), tail == 0)
    }

    /// Returns the first unit from `unit` on that is in the range in part only, or the end of the range.
    pub(super) fn whole_until(&self, unit: u32) -> u32 {
        if unit == self.first && self.head.0 > 0 {
            return unit;
        }
        if self.tail.0 > 0 { self.end - 1 } else { self.end }
    }
}

/// Returns the command that reads `count` sectors from `first` on a drive of this shape.
pub(super) fn read(geometry: &Geometry, first: Sector, count: SectorCount) -> Command {
    match whole_units(geometry, first, count) {
        Some((first, units)) => Command::Read { first, units },
        None => Command::ReadSectors { first, count },
    }
}

/// Returns the command that writes `count` sectors from `first`, with FUA if `force`.
pub(super) fn write(
    geometry: &Geometry,
    first: Sector,
    count: SectorCount,
    force: bool,
) -> Command {
    match whole_units(geometry, first, count) {
        Some((first, units)) => Command::Write { first, units, force },
        None => Command::WriteSectors { first, count, force },
    }
}

/// Returns the command that trims `count` sectors from `first`, without units that the range covers in part:
/// ATA and NVMe let a drive ignore any part of a trim.
pub(super) fn trim(geometry: &Geometry, first: Sector, count: SectorCount) -> Command {
    let shift = geometry.sectors_per_unit_shift();
    let parts = Parts::of(first, count, shift, geometry.logical_units());
    let first = parts.first + u32::from(parts.head.0 > 0);
    let end = parts.end - u32::from(parts.tail.0 > 0);
    let units = end.saturating_sub(first);
    Command::Trim { first: LogicalUnit(first.min(end)), units }
}

/// Returns the number of sectors, of `count` from `first`, that go into one trim command if it takes `most`:
/// all of them, or whole units if other commands follow.
pub(super) fn first_of_trim(
    geometry: &Geometry,
    most: SectorCount,
    first: Sector,
    count: SectorCount,
) -> SectorCount {
    if count <= most {
        return count;
    }
    let shift = geometry.sectors_per_unit_shift();
    // A command holds a unit at least, so that this lies behind `first`.
    SectorCount(((first.0 + most.0) >> shift << shift) - first.0)
}

/// Returns the first unit and the number of units, if the sectors are whole units.
fn whole_units(
    geometry: &Geometry,
    first: Sector,
    count: SectorCount,
) -> Option<(LogicalUnit, u32)> {
    let shift = geometry.sectors_per_unit_shift();
    let is_whole = (first.0 | count.0) & geometry.sectors_within_unit() == 0;
    is_whole.then(|| (LogicalUnit((first.0 >> shift) as u32), (count.0 >> shift) as u32))
}

impl<M: Mapping, D: Media> Ssd<M, D> {
    /// Reads `count` sectors from `first`; returns when the last of them has arrived.
    pub fn read_sectors(&mut self, at: Instant, first: Sector, count: SectorCount) -> Instant {
        let command = read(self.geometry(), first, count);
        self.request(at, command)
    }

    /// Writes `count` sectors from `first`; returns when the host is told it is done.
    pub fn write_sectors(&mut self, at: Instant, first: Sector, count: SectorCount) -> Instant {
        let command = write(self.geometry(), first, count, false);
        self.request(at, command)
    }

    /// Writes `count` sectors from `first` with FUA; returns when they are durable.
    pub fn write_fua_sectors(&mut self, at: Instant, first: Sector, count: SectorCount) -> Instant {
        let command = write(self.geometry(), first, count, true);
        self.request(at, command)
    }

    /// Trims `count` sectors from `first`, except units that the range covers in part: ATA and NVMe let a drive
    /// ignore any part of a trim. Returns when the host is answered.
    pub fn trim_sectors(&mut self, at: Instant, first: Sector, count: SectorCount) -> Instant {
        let command = trim(self.geometry(), first, count);
        self.request(at, command)
    }
}

/// Requests by sectors.
impl Port<'_> {
    /// Sends a read of `count` sectors from `first` at `at`.
    ///
    /// # Panics
    /// Panics if the range is empty or does not lie within the drive.
    #[inline(always)]
    pub fn read(&mut self, at: Instant, tag: RequestTag, first: Sector, count: SectorCount) {
        let command = read(self.geometry(), first, count);
        self.submit(at, tag, command);
    }

    /// Sends a write of `count` sectors from `first` at `at`. With `force` (FUA) its data is durable when the
    /// write is answered.
    ///
    /// # Panics
    /// Panics if the range is empty or does not lie within the drive.
    #[inline(always)]
    pub fn write(
        &mut self,
        at: Instant,
        tag: RequestTag,
        first: Sector,
        count: SectorCount,
        force: bool,
    ) {
        let command = write(self.geometry(), first, count, force);
        self.submit(at, tag, command);
    }

    /// Sends a trim of `count` sectors from `first` at `at`. Units that the range covers in part are not
    /// trimmed.
    ///
    /// # Panics
    /// Panics if the range is empty or does not lie within the drive.
    pub fn trim(&mut self, at: Instant, tag: RequestTag, first: Sector, count: SectorCount) {
        let command = trim(self.geometry(), first, count);
        self.submit(at, tag, command);
    }

    /// Returns the number of sectors, of `count` from `first`, that one trim command may hold: all that the
    /// drive takes at a time, and whole units if other commands follow, since a unit that two commands share
    /// would not be trimmed.
    pub fn trim_command(&self, first: Sector, count: SectorCount) -> SectorCount {
        first_of_trim(self.geometry(), self.trim_most(), first, count)
    }
}

impl<M: Mapping, D: Media> Ftl<M, D> {
    /// Admits `count` sectors of `unit` to the buffer; `last` says that they are its last ones. Returns the
    /// moment at which they are in the buffer; `None` if the buffer has no free space.
    pub(super) fn admit_part(
        &mut self,
        context: &mut Context<'_>,
        unit: LogicalUnit,
        (count, last): (SectorCount, bool),
    ) -> Option<Instant> {
        let transfer = self.timing.link.duration(count.length());
        let lies = self.map.get(unit);
        if let Some(physical) = lies.filter(|&it| self.placement.holds_unsent(it, &self.geometry)) {
            let received = context.nand.receive(transfer);
            self.counters.host_part_sectors += count.0;
            self.counters.buffer_merge_units += 1;
            self.delays.writes.parts.link += transfer;
            self.placement.note_received(received);
            self.media.receive_part(physical, unit, Some(physical));
            self.map.set(unit, physical);
            if last && self.placement.free_units() == 0 && self.placement.is_latest(physical) {
                self.seal_host_program(context);
            }
            return Some(received);
        }
        if !self.placement.has_buffer_space(1) {
            return None;
        }
        if self.placement.free_units() == 0 {
            self.begin_host_program(context);
        }
        self.counters.host_part_sectors += count.0;
        match lies {
            None => {}
            Some(physical) if self.placement.is_buffered(physical, &self.geometry) => {
                self.counters.buffer_merge_units += 1;
            }
            Some(physical) => self.read_for_merge(context.nand, physical),
        }
        self.counters.host_write_units += 1;
        self.counters.host_part_units += 1;
        let received = context.nand.receive(transfer);
        self.delays.writes.parts.link += transfer;
        self.placement.admit(1, received);
        let physical = self.give_place(unit);
        self.media.receive_part(physical, unit, lies);
        self.map_unit(unit, physical);
        if last && self.placement.free_units() == 0 {
            self.seal_host_program(context);
        }
        Some(received)
    }

    /// Reads a unit of which the host replaces a part, for the program unit being filled.
    fn read_for_merge(&mut self, nand: &mut Nand, unit: PhysicalUnit) {
        self.counters.flash_page_reads_merge += 1;
        self.placement.await_more();
        let tag = Tag(kind::HOST_PROGRAM_READ | self.placement.latest() as u32 & kind::NUMBER);
        let sense = self.page_read_of(unit);
        nand.load_page(tag, Page { unit, units: 1, sense }, false);
    }

    /// Notes that data read for a program unit of the host is in RAM (read-modify-write, copies, merges).
    pub(super) fn host_program_read(&mut self, context: &mut Context<'_>, tag: Tag) {
        let number = number_of(tag, self.placement.numbers_in_flight().start);
        self.arrived(context, number);
    }
}
