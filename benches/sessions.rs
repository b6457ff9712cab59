//! Cost of reading a browser session from sled for each request.
//!
//! Reads the application session, its provider session and the user. Compares that with the cost of
//! a cache of the result. Environment: `SESSIONS` (20000), `SESSION_ROUNDS` (7), `SESSION_LOOKUPS`
//! per round (200000).
//!
//! The two alternate in each round, so that other work on the machine affects both.

#![expect(clippy::print_stdout, reason = "the figures are the outcome")]
#![expect(clippy::unwrap_used, reason = "a benchmark that cannot go on ends")]

use std::env;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use quick_cache::sync::Cache;
use sealgate_config as config;
use sealgate_domain::secret::SecretHash;
use sealgate_domain::session::{AppSession, KeepSignedIn, Session, SessionCookie, SessionId, SignIn};
use sealgate_domain::time::UnixTime;
use sealgate_domain::user::{Email, ManagerDecisions, Subject, User, UserState};
use sealgate_store::engine::Engine;
use sealgate_store::sled::SledEngine;
use sealgate_store::{AddOutcome, Store};

const NOW: UnixTime = UnixTime::from_seconds(1_800_000_000);
/// Concurrent commits while the store is filled.
const AT_ONCE: usize = 64;

fn main() {
    let number = |name: &str, default: usize| env::var(name).map_or(default, |text| text.parse().unwrap());
    let (count, rounds) = (number("SESSIONS", 20_000), number("SESSION_ROUNDS", 7));
    let lookups = number("SESSION_LOOKUPS", 200_000);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let store = config::SledConfig {
            path: directory.path().join("store"),
            cache_bytes: 64 << 20,
            reserve_bytes: 16 << 20,
            queue: 4096,
        };
        let engine = Arc::new(SledEngine::open(&store, Arc::new(())).unwrap());
        let store = Arc::new(Store::open(Arc::clone(&engine) as _, 100_000).await.unwrap());
        let cookies = Arc::new(fill(&store, count).await);
        let cache = Arc::new(Cache::new(count));
        for cookie in cookies.iter() {
            cache.insert(*cookie.hash().as_bytes(), Arc::new(find(&store, cookie).await));
        }
        let (mut looked_up, mut cached) = (Vec::new(), Vec::new());
        for _ in 0..rounds {
            looked_up.push(from_store(&store, &cookies, lookups).await);
            cached.push(from_cache(&cache, &cookies, lookups));
        }
        println!("{count} sessions, medians of {rounds} rounds of {lookups} lookups, one thread:");
        println!("from the store  {:>6} ns", median(looked_up, lookups));
        println!("from a cache    {:>6} ns", median(cached, lookups));
        drop(store);
        engine.close();
    });
}

/// Creates sessions, each with its own user.
async fn fill(store: &Arc<Store>, count: usize) -> Vec<SessionCookie> {
    let mut cookies = Vec::with_capacity(count);
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..count as u64 {
        let bytes = u128::from(number).to_be_bytes();
        let cookie = SessionCookie::new(SessionId::from_bytes(bytes), [7; 24]);
        cookies.push(cookie.clone());
        if tasks.len() == AT_ONCE {
            tasks.join_next().await.unwrap().unwrap();
        }
        let store = Arc::clone(store);
        tasks.spawn(async move {
            let subject = Subject::from_random(bytes);
            assert_eq!(store.add_user(&person(subject, number)).await.unwrap(), AddOutcome::Added);
            let sign_in = SignIn::by_password(subject, NOW);
            let parent = SessionId::from_bytes((u128::from(number) + (1 << 100)).to_be_bytes());
            store.begin_session(&session(parent, cookie.hash(), sign_in.clone())).await.unwrap();
            let own = AppSession {
                id: cookie.id,
                cookie: cookie.hash(),
                app: "wiki".into(),
                host: None,
                parent,
                subject,
                sign_in,
                created_at: NOW,
                expires_at: NOW.plus(Duration::from_hours(100)),
            };
            store.begin_app_session(&own).await.unwrap();
        });
    }
    while let Some(ended) = tasks.join_next().await {
        ended.unwrap();
    }
    cookies
}

fn person(sub: Subject, number: u64) -> User {
    User {
        sub,
        email: Email::parse(&format!("person{number}@example.test")),
        username: None,
        email_verified: true,
        name: "Ayşe Yılmaz".into(),
        phone_number: None,
        picture: None,
        roles: [].into(),
        groups: ["staff".to_owned(), "editors".to_owned()].into(),
        password: None,
        source: None,
        state: UserState::Enabled,
        created_at: NOW,
        updated_at: NOW,
        audit_filters: Vec::new(),
        by_manager: ManagerDecisions::default(),
    }
}

fn session(id: SessionId, cookie: SecretHash, sign_in: SignIn) -> Session {
    Session {
        id,
        cookie,
        previous: None,
        sign_ins: vec![sign_in],
        created_at: NOW,
        last_seen_at: NOW,
        expires_at: NOW.plus(Duration::from_hours(100)),
        idle_seconds: 28_800,
        kept_until: None,
        address: IpAddr::from([192, 0, 2, 7]),
        user_agent: "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0".into(),
        clients: Vec::new(),
    }
}

/// Reads the session of a request's cookie as the gateway does.
async fn find(store: &Store, cookie: &SessionCookie) -> (User, Session, AppSession) {
    let own = store.app_session(cookie.id).await.unwrap().unwrap().value;
    assert!(own.cookie == cookie.hash());
    let (parent, user) = store.session_and_user(own.parent, own.subject).await.unwrap();
    let parent = parent.unwrap().value;
    assert!(parent.is_live(NOW, KeepSignedIn::Off));
    let user = user.filter(User::is_enabled).unwrap();
    (user, parent, own)
}

async fn from_store(store: &Store, cookies: &[SessionCookie], lookups: usize) -> Duration {
    let begun = Instant::now();
    for number in 0..lookups {
        std::hint::black_box(find(store, at(cookies, number)).await);
    }
    begun.elapsed()
}

fn from_cache(
    cache: &Cache<[u8; 32], Arc<(User, Session, AppSession)>>,
    cookies: &[SessionCookie],
    lookups: usize,
) -> Duration {
    let begun = Instant::now();
    for number in 0..lookups {
        // The time includes hashing the cookie, because the hash is the key.
        let found = cache.get(at(cookies, number).hash().as_bytes()).unwrap();
        assert!(found.1.is_live(NOW, KeepSignedIn::Off));
        std::hint::black_box(found);
    }
    begun.elapsed()
}

/// Returns a session, in an order that defeats the processor's cache.
fn at(cookies: &[SessionCookie], number: usize) -> &SessionCookie {
    &cookies[number.wrapping_mul(7919) % cookies.len()]
}

fn median(mut times: Vec<Duration>, lookups: usize) -> u128 {
    times.sort_unstable();
    times[times.len() / 2].as_nanos() / lookups as u128
}
