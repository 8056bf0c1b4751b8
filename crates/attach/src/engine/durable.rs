//! Flush, FUA and PLP: makes promised data durable in the image, and carries out flash operations on the image.

use std::time::Instant as HostInstant;

use ssdlab_model::ftl::Command;
use ssdlab_model::media::{SequenceNumber, TrimRecord};
use ssdlab_units::{LogicalUnit, PhysicalUnit};

use super::in_flight::Request;
use super::{Answer, Engine, Errno, Inner, Kind, Time, errno};
use crate::sync::MutexGuard;

/// Contents of a dump of the write buffer.
#[derive(Default)]
struct DumpContents {
    /// Units with their places and their numbers: a copy with a larger number is newer.
    units: Vec<(LogicalUnit, PhysicalUnit, SequenceNumber)>,
    /// Units that were trimmed.
    trimmed: Vec<LogicalUnit>,
}

impl Engine {
    /// Makes all writes durable that were answered before.
    ///
    /// # Errors
    /// Returns an error if the image cannot be made durable, and after a power cut.
    pub fn flush(&self, host_arrival: HostInstant) -> Result<Answer, Errno> {
        if self.clock.time() == Time::Fast {
            let mut inner = self.lock();
            let arrived = inner.begin_request(self, host_arrival)?;
            if let Some(failed) = self.group_commit.failed() {
                return Err(failed);
            }
            inner.record(Kind::Flush, 0, 0);
            let at = inner.execute(arrived, Command::Flush, None, None)?;
            let answer = inner.record_answer(Kind::Flush, 0, arrived, at);
            let op_count = inner.model.store().op_count();
            self.make_ops_durable(inner, self.flush_waits.then_some(op_count), self.has_plp)?;
            return Ok(answer);
        }
        let ticket = self.at_arrival(host_arrival, |inner, arrived| {
            if let Some(failed) = self.group_commit.failed() {
                return Err(failed);
            }
            inner.record(Kind::Flush, 0, 0);
            let tag = inner.send(Request::new(Kind::Flush, 0, arrived), Command::Flush);
            Ok(inner.in_flight.ticket(tag))
        })?;
        let answered = self.wait(&ticket)?;
        let op_count = self.flush_waits.then_some(answered.op_count);
        self.make_ops_durable(self.lock(), op_count, self.has_plp)?;
        Ok(answered.answer)
    }

    /// Makes the first `op_count` flash operations durable in the image, if that is given, and saves the write
    /// buffer if `save_plp` is set (PLP).
    pub(super) fn make_ops_durable<'a>(
        &'a self,
        mut inner: MutexGuard<'a, Inner>,
        op_count: Option<u64>,
        save_plp: bool,
    ) -> Result<(), Errno> {
        if op_count.is_none() && !save_plp {
            return Ok(());
        }
        if inner.is_cut {
            // Power was cut while the data was being written.
            return Err(Errno::IO);
        }
        if let Some(op_count) = op_count {
            inner = self.wait_for_helper(inner, op_count);
            if inner.is_cut || inner.is_closed {
                return Err(Errno::IO);
            }
            if !inner.model.store().is_carried_out(op_count) {
                inner.carry_out().map_err(|error| errno(&error))?;
            }
        }
        if save_plp {
            inner = self.save_plp_data(inner)?;
        }
        let stamp = inner.model.store().stamp();
        drop(inner);
        self.group_commit.wait_for(stamp)?;
        let mut inner = self.lock();
        inner.model.store().note_durable(stamp).map_err(|error| errno(&error))?;
        if inner.model.store().needs_trim_compaction() {
            inner.compact_trims().map_err(|error| errno(&error))?;
        }
        Ok(())
    }

    /// Saves to the image what PLP keeps: the buffer and all records of trims. Only one dump may be undurable
    /// at a time: threads that come meanwhile wait without the lock until it is durable. Then one of them
    /// writes the next dump for all of them, and the others return.
    fn save_plp_data<'a>(
        &'a self,
        mut inner: MutexGuard<'a, Inner>,
    ) -> Result<MutexGuard<'a, Inner>, Errno> {
        inner.carry_out().map_err(|error| errno(&error))?;
        let before = inner.model.store().dumps_written();
        while let Some(stamp) = inner.model.store().durable_before_dump() {
            drop(inner);
            self.group_commit.wait_for(stamp)?;
            inner = self.lock();
            if inner.is_cut || inner.is_closed {
                return Err(Errno::IO);
            }
            inner.model.store().note_durable(stamp).map_err(|error| errno(&error))?;
            if inner.model.store().dumps_written() > before {
                return Ok(inner);
            }
            inner.carry_out().map_err(|error| errno(&error))?;
        }
        inner.save_buffer().map_err(|error| errno(&error))?;
        Ok(inner)
    }
}

