//! Queue of logout tokens to clients, and the clients that a session lists.
//!
//! A logout is committed together with the end of the sign-in. The queue is ordered by client and
//! due time, so that logouts that one client does not accept never delay those of other clients.
//! Before an attempt, a logout is leased by moving its due time. Therefore a logout is sent at least
//! once.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::cluster::leases::Fence;
use crate::engine::{Changes, Counter, Expect, Key};
use crate::format::record::Loaded;
use crate::format::table::Table;
use crate::format::{record, table};
use crate::subjects::outbox::removal;
use crate::{Committed, PAGE, Store, StoreError};
use sealgate_domain::client::{Client, ClientFeature, ClientId};
use sealgate_domain::client_logout::{ClientLogout, MAX_SESSION_CLIENTS, SessionClient};
use sealgate_domain::code::Code;
use sealgate_domain::grant::Grant;
use sealgate_domain::time::UnixTime;

/// Maximum number of queued logouts. Further logouts are dropped, because a sign-out must not fail.
pub const MAX_WAITING_LOGOUTS: usize = 10_000;

/// Maximum number of queued logouts of one client, so that a client that accepts none does not fill
/// the queue.
pub const MAX_WAITING_LOGOUTS_OF_CLIENT: usize = 1000;

/// Number of queued logouts, and the time of the first attempt of the oldest one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ClientLogoutCounts {
    pub waiting: usize,
    pub oldest: Option<UnixTime>,
}

impl Store {
    /// Commits the end of sign-ins, and queues these logouts in the same commit.
    pub(crate) async fn commit_with_logouts(
        &self,
        mut changes: Changes,
        logouts: &[ClientLogout],
    ) -> Result<Committed, StoreError> {
        if logouts.is_empty() {
            return self.commit(changes).await;
        }
        let room = MAX_WAITING_LOGOUTS.saturating_sub(self.client_logouts.total());
        let mut queued = self.within_share(logouts).await?;
        queued.truncate(room);
        let dropped = logouts.len() - queued.len();
        for logout in &queued {
            changes.put.push((key_of(logout), record::encode(*logout)?));
        }
        let reservation = self.client_logouts.reserve(queued.len());
        let committed = self.commit(changes).await;
        if matches!(committed, Ok(Committed::Yes)) {
            self.dropped_logouts.fetch_add(dropped as u64, Ordering::Relaxed);
        } else {
            reservation.cancel();
        }
        committed
    }

