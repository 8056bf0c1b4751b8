//! Read-only access to an image: writes are kept in memory and dropped at the end.
//!
//! Recovery writes to the flash: it marks torn program units, fills up blocks and begins a new log of trims. If
//! the disk is full or cannot be written to, these writes go to memory, page by page, and the drive reads them
//! back. They are few: writes of the host are refused before.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use super::storage::Storage;

/// Bytes in a page of the overlay.
const PAGE: u64 = 4096;

/// A storage that is not changed, with the writes above it.
#[derive(Debug)]
pub struct Overlay<S> {
    below: S,
    changes: RwLock<Changes>,
}

#[derive(Debug, Default)]
struct Changes {
    /// Pages that were written, by number.
    pages: BTreeMap<u64, Box<[u8; PAGE as usize]>>,
    /// Runs of pages that were punched: first page, and the page behind the last. A page in `pages` was written
    /// later.
    holes: BTreeMap<u64, u64>,
}

impl Changes {
    /// Returns true if `page` was punched. A page in `pages` takes precedence.
    fn is_hole(&self, page: u64) -> bool {
        self.holes.range(..=page).next_back().is_some_and(|(_, &end)| page < end)
    }

    /// Notes that `pages` were punched.
    fn punch(&mut self, pages: Range<u64>) {
        let written: Vec<u64> = self.pages.range(pages.clone()).map(|(&page, _)| page).collect();
        for page in written {
            self.pages.remove(&page);
        }
        let (mut first, mut end) = (pages.start, pages.end);
        // Merges the run with those that it overlaps or touches.
        while let Some((&from, &until)) = self.holes.range(..=end).next_back() {
            if until < first {
                break;
            }
            (first, end) = (first.min(from), end.max(until));
            self.holes.remove(&from);
        }
        self.holes.insert(first, end);
    }
}

impl<S: Storage> Overlay<S> {
    /// Returns `below` without any writes above it.
    pub fn new(below: S) -> Overlay<S> {
        Overlay { below, changes: RwLock::default() }
    }

    fn read_changes(&self) -> RwLockReadGuard<'_, Changes> {
        self.changes.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write_changes(&self) -> RwLockWriteGuard<'_, Changes> {
        self.changes.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads page `page` of `below`; zeros behind its end.
    fn page_below(&self, page: u64) -> io::Result<Box<[u8; PAGE as usize]>> {
        let mut bytes = Box::new([0; PAGE as usize]);
        let mut filled = 0;
        while filled < bytes.len() {
            match self.below.read(&mut bytes[filled..], page * PAGE + filled as u64)? {
                0 => break,
                count => filled += count,
            }
        }
        Ok(bytes)
    }

    /// Lets `change` modify the bytes `within` of page `page`, which is copied into the overlay first.
    fn change(
        &self,
        changes: &mut Changes,
        page: u64,
        within: Range<usize>,
        change: impl FnOnce(&mut [u8]),
    ) -> io::Result<()> {
        if !changes.pages.contains_key(&page) {
            let is_hole = changes.is_hole(page);
            let bytes = if is_hole { Box::new([0; PAGE as usize]) } else { self.page_below(page)? };
            changes.pages.insert(page, bytes);
        }
        let bytes = changes.pages.get_mut(&page).expect("it was put there");
        change(&mut bytes[within]);
        Ok(())
    }
}

/// Returns the page that holds `at`, and the range in it of up to `length` bytes from there.
fn part_of_page(at: u64, length: u64) -> (u64, Range<usize>) {
    let from = at % PAGE;
    (at / PAGE, from as usize..(from + length).min(PAGE) as usize)
}

impl<S: Storage> Storage for Overlay<S> {
    fn read(&self, data: &mut [u8], at: u64) -> io::Result<usize> {
        let most = self.below.length()?.saturating_sub(at).min(data.len() as u64) as usize;
        let changes = self.read_changes();
        let is_changed = |page: u64| changes.pages.contains_key(&page) || changes.is_hole(page);
        let (page, within) = part_of_page(at, most as u64);
        if most == 0 || is_changed(page) {
            let data = &mut data[..within.len().min(most)];
            match changes.pages.get(&page) {
                Some(bytes) => data.copy_from_slice(&bytes[within]),
                None => data.fill(0),
            }
            return Ok(data.len());
        }
        // Unchanged pages that follow are read in the same call.
        let mut end = (page + 1) * PAGE;
        while end < at + most as u64 && !is_changed(end / PAGE) {
            end += PAGE;
        }
        let count = (end - at).min(most as u64) as usize;
        self.below.read(&mut data[..count], at)
    }

