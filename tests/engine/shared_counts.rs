//! Counts shared by nodes over one database: blocks of requests, and single guesses.

use std::sync::Arc;
use std::time::{Duration, Instant};

use sealgate_domain::pace::Pace;
use sealgate_domain::time::UnixTime;
use sealgate_store::Store;
use sealgate_store::cluster::shared_counts::{Block, BlockRequest, CountKey, SharedCounts};
use sealgate_store::engine::Engine;
use sealgate_store::memory::MemoryEngine;
use sealgate_store::postgres::{PostgresEngine, PostgresSettings, initialise};
use tokio::task::JoinSet;

use super::postgres::{administer, start, until};
use crate::node;
use crate::postgres_server::{empty_store, schema, shared, within};
use crate::relay::{Manner, Relay};

const NOW: u64 = 1_800_000_000;
const KEY: CountKey = [7; 16];
const WINDOW: Duration = Duration::from_mins(15);

fn now() -> UnixTime {
    UnixTime::from_seconds(NOW)
}

fn wanted(key: u8, ends: u64) -> BlockRequest {
    BlockRequest { key: [key; 16], ends, limit: 50, block: 3 }
}

/// Long timeouts, for a busy machine.
fn patient(settings: &PostgresSettings) -> PostgresSettings {
    PostgresSettings { count_timeout: Duration::from_secs(30), ..settings.clone() }
}

/// Returns three nodes with their counts.
async fn three(settings: &PostgresSettings) -> Vec<(PostgresEngine, Arc<dyn SharedCounts>)> {
    let mut nodes = Vec::new();
    for _ in 0..3 {
        let engine = node(&patient(settings)).await;
        let counts = engine.shared_counts().unwrap();
        nodes.push((engine, counts));
    }
    nodes
}

