//! The checked sections of the configuration.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ipnet::IpNet;
use serde::Serialize;

use super::acme::AcmeConfig;
use super::app::App;
use super::appearance::{Accent, Logo};
use super::factors::FactorsConfig;
use super::issuer::IssuerUrl;
use super::mail::MailConfig;
use super::people_registration::PeopleRegistration;
use super::tls::{ClientCertificates, TlsConfig};
use crate::ConfigFault;
use crate::issuer::TrustedIssuer;
use sealgate_domain::client::ClientId;
use sealgate_domain::key_ring::{KeyTimes, TokenHolder};
use sealgate_domain::language::Language;
use sealgate_domain::rate_limit::RateLimit;
use sealgate_domain::user::Email;

/// The checked content of the configuration file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Config {
    /// Base URL of the provider, as in tokens and discovery.
    #[serde(serialize_with = "super::serialize::as_debug")]
    pub issuer: IssuerUrl,
    /// Public listeners.
    pub server: ServerConfig,
    /// Certificates that the server obtains itself; none when absent.
    pub acme: Option<AcmeConfig>,
    /// Metrics, health checks and the command line's socket.
    pub admin: AdminConfig,
    /// PKCS#11 token that holds the signing keys.
    pub hsm: Hsm,
    /// Persistent storage.
    pub store: StoreConfig,
    /// This node of the cluster, if the store is shared.
    pub cluster: Option<ClusterConfig>,
    pub tokens: TokensConfig,
    pub keys: KeysConfig,
    pub sessions: SessionsConfig,
    /// Requests per minute, by endpoint.
    pub rate_limits: RateLimits,
    /// Limits on password guesses.
    pub login: LoginConfig,
    /// Required assurance levels.
    pub factors: FactorsConfig,
    pub registration: Registration,
    pub pages: PagesConfig,
    /// Mail server; no mail is sent when absent.
    pub mail: Option<MailConfig>,
    /// Whether users can create their own accounts.
    pub registration_of_people: PeopleRegistration,
    pub console: Console,
    pub log: Log,
    /// Retention of the audit log.
    pub audit: AuditConfig,
    /// Proxies that may use forward authentication.
    pub forward_auth: ForwardAuth,
    /// Clients that may use `response_mode=form_post`.
    pub form_post: FormPost,
    /// Other issuers whose access tokens some applications accept.
    #[serde(rename = "trusted_issuer", serialize_with = "super::serialize::as_debug")]
    pub trusted_issuers: Vec<TrustedIssuer>,
    /// Protected applications, in the file's order.
    #[serde(skip)]
    pub apps: Vec<App>,
    /// Warnings: allowed values that may be mistakes. Filled only by [`Config::load`].
    #[serde(skip)]
    pub warnings: Vec<ConfigFault>,
    /// Expiry times of the certificates that were read.
    #[serde(skip)]
    pub certificate_ends: Vec<CertificateEnd>,
}

impl Config {
    /// Returns warnings of certificates that have expired at `now`, in seconds since 1970, or
    /// expire soon.
    pub fn expiring(&self, now: i64) -> Vec<ConfigFault> {
        let told = self.certificate_ends.iter().filter_map(|CertificateEnd { path, file, ends }| {
            let file = file.display();
            let problem = match days_left(*ends, now) {
                EXPIRES_SOON.. => return None,
                ..0 => format!("{file} has expired, and browsers reject it; renew it"),
                days => format!("{file} expires in {days} days; renew it"),
            };
            Some(ConfigFault::new(path.clone(), None, problem))
        });
        told.collect()
    }
}

/// `[server]`: the public listeners.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ServerConfig {
    /// Addresses to listen on; at least one.
    pub listen: Vec<SocketAddr>,
    /// Certificates and keys; plain HTTP when empty. The first is the default if no other matches
    /// the host.
    #[serde(serialize_with = "super::serialize::as_debug")]
    pub tls: Vec<TlsConfig>,
    /// Requirements for client certificates; none are requested when absent.
    #[serde(flatten)]
    pub client_certificates: Option<ClientCertificates>,
    /// Addresses that only redirect plain HTTP to https.
    pub redirect_listen: Vec<SocketAddr>,
    /// `max-age` of HSTS (RFC 6797); no header when zero.
    pub hsts: Duration,
    /// Peers whose `X-Forwarded-*` headers are trusted.
    #[serde(serialize_with = "super::serialize::as_debug")]
    pub trusted_proxies: Vec<IpNet>,
    /// Number of worker threads of the proxy.
    pub threads: usize,
    /// Timeout for receiving a whole request head.
    pub header_timeout: Duration,
    /// Maximum size of a request head, bytes.
    pub header_bytes: usize,
    /// Timeout for receiving a whole body that the provider reads itself.
    pub body_timeout: Duration,
    /// Maximum idle time of a kept-alive connection.
    pub idle_timeout: Duration,
    /// Maximum number of connections; further ones wait in the kernel's queue.
    pub max_connections: usize,
    /// Maximum number of connections per peer address (IPv6: a /64).
    pub max_connections_per_peer: usize,
    /// Maximum time that requests in flight may take after a stop was requested.
    pub shutdown_timeout: Duration,
}

