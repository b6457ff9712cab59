//! Checked configuration of Sealgate.
//!
//! The module `file` reads the TOML file key by key. The module `check` converts the file to
//! settings, and reports all errors at once. This crate does not open sockets and does not access
//! the PKCS#11 token.

mod acme;
mod app;
mod app_hosts;
mod appearance;
mod applications;
mod check;
mod client;
mod console;
mod difference;
mod directory;
mod disk;
mod factors;
mod file;
mod fixed_headers;
mod health_check;
mod issuer;
mod login;
mod mail;
mod maintenance;
mod new_app;
mod preset;
mod reference;
pub mod request_fields;
mod resources;
mod route_limits;
mod route_upstream;
mod serialize;
mod settings;
mod telemetry;
mod tls;
mod upstream;
mod upstream_protocol;
mod user_registration;

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};

use disk::Files;
use sealgate_domain::client::Client;
use sealgate_domain::redirect_uri::RedirectUri;

pub use acme::{ACME_SUFFIX, AcmeChallenge, AcmeConfig, ExternalAccount, LETS_ENCRYPT};
pub use app::{
    Access, App, AuthorizationHeader, Caching, GroupsDelimiter, IdentityHeaders, IdentityValue, Names, PathCharacters,
    Route, RuleUser, Sticky, Upstream, UpstreamTls, host_name,
};
pub use app_hosts::{AppHosts, CoveredHost};
pub use appearance::{Accent, Logo, Picture};
pub use applications::{AppFields, ApplicationsFile, EditableApp, EditableRule, RuleFields, SaveError};
pub use client::DefinedClient;
pub use console::{Console, UserManagers};
pub use difference::Difference;
pub use directory::{
    DirectoryAccount, DirectoryGroups, DirectoryKind, DirectorySecurity, DirectoryServer, DirectorySettings,
    DirectoryUsers, GroupSource,
};
pub use disk::{not_after, read_longer_secret_file, read_secret_file};
pub use factors::{EnrolmentChoice, FactorsConfig};
pub use fixed_headers::{FixedHeaders, read_header_file};
pub use health_check::HealthCheck;
pub use issuer::{IssuerUrl, KeySource, TrustedIssuer, authority, is_loopback_host};
pub use login::{AppLoginConfig, LoginAccount, RecipeFile, read_login_password};
pub use mail::{MailConfig, MailCredentials, MailTls, Mailbox};
pub use maintenance::Maintenance;
pub use new_app::{NewApp, Protected};
pub use reference::{ConfigText, EffectiveSetting, SettingSource, section_names};
pub use resources::{AppScope, introspection_problem, service_problem};
pub use route_limits::RouteLimits;
pub use route_upstream::{PathPrefix, RouteUpstream};
pub use sealgate_domain::language::Language;
pub use settings::{
    AdminConfig, Api, AuditConfig, BeatDurability, CertificateEnd, ClusterConfig, Config, Durability, EXPIRES_SOON,
    FormPost, ForwardAuth, Hsm, KeysConfig, Log, LogFormat, LoginConfig, Mechanism, PagesConfig, PostgresConfig,
    RateLimits, Registration, RegistrationMode, ServerAddress, ServerConfig, SessionsConfig, SledConfig, StoreConfig,
    TokenKeyUse, TokensConfig, days_left,
};
pub use telemetry::{TelemetryConfig, read_export_headers};
pub use tls::{CertificateKey, ClientCertificates, ListenerCertificate, Presence, TlsConfig, tls_key_label};
pub use upstream::{UpstreamArrival, UpstreamCredential, UpstreamKind, UpstreamLogout, UpstreamSettings};
pub use upstream_protocol::UpstreamProtocol;
pub use user_registration::{UserRegistration, UserRegistrationMode};

