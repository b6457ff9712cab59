//! Values that all threads read and that rarely change.
//!
//! A clone of an `Arc` writes to the counter of its references. If all threads clone one `Arc` for each
//! request, they wait for each other's writes. So each thread has a reference to the value with its own
//! counter.

use std::cell::RefCell;
use std::fmt;
use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use thread_local::ThreadLocal;

use crate::own_line::OwnLine;

/// Reference to a shared value, which is counted by the thread that created it.
pub struct LocalRef<T: ?Sized>(Arc<Arc<T>>);

impl<T: ?Sized> LocalRef<T> {
    /// Creates a reference with its own counter.
    pub fn new(value: Arc<T>) -> Self {
        Self(Arc::new(value))
    }

    /// Returns whether both refer to the same value.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(self.shared(), other.shared())
    }

    /// Returns the reference that all threads count together, for holders that keep it for long.
    pub fn shared(&self) -> &Arc<T> {
        &self.0
    }
}

impl<T: ?Sized> Clone for LocalRef<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T: ?Sized> Deref for LocalRef<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: fmt::Debug + ?Sized> fmt::Debug for LocalRef<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(formatter)
    }
}

impl<T: PartialEq + ?Sized> PartialEq for LocalRef<T> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl<T: Eq + ?Sized> Eq for LocalRef<T> {}

impl<T> From<T> for LocalRef<T> {
    fn from(value: T) -> Self {
        Self::new(Arc::new(value))
    }
}

/// Value that all threads read and that rarely changes.
pub struct ReadMostly<T: Send + Sync> {
    current: RwLock<Arc<T>>,
    /// Number of changes.
    version: AtomicU64,
    of_threads: ThreadLocal<OwnLine<RefCell<KeptRef<T>>>>,
}

/// Reference of a thread, with the version to which it belongs.
type KeptRef<T> = Option<(u64, LocalRef<T>)>;

impl<T: Send + Sync> ReadMostly<T> {
    /// Creates the holder with the first value.
    pub fn new(value: T) -> Self {
        Self { current: RwLock::new(Arc::new(value)), version: AtomicU64::new(0), of_threads: ThreadLocal::new() }
    }

    /// Returns the current value. After the return of [`Self::set`], every thread gets the new value.
    ///
    /// A thread keeps an earlier value until its next call.
    pub fn get(&self) -> LocalRef<T> {
        // Read before the value, so that a value is never kept for a later version than its own.
        let version = self.version.load(Ordering::Acquire);
        let mut kept = self.of_threads.get_or_default().borrow_mut();
        match &*kept {
            Some((known, value)) if *known == version => value.clone(),
            _ => {
                let value = LocalRef::new(Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner)));
                *kept = Some((version, value.clone()));
                value
            }
        }
    }

    /// Replaces the value. References to the earlier value stay valid.
    pub fn set(&self, value: T) {
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        *current = Arc::new(value);
        self.version.fetch_add(1, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::thread;

    use super::*;

    #[test]
    fn a_thread_uses_one_reference_until_the_value_changes() {
        let value = ReadMostly::new(1);
        let (first, second) = (value.get(), value.get());
        assert!(first.is_same(&second));
        assert_eq!(Arc::strong_count(first.shared()), 2, "the value and this thread");
        let of_other = thread::scope(|scope| scope.spawn(|| value.get()).join().unwrap());
        assert!(first.is_same(&of_other) && !Arc::ptr_eq(&first.0, &of_other.0), "a reference of its own");
        value.set(2);
        assert_eq!((*value.get(), *first), (2, 1));
        assert!(!first.is_same(&value.get()));
    }

    #[test]
    fn no_thread_gets_an_old_value_after_a_change() {
        const THREADS: usize = 4;
        let value = ReadMostly::new(0);
        let (set, read) = (Barrier::new(THREADS + 1), Barrier::new(THREADS + 1));
        thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    for round in 1..=1000 {
                        // Also reads while the value changes.
                        assert!(*value.get() + 1 >= round);
                        set.wait();
                        assert_eq!(*value.get(), round);
                        read.wait();
                    }
                });
            }
            for round in 1..=1000 {
                value.set(round);
                set.wait();
                read.wait();
            }
        });
    }
}
