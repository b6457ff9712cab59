//! `[[app]]`: a protected application, its hosts and its rules.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use http::HeaderName;
use ipnet::IpNet;
use serde::Serialize;
use url::Url;

use super::app_hosts::CoveredHost;
use super::appearance::Logo;
use super::fixed_headers::FixedHeaders;
use super::health_check::HealthCheck;
use super::issuer::IssuerUrl;
use super::login::{AppLoginConfig, LoginAccount};
use super::maintenance::Maintenance;
use super::resources::AppScope;
use super::route_limits::RouteLimits;
use super::route_upstream::RouteUpstream;
use super::tls::TlsConfig;
use super::upstream_protocol::UpstreamProtocol;
use sealgate_domain::assurance::AssuranceLevel;
use sealgate_domain::client::ClientId;
use sealgate_domain::oauth::jwk_set::Algorithm;
use sealgate_domain::oauth::trusted_token::Foreign;
use sealgate_domain::resource;
use sealgate_domain::user::{Email, Subject, User};

/// `[[app]]`: protected application.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[expect(clippy::struct_excessive_bools, reason = "independent settings of the configuration file")]
pub struct App {
    /// Name of the application, which is part of its internal client id, log lines and metrics.
    pub name: String,
    /// Display name. If absent, pages show `name`.
    pub title: Option<String>,
    /// One-line description for the list of applications.
    pub description: Option<String>,
    pub icon: Option<Logo>,
    /// Host in lower case, with an optional port: see [`App::matches_host`]. The first label may be
    /// `*`, for all hosts with one label in its place: see [`super::AppHosts`].
    pub host: String,
    /// Public origin (scheme, host and port), if it cannot be derived from the issuer: see
    /// [`App::origin_pattern`].
    #[serde(serialize_with = "super::serialize::as_debug")]
    pub url: Option<Url>,
    #[serde(serialize_with = "super::serialize::as_debug")]
    pub upstreams: Vec<Upstream>,
    /// Protocol of `upstreams`, and of the upstreams of routes without a protocol of their own.
    #[serde(serialize_with = "super::serialize::as_debug")]
    pub upstream_protocol: UpstreamProtocol,
    /// TLS settings for the `https` upstreams.
    #[serde(serialize_with = "super::serialize::as_debug")]
    pub upstream_tls: UpstreamTls,
    /// HTTP check of the upstreams. If absent, the upstreams must only accept connections.
    #[serde(serialize_with = "super::serialize::as_debug")]
    pub health_check: Option<HealthCheck>,
    /// Which requests get the same server. If absent, the servers take turns.
    #[serde(serialize_with = "super::serialize::as_debug")]
    pub sticky: Option<Sticky>,
    /// Set while the application is in maintenance: requests are answered with 503.
    #[serde(serialize_with = "super::serialize::as_debug")]
    pub maintenance: Option<Maintenance>,
    /// Rules, in descending order of path length.
    #[serde(rename = "route", serialize_with = "super::serialize::as_debug")]
    pub routes: Vec<Route>,
    /// Settings for signing in to the application's own login form. `None` if the gateway does not
    /// sign in.
    #[serde(serialize_with = "super::serialize::as_debug")]
    pub login: Option<AppLoginConfig>,
    /// Paths of the application, or URLs, at which the browser can arrive after the sign-out. The first
    /// is the default. If empty, the provider's page confirms the sign-out. See
    /// [`App::sign_out_uris`].
    pub after_sign_out: Vec<String>,
    /// Names of other applications at which the browser is signed in too when it signs in here: the
    /// API hosts that pages of this application call.
    pub also_sign_in: Vec<String>,
    /// Audience that bearer tokens must have. If absent, the issuer is the audience.
    pub audience: Option<String>,
    /// Scopes that the application declares, in the order of their names. An application with scopes
    /// is a resource: see [`App::is_resource`].
    #[serde(serialize_with = "super::serialize::as_debug")]
    pub scopes: Vec<AppScope>,
    /// Whether tokens with only the issuer as audience are accepted, if there is no `audience`.
    pub issuer_audience: bool,
    /// Whether agents, such as clients of the Model Context Protocol, use the application: see
    /// [`App::is_read_only_for`].
    pub agents: bool,
    /// Algorithm of the access tokens for this application as a resource, and of the assertions to it.
    pub alg: Algorithm,
    /// Clients whose bearer tokens are accepted. If absent, the tokens of every client that an
    /// operator registered or approved are accepted.
    pub clients: Option<Vec<ClientId>>,
    /// Hosts of metadata documents. Bearer tokens of the clients whose identifier is a URL on one of
    /// these hosts are accepted too.
    pub client_hosts: Vec<String>,
    /// Configured names of other issuers whose bearer tokens are accepted.
    pub trusted_issuers: Vec<String>,
    /// Default of [`Route::acr`]. Already copied to the rules without an `acr` of their own.
    pub acr: Vec<String>,
    /// Settings for sending the user's identity to the application. In an `Arc`, because each
    /// request in flight holds them.
    #[serde(flatten)]
    pub identity: Arc<IdentityHeaders>,
    #[serde(flatten)]
    pub fixed_headers: FixedHeaders,
    /// Whether the client's `Host` header is forwarded. If not, `Host` is the upstream's address.
    pub preserve_host: bool,
    /// Maximum number of concurrent requests to the application. Further requests wait.
    pub max_requests: usize,
    /// Maximum number of concurrent requests of one client address (IPv6: a /64). `WebSocket`s and
    /// event streams do not count.
    pub max_requests_per_client: usize,
    /// Whether the application reads each request body to its end, even if it responds early.
    ///
    /// If not, a connection is not reused after a request with a body, because the upstream might
    /// parse the unread rest as the next request.
    pub reads_bodies_whole: bool,
    /// Default of [`RouteLimits::max_body_bytes`]. Already copied to the rules without one of their
    /// own.
    pub max_body_bytes: Option<u64>,
    /// Default of [`Route::compression`]. Already copied to the rules without one of their own.
    pub compression: bool,
    /// Timeout for connecting to an upstream.
    pub connect_timeout: Duration,
    /// Maximum time without bytes from an upstream.
    pub read_timeout: Duration,
    /// Timeout for an idle WebSocket or event stream.
    pub stream_timeout: Duration,
    /// Timeout for writing to an upstream.
    pub write_timeout: Duration,
}

