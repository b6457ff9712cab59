//! Background garbage collection of expired records. One node performs it for the cluster.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::app::server::Stop;
use crate::app::task_lease;
use crate::app::task_lease::TaskLease;
use sealgate_core::state::Sealgate;
use sealgate_domain::audit::{Actor, AuditEvent, AuditKind};
use sealgate_store::{Fence, LeaseName, StoreError, SweepPlace};

/// Interval between two runs.
const RUN_INTERVAL: Duration = Duration::from_secs(30);
/// Records per step on a local store: one commit, for which requests wait a few milliseconds.
const STEP: usize = 64;
/// Records per step on a shared store. A step takes the same number of round trips for any number
/// of records.
const STEP_OF_CLUSTER: usize = 512;
/// Pause after a step, as a multiple of the step's duration.
///
/// Without the pause, other commits took 1.7 times as long during garbage collection of a million
/// records.
const PAUSE_FACTOR: u32 = 4;
/// [`PAUSE_FACTOR`] on a shared store, where a step mostly waits for round trips.
const PAUSE_FACTOR_OF_CLUSTER: u32 = 1;
/// Maximum pause after a step.
const MAX_PAUSE: Duration = Duration::from_secs(1);
/// Number of removed records after which the backlog is counted again.
const RECORDS_PER_COUNT: usize = 4096;
/// Maximum number to which the backlog is counted.
const MAX_PENDING: usize = 16_384;
/// Maximum number of audit records that are trimmed at a time: more than unauthenticated requests
/// can create between two runs.
const MAX_TRIMMED: usize = 16_384;

/// Collects expired records at startup and then every half minute while this node holds the lease,
/// until `stop`.
pub(crate) async fn run(sealgate: Arc<Sealgate>, mut stop: Stop) {
    let mut sweeper = Sweeper {
        lease: TaskLease::new(&sealgate, LeaseName::Sweeping),
        place: SweepPlace::default(),
        is_cluster: sealgate.store.is_shared(),
        sealgate,
    };
    let mut swept_at = None::<Instant>;
    loop {
        tokio::select! {
            biased;
            _ = stop.changed() => break,
            held = sweeper.lease.acquire_or_renew() => {
                if held.is_some() && swept_at.is_none_or(|at| at.elapsed() >= RUN_INTERVAL) {
                    tokio::select! {
                        biased;
                        _ = stop.changed() => break,
                        () = sweeper.sweep() => swept_at = Some(Instant::now()),
                    }
                }
            }
        }
        tokio::select! {
            biased;
            _ = stop.changed() => break,
            () = tokio::time::sleep(task_lease::CHECK_INTERVAL) => {}
        }
    }
    sweeper.lease.release().await;
}

struct Sweeper {
    sealgate: Arc<Sealgate>,
    lease: TaskLease,
    place: SweepPlace,
    is_cluster: bool,
}

impl Sweeper {
    /// Removes expired records until nothing is due or another node holds the lease.
    ///
    /// Pauses after each step, so that the store is available to others most of the time.
    async fn sweep(&mut self) {
        let (step, pause_factor) =
            if self.is_cluster { (STEP_OF_CLUSTER, PAUSE_FACTOR_OF_CLUSTER) } else { (STEP, PAUSE_FACTOR) };
        let mut more = true;
        while more {
            for _ in 0..RECORDS_PER_COUNT / step {
                let started = Instant::now();
                let Some(fence) = self.lease.acquire_or_renew().await else { return };
                more = self.step(&fence, step).await.unwrap_or_else(|error| {
                    tracing::warn!(%error, "the sweep of expired records failed");
                    false
                });
                if !more {
                    break;
                }
                tokio::time::sleep((pause_factor * started.elapsed()).min(MAX_PAUSE)).await;
            }
            let (store, now) = (&self.sealgate.store, self.sealgate.clock.now());
            match store.expired_pending(&self.place, now, MAX_PENDING).await {
                Ok(pending) => {
                    self.sealgate.metrics.expired_pending.set(i64::try_from(pending).unwrap_or(i64::MAX));
                }
                Err(error) => tracing::warn!(%error, "cannot count expired records"),
            }
        }
        let Some(fence) = self.lease.acquire_or_renew().await else { return };
        let (settings, now) = (&self.sealgate.config.audit, self.sealgate.clock.now());
        let trimmed =
            self.sealgate.store.trim_audit(&fence, now, settings.keep, settings.max_records, MAX_TRIMMED).await;
        match trimmed {
            Ok(removed) => self.sealgate.metrics.swept.inc_by(removed as u64),
            Err(error) => tracing::warn!(%error, "cannot delete the oldest audit records"),
        }
    }

    /// Executes one step. Returns whether more records may be due.
    async fn step(&mut self, fence: &Fence, most: usize) -> Result<bool, StoreError> {
        let now = self.sealgate.clock.now();
        let swept = self.sealgate.store.sweep_on(&mut self.place, fence, now, most).await?;
        self.sealgate.metrics.swept.inc_by(swept.removed as u64);
        for client in &swept.clients {
            let event = AuditEvent::new(now, AuditKind::ClientDeleted, Actor::Server);
            self.sealgate.audit.note(event.with_client(client).with_detail("never used"));
        }
        Ok(swept.more && !swept.superseded)
    }
}
