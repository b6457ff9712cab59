//! The disk barrier beneath sled. sled 0.34.7 ends each write with `sync_file_range`, which neither empties the drive's
//! cache nor saves the file's new length, so a power cut takes acknowledged writes with it. The C symbol is defined anew
//! here, as `fdatasync`; the linker gives sled ours. It also covers what sled's own threads write.

#![expect(unsafe_code, reason = "a function of the C library is replaced")]

use std::sync::atomic::{AtomicU64, Ordering};

use libc::{c_int, c_uint, off64_t};

static BARRIERS: AtomicU64 = AtomicU64::new(0);

/// Barriers that this process has asked of its disks. A flush that leaves it unchanged was not made durable.
pub fn count() -> u64 {
    BARRIERS.load(Ordering::Relaxed)
}

/// Makes the file's bytes and length durable; the range and the flags are not looked at.
///
/// # Safety
/// Any arguments are sound: a bad descriptor yields -1 and `errno`, as the C library's own function does.
// SAFETY: no other crate of the program defines this symbol; the signature is the C library's.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn sync_file_range(
    file: c_int,
    _offset: off64_t,
    _length: off64_t,
    _flags: c_uint,
) -> c_int {
    BARRIERS.fetch_add(1, Ordering::Relaxed);
    // SAFETY: fdatasync takes any integer and touches no memory of ours.
    unsafe { libc::fdatasync(file) }
}

/// Keeps the definition in every binary that links the crate, whatever the linker thinks of it.
#[used]
static KEPT: unsafe extern "C" fn(c_int, off64_t, off64_t, c_uint) -> c_int = sync_file_range;
