//! Tests of the store's engines. One suite tests the contract of every engine. Further tests cover
//! the files, the queue and the disk of the sled engine, and the nodes, connections and failures of
//! the PostgreSQL engine.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod engine {
    mod app_credentials;
    mod beat;
    mod copies;
    mod damage;
    mod definitions;
    mod deletion;
    mod failover;
    mod filling;
    mod formats;
    mod forms;
    mod import;
    mod model;
    mod names;
    mod postgres;
    mod shared_counts;
    mod sled_only;
    mod snapshots;
    mod starts;
    mod suite;
    mod sweep;
    mod versions;
}
#[path = "support/port.rs"]
mod port;
#[path = "support/postgres.rs"]
mod postgres_server;
#[path = "support/records.rs"]
mod records;
#[path = "support/relay.rs"]
mod relay;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use sealgate_config::SledConfig;
use sealgate_store::engine::{Changes, CommitObserver, Engine, Expect, Outcome};
use sealgate_store::postgres::{PostgresEngine, PostgresSettings};
use sealgate_store::sled::{OpenError, Options, SledEngine};
use tempfile::TempDir;
use tokio::sync::RwLock;

/// The disk barriers of all engines in this process are counted together; the test that counts them runs alone.
static BARRIERS: RwLock<()> = RwLock::const_new(());

/// A directory for a sled store, on the disk that the build uses (the system's own may be in memory).
struct Place {
    directory: TempDir,
}

impl Place {
    fn new() -> Self {
        Self { directory: tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap() }
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("store")
    }

    fn open(&self) -> SledEngine {
        self.open_with(Options::default(), 1024, Arc::new(())).unwrap()
    }

    fn open_with(
        &self,
        options: Options,
        queue: usize,
        observer: Arc<dyn CommitObserver>,
    ) -> Result<SledEngine, OpenError> {
        SledEngine::open_with(&store(&self.path(), queue), options, observer)
    }
}

fn store(path: &Path, queue: usize) -> SledConfig {
    SledConfig { path: path.to_owned(), cache_bytes: 32 << 20, reserve_bytes: 64 << 20, queue }
}

/// A node over a store in PostgreSQL.
async fn node(settings: &PostgresSettings) -> PostgresEngine {
    PostgresEngine::open(settings, Arc::new(())).await.unwrap()
}

fn put(key: &[u8], value: &[u8]) -> Changes {
    Changes { put: vec![(key.to_vec(), value.to_vec())], ..Changes::default() }
}

fn delete(key: &[u8]) -> Changes {
    Changes { delete: vec![key.to_vec()], ..Changes::default() }
}

fn absent(key: &[u8]) -> Expect {
    Expect::Absent(key.to_vec())
}

fn value(key: &[u8], value: &[u8]) -> Expect {
    Expect::Value(key.to_vec(), value.to_vec())
}

async fn commit(engine: &dyn Engine, changes: Changes) -> Outcome {
    engine.commit(changes).await.unwrap()
}
