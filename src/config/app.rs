//! A protected application, the hosts that it answers on, and its rules.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use http::HeaderName;
use serde::Serialize;
use url::Url;

use super::appearance::Logo;
use super::issuer::{IssuerUrl, authority};
use super::tls::TlsConfig;
use crate::domain::assurance::AssuranceLevel;
use crate::domain::client::ClientId;
use crate::domain::user::{Email, Subject, User};
use crate::oauth::trusted_token::Foreign;

/// `[[app]]`: a protected application.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct App {
    /// Its name; part of its internal client id and of log lines and metrics.
    pub name: String,
    /// What people call it; its name where nothing is said.
    pub title: Option<String>,
    /// What it is for, in a line.
    pub description: Option<String>,
    pub icon: Option<Logo>,
    /// The host that it answers on, lower case: see [`App::answers_to`].
    pub host: String,
    /// Where browsers reach it, when that does not follow from the issuer: scheme, host and port, nothing else. See
    /// [`App::origin`].
    #[serde(serialize_with = "super::serialize::as_debug")]
    pub url: Option<Url>,
    #[serde(serialize_with = "super::serialize::as_debug")]
    pub upstreams: Vec<Upstream>,
    /// TLS to those of them that speak it.
    #[serde(serialize_with = "super::serialize::as_debug")]
    pub upstream_tls: UpstreamTls,
    /// Its rules, the longest path first.
    #[serde(rename = "route", serialize_with = "super::serialize::as_debug")]
    pub routes: Vec<Route>,
    /// The audience that a bearer token must name; the issuer unless configured.
    pub audience: Option<String>,
    /// The clients whose bearer tokens are taken; without a list, those of every client that an operator made.
    pub clients: Option<Vec<ClientId>>,
    /// The other issuers whose bearer tokens are taken, by our names for them.
    pub trusted_issuers: Vec<String>,
    /// What holds in place of [`Route::acr`] for each rule that says nothing of it: those have it already.
    pub acr: Vec<String>,
    /// How the application is told who somebody is. Each request on its way has a part in it.
    #[serde(flatten)]
    pub identity: Arc<IdentityHeaders>,
    /// Whether the client's `Host` reaches the upstream (otherwise the upstream's own address).
    pub preserve_host: bool,
    /// Requests that may be under way at the application at once; further ones wait.
    pub max_requests: usize,
    /// Those of one client address (IPv6: a /64), exchanges that last left out.
    pub max_requests_per_client: usize,
    /// Whether it reads each request's body to the end, whatever it answers: only then can a connection that has carried one
    /// be kept for the next request.
    pub reads_bodies_whole: bool,
    /// Longest wait for a connection to an upstream.
    pub connect_timeout: Duration,
    /// Longest silence of an upstream.
    pub read_timeout: Duration,
    /// Longest silence on a WebSocket or an event stream.
    pub stream_timeout: Duration,
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

    pub fn called(&self) -> &str {
        self.title.as_deref().unwrap_or(&self.name)
    }

    /// The path at which this person may open it with a browser: its root, or else the shortest one that a rule opens to them.
    /// None where no rule does. How recent or how strong a sign-in has to be says nothing against them: they can sign in anew.
    pub fn opens_to(&self, user: &User) -> Option<&str> {
        let by_browser =
            |route: &&Route| route.methods.is_empty() || route.methods.iter().any(|method| method == "GET");
        let theirs = |route: &&Route| match route.access {
            Access::Bearer => false,
            // Pictures and scripts that are everybody's do not make an application theirs.
            Access::Public => route.path == "/",
            Access::SignedIn => route.lets_in(user),
        };
        let open = self.routes.iter().filter(by_browser).filter(theirs);
        open.map(|route| route.path.as_str()).min_by_key(|path| path.len())
    }

    /// The highest level that a rule demands of this person: of the values that a rule takes, the lowest level will do. Values of
    /// others say nothing here.
    pub fn level_for(&self, user: &User) -> AssuranceLevel {
        let theirs = self.routes.iter().filter(|route| route.access == Access::SignedIn && route.lets_in(user));
        let least = |route: &Route| route.acr.iter().filter_map(|value| AssuranceLevel::parse(value)).min();
        theirs.filter_map(least).max().unwrap_or(AssuranceLevel::One)
    }

    /// Whether it accepts bearer tokens of every approved client, and so none of a client that is not approved.
    pub fn requires_approved_clients(&self) -> bool {
        self.clients.is_none() && self.routes.iter().any(|route| route.access != Access::Public)
    }

    /// Whether programs may come with application passwords to some of it.
    pub fn takes_app_passwords(&self) -> bool {
        self.routes.iter().any(|route| route.basic)
    }

    /// Scheme, host and port under which browsers reach the application, as an `Origin` header says it: the configured
    /// `url`, otherwise the scheme and the port of the issuer with the application's host. A port in the host wins over
    /// the issuer's.
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

