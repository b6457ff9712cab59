//! Names and passwords of users at applications: sealed, bound to their user and application,
//! removed with the user, kept by exports and restores.

use std::path::Path;
use std::sync::Arc;

use sealgate_admin as admin;
use sealgate_domain::app_credential::MAX_APP_CREDENTIALS;
use sealgate_domain::secret::Secret;
use sealgate_domain::time::UnixTime;
use sealgate_domain::user::Subject;
use sealgate_store::engine::Engine;
use sealgate_store::memory::MemoryEngine;
use sealgate_store::sealer::{SealError, Sealer};
use sealgate_store::{AddOutcome, AppCredentialSet, AppSite, ExportRecord, Position, Store, StoreError};
use serde_json::{Value as Json, json};

use crate::postgres_server::empty_store;
use crate::{BARRIERS, Place, node, records};

const HERE: &str = "https://id.example.test";
const NOW: UnixTime = UnixTime::from_seconds(1_800_000_000);
const LATER: UnixTime = UnixTime::from_seconds(1_800_009_000);
/// A password that no file may contain.
const PASSWORD: &str = "geheimes-kennwort-4711";

fn anna() -> Subject {
    records::person(1, "anna@example.test", "Anna", NOW).sub
}

fn ben() -> Subject {
    records::person(2, "ben@example.test", "Ben", NOW).sub
}

async fn store_with(engine: Arc<dyn Engine>, data_key: u8) -> Store {
    let store = Store::open(engine, 10).await.unwrap();
    store.sealing_with(Sealer::new(&[data_key; 32]).unwrap(), 0).await.unwrap()
}

/// Returns a store with two users.
async fn store(engine: Arc<dyn Engine>) -> Store {
    let store = store_with(engine, 1).await;
    for (number, email) in [(1, "anna@example.test"), (2, "ben@example.test")] {
        let added = store.add_user(&records::person(number, email, "X", NOW)).await.unwrap();
        assert_eq!(added, AddOutcome::Added);
    }
    store
}

async fn in_memory() -> (Store, Arc<MemoryEngine>) {
    let engine = Arc::new(MemoryEngine::new());
    (store(engine.clone()).await, engine)
}

fn at(name: &str) -> AppSite<'_> {
    AppSite { name, host: "apps.example.test" }
}

async fn set(store: &Store, subject: Subject, app: &str, username: &str, password: &str) -> AppCredentialSet {
    store.set_app_credential(subject, at(app), username, &Secret::new(password), NOW).await.unwrap()
}

/// Name, password and refusal.
type Opened = (String, String, bool);

/// Change of an exported record.
type Change = fn(&mut Json);

async fn get(store: &Store, subject: Subject, app: &str) -> Option<Opened> {
    let opened = store.app_credential(subject, at(app)).await.unwrap()?;
    Some((opened.username.clone(), opened.password.expose().to_owned(), opened.is_refused))
}

fn opened(username: &str, password: &str, is_refused: bool) -> Opened {
    (username.to_owned(), password.to_owned(), is_refused)
}

/// Sets, replaces, refuses and removes credentials.
async fn use_credentials(store: &Store) {
    assert_eq!(get(store, anna(), "wiki").await, None);
    assert_eq!(set(store, anna(), "wiki", "a.unal", PASSWORD).await, AppCredentialSet::Yes);
    assert_eq!(set(store, anna(), "mail", "anna", "another").await, AppCredentialSet::Yes);
    assert_eq!(set(store, ben(), "wiki", "ben", "of ben").await, AppCredentialSet::Yes);
    assert_eq!(get(store, anna(), "wiki").await, Some(opened("a.unal", PASSWORD, false)));
    assert_eq!(get(store, anna(), "mail").await, Some(opened("anna", "another", false)));

    let first = store.app_credential(anna(), at("wiki")).await.unwrap().unwrap().changed_at;
    assert_eq!(set(store, anna(), "wiki", "anna", "new").await, AppCredentialSet::Yes);
    let second = store.app_credential(anna(), at("wiki")).await.unwrap().unwrap().changed_at;
    assert!(second > first, "two changes in a second differ");
    // A sign-in with the replaced password failed meanwhile.
    store.refuse_app_credential(anna(), "wiki", first).await.unwrap();
    assert_eq!(get(store, anna(), "wiki").await, Some(opened("anna", "new", false)));
    store.refuse_app_credential(anna(), "wiki", second).await.unwrap();
    assert_eq!(get(store, anna(), "wiki").await, Some(opened("anna", "new", true)));
    assert_eq!(get(store, ben(), "wiki").await, Some(opened("ben", "of ben", false)));
    assert_eq!(set(store, anna(), "wiki", "anna", "newer").await, AppCredentialSet::Yes);
    assert_eq!(get(store, anna(), "wiki").await, Some(opened("anna", "newer", false)));

    assert!(store.remove_app_credential(anna(), "wiki").await.unwrap());
    assert!(!store.remove_app_credential(anna(), "wiki").await.unwrap());
    store.refuse_app_credential(anna(), "wiki", second).await.unwrap();
    assert_eq!(get(store, anna(), "wiki").await, None);
    let rest = store.app_credentials(anna()).await.unwrap().credentials;
    assert_eq!(rest.iter().map(|one| one.app.as_str()).collect::<Vec<_>>(), ["mail"]);
}

