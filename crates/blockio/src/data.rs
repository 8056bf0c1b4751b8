//! Data of writes: no drive can compress or deduplicate it, and it is generated faster than any drive
//! accepts it.
//!
//! Controllers that compress or deduplicate answer easy data without using flash, and so do file systems
//! above them. So each sector of 512 bytes is a piece of a pool of random bytes, with every word combined
//! with the sector's own key: no two sectors are alike, and none contains a repetition.
//! [`BlockData::fill`] gives each sector of each write a new key, which costs one pass over memory. Where
//! a request may only cost nanoseconds, blocks are made ahead, and each use of a block changes a part of
//! it (`data/premade.rs`).
//!
//! A sector identifies itself: its first word follows from the seed and the place on the drive, and the
//! three after it hide the number of the write, the key, and how often the block was used. So data that
//! is read back can be checked without remembering what was written, see [`BlockData::verify`].

pub(crate) mod premade;

use ssdlab_units::ByteLength;
use thiserror::Error;

use ssdlab_drive::addresses::SplitMix64;

/// Bytes that are unique by themselves: the smallest block of any drive.
pub const SECTOR: ByteLength = ByteLength::new(512);

const SECTOR_BYTES: usize = SECTOR.bytes() as usize;
const SECTOR_WORDS: usize = SECTOR_BYTES / 8;

/// Words of the pool, which fits into the first or second level cache of the processor.
const POOL_WORDS: usize = 4096;

/// Generates and checks the data of writes with one seed.
#[derive(Clone, Debug)]
pub struct BlockData {
    seed: u64,
    pool: Vec<u64>,
}

/// The first sector that does not have the expected data.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum Mismatch {
    /// The sector was never written with this seed, or has the data of another place.
    #[error("the sector at byte {} was not written with this seed at this place", .offset.bytes())]
    Foreign {
        /// Byte at which the sector begins.
        offset: ByteLength,
    },
    /// The sector begins correctly, and differs later on.
    #[error(
        "the sector at byte {} (write number {sequence}) is damaged from its byte {at} on",
        .offset.bytes()
    )]
    Damaged {
        /// Byte at which the sector begins.
        offset: ByteLength,
        /// Number of the write that the sector claims to come from.
        sequence: u64,
        /// First wrong byte in the sector, rounded down to a multiple of eight.
        at: usize,
    },
}

impl BlockData {
    /// Creates the data for `seed`.
    pub fn new(seed: u64) -> Self {
        // Other words than those that addresses with the same seed are drawn from.
        let mut words = SplitMix64::new(splitmix(seed ^ 0x6461_7461));
        BlockData {
            seed: words.next_word(),
            pool: (0..POOL_WORDS + SECTOR_WORDS).map(|_| words.next_word()).collect(),
        }
    }

    /// Fills `buffer` with the data of write number `sequence` at `offset` of the drive.
    ///
    /// # Panics
    /// Panics if the buffer or the offset is not a whole number of sectors.
    pub fn fill(&self, buffer: &mut [u8], offset: ByteLength, sequence: u64) {
        assert!(
            buffer.len().is_multiple_of(SECTOR_BYTES) && offset.is_multiple_of(SECTOR),
            "a write of {} bytes at byte {}",
            buffer.len(),
            offset.bytes()
        );
        self.fill_fast(buffer, offset.bytes(), sequence);
    }

    /// Fills whole sectors with the widest words that this processor has.
    #[cfg(target_arch = "x86_64")]
    fn fill_fast(&self, buffer: &mut [u8], place: u64, sequence: u64) {
        if is_x86_feature_detected!("avx2") {
            // SAFETY: the processor has the features that the function is compiled for.
            unsafe { self.fill_avx2(buffer, place, sequence) }
        } else {
            self.fill_sectors(buffer, place, sequence);
        }
    }