/// The host of a `Host` header, without its port.
pub(crate) fn host_name(authority: &str) -> &str {
    split_port(authority).0
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
pub enum Upstream {
    /// `http` or `https`, host, port.
    Url(Url),
    /// The absolute path of a Unix socket that speaks HTTP without TLS.
    Socket(PathBuf),
}

/// How an application's `https` upstreams prove who they are, and how we do.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UpstreamTls {
    /// The authorities that may have signed their certificates, a PEM file; the machine's own when absent.
    pub ca: Option<PathBuf>,
    /// What we show to a server that asks for a certificate.
    pub client: Option<TlsConfig>,
    /// The name that their certificates have and that they are asked for (SNI); the upstream's host when absent.
    pub server_name: Option<String>,
}

/// How an application is told who somebody is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct IdentityHeaders {
    /// The headers that say it, each with what it says. No client can write one of them.
    #[serde(rename = "identity_headers", serialize_with = "super::serialize::as_debug")]
    pub headers: Vec<(HeaderName, IdentityValue)>,
    /// Headers that pass as the client sent them, although some application would be told by them who somebody is.
    #[serde(rename = "pass_headers", serialize_with = "super::serialize::as_debug")]
    pub pass: Vec<HeaderName>,
    pub assertion: bool,
    /// What becomes of `Authorization`.
    pub authorization: AuthorizationHeader,
    /// How names, addresses and groups are written.
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

/// What a header says of somebody.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IdentityValue {
    /// Their `sub`, which never changes and is never given to somebody else; of somebody whom another issuer knows, our name
    /// for that issuer, a colon and their name there.
    Sub,
    Email,
    /// Their username; without one, their address, or the `sub` where there is no address either.
    Username,
    Name,
    Groups,
}

impl IdentityValue {
    /// Its word in the file.
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

/// What becomes of a request's `Authorization` on its way to the application.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum AuthorizationHeader {
    /// It passes, unless it is an access token of ours.
    Pass,
    Strip,
    /// It goes, and the signed assertion comes in its place as a bearer token.
    Replace,
}

/// How text that may hold more than ASCII is written into a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Names {
    /// Visible ASCII and spaces as they are, all else percent-encoded as UTF-8.
    AsciiPercent,
    /// The bytes of UTF-8.
    Utf8,
    /// One byte a letter, the Turkish ones among them.
    Iso8859_9,
    /// The bytes of UTF-8 in base64url, without padding.
    Base64url,
}

/// What stands between two groups in their header.
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

