//! Heartbeats: a revocation on one node reaches the other nodes, and no node decides without a
//! heartbeat.

use std::sync::Arc;
use std::time::{Duration, Instant};

use sealgate_store::Store;
use sealgate_store::engine::{Changes, Counter, Engine, EngineError, Outcome};
use sealgate_store::postgres::{PostgresEngine, PostgresSettings, initialise};

use super::postgres::{administer, start, until};
use crate::postgres_server::{empty_store, schema, shared, within};
use crate::relay::{Manner, Relay};
use crate::{absent, commit, node, put};

fn named(name: &str, settings: &PostgresSettings) -> PostgresSettings {
    PostgresSettings { node: Some(name.to_owned()), ..settings.clone() }
}

fn moving(counter: Counter) -> Changes {
    Changes { moves: vec![counter], ..put(b"k", b"v") }
}

fn is_stale(engine: &dyn Engine) -> bool {
    matches!(engine.current(), Err(EngineError::Stale(_)))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_revocation_increments_the_counters_of_other_nodes() {
    let settings = empty_store().await;
    let (a, b) = (node(&named("a", &settings)).await, node(&named("b", &settings)).await);
    let (mine, others) = (a.counters().sum(7), [b.counters().sum(7), b.counters().sum(8)]);
    commit(&a, moving(Counter::User(7))).await;
    let answered = Instant::now();
    assert!(a.counters().sum(7) > mine, "at once where it was done");
    until("the other knows", || async { b.counters().sum(7) > others[0] }).await;
    assert_eq!(b.counters().sum(8), others[1]);
    println!("known after {:?}", answered.elapsed());
    until("both are counted", || async { a.nodes() == 2 && b.nodes() == 2 }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refused_commit_increments_no_counter() {
    let settings = empty_store().await;
    let a = node(&settings).await;
    commit(&a, put(b"k", b"v")).await;
    let moves = vec![Counter::Everything, Counter::User(7)];
    let refused = Changes { expect: vec![absent(b"k")], moves, ..put(b"k", b"w") };
    assert_eq!(commit(&a, refused).await, Outcome::Conflict);
    let count = "SELECT count(*) FROM counter WHERE n <> 0";
    let client = settings_client(&settings).await;
    assert_eq!(client.query_one(count, &[]).await.unwrap().get::<_, i64>(0), 0);
    commit(&a, moving(Counter::Keys)).await;
    assert_eq!(client.query_one(count, &[]).await.unwrap().get::<_, i64>(0), 1);
}

async fn settings_client(settings: &PostgresSettings) -> tokio_postgres::Client {
    use secrecy::ExposeSecret;
    let (client, connection) =
        tokio_postgres::connect(settings.url.expose_secret(), tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

/// Each task increments all counters, in a different order.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_increments_of_all_counters_do_not_conflict() {
    let settings = empty_store().await;
    let nodes = [Arc::new(node(&settings).await), Arc::new(node(&settings).await)];
    let mut commits = tokio::task::JoinSet::new();
    for number in 0..64_usize {
        let node = Arc::clone(&nodes[number % 2]);
        let mut moves: Vec<Counter> = (0..Counter::COUNT).filter_map(Counter::of_slot).collect();
        moves.rotate_left(number);
        commits.spawn(
            async move { node.commit(Changes { moves, ..put(&[number.to_be_bytes()[7]], b"v") }).await.unwrap() },
        );
    }
    assert!(commits.join_all().await.iter().all(|outcome| *outcome == Outcome::Committed));
    let client = settings_client(&settings).await;
    let row = client.query_one("SELECT min(n), max(n), count(*) FROM counter", &[]).await.unwrap();
    let (least, most): (i64, i64) = (row.get(0), row.get(1));
    assert!(least == most && (1..=64).contains(&least), "{least} to {most}");
    assert_eq!(row.get::<_, i64>(2), 259);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_heartbeat_nothing_is_decided_or_read() {
    let schema = schema().await;
    let at = |port: u16| {
        PostgresSettings::new(format!("postgres://sealgate@127.0.0.1:{port}/postgres{}", within(&schema)).into())
    };
    initialise(&at(shared().port)).await.unwrap();
    let relay = Relay::start(shared().port).await;
    let engine = Arc::new(node(&named("a", &at(relay.port))).await);
    let store = Store::open(Arc::clone(&engine) as Arc<dyn Engine>, 10).await.unwrap();
    let basis = store.basis().unwrap();
    store.ensure_current(&basis).unwrap();
    // New connections fail too.
    relay.set(Manner::SwallowAnswers);
    relay.refuse(true);
    let cut = Instant::now();
    until("it is not believed", || async { is_stale(&*engine) }).await;
    assert!(store.basis().is_err() && store.ensure_current(&basis).is_err());
    assert!(engine.get(b"k").await.is_err());
    println!("stale after {:?}", cut.elapsed());
    relay.set(Manner::Carry);
    relay.refuse(false);
    relay.cut();
    until("it beats again", || async { !is_stale(&*engine) }).await;
    assert_eq!(engine.get(b"k").await.unwrap(), None);
    // Nothing was revoked in the meantime, so earlier decisions may be applied.
    store.ensure_current(&basis).unwrap();
}

/// The decision belongs to a process that was suspended between its reads and its answer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_decision_that_is_outdated_by_a_pause_is_discarded() {
    let settings = PostgresSettings { staleness: Duration::from_millis(300), ..empty_store().await };
    let (engine, other) = (Arc::new(node(&settings).await), node(&settings).await);
    let store = Store::open(Arc::clone(&engine) as Arc<dyn Engine>, 10).await.unwrap();
    let basis = store.basis().unwrap();
    let sum = engine.counters().sum(7);
    commit(&other, moving(Counter::User(7))).await;
    until("it is known", || async { engine.counters().sum(7) > sum }).await;
    // The basis is valid for the time of its heartbeat; then only the counters count.
    until("it is refused", || async { store.ensure_current(&basis).is_err() }).await;
    until("others are made", || async { store.basis().is_ok_and(|basis| store.ensure_current(&basis).is_ok()) }).await;
    assert!(store.ensure_current(&basis).is_err(), "with a beat of now");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_later_of_two_processes_with_the_same_name_continues() {
    let settings = named("a", &empty_store().await);
    let earlier = node(&settings).await;
    let later = node(&settings).await;
    until("the earlier has noticed", || async { is_stale(&earlier) }).await;
    let Err(EngineError::Stale(said)) = earlier.commit(put(b"k", b"v")).await else { panic!("it writes") };
    assert!(said.contains("cluster.node"), "{said}");
    assert!(earlier.get(b"k").await.is_err());
    commit(&later, put(b"k", b"v")).await;
    assert!(!is_stale(&later));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_removed_node_stops_and_cannot_rejoin() {
    let settings = named("a", &empty_store().await);
    let engine = node(&settings).await;
    administer(&settings_client(&settings).await, &["UPDATE node SET removed = true"]).await;
    until("it has noticed", || async { is_stale(&engine) }).await;
    assert!(engine.commit(put(b"k", b"v")).await.is_err());
    let refused = PostgresEngine::open(&settings, Arc::new(())).await.map(|_| ()).unwrap_err().to_string();
    assert!(refused.contains("was removed from the cluster"), "{refused}");
}

/// Codes and tokens expire by the clock.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_with_a_wrong_clock_refuses_requests() {
    fn late() -> f64 {
        std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs_f64() - 5.0
    }
    fn right() -> f64 {
        std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs_f64()
    }
    let settings = named("a", &empty_store().await);
    let settings = |wall_clock: fn() -> f64| PostgresSettings { wall_clock: Some(wall_clock), ..settings.clone() };
    let refused = PostgresEngine::open(&settings(late), Arc::new(())).await.map(|_| ()).unwrap_err().to_string();
    assert!(refused.contains("differs by") && refused.contains("set both by NTP"), "{refused}");
    assert!(!is_stale(&node(&settings(right)).await));
}

/// The server behaves like a primary whose standby follows another server: it answers reads, and
/// completes no write.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_without_a_standby_is_not_trusted() {
    let server = start(&[]).await;
    let settings = PostgresSettings::new(server.url("").into());
    initialise(&settings).await.unwrap();
    let engine = node(&named("a", &settings)).await;
    commit(&engine, put(b"k", b"v")).await;
    assert_eq!(engine.get(b"k").await.unwrap(), Some(b"v".to_vec()));
    let client = server.client("").await;
    administer(&client, &["ALTER SYSTEM SET synchronous_standby_names = 'none'", "SELECT pg_reload_conf()"]).await;
    until("it is not believed", || async { is_stale(&engine) }).await;
    assert!(engine.get(b"k").await.is_err() && engine.scan(b"k", None, 1).await.is_err());
    administer(&client, &["ALTER SYSTEM RESET synchronous_standby_names", "SELECT pg_reload_conf()"]).await;
    until("it is believed again", || async { !is_stale(&engine) }).await;
    assert_eq!(engine.get(b"k").await.unwrap(), Some(b"v".to_vec()));
}

/// `local` acknowledges before the standby has the data. Later connections are refused.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn synchronous_commit_is_fixed_when_a_node_connects() {
    let server = start(&[]).await;
    let settings = PostgresSettings::new(server.url("").into());
    initialise(&settings).await.unwrap();
    let engine = node(&named("a", &settings)).await;
    commit(&engine, put(b"k", b"v")).await;
    let careless = [
        "ALTER SYSTEM SET synchronous_standby_names = 'none'",
        "ALTER SYSTEM SET synchronous_commit = 'local'",
        "SELECT pg_reload_conf()",
    ];
    administer(&server.client("").await, &careless).await;
    until("it is not believed", || async { is_stale(&engine) }).await;
}

/// Increments by other nodes may have led to the same values of some counters.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_settings_are_checked_again_after_a_failover() {
    let primary = start(&[]).await;
    initialise(&PostgresSettings::new(primary.url("").into())).await.unwrap();
    let (primary, standby) = tokio::task::spawn_blocking(|| {
        let standby = primary.standby("b");
        (primary, standby)
    })
    .await
    .unwrap();
    let url = format!("postgres://sealgate@127.0.0.1:{},127.0.0.1:{}/postgres", primary.port, standby.port);
    let engine = node(&named("a", &PostgresSettings::new(url.into()))).await;
    let replicated = "SELECT count(*) FROM pg_stat_replication WHERE replay_lsn = pg_current_wal_lsn()";
    let client = primary.client("").await;
    until("the standby has the tables", || async {
        client.query_one(replicated, &[]).await.unwrap().get::<_, i64>(0) == 1
    })
    .await;
    let before = engine.counters().sum(7);
    let (_primary, _standby) = tokio::task::spawn_blocking(move || {
        let mut primary = primary;
        primary.kill();
        standby.promote();
        (primary, standby)
    })
    .await
    .unwrap();
    until("the counters have moved", || async { engine.counters().sum(7) > before }).await;
}

/// A server retains the process of a commit that waits for its standby, even if the client has
/// disconnected.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unresponsive_standby_does_not_exhaust_connections() {
    let server = start(&[]).await;
    let settings = PostgresSettings::new(server.url("").into());
    initialise(&settings).await.unwrap();
    let settings = PostgresSettings { commit_timeout: Duration::from_secs(1), ..named("a", &settings) };
    let engine = Arc::new(node(&settings).await);
    let client = server.client("").await;
    administer(&client, &["ALTER SYSTEM SET synchronous_standby_names = 'none'", "SELECT pg_reload_conf()"]).await;
    until("it is not believed", || async { is_stale(&*engine) }).await;
    for round in 0..10_u8 {
        let mut commits = tokio::task::JoinSet::new();
        for number in 0..4_u8 {
            let engine = Arc::clone(&engine);
            commits.spawn(async move { engine.commit(put(&[round, number], b"v")).await });
        }
        let ended = commits.join_all().await;
        assert!(ended.iter().all(Result::is_err), "{ended:?}");
    }
    let waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'";
    // One waiting query is the heartbeat, since the next waits for its row. The others are each
    // writer's current commit.
    let waiting: i64 = client.query_one(waiting, &[]).await.unwrap().get(0);
    assert!(waiting <= 3, "{waiting}");
    administer(&client, &["ALTER SYSTEM RESET synchronous_standby_names", "SELECT pg_reload_conf()"]).await;
    until("it is believed again", || async { !is_stale(&*engine) }).await;
    commit(&*engine, put(b"k", b"v")).await;
}
