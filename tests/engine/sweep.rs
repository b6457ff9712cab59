//! Garbage collection: expired records are removed in few commits, and concurrently changed ones
//! remain.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use sealgate_domain::session::{AppSession, SessionCookie, SessionId, SignIn};
use sealgate_domain::time::UnixTime;
use sealgate_domain::user::Subject;
use sealgate_store::engine::{Changes, CommitObserver, Counters, Engine, EngineError, Key, Outcome, Value};
use sealgate_store::memory::MemoryEngine;
use sealgate_store::postgres::{PostgresSettings, initialise};
use sealgate_store::sled::Options;
use sealgate_store::{Fence, LEASE_LENGTH, Lease, LeaseName, Store, SweepPlace, Swept};

use crate::postgres_server::{empty_store, schema, shared, within};
use crate::relay::Relay;
use crate::{BARRIERS, Place, node};

const NOW: UnixTime = UnixTime::from_seconds(1_800_000_000);
const RECORDS: usize = 2_000;
/// Records per pass, and number of concurrent tasks.
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

/// Creates `count` records that expire a minute after `NOW`.
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
async fn expired_records_are_removed_in_few_commits() {
    let _shared = BARRIERS.read().await;
    let place = Place::new();
    let commits = Arc::new(Commits::default());
    let engine: Arc<dyn Engine> =
        Arc::new(place.open_with(Options::default(), 1024, Arc::clone(&commits) as Arc<dyn CommitObserver>).unwrap());
    let store = Arc::new(Store::open(engine, 10).await.unwrap());
    fill(&store, RECORDS).await;

    // A commit is counted after it is answered.
    let waited = tokio::time::timeout(Duration::from_secs(30), async {
        while commits.0.load(Ordering::SeqCst) < RECORDS {
            tokio::task::yield_now().await;
        }
    });
    waited.await.unwrap();
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
    assert_eq!(store.expired_pending(&SweepPlace::default(), later, RECORDS).await.unwrap(), 0);
    let used = commits.0.load(Ordering::SeqCst) - before;
    assert!(used <= 2 * RECORDS / STEP, "{used} commits for {RECORDS} records");
    assert!(!store.is_token_revoked("token-1").await.unwrap());
}

const LATER: UnixTime = UnixTime::from_seconds(NOW.seconds() + 3600);

/// An engine that is unavailable for a while, and reports one record as damaged.
struct Ailing {
    engine: MemoryEngine,
    silent: AtomicBool,
    damaged: Key,
}

impl Ailing {
    fn answer<T>(&self, answer: T) -> Result<T, EngineError> {
        if self.silent.load(Ordering::SeqCst) {
            return Err(EngineError::Unavailable("the database does not answer".to_owned()));
        }
        Ok(answer)
    }
}

#[async_trait]
impl Engine for Ailing {
    async fn get(&self, key: &[u8]) -> Result<Option<Value>, EngineError> {
        if key == self.damaged {
            return Err(EngineError::Damaged("a piece is missing".to_owned()));
        }
        self.answer(self.engine.get(key).await?)
    }

    async fn scan(&self, prefix: &[u8], after: Option<&[u8]>, limit: usize) -> Result<Vec<(Key, Value)>, EngineError> {
        self.engine.scan(prefix, after, limit).await
    }

    async fn commit(&self, changes: Changes) -> Result<Outcome, EngineError> {
        self.engine.commit(changes).await
    }

    fn counters(&self) -> &Counters {
        self.engine.counters()
    }

    async fn ping(&self) -> Result<(), EngineError> {
        self.engine.ping().await
    }
}

#[tokio::test]
async fn only_damaged_records_are_skipped_for_a_day() {
    let elsewhere = Arc::new(MemoryEngine::new());
    Store::open(Arc::<MemoryEngine>::clone(&elsewhere), 10).await.unwrap().revoke_token("damaged", NOW).await.unwrap();
    let (damaged, _) = elsewhere.scan(b"r", None, 1).await.unwrap().pop().unwrap();
    let engine = Arc::new(Ailing { engine: MemoryEngine::new(), silent: AtomicBool::new(false), damaged });
    let store = Store::open(Arc::<Ailing>::clone(&engine), 10).await.unwrap();
    for token in ["damaged", "whole"] {
        store.revoke_token(token, NOW).await.unwrap();
    }
    engine.silent.store(true, Ordering::SeqCst);
    assert!(store.sweep(LATER, 9).await.is_err());
    engine.silent.store(false, Ordering::SeqCst);
    let swept = store.sweep(LATER, 9).await.unwrap();
    assert_eq!((swept.removed, swept.rescheduled), (1, 1), "{swept:?}");
    assert_eq!(store.sweep(LATER, 9).await.unwrap(), Swept::default());
    let tomorrow = LATER.plus(Duration::from_hours(25));
    assert_eq!(store.sweep(tomorrow, 9).await.unwrap().rescheduled, 1, "it is checked again");
}

/// Removes all expired records. Returns their number.
async fn sweep_all(store: &Store, fence: &Fence) -> usize {
    let (mut removed, mut place) = (0, SweepPlace::default());
    loop {
        let swept = store.sweep_on(&mut place, fence, LATER, 512).await.unwrap();
        removed += swept.removed;
        if !swept.more || swept.superseded {
            return removed;
        }
    }
}

