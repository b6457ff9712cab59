//! Counter of the work for a request's head, before any credential is read. Only in builds with
//! debug assertions: tests compare it with a budget instead of measuring time.

#[cfg(debug_assertions)]
thread_local! {
    static WORK: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// Adds compared bytes or visited places.
pub(super) fn count(units: usize) {
    #[cfg(debug_assertions)]
    WORK.set(WORK.get() + units);
    #[cfg(not(debug_assertions))]
    let _ = units;
}

/// Returns the count of this thread since the last call; zero in other builds.
pub fn take() -> usize {
    #[cfg(debug_assertions)]
    return WORK.take();
    #[cfg(not(debug_assertions))]
    0
}