/// Days before a certificate's expiry from which a warning is reported.
pub const EXPIRES_SOON: i64 = 14;

/// Returns the whole days between two times in seconds since 1970; negative if `ends` has passed.
pub const fn days_left(ends: i64, now: i64) -> i64 {
    (ends - now).div_euclid(86_400)
}

/// Expiry time of a certificate that the file names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateEnd {
    pub(super) path: String,
    pub file: PathBuf,
    /// Seconds since 1970.
    pub ends: i64,
}

/// `[admin]`: endpoints for operators and monitoring.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AdminConfig {
    /// Address of `/metrics`, `/healthz` and `/readyz`; none when absent.
    pub listen: Option<SocketAddr>,
    /// Socket for the command line; `admin.sock` in the store's directory unless configured.
    #[serde(serialize_with = "super::serialize::as_debug")]
    pub socket: PathBuf,
}

/// How the command line finds a running server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerAddress {
    pub socket: PathBuf,
    /// A path that belongs to the user that the server runs as.
    pub owned: PathBuf,
}

impl Config {
    /// Returns a directory that belongs to the user that the server runs as: the store's, or the
    /// admin socket's. It may be absent.
    pub fn owned_place(&self) -> &Path {
        owned_place(&self.store, &self.admin.socket)
    }

    /// Returns the owner of the keys in the token, if each node of the cluster has its own token.
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
    /// Vendor's PKCS#11 module, a shared library.
    #[serde(serialize_with = "super::serialize::as_debug")]
    pub module: PathBuf,
    pub token_label: String,
    /// File that holds the user PIN; it must not be readable by others.
    #[serde(serialize_with = "super::serialize::as_debug")]
    pub pin_file: PathBuf,
    /// Configuration file of SoftHSM, for the environment variable `SOFTHSM2_CONF`.
    #[serde(serialize_with = "super::serialize::as_debug")]
    pub softhsm_conf: Option<PathBuf>,
    /// `CKA_LABEL` of the signing key pairs.
    pub key_label: String,
    /// Directory of the vendor's attestations, one `KID.pem` per key; none when absent.
    #[serde(serialize_with = "super::serialize::as_debug")]
    pub attestation: Option<PathBuf>,
    /// Number of sessions, and of signer threads.
    pub sessions: usize,
    /// Timeout for the signatures of a request.
    pub sign_timeout: Duration,
    /// Maximum number of queued signatures; further ones are answered 503.
    pub queue: usize,
    /// Maximum duration of a call into the module, after which the process aborts to be restarted.
    pub hang_abort: Duration,
    /// Mechanism that computes signatures.
    pub mechanism: Mechanism,
    /// Whether keys must have been generated on the token (`CKA_LOCAL`).
    pub require_local: bool,
    /// Whether all nodes of the cluster reach the same keys: a network HSM, or clones of one token.
    pub shared: bool,
}

/// PKCS#11 mechanism of an RS256 signature; the signature is the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Mechanism {
    /// `CKM_RSA_PKCS` over a `DigestInfo` computed by the server. Every token supports it, and only
    /// 51 bytes are transferred.
    RsaPkcs,
    /// `CKM_SHA256_RSA_PKCS`: the token computes the hash. For tokens that sign only their own
    /// hashes.
    Sha256RsaPkcs,
}

/// `[store]`: the storage engine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "engine")]
pub enum StoreConfig {
    /// Local files of a single server.
    Sled(SledConfig),
    /// A PostgreSQL database, shared by the nodes of a cluster.
    Postgres(PostgresConfig),
}

/// `engine = "sled"`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SledConfig {
    #[serde(serialize_with = "super::serialize::as_debug")]
    pub path: PathBuf,
    /// Size of the engine's page cache, bytes.
    pub cache_bytes: u64,
    /// Minimum free disk space, bytes; below it, writes are answered 503.
    pub reserve_bytes: u64,
    /// Maximum number of queued commits; further ones are answered 503.
    pub queue: usize,
}

/// `engine = "postgres"`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PostgresConfig {
    /// File that holds the database URL, including a password.
    #[serde(serialize_with = "super::serialize::as_debug")]
    pub url_file: PathBuf,
    /// Authorities that sign the servers' certificates. When absent, every server is on this
    /// machine.
    #[serde(serialize_with = "super::serialize::as_debug")]
    pub ca_file: Option<PathBuf>,
    /// Number of writing connections.
    pub writers: usize,
    /// Maximum number of queued commits; further ones are answered 503.
    pub queue: usize,
    pub durability: Durability,
}