    /// Fills whole sectors.
    #[cfg(not(target_arch = "x86_64"))]
    fn fill_fast(&self, buffer: &mut [u8], place: u64, sequence: u64) {
        self.fill_sectors(buffer, place, sequence);
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    fn fill_avx2(&self, buffer: &mut [u8], place: u64, sequence: u64) {
        self.fill_sectors(buffer, place, sequence);
    }

    #[inline(always)]
    fn fill_sectors(&self, buffer: &mut [u8], mut place: u64, sequence: u64) {
        // This word is the same for all sectors of the write.
        let write = splitmix(sequence ^ self.seed);
        for sector in buffer.chunks_exact_mut(SECTOR_BYTES) {
            let label = label_of(place, self.seed);
            let key = splitmix(label ^ write);
            let (words, _) = sector.as_chunks_mut::<8>();
            self.make(words, key);
            Stamp { sequence, key, uses: 0 }.put(label, words);
            place += SECTOR.bytes();
        }
    }

    /// Generates the words of a sector before it is stamped.
    #[inline(always)]
    fn make(&self, words: &mut [[u8; 8]], key: u64) {
        for (word, random) in words.iter_mut().zip(self.piece(key)) {
            *word = (random ^ key).to_le_bytes();
        }
    }

    /// Checks that `buffer`, read at `offset`, has data that was written there with this seed, and
    /// returns the lowest and the highest number of a write found in it.
    ///
    /// # Panics
    /// Panics if the buffer is empty, or if the buffer or the offset is not a whole number of sectors.
    pub fn verify(&self, buffer: &[u8], offset: ByteLength) -> Result<(u64, u64), Mismatch> {
        assert!(
            !buffer.is_empty()
                && buffer.len().is_multiple_of(SECTOR_BYTES)
                && offset.is_multiple_of(SECTOR),
            "a check of {} bytes at byte {}",
            buffer.len(),
            offset.bytes()
        );
        let (mut lowest, mut highest) = (u64::MAX, 0);
        let mut place = offset;
        for sector in buffer.chunks_exact(SECTOR_BYTES) {
            let sequence = self.verify_sector(sector, place)?;
            lowest = lowest.min(sequence);
            highest = highest.max(sequence);
            place += SECTOR;
        }
        Ok((lowest, highest))
    }

    fn verify_sector(&self, sector: &[u8], offset: ByteLength) -> Result<u64, Mismatch> {
        let (words, _) = sector.as_chunks::<8>();
        let label = u64::from_le_bytes(words[0]);
        if label != label_of(offset.bytes(), self.seed) {
            return Err(Mismatch::Foreign { offset });
        }
        let stamp = Stamp::of(label, words);
        let renewals = premade::renewals(self.seed, stamp.uses);
        let differs = |(index, (word, random)): &(usize, (&[u8; 8], &u64))| {
            let renewal = renewals[index / premade::PART_WORDS];
            u64::from_le_bytes(**word) != **random ^ stamp.key ^ renewal
        };
        let pieces = words.iter().zip(self.piece(stamp.key)).enumerate();
        match pieces.skip(STAMP_WORDS).find(differs) {
            None => Ok(stamp.sequence),
            Some((index, _)) => {
                Err(Mismatch::Damaged { offset, sequence: stamp.sequence, at: index * 8 })
            }
        }
    }

    /// Returns the piece of the pool that a key selects.
    #[inline(always)]
    fn piece(&self, key: u64) -> &[u64; SECTOR_WORDS] {
        let start = key as usize % POOL_WORDS;
        self.pool[start..].first_chunk().expect("the pool ends a sector after its last start")
    }
}

/// Words at the start of a sector that identify it.
const STAMP_WORDS: usize = 4;

/// An odd number without a pattern (the second multiplier of SplitMix64).
const ODD: u64 = 0x94d0_49bb_1331_11eb;

/// Returns the first word of the sector at byte `place`. Each place has another one, since every step is
/// reversible.
#[inline(always)]
fn label_of(place: u64, seed: u64) -> u64 {
    let product = (place ^ seed).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    product ^ (product >> 32)
}

/// Identification of a sector beside its label. The label is random and hides it.
#[derive(Clone, Copy)]
struct Stamp {
    sequence: u64,
    /// Key that the other words are combined with.
    key: u64,
    /// Number of times that the block of the sector was used; zero if it was made for this write.
    uses: u64,
}

impl Stamp {
    #[inline(always)]
    fn put(self, label: u64, words: &mut [[u8; 8]]) {
        let mask = label.wrapping_mul(ODD);
        let uses = self.uses ^ self.sequence.wrapping_mul(ODD);
        words[0] = label.to_le_bytes();
        words[1] = (self.sequence ^ mask).to_le_bytes();
        words[2] = (self.key ^ mask.rotate_left(24)).to_le_bytes();
        // The count of uses depends on the number, so that a wrong number gives a wrong count, and with
        // it wrong words.
        words[3] = (uses ^ mask.rotate_left(48)).to_le_bytes();
    }

