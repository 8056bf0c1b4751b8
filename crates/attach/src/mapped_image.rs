//! Reads in place from an image in memory.
//!
//! If the image is a file of a tmpfs, its data is mapped: large reads are compared with their checksums there
//! and sent from there, without a copy. On a disk that would be wrong: a page that is not cached blocks the
//! thread, and one that cannot be read kills the program (SIGBUS).

use std::fs::File;
use std::io::IoSlice;
use std::os::unix::fs::MetadataExt;
use std::ptr::NonNull;

use rustix::fs::fstatfs;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// File system type of a tmpfs in `statfs`: `TMPFS_MAGIC` of linux/magic.h.
const TMPFS: u64 = 0x0102_1994;

/// Bytes in a page.
pub const PAGE: u64 = 4096;

/// Maximum bytes in a run of pages (huge page) that the system keeps together; runs begin at multiples of their
/// size.
const RUN_MAX: u64 = 2 << 20;

/// The end of a file, mapped for reading.
#[derive(Debug)]
pub struct Mapped {
    base: NonNull<u8>,
    /// Beginning of the mapping in the file, in bytes.
    from: u64,
    length: usize,
}

// SAFETY: the memory belongs to the whole process, and is only read.
unsafe impl Send for Mapped {}
// SAFETY: as above.
unsafe impl Sync for Mapped {}

fn is_in_memory(file: &File) -> bool {
    // A system that does not tell the file system type: not in memory.
    fstatfs(file).is_ok_and(|it| it.f_type as u64 == TMPFS)
}

/// Returns true if referenced pages of `file` keep their contents when parts of the file are punched out that
/// begin and end on multiples of `part` behind `from`. A run of pages that is only partly punched out is kept,
/// and zeros are written to the punched part: then a referenced page changes.
pub fn keeps_pages(file: &File, from: u64, part: u64) -> bool {
    let has_runs = |it: std::fs::Metadata| it.blksize() > PAGE;
    let single = is_in_memory(file) && file.metadata().is_ok_and(|it| !has_runs(it));
    single || from.is_multiple_of(RUN_MAX) && part.is_multiple_of(RUN_MAX)
}

impl Mapped {
    /// Maps the bytes of `file` from `from` to `until`; `None` if they are not in memory.
    pub fn of(file: &File, from: u64, until: u64) -> Option<Mapped> {
        if !is_in_memory(file) || !from.is_multiple_of(PAGE) {
            return None;
        }
        let length = usize::try_from(until.checked_sub(from)?).ok()?;
        // SAFETY: a new mapping, at a place that the system chooses.
        let base = unsafe {
            let (read, shared) = (ProtFlags::READ, MapFlags::SHARED | MapFlags::NORESERVE);
            mmap(std::ptr::null_mut(), length, read, shared, file, from)
        };
        // Without the mapping, the image is read like any other.
        Some(Mapped { base: NonNull::new(base.ok()?.cast())?, from, length })
    }

    /// Returns the `length` bytes from `at` in the file.
    ///
    /// # Safety
    /// While the bytes are used, nobody may write there, punch them out or shorten the file.
    pub unsafe fn bytes(&self, at: u64, length: usize) -> &[u8] {
        let begin = usize::try_from(at - self.from).expect("behind the beginning");
        assert!(begin + length <= self.length, "beyond what is mapped");
        // SAFETY: that many bytes are mapped; the caller makes sure that they do not change.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr().add(begin), length) }
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: the mapping belongs to `self`, and nobody uses it any more. A mapping that stays costs
        // nothing.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.length) };
    }
}

/// Callback that sends data in place.
pub type SendPieces<'a> = &'a mut dyn FnMut(&[IoSlice<'_>]);

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt;

    #[test]
    fn a_file_in_memory_is_mapped_and_shows_what_is_written_later() {
        let Ok(directory) = tempfile::tempdir_in("/dev/shm") else { return };
        let file = tempfile::tempfile_in(&directory).expect("a file");
        file.set_len(1 << 40).expect("a sparse file");
        let Some(mapped) = Mapped::of(&file, PAGE, 1 << 40) else { return };
        file.write_all_at(b"later", 3 * PAGE + 7).expect("room");
        // SAFETY: nobody else has the file.
        assert_eq!(unsafe { mapped.bytes(3 * PAGE + 7, 5) }, b"later");
        assert!(keeps_pages(&file, 1, 3));
    }

    #[test]
    fn what_is_not_in_memory_is_not_mapped() {
        let file = File::open("/proc/self/exe").expect("this program");
        if !is_in_memory(&file) {
            assert!(Mapped::of(&file, 0, PAGE).is_none());
            assert!(!keeps_pages(&file, 1 << 20, RUN_MAX));
            assert!(keeps_pages(&file, RUN_MAX, 3 * RUN_MAX));
        }
    }
}
