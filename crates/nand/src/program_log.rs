//! Programs in the order in which they were begun, and which of them are over: what erases, flushes and
//! FUA writes wait for.

use std::collections::VecDeque;
use std::ops::RangeInclusive;

/// The programs of one stream that are under way, by number.
#[derive(Clone, Debug, Default)]
pub struct ProgramLog {
    /// Those from the first that is not over on; whether each is over.
    under_way: VecDeque<bool>,
    first: u64,
}

impl ProgramLog {
    /// Begins a program and returns its number: they count from zero.
    #[inline]
    pub fn begin(&mut self) -> u64 {
        self.under_way.push_back(false);
        self.first + self.under_way.len() as u64 - 1
    }

    /// Ends program `number`. Returns whether all before another one are over now than before.
    ///
    /// # Panics
    /// When the program is not under way.
    #[inline]
    pub fn end(&mut self, number: u64) -> bool {
        let place = number.checked_sub(self.first).and_then(|place| usize::try_from(place).ok());
        let is_over = place.and_then(|place| self.under_way.get_mut(place));
        let is_over = is_over.filter(|is_over| !**is_over).expect("a program ends once");
        *is_over = true;
        let before = self.first;
        while self.under_way.front() == Some(&true) {
            self.under_way.pop_front();
            self.first += 1;
        }
        self.first > before
    }

    /// Returns the number of the first program that is not over, or of the next to begin: all before
    /// it are over.
    #[inline]
    pub fn low_water(&self) -> u64 {
        self.first
    }

    /// Returns the number that the next program gets.
    #[inline]
    pub fn next(&self) -> u64 {
        self.first + self.under_way.len() as u64
    }

    /// Returns whether all programs of a range are over.
    pub fn are_over(&self, mut numbers: RangeInclusive<u64>) -> bool {
        numbers.all(|number| {
            let place = number.checked_sub(self.first);
            place.is_none_or(|place| self.under_way.get(place as usize) == Some(&true))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        /// Against a set of what is under way.
        #[test]
        fn the_log_knows_what_is_over(steps in proptest::collection::vec(any::<u16>(), 1..100)) {
            let mut log = ProgramLog::default();
            let mut under_way = BTreeSet::new();
            let mut begun = 0u64;
            for step in steps {
                let oldest = |set: &BTreeSet<u64>, begun| set.first().copied().unwrap_or(begun);
                let before = oldest(&under_way, begun);
                if step % 2 == 0 || under_way.is_empty() {
                    prop_assert_eq!(log.begin(), begun);
                    under_way.insert(begun);
                    begun += 1;
                } else {
                    let ended = *under_way.iter().nth(step as usize % under_way.len()).unwrap();
                    under_way.remove(&ended);
                    let is_later = oldest(&under_way, begun) > before;
                    prop_assert_eq!(log.end(ended), is_later);
                }
                prop_assert_eq!(log.low_water(), oldest(&under_way, begun));
                prop_assert_eq!(log.next(), begun);
                let (from, to) = (u64::from(step) % begun, begun - 1);
                prop_assert_eq!(log.are_over(from..=to), under_way.range(from..=to).next().is_none());
            }
        }
    }
}