    fn of(label: u64, words: &[[u8; 8]]) -> Stamp {
        let mask = label.wrapping_mul(ODD);
        let sequence = u64::from_le_bytes(words[1]) ^ mask;
        let key = u64::from_le_bytes(words[2]) ^ mask.rotate_left(24);
        let uses = u64::from_le_bytes(words[3]) ^ mask.rotate_left(48);
        Stamp { sequence, key, uses: uses ^ sequence.wrapping_mul(ODD) }
    }
}

/// Returns the next word of SplitMix64 from `word`.
#[inline(always)]
fn splitmix(word: u64) -> u64 {
    SplitMix64::new(word).next_word()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;
    use ssdlab_units::{KIB, MIB};

    use super::*;

    fn filled(data: &BlockData, length: ByteLength, offset: ByteLength, sequence: u64) -> Vec<u8> {
        let mut buffer = vec![0; length.bytes() as usize];
        data.fill(&mut buffer, offset, sequence);
        buffer
    }

    #[test]
    fn no_two_sectors_are_alike() {
        let data = BlockData::new(1);
        let mut seen = HashSet::new();
        for sequence in 0..16 {
            // The same place repeatedly, and other places.
            for offset in [ByteLength::ZERO, MIB] {
                let buffer = filled(&data, MIB, offset, sequence);
                for sector in buffer.chunks(SECTOR_BYTES) {
                    assert!(seen.insert(sector.to_vec()));
                }
            }
        }
        assert_eq!(seen.len(), 16 * 2 * 2048);
    }

    #[test]
    fn even_pieces_of_sectors_do_not_come_back() {
        // Searches like a compressor: eight bytes seen before, anywhere in 4 MiB, at any offset that is a
        // multiple of four.
        let buffer = filled(&BlockData::new(2), MIB * 4, ByteLength::ZERO, 0);
        let mut seen = HashSet::new();
        let pieces = buffer.windows(8).step_by(4);
        let repeated = pieces.filter(|piece| !seen.insert(*piece)).count();
        assert_eq!(repeated, 0);
    }

    #[test]
    fn bytes_are_as_varied_as_bytes_can_be() {
        let buffer = filled(&BlockData::new(3), MIB, KIB * 4, 77);
        let mut counts = [0_u64; 256];
        for byte in &buffer {
            counts[usize::from(*byte)] += 1;
        }
        let entropy: f64 = counts
            .iter()
            .map(|&count| count as f64 / buffer.len() as f64)
            .map(|share| -share * share.log2())
            .sum();
        // Random bytes in this number have 8 - 255 / (2 ln 2 * 2^20) bits.
        assert!(entropy > 7.9995, "{entropy} bits a byte");
    }

    #[test]
    fn what_was_written_elsewhere_or_with_another_seed_is_foreign() {
        let data = BlockData::new(4);
        let buffer = filled(&data, KIB * 4, KIB * 8, 5);
        assert_eq!(data.verify(&buffer, KIB * 8), Ok((5, 5)));
        let foreign = Err(Mismatch::Foreign { offset: KIB * 12 });
        assert_eq!(data.verify(&buffer, KIB * 12), foreign);
        let foreign = Err(Mismatch::Foreign { offset: KIB * 8 });
        assert_eq!(BlockData::new(5).verify(&buffer, KIB * 8), foreign);
        let zeros = vec![0; 4096];
        assert_eq!(data.verify(&zeros, KIB * 8), foreign);
    }

    proptest! {
        #[test]
        fn one_wrong_bit_is_found(seed: u64, sequence: u64, bit in 0_usize..8 * 4096) {
            let data = BlockData::new(seed);
            let mut buffer = filled(&data, KIB * 4, MIB, sequence);
            prop_assert_eq!(data.verify(&buffer, MIB), Ok((sequence, sequence)));
            buffer[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(data.verify(&buffer, MIB).is_err());
        }
    }
}
