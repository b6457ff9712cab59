//! Checks of `[[app]]` and its rules.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ipnet::IpNet;
use url::Url;

use super::also_sign_in::also_sign_in;
use super::factors::LEVELS;
use super::fixed_headers::fixed_headers;
use super::health_check::health_check;
use super::identity::identity;
use super::login::login;
use super::maintenance::maintenance;
use super::resources::{app_scopes, is_scope, issuer_audience, route_resource};
use super::route_limits::{app_timeouts, max_body_bytes, route_limits};
use super::route_upstreams::{RouteUpstreamKeys, avoidable_rules};
use super::{address, tls};
use crate::app::split_port;
use crate::app_hosts::{MAX_LABEL_LENGTH, WILDCARD};
use crate::disk::Files;
use crate::file::Section;
use crate::{
    Access, App, AppScope, AuthorizationHeader, Caching, IssuerUrl, PathCharacters, Route, RouteUpstream, RuleUser,
    Sticky, Upstream, UpstreamProtocol,
};
use sealgate_domain::assurance::AssuranceLevel;
use sealgate_domain::client::{ClientId, INTERNAL_CLIENT, MAX_CLIENT_ID_LENGTH};
use sealgate_domain::profile::is_line;
use sealgate_domain::scope::ScopeValue;

/// Path prefix of the pages that Sealgate serves on an application's host.
const OWN_PATH: &str = "/.sealgate/";
/// Path of the protected resource metadata, which lists the accepted issuers (RFC 9728 §3).
const RESOURCE_METADATA: &str = "/.well-known/oauth-protected-resource";

/// Allowed values of `upstreams`.
const UPSTREAMS: &str = "write a list such as [\"http://127.0.0.1:8081\"]";

/// Allowed values of lists with hosts of clients' metadata documents.
pub(super) const DOCUMENT_HOSTS: &str = "write a list of host names, such as [\"claude.ai\"]";

/// Maximum length of an application's title in characters.
const MAX_TITLE_LENGTH: usize = 60;
const MAX_DESCRIPTION_LENGTH: usize = 200;

/// Settings of Sealgate itself that applications are checked against.
pub(super) struct Own<'a> {
    pub(super) issuer: Option<&'a IssuerUrl>,
    pub(super) listen: &'a [SocketAddr],
    /// Sealgate's admin socket. It must not be an upstream, because every client of the socket is
    /// an administrator.
    pub(super) socket: Option<&'a Path>,
    /// Names of the trusted issuers.
    pub(super) trusted: &'a [&'a str],
}

pub(super) fn apps(sections: Vec<Section<'_, '_>>, own: &Own<'_>, files: &Files) -> Option<Vec<App>> {
    let of_section = |section: &Section<'_, '_>| {
        section.peek("name").map(|name| (name.to_owned(), section.peek("host").unwrap_or_default().to_owned()))
    };
    let mut taken = Taken { all: sections.iter().filter_map(of_section).collect(), ..Taken::default() };
    // Parse all applications before dropping any with errors, so that all errors are reported.
    let apps: Vec<_> = sections.into_iter().map(|section| app(section, own, files, &mut taken)).collect();
    apps.into_iter().collect()
}

#[derive(Default)]
struct Taken {
    names: Vec<String>,
    hosts: Vec<String>,
    /// Name and host of all applications, also of later ones.
    all: Vec<(String, String)>,
}

