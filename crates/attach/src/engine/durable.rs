//! Making durable what was promised to be, and doing to the image what the drive has done.

use std::sync::MutexGuard;
use std::time::Instant as HostInstant;

use ssdlab_model::media::TrimRecord;
use ssdlab_model::units::{Instant, LogicalUnit, PhysicalUnit};

use super::{Answer, Engine, Errno, Inner, Kind, errno};

impl Engine {
    /// Makes durable what was answered before.
    ///
    /// # Errors
    /// When the image cannot be made durable; after a power cut.
    pub fn flush(&self, came: HostInstant) -> Result<Answer, Errno> {
        let mut inner = self.lock();
        let arrived = inner.begin(self, came)?;
        if let Some(failed) = self.syncer.failed() {
            return Err(failed);
        }
        inner.record(Kind::Flush, 0, 0);
        let at = inner.model.flush(arrived);
        let answer = inner.end(Kind::Flush, 0, arrived, at);
        let promised = inner.model.store().take_promised();
        self.keep_promise(inner, promised, self.protected)?;
        Ok(answer)
    }

    /// Sees to it that what the model has `promised` is durable in the image, with the buffer
    /// where capacitors `keep` it.
    pub(super) fn keep_promise<'a>(
        &'a self,
        mut inner: MutexGuard<'a, Inner>,
        promised: Option<Instant>,
        keep: bool,
    ) -> Result<(), Errno> {
        if promised.is_none() && !keep {
            return Ok(());
        }
        if inner.is_cut {
            // Meanwhile, while data was on its way.
            return Err(Errno::IO);
        }
        if let Some(until) = promised {
            inner = self.be_helped(inner, until);
            if inner.is_cut || inner.is_closed {
                return Err(Errno::IO);
            }
        }
        if let Some(promised) = promised {
            inner.carry_out(promised).map_err(|error| errno(&error))?;
        }
        if keep {
            inner.keep_buffer().map_err(|error| errno(&error))?;
        }
        let stamp = inner.model.store().stamp();
        drop(inner);
        self.syncer.wait_for(stamp)?;
        let mut inner = self.lock();
        inner.model.store().note_durable(stamp).map_err(|error| errno(&error))?;
        if inner.model.store().trims_need_room() {
            inner.condense_trims().map_err(|error| errno(&error))?;
        }
        Ok(())
    }
}

impl Inner {
    /// Does to the image what the drive has done to its flash by `until`.
    #[inline]
    pub(super) fn carry_out(&mut self, until: Instant) -> std::io::Result<()> {
        self.model.store().carry_out(until)?;
        while self.model.store().wants_buffer_saved() {
            self.save_buffer()?;
            let store = self.model.store();
            store.sync()?;
            store.allow_erases();
            store.carry_out(until)?;
        }
        Ok(())
    }

    /// Sees to it that the buffer of a drive with capacitors can be saved at any time when the host has
    /// written so many units more, which its buffer holds.
    pub(super) fn make_room(&mut self, units: u32) -> std::io::Result<()> {
        while !self.model.store().could_save_with(units) {
            let Some(next) = self.model.store().next_due() else { break };
            self.carry_out(next)?;
        }
        Ok(())
    }

    /// Does what capacitors make possible: the buffer and all records of trims outlive a power cut.
    pub(super) fn keep_buffer(&mut self) -> std::io::Result<()> {
        self.carry_out(Instant::from_nanos(u64::MAX))?;
        self.save_buffer()
    }

    fn save_buffer(&mut self) -> std::io::Result<()> {
        let in_buffer = self.model.store().in_buffer();
        let mut units: Vec<LogicalUnit> =
            in_buffer.into_iter().map(|(logical, _)| logical).collect();
        units.sort_unstable_by_key(|unit| unit.0);
        units.dedup();
        let mut current: Vec<(LogicalUnit, PhysicalUnit)> = Vec::new();
        for unit in units {
            // It may have been copied before it was programmed.
            let place = self.model.place_of(unit);
            let place = place.filter(|&place| self.model.store().is_in_buffer(place));
            current.extend(place.map(|place| (unit, place)));
        }
        let number = self.model.latest_number();
        let trims = self.model.unrecorded_trims();
        let store = self.model.store();
        store.save_buffer(number, &current)?;
        store.append_trims(&trims)
    }

    /// Replaces the log of trims by what still counts of it.
    ///
    /// Copies of what is not mapped now are dead, whatever their number: that is one record for each
    /// stretch. A unit that was trimmed and written again keeps its record as long as what was
    /// written is not in the image.
    pub(super) fn condense_trims(&mut self) -> std::io::Result<()> {
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
            if self.model.place_of(LogicalUnit(first)).is_some() {
                first += 1;
                continue;
            }
            let begin = first;
            while first < units && self.model.place_of(LogicalUnit(first)).is_none() {
                first += 1;
            }
            records.push(TrimRecord { first: LogicalUnit(begin), units: first - begin, number });
        }
        self.model.store().replace_trims(&records)
    }
}
