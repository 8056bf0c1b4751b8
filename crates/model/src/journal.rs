//! The map journal: changes of the map, programmed to pages of the metadata blocks.
//!
//! A change takes eight bytes: a logical and a physical unit of four bytes each. A page is
//! programmed when a flush has to make changes durable, or when as many have come together as it
//! holds. Pages go round the dies; the metadata blocks are written in turn, together with the saved
//! map and records of trims, and each is erased before it is written again.
//!
//! A page waits for the data that its changes are about, so it is known of before it can be
//! programmed. (Copies change the map that is journalled only when they are programmed: until then
//! what they replace is still there, and no flush has to wait for them.) It does not hold its die until then: it is booked when something next looks at the
//! die and the page has become ready. Its end is promised when it is made: from what the die has to
//! do then, and from how much longer an earlier page had to wait because of what came meanwhile.
//! (The map itself is saved by [`crate::checkpoint`], where a profile asks for it.)

mod by_steps;

use std::collections::VecDeque;

use crate::checkpoint::pages_per_metadata_unit;
use crate::geometry::Geometry;
use crate::mapping::Mapping;
use crate::media::{MapPage, Media, SequenceNumber};
use crate::resources::{Class, Resource};
use crate::snapshot::{Decoder, Encoder, SnapshotError};
use crate::ssd::Ssd;
use crate::units::{ByteLength, DieIndex, Instant, Nanoseconds};
use by_steps::OpenPage;
pub(crate) use by_steps::PageNumbers;

/// Bytes that one change of the map takes: two unit numbers of 32 bits.
const ENTRY: ByteLength = ByteLength::new(8);

/// Pages whose wait is remembered: what a page is promised is what such a one met with.
const WAITS: usize = 32;

/// A page that is not booked on its die.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    /// When it is there.
    ready: Instant,
    /// When it would begin if nothing came meanwhile.
    from: Instant,
    /// The latest program unit whose changes it holds.
    through: SequenceNumber,
    /// Whether pages that are made later can expect to wait as long.
    is_typical: bool,
}

/// How a drive journals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JournalParameters {
    /// Programming one journal page. Less than a data program where the page is written as SLC.
    pub program: Nanoseconds,
}

/// A program unit of copies that is booked on its die: what it changes of the map.
#[derive(Clone, Copy, Debug)]
struct Copied {
    changes: u32,
    number: SequenceNumber,
    die: DieIndex,
    booking: u32,
    end: Instant,
}

/// The state of the journal.
#[derive(Clone, Debug)]
pub(crate) struct Journal {
    program: Nanoseconds,
    /// Changes that no page holds.
    pending: u64,
    /// The program unit that the latest of them is about.
    latest: SequenceNumber,
    /// When all program units that they are about are programmed, as far as is known.
    data_at: Instant,
    /// Program units of copies that are booked on their dies and not known to be over.
    copied: Vec<Copied>,
    entries_per_page: u64,
    /// Pages written so far.
    pages: u64,
    /// Pages that are not booked on their dies, by die, in the order in which they are there.
    waiting: Vec<VecDeque<Waiting>>,
    /// Pages of requests that go on step by step, not known to be programmed.
    open: Vec<OpenPage>,
    /// How much longer the latest pages have waited than what was known when they were made.
    waits: [Nanoseconds; WAITS],
    waits_noted: usize,
    /// When all pages so far are programmed, as far as is known.
    programmed_until: Instant,
}

impl Journal {
    /// An empty journal.
    ///
    /// # Panics
    /// When there are less than two metadata blocks; profiles check that.
    pub(crate) fn new(geometry: &Geometry, parameters: JournalParameters) -> Journal {
        let shape = geometry.parameters();
        let blocks = u64::from(shape.metadata_collection_units);
        assert!(blocks >= 2, "a journal is written to one block while another is erased");
        Journal {
            program: parameters.program,
            pending: 0,
            latest: SequenceNumber(0),
            data_at: Instant::START,
            copied: Vec::new(),
            entries_per_page: shape.page_size.whole(ENTRY),
            pages: 0,
            open: Vec::new(),
            waits: [Nanoseconds::ZERO; WAITS],
            waits_noted: 0,
            waiting: vec![VecDeque::new(); geometry.dies() as usize],
            programmed_until: Instant::START,
        }
    }
}

