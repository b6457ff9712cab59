//! Sources of users on this node: directories and OpenID providers.
//!
//! A user of a directory signs in with the password of the directory. The users who have access are
//! read again in the background. If that fails for `stale_seconds`, their requests are refused with
//! 503 until the directory answers again.
//!
//! A user of an OpenID provider signs in at the provider. The sign-in is valid for `session_seconds`,
//! and then the user must sign in there again. If the provider has issued a refresh token, the sign-in
//! is confirmed in the background. If the provider does not answer for `stale_seconds`, requests are
//! refused with 503 until it answers again.

pub(crate) mod directory;
mod places;
pub(crate) mod upstream;
mod upstream_logout;
mod upstream_refresh;

use std::sync::Arc;

use crate::state::{NotServing, Sealgate};
use crate::web::failure::Failure;
use sealgate_config::{DirectorySettings, UpstreamSettings};
use sealgate_domain::audit::{AuditEvent, AuditKind};
use sealgate_domain::source::{ProviderTerms, SourceEntry, SourceName, UserSource};
use sealgate_domain::time::UnixTime;
use sealgate_domain::user::{Email, Subject, User};
use sealgate_store::{SourceOutcome, StoreError};
use sealgate_system::clock::{Clock, random};
use sealgate_system::metrics::Metrics;
use sealgate_upstream::AssertionSigner;

pub use directory::{DirectoryAttempt, DirectoryProof, DirectorySource, DirectoryUnavailable};
pub use sealgate_ldap::LdapRefusal;
pub use upstream::{OpenIdSource, UpstreamArrived, UpstreamAttempt, UpstreamRejection, UpstreamUnavailable};
pub use upstream_logout::LogoutRefused;
pub use upstream_refresh::Refreshed;

/// All sources of users.
pub struct Sources {
    directories: Vec<Arc<DirectorySource>>,
    upstreams: Vec<Arc<OpenIdSource>>,
}

/// Server that checks the password of a sign-in.
#[derive(Clone, Copy)]
pub enum PasswordChecker<'a> {
    Local,
    Directory(&'a Arc<DirectorySource>),
    /// No password is accepted: the user signs in at an OpenID provider, or the configuration no
    /// longer has the user's source.
    Nobody,
}

/// Result of a sign-in at a directory.
pub enum SourceSignIn {
    User(Box<User>),
    Wrong,
    Refused(LdapRefusal),
    /// Another user has the address or username of the account.
    NameTaken,
    /// The account has neither an address nor a valid username.
    Nameless,
    /// There is no such user, and none may be created.
    Absent,
    /// The user's id comes from another issuer or claim than the configured ones.
    OtherOrigin,
    /// The source did not decide. The sign-in can be repeated.
    Unavailable,
}

/// Whether a user of a source still has access.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SourceAccess {
    Current,
    /// Unknown: the user's source did not answer for `stale_seconds`, or is no longer configured.
    Unknown,
    /// The user must sign in at their OpenID provider again.
    SignInNeeded,
}

/// Source that reports about a user.
pub(crate) struct SourceTerms<'a> {
    /// Name of the kind in the audit log.
    pub(crate) kind: &'static str,
    pub(crate) name: &'a SourceName,
    /// Terms of an OpenID provider. `None` for directories.
    pub(crate) provider: Option<ProviderTerms<'a>>,
    /// Whether a user is created who is not known yet.
    pub(crate) may_create: bool,
}

impl SourceTerms<'_> {
    /// Returns the terms for a known user, who is not created again if deleted meanwhile.
    pub(crate) fn of_known_user(self) -> Self {
        Self { may_create: false, ..self }
    }
}

/// Client keys of a process without a PKCS#11 token. No key can sign.
pub struct NoClientKeys;

impl AssertionSigner for NoClientKeys {
    fn public_point(&self, label: &str) -> Result<Vec<u8>, String> {
        Err(no_token(label))
    }

    fn sign(&self, label: &str, _message: &[u8]) -> Result<Vec<u8>, String> {
        Err(no_token(label))
    }
}

fn no_token(label: &str) -> String {
    format!("the client key {label:?} cannot be used: this process has no PKCS#11 token")
}

