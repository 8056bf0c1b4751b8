//! Tables as long as the drive has units, most of which may never have been touched.
//!
//! A new one is memory that the operating system has not had to provide yet, so that it takes room
//! for what was written and not for the drive's size. So does a copy: what is zero is left alone.
//! A plain copy of the maps of a drive of 500 GB would take 1 GB, whatever it holds.

use std::ops::{Deref, DerefMut};

/// Entries that are looked at together: about a page of memory.
const TOGETHER: usize = 1024;

/// Numbers, zero at first.
#[derive(Debug)]
pub(crate) struct Touched(Vec<u32>);

impl Touched {
    pub(crate) fn zeroed(length: usize) -> Self {
        Touched(vec![0; length])
    }
}

impl Clone for Touched {
    fn clone(&self) -> Self {
        let mut copy = vec![0; self.0.len()];
        for (to, from) in copy.chunks_mut(TOGETHER).zip(self.0.chunks(TOGETHER)) {
            // All of them, without a branch for each: that is several at a time.
            if from.iter().fold(0, |all, it| all | it) != 0 {
                to.copy_from_slice(from);
            }
        }
        Touched(copy)
    }
}

impl Deref for Touched {
    type Target = Vec<u32>;

    #[inline(always)]
    fn deref(&self) -> &Vec<u32> {
        &self.0
    }
}

impl DerefMut for Touched {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut Vec<u32> {
        &mut self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_is_the_same() {
        let mut table = Touched::zeroed(5000);
        for place in [0, 1023, 1024, 3071, 4999] {
            table[place] = place as u32 + 1;
        }
        assert_eq!(*table.clone(), *table);
    }

    /// Memory of this process that is there, in bytes.
    #[cfg(target_os = "linux")]
    fn resident() -> usize {
        let words = std::fs::read_to_string("/proc/self/statm").unwrap();
        words.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_copy_takes_memory_for_what_was_touched() {
        let mut table = Touched::zeroed(256 << 20);
        table[7] = 1;
        let before = resident();
        let copy = table.clone();
        let taken = resident().saturating_sub(before);
        // Other tests run meanwhile, and take some; a plain copy would take 1 GiB.
        assert!(taken < 512 << 20, "{taken}");
        assert_eq!(copy[7], 1);
    }
}
