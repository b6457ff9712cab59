//! Records of older programs, from exports: read as stored, converted when they change, and
//! protected from older programs.

use std::sync::Arc;

use sealgate_admin as admin;
use sealgate_domain::grant::EndReason;
use sealgate_domain::secret::{SecretHash, base64url, from_base64url};
use sealgate_domain::session::{Session, SessionId, SignIn};
use sealgate_domain::time::UnixTime;
use sealgate_domain::user::Subject;
use sealgate_domain::username::Username;
use sealgate_store::engine::{Changes, Engine, Key, Value};
use sealgate_store::memory::MemoryEngine;
use sealgate_store::{Committed, ExportRecord, Store, StoreError, Table};
use serde_json::{Value as Json, json};

use crate::{BARRIERS, Place, put};

/// Version of this program's records.
const VERSION: u8 = 7;
/// A store of each older format.
const STORES: [(u8, &str); 6] = [
    (1, include_str!("versions/1.ndjson")),
    (2, include_str!("versions/2.ndjson")),
    (3, include_str!("versions/3.ndjson")),
    (4, include_str!("versions/4.ndjson")),
    (5, include_str!("versions/5.ndjson")),
    (6, include_str!("versions/6.ndjson")),
];
/// Key of a store's format record.
const FORMAT: &[u8] = b"mformat";
const HERE: &str = "https://id.example.test";
const NOW: UnixTime = UnixTime::from_seconds(1_800_000_000);
/// After all expiries.
const FAR: UnixTime = UnixTime::from_seconds(2_000_000_000);

type Rows = Vec<(Key, Value)>;

fn records(format: u8) -> impl Iterator<Item = ExportRecord> {
    let (_, text) = STORES.into_iter().find(|(known, _)| *known == format).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap())
}

fn row(record: &ExportRecord) -> (Key, Value) {
    let table = Table::from_name(&record.table).unwrap() as u8;
    let key = [&[table], &from_base64url(&record.key).unwrap()[..]].concat();
    let value = record.version.map(|version| written(version, record.value.as_ref().unwrap()));
    (key, value.unwrap_or_default())
}

fn written(version: u8, json: &Json) -> Value {
    [&[version][..], json.to_string().as_bytes()].concat()
}

async fn fill(engine: &dyn Engine, format: u8) {
    let put = records(format).map(|record| row(&record)).collect();
    crate::commit(engine, Changes { put, ..Changes::default() }).await;
}

async fn older(format: u8) -> (Store, Arc<MemoryEngine>) {
    let engine = Arc::new(MemoryEngine::new());
    fill(&*engine, format).await;
    (Store::open(engine.clone(), 99).await.unwrap(), engine)
}

async fn rows(engine: &dyn Engine) -> Rows {
    engine.scan(b"", None, usize::MAX).await.unwrap()
}

fn anna() -> Subject {
    Subject::parse("01010101-0101-4101-8101-010101010101").unwrap()
}

/// Returns the session of each store, which has had two cookies.
fn session() -> SessionId {
    SessionId::parse("3Z_u45f7Xabc9RocvN5TAA").unwrap()
}

/// Returns the context classes of a pending sign-in at the gateway.
///
/// The key of the record consists of half the hash of the cookie and half the hash of the state.
/// The file has the whole key.
async fn acr(engine: &dyn Engine) -> Json {
    let key = from_base64url("Ggjy3km__SwAJPoLrUhHTMUOtYlxW1KJBacxooiNQzg").unwrap();
    let value = engine.get(&[b"t", &key[..]].concat()).await.unwrap().unwrap();
    serde_json::from_slice::<Json>(&value[1..]).unwrap()["acr"].clone()
}

#[tokio::test]
async fn opening_an_older_store_writes_its_format_and_nothing_else() {
    for (format, _) in STORES {
        let engine = Arc::new(MemoryEngine::new());
        fill(&*engine, format).await;
        let before = rows(&*engine).await;
        Store::open_for_export(engine.clone()).await.unwrap();
        assert_eq!(rows(&*engine).await, before, "a reader writes nothing");
        Store::open(engine.clone(), 99).await.unwrap();
        let mut expected = before;
        let said = expected.iter_mut().find(|(key, _)| key == FORMAT).unwrap();
        said.1 = written(1, &json!(VERSION));
        assert_eq!(rows(&*engine).await, expected, "format {format}");
    }
}

