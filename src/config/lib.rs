//! The typed and checked settings for the rest of the program.
//!
//! `file` reads the TOML file key by key. `check` converts it to these values and reports every
//! error at once. This module opens no socket, does not access the token and starts nothing.
//!
//! Errors in a configuration file, written for its author.

mod acme;
mod app;
mod appearance;
mod check;
mod difference;
mod disk;
mod factors;
mod file;
mod issuer;
mod mail;
mod people_registration;
mod preset;
pub mod request_fields;
mod serialize;
mod settings;
mod tls;

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};

use disk::Files;
use sealgate_domain::client::Client;
use sealgate_domain::redirect_uri::RedirectUri;

pub use acme::{ACME_SUFFIX, AcmeChallenge, AcmeConfig, LETS_ENCRYPT};
pub use app::{
    Access, App, AuthorizationHeader, Caching, GroupsDelimiter, IdentityHeaders, IdentityValue, Names, PathCharacters,
    Route, RulePerson, Upstream, UpstreamTls, host_name,
};
pub use appearance::{Accent, Logo, Picture};
pub use difference::Difference;
pub use disk::{not_after, read_longer_secret_file, read_secret_file};
pub use factors::{EnrolmentChoice, FactorsConfig};
pub use issuer::{IssuerUrl, KeySource, TrustedIssuer, authority, is_loopback_host};
pub use mail::{MailConfig, MailCredentials, MailTls, Mailbox};
pub use people_registration::{PeopleRegistration, PeopleRegistrationMode};
pub use sealgate_domain::language::Language;
pub use settings::{
    AdminConfig, AuditConfig, BeatDurability, CertificateEnd, ClusterConfig, Config, Console, Durability, EXPIRES_SOON,
    FormPost, ForwardAuth, Hsm, KeysConfig, Log, LogFormat, LoginConfig, Mechanism, PagesConfig, PostgresConfig,
    RateLimits, Registration, RegistrationMode, ServerAddress, ServerConfig, SessionsConfig, SledConfig, StoreConfig,
    TokensConfig, days_left,
};
pub use tls::{ClientCertificates, Presence, TlsConfig};

impl Config {
    /// Returns whether this client may have this redirect URI without an administrator.
    ///
    /// The hosts of the issuer and of the protected applications are for administrators: the pages
    /// there belong to others, and would receive the codes of the client's users. `client` is the
    /// registered client, which keeps its URIs.
    pub fn may_register(&self, uri: &RedirectUri, client: Option<&Client>) -> bool {
        let is_known = |client: &Client| {
            client.redirect_uris.iter().chain(&client.post_logout_redirect_uris).any(|known| known == uri)
        };
        let is_own =
            |host: &str| host == self.issuer.host() || self.apps.iter().any(|app| host_name(&app.host) == host);
        client.is_some_and(is_known) || !uri.remote_host().is_some_and(|host| is_own(&host))
    }

    /// Returns the host to which security keys and passkeys are bound (WebAuthn's RP ID).
    pub fn rp_id(&self) -> &str {
        self.factors.rp_id.as_deref().unwrap_or_else(|| self.issuer.host())
    }

    /// Reads a file and checks everything that can be checked before a socket opens, including the
    /// files that it names.
    ///
    /// # Errors
    /// Every error, in the file's order.
    pub fn load(path: &Path) -> Result<Self, Vec<ConfigFault>> {
        Self::load_with(path, std::env::var_os("CREDENTIALS_DIRECTORY").map(PathBuf::from))
    }

    /// Does the same with this directory of the service's credentials.
    ///
    /// # Errors
    /// Every error, in the file's order.
    pub fn load_with(path: &Path, credentials: Option<PathBuf>) -> Result<Self, Vec<ConfigFault>> {
        check::file(path, |base| Files::checked(base, credentials))
    }

    /// Reads a file without reading the files that it names.
    ///
    /// For commands that need neither the token nor the certificate, and may run without access to
    /// the PIN.
    ///
    /// # Errors
    /// Every error that the text alone shows, in the file's order.
    pub fn read(path: &Path) -> Result<Self, Vec<ConfigFault>> {
        check::file(path, Files::unchecked)
    }

    /// Returns how to reach a server that runs with this file, even if the file has other errors.
    ///
    /// Returns none if the file cannot be read or does not contain the location.
    pub fn reach(path: &Path) -> Option<ServerAddress> {
        check::reach(path)
    }

    /// Parses a file's text without reading the files that it names.
    ///
    /// Relative paths start at `base`, the directory of the file.
    ///
    /// # Errors
    /// Every error that the text alone shows, in its order.
    pub fn parse(text: &str, base: &Path) -> Result<Self, Vec<ConfigFault>> {
        check::text(text, &Files::unchecked(base.to_owned()))
    }
}

/// Returns every known key, such as `server.listen` and `app.route.path`.
pub fn known_keys() -> BTreeSet<String> {
    check::known_keys()
}

/// An error in a configuration file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigFault {
    line: Option<usize>,
    path: String,
    problem: String,
}

impl ConfigFault {
    /// Creates an error in the value at `path`, such as `app[0].route[2].access`.
    ///
    /// `problem` states the problem, then the allowed values.
    fn new(path: String, line: Option<usize>, problem: String) -> Self {
        Self { line, path, problem }
    }

    /// Returns the location of the error.
    ///
    /// This is a TOML path; `line 3, column 5` if the text is not TOML; or the file's name if it
    /// cannot be read.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Returns the line in the file, from 1; none if the key or its table is missing.
    pub fn line(&self) -> Option<usize> {
        self.line
    }
}

/// Formats one line: `path: problem; allowed values (line n)`.
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
