//! A protected application, its hosts and its rules.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use http::HeaderName;
use serde::Serialize;
use url::Url;

use super::appearance::Logo;
use super::issuer::{IssuerUrl, authority};
use super::tls::TlsConfig;
use sealgate_domain::assurance::AssuranceLevel;
use sealgate_domain::client::ClientId;
use sealgate_domain::oauth::trusted_token::Foreign;
use sealgate_domain::user::{Email, Subject, User};

/// `[[app]]`: a protected application.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct App {
    /// Name of the application; part of its internal client id, log lines and metrics.
    pub name: String,
    /// Display name; the name when absent.
    pub title: Option<String>,
    /// One-line description for the list of applications.
    pub description: Option<String>,
    pub icon: Option<Logo>,
    /// Host name in lower case; see [`App::answers_to`].
    pub host: String,
    /// Public origin, if it does not follow from the issuer: only scheme, host and port. See
    /// [`App::origin`].
    #[serde(serialize_with = "super::serialize::as_debug")]
    pub url: Option<Url>,
    #[serde(serialize_with = "super::serialize::as_debug")]
    pub upstreams: Vec<Upstream>,
    /// TLS settings for the `https` upstreams.
    #[serde(serialize_with = "super::serialize::as_debug")]
    pub upstream_tls: UpstreamTls,
    /// Rules, longest path first.
    #[serde(rename = "route", serialize_with = "super::serialize::as_debug")]
    pub routes: Vec<Route>,
    /// Audience that a bearer token must name; the issuer unless configured.
    pub audience: Option<String>,
    /// Clients whose bearer tokens are accepted. Without a list, those of every client that an
    /// operator registered or approved.
    pub clients: Option<Vec<ClientId>>,
    /// Other issuers whose bearer tokens are accepted, by their configured short names.
    pub trusted_issuers: Vec<String>,
    /// Default of [`Route::acr`]. It is already applied to the rules that do not set `acr`.
    pub acr: Vec<String>,
    /// How identity is sent to the application. Shared with each request in flight.
    #[serde(flatten)]
    pub identity: Arc<IdentityHeaders>,
    /// Whether the client's `Host` is forwarded, instead of the upstream's own address.
    pub preserve_host: bool,
    /// Maximum number of concurrent requests to the application; further ones wait.
    pub max_requests: usize,
    /// Maximum number of concurrent requests of one client address (IPv6: a /64), not counting
    /// long-lived exchanges.
    pub max_requests_per_client: usize,
    /// Whether the application reads every request body to the end, even when it responds early.
    ///
    /// Only then can a connection that carried a body be reused for the next request.
    pub reads_bodies_whole: bool,
    /// Timeout for connecting to an upstream.
    pub connect_timeout: Duration,
    /// Maximum time without bytes from an upstream.
    pub read_timeout: Duration,
    /// Maximum idle time of a WebSocket or an event stream.
    pub stream_timeout: Duration,
    /// Timeout for writing to an upstream.
    pub write_timeout: Duration,
}

impl App {
    /// Returns whether a request with this `Host` (lower case) is for the application.
    ///
    /// A host that is configured without a port matches every port, because a browser names the
    /// port of the public address, which may be a load balancer's. A host that is configured with a
    /// port matches only that port.
    pub fn answers_to(&self, authority: &str) -> bool {
        authority == self.host || split_port(authority).0 == self.host
    }

    pub fn called(&self) -> &str {
        self.title.as_deref().unwrap_or(&self.name)
    }

    /// Returns the path at which this user may open the application in a browser, if any.
    ///
    /// That is the shortest path of a rule that admits the user. `acr` and `max_age` are ignored,
    /// because the user can sign in again.
    pub fn opens_to(&self, user: &User) -> Option<&str> {
        let by_browser =
            |route: &&Route| route.methods.is_empty() || route.methods.iter().any(|method| method == "GET");
        let theirs = |route: &&Route| match route.access {
            Access::Bearer => false,
            // Public pictures and scripts do not make an application accessible to a user.
            Access::Public => route.path == "/",
            Access::SignedIn => route.lets_in(user),
        };
        let open = self.routes.iter().filter(by_browser).filter(theirs);
        open.map(|route| route.path.as_str()).min_by_key(|path| path.len())
    }

    /// Returns the highest level that a rule requires of this user.
    ///
    /// Of the `acr` values of one rule, the lowest level is sufficient. Values of other issuers are
    /// ignored.
    pub fn level_for(&self, user: &User) -> AssuranceLevel {
        let theirs = self.routes.iter().filter(|route| route.access == Access::SignedIn && route.lets_in(user));
        let least = |route: &Route| route.acr.iter().filter_map(|value| AssuranceLevel::parse(value)).min();
        theirs.filter_map(least).max().unwrap_or(AssuranceLevel::One)
    }

