//! Reading.

use std::io::IoSlice;
use std::sync::PoisonError;
use std::time::Instant as HostInstant;

use ssdlab_units::LogicalUnit;

use super::in_flight::Request;
use super::requests::{SCRATCH, Scratch, sectors};
use super::{Answer, Engine, Errno, Inner, Kind, Submitted, Time, errno};
use crate::memory::{PAGE, SendPieces};
use crate::pipe::Pipe;
use crate::store::Place;

/// A stretch of a read that lies in the image in one piece.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stretch {
    /// Where in the image.
    at: u64,
    /// Where in the request's units.
    unit: usize,
    units: usize,
}

/// Pieces that a system call takes at most (`UIO_MAXIOV`), less one for a header.
const PIECES_MAX: usize = 1023;

/// How a read is answered, where all of it lies in the image and nobody waits for the drive's time.
enum Way<'a> {
    /// With a copy, as otherwise.
    Copy,
    /// From a pipe that holds it.
    Pipe(&'a mut Pipe),
    /// From where it lies.
    InPlace(SendPieces<'a>),
}

impl Engine {
    /// Reads from `offset` as many bytes as `data` has room for.
    ///
    /// # Errors
    /// Behind the end of the drive; when what is in the image is not what was written; after a
    /// power cut.
    pub fn read(&self, came: HostInstant, offset: u64, data: &mut [u8]) -> Result<Answer, Errno> {
        self.check_range(offset, data.len() as u64)?;
        if data.is_empty() {
            return Ok(Answer { at: self.lock().busy_until });
        }
        let submitted = self.submit_read(came, offset, data)?;
        self.wait_for(submitted)
    }

    /// Sends a read from `offset` of as many bytes as `data` has room for. They are in `data` when this returns,
    /// as all writes left them that were answered before, and count when the read is answered.
    ///
    /// # Errors
    /// As [`Engine::read`].
    pub fn submit_read(
        &self,
        came: HostInstant,
        offset: u64,
        data: &mut [u8],
    ) -> Result<Submitted, Errno> {
        self.check_range(offset, data.len() as u64)?;
        if data.is_empty() {
            return Ok(Submitted::Answered(Answer { at: self.lock().busy_until }));
        }
        if self.is_whole(offset, data) {
            return self.read_whole(came, offset, offset, data.len() as u64, data, Way::Copy);
        }
        let from = offset - offset % self.unit;
        let end = (offset + data.len() as u64).next_multiple_of(self.unit);
        let mut whole = vec![0; (end - from) as usize];
        let submitted =
            self.read_whole(came, from, offset, data.len() as u64, &mut whole, Way::Copy)?;
        data.copy_from_slice(&whole[(offset - from) as usize..][..data.len()]);
        Ok(submitted)
    }

    fn is_whole(&self, offset: u64, data: &[u8]) -> bool {
        (offset | data.len() as u64).is_multiple_of(self.unit)
    }

    /// Returns true if a read may go past `data`.
    fn may_go_past(&self, offset: u64, data: &[u8]) -> bool {
        let is_fast = self.clock.time() == Time::Fast;
        is_fast && !data.is_empty() && self.is_whole(offset, data) && self.unit.is_multiple_of(PAGE)
    }

    /// Reads from `offset` as many bytes as `data` has room for: into `pipe`, which is empty, if all of
    /// it lies in the image and nobody waits for the drive's time; into `data` otherwise.
    ///
    /// # Errors
    /// As [`Engine::read`].
    pub fn read_to(
        &self,
        came: HostInstant,
        offset: u64,
        data: &mut [u8],
        pipe: &mut Pipe,
    ) -> Result<Answer, Errno> {
        let may = self.keeps_pages && data.len() <= pipe.capacity();
        if !may || !self.may_go_past(offset, data) {
            return self.read(came, offset, data);
        }
        self.check_range(offset, data.len() as u64)?;
        let length = data.len() as u64;
        let read = self.read_whole(came, offset, offset, length, data, Way::Pipe(pipe))?;
        self.wait_for(read)
    }

    /// Reads from `offset` as many bytes as `data` has room for: hands them to `send` from where they
    /// lie, if all of them lie in an image in memory and nobody waits for the drive's time; reads them
    /// into `data` otherwise.
    ///
    /// # Errors
    /// As [`Engine::read`]; nothing was sent then.
    pub fn read_or_send(
        &self,
        came: HostInstant,
        offset: u64,
        data: &mut [u8],
        send: SendPieces<'_>,
    ) -> Result<Answer, Errno> {
        if self.mapped.is_none() || !self.may_go_past(offset, data) {
            return self.read(came, offset, data);
        }
        self.check_range(offset, data.len() as u64)?;
        let length = data.len() as u64;
        let read = self.read_whole(came, offset, offset, length, data, Way::InPlace(send))?;
        self.wait_for(read)
    }

    /// Reads whole units from `from` for a request of `length` bytes from `offset`: into `data`, unless
    /// all can go another `way`.
    fn read_whole(
        &self,
        came: HostInstant,
        from: u64,
        offset: u64,
        length: u64,
        data: &mut [u8],
        way: Way<'_>,
    ) -> Result<Submitted, Errno> {
        SCRATCH.with(|scratch| {
            let Scratch { stretches, sums, .. } = &mut *scratch.borrow_mut();
            stretches.clear();
            sums.clear();
            let mut inner = self.lock();
            let arrived = inner.begin(self, came)?;
            inner.record(Kind::Read, offset, length);
            let (first, count) = sectors(offset, length);
            let command = inner.model.read_command(first, count);
            let submitted = if self.clock.time() == Time::Fast {
                let at = inner.carry_through(arrived, command, None, None)?;
                Submitted::Answered(inner.end(Kind::Read, length, arrived, at))
            } else {
                let tag = inner.send(Request::new(Kind::Read, length, arrived), command);
                Submitted::Waiting(inner.in_flight.ticket(tag))
            };
            let fetched = self.gather(&mut inner, from, data, stretches, sums);
            if fetched.is_err() || stretches.is_empty() {
                self.release(inner);
                return self.read_or_forget(submitted, fetched);
            }
            let in_image: usize = stretches.iter().map(|it| it.units).sum();
            let is_all = in_image * self.unit as usize == data.len();
            let way = if is_all { way } else { Way::Copy };
            if let Way::Pipe(_) = way {
                for it in &*stretches {
                    inner.model.store().lend(it.at, it.units as u64 * self.unit);
                }
            }
            // Nothing of it is written over or punched out until this is let go.
            let reading = self.gate.read().unwrap_or_else(PoisonError::into_inner);
            self.release(inner);
            let fetched = self.fetch(data, stretches, sums, way);
            drop(reading);
            self.read_or_forget(submitted, fetched)
        })
    }

    /// Returns the read that was sent, if its data was `fetched`.
    fn read_or_forget(
        &self,
        submitted: Submitted,
        fetched: Result<(), Errno>,
    ) -> Result<Submitted, Errno> {
        if let (Err(_), Submitted::Waiting(ticket)) = (&fetched, &submitted) {
            self.lock().in_flight.forget(ticket);
        }
        fetched.map(|()| submitted)
    }

    /// Compares `stretches` of the image with their `sums` and brings them the `way` they go.
    fn fetch(
        &self,
        data: &mut [u8],
        stretches: &[Stretch],
        sums: &[u32],
        way: Way<'_>,
    ) -> Result<(), Errno> {
        match (way, &self.mapped) {
            (Way::Pipe(pipe), _) => {
                if self.fill(pipe, stretches).is_err() {
                    return self.check_stretches(data, stretches, sums, false);
                }
                let checked = self.check_stretches(data, stretches, sums, true);
                if checked.is_err() {
                    pipe.empty().map_err(|error| errno(&error))?;
                }
                checked
            }
            (Way::InPlace(send), Some(mapped)) if stretches.len() <= PIECES_MAX => {
                let mut sums = sums.iter();
                let mut pieces = Vec::with_capacity(stretches.len());
                for stretch in stretches {
                    let length = stretch.units * self.unit as usize;
                    // SAFETY: the gate is held.
                    let bytes = unsafe { mapped.bytes(stretch.at, length) };
                    self.check(bytes, &mut sums)?;
                    pieces.push(IoSlice::new(bytes));
                }
                send(&pieces);
                Ok(())
            }
            _ => self.check_stretches(data, stretches, sums, false),
        }
    }

    /// Puts `stretches` of the image into `pipe`, or nothing.
    fn fill(&self, pipe: &mut Pipe, stretches: &[Stretch]) -> std::io::Result<()> {
        let file = self.file.file().ok_or(std::io::ErrorKind::Unsupported)?;
        for stretch in stretches {
            let length = stretch.units * self.unit as usize;
            if let Err(error) = pipe.fill(file, stretch.at, length) {
                pipe.empty()?;
                return Err(error);
            }
        }
        Ok(())
    }

    /// Compares the units of `data` with the next of `sums`.
    fn check<'a>(
        &self,
        data: &[u8],
        sums: &mut impl Iterator<Item = &'a u32>,
    ) -> Result<(), Errno> {
        for (data, sum) in data.chunks(self.unit as usize).zip(sums) {
            if crc32fast::hash(data) != *sum {
                return Err(Errno::IO);
            }
        }
        Ok(())
    }

    /// Reads `stretches` of the image to their places in `data`, or with `only_check` each to its
    /// beginning, where it stays in the processor's caches; and compares them with their `sums`.
    fn check_stretches(
        &self,
        data: &mut [u8],
        stretches: &[Stretch],
        sums: &[u32],
        only_check: bool,
    ) -> Result<(), Errno> {
        let unit = self.unit as usize;
        let mut sums = sums.iter();
        for &Stretch { at, unit: first, units } in stretches {
            let first = if only_check { 0 } else { first };
            let data = &mut data[first * unit..(first + units) * unit];
            self.file.read_exact_at(data, at).map_err(|error| errno(&error))?;
            self.check(data, &mut sums)?;
        }
        Ok(())
    }

    /// Copies what is in RAM to `data`, and says where the rest lies.
    fn gather(
        &self,
        inner: &mut Inner,
        from: u64,
        data: &mut [u8],
        stretches: &mut Vec<Stretch>,
        sums: &mut Vec<u32>,
    ) -> Result<(), Errno> {
        let (first, size) = (self.unit_of(from).0, self.unit as usize);
        for (index, data) in data.chunks_mut(size).enumerate() {
            let unit = LogicalUnit(first + index as u32);
            let Some(place) = inner.model.read_place_of(unit) else {
                data.fill(self.blank);
                continue;
            };
            match inner.model.store().locate(place).map_err(|error| errno(&error))? {
                Place::Ram(bytes) => data.copy_from_slice(bytes),
                Place::Image { at, sum } => {
                    sums.push(sum);
                    match stretches.last_mut() {
                        Some(last)
                            if last.unit + last.units == index
                                && last.at + (last.units * size) as u64 == at =>
                        {
                            last.units += 1;
                        }
                        _ => stretches.push(Stretch { at, unit: index, units: 1 }),
                    }
                }
            }
        }
        Ok(())
    }
}
