//! Reads: with a copy, spliced from the image through a pipe, or sent in place from a mapping of the image.

use std::io::IoSlice;
use std::sync::PoisonError;
use std::time::Instant as HostInstant;

use ssdlab_units::LogicalUnit;

use super::in_flight::Request;
use super::requests::{SCRATCH, Scratch, sectors};
use super::{Answer, Engine, Errno, Inner, Kind, Submitted, Time, errno};
use crate::mapped_image::{PAGE, SendPieces};
use crate::pipe::Pipe;
use crate::store::Place;

/// A contiguous segment of the image that belongs to a read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Segment {
    /// Beginning in the image, in bytes.
    at: u64,
    /// Index of its first unit in the request.
    unit: usize,
    units: usize,
}

/// Maximum number of pieces in one system call (`UIO_MAXIOV`), less one for a header.
const IO_VECTORS_MAX: usize = 1023;

/// Way of the data to the client. Those without a copy need all of it to be in the image, and fast time.
enum ReadPath<'a> {
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
    pub fn read(
        &self,
        host_arrival: HostInstant,
        offset: u64,
        data: &mut [u8],
    ) -> Result<Answer, Errno> {
        self.check_range(offset, data.len() as u64)?;
        if data.is_empty() {
            return Ok(Answer { at: self.lock().busy_until });
        }
        let submitted = self.submit_read(host_arrival, offset, data)?;
        self.wait_for(submitted)
    }

    /// Submits a read of `data.len()` bytes from `offset`. The bytes are in `data` when this returns, as all
    /// earlier writes left them; they may be used when the read is answered.
    ///
    /// # Errors
    /// As [`Engine::read`].
    pub fn submit_read(
        &self,
        host_arrival: HostInstant,
        offset: u64,
        data: &mut [u8],
    ) -> Result<Submitted, Errno> {
        self.check_range(offset, data.len() as u64)?;
        if data.is_empty() {
            return Ok(Submitted::Answered(Answer { at: self.lock().busy_until }));
        }
        if self.is_whole(offset, data) {
            return self.read_units(
                host_arrival,
                offset,
                offset,
                data.len() as u64,
                data,
                ReadPath::Copy,
            );
        }
        let from = offset - offset % self.unit;
        let end = (offset + data.len() as u64).next_multiple_of(self.unit);
        let mut whole = vec![0; (end - from) as usize];
        let submitted = self.read_units(
            host_arrival,
            from,
            offset,
            data.len() as u64,
            &mut whole,
            ReadPath::Copy,
        )?;
        data.copy_from_slice(&whole[(offset - from) as usize..][..data.len()]);
        Ok(submitted)
    }

    fn is_whole(&self, offset: u64, data: &[u8]) -> bool {
        (offset | data.len() as u64).is_multiple_of(self.unit)
    }

    /// Returns true if a read may bypass `data`: in fast time, for whole units that are whole memory pages.
    fn may_bypass_buffer(&self, offset: u64, data: &[u8]) -> bool {
        let is_fast = self.clock.time() == Time::Fast;
        is_fast && !data.is_empty() && self.is_whole(offset, data) && self.unit.is_multiple_of(PAGE)
    }

    /// Reads `data.len()` bytes from `offset`: into `pipe`, which has to be empty, if all of them are in the
    /// image and time is fast; otherwise into `data`.
    ///
    /// # Errors
    /// As [`Engine::read`].
    pub fn read_into_pipe(
        &self,
        host_arrival: HostInstant,
        offset: u64,
        data: &mut [u8],
        pipe: &mut Pipe,
    ) -> Result<Answer, Errno> {
        let may = self.keeps_pages && data.len() <= pipe.capacity();
        if !may || !self.may_bypass_buffer(offset, data) {
            return self.read(host_arrival, offset, data);
        }
        self.check_range(offset, data.len() as u64)?;
        let length = data.len() as u64;
        let read =
            self.read_units(host_arrival, offset, offset, length, data, ReadPath::Pipe(pipe))?;
        self.wait_for(read)
    }

    /// Reads `data.len()` bytes from `offset`. If all of them are in a mapped image and time is fast, hands
    /// them to `send` in place; otherwise copies them into `data`.
    ///
    /// # Errors
    /// As [`Engine::read`]; nothing was sent in that case.
    pub fn read_or_send(
        &self,
        host_arrival: HostInstant,
        offset: u64,
        data: &mut [u8],
        send: SendPieces<'_>,
    ) -> Result<Answer, Errno> {
        if self.mapped.is_none() || !self.may_bypass_buffer(offset, data) {
            return self.read(host_arrival, offset, data);
        }
        self.check_range(offset, data.len() as u64)?;
        let length = data.len() as u64;
        let read =
            self.read_units(host_arrival, offset, offset, length, data, ReadPath::InPlace(send))?;
        self.wait_for(read)
    }

    /// Reads whole units from `from` for a request of `length` bytes from `offset`. The data goes the given
    /// `read_path` if all of it is in the image; otherwise into `data`.
    fn read_units(
        &self,
        host_arrival: HostInstant,
        from: u64,
        offset: u64,
        length: u64,
        data: &mut [u8],
        read_path: ReadPath<'_>,
    ) -> Result<Submitted, Errno> {
        SCRATCH.with(|scratch| {
            let Scratch { segments, sums, .. } = &mut *scratch.borrow_mut();
            segments.clear();
            sums.clear();
            let mut inner = self.lock();
            let arrived = inner.begin_request(self, host_arrival)?;
            inner.record(Kind::Read, offset, length);
            let (first, count) = sectors(offset, length);
            let command = inner.model.read_command(first, count);
            let submitted = if self.clock.time() == Time::Fast {
                let at = inner.execute(arrived, command, None, None)?;
                Submitted::Answered(inner.record_answer(Kind::Read, length, arrived, at))
            } else {
                let tag = inner.send(Request::new(Kind::Read, length, arrived), command);
                Submitted::Waiting(inner.in_flight.ticket(tag))
            };
            let transferred = self.gather_segments(&mut inner, from, data, segments, sums);
            if transferred.is_err() || segments.is_empty() {
                self.release(inner);
                return self.end_submission(submitted, transferred);
            }
            let in_image: usize = segments.iter().map(|it| it.units).sum();
            let is_all = in_image * self.unit as usize == data.len();
            let read_path = if is_all { read_path } else { ReadPath::Copy };
            if let ReadPath::Pipe(_) = read_path {
                for it in &*segments {
                    inner.model.store().note_spliced(it.at, it.units as u64 * self.unit);
                }
            }
            // While this is held, none of the segments is overwritten or punched out.
            let reading = self.gate.read().unwrap_or_else(PoisonError::into_inner);
            self.release(inner);
            let transferred = self.transfer(data, segments, sums, read_path);
            drop(reading);
            self.end_submission(submitted, transferred)
        })
    }

    /// Returns the submitted read if fetching its data succeeded; otherwise the error, and drops the read's
    /// outcome.
    fn end_submission(
        &self,
        submitted: Submitted,
        transferred: Result<(), Errno>,
    ) -> Result<Submitted, Errno> {
        if let (Err(_), Submitted::Waiting(ticket)) = (&transferred, &submitted) {
            self.lock().in_flight.discard_outcome(ticket);
        }
        transferred.map(|()| submitted)
    }

    /// Compares `segments` of the image with their checksums `sums`, and moves their data the given `read_path`.
    fn transfer(
        &self,
        data: &mut [u8],
        segments: &[Segment],
        sums: &[u32],
        read_path: ReadPath<'_>,
    ) -> Result<(), Errno> {
        match (read_path, &self.mapped) {
            (ReadPath::Pipe(pipe), _) => {
                if self.splice_into(pipe, segments).is_err() {
                    return self.verify_segments(data, segments, sums, false);
                }
                let checked = self.verify_segments(data, segments, sums, true);
                if checked.is_err() {
                    pipe.empty().map_err(|error| errno(&error))?;
                }
                checked
            }
            (ReadPath::InPlace(send), Some(mapped)) if segments.len() <= IO_VECTORS_MAX => {
                let mut sums = sums.iter();
                let mut pieces = Vec::with_capacity(segments.len());
                for segment in segments {
                    let length = segment.units * self.unit as usize;
                    // SAFETY: the gate is held.
                    let bytes = unsafe { mapped.bytes(segment.at, length) };
                    self.verify(bytes, &mut sums)?;
                    pieces.push(IoSlice::new(bytes));
                }
                send(&pieces);
                Ok(())
            }
            _ => self.verify_segments(data, segments, sums, false),
        }
    }

    /// Splices `segments` of the image into `pipe`; leaves the pipe empty if that fails.
    fn splice_into(&self, pipe: &mut Pipe, segments: &[Segment]) -> std::io::Result<()> {
        let file = self.file.file().ok_or(std::io::ErrorKind::Unsupported)?;
        for segment in segments {
            let length = segment.units * self.unit as usize;
            if let Err(error) = pipe.fill(file, segment.at, length) {
                pipe.empty()?;
                return Err(error);
            }
        }
        Ok(())
    }

    /// Compares the units of `data` with the next checksums of `sums`.
    fn verify<'a>(
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

    /// Reads `segments` of the image and compares them with their checksums `sums`. Reads them to their places
    /// in `data`; with `only_check` each to the beginning of `data`, which stays in the processor's caches.
    fn verify_segments(
        &self,
        data: &mut [u8],
        segments: &[Segment],
        sums: &[u32],
        only_check: bool,
    ) -> Result<(), Errno> {
        let unit = self.unit as usize;
        let mut sums = sums.iter();
        for &Segment { at, unit: first, units } in segments {
            let first = if only_check { 0 } else { first };
            let data = &mut data[first * unit..(first + units) * unit];
            self.file.read_exact_at(data, at).map_err(|error| errno(&error))?;
            self.verify(data, &mut sums)?;
        }
        Ok(())
    }

    /// Copies units in RAM to `data`, and collects the segments of the image that hold the other units, with
    /// their checksums.
    fn gather_segments(
        &self,
        inner: &mut Inner,
        from: u64,
        data: &mut [u8],
        segments: &mut Vec<Segment>,
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
                    match segments.last_mut() {
                        Some(last)
                            if last.unit + last.units == index
                                && last.at + (last.units * size) as u64 == at =>
                        {
                            last.units += 1;
                        }
                        _ => segments.push(Segment { at, unit: index, units: 1 }),
                    }
                }
            }
        }
        Ok(())
    }
}
