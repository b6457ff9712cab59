//! Index of an application's places by path, and the rules that apply below a path. Pure.
//!
//! A place is a path of the configuration with its rules, see [`RoutePlace`]. `WebDAV` requests can
//! delete, move, copy, lock or list a collection with all its members (RFC 4918). The rules of
//! every place below the path must allow such a request.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::net::IpAddr;

use http::HeaderMap;
use http::header::{CONNECTION, HeaderName};

use crate::path::CanonicalPath;
use crate::reading::Ambiguous;
use crate::route::{NoRule, PlacesBelow, RoutePlace, Routes, Rule};
use crate::{reading, work};
use sealgate_config::request_fields;

/// Index that finds the places of a path and of its ancestors.
///
/// The cost of a lookup does not depend on the number of rules.
#[derive(Debug)]
pub(super) struct PlaceIndex {
    numbers: BTreeMap<Vec<u8>, Vec<usize>>,
    /// Length of the longest key. Longer prefixes of a path are not looked up.
    max_key_bytes: usize,
}

impl PlaceIndex {
    /// Indexes the paths of places. The number of a place is its position in the iterator.
    pub(super) fn from_paths<'p>(paths: impl Iterator<Item = &'p [u8]>) -> Self {
        let mut index: BTreeMap<Vec<u8>, Vec<usize>> = BTreeMap::new();
        for (number, path) in paths.enumerate() {
            for read in [path, &reading::as_windows_reads(path), &reading::as_windows_reads(name(path))] {
                let numbers = index.entry(name(read).to_ascii_lowercase()).or_default();
                // Two readings of a place's path may be equal, but the place's number is added only
                // once. Numbers are added in ascending order, so only the last number is compared.
                if numbers.last() != Some(&number) {
                    numbers.push(number);
                }
            }
        }
        let max_key_bytes = index.keys().map(Vec::len).max().unwrap_or_default();
        Self { numbers: index, max_key_bytes }
    }

    /// Returns the numbers of all places whose path, without a trailing slash, is this path or one
    /// of its ancestors. The numbers are in ascending order. Ignores letter case.
    pub(super) fn find(&self, path: &[u8]) -> Vec<usize> {
        // Keeps one byte more than the longest key, so that a longer path does not match a key as a
        // whole.
        let path = path.get(..=self.max_key_bytes).unwrap_or(path);
        let upper = path.iter().any(u8::is_ascii_uppercase);
        let path = if upper { Cow::Owned(path.to_ascii_lowercase()) } else { Cow::Borrowed(path) };
        let above = memchr::memchr_iter(b'/', &path).filter_map(|end| path.get(..end));
        let whole = (!path.ends_with(b"/")).then_some(&*path);
        let mut find = Vec::new();
        for numbers in above.chain(whole).filter_map(|name| self.numbers.get(name)) {
            find.extend_from_slice(numbers);
        }
        work::count(path.len() + find.len());
        find.sort_unstable();
        find.dedup();
        find
    }
}

/// Returns a path without its trailing slash.
fn name(path: &[u8]) -> &[u8] {
    path.strip_suffix(b"/").unwrap_or(path)
}

/// Rules of the places below the paths of a request. These rules must allow the request too.
#[derive(Debug, Clone)]
pub(super) struct Subtree<'a> {
    method: &'a str,
    /// Address of the client, if it is known.
    address: Option<IpAddr>,
    places: Vec<PlacesBelow<'a>>,
}

impl<'a> Subtree<'a> {
    /// Creates an empty set for a request with this method from this address.
    pub(super) const fn new(method: &'a str, address: Option<IpAddr>) -> Self {
        Self { method, address, places: Vec::new() }
    }

    pub(super) const fn method(&self) -> &'a str {
        self.method
    }

    /// Returns the rule of a place that applies to the request.
    pub(super) fn rule<'p>(&self, place: &'p RoutePlace) -> Result<&'p Rule, NoRule> {
        place.rule(self.method, self.address)
    }

    /// Adds the rules below a path. `found` is the place of the path itself.
    ///
    /// # Errors
    /// If the path can be read in more than one way.
    pub(super) fn add(
        &mut self,
        routes: &'a Routes,
        path: &CanonicalPath<'_>,
        found: &'a RoutePlace,
        depth: RequestDepth,
    ) -> Result<(), Ambiguous> {
        if depth == RequestDepth::Infinity {
            self.places.push(routes.below(path, found)?);
        }
        Ok(())
    }

    /// Returns the rules, up to the first place that has no rule for the method. That place is the
    /// last element, as an error.
    pub(super) fn rules(&self) -> impl Iterator<Item = Result<&'a Rule, NoRule>> {
        let mut is_closed = false;
        let places = self.places.iter().flat_map(|below| below.places(self.method));
        places.map(|place| self.rule(place)).take_while(move |rule| !std::mem::replace(&mut is_closed, rule.is_err()))
    }
}

