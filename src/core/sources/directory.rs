//! Directories as sources of users, and when their users were last read.

use std::collections::HashMap;
use std::fmt::Display;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use secrecy::SecretString;

use crate::password::QueueKey;
use crate::sources::places::{Places, TakenPlace};
use crate::sources::{SourceSignIn, SourceTerms};
use crate::state::{NotServing, Sealgate};
use crate::web::failure::Failure;
use sealgate_config::DirectorySettings;
use sealgate_domain::audit::{Actor, AuditEvent, AuditKind};
use sealgate_domain::secret::base64url;
use sealgate_domain::source::{SourceEntry, SourceId, SourceLink, SourceName, SourceState, UserSource};
use sealgate_domain::time::UnixTime;
use sealgate_domain::user::User;
use sealgate_ldap::{LdapDirectory, LdapRead, LdapRefusal, LdapSignIn, LdapSignInAttempt};
use sealgate_store::StoreError;
use sealgate_system::clock::{Clock, random};
use sealgate_system::metrics::{DirectorySignInOutcome, Metrics};

/// Directory with the time at which its users were last read.
pub struct DirectorySource {
    pub settings: DirectorySettings,
    pub directory: LdapDirectory,
    /// Time of the last complete read, in seconds since 1970. At first the time of the start, so
    /// that sessions survive a restart while the directory is away.
    read_at: AtomicU64,
    /// Users about whom the last round said nothing, with the time of the last round that did.
    unread: RwLock<HashMap<SourceId, UnixTime>>,
    places: Places,
}

/// A directory cannot check a password now. The sign-in can be repeated.
#[derive(Debug)]
pub struct DirectoryUnavailable;

/// Result of a check that proves an account at a directory for a link.
pub enum DirectoryProof {
    /// The password is right, and the account is enabled.
    Account(Box<SourceEntry>),
    Wrong,
    Refused(LdapRefusal),
    /// The directory did not decide. The check can be repeated.
    Unavailable,
}

/// Sign-in at a directory whose user was searched, and whose password is not checked yet.
pub struct DirectoryAttempt<'a> {
    source: &'a DirectorySource,
    attempt: LdapSignInAttempt<'a>,
    begun: Instant,
    _place: TakenPlace<'a>,
}

impl DirectoryAttempt<'_> {
    /// Returns the user at the directory. `None` if no user has the typed name.
    pub fn link(&self) -> Option<SourceLink> {
        Some(SourceLink { source: self.source.name().clone(), id: self.attempt.id()? })
    }
}

impl DirectorySource {
    /// Opens a directory. Does not connect to it.
    ///
    /// # Errors
    /// [`NotServing`] if a file of the directory cannot be read.
    pub(super) fn open(
        settings: &DirectorySettings,
        metrics: &Metrics,
        clock: &Arc<dyn Clock>,
    ) -> Result<Self, NotServing> {
        let now = clock.now();
        let directory = LdapDirectory::open(settings, Arc::clone(clock))
            .map_err(|fault| NotServing::from(vec![format!("directory {}: {fault}", settings.name)]))?;
        metrics.init_directory(settings.name.as_str(), now.seconds());
        let read_at = AtomicU64::new(now.seconds());
        let (unread, places) = (RwLock::default(), Places::default());
        Ok(Self { settings: settings.clone(), directory, read_at, unread, places })
    }

    /// Returns the name in the configuration.
    pub fn name(&self) -> &SourceName {
        &self.settings.name
    }

    fn terms(&self) -> SourceTerms<'_> {
        SourceTerms { kind: "directory", name: self.name(), provider: None, may_create: true }
    }

    /// Returns the time of the last complete read.
    pub fn read_at(&self) -> UnixTime {
        UnixTime::from_seconds(self.read_at.load(Ordering::Relaxed))
    }

    /// Records a complete round that began at `at`. It said nothing about the users `unread`, so
    /// their time remains that of the last round that did.
    pub fn was_read(&self, at: UnixTime, unread: Vec<SourceId>) {
        let mut times = self.unread.write().unwrap_or_else(PoisonError::into_inner);
        let before = self.read_at();
        *times = unread
            .into_iter()
            .map(|id| {
                let since = times.get(&id).copied().unwrap_or(before);
                (id, since)
            })
            .collect();
        self.read_at.store(at.seconds(), Ordering::Relaxed);
    }

    /// Continues after a restart with the time of the last complete read before it.
    pub fn was_last_read(&self, metrics: &Metrics, at: UnixTime) {
        self.read_at.fetch_min(at.seconds(), Ordering::Relaxed);
        metrics.init_directory(self.name().as_str(), self.read_at().seconds());
    }

    /// Returns the maximum duration of a round. Two rounds that take this long end within
    /// `stale_seconds`.
    pub fn round_timeout(&self) -> Duration {
        let DirectorySettings { stale, refresh, timeout, .. } = &self.settings;
        (stale.saturating_sub(*refresh) / 2).max(*timeout)
    }

    pub(super) fn is_stale(&self, id: &SourceId, now: UnixTime) -> bool {
        let unread = self.unread.read().unwrap_or_else(PoisonError::into_inner);
        let read_at = unread.get(id).copied().unwrap_or_else(|| self.read_at());
        now.since(read_at) >= self.settings.stale
    }
}

