//! Leases determine which node of a cluster performs a task.
//!
//! A lease is a record that its holder renews every few seconds. A node that wants the lease
//! watches the record on its own monotonic clock. If the bytes have not changed for
//! [`LEASE_LENGTH`], the node acquires the lease. Clocks of different nodes are never compared, so
//! their differences do not matter.
//!
//! A holder may be suspended for a minute just before it commits, and lose the lease in that time.
//! Therefore each commit under a lease contains a [`Fence`], which expects the lease's bytes. The
//! commit fails if the lease was lost.
//!
//! If only one process uses the store, it holds all leases, and no records are written.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::engine::{Changes, Expect, Value};
use crate::format::record::Loaded;
use crate::format::{record, table};
use crate::{Committed, Store, StoreError};

/// Time without a renewal after which another node may acquire a lease.
pub const LEASE_LENGTH: Duration = Duration::from_secs(10);

/// Interval of renewals. Several attempts fit in [`LEASE_LENGTH`].
const RENEWED_AFTER: Duration = Duration::from_secs(3);

/// Task that one node performs for the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeaseName {
    /// Garbage collection of expired records.
    Sweeping,
    /// Counting the records that unauthenticated clients can create. Their number is limited.
    Counting,
    /// Counting users by factor.
    UserCounts,
    /// Sending queued e-mails.
    Mailing,
    /// Sending queued logout tokens to clients.
    ClientLogouts,
    /// Ordering certificates.
    Certificates,
    /// Confirming the sign-ins at OpenID providers with refresh tokens.
    Upstreams,
}

impl LeaseName {
    /// All leases, in the order of the variants.
    pub const ALL: [Self; 7] = [
        Self::Sweeping,
        Self::Counting,
        Self::UserCounts,
        Self::Mailing,
        Self::ClientLogouts,
        Self::Certificates,
        Self::Upstreams,
    ];

    /// Returns the name in the key of the lease's record.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Sweeping => "sweeping",
            Self::Counting => "counting",
            Self::UserCounts => "people",
            Self::Mailing => "mailing",
            Self::ClientLogouts => "client_logouts",
            Self::Certificates => "certificates",
            Self::Upstreams => "upstreams",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct LeaseRecord {
    /// Process that holds the lease. `None` after a release.
    holder: Option<String>,
    /// Incremented when the holder changes.
    generation: u64,
    /// Incremented by each renewal.
    renewal: u64,
}

/// Expectation of a commit under a lease: the lease record is unchanged since its holder last wrote
/// it.
#[derive(Debug, Clone, Default)]
pub struct Fence(Option<Expect>);

impl Fence {
    /// Adds the expectation to the changes.
    #[must_use]
    pub(crate) fn around(&self, mut changes: Changes) -> Changes {
        changes.expect.extend(self.0.clone());
        changes
    }
}

/// Lease that a process holds or waits for.
#[derive(Debug)]
pub struct Lease {
    name: LeaseName,
    holder: String,
    /// Record as this process last wrote it, and the time just before that write.
    own_record: Option<(Loaded<LeaseRecord>, Instant)>,
    /// Record as another process wrote it, and the time at which this process first read it.
    other_record: Option<(Value, Instant)>,
}

impl Lease {
    /// Creates a lease that is not held. `holder` must be unique among all processes, including
    /// earlier ones.
    pub fn new(name: LeaseName, holder: &str) -> Self {
        Self { name, holder: holder.to_owned(), own_record: None, other_record: None }
    }

    /// Returns the work that the lease permits.
    pub fn name(&self) -> LeaseName {
        self.name
    }

    /// Acquires or renews the lease. Returns `None` if another node holds it.
    ///
    /// Must be called every second or two while the lease is needed, and before each step of the
    /// task. `now` must be a time just before the call.
    ///
    /// # Errors
    /// Returns the store's error. The lease may be lost, so the task must wait.
    pub async fn acquire_or_renew(&mut self, store: &Store, now: Instant) -> Result<Option<Fence>, StoreError> {
        if !store.is_shared() {
            return Ok(Some(Fence::default()));
        }
        if let Some((own_record, since)) = &self.own_record
            && now.saturating_duration_since(*since) < RENEWED_AFTER
        {
            return Ok(Some(fence(own_record)));
        }
        self.own_record = None;
        let key = table::lease(self.name.as_str());
        let stored = store.engine.get(&key).await?;
        // Treat an unreadable record as a lease with an unknown holder. It is acquired like any
        // other lease.
        let known = stored.clone().and_then(|bytes| record::decode::<LeaseRecord>(&key, bytes).ok());
        let known = known.map(|known| known.value);
        let is_own = known.as_ref().is_some_and(|known| known.holder.as_ref() == Some(&self.holder));
        let is_free = known.as_ref().is_some_and(|known| known.holder.is_none());
        if let Some(bytes) = &stored
            && !is_own
            && !is_free
            && !self.has_expired(bytes, now)
        {
            return Ok(None);
        }
        let (generation, renewal) = known.map_or((0, 0), |known| (known.generation, known.renewal));
        let (generation, renewal) = if is_own { (generation, renewal + 1) } else { (generation + 1, 0) };
        let next = LeaseRecord { holder: Some(self.holder.clone()), generation, renewal };
        let bytes = store.to_stored_format(&key, record::encode(&next)?)?;
        let expect = stored.map_or_else(|| Expect::Absent(key.clone()), |bytes| Expect::Value(key.clone(), bytes));
        let changes = Changes { expect: vec![expect], put: vec![(key.clone(), bytes.clone())], ..Changes::default() };
        if store.commit(changes).await? == Committed::Conflict {
            return Ok(None);
        }
        if !is_own {
            tracing::info!(lease = self.name.as_str(), generation, "this node now runs this task for the cluster");
        }
        self.other_record = None;
        let record = record::decode(&key, bytes)?;
        let fence = fence(&record);
        self.own_record = Some((record, now));
        Ok(Some(fence))
    }

