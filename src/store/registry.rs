//! Clients and people.

use std::collections::HashSet;

use crate::domain::client::{Client, ClientId};
use crate::domain::grant::EndReason;
use crate::domain::secret::SecretHash;
use crate::domain::time::UnixTime;
use crate::domain::user::{Email, Subject, User};
use crate::domain::username::Username;
use crate::store::engine::{Changes, Expect, Key};
use crate::store::record::{self, Loaded};
use crate::store::revocations::{Revocation, opened};
use crate::store::table::{self, Table};
use crate::store::{Committed, MOST_CONFLICTS, PAGE, Store, StoreError};

/// How a change of what somebody is found by ended.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum RenameOutcome {
    Renamed(Box<User>),
    /// There is no such person.
    Absent,
    /// Somebody else has the address; nothing changed.
    EmailTaken,
    /// Somebody else has the username; nothing changed.
    UsernameTaken,
}

/// How adding a record ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum AddOutcome {
    Added,
    /// One with that id, address or username is there already; nothing changed.
    Exists,
}

/// People that one search looks at.
const MOST_LOOKED_AT: usize = 4096;

/// People who answer to what somebody typed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsersFound {
    /// They. May be none although there are more to look at.
    pub users: Vec<User>,
    /// After whom to go on; `None` when all were looked at.
    pub next: Option<Subject>,
}

impl Store {
    /// The client with this id, enabled or not.
    pub async fn client(&self, id: &ClientId) -> Result<Option<Client>, StoreError> {
        Ok(self.load(table::client(id)).await?.map(|loaded| loaded.value))
    }

    pub async fn add_client(&self, client: &Client) -> Result<AddOutcome, StoreError> {
        Ok(match self.commit(record::create(table::client(&client.id), client)?).await? {
            Committed::Yes => AddOutcome::Added,
            Committed::Conflict => AddOutcome::Exists,
        })
    }

    /// Changes a client, whatever races with it. Yields its new state, or `None` when there is no such client.
    pub async fn change_client(
        &self,
        id: &ClientId,
        change: impl Fn(&mut Client) + Send,
    ) -> Result<Option<Client>, StoreError> {
        for _ in 0..MOST_CONFLICTS {
            let Some(loaded) = self.load::<Client>(table::client(id)).await? else { return Ok(None) };
            let mut next = loaded.value.clone();
            change(&mut next);
            if self.commit(record::replace(&loaded, &next)?).await? == Committed::Yes {
                return Ok(Some(next));
            }
        }
        Err(StoreError::Contended)
    }

    /// Removes a client and ends its grants, so that a later client of the same id inherits nothing.
    ///
    /// # Errors
    /// When the store fails; the call can be repeated.
    pub async fn delete_client(&self, id: &ClientId, now: UnixTime) -> Result<bool, StoreError> {
        // The record goes first: without it no new grant can come while the old ones are being ended.
        let existed = self.remove_client(id).await?;
        self.end_grants_of_client(id, EndReason::Administrator, now).await?;
        Ok(existed)
    }

    /// Removes a client's record alone, whatever races with it.
    async fn remove_client(&self, id: &ClientId) -> Result<bool, StoreError> {
        for _ in 0..MOST_CONFLICTS {
            let Some(loaded) = self.load::<Client>(table::client(id)).await? else { return Ok(false) };
            let delete = vec![loaded.key().clone()];
            let changes = Changes { expect: vec![loaded.unchanged()], delete, ..Changes::default() };
            if self.commit(changes).await? == Committed::Yes {
                self.registration_gone(&loaded.value);
                return Ok(true);
            }
        }
        Err(StoreError::Contended)
    }

    /// Up to `limit` clients in the order of their ids, after `after`.
    pub async fn clients(&self, after: Option<&ClientId>, limit: usize) -> Result<Vec<Client>, StoreError> {
        let after = after.map(table::client);
        let page: Vec<Loaded<Client>> = self.page(&table::all(Table::Client), after.as_deref(), limit).await?;
        Ok(page.into_iter().map(|loaded| loaded.value).collect())
    }

