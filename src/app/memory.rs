//! The process's memory allocator.
#![expect(unsafe_code, reason = "an allocator's trait is unsafe; one call is not in the standard library")]

use std::alloc::{GlobalAlloc, Layout};
use std::ffi::c_void;

use libmimalloc_sys::{
    mi_free, mi_malloc, mi_malloc_aligned, mi_realloc, mi_realloc_aligned, mi_zalloc, mi_zalloc_aligned,
};

/// Allocator that calls mimalloc directly.
///
/// The crate `mimalloc` always requests aligned blocks. If such a block has more than 1 KiB, or its
/// size is not a power of two, mimalloc allocates a larger block and trims it, which costs
/// thousands of instructions per request.
pub struct Allocator;

/// Alignment in bytes of mimalloc blocks of 16 bytes or more (`MI_MAX_ALIGN_SIZE`). Smaller blocks
/// are aligned to 8 bytes.
const MAX_DEFAULT_ALIGNMENT: usize = 16;

/// Returns whether mimalloc aligns a block of this size as required without a request.
fn is_aligned_by_default(size: usize, align: usize) -> bool {
    align <= MAX_DEFAULT_ALIGNMENT && align <= size
}

// SAFETY: mimalloc's blocks have at least the requested size and are exclusive until they are
// freed. The first block of a mimalloc page is at a multiple of 16, and the others follow without
// gaps. All blocks of a page have the same size: 8 bytes, or a multiple of 16. So a block of 8
// bytes is aligned to 8, and every larger block to 16. If `is_aligned_by_default` is true, this
// alignment suffices; otherwise the required alignment is passed to mimalloc. mimalloc frees a
// block by its pointer alone, so a block may come from either function.
unsafe impl GlobalAlloc for Allocator {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let (size, align) = (layout.size(), layout.align());
        // SAFETY: as above.
        unsafe {
            if is_aligned_by_default(size, align) { mi_malloc(size) } else { mi_malloc_aligned(size, align) }.cast()
        }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        let (size, align) = (layout.size(), layout.align());
        // SAFETY: as above.
        unsafe {
            if is_aligned_by_default(size, align) { mi_zalloc(size) } else { mi_zalloc_aligned(size, align) }.cast()
        }
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, _layout: Layout) {
        // SAFETY: the caller's block is mimalloc's.
        unsafe { mi_free(block.cast::<c_void>()) }
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let align = layout.align();
        let block = block.cast::<c_void>();
        // SAFETY: as above; the block is mimalloc's.
        unsafe {
            if is_aligned_by_default(size, align) {
                mi_realloc(block, size)
            } else {
                mi_realloc_aligned(block, size, align)
            }
            .cast()
        }
    }
}

/// Disables huge pages for this process. Call it before anything else.
///
/// mimalloc requests huge pages. A huge page is completely resident after its first access.
/// Huge pages cost an idle process 25 MiB.
pub(crate) fn use_small_pages() {
    const NONE: libc::c_ulong = 0;
    // SAFETY: the call takes only numbers and accesses no memory. A kernel without huge pages
    // returns an error, which is ignored.
    unsafe { libc::prctl(libc::PR_SET_THP_DISABLE, 1 as libc::c_ulong, NONE, NONE, NONE) };
}