impl App {
    /// Returns whether a request with this `Host` header (lower case) is for the application with this
    /// exact host.
    ///
    /// A configured host without a port matches every port. Browsers send the port of the public
    /// address, which may belong to a load balancer. A configured host with a port matches only
    /// that port.
    pub fn matches_host(&self, authority: &str) -> bool {
        authority == self.host || split_port(authority).0 == self.host
    }

    /// Returns the name to display.
    pub fn called(&self) -> &str {
        self.title.as_deref().unwrap_or(&self.name)
    }

    /// Returns the path at which the user can open the application in a browser, if any.
    ///
    /// This is the shortest path of a rule that admits the user. `acr` and `max_age` are ignored,
    /// because the user can satisfy them by signing in again, and so are `networks`, because the user
    /// may open it from another network.
    pub fn entry_path(&self, user: &User) -> Option<&str> {
        let by_browser =
            |route: &&Route| route.methods.is_empty() || route.methods.iter().any(|method| method == "GET");
        let theirs = |route: &&Route| match route.access {
            Access::Bearer => false,
            // Other public paths may contain only images and scripts.
            Access::Public => route.path == "/",
            Access::SignedIn => route.admits(user),
        };
        let open = self.routes.iter().filter(by_browser).filter(theirs);
        open.map(|route| route.path.as_str()).min_by_key(|path| path.len())
    }

    /// Returns the highest level that any rule requires of this user.
    ///
    /// If a rule has several `acr` values, the lowest of their levels suffices. Values of other
    /// issuers are ignored.
    pub fn level_for(&self, user: &User) -> AssuranceLevel {
        let theirs = self.routes.iter().filter(|route| route.access == Access::SignedIn && route.admits(user));
        let least = |route: &Route| route.acr.iter().filter_map(|value| AssuranceLevel::parse(value)).min();
        theirs.filter_map(least).max().unwrap_or(AssuranceLevel::One)
    }

