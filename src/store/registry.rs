//! Clients and people.

use crate::protocol::client::{Client, ClientId};
use crate::protocol::grant::EndReason;
use crate::protocol::time::UnixTime;
use crate::protocol::user::{Email, Subject, User};
use crate::store::engine::{Changes, Expect};
use crate::store::table::{self, Loaded, Table};
use crate::store::{Committed, MOST_CONFLICTS, PAGE, Store, StoreError};

/// How adding a record ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum AddOutcome {
    /// It was added.
    Added,
    /// One with that id or address is there already; nothing changed.
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
    ///
    /// # Errors
    /// When the store fails.
    pub async fn client(&self, id: &ClientId) -> Result<Option<Client>, StoreError> {
        Ok(self.load(table::client(id)).await?.map(|loaded| loaded.value))
    }

    /// Adds a client.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn add_client(&self, client: &Client) -> Result<AddOutcome, StoreError> {
        Ok(match self.commit(table::create(table::client(&client.id), client)?).await? {
            Committed::Yes => AddOutcome::Added,
            Committed::Conflict => AddOutcome::Exists,
        })
    }

    /// Changes a client, whatever races with it. Yields its new state, or `None` when there is no such client.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn change_client(
        &self,
        id: &ClientId,
        change: impl Fn(&mut Client) + Send,
    ) -> Result<Option<Client>, StoreError> {
        for _ in 0..MOST_CONFLICTS {
            let Some(loaded) = self.load::<Client>(table::client(id)).await? else { return Ok(None) };
            let mut next = loaded.value.clone();
            change(&mut next);
            if self.commit(table::replace(&loaded, &next)?).await? == Committed::Yes {
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
    ///
    /// # Errors
    /// When the store fails.
    pub async fn clients(&self, after: Option<&ClientId>, limit: usize) -> Result<Vec<Client>, StoreError> {
        let after = after.map(table::client);
        let page: Vec<Loaded<Client>> = self.page(&table::all(Table::Client), after.as_deref(), limit).await?;
        Ok(page.into_iter().map(|loaded| loaded.value).collect())
    }

    /// The person with this `sub`, enabled or not.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn user(&self, subject: Subject) -> Result<Option<User>, StoreError> {
        Ok(self.load(table::user(subject)).await?.map(|loaded| loaded.value))
    }

    /// The person with this address, enabled or not.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn user_by_email(&self, email: &Email) -> Result<Option<User>, StoreError> {
        match self.load::<Subject>(table::email(&email.lookup_key())).await? {
            Some(found) => self.user(found.value).await,
            None => Ok(None),
        }
    }

    /// Adds a person.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn add_user(&self, user: &User) -> Result<AddOutcome, StoreError> {
        let mut changes = table::create(table::user(user.sub), user)?;
        let address = table::email(&user.email.lookup_key());
        changes.expect.push(Expect::Absent(address.clone()));
        changes.put.push((address, table::encode(&user.sub)?));
        Ok(match self.commit(changes).await? {
            Committed::Yes => AddOutcome::Added,
            Committed::Conflict => AddOutcome::Exists,
        })
    }

    /// Changes a person, whatever races with it; their `sub` and address stay. Yields the new state.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn change_user(
        &self,
        subject: Subject,
        change: impl Fn(&mut User) + Send,
    ) -> Result<Option<User>, StoreError> {
        for _ in 0..MOST_CONFLICTS {
            let Some(loaded) = self.load::<User>(table::user(subject)).await? else { return Ok(None) };
            let mut next = loaded.value.clone();
            change(&mut next);
            next.sub = loaded.value.sub;
            next.email = loaded.value.email.clone();
            if self.commit(table::replace(&loaded, &next)?).await? == Committed::Yes {
                return Ok(Some(next));
            }
        }
        Err(StoreError::Contended)
    }

    /// Removes a person with their sessions, grants and consents.
    ///
    /// # Errors
    /// When the store fails; the call can be repeated.
    pub async fn delete_user(&self, subject: Subject, now: UnixTime) -> Result<bool, StoreError> {
        let Some(user) = self.user(subject).await? else { return Ok(false) };
        let delete = vec![table::user(subject), table::email(&user.email.lookup_key())];
        self.write(Changes { delete, ..Changes::default() }).await?;
        self.end_sessions_of_user(subject).await?;
        self.end_grants_of_user(subject, EndReason::Administrator, now).await?;
        loop {
            let rows = self.engine.scan(&table::consents(subject), None, PAGE).await?;
            if rows.is_empty() {
                return Ok(true);
            }
            let delete = rows.into_iter().map(|(key, _)| key).collect();
            self.write(Changes { delete, ..Changes::default() }).await?;
        }
    }

    /// Up to `limit` people in the order of their `sub`, after `after`.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn users(&self, after: Option<Subject>, limit: usize) -> Result<Vec<User>, StoreError> {
        let after = after.map(table::user);
        let page: Vec<Loaded<User>> = self.page(&table::all(Table::User), after.as_deref(), limit).await?;
        Ok(page.into_iter().map(|loaded| loaded.value).collect())
    }

    /// Up to `limit` people who answer to what is typed ([`User::answers_to`]), in the order of their `sub`, after `after`.
    /// Looks at a bounded number of people: there may be a `next` with fewer than `limit` found.
    ///
    /// # Errors
    /// When the store fails.
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
