//! Reads: with a copy, spliced from the image through a pipe, or sent in place from a mapping of the image.

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

/// A contiguous stretch of the image that belongs to a read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stretch {
    /// Beginning in the image, in bytes.
    at: u64,
    /// Index of its first unit in the request.
    unit: usize,
    units: usize,
}

/// Maximum number of pieces in one system call (`UIO_MAXIOV`), less one for a header.
const PIECES_MAX: usize = 1023;

/// Way of the data to the client. Those without a copy need all of it to be in the image, and fast time.
enum Way<'a> {
    /// With a copy, into the caller's buffer.
    Copy,
    /// Spliced from the image into this pipe, without a copy.
    Pipe(&'a mut Pipe),
    /// From the mapping of the image, without a copy.
    InPlace(SendPieces<'a>),
}

impl Engine {
    /// Reads `data.len()` bytes from `offset`.
    ///
    /// # Errors
    /// Returns an error if the range ends behind the drive, if data in the image does not match its checksum,
    /// and after a power cut.
    pub fn read(&self, came: HostInstant, offset: u64, data: &mut [u8]) -> Result<Answer, Errno> {
        self.check_range(offset, data.len() as u64)?;
        if data.is_empty() {
            return Ok(Answer { at: self.lock().busy_until });
        }
        let submitted = self.submit_read(came, offset, data)?;
        self.wait_for(submitted)
    }

    /// Submits a read of `data.len()` bytes from `offset`. The bytes are in `data` when this returns, as all
    /// earlier writes left them; they may be used when the read is answered.
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

    /// Returns true if a read may bypass `data`: in fast time, for whole units that are whole memory pages.
    fn may_go_past(&self, offset: u64, data: &[u8]) -> bool {
        let is_fast = self.clock.time() == Time::Fast;
        is_fast && !data.is_empty() && self.is_whole(offset, data) && self.unit.is_multiple_of(PAGE)
    }

    /// Reads `data.len()` bytes from `offset`: into `pipe`, which has to be empty, if all of them are in the
    /// image and time is fast; otherwise into `data`.
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

    /// Reads `data.len()` bytes from `offset`. If all of them are in a mapped image and time is fast, hands
    /// them to `send` in place; otherwise copies them into `data`.
    ///
    /// # Errors
    /// As [`Engine::read`]; nothing was sent in that case.
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

    /// Reads whole units from `from` for a request of `length` bytes from `offset`. The data goes the given
    /// `way` if all of it is in the image; otherwise into `data`.
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
            // While this is held, none of the stretches is overwritten or punched out.
            let reading = self.gate.read().unwrap_or_else(PoisonError::into_inner);
            self.release(inner);
            let fetched = self.fetch(data, stretches, sums, way);
            drop(reading);
            self.read_or_forget(submitted, fetched)
        })
    }

    /// Returns the submitted read if fetching its data succeeded; otherwise the error, and drops the read's
    /// outcome.
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

    /// Compares `stretches` of the image with their checksums `sums`, and moves their data the given `way`.
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

    /// Splices `stretches` of the image into `pipe`; leaves the pipe empty if that fails.
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

    /// Compares the units of `data` with the next checksums of `sums`.
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

    /// Reads `stretches` of the image and compares them with their checksums `sums`. Reads them to their places
    /// in `data`; with `only_check` each to the beginning of `data`, which stays in the processor's caches.
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

    /// Copies units in RAM to `data`, and collects the stretches of the image that hold the other units, with
    /// their checksums.
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
