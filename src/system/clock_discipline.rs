//! Whether a time service keeps the kernel's clock.
#![expect(unsafe_code, reason = "a system call that neither the standard library nor rustix has")]

use std::io;
use std::mem::MaybeUninit;

/// Returns whether a time service, such as chrony or systemd-timesyncd, keeps this machine's clock: see
/// adjtimex(2).
///
/// # Errors
/// The kernel's.
pub fn is_clock_synchronized() -> io::Result<bool> {
    // SAFETY: all-zero bytes are a value of this structure of integers.
    let mut state: libc::timex = unsafe { MaybeUninit::zeroed().assume_init() };
    // SAFETY: the pointer is valid for the call. `modes` is zero, so nothing is changed.
    let answer = unsafe { libc::adjtimex(&raw mut state) };
    if answer < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(answer != libc::TIME_ERROR && state.status & libc::STA_UNSYNC == 0)
}
