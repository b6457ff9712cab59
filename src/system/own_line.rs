//! Values in cache lines of their own.

use std::ops::Deref;

/// Value of one thread, next to which no value of another thread is in memory.
///
/// [`thread_local::ThreadLocal`] keeps the values of several threads in one array. If two were in one
/// cache line, the threads would wait for each other's writes. Processors fetch lines in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct OwnLine<T>(pub T);

impl<T> Deref for OwnLine<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}
