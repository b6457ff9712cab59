//! How the process asks the kernel for memory.
#![expect(unsafe_code, reason = "a call that the standard library does not offer")]

/// Has pages of 4 KiB only from now on. The allocator asks for huge ones, and each is resident as a whole from the first
/// byte on: a process at rest had 25 MiB more for it. To be called before anything else.
pub(crate) fn use_small_pages() {
    const NONE: libc::c_ulong = 0;
    // SAFETY: it takes numbers alone and touches no memory of ours. A kernel that knows no huge pages refuses it, and all is
    // well.
    unsafe { libc::prctl(libc::PR_SET_THP_DISABLE, 1 as libc::c_ulong, NONE, NONE, NONE) };
}
