//! Writes, with read-modify-write of partial units and FUA.

use std::time::Instant as HostInstant;

use ssdlab_units::Sector;

use super::execution::LATEST;
use super::in_flight::{Request, Written};
use super::requests::{SCRATCH, Scratch, sectors};
use super::{Answer, Engine, Errno, Inner, Kind, Submitted, Time};
use crate::store::receive::{Payload, Piece};

impl Engine {
    /// Writes `data` at `offset`; with `fua` the data is durable when the write is answered.
    ///
    /// # Errors
    /// Returns an error if the range ends behind the drive, if the image cannot be written, if a unit that is
    /// written in part cannot be read, and after a power cut. If earlier data still cannot be written to the
    /// image, nothing of the request is written.
    pub fn write(
        &self,
        host_arrival: HostInstant,
        offset: u64,
        data: &[u8],
        fua: bool,
    ) -> Result<Answer, Errno> {
        self.check_writable()?;
        self.check_range(offset, data.len() as u64)?;
        if data.is_empty() {
            return Ok(Answer { at: self.lock().busy_until });
        }
        if self.clock.time() == Time::Real {
            return self.write_real_time(host_arrival, offset, data, fua);
        }
        SCRATCH.with(|scratch| {
            let Scratch { sums, pieces, .. } = &mut *scratch.borrow_mut();
            sums.clear();
            sums.extend(self.sums_of(offset, data));
            self.write_fast(host_arrival, Payload { offset, data, sums }, fua, pieces)
        })
    }

    /// Returns true if a range begins or ends within a sector.
    fn is_sector_unaligned(&self, offset: u64, length: u64) -> bool {
        !(offset | length).is_multiple_of(Sector::SIZE.bytes())
    }

    /// Returns the checksums of the whole units in `data`, which begins at `offset`.
    fn sums_of<'a>(&self, offset: u64, data: &'a [u8]) -> impl Iterator<Item = u32> + 'a {
        let within = offset % self.unit;
        let head = if within == 0 { 0 } else { (self.unit - within) as usize };
        let whole = data.get(head..).unwrap_or_default().chunks_exact(self.unit as usize);
        whole.map(crc32fast::hash)
    }

    fn write_fast(
        &self,
        host_arrival: HostInstant,
        payload: Payload<'_>,
        fua: bool,
        pieces: &mut Vec<Piece>,
    ) -> Result<Answer, Errno> {
        let Payload { offset, data, .. } = payload;
        let length = data.len() as u64;
        let mut inner = self.lock();
        let arrived = inner.begin_request(self, host_arrival)?;
        inner.admit_write(self, arrived)?;
        inner.record(Kind::Write, offset, length);
        inner.check_partial_units(self, offset, length)?;
        let (sector, count) = sectors(offset, length);
        let command = inner.model.write_command(sector, count, fua);
        let (from, whole, sums);
        let mut payload = payload;
        if self.is_sector_unaligned(offset, length) {
            (from, whole) = inner.pad_to_sectors(self, offset, data)?;
            sums = self.sums_of(from, &whole).collect::<Vec<_>>();
            payload = Payload { offset: from, data: &whole, sums: &sums };
        }
        // Only the request's own data can be written ahead, not a copy with completed sectors.
        let ahead = (!self.is_sector_unaligned(offset, length)).then_some(&mut *pieces);
        let written = inner.execute(arrived, command, Some(payload), ahead);
        let outcome = written.map(|at| inner.record_answer(Kind::Write, length, arrived, at));
        // Flash operations of other threads after this point need not be durable for this write.
        let is_promised = self.writes_through || fua && self.flush_waits;
        let op_count = is_promised.then(|| inner.model.store().op_count());
        let save_plp = fua && self.has_plp;
        if !pieces.is_empty() {
            drop(inner);
            let write = |data: &[u8], at| self.file.write_all_at(data, at);
            let are_written = self.ahead_writes.write_pieces(pieces, data, write);
            if are_written && op_count.is_none() && !save_plp {
                return outcome;
            }
            inner = self.lock();
            inner.model.store().keep_unwritten_pieces();
        }
        let answer = outcome?;
        self.make_ops_durable(inner, op_count, save_plp)?;
        Ok(answer)
    }

    fn write_real_time(
        &self,
        host_arrival: HostInstant,
        offset: u64,
        data: &[u8],
        fua: bool,
    ) -> Result<Answer, Errno> {
        let ticket = match self.submit_write(host_arrival, offset, data.into(), fua)? {
            Submitted::Answered(answer) => return Ok(answer),
            Submitted::Waiting(ticket) => ticket,
        };
        let answered = self.wait(&ticket)?;
        if self.makes_durable(fua) {
            let is_promised = self.writes_through || fua && self.flush_waits;
            let op_count = is_promised.then_some(answered.op_count);
            self.make_ops_durable(self.lock(), op_count, fua && self.has_plp)?;
        }
        Ok(answered.answer)
    }

    /// Submits a write of `data` at `offset`. Its answer does not make it durable, even if
    /// [`Engine::makes_durable`] says so: [`Engine::write`] does that.
    ///
    /// # Errors
    /// As [`Engine::write`].
    pub fn submit_write(
        &self,
        host_arrival: HostInstant,
        offset: u64,
        data: Box<[u8]>,
        fua: bool,
    ) -> Result<Submitted, Errno> {
        if self.clock.time() == Time::Fast || data.is_empty() {
            return Ok(Submitted::Answered(self.write(host_arrival, offset, &data, fua)?));
        }
        self.check_writable()?;
        let length = data.len() as u64;
        self.check_range(offset, length)?;
        let sums = self.sums_of(offset, &data).collect();
        self.at_arrival(host_arrival, |inner, arrived| {
            inner.admit_write(self, arrived)?;
            inner.record(Kind::Write, offset, length);
            inner.check_partial_units(self, offset, length)?;
            let (sector, count) = sectors(offset, length);
            let command = inner.model.write_command(sector, count, fua);
            let mut written = Written { offset, data, sums };
            if self.is_sector_unaligned(offset, length) {
                let (from, whole) = inner.pad_to_sectors(self, offset, &written.data)?;
                let sums = self.sums_of(from, &whole).collect();
                written = Written { offset: from, data: whole.into(), sums };
            }
            let payload = Some(written);
            let request = Request { payload, ..Request::new(Kind::Write, length, arrived) };
            let tag = inner.send(request, command);
            Ok(Submitted::Waiting(inner.in_flight.ticket(tag)))
        })
    }
}

