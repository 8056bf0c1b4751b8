//! Writing.

use std::time::Instant as HostInstant;

use super::in_flight::Request;
use super::requests::{SCRATCH, Scratch, sectors};
use super::{Answer, Engine, Errno, Inner, Kind, Submitted, Time};
use crate::store::receive::{Payload, Piece};

impl Engine {
    /// Writes `data` at `offset`, with `fua` so that it is durable when answered.
    ///
    /// # Errors
    /// Behind the end of the drive; when the image cannot be written (nothing is written then, but for
    /// what a buffer holds and more of a request); when a unit that is written in part cannot be read; after a
    /// power cut.
    pub fn write(
        &self,
        came: HostInstant,
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
            return self.write_in_time(came, offset, data, fua);
        }
        SCRATCH.with(|scratch| {
            let Scratch { sums, pieces, .. } = &mut *scratch.borrow_mut();
            sums.clear();
            sums.extend(self.sums_of(offset, data));
            self.write_fast(came, Payload { offset, data, sums }, fua, pieces)
        })
    }

    /// The checksums of the whole units in `data`, which begins at `offset`.
    fn sums_of<'a>(&self, offset: u64, data: &'a [u8]) -> impl Iterator<Item = u32> + 'a {
        let within = offset % self.unit;
        let head = if within == 0 { 0 } else { (self.unit - within) as usize };
        let whole = data.get(head..).unwrap_or_default().chunks_exact(self.unit as usize);
        whole.map(crc32fast::hash)
    }

    fn write_fast(
        &self,
        came: HostInstant,
        payload: Payload<'_>,
        fua: bool,
        pieces: &mut Vec<Piece>,
    ) -> Result<Answer, Errno> {
        let Payload { offset, data, .. } = payload;
        let length = data.len() as u64;
        let mut inner = self.lock();
        let arrived = inner.begin(self, came)?;
        inner.admit_write(self, arrived)?;
        inner.record(Kind::Write, offset, length);
        inner.check_ends(self, offset, length)?;
        let (sector, count) = sectors(offset, length);
        let command = inner.model.write_command(sector, count, fua);
        let written = inner.carry_through(arrived, command, Some(payload), pieces);
        let outcome = written.map(|at| inner.end(Kind::Write, length, arrived, at));
        // What somebody else makes durable meanwhile is what was promised to them.
        let is_promised = self.writes_through || fua && self.flush_waits;
        let happened = is_promised.then(|| inner.model.store().happened());
        let keep = fua && self.protected;
        if !pieces.is_empty() {
            drop(inner);
            let write = |data: &[u8], at| self.file.write_all_at(data, at);
            let are_written = self.arrivals.bring(pieces, data, write);
            if are_written && happened.is_none() && !keep {
                return outcome;
            }
            inner = self.lock();
            inner.model.store().take_back();
        }
        let answer = outcome?;
        self.keep_promise(inner, happened, keep)?;
        Ok(answer)
    }

    fn write_in_time(
        &self,
        came: HostInstant,
        offset: u64,
        data: &[u8],
        fua: bool,
    ) -> Result<Answer, Errno> {
        let ticket = match self.submit_write(came, offset, data.into(), fua)? {
            Submitted::Answered(answer) => return Ok(answer),
            Submitted::Waiting(ticket) => ticket,
        };
        let answered = self.wait(&ticket)?;
        if self.makes_durable(fua) {
            let is_promised = self.writes_through || fua && self.flush_waits;
            let happened = is_promised.then_some(answered.happened);
            self.keep_promise(self.lock(), happened, fua && self.protected)?;
        }
        Ok(answered.answer)
    }

    /// Sends a write of `data` at `offset`. Where [`Engine::makes_durable`] says so, it is not durable when it is
    /// answered: [`Engine::write`] sees to that.
    ///
    /// # Errors
    /// As [`Engine::write`].
    pub fn submit_write(
        &self,
        came: HostInstant,
        offset: u64,
        data: Box<[u8]>,
        fua: bool,
    ) -> Result<Submitted, Errno> {
        if self.clock.time() == Time::Fast || data.is_empty() {
            return Ok(Submitted::Answered(self.write(came, offset, &data, fua)?));
        }
        self.check_writable()?;
        let length = data.len() as u64;
        self.check_range(offset, length)?;
        let sums = self.sums_of(offset, &data).collect();
        self.at_arrival(came, |inner, arrived| {
            inner.admit_write(self, arrived)?;
            inner.record(Kind::Write, offset, length);
            inner.check_ends(self, offset, length)?;
            let (sector, count) = sectors(offset, length);
            let command = inner.model.write_command(sector, count, fua);
            let payload = Some((offset, data, sums));
            let request = Request { payload, ..Request::new(Kind::Write, length, arrived) };
            let tag = inner.send(request, command);
            Ok(Submitted::Waiting(inner.in_flight.ticket(tag)))
        })
    }
}

impl Inner {
    /// Sees to it that what is written in part of a range can be read.
    fn check_ends(&mut self, engine: &Engine, offset: u64, length: u64) -> Result<(), Errno> {
        let (size, end) = (engine.unit, offset + length);
        let (first, last) = (engine.unit_of(offset), engine.unit_of(end - 1));
        if !offset.is_multiple_of(size) {
            self.check_unit(first, &mut vec![0; size as usize])?;
        }
        if !end.is_multiple_of(size) && (last != first || offset.is_multiple_of(size)) {
            self.check_unit(last, &mut vec![0; size as usize])?;
        }
        Ok(())
    }
}