#[tokio::test]
async fn every_record_of_every_version_is_read_and_moves_to_another_store() {
    for (format, _) in STORES {
        let (store, _) = older(format).await;
        let mut file = Vec::new();
        admin::export(&store, HERE, NOW, &mut file).await.unwrap();
        let text = String::from_utf8(file.clone()).unwrap();
        assert!(
            text.contains("\"version\":") && !text.contains("\"version\":7"),
            "an export changes no record: {text}"
        );

        let engine = Arc::new(MemoryEngine::new());
        let new = Store::open(engine.clone(), 99).await.unwrap();
        admin::import(&new, HERE, &mut file.as_slice()).await.unwrap();
        let imported = rows(&*engine).await;
        for record in records(format) {
            let (key, value) = row(&record);
            let kept = imported.iter().find(|(known, _)| *known == key);
            if key != FORMAT && !value.is_empty() {
                assert_eq!(kept.unwrap().1.first(), Some(&VERSION), "{record:?}");
            }
        }
    }
}

#[tokio::test]
async fn each_format_step_preserves_the_meaning_of_a_record() {
    // A sign-in of the first version has no context class.
    let (_, engine) = older(1).await;
    assert_eq!(acr(&*engine).await, Json::Null);
    for (format, _) in STORES {
        let expected = if format == 1 { json!([]) } else { json!(["gold"]) };
        let (store, _) = older(format).await;
        let moved = Arc::new(MemoryEngine::new());
        let new = Store::open(moved.clone(), 99).await.unwrap();
        let mut position = sealgate_store::Position::default();
        while let Some((records, next)) = store.export(&position).await.unwrap() {
            new.import(&records).await.unwrap();
            position = next;
        }
        assert_eq!(acr(&*moved).await, expected, "format {format}");

        // A replaced cookie without its sign-in is invalid.
        let session = store.session(session()).await.unwrap().unwrap().value;
        assert_eq!(session.previous.is_some(), format >= 3, "format {format}");
        // The time of the password step is the time of the sign-in.
        let signed_in = NOW.plus(std::time::Duration::from_secs(301));
        assert_eq!(session.sign_ins, [SignIn::by_password(anna(), signed_in)], "format {format}");
        assert!(store.user(anna()).await.unwrap().unwrap().email_verified);
        let named = store.user_by_username(&Username::parse("anna").unwrap()).await.unwrap();
        assert_eq!(named.is_some(), format >= 4);
    }
}

#[tokio::test]
async fn an_older_record_is_converted_only_when_it_changes() {
    for (format, _) in STORES {
        let (store, engine) = older(format).await;
        let before = rows(&*engine).await;
        let loaded = store.session(session()).await.unwrap().unwrap();
        let other = store.session(session()).await.unwrap().unwrap();
        let next = Session { last_seen_at: NOW.plus(std::time::Duration::from_mins(9)), ..loaded.value.clone() };
        assert_eq!(store.update_session(&loaded, &next).await.unwrap(), Committed::Yes);
        // The loser of the race decided on the older bytes, and must decide again.
        assert_eq!(store.update_session(&other, &next).await.unwrap(), Committed::Conflict);
        assert_eq!(store.session(session()).await.unwrap().unwrap().value, next);

        let key = [b"s", &session().as_bytes()[..]].concat();
        let (changed, kept): (Rows, Rows) = rows(&*engine).await.into_iter().partition(|(row, _)| *row == key);
        let [(_, value)] = &changed[..] else { panic!("{changed:?}") };
        assert!(value[0] == VERSION && !String::from_utf8_lossy(value).contains("previous_cookie"));
        assert_eq!(kept, before.into_iter().filter(|(row, _)| *row != key).collect::<Rows>());
    }
}

#[tokio::test]
async fn dependents_of_an_older_record_are_found() {
    for (format, _) in STORES {
        let (store, engine) = older(format).await;
        let ben = Subject::parse("02020202-0202-4202-8202-020202020202").unwrap();
        let standing = |subject| store.access_counter(subject);
        let before = (standing(anna()), standing(ben));
        assert!(store.end_session(session()).await.unwrap());
        // Only cached decisions about this user are invalidated.
        assert_eq!((standing(anna()), standing(ben)), (before.0 + 1, before.1));
        store.end_grants_of_user(anna(), EndReason::Administrator, NOW).await.unwrap();
        assert_eq!(standing(ben), before.1);
        let id = session();
        let left: Rows = rows(&*engine).await.into_iter().filter(|(key, _)| key.ends_with(id.as_bytes())).collect();
        assert!(left.iter().all(|(key, _)| key[0] == b'e'), "an index leads to a session that is gone: {left:?}");
    }
}

