//! Disk barrier for sled.
//!
//! sled 0.34.7 ends each write with `sync_file_range`, which neither flushes the drive's cache nor
//! stores the new length of the file. A power failure would therefore lose acknowledged writes.
//! This module defines the C symbol `sync_file_range` as `fdatasync`. The linker resolves sled's
//! calls to it, including those on sled's own threads.

#![expect(unsafe_code, reason = "replaces a function of the C library")]

use std::sync::atomic::{AtomicU64, Ordering};

use libc::{c_int, c_uint, off64_t};

static BARRIERS: AtomicU64 = AtomicU64::new(0);

/// Returns the number of barriers that this process has executed. A flush without a barrier was not
/// durable.
pub fn count() -> u64 {
    BARRIERS.load(Ordering::Relaxed)
}

/// Makes the file's data and length durable. Ignores the range and the flags.
///
/// # Safety
/// All arguments are sound. A bad descriptor results in -1 and `errno`, as with the C library.
// SAFETY: no other crate of the program defines this symbol; the signature is the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sync_file_range(file: c_int, _offset: off64_t, _length: off64_t, _flags: c_uint) -> c_int {
    BARRIERS.fetch_add(1, Ordering::Relaxed);
    // SAFETY: fdatasync accepts any integer and touches no memory of the process.
    unsafe { libc::fdatasync(file) }
}

/// Keeps the linker from dropping the definition in binaries that link the crate.
#[used]
static KEPT: unsafe extern "C" fn(c_int, off64_t, off64_t, c_uint) -> c_int = sync_file_range;