    /// Returns whether bearer tokens are accepted from every approved client and from no other
    /// client.
    pub fn requires_approved_clients(&self) -> bool {
        self.clients.is_none() && self.routes.iter().any(|route| route.access != Access::Public)
    }

    /// Returns whether a route accepts application passwords.
    pub fn takes_app_passwords(&self) -> bool {
        self.routes.iter().any(|route| route.basic)
    }

    /// Returns whether a route accepts application passwords of this user.
    pub fn takes_app_passwords_of(&self, user: &User) -> bool {
        self.routes.iter().any(|route| route.basic && route.lets_in(user))
    }

    /// Returns the application's public origin, in the form of an `Origin` header.
    ///
    /// This is the configured `url`, otherwise the application's host with the issuer's scheme and
    /// port. A port in the host takes precedence over the issuer's.
    pub fn origin(&self, issuer: &IssuerUrl) -> String {
        if let Some(url) = &self.url {
            return format!("{}://{}", url.scheme(), authority(url));
        }
        match (split_port(&self.host).1, issuer.port()) {
            (None, Some(port)) => format!("{}://{}:{port}", issuer.scheme(), self.host),
            _ => format!("{}://{}", issuer.scheme(), self.host),
        }
    }
}

/// Returns the host of a `Host` header, without its port.
pub fn host_name(authority: &str) -> &str {
    split_port(authority).0
}

/// Splits an authority into host and port. Colons inside an IPv6 address are not separators.
pub(super) fn split_port(authority: &str) -> (&str, Option<&str>) {
    match authority.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => (host, Some(port)),
        _ => (authority, None),
    }
}

/// An upstream server of an application.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Upstream {
    /// `http` or `https`, host, port.
    Url(Url),
    /// Absolute path of a Unix socket that serves HTTP without TLS.
    Socket(PathBuf),
}

/// TLS to an application's `https` upstreams: their trusted authorities and the client certificate.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UpstreamTls {
    /// PEM file of the authorities that sign the upstreams' certificates; the system's roots when
    /// absent.
    pub ca: Option<PathBuf>,
    /// Client certificate for upstreams that request one.
    pub client: Option<TlsConfig>,
    /// Name for SNI and certificate verification; the upstream's host when absent.
    pub server_name: Option<String>,
}

/// How identity is sent to an application.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct IdentityHeaders {
    /// Identity headers and their values. Copies from clients are removed.
    #[serde(rename = "identity_headers", serialize_with = "super::serialize::as_debug")]
    pub headers: Vec<(HeaderName, IdentityValue)>,
    /// Headers that are forwarded as the client sent them, although some applications read an
    /// identity from them.
    #[serde(rename = "pass_headers", serialize_with = "super::serialize::as_debug")]
    pub pass: Vec<HeaderName>,
    pub assertion: bool,
    /// Treatment of the `Authorization` header.
    pub authorization: AuthorizationHeader,
    /// Encoding of names, e-mail addresses and groups.
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
    /// The user's `sub`, which never changes and is never reused. For a user of another issuer:
    /// that issuer's short name, a colon and its `sub`.
    Sub,
    Email,
    /// The username; without one, the e-mail address; without either, the `sub`.
    Username,
    Name,
    Groups,
}

impl IdentityValue {
    /// Returns the name used in the configuration file.
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

/// Treatment of a request's `Authorization` header on the way to the application.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum AuthorizationHeader {
    /// Forwarded, unless it is an access token that this server issued.
    Pass,
    Strip,
    /// Replaced by the signed assertion as a bearer token.
    Replace,
}

/// Encoding of header values that may contain more than ASCII.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Names {
    /// Visible ASCII and spaces unchanged, the rest percent-encoded as UTF-8.
    AsciiPercent,
    /// UTF-8 bytes.
    Utf8,
    /// One byte for each letter; includes the Turkish letters.
    Iso8859_9,
    /// UTF-8 bytes in base64url, without padding.
    Base64url,
}

/// Separator between groups in their header.
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
    pub const fn as_char(self) -> char {
        match self {
            Self::Comma => ',',
            Self::Semicolon => ';',
            Self::Bar => '|',
            Self::Space => ' ',
        }
    }
}