impl Sources {
    /// Opens all sources. Does not connect to them.
    ///
    /// `client_keys` signs the requests to OpenID providers.
    ///
    /// # Errors
    /// [`NotServing`] if a file of a source cannot be read.
    pub fn open(
        directories: &[DirectorySettings],
        upstreams: &[UpstreamSettings],
        client_keys: &Arc<dyn AssertionSigner>,
        metrics: &Metrics,
        clock: &Arc<dyn Clock>,
    ) -> Result<Self, NotServing> {
        let directories =
            directories.iter().map(|settings| DirectorySource::open(settings, metrics, clock).map(Arc::new));
        let open = |settings| OpenIdSource::open(settings, client_keys, metrics, clock).map(Arc::new);
        Ok(Self {
            directories: directories.collect::<Result<_, _>>()?,
            upstreams: upstreams.iter().map(open).collect::<Result<_, _>>()?,
        })
    }

    /// Returns all directories.
    pub fn directories(&self) -> &[Arc<DirectorySource>] {
        &self.directories
    }

    /// Returns the directory with this name.
    pub fn directory(&self, name: &SourceName) -> Option<&Arc<DirectorySource>> {
        self.directories.iter().find(|directory| directory.settings.name == *name)
    }

    /// Returns all OpenID providers.
    pub fn upstreams(&self) -> &[Arc<OpenIdSource>] {
        &self.upstreams
    }

    /// Returns the OpenID provider with this name.
    pub fn upstream(&self, name: &SourceName) -> Option<&Arc<OpenIdSource>> {
        self.upstreams.iter().find(|upstream| upstream.name() == name)
    }

    /// Returns who checks the password of a sign-in with this name.
    ///
    /// The password of a local user is never sent to a source. A name without a user is checked by
    /// the directory that is responsible for its domain, and otherwise by the default directory. A
    /// password is never tried at several servers. A password for a user of an OpenID provider is
    /// never accepted, and never sent anywhere.
    pub fn checker(&self, user: Option<&User>, typed: &str) -> PasswordChecker<'_> {
        let directory = match user {
            Some(User { source: None, .. }) => return PasswordChecker::Local,
            Some(User { source: Some(source), .. }) => {
                return self.directory(&source.link.source).map_or(PasswordChecker::Nobody, PasswordChecker::Directory);
            }
            None if self.upstream_for_domain(typed).is_some() => return PasswordChecker::Nobody,
            None => {
                let default = || self.directories.iter().find(|directory| directory.settings.is_default);
                self.for_domain(typed).or_else(default)
            }
        };
        directory.map_or(PasswordChecker::Local, PasswordChecker::Directory)
    }

    /// Returns the directory that is responsible for the domain of an address.
    pub fn for_domain(&self, typed: &str) -> Option<&Arc<DirectorySource>> {
        let domain = domain(typed)?;
        let is_responsible = |directory: &&Arc<DirectorySource>| {
            directory.settings.domains.iter().any(|own| own.eq_ignore_ascii_case(&domain))
        };
        self.directories.iter().find(is_responsible)
    }

    /// Returns the OpenID provider that is responsible for the domain of an address.
    pub fn upstream_for_domain(&self, typed: &str) -> Option<&Arc<OpenIdSource>> {
        let domain = domain(typed)?;
        self.upstreams.iter().find(|upstream| upstream.settings().has_domain(&domain))
    }

    /// Returns the name of a source for users: the label of an OpenID provider, or the name of a
    /// directory.
    pub fn label<'s>(&'s self, name: &'s SourceName) -> &'s str {
        self.upstream(name).map_or(name.as_str(), |upstream| upstream.settings().label.as_str())
    }

    /// Returns whether local users may link their account to one at this source, and may remove such
    /// a link.
    pub fn allows_linking(&self, name: &SourceName) -> bool {
        let of_directory = || self.directory(name).is_some_and(|directory| directory.settings.linking);
        self.upstream(name).map_or_else(of_directory, |upstream| upstream.settings().linking)
    }

    /// Returns whether a user still has access, by what their source last reported.
    pub fn access(&self, user: &User, now: UnixTime) -> SourceAccess {
        let Some(source) = &user.source else { return SourceAccess::Current };
        let name = &source.link.source;
        if let Some(directory) = self.directory(name) {
            return if directory.is_stale(&source.link.id, now) {
                SourceAccess::Unknown
            } else {
                SourceAccess::Current
            };
        }
        self.upstream(name).map_or(SourceAccess::Unknown, |upstream| upstream.access(source, now))
    }

    /// Returns whether it is unknown if the user still has access: see [`SourceAccess::Unknown`].
    pub fn is_stale(&self, user: &User, now: UnixTime) -> bool {
        self.access(user, now) == SourceAccess::Unknown
    }

    /// Returns whether the user must sign in at their OpenID provider again.
    pub fn needs_sign_in(&self, user: &User, now: UnixTime) -> bool {
        self.access(user, now) == SourceAccess::SignInNeeded
    }
}

