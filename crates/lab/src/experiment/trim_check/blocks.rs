//! Blocks of unique data, and the classification of the data read back.

#![cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "of data on real drives"))]

use super::Contents;

/// Bytes of a block.
pub(super) const BLOCK: usize = 4096;

/// Fills a block with incompressible data that no other block has (SplitMix64).
pub(super) fn fill(block: &mut [u8], seed: u64, index: u64) {
    let mut state = seed.wrapping_mul(0xff51_afd7_ed55_8ccd) ^ (index << 20);
    for word in block.chunks_exact_mut(8) {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word.copy_from_slice(&(mixed ^ (mixed >> 31)).to_le_bytes());
    }
}

/// Content of a block that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Content {
    Old,
    Zeros,
    Ones,
    Other,
}

impl Content {
    pub(super) fn of(block: &[u8], old: &[u8]) -> Content {
        if block == old {
            Content::Old
        } else if block.iter().all(|&byte| byte == 0) {
            Content::Zeros
        } else if block.iter().all(|&byte| byte == 0xff) {
            Content::Ones
        } else {
            Content::Other
        }
    }
}

impl Contents {
    pub(super) fn count(&mut self, content: Content, blocks: u64) {
        *match content {
            Content::Old => &mut self.old,
            Content::Zeros => &mut self.zeros,
            Content::Ones => &mut self.ones,
            Content::Other => &mut self.other,
        } += blocks;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contents_are_told_apart_and_no_two_blocks_are_alike() {
        let mut old = [0; BLOCK];
        fill(&mut old, 1, 7);
        assert_eq!(Content::of(&old, &old), Content::Old);
        assert_eq!(Content::of(&[0; BLOCK], &old), Content::Zeros);
        assert_eq!(Content::of(&[0xff; BLOCK], &old), Content::Ones);
        let mut other = old;
        other[4000] ^= 1;
        assert_eq!(Content::of(&other, &old), Content::Other);
        fill(&mut other, 1, 8);
        assert_eq!(Content::of(&other, &old), Content::Other);
        fill(&mut other, 2, 7);
        assert_eq!(Content::of(&other, &old), Content::Other);
    }
}