#[tokio::test]
async fn the_sweeper_and_a_restore_read_older_records() {
    for (format, _) in STORES {
        let (store, engine) = older(format).await;
        while store.sweep(FAR, 7).await.unwrap().more {}
        for (key, _) in rows(&*engine).await {
            assert!(
                !b"acdegiorst".contains(&key[0]) || key == FORMAT,
                "{:?} is left of format {format}",
                key[0] as char
            );
        }
        assert_eq!(store.open_interactions(), 0);

        let (store, engine) = older(format).await;
        let restored = store.take_back_after_restore(NOW).await.unwrap();
        let count = |table: &str| records(format).filter(|record| record.table == table).count();
        assert_eq!((restored.codes, restored.sessions), (count("code"), count("session")));
        assert!(rows(&*engine).await.iter().all(|(key, _)| !b"acist".contains(&key[0])));
    }
}

#[tokio::test]
async fn an_older_store_on_disk_is_opened_without_conversion() {
    let _shared = BARRIERS.read().await;
    for (format, _) in STORES {
        let place = Place::new();
        let engine = Arc::new(place.open());
        fill(&*engine, format).await;
        engine.close();
        drop(engine);
        for _ in 0..2 {
            let engine = Arc::new(place.open());
            let store = Store::open(engine.clone(), 99).await.unwrap();
            assert_eq!(store.session(session()).await.unwrap().unwrap().value.id, session());
            let older = rows(&*engine).await.into_iter().filter(|(_, value)| !value.is_empty());
            assert!(older.into_iter().all(|(_, value)| value[0] <= format), "a record was rewritten");
            engine.close();
        }
    }
}

#[tokio::test]
async fn a_newer_store_is_refused_and_unchanged() {
    let engine = Arc::new(MemoryEngine::new());
    fill(&*engine, 6).await;
    crate::commit(&*engine, put(FORMAT, b"\x01200")).await;
    let before = rows(&*engine).await;
    for refused in [Store::open(engine.clone(), 10).await, Store::open_for_export(engine.clone()).await] {
        let error = refused.map(|_| ()).unwrap_err();
        assert!(matches!(error, StoreError::Newer { format: 200, known: 7 }), "{error}");
        assert!(error.to_string().contains("use the version of sealgate that wrote it, or a newer one"), "{error}");
    }
    assert_eq!(rows(&*engine).await, before);
}

#[tokio::test]
async fn only_the_record_of_a_newer_version_is_refused_and_it_is_unchanged() {
    let (store, engine) = older(6).await;
    let key = [b"s", &session().as_bytes()[..]].concat();
    let value = b"\x09whatever comes".to_vec();
    crate::commit(&*engine, put(&key, &value)).await;
    let error = store.session(session()).await.unwrap_err().to_string();
    assert!(error.contains("a record of table session cannot be read: this version cannot read its format"), "{error}");
    assert!(error.contains("use the version of sealgate that wrote it, or a newer one"), "{error}");
    assert!(store.user(anna()).await.unwrap().is_some());
    while store.sweep(FAR, 7).await.unwrap().more {}
    assert_eq!(engine.get(&key).await.unwrap(), Some(value), "what cannot be read is not swept");
}

#[tokio::test]
async fn an_invalid_older_record_is_reported_without_its_content() {
    let (store, engine) = older(1).await;
    let key = [b"s", &session().as_bytes()[..]].concat();
    for (damaged, reason) in [
        (written(1, &json!(["geheim-4711"])), "it is not a JSON object"),
        (b"\x01{\"name\": \"geheim-4711 ".to_vec(), "EOF"),
        (written(1, &json!({"geheim-4711": 1})), "missing field"),
        (Vec::new(), "it is empty"),
        (written(0, &json!({})), "this version cannot read its format"),
    ] {
        crate::commit(&*engine, put(&key, &damaged)).await;
        let error = store.session(session()).await.unwrap_err();
        let line = error.to_string();
        assert!(matches!(error, StoreError::Broken(_)) && line.contains(reason), "{line}");
        assert!(line.contains("table session") && !line.contains("geheim"), "{line}");
        let record = ExportRecord {
            table: "session".to_owned(),
            key: base64url(session().as_bytes()),
            version: damaged.first().copied(),
            value: damaged.get(1..).and_then(|json| serde_json::from_slice(json).ok()),
        };
        assert!(matches!(store.import(&[record]).await, Err(StoreError::Broken(_))));
    }
}

#[tokio::test]
async fn records_in_a_store_without_a_format_are_refused() {
    let engine = Arc::new(MemoryEngine::new());
    let key = [b"o", &SecretHash::for_secret(b"x").as_bytes()[..]].concat();
    crate::commit(&*engine, put(&key, b"\x011800000000")).await;
    let error = Store::open(engine.clone(), 10).await.map(|_| ()).unwrap_err();
    assert!(error.to_string().contains("but no format version"), "{error}");
    crate::commit(&*engine, put(FORMAT, b"\x01nonsense")).await;
    let error = Store::open(engine, 10).await.map(|_| ()).unwrap_err();
    assert!(error.to_string().contains("a record of table meta cannot be read"), "{error}");
}
