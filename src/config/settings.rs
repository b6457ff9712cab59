//! Sections of the checked configuration.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ipnet::IpNet;
use serde::Serialize;

use super::acme::AcmeConfig;
use super::app::App;
use super::appearance::{Accent, Logo};
use super::client::DefinedClient;
use super::console::Console;
use super::factors::FactorsConfig;
use super::issuer::IssuerUrl;
use super::mail::MailConfig;
use super::reference::ConfigText;
use super::telemetry::TelemetryConfig;
use super::tls::{ClientCertificates, ListenerCertificate};
use super::upstream::UpstreamSettings;
use super::user_registration::UserRegistration;
use crate::ConfigFault;
use crate::directory::DirectorySettings;
use crate::issuer::TrustedIssuer;
use sealgate_domain::client::ClientId;
use sealgate_domain::key_ring::{KeyTimes, TokenHolder};
use sealgate_domain::language::Language;
use sealgate_domain::oauth::jwk_set::Algorithm;
use sealgate_domain::rate_limit::RateLimit;
use sealgate_domain::session::KeepSignedIn;
use sealgate_domain::source::SourceName;
use sealgate_domain::user::Email;

/// Checked content of the configuration file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Config {
    /// URL of the provider, which is in tokens and in the provider metadata.
    #[serde(serialize_with = "super::serialize::as_debug")]
    pub issuer: IssuerUrl,
    /// Public listeners.
    pub server: ServerConfig,
    /// Certificates that the server obtains itself. `None` if there are none.
    pub acme: Option<AcmeConfig>,
    /// Metrics, health checks, and the socket for the command line.
    pub admin: AdminConfig,
    /// PKCS#11 token with the signing keys.
    pub hsm: Hsm,
    /// Persistent storage.
    pub store: StoreConfig,
    /// This node of the cluster. `None` if the node does not share the store.
    pub cluster: Option<ClusterConfig>,
    pub tokens: TokensConfig,
    pub keys: KeysConfig,
    pub sessions: SessionsConfig,
    pub rate_limits: RateLimits,
    /// Limits on password guesses.
    pub login: LoginConfig,
    /// Required assurance levels.
    pub factors: FactorsConfig,
    pub registration: Registration,
    pub pages: PagesConfig,
    /// Mail server. `None` if no mail is sent.
    pub mail: Option<MailConfig>,
    /// Whether users can create their own accounts.
    pub registration_of_people: UserRegistration,
    pub console: Console,
    pub api: Api,
    pub log: Log,
    /// Collector of traces. `None` if no traces are recorded.
    pub telemetry: Option<TelemetryConfig>,
    /// Retention of the audit log.
    pub audit: AuditConfig,
    /// Proxies that may use forward authentication.
    pub forward_auth: ForwardAuth,
    /// Clients that may use `response_mode=form_post`.
    pub form_post: FormPost,
    /// Other issuers whose access tokens some applications accept.
    #[serde(rename = "trusted_issuer", serialize_with = "super::serialize::as_debug")]
    pub trusted_issuers: Vec<TrustedIssuer>,
    /// Directories whose users can sign in.
    #[serde(rename = "directory", serialize_with = "super::serialize::as_debug")]
    pub directories: Vec<DirectorySettings>,
    /// OpenID providers whose users can sign in.
    #[serde(rename = "upstream", serialize_with = "super::serialize::as_debug")]
    pub upstreams: Vec<UpstreamSettings>,
    /// Protected applications, in the order of the file.
    #[serde(skip)]
    pub apps: Vec<App>,
    /// Clients that the file defines, in the order of the file.
    #[serde(skip)]
    pub clients: Vec<DefinedClient>,
    /// Path of the configuration file. `None` if only a text was parsed.
    #[serde(skip)]
    pub file: Option<PathBuf>,
    /// Text of the configuration file.
    #[serde(skip)]
    pub text: ConfigText,
    /// Warnings about allowed values that may be mistakes. Warnings about files are present only
    /// after [`Config::load`].
    #[serde(skip)]
    pub warnings: Vec<ConfigFault>,
    /// Expiry times of the certificates that were read.
    #[serde(skip)]
    pub certificate_ends: Vec<CertificateEnd>,
    /// Uses of TLS keys in the token, in the order of `server.tls`.
    #[serde(skip)]
    pub token_key_uses: Vec<TokenKeyUse>,
}

