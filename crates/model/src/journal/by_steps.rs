//! Journal pages of requests that go on step by step: numbered first, programmed when their data is.

use crate::mapping::Mapping;
use crate::media::{FlashWork, MapPage, Media, SequenceNumber};
use crate::resources::{Class, Resource};
use crate::ssd::Ssd;
use crate::units::{DieIndex, Instant, Nanoseconds};

/// Journal pages of one request, by their numbers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PageNumbers {
    pub(crate) first: u64,
    pub(crate) end: u64,
}

/// A page that was given its number by a request that goes on step by step.
#[derive(Clone, Copy, Debug)]
pub(super) struct OpenPage {
    number: u64,
    /// The latest program unit whose changes it holds.
    through: SequenceNumber,
    /// When it is programmed; not before, if it is not booked.
    end: Instant,
    booked: Option<(DieIndex, u32)>,
}

impl<M: Mapping, D: Media> Ssd<M, D> {
    /// Gives what the journal lacks its pages, to be programmed when their data is.
    pub(crate) fn number_journal_pages(&mut self) -> PageNumbers {
        self.note_copies_programmed(self.resources.now());
        let Some(journal) = &self.durability.journal else {
            return PageNumbers { first: 0, end: 0 };
        };
        let first = journal.pages;
        loop {
            let journal = self.durability.journal.as_mut().expect("there is a journal");
            if journal.pending == 0 {
                return PageNumbers { first, end: journal.pages };
            }
            journal.pending = journal.pending.saturating_sub(journal.entries_per_page);
            let number = journal.pages;
            journal.pages += 1;
            let through = self.journalled_through();
            let page = OpenPage { number, through, end: Instant::START, booked: None };
            self.durability.journal.as_mut().expect("there is a journal").open.push(page);
        }
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
            let (die, arrived) = self.move_journal_page(now);
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
}
