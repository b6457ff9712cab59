//! Snapshots of a store in PostgreSQL under concurrent writes, as read by an export.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use sealgate_admin as admin;
use sealgate_domain::time::UnixTime;
use sealgate_store::Store;
use sealgate_store::engine::{Changes, Engine, EngineError, Outcome};
use sealgate_store::postgres::{NewPostgresStore, PostgresFault, PostgresSettings, initialise, snapshot};

use super::postgres::{administer, await_nobody, start, until, waiting};
use crate::postgres_server::empty_store;
use crate::{absent, commit, delete, node, put};

const HERE: &str = "https://id.example.test";
const NOW: UnixTime = UnixTime::from_seconds(1_800_000_000);
const LATER: UnixTime = UnixTime::from_seconds(2_000_000_000);

/// Returns all records with this prefix, read in pages.
async fn pages(engine: &dyn Engine, prefix: &[u8]) -> Vec<Vec<u8>> {
    let mut found = Vec::<Vec<u8>>::new();
    loop {
        let page = engine.scan(prefix, found.last().map(Vec::as_slice), 50).await.unwrap();
        if page.is_empty() {
            return found;
        }
        found.extend(page.into_iter().map(|(key, _)| key));
    }
}

/// Returns a pair of records at both ends of the table. Without a snapshot, pages would show one
/// record without its counterpart.
fn pair(number: u32) -> Changes {
    let key = |end: &[u8]| (([end, &number.to_be_bytes()].concat()), b"v".to_vec());
    Changes { put: vec![key(b"a"), key(b"z")], ..Changes::default() }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_snapshot_is_consistent_during_commits() {
    let settings = empty_store().await;
    let engine = Arc::new(node(&settings).await);
    for number in 0..1000 {
        commit(&*engine, pair(number)).await;
    }
    let stop = Arc::new(AtomicBool::new(false));
    let writer = {
        let (engine, stop) = (Arc::clone(&engine), Arc::clone(&stop));
        tokio::spawn(async move {
            let mut number = 1000;
            while !stop.load(Ordering::SeqCst) {
                commit(&*engine, pair(number)).await;
                // Remove the oldest.
                let gone = pair(number - 1000).put.into_iter().map(|(key, _)| key).collect();
                commit(&*engine, Changes { delete: gone, ..Changes::default() }).await;
                number += 1;
            }
            number
        })
    };
    for _ in 0..5 {
        let snapshot = snapshot(&settings).await.unwrap();
        let first = pages(&*snapshot, b"a").await;
        let seen = first.len();
        until("others have committed", || async {
            let after = engine.scan(b"a", first.last().map(Vec::as_slice), 10).await.unwrap();
            after.len() == 10
        })
        .await;
        let last = pages(&*snapshot, b"z").await;
        let numbers = |keys: &[Vec<u8>]| keys.iter().map(|key| key[1..].to_vec()).collect::<Vec<_>>();
        assert!(seen >= 1000);
        assert!(numbers(&first) == numbers(&last), "{seen} and {}", last.len());
        assert!(pages(&*snapshot, b"a").await == first);
    }
    stop.store(true, Ordering::SeqCst);
    assert!(writer.await.unwrap() > 1050);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_snapshot_refuses_commits_and_blocks_no_writer() {
    let settings = empty_store().await;
    let engine = node(&settings).await;
    commit(&engine, put(b"k", b"v")).await;
    let snapshot = snapshot(&settings).await.unwrap();
    for changes in [put(b"k", b"w"), delete(b"k"), Changes { expect: vec![absent(b"l")], ..put(b"l", b"v") }] {
        let refused = snapshot.commit(changes).await;
        assert!(matches!(refused, Err(EngineError::Unwritable(_) | EngineError::Unavailable(_))), "{refused:?}");
    }
    assert_eq!(commit(&engine, put(b"k", b"w")).await, Outcome::Committed);
    assert_eq!(engine.get(b"k").await.unwrap().as_deref(), Some(&b"w"[..]));
}

/// A served store is exported and imported into another store.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_export_of_a_served_store_is_consistent() {
    let settings = empty_store().await;
    let served = Arc::new(Store::open(Arc::new(node(&settings).await), 10).await.unwrap());
    for number in 0..300 {
        served.revoke_token(&format!("token {number}"), LATER).await.unwrap();
    }
    let stop = Arc::new(AtomicBool::new(false));
    let revoking = {
        let (served, stop) = (Arc::clone(&served), Arc::clone(&stop));
        tokio::spawn(async move {
            let mut number = 300;
            while !stop.load(Ordering::SeqCst) {
                served.revoke_token(&format!("token {number}"), LATER).await.unwrap();
                number += 1;
            }
        })
    };
    let moment = snapshot(&settings).await.unwrap();
    let mut file = Vec::new();
    let store = Store::open_for_export(Arc::clone(&moment)).await.unwrap();
    let records = admin::export(&store, HERE, NOW, &mut file).await.unwrap();
    stop.store(true, Ordering::SeqCst);
    revoking.await.unwrap();
    // A token and its expiry entry.
    assert!(records >= 600 && records % 2 == 0, "{records}");

    let there = empty_store().await;
    let new = NewPostgresStore::begin(&there).await.unwrap();
    let store = Store::open(new.engine(), 10).await.unwrap();
    assert_eq!(admin::import(&store, HERE, &mut file.as_slice()).await.unwrap(), records);
    drop(store);
    new.finish().await.unwrap();
    let all = |engine: Arc<dyn Engine>| async move { engine.scan(b"", None, 100_000).await.unwrap() };
    assert!(all(Arc::new(node(&there).await)).await == all(moment).await);
    // Nodes continue there.
    let moved = Store::open(Arc::new(node(&there).await), 10).await.unwrap();
    assert!(moved.is_token_revoked("token 299").await.unwrap());
}

/// A replaced primary answers reads with outdated data.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_without_an_answering_standby_serves_no_snapshot() {
    let server = start(&[]).await;
    let settings = PostgresSettings::new(server.url("").into());
    initialise(&settings).await.unwrap();
    let client = server.client("").await;
    await_nobody(&server, &client).await;
    let asked = {
        let settings = settings.clone();
        tokio::spawn(async move { snapshot(&settings).await.map(drop) })
    };
    until("it waits", || async { waiting(&client).await.len() == 1 }).await;
    assert!(!asked.is_finished());
    let pid = waiting(&client).await[0];
    client.execute("SELECT pg_cancel_backend($1)", &[&pid]).await.unwrap();
    let refused = asked.await.unwrap();
    assert!(matches!(&refused, Err(PostgresFault::Unreachable(cause)) if cause.contains("standby")), "{refused:?}");
    administer(&client, &["ALTER SYSTEM RESET synchronous_standby_names", "SELECT pg_reload_conf()"]).await;
    until("it answers", || async { snapshot(&settings).await.is_ok() }).await;
}