    /// The person with this `sub`, enabled or not.
    pub async fn user(&self, subject: Subject) -> Result<Option<User>, StoreError> {
        Ok(self.load(table::user(subject)).await?.map(|loaded| loaded.value))
    }

    /// The person with this address, enabled or not.
    pub async fn user_by_email(&self, email: &Email) -> Result<Option<User>, StoreError> {
        match self.load::<Subject>(table::email(&email.lookup_key())).await? {
            Some(found) => self.user(found.value).await,
            None => Ok(None),
        }
    }

    /// The person with this username, enabled or not.
    pub async fn user_by_username(&self, username: &Username) -> Result<Option<User>, StoreError> {
        match self.load::<Subject>(table::username(&username.lookup_key())).await? {
            Some(found) => self.user(found.value).await,
            None => Ok(None),
        }
    }

    /// The person whose address or username has this lookup key, enabled or not. Nothing is both.
    pub async fn user_by_lookup_key(&self, key: &SecretHash) -> Result<Option<User>, StoreError> {
        let mut found = self.load::<Subject>(table::email(key)).await?;
        if found.is_none() {
            found = self.load::<Subject>(table::username(key)).await?;
        }
        match found {
            Some(found) => self.user(found.value).await,
            None => Ok(None),
        }
    }

    /// The person whose address or username somebody typed, enabled or not. Nothing is both.
    pub async fn user_by_sign_in_name(&self, typed: &str) -> Result<Option<User>, StoreError> {
        match (Email::parse(typed), Username::typed(typed)) {
            (Some(email), _) => self.user_by_email(&email).await,
            (None, Some(username)) => self.user_by_username(&username).await,
            (None, None) => Ok(None),
        }
    }

    pub async fn add_user(&self, user: &User) -> Result<AddOutcome, StoreError> {
        self.add_users(std::slice::from_ref(user)).await
    }