    fn write(&self, data: &[u8], at: u64) -> io::Result<usize> {
        let (page, within) = part_of_page(at, data.len() as u64);
        let count = within.len();
        let mut changes = self.write_changes();
        self.change(&mut changes, page, within, |bytes| bytes.copy_from_slice(&data[..count]))?;
        Ok(count)
    }

    fn punch(&self, at: u64, length: u64) -> io::Result<()> {
        let end = at + length;
        let whole = at.next_multiple_of(PAGE)..end - end % PAGE;
        let parts = if whole.start >= whole.end {
            let middle = whole.start.min(end);
            [at..middle, middle..end]
        } else {
            [at..whole.start, whole.end..end]
        };
        let mut changes = self.write_changes();
        if whole.start < whole.end {
            changes.punch(whole.start / PAGE..whole.end / PAGE);
        }
        for part in parts.into_iter().filter(|part| !part.is_empty()) {
            let (page, within) = part_of_page(part.start, part.end - part.start);
            self.change(&mut changes, page, within, |bytes| bytes.fill(0))?;
        }
        Ok(())
    }

    /// Does nothing: the overlay ends with the process, and promises nothing else.
    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn length(&self) -> io::Result<u64> {
        self.below.length()
    }

    fn next_data(&self, at: u64) -> io::Result<Option<Range<u64>>> {
        let below = self.below.next_data(at)?;
        let changes = self.read_changes();
        let written = changes.pages.range(at / PAGE..).next();
        let written = written.map(|(page, _)| (page * PAGE).max(at)..(page + 1) * PAGE);
        Ok(match (below, written) {
            (Some(below), Some(written)) if written.start < below.start => Some(written),
            (Some(below), _) => Some(below),
            (None, written) => written,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use proptest::prelude::*;

    use super::*;

    const LENGTH: usize = 10 * PAGE as usize;

    fn read_all(storage: &impl Storage, from: usize, length: usize) -> Vec<u8> {
        let mut data = vec![0xee; length];
        let mut filled = 0;
        while filled < length {
            let count = storage.read(&mut data[filled..], (from + filled) as u64).expect("a read");
            if count == 0 {
                break;
            }
            filled += count;
        }
        data.truncate(filled);
        data
    }

    proptest! {
        #[test]
        fn it_reads_as_if_it_was_written_and_what_is_below_stays(
            changes in prop::collection::vec((0..LENGTH, 1..3 * PAGE as usize, 0..3u8), 0..20),
            reads in prop::collection::vec((0..LENGTH, 0..LENGTH), 5),
        ) {
            let file = tempfile::tempfile().expect("a file");
            let below: Vec<u8> = (0..LENGTH).map(|at| (at / 7) as u8 | 1).collect();
            file.write_all_at(&below, 0).expect("room");
            let overlay = Overlay::new(file.try_clone().expect("a copy"));
            let mut plain = below.clone();
            for (from, length, kind) in changes {
                let length = length.min(LENGTH - from);
                if kind == 0 {
                    overlay.punch(from as u64, length as u64).expect("memory");
                    plain[from..from + length].fill(0);
                    continue;
                }
                let data: Vec<u8> = (0..length).map(|it| it as u8 ^ kind).collect();
                let mut done = 0;
                while done < length {
                    done += overlay.write(&data[done..], (from + done) as u64).expect("memory");
                }
                plain[from..from + length].copy_from_slice(&data);
            }
            for (from, length) in reads {
                let end = (from + length).min(LENGTH);
                prop_assert!(read_all(&overlay, from, length) == plain[from..end]);
            }
            let mut at = 0;
            while let Some(data) = overlay.next_data(at).expect("it can be searched") {
                prop_assert!(plain[at as usize..data.start as usize].iter().all(|&it| it == 0));
                at = data.end;
            }
            prop_assert!(plain[(at as usize).min(LENGTH)..].iter().all(|&it| it == 0));
            let mut kept = vec![0; LENGTH];
            file.read_exact_at(&mut kept, 0).expect("it is there");
            prop_assert!(kept == below);
        }
    }

    #[test]
    fn a_long_stretch_that_is_punched_takes_no_memory() {
        let file = tempfile::tempfile().expect("a file");
        file.set_len(1 << 40).expect("a sparse file");
        let overlay = Overlay::new(file);
        overlay.punch(5, 1 << 39).expect("memory");
        overlay.punch(1 << 38, 1 << 39).expect("memory");
        let changes = overlay.read_changes();
        assert_eq!((changes.pages.len(), changes.holes.len()), (1, 1));
    }
}
