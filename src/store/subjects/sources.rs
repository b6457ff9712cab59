//! Users whose accounts a source keeps.
//!
//! The index `source_link` leads from the id at the source to the user. An account that is gone
//! keeps this entry, but not its names: another account may have got them.

use std::collections::BTreeSet;
use std::time::Duration;

use serde::de::DeserializeOwned;

use crate::engine::{Changes, Key};
use crate::format::record::Loaded;
use crate::format::table::Table;
use crate::format::{record, table};
use crate::sealer::{NONCE_BYTES, SealError};
use crate::subjects::outbox::add_mails;
use crate::subjects::registry::{RenameOutcome, names, user_creation};
use crate::subjects::revocations::Revocation;
use crate::{Committed, Ended, MAX_CONFLICTS, PAGE, Store, StoreError};
use sealgate_domain::app_password::AppPasswords;
use sealgate_domain::factors::Factors;
use sealgate_domain::grant::{EndReason, Grant};
use sealgate_domain::mail::WaitingMail;
use sealgate_domain::secret::{Sealed, Secret};
use sealgate_domain::session::Session;
use sealgate_domain::source::{
    LinkOrigin, ProviderTerms, SourceEntry, SourceLink, SourceName, SourceState, UserSource,
};
use sealgate_domain::time::UnixTime;
use sealgate_domain::user::{Subject, User, UserState};

/// Time for which a loss of accounts stays accepted. All nodes of a cluster read in this time.
const LOSS_ACCEPTANCE: Duration = Duration::from_mins(5);

/// Outcome of applying a report of a source.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum SourceOutcome {
    /// The source has reported this user for the first time.
    Added(Box<User>),
    Changed(Box<User>),
    /// Nothing was written.
    Unchanged(Box<User>),
    /// Another user has the address or the username. Nothing was written.
    NameTaken,
    /// The source reports neither an address nor a username for a new user. Nothing was written.
    Nameless,
    /// There is no such user, and none may be created.
    Absent,
    /// The user's id comes from another issuer, or from another claim. Nothing was written.
    OtherOrigin(Box<User>),
}

/// Outcome of linking a user to a source, or of removing the link. Except for `Changed`, nothing was
/// written.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum LinkOutcome {
    Changed(Box<User>, Ended),
    Absent,
    /// Another user is linked to the account at the source.
    Taken(Subject),
    /// The user already has a source.
    HasSource(SourceLink),
    /// The user has no source.
    IsLocal,
    /// Another user has the address or the username.
    NameTaken,
    /// The user would have neither a verified address nor a username.
    Nameless,
}

/// Account at a source that a user has proven.
#[derive(Debug, Clone, Copy)]
pub struct ProvenAccount<'a> {
    /// Report of the source.
    pub entry: &'a SourceEntry,
    /// Terms of an OpenID provider. `None` for directories.
    pub provider: Option<ProviderTerms<'a>>,
}

/// Kind of a token that an OpenID provider has issued.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UpstreamTokenKind {
    Id,
    Refresh,
}

impl UpstreamTokenKind {
    /// Returns the name of the kind in the context that a sealed token is bound to.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Id => "id",
            Self::Refresh => "refresh",
        }
    }
}

impl Store {
    /// Returns the user with this id at a source, even if disabled.
    pub async fn user_by_source_link(&self, link: &SourceLink) -> Result<Option<User>, StoreError> {
        match self.load::<Subject>(table::source_link(&link.lookup_key())).await? {
            Some(subject) => self.user(subject.value).await,
            None => Ok(None),
        }
    }

