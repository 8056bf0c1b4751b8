//! When the requests in flight are answered; the earliest of them makes room for the next.
//!
//! A tournament of groups. An entry is an instant with its place in the low bits, so the
//! winner says where it came from. It leaves, and the matches on its way up are played again, before
//! the request that takes its place is simulated: when the next request is sent is then known
//! already, unless this one is answered even sooner, which is rare and easily foreseen. So the
//! processor can begin with the next request while it is still at this one.
//!
//! Entries are compared as if they were floating-point numbers. Those that are positive have the order
//! of their bits, and processors have an instruction for the lesser of two.

use ssdlab_units::Nanoseconds;

/// Bits of an entry that hold the place. The rest holds nanoseconds up to 26 days of a phase, which
/// is asked to last no longer than [`Phase::LONGEST`](crate::Phase::LONGEST).
const PLACE_BITS: u32 = 12;
const PLACE_MASK: u64 = (1 << PLACE_BITS) - 1;

/// What an entry could hold as a time if the bits of infinity and beyond were numbers, and so much of
/// it they take.
const TIMES: u64 = 1 << (63 - PLACE_BITS);
const BEYOND: u64 = TIMES - (f64::INFINITY.to_bits() >> PLACE_BITS);

/// Entries that play each other in one match of the first round, and of the later ones.
const FIRST_GROUP: usize = 4;
const GROUP: usize = 8;

/// The most rounds: 4 * 8^4 entries are more than places have numbers.
const ROUNDS: usize = 5;

/// Where each round's winners begin among the matches, the entries themselves first. The last
/// winner has a group of its own, as have the two of the round before.
const ROUND: [usize; ROUNDS + 1] = [0, 4096, 5120, 5248, 5264, 5272];
const MATCHES: usize = 5280;

/// Nobody plays here.
const NOBODY: f64 = f64::INFINITY;

/// The lesser of two entries.
#[inline(always)]
fn lesser(one: f64, other: f64) -> f64 {
    if one < other { one } else { other }
}

/// The requests in flight.
pub(super) struct InFlight {
    /// The entries by place, then the winners of each group of them, and so on.
    matches: [f64; MATCHES],
    /// Rounds until one is left.
    rounds: usize,
    /// The entry that is answered first.
    earliest: u64,
    /// All times that were entered, each so much later, their bits together.
    entered: u64,
}

impl InFlight {
    /// `depth` places, all free. Times count from the start of the phase, so that the simulated
    /// time before it has no limit.
    pub(super) fn new(depth: usize) -> Box<Self> {
        assert!(
            (1..=PLACE_MASK as usize + 1).contains(&depth),
            "phases are checked for their depth"
        );
        let of_rounds = |rounds: u32| FIRST_GROUP * GROUP.pow(rounds - 1);
        let rounds = (1..).find(|&rounds| of_rounds(rounds) >= depth).expect("five at most");
        let mut this = Box::new(InFlight {
            matches: [NOBODY; MATCHES],
            rounds: rounds as usize,
            earliest: NOBODY.to_bits(),
            entered: 0,
        });
        for place in 0..depth as u64 {
            this.enter(place, Nanoseconds::ZERO);
        }
        this
    }

    /// The earliest time at which a place is free.
    #[inline(always)]
    pub(super) fn earliest(&self) -> Nanoseconds {
        Nanoseconds::new(self.earliest >> PLACE_BITS)
    }

    /// Takes the place that is free first; it has to be entered again.
    #[inline(always)]
    pub(super) fn take_earliest(&mut self) -> u64 {
        let place = self.earliest & PLACE_MASK;
        let mut index = place as usize;
        self.matches[index] = NOBODY;
        index /= FIRST_GROUP;
        let mut winner = self.winner_of::<FIRST_GROUP>(index * FIRST_GROUP);
        self.matches[ROUND[1] + index] = winner;
        for round in 1..self.rounds {
            index /= GROUP;
            winner = self.winner_of::<GROUP>(ROUND[round] + index * GROUP);
            self.matches[ROUND[round + 1] + index] = winner;
        }
        self.earliest = winner.to_bits();
        place
    }

