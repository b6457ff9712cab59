//! Formats of a store shared by nodes of two versions: which nodes enter, and when the format is
//! raised.

use std::sync::Arc;
use std::time::{Duration, Instant};

use sealgate_store::engine::{Engine, EngineError, FormatRule};
use sealgate_store::postgres::{
    FormatRaise, NewPostgresStore, PostgresEngine, PostgresFault, PostgresSettings, initialise, raise_format,
};
use sealgate_store::{FormatRange, Store};
use secrecy::ExposeSecret;
use tokio_postgres::{Client, NoTls};

use super::postgres::{administer, until};
use crate::postgres_server::empty_store;
use crate::{commit, put};

const KEY: &[u8] = b"mformat";
/// The current program, and the next one.
const OLDER: FormatRange = FormatRange { from: 7, to: 7 };
const NEWER: FormatRange = FormatRange { from: 7, to: 8 };

fn of(name: &str, formats: FormatRange, settings: &PostgresSettings) -> PostgresSettings {
    PostgresSettings { node: Some(name.to_owned()), formats, ..settings.clone() }
}

async fn node(name: &str, formats: FormatRange, settings: &PostgresSettings) -> Arc<PostgresEngine> {
    Arc::new(PostgresEngine::open(&of(name, formats, settings), Arc::new(())).await.unwrap())
}

async fn refusal(settings: &PostgresSettings) -> String {
    PostgresEngine::open(settings, Arc::new(())).await.map(|_| ()).unwrap_err().to_string()
}

