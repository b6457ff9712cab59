//! Counter of the work that a request's head causes before a credential is read.
//!
//! The counter works only in builds with debug assertions. Tests compare it with a limit instead of
//! measuring time.

#[cfg(debug_assertions)]
thread_local! {
    static WORK: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// Adds units: bytes compared, or places visited.
pub(super) fn count(units: usize) {
    #[cfg(debug_assertions)]
    WORK.set(WORK.get() + units);
    #[cfg(not(debug_assertions))]
    let _ = units;
}

/// Returns the count of this thread since the last call. Always zero without debug assertions.
pub fn take() -> usize {
    #[cfg(debug_assertions)]
    return WORK.take();
    #[cfg(not(debug_assertions))]
    0
}