    /// Who wins the match of `PLAYERS` from `first` on. One after the other: in pairs, compilers would
    /// read two at a time, and wait for what was just written alone.
    #[inline(always)]
    fn winner_of<const PLAYERS: usize>(&self, first: usize) -> f64 {
        self.matches[first..first + PLAYERS].iter().copied().fold(NOBODY, lesser)
    }

    /// Place `place` is taken until `end`.
    #[inline(always)]
    pub(super) fn enter(&mut self, place: u64, end: Nanoseconds) {
        self.entered |= end.nanos() + BEYOND;
        let entry = end.nanos() << PLACE_BITS | place;
        let place = (place & PLACE_MASK) as usize;
        self.matches[place] = f64::from_bits(entry);
        // Most who enter are answered late, and do not win even their first match.
        let winner = &mut self.matches[ROUND[1] + place / FIRST_GROUP];
        if winner.to_bits() < entry {
            return;
        }
        *winner = f64::from_bits(entry);
        self.go_on(place / FIRST_GROUP, entry);
    }

    /// Has `entry`, which won match `index` of the first round, play the next ones.
    #[inline(always)]
    fn go_on(&mut self, mut index: usize, entry: u64) {
        for winners in &ROUND[2..=self.rounds] {
            index /= GROUP;
            let winner = &mut self.matches[winners + index];
            if winner.to_bits() < entry {
                return;
            }
            *winner = f64::from_bits(entry);
        }
        self.earliest = entry;
    }

    /// Checks the times that were entered so far.
    ///
    /// # Panics
    /// When one of them was so late that an entry does not hold it.
    pub(super) fn check(&self) {
        assert!(self.entered < TIMES, "a phase lasts less than 26 days");
    }

    /// The time at which all places are free.
    pub(super) fn latest(&self) -> Nanoseconds {
        self.check();
        let entries = self.matches[..ROUND[1]].iter().filter(|&&entry| entry != NOBODY);
        let latest = entries.map(|entry| entry.to_bits()).max().unwrap_or(0);
        Nanoseconds::new(latest >> PLACE_BITS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_earliest_end_always_comes_next() {
        use rand::{RngExt, SeedableRng};
        let mut generator = rand_pcg::Pcg64Mcg::seed_from_u64(5);
        for depth in [1usize, 2, 3, 4, 5, 8, 31, 32, 64, 200, 4096] {
            let mut in_flight = InFlight::new(depth);
            let mut plain = vec![0; depth];
            for _ in 0..2_000 {
                let earliest = *plain.iter().min().unwrap();
                assert_eq!(in_flight.earliest().nanos(), earliest, "depth {depth}");
                let place = plain.iter().position(|&end| end == earliest).unwrap();
                plain[place] = earliest + generator.random_range(0..100u64);
                let taken = in_flight.take_earliest();
                in_flight.enter(taken, Nanoseconds::new(plain[place]));
            }
            assert_eq!(in_flight.latest().nanos(), *plain.iter().max().unwrap());
        }
    }

    #[test]
    fn places_free_up_in_the_order_of_their_ends() {
        let mut in_flight = InFlight::new(3);
        let mut next = |earliest, end| {
            assert_eq!(in_flight.earliest(), Nanoseconds::new(earliest));
            let place = in_flight.take_earliest();
            in_flight.enter(place, Nanoseconds::new(end));
            in_flight.latest()
        };
        for end in [50, 20, 70] {
            next(0, end);
        }
        for (earliest, end) in [(20, 60), (50, 55), (55, 90)] {
            next(earliest, end);
        }
        assert_eq!(next(60, 100), Nanoseconds::new(100));
    }

    #[test]
    #[should_panic(expected = "less than 26 days")]
    fn a_time_that_an_entry_does_not_hold_is_noticed() {
        let mut in_flight = InFlight::new(3);
        let place = in_flight.take_earliest();
        in_flight.enter(place, Nanoseconds::from_secs(27 * 86_400));
        in_flight.check();
    }
}
