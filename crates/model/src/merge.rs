//! Requests that cover a mapping unit only in part.
//!
//! Flash is written by units, because the map knows nothing smaller and the error correction is
//! taken to cover exactly one. So what the host does not write of a unit comes from where the unit
//! lies: it is read, merged with what the host sent, and programmed as a whole in a new place. The
//! host does not wait for that: it is answered when its data is in the buffer. The read occupies
//! die and channel, and the program unit that the merged unit goes into is sent off only when the
//! read is done. The read begins when the command is taken up.
//!
//! What is in the buffer is merged there: a unit of the program unit being filled is changed in
//! place, so that small writes in a row become one unit; one that is being programmed is copied
//! from RAM. What is not mapped is zeros.
//!
//! A program unit whose last unit the host has begun but not written to its end is held back, so
//! that the next small write completes the unit in RAM. It is sent off when that has come, when
//! the next unit needs a place, and when the buffer is flushed.

use crate::mapping::Mapping;
use crate::media::Media;
use crate::resources::{Class, Resource};
use crate::ssd::Ssd;
use crate::units::{Instant, LogicalUnit, Nanoseconds, PhysicalUnit, Sector, SectorCount};

/// What is under way to complete units written in part.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Merges {
    /// When all is read that goes into the program unit being filled.
    pub(crate) done_at: Instant,
    /// Sectors of reads of parts of units that do not add up to a unit yet.
    read: u64,
}

/// Adds `count` sectors to `rest`; returns the whole units that it then held, and takes them out.
fn whole_units_of(rest: &mut u64, count: SectorCount, shift: u32) -> u64 {
    *rest += count.0;
    let units = *rest >> shift;
    *rest -= units << shift;
    units
}

/// A range of sectors by units.
#[derive(Clone, Copy, Debug)]
struct Parts {
    /// The first unit that the range touches, and the first behind it that it does not.
    first: u32,
    end: u32,
    /// Sectors of the first and the last unit that are not in the range.
    head: SectorCount,
    tail: SectorCount,
}

impl<M: Mapping, D: Media> Ssd<M, D> {
    fn parts(&self, first: Sector, count: SectorCount) -> Parts {
        let shift = self.geometry.sectors_per_unit_shift();
        let behind = (first + count).0;
        let (unit, end) = (first.0 >> shift, behind.div_ceil(1 << shift));
        assert!(
            count.0 > 0 && end <= u64::from(self.geometry.logical_units()),
            "a request lies within the drive"
        );
        Parts {
            first: unit as u32,
            end: end as u32,
            head: SectorCount(first.0 - (unit << shift)),
            tail: SectorCount((end << shift) - behind),
        }
    }

    fn over_link(&self, count: SectorCount) -> Nanoseconds {
        self.timing.link.duration(count.length())
    }

    /// [`Ssd::write_sectors`] of a range that does not begin and end with units.
    #[inline(never)]
    pub(crate) fn write_in_part(
        &mut self,
        at: Instant,
        first: Sector,
        count: SectorCount,
    ) -> Instant {
        if self.is_read_only() {
            let unit = LogicalUnit(self.parts(first, count).first);
            return self.refuse_write(at, unit, 1);
        }
        let program = self.buffer.next_number();
        let mut end = self.write_parts_to_buffer(at, first, count);
        if self.durability.write_through {
            end = self.make_durable(program, end);
        }
        self.note_write(at, end)
    }

