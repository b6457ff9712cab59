//! Tree of an application's places, for lookups below a path and of paths with Windows short names.
//! Pure.
//!
//! A place is a path of the configuration with its rules (`RoutePlace`). For a long name, Windows
//! also creates a short name: `ADMINI~1` for `administration`. So a segment that looks like a short
//! name may mean any name that begins with the same two letters.

use std::collections::HashMap;

use crate::reading;
use crate::reading::{Ambiguous, ReadingBudget};
use crate::work;

/// Tree of an application's places. Each level is a segment as Windows reads it, in lower case.
///
/// The conditions of a place are its access requirements. Places with the same conditions count
/// once, so the cost of a request usually does not depend on the number of rules. A request costs
/// more only if many places have similar names and different conditions.
#[derive(Debug, Default)]
pub(super) struct PlaceTree {
    /// Nodes of the tree. The first node is the root, and children come after their parents.
    nodes: Vec<Node>,
    /// Number of segments of the deepest place.
    depth: usize,
    /// Length of the longest segment of a place, in bytes.
    max_name_bytes: usize,
}

#[derive(Debug, Default)]
struct Node {
    children: HashMap<Vec<u8>, usize>,
    /// Children by their first letter and by their first two letters.
    by_letters: HashMap<Letters, Siblings>,
    /// Length of the longest configured spelling of this segment, in bytes.
    name_bytes: usize,
    /// Places with exactly this path.
    exact: Vec<usize>,
    /// Places with this path whose rules also apply to everything below the path.
    covering: Vec<usize>,
    /// One place for each distinct set of conditions below this node.
    below: Vec<usize>,
    /// One place for each distinct set of conditions at or below this node.
    all: Vec<usize>,
}

#[derive(Debug, Default)]
struct Siblings {
    nodes: Vec<usize>,
    /// A place whose conditions are the conditions of all places at and below these nodes. `None`
    /// if the conditions differ.
    only: Option<usize>,
}

/// Key of one or two letters in lower case. In a key of one letter, the second byte is zero.
type Letters = [u8; 2];

/// Segment of a path, as Windows reads it, in lower case.
struct Segment {
    name: Vec<u8>,
    /// First letters of a short name, and the length of the text before its `~`. `None` for a long
    /// name.
    short: Option<(Letters, usize)>,
}

/// Node to visit, with the state of the search.
struct Step<'t> {
    node: usize,
    depth: usize,
    /// Whether a short name was expanded to reach this node.
    is_expanded: bool,
    /// Covering places of the nearest ancestor that has covering places.
    above: &'t [usize],
}

/// Functions that compare a place with the place that was found for the path.
pub(super) struct Conditions<'c> {
    /// Returns whether the place with this number has the same conditions as the place of the
    /// path.
    pub is_same: &'c dyn Fn(usize) -> bool,
    /// Returns whether the place with this number has an exact path, such as `/admin.php`, whose
    /// conditions must also protect longer paths, such as `/admin.php/x`.
    pub hides: &'c dyn Fn(usize) -> bool,
}

