//! Stores that an older program wrote: brought over whole, whatever stops it on the way, or left as they were.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use sealgate::admin::{self, ExportError};
use sealgate::domain::secret::SecretHash;
use sealgate::domain::time::UnixTime;
use sealgate::store::engine::{Changes, Counters, Engine, EngineError, Key, MAX_VALUE_BYTES, Outcome, Value};
use sealgate::store::memory::MemoryEngine;
use sealgate::store::migration::{MigrationStep, STEPS, migrate};
use sealgate::store::{Store, StoreError, Table};
use serde_json::{Value as Json, json};

use crate::{BARRIERS, Place};

const NOW: UnixTime = UnixTime::from_seconds(1_800_000_000);
/// The key of what a store says about its version.
const FORMAT: &[u8] = b"mformat";
const HERE: &str = "https://id.example.test";

/// Two tables change, one of them twice, and the second change needs the first.
const CHAIN: &[MigrationStep] = &[
    MigrationStep { table: Table::Grant, change: split_the_name },
    MigrationStep { table: Table::Client, change: |record| set(record, "colour", json!("red")) },
    MigrationStep { table: Table::Grant, change: greet },
];

fn set(record: &mut Json, name: &str, value: Json) -> Result<(), &'static str> {
    record.as_object_mut().ok_or("it is not an object")?.insert(name.to_owned(), value);
    Ok(())
}

fn split_the_name(record: &mut Json) -> Result<(), &'static str> {
    let object = record.as_object_mut().ok_or("it is not an object")?;
    let name = object.remove("name").ok_or("it has no name")?;
    let (first, last) = name.as_str().and_then(|name| name.split_once(' ')).ok_or("its name has no two parts")?;
    object.insert("first".to_owned(), first.into());
    object.insert("last".to_owned(), last.into());
    Ok(())
}

fn greet(record: &mut Json) -> Result<(), &'static str> {
    let greeting = format!("hello {}", record["first"].as_str().ok_or("it has no first name")?);
    set(record, "greeting", greeting.into())
}

type Rows = Vec<(Key, Value)>;

fn record(version: u8, json: &Json) -> Value {
    [&[version][..], json.to_string().as_bytes()].concat()
}

fn grant(number: usize) -> Key {
    [&b"g"[..], SecretHash::of(&number.to_be_bytes()).as_bytes()].concat()
}

/// A store of version 1 with so many grants and clients, and some records of tables that stay.
fn old_rows(many: usize) -> Rows {
    let mut rows = vec![(FORMAT.to_vec(), record(1, &json!(1)))];
    for number in 0..many {
        rows.push((grant(number), record(1, &json!({ "name": format!("Anna N{number}") }))));
        rows.push((format!("lclient{number}").into_bytes(), record(1, &json!({ "id": number }))));
        rows.push(([&b"xu"[..], &grant(number)].concat(), Vec::new()));
    }
    rows.push((b"uperson".to_vec(), record(1, &json!({ "name": "nobody's business" }))));
    rows
}

async fn fill(engine: &dyn Engine, rows: Rows) {
    for rows in rows.chunks(64) {
        let changes = Changes { put: rows.to_vec(), ..Changes::default() };
        assert_eq!(engine.commit(changes).await.unwrap(), Outcome::Committed);
    }
}

async fn rows(engine: &dyn Engine) -> Rows {
    engine.scan(b"", None, usize::MAX).await.unwrap()
}

async fn run(engine: &dyn Engine, steps: &[MigrationStep]) -> Result<usize, StoreError> {
    migrate(engine, steps, &|| ()).await
}

async fn old(many: usize) -> MemoryEngine {
    let engine = MemoryEngine::new();
    fill(&engine, old_rows(many)).await;
    engine
}

/// An engine whose process is killed at one commit: before it, or after it and before the answer. From then on nothing
/// works.
struct Killed {
    engine: Arc<MemoryEngine>,
    left: AtomicUsize,
    applies_the_last: bool,
}

impl Killed {
    fn dead() -> EngineError {
        EngineError::Unavailable("the process was killed".to_owned())
    }
}

#[async_trait]
impl Engine for Killed {
    async fn get(&self, key: &[u8]) -> Result<Option<Value>, EngineError> {
        self.engine.get(key).await
    }

    async fn scan(&self, prefix: &[u8], after: Option<&[u8]>, limit: usize) -> Result<Rows, EngineError> {
        self.engine.scan(prefix, after, limit).await
    }

