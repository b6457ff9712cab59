//! The store: atomic, durable operations on domain objects over an [`engine::Engine`].
//!
//! Engine details do not leave this module, and it does not depend on HTTP.
//!
//! A rule that must hold under races (a code is used once, a refresh token rotates once) is a
//! single commit that expects the bytes the decision was based on. The loser of a race gets
//! [`Committed::Conflict`], loads the records again and decides again.

mod access;
pub mod barrier;
mod certificates;
pub mod cluster;
mod commit_turn;
pub mod engine;
mod error;
mod format;
mod guarded;
pub mod memory;
pub mod postgres;
pub mod sealer;
pub mod sled;
mod subjects;
mod sweep;

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::path::Path;
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use arc_swap::ArcSwapOption;
use serde::de::DeserializeOwned;
use tokio::task::JoinSet;

use crate::cluster::counts::BoundedCount;
use crate::engine::{Changes, Engine, EngineError, Key, Outcome, Value};
use crate::guarded::CommitGuard;
use crate::sealer::Sealer;
use sealgate_domain::key_ring::TokenHolder;
use sealgate_domain::user::Subject;

pub use certificates::{CertificatePart, CertificatePartError};
pub use cluster::counts::PeopleCount;
pub use cluster::leases::{Fence, LEASE_LENGTH, Lease, LeaseName};
pub use error::{Committed, StoreError};
pub use format::intake::ExportRecord;
pub use format::record::Loaded;
pub use format::table::Table;
pub use format::transfer::Position;
pub use format::transfer::export_format;
pub use format::{FormatRange, RecordChange, VersionStep, add_step};
pub use subjects::account_links::AddressLeft;
pub use subjects::app_passwords::AppPasswordAdded;
pub use subjects::audit::AuditPage;
pub use subjects::audit::AuditRecord;
pub use subjects::factors::FactorsChanged;
pub use subjects::forms::{Form, MAX_FORM_BYTES};
pub use subjects::grants::Ended;
pub use subjects::grants::GrantFilter;
pub use subjects::interactions::SignInAttempt;
pub use subjects::registrations::Registered;
pub use subjects::registry::UsersFound;
pub use subjects::registry::{AddOutcome, RenameOutcome};
pub use subjects::revocations::Revocation;
pub use subjects::submissions::SubmissionState;
pub use sweep::{SweepPlace, Swept};

/// Maximum number of consecutive conflicts before a change fails. Each means that another commit
/// won.
const MAX_CONFLICTS: usize = 64;

/// Number of records per scan in operations on many records.
const PAGE: usize = 256;

/// The access counters of all users at one moment: see [`Store::access_counters`].
#[derive(Debug)]
pub struct AccessCounters(engine::CounterReading);

impl AccessCounters {
    pub fn get(&self, subject: Subject) -> u64 {
        self.0.sum(access::of_person(subject))
    }
}

/// State that a decision depends on: see [`Store::basis`].
#[derive(Debug)]
pub struct ReadSnapshot {
    current: engine::Current,
    epoch: u64,
}

/// The sealer, and the maximum number of stored forms.
#[derive(Debug)]
struct Sealing {
    sealer: Sealer,
    most_forms: usize,
}

/// Cached sizes of the audit log.
#[derive(Debug, Default)]
struct AuditCounts {
    /// Stored records per age index: the last count plus later additions.
    kept: [AtomicUsize; 2],
    counted: Mutex<Option<Instant>>,
}

/// Handle to the store. Clones share all state.
#[derive(Clone)]
pub struct Store {
    engine: Arc<dyn Engine>,
    /// Conditions of every commit through this handle.
    guard: Option<Arc<CommitGuard>>,
    /// Whether commits are the server's own work, which the guard does not block.
    is_for_server: bool,
    /// Number of open interactions; `most_interactions` is the maximum.
    interactions: Arc<BoundedCount>,
    most_interactions: usize,
    /// Number of stored forms.
    forms: Arc<BoundedCount>,
    sealing: Option<Arc<Sealing>>,
    registrations: Arc<BoundedCount>,
    /// Number of self-registrations that are not confirmed yet.
    pending_registrations: Arc<BoundedCount>,
    /// Number of queued e-mails.
    outbox: Arc<BoundedCount>,
    /// Number of the next revocation that this process starts.
    revocations: Arc<AtomicU64>,
    trail: Arc<AuditCounts>,
    /// The node whose own keys the key ring contains, if each node has its own token.
    node: Option<String>,
    /// Reason why this process makes no decisions although the store answers.
    held_back: Arc<ArcSwapOption<String>>,
}