    /// Returns the logouts for which their clients have room.
    async fn within_share<'l>(&self, logouts: &'l [ClientLogout]) -> Result<Vec<&'l ClientLogout>, StoreError> {
        if self.client_logouts.total() + logouts.len() <= MAX_WAITING_LOGOUTS_OF_CLIENT {
            return Ok(logouts.iter().collect());
        }
        let (mut waiting, mut within) = (HashMap::new(), Vec::new());
        for logout in logouts {
            let known = waiting.get(&logout.client).copied();
            let count = match known {
                Some(count) => count,
                None => self.count_logouts_of(&logout.client).await?,
            };
            if count < MAX_WAITING_LOGOUTS_OF_CLIENT {
                within.push(logout);
            }
            waiting.insert(&logout.client, count + 1);
        }
        Ok(within)
    }

    /// Counts the queued logouts of a client, up to its share.
    async fn count_logouts_of(&self, client: &ClientId) -> Result<usize, StoreError> {
        let (mut count, mut after) = (0, None::<Key>);
        while count < MAX_WAITING_LOGOUTS_OF_CLIENT {
            let rows = self.engine.scan(&table::client_logouts(client), after.as_deref(), PAGE).await?;
            let Some((last, _)) = rows.last() else { break };
            after = Some(last.clone());
            count += rows.len();
        }
        Ok(count)
    }

    /// Returns the number of logouts that this process has dropped since the last call, because the
    /// queue, or the share of their client, was full.
    pub fn take_dropped_logouts(&self) -> u64 {
        self.dropped_logouts.swap(0, Ordering::Relaxed)
    }

    /// Redeems a code as [`Store::redeem_code`] does, and lists its client in its session in the same
    /// commit, so that the client gets a logout token when the session ends.
    ///
    /// # Errors
    /// [`StoreError::SignedOut`] if the session has ended, or the store's error.
    pub async fn redeem_code_and_list(&self, code: &Loaded<Code>, grant: &Grant) -> Result<Committed, StoreError> {
        let session = self.session(grant.session).await?.ok_or(StoreError::SignedOut)?;
        let listed = SessionClient { client: grant.client.clone(), subject: grant.subject };
        let mut next = session.value.clone();
        if next.clients.contains(&listed) {
            return self.redeem_code(code, grant).await;
        }
        if next.clients.len() >= MAX_SESSION_CLIENTS {
            tracing::warn!(client = %grant.client, session = %grant.session, "a session has tokens for more than \
                {MAX_SESSION_CLIENTS} clients; this client gets no logout token at its end");
            return self.redeem_code(code, grant).await;
        }
        next.clients.push(listed);
        self.redeem_code_with(code, grant, record::replace(&session, &next)?).await
    }

    /// Returns the client of the queue after `after`, or the first one, and its first logout.
    ///
    /// The queue orders clients by a hash. `after` is a logout of the previous client.
    pub async fn next_client_logout(
        &self,
        after: Option<&ClientLogout>,
    ) -> Result<Option<Loaded<ClientLogout>>, StoreError> {
        let mut after = after.map(|logout| table::end_of_client_logouts(&logout.client));
        loop {
            let rows = self.engine.scan(&table::all(Table::ClientLogout), after.as_deref(), 1).await?;
            let Some((key, bytes)) = rows.into_iter().next() else { return Ok(None) };
            match record::decode(&key, bytes) {
                Ok(logout) => return Ok(Some(logout)),
                Err(error) => self.remove_unreadable(key.clone(), &error).await?,
            }
            after = Some(key);
        }
    }

    /// Returns the first logout of this client, if it is due.
    pub async fn due_client_logout(
        &self,
        client: &ClientId,
        now: UnixTime,
    ) -> Result<Option<Loaded<ClientLogout>>, StoreError> {
        loop {
            let rows = self.engine.scan(&table::client_logouts(client), None, 1).await?;
            let Some((key, bytes)) = rows.into_iter().next() else { return Ok(None) };
            match record::decode::<ClientLogout>(&key, bytes) {
                Ok(logout) => return Ok(Some(logout).filter(|logout| logout.value.due_at <= now)),
                Err(error) => self.remove_unreadable(key, &error).await?,
            }
        }
    }

    /// Removes a record that would otherwise block the logouts behind it.
    async fn remove_unreadable(&self, key: Key, error: &StoreError) -> Result<(), StoreError> {
        tracing::error!(%error, "removed a logout from the queue that cannot be decoded");
        self.write(Changes { delete: vec![key], ..Changes::default() }).await
    }

    /// Leases a logout to one sender. `fence` is that of the sender's lease. Returns `None` if another
    /// sender has leased it, or the sender has lost its lease.
    pub async fn take_client_logout(
        &self,
        logout: &Loaded<ClientLogout>,
        fence: &Fence,
        now: UnixTime,
        lease: Duration,
    ) -> Result<Option<Loaded<ClientLogout>>, StoreError> {
        self.replace_client_logout(logout, logout.value.leased(now, lease), fence).await
    }

    /// Replaces a logout after a failed attempt. Returns false if another sender has it meanwhile.
    pub async fn move_client_logout(
        &self,
        logout: &Loaded<ClientLogout>,
        next: ClientLogout,
    ) -> Result<bool, StoreError> {
        Ok(self.replace_client_logout(logout, next, &Fence::default()).await?.is_some())
    }

    async fn replace_client_logout(
        &self,
        logout: &Loaded<ClientLogout>,
        next: ClientLogout,
        fence: &Fence,
    ) -> Result<Option<Loaded<ClientLogout>>, StoreError> {
        let key = key_of(&next);
        let bytes = self.to_stored_format(&key, record::encode(&next)?)?;
        let mut changes = Changes { put: vec![(key.clone(), bytes.clone())], ..Changes::default() };
        changes.expect.push(logout.unchanged());
        if key != *logout.key() {
            changes.expect.push(Expect::Absent(key.clone()));
            changes.delete.push(logout.key().clone());
        }
        match self.commit(fence.around(changes)).await? {
            Committed::Yes => Ok(Some(record::decode(&key, bytes)?)),
            Committed::Conflict => Ok(None),
        }
    }

    /// Removes a logout that was sent or given up. Returns false if another sender has it meanwhile.
    pub async fn remove_client_logout(&self, logout: &Loaded<ClientLogout>) -> Result<bool, StoreError> {
        let is_removed = self.commit(removal(logout)).await? == Committed::Yes;
        if is_removed {
            self.client_logouts.subtract_one();
        }
        Ok(is_removed)
    }

    /// Counts the queued logouts. Reads all of them, so requests must not call it.
    ///
    /// If only this process uses the store, also corrects the total, because a command may have ended
    /// sessions.
    pub async fn count_client_logouts(&self) -> Result<ClientLogoutCounts, StoreError> {
        let (mut counts, mut after) = (ClientLogoutCounts::default(), None::<Key>);
        loop {
            let rows = self.engine.scan(&table::all(Table::ClientLogout), after.as_deref(), PAGE).await?;
            let Some((last, _)) = rows.last() else { break };
            after = Some(last.clone());
            counts.waiting += rows.len();
            let logouts = rows.into_iter().filter_map(|(key, bytes)| record::decode::<ClientLogout>(&key, bytes).ok());
            counts.oldest = logouts.filter_map(|logout| logout.value.first_at).chain(counts.oldest).min();
        }
        if !self.is_shared() {
            self.client_logouts.set(counts.waiting);
        }
        Ok(counts)
    }

    /// Returns a number that increases when clients may need other features. Read it before
    /// [`Store::has_client_with`].
    pub fn clients_counter(&self) -> u64 {
        self.engine.counters().value(Counter::Clients)
    }

    /// Returns whether any stored client needs this feature.
    pub async fn has_client_with(&self, feature: ClientFeature) -> Result<bool, StoreError> {
        Ok(!self.engine.scan(&table::clients_with(feature), None, 1).await?.is_empty())
    }
}

