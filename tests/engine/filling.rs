//! Import into a new store: complete or absent.

use std::sync::Arc;
use std::time::Duration;

use sealgate_store::engine::{Changes, Engine, EngineError, Outcome};
use sealgate_store::postgres::{NewPostgresStore, NewStoreFault, PostgresSettings, initialise, snapshot};
use sealgate_store::sled;
use tokio_postgres::Client;

use super::postgres::{administer, await_nobody, start, until, waiting};
use crate::postgres_server::{PATIENT, empty_store, schema, shared, within};
use crate::relay::{Manner, Relay};
use crate::{BARRIERS, Place, absent, commit, node, put, store, value};

/// Target of an import.
enum Site {
    Sled(Place),
    Postgres(PostgresSettings),
}

enum New {
    Sled(sled::NewStore, Arc<sled::SledEngine>),
    Postgres(NewPostgresStore),
}

impl Site {
    async fn begin(&self) -> Result<New, String> {
        match self {
            Self::Sled(place) => {
                let new = sled::NewStore::begin(&store(&place.path(), 1024)).map_err(|fault| fault.to_string())?;
                let options = sled::Options { discard: true, ..sled::Options::default() };
                let engine = sled::SledEngine::open_with(new.settings(), options, Arc::new(())).unwrap();
                Ok(New::Sled(new, Arc::new(engine)))
            }
            Self::Postgres(settings) => {
                NewPostgresStore::begin(settings).await.map(New::Postgres).map_err(|fault| fault.to_string())
            }
        }
    }

    async fn open(&self) -> Arc<dyn Engine> {
        match self {
            Self::Sled(place) => Arc::new(place.open()),
            Self::Postgres(settings) => Arc::new(node(settings).await),
        }
    }
}

impl New {
    fn engine(&self) -> Arc<dyn Engine> {
        match self {
            Self::Sled(_, engine) => Arc::clone(engine) as _,
            Self::Postgres(new) => new.engine(),
        }
    }

    async fn finish(self) {
        match self {
            Self::Sled(new, engine) => {
                engine.close();
                drop(engine);
                new.finish().unwrap();
            }
            Self::Postgres(new) => new.finish().await.unwrap(),
        }
    }
}

macro_rules! every_site {
    ($($test:ident)*) => {
        mod sled_site {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $test() {
                let _shared = super::BARRIERS.read().await;
                super::$test(super::Site::Sled(super::Place::new())).await;
            })*
        }
        mod postgres_site {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $test() {
                super::$test(super::Site::Postgres(super::empty_store().await)).await;
            })*
        }
    };
}

every_site! {
    a_new_store_is_there_whole_once_it_is_finished
    nothing_stays_of_a_new_store_that_breaks_off
    a_store_with_records_is_not_laid_down_anew
    a_second_import_into_the_same_place_is_refused
}

fn record(number: u32) -> (Vec<u8>, Vec<u8>) {
    ([b"r", &number.to_be_bytes()[..]].concat(), format!("{number:>0$}", 1 + number as usize % 700).into_bytes())
}

/// Writes these records like an import.
async fn fill(engine: &dyn Engine, numbers: std::ops::Range<u32>) {
    let records: Vec<_> = numbers.map(record).collect();
    for step in records.chunks(64) {
        let expect = step.iter().map(|(key, _)| absent(key)).collect();
        let changes = Changes { expect, put: step.to_vec(), ..Changes::default() };
        assert_eq!(commit(engine, changes).await, Outcome::Committed);
    }
}

async fn stored(engine: &dyn Engine) -> Vec<(Vec<u8>, Vec<u8>)> {
    engine.scan(b"", None, 1_000_000).await.unwrap()
}

async fn a_new_store_is_there_whole_once_it_is_finished(site: Site) {
    let new = site.begin().await.unwrap();
    fill(&*new.engine(), 0..1000).await;
    commit(&*new.engine(), put(b"a", b"replaced")).await;
    commit(&*new.engine(), Changes { expect: vec![value(b"a", b"replaced")], ..put(b"a", b"1") }).await;
    commit(&*new.engine(), Changes { delete: vec![record(7).0], ..Changes::default() }).await;
    new.finish().await;
    let engine = site.open().await;
    let numbers = (0..1000).filter(|number| *number != 7).map(record);
    let expected: Vec<_> = [(b"a".to_vec(), b"1".to_vec())].into_iter().chain(numbers).collect();
    assert!(stored(&*engine).await == expected);
    commit(&*engine, put(b"later", b"v")).await;
    assert_eq!(engine.get(b"later").await.unwrap().as_deref(), Some(&b"v"[..]));
}