impl Store {
    /// Opens the store over this engine.
    ///
    /// Unless nodes share the store, older programs can no longer open it afterwards.
    ///
    /// # Errors
    /// [`StoreError::Newer`], or when the engine cannot be read or written.
    pub async fn open(engine: Arc<dyn Engine>, most_interactions: usize) -> Result<Self, StoreError> {
        let store = Self::over(engine, most_interactions);
        store.settle_format().await?;
        if store.is_shared() {
            store.follow_counts().await?;
        }
        if !store.interactions.is_followed() {
            store.interactions.set(store.count_interactions().await?);
            store.outbox.set(store.count(Table::Outbox).await?);
            store.pending_registrations.set(store.count(Table::PendingRegistration).await?);
        }
        Ok(store)
    }

    /// Opens the store for reading only, without raising its format.
    ///
    /// The program that wrote it can still open it afterwards.
    ///
    /// # Errors
    /// [`StoreError::Newer`], or when the engine cannot be read.
    pub async fn open_for_export(engine: Arc<dyn Engine>) -> Result<Self, StoreError> {
        let store = Self::over(engine, 0);
        store.format().await?;
        Ok(store)
    }

    fn over(engine: Arc<dyn Engine>, most_interactions: usize) -> Self {
        Self {
            engine,
            guard: None,
            is_for_server: false,
            interactions: Arc::default(),
            most_interactions,
            forms: Arc::default(),
            sealing: None,
            registrations: Arc::default(),
            pending_registrations: Arc::default(),
            outbox: Arc::default(),
            // Random start: another process may start a revocation of the same user in the same
            // second.
            revocations: Arc::new(AtomicU64::new(RandomState::new().build_hasher().finish())),
            trail: Arc::default(),
            node: None,
            held_back: Arc::default(),
        }
    }

    /// Returns the store as seen by a node whose token has its own keys: see [`Store::key_ring`].
    #[must_use]
    pub fn of_node(self, holder: Option<&TokenHolder>) -> Self {
        Self { node: holder.map(|holder| holder.node.clone()), ..self }
    }

    /// Checks whether the store accepts writes now.
    ///
    /// # Errors
    /// The error that a write would return.
    pub async fn ping(&self) -> Result<(), StoreError> {
        Ok(self.engine.ping().await?)
    }

    /// Copies all records to a new directory and returns their number: see [`Engine::copy_to`].
    ///
    /// # Errors
    /// When the engine makes no copy.
    pub async fn copy_to(&self, directory: &Path) -> Result<usize, StoreError> {
        Ok(self.engine.copy_to(directory).await?)
    }

    /// Returns a number that grows whenever any access may have been revoked.
    pub fn epoch(&self) -> u64 {
        self.engine.counters().total()
    }

    /// Returns a number that grows whenever access of this user, or of everyone, may have been
    /// revoked.
    ///
    /// A cache of positive decisions reads it before the records, stores it with the decision, and
    /// reads the records again once the number has changed.
    pub fn access_counter(&self, subject: Subject) -> u64 {
        self.engine.counters().sum(access::of_person(subject))
    }

    /// Returns [`Store::access_counter`] of all users at this moment.
    ///
    /// For callers that learn the user only from the records they read.
    pub fn access_counters(&self) -> AccessCounters {
        AccessCounters(self.engine.counters().snapshot())
    }

    /// Returns the current state for a decision, before the first read of cached or stored data.
    ///
    /// Pass it to [`Store::ensure_current`] once the decision is made.
    ///
    /// # Errors
    /// [`EngineError::Stale`]: no decision can be made now.
    pub fn basis(&self) -> Result<ReadSnapshot, StoreError> {
        if let Some(cause) = &*self.held_back.load() {
            return Err(EngineError::Stale(cause.to_string()).into());
        }
        // In this order: a change between the two reads is detected.
        let epoch = self.epoch();
        Ok(ReadSnapshot { current: self.engine.current()?, epoch })
    }

    /// Blocks decisions in this process for the given cause, or allows them again without one.
    ///
    /// Returns whether the cause changed.
    pub fn hold_back(&self, cause: Option<String>) -> bool {
        let next = cause.map(Arc::new);
        self.held_back.swap(next.clone()) != next
    }

