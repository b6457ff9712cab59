//! The store: atomic, durable operations on domain objects, over an [`engine::Engine`].
//!
//! The crate hides the engine from its callers and does not depend on HTTP.
//!
//! A rule that must hold under races (a code is used once, a refresh token rotates once) is a
//! single commit. It expects the bytes on which the decision was based. The loser of a race gets
//! [`Committed::Conflict`], loads the records again, and decides again.

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
use sealgate_system::trace::{self, SpanDescription, inherit, span};

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
pub use subjects::definitions::{ClientDefinition, ClientsDefined, DefineOutcome};
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

/// Maximum number of consecutive conflicts before a change fails. After each conflict, another
/// commit has succeeded.
const MAX_CONFLICTS: usize = 64;

/// Number of records in one scan by an operation on many records.
const PAGE: usize = 256;

/// Access counters of all users at one moment: see [`Store::access_counters`].
#[derive(Debug)]
pub struct AccessCounters(engine::CounterReading);

impl AccessCounters {
    pub fn get(&self, subject: Subject) -> u64 {
        self.0.sum(access::of_person(subject))
    }
}

/// Basis of a decision: see [`Store::basis`].
#[derive(Debug)]
pub struct ReadSnapshot {
    current: engine::Current,
    epoch: u64,
}

/// Sealer, with the maximum number of stored forms.
#[derive(Debug)]
struct Sealing {
    sealer: Sealer,
    most_forms: usize,
}

/// Cached sizes of the audit log.
#[derive(Debug, Default)]
struct AuditCounts {
    /// Number of stored events per age index: the last count and the events added since.
    kept: [AtomicUsize; 2],
    counted: Mutex<Option<Instant>>,
}

/// Handle to the store. Clones share all state.
#[derive(Clone)]
pub struct Store {
    engine: Arc<dyn Engine>,
    /// Condition of every commit through this handle.
    guard: Option<Arc<CommitGuard>>,
    /// Whether commits are the server's own work, to which the guard does not apply.
    is_for_server: bool,
    /// Number of open interactions. `most_interactions` is the maximum.
    interactions: Arc<BoundedCount>,
    most_interactions: usize,
    /// Number of stored forms.
    forms: Arc<BoundedCount>,
    sealing: Option<Arc<Sealing>>,
    registrations: Arc<BoundedCount>,
    /// Number of self-registrations whose e-mail address is not confirmed yet.
    pending_registrations: Arc<BoundedCount>,
    /// Number of queued e-mails.
    outbox: Arc<BoundedCount>,
    /// Number of the next revocation that this process opens.
    revocations: Arc<AtomicU64>,
    trail: Arc<AuditCounts>,
    /// Name of this node, if each node has its own token. The key ring then contains the keys of
    /// each node.
    node: Option<String>,
    /// Reason why this process must not make decisions although the store answers.
    held_back: Arc<ArcSwapOption<String>>,
}

impl Store {
    /// Opens the store over this engine.
    ///
    /// Older programs can no longer open the store afterwards, unless nodes share it.
    ///
    /// # Errors
    /// [`StoreError::Newer`], or if the engine cannot be read or written.
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

    /// Opens the store only for reading. Does not raise the format, so the program that has written
    /// the store can still open it.
    ///
    /// # Errors
    /// [`StoreError::Newer`], or if the engine cannot be read.
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
            // A random start, because another process may open a revocation of the same user in the
            // same second.
            revocations: Arc::new(AtomicU64::new(RandomState::new().build_hasher().finish())),
            trail: Arc::default(),
            node: None,
            held_back: Arc::default(),
        }
    }

    /// Returns the store for a node whose token has its own keys: see [`Store::key_ring`].
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
    /// If the engine makes no copy.
    pub async fn copy_to(&self, directory: &Path) -> Result<usize, StoreError> {
        Ok(self.engine.copy_to(directory).await?)
    }

    /// Returns a number that grows whenever access of any user may have been revoked.
    pub fn epoch(&self) -> u64 {
        self.engine.counters().total()
    }

    /// Returns a number that grows whenever access of this user, or of all users, may have been
    /// revoked.
    ///
    /// A cache reads it before the records and stores it with the decision. Once the number has
    /// changed, the records must be read again.
    pub fn access_counter(&self, subject: Subject) -> u64 {
        self.engine.counters().sum(access::of_person(subject))
    }

    /// Returns [`Store::access_counter`] of all users at this moment.
    ///
    /// For callers that do not know the user before they read records.
    pub fn access_counters(&self) -> AccessCounters {
        AccessCounters(self.engine.counters().snapshot())
    }

    /// Returns the basis of a decision. Must be called before the first read of cached or stored
    /// data.
    ///
    /// The caller passes it to [`Store::ensure_current`] when the decision is made.
    ///
    /// # Errors
    /// [`EngineError::Stale`] if no decision can be made now.
    pub fn basis(&self) -> Result<ReadSnapshot, StoreError> {
        if let Some(cause) = &*self.held_back.load() {
            return Err(EngineError::Stale(cause.to_string()).into());
        }
        // In this order, so that a change between the two reads is detected.
        let epoch = self.epoch();
        Ok(ReadSnapshot { current: self.engine.current()?, epoch })
    }

    /// Blocks decisions in this process for the given cause. `None` allows them again.
    ///
    /// Returns whether the cause has changed.
    pub fn hold_back(&self, cause: Option<String>) -> bool {
        let next = cause.map(Arc::new);
        self.held_back.swap(next.clone()) != next
    }

    /// Checks whether a decision on this basis may still be applied.
    ///
    /// Must be called last. The process may have been suspended for minutes after it read the
    /// counters. The next heartbeat proves nothing about records that were read before.
    ///
    /// # Errors
    /// [`EngineError::Stale`] if access may have been revoked meanwhile.
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

    /// Commits changes under the guard of this handle, if it has one.
    ///
    /// [`access`] derives the counters that the commit increments.
    async fn commit(&self, changes: Changes) -> Result<Committed, StoreError> {
        match &self.guard {
            Some(guard) if !self.is_for_server => self.commit_under(guard, changes).await,
            _ => self.commit_unguarded(changes).await,
        }
    }

    /// Commits changes without the guard, even if the session that caused them has ended.
    async fn commit_unguarded(&self, changes: Changes) -> Result<Committed, StoreError> {
        span("commit", commit_to(self.engine.as_ref(), changes), |outcome| {
            let outcome = match outcome {
                Ok(Committed::Yes) => "committed",
                Ok(Committed::Conflict) => "conflict",
                Err(_) => "failed",
            };
            let attributes = vec![trace::text("sealgate.outcome", outcome)];
            SpanDescription { attributes, failed: outcome == "failed" }
        })
        .await
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
            committing.spawn(inherit(async move { (number, store.commit(changes).await) }));
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

    /// Commits changes without expectations, so that there is no conflict.
    async fn write(&self, changes: Changes) -> Result<(), StoreError> {
        match self.commit(changes).await? {
            Committed::Yes => Ok(()),
            Committed::Conflict => Err(StoreError::Contended),
        }
    }

    /// Returns up to `limit` records whose keys start with `prefix` and are greater than `after`.
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