fn key_of(logout: &ClientLogout) -> Key {
    table::client_logout(&logout.client, logout.due_at, logout.id)
}

/// Returns the index entries of a client: one for each feature that it needs.
pub(crate) fn feature_entries(client: &Client) -> impl Iterator<Item = Key> {
    let id = client.id.clone();
    client.features().map(move |feature| table::client_with(feature, &id))
}

/// Adds to the changes of a commit that the index entries become those of `after`.
pub(crate) fn index_features(changes: &mut Changes, before: Option<&Client>, after: Option<&Client>) {
    let kept: Vec<Key> = after.into_iter().flat_map(feature_entries).collect();
    let gone = before.into_iter().flat_map(feature_entries).filter(|entry| !kept.contains(entry));
    changes.delete.extend(gone);
    changes.put.extend(kept.into_iter().map(|entry| (entry, Vec::new())));
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;
    use std::sync::Arc;

    use super::*;
    use crate::memory::MemoryEngine;
    use sealgate_domain::secret::SecretHash;
    use sealgate_domain::session::{Session, SessionId, SignIn};
    use sealgate_domain::user::Subject;

    const LEASE: Duration = Duration::from_secs(30);

    fn at(seconds: u64) -> UnixTime {
        UnixTime::from_seconds(seconds)
    }

    fn of(client: &str, user: u8) -> SessionClient {
        SessionClient { client: ClientId::parse(client).unwrap(), subject: Subject::from_random([user; 16]) }
    }

    fn session(number: u8, users: &[u8], clients: &[SessionClient]) -> Session {
        let sign_in = |user: &u8| SignIn::by_password(Subject::from_random([*user; 16]), at(1));
        Session {
            id: SessionId::from_bytes([number; 16]),
            cookie: SecretHash::for_secret(&[number]),
            previous: None,
            sign_ins: users.iter().map(sign_in).collect(),
            created_at: at(1),
            last_seen_at: at(1),
            expires_at: at(1000),
            idle_seconds: 1000,
            kept_until: None,
            address: IpAddr::from([127, 0, 0, 1]),
            user_agent: String::new(),
            clients: clients.to_vec(),
        }
    }

    /// Returns the clients and users of the queue, which is read client by client.
    async fn queued(store: &Store) -> Vec<(String, Subject)> {
        let (mut queued, mut after) = (Vec::new(), None);
        while let Some(first) = store.next_client_logout(after.as_ref()).await.unwrap() {
            let client = first.value.client.clone();
            while let Some(logout) = store.due_client_logout(&client, at(u64::MAX / 2)).await.unwrap() {
                queued.push((logout.value.client.to_string(), logout.value.subject));
                assert!(store.remove_client_logout(&logout).await.unwrap());
            }
            after = Some(first.value);
        }
        queued.sort();
        queued
    }

    #[tokio::test]
    async fn the_end_of_a_session_queues_a_logout_for_each_of_its_clients() {
        let store = Store::open(Arc::new(MemoryEngine::new()), 10).await.unwrap();
        let [anna, ben] = [1, 2].map(|byte| Subject::from_random([byte; 16]));
        let clients = [of("wiki", 1), of("shop", 1), of("wiki", 2)];
        for (number, clients) in [(1, &clients[..]), (2, &[of("other", 1)]), (3, &[])] {
            store.begin_session(&session(number, &[1, 2], clients)).await.unwrap();
        }
        assert!(store.end_session(SessionId::from_bytes([3; 16])).await.unwrap());
        assert_eq!(queued(&store).await, []);
        assert!(store.end_session(SessionId::from_bytes([1; 16])).await.unwrap());
        let expected = [("shop", anna), ("wiki", anna), ("wiki", ben)].map(|(client, user)| (client.to_owned(), user));
        assert_eq!(queued(&store).await, expected);
        assert_eq!(store.count_client_logouts().await.unwrap(), ClientLogoutCounts::default());
    }

    #[tokio::test]
    async fn a_user_who_leaves_a_session_is_signed_out_at_their_clients_only() {
        let store = Store::open(Arc::new(MemoryEngine::new()), 10).await.unwrap();
        let begun = session(1, &[1, 2], &[of("wiki", 1), of("wiki", 2)]);
        store.begin_session(&begun).await.unwrap();
        let loaded = store.session(begun.id).await.unwrap().unwrap();
        let next = Session { sign_ins: loaded.value.sign_ins[1..].to_vec(), ..loaded.value.clone() };
        assert_eq!(store.update_session(&loaded, &next).await.unwrap(), Committed::Yes);
        assert_eq!(queued(&store).await, [("wiki".to_owned(), Subject::from_random([1; 16]))]);
        // A session with another id is another session for its clients.
        let moved = |session: &Session| Some(Session { id: SessionId::from_bytes([9; 16]), ..session.clone() });
        assert!(store.move_session(begun.id, None, moved).await.unwrap());
        assert_eq!(queued(&store).await, [("wiki".to_owned(), Subject::from_random([2; 16]))]);
        assert!(store.end_session(SessionId::from_bytes([9; 16])).await.unwrap());
        assert_eq!(queued(&store).await, []);
    }

    #[tokio::test]
    async fn a_logout_is_leased_by_one_sender_and_due_again_after_the_lease() {
        let store = Store::open(Arc::new(MemoryEngine::new()), 10).await.unwrap();
        store.begin_session(&session(1, &[1], &[of("wiki", 1)])).await.unwrap();
        assert!(store.end_session(SessionId::from_bytes([1; 16])).await.unwrap());
        let wiki = ClientId::parse("wiki").unwrap();
        let first = store.due_client_logout(&wiki, at(100)).await.unwrap().unwrap();
        let taken = store.take_client_logout(&first, &Fence::default(), at(100), LEASE).await.unwrap().unwrap();
        assert!(store.take_client_logout(&first, &Fence::default(), at(100), LEASE).await.unwrap().is_none());
        assert!(store.due_client_logout(&wiki, at(129)).await.unwrap().is_none());
        let counts = ClientLogoutCounts { waiting: 1, oldest: Some(at(100)) };
        assert_eq!(store.count_client_logouts().await.unwrap(), counts);
        let again = store.due_client_logout(&wiki, at(130)).await.unwrap().unwrap();
        let again = store.take_client_logout(&again, &Fence::default(), at(130), LEASE).await.unwrap().unwrap();
        // The lease of the first sender has expired, so it can no longer change the logout.
        assert!(!store.remove_client_logout(&taken).await.unwrap());
        let next = again.value.postponed(at(131)).unwrap();
        assert!(store.move_client_logout(&again, next).await.unwrap());
        assert!(store.due_client_logout(&wiki, at(132)).await.unwrap().is_none());
        assert!(store.due_client_logout(&wiki, at(133)).await.unwrap().is_some());
    }

    #[tokio::test]
    async fn a_full_queue_drops_logouts_but_ends_the_session() {
        let store = Store::open(Arc::new(MemoryEngine::new()), 10).await.unwrap();
        store.client_logouts.set(MAX_WAITING_LOGOUTS - 1);
        store.begin_session(&session(1, &[1], &[of("wiki", 1), of("shop", 1)])).await.unwrap();
        assert!(store.end_session(SessionId::from_bytes([1; 16])).await.unwrap());
        assert_eq!(queued(&store).await.len(), 1);
        assert_eq!((store.take_dropped_logouts(), store.take_dropped_logouts()), (1, 0));
    }
}
