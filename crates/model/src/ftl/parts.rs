//! Requests that cover a mapping unit only in part.
//!
//! Flash is written by units, because the map knows nothing smaller and the error correction is
//! taken to cover exactly one. So what the host does not write of a unit comes from where the unit
//! lies: it is read, merged with what the host sent, and programmed as a whole in a new place. The
//! host does not wait for that: it is answered when its data is in the buffer. The program unit that the
//! merged unit goes into is sent only when the read is done.
//!
//! What is in the buffer is merged there: a unit of the program unit being filled is changed in
//! place, so that small writes in a row become one unit; one that is being programmed is copied
//! from RAM. What is not mapped is zeros.
//!
//! A program unit whose last unit the host has begun but not written to its end is held back, so
//! that the next small write completes the unit in RAM. It is sent when that has come, when
//! the next unit needs a place, and when the buffer is flushed.

use ssdlab_nand::{Nand, Page, Tag};

use super::host::{Command, Host, Port, RequestTag};
use super::{Context, Ftl, Ssd, kind, number_of};
use crate::geometry::Geometry;
use crate::mapping::Mapping;
use crate::media::Media;
use crate::units::{Instant, LogicalUnit, PhysicalUnit, Sector, SectorCount};

/// A range of sectors by units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Parts {
    /// The first unit that the range touches, and the first behind it that it does not.
    pub(super) first: u32,
    pub(super) end: u32,
    /// Sectors of the first and the last unit that are not in the range.
    pub(super) head: SectorCount,
    pub(super) tail: SectorCount,
}

impl Parts {
    /// Returns the parts of `count` sectors from `first`.
    ///
    /// # Panics
    /// When the range is empty or does not lie within the drive.
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

    /// Sectors of `unit` that are in the range, and whether they are its last ones.
    pub(super) fn of_unit(&self, unit: u32, shift: u32) -> (SectorCount, bool) {
        let head = if unit == self.first { self.head.0 } else { 0 };
        let tail = if unit + 1 == self.end { self.tail.0 } else { 0 };
        (SectorCount((1 << shift) - head - tail), tail == 0)
    }

    /// The first unit from `unit` on that is in the range in part only, or the end.
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

/// Returns the command that writes them.
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

/// Returns the command that forgets `count` sectors from `first`, but for units that the range covers in
/// part: ATA and NVMe let a drive ignore any part of a trim.
pub(super) fn trim(geometry: &Geometry, first: Sector, count: SectorCount) -> Command {
    let shift = geometry.sectors_per_unit_shift();
    let parts = Parts::of(first, count, shift, geometry.logical_units());
    let first = parts.first + u32::from(parts.head.0 > 0);
    let end = parts.end - u32::from(parts.tail.0 > 0);
    let units = end.saturating_sub(first);
    Command::Trim { first: LogicalUnit(first.min(end)), units }
}

/// Returns how many of `count` sectors from `first` one trim command may forget where it takes `most`: all of
/// them, or whole units where others follow.
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

/// The units that sectors are, if they are whole ones.
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

    /// Forgets what `count` sectors from `first` hold, but for units that the range covers in part: ATA and
    /// NVMe let a drive ignore any part of a trim. Returns when the host is told so.
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
    /// When the range is empty or does not lie within the drive.
    #[inline(always)]
    pub fn read(&mut self, at: Instant, tag: RequestTag, first: Sector, count: SectorCount) {
        let command = read(self.geometry(), first, count);
        self.submit(at, tag, command);
    }

    /// Sends a write of `count` sectors from `first` at `at`, which is durable when it is answered if `force`
    /// (FUA).
    ///
    /// # Panics
    /// When the range is empty or does not lie within the drive.
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

    /// Sends a trim of `count` sectors from `first` at `at`. Units that the range covers in part stay.
    ///
    /// # Panics
    /// When the range is empty or does not lie within the drive.
    pub fn trim(&mut self, at: Instant, tag: RequestTag, first: Sector, count: SectorCount) {
        let command = trim(self.geometry(), first, count);
        self.submit(at, tag, command);
    }

    /// Returns how many of `count` sectors from `first` one trim command may forget: all that the drive takes
    /// at a time, and whole units where others follow, since one that two commands share would stay.
    pub fn trim_command(&self, first: Sector, count: SectorCount) -> SectorCount {
        first_of_trim(self.geometry(), self.trim_most(), first, count)
    }
}

impl<M: Mapping, D: Media> Ftl<M, D> {
    /// Writes `count` sectors of `unit`, up to its last one if they are `last`; returns when they are in the
    /// buffer, or nothing where that has no room.
    pub(super) fn let_part_in<H: Host>(
        &mut self,
        context: &mut Context<'_, H>,
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
            if last && self.placement.room() == 0 && self.placement.is_latest(physical) {
                self.seal_host_program(context);
            }
            return Some(received);
        }
        if !self.placement.has_room(1) {
            return None;
        }
        if self.placement.room() == 0 {
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
        self.placement.let_in(1, received);
        let physical = self.give_place(unit);
        self.media.receive_part(physical, unit, lies);
        self.lies_at(unit, physical);
        if last && self.placement.room() == 0 {
            self.seal_host_program(context);
        }
        Some(received)
    }

    /// Reads a unit of which the host replaces a part, into the program unit being filled.
    fn read_for_merge(&mut self, nand: &mut Nand, unit: PhysicalUnit) {
        self.counters.flash_page_reads_merge += 1;
        self.placement.await_more();
        let tag = Tag(kind::MERGE | self.placement.latest() as u32 & kind::NUMBER);
        let sense = self.page_read_of(unit);
        nand.load_page(tag, Page { unit, units: 1, sense }, false);
    }

    /// The rest of a unit is there that the host wrote in part.
    pub(super) fn merged<H: Host>(&mut self, context: &mut Context<'_, H>, tag: Tag) {
        let number = number_of(tag, self.placement.numbers().start);
        self.arrived(context, number);
    }
}
