//! Forms stored for users who must sign in first: sealed, single-use, bounded, removed by a restore
//! or move.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use sealgate_domain::secret::SecretHash;
use sealgate_domain::time::UnixTime;
use sealgate_store::engine::Engine;
use sealgate_store::memory::MemoryEngine;
use sealgate_store::sealer::{SealError, Sealer};
use sealgate_store::{Form, MAX_FORM_BYTES, Position, Store, StoreError};

use crate::{BARRIERS, Place};

const NOW: UnixTime = UnixTime::from_seconds(1_800_000_000);
/// A form's value that no file may contain.
const TYPED: &str = "geheimes-kennwort-4711";

fn later() -> UnixTime {
    NOW.plus(Duration::from_mins(15))
}

fn hash(text: &str) -> SecretHash {
    SecretHash::for_secret(text.as_bytes())
}

fn form() -> Form {
    Form {
        user: None,
        app: "wiki".into(),
        target: "/pages/7?draft=1".into(),
        body: format!("title=x&note={TYPED}").into_bytes(),
    }
}

async fn store(engine: Arc<dyn Engine>, key: u8, most: usize) -> Store {
    let store = Store::open(engine, 10).await.unwrap();
    store.sealing_with(Sealer::new(&[key; 32]).unwrap(), most).await.unwrap()
}

async fn in_memory(most: usize) -> (Store, Arc<MemoryEngine>) {
    let engine = Arc::new(MemoryEngine::new());
    (store(engine.clone(), 1, most).await, engine)
}

async fn keep(store: &Store, id: &str, nonce: u8) {
    assert!(store.keep_form(&hash("browser"), &hash(id), &form(), later(), [nonce; 12]).await.unwrap());
}