impl Journal {
    /// Forgets how long pages have waited. A flush leaves nothing under way, so what they met with
    /// before it says nothing of the pages that come after it.
    pub(crate) fn forget_waits(&mut self) {
        self.waits = [Nanoseconds::ZERO; WAITS];
        self.waits_noted = 0;
        self.waiting.iter_mut().flatten().for_each(|page| page.is_typical = false);
    }

    pub(crate) fn save(&self, to: &mut Encoder<'_>) -> Result<(), SnapshotError> {
        let Journal { pending, pages, programmed_until, waiting, copied, .. } = self;
        let is_booked = waiting.iter().all(VecDeque::is_empty) && copied.is_empty();
        let is_done = *pending == 0 && is_booked;
        assert!(is_done, "the drive was shut down");
        to.long(*pages)?;
        Ok(to.long(programmed_until.nanos())?)
    }

    pub(crate) fn restore(&mut self, from: &mut Decoder<'_>) -> Result<(), SnapshotError> {
        self.pages = from.long()?;
        self.programmed_until = Instant::from_nanos(from.long()?);
        Ok(())
    }
}

impl<M: Mapping, D: Media> Ssd<M, D> {
    /// Notes that `changes` entries of the map have changed, with program unit `number`, which is
    /// programmed by `at`; programs journal pages that are full with them.
    #[inline(always)]
    pub(crate) fn note_map_changes(&mut self, changes: u32, number: SequenceNumber, at: Instant) {
        if self.durability.checkpoints.is_some() {
            self.save_pieces_of_map(changes);
        }
        if let Some(journal) = &mut self.durability.journal {
            journal.pending += u64::from(changes);
            journal.latest = number;
            journal.data_at = journal.data_at.later(at);
            if journal.pending >= journal.entries_per_page {
                self.program_journal_page(at);
            }
        }
    }

    /// Notes that a program unit of `changes` copies is booked on `die`, its latest work until `end`.
    #[inline(never)]
    pub(crate) fn note_copies_booked(
        &mut self,
        changes: u32,
        number: SequenceNumber,
        die: DieIndex,
        end: Instant,
    ) {
        let now = self.resources.now();
        let booking = self.resources.dies[die.0 as usize].latest_booking();
        let Some(journal) = &mut self.durability.journal else {
            return self.note_map_changes(changes, number, now);
        };
        journal.copied.push(Copied { changes, number, die, booking, end });
        self.note_copies_programmed(now);
    }

    /// Notes what the copies that are programmed by `now` have changed of the map.
    fn note_copies_programmed(&mut self, now: Instant) {
        let next = |ssd: &mut Self| {
            let journal = ssd.durability.journal.as_mut()?;
            let dies = &ssd.resources.dies;
            let end = |it: &Copied| dies[it.die.0 as usize].end_of(it.booking, it.end);
            let over = journal.copied.iter().position(|it| end(it) <= now)?;
            Some(journal.copied.remove(over))
        };
        while let Some(Copied { changes, number, .. }) = next(self) {
            self.note_map_changes(changes, number, now);
        }
    }

    /// Of program units up to this number the pages made so far hold all changes. Copies take their
    /// number when their program unit is full, and change the map when it is programmed.
    fn journalled_through(&self) -> SequenceNumber {
        let journal = self.durability.journal.as_ref().expect("there is a journal");
        let left = (journal.pending > 0).then_some(journal.latest);
        let copied = journal.copied.iter().map(|it| it.number);
        let copies = self.collector.copies.oldest_not_booked().into_iter().chain(copied);
        let lacking = left.into_iter().chain(copies).min();
        lacking.map_or(self.sequence, |first| SequenceNumber(first.0.saturating_sub(1)))
    }

