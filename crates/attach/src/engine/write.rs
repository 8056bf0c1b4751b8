//! Writing.

use std::time::Instant as HostInstant;

use ssdlab_units::{Instant, LogicalUnit};

use super::requests::{SCRATCH, Scratch, sectors};
use super::{Answer, Engine, Errno, Kind, errno};
use crate::store::receive::{Piece, Received};

impl Engine {
    /// Writes `data` at `offset`, with `fua` so that it is durable when answered.
    ///
    /// A drive with capacitors is given no more at a time than its buffer holds: whatever is in there
    /// has to fit into the image when an erase wants it saved.
    ///
    /// # Errors
    /// Behind the end of the drive; when the image cannot be written (nothing is written then, but for
    /// what a buffer holds and more of a request); after a power cut.
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
        let most = (u64::from(self.configuration.buffer.units - 1) * self.unit) as usize;
        if !self.protected || data.len() <= most {
            return self.write_piece(came, offset, data, fua);
        }
        let mut answer = Answer { at: Instant::START };
        for (at, piece) in (offset..).step_by(most).zip(data.chunks(most)) {
            let next = self.write_piece(came, at, piece, fua)?;
            answer.at = answer.at.max(next.at);
        }
        Ok(answer)
    }

    fn write_piece(
        &self,
        came: HostInstant,
        offset: u64,
        data: &[u8],
        fua: bool,
    ) -> Result<Answer, Errno> {
        SCRATCH.with(|scratch| {
            let Scratch { sums, pieces, .. } = &mut *scratch.borrow_mut();
            sums.clear();
            let within = offset % self.unit;
            let head = if within == 0 { 0 } else { (self.unit - within) as usize };
            let whole = data.get(head..).unwrap_or_default().chunks_exact(self.unit as usize);
            sums.extend(whole.map(crc32fast::hash));
            self.write_with_sums(came, offset, data, fua, sums, pieces)
        })
    }

    fn write_with_sums(
        &self,
        came: HostInstant,
        offset: u64,
        data: &[u8],
        fua: bool,
        sums: &[u32],
        pieces: &mut Vec<Piece>,
    ) -> Result<Answer, Errno> {
        let (size, length) = (self.unit, data.len() as u64);
        let (first, last) = (self.unit_of(offset), self.unit_of(offset + length - 1));
        let mut inner = self.lock();
        let arrived = inner.begin(self, came)?;
        inner.admit_write(self, arrived)?;
        inner.make_room(last.0 - first.0 + 1).map_err(|error| errno(&error))?;
        inner.record(Kind::Write, offset, length);
        let mut merged: [Option<(LogicalUnit, Vec<u8>, u32)>; 2] = [None, None];
        for (unit, merged) in [first, last].into_iter().zip(&mut merged) {
            let begin = u64::from(unit.0) * size;
            let is_whole = begin >= offset && begin + size <= offset + length;
            if !is_whole {
                let mut bytes = vec![0; size as usize];
                inner.read_unit(self, unit, &mut bytes)?;
                let from = offset.max(begin);
                let until = (offset + length).min(begin + size);
                bytes[(from - begin) as usize..(until - begin) as usize]
                    .copy_from_slice(&data[(from - offset) as usize..(until - offset) as usize]);
                let sum = crc32fast::hash(&bytes);
                *merged = Some((unit, bytes, sum));
            }
        }
        let (sector, count) = sectors(offset, length);
        let at = inner.model.write(arrived, sector, count, fua);
        let first_whole = offset.div_ceil(size);
        inner.model.store().take_over(data, pieces, |unit| {
            let part = merged.iter().flatten().find(|(of, ..)| *of == unit);
            match part {
                Some((_, bytes, sum)) => Received::Merged(bytes, *sum),
                None => Received::Part {
                    from: (u64::from(unit.0) * size - offset) as usize,
                    sum: sums[(u64::from(unit.0) - first_whole) as usize],
                },
            }
        });
        let answer = inner.end(Kind::Write, length, arrived, at);
        // What somebody else makes durable meanwhile is what was promised to them.
        let promised = inner.model.store().take_promised();
        let keep = fua && self.protected;
        if !pieces.is_empty() {
            drop(inner);
            let write = |data: &[u8], at| self.file.write_all_at(data, at);
            let are_written = self.arrivals.bring(pieces, data, write);
            if are_written && promised.is_none() && !keep {
                return Ok(answer);
            }
            inner = self.lock();
            inner.model.store().take_back();
        }
        self.keep_promise(inner, promised, keep)?;
        Ok(answer)
    }
}