    /// Returns whether a bearer token is accepted only from clients that an operator registered or
    /// approved.
    pub fn requires_approved_clients(&self) -> bool {
        self.clients.is_none() && self.routes.iter().any(|route| route.access != Access::Public)
    }

    /// Returns whether the application lists the client, or the host of its metadata document.
    pub fn lists_client(&self, client: &ClientId) -> bool {
        self.accepts_client(client, false)
    }

    /// Returns whether the application accepts tokens of this client. `vouched_for` is whether an
    /// authorized party vouches for the client.
    pub fn accepts_client(&self, client: &ClientId, vouched_for: bool) -> bool {
        resource::accepts_client(self.clients.as_deref(), &self.client_hosts, client, vouched_for)
    }

    /// Returns whether bearer tokens may only read under this rule.
    ///
    /// At an application for agents, a rule permits other methods than GET, HEAD and OPTIONS with a
    /// token only if it lists methods, or if its path is a resource. The Model Context Protocol uses
    /// POST for every message.
    pub const fn is_read_only_for(&self, route: &Route) -> bool {
        self.agents && route.methods.is_empty() && !route.resource
    }

    /// Returns whether a route accepts application passwords.
    pub fn takes_app_passwords(&self) -> bool {
        self.routes.iter().any(|route| route.app_passwords)
    }

    /// Returns whether a route accepts application passwords of this user.
    pub fn takes_app_passwords_of(&self, user: &User) -> bool {
        self.routes.iter().any(|route| route.app_passwords && route.admits(user))
    }

    /// Returns whether the gateway signs users in with their own names and passwords at the
    /// application.
    pub fn takes_user_credentials(&self) -> bool {
        self.login.as_ref().is_some_and(|login| login.account == LoginAccount::OfUser)
    }

    /// Returns whether the gateway signs this user in with the user's own name and password at the
    /// application.
    pub fn takes_credentials_of(&self, user: &User) -> bool {
        self.login.as_ref().is_some_and(|login| *login.account_of(user) == LoginAccount::OfUser)
    }

    /// Returns the configured URLs at which the browser can arrive after the sign-out, the default
    /// first. `host` is the covered host of a wildcard.
    pub fn sign_out_uris(&self, issuer: &IssuerUrl, host: Option<&CoveredHost>) -> Vec<String> {
        let url = |place: &String| {
            if place.starts_with('/') { self.origin_at(issuer, host) + place } else { place.clone() }
        };
        self.after_sign_out.iter().map(url).collect()
    }
}

/// Returns the host of a `Host` header, without its port.
pub fn host_name(authority: &str) -> &str {
    split_port(authority).0
}

/// Splits an authority into host and port. A colon inside an IPv6 address does not separate a port.
pub(super) fn split_port(authority: &str) -> (&str, Option<&str>) {
    match authority.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => (host, Some(port)),
        _ => (authority, None),
    }
}

/// Upstream server of an application.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Upstream {
    /// Server with a scheme (`http` or `https`), host and port.
    Url(Url),
    /// Absolute path of a Unix socket that serves HTTP without TLS.
    Socket(PathBuf),
}

impl fmt::Display for Upstream {
    /// Writes the upstream as in the configuration file.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Url(url) => f.write_str(url.as_str().trim_end_matches('/')),
            Self::Socket(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// Requests that get the same server of an application.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sticky {
    /// Those of a user. On public routes, those of a client address.
    User,
    /// Those of a browser, which keeps a cookie.
    Cookie,
}

/// TLS settings for an application's `https` upstreams.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UpstreamTls {
    /// PEM file of the authorities that sign the upstreams' certificates; `None` for the
    /// authorities of the machine.
    pub ca: Option<PathBuf>,
    /// Client certificate for upstreams that request one.
    pub client: Option<TlsConfig>,
    /// Name for SNI and for certificate verification; `None` for the upstream's host.
    pub server_name: Option<String>,
}

