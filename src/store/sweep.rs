//! Sweeping: removes what has expired, a bounded amount a pass. Only hygiene: every read checks the time itself.

use std::collections::HashSet;
use std::time::Duration;

use serde::Deserialize;

use crate::domain::client::{Client, ClientId};
use crate::domain::grant::Grant;
use crate::domain::secret::base64url;
use crate::domain::session::Session;
use crate::domain::time::UnixTime;
use crate::store::engine::{Changes, EngineError, Expect, Key, Value};
use crate::store::interactions::kept_until;
use crate::store::record;
use crate::store::revocations::Revocation;
use crate::store::table::{self, Table};
use crate::store::{Committed, PAGE, Store, StoreError, grants, sessions};

/// When a record that cannot be read is looked at again.
const LATER: Duration = Duration::from_hours(24);

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

/// What a due entry of the expiry index comes to.
struct Judged {
    expect: Vec<Expect>,
    put: Vec<(Key, Value)>,
    delete: Vec<Key>,
    /// The record's table, where the record goes.
    removed: Option<u8>,
}

impl Store {
    /// Looks at up to `most` entries that are due and removes the records that have expired, in one commit. Where a record
    /// changes at the same time, each is removed in a commit of its own.
    pub async fn sweep(&self, now: UnixTime, most: usize) -> Result<Swept, StoreError> {
        let due = due(now);
        let rows = self.engine.scan(&table::all(Table::Expiry), None, most).await?;
        let mut swept = Swept { more: rows.len() == most, ..Swept::default() };
        // A record may have two entries. The second waits for the next pass: no key may stand in a commit twice.
        let mut seen = HashSet::new();
        let mut judged = Vec::new();
        for (entry, _) in &rows {
            let Some((minute, record)) = table::expiry_of(entry) else { continue };
            if minute >= due {
                swept.more = false;
                break;
            }
            if !seen.insert(record) {
                continue;
            }
            if record.first() == Some(&(Table::Client as u8)) {
                let gone = self.sweep_client_of(entry, record, now).await?;
                swept.removed += usize::from(gone.is_some());
                swept.kept += usize::from(gone.is_none());
                swept.clients.extend(gone);
            } else if record.first() == Some(&(Table::Revocation as u8)) {
                self.sweep_revocation(entry, record, now).await?;
                swept.removed += 1;
            } else {
                judged.push(self.judge(entry, record, now).await?);
            }
        }
        if seen.is_empty() {
            // Whatever stands there is no work: to come again at once would never end.
            return Ok(Swept::default());
        }
        if judged.is_empty() {
            return Ok(swept);
        }
        let mut together = Changes::default();
        for one in &judged {
            together.expect.extend_from_slice(&one.expect);
            together.put.extend_from_slice(&one.put);
            together.delete.extend_from_slice(&one.delete);
        }
        if self.commit(together).await? == Committed::Yes {
            for one in &judged {
                self.swept_one(one, &mut swept);
            }
            return Ok(swept);
        }
        for one in judged {
            let Judged { expect, put, delete, .. } = &one;
            let mut alone = Changes::default();
            alone.expect.clone_from(expect);
            alone.put.clone_from(put);
            alone.delete.clone_from(delete);
            // One that has changed meanwhile is due again at the next pass.
            if self.commit(alone).await? == Committed::Yes {
                self.swept_one(&one, &mut swept);
            }
        }
        Ok(swept)
    }

    fn swept_one(&self, one: &Judged, swept: &mut Swept) {
        let Some(table) = one.removed else {
            swept.kept += 1;
            return;
        };
        swept.removed += 1;
        if table == Table::Interaction as u8 || table == Table::SignInAttempt as u8 {
            self.interaction_gone();
        } else if table == Table::Form as u8 {
            self.form_gone();
        } else if table == Table::PendingRegistration as u8 {
            self.pending_registration_gone();
        }
    }

    /// How many records wait to be swept; counts no further than `most`.
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