async fn client(settings: &PostgresSettings) -> Client {
    let (client, connection) = tokio_postgres::connect(settings.url.expose_secret(), NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

async fn said(settings: &PostgresSettings) -> Option<Vec<u8>> {
    let row = client(settings).await.query_opt("SELECT value FROM record WHERE key = $1", &[&KEY]).await.unwrap();
    row.map(|row| row.get(0))
}

/// Creates a store with the current program.
async fn begun() -> PostgresSettings {
    let settings = empty_store().await;
    let engine = node("first", OLDER, &settings).await;
    Store::open(engine.clone(), 10).await.unwrap();
    engine.close();
    administer(&client(&settings).await, &["DELETE FROM node"]).await;
    settings
}

async fn raise(settings: &PostgresSettings) -> FormatRaise {
    raise_format(&PostgresSettings { formats: NEWER, ..settings.clone() }).await.unwrap()
}

fn names(raise: &FormatRaise) -> Vec<&str> {
    raise.holding.iter().map(|node| node.name.as_str()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_empty_store_gets_the_format_that_all_nodes_read() {
    for (beside, begins) in [(None, b"\x018"), (Some(OLDER), b"\x017"), (Some(NEWER), b"\x018")] {
        let settings = empty_store().await;
        if let Some(beside) = beside {
            node("older", beside, &settings).await;
        }
        let engine = node("newer", NEWER, &settings).await;
        assert_eq!((said(&settings).await, engine.format()), (None, FormatRule::Shared(None)));
        Store::open_for_export(engine.clone()).await.unwrap();
        assert_eq!(said(&settings).await, None, "who only reads begins nothing");
        engine.begin_format().await.unwrap();
        assert_eq!(said(&settings).await.as_deref(), Some(&begins[..]));
        let format = u32::from(begins[1] - b'0');
        assert_eq!(engine.format(), FormatRule::Shared(Some(format)), "known at once");
        // A second node keeps it.
        engine.begin_format().await.unwrap();
        assert_eq!(said(&settings).await.as_deref(), Some(&begins[..]));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_import_gets_the_format_that_the_cluster_reads() {
    let settings = empty_store().await;
    node("older", OLDER, &settings).await.close();
    let newer = PostgresSettings { formats: NEWER, ..settings.clone() };
    let new = NewPostgresStore::begin(&newer).await.unwrap();
    let store = Store::open(new.engine(), 10).await.unwrap();
    assert_eq!(new.engine().format(), FormatRule::Shared(Some(7)));
    drop(store);
    new.finish().await.unwrap();
    assert_eq!(said(&settings).await.as_deref(), Some(&b"\x017"[..]));
    // Without other nodes, the import uses the newest format of the program.
    let settings = empty_store().await;
    let newer = PostgresSettings { formats: NEWER, ..settings.clone() };
    let new = NewPostgresStore::begin(&newer).await.unwrap();
    Store::open(new.engine(), 10).await.unwrap();
    new.finish().await.unwrap();
    assert_eq!(said(&settings).await.as_deref(), Some(&b"\x018"[..]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_version_that_does_not_support_the_format_cannot_join() {
    let settings = begun().await;
    let client = client(&settings).await;
    for (found, refused) in [
        (
            "\\x0138",
            "the store has format 8, and this version reads up to 7; use the version of sealgate that wrote it, or a newer one",
        ),
        ("\\x0136", "the store has format 6, and this version serves 7 to 7 in a cluster"),
        ("\\x0178", "the format version of the store in the database cannot be read"),
    ] {
        administer(&client, &[&format!("UPDATE record SET value = '{found}'::bytea WHERE key = 'mformat'")]).await;
        let line = refusal(&of("a", OLDER, &settings)).await;
        assert!(line.contains(refused), "{line}");
        // Nor does a command, which is not a node.
        let line = refusal(&PostgresSettings { formats: OLDER, ..settings.clone() }).await;
        assert!(line.contains(refused), "{line}");
    }
    let nodes: i64 = client.query_one("SELECT count(*) FROM node", &[]).await.unwrap().get(0);
    assert_eq!(nodes, 0, "one that is refused holds nothing up");
    administer(&client, &["UPDATE record SET value = '\\x0138'::bytea WHERE key = 'mformat'"]).await;
    node("a", NEWER, &settings).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_stops_at_a_format_that_it_does_not_read() {
    let settings = begun().await;
    let (older, newer) = (node("older", OLDER, &settings).await, node("newer", NEWER, &settings).await);
    let client = client(&settings).await;
    administer(&client, &["UPDATE record SET value = '\\x0138'::bytea WHERE key = 'mformat'"]).await;
    until("it has stopped", || async { older.current().is_err() }).await;
    let Err(EngineError::Stale(said)) = older.commit(put(b"k", b"v")).await else { panic!("it writes") };
    assert!(said.contains("the store has format 8, and this version reads up to 7"), "{said}");
    assert!(older.get(b"k").await.is_err());
    until("the newer one knows it", || async { newer.format() == FormatRule::Shared(Some(8)) }).await;
    commit(&*newer, put(b"k", b"v")).await;
    newer.current().unwrap();
    // The database is in the state after a failover that has lost the change.
    administer(&client, &["UPDATE record SET value = '\\x0137'::bytea WHERE key = 'mformat'"]).await;
    until("it goes on", || async { older.current().is_ok() }).await;
    assert_eq!(older.get(b"k").await.unwrap(), Some(b"v".to_vec()));
    until("so does the newer one", || async { newer.format() == FormatRule::Shared(Some(7)) }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_format_is_raised_when_all_nodes_read_the_next_one() {
    let settings = begun().await;
    let (older, _newer) = (node("older", OLDER, &settings).await, node("newer", NEWER, &settings).await);
    let refused = raise(&settings).await;
    assert_eq!((refused.from, refused.to, refused.newest, names(&refused)), (7, 7, 8, vec!["older"]));
    assert_eq!(said(&settings).await.as_deref(), Some(&b"\x017"[..]));
    older.close();
    // A node that was away for a while finds a format that it reads.
    let client = client(&settings).await;
    administer(&client, &["UPDATE node SET seen = now() - interval '23 hours' WHERE name = 'older'"]).await;
    assert_eq!(names(&raise(&settings).await), ["older"]);
    // A newer program now uses the name of the older node.
    let again = node("older", NEWER, &settings).await;
    let raised = raise(&settings).await;
    assert_eq!((raised.from, raised.to, names(&raised)), (7, 8, vec![]));
    assert_eq!(said(&settings).await.as_deref(), Some(&b"\x018"[..]));
    let repeated = raise(&settings).await;
    assert_eq!((repeated.from, repeated.to), (8, 8));
    again.close();
    assert!(refusal(&of("older", OLDER, &settings)).await.contains("this version reads up to 7"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn removed_and_long_absent_nodes_do_not_block_an_upgrade() {
    for gone in ["removed = true", "seen = now() - interval '25 hours'"] {
        let settings = begun().await;
        node("older", OLDER, &settings).await.close();
        assert_eq!(raise(&settings).await.to, 7, "{gone}");
        administer(&client(&settings).await, &[&format!("UPDATE node SET {gone}")]).await;
        assert_eq!(raise(&settings).await.to, 8, "{gone}");
    }
}

/// Counts the connections that wait for a lock.
async fn waiting(client: &Client) -> i64 {
    let words = "SELECT count(*) FROM pg_locks WHERE NOT granted AND pid IN (SELECT pid FROM pg_stat_activity \
         WHERE application_name = 'sealgate') AND (locktype = 'advisory' OR relation IN ('node'::regclass, 'record'::regclass))";
    client.query_one(words, &[]).await.unwrap().get(0)
}

/// Raises the format while an older node enters and a table is locked.
///
/// The first of them waits between its read and its write. Exactly one succeeds.
async fn race(lock: &str, node_first: bool) {
    let settings = begun().await;
    let (holder, watcher) = (client(&settings).await, client(&settings).await);
    holder.batch_execute(&format!("BEGIN; LOCK TABLE {lock} IN SHARE MODE")).await.unwrap();
    let raise = || {
        let settings = PostgresSettings { formats: NEWER, ..settings.clone() };
        tokio::spawn(async move {
            // The upgrade gives up after two seconds, as on a busy machine.
            loop {
                match raise_format(&settings).await {
                    Err(PostgresFault::Unreachable(_)) => {}
                    ended => return ended.unwrap(),
                }
            }
        })
    };
    let enter = || {
        let older = of("older", OLDER, &settings);
        tokio::spawn(async move { PostgresEngine::open(&older, Arc::new(())).await })
    };
    let early = node_first.then(enter);
    let raising = if node_first {
        until("a node is about to enter", || async { waiting(&watcher).await >= 1 }).await;
        raise()
    } else {
        let raising = raise();
        until("it is about to rise", || async { waiting(&watcher).await >= 1 }).await;
        raising
    };
    let entering = early.unwrap_or_else(enter);
    // Or it does not wait, which is an error.
    let is_late = || async { waiting(&watcher).await >= 2 || raising.is_finished() || entering.is_finished() };
    until("the other waits", || async { is_late().await || is_in(&watcher).await }).await;
    holder.batch_execute("COMMIT").await.unwrap();
    let (entered, raised) = (entering.await.unwrap(), raising.await.unwrap());
    let stored = said(&settings).await.unwrap();
    match entered {
        Ok(_) => assert_eq!((raised.to, names(&raised), &stored[..]), (7, vec!["older"], &b"\x017"[..])),
        Err(fault) => {
            assert!(fault.to_string().contains("this version reads up to 7"), "{fault}");
            assert_eq!((raised.to, &stored[..], is_in(&watcher).await), (8, &b"\x018"[..], false));
        }
    }
}

async fn is_in(client: &Client) -> bool {
    client.query_one("SELECT count(*) FROM node", &[]).await.unwrap().get::<_, i64>(0) > 0
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_format_is_not_raised_while_an_older_node_enters() {
    race("node", true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_older_node_does_not_enter_while_the_format_is_raised() {
    race("record", false).await;
}

const FIRST_REVISION: &[&str] =
    &["ALTER TABLE node DROP COLUMN reads_from, DROP COLUMN reads_to", "ALTER TABLE store DROP COLUMN revision"];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tables_of_an_older_version_are_refused_until_they_are_upgraded() {
    let settings = begun().await;
    commit(&*node("a", OLDER, &settings).await, put(b"k", b"v")).await;
    let client = client(&settings).await;
    let id = || async { client.query_one("SELECT id::text FROM store", &[]).await.unwrap().get::<_, String>(0) };
    let before = id().await;
    administer(&client, FIRST_REVISION).await;
    let refused = refusal(&of("a", OLDER, &settings)).await;
    assert!(refused.contains("run this version's `sealgate store init`"), "{refused}");
    let (one, other) = tokio::join!(initialise(&settings), initialise(&settings));
    one.unwrap();
    other.unwrap();
    assert_eq!(id().await, before);
    let row = client.query_one("SELECT reads_from, reads_to FROM node", &[]).await.unwrap();
    assert_eq!((row.get::<_, i32>(0), row.get::<_, i32>(1)), (7, 7), "who did not say it served one");
    let engine = node("a", OLDER, &settings).await;
    assert_eq!(engine.get(b"k").await.unwrap(), Some(b"v".to_vec()));
    engine.close();
    // A newer version's additions do not affect this one.
    administer(&client, &["UPDATE store SET revision = 99", "ALTER TABLE node ADD COLUMN later text"]).await;
    initialise(&settings).await.unwrap();
    let revision: i32 = client.query_one("SELECT revision FROM store", &[]).await.unwrap().get(0);
    assert_eq!(revision, 99);
    node("a", OLDER, &settings).await;
}

/// A statement that waits for a table lock blocks all later ones.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tables_are_upgraded_without_blocking_nodes() {
    let settings = begun().await;
    let (holder, beating) = (client(&settings).await, client(&settings).await);
    administer(&beating, FIRST_REVISION).await;
    administer(&beating, &["INSERT INTO node (name, incarnation, version) VALUES ('a', 1, '0.0.9')"]).await;
    holder.batch_execute("BEGIN; SELECT FROM node").await.unwrap();
    let adding = tokio::spawn({
        let settings = settings.clone();
        async move { initialise(&settings).await }
    });
    let watcher = client(&settings).await;
    until("it waits", || async { waiting(&watcher).await > 0 }).await;
    let mut longest = Duration::ZERO;
    for _ in 0..40 {
        let began = Instant::now();
        beating.execute("UPDATE node SET seen = clock_timestamp()", &[]).await.unwrap();
        longest = longest.max(began.elapsed());
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
    assert!(longest < Duration::from_millis(800), "a beat took {longest:?}");
    assert!(!adding.is_finished());
    holder.batch_execute("COMMIT").await.unwrap();
    adding.await.unwrap().unwrap();
    node("b", OLDER, &settings).await;
}