    /// Sees to it that the next page of metadata has a place: the journal, the saved map and records of
    /// trims fill the metadata blocks together, one after the other, and a block that was written
    /// before is erased from `from` on. (A map on flash has these blocks, and erases them.) Returns
    /// the die: pages go round those that their block lies on.
    pub(crate) fn begin_metadata_page(&mut self, from: Instant) -> DieIndex {
        // Those that were programmed so far are counted.
        let page = self.counters.metadata_pages();
        self.counters.program_units_metadata += u64::from(self.geometry.units_per_page());
        let blocks = u64::from(self.geometry.parameters().metadata_collection_units);
        let per_block = pages_per_metadata_unit(&self.geometry);
        let is_erased = page.is_multiple_of(per_block) && page >= per_block * blocks;
        if blocks == 0 || self.map.cache().is_some() {
            return DieIndex((page % u64::from(self.geometry.dies())) as u32);
        }
        let group = (page / per_block % blocks) as u32 % self.geometry.groups();
        let stripe = self.geometry.stripe();
        let page_die = DieIndex(group * stripe + (page % u64::from(stripe)) as u32);
        if !is_erased {
            return page_die;
        }
        self.counters.metadata_erases += 1;
        for lane in 0..stripe {
            let die = DieIndex(group * stripe + lane);
            let on_die = Resource::Die(die);
            self.resources.reserve(on_die, Class::Background, from, self.timing.erase);
            self.resources.dies[die.0 as usize].note_erase();
        }
        page_die
    }

    /// How long programming a page of the metadata blocks takes.
    pub(crate) fn journal_program(&self) -> Nanoseconds {
        self.durability.journal.as_ref().map_or(self.timing.program, |journal| journal.program)
    }

    /// Programs what the journal lacks, not before `from`; returns when it is complete.
    pub(crate) fn complete_journal(&mut self, from: Instant) -> Instant {
        self.note_copies_programmed(from);
        while self.durability.journal.as_ref().is_some_and(|journal| journal.pending > 0) {
            self.program_journal_page(from);
        }
        match &self.durability.journal {
            Some(journal) => journal.programmed_until.max(from),
            None => from,
        }
    }

    #[inline(never)]
    fn program_journal_page(&mut self, from: Instant) {
        let journal = self.durability.journal.as_mut().expect("there is a journal");
        let from = from.max(journal.data_at);
        journal.pending = journal.pending.saturating_sub(journal.entries_per_page);
        let page = journal.pages;
        journal.pages += 1;
        let through = self.journalled_through();
        let (die, arrived) = self.move_journal_page(from);
        let journal = self.durability.journal.as_mut().expect("there is a journal");
        let program = journal.program;
        let waiting = &mut journal.waiting[die.0 as usize];
        let place = waiting.partition_point(|other| other.ready <= arrived);
        let mut from = self.resources.dies[die.0 as usize].booked_until();
        for page in waiting.iter().take(place) {
            from = from.max(page.ready) + program;
        }
        from = from.max(arrived);
        waiting.insert(place, Waiting { ready: arrived, from, through, is_typical: true });
        let end = from + journal.waits[page as usize % WAITS] + program;
        journal.programmed_until = journal.programmed_until.max(end);
    }

    /// Moves a page to its die from `from` on; returns the die and when it is there.
    fn move_journal_page(&mut self, from: Instant) -> (DieIndex, Instant) {
        let die = self.begin_metadata_page(from);
        self.settle(die, self.resources.now());
        let channel = Resource::Channel(self.geometry.channel_of(die));
        let transfer = self.unit_over_channel * u64::from(self.geometry.units_per_page());
        let arrived = self.resources.reserve(channel, Class::Write, from, transfer).end;
        self.counters.journal_pages += 1;
        (die, arrived)
    }

    /// Books all journal pages that wait, and forgets how long they did: for a drive that is shut
    /// down.
    pub(crate) fn book_all_journal_pages(&mut self) {
        if self.durability.journal.is_some() {
            for die in 0..self.geometry.dies() {
                self.book_journal_pages(DieIndex(die), Instant::from_nanos(u64::MAX));
            }
        }
        if let Some(journal) = &mut self.durability.journal {
            journal.forget_waits();
        }
    }

