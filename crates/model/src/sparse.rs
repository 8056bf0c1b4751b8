//! Tables that take memory and time for the entries that were set, not for their length.

/// Entries of a chunk: 2 KiB of numbers of 32 bits.
const CHUNK_ENTRIES: usize = 512;

/// A table of `length` entries, all of them the default value at first. A chunk of the table is allocated when one of
/// its entries is set.
#[derive(Clone, Debug)]
pub struct SparseTable<T> {
    chunks: Vec<Option<Box<[T; CHUNK_ENTRIES]>>>,
    length: usize,
}

impl<T: Copy + Default + PartialEq> SparseTable<T> {
    /// Returns a table of `length` default values.
    pub fn new(length: usize) -> Self {
        SparseTable { chunks: vec![None; length.div_ceil(CHUNK_ENTRIES)], length }
    }

    /// Returns the number of entries, set or not.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Returns true if the table has no entry at all.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Returns an entry.
    ///
    /// # Panics
    /// Panics if the table is shorter.
    #[inline]
    pub fn get(&self, index: usize) -> T {
        assert!(index < self.length, "entry {index} of {}", self.length);
        self.chunks[index / CHUNK_ENTRIES]
            .as_ref()
            .map_or(T::default(), |chunk| chunk[index % CHUNK_ENTRIES])
    }

    /// Sets an entry.
    ///
    /// # Panics
    /// Panics if the table is shorter.
    #[inline]
    pub fn set(&mut self, index: usize, value: T) {
        assert!(index < self.length, "entry {index} of {}", self.length);
        let chunk = &mut self.chunks[index / CHUNK_ENTRIES];
        let chunk = chunk.get_or_insert_with(|| Box::new([T::default(); CHUNK_ENTRIES]));
        chunk[index % CHUNK_ENTRIES] = value;
    }

    /// Returns the entries that are not the default value, in order.
    pub fn entries(&self) -> impl Iterator<Item = (usize, T)> + '_ {
        self.entries_in(0..self.length)
    }

    /// Returns the entries of `range` that are not the default value, in order.
    pub fn entries_in(
        &self,
        range: std::ops::Range<usize>,
    ) -> impl Iterator<Item = (usize, T)> + '_ {
        let end = range.end.min(self.length);
        let first = range.start.min(end) / CHUNK_ENTRIES;
        let chunks = &self.chunks[first..end.div_ceil(CHUNK_ENTRIES).max(first)];
        let made = (first..).zip(chunks).filter_map(|(at, chunk)| Some((at, chunk.as_ref()?)));
        made.flat_map(move |(at, chunk)| (at * CHUNK_ENTRIES..).zip(chunk.iter().copied()))
            .skip_while(move |&(index, _)| index < range.start)
            .take_while(move |&(index, _)| index < end)
            .filter(|(_, value)| *value != T::default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_was_not_set_takes_no_memory() {
        let mut table = SparseTable::<u32>::new(1 << 30);
        table.set((1 << 30) - 1, 7);
        assert_eq!(table.chunks.iter().flatten().count(), 1);
        assert_eq!(table.entries().collect::<Vec<_>>(), [((1 << 30) - 1, 7)]);
        assert_eq!((table.get(0), table.get((1 << 30) - 1)), (0, 7));
    }

    proptest! {
        #[test]
        fn it_is_a_plain_table(
            length in 1..3000usize,
            sets in prop::collection::vec((0..3000usize, 0..4u32), 0..60),
            range in (0..4000usize, 0..4000usize),
        ) {
            let (mut table, mut plain) = (SparseTable::new(length), vec![0u32; length]);
            for (index, value) in sets {
                if index < length {
                    table.set(index, value);
                    plain[index] = value;
                }
            }
            for (index, &value) in plain.iter().enumerate() {
                prop_assert_eq!(table.get(index), value);
            }
            let set = plain.iter().copied().enumerate().filter(|it| it.1 != 0);
            let within = set.clone().filter(|it| (range.0..range.1).contains(&it.0));
            prop_assert_eq!(table.entries().collect::<Vec<_>>(), set.collect::<Vec<_>>());
            let found: Vec<_> = table.entries_in(range.0..range.1).collect();
            prop_assert_eq!(found, within.collect::<Vec<_>>());
        }
    }
}
