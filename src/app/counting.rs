//! Counts, for all nodes of a cluster, the records that unauthenticated clients can create. Their
//! number is limited.
//!
//! Without a cluster, the process counts its records itself, and this task does nothing.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::app::server::Stop;
use crate::app::task_lease::TaskLease;
use sealgate_core::state::Sealgate;
use sealgate_store::{LeaseName, StoreError};

/// Interval at which published counts are read.
const READ_INTERVAL: Duration = Duration::from_secs(1);
/// Interval between two counts.
const COUNT_INTERVAL: Duration = Duration::from_secs(3);
/// Interval between two counts of clients. Such a count reads all clients.
const CLIENT_COUNT_INTERVAL: Duration = Duration::from_secs(30);

/// Counts while this node holds the lease, and applies the published counts, until `stop`.
pub(crate) async fn run(sealgate: Arc<Sealgate>, mut stop: Stop) {
    if !sealgate.store.is_shared() {
        return;
    }
    let mut counter = RecordCounter {
        lease: TaskLease::new(&sealgate, LeaseName::Counting),
        sealgate,
        counted_at: None,
        clients_counted_at: None,
    };
    loop {
        let outcome = async {
            tokio::time::sleep(READ_INTERVAL).await;
            counter.update().await
        };
        tokio::select! {
            biased;
            _ = stop.changed() => break,
            outcome = outcome => if let Err(error) = outcome {
                tracing::warn!(%error, "cannot count the records that unauthenticated requests create");
            },
        }
    }
    counter.lease.release().await;
}

struct RecordCounter {
    sealgate: Arc<Sealgate>,
    lease: TaskLease,
    /// Time of this node's last count.
    counted_at: Option<Instant>,
    /// Time of this node's last count of clients.
    clients_counted_at: Option<Instant>,
}

impl RecordCounter {
    async fn update(&mut self) -> Result<(), StoreError> {
        let store = &self.sealgate.store;
        if let Some(fence) = self.lease.acquire_or_renew().await {
            let is_due = |last: Option<Instant>, every| last.is_none_or(|last| last.elapsed() >= every);
            if is_due(self.counted_at, COUNT_INTERVAL) {
                let with_clients = is_due(self.clients_counted_at, CLIENT_COUNT_INTERVAL);
                self.counted_at = Some(Instant::now());
                if store.publish_counts(&fence, with_clients).await? && with_clients {
                    self.clients_counted_at = self.counted_at;
                }
            }
        }
        store.follow_counts().await
    }
}
