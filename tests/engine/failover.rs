//! Servers that fail under load and return: every acknowledged commit is stored exactly once.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use sealgate_store::engine::{Changes, Engine, EngineError, Outcome};
use sealgate_store::postgres::{PostgresEngine, PostgresSettings, initialise};

use super::postgres::{administer, start, until};
use crate::postgres_server::PostgresServer;
use crate::{absent, commit, node, put, value};

/// Commits of one task: records 0 to `acknowledged`, each with its predecessor's number in `n`.
struct Chain {
    task: u8,
    acknowledged: Vec<u32>,
    unknown: usize,
}

fn link_key(task: u8, number: u32) -> Vec<u8> {
    [&[b'r', task], &number.to_be_bytes()[..]].concat()
}

/// Commits one link of a chain after another.
///
/// Each commit expects that its own link is absent and that the counter has the previous value. A
/// lost or duplicate commit breaks the chain.
async fn forge(engine: Arc<dyn Engine>, task: u8, stop: Arc<AtomicBool>) -> Chain {
    let counter = [b'n', task];
    let (mut chain, mut count) = (Chain { task, acknowledged: Vec::new(), unknown: 0 }, 0_u32);
    let mut is_sure = true;
    while !stop.load(Ordering::SeqCst) {
        let expected = if count == 0 { absent(&counter) } else { value(&counter, &count.to_be_bytes()) };
        let changes = Changes {
            expect: vec![expected, absent(&link_key(task, count))],
            put: vec![
                (counter.to_vec(), (count + 1).to_be_bytes().to_vec()),
                (link_key(task, count), count.to_be_bytes().to_vec()),
            ],
            ..Changes::default()
        };
        match engine.commit(changes).await {
            Ok(Outcome::Committed) => {
                chain.acknowledged.push(count);
                count += 1;
                is_sure = true;
            }
            Ok(Outcome::Conflict) if is_sure => panic!("link {count} of task {task} met itself"),
            outcome => {
                chain.unknown += usize::from(outcome.is_err());
                is_sure = false;
                let Ok(stored) = engine.get(&counter).await else { continue };
                count = stored.map_or(0, |stored| u32::from_be_bytes(stored.try_into().unwrap()));
            }
        }
    }
    chain
}

struct Load {
    stop: Arc<AtomicBool>,
    tasks: tokio::task::JoinSet<Chain>,
}

impl Load {
    fn start(nodes: &[Arc<PostgresEngine>]) -> Self {
        let (stop, mut tasks) = (Arc::<AtomicBool>::default(), tokio::task::JoinSet::new());
        for (node, task) in nodes.iter().cycle().zip(0..24) {
            tasks.spawn(forge(Arc::<PostgresEngine>::clone(node), task, Arc::clone(&stop)));
        }
        Self { stop, tasks }
    }

    /// Ends it and compares the acknowledged commits with `engine`. Returns the numbers of
    /// acknowledged and unknown ones.
    async fn end(self, engine: &dyn Engine) -> (usize, usize) {
        self.stop.store(true, Ordering::SeqCst);
        let (mut acknowledged, mut unknown) = (0, 0);
        for chain in self.tasks.join_all().await {
            let stored = engine.scan(&[b'r', chain.task], None, usize::MAX).await.unwrap();
            for number in &chain.acknowledged {
                let link = (link_key(chain.task, *number), number.to_be_bytes().to_vec());
                assert!(stored.binary_search(&link).is_ok(), "link {number} of task {} was lost", chain.task);
            }
            let count = engine
                .get(&[b'n', chain.task])
                .await
                .unwrap()
                .map_or(0, |count| u32::from_be_bytes(count.try_into().unwrap()));
            assert_eq!(stored.len(), count as usize, "task {}", chain.task);
            assert!(stored.len() <= chain.acknowledged.len() + chain.unknown, "task {}", chain.task);
            acknowledged += chain.acknowledged.len();
            unknown += chain.unknown;
        }
        (acknowledged, unknown)
    }
}

/// Waits until more is committed than now.
async fn goes_on(engine: &dyn Engine) {
    let count = async || {
        let counters = engine.scan(b"n", None, usize::MAX).await.unwrap_or_default();
        counters
            .iter()
            .map(|(_, count)| u64::from(u32::from_be_bytes(count.as_slice().try_into().unwrap())))
            .sum::<u64>()
    };
    let before = count().await;
    until("commits go on", || async { count().await > before + 100 }).await;
}

