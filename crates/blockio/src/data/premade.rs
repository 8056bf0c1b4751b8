//! Blocks of data made ahead, for phases without time to generate the data of each request.
//!
//! Before each use every sector of a block gets a new stamp (place, number of the write), and one of its
//! eight cache lines, each time the next one, is combined with a new key. So no two sectors are ever
//! alike, after eight uses nothing is left of a block, and the data that a block has in common with its
//! last use lies as far back as the length of all blocks together. Compressors of drives and file systems
//! have smaller windows than that.

use ssdlab_drive::addresses::SplitMix64;

use super::{BlockData, SECTOR_BYTES, SECTOR_WORDS, Stamp, label_of, splitmix};

/// Number of parts of a sector, of which each use renews one.
const PARTS: usize = 8;

/// Words of a part.
pub(super) const PART_WORDS: usize = SECTOR_WORDS / PARTS;

const PART_BYTES: usize = PART_WORDS * 8;

/// State of blocks that were made ahead. Their memory belongs to the caller.
#[derive(Clone, Debug)]
pub(crate) struct PremadeBlocks {
    seed: u64,
    sectors: usize,
    /// Key of each sector, block after block.
    keys: Vec<u64>,
    /// Number of uses of each block.
    uses: Vec<u64>,
}

impl PremadeBlocks {
    /// Creates a set of `blocks` blocks of `length` bytes, whose data is not made yet. Sets with
    /// different `number` have no data in common.
    ///
    /// # Panics
    /// Panics if the length is not a whole number of sectors.
    pub(crate) fn new(
        data: &BlockData,
        number: u64,
        blocks: usize,
        length: usize,
    ) -> PremadeBlocks {
        assert!(length.is_multiple_of(SECTOR_BYTES), "blocks of {length} bytes");
        let sectors = length / SECTOR_BYTES;
        let mut keys = SplitMix64::new(splitmix(number ^ data.seed.rotate_left(16)));
        let keys = (0..blocks * sectors).map(|_| keys.next_word()).collect();
        PremadeBlocks { seed: data.seed, sectors, keys, uses: vec![0; blocks] }
    }

    /// Makes the data of block number `index`.
    pub(crate) fn make(&self, data: &BlockData, index: usize, block: &mut [u8]) {
        let keys = &self.keys[index * self.sectors..][..self.sectors];
        for (sector, key) in block.chunks_exact_mut(SECTOR_BYTES).zip(keys) {
            data.make(sector.as_chunks_mut::<8>().0, *key);
        }
    }

    /// Turns block number `index` into the data of write number `sequence` at byte `place`.
    #[inline]
    pub(crate) fn renew(&mut self, index: usize, block: &mut [u8], mut place: u64, sequence: u64) {
        let uses = self.uses[index] + 1;
        self.uses[index] = uses;
        let part = uses as usize % PARTS;
        let last = uses.saturating_sub(PARTS as u64);
        let change = renewal(self.seed, uses) ^ renewal(self.seed, last);
        let keys = &self.keys[index * self.sectors..][..self.sectors];
        for (sector, key) in block.chunks_exact_mut(SECTOR_BYTES).zip(keys) {
            for word in sector[part * PART_BYTES..][..PART_BYTES].as_chunks_mut::<8>().0 {
                *word = (u64::from_le_bytes(*word) ^ change).to_le_bytes();
            }
            let stamp = Stamp { sequence, key: *key, uses };
            stamp.put(label_of(place, self.seed), sector.as_chunks_mut::<8>().0);
            place += SECTOR_BYTES as u64;
        }
    }
}

/// Returns the keys that the parts of a block were combined with at its use number `uses`.
pub(super) fn renewals(seed: u64, uses: u64) -> [u64; PARTS] {
    let last = |part: u64| match uses.checked_sub(part) {
        Some(since) => uses - since % PARTS as u64,
        None => 0,
    };
    std::array::from_fn(|part| renewal(seed, last(part as u64)))
}

