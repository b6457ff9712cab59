//! Leases of background tasks that one node executes for the cluster, with logging and metrics.

use std::sync::Arc;
use std::time::{Duration, Instant};

use sealgate_core::state::Sealgate;
use sealgate_store::{Fence, Lease, LeaseName};

/// Interval at which the lease is checked while there is nothing to do.
pub(crate) const CHECK_INTERVAL: Duration = Duration::from_secs(2);

/// Lease of one task, and the result of this node's last attempt to acquire it.
pub(crate) struct TaskLease {
    sealgate: Arc<Sealgate>,
    lease: Lease,
    /// Whether the store failed at the last attempt.
    is_failing: bool,
}

impl TaskLease {
    pub(crate) fn new(sealgate: &Arc<Sealgate>, name: LeaseName) -> Self {
        Self { sealgate: Arc::clone(sealgate), lease: Lease::new(name, sealgate.rotation.server()), is_failing: false }
    }

    /// Acquires or renews the lease. Returns its fence for the next step, see [`Lease::acquire_or_renew`].
    pub(crate) async fn acquire_or_renew(&mut self) -> Option<Fence> {
        let name = self.lease.name().as_str();
        let fence = self.lease.acquire_or_renew(&self.sealgate.store, Instant::now()).await;
        if let Err(error) = &fence
            && !self.is_failing
        {
            tracing::warn!(%error, lease = name, "cannot read from the store which node runs this task; the \
                task waits");
        }
        self.is_failing = fence.is_err();
        let fence = fence.unwrap_or_default();
        self.sealgate.metrics.lease_held(name, fence.is_some());
        fence
    }

    /// Releases the lease for another node. Called at a stop.
    pub(crate) async fn release(&mut self) {
        self.lease.release(&self.sealgate.store).await;
        self.sealgate.metrics.lease_held(self.lease.name().as_str(), false);
    }
}
