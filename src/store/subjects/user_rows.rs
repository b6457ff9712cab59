//! Records of users for the console's list of users, read in bulk and decoded only if they changed.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use serde::de::DeserializeOwned;

use crate::engine::{Key, Value};
use crate::format::table::Table;
use crate::format::{record, table};
use crate::{Store, StoreError};
use sealgate_domain::account_links::{AccountLinks, Invitation};
use sealgate_domain::factors::Factors;
use sealgate_domain::user::{Subject, User};

/// Records of a user: the user, factors and e-mailed links, not decoded yet.
#[derive(Debug)]
pub struct UserListRow {
    pub subject: Subject,
    /// Hash of the records. Equal records have the same hash.
    pub mark: u64,
    user: Value,
    factors: Option<Value>,
    links: Option<Value>,
}

/// Decoded records of a user.
#[derive(Debug)]
pub struct UserRecords {
    pub user: User,
    pub factors: Option<Factors>,
    pub invitation: Option<Invitation>,
}

impl UserListRow {
    fn new(subject: Subject, user: Value, factors: Option<Value>, links: Option<Value>) -> Self {
        let mut hasher = DefaultHasher::new();
        (&user, &factors, &links).hash(&mut hasher);
        Self { subject, mark: hasher.finish(), user, factors, links }
    }

    /// Decodes the records.
    ///
    /// # Errors
    /// [`StoreError::Broken`] if a record is damaged.
    pub fn read(self) -> Result<UserRecords, StoreError> {
        fn optional<T: DeserializeOwned>(key: &Key, bytes: Option<Value>) -> Result<Option<T>, StoreError> {
            bytes.map(|bytes| record::decode(key, bytes).map(|loaded| loaded.value)).transpose()
        }
        let links: Option<AccountLinks> = optional(&table::account_links(self.subject), self.links)?;
        Ok(UserRecords {
            user: record::decode(&table::user(self.subject), self.user)?.value,
            factors: optional(&table::factors(self.subject), self.factors)?,
            invitation: links.and_then(|links| links.invitation),
        })
    }
}

impl Store {
    /// Returns the records of up to `limit` users whose `sub` is greater than `after`, in order.
    ///
    /// # Errors
    /// Returns the store's error.
    pub async fn user_rows(&self, after: Option<Subject>, limit: usize) -> Result<Vec<UserListRow>, StoreError> {
        let after = after.map(table::user);
        let rows = self.engine.scan(&table::all(Table::User), after.as_deref(), limit).await?;
        let users = rows.into_iter().filter_map(|(key, user)| Some((subject_of(&key)?, user))).collect();
        self.with_more(users).await
    }

    /// Returns the records of these users. Leaves out users that do not exist.
    ///
    /// # Errors
    /// Returns the store's error.
    pub async fn user_rows_of(&self, subjects: &[Subject]) -> Result<Vec<UserListRow>, StoreError> {
        let keys: Vec<Key> = subjects.iter().copied().map(table::user).collect();
        let users = subjects.iter().copied().zip(self.engine.get_many(&keys).await?);
        self.with_more(users.filter_map(|(subject, user)| Some((subject, user?))).collect()).await
    }

    async fn with_more(&self, users: Vec<(Subject, Value)>) -> Result<Vec<UserListRow>, StoreError> {
        let keys = |key: fn(Subject) -> Key| -> Vec<Key> { users.iter().map(|(subject, _)| key(*subject)).collect() };
        let factors = self.engine.get_many(&keys(table::factors)).await?;
        let links = self.engine.get_many(&keys(table::account_links)).await?;
        let rows = users.into_iter().zip(factors).zip(links);
        Ok(rows.map(|(((subject, user), factors), links)| UserListRow::new(subject, user, factors, links)).collect())
    }
}

fn subject_of(key: &[u8]) -> Option<Subject> {
    key.get(1..)?.try_into().ok().map(Subject::from_bytes)
}
