//! Counts the bounded records that anyone can create, for all nodes of a cluster.
//!
//! A process alone on a store tracks them from its start, and this task does nothing.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::app::duty::LeasedTask;
use crate::app::server::Stop;
use sealgate_core::state::Sealgate;
use sealgate_store::{LeaseName, StoreError};

/// Interval at which published counts are read.
const LOOK: Duration = Duration::from_secs(1);
/// Interval of counts.
const EVERY: Duration = Duration::from_secs(3);
/// Interval of counts of clients, which reads all of them.
const CLIENTS_EVERY: Duration = Duration::from_secs(30);

/// Counts if this node holds the lease, and applies the published counts, until `stop`.
pub(crate) async fn run(sealgate: Arc<Sealgate>, mut stop: Stop) {
    if !sealgate.store.is_shared() {
        return;
    }
    let mut counting =
        Counting { duty: LeasedTask::new(&sealgate, LeaseName::Counting), sealgate, last: None, clients: None };
    loop {
        let looked = async {
            tokio::time::sleep(LOOK).await;
            counting.look().await
        };
        tokio::select! {
            biased;
            _ = stop.changed() => break,
            looked = looked => if let Err(error) = looked {
                tracing::warn!(%error, "cannot count the records that unauthenticated requests create");
            },
        }
    }
    counting.duty.release().await;
}

struct Counting {
    sealgate: Arc<Sealgate>,
    duty: LeasedTask,
    /// When this node last counted, and last counted the clients.
    last: Option<Instant>,
    clients: Option<Instant>,
}

impl Counting {
    async fn look(&mut self) -> Result<(), StoreError> {
        let store = &self.sealgate.store;
        if let Some(fence) = self.duty.hold().await {
            let is_due = |last: Option<Instant>, every| last.is_none_or(|last| last.elapsed() >= every);
            if is_due(self.last, EVERY) {
                let with_clients = is_due(self.clients, CLIENTS_EVERY);
                self.last = Some(Instant::now());
                if store.publish_counts(&fence, with_clients).await? && with_clients {
                    self.clients = self.last;
                }
            }
        }
        store.follow_counts().await
    }
}