    /// Checks whether a decision based on this state may be applied.
    ///
    /// Call it last. The process may have been suspended for minutes after it read the counters,
    /// and the next heartbeat proves nothing about the records read before.
    ///
    /// # Errors
    /// [`EngineError::Stale`]: access may have been revoked meanwhile.
    pub fn ensure_current(&self, basis: &ReadSnapshot) -> Result<(), StoreError> {
        if basis.current.holds() {
            return Ok(());
        }
        self.engine.current()?;
        if self.epoch() == basis.epoch {
            return Ok(());
        }
        Err(EngineError::Stale("access rights changed during the decision".to_owned()).into())
    }

    /// Returns the number of processes that share the store, including this one.
    pub fn nodes(&self) -> u32 {
        self.engine.nodes()
    }

    async fn load<T: DeserializeOwned>(&self, key: Key) -> Result<Option<Loaded<T>>, StoreError> {
        let bytes = self.engine.get(&key).await?;
        bytes.map(|bytes| format::record::decode(&key, bytes)).transpose()
    }

    /// Returns whether other nodes use the same store.
    pub fn is_shared(&self) -> bool {
        self.engine.is_shared()
    }

    /// Commits changes to the engine under the guard, if any.
    ///
    /// All other changes use [`Store::commit_unguarded`]; see [`access`] and [`guarded`].
    async fn commit(&self, changes: Changes) -> Result<Committed, StoreError> {
        match &self.guard {
            Some(guard) if !self.is_for_server => self.commit_under(guard, changes).await,
            _ => self.commit_unguarded(changes).await,
        }
    }

    /// Commits work of the server itself, even if the session that caused it has ended.
    async fn commit_unguarded(&self, changes: Changes) -> Result<Committed, StoreError> {
        commit_to(self.engine.as_ref(), changes).await
    }

    /// Returns the bytes of a record as a commit stores them, for later expectations.
    fn as_kept(&self, key: &[u8], bytes: Value) -> Result<Value, StoreError> {
        format::record::in_format(key, bytes, self.engine.format().written(format::newest()))
    }

    /// Runs several commits concurrently, so that the engine can batch them.
    ///
    /// Returns their outcomes in the same order.
    async fn commit_all(&self, all: Vec<Changes>) -> Result<Vec<Committed>, StoreError> {
        let mut outcomes = vec![Committed::Conflict; all.len()];
        let mut committing = JoinSet::new();
        for (number, changes) in all.into_iter().enumerate() {
            let store = self.clone();
            committing.spawn(async move { (number, store.commit(changes).await) });
        }
        let mut failed = None;
        while let Some(ended) = committing.join_next().await {
            match ended {
                Ok((number, Ok(outcome))) => outcomes[number] = outcome,
                Ok((_, Err(error))) => failed = Some(error),
                Err(error) => failed = Some(EngineError::Unavailable(error.to_string()).into()),
            }
        }
        failed.map_or(Ok(outcomes), Err)
    }

    /// Commits changes without expectations, which cannot conflict.
    async fn write(&self, changes: Changes) -> Result<(), StoreError> {
        match self.commit(changes).await? {
            Committed::Yes => Ok(()),
            Committed::Conflict => Err(StoreError::Contended),
        }
    }

    /// Returns up to `limit` records of a table, after the given key.
    async fn page<T: DeserializeOwned>(
        &self,
        prefix: &[u8],
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<Vec<Loaded<T>>, StoreError> {
        let rows = self.engine.scan(prefix, after, limit).await?;
        rows.into_iter().map(|(key, bytes)| format::record::decode(&key, bytes)).collect()
    }

    async fn count(&self, table: Table) -> Result<usize, StoreError> {
        Ok(self.engine.count(&format::table::all(table)).await?)
    }
}

async fn commit_to(engine: &dyn Engine, mut changes: Changes) -> Result<Committed, StoreError> {
    changes.moves = access::moves(&changes);
    let format = engine.format().written(format::newest());
    if format < format::newest() {
        for (key, value) in &mut changes.put {
            *value = format::record::in_format(key, std::mem::take(value), format)?;
        }
    }
    Ok(match engine.commit(changes).await? {
        Outcome::Committed => Committed::Yes,
        Outcome::Conflict => Committed::Conflict,
    })
}
