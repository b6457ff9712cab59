//! Checks of the upstreams of routes, and of the paths that they receive.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::address;
use crate::file::Section;
use crate::{PathPrefix, Route, RouteUpstream, Upstream, UpstreamProtocol};

/// Keys of a path's routes. `None` if the route above the path decides.
#[derive(Clone, Default, PartialEq, Eq)]
struct OwnKeys {
    servers: Option<Vec<Upstream>>,
    protocol: Option<UpstreamProtocol>,
    upstream_path: Option<String>,
}

/// Keys of all paths of an application.
#[derive(Default)]
pub(super) struct RouteUpstreamKeys(BTreeMap<String, OwnKeys>);

impl RouteUpstreamKeys {
    /// Adds the keys of a route. The rules of one path cannot have different values.
    pub(super) fn add(&mut self, section: &mut Section<'_, '_>, path: Option<&str>, servers: Option<Vec<Upstream>>) {
        let upstream_path =
            section.text("upstream_path", "write a path that ends in /, such as \"/wiki/\"", address::upstream_path);
        let protocol = section.choice("upstream_protocol", &UpstreamProtocol::CHOICES);
        if protocol.is_some() && servers.is_none() {
            let problem = "is the protocol of the route's own upstreams, but it has none; list upstreams too, or set \
                           upstream_protocol of the application";
            section.fault("upstream_protocol", problem);
        }
        let Some(path) = path else { return };
        if upstream_path.is_some() && !path.ends_with('/') {
            let problem = format!(
                "replaces the start of longer paths, but {path:?} has none below it; end the route's path in /"
            );
            section.fault("upstream_path", &problem);
        }
        let known = self.0.entry(path.to_owned()).or_default();
        let problem = format!("another rule of {path:?} has a different value; set the same value, or set it once");
        if known.protocol.is_some() && protocol.is_some() && known.protocol != protocol {
            section.fault("upstream_protocol", &problem);
        }
        if known.servers.is_some() && servers.is_some() && known.servers != servers {
            section.fault("upstreams", &problem);
        }
        if known.upstream_path.is_some() && upstream_path.is_some() && known.upstream_path != upstream_path {
            section.fault("upstream_path", &problem);
        }
        known.servers = known.servers.take().or(servers);
        known.protocol = known.protocol.or(protocol);
        known.upstream_path = known.upstream_path.take().or(upstream_path);
    }

    /// Sets the upstream of each route: its own, or that of the next route above it, or the
    /// application's.
    pub(super) fn apply(self, of_app: &[Upstream], protocol_of_app: UpstreamProtocol, routes: &mut [Route]) {
        let mut lists: Vec<(Arc<[Upstream]>, Option<UpstreamProtocol>)> = Vec::new();
        let mut resolved: BTreeMap<String, RouteUpstream> = BTreeMap::new();
        // A path sorts after the paths above it.
        for (path, OwnKeys { servers, protocol, upstream_path }) in self.0 {
            let above = parents(&path).find_map(|above| resolved.get(above)).cloned().unwrap_or_default();
            let is_own = servers.is_some() || upstream_path.is_some();
            let protocol = protocol.filter(|protocol| *protocol != protocol_of_app);
            let (list, servers, protocol) = match servers {
                None => (above.list, above.servers, above.protocol),
                Some(servers) if servers == of_app && protocol.is_none() => (0, None, None),
                Some(servers) => {
                    let known = lists.iter().position(|known| *known.0 == *servers && known.1 == protocol);
                    let index = known.unwrap_or_else(|| {
                        lists.push((servers.into(), protocol));
                        lists.len() - 1
                    });
                    (index + 1, lists.get(index).map(|list| Arc::clone(&list.0)), protocol)
                }
            };
            let replaced = upstream_path.filter(|upstream_path| *upstream_path != path);
            let replaced = replaced.map(|upstream| Arc::new(PathPrefix { public: path.clone(), upstream }));
            let prefix = if is_own { replaced } else { above.prefix };
            resolved.insert(path, RouteUpstream { list, servers, protocol, prefix });
        }
        for route in routes {
            if let Some(upstream) = resolved.get(&route.path) {
                route.upstream = upstream.clone();
            }
        }
    }
}

/// Returns the paths that include everything below them and are above this path, nearest first.
fn parents(path: &str) -> impl Iterator<Item = &str> {
    let name = path.strip_suffix('/').unwrap_or(path);
    name.rmatch_indices('/').filter_map(|(at, _)| path.get(..=at))
}

