//! Taking over what the host has written.
//!
//! Small pieces are kept in RAM until their program unit is programmed. Large ones are written ahead:
//! straight to their place in the image, by whoever brought them, while others go on. What is there
//! before its record is, counts for nothing, so a crash leaves what a crash of the drive would.
//!
//! What the drive takes while time passes is noted in its order, with the request that it is of; the data is handed over
//! before anybody does or reads anything else ([`Store::take_over`]). A unit of which the host wrote a part is merged
//! then with what it held before.
//!
//! # When a place may be written ahead
//!
//! Only when what lay there is gone for good: no erase of that part of its block is announced, waits to be carried out or
//! for its records to be punched out, and no earlier life of the program unit is still to be programmed. Otherwise
//! what is there may be all that is durable of some unit, or what a copy is still to be made of. (The
//! drive begins to fill a block anew as soon as its erase is announced, so a place may have three lives under
//! way: one that is read for copies, one in RAM, and the next.) That is decided when the program unit is
//! begun, and stays true until it is programmed: an erase that is announced later is carried out later.
//!
//! A place is written once between two erases, and so may be read without a lock. The exception is a
//! unit of which the host writes a part while its program unit is filled: then it is in RAM again, and
//! what was written ahead is replaced when nobody reads it.
//!
//! # What is on its way
//!
//! A program unit counts the pieces that are on their way to it. Whoever wants its data waits for them
//! (`Store::settle`). The one who writes needs no lock of the drive's for that; a piece that could not
//! be written, because the disk is full, is handed back and kept in RAM like a small one.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, PoisonError};

use ssdlab_model::ftl::RequestTag;
use ssdlab_units::{LogicalUnit, PhysicalUnit};

use super::{Source, Staged, Store, alone};
use crate::sync::{Condvar, Mutex, MutexGuard};

/// Units that follow each other and are written ahead, at least: fewer cost less in RAM.
const AHEAD_MIN: usize = 4;

/// A unit that the model has received, and whose data was not handed over.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unit {
    pub(super) place: PhysicalUnit,
    pub(super) logical: LogicalUnit,
    /// The life of the program unit. A request that is long, to a drive that is small, may meet the
    /// same place twice.
    pub(super) life: u64,
    pub(super) by: RequestTag,
    pub(super) rest: Rest,
}

/// What a unit holds besides what the request has of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rest {
    /// Nothing: the request has all of it.
    None,
    /// What reads where nothing was written.
    Blank,
    /// What is here, in that life of the program unit if it was staged.
    At(PhysicalUnit, Option<u64>),
}

/// A copy whose data is to be taken out of the program unit that it was copied from.
#[derive(Clone, Copy, Debug)]
pub(super) struct TakenOut {
    pub(super) program: u32,
    pub(super) life: u64,
    pub(super) index: usize,
}

/// The data of a request that writes.
#[derive(Clone, Copy, Debug)]
pub struct Payload<'a> {
    /// Where it begins on the drive, in bytes.
    pub offset: u64,
    /// All of it.
    pub data: &'a [u8],
    /// The checksums of the whole units in it.
    pub sums: &'a [u32],
}

impl Payload<'_> {
    /// Returns where the whole unit `logical` lies in it, and its checksum.
    fn whole(&self, logical: LogicalUnit, size: u64) -> (usize, u32) {
        let first_whole = self.offset.div_ceil(size);
        let from = (u64::from(logical.0) * size - self.offset) as usize;
        (from, self.sums[(u64::from(logical.0) - first_whole) as usize])
    }

    /// Puts its part of the unit `logical` into `bytes`, which are all of that.
    fn put_part(&self, logical: LogicalUnit, bytes: &mut [u8]) {
        let begin = u64::from(logical.0) * bytes.len() as u64;
        let end = begin + bytes.len() as u64;
        let from = self.offset.max(begin);
        let until = (self.offset + self.data.len() as u64).min(end);
        bytes[(from - begin) as usize..(until - begin) as usize].copy_from_slice(
            &self.data[(from - self.offset) as usize..(until - self.offset) as usize],
        );
    }
}

/// A stretch of a request's data that is to be written to the image.
#[derive(Debug)]
pub struct Piece {
    /// Where in the request's data.
    from: usize,
    length: usize,
    /// Where in the image.
    at: u64,
    program: u32,
    life: u64,
    /// The first of its units in the program unit.
    index: usize,
    on_their_way: Arc<AtomicU32>,
}

/// A piece that could not be written.
#[derive(Debug)]
struct Returned {
    program: u32,
    life: u64,
    index: usize,
    data: Box<[u8]>,
}

/// What those who write pieces share with the store.
#[derive(Debug, Default)]
pub struct Arrivals {
    returned: Mutex<Vec<Returned>>,
    changed: Condvar,
}