impl Inner {
    /// Returns `data` for `offset`, completed to whole sectors, and the beginning of the first of them: the
    /// drive knows nothing smaller. Before it reads the rest of those sectors, lets the drive's time pass until
    /// it has the data of writes in flight there.
    fn pad_to_sectors(
        &mut self,
        engine: &Engine,
        offset: u64,
        data: &[u8],
    ) -> Result<(u64, Vec<u8>), Errno> {
        let (sector, size) = (Sector::SIZE.bytes(), engine.unit);
        let end = offset + data.len() as u64;
        let (from, until) = (offset - offset % sector, end.next_multiple_of(sector));
        while self.in_flight.writes_to(from..until) && self.advance_to_answer(LATEST) {}
        let (mut whole, mut unit) = (vec![0; (until - from) as usize], vec![0; size as usize]);
        let cut = [(from, from < offset), (until - sector, end < until)];
        for (place, _) in cut.into_iter().filter(|(_, is_cut)| *is_cut) {
            self.read_unit(engine, engine.unit_of(place), &mut unit)?;
            let held = &unit[(place % size) as usize..][..sector as usize];
            whole[(place - from) as usize..][..sector as usize].copy_from_slice(held);
        }
        whole[(offset - from) as usize..][..data.len()].copy_from_slice(data);
        Ok((from, whole))
    }

    /// Returns an error if a unit that a range covers in part cannot be read.
    fn check_partial_units(
        &mut self,
        engine: &Engine,
        offset: u64,
        length: u64,
    ) -> Result<(), Errno> {
        let (size, end) = (engine.unit, offset + length);
        let (first, last) = (engine.unit_of(offset), engine.unit_of(end - 1));
        if !offset.is_multiple_of(size) {
            self.read_unit(engine, first, &mut vec![0; size as usize])?;
        }
        if !end.is_multiple_of(size) && (last != first || offset.is_multiple_of(size)) {
            self.read_unit(engine, last, &mut vec![0; size as usize])?;
        }
        Ok(())
    }
}
