//! Clients and users.

use std::collections::HashSet;

use crate::engine::{Changes, Expect, Key};
use crate::format::record::Loaded;
use crate::format::table::Table;
use crate::format::{record, table};
use crate::subjects::client_logouts::index_features;
use crate::subjects::revocations::{Revocation, opened};
use crate::{Committed, MAX_CONFLICTS, PAGE, Store, StoreError};
use sealgate_domain::client::{Client, ClientId};
use sealgate_domain::client_logo::LogoPicture;
use sealgate_domain::grant::EndReason;
use sealgate_domain::secret::SecretHash;
use sealgate_domain::source::SourceState;
use sealgate_domain::time::UnixTime;
use sealgate_domain::user::{Email, Subject, User};
use sealgate_domain::username::Username;

/// Outcome of changing a user's e-mail address or username.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum RenameOutcome {
    Renamed(Box<User>),
    /// There is no such user.
    Absent,
    /// Another user has the e-mail address. Nothing was changed.
    EmailTaken,
    /// Another user has the username. Nothing was changed.
    UsernameTaken,
    /// The user would have neither an e-mail address nor a username. Nothing was changed.
    Nameless,
    /// The sign-in data differ from those that a page has shown. Nothing was changed.
    SignInDataChanged,
}

/// Outcome of adding a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum AddOutcome {
    Added,
    /// There is a record with this id, e-mail address or username. Nothing was changed.
    Exists,
}

impl Store {
    /// Returns the client with this id, even if it is disabled.
    pub async fn client(&self, id: &ClientId) -> Result<Option<Client>, StoreError> {
        Ok(self.load(table::client(id)).await?.map(|loaded| loaded.value))
    }

    /// Adds a client.
    pub async fn add_client(&self, client: &Client) -> Result<AddOutcome, StoreError> {
        let mut changes = record::create(table::client(&client.id), client)?;
        index_features(&mut changes, None, Some(client));
        Ok(match self.commit(changes).await? {
            Committed::Yes => AddOutcome::Added,
            Committed::Conflict => AddOutcome::Exists,
        })
    }

    /// Changes a client. Retries on conflicts. Returns the new client, or `None` if there is no
    /// client with this id.
    ///
    /// # Errors
    /// [`StoreError::DefinedClient`] if the configuration file defines the client, or the store's
    /// error. Nothing was changed then.
    pub async fn change_client(
        &self,
        id: &ClientId,
        change: impl Fn(&mut Client) + Send,
    ) -> Result<Option<Client>, StoreError> {
        self.change_client_with(id, None, change).await
    }

    /// Changes a client as [`Store::change_client`] does. `picture` is the picture of the logo that
    /// `change` sets. If the client has another logo or none after the change, its earlier picture is
    /// deleted.
    ///
    /// # Errors
    /// As [`Store::change_client`].
    pub async fn change_client_with(
        &self,
        id: &ClientId,
        picture: Option<&LogoPicture>,
        change: impl Fn(&mut Client) + Send,
    ) -> Result<Option<Client>, StoreError> {
        for _ in 0..MAX_CONFLICTS {
            let Some(loaded) = self.load::<Client>(table::client(id)).await? else { return Ok(None) };
            refuse_defined(&loaded.value)?;
            let mut next = loaded.value.clone();
            change(&mut next);
            if next == loaded.value {
                return Ok(Some(next));
            }
            let mut changes = record::replace(&loaded, &next)?;
            index_features(&mut changes, Some(&loaded.value), Some(&next));
            if next.logo != loaded.value.logo {
                let key = table::client_logo(id);
                match picture.filter(|picture| next.logo.as_ref() == Some(&picture.describe())) {
                    Some(picture) => changes.put.push((key, record::encode(picture)?)),
                    None => changes.delete.push(key),
                }
            }
            if self.commit(changes).await? == Committed::Yes {
                return Ok(Some(next));
            }
        }
        Err(StoreError::Contended)
    }

    /// Deletes a client and ends its grants, so that a later client with the same id does not get
    /// them.
    ///
    /// # Errors
    /// [`StoreError::DefinedClient`] if the configuration file defines the client. Nothing was
    /// changed then. Other errors if the store fails. The call can then be repeated.
    pub async fn delete_client(&self, id: &ClientId, now: UnixTime) -> Result<bool, StoreError> {
        self.delete_client_if(id, now, |_| true).await
    }