#[expect(clippy::too_many_lines, reason = "one statement for each key of an application")]
fn app(mut section: Section<'_, '_>, own: &Own<'_>, files: &Files, taken: &mut Taken) -> Option<App> {
    let issuer = own.issuer;
    let name = section.required_text("name", "write a name of a-z, 0-9, - and _", |text| {
        let name = address::app_name(text)?;
        if taken.names.contains(&name) {
            return Err(format!("{text:?} is another application's name; use a different name"));
        }
        taken.names.push(name.clone());
        Ok(name)
    });
    let host = section.required_text(
        "host",
        "write the host in the application's URL, such as \"wiki.example.com\"",
        |text| {
            let host = address::app_host(text)?;
            check_port(&host, issuer)?;
            if taken.hosts.iter().any(|other| overlap(other, &host)) {
                return Err(format!("{text:?} is another application's host; give each application its own host"));
            }
            taken.hosts.push(host.clone());
            Ok(host)
        },
    );
    let line = |text: &str, longest| {
        let problem = || format!("{text:?} is not one line of 1 to {longest} visible characters");
        is_line(text, longest).then(|| text.to_owned()).ok_or_else(problem)
    };
    let title =
        section.text("title", "write the application's name as users know it", |text| line(text, MAX_TITLE_LENGTH));
    let description =
        section.text("description", "write a description in one line", |text| line(text, MAX_DESCRIPTION_LENGTH));
    let icon = section.text("icon", "write the path of a PNG or SVG picture", |text| files.logo(text));
    let url = section.text("url", "write the public address, such as \"https://wiki.example.com:8443\"", |text| {
        address::app_url(text, host.as_deref(), issuer)
    });
    let upstreams = upstreams(&mut section, own, files);
    let upstream_protocol = section.choice("upstream_protocol", &UpstreamProtocol::CHOICES).unwrap_or_default();
    let trusted_issuers = trusted_issuers(&mut section, own.trusted);
    let acr = acr(&mut section, &trusted_issuers).unwrap_or_default();
    let max_body_bytes = max_body_bytes(&mut section);
    let compression = section.flag("compression", false);
    let scopes = app_scopes(&mut section);
    let agents = section.flag("agents", false);
    let of_app = OfApp {
        trusted: &trusted_issuers,
        acr: &acr,
        upstreams: &upstreams,
        upstream_protocol,
        max_body_bytes,
        compression,
        scopes: &scopes,
        agents,
    };
    let routes = routes(&mut section, &of_app, own, files);
    let upstream_tls = tls::upstream(&mut section, &with_upstreams_of_routes(&upstreams, routes.as_deref()), files);
    let health_check = health_check(&mut section);
    let sticky = section.choice("sticky", &[("user", Sticky::User), ("cookie", Sticky::Cookie)]);
    let maintenance = maintenance(&mut section);
    let login = login(&mut section, &upstreams, &upstream_tls, files);
    if login.is_some() && routes.iter().flatten().any(|route| route.upstream != RouteUpstream::default()) {
        let problem = "signs users in at the application's upstreams and their own paths only; leave upstreams and \
                       upstream_path out of the routes, or configure another application";
        section.fault("login", problem);
    }
    if login.is_some() && sticky.is_some() && upstreams.len() > 1 {
        let problem = "has no effect on the sign-in at the application, which may use any of the upstreams; \
                       leave sticky out, or list one upstream";
        section.fault("sticky", problem);
    }
    if login.is_some() && upstream_protocol == UpstreamProtocol::Http2 {
        let problem =
            "signs users in over HTTP/1.1 only; leave upstream_protocol out, or configure another application";
        section.fault("login", problem);
    }
    if host.as_deref().is_some_and(|host| host.starts_with(WILDCARD)) {
        of_wildcard(&section, name.as_deref());
    }
    let place = "write a path such as \"/\", a URL such as \"https://www.example.com/\", or a list of these";
    let after_sign_out = section.one_or_more_texts("after_sign_out", place, address::after_sign_out);
    let also_sign_in = also_sign_in(&mut section, name.as_deref(), &taken.all, issuer);
    let audience = section.text("audience", "write the audience that access tokens must have", address::name);
    let audiences = routes.iter().flatten().filter_map(|route| route.audience.as_deref());
    let audiences = audiences.chain(audience.as_deref()).collect();
    let issuer_audience = issuer_audience(&mut section, agents, &audiences, issuer);
    if !(scopes.is_empty() && issuer_audience) && is_at_origin_of(issuer, host.as_deref(), url.as_ref()) {
        let problem = "is the issuer's own, which is the audience of tokens for all applications; leave scopes, \
                       issuer_audience and agents out, or give the application a host of its own";
        section.fault("host", problem);
    }
    let alg = section.text("alg", "write an algorithm such as \"ES256\"", address::algorithm).unwrap_or_default();
    let clients = section.texts("clients", "write a list of client IDs", |text| {
        ClientId::parse(text).ok_or_else(|| format!("{text:?} is not a client ID; `sealgate client list` shows them"))
    });
    let client_hosts = section.some_texts("client_hosts", DOCUMENT_HOSTS, address::document_host);
    let mut identity = identity(&mut section);
    let fixed_headers = fixed_headers(&mut section, &identity, files);
    identity.fixed = fixed_headers.request_names().cloned().collect();
    let preserve_host = section.flag("preserve_host", true);
    let max_requests = section.number("max_requests", 1024, 1..=1_000_000);
    let max_requests_per_client = section.number("max_requests_per_client", max_requests.min(128), 1..=1_000_000);
    if max_requests_per_client > max_requests {
        let problem = format!("is larger than the limit of all clients together; set at most {max_requests}");
        section.fault("max_requests_per_client", &problem);
    }
    let reads_bodies_whole = section.flag("reads_bodies_whole", false);
    let connect_timeout = section.seconds("connect_timeout_seconds", 3, 1..=60);
    let (read_timeout, stream_timeout) = app_timeouts(&mut section);
    let write_timeout = section.seconds("write_timeout_seconds", 30, 1..=86_400);
    let has_application_tokens = routes.iter().flatten().any(|route| route.application_tokens);
    if has_application_tokens && identity.authorization != AuthorizationHeader::Pass {
        let problem =
            "removes the application's own tokens, so application_tokens has no effect; leave one of them out";
        section.fault("authorization", problem);
    }
    Some(App {
        name: name?,
        title,
        description,
        icon: icon.flatten(),
        host: host?,
        url,
        upstreams,
        upstream_protocol,
        upstream_tls,
        health_check: health_check?,
        sticky,
        maintenance,
        routes: routes?,
        login,
        after_sign_out: after_sign_out.unwrap_or_default(),
        also_sign_in,
        audience,
        scopes,
        issuer_audience,
        agents,
        alg,
        clients,
        client_hosts: client_hosts.unwrap_or_default(),
        trusted_issuers,
        acr,
        identity: Arc::new(identity),
        fixed_headers,
        preserve_host,
        max_requests,
        max_requests_per_client,
        reads_bodies_whole,
        max_body_bytes,
        compression,
        connect_timeout,
        read_timeout,
        stream_timeout,
        write_timeout,
    })
}