impl Arrivals {
    fn lock(&self) -> MutexGuard<'_, Vec<Returned>> {
        self.returned.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes the pieces of `data` to their places with `write`, which is given what to put there and
    /// where in the image. Returns whether all could be; [`Store::take_back`] is due otherwise.
    pub fn bring(
        &self,
        pieces: &mut Vec<Piece>,
        data: &[u8],
        mut write: impl FnMut(&[u8], u64) -> std::io::Result<()>,
    ) -> bool {
        let (mut is_waited_for, mut are_written) = (false, true);
        for piece in pieces.drain(..) {
            let data = &data[piece.from..piece.from + piece.length];
            if write(data, piece.at).is_err() {
                let Piece { program, life, index, .. } = piece;
                are_written = false;
                self.lock().push(Returned { program, life, index, data: data.into() });
            }
            is_waited_for |= piece.on_their_way.fetch_sub(1, Ordering::AcqRel) == 1;
        }
        if is_waited_for {
            // Who looks at the count and then waits holds the lock in between.
            drop(self.lock());
            self.changed.notify_all();
        }
        are_written
    }

    /// Returns when nothing is on its way any more.
    fn wait(&self, on_their_way: &AtomicU32) {
        if on_their_way.load(Ordering::Acquire) == 0 {
            return;
        }
        let mut guard = self.lock();
        while on_their_way.load(Ordering::Acquire) != 0 {
            guard = self.changed.wait(guard).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Store {
    /// Returns true if data is to be handed over of units that the drive has taken.
    #[inline]
    pub fn wants_data(&self) -> bool {
        !self.received.is_empty()
    }

    /// Takes over the data of the units that the drive has taken; `of` says what each request holds. Puts
    /// what is to be written ahead into `pieces`, for [`Arrivals::bring`], if they are given. Returns the requests of
    /// which a unit could not be merged with what it held before, which cannot be read: that unit cannot be, either.
    pub fn take_over<'a>(
        &mut self,
        of: impl Fn(RequestTag) -> Payload<'a>,
        pieces: Option<&mut Vec<Piece>>,
    ) -> Vec<RequestTag> {
        let mut received = std::mem::take(&mut self.received);
        // What is merged may be in the same program unit: nothing is on its way to that then.
        let is_plain = self.taken_out.is_empty() && received.iter().all(|it| it.rest == Rest::None);
        let (mut pieces, mut failed) = (pieces.filter(|_| is_plain), Vec::new());
        for units in received.chunk_by(|a, b| a.life == b.life && a.by == b.by) {
            let payload = of(units[0].by);
            for units in units.chunk_by(|a, b| a.rest == Rest::None && b.rest == Rest::None) {
                if units[0].rest == Rest::None {
                    self.take_over_whole(units, &payload, pieces.as_deref_mut());
                } else if self.merge(&units[0], &payload).is_err() {
                    failed.push(units[0].by);
                }
            }
        }
        received.clear();
        self.received = received;
        self.receiving = None;
        self.take_out();
        failed
    }

    /// Takes over whole units of one program unit.
    fn take_over_whole(
        &mut self,
        units: &[Unit],
        payload: &Payload<'_>,
        mut pieces: Option<&mut Vec<Piece>>,
    ) {
        let size = self.layout.unit as usize;
        let program = self.layout.program_of(units[0].place);
        let first = program * self.layout.units_per_program;
        let at = self.layout.data_at(program);
        let staged = staged_in(&mut self.staged, &mut self.older, program, units[0].life);
        let staged = staged.expect("it was staged when received");
        let whole = |logical| payload.whole(logical, size as u64);
        let mut rest = units;
        while let [Unit { place, logical, .. }, ..] = *rest {
            let index = (place.0 - first) as usize;
            let (from, sum) = whole(logical);
            staged.is_changed |= matches!(staged.units[index], Source::Ahead { .. });
            staged.units[index] = Source::Here { logical, sum };
            let mut count = 1;
            for &Unit { place, logical, .. } in &rest[1..] {
                let (next, sum) = whole(logical);
                if next != from + count * size || place.0 - first != (index + count) as u32 {
                    break;
                }
                staged.units[index + count] = Source::Here { logical, sum };
                count += 1;
            }
            let run = index..index + count;
            match &mut pieces {
                Some(pieces) if staged.may_go_ahead && count >= AHEAD_MIN => {
                    pieces.push(staged.send_ahead(program, run, from, size, at));
                }
                _ => staged.data[run.start * size..run.end * size]
                    .copy_from_slice(&payload.data[from..from + count * size]),
            }
            rest = &rest[count..];
        }
    }

    /// Takes over a unit of which the request has a part.
    fn merge(&mut self, unit: &Unit, payload: &Payload<'_>) -> std::io::Result<()> {
        let &Unit { place, logical, life, rest, .. } = unit;
        let size = self.layout.unit as usize;
        let mut bytes = vec![self.blank; size];
        let held = match rest {
            Rest::None | Rest::Blank => Ok(()),
            Rest::At(from, None) => self.read_held((from, None), &mut bytes),
            Rest::At(from, Some(life)) => {
                let origin = self.origin_in(from, life);
                self.read_held(origin, &mut bytes)
            }
        };
        let program = self.layout.program_of(place);
        let index = (place.0 - program * self.layout.units_per_program) as usize;
        let staged = staged_in(&mut self.staged, &mut self.older, program, life);
        let staged = staged.expect("it was staged when received");
        staged.is_changed |= matches!(staged.units[index], Source::Ahead { .. });
        staged.units[index] = match held {
            Ok(()) => {
                payload.put_part(logical, &mut bytes);
                Source::Here { logical, sum: crc32fast::hash(&bytes) }
            }
            Err(_) => {
                self.has_lost = true;
                Source::Lost { logical }
            }
        };
        staged.data[index * size..(index + 1) * size].copy_from_slice(&bytes);
        held
    }

    /// Reads what a unit holds that comes from there.
    fn read_held(
        &mut self,
        (unit, life): (PhysicalUnit, Option<u64>),
        bytes: &mut [u8],
    ) -> std::io::Result<()> {
        let sum = self.read_from(unit, life, bytes)?;
        if crc32fast::hash(bytes) == sum { Ok(()) } else { Err(rustix::io::Errno::IO.into()) }
    }

    /// Takes the data of copies out of the program units that they leave.
    pub(super) fn take_out(&mut self) {
        debug_assert!(self.received.is_empty(), "data is handed over first");
        let size = self.layout.unit as usize;
        for TakenOut { program, life, index } in std::mem::take(&mut self.taken_out) {
            let Some(copy) = self.staged_in(program, life) else { continue };
            let Source::CopyOf { from, life: Some(before) } = copy.units[index] else { continue };
            let (unit, Some(before)) = self.origin_in(from, before) else { continue };
            let from = self.layout.program_of(unit);
            let within = (unit.0 - from * self.layout.units_per_program) as usize;
            let source = self.staged_in(from, before).map(|it| it.units[within]);
            let mut bytes = vec![0; size];
            let read = self.read_from(unit, Some(before), &mut bytes);
            let source = match source {
                Some(Source::Ahead { logical, sum } | Source::Here { logical, sum }) => {
                    match read {
                        Ok(_) => Source::Here { logical, sum },
                        Err(_) => Source::Lost { logical },
                    }
                }
                Some(source @ (Source::Lost { .. } | Source::Nothing)) => source,
                Some(Source::CopyOf { .. }) | None => continue,
            };
            self.has_lost |= matches!(source, Source::Lost { .. });
            let copy = staged_in(&mut self.staged, &mut self.older, program, life);
            let copy = copy.expect("it was a moment ago");
            copy.units[index] = source;
            copy.data[index * size..(index + 1) * size].copy_from_slice(&bytes);
        }
    }

    /// Returns what those who write pieces share with it.
    pub fn arrivals(&self) -> Arc<Arrivals> {
        self.arrivals.clone()
    }

    /// Returns when all data is there of what is staged at `program` in that life.
    pub(super) fn settle(&mut self, program: u32, life: u64) {
        let Some(staged) = self.staged_in(program, life) else { return };
        self.arrivals.wait(&staged.on_their_way);
        if staged.is_ahead {
            self.take_back();
        }
    }

    /// Keeps in RAM what could not be written ahead.
    pub fn take_back(&mut self) {
        let arrivals = self.arrivals.clone();
        let size = self.layout.unit as usize;
        for Returned { program, life, index, data } in arrivals.lock().drain(..) {
            // Nothing is staged any more after a power cut.
            let staged = staged_in(&mut self.staged, &mut self.older, program, life);
            let Some(staged) = staged else { continue };
            staged.data[index * size..][..data.len()].copy_from_slice(&data);
            for source in &mut staged.units[index..index + data.len() / size] {
                if let Source::Ahead { logical, sum } = *source {
                    *source = Source::Here { logical, sum };
                }
            }
        }
    }
}

/// Returns what is staged at `program` in that life.
fn staged_in<'a, S: std::hash::BuildHasher>(
    latest: &'a mut HashMap<u32, Arc<Staged>, S>,
    older: &'a mut HashMap<u64, Arc<Staged>>,
    program: u32,
    life: u64,
) -> Option<&'a mut Staged> {
    match latest.get_mut(&program) {
        Some(staged) if staged.life == life => Some(alone(staged)),
        _ => older.get_mut(&life).map(alone),
    }
}

