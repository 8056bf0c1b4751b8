//! Host writes: taking over data that the host has written.
//!
//! Small pieces are kept in RAM until their program unit is programmed. Large pieces are written ahead:
//! straight to their place in the image, by the thread of the request, while other requests go on. Data without
//! a record counts for nothing, so a crash leaves what a crash of the drive would.
//!
//! Units that the drive takes while time passes are noted in order, with their request; their data is handed
//! over before anything else is done or read ([`Store::accept_data`]). A unit that the host wrote in part is then
//! merged with its old data (read-modify-write).
//!
//! # When a place may be written ahead
//!
//! Only when its old contents are gone for good: no erase of that part of its block is announced or waits to be
//! carried out or for its records to be punched out, and no earlier generation of the program unit is still to be
//! programmed. Otherwise the old contents may be the only durable copy of a unit, or the source of a copy that
//! is still to be made. (The drive begins to fill a block again as soon as its erase is announced, so a place
//! may have three lives: one that is read for copies, one in RAM, and the next.) This is decided when the
//! program unit is begun, and stays true until it is programmed: an erase that is announced later is carried
//! out later.
//!
//! A place is written once between two erases, and so may be read without a lock. The exception is a unit that
//! the host writes in part while its program unit is filled: the unit is then in RAM again, and the data that
//! was written ahead is replaced when no thread reads it.
//!
//! # Pieces on their way
//!
//! A program unit counts the pieces that are on their way to it. A thread that needs their data waits for them
//! (`Store::wait_for_pieces`). The thread that writes a piece does not need the drive's lock. A piece that could not be
//! written, because the disk is full, is returned and kept in RAM like a small one.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, PoisonError};

use ssdlab_model::ftl::RequestTag;
use ssdlab_units::{LogicalUnit, PhysicalUnit};

use super::{Source, Staged, Store, exclusive_mut};
use crate::sync::{Condvar, Mutex, MutexGuard};

/// Minimum number of consecutive units that are written ahead: fewer cost less in RAM.
const AHEAD_MIN: usize = 4;

/// A unit that the model has received, and whose data was not handed over yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReceivedUnit {
    pub(super) place: PhysicalUnit,
    pub(super) logical: LogicalUnit,
    /// Life of the program unit. A long request to a small drive may use the same place twice.
    pub(super) generation: u64,
    pub(super) by: RequestTag,
    pub(super) rmw_source: RmwSource,
}

/// Source of the bytes of a unit that the request does not write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RmwSource {
    /// None: the request writes all of the unit.
    None,
    /// The value of unmapped bytes.
    Unmapped,
    /// The physical unit, in that generation of its program unit if it was staged.
    At(PhysicalUnit, Option<u64>),
}

/// A copy whose data has to be taken out of the program unit that it was copied from.
#[derive(Clone, Copy, Debug)]
pub(super) struct DeferredCopy {
    pub(super) program: u32,
    pub(super) generation: u64,
    pub(super) index: usize,
}

/// Data of a write request.
#[derive(Clone, Copy, Debug)]
pub struct Payload<'a> {
    /// Beginning on the drive, in bytes.
    pub offset: u64,
    /// All bytes of the request.
    pub data: &'a [u8],
    /// Checksums of the whole units in the data.
    pub sums: &'a [u32],
}

impl Payload<'_> {
    /// Returns the offset of the whole unit `logical` in the data, and its checksum.
    fn whole(&self, logical: LogicalUnit, size: u64) -> (usize, u32) {
        let first_whole = self.offset.div_ceil(size);
        let from = (u64::from(logical.0) * size - self.offset) as usize;
        (from, self.sums[(u64::from(logical.0) - first_whole) as usize])
    }

    /// Copies the request's bytes of the unit `logical` into `bytes`, which are the whole unit.
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

/// A stretch of a request's data that has to be written ahead to the image.
#[derive(Debug)]
pub struct Piece {
    /// Offset in the request's data, in bytes.
    from: usize,
    length: usize,
    /// Offset in the image, in bytes.
    at: u64,
    program: u32,
    generation: u64,
    /// Index of the first unit within the program unit.
    index: usize,
    pieces_in_flight: Arc<AtomicU32>,
}

/// A piece that could not be written.
#[derive(Debug)]
struct UnwrittenPiece {
    program: u32,
    generation: u64,
    index: usize,
    data: Box<[u8]>,
}

/// State that threads that write pieces share with the store.
#[derive(Debug, Default)]
pub struct AheadWrites {
    unwritten: Mutex<Vec<UnwrittenPiece>>,
    changed: Condvar,
}

