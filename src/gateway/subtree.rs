//! Rules below the paths of a request that acts on everything there. Pure.

use crate::depth::RequestDepth;
use crate::path::CanonicalPath;
use crate::reading::Ambiguous;
use crate::route::{RoutePlace, Routes, Rule};

/// Rules below the paths of a request, which must also allow it.
#[derive(Debug, Clone, Default)]
pub(super) struct Subtree<'a> {
    rules: Vec<&'a Rule>,
    /// Whether a place there has no rule for the method.
    is_closed: bool,
}

impl<'a> Subtree<'a> {
    /// Adds the rules below a path to which `found` applies. Omits those with the same requirements
    /// as its own.
    ///
    /// # Errors
    /// If the path can be read in more than one way.
    pub(super) fn add(
        &mut self,
        routes: &'a Routes,
        path: &CanonicalPath<'_>,
        found: &'a RoutePlace,
        method: &str,
        depth: RequestDepth,
    ) -> Result<(), Ambiguous> {
        if depth == RequestDepth::Zero {
            return Ok(());
        }
        let mut known = found.rule(method);
        for place in routes.below(path, found)? {
            let Some(rule) = place.rule(method) else {
                self.is_closed = true;
                return Ok(());
            };
            if !known.is_some_and(|known| known.asks_the_same_as(rule)) {
                self.rules.push(rule);
                known = Some(rule);
            }
        }
        Ok(())
    }

    /// Returns whether a place below has no rule for the method.
    pub(super) const fn is_closed(&self) -> bool {
        self.is_closed
    }

    pub(super) fn rules(&self) -> impl Iterator<Item = &'a Rule> {
        self.rules.iter().copied()
    }
}