    /// Deletes a client as [`Store::delete_client`] does, if `may_delete` permits it for the record
    /// that is deleted. Otherwise returns false and changes nothing.
    ///
    /// # Errors
    /// As [`Store::delete_client`].
    pub async fn delete_client_if(
        &self,
        id: &ClientId,
        now: UnixTime,
        may_delete: impl Fn(&Client) -> bool + Send,
    ) -> Result<bool, StoreError> {
        // Delete the record first, so that no grant is created while the grants are ended.
        let Some(existed) = self.remove_client(id, may_delete).await? else { return Ok(false) };
        self.end_grants_of_client(id, EndReason::Administrator, now).await?;
        Ok(existed)
    }

    /// Deletes the record of a client only. Retries on conflicts. Returns whether it existed, or
    /// `None` if `may_delete` refused.
    async fn remove_client(
        &self,
        id: &ClientId,
        may_delete: impl Fn(&Client) -> bool + Send,
    ) -> Result<Option<bool>, StoreError> {
        for _ in 0..MAX_CONFLICTS {
            let Some(loaded) = self.load::<Client>(table::client(id)).await? else { return Ok(Some(false)) };
            if !may_delete(&loaded.value) {
                return Ok(None);
            }
            refuse_defined(&loaded.value)?;
            let delete = vec![loaded.key().clone(), table::client_logo(id)];
            let mut changes = Changes { expect: vec![loaded.unchanged()], delete, ..Changes::default() };
            index_features(&mut changes, Some(&loaded.value), None);
            if self.commit(changes).await? == Committed::Yes {
                self.registration_gone(&loaded.value);
                return Ok(Some(true));
            }
        }
        Err(StoreError::Contended)
    }

    /// Returns up to `limit` clients whose ID is greater than `after`, in order.
    pub async fn clients(&self, after: Option<&ClientId>, limit: usize) -> Result<Vec<Client>, StoreError> {
        let after = after.map(table::client);
        let page: Vec<Loaded<Client>> = self.page(&table::all(Table::Client), after.as_deref(), limit).await?;
        Ok(page.into_iter().map(|loaded| loaded.value).collect())
    }

    /// Returns the user with this `sub`, even if disabled.
    pub async fn user(&self, subject: Subject) -> Result<Option<User>, StoreError> {
        Ok(self.load(table::user(subject)).await?.map(|loaded| loaded.value))
    }

    /// Returns the user with this e-mail address, even if disabled.
    pub async fn user_by_email(&self, email: &Email) -> Result<Option<User>, StoreError> {
        self.user_by_name(table::email(&email.lookup_key())).await
    }

    /// Returns the user with this username, even if disabled.
    pub async fn user_by_username(&self, username: &Username) -> Result<Option<User>, StoreError> {
        self.user_by_name(table::username(&username.lookup_key())).await
    }

    /// Returns the user to whom an index entry of a name leads.
    ///
    /// Earlier versions wrote entries for addresses that a source has not verified. Such an entry
    /// leads to no user.
    async fn user_by_name(&self, name: Key) -> Result<Option<User>, StoreError> {
        let Some(subject) = self.load::<Subject>(name.clone()).await? else { return Ok(None) };
        Ok(self.user(subject.value).await?.filter(|user| names(user).contains(&name)))
    }

    /// Returns the user whose e-mail address or username has this lookup key, even if disabled.
    ///
    /// No e-mail address is also a username.
    pub async fn user_by_lookup_key(&self, key: &SecretHash) -> Result<Option<User>, StoreError> {
        match self.user_by_name(table::email(key)).await? {
            Some(user) => Ok(Some(user)),
            None => self.user_by_name(table::username(key)).await,
        }
    }

    /// Returns the user with this e-mail address or username, as typed, even if disabled.
    ///
    /// No e-mail address is also a username.
    pub async fn user_by_sign_in_name(&self, typed: &str) -> Result<Option<User>, StoreError> {
        match (Email::parse(typed), Username::typed(typed)) {
            (Some(email), _) => self.user_by_email(&email).await,
            (None, Some(username)) => self.user_by_username(&username).await,
            (None, None) => Ok(None),
        }
    }

    /// Adds a user, with the index entries of the user's names.
    pub async fn add_user(&self, user: &User) -> Result<AddOutcome, StoreError> {
        for name in names(user) {
            if !self.is_name_free(&name).await? {
                return Ok(AddOutcome::Exists);
            }
        }
        self.add_users(std::slice::from_ref(user)).await
    }