fn trusted_issuers(section: &mut Section<'_, '_>, trusted: &[&str]) -> Vec<String> {
    let issuers = section.texts("trusted_issuers", "write a list of trusted issuers' names", |text| {
        let problem = || format!("{text:?} is not a trusted issuer; write the name of a [[trusted_issuer]]");
        if trusted.contains(&text) { Ok(text.to_owned()) } else { Err(problem()) }
    });
    issuers.unwrap_or_default()
}

/// Returns the upstreams of the application and of its routes.
fn with_upstreams_of_routes(of_app: &[Upstream], routes: Option<&[Route]>) -> Vec<Upstream> {
    let of_routes = routes.unwrap_or_default().iter().filter_map(|route| route.upstream.servers.as_deref());
    of_app.iter().chain(of_routes.flatten()).cloned().collect()
}

fn upstreams(section: &mut Section<'_, '_>, own: &Own<'_>, files: &Files) -> Vec<Upstream> {
    let mut known = Vec::new();
    section.required_texts("upstreams", UPSTREAMS, |text| upstream(text, own, files, &mut known))
}

/// Parses an upstream. `known` has the earlier elements of the list.
fn upstream(text: &str, own: &Own<'_>, files: &Files, known: &mut Vec<Upstream>) -> Result<Upstream, String> {
    let upstream = match text.strip_prefix("unix:") {
        Some(path) => Upstream::Socket(socket(path, own, files)?),
        None => address::upstream(text, own.listen)?,
    };
    if known.contains(&upstream) {
        return Err(format!("{text:?} is repeated in this list; list each server once"));
    }
    known.push(upstream.clone());
    Ok(upstream)
}

/// Parses the path of an upstream's Unix socket. The socket may be absent, because the upstream
/// creates it.
fn socket(text: &str, own: &Own<'_>, files: &Files) -> Result<PathBuf, String> {
    let path = files.socket(files.path(text)?)?;
    if own.socket.is_some_and(|socket| files.are_same_socket(socket, &path)) {
        return Err(format!("{} is Sealgate's own socket; use the application's socket", path.display()));
    }
    Ok(path)
}

/// Maximum length of the name of an application with a wildcard in its host. The label of the
/// request's host and a dot follow the name in the internal client id.
const MAX_WILDCARD_NAME_LENGTH: usize = MAX_CLIENT_ID_LENGTH - INTERNAL_CLIENT.len() - 1 - MAX_LABEL_LENGTH;