/// Settings for sending the user's identity to an application.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct IdentityHeaders {
    /// Identity headers and their values. Clients cannot send headers with these names.
    #[serde(rename = "identity_headers", serialize_with = "super::serialize::as_debug")]
    pub headers: Vec<(HeaderName, IdentityValue)>,
    /// Headers that clients may send, although applications commonly read an identity from them.
    #[serde(rename = "pass_headers", serialize_with = "super::serialize::as_debug")]
    pub pass: Vec<HeaderName>,
    /// Header in which programs send application passwords, as `NAME:PASSWORD`. It is removed from
    /// every request. Without one, programs use HTTP Basic.
    #[serde(serialize_with = "super::serialize::as_debug")]
    pub app_password_header: Option<HeaderName>,
    /// Names of [`App::fixed_headers`] in requests. Clients cannot send them.
    #[serde(skip)]
    pub fixed: Vec<HeaderName>,
    /// Whether a signed assertion (a JWT) is sent.
    pub assertion: bool,
    /// Treatment of the client's `Authorization` header.
    pub authorization: AuthorizationHeader,
    /// Encoding of names, e-mail addresses and groups in headers.
    pub names: Names,
    pub groups_delimiter: GroupsDelimiter,
}

impl Default for IdentityHeaders {
    fn default() -> Self {
        let headers = [
            (HeaderName::from_static("x-forwarded-email"), IdentityValue::Email),
            (HeaderName::from_static("x-forwarded-groups"), IdentityValue::Groups),
            (HeaderName::from_static("x-forwarded-name"), IdentityValue::Name),
            (HeaderName::from_static("x-forwarded-user"), IdentityValue::Sub),
        ];
        Self {
            headers: headers.into(),
            pass: Vec::new(),
            app_password_header: None,
            fixed: Vec::new(),
            assertion: false,
            authorization: AuthorizationHeader::Pass,
            names: Names::AsciiPercent,
            groups_delimiter: GroupsDelimiter::Comma,
        }
    }
}

/// Value of an identity header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IdentityValue {
    /// The user's `sub`, which never changes and is never reused. For a user of a trusted issuer,
    /// the issuer's configured name, a colon, and the issuer's `sub`.
    Sub,
    Email,
    /// The username. The e-mail address if there is none, and the `sub` if there is neither.
    Username,
    Name,
    Groups,
}

impl IdentityValue {
    /// Returns the name of this value in the configuration file.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Sub => "sub",
            Self::Email => "email",
            Self::Username => "username",
            Self::Name => "name",
            Self::Groups => "groups",
        }
    }
}

/// Treatment of a client's `Authorization` header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum AuthorizationHeader {
    /// Forwarded, unless it contains an access token of this server.
    Pass,
    Strip,
    /// Replaced with the signed assertion, as a bearer token.
    Replace,
}

/// Encoding of header values that may contain non-ASCII characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Names {
    /// Visible ASCII and spaces are unchanged. Other characters are percent-encoded as UTF-8.
    AsciiPercent,
    /// UTF-8 bytes.
    Utf8,
    /// ISO 8859-9: one byte for each Turkish or Western European letter.
    Iso8859_9,
    /// UTF-8 bytes in base64url without padding.
    Base64url,
}

/// Separator between groups in an identity header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum GroupsDelimiter {
    /// `,`
    Comma,
    /// `;`
    Semicolon,
    /// `|`
    Bar,
    Space,
}

impl GroupsDelimiter {
    /// Returns the separator.
    pub const fn as_char(self) -> char {
        match self {
            Self::Comma => ',',
            Self::Semicolon => ';',
            Self::Bar => '|',
            Self::Space => ' ',
        }
    }
}

