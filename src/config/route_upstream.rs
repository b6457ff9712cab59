//! Upstreams of a route, and the path that they receive.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::{App, Upstream, UpstreamProtocol};

/// Upstreams of a route, if they are not the application's, and the path that they receive.
///
/// The settings of a route apply to the routes below it too, unless those have settings of their own.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RouteUpstream {
    /// Number of the list among the lists of the application: 0 for [`crate::App::upstreams`].
    pub list: usize,
    /// The list, if it is not the application's.
    pub servers: Option<Arc<[Upstream]>>,
    /// Protocol of `servers`. `None` for the application's.
    pub protocol: Option<UpstreamProtocol>,
    /// `None` if the upstreams receive the path of the request.
    pub prefix: Option<Arc<PathPrefix>>,
}

impl App {
    /// Returns the lists of upstreams that routes have instead of the application's, each with its
    /// protocol, in the order of [`RouteUpstream::list`]. The first one has the number 1.
    pub fn route_upstreams(&self) -> Vec<(Arc<[Upstream]>, UpstreamProtocol)> {
        let mut lists = BTreeMap::new();
        for RouteUpstream { list, servers, protocol, .. } in self.routes.iter().map(|route| &route.upstream) {
            let protocol = protocol.unwrap_or(self.upstream_protocol);
            lists.extend(servers.as_ref().map(|servers| (*list, (Arc::clone(servers), protocol))));
        }
        lists.into_values().collect()
    }

    /// Returns each upstream of the application and of its routes once.
    pub fn all_upstreams(&self) -> Vec<&Upstream> {
        let of_routes = self.routes.iter().filter_map(|route| route.upstream.servers.as_deref()).flatten();
        let mut all: Vec<&Upstream> = Vec::new();
        for upstream in self.upstreams.iter().chain(of_routes) {
            if !all.contains(&upstream) {
                all.push(upstream);
            }
        }
        all
    }
}

/// Prefix of a path that clients see, and the prefix that replaces it at the upstream. Both begin and
/// end with `/`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathPrefix {
    pub public: String,
    pub upstream: String,
}

impl PathPrefix {
    /// Returns the target for the upstream. `target` is a path of the route, with or without a query.
    ///
    /// The prefix may be escaped in `target`. An escaped slash is not a slash of the prefix, so the
    /// prefix ends at the same number of slashes. Every other byte remains as it is.
    pub fn to_upstream(&self, target: &str) -> String {
        let end = target.find('?').unwrap_or(target.len());
        let slashes = self.public.bytes().filter(|byte| *byte == b'/').count();
        let last = target.match_indices('/').take_while(|(at, _)| *at < end).nth(slashes.saturating_sub(1));
        let rest = last.map_or(end, |(at, _)| at + 1);
        format!("{}{}", self.upstream, target.get(rest..).unwrap_or_default())
    }

    /// Returns the path that clients see for a path of the upstream, which may have a query and a
    /// fragment. `None` if the path is not below the upstream's prefix.
    ///
    /// A path that already has the public prefix is not changed either: the application knows its
    /// public address.
    pub fn to_public(&self, path: &str) -> Option<String> {
        let (name, tail) = path.split_at(path.find(['?', '#']).unwrap_or(path.len()));
        if self.is_public(name) {
            return None;
        }
        if let Some(rest) = name.strip_prefix(self.upstream.as_str()) {
            return Some(format!("{}{rest}{tail}", self.public));
        }
        (name == bare(&self.upstream)).then(|| format!("{}{tail}", bare(&self.public)))
    }

    /// Converts the `Path` of an upstream's cookie to the path for the browser. `None` if it does not
    /// change.
    ///
    /// A cookie for other paths is limited to the prefix, because the other paths of the host belong to
    /// other applications.
    pub fn to_public_cookie_path(&self, path: &str) -> Option<String> {
        if !path.starts_with('/') || self.is_public(path) {
            return None;
        }
        self.to_public(path).or_else(|| Some(self.public.clone()))
    }

    /// Returns whether a path has the public prefix. Of two prefixes that contain each other, the longer
    /// one decides.
    fn is_public(&self, path: &str) -> bool {
        is_below(path, &self.public) && !(self.upstream.starts_with(&self.public) && is_below(path, &self.upstream))
    }

