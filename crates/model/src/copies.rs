//! The order that collection's flash work keeps, whatever the dies are busy with: a copy is
//! programmed after its data was read, and a block is erased after all that replaces what it held
//! is programmed.
//!
//! What replaces it are the copies, in collection's programs up to some number, and what the host
//! wrote anew, in the host's program units up to some number. Programs end out of order, so the
//! ends are kept in the order of the numbers: a block waits for its own copies, not for later
//! ones.

use std::collections::VecDeque;
use std::hint::select_unpredictable;

use crate::media::SequenceNumber;
use crate::units::{BlockIndex, DieIndex, Instant, PhysicalUnit};

/// A program unit of copies.
#[derive(Clone, Copy, Debug)]
struct Copy {
    /// The first unit of the program unit, and its die, once it is full.
    first: PhysicalUnit,
    die: DieIndex,
    /// How many copies are in it, once it is full; none before.
    units: u32,
    /// Reads that have not delivered what goes into it.
    reads_left: u32,
    /// The number it took when it was full.
    number: SequenceNumber,
    /// When the latest of the others did.
    data_at: Instant,
    /// When it is programmed, once that is known.
    end: Instant,
}

/// The end of a program of which it is not known.
const NOT_KNOWN: Instant = Instant::from_nanos(u64::MAX);

/// A program that has just been begun with units of one read.
const BEGUN: Copy = Copy {
    first: PhysicalUnit(0),
    die: DieIndex(0),
    units: 0,
    reads_left: 1,
    number: SequenceNumber(0),
    data_at: Instant::START,
    end: NOT_KNOWN,
};

/// Programs under way that there is room for at first.
const ROOM: usize = 256;

/// A program unit of copies that is full and read, so that it can be programmed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReadCopy {
    pub(crate) first: PhysicalUnit,
    pub(crate) die: DieIndex,
    pub(crate) sequence: u32,
    /// When its data and that of all before it was there.
    pub(crate) data_at: Instant,
}

/// A block from which all that was valid has been moved.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Emptied {
    pub(crate) block: BlockIndex,
    /// The collection program that holds the last copy.
    pub(crate) sequence: u32,
    /// The host's program unit that holds the latest data that was written anew, where a power
    /// cut loses what is in the buffer.
    pub(crate) host: Option<u32>,
    /// When the records of trims are programmed that it has to wait for.
    pub(crate) trims_at: Instant,
    /// When that collection program and all before it are over, once it is known.
    pub(crate) copied_at: Option<Instant>,
    /// Before this, it is known not to be erased: what it waits for only gets later.
    pub(crate) not_before: Instant,
}

/// Collection programs that are not known to be over, and the blocks that wait for them.
#[derive(Clone, Debug)]
pub(crate) struct CopiesUnderWay {
    /// Program `sequence` is at `sequence % copies.len()`, a power of two.
    copies: Vec<Copy>,
    /// The number of the first of those under way; wraps.
    first: u32,
    /// The number of the first that is not on its die's list.
    owed_until: u32,
    /// The number that the next one begun will have.
    next: u32,
    /// When all that go before `owed_until` had been read.
    read_at: Instant,
    /// The latest end of all programs before `first`.
    over_at: Instant,
    emptied: VecDeque<Emptied>,
    /// How many of the first of `emptied` know when their copies are durable.
    known: usize,
    /// The collection program that the first of the others waits for, if there is one.
    awaited: u32,
}

impl CopiesUnderWay {
    pub(crate) fn new() -> Self {
        CopiesUnderWay {
            copies: vec![BEGUN; ROOM],
            first: 1,
            owed_until: 1,
            next: 1,
            read_at: Instant::START,
            over_at: Instant::START,
            emptied: VecDeque::new(),
            known: 0,
            awaited: 0,
        }
    }

    /// The number of the latest program begun.
    #[inline(always)]
    pub(crate) fn latest(&self) -> u32 {
        self.next.wrapping_sub(1)
    }

    /// Whether any program is under way, or a block waits to be erased.
    #[inline(always)]
    pub(crate) fn is_any(&self) -> bool {
        self.first != self.next || !self.emptied.is_empty()
    }

    /// A program is begun with units of a read that is not yet done.
    #[inline(always)]
    pub(crate) fn begin(&mut self) {
        if self.next.wrapping_sub(self.first) as usize == self.copies.len() {
            self.make_room();
        }
        *self.get(self.next) = BEGUN;
        self.next = self.next.wrapping_add(1);
    }