    fn next_journal_page(&mut self, die: DieIndex, now: Instant) -> Option<Waiting> {
        let journal = self.durability.journal.as_mut().expect("there is a journal");
        journal.waiting[die.0 as usize].pop_front_if(|it| it.ready <= now)
    }

    /// Books the journal pages on `die` that have arrived there by `now`.
    #[inline(never)]
    pub(crate) fn book_journal_pages(&mut self, die: DieIndex, now: Instant) {
        let journal = self.durability.journal.as_mut().expect("there is a journal");
        let program = journal.program;
        while let Some(page) = self.next_journal_page(die, now) {
            let span =
                self.resources.reserve(Resource::Die(die), Class::Write, page.ready, program);
            let work = self.latest_work(die, span);
            self.media.save_map(MapPage::Journal, page.through, work);
            if !page.is_typical {
                continue;
            }
            let journal = self.durability.journal.as_mut().expect("there is a journal");
            let wait = span.start.max(page.from).since(page.from);
            journal.waits[journal.waits_noted % WAITS] = wait;
            journal.waits_noted += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::Profile;
    use crate::ssd::tests::small_configuration;
    use crate::units::LogicalUnit;

    #[test]
    fn flushes_after_a_burst_of_writes_cost_what_they_cost_on_a_drive_at_rest() {
        let changes = [
            ("flush.journal", "on"),
            ("capacity.logical", "32M"),
            ("controller.write_buffer", "2M"),
        ];
        let mut ssd = Ssd::new(&small_configuration(&changes)).unwrap();
        let flushed = |ssd: &mut Ssd, at: Instant| {
            let written = ssd.write(at, LogicalUnit(0), 1);
            let end = ssd.flush(written);
            (end, end.since(written))
        };
        let (mut at, alone) = flushed(&mut ssd, Instant::START);
        // All at once, so that pages of the journal wait behind data.
        for unit in 0..8_000 {
            at = at.max(ssd.write(Instant::START, LogicalUnit(unit), 1));
        }
        at = ssd.flush(at);
        assert!(ssd.counters().journal_pages > 2);
        for flush in 0..2 * WAITS {
            let (end, took) = flushed(&mut ssd, at);
            assert_eq!(took, alone, "flush {flush}");
            at = end;
        }
    }

    #[test]
    fn a_journal_page_is_programmed_when_it_is_full_and_its_blocks_are_written_in_turn() {
        let mut profile = Profile::named(crate::profile::DEFAULT).expect("the default profile");
        for (key, value) in [
            ("capacity.logical", "64M"),
            ("capacity.physical", "256M"),
            ("flash.channels", "1"),
            ("flash.dies", "1"),
            ("controller.write_buffer", "1M"),
            ("flash.pages_per_block", "6"),
            ("flush.journal", "on"),
        ] {
            profile.set(key, value).expect("a sound value");
        }
        let mut ssd = Ssd::new(&profile.configuration().unwrap()).unwrap();
        let mut at = Instant::START;
        for _ in 0..2 {
            for first in (0..16_384).step_by(24) {
                at = ssd.write(at, LogicalUnit(first), 24.min(16_384 - first));
            }
        }
        // 16 KiB hold 2048 changes; the last ones are not programmed yet.
        assert_eq!(ssd.counters().collections, 0);
        assert_eq!(ssd.counters().journal_pages, 2 * 16_384 / 2048 - 1);
        // Two blocks of 12 pages each: from the third on each is erased before it is written.
        for unit in 0..32 {
            at = ssd.write(at, LogicalUnit(unit), 1);
            at = ssd.flush(at);
        }
        assert_eq!(ssd.counters().journal_pages, 15 + 1 + 32);
        assert_eq!(ssd.counters().metadata_erases, 2);
    }

    #[test]
    fn copies_are_journalled_when_they_are_programmed_and_no_page_claims_more() {
        let journal = small_configuration(&[("flush.journal", "on")]);
        let mut ssd = Ssd::new(&journal).unwrap();
        let units = ssd.geometry().logical_units();
        let mut at = ssd.write(Instant::START, LogicalUnit(0), units);
        let mut not_yet = 0;
        for step in 0..2 * u64::from(units) {
            let unit = step.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
            at = ssd.write(at, LogicalUnit((unit % u64::from(units)) as u32), 1);
            let journal = ssd.durability.journal.as_ref().unwrap();
            let noted = journal.pages * journal.entries_per_page + journal.pending;
            let counters = &ssd.counters;
            let changed = counters.program_units_host + counters.program_units_collection;
            not_yet += u32::from(noted < changed);
            assert!(noted <= changed, "{noted} of {changed}");
            if let Some(first) = ssd.collector.copies.oldest_not_booked() {
                assert!(ssd.journalled_through() < first);
            }
            if let Some(first) = journal.copied.iter().map(|it| it.number).min() {
                assert!(ssd.journalled_through() < first);
            }
        }
        assert!(ssd.counters.program_units_collection > 10_000);
        assert!(not_yet > 1000, "copies are under way most of the time");
        ssd.shut_down(at);
        let counters = &ssd.counters;
        let changed = counters.program_units_host + counters.program_units_collection;
        let journal = ssd.durability.journal.as_ref().unwrap();
        assert!(journal.pages * journal.entries_per_page >= changed, "nothing is forgotten");
        assert_eq!((journal.pending, journal.copied.len()), (0, 0));
    }

    #[test]
    fn journal_pages_go_to_the_dies_that_their_block_lies_on() {
        for (unit, dies) in [("superblock", 4), ("block", 1)] {
            let changes = [
                ("collection.unit", unit),
                ("collection.metadata_units", "4"),
                ("capacity.physical", "192M"),
            ];
            let mut ssd = Ssd::new(&small_configuration(&changes)).unwrap();
            let mut used = std::collections::BTreeSet::new();
            for page in 0..pages_per_metadata_unit(&ssd.geometry) {
                ssd.counters.journal_pages = page;
                used.insert(ssd.begin_metadata_page(Instant::START).0);
            }
            assert_eq!(used.len(), dies, "{unit}");
        }
    }

    #[test]
    fn metadata_pages_of_all_kinds_share_their_blocks_which_are_erased_where_they_lie() {
        for (unit, dies_erased) in [("superblock", 4), ("block", 1)] {
            let changes = [
                ("flash.erase", "20ms"),
                ("collection.unit", unit),
                ("collection.metadata_units", "4"),
                ("capacity.physical", "192M"),
            ];
            let mut ssd = Ssd::new(&small_configuration(&changes)).unwrap();
            let per_block = pages_per_metadata_unit(&ssd.geometry);
            let bookings = |ssd: &Ssd| {
                let dies = ssd.resources.dies.iter();
                dies.map(|die| die.latest_booking()).collect::<Vec<_>>()
            };
            let counters = &mut ssd.counters;
            (counters.journal_pages, counters.checkpoint_pages) = (per_block, per_block);
            counters.trim_pages = 2 * per_block - 1;
            let before = bookings(&ssd);
            ssd.begin_metadata_page(Instant::START);
            assert_eq!(bookings(&ssd), before, "the last page of the last block");
            ssd.counters.trim_pages += 1;
            ssd.begin_metadata_page(Instant::START);
            let after = bookings(&ssd);
            let erased = before.iter().zip(&after).filter(|(before, after)| before != after);
            assert_eq!(erased.count(), dies_erased, "{unit}");
            assert_eq!(ssd.counters.metadata_erases, 1);
        }
    }

    #[test]
    fn blocks_with_records_of_trims_are_erased_before_they_are_written_again() {
        let mut ssd = Ssd::new(&small_configuration(&[])).unwrap();
        let pages = 2 * pages_per_metadata_unit(&ssd.geometry);
        let mut at = Instant::START;
        for _ in 0..=pages {
            at = ssd.write(at, LogicalUnit(0), 1);
            at = ssd.trim(at, LogicalUnit(0), 1);
            at = ssd.flush(at);
        }
        assert_eq!(ssd.counters().trim_pages, pages + 1);
        assert_eq!(ssd.counters().metadata_erases, 1);
    }
}