async fn nothing_stays_of_a_new_store_that_breaks_off(site: Site) {
    let new = site.begin().await.unwrap();
    fill(&*new.engine(), 0..200).await;
    drop(new);
    // The same target accepts the next import.
    let mut again = site.begin().await;
    while let Err(fault) = &again {
        assert!(fault.contains("in use"), "{fault}");
        again = site.begin().await;
    }
    drop(again);
    let engine = site.open().await;
    assert_eq!(stored(&*engine).await, []);
}

async fn a_store_with_records_is_not_laid_down_anew(site: Site) {
    let engine = site.open().await;
    commit(&*engine, put(b"k", b"v")).await;
    drop(engine);
    let refused = site.begin().await.err().unwrap();
    assert!(refused.contains("not empty") || refused.contains("already has a store"), "{refused}");
    let engine = site.open().await;
    assert_eq!(stored(&*engine).await, [(b"k".to_vec(), b"v".to_vec())]);
}

async fn a_second_import_into_the_same_place_is_refused(site: Site) {
    let new = site.begin().await.unwrap();
    fill(&*new.engine(), 0..100).await;
    let refused = site.begin().await.err().unwrap();
    assert!(refused.contains("in use") || refused.contains("another process"), "{refused}");
    new.finish().await;
    let refused = site.begin().await.err().unwrap();
    assert!(refused.contains("not empty") || refused.contains("already has a store"), "{refused}");
    assert_eq!(stored(&*site.open().await).await.len(), 100);
}

/// Counts the connections that wait for a lock on a table in this schema.
async fn waiting_for(client: &Client, schema: &str) -> i64 {
    let count = "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = ($1 || '.record')::regclass";
    client.query_one(count, &[&schema]).await.unwrap().get(0)
}

