//! A resource that serves one transfer after the other: a channel, a direction of the host link.
//!
//! Transfers are reserved as soon as they are known, not when they begin, and dies finish out of
//! order, so a later call often asks for an earlier time. A lane therefore keeps a timetable: a
//! ring of bits, each a short slot of time, set where the lane is free. A transfer takes the
//! first stretch that is long enough; finding it is a few operations on words, whatever the order
//! in which transfers are asked for.
//!
//! Slots are half of a unit's transfer or less. A transfer starts at the instant it asked
//! for or at the start of a slot, and takes whole slots; what that rounds is carried over to the
//! next one, so a lane that is always busy moves exactly what its rate says.

mod anywhere;

use super::Span;
use crate::prefetch::prefetch;
use crate::units::{Instant, Nanoseconds};

/// Slots of the timetable: some 130 ms to 1 s. Only those ahead of the present are touched.
const SLOTS: u64 = 1 << 18;

/// Bytes of the ring. It is read and written in words of eight bytes that begin at any byte.
const BYTES: usize = SLOTS as usize / 8;

/// Bytes that the processor fetches together.
const LINE: usize = 64;

/// Most slots that are looked for at a time: a word, less the slots before the first in its byte.
const PIECE: u64 = 56;

/// Two, three and four slots in a row.
const RUNS: [u64; 3] = [0b11, 0b111, 0b1111];

/// How many lengths of transfers are told apart by where the lane is full for them.
const FULL: usize = 8;

/// A stretch in which no `slots` free slots in a row begin. What is taken is never given back, so it
/// stays full.
#[derive(Clone, Copy, Debug)]
struct Full {
    slots: u64,
    from: u64,
    until: u64,
}

/// One lane, a line of the cache, so that a read finds its lane by a shift.
#[derive(Clone, Debug)]
#[repr(align(64))]
pub(crate) struct Lane {
    /// Free slots, a bit each; slot `s` of time is kept at `s % SLOTS`.
    free: Box<[u8; BYTES]>,
    /// Binary logarithm of a slot's nanoseconds.
    slot_shift: u32,
    /// Nanoseconds of a slot, less one.
    slot_mask: u64,
    /// Where transfers of some lengths, by their slots, did not fit lately.
    full: Box<[Full; FULL]>,
    /// Nanoseconds of earlier transfers that fit no whole slot.
    carry: u64,
    /// The first slot of time that the ring holds, at the start of a word.
    first: u64,
    /// The first slot behind all that was taken beyond the ring.
    far_behind: u64,
    /// The end of all that is booked.
    free_from: Instant,
}

const _: () = assert!(size_of::<Lane>() == LINE);

impl Lane {
    /// A lane on which one mapping unit takes `unit_transfer`.
    pub(crate) fn new(unit_transfer: Nanoseconds) -> Self {
        let slot = (unit_transfer.nanos() / 2).clamp(1 << 3, 1 << 14);
        Lane {
            free: Box::new([u8::MAX; BYTES]),
            slot_shift: slot.ilog2(),
            slot_mask: (1 << slot.ilog2()) - 1,
            full: Box::new([Full { slots: 0, from: 0, until: 0 }; FULL]),
            carry: 0,
            first: 0,
            far_behind: 0,
            free_from: Instant::START,
        }
    }

    /// The end of all that is booked.
    pub(crate) fn free_from(&self) -> Instant {
        self.free_from
    }

    /// Takes the lane for `duration`, not before `earliest`. No later call will ask for a time
    /// before `now`.
    #[inline(always)]
    pub(crate) fn reserve(
        &mut self,
        now: Instant,
        earliest: Instant,
        duration: Nanoseconds,
    ) -> Span {
        let slot = earliest.nanos() >> self.slot_shift;
        let slots = self.slots_for(duration);
        match self.take_unit(slot, slots) {
            Some(first) => self.span_from(first, earliest, duration),
            None => self.reserve_otherwise(now, earliest, duration, slots),
        }
    }

    /// The same where `duration` is that of several units, rather than of one.
    #[inline(always)]
    pub(crate) fn reserve_several(
        &mut self,
        now: Instant,
        earliest: Instant,
        duration: Nanoseconds,
    ) -> Span {
        let slot = earliest.nanos() >> self.slot_shift;
        let slots = self.slots_for(duration);
        match self.take_several(slot, slots) {
            Some(first) => self.span_from(first, earliest, duration),
            None => self.reserve_otherwise(now, earliest, duration, slots),
        }
    }