/// Reports settings that an application with a wildcard in its host cannot have.
fn of_wildcard(section: &Section<'_, '_>, name: Option<&str>) {
    if name.is_some_and(|name| name.len() > MAX_WILDCARD_NAME_LENGTH) {
        let problem = format!(
            "is too long for an application with a wildcard; write at most {MAX_WILDCARD_NAME_LENGTH} characters"
        );
        section.fault("name", &problem);
    }
    if section.has("login") {
        let problem = "is not supported for an application with a wildcard in its host; write an [[app]] with an exact \
                       host for each application with a login form";
        section.fault("login", problem);
    }
}

/// Rejects a host with the default port of the scheme. Browsers omit the default port, so no
/// request would match.
fn check_port(host: &str, issuer: Option<&IssuerUrl>) -> Result<(), String> {
    let (name, port) = split_port(host);
    let own = issuer.map(|issuer| if issuer.is_https() { "443" } else { "80" });
    if port.is_some() && port == own {
        return Err(format!("{host:?} has the default port, which browsers leave out; write {name:?}"));
    }
    Ok(())
}

/// Returns whether the application has the same origin as the issuer.
fn is_at_origin_of(issuer: Option<&IssuerUrl>, host: Option<&str>, url: Option<&Url>) -> bool {
    let Some((issuer, host)) = issuer.zip(host) else { return false };
    let (name, port) = split_port(host);
    let port = match url {
        Some(url) => url.port(),
        None => port.and_then(|port| port.parse().ok()).or(issuer.port()),
    };
    name == issuer.host() && port == issuer.port() && issuer.path_prefix().is_empty()
}

/// Returns whether a request could match both hosts. A host without a port matches every port.
fn overlap(one: &str, other: &str) -> bool {
    let ((one, one_port), (other, other_port)) = (split_port(one), split_port(other));
    one == other && (one_port == other_port || one_port.is_none() || other_port.is_none())
}

/// Settings of an application that its routes inherit.
struct OfApp<'a> {
    trusted: &'a [String],
    acr: &'a [String],
    upstreams: &'a [Upstream],
    upstream_protocol: UpstreamProtocol,
    max_body_bytes: Option<u64>,
    compression: bool,
    scopes: &'a [AppScope],
    agents: bool,
}

fn routes(app: &mut Section<'_, '_>, of_app: &OfApp<'_>, own: &Own<'_>, files: &Files) -> Option<Vec<Route>> {
    let sections = app.sections_or("route", [("path", "/"), ("access", "signed_in")]);
    if sections.is_empty() {
        app.fault("route", "is empty; add [[app.route]], or leave it out to require a sign-in for every path");
    }
    let mut taken = TakenRules::default();
    let routes: Vec<_> = sections.into_iter().map(|section| route(section, of_app, own, files, &mut taken)).collect();
    let mut routes: Vec<Route> = routes.into_iter().collect::<Option<_>>()?;
    taken.upstreams.apply(of_app.upstreams, of_app.upstream_protocol, &mut routes);
    for problem in avoidable_rules(of_app.upstreams, &routes) {
        app.fault("route", &problem);
    }
    routes.sort_by_key(|route| Reverse(route.path.len()));
    Some(routes)
}

/// Paths, methods and networks of earlier rules of the application.
///
/// A method of `None` represents all methods without a rule of their own for the path. A network of
/// `None` represents all clients without a rule of their own for the path and method.
#[derive(Default)]
struct TakenRules {
    rules: BTreeSet<(String, Option<String>, Option<IpNet>)>,
    characters: BTreeMap<String, PathCharacters>,
    /// Whether the path, without a slash at its end, is a resource.
    resources: BTreeMap<String, bool>,
    upstreams: RouteUpstreamKeys,
}

impl TakenRules {
    /// Adds a rule. Returns the problem if an earlier rule is for the same requests.
    fn add(&mut self, path: &str, methods: &[String], networks: &[IpNet]) -> Option<String> {
        let mut problem = None;
        for method in each_or_none(methods) {
            for network in each_or_none(networks) {
                if self.rules.insert((path.to_owned(), method.clone(), network)) {
                    continue;
                }
                let for_method = method.as_ref().map_or_else(String::new, |method| format!(" for {method}"));
                let from = network.map_or_else(String::new, |network| format!(" from {network}"));
                problem.get_or_insert_with(|| {
                    format!(
                        "{path:?} has another rule{for_method}{from}; use one rule for each path, method and network"
                    )
                });
            }
        }
        problem
    }
}

/// Returns the values, or a single `None` if there are none.
fn each_or_none<T: Clone>(values: &[T]) -> Vec<Option<T>> {
    if values.is_empty() { vec![None] } else { values.iter().cloned().map(Some).collect() }
}