/// `[[app.route]]`: rule for a path and its methods.
///
/// A request must meet the conditions of all fields.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "independent settings of the configuration file")]
pub struct Route {
    /// Path of the rule. With a trailing `/` it includes all paths below it; otherwise it matches
    /// exactly.
    pub path: String,
    /// Methods of the rule. If empty, the rule applies to all methods without their own rule for
    /// the path.
    pub methods: Vec<String>,
    /// Networks of the clients that the rule is for. If empty, the rule is for all clients without
    /// a more specific rule of the same path and method.
    pub networks: Vec<IpNet>,
    pub access: Access,
    /// Audience that bearer tokens must have, instead of the application's audience.
    pub audience: Option<String>,
    /// Whether the path is a resource of its own (RFC 8707): see [`Route::resource_path`].
    pub resource: bool,
    /// Scopes that bearer tokens must have.
    pub scopes: Vec<String>,
    /// Permitted groups. The user must be a member of at least one. If empty, every user is
    /// permitted.
    pub groups: Vec<String>,
    /// Permitted users. If empty, every user is permitted.
    pub users: Vec<RuleUser>,
    /// Permitted authentication context classes of the sign-in. If empty, every sign-in is
    /// permitted.
    ///
    /// Sealgate's own values are levels, which a higher level also satisfies. Values of a trusted
    /// issuer must match exactly.
    pub acr: Vec<String>,
    /// Maximum time since the sign-in.
    pub max_age: Option<Duration>,
    /// Origins that may send CORS requests. If empty, the application handles CORS itself.
    pub cors_origins: Vec<String>,
    /// Whether GET, HEAD and OPTIONS requests may have a body. HTTP defines no meaning for such a
    /// body.
    pub allow_get_body: bool,
    /// Whether Sealgate or the application sets the cache headers of responses. Public routes keep
    /// the application's headers.
    pub caching: Caching,
    /// Whether clients may authenticate with an application password.
    pub app_passwords: bool,
    /// Whether bearer tokens that neither Sealgate nor a trusted issuer has issued belong to the
    /// application. They are forwarded and do not count as credentials.
    pub application_tokens: bool,
    /// Characters that the application reads as data in these paths, not as separators.
    pub path_characters: PathCharacters,
    pub limits: RouteLimits,
    /// Whether the gateway compresses responses.
    pub compression: bool,
    /// Servers of these paths, and the path that they receive.
    pub upstream: RouteUpstream,
}

/// Characters in a path that the application may treat as data, although some servers treat them as
/// separators.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "a set of independent flags, one for each character")]
pub struct PathCharacters {
    /// `;`, escaped or literal.
    pub semicolon: bool,
    /// `%2F`.
    pub slash: bool,
    /// `%5C`.
    pub backslash: bool,
    /// `%252F`.
    pub double_slash: bool,
}

impl PathCharacters {
    /// Returns the characters as written in the configuration file.
    pub fn words(self) -> Vec<String> {
        let all = [(self.semicolon, ";"), (self.slash, "%2F"), (self.backslash, "%5C"), (self.double_slash, "%252F")];
        all.into_iter().filter(|(has, _)| *has).map(|(_, word)| word.to_owned()).collect()
    }
}

/// Cache headers of an application's responses.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Caching {
    #[default]
    /// Set by Sealgate, so that no shared cache stores the response.
    Private,
    /// Set by the application.
    Application,
}

impl Route {
    /// Returns whether `users` and `groups` admit the user.
    fn admits(&self, user: &User) -> bool {
        (self.users.is_empty() || self.users.iter().any(|listed| listed.is(user)))
            && (self.groups.is_empty() || self.groups.iter().any(|group| user.is_in_group(group)))
    }

    /// Returns the path of the resource identifier, without a slash at its end. `None` if the path is
    /// no resource of its own.
    pub fn resource_path(&self) -> Option<&str> {
        self.resource.then(|| self.path.trim_end_matches('/'))
    }