    /// Adds all of these users or none, in one commit. `admin::users_file` limits their number.
    pub async fn add_users(&self, users: &[User]) -> Result<AddOutcome, StoreError> {
        let mut changes = Changes::default();
        for (number, user) in users.iter().enumerate() {
            // Encoding a user takes microseconds. Yield from time to time, so that other tasks can
            // run.
            if number % PAGE == PAGE - 1 {
                tokio::task::yield_now().await;
            }
            changes.put.push((table::user(user.sub), record::encode(user)?));
            for name in names(user) {
                changes.put.push((name, record::encode(&user.sub)?));
            }
        }
        let mut known = HashSet::new();
        if !changes.put.iter().all(|(key, _)| known.insert(key)) {
            return Ok(AddOutcome::Exists);
        }
        changes.expect = changes.put.iter().map(|(key, _)| Expect::Absent(key.clone())).collect();
        Ok(match self.commit(changes).await? {
            Committed::Yes => AddOutcome::Added,
            Committed::Conflict => AddOutcome::Exists,
        })
    }

    /// Changes a user. Retries on conflicts. Returns the new user.
    ///
    /// Changes to `sub`, e-mail address and username are ignored.
    pub async fn change_user(
        &self,
        subject: Subject,
        change: impl Fn(&mut User) + Send,
    ) -> Result<Option<User>, StoreError> {
        self.change_user_and(subject, None, change).await
    }

    /// Changes users in one commit. Retries on conflicts. Returns the users that were changed.
    ///
    /// `change` returns whether it has changed the user. Its changes to `sub`, e-mail address and
    /// username are ignored. The caller limits the number of users.
    pub async fn change_users(
        &self,
        subjects: &[Subject],
        change: impl Fn(&mut User) -> bool + Send,
    ) -> Result<Vec<Subject>, StoreError> {
        for _ in 0..MAX_CONFLICTS {
            let (mut changes, mut renewed) = (Changes::default(), Vec::new());
            for subject in subjects {
                let Some(loaded) = self.load::<User>(table::user(*subject)).await? else { continue };
                let mut next = loaded.value.clone();
                if !change(&mut next) {
                    continue;
                }
                next.sub = loaded.value.sub;
                next.email.clone_from(&loaded.value.email);
                next.username.clone_from(&loaded.value.username);
                changes.merge(record::replace(&loaded, &next)?);
                renewed.push(*subject);
            }
            if renewed.is_empty() || self.commit(changes).await? == Committed::Yes {
                return Ok(renewed);
            }
        }
        Err(StoreError::Contended)
    }

    /// Changes a user, possibly with another e-mail address or username. Retries on conflicts.
    ///
    /// Changes to `sub` are ignored. Other users can then use the previous names.
    pub async fn rename_user(
        &self,
        subject: Subject,
        change: impl Fn(&mut User) + Send,
    ) -> Result<RenameOutcome, StoreError> {
        self.rename_user_and_tell(subject, change, |_, _| None).await
    }

    /// Returns the changes to a user and to the index entries of the user's names, or the outcome
    /// if another user has one of the new names, or no name is left.
    pub(crate) async fn rename_changes(
        &self,
        loaded: &Loaded<User>,
        next: &User,
    ) -> Result<Result<Changes, RenameOutcome>, StoreError> {
        if next.email.is_none() && next.username.is_none() {
            return Ok(Err(RenameOutcome::Nameless));
        }
        let email = next.email.as_ref().map(|email| table::email(&email.lookup_key()));
        let of_names = names_changes(&loaded.value, next)?;
        for (name, _) in &of_names.put {
            if !self.is_name_free(name).await? {
                let is_address = Some(name) == email.as_ref();
                return Ok(Err(if is_address { RenameOutcome::EmailTaken } else { RenameOutcome::UsernameTaken }));
            }
        }
        let mut changes = record::replace(loaded, next)?;
        changes.merge(of_names);
        Ok(Ok(changes))
    }

    /// Returns whether no user has a name. Deletes the entry of an earlier version for an address that
    /// its source has not verified.
    pub(crate) async fn is_name_free(&self, name: &Key) -> Result<bool, StoreError> {
        let Some(entry) = self.load::<Subject>(name.clone()).await? else { return Ok(true) };
        let Some(holder) = self.user_record(entry.value).await? else { return Ok(false) };
        if names(&holder.value).contains(name) {
            return Ok(false);
        }
        let (expect, delete) = (vec![entry.unchanged(), holder.unchanged()], vec![name.clone()]);
        Ok(self.commit(Changes { expect, delete, ..Changes::default() }).await? == Committed::Yes)
    }

