//! Taking over what the host has written.
//!
//! Small pieces are kept in RAM until their program unit is programmed. Large ones are written ahead:
//! straight to their place in the image, by whoever brought them, while others go on. What is there
//! before its record is, counts for nothing, so a crash leaves what a crash of the drive would.
//!
//! # When a place may be written ahead
//!
//! Only when what lay there is gone for good: no erase of that part of its block is owed, booked or
//! waits for its records to be punched out, and no earlier life of the program unit is still to be programmed. Otherwise
//! what is there may be all that is durable of some unit, or what a copy is still to be made of. (The
//! drive begins to fill a block anew as soon as its erase is owed, so a place may have three lives under
//! way: one that is read for copies, one in RAM, and the next.) That is decided when the program unit is
//! begun, and stays true until it is programmed: an erase that is owed later is carried out later.
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

use ssdlab_units::{LogicalUnit, PhysicalUnit};

use super::{Source, Staged, Store, alone};
use crate::sync::{Condvar, Mutex, MutexGuard};

/// Units that follow each other and are written ahead, at least: fewer cost less in RAM.
const AHEAD_MIN: usize = 4;

/// A unit that the model has received in the request under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unit {
    pub(super) place: PhysicalUnit,
    pub(super) logical: LogicalUnit,
    /// The life of the program unit. A request that is long, to a drive that is small, may meet the
    /// same place twice.
    pub(super) life: u64,
}

/// What a unit that was received holds.
#[derive(Clone, Copy, Debug)]
pub enum Received<'a> {
    /// Bytes of the request's data, from here on.
    Part {
        /// Where in the request's data.
        from: usize,
        /// Their checksum.
        sum: u32,
    },
    /// A part of the request's data, merged with what was there.
    Merged(&'a [u8], u32),
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
    /// Takes over the units that the model has just received; `of` says what each of them holds. Puts
    /// what is to be written ahead into `pieces`, for [`Arrivals::bring`].
    pub fn take_over<'a>(
        &mut self,
        data: &[u8],
        pieces: &mut Vec<Piece>,
        mut of: impl FnMut(LogicalUnit) -> Received<'a>,
    ) {
        let mut received = std::mem::take(&mut self.received);
        for units in received.chunk_by(|a, b| a.life == b.life) {
            self.take_over_program(units, data, pieces, &mut of);
        }
        received.clear();
        self.received = received;
        self.receiving = None;
    }

    /// Takes over units of one program unit.
    fn take_over_program<'a>(
        &mut self,
        units: &[Unit],
        data: &[u8],
        pieces: &mut Vec<Piece>,
        of: &mut impl FnMut(LogicalUnit) -> Received<'a>,
    ) {
        let size = self.layout.unit as usize;
        let program = self.layout.program_of(units[0].place);
        let first = program * self.layout.units_per_program;
        let at = self.layout.data_at(program);
        let staged = staged_in(&mut self.staged, &mut self.older, program, units[0].life);
        let staged = staged.expect("it was staged when received");
        let mut rest = units;
        while let [Unit { place, logical, .. }, ..] = *rest {
            let index = (place.0 - first) as usize;
            let mut count = 1;
            match of(logical) {
                Received::Merged(bytes, sum) => {
                    staged.is_changed |= matches!(staged.units[index], Source::Ahead { .. });
                    staged.data[index * size..(index + 1) * size].copy_from_slice(bytes);
                    staged.units[index] = Source::Here { logical, sum };
                }
                Received::Part { from, sum } => {
                    staged.units[index] = Source::Here { logical, sum };
                    for &Unit { place, logical, .. } in &rest[1..] {
                        let Received::Part { from: next, sum } = of(logical) else { break };
                        if next != from + count * size || place.0 - first != (index + count) as u32
                        {
                            break;
                        }
                        staged.units[index + count] = Source::Here { logical, sum };
                        count += 1;
                    }
                    let run = index..index + count;
                    if staged.may_go_ahead && count >= AHEAD_MIN {
                        pieces.push(staged.send_ahead(program, run, from, size, at));
                    } else {
                        staged.data[run.start * size..run.end * size]
                            .copy_from_slice(&data[from..from + count * size]);
                    }
                }
            }
            rest = &rest[count..];
        }
    }

    /// What those who write pieces share with it.
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

/// What is staged at `program` in that life.
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
