//! Large pages for large tables.
//!
//! The maps of a simulated drive are hundreds of megabytes, touched at random: with pages of
//! 4 KiB most touches also miss the processor's address translation. On Linux a program has to
//! ask for large pages; [`HugePageAllocator`] is an allocator that does so for every large allocation
//! and leaves the rest to the system.

use std::alloc::{GlobalAlloc, Layout, System};

/// Minimum size of an allocation for which large pages are asked for.
const MIN_ADVISED_SIZE: usize = 8 << 20;

/// Size of a large page on x86-64 and most 64-bit ARM systems.
const HUGE_PAGE_SIZE: usize = 2 << 20;

/// The system's allocator, with large pages for large allocations.
pub struct HugePageAllocator;

/// Asks for large pages for the range that begins at `pointer`. If they are refused, only the speed
/// changes.
fn advise(pointer: *mut u8, size: usize) {
    #[cfg(target_os = "linux")]
    if !pointer.is_null() {
        // SAFETY: the range was just allocated and is ours; the advice does not change content.
        let _ =
            unsafe { rustix::mm::madvise(pointer.cast(), size, rustix::mm::Advice::LinuxHugepage) };
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (pointer, size);
}

// SAFETY: every call is passed on to the system's allocator as it is.
unsafe impl GlobalAlloc for HugePageAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps the contract of `GlobalAlloc::alloc`.
        let pointer = unsafe { System.alloc(layout) };
        advise_whole_pages(pointer, layout.size());
        pointer
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps the contract of `GlobalAlloc::alloc_zeroed`.
        let pointer = unsafe { System.alloc_zeroed(layout) };
        advise_whole_pages(pointer, layout.size());
        pointer
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the pointer came from this allocator, which is the system's.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: the pointer came from this allocator, which is the system's.
        unsafe { System.realloc(pointer, layout, new_size) }
    }
}

/// Asks for large pages for the whole large pages inside the range.
fn advise_whole_pages(pointer: *mut u8, size: usize) {
    if size < MIN_ADVISED_SIZE || pointer.is_null() {
        return;
    }
    let skip = pointer.align_offset(HUGE_PAGE_SIZE);
    if skip < size {
        let length = (size - skip) / HUGE_PAGE_SIZE * HUGE_PAGE_SIZE;
        // SAFETY: `skip` is within the allocation.
        advise(unsafe { pointer.add(skip) }, length);
    }
}