/// `[[app.route]]`: the rule for a path and all below it, or for some methods there. Each key is one more condition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// A path; ends with `/` when it covers what lies below, otherwise it is that one path.
    pub path: String,
    /// The methods that the rule is for; when empty, all for which no other rule of this path is.
    pub methods: Vec<String>,
    pub access: Access,
    /// The audience that a bearer token must name, in place of the application's.
    pub audience: Option<String>,
    /// Scopes that a bearer token must have.
    pub scopes: Vec<String>,
    /// Groups of which a person must be in at least one; all when empty.
    pub groups: Vec<String>,
    /// The people who are let through; all when empty.
    pub users: Vec<RulePerson>,
    /// Authentication context classes of which the sign-in must have reached one; any when empty. Our own are levels, of which
    /// a higher one will do; others are a trusted issuer's, letter by letter.
    pub acr: Vec<String>,
    /// How long ago the person may have signed in.
    pub max_age: Option<Duration>,
    /// Origins whose pages may call this from a browser; when empty, the gate has no opinion.
    pub cors_origins: Vec<String>,
    /// Whether a request may have a body with a method that gives it no meaning: GET, HEAD and OPTIONS.
    pub allow_get_body: bool,
    /// What is said to caches of an answer; nothing on a public route.
    pub caching: Caching,
    /// Whether programs may come with an application password (HTTP Basic).
    pub basic: bool,
    /// Characters that the application reads as data in such paths, where others see a separator.
    pub path_characters: PathCharacters,
}

/// Characters in paths that some servers take for separators, and some applications for a part of a name.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "a set of characters, each there or not")]
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
    /// As the file has them.
    pub fn words(self) -> Vec<String> {
        let all = [(self.semicolon, ";"), (self.slash, "%2F"), (self.backslash, "%5C"), (self.double_slash, "%252F")];
        all.into_iter().filter(|(has, _)| *has).map(|(_, word)| word.to_owned()).collect()
    }
}

/// What caches between us and browsers are told of an application's answers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Caching {
    #[default]
    Private,
    Application,
}

impl Route {
    /// Whether a person is one of those whom the rule lets through once they have signed in.
    fn lets_in(&self, user: &User) -> bool {
        (self.users.is_empty() || self.users.iter().any(|person| person.is(user)))
            && (self.groups.is_empty() || self.groups.iter().any(|group| user.groups.contains(group)))
    }

    /// The rule for a path that asks for nothing but this.
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

    /// Whether both let the same requests through, wherever they are for.
    pub fn asks_the_same_as(&self, other: &Self) -> bool {
        // All fields by name: one that is added must not be forgotten here.
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
            // It says which paths there are, not who may have them.
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

/// A person in a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RulePerson {
    /// By their `sub`.
    Sub(Subject),
    /// By their address, once it was verified.
    Email(Email),
    /// By what another issuer calls them, with our name for that issuer before it: `issuer:sub`.
    Foreign(String),
}

impl RulePerson {
    /// Reads a `sub` or an address.
    pub fn parse(text: &str) -> Option<Self> {
        Subject::parse(text).map(Self::Sub).or_else(|| Email::parse(text).map(Self::Email))
    }

    /// As the file has it.
    pub fn text(&self) -> String {
        match self {
            Self::Sub(sub) => sub.to_string(),
            Self::Email(email) => email.as_str().to_owned(),
            Self::Foreign(name) => name.clone(),
        }
    }

    /// Whether this is the person. An address that nobody has verified is anybody's to claim.
    pub fn is(&self, user: &User) -> bool {
        match self {
            Self::Sub(sub) => *sub == user.sub,
            Self::Email(email) => user.email_verified && email.lookup_key() == user.email.lookup_key(),
            Self::Foreign(_) => false,
        }
    }

    /// Whether this is the person that another issuer's token is about: by that issuer's name for them, or by an address
    /// that it is believed about. Never by a `sub` of ours.
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
    /// A browser session, or a bearer token.
    SignedIn,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_told_from_an_address() {
        for (authority, host) in
            [("wiki.test", "wiki.test"), ("wiki.test:8443", "wiki.test"), ("[::1]:80", "[::1]"), ("[::1]", "[::1]")]
        {
            assert_eq!(host_name(authority), host);
        }
    }
}