    /// The same to the buffer; returns when all data is there.
    fn write_parts_to_buffer(&mut self, at: Instant, first: Sector, count: SectorCount) -> Instant {
        let Parts { first, end, head, tail } = self.parts(first, count);
        let shift = self.geometry.sectors_per_unit_shift();
        self.forget_read_ahead(LogicalUnit(first), end - first);
        let start = self.take_up(at);
        self.advance_debt_at_times(start);
        if self.streams.is_some() {
            self.choose_stream(LogicalUnit(first));
        }
        let start = self.look_up_for_write(start, LogicalUnit(first), end - first, start);
        let start = self.find_extents_for_write(start, LogicalUnit(first), end - first);
        if end - first == 1 {
            return self.write_part_of(LogicalUnit(first), count, tail.0 == 0, start, start);
        }
        let unit = SectorCount(1 << shift);
        let (mut ready, mut whole) = (start, first..end);
        if head.0 > 0 {
            let sent = SectorCount(unit.0 - head.0);
            ready = self.write_part_of(LogicalUnit(first), sent, true, start, ready);
            whole.start += 1;
        }
        whole.end -= u32::from(tail.0 > 0);
        self.counters.host_write_units += u64::from(whole.end - whole.start);
        ready = self.write_whole(ready, whole.start, whole.end);
        if tail.0 > 0 {
            let sent = SectorCount(unit.0 - tail.0);
            ready = self.write_part_of(LogicalUnit(end - 1), sent, false, start, ready);
        }
        ready
    }

    /// Writes `count` sectors of `unit`, up to its last one if it `ends` the unit. What has to be
    /// read for that is read from `start`, the host's data follows at `ready`; returns when that is
    /// there.
    fn write_part_of(
        &mut self,
        unit: LogicalUnit,
        count: SectorCount,
        ends: bool,
        start: Instant,
        ready: Instant,
    ) -> Instant {
        self.counters.host_part_sectors += count.0;
        let transfer = self.over_link(count);
        let lies = self.map.get(unit);
        if let Some(physical) = lies
            && self.host.holds(physical)
        {
            let received = self.change_in_buffer(unit, physical, ready, transfer);
            if ends && self.host.room() == 0 && self.host.is_latest(physical) {
                self.program_host(received, 0);
            }
            return received;
        }
        let merged_at = match lies {
            None => start,
            Some(physical) if self.is_buffered(physical, start) => {
                self.counters.buffer_merge_units += 1;
                start
            }
            Some(physical) => {
                self.counters.flash_page_reads_merge += 1;
                self.aside(|ssd| ssd.read_unit_of_flash(physical, start))
            }
        };
        if self.host.room() == 0 {
            self.begin_host_program();
        }
        self.counters.host_write_units += 1;
        self.counters.host_part_units += 1;
        self.merges.done_at = self.merges.done_at.max(merged_at);
        let received = self.receive(ready, 1, transfer);
        self.place(unit);
        if ends && self.host.room() == 0 {
            self.program_host(received, 0);
        }
        received
    }

    /// Writes a part of a unit that is in the program unit being filled: where it is.
    fn change_in_buffer(
        &mut self,
        unit: LogicalUnit,
        physical: PhysicalUnit,
        ready: Instant,
        transfer: Nanoseconds,
    ) -> Instant {
        self.counters.buffer_merge_units += 1;
        let link = Resource::LinkToDrive;
        let received = self.resources.reserve(link, Class::Write, ready, transfer).end;
        self.delays.writes.parts.link += transfer;
        self.buffer.note_received(received);
        self.media.receive(physical, unit);
        let before = self.map.set(unit, physical);
        assert!(before == Some(physical), "a unit that is changed in place stays there");
        received
    }

    /// [`Ssd::read_sectors`] of a range that does not begin and end with units: flash and channel
    /// move whole units, the link only what was asked for.
    #[inline(never)]
    pub(crate) fn read_in_part(
        &mut self,
        at: Instant,
        first: Sector,
        count: SectorCount,
    ) -> Instant {
        let parts = self.parts(first, count);
        let shift = self.geometry.sectors_per_unit_shift();
        self.counters.host_read_units += whole_units_of(&mut self.merges.read, count, shift);
        let start = self.take_up(at);
        self.advance_debt_at_times(start);
        let (unit, units) = (LogicalUnit(parts.first), parts.end - parts.first);
        let start = self.look_up_for_read(start, unit, units);
        let start = self.find_extents_for_read(start, unit, units);
        // The next request of a sequential stream begins in the unit that this one ends in.
        let next = ((first + count).0 >> shift) as u32;
        let end = match self.follow(parts.first, next) {
            None if units == 1 => self.read_one(start, unit, self.over_link(count)),
            stream => {
                let left_out = [self.over_link(parts.head), self.over_link(parts.tail)];
                self.read_many(stream, start, unit, units, left_out)
            }
        };
        self.note_read(at, end)
    }

