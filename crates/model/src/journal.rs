//! The map journal: changes of the map, programmed to pages of the metadata blocks.
//!
//! A change takes eight bytes: a logical and a physical unit of four bytes each. A page is
//! programmed when a flush has to make changes durable, or when as many have come together as it
//! holds. Pages go round the dies; the metadata blocks are written in turn, together with the saved
//! map and records of trims, and each is erased before it is written again.
//!
//! A page waits for the data that its changes are about, so it is known of before it can be
//! programmed. It does not hold its die until then: it is booked when something next looks at the
//! die and the page has become ready. Its end is promised when it is made: from what the die has to
//! do then, and from how much longer an earlier page had to wait because of what came meanwhile.
//! (The map itself is saved by [`crate::checkpoint`], where a profile asks for it.)

use std::collections::VecDeque;

use crate::checkpoint::pages_per_metadata_unit;
use crate::geometry::Geometry;
use crate::mapping::Mapping;
use crate::media::{FlashWork, MapPage, Media, SequenceNumber};
use crate::resources::{Class, Resource};
use crate::snapshot::{Decoder, Encoder, SnapshotError};
use crate::ssd::Ssd;
use crate::units::{ByteLength, DieIndex, Instant, Nanoseconds};

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
}

/// Journal pages of one request, by their numbers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PageNumbers {
    pub(crate) first: u64,
    pub(crate) end: u64,
}

/// A page that was given its number by a request that goes on step by step.
#[derive(Clone, Copy, Debug)]
struct OpenPage {
    number: u64,
    /// The latest program unit whose changes it holds.
    through: SequenceNumber,
    /// When it is programmed; not before, if it is not booked.
    end: Instant,
    booked: Option<(DieIndex, u32)>,
}

/// How a drive journals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JournalParameters {
    /// Programming one journal page. Less than a data program where the page is written as SLC.
    pub program: Nanoseconds,
}

/// The state of the journal.
#[derive(Clone, Debug)]
pub(crate) struct Journal {
    program: Nanoseconds,
    /// Changes that no page holds.
    pending: u64,
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
    pub(crate) fn save(&self, to: &mut Encoder<'_>) -> Result<(), SnapshotError> {
        let Journal { pending, pages, programmed_until, waiting, .. } = self;
        let is_done = *pending == 0 && waiting.iter().all(VecDeque::is_empty);
        assert!(is_done, "the drive was shut down");
        to.long(*pages)?;
        to.long(programmed_until.nanos())
    }

    pub(crate) fn restore(&mut self, from: &mut Decoder<'_>) -> Result<(), SnapshotError> {
        self.pages = from.long()?;
        self.programmed_until = Instant::from_nanos(from.long()?);
        Ok(())
    }
}

impl<M: Mapping, D: Media> Ssd<M, D> {
    /// Notes that `changes` entries of the map have changed, all programmed by `at`; programs
    /// journal pages that are full with them.
    #[inline(always)]
    pub(crate) fn note_map_changes(&mut self, changes: u32, at: Instant) {
        if self.durability.checkpoints.is_some() {
            self.save_pieces_of_map(changes);
        }
        if let Some(journal) = &mut self.durability.journal {
            journal.pending += u64::from(changes);
            if journal.pending >= journal.entries_per_page {
                self.program_journal_page(at);
            }
        }
    }

    /// Sees to it that the next page of metadata has a place: the journal, the saved map and records of
    /// trims fill the metadata blocks together, one after the other, and a block that was written
    /// before is erased from `from` on. (A map on flash has these blocks, and erases them.)
    pub(crate) fn begin_metadata_page(&mut self, from: Instant) {
        // Those that were programmed so far are counted.
        let page = self.counters.metadata_pages();
        self.counters.program_units_metadata += u64::from(self.geometry.units_per_page());
        let blocks = u64::from(self.geometry.parameters().metadata_collection_units);
        let per_block = pages_per_metadata_unit(&self.geometry);
        let is_erased = page.is_multiple_of(per_block) && page >= per_block * blocks;
        if blocks == 0 || self.map.cache().is_some() || !is_erased {
            return;
        }
        self.counters.metadata_erases += 1;
        let group = (page / per_block % blocks) as u32 % self.geometry.groups();
        for lane in 0..self.geometry.stripe() {
            let die = DieIndex(group * self.geometry.stripe() + lane);
            let on_die = Resource::Die(die);
            self.resources.reserve(on_die, Class::Background, from, self.timing.erase);
            self.resources.dies[die.0 as usize].note_erase();
        }
    }

    /// How long programming a page of the metadata blocks takes.
    pub(crate) fn journal_program(&self) -> Nanoseconds {
        self.durability.journal.as_ref().map_or(self.timing.program, |journal| journal.program)
    }