/// Returns the random delay of each round.
fn rounds() -> impl Iterator<Item = Duration> {
    let rounds = std::env::var("FAULT_ROUNDS").map_or(1, |rounds| rounds.parse().unwrap());
    let random = RandomState::new().hash_one(0);
    (0..rounds).map(move |round| Duration::from_millis((random.wrapping_mul(round + 1) >> 32) % 300))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes servers away again and again: make test-cluster"]
async fn a_killed_and_restarted_database_loses_and_repeats_nothing() {
    let mut server = start(&[]).await;
    let settings = PostgresSettings::new(server.url("").into());
    initialise(&settings).await.unwrap();
    let nodes = [Arc::new(node(&settings).await), Arc::new(node(&settings).await)];
    let load = Load::start(&nodes);
    for pause in rounds() {
        goes_on(&*nodes[0]).await;
        tokio::time::sleep(pause).await;
        server = tokio::task::spawn_blocking(move || {
            server.kill();
            server.start_again();
            server
        })
        .await
        .unwrap();
    }
    goes_on(&*nodes[0]).await;
    let (acknowledged, unknown) = load.end(&*nodes[1]).await;
    println!("{acknowledged} commits were acknowledged, {unknown} were not");
    assert!(acknowledged > 100);
}

/// Returns settings with both servers in one URL.
fn both(first: &PostgresServer, second: &PostgresServer) -> PostgresSettings {
    let url = format!("postgres://sealgate@127.0.0.1:{},127.0.0.1:{}/postgres", first.port, second.port);
    PostgresSettings::new(url.into())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes servers away again and again: make test-cluster"]
async fn a_failover_under_load_loses_nothing_and_the_old_primary_is_not_trusted() {
    for pause in rounds() {
        let (acknowledged, unknown) = fail_over(pause, PostgresServer::kill, PostgresServer::start_again).await;
        println!("after {pause:?}: {acknowledged} commits were acknowledged, {unknown} were not");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes servers away again and again: make test-cluster"]
async fn a_hanging_primary_is_replaced_by_the_promoted_one() {
    for pause in rounds() {
        let (acknowledged, unknown) = fail_over(pause, |primary| primary.hang(), |primary| primary.resume()).await;
        println!("after {pause:?}: {acknowledged} commits were acknowledged, {unknown} were not");
    }
}

/// Kills the primary under load and promotes its standby; then restarts the old primary.
///
/// Returns the numbers of acknowledged and unacknowledged commits.
async fn fail_over(
    pause: Duration,
    fall: fn(&mut PostgresServer),
    come_back: fn(&mut PostgresServer),
) -> (usize, usize) {
    let primary = start(&[]).await;
    initialise(&PostgresSettings::new(primary.url("").into())).await.unwrap();
    let (mut primary, standby) = tokio::task::spawn_blocking(|| {
        let standby = primary.standby("b");
        (primary, standby)
    })
    .await
    .unwrap();
    let client = primary.client("").await;
    let wait = "ALTER SYSTEM SET synchronous_standby_names = 'FIRST 1 (b)'";
    administer(&client, &[wait, "SELECT pg_reload_conf()"]).await;
    until("the standby is waited for", || async {
        let states = "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'";
        client.query_one(states, &[]).await.unwrap().get::<_, i64>(0) == 1
    })
    .await;
    let settings = both(&primary, &standby);
    let nodes = [Arc::new(node(&settings).await), Arc::new(node(&settings).await)];
    let load = Load::start(&nodes);
    goes_on(&*nodes[0]).await;
    tokio::time::sleep(pause).await;
    let (mut primary, standby) = tokio::task::spawn_blocking(move || {
        fall(&mut primary);
        standby.promote();
        (primary, standby)
    })
    .await
    .unwrap();
    goes_on(&*nodes[0]).await;
    commit(&*nodes[0], put(b"marker", b"1")).await;
    // The old primary is unaware of the new one, accepts reads and writes, and is first in the URL.
    primary = tokio::task::spawn_blocking(move || {
        come_back(&mut primary);
        primary
    })
    .await
    .unwrap();
    // Either may answer first.
    for _ in 0..8 {
        assert_eq!(node(&settings).await.get(b"marker").await.unwrap(), Some(b"1".to_vec()));
    }
    let fresh = node(&settings).await;
    // Nodes with broken connections do not use it either.
    let client = standby.client("").await;
    let end = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = 'sealgate'";
    assert!(client.query_one(end, &[]).await.unwrap().get::<_, i64>(0) > 0);
    for _ in 0..100 {
        for node in [&*nodes[0], &*nodes[1], &fresh] {
            assert_eq!(node.get(b"marker").await.unwrap(), Some(b"1".to_vec()));
        }
    }
    goes_on(&fresh).await;
    let (acknowledged, unknown) = load.end(&fresh).await;
    assert!(acknowledged > 200);
    // A node that has read from the new primary does not fall back to the old one, even if no other
    // server is left.
    let standby = tokio::task::spawn_blocking(move || {
        let mut standby = standby;
        standby.kill();
        standby
    })
    .await
    .unwrap();
    for node in [&*nodes[0], &*nodes[1], &fresh] {
        assert!(matches!(node.get(b"marker").await, Err(EngineError::Unavailable(_))));
    }
    drop((primary, standby));
    (acknowledged, unknown)
}
