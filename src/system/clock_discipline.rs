//! Reports whether a time service synchronizes the kernel's clock.
#![expect(unsafe_code, reason = "a system call that neither the standard library nor rustix has")]

use std::io;
use std::mem::MaybeUninit;

/// Returns whether a time service, such as chrony or systemd-timesyncd, synchronizes this machine's
/// clock (adjtimex(2)).
///
/// # Errors
/// If the system call fails.
pub fn is_clock_synchronized() -> io::Result<bool> {
    // SAFETY: `timex` consists of integers, so all-zero bytes are a valid value.
    let mut state: libc::timex = unsafe { MaybeUninit::zeroed().assume_init() };
    // SAFETY: the pointer is valid for the call. `modes` is zero, so the call changes nothing.
    let answer = unsafe { libc::adjtimex(&raw mut state) };
    if answer < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(answer != libc::TIME_ERROR && state.status & libc::STA_UNSYNC == 0)
}