    /// Programs what the journal lacks, not before `from`; returns when it is complete.
    pub(crate) fn complete_journal(&mut self, from: Instant) -> Instant {
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
        journal.pending = journal.pending.saturating_sub(journal.entries_per_page);
        let page = journal.pages;
        journal.pages += 1;
        let (die, arrived) = self.move_journal_page(page, from);
        let journal = self.durability.journal.as_mut().expect("there is a journal");
        let program = journal.program;
        let waiting = &mut journal.waiting[die.0 as usize];
        let place = waiting.partition_point(|other| other.ready <= arrived);
        let mut from = self.resources.dies[die.0 as usize].booked_until();
        for page in waiting.iter().take(place) {
            from = from.max(page.ready) + program;
        }
        from = from.max(arrived);
        waiting.insert(place, Waiting { ready: arrived, from, through: self.sequence });
        let end = from + journal.waits[page as usize % WAITS] + program;
        journal.programmed_until = journal.programmed_until.max(end);
    }

    /// Moves page number `page` to its die from `from` on; returns the die and when it is there.
    fn move_journal_page(&mut self, page: u64, from: Instant) -> (DieIndex, Instant) {
        self.begin_metadata_page(from);
        let die = DieIndex((page % u64::from(self.geometry.dies())) as u32);
        self.settle(die, self.resources.now());
        let channel = Resource::Channel(self.geometry.channel_of(die));
        let transfer = self.unit_over_channel * u64::from(self.geometry.units_per_page());
        let arrived = self.resources.reserve(channel, Class::Write, from, transfer).end;
        self.counters.journal_pages += 1;
        (die, arrived)
    }

    /// Gives what the journal lacks its pages, to be programmed when their data is.
    pub(crate) fn number_journal_pages(&mut self) -> PageNumbers {
        let Some(journal) = &mut self.durability.journal else {
            return PageNumbers { first: 0, end: 0 };
        };
        let first = journal.pages;
        while journal.pending > 0 {
            journal.pending = journal.pending.saturating_sub(journal.entries_per_page);
            let (number, end) = (journal.pages, Instant::START);
            let page = OpenPage { number, through: self.sequence, end, booked: None };
            journal.open.push(page);
            journal.pages += 1;
        }
        PageNumbers { first, end: journal.pages }
    }

    /// The data of `pages` is not programmed before `until`.
    pub(crate) fn await_journal_pages(&mut self, pages: PageNumbers, until: Instant) {
        if let Some(journal) = &mut self.durability.journal {
            for page in journal.open.iter_mut() {
                if (pages.first..pages.end).contains(&page.number) {
                    page.end = until + journal.program;
                }
            }
        }
    }

    /// Programs `pages`, whose data is programmed at `now`.
    pub(crate) fn program_journal_pages(&mut self, pages: PageNumbers, now: Instant) {
        for number in pages.first..pages.end {
            let (die, arrived) = self.move_journal_page(number, now);
            let program = self.journal_program();
            let span = self.resources.reserve(Resource::Die(die), Class::Write, arrived, program);
            let booking = self.resources.dies[die.0 as usize].latest_booking();
            let journal = self.durability.journal.as_mut().expect("there is a journal");
            journal.programmed_until = journal.programmed_until.max(span.end);
            let page = journal.open.iter_mut().find(|page| page.number == number);
            let page = page.expect("a page is open until it is programmed");
            (page.end, page.booked) = (span.end, Some((die, booking)));
            let through = page.through;
            self.media.save_map(MapPage::Journal, through, FlashWork { die, span, booking });
        }
    }

    /// When all pages before number `end` are programmed, as far as is known at `now`.
    pub(crate) fn journal_programmed_before(&mut self, end: u64, now: Instant) -> Instant {
        let Some(journal) = &mut self.durability.journal else {
            return now;
        };
        let dies = &self.resources.dies;
        let mut until = now;
        journal.open.retain_mut(|page| {
            if let Some((die, booking)) = page.booked {
                page.end = dies[die.0 as usize].end_of(booking, page.end);
            }
            if page.number < end {
                until = until.max(page.end);
            }
            page.booked.is_none() || page.end > now
        });
        // A page that is not booked yet is asked for again, even if its data was due by now.
        let is_unbooked = |page: &&OpenPage| page.number < end && page.booked.is_none();
        let unbooked = journal.open.iter().filter(is_unbooked).map(|page| page.end).max();
        unbooked.map_or(until, |_| until.max(now + Nanoseconds::new(1)))
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
            journal.waits = [Nanoseconds::ZERO; WAITS];
            journal.waits_noted = 0;
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
