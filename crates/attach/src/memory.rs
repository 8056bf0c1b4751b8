//! An image that lies in memory, read where it lies.
//!
//! Where the image is a file of a tmpfs, its data is mapped: large reads are compared with their
//! checksums there and sent from there, without a copy of our own. On a disk that would be wrong: a page
//! that is missing stops the thread, and one that cannot be read ends the program.

use std::fs::File;
use std::io::IoSlice;
use std::os::unix::fs::MetadataExt;
use std::ptr::NonNull;

use rustix::fs::fstatfs;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// What `statfs` says of a tmpfs: `TMPFS_MAGIC` of linux/magic.h.
const TMPFS: u64 = 0x0102_1994;

/// Bytes of a page.
pub const PAGE: u64 = 4096;

/// Pages are kept in runs of no more bytes than this, which begin at multiples of their size.
const RUN_MAX: u64 = 2 << 20;

/// The end of a file, mapped.
#[derive(Debug)]
pub struct Mapped {
    base: NonNull<u8>,
    /// Where in the file it begins.
    from: u64,
    length: usize,
}

// SAFETY: it is memory of the whole process, and only read.
unsafe impl Send for Mapped {}
// SAFETY: as above.
unsafe impl Sync for Mapped {}

fn is_in_memory(file: &File) -> bool {
    // A system that does not say what it is: not in memory.
    fstatfs(file).is_ok_and(|it| it.f_type as u64 == TMPFS)
}

/// Returns true if pages of `file` stay as they are while somebody refers to them, although parts
/// that begin
/// and end on multiples of `part` behind `from` are punched out. A run of pages that reaches into such a
/// part is kept, and zeros are written to the part.
pub fn keeps_pages(file: &File, from: u64, part: u64) -> bool {
    let has_runs = |it: std::fs::Metadata| it.blksize() > PAGE;
    let single = is_in_memory(file) && file.metadata().is_ok_and(|it| !has_runs(it));
    single || from.is_multiple_of(RUN_MAX) && part.is_multiple_of(RUN_MAX)
}

impl Mapped {
    /// The bytes of `file` from `from` to `until`, if they are in memory.
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
        // Without, it is read like any other.
        Some(Mapped { base: NonNull::new(base.ok()?.cast())?, from, length })
    }

    /// The `length` bytes from `at` in the file.
    ///
    /// # Safety
    /// While they are used, nobody writes there, punches them out or shortens the file.
    pub unsafe fn bytes(&self, at: u64, length: usize) -> &[u8] {
        let begin = usize::try_from(at - self.from).expect("behind the beginning");
        assert!(begin + length <= self.length, "beyond what is mapped");
        // SAFETY: that many bytes are mapped; the caller sees to it that they do not change.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr().add(begin), length) }
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: it is ours, and nobody has it any more. A mapping that stays costs nothing.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.length) };
    }
}

/// Sends data from where it lies.
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