const DEPTH: HeaderName = HeaderName::from_static("depth");

/// Depth of a request: whether it acts only on its path or also below it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RequestDepth {
    /// The request acts on the path only. The response may show the names and properties of the
    /// collection's members.
    Zero,
    /// The request acts on everything below the path.
    Infinity,
}

impl RequestDepth {
    /// Returns the depth at which a request with this method and these headers acts.
    ///
    /// A `Depth` header counts only if it is valid for the method. Otherwise the gateway assumes
    /// that the request acts on everything below its path, so that no server acts deeper than the
    /// check (RFC 4918 §9).
    pub(super) fn from_request(method: &str, headers: &HeaderMap) -> Self {
        match (method, field(headers)) {
            // `Depth: 1` shows the names and properties of all members, but not their content. That
            // includes members to which the user has no access. If `Depth: 1` were refused, users
            // could not browse a collection with such a member.
            ("LOCK", Some(b"0")) | ("PROPFIND", Some(b"0" | b"1")) => Self::Zero,
            // DELETE (§9.6.1) and the MOVE of a collection (§9.9.2) allow no other depth. COPY
            // allows `Depth: 0`, but `WsgiDAV` 4.4 copies all members even with `Depth: 0`.
            ("LOCK" | "PROPFIND" | "DELETE" | "MOVE" | "COPY", _) => Self::Infinity,
            _ => Self::Zero,
        }
    }

    /// Returns the depth as [`RequestDepth::from_request`] does, for applications that receive
    /// headers such as `X-HTTP-Method-Override`. If such a header overrides the method, the depth
    /// is `Infinity`.
    pub(super) fn of_any_method(method: &str, headers: &HeaderMap) -> Self {
        if request_fields::override_method(headers) { Self::Infinity } else { Self::from_request(method, headers) }
    }
}

/// Returns the value of `Depth` if there is exactly one `Depth` header and it is forwarded. A
/// header that `Connection` names is not forwarded (RFC 9110 §7.6.1).
fn field(headers: &HeaderMap) -> Option<&[u8]> {
    let mut values = headers.get_all(DEPTH).iter();
    let (Some(only), None) = (values.next(), values.next()) else { return None };
    let mut named = headers.get_all(CONNECTION).iter().flat_map(|field| field.as_bytes().split(|byte| *byte == b','));
    let is_removed = named.any(|name| name.trim_ascii().eq_ignore_ascii_case(DEPTH.as_str().as_bytes()));
    (!is_removed).then_some(only.as_bytes())
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn depth(method: &str, fields: &[(&'static str, &'static str)]) -> RequestDepth {
        let fields = fields.iter();
        let headers: HeaderMap =
            fields.map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value))).collect();
        RequestDepth::of_any_method(method, &headers)
    }

    #[test]
    fn depth_counts_only_if_valid_for_the_method() {
        for (method, without, zero, one) in [
            ("COPY", RequestDepth::Infinity, RequestDepth::Infinity, RequestDepth::Infinity),
            ("LOCK", RequestDepth::Infinity, RequestDepth::Zero, RequestDepth::Infinity),
            ("PROPFIND", RequestDepth::Infinity, RequestDepth::Zero, RequestDepth::Zero),
            ("DELETE", RequestDepth::Infinity, RequestDepth::Infinity, RequestDepth::Infinity),
            ("MOVE", RequestDepth::Infinity, RequestDepth::Infinity, RequestDepth::Infinity),
            ("PUT", RequestDepth::Zero, RequestDepth::Zero, RequestDepth::Zero),
            ("PROPPATCH", RequestDepth::Zero, RequestDepth::Zero, RequestDepth::Zero),
        ] {
            assert_eq!(depth(method, &[]), without, "{method}");
            assert_eq!(depth(method, &[("depth", "0")]), zero, "{method}");
            assert_eq!(depth(method, &[("depth", "1")]), one, "{method}");
            for other in ["infinity", "", "2", "00", "0,0", "1,noroot", "+0", "0x0", "0;x"] {
                assert_eq!(depth(method, &[("depth", other)]), without, "{method} {other}");
            }
            assert_eq!(depth(method, &[("depth", "0"), ("depth", "0")]), without, "{method}");
            assert_eq!(depth(method, &[("depth", "0"), ("connection", "close, Depth")]), without, "{method}");
            assert_eq!(depth(method, &[("depth", "0"), ("connection", "depths")]), zero, "{method}");
            assert_eq!(depth(method, &[("depth", "0"), ("x-http-method-override", "GET")]), RequestDepth::Infinity);
        }
    }
}
