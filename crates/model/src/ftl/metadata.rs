//! Metadata pages: the map journal, the saved map (checkpoint), and trim records.
//!
//! Pages go round the dies. The metadata blocks are written in turn, and each is erased before it is written
//! again. A journal page is programmed after the data that its changes are about. Copies enter the journal when
//! they are programmed.

use std::collections::VecDeque;
use std::ops::Range;

use ssdlab_nand::{EraseId, Nand, ProgramLog, ProgramUnit, Tag};

use super::barriers::Barrier;
use super::{Context, Ftl, kind, number_of};
use crate::checkpoint::{Checkpoints, pages_per_metadata_unit};
use crate::flush::{FlushHandling, WriteCache};
use crate::mapping::Mapping;
use crate::media::{MapPage, Media, SequenceNumber, TrimRecord};
use crate::snapshot::{Decoder, Encoder, SnapshotError};
use crate::ssd::Configuration;
use crate::units::{BlockIndex, ByteLength, DieIndex, LogicalUnit, Nanoseconds, PhysicalUnit};

/// Bytes of one change of the map in the journal: two unit numbers of 32 bits.
const CHANGE: ByteLength = ByteLength::new(8);

/// Bytes of a trim record: first unit and number of units, 32 bits each, and the sequence number.
const RECORD: ByteLength = ByteLength::new(16);

#[derive(Clone, Debug)]
struct Journal {
    program: Nanoseconds,
    changes_per_page: u64,
    /// Number of changes that are in no journal page yet.
    pending: u64,
    log: ProgramLog,
    /// Full pages that wait for their data, each with the number of the host program unit that holds its last
    /// change.
    full: VecDeque<(u64, u64)>,
}

#[derive(Clone, Debug)]
pub(super) struct Metadata {
    /// True if flush and FUA have anything to wait for.
    waits: bool,
    /// True if every write is answered only when it is durable, like one with FUA.
    write_through: bool,
    journal: Option<Journal>,
    checkpoints: Option<Box<Checkpoints>>,
    /// Trim records that are in no page yet.
    records: Vec<TrimRecord>,
    /// Pages of trim records in flight.
    records_in_flight: Vec<(Tag, Vec<TrimRecord>)>,
    /// Pages of the saved map and of the journal in flight. Each covers all program units up to the sequence
    /// number.
    map_pages_in_flight: Vec<(Tag, SequenceNumber)>,
    /// Sequence number of the program unit that the latest change of the map is about.
    latest: SequenceNumber,
    trim_log: ProgramLog,
    pub(super) barriers: Vec<Barrier>,
    program: Nanoseconds,
}

impl Metadata {
    pub(super) fn new(configuration: &Configuration) -> Metadata {
        let Configuration { geometry, timing, buffer, mechanisms, .. } = configuration;
        let parameters = mechanisms.flush;
        let waits = !buffer.protected && parameters.handling == FlushHandling::Honest;
        // A drive can lie about flushes and still have no cache to flush.
        let write_through = !buffer.protected && parameters.write_cache == WriteCache::WriteThrough;
        let journal =
            parameters.journal.filter(|_| waits || write_through).map(|journal| Journal {
                program: journal.program,
                changes_per_page: geometry.parameters().page_size.whole(CHANGE),
                pending: 0,
                log: ProgramLog::default(),
                full: VecDeque::new(),
            });
        Metadata {
            waits,
            write_through,
            program: journal.as_ref().map_or(timing.program, |journal| journal.program),
            journal,
            checkpoints: mechanisms
                .checkpoint
                .map(|parameters| Box::new(Checkpoints::new(geometry, mechanisms, parameters))),
            records: Vec::new(),
            records_in_flight: Vec::new(),
            map_pages_in_flight: Vec::new(),
            latest: SequenceNumber::default(),
            trim_log: ProgramLog::default(),
            barriers: Vec::new(),
        }
    }

    /// Returns the time that programming a metadata page takes.
    pub(super) fn program(&self) -> Nanoseconds {
        self.program
    }

