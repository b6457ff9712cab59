//! The applications of the file and their routes.

use std::cmp::Reverse;
use std::net::SocketAddr;

use super::address;
use crate::config::app::split_port;
use crate::config::file::Section;
use crate::config::{Access, App, Issuer, Route};
use crate::protocol::client::ClientId;
use crate::protocol::scope::ScopeValue;

/// The path under which an application's host is ours.
const OWN_PATH: &str = "/.sealgate/";

/// Reads all applications; `listen` are our own listeners, which are nobody's upstream.
pub(super) fn apps(sections: Vec<Section<'_, '_>>, issuer: Option<&Issuer>, listen: &[SocketAddr]) -> Option<Vec<App>> {
    let mut taken = Taken::default();
    // All are read before any is given up.
    let apps: Vec<_> = sections.into_iter().map(|section| app(section, issuer, listen, &mut taken)).collect();
    apps.into_iter().collect()
}

/// What earlier applications have.
#[derive(Default)]
struct Taken {
    names: Vec<String>,
    hosts: Vec<String>,
}

fn app(mut section: Section<'_, '_>, issuer: Option<&Issuer>, listen: &[SocketAddr], taken: &mut Taken) -> Option<App> {
    let name = section.required_text("name", "write a name of a-z, 0-9, - and _", |text| {
        let name = address::app_name(text)?;
        if taken.names.contains(&name) {
            return Err(format!("{text:?} is another application's name; write one of its own"));
        }
        taken.names.push(name.clone());
        Ok(name)
    });
    let host =
        section.required_text("host", "write the host that browsers ask for, such as \"wiki.example.com\"", |text| {
            let host = address::host(text)?;
            check_port(&host, issuer)?;
            if taken.hosts.iter().any(|other| overlap(other, &host)) {
                return Err(format!("{text:?} is another application's host; give each a host of its own"));
            }
            taken.hosts.push(host.clone());
            Ok(host)
        });
    let url = section.text("url", "write the public address, such as \"https://wiki.example.com:8443\"", |text| {
        address::app_url(text, host.as_deref(), issuer)
    });
    let mut upstreams = Vec::new();
    section.required_texts("upstreams", "write a list such as [\"http://127.0.0.1:8081\"]", |text| {
        let upstream = address::upstream(text, listen)?;
        if upstreams.contains(&upstream) {
            return Err(format!("{text:?} stands in this list already; write each server once"));
        }
        upstreams.push(upstream);
        Ok(())
    });
    let audience = section.text("audience", "write the audience that tokens must name", address::name);
    let clients = section.texts("clients", "write a list of client ids", |text| {
        ClientId::parse(text).ok_or_else(|| format!("{text:?} is not a client id; `sealgate client list` shows them"))
    });
    let preserve_host = section.flag("preserve_host", true);
    let connect_timeout = section.seconds("connect_timeout_seconds", 3, 1..=60);
    let read_timeout = section.seconds("read_timeout_seconds", 60, 1..=86_400);
    let write_timeout = section.seconds("write_timeout_seconds", 30, 1..=86_400);
    let routes = routes(&mut section);
    Some(App {
        name: name?,
        host: host?,
        url,
        upstreams,
        routes: routes?,
        audience,
        clients,
        preserve_host,
        connect_timeout,
        read_timeout,
        write_timeout,
    })
}

/// Browsers leave the scheme's own port out, so a host with that port would never be asked for.
fn check_port(host: &str, issuer: Option<&Issuer>) -> Result<(), String> {
    let (name, port) = split_port(host);
    let own = issuer.map(|issuer| if issuer.is_https() { "443" } else { "80" });
    if port.is_some() && port == own {
        return Err(format!("{host:?} has the port that browsers leave out; write {name:?}"));
    }
    Ok(())
}

/// Whether a request may be for both: a host without a port answers on every port.
fn overlap(one: &str, other: &str) -> bool {
    let ((one, one_port), (other, other_port)) = (split_port(one), split_port(other));
    one == other && (one_port == other_port || one_port.is_none() || other_port.is_none())
}

fn routes(app: &mut Section<'_, '_>) -> Option<Vec<Route>> {
    let sections = app.sections("route");
    if sections.is_empty() {
        app.missing("route", "write at least one [[app.route]]; what no route covers is refused");
    }
    let mut taken = Vec::new();
    let routes: Vec<_> = sections.into_iter().map(|section| route(section, &mut taken)).collect();
    let mut routes: Vec<Route> = routes.into_iter().collect::<Option<_>>()?;
    routes.sort_by_key(|route| Reverse(route.path.len()));
    Some(routes)
}

fn route(mut section: Section<'_, '_>, taken: &mut Vec<String>) -> Option<Route> {
    let path = section.required_text("path", "write a path such as \"/\" or \"/api/\"", |text| {
        let path = address::route_path(text)?;
        if path.starts_with(OWN_PATH) {
            return Err(format!("{text:?} is Sealgate's own; write a path of the application"));
        }
        if taken.contains(&path) {
            return Err(format!("{text:?} is another route's path; write one rule a path"));
        }
        taken.push(path.clone());
        Ok(path)
    });
    let accesses = [("public", Access::Public), ("bearer", Access::Bearer), ("signed_in", Access::SignedIn)];
    let access = section.required_choice("access", &accesses);
    let known = ScopeValue::ALL.map(ScopeValue::as_str).join(", ");
    let allowed = format!("write a list of {known}");
    let scopes = section.texts("scopes", &allowed, |text| {
        let known = ScopeValue::ALL.iter().any(|known| known.as_str() == text);
        if known { Ok(text.to_owned()) } else { Err(format!("{text:?} is not a scope; {allowed}")) }
    });
    let groups = section.texts("groups", "write a list of groups' names", address::name);
    let (scopes, groups) = (scopes.unwrap_or_default(), groups.unwrap_or_default());
    if access == Some(Access::Public) {
        for (key, list) in [("scopes", &scopes), ("groups", &groups)] {
            if !list.is_empty() {
                section.fault(key, "a public route asks for none; leave it out, or write another access");
            }
        }
    }
    Some(Route { path: path?, access: access?, scopes, groups })
}
