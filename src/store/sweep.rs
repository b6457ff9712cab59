//! Sweeping: removes what has expired, a bounded amount a pass. Only hygiene: every read checks the time itself.

use std::time::Duration;

use serde::Deserialize;

use crate::protocol::client::{Client, ClientId};
use crate::protocol::grant::Grant;
use crate::protocol::secret::base64url;
use crate::protocol::session::Session;
use crate::protocol::time::UnixTime;
use crate::store::engine::{Changes, EngineError, Expect, Key};
use crate::store::table::{self, Table};
use crate::store::{Committed, PAGE, Store, StoreError, grants, sessions};

/// When a record that cannot be read is looked at again.
const LATER: Duration = Duration::from_hours(24);

/// What one pass did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Swept {
    /// Records that were removed.
    pub removed: usize,
    /// Records that live longer than was known when they were made, and were entered again.
    pub kept: usize,
    /// Of these, the clients that had registered themselves and that nobody has used.
    pub clients: Vec<ClientId>,
    /// Whether there may be more to do.
    pub more: bool,
}

/// Any record that says when it expires.
#[derive(Deserialize)]
struct Expires {
    expires_at: UnixTime,
}

/// Entries of an earlier minute than this one are swept.
fn due(now: UnixTime) -> u32 {
    u32::try_from(now.seconds() / 60).unwrap_or(u32::MAX)
}

impl Store {
    /// Removes up to `most` expired records.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn sweep(&self, now: UnixTime, most: usize) -> Result<Swept, StoreError> {
        let due = due(now);
        let rows = self.engine.scan(&table::all(Table::Expiry), None, most).await?;
        let mut swept = Swept { more: rows.len() == most, ..Swept::default() };
        for (entry, _) in rows {
            let Some((minute, record)) = table::expiry_of(&entry) else { continue };
            if minute >= due {
                swept.more = false;
                break;
            }
            let removed = match self.sweep_one(&entry, record, now, &mut swept.clients).await {
                Ok(removed) => removed,
                // One damaged record must not stop every sweep at the same place.
                Err(error) if is_of_record(&error) => {
                    tracing::error!(key = base64url(record), %error, "an expired record cannot be read; skipped for a day");
                    self.enter_again(&entry, now.plus(LATER), record).await?;
                    false
                }
                Err(error) => return Err(error),
            };
            swept.removed += usize::from(removed);
            swept.kept += usize::from(!removed);
        }
        Ok(swept)
    }

    /// How many records wait to be swept; counts no further than `most`.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn expired_pending(&self, now: UnixTime, most: usize) -> Result<usize, StoreError> {
        let due = due(now);
        let (mut pending, mut after) = (0, None::<Key>);
        while pending < most {
            let rows = self.engine.scan(&table::all(Table::Expiry), after.as_deref(), PAGE.min(most - pending)).await?;
            let is_due = |entry: &[u8]| table::expiry_of(entry).is_none_or(|(minute, _)| minute < due);
            let counted = rows.iter().take_while(|(entry, _)| is_due(entry)).count();
            pending += counted;
            if counted < rows.len() {
                break;
            }
            let Some((last, _)) = rows.into_iter().next_back() else { break };
            after = Some(last);
        }
        Ok(pending)
    }

    async fn sweep_one(
        &self,
        entry: &[u8],
        record: &[u8],
        now: UnixTime,
        clients: &mut Vec<ClientId>,
    ) -> Result<bool, StoreError> {
        let Some(bytes) = self.engine.get(record).await? else {
            self.write(Changes { delete: vec![entry.to_owned()], ..Changes::default() }).await?;
            return Ok(true);
        };
        if record.first() == Some(&(Table::Client as u8)) {
            let gone = self.sweep_client(entry, &table::decode::<Client>(record, bytes)?, now).await?;
            let is_gone = gone.is_some();
            clients.extend(gone);
            return Ok(is_gone);
        }
        let unchanged = Expect::Value(record.to_owned(), bytes.clone());
        let table = record.first().copied().unwrap_or_default();
        let is = |wanted: Table| table == wanted as u8;
        let mut delete = vec![entry.to_owned(), record.to_owned()];
        let expires_at = if is(Table::Grant) {
            let grant = table::decode::<Grant>(record, bytes)?.value;
            delete.extend(grants::entries(&grant));
            grant.expires_at
        } else if is(Table::Session) {
            let session = table::decode::<Session>(record, bytes)?.value;
            delete.extend(sessions::entries(&session));
            session.expires_at
        } else if is(Table::RevokedToken) || is(Table::Once) {
            table::decode::<UnixTime>(record, bytes)?.value
        } else {
            let expires_at = table::decode::<Expires>(record, bytes)?.value.expires_at;
            if is(Table::Form) {
                delete.push(table::form_age(expires_at, record));
            }
            expires_at
        };
        if expires_at > now {
            self.enter_again(entry, expires_at, record).await?;
            return Ok(false);
        }
        let removed =
            self.commit(Changes { expect: vec![unchanged], put: Vec::new(), delete, ..Changes::default() }).await?;
        if removed == Committed::Yes && (is(Table::Interaction) || is(Table::SignInAttempt)) {
            self.interaction_gone();
        }
        if removed == Committed::Yes && is(Table::Form) {
            self.form_gone();
        }
        Ok(removed == Committed::Yes)
    }

    async fn enter_again(&self, entry: &[u8], at: UnixTime, record: &[u8]) -> Result<(), StoreError> {
        let put = vec![(table::expiry(at, record), Vec::new())];
        self.write(Changes { put, delete: vec![entry.to_owned()], expect: Vec::new(), ..Changes::default() }).await
    }
}

/// Whether an error says that this one record is damaged; a store that fails as a whole fails at the next write too.
fn is_of_record(error: &StoreError) -> bool {
    matches!(error, StoreError::Broken(_) | StoreError::Engine(EngineError::Unavailable(_)))
}