#[expect(clippy::too_many_lines, reason = "one statement for each key of a route")]
fn route(
    mut section: Section<'_, '_>,
    of_app: &OfApp<'_>,
    own: &Own<'_>,
    files: &Files,
    taken: &mut TakenRules,
) -> Option<Route> {
    let trusted = of_app.trusted;
    let path = section.required_text("path", "write a path such as \"/\" or \"/api/\"", |text| {
        let path = address::route_path(text)?;
        let is_metadata = path.strip_prefix(RESOURCE_METADATA);
        let is_metadata = is_metadata.is_some_and(|rest| rest.is_empty() || (of_app.agents && rest.starts_with('/')));
        if path.starts_with(OWN_PATH) || is_metadata {
            return Err(format!("{text:?} is reserved for Sealgate; use a path of the application"));
        }
        Ok(path)
    });
    let methods = section.some_texts("methods", "write a list such as [\"GET\", \"HEAD\"]", address::method);
    let methods = methods.unwrap_or_default();
    let networks = section.some_texts("networks", "write a list such as [\"10.0.0.0/8\"]", address::clients);
    let networks = networks.unwrap_or_default();
    if let Some(path) = &path
        && let Some(problem) = taken.add(path, &methods, &networks)
    {
        section.fault("path", &problem);
    }
    let accesses = [("public", Access::Public), ("bearer", Access::Bearer), ("signed_in", Access::SignedIn)];
    let access = section.required_choice("access", &accesses);
    let audience = section.text("audience", "write the audience that access tokens must have", address::name);
    let resource = route_resource(&mut section, of_app.agents, path.as_deref(), access);
    if let Some(path) = &path
        && *taken.resources.entry(path.trim_end_matches('/').to_owned()).or_insert(resource) != resource
    {
        let problem =
            format!("another rule of {path:?} has a different value; set the same value for all methods of a path");
        section.fault("resource", &problem);
    }
    let mut known: Vec<&str> = ScopeValue::ALL.into_iter().map(ScopeValue::as_str).collect();
    known.extend(of_app.scopes.iter().map(|scope| scope.name.as_str()));
    let allowed = format!("write a list of {}", known.join(", "));
    let scopes = section.texts("scopes", &allowed, |text| {
        let known = known.contains(&text);
        // Trusted issuers may define further scopes.
        if known || (!trusted.is_empty() && is_scope(text)) {
            Ok(text.to_owned())
        } else {
            Err(format!("{text:?} is not a scope; {allowed}"))
        }
    });
    let groups = section.texts("groups", "write a list of group names", address::name);
    // Reject an empty list. It would permit every user, although its author probably meant none.
    let users = section.some_texts("users", "write a list of e-mail addresses or subs", |text| {
        rule_user(text, trusted)
            .ok_or_else(|| format!("{text:?} is neither an e-mail address nor a sub; write one of these"))
    });
    let own_acr = acr(&mut section, trusted);
    let max_age = section.optional_seconds("max_age_seconds", 30..=366 * 24 * 3600);
    let cors_origins =
        section.texts("cors_origins", "write a list such as [\"https://www.example.com\"]", address::web_origin);
    let caching = section.choice("caching", &[("private", Caching::Private), ("application", Caching::Application)]);
    let allow_get_body = section.flag("allow_get_body", false);
    let app_passwords = section.flag("app_passwords", false);
    if app_passwords && access.is_some_and(|access| access != Access::SignedIn) {
        section.fault(
            "app_passwords",
            "requires access = \"signed_in\", because application passwords belong to users; change access, \
             or leave it out",
        );
    }
    let application_tokens = section.flag("application_tokens", false);
    if application_tokens && access.is_some_and(|access| access != Access::SignedIn) {
        let problem = "requires access = \"signed_in\", because the session decides; change access, or leave it out";
        section.fault("application_tokens", problem);
    }
    let inherits = own_acr.is_none() && access != Some(Access::Public);
    let acr = own_acr.unwrap_or_else(|| if inherits { of_app.acr.to_vec() } else { Vec::new() });
    if app_passwords && (max_age.is_some() || !acr.is_empty()) {
        let problem = if inherits && max_age.is_none() {
            "an application password has no level, and this rule inherits the application's acr; leave it \
             out, or set acr = []"
        } else {
            "an application password has no level and no sign-in time; leave it out, or leave acr and \
             max_age_seconds out"
        };
        section.fault("app_passwords", problem);
    }
    let path_characters = path_characters(&mut section);
    if let Some(path) = &path {
        let before = *taken.characters.entry(path.clone()).or_insert(path_characters);
        if before != path_characters {
            let problem =
                format!("another rule of {path:?} has a different value; set the same value for all methods of a path");
            section.fault("path_characters", &problem);
        }
    }
    let mut known = Vec::new();
    let upstreams = section.some_texts("upstreams", UPSTREAMS, |text| upstream(text, own, files, &mut known));
    taken.upstreams.add(&mut section, path.as_deref(), upstreams);
    let limits = route_limits(&mut section, of_app.max_body_bytes);
    let compression = section.flag("compression", of_app.compression);
    if access == Some(Access::Public) {
        if caching.is_some() {
            section.fault("caching", "on a public route the application's own caching headers apply; leave it out");
        }
        for key in ["audience", "scopes", "groups", "users", "acr", "max_age_seconds"] {
            let empty = match key {
                "scopes" => scopes.as_ref().is_none_or(Vec::is_empty),
                "groups" => groups.as_ref().is_none_or(Vec::is_empty),
                _ => !section.has(key),
            };
            if !empty {
                section.fault(
                    key,
                    "a public route requires no sign-in, so this has no effect; leave it out, or change access",
                );
            }
        }
    }
    Some(Route {
        path: path?,
        methods,
        networks,
        access: access?,
        audience,
        resource,
        scopes: scopes.unwrap_or_default(),
        groups: groups.unwrap_or_default(),
        users: users.unwrap_or_default(),
        acr,
        max_age,
        cors_origins: cors_origins.unwrap_or_default(),
        caching: caching.unwrap_or_default(),
        allow_get_body,
        app_passwords,
        application_tokens,
        path_characters,
        limits,
        compression,
        // Set when all routes are known.
        upstream: RouteUpstream::default(),
    })
}

