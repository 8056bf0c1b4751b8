//! Reading, writing, flushing and trimming.

use std::cell::RefCell;
use std::os::unix::fs::FileExt;
use std::sync::{MutexGuard, PoisonError};

use ssdlab_model::media::TrimRecord;
use ssdlab_model::units::{Instant, LogicalUnit, PhysicalUnit, Sector, SectorCount};

use super::{Answer, Engine, Errno, Inner, Kind, errno};
use crate::pipe::Pipe;
use crate::store::Place;
use crate::store::receive::{Piece, Received};

/// A stretch of a read that lies in the image in one piece.
#[derive(Clone, Copy, Debug)]
struct Stretch {
    /// Where in the image.
    at: u64,
    /// Where in the request's units.
    unit: usize,
    units: usize,
}

/// Lists that requests need, kept so that they need not allocate.
#[derive(Default)]
struct Scratch {
    stretches: Vec<Stretch>,
    sums: Vec<u32>,
    pieces: Vec<Piece>,
}

/// What the system keeps files in memory by, at least.
const PAGE: u64 = 4096;

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

/// Sectors that a range of bytes touches.
fn sectors(offset: u64, length: u64) -> (Sector, SectorCount) {
    let size = Sector::SIZE.bytes();
    let (first, end) = (offset / size, (offset + length).div_ceil(size));
    (Sector(first), SectorCount(end - first))
}

impl Inner {
    /// Whether requests are taken, and the instant at which one arrives that comes now.
    fn begin(&mut self, engine: &Engine) -> Result<Instant, Errno> {
        if self.is_cut || self.is_closed {
            return Err(Errno::IO);
        }
        let at = engine.clock.now(self.busy_until).max(self.latest);
        self.rest_until(at, engine);
        self.latest = at;
        // What cannot be written now is written when there is room again; reads go on meanwhile.
        let _ = self.carry_out(at);
        Ok(at)
    }

    /// Notes a request in the recording, if there is one.
    #[inline]
    fn record(&mut self, kind: Kind, offset: u64, length: u64) {
        if let Some(trace) = &mut self.trace {
            trace.note(kind, offset, length);
        }
    }

    /// Tells the model of the pause since it was last busy, if it was long enough to be one.
    pub(super) fn rest_until(&mut self, at: Instant, engine: &Engine) {
        let idle = engine.configuration.buffer.idle_before_flush;
        if at > self.busy_until && at.since(self.busy_until) >= idle {
            self.model.rest(self.busy_until, at.since(self.busy_until));
            self.busy_until = at;
        }
    }

    fn end(&mut self, kind: Kind, bytes: u64, arrived: Instant, at: Instant) -> Answer {
        self.busy_until = self.busy_until.max(at);
        self.recorder.note(kind, bytes, at.since(arrived));
        Answer { at }
    }