    /// Doubles the room.
    #[cold]
    fn make_room(&mut self) {
        let mut copies = vec![BEGUN; self.copies.len() * 2];
        let mask = copies.len() - 1;
        for age in 0..self.copies.len() as u32 {
            let sequence = self.first.wrapping_add(age);
            copies[sequence as usize & mask] = *self.get(sequence);
        }
        self.copies = copies;
    }

    /// Program `sequence` gets units of another read.
    #[inline(always)]
    pub(crate) fn await_another_read(&mut self, sequence: u32) {
        self.get(sequence).reads_left += 1;
    }

    /// The program being filled is full, with `units` copies, and goes to the program unit at
    /// `first` on `die` as `number`.
    #[inline(always)]
    pub(crate) fn fill(
        &mut self,
        first: PhysicalUnit,
        die: DieIndex,
        number: SequenceNumber,
        units: u32,
    ) {
        let copy = self.get(self.latest());
        (copy.first, copy.die, copy.number, copy.units) = (first, die, number, units);
    }

    /// The smallest number of a program that is full and not booked, if there is one.
    pub(crate) fn oldest_not_booked(&self) -> Option<SequenceNumber> {
        let mask = self.copies.len() - 1;
        let first = &self.copies[self.first as usize & mask];
        (self.first != self.next && first.units > 0).then_some(first.number)
    }

    #[inline(always)]
    fn get(&mut self, sequence: u32) -> &mut Copy {
        let mask = self.copies.len() - 1;
        &mut self.copies[sequence as usize & mask]
    }

    /// A read has delivered at `at` what goes into program `sequence`, if it is one that it goes into.
    #[inline(always)]
    pub(crate) fn note_read(&mut self, sequence: u32, at: Instant, is_into: bool) {
        let copy = self.get(sequence);
        copy.reads_left -= u32::from(is_into);
        copy.data_at = copy.data_at.later(select_unpredictable(is_into, at, Instant::START));
    }

    /// The next program, in order, if its data was read by `now`.
    #[inline(always)]
    pub(crate) fn take_read(&mut self, now: Instant) -> Option<ReadCopy> {
        let sequence = self.owed_until;
        if sequence == self.next {
            return None;
        }
        let &mut Copy { first, die, units, reads_left, data_at, .. } = self.get(sequence);
        if units == 0 || reads_left > 0 || data_at > now {
            return None;
        }
        self.owed_until = sequence.wrapping_add(1);
        // They keep their order: what was read early has waited for those before it.
        self.read_at = self.read_at.later(data_at);
        Some(ReadCopy { first, die, sequence, data_at: self.read_at })
    }

    /// When the data of the next program, in order, was read; never, as long as that waits for
    /// reads or for units.
    pub(crate) fn next_read(&self) -> Instant {
        let mask = self.copies.len() - 1;
        let &Copy { units, reads_left, data_at, .. } =
            &self.copies[self.owed_until as usize & mask];
        if self.owed_until == self.next || units == 0 || reads_left > 0 {
            return NOT_KNOWN;
        }
        data_at
    }

    /// Before when the block that was emptied first is not erased; never, as long as it waits for
    /// copies.
    pub(crate) fn next_emptied(&self) -> Instant {
        let waits = |emptied: &Emptied| emptied.copied_at.map(|_| emptied.not_before);
        self.emptied.front().and_then(waits).unwrap_or(NOT_KNOWN)
    }

    /// Whether program `sequence` is still to be put on its die's list.
    pub(crate) fn is_to_be_owed(&self, sequence: u32) -> bool {
        sequence.wrapping_sub(self.owed_until) as i32 >= 0
    }

    /// Program `sequence` will be over at `end`; returns the number that it took when it was full,
    /// and how many copies are in it.
    #[inline(always)]
    pub(crate) fn note_programmed(&mut self, sequence: u32, end: Instant) -> (SequenceNumber, u32) {
        let copy = self.get(sequence);
        copy.end = end;
        let (number, units) = (copy.number, copy.units);
        if sequence == self.first {
            self.forget_programmed();
        }
        (number, units)
    }

    /// Forgets the first programs, as far as their ends are known.
    #[inline(always)]
    fn forget_programmed(&mut self) {
        while self.first != self.owed_until {
            let end = self.get(self.first).end;
            if end == NOT_KNOWN {
                return;
            }
            self.over_at = self.over_at.later(end);
            self.first = self.first.wrapping_add(1);
            if self.known < self.emptied.len() && self.first.wrapping_sub(self.awaited) as i32 > 0 {
                self.note_durable();
            }
        }
    }