impl Config {
    /// Returns warnings about certificates that have expired or expire soon. `now` is in seconds
    /// since 1970.
    pub fn expiring(&self, now: i64) -> Vec<ConfigFault> {
        let expiring = self.certificate_ends.iter().filter_map(|CertificateEnd { path, file, ends }| {
            let file = file.display();
            let problem = match days_left(*ends, now) {
                EXPIRES_SOON.. => return None,
                ..0 => format!("{file} has expired, and browsers reject it; renew it"),
                days => format!("{file} expires in {days} days; renew it"),
            };
            Some(ConfigFault::new(path.clone(), None, problem))
        });
        expiring.collect()
    }
}

/// `[server]`: the public listeners.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ServerConfig {
    /// Addresses to listen on, at least one.
    pub listen: Vec<SocketAddr>,
    /// Certificates and keys. If empty, listeners use plain HTTP. The first certificate is used if
    /// none matches the requested host.
    #[serde(serialize_with = "super::serialize::as_debug")]
    pub tls: Vec<ListenerCertificate>,
    /// Settings for client certificates. `None` if no client certificate is requested.
    #[serde(flatten)]
    pub client_certificates: Option<ClientCertificates>,
    /// Listeners that redirect plain HTTP to https.
    pub redirect_listen: Vec<SocketAddr>,
    /// `max-age` of HSTS (RFC 6797). If zero, no HSTS header is sent.
    pub hsts: Duration,
    /// Peers whose `X-Forwarded-*` headers the server trusts.
    #[serde(serialize_with = "super::serialize::as_debug")]
    pub trusted_proxies: Vec<IpNet>,
    /// Load balancers that begin each connection with a PROXY protocol header.
    #[serde(serialize_with = "super::serialize::as_debug")]
    pub proxy_protocol: Vec<IpNet>,
    /// Path of the health check on the public listeners. `None` if there is none.
    pub health_path: Option<String>,
    /// Number of worker threads of the proxy.
    pub threads: usize,
    /// Whether the server may use huge pages of memory.
    pub huge_pages: bool,
    /// Timeout for receiving a request head.
    pub header_timeout: Duration,
    /// Maximum size of a request head in bytes.
    pub header_bytes: usize,
    /// Timeout for receiving the body of a request to the provider.
    pub body_timeout: Duration,
    /// Maximum idle time of a kept-alive connection.
    pub idle_timeout: Duration,
    /// Maximum number of connections. Further connections wait in the kernel's queue.
    pub max_connections: usize,
    /// Maximum number of connections per peer address (IPv6: a /64).
    pub max_connections_per_peer: usize,
    /// Maximum time for requests in flight to complete after a stop.
    pub shutdown_timeout: Duration,
}

/// Remaining days below which an expiring certificate is reported.
pub const EXPIRES_SOON: i64 = 14;

/// Returns the number of whole days from `now` to `ends`, both in seconds since 1970. Negative if
/// `ends` has passed.
pub const fn days_left(ends: i64, now: i64) -> i64 {
    (ends - now).div_euclid(86_400)
}

/// Expiry time of a certificate in the configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateEnd {
    /// Configuration key that names the file.
    pub(super) path: String,
    pub file: PathBuf,
    /// Expiry time in seconds since 1970.
    pub ends: i64,
}

/// A certificate in the configuration whose private key is in the token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenKeyUse {
    /// `CKA_LABEL` of the private key.
    pub label: String,
    pub certificate: PathBuf,
    /// Configured hosts for which the certificate is valid. Empty if the file was not read.
    pub hosts: Vec<String>,
}

/// `[admin]`: endpoints for operators and monitoring.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AdminConfig {
    /// Address for `/metrics`, `/healthz` and `/readyz`. `None` if they are not served.
    pub listen: Option<SocketAddr>,
    /// Unix socket for the command line. The default is `admin.sock` in the store's directory.
    #[serde(serialize_with = "super::serialize::as_debug")]
    pub socket: PathBuf,
}

/// Address at which the command line reaches a running server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerAddress {
    pub socket: PathBuf,
    /// Path that belongs to the user who runs the server.
    pub owned: PathBuf,
}

impl Config {
    /// Returns a path that belongs to the user who runs the server: the store's directory, or
    /// else the directory of the admin socket. The path may not exist yet.
    pub fn owned_place(&self) -> &Path {
        owned_place(&self.store, &self.admin.socket)
    }

