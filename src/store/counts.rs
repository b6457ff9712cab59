//! Counts that one node publishes for all: bounded totals (see [`super::tally`]), and users by
//! factor.

use serde::{Deserialize, Serialize};

use crate::engine::Changes;
use crate::leases::Fence;
use crate::table;
use crate::table::Table;
use crate::tally::{BoundedCount, Published};
use crate::{Committed, Store, StoreError, record};
use sealgate_domain::time::UnixTime;

/// All totals, in one record.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
struct PublishedCounts {
    interactions: Published,
    forms: Published,
    pending_registrations: Published,
    outbox: Published,
    registrations: Published,
}

impl PublishedCounts {
    fn all(&self) -> [Published; 5] {
        [self.interactions, self.forms, self.pending_registrations, self.outbox, self.registrations]
    }
}

/// Number of users who can sign in, by their strongest factor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeopleCount {
    pub none: u64,
    pub totp: u64,
    pub security_key: u64,
    pub passkey: u64,
    /// Of all of them, the users with a pending reset link.
    pub reset: u64,
    /// When they were counted.
    pub at: UnixTime,
}

impl Store {
    /// Publishes the users by factor for all nodes. Returns false when another node holds the
    /// lease.
    pub async fn publish_people(&self, fence: &Fence, count: &PeopleCount) -> Result<bool, StoreError> {
        let put = vec![(table::people_count(), record::encode(count)?)];
        Ok(self.commit(fence.around(Changes { put, ..Changes::default() })).await? == Committed::Yes)
    }

    /// Returns the last published users by factor.
    pub async fn people_count(&self) -> Result<Option<PeopleCount>, StoreError> {
        Ok(self.load(table::people_count()).await?.map(|loaded| loaded.value))
    }

    /// Returns them in the order of [`PublishedCounts::all`].
    fn tallies(&self) -> [&BoundedCount; 5] {
        [&self.interactions, &self.forms, &self.pending_registrations, &self.outbox, &self.registrations]
    }

    /// Counts and publishes the totals.
    ///
    /// `with_clients`: also counts self-registered clients, which reads all clients. Returns false
    /// when another node holds the lease.
    pub async fn publish_counts(&self, fence: &Fence, with_clients: bool) -> Result<bool, StoreError> {
        let key = table::counts();
        // Before counting: the next publication gets its own number.
        let mut next = match self.load::<PublishedCounts>(key.clone()).await {
            Ok(loaded) => loaded.map(|loaded| loaded.value).unwrap_or_default(),
            Err(StoreError::Broken(_)) => PublishedCounts::default(),
            Err(error) => return Err(error),
        };
        next.interactions.counted(self.count_interactions().await?);
        next.forms.counted(self.count(Table::Form).await?);
        next.pending_registrations.counted(self.count(Table::PendingRegistration).await?);
        next.outbox.counted(self.count(Table::Outbox).await?);
        if with_clients {
            next.registrations.counted(self.count_registrations().await?);
        }
        // Only the lease holder writes it.
        let changes = Changes { put: vec![(key, record::encode(&next)?)], ..Changes::default() };
        Ok(self.commit(fence.around(changes)).await? == Committed::Yes)
    }

    /// Applies the last published totals, plus additions by this process since.
    pub async fn follow_counts(&self) -> Result<(), StoreError> {
        let ended = self.tallies().map(BoundedCount::ended);
        let Some(published) = self.load::<PublishedCounts>(table::counts()).await? else { return Ok(()) };
        for ((tally, published), ended) in self.tallies().into_iter().zip(published.value.all()).zip(ended) {
            tally.follow(published, ended);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::{Duration, Instant};

    use super::*;
    use crate::interactions::SignInAttempt;
    use crate::leases::{LEASE_LENGTH, Lease, LeaseName};
    use crate::memory::MemoryEngine;
    use sealgate_domain::secret::SecretHash;

    const MOST: usize = 10;

    fn attempt(number: u8) -> SignInAttempt {
        SignInAttempt {
            browser: SecretHash::of(&[number]),
            app: "wiki".to_owned(),
            wanted: "/".to_owned(),
            verifier: String::new(),
            expires_at: UnixTime::from_seconds(1000),
            acr: Vec::new(),
            form: None,
            number: 0,
        }
    }

    async fn begin(store: &Store, numbers: std::ops::Range<u8>) {
        for number in numbers {
            store
                .begin_attempt(&SecretHash::of(&[number, 1]), &attempt(number), UnixTime::from_seconds(0))
                .await
                .unwrap();
        }
    }

    async fn cluster() -> (Store, Store) {
        let engine = Arc::new(MemoryEngine::of_a_cluster());
        let one = Store::open(Arc::<MemoryEngine>::clone(&engine), MOST).await.unwrap();
        (one, Store::open(engine, MOST).await.unwrap())
    }

    /// Before the first count, each node would admit the whole limit.
    #[tokio::test]
    async fn a_node_goes_by_what_all_have_begun_and_the_bound_holds_in_all() {
        let (here, there) = cluster().await;
        let mut lease = Lease::new(LeaseName::Counting, "one");
        let fence = lease.hold(&here, Instant::now()).await.unwrap().unwrap();
        begin(&here, 0..8).await;
        assert_eq!(there.open_interactions(), 0);
        assert!(here.publish_counts(&fence, true).await.unwrap());
        for store in [&here, &there] {
            store.follow_counts().await.unwrap();
        }
        assert_eq!(there.open_interactions(), 8);
        // Own ones count at once; above the limit, each replaces an existing one.
        begin(&there, 8..20).await;
        assert_eq!(there.count_interactions().await.unwrap(), MOST);
        // Two counts later all nodes have them.
        for _ in 0..3 {
            assert!(here.publish_counts(&fence, false).await.unwrap());
            for store in [&here, &there] {
                store.follow_counts().await.unwrap();
            }
        }
        assert_eq!((here.open_interactions(), there.open_interactions()), (MOST, MOST));
        begin(&here, 20..30).await;
        assert_eq!(here.count_interactions().await.unwrap(), MOST);
        // A node that starts applies the published total too.
        let third = Store::open(Arc::clone(&here.engine), MOST).await.unwrap();
        assert_eq!(third.open_interactions(), MOST);
    }

    #[tokio::test]
    async fn a_node_without_the_lease_publishes_no_counts() {
        let (here, there) = cluster().await;
        let (mut one, mut other) = (Lease::new(LeaseName::Counting, "one"), Lease::new(LeaseName::Counting, "other"));
        let start = Instant::now();
        let fence = one.hold(&here, start).await.unwrap().unwrap();
        assert!(other.hold(&there, start).await.unwrap().is_none());
        let taken = other.hold(&there, start + LEASE_LENGTH + Duration::from_secs(1)).await.unwrap().unwrap();
        assert!(!here.publish_counts(&fence, false).await.unwrap());
        assert!(there.publish_counts(&taken, false).await.unwrap());
        let people =
            PeopleCount { none: 1, totp: 0, security_key: 0, passkey: 2, reset: 0, at: UnixTime::from_seconds(9) };
        assert!(!here.publish_people(&fence, &people).await.unwrap());
        assert_eq!(here.people_count().await.unwrap(), None);
        assert!(there.publish_people(&taken, &people).await.unwrap());
        assert_eq!(here.people_count().await.unwrap(), Some(people));
    }
}
