//! Bytes of a storage at one moment, in pages that clones share.
//!
//! A crash image differs from the durable image in a few pages, and thousands of them are made from one
//! history. So a clone costs a reference for each group of pages, and each changed page 4 KiB.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

/// Bytes in a page: disk and page cache write it as a whole, unless it is torn.
pub const PAGE: usize = 4096;

/// Bytes in a sector, which a disk never tears.
pub const SECTOR: usize = 512;

/// Pages in a group.
const GROUP: usize = 64;

/// A page; `None` is a page of zeros without memory.
pub type Page = Option<Arc<[u8; PAGE]>>;

/// Bytes of a storage.
#[derive(Clone, Debug)]
pub struct Pages {
    groups: Vec<Option<Arc<[Page; GROUP]>>>,
    length: u64,
}

impl Pages {
    /// Returns a storage of `length` bytes, all of them zeros.
    pub fn new(length: u64) -> Pages {
        let groups = length.div_ceil((PAGE * GROUP) as u64) as usize;
        Pages { groups: vec![None; groups], length }
    }

    /// Returns the number of bytes.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Returns page `index`.
    pub fn page(&self, index: u32) -> Page {
        let (group, within) = (index as usize / GROUP, index as usize % GROUP);
        self.groups[group].as_ref().and_then(|group| group[within].clone())
    }

    /// Replaces page `index`.
    pub fn set_page(&mut self, index: u32, page: Page) {
        *self.slot(index as usize) = page;
    }

    fn slot(&mut self, index: usize) -> &mut Page {
        let group = &mut self.groups[index / GROUP];
        let group = group.get_or_insert_with(|| Arc::new([const { None }; GROUP]));
        &mut Arc::make_mut(group)[index % GROUP]
    }

    /// Splits `length` bytes from `at` into pieces of pages: page, offset in the page, number of bytes.
    fn pieces(
        &self,
        at: u64,
        length: usize,
    ) -> impl Iterator<Item = (usize, usize, usize)> + use<> {
        let end = (at + length as u64).min(self.length);
        let mut at = at.min(end);
        std::iter::from_fn(move || {
            let (page, within) = ((at / PAGE as u64) as usize, (at % PAGE as u64) as usize);
            let count = (PAGE - within).min((end - at) as usize);
            at += count as u64;
            (count > 0).then_some((page, within, count))
        })
    }

    /// Reads from `at` into `data`; returns the number of bytes read.
    pub fn read(&self, data: &mut [u8], at: u64) -> usize {
        let mut filled = 0;
        for (page, within, count) in self.pieces(at, data.len()) {
            let place = &mut data[filled..filled + count];
            match self.groups[page / GROUP].as_ref().and_then(|it| it[page % GROUP].as_deref()) {
                Some(bytes) => place.copy_from_slice(&bytes[within..within + count]),
                None => place.fill(0),
            }
            filled += count;
        }
        filled
    }

    /// Writes `data` to `at`; returns the number of bytes written before the end.
    pub fn write(&mut self, data: &[u8], at: u64) -> usize {
        let mut taken = 0;
        for (page, within, count) in self.pieces(at, data.len()) {
            let slot = self.slot(page).get_or_insert_with(|| Arc::new([0; PAGE]));
            let bytes = &data[taken..taken + count];
            if count == PAGE {
                *slot = Arc::new(bytes.try_into().expect("a page"));
            } else {
                Arc::make_mut(slot)[within..within + count].copy_from_slice(bytes);
            }
            taken += count;
        }
        taken
    }

    /// Makes `length` bytes from `at` zeros, and frees whole pages.
    pub fn punch(&mut self, at: u64, length: u64) {
        for (page, within, count) in self.pieces(at, length as usize) {
            if self.groups[page / GROUP].as_ref().is_none_or(|it| it[page % GROUP].is_none()) {
                continue;
            }
            let slot = self.slot(page);
            match slot {
                Some(bytes) if count < PAGE => {
                    Arc::make_mut(bytes)[within..within + count].fill(0);
                }
                _ => *slot = None,
            }
        }
    }

    /// Returns the first run of pages with memory at or behind `at`; `None` if there is none.
    pub fn next_data(&self, at: u64) -> Option<Range<u64>> {
        let count = self.length.div_ceil(PAGE as u64);
        let has_data = |page: &u64| self.page(*page as u32).is_some();
        let mut page = at / PAGE as u64;
        while page < count && !has_data(&page) {
            let is_empty = self.groups[page as usize / GROUP].is_none();
            page = if is_empty { (page + 1).next_multiple_of(GROUP as u64) } else { page + 1 };
        }
        if page >= count || at >= self.length {
            return None;
        }
        let until = (page..count).find(|it| !has_data(it)).unwrap_or(count);
        Some(at.max(page * PAGE as u64)..(until * PAGE as u64).min(self.length))
    }

    /// Writes the bytes to a new file at `path`, with holes.
    ///
    /// # Errors
    /// Returns an error if the file exists, or cannot be written.
    pub fn save(&self, path: &Path) -> io::Result<()> {
        let file = File::create_new(path)?;
        file.set_len(self.length)?;
        for page in self.present() {
            let bytes = self.page(page).expect("it takes room");
            file.write_all_at(&bytes[..], u64::from(page) * PAGE as u64)?;
        }
        Ok(())
    }

    /// Returns the numbers of all pages with memory.
    pub fn present(&self) -> Vec<u32> {
        let all = 0..self.length.div_ceil(PAGE as u64) as u32;
        all.filter(|&page| self.page(page).is_some()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{RngExt, SeedableRng};
    use rand_pcg::Pcg64Mcg;

    #[test]
    fn pages_hold_what_a_plain_array_does_and_copies_stay_as_they_were() {
        const LENGTH: usize = 3 * PAGE * GROUP + 700;
        let mut generator = Pcg64Mcg::seed_from_u64(1);
        let (mut pages, mut plain) = (Pages::new(LENGTH as u64), vec![0_u8; LENGTH]);
        let (mut copy, mut plain_copy) = (pages.clone(), plain.clone());
        for number in 0..2000_u32 {
            let length = [1, 70, PAGE, 5 * PAGE, 70 * PAGE][generator.random_range(0..5)];
            let length = generator.random_range(1..=length);
            let at = generator.random_range(0..LENGTH - length);
            if generator.random_range(0..3) == 0 {
                pages.punch(at as u64, length as u64);
                plain[at..at + length].fill(0);
            } else {
                let data = vec![number as u8 | 1; length];
                assert_eq!(pages.write(&data, at as u64), length);
                plain[at..at + length].copy_from_slice(&data);
            }
            if number % 100 == 0 {
                let mut found = vec![1; LENGTH];
                assert_eq!(copy.read(&mut found, 0), LENGTH);
                assert!(found == plain_copy, "the copy, write {number}");
                assert_eq!(pages.read(&mut found, 0), LENGTH);
                assert!(found == plain, "write {number}");
                (copy, plain_copy) = (pages.clone(), plain.clone());
                let mut at = 0;
                while let Some(data) = pages.next_data(at) {
                    assert!(plain[at as usize..data.start as usize].iter().all(|&it| it == 0));
                    assert!(at <= data.start && data.start < data.end);
                    at = data.end;
                }
                assert!(plain[at as usize..].iter().all(|&it| it == 0));
            }
        }
    }
}