    /// Returns this node as the holder of its token's keys, or `None` if the nodes share their
    /// keys.
    pub fn token_holder(&self) -> Option<TokenHolder> {
        let cluster = self.cluster.as_ref().filter(|_| !self.hsm.shared)?;
        Some(TokenHolder { node: cluster.node.clone(), issuer: self.issuer.as_str().to_owned() })
    }
}

pub(super) fn owned_place<'c>(store: &'c StoreConfig, socket: &'c Path) -> &'c Path {
    match store {
        StoreConfig::Sled(store) => &store.path,
        StoreConfig::Postgres(_) => socket.parent().unwrap_or(socket),
    }
}

/// `[hsm]`: the PKCS#11 token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Hsm {
    /// PKCS#11 module of the token's vendor, a shared library.
    #[serde(serialize_with = "super::serialize::as_debug")]
    pub module: PathBuf,
    pub token_label: String,
    /// File that contains the user PIN. Other users must not be able to read it.
    #[serde(serialize_with = "super::serialize::as_debug")]
    pub pin_file: PathBuf,
    /// Configuration file of SoftHSM, which is set in the environment variable `SOFTHSM2_CONF`.
    #[serde(serialize_with = "super::serialize::as_debug")]
    pub softhsm_conf: Option<PathBuf>,
    /// `CKA_LABEL` of the RS256 key pairs: see [`Hsm::key_label_of`].
    pub key_label: String,
    /// Algorithms of `keys.algorithms`.
    #[serde(skip)]
    pub algorithms: Vec<Algorithm>,
    /// Directory of the vendor's attestations, with a file `KID.pem` for each key.
    #[serde(serialize_with = "super::serialize::as_debug")]
    pub attestation: Option<PathBuf>,
    /// Number of PKCS#11 sessions, each with a signer thread.
    pub sessions: usize,
    /// Timeout for all signatures of a request.
    pub sign_timeout: Duration,
    /// Maximum number of queued signatures. Further requests get status 503.
    pub queue: usize,
    /// Time after which a call into the module is considered hung. The process then aborts, so that
    /// it is restarted.
    pub hang_abort: Duration,
    pub mechanism: Mechanism,
    /// Whether signing keys must have been generated in the token (`CKA_LOCAL`).
    pub require_local: bool,
    /// Whether all nodes of the cluster use the same keys, in a network HSM or in clones of a
    /// token.
    pub shared: bool,
}

impl Hsm {
    /// Returns the `CKA_LABEL` of the keys of this algorithm. The label determines the algorithm of
    /// a key.
    pub fn key_label_of(&self, algorithm: Algorithm) -> String {
        let word = match algorithm {
            Algorithm::Rs256 => return self.key_label.clone(),
            Algorithm::Ps256 => "ps256",
            Algorithm::Es256 => "es256",
            Algorithm::EdDsa => "eddsa",
        };
        format!("{}-{word}", self.key_label)
    }

    /// Returns the label of keys of this algorithm that were removed because they were compromised.
    ///
    /// The server neither publishes nor uses such a key, even if an old backup of the store lists it.
    pub fn removed_label(&self, algorithm: Algorithm) -> String {
        format!("{}-removed", self.key_label_of(algorithm))
    }

    /// Checks that the label of a TLS key cannot be the label of a key for another purpose.
    ///
    /// Signing, removed, wrapping and enrolment keys have labels that consist of `key_label`, alone
    /// or with a hyphen and a word.
    ///
    /// # Errors
    /// Returns one line with the reason.
    pub fn allow_tls_key_label(&self, label: &str) -> Result<(), String> {
        let own = &self.key_label;
        if label.strip_prefix(own.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('-')) {
            return Err(format!(
                "{label:?} is reserved: keys labelled {own:?} and \"{own}-…\" sign tokens and protect the store \
                 (hsm.key_label); use a TLS key with another label"
            ));
        }
        Ok(())
    }
}

/// PKCS#11 mechanism for RS256 signatures. Both mechanisms produce the same signatures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Mechanism {
    /// `CKM_RSA_PKCS`: the server computes the `DigestInfo`. Every token supports it, and only 51
    /// bytes are transferred.
    RsaPkcs,
    /// `CKM_SHA256_RSA_PKCS`: the token computes the hash. For tokens that refuse to sign a
    /// precomputed hash.
    Sha256RsaPkcs,
}