/// Returns a sentence for each path of an upstream that clients reach under two names with different
/// conditions.
///
/// A client could avoid the conditions of one name with the other name. Two names exist if two routes
/// change paths differently, and share a server.
pub(super) fn avoidable_rules(of_app: &[Upstream], routes: &[Route]) -> Vec<String> {
    let mut places: BTreeMap<&str, Vec<&Route>> = BTreeMap::new();
    for route in routes {
        places.entry(&route.path).or_default().push(route);
    }
    let mut mappings: Vec<&RouteUpstream> = Vec::new();
    for route in routes {
        if !mappings.contains(&&route.upstream) {
            mappings.push(&route.upstream);
        }
    }
    let mut problems = Vec::new();
    let mut reported = BTreeSet::new();
    for (path, rules) in &places {
        let Some(own) = rules.first().map(|rule| &rule.upstream) else { continue };
        let received = received(own, path);
        for mapping in mappings.iter().filter(|mapping| **mapping != own && share_server(of_app, own, mapping)) {
            let Some(alias) = alias(mapping, &received) else { continue };
            let Some((governing, others)) = governing(&places, &alias) else { continue };
            // A route with another upstream may be at the second name. Other spellings of that name, such
            // as capital letters, are refused only if its conditions differ from those above it.
            let is_mapped = |place: &str| places.get(place).is_some_and(|rules| has_upstream(rules, mapping));
            let is_reached = has_upstream(others, mapping) || parents(&alias).any(is_mapped);
            if !is_reached || have_same_conditions(rules, others) {
                continue;
            }
            if reported.insert((governing.min(path), governing.max(path))) {
                let advice = if alias == governing {
                    "set the same conditions for both".to_owned()
                } else {
                    format!("add a route {alias:?} with the conditions of {path:?}")
                };
                problems.push(format!(
                    "{path:?} and {alias:?} are the same path {received:?} of one upstream, but have different \
                     conditions, so one of the rules can be avoided; {advice}"
                ));
            }
        }
    }
    problems
}

/// Returns the path that an upstream receives for the path of a route.
fn received(upstream: &RouteUpstream, path: &str) -> String {
    upstream.prefix.as_ref().map_or_else(|| path.to_owned(), |prefix| prefix.to_upstream(path))
}

/// Returns the path under which clients reach a path of the upstream by this mapping.
///
/// The upstream may ignore letter case, and may pass `/a.php/b` to the script `/a.php`.
fn alias(mapping: &RouteUpstream, received: &str) -> Option<String> {
    let (public, upstream) = mapping.prefix.as_ref().map_or(("/", "/"), |prefix| (&prefix.public, &prefix.upstream));
    let starts = |text: &str, start: &str| {
        text.get(..start.len()).is_some_and(|beginning| beginning.eq_ignore_ascii_case(start))
    };
    if starts(received, upstream) {
        return Some(format!("{public}{}", received.get(upstream.len()..)?));
    }
    let is_script = !received.ends_with('/') && starts(upstream, &format!("{received}/"));
    is_script.then(|| public.to_owned())
}

/// Returns the rules of a path, and the path of the configuration to which they belong.
fn governing<'p, 'r>(places: &'p BTreeMap<&'r str, Vec<&'r Route>>, path: &str) -> Option<(&'r str, &'p [&'r Route])> {
    let with_slash = format!("{path}/");
    let names = [path, &with_slash].into_iter().chain(parents(path));
    let mut found = names.filter_map(|name| places.get_key_value(name));
    found.next().map(|(path, rules)| (*path, rules.as_slice()))
}

fn has_upstream(rules: &[&Route], upstream: &RouteUpstream) -> bool {
    rules.first().is_some_and(|rule| rule.upstream == *upstream)
}

fn have_same_conditions(one: &[&Route], other: &[&Route]) -> bool {
    let is_in = |rules: &[&Route], rule: &&Route| rules.iter().any(|known| known.has_same_conditions_as(rule));
    one.len() == other.len() && one.iter().all(|rule| is_in(other, rule)) && other.iter().all(|rule| is_in(one, rule))
}

fn share_server(of_app: &[Upstream], one: &RouteUpstream, other: &RouteUpstream) -> bool {
    let servers = |upstream: &RouteUpstream| -> Vec<String> {
        upstream.servers.as_deref().unwrap_or(of_app).iter().map(server).collect()
    };
    let others = servers(other);
    servers(one).iter().any(|server| others.contains(server))
}

/// Returns a name of the server that does not depend on the spelling of a loopback address.
fn server(upstream: &Upstream) -> String {
    match upstream {
        Upstream::Socket(path) => format!("unix:{}", path.display()),
        Upstream::Url(url) => {
            let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']).trim_end_matches('.');
            let host = host.to_ascii_lowercase();
            let address = host.parse::<std::net::IpAddr>().map(|address| address.to_canonical());
            // Connections to the unspecified address reach this machine too.
            let is_loopback = address.is_ok_and(|address| address.is_loopback() || address.is_unspecified())
                || host == "localhost"
                || host.ends_with(".localhost");
            let host = if is_loopback { "localhost" } else { &host };
            format!("{host}:{}", url.port_or_known_default().unwrap_or_default())
        }
    }
}
