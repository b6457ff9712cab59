//! The typed and checked settings for the rest of the program.
//!
//! `file` reads the TOML file key by key. `check` converts it to these values and reports every
//! error at once. This module opens no socket, does not access the token and starts nothing.

mod acme;
mod app;
mod appearance;
mod check;
mod difference;
mod disk;
mod factors;
mod fault;
mod file;
mod issuer;
mod mail;
mod people_registration;
mod preset;
pub mod request_fields;
mod secret_file;
mod serialize;
mod settings;
mod tls;
mod trusted_issuer;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use disk::Files;

pub use acme::{ACME_SUFFIX, AcmeChallenge, AcmeConfig};
pub use app::{Access, App, AuthorizationHeader, Caching, IdentityValue, Names, RulePerson, Upstream, UpstreamTls};
pub use app::{GroupsDelimiter, IdentityHeaders, PathCharacters, Route, host_name};
pub use appearance::Accent;
pub use appearance::{Logo, Picture};
pub use difference::Difference;
pub use disk::not_after;
pub use factors::EnrolmentChoice;
pub use factors::FactorsConfig;
pub use fault::ConfigFault;
pub use issuer::IssuerUrl;
pub use issuer::{authority, is_loopback_host};
pub use mail::{MailConfig, MailCredentials, MailTls, Mailbox};
pub use people_registration::{PeopleRegistration, PeopleRegistrationMode};
pub use secret_file::{read_longer_secret_file, read_secret_file};
pub use settings::{
    AdminConfig, CertificateEnd, ClusterConfig, Console, EXPIRES_SOON, FormPost, ForwardAuth, KeysConfig, Log,
    LogFormat, PostgresConfig, RateLimits, Registration, ServerAddress, SessionsConfig, TokensConfig, days_left,
};
pub use settings::{
    AuditConfig, BeatDurability, Config, Durability, Hsm, LoginConfig, Mechanism, PagesConfig, RegistrationMode,
    ServerConfig, SledConfig, StoreConfig,
};
pub use tls::{ClientCertificates, Presence, TlsConfig};
pub use trusted_issuer::KeySource;
pub use trusted_issuer::TrustedIssuer;

pub use sealgate_domain::language::Language;

impl Config {
    /// Reads a file and checks everything that can be checked before a socket opens, including the
    /// files that it names.
    ///
    /// # Errors
    /// Every error, in the file's order.
    pub fn load(path: &Path) -> Result<Self, Vec<ConfigFault>> {
        let credentials = std::env::var_os("CREDENTIALS_DIRECTORY").map(PathBuf::from);
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
