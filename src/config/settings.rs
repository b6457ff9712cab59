//! The sections of the configuration, checked.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ipnet::IpNet;
use serde::Serialize;

use super::app::App;
use super::appearance::{Accent, Logo};
use super::factors::FactorsConfig;
use super::fault::ConfigFault;
use super::issuer::IssuerUrl;
use super::mail::MailConfig;
use super::people_registration::PeopleRegistration;
use super::tls::{ClientCertificates, TlsConfig};
use super::trusted_issuer::TrustedIssuer;
use crate::domain::client::ClientId;
use crate::domain::key_ring::{KeyTimes, TokenHolder};
use crate::domain::language::Language;
use crate::domain::rate_limit::RateLimit;
use crate::domain::user::Email;

/// Everything that the configuration file says, checked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Config {
    /// The provider's base address, as it stands in tokens and discovery.
    #[serde(serialize_with = "super::serialize::as_debug")]
    pub issuer: IssuerUrl,
    /// The public listeners.
    pub server: ServerConfig,
    /// Metrics, health and the command line's socket.
    pub admin: AdminConfig,
    /// The PKCS#11 token that holds the signing keys.
    pub hsm: Hsm,
    /// Where state is kept.
    pub store: StoreConfig,
    /// This node of the fleet, where the store is shared.
    pub fleet: Option<FleetConfig>,
    pub tokens: TokensConfig,
    pub keys: KeysConfig,
    pub sessions: SessionsConfig,
    /// Requests a minute, by endpoint.
    pub rate_limits: RateLimits,
    /// Guesses of passwords.
    pub login: LoginConfig,
    /// The level that sign-ins must reach.
    pub factors: FactorsConfig,
    pub registration: Registration,
    pub pages: PagesConfig,
    /// The server that takes our mails; none are sent when absent.
    pub mail: Option<MailConfig>,
    /// Whether people make their own accounts.
    pub registration_of_people: PeopleRegistration,
    pub console: Console,
    pub log: Log,
    /// What is kept of the audit trail.
    pub audit: AuditConfig,
    /// Who may ask for decisions on behalf of their clients.
    pub forward_auth: ForwardAuth,
    /// Which clients may have the answers of their sign-ins in forms.
    pub form_post: FormPost,
    /// Other issuers whose access tokens some applications take.
    #[serde(rename = "trusted_issuer", serialize_with = "super::serialize::as_debug")]
    pub trusted_issuers: Vec<TrustedIssuer>,
    /// The protected applications, in the file's order.
    #[serde(skip)]
    pub apps: Vec<App>,
    /// What is allowed, and may be a mistake nevertheless. Found by [`Config::load`] alone.
    #[serde(skip)]
    pub warnings: Vec<ConfigFault>,
    /// Until when the certificates are good, as far as they were read.
    #[serde(skip)]
    pub certificate_ends: Vec<CertificateEnd>,
}