    /// A registered client that nobody has used: what it has is spread over several tables, so it goes by itself.
    async fn sweep_client_of(
        &self,
        entry: &[u8],
        record: &[u8],
        now: UnixTime,
    ) -> Result<Option<ClientId>, StoreError> {
        let found = self.engine.get(record).await.map_err(StoreError::from);
        match found.and_then(|bytes| bytes.map(|bytes| record::decode::<Client>(record, bytes)).transpose()) {
            Ok(Some(client)) => self.sweep_client(entry, &client, now).await,
            Ok(None) => {
                self.write(Changes { delete: vec![entry.to_owned()], ..Changes::default() }).await?;
                Ok(None)
            }
            Err(error) if is_of_record(&error) => {
                skipped(record, &error);
                let put = vec![(table::expiry(now.plus(LATER), record), Vec::new())];
                self.write(Changes { put, delete: vec![entry.to_owned()], ..Changes::default() }).await?;
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// A revocation that was begun and not carried out: whoever began it met a store that failed, or was stopped.
    async fn sweep_revocation(&self, entry: &[u8], record: &[u8], now: UnixTime) -> Result<(), StoreError> {
        let mut changes = Changes { delete: vec![entry.to_owned()], ..Changes::default() };
        let carried_out = match self.load::<Revocation>(record.to_owned()).await {
            Ok(Some(revocation)) => self.carry_out(&revocation.value).await.map(drop),
            Ok(None) => Ok(()),
            Err(error) => Err(error),
        };
        match carried_out {
            Ok(()) => {}
            // Of the revocation, or of what it ends.
            Err(error) if is_of_record(&error) => {
                skipped(record, &error);
                changes.put.push((table::expiry(now.plus(LATER), record), Vec::new()));
            }
            Err(error) => return Err(error),
        }
        self.write(changes).await
    }

    async fn judge(&self, entry: &[u8], record: &[u8], now: UnixTime) -> Result<Judged, StoreError> {
        let mut delete = vec![entry.to_owned()];
        let found =
            self.engine.get(record).await.map_err(StoreError::from).and_then(|bytes| {
                bytes.map(|bytes| Ok((bytes.clone(), expiry_and_entries(record, bytes)?))).transpose()
            });
        let (bytes, expires_at, entries) = match found {
            Ok(Some((bytes, (expires_at, entries)))) => (bytes, expires_at, entries),
            // The record went before its time.
            Ok(None) => {
                return Ok(Judged { expect: Vec::new(), put: Vec::new(), delete, removed: Some(Table::Expiry as u8) });
            }
            // One damaged record must not stop every sweep at the same place.
            Err(error) if is_of_record(&error) => {
                skipped(record, &error);
                (Vec::new(), now.plus(LATER), Vec::new())
            }
            Err(error) => return Err(error),
        };
        if expires_at > now {
            let put = vec![(table::expiry(expires_at, record), Vec::new())];
            return Ok(Judged { expect: Vec::new(), put, delete, removed: None });
        }
        delete.push(record.to_owned());
        delete.extend(entries);
        let expect = vec![Expect::Value(record.to_owned(), bytes)];
        Ok(Judged { expect, put: Vec::new(), delete, removed: record.first().copied() })
    }
}

/// When a record expires, and the entries of indexes that go with it.
fn expiry_and_entries(record: &[u8], bytes: Value) -> Result<(UnixTime, Vec<Key>), StoreError> {
    let table = record.first().copied().unwrap_or_default();
    let is = |wanted: Table| table == wanted as u8;
    Ok(if is(Table::Grant) {
        let grant = record::decode::<Grant>(record, bytes)?.value;
        (grant.expires_at, grants::entries(&grant).collect())
    } else if is(Table::Session) {
        let session = record::decode::<Session>(record, bytes)?.value;
        (session.expires_at, sessions::entries(&session).collect())
    } else if is(Table::RevokedToken) || is(Table::Once) {
        (record::decode::<UnixTime>(record, bytes)?.value, Vec::new())
    } else {
        let expires_at = record::decode::<Expires>(record, bytes)?.value.expires_at;
        let waits = is(Table::Interaction) || is(Table::SignInAttempt);
        let expires_at = if waits { kept_until(expires_at) } else { expires_at };
        (expires_at, if is(Table::Form) { vec![table::form_age(expires_at, record)] } else { Vec::new() })
    })
}

fn skipped(record: &[u8], error: &StoreError) {
    tracing::error!(key = base64url(record), %error, "an expired record cannot be read; skipped for a day");
}

/// Whether an error says that this one record is damaged; a store that fails as a whole fails at the next write too.
fn is_of_record(error: &StoreError) -> bool {
    matches!(error, StoreError::Broken(_) | StoreError::Engine(EngineError::Unavailable(_)))
}