/// `[store]`: settings of the storage engine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "engine")]
pub enum StoreConfig {
    /// Files of a single server.
    Sled(SledConfig),
    /// A PostgreSQL database, shared by the nodes of a cluster.
    Postgres(PostgresConfig),
}

/// Settings for `engine = "sled"`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SledConfig {
    #[serde(serialize_with = "super::serialize::as_debug")]
    pub path: PathBuf,
    /// Size of the page cache in bytes.
    pub cache_bytes: u64,
    /// Minimum free disk space in bytes. With less, requests that write get status 503.
    pub reserve_bytes: u64,
    /// Maximum number of queued commits. Further requests get status 503.
    pub queue: usize,
}

/// Settings for `engine = "postgres"`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PostgresConfig {
    /// File that contains the database URL with the password.
    #[serde(serialize_with = "super::serialize::as_debug")]
    pub url_file: PathBuf,
    /// PEM file of the authorities that sign the database servers' certificates. `None` is
    /// permitted only if all servers are on this machine.
    #[serde(serialize_with = "super::serialize::as_debug")]
    pub ca_file: Option<PathBuf>,
    /// Number of connections that write.
    pub writers: usize,
    /// Maximum number of queued commits. Further requests get status 503.
    pub queue: usize,
    pub durability: Durability,
}

/// Mechanism that preserves acknowledged commits if a database server is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Durability {
    /// A synchronous standby: each commit waits for it.
    Standby,
    /// Replicated storage below the database, as in a managed service.
    External,
}

/// `[cluster]`: this node of the cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ClusterConfig {
    /// Name of this node. It must be unique in the cluster and never change.
    pub node: String,
    pub beat: BeatDurability,
    /// Maximum time in milliseconds since the start of the last successful heartbeat. The node
    /// refuses decisions after it.
    pub staleness_ms: u64,
}

/// Whether heartbeats, like commits, wait for the synchronous standby.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum BeatDurability {
    /// Heartbeats wait. Therefore nodes do not trust an old primary that is isolated from its
    /// standby.
    Replicated,
    /// Heartbeats do not wait. Decisions therefore continue while the only standby is down, and the
    /// operator must keep nodes from connecting to an old primary.
    Local,
}

/// `[tokens]`: lifetimes of tokens and codes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TokensConfig {
    /// Lifetime of access tokens and ID tokens.
    pub access_token: Duration,
    pub authorization_code: Duration,
    /// Lifetime of a refresh token. It restarts with each rotation.
    pub refresh_token: Duration,
    /// Time in which a client may retry the previous refresh token while the new one is unused. A
    /// client can have its own setting.
    pub refresh_retry: Duration,
    /// Whether clients can request the scope `groups`, if their registration permits it.
    pub groups_scope: bool,
    /// Private networks of clients to which logout tokens may be sent.
    #[serde(serialize_with = "super::serialize::as_debug")]
    pub logout_networks: Vec<IpNet>,
}

/// `[keys]`: algorithms and rotation of signing keys.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct KeysConfig {
    /// Algorithms with keys in the token. RS256 is the first.
    pub algorithms: Vec<Algorithm>,
    /// Time after which the server rotates a signing key. `None` if rotation is not automatic.
    pub rotate: Option<Duration>,
    /// Publication times of a key: before its first signature, and after its last one.
    #[serde(flatten)]
    pub times: KeyTimes,
    /// Time for which clients may cache the JWK set. It is slightly shorter than the publication
    /// time before a key signs.
    #[serde(skip)]
    pub cache: Duration,
}

/// `[sessions]`: lifetimes of browser sessions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SessionsConfig {
    /// Maximum time between two requests of a session.
    pub idle: Duration,
    /// Maximum time since the sign-in.
    pub absolute: Duration,
    /// Whether users stay signed in on a device.
    pub keep_signed_in: KeepSignedIn,
    /// Time for which a user stays signed in on a device, since the sign-in.
    pub kept_session: Duration,
    /// Maximum duration of a sign-in.
    pub interaction: Duration,
    /// Maximum number of pending sign-ins.
    pub max_interactions: usize,
    /// Maximum number of submitted forms that are stored while the user signs in. If zero, none is
    /// stored.
    pub max_forms: usize,
}

