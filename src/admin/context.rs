//! Dependencies and errors of commands.

use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use async_trait::async_trait;
use secrecy::SecretString;

use crate::keys::SignerAccess;
use sealgate_config::{App, Console, TrustedIssuer};
use sealgate_core::audit::AuditLog;
use sealgate_core::password::{PasswordError, Passwords, QueueKey, check_blocking, hash_blocking};
use sealgate_core::state::Sealgate;
use sealgate_domain::api_token::ApiToken;
use sealgate_domain::audit::{Actor, AuditEvent, AuditKind};
use sealgate_domain::client::Authority;
use sealgate_domain::grant::EndReason;
use sealgate_domain::key_ring::KeyTimes;
use sealgate_domain::line_fault::LineFault;
use sealgate_domain::oauth::jwk_set::Algorithm;
use sealgate_domain::password_rules::{Owner, PasswordFault};
use sealgate_domain::secret::Secret;
use sealgate_domain::session::KeepSignedIn;
use sealgate_domain::user::{PasswordHash, Subject};
use sealgate_store::{Revocation, Store, StoreError};
use sealgate_system::clock::{Clock, Entropy};

/// Maximum number of users, clients or sessions in one answer.
pub(super) const PAGE: usize = 100;

/// Dependencies of a command, and the identity of its sender.
#[derive(Clone, Copy)]
pub struct CommandContext<'a> {
    pub store: &'a Store,
    pub clock: &'a dyn Clock,
    pub entropy: &'a dyn Entropy,
    /// Hasher of new passwords.
    pub passwords: &'a dyn HashPassword,
    pub keys: &'a dyn SignerAccess,
    /// Algorithms with keys.
    pub algorithms: &'a [Algorithm],
    /// Durations of the states of signing keys.
    pub key_times: KeyTimes,
    /// Whether users stay signed in on a device.
    pub keep_signed_in: KeepSignedIn,
    /// Audit log.
    pub trail: &'a AuditLog,
    /// URL of the issuer: the first part of each link in a mail.
    pub issuer: &'a str,
    pub mailing: Mailing<'a>,
    /// Roles that groups give.
    pub console: &'a Console,
    /// Protected applications.
    pub apps: &'a [App],
    /// Issuers that can vouch for workloads.
    pub trusted_issuers: &'a [TrustedIssuer],
    /// Configuration file, for errors about the clients that it defines.
    pub config_file: Option<&'a Path>,
    /// Interval of automatic key rotation.
    pub rotate: Option<Duration>,
    pub actor: Actor,
    pub authority: Authority,
    /// Client address and id of the request, if any.
    pub request: Option<(IpAddr, &'a str)>,
}

/// Whether a command can send mail.
#[derive(Clone, Copy)]
pub enum Mailing<'a> {
    /// No server runs, so there is no data key to seal a mail, and no process that would send it.
    NoServer,
    /// The server sends no mail.
    Off,
    On(&'a Sealgate),
}

impl<'a> CommandContext<'a> {
    /// Creates the context of a command to a running server.
    pub fn new(sealgate: &'a Sealgate) -> Self {
        Self {
            store: &sealgate.store,
            clock: &*sealgate.clock,
            entropy: &*sealgate.entropy,
            passwords: &*sealgate.passwords,
            keys: sealgate,
            algorithms: &sealgate.config.keys.algorithms,
            key_times: sealgate.config.keys.times,
            keep_signed_in: sealgate.config.sessions.keep_signed_in,
            trail: &sealgate.audit,
            issuer: sealgate.config.issuer.as_str(),
            mailing: if sealgate.sends_mail() { Mailing::On(sealgate) } else { Mailing::Off },
            console: &sealgate.config.console,
            apps: &sealgate.config.apps,
            trusted_issuers: &sealgate.config.trusted_issuers,
            config_file: sealgate.config.file.as_deref(),
            rotate: sealgate.config.keys.rotate,
            actor: Actor::Operator,
            authority: Authority::Operator,
            request: None,
        }
    }

    /// Returns the same dependencies, with a user of the console as the sender.
    #[must_use]
    pub fn by(self, authority: Authority, address: IpAddr, request_id: &'a str) -> Self {
        Self { actor: authority.into(), authority, request: Some((address, request_id)), ..self }
    }

    /// Returns the same dependencies, with a token for the admin API as the sender.
    #[must_use]
    pub fn by_api_token(self, token: &ApiToken, address: IpAddr, request_id: &'a str) -> Self {
        let authority = token.creator.map_or(Authority::Operator, Authority::Administrator);
        let actor = Actor::ApiToken { token: token.id(), creator: token.creator };
        Self { actor, ..self.by(authority, address, request_id) }
    }

    /// Returns the same dependencies, with this actor in the audit log.
    #[must_use]
    pub fn recorded_as(self, actor: Actor) -> Self {
        Self { actor, ..self }
    }

    /// Returns whether the sender is a user manager.
    pub(super) fn is_user_manager(&self) -> bool {
        matches!(self.actor, Actor::UserManager(_))
    }

