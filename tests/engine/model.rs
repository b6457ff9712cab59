//! Random histories: the engine and a map must agree after each step.

use std::collections::BTreeMap;
use std::future::Future;

use proptest::prelude::*;
use sealgate_store::engine::{Changes, Engine, Expect, Outcome};
use sealgate_store::memory::MemoryEngine;

use crate::postgres_server::empty_store;
use crate::{BARRIERS, Place, node};

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

#[derive(Debug, Clone)]
enum Step {
    /// Writes and removals, under expectations that match the model or do not.
    Commit {
        puts: Model,
        deletes: Vec<Vec<u8>>,
        fitting: Vec<Vec<u8>>,
        unfitting: Option<Vec<u8>>,
    },
    Scan {
        prefix: Vec<u8>,
        after: Option<Vec<u8>>,
        limit: usize,
    },
    /// Closes and reopens, if the engine has files.
    Reopen,
}

/// Few keys, so that they recur, with common prefixes and the highest byte.
fn key() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(prop::sample::select(vec![0, b'a', b'b', 0xff]), 1..4)
}

fn contents() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        8 => prop::collection::vec(any::<u8>(), 0..40),
        1 => (2000..9000_usize, any::<u8>()).prop_map(|(length, byte)| vec![byte; length]),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let commit = (
        prop::collection::btree_map(key(), contents(), 0..6),
        prop::collection::vec(key(), 0..4),
        prop::collection::vec(key(), 0..3),
        prop::option::weighted(0.2, key()),
    )
        .prop_map(|(puts, deletes, fitting, unfitting)| {
            let deletes = deletes.into_iter().filter(|key| !puts.contains_key(key)).collect();
            Step::Commit { puts, deletes, fitting, unfitting }
        });
    let prefix = prop::collection::vec(prop::sample::select(vec![0, b'a', b'b', 0xff]), 0..3);
    let scan = (prefix, prop::option::of(key()), 0..80_usize).prop_map(|(prefix, after, limit)| Step::Scan {
        prefix,
        after,
        limit,
    });
    prop_oneof![8 => commit, 4 => scan, 1 => Just(Step::Reopen)]
}

fn expectation(model: &Model, key: &[u8], fits: bool) -> Expect {
    match (model.get(key), fits) {
        (Some(value), true) => Expect::Value(key.to_vec(), value.clone()),
        (None, true) | (Some(_), false) => Expect::Absent(key.to_vec()),
        (None, false) => Expect::Value(key.to_vec(), b"x".to_vec()),
    }
}

async fn take(engine: &dyn Engine, model: &mut Model, step: Step) {
    match step {
        Step::Commit { puts, deletes, fitting, unfitting } => {
            let fitting = fitting.iter().map(|key| expectation(model, key, true));
            let unfitting = unfitting.map(|key| expectation(model, &key, false));
            let outcome = if unfitting.is_some() { Outcome::Conflict } else { Outcome::Committed };
            let expect = fitting.chain(unfitting).collect();
            let changes = Changes {
                expect,
                put: puts.clone().into_iter().collect(),
                delete: deletes.clone(),
                ..Changes::default()
            };
            assert_eq!(engine.commit(changes).await.unwrap(), outcome);
            if outcome == Outcome::Committed {
                model.retain(|key, _| !deletes.contains(key));
                model.extend(puts.clone());
            }
            for key in puts.keys().chain(&deletes) {
                assert_eq!(engine.get(key).await.unwrap().as_ref(), model.get(key));
            }
        }
        Step::Scan { prefix, after, limit } => {
            let found = engine.scan(&prefix, after.as_deref(), limit).await.unwrap();
            let expected: Vec<_> = model
                .iter()
                .filter(|(key, _)| key.starts_with(&prefix) && after.as_ref().is_none_or(|after| *key > after))
                .take(limit)
                .map(|(key, value)| (key.clone(), value.clone()))
                .collect();
            assert_eq!(found, expected);
        }
        Step::Reopen => {
            let all = engine.scan(b"", None, usize::MAX).await.unwrap();
            assert_eq!(all, model.clone().into_iter().collect::<Vec<_>>());
        }
    }
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_memory_engine_agrees_with_the_model(steps in prop::collection::vec(step(), 1..60)) {
        block_on(async {
            let (engine, mut model) = (MemoryEngine::new(), Model::new());
            for step in steps {
                take(&engine, &mut model, step).await;
            }
        });
    }
}

/// Fewer: each step waits for a disk.
const POSTGRES_CASES: u32 = 8;

proptest! {
    #![proptest_config(ProptestConfig { cases: POSTGRES_CASES, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_postgres_engine_agrees_with_the_model_across_nodes(steps in prop::collection::vec(step(), 1..80)) {
        block_on(async {
            let store = empty_store().await;
            let (mut engine, mut model) = (node(&store).await, Model::new());
            for step in steps {
                if matches!(step, Step::Reopen) {
                    drop(engine);
                    engine = node(&store).await;
                }
                take(&engine, &mut model, step).await;
            }
        });
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_sled_engine_agrees_with_the_model_across_reopenings(steps in prop::collection::vec(step(), 1..80)) {
        block_on(async {
            let _shared = BARRIERS.read().await;
            let place = Place::new();
            let (mut engine, mut model) = (place.open(), Model::new());
            for step in steps {
                if matches!(step, Step::Reopen) {
                    drop(engine);
                    engine = place.open();
                }
                take(&engine, &mut model, step).await;
            }
        });
    }
}