/// Returns the key of a use; 0 before the first use.
#[inline]
fn renewal(seed: u64, uses: u64) -> u64 {
    if uses == 0 { 0 } else { splitmix(uses ^ seed.rotate_left(32)) }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use ssdlab_units::{ByteLength, KIB};

    use super::*;

    const LENGTH: usize = 4096;

    /// Returns the blocks of writes one after the other, each to the place after the one before.
    fn written(data: &BlockData, blocks: usize, writes: u64) -> Vec<Vec<u8>> {
        let mut blocks_ahead = PremadeBlocks::new(data, 0, blocks, LENGTH);
        let mut memory = vec![vec![0; LENGTH]; blocks];
        for (index, block) in memory.iter_mut().enumerate() {
            blocks_ahead.make(data, index, block);
        }
        let mut all = Vec::new();
        for write in 0..writes {
            let index = write as usize % blocks;
            blocks_ahead.renew(index, &mut memory[index], write * LENGTH as u64, write);
            all.push(memory[index].clone());
        }
        all
    }

    #[test]
    fn every_use_can_be_checked_and_no_other_place_passes() {
        let data = BlockData::new(1);
        for (write, block) in written(&data, 3, 40).into_iter().enumerate() {
            let write = write as u64;
            assert_eq!(data.verify(&block, KIB * 4 * write), Ok((write, write)));
            assert!(data.verify(&block, KIB * 4 * (write + 1)).is_err());
            for bit in [0, 64, 130, 200, 300, 1025, 2050, 4095, 8 * LENGTH - 1] {
                let mut damaged = block.clone();
                damaged[bit / 8] ^= 1 << (bit % 8);
                assert!(data.verify(&damaged, KIB * 4 * write).is_err(), "write {write} bit {bit}");
            }
        }
    }

    /// Returns the share of the words of `later` that occur in `earlier`.
    fn common(earlier: &[u8], later: &[u8]) -> f64 {
        let words = |block: &[u8]| -> Vec<u64> {
            block.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)).collect()
        };
        let seen: HashSet<u64> = words(earlier).into_iter().collect();
        let later = words(later);
        later.iter().filter(|word| seen.contains(word)).count() as f64 / later.len() as f64
    }

    #[test]
    fn writes_within_the_blocks_have_no_word_in_common_and_none_is_left_after_eight_uses() {
        let blocks = 32;
        let all = written(&BlockData::new(2), blocks, 11 * blocks as u64);
        let window: Vec<u8> = all[100..100 + blocks].concat();
        let words: HashSet<&[u8]> = window.chunks_exact(8).collect();
        assert_eq!(words.len(), window.len() / 8);
        for write in PARTS * blocks..all.len() {
            assert_eq!(common(&all[write - PARTS * blocks], &all[write]), 0.0);
            // One line of eight is new, and a stamp of four words in sixty-four.
            let share = common(&all[write - blocks], &all[write]);
            assert!((0.81..=0.88).contains(&share), "{share}");
        }
    }

    #[test]
    fn blocks_with_other_numbers_or_seeds_are_unlike() {
        let block = |seed, number| {
            let data = BlockData::new(seed);
            let mut block = vec![0; LENGTH];
            PremadeBlocks::new(&data, number, 1, LENGTH).make(&data, 0, &mut block);
            block
        };
        assert_eq!(common(&block(1, 0), &block(1, 1)), 0.0);
        assert_eq!(common(&block(1, 0), &block(2, 0)), 0.0);
    }

    #[test]
    fn sectors_of_one_block_are_unlike() {
        let data = BlockData::new(6);
        let block = &written(&data, 1, 9)[8];
        let sectors: Vec<&[u8]> = block.chunks_exact(SECTOR_BYTES).collect();
        for (index, sector) in sectors.iter().enumerate() {
            for other in &sectors[..index] {
                assert_eq!(common(sector, other), 0.0);
            }
        }
        assert_eq!(data.verify(block, ByteLength::new(8 * LENGTH as u64)), Ok((8, 8)));
    }
}