    /// Returns the value of `X-Forwarded-Prefix`: what the client's path has in front of the upstream's
    /// path. `None` if the public prefix does not end with the upstream's.
    pub fn forwarded_prefix(&self) -> Option<&str> {
        self.public.strip_suffix(self.upstream.as_str()).filter(|prefix| !prefix.is_empty())
    }
}

/// Returns whether a path is the prefix, with or without its last slash, or below it.
fn is_below(path: &str, prefix: &str) -> bool {
    path.starts_with(prefix) || path == bare(prefix)
}

/// Returns a prefix without its last slash. The prefix `/` remains.
fn bare(prefix: &str) -> &str {
    prefix.strip_suffix('/').filter(|bare| !bare.is_empty()).unwrap_or(prefix)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefix(public: &str, upstream: &str) -> PathPrefix {
        PathPrefix { public: public.to_owned(), upstream: upstream.to_owned() }
    }

    #[test]
    fn the_prefix_of_a_target_is_replaced() {
        for (public, upstream, target, expected) in [
            ("/wiki/", "/", "/wiki/", "/"),
            ("/wiki/", "/", "/wiki/a/b?c=/wiki/d", "/a/b?c=/wiki/d"),
            ("/wiki/", "/w/", "/wiki/a", "/w/a"),
            ("/", "/w/", "/a", "/w/a"),
            ("/a/b/", "/", "/%61/b/c%2Fd", "/c%2Fd"),
            ("/wiki/", "/", "/wiki?a=/b/c", "/?a=/b/c"),
            ("/wiki/", "/w/", "/wiki", "/w/"),
        ] {
            assert_eq!(prefix(public, upstream).to_upstream(target), expected, "{public} {upstream} {target}");
        }
    }

    #[test]
    fn paths_of_the_upstream_become_public_once() {
        for (public, upstream, path, expected) in [
            ("/wiki/", "/", "/a?b#c", Some("/wiki/a?b#c")),
            ("/wiki/", "/", "/", Some("/wiki/")),
            ("/wiki/", "/", "/wiki/a", None),
            ("/wiki/", "/", "/wiki?a", None),
            ("/wiki/", "/", "/wikis", Some("/wiki/wikis")),
            ("/wiki/", "/w/", "/w/a", Some("/wiki/a")),
            ("/wiki/", "/w/", "/w?a", Some("/wiki?a")),
            ("/wiki/", "/w/", "/other", None),
            ("/", "/w/", "/w/a", Some("/a")),
            ("/", "/w/", "/other", None),
        ] {
            assert_eq!(prefix(public, upstream).to_public(path).as_deref(), expected, "{public} {upstream} {path}");
        }
    }

    #[test]
    fn cookies_are_limited_to_the_prefix() {
        for (upstream, path, expected) in [
            ("/", "/", Some("/wiki/")),
            ("/", "/a", Some("/wiki/a")),
            ("/w/x/", "/", Some("/wiki/")),
            ("/w/x/", "/w", Some("/wiki/")),
            ("/w/x/", "/w/", Some("/wiki/")),
            ("/w/x/", "/w/x", Some("/wiki")),
            ("/w/x/", "/w/x/a", Some("/wiki/a")),
            ("/w/x/", "/wx", Some("/wiki/")),
            ("/w/x/", "", None),
            ("/w/x/", "a", None),
            ("/", "/wiki", None),
        ] {
            assert_eq!(
                prefix("/wiki/", upstream).to_public_cookie_path(path).as_deref(),
                expected,
                "{upstream} {path}"
            );
        }
    }

    #[test]
    fn the_forwarded_prefix_is_the_part_in_front_of_the_upstreams_path() {
        assert_eq!(prefix("/a/wiki/", "/wiki/").forwarded_prefix(), Some("/a"));
        assert_eq!(prefix("/wiki/", "/").forwarded_prefix(), Some("/wiki"));
        assert_eq!(prefix("/wiki/", "/w/").forwarded_prefix(), None);
        assert_eq!(prefix("/", "/").forwarded_prefix(), None);
    }
}