    /// Adds or changes the user that a source has reported. Retries on conflicts. Writes nothing if
    /// nothing differs, apart from the time of the confirmation by an OpenID provider. Ends all access
    /// of a user who is no longer enabled.
    ///
    /// `new` becomes the `sub` of a new user. `None` if no user may be created. `provider` has the terms
    /// of an OpenID provider.
    ///
    /// # Errors
    /// Returns the store's error. The call can be repeated.
    pub async fn apply_source_entry(
        &self,
        source: &SourceName,
        entry: &SourceEntry,
        provider: Option<ProviderTerms<'_>>,
        new: Option<Subject>,
        now: UnixTime,
    ) -> Result<SourceOutcome, StoreError> {
        let link = SourceLink { source: source.clone(), id: entry.id.clone() };
        let index = table::source_link(&link.lookup_key());
        let is_nameless = entry.email.is_none() && entry.username.is_none();
        for _ in 0..MAX_CONFLICTS {
            let Some(subject) = self.load::<Subject>(index.clone()).await? else {
                let Some(new) = new else { return Ok(SourceOutcome::Absent) };
                if is_nameless {
                    return Ok(SourceOutcome::Nameless);
                }
                let user = entry.new_user(source, new, provider, now);
                if self.commit(user_creation(&user)?).await? == Committed::Yes {
                    return Ok(SourceOutcome::Added(Box::new(user)));
                }
                // Either a name is taken, or another request has added the same user.
                if self.load::<Subject>(index.clone()).await?.is_none() {
                    for name in names(&user) {
                        if !self.is_name_free(&name).await? {
                            return Ok(SourceOutcome::NameTaken);
                        }
                    }
                }
                continue;
            };
            // Without a record, the user has just been deleted.
            let Some(loaded) = self.user_record(subject.value).await? else { continue };
            let has_origin = |own: &UserSource, provider: &ProviderTerms<'_>| own.may_be_of(provider.origin);
            if !loaded
                .value
                .source
                .as_ref()
                .zip(provider.as_ref())
                .is_none_or(|(own, provider)| has_origin(own, provider))
            {
                return Ok(SourceOutcome::OtherOrigin(Box::new(loaded.value)));
            }
            // A user who loses both names keeps the previous ones.
            let named = if is_nameless { entry.clone().with_names_of(&loaded.value) } else { entry.clone() };
            let Some(next) = named.applied_to(&loaded.value, source, provider, now) else {
                return Ok(SourceOutcome::Unchanged(Box::new(loaded.value)));
            };
            let is_confirmation = next.is_confirmation_of(&loaded.value);
            match self.replace_source_user(&loaded, next, now).await? {
                Some(SourceOutcome::Changed(user)) if is_confirmation => return Ok(SourceOutcome::Unchanged(user)),
                Some(SourceOutcome::Unchanged(_)) | None => {}
                Some(outcome) => return Ok(outcome),
            }
        }
        Err(StoreError::Contended)
    }

    /// Records the state of an account of which the source reports nothing else, such as
    /// [`SourceState::Gone`]. Ends all access of a user who is no longer enabled.
    ///
    /// Returns the changed user, or `None` if nothing differs or there is no such user.
    ///
    /// # Errors
    /// Returns the store's error. The call can be repeated.
    pub async fn set_source_state(
        &self,
        link: &SourceLink,
        state: SourceState,
        now: UnixTime,
    ) -> Result<Option<User>, StoreError> {
        for _ in 0..MAX_CONFLICTS {
            let Some(subject) = self.load::<Subject>(table::source_link(&link.lookup_key())).await? else {
                return Ok(None);
            };
            let Some(loaded) = self.user_record(subject.value).await? else { return Ok(None) };
            let mut next = loaded.value.clone();
            let Some(source) = next.source.as_mut().filter(|source| source.state != state) else { return Ok(None) };
            (source.state, source.changed_at) = (state, now);
            if let Some(SourceOutcome::Changed(user)) = self.replace_source_user(&loaded, next, now).await? {
                return Ok(Some(*user));
            }
        }
        Err(StoreError::Contended)
    }

    /// Links a local user to an account at a source, on behalf of an administrator. The source's
    /// sign-in replaces the user's password, and all access ends. Retries on conflicts.
    ///
    /// # Errors
    /// Returns the store's error. The call can be repeated.
    pub async fn link_user(&self, revocation: &Revocation, link: &SourceLink) -> Result<LinkOutcome, StoreError> {
        self.add_link(revocation, link, None, &[]).await
    }

    /// Links a local user to an account that the user has proven, as [`Store::link_user`] does. Also
    /// applies the source's report, and queues e-mails in the same commit.
    ///
    /// Returns [`LinkOutcome::NameTaken`] if another user has a name that the source reports.
    /// Otherwise the user could neither sign in at the source, nor with the removed password.
    ///
    /// # Errors
    /// Returns the store's error. The call can be repeated.
    pub async fn link_proven_user(
        &self,
        revocation: &Revocation,
        source: &SourceName,
        proven: ProvenAccount<'_>,
        mails: &[WaitingMail],
    ) -> Result<LinkOutcome, StoreError> {
        let link = SourceLink { source: source.clone(), id: proven.entry.id.clone() };
        self.add_link(revocation, &link, Some(proven), mails).await
    }

