//! Concurrent first starts of several nodes over an empty store.

use std::sync::Arc;

use sealgate_store::Store;
use tokio::task::JoinSet;

use crate::node;
use crate::postgres_server::empty_store;

const ROUNDS: usize = 5;
const NODES: usize = 6;

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_first_starts_all_succeed() {
    for _ in 0..ROUNDS {
        let settings = empty_store().await;
        let mut engines = Vec::new();
        for _ in 0..NODES {
            engines.push(Arc::new(node(&settings).await));
        }
        let mut starts = JoinSet::new();
        for engine in engines {
            starts.spawn(async move { Store::open(engine, 10).await.map(drop) });
        }
        for started in starts.join_all().await {
            assert!(started.is_ok(), "{started:?}");
        }
    }
}