    /// Returns true if a flush has anything to wait for.
    pub(super) fn flush_waits(&self) -> bool {
        self.waits
    }

    /// Returns true if a write, with FUA if `force`, is answered only when it is durable.
    #[inline(always)]
    pub(super) fn makes_durable(&self, force: bool) -> bool {
        self.write_through || force && self.waits
    }

    /// Returns true if a request waits for durability, or a journal page for its data.
    #[inline(always)]
    pub(super) fn has_waiters(&self) -> bool {
        !self.barriers.is_empty()
            || self.journal.as_ref().is_some_and(|journal| !journal.full.is_empty())
    }

    /// Returns the range of numbers from the first journal page in flight to the next one.
    pub(super) fn journal_pages(&self) -> Range<u64> {
        self.journal.as_ref().map_or(0..0, |it| it.log.low_water()..it.log.next())
    }

    /// Returns the range of numbers from the first page of trim records in flight to the next one.
    pub(super) fn trim_pages(&self) -> Range<u64> {
        self.trim_log.low_water()..self.trim_log.next()
    }

    /// Numbers journal pages for all pending changes, to be programmed when the data of the changes is. Returns
    /// the range of their numbers: all journal pages so far are before its end.
    pub(super) fn number_journal_pages(&mut self) -> Range<u64> {
        let Some(journal) = &mut self.journal else { return 0..0 };
        let first = journal.log.next();
        while journal.pending > 0 {
            journal.pending = journal.pending.saturating_sub(journal.changes_per_page);
            journal.log.begin();
        }
        first..journal.log.next()
    }

    /// Returns the trim records that no programmed page holds.
    pub(super) fn trims_in_ram(&self) -> Vec<TrimRecord> {
        let in_flight = self.records_in_flight.iter().flat_map(|it| &it.1);
        in_flight.chain(&self.records).copied().collect()
    }

    /// After a power cut: continues after `checkpoint_pages` pages of the saved map.
    pub(super) fn continue_from(&mut self, checkpoint_pages: u64) {
        if let Some(checkpoints) = &mut self.checkpoints {
            checkpoints.continue_from(checkpoint_pages);
        }
    }

    /// Writes the state of a drive that was shut down and has programmed `journal_pages` pages of the journal.
    pub(super) fn save(
        &self,
        to: &mut Encoder<'_>,
        journal_pages: u64,
    ) -> Result<(), SnapshotError> {
        let Metadata {
            // From the configuration.
            waits: _,
            write_through: _,
            program: _,
            // Unused after a shutdown.
            records_in_flight: _,
            map_pages_in_flight: _,
            latest: _,
            records,
            trim_log,
            barriers,
            checkpoints,
            journal,
        } = self;
        let is_over = |log: &ProgramLog| log.low_water() == log.next();
        assert!(
            records.is_empty() && is_over(trim_log) && barriers.is_empty(),
            "the drive was shut down"
        );
        if let Some(checkpoints) = checkpoints {
            checkpoints.save(to)?;
        }
        if let Some(journal) = journal {
            let is_done = journal.pending == 0 && journal.full.is_empty();
            assert!(is_done && is_over(&journal.log), "the drive was shut down");
            to.long(journal_pages)?;
            // This field once held the moment at which all pages were programmed, for drives whose requests
            // were computed directly.
            to.long(0)?;
        }
        Ok(())
    }

    pub(super) fn restore(&mut self, from: &mut Decoder<'_>) -> Result<(), SnapshotError> {
        if let Some(checkpoints) = &mut self.checkpoints {
            checkpoints.restore(from)?;
        }
        if self.journal.is_some() {
            // The number of pages is in the counters, too, and all pages were programmed.
            let (_pages, _programmed_until) = (from.long()?, from.long()?);
        }
        Ok(())
    }
}

impl<M: Mapping, D: Media> Ftl<M, D> {
    /// Notes that `changes` entries of the map have changed with the program unit of sequence number `number`.
    /// `program` is its number if it is one of the host's in flight; `None` if the program unit has completed.
    #[inline(always)]
    pub(super) fn map_changed(
        &mut self,
        nand: &mut Nand,
        changes: u32,
        number: SequenceNumber,
        program: Option<u64>,
    ) {
        if self.metadata.journal.is_some() || self.metadata.checkpoints.is_some() {
            self.metadata.latest = number;
            self.journal_changes(nand, changes, program);
        }
    }

