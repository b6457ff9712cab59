//! Copies for backups: one moment of the store, complete or absent.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use sealgate_config::SledConfig;
use sealgate_store::engine::{Changes, Engine, EngineError, Outcome};
use sealgate_store::memory::MemoryEngine;
use sealgate_store::sled::{NewStore, OpenError, SledEngine, last_backup};

use crate::{BARRIERS, Place, commit, put, store};

#[tokio::test]
async fn a_copy_under_load_is_consistent() {
    let _shared = BARRIERS.read().await;
    let place = Place::new();
    let engine = Arc::new(place.open());
    let stop = Arc::new(AtomicBool::new(false));
    let (writing, stopped) = (Arc::clone(&engine), Arc::clone(&stop));
    // Two records that always change together, far apart in the tree, and an additional one each
    // time.
    let writer = tokio::spawn(async move {
        let mut number = 0_u64;
        while !stopped.load(Ordering::SeqCst) {
            number += 1;
            let bytes = number.to_be_bytes();
            let pair = [&b"a"[..], b"z"].map(|key| (key.to_vec(), bytes.to_vec()));
            let put = pair.into_iter().chain([([&b"m"[..], &bytes].concat(), vec![1; 3_000])]).collect();
            assert_eq!(writing.commit(Changes { put, ..Changes::default() }).await.unwrap(), Outcome::Committed);
        }
        number
    });
    for copy in 0..3 {
        // Copy while it grows, at a different size each time.
        let reached = engine.get(b"a").await.unwrap();
        let waited = tokio::time::timeout(std::time::Duration::from_secs(30), async {
            while engine.get(b"a").await.unwrap() == reached {
                tokio::task::yield_now().await;
            }
        });
        waited.await.unwrap();
        let directory = place.directory.path().join(format!("copy{copy}"));
        let records = engine.copy_to(&directory).await.unwrap();
        let copied = SledEngine::open(&store(&directory, 4), Arc::new(())).unwrap();
        let number = copied.get(b"a").await.unwrap().unwrap();
        assert_eq!(copied.get(b"z").await.unwrap().unwrap(), number);
        let number = u64::from_be_bytes(number.try_into().unwrap());
        assert!(number > 0);
        let rows = copied.scan(b"m", None, usize::MAX).await.unwrap();
        assert_eq!((rows.len() as u64, records as u64), (number, number + 2));
    }
    stop.store(true, Ordering::SeqCst);
    assert!(writer.await.unwrap() > 0);
}

#[tokio::test]
async fn a_copy_that_would_fill_the_disk_is_not_made() {
    let _shared = BARRIERS.read().await;
    let place = Place::new();
    commit(&place.open(), put(b"k", b"v")).await;
    let full = SledConfig { reserve_bytes: u64::MAX, ..store(&place.path(), 4) };
    let engine = SledEngine::open(&full, Arc::new(())).unwrap();
    let directory = place.directory.path().join("copy");
    let refused = engine.copy_to(&directory).await;
    assert!(matches!(&refused, Err(EngineError::NoCopy(line)) if line.contains("free some space")), "{refused:?}");
    assert!(!directory.exists());
    assert_eq!(engine.get(b"k").await.unwrap(), Some(b"v".to_vec()));
}

#[tokio::test]
async fn the_time_of_the_last_backup_is_recorded_and_not_copied() {
    let _shared = BARRIERS.read().await;
    let place = Place::new();
    let engine = place.open();
    commit(&engine, put(b"k", b"v")).await;
    assert_eq!(last_backup(&place.path()).unwrap(), None);
    let (first, second) = (place.directory.path().join("one"), place.directory.path().join("two"));
    engine.copy_to(&first).await.unwrap();
    let recorded = last_backup(&place.path()).unwrap().unwrap();
    assert!(recorded.elapsed().unwrap().as_secs() < 600);
    engine.copy_to(&second).await.unwrap();
    assert!(last_backup(&place.path()).unwrap().unwrap() >= recorded);
    assert!(engine.copy_to(&second).await.is_err(), "it exists");
    for copy in [first, second] {
        assert_eq!(last_backup(&copy).unwrap(), None);
    }
}

#[tokio::test]
async fn an_engine_without_files_reports_that_it_cannot_copy() {
    let place = Place::new();
    assert!(matches!(MemoryEngine::new().copy_to(&place.path()).await, Err(EngineError::NoCopy(_))));
}

#[tokio::test]
async fn an_open_store_is_not_accepted_as_a_backup() {
    let _shared = BARRIERS.read().await;
    let place = Place::new();
    let engine = place.open();
    let elsewhere = store(&place.directory.path().join("other"), 4);
    assert!(matches!(NewStore::copy_of(&place.path(), &elsewhere), Err(OpenError::Locked { .. })));
    drop(engine);
    NewStore::copy_of(&place.path(), &elsewhere).unwrap().finish().unwrap();
    assert!(matches!(NewStore::begin(&elsewhere), Err(OpenError::Occupied { .. })));
}

#[test]
fn an_unfinished_store_is_removed_and_remains_of_a_killed_process_are_ignored() {
    let _shared = BARRIERS.blocking_read();
    let place = Place::new();
    let left = place.directory.path().join("store.new");
    std::fs::create_dir(&left).unwrap();
    std::fs::write(left.join("db"), "half").unwrap();
    let new = NewStore::begin(&store(&place.path(), 4)).unwrap();
    assert!(!left.exists());
    drop(SledEngine::open(new.settings(), Arc::new(())).unwrap());
    assert!(left.exists());
    drop(new);
    assert!(!left.exists() && !place.path().exists());
}