    async fn commit(&self, changes: Changes) -> Result<Outcome, EngineError> {
        let left = self.left.load(Ordering::SeqCst);
        if left > 0 {
            self.left.store(left - 1, Ordering::SeqCst);
            return self.engine.commit(changes).await;
        }
        if self.applies_the_last {
            self.engine.commit(changes).await?;
        }
        Err(Self::dead())
    }

    fn counters(&self) -> &Counters {
        self.engine.counters()
    }

    async fn ping(&self) -> Result<(), EngineError> {
        Ok(())
    }
}

/// An engine that remembers how large each commit was.
struct Weighed {
    engine: MemoryEngine,
    commits: Mutex<Vec<(usize, usize)>>,
}

#[async_trait]
impl Engine for Weighed {
    async fn get(&self, key: &[u8]) -> Result<Option<Value>, EngineError> {
        self.engine.get(key).await
    }

    async fn scan(&self, prefix: &[u8], after: Option<&[u8]>, limit: usize) -> Result<Rows, EngineError> {
        self.engine.scan(prefix, after, limit).await
    }

    async fn commit(&self, changes: Changes) -> Result<Outcome, EngineError> {
        let bytes = changes.put.iter().map(|(_, value)| value.len()).sum();
        self.commits.lock().unwrap().push((changes.put.len(), bytes));
        self.engine.commit(changes).await
    }

    fn counters(&self) -> &Counters {
        self.engine.counters()
    }

    async fn ping(&self) -> Result<(), EngineError> {
        Ok(())
    }
}

#[tokio::test]
async fn each_record_gets_the_steps_of_its_table_in_their_order() {
    let engine = old(3).await;
    assert_eq!(run(&engine, CHAIN).await.unwrap(), 6);
    let expected = json!({ "first": "Anna", "last": "N2", "greeting": "hello Anna" });
    assert_eq!(engine.get(&grant(2)).await.unwrap().unwrap(), record(4, &expected));
    let client = engine.get(b"lclient1").await.unwrap().unwrap();
    assert_eq!(client, record(4, &json!({ "id": 1, "colour": "red" })));
    // What has not changed is not written again.
    let person = engine.get(b"uperson").await.unwrap().unwrap();
    assert_eq!(person, record(1, &json!({ "name": "nobody's business" })));
    assert_eq!(engine.get(FORMAT).await.unwrap().unwrap(), b"\x014");
    assert_eq!(rows(&engine).await.len(), old_rows(3).len(), "no cursor and no other record stays behind");
    let migrated = rows(&engine).await;
    assert_eq!(run(&engine, CHAIN).await.unwrap(), 0);
    assert_eq!(rows(&engine).await, migrated);
}

#[tokio::test]
async fn killed_at_any_commit_it_ends_the_same() {
    let whole = old(200).await;
    let migrated = run(&whole, CHAIN).await.unwrap();
    let expected = rows(&whole).await;
    for applies_the_last in [false, true] {
        let mut kills = 0;
        loop {
            let engine = Arc::new(old(200).await);
            let killed = Killed { engine: engine.clone(), left: kills.into(), applies_the_last };
            if run(&killed, CHAIN).await.is_ok() {
                break;
            }
            // An older program must not take a half for a store of its own.
            let begun = engine.get(FORMAT).await.unwrap().unwrap() != record(1, &json!(1));
            assert_eq!(begun, kills > 0 || applies_the_last);
            if begun {
                assert!(matches!(run(&*engine, &CHAIN[..2]).await, Err(StoreError::Newer { found: 4, known: 3 })));
            }
            let rest = run(&*engine, CHAIN).await.unwrap();
            assert!(rest <= migrated);
            assert_eq!(rows(&*engine).await, expected, "killed at commit {kills}");
            kills += 1;
        }
        // The beginning, four batches a table, the end.
        assert_eq!(kills, 10);
    }
}

#[tokio::test]
async fn killed_again_and_again_it_goes_on_where_it_was() {
    let whole = old(300).await;
    run(&whole, CHAIN).await.unwrap();
    let engine = Arc::new(old(300).await);
    let mut starts = 0;
    let last = loop {
        starts += 1;
        let killed = Killed { engine: engine.clone(), left: 1.into(), applies_the_last: true };
        match run(&killed, CHAIN).await {
            Ok(rest) => break rest,
            Err(error) => assert!(error.to_string().contains("was killed"), "{error}"),
        }
    };
    assert_eq!(rows(&*engine).await, rows(&whole).await);
    // Two commits a start: were a start to begin anew, it would never end.
    assert!(starts <= 8 && last < 600, "{starts} starts, {last} records in the last");
}

