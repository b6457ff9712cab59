//! Counts, for all nodes of a cluster: the records whose number is limited, and the users by
//! factor.
//!
//! A request increments a total before it writes its record. Otherwise concurrent requests could
//! all pass the limit at once.
//!
//! If only one process uses the store, it counts at startup and then tracks changes. In a cluster,
//! one node counts every few seconds and publishes the totals. Each other node adds the records
//! that it has created since that count. Therefore a limit can be exceeded only by the records that
//! other nodes create between two counts.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use crate::cluster::leases::Fence;
use crate::engine::Changes;
use crate::format::table::Table;
use crate::format::{record, table};
use crate::{Committed, Store, StoreError};
use sealgate_domain::time::UnixTime;

/// All published totals, stored as one record.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
struct PublishedCounts {
    interactions: Published,
    forms: Published,
    pending_registrations: Published,
    outbox: Published,
    registrations: Published,
    #[serde(default)]
    client_logouts: Published,
}

impl PublishedCounts {
    fn all(&self) -> [Published; 6] {
        let Self { interactions, forms, pending_registrations, outbox, registrations, client_logouts } = *self;
        [interactions, forms, pending_registrations, outbox, registrations, client_logouts]
    }
}

/// Number of users who can sign in, by their strongest factor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UserCounts {
    pub none: u64,
    pub totp: u64,
    pub security_key: u64,
    pub passkey: u64,
    /// Number of users, of all of the above, who have a pending reset link.
    pub reset: u64,
    /// Time of the count.
    pub at: UnixTime,
}

impl Store {
    /// Publishes the number of users by factor. Returns false if the lease was lost.
    pub async fn publish_user_counts(&self, fence: &Fence, count: &UserCounts) -> Result<bool, StoreError> {
        let put = vec![(table::user_counts(), record::encode(count)?)];
        Ok(self.commit(fence.around(Changes { put, ..Changes::default() })).await? == Committed::Yes)
    }

    /// Returns the last published number of users by factor.
    pub async fn user_counts(&self) -> Result<Option<UserCounts>, StoreError> {
        Ok(self.load(table::user_counts()).await?.map(|loaded| loaded.value))
    }

    /// Returns the totals of this process, in the order of [`PublishedCounts::all`].
    fn tallies(&self) -> [&BoundedCount; 6] {
        let Self { interactions, forms, pending_registrations, outbox, registrations, client_logouts, .. } = self;
        [interactions, forms, pending_registrations, outbox, registrations, client_logouts]
    }

    /// Counts the records and publishes the totals. Returns false if the lease was lost.
    ///
    /// If `with_clients` is true, also counts self-registered clients. That requires reading all
    /// clients.
    pub async fn publish_counts(&self, fence: &Fence, with_clients: bool) -> Result<bool, StoreError> {
        let key = table::counts();
        // Read before counting, so that this publication has the next number.
        let mut next = match self.load::<PublishedCounts>(key.clone()).await {
            Ok(loaded) => loaded.map(|loaded| loaded.value).unwrap_or_default(),
            Err(StoreError::Broken(_)) => PublishedCounts::default(),
            Err(error) => return Err(error),
        };
        next.interactions.replace_count(self.count_interactions().await?);
        next.forms.replace_count(self.count(Table::Form).await?);
        next.pending_registrations.replace_count(self.count(Table::PendingRegistration).await?);
        next.outbox.replace_count(self.count(Table::Outbox).await?);
        next.client_logouts.replace_count(self.count(Table::ClientLogout).await?);
        if with_clients {
            next.registrations.replace_count(self.count_registrations().await?);
        }
        // No expectation is needed, because only the lease holder writes this record.
        let changes = Changes { put: vec![(key, record::encode(&next)?)], ..Changes::default() };
        Ok(self.commit(fence.around(changes)).await? == Committed::Yes)
    }

    /// Applies the last published totals, and adds the records of this process that the totals may
    /// not include.
    pub async fn follow_counts(&self) -> Result<(), StoreError> {
        let ended = self.tallies().map(BoundedCount::ended_writes);
        let Some(published) = self.load::<PublishedCounts>(table::counts()).await? else { return Ok(()) };
        for ((tally, published), ended) in self.tallies().into_iter().zip(published.value.all()).zip(ended) {
            tally.follow(published, ended);
        }
        Ok(())
    }
}

/// Published total.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Published {
    /// Sequence number. Each count begins after the previous total was published.
    pub(crate) number: u64,
    pub(crate) count: usize,
}

impl Published {
    /// Replaces the total with a new count.
    pub(crate) fn replace_count(&mut self, count: usize) {
        *self = Self { number: self.number + 1, count };
    }
}

#[derive(Debug, Default)]
pub(crate) struct BoundedCount {
    /// Total, as compared with the limit.
    total: AtomicUsize,
    /// Number of writes of records that this process has started.
    started: AtomicUsize,
    /// Number of these writes that have ended, successfully or not.
    ended: AtomicUsize,
    followed: Mutex<Followed>,
}