    async fn add_link(
        &self,
        revocation: &Revocation,
        link: &SourceLink,
        proven: Option<ProvenAccount<'_>>,
        mails: &[WaitingMail],
    ) -> Result<LinkOutcome, StoreError> {
        let index = table::source_link(&link.lookup_key());
        for _ in 0..MAX_CONFLICTS {
            let Some(loaded) = self.user_record(revocation.subject).await? else { return Ok(LinkOutcome::Absent) };
            if let Some(source) = loaded.value.source {
                return Ok(LinkOutcome::HasSource(source.link));
            }
            if let Some(holder) = self.load::<Subject>(index.clone()).await? {
                return Ok(LinkOutcome::Taken(holder.value));
            }
            let (state, changed_at) = (SourceState::Enabled, revocation.at);
            let linked = Some(LinkOrigin { at: changed_at, by_user: proven.is_some() });
            let groups = BTreeSet::new();
            let origin = proven.and_then(|proven| proven.provider).map(|provider| provider.origin.clone());
            let source =
                UserSource { link: link.clone(), groups, state, changed_at, confirmed_at: None, origin, linked };
            let mut next =
                User { source: Some(source), password: None, updated_at: changed_at, ..loaded.value.clone() };
            if let Some(ProvenAccount { entry, provider }) = proven {
                let is_nameless = entry.email.is_none() && entry.username.is_none();
                let named = if is_nameless { entry.clone().with_names_of(&next) } else { entry.clone() };
                next = named.applied_to(&next, &link.source, provider, changed_at).unwrap_or(next);
            }
            match self.replace_and_end(&loaded, next, revocation, (Changes::default(), mails)).await? {
                // Another user may have got the link in the meantime, and not a name.
                Some(LinkOutcome::NameTaken) if self.load::<Subject>(index.clone()).await?.is_some() => {}
                Some(outcome) => return Ok(outcome),
                None => {}
            }
        }
        Err(StoreError::Contended)
    }

    /// Makes the user of a source a local user without a password. All access ends. Retries on
    /// conflicts. `kept` are the user's factors, if the user must still have them.
    ///
    /// A user whose account at the source is not enabled is disabled, so that unlinking does not give
    /// access back. An address that the source has reported and not verified is removed: it may be
    /// that of another user.
    ///
    /// # Errors
    /// Returns the store's error. The call can be repeated.
    pub async fn unlink_user(
        &self,
        revocation: &Revocation,
        kept: Option<&Loaded<Factors>>,
    ) -> Result<LinkOutcome, StoreError> {
        for _ in 0..MAX_CONFLICTS {
            let Some(loaded) = self.user_record(revocation.subject).await? else { return Ok(LinkOutcome::Absent) };
            if loaded.value.source.is_none() {
                return Ok(LinkOutcome::IsLocal);
            }
            let state = if loaded.value.is_enabled() { UserState::Enabled } else { UserState::Disabled };
            let mut next =
                User { source: None, state, password: None, updated_at: revocation.at, ..loaded.value.clone() };
            if !next.email_verified && !loaded.value.has_unreported_link() {
                next.email = None;
            }
            let expect = kept.map(Loaded::unchanged).into_iter().collect();
            let changes = Changes { expect, ..Changes::default() };
            if let Some(outcome) = self.replace_and_end(&loaded, next, revocation, (changes, &[])).await? {
                return Ok(outcome);
            }
        }
        Err(StoreError::Contended)
    }

    /// Writes a user whose link has changed, with further changes and e-mails, and ends all access.
    /// Returns `None` on a conflict.
    async fn replace_and_end(
        &self,
        loaded: &Loaded<User>,
        next: User,
        revocation: &Revocation,
        (more, mails): (Changes, &[WaitingMail]),
    ) -> Result<Option<LinkOutcome>, StoreError> {
        let mut changes = match self.rename_changes(loaded, &next).await? {
            Ok(changes) => changes,
            Err(RenameOutcome::Nameless) => return Ok(Some(LinkOutcome::Nameless)),
            Err(_) => return Ok(Some(LinkOutcome::NameTaken)),
        };
        changes.merge(more);
        add_mails(&mut changes, mails)?;
        let changes = self.opened_without_links(changes, Some(revocation)).await?;
        if self.commit_with_mails(changes, mails).await? == Committed::Conflict {
            return Ok(None);
        }
        Ok(Some(LinkOutcome::Changed(Box::new(next), self.carry_out(revocation).await?)))
    }

    /// Seals a token that an OpenID provider has issued for a user. The sealed token is bound to the
    /// user, the provider and the kind of the token.
    ///
    /// # Errors
    /// [`SealError::NoKey`] if there is no data key.
    pub fn seal_upstream_token(
        &self,
        subject: Subject,
        source: &SourceName,
        kind: UpstreamTokenKind,
        nonce: [u8; NONCE_BYTES],
        token: &str,
    ) -> Result<Sealed, SealError> {
        let sealing = self.sealing.as_ref().ok_or(SealError::NoKey)?;
        sealing.sealer.seal(&table::upstream_token(subject, source, kind), nonce, token.as_bytes())
    }

    /// Unseals a token that an OpenID provider has issued for a user.
    ///
    /// # Errors
    /// [`SealError`] if the token was sealed for another user, provider or kind, or with another data
    /// key.
    pub fn open_upstream_token(
        &self,
        subject: Subject,
        source: &SourceName,
        kind: UpstreamTokenKind,
        sealed: &Sealed,
    ) -> Result<Secret, SealError> {
        let sealing = self.sealing.as_ref().ok_or(SealError::NoKey)?;
        let bytes = sealing.sealer.open(&table::upstream_token(subject, source, kind), sealed)?;
        str::from_utf8(&bytes).map(Secret::new).map_err(|_| SealError::Altered)
    }

