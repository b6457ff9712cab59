//! Sweeping: what has expired goes in few commits, and what changes meanwhile stays.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use sealgate::facade::domain::time::UnixTime;
use sealgate::facade::store::Store;
use sealgate::facade::store::engine::{CommitObserver, Engine};
use sealgate::facade::store::sled::Options;

use crate::{BARRIERS, Place};

const NOW: UnixTime = UnixTime::from_seconds(1_800_000_000);
const RECORDS: usize = 2_000;
/// Of a pass.
const STEP: usize = 64;

/// Counts commits.
#[derive(Default)]
struct Commits(AtomicUsize);

impl CommitObserver for Commits {
    fn committed(&self, operations: usize, _seconds: f64) {
        self.0.fetch_add(operations, Ordering::SeqCst);
    }

    fn queue(&self, _waiting: usize) {}
}

/// Makes `count` records that expire a minute after `NOW`.
async fn fill(store: &Arc<Store>, count: usize) {
    let mut tasks = tokio::task::JoinSet::new();
    for part in 0..STEP {
        let store = Arc::clone(store);
        tasks.spawn(async move {
            for number in (part..count).step_by(STEP) {
                store.revoke_token(&format!("token-{number}"), NOW.plus(Duration::from_mins(1))).await.unwrap();
            }
        });
    }
    tasks.join_all().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_has_expired_goes_in_few_commits() {
    let _shared = BARRIERS.read().await;
    let place = Place::new();
    let commits = Arc::new(Commits::default());
    let engine: Arc<dyn Engine> =
        Arc::new(place.open_with(Options::default(), 1024, Arc::clone(&commits) as Arc<dyn CommitObserver>).unwrap());
    let store = Arc::new(Store::open(engine, 10).await.unwrap());
    fill(&store, RECORDS).await;

    // A commit is counted after it is answered.
    while commits.0.load(Ordering::SeqCst) < RECORDS {
        tokio::task::yield_now().await;
    }
    let before = commits.0.load(Ordering::SeqCst);
    let later = NOW.plus(Duration::from_hours(1));
    let mut removed = 0;
    loop {
        let swept = store.sweep(later, STEP).await.unwrap();
        removed += swept.removed;
        if !swept.more {
            break;
        }
    }
    assert_eq!(removed, RECORDS);
    assert_eq!(store.expired_pending(later, RECORDS).await.unwrap(), 0);
    let used = commits.0.load(Ordering::SeqCst) - before;
    assert!(used <= 2 * RECORDS / STEP, "{used} commits for {RECORDS} records");
    assert!(!store.is_token_revoked("token-1").await.unwrap());
}