    /// The same for who asks in the order of time: what follows the last transfer booked begins when
    /// that ends, to the nanosecond, rather than with a slot; within two slots of it where the lane
    /// was idle before and its timetable begins within a slot. A host that waits for every transfer
    /// feels where each of them lies; to one that keeps a lane busy only their number matters.
    pub(crate) fn reserve_in_turn(
        &mut self,
        now: Instant,
        earliest: Instant,
        duration: Nanoseconds,
    ) -> Span {
        let before = self.free_from;
        let span = self.reserve(now, earliest, duration);
        let slot = Nanoseconds::new(self.slot_mask + 1);
        if span.start >= before + slot || before >= span.start + slot {
            return span;
        }
        let start = before.max(earliest);
        let end = start + span.end.since(span.start);
        self.free_from = end;
        Span { start, end }
    }

    /// The whole slots that a transfer of `duration` takes, with what earlier ones left over.
    #[inline(always)]
    fn slots_for(&mut self, duration: Nanoseconds) -> u64 {
        let owed = self.carry + duration.nanos();
        self.carry = owed & self.slot_mask;
        owed >> self.slot_shift
    }

    /// The transfer that was given the slots from `first` on.
    #[inline(always)]
    fn span_from(&mut self, first: u64, earliest: Instant, duration: Nanoseconds) -> Span {
        let start = earliest.later(Instant::from_nanos(first << self.slot_shift));
        let end = start + duration;
        self.free_from = self.free_from.later(end);
        Span { start, end }
    }

    /// Takes the two to four slots of a single unit, where the first word looked at has them
    /// free. That is by far the most common; the number of slots changes with the carry, and no
    /// branch depends on it.
    #[inline(always)]
    fn take_unit(&mut self, slot: u64, slots: u64) -> Option<u64> {
        // Words that do not overlap: what was just written to one is at hand when it is read again.
        let byte = (slot / 64 * 8) as usize % BYTES;
        let is_held = slot.wrapping_sub(self.first) <= SLOTS - 64;
        let place = self.free[byte..].first_chunk_mut()?;
        let further = slots.wrapping_sub(2);
        if !is_held || further > 2 {
            return None;
        }
        let word = u64::from_le_bytes(*place);
        let bit = slot % 64;
        // What is shifted in counts as taken.
        let free = word >> bit;
        let two = free & (free >> 1);
        let starts = two & (two >> further);
        if starts == 0 {
            return None;
        }
        let first = u64::from(starts.trailing_zeros());
        *place = (word ^ RUNS[further as usize] << (bit + first)).to_le_bytes();
        Some(slot + first)
    }

    /// The same for up to [`PIECE`] slots, a program unit or a part of it. Where in the first word
    /// they are free is chance, and no branch; that they are somewhere is most likely.
    #[inline(always)]
    fn take_several(&mut self, slot: u64, slots: u64) -> Option<u64> {
        if slots > PIECE || slot.wrapping_sub(self.first) > SLOTS - 64 {
            return None;
        }
        if !(4..=32).contains(&slots) {
            return self.take_further(slot, slot, slots);
        }
        let byte = (slot / 8) as usize % BYTES;
        let bit = slot % 8;
        let place = self.free[byte..].first_chunk_mut()?;
        let word = u64::from_le_bytes(*place);
        // What is shifted in counts as taken.
        let starts = runs_of_four_to_32(word >> bit, slots);
        if starts == 0 {
            // No run begins before the last that would lie in the word.
            return self.take_further(slot, slot + 65 - bit - slots, slots);
        }
        let first = u64::from(starts.trailing_zeros());
        *place = (word ^ ((1u64 << slots) - 1) << (bit + first)).to_le_bytes();
        // Time goes on, and the ring is long enough to have left the processor's caches since.
        prefetch(&*self.free, byte + LINE);
        Some(slot + first)
    }

    /// The same where a run asked for from `from` on does not begin before `slot`. A channel that is
    /// busy with many of the same length is not looked through again for each of them.
    #[inline(never)]
    fn take_further(&mut self, from: u64, slot: u64, slots: u64) -> Option<u64> {
        let run = (1u64 << slots) - 1;
        let full = self.full[slots as usize % FULL];
        let was_full = full.slots == slots && (full.from..full.until).contains(&slot);
        let mut slot = if was_full { full.until } else { slot };
        loop {
            if slot.wrapping_sub(self.first) > SLOTS - 64 {
                return None;
            }
            let byte = (slot / 8) as usize % BYTES;
            let bit = slot % 8;
            let place = self.free[byte..].first_chunk_mut()?;
            let word = u64::from_le_bytes(*place);
            let in_the_way = !(word >> bit) & run;
            if in_the_way == 0 {
                *place = (word ^ run << bit).to_le_bytes();
                let from = if was_full { full.from.min(from) } else { from };
                self.full[slots as usize % FULL] = Full { slots, from, until: slot + slots };
                return Some(slot);
            }
            slot += u64::from(64 - in_the_way.leading_zeros());
        }
    }
}