/// Parses the `acr` values of an application or a rule.
///
/// Sealgate's own values are levels. All other values belong to a trusted issuer.
fn acr(section: &mut Section<'_, '_>, trusted: &[String]) -> Option<Vec<String>> {
    let mut classes: Vec<String> = Vec::new();
    let mut unknown = Vec::new();
    section.texts("acr", "write a list of levels, such as [\"2\"]", |text| {
        let class = address::word(text)?;
        let level = AssuranceLevel::parse(text);
        // A trusted issuer may distinguish two values that are the same level of Sealgate.
        let same = |known: &&String| {
            **known == class || (trusted.is_empty() && level.is_some() && AssuranceLevel::parse(known) == level)
        };
        match classes.iter().find(same) {
            Some(known) if *known == class => {
                return Err(format!("{text:?} is repeated in this list; list it once"));
            }
            Some(known) => {
                return Err(format!("{text:?} is the same level as {known:?}, which is in this list already"));
            }
            None => {}
        }
        if trusted.is_empty() && level.is_none() {
            unknown.push(class.clone());
        }
        classes.push(class);
        Ok(())
    })?;
    for class in unknown {
        let problem = format!(
            "{class:?} is not a level of Sealgate, and there are no trusted_issuers, so no user can reach it; {LEVELS}"
        );
        section.warn("acr", &problem);
    }
    Some(classes)
}

fn path_characters(route: &mut Section<'_, '_>) -> PathCharacters {
    let allowed = "write a list of \";\", \"%2F\", \"%5C\" and \"%252F\"";
    let mut characters = PathCharacters::default();
    route.some_texts("path_characters", allowed, |text| {
        match text {
            ";" | "%3B" | "%3b" => characters.semicolon = true,
            "%2F" | "%2f" => characters.slash = true,
            "%5C" | "%5c" => characters.backslash = true,
            "%252F" | "%252f" => characters.double_slash = true,
            other => return Err(format!("{other:?} is not supported; {allowed}")),
        }
        Ok(())
    });
    characters
}

/// Parses a local user, or a user of one of the application's trusted issuers (`issuer:sub`).
fn rule_user(text: &str, trusted: &[String]) -> Option<RuleUser> {
    match text.split_once(':') {
        Some((issuer, sub)) if trusted.iter().any(|known| known == issuer) => {
            let is_valid = !sub.is_empty() && sub.bytes().all(|byte| byte.is_ascii_graphic());
            is_valid.then(|| RuleUser::Foreign(text.to_owned()))
        }
        _ => RuleUser::parse(text),
    }
}
