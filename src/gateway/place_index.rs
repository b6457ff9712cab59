//! Index of an application's places by path. Pure.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use crate::reading;
use crate::work;

/// Index that finds the places of a path and its ancestors, and the places below a path.
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

    /// Adds the numbers of the places at these paths and below them, in any letter case. May add a
    /// number twice.
    pub(super) fn add_below<'p>(&self, paths: impl Iterator<Item = &'p [u8]>, found: &mut Vec<usize>) {
        let names = paths.map(name).filter(|name| name.len() <= self.max_key_bytes);
        let names: BTreeSet<Vec<u8>> = names.map(<[u8]>::to_ascii_lowercase).collect();
        for name in &names {
            // Places below another one of these names are added with that name.
            let mut above = memchr::memchr_iter(b'/', name).filter_map(|end| name.get(..end));
            if above.any(|above| names.contains(above)) {
                continue;
            }
            found.extend(self.numbers.get(name).into_iter().flatten());
            let start = [name.as_slice(), b"/"].concat();
            let from = (Bound::Included(start.as_slice()), Bound::Unbounded);
            for (key, numbers) in self.numbers.range::<[u8], _>(from) {
                work::count(1);
                if !key.starts_with(&start) {
                    break;
                }
                found.extend(numbers);
            }
        }
    }
}

/// Returns whether a place has the name of a path, or is below it.
pub(super) fn is_below(place: &[u8], path: &[u8]) -> bool {
    let (place, path) = (name(place), name(path));
    let Some((start, rest)) = place.split_at_checked(path.len()) else { return false };
    (rest.is_empty() || rest.starts_with(b"/")) && start.eq_ignore_ascii_case(path)
}

/// Returns a path without the slash at its end.
fn name(path: &[u8]) -> &[u8] {
    path.strip_suffix(b"/").unwrap_or(path)
}