#[tokio::test]
async fn a_newer_program_finishes_what_an_older_one_had_begun() {
    for kill in 0..8 {
        let engine = Arc::new(old(200).await);
        let killed = Killed { engine: engine.clone(), left: kill.into(), applies_the_last: false };
        assert!(run(&killed, &CHAIN[..2]).await.is_err(), "{kill}");
        run(&*engine, CHAIN).await.unwrap();
        let whole = old(200).await;
        run(&whole, CHAIN).await.unwrap();
        // A client that the older program had finished already lacks no step, and stays.
        let json = |rows: Rows| rows.into_iter().map(|(key, value)| (key, value.get(1..).unwrap_or_default().to_vec()));
        let got: Vec<_> = json(rows(&*engine).await).collect();
        assert_eq!(got, json(rows(&whole).await).collect::<Vec<_>>(), "killed at commit {kill}");
    }
}

#[tokio::test]
async fn one_record_that_cannot_be_brought_over_leaves_all_as_it_was() {
    let secret = "geheim-4711";
    let large = "x".repeat(MAX_VALUE_BYTES - 20);
    let wrong = [
        (grant(7), record(1, &json!({ "name": secret })), "its name has no two parts"),
        (grant(7), record(1, &json!([secret])), "it is not an object"),
        (grant(7), b"\x01{\"name\": \"geheim-4711 ".to_vec(), "it is not JSON"),
        (grant(7), Vec::new(), "it is empty"),
        (grant(7), record(9, &json!({})), "its version is not known"),
        (b"lclient7".to_vec(), record(1, &json!({ "i": large })), "it would become too large"),
    ];
    for (key, bytes, reason) in wrong {
        let engine = old(200).await;
        fill(&engine, vec![(key.clone(), bytes)]).await;
        let before = rows(&engine).await;
        let error = run(&engine, CHAIN).await.unwrap_err();
        let StoreError::Unmigratable { table, .. } = &error else { panic!("{error}") };
        assert_eq!(*table, if key.starts_with(b"g") { "grant" } else { "client" });
        let line = error.to_string();
        let hash = SecretHash::of(&key);
        let hash = sealgate::domain::secret::base64url(&hash.as_bytes()[..12]);
        assert!(line.contains(reason) && line.contains(&format!("key {hash}")), "{line}");
        assert!(!line.contains(secret) && !line.contains('\n'), "{line}");
        assert!(rows(&engine).await == before, "something was changed: {reason}");
    }
}

#[tokio::test]
async fn batches_are_bounded_in_number_and_in_bytes() {
    let engine = Weighed { engine: old(500).await, commits: Mutex::default() };
    let long =
        |number: usize| (grant(9_000 + number), record(1, &json!({ "name": format!("A {}", "x".repeat(200_000)) })));
    fill(&engine.engine, (0..20).map(long).collect()).await;
    let watched = AtomicUsize::new(0);
    let watch = || {
        watched.fetch_add(1, Ordering::SeqCst);
    };
    migrate(&engine, CHAIN, &watch).await.unwrap();
    let commits = engine.commits.lock().unwrap().clone();
    // One more than the records: the cursor.
    assert!(commits.iter().all(|&(records, bytes)| records <= 65 && bytes < (1 << 20)), "{commits:?}");
    assert!(watched.load(Ordering::SeqCst) >= 2 * (commits.len() - 2), "each batch is told, tried and written");
}

#[tokio::test]
async fn a_newer_store_is_refused_and_stays() {
    let engine = Arc::new(old(3).await);
    fill(&*engine, vec![(FORMAT.to_vec(), record(1, &json!(200)))]).await;
    let before = rows(&*engine).await;
    let known = u32::try_from(STEPS.len()).unwrap() + 1;
    for refused in [Store::open(engine.clone(), 10).await, Store::open_for_export(engine.clone()).await] {
        let error = refused.map(|_| ()).unwrap_err();
        assert!(matches!(error, StoreError::Newer { found: 200, known: now } if now == known), "{error}");
    }
    assert_eq!(rows(&*engine).await, before);
}

