//! Keeps other issuers' keys fresh, beside the requests: a task for each issuer. Reading blocks, so it is done on threads
//! that may, a few at once.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Semaphore, watch};
use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::sleep;

use super::TrustedIssuers;
use crate::tokens::trusted::fetch::fetch;
use super::source::Source;
use sealgate_system::clock::Clock;
use sealgate_system::metrics::Metrics;

/// Readings at once: one that hangs takes a thread for its whole deadline.
const AT_ONCE: usize = 4;

/// Interval between checks of a file.
const LOOK: Duration = Duration::from_secs(1);

/// What changes when a file does: inode, length, and the time of its last change in seconds and nanoseconds.
type Stamp = (u64, u64, i64, i64);

/// Reads the keys of all trusted issuers, again and again, until told to stop.
pub async fn keep(
    trust: Arc<TrustedIssuers>,
    clock: Arc<dyn Clock>,
    metrics: Arc<Metrics>,
    mut stop: watch::Receiver<bool>,
) {
    let places = Arc::new(Semaphore::new(AT_ONCE));
    let mut tasks = JoinSet::new();
    for source in &trust.sources {
        tasks.spawn(keep_one(Arc::clone(source), Arc::clone(&clock), Arc::clone(&metrics), Arc::clone(&places)));
    }
    // Dropping the tasks ends them; a thread in the midst of a reading ends with its deadline.
    let _ = stop.changed().await;
}

async fn keep_one(source: Arc<Source>, clock: Arc<dyn Clock>, metrics: Arc<Metrics>, places: Arc<Semaphore>) {
    let mut seen = None;
    loop {
        let mut pause = LOOK;
        match source.file().map(stamp) {
            Some(found) if seen == Some(found) => {}
            found => {
                seen = found;
                let next = read(&source, clock.as_ref(), &metrics, &places).await;
                pause = if found.is_some() { LOOK } else { next };
            }
        }
        tokio::select! {
            () = source.wanted() => {}
            () = sleep(pause) => {}
        }
    }
}

/// Reads once; for how long to leave it then.
async fn read(source: &Arc<Source>, clock: &dyn Clock, metrics: &Metrics, places: &Semaphore) -> Duration {
    // Never closed.
    let _place = places.acquire().await;
    source.begin();
    let reading = Arc::clone(source);
    let outcome = spawn_blocking(move || fetch(reading.settings())).await;
    let outcome = outcome.unwrap_or_else(|error| Err(format!("the task failed: {error}")));
    let settled = source.settle(outcome, clock.now());
    let read = settled.keys.map(|(count, at)| (count, at.seconds()));
    metrics.foreign_keys_read(&source.settings().terms.name, read);
    settled.pause
}

fn stamp(path: &Path) -> Option<Stamp> {
    let found = std::fs::metadata(path).ok()?;
    Some((found.ino(), found.len(), found.ctime(), found.ctime_nsec()))
}