#[tokio::test]
async fn a_form_is_returned_once_and_only_to_its_browser() {
    let (store, _) = in_memory(10).await;
    keep(&store, "one", 1).await;
    assert_eq!(store.take_form(&hash("other"), &hash("one"), NOW).await.unwrap(), None);
    assert_eq!(store.take_form(&hash("browser"), &hash("two"), NOW).await.unwrap(), None);
    assert_eq!(store.take_form(&hash("browser"), &hash("one"), NOW).await.unwrap(), Some(form()));
    assert_eq!(store.take_form(&hash("browser"), &hash("one"), NOW).await.unwrap(), None);
    assert_eq!(store.kept_forms(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_requests_for_a_kept_form_return_it_once() {
    let (store, _) = in_memory(10).await;
    keep(&store, "one", 1).await;
    let store = Arc::new(store);
    let ask = |_| {
        let store = Arc::clone(&store);
        tokio::spawn(async move { store.take_form(&hash("browser"), &hash("one"), NOW).await.unwrap().is_some() })
    };
    let asked: Vec<_> = (0..64).map(ask).collect();
    let mut got = 0;
    for answer in asked {
        got += usize::from(answer.await.unwrap());
    }
    assert_eq!((got, store.kept_forms()), (1, 0));
}

#[tokio::test]
async fn typed_text_is_in_no_file_of_the_store() {
    let _shared = BARRIERS.read().await;
    let place = Place::new();
    let engine = Arc::new(place.open());
    let kept = store(engine.clone(), 1, 10).await;
    keep(&kept, "one", 1).await;
    assert!(engine.get(&key_of(engine.as_ref()).await).await.unwrap().is_some());
    engine.close();
    drop((kept, engine));
    let mut read = 0;
    search(&place.path(), &mut read);
    assert!(read > 0);

    let engine = Arc::new(place.open());
    let kept = store(engine.clone(), 1, 10).await;
    assert_eq!(kept.kept_forms(), 1, "counted again when the store is opened");
    assert_eq!(kept.take_form(&hash("browser"), &hash("one"), NOW).await.unwrap(), Some(form()));
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
        for words in [TYPED.as_bytes(), b"draft=1"] {
            assert!(!bytes.windows(words.len()).any(|window| window == words), "{}", path.display());
        }
    }
}

/// Returns the key of the only form in an engine.
async fn key_of(engine: &dyn Engine) -> Vec<u8> {
    let rows = engine.scan(b"p", None, 2).await.unwrap();
    assert_eq!(rows.len(), 1);
    rows[0].0.clone()
}

#[tokio::test]
async fn a_form_moved_to_another_record_key_cannot_be_decrypted() {
    let (store, engine) = in_memory(10).await;
    keep(&store, "victim", 1).await;
    let key = key_of(engine.as_ref()).await;
    let bytes = engine.get(&key).await.unwrap().unwrap();
    // An attacker with write access to the store moves a user's form to their own browser.
    let own = [b"p", &hash("thief").as_bytes()[..16], &hash("id").as_bytes()[..16]].concat();
    engine.commit(crate::put(&own, &bytes)).await.unwrap();
    let error = store.take_form(&hash("thief"), &hash("id"), NOW).await.unwrap_err();
    assert!(matches!(error, StoreError::Sealed(SealError::Altered)), "{error}");
    assert_eq!(store.take_form(&hash("browser"), &hash("victim"), NOW).await.unwrap(), Some(form()));
}

#[tokio::test]
async fn a_form_under_another_data_key_is_refused_with_that_reason() {
    let (first, engine) = in_memory(10).await;
    keep(&first, "one", 1).await;
    let other = store(engine, 2, 10).await;
    let error = other.take_form(&hash("browser"), &hash("one"), NOW).await.unwrap_err();
    assert!(error.to_string().contains("another data key"), "{error}");
}

#[tokio::test]
async fn the_oldest_forms_are_evicted_when_there_are_too_many() {
    let (store, _) = in_memory(40).await;
    for at in 0..40_u8 {
        let id = hash(&format!("old {at}"));
        store
            .keep_form(&hash("b"), &id, &form(), NOW.plus(Duration::from_secs(1 + u64::from(at))), [at; 12])
            .await
            .unwrap();
    }
    for at in 0..30_u8 {
        keep(&store, &format!("new {at}"), at).await;
    }
    assert_eq!(store.kept_forms(), 40);
    let mut old = 0;
    for at in 0..40 {
        let taken = store.take_form(&hash("b"), &hash(&format!("old {at}")), NOW).await.unwrap();
        old += usize::from(taken.is_some());
    }
    let mut new = 0;
    for at in 0..30 {
        new +=
            usize::from(store.take_form(&hash("browser"), &hash(&format!("new {at}")), NOW).await.unwrap().is_some());
    }
    assert_eq!((new, old), (30, 10));
    assert_eq!(store.kept_forms(), 0);
}

#[tokio::test]
async fn a_form_that_is_too_large_is_not_kept() {
    let (store, _) = in_memory(10).await;
    let sized = |bytes| Form { user: None, app: "wiki".into(), target: "/".into(), body: vec![0; bytes] };
    for (bytes, kept) in [(MAX_FORM_BYTES, true), (MAX_FORM_BYTES + 1, false)] {
        let answer = store.keep_form(&hash("b"), &hash("id"), &sized(bytes), later(), [3; 12]).await.unwrap();
        assert_eq!(answer, kept, "{bytes}");
    }
    assert_eq!(store.take_form(&hash("b"), &hash("id"), NOW).await.unwrap(), Some(sized(MAX_FORM_BYTES)));
}

#[tokio::test]
async fn no_form_is_kept_without_a_data_key() {
    let engine = Arc::new(MemoryEngine::new());
    let store = Store::open(engine.clone(), 10).await.unwrap();
    assert!(!store.keeps_forms());
    assert!(!store.keep_form(&hash("b"), &hash("id"), &form(), later(), [1; 12]).await.unwrap());
    assert_eq!(engine.scan(b"p", None, 1).await.unwrap(), []);
}

#[tokio::test]
async fn no_form_is_kept_if_the_limit_is_zero() {
    let (store, engine) = in_memory(0).await;
    assert!(!store.keeps_forms());
    assert!(!store.keep_form(&hash("b"), &hash("id"), &form(), later(), [1; 12]).await.unwrap());
    assert_eq!(engine.scan(b"p", None, 1).await.unwrap(), []);
}

#[tokio::test]
async fn an_expired_form_is_not_returned_and_is_removed() {
    let (store, engine) = in_memory(10).await;
    keep(&store, "one", 1).await;
    keep(&store, "two", 2).await;
    assert_eq!(store.take_form(&hash("browser"), &hash("one"), later()).await.unwrap(), None);
    let swept = store.sweep(later().plus(Duration::from_mins(2)), 100).await.unwrap();
    assert_eq!((swept.removed, store.kept_forms()), (1, 0));
    for table in [b"p", b"x", b"e"] {
        assert_eq!(engine.scan(table, None, 1).await.unwrap(), [], "{table:?}");
    }
}

#[tokio::test]
async fn restores_and_exports_omit_kept_forms() {
    let (store, engine) = in_memory(10).await;
    keep(&store, "one", 1).await;
    let (records, _) = store.export(&Position::default()).await.unwrap().unwrap();
    let tables: Vec<&str> = records.iter().map(|record| record.table.as_str()).collect();
    assert_eq!(tables, ["expiry"], "only expiry entries without a record");

    store.take_back_after_restore(NOW).await.unwrap();
    for table in [b"p", b"x"] {
        assert_eq!(engine.scan(table, None, 1).await.unwrap(), [], "{table:?}");
    }
}

#[tokio::test]
async fn an_import_takes_no_forms() {
    let (store, engine) = in_memory(10).await;
    let smuggled =
        serde_json::json!({"table": "form", "key": "AAAA", "version": 1, "value": {"expires_at": 1, "form": "AA"}});
    store.import(&[serde_json::from_value(smuggled).unwrap()]).await.unwrap();
    assert_eq!(engine.scan(b"p", None, 1).await.unwrap(), []);
}

#[tokio::test]
async fn data_keys_of_several_wrapping_keys_can_coexist() {
    let (store, _) = in_memory(10).await;
    store.keep_data_key("aa", &[1, 2]).await.unwrap();
    store.keep_data_key("bb", &[3]).await.unwrap();
    assert!(matches!(store.keep_data_key("aa", &[9]).await, Err(StoreError::Contended)));
    let kept = store.wrapped_data_keys().await.unwrap();
    assert_eq!(kept, [("aa".to_owned(), vec![1, 2]), ("bb".to_owned(), vec![3])]);
}
