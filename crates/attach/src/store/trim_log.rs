//! The log of trims.

use std::io;

use ssdlab_model::media::TrimRecord;

use super::Store;
use super::op_queue::FlashOp;
use super::stamps::LogEnds;
use crate::image::state::State;
use crate::image::trims::TrimLog;

impl Store {
    /// Adds trim records at the head of the queue to the log.
    pub(super) fn append_recorded_trims(&mut self) -> io::Result<()> {
        while let Some(FlashOp::Trims(records)) = self.op_queue.first() {
            let from = records.partition_point(|record| record.number.0 <= self.trims_until);
            if let records @ [_, ..] = &records[from..] {
                let outcome = self.trims.append(self.image.file(), &self.layout, records);
                self.has_failed_write = outcome.is_err();
                outcome?;
                self.note_trims_end();
            }
            let _ = self.op_queue.take();
        }
        Ok(())
    }

    fn note_trims_end(&mut self) {
        let end = self.trims.end();
        self.stamps.next_log_stamp(|ends| ends.trims = end);
    }

    /// Reads the log of trims in use and finds its end. Returns true if all of it is intact, in both copies.
    ///
    /// # Errors
    /// Returns an error if the log cannot be read.
    pub fn resume_trims(&mut self) -> io::Result<bool> {
        let promised = self.image.state().trims;
        let found = TrimLog::read(self.image.file(), &self.layout, promised)?;
        self.trims = found.log;
        Ok(found.damaged == 0 && !found.is_cut_short)
    }

    /// Adds records of trims to the log ahead of their turn: those that are programmed and wait in the queue,
    /// and the `unprogrammed` ones. Skips records that were added in this way before.
    ///
    /// # Errors
    /// Returns an error if the image cannot be written.
    pub fn append_trims(&mut self, unprogrammed: &[TrimRecord]) -> io::Result<()> {
        let programmed = self.op_queue.iter().filter_map(|op| match op {
            FlashOp::Trims(records) => Some(&records[..]),
            _ => None,
        });
        let mut records = programmed.flatten().chain(unprogrammed).copied().collect::<Vec<_>>();
        records.retain(|record| record.number.0 > self.trims_until);
        records.sort_unstable_by_key(|record| record.number);
        let Some(last) = records.last() else { return Ok(()) };
        self.finish_step()?;
        self.trims.append(self.image.file(), &self.layout, &records)?;
        self.trims_until = last.number.0;
        self.note_trims_end();
        Ok(())
    }

    /// Returns true if the log of trims is nearly full and should be compacted.
    pub fn needs_trim_compaction(&self) -> bool {
        !self.trims.has_free_space(&self.layout, 1 << 17)
    }

    /// Returns the records in the log of trims.
    ///
    /// # Errors
    /// Returns an error if the log cannot be read.
    pub fn recorded_trims(&self) -> io::Result<Vec<TrimRecord>> {
        let found = TrimLog::read(self.image.file(), &self.layout, self.trims.end())?;
        if found.is_cut_short {
            return Err(rustix::io::Errno::IO.into());
        }
        Ok(found.records)
    }

    /// Begins a new log of trims with `records`, and names it in the state.
    ///
    /// # Errors
    /// Returns an error if the image cannot be written; the old log then stays in use.
    pub fn replace_trims(&mut self, records: &[TrimRecord]) -> io::Result<()> {
        self.finish_step()?;
        let mut log = TrimLog::new(self.trims.number() + 1);
        let (from, length) = log.region(&self.layout);
        self.image.file().punch(from, length)?;
        for batch in records.chunks(1 << 16) {
            log.append(self.image.file(), &self.layout, batch)?;
        }
        let state = State { is_clean: false, ..self.image.state() };
        let ends = LogEnds { trims: log.end(), ..self.stamps.latest_ends() };
        self.set_state_with(state, ends)?;
        self.trims = log;
        Ok(())
    }
}
