//! Self-registered clients: use of initial access tokens, the limit of clients, and deletion of unused
//! clients.
//!
//! If registration is open, unauthenticated clients can register. The number of clients is tracked,
//! because counting them would read all of them for each request.

use std::time::Duration;

use crate::engine::{Changes, Key, Value};
use crate::format::record::Loaded;
use crate::format::table::Table;
use crate::format::{record, table};
use crate::subjects::registration_tokens::PresentedInitialToken;
use crate::{AddOutcome, Committed, MAX_CONFLICTS, PAGE, Store, StoreError};
use sealgate_domain::client::{Client, SelfRegistration};
use sealgate_domain::time::UnixTime;

/// Number of clients per commit. The sled engine limits the size of a batch.
const CLIENTS_PER_COMMIT: usize = 64;

/// Result of registering a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Registered {
    Added,
    /// The id is taken, or the initial access token does not work any more.
    Lost,
    /// The limit of self-registered clients is reached.
    Full,
}

impl Store {
    /// Adds a client and uses the initial access token, in one commit. `most` is the limit of
    /// self-registered clients.
    pub async fn register_client(
        &self,
        client: &Client,
        initial_token: Option<&PresentedInitialToken>,
        most: usize,
    ) -> Result<Registered, StoreError> {
        // Increment the total before writing the record. Otherwise concurrent requests could all
        // pass the limit.
        let reservation = self.registrations.reserve(1);
        if reservation.before >= most {
            reservation.cancel();
            return Ok(Registered::Full);
        }
        let outcome = self.add_registration(client, initial_token).await;
        if !matches!(outcome, Ok(AddOutcome::Added)) {
            reservation.cancel();
        }
        Ok(match outcome? {
            AddOutcome::Added => Registered::Added,
            AddOutcome::Exists => Registered::Lost,
        })
    }

    async fn add_registration(
        &self,
        client: &Client,
        initial_token: Option<&PresentedInitialToken>,
    ) -> Result<AddOutcome, StoreError> {
        let key = table::client(&client.id);
        for _ in 0..MAX_CONFLICTS {
            let mut changes = record::create(key.clone(), client)?;
            let until = client.registration.as_ref().and_then(|own| own.unused_until);
            changes.put.extend(until.map(|until| (table::expiry(until, &key), Vec::new())));
            if let Some(token) = initial_token {
                // The token has expired or was revoked meanwhile, or another request has used it.
                let loaded = self.loaded_registration_token(&token.hash).await?;
                let Some(loaded) = loaded.filter(|token| token.value.left() > 0) else {
                    return Ok(AddOutcome::Exists);
                };
                let Some(creator) = self.creator_of(&loaded.value, &token.creator).await? else {
                    return Ok(AddOutcome::Exists);
                };
                changes.expect.extend(creator);
                let mut used = loaded.value.clone();
                used.clients.push(client.id.clone());
                changes.merge(record::replace(&loaded, &used)?);
            }
            if self.commit(changes).await? == Committed::Yes {
                return Ok(AddOutcome::Added);
            }
            // Another client may have been registered with the same token. Without a token, the id is taken.
            if initial_token.is_none() {
                return Ok(AddOutcome::Exists);
            }
        }
        Ok(AddOutcome::Exists)
    }

    /// Records that a client is about to receive its first token, so that it is not deleted as
    /// unused. Returns false if the client was already deleted.
    pub async fn note_use(&self, client: &Client) -> Result<bool, StoreError> {
        if client.registration.as_ref().is_none_or(|own| own.used) {
            return Ok(true);
        }
        let used = |client: &mut Client| {
            if let Some(own) = &mut client.registration {
                *own = SelfRegistration { used: true, unused_until: None, ..own.clone() };
            }
        };
        Ok(self.change_client(&client.id, used).await?.is_some())
    }

    /// Counts the self-registered clients, and gives each client without a deadline the deadline
    /// `unused`.
    ///
    /// Clients of an older program have no deadline, because that program did not record whether
    /// they were used. To be called at startup, before this process serves. Other nodes may be
    /// serving.
    pub async fn settle_registrations(&self, now: UnixTime, unused: Duration) -> Result<(), StoreError> {
        let (mut count, mut after, mut conflicts) = (0, None::<Key>, 0);
        loop {
            let rows = self.engine.scan(&table::all(Table::Client), after.as_deref(), CLIENTS_PER_COMMIT).await?;
            let Some((last, _)) = rows.last() else { break };
            let last = last.clone();
            let (on_page, changes) = with_deadlines(rows, now, unused)?;
            if !changes.put.is_empty() && self.commit(changes).await? == Committed::Conflict {
                // Another node has changed a client of this page, so read the page again.
                conflicts += 1;
                if conflicts == MAX_CONFLICTS {
                    return Err(StoreError::Contended);
                }
                continue;
            }
            count += on_page;
            after = Some(last);
        }
        if !self.registrations.is_followed() {
            self.registrations.set(count);
        }
        Ok(())
    }

    pub(crate) async fn count_registrations(&self) -> Result<usize, StoreError> {
        let (mut count, mut after) = (0, None::<Key>);
        loop {
            let rows = self.engine.scan(&table::all(Table::Client), after.as_deref(), PAGE).await?;
            let Some((last, _)) = rows.last() else { return Ok(count) };
            after = Some(last.clone());
            let clients = rows.into_iter().filter_map(|(key, bytes)| record::decode::<Client>(&key, bytes).ok());
            count += clients.filter(|client| client.value.registration.is_some()).count();
        }
    }

    /// Returns the number of self-registered clients.
    pub fn self_registered_clients(&self) -> usize {
        self.registrations.total()
    }

    pub(crate) fn registration_gone(&self, client: &Client) {
        if client.registration.is_some() {
            self.registrations.subtract_one();
        }
    }
}

/// Returns the number of self-registered clients in these rows, and the changes that add missing
/// deadlines.
fn with_deadlines(rows: Vec<(Key, Value)>, now: UnixTime, unused: Duration) -> Result<(usize, Changes), StoreError> {
    let (mut count, mut changes) = (0, Changes::default());
    for (key, bytes) in rows {
        let loaded: Loaded<Client> = match record::decode(&key, bytes) {
            Ok(loaded) => loaded,
            Err(error) => {
                // An unreadable client must not affect other clients.
                tracing::error!(%error, "a client cannot be read");
                continue;
            }
        };
        let Some(own) = &loaded.value.registration else { continue };
        count += 1;
        if own.used {
            continue;
        }
        let until = own.unused_until.unwrap_or_else(|| now.plus(unused));
        if own.unused_until.is_none() {
            let own = SelfRegistration { unused_until: Some(until), ..own.clone() };
            let next = record::replace(&loaded, &Client { registration: Some(own), ..loaded.value.clone() })?;
            changes.expect.extend(next.expect);
            changes.put.extend(next.put);
        }
        // Write the entry even if the client may already have one. The client may have been
        // approved when an earlier entry was due, and may have lost the approval since then.
        changes.put.push((table::expiry(until, &key), Vec::new()));
    }
    Ok((count, changes))
}