    /// Accepts for five minutes that a source has lost many accounts.
    pub async fn accept_loss(&self, source: &SourceName, now: UnixTime) -> Result<(), StoreError> {
        let put = vec![(table::accepted_loss(source), record::encode(&now)?)];
        self.write(Changes { put, ..Changes::default() }).await
    }

    /// Returns whether an administrator has just accepted that a source has lost many accounts.
    pub async fn accepts_loss(&self, source: &SourceName, now: UnixTime) -> Result<bool, StoreError> {
        let accepted = self.load::<UnixTime>(table::accepted_loss(source)).await?;
        Ok(accepted.is_some_and(|at| now.since(at.value) < LOSS_ACCEPTANCE))
    }

    /// Stores the time since which a source has not been read, or removes it if the source is read
    /// again. For the next start of a node.
    pub async fn set_unread_since(&self, source: &SourceName, at: Option<UnixTime>) -> Result<(), StoreError> {
        let key = table::unread_since(source);
        let changes = match at {
            Some(at) => Changes { put: vec![(key, record::encode(&at)?)], ..Changes::default() },
            None => Changes { delete: vec![key], ..Changes::default() },
        };
        self.write(changes).await
    }

    /// Returns the time since which a source has not been read, if a node has stored it.
    pub async fn unread_since(&self, source: &SourceName) -> Result<Option<UnixTime>, StoreError> {
        Ok(self.load::<UnixTime>(table::unread_since(source)).await?.map(|at| at.value))
    }

    /// Writes the changed user. Returns `None` on a conflict.
    async fn replace_source_user(
        &self,
        loaded: &Loaded<User>,
        next: User,
        now: UnixTime,
    ) -> Result<Option<SourceOutcome>, StoreError> {
        let Ok(changes) = self.rename_changes(loaded, &next).await? else { return Ok(Some(SourceOutcome::NameTaken)) };
        let ends = loaded.value.is_enabled() && !next.is_enabled();
        let revocation = ends.then(|| self.new_revocation(next.sub, EndReason::Source, now));
        let changes = self.opened_without_links(changes, revocation.as_ref()).await?;
        if self.commit(changes).await? == Committed::Conflict {
            return Ok(None);
        }
        if let Some(revocation) = revocation {
            self.carry_out(&revocation).await?;
        }
        Ok(Some(SourceOutcome::Changed(Box::new(next))))
    }

    /// Returns the enabled users of a source who have a session, an active grant or an application
    /// password.
    ///
    /// Reads all records of these three kinds, because their number is limited by use. The number of
    /// accounts at a source is not.
    pub async fn source_users_with_access(&self, source: &SourceName) -> Result<Vec<User>, StoreError> {
        let mut subjects = BTreeSet::new();
        self.read_all(Table::Session, |session: Session| {
            subjects.extend(session.sign_ins.iter().map(|sign_in| sign_in.subject));
        })
        .await?;
        self.read_all(Table::Grant, |grant: Grant| subjects.extend(grant.is_active().then_some(grant.subject))).await?;
        self.read_all(Table::AppPasswords, |passwords: AppPasswords| {
            subjects.insert(passwords.subject);
        })
        .await?;
        let keys: Vec<Key> = subjects.into_iter().map(table::user).collect();
        let mut users = Vec::new();
        for keys in keys.chunks(PAGE) {
            let values = self.engine.get_many(keys).await?;
            let records = keys.iter().zip(values).filter_map(|(key, bytes)| record::decode(key, bytes?).ok());
            let of_source = |user: &User| user.source.as_ref().is_some_and(|own| own.link.source == *source);
            users.extend(
                records.map(|loaded: Loaded<User>| loaded.value).filter(|user| user.is_enabled() && of_source(user)),
            );
        }
        Ok(users)
    }

    /// Reads all records of a table, page by page. Skips unreadable records.
    pub(super) async fn read_all<T: DeserializeOwned>(
        &self,
        table: Table,
        mut each: impl FnMut(T) + Send,
    ) -> Result<(), StoreError> {
        let (prefix, mut after) = (table::all(table), None::<Key>);
        loop {
            let rows = self.engine.scan(&prefix, after.as_deref(), PAGE).await?;
            let Some((last, _)) = rows.last() else { return Ok(()) };
            after = Some(last.clone());
            for (key, bytes) in rows {
                if let Ok(loaded) = record::decode::<T>(&key, bytes) {
                    each(loaded.value);
                }
            }
            tokio::task::yield_now().await;
        }
    }
}
