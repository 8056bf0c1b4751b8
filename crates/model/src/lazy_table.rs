//! Tables with an entry per unit of the drive, most of which may never have been touched.
//!
//! A new table is zeroed memory that the operating system has not had to provide yet, so that it takes memory for the
//! entries that were written and not for the drive's size. So does a clone: stretches of zeros are not copied. A
//! plain copy of the maps of a drive of 500 GB would take 1 GB, whatever they hold. The tables of a saved drive are
//! borrowed memory: its file, mapped. Only the parts that are looked at are read from the file.

use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::atomic::AtomicU32;

use ssdlab_units::codec::BorrowedMemory;

/// Entries that are checked for zeros together: about a page of memory.
const TOGETHER: usize = 1024;

/// Table of numbers: zeros at first, or borrowed memory.
pub(crate) struct LazyTable {
    /// Address of the owner's words, so that no access has to ask the owner for it.
    words: NonNull<u32>,
    length: usize,
    /// Owner of the words, which frees them.
    _owner: Box<dyn BorrowedMemory>,
    /// True if the memory is borrowed.
    is_borrowed: bool,
}

/// Memory that the table owns.
#[derive(Debug)]
pub(crate) struct OwnedMemory(pub(crate) Vec<u32>);

// SAFETY: the words of a vector that does not grow stay where they are, and this is the only owner.
unsafe impl BorrowedMemory for OwnedMemory {
    fn words(&mut self) -> &mut [u32] {
        &mut self.0
    }
}

/// Shows the length only: the numbers are too many, and printing would read a mapped file.
impl std::fmt::Debug for LazyTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let LazyTable { length, is_borrowed, words: _, _owner: _ } = self;
        f.debug_struct("LazyTable")
            .field("length", length)
            .field("is_borrowed", is_borrowed)
            .finish()
    }
}

// SAFETY: the words belong to the owner, which can be sent itself, and are reached by this table only.
unsafe impl Send for LazyTable {}
// SAFETY: a shared table is only read.
unsafe impl Sync for LazyTable {}

impl LazyTable {
    pub(crate) fn zeroed(length: usize) -> Self {
        LazyTable::own(vec![0; length])
    }

    fn own(words: Vec<u32>) -> Self {
        LazyTable { is_borrowed: false, ..LazyTable::borrowed(Box::new(OwnedMemory(words))) }
    }

    /// Returns true if the memory is borrowed.
    pub(crate) fn is_borrowed(&self) -> bool {
        self.is_borrowed
    }

    /// Copies borrowed memory to memory that the table owns, which a program may have set up to be faster.
    pub(crate) fn copy_to_owned(&mut self) {
        if self.is_borrowed {
            *self = self.clone();
        }
    }

    /// Returns the numbers for several threads to write at a time.
    pub(crate) fn shared(&mut self) -> &[AtomicU32] {
        let words: &mut [u32] = self;
        let (start, length) = (words.as_mut_ptr().cast::<AtomicU32>(), words.len());
        // SAFETY: an atomic number lies in memory as a plain one does, and nobody else reaches these as long as
        // this table is borrowed.
        unsafe { std::slice::from_raw_parts(start, length) }
    }

    /// Returns a table in `memory`, with its present content.
    pub(crate) fn borrowed(mut memory: Box<dyn BorrowedMemory>) -> Self {
        let words = memory.words();
        let (start, length) = (NonNull::from(&mut *words).cast(), words.len());
        LazyTable { words: start, length, _owner: memory, is_borrowed: true }
    }
}

impl Clone for LazyTable {
    fn clone(&self) -> Self {
        let mut copy = vec![0; self.length];
        for (to, from) in copy.chunks_mut(TOGETHER).zip(self.chunks(TOGETHER)) {
            // All numbers are combined without a branch for each, which the compiler vectorizes.
            if from.iter().fold(0, |all, it| all | it) != 0 {
                to.copy_from_slice(from);
            }
        }
        LazyTable::own(copy)
    }
}

impl Deref for LazyTable {
    type Target = [u32];

    #[inline(always)]
    fn deref(&self) -> &[u32] {
        // SAFETY: the owner has promised to leave the words where they are and to itself.
        unsafe { std::slice::from_raw_parts(self.words.as_ptr(), self.length) }
    }
}

impl DerefMut for LazyTable {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [u32] {
        // SAFETY: as above, and nobody else has a reference to them while this one is.
        unsafe { std::slice::from_raw_parts_mut(self.words.as_ptr(), self.length) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_is_the_same() {
        let mut table = LazyTable::zeroed(5000);
        for place in [0, 1023, 1024, 3071, 4999] {
            table[place] = place as u32 + 1;
        }
        assert_eq!(*table.clone(), *table);
    }

    /// Returns the resident memory of this process, in bytes.
    #[cfg(target_os = "linux")]
    fn resident() -> usize {
        let words = std::fs::read_to_string("/proc/self/statm").unwrap();
        words.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_copy_takes_memory_for_what_was_touched() {
        let mut table = LazyTable::zeroed(256 << 20);
        table[7] = 1;
        let before = resident();
        let copy = table.clone();
        let taken = resident().saturating_sub(before);
        // Other tests run meanwhile and take some memory; a plain copy would take 1 GiB.
        assert!(taken < 512 << 20, "{taken}");
        assert_eq!(copy[7], 1);
    }
}
