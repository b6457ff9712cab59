//! The settings that the rest of the program sees: typed, checked, complete. `file` is the TOML image as written,
//! `check` turns it into these values and reports every fault at once.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use ipnet::IpNet;
use url::Url;

/// Everything that the configuration file says, checked.
#[derive(Debug, Clone)]
pub struct Config {
    /// The provider's base address, as it stands in tokens and discovery.
    pub issuer: Issuer,
    /// The public listeners.
    pub server: Server,
    /// Metrics, health and the command line's socket.
    pub admin: Admin,
    /// The PKCS#11 token that holds the signing keys.
    pub hsm: Hsm,
    /// Where state is kept.
    pub store: Store,
    /// Lifetimes of what the provider issues.
    pub tokens: Tokens,
    /// Lifetimes of sign-ins.
    pub sessions: Sessions,
    /// Requests a minute, by endpoint.
    pub rate_limits: RateLimits,
    /// Guesses of passwords.
    pub login: Login,
    /// Dynamic client registration.
    pub registration: Registration,
    /// What people see on the pages.
    pub pages: Pages,
    /// How the program logs.
    pub log: Log,
    /// The protected applications, in the file's order.
    pub apps: Vec<App>,
}

/// The issuer identifier (OpenID Connect Discovery §3): https, or http on a loopback host; no query, no fragment,
/// no trailing slash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Issuer {
    text: String,
    url: Url,
}

impl Issuer {
    /// Reads an issuer from configuration.
    ///
    /// # Errors
    /// A sentence that says what is allowed.
    pub fn parse(text: &str) -> Result<Self, String> {
        let url = Url::parse(text).map_err(|error| format!("not a URL ({error}); write https://host"))?;
        let loopback = is_loopback_host(url.host_str().unwrap_or_default());
        match url.scheme() {
            "https" => {}
            "http" if loopback => {}
            "http" => {
                return Err("http is allowed on localhost, *.localhost, 127.0.0.1 and [::1] only; use https".into());
            }
            _ => return Err("the scheme must be https (or http on a loopback host)".into()),
        }
        if url.host_str().is_none() || !url.username().is_empty() || url.password().is_some() {
            return Err("write scheme, host and optionally port and path, without a user name".into());
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err("no query and no fragment are allowed".into());
        }
        if text.ends_with('/') {
            return Err("remove the trailing slash".into());
        }
        // Clients compare the issuer byte for byte; a form that a URL library would rewrite fails in half of them.
        if url.as_str().trim_end_matches('/') != text {
            return Err(format!("write it in its normal form: {}", url.as_str().trim_end_matches('/')));
        }
        Ok(Self { text: text.to_owned(), url })
    }

    /// The issuer exactly as configured.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether the issuer is reached over TLS; decides `__Host-` and `Secure` of cookies and HSTS.
    pub fn is_https(&self) -> bool {
        self.url.scheme() == "https"
    }

    /// The value that the `Host` header has for the issuer: host, and the port where it is not the scheme's own.
    pub fn authority(&self) -> String {
        authority(&self.url)
    }

    /// The path in front of every provider path: empty at the root, otherwise `/…` without a trailing slash.
    pub fn path_prefix(&self) -> &str {
        self.url.path().trim_end_matches('/')
    }
}

/// Host and, where it is not the scheme's own, port: what a `Host` header says for this URL.
pub fn authority(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
}

/// Whether a host name means this machine: `localhost`, a name under `.localhost` (RFC 6761 §6.3), 127.0.0.1 or [::1].
pub fn is_loopback_host(host: &str) -> bool {
    host == "localhost" || host.ends_with(".localhost") || host == "127.0.0.1" || host == "[::1]"
}

/// `[server]`: the public listeners.
#[derive(Debug, Clone)]
pub struct Server {
    /// Addresses to listen on; at least one.
    pub listen: Vec<SocketAddr>,
    /// Certificate and key; plain HTTP when absent.
    pub tls: Option<Tls>,
    /// Peers whose `X-Forwarded-*` headers are believed.
    pub trusted_proxies: Vec<IpNet>,
    /// Worker threads of the proxy.
    pub threads: usize,
    /// How long a peer may take to send a whole request head.
    pub header_timeout: Duration,
    /// Largest request head, bytes.
    pub header_bytes: usize,
    /// How long a peer may take to send a whole body that the provider reads itself.
    pub body_timeout: Duration,
    /// How long a kept-alive connection may stay silent.
    pub idle_timeout: Duration,
    /// Connections in all; further ones wait in the kernel's queue.
    pub max_connections: usize,
    /// Connections a peer address (IPv6: a /64).
    pub max_connections_per_peer: usize,
    /// How long requests in flight may go on after a stop was asked for.
    pub shutdown_timeout: Duration,
}

/// Certificate chain and private key, PEM files.
#[derive(Debug, Clone)]
pub struct Tls {
    /// The chain, leaf first.
    pub certificate: PathBuf,
    /// The leaf's private key.
    pub key: PathBuf,
}

/// `[admin]`: what operators and monitoring talk to.
#[derive(Debug, Clone)]
pub struct Admin {
    /// `/metrics`, `/healthz` and `/readyz`; none when absent.
    pub listen: Option<SocketAddr>,
    /// The command line talks to a running server here; `admin.sock` in the store's directory unless configured.
    pub socket: PathBuf,
}

