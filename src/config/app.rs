//! A protected application, the hosts that it answers on, and its rules.

use std::time::Duration;

use url::Url;

use super::issuer::{Issuer, authority};
use crate::protocol::client::ClientId;

/// `[[app]]`: a protected application.
#[derive(Debug, Clone)]
pub struct App {
    /// Its name; part of its internal client id and of log lines and metrics.
    pub name: String,
    /// The host that it answers on, lower case: see [`App::answers_to`].
    pub host: String,
    /// Where browsers reach it, when that does not follow from the issuer: scheme, host and port, nothing else. See
    /// [`App::origin`].
    pub url: Option<Url>,
    /// Where requests go.
    pub upstreams: Vec<Upstream>,
    /// Its rules, the longest path first.
    pub routes: Vec<Route>,
    /// The audience that a bearer token must name; the issuer unless configured.
    pub audience: Option<String>,
    /// The clients whose bearer tokens are taken; without a list, those of every client that an operator made.
    pub clients: Option<Vec<ClientId>>,
    /// Whether the client's `Host` reaches the upstream (otherwise the upstream's own address).
    pub preserve_host: bool,
    /// Longest wait for a connection to an upstream.
    pub connect_timeout: Duration,
    /// Longest silence of an upstream.
    pub read_timeout: Duration,
    /// Longest wait for an upstream to take bytes.
    pub write_timeout: Duration,
}

impl App {
    /// Whether a request with this `Host` (lower case) is for the application. A host that is configured without a port
    /// answers on every port: a browser names the port of the public address, which may be a load balancer's. A host
    /// that is configured with a port answers on that one only.
    pub fn answers_to(&self, authority: &str) -> bool {
        authority == self.host || split_port(authority).0 == self.host
    }

    /// Scheme, host and port under which browsers reach the application, as an `Origin` header says it: the configured
    /// `url`, otherwise the scheme and the port of the issuer with the application's host. A port in the host wins over
    /// the issuer's.
    pub fn origin(&self, issuer: &Issuer) -> String {
        if let Some(url) = &self.url {
            return format!("{}://{}", url.scheme(), authority(url));
        }
        match (split_port(&self.host).1, issuer.port()) {
            (None, Some(port)) => format!("{}://{}:{port}", issuer.scheme(), self.host),
            _ => format!("{}://{}", issuer.scheme(), self.host),
        }
    }
}

/// Host and port of an authority. The colons inside an IPv6 address are not a port's.
pub(super) fn split_port(authority: &str) -> (&str, Option<&str>) {
    match authority.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => (host, Some(port)),
        _ => (authority, None),
    }
}

/// One server of an application.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Upstream {
    /// `http` or `https`, host, port.
    pub url: Url,
}

/// `[[app.route]]`: the rule for a path and all below it.
#[derive(Debug, Clone)]
pub struct Route {
    /// A path; ends with `/` when it covers what lies below, otherwise it is that one path.
    pub path: String,
    /// Who is let through.
    pub access: Access,
    /// Scopes that a bearer token must have.
    pub scopes: Vec<String>,
    /// Groups of which a person must be in at least one; all when empty.
    pub groups: Vec<String>,
}

/// Who is let through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Everybody.
    Public,
    /// A bearer token.
    Bearer,
    /// A browser session, or a bearer token.
    SignedIn,
}