    #[inline(never)]
    fn journal_changes(&mut self, nand: &mut Nand, changes: u32, program: Option<u64>) {
        let checkpoint_pages =
            self.metadata.checkpoints.as_mut().map_or(0, |it| it.due_pages(changes));
        for _ in 0..checkpoint_pages {
            let number = self.counters.checkpoint_pages;
            self.counters.checkpoint_pages += 1;
            let tag = self.program_metadata_page(nand, kind::MAP_CHECKPOINT, number);
            // A page of the saved map covers nothing that is not programmed.
            let oldest =
                self.oldest_not_journaled().into_iter().chain(self.placement.oldest_full()).min();
            self.note_map_page(tag, oldest);
        }
        let Some(journal) = &mut self.metadata.journal else { return };
        journal.pending += u64::from(changes);
        if journal.pending < journal.changes_per_page {
            return;
        }
        journal.pending -= journal.changes_per_page;
        let page = journal.log.begin();
        match program {
            Some(program) => journal.full.push_back((page, program)),
            None => self.program_journal_page(nand, page),
        }
    }

    /// Programs the full journal pages whose data is programmed.
    pub(super) fn program_full_journal_pages(&mut self, nand: &mut Nand) {
        let low = self.placement.numbers_in_flight().start;
        while let Some(journal) = &mut self.metadata.journal
            && let Some((page, _)) = journal.full.pop_front_if(|it| it.1 < low)
        {
            self.program_journal_page(nand, page);
        }
    }

    pub(super) fn program_journal_page(&mut self, nand: &mut Nand, page: u64) {
        // The page is counted after its place was found, which depends on the number of pages so far.
        let tag = self.program_metadata_page(nand, kind::JOURNAL, page);
        self.counters.journal_pages += 1;
        let is_behind = self.metadata.journal.as_ref().is_some_and(|it| it.pending > 0);
        let latest = is_behind.then_some(self.metadata.latest);
        let oldest = self.oldest_not_journaled().into_iter().chain(latest).min();
        self.note_map_page(tag, oldest);
    }

    /// Returns the smallest sequence number of a program unit of copies or of a run that has not completed, and
    /// so is missing in the journal.
    fn oldest_not_journaled(&self) -> Option<SequenceNumber> {
        let oldest = [self.collector.copies.oldest_in_flight(), self.compactor.oldest()];
        oldest.into_iter().flatten().min()
    }

    /// Records that the page in flight as `tag` covers all program units before `oldest_missing`, or all so far if it
    /// is `None`.
    fn note_map_page(&mut self, tag: Tag, oldest_missing: Option<SequenceNumber>) {
        let latest = self.placement.latest_number();
        let before = |number: SequenceNumber| SequenceNumber(number.0.saturating_sub(1));
        let through = oldest_missing.map_or(latest, before).min(latest);
        self.metadata.map_pages_in_flight.push((tag, through));
    }

    /// Records that `units` units from `first` were trimmed. A full page of records is programmed.
    pub(super) fn record_trim(&mut self, nand: &mut Nand, first: LogicalUnit, units: u32) {
        let number = self.placement.next_number();
        self.metadata.records.push(TrimRecord { first, units, number });
        let page = self.geometry.parameters().page_size;
        if self.metadata.records.len() as u64 >= page.covering(RECORD) {
            self.make_trims_durable(nand);
        }
    }

    /// Programs the records of all trims so far.
    pub(super) fn make_trims_durable(&mut self, nand: &mut Nand) {
        if self.metadata.records.is_empty() {
            return;
        }
        let page = self.metadata.trim_log.begin();
        let tag = self.program_metadata_page(nand, kind::TRIMS, page);
        self.counters.trim_pages += 1;
        let records = std::mem::take(&mut self.metadata.records);
        self.metadata.records_in_flight.push((tag, records));
    }