impl Config {
    /// Returns whether a client may register this redirect URI without an administrator.
    ///
    /// The hosts of the issuer and of the protected applications are reserved for administrators.
    /// Otherwise the owner of a page on such a host could receive the authorization codes of a
    /// client's users. `client` is the existing registration, if any. A client may keep its
    /// existing URIs.
    pub fn may_register(&self, uri: &RedirectUri, client: Option<&Client>) -> bool {
        let is_known = |client: &Client| {
            client.redirect_uris.iter().chain(&client.post_logout_redirect_uris).any(|known| known == uri)
        };
        let is_own = |host: &str| host == self.issuer.host() || self.apps.iter().any(|app| app.has_host_name(host));
        client.is_some_and(is_known) || !uri.remote_host().is_some_and(|host| is_own(&host))
    }

    /// Returns the host to which security keys and passkeys are bound (WebAuthn's RP ID).
    pub fn rp_id(&self) -> &str {
        self.factors.rp_id.as_deref().unwrap_or_else(|| self.issuer.host())
    }

    /// Reads and checks a configuration file and the files that it names.
    ///
    /// # Errors
    /// Returns all errors, in the order of the file.
    pub fn load(path: &Path) -> Result<Self, Vec<ConfigFault>> {
        Self::load_with(path, std::env::var_os("CREDENTIALS_DIRECTORY").map(PathBuf::from))
    }

    /// Reads and checks a configuration file as [`Self::load`] does. `credentials` is the directory
    /// of systemd credentials.
    ///
    /// # Errors
    /// Returns all errors, in the order of the file.
    pub fn load_with(path: &Path, credentials: Option<PathBuf>) -> Result<Self, Vec<ConfigFault>> {
        check::file(path, |base| Files::checked(base, credentials), None)
    }

    /// Reads and checks a configuration file as [`Self::load`] does, with this text instead of the
    /// content of `console.applications_file`.
    ///
    /// # Errors
    /// Returns all errors, in the order of the file.
    pub fn load_with_applications(path: &Path, applications: &str) -> Result<Self, Vec<ConfigFault>> {
        let credentials = std::env::var_os("CREDENTIALS_DIRECTORY").map(PathBuf::from);
        check::file(path, |base| Files::checked(base, credentials), Some(applications))
    }

    /// Reads and checks a configuration file, but not the files that it names.
    ///
    /// This function is for commands that need neither the token nor a certificate. Such a command
    /// may have no access to the file of the PIN.
    ///
    /// # Errors
    /// Returns all errors of the text itself, in the order of the file.
    pub fn read(path: &Path) -> Result<Self, Vec<ConfigFault>> {
        check::file(path, Files::unchecked, None)
    }

    /// Returns the address of the server that runs with this file. Ignores errors in other parts of
    /// the file.
    ///
    /// Returns `None` if the file cannot be read or does not contain the server's address.
    pub fn reach(path: &Path) -> Option<ServerAddress> {
        check::reach(path)
    }

    /// Checks the text of a configuration file, but not the files that it names.
    ///
    /// Relative paths start at `base`, the directory of the file.
    ///
    /// # Errors
    /// Returns all errors of the text itself, in the order of the text.
    pub fn parse(text: &str, base: &Path) -> Result<Self, Vec<ConfigFault>> {
        check::text(text, &Files::unchecked(base.to_owned()), None)
    }
}

/// Returns all known keys, such as `server.listen` and `app.route.path`.
pub fn known_keys() -> BTreeSet<String> {
    check::known_keys()
}

/// Error in a configuration file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigFault {
    line: Option<usize>,
    path: String,
    problem: String,
}

impl ConfigFault {
    /// Creates an error for the value at `path`, such as `app[0].route[2].access`.
    ///
    /// `problem` first describes the problem and then the allowed values.
    fn new(path: String, line: Option<usize>, problem: String) -> Self {
        Self { line, path, problem }
    }

    /// Returns the location of the error: a key such as `app[0].route[2].access`.
    ///
    /// Returns a position such as `line 3, column 5` if the text is not valid TOML. Returns the
    /// name of the file if the file cannot be read.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Returns the line in the file, starting at 1, or `None` if neither the key nor its table is
    /// present.
    pub fn line(&self) -> Option<usize> {
        self.line
    }
}

/// Formats the error as one line: `path: problem; allowed values (line n)`.
impl fmt::Display for ConfigFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.problem)?;
        match self.line {
            Some(line) => write!(f, " (line {line})"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for ConfigFault {}