/// `[[app.route]]`: the rule for a path and everything below it, or for some methods there.
///
/// Each key adds a condition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// Path; a trailing `/` makes it cover everything below, otherwise it matches exactly.
    pub path: String,
    /// Methods that the rule covers; when empty, all that other rules of this path do not cover.
    pub methods: Vec<String>,
    pub access: Access,
    /// Audience that a bearer token must name, instead of the application's.
    pub audience: Option<String>,
    /// Scopes that a bearer token must have.
    pub scopes: Vec<String>,
    /// Permitted groups; the user must be in at least one. Any user when empty.
    pub groups: Vec<String>,
    /// Users who are admitted; any user when empty.
    pub users: Vec<RulePerson>,
    /// Permitted authentication context classes; the sign-in must have reached at least one. Any
    /// when empty.
    ///
    /// Own values are levels, and a higher level satisfies them. Values of a trusted issuer are
    /// compared exactly.
    pub acr: Vec<String>,
    /// Maximum age of the sign-in.
    pub max_age: Option<Duration>,
    /// Origins that may send CORS requests; when empty, CORS headers are left to the application.
    pub cors_origins: Vec<String>,
    /// Whether GET, HEAD and OPTIONS requests may have a body, although these methods define no
    /// meaning for it.
    pub allow_get_body: bool,
    /// Cache headers of responses; public routes get none.
    pub caching: Caching,
    /// Whether programs may authenticate with an application password (HTTP Basic).
    pub basic: bool,
    /// Characters that the application reads as data in these paths, where others read a separator.
    pub path_characters: PathCharacters,
}

/// Characters in paths that some servers read as separators, and some applications as part of a
/// name.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "a set of independent flags, one for each character")]
pub struct PathCharacters {
    /// `;`, escaped or not.
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

/// Cache headers for responses of an application.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Caching {
    #[default]
    Private,
    Application,
}

impl Route {
    /// Returns whether the rule admits the user after sign-in.
    fn lets_in(&self, user: &User) -> bool {
        (self.users.is_empty() || self.users.iter().any(|person| person.is(user)))
            && (self.groups.is_empty() || self.groups.iter().any(|group| user.groups.contains(group)))
    }

    /// Creates a rule for a path without further conditions.
    pub fn plain(path: &str, access: Access) -> Self {
        Self {
            path: path.to_owned(),
            methods: Vec::new(),
            access,
            audience: None,
            scopes: Vec::new(),
            groups: Vec::new(),
            users: Vec::new(),
            acr: Vec::new(),
            max_age: None,
            cors_origins: Vec::new(),
            caching: Caching::Private,
            allow_get_body: false,
            basic: false,
            path_characters: PathCharacters::default(),
        }
    }

    /// Returns whether both rules have the same conditions, apart from their paths.
    pub fn asks_the_same_as(&self, other: &Self) -> bool {
        // Destructures all fields, so that a new field cannot be forgotten here.
        let Self {
            path: _,
            methods,
            access,
            audience,
            scopes,
            groups,
            users,
            acr,
            max_age,
            cors_origins,
            caching,
            allow_get_body,
            basic,
            // Decides which paths are valid, not who has access.
            path_characters: _,
        } = self;
        methods == &other.methods
            && access == &other.access
            && audience == &other.audience
            && scopes == &other.scopes
            && groups == &other.groups
            && users == &other.users
            && acr == &other.acr
            && max_age == &other.max_age
            && cors_origins == &other.cors_origins
            && caching == &other.caching
            && allow_get_body == &other.allow_get_body
            && basic == &other.basic
    }
}

/// A user named in a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RulePerson {
    /// By `sub`.
    Sub(Subject),
    /// By verified e-mail address.
    Email(Email),
    /// By another issuer's `sub`, prefixed with that issuer's short name: `issuer:sub`.
    Foreign(String),
}

impl RulePerson {
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

    /// Returns whether this names the user. Unverified addresses never match, because any user can
    /// claim them.
    pub fn is(&self, user: &User) -> bool {
        match self {
            Self::Sub(sub) => *sub == user.sub,
            Self::Email(email) => user.email_verified && email.lookup_key() == user.email.lookup_key(),
            Self::Foreign(_) => false,
        }
    }

    /// Returns whether this names the subject of another issuer's token.
    ///
    /// Matches that issuer's name for the subject, or an e-mail address that the issuer is trusted
    /// for. Never matches a local `sub`.
    pub fn is_foreign(&self, foreign: &Foreign) -> bool {
        match self {
            Self::Sub(_) => false,
            Self::Email(email) => foreign.email.as_ref().is_some_and(|own| own.lookup_key() == email.lookup_key()),
            Self::Foreign(name) => *name == foreign.name(),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    Public,
    Bearer,
    /// A browser session or a bearer token.
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