async fn shared_store(settings: &PostgresSettings) -> Arc<Store> {
    Arc::new(Store::open(Arc::new(node(settings).await), 10).await.unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn two_sweeping_nodes_remove_each_record_once() {
    let settings = empty_store().await;
    let (one, other) = (shared_store(&settings).await, shared_store(&settings).await);
    fill(&one, RECORDS).await;
    let (nobody, somebody) = (Fence::default(), Fence::default());
    let (here, there) = tokio::join!(sweep_all(&one, &nobody), sweep_all(&other, &somebody));
    // Each sweeper skips records on which the second one works.
    let left = sweep_all(&one, &nobody).await;
    assert_eq!(one.expired_pending(&SweepPlace::default(), LATER, RECORDS).await.unwrap(), 0);
    assert!(!other.is_token_revoked("token-1").await.unwrap());
    assert_eq!(here + there + left, RECORDS, "{here} {there} {left}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_sweeper_removes_nothing_and_another_continues() {
    let settings = empty_store().await;
    let (one, other) = (shared_store(&settings).await, shared_store(&settings).await);
    fill(&one, RECORDS).await;
    let (mut first, mut second) = (Lease::new(LeaseName::Sweeping, "one"), Lease::new(LeaseName::Sweeping, "other"));
    let start = Instant::now();
    let fence = first.acquire_or_renew(&one, start).await.unwrap().unwrap();
    let mut place = SweepPlace::default();
    let swept = one.sweep_on(&mut place, &fence, LATER, 512).await.unwrap();
    assert!(swept.removed == 512 && swept.more, "{swept:?}");
    // The second node is suspended from this point.
    assert!(second.acquire_or_renew(&other, start).await.unwrap().is_none());
    let taken = second.acquire_or_renew(&other, start + LEASE_LENGTH).await.unwrap().unwrap();
    let swept = one.sweep_on(&mut place, &fence, LATER, 512).await.unwrap();
    assert!(swept.removed == 0 && swept.superseded, "{swept:?}");
    assert_eq!(sweep_all(&other, &taken).await, RECORDS - 512);
    assert!(first.acquire_or_renew(&one, start + LEASE_LENGTH).await.unwrap().is_none());
}

/// Prints the duration: set `SWEEP_RECORDS=100000` for more records.
#[tokio::test(flavor = "multi_thread")]
async fn expired_records_are_removed_over_a_network() {
    let records = std::env::var("SWEEP_RECORDS").map_or(RECORDS, |records| records.parse().unwrap());
    let schema = schema().await;
    let relay = Relay::start_far(shared().port, Duration::from_millis(1)).await;
    let url = format!("postgres://sealgate@127.0.0.1:{}/postgres{}", relay.port, within(&schema));
    let far = PostgresSettings::new(url.into());
    initialise(&far).await.unwrap();
    let store = shared_store(&far).await;
    fill(&store, records).await;
    let mut lease = Lease::new(LeaseName::Sweeping, "one");
    let (started, mut removed, mut place) = (Instant::now(), 0, SweepPlace::default());
    loop {
        let step = Instant::now();
        let fence = lease.acquire_or_renew(&store, step).await.unwrap().unwrap();
        let swept = store.sweep_on(&mut place, &fence, LATER, 512).await.unwrap();
        removed += swept.removed;
        if !swept.more {
            break;
        }
        tokio::time::sleep(step.elapsed()).await;
    }
    println!("{records} records in {:?}", started.elapsed());
    assert_eq!(removed, records);
}

fn app_session(number: u8, parent: SessionId) -> AppSession {
    let subject = Subject::from_random([7; 16]);
    let cookie = SessionCookie::new(SessionId::from_bytes([number; 16]), [number; 24]);
    AppSession {
        id: cookie.id,
        cookie: cookie.hash(),
        app: "wiki".to_owned(),
        host: None,
        parent,
        subject,
        sign_in: SignIn::by_password(subject, NOW),
        created_at: NOW,
        expires_at: NOW.plus(Duration::from_mins(1)),
    }
}

#[tokio::test]
async fn sessions_at_applications_leave_no_index_entry() {
    let engine = Arc::new(MemoryEngine::new());
    let store = Store::open(Arc::clone(&engine) as Arc<dyn Engine>, 10).await.unwrap();
    let before = engine.scan(b"", None, 100).await.unwrap().len();
    let [parent, other] = [8, 9].map(|byte| SessionId::from_bytes([byte; 16]));
    for session in [app_session(1, parent), app_session(2, parent), app_session(3, other)] {
        store.begin_app_session(&session).await.unwrap();
    }
    let of = async |parent| {
        let found = store.app_sessions_of(parent, None, 10).await.unwrap();
        assert_eq!(found.next, None);
        found.sessions.into_iter().map(|session| *session.id.as_bytes()).collect::<Vec<_>>()
    };
    assert_eq!((of(parent).await, of(other).await), (vec![[1; 16], [2; 16]], vec![[3; 16]]));
    let first = store.app_sessions_of(parent, None, 1).await.unwrap();
    let second = store.app_sessions_of(parent, first.next, 1).await.unwrap();
    assert_eq!([&first.sessions[..], &second.sessions].concat(), [app_session(1, parent), app_session(2, parent)]);
    store.end_app_session(SessionId::from_bytes([1; 16])).await.unwrap();
    assert_eq!(of(parent).await, [[2; 16]]);
    store.sweep(NOW.plus(Duration::from_hours(1)), 100).await.unwrap();
    assert_eq!((of(parent).await, of(other).await), (vec![], vec![]));
    assert_eq!(engine.scan(b"", None, 100).await.unwrap().len(), before);
}
