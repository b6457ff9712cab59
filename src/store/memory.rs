//! In-memory engine for tests. It behaves like the other engines.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;

use super::engine::{Changes, Counters, Engine, EngineError, Expect, Key, Outcome, Value};

/// Engine that stores records in memory.
#[derive(Debug, Default)]
pub struct MemoryEngine {
    records: Mutex<BTreeMap<Key, Value>>,
    refusing: AtomicBool,
    shared: AtomicBool,
    counters: Counters,
}

impl MemoryEngine {
    /// Creates an engine without records.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns an engine that several providers in one process share, as nodes share a database.
    pub fn of_a_cluster() -> Self {
        let engine = Self::default();
        engine.share();
        engine
    }

    /// Makes the engine a shared one.
    pub fn share(&self) {
        self.shared.store(true, Ordering::SeqCst);
    }

    /// Makes commits fail, as on a full disk, or succeed again. Reads continue.
    pub fn refuse_writes(&self, refuse: bool) {
        self.refusing.store(refuse, Ordering::SeqCst);
    }

    fn records(&self) -> MutexGuard<'_, BTreeMap<Key, Value>> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Engine for MemoryEngine {
    async fn get(&self, key: &[u8]) -> Result<Option<Value>, EngineError> {
        Ok(self.records().get(key).cloned())
    }

    async fn get_many(&self, keys: &[Key]) -> Result<Vec<Option<Value>>, EngineError> {
        let records = self.records();
        Ok(keys.iter().map(|key| records.get(key).cloned()).collect())
    }

    async fn scan(&self, prefix: &[u8], after: Option<&[u8]>, limit: usize) -> Result<Vec<(Key, Value)>, EngineError> {
        let start = match after {
            Some(after) if after >= prefix => Bound::Excluded(after),
            _ => Bound::Included(prefix),
        };
        Ok(self
            .records()
            .range::<[u8], _>((start, Bound::Unbounded))
            .take_while(|(key, _)| key.starts_with(prefix))
            .take(limit)
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect())
    }

    async fn commit(&self, changes: Changes) -> Result<Outcome, EngineError> {
        changes.check_sizes()?;
        self.ping().await?;
        let mut records = self.records();
        let holds = changes.expect.iter().all(|expect| match expect {
            Expect::Absent(key) => !records.contains_key(key),
            Expect::Value(key, value) => records.get(key) == Some(value),
        });
        if !holds {
            return Ok(Outcome::Conflict);
        }
        records.extend(changes.put);
        for key in &changes.delete {
            records.remove(key);
        }
        self.counters.advance(&changes.moves);
        Ok(Outcome::Committed)
    }

    fn is_shared(&self) -> bool {
        self.shared.load(Ordering::SeqCst)
    }

    fn counters(&self) -> &Counters {
        &self.counters
    }

    async fn ping(&self) -> Result<(), EngineError> {
        if self.refusing.load(Ordering::SeqCst) {
            return Err(EngineError::Unwritable("writes are switched off".to_owned()));
        }
        Ok(())
    }
}