impl Staged {
    /// Returns true if some of it is on its way.
    pub(super) fn is_on_its_way(&self) -> bool {
        self.on_their_way.load(Ordering::Acquire) != 0
    }

    /// Notes that the units `run`, which lie in the request's data from `from` on, are written ahead.
    fn send_ahead(
        &mut self,
        program: u32,
        run: std::ops::Range<usize>,
        from: usize,
        size: usize,
        at: u64,
    ) -> Piece {
        let (index, length) = (run.start, run.len() * size);
        for source in &mut self.units[run] {
            if let Source::Here { logical, sum } = *source {
                *source = Source::Ahead { logical, sum };
            }
        }
        self.is_ahead = true;
        self.on_their_way.fetch_add(1, Ordering::AcqRel);
        Piece {
            from,
            length,
            at: at + (index * size) as u64,
            program,
            life: self.life,
            index,
            on_their_way: self.on_their_way.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use ssdlab_model::media::{Media, SequenceNumber, SpareArea};
    use ssdlab_model::profile::{DEFAULT, Profile};

    use super::*;
    use crate::image::Image;

    fn store(path: &std::path::Path) -> Store {
        let mut profile = Profile::named(DEFAULT).expect("the default profile");
        profile.set("capacity.logical", "64M").expect("a size");
        profile.set("capacity.physical", "128M").expect("a size");
        profile.set("flash.pages_per_block", "12").expect("pages");
        Store::new(Image::create(path, &profile, false).expect("an image"))
    }

    /// Hands over the data of what request 0 writes, which begins with unit `first`.
    fn take_over(store: &mut Store, first: u64, data: &[u8]) -> Vec<RequestTag> {
        let size = store.layout.unit as usize;
        let sums: Vec<u32> = data.chunks_exact(size).map(crc32fast::hash).collect();
        let payload = Payload { offset: first * size as u64, data, sums: &sums };
        store.take_over(|_| payload, None)
    }

    #[test]
    fn what_leaves_a_program_unit_before_that_is_programmed_is_where_it_went() {
        let directory = tempfile::tempdir().expect("a directory");
        let mut store = store(&directory.path().join("disk.ssd"));
        let (units, size) = (store.layout.units_per_program, store.layout.unit as usize);
        let (here, there) = (PhysicalUnit(0), PhysicalUnit(units));
        store.receive(here, LogicalUnit(7));
        // In the same moment, before its data is handed over.
        store.copy(here, there);
        assert_eq!(take_over(&mut store, 7, &vec![9; size]), []);
        let spare = |unit: u32| {
            let mut spare = vec![0; units as usize];
            spare[0] = unit;
            spare
        };
        store.begin_program(here, SpareArea::new(&spare(0)), SequenceNumber(1));
        store.begin_program(there, SpareArea::new(&spare(8)), SequenceNumber(2));
        let mut data = vec![0; size];
        for programmed in [here, there] {
            store.programmed(programmed);
            store.carry_out().expect("room");
            let sum = store.read_unit(there, &mut data).expect("it is there");
            assert!(data == vec![9; size] && sum == crc32fast::hash(&data), "{programmed:?}");
        }
    }

    #[test]
    fn a_unit_whose_rest_cannot_be_read_cannot_be_read() {
        let directory = tempfile::tempdir().expect("a directory");
        let mut store = store(&directory.path().join("disk.ssd"));
        let (units, size) = (store.layout.units_per_program, store.layout.unit as usize);
        let (here, there) = (PhysicalUnit(0), PhysicalUnit(units));
        store.receive(here, LogicalUnit(0));
        assert_eq!(take_over(&mut store, 0, &vec![9; size]), []);
        let mut spare = vec![0; units as usize];
        spare[0] = 1;
        store.begin_program(here, SpareArea::new(&spare), SequenceNumber(1));
        store.programmed(here);
        store.carry_out().expect("room");
        let at = store.layout.unit_at(here);
        store.file().write_all_at(&[0], at).expect("room");
        store.receive_for(RequestTag(3));
        store.receive_part(there, LogicalUnit(0), Some(here));
        assert_eq!(take_over(&mut store, 0, &[1; 512]), [RequestTag(3)]);
        let sum = store.read_unit(there, &mut vec![0; size]).expect("the image can be read");
        let mut data = vec![0; size];
        store.read_unit(there, &mut data).expect("the image can be read");
        assert_ne!(sum, crc32fast::hash(&data), "whoever compares is told");
        store.receive_part(there, LogicalUnit(0), None);
        assert_eq!(take_over(&mut store, 0, &[1; 512]), []);
        store.read_unit(there, &mut data).expect("it is there");
        assert!(data[..512] == [1; 512] && data[512..].iter().all(|&byte| byte == 0));
    }
}
