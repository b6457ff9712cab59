//! Terminates the process without running exit handlers.
#![expect(unsafe_code, reason = "a C function that the standard library does not have")]

pub(super) fn exit(status: i32) -> ! {
    // SAFETY: `_exit` takes any number, accesses no memory of this program and does not return.
    unsafe { libc::_exit(status) }
}