    /// Creates a revocation of all access of a user. A user manager ends only the sign-ins of this user
    /// in browsers with several users.
    pub(super) fn revocation(&self, user: Subject) -> Revocation {
        let revocation = self.store.new_revocation(user, EndReason::Administrator, self.clock.now());
        if self.is_user_manager() { revocation.sparing_others() } else { revocation }
    }

    /// Returns advice in the terms of the sender: `shell` for an operator at the command line, `other`
    /// for users of the console and programs.
    pub(super) fn advice<'t>(&self, shell: &'t str, other: &'t str) -> &'t str {
        if self.request.is_none() { shell } else { other }
    }

    /// Creates an audit event with the actor of the command. The caller adds the details.
    pub(super) fn event(&self, kind: AuditKind) -> AuditEvent {
        let event = AuditEvent::new(self.clock.now(), kind, self.actor);
        match self.request {
            Some((address, request_id)) => event.from_request(address, request_id),
            None => event,
        }
    }

    /// Records an action in the audit log.
    pub(super) async fn record(&self, event: AuditEvent) {
        self.trail.record(self.store, event).await;
    }
}

/// Reason why a command was not executed.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    #[error("{}", .0.join("; "))]
    Invalid(Vec<String>),
    /// A file of users has faults.
    #[error("{}", .0.lines().join("; "))]
    File(FileFaults),
    /// The object does not exist.
    #[error("{0}")]
    Absent(String),
    /// The object to add already exists.
    #[error("{0}")]
    Exists(String),
    #[error("{0}")]
    Forbidden(String),
    /// The cursor of a list cannot be read.
    #[error("the value of \"after\" is not that of \"next\" on a page of this list")]
    Cursor,
    /// The sign-in data of a user who would get a role have changed since a page showed them.
    #[error("the sign-in data of the user have changed in the meantime")]
    SignInDataChanged,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The password could not be hashed.
    #[error(transparent)]
    Password(#[from] PasswordError),
}

/// Faults of a file of users.
#[derive(Debug, Default)]
pub struct FileFaults {
    /// The first faults, by line.
    pub faults: Vec<LineFault>,
    /// Number of further faults.
    pub more: usize,
    /// Last line on the command line: nothing was changed.
    pub(crate) end: &'static str,
}

impl FileFaults {
    fn lines(&self) -> Vec<String> {
        let more = (self.more > 0).then(|| format!("and {} more", self.more));
        self.faults.iter().map(LineFault::to_string).chain(more).chain([self.end.to_owned()]).collect()
    }
}

/// Parses the cursor of a list, which the previous page has returned.
///
/// # Errors
/// [`CommandError::Cursor`] if it cannot be read. The first page instead would repeat the list.
pub(super) fn cursor<T>(after: Option<&str>, parse: impl FnOnce(&str) -> Option<T>) -> Result<Option<T>, CommandError> {
    after.map(|after| parse(after).ok_or(CommandError::Cursor)).transpose()
}

impl CommandError {
    pub(super) fn invalid(line: impl Into<String>) -> Self {
        Self::Invalid(vec![line.into()])
    }

    /// Returns the errors, one line each.
    pub fn into_lines(self) -> Vec<String> {
        match self {
            Self::Invalid(lines) => lines,
            Self::File(faults) => faults.lines(),
            other => vec![other.to_string()],
        }
    }
}

/// Hasher of new passwords.
#[async_trait]
pub trait HashPassword: Send + Sync {
    /// Hashes the password with this salt.
    ///
    /// # Errors
    /// If the password is too long, or the hashing threads are overloaded.
    async fn hash(&self, password: &Secret, salt: [u8; 16]) -> Result<PasswordHash, PasswordError>;

    /// Checks a new password.
    ///
    /// # Errors
    /// If the hashing threads are overloaded.
    async fn check(&self, password: &Secret, owner: &Owner<'_>) -> Result<Result<(), PasswordFault>, PasswordError>;
}

#[async_trait]
impl HashPassword for Passwords {
    async fn hash(&self, password: &Secret, salt: [u8; 16]) -> Result<PasswordHash, PasswordError> {
        Self::hash(self, SecretString::from(password.expose()), salt).await
    }

    async fn check(&self, password: &Secret, owner: &Owner<'_>) -> Result<Result<(), PasswordFault>, PasswordError> {
        Self::check(self, QueueKey::Trusted, password, owner).await
    }
}

/// Hashes on the calling thread; used by processes without other tasks.
#[derive(Debug, Clone, Copy, Default)]
pub struct OnThisThread;

#[async_trait]
impl HashPassword for OnThisThread {
    async fn hash(&self, password: &Secret, salt: [u8; 16]) -> Result<PasswordHash, PasswordError> {
        hash_blocking(&SecretString::from(password.expose()), salt)
    }

    async fn check(&self, password: &Secret, owner: &Owner<'_>) -> Result<Result<(), PasswordFault>, PasswordError> {
        Ok(check_blocking(password, owner))
    }
}