impl Inner {
    /// Carries out on the image what the drive has done to its flash, and saves the buffer where an erase waits
    /// for that.
    #[inline]
    pub(super) fn carry_out(&mut self) -> std::io::Result<()> {
        self.model.store().carry_out()?;
        while self.model.store().wants_buffer_saved() {
            self.save_buffer()?;
            let store = self.model.store();
            store.sync()?;
            store.allow_erases();
            store.carry_out()?;
        }
        Ok(())
    }

    /// Saves the buffer and all records of trims to the image, as PLP does at a power cut.
    pub(super) fn save_plp_data(&mut self) -> std::io::Result<()> {
        self.carry_out()?;
        self.save_buffer()
    }

    /// Writes the records of all trims and the buffer to the image, after a sync if the dump depends on
    /// something undurable. The records come first: so they are durable if the dump is.
    fn save_buffer(&mut self) -> std::io::Result<()> {
        let trims = self.model.unrecorded_trims();
        let store = self.model.store();
        if store.durable_before_dump().is_some() {
            store.sync()?;
        }
        store.append_trims(&trims)?;
        let mut saved = self.gather_dump();
        if !self.model.store().fits_into_dump(saved.units.len() + saved.trimmed.len()) {
            // After this sync, programmed units and trims need no place in the dump.
            self.model.store().sync()?;
            saved = self.gather_dump();
        }
        let latest = self.model.latest_number();
        self.model.store().save_buffer(&saved.units, &saved.trimmed, latest)
    }

    /// Returns the contents of the next dump.
    fn gather_dump(&mut self) -> DumpContents {
        let latest = self.model.latest_number();
        let has_trims = !self.model.store().are_trims_durable();
        let mut saved = DumpContents::default();
        for unit in self.model.store().undurable_units() {
            match self.model.place_of(unit) {
                Some(place) => {
                    let number = self.model.store().number_to_save(place, latest);
                    saved.units.extend(number.map(|number| (unit, place, number)));
                }
                // Without the dump's entry, an older copy would count again if a host crash loses the record of
                // the trim.
                None if has_trims => saved.trimmed.push(unit),
                None => {}
            }
        }
        saved
    }

    /// Replaces the log of trims by the records that still count (compaction).
    ///
    /// All copies of a unit that is unmapped now are dead, whatever their number: one record covers each
    /// stretch of such units. A unit that was trimmed and written again keeps its record until the new data is
    /// in the image.
    pub(super) fn compact_trims(&mut self) -> std::io::Result<()> {
        let number = self.model.latest_number();
        let recorded = self.model.store().recorded_trims()?;
        let mut in_buffer: Vec<u32> =
            self.model.store().staged_units().into_iter().map(|unit| unit.0).collect();
        in_buffer.sort_unstable();
        in_buffer.dedup();
        let mut records: Vec<TrimRecord> = Vec::new();
        for trim in recorded {
            let end = trim.first.0 + trim.units;
            let from = in_buffer.partition_point(|&unit| unit < trim.first.0);
            for &unit in in_buffer[from..].iter().take_while(|&&unit| unit < end) {
                records.push(TrimRecord { first: LogicalUnit(unit), units: 1, ..trim });
            }
        }
        let units = self.units;
        let mut first = 0;
        while first < units {
            let next = self.model.next_mapped(LogicalUnit(first));
            let end = next.map_or(units, |(unit, _)| unit.0);
            if end > first {
                records.push(TrimRecord { first: LogicalUnit(first), units: end - first, number });
            }
            first = end + 1;
        }
        self.model.store().replace_trims(&records)
    }
}