#[test]
fn an_engine_of_one_node_shares_nothing() {
    assert!(MemoryEngine::new().shared_counts().is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_concurrent_nodes_share_one_limit() {
    let nodes = three(&empty_store().await).await;
    let mut asked = JoinSet::new();
    for number in 0..300 {
        let counts = Arc::clone(&nodes[number % 3].1);
        asked.spawn(async move { counts.reserve(wanted(7, NOW + 60)).await.unwrap() });
    }
    let blocks = asked.join_all().await;
    assert_eq!(blocks.iter().map(|block| block.got).sum::<u32>(), 50);
    assert!(blocks.iter().all(|block| block.all <= 50 && block.got <= 3), "{blocks:?}");
    // Other windows and other keys have their own counts.
    for other in [wanted(7, NOW + 120), wanted(8, NOW + 60)] {
        assert_eq!(nodes[0].1.reserve(other).await.unwrap(), Block { all: 3, got: 3 });
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn near_the_limit_a_node_reserves_one_request_at_a_time() {
    let nodes = three(&empty_store().await).await;
    let mut got = Vec::new();
    for number in 0..20 {
        got.push(nodes[number % 3].1.reserve(wanted(7, NOW + 60)).await.unwrap().got);
    }
    assert_eq!(got[..16], [3; 16]);
    assert_eq!(got[16..], [1, 1, 0, 0]);
}

fn guess(limit: u32) -> Vec<(CountKey, Pace)> {
    vec![(KEY, Pace::even(limit, WINDOW)), ([8; 16], Pace::even(100, WINDOW))]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixty_guesses_at_three_nodes_count_the_permitted_number() {
    let settings = empty_store().await;
    let nodes = three(&settings).await;
    let mut guesses = JoinSet::new();
    for number in 0..60 {
        let counts = Arc::clone(&nodes[number % 3].1);
        guesses.spawn(async move { counts.count_guess(guess(10), now()).await.unwrap().is_ok() });
    }
    assert_eq!(guesses.join_all().await.into_iter().filter(|passed| *passed).count(), 10);
    // The rows remain when all nodes have stopped. A guess that must wait for one key is not
    // counted for the other key.
    drop(nodes);
    let engine = node(&settings).await;
    let counts = engine.shared_counts().unwrap();
    assert_eq!(counts.count_guess(guess(10), now()).await.unwrap().unwrap_err(), 1);
    let client = shared().client(&within(&schema_of(&settings))).await;
    let rows = client.query("SELECT failures FROM guess", &[]).await.unwrap();
    assert_eq!(rows.iter().map(|row| row.get::<_, i64>(0)).collect::<Vec<_>>(), [10, 10]);
}

/// Returns the schema that the options of a URL name.
fn schema_of(settings: &PostgresSettings) -> String {
    use secrecy::ExposeSecret;
    settings.url.expose_secret().rsplit("%3D").next().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_correct_password_is_uncounted_and_leaves_no_row() {
    let settings = empty_store().await;
    let nodes = three(&settings).await;
    for _ in 0..20 {
        let counted = nodes[0].1.count_guess(guess(2), now()).await.unwrap().unwrap();
        nodes[0].1.give_back(counted, now());
    }
    let client = shared().client(&within(&schema_of(&settings))).await;
    let rows = || async { client.query_one("SELECT count(*) FROM guess", &[]).await.unwrap().get::<_, i64>(0) };
    until("the last is given back", || async { rows().await == 0 }).await;
    for node in &nodes[..2] {
        let _ = node.1.count_guess(guess(2), now()).await.unwrap().unwrap();
    }
    assert_eq!(nodes[2].1.count_guess(guess(2), now()).await.unwrap().unwrap_err(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_expired_rows_are_removed() {
    let settings = empty_store().await;
    let engine = node(&patient(&settings)).await;
    let counts = engine.shared_counts().unwrap();
    let client = shared().client(&within(&schema_of(&settings))).await;
    for key in 0..200 {
        counts.reserve(wanted(key, 1_000_000)).await.unwrap();
    }
    counts.reserve(wanted(7, NOW * 2)).await.unwrap();
    let long_ago = UnixTime::from_seconds(1_000_000);
    let _ = counts.count_guess(vec![([1; 16], Pace::even(3, WINDOW))], long_ago).await.unwrap().unwrap();
    let later = UnixTime::from_seconds(NOW * 2);
    let _ = counts.count_guess(vec![([2; 16], Pace::even(3, WINDOW))], later).await.unwrap().unwrap();
    until("they are removed", || async {
        let count = "SELECT (SELECT array_agg(ends) FROM share), (SELECT array_agg(key) FROM guess)";
        let row = client.query_one(count, &[]).await.unwrap();
        let (shares, guesses): (Vec<i64>, Vec<Vec<u8>>) = (row.get(0), row.get(1));
        assert!(shares.contains(&3_600_000_000) && guesses.contains(&vec![2; 16]));
        shares.len() == 1 && guesses.len() == 1
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hanging_database_connections_are_replaced_after_a_timeout() {
    let schema = schema().await;
    let url = |port: u16| format!("postgres://sealgate@127.0.0.1:{port}/postgres{}", within(&schema));
    initialise(&PostgresSettings::new(url(shared().port).into())).await.unwrap();
    let relay = Relay::start(shared().port).await;
    let engine = node(&PostgresSettings::new(url(relay.port).into())).await;
    let counts = engine.shared_counts().unwrap();
    until("it counts", || async { counts.reserve(wanted(7, NOW)).await.is_ok() }).await;
    relay.set(Manner::HoldQuestions);
    let asked = Instant::now();
    assert!(counts.reserve(wanted(7, NOW)).await.is_err());
    // The waiting connections are dropped, and new ones are relayed.
    assert!(asked.elapsed() < Duration::from_secs(20));
    until("it counts again", || async { counts.reserve(wanted(7, NOW)).await.is_ok() }).await;
    assert!(counts.count_guess(guess(10), now()).await.is_err(), "the guesses' connection hangs still");
    until("guesses are counted again", || async { counts.count_guess(guess(100), now()).await.is_ok() }).await;
}

/// Returns connections that wait for a standby with counts. The heartbeat waits too, without a
/// transaction.
async fn waiting(client: &tokio_postgres::Client) -> Vec<i32> {
    let asked = "SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND query = 'COMMIT'";
    client.query(asked, &[]).await.unwrap().iter().map(|row| row.get(0)).collect()
}

/// An unauthenticated request waits for no standby; a guess does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_standby_requests_are_counted_and_guesses_wait() {
    let server = start(&[]).await;
    let settings = PostgresSettings::new(server.url("").into());
    initialise(&settings).await.unwrap();
    let engine = node(&patient(&settings)).await;
    let counts = engine.shared_counts().unwrap();
    let client = server.client("").await;
    administer(&client, &["ALTER SYSTEM SET synchronous_standby_names = 'none'", "SELECT pg_reload_conf()"]).await;
    // Guesses succeed until the server has applied the setting.
    let guessing = {
        let counts = Arc::clone(&counts);
        tokio::spawn(async move { while counts.count_guess(guess(1_000_000), now()).await.is_ok() {} })
    };
    until("a guess waits", || async { waiting(&client).await.len() == 1 }).await;
    for number in 0..5 {
        assert!(counts.reserve(wanted(number, NOW + 60)).await.is_ok());
    }
    assert_eq!(waiting(&client).await.len(), 1);
    // An administrator cancels the wait. The server reports success; the guess is not made, and
    // none follows.
    client.execute("SELECT pg_cancel_backend($1)", &[&waiting(&client).await[0]]).await.unwrap();
    guessing.await.unwrap();
    assert!(waiting(&client).await.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_concurrent_first_starts_use_one_seed() {
    let settings = empty_store().await;
    let store = async || Store::open(Arc::new(node(&settings).await), 0).await.unwrap();
    let (one, two) = tokio::join!(store(), store());
    let (first, second) = tokio::join!(one.limit_seed([1; 16]), two.limit_seed([2; 16]));
    let seed = first.unwrap();
    assert!([[1; 16], [2; 16]].contains(&seed));
    assert_eq!(second.unwrap(), seed);
    assert_eq!(store().await.limit_seed([3; 16]).await.unwrap(), seed);
}
