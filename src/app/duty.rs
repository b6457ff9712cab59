//! Work that one node does for all: its lease, and what becomes of it for the log and for metrics.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::app::state::Sealgate;
use crate::store::{Fence, Lease, LeaseName};

/// How often a lease is looked at while there is nothing to do.
pub(crate) const LOOK: Duration = Duration::from_secs(2);

/// One node's side of such a piece of work.
pub(crate) struct Duty {
    sealgate: Arc<Sealgate>,
    lease: Lease,
    /// Whether the store did not say so the last time.
    is_failing: bool,
}

impl Duty {
    pub(crate) fn new(sealgate: &Arc<Sealgate>, name: LeaseName) -> Self {
        Self { sealgate: Arc::clone(sealgate), lease: Lease::new(name, sealgate.rotation.server()), is_failing: false }
    }

    /// What guards the next step of the work, if it is this node's: see [`Lease::hold`].
    pub(crate) async fn hold(&mut self) -> Option<Fence> {
        let name = self.lease.name().as_str();
        let held = self.lease.hold(&self.sealgate.store, Instant::now()).await;
        if let Err(error) = &held
            && !self.is_failing
        {
            tracing::warn!(%error, lease = name, "the store does not say who does this work; it waits");
        }
        self.is_failing = held.is_err();
        let held = held.unwrap_or_default();
        self.sealgate.metrics.lease_held(name, held.is_some());
        held
    }

    /// Lets another node go on at once: for a stop.
    pub(crate) async fn let_go(&mut self) {
        self.lease.let_go(&self.sealgate.store).await;
        self.sealgate.metrics.lease_held(self.lease.name().as_str(), false);
    }
}