    /// Creates a rule with a path and an access, and without further conditions.
    pub fn plain(path: &str, access: Access) -> Self {
        Self {
            path: path.to_owned(),
            methods: Vec::new(),
            networks: Vec::new(),
            access,
            audience: None,
            resource: false,
            scopes: Vec::new(),
            groups: Vec::new(),
            users: Vec::new(),
            acr: Vec::new(),
            max_age: None,
            cors_origins: Vec::new(),
            caching: Caching::Private,
            allow_get_body: false,
            app_passwords: false,
            application_tokens: false,
            path_characters: PathCharacters::default(),
            limits: RouteLimits::default(),
            compression: false,
            upstream: RouteUpstream::default(),
        }
    }

    /// Returns whether two rules have the same conditions. Paths are ignored.
    pub fn has_same_conditions_as(&self, other: &Self) -> bool {
        // An exhaustive pattern, so that the compiler reports each new field.
        let Self {
            path: _,
            methods,
            networks,
            access,
            audience,
            resource,
            scopes,
            groups,
            users,
            acr,
            max_age,
            cors_origins,
            caching,
            allow_get_body,
            app_passwords,
            application_tokens,
            // Affects which paths are valid, but not which users have access.
            path_characters: _,
            // The timeouts do not affect which requests are permitted.
            limits: RouteLimits { max_body_bytes, read_timeout: _, stream_timeout: _ },
            compression,
            // Determines the server and its path, not which users have access.
            upstream: _,
        } = self;
        methods == &other.methods
            && networks == &other.networks
            && access == &other.access
            && audience == &other.audience
            // Each path is a resource of its own.
            && resource == &other.resource
            && (!resource || self.resource_path() == other.resource_path())
            && scopes == &other.scopes
            && groups == &other.groups
            && users == &other.users
            && acr == &other.acr
            && max_age == &other.max_age
            && cors_origins == &other.cors_origins
            && caching == &other.caching
            && allow_get_body == &other.allow_get_body
            && app_passwords == &other.app_passwords
            && application_tokens == &other.application_tokens
            && max_body_bytes == &other.limits.max_body_bytes
            // The length of a compressed page may reveal secrets in it.
            && compression == &other.compression
    }
}

/// User in the conditions of a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RuleUser {
    /// Local user with this `sub`.
    Sub(Subject),
    /// User with this verified e-mail address.
    Email(Email),
    /// User of a trusted issuer: the issuer's configured name, a colon, and the issuer's `sub`.
    Foreign(String),
}

impl RuleUser {
    /// Parses a `sub` or an e-mail address.
    pub fn parse(text: &str) -> Option<Self> {
        Subject::parse(text).map(Self::Sub).or_else(|| Email::parse(text).map(Self::Email))
    }

    /// Returns the user as written in the configuration file.
    pub fn text(&self) -> String {
        match self {
            Self::Sub(sub) => sub.to_string(),
            Self::Email(email) => email.as_str().to_owned(),
            Self::Foreign(name) => name.clone(),
        }
    }

    /// Returns whether this entry names the local user. Unverified e-mail addresses never match,
    /// because users can register with addresses of others.
    pub fn is(&self, user: &User) -> bool {
        match self {
            Self::Sub(sub) => *sub == user.sub,
            Self::Email(email) => user.has_verified_email(email),
            Self::Foreign(_) => false,
        }
    }

    /// Returns whether this entry names the subject of a trusted issuer's token.
    ///
    /// Matches the issuer's name and `sub`, or an e-mail address that the issuer is trusted to
    /// assert. A local `sub` never matches.
    pub fn is_foreign(&self, foreign: &Foreign) -> bool {
        match self {
            Self::Sub(_) => false,
            Self::Email(email) => foreign.email.as_ref().is_some_and(|own| own.lookup_key() == email.lookup_key()),
            Self::Foreign(name) => *name == foreign.name(),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
/// Credential that a rule requires.
pub enum Access {
    Public,
    Bearer,
    /// Session cookie or bearer token.
    SignedIn,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_and_addresses_are_distinguished() {
        for (authority, host) in
            [("wiki.test", "wiki.test"), ("wiki.test:8443", "wiki.test"), ("[::1]:80", "[::1]"), ("[::1]", "[::1]")]
        {
            assert_eq!(host_name(authority), host);
        }
    }
}
