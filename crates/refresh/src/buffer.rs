//! Page-aligned memory for direct I/O (`O_DIRECT`).

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// Alignment of buffers in bytes. No drive requires more than a page.
const PAGE: usize = 4096;

/// Bytes whose first one is aligned to a page.
#[derive(Debug)]
pub struct Buffer {
    memory: NonNull<u8>,
    layout: Layout,
}

// SAFETY: the memory belongs to this value alone, like that of a `Vec<u8>`.
unsafe impl Send for Buffer {}

impl Buffer {
    /// Allocates `length` zeros; `length` must not be 0.
    pub fn new(length: usize) -> Buffer {
        assert!(length > 0, "a buffer has a length");
        let layout = Layout::from_size_align(length, PAGE).expect("a page is a power of two");
        // SAFETY: the layout is not empty.
        let memory = unsafe { alloc_zeroed(layout) };
        let Some(memory) = NonNull::new(memory) else { handle_alloc_error(layout) };
        Buffer { memory, layout }
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: allocated with this size and set to zeros.
        unsafe { std::slice::from_raw_parts(self.memory.as_ptr(), self.layout.size()) }
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and it is borrowed for nobody else.
        unsafe { std::slice::from_raw_parts_mut(self.memory.as_ptr(), self.layout.size()) }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout.
        unsafe { dealloc(self.memory.as_ptr(), self.layout) };
    }
}