/// The places from which `run` bits of `free` in a row are set, four to 32 of them. One branch only
/// for how many: most transfers of several units are longer than seven slots.
#[inline(always)]
fn runs_of_four_to_32(free: u64, run: u64) -> u64 {
    // After each step a bit says that twice as many bits from there on are set.
    let two = free & (free >> 1);
    let four = two & (two >> 2);
    if run < 8 {
        return four & (four >> (run - 4));
    }
    let eight = four & (four >> 4);
    // A step makes the runs longer by at most as much as they are long.
    let more = (run - 8).min(8);
    let runs = eight & (eight >> more);
    runs & (runs >> (run - 8 - more))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{RngExt, SeedableRng};
    use rand_pcg::Pcg64Mcg;

    fn at(ns: u64) -> Instant {
        Instant::from_nanos(ns)
    }

    /// A lane with slots of 8 ns.
    fn lane() -> Lane {
        Lane::new(Nanoseconds::new(16))
    }

    #[test]
    fn transfers_queue_and_a_gap_is_used() {
        let mut lane = lane();
        let mut reserve = |earliest, duration| {
            lane.reserve(at(0), at(earliest), Nanoseconds::new(duration)).start.nanos()
        };
        assert_eq!(reserve(800, 80), 800);
        assert_eq!(reserve(800, 80), 880);
        assert_eq!(reserve(400, 80), 400);
        assert_eq!(reserve(403, 80), 480);
        assert_eq!(reserve(760, 80), 960, "the gap before 800 is too short");
        assert_eq!(reserve(0, 400), 0);
        assert_eq!(reserve(0, 240), 560, "the gap from 560 to 800 fits exactly");
        assert_eq!(reserve(0, 8), 1040, "all gaps are used up");
    }

    #[test]
    fn it_agrees_with_a_plain_search() {
        let mut generator = Pcg64Mcg::seed_from_u64(3);
        let mut lane = lane();
        let mut taken: Vec<(u64, u64)> = Vec::new();
        for step in 0..40_000u64 {
            let now = step * 150;
            let slot = now / 8 + generator.random_range(0..300u64);
            let slots = generator.random_range(1..=32u64);
            let duration = Nanoseconds::new(slots * 8);
            let span = if generator.random() {
                lane.reserve(at(now), at(slot * 8), duration)
            } else {
                lane.reserve_several(at(now), at(slot * 8), duration)
            };
            let mut first = slot;
            while let Some(other) = taken.iter().find(|t| t.0 < first + slots && t.1 > first) {
                first = other.1;
            }
            assert_eq!(span.start, at(first * 8), "step {step}");
            assert_eq!(span.end, at((first + slots) * 8), "step {step}");
            taken.push((first, first + slots));
            taken.retain(|t| t.1 * 8 > now);
        }
    }

    #[test]
    fn a_lane_that_is_always_busy_moves_what_its_rate_says() {
        // 1241 ns are no whole number of slots of 128 ns.
        let mut lane = Lane::new(Nanoseconds::new(1_241));
        let mut end = at(0);
        for _ in 0..10_000 {
            let now = at(end.nanos().saturating_sub(50_000));
            end = lane.reserve(now, now, Nanoseconds::new(1_241)).end;
        }
        let exact = 1_241.0 * 10_000.0;
        assert!((end.nanos() as f64 / exact - 1.0).abs() < 1e-3, "{end:?}");
    }

    #[test]
    fn transfers_asked_for_in_turn_follow_each_other_to_the_nanosecond() {
        let mut lane = Lane::new(Nanoseconds::new(10_240));
        let mut exact = 0u64;
        for step in 0..10_000u64 {
            let now = at(exact.saturating_sub(40_000));
            let duration = 10_240 * (1 + step % 3);
            exact += duration;
            let span = lane.reserve_in_turn(now, now, Nanoseconds::new(duration));
            assert_eq!(span.end, at(exact), "step {step}");
        }
        // What was booked for later keeps its place.
        let now = at(exact);
        let later = lane.reserve(now, now + Nanoseconds::new(400_000), Nanoseconds::new(10_240));
        let first = lane.reserve_in_turn(now, now, Nanoseconds::new(10_240));
        assert!(first.start == now && first.end <= later.start);
        assert_eq!(lane.free_from(), later.end);
    }
}