/// State between two calls of [`BoundedCount::follow`].
#[derive(Debug, Default)]
struct Followed {
    /// Sequence number of the last applied total.
    number: u64,
    /// Value of [`BoundedCount::ended`] just before the last read of the published total.
    ended_at_last: usize,
    /// Value of [`BoundedCount::ended`] just before the last read that returned a total older than
    /// `number`.
    ended_before: usize,
}

/// Records that were added to the total before they are written. If the caller stops waiting for
/// the write, the records remain in the total.
#[derive(Debug)]
#[must_use]
pub(crate) struct Reservation<'t> {
    tally: &'t BoundedCount,
    places: usize,
    /// Total before these records were added.
    pub(crate) before: usize,
}

impl Reservation<'_> {
    /// Subtracts the records from the total, because they were not written.
    pub(crate) fn cancel(self) {
        self.tally.subtract(self.places);
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        self.tally.ended.fetch_add(self.places, Ordering::AcqRel);
    }
}

impl BoundedCount {
    pub(crate) fn total(&self) -> usize {
        self.total.load(Ordering::Acquire)
    }

    pub(crate) fn reserve(&self, places: usize) -> Reservation<'_> {
        self.started.fetch_add(places, Ordering::AcqRel);
        let before = self.total.fetch_add(places, Ordering::AcqRel);
        Reservation { tally: self, places, before }
    }

    /// Subtracts a removed record from the total.
    pub(crate) fn subtract_one(&self) {
        self.subtract(1);
    }

    fn subtract(&self, by: usize) {
        // Do not go below zero: a published total may lack a record that was being created during
        // the count and is removed now.
        let _ = self.total.fetch_update(Ordering::AcqRel, Ordering::Acquire, |known| Some(known.saturating_sub(by)));
    }

    /// Sets the total to a new count. Only for a process that uses the store alone.
    pub(crate) fn set(&self, count: usize) {
        self.total.store(count, Ordering::Release);
    }

    /// Returns how many writes of this process have ended. Call it before reading the published
    /// total.
    pub(crate) fn ended_writes(&self) -> usize {
        self.ended.load(Ordering::Acquire)
    }

    /// Returns whether a published total was applied before.
    pub(crate) fn is_followed(&self) -> bool {
        self.followed.lock().unwrap_or_else(PoisonError::into_inner).number > 0
    }

    /// Applies a published total. `ended` is the result of [`Self::ended_writes`], from before the
    /// total was read.
    ///
    /// The published count includes all records whose writes ended before the count began. The
    /// count began after the previous total was published, and therefore after every read that
    /// returned a total before the previous one. This process adds its own records whose writes had
    /// not ended at the last such read. These records may be counted twice, which is safer than not
    /// counting them.
    pub(crate) fn follow(&self, published: Published, ended: usize) {
        let mut followed = self.followed.lock().unwrap_or_else(PoisonError::into_inner);
        if published.number != followed.number {
            let is_next = published.number == followed.number + 1;
            let counted = if is_next { followed.ended_before } else { followed.ended_at_last };
            let known = self.total.load(Ordering::Acquire);
            let own = self.started.load(Ordering::Acquire).saturating_sub(counted);
            let right = published.count.saturating_add(own);
            // Change the total by the difference, so that concurrent additions are not lost.
            if right >= known {
                self.total.fetch_add(right - known, Ordering::AcqRel);
            } else {
                self.subtract(known - right);
            }
            followed.number = published.number;
            followed.ended_before = followed.ended_at_last;
        }
        followed.ended_at_last = ended;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::{Duration, Instant};

    use super::*;
    use crate::cluster::leases::{LEASE_LENGTH, Lease, LeaseName};
    use crate::memory::MemoryEngine;
    use crate::subjects::interactions::SignInAttempt;
    use sealgate_domain::secret::SecretHash;

    const MOST: usize = 10;

    fn attempt(number: u8) -> SignInAttempt {
        SignInAttempt {
            browser: SecretHash::for_secret(&[number]),
            app: "wiki".to_owned(),
            host: None,
            wanted: "/".to_owned(),
            verifier: String::new(),
            expires_at: UnixTime::from_seconds(1000),
            acr: Vec::new(),
            form: None,
            page: None,
            number: 0,
        }
    }

    async fn begin(store: &Store, numbers: std::ops::Range<u8>) {
        for number in numbers {
            store
                .begin_attempt(&SecretHash::for_secret(&[number, 1]), &attempt(number), UnixTime::from_seconds(0))
                .await
                .unwrap();
        }
    }

    async fn cluster() -> (Store, Store) {
        let engine = Arc::new(MemoryEngine::of_a_cluster());
        let one = Store::open(Arc::<MemoryEngine>::clone(&engine), MOST).await.unwrap();
        (one, Store::open(engine, MOST).await.unwrap())
    }

    /// Before the first count, each node applies the limit only to its own records.
    #[tokio::test]
    async fn a_node_uses_the_count_of_all_nodes_and_the_limit_applies_to_all() {
        let (here, there) = cluster().await;
        let mut lease = Lease::new(LeaseName::Counting, "one");
        let fence = lease.acquire_or_renew(&here, Instant::now()).await.unwrap().unwrap();
        begin(&here, 0..8).await;
        assert_eq!(there.open_interactions(), 0);
        assert!(here.publish_counts(&fence, true).await.unwrap());
        for store in [&here, &there] {
            store.follow_counts().await.unwrap();
        }
        assert_eq!(there.open_interactions(), 8);
        // A node counts its own records at once. At the limit, each new record replaces an existing
        // record.
        begin(&there, 8..20).await;
        assert_eq!(there.count_interactions().await.unwrap(), MOST);
        // The totals are exact after each node has read the last counts of the other.
        for _ in 0..3 {
            assert!(here.publish_counts(&fence, false).await.unwrap());
            for store in [&here, &there] {
                store.follow_counts().await.unwrap();
            }
        }
        assert_eq!((here.open_interactions(), there.open_interactions()), (MOST, MOST));
        begin(&here, 20..30).await;
        assert_eq!(here.count_interactions().await.unwrap(), MOST);
        // A new node applies the published totals too.
        let third = Store::open(Arc::clone(&here.engine), MOST).await.unwrap();
        assert_eq!(third.open_interactions(), MOST);
    }

    #[tokio::test]
    async fn a_node_without_the_lease_publishes_no_counts() {
        let (here, there) = cluster().await;
        let (mut one, mut other) = (Lease::new(LeaseName::Counting, "one"), Lease::new(LeaseName::Counting, "other"));
        let start = Instant::now();
        let fence = one.acquire_or_renew(&here, start).await.unwrap().unwrap();
        assert!(other.acquire_or_renew(&there, start).await.unwrap().is_none());
        let taken =
            other.acquire_or_renew(&there, start + LEASE_LENGTH + Duration::from_secs(1)).await.unwrap().unwrap();
        assert!(!here.publish_counts(&fence, false).await.unwrap());
        assert!(there.publish_counts(&taken, false).await.unwrap());
        let people =
            UserCounts { none: 1, totp: 0, security_key: 0, passkey: 2, reset: 0, at: UnixTime::from_seconds(9) };
        assert!(!here.publish_user_counts(&fence, &people).await.unwrap());
        assert_eq!(here.user_counts().await.unwrap(), None);
        assert!(there.publish_user_counts(&taken, &people).await.unwrap());
        assert_eq!(here.user_counts().await.unwrap(), Some(people));
    }

    fn look(tally: &BoundedCount, number: u64, count: usize) {
        tally.follow(Published { number, count }, tally.ended_writes());
    }

    #[test]
    fn places_are_reserved_before_writing_and_returned_on_failure() {
        let tally = BoundedCount::default();
        tally.set(3);
        let reservation = tally.reserve(2);
        assert_eq!((reservation.before, tally.total()), (3, 5));
        reservation.cancel();
        drop(tally.reserve(1));
        assert_eq!(tally.total(), 4);
        for _ in 0..9 {
            tally.subtract_one();
        }
        assert_eq!(tally.total(), 0);
    }

    #[test]
    fn records_added_during_a_count_are_included() {
        let tally = BoundedCount::default();
        look(&tally, 7, 100);
        assert_eq!(tally.total(), 100);
        drop(tally.reserve(5));
        look(&tally, 7, 100);
        assert_eq!(tally.total(), 105);
        // The eighth count may have begun before the five records were written, because the seventh
        // total was read late.
        look(&tally, 8, 110);
        assert_eq!(tally.total(), 115);
        // The ninth count began after the seventh total was read, so it includes the five records.
        look(&tally, 9, 110);
        assert_eq!(tally.total(), 110);
    }

    #[test]
    fn concurrent_writes_are_not_lost_from_a_count() {
        let tally = BoundedCount::default();
        look(&tally, 1, 0);
        let writing = tally.reserve(1);
        for number in 2..9 {
            look(&tally, number, 0);
            assert_eq!(tally.total(), 1, "{number}");
        }
        drop(writing);
        look(&tally, 9, 0);
        assert_eq!(tally.total(), 1);
        look(&tally, 10, 1);
        look(&tally, 11, 1);
        assert_eq!(tally.total(), 1);
    }

    #[test]
    fn missed_counts_cause_no_error() {
        let tally = BoundedCount::default();
        look(&tally, 1, 0);
        drop(tally.reserve(4));
        // Two totals were published since the last read. The second count began after that read.
        look(&tally, 3, 0);
        assert_eq!(tally.total(), 4);
        look(&tally, 5, 4);
        assert_eq!(tally.total(), 4);
    }
}