/// Returns the domain of a typed address.
fn domain(typed: &str) -> Option<String> {
    let email = Email::parse(typed)?;
    email.as_str().rsplit_once('@').map(|(_, domain)| domain.to_owned())
}

impl Sealgate {
    /// Stores a source's report about a user. Returns why a sign-in is refused if the report cannot be
    /// stored.
    ///
    /// # Errors
    /// When the store fails.
    pub(crate) async fn apply_source_entry(
        &self,
        source: &SourceTerms<'_>,
        entry: &SourceEntry,
        event: impl Fn(AuditKind) -> AuditEvent + Send + Sync,
    ) -> Result<Result<Box<User>, SourceSignIn>, StoreError> {
        let SourceTerms { kind, name, provider, may_create } = *source;
        let new = may_create.then(|| Subject::from_random(random(self.entropy.as_ref())));
        let applied = self.store.apply_source_entry(name, entry, provider, new, self.clock.now()).await?;
        let (event_kind, user) = match applied {
            SourceOutcome::Added(user) => (AuditKind::UserCreated, user),
            SourceOutcome::Changed(user) => (changed_kind(&user), user),
            SourceOutcome::Unchanged(user) => return Ok(Ok(user)),
            SourceOutcome::NameTaken => return Ok(Err(SourceSignIn::NameTaken)),
            SourceOutcome::Nameless => return Ok(Err(SourceSignIn::Nameless)),
            SourceOutcome::Absent => return Ok(Err(SourceSignIn::Absent)),
            SourceOutcome::OtherOrigin(user) => {
                let origin = user.source.and_then(|own| own.origin);
                let (issuer, claim) = origin.map(|origin| (origin.issuer, origin.subject_claim)).unwrap_or_default();
                tracing::error!(upstream = %name, user = %user.sub, issuer, claim, "refused a user whose id comes from \
                    this other issuer or claim; restore these settings, give the new provider another name, or unlink \
                    the user and link them again");
                return Ok(Err(SourceSignIn::OtherOrigin));
            }
        };
        let event = event(event_kind).for_subject(user.sub);
        self.audit.note(event.with_detail(format!("{kind} {name}")));
        Ok(Ok(user))
    }

    /// Returns the user if enabled. A user who must sign in at their OpenID provider again counts as
    /// signed out.
    ///
    /// # Errors
    /// [`Failure::Unavailable`] if the user's source has not been read for too long, or the store's
    /// error.
    pub async fn active_user(&self, subject: Subject) -> Result<Option<User>, Failure> {
        let Some(user) = self.store.user(subject).await?.filter(User::is_enabled) else { return Ok(None) };
        match self.sources.access(&user, self.clock.now()) {
            SourceAccess::Current => Ok(Some(user)),
            SourceAccess::SignInNeeded => Ok(None),
            SourceAccess::Unknown => Err(Failure::Unavailable),
        }
    }

    /// Reads a user of a source again, before a sign-in that the source does not check, such as
    /// with a passkey. Returns the user if still enabled. Returns a local user unchanged.
    ///
    /// A user of an OpenID provider must have signed in there within `session_seconds`.
    ///
    /// # Errors
    /// [`Failure::Unavailable`] if the source does not answer.
    pub async fn read_user_again(&self, user: User) -> Result<Option<User>, Failure> {
        let Some(UserSource { link, .. }) = &user.source else { return Ok(Some(user)) };
        if self.sources.upstream(&link.source).is_some() {
            return Ok(Some(user).filter(|user| !self.sources.needs_sign_in(user, self.clock.now())));
        }
        let source = self.sources.directory(&link.source).ok_or(Failure::Unavailable)?;
        self.read_directory_user_again(source, user).await
    }
}

/// Returns the kind of event for a user that a source has changed.
fn changed_kind(user: &User) -> AuditKind {
    if user.is_enabled() { AuditKind::UserChanged } else { AuditKind::UserDisabled }
}