#[tokio::test]
async fn records_without_a_version_of_the_store_are_refused() {
    let engine = MemoryEngine::new();
    fill(&engine, vec![(b"uperson".to_vec(), record(1, &json!({})))]).await;
    let error = run(&engine, CHAIN).await.unwrap_err();
    assert!(error.to_string().contains("does not say its version"), "{error}");
    fill(&engine, vec![(FORMAT.to_vec(), b"\x01nonsense".to_vec())]).await;
    let error = run(&engine, CHAIN).await.unwrap_err();
    assert!(error.to_string().contains("cannot be read"), "{error}");
}

/// A sign-in that the gate of the first version has started, as it wrote it.
fn first_attempt() -> (Key, Value) {
    let (browser, state) = (hash("browser"), hash("state"));
    let key = [&b"t"[..], &browser.as_bytes()[..16], &state.as_bytes()[..16]].concat();
    let attempt = json!({
        "browser": browser,
        "app": "wiki",
        "wanted": "/pages/7",
        "verifier": "v".repeat(43),
        "expires_at": NOW.seconds() + 600,
    });
    (key, record(1, &attempt))
}

fn hash(text: &str) -> SecretHash {
    SecretHash::of(text.as_bytes())
}

/// A store of the first version: what this program writes, in that version, and a sign-in as it was then.
async fn first_version(engine: Arc<dyn Engine>) {
    let store = Store::open(engine.clone(), 10).await.unwrap();
    store.revoke_token("a token", NOW).await.unwrap();
    let mut rows = rows(&*engine).await;
    for (key, value) in &mut rows {
        if key == FORMAT {
            *value = record(1, &json!(1));
        } else if let Some(version) = value.first_mut() {
            *version = 1;
        }
    }
    rows.push(first_attempt());
    fill(&*engine, rows).await;
}

async fn check_first_version(store: &Store) {
    let attempt = store.attempt(&hash("browser"), &hash("state")).await.unwrap().unwrap().value;
    assert_eq!((attempt.wanted.as_str(), attempt.acr.len()), ("/pages/7", 0));
    assert!(store.is_token_revoked("a token").await.unwrap());
}

#[tokio::test]
async fn a_store_of_the_first_version_opens_and_serves_what_it_holds() {
    let engine = Arc::new(MemoryEngine::new());
    first_version(engine.clone()).await;
    let store = Store::open(engine.clone(), 10).await.unwrap();
    check_first_version(&store).await;
    assert_eq!(store.open_interactions(), 1);
}

#[tokio::test]
async fn a_store_of_the_first_version_on_a_disk_opens_too() {
    let _shared = BARRIERS.read().await;
    let place = Place::new();
    let engine = Arc::new(place.open());
    first_version(engine.clone()).await;
    engine.close();
    drop(engine);
    check_first_version(&Store::open(Arc::new(place.open()), 10).await.unwrap()).await;
    // Once more, from what the migration left on the disk.
    check_first_version(&Store::open(Arc::new(place.open()), 10).await.unwrap()).await;
}

#[tokio::test]
async fn an_export_of_the_first_version_goes_through_the_same_steps() {
    let engine = Arc::new(MemoryEngine::new());
    first_version(engine.clone()).await;
    let before = rows(&*engine).await;
    let mut file = Vec::new();
    let old = Store::open_for_export(engine.clone()).await.unwrap();
    admin::export(&old, HERE, NOW, &mut file).await.unwrap();
    assert_eq!(rows(&*engine).await, before, "an export changes nothing");
    let text = String::from_utf8(file).unwrap();
    assert!(text.contains("\"version\":1") && !text.contains("\"acr\""), "{text}");

    let new = Store::open(Arc::new(MemoryEngine::new()), 10).await.unwrap();
    admin::import(&new, HERE, &mut text.as_bytes()).await.unwrap();
    check_first_version(&new).await;
}

#[tokio::test]
async fn an_export_with_a_record_that_cannot_be_brought_over_is_refused() {
    let engine = Arc::new(MemoryEngine::new());
    first_version(engine.clone()).await;
    fill(&*engine, vec![(first_attempt().0, record(1, &json!("nothing")))]).await;
    let mut file = Vec::new();
    admin::export(&Store::open_for_export(engine).await.unwrap(), HERE, NOW, &mut file).await.unwrap();
    let new = Store::open(Arc::new(MemoryEngine::new()), 10).await.unwrap();
    let error = admin::import(&new, HERE, &mut file.as_slice()).await.unwrap_err();
    assert!(matches!(&error, ExportError::Store(StoreError::Broken(_))), "{error}");
    assert!(error.to_string().contains("sign_in_attempt: it is not an object"), "{error}");
}