    /// Whether a write is taken; says so before the model knows of it.
    fn admit_write(&mut self, engine: &Engine, at: Instant) -> Result<(), Errno> {
        if let Some(failed) = engine.syncer.failed() {
            return Err(failed);
        }
        if self.model.store().is_stuck() {
            self.carry_out(at).map_err(|error| errno(&error))?;
        }
        match &mut self.writes_left {
            Some(0) => {
                self.cut_power(engine, at);
                Err(Errno::IO)
            }
            Some(left) => {
                *left -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// What a unit holds now, into `data`.
    fn read_unit(&mut self, unit: LogicalUnit, data: &mut [u8]) -> Result<(), Errno> {
        match self.model.place_of(unit) {
            None => data.fill(0),
            Some(place) => {
                let sum = self.model.store().read_unit(place, data).map_err(|it| errno(&it))?;
                if crc32fast::hash(data) != sum {
                    return Err(Errno::IO);
                }
            }
        }
        Ok(())
    }
}

impl Engine {
    fn check_range(&self, offset: u64, length: u64) -> Result<(), Errno> {
        match offset.checked_add(length) {
            Some(end) if end <= self.capacity => Ok(()),
            _ => Err(Errno::INVAL),
        }
    }

    /// Reads from `offset` as many bytes as `data` has room for.
    ///
    /// # Errors
    /// Behind the end of the drive; when what is in the image is not what was written; after a
    /// power cut.
    pub fn read(&self, offset: u64, data: &mut [u8]) -> Result<Answer, Errno> {
        self.check_range(offset, data.len() as u64)?;
        if data.is_empty() {
            return Ok(Answer { at: self.lock().busy_until });
        }
        let is_whole = (offset | data.len() as u64).is_multiple_of(self.unit);
        if is_whole {
            return self.read_whole(offset, offset, data.len() as u64, data, None);
        }
        let from = offset - offset % self.unit;
        let end = (offset + data.len() as u64).next_multiple_of(self.unit);
        let mut whole = vec![0; (end - from) as usize];
        let answer = self.read_whole(from, offset, data.len() as u64, &mut whole, None)?;
        data.copy_from_slice(&whole[(offset - from) as usize..][..data.len()]);
        Ok(answer)
    }

    /// Reads from `offset` as many bytes as `data` has room for: into `pipe`, which is empty, if all of
    /// it lies in the image and nobody waits for the drive's time; into `data` otherwise.
    ///
    /// # Errors
    /// As [`Engine::read`].
    pub fn read_to(&self, offset: u64, data: &mut [u8], pipe: &mut Pipe) -> Result<Answer, Errno> {
        let whole = (offset | data.len() as u64).is_multiple_of(self.unit);
        let pages = self.unit.is_multiple_of(PAGE);
        let fits = !data.is_empty() && data.len() <= pipe.capacity();
        if !(whole && pages && fits && self.clock.time() == super::Time::Fast) {
            return self.read(offset, data);
        }
        self.check_range(offset, data.len() as u64)?;
        self.read_whole(offset, offset, data.len() as u64, data, Some(pipe))
    }

    /// Reads whole units from `from` into `data`, for a request of `length` bytes from `offset`; or all
    /// of them into `pipe`, if there is one and all lies in the image.
    fn read_whole(
        &self,
        from: u64,
        offset: u64,
        length: u64,
        data: &mut [u8],
        pipe: Option<&mut Pipe>,
    ) -> Result<Answer, Errno> {
        SCRATCH.with_borrow_mut(|scratch| {
            let Scratch { stretches, sums, .. } = scratch;
            stretches.clear();
            sums.clear();
            let mut inner = self.lock();
            let arrived = inner.begin(self)?;
            inner.record(Kind::Read, offset, length);
            let (first, count) = sectors(offset, length);
            let at = inner.model.read(arrived, first, count);
            let answer = inner.end(Kind::Read, length, arrived, at);
            self.gather(&mut inner, from, data, stretches, sums)?;
            if stretches.is_empty() {
                return Ok(answer);
            }
            let reading = self.gate.read().unwrap_or_else(PoisonError::into_inner);
            drop(inner);
            let in_image: usize = stretches.iter().map(|it| it.units).sum();
            let is_all = in_image * self.unit as usize == data.len();
            if let Some(pipe) = pipe.filter(|_| is_all)
                && self.fill(pipe, stretches).is_ok()
            {
                let checked = self.check_stretches(data, stretches, sums, true);
                if checked.is_err() {
                    pipe.empty().map_err(|error| errno(&error))?;
                }
                checked?;
            } else {
                self.check_stretches(data, stretches, sums, false)?;
            }
            drop(reading);
            Ok(answer)
        })
    }

    /// Puts `stretches` of the image into `pipe`, or nothing.
    fn fill(&self, pipe: &mut Pipe, stretches: &[Stretch]) -> std::io::Result<()> {
        for stretch in stretches {
            let length = stretch.units * self.unit as usize;
            if let Err(error) = pipe.fill(&self.file, stretch.at, length) {
                pipe.empty()?;
                return Err(error);
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
            for (data, sum) in data.chunks(unit).zip(&mut sums) {
                if crc32fast::hash(data) != *sum {
                    return Err(Errno::IO);
                }
            }
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
            let Some(place) = inner.model.place_of(LogicalUnit(first + index as u32)) else {
                data.fill(0);
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

    /// Writes `data` at `offset`, with `fua` so that it is durable when answered.
    ///
    /// # Errors
    /// Behind the end of the drive; when the image cannot be written (nothing is written then); after
    /// a power cut.
    pub fn write(&self, offset: u64, data: &[u8], fua: bool) -> Result<Answer, Errno> {
        self.check_range(offset, data.len() as u64)?;
        if data.is_empty() {
            return Ok(Answer { at: self.lock().busy_until });
        }
        SCRATCH.with_borrow_mut(|scratch| {
            let Scratch { sums, pieces, .. } = scratch;
            sums.clear();
            let within = offset % self.unit;
            let head = if within == 0 { 0 } else { (self.unit - within) as usize };
            let whole = data.get(head..).unwrap_or_default().chunks_exact(self.unit as usize);
            sums.extend(whole.map(crc32fast::hash));
            self.write_with_sums(offset, data, fua, sums, pieces)
        })
    }

    fn write_with_sums(
        &self,
        offset: u64,
        data: &[u8],
        fua: bool,
        sums: &[u32],
        pieces: &mut Vec<Piece>,
    ) -> Result<Answer, Errno> {
        let (size, length) = (self.unit, data.len() as u64);
        let (first, last) = (self.unit_of(offset), self.unit_of(offset + length - 1));
        let mut inner = self.lock();
        let arrived = inner.begin(self)?;
        inner.admit_write(self, arrived)?;
        inner.record(Kind::Write, offset, length);
        let mut merged: [Option<(LogicalUnit, Vec<u8>, u32)>; 2] = [None, None];
        for (unit, merged) in [first, last].into_iter().zip(&mut merged) {
            let begin = u64::from(unit.0) * size;
            let is_whole = begin >= offset && begin + size <= offset + length;
            if !is_whole {
                let mut bytes = vec![0; size as usize];
                inner.read_unit(unit, &mut bytes)?;
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

    /// Makes durable what was answered before.
    ///
    /// # Errors
    /// When the image cannot be made durable; after a power cut.
    pub fn flush(&self) -> Result<Answer, Errno> {
        let mut inner = self.lock();
        let arrived = inner.begin(self)?;
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
    fn keep_promise(
        &self,
        mut inner: MutexGuard<'_, Inner>,
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

    /// Forgets what the `length` bytes from `offset` held: they read as zeros from then on, in all
    /// whole units; with `exact` in the parts of units at both ends, too.
    ///
    /// # Errors
    /// Behind the end of the drive; when the image cannot be written; after a power cut.
    pub fn trim(&self, offset: u64, length: u64, exact: bool) -> Result<Answer, Errno> {
        self.check_range(offset, length)?;
        if length == 0 {
            return Ok(Answer { at: self.lock().busy_until });
        }
        let end = offset + length;
        let whole = offset.next_multiple_of(self.unit)..end - end % self.unit;
        let mut answer = None;
        if !whole.is_empty() || !exact {
            let mut inner = self.lock();
            let arrived = inner.begin(self)?;
            inner.admit_write(self, arrived)?;
            inner.record(Kind::Trim, offset, length);
            let (first, count) = sectors(offset, length);
            let at = inner.model.trim(arrived, first, count);
            answer = Some(inner.end(Kind::Trim, length, arrived, at));
            if inner.model.store().trims_need_room() {
                inner.condense_trims().map_err(|error| errno(&error))?;
            }
        }
        if exact {
            let parts = if whole.is_empty() {
                [offset..end, end..end]
            } else {
                [offset..whole.start, whole.end..end]
            };
            for part in parts {
                if !part.is_empty() {
                    let zeros = vec![0; (part.end - part.start) as usize];
                    answer = Some(self.write(part.start, &zeros, false)?);
                }
            }
        }
        Ok(answer.unwrap_or(Answer { at: Instant::START }))
    }

    /// Has the `length` bytes from `offset` read as zeros: by a trim where the drive carries those
    /// out and `may_trim` says so, by writing otherwise.
    ///
    /// # Errors
    /// As [`Engine::trim`] and [`Engine::write`].
    pub fn zero(&self, offset: u64, length: u64, may_trim: bool) -> Result<Answer, Errno> {
        if may_trim && self.trims {
            return self.trim(offset, length, true);
        }
        self.check_range(offset, length)?;
        let zeros = vec![0; length.min(1 << 20) as usize];
        let (mut at, end) = (offset, offset + length);
        let mut answer = Answer { at: Instant::START };
        while at < end {
            let count = (end - at).min(zeros.len() as u64);
            answer = self.write(at, &zeros[..count as usize], false)?;
            at += count;
        }
        Ok(answer)
    }

    /// Sees to what the drive does when nobody asks anything of it; to be called now and then.
    pub fn tick(&self) {
        let mut inner = self.lock();
        if inner.is_cut || inner.is_closed || self.clock.time() != super::Time::Real {
            return;
        }
        let at = self.clock.now(inner.busy_until).max(inner.latest);
        inner.rest_until(at, self);
        // What fails here fails again when somebody asks for it, and is told then.
        let _ = inner.carry_out(at);
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

    /// Does what capacitors make possible: the buffer and all records of trims outlive a power cut.
    pub(super) fn keep_buffer(&mut self) -> std::io::Result<()> {
        self.carry_out(Instant::from_nanos(u64::MAX))?;
        self.save_buffer()
    }

    fn save_buffer(&mut self) -> std::io::Result<()> {
        let in_buffer = self.model.store().in_buffer();
        let current: Vec<(LogicalUnit, PhysicalUnit)> = in_buffer
            .into_iter()
            .filter(|&(logical, place)| self.model.place_of(logical) == Some(place))
            .collect();
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
