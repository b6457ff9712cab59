//! Cache of each thread, in front of a cache that all threads share.
//!
//! Even a read of the shared cache writes to its locks and to the reference counts of its values. The
//! entries are copies, so the owner checks each of them like an entry of the shared cache. A revocation
//! therefore takes effect for both at the same time.

use std::cell::RefCell;
use std::hash::Hash;

use quick_cache::unsync::Cache;
use thread_local::ThreadLocal;

use sealgate_system::own_line::OwnLine;

/// Minimum number of entries for each thread.
const MIN_ENTRIES: usize = 1024;

/// Cache of each thread.
pub struct LocalCache<K: Eq + Hash + Send, V: Clone + Send> {
    of_threads: ThreadLocal<OwnLine<RefCell<Cache<K, V>>>>,
    entries: usize,
}

impl<K: Eq + Hash + Send, V: Clone + Send> LocalCache<K, V> {
    /// Creates the caches of `threads` threads. All together have about as many entries as the shared
    /// cache, unless a thread would have fewer than [`MIN_ENTRIES`].
    pub fn new(shared_entries: usize, threads: usize) -> Self {
        let entries = (shared_entries / threads.max(1)).max(MIN_ENTRIES);
        Self { of_threads: ThreadLocal::new(), entries }
    }

    /// Returns this thread's copy.
    pub fn get(&self, key: &K) -> Option<V> {
        self.here().borrow().get(key).cloned()
    }

    /// Replaces this thread's copy.
    pub fn insert(&self, key: K, value: V) {
        self.here().borrow_mut().insert(key, value);
    }

    fn here(&self) -> &RefCell<Cache<K, V>> {
        self.of_threads.get_or(|| OwnLine(RefCell::new(Cache::new(self.entries))))
    }
}