    /// [`Ssd::trim_sectors`] of a range that does not begin and end with units. ATA and NVMe let
    /// a drive ignore any part of a trim; this one ignores what is not a whole unit.
    #[inline(never)]
    pub(crate) fn trim_whole_units_within(
        &mut self,
        at: Instant,
        first: Sector,
        count: SectorCount,
    ) -> Instant {
        let Parts { first, end, head, tail } = self.parts(first, count);
        let (first, end) = (first + u32::from(head.0 > 0), end - u32::from(tail.0 > 0));
        if first < end {
            return self.trim(at, LogicalUnit(first), end - first);
        }
        let end = self.take_up(at);
        self.note_trim(at, end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mapping::PageMap;
    use crate::media::{FlashWork, SequenceNumber, SpareArea};
    use crate::resources::Span;
    use crate::ssd::tests::{small_configuration, small_drive};
    use crate::units::{BlockIndex, KIB};

    /// Flash that remembers when it was programmed.
    #[derive(Default)]
    struct Programs(Vec<Span>);

    impl Media for Programs {
        fn program(
            &mut self,
            _: PhysicalUnit,
            _: SpareArea<'_>,
            _: SequenceNumber,
            work: FlashWork,
        ) {
            self.0.push(work.span);
        }
        fn erase(&mut self, _: BlockIndex, _: FlashWork) {}
    }

    fn write(ssd: &mut Ssd<PageMap, impl Media>, at: Instant, first: u64, count: u64) -> Instant {
        ssd.write_sectors(at, Sector(first), SectorCount(count))
    }

    /// Everything that was asked of the drive is done long before this.
    const LATER: Instant = Instant::from_nanos(10_000_000_000);

    #[test]
    fn a_part_is_merged_with_what_the_flash_holds_and_only_the_program_waits() {
        let configuration = small_configuration(&[]);
        let map = PageMap::new(configuration.geometry.logical_units());
        let mut ssd = Ssd::with(&configuration, map, Programs::default()).unwrap();
        let per_unit = 8;
        write(&mut ssd, Instant::START, 0, 64 * per_unit);
        ssd.flush(Instant::START);
        let (before, programs) = (ssd.counters(), ssd.media.0.len());
        let answered = write(&mut ssd, LATER, 3 * per_unit + 1, 2);
        let read_at = ssd.merges.done_at;
        let read = ssd.timing.page_read + ssd.unit_over_channel;
        assert!(read_at >= LATER + read, "the rest of the unit is read");
        assert!(answered < read_at, "the host does not wait for it");
        assert_eq!(ssd.counters().since(&before).flash_page_reads_merge, 1);
        ssd.flush(answered);
        assert!(ssd.media.0[programs].start >= read_at, "the program does");
        assert_eq!(ssd.merges.done_at, Instant::START, "the next program unit waits for nothing");
        ssd.check_invariants();
    }

    #[test]
    fn small_writes_in_a_row_become_one_unit() {
        let mut ssd = small_drive();
        for sector in 0..64 {
            write(&mut ssd, Instant::START, sector, 1);
        }
        let counters = ssd.counters();
        assert_eq!((counters.host_write_units, counters.buffer_merge_units), (8, 56));
        ssd.flush(Instant::START);
        assert_eq!(ssd.counters().program_units_host, 8);
        assert_eq!(ssd.counters().flash_page_reads_merge, 0);
    }

    #[test]
    fn small_writes_in_a_row_to_what_was_written_complete_every_unit_in_the_buffer() {
        let mut ssd = small_drive();
        let units = 5 * u64::from(ssd.geometry().units_per_program());
        write(&mut ssd, Instant::START, 0, units * 8);
        ssd.flush(Instant::START);
        let before = ssd.counters();
        let mut at = LATER;
        for sector in 0..units * 8 {
            at = write(&mut ssd, at, sector, 1);
        }
        let counted = ssd.counters().since(&before);
        assert_eq!(counted.host_write_units, units, "no unit is written twice");
        assert_eq!(counted.flash_page_reads_merge, units, "what it held is read once");
        assert!(!ssd.host.is_partial(), "a complete program unit is not held back");
    }

    #[test]
    fn a_program_unit_that_is_held_back_goes_when_the_next_unit_comes_or_with_a_flush() {
        let mut ssd = small_drive();
        let per_program = u64::from(ssd.geometry().units_per_program());
        let at = write(&mut ssd, Instant::START, 0, per_program * 8 - 1);
        assert_eq!(ssd.counters().programs, 0, "the last sector is still to come");
        let at = write(&mut ssd, at, 1024, 1);
        assert_eq!(ssd.counters().programs, 1);
        let at = write(&mut ssd, at, 1032, (per_program - 1) * 8 - 1);
        assert_eq!(ssd.counters().programs, 1);
        ssd.flush(at);
        assert_eq!((ssd.counters().programs, ssd.counters().program_units_padding), (2, 0));
        ssd.check_invariants();
    }

    #[test]
    fn a_write_that_begins_and_ends_within_units_merges_both() {
        let mut ssd = small_drive();
        write(&mut ssd, Instant::START, 0, 80);
        ssd.flush(Instant::START);
        let before = ssd.counters();
        write(&mut ssd, LATER, 12, 24);
        let counted = ssd.counters().since(&before);
        assert_eq!(counted.flash_page_reads_merge, 2);
        assert_eq!((counted.host_write_units, counted.host_part_units), (4, 2));
        assert_eq!(counted.host_written(ssd.geometry().unit_size()), KIB * 12);
        ssd.flush(LATER);
        assert_eq!(ssd.counters().since(&before).program_units_host, 4);
        ssd.check_invariants();
    }

    #[test]
    fn the_link_moves_what_was_asked_for_and_the_channel_units() {
        let mut ssd = small_drive();
        write(&mut ssd, Instant::START, 0, 64);
        ssd.flush(Instant::START);
        let mut latency = |at: Instant, first, count| {
            ssd.read_sectors(at, Sector(first), SectorCount(count)).since(at)
        };
        let whole = latency(LATER, 8, 8);
        let part = latency(LATER + whole * 9, 9, 1);
        let two = latency(LATER + whole * 19, 8, 16);
        let across = latency(LATER + whole * 29, 12, 8);
        let link = |length| ssd.timing.link.duration(length);
        assert_eq!(whole - part, link(KIB * 4) - link(Sector::SIZE));
        assert_eq!(two - across, link(KIB * 2) * 2);
    }

    #[test]
    fn small_reads_in_a_row_are_read_ahead_of() {
        let mut configuration = small_configuration(&[]);
        configuration.read_ahead.window = 64;
        configuration.read_ahead.segment = 32;
        let mut ssd = Ssd::new(&configuration).unwrap();
        write(&mut ssd, Instant::START, 0, 256 * 8);
        ssd.flush(Instant::START);
        let mut at = LATER;
        for sector in 0..64 * 8 {
            at = ssd.read_sectors(at, Sector(sector), SectorCount(1));
        }
        let counters = ssd.counters();
        assert!(counters.flash_page_reads_host < 64, "{counters:?}");
        assert_eq!(counters.host_read_units, 64);
    }

    #[test]
    fn trim_leaves_units_alone_that_it_covers_in_part() {
        let mut ssd = small_drive();
        write(&mut ssd, Instant::START, 0, 64);
        ssd.trim_sectors(Instant::START, Sector(4), SectorCount(16));
        ssd.trim_sectors(Instant::START, Sector(41), SectorCount(6));
        let mapped: Vec<bool> =
            (0..8).map(|unit| ssd.map.get(LogicalUnit(unit)).is_some()).collect();
        assert_eq!(mapped, [true, false, true, true, true, true, true, true]);
        assert_eq!(ssd.counters().host_trim_units, 1);
    }

    #[test]
    #[should_panic(expected = "a request lies within the drive")]
    fn a_part_behind_the_end_is_refused() {
        let mut ssd = small_drive();
        let sectors = SectorCount::of(ssd.geometry().capacity()).0;
        write(&mut ssd, Instant::START, sectors - 1, 2);
    }
}