    /// Adds people, all of them or nobody. One commit holds them: see `admin::people_file` for how many there are at most.
    pub async fn add_users(&self, users: &[User]) -> Result<AddOutcome, StoreError> {
        let mut changes = Changes::default();
        for (number, user) in users.iter().enumerate() {
            // Each takes some microseconds, and others wait for this thread.
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

    /// Changes a person, whatever races with it; their `sub`, address and username stay. Yields the new state.
    pub async fn change_user(
        &self,
        subject: Subject,
        change: impl Fn(&mut User) + Send,
    ) -> Result<Option<User>, StoreError> {
        self.change_user_and(subject, None, change).await
    }

    /// Changes a person with what they are found by, whatever races with it; their `sub` stays. A name that they give up is
    /// anybody's.
    pub async fn rename_user(
        &self,
        subject: Subject,
        change: impl Fn(&mut User) + Send,
    ) -> Result<RenameOutcome, StoreError> {
        self.rename_user_and_tell(subject, change, |_, _| None).await
    }

    /// What makes one person of the other, with the entries by which they are found; or who has a name that they are to have.
    pub(super) async fn rename_changes(
        &self,
        loaded: &Loaded<User>,
        next: &User,
    ) -> Result<Result<Changes, RenameOutcome>, StoreError> {
        let of_names = names_changes(&loaded.value, next)?;
        for (name, _) in &of_names.put {
            if self.load::<Subject>(name.clone()).await?.is_some() {
                let is_address = *name == table::email(&next.email.lookup_key());
                return Ok(Err(if is_address { RenameOutcome::EmailTaken } else { RenameOutcome::UsernameTaken }));
            }
        }
        let mut changes = record::replace(loaded, next)?;
        changes.merge(of_names);
        Ok(Ok(changes))
    }

    /// Removes a person with their sessions, grants and consents.
    ///
    /// # Errors
    /// When the store fails; the call can be repeated.
    pub async fn delete_user(&self, subject: Subject, now: UnixTime) -> Result<bool, StoreError> {
        let revocation = self.new_revocation(subject, EndReason::Administrator, now);
        if !self.remove_user(&revocation).await? {
            return Ok(false);
        }
        self.remove_factors(subject).await?;
        self.remove_account_links(subject).await?;
        self.carry_out(&revocation).await?;
        loop {
            let rows = self.engine.scan(&table::consents(subject), None, PAGE).await?;
            if rows.is_empty() {
                return Ok(true);
            }
            let delete = rows.into_iter().map(|(key, _)| key).collect();
            self.write(Changes { delete, ..Changes::default() }).await?;
        }
    }

    /// Removes a person's record and the names that lead to it, whatever races with it: a name that was given at this very
    /// moment must not lead nowhere for ever.
    async fn remove_user(&self, revocation: &Revocation) -> Result<bool, StoreError> {
        for _ in 0..MOST_CONFLICTS {
            let Some(loaded) = self.load::<User>(table::user(revocation.subject)).await? else { return Ok(false) };
            let delete = [loaded.key().clone()].into_iter().chain(names(&loaded.value)).collect();
            let changes = Changes { expect: vec![loaded.unchanged()], delete, ..Changes::default() };
            if self.commit(opened(changes, Some(revocation))?).await? == Committed::Yes {
                return Ok(true);
            }
        }
        Err(StoreError::Contended)
    }

    /// Up to `limit` people in the order of their `sub`, after `after`.
    pub async fn users(&self, after: Option<Subject>, limit: usize) -> Result<Vec<User>, StoreError> {
        let after = after.map(table::user);
        let page: Vec<Loaded<User>> = self.page(&table::all(Table::User), after.as_deref(), limit).await?;
        Ok(page.into_iter().map(|loaded| loaded.value).collect())
    }

    /// Up to `limit` people who answer to what is typed ([`User::answers_to`]), in the order of their `sub`, after `after`.
    /// Looks at a bounded number of people: there may be a `next` with fewer than `limit` found.
    pub async fn find_users(
        &self,
        typed: &str,
        after: Option<Subject>,
        limit: usize,
    ) -> Result<UsersFound, StoreError> {
        let (mut users, mut last, mut looked_at) = (Vec::new(), after, 0);
        while looked_at < MOST_LOOKED_AT {
            let page = self.users(last, PAGE).await?;
            let whole = page.len() == PAGE;
            looked_at += page.len();
            for user in page {
                last = Some(user.sub);
                if user.answers_to(typed) {
                    users.push(user);
                    if users.len() == limit {
                        return Ok(UsersFound { users, next: last });
                    }
                }
            }
            if !whole {
                return Ok(UsersFound { users, next: None });
            }
        }
        Ok(UsersFound { users, next: last })
    }
}

/// What adds a person with the entries that lead to them.
pub(super) fn user_creation(user: &User) -> Result<Changes, StoreError> {
    let mut changes = record::create(table::user(user.sub), user)?;
    for name in names(user) {
        changes.expect.push(Expect::Absent(name.clone()));
        changes.put.push((name, record::encode(&user.sub)?));
    }
    Ok(changes)
}

/// What makes one person's entries of the other's. A conflict means that somebody has a name that they are to have.
pub(super) fn names_changes(before: &User, after: &User) -> Result<Changes, StoreError> {
    let (before, names) = (names(before), names(after));
    let mut changes = Changes::default();
    for name in names.iter().filter(|name| !before.contains(name)) {
        changes.expect.push(Expect::Absent(name.clone()));
        changes.put.push((name.clone(), record::encode(&after.sub)?));
    }
    changes.delete.extend(before.into_iter().filter(|name| !names.contains(name)));
    Ok(changes)
}

/// The entries of the indexes that lead to a person.
pub(super) fn names(user: &User) -> Vec<Key> {
    let username = user.username.as_ref().map(|username| table::username(&username.lookup_key()));
    [table::email(&user.email.lookup_key())].into_iter().chain(username).collect()
}