    /// Notes for blocks whose copies are all carried out when those are durable.
    #[inline(never)]
    fn note_durable(&mut self) {
        while let Some(emptied) = self.emptied.get_mut(self.known) {
            self.awaited = emptied.sequence;
            if emptied.sequence.wrapping_sub(self.first) as i32 >= 0 {
                return;
            }
            emptied.copied_at = Some(self.over_at);
            self.known += 1;
        }
    }

    /// All that was valid on `block` was moved, to programs up to the latest begun.
    pub(crate) fn add_emptied(&mut self, block: BlockIndex, host: Option<u32>, trims_at: Instant) {
        let sequence = self.latest();
        self.emptied.push_back(Emptied {
            block,
            sequence,
            host,
            trims_at,
            copied_at: None,
            not_before: Instant::START,
        });
        self.note_durable();
    }

    /// Blocks whose copies are in the program being filled are not erased before the host's
    /// program unit `number` is programmed, where a power cut loses what is in the buffer.
    pub(crate) fn await_host(&mut self, number: u32) {
        let latest = self.latest();
        for emptied in self.emptied.iter_mut().rev().take_while(|it| it.sequence == latest) {
            emptied.host = emptied.host.map(|_| number);
        }
    }

    /// The same for records of trims, which are programmed at `recorded`.
    pub(crate) fn await_trims(&mut self, recorded: Instant) {
        let latest = self.latest();
        for emptied in self.emptied.iter_mut().rev().take_while(|it| it.sequence == latest) {
            emptied.trims_at = emptied.trims_at.max(recorded);
        }
    }

    /// Whether a block waits for the host's program unit `number`.
    pub(crate) fn awaits_host(&self, number: u32) -> bool {
        self.emptied.iter().any(|it| it.host == Some(number))
    }

    /// Blocks that wait for the host's program unit `number` wait for records of trims, too, which
    /// are programmed at `recorded`.
    pub(crate) fn await_trims_with_host(&mut self, number: u32, recorded: Instant) {
        for emptied in self.emptied.iter_mut().filter(|it| it.host == Some(number)) {
            emptied.trims_at = emptied.trims_at.max(recorded);
        }
    }

    /// The block that was emptied first of those not erased.
    #[inline(always)]
    pub(crate) fn oldest_emptied(&self) -> Option<Emptied> {
        self.emptied.front().copied()
    }

    /// The oldest emptied block will not be erased before `from`.
    #[inline(always)]
    pub(crate) fn keep_oldest_emptied_until(&mut self, from: Instant) {
        self.emptied.front_mut().expect("some block was emptied").not_before = from;
    }

    /// The oldest emptied block is being erased.
    pub(crate) fn forget_emptied(&mut self) {
        self.emptied.pop_front().expect("some block was emptied");
        self.known -= 1;
    }

    /// Blocks that wait to be erased.
    pub(crate) fn emptied(&self) -> u32 {
        self.emptied.len() as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(us: u64) -> Instant {
        Instant::from_nanos(us * 1000)
    }

    #[test]
    fn a_program_waits_for_its_reads_and_a_block_for_its_own_copies() {
        let mut copies = CopiesUnderWay::new();
        copies.begin();
        copies.await_another_read(1);
        copies.fill(PhysicalUnit(80), DieIndex(0), SequenceNumber(1), 8);
        copies.add_emptied(BlockIndex(5), None, Instant::START);
        copies.begin();
        copies.fill(PhysicalUnit(88), DieIndex(1), SequenceNumber(2), 8);
        copies.note_read(2, at(20), true);
        copies.note_read(1, at(30), true);
        assert!(copies.take_read(at(100)).is_none(), "programs keep their order");
        copies.note_read(1, at(40), true);
        assert!(copies.take_read(at(39)).is_none());
        assert_eq!(copies.take_read(at(40)).map(|copy| copy.first.0), Some(80));
        assert_eq!(copies.take_read(at(40)).map(|copy| copy.first.0), Some(88));
        copies.note_programmed(2, at(900));
        assert_eq!(copies.oldest_emptied().and_then(|it| it.copied_at), None);
        copies.note_programmed(1, at(700));
        assert_eq!(copies.oldest_emptied().and_then(|it| it.copied_at), Some(at(700)));
    }
}
