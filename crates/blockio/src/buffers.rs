//! Page-aligned buffers for direct I/O.

use std::alloc::{Layout, alloc, dealloc};
use std::ptr::NonNull;

use ssdlab_units::{ByteLength, MIB};

use ssdlab_error::{DriveError, ErrorKind};

/// Alignment of every buffer. No drive requires more than a page, and most require 512 bytes.
const PAGE: usize = 4096;

/// Largest memory of all requests in flight together; also the most that io_uring registers as one piece.
const LIMIT: ByteLength = ByteLength::new(MIB.bytes() * 1024);

/// A number of buffers of one size, in one piece of memory.
pub(super) struct Buffers {
    memory: NonNull<u8>,
    layout: Layout,
    length: usize,
    stride: usize,
}

// SAFETY: the memory belongs to this value alone, like that of a `Vec<u8>`.
unsafe impl Send for Buffers {}

impl Buffers {
    /// Allocates `count` buffers of `length` each. Every page is touched, so that no page fault occurs
    /// while a request is measured.
    pub(super) fn new(count: u32, length: ByteLength) -> Result<Self, DriveError> {
        // Blocks smaller than a page share a page: a drive that accepts such blocks accepts their
        // alignment.
        let stride = match length.bytes() {
            small if small < PAGE as u64 => small.next_power_of_two(),
            large => large.next_multiple_of(PAGE as u64),
        };
        let total = u128::from(stride) * u128::from(count.max(1));
        if total > u128::from(LIMIT.bytes()) {
            return Err(DriveError::new(
                ErrorKind::Usage,
                format!(
                    "{count} requests of {length} in flight take more than {LIMIT} of memory; \
                     use smaller requests or a lower depth"
                ),
            ));
        }
        let layout = Layout::from_size_align(total as usize, PAGE)
            .expect("a page is a power of two and the total is below the limit");
        // SAFETY: the layout has at least one page.
        let Some(memory) = NonNull::new(unsafe { alloc(layout) }) else {
            return Err(DriveError::new(
                ErrorKind::Io,
                format!("no memory for {count} buffers of {length}"),
            ));
        };
        // SAFETY: just allocated, of this size. Not zeros: zeroed pages the allocator would leave to the
        // first use of each.
        unsafe { memory.write_bytes(0xff, layout.size()) };
        Ok(Buffers { memory, layout, length: length.bytes() as usize, stride: stride as usize })
    }

    /// Returns the length of each buffer.
    pub(super) fn length(&self) -> ByteLength {
        ByteLength::new(self.length as u64)
    }

    /// Returns the buffer with number `index`.
    ///
    /// # Panics
    /// Panics if there is no such buffer.
    pub(super) fn get(&mut self, index: u32) -> &mut [u8] {
        let start = index as usize * self.stride;
        assert!(start < self.layout.size(), "there is no buffer {index}");
        // SAFETY: the piece lies within the memory, which is initialised, and borrows `self`.
        unsafe { std::slice::from_raw_parts_mut(self.memory.as_ptr().add(start), self.length) }
    }

    /// Returns all the memory, to register it with the kernel.
    #[cfg(target_os = "linux")]
    pub(super) fn whole(&self) -> (*mut u8, usize) {
        (self.memory.as_ptr(), self.layout.size())
    }
}

impl Drop for Buffers {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with this layout.
        unsafe { dealloc(self.memory.as_ptr(), self.layout) }
    }
}

#[cfg(test)]
mod tests {
    use ssdlab_units::KIB;

    use super::*;

    #[test]
    fn buffers_are_aligned_and_apart() {
        let mut buffers = Buffers::new(3, ByteLength::new(512)).unwrap();
        for index in 0..3 {
            let buffer = buffers.get(index);
            assert_eq!(buffer.as_ptr() as usize % 512, 0);
            buffer.fill(index as u8 + 1);
        }
        assert_eq!(buffers.get(0), [1; 512]);
        assert_eq!(buffers.get(2), [3; 512]);
    }

    #[test]
    fn buffers_of_pages_begin_at_pages() {
        let mut buffers = Buffers::new(3, KIB * 5).unwrap();
        for index in 0..3 {
            assert_eq!(buffers.get(index).as_ptr() as usize % PAGE, 0);
        }
    }

    #[test]
    fn more_memory_than_sensible_is_refused() {
        let error = Buffers::new(4096, KIB * 512).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Usage);
    }
}