    /// Returns whether these bytes have not changed for [`LEASE_LENGTH`], as seen by this process.
    fn has_expired(&mut self, bytes: &Value, now: Instant) -> bool {
        match &self.other_record {
            Some((value, since)) if value == bytes => now.saturating_duration_since(*since) >= LEASE_LENGTH,
            _ => {
                self.other_record = Some((bytes.clone(), now));
                false
            }
        }
    }

    /// Releases the lease, so that another node can acquire it at once. If the store fails, the
    /// lease expires.
    pub async fn release(&mut self, store: &Store) {
        let Some((own_record, _)) = self.own_record.take() else { return };
        let next = LeaseRecord { holder: None, ..own_record.value.clone() };
        let release = match record::replace(&own_record, &next) {
            Ok(changes) => store.commit(changes).await,
            Err(error) => Err(error),
        };
        if let Err(error) = release {
            tracing::debug!(%error, lease = self.name.as_str(), "a lease was not released");
        }
    }
}

fn fence(record: &Loaded<LeaseRecord>) -> Fence {
    Fence(Some(record.unchanged()))
}

impl Store {
    /// Returns whether the lease record is unchanged since this fence was created.
    pub(crate) async fn is_fence_valid(&self, fence: &Fence) -> Result<bool, StoreError> {
        let Some(Expect::Value(key, bytes)) = &fence.0 else { return Ok(true) };
        Ok(self.engine.get(key).await?.as_ref() == Some(bytes))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::memory::MemoryEngine;

    async fn stores(engine: MemoryEngine) -> (Store, Store) {
        let engine = Arc::new(engine);
        let one = Store::open(Arc::<MemoryEngine>::clone(&engine), 10).await.unwrap();
        (one, Store::open(engine, 10).await.unwrap())
    }

    fn lease(holder: &str) -> Lease {
        Lease::new(LeaseName::Sweeping, holder)
    }

    async fn write(store: &Store, fence: &Fence) -> Committed {
        let put = vec![(vec![table::Table::Once as u8], Vec::new())];
        store.commit(fence.around(Changes { put, ..Changes::default() })).await.unwrap()
    }

    #[tokio::test]
    async fn a_lease_moves_to_another_node_after_it_was_unchanged() {
        let (here, there) = stores(MemoryEngine::of_a_cluster()).await;
        let (mut one, mut other) = (lease("one"), lease("other"));
        let start = Instant::now();
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        let first = one.acquire_or_renew(&here, at(0)).await.unwrap().unwrap();
        for second in 0..30 {
            assert!(other.acquire_or_renew(&there, at(second)).await.unwrap().is_none(), "{second}");
            assert!(one.acquire_or_renew(&here, at(second)).await.unwrap().is_some(), "{second}");
        }
        let last = one.acquire_or_renew(&here, at(30)).await.unwrap().unwrap();
        assert_eq!(write(&here, &first).await, Committed::Conflict, "the lease was renewed since");
        assert_eq!(write(&here, &last).await, Committed::Yes);
        // From here on, the holder does not renew the lease.
        assert!(other.acquire_or_renew(&there, at(31)).await.unwrap().is_none());
        assert!(other.acquire_or_renew(&there, at(40)).await.unwrap().is_none());
        let lease = other.acquire_or_renew(&there, at(41)).await.unwrap().unwrap();
        assert_eq!(write(&here, &last).await, Committed::Conflict, "a holder that was stopped writes nothing");
        assert!(!here.is_fence_valid(&last).await.unwrap() && there.is_fence_valid(&lease).await.unwrap());
        assert_eq!(write(&there, &lease).await, Committed::Yes);
        assert!(one.acquire_or_renew(&here, at(42)).await.unwrap().is_none());
        // Another node can acquire a released lease at once.
        other.release(&there).await;
        assert_eq!(write(&there, &lease).await, Committed::Conflict);
        assert!(one.acquire_or_renew(&here, at(42)).await.unwrap().is_some());
        assert!(other.acquire_or_renew(&there, at(42)).await.unwrap().is_none());
    }

    #[tokio::test]
    async fn an_unreadable_lease_moves_to_another_node() {
        let (here, there) = stores(MemoryEngine::of_a_cluster()).await;
        let put = vec![(table::lease("sweeping"), b"?".to_vec())];
        here.write(Changes { put, ..Changes::default() }).await.unwrap();
        let (mut one, start) = (lease("one"), Instant::now());
        assert!(one.acquire_or_renew(&there, start).await.unwrap().is_none());
        assert!(one.acquire_or_renew(&there, start + LEASE_LENGTH).await.unwrap().is_some());
    }

    #[tokio::test]
    async fn a_single_node_holds_every_lease_without_writing() {
        let (here, there) = stores(MemoryEngine::new()).await;
        for store in [&here, &there] {
            let mut lease = lease("one");
            let fence = lease.acquire_or_renew(store, Instant::now()).await.unwrap().unwrap();
            assert_eq!(write(store, &fence).await, Committed::Yes);
        }
        assert!(here.engine.get(&table::lease("sweeping")).await.unwrap().is_none());
    }
}