impl PlaceTree {
    /// Builds the tree. The number of a place is its position in the iterator. `conditions` has an
    /// element for each place. Places with the same conditions have equal elements. Places in `open`
    /// come last in the results.
    pub(super) fn from_paths<'p>(
        paths: impl Iterator<Item = &'p [u8]>,
        conditions: &[usize],
        open: &dyn Fn(usize) -> bool,
    ) -> Self {
        let mut tree = Self { nodes: vec![Node::default()], depth: 0, max_name_bytes: 0 };
        for (number, path) in paths.enumerate() {
            tree.add(number, path);
        }
        tree.gather(conditions);
        for node in &mut tree.nodes {
            node.below.sort_unstable_by_key(|number| (open(*number), *number));
            node.all.sort_unstable_by_key(|number| (open(*number), *number));
        }
        tree
    }

    fn add(&mut self, number: usize, path: &[u8]) {
        let bare = path.strip_suffix(b"/").unwrap_or(path);
        let mut at = 0;
        let mut depth = 0;
        for name in bare.split(|byte| *byte == b'/').skip(1) {
            depth += 1;
            let next = self.nodes.len();
            let read = reading::windows_name(name).to_ascii_lowercase();
            self.max_name_bytes = self.max_name_bytes.max(read.len());
            let Some(node) = self.nodes.get_mut(at) else { return };
            let child = *node.children.entry(read).or_insert(next);
            if child == next {
                for letters in first_letters(name) {
                    node.by_letters.entry(letters).or_default().nodes.push(next);
                }
                self.nodes.push(Node::default());
            }
            at = child;
            if let Some(node) = self.nodes.get_mut(at) {
                node.name_bytes = node.name_bytes.max(name.len());
            }
        }
        self.depth = self.depth.max(depth);
        if let Some(node) = self.nodes.get_mut(at) {
            if bare.len() == path.len() { node.exact.push(number) } else { node.covering.push(number) }
        }
    }

    /// Computes the distinct conditions below each node, from the leaves to the root.
    fn gather(&mut self, conditions: &[usize]) {
        let distinct = |places: &mut Vec<usize>| {
            places.sort_unstable_by_key(|number| conditions.get(*number));
            places.dedup_by_key(|number| conditions.get(*number));
        };
        for at in (0..self.nodes.len()).rev() {
            let (before, after) = self.nodes.split_at_mut(at + 1);
            let Some(node) = before.last_mut() else { return };
            let child = |number: &usize| after.get(number.checked_sub(at + 1)?);
            node.below = node.children.values().filter_map(child).flat_map(|child| &child.all).copied().collect();
            distinct(&mut node.below);
            node.all = node.exact.iter().chain(&node.covering).chain(&node.below).copied().collect();
            distinct(&mut node.all);
            for siblings in node.by_letters.values_mut() {
                let below = siblings.nodes.iter().filter_map(child).flat_map(|child| &child.all);
                let mut below: Vec<usize> = below.copied().collect();
                distinct(&mut below);
                siblings.only = Some(&*below).filter(|below| below.len() == 1).and_then(|below| below.first().copied());
            }
        }
    }

    /// Returns two sets of place numbers. The first has the places with exactly this path, with or
    /// without a trailing slash. The second has, for each distinct set of conditions below the path,
    /// one place.
    pub(super) fn at_and_below(&self, path: &[u8]) -> (impl Iterator<Item = usize>, &[usize]) {
        let name = path.strip_suffix(b"/").unwrap_or(path);
        let mut segments = name.split(|byte| *byte == b'/').skip(1);
        let node = segments.try_fold(self.nodes.first(), |node, name| {
            work::count(1);
            let child = node?.children.get(&self.segment(name).name)?;
            Some(self.nodes.get(*child))
        });
        let node = node.flatten();
        let here = node.into_iter().flat_map(|node| node.exact.iter().chain(&node.covering)).copied();
        (here, node.map(|node| &*node.below).unwrap_or_default())
    }

    /// Finds the places at and below all paths that this path may mean. Returns, for each of these
    /// paths, one place for each distinct set of conditions. Skips subtrees in which all conditions
    /// equal the conditions of the place that was found for the path.
    ///
    /// # Errors
    /// - [`Ambiguous::Spelling`] if the path may mean a path with other conditions.
    /// - [`Ambiguous::Readings`] if the path may mean too many paths to compare.
    pub(super) fn expand(
        &self,
        path: &[u8],
        conditions: &Conditions<'_>,
        budget: &mut ReadingBudget,
    ) -> Result<Vec<&[usize]>, Ambiguous> {
        let segments = self.segments(path);
        let mut below = Vec::new();
        let mut steps = vec![Step { node: 0, depth: 0, is_expanded: false, above: &[] }];
        while let Some(step) = steps.pop() {
            let Some(node) = self.nodes.get(step.node) else { continue };
            let above = if node.covering.is_empty() { step.above } else { &node.covering };
            let agree =
                |places: &[usize]| !places.is_empty() && places.iter().all(|number| (conditions.is_same)(*number));
            let segment = segments.get(step.depth);
            if step.is_expanded && segment.is_some() && node.exact.iter().any(|number| (conditions.hides)(*number)) {
                return Err(Ambiguous::Spelling);
            }
            let child = segment.and_then(|segment| node.children.get(&segment.name)).copied();
            let next = |node| Step { node, depth: step.depth + 1, is_expanded: step.is_expanded, above };
            match child {
                Some(child) => {
                    budget.spend(ReadingBudget::VISIT_COST)?;
                    steps.push(next(child));
                }
                None if step.is_expanded => {
                    let is_exact = segment.is_none() && !node.exact.is_empty();
                    if !agree(if is_exact { &node.exact } else { above }) {
                        return Err(Ambiguous::Spelling);
                    }
                    if segment.is_none_or(|segment| segment.name.is_empty()) {
                        below.push(&*node.all);
                    }
                }
                None => {}
            }
            let Some((letters, bytes)) = segment.and_then(|segment| segment.short) else { continue };
            let Some(siblings) = node.by_letters.get(&letters) else { continue };
            if siblings.only.is_some_and(conditions.is_same) && agree(above) {
                continue;
            }
            for number in siblings.nodes.iter().filter(|number| Some(**number) != child) {
                budget.spend(ReadingBudget::VISIT_COST)?;
                if self.nodes.get(*number).is_some_and(|node| node.name_bytes > bytes) {
                    steps.push(Step { is_expanded: true, ..next(*number) });
                }
            }
        }
        Ok(below)
    }

    /// Returns the segments of a path, at most one more than the deepest place has.
    fn segments(&self, path: &[u8]) -> Vec<Segment> {
        path.split(|byte| *byte == b'/').skip(1).take(self.depth + 1).map(|name| self.segment(name)).collect()
    }

    fn segment(&self, name: &[u8]) -> Segment {
        let name = reading::windows_name(name);
        let short = reading::short_name_stem(name).and_then(|stem| Some((*first_letters(stem).last()?, stem.len())));
        // Keeps one byte more than the longest segment, so that a longer segment does not match as
        // a whole.
        let name = name.get(..=self.max_name_bytes).unwrap_or(name).to_ascii_lowercase();
        Segment { name, short }
    }
}