/// What protects acknowledged commits from the loss of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Durability {
    /// A standby that the server waits for.
    Standby,
    /// A layer below the database, as in a managed service.
    External,
}

/// `[cluster]`: this node of the cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ClusterConfig {
    /// Unique name of this node, kept over restarts.
    pub node: String,
    pub beat: BeatDurability,
    /// Maximum age of the last heartbeat's start for decisions to rely on it, milliseconds.
    pub staleness_ms: u64,
}

/// Whether a heartbeat waits for the standby, as commits do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum BeatDurability {
    /// It waits. Nodes do not trust a primary that was isolated.
    Replicated,
    /// It does not wait: decisions continue while the only standby is down. The operator must then
    /// prevent nodes from using an old primary.
    Local,
}

/// `[tokens]`: lifetimes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TokensConfig {
    /// Lifetime of access tokens and ID tokens.
    pub access_token: Duration,
    pub authorization_code: Duration,
    /// Lifetime of a refresh token from its issue; each rotation restarts it.
    pub refresh_token: Duration,
    /// Time during which the parent of an unused refresh token can be retried, for clients without
    /// a setting of their own.
    pub refresh_retry: Duration,
    /// Whether clients with the scope `groups` may request it.
    pub groups_scope: bool,
}

/// `[keys]`: rotation of signing keys.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct KeysConfig {
    /// Time after which the server rotates a signing key automatically; never when absent.
    pub rotate: Option<Duration>,
    /// Times of publication before the first signature and of retention after the last.
    #[serde(flatten)]
    pub times: KeyTimes,
    /// Cache lifetime of the JWK set for clients: slightly shorter than the time a key is published
    /// before it signs.
    #[serde(skip)]
    pub cache: Duration,
}

/// `[sessions]`: lifetimes of browser sessions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SessionsConfig {
    /// Maximum time without a request.
    pub idle: Duration,
    pub absolute: Duration,
    /// Maximum duration of a started sign-in.
    pub interaction: Duration,
    /// Maximum number of started sign-ins on the server.
    pub max_interactions: usize,
    /// Maximum number of forms kept while their senders sign in; none when zero.
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
    /// `/oauth/logout`, per client address.
    pub logout: RateLimit,
    /// `/oauth/register`, per client address.
    pub register: RateLimit,
    /// Pages of the sign-in and all other provider paths, per client address.
    pub pages: RateLimit,
}

/// `[login]`: limits on password guesses. Only failures count.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LoginConfig {
    /// Failed attempts per account: burst, and number restored in each `window`.
    pub failures_per_account: u32,
    /// Failed attempts per address: burst, and number restored in each `window`.
    pub failures_per_address: u32,
    /// Time in which that number of failures expires.
    pub window: Duration,
    /// Number of threads that verify passwords.
    pub password_threads: usize,
    /// Maximum number of queued password checks; further ones are answered 503.
    pub password_queue: usize,
}

/// `[registration]`: dynamic client registration over HTTP.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Registration {
    pub mode: RegistrationMode,
    /// Maximum number of clients registered over HTTP.
    pub max_clients: usize,
    /// Retention of such a client that has never received a token.
    pub unused: Duration,
    /// Accounts that are notified when such a client needs approval.
    pub notify: Vec<Email>,
}

/// Access to client registration over HTTP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum RegistrationMode {
    Off,
    /// Only with an initial access token (RFC 7591 §3).
    Token,
    Open,
}

/// `[pages]`: appearance of the pages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PagesConfig {
    /// Operator's name, shown on each page.
    pub operator: String,
    /// Fallback language of pages, if neither the request nor the browser names a supported one.
    pub default_language: Language,
    /// Operator's logo; none when absent.
    pub logo: Option<Logo>,
    /// Colour of links and buttons; the built-in one when absent.
    pub accent: Option<Accent>,
}

/// `[console]`: the developer console.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Console {
    pub enabled: bool,
    /// Group whose members are developers, in addition to users with the role.
    pub developers: Option<String>,
    /// Group whose members are administrators, in addition to users with the role.
    pub admins: Option<String>,
    /// Maximum age of a sign-in for using the console.
    pub sign_in: Duration,
}

/// `[audit]`: retention of the audit log in the store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AuditConfig {
    /// Retention of a record; zero keeps none.
    pub keep: Duration,
    /// Maximum number of records; the oldest are deleted first.
    pub max_records: usize,
}

/// `[forward_auth]`: proxies that request decisions for their clients.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ForwardAuth {
    /// Networks of these proxies; none may when empty.
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
    pub fn is_for(&self, client: &ClientId) -> bool {
        self.enabled || self.clients.contains(client)
    }

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
