//! The process's memory allocator.
#![expect(unsafe_code, reason = "an allocator's trait is unsafe; two calls are not in the standard library")]

use std::alloc::{GlobalAlloc, Layout};
use std::ffi::{c_long, c_ulong, c_void};

use libmimalloc_sys::{
    _mi_option_last, mi_free, mi_malloc, mi_malloc_aligned, mi_option_set, mi_option_t, mi_realloc, mi_realloc_aligned,
    mi_zalloc, mi_zalloc_aligned,
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

/// mimalloc's option for huge pages, which `libmimalloc-sys` does not export (`mi_option_allow_thp`).
const ALLOW_HUGE_PAGES: mi_option_t = {
    assert!(_mi_option_last == 47, "compare with mi_option_e in mimalloc.h");
    43
};
/// Value of the option: mimalloc returns only whole huge pages to the kernel. With the default, it
/// also returns parts, and the kernel then splits the huge page.
const WHOLE: c_long = 2;

/// Enables or disables transparent huge pages for this process. Disable them before anything else.
///
/// The TLB of a core covers much more memory with huge pages, so a request takes less processor time.
/// But each huge page is resident as a whole after its first access. See
/// docs/decisions/0044-huge-pages-are-enabled.md.
pub(crate) fn set_huge_pages(enabled: bool) {
    const NONE: c_ulong = 0;
    if enabled {
        // SAFETY: the option exists, see `ALLOW_HUGE_PAGES`. mimalloc reads it whenever it returns memory.
        unsafe { mi_option_set(ALLOW_HUGE_PAGES, WHOLE) };
    }
    // SAFETY: the call takes only numbers and accesses no memory. A kernel without huge pages
    // returns an error, which is ignored.
    unsafe { libc::prctl(libc::PR_SET_THP_DISABLE, c_ulong::from(!enabled), NONE, NONE, NONE) };
}