/// `[rate_limits]`: requests per minute.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RateLimits {
    /// `/oauth/authorize`, per client address.
    pub authorize: RateLimit,
    /// Sign-ins started at an application or on the provider's own pages, per client address.
    pub sign_ins: RateLimit,
    /// `/oauth/token`, per client.
    pub token: RateLimit,
    /// `/oauth/userinfo`, per access token.
    pub userinfo: RateLimit,
    /// `/.well-known/openid-configuration`, per client address.
    pub discovery: RateLimit,
    /// `/oauth/jwks`, per client address.
    pub jwks: RateLimit,
    /// `/oauth/revoke`, per client.
    pub revoke: RateLimit,
    /// `/oauth/introspect`, per client.
    pub introspect: RateLimit,
    /// `/oauth/logout`, per client address.
    pub logout: RateLimit,
    /// `/oauth/register`, per client address.
    pub register: RateLimit,
    /// `/api/v1/`, per client address.
    pub api: RateLimit,
    /// Pages of the sign-in and all other provider paths, per client address.
    pub pages: RateLimit,
}

/// `[login]`: where users sign in, and limits on password guesses. Only failures count.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LoginConfig {
    /// OpenID provider to which the sign-in page sends all browsers. Passwords are then accepted only
    /// at `/oauth/login?local`.
    pub only_upstream: Option<SourceName>,
    /// Number of failed attempts per account after which further attempts must wait. This number of
    /// failures is forgotten per `window`.
    pub failures_per_account: u32,
    /// Number of failed attempts per client address after which further attempts must wait. This
    /// number of failures is forgotten per `window`.
    pub failures_per_address: u32,
    /// Time in which the maximum number of failures is restored.
    pub window: Duration,
    /// Number of threads that verify passwords.
    pub password_threads: usize,
    /// Maximum number of queued password checks. Further requests get the status 503.
    pub password_queue: usize,
}

/// `[registration]`: dynamic client registration over HTTP.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Registration {
    pub mode: RegistrationMode,
    /// Maximum number of clients registered over HTTP.
    pub max_clients: usize,
    /// Time after which a registered client that never received a token is deleted.
    pub unused: Duration,
    /// E-mail addresses of accounts that are notified when a registered client needs approval.
    pub notify: Vec<Email>,
    /// Hosts whose metadata documents are fetched for clients whose identifier is the URL of the
    /// document. If empty, no document is fetched.
    pub document_hosts: Vec<String>,
}

/// Access to client registration over HTTP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum RegistrationMode {
    Off,
    /// Only clients with an initial access token may register (RFC 7591 §3).
    Token,
    Open,
}

/// `[pages]`: appearance of the pages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PagesConfig {
    /// Operator's name, shown on each page.
    pub operator: String,
    /// Language of pages if neither the request nor the browser requests a supported one.
    pub default_language: Language,
    /// The operator's logo, if any.
    pub logo: Option<Logo>,
    /// Colour of links and buttons, if it differs from the default.
    pub accent: Option<Accent>,
}

/// `[api]`: the admin API.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Api {
    pub enabled: bool,
}

/// `[audit]`: retention of audit records in the store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AuditConfig {
    /// Retention time of a record. If zero, records are not stored.
    pub keep: Duration,
    /// Maximum number of records. The oldest are deleted first.
    pub max_records: usize,
}

/// `[forward_auth]`: proxies that request access decisions about their clients.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ForwardAuth {
    /// Networks of the proxies. If empty, forward authentication is disabled.
    #[serde(serialize_with = "super::serialize::as_debug")]
    pub trusted: Vec<IpNet>,
}

/// `[form_post]`: clients that may use `response_mode=form_post`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FormPost {
    pub enabled: bool,
    pub clients: Vec<ClientId>,
}

impl FormPost {
    /// Returns whether this client may use the response mode.
    pub fn is_for(&self, client: &ClientId) -> bool {
        self.enabled || self.clients.contains(client)
    }

    /// Returns whether at least one client may use the response mode.
    pub fn is_for_some(&self) -> bool {
        self.enabled || !self.clients.is_empty()
    }
}

/// `[log]`: format and filter of log lines.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Log {
    pub format: LogFormat,
    /// A `tracing` filter, such as `info` or `sealgate=debug`.
    pub filter: String,
}

/// Format of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum LogFormat {
    Text,
    /// One JSON object per line.
    Json,
}