/// `[hsm]`: the PKCS#11 token.
#[derive(Debug, Clone)]
pub struct Hsm {
    /// The vendor's PKCS#11 module, a shared library.
    pub module: PathBuf,
    /// The token's label.
    pub token_label: String,
    /// A file that holds the user PIN; others may not be able to read it.
    pub pin_file: PathBuf,
    /// `CKA_LABEL` of the signing key pairs.
    pub key_label: String,
    /// Sessions (and signer threads).
    pub sessions: usize,
    /// The longest that a request waits for its signatures.
    pub sign_timeout: Duration,
    /// Signatures that may wait at once; more are answered 503.
    pub queue: usize,
}

/// `[store]`.
#[derive(Debug, Clone)]
pub struct Store {
    /// What keeps the bytes.
    pub engine: StoreEngine,
    /// The database's directory.
    pub path: PathBuf,
    /// The engine's page cache, bytes.
    pub cache_bytes: u64,
    /// Commits that may wait at once; more are answered 503.
    pub queue: usize,
}

/// The kinds of store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreEngine {
    /// Embedded, for one machine.
    Sled,
}

/// `[tokens]`: lifetimes.
#[derive(Debug, Clone)]
pub struct Tokens {
    /// Of an access token and an ID token.
    pub access_token: Duration,
    /// Of an authorization code.
    pub authorization_code: Duration,
    /// Of a refresh token, from its issue; each rotation starts it anew.
    pub refresh_token: Duration,
}

/// `[sessions]`: lifetimes of a browser's sign-in.
#[derive(Debug, Clone)]
pub struct Sessions {
    /// Without any request.
    pub idle: Duration,
    /// From the sign-in.
    pub absolute: Duration,
    /// How long a started sign-in may take.
    pub interaction: Duration,
    /// Started sign-ins that may be open at once, in all.
    pub max_interactions: usize,
}

/// `[rate_limits]`: requests a minute.
#[derive(Debug, Clone)]
pub struct RateLimits {
    /// `/oauth/authorize`, per client address.
    pub authorize: u32,
    /// `/oauth/token`, per client.
    pub token: u32,
    /// `/oauth/userinfo`, per access token.
    pub userinfo: u32,
    /// `/.well-known/openid-configuration`, per client address.
    pub discovery: u32,
    /// `/oauth/jwks`, per client address.
    pub jwks: u32,
    /// `/oauth/revoke`, per client.
    pub revoke: u32,
    /// `/oauth/logout`, per client address.
    pub logout: u32,
    /// `/oauth/register`, per client address.
    pub register: u32,
    /// The pages of the sign-in and all other provider paths, per client address.
    pub pages: u32,
}

/// `[login]`: guesses of passwords. Only failures count.
#[derive(Debug, Clone)]
pub struct Login {
    /// Failed attempts an account in `window`.
    pub failures_per_account: u32,
    /// Failed attempts an address in `window`.
    pub failures_per_address: u32,
    /// How long failures are remembered.
    pub window: Duration,
    /// Threads that check passwords.
    pub password_threads: usize,
    /// Password checks that may wait at once; more are answered 503.
    pub password_queue: usize,
}

/// `[registration]`: who may register a client over HTTP.
#[derive(Debug, Clone)]
pub struct Registration {
    /// The rule.
    pub mode: RegistrationMode,
    /// Clients registered over HTTP that may exist at once.
    pub max_clients: usize,
}

/// Who may register a client over HTTP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RegistrationMode {
    /// Nobody.
    Off,
    /// Who holds an initial access token (RFC 7591 §3).
    Token,
    /// Anybody.
    Open,
}

/// `[pages]`: what people see.
#[derive(Debug, Clone)]
pub struct Pages {
    /// The operator's name, shown on each page.
    pub operator: String,
    /// The language of a page when neither the request nor the browser names one we have.
    pub default_language: Language,
}

/// The languages of the pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Language {
    /// Turkish.
    Turkish,
    /// English.
    English,
}

/// `[log]`.
#[derive(Debug, Clone)]
pub struct Log {
    /// The lines' shape.
    pub format: LogFormat,
    /// A `tracing` filter, such as `info` or `sealgate=debug`.
    pub filter: String,
}

/// The shape of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// `[[app]]`: a protected application.
#[derive(Debug, Clone)]
pub struct App {
    /// Its name; part of its internal client id and of log lines and metrics.
    pub name: String,
    /// The `Host` that it answers on, lower case, with a port where it is not the scheme's own.
    pub host: String,
    /// Where requests go.
    pub upstreams: Vec<Upstream>,
    /// Its rules, the longest path first.
    pub routes: Vec<Route>,
    /// The audience that a bearer token must name; the issuer unless configured.
    pub audience: Option<String>,
    /// Whether the client's `Host` reaches the upstream (otherwise the upstream's own address).
    pub preserve_host: bool,
    /// Longest wait for a connection to an upstream.
    pub connect_timeout: Duration,
    /// Longest silence of an upstream.
    pub read_timeout: Duration,
    /// Longest wait for an upstream to take bytes.
    pub write_timeout: Duration,
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