    /// Programs the trim records so far. Returns the number before which all pages of trim records must be
    /// programmed before a block that is reclaimed now is erased. Returns 0 and programs nothing if the buffer
    /// survives a power cut.
    pub(super) fn trims_before_erase(&mut self, nand: &mut Nand) -> u64 {
        if !self.placement.is_volatile() {
            return 0;
        }
        self.make_trims_durable(nand);
        self.metadata.trim_pages().end
    }

    /// Returns true if the pages of trim records before number `pages` are programmed.
    #[inline(always)]
    pub(super) fn are_trims_durable(&self, pages: u64) -> bool {
        self.metadata.trim_log.low_water() >= pages
    }

    fn program_metadata_page(&mut self, nand: &mut Nand, kind: u32, number: u64) -> Tag {
        let (die, after) = self.begin_metadata_page(nand);
        let tag = Tag(kind | number as u32 & kind::NUMBER);
        let (units, program) = (self.geometry.units_per_page(), self.metadata.program);
        nand.program(tag, ProgramUnit { unit: self.unit_on(die), units, program, after });
        tag
    }

    /// Returns a data unit on `die`, to stand for a metadata page: metadata blocks have no units of their own.
    pub(super) fn unit_on(&self, die: DieIndex) -> PhysicalUnit {
        let stripe = self.geometry.stripe();
        let (group, lane) = (die.0 / stripe, die.0 % stripe);
        let block = BlockIndex(group * self.geometry.blocks_per_group());
        PhysicalUnit(self.geometry.first_unit(block).0 + lane * self.geometry.units_per_program())
    }

    /// Prepares the place of the next metadata page. Returns its die, and the erase that its program waits for.
    fn begin_metadata_page(&mut self, nand: &mut Nand) -> (DieIndex, Option<EraseId>) {
        let page = self.counters.metadata_pages();
        self.counters.program_units_metadata += u64::from(self.geometry.units_per_page());
        let blocks = u64::from(self.geometry.parameters().metadata_collection_units);
        let per_block = pages_per_metadata_unit(&self.geometry);
        if blocks == 0 || self.map.cache().is_some() {
            return (DieIndex((page % u64::from(self.geometry.dies())) as u32), None);
        }
        let group = (page / per_block % blocks) as u32 % self.geometry.groups();
        let stripe = self.geometry.stripe();
        let die = DieIndex(group * stripe + (page % u64::from(stripe)) as u32);
        if !page.is_multiple_of(per_block) || page < per_block * blocks {
            return (die, None);
        }
        self.counters.metadata_erases += 1;
        let first = group * stripe;
        let erase = nand.announce_erase(DieIndex(first)..DieIndex(first + stripe));
        nand.erase(erase, self.timing.erase);
        (die, Some(erase))
    }

    /// Notes that a metadata page is programmed.
    pub(super) fn metadata_programmed(&mut self, context: &mut Context<'_>, tag: Tag) {
        let pages = &mut self.metadata.map_pages_in_flight;
        if let Some(place) = pages.iter().position(|it| it.0 == tag) {
            let (_, through) = pages.swap_remove(place);
            let is_checkpoint = tag.0 & !kind::NUMBER == kind::MAP_CHECKPOINT;
            let page = if is_checkpoint { MapPage::Piece } else { MapPage::Journal };
            self.media.map_page_programmed(page, through);
        }
        let pages = &mut self.metadata.records_in_flight;
        if let Some(place) = pages.iter().position(|it| it.0 == tag) {
            let (_, records) = pages.swap_remove(place);
            self.media.trims_recorded(&records);
        }
        let log = match tag.0 & !kind::NUMBER {
            kind::BAD_BLOCK => return self.failure_recorded(context.nand),
            kind::JOURNAL => self.metadata.journal.as_mut().map(|journal| &mut journal.log),
            kind::TRIMS => Some(&mut self.metadata.trim_log),
            _ => None,
        };
        if let Some(log) = log {
            log.end(number_of(tag, log.low_water()));
            self.note_durable(context);
        }
    }
}