#[tokio::test]
async fn credentials_are_set_replaced_refused_and_removed_in_memory() {
    use_credentials(&in_memory().await.0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn credentials_are_set_replaced_refused_and_removed_in_sled() {
    let _shared = BARRIERS.read().await;
    let place = Place::new();
    use_credentials(&store(Arc::new(place.open())).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn credentials_are_set_replaced_refused_and_removed_in_postgresql() {
    use_credentials(&store(Arc::new(node(&empty_store().await).await)).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_file_contains_a_password() {
    let _shared = BARRIERS.read().await;
    let place = Place::new();
    let engine = Arc::new(place.open());
    let first = store(engine.clone()).await;
    assert_eq!(set(&first, anna(), "wiki", "anna", PASSWORD).await, AppCredentialSet::Yes);
    drop(first);
    engine.close();
    drop(engine);
    let mut read = 0;
    search(&place.path(), &mut read);
    assert!(read > 0);

    let engine = Arc::new(place.open());
    let again = store_with(engine.clone(), 1).await;
    assert_eq!(get(&again, anna(), "wiki").await, Some(opened("anna", PASSWORD, false)));
    engine.close();
}

fn search(directory: &Path, read: &mut usize) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            search(&path, read);
            continue;
        }
        let bytes = std::fs::read(&path).unwrap();
        *read += bytes.len();
        for form in records::readable_forms(PASSWORD) {
            let is_in = bytes.windows(form.len()).any(|window| window == form.as_bytes());
            assert!(!is_in, "{form} in {}", path.display());
        }
    }
}

#[tokio::test]
async fn nothing_that_is_printed_contains_a_password_or_a_name() {
    let (store, _) = in_memory().await;
    assert_eq!(set(&store, anna(), "wiki", "a.unal", PASSWORD).await, AppCredentialSet::Yes);
    let opened = store.app_credential(anna(), at("wiki")).await.unwrap();
    let listed = store.app_credentials(anna()).await.unwrap();
    let printed = format!("{opened:?} {listed:?}");
    assert!(!printed.contains(PASSWORD) && !format!("{opened:?}").contains("a.unal"), "{printed}");
}

/// Replaces text in the only record of a user's credentials, as an attacker with write access to
/// the store could.
async fn alter(engine: &MemoryEngine, subject: Subject, change: impl Fn(&mut Json)) {
    let key = [b"L", &subject.as_bytes()[..]].concat();
    let bytes = engine.get(&key).await.unwrap().unwrap();
    let mut value: Json = serde_json::from_slice(&bytes[1..]).unwrap();
    change(&mut value);
    let altered = [&bytes[..1], value.to_string().as_bytes()].concat();
    engine.commit(crate::put(&key, &altered)).await.unwrap();
}

#[tokio::test]
async fn a_password_cannot_be_decrypted_for_another_user_application_or_data_key() {
    let (store, engine) = in_memory().await;
    assert_eq!(set(&store, anna(), "wiki", "anna", PASSWORD).await, AppCredentialSet::Yes);
    assert_eq!(set(&store, ben(), "wiki", "ben", "of ben").await, AppCredentialSet::Yes);
    let sealed = serde_json::to_value(&store.app_credentials(anna()).await.unwrap().credentials[0].password).unwrap();
    alter(&engine, ben(), |value| value["credentials"][0]["password"] = sealed.clone()).await;
    let altered =
        |error: &StoreError| matches!(error, StoreError::UnreadableAppCredential { why: SealError::Altered, .. });
    let error = store.app_credential(ben(), at("wiki")).await.unwrap_err();
    assert!(altered(&error) && error.to_string().contains("must be entered again"), "{error}");
    // The configuration uses the name for an application on another host.
    let error = store.app_credential(anna(), AppSite { host: "other.test", ..at("wiki") }).await.unwrap_err();
    assert!(altered(&error), "{error}");
    assert_eq!(get(&store, anna(), "wiki").await, Some(opened("anna", PASSWORD, false)));

    let other = store_with(engine.clone(), 2).await;
    let error = other.app_credential(anna(), at("wiki")).await.unwrap_err();
    assert!(error.to_string().contains("another data key") && !error.to_string().contains("anna"), "{error}");
    assert_eq!(set(&other, anna(), "wiki", "anna", "entered again").await, AppCredentialSet::Yes);
    assert_eq!(get(&other, anna(), "wiki").await, Some(opened("anna", "entered again", false)));

    alter(&engine, anna(), |value| value["credentials"][0]["app"] = json!("mail")).await;
    let error = other.app_credential(anna(), at("mail")).await.unwrap_err();
    assert!(altered(&error), "{error}");
}

#[tokio::test]
async fn no_password_is_stored_without_a_data_key() {
    let (store, engine) = in_memory().await;
    assert_eq!(set(&store, anna(), "wiki", "anna", PASSWORD).await, AppCredentialSet::Yes);
    let bare = Store::open(engine.clone(), 10).await.unwrap();
    let refused = bare.set_app_credential(anna(), at("mail"), "anna", &Secret::new(PASSWORD), NOW).await;
    assert!(matches!(refused, Err(StoreError::Sealed(SealError::NoKey))), "{refused:?}");
    let refused = bare.app_credential(anna(), at("wiki")).await.unwrap_err();
    assert!(matches!(refused, StoreError::UnreadableAppCredential { why: SealError::NoKey, .. }), "{refused}");
    assert!(bare.remove_app_credential(anna(), "wiki").await.unwrap(), "removing needs no key");
}

#[tokio::test]
async fn a_user_can_store_a_limited_number_and_only_valid_text() {
    let (store, engine) = in_memory().await;
    let longest = "\u{1f511}".repeat(200);
    for number in 0..MAX_APP_CREDENTIALS {
        let app = format!("app{number}");
        assert_eq!(set(&store, anna(), &app, &longest, &"x".repeat(1000)).await, AppCredentialSet::Yes, "{app}");
    }
    assert_eq!(set(&store, anna(), "one-more", "anna", "x").await, AppCredentialSet::Full);
    assert_eq!(set(&store, anna(), "app7", "anna", "y").await, AppCredentialSet::Yes);
    assert_eq!(set(&store, ben(), "one-more", "ben", "x").await, AppCredentialSet::Yes);
    let before = engine.scan(b"L", None, 10).await.unwrap();
    for (username, password) in [("", "x"), ("a\nb", "x"), ("ben", ""), ("ben", "x\r\ny"), ("ben", "x\0")] {
        let refused = store.set_app_credential(ben(), at("wiki"), username, &Secret::new(password), NOW).await;
        assert!(refused.is_err(), "{username:?} {password:?}");
    }
    assert_eq!(engine.scan(b"L", None, 10).await.unwrap(), before);
}

#[tokio::test]
async fn every_change_increments_the_access_counter_of_the_user() {
    let (store, _) = in_memory().await;
    let mut last = store.access_counter(anna());
    let of_ben = store.access_counter(ben());
    let mut is_moved = |store: &Store| {
        let before = std::mem::replace(&mut last, store.access_counter(anna()));
        before != last
    };
    // Also if the user had none before: the gateway may remember that.
    assert_eq!(set(&store, anna(), "wiki", "anna", "x").await, AppCredentialSet::Yes);
    assert!(is_moved(&store));
    assert_eq!(set(&store, anna(), "wiki", "anna", "y").await, AppCredentialSet::Yes);
    assert!(is_moved(&store));
    let changed_at = store.app_credential(anna(), at("wiki")).await.unwrap().unwrap().changed_at;
    store.refuse_app_credential(anna(), "wiki", changed_at).await.unwrap();
    assert!(is_moved(&store));
    store.remove_app_credential(anna(), "wiki").await.unwrap();
    assert!(is_moved(&store));
    store.remove_app_credential(anna(), "wiki").await.unwrap();
    assert!(!is_moved(&store), "nothing has changed");
    assert_eq!(store.access_counter(ben()), of_ben);
}

#[tokio::test]
async fn credentials_are_removed_with_their_user() {
    let (store, engine) = in_memory().await;
    assert_eq!(set(&store, anna(), "wiki", "anna", PASSWORD).await, AppCredentialSet::Yes);
    assert_eq!(set(&store, ben(), "wiki", "ben", PASSWORD).await, AppCredentialSet::Yes);
    assert!(store.delete_user(anna(), NOW).await.unwrap());
    assert_eq!(engine.scan(b"L", None, 10).await.unwrap().len(), 1);
    assert_eq!(set(&store, anna(), "wiki", "anna", PASSWORD).await, AppCredentialSet::NoUser);
    assert_eq!(engine.scan(b"L", None, 10).await.unwrap().len(), 1);
    assert_eq!(get(&store, ben(), "wiki").await, Some(opened("ben", PASSWORD, false)));
}

#[tokio::test]
async fn exports_contain_the_sealed_record_and_a_restore_keeps_it() {
    let (store, engine) = in_memory().await;
    assert_eq!(set(&store, anna(), "wiki", "anna", PASSWORD).await, AppCredentialSet::Yes);
    store.take_back_after_restore(LATER).await.unwrap();
    assert_eq!(get(&store, anna(), "wiki").await, Some(opened("anna", PASSWORD, false)));
    let mut file = Vec::new();
    admin::export(&store, HERE, NOW, &mut file).await.unwrap();
    let text = String::from_utf8(file.clone()).unwrap();
    assert!(text.contains(r#""table":"app_credentials""#), "{text}");
    assert!(records::readable_forms(PASSWORD).iter().all(|form| !text.contains(form)), "{text}");

    let there = Arc::new(MemoryEngine::new());
    let moved = store_with(there.clone(), 1).await;
    admin::import(&moved, HERE, &mut file.as_slice()).await.unwrap();
    assert_eq!(get(&moved, anna(), "wiki").await, Some(opened("anna", PASSWORD, false)));
    assert_eq!(there.scan(b"L", None, 10).await.unwrap(), engine.scan(b"L", None, 10).await.unwrap());
}

#[tokio::test]
async fn records_that_this_program_cannot_have_written_are_not_imported() {
    let (store, _) = in_memory().await;
    assert_eq!(set(&store, anna(), "wiki", "anna", PASSWORD).await, AppCredentialSet::Yes);
    let (rows, _) = store.export(&Position::default()).await.unwrap().unwrap();
    let record = rows.into_iter().find(|record| record.table == "app_credentials").unwrap();
    let changes: [(&str, Change); 5] = [
        ("of another user", |value| value["subject"] = json!(ben())),
        ("repeated", |value| {
            let again = value["credentials"][0].clone();
            value["credentials"].as_array_mut().unwrap().push(again);
        }),
        ("a line break", |value| value["credentials"][0]["username"] = json!("a\nb")),
        ("too late", |value| value["latest_change"] = json!(1)),
        ("unknown member", |value| value["credentials"][0]["plain"] = json!("x")),
    ];
    for (name, change) in changes {
        let mut value = record.value.clone().unwrap();
        change(&mut value);
        let (empty, _) = in_memory().await;
        let invalid = ExportRecord { value: Some(value), ..record.clone() };
        assert!(matches!(empty.import(&[invalid]).await, Err(StoreError::Broken(_))), "{name}");
    }
    in_memory().await.0.import(&[record]).await.unwrap();
}