impl Config {
    /// Warnings of certificates that have expired at `now`, seconds since 1970, or are about to: browsers refuse them.
    pub fn expiring(&self, now: i64) -> Vec<ConfigFault> {
        let told = self.certificate_ends.iter().filter_map(|CertificateEnd { path, file, ends }| {
            let file = file.display();
            let problem = match days_left(*ends, now) {
                EXPIRES_SOON.. => return None,
                ..0 => format!("{file} has expired, and browsers refuse it; renew it"),
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
    /// Certificates and keys; the first is shown to whom no other is for. Plain HTTP when there is none.
    #[serde(serialize_with = "super::serialize::as_debug")]
    pub tls: Vec<TlsConfig>,
    /// Who must show a certificate to us, and whose; nobody is asked when absent.
    #[serde(flatten)]
    pub client_certificates: Option<ClientCertificates>,
    /// Addresses that answer plain HTTP with a redirect to https, and with nothing else.
    pub redirect_listen: Vec<SocketAddr>,
    /// For how long browsers are told to come over https only (RFC 6797); not at all when zero.
    pub hsts: Duration,
    /// Peers whose `X-Forwarded-*` headers are believed.
    #[serde(serialize_with = "super::serialize::as_debug")]
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

/// A certificate that is good for fewer days than this is told of.
pub(crate) const EXPIRES_SOON: i64 = 14;

/// Whole days between two times, seconds since 1970; below 0 when `ends` has passed.
pub(crate) const fn days_left(ends: i64, now: i64) -> i64 {
    (ends - now).div_euclid(86_400)
}

/// Until when a certificate is good that the file names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateEnd {
    pub(super) path: String,
    pub(super) file: PathBuf,
    /// Seconds since 1970.
    pub(super) ends: i64,
}

/// `[admin]`: what operators and monitoring talk to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AdminConfig {
    /// `/metrics`, `/healthz` and `/readyz`; none when absent.
    pub listen: Option<SocketAddr>,
    /// The command line talks to a running server here; `admin.sock` in the store's directory unless configured.
    #[serde(serialize_with = "super::serialize::as_debug")]
    pub socket: PathBuf,
}

/// How the command line finds a running server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reach {
    pub socket: PathBuf,
    /// What belongs to the user whom the server runs as.
    pub owned: PathBuf,
}

impl Config {
    /// A directory that belongs to the user whom the server runs as: the store's, or the admin socket's. It may be absent.
    pub(crate) fn owned_place(&self) -> &Path {
        owned_place(&self.store, &self.admin.socket)
    }

    /// Whose the keys in the token are, where each node of the fleet has a token of its own.
    pub(crate) fn token_holder(&self) -> Option<TokenHolder> {
        let fleet = self.fleet.as_ref().filter(|_| !self.hsm.shared)?;
        Some(TokenHolder { node: fleet.node.clone(), issuer: self.issuer.as_str().to_owned() })
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
    /// The vendor's PKCS#11 module, a shared library.
    #[serde(serialize_with = "super::serialize::as_debug")]
    pub module: PathBuf,
    pub token_label: String,
    /// A file that holds the user PIN; others may not be able to read it.
    #[serde(serialize_with = "super::serialize::as_debug")]
    pub pin_file: PathBuf,
    /// `CKA_LABEL` of the signing key pairs.
    pub key_label: String,
    /// The directory of the vendor's attestations, `KID.pem` each; none when absent.
    #[serde(serialize_with = "super::serialize::as_debug")]
    pub attestation: Option<PathBuf>,
    /// Sessions (and signer threads).
    pub sessions: usize,
    /// The longest that a request waits for its signatures.
    pub sign_timeout: Duration,
    /// Signatures that may wait at once; more are answered 503.
    pub queue: usize,
    /// How long a call into the module may last before the process aborts for a new one.
    pub hang_abort: Duration,
    /// What the token is asked to compute.
    pub mechanism: Mechanism,
    /// Whether a key must have been made on the token (`CKA_LOCAL`).
    pub require_local: bool,
    /// Whether all nodes of the fleet reach the same keys: a network HSM, or clones of one token.
    pub shared: bool,
}

/// How the token makes an RS256 signature; the outcome is the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Mechanism {
    /// `CKM_RSA_PKCS` over a `DigestInfo` that was made here: every token has it, and only 51 bytes travel.
    RsaPkcs,
    /// `CKM_SHA256_RSA_PKCS`: the token hashes, for tokens that sign nothing but what they hashed themselves.
    Sha256RsaPkcs,
}

/// `[store]`: what keeps the bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "engine")]
pub enum StoreConfig {
    /// Files of this machine, for one server.
    Sled(SledConfig),
    /// A database, which the nodes of a fleet share.
    Postgres(PostgresConfig),
}

/// `engine = "sled"`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SledConfig {
    #[serde(serialize_with = "super::serialize::as_debug")]
    pub path: PathBuf,
    /// The engine's page cache, bytes.
    pub cache_bytes: u64,
    /// Writes are answered 503 while the disk has less free space than this, bytes.
    pub reserve_bytes: u64,
    /// Commits that may wait at once; more are answered 503.
    pub queue: usize,
}

/// `engine = "postgres"`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PostgresConfig {
    /// A file that holds the database's URL, a password in it.
    #[serde(serialize_with = "super::serialize::as_debug")]
    pub url_file: PathBuf,
    /// Who signed the servers' certificates; without it every server is on this machine.
    #[serde(serialize_with = "super::serialize::as_debug")]
    pub ca_file: Option<PathBuf>,
    /// Connections that write.
    pub writers: usize,
    /// Commits that may wait at once; more are answered 503.
    pub queue: usize,
    pub durability: Durability,
}

/// Who keeps what is acknowledged from being lost with a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Durability {
    /// A standby that the server waits for.
    Standby,
    /// Something below the database, as in a managed service.
    External,
}

/// `[fleet]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FleetConfig {
    /// This node's name: one of its own for each, kept over restarts.
    pub node: String,
    pub beat: BeatDurability,
    /// How long ago a beat may have begun for decisions to rest on it.
    pub staleness_ms: u64,
}

