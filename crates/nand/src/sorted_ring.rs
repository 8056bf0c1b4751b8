//! A sorted queue whose entries arrive nearly in order: a ring buffer that is searched from its end.

/// Entries in an order that the caller defines.
#[derive(Clone, Debug)]
pub(crate) struct SortedRing<T> {
    /// Places for entries; their number is a power of two.
    slots: Box<[T]>,
    /// Position of the first entry, and of the place behind the last. Both count on and wrap; their lowest
    /// bits are the index of the place.
    first: u32,
    end: u32,
}

/// Initial number of places of a ring.
const INITIAL_SLOTS: usize = 16;

impl<T: Copy + Default> Default for SortedRing<T> {
    fn default() -> Self {
        SortedRing { slots: vec![T::default(); INITIAL_SLOTS].into_boxed_slice(), first: 0, end: 0 }
    }
}

impl<T: Copy + Default> SortedRing<T> {
    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.first == self.end
    }

    /// Inserts an entry behind the last entry for which `is_before` returns true, and behind the first
    /// `fixed` entries in any case. Returns true if it is now the first.
    #[inline(always)]
    pub(crate) fn insert(&mut self, entry: T, fixed: u32, is_before: impl Fn(&T) -> bool) -> bool {
        if self.end.wrapping_sub(self.first) as usize == self.slots.len() {
            self.grow();
        }
        let slots = &mut self.slots[..];
        let mask = slots.len() - 1;
        let from = self.first.wrapping_add(fixed);
        let mut place = self.end;
        self.end = place.wrapping_add(1);
        while place != from {
            let before = slots[place.wrapping_sub(1) as usize & mask];
            if is_before(&before) {
                break;
            }
            slots[place as usize & mask] = before;
            place = place.wrapping_sub(1);
        }
        slots[place as usize & mask] = entry;
        place == self.first
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self) {
        let length = self.slots.len();
        self.slots.rotate_left(self.first as usize & (length - 1));
        (self.first, self.end) = (0, length as u32);
        let mut slots = std::mem::take(&mut self.slots).into_vec();
        slots.resize(2 * length, T::default());
        self.slots = slots.into_boxed_slice();
    }

    /// Returns the first entry, or `None` if the ring is empty.
    #[inline(always)]
    pub(crate) fn first(&self) -> Option<&T> {
        let mask = self.slots.len() - 1;
        (!self.is_empty()).then(|| &self.slots[self.first as usize & mask])
    }

    /// Removes the first entry.
    ///
    /// # Panics
    /// Panics if the ring is empty.
    #[inline(always)]
    pub(crate) fn remove_first(&mut self) {
        assert!(!self.is_empty(), "a queue has a first entry");
        self.first = self.first.wrapping_add(1);
    }

    /// Returns all entries, first to last.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        let mask = self.slots.len() - 1;
        let count = self.end.wrapping_sub(self.first);
        (0..count).map(move |ahead| &self.slots[self.first.wrapping_add(ahead) as usize & mask])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Compares the ring with a list that is sorted and searched from its beginning.
        #[test]
        fn a_ring_does_as_a_sorted_list_does(
            steps in proptest::collection::vec((0u8..5, 0u64..30, any::<bool>()), 0..300),
        ) {
            let mut ring = SortedRing::<(u64, usize)>::default();
            // The positions are about to wrap.
            (ring.first, ring.end) = (u32::MAX - 40, u32::MAX - 40);
            let mut slow: Vec<(u64, usize)> = Vec::new();
            for (number, (what, key, fixed)) in steps.into_iter().enumerate() {
                if what == 0 {
                    prop_assert_eq!(ring.first(), slow.first());
                    if !slow.is_empty() {
                        slow.remove(0);
                        ring.remove_first();
                    }
                } else {
                    let fixed = fixed && !slow.is_empty();
                    // An entry with a lower key than the fixed first entry would be inserted behind it, out of
                    // order.
                    let key = if fixed { key.max(slow[0].0) } else { key };
                    let is_first = ring.insert((key, number), fixed.into(), |it| it.0 < key);
                    let from = usize::from(fixed);
                    let later = slow[from..].iter().position(|it| it.0 >= key);
                    let place = later.map_or(slow.len(), |place| from + place);
                    slow.insert(place, (key, number));
                    prop_assert_eq!(is_first, place == 0);
                }
                prop_assert_eq!(ring.iter().copied().collect::<Vec<_>>(), slow.clone());
                prop_assert_eq!(ring.is_empty(), slow.is_empty());
            }
        }
    }
}
