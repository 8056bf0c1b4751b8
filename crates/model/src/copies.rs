//! The order that collection's flash work keeps, whatever the dies are busy with: a copy is
//! programmed after its data was read, and a block is erased after all that replaces what it held
//! is programmed.
//!
//! What replaces it are the copies, in collection's programs up to some number, and what the host
//! wrote anew, in the host's program units up to some number. Programs end out of order, so the
//! ends are kept in the order of the numbers: a block waits for its own copies, not for later
//! ones.

use std::collections::VecDeque;

use crate::media::SequenceNumber;
use crate::units::{BlockIndex, DieIndex, Instant};

/// A program unit of copies.
#[derive(Clone, Copy, Debug)]
struct Copy {
    /// Number of the program unit, counted through the drive, and its die, once it is full.
    place: Option<(u32, DieIndex)>,
    /// The number it took when it was full.
    number: SequenceNumber,
    /// Reads that have not delivered what goes into it.
    reads_left: u32,
    /// When the latest of the others did.
    data_at: Instant,
    /// When it is programmed, once that is known.
    end: Option<Instant>,
}

/// A program unit of copies that is full and read, so that it can be programmed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReadCopy {
    pub(crate) program: u32,
    pub(crate) die: DieIndex,
    pub(crate) sequence: u32,
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
}

/// Collection programs that are not known to be over, and the blocks that wait for them.
#[derive(Clone, Debug)]
pub(crate) struct CopiesUnderWay {
    /// In order, the one being filled last.
    copies: VecDeque<Copy>,
    /// The number of the first of `copies`; wraps.
    first: u32,
    /// How many of the first are on their dies' lists.
    owed: usize,
    /// The latest end of all programs before `first`.
    over_at: Instant,
    emptied: VecDeque<Emptied>,
    /// How many of the first of `emptied` know when their copies are durable.
    known: usize,
}

impl CopiesUnderWay {
    pub(crate) fn new() -> Self {
        CopiesUnderWay {
            copies: VecDeque::new(),
            first: 1,
            owed: 0,
            over_at: Instant::START,
            emptied: VecDeque::new(),
            known: 0,
        }
    }

    /// The number of the latest program begun.
    #[inline(always)]
    pub(crate) fn latest(&self) -> u32 {
        self.first.wrapping_add(self.copies.len() as u32).wrapping_sub(1)
    }

    /// Whether any program is under way, or a block waits to be erased.
    #[inline(always)]
    pub(crate) fn is_any(&self) -> bool {
        !self.copies.is_empty() || !self.emptied.is_empty()
    }

    /// A program is begun with units of a read that is not yet done.
    pub(crate) fn begin(&mut self) {
        let number = SequenceNumber::default();
        let copy = Copy { place: None, number, reads_left: 1, data_at: Instant::START, end: None };
        self.copies.push_back(copy);
    }

    /// The program being filled gets units of another read.
    #[inline(always)]
    pub(crate) fn await_another_read(&mut self) {
        self.copies.back_mut().expect("a program is being filled").reads_left += 1;
    }

    /// The program being filled is full, and goes to `program` on `die` as `number`.
    pub(crate) fn fill(&mut self, program: u32, die: DieIndex, number: SequenceNumber) {
        let copy = self.copies.back_mut().expect("a program was filled");
        copy.place = Some((program, die));
        copy.number = number;
    }

    /// The number that program `sequence` took when it was full.
    #[inline(always)]
    pub(crate) fn number_of(&mut self, sequence: u32) -> SequenceNumber {
        self.get(sequence).number
    }

    #[inline(always)]
    fn get(&mut self, sequence: u32) -> &mut Copy {
        &mut self.copies[sequence.wrapping_sub(self.first) as usize]
    }

    /// A read has delivered at `at` what goes into program `sequence`.
    #[inline(always)]
    pub(crate) fn note_read(&mut self, sequence: u32, at: Instant) {
        let copy = self.get(sequence);
        copy.reads_left -= 1;
        copy.data_at = copy.data_at.max(at);
    }

    /// The next program, in order, if its data was read by `now`.
    #[inline(always)]
    pub(crate) fn take_read(&mut self, now: Instant) -> Option<ReadCopy> {
        let &Copy { place, reads_left, data_at, .. } = self.copies.get(self.owed)?;
        let (program, die) = place?;
        if reads_left > 0 || data_at > now {
            return None;
        }
        let sequence = self.first.wrapping_add(self.owed as u32);
        self.owed += 1;
        Some(ReadCopy { program, die, sequence, data_at })
    }

    /// Whether program `sequence` is still to be put on its die's list.
    pub(crate) fn is_to_be_owed(&self, sequence: u32) -> bool {
        sequence.wrapping_sub(self.first.wrapping_add(self.owed as u32)) as i32 >= 0
    }

    /// Program `sequence` will be over at `end`.
    pub(crate) fn note_programmed(&mut self, sequence: u32, end: Instant) {
        self.get(sequence).end = Some(end);
        while let Some(&Copy { end: Some(end), .. }) = self.copies.front() {
            self.copies.pop_front();
            self.over_at = self.over_at.max(end);
            self.owed -= 1;
            self.first = self.first.wrapping_add(1);
            self.note_durable();
        }
    }

    /// Notes for blocks whose copies are all carried out when those are durable.
    fn note_durable(&mut self) {
        while let Some(emptied) = self.emptied.get_mut(self.known) {
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
        self.emptied.push_back(Emptied { block, sequence, host, trims_at, copied_at: None });
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

    /// The block that was emptied first of those not erased.
    #[inline(always)]
    pub(crate) fn oldest_emptied(&self) -> Option<Emptied> {
        self.emptied.front().copied()
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
        copies.await_another_read();
        copies.fill(10, DieIndex(0), SequenceNumber(1));
        copies.add_emptied(BlockIndex(5), None, Instant::START);
        copies.begin();
        copies.fill(11, DieIndex(1), SequenceNumber(2));
        copies.note_read(2, at(20));
        copies.note_read(1, at(30));
        assert!(copies.take_read(at(100)).is_none(), "programs keep their order");
        copies.note_read(1, at(40));
        assert!(copies.take_read(at(39)).is_none());
        assert_eq!(copies.take_read(at(40)).map(|copy| copy.program), Some(10));
        assert_eq!(copies.take_read(at(40)).map(|copy| copy.program), Some(11));
        copies.note_programmed(2, at(900));
        assert_eq!(copies.oldest_emptied().and_then(|it| it.copied_at), None);
        copies.note_programmed(1, at(700));
        assert_eq!(copies.oldest_emptied().and_then(|it| it.copied_at), Some(at(700)));
    }
}
