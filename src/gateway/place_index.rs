//! Index of an application's places by name. Pure.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use crate::gateway::depth::RequestDepth;
use crate::gateway::reading;
use crate::gateway::work;

/// Finds the places that a path may come to, by what the path and those above it are called, and the places below a path: so a
/// request costs no more with ten thousand rules than with ten.
#[derive(Debug)]
pub(super) struct PlaceIndex {
    numbers: BTreeMap<Vec<u8>, Vec<usize>>,
    /// Length of the longest key. A longer prefix of a path needs no lookup.
    max_key_bytes: usize,
}

impl PlaceIndex {
    /// Indexes the paths of places, each by its number in this order.
    pub(super) fn of<'p>(paths: impl Iterator<Item = &'p [u8]>) -> Self {
        let mut index: BTreeMap<Vec<u8>, Vec<usize>> = BTreeMap::new();
        for (number, path) in paths.enumerate() {
            for read in [path, &reading::as_windows_reads(path), &reading::as_windows_reads(name(path))] {
                let numbers = index.entry(name(read).to_ascii_lowercase()).or_default();
                // The numbers only grow, and the readings are the same most often.
                if numbers.last() != Some(&number) {
                    numbers.push(number);
                }
            }
        }
        let max_key_bytes = index.keys().map(Vec::len).max().unwrap_or_default();
        Self { numbers: index, max_key_bytes }
    }

    /// Every place whose name, whatever the case of its letters, is that of the path or of one above it: in ascending order.
    pub(super) fn near(&self, path: &[u8]) -> Vec<usize> {
        // One byte more than the longest key, so that a longer path is not taken for a whole one.
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

    /// Adds the numbers of the places at these paths and below them, in any letter case, within the depth. May add a number twice.
    pub(super) fn add_below(&self, paths: &BTreeSet<Vec<u8>>, depth: RequestDepth, found: &mut Vec<usize>) {
        let names = paths.iter().map(|path| name(path)).filter(|name| name.len() <= self.max_key_bytes);
        let names: BTreeSet<Vec<u8>> = names.map(<[u8]>::to_ascii_lowercase).collect();
        for name in &names {
            // What is below another one of them is added with that.
            let mut above = memchr::memchr_iter(b'/', name).filter_map(|end| name.get(..end));
            if depth == RequestDepth::Infinity && above.any(|above| names.contains(above)) {
                continue;
            }
            found.extend(self.numbers.get(name).into_iter().flatten());
            let start = [name.as_slice(), b"/"].concat();
            let from = (Bound::Included(start.as_slice()), Bound::Unbounded);
            for (key, numbers) in self.numbers.range::<[u8], _>(from) {
                work::count(1);
                let Some(rest) = key.strip_prefix(start.as_slice()) else { break };
                if depth == RequestDepth::Infinity || !rest.contains(&b'/') {
                    found.extend(numbers);
                }
            }
        }
    }
}

/// Whether a place is called as a path, or is below it as far as a request acts.
pub(super) fn is_below(place: &[u8], path: &[u8], depth: RequestDepth) -> bool {
    let (place, path) = (name(place), name(path));
    let Some((start, rest)) = place.split_at_checked(path.len()) else { return false };
    let is_below = match rest.split_first() {
        None => true,
        Some((b'/', rest)) => depth == RequestDepth::Infinity || !rest.contains(&b'/'),
        Some(_) => false,
    };
    is_below && start.eq_ignore_ascii_case(path)
}

/// A path without the slash at its end.
fn name(path: &[u8]) -> &[u8] {
    path.strip_suffix(b"/").unwrap_or(path)
}