    /// Deletes a user with everything that belongs to the user. The audit log keeps its events, with
    /// the user's `sub` only.
    ///
    /// One commit deletes the user, factors, credentials and links, and opens a revocation. The
    /// revocation ends sessions and grants, and deletes consents and messages. If the process
    /// crashes in between, garbage collection completes the revocation.
    ///
    /// # Errors
    /// Returns the store's error. If the user still exists, the call can be repeated.
    pub async fn delete_user(&self, subject: Subject, now: UnixTime) -> Result<bool, StoreError> {
        let revocation = self.new_revocation(subject, EndReason::Administrator, now);
        if !self.remove_user(&revocation).await? {
            return Ok(false);
        }
        self.carry_out(&revocation).await?;
        Ok(true)
    }

    /// Deletes the records of a user whose keys contain the user, and the index entries of names and
    /// credentials. Retries on conflicts.
    ///
    /// If another request changes a name at the same time, the entry of the new name is also
    /// deleted.
    async fn remove_user(&self, revocation: &Revocation) -> Result<bool, StoreError> {
        let subject = revocation.subject;
        for _ in 0..MAX_CONFLICTS {
            let Some(loaded) = self.load::<User>(table::user(subject)).await? else { return Ok(false) };
            let mut changes = self.factors_removal(subject).await?;
            changes.expect.push(loaded.unchanged());
            changes.delete.push(loaded.key().clone());
            changes.delete.extend(names(&loaded.value));
            changes.delete.extend([
                table::account_links(subject),
                table::app_credentials(subject),
                table::app_passwords(subject),
                table::known_browsers(subject),
            ]);
            if self.commit(opened(changes, Some(revocation))?).await? == Committed::Yes {
                return Ok(true);
            }
        }
        Err(StoreError::Contended)
    }

    /// Deletes the remaining records of a user who no longer exists: consents, counts of
    /// notifications, and messages to the user.
    pub(crate) async fn remove_remains(&self, subject: Subject) -> Result<(), StoreError> {
        for prefix in [table::consents(subject), table::notice_counts(subject)] {
            loop {
                let rows = self.engine.scan(&prefix, None, PAGE).await?;
                if rows.is_empty() {
                    break;
                }
                let delete = rows.into_iter().map(|(key, _)| key).collect();
                self.write(Changes { delete, ..Changes::default() }).await?;
            }
        }
        self.drop_all_mails_of(subject).await
    }

    /// Returns up to `limit` users whose `sub` is greater than `after`, in order.
    pub async fn users(&self, after: Option<Subject>, limit: usize) -> Result<Vec<User>, StoreError> {
        let after = after.map(table::user);
        let page: Vec<Loaded<User>> = self.page(&table::all(Table::User), after.as_deref(), limit).await?;
        Ok(page.into_iter().map(|loaded| loaded.value).collect())
    }
}

/// Refuses to change a client of the configuration file, which only [`Store::define_clients`] may
/// change.
fn refuse_defined(client: &Client) -> Result<(), StoreError> {
    if client.from_configuration { Err(StoreError::DefinedClient(client.id.clone())) } else { Ok(()) }
}

/// Returns the changes that add a user, with the index entries of the user's names.
pub(crate) fn user_creation(user: &User) -> Result<Changes, StoreError> {
    let mut changes = record::create(table::user(user.sub), user)?;
    for name in names(user) {
        changes.expect.push(Expect::Absent(name.clone()));
        changes.put.push((name, record::encode(&user.sub)?));
    }
    Ok(changes)
}

/// Returns the changes to the index entries of a user's names. They conflict if another user has
/// one of the new names.
pub(crate) fn names_changes(before: &User, after: &User) -> Result<Changes, StoreError> {
    let (before, names) = (names(before), names(after));
    let mut changes = Changes::default();
    for name in names.iter().filter(|name| !before.contains(name)) {
        changes.expect.push(Expect::Absent(name.clone()));
        changes.put.push((name.clone(), record::encode(&after.sub)?));
    }
    changes.delete.extend(before.into_iter().filter(|name| !names.contains(name)));
    Ok(changes)
}

/// Returns the keys of the index entries of a user's names and of the link to the source.
///
/// The names of an account that is gone from its source have no entry, so that another account can
/// have them. An address that the source has not verified has no entry either: its user could keep
/// the owner of the address out (see [`User::own_email`]).
pub(crate) fn names(user: &User) -> Vec<Key> {
    let link = user.source.as_ref().map(|source| table::source_link(&source.link.lookup_key()));
    if user.source.as_ref().is_some_and(|source| source.state == SourceState::Gone) {
        return link.into_iter().collect();
    }
    let email = user.own_email().map(|email| table::email(&email.lookup_key()));
    let username = user.username.as_ref().map(|username| table::username(&username.lookup_key()));
    email.into_iter().chain(username).chain(link).collect()
}