/// Returns the first letter of a name and its first two letters. Dots and spaces are skipped,
/// because short names have no dots or spaces.
fn first_letters(name: &[u8]) -> Vec<Letters> {
    let letters = name.iter().filter(|byte| !matches!(byte, b'.' | b' ')).map(u8::to_ascii_lowercase);
    let letters: Vec<u8> = letters.take(2).collect();
    match *letters {
        [first] => vec![[first, 0]],
        [first, second] => vec![[first, 0], [first, second]],
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn expand(path: &[u8], places: &[&[u8]], found: usize) -> Result<Vec<usize>, Ambiguous> {
        let conditions: Vec<usize> = (0..places.len()).collect();
        let tree = PlaceTree::from_paths(places.iter().copied(), &conditions, &|_| false);
        let conditions = Conditions { is_same: &|number| number == found, hides: &|_| false };
        tree.expand(path, &conditions, &mut ReadingBudget::for_path()).map(|below| below.concat())
    }

    #[test]
    fn a_short_name_may_mean_names_with_the_same_two_letters() {
        let places: &[&[u8]] = &[b"/administration/", b"/"];
        for short in ["/ADMINI~1/x", "/admini~2", "/ad1a2b~5/x", "/admini~1.php", "/a~1", "/ADMINI~1. /x"] {
            assert_eq!(expand(short.as_bytes(), places, 1), Err(Ambiguous::Spelling), "{short}");
            assert!(expand(short.as_bytes(), places, 0).is_ok(), "{short}");
        }
        for other in ["/~anna/x", "/admini~", "/other~1", "/administration~1", "/x/admini~1", "/admini~x"] {
            assert_eq!(expand(other.as_bytes(), places, 1), Ok(Vec::new()), "{other}");
        }
    }

    #[test]
    fn the_places_below_an_expanded_path_are_returned() {
        let places: &[&[u8]] = &[b"/files/open/closed/", b"/files/other", b"/x/", b"/"];
        assert_eq!(expand(b"/fi~1", places, 3), Ok(vec![0, 1]));
        assert_eq!(expand(b"/fi~1/open/", places, 3), Ok(vec![0]));
        assert_eq!(expand(b"/files/op~1", places, 3), Ok(vec![0]));
        assert_eq!(expand(b"/fi~1/x", places, 3), Ok(Vec::new()));
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(path in prop::collection::vec(any::<u8>(), 0..60), place in "(/[ -~]{0,9}){1,5}") {
            let _ = expand(&path, &[place.as_bytes(), b"/"], 1);
        }
    }
}
