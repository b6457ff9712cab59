//! Index of an application's places by path. Pure.

use std::borrow::Cow;
use std::collections::BTreeMap;

use crate::reading;
use crate::work;

/// Index that finds the places of a path and its ancestors.
///
/// A request costs the same with ten thousand rules as with ten.
#[derive(Debug)]
pub(super) struct PlaceIndex {
    numbers: BTreeMap<Vec<u8>, Vec<usize>>,
    /// Length of the longest key. A longer prefix of a path needs no lookup.
    max_key_bytes: usize,
}

impl PlaceIndex {
    /// Indexes the paths of places. The number of a place is its position in the iterator.
    pub(super) fn of<'p>(paths: impl Iterator<Item = &'p [u8]>) -> Self {
        let mut index: BTreeMap<Vec<u8>, Vec<usize>> = BTreeMap::new();
        for (number, path) in paths.enumerate() {
            for read in [path, &reading::as_windows_reads(path), &reading::as_windows_reads(name(path))] {
                let numbers = index.entry(name(read).to_ascii_lowercase()).or_default();
                // The numbers are ascending, and the readings are mostly equal.
                if numbers.last() != Some(&number) {
                    numbers.push(number);
                }
            }
        }
        let max_key_bytes = index.keys().map(Vec::len).max().unwrap_or_default();
        Self { numbers: index, max_key_bytes }
    }

    /// Returns every place with the name of the path or of one of its ancestors, ignoring letter
    /// case, in ascending order.
    pub(super) fn near(&self, path: &[u8]) -> Vec<usize> {
        // One byte more than the longest key: a longer path must not match a key as a whole.
        let path = path.get(..=self.max_key_bytes).unwrap_or(path);
        let upper = path.iter().any(u8::is_ascii_uppercase);
        let path = if upper { Cow::Owned(path.to_ascii_lowercase()) } else { Cow::Borrowed(path) };
        let above = memchr::memchr_iter(b'/', &path).filter_map(|end| path.get(..end));
        let whole = (!path.ends_with(b"/")).then_some(&*path);
        let mut near: Vec<usize> =
            above.chain(whole).filter_map(|name| self.numbers.get(name)).flatten().copied().collect();
        work::count(path.len() + near.len());
        near.sort_unstable();
        near.dedup();
        near
    }
}

/// Returns a path without the slash at its end.
fn name(path: &[u8]) -> &[u8] {
    path.strip_suffix(b"/").unwrap_or(path)
}
