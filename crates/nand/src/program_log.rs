//! Log of programs in the order in which they began: it tells which are complete. Erases, flushes and FUA
//! writes wait for that.

use std::collections::VecDeque;
use std::ops::RangeInclusive;

/// Log of the programs of one stream, by number.
#[derive(Clone, Debug, Default)]
pub struct ProgramLog {
    /// One bit for each program, set if the program is complete. The first word contains the first program
    /// that is not.
    completed: VecDeque<u64>,
    first: u64,
    next: u64,
}

impl ProgramLog {
    /// Begins a program and returns its number. Numbers count from zero.
    #[inline]
    pub fn begin(&mut self) -> u64 {
        if self.next.is_multiple_of(64) {
            self.completed.push_back(0);
        }
        self.next += 1;
        self.next - 1
    }

    /// Ends program `number`. Returns true if that raised `low_water`.
    ///
    /// # Panics
    /// Panics if the program is not in flight.
    #[inline]
    pub fn end(&mut self, number: u64) -> bool {
        assert!(self.first <= number && number < self.next, "a program ends that was begun");
        let word = &mut self.completed[(number / 64 - self.first / 64) as usize];
        assert!(*word >> (number % 64) & 1 == 0, "a program ends once");
        *word |= 1 << (number % 64);
        let before = self.first;
        while let Some(word) = self.completed.front() {
            let over = (!(word >> (self.first % 64))).trailing_zeros();
            self.first += u64::from(over);
            if over == 0 || !self.first.is_multiple_of(64) {
                break;
            }
            self.completed.pop_front();
        }
        self.first > before
    }

    /// Returns the number of the first program that is not complete, or of the next one to begin: all
    /// before it are complete.
    #[inline]
    pub fn low_water(&self) -> u64 {
        self.first
    }

    /// Returns the number that the next program gets.
    #[inline]
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Returns true if all programs of a range are complete.
    pub fn are_complete(&self, mut numbers: RangeInclusive<u64>) -> bool {
        numbers.all(|number| {
            let word = (number / 64).checked_sub(self.first / 64);
            let word = word.map(|word| self.completed.get(word as usize).copied().unwrap_or(0));
            number < self.first || word.is_some_and(|word| word >> (number % 64) & 1 != 0)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        /// Compares the log with a set of the programs in flight.
        #[test]
        fn the_log_knows_what_is_over(steps in proptest::collection::vec(any::<u16>(), 1..600)) {
            let mut log = ProgramLog::default();
            let mut in_flight = BTreeSet::new();
            let mut begun = 0u64;
            for step in steps {
                let oldest = |set: &BTreeSet<u64>, begun| set.first().copied().unwrap_or(begun);
                let before = oldest(&in_flight, begun);
                if step % 7 > 2 || in_flight.is_empty() {
                    prop_assert_eq!(log.begin(), begun);
                    in_flight.insert(begun);
                    begun += 1;
                } else {
                    // Ends one of the first few programs, so that whole words of the log become complete.
                    let among = in_flight.len().min(1 + step as usize % 5);
                    let ended = *in_flight.iter().nth(step as usize % among).unwrap();
                    in_flight.remove(&ended);
                    let is_later = oldest(&in_flight, begun) > before;
                    prop_assert_eq!(log.end(ended), is_later);
                }
                prop_assert_eq!(log.low_water(), oldest(&in_flight, begun));
                prop_assert_eq!(log.next(), begun);
                let (from, to) = (u64::from(step) % begun, begun - 1);
                prop_assert_eq!(log.are_complete(from..=to), in_flight.range(from..=to).next().is_none());
            }
        }
    }
}