impl Sealgate {
    /// Searches the user of a typed name at a directory. Returns `None` for a name or a password that
    /// no user can have.
    ///
    /// # Errors
    /// [`DirectoryUnavailable`] if the directory does not answer, or if the sender's network has too
    /// many sign-ins at once.
    pub async fn find_at<'a>(
        &self,
        source: &'a DirectorySource,
        sender: QueueKey,
        typed: &str,
        password: &'a SecretString,
    ) -> Result<Option<DirectoryAttempt<'a>>, DirectoryUnavailable> {
        let begun = Instant::now();
        let Some(place) = source.places.take(sender) else {
            self.report_unavailable(source, &"a network has many sign-ins at once", begun);
            return Err(DirectoryUnavailable);
        };
        match source.directory.find(typed, password).await {
            Ok(found) => Ok(found.map(|attempt| DirectoryAttempt { source, attempt, begun, _place: place })),
            Err(fault) => {
                self.report_unavailable(source, &fault, begun);
                Err(DirectoryUnavailable)
            }
        }
    }

    /// Checks the password at the directory. On success, stores the directory's report about the user.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn verify_at(
        &self,
        found: DirectoryAttempt<'_>,
        event: impl Fn(AuditKind) -> AuditEvent + Send + Sync,
    ) -> Result<SourceSignIn, Failure> {
        let DirectoryAttempt { source, attempt, begun, _place } = found;
        let signed_in = match attempt.verify().await {
            Ok(LdapSignIn::User(entry)) => {
                let mut applied = self.apply_source_entry(&source.terms(), &entry, &event).await?;
                if matches!(applied, Err(SourceSignIn::NameTaken)) {
                    self.read_holders_again(source, &entry).await?;
                    applied = self.apply_source_entry(&source.terms(), &entry, &event).await?;
                }
                match applied {
                    Ok(user) if user.is_enabled() => SourceSignIn::User(user),
                    Ok(_) => SourceSignIn::Wrong,
                    Err(refused) => refused,
                }
            }
            Ok(LdapSignIn::Wrong) => SourceSignIn::Wrong,
            Ok(LdapSignIn::Refused(refusal)) => SourceSignIn::Refused(refusal),
            Err(fault) => {
                self.report_unavailable(source, &fault, begun);
                return Ok(SourceSignIn::Unavailable);
            }
        };
        let outcome = match &signed_in {
            SourceSignIn::User(_) => DirectorySignInOutcome::Succeeded,
            SourceSignIn::Wrong | SourceSignIn::Absent | SourceSignIn::OtherOrigin => DirectorySignInOutcome::Wrong,
            SourceSignIn::Refused(_) => DirectorySignInOutcome::Refused,
            SourceSignIn::NameTaken | SourceSignIn::Nameless => DirectorySignInOutcome::NameRefused,
            SourceSignIn::Unavailable => DirectorySignInOutcome::Unavailable,
        };
        self.metrics.directory_signed_in(source.name().as_str(), outcome, begun.elapsed().as_secs_f64());
        Ok(signed_in)
    }

    /// Checks the password at the directory, to prove an account for a link. Signs nobody in, and
    /// stores nothing.
    pub async fn prove_at_directory(&self, found: DirectoryAttempt<'_>) -> DirectoryProof {
        let DirectoryAttempt { source, attempt, begun, _place } = found;
        let (proof, outcome) = match attempt.verify().await {
            Ok(LdapSignIn::User(entry)) if entry.state == SourceState::Enabled => {
                (DirectoryProof::Account(Box::new(entry)), DirectorySignInOutcome::Succeeded)
            }
            Ok(LdapSignIn::User(_) | LdapSignIn::Wrong) => (DirectoryProof::Wrong, DirectorySignInOutcome::Wrong),
            Ok(LdapSignIn::Refused(refusal)) => (DirectoryProof::Refused(refusal), DirectorySignInOutcome::Refused),
            Err(fault) => {
                self.report_unavailable(source, &fault, begun);
                return DirectoryProof::Unavailable;
            }
        };
        self.metrics.directory_signed_in(source.name().as_str(), outcome, begun.elapsed().as_secs_f64());
        proof
    }

    /// Asks a directory for a user who does not exist, with a password that no user has.
    ///
    /// A wrong password of a local user then gets the response of a name that the directory checks,
    /// also while the directory is away. Neither the typed name nor the typed password is sent.
    ///
    /// # Errors
    /// [`DirectoryUnavailable`] as for a user of the directory.
    pub async fn ask_for_no_user(
        &self,
        source: &DirectorySource,
        sender: QueueKey,
    ) -> Result<(), DirectoryUnavailable> {
        let _place = source.places.take(sender).ok_or(DirectoryUnavailable)?;
        let name = base64url(&random::<16>(self.entropy.as_ref()));
        let password = SecretString::from(base64url(&random::<16>(self.entropy.as_ref())));
        let unavailable = |fault| {
            tracing::debug!(directory = %source.name(), %fault, "the directory does not answer for a local user");
            DirectoryUnavailable
        };
        if let Some(attempt) = source.directory.find(&name, &password).await.map_err(unavailable)? {
            attempt.verify().await.map_err(unavailable)?;
        }
        Ok(())
    }

    /// Logs and counts a password that a directory could not check.
    fn report_unavailable(&self, source: &DirectorySource, fault: &dyn Display, begun: Instant) {
        tracing::error!(directory = %source.name(), %fault, "the directory cannot check a password");
        let (name, outcome) = (source.name().as_str(), DirectorySignInOutcome::Unavailable);
        self.metrics.directory_signed_in(name, outcome, begun.elapsed().as_secs_f64());
    }

    /// Reads the users of the same directory again who have the names of this entry. They may have
    /// been renamed or removed since they last had access.
    async fn read_holders_again(&self, source: &DirectorySource, entry: &SourceEntry) -> Result<(), Failure> {
        let mut holders = Vec::new();
        if let Some(email) = &entry.email {
            holders.extend(self.store.user_by_email(email).await?);
        }
        if let Some(username) = &entry.username {
            holders.extend(self.store.user_by_username(username).await?);
        }
        for holder in holders {
            let is_of_source = |own: &UserSource| own.link.source == *source.name() && own.link.id != entry.id;
            if holder.source.as_ref().is_some_and(is_of_source) {
                match self.read_directory_user_again(source, holder).await {
                    // An account that cannot be read keeps its names, and the sign-in is refused.
                    Ok(_) | Err(Failure::Unavailable) => {}
                    Err(other) => return Err(other),
                }
            }
        }
        Ok(())
    }

    /// Stores a directory's report about a known user. If another user has the new names, the
    /// user keeps the previous ones, and everything else takes effect.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn refresh_source_user(
        &self,
        source: &DirectorySource,
        user: &User,
        entry: &SourceEntry,
    ) -> Result<Option<Box<User>>, StoreError> {
        let event = |kind| AuditEvent::new(self.clock.now(), kind, Actor::Server);
        let terms = source.terms().of_known_user();
        match self.apply_source_entry(&terms, entry, event).await? {
            Ok(user) => return Ok(Some(user)),
            Err(SourceSignIn::Absent) => return Ok(None),
            Err(_) => {}
        }
        tracing::warn!(directory = %source.name(), user = %user.sub, "another user has the new address or username of \
            this user, so the user keeps the previous ones");
        let with_names = entry.clone().with_names_of(user);
        Ok(self.apply_source_entry(&terms, &with_names, event).await?.ok())
    }

    /// Records that a source no longer has an account, and ends all access of its user.
    ///
    /// # Errors
    /// When the store fails. The call can be repeated.
    pub async fn record_gone(&self, link: &SourceLink) -> Result<(), StoreError> {
        if let Some(user) = self.store.set_source_state(link, SourceState::Gone, self.clock.now()).await? {
            let event =
                AuditEvent::new(self.clock.now(), super::changed_kind(&user), Actor::Server).for_subject(user.sub);
            self.audit.note(event.with_detail(format!("gone from directory {}", link.source)));
        }
        Ok(())
    }

    /// Reads a user of a directory again. Returns the user if still enabled.
    ///
    /// # Errors
    /// [`Failure::Unavailable`] if the directory does not answer.
    pub(super) async fn read_directory_user_again(
        &self,
        source: &DirectorySource,
        user: User,
    ) -> Result<Option<User>, Failure> {
        let Some(own) = &user.source else { return Ok(Some(user)) };
        let unavailable = |fault: &dyn Display| {
            tracing::error!(directory = %source.name(), %fault, "the directory cannot be read");
            Failure::Unavailable
        };
        // The groups of a user can take many searches, and a request waits for them.
        let reading = source.directory.read(std::slice::from_ref(&own.link.id));
        let read = tokio::time::timeout(source.settings.timeout, reading).await.map_err(|late| unavailable(&late))?;
        let entries = read.map_err(|fault| unavailable(&fault))?;
        let found = entries.into_iter().find_map(|(id, found)| (id == own.link.id).then_some(found));
        let entry = match found.unwrap_or(LdapRead::Unreadable) {
            LdapRead::Found(entry) => entry,
            LdapRead::Unreadable => return Err(unavailable(&"the user cannot be read")),
            LdapRead::Gone => {
                self.record_gone(&own.link).await?;
                return Ok(None);
            }
        };
        let user = self.refresh_source_user(source, &user, &entry).await?;
        Ok(user.map(|user| *user).filter(User::is_enabled))
    }
}
