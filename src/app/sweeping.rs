//! Removes what has expired, beside requests. Of several nodes one does it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::app::duty::{self, Duty};
use crate::app::server::Stop;
use crate::app::state::Sealgate;
use crate::domain::audit::{Actor, AuditEvent, AuditKind};
use crate::store::{Fence, LeaseName, StoreError, SweepPlace};

/// Between two sweeps.
const EVERY: Duration = Duration::from_secs(30);
/// Records a step, which is one commit: requests wait for a step, so it is a few milliseconds long.
const STEP: usize = 64;
/// The same over a network, where a step is a few round trips long whatever it has.
const STEP_OF_FLEET: usize = 512;
/// How many times as long as a step took comes a rest after it: at once, a commit of somebody else took 1.7 times as long
/// while a million records were swept.
const RESTS: u32 = 4;
/// The same where a step is mostly waiting for the network.
const RESTS_OF_FLEET: u32 = 1;
const LONGEST_REST: Duration = Duration::from_secs(1);
/// Records after which what waits is counted anew, and how far.
const RECORDS_A_COUNT: usize = 4096;
const MOST_PENDING: usize = 16_384;
/// Records of the audit trail that are trimmed at a time: more than strangers can make between two sweeps.
const MOST_TRIMMED: usize = 16_384;

/// Sweeps at once and then every half minute while this is the node that does, until told to stop.
pub(crate) async fn keep(sealgate: Arc<Sealgate>, mut stop: Stop) {
    let mut sweeper = Sweeper {
        duty: Duty::new(&sealgate, LeaseName::Sweeping),
        place: SweepPlace::default(),
        is_fleet: sealgate.store.is_shared(),
        sealgate,
    };
    let mut swept_at = None::<Instant>;
    loop {
        tokio::select! {
            biased;
            _ = stop.changed() => break,
            held = sweeper.duty.hold() => {
                if held.is_some() && swept_at.is_none_or(|at| at.elapsed() >= EVERY) {
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
            () = tokio::time::sleep(duty::LOOK) => {}
        }
    }
    sweeper.duty.let_go().await;
}

struct Sweeper {
    sealgate: Arc<Sealgate>,
    duty: Duty,
    place: SweepPlace,
    is_fleet: bool,
}

impl Sweeper {
    /// Sweeps until nothing is due, or another node does. It rests after each step for some times as long as that took, so
    /// that others have the store for themselves for most of the time.
    async fn sweep(&mut self) {
        let (step, rests) = if self.is_fleet { (STEP_OF_FLEET, RESTS_OF_FLEET) } else { (STEP, RESTS) };
        let mut more = true;
        while more {
            for _ in 0..RECORDS_A_COUNT / step {
                let started = Instant::now();
                let Some(fence) = self.duty.hold().await else { return };
                more = self.step(&fence, step).await.unwrap_or_else(|error| {
                    tracing::warn!(%error, "sweeping stopped early");
                    false
                });
                if !more {
                    break;
                }
                tokio::time::sleep((rests * started.elapsed()).min(LONGEST_REST)).await;
            }
            let (store, now) = (&self.sealgate.store, self.sealgate.clock.now());
            match store.expired_pending(&self.place, now, MOST_PENDING).await {
                Ok(pending) => {
                    self.sealgate.metrics.expired_pending.set(i64::try_from(pending).unwrap_or(i64::MAX));
                }
                Err(error) => tracing::warn!(%error, "what waits to be swept could not be counted"),
            }
        }
        let Some(fence) = self.duty.hold().await else { return };
        let (settings, now) = (&self.sealgate.config.audit, self.sealgate.clock.now());
        let trimmed =
            self.sealgate.store.trim_audit(&fence, now, settings.keep, settings.max_records, MOST_TRIMMED).await;
        match trimmed {
            Ok(removed) => self.sealgate.metrics.swept.inc_by(removed as u64),
            Err(error) => tracing::warn!(%error, "the audit trail was not trimmed"),
        }
    }

    /// One step. Yields whether there may be more to do here.
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