/// Returns settings of a store in a schema, and of the same through a relay.
async fn relayed() -> (String, PostgresSettings, Relay, PostgresSettings) {
    let schema = schema().await;
    let settings = |port: u16| {
        let url = format!("postgres://sealgate@127.0.0.1:{port}/postgres{}", within(&schema));
        PostgresSettings { staleness: PATIENT, ..PostgresSettings::new(url.into()) }
    };
    let straight = settings(shared().port);
    initialise(&straight).await.unwrap();
    let relay = Relay::start(shared().port).await;
    let through = settings(relay.port);
    (schema, straight, relay, through)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_during_an_import_sees_the_imported_records() {
    let (schema, settings, ..) = relayed().await;
    let engine = Arc::new(node(&settings).await);
    let client = shared().client("").await;
    let new = NewPostgresStore::begin(&settings).await.unwrap();
    fill(&*new.engine(), 0..100).await;
    assert_eq!(stored(&*engine).await, [], "who reads does not wait, and sees nothing of it");
    let begin = |changes: Changes| {
        let engine = Arc::clone(&engine);
        tokio::spawn(async move { engine.commit(changes).await })
    };
    let (key, bytes) = record(3);
    let taken = begin(Changes { expect: vec![absent(&key)], ..put(&key, b"theirs") });
    until("it waits", || async { waiting_for(&client, &schema).await == 1 }).await;
    let free = begin(Changes { expect: vec![absent(b"free")], ..put(b"free", b"theirs") });
    new.finish().await.unwrap();
    assert_eq!(taken.await.unwrap().unwrap(), Outcome::Conflict);
    assert_eq!(free.await.unwrap().unwrap(), Outcome::Committed);
    assert_eq!(engine.get(&key).await.unwrap(), Some(bytes));
    assert_eq!(stored(&*engine).await.len(), 101);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_starts_during_an_import_serves_the_imported_records() {
    let (schema, settings, ..) = relayed().await;
    let client = shared().client("").await;
    let new = NewPostgresStore::begin(&settings).await.unwrap();
    fill(&*new.engine(), 0..100).await;
    let starting = tokio::spawn(async move { node(&settings).await });
    until("it waits", || async { waiting_for(&client, &schema).await == 1 }).await;
    new.finish().await.unwrap();
    let engine = starting.await.unwrap();
    assert_eq!(stored(&engine).await.len(), 100);
    assert_eq!(commit(&engine, put(b"k", b"v")).await, Outcome::Committed);
}

/// The table was empty when the import began, and no longer when the import got the lock.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_earlier_commit_prevents_an_import() {
    let (schema, settings, ..) = relayed().await;
    let mut client = shared().client(&within(&schema)).await;
    let other = shared().client("").await;
    let writing = client.transaction().await.unwrap();
    writing.execute("INSERT INTO record VALUES ('k', 'v')", &[]).await.unwrap();
    let begun = tokio::spawn(async move { NewPostgresStore::begin(&settings).await.map(drop) });
    until("it waits", || async { waiting_for(&other, &schema).await == 1 }).await;
    writing.commit().await.unwrap();
    assert!(matches!(begun.await.unwrap(), Err(NewStoreFault::Occupied)));
}

/// After concurrent checks for an empty table, only one may write.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_imports_create_one_store() {
    let settings = empty_store().await;
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..8_u8 {
        let settings = settings.clone();
        tasks.spawn(async move {
            let new = NewPostgresStore::begin(&settings).await?;
            commit(&*new.engine(), put(b"k", &[number])).await;
            commit(&*new.engine(), put(&[number], b"own")).await;
            new.finish().await.map(|()| number)
        });
    }
    let (mut laid_down, mut refused) = (Vec::new(), 0);
    for ended in tasks.join_all().await {
        match ended {
            Ok(number) => laid_down.push(number),
            Err(NewStoreFault::Occupied | NewStoreFault::InUse) => refused += 1,
            Err(fault) => panic!("{fault}"),
        }
    }
    assert_eq!((laid_down.len(), refused), (1, 7));
    let found = stored(&node(&settings).await).await;
    assert_eq!(found, [(laid_down.clone(), b"own".to_vec()), (b"k".to_vec(), laid_down)]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_thousand_records_are_imported() {
    let settings = empty_store().await;
    let new = NewPostgresStore::begin(&settings).await.unwrap();
    fill(&*new.engine(), 0..100_000).await;
    new.finish().await.unwrap();
    let engine = node(&settings).await;
    let (mut count, mut after) = (0, None::<Vec<u8>>);
    loop {
        let page = engine.scan(b"", after.as_deref(), 4096).await.unwrap();
        let Some((last, _)) = page.last() else { break };
        after = Some(last.clone());
        for found in page {
            assert!(found == record(count));
            count += 1;
        }
    }
    assert_eq!(count, 100_000);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_lost_during_an_import_leaves_an_empty_store() {
    let (_, straight, relay, through) = relayed().await;
    let new = NewPostgresStore::begin(&through).await.unwrap();
    fill(&*new.engine(), 0..1000).await;
    relay.cut();
    until("it is cut", || async {
        matches!(new.engine().commit(put(b"k", b"v")).await, Err(EngineError::Unavailable(_)))
    })
    .await;
    assert!(matches!(new.engine().get(&record(1).0).await, Err(EngineError::Unavailable(_))));
    assert!(matches!(new.finish().await, Err(NewStoreFault::NotKept(_))));
    until("the server knows", || async { NewPostgresStore::begin(&straight).await.is_ok() }).await;
    assert_eq!(stored(&node(&straight).await).await, []);
}

/// The role of the servers, which cannot create tables.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_role_without_create_can_import_and_read_a_snapshot() {
    let (schema, ..) = relayed().await;
    let client = shared().client(&within(&schema)).await;
    let (role, tables) = (format!("server_{schema}"), format!("ALL TABLES IN SCHEMA {schema}"));
    administer(
        &client,
        &[
            &format!("CREATE ROLE {role} LOGIN"),
            &format!("GRANT USAGE ON SCHEMA {schema} TO {role}"),
            &format!("GRANT SELECT, INSERT, UPDATE, DELETE ON {tables} TO {role}"),
        ],
    )
    .await;
    let url = shared().url(&within(&schema)).replace("sealgate@", &format!("{role}@"));
    let settings = PostgresSettings::new(url.into());
    let new = NewPostgresStore::begin(&settings).await.unwrap();
    fill(&*new.engine(), 0..100).await;
    new.finish().await.unwrap();
    assert_eq!(stored(&*snapshot(&settings).await.unwrap()).await.len(), 100);
}

/// A refused write makes the commit fail too: a server answers the commit of a failed transaction
/// like success.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_import_with_a_refused_record_is_discarded() {
    let (schema, settings, ..) = relayed().await;
    let client = shared().client(&within(&schema)).await;
    administer(&client, &["ALTER TABLE record ADD CHECK (value <> 'wrong')"]).await;
    let new = NewPostgresStore::begin(&settings).await.unwrap();
    commit(&*new.engine(), put(b"a", b"right")).await;
    assert!(new.engine().commit(put(b"b", b"wrong")).await.is_err());
    assert!(matches!(new.finish().await, Err(NewStoreFault::NotKept(_))));
    assert_eq!(stored(&node(&settings).await).await, []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_import_whose_last_answer_is_lost_is_complete() {
    let (_, straight, relay, through) = relayed().await;
    let node = node(&straight).await;
    let new = NewPostgresStore::begin(&through).await.unwrap();
    fill(&*new.engine(), 0..100).await;
    let engine = new.engine();
    relay.set(Manner::SwallowAnswers);
    let ending = tokio::spawn(new.finish());
    until("it is there", || async { stored(&node).await.len() == 100 }).await;
    relay.cut();
    ending.await.unwrap().unwrap();
    assert_eq!(stored(&node).await.len(), 100);
    assert!(engine.commit(put(b"k", b"v")).await.is_err(), "its engine works no more");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_import_with_an_unknown_result_reports_it() {
    let (schema, straight, relay, through) = relayed().await;
    let node = node(&straight).await;
    let impatient = PostgresSettings { commit_timeout: Duration::from_millis(100), ..through };
    let new = NewPostgresStore::begin(&impatient).await.unwrap();
    fill(&*new.engine(), 0..100).await;
    relay.set(Manner::SwallowAnswers);
    let ending = tokio::spawn(new.finish());
    until("it is there", || async { stored(&node).await.len() == 100 }).await;
    let mut client = shared().client(&within(&schema)).await;
    let locked = client.transaction().await.unwrap();
    locked.batch_execute("LOCK TABLE batch").await.unwrap();
    relay.cut();
    let fault = ending.await.unwrap().unwrap_err();
    assert!(matches!(fault, NewStoreFault::Unknown), "{fault}");
    assert!(fault.to_string().contains("repeat the import when the database answers"), "{fault}");
    locked.rollback().await.unwrap();
    // As the error states: if the store exists, the import is refused.
    assert!(matches!(NewPostgresStore::begin(&straight).await, Err(NewStoreFault::Occupied)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_import_that_commits_too_late_is_discarded() {
    let (_, straight, relay, through) = relayed().await;
    let node = node(&straight).await;
    let new = NewPostgresStore::begin(&through).await.unwrap();
    fill(&*new.engine(), 0..100).await;
    relay.set(Manner::HoldQuestions);
    let ending = tokio::spawn(new.finish());
    until("it is on its way", || async { relay.stopped() > 0 }).await;
    relay.cut();
    assert!(matches!(ending.await.unwrap(), Err(NewStoreFault::NotKept(_))));
    assert_eq!(stored(&node).await, []);
    assert!(matches!(NewPostgresStore::begin(&straight).await, Err(NewStoreFault::InUse)), "its end may still come");
    relay.set(Manner::Carry);
    until("the late end has come", || async { NewPostgresStore::begin(&straight).await.is_ok() }).await;
    assert_eq!(stored(&node).await, []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_crash_during_an_import_leaves_an_empty_store() {
    let mut server = start(&[]).await;
    let settings = PostgresSettings::new(server.url("").into());
    initialise(&settings).await.unwrap();
    let new = NewPostgresStore::begin(&settings).await.unwrap();
    fill(&*new.engine(), 0..5000).await;
    server.client("").await.batch_execute("CHECKPOINT").await.unwrap();
    fill(&*new.engine(), 5000..5100).await;
    let _server = tokio::task::spawn_blocking(move || {
        server.kill();
        server.start_again();
        server
    })
    .await
    .unwrap();
    assert!(matches!(new.finish().await, Err(NewStoreFault::NotKept(_))));
    let again = NewPostgresStore::begin(&settings).await.unwrap();
    fill(&*again.engine(), 0..100).await;
    again.finish().await.unwrap();
    assert_eq!(stored(&node(&settings).await).await.len(), 100);
}

/// A server that reports success for data that no standby has.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancelled_wait_for_the_standby_imports_nothing() {
    let server = start(&[]).await;
    let settings = PostgresSettings::new(server.url("").into());
    initialise(&settings).await.unwrap();
    let client = server.client("").await;
    await_nobody(&server, &client).await;
    let new = NewPostgresStore::begin(&settings).await.unwrap();
    fill(&*new.engine(), 0..100).await;
    let ending = tokio::spawn(new.finish());
    until("it waits", || async { waiting(&client).await.len() == 1 }).await;
    let first = waiting(&client).await[0];
    client.execute("SELECT pg_cancel_backend($1)", &[&first]).await.unwrap();
    until("it waits again", || async { waiting(&client).await.iter().any(|pid| *pid != first) }).await;
    assert!(!ending.is_finished());
    administer(&client, &["ALTER SYSTEM RESET synchronous_standby_names", "SELECT pg_reload_conf()"]).await;
    ending.await.unwrap().unwrap();
    assert_eq!(stored(&node(&settings).await).await.len(), 100);
}
