//! SIGKILL in the middle of a migration, again and again: the next start goes on where it was, and nothing is brought over
//! twice or not at all.

use std::collections::BTreeMap;
use std::os::unix::net::UnixDatagram;
use std::sync::Arc;

use sealgate::config::{StoreConfig, StoreEngine};
use sealgate::domain::secret::SecretHash;
use sealgate::store::engine::{Changes, Engine, Key, Outcome, Value};
use sealgate::store::sled::SledEngine;
use serde_json::{Value as Json, json};

use crate::MACHINE;
use crate::chance::Chance;
use crate::rounds;
use crate::support::{Instance, Settings, wait_until};

/// Sign-ins that the older program had started: enough for hundreds of commits.
const RECORDS: usize = 20_000;
/// What the log says when the first record is about to be written.
const WRITING: &str = "migrating the store";

fn engine(instance: &Instance) -> SledEngine {
    let store = StoreConfig {
        engine: StoreEngine::Sled,
        path: instance.store(),
        cache_bytes: 64 << 20,
        reserve_bytes: 0,
        queue: 64,
    };
    SledEngine::open(&store, Arc::new(())).unwrap()
}

fn attempt(number: usize) -> (Key, Json) {
    let hash = SecretHash::of(&number.to_be_bytes());
    let key = [&b"t"[..], hash.as_bytes()].concat();
    let far = 4_000_000_000_u64;
    let record =
        json!({ "browser": hash, "app": "wiki", "wanted": format!("/{number}"), "verifier": "v", "expires_at": far });
    (key, record)
}

fn written(version: u8, record: &Json) -> Value {
    [&[version][..], record.to_string().as_bytes()].concat()
}

/// Makes the store one of the first version, with many records that are to change.
async fn age(engine: &SledEngine) {
    let mut put = vec![(b"mformat".to_vec(), written(1, &json!(1)))];
    put.extend((0..RECORDS).map(|number| {
        let (key, record) = attempt(number);
        (key, written(1, &record))
    }));
    for put in put.chunks(64) {
        let changes = Changes { put: put.to_vec(), ..Changes::default() };
        assert_eq!(engine.commit(changes).await.unwrap(), Outcome::Committed);
    }
}

/// How many records are there in each version, each with what it must hold.
async fn versions(engine: &SledEngine) -> BTreeMap<u8, usize> {
    let expected: BTreeMap<Key, Json> = (0..RECORDS).map(attempt).collect();
    let mut versions = BTreeMap::new();
    let rows = engine.scan(b"t", None, usize::MAX).await.unwrap();
    assert_eq!(rows.len(), RECORDS);
    for (key, value) in rows {
        let (version, json) = value.split_first().unwrap();
        let mut record = expected[&key].clone();
        if *version > 1 {
            record["acr"] = json!([]);
        }
        assert_eq!(serde_json::from_slice::<Json>(json).unwrap(), record);
        *versions.entry(*version).or_default() += 1;
    }
    versions
}

#[tokio::test(flavor = "multi_thread")]
async fn a_migration_that_is_killed_again_and_again_ends() {
    let _shared = MACHINE.read().await;
    let mut chance = Chance::seeded("migration");
    let mut instance = Instance::prepare(&Settings::default());
    let socket = instance.directory.path().join("notify.sock");
    let systemd = UnixDatagram::bind(&socket).unwrap();
    systemd.set_nonblocking(true).unwrap();
    instance.environment.push(("NOTIFY_SOCKET", socket.display().to_string()));
    let aged = engine(&instance);
    age(&aged).await;
    drop(aged);

    let (mut interrupted, mut done) = (0, 0);
    for round in 0..rounds(4) {
        let before = instance.log().matches(WRITING).count();
        instance.launch();
        wait_until("the migration goes on", || instance.log().matches(WRITING).count() > before);
        std::thread::sleep(chance.milliseconds(0, 60));
        instance.kill();
        let mut said = [0; 256];
        let length = systemd.recv(&mut said).unwrap();
        assert!(said[..length].starts_with(b"EXTEND_TIMEOUT_USEC="), "{}", String::from_utf8_lossy(&said[..length]));
        while systemd.recv(&mut said).is_ok() {}

        let left = engine(&instance);
        let versions = versions(&left).await;
        let under_way = left.get(b"mmigration").await.unwrap().is_some();
        drop(left);
        let migrated = RECORDS - versions.get(&1).copied().unwrap_or(0);
        println!("round {round}: {migrated} of {RECORDS} brought over, under way: {under_way}");
        assert!(migrated >= done, "records went back");
        done = migrated;
        interrupted += usize::from(under_way);
        if done == RECORDS && !under_way {
            break;
        }
    }
    assert!(interrupted > 0, "no kill met the migration");
    instance.start();
    instance.tells("migrated the store");
    assert_eq!(instance.stop(), Some(0));
    let migrated = engine(&instance);
    assert_eq!(versions(&migrated).await, BTreeMap::from([(4, RECORDS)]));
    assert_eq!(migrated.get(b"mmigration").await.unwrap(), None);
    assert_eq!(migrated.get(b"mformat").await.unwrap().unwrap(), b"\x014");
    drop(migrated);
}