impl AheadWrites {
    fn lock(&self) -> MutexGuard<'_, Vec<UnwrittenPiece>> {
        self.unwritten.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes the pieces of `data` with `write`, which gets the bytes and their offset in the image. Returns
    /// true if all were written; otherwise call [`Store::keep_unwritten_pieces`].
    pub fn write_pieces(
        &self,
        pieces: &mut Vec<Piece>,
        data: &[u8],
        mut write: impl FnMut(&[u8], u64) -> std::io::Result<()>,
    ) -> bool {
        let (mut is_waited_for, mut are_written) = (false, true);
        for piece in pieces.drain(..) {
            let data = &data[piece.from..piece.from + piece.length];
            if write(data, piece.at).is_err() {
                let Piece { program, generation, index, .. } = piece;
                are_written = false;
                self.lock().push(UnwrittenPiece { program, generation, index, data: data.into() });
            }
            is_waited_for |= piece.pieces_in_flight.fetch_sub(1, Ordering::AcqRel) == 1;
        }
        if is_waited_for {
            // A waiting thread holds this lock between its check of the count and its wait.
            drop(self.lock());
            self.changed.notify_all();
        }
        are_written
    }

    /// Waits until no piece is on its way.
    fn wait(&self, pieces_in_flight: &AtomicU32) {
        if pieces_in_flight.load(Ordering::Acquire) == 0 {
            return;
        }
        let mut guard = self.lock();
        while pieces_in_flight.load(Ordering::Acquire) != 0 {
            guard = self.changed.wait(guard).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Store {
    /// Returns true if the drive has taken units whose data was not handed over yet.
    #[inline]
    pub fn awaits_data(&self) -> bool {
        !self.received.is_empty()
    }

    /// Takes over the data of the units that the drive has taken. `of` returns the payload of a request. If
    /// `pieces` are given, adds data to them that [`AheadWrites::write_pieces`] has to write ahead. Returns the
    /// requests with a unit whose old data cannot be read for a read-modify-write: that unit cannot be read,
    /// either.
    pub fn accept_data<'a>(
        &mut self,
        of: impl Fn(RequestTag) -> Payload<'a>,
        pieces: Option<&mut Vec<Piece>>,
    ) -> Vec<RequestTag> {
        let mut received = std::mem::take(&mut self.received);
        // Old data may be in the same program unit, so no piece of it may be on its way.
        let is_plain = self.deferred_copies.is_empty()
            && received.iter().all(|it| it.rmw_source == RmwSource::None);
        let (mut pieces, mut failed) = (pieces.filter(|_| is_plain), Vec::new());
        for units in received.chunk_by(|a, b| a.generation == b.generation && a.by == b.by) {
            let payload = of(units[0].by);
            for units in units
                .chunk_by(|a, b| a.rmw_source == RmwSource::None && b.rmw_source == RmwSource::None)
            {
                if units[0].rmw_source == RmwSource::None {
                    self.accept_whole_units(units, &payload, pieces.as_deref_mut());
                } else if self.read_modify_write(&units[0], &payload).is_err() {
                    failed.push(units[0].by);
                }
            }
        }
        received.clear();
        self.received = received;
        self.receiving = None;
        self.resolve_deferred_copies();
        failed
    }

    /// Takes over whole units of one program unit.
    fn accept_whole_units(
        &mut self,
        units: &[ReceivedUnit],
        payload: &Payload<'_>,
        mut pieces: Option<&mut Vec<Piece>>,
    ) {
        let size = self.layout.unit as usize;
        let program = self.layout.program_of(units[0].place);
        let first = program * self.layout.units_per_program;
        let at = self.layout.data_at(program);
        let staged =
            staged_in(&mut self.staged, &mut self.older_generations, program, units[0].generation);
        let staged = staged.expect("it was staged when received");
        let whole = |logical| payload.whole(logical, size as u64);
        let mut rest = units;
        while let [ReceivedUnit { place, logical, .. }, ..] = *rest {
            let index = (place.0 - first) as usize;
            let (from, sum) = whole(logical);
            staged.is_changed |= matches!(staged.units[index], Source::WrittenAhead { .. });
            staged.units[index] = Source::Staged { logical, sum };
            let mut count = 1;
            for &ReceivedUnit { place, logical, .. } in &rest[1..] {
                let (next, sum) = whole(logical);
                if next != from + count * size || place.0 - first != (index + count) as u32 {
                    break;
                }
                staged.units[index + count] = Source::Staged { logical, sum };
                count += 1;
            }
            let run = index..index + count;
            match &mut pieces {
                Some(pieces) if staged.may_write_ahead && count >= AHEAD_MIN => {
                    pieces.push(staged.mark_written_ahead(program, run, from, size, at));
                }
                _ => staged.data[run.start * size..run.end * size]
                    .copy_from_slice(&payload.data[from..from + count * size]),
            }
            rest = &rest[count..];
        }
    }

    /// Takes over a unit that the request writes in part, and merges it with the old data.
    fn read_modify_write(
        &mut self,
        unit: &ReceivedUnit,
        payload: &Payload<'_>,
    ) -> std::io::Result<()> {
        let &ReceivedUnit { place, logical, generation, rmw_source, .. } = unit;
        let size = self.layout.unit as usize;
        let mut bytes = vec![self.blank; size];
        let held = match rmw_source {
            RmwSource::None | RmwSource::Unmapped => Ok(()),
            RmwSource::At(from, None) => self.read_verified((from, None), &mut bytes),
            RmwSource::At(from, Some(generation)) => {
                let origin = self.origin_in(from, generation);
                self.read_verified(origin, &mut bytes)
            }
        };
        let program = self.layout.program_of(place);
        let index = (place.0 - program * self.layout.units_per_program) as usize;
        let staged = staged_in(&mut self.staged, &mut self.older_generations, program, generation);
        let staged = staged.expect("it was staged when received");
        staged.is_changed |= matches!(staged.units[index], Source::WrittenAhead { .. });
        staged.units[index] = match held {
            Ok(()) => {
                payload.put_part(logical, &mut bytes);
                Source::Staged { logical, sum: crc32fast::hash(&bytes) }
            }
            Err(_) => {
                self.has_lost = true;
                Source::Lost { logical }
            }
        };
        staged.data[index * size..(index + 1) * size].copy_from_slice(&bytes);
        held
    }

    /// Reads the data of a unit in the image, or staged in `generation`, and compares it with its checksum.
    fn read_verified(
        &mut self,
        (unit, generation): (PhysicalUnit, Option<u64>),
        bytes: &mut [u8],
    ) -> std::io::Result<()> {
        let sum = self.read_from(unit, generation, bytes)?;
        if crc32fast::hash(bytes) == sum { Ok(()) } else { Err(rustix::io::Errno::IO.into()) }
    }

    /// Copies the data of `deferred_copies` copies out of the program units that will be programmed without it.
    pub(super) fn resolve_deferred_copies(&mut self) {
        debug_assert!(self.received.is_empty(), "data is handed over first");
        let size = self.layout.unit as usize;
        for DeferredCopy { program, generation, index } in std::mem::take(&mut self.deferred_copies)
        {
            let Some(copy) = self.staged_in(program, generation) else { continue };
            let Source::CopyOf { from, generation: Some(before) } = copy.units[index] else {
                continue;
            };
            let (unit, Some(before)) = self.origin_in(from, before) else { continue };
            let from = self.layout.program_of(unit);
            let within = (unit.0 - from * self.layout.units_per_program) as usize;
            let source = self.staged_in(from, before).map(|it| it.units[within]);
            let mut bytes = vec![0; size];
            let read = self.read_from(unit, Some(before), &mut bytes);
            let source = match source {
                Some(Source::WrittenAhead { logical, sum } | Source::Staged { logical, sum }) => {
                    match read {
                        Ok(_) => Source::Staged { logical, sum },
                        Err(_) => Source::Lost { logical },
                    }
                }
                Some(source @ (Source::Lost { .. } | Source::Nothing)) => source,
                Some(Source::CopyOf { .. }) | None => continue,
            };
            self.has_lost |= matches!(source, Source::Lost { .. });
            let copy =
                staged_in(&mut self.staged, &mut self.older_generations, program, generation);
            let copy = copy.expect("it was a moment ago");
            copy.units[index] = source;
            copy.data[index * size..(index + 1) * size].copy_from_slice(&bytes);
        }
    }

    /// Returns the state that threads that write pieces share with this store.
    pub fn ahead_writes(&self) -> Arc<AheadWrites> {
        self.ahead_writes.clone()
    }

    /// Waits until all data of `program` as staged in that generation has arrived.
    pub(super) fn wait_for_pieces(&mut self, program: u32, generation: u64) {
        let Some(staged) = self.staged_in(program, generation) else { return };
        self.ahead_writes.wait(&staged.pieces_in_flight);
        if staged.is_written_ahead {
            self.keep_unwritten_pieces();
        }
    }

    /// Moves pieces that could not be written ahead to RAM.
    pub fn keep_unwritten_pieces(&mut self) {
        let ahead_writes = self.ahead_writes.clone();
        let size = self.layout.unit as usize;
        for UnwrittenPiece { program, generation, index, data } in ahead_writes.lock().drain(..) {
            // After a power cut nothing is staged any more.
            let staged =
                staged_in(&mut self.staged, &mut self.older_generations, program, generation);
            let Some(staged) = staged else { continue };
            staged.data[index * size..][..data.len()].copy_from_slice(&data);
            for source in &mut staged.units[index..index + data.len() / size] {
                if let Source::WrittenAhead { logical, sum } = *source {
                    *source = Source::Staged { logical, sum };
                }
            }
        }
    }
}

/// Returns the staged program unit `program` of that generation, for changes.
fn staged_in<'a, S: std::hash::BuildHasher>(
    latest: &'a mut HashMap<u32, Arc<Staged>, S>,
    older_generations: &'a mut HashMap<u64, Arc<Staged>>,
    program: u32,
    generation: u64,
) -> Option<&'a mut Staged> {
    match latest.get_mut(&program) {
        Some(staged) if staged.generation == generation => Some(exclusive_mut(staged)),
        _ => older_generations.get_mut(&generation).map(exclusive_mut),
    }
}