/// Whether a beat waits for the standby, as commits do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum BeatDurability {
    /// It does: a primary that was cut off is not believed.
    Replicated,
    /// It does not: decisions go on while the only standby is away. What keeps an old primary from being believed is then
    /// whoever manages the servers.
    Local,
}

/// `[tokens]`: lifetimes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TokensConfig {
    /// Of an access token and an ID token.
    pub access_token: Duration,
    pub authorization_code: Duration,
    /// Of a refresh token, from its issue; each rotation starts it anew.
    pub refresh_token: Duration,
    /// How long the parent of an unused refresh token is good for the same child, for clients that say nothing else.
    pub refresh_retry: Duration,
    /// Whether clients that were given the scope `groups` may ask for it.
    pub groups_scope: bool,
}

/// `[keys]`: how signing keys follow one another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct KeysConfig {
    /// For how long a key signs before the server replaces it by itself; for ever when absent.
    pub rotate: Option<Duration>,
    /// How long a key is published before it signs, and kept after it has signed for the last time.
    #[serde(flatten)]
    pub times: KeyTimes,
    /// How long clients may keep the JWK set: a little shorter than a key is published before it signs.
    #[serde(skip)]
    pub cache: Duration,
}

/// `[sessions]`: lifetimes of a browser's sign-in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SessionsConfig {
    /// Without any request.
    pub idle: Duration,
    pub absolute: Duration,
    /// How long a started sign-in may take.
    pub interaction: Duration,
    /// Started sign-ins that may be open at once, in all.
    pub max_interactions: usize,
    /// Forms that may be kept at once while their senders sign in, in all; none when zero.
    pub max_forms: usize,
}

/// `[rate_limits]`: requests a minute.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RateLimits {
    /// `/oauth/authorize`, per client address.
    pub authorize: RateLimit,
    /// Sign-ins begun at an application or on the provider's own pages, per client address.
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
    /// The pages of the sign-in and all other provider paths, per client address.
    pub pages: RateLimit,
}

/// `[login]`: guesses of passwords. Only failures count.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LoginConfig {
    /// Failed attempts an account at once, and in each further `window`.
    pub failures_per_account: u32,
    /// Failed attempts an address at once, and in each further `window`.
    pub failures_per_address: u32,
    /// How long it takes until so many failures are forgotten.
    pub window: Duration,
    /// Threads that check passwords.
    pub password_threads: usize,
    /// Password checks that may wait at once; more are answered 503.
    pub password_queue: usize,
}

/// `[registration]`: who may register a client over HTTP.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Registration {
    pub mode: RegistrationMode,
    /// Clients registered over HTTP that may exist at once.
    pub max_clients: usize,
    /// How long one of them stays that has never received a token.
    pub unused: Duration,
    /// Accounts that are notified when one of them needs an approval.
    pub notify: Vec<Email>,
}

/// Who may register a client over HTTP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum RegistrationMode {
    Off,
    /// Who holds an initial access token (RFC 7591 §3).
    Token,
    Open,
}

/// `[pages]`: what people see.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PagesConfig {
    /// The operator's name, shown on each page.
    pub operator: String,
    /// The language of a page when neither the request nor the browser names one we have.
    pub default_language: Language,
    /// The operator's logo; none when absent.
    pub logo: Option<Logo>,
    /// The colour of links and buttons; our own when absent.
    pub accent: Option<Accent>,
}

/// `[console]`: the developer console.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Console {
    pub enabled: bool,
    /// People in this group are developers, beside those who have the role.
    pub developers: Option<String>,
    /// People in this group are administrators, beside those who have the role.
    pub admins: Option<String>,
    /// How old a sign-in may be to work in the console.
    pub sign_in: Duration,
}

/// `[audit]`: the trail's records in the store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AuditConfig {
    /// How long a record is kept; zero keeps none.
    pub keep: Duration,
    /// Records that are kept at once; the oldest give way.
    pub max_records: usize,
}

/// `[forward_auth]`: proxies that ask for decisions on behalf of their clients.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ForwardAuth {
    /// The networks that they ask from; nobody may when empty.
    #[serde(serialize_with = "super::serialize::as_debug")]
    pub trusted: Vec<IpNet>,
}

/// `[form_post]`: clients that may have the answers of their sign-ins in forms (`response_mode=form_post`).
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

/// `[log]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Log {
    pub format: LogFormat,
    /// A `tracing` filter, such as `info` or `sealgate=debug`.
    pub filter: String,
}

/// The shape of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum LogFormat {
    Text,
    /// One JSON object a line.
    Json,
}
