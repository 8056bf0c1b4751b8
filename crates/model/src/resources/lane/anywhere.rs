//! Transfers of any length, anywhere on the timetable and beyond it: the long way to a place, for what
//! the common ways do not serve.

use super::{BYTES, Lane, PIECE, SLOTS};
use crate::resources::Span;
use crate::units::{Instant, Nanoseconds};

/// Longer transfers are taken in pieces of this, so that they flow around what is taken.
const SMALL_PIECE: u64 = 16;

impl Lane {
    /// The same for any number of slots, anywhere.
    #[inline(never)]
    pub(super) fn reserve_otherwise(
        &mut self,
        now: Instant,
        earliest: Instant,
        duration: Nanoseconds,
        slots: u64,
    ) -> Span {
        let slot = earliest.nanos() >> self.slot_shift;
        let (first, last) = if slots <= PIECE {
            let first = self.take(now, slot, slots);
            (first, first)
        } else {
            self.take_long(now, slot, slots)
        };
        let start = earliest.later(Instant::from_nanos(first << self.slot_shift));
        // What came behind the first piece was pushed back by what lay between.
        let end = start + duration + Nanoseconds::new((last - first) << self.slot_shift);
        self.free_from = self.free_from.later(end);
        Span { start, end }
    }

    /// Takes the first `slots` free slots in a row from `slot` on; returns the first of them.
    /// `slots` is at most [`PIECE`].
    #[inline(always)]
    fn take(&mut self, now: Instant, slot: u64, slots: u64) -> u64 {
        let mut slot = slot;
        loop {
            if slot.wrapping_sub(self.first) > SLOTS - 64 && !self.advance(now, slot) {
                return self.take_outside(slot, slots);
            }
            let byte = (slot / 8) as usize % BYTES;
            let bit = slot % 8;
            let word = self.word(byte);
            // What is shifted in counts as taken, so that a run found lies within the word.
            let starts = runs_of(word >> bit, slots as u32);
            if starts != 0 {
                let place = u64::from(starts.trailing_zeros());
                let run = (1u64 << slots) - 1;
                self.set_word(byte, word & !(run << (bit + place)));
                return slot + place;
            }
            // A run may begin in the last slots looked at and end behind them.
            slot += 65 - bit - slots.max(1);
        }
    }

    #[inline(always)]
    fn word(&self, byte: usize) -> u64 {
        match self.free[byte..].first_chunk() {
            Some(&bytes) => u64::from_le_bytes(bytes),
            None => self.last_word(byte),
        }
    }

    #[inline(always)]
    fn set_word(&mut self, byte: usize, word: u64) {
        match self.free[byte..].first_chunk_mut() {
            Some(place) => *place = word.to_le_bytes(),
            None => self.set_last_word(byte, word),
        }
    }

    /// A word that ends behind the ring: what is left of it is at the ring's start.
    #[cold]
    fn last_word(&self, byte: usize) -> u64 {
        u64::from_le_bytes(std::array::from_fn(|at| self.free[(byte + at) % BYTES]))
    }

    #[cold]
    fn set_last_word(&mut self, byte: usize, word: u64) {
        for (at, part) in word.to_le_bytes().into_iter().enumerate() {
            self.free[(byte + at) % BYTES] = part;
        }
    }

    /// Forgets what is long past at `now`, so that the ring holds later slots; returns whether it
    /// holds `slot`. What is not long past is kept: collection's work in time that was idle is
    /// only worked out when something next looks at its die.
    #[cold]
    fn advance(&mut self, now: Instant, slot: u64) -> bool {
        let first = (now.nanos() >> self.slot_shift).saturating_sub(SLOTS / 4) & !63;
        if first > self.first {
            let passed = ((first - self.first) / 8).min(BYTES as u64) as usize;
            let from = (self.first / 8) as usize % BYTES;
            let to_end = passed.min(BYTES - from);
            self.free[from..from + to_end].fill(u8::MAX);
            self.free[..passed - to_end].fill(u8::MAX);
            self.first = first;
        }
        (self.first..=self.first + SLOTS - 64).contains(&slot)
    }

    /// Takes more slots than fit into one piece. Returns the first slot, and where it would have
    /// been had the last piece followed the first without a break.
    #[inline(never)]
    fn take_long(&mut self, now: Instant, slot: u64, slots: u64) -> (u64, u64) {
        let mut left = slots;
        let first = self.take(now, slot, SMALL_PIECE);
        left -= SMALL_PIECE;
        let mut next = first + SMALL_PIECE;
        while left > 0 {
            let piece = left.min(SMALL_PIECE);
            next = self.take(now, next, piece) + piece;
            left -= piece;
        }
        (first, next - slots)
    }

    /// Beyond the timetable transfers queue behind each other: only a drive with tens of
    /// milliseconds of work booked on one die gets there. Before it nothing is in the way.
    #[cold]
    fn take_outside(&mut self, slot: u64, slots: u64) -> u64 {
        if slot < self.first {
            return slot;
        }
        let first = slot.max(self.far_behind).max(self.free_from.nanos() >> self.slot_shift);
        self.far_behind = first + slots;
        first
    }
}

/// The places from which `run` bits of `free` in a row are set; at most 64 of them.
#[inline(always)]
fn runs_of(free: u64, run: u32) -> u64 {
    // After each step a bit says that twice as many bits from there on are set.
    let two = free & (free >> 1);
    let four = two & (two >> 2);
    let eight = four & (four >> 4);
    let (runs, length) = match run {
        0..=1 => (free, 1),
        2..=4 => (two, 2),
        5..=8 => (four, 4),
        9..=16 => (eight, 8),
        _ => {
            let sixteen = eight & (eight >> 8);
            if run <= 32 { (sixteen, 16) } else { (sixteen & (sixteen >> 16), 32) }
        }
    };
    runs & (runs >> run.saturating_sub(length))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ns: u64) -> Instant {
        Instant::from_nanos(ns)
    }

    #[test]
    fn long_transfers_flow_around_what_is_taken() {
        let mut lane = Lane::new(Nanoseconds::new(16));
        assert_eq!(lane.reserve(at(0), at(768), Nanoseconds::new(80)).start, at(768));
        let long = lane.reserve(at(0), at(0), Nanoseconds::new(8 * 1000));
        assert_eq!((long.start, long.end), (at(0), at(8 * 1000 + 80)));
    }

    #[test]
    fn far_beyond_the_timetable_transfers_queue() {
        let mut lane = Lane::new(Nanoseconds::new(16));
        let far = 8 * SLOTS * 3;
        assert_eq!(lane.reserve(at(0), at(far), Nanoseconds::new(80)).start, at(far));
        assert_eq!(lane.reserve(at(0), at(far), Nanoseconds::new(80)).start, at(far + 80));
        // When time gets there, the lane works as before.
        assert_eq!(lane.reserve(at(far * 2), at(far * 2), Nanoseconds::new(80)).start, at(far * 2));
    }
}