impl Staged {
    /// Returns true if some of its pieces are on their way.
    pub(super) fn has_pieces_in_flight(&self) -> bool {
        self.pieces_in_flight.load(Ordering::Acquire) != 0
    }

    /// Marks the units `run`, which begin at `from` in the request's data, as written ahead; returns the piece.
    fn mark_written_ahead(
        &mut self,
        program: u32,
        run: std::ops::Range<usize>,
        from: usize,
        size: usize,
        at: u64,
    ) -> Piece {
        let (index, length) = (run.start, run.len() * size);
        for source in &mut self.units[run] {
            if let Source::Staged { logical, sum } = *source {
                *source = Source::WrittenAhead { logical, sum };
            }
        }
        self.is_written_ahead = true;
        self.pieces_in_flight.fetch_add(1, Ordering::AcqRel);
        Piece {
            from,
            length,
            at: at + (index * size) as u64,
            program,
            generation: self.generation,
            index,
            pieces_in_flight: self.pieces_in_flight.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use ssdlab_model::media::{Media, OobArea, SequenceNumber};
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

    /// Hands over the `data` of request 0, a write that begins with unit `first`.
    fn accept_data(store: &mut Store, first: u64, data: &[u8]) -> Vec<RequestTag> {
        let size = store.layout.unit as usize;
        let sums: Vec<u32> = data.chunks_exact(size).map(crc32fast::hash).collect();
        let payload = Payload { offset: first * size as u64, data, sums: &sums };
        store.accept_data(|_| payload, None)
    }

    #[test]
    fn what_leaves_a_program_unit_before_that_is_programmed_is_where_it_went() {
        let directory = tempfile::tempdir().expect("a directory");
        let mut store = store(&directory.path().join("disk.ssd"));
        let (units, size) = (store.layout.units_per_program, store.layout.unit as usize);
        let (here, there) = (PhysicalUnit(0), PhysicalUnit(units));
        store.receive(here, LogicalUnit(7));
        // The copy is made before the data is handed over.
        store.copy(here, there);
        assert_eq!(accept_data(&mut store, 7, &vec![9; size]), []);
        let spare = |unit: u32| {
            let mut spare = vec![0; units as usize];
            spare[0] = unit;
            spare
        };
        store.begin_program(here, OobArea::new(&spare(0)), SequenceNumber(1));
        store.begin_program(there, OobArea::new(&spare(8)), SequenceNumber(2));
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
        assert_eq!(accept_data(&mut store, 0, &vec![9; size]), []);
        let mut spare = vec![0; units as usize];
        spare[0] = 1;
        store.begin_program(here, OobArea::new(&spare), SequenceNumber(1));
        store.programmed(here);
        store.carry_out().expect("room");
        let at = store.layout.unit_at(here);
        store.file().write_all_at(&[0], at).expect("room");
        store.receive_for(RequestTag(3));
        store.receive_part(there, LogicalUnit(0), Some(here));
        assert_eq!(accept_data(&mut store, 0, &[1; 512]), [RequestTag(3)]);
        let sum = store.read_unit(there, &mut vec![0; size]).expect("the image can be read");
        let mut data = vec![0; size];
        store.read_unit(there, &mut data).expect("the image can be read");
        assert_ne!(sum, crc32fast::hash(&data), "whoever compares is told");
        store.receive_part(there, LogicalUnit(0), None);
        assert_eq!(accept_data(&mut store, 0, &[1; 512]), []);
        store.read_unit(there, &mut data).expect("it is there");
        assert!(data[..512] == [1; 512] && data[512..].iter().all(|&byte| byte == 0));
    }
}
